"""Masks of loads and stores: of scalars, and of buffers whose elements are vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import codegen, tir
from tvmagic.codegen.emit.lane_masks import LaneMasks

VALUES = np.arange(1, 17, dtype="float32").reshape(4, 4)


def below(n: Any, lanes: int) -> tir.PrimExpr:
    return tir.Ramp(0, 1, lanes) < tir.Broadcast(n, lanes)


def program(store: Callable[[tir.Buffer, tir.Buffer, tir.Var], tir.Stmt]) -> tir.PrimFunc:
    C, B = tir.decl_buffer((4,), "float32x4", "C"), tir.decl_buffer((4,), "float32x4", "B")
    n = tir.Var("n", "int32")
    return tir.PrimFunc([C, B, n], store(C, B, n)).with_attr("global_symbol", "f")


@pytest.mark.parametrize(
    "store, row",
    [
        (lambda C, B, n: tir.BufferStore(B, C[1], [2], below(n, 4)), [5, 6, 7, 0]),
        (lambda C, B, n: tir.BufferStore(B, tir.BufferLoad(C, [1], below(n, 4)), [2]), [5, 6, 7, 0]),
        (
            lambda C, B, n: tir.BufferStore(B, C.vload([tir.Ramp(1, 1, 2)]), [tir.Ramp(2, 1, 2)], below(n, 8)),
            [5, 6, 7, 0],
        ),
        (
            lambda C, B, n: tir.BufferStore(B, C.vload([tir.Ramp(1, 1, 2)]), [tir.Ramp(2, 1, 2)], below(n - 2, 2)),
            [5, 6, 7, 8],
        ),
        (lambda C, B, n: tir.BufferStore(B, C[1], [2], n < 3), [0, 0, 0, 0]),
        (lambda C, B, n: tir.BufferStore(B, tir.BufferLoad(C, [n * 99], n < 3), [2]), [0, 0, 0, 0]),
    ],
)
def test_elements_that_are_vectors(store: Any, row: list[int]) -> None:
    source, result = tvm.nd.empty((4,), "float32x4"), tvm.nd.empty((4,), "float32x4")
    source.copyfrom(VALUES)
    result.copyfrom(np.zeros((4, 4), "float32"))
    tvm.build(program(store))(source, result, 3)
    expected = np.zeros((4, 4))
    expected[2] = row
    assert result.numpy().tolist() == expected.tolist()


def test_elements_that_are_vectors_go_to_places_that_are_apart() -> None:
    stored = program(lambda C, B, n: tir.BufferStore(B, C.vload([tir.Ramp(0, 1, 2)]), [tir.Ramp(3, -2, 2)]))
    source, result = tvm.nd.empty((4,), "float32x4"), tvm.nd.empty((4,), "float32x4")
    source.copyfrom(VALUES)
    result.copyfrom(np.zeros((4, 4), "float32"))
    tvm.build(stored)(source, result, 0)
    assert result.numpy().tolist() == [[0] * 4, [5, 6, 7, 8], [0] * 4, [1, 2, 3, 4]]


def test_halves_of_vectors() -> None:
    A, B = tir.decl_buffer((4,), "float32", "A"), tir.decl_buffer((8,), "float32", "B")
    whole = A.vload([tir.Ramp(0, 1, 4)])
    low, high = (tir.Call("float32x2", f"tir.vector{side}", [whole]) for side in ("low", "high"))
    both = tir.Call("float32x4", "tir.vectorcombine", [high, low])
    parts = [(0, low, 2), (2, high, 2), (4, both, 4)]
    body = tir.SeqStmt([tir.BufferStore(B, value, [tir.Ramp(first, 1, lanes)]) for first, value, lanes in parts])
    result = np.zeros(8, "float32")
    tvm.build(tir.PrimFunc([A, B], body).with_attr("global_symbol", "f"))(np.arange(4, dtype="float32"), result)
    assert result.tolist() == [0, 1, 2, 3, 2, 3, 0, 1]


def test_a_mask_of_parts_at_scattered_places_is_refused() -> None:
    scattered = program(
        lambda C, B, n: tir.BufferStore(B, tir.BufferLoad(C, [tir.Ramp(0, 2, 2)], below(n, 8)), [tir.Ramp(2, 1, 2)])
    )
    with pytest.raises(tvm.TVMError):
        tvm.build(scattered)


def test_memory_that_is_accessed_with_masks_keeps_its_elements() -> None:
    C, B, A = (tir.decl_buffer((16,), "float32", name) for name in "CBA")
    i = tir.Var("i", "int32")
    index = tir.Ramp(i * 4, 1, 4)
    body: Any = [tir.BufferStore(A, C.vload([index]), [index])]
    body += [tir.BufferStore(A, tir.Broadcast(tir.const(7.0), 4), [index], below(i, 4))]
    body += [tir.BufferStore(B, A.vload([index]), [index])]
    loop = tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.SeqStmt(body))
    attr = tir.AttrStmt(A.data, "some_fact", 1, tir.DeclBuffer(A, loop))
    allocation = tir.Allocate(A.data, "float32", [16], tir.const(True), attr)
    func = tir.PrimFunc([C, B], allocation)
    result = np.zeros(16, "float32")
    tvm.build(func.with_attr("global_symbol", "f"))(VALUES.ravel(), result)
    assert result.tolist() == [1, 2, 3, 4, 7, 6, 7, 8, 7, 7, 11, 12, 7, 7, 7, 16]
    # what is said of a pointer is said of the one in its place
    pointer = tir.Var("p", tvm.ir.PointerType(tvm.ir.PrimType("float32")))
    other = tir.stmt_functor.substitute(allocation.body, {A.data: pointer})
    assert other.node is pointer
    plain = tir.PrimFunc(
        [B],
        tir.Allocate(
            A.data,
            "float32",
            [16],
            tir.const(True),
            tir.AttrStmt(A.data, "some_fact", 1, B.vstore([tir.Ramp(0, 1, 4)], A.vload([tir.Ramp(0, 1, 4)]))),
        ),
    )
    rewritten = tir.transform.StorageRewrite()(tvm.IRModule({"f": plain}))["f"].body
    assert rewritten.dtype == "float32x4" and rewritten.body.node is rewritten.buffer_var


class _Masks(LaneMasks):
    """Masks as sets of lanes: `mask` names those of the numbers from 0 on, what is made of it is written with `|`."""

    class out:
        op = staticmethod(lambda text: f"({text})")

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.mask, self.mask_lanes = "M", lanes
        self.lane = lambda mask, dtype, n: f"{mask}{n}"
        self.join = lambda bits, dtype: [bit.replace("or i1 ", "").replace(", ", "|") for bit in bits]

    def mask_of(self, lanes: int) -> str:
        return f"all {lanes}"


@pytest.mark.parametrize(
    ("mask", "first", "lanes", "picked"),
    [
        (4, 0, 2, ["M1", "false"]),
        (4, 2, 1, ["(M0|M3)"]),
        (4, 3, 2, ["false", "M2"]),
        (4, 5, 1, ["false"]),
        (4, 0, 5, ["M1", "false", "(M0|M3)", "false", "M2"]),
        (2, 0, 2, "all 2"),
        (8, 0, 2, "all 2"),
        (1, 2, 1, "all 1"),
        (4, 0, -2, "all -2"),
        (-4, 0, 2, "all 2"),
    ],
)
def test_lanes_of_which_vectors_are_picked(mask: int, first: int, lanes: int, picked: Any) -> None:
    shuffle = tir.Shuffle([tir.Ramp(0, 1, 5)], [2, 0, 4, 2])
    assert _Masks(mask).mask_of_picked(shuffle, first, lanes) == picked


@pytest.mark.parametrize(
    ("mask", "lanes", "each", "elements"),
    [
        (4, 4, 1, "all 4"),
        (4, 2, 2, ["(M0|M1)", "(M2|M3)"]),
        (4, 1, 4, ["(((M0|M1)|M2)|M3)"]),
        (4, 2, 1, "all 2"),
        (4, 3, 2, "all 3"),
        (-8, -4, 2, "all -4"),
        (1, 2, 2, "all 2"),
    ],
)
def test_elements_of_which_some_lane_is_on(mask: int, lanes: int, each: int, elements: Any) -> None:
    assert _Masks(mask).mask_of_elements(lanes, each) == elements


@pytest.mark.parametrize("masked", ["load", "store"])
@pytest.mark.parametrize("offset", [0, 2])
def test_an_element_that_is_a_vector_in_a_buffer_without_dimensions(masked: str, offset: int) -> None:
    """Its parts are those of a buffer of one element."""
    C = tir.decl_buffer((), "float32x4", "C", elem_offset=offset)
    B, n = tir.decl_buffer((), "float32x4", "B"), tir.Var("n", "int32")
    store = (
        tir.BufferStore(B, tir.BufferLoad(C, [], below(n, 4)), [])
        if masked == "load"
        else tir.BufferStore(C, B[()], [], below(n, 4))
    )
    text = codegen.llvm_ir(tir.PrimFunc([C, B, n], store).with_attr("global_symbol", "f"), "llvm", False)
    assert len(re.findall(rf"call .*@llvm\.masked\.{masked}\.v4f32\.p0\(", text)) == 1
    assert re.findall(r"getelementptr inbounds float, ptr %p0, i64 (\d+)", text) == ["8"] * (offset > 0)


@pytest.mark.parametrize(("place", "fine"), [(1, False), (2, True), (4, True), (5, True), (6, False)])
@pytest.mark.parametrize("check_bounds", [False, True])
def test_places_of_a_part_of_vectors_are_counted_in_vectors(place: int, fine: bool, check_bounds: bool) -> None:
    """The part is elements 2 to 5; a flat index has the part's begin in it."""
    A, B = tir.decl_buffer((8,), "float32x4", "A"), tir.decl_buffer((4,), "float32", "B")
    V, n = tir.decl_buffer((4,), "float32x4", "V", data=A.data, elem_offset=2), tir.Var("n", "int32")
    body = tir.BufferStore(B, tir.BufferLoad(V, [n], below(3, 4)), [tir.Ramp(0, 1, 4)])
    run = codegen.compile_module(tir.PrimFunc([A, B, n], body).with_attr("global_symbol", "f"), None, check_bounds)
    source, result = tvm.nd.empty((8,), "float32x4"), np.zeros(4, "float32")
    source.copyfrom(np.arange(32, dtype="float32").reshape(8, 4))
    if check_bounds and not fine:
        with refuses("call.index_out_of_range", error=tvm.TVMError):
            run(source, result, place)
    else:
        run(source, result, place)
        assert result.tolist() == [place * 4, place * 4 + 1, place * 4 + 2, 0]


@pytest.mark.parametrize(("count", "row"), [(0, [-1, -1, -1, -1]), (2, [3, 2, -1, -1]), (4, [3, 2, 1, 0])])
def test_vectors_of_other_lanes_than_the_result_are_read_if_some_lane_takes_it(count: int, row: list[int]) -> None:
    """The upper half of eight lanes is chosen lane by lane: of none, no place is looked at, wherever it is."""
    A, I, B = (
        tir.decl_buffer((8,), dtype, name) for dtype, name in (("float32", "A"), ("int32", "I"), ("float32", "B"))
    )
    n, all_lanes = tir.Var("n", "int32"), A.vload([I.vload([tir.Ramp(0, 1, 8)])])
    half = tir.Call("float32x4", "tir.vectorhigh", [all_lanes])
    chosen = tir.Select(below(n, 4), half, tir.Broadcast(tir.const(-1.0, "float32"), 4))
    func = tir.PrimFunc([A, I, B, n], tir.BufferStore(B, chosen, [tir.Ramp(0, 1, 4)])).with_attr("global_symbol", "f")
    places = np.arange(8)[::-1] if count else np.full(8, 1 << 28)
    result = np.zeros(8, "float32")
    codegen.compile_module(func)(np.arange(8, dtype="float32"), places.astype("int32"), result, count)
    assert result.tolist() == [*row, 0, 0, 0, 0]
