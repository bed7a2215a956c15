"""Products of matrices by a library: here NumPy's, which calls the BLAS that it was built with."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError

__all__ = ["batch_matmul", "matmul"]


def matmul(lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, **kwargs: Any) -> Any:
    """A tensor with the product of two matrices, computed by one call of the library.

    lhs: (n, l), or (l, n) with `transa`; rhs: (l, m), or (m, l) with `transb`; the result: (n, m). `kwargs` are those
    of `te.extern`.
    """
    return _extern("tvm.contrib.cblas.matmul", 2, lhs, rhs, transa, transb, kwargs)


def batch_matmul(
    lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, iterative: bool = False, **kwargs: Any
) -> Any:
    """A tensor with the products of the matrices of two batches; shapes as in `matmul`, with the batch in front.

    iterative: multiply one pair after the other.
    """
    name = "batch_matmul_iterative" if iterative else "batch_matmul"
    return _extern(f"tvm.contrib.cblas.{name}", 3, lhs, rhs, transa, transb, kwargs)


def _extern(name: str, dimensions: int, lhs: Any, rhs: Any, transa: bool, transb: bool, kwargs: Any) -> Any:
    from tvmagic import te, tir

    for tensor in (lhs, rhs):
        if len(tensor.shape) != dimensions:
            raise TVMagicError(
                f"`{name}` multiplies tensors of {dimensions} dimensions, not of {len(tensor.shape)}",
                code="cblas.wrong_rank",
            )
    rows, columns = lhs.shape[-1 if transa else -2], rhs.shape[-2 if transb else -1]

    def call(ins: Any, outs: Any) -> Any:
        return tir.call_packed(name, ins[0], ins[1], outs[0], transa, transb)

    return te.extern((*lhs.shape[:-2], rows, columns), [lhs, rhs], call, **{"name": "C", **kwargs})
