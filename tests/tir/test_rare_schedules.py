"""What primitives decide where few schedules come to: by results, and by what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import parse

import tvmagic
from tvmagic import tir
from tvmagic.errors import ScheduleError, WrongIndexError
from tvmagic.eval.integers import evaluate
from tvmagic.script import from_source
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.schedule import _shown

COPY = """def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            v = T.axis.spatial(12, {place})
            B[v] = A[v] * T.float32(2)"""


def doubled(sch: tir.Schedule) -> None:
    """Run the schedule of a function that doubles twelve numbers."""
    array, out = np.arange(12, dtype="float32"), np.zeros(12, "float32")
    tvmagic.build(sch.mod, check_bounds=True)(array, out)
    np.testing.assert_array_equal(out, array * 2)


@pytest.mark.parametrize(
    ("place", "works"),
    [("i * 4 + j", True), ("11 - (i * 4 + j)", False), ("i * 4 + 3 - j", False), ("8 - i * 4 + j", False), ("j * 3 + i", False), ("i * 4 + j * 1 + 0", True)],
)  # fmt: skip
def test_the_inner_loop_as_a_block_runs_over_a_part_in_order(place: str, works: bool) -> None:
    sch = tir.Schedule(parse(COPY.format(place=place)))
    if works:
        block = sch.get(sch.blockize(sch.get_loops("B")[1]))
        side, first = block.writes[0].region[0], block.iter_vars[0].var
        assert [(evaluate(side.min, {first: n}), evaluate(side.extent, {first: n})) for n in range(3)] == [
            (0, 4),
            (4, 4),
            (8, 4),
        ]
        doubled(sch)
    else:
        with pytest.raises(ScheduleError, match="cannot be divided into a part outside and a part inside"):
            sch.blockize(sch.get_loops("B")[1])


def test_variables_of_a_schedule_are_forgotten_once() -> None:
    sch = tir.Schedule(parse(COPY.format(place="i * 4 + j")))
    block = sch.get_block("B")
    assert sch.get(block).name_hint == "B"
    sch.remove_rv(block)
    for again in (sch.remove_rv, sch.get):
        with pytest.raises(WrongIndexError, match="does not belong to this schedule"):
            again(block)


def test_blocks_and_loops_in_a_record() -> None:
    sch = tir.Schedule(parse(COPY.format(place="i * 4 + j")))
    block, loops = sch.get_sref(sch.get_block("B")), [sch.get_sref(loop) for loop in sch.get_loops("B")]
    assert [_shown(v) for v in (block, loops[0], loops, [block, 3], 4, None)] == ["B", "i", "[i, j]", "[B, 3]", 4, None]
    assert (_shown(StmtSRef.inline_mark()), _shown(StmtSRef.root_mark())) == ("inlined", "the root")


TWO = """from tvm.script import ir as I
from tvm.script import tir as T

@I.ir_module
class M:
    @T.prim_func
    def {first}(A: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("X"):
                v = T.axis.spatial(4, i)
                A[v] = 1

    @T.prim_func
    def {second}(A: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("Y"):
                v = T.axis.spatial(4, i)
                A[v] = 1
"""


@pytest.mark.parametrize(
    ("names", "chosen"), [(("main", "other"), "X"), (("other", "main"), "Y"), (("one", "two"), "")]
)
def test_of_several_functions_main_is_meant(names: tuple[str, str], chosen: str) -> None:
    mod = from_source(TWO.format(first=names[0], second=names[1]))
    sch = tir.Schedule(mod)
    for name in "XY":
        if name == chosen:
            assert sch.get(sch.get_block(name)).name_hint == name
        else:
            with pytest.raises(ScheduleError):
                sch.get_block(name)
    assert sch.get(sch.get_block("X", names[0])).name_hint == "X"
    sch.work_on(names[1])
    assert sch.get(sch.get_block("Y")).name_hint == "Y"


def test_the_only_function_is_meant_whatever_its_name() -> None:
    func = parse(COPY.format(place="i * 4 + j"))
    sch = tir.Schedule(tvmagic.IRModule({"other": func}))
    assert sch.get(sch.get_block("B")).name_hint == "B" and len(sch.get_loops("B")) == 2


THREADS = """def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    {memory}
    for i in range(4):
        for k in range({begin}, {end}):
            for j in range({extent}):
                with T.block("S"):
                    v = T.axis.spatial(16, {place})
                    {store}
        for t in range(16):
            with T.block("B"):
                w = T.axis.spatial(64, i * 16 + t)
                B[w] = A[w] + {read}"""
SHARED = {
    "memory": 'S = T.alloc_buffer((16,), scope="shared")',
    "begin": "0",
    "end": "1",
    "extent": "16",
    "place": "j",
    "store": "S[v] = A[v]",
    "read": "S[w % 16]",
}


@pytest.mark.parametrize(
    ("change", "works"),
    [
        ({}, True), ({"memory": 'S = T.alloc_buffer((16,), scope="local")'}, False), ({"memory": 'S = T.alloc_buffer((16,), scope="warp")'}, True),
        ({"memory": "S = T.alloc_buffer((16,))"}, True), ({"place": "(i + j) % 16"}, False),
        ({"begin": "i * 0", "end": "i * 0 + 1"}, True), ({"store": "S[v] = A[i * 16 + v]"}, False),
        ({"begin": "0", "end": "4", "place": "k * 4 + j", "extent": "4"}, True),
    ],
)  # fmt: skip
def test_threads_may_share_work_that_is_the_same_for_all(change: dict[str, str], works: bool) -> None:
    """Under a loop that is bound to them: if it depends on none of them, in memory that they share."""
    sch = tir.Schedule(parse(THREADS.format(**{**SHARED, **change})))
    outer, inner = sch.get_loops("B")[0], sch.get_loops("S")[-1]
    sch.bind(outer, "threadIdx.x")
    if works:
        sch.bind(inner, "threadIdx.x")
        assert sch.get(inner).thread_binding.thread_tag == "threadIdx.x"  # type: ignore[union-attr]
    else:
        with pytest.raises(ScheduleError, match="is bound to `threadIdx.x` already"):
            sch.bind(inner, "threadIdx.x")
    other = tir.Schedule(parse(THREADS.format(**{**SHARED, **change})))
    outer, inner = other.get_loops("B")[0], other.get_loops("S")[-1]
    other.bind(inner, "threadIdx.x")
    if works:
        other.bind(outer, "threadIdx.x")
    else:
        with pytest.raises(ScheduleError, match="is bound to `threadIdx.x` already"):
            other.bind(outer, "threadIdx.x")


READERS = """def main(A: T.Buffer((64,), "float32"), C: T.Buffer((16,), "float32"), D: T.Buffer((32,), "float32")):
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = A[v + 3] + A[v + 5]
    for i in range(32):
        with T.block("D"):
            v = T.axis.spatial(32, i)
            D[v] = A[63 - v] * T.float32(2)"""


@pytest.mark.parametrize("readers", [["C"], ["D"], ["C", "D"]])
@pytest.mark.parametrize("reader", ["C", "D"])
def test_a_copy_of_a_part_is_read_by_those_that_are_named(reader: str, readers: list[str]) -> None:
    """The others go on reading the array, where they did."""
    sch = tir.Schedule(parse(READERS))
    copy = sch.get(sch.cache_read(reader, 0, "local", readers))
    read = {name: [r.buffer.name for r in sch.get(sch.get_block(name)).reads] for name in "CD"}
    assert all(set(read[name]) == {copy.writes[0].buffer.name if name in readers else "A"} for name in "CD")
    a, c, d = np.arange(64, dtype="float32"), np.zeros(16, "float32"), np.zeros(32, "float32")
    tvmagic.build(sch.mod, check_bounds=True)(a, c, d)
    np.testing.assert_array_equal(c, a[3:19] + a[5:21])
    np.testing.assert_array_equal(d, a[:31:-1] * 2)
