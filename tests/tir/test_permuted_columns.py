"""Permuted layouts: where each column of a row goes, which buffers have one and which blocks ask for it."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from tvmagic.errors import TVMagicError
from tvmagic.ir import Evaluate, IntImm, PrimFunc, StringImm, Var, decl_buffer
from tvmagic.tir.analysis.race_search import evaluate
from tvmagic.tir.transform.threads.permuted_layout import _asked_for, _Injector, _width

N = Var("n", "int32")


@pytest.mark.parametrize(("width", "alike"), [(64, 1), (128, 1), (32, 2), (96, 2)])
def test_neighbouring_rows_have_a_column_in_different_banks(width: int, alike: int) -> None:
    """Eight neighbours stay together; rows of 32 elements come in pairs that are exchanged alike, as two of them go around the banks."""
    row, column = Var("row", "int32"), Var("column", "int32")
    place = _Injector(PrimFunc([], Evaluate(0)))._column(row, column, width)
    places = [[int(evaluate(place, {row: np.int64(r), column: np.int64(c)})) for c in range(width)] for r in range(16)]
    for number, columns in enumerate(places):
        assert (
            sorted(columns) == list(range(width)) and columns == places[number % 8] == places[number - number % alike]
        )
        assert all(columns[c] % 8 == c % 8 and columns[c] // 8 == columns[c - c % 8] // 8 for c in range(width))
    assert len({columns[0] for columns in places}) == 8 // alike and places[0] == list(range(width))


@pytest.mark.parametrize(
    ("shape", "width"),
    [((8, 64), 64), ((7, 64), 64), ((N, 64), 64), ((8, 128), 128), ((8, 32), 32), ((3, 2, 32), 32), ((8, 96), 96), ((7, 32), None), ((7, 96), None), ((N, 32), None), ((0, 32), None), ((8, 48), None), ((8, N), None), ((8, 0), None), ((64,), None)],
)  # fmt: skip
def test_buffers_that_can_be_permuted(shape: tuple[Any, ...], width: int | None) -> None:
    buffer = decl_buffer(shape, "float16", "S")
    if width is not None:
        assert _width(buffer) == width
    else:
        with pytest.raises(TVMagicError, match=r"the layout of `S`, of shape \[.*\], cannot be permuted"):
            _width(buffer)


@pytest.mark.parametrize(
    ("value", "asked"),
    [(None, False), (0, False), (False, False), ("", False), (IntImm("int32", 0), False), (StringImm(""), False), (1, True), (True, True), ("s2l", True), (IntImm("int32", 1), True), (StringImm("g2s"), True)],
)  # fmt: skip
def test_blocks_that_ask_for_it(value: Any, asked: bool) -> None:
    block: Any = types.SimpleNamespace(annotations={} if value is None else {"permuted_layout": value})
    assert _asked_for(block) is asked
