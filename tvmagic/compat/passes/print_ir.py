"""PrintIR: prints the module at its place in a pipeline."""

from __future__ import annotations

from tvmagic.ir import IRModule
from tvmagic.tir.transform.declaration import tir_pass


@tir_pass("PrintIR")
def PrintIR(mod: IRModule, header: str = "", show_metadata: bool = False) -> IRModule:
    """Print the module, under a line with `header`, and pass it on; with `show_metadata` also what has no text of its own."""
    print(f"PrintIR({header}):\n{mod.script(show_meta=show_metadata)}")
    return mod
