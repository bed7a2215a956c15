"""Operators and vector accesses in compiled code, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from handmade import loop, module
from test_numerics import LANES, assert_same, edge_values, pairs, run

from tvmagic import codegen, tir
from tvmagic.codegen.emit import memory
from tvmagic.errors import BuildError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import Broadcast, BufferLoad, BufferStore, Call, Div, For, ForKind, IntImm, Mod, Ramp, Var, decl_buffer

EIGHT = Ramp(0, 1, 8)


def call(name: str, *args: Any, dtype: str = "") -> Call:
    return Call(dtype or args[0].dtype, f"tir.{name}", list(args))


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_float_functions_of_integers_match_numpy(dtype: str, lanes: int) -> None:
    a, b = pairs(dtype)
    with np.errstate(over="ignore"):
        assert_same(run(lambda x: call("fabs", x), [dtype], dtype, [a], lanes), np.abs(a))
        assert_same(run(lambda x, y: call("fma", x, y, x), [dtype] * 2, dtype, [a, b], lanes), a * b + a)
    whole = ("floor", "ceil", "trunc", "round", "nearbyint", "likely")
    for name in whole if dtype == "int8" else whole[:1]:
        assert_same(run(lambda x, name=name: call(name, x), [dtype], dtype, [a], lanes), a)
    with pytest.raises(BuildError):
        run(lambda x: call("sqrt", x), [dtype], dtype, [a], lanes)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_float_classification_matches_numpy(dtype: str, lanes: int) -> None:
    """As operators of their own; `tir.isinf` makes an expression of others."""
    values = np.resize(edge_values(dtype), 16)
    flags = "bool" if lanes == 1 else f"boolx{lanes}"
    for name, meaning in (("isinf", np.isinf), ("isfinite", np.isfinite), ("isnan", np.isnan)):
        found = run(lambda x, name=name: call(name, x, dtype=flags), [dtype], "bool", [values], lanes)
        assert_same(found, meaning(values.astype("float64")))


@pytest.mark.parametrize("op", [tir.FloorDiv, tir.FloorMod, tir.Mod, tir.Div])
def test_quotient_of_bools_matches_numpy(op: Any) -> None:
    """As NumPy's of bytes of 0 and 1: by nothing it is nothing."""
    a, b = np.resize([False, True, False, True], 8), np.resize([False, False, True, True], 8)
    for lanes in (1, LANES):
        found = run(lambda x, y: op(x, y), ["bool", "bool"], "bool", [a, b], lanes)
        assert_same(found, a & b if op in (tir.FloorDiv, tir.Div) else np.zeros(8, bool))


@pytest.mark.parametrize("check_bounds", [False, True])
@pytest.mark.parametrize("strides", [(), (16, 2), (20, -2)])
def test_vector_of_matrix_loads_its_lanes(strides: tuple[int, ...], check_bounds: bool) -> None:
    """Before their indices are made one."""
    x = decl_buffer((3, 8), "float32", "X", strides=strides)
    y = decl_buffer((3, 8), "float32", "Y")
    memory = np.arange(80, dtype="float32")
    lanes = Ramp(1, 2, 3)
    body = loop(3, lambda i: BufferStore(y, x[i, lanes], [i, lanes]))
    row, step = strides or (8, 1)
    view = np.lib.stride_tricks.as_strided(memory[14 if step < 0 else 0 :], (3, 8), (row * 4, step * 4))
    out = np.zeros((3, 8), "float32")
    codegen.compile_module(module(body, x, y), check_bounds=check_bounds)(view, out)
    wanted = np.zeros((3, 8), "float32")
    wanted[:, 1:7:2] = view[:, 1:7:2]
    np.testing.assert_array_equal(out, wanted)


def test_constant_index_loads_one_element_for_all_lanes() -> None:
    x, y = decl_buffer((8,), "float32", "X"), decl_buffer((8,), "float32", "Y")
    body = BufferStore(y, x[Broadcast(IntImm("int32", 5), 8)], [EIGHT])
    values = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(codegen.compile_module(module(body, x, y))(values), np.full(8, 5, "float32"))
    assert "llvm.masked.gather" not in codegen.llvm_ir(module(body, x, y), "llvm -mcpu=haswell", False)
    mask = EIGHT < Broadcast(IntImm("int32", 3), 8)
    some = BufferStore(y, BufferLoad(x, [Broadcast(IntImm("int32", 5), 8)], mask), [EIGHT])
    np.testing.assert_array_equal(codegen.compile_module(module(some, x, y))(values), [5, 5, 5, 0, 0, 0, 0, 0])


def test_ramp_with_variable_stride_loads_its_lanes() -> None:
    n, y = Var("n", "int32"), decl_buffer((8,), "int32", "Y")
    body = BufferStore(y, Ramp(IntImm("int32", 3), n, 8), [EIGHT])
    out = np.zeros(8, "int32")
    codegen.compile_module(module(body, y, scalars=(n,)))(out, -2)
    np.testing.assert_array_equal(out, 3 - 2 * np.arange(8))


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize(("q", "s"), [(31, 0), (31, 1), (15, -3), (7, 2), (31, -1), (1, 0)])
def test_fixed_point_product_rounds_to_nearest(q: int, s: int, lanes: int) -> None:
    """round(x y 2^(s - q)), of numbers of which none is too large."""
    a = np.array([0, 1, -1, 5, 100, -100, 4000, -3999], "int32")
    b = np.array([1 << (q - 1), 1, 1 << (q - 1), 3, 1 << (q // 2), 77, 1 << (q - 1), 1], "int32")
    bits = [IntImm("int32", q), IntImm("int32", s)]
    found = run(lambda x, y: call("q_multiply_shift", x, y, *bits), ["int32", "int32"], "int32", [a, b], lanes)
    exact = [(int(x) * int(y) * 2 ** max(s, 0) + (1 << (q + max(-s, 0) - 1))) >> (q + max(-s, 0)) for x, y in zip(a, b)]
    np.testing.assert_array_equal(found, exact)
    for known in (bits[:1] + [Var("v", "int32")], [Var("v", "int32"), bits[1]]):
        x = decl_buffer((1,), "int32", "X")
        asked = call("q_multiply_shift", x[0], x[0], *known)
        for target in ("llvm -mcpu=haswell", "opencl"):
            with pytest.raises(BuildError):
                codegen.assembly(_launched(BufferStore(x, asked, [0]), x), target)


def _launched(body: Any, *buffers: Any) -> Any:
    tx = tir.IterVar(None, Var("tx", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    return module(tir.AttrStmt(tx, "thread_extent", IntImm("int32", 4), body), *buffers)


ENDS = [(-128, -120), (-127, -120), (-65, -64), (-128, -2), (0, 5), (-5, 5)]


DIVISORS = [(-3, -1), (-3, -2), (-1, -1), (-1, 0), (0, 2), (1, 3), (-1, 1), (3, 5), (2, 5)]


@pytest.mark.parametrize("op", [Div, Mod])
def test_division_by_zero_and_overflow_are_guarded(op: type) -> None:
    """By zero, and the least number by -1; by counting."""
    i, j, y = Var("i", "int8"), Var("j", "int8"), decl_buffer((1,), "int8", "Y")

    def loop(var: Var, ends: tuple[int, int], body: For | BufferStore) -> For:
        return For(var, IntImm("int8", ends[0]), IntImm("int8", ends[1] - ends[0] + 1), ForKind.SERIAL, body)

    for left, right in itertools.product(ENDS, DIVISORS):
        mod = module(loop(i, left, loop(j, right, BufferStore(y, op(i, j), [0]))), y)
        pairs = itertools.product(range(left[0], left[1] + 1), range(right[0], right[1] + 1))
        guarded = any(b == 0 or (a, b) == (-128, -1) for a, b in pairs)
        assert (" select " in codegen.llvm_ir(mod, optimize=False)) == guarded, (left, right)


@pytest.mark.parametrize(
    ("strides", "of_argument", "place"),
    [((), (), 2 * 6 + 3), ((), (20, 1), 2 + 3), ((20, 1), (), 2 * 20 + 3), ((20, 1), (20, 1), 2 * 20 + 3)],
)
@pytest.mark.parametrize("lanes", [1, 4])
def test_separated_axes_are_rows_in_memory(
    strides: tuple[int, ...], of_argument: tuple[int, ...], place: int, lanes: int
) -> None:
    """If strides count the elements, of the buffer or of the argument that it is in, groups are not multiplied again."""
    buffer = decl_buffer((4, 6), "float32", "V", strides=strides, axis_separators=[1])
    argument = decl_buffer((4, 6), "float32", "X", data=buffer.data, strides=of_argument)
    last = IntImm("int32", 3) if lanes == 1 else Ramp(3, 1, lanes)
    found = memory.flat_index(buffer, (IntImm("int32", 2), last), argument)
    if isinstance(found, Ramp):
        assert (int(found.stride), found.lanes) == (1, lanes)  # type: ignore[call-overload]
        found = found.base
    assert evaluate(found, {}) == place
    assert evaluate(memory.flat_index(buffer, (IntImm("int32", 2), IntImm("int32", 3)), None), {}) == (
        43 if strides else 15
    )
