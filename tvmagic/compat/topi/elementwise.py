"""Operators of each element of one tensor, and tensors of one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.compat.topi import tag
from tvmagic.compat.topi.utils import names, size_list
from tvmagic.ir import PrimExpr, Select, dtype_of, ops
from tvmagic.te.operation import compute
from tvmagic.te.tensor import Tensor


def each(x: Any, value: Callable[[PrimExpr], Any], name: str = "compute") -> Any:
    """`value` of each element of a tensor; of an expression itself."""
    if not isinstance(x, Tensor):
        return value(x)
    return compute(x.shape, lambda *i: value(x(*i)), name=name, tag=tag.ELEMWISE)


def _operator(name: str) -> Callable[[Any], Any]:
    function = getattr(ops, name)

    def operator(x: Any) -> Any:
        return each(x, function)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"`{name}` of each element."
    return operator


abs = _operator("abs")
acos, acosh, asin, asinh, atan, atanh = map(_operator, ("acos", "acosh", "asin", "asinh", "atan", "atanh"))
ceil, cos, cosh, erf, exp, floor = map(_operator, ("ceil", "cos", "cosh", "erf", "exp", "floor"))
log, log2, log10, round, rsqrt = map(_operator, ("log", "log2", "log10", "round", "rsqrt"))
sigmoid, sin, sinh, sqrt, tan, tanh, trunc = map(_operator, ("sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"))


isfinite, isinf, isnan, bitwise_not = map(_operator, ("isfinite", "isinf", "isnan", "bitwise_not"))


def logical_not(x: Any) -> Any:
    """Whether each element, a bool, is false."""
    return each(x, ops.logical_not)


def identity(x: Any) -> Any:
    """A copy."""
    return each(x, lambda value: value)


def negative(x: Any) -> Any:
    """Each element times -1."""
    return each(x, lambda value: -value)


def sign(x: Any) -> Any:
    """-1, 0 or 1, as each element is below, at or above 0."""

    def value(element: PrimExpr) -> PrimExpr:
        zero, one, minus = (ops.const(n, element.dtype) for n in (0, 1, -1))
        return Select(ops.less(element, zero), minus, Select(ops.greater(element, zero), one, zero))

    return each(x, value)


def cast(x: Any, dtype: Any) -> Any:
    """Each element as `dtype`."""
    kind = dtype_of(dtype)
    return each(x, lambda value: ops.cast(kind, value))


def clip(x: Any, a_min: Any, a_max: Any) -> Any:
    """Each element, or the nearer of `a_min` and `a_max` if it is beyond them."""

    def value(element: PrimExpr) -> PrimExpr:
        low, high = (ops.const(n, element.dtype) for n in (a_min, a_max))
        return ops.maximum(ops.minimum(element, high), low)

    return each(x, value)


def full(shape: Any, dtype: Any, fill_value: Any) -> Any:
    """A tensor of one value."""
    sizes = size_list(shape)
    value = ops.cast(dtype_of(dtype), fill_value)
    return compute(sizes, lambda *i: value, name="T_full", tag=tag.ELEMWISE, varargs_names=names(len(sizes)))


def full_like(x: Tensor, fill_value: Any) -> Any:
    """A tensor of one value, of the shape and type of `x`."""
    value = ops.cast(x.dtype, fill_value)
    return compute(x.shape, lambda *i: value, name="T_full_like", tag=tag.ELEMWISE, varargs_names=names(len(x.shape)))
