"""The calls that rearrange the loops of a stage: split, fuse, reorder, tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.reducer_laws import can_reorder
from tvmagic.te.reduction import unproved_law
from tvmagic.te.schedule.relations import Fuse, Singleton, Split
from tvmagic.te.schedule.stage_state import StageState

_DIVISIBLE = (ir.IterVar.DataPar, ir.IterVar.CommReduce, ir.IterVar.Ordered)
_MOVABLE = (ir.IterVar.DataPar, ir.IterVar.CommReduce, ir.IterVar.ThreadIndex)


class LoopCalls(StageState):
    """The calls of a stage that make loops of other loops, and order them."""

    def split(
        self, parent: ir.IterVar, factor: Any = None, nparts: Any = None, disable_predication: bool = False
    ) -> tuple[ir.IterVar, ir.IterVar]:
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
                "split takes either factor or nparts",
                "a loop in three is made by two calls: split the inner one again",
                code="te.split.factor_and_nparts",
            )
        disable_predication = self.check_flag(disable_predication, "split", "disable_predication")
        position, size = self._check_split(parent, factor if factor is not None else nparts)
        outer, inner = (
            ir.IterVar(None, parent.var.copy_with_suffix(suffix), parent.iter_type, span=ir.Span.made_of(parent))
            for suffix in (".outer", ".inner")
        )
        sizes = (size, None) if factor is not None else (None, size)
        self.relations.append(Split(parent, outer, inner, *sizes, disable_predication))
        self.all_iter_vars += [outer, inner]
        self.leaf_iter_vars[position : position + 1] = [outer, inner]
        return outer, inner

    def _check_split(self, parent: ir.IterVar, size: Any) -> tuple[int, ir.PrimExpr]:
        """The place of a loop that can be split, and the size as an expression."""
        position = self.leaf_position(parent, "split")
        self.check_type(parent, _DIVISIBLE, "split")
        result = self.check_size(size, f"split of `{parent.var.name}`")
        if isinstance(result, ir.IntImm) and result.value <= 0:
            raise self.error(
                f"split of `{parent.var.name}` by {result.value}, which is not positive",
                "a factor is 1 or more",
                code="te.split.factor_not_positive",
            )
        if isinstance(result, ir.IntImm):
            self.check_fits(result.value, parent, "split")
        return position, result

    def fuse(self, *args: ir.IterVar) -> ir.IterVar:
        """Fuse adjacent loops, outermost first, into one.

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
            singleton = ir.IterVar(ir.Range.from_min_extent(0, 1), ir.Var("singleton", "int32"), ir.IterVar.DataPar)
            self.relations.append(Singleton(singleton))
            self.all_iter_vars.append(singleton)
            self.leaf_iter_vars.insert(0, singleton)
            return singleton
        self._check_fuse(args)
        fused = args[0]
        for iv in args[1:]:
            fused = self._fuse_two(fused, iv)
        return fused

    def _check_fuse(self, loops: Sequence[ir.IterVar]) -> None:
        """Each loop is next to those before it, without a gap between them."""
        first = last = self.leaf_position(loops[0], "fuse")
        for before, iv in zip(loops, loops[1:]):
            position = self.leaf_position(iv, "fuse")
            self.check_type(before, _DIVISIBLE, "fuse")
            self.check_type(iv, _DIVISIBLE, "fuse")
            if position not in (first - 1, last + 1):
                raise self.error(
                    f"fuse of `{before.var.name}` and `{iv.var.name}`, which are not adjacent",
                    "reorder the loops first",
                    code="te.fuse.not_adjacent",
                )
            first, last = min(first, position), max(last, position)

    def _fuse_two(self, outer: ir.IterVar, inner: ir.IterVar) -> ir.IterVar:
        first, second = self.leaf_position(outer, "fuse"), self.leaf_position(inner, "fuse")
        if second < first:
            outer, inner, first, second = inner, outer, second, first
        name = f"{outer.var.name}.{inner.var.name}.fused"
        fused = ir.IterVar(
            None,
            ir.Var(name, outer.dtype),
            max(outer.iter_type, inner.iter_type),
            span=ir.Span.joined(outer.span, inner.span),
        )
        self.relations.append(Fuse(outer, inner, fused))
        self.all_iter_vars.append(fused)
        self.leaf_iter_vars[first : second + 1] = [fused]
        return fused

    def reorder(self, *args: ir.IterVar) -> None:
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
            self.check_type(iv, _MOVABLE, "reorder")
            if any(iv is other for other in args[:place]):
                raise self.error(f"reorder names `{iv.var.name}` twice", code="te.reorder.repeated_loop")
        loops = list(self.leaf_iter_vars)
        for position, iv in zip(sorted(positions), args):
            loops[position] = iv
        self._check_reduction_order(loops)
        self.leaf_iter_vars[:] = loops

    def _check_reduction_order(self, loops: Sequence[ir.IterVar]) -> None:
        """Raise if the loops of a reduction change their order and its result may depend on it."""
        reducers = [body.combiner for body in getattr(self.op, "body", ()) if isinstance(body, ir.Reduce)]
        before, after = (
            [iv for iv in leaves if iv.iter_type == ir.IterVar.CommReduce] for leaves in (self.leaf_iter_vars, loops)
        )
        moved = any(a is not b for a, b in zip(before, after))
        if moved and reducers and reducers[0] is not None and not can_reorder(reducers[0]):
            raise self.error(
                *unproved_law("reorder its reduction loops", reducers[0], "independent of the order"),
                code="te.reorder.unproved_law",
            )

    def tile(
        self, x_parent: ir.IterVar, y_parent: ir.IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[ir.IterVar, ir.IterVar, ir.IterVar, ir.IterVar]:
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
            self.check_type(parent, _MOVABLE, "tile")
        if x_parent is y_parent:
            raise self.error(f"tile names `{x_parent.var.name}` twice", code="te.tile.repeated_loop")
        x_outer, x_inner = self.split(x_parent, factor=x_factor)
        y_outer, y_inner = self.split(y_parent, factor=y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner
