"""What the analysis of a schedule says of blocks, and how instructions and layouts fit them: tables and laws."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pass_checks import parse

from tvmagic import ir, tir
from tvmagic.ir import For, ForKind, IntImm, PrimExpr, Var, decl_buffer
from tvmagic.ir.stmt import Evaluate
from tvmagic.tir.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
    has_block,
    is_output_block,
    suggest_index_map,
)

BATCHED = """
def main(A: T.Buffer((3, 16, 32), "{a}"), B: T.Buffer((32, {n}), "int8"), C: T.Buffer((3, 16, {n}), "int32")):
    D = T.alloc_buffer((3, 16, {n}), "int32")
    for b, i, j, k in T.grid(3, 16, {n}, 32):
        with T.block("D"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                D[vb, vi, vj] = 0
            D[vb, vi, vj] = D[vb, vi, vj] + T.Cast("int32", A[vb, vi, vk]) * T.Cast("int32", B[vk, vj])
    for b, i, j in T.grid(3, 16, {n}):
        with T.block("C"):
            vb, vi = T.axis.remap("SS", [b, i])
            vj = T.axis.spatial({n}, j + 0 * b)
            C[vb, vi, vj] = D[vb, vi, vj]
"""
DOT = """
def main(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, ({m}, {k}), "int8", offset_factor=1)
    B = T.match_buffer(b, ({k}, {n}), "int8", offset_factor=1)
    C = T.match_buffer(c, ({m}, {n}), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:{m}, 0:{n}], A[0:{m}, 0:{k}], B[0:{k}, 0:{n}])
        T.writes(C[0:{m}, 0:{n}])
        for i, j, k in T.grid({m}, {n}, {k}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])
"""


def scheduled(n: int = 8, a: str = "int8") -> tir.Schedule:
    return tir.Schedule(parse(BATCHED.format(n=n, a=a)))


def test_blocks_by_name() -> None:
    sch = scheduled()
    assert [has_block(sch, name) for name in ("root", "C", "D", "E", "i", "")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert [is_output_block(sch, sch.get_block(name)) for name in ("C", "D")] == [True, False]


@pytest.mark.parametrize(
    ("sizes", "padded", "found"),
    [
        ((4, 8, 16), False, ("ijk", None)),
        ((16, 8, 32), False, ("ijk", None)),
        ((5, 8, 16), False, None),
        ((4, 3, 16), False, None),
        ((4, 8, 12), False, None),
        ((5, 8, 16), True, ("ijk", [1, 5, 1, 1])),
        ((4, 3, 12), True, ("ijk", [1, 1, 3, 12])),
        ((32, 8, 32), True, ("ijk", [1, 32, 1, 1])),
    ],
)
def test_loops_of_an_instruction(sizes: tuple[int, int, int], padded: bool, found: Any) -> None:
    sch = scheduled()
    info = mapping_of(sch, "D", parse(DOT.format(m=sizes[0], n=sizes[1], k=sizes[2])), padded)
    if found is None:
        assert info is None
        return
    assert info is not None
    assert "".join(s.loop.loop_var.name for s in info.loop_map) == found[0]
    assert [loop.loop_var.name for loop in info.loop_map.values()] == list(found[0])
    assert info.block_iter_paddings == found[1]
    assert [info.desc_loop_indexer[loop] for loop in info.desc_loops] == [0, 1, 2]


def mapping_of(sch: tir.Schedule, name: str, description: Any, padded: bool = False) -> Any:
    return get_tensorize_loop_mapping(sch, sch.get_block(name), description, padded)


def test_loops_that_no_instruction_has() -> None:
    """A block without a reduced variable, one bound to a sum, a loop of unknown size, a description without loops."""
    dot = parse(DOT.format(m=4, n=8, k=16))
    assert mapping_of(scheduled(), "C", dot) is None
    sch = scheduled()
    sch.fuse(*sch.get_loops("D")[2:])
    assert get_tensorize_loop_mapping(sch, sch.get_block("D"), dot) is None
    symbolic = BATCHED.replace("{n}", "n").replace("def main(A", "def main(n: T.int32, A").replace("{a}", "int8")
    symbolic = symbolic.replace('B: T.Buffer((32, n), "int8")', "b: T.handle").replace(
        ', C: T.Buffer((3, 16, n), "int32")', ", c: T.handle"
    )
    symbolic = symbolic.replace(
        "    D = T.alloc",
        '    B = T.match_buffer(b, (32, n), "int8")\n    C = T.match_buffer(c, (3, 16, n), "int32")\n    D = T.alloc',
    )
    assert mapping_of(tir.Schedule(parse(symbolic)), "D", dot, True) is None
    swapped = DOT.replace(
        'vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
        "vi = T.axis.spatial({m}, i)\n                vj = T.axis.spatial({n}, 0)\n                vk = T.axis.reduce({k}, k)",
    )
    assert mapping_of(scheduled(), "D", parse(swapped.format(m=4, n=8, k=16))) is None


def test_variables_that_an_instruction_takes() -> None:
    sch = scheduled()
    info = get_auto_tensorize_mapping_info(sch, sch.get_block("D"), parse(DOT.format(m=4, n=8, k=16)))
    assert info is not None
    (mapping,) = info.mappings
    variables = [Var(name, "int32") for name in "bijk"]
    assert [str(v) for v in mapping.map_indices(variables)] == ["b * 16 + i", "j", "k"]
    assert [(a.name, b.name) for a, b in info.lhs_buffer_map.items()] == [("D", "C"), ("A", "A"), ("B", "B")]
    assert [v.var.name for v in info.lhs_iters] == ["vb", "vi", "vj", "vk"] and [
        v.var.name for v in info.rhs_iters
    ] == ["vi", "vj", "vk"]


def test_blocks_that_no_instruction_takes() -> None:
    dot = parse(DOT.format(m=4, n=8, k=16))
    for sch, name in ((scheduled(), "C"), (scheduled(a="uint8"), "D")):
        assert get_auto_tensorize_mapping_info(sch, sch.get_block(name), dot) is None
    sch = scheduled()
    sch.blockize(sch.get_loops("D")[3])
    assert get_auto_tensorize_mapping_info(sch, sch.get_block("D_o"), dot) is None
    head, update = DOT.split("                C[vi, vj] = ")
    descriptions = [
        f"{head}                T.evaluate(0)\n",  # stores nothing
        f"{head}                C[vi, vj] = T.int32(0)\n",  # loads nothing
        f"{head}                C[vi, vj] = {update.replace('B[', 'A[')}",  # one buffer less
        DOT.split("            with T.block(")[0] + "            T.evaluate(0)\n",  # no block
    ]
    sch = scheduled()
    for text in descriptions:
        description = parse(text.format(m=4, n=8, k=16))
        assert get_auto_tensorize_mapping_info(sch, sch.get_block("D"), description) is None, text


def loops(**extents: int) -> list[For]:
    return [For(Var(name, "int32"), 0, n, ForKind.SERIAL, Evaluate(IntImm("int32", 0))) for name, n in extents.items()]


TRUE = IntImm("bool", 1)


@pytest.mark.parametrize(
    ("shape", "extents", "indices", "suggested"),
    [
        ((4, 6), {"i": 4, "j": 6}, "i, j", False),
        ((6, 4), {"i": 4, "j": 6}, "j, i", True),
        ((24,), {"i": 4, "j": 6}, "i * 6 + j", False),
        ((24,), {"i": 4, "j": 6}, "j * 4 + i", True),
        ((4, 2, 8), {"i": 4, "j": 8, "k": 2}, "i, k, j", True),
        ((4, 8), {"i": 4, "j": 2, "k": 4}, "i, j * 4 + k", False),
        ((8, 4), {"i": 2, "j": 4, "k": 4}, "k * 2 + i, j", True),
        ((8, 8), {"io": 2, "jo": 2, "ii": 4, "ji": 4}, "io * 4 + ii, jo * 4 + ji", True),
        ((64,), {"f": 64}, "f", False),
        ((64,), {"f": 64}, "f // 8 + f % 8 * 8", True),
        ((4, 6), {"i": 4}, "i, 0", False),
    ],
)
def test_a_layout_that_loops_walk_through_in_order(
    shape: tuple[int, ...], extents: dict[str, int], indices: str, suggested: bool
) -> None:
    nest = loops(**extents)
    names = {loop.loop_var.name: loop.loop_var for loop in nest}
    exprs = [IntImm("int32", 0) + e for e in eval(f"({indices},)", {}, names)]
    found = suggest_index_map(decl_buffer(shape, "int32", "A"), exprs, nest, TRUE)
    assert (found is not None) is suggested
    if found is None:
        return
    sizes: list[Any] = found.map_shape(shape)
    visited: list[int] = []
    for point in itertools.product(*(range(n) for n in extents.values())):
        place = eval(f"({indices},)", {}, dict(zip(extents, point)))
        new: list[Any] = found.map_indices([IntImm("int32", p) for p in place])
        flat = 0
        for index, size in zip(new, sizes):
            flat = flat * int(size) + int(index)
        visited.append(flat)
    assert visited == sorted(visited) and len(set(visited)) == len(visited)


@pytest.mark.parametrize(("indices", "bound"), [("i * i", None), ("i + j", None), ("n + i", "n")])
def test_no_layout_for_what_is_no_sum_of_iterators(indices: str, bound: str | None) -> None:
    nest = loops(i=4, j=6)
    names: dict[str, PrimExpr] = {loop.loop_var.name: loop.loop_var for loop in nest}
    names["n"] = ir.SizeVar("n")
    assert suggest_index_map(decl_buffer((24,), "int32", "A"), [eval(indices, {}, names)], nest, TRUE) is None


# ---------------------------------------------------------------------------- steps of threads (AutoPadder)
