"""transform_layout with a padding value: where the padding is written, and what it holds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import tir
from tvmagic.ir import PrimFunc, assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError, Trace


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


def groups(i: Any) -> list[Any]:
    return [i // 4, i % 4]


COPY = """
def f(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi]
"""
SUM = """
def f(A: T.Buffer((14, 32), "int32"), B: T.Buffer((14,), "int32")):
    for i, k in T.grid(14, 32):
        with T.block("block"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
"""
TWO = """
def f(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi]
            C[vi] = 0
"""
POINT = """
def f(A: T.Buffer((14,), "int32")):
    with T.block("block"):
        T.reads()
        T.writes(A[0])
        A[0] = 7
"""
SPLIT = """
def f(A: T.Buffer((14, 10), "int32"), B: T.Buffer((14, 10), "int32")):
    for i0, j, i1 in T.grid(7, 10, 2):
        with T.block("block"):
            vi = T.axis.spatial(14, i0 * 2 + i1)
            vj = T.axis.spatial(10, j)
            B[vi, vj] = A[vi, vj] + 1
"""
UPDATE = COPY.replace("A[vi]\n", "B[vi] + A[vi]\n")
AFTER = {
    "in the writer": (
        COPY,
        ("write", 0),
        0,
        """
def f(A: T.Buffer((14,), "int32"), B: T.Buffer((4, 4), "int32")):
    for axis0, axis1 in T.grid(4, 4):
        with T.block("block"):
            v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
            B[v_axis0, v_axis1] = T.if_then_else(v_axis0 == 3 and 2 <= v_axis1, 0, A[v_axis0 * 4 + v_axis1])
""",
    ),
    "in a reduction": (
        SUM,
        ("write", 0),
        0,
        """
def f(A: T.Buffer((14, 32), "int32"), B: T.Buffer((4, 4), "int32")):
    for axis0, axis1, k in T.grid(4, 4, 32):
        with T.block("block"):
            v_axis0, v_axis1, vk = T.axis.remap("SSR", [axis0, axis1, k])
            T.reads(A[v_axis0 * 4 + v_axis1, vk])
            T.writes(B[v_axis0, v_axis1])
            with T.init():
                B[v_axis0, v_axis1] = T.if_then_else(v_axis0 == 3 and 2 <= v_axis1, 0, 0)
            B[v_axis0, v_axis1] = T.if_then_else(
                v_axis0 == 3 and 2 <= v_axis1, 0, B[v_axis0, v_axis1] + A[v_axis0 * 4 + v_axis1, vk]
            )
""",
    ),
    "after a writer of two buffers": (
        TWO,
        ("write", 0),
        5,
        """
def f(A: T.Buffer((14,), "int32"), B: T.Buffer((4, 4), "int32"), C: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi // 4, vi % 4] = A[vi]
            C[vi] = 0
    for axis0, axis1 in T.grid(4, 4):
        with T.block("buffer_B_padding"):
            v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
            T.where(axis0 == 3 and 2 <= axis1)
            T.reads()
            T.writes(B[v_axis0, v_axis1])
            B[v_axis0, v_axis1] = 5
""",
    ),
    "stated of a parameter": (
        COPY,
        ("read", 0),
        42,
        """
def f(A: T.Buffer((4, 4), "int32"), B: T.Buffer((14,), "int32")):
    for axis0, axis1 in T.grid(4, 4):
        with T.block("buffer_A_assumptions"):
            v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
            T.reads(A[v_axis0, v_axis1])
            T.writes()
            T.assume(not (v_axis0 == 3 and 2 <= v_axis1) or A[v_axis0, v_axis1] == 42)
    for i in range(14):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi // 4, vi % 4]
""",
    ),
}


@pytest.mark.parametrize("name", AFTER)
def test_form(name: str) -> None:
    before, buffer, pad_value, after = AFTER[name]
    sch = tir.Schedule(parse(before), debug_mask="all")
    sch.transform_layout("block", buffer, groups, pad_value=pad_value)
    assert_structural_equal(sch.mod["main"], parse(after))
    again = tir.Schedule(parse(before))
    Trace.apply_json_to_schedule(sch.trace.as_json(), again)
    assert_structural_equal(again.mod["main"], parse(after))


PADS: dict[str, Any] = {"number": 3, "function": lambda *i: i[0] * 2 + i[-1]}


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("text", [COPY, SUM, TWO, POINT, SPLIT, UPDATE])
def test_results(text: str, pad: str) -> None:
    before = parse(text)
    sch = tir.Schedule(before, debug_mask="all")
    two_dims = text is SPLIT
    layout: Callable[..., Any] = (lambda i, j: [i // 4, j // 4, i % 4, j % 4]) if two_dims else groups
    sch.transform_layout("block", ("write", 0), layout, pad_value=PADS[pad])
    after = sch.mod["main"]
    rng = np.random.default_rng(0)
    given = [rng.integers(-9, 9, [int(s) for s in before.buffer_map[p].shape], "int32") for p in before.params]
    expected = [a.copy() for a in given]
    tvmagic.build(before)(*expected)
    at = next(i for i, p in enumerate(after.params) if len(after.buffer_map[p].shape) != given[i].ndim)
    shape = [int(s) for s in after.buffer_map[after.params[at]].shape]
    filled = np.full(shape, PADS["number"], "int32")
    if pad == "function":
        filled = np.fromfunction(PADS[pad], shape).astype("int32")
    packed = [a.copy() for a in given]
    packed[at], want = np.full(shape, -99, "int32"), filled
    for index in np.ndindex(*given[at].shape):
        new = layout(*index)
        packed[at][tuple(new)], want[tuple(new)] = given[at][index], expected[at][index]
    tvmagic.build(after)(*packed)
    for i, (have, wanted) in enumerate(zip(packed, expected)):
        np.testing.assert_array_equal(have, want if i == at else wanted)


def test_padding_repeats_elements() -> None:
    before = parse(TWO)
    sch = tir.Schedule(before)
    buffer = next(b for b in before.buffer_map.values() if b.name == "B")
    sch.transform_layout("block", buffer, groups, pad_value=lambda i, j: buffer[(4 * i + j) % 14])
    a, b, c = np.arange(14, dtype="int32"), np.zeros((4, 4), "int32"), np.zeros(14, "int32")
    tvmagic.build(sch.mod["main"])(a, b, c)
    np.testing.assert_array_equal(b.reshape(-1), np.arange(16) % 14)


@pytest.mark.parametrize(
    ("pad_value", "message"),
    [
        (None, "adds padding"),
        (lambda i: i, "2 dimensions"),
        (1.5, "holds int32"),
        ("other", "it may load `B` only"),
    ],
)
def test_refused(pad_value: Any, message: str) -> None:
    before = parse(TWO)
    sch = tir.Schedule(before, debug_mask="all")
    if pad_value == "other":
        other = next(b for b in before.buffer_map.values() if b.name == "A")

        def pad_value(i: Any, j: Any) -> Any:
            return other[i]

    mod, count = sch.mod, len(sch.trace.insts)
    with pytest.raises(tvmagic.TVMagicError, match=message):
        sch.transform_layout("block", ("write", 0), groups, pad_value=pad_value)
    assert sch.mod is mod and len(sch.trace.insts) <= count + 1


def test_a_layout_reaches_all_scopes() -> None:
    """A parameter that is used inside and outside an inner scope changes in both."""
    sch = tir.Schedule(parse(SPLIT.replace("i0, j, i1 in T.grid(7, 10, 2)", "i0, i1, j in T.grid(7, 2, 10)")))
    sch.blockize(sch.get_loops("block")[2])
    sch.transform_layout("block", ("write", 0), lambda i, j: [j, i])
    a, b = np.arange(140, dtype="int32").reshape(14, 10), np.zeros((10, 14), "int32")
    tvmagic.build(sch.mod["main"])(a, b)
    np.testing.assert_array_equal(b.T, a + 1)


def test_error_is_a_schedule_error() -> None:
    sch = tir.Schedule(parse(COPY))
    with pytest.raises(ScheduleError, match="`B`"):
        sch.transform_layout("block", ("write", 0), groups)


def test_padding_of_a_part_that_is_said_to_write_more_than_its_places() -> None:
    """What `loop_partition` leaves is a block whose region is its part of the buffer, whatever its store's indices."""
    sch = tir.Schedule(
        from_source("""
@T.prim_func
def main(B: T.Buffer((12, 8), "float32")):
    C = T.alloc_buffer((12, 8))
    for i, j in T.grid(12, 8):
        with T.block("C"):
            v, w = T.axis.remap("SS", [i, j])
            C[v, w] = T.float32(1)
    for i, j in T.grid(12, 8):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = C[v, w]
""")
    )
    sch.loop_partition(sch.get_loops("C")[0], [3, None])
    with pytest.raises(ScheduleError, match="`C_i0`.*`C`"):
        sch.pad_einsum(sch.get_block("C_i0"), [4, 3])
