"""Random programs of threads and blocks of a GPU, as OpenCL C run by an implementation of OpenCL that is not ours.

A seed's program is one of tensor expressions, and its loops are bound to threads wherever that is accepted.
"""

from __future__ import annotations

import elsewhere_programs
import te_programs


class Schedules(te_programs.Schedules):
    """Schedules that launch threads."""

    always_threads = True


class Case(elsewhere_programs.Elsewhere, te_programs.Case):
    """The program of a seed, whose schedule launches threads."""

    schedules = Schedules

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        super().__init__(seed, without)
        self.target, self.bounds = "opencl", False
