"""`fmod` for machines without a C library: run on this one, its bits are NumPy's."""

from __future__ import annotations

import ctypes
import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tvmagic
from tvmagic import codegen, ir, te
from tvmagic.codegen.math.float_remainder import fmod_text

WORDS = {"float32": "uint32", "float64": "uint64"}


class Remainder:
    """The function for one type, called for each of two arrays' elements."""

    def __init__(self, dtype: str) -> None:
        kind = {"float32": "float", "float64": "double"}[dtype]
        text = f"""{fmod_text("rest", ir.DataType(dtype))}
define void @all(ptr %x, ptr %y, ptr %z, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr {kind}, ptr %x, i64 %i
  %py = getelementptr {kind}, ptr %y, i64 %i
  %pz = getelementptr {kind}, ptr %z, i64 %i
  %vx = load {kind}, ptr %px
  %vy = load {kind}, ptr %py
  %vz = call {kind} @rest({kind} %vx, {kind} %vy)
  store {kind} %vz, ptr %pz
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
        self.engine = llvm.create_mcjit_compiler(
            llvm.parse_assembly(text), llvm.Target.from_default_triple().create_target_machine()
        )
        kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64]
        self.function = ctypes.CFUNCTYPE(None, *kinds)(self.engine.get_function_address("all"))

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        z = np.empty_like(x)
        self.function(x.ctypes.data, y.ctypes.data, z.ctypes.data, len(x))
        return z


codegen.llvm_ir(ir.IRModule({}), "llvm", False)  # which initializes LLVM
REMAINDERS = {dtype: Remainder(dtype) for dtype in WORDS}


def assert_same(dtype: str, x: np.ndarray, y: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
    got, word = REMAINDERS[dtype](x, y), WORDS[dtype]
    same = (got.view(word) == wanted.view(word)) | (np.isnan(got) & np.isnan(wanted))
    assert same.all(), (x[~same][:3], y[~same][:3], got[~same][:3], wanted[~same][:3])


@pytest.mark.parametrize("dtype", WORDS)
def test_special_values(dtype: str) -> None:
    info = np.finfo(dtype)
    some = [0.0, 1.0, 1.5, 3.0, 0.1, 1e30, info.max, info.tiny, info.smallest_subnormal, 3 * info.smallest_subnormal]
    values = np.array([*some, info.tiny - info.smallest_subnormal, np.inf, np.nan, info.eps, 2.0**24 + 2], dtype)
    values = np.concatenate([values, -values])
    assert_same(dtype, np.repeat(values, len(values)), np.tile(values, len(values)))


@pytest.mark.parametrize("dtype", WORDS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_bits(dtype: str, seed: int) -> None:
    rng, word = np.random.default_rng(seed), WORDS[dtype]
    x, y = (rng.integers(0, np.iinfo(word).max, 500, dtype=word, endpoint=True) for _ in range(2))
    near = x + rng.integers(0, 64, 500).astype(word)  # of about the same length
    assert_same(dtype, x.view(dtype), y.view(dtype))
    assert_same(dtype, x.view(dtype), near.view(dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_code_for_gpus_has_it(dtype: str, lanes: int) -> None:
    x, y = (te.placeholder((8,), dtype, name=name) for name in "XY")
    z = te.compute((8,), lambda i: ir.FloorMod(x[i], y[i]), name="Z")
    s = te.create_schedule(z.op)
    if lanes > 1:
        s[z].vectorize(s[z].split(z.op.axis[0], factor=lanes)[1])
    text = codegen.llvm_ir(tvmagic.lower(s, [x, y, z]), "nvptx", False)
    assert "frem" not in text and f"@tvm.fmod.{'float64' if dtype == 'float64' else 'float32'}(" in text
    assert "frem" in codegen.llvm_ir(tvmagic.lower(s, [x, y, z]), "llvm", False)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32"])
def test_code_for_gpus_shifts_by_the_whole_amount(dtype: str) -> None:
    """PTX's shift takes 32 bits of the amount: of one of 64 bits it gets the low six, and what is beyond is chosen beside it."""
    x, y = (te.placeholder((8,), dtype, name=name) for name in "XY")
    z = te.compute((8,), lambda i: x[i] << y[i], name="Z")
    text = codegen.assembly(tvmagic.lower(te.create_schedule(z.op), [x, y, z]), "nvptx")
    wide = dtype.endswith("64")
    assert len(re.findall(r"\bshl\.b64" if wide else r"\bshl\.b32", text)) >= 8
    assert len(re.findall(r"\bselp\.b64", text)) == len(re.findall(r"\band\.b32\s+\S+ \S+ 63;", text)) == 8 * wide
