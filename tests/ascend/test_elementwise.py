"""What each elementwise type computes, element by element, held against Python's own arithmetic.

Both that `evaluate` computes with (a NumPy function) and what is lowered (an expression of the IR, interpreted here).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tvmagic.ascend.optypes import OP_TYPES, OpType, reduce_identity
from tvmagic.eval.machine import Machine
from tvmagic.ir import Var
from tvmagic.ir.ops import const

# Halves, whole numbers, the ends of domains, both sides of 1/2, and what functions overflow for.
POINTS = [
    -40.0,
    -3.75,
    -2.5,
    -2.0,
    -1.5,
    -1.25,
    -1.0,
    -0.75,
    -0.5,
    -0.375,
    -0.25,
    -0.0,
    0.0,
    0.25,
    0.375,
    0.4375,
    0.5,
    0.625,
    0.75,
    1.0,
    1.25,
    1.5,
    2.0,
    2.5,
    3.5,
    9.75,
    29.5,
    40.0,
]
WHOLE = [-128, -127, -9, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 9, 126, 127, 128, 254, 255]
NEAR = {"float64": 1e-12, "float32": 3e-6, "float16": 4e-3}
NEAR_ENDS = [-0.9999, -0.999, 0.9, 0.99, 0.9999]
# how exact the formulas of the expressions are in float64, relative to the result or to 1; the constant of Gelu has 8 digits
FORMULAS = {"Erfinv": 1e-13, "Lgamma": 2e-14, "Digamma": 4e-12, "Gelu": 1e-7}


def erfinv(y: float) -> float:
    if abs(y) >= 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    return statistics.NormalDist().inv_cdf((y + 1) / 2) / math.sqrt(2)


def digamma(x: float) -> float:
    """From the recurrence and the asymptotic series far out, with more terms than any precision here needs."""
    steps = 0.0
    while x < 60:
        steps, x = steps + 1 / x, x + 1
    return math.log(x) - 1 / (2 * x) - sum(b / x**k for b, k in ((1 / 12, 2), (-1 / 120, 4), (1 / 252, 6))) - steps


def sign(x: float) -> float:
    return x if math.isnan(x) else float((x > 0) - (x < 0))


def quotient(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


def power(a: float, b: float) -> float:
    if a == 0 and b < 0:
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
    return math.pow(a, b)


def remainder(a: float, b: float) -> float:
    r = math.fmod(a, b)
    return r + b if r and (r < 0) != (b < 0) else r


def floored(a: float, b: float) -> float:
    return whole(math.floor)(quotient(a, b))


def truncated(a: float, b: float) -> float:
    return whole(math.trunc)(quotient(a, b))


def whole(function: Callable[[float], float]) -> Callable[[float], float]:
    """Rounding, which leaves infinities and NaN."""
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


UNARY: dict[str, Callable[[float], float]] = {
    "Ub2ub": float,
    "Nop": float,
    "Pad": float,
    "RemovePad": float,
    "Abs": abs,
    "Neg": lambda x: -x,
    "Sign": sign,
    "Relu": lambda x: max(x, 0.0),
    "Sqrt": math.sqrt,
    "Rsqrt": lambda x: quotient(1, math.sqrt(x)),
    "Reciprocal": lambda x: quotient(1, x),
    "Square": lambda x: x * x,
    "Exp": math.exp,
    "Exp2": lambda x: 2.0**x,
    "Ln": math.log,
    "Log2": math.log2,
    "Log10": math.log10,
    "Sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "Tanh": math.tanh,
    "Erf": math.erf,
    "Erfc": math.erfc,
    "Erfinv": erfinv,
    "Gelu": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "Log1p": math.log1p,
    "Expm": math.expm1,
    "LeakyRelu": lambda x: x if x > 0 else 0.25 * x,
    "Ceil": whole(math.ceil),
    "Floor": whole(math.floor),
    "Trunc": whole(math.trunc),
    "Round": whole(round),
    "Ceil2Int": math.ceil,
    "FloorToInt": math.floor,
    "Sin": math.sin,
    "Cos": math.cos,
    "Tan": math.tan,
    "Asin": math.asin,
    "Acos": math.acos,
    "Atan": math.atan,
    "Sinh": math.sinh,
    "Cosh": math.cosh,
    "Asinh": math.asinh,
    "Acosh": math.acosh,
    "Atanh": math.atanh,
    "Digamma": digamma,
    "Lgamma": math.lgamma,
    "Isnan": math.isnan,
    "IsInf": math.isinf,
    "IsFinite": math.isfinite,
    "LogicalNot": lambda x: x == 0,
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Maximum": max,
    "Minimum": min,
    "Pow": power,
    "Atan2": math.atan2,
    "Hypot": math.hypot,
    "CopySign": math.copysign,
    "Div": quotient,
    "TrueDiv": quotient,
    "FloorDiv": floored,
    "TruncDiv": truncated,
    "Remainder": remainder,
    "Fmod": math.fmod,
    "Mod": remainder,
    "Axpy": lambda a, b: a + 0.25 * b,
    "Ge": lambda a, b: a >= b,
    "Gt": lambda a, b: a > b,
    "Le": lambda a, b: a <= b,
    "Lt": lambda a, b: a < b,
    "Eq": lambda a, b: a == b,
    "Ne": lambda a, b: a != b,
    "LogicalAnd": lambda a, b: a != 0 and b != 0,
    "LogicalOr": lambda a, b: a != 0 or b != 0,
    "LogicalXor": lambda a, b: (a != 0) != (b != 0),
}
TERNARY: dict[str, Callable[[float, float, float], float]] = {
    "Where": lambda c, a, b: a if c else b,
    "Select": lambda c, a, b: a if c else b,
    "ClipByValue": lambda x, low, high: min(max(x, low), high),
    "MaskedFill": lambda x, mask, v: v if mask else x,
    "Fma": lambda a, b, c: a * b + c,
}
# of whole numbers, with as many bits as Python needs
OF_INTEGERS: dict[str, Callable[..., int]] = {
    "FloorDiv": lambda a, b: a // b,
    "TruncDiv": lambda a, b: a // b if (a < 0) == (b < 0) else -(-a // b),
    "Remainder": lambda a, b: a % b,
    "Mod": lambda a, b: a % b,
    "Fmod": lambda a, b: a - OF_INTEGERS["TruncDiv"](a, b) * b,
    "BitwiseNot": lambda x: ~x,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
    "Xor": lambda a, b: a ^ b,
    "LShift": lambda a, b: a << b,
    "RShift": lambda a, b: a >> b,
    "Relu": lambda x: max(x, 0),
    "Neg": lambda x: -x,
    "Sign": lambda x: (x > 0) - (x < 0),
    "Square": lambda x: x * x,
}
# values at poles, at which Python raises an error
WHOLE_BELOW_ONE = (-40.0, -2.0, -1.0, 0.0)
POLES: dict[str, dict[float, float]] = {
    **{name: {0.0: -math.inf} for name in ("Ln", "Log2", "Log10")},
    "Log1p": {-1.0: -math.inf},
    "Atanh": {-1.0: -math.inf, 1.0: math.inf},
    "Lgamma": dict.fromkeys(WHOLE_BELOW_ONE, math.inf),
    "Digamma": dict.fromkeys(WHOLE_BELOW_ONE, -math.inf),
}
DIVISIONS = ("FloorDiv", "TruncDiv", "Remainder", "Mod", "Fmod", "TrueDiv")
MEANINGS: dict[str, Callable[..., Any]] = {**UNARY, **BINARY, **TERNARY}
ELEMENTWISE = [op for op in OP_TYPES.values() if op.kind == "elewise" and op.compute is not None]


def test_every_elementwise_type_has_a_meaning() -> None:
    assert {op.name for op in ELEMENTWISE} == MEANINGS.keys() | OF_INTEGERS.keys()


def expression(op: OpType, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
    """The values of a type's expression, as the interpreter finds them."""
    assert op.compute is not None
    machine = Machine(None)
    variables = [Var(f"x{n}", str(array.dtype)) for n, array in enumerate(arrays)]
    machine.values.update(zip(variables, arrays))
    with np.errstate(all="ignore"):
        return np.asarray(machine.value(op.compute(*variables, **attrs)))


def meant(name: str, function: Callable[..., Any], values: Sequence[float]) -> float:
    """The value in Python; NaN outside of the domain, an infinity at a pole or beyond the range."""
    if values[0] in POLES.get(name, ()):
        return POLES[name][values[0]]
    try:
        return function(*values)
    except OverflowError:
        return math.inf
    except (ValueError, ZeroDivisionError):
        return math.nan


def check(
    op: OpType, dtype: str, columns: Sequence[Sequence[Any]], skip: Callable[..., bool] = lambda *x: False
) -> None:
    """Both ways of computing a type give what it means, for each row of values that the dtype can hold exactly."""
    integers = np.dtype(dtype).kind in "iu"
    function = OF_INTEGERS.get(op.name, MEANINGS.get(op.name)) if integers else MEANINGS[op.name]
    assert function is not None and op.numpy is not None
    dtypes = ["uint8" if place in op.conditions else dtype for place in range(op.inputs)]
    rows = [row for row in columns if not skip(*row)]
    arrays = [np.array(column).astype(to) for column, to in zip(zip(*rows), dtypes)]
    exact = [tuple(a.item() for a in row) for row in zip(*arrays)]
    wanted = np.array(
        [meant(op.name, function, row) for row in exact], object if integers and op.name != "TrueDiv" else float
    )
    attrs = dict.fromkeys(op.attrs, 0.25)
    result = op.result_type(dtype)
    with np.errstate(all="ignore"):
        found = {"NumPy": np.asarray(op.numpy(*arrays, **attrs)), "expression": expression(op, arrays, attrs)}
    assert str(found["expression"].dtype) == result
    for way, got in found.items():
        if integers and op.name != "TrueDiv":
            bits = 8 * np.dtype(result).itemsize
            low = int(np.iinfo(result).min)
            wrapped = [(int(w) - low) % (1 << bits) + low for w in wanted]
            assert got.tolist() == wrapped, (op.name, way, dtype)
        else:
            near = NEAR.get(dtype, 1e-6)
            if dtype == "float64" and (way == "expression" or op.name == "Gelu"):
                near = FORMULAS.get(op.name, near)
            with np.errstate(all="ignore"):
                both = [values.astype(result).astype(float) for values in (got, wanted)]
            np.testing.assert_allclose(*both, near, near, err_msg=f"{op.name} {way} {dtype}")


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("name", [op.name for op in ELEMENTWISE if "f" in op.takes])
def test_on_floats(name: str, dtype: str) -> None:
    op = OP_TYPES[name]
    if op.inputs == 1:
        check(op, dtype, [(x,) for x in (*POINTS, *NEAR_ENDS)])
    elif op.inputs == 2:
        check(op, dtype, [(a, b) for a in POINTS for b in POINTS])
    else:
        some = POINTS[::3]
        check(op, dtype, [(a, b, c) for a in some for b in some for c in some])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("name", [op.name for op in ELEMENTWISE if "i" in op.takes])
def test_on_integers(name: str, dtype: str) -> None:
    op = OP_TYPES[name]
    info = np.iinfo(dtype)
    some = [x for x in WHOLE if info.min <= x <= info.max]
    if op.inputs == 1:
        check(op, dtype, [(x,) for x in some])
    elif op.inputs == 2:
        skip = (lambda a, b: b == 0) if name in DIVISIONS else (lambda a, b: "Shift" in name and not 0 <= b < 8)
        check(op, dtype, [(a, b) for a in some for b in some], skip)
    else:
        check(op, dtype, [(a, b, c) for a in some[::2] for b in some[::2] for c in some[::2]])


REDUCED: dict[str, Callable[[list[Any]], Any]] = {
    "Sum": sum,
    "Mean": sum,
    "Prod": math.prod,
    "Max": max,
    "Min": min,
    "Any": lambda x: int(any(x)),
    "All": lambda x: int(all(x)),
}


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("name", REDUCED)
def test_reductions_from_their_first_value(name: str, dtype: str) -> None:
    """Combined one after the other, from the identity on; that of no element is the identity itself."""
    op = OP_TYPES[name]
    lists: list[list[int]] = [[3], [0], [1, 2, 4], [0, 5, 0], [7, 7], [2, 0, 9, 1], [0, 0]]
    if dtype != "uint8":
        lists += [[-3], [-5, -2], [-1, 4]]
    for values in lists:
        assert op.compute is not None and op.numpy is not None
        total: Any = reduce_identity(name, dtype)
        for value in values:
            total = op.compute(total, const(value, dtype))
        machine = Machine(None)
        assert machine.value(total) == REDUCED[name](values), (name, dtype, values)
        assert np.all(
            op.numpy(np.array([values], dtype), (1,)) == REDUCED[name](values) / (len(values) if name == "Mean" else 1)
        )
    assert str(reduce_identity(name, dtype).dtype) == dtype
