"""LowerThreadAllreduce: reductions over threads, in memory that the threads share.

Each thread puts its value into `red_buf*`; then half of the threads take in the values of the other half, and so
on, with a barrier after each step, until the first place has the result for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    CommReducer,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    IntImm,
    IterVar,
    LetStmt,
    Mutator,
    PrimExpr,
    PrimFunc,
    Select,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    Visitor,
    decl_buffer,
    handles,
    stored_together,
    substitute,
)
from tvmagic.passes import IRModule, Pass, PassContext, note, prim_func_pass
from tvmagic.tir.transform.lift_thread_binding import thread_rank
from tvmagic.tir.transform.with_analyzer import is_true

__all__ = ["LowerThreadAllreduce", "is_allreduce"]


class _Axis(NamedTuple):
    """A thread axis: x, y, z as 0, 1, 2, its variable, and how many threads it has."""

    dim: int
    var: Var
    extent: int


@dataclass
class _Group:
    """The threads that reduce together, in each of several groups of them.

    `index`: which one a thread is in its group, of `size`; `number`: which group it is in, of `count`;
    `contiguous`: how many threads of a group follow each other.
    """

    index: PrimExpr
    size: int
    number: PrimExpr
    count: int
    contiguous: int

    @staticmethod
    def of(reduced: list[_Axis], others: list[_Axis]) -> _Group:
        index, size = _flat(reduced)
        number, count = _flat(others)
        contiguous = 1
        dims = {axis.dim for axis in reduced}
        for axis in sorted([*reduced, *others], key=lambda axis: axis.dim):
            if axis.dim not in dims:
                break
            contiguous *= axis.extent
        return _Group(index, size, number, count, contiguous)

    def place(self, index: PrimExpr, analyzer: Analyzer) -> PrimExpr:
        """Where the value of the group's thread `index` is."""
        if isinstance(self.number, IntImm):
            return index
        return analyzer.simplify(self.number * self.size + index)


def _flat(axes: list[_Axis]) -> tuple[PrimExpr, int]:
    """The number of a thread among those of `axes`, x running fastest, and how many there are."""
    index: PrimExpr | None = None
    total = 1
    for axis in sorted(axes, key=lambda axis: axis.dim):
        index = axis.var if index is None else index + axis.var * total
        total *= axis.extent
    return IntImm("int32", 0) if index is None else index, total


def is_allreduce(stmt: Any) -> bool:
    """Whether a statement is a reduction over threads."""
    return (
        isinstance(stmt, Evaluate)
        and isinstance(stmt.value, Call)
        and getattr(stmt.value.op, "name", "") == "tir.tvm_thread_allreduce"
    )


# ---------------------------------------------------------------------------- what is reduced


@dataclass
class _Allreduce:
    """One reduction over threads: `results` are the buffers that stand for what it gives."""

    reducer: CommReducer
    sources: list[PrimExpr]
    condition: PrimExpr
    results: list[Buffer]
    group: _Group


class _Finder(Visitor):
    """Reads the reductions over threads, and which shared buffer stands for each of their results."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.threads: list[tuple[IterVar, PrimExpr]] = []
        self.reducers: list[CommReducer] = []
        self.found: dict[Evaluate, _Allreduce] = {}
        self.shared: dict[Var, Buffer] = {}
        # what a load of a result becomes
        self.loads: dict[Var, PrimExpr] = {}

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> None:
        pass

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            self.threads.append((node.node, node.value))
            self.visit(node.body)
            self.threads.pop()
        elif node.attr_key == "reduce_scope" and isinstance(node.node, CommReducer):
            self.reducers.append(node.node)
            self.visit(node.body)
            self.reducers.pop()
        else:
            self.visit(node.body)

    @handles(Evaluate)
    def evaluate(self, node: Evaluate) -> None:
        if not is_allreduce(node):
            return
        if not self.reducers:
            raise TVMagicError("a reduction over threads stands in no `reduce_scope`", node=node)
        assert isinstance(node.value, Call)
        args, reducer = node.value.args, self.reducers[-1]
        count = len(reducer.result)
        if getattr(args[0], "value", None) != count or len(args) < 2 + 2 * count:
            raise TVMagicError(f"a reduction over threads of {count} values has other arguments", node=node)
        results = [self._result(arg, node) for arg in args[2 + count : 2 + 2 * count]]
        group = self._group(args[2 + 2 * count :], node)
        self.found[node] = _Allreduce(reducer, list(args[1 : 1 + count]), args[1 + count], results, group)
        if group.size > 1:
            for i, (result, source) in enumerate(zip(results, args[1:])):
                self._share(i, result, source, group, node)

    def _result(self, arg: PrimExpr, node: Evaluate) -> Buffer:
        if isinstance(arg, Cast):  # bool as it is stored
            arg = arg.value
        if not isinstance(arg, BufferLoad):
            raise TVMagicError(f"`{arg}` is no place for the result of a reduction over threads", node=node)
        return arg.buffer

    def _group(self, reduced: Sequence[PrimExpr], node: Evaluate) -> _Group:
        wanted = {arg for arg in reduced if isinstance(arg, Var)}
        mine: list[_Axis] = []
        others: list[_Axis] = []
        for axis, extent in self.threads:
            rank, dim = thread_rank(axis.thread_tag)
            if rank == 0:
                continue
            if dim < 0 or not isinstance(extent, IntImm):
                raise TVMagicError(
                    f"threads reduce together, so `{axis.thread_tag}` needs a constant extent, not `{extent}`",
                    node=node,
                    hint="vthread takes no part in such reductions" if dim < 0 else "split the loop by a constant",
                )
            if axis.var in wanted:
                wanted.discard(axis.var)
                if extent.value > 1:
                    mine.append(_Axis(dim, axis.var, extent.value))
            elif extent.value > 1:
                others.append(_Axis(dim, axis.var, extent.value))
        if wanted:
            names = ", ".join(f"`{var.name}`" for var in wanted)
            raise TVMagicError(f"a reduction over {names} stands outside of these threads", node=node)
        return _Group.of(mine, others)

    def _share(self, number: int, result: Buffer, source: PrimExpr, group: _Group, node: Evaluate) -> None:
        known = self.shared.get(result.data)
        if known is None:
            size = IntImm("int32", group.count * group.size)
            known = self.shared[result.data] = decl_buffer([size], source.dtype, f"red_buf{number}", scope="shared")
            first = group.place(IntImm(group.index.dtype, 0), self.analyzer)
            self.loads[result.data] = BufferLoad(known, (first,))
        elif known.shape[0].value != group.count * group.size:  # type: ignore[attr-defined]
            raise TVMagicError(f"`{result.name}` is the result of reductions over different threads", node=node)


# ---------------------------------------------------------------------------- the steps


class _Rewriter(Mutator):
    def __init__(self, found: _Finder, warp_size: int) -> None:
        self.found, self.warp_size = found, warp_size
        self.analyzer = found.analyzer

    @handles(Evaluate)
    def evaluate(self, node: Evaluate) -> Stmt:
        plan = self.found.found.get(node)
        if plan is None:
            return self.visit_children(node)
        values: list[PrimExpr] = [self.visit(source) for source in plan.sources]
        if not is_true(plan.condition):
            condition = self.visit(plan.condition)
            values = [Select(condition, v, start) for v, start in zip(values, plan.reducer.identity_element)]
        if plan.group.size == 1:
            return SeqStmt.flatten(*[BufferStore(b, v, (0,)) for b, v in zip(plan.results, values)])
        note("allreduce", f"{plan.group.size} threads reduce together in shared memory", node=node)
        return self._in_shared_memory(plan, values)

    def _in_shared_memory(self, plan: _Allreduce, values: list[PrimExpr]) -> Stmt:
        buffers = [self.found.shared[result.data] for result in plan.results]
        place = plan.group.place(plan.group.index, self.analyzer)
        stmts: list[Stmt] = [_barrier("shared")]  # threads may still read what was there before
        stmts += [BufferStore(buffer, value, (place,)) for buffer, value in zip(buffers, values)]
        stmts.append(_barrier("shared"))
        return SeqStmt.flatten(*stmts, *_Tree(plan, buffers, place, self.analyzer).steps(self.warp_size))

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        body = self.visit(node.body)
        return node if body is node.body else node.replace(body=body)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        new = self.found.loads.get(node.buffer.data)
        return self.visit_children(node) if new is None else new

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        body = self.visit(node.body)
        buffer = self.found.shared.get(node.buffer_var)
        if buffer is None:
            return node if body is node.body else node.replace(body=body)
        body = AttrStmt(buffer.data, "volatile_scope", IntImm("int32", 1), body, node.span)
        return Allocate(buffer.data, buffer.dtype, buffer.shape, IntImm("bool", 1), body, span=node.span)

    @handles(DeclBuffer)
    def declaration(self, node: DeclBuffer) -> Stmt:
        body = self.visit(node.body)
        return body if node.buffer.data in self.found.shared else node.replace(body=body)


class _Tree:
    """The steps in which the threads of a group take in each other's values."""

    def __init__(self, plan: _Allreduce, buffers: list[Buffer], place: PrimExpr, analyzer: Analyzer) -> None:
        self.reducer, self.group = plan.reducer, plan.group
        self.buffers, self.place, self.analyzer = buffers, place, analyzer

    def steps(self, warp_size: int) -> list[Stmt]:
        group = self.group
        stmts: list[Stmt] = []
        width = 1 << (group.size - 1).bit_length()
        if width > group.size:  # only some threads have a partner
            width //= 2
            stmts += self._step(width, group.size - width)
        aligned = group.count == 1 or group.contiguous % warp_size == 0
        while width > 1 and (width > group.contiguous or width > warp_size or not aligned):
            width //= 2
            stmts += self._step(width, width)
        if width > 1:
            stmts += self._in_warp(width)
        return stmts

    def _step(self, distance: int, active: int) -> list[Stmt]:
        taken = IfThenElse(self.group.index < active, self._store(self._combined(distance)))
        return [taken, _barrier("shared")]

    def _in_warp(self, width: int) -> list[Stmt]:
        """The last steps, by threads that run in step: loads and stores are apart, without a branch between."""
        half = width // 2
        stmts: list[Stmt] = []
        for distance in (half >> n for n in range(half.bit_length())):
            values = self._combined(distance)
            kept = [Var(f"w_{distance}_{i}", value.dtype) for i, value in enumerate(values)]
            body = SeqStmt.flatten(_barrier("warp"), self._store(list(kept)), _barrier("warp"))
            for var, value in zip(kept, values):
                body = LetStmt(var, value, body)
            stmts.append(body)
        return [IfThenElse(self.group.index < half, SeqStmt.flatten(*stmts)), _barrier("shared")]

    def _combined(self, distance: int) -> list[PrimExpr]:
        """A thread's values combined with those of the thread `distance` further."""
        further = self.group.place(self.group.index + distance, self.analyzer)
        values: dict[Var, PrimExpr] = {}
        for x, y, buffer in zip(self.reducer.lhs, self.reducer.rhs, self.buffers):
            values[x], values[y] = BufferLoad(buffer, (self.place,)), BufferLoad(buffer, (further,))
        return [substitute(result, values) for result in self.reducer.result]

    def _store(self, values: list[PrimExpr]) -> Stmt:
        return stored_together([BufferStore(b, v, (self.place,)) for b, v in zip(self.buffers, values)])


def _barrier(scope: str) -> Stmt:
    return Evaluate(Call("int32", "tir.tvm_storage_sync", [StringImm(scope)]))


def _warp_size(func: PrimFunc) -> int:
    """How many threads run in step on the function's target; 1 without one."""
    target = func.attrs.get("target")
    kind = str(getattr(target, "kind", ""))
    return int(getattr(target, "attrs", {}).get("thread_warp_size", 32 if kind in ("cuda", "nvptx") else 1))


def LowerThreadAllreduce(warp_size: int | None = None) -> Pass:
    """Write reductions over threads (`tvm_thread_allreduce`) as steps in memory that the threads share.

    `warp_size`: how many threads run in step, so that they need no barrier among them; that of the function's
    target (BindTarget) unless given, else 1. Of TVM's two forms this is the one for all targets; the other, by
    exchange of registers in a warp, is for CUDA, ROCm and Metal, which are no targets here.
    """

    def run(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
        found = _Finder()
        found.visit(func.body)
        if not found.found:
            return func
        return func.with_body(_Rewriter(found, warp_size or _warp_size(func)).visit(func.body))

    return prim_func_pass(run, 0, "tir.LowerThreadAllreduce")
