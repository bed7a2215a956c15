"""The tensor intrinsics that come with the package: registered when asked for, tensorized, run."""

import platform

import llvmlite.binding
import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import tir
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
    is_output_block,
)
from tvmagic.tir.schedule.testing import assert_structural_equal_ignore_global_symbol, verify_trace_roundtrip
from tvmagic.tir.schedule.transform import tile_with_tensor_intrin

NAMES = (
    "dot_16x4_vnni",
    "dot_16x4_avx512",
    "dot_4x4_i8i8s32_neon",
    "dot_4x4_i8i8s32_sdot",
    "dot_4x4_u8u8u32_udot",
    "dot_4x4_u8u8i32_hdot",
)


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


PACKED = """
def f(X: T.Buffer((8, 32), "uint8"), W: T.Buffer((4, 8, 16, 4), "int8"), C: T.Buffer((8, 64), "int32")):
    for i, jo, ji, ko, ki in T.grid(8, 4, 16, 8, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(64, jo * 16 + ji)
            vk = T.axis.reduce(32, ko * 4 + ki)
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.cast(X[vi, vk], "int32") * T.cast(W[vj // 16, vk // 4, vj % 16, vk % 4], "int32")
"""


def has(flag: str) -> bool:
    try:
        with open("/proc/cpuinfo") as info:
            return platform.machine() == "x86_64" and flag in info.read().split()
    except OSError:
        return False


@pytest.mark.parametrize("name", NAMES)
def test_known(name: str) -> None:
    intrin = tir.TensorIntrin.get(name)
    assert intrin is not None and len(intrin.desc.params) == len(intrin.impl.params) == 3


def test_unknown() -> None:
    with refuses("tensor_intrin.unknown", error=tvmagic.TVMagicError):
        tir.TensorIntrin.get("nothing")
    assert tir.TensorIntrin.get("nothing", allow_missing=True) is None


@pytest.mark.parametrize(("name", "flag"), [("dot_16x4_vnni", "avx512_vnni"), ("dot_16x4_avx512", "avx512bw")])
def test_packed_matmul(name: str, flag: str) -> None:
    before = parse(PACKED)
    sch = tir.Schedule(before, debug_mask="all")
    block = sch.get_block("C")
    i, jo, ji, ko, ki = sch.get_loops(block)
    sch.reorder(i, jo, ko, ji, ki)
    sch.decompose_reduction(block, ko)
    sch.tensorize(ji, name)
    assert "llvm.x86.avx512" in sch.mod.script()
    verify_trace_roundtrip(sch, before)
    if platform.machine() == "x86_64":  # LLVM itself would end the process
        with pytest.raises(tvmagic.TVMagicError, match="llvm.x86.avx512"):
            tvmagic.build(sch.mod["main"], target="llvm -mcpu=haswell")
    if not has(flag):
        pytest.skip(f"this CPU has no {flag}")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, (8, 32)).astype("uint8")
    w = rng.integers(-100, 100, (64, 32)).astype("int8")
    c = np.zeros((8, 64), "int32")
    target = f"llvm -mcpu={llvmlite.binding.get_host_cpu_name()}"  # whatever TVMAGIC_TARGET names
    tvmagic.build(sch.mod["main"], target=target)(x, w.reshape(4, 16, 8, 4).transpose(0, 2, 1, 3).copy(), c)
    np.testing.assert_array_equal(c, x.astype("int32") @ w.astype("int32").T)


PLAIN = """
def f(X: T.Buffer((8, 32), "uint8"), W: T.Buffer((64, 32), "int8"), C: T.Buffer((8, 64), "int32")):
    for i, j, k in T.grid(8, {N}, {K}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + T.cast(X[vi, vk], "int32") * T.cast(W[vj, vk], "int32")
"""


def test_loop_mapping() -> None:
    sch = tir.Schedule(parse(PLAIN.format(N=64, K=32)))
    block = sch.get_block("C")
    desc = tir.TensorIntrin.get("dot_16x4_vnni")
    assert desc is not None
    info = get_tensorize_loop_mapping(sch, block, desc.desc)
    assert info is not None
    _, j, k = [sch.get_sref(loop) for loop in sch.get_loops(block)]
    assert [(loop.loop_var.name, int(loop.extent)) for loop in info.loop_map.values()] == [("i", 16), ("k", 4)]
    assert list(info.loop_map) == [j, k] and info.block_iter_paddings is None
    assert is_output_block(sch, block)


def test_tile() -> None:
    before = parse(PLAIN.format(N=64, K=32))
    sch = tir.Schedule(before, debug_mask="all")
    loop = tile_with_tensor_intrin(sch, sch.get_block("C"), "dot_16x4_vnni")
    assert loop is not None
    assert [int(sch.get(x).extent) for x in sch.get_loops("C")] == [8, 4, 8, 16, 4]
    assert sch.get(loop) is sch.get(sch.get_loops("C")[3])


def test_no_mapping() -> None:
    sch = tir.Schedule(parse(PLAIN.format(N=60, K=32)))
    desc = tir.TensorIntrin.get("dot_16x4_vnni")
    assert desc is not None
    assert get_tensorize_loop_mapping(sch, sch.get_block("C"), desc.desc) is None
    padded = get_tensorize_loop_mapping(sch, sch.get_block("C"), desc.desc, allow_padding=True)
    assert padded is not None and padded.block_iter_paddings == [1, 16, 1]
    assert tile_with_tensor_intrin(sch, sch.get_block("C"), "dot_16x4_vnni") is None


def test_names_of_functions_do_not_count() -> None:
    one = parse(PACKED)
    assert_structural_equal_ignore_global_symbol(
        one.with_attr("global_symbol", "a"), one.with_attr("global_symbol", "b")
    )


MMA = """
def f(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (16, 16), "float16", offset_factor=1)
    B = T.match_buffer(b, (16, 16), "float16", offset_factor=1)
    C = T.match_buffer(c, (16, 16), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        for i, j, k in T.grid(16, 16, 16):
            with T.block("mma"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast(B[vk, vj], "float32")
"""
CONV = """
def f(X: T.Buffer((2, 18, 18, 64), "float16"), W: T.Buffer((3, 3, 64, 32), "float16"),
      Y: T.Buffer((2, 16, 16, 32), "float32")):
    for n, h, w, o, r, s, c in T.grid(2, 16, 16, 32, 3, 3, 64):
        with T.block("conv"):
            vn, vh, vw, vo, vr, vs, vc = T.axis.remap("SSSSRRR", [n, h, w, o, r, s, c])
            Y[vn, vh, vw, vo] = Y[vn, vh, vw, vo] + T.cast(X[vn, vh + vr, vw + vs, vc], "float32") * T.cast(
                W[vr, vs, vc, vo], "float32")
"""
BATCHED = """
def f(A: T.Buffer((4, 32, 64), "float16"), B: T.Buffer((4, 64, 16), "float16"), C: T.Buffer((4, 32, 16), "float32")):
    for b, i, j, k in T.grid(4, 32, 16, 64):
        with T.block("bmm"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            C[vb, vi, vj] = C[vb, vi, vj] + T.cast(A[vb, vi, vk], "float32") * T.cast(B[vb, vk, vj], "float32")
"""


@pytest.mark.parametrize(
    ("text", "block", "expected"),
    [
        (CONV, "conv", lambda n, h, w, o, r, s, c: (n * 256 + h * 16 + w, o, r * 192 + s * 64 + c)),
        (BATCHED, "bmm", lambda b, i, j, k: (b, i, j, k)),
    ],
)
def test_groups_of_variables(text, block, expected) -> None:
    """A convolution as a matmul: rows are images and places, columns channels; a batch stays outside."""
    sch = tir.Schedule(parse(text))
    info = get_auto_tensorize_mapping_info(sch, sch.get_block(block), parse(MMA))
    assert info is not None
    (mapping,) = info.mappings
    rng = np.random.default_rng(0)
    extents = [int(v.dom.extent) for v in info.lhs_iters]
    for _ in range(20):
        place = [int(rng.integers(0, e)) for e in extents]
        assert [int(x) for x in mapping.map_indices(place)] == list(expected(*place))
    assert [b.name for b in info.lhs_buffer_map.values()] == ["C", "A", "B"]
    assert [v.var.name for v in info.rhs_iters] == ["vi", "vj", "vk"]
    assert {b.name: [str(i) for i in at] for b, at in info.rhs_buffer_indices.items()} == {
        "C": ["vi", "vj"],
        "A": ["vi", "vk"],
        "B": ["vk", "vj"],
    }


def test_groups_that_do_not_fit() -> None:
    sch = tir.Schedule(parse(PLAIN.format(N=64, K=32)))
    assert get_auto_tensorize_mapping_info(sch, sch.get_block("C"), parse(MMA)) is None  # other dtypes


ARM = """
def f(X: T.Buffer((8, 32), "{byte}"), W: T.Buffer((4, 8, 4, 4), "{byte}"), C: T.Buffer((8, 16), "{word}")):
    for i, jo, ko, ji, ki in T.grid(8, 4, 8, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(16, jo * 4 + ji)
            vk = T.axis.reduce(32, ko * 4 + ki)
            C[vi, vj] = C[vi, vj] + T.cast(X[vi, vk], "{word}") * T.cast(W[vj // 4, vk // 4, vj % 4, vk % 4], "{word}")
"""


@pytest.mark.parametrize(
    ("name", "byte", "word", "instruction"),
    [
        ("dot_4x4_i8i8s32_sdot", "int8", "int32", "sdot"),
        ("dot_4x4_u8u8u32_udot", "uint8", "uint32", "udot"),
        ("dot_4x4_u8u8i32_hdot", "uint8", "int32", "udot"),
        ("dot_4x4_i8i8s32_neon", "int8", "int32", "smull"),
    ],
)
def test_arm_instructions(name: str, byte: str, word: str, instruction: str) -> None:
    """For an Arm target the intrinsic becomes its instruction."""
    sch = tir.Schedule(parse(ARM.format(byte=byte, word=word)), debug_mask="all")
    sch.tensorize(sch.get_loops("C")[3], name)
    target = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod"
    text = tvmagic.codegen.assembly(tvmagic.lower(sch.mod), target)
    assert instruction in text


ELSEWHERE = (
    "dp4a_s8s8s32",
    "dp4a_u8u8u32",
)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_those_of_other_machines_are_known_and_print_back(name: str) -> None:
    intrin = tir.TensorIntrin.get(name)
    assert intrin is not None
    for function in (intrin.desc, intrin.impl):
        assert_structural_equal_ignore_global_symbol(from_source(function.script()), function)


def test_dot_products_of_a_gpu_are_tensorized() -> None:
    text = """
def f(A: T.Buffer((8, 16), "int8"), B: T.Buffer((8, 16), "int8"), C: T.Buffer((8, 8), "int32")):
    for i, j, k in T.grid(8, 8, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj, vk])
"""
    sch = tir.Schedule(parse(text))
    for index in (0, 1):
        sch.cache_read("C", index, "shared")
    sch.cache_write("C", 0, "local")
    _, _, k = sch.get_loops("C")
    ko, ki = sch.split(k, [None, 4])
    sch.decompose_reduction("C", ko)
    sch.tensorize(ki, "dp4a_s8s8s32")
    assert 'T.call_pure_extern("int32", "__dp4a"' in sch.mod.script()
    other = tir.Schedule(parse(text))
    with pytest.raises(tvmagic.ScheduleError):  # it takes four elements
        other.tensorize(other.get_loops("C")[2], "dp4a_s8s8s32")
