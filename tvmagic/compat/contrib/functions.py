"""The registered functions that TVM's libraries have, such as `tvm.contrib.cblas.matmul`, which NumPy computes."""

from __future__ import annotations

from typing import Any

from tvmagic.ir.registry import register_func

__all__ = ["register"]


def _matmul(lhs: Any, rhs: Any, out: Any, transa: bool = False, transb: bool = False, *_further: Any) -> None:
    a, b = lhs.numpy(), rhs.numpy()
    out.copyfrom((a.swapaxes(-1, -2) if transa else a) @ (b.swapaxes(-1, -2) if transb else b))


def _batch_matmul_iterative(lhs: Any, rhs: Any, out: Any, transa: bool = False, transb: bool = False) -> None:
    result = out.numpy()
    for place, (a, b) in enumerate(zip(lhs.numpy(), rhs.numpy())):
        result[place] = (a.T if transa else a) @ (b.T if transb else b)
    out.copyfrom(result)


FUNCTIONS = {
    "tvm.contrib.cblas.matmul": _matmul,
    "tvm.contrib.cblas.batch_matmul": _matmul,
    "tvm.contrib.cblas.batch_matmul_iterative": _batch_matmul_iterative,
}


def register(name: str) -> None:
    """Register a function if it is one of these."""
    if name in FUNCTIONS:
        register_func(name, FUNCTIONS[name], override=True)
