"""How a program in CINN's form is lowered: vectors, unrolled loops, what does nothing here; the notation of passes."""

from __future__ import annotations

import numpy as np
import pytest
from cinn_programs import run
from step_programs import check, program

import tvmagic
from tvmagic import cinn, passes, te
from tvmagic.cinn import IRSchedule
from tvmagic.cinn.cinn_form import is_cinn_form, to_tensorir
from tvmagic.cinn.to_tir import lower_schedule_blocks
from tvmagic.ir import Allocate, For, ForKind, IRModule, post_order_visit
from tvmagic.ir.query import is_one, nodes_of
from tvmagic.notebook.view import make_view
from tvmagic.operators import operator
from tvmagic.script import from_cinn


def loops(mod: IRModule) -> list[tuple[str, str, int]]:
    """The loops of a module: name, kind, extent."""
    found: list[tuple[str, str, int]] = []

    def look(node: object) -> None:
        if isinstance(node, For):
            found.append((node.loop_var.name, node.kind.name.lower(), int(node.extent)))

    post_order_visit(mod["main"].body, look)
    return found


def add_one(size: int) -> IRSchedule:
    a = te.placeholder((size,), name="A")
    return IRSchedule(cinn.lower([a, te.compute((size,), lambda i: a[i] + 1.0, name="B")]))


@pytest.mark.parametrize(
    ("size", "factor", "expected"),
    [
        (32, 16, [("i_lane", "vectorized", 16), ("i", "serial", 2)]),
        (16, 16, [("i", "vectorized", 16)]),
        (18, 8, [("i_lane", "vectorized", 8), ("i", "serial", 2), ("i_rest", "serial", 2)]),
        (10, 8, [("i_lane", "vectorized", 8), ("i_rest", "serial", 2)]),
        (5, 8, [("i", "serial", 5)]),
        (8, 1, [("i", "serial", 8)]),
    ],
)
def test_vectors_of_some_elements(size: int, factor: int, expected: list[tuple[str, str, int]]) -> None:
    schedule = add_one(size)
    schedule.vectorize(schedule.get_loops("B")[0], factor)
    assert f"vectorize[{factor}] for (i, 0, {size})" in schedule.text()
    assert loops(lower_schedule_blocks()(schedule.mod)) == expected
    a = np.arange(size, dtype="float32")
    np.testing.assert_array_equal(run(schedule.func, [a], (size,))[0], a + 1)


@pytest.mark.parametrize(("step", "unrolled"), [(0, 0), (8, 1), (128, 2)])
def test_what_is_unrolled_by_the_attribute_of_the_root(step: int, unrolled: int) -> None:
    schedule = program("row_max").schedule()
    schedule.split("B", 1, [-1, 4])
    schedule.annotate(schedule.get_root_block("B"), "auto_unroll_max_step", step)
    kinds = [kind for _, kind, _ in loops(lower_schedule_blocks()(schedule.mod))]
    assert kinds.count("unrolled") >= unrolled and (unrolled or "unrolled" not in kinds)
    check("row_max", schedule)


def test_parallel_loops_in_one_another_and_barriers() -> None:
    schedule = program("chain").schedule()
    for place in (0, 1):
        schedule.parallel(schedule.get_loops("D")[place])
    schedule.sync_threads("B")
    lowered = lower_schedule_blocks()(schedule.mod)
    assert [kind for _, kind, _ in loops(lowered)].count("parallel") == 1
    assert "storage_sync" not in lowered.script() and not is_cinn_form(lowered)
    check("chain", schedule)


def test_a_tensor_that_iterations_hand_on_is_allocated_around_them_all() -> None:
    text = """serial for (i, 0, 8) { {
  ScheduleBlock(T0) { if ((i == 0)) { T[0] = 0.0f } }
  ScheduleBlock(T) { i0 = axis.bind(i) T[0] = (T[0] + A[i0]) }
  ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = T[0] }
} }"""
    (lowered,) = lower_schedule_blocks()(IRModule({"main": from_cinn(text)})).functions.values()
    (allocated,) = nodes_of(lowered.body, Allocate)
    assert is_one(allocated.condition) and nodes_of(allocated.body, For) and allocated.buffer_var.name == "T"


def test_the_step_is_in_the_record_and_what_is_no_cinn_has_none() -> None:
    schedule = add_one(8)
    for mod, named in ((schedule.mod, True), (IRModule({"main": to_tensorir(schedule.func)}), False)):
        with passes.recording() as record:
            tvmagic.lower(mod)
        assert ("cinn.LowerScheduleBlocks" in [s.name for s in record]) == named


def test_the_way_to_tensorir_and_back() -> None:
    for name in ("matmul", "two_sums", "row_max"):
        schedule = program(name).schedule()
        plain = to_tensorir(schedule.func)
        assert "T.init()" in plain.script() and "reduce_init" not in plain.script() and "cinn" not in plain.script()
        assert str(IRSchedule(plain)) == str(schedule)
        check(name, plain)


def test_passes_in_cinns_notation() -> None:
    from tvmagic.notebook.commands import passes as commands_passes

    op = operator("f", "A: float32[8, 4]\nB[i] += A[i, k]\nC[i] = exp(B[i])")
    view = commands_passes(op, notation="cinn").view
    texts = ["\n".join(view.text_lines(s.after)) for s in view.steps if s.after is not None]
    assert any("serial for (i, 0, 8)" in t and "function " in t for t in texts)


def test_steps_are_shown_as_schedule_blocks() -> None:
    schedule = program("matmul").schedule()
    with passes.recording() as record:
        schedule.split("B", 0, [-1, 4])
        schedule.compute_at("B", schedule.get_loops("C")[0])
    view = make_view(record)
    assert [s.name for s in view.steps if s.kind == "schedule"][-1].startswith("compute_at")
    lines = view.text_lines(view.steps[-1].after)
    assert any("ScheduleBlock(B__reduce_init)" in x for x in lines)
    assert any("serial for (ax0, 0, 24)" in x for x in lines)


def test_kinds_that_only_cinn_has_run_as_serial_loops() -> None:
    for kind in ("Default", "GPULane"):
        schedule = add_one(8)
        schedule.mutate_for_type(schedule.get_loops("B")[0], kind)
        assert ("default for (i" if kind == "Default" else "\n    for (i") in schedule.text()
        assert [k for _, k, _ in loops(lower_schedule_blocks()(schedule.mod))] == [ForKind.SERIAL.name.lower()]


@pytest.mark.parametrize(("extent", "kind"), [(50, "unrolled"), (51, "serial")])
def test_loops_of_at_most_50_iterations_are_unrolled(extent: int, kind: str) -> None:
    schedule = add_one(extent)
    schedule.annotate(schedule.get_root_block("B"), "auto_unroll_max_step", 128)
    assert loops(lower_schedule_blocks()(schedule.mod)) == [("i", kind, extent)]
