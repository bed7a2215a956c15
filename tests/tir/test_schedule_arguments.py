"""The trace owns its arguments: what a caller does with his lists later changes nothing; random variables have values."""

from typing import Any

import pytest
from refusals import refuses

from tvmagic import ir, te, tir
from tvmagic.errors import TVMagicError
from tvmagic.script import from_source
from tvmagic.tir import Schedule
from tvmagic.tir.schedule import Trace

CHAIN = """
from tvm.script import tir as T
@T.prim_func(private=True)
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)
"""


def chain(seed: int = 3) -> Schedule:
    return Schedule(from_source(CHAIN), seed=seed)


def replays(sch: Schedule) -> bool:
    """Whether the trace, as an object, as JSON and as Python, makes the same program."""
    copies = [chain(), chain(), chain()]
    sch.trace.apply_to_schedule(copies[0])
    Trace.apply_json_to_schedule(sch.trace.as_json(), copies[1])
    scope: dict[str, Any] = {}
    exec(str(sch.trace).replace(": tir.Schedule", ""), scope)
    scope["apply_trace"](copies[2])
    return all(ir.structural_equal(sch.mod, copy.mod) for copy in copies)


def test_the_list_of_loops_is_the_callers() -> None:
    sch = chain()
    loops = sch.get_loops("C")
    sch.parallel(loops[0])
    loops.reverse()
    sch.unroll(loops[0])
    assert replays(sch)


def test_lists_and_mappings_are_copied() -> None:
    sch = chain()
    factors, order, values = [None, 2], sch.get_loops("B"), {"a": [1, 2]}
    outer, _ = sch.split(sch.get_loops("C")[0], factors)
    sch.reorder(*order)
    sch.annotate(outer, "values", values)
    where = [1]
    sch.set_axis_separator("B", ("write", 0), where)
    decision = [4, 2]
    sch.sample_perfect_tile(sch.get_loops("B")[0], 2, decision=decision)
    before = str(sch.trace)
    factors[1], values["a"][0], where[0], decision[0] = 4, 7, 0, 1
    order.clear()
    values["b"] = [3]
    assert str(sch.trace) == before
    assert 'annotations={"values": {"a": [1, 2]}}' in sch.mod.script()
    assert replays(sch)


def test_annotations_hold_the_numbers_of_random_variables() -> None:
    sch = chain()
    loop = sch.get_loops("C")[0]
    a, b = sch.sample_perfect_tile(loop, 2, decision=[2, 4])
    sch.annotate(loop, "one", b)
    sch.annotate(loop, "several", [a, {"deep": b}])
    sch.annotate(loop, "sum", a + b)
    assert 'annotations={"one": 4, "several": [2, {"deep": 4}], "sum": 6}' in sch.mod.script()
    assert 'ann_val=[v3, {"deep": v4}]' in str(sch.trace)
    assert replays(sch)


def test_an_annotation_of_an_unknown_variable_is_refused() -> None:
    sch = chain()
    with pytest.raises(TVMagicError, match="`n`"):
        sch.annotate(sch.get_loops("C")[0], "one", tir.Var("n", "int32"))


def test_consumer_blocks_may_be_none() -> None:
    sch = chain()
    sch.cache_read("C", 0, "local", consumer_blocks=None)
    sch.cache_write("B", 0, "local", None)
    assert "consumer" not in str(sch.trace)
    assert replays(sch)


@pytest.mark.parametrize("module", [te, tir])
def test_reducers_fold_all_their_values(module: Any) -> None:
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    assert str(module.max(x, y, 3)) == "T.max(T.max(x, y), 3)"
    assert str(module.min(4, 9, 2, 7)) == "2"
    assert str(module.max(1, 2, 3, 4, 5, 9, 6)) == "9"
    assert str(module.sum(x, y, 3, x)) == "x + y + 3 + x"
    k = te.reduce_axis((0, 4), name="k")
    assert isinstance(module.max(k.var, axis=k), tir.Reduce)


def test_a_trace_of_another_program_says_what_does_not_fit() -> None:
    """A loop that this program does not have, whether the trace comes as an object or as JSON."""
    sch = chain()
    sch.parallel(sch.fuse(*sch.get_loops("C")))
    flat = from_source(CHAIN.replace("for i, j in T.grid(8, 8):", "for i in range(8):").replace("[i, j]", "[i, i]"))
    for apply in sch.trace.apply_to_schedule, lambda other: Trace.apply_json_to_schedule(sch.trace.as_json(), other):
        with pytest.raises(TVMagicError, match="`get_loops`"):
            apply(Schedule(flat))


def test_json_that_uses_what_no_call_gives_is_told() -> None:
    with pytest.raises(TVMagicError, match="`l10`"):
        Trace.apply_json_to_schedule([[["Parallel", ["l10"], [], []]], []], chain())


def test_blocks_and_loops_are_shown_by_their_names() -> None:
    A = te.placeholder((4, 8), name="A")
    sch = tir.Schedule(te.create_prim_func([A, te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")]))
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    assert repr([block, i, j]) == "[BlockRV(B), LoopRV(i), LoopRV(j)]"
    assert str(sch.split(j, [None, 4])[0]) == "LoopRV(j_0)"


def test_sizes_are_kept_as_the_expressions_they_stand_for() -> None:
    sch = chain()
    sch.split(sch.get_loops("B")[0], [True, None])
    assert sch.trace.as_json()[0][-1][:2] == ["Split", ["l1", 1, None]]
    with refuses("schedule.number_of_other_schedule"):
        sch.split(sch.get_loops("C")[0], [te.reduce_axis((0, 8), "r"), None])
    with pytest.raises(TVMagicError, match="`compute_at`.*`loop`"):
        sch.compute_at("B", None)


def test_a_function_is_no_annotation() -> None:
    with pytest.raises(TypeError, match="`x`"):
        chain().annotate("B", "x", len)


def test_the_json_of_a_trace_has_what_postprocessing_did_unless_it_is_left_out() -> None:
    sch = chain()
    (i, *_) = sch.get_loops(sch.get_block("B"))
    sch.enter_postproc()
    sch.unroll(i)
    names = [[inst[0] for inst in sch.trace.as_json(*remove)[0]] for remove in ((), (False,), (True,))]
    assert names[0] == names[1] == ["GetBlock", "GetLoops", "EnterPostproc", "Unroll"] and names[2] == names[0][:2]
