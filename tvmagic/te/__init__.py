"""Tensor expressions: tensors, the operations that produce them, and their schedules.

Names and behaviour are those of `tvm.te`.
"""

from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.arith.index_map import IndexMap
from tvmagic.ir.ops import (
    abs,
    acos,
    acosh,
    add,
    all,
    any,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    ceildiv,
    const,
    copysign,
    cos,
    cosh,
    div,
    erf,
    exp,
    exp2,
    exp10,
    floor,
    floordiv,
    floormod,
    fmod,
    hypot,
    if_then_else,
    indexdiv,
    indexmod,
    isfinite,
    isinf,
    isnan,
    ldexp,
    likely,
    log,
    log1p,
    log2,
    log10,
    max_value,
    min_value,
    multiply,
    nearbyint,
    nextafter,
    popcount,
    power,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    subtract,
    tan,
    tanh,
    trace,
    trunc,
    truncdiv,
    truncmod,
)
from tvmagic.te import elementwise as _elementwise  # it attaches methods  # pyright: ignore[reportUnusedImport]
from tvmagic.te import schedule, tensor
from tvmagic.te.autodiff import gradient
from tvmagic.te.create_prim_func import create_prim_func
from tvmagic.te.intrinsic import TensorIntrin, decl_tensor_intrin
from tvmagic.te.operation import (
    compute,
    extern,
    extern_primfunc,
    from_array,
    placeholder,
    reduce_axis,
    scan,
    size_var,
    thread_axis,
    var,
)
from tvmagic.te.reduction import comm_reducer, max, min, prod, sum
from tvmagic.te.schedule import Schedule, create_schedule
from tvmagic.te.tag import tag_scope
from tvmagic.te.tensor import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
    TensorSlice,
)

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR


def __getattr__(name: str) -> _Any:
    return _find_name("tvmagic.te", name)
