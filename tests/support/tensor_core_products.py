"""Products of matrices for tensor cores, before they are scheduled."""

from __future__ import annotations

from tvmagic import te, tir


def matrix_product(rows: int, columns: int, length: int, dtype: str, out: str, transposed: bool) -> tir.PrimFunc:
    """`C = A @ B` with sums of type `out`; each row of `B` is a column of the matrix with `transposed`."""
    a = te.placeholder((rows, length), dtype, name="A")
    b = te.placeholder((columns, length) if transposed else (length, columns), dtype, name="B")
    k = te.reduce_axis((0, length), "k")

    def product(i: tir.Var, j: tir.Var) -> tir.PrimExpr:
        right = b[j, k] if transposed else b[k, j]
        return te.sum(a[i, k].astype(out) * right.astype(out), axis=k)

    return te.create_prim_func([a, b, te.compute((rows, columns), product, name="C")])
