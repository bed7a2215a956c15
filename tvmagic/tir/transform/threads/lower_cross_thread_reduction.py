"""LowerCrossThreadReduction: reductions whose loops are bound to threads, as a reduction over the threads.

Each thread reduces its own part into a buffer of its own, `in_thread_*`; the threads combine these into
`cross_thread_*`, which all of them have then; one of them writes the result back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import equal, logical_and
from tvmagic.passes import note
from tvmagic.tir.blocks.conditions import all_of, conjuncts
from tvmagic.tir.blocks.flags import is_affine_binding
from tvmagic.tir.blocks.reduction import BlockReduction, block_reduction, reduction_vars_stay_inside
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.flatten_buffer import from_legacy_te_schedule
from tvmagic.tir.transform.use_def import mentions, used_vars

_TRUE = ir.IntImm("bool", 1)


def _is_bound(loop: ir.For) -> bool:
    return loop.kind is ir.ForKind.THREAD_BINDING and loop.thread_binding is not None


def _tag(loop: ir.For) -> str:
    assert loop.thread_binding is not None
    return loop.thread_binding.thread_tag


def _is_thread_index(loop: ir.For) -> bool:
    """Whether a loop is bound to `threadIdx.x`, `y` or `z`."""
    return _is_bound(loop) and _tag(loop).startswith("threadIdx")


def _is_block_index(loop: ir.For) -> bool:
    return _is_bound(loop) and _tag(loop).startswith("blockIdx")


def _is_launched(loop: ir.For) -> bool:
    return _is_thread_index(loop) or _is_block_index(loop)


# ---------------------------------------------------------------------------- one reduction


@dataclass
class _Reduction:
    """A reduction over threads: its block, its loops from the outermost, and its buffers.

    `mine` are what each thread reduces into before; None if each thread has one value only.
    """

    realize: ir.BlockRealize
    loops: list[ir.For]
    found: BlockReduction
    mine: list[ir.Buffer] | None
    all: list[ir.Buffer]

    @property
    def threads(self) -> list[ir.For]:
        return [loop for loop in self.loops if _is_bound(loop)]

    def lowered(self, loop: ir.For) -> ir.Stmt:
        """What is in the place of `loop`, the outermost of the reduction, rewritten inside."""
        stmts = [] if self.mine is None else [self._init(self.mine)]
        inside = _OwnPart(self.realize, None if self.mine is None else self._in_thread(self.mine), self.threads)
        own = inside.visit(loop)
        if own is not None:
            stmts.append(own)
        stmts += [self._cross_thread(), self._write_back()]
        body = ir.SeqStmt.flatten(*stmts)
        for thread in reversed(self.threads):
            body = thread.replace(body=body)
        return body

    def _name(self, suffix: str) -> str:
        return f"{self.realize.block.name_hint}_{suffix}"

    def _init(self, mine: list[ir.Buffer]) -> ir.Stmt:
        starts = self.found.reducer.identity_element
        body = ir.SeqStmt.flatten(*[ir.BufferStore(b, start, (0,)) for b, start in zip(mine, starts)])
        block = ir.Block((), (), _scalar_regions(mine), self._name("in_thread_init"), body, span=self.realize.span)
        return ir.BlockRealize((), True, block, self.realize.span)

    def _in_thread(self, mine: list[ir.Buffer]) -> ir.BlockRealize:
        block = self.realize.block
        results = {s.buffer: b for s, b in zip(self.found.updates, mine)}
        body = _IntoBuffers(results).visit(block.body)
        new = block.replace(writes=_scalar_regions(mine), name_hint=self._name("in_thread"), body=body, init=None)
        return self.realize.replace(block=new)

    def _cross_thread(self) -> ir.Stmt:
        block, count = self.realize.block, len(self.all)
        own = self.found.added if self.mine is None else [ir.BufferLoad(b, (0,)) for b in self.mine]
        results = [ir.BufferLoad(b, (0,)) for b in self.all]
        args = [ir.IntImm("uint32", count), *own, _TRUE, *results, *[t.loop_var for t in self.threads]]
        body = _reduce_scope(self.found.reducer, ir.Evaluate(ir.Call("handle", "tir.tvm_thread_allreduce", args)))
        name, span = self._name("cross_thread"), self.realize.span
        if self.mine is not None:
            return ir.BlockRealize(
                (),
                True,
                ir.Block((), _scalar_regions(self.mine), _scalar_regions(self.all), name, body, span=span),
                span,
            )
        new = ir.Block(block.iter_vars, block.reads, _scalar_regions(self.all), name, body, span=span)
        return ir.BlockRealize(self.realize.iter_values, True, new, span)

    def _write_back(self) -> ir.Stmt:
        block, span = self.realize.block, self.realize.span
        kept = [(v, value) for v, value in zip(block.iter_vars, self.realize.iter_values) if not _is_reduced(v)]
        fresh = {v.var: v.var.copy_with_name(v.var.name) for v, _ in kept}
        iters = [v.replace(var=fresh[v.var]) for v, _ in kept]
        regions = {region.buffer: region for region in block.writes}
        stores: list[ir.Stmt] = []
        writes: list[ir.BufferRegion] = []
        for update, result in zip(self.found.updates, self.all):
            indices = [ir.substitute(i, fresh) for i in update.indices]
            stores.append(ir.BufferStore(update.buffer, ir.BufferLoad(result, (0,)), indices))
            writes.append(ir.substitute(regions[update.buffer], fresh))
        name, body = self._name("write_back"), ir.SeqStmt.flatten(*stores)
        new = ir.Block(iters, _scalar_regions(self.all), writes, name, body, span=span)
        return ir.BlockRealize([value for _, value in kept], self._condition(), new, span)

    def _condition(self) -> ir.PrimExpr:
        """Where the result is written: where the block ran at all, and by one thread if others would see it."""
        reduced = {loop.loop_var for loop in self.loops}
        conditions = [c for c in conjuncts(self.realize.predicate) if not mentions(c, reduced)]
        if self.found.updates[0].buffer.scope() != "local":
            conditions += [equal(t.loop_var, ir.IntImm(t.loop_var.dtype, 0)) for t in self.threads]
        return all_of(conditions)


def _reduce_scope(reducer: ir.CommReducer, body: ir.Stmt) -> ir.Stmt:
    """`body`, which reduces over threads by `reducer`."""
    nothing = ir.Call("handle", "tir.reinterpret", [ir.IntImm("uint64", 0)])
    return ir.AttrStmt(reducer, "reduce_scope", nothing, body)


def _scalar_regions(buffers: Sequence[ir.Buffer]) -> list[ir.BufferRegion]:
    return [ir.BufferRegion(b, [ir.Range.from_min_extent(0, 1)]) for b in buffers]


def _scratch(kind: str, update: ir.BufferStore) -> ir.Buffer:
    """A buffer of one element that each thread has of its own."""
    name, dtype = f"{kind}_thread_{update.buffer.name}", update.buffer.dtype
    data = ir.Var(name, ir.PointerType(ir.PrimType(dtype), "local"))
    return ir.Buffer(data, dtype, (1,), (1,), None, name)


def _is_reduced(var: ir.IterVar) -> bool:
    return var.iter_type == ir.IterVar.CommReduce


class _IntoBuffers(ir.Mutator):
    """Accesses of the results become accesses of buffers of one element."""

    def __init__(self, results: dict[ir.Buffer, ir.Buffer]) -> None:
        self.results = results

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        new = self.results.get(node.buffer)
        return self.visit_children(node) if new is None else ir.BufferLoad(new, (0,), span=node.span)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        new = self.results.get(node.buffer)
        if new is None:
            return self.visit_children(node)
        return ir.BufferStore(new, self.visit(node.value), (0,), span=node.span)


class _OwnPart(ir.Mutator):
    """The loops of a reduction without those over threads, with another block or none; None if nothing is left."""

    def __init__(self, old: ir.BlockRealize, new: ir.BlockRealize | None, threads: list[ir.For]) -> None:
        self.old, self.new = old, new
        self.threads = {loop.loop_var for loop in threads}

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt | None:
        return self.new if node is self.old else node

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt | None:
        body = self.visit(node.body)
        if body is None or node.loop_var in self.threads:
            return body
        return node.replace(body=body)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt | None:
        parts = [part for part in map(self.visit, node.seq) if part is not None]
        return ir.SeqStmt.flatten(*parts) if parts else None


# ---------------------------------------------------------------------------- the whole function


class _Writers(ir.Visitor):
    """How many blocks of a scope write each buffer."""

    def __init__(self) -> None:
        self.count: dict[ir.Buffer, int] = {}

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> None:
        pass

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        for region in node.writes:
            self.count[region.buffer] = self.count.get(region.buffer, 0) + 1


class _LastBlock(ir.Visitor):
    """Whether a block is the last one inside a loop."""

    def __init__(self, block: ir.BlockRealize) -> None:
        self.block, self.last = block, False

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> None:
        pass

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> None:
        self.last = node is self.block


class _CrossThread(ir.Mutator):
    """`above` are the statements around the one at hand, `scopes` the blocks, with what each writes."""

    def __init__(self) -> None:
        self.above: list[ir.Stmt] = []
        self.scopes: list[tuple[ir.Block, dict[ir.Buffer, int]]] = []
        self.loops: list[ir.For] = []
        # the loops since the innermost block began
        self.first_loop = 0
        self.planned: dict[ir.For, _Reduction] = {}
        self.allocated: dict[ir.Block, list[ir.Buffer]] = {}
        # by result of a reduction over threads in the kernel at hand: the loops over those threads
        self.reduced_over: dict[ir.Buffer, list[ir.For]] = {}

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> Any:
        self.above.append(node)
        new = self.visit_children(node)
        self.above.pop()
        return new

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        self.loops.append(node)
        new = self.statement(node)
        self.loops.pop()
        if _is_block_index(node) or (_is_thread_index(node) and not any(map(_is_launched, self.loops))):
            self.reduced_over.clear()  # the end of a kernel
        plan = self.planned.pop(node, None)
        return new if plan is None else plan.lowered(new)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        writers = _Writers()
        writers.visit(node.body)
        first, self.first_loop = self.first_loop, len(self.loops)
        self.scopes.append((node, writers.count))
        new = self.statement(node)
        self.scopes.pop()
        self.first_loop = first
        added = self.allocated.pop(node, None)
        return new if added is None else new.replace(alloc_buffers=(*new.alloc_buffers, *added))

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        loops = self._reduction_loops(node)
        if loops:
            self._plan(node, loops)
            return node  # rewritten with the outermost of its loops
        threads = self._missing_threads(node)
        return _by_one_thread(node, threads) if threads else self.statement(node)

    # ------------------------------------------------------------------ reductions

    def _reduction_loops(self, realize: ir.BlockRealize) -> list[ir.For]:
        """The loops of a reduction over threads; none if the block is not one."""
        block = realize.block
        if block.init is None or not self.scopes:
            return []
        reduced = [value for v, value in zip(block.iter_vars, realize.iter_values) if _is_reduced(v)]
        used = {var for value in reduced for var in used_vars(value)}
        loops = [loop for loop in self.loops if loop.loop_var in used]
        if not any(_is_bound(loop) for loop in loops) or not self._is_reduction(realize):
            return []
        return loops

    def _is_reduction(self, realize: ir.BlockRealize) -> bool:
        block, (_, writers) = realize.block, self.scopes[-1]
        if any(v.iter_type not in (ir.IterVar.DataPar, ir.IterVar.CommReduce) for v in block.iter_vars):
            return False
        if any(writers[region.buffer] > 1 for region in block.writes) or not reduction_vars_stay_inside(block):
            return False
        analyzer = Analyzer()
        domains = {l.loop_var: ir.Range.from_min_extent(l.min, l.extent) for l in self.loops[self.first_loop :]}
        for var, domain in domains.items():
            analyzer.bind(var, domain)
        return is_affine_binding(realize, domains, analyzer)

    def _plan(self, realize: ir.BlockRealize, loops: list[ir.For]) -> None:
        self._check(realize, loops)
        found = block_reduction(realize.block)
        name = realize.block.name_hint
        if len({update.buffer.scope() == "local" for update in found.updates}) > 1:
            raise TVMagicError(
                f"of the results of block `{name}`, some are in local memory and some are not",
                node=realize.block,
                hint="set_scope brings all into one memory",
                code="tir.thread_reduction.mixed_memories",
            )
        everything = [_scratch("cross", update) for update in found.updates]
        mine = None
        if not all(map(_is_bound, loops)) or conjuncts(realize.predicate):
            mine = [_scratch("in", update) for update in found.updates]
        self.allocated.setdefault(self.scopes[-1][0], []).extend([*everything, *(mine or ())])
        plan = self.planned[loops[0]] = _Reduction(realize, loops, found, mine, everything)
        for update in found.updates:
            self.reduced_over[update.buffer] = plan.threads
        tags = ", ".join(f"`{_tag(loop)}`" for loop in plan.threads)
        note("cross_thread", f"the threads of {tags} reduce what block `{name}` computes", node=realize.block)

    def _check(self, realize: ir.BlockRealize, loops: list[ir.For]) -> None:
        """Raise if the threads cannot reduce together."""
        name = realize.block.name_hint
        rest = [stmt for stmt in self.above if not isinstance(stmt, ir.SeqStmt)]
        if len(rest) < len(loops) or any(a is not b for a, b in zip(rest[-len(loops) :], loops)):
            raise TVMagicError(
                f"block `{name}` reduces over threads, so the loops of its reduction are innermost around it",
                node=realize.block,
                hint="reorder the loops: those of the reduction come last",
                code="tir.thread_reduction.loops_not_innermost",
            )
        for loop in loops:
            if _is_bound(loop) and not _is_thread_index(loop):
                raise TVMagicError(
                    f"block `{name}` reduces over loop `{loop.loop_var.name}`, which is bound to `{_tag(loop)}`",
                    node=realize.block,
                    hint="threads reduce together over threadIdx.x, threadIdx.y and threadIdx.z only",
                    code="tir.thread_reduction.wrong_thread",
                )
        last = _LastBlock(realize)
        last.visit(loops[0])
        if not last.last:
            raise TVMagicError(
                f"block `{name}` reduces over threads, and another block follows it inside loop "
                f"`{loops[0].loop_var.name}` of its reduction",
                node=realize.block,
                hint="compute the other block after that loop",
                code="tir.thread_reduction.followed_inside_loop",
            )

    # ------------------------------------------------------------------ what reads the results

    def _missing_threads(self, realize: ir.BlockRealize) -> list[ir.For]:
        """The loops over threads that reduced what a block reads and that do not stand around it.

        Of interest where the block writes what other threads see, too.
        """
        block = realize.block
        if any(region.buffer.scope() == "local" for region in block.writes):
            return []
        around = {_tag(loop) for loop in self.loops if _is_bound(loop)}
        missing: dict[str, ir.For] = {}
        for region in block.reads:
            for loop in self.reduced_over.get(region.buffer, ()):
                if _tag(loop) not in around:
                    missing[_tag(loop)] = loop
        return list(reversed(missing.values()))


def _by_one_thread(realize: ir.BlockRealize, threads: list[ir.For]) -> ir.Stmt:
    """A block that all threads would run, run by the first of each of the axes `threads`."""
    condition = realize.predicate
    variables: list[ir.Var] = []
    for loop in threads:
        variables.append(ir.Var(f"t{_tag(loop)[-1]}", loop.min.dtype))
        condition = logical_and(equal(variables[-1], loop.min), condition)
    names = ", ".join(f"`{_tag(loop)}`" for loop in threads)
    note("cross_thread.one", f"one thread of {names} runs block `{realize.block.name_hint}`", node=realize.block)
    body: ir.Stmt = realize.replace(predicate=condition)
    for loop, var in zip(threads, variables):
        binding = ir.IterVar(None, ir.Var("", var.dtype), ir.IterVar.ThreadIndex, _tag(loop))
        body = ir.For(var, loop.min, loop.extent, ir.ForKind.THREAD_BINDING, body, binding, {}, loop.span)
    return body


class _ThreadLoops(ir.Visitor):
    """Whether there are loops over the threads of a block at all."""

    found = False

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> None:
        pass

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.found = self.found or _is_bound(node)
        if not self.found:
            self.visit(node.body)


@tir_pass("tir.LowerCrossThreadReduction")
def LowerCrossThreadReduction(func: ir.PrimFunc) -> ir.PrimFunc:
    """Write reductions whose loops are bound to threads as reductions over these threads.

    A function made from a TE schedule stays as it is: its reductions are made so by ScheduleOps. Raises
    `TVMagicError` where the loops of such a reduction are not the innermost ones, are bound to blocks, or where
    its reducer is not known.
    """
    threads = _ThreadLoops()
    if not from_legacy_te_schedule(func):
        threads.visit(func.body)
    return func.with_body(_CrossThread().visit(func.body)) if threads.found else func
