"""Reductions over threads in the registers of warps: each thread combines its value with that of one further on, in halves."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic import ir
from tvmagic.ir.ops import equal, floordiv, floormod, less
from tvmagic.tir.transform.threads.allreduce_plan import Allreduce, Form, barrier


def warp_allreduce(plan: Allreduce, values: Sequence[ir.PrimExpr], results: Sequence[ir.Buffer], width: int) -> ir.Stmt:
    """The steps in which warps of `width` threads reduce `values` into `results`."""
    steps = _Steps(plan, width)
    if plan.form is Form.WARP:
        steps.in_one_warp(values, results)
    else:
        steps.in_several_warps(values, results)
    body = ir.SeqStmt.flatten(*steps.stmts)
    for buffer in steps.allocated:
        body = ir.DeclBuffer(buffer, body)
        body = ir.Allocate(buffer.data, buffer.dtype, buffer.shape, ir.IntImm("bool", 1), body)
    return body


def _value(buffer: ir.Buffer) -> ir.PrimExpr:
    return ir.BufferLoad(buffer, (0,))


def _local(name: str, dtype: object) -> ir.Buffer:
    return ir.decl_buffer([1], dtype, name, scope="local")


class _Steps:
    """`stmts` so far, and the buffers that they need, the innermost first."""

    def __init__(self, plan: Allreduce, width: int) -> None:
        self.reducer, self.group, self.width = plan.reducer, plan.group, width
        self.stmts: list[ir.Stmt] = []
        self.allocated: list[ir.Buffer] = []

    def in_one_warp(self, values: Sequence[ir.PrimExpr], results: Sequence[ir.Buffer]) -> None:
        """The first thread of each group has the result; the others get it from there."""
        mask = self._reduce(values, results, self.group.size, None)
        for result in results:
            first = self._shuffle("tvm_warp_shuffle", mask, _value(result), self.group.size * self.group.number)
            self.stmts.append(ir.BufferStore(result, first, (0,)))

    def in_several_warps(self, values: Sequence[ir.PrimExpr], results: Sequence[ir.Buffer]) -> None:
        """Each warp reduces its part; the first one reduces what they leave in shared memory."""
        group, count = self.group, self.group.size // self.width
        size = ir.IntImm(group.index.dtype, count * group.count)
        staging = [ir.decl_buffer([size], r.dtype, "red_buf_staging", scope="shared") for r in results]
        self.allocated += staging
        own = [_local(f"red_buf{i}", value.dtype) for i, value in enumerate(values)]
        self._reduce(values, own, self.width, None)
        self.allocated += own
        place = group.number * count + floordiv(group.index, self.width)
        parts = [ir.BufferStore(s, _value(b), (place,)) for s, b in zip(staging, own)]
        self.stmts.append(ir.IfThenElse(equal(floormod(group.index, self.width), 0), ir.SeqStmt.flatten(*parts)))
        self.stmts.append(barrier("shared"))
        rest = [ir.BufferLoad(s, (group.number * count + group.index,)) for s in staging]
        last = [_local(f"red_buf{i}", value.dtype) for i, value in enumerate(values)]
        self._reduce(rest, last, count, less(group.index, count))
        self.allocated += last
        stores = [ir.BufferStore(r, _value(b), (group.number,)) for r, b in zip(results, last)]
        self.stmts.append(ir.IfThenElse(equal(group.index, 0), ir.SeqStmt.flatten(*stores)))
        self.stmts.append(barrier("shared"))

    def _reduce(
        self, values: Sequence[ir.PrimExpr], buffers: Sequence[ir.Buffer], size: int, condition: ir.PrimExpr | None
    ) -> ir.Buffer:
        """Reduce the `values` of `size` threads in a row, if `condition` holds; the mask of those that take part."""
        stores: list[ir.Stmt] = [ir.BufferStore(b, v, (0,)) for b, v in zip(buffers, values)]
        self.stmts += stores if condition is None else [ir.IfThenElse(condition, ir.SeqStmt.flatten(*stores))]
        further = [_local(f"t{i}", value.dtype) for i, value in enumerate(values)]
        mask = _local("mask", "uint32")
        self.allocated += [*further, mask]
        self.stmts.append(ir.BufferStore(mask, ir.Call("uint32", "tir.tvm_warp_activemask", []), (0,)))
        distance = 1 << max((size - 1).bit_length() - 1, 0)
        while distance > 0:
            for buffer, other in zip(buffers, further):
                value = self._shuffle("tvm_warp_shuffle_down", mask, _value(buffer), ir.IntImm("int32", distance))
                self.stmts.append(ir.BufferStore(other, value, (0,)))
            taken = self._combined(buffers, further)
            if distance * 2 > size:  # some threads have no partner
                taken = ir.IfThenElse(less(self.group.index + distance, size), taken)
            self.stmts.append(taken)
            distance //= 2
        return mask

    def _combined(self, buffers: Sequence[ir.Buffer], further: Sequence[ir.Buffer]) -> ir.Stmt:
        pairs: dict[ir.Var, ir.PrimExpr] = {}
        for x, y, buffer, other in zip(self.reducer.lhs, self.reducer.rhs, buffers, further):
            pairs[x], pairs[y] = _value(buffer), _value(other)
        combined = [ir.substitute(result, pairs) for result in self.reducer.result]
        return ir.stored_together([ir.BufferStore(b, v, (0,)) for b, v in zip(buffers, combined)])

    def _shuffle(self, name: str, mask: ir.Buffer, value: ir.PrimExpr, lane: ir.PrimExpr) -> ir.PrimExpr:
        width = ir.IntImm("int32", self.width)
        return ir.Call(value.dtype, f"tir.{name}", [_value(mask), value, lane, width, width])
