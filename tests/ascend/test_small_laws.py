"""Small functions of scheduling and tiling, each by the law that it keeps."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from ascend_graphs import softmax

from tvmagic import ascend
from tvmagic.ascend import AscGraph, Machine, Npu, Size, inplace, ops
from tvmagic.ascend.cost import CostModel, _Call, number
from tvmagic.ascend.cost import _follows as follows
from tvmagic.ascend.kernel_calls import CTYPES, c_size
from tvmagic.ascend.npu import _whole as whole
from tvmagic.ascend.padding import row_strides
from tvmagic.ascend.partition import Template, partition, templates_of
from tvmagic.ascend.pipeline import pipeline
from tvmagic.ascend.queues import MOST_QUEUES
from tvmagic.ascend.queues import _too_many as too_many
from tvmagic.ascend.sizes import parse_size
from tvmagic.ascend.tiling import _cores as cores
from tvmagic.ascend.tiling import _largest as largest


def test_the_largest_size_that_fits() -> None:
    """For all sizes up to some number, and all limits; 1 if none does."""
    for high in range(1, 40):
        for limit in range(45):
            assert largest(high, lambda size, limit=limit: size <= limit) == max(1, min(high, limit))


def test_cores_that_have_something_to_do() -> None:
    """If each takes as many tiles as the busiest."""
    for tiles in range(1, 60):
        for there in range(1, 20):
            each = -(-tiles // there)
            assert cores(tiles, there) == sum(1 for core in range(there) if core * each < tiles)


@pytest.mark.parametrize(
    ("size", "block", "found"), [(0, 32, 0), (1, 32, 32), (32, 32, 32), (33, 32, 64), (31.5, 32, 32), (7, 1, 7)]
)
def test_whole_blocks(size: float, block: int, found: int) -> None:
    assert whole(size, block) == found


def most_at_once(lives: list[tuple[int, int]]) -> int:
    return max((sum(first <= now <= last for first, last in lives) for now in range(60)), default=0)


@pytest.mark.parametrize("again", [False, True])
def test_no_more_tensors_wait_than_there_are_queues(again: bool) -> None:
    """A life that is cut ends where it begins, or (`again`) begins only where it ends; nothing is cut without need."""
    rng = random.Random(2)
    for _ in range(300):
        starts = rng.sample(range(50), rng.randint(1, 12))
        lives = [(start, start + rng.randint(1, 20)) for start in sorted(starts)]
        cut = too_many(lives, again)
        if most_at_once(lives) <= MOST_QUEUES:
            assert not cut
        left = [(last, last) if again else (first, first) for n, (first, last) in enumerate(lives) if n in cut]
        kept = [life for n, life in enumerate(lives) if n not in cut]
        assert most_at_once(kept) <= MOST_QUEUES and len(left) == len(cut)


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("times", [(3.0, 2.0, 1.0), (1.0, 5.0, 1.0), (2.0, 0.0, 4.0), (0.0, 1.0, 0.0)])
def test_what_a_core_does_when(times: tuple[float, float, float], buffers: int) -> None:
    """Each unit does one tile after the other; a tile goes from unit to unit, and into a queue that has a free buffer."""
    stages = pipeline(times, 7, buffers)
    by_unit = [[s for s in stages if s.unit == unit] for unit in range(3)]
    assert [[s.tile for s in unit] for unit in by_unit] == [list(range(7))] * 3
    for unit, time in zip(by_unit, times):
        assert all(s.end - s.start == time for s in unit) and all(a.end <= b.start for a, b in pairwise(unit))
    came, computed, went = by_unit
    for tile in range(7):
        assert came[tile].end <= computed[tile].start and computed[tile].end <= went[tile].start
        if tile >= buffers:
            assert (
                came[tile].start >= (computed if times[1] else went)[tile - buffers].end
                and computed[tile].start >= went[tile - buffers].end
            )
        # nothing waits without a reason
        reasons = [0.0, *(s.end for s in (*came[:tile], *computed[: max(0, tile)], *went[: max(0, tile)]))]
        assert came[tile].start in reasons and (
            computed[tile].start in reasons or computed[tile].start == came[tile].end
        )
    assert pipeline(times, 0, 2) == []


@pytest.mark.parametrize(
    ("size", "text"),
    [("s0", "t->s0"), ("(2 * s0)", "2 * t->s0"), ("z0t_size", "t->graph0_z0t_size"), ("Ceiling((s0 / (z0t_size)))", "Ceiling((t->s0 / (t->graph0_z0t_size)))"), ("7", "7"), ("Max(s0, 3)", "Max(t->s0, 3)"), ("(s0 + s1)", "t->s0 + t->s1"),
     ("(2 * s0) * (3 + s1)", "(6 * t->s0) + (2 * t->s0 * t->s1)")],
)  # fmt: skip
def test_sizes_in_a_kernel(size: str, text: str) -> None:
    found = c_size(parse_size(size), "graph0_")
    assert found.replace(" ", "").strip("()") == text.replace(" ", "").strip("()")
    assert set(CTYPES.values()) >= {"half", "float", "bfloat16_t", "uint8_t"} and CTYPES["float16"] == "half"


def test_sizes_as_functions() -> None:
    size = parse_size("Ceiling(s0 / 3) * 2 + s0 / 4")
    assert number(size)({"s0": 10}) == 10.5 and number(size) is number(parse_size("2 * Ceiling(s0 / 3) + s0 / 4"))
    assert number(Size.of(0))({}) == 0


@pytest.mark.parametrize(
    ("row", "following", "rows", "run", "goes_on"),
    [(16, 160, 10, 16, True), (20, 200, 10, 16, True), (21, 200, 10, 16, False), (16, 200, 10, 16, True), (16, 201, 10, 16, False), (100, 16, 1, 16, True), (100, 20, 1, 16, True), (100, 21, 1, 16, False), (None, None, 10, 16, True),
     (16, None, 10, 16, True), (None, 16, 1, 16, True)],
)  # fmt: skip
def test_what_goes_on_in_memory(row: int | None, following: int | None, rows: int, run: int, goes_on: bool) -> None:
    """Up to a quarter more than what is moved is still behind it; of a gather nothing is."""
    steps: Any = tuple(None if step is None else (lambda values, step=step: step) for step in (row, following))
    call = type("Call", (), {"steps": steps, "kind": "load"})
    assert follows(call, {}, rows, run) is goes_on  # type: ignore[arg-type]
    call.kind = "gather"
    assert not follows(call, {}, rows, run)  # type: ignore[arg-type]


def moved(row: int | None, following: int | None, **changes: Any) -> _Call:
    """A load of rows of 4-byte elements out of much memory; the next row and the next call are so many elements further."""
    steps: Any = tuple([None if step is None else (lambda values, s=step: s) for step in (row, following)])
    made = _Call("load", 1, 1, (), (), (), 4, True, False, False, lambda values: 1 << 30, None, steps)
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("rows", "following", "part"),
    [
        (1, 2000, 1),
        (2, 2000, 1),
        (2, 19, 1 / 4),
        (2, 20, 1 / 4),
        (2, 21, 1),
        (3, 20, 1 / 4),
        (2, None, 1),
        (1, 2001, 1),
    ],
)
def test_what_jumps_cost(rows: int, following: int | None, part: float) -> None:
    """A jump costs a quarter where the next call goes on along all rows of this one."""
    model: Any = SimpleNamespace(machine=Machine(jump=1000.0))
    free: Any = SimpleNamespace(machine=Machine(jump=0.0))
    call = moved(100, following)
    more = CostModel._way(model, call, {}, 5, rows, 16) - CostModel._way(free, call, {}, 5, rows, 16)
    assert more == pytest.approx(5 * rows * 1000 * part)
    gather = moved(100, 20, kind="gather")
    more = CostModel._way(model, gather, {}, 5, 1, 16) - CostModel._way(free, gather, {}, 5, 1, 16)
    assert more == pytest.approx(5 * 1000)


@pytest.mark.parametrize(
    ("outer", "run", "weight", "width", "straight"),
    [((1,), (100,), 1, 64, True), ((1,), (101,), 1, 64, False), ((4,), (25,), 1, 64, True), ((4,), (26,), 1, 64, False), ((), (75,), 2, 64, True),
     ((), (76,), 2, 64, False), ((), (1600,), 1, 4, True), ((), (1616,), 1, 4, False), ((), (300,), -1, 64, True)],
)  # fmt: skip
def test_calls_that_become_straight_code(outer: Any, run: Any, weight: float, width: int, straight: bool) -> None:
    """300 additions and operands of vectors of 64 bytes; what is left out does not count, tiles of two lengths never are."""
    numbers = [tuple([lambda values, n=n: n for n in sizes]) for sizes in (outer, run)]
    call = moved(None, None, outer=numbers[0], run=numbers[1], weight=weight, bytes=width)
    for tiles, whole_tiles in (([], True), ([("t", lambda values: 12)], True), ([("t", lambda values: 13)], False)):
        model: Any = SimpleNamespace(tiled=tiles, calls=[call])
        assert CostModel._unrolled(model, {"t": 4}) == (straight and whole_tiles)
        model.calls = [replace(call, left_out=True)]
        assert CostModel._unrolled(model, {"t": 4}) == whole_tiles


@pytest.mark.parametrize(
    ("lengths", "is_long"),
    [([], True), ([127], False), ([128], True), ([128, 4], False), ([4, 128], True), (["s"], True)],
)
def test_rows_that_are_worth_a_loop(lengths: list[int | str], is_long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    node: Any = SimpleNamespace(y=None)
    axes = [SimpleNamespace(size=parse_size(str(n))) for n in lengths]
    monkeypatch.setattr(inplace, "held_axes", lambda node, y: axes)
    assert inplace._long_rows(node) == is_long


def test_sizes_and_strides_of_axes_that_a_tensor_does_not_have() -> None:
    made = graph(4, 6, 8)
    y = made.add_node("Abs", [ops.Data(made, "x")]).y
    y.axis, y.repeats, y.strides = made.axes[:2], [Size.of(4)], [Size.of(6)]
    assert [str(y.repeat(axis)) for axis in made.axes] == ["4", "1", "1"]
    assert [str(y.stride(axis)) for axis in made.axes] == ["6", "0", "0"]


def test_outputs_by_their_names() -> None:
    """The first name is that of the output that is there, unless that has a name or axes; a type of one output takes none."""
    made = graph(4)
    parts = made.add_node("Split", [ops.Data(made, "x")])
    first = parts.y
    assert parts.output("a") is first and first.name == "a" and parts.output("a") is first
    second = parts.output("b")
    assert second is not first and parts.outputs == [first, second] and parts.output("b") is second
    known = made.add_node("Split", [ops.Data(made, "z")])
    known.y.axis = made.axes[:1]
    assert (
        known.output("a") is not known.y
        and [y.name for y in known.outputs] == ["y", "a"]
        and known.output("y") is known.y
    )
    alone = made.add_node("Abs", [ops.Data(made, "w")])
    assert alone.output("y") is alone.y
    with pytest.raises(ascend.AscendError, match="has no output `a`"):
        alone.output("a")


def graph(*sizes: int | str) -> AscGraph:
    made = AscGraph("g")
    for n, size in enumerate(sizes):
        made.create_axis(f"z{n}", made.create_size(size) if isinstance(size, str) else size)
    return made


@pytest.mark.parametrize(
    ("lengths", "dtype", "padded", "dense"),
    [([4, 6], "float32", ["8", "1"], ["6", "1"]), ([4, 8], "float32", ["8", "1"], ["8", "1"]), ([4, 6], "float16", ["16", "1"], ["6", "1"]), ([4, 6], "int8", ["32", "1"], ["6", "1"]), ([1, 6], "float32", ["0", "1"], ["0", "1"]),
     ([3, 4, 5], "float64", ["32", "8", "1"], ["20", "5", "1"]), ([3, 4, 1], "float32", ["8", "1", "0"], ["4", "1", "0"]), ([4, "s"], "float32", ["Align(s, 8)", "1"], ["s", "1"])],
)  # fmt: skip
def test_strides_of_padded_rows(lengths: list[int | str], dtype: str, padded: list[str], dense: list[str]) -> None:
    """Rows begin with whole blocks of 32 bytes, if there are several."""
    made = graph(*lengths)
    y = ops.Load(ops.Data(made, "x", dtype=dtype))
    y.vectorized_axis = list(y.axis)
    assert [str(s) for s in row_strides(y, padded=True)] == padded and [str(s) for s in row_strides(y)] == dense


def test_templates() -> None:
    """Loops over reduced tiles only if something is reduced and no place of a greatest element is wanted."""

    def names(make: Any, *sizes: int) -> list[str]:
        made = graph(*sizes)
        x = ops.Load(ops.Data(made, "x"))
        ops.Output(ops.Store(make(made, x)), "y")
        return [t.name for t in templates_of(made)]

    assert names(lambda g, x: ops.Abs(x), 4, 6) == ["row_local"]
    assert names(lambda g, x: ops.Sum(x, "z1"), 4, 6) == ["row_local", "loop_local"]
    assert names(lambda g, x: ops.ArgMax(x, "z1"), 4, 6) == ["row_local"]

    def parts(g: AscGraph, place: int, n: int) -> list[Any]:
        sizes = [s if i != place else n for i, s in enumerate((4, 6))]
        return [ops.Load(ops.Data(g, f"p{k}", sizes=sizes)) for k in range(2)]

    assert names(lambda g, x: ops.Concat(parts(g, 1, 3), "z1"), 4, 6) == ["row_local", "row_global"]
    assert names(lambda g, x: ops.Concat(parts(g, 0, 2), "z0"), 4, 6) == ["row_global"]


@pytest.mark.parametrize(
    ("order", "steps"),
    [
        (["single", "other"], [["single", "other"]]), (["joined"], [["joined"], ["joined"]]), (["joined", "single"], [["joined"], ["joined"], ["single"]]),
        (["single", "joined"], [["single"], ["joined"], ["joined"]]),
    ],
)  # fmt: skip
def test_each_part_of_a_concat_is_a_step_of_its_own(order: list[str], steps: list[list[str]]) -> None:
    """If it goes straight to the output; other results of the same shape are computed together."""
    made = graph(5, 8)
    x = ops.Load(ops.Data(made, "x", sizes=[5, 4]))
    results = {
        "single": lambda: ops.Exp(x),
        "other": lambda: ops.Sqrt(x),
        "joined": lambda: ops.Concat([ops.Abs(x), ops.Neg(x)], "z1"),
    }
    for name in order:
        ops.Output(ops.Store(results[name]()), name)
    parts = partition(made, Template("row", "global"))
    assert [[n.name for n in step.of_type("Output")] for step in parts] == steps
    assert all(len(step.of_type("Store")) == len(step.of_type("Output")) for step in parts)


@pytest.mark.parametrize("columns", [64, 100])
def test_tiles_are_as_the_machine_has_cores(columns: int) -> None:
    """Of those near the best the tiling that keeps the most cores busy, whatever their number."""
    for count in (1, 3, 48):
        tiling = ascend.auto_tiling(ascend.auto_schedule(softmax(4800, columns))[:1], machine=Npu("n", count, 10**5))
        assert tiling.choices[0].cost.cores == count
        sizes = tiling.choices[0].sizes
        assert math.ceil(math.ceil(4800 / sizes["z0t_size"]) / sizes["z0Tb_size"]) == count


def test_one_tensor_is_joined_to_itself_alone() -> None:
    graph = AscGraph("one")
    graph.create_axis("z0", 6)
    along = graph.create_axis("z1", 9)
    joined = ops.Concat([ops.Load(ops.Data(graph, "x"))], along)
    assert [str(n) for n in joined.repeats] == ["6", "9"] and [str(n) for n in joined.strides] == ["9", "1"]


@pytest.mark.parametrize(("bytes_passed", "near"), [(2047.0, True), (2048.0, True), (2049.0, False)])
def test_what_is_passed_on_stays_in_registers_up_to_their_size(bytes_passed: float, near: bool) -> None:
    machine = SimpleNamespace(local_memory=1 << 20, l1=1 << 15, farther=3.0, farthest=9.0)
    model: Any = SimpleNamespace(passing=None, touched=None, machine=machine, _unrolled=lambda values: True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tvmagic.ascend.cost._bytes", lambda tensors, values: bytes_passed)
        assert (CostModel._place(model, {}) == 0.0) is near
