"""The programs that schedules of CINN work on."""

from __future__ import annotations

from tvmagic.cinn.text.printer import cinn_text, numbered_root
from tvmagic.ir import IRModule, PrimFunc, Stmt
from tvmagic.ir.schedulable import Schedulable
from tvmagic.ir.views import viewed


@viewed("cinn program")
class ModuleExpr(Schedulable):
    """What a schedule works on: the bodies of a module's functions, in order."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod

    def lower(self) -> IRModule:
        """Return the module."""
        return self.mod

    def get_exprs(self) -> list[Stmt]:
        """The root block (its realize) of each function."""
        return [f.body for f in self.mod.functions.values() if isinstance(f, PrimFunc)]

    def __str__(self) -> str:
        functions = [f for f in self.mod.functions.values() if isinstance(f, PrimFunc)]
        return "\n".join(cinn_text(numbered_root(f, n), head=False) for n, f in enumerate(functions))
