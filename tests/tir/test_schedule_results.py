"""Calls that look harmless and would change what a function computes: refused, or done so that it stays."""

from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir import Schedule


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


def schedule(text: str) -> Schedule:
    return Schedule(parse(text), debug_mask="all")


def check_result(text: str, sch: Schedule) -> None:
    """Run the function and its schedule on the same arrays, each access checked."""
    before = parse(text)
    rng = np.random.default_rng(0)
    shapes = [[int(s) for s in before.buffer_map[p].shape] for p in before.params]
    given = [rng.integers(-4, 5, shape).astype("float32") for shape in shapes]
    expected, got = [a.copy() for a in given], [a.copy() for a in given]
    tvmagic.build(before, check_bounds=True)(*expected)
    tvmagic.build(sch.mod["main"], check_bounds=True)(*got)
    for want, have in zip(expected, got):
        np.testing.assert_allclose(have, want, 1e-5, 1e-5)


def loops(sch: Schedule, block: str) -> list[Any]:
    return sch.get_loops(sch.get_block(block))


def pools(size: int, count: int) -> tuple[str, list[str]]:
    """A cascade of `count` max_pools with windows of 3 x 3; the names of its buffers."""
    names = ["A", *[f"P{n}" for n in range(1, count)], "C"]
    sides = [size - 2 * n for n in range(count + 1)]
    text = f'def f(A: T.Buffer(({size}, {size}), "float32"), C: T.Buffer(({sides[-1]}, {sides[-1]}), "float32")):\n'
    for name, side in zip(names[1:-1], sides[1:]):
        text += f'    {name} = T.alloc_buffer(({side}, {side}), "float32")\n'
    for source, name, side in zip(names, names[1:], sides[1:]):
        text += f"""
    for i, j, di, dj in T.grid({side}, {side}, 3, 3):
        with T.block("{name}"):
            vi, vj, vdi, vdj = T.axis.remap("SSRR", [i, j, di, dj])
            with T.init():
                {name}[vi, vj] = T.min_value("float32")
            {name}[vi, vj] = T.max({name}[vi, vj], {source}[vi + vdi, vj + vdj])
"""
    return text, names


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("tile", [(1, 10), (2, 5), (5, 5), (10, 2)], ids=str)
def test_a_cascade_of_pools_carries_what_is_in_its_rings(count: int, tile: tuple[int, int]) -> None:
    """Each iteration computes new elements only; the others are in buffers that outlive the iteration."""
    text, names = pools(10 + 2 * count, count)
    sch = schedule(text)
    i, j, *window = loops(sch, "C")
    outer_i, inner_i = sch.split(i, [None, tile[0]])
    outer_j, inner_j = sch.split(j, [None, tile[1]])
    sch.reorder(outer_i, outer_j, inner_i, inner_j, *window)
    for name in reversed(names[1:-1]):
        sch.compute_at(sch.get_block(name), outer_i if tile[1] == 10 else outer_j)
    for name in names[1:-1]:
        sch.rolling_buffer(sch.get_block(name), 0)
    assert sch.mod.script().count("T.axis.opaque") >= count
    passes = tvmagic.tir.transform
    lowered = passes.PlanAndUpdateBufferAllocationLocation()(passes.LowerInitBlock()(sch.mod)).script()
    assert lowered.rindex("alloc_buffer") < lowered.index("i_0" if tile[1] == 10 else "j_0")
    check_result(text, sch)
