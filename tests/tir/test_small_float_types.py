"""Passes that compute small floats in a wider type and store them as bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import check, module, script
from refusals import refuses

import tvmagic as tvm
from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.tir.transform import (
    BF16ComputeLegalize,
    BF16StorageLegalize,
    FP8ComputeLegalize,
    FP8StorageLegalize,
)
from tvmagic.tir.transform.expressions.small_float_storage import constant_bits

SUM = 'def main(A: T.Buffer((8,), "{t}"), C: T.Buffer((8,), "{t}")):\n    for i in range(8):\n        C[i] = {value}'


def numbers(kind: Any, bits: type[np.unsignedinteger[Any]]) -> np.ndarray:
    """Numbers of all sizes, and those half way between two neighbours of a small type."""
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 2**32, 4000, dtype="uint64").astype("uint32").view("float32")
    with np.errstate(invalid="ignore"):
        every = np.arange(np.iinfo(bits).max + 1).astype(bits).view(kind).astype("float64")
    every = np.sort(every[np.isfinite(every)])[-400:]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-9, 2.0**-10, 3 * 2.0**-11, 2.0**-17], "float32")
    middle = ((every[:-1] + every[1:]) / 2).astype("float32")
    sized = (rng.standard_normal(4000) * 10.0 ** rng.integers(-8, 4, 4000)).astype("float32")
    return np.concatenate([pattern, special, middle, -middle, sized])


@pytest.mark.parametrize("small", ["e4m3_float8", "e5m2_float8", "bfloat16"])
def test_bits_of_small_floats_are_those_of_their_package(small: str) -> None:
    """All values to float32, and float32 to the nearest value, as `ml_dtypes` has it."""
    types = pytest.importorskip("ml_dtypes")
    kind = {"e4m3_float8": types.float8_e4m3fn, "e5m2_float8": types.float8_e5m2, "bfloat16": types.bfloat16}[small]
    bits: Any = np.uint16 if small == "bfloat16" else np.uint8
    count, given = np.iinfo(bits).max + 1, numbers(kind, bits)
    mod = module(
        f"""
        def main(A: T.Buffer(({count},), "{small}"), B: T.Buffer(({count},), "float32"),
                 C: T.Buffer(({len(given)},), "float32"), D: T.Buffer(({len(given)},), "{small}")):
            for i in range({count // 4}):
                B[i * 4:i * 4 + 4] = T.Cast("float32x4", A[i * 4:i * 4 + 4])
            for i in range({len(given)}):
                D[i] = T.Cast("{small}", C[i])
        """
    )
    passes = (
        [BF16ComputeLegalize(), BF16StorageLegalize()]
        if bits is np.uint16
        else [FP8ComputeLegalize(), FP8StorageLegalize()]
    )
    built = tvm.build(tvm.transform.Sequential(passes)(mod), target="llvm")
    every, wide, narrow = np.arange(count).astype(bits), np.zeros(count, "float32"), np.zeros(len(given), bits)
    built(every, wide, given, narrow)
    np.testing.assert_array_equal(wide, every.view(kind).astype("float32"))
    with np.errstate(all="ignore"):
        wanted = given.astype(kind)
    same = (narrow == wanted.view(bits)) | (np.isnan(narrow.view(kind)) & np.isnan(wanted))
    assert same.all(), given[~same][:5]


@pytest.mark.parametrize("small", ["e4m3_float8", "e5m2_float8", "bfloat16"])
def test_bits_of_constants_are_those_of_their_package(small: str) -> None:
    types = pytest.importorskip("ml_dtypes")
    kind = {"e4m3_float8": types.float8_e4m3fn, "e5m2_float8": types.float8_e5m2, "bfloat16": types.bfloat16}[small]
    bits: Any = np.uint16 if small == "bfloat16" else np.uint8
    given = numbers(kind, bits)
    with np.errstate(all="ignore"):
        wanted = given.astype(kind)
    found = np.array([constant_bits(float(x), ir.DataType(small)) for x in given]).astype(bits)
    same = (found == wanted.view(bits)) | (np.isnan(found.view(kind)) & np.isnan(wanted))
    assert same.all(), given[~same][:5]


def test_a_constant_is_stored_as_its_bits() -> None:
    """The first value of a sum is one."""
    A = tvm.te.placeholder((4, 6), "e5m2_float8", name="A")
    k = tvm.te.reduce_axis((0, 6), "k")
    B = tvm.te.compute((4,), lambda i: tvm.te.sum(A[i, k], axis=k), name="B")
    mod = tvm.lower(tvm.te.create_schedule(B.op), [A, B])
    built = tvm.build(tvm.transform.Sequential([FP8ComputeLegalize(), FP8StorageLegalize()])(mod), target="llvm")
    types = pytest.importorskip("ml_dtypes")
    a, b = np.arange(24).reshape(4, 6).astype(types.float8_e5m2), np.zeros(4, "uint8")
    built(a.view("uint8"), b)
    wanted = np.zeros(4, types.float8_e5m2)
    for column in a.T:
        wanted = (wanted.astype("float32") + column.astype("float32")).astype(types.float8_e5m2)
    np.testing.assert_array_equal(b.view(types.float8_e5m2), wanted)


def test_memory_of_small_floats_holds_bits() -> None:
    check(
        BF16StorageLegalize(),
        """
        def main(A: T.Buffer((8,), "bfloat16"), p: T.handle("bfloat16")):
            B = T.decl_buffer((8,), "bfloat16")
            C = T.decl_buffer((8,), "bfloat16", data=p)
            B[0] = A[1]
            C[0] = T.Select(A[2] == A[2], B[0], A[3])
        """.replace("A[2] == A[2]", 'T.Cast("float32", A[2]) == T.float32(1)'),
        """
        def main(A: T.Buffer((8,), "uint16"), p: T.handle("uint16")):
            B = T.decl_buffer((8,), "uint16")
            C = T.decl_buffer((8,), "uint16", data=p)
            B[0] = A[1]
            C[0] = T.Select(T.reinterpret("float32", T.shift_left(T.Cast("uint32", A[2]), T.uint32(16))) == T.float32(1), B[0], A[3])
        """,
    )
    untouched = module(SUM.format(t="float32", value="A[i]"))
    assert FP8StorageLegalize()(untouched)["main"] is untouched["main"]


@pytest.mark.parametrize(
    ("buffers", "bits"),
    [
        (["float32", "int32"], None),
        (["bfloat16", "float32"], ["uint16", "float32"]),
        (["float32", "bfloat16"], ["float32", "uint16"]),
        (["float16"], None),
    ],
)
def test_arguments_that_are_not_used_are_bits_too(buffers: list[str], bits: list[str] | None) -> None:
    head = ", ".join(f'{name}: T.Buffer((4,), "{dtype}")' for name, dtype in zip("AB", buffers))
    mod = module(f"def main({head}):\n    T.evaluate(0)")
    func = BF16StorageLegalize()(mod)["main"]
    assert (func is mod["main"]) is (bits is None)
    assert [str(func.buffer_map[p].dtype) for p in func.params] == (bits or buffers)


def test_memory_cannot_be_changed_before_the_computation() -> None:
    for value in ("A[i] + A[i]", "T.exp(A[i])"):
        with refuses("tir.small_float_storage.not_legalized"):
            FP8StorageLegalize()(module(SUM.format(t="e5m2_float8", value=value)))
    with pytest.raises(TVMagicError, match="`int32`"):
        FP8ComputeLegalize("int32")(module(SUM.format(t="e5m2_float8", value="A[i]")))
    assert "A[i]" in script(FP8StorageLegalize()(module(SUM.format(t="e5m2_float8", value="A[i]"))))
