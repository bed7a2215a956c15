"""A call that adds up the products of two vectors, for stages to be made of."""

from __future__ import annotations

from typing import Any

from tvmagic import te, tir

__all__ = ["dot"]


def dot(size: int, with_init: bool = True) -> Any:
    """The dot product of two vectors, in parts: the whole, its start, one more part."""
    a = te.placeholder((size,), name="a")
    b = te.placeholder((size,), name="b")
    k = te.reduce_axis((0, size), name="k")
    z = te.compute((1,), lambda i: te.sum(a[k] * b[k], axis=k), name="z")

    def body(ins: Any, outs: Any) -> Any:
        def statement(start: bool, update: bool) -> Any:
            builder = tir.ir_builder.create()
            x, y, o = [builder.buffer_ptr(b) for b in (*ins, *outs)]
            if start:
                o[0] = tir.const(0.0)
            if update:
                with builder.for_range(0, size, name="q") as q:
                    o[0] = o[0] + x[q] * y[q]
            return builder.get()

        return statement(True, True), statement(True, False) if with_init else None, statement(False, True)

    return te.decl_tensor_intrin(z.op, body, "dot", default_buffer_params={"offset_factor": 1})
