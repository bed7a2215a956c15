"""The primitive that computes indices and other parts of a value beforehand and keeps them in buffers."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.iter_map.constraints import expr_size
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import variables_in
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import check_storage_scope
from tvmagic.tir.schedule.instruction import BlockRef, Blocks, primitive
from tvmagic.tir.schedule.primitives.reindex import point
from tvmagic.tir.schedule.requirements import scope_root
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState

TRUE = ir.IntImm("bool", 1)


@dataclass
class _Computation:
    """An expression without loads and effects: how often it is computed, how large it is."""

    value: ir.PrimExpr
    count: int
    size: int


def _is_computation(value: ir.PrimExpr) -> bool:
    """Whether an expression can be computed beforehand: it does something, and has no effect."""
    if isinstance(value, (ir.Var, ir.ConstExpr, ir.Ramp, ir.Broadcast)):
        return False
    return side_effect(value) <= ir.CallEffect.PURE


class _Largest(ir.Visitor):
    """The largest computations of an expression, in order."""

    def __init__(self) -> None:
        self.found: list[ir.PrimExpr] = []

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> None:
        if _is_computation(node):
            self.found.append(node)
        else:
            self.visit_children(node)


class _Terms:
    """Values by expressions; expressions with the same simplified form are one."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.known: dict[int, list[tuple[ir.PrimExpr, Any]]] = {}

    def _cache_entry(self, value: ir.PrimExpr) -> tuple[ir.PrimExpr, list[tuple[ir.PrimExpr, Any]]]:
        normal = self.analyzer.simplify(value)
        return normal, self.known.setdefault(ir.structural_hash(normal), [])

    def get(self, value: ir.PrimExpr) -> Any:
        normal, same = self._cache_entry(value)
        return next((kept for form, kept in same if ir.structural_equal(form, normal)), None)

    def set(self, value: ir.PrimExpr, kept: Any) -> None:
        normal, same = self._cache_entry(value)
        same.append((normal, kept))


class _Counter:
    """Chooses what is computed often enough; counts of what is not go to its direct parts."""

    def __init__(self, least: int, variables: set[ir.Var]) -> None:
        self.least, self.variables = least, variables
        self.terms = _Terms()
        self.pending: list[tuple[int, int, _Computation]] = []
        self.chosen: list[_Computation] = []
        self.added = 0

    def add(self, value: ir.PrimExpr, count: int) -> None:
        known = self.terms.get(value)
        if known is not None:
            known.count += count
            return
        size = expr_size(value)
        new = _Computation(value, count, size)
        heapq.heappush(self.pending, (-size, self.added, new))
        self.added += 1
        self.terms.set(value, new)

    def choose(self) -> list[_Computation]:
        """The computations to keep, the largest first."""
        while self.pending:
            _, _, largest = heapq.heappop(self.pending)
            if largest.count >= self.least and _depends_on(largest.value, self.variables):
                self.chosen.append(largest)
                continue
            parts = _Largest()
            parts.visit_children(largest.value)
            for part in parts.found:
                self.add(part, largest.count)
        return self.chosen


class _Stored(ir.Visitor):
    """The values that a block stores, not those of blocks in it."""

    def __init__(self) -> None:
        self.values: list[ir.PrimExpr] = []

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.values.append(node.value)

    @ir.handles(ir.BlockRealize)
    def inner(self, node: ir.BlockRealize) -> None:
        return None


class _UseComputed(ir.Mutator):
    """Loads what was computed beforehand, in the statements of a block."""

    def __init__(self, cached: _Terms) -> None:
        self.cached = cached

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        found = self.cached.get(node) if _is_computation(node) else None
        return self.visit_children(node) if found is None else found

    @ir.handles(ir.BlockRealize)
    def inner(self, node: ir.BlockRealize) -> ir.BlockRealize:
        return node


def _stage(
    number: int, index: _Computation, block: ir.Block, storage_scope: str
) -> tuple[ir.Buffer, ir.Stmt, ir.Block, list[ir.Var]]:
    """The buffer of an index's values, the loops that fill it, their block, and the variables it is at."""
    variables = set(variables_in(index.value))
    used = [v for v in block.iter_vars if v.var in variables]
    name = f"index_var_{number}"
    dtype = index.value.dtype
    data = ir.data_pointer(name, dtype, storage_scope)
    shape = [v.dom.min + v.dom.extent for v in used if v.dom is not None]
    # TVM declares a single stride, of 1, whatever the rank; it is not used where the rank is another
    buffer = ir.Buffer(data, dtype, shape, [ir.IntImm("int32", 1)], None, name)
    fresh = [ir.Var(f"v{i}", v.var.dtype) for i, v in enumerate(used)]
    iters = [ir.IterVar(v.dom, var, ir.IterVar.DataPar) for v, var in zip(used, fresh)]
    value = ir.substitute(index.value, {v.var: var for v, var in zip(used, fresh)})
    stage = ir.Block(
        iters, [], [ir.BufferRegion(buffer, point(fresh))], f"index_{number}", ir.BufferStore(buffer, value, fresh)
    )
    loops = [ir.Var(f"ax{i}", v.var.dtype) for i, v in enumerate(used)]
    nest: ir.Stmt = ir.BlockRealize(loops, TRUE, stage)
    for var, it in zip(reversed(loops), reversed(iters)):
        assert it.dom is not None
        nest = ir.For(var, it.dom.min, it.dom.extent, ir.ForKind.SERIAL, nest)
    return buffer, nest, stage, [v.var for v in used]


@primitive("CacheIndex")
def cache_index(state: ScheduleState, block: BlockRef, storage_scope: str, cse_thresh: int = 0) -> Blocks:
    """Compute beforehand what a block uses in the values that it stores, each into a buffer of its own, and load it.

    These are expressions without loads, such as indices and conditions, that occur `cse_thresh` times at least, up to
    equivalent forms; the parts of one that does not are tried. The result is the blocks that compute them; there are
    none, and nothing changes, if no expression occurs so often.

    Example
    -------
    `indices = sch.cache_index("B", "global", 1)` makes of

        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi * 3 % 16]

    this:

        index_var_0 = T.alloc_buffer((16,), "int32", strides=(1,))
        for ax0 in range(16):
            with T.block("index_0"):
                v0 = T.axis.spatial(16, ax0)
                index_var_0[v0] = v0 * 3 % 16
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vj, vi * 3 % 16])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vj, index_var_0[vi]]
    """
    check_storage_scope(storage_scope)
    root = scope_root(state, block)
    stored = _Stored()
    stored.visit(block.block.body)
    counter = _Counter(cse_thresh, {v.var for v in block.block.iter_vars})
    for value in stored.values:
        largest = _Largest()
        largest.visit(value)
        for computation in largest.found:
            counter.add(computation, 1)
    chosen = counter.choose()
    if not chosen:
        return []
    stages = [_stage(n, i, block.block, storage_scope) for n, i in enumerate(chosen)]
    cached = _Terms()
    for computation, (buffer, _, _, at) in zip(chosen, stages):
        cached.set(computation.value, ir.BufferLoad(buffer, at))
    new = block.block.replace(body=_UseComputed(cached).visit(block.block.body))
    top, place = top_of(block, root)
    body = root.block.body
    parts = list(body.seq) if isinstance(body, ir.SeqStmt) else [body]
    parts[place:place] = [nest for _, nest, _, _ in stages]
    placed = root.block.replace(
        body=ir.SeqStmt.flatten(*parts),
        alloc_buffers=(*root.block.alloc_buffers, *[buffer for buffer, _, _, _ in stages]),
    )
    scope = PutBlock(block.block, new).visit(placed)
    reuse = BlockReuse()
    reuse.note(block.block, new)
    reuse.note(root.block, scope)
    state.replace(root, scope, reuse)
    assert top.stmt is not None
    return [state.sref_of(stage) for _, _, stage, _ in stages]


class PutBlock(ir.Mutator):
    """Puts a block in the place of another one."""

    def __init__(self, old: ir.Block, new: ir.Block) -> None:
        self.old, self.new = old, new

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        return node.replace(block=self.new) if node.block is self.old else node


def _depends_on(value: ir.PrimExpr, names: set[ir.Var]) -> bool:
    """Whether an expression is made of the block's variables alone, and of one at least."""
    used = set(variables_in(value))
    return bool(used) and used <= names


def top_of(block: StmtSRef, root: StmtSRef) -> tuple[StmtSRef, int]:
    """The nest of the scope that holds the block, and its place there."""
    top = block
    while top.parent is not root:
        assert top.parent is not None
        top = top.parent
    return top, max(top.seq_index, 0)
