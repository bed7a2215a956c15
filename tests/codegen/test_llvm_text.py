"""Instructions that must be in the code of small programs, for processors that the tests name.

Results are tested elsewhere, and no whole text is compared. A user would notice the absence of these as lost speed.
"""

from __future__ import annotations

import re

import pytest

import tvmagic
from tvmagic import codegen
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source

AVX2 = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
AVX512 = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
ARM = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"
THREE = 'A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"), C: T.Buffer((1024,), "float32")'


def function(body: str, arguments: str = THREE) -> PrimFunc:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return from_source(f"from tvm.script import tir as T\n\n@T.prim_func\ndef main({arguments}):\n{lines}")


def llvm(body: str, arguments: str = THREE, optimize: bool = False, checks: bool = False) -> str:
    """Return LLVM IR for AVX-512."""
    return codegen.llvm_ir(function(body, arguments), AVX512, optimize, checks)


def calls(text: str) -> list[str]:
    """Return the names of called functions, in order."""
    return re.findall(r"call [^@\n]*@([\w.]+)", text)


@pytest.mark.parametrize(("target", "instruction"), [(AVX2, "vfmadd"), (AVX512, "vfmadd"), (ARM, "fmla")])
def test_product_and_sum_become_fma(target: str, instruction: str) -> None:
    body = "for i in range(128):\n    C[i * 8:i * 8 + 8] = C[i * 8:i * 8 + 8] + A[i * 8:i * 8 + 8] * B[i * 8:i * 8 + 8]"
    assembly = codegen.assembly(function(body), target)
    assert instruction in assembly and "mulps" not in assembly


def test_vectorized_loop_loads_and_stores_whole_vectors() -> None:
    body = "for i in range(64):\n    for j in T.vectorized(16):\n        C[i * 16 + j] = A[i * 16 + j]"
    text = codegen.llvm_ir(tvmagic.lower(function(body)), AVX512, False)
    assert "load <16 x float>" in text and "store <16 x float>" in text and not calls(text)


def test_plain_loop_is_vectorized_without_gather() -> None:
    text = llvm("for i in range(1024):\n    C[i] = A[i] + B[i]", optimize=True)
    assert re.search(r"fadd contract <\d+ x float>", text) and not calls(text)


def test_predicated_store_is_masked() -> None:
    body = """for i in range(64):
    C.vstore([T.Ramp(i * 16, 1, 16)], A[i * 16:i * 16 + 16], predicate=T.get_active_lane_mask("uint1x16", i * 16, 1000))"""
    assert calls(llvm(body)) == ["llvm.get.active.lane.mask.v16i1.i64", "llvm.masked.store.v16f32.p0"]


def test_indirect_vector_load_is_one_gather() -> None:
    arguments = 'A: T.Buffer((1024,), "float32"), I: T.Buffer((1024,), "int32"), C: T.Buffer((1024,), "float32")'
    text = llvm("for i in range(64):\n    C[i * 16:i * 16 + 16] = A[I[i * 16:i * 16 + 16]]", arguments)
    assert calls(text) == ["llvm.masked.gather.v16f32.v16p0"]


def test_noalias_function_has_noalias_arguments() -> None:
    body = 'T.func_attr({"tir.noalias": T.bool(True)})\nfor i in range(1024):\n    C[i] = A[i]'
    assert len(re.findall("ptr noalias", llvm(body))) == 3
    assert "ptr noalias" not in llvm(body.split("\n", 1)[1])


def test_remainder_by_power_of_two_is_a_mask() -> None:
    text = llvm("for i in range(1024):\n    C[i] = A[i % 8]")
    assert " and i32 " in text and "rem " not in text


def test_maximum_of_vectors_is_one_call() -> None:
    text = llvm("for i in range(64):\n    C[i * 16:i * 16 + 16] = T.max(A[i * 16:i * 16 + 16], B[i * 16:i * 16 + 16])")
    assert calls(text) == ["llvm.maximum.v16f32"]


def test_checked_access_has_one_comparison_and_failure() -> None:
    body = "for i in range(1024):\n    C[i] = A[i + 1]"
    checked, plain = llvm(body, checks=True), llvm(body)
    assert calls(checked) == ["tvm.fail"] and not calls(plain)
    assert len(re.findall("icmp ult i64 .*, 1024", checked)) == 1  # `C[i]` is proved


def test_parallel_loop_launches_once() -> None:
    assert calls(llvm("for i in T.parallel(1024):\n    C[i] = A[i]")) == ["tvm.launch"]


def test_sum_in_any_order_has_vector_accumulators() -> None:
    body = "for i in range(1024):\n    C[0] = C[0] + A[i]"
    inner = "".join(f"    {line}\n" for line in body.splitlines())
    text = llvm(f'with T.attr(0, "pragma_any_order", 1):\n{inner}', optimize=True)
    assert len(re.findall(r"fadd reassoc contract <\d+ x float> %vec.phi", text)) >= 4
    assert not re.search(r"fadd .*<\d+ x float>", llvm(body, optimize=True))


def test_unrolled_loop_has_no_branch() -> None:
    text = codegen.llvm_ir(tvmagic.lower(function("for i in T.unroll(4):\n    C[i] = A[i]")), AVX512, False)
    body = text[text.index("@main_(") :]
    assert "br i1" not in body[: body.index("\n}")]
