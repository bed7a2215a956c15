"""The primitive that computes both sides of the conditions in a block and chooses, in place of branches."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import callee
from tvmagic.tir.blocks.domains import analyzer_at
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, primitive
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState

_BRANCH = "tir.if_then_else"


@primitive("SelectBranches")
def select_branches(state: ScheduleState, block: BlockRef) -> None:
    """Compute both sides of each `T.if_then_else` in a block and choose by `T.Select`.

    A branch cannot differ from lane to lane of a vector; a choice can, so that a block with conditions becomes
    vectors. (TVM has no such primitive.)

    Requires: the block has a `T.if_then_else`, and no block or `if` statement inside; both sides have no effect, divide no
    integers except by a number other than zero, and read inside their buffers for all values of the block's variables.

    Example
    -------
    `sch.select_branches("B")` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = T.if_then_else(A[v] > T.float32(1.0), A[v], T.float32(0.0))

    this:

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = T.Select(A[v] > T.float32(1.0), A[v], T.float32(0.0))
    """
    inside = _Inside(block, analyzer_at(block))
    inside.visit(block.block.body)
    if not inside.branches:
        raise ScheduleError(f"{block.label} has no `T.if_then_else`", block, code="select_branches.no_conditional")
    for branch in inside.branches:
        for side in branch.args[1:]:
            _Safe(block, inside.analyzer).visit(side)
    new = block.block.replace(body=_ToSelect().visit(block.block.body))
    reuse = BlockReuse()
    reuse.note(block.block, new)
    state.replace(block, new, reuse)


class _Inside(ir.Visitor):
    """The branches in a block's body."""

    def __init__(self, block: StmtSRef, analyzer: Analyzer) -> None:
        self.block, self.analyzer = block, analyzer
        self.branches: list[ir.Call] = []

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if callee(node) == _BRANCH:
            self.branches.append(node)
        self.visit_children(node)

    @ir.handles(ir.Block, ir.BlockRealize, ir.IfThenElse)
    def nested(self, node: ir.Block | ir.BlockRealize | ir.IfThenElse) -> None:
        raise ScheduleError(
            f"{self.block.label} has blocks or `if` statements inside",
            self.block,
            code="select_branches.nested_statements",
        )


class _Safe(ir.Visitor):
    """Raises if an expression cannot be computed whatever the condition around it is."""

    def __init__(self, block: StmtSRef, analyzer: Analyzer) -> None:
        self.block, self.analyzer = block, analyzer

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        for index, size in zip(node.indices, node.buffer.shape):
            if not (self.analyzer.can_prove(index >= 0) and self.analyzer.can_prove(index < size)):
                raise ScheduleError(
                    f"{self.block.label} reads buffer `{node.buffer.name}` at `{index}` in one branch, which may lie outside "
                    f"its {size} elements when the other one is taken",
                    self.block,
                    code="select_branches.load_outside_buffer",
                )
        self.visit_children(node)

    @ir.handles(ir.Div, ir.FloorDiv, ir.Mod, ir.FloorMod)
    def division(self, node: ir.Div | ir.FloorDiv | ir.Mod | ir.FloorMod) -> None:
        nonzero = isinstance(node.b, ir.IntImm) and node.b.value != 0
        if not node.dtype.is_float and not nonzero:
            raise ScheduleError(
                f"{self.block.label} divides by `{node.b}` in one branch, which may be zero when the other one is taken",
                self.block,
                code="select_branches.division_by_zero",
            )
        self.visit_children(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if side_effect(node) > ir.CallEffect.READ_STATE:
            raise ScheduleError(
                f"{self.block.label} calls `{node}` in a branch, which has effects",
                self.block,
                code="select_branches.call_with_effects",
            )
        self.visit_children(node)


class _ToSelect(ir.Mutator):
    """`T.Select` in place of `T.if_then_else`."""

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        node = self.visit_children(node)
        return ir.Select(*node.args, span=node.span) if callee(node) == _BRANCH else node
