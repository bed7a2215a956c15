"""Compiled code for other machines, run on this one: `run(built, arrays)`, and what there is to run it.

`built` is what `build(..., target=T)` gives for a target T, `arrays` are the function's arguments. A *runner* is a callable
`(built, arrays)` that runs the entry function of `built` and writes its results into the arrays; a text that it gives is
a remark on the run, such as its time. A file of this package for each way of running (`native`, `qemu`, `opencl`, ...)
registers its runners by the family of their target:

    @runner("wasm32", "wasmtime")
    def run(built: Module, arrays: Sequence[Any]) -> None: ...

Nothing of the package needs the tools; a runner raises `MissingTool`, which says what has the tool, when it is called.
`FILES` in `families.py` names the file that is imported for a family.
"""

from tvmagic.runners.families import FAMILIES, Way, family_of, run, runner, ways
from tvmagic.tools import MissingTool

__all__ = ["FAMILIES", "MissingTool", "Way", "family_of", "run", "runner", "ways"]
