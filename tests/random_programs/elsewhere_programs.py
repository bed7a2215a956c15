"""Random programs compiled for other machines, each run in all ways that there are for its target.

A seed's program is one of tensor expressions, a TensorIR function or a loop over elements that lie apart, in turn; it is compiled
for every target of `TARGETS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import strided_programs
import te_programs
import tir_programs

TARGETS = (
    "aarch64", "aarch64-sve", "aarch64-sve -vector-width=256", "riscv64", "wasm32", "x86-64-v2", "haswell", "x86-64-v4",
)  # fmt: skip


def target_named(name: str) -> str:
    """A target in full: a short name of the package, perhaps with options."""
    from tvmagic.target.names import target_text

    short, _, options = name.partition(" ")
    return f"{target_text(short)} {options}".strip()


class Elsewhere:
    """A case whose function is called by the runners for its target."""

    source: Any

    def functions(self) -> list[Any]:
        from outcomes import Unavailable

        from tvmagic.errors import TVMagicError
        from tvmagic.runners import MissingTool, ways

        built = self.source.names["f"]

        def call(way: Any, arrays: tuple[Any, ...]) -> None:
            try:
                way.run(built, arrays)
            except MissingTool as error:  # an emulator that is too old for some instructions
                raise Unavailable(str(error)) from error
            except TVMagicError as error:
                if "launches kernels more than" in error.message:
                    raise Unavailable(str(error)) from error
                raise

        return [lambda *arrays, way=way: call(way, arrays) for way in ways(built.target)]


class _Te(Elsewhere, te_programs.Case):
    pass


class _Tir(Elsewhere, tir_programs.Case):
    pass


class _Strided(Elsewhere, strided_programs.Case):
    pass


class Case:
    """The program of a seed, for each target; `targets` may name those that are meant, divided by blanks."""

    builds = len(TARGETS)

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.seed, self.without = seed, without

    def check(self) -> None:
        """Raise `Wrong` unless the program is right on every target."""
        from outcomes import Unavailable, Wrong

        for name in TARGETS:
            try:
                self.on(name).check()
            except Unavailable:
                continue
            except Wrong as error:
                raise Wrong(error.kind, f"{name}: {error}") from error

    def on(self, name: str) -> Any:
        """The program for one target, a case of `te`, `tir` or `strided`."""
        kinds = _Te, _Tir, _Strided
        case = kinds[self.seed % len(kinds)](self.seed // len(kinds), self.without)
        case.target = target_named(name)
        return case

    def of_one_target(self, outcome: Callable[[Any], str]) -> Any:
        """The program for the first target on which it fails, by its `outcome`; else for the first of all."""
        return self.on(next((name for name in TARGETS if outcome(self.on(name))), TARGETS[0]))
