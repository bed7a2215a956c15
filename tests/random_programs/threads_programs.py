"""Random programs of threads and blocks of a GPU, as OpenCL C run by an implementation of OpenCL that is not ours.

A seed's program is one of tensor expressions, and its loops are bound to threads wherever that is accepted. Its PTX is
assembled for several of NVIDIA's architectures, too; `without` may name `ptx`.
"""

from __future__ import annotations

from typing import Any

import elsewhere_programs
import te_programs

ARCHITECTURES = ("sm_70", "sm_80", "sm_90", "sm_100")


class Schedules(te_programs.Schedules):
    """Schedules that launch threads."""

    always_threads = True


class Case(elsewhere_programs.Elsewhere, te_programs.Case):
    """The program of a seed, whose schedule launches threads."""

    schedules = Schedules

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        super().__init__(seed, without)
        self.target, self.bounds = "opencl", False

    def functions(self) -> list[Any]:
        if "ptx" not in self.program.without:
            self.assemble()
        return super().functions()

    def assemble(self) -> None:
        """Raise `Wrong` unless ptxas accepts the program's PTX; what has no PTX is left alone."""
        from outcomes import Unavailable, Wrong

        from tvmagic.errors import BuildError
        from tvmagic.runners.ptx import needs_of
        from tvmagic.tools import MissingTool

        call = self.source.lines[-1].removeprefix("f = ")
        for arch in ARCHITECTURES:
            try:
                built = self.source.get(call.replace("'opencl'", f"'nvptx -arch={arch}'"))
                text = built.get_source("asm")
            except BuildError:  # sizes of shared memory that are variables, functions of CUDA's library
                return
            try:
                needs_of(text, built.target)
            except MissingTool as error:
                raise Unavailable(str(error)) from error
            except BuildError as error:
                raise Wrong("ptx", str(error)) from error
