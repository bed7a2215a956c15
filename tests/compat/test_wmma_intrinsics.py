"""WMMA's intrinsics: a matrix product is tensorized with a whole group of them, and lowered."""

from __future__ import annotations

import re

import pytest
from tensor_core_products import matrix_product

import tvmagic as tvm
from tvmagic import tir
from tvmagic.errors import TVMagicError
from tvmagic.tir.tensor_intrin import cuda


def tensorized(out: str, transposed: bool, shared: str) -> tir.Schedule:
    """A product of 64 x 32 and 32 x 48 float16 elements by fragments, in two kinds of memory."""
    group = cuda.get_wmma_intrin_group(shared, "global", "float16", out, transposed)
    sch = tir.Schedule(matrix_product(64, 48, 32, "float16", out, transposed), debug_mask="all")
    block = sch.get_block("C")
    pairs = [sch.split(loop, [None, 16]) for loop in sch.get_loops(block)]
    sch.reorder(*[outer for outer, _ in pairs], *[inner for _, inner in pairs])
    for index in range(2):
        sch.cache_read(block, index, shared)
    copies = [sch.cache_read(block, index, f"wmma.matrix_{'ab'[index]}") for index in range(2)]
    stored = sch.cache_write(block, 0, "wmma.accumulator")
    start = sch.decompose_reduction(block, pairs[2][0])
    sch.tensorize(pairs[0][1], group["compute"])
    sch.tensorize(sch.get_loops(start)[-2], group["init"])
    for copy, name in zip((*copies, stored), ("load_a", "load_b", "store")):
        tiles = [sch.split(loop, [None, 16]) for loop in sch.get_loops(copy)]
        sch.reorder(tiles[0][0], tiles[1][0], tiles[0][1], tiles[1][1])
        sch.tensorize(tiles[0][1], group[name])
    return sch


@pytest.mark.parametrize(
    ("out", "transposed", "shared"), [("float32", False, "shared"), ("float16", True, "shared.dyn")]
)
def test_a_product_of_fragments_is_lowered(out: str, transposed: bool, shared: str) -> None:
    sch = tensorized(out, transposed, shared)
    text = tvm.lower(sch.mod)["main"].script()
    calls = re.findall(r"T\.tvm_(\w+)\(", text)
    assert [name for name in dict.fromkeys(calls) if name != "access_ptr" and name != "type_annotation"] == [
        "load_matrix_sync",
        "fill_fragment",
        "mma_sync",
        "store_matrix_sync",
    ]
    assert ('"col_major"' in text) == transposed


def test_names_are_those_of_the_constants() -> None:
    names = [name for name in dir(cuda) if name.startswith("WMMA_") and name.endswith("_INTRIN")]
    assert len(names) == 6 + 16 + 3 + 9
    for name in names:
        assert tir.TensorIntrin.get(getattr(cuda, name)) is not None

    with pytest.raises(TVMagicError, match="`wmma_fill_16x16x16_float64`"):
        cuda.get_wmma_intrin_group("shared", "global", "float16", "float64", False)
