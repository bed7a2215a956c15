"""Which threads reduce together, and in which buffers: what LowerThreadAllreduce reads before it writes the steps."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import cast
from tvmagic.ir.query import is_call
from tvmagic.tir.transform.threads.lift_thread_binding import thread_rank


class _Axis(NamedTuple):
    """A thread axis: x, y, z as 0, 1, 2, its variable, and how many threads it has."""

    dim: int
    var: ir.Var
    extent: int


@dataclass
class Group:
    """The threads that reduce together, in each of several groups of them.

    `index`: which one a thread is in its group, of `size`; `number`: which group it is in, of `count`;
    `contiguous`: how many threads of a group follow each other.
    """

    index: ir.PrimExpr
    size: int
    number: ir.PrimExpr
    count: int
    contiguous: int

    @staticmethod
    def of(reduced: list[_Axis], others: list[_Axis]) -> Group:
        index, size = _flat(reduced)
        number, count = _flat(others)
        contiguous = 1
        dims = {axis.dim for axis in reduced}
        for axis in sorted([*reduced, *others], key=lambda axis: axis.dim):
            if axis.dim not in dims:
                break
            contiguous *= axis.extent
        return Group(index, size, number, count, contiguous)

    def place(self, index: ir.PrimExpr, analyzer: Analyzer) -> ir.PrimExpr:
        """Where the value of the group's thread `index` is."""
        if isinstance(self.number, ir.IntImm):
            return index
        return analyzer.simplify(self.number * self.size + index)


def _flat(axes: list[_Axis]) -> tuple[ir.PrimExpr, int]:
    """The number of a thread among those of `axes`, x running fastest, and how many there are."""
    index: ir.PrimExpr | None = None
    total = 1
    for axis in sorted(axes, key=lambda axis: axis.dim):
        index = axis.var if index is None else index + axis.var * total
        total *= axis.extent
    return ir.IntImm("int32", 0) if index is None else index, total


def is_allreduce(stmt: Any) -> bool:
    """Whether a statement is a reduction over threads."""
    return isinstance(stmt, ir.Evaluate) and is_call(stmt.value, "tir.tvm_thread_allreduce")


def barrier(scope: str) -> ir.Stmt:
    """Threads that share memory of a scope wait for each other."""
    return ir.Evaluate(ir.Call("int32", "tir.tvm_storage_sync", [ir.StringImm(scope)]))


# ---------------------------------------------------------------------------- how threads reduce


class Form(enum.Enum):
    """Where threads reduce: in shared memory, in the registers of one warp, or in those of several warps."""

    SHARED = 0
    WARP = 1
    WARPS = 2


class Warps(NamedTuple):
    """`size`: how many threads run in step; `most`: how many threads a block may have, 0 if that is not known.

    `shuffle`: whether the threads of a warp can read each other's registers.
    """

    size: int = 1
    most: int = 0
    shuffle: bool = False

    def form(self, group: Group, dtypes: Sequence[ir.DataType]) -> Form:
        """How TVM lets the threads of a group reduce values of these types."""
        plain = all(t.lanes == 1 and (t.bits in (32, 64) or str(t) == "float16") for t in dtypes)
        if not self.shuffle or not plain or group.contiguous != group.size:
            return Form.SHARED
        several = 0 < self.most <= self.size * self.size and group.size % self.size == 0
        if self.size % group.size and not several and (group.count > 1 or group.size > self.size):
            return Form.SHARED
        return Form.WARP if group.size <= self.size else Form.WARPS


@dataclass
class Allreduce:
    """One reduction over threads: `results` are the buffers that stand for what it gives."""

    reducer: ir.CommReducer
    sources: list[ir.PrimExpr]
    condition: ir.PrimExpr
    results: list[ir.Buffer]
    group: Group
    form: Form


def _overwritten(result: ir.Buffer, node: Any, hint: str) -> TVMagicError:
    return TVMagicError(
        f"`{result.name}` has the result of a reduction over threads, which another one overwrites before it is used",
        node=node,
        hint=hint,
        code="tir.thread_reduction.result_overwritten",
    )


class AllreduceFinder(ir.Visitor):
    """Reads the reductions over threads, and which buffer comes in the place of each of their results."""

    def __init__(self, warps: Warps) -> None:
        self.warps = warps
        self.analyzer = Analyzer()
        self.threads: list[tuple[ir.IterVar, ir.PrimExpr]] = []
        self.reducers: list[ir.CommReducer] = []
        self.found: dict[ir.Evaluate, Allreduce] = {}
        self.placed: dict[ir.Var, ir.Buffer] = {}
        # the scope and the size of its memory, and where in it a thread finds its result
        self.places: dict[ir.Var, tuple[tuple[str, int], ir.PrimExpr]] = {}
        # results that nothing was computed from yet
        self.unread: set[ir.Var] = set()
        # results that a loop has left behind: of its last iteration only
        self.last: set[ir.Var] = set()
        # what a load of a result becomes
        self.loads: dict[ir.Var, ir.PrimExpr] = {}
        # memory that statements write themselves: StorageRewrite lets results share memory with other values
        self.stored: set[ir.Var] = set()

    def keeps_memory(self, data: ir.Var) -> bool:
        """Whether the memory of a result stays, since it also has other values."""
        return data in self.placed and data in self.stored

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.visit_children(node)
        data = node.buffer.data
        self.stored.add(data)
        self.unread.discard(data)  # what is read from now on is the value stored here
        self.last.discard(data)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        if node.buffer.data in self.last:
            raise _overwritten(node.buffer, node, "put what uses it into the same loop, and do not vectorize that")
        self.unread.discard(node.buffer.data)
        self.visit_children(node)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        before = set(self.unread)
        self.visit_children(node)
        if not (isinstance(node.extent, ir.IntImm) and node.extent.value == 1):
            self.last |= self.unread - before

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if node.attr_key == "thread_extent" and isinstance(node.node, ir.IterVar):
            self.threads.append((node.node, node.value))
            self.visit(node.body)
            self.threads.pop()
        elif node.attr_key == "reduce_scope" and isinstance(node.node, ir.CommReducer):
            self.reducers.append(node.node)
            self.visit(node.body)
            self.reducers.pop()
        else:
            self.visit(node.body)

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> None:
        if not is_allreduce(node):
            self.visit(node.value)
            return
        if not self.reducers:
            raise TVMagicError(
                "a reduction over threads is in no `reduce_scope`",
                node=node,
                code="tir.thread_reduction.no_reduce_scope",
            )
        assert isinstance(node.value, ir.Call)
        args, reducer = node.value.args, self.reducers[-1]
        count = len(reducer.result)
        if getattr(args[0], "value", None) != count or len(args) < 2 + 2 * count:
            raise TVMagicError(
                f"a reduction over threads of {count} values has other arguments",
                node=node,
                code="tir.thread_reduction.wrong_arguments",
            )
        results = [self._result(arg, node) for arg in args[2 + count : 2 + 2 * count]]
        group, sources = self._group(args[2 + 2 * count :], node), list(args[1 : 1 + count])
        form = self.warps.form(group, [source.dtype for source in sources])
        self.found[node] = Allreduce(reducer, sources, args[1 + count], results, group, form)
        for source in sources:
            self.visit(source)
        for result in results:
            if result.data in self.unread:
                hint = "virtual threads take no part in such reductions: bind their loop to another axis"
                raise _overwritten(result, node, hint)
            self.last.discard(result.data)
            self.unread.add(result.data)
        if group.size > 1:
            for i, (result, source) in enumerate(zip(results, sources)):
                self._allocate_result(i, result, source.dtype, group, form, node)

    def _result(self, arg: ir.PrimExpr, node: ir.Evaluate) -> ir.Buffer:
        if isinstance(arg, ir.Cast):  # bool as it is stored
            arg = arg.value
        if not isinstance(arg, ir.BufferLoad):
            raise TVMagicError(
                f"`{arg}` is not a place for the result of a reduction over threads",
                node=node,
                code="tir.thread_reduction.wrong_result",
            )
        return arg.buffer

    def _threads(self, reduced: Sequence[ir.PrimExpr], node: ir.Evaluate) -> list[ir.Var]:
        """The variables of threads among the last arguments; an axis of one thread is a 0 there."""
        result: list[ir.Var] = []
        for arg in reduced:
            while isinstance(arg, ir.Cast):  # of a narrower type since NarrowDataType
                arg = arg.value
            if isinstance(arg, ir.Var):
                result.append(arg)
            elif not (isinstance(arg, ir.IntImm) and arg.value == 0):
                raise TVMagicError(
                    f"`{arg}` is not a thread to reduce over", node=node, code="tir.thread_reduction.not_a_thread"
                )
        return result

    def _group(self, reduced: Sequence[ir.PrimExpr], node: ir.Evaluate) -> Group:
        wanted = set(self._threads(reduced, node))
        mine: list[_Axis] = []
        others: list[_Axis] = []
        for axis, extent in self.threads:
            rank, dim = thread_rank(axis.thread_tag)
            if rank == 0:
                continue
            if dim < 0 or not isinstance(extent, ir.IntImm):
                raise TVMagicError(
                    f"threads reduce together, so `{axis.thread_tag}` needs a constant extent, not `{extent}`",
                    node=node,
                    hint="vthread takes no part in such reductions" if dim < 0 else "split the loop by a constant",
                    code="tir.thread_reduction.symbolic_extent",
                )
            if axis.var in wanted:
                wanted.discard(axis.var)
                if extent.value > 1:
                    mine.append(_Axis(dim, axis.var, extent.value))
            elif extent.value > 1:
                others.append(_Axis(dim, axis.var, extent.value))
        if wanted:
            names = ", ".join(f"`{var.name}`" for var in wanted)
            raise TVMagicError(
                f"a reduction over {names} is outside these threads",
                node=node,
                code="tir.thread_reduction.outside_threads",
            )
        return Group.of(mine, others)

    def _allocate_result(
        self, i: int, result: ir.Buffer, dtype: ir.DataType, group: Group, form: Form, node: ir.Evaluate
    ) -> None:
        """The buffer of result number `i`, and where in it a thread finds what its group has reduced to."""
        first: ir.PrimExpr = ir.IntImm(group.index.dtype, 0)
        name, scope, size = f"red_buf{i}", "shared", group.count * group.size
        if form is Form.WARP:
            scope, size = "local", 1
        elif form is Form.WARPS:
            name, size, first = "red_result", group.count, group.number
        else:
            first = group.place(first, self.analyzer)
        data, memory = result.data, (scope, size)
        if data not in self.placed:
            buffer = ir.decl_buffer([ir.IntImm("int32", size)], dtype, name, scope=scope)
            self.placed[data], self.places[data] = buffer, (memory, first)
            self.loads[data] = cast(result.dtype, ir.BufferLoad(buffer, (first,)))
        elif self.places[data][0] != memory or not ir.expr_deep_equal(self.places[data][1], first):
            raise TVMagicError(
                f"`{result.name}` is the result of reductions over different threads",
                node=node,
                code="tir.thread_reduction.different_threads",
            )
