"""Masks of loads and stores: of scalars, and of buffers whose elements are vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic as tvm
from tvmagic import tir
from tvmagic.codegen.lane_masks import LaneMasks

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


def test_a_mask_of_parts_at_scattered_places_is_refused() -> None:
    scattered = program(
        lambda C, B, n: tir.BufferStore(B, tir.BufferLoad(C, [tir.Ramp(0, 2, 2)], below(n, 8)), [tir.Ramp(2, 1, 2)])
    )
    with pytest.raises(tvm.TVMError, match="with a mask at scattered places"):
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
        [B], tir.Allocate(A.data, "float32", [16], tir.const(True), tir.AttrStmt(A.data, "some_fact", 1, B.vstore(
            [tir.Ramp(0, 1, 4)], A.vload([tir.Ramp(0, 1, 4)]))))
    )  # fmt: skip
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
        (4, 0, 2, ["M1", "false"]), (4, 2, 1, ["(M0|M3)"]), (4, 3, 2, ["false", "M2"]), (4, 5, 1, ["false"]), (4, 0, 5, ["M1", "false", "(M0|M3)", "false", "M2"]),
        (2, 0, 2, "all 2"), (8, 0, 2, "all 2"), (1, 2, 1, "all 1"), (4, 0, -2, "all -2"), (-4, 0, 2, "all 2"),
    ],
)  # fmt: skip
def test_lanes_of_which_vectors_are_picked(mask: int, first: int, lanes: int, picked: Any) -> None:
    shuffle = tir.Shuffle([tir.Ramp(0, 1, 5)], [2, 0, 4, 2])
    assert _Masks(mask).mask_of_picked(shuffle, first, lanes) == picked


@pytest.mark.parametrize(
    ("mask", "lanes", "each", "elements"),
    [
        (4, 4, 1, "all 4"), (4, 2, 2, ["(M0|M1)", "(M2|M3)"]), (4, 1, 4, ["(((M0|M1)|M2)|M3)"]), (4, 2, 1, "all 2"),
        (4, 3, 2, "all 3"), (-8, -4, 2, "all -4"), (1, 2, 2, "all 2"),
    ],
)  # fmt: skip
def test_elements_of_which_some_lane_is_on(mask: int, lanes: int, each: int, elements: Any) -> None:
    assert _Masks(mask).mask_of_elements(lanes, each) == elements
