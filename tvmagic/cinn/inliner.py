"""How a block is written into its consumers, or into its producer, and taken away.

`LeafBlockRemovalPlan` finds what has to go; the inliners rewrite the tree. Names are CINN's. The
program is immutable here: a visitor gives back what belongs in a node's place instead of writing
through a pointer, so nothing has to be copied before it is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmagic import ir
from tvmagic.cinn.accesses import accesses, scope, with_regions
from tvmagic.cinn.cinn_form import listed
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.rewrite import BlockReuse


class LeafBlockRemovalPlan(ir.Visitor):
    """How to remove a block: which statement goes, and what takes its place.

    Going up from the block, the first list of more than one statement loses the child that holds the
    block; loops and blocks that held nothing else vanish with it. The plan only looks: calling it on
    the root gives `(source_stmt, target_stmt)`, the list as it is and as it will be.

        inliner.src_stmt, inliner.tgt_stmt = LeafBlockRemovalPlan(block)(root)

    Raises
    ------
    ScheduleError: the block is the only leaf of the root, so no such list exists.
    """

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.source_stmt: ir.SeqStmt | None = None
        self.target_stmt: ir.Stmt | None = None

    def __call__(self, root: ir.Block) -> tuple[ir.SeqStmt, ir.Stmt]:
        place = scope(root).part.get(self.block)
        if isinstance(root.body, ir.SeqStmt) and place is not None:
            self.leave_out(root.body, place)
        else:
            self.visit(root.body)
        if self.source_stmt is None or self.target_stmt is None:
            raise ScheduleError(
                f"block `{self.block.name_hint}` is the only leaf of `{root.name_hint}`, so it cannot be removed",
                self.block,
                code="cinn.compute_inline.only_leaf",
            )
        return self.source_stmt, self.target_stmt

    @ir.handles(ir.SeqStmt)
    def statement_list(self, node: ir.SeqStmt) -> None:
        for index, child in enumerate(node.seq):
            if accesses(child).holds(self.block):
                self.leave_out(node, index)
                return

    def leave_out(self, node: ir.SeqStmt, index: int) -> None:
        """Plan to take one child out of a list; a list further in takes its place."""
        if len(node.seq) > 1:
            self.source_stmt = node
            self.target_stmt = listed(*node.seq[:index], *node.seq[index + 1 :])  # a list stays one
        self.visit(node.seq[index])

    @ir.handles(ir.IfThenElse)
    def condition(self, node: ir.IfThenElse) -> None:
        for case in (node.then_case, node.else_case):
            if case is not None and accesses(case).holds(self.block):
                self.visit(case)

    @ir.handles(ir.For, ir.Block, ir.BlockRealize)
    def holder(self, node: ir.For | ir.Block | ir.BlockRealize) -> None:
        if node is not self.block:
            self.visit(node.block if isinstance(node, ir.BlockRealize) else node.body)

    @ir.handles(ir.PrimExpr, ir.BufferStore)
    def leaf(self, node: object) -> None:
        """No block is in here."""


class MappingVarToExprMutator(ir.Mutator):
    """Puts expressions in the place of variables."""

    def __init__(self, replacing_map: Mapping[ir.Var, ir.PrimExpr]) -> None:
        self.replacing_map = replacing_map

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.PrimExpr:
        return self.replacing_map.get(node, node)


def replace_expr(source: ir.PrimExpr, replaced: Sequence[ir.Var], candidates: Sequence[ir.PrimExpr]) -> ir.PrimExpr:
    """`source` with each variable of `replaced` replaced by the candidate at the same place."""
    if len(replaced) != len(candidates):
        raise ScheduleError(
            f"{len(replaced)} variables are to be replaced by {len(candidates)} expressions",
            source,
            code="cinn.compute_inline.wrong_variable_count",
        )
    # a variable that would be replaced by itself is left out
    replacing_map = {var: new for var, new in zip(replaced, candidates) if new is not var}
    return MappingVarToExprMutator(replacing_map).visit(source) if replacing_map else source


class BaseInliner(ir.Mutator):
    """What both directions share: the statement that is replaced, blocks' signatures, the substitution.

    `idx_vars` are the variables by which the inlined tensor is indexed; `src_stmt` and `tgt_stmt`
    come from a `LeafBlockRemovalPlan`.
    """

    def __init__(self, inlined_tensor: ir.Buffer, inlined_store: ir.BufferStore) -> None:
        self.inlined_tensor = inlined_tensor
        self.inlined_store = inlined_store
        self.idx_vars: tuple[ir.Var, ...] = ()
        self.idx_sub_var: list[ir.Var] = []
        self.idx_sub_expr: list[ir.PrimExpr] = []
        self.src_stmt: ir.SeqStmt | None = None
        self.tgt_stmt: ir.Stmt | None = None
        self.reuse = BlockReuse()

    def __call__(self, root: ir.Block) -> ir.Block:
        """The root with the tensor inlined.

        The target is rewritten first, on its own: the tree still holds the source, and where the walk
        over the tree meets that, it puts the target there as it then is, without looking inside.
        """
        if self.tgt_stmt is not None:
            self.tgt_stmt = self.visit(self.tgt_stmt)
        return self.visit(root)

    @ir.handles(ir.SeqStmt)
    def statement_list(self, node: ir.SeqStmt) -> ir.Stmt:
        if node is self.src_stmt:
            assert self.tgt_stmt is not None
            return self.tgt_stmt
        new = [self.visit(child) if self.concerns(child) else child for child in node.seq]
        return node if all(a is b for a, b in zip(new, node.seq)) else listed(*new)

    def concerns(self, stmt: ir.Stmt) -> bool:
        """Whether a statement has anything to rewrite: the tensor, or the source."""
        found = accesses(stmt)
        return self.inlined_tensor in found.loads or self.inlined_tensor in found.stores

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        new = self.visit_children(node)
        if any(region.buffer is self.inlined_tensor for region in (*node.reads, *node.writes)):
            new = with_regions(new)
        if any(buffer is self.inlined_tensor for buffer in new.alloc_buffers):
            left = tuple([b for b in new.alloc_buffers if b is not self.inlined_tensor])
            new = new.replace(alloc_buffers=left)
        self.reuse.note(node, new)
        return new

    def set_index_substitution(self, indices: Sequence[ir.PrimExpr]) -> None:
        """Pair the variables that index the inlined tensor with the indices of one access of it."""
        if len(indices) != len(self.idx_vars):
            raise ScheduleError(
                f"`{self.inlined_tensor.name}` has {len(self.idx_vars)} indices, not {len(indices)}",
                code="cinn.compute_inline.wrong_index_count",
            )
        self.idx_sub_var = list(self.idx_vars)
        self.idx_sub_expr = list(indices)


def distinct_plain_variables(indices: Sequence[ir.PrimExpr]) -> tuple[ir.Var, ...] | None:
    """The indices where they are variables, each another one; else None."""
    variables = tuple([index for index in indices if isinstance(index, ir.Var)])
    return variables if len(variables) == len(indices) == len(set(variables)) else None


class ComputeInliner(BaseInliner):
    """Writes a producer into its consumers: each load of the tensor becomes the stored value."""

    def body_pattern_allow_inline(self) -> bool:
        """Whether the store's indices are distinct plain variables; sets `idx_vars`."""
        found = distinct_plain_variables(self.inlined_store.indices)
        self.idx_vars = found or ()
        return found is not None

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        node = self.visit_children(node)  # the tensor may be loaded in its own indices (a gather)
        return self.replace_inlined_tensor(node) if node.buffer is self.inlined_tensor else node

    def replace_inlined_tensor(self, load: ir.BufferLoad) -> ir.PrimExpr:
        """The stored value at the indices of a load."""
        self.set_index_substitution(load.indices)
        return replace_expr(self.inlined_store.value, self.idx_sub_var, self.idx_sub_expr)


class ReverseComputeInliner(BaseInliner):
    """Writes a consumer into its producer: the producer's store becomes the consumer's.

    `inlined_tensor` is what the producer stores, `inlined_store` the consumer's store, which loads it.
    """

    def __init__(self, inlined_tensor: ir.Buffer, inlined_store: ir.BufferStore, inlined_load: ir.BufferLoad) -> None:
        super().__init__(inlined_tensor, inlined_store)
        self.inlined_load = inlined_load

    def body_pattern_allow_inline(self) -> bool:
        """Whether the load's indices are distinct plain variables; sets `idx_vars`."""
        found = distinct_plain_variables(self.inlined_load.indices)
        self.idx_vars = found or ()
        return found is not None

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.BufferStore:
        if node.buffer is not self.inlined_tensor:
            return self.visit_children(node)
        return self.replace_target_tensor(node)

    def replace_target_tensor(self, store: ir.BufferStore) -> ir.BufferStore:
        """The consumer's store, at the place and with the value of one of the producer's."""
        self.set_index_substitution(store.indices)
        moved = self.inlined_store
        value = _LoadToValue(self.inlined_load, store.value, self.idx_sub_var, self.idx_sub_expr).visit(moved.value)
        indices = [replace_expr(index, self.idx_sub_var, self.idx_sub_expr) for index in moved.indices]
        return moved.replace(value=value, indices=tuple(indices))


class _LoadToValue(MappingVarToExprMutator):
    """Puts the producer's value in the place of the load, and its indices in that of the variables."""

    def __init__(
        self, load: ir.BufferLoad, value: ir.PrimExpr, replaced: Sequence[ir.Var], candidates: Sequence[ir.PrimExpr]
    ) -> None:
        super().__init__(dict(zip(replaced, candidates)))
        self.inlined_load, self.value = load, value

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        return self.value if node is self.inlined_load else self.visit_children(node)
