"""PrintIR: prints the module at its place in a pipeline."""

from __future__ import annotations

from tvmagic.ir import IRModule
from tvmagic.tir.transform.declaration import tir_pass


@tir_pass("PrintIR")
def PrintIR(mod: IRModule, header: str = "", show_metadata: bool = False) -> IRModule:
    """Print the module, under a line with `header`, and pass it on."""
    print(f"PrintIR({header}):\n{mod.script()}")
    return mod
