"""`IRSchedule`: each of its 36 methods by a call that is legal and one that is refused; traces; results in NumPy."""

from __future__ import annotations

import doctest
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cinn_programs import arrays, run
from random_steps import random_moves_of_tiles, random_schedule
from refusals import refuses
from step_programs import PROGRAMS, check, program

import tvmagic
from tvmagic import cinn, te
from tvmagic.cinn import IRSchedule
from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule
from tvmagic.script import cinn_text, from_cinn

S = IRSchedule
Call = Callable[[S], Any]


def loop(block: str, place: int) -> Callable[[S], Any]:
    return lambda s: s.get_loops(block)[place]


def names(schedule: S) -> list[str]:
    return [schedule.block_of(b).name_hint for b in schedule.get_all_blocks()]


# For each method: the program, a legal call, a refused one, and a part of what is said.
CALLS: dict[str, tuple[str, Call, Call, str]] = {
    "set_exprs": (
        "chain",
        lambda s: s.set_exprs(s.copy().get_module().get_exprs()),
        lambda s: s.set_exprs([]),
        "cinn.merge_functions.wrong_body_count",
    ),
    "get_module": (
        "chain",
        lambda s: s.get_module().get_exprs(),
        lambda s: s.set_exprs([s.root.body]),
        "cinn.merge_functions.body_not_a_root",
    ),
    "has_block": (
        "chain",
        lambda s: s.has_block("B") and not s.has_block("X"),
        lambda s: IRSchedule(str(s).replace("Block(C)", "Block(B)")).has_block("B"),
        "cinn.schedule.ambiguous_block",
    ),
    "merge_exprs": (
        "chain",
        lambda s: s.merge_exprs(),
        lambda s: twice().merge_exprs(),
        "cinn.merge_functions.repeated_tensor",
    ),
    "get_trace_desc": ("chain", lambda s: str(s.get_trace_desc()), lambda s: other(s), "cinn.schedule.unknown_block"),
    "get_loops": (
        "chain",
        lambda s: s.get_loops("B"),
        lambda s: s.get_loops(s.get_root_block("B")),
        "cinn.schedule.root_without_loops",
    ),
    "get_all_blocks": ("matmul", lambda s: s.get_all_blocks(), lambda s: s.get_loops(3), "cinn.schedule.not_a_block"),
    "get_block": (
        "chain",
        lambda s: s.get_block("B"),
        lambda s: s.get_block("BB"),
        "cinn.schedule.unknown_block",
    ),
    "get_child_blocks": (
        "chain",
        lambda s: s.get_child_blocks(loop("B", 0)(s)),
        lambda s: s.get_child_blocks(2),
        "cinn.schedule.not_a_block",
    ),
    "get_root_block": (
        "chain",
        lambda s: s.get_root_block("B"),
        lambda s: s.get_root_block("X"),
        "cinn.schedule.unknown_block",
    ),
    "split": (
        "chain",
        lambda s: s.split("B", 0, [-1, 5]),
        lambda s: s.split("B", 0, [2, 3]),
        "cinn.split.factors_too_small",
    ),
    "fuse": (
        "chain",
        lambda s: s.fuse("B", [0, 1]),
        lambda s: s.fuse([loop("B", 0)(s), loop("C", 1)(s)]),
        "cinn.fuse.not_only_statement",
    ),
    "reorder": (
        "matmul",
        lambda s: s.reorder("B", [2, 0]),
        lambda s: s.reorder([loop("B", 0)(s), loop("C", 1)(s)]),
        "cinn.reorder.not_nested",
    ),
    "compute_at": (
        "blur",
        lambda s: s.compute_at("B", loop("C", 0)(s)),
        lambda s: s.compute_at("C", loop("B", 0)(s)),
        "cinn.compute_at.output_block",
    ),
    "simple_compute_at": (
        "chain",
        lambda s: s.simple_compute_at("C", loop("D", 1)(s)),
        lambda s: s.simple_compute_at("B", (s.split("D", 0, [3, 4]), loop("D", 0)(s))[1]),
        "cinn.simple_compute_at.extents_differ",
    ),
    "reverse_compute_at": (
        "matmul",
        lambda s: s.reverse_compute_at("C", loop("B", 1)(s)),
        lambda s: s.reverse_compute_at("C", loop("B", 2)(s)),
        "cinn.reverse_compute_at.producer_outside",
    ),
    "cache_read": (
        "matmul",
        lambda s: s.cache_read("B", 1, "local"),
        lambda s: s.cache_read("B", 3, "local"),
        "cinn.cache_read.buffer_index_out_of_range",
    ),
    "cache_write": (
        "matmul",
        lambda s: s.cache_write("B", 0, "local"),
        lambda s: s.cache_write("B", 0, "near"),
        "cinn.schedule.unknown_memory",
    ),
    "sync_threads": (
        "chain",
        lambda s: s.sync_threads(loop("B", 0)(s)),
        lambda s: s.sync_threads(s.get_root_block("B")),
        "cinn.sync_threads.root",
    ),
    "set_buffer": (
        "chain",
        lambda s: s.set_buffer("B", "local"),
        lambda s: s.set_buffer("D", "local"),
        "cinn.set_buffer.argument",
    ),
    "get_device_api": (
        "chain",
        lambda s: s.get_device_api(),
        lambda s: s.mutate_for_type(loop("B", 0)(s), "Device"),
        "cinn.mutate_for_type.unknown_kind",
    ),
    "mutate_for_type": (
        "chain",
        lambda s: s.mutate_for_type(loop("B", 0)(s), "GPUThread", 1),
        lambda s: s.mutate_for_type(loop("B", 1)(s), "GPUBlock", 3),
        "cinn.mutate_for_type.wrong_axis",
    ),
    "parallel": (
        "matmul",
        lambda s: s.parallel(loop("B", 0)(s)),
        lambda s: s.parallel(loop("B", 2)(s)),
        "cinn.schedule.iterations_conflict",
    ),
    "unroll": (
        "chain",
        lambda s: s.unroll(loop("B", 1)(s)),
        lambda s: (s.unroll(loop("B", 0)(s)), s.unroll(loop("B", 0)(s))),
        "cinn.schedule.loop_not_serial",
    ),
    "vectorize": (
        "chain",
        lambda s: s.vectorize(loop("D", 1)(s), 4),
        lambda s: s.vectorize(loop("D", 1)(s), 0),
        "cinn.vectorize.wrong_factor",
    ),
    "bind": (
        "chain",
        lambda s: s.bind(loop("D", 0)(s), "blockIdx.x"),
        lambda s: s.bind(loop("D", 0)(s), "threadIdx.w"),
        "cinn.bind.unknown_thread",
    ),
    "compute_inline": (
        "chain",
        lambda s: s.compute_inline("B"),
        lambda s: s.compute_inline("D"),
        "cinn.compute_inline.refused",
    ),
    "reverse_compute_inline": (
        "matmul",
        lambda s: (s.cache_write("C", 0, "local"), s.reverse_compute_inline("C")),
        lambda s: s.reverse_compute_inline("B"),
        "cinn.compute_inline.refused",
    ),
    "copy_transform_and_loop_info": (
        "chain",
        lambda s: (s.split("B", 0, [3, 4]), s.copy_transform_and_loop_info("C", "B")),
        lambda s: s.copy_transform_and_loop_info("C", "C__x"),
        "cinn.schedule.unknown_block",
    ),
    "rfactor": (
        "matmul",
        lambda s: s.rfactor(loop("B", 2)(s), 0),
        lambda s: s.rfactor(loop("B", 1)(s), 0),
        "cinn.rfactor.loop_not_reduced",
    ),
    "annotate": (
        "chain",
        lambda s: s.annotate("B", "k", 1),
        lambda s: s.annotate("B", "k", [1]),
        "cinn.annotate.wrong_value",
    ),
    "unannotate": (
        "chain",
        lambda s: (s.annotate("B", "k", 1), s.unannotate("B", "k")),
        lambda s: s.unannotate("X", "k"),
        "cinn.schedule.unknown_block",
    ),
    "flatten_loops": (
        "chain",
        lambda s: s.flatten_loops(s.get_loops("D")),
        lambda s: s.flatten_loops([loop("D", 0)(s)]),
        "cinn.flatten_loops.other_loops",
    ),
    "sample_perfect_tile": (
        "chain",
        lambda s: s.split(loop("B", 0)(s), s.sample_perfect_tile(loop("B", 0)(s), 2, 16)),
        lambda s: s.sample_perfect_tile(loop("B", 0)(s), 1, 16),
        "cinn.sample_perfect_tile.too_few_factors",
    ),
    "sample_categorical": (
        "chain",
        lambda s: s.sample_categorical([4, 8], [0.5, 0.5]),
        lambda s: s.sample_categorical([4, 8], [0.5]),
        "sample_categorical.wrong_probabilities",
    ),
    "tag_post_schedule": (
        "chain",
        lambda s: s.tag_post_schedule(),
        lambda s: s.split("X", 0, [1]),
        "cinn.schedule.unknown_block",
    ),
}
NOT_TRACED = {
    "set_exprs",
    "get_module",
    "has_block",
    "get_device_api",
    "mutate_for_type",
    "copy_transform_and_loop_info",
}


def twice() -> S:
    func = program("chain").function
    return IRSchedule(IRModule({"f": func, "g": func}))


def other(s: S) -> S:
    """The steps of a schedule, on one of another program that has no block `D`."""
    s.get_block("D")
    found = program("two_sums").schedule()
    s.get_trace_desc().replay(found)
    return found


@pytest.mark.parametrize(
    ("factors", "index"),
    [
        ([1, 8], "((8 * i) + i_0)"),
        ([8, 1], "(i + i_0)"),
        ([1, -1], "((8 * i) + i_0)"),
        ([2, 4, 1], "((4 * i) + (i_0 + i_1))"),
    ],
)
def test_loops_of_a_split_that_run_once_are_bound_as_others(factors: list[int], index: str) -> None:
    text = "serial for (i, 0, 8) { ScheduleBlock(B) { i0 = axis.bind(i)\n B[i0] = A[i0] } }"
    schedule = IRSchedule(text)
    schedule.split("B", 0, factors)
    assert f"axis.bind({index})" in str(schedule)
    schedule.reorder("B", [1, 0])
    schedule.cache_write("B", 0, "local")


def test_there_are_36_methods() -> None:
    assert len(CALLS) == 36
    for name in CALLS:
        assert inspect.getdoc(getattr(IRSchedule, name))


@pytest.mark.parametrize("name", CALLS)
def test_a_legal_call(name: str) -> None:
    where, legal, _, _ = CALLS[name]
    schedule = program(where).schedule()
    legal(schedule)
    check(where, schedule)
    text = cinn_text(schedule.func)
    assert cinn_text(from_cinn(text)) == text


@pytest.mark.parametrize("name", CALLS)
def test_a_refused_call_leaves_all_as_it_was(name: str) -> None:
    where, _, refused, said = CALLS[name]
    schedule = program(where).schedule()
    with refuses(said):
        refused(schedule)
    assert len(schedule.trace.insts) == len(schedule.get_trace_desc())
    check(where, schedule)


@pytest.mark.parametrize("name", [n for n in CALLS if n not in NOT_TRACED])
def test_a_trace_replays_to_the_same_text(name: str) -> None:
    where, legal, _, _ = CALLS[name]
    schedule, again = program(where).schedule(), program(where).schedule(seed=9)
    legal(schedule)
    schedule.get_trace_desc().replay(again)
    assert str(again) == str(schedule)
    assert str(again.get_trace_desc()) == str(schedule.get_trace_desc())


def test_what_leaves_no_step() -> None:
    for name in sorted(NOT_TRACED - {"copy_transform_and_loop_info"}):
        schedule = program("chain").schedule()
        CALLS[name][1](schedule)
        assert {s.type for s in schedule.get_trace_desc()} <= {"GetLoopsWithName", "GetBlock"}, name


def test_types_of_steps() -> None:
    schedule = program("matmul").schedule()
    schedule.split("B", 2, [-1, 4])
    schedule.fuse("B", [0, 1])
    schedule.reorder(schedule.get_block("B"), [1, 0])
    schedule.annotate("B", "a", True)
    schedule.annotate("B", "b", 0.5)
    types = [s.type for s in schedule.get_trace_desc()]
    assert types == [
        "GetLoopsWithName",
        "SamplePerfectTile",
        "Split",
        "FuseWithName",
        "GetBlock",
        "ReorderWithBlock",
        "GetBlock",
        "AnnotateBoolAttr",
        "GetBlock",
        "AnnotateFloatAttr",
    ]
    tile = schedule.get_trace_desc().steps[1]
    assert tile.attrs == {"n": 2, "max_innermost_factor": 8, "decision": [-1, 4]}
    assert str(tile) == "e3, e4 = SamplePerfectTile(loop=l2; n=2; max_innermost_factor=8; decision=[-1, 4])"


def test_a_replay_may_stop_at_the_tag() -> None:
    schedule, again = program("chain").schedule(), program("chain").schedule()
    schedule.split("B", 0, [3, 4])
    schedule.tag_post_schedule()
    before = str(schedule)
    schedule.unroll(schedule.get_loops("B")[0])
    schedule.get_trace_desc().replay(again, without_post_schedule=True)
    text = str(again)
    assert "unroll" not in text and text.count("for (") == before.count("for (")


def test_an_attribute_that_is_removed_leaves_the_others() -> None:
    schedule = program("chain").schedule()
    for key, value in (("a", 1), ("b", "x"), ("c", 2)):
        schedule.annotate("B", key, value)
    schedule.unannotate("B", "b")
    assert dict(schedule.block_of("B").annotations) == {"a": 1, "c": 2}
    schedule.unannotate("B", "a")
    schedule.unannotate("B", "c")
    assert not schedule.block_of("B").annotations


def test_a_missing_attribute_is_a_warning() -> None:
    schedule = program("chain").schedule()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        schedule.unannotate("B", "none")
    assert "no attribute `none`" in str(caught[0].message)


def test_a_block_without_loops_gets_one() -> None:
    schedule = IRSchedule("ScheduleBlock(root) { ScheduleBlock(B) { i0 = axis.bind(0) B[i0] = 1.0f } }")
    (ix,) = schedule.get_loops("B")
    assert "serial for (ix, 0, 1)" in str(schedule) and schedule.loop_of(ix).loop_var.name == "ix"


def test_several_functions_are_merged() -> None:
    mod = IRModule({"f": program("chain").function, "g": program("row_max").function})
    schedule = IRSchedule(mod)
    with refuses("cinn.schedule.several_functions"):
        _ = schedule.func
    with refuses("cinn.merge_functions.tensor_differs"):
        schedule.merge_exprs()
    n, k = 12, te.reduce_axis((0, 10), name="k0")
    a = te.placeholder((n, 10), name="A")
    e = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="E")
    schedule = IRSchedule(IRModule({"f": program("chain").function, "g": cinn.lower([a, e])}))
    schedule.merge_exprs()
    assert names(schedule) == ["B", "C", "D", "E__reduce_init", "E"]
    assert [b.name for b in schedule.func.buffer_map.values()] == ["A", "D", "E"]
    x = np.arange(120, dtype="float32").reshape(12, 10)
    d, total = run(schedule.func, [x], (12, 10), (12,))
    np.testing.assert_array_equal(d, (2 * x + 1) * 2 * x)
    np.testing.assert_array_equal(total, x.sum(1))


def test_copy_takes_leading_dimensions_as_far_as_they_agree() -> None:
    a, b = te.placeholder((32, 32, 128), name="A"), te.placeholder((32, 64, 128), name="X")
    t = te.compute((32, 32, 128), lambda *i: a(*i) + 1.0, name="T")
    s = te.compute((32, 64, 128), lambda *i: b(*i) * 2.0, name="S")
    schedule = IRSchedule(cinn.lower([a, b, t, s]))
    schedule.split("T", 0, [-1, 8])
    schedule.split("T", 2, [-1, 4])
    schedule.copy_transform_and_loop_info("S", "T")
    loops = [schedule.loop_of(x) for x in schedule.get_loops("S")]
    assert [(x.loop_var.name, int(x.extent)) for x in loops] == [("i", 4), ("i_0", 8), ("j", 64), ("k", 128)]
    x, y = arrays([(32, 32, 128), (32, 64, 128)])
    one, two = run(schedule.func, [x, y], (32, 32, 128), (32, 64, 128))
    np.testing.assert_allclose(one, x + 1, rtol=1e-6)
    np.testing.assert_array_equal(two, y * 2)


def test_one_element_is_enough_if_all_accesses_are_to_it() -> None:
    schedule = program("chain").schedule()
    schedule.compute_inline("B")
    schedule.simple_compute_at("C", schedule.get_loops("D")[1])
    schedule.set_buffer("C", "local", True)
    assert "C[0] = " in schedule.text() and "write_buffers(_C_temp_buffer[" in schedule.text()
    check("chain", schedule)
    whole = program("chain").schedule()
    with refuses("cinn.set_buffer.several_elements"):
        whole.set_buffer("B", "local", True)


def test_flat_indices() -> None:
    schedule = program("transposed").schedule()
    schedule.flatten_loops(schedule.get_loops("C"))
    schedule.flatten_loops(schedule.get_loops("B"))
    text = schedule.text()
    assert "serial for (flat_i, 0, 48)" in text and "C[_flat_i] = (B[_flat_i] + 1.00000000f)" in text
    assert "B[_flat_i] = (A[((6 * (_flat_i % 8)) + (_flat_i / 8))] * 2.00000000f)" in text
    check("transposed", schedule)
    with refuses("cinn.flatten_loops.elements_out_of_order"):
        forced = program("transposed").schedule()
        forced.flatten_loops(forced.get_loops("B"), True)


def test_examples_of_the_documentation_run() -> None:
    """Each docstring's example, on a program that has what it names."""
    parser = doctest.DocTestParser()
    for name in CALLS:
        for example in parser.get_examples(inspect.getdoc(getattr(IRSchedule, name)) or ""):
            done = 0
            for where in ("matmul", "chain", "transposed", "blur"):
                schedule = program(where).schedule()
                if name == "unannotate":
                    schedule.annotate("B", "note", 1)
                elif name == "reverse_compute_inline" and where == "matmul":
                    schedule.cache_write("C", 0, "local")
                try:
                    eval(example.source, {"s": schedule, "IRSchedule": IRSchedule})
                except TVMagicError:
                    continue
                check(where, schedule)
                done += 1
                break
            assert done, f"{name}: {example.source}"


@pytest.mark.parametrize("seed", range(18))
def test_random_steps_leave_the_results(seed: int) -> None:
    random_steps_hold(seed)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(100, 1100, 50))
def test_many_random_steps_leave_the_results(start: int) -> None:
    for seed in range(start, start + 50):
        random_steps_hold(seed)


@pytest.mark.parametrize("seed", range(10))
def test_moves_of_tiles_leave_the_results(seed: int) -> None:
    moves_of_tiles_hold(seed)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_many_moves_of_tiles_leave_the_results(start: int) -> None:
    for seed in range(start, start + 100):
        moves_of_tiles_hold(seed)


def moves_of_tiles_hold(seed: int) -> None:
    name = PROGRAMS[seed % len(PROGRAMS)]
    schedule = random_moves_of_tiles(name, seed).schedule
    check(name, schedule)
    text = cinn_text(schedule.func)
    assert cinn_text(from_cinn(text)) == text


def random_steps_hold(seed: int) -> None:
    """What is left after random steps computes what NumPy does; so does its text, read back, and it is the same."""
    name = PROGRAMS[seed % len(PROGRAMS)]
    walk = random_schedule(name, seed)
    check(name, walk.schedule)
    text = cinn_text(walk.schedule.func)
    again = from_cinn(text)
    assert cinn_text(again) == text
    if "flatten" not in walk.done:  # a tensor of which all accesses are flat has one dimension in the text
        known = {b.name: (b.shape, b.dtype) for b in walk.schedule.func.buffer_map.values()}
        check(name, from_cinn(text, known))


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.split("B"),
        lambda s: s.split("B", 0, None),
        lambda s: s.split("B", 0, []),
        lambda s: s.split("B", 0, ["a"]),
        lambda s: s.split("B", 0, [2.5, 4]),
        lambda s: s.split("B", 9, [2, 4]),
        lambda s: s.fuse("B"),
        lambda s: s.fuse("B", [1, 0]),
        lambda s: s.reorder("B", [0, 0]),
        lambda s: s.compute_at("B", "C"),
        lambda s: s.compute_at(3, loop("C", 0)(s)),
        lambda s: s.cache_read("C", "A", "local"),
        lambda s: s.vectorize(loop("B", 0)(s), "x"),
        lambda s: s.bind(loop("B", 0)(s), 0),
        lambda s: s.set_exprs(3),
        lambda s: s.annotate("B", 3, 1),
        lambda s: s.flatten_loops("B"),
        lambda s: s.get_loops(None),
        lambda s: s.sample_categorical([1, 2], [0.5, 0.5], decision=[7]),
        lambda s: s.sync_threads("nope"),
        lambda s: s.split(s.get_loops("B"), [3, 4]),
        lambda s: s.split("B", [0], [3, 4]),
        lambda s: s.sample_perfect_tile(loop("B", 0)(s), 2, 16, 4),
    ],
    ids=range(23),
)
def test_arguments_that_fit_nothing_are_refused_and_change_nothing(call: Call) -> None:
    schedule = program("chain").schedule()
    before, steps = str(schedule), len(schedule.trace.insts)
    with pytest.raises(TVMagicError):
        call(schedule)
    assert str(schedule) == before and len(schedule.trace.insts) - steps <= 1


def test_names_as_in_cpp_are_told_by_their_names_here() -> None:
    schedule = program("chain").schedule()
    for name, here in (
        ("Split", "split"),
        ("GetLoops", "get_loops"),
        ("GetTraceDesc", "get_trace_desc"),
        ("fuze", "fuse"),
    ):
        with pytest.raises(AttributeError, match=f"did you mean `{here}`"):
            getattr(schedule, name)
    assert not hasattr(schedule, "nothing_like_it")


def test_what_has_no_blocks_is_refused() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    lowered = tvmagic.lower(te.create_schedule(b.op), [a, b])
    with refuses("cinn.schedule.no_root_block"):
        IRSchedule(lowered)


@pytest.mark.parametrize(
    ("factors", "code"),
    [
        ([0, 4], "cinn.split.factor_not_positive"),
        ([-2, 4], "cinn.split.factor_not_positive"),
        ([-1, -1], "cinn.split.factor_not_positive"),
        ([-1, 2, -1], "cinn.split.factor_not_positive"),
        ([-1, 5000], "cinn.split.factors_too_large"),
        ([1, 2], "cinn.split.factors_too_small"),
        ([], "cinn.split.wrong_arguments"),
    ],
)
def test_factors_that_do_not_split_a_loop(factors: list[int], code: str) -> None:
    schedule = program("chain").schedule()
    with refuses(code):
        schedule.split("B", 0, factors)
    check("chain", schedule)


def test_the_innermost_of_drawn_factors_is_at_most_16_by_default() -> None:
    function = te.create_prim_func(
        [A := te.placeholder((272,), name="A"), te.compute((272,), lambda i: A[i] + 1, name="B")]
    )
    drawn = set()
    for seed in range(60):
        schedule = IRSchedule(function, seed=seed)
        factors = schedule.sample_perfect_tile(schedule.get_loops("B")[0], 2)
        _, inner = schedule.split(schedule.get_loops("B")[0], factors)
        drawn.add(schedule.schedule.get(inner).extent.value)
    assert drawn == {1, 2, 4, 8, 16}
