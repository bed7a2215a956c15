"""The primitive that computes indices beforehand and keeps them in buffers."""

from __future__ import annotations

from dataclasses import dataclass

from tvmagic.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    For,
    ForKind,
    IntImm,
    IterVar,
    Mutator,
    PointerType,
    PrimExpr,
    PrimType,
    SeqStmt,
    Stmt,
    Var,
    Visitor,
    handles,
    post_order_visit,
    structural_equal,
    structural_hash,
    substitute,
)
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import check_storage_scope
from tvmagic.tir.schedule.instruction import BlockRef, Blocks, primitive
from tvmagic.tir.schedule.primitives.reindex import point
from tvmagic.tir.schedule.requirements import scope_root
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState

TRUE = IntImm("bool", 1)


@dataclass
class _Index:
    """An expression that indexes or guards an access: how often it stands there, how large it is."""

    value: PrimExpr
    count: int
    size: int


class _Finder(Visitor):
    """The index expressions of a block that are more than a variable, and the conditions of choices."""

    def __init__(self) -> None:
        self.found: dict[int, list[_Index]] = {}
        self.order: list[_Index] = []

    def add(self, value: PrimExpr) -> None:
        if isinstance(value, (Var, IntImm)):
            return
        same = self.found.setdefault(structural_hash(value, map_free_vars=False), [])
        for known in same:
            if structural_equal(known.value, value):
                known.count += 1
                return
        nodes: list[int] = []
        post_order_visit(value, lambda n: nodes.append(1))
        index = _Index(value, 1, len(nodes))
        same.append(index)
        self.order.append(index)

    @handles(BufferLoad, BufferStore)
    def access(self, node: BufferLoad | BufferStore) -> None:
        for index in node.indices:
            self.add(index)
        if isinstance(node, BufferStore):
            self.visit(node.value)

    @handles(Call)
    def call(self, node: Call) -> None:
        if getattr(node.op, "name", "") != "tir.if_then_else":
            self.visit_children(node)
            return
        self.add(node.args[0])
        self.visit(node.args[1])
        self.visit(node.args[2])

    @handles(BlockRealize)
    def inner(self, node: BlockRealize) -> None:
        return None


class _UseIndices(Mutator):
    """Loads the indices from their buffers."""

    def __init__(self, cached: list[tuple[PrimExpr, BufferLoad]]) -> None:
        self.cached = cached

    def replaced(self, value: PrimExpr) -> PrimExpr:
        for old, new in self.cached:
            if structural_equal(old, value):
                return new
        return value

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        indices = tuple([self.replaced(i) for i in node.indices])
        return node if all(a is b for a, b in zip(indices, node.indices)) else node.replace(indices=indices)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> BufferStore:
        indices = tuple([self.replaced(i) for i in node.indices])
        return node.replace(indices=indices, value=self.visit(node.value))

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        if getattr(node.op, "name", "") != "tir.if_then_else":
            return self.visit_children(node)
        condition, taken, other = node.args
        return node.replace(args=(self.replaced(condition), self.visit(taken), self.visit(other)))


def _stage(number: int, index: _Index, block: Block, storage_scope: str) -> tuple[Buffer, Stmt, Block, list[Var]]:
    """The buffer of an index's values, the loops that fill it, their block, and the variables it is at."""
    variables: set[Var] = set()
    post_order_visit(index.value, lambda n: variables.add(n) if isinstance(n, Var) else None)
    used = [v for v in block.iter_vars if v.var in variables]
    name = f"index_var_{number}"
    dtype = index.value.dtype
    data = Var(name, PointerType(PrimType(dtype), storage_scope))
    shape = [v.dom.min + v.dom.extent for v in used if v.dom is not None]
    # TVM declares a single stride, of 1, whatever the rank; it is not used where the rank is another
    buffer = Buffer(data, dtype, shape, [IntImm("int32", 1)], None, name)
    fresh = [Var(f"v{i}", v.var.dtype) for i, v in enumerate(used)]
    iters = [IterVar(v.dom, var, IterVar.DataPar) for v, var in zip(used, fresh)]
    value = substitute(index.value, {v.var: var for v, var in zip(used, fresh)})
    stage = Block(iters, [], [BufferRegion(buffer, point(fresh))], f"index_{number}", BufferStore(buffer, value, fresh))
    loops = [Var(f"ax{i}", v.var.dtype) for i, v in enumerate(used)]
    nest: Stmt = BlockRealize(loops, TRUE, stage)
    for var, it in zip(reversed(loops), reversed(iters)):
        assert it.dom is not None
        nest = For(var, it.dom.min, it.dom.extent, ForKind.SERIAL, nest)
    return buffer, nest, stage, [v.var for v in used]


@primitive("CacheIndex")
def cache_index(state: ScheduleState, block: BlockRef, storage_scope: str, cse_thresh: int = 0) -> Blocks:
    """Compute the indices that a block uses beforehand, each into a buffer of its own, and load them.

    Conditions of `if_then_else` count as indices. `cse_thresh` is how often an expression must stand in the
    block at least. The result is the blocks that compute the indices; there are none, and nothing changes,
    where all indices are plain variables.
    """
    check_storage_scope(storage_scope)
    root = scope_root(state, block)
    finder = _Finder()
    finder.visit(block.block.body)
    names = {v.var for v in block.block.iter_vars}
    chosen = [i for i in finder.order if i.count >= cse_thresh and _depends_on(i.value, names)]
    if not chosen:
        return []
    chosen.sort(key=lambda i: -i.size)
    stages = [_stage(n, i, block.block, storage_scope) for n, i in enumerate(chosen)]
    cached = [(i.value, BufferLoad(buffer, at)) for i, (buffer, _, _, at) in zip(chosen, stages)]
    new = block.block.replace(body=_UseIndices(cached).visit(block.block.body))
    top, place = _top_of(block, root)
    body = root.block.body
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    parts[place:place] = [nest for _, nest, _, _ in stages]
    placed = root.block.replace(
        body=SeqStmt.flatten(*parts),
        alloc_buffers=(*root.block.alloc_buffers, *[buffer for buffer, _, _, _ in stages]),
    )
    scope = _PutBlock(block.block, new).visit(placed)
    reuse = BlockReuse()
    reuse.note(block.block, new)
    reuse.note(root.block, scope)
    state.replace(root, scope, reuse)
    assert top.stmt is not None
    return [state.sref_of(stage) for _, _, stage, _ in stages]


class _PutBlock(Mutator):
    def __init__(self, old: Block, new: Block) -> None:
        self.old, self.new = old, new

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> BlockRealize:
        return node.replace(block=self.new) if node.block is self.old else node


def _depends_on(value: PrimExpr, names: set[Var]) -> bool:
    """Whether an index is made of the block's variables alone, and of one at least."""
    used: set[Var] = set()
    loads: list[int] = []
    post_order_visit(value, lambda n: used.add(n) if isinstance(n, Var) else None)
    post_order_visit(value, lambda n: loads.append(1) if isinstance(n, BufferLoad) else None)
    return bool(used) and used <= names and not loads


def _top_of(block: StmtSRef, root: StmtSRef) -> tuple[StmtSRef, int]:
    """The nest of the scope that holds the block, and its place there."""
    top = block
    while top.parent is not root:
        assert top.parent is not None
        top = top.parent
    return top, max(top.seq_index, 0)
