"""Random programs with races of threads and lanes: `find_races` finds those of an oracle that runs the printed text.

A seed of 3 is a TE program with annotated loops, the others are loops as they are written.
"""

from __future__ import annotations

import importlib
import pathlib
import re
import sys
from collections import Counter
from typing import Any

from outcomes import Refused, Wrong, guarded_call

TESTS = pathlib.Path(__file__).resolve().parent.parent


class Case:
    """The program of a seed."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.seed, self.script = seed, ""

    def make(self) -> None:
        """Create the function."""
        sys.path[:0] = [str(TESTS / "support"), str(TESTS / "tir")]
        kind = getattr(importlib.import_module("race_programs"), "Loops" if self.seed % 3 else "Annotated")
        program = guarded_call("make", lambda: kind(self.seed))
        self.function = guarded_call("lower", program.function)
        self.script = self.function.script()

    def check(self) -> None:
        """Compare the races with those of the oracle."""
        self.make()
        from tvmagic.tir.analysis.races import find_races

        oracle: Any = importlib.import_module("race_oracle")

        try:
            wanted = Counter((kind, _plain(buffer)) for kind, _, buffer in oracle.races(self.script))
        except oracle.TooLong as error:
            raise Refused("too many accesses") from error
        found = guarded_call("find_races", lambda: find_races(self.function))
        certain = Counter((race.kind, _plain(race.buffer.name)) for race in found if race.certain)
        if certain != wanted:
            raise Wrong("result", f"missing {dict(wanted - certain)}, too many {dict(certain - wanted)}")
        if self.seed % 3 and (doubts := [str(race) for race in found if not race.certain]):
            raise Wrong("result", f"not decided: {doubts[0]}")

    def text(self) -> str:
        """The function as a file that runs by itself."""
        return f'from tvmagic.script import from_source\n\nfunc = from_source("""\n{self.script}\n""")\n'


def _plain(name: str) -> str:
    """The name of a buffer without what printing adds to it."""
    return re.sub(r"_\d+$", "", name.replace(".", "_"))
