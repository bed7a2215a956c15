"""LegalizePackedCalls: arguments of calls through C's convention for packed functions, as arrays on the stack."""

from __future__ import annotations

from tvmagic.ir import Call, Evaluate, IntImm, LetStmt, PrimExpr, PrimFunc, SeqStmt, Stmt, StmtMutator, Var, handles
from tvmagic.ir.query import is_call
from tvmagic.tir.transform.calls.bound_arguments import DATA, DEVICE_ID, DEVICE_TYPE
from tvmagic.tir.transform.calls.nest import CPU, alloca, set_field
from tvmagic.tir.transform.declaration import tir_pass


@tir_pass("tir.LegalizePackedCalls")
def LegalizePackedCalls(func: PrimFunc) -> PrimFunc:
    """Wrap each argument of `call_cpacked` that is not a parameter of the function in an array on the stack."""
    return func.with_body(_Legalizer(func.params).visit(func.body))


class _Legalizer(StmtMutator):
    def __init__(self, params: tuple[Var, ...]) -> None:
        self.params, self.count = params, 0

    @handles(Evaluate)
    def evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        if not is_call(call, "tir.tvm_call_cpacked"):
            return node
        before: list[Stmt] = []
        arrays: list[Var] = []
        args: list[PrimExpr] = [call.args[0]]
        for arg in call.args[1:]:
            if any(arg is param for param in self.params):
                args.append(arg)
                continue
            array = Var(f"tvm_value_{self.count}", "handle")
            self.count += 1
            arrays.append(array)
            args.append(array)
            for field, value in ((DATA, arg), (DEVICE_TYPE, IntImm("int32", CPU)), (DEVICE_ID, IntImm("int32", 0))):
                before.append(set_field(array, 0, field, value, "handle"))
        stmt: Stmt = SeqStmt.flatten(*before, Evaluate(Call(call.dtype, call.op, args), node.span))
        for array in arrays:
            stmt = LetStmt(array, alloca("array", 1), stmt)
        return stmt
