"""InlinePrivateFunctions: calls of functions that nobody outside the module can call become their bodies."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    BlockRealize,
    Call,
    Evaluate,
    GlobalVar,
    IRModule,
    Mutator,
    PrimExpr,
    PrimFunc,
    Stmt,
    handles,
    specialize,
)
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.convert_ssa import ConvertSSA
from tvmagic.tir.transform.uses import callees


def _recursive(mod: IRModule) -> set[GlobalVar]:
    """The functions that come to call themselves."""
    calls = {var: callees(func) for var, func in mod.functions.items()}
    found: set[GlobalVar] = set()
    for var, direct in calls.items():
        reached, stack = set[GlobalVar](), list(direct)
        while stack:
            callee = stack.pop()
            if callee not in reached:
                reached.add(callee)
                stack += calls.get(callee, ())
        if var in reached:
            found.add(var)
    return found


def _can_be_inlined(func: PrimFunc) -> bool:
    """A function without a name outside, without buffers as arguments, and lowered: blocks cannot be there twice."""
    is_private = "global_symbol" not in func.attrs
    return is_private and not func.buffer_map and not isinstance(func.body, BlockRealize)


class _Inliner(Mutator):
    """`kept` gets the functions that are still called, inside expressions or for another target."""

    def __init__(self, functions: dict[GlobalVar, PrimFunc]) -> None:
        self.functions, self.kept = functions, set[GlobalVar]()
        self.target: Any = None

    def function(self, func: PrimFunc) -> PrimFunc:
        self.target = func.attrs.get("target")
        return func.with_body(self.visit(func.body))

    @handles(Evaluate)
    def evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        callee = self.functions.get(call.op) if isinstance(call, Call) and isinstance(call.op, GlobalVar) else None
        if callee is None or not isinstance(call, Call):
            return self.visit_children(node)
        target = callee.attrs.get("target")
        if target is not None and self.target is not None and str(target) != str(self.target):
            return self.visit_children(node)
        if len(callee.params) != len(call.args):
            name = getattr(call.op, "name_hint", "")
            raise TVMagicError(
                f"`{name}` has {len(callee.params)} parameters and is called with {len(call.args)}", node=node
            )
        note("inline", f"`{getattr(call.op, 'name_hint', '')}` is written out", node=node)
        return self.visit(specialize(callee, dict(zip(callee.params, call.args))).body)

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        if isinstance(node.op, GlobalVar):
            self.kept.add(node.op)
        return self.visit_children(node)


@tir_pass("tir.InlinePrivateFunctions")
def InlinePrivateFunctions(mod: IRModule) -> IRModule:
    """Write functions without a `global_symbol` out where they are called as statements; those not called any more go.

    Functions with buffers as arguments, with blocks, or that call themselves stay.
    """
    recursive = _recursive(mod)
    functions = {v: f for v, f in mod.functions.items() if _can_be_inlined(f) and v not in recursive}
    if not functions:
        return mod
    inliner = _Inliner(functions)
    changed = {var: inliner.function(func) for var, func in mod.functions.items()}
    if all(changed[var] is func for var, func in mod.functions.items()):
        return mod
    gone = functions.keys() - inliner.kept
    return ConvertSSA()(mod.replace(functions={v: f for v, f in changed.items() if v not in gone}))
