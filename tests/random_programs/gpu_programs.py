"""Random programs of threads and blocks as PTX, run by the NVIDIA GPU of this machine (without one: as OpenCL C).

They are the programs of `threads_programs`.
"""

from __future__ import annotations

from typing import Any

import threads_programs


class Case(threads_programs.Case):
    """The program of a seed as PTX."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        super().__init__(seed, without | {"ptx"})
        self.target = "nvptx -arch=sm_70"

    def functions(self) -> list[Any]:
        from outcomes import Refused

        from tvmagic.errors import BuildError

        try:
            self.source.names["f"].get_source("asm")
        except BuildError as error:  # sizes of shared memory that are variables, functions of CUDA's library
            raise Refused(str(error)) from error
        return super().functions()
