"""The primitive that computes a factor of a reduction's product beforehand and keeps it in a buffer."""

from __future__ import annotations

from itertools import chain, count

from tvmagic import ir
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import nodes_of, variables_in
from tvmagic.ir.store_merging import update_term
from tvmagic.tir.blocks.conditions import runs_everywhere
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import effective_regions, with_detected_regions
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.buffers import check_storage_scope
from tvmagic.tir.schedule.instruction import BlockRef, primitive
from tvmagic.tir.schedule.primitives.cache_index import PutBlock, top_of
from tvmagic.tir.schedule.requirements import scope_root
from tvmagic.tir.schedule.rewrite import BlockReuse
from tvmagic.tir.schedule.state import ScheduleState

TRUE = ir.IntImm("bool", 1)


def factors_of(block: ir.Block) -> list[ir.PrimExpr]:
    """The factors of the product that a block sums up: its largest parts that do not follow all variables of the block.

    Empty if the block is not a sum of products, stored by one store.
    """
    store = block.body
    if block.init is None or not isinstance(store, ir.BufferStore):
        return []
    product = update_term(store, ir.Add)
    return _split(product, {v.var for v in block.iter_vars}) if isinstance(product, ir.Mul) else []


def _split(value: ir.PrimExpr, variables: set[ir.Var]) -> list[ir.PrimExpr]:
    if isinstance(value, ir.Mul) and variables <= set(variables_in(value)):
        return [*_split(value.a, variables), *_split(value.b, variables)]
    return [value]


@primitive("CacheFactor")
def cache_factor(state: ScheduleState, block: BlockRef, number: int, storage_scope: str) -> BlockRef:
    """Compute a factor of the product that a block sums up once, before the block, into a buffer of its own.

    A factor is the largest part of the product that does not follow all variables of the block; they count from 0, in the
    order of the text. What the factor reads may be at any index, such as `A[I[i], k]`; the new buffer is
    read at variables alone, so that it can be packed. The result is the block that computes the factor. (TVM has no such primitive.)

    Requires: the block adds a product to what it stores, by one store, for all values of its variables; the factor reads
    something, and nothing that is written in the same nest of loops.

    Example
    -------
    `copy = sch.cache_factor("C", 0, "global")` makes of

        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + T.exp(A[vi, vk]) * B[vk, vj]

    this:

        A_factor = T.alloc_buffer((16, 16))
        for ax0, ax1 in T.grid(16, 16):
            with T.block("A_factor"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_factor[v0, v1] = T.exp(A[v0, v1])
        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A_factor[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + A_factor[vi, vk] * B[vk, vj]
    """
    check_storage_scope(storage_scope)
    root = scope_root(state, block)
    factor = _factor(block, number)
    top, place = top_of(block, root)
    _check_same_before(state, block, root, top, factor)
    used = [v for v in block.block.iter_vars if v.var in set(variables_in(factor))]
    _check_sizes_known(block, root, used)
    name = _free_name(state, root, max(_read(factor), key=lambda b: len(b.shape)).name)
    buffer = _buffer(name, factor, used, storage_scope)
    stage, nest = _stage(buffer, factor, used)
    use = _UseFactor(factor, ir.BufferLoad(buffer, _indices(used)))
    new = with_detected_regions(block.block.replace(body=use.visit(block.block.body), reads=()))
    body = root.block.body
    parts = list(body.seq) if isinstance(body, ir.SeqStmt) else [body]
    parts.insert(place, nest)
    placed = root.block.replace(body=ir.SeqStmt.flatten(*parts), alloc_buffers=(*root.block.alloc_buffers, buffer))
    scope = PutBlock(block.block, new).visit(placed)
    reuse = BlockReuse()
    reuse.note(block.block, new)
    reuse.note(root.block, scope)
    state.replace(root, scope, reuse)
    return state.sref_of(stage)


# ---------------------------------------------------------------------------- what it requires


def _factor(block: StmtSRef, number: int) -> ir.PrimExpr:
    """Return a factor of the product that a block sums up."""
    factors = factors_of(block.block)
    if not factors:
        raise ScheduleError(
            f"{block.label} does not add a product to what it stores, by one store",
            block,
            code="cache_factor.no_product",
        )
    if not 0 <= number < len(factors):
        raise ScheduleError(
            f"{block.label} sums up a product of {len(factors)} factors; there is no factor {number}",
            block,
            code="cache_factor.no_such_factor",
        )
    return factors[number]


def _read(factor: ir.PrimExpr) -> list[ir.Buffer]:
    """The buffers that a factor reads, in order."""
    return list(dict.fromkeys(load.buffer for load in nodes_of(factor, ir.BufferLoad)))


class _Nest(ir.Visitor):
    """What defines variables, or decides whether a block runs, in a nest outside its blocks."""

    def __init__(self) -> None:
        self.variables: set[ir.Var] = set()
        self.others: list[ir.Stmt] = []

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> None:
        if not isinstance(node, ir.SeqStmt):
            self.others.append(node)
        self.visit_children(node)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.variables.add(node.loop_var)
        self.visit(node.body)

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> None:
        return None


def _check_same_before(
    state: ScheduleState, block: StmtSRef, root: StmtSRef, top: StmtSRef, factor: ir.PrimExpr
) -> None:
    """Before the nest, the factor must have the values that it has in the block, for all values of its variables."""
    buffers = _read(factor)
    if not buffers or side_effect(factor) > ir.CallEffect.READ_STATE:
        raise ScheduleError(
            f"the factor `{factor}` of {block.label} reads nothing, or has effects",
            block,
            code="cache_factor.factor_not_pure",
        )
    for other in state.get_block_scope(root).children:
        written = [w.buffer for w in effective_regions(other.block)[1] if w.buffer in buffers]
        if written and top_of(other, root)[0] is top:
            raise ScheduleError(
                f"{other.label} writes buffer `{written[0].name}`, which the factor `{factor}` reads, in the same loops",
                block,
                other,
                code="cache_factor.factor_overwritten",
            )
    nest = _Nest()
    if top is not block:
        assert top.stmt is not None
        nest.visit(top.stmt)
    realize = state.realize_of(block)
    everywhere = runs_everywhere(realize, loop_domains(state.loops_of(block)), realize.predicate)
    if nest.others or not everywhere or nest.variables & set(variables_in(factor)):
        raise ScheduleError(
            f"{block.label} does not run for all values of its variables, or depends on its loops otherwise",
            block,
            hint="compute the factor before loops are split or fused",
            code="cache_factor.block_not_complete",
        )


def _check_sizes_known(block: StmtSRef, root: StmtSRef, used: list[ir.IterVar]) -> None:
    """The buffer is allocated where the scope begins: its size may not depend on the variables there."""
    outer = {v.var for v in root.block.iter_vars}
    for v in used:
        if v.dom is not None and (uses_var(v.dom.extent, outer) or uses_var(v.dom.min, outer)):
            raise ScheduleError(
                f"the extent of `{v.var.name}` in {block.label} is not the same all over its scope",
                block,
                code="cache_factor.extent_not_constant",
            )


# ---------------------------------------------------------------------------- what it makes


def _free_name(state: ScheduleState, root: StmtSRef, first: str) -> str:
    taken = {child.block.name_hint for child in state.get_block_scope(root).children}
    taken |= {b.name for b in root.block.alloc_buffers}
    names = chain([f"{first}_factor"], (f"{first}_factor_{n}" for n in count(1)))
    return next(name for name in names if name not in taken)


def _indices(used: list[ir.IterVar]) -> list[ir.PrimExpr]:
    """The places of a factor's values in its buffer, which begins at the first of them."""
    return [v.var if v.dom is None else v.var - v.dom.min for v in used]


def _buffer(name: str, factor: ir.PrimExpr, used: list[ir.IterVar], storage_scope: str) -> ir.Buffer:
    data = ir.data_pointer(name, factor.dtype, storage_scope)
    shape = [v.dom.extent for v in used if v.dom is not None]
    return ir.Buffer(data, factor.dtype, shape, [], None, name)


def _stage(buffer: ir.Buffer, factor: ir.PrimExpr, used: list[ir.IterVar]) -> tuple[ir.Block, ir.Stmt]:
    """The block that computes the factor, and the loops around it."""
    fresh = [ir.IterVar(v.dom, ir.Var(f"v{n}", v.var.dtype), ir.IterVar.DataPar) for n, v in enumerate(used)]
    value = ir.substitute(factor, {v.var: new.var for v, new in zip(used, fresh)})
    stage = with_detected_regions(ir.Block(fresh, [], [], buffer.name, ir.BufferStore(buffer, value, _indices(fresh))))
    loops = [ir.Var(f"ax{n}", v.var.dtype) for n, v in enumerate(used)]
    nest: ir.Stmt = ir.BlockRealize(loops, TRUE, stage)
    for var, it in zip(reversed(loops), reversed(fresh)):
        assert it.dom is not None
        nest = ir.For(var, it.dom.min, it.dom.extent, ir.ForKind.SERIAL, nest)
    return stage, nest


class _UseFactor(ir.Mutator):
    """Loads a factor from its buffer."""

    def __init__(self, factor: ir.PrimExpr, load: ir.BufferLoad) -> None:
        self.factor, self.load = factor, load

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return self.load if node is self.factor else self.visit_children(node)
