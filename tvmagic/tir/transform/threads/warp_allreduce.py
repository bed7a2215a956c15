"""Reductions over threads in the registers of warps: each thread combines its value with that of one further on, in halves."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.ir import (
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DeclBuffer,
    IfThenElse,
    IntImm,
    PrimExpr,
    SeqStmt,
    Stmt,
    Var,
    decl_buffer,
    stored_together,
    substitute,
)
from tvmagic.ir.ops import equal, floordiv, floormod, less
from tvmagic.tir.transform.threads.allreduce_plan import Allreduce, Form, barrier


def warp_allreduce(plan: Allreduce, values: Sequence[PrimExpr], results: Sequence[Buffer], width: int) -> Stmt:
    """The steps in which warps of `width` threads reduce `values` into `results`."""
    steps = _Steps(plan, width)
    if plan.form is Form.WARP:
        steps.in_one_warp(values, results)
    else:
        steps.in_several_warps(values, results)
    body = SeqStmt.flatten(*steps.stmts)
    for buffer in steps.allocated:
        body = DeclBuffer(buffer, body)
        body = Allocate(buffer.data, buffer.dtype, buffer.shape, IntImm("bool", 1), body)
    return body


def _value(buffer: Buffer) -> PrimExpr:
    return BufferLoad(buffer, (0,))


def _local(name: str, dtype: object) -> Buffer:
    return decl_buffer([1], dtype, name, scope="local")


class _Steps:
    """`stmts` so far, and the buffers that they need, the innermost first."""

    def __init__(self, plan: Allreduce, width: int) -> None:
        self.reducer, self.group, self.width = plan.reducer, plan.group, width
        self.stmts: list[Stmt] = []
        self.allocated: list[Buffer] = []

    def in_one_warp(self, values: Sequence[PrimExpr], results: Sequence[Buffer]) -> None:
        """The first thread of each group has the result; the others get it from there."""
        mask = self._reduce(values, results, self.group.size, None)
        for result in results:
            first = self._shuffle("tvm_warp_shuffle", mask, _value(result), self.group.size * self.group.number)
            self.stmts.append(BufferStore(result, first, (0,)))

    def in_several_warps(self, values: Sequence[PrimExpr], results: Sequence[Buffer]) -> None:
        """Each warp reduces its part; the first one reduces what they leave in shared memory."""
        group, count = self.group, self.group.size // self.width
        size = IntImm(group.index.dtype, count * group.count)
        staging = [decl_buffer([size], r.dtype, "red_buf_staging", scope="shared") for r in results]
        self.allocated += staging
        own = [_local(f"red_buf{i}", value.dtype) for i, value in enumerate(values)]
        self._reduce(values, own, self.width, None)
        self.allocated += own
        place = group.number * count + floordiv(group.index, self.width)
        parts = [BufferStore(s, _value(b), (place,)) for s, b in zip(staging, own)]
        self.stmts.append(IfThenElse(equal(floormod(group.index, self.width), 0), SeqStmt.flatten(*parts)))
        self.stmts.append(barrier("shared"))
        rest = [BufferLoad(s, (group.number * count + group.index,)) for s in staging]
        last = [_local(f"red_buf{i}", value.dtype) for i, value in enumerate(values)]
        self._reduce(rest, last, count, less(group.index, count))
        self.allocated += last
        stores = [BufferStore(r, _value(b), (group.number,)) for r, b in zip(results, last)]
        self.stmts.append(IfThenElse(equal(group.index, 0), SeqStmt.flatten(*stores)))
        self.stmts.append(barrier("shared"))

    def _reduce(
        self, values: Sequence[PrimExpr], buffers: Sequence[Buffer], size: int, condition: PrimExpr | None
    ) -> Buffer:
        """Reduce the `values` of `size` threads in a row, if `condition` holds; the mask of those that take part."""
        stores: list[Stmt] = [BufferStore(b, v, (0,)) for b, v in zip(buffers, values)]
        self.stmts += stores if condition is None else [IfThenElse(condition, SeqStmt.flatten(*stores))]
        further = [_local(f"t{i}", value.dtype) for i, value in enumerate(values)]
        mask = _local("mask", "uint32")
        self.allocated += [*further, mask]
        self.stmts.append(BufferStore(mask, Call("uint32", "tir.tvm_warp_activemask", []), (0,)))
        distance = 1 << max((size - 1).bit_length() - 1, 0)
        while distance > 0:
            for buffer, other in zip(buffers, further):
                value = self._shuffle("tvm_warp_shuffle_down", mask, _value(buffer), IntImm("int32", distance))
                self.stmts.append(BufferStore(other, value, (0,)))
            taken = self._combined(buffers, further)
            if distance * 2 > size:  # some threads have no partner
                taken = IfThenElse(less(self.group.index + distance, size), taken)
            self.stmts.append(taken)
            distance //= 2
        return mask

    def _combined(self, buffers: Sequence[Buffer], further: Sequence[Buffer]) -> Stmt:
        pairs: dict[Var, PrimExpr] = {}
        for x, y, buffer, other in zip(self.reducer.lhs, self.reducer.rhs, buffers, further):
            pairs[x], pairs[y] = _value(buffer), _value(other)
        combined = [substitute(result, pairs) for result in self.reducer.result]
        return stored_together([BufferStore(b, v, (0,)) for b, v in zip(buffers, combined)])

    def _shuffle(self, name: str, mask: Buffer, value: PrimExpr, lane: PrimExpr) -> PrimExpr:
        width = IntImm("int32", self.width)
        return Call(value.dtype, f"tir.{name}", [_value(mask), value, lane, width, width])
