"""A stage: one operation with its loops, and the calls by which users arrange them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvmagic.errors import ScheduleError, visible
from tvmagic.ir import (
    Identified,
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    Span,
    StringImm,
    Var,
    attr_value,
    expr,
)
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.values import number_text
from tvmagic.passes import user_span
from tvmagic.te.intrinsic import TensorIntrin
from tvmagic.te.operation import axis_text
from tvmagic.te.schedule.attributes import ITER_TYPE_NAMES, AttachType, IterVarAttr
from tvmagic.te.schedule.relations import Fuse, IterVarRelation, Singleton, Split
from tvmagic.te.tensor import Operation, ScanOp, Tensor

if TYPE_CHECKING:
    from tvmagic.arith.index_map import IndexMap
    from tvmagic.te.schedule.schedule import Schedule

__all__ = ["AttachType", "IterVarAttr", "Stage"]


_DIVISIBLE = (IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered)
_MOVABLE = (IterVar.DataPar, IterVar.CommReduce, IterVar.ThreadIndex)
_VECTOR = (
    IterVar.DataPar,
    IterVar.Opaque,
    IterVar.Unrolled,
    IterVar.Vectorized,
    IterVar.Tensorized,
    IterVar.Parallelized,
)


class Stage(Identified):
    """One operation of a schedule and its loops; the methods rearrange them in place.

    Attributes
    ----------
    op, origin_op: the operation, and what it was before rewrites of the schedule.
    all_iter_vars: every iteration variable; leaf_iter_vars: those that are loops, outermost first.
    relations: how they follow from each other, in the order in which they were made.
    attach_type, attach_stage, attach_ivar: where it runs.
    iter_var_attrs: what is said of single loops; thread_env: thread axes around everything.
    group, num_child_stages: the group it belongs to, and how many stages a group has.
    """

    def __init__(self, op: Operation | None, schedule: Schedule | None = None, span: Span | None = None) -> None:
        self.op: Operation = op  # type: ignore[assignment]  # a group has none
        self.origin_op: Operation = op  # type: ignore[assignment]
        self.schedule = schedule
        self.span = span if span is not None or op is None else op.span
        self.all_iter_vars: list[IterVar] = list(op.root_iter_vars()) if op is not None else []
        self.leaf_iter_vars: list[IterVar] = [iv for iv in self.all_iter_vars if iv.iter_type != IterVar.Opaque]
        self.relations: list[IterVarRelation] = []
        self.iter_var_attrs: dict[IterVar, IterVarAttr] = {}
        self.thread_env: list[IterVar] = []
        self.store_predicate: PrimExpr | None = None
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_ivar: IterVar | None = None
        self.attach_stage: Stage | None = None
        self.scope = ""
        self.is_output = False
        self.is_double_buffered = False
        self.is_rolling = False
        self.group: Stage | None = None
        self.num_child_stages = 0
        self.layout_transforms: list[IndexMap] = []
        self.axis_separators: list[IntImm] = []

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self.op.name if self.op is not None else "group"

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The data axes of its operation."""
        return tuple(self.op.axis)

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The reduction axes of its operation."""
        return tuple(self.op.reduce_axis)

    def __repr__(self) -> str:
        return f"stage({visible(self.name)})"

    @property
    def is_scheduled(self) -> bool:
        """Whether any call has rearranged its loops, or moved it."""
        moved = self.relations or self.attach_type != AttachType.GROUP_ROOT
        same = len(self.all_iter_vars) == len(self.leaf_iter_vars)
        return bool(moved) or not (same and all(a is b for a, b in zip(self.all_iter_vars, self.leaf_iter_vars)))

    @property
    def is_attached(self) -> bool:
        """Whether it runs inside a loop of another stage."""
        return self.attach_type in (AttachType.SCOPE, AttachType.SCAN_UPDATE)

    def get_attach_spec(self) -> Stage:
        """The stage or group that says where this one runs."""
        spec = self
        while spec.attach_type == AttachType.GROUP_ROOT and spec.group is not None:
            spec = spec.group
        return spec

    def copy(self) -> Stage:
        """A stage with lists of its own; links to other stages still name the old ones."""
        new = Stage.__new__(Stage)
        new.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, list):
                new.__dict__[name] = list(value)
        new.iter_var_attrs = {iv: attr.copy() for iv, attr in self.iter_var_attrs.items()}
        return new

    # ------------------------------------------------------------------ checks

    def error(self, message: str, hint: str | None = None) -> ScheduleError:
        """The error that says what is wrong with a call on this stage."""
        return ScheduleError(f"stage `{self.name}`: {message}", span=user_span(), hint=hint)

    def leaf_position(self, iv: Any, call: str) -> int:
        """The place of `iv` among the loops; an error if it is not among them."""
        if not isinstance(iv, IterVar):
            named = next((leaf for leaf in self.leaf_iter_vars if leaf.var.name == iv), None)
            hint = self._loop_text(named) if named is not None else self._loops_text()
            raise self.error(f"{call} takes a loop of the stage, not `{iv!r}`", hint)
        for position, leaf in enumerate(self.leaf_iter_vars):
            if leaf is iv:
                return position
        hint = self._loops_text()
        if any(known is iv for known in self.all_iter_vars):
            raise self.error(f"{call} on `{iv.var.name}`, which was split or fused already", hint)
        raise self.error(f"{call} on `{iv.var.name}`, which is not a loop of the stage", hint)

    def _check_type(self, iv: IterVar, allowed: Sequence[int], call: str) -> None:
        if iv.iter_type not in allowed:
            fit = [f"`{leaf.var.name}`" for leaf in self.leaf_iter_vars if leaf.iter_type in allowed]
            hint = f"it takes {', '.join(fit)}" if fit else None
            raise self.error(f"{call} on `{iv.var.name}`, which is {ITER_TYPE_NAMES[iv.iter_type]}", hint)

    def _loops_text(self) -> str:
        loops = ", ".join(f"`{leaf.var.name}`" for leaf in self.leaf_iter_vars) or "none"
        return f"the loops of the stage are {loops}"

    def _loop_text(self, loop: IterVar) -> str:
        """How the loop is written: a loop that a call made has the name that the cell gave it."""
        axis = axis_text(self.op, loop)
        if axis is not None:
            return f"write `{axis}`"
        return f"give what made it a name, as in `outer, inner = s[{self.name}].split(...)`"

    def _attr(self, iv: IterVar) -> IterVarAttr:
        attr = self.iter_var_attrs.get(iv)
        if attr is None:
            attr = self.iter_var_attrs[iv] = IterVarAttr()
        return attr

    # ------------------------------------------------------------------ loops

    def split(
        self, parent: IterVar, factor: Any = None, nparts: Any = None, disable_predication: bool = False
    ) -> tuple[IterVar, IterVar]:
        """Split a loop into blocks of `factor` iterations, or into `nparts` blocks.

        Returns the loop over the blocks and the loop inside a block. With `disable_predication`
        no guard is made where the blocks overrun: the caller vouches that they do not.

        Parameters
        ----------
        parent: the loop.
        factor: the iterations of the inner loop.
        nparts: the iterations of the outer loop, in place of `factor`.
        disable_predication: make no guard.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            outer, inner = s[B].split(B.op.axis[0], 4)

        is lowered to

            for i_outer, i_inner in T.grid(4, 4):
                cse_var_1: T.int32 = i_outer * 4 + i_inner
                B[cse_var_1] = A[cse_var_1] + T.float32(1.0)
        """
        if (factor is None) == (nparts is None):
            raise self.error(
                "split takes either factor or nparts", "a loop in three is made by two calls: split the inner one again"
            )
        position, size = self._check_split(parent, factor if factor is not None else nparts)
        outer = IterVar(None, parent.var.copy_with_suffix(".outer"), parent.iter_type)
        inner = IterVar(None, parent.var.copy_with_suffix(".inner"), parent.iter_type)
        sizes = (size, None) if factor is not None else (None, size)
        self.relations.append(Split(parent, outer, inner, *sizes, disable_predication))
        self.all_iter_vars += [outer, inner]
        self.leaf_iter_vars[position : position + 1] = [outer, inner]
        return outer, inner

    def _check_split(self, parent: IterVar, size: Any) -> tuple[int, PrimExpr]:
        """The place of a loop that can be split, and the size as an expression."""
        position = self.leaf_position(parent, "split")
        self._check_type(parent, _DIVISIBLE, "split")
        result = expr(size)
        if result.dtype.is_float:
            raise self.error(f"split of `{parent.var.name}` by `{size}`, which is not an integer")
        if isinstance(result, IntImm) and result.value <= 0:
            raise self.error(
                f"split of `{parent.var.name}` by {result.value}, which is not positive", "a factor is 1 or more"
            )
        if isinstance(result, IntImm):
            self._check_fits(result.value, parent, "split")
        return position, result

    def _check_fits(self, size: int, loop: IterVar, call: str) -> None:
        """The size is a value of the loop's type: the index is computed from it."""
        dtype = loop.var.dtype
        if size > largest_integer(dtype):
            raise self.error(
                f"{call} of `{loop.var.name}` by the number {number_text(size)}, which does not fit into `{dtype}`, the type of its indices",
                "take a smaller number",
            )

    def fuse(self, *args: IterVar) -> IterVar:
        """Fuse loops that stand next to each other, outermost first, into one.

        Without arguments: a new outermost loop of one iteration.

        Parameters
        ----------
        args: the loops, outermost first.

        Example
        -------
            B = te.compute((16, 16), lambda i, j: A[i, j] + 1.0, name="B")
            s = te.create_schedule(B.op)
            fused = s[B].fuse(*B.op.axis)

        is lowered to

            for i_j_fused in range(256):
                B_1 = T.Buffer((256,), data=B.data)
                A_1 = T.Buffer((256,), data=A.data)
                B_1[i_j_fused] = A_1[i_j_fused] + T.float32(1.0)
        """
        if not args:
            singleton = IterVar(Range.from_min_extent(0, 1), Var("singleton", "int32"), IterVar.DataPar)
            self.relations.append(Singleton(singleton))
            self.all_iter_vars.append(singleton)
            self.leaf_iter_vars.insert(0, singleton)
            return singleton
        self._check_fuse(args)
        fused = args[0]
        for iv in args[1:]:
            fused = self._fuse_two(fused, iv)
        return fused

    def _check_fuse(self, loops: Sequence[IterVar]) -> None:
        """Each loop stands next to those before it, all of them together on places without a gap."""
        first = last = self.leaf_position(loops[0], "fuse")
        for before, iv in zip(loops, loops[1:]):
            position = self.leaf_position(iv, "fuse")
            self._check_type(before, _DIVISIBLE, "fuse")
            self._check_type(iv, _DIVISIBLE, "fuse")
            if position not in (first - 1, last + 1):
                raise self.error(
                    f"fuse of `{before.var.name}` and `{iv.var.name}`, which do not stand next to each other",
                    "reorder the loops first",
                )
            first, last = min(first, position), max(last, position)

    def _fuse_two(self, outer: IterVar, inner: IterVar) -> IterVar:
        first, second = self.leaf_position(outer, "fuse"), self.leaf_position(inner, "fuse")
        if second < first:
            outer, inner, first, second = inner, outer, second, first
        name = f"{outer.var.name}.{inner.var.name}.fused"
        fused = IterVar(None, Var(name, outer.dtype), max(outer.iter_type, inner.iter_type))
        self.relations.append(Fuse(outer, inner, fused))
        self.all_iter_vars.append(fused)
        self.leaf_iter_vars[first : second + 1] = [fused]
        return fused

    def reorder(self, *args: IterVar) -> None:
        """Put the given loops in this order, on the places that they hold together.

        Parameters
        ----------
        args: the loops, in their new order.

        Example
        -------
            B = te.compute((16, 16), lambda i, j: A[i, j] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].reorder(B.op.axis[1], B.op.axis[0])

        is lowered to

            for j, i in T.grid(16, 16):
                cse_var_1: T.int32 = i * 16 + j
                B_1 = T.Buffer((256,), data=B.data)
                A_1 = T.Buffer((256,), data=A.data)
                B_1[cse_var_1] = A_1[cse_var_1] + T.float32(1.0)
        """
        positions = [self.leaf_position(iv, "reorder") for iv in args]
        for place, iv in enumerate(args):
            self._check_type(iv, _MOVABLE, "reorder")
            if any(iv is other for other in args[:place]):
                raise self.error(f"reorder names `{iv.var.name}` twice")
        for position, iv in zip(sorted(positions), args):
            self.leaf_iter_vars[position] = iv

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two loops and put the loops over blocks outside: x outer, y outer, x inner, y inner.

        Parameters
        ----------
        x_parent, y_parent: the two loops.
        x_factor, y_factor: the iterations of the inner loop of each.

        Example
        -------
            B = te.compute((16, 16), lambda i, j: A[i, j] + 1.0, name="B")
            s = te.create_schedule(B.op)
            i, j, ii, jj = s[B].tile(*B.op.axis, 4, 8)

        is lowered to

            for i_outer, j_outer, i_inner, j_inner in T.grid(4, 2, 4, 8):
                cse_var_1: T.int32 = i_outer * 64 + i_inner * 16 + j_outer * 8 + j_inner
                B_1 = T.Buffer((256,), data=B.data)
                A_1 = T.Buffer((256,), data=A.data)
                B_1[cse_var_1] = A_1[cse_var_1] + T.float32(1.0)
        """
        for parent, factor in ((x_parent, x_factor), (y_parent, y_factor)):
            self._check_split(parent, factor)
            self._check_type(parent, _MOVABLE, "tile")
        if x_parent is y_parent:
            raise self.error(f"tile names `{x_parent.var.name}` twice")
        x_outer, x_inner = self.split(x_parent, factor=x_factor)
        y_outer, y_inner = self.split(y_parent, factor=y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    # ------------------------------------------------------------------ what a loop is

    def _annotate(self, iv: IterVar, iter_type: int, call: str) -> None:
        self.leaf_position(iv, call)
        self._attr(iv).iter_type = iter_type

    def vectorize(self, var: IterVar) -> None:
        """Run the loop's iterations as one vector operation.

        Parameters
        ----------
        var: the loop, of constant extent.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].vectorize(s[B].split(B.op.axis[0], 4)[1])

        is lowered to

            for i_outer in range(4):
                cse_var_1: T.int32 = i_outer * 4
                B[cse_var_1:cse_var_1 + 4] = A[cse_var_1:cse_var_1 + 4] + T.Broadcast(T.float32(1.0), 4)
        """
        self.leaf_position(var, "vectorize")
        self._check_type(var, _VECTOR, "vectorize")
        self._annotate(var, IterVar.Vectorized, "vectorize")

    def unroll(self, var: IterVar) -> None:
        """Write the loop's iterations one after the other.

        Parameters
        ----------
        var: the loop.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].unroll(s[B].split(B.op.axis[0], 4)[1])

        is lowered to

            for i_outer in range(4):
                cse_var_4: T.int32 = i_outer * 4
                cse_var_3: T.int32 = cse_var_4 + 3
                cse_var_2: T.int32 = cse_var_4 + 2
                cse_var_1: T.int32 = cse_var_4 + 1
                B[cse_var_4] = A[cse_var_4] + T.float32(1.0)
                B[cse_var_1] = A[cse_var_1] + T.float32(1.0)
                B[cse_var_2] = A[cse_var_2] + T.float32(1.0)
                B[cse_var_3] = A[cse_var_3] + T.float32(1.0)
        """
        self._annotate(var, IterVar.Unrolled, "unroll")

    def parallel(self, var: IterVar) -> None:
        """Run the loop's iterations on several threads.

        Parameters
        ----------
        var: the loop.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].parallel(B.op.axis[0])

        is lowered to

            for i in T.parallel(16):
                B[i] = A[i] + T.float32(1.0)
        """
        self._annotate(var, IterVar.Parallelized, "parallel")

    def tensorize(self, var: IterVar, tensor_intrin: TensorIntrin) -> None:
        """Replace the loop, and all inside it, by a tensor intrinsic.

        Parameters
        ----------
        var: the loop.
        tensor_intrin: what `te.decl_tensor_intrin` gave.

        Example
        -------
            x = te.placeholder((4,), name="x")
            y = te.compute((4,), lambda i: x[i] + 1.0, name="y")
            intrin = te.decl_tensor_intrin(
                y.op,
                lambda ins, outs: outs[0].vstore([0], ins[0].vload([0], "float32x4") + 1.0),
                default_buffer_params={"offset_factor": 1},
            )
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            outer, inner = s[B].split(B.op.axis[0], 4)
            s[B].tensorize(inner, intrin)

        is lowered to

            for i_outer in range(4):
                cse_var_1: T.int32 = i_outer * 4
                B[cse_var_1:cse_var_1 + 4] = A[cse_var_1:cse_var_1 + 4] + T.Broadcast(T.float32(1.0), 4)
        """
        if not hasattr(tensor_intrin, "reduce_init"):
            raise self.error(f"tensorize by a `{type(tensor_intrin).__name__}`, which is no tensor intrinsic")
        self._annotate(var, IterVar.Tensorized, "tensorize")
        self._attr(var).tensor_intrin = tensor_intrin

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """Run the loop's iterations on the threads of a thread axis.

        Parameters
        ----------
        ivar: the loop.
        thread_ivar: the thread axis, from `te.thread_axis`.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))

        is lowered to

            threadIdx_x = T.launch_thread("threadIdx.x", 16)
            B[threadIdx_x] = A[threadIdx_x] + T.float32(1.0)
        """
        self.leaf_position(ivar, "bind")
        self._check_type(ivar, (IterVar.DataPar, IterVar.CommReduce), "bind")
        if not isinstance(thread_ivar, IterVar):
            raise self.error(
                f"bind takes a thread axis, not `{thread_ivar!r}`", 'such as `te.thread_axis("threadIdx.x")`'
            )
        if thread_ivar.iter_type != IterVar.ThreadIndex:
            raise self.error(f"bind to `{thread_ivar.var.name}`, which is {ITER_TYPE_NAMES[thread_ivar.iter_type]}")
        self._attr(ivar).bind_thread = thread_ivar

    def env_threads(self, threads: Any) -> None:
        """Launch thread axes around everything that a scan does.

        Parameters
        ----------
        threads: thread axes, from `te.thread_axis`.

        Example
        -------
            B = te.placeholder((8, 16), name="B")
            first = te.compute((1, 16), lambda t, i: A[0, i], name="first")
            update = te.compute((8, 16), lambda t, i: B[t - 1, i] + A[t, i], name="update")
            C = te.scan(first, update, B, name="C")
            s = te.create_schedule(C.op)
            thread = te.thread_axis((0, 16), "threadIdx.x")
            s[first].bind(first.op.axis[1], thread)
            s[update].bind(update.op.axis[1], thread)
            s[C].env_threads(thread)

        is lowered to

            threadIdx_x = T.launch_thread("threadIdx.x", 16)
            C_1 = T.Buffer((128,), data=C.data)
            A_1 = T.Buffer((128,), data=A.data)
            C_1[threadIdx_x] = A_1[threadIdx_x]
            for C_idx in range(7):
                C_1[C_idx * 16 + threadIdx_x + 16] = C_1[C_idx * 16 + threadIdx_x] + A_1[C_idx * 16 + threadIdx_x + 16]
        """
        axes = list(threads) if isinstance(threads, (list, tuple)) else [threads]
        if not isinstance(self.op, ScanOp):
            raise self.error("env_threads is for a scan")
        if self.thread_env:
            raise self.error("env_threads is called twice")
        for iv in axes:
            self._check_type(iv, (IterVar.ThreadIndex,), "env_threads")
        self.leaf_iter_vars[:0] = axes
        self.all_iter_vars += axes
        self.thread_env = axes

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Say something of a loop to the passes: a key, with a value where it takes one.

        Parameters
        ----------
        var: the loop.
        pragma_type: the key, such as `unroll_explicit`.
        pragma_value: its value.

        Example
        -------
            B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].pragma(B.op.axis[0], "auto_unroll_max_step", 4)

        is lowered to

            B[0] = A[0] + T.float32(1.0)
            B[1] = A[1] + T.float32(1.0)
            B[2] = A[2] + T.float32(1.0)
            B[3] = A[3] + T.float32(1.0)
        """
        shorthand = {"unroll": self.unroll, "vectorize": self.vectorize}.get(pragma_type)
        if shorthand is not None:
            shorthand(var)
            return
        self.leaf_position(var, "pragma")
        key, value = StringImm(pragma_type), attr_value(pragma_value)
        attr = self._attr(var)
        attr.pragma_keys.append(key)
        attr.pragma_values.append(StringImm(value) if isinstance(value, str) else value)

    def prefetch(self, tensor: Tensor, var: IterVar, offset: Any) -> None:
        """Fetch what the iteration `offset` later needs of `tensor` into the cache.

        Parameters
        ----------
        tensor: what is read.
        var: the loop in whose iterations it is fetched.
        offset: how many iterations ahead.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].prefetch(A, B.op.axis[0], 1)

        is lowered to

            for i in range(16):
                T.prefetch(T.address_of(A[i + 1]), 0, 3, 1)
                B[i] = A[i] + T.float32(1.0)
        """
        self.leaf_position(var, "prefetch")
        distance = expr(offset)
        attr = self._attr(var)
        attr.prefetch_data.append(tensor)
        attr.prefetch_offset.append(distance)

    # ------------------------------------------------------------------ where it runs

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute what one iteration of the loop `scope` of `parent` needs, inside that loop.

        Parameters
        ----------
        parent: the stage that reads the result.
        scope: one of its loops.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].compute_at(s[C], C.op.axis[0])

        is lowered to

            B = T.allocate([1], "float32", "global")
            for i in range(16):
                B_1 = T.Buffer((1,), data=B, align=4)
                B_1[0] = A[i] + T.float32(1.0)
                C[i] = B_1[0] * T.float32(2.0)
        """
        if parent is self:
            raise self.error(
                "compute_at a loop of the stage itself", "give the stage that reads it, and a loop of that"
            )
        self._check_group(parent)
        parent.leaf_position(scope, f"compute_at of `{self.name}`")
        self._check_cycle(parent)
        self.attach_type, self.attach_ivar, self.attach_stage = AttachType.SCOPE, scope, parent

    def _check_group(self, parent: Stage) -> None:
        if self.group is None:
            return
        group = parent.group
        while group is not None and group is not self.group:
            group = group.group
        if group is not self.group:
            raise self.error(f"compute_at `{parent.name}`, which is in another group")

    def _check_cycle(self, parent: Stage) -> None:
        seen: Stage | None = parent
        steps = 0
        while seen is not None and steps < 100_000:
            spec = seen.get_attach_spec()
            if not spec.is_attached:
                return
            seen, steps = spec.attach_stage, steps + 1
            if seen is self:
                raise self.error(
                    f"compute_at `{parent.name}`, which is computed at `{self.name}` itself",
                    f"call compute_root on stage `{parent.name}` first",
                )

    def compute_inline(self) -> None:
        """Compute each element where it is read; the stage has no loops of its own.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].compute_inline()

        is lowered to

            for i in range(16):
                C[i] = (A[i] + T.float32(1.0)) * T.float32(2.0)
        """
        self._detach(AttachType.INLINE)

    def compute_root(self) -> None:
        """Compute the whole before the stages that read it.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].compute_root()

        is lowered to

            B = T.allocate([16], "float32", "global")
            B_1 = T.Buffer((16,), data=B)
            for i in range(16):
                B_1[i] = A[i] + T.float32(1.0)
            for i in range(16):
                C[i] = B_1[i] * T.float32(2.0)
        """
        self._detach(AttachType.GROUP_ROOT)

    def _detach(self, attach_type: AttachType) -> None:
        """Run in no loop of another stage any more."""
        self.attach_type, self.attach_stage, self.attach_ivar = attach_type, None, None

    def set_scope(self, scope: str) -> None:
        """Keep the result in the memory named `scope`.

        Parameters
        ----------
        scope: the memory, such as `global`, `shared` or `local`.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].set_scope("local")

        is lowered to

            B = T.allocate([16], "float32", "local")
            B_1 = T.Buffer((16,), data=B, scope="local")
            for i in range(16):
                B_1[i] = A[i] + T.float32(1.0)
            for i in range(16):
                C[i] = B_1[i] * T.float32(2.0)
        """
        self.scope = scope

    def set_store_predicate(self, predicate: Any) -> None:
        """Store only if `predicate` holds.

        Parameters
        ----------
        predicate: a condition on the axes of the operation.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            s[B].set_store_predicate(B.op.axis[0] < 8)

        is lowered to

            for i in range(16):
                if i < 8:
                    B[i] = A[i] + T.float32(1.0)
        """
        self.store_predicate = expr(predicate)

    # ------------------------------------------------------------------ its buffer

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Let the stride of `axis` be `k * factor + offset` elements.

        Parameters
        ----------
        axis: an axis of the operation.
        factor, offset: in elements.

        Example
        -------
            B = te.compute((4, 16), lambda i, j: A[i, j] + 1.0, name="B")
            C = te.compute((4, 16), lambda i, j: B[i, j] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].storage_align(B.op.axis[0], 32, 4)

        is lowered to

            B = T.allocate([144], "float32", "global")
            B_1 = T.Buffer((144,), data=B)
            for i, j in T.grid(4, 16):
                A_1 = T.Buffer((64,), data=A.data)
                B_1[i * 36 + j] = A_1[i * 16 + j] + T.float32(1.0)
            for i, j in T.grid(4, 16):
                C_1 = T.Buffer((64,), data=C.data)
                C_1[i * 16 + j] = B_1[i * 36 + j] * T.float32(2.0)
        """
        sizes = int(factor), int(offset)
        for size in sizes:
            self._check_fits(size, axis, "storage_align")
        attr = self._attr(axis)
        attr.dim_align_factor, attr.dim_align_offset = sizes

    def _not_output(self, call: str) -> None:
        if self.is_output:
            raise self.error(f"{call} on an output of the schedule", "it is for a stage that another one reads")

    def double_buffer(self) -> None:
        """Keep two copies of the buffer: one is filled while the other is read.

        Example
        -------
            B = te.compute((4, 16), lambda i, j: A[i, j] + 1.0, name="B")
            C = te.compute((4, 16), lambda i, j: B[i, j] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].compute_at(s[C], C.op.axis[0])
            s[B].double_buffer()

        is lowered to

            B = T.allocate([32], "float32", "global")
            B_1 = T.Buffer((32,), data=B)
            A_1 = T.Buffer((64,), data=A.data)
            for j in range(16):
                B_1[j] = A_1[j] + T.float32(1.0)
            C_1 = T.Buffer((64,), data=C.data)
            for i_outer in range(3):
                with T.attr(B, "double_buffer_write", 1):
                    for j in range(16):
                        B_1[(i_outer + 1) % 2 * 16 + j] = A_1[i_outer * 16 + j + 16] + T.float32(1.0)
                for j in range(16):
                    C_1[i_outer * 16 + j] = B_1[i_outer % 2 * 16 + j] * T.float32(2.0)
            for j in range(16):
                C_1[j + 48] = B_1[j + 16] * T.float32(2.0)
        """
        self._not_output("double_buffer")
        self.is_double_buffered = True

    def rolling_buffer(self) -> None:
        """Mark the buffer as one that keeps what the next iteration needs again, and is used in a circle.

        The mark is for the pass `InjectRollingBuffer`, which is to run first: `PassContext(config={"tir.add_lower_pass":
        [(0, tvmagic.tir.transform.InjectRollingBuffer())]})`. Without it each iteration computes all that it needs.

        Example
        -------
            B = te.compute((17,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] + B[i + 1], name="C")
            s = te.create_schedule(C.op)
            s[B].compute_at(s[C], C.op.axis[0])
            s[B].rolling_buffer()

        is lowered to

            B = T.allocate([2], "float32", "global")
            for i in range(16):
                B_1 = T.Buffer((17,))
                T.attr(B_1, "rolling_buffer_scope", T.bool(True))
                B_2 = T.Buffer((2,), data=B, align=8)
                for i_1 in range(2):
                    B_2[i_1] = A[i_1 + i] + T.float32(1.0)
                C[i] = B_2[0] + B_2[1]
        """
        self._not_output("rolling_buffer")
        self.is_rolling = True

    def transform_layout(self, mapping_function: Callable[..., Any]) -> list[IterVar] | None:
        """Store element `(i, j, ...)` at the indices that `mapping_function(i, j, ...)` gives.

        `te.AXIS_SEPARATOR` among them divides the dimensions into groups. Returns the loops over
        the new indices, if the stage's loops are rewritten.

        Parameters
        ----------
        mapping_function: from indices to a list of indices.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].transform_layout(lambda i: [i // 4, i % 4])

        is lowered to

            B = T.allocate([16], "float32", "global")
            B_1 = T.Buffer((16,), data=B)
            for axis0, axis1 in T.grid(4, 4):
                cse_var_1: T.int32 = axis0 * 4 + axis1
                B_1[cse_var_1] = A[cse_var_1] + T.float32(1.0)
            for i in range(16):
                C[i] = B_1[i] * T.float32(2.0)
        """
        from tvmagic.te.schedule.layout import transform_layout

        return transform_layout(self, mapping_function)


# The calls that a schedule keeps a record of, if it is asked to (`te.keep_schedule_record`).
STAGE_CALLS = (
    "bind", "compute_at", "compute_inline", "compute_root", "double_buffer", "env_threads", "fuse", "parallel",
    "pragma", "prefetch", "reorder", "rolling_buffer", "set_scope", "set_store_predicate", "split", "storage_align",
    "tensorize", "transform_layout", "unroll", "vectorize",
)  # fmt: skip


def _recorded(name: str) -> Callable[..., Any]:
    call = getattr(Stage, name)

    @functools.wraps(call)
    def run(self: Stage, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        if self.schedule is not None and self.schedule.keep_record:
            self.schedule.record_call(name)
        return result

    return run


for _name in STAGE_CALLS:
    setattr(Stage, _name, _recorded(_name))
