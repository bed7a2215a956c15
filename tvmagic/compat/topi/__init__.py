"""Tensor operators made of `te.compute`, under the names of TVM's TOPI: the elementary ones.

    from tvmagic import te, topi

    A = te.placeholder((8, 16), name="A")
    B = topi.sum(topi.exp(A), axis=1)

They broadcast and name their results as TVM's do: `T_add`, `A_red`, `T_reshape`, ...
"""

# pyright: reportUnusedImport=false
# What is imported here is what the package offers.

from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.compat.topi import nn, tag, utils
from tvmagic.compat.topi.broadcast import (
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    divide,
    equal,
    floor_divide,
    floor_mod,
    greater,
    greater_equal,
    left_shift,
    less,
    less_equal,
    log_add_exp,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    not_equal,
    power,
    right_shift,
    subtract,
)
from tvmagic.compat.topi.elementwise import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bitwise_not,
    cast,
    ceil,
    clip,
    cos,
    cosh,
    erf,
    exp,
    floor,
    full,
    full_like,
    identity,
    isfinite,
    isinf,
    isnan,
    log,
    log2,
    log10,
    logical_not,
    negative,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from tvmagic.compat.topi.indexing import (
    arange,
    elemwise_sum,
    flip,
    gather,
    gather_nd,
    one_hot,
    repeat,
    split,
    strided_slice,
    tensordot,
    tile,
    trilu,
    where,
)
from tvmagic.compat.topi.nn import batch_matmul
from tvmagic.compat.topi.reduction import all, any, argmax, argmin, max, min, prod, sum
from tvmagic.compat.topi.transform import (
    broadcast_to,
    concatenate,
    expand_dims,
    flatten,
    matmul,
    reshape,
    squeeze,
    stack,
    take,
    transpose,
)


def __getattr__(name: str) -> _Any:
    return _find_name("tvmagic.topi", name)


__all__ = [name for name in dir() if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
