"""The testers' own language of expressions: what a text means is computed here, in NumPy alone.

An expression knows its dtype, an interval that holds its values, how many binary digits its fraction has, and
whether it may be NaN or infinite. Whoever makes expressions uses these to keep floats exact: then the result has
one right answer, whatever the order of operations.

This file imports nothing from the package under test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

INTS = ("int8", "int16", "int32", "int64")
UINTS = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*INTS, *UINTS, *FLOATS, "bool")
INDEX = "index"  # a loop variable or what is computed of them; exact
MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of arrays that hold values of `dtype`."""
    if dtype == "bfloat16":
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype("int64" if dtype == INDEX else dtype)


def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    if dtype == "bool":
        return 0, 1
    if dtype == INDEX:
        return -(2**31), 2**31 - 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


class Expr(NamedTuple):
    """A node: `op` on `args`; `value` is the number, variable or tensor of a leaf."""

    op: str
    dtype: str
    args: tuple[Any, ...]
    value: Any
    low: float
    high: float
    fraction: int = 0  # binary digits behind the point
    special: bool = False  # may be NaN or infinite

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def magnitude(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def is_exact(self) -> bool:
        """Whether each value of the interval is a number of the dtype."""
        if self.is_float:
            return self.magnitude * 2**self.fraction <= 2 ** MANTISSA[self.dtype]
        low, high = limits(self.dtype)
        return low <= self.low and self.high <= high


# ---------------------------------------------------------------------- leaves


def variable(name: str, extent: int, low: int = 0) -> Expr:
    return Expr("var", INDEX, (), name, low, low + extent - 1)


def constant(value: Any, dtype: str, fraction: int = 0) -> Expr:
    return Expr("const", dtype, (), value, value, value, fraction)


def load(tensor: Any, indices: list[Expr]) -> Expr:
    """An element of `tensor`, which has `name`, `dtype`, `low`, `high`, `fraction`, `special`."""
    t = tensor
    return Expr("load", t.dtype, tuple(indices), t.name, t.low, t.high, t.fraction, t.special)


# ---------------------------------------------------------------------- what operators mean


def _trunc_div(a: Any, b: Any) -> Any:
    quotient = a // b  # rounds down
    return quotient + (((a < 0) != (b < 0)) & (quotient * b != a) & (b != 0)).astype(a.dtype)


def _trunc_mod(a: Any, b: Any) -> Any:
    return np.where(b == 0, np.zeros_like(a), a - _trunc_div(a, b) * b).astype(a.dtype)


def _narrow(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, by way of float32 for bfloat16."""

    def run(*args: Any) -> Any:
        if args[0].dtype != numpy_dtype("bfloat16"):
            return function(*args)
        result = function(*[a.astype("float32") for a in args])
        return result.astype(args[0].dtype) if result.dtype == np.float32 else result

    return run


MEANING: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "floormod": np.remainder,
    "truncdiv": _trunc_div,
    "truncmod": _trunc_mod,
    "max": np.maximum,
    "min": np.minimum,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "invert": np.invert,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "select": np.where,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "log": np.log,
    "sigmoid": lambda x: (1 / (1 + np.exp(-x.astype("float64")))).astype(x.dtype),
}
MEANING = {name: _narrow(function) for name, function in MEANING.items()}
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
INEXACT = ("sqrt", "exp", "tanh", "sin", "cos", "log", "sigmoid")


def index_names(e: Expr) -> set[str]:
    """The variables that are in indices of `e`."""
    found = set().union(*[_names(a) for a in e.args]) if e.op == "load" else set()
    return found.union(*[index_names(a) for a in e.args]) if e.args else found


def _names(e: Expr) -> set[str]:
    return {e.value} if e.op == "var" else set().union(*[_names(a) for a in e.args]) if e.args else set()


def loads(e: Expr) -> set[str]:
    """The names of the tensors that `e` reads."""
    found = {e.value} if e.op == "load" else set()
    return found.union(*[loads(a) for a in e.args]) if e.args else found


class OutsideError(Exception):
    """The tester's own program reads outside an array: a defect of the tester."""


def evaluate(e: Expr, env: Mapping[str, Any], mask: Any = None) -> Any:
    """The value of `e`, an array; `env` has an array for each variable and tensor.

    `mask` is true for the iterations in which `e` is evaluated at all.
    """
    if e.op == "var":
        return np.asarray(env[e.value])
    if e.op == "const":
        return np.asarray(e.value).astype(numpy_dtype(e.dtype))
    if e.op == "load":
        return _evaluate_load(e, env, mask)
    if e.op == "cast":
        value = evaluate(e.args[0], env, mask)
        return value != 0 if e.dtype == "bool" else value.astype(numpy_dtype(e.dtype))
    if e.op == "if":
        condition = evaluate(e.args[0], env, mask)
        inside = condition if mask is None else mask & condition
        outside = ~condition if mask is None else mask & ~condition
        return np.where(condition, evaluate(e.args[1], env, inside), evaluate(e.args[2], env, outside))
    return MEANING[e.op](*[evaluate(a, env, mask) for a in e.args])


def _evaluate_load(e: Expr, env: Mapping[str, Any], mask: Any) -> Any:
    array = env[e.value]
    indices = [np.asarray(evaluate(index, env, mask)).astype("int64") for index in e.args]
    inside = [(0 <= index) & (index < size) for index, size in zip(indices, array.shape)]
    if not all(np.all(i if mask is None else i | ~mask) for i in inside):
        raise OutsideError(f"`{e.value}` of shape {array.shape} in {numpy_text(e)}")
    indices = [np.clip(index, 0, max(size - 1, 0)) for index, size in zip(indices, array.shape)]
    if 0 in array.shape:
        return np.zeros(np.broadcast_shapes(*[i.shape for i in indices]), array.dtype)
    return array[tuple(indices)]


# ---------------------------------------------------------------------- intervals of results


def _number(value: Any) -> Any:
    """A bound as a number of Python, which does not overflow; of a bool 0 or 1."""
    return (value.item() if isinstance(value, np.generic) else value) + 0


def _corners(function: Callable[[float, float], float]) -> Callable[[Expr, Expr], tuple[float, float]]:
    def interval(a: Expr, b: Expr) -> tuple[float, float]:
        values = [function(_number(x), _number(y)) for x in (a.low, a.high) for y in (b.low, b.high)]
        return min(values), max(values)

    return interval


def _quotient(a: Expr, b: Expr) -> tuple[float, float]:
    return -a.magnitude - 1 if a.low < 0 or b.low < 0 else 0, a.magnitude


def _remainder(a: Expr, b: Expr) -> tuple[float, float]:
    return -b.magnitude if b.low < 0 else 0, b.magnitude


def _truncated_remainder(a: Expr, b: Expr) -> tuple[float, float]:
    return -b.magnitude if a.low < 0 else 0, b.magnitude


def _whole(a: Expr, *_: Expr) -> tuple[float, float]:
    return limits(a.dtype)


_INTERVALS: dict[str, Callable[..., tuple[float, float]]] = {
    "add": _corners(lambda x, y: x + y),
    "sub": _corners(lambda x, y: x - y),
    "mul": _corners(lambda x, y: x * y),
    "max": lambda a, b: (max(a.low, b.low), max(a.high, b.high)),
    "min": lambda a, b: (min(a.low, b.low), min(a.high, b.high)),
    "floordiv": _quotient,
    "truncdiv": _quotient,
    "floormod": _remainder,
    "truncmod": _truncated_remainder,
    "div": lambda a, b: (a.low / b.high, a.high / b.high),  # by a power of two
    "bitand": _whole,
    "bitor": _whole,
    "bitxor": _whole,
    "invert": _whole,
    "shl": _whole,
    "shr": lambda a, b: (min(a.low, 0), max(a.high, 0)),
    "neg": lambda a: (-a.high, -a.low),
    "abs": lambda a: (0, a.magnitude),
    "floor": lambda a: (np.floor(a.low), np.ceil(a.high)),
    "ceil": lambda a: (np.floor(a.low), np.ceil(a.high)),
    "trunc": lambda a: (np.floor(a.low), np.ceil(a.high)),
    "round": lambda a: (np.floor(a.low), np.ceil(a.high)),
    "select": lambda c, a, b: (min(a.low, b.low), max(a.high, b.high)),
    "if": lambda c, a, b: (min(a.low, b.low), max(a.high, b.high)),
}


def apply(op: str, *args: Expr) -> Expr:
    """The expression; integers that may leave their dtype wrap around."""
    last = args[-1]
    if op in COMPARISONS or last.dtype == "bool" or op in ("isnan", "isinf", "isfinite"):
        return Expr(op, "bool", args, None, 0, 1)
    values = args[1:] if op in ("select", "if") else args
    special = any(a.special for a in values)
    if op in INEXACT:
        return Expr(op, last.dtype, args, None, -1e9, 1e9, 99, special)
    low, high = _INTERVALS[op](*args)
    fraction = max(a.fraction for a in values)
    if op == "mul":
        fraction = sum(a.fraction for a in values)
    elif op == "div":
        fraction = args[0].fraction + int(np.log2(last.high))
    elif op in ("floor", "ceil", "trunc", "round"):
        fraction = 0
    if last.dtype in INTS + UINTS:
        least, greatest = limits(last.dtype)
        if low < least or high > greatest:
            low, high = least, greatest
    return Expr(op, last.dtype, args, None, low, high, fraction, special)


def overflows(op: str, *args: Expr) -> bool:
    """Whether integers may wrap around."""
    if args[-1].dtype not in INTS + UINTS or op not in _INTERVALS or _INTERVALS[op] is _whole:
        return False
    least, greatest = limits(args[-1].dtype)
    low, high = _INTERVALS[op](*args)
    return low < least or high > greatest


def cast(e: Expr, dtype: str) -> Expr:
    """`e` as a value of `dtype`; integers that are too large wrap around."""
    if e.dtype == dtype:
        return e
    low, high, fraction = e.low, e.high, e.fraction
    if dtype == "bool":
        low, high = 0, 1
    elif dtype in INTS + UINTS:
        fraction = 0
        least, greatest = limits(dtype)
        if low < least or high > greatest:
            low, high = least, greatest
        else:
            low, high = int(np.floor(low)), int(np.ceil(high))
    return Expr("cast", dtype, (e,), None, low, high, fraction, e.special and dtype in FLOATS)


# ---------------------------------------------------------------------- texts

TE_TEXT = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "div": "({} / {})",
    "floordiv": "te.floordiv({}, {})",
    "floormod": "te.floormod({}, {})",
    "truncdiv": "te.truncdiv({}, {})",
    "truncmod": "te.truncmod({}, {})",
    "max": "tir.max({}, {})",
    "min": "tir.min({}, {})",
    "lt": "({} < {})",
    "le": "({} <= {})",
    "gt": "({} > {})",
    "ge": "({} >= {})",
    "eq": "tir.EQ({}, {})",
    "ne": "tir.NE({}, {})",
    "and": "te.all({}, {})",
    "or": "te.any({}, {})",
    "not": "tir.Not({})",
    "bitand": "({} & {})",
    "bitor": "({} | {})",
    "bitxor": "({} ^ {})",
    "invert": "(~{})",
    "shl": "({} << {})",
    "shr": "({} >> {})",
    "neg": "(-{})",
    "select": "tir.Select({}, {}, {})",
    "if": "te.if_then_else({}, {}, {})",
}


def te_text(e: Expr) -> str:
    """`e` as calls of `te` and `tir`; a reduction axis is the variable of an `IterVar`."""
    if e.op == "var":
        return f"{e.value}.var" if e.value.startswith("k") else str(e.value)
    if e.op == "const":
        return str(e.value) if e.dtype == INDEX else f"tir.const({e.value!r}, {e.dtype!r})"
    parts = [te_text(a) for a in e.args]
    if e.op == "load":
        return f"{e.value}[{', '.join(parts)}]"
    if e.op == "cast":
        dtype = "int32" if e.dtype == INDEX else e.dtype
        return f"tir.Cast({dtype!r}, {parts[0]})"
    if e.op in TE_TEXT:
        return TE_TEXT[e.op].format(*parts)
    return f"te.{e.op}({', '.join(parts)})"


SCRIPT_TEXT = {
    **TE_TEXT,
    "floordiv": "({} // {})",
    "floormod": "({} % {})",
    "truncdiv": "T.truncdiv({}, {})",
    "truncmod": "T.truncmod({}, {})",
    "max": "T.max({}, {})",
    "min": "T.min({}, {})",
    "eq": "({} == {})",
    "ne": "({} != {})",
    "and": "({} and {})",
    "or": "({} or {})",
    "not": "(not {})",
    "bitand": "T.bitwise_and({}, {})",
    "bitor": "T.bitwise_or({}, {})",
    "bitxor": "T.bitwise_xor({}, {})",
    "invert": "T.bitwise_not({})",
    "shl": "T.shift_left({}, {})",
    "shr": "T.shift_right({}, {})",
    "select": "T.Select({}, {}, {})",
    "if": "T.if_then_else({}, {}, {})",
}


def script_call(op: str, dtype: str, *parts: str) -> str:
    """The text of an operator in TVMScript; `bool + bool` and so on as what they mean."""
    if dtype == "bool":
        op = {"add": "or", "max": "or", "mul": "and", "min": "and"}.get(op, op)
    return SCRIPT_TEXT[op].format(*parts) if op in SCRIPT_TEXT else f"T.{op}({', '.join(parts)})"


def script_text(e: Expr) -> str:
    """`e` as TVMScript."""
    if e.op == "var":
        return str(e.value)
    if e.op == "const":
        return str(e.value) if e.dtype == INDEX else f"T.{e.dtype}({e.value!r})"
    parts = [script_text(a) for a in e.args]
    if e.op == "load":
        return f"{e.value}[{', '.join(parts) or '()'}]"
    if e.op == "cast":
        return f'T.Cast("{"int32" if e.dtype == INDEX else e.dtype}", {parts[0]})'
    return script_call(e.op, e.dtype, *parts)


CELL_TEXT = {
    **SCRIPT_TEXT,
    "truncdiv": "truncdiv({}, {})",
    "truncmod": "truncmod({}, {})",
    "max": "max({}, {})",
    "min": "min({}, {})",
    "bitand": "({} & {})",
    "bitor": "({} | {})",
    "bitxor": "({} ^ {})",
    "invert": "(~{})",
    "shl": "({} << {})",
    "shr": "({} >> {})",
    "select": "where({}, {}, {})",
    "if": "({1} if {0} else {2})",
}


def cell_text(e: Expr, names: Mapping[str, str]) -> str:
    """`e` in the index notation; `names` are those of the indices."""
    if e.op == "var":
        return names.get(e.value, str(e.value))
    if e.op == "const":
        return str(e.value) if e.dtype == INDEX else f"{e.dtype}({e.value!r})"
    parts = [cell_text(a, names) for a in e.args]
    if e.op == "load":
        return f"{e.value}[{', '.join(parts)}]"
    if e.op == "cast":
        return f"{'int32' if e.dtype == INDEX else e.dtype}({parts[0]})"
    return CELL_TEXT[e.op].format(*parts) if e.op in CELL_TEXT else f"{e.op}({', '.join(parts)})"


def numpy_text(e: Expr) -> str:
    """`e` to be read by people."""
    if e.op in ("var", "const"):
        return str(e.value)
    name = {"load": e.value, "cast": e.dtype}.get(e.op, e.op)
    brackets = "[]" if e.op == "load" else "()"
    return f"{name}{brackets[0]}{', '.join(map(numpy_text, e.args))}{brackets[1]}"
