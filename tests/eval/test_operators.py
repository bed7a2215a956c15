"""One meaning of each operator: numbers, arrays, the interpreter and compiled code on several targets agree on all bits."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sampling import some
from tools import need_gpu, on

import tvmagic
from tvmagic import ir, te
from tvmagic.eval.machine import run_function
from tvmagic.eval.ops import BINARY, CALLS, convert
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.semantics import NUMBERS, ROUNDINGS, compute, convert_number
from tvmagic.target.names import TARGETS as TARGETS_BY_NAME
from tvmagic.te.reference import evaluate

INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
DTYPES = ("bool", *INTS, *FLOATS)
ALIKE = ("int16", "uint8", "uint16", "uint32", "float64")  # beside their neighbours: in the long tests alone
TARGETS = ("llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2")
ELSEWHERE = {name: TARGETS_BY_NAME[name] for name in ("aarch64", "aarch64-sve", "riscv64", "opencl")}
COUNT = 24  # lanes of vectors and what is left over
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-45, 127.5, -129.0, 255.9, 3e9, -3e9, 2.0**63, 1e30, -1e30,
           float("inf"), float("-inf"), float("nan"))  # fmt: skip


def operators(dtype: str) -> dict[str, Any]:
    """The operators of two values of a dtype, by name."""
    logical = (ir.And, ir.Or)
    found: dict[str, Any] = {op.__name__: op for op in NUMBERS if dtype == "bool" or op not in logical}
    if dtype in INTS:
        names = ("shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor")
        found.update({name: functools.partial(_call, name) for name in names})
    return found


def _call(name: str, *args: Any) -> ir.PrimExpr:
    return ir.Call("int32" if name == "clz" else args[0].dtype, f"tir.{name}", args)


def unary(dtype: str) -> dict[str, Any]:
    """The operators of one value: conversions, roundings, counts of bits."""
    found: dict[str, Any] = {f"to {d}": functools.partial(ir.Cast, d) for d in DTYPES}
    if dtype in FLOATS:
        found.update({name: functools.partial(_call, name) for name in (*ROUNDINGS, "fabs", "sqrt")})
    if dtype in INTS:
        found.update({name: functools.partial(_call, name) for name in ("popcount", "clz", "bitwise_not")})
    return found


def edges(dtype: str) -> np.ndarray:
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return np.array([False, True])
    with np.errstate(all="ignore"):
        if dtype in FLOATS:
            return np.array(SPECIAL).astype(kind)
    info = np.iinfo(kind)
    values = [0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, info.max, info.max - 1, info.min, info.min + 1, -1, -2, -7, -8]
    return np.array([v for v in values if info.min <= v <= info.max], kind)


def all_pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    values = edges(dtype)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    size = -(-len(a) // COUNT) * COUNT
    return np.resize(a, size), np.resize(b, size)


class Program:
    """All operators of a dtype in one operator each, as TE and compiled."""

    def __init__(self, dtype: str) -> None:
        self.n = te.size_var("n")
        self.x = te.placeholder((self.n,), dtype, name="X")
        self.y = te.placeholder((self.n,), dtype, name="Y")
        self.outputs: dict[str, Any] = {}
        for name, op in operators(dtype).items():
            self.outputs[name] = self.output(lambda i: op(self.x[i], self.y[i]))
        for name, op in unary(dtype).items():
            self.outputs[name] = self.output(lambda i: op(self.x[i]))
        self.functions: dict[str, ir.PrimFunc] = {}
        for number, (name, output) in enumerate(self.outputs.items()):
            s = te.create_schedule(output.op)
            if number % 2:
                s[output].vectorize(s[output].split(output.op.axis[0], factor=8)[1])
            module = tvmagic.lower(s, [self.x, self.y, output], name=f"f{number}")
            self.functions[name] = module[f"f{number}"]

    def output(self, compute: Any) -> Any:
        return te.compute((self.n,), compute, name="Z")

    @functools.cache
    def built(self, target: str) -> Any:
        module = ir.IRModule({f.attrs["global_symbol"]: f for f in self.functions.values()})
        return tvmagic.build(module, target=target)


@functools.cache
def program(dtype: str) -> Program:
    return Program(dtype)


def bits(array: np.ndarray) -> np.ndarray:
    """The array with one NaN in the place of all, so that results compare by their bits."""
    if array.dtype.kind != "f":
        return array
    array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
    return array.view(f"u{array.dtype.itemsize}")


def assert_same(got: np.ndarray, wanted: np.ndarray, x: np.ndarray, y: np.ndarray, what: str) -> None:
    assert got.dtype == wanted.dtype, what
    # which zero is the larger one NumPy leaves open
    zeros = (got == 0) & (wanted == 0) if what.split()[0] in ("Min", "Max") else np.zeros(got.shape, bool)
    wrong = (bits(got) != bits(wanted)) & ~zeros
    assert not wrong.any(), f"{what}: {got[wrong][:4]} not {wanted[wrong][:4]} for {x[wrong][:4]}, {y[wrong][:4]}"


def arrays_of(name: str, dtype: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What the table of arrays has."""
    with np.errstate(all="ignore"):
        for op, function in BINARY.items():
            if op.__name__ == name:
                return np.asarray(function(x, y))
        if name.startswith("to "):
            return convert(x, ir.DataType(name[3:]))
        function = CALLS[f"tir.{name}"]
        return np.asarray(function(x, y) if name in operators(dtype) else function(x))


def numbers_of(name: str, dtype: str, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """What the table of Python numbers has; None for functions that it has not."""
    kind = ir.DataType(dtype)
    for op in NUMBERS:
        if op.__name__ == name:
            values = [compute(op, p, q, kind) for p, q in zip(x.tolist(), y.tolist())]
            return np.array(values, "bool" if issubclass(op, (ir.CmpOp, ir.LogicalOp)) else numpy_dtype(dtype))
    if name.startswith("to "):
        return np.array([convert_number(p, ir.DataType(name[3:])) for p in x.tolist()], numpy_dtype(name[3:]))
    if name in ROUNDINGS:
        return np.array([ROUNDINGS[name](p) for p in x.tolist()], numpy_dtype(dtype))
    return None


def check(dtype: str, target: str, x: np.ndarray, y: np.ndarray) -> None:
    whole = program(dtype)
    built = whole.built(target)
    for name, output in whole.outputs.items():
        wanted = arrays_of(name, dtype, x, y)
        out = np.zeros(len(x), wanted.dtype)
        built[whole.functions[name].attrs["global_symbol"]](x, y, out)
        assert_same(out, wanted, x, y, f"{name} of {dtype}, compiled for {target}")
        if target == "llvm":
            numbers = numbers_of(name, dtype, x, y)
            if numbers is not None:
                assert_same(numbers, wanted, x, y, f"{name} of {dtype}, numbers")
            assert_same(evaluate(output, {whole.x: x, whole.y: y}), wanted, x, y, f"{name} of {dtype}, reference")
            out = np.zeros(len(x), wanted.dtype)
            run_function(whole.functions[name], [x, y, out])
            assert_same(out, wanted, x, y, f"{name} of {dtype}, interpreter")


def _cases() -> list[Any]:
    """Every dtype on every target; in the normal tests, of the older processors those whose code differs most."""
    differ = [("float16", TARGETS[1]), ("uint64", TARGETS[2])]
    usual = [*((d, "llvm") for d in DTYPES if d not in ALIKE), *differ]
    return some([(d, t) for t in TARGETS for d in DTYPES], usual)


@pytest.mark.parametrize(("dtype", "target"), _cases())
def test_special_values(dtype: str, target: str) -> None:
    check(dtype, target, *all_pairs(dtype))


def check_elsewhere(dtype: str, target: str, x: np.ndarray, y: np.ndarray) -> None:
    """Every operator, compiled for another machine and run by what there is for it."""
    from tvmagic.runners import MissingTool, ways

    whole = program(dtype)
    built = whole.built(target)
    for name in whole.outputs:
        wanted = arrays_of(name, dtype, x, y)
        # a module whose entry function is this one
        one, symbol = object.__new__(type(built)), whole.functions[name].attrs["global_symbol"]
        one.__dict__.update(built.__dict__)
        one.abis = sorted(built.abis, key=lambda abi: abi.name != symbol)
        for way in ways(built.target)[:1]:
            out = np.zeros(len(x), wanted.dtype)
            try:
                way.run(one, [x, y, out])
            except MissingTool as error:
                if "round in a way of their own" not in error.message:  # an older QEMU, which lacks some instructions
                    raise
                continue
            assert_same(out, wanted, x, y, f"{name} of {dtype}, for {target} by {way.name}")


@pytest.mark.soak
@pytest.mark.parametrize("target", [on(name, target) for name, target in ELSEWHERE.items()])
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_elsewhere(dtype: str, target: str) -> None:
    check_elsewhere(dtype, target, *all_pairs(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_on_a_gpu(dtype: str) -> None:
    need_gpu()
    check_elsewhere(dtype, "nvptx -arch=sm_70", *all_pairs(dtype))


@pytest.mark.parametrize("dtype", some(DTYPES, [d for d in DTYPES if d not in ALIKE]))
@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.binary(min_size=2 * COUNT * 8, max_size=2 * COUNT * 8))
@example(data=bytes(range(256)) + bytes(2 * COUNT * 8 - 256))
def test_any_bits(dtype: str, data: bytes) -> None:
    kind = numpy_dtype(dtype)
    raw = np.frombuffer(data, "uint8")
    values = (raw % 2).astype(bool) if dtype == "bool" else raw.view(kind)
    check(dtype, "llvm", values[:COUNT].copy(), values[-COUNT:].copy())
