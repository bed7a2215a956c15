"""PrintIR: prints the module at its place in a pipeline."""

from __future__ import annotations

from tvmagic.ir import IRModule
from tvmagic.passes import Pass, PassContext


def PrintIR(header: str = "", show_metadata: bool = False) -> Pass:
    """Print the module, under a line with `header`, and pass it on."""

    def run(mod: IRModule, context: PassContext) -> IRModule:
        print(f"PrintIR({header}):\n{mod.script()}")
        return mod

    return Pass("PrintIR", run)
