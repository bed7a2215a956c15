"""What computing an expression does besides giving its value."""

from __future__ import annotations

from tvmagic.ir import BufferLoad, Call, CallEffect, Op, PrimExpr, ProducerLoad, Visitor, handles


class _SideEffect(Visitor):
    def __init__(self) -> None:
        self.effect = CallEffect.EXPR_ANNOTATION

    @handles(BufferLoad, ProducerLoad)
    def load(self, node: PrimExpr) -> None:
        self.effect = max(self.effect, CallEffect.READ_STATE)
        self.visit_children(node)

    @handles(Call)
    def call(self, node: Call) -> None:
        effect = node.op.effect if isinstance(node.op, Op) else CallEffect.OPAQUE
        if effect in (CallEffect.SPECIAL_CALL_ARG, CallEffect.EMBED_INFO, CallEffect.CONTROL_JUMP):
            effect = CallEffect.OPAQUE
        self.effect = max(self.effect, effect)
        self.visit_children(node)


def side_effect(expr: PrimExpr) -> CallEffect:
    """The strongest effect among the calls and loads of `expr`: PURE or below means none."""
    visitor = _SideEffect()
    visitor.visit(expr)
    if visitor.effect <= CallEffect.PURE:
        return CallEffect.PURE
    return visitor.effect if visitor.effect <= CallEffect.UPDATE_STATE else CallEffect.OPAQUE
