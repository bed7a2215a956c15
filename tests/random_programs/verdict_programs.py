"""Random legal programs, judged by the package's own check: a program that it calls wrong is a false alarm.

The cells of `cell_programs` and `notation_programs`, and the functions of `tir_programs`, with the schedules that these draw. The
arrays are those that the check draws.
"""

from __future__ import annotations

import random
from typing import Any

import cell_programs
import notation_programs
import tir_programs
from outcomes import Wrong, guarded_call

KINDS: dict[str, Any] = {
    "cell": cell_programs.Case,
    "notation": notation_programs.Case,
    "tir": tir_programs.Case,
}


class Case:
    """A legal program of a seed, and its schedules."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.seed = seed
        self.kind = random.Random(seed).choice([k for k in KINDS if k not in without])
        self.case = KINDS[self.kind](seed, without)

    def make(self) -> None:
        """Write and schedule the program."""
        self.case.make()

    def check(self) -> None:
        """Raise `Wrong` if the check calls a version wrong."""
        self.make()
        for version in guarded_call("version", self.versions):
            result = guarded_call("check", lambda version=version: version.operator.check(version.name, seed=self.seed))
            if result.ok is False:
                raise Wrong("verdict", f"{version.name}: {result}")

    def versions(self) -> list[Any]:
        """The plain loops, and the schedule that was drawn or that of `%auto`."""
        from tvmagic.operators import Operator, Version, operator
        from tvmagic.operators.scheduling import schedule
        from tvmagic.tune import auto

        if self.kind == "notation":
            op = operator("f", "\n".join(self.case.lines))
        elif self.kind == "cell":
            op = self.case.source.names["op"]
        else:
            op = Operator.from_prim_func("f", self.case.source.names["func"])
        versions = [op.version("plain")]
        if self.kind == "notation":
            op.add_version(Version(op, auto(op), "auto"))
            versions.append(op.version("auto"))
        elif self.case.calls:
            versions.append(schedule(op, "\n".join(self.case.calls), "drawn"))
        return versions

    def text(self) -> str:
        """The program, as a file that makes it."""
        return self.case.text()

    def holders(self) -> list[Any]:
        """Expressions for a shrinker."""
        return self.case.holders()
