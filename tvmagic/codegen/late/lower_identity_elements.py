"""Write the identity elements of min and max reductions of floats as infinities.

TVM writes the largest finite number as the initial value of a minimum, and so do the programs of all earlier passes. The identity element is
the infinity: the minimum of nothing but infinities is infinity. A number that a user writes keeps its value.
"""

from __future__ import annotations

from tvmagic.codegen.late.common import ExpressionMutator, census, late_pass
from tvmagic.ir import FloatImm, PrimFunc, handles
from tvmagic.ir.semantics import Neutral, plain
from tvmagic.passes import note


@late_pass("LowerIdentityElements")
def lower_identity_elements(func: PrimFunc) -> PrimFunc:
    """Write the identity elements of min and max reductions of floats as infinities."""
    return func.with_body(_Lowerer(func).visit(func.body)) if census(func.body).identities else func


class _Lowerer(ExpressionMutator):
    @handles(FloatImm)
    def number(self, node: FloatImm) -> FloatImm:
        if type(node.value) is not Neutral:
            return node
        note("late", f"wrote the identity element {node} as {plain(node.value)}", node)
        return FloatImm(node.dtype, float(plain(node.value)), span=node.span)
