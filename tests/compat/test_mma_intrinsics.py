"""MMA's intrinsics: a product in the registers of warps is tensorized with a whole group of them, and lowered."""

from __future__ import annotations

import re
from typing import Any

import pytest
from refusals import refuses
from tensor_core_products import matrix_product

import tvmagic as tvm
from tvmagic import tir
from tvmagic.errors import TVMagicError
from tvmagic.tir import TensorIntrin
from tvmagic.tir.tensor_intrin import cuda

LAYOUTS = {
    (16, 16): cuda.shared_16x16_to_ldmatrix_32x8_layout,
    (16, 32): cuda.shared_16x32_to_ldmatrix_32x16_layout,
    (32, 16): cuda.shared_32x16_to_ldmatrix_32x16_layout,
}


@pytest.mark.parametrize(("rows", "columns"), LAYOUTS)
def test_layouts_give_each_element_a_place(rows: int, columns: int) -> None:
    places = {LAYOUTS[rows, columns](i, j) for i in range(rows) for j in range(columns)}
    assert places == {(t, k) for t in range(32) for k in range(rows * columns // 32)}


def test_the_way_back() -> None:
    back, layout = cuda.ldmatrix_32x8_to_shared_16x16_layout, cuda.shared_16x16_to_ldmatrix_32x8_layout
    assert all(back(*layout(i, j)) == (i, j) for i in range(16) for j in range(16))


def tensorized(dtype: str, out: str, transposed: bool, shared: str, simple: bool) -> tir.Schedule:
    """A product of 64 x 128 and 128 x 64 elements, 16 x 16 sums for each warp and step."""
    group = cuda.get_mma_intrin_group(shared, "global", dtype, dtype, out, False, transposed, simple)
    length = 16 if dtype == "float16" else 32
    sch = tir.Schedule(matrix_product(64, 64, 128, dtype, out, transposed), debug_mask="all")
    block = sch.get_block("C")
    pairs = [sch.split(loop, [None, n]) for loop, n in zip(sch.get_loops(block), (16, 16, length))]
    sch.reorder(*[outer for outer, _ in pairs], *[inner for _, inner in pairs])
    tile = sch.blockize(pairs[0][1])
    (i0, i1), (j0, j1), (k0, k1) = [sch.split(outer, [None, 2]) for outer, _ in pairs]
    sch.reorder(i0, j0, i1, j1, k0, k1)
    for loop, thread in zip((i0, j0, i1, j1), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.z")):
        sch.bind(loop, thread)
    for index in range(2):
        sch.compute_at(sch.cache_read(tile, index, shared), k0)
    inputs = [sch.cache_read(tile, index, "warp") for index in range(2)]
    for copy in inputs:
        sch.compute_at(copy, k1)
    stored = sch.cache_write(tile, 0, "warp")
    sch.reverse_compute_at(stored, j1)
    sch.decompose_reduction(tile, k0)
    right = (16, length) if transposed else (length, 16)
    of_b = LAYOUTS[16, 16] if length == 16 else LAYOUTS[right]
    copies = [(inputs[0], "write", (16, length), LAYOUTS[16, length]), (inputs[1], "write", right, of_b)]
    loops = []
    for copy, side, (rows, columns), layout in [*copies, (stored, "read", (16, 16), LAYOUTS[16, 16])]:
        tiles = [sch.split(x, [None, n]) for x, n in zip(sch.get_loops(copy)[-2:], (rows, columns))]
        sch.reorder(tiles[0][0], tiles[1][0], tiles[0][1], tiles[1][1])
        loops.append(tiles[0][1])
        sch.transform_layout(copy, (side, 0), tiled(rows, columns, layout))
    for loop, name in zip(loops, ("load_a", "load_b", "store")):
        sch.tensorize(loop, group[name])
    sch.tensorize(sch.get_loops(block)[-3], group["compute"])
    sch.tensorize(sch.get_loops(sch.get_block("C_init"))[-2], group["init"])
    return sch


def tiled(rows: int, columns: int, layout: Any) -> Any:
    return lambda i, j: (i // rows, j // columns, *layout(i % rows, j % columns))


@pytest.mark.parametrize(
    ("dtype", "out", "transposed", "shared", "simple"),
    [
        ("float16", "float32", False, "shared", False),
        ("float16", "float16", True, "shared.dyn", True),
        ("int8", "int32", False, "shared", True),
        ("int8", "int32", True, "shared", False),
    ],
)
def test_a_product_in_registers_is_lowered(dtype: str, out: str, transposed: bool, shared: str, simple: bool) -> None:
    sch = tensorized(dtype, out, transposed, shared, simple)
    text = tvm.lower(sch.mod)["main"].script()
    calls = re.findall(r"T\.(mma_\w+|ptx_\w+)\(", text)
    stores = [] if simple else ["mma_store"]
    assert calls == ["mma_fill", "ptx_ldmatrix", "ptx_ldmatrix", "ptx_mma", "ptx_mma", *stores]
    instruction = f"m16n8k{16 if dtype == 'float16' else 32}"
    assert text.count(f'"{instruction}", "row", "col"') == 2
    assert 'T.tvm_storage_sync("shared")' not in text  # that is a pass of its own


def test_names_of_intrinsics() -> None:
    names = [name for name in cuda.__all__ if name.startswith(("MMA_", "LDMATRIX_"))]
    assert len(names) == 24 and all(TensorIntrin.get(getattr(cuda, name)) is not None for name in names)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (("shared", "global", "float32", "float32", "float32"), "mma.unknown_intrinsic"),
        (("global", "global", "float16", "float16", "float32"), "mma.unknown_intrinsic"),
        (("shared", "global", "float16", "float16", "float32", True), "mma.unknown_intrinsic"),
        (("shared", "local", "float16", "float16", "float32"), "mma.unknown_intrinsic"),
    ],
)  # fmt: skip
def test_products_that_no_instruction_makes(arguments: tuple[Any, ...], wrong: str) -> None:
    with refuses(wrong):
        cuda.get_mma_intrin_group(*arguments)


def test_tiles_that_no_instruction_loads_or_multiplies() -> None:
    with pytest.raises(TVMagicError, match="`int8`"):
        cuda.get_mma_intrin(16, "int8", "int32", False)
    with pytest.raises(TVMagicError, match="`float16`"):
        cuda.get_ldmatrix_intrin(32, "float16", "A", False)
    with refuses("mma.unsupported_load", names="`A`"):
        cuda.get_ldmatrix_intrin(16, "float16", "A", True)
