"""The tensor intrinsics of GPUs and Hexagon."""

import pytest

from tvmagic import tir
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir.schedule.analysis import get_tensorize_loop_mapping
from tvmagic.tir.schedule.testing import assert_structural_equal_ignore_global_symbol

NAMES = (
    "sdot4",
    "dot_32x4_u8i8i32_vrmpy",
    "dot_product_32x2_i16i16i32_vdmpy",
    "wmma_sync_16x16x16_f16f16f32",
    "wmma_sync_16x16x16_s8s8s32_trans",
)


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


@pytest.mark.parametrize("name", NAMES)
def test_intrinsics_of_other_machines_are_known_and_print_back(name: str) -> None:
    intrin = tir.TensorIntrin.get(name)
    assert intrin is not None
    for function in (intrin.desc, intrin.impl):
        assert_structural_equal_ignore_global_symbol(from_source(function.script()), function)


def test_matrix_products_of_a_gpu_fit_a_matmul() -> None:
    text = """
def f(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16"), C: T.Buffer((64, 64), "float32")):
    for i, j, k in T.grid(64, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
"""
    sch = tir.Schedule(parse(text))
    intrin = tir.TensorIntrin.get("wmma_sync_16x16x16_f16f16f32")
    found = get_tensorize_loop_mapping(sch, sch.get_block("C"), intrin.desc)
    assert found is not None and len(found.loop_map) == 3
