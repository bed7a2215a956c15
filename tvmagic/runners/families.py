"""The families of targets whose code can be run here, and what runs them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.target import Target

# Runs the entry function of a built module on arrays, and writes its results into them; may give a remark on the run.
Runner = Callable[[Any, Sequence[Any]], str | None]

# The file that registers the runners of each family.
FILES = {
    "native": "tvmagic.runners.native",
    "aarch64": "tvmagic.runners.qemu",
    "aarch64-sve": "tvmagic.runners.qemu",
    "riscv64": "tvmagic.runners.qemu",
    "riscv64-v": "tvmagic.runners.qemu",
    "wasm32": "tvmagic.runners.wasm",
    "opencl": "tvmagic.runners.opencl",
    "nvptx64": "tvmagic.runners.ptx",
}
FAMILIES = tuple(FILES)


@dataclass(frozen=True)
class Way:
    """A way of running code: its name in words (`qemu-riscv64, vectors of 256 bits`), the runner, and which targets of
    its family it is for."""

    name: str
    run: Runner
    takes: Callable[[Target], bool]


_WAYS: dict[str, list[Way]] = {}


def runner(family: str, name: str, takes: Callable[[Target], bool] = lambda target: True) -> Callable[[Runner], Runner]:
    """Register a runner for the targets of a family, or for those of them that it `takes`; `name` says in words by what
    they are run.

    Where a family has several, a check uses all of them, in this order.
    """

    def register(function: Runner) -> Runner:
        _WAYS.setdefault(family, []).append(Way(name, function, takes))
        return function

    return register


def family_of(target: Target) -> str:
    """The family of a target, by its kind, its architecture, and whether it has scalable vectors; empty if it is none of them."""
    if target.is_host:
        return "native"
    return target.family.runs_as(target)


def ways(target: Target) -> list[Way]:
    """All ways to run code for a target here.

    Raises TVMagicError if there is none.
    """
    family = family_of(target)
    if not family or not _is_there(family):
        raise TVMagicError(
            f"there is nothing here that runs code for `{target}`",
            hint="what can be run are " + ", ".join(f"`{name}`" for name in FAMILIES[1:] if _is_there(name)),
            code="runner.no_runner",
        )
    importlib.import_module(FILES[family])
    return [way for way in _WAYS[family] if way.takes(target)]


def _is_there(family: str) -> bool:
    return importlib.util.find_spec(FILES[family]) is not None


def run(built: Any, arrays: Sequence[Any]) -> None:
    """Run the entry function of a built module on arrays, in the first way that there is for its target.

    Raises TVMagicError if there is no way, or the module does not say what it was compiled for, as one that was saved.
    """
    if built.target is None:
        raise TVMagicError(
            "the module does not say what it was compiled for",
            hint="build it again for its target",
            code="runner.unknown_target",
        )
    ways(built.target)[0].run(built, arrays)
