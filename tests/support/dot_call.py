"""A call that adds up the products of two vectors, for stages to be made of."""

from __future__ import annotations

from typing import Any

from statements import loop

from tvmagic import te, tir


def dot(size: int, with_init: bool = True) -> Any:
    """The dot product of two vectors, in parts: the whole, its start, one more part."""
    a = te.placeholder((size,), name="a")
    b = te.placeholder((size,), name="b")
    k = te.reduce_axis((0, size), name="k")
    z = te.compute((1,), lambda i: te.sum(a[k] * b[k], axis=k), name="z")

    def body(ins: Any, outs: Any) -> Any:
        (x, y), (o,) = ins, outs

        def statement(start: bool, update: bool) -> Any:
            first = [o.vstore([0], tir.const(0.0))] if start else []
            term = loop("q", size, lambda q: o.vstore([0], o.vload([0]) + x.vload([q]) * y.vload([q])))
            return tir.stmt_seq(*first, *([term] if update else []))

        return statement(True, True), statement(True, False) if with_init else None, statement(False, True)

    return te.decl_tensor_intrin(z.op, body, "dot", default_buffer_params={"offset_factor": 1})
