"""The part of a region that is inside its buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import ir, tir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import ScheduleError
from tvmagic.script import from_source
from tvmagic.tir.schedule.limits import clipped

I = ir.Var("i")
PLACES = ir.decl_buffer((8,), "uint8", "P")
SIGNED = ir.decl_buffer((8,), "int32", "S")


def side(low: Any, extent: Any) -> tuple[str, str]:
    """The first element and the number of those that stay of a range of a buffer of ten, for i from 0 to 7."""
    analyzer = Analyzer()
    analyzer.bind(I, ir.Range.from_min_extent(0, 8))
    buffer = ir.decl_buffer((10,), "float32", "A")
    (found,) = clipped(ir.BufferRegion(buffer, [ir.Range.from_min_extent(low, extent)]), analyzer).region
    return str(found.min), str(found.extent)


@pytest.mark.parametrize(
    ("low", "extent", "found"),
    [
        (I, 3, ("i", "3")),
        (I - 1, 3, ("T.max(i - 1, 0)", None)),
        (I + 1, 3, ("i + 1", None)),
        (I - 1, 12, ("T.max(i - 1, 0)", None)),
    ],
)
def test_what_is_outside_is_cut_off(low: Any, extent: int, found: tuple[str, str | None]) -> None:
    first, count = side(low, extent)
    assert first == found[0]
    if found[1] is not None:
        assert count == found[1]
    for value in range(8):
        inside = [
            x
            for x in range(int(eval(str(low), {"i": value})), int(eval(str(low), {"i": value})) + extent)
            if 0 <= x < 10
        ]
        names = {"i": value, "T": type("T", (), {"max": max, "min": min})}
        assert (eval(first, names), eval(count, names)) == (inside[0], len(inside))


@pytest.mark.parametrize("load", [ir.Cast("int32", ir.BufferLoad(PLACES, [I])), ir.BufferLoad(SIGNED, [I])])
def test_of_what_loads_say_all_is_taken(load: Any) -> None:
    """Also if the load is known not to begin before the buffer."""
    assert side(load, 1) == ("0", "10")
    assert side(ir.FloorMod(load, ir.IntImm("int32", 4)), 1) != ("0", "10"), "known to be inside"


@pytest.mark.parametrize(("first", "end", "fills"), [(3, 4, True), (3, 5, False), (2, 4, False)])
def test_one_element_fills_a_region_of_one(first: int, end: int, fills: bool) -> None:
    """A copy of what a block declares to write would overwrite the element that it leaves."""
    sch = tir.Schedule(
        from_source(f"""
from tvm.script import tir as T

@T.prim_func(private=True)
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    with T.block("B"):
        v = T.axis.spatial(1, 0)
        T.reads(A[0])
        T.writes(B[{first}:{end}])
        B[3] = A[0]
""")
    )
    if not fills:
        with pytest.raises(ScheduleError, match="`B`.*`B`"):
            sch.cache_write("B", 0, "global")
        return
    sch.cache_write("B", 0, "global")
    b = np.arange(8, dtype="float32")
    tvmagic.build(sch.mod)(np.full(8, 9, "float32"), b)
    assert b.tolist() == [0, 1, 2, 9, 4, 5, 6, 7]
