"""LowerCrossThreadReduction: reductions whose loops are bound to threads, as a reduction over the threads.

Each thread reduces its own part into a buffer of its own, `in_thread_*`; the threads combine these into
`cross_thread_*`, which all of them have then; one of them writes the result back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    CommReducer,
    Evaluate,
    For,
    ForKind,
    IntImm,
    IterVar,
    Mutator,
    PointerType,
    PrimExpr,
    PrimFunc,
    PrimType,
    Range,
    SeqStmt,
    Stmt,
    Var,
    Visitor,
    handles,
    substitute,
)
from tvmagic.ir.ops import equal, logical_and
from tvmagic.passes import note
from tvmagic.tir.blocks.conditions import all_of, conjuncts
from tvmagic.tir.blocks.flags import is_affine_binding
from tvmagic.tir.blocks.reduction import BlockReduction, block_reduction, reduction_vars_stay_inside
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.flatten_buffer import from_legacy_te_schedule
from tvmagic.tir.transform.use_def import mentions, used_vars

_TRUE = IntImm("bool", 1)


def _is_bound(loop: For) -> bool:
    return loop.kind is ForKind.THREAD_BINDING and loop.thread_binding is not None


def _tag(loop: For) -> str:
    assert loop.thread_binding is not None
    return loop.thread_binding.thread_tag


def _is_thread_index(loop: For) -> bool:
    """Whether a loop is bound to `threadIdx.x`, `y` or `z`."""
    return _is_bound(loop) and _tag(loop).startswith("threadIdx")


def _is_block_index(loop: For) -> bool:
    return _is_bound(loop) and _tag(loop).startswith("blockIdx")


def _is_launched(loop: For) -> bool:
    return _is_thread_index(loop) or _is_block_index(loop)


# ---------------------------------------------------------------------------- one reduction


@dataclass
class _Reduction:
    """A reduction over threads: its block, its loops from the outermost, and its buffers.

    `mine` are what each thread reduces into before; None if each thread has one value only.
    """

    realize: BlockRealize
    loops: list[For]
    found: BlockReduction
    mine: list[Buffer] | None
    all: list[Buffer]

    @property
    def threads(self) -> list[For]:
        return [loop for loop in self.loops if _is_bound(loop)]

    def lowered(self, loop: For) -> Stmt:
        """What is in the place of `loop`, the outermost of the reduction, rewritten inside."""
        stmts = [] if self.mine is None else [self._init(self.mine)]
        inside = _OwnPart(self.realize, None if self.mine is None else self._in_thread(self.mine), self.threads)
        own = inside.visit(loop)
        if own is not None:
            stmts.append(own)
        stmts += [self._cross_thread(), self._write_back()]
        body = SeqStmt.flatten(*stmts)
        for thread in reversed(self.threads):
            body = thread.replace(body=body)
        return body

    def _name(self, suffix: str) -> str:
        return f"{self.realize.block.name_hint}_{suffix}"

    def _init(self, mine: list[Buffer]) -> Stmt:
        starts = self.found.reducer.identity_element
        body = SeqStmt.flatten(*[BufferStore(b, start, (0,)) for b, start in zip(mine, starts)])
        block = Block((), (), _whole(mine), self._name("in_thread_init"), body, span=self.realize.span)
        return BlockRealize((), True, block, self.realize.span)

    def _in_thread(self, mine: list[Buffer]) -> BlockRealize:
        block = self.realize.block
        results = {s.buffer: b for s, b in zip(self.found.updates, mine)}
        body = _IntoBuffers(results).visit(block.body)
        new = block.replace(writes=_whole(mine), name_hint=self._name("in_thread"), body=body, init=None)
        return self.realize.replace(block=new)

    def _cross_thread(self) -> Stmt:
        block, count = self.realize.block, len(self.all)
        own = self.found.added if self.mine is None else [BufferLoad(b, (0,)) for b in self.mine]
        results = [BufferLoad(b, (0,)) for b in self.all]
        args = [IntImm("uint32", count), *own, _TRUE, *results, *[t.loop_var for t in self.threads]]
        body = _reduce_scope(self.found.reducer, Evaluate(Call("handle", "tir.tvm_thread_allreduce", args)))
        name, span = self._name("cross_thread"), self.realize.span
        if self.mine is not None:
            return BlockRealize((), True, Block((), _whole(self.mine), _whole(self.all), name, body, span=span), span)
        new = Block(block.iter_vars, block.reads, _whole(self.all), name, body, span=span)
        return BlockRealize(self.realize.iter_values, True, new, span)

    def _write_back(self) -> Stmt:
        block, span = self.realize.block, self.realize.span
        kept = [(v, value) for v, value in zip(block.iter_vars, self.realize.iter_values) if not _is_reduced(v)]
        fresh = {v.var: v.var.copy_with_name(v.var.name) for v, _ in kept}
        iters = [v.replace(var=fresh[v.var]) for v, _ in kept]
        regions = {region.buffer: region for region in block.writes}
        stores: list[Stmt] = []
        writes: list[BufferRegion] = []
        for update, result in zip(self.found.updates, self.all):
            indices = [substitute(i, fresh) for i in update.indices]
            stores.append(BufferStore(update.buffer, BufferLoad(result, (0,)), indices))
            writes.append(substitute(regions[update.buffer], fresh))
        name, body = self._name("write_back"), SeqStmt.flatten(*stores)
        new = Block(iters, _whole(self.all), writes, name, body, span=span)
        return BlockRealize([value for _, value in kept], self._condition(), new, span)

    def _condition(self) -> PrimExpr:
        """Where the result is written: where the block ran at all, and by one thread if others would see it."""
        reduced = {loop.loop_var for loop in self.loops}
        conditions = [c for c in conjuncts(self.realize.predicate) if not mentions(c, reduced)]
        if self.found.updates[0].buffer.scope() != "local":
            conditions += [equal(t.loop_var, IntImm(t.loop_var.dtype, 0)) for t in self.threads]
        return all_of(conditions)


def _reduce_scope(reducer: CommReducer, body: Stmt) -> Stmt:
    """`body`, which reduces over threads by `reducer`."""
    nothing = Call("handle", "tir.reinterpret", [IntImm("uint64", 0)])
    return AttrStmt(reducer, "reduce_scope", nothing, body)


def _whole(buffers: Sequence[Buffer]) -> list[BufferRegion]:
    return [BufferRegion(b, [Range.from_min_extent(0, 1)]) for b in buffers]


def _scratch(kind: str, update: BufferStore) -> Buffer:
    """A buffer of one element that each thread has of its own."""
    name, dtype = f"{kind}_thread_{update.buffer.name}", update.buffer.dtype
    data = Var(name, PointerType(PrimType(dtype), "local"))
    return Buffer(data, dtype, (1,), (1,), None, name)


def _is_reduced(var: IterVar) -> bool:
    return var.iter_type == IterVar.CommReduce


class _IntoBuffers(Mutator):
    """Accesses of the results become accesses of buffers of one element."""

    def __init__(self, results: dict[Buffer, Buffer]) -> None:
        self.results = results

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        new = self.results.get(node.buffer)
        return self.visit_children(node) if new is None else BufferLoad(new, (0,), span=node.span)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Stmt:
        new = self.results.get(node.buffer)
        if new is None:
            return self.visit_children(node)
        return BufferStore(new, self.visit(node.value), (0,), span=node.span)


class _OwnPart(Mutator):
    """The loops of a reduction without those over threads, with another block or none; None if nothing is left."""

    def __init__(self, old: BlockRealize, new: BlockRealize | None, threads: list[For]) -> None:
        self.old, self.new = old, new
        self.threads = {loop.loop_var for loop in threads}

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> PrimExpr:
        return node

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> Stmt | None:
        return self.new if node is self.old else node

    @handles(For)
    def loop(self, node: For) -> Stmt | None:
        body = self.visit(node.body)
        if body is None or node.loop_var in self.threads:
            return body
        return node.replace(body=body)

    @handles(SeqStmt)
    def sequence(self, node: SeqStmt) -> Stmt | None:
        parts = [part for part in map(self.visit, node.seq) if part is not None]
        return SeqStmt.flatten(*parts) if parts else None


# ---------------------------------------------------------------------------- the whole function


class _Writers(Visitor):
    """How many blocks of a scope write each buffer."""

    def __init__(self) -> None:
        self.count: dict[Buffer, int] = {}

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> None:
        pass

    @handles(Block)
    def block(self, node: Block) -> None:
        for region in node.writes:
            self.count[region.buffer] = self.count.get(region.buffer, 0) + 1


class _LastBlock(Visitor):
    """Whether a block is the last one inside a loop."""

    def __init__(self, block: BlockRealize) -> None:
        self.block, self.last = block, False

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> None:
        pass

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> None:
        self.last = node is self.block


class _CrossThread(Mutator):
    """`above` are the statements around the one at hand, `scopes` the blocks, with what each writes."""

    def __init__(self) -> None:
        self.above: list[Stmt] = []
        self.scopes: list[tuple[Block, dict[Buffer, int]]] = []
        self.loops: list[For] = []
        # the loops since the innermost block began
        self.first_loop = 0
        self.planned: dict[For, _Reduction] = {}
        self.allocated: dict[Block, list[Buffer]] = {}
        # by result of a reduction over threads in the kernel at hand: the loops over those threads
        self.reduced_over: dict[Buffer, list[For]] = {}

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> PrimExpr:
        return node

    @handles(Stmt)
    def statement(self, node: Stmt) -> Any:
        self.above.append(node)
        new = self.visit_children(node)
        self.above.pop()
        return new

    @handles(For)
    def loop(self, node: For) -> Stmt:
        self.loops.append(node)
        new = self.statement(node)
        self.loops.pop()
        if _is_block_index(node) or (_is_thread_index(node) and not any(map(_is_launched, self.loops))):
            self.reduced_over.clear()  # the end of a kernel
        plan = self.planned.pop(node, None)
        return new if plan is None else plan.lowered(new)

    @handles(Block)
    def block(self, node: Block) -> Stmt:
        writers = _Writers()
        writers.visit(node.body)
        first, self.first_loop = self.first_loop, len(self.loops)
        self.scopes.append((node, writers.count))
        new = self.statement(node)
        self.scopes.pop()
        self.first_loop = first
        added = self.allocated.pop(node, None)
        return new if added is None else new.replace(alloc_buffers=(*new.alloc_buffers, *added))

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> Stmt:
        loops = self._reduction_loops(node)
        if loops:
            self._plan(node, loops)
            return node  # rewritten with the outermost of its loops
        threads = self._missing_threads(node)
        return _by_one_thread(node, threads) if threads else self.statement(node)

    # ------------------------------------------------------------------ reductions

    def _reduction_loops(self, realize: BlockRealize) -> list[For]:
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

    def _is_reduction(self, realize: BlockRealize) -> bool:
        block, (_, writers) = realize.block, self.scopes[-1]
        if any(v.iter_type not in (IterVar.DataPar, IterVar.CommReduce) for v in block.iter_vars):
            return False
        if any(writers[region.buffer] > 1 for region in block.writes) or not reduction_vars_stay_inside(block):
            return False
        analyzer = Analyzer()
        domains = {l.loop_var: Range.from_min_extent(l.min, l.extent) for l in self.loops[self.first_loop :]}
        for var, domain in domains.items():
            analyzer.bind(var, domain)
        return is_affine_binding(realize, domains, analyzer)

    def _plan(self, realize: BlockRealize, loops: list[For]) -> None:
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

    def _check(self, realize: BlockRealize, loops: list[For]) -> None:
        """Raise if the threads cannot reduce together."""
        name = realize.block.name_hint
        rest = [stmt for stmt in self.above if not isinstance(stmt, SeqStmt)]
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

    def _missing_threads(self, realize: BlockRealize) -> list[For]:
        """The loops over threads that reduced what a block reads and that do not stand around it.

        Of interest where the block writes what other threads see, too.
        """
        block = realize.block
        if any(region.buffer.scope() == "local" for region in block.writes):
            return []
        around = {_tag(loop) for loop in self.loops if _is_bound(loop)}
        missing: dict[str, For] = {}
        for region in block.reads:
            for loop in self.reduced_over.get(region.buffer, ()):
                if _tag(loop) not in around:
                    missing[_tag(loop)] = loop
        return list(reversed(missing.values()))


def _by_one_thread(realize: BlockRealize, threads: list[For]) -> Stmt:
    """A block that all threads would run, run by the first of each of the axes `threads`."""
    condition = realize.predicate
    variables: list[Var] = []
    for loop in threads:
        variables.append(Var(f"t{_tag(loop)[-1]}", loop.min.dtype))
        condition = logical_and(equal(variables[-1], loop.min), condition)
    names = ", ".join(f"`{_tag(loop)}`" for loop in threads)
    note("cross_thread.one", f"one thread of {names} runs block `{realize.block.name_hint}`", node=realize.block)
    body: Stmt = realize.replace(predicate=condition)
    for loop, var in zip(threads, variables):
        binding = IterVar(None, Var("", var.dtype), IterVar.ThreadIndex, _tag(loop))
        body = For(var, loop.min, loop.extent, ForKind.THREAD_BINDING, body, binding, {}, loop.span)
    return body


class _ThreadLoops(Visitor):
    """Whether there are loops over the threads of a block at all."""

    found = False

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> None:
        pass

    @handles(For)
    def loop(self, node: For) -> None:
        self.found = self.found or _is_bound(node)
        if not self.found:
            self.visit(node.body)


@tir_pass("tir.LowerCrossThreadReduction")
def LowerCrossThreadReduction(func: PrimFunc) -> PrimFunc:
    """Write reductions whose loops are bound to threads as reductions over these threads.

    A function made from a TE schedule stays as it is: its reductions are made so by ScheduleOps. Raises
    `TVMagicError` where the loops of such a reduction are not the innermost ones, are bound to blocks, or where
    its reducer is not known.
    """
    threads = _ThreadLoops()
    if not from_legacy_te_schedule(func):
        threads.visit(func.body)
    return func.with_body(_CrossThread().visit(func.body)) if threads.found else func
