"""Tight splits, exact unions and the waste report: what goes beyond TVM, off unless asked for."""

from __future__ import annotations

import functools
import operator
from typing import Any

import pytest
from refusals import refuses
from te_execution import largest_difference

from tvmagic import te, tir
from tvmagic.passes import PassContext, recording, run_step
from tvmagic.te.exact.required_regions import needed_elements
from tvmagic.te.schedule.infer_bound import infer_bound

SWITCHES = {"te.tight_split": True, "te.exact_unions": True}


def ops_text(s: Any, **options: bool) -> str:
    with PassContext(config={f"te.{k}": v for k, v in options.items()}):
        n = s.normalize()
        return str(te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False))


def corners() -> tuple[Any, Any, Any, Any]:
    X = te.placeholder((4, 4), name="X")
    T = te.compute((4, 4), lambda i, j: X[i, j] + 1.0, name="T")
    A = te.compute((2, 2), lambda i, j: T[i, j] * 2.0, name="A")
    B = te.compute((2, 2), lambda i, j: T[i + 2, j + 2] + A[i, j], name="B")
    return te.create_schedule(B.op), X, T, B


def report(s: Any, **options: bool) -> dict[str, tuple[Any, Any]]:
    with PassContext(config={f"te.{k}": v for k, v in options.items()}):
        return {row.stage: (row.computed, row.used) for row in te.schedule.waste_report(s)}


# ---------------------------------------------------------------------------- tight splits


def split_of_20_by_16() -> tuple[Any, Any, Any]:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 16)
    return s, A, B


def test_the_last_block_is_shorter() -> None:
    s, A, B = split_of_20_by_16()
    assert "likely" in ops_text(s)
    text = ops_text(s, tight_split=True)
    assert "for i_inner in range(T.min(16, 20 - i_outer * 16))" in text and "likely" not in text
    with PassContext(config={"te.tight_split": True}):
        assert largest_difference(s, [A, B]) == 0


def test_no_more_parts_than_there_is_work() -> None:
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], nparts=4)
    text = ops_text(s, tight_split=True)
    assert "T.max(5 - i_outer * 2, 0)" in text and "likely" not in text
    with PassContext(config={"te.tight_split": True}):
        assert largest_difference(s, [A, B]) == 0


def test_a_dividing_split_is_as_before() -> None:
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 16)
    assert ops_text(s, tight_split=True) == ops_text(s)


@pytest.mark.parametrize("kind", ["vectorize", "unroll"])
def test_loops_of_constant_extent_keep_their_guard(kind: str) -> None:
    s, _, B = split_of_20_by_16()
    getattr(s[B], kind)(s[B].leaf_iter_vars[1])
    assert ops_text(s, tight_split=True) == ops_text(s)


def test_a_block_that_is_not_known_yet_keeps_its_guard() -> None:
    s, _, B = split_of_20_by_16()
    outer, inner = s[B].leaf_iter_vars
    s[B].reorder(inner, outer)
    assert ops_text(s, tight_split=True) == ops_text(s)


def test_a_loop_inside_a_tensorized_one_has_all_its_iterations() -> None:
    """An intrinsic computes whole blocks: its loops cannot end where the parent ends."""
    a, b, q = te.placeholder((3,), name="a"), te.placeholder((3,), name="b"), te.reduce_axis((0, 3), "q")
    z = te.compute((1,), lambda i: te.sum(a[q] * b[q], axis=q), name="z")

    def body(ins: Any, outs: Any) -> Any:
        return tir.const(0, "int32")  # is never placed

    dot = te.decl_tensor_intrin(z.op, body, "dot")
    A, B, k = te.placeholder((8, 4), name="A"), te.placeholder((4,), name="B"), te.reduce_axis((0, 4), "k")
    C = te.compute((8,), lambda i: te.sum(A[i, k] * B[k], axis=k), name="C")
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(k, 3)
    io, ii = s[C].split(C.op.axis[0], 1)
    s[C].reorder(ko, io, ii, ki)
    s[C].tensorize(ii, dot)
    for tight in (False, True):
        with refuses("te.tensorize.guard_depends_on_loop"):
            ops_text(s, tight_split=tight)


def test_initialization_and_reduction_are_tight() -> None:
    A = te.placeholder((20, 33), name="A")
    k = te.reduce_axis((0, 33), name="k")
    M = te.compute((20,), lambda i: te.sum(A[i, k], axis=k), name="M")
    s = te.create_schedule(M.op)
    io, ii = s[M].split(M.op.axis[0], 6)
    ko, ki = s[M].split(k, 8)
    s[M].reorder(io, ko, ii, ki)
    text = ops_text(s, tight_split=True)
    assert "for i_inner_init in range(T.min(6, 20 - i_outer * 6))" in text
    assert "for k_inner in range(T.min(8, 33 - k_outer * 8))" in text and "likely" not in text
    with PassContext(config={"te.tight_split": True}):
        assert largest_difference(s, [A, M]) < 1e-5


# ---------------------------------------------------------------------------- exact unions


def test_two_corners() -> None:
    s, X, T, B = corners()
    assert report(s)["T"] == (16, 8)
    assert report(s, exact_unions=True)["T"] == (8, 8)
    assert "if i < 2 and j < 2 or i >= 2 and j >= 2:" in ops_text(s, exact_unions=True)
    with PassContext(config={"te.exact_unions": True}):
        assert largest_difference(s, [X, B]) == 0


def test_every_third_element() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((20,), lambda i: B[i * 3 + 1], name="C")
    s = te.create_schedule(C.op)
    s[B].split(B.op.axis[0], 8)
    assert report(s)["B"] == (58, 20)
    assert report(s, exact_unions=True)["B"] == (20, 20)
    with PassContext(config={"te.exact_unions": True}):
        assert largest_difference(s, [A, C]) == 0


def test_what_a_consumer_in_a_loop_computes_in_vain_is_there_too() -> None:
    X = te.placeholder((40,), name="X")
    T = te.compute((40,), lambda i: X[i] + 1.0, name="T")
    U = te.compute((40,), lambda i: T[i] * 2.0, name="U")
    V = te.compute((8,), lambda i: U[i * 4], name="V")
    s = te.create_schedule(V.op)
    outer, _ = s[V].split(V.op.axis[0], 4)
    s[U].compute_at(s[V], outer)
    assert report(s, exact_unions=True)["T"][0] == 29  # all that U computes, not every fourth
    with PassContext(config={"te.exact_unions": True}):
        assert largest_difference(s, [X, V]) == 0


def test_symbolic_sizes_are_not_known() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((4,), lambda i: B[i * 2], name="C")
    s = te.create_schedule(C.op)
    assert ops_text(s, exact_unions=True) == ops_text(s)
    assert report(s)["B"] == (None, None)


# ---------------------------------------------------------------------------- the waste report


def test_overlapping_blocks_are_counted_again() -> None:
    A = te.placeholder((44,), name="A")
    B = te.compute((40,), lambda i: A[i] + A[i + 4], name="B")
    C = te.compute((36,), lambda i: B[i] + B[i + 4], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 5)
    s[B].compute_at(s[C], outer)
    assert report(s) == {"B": (68, 40), "C": (36, 36)}


def test_reductions_count_elements_not_updates() -> None:
    A = te.placeholder((7, 10), name="A")
    k = te.reduce_axis((0, 10), name="k")
    M = te.compute((7,), lambda i: te.sum(A[i, k], axis=k), name="M")
    s = te.create_schedule(M.op)
    s[M].split(k, 3)
    assert report(s) == {"M": (7, 7)}


def test_the_record_has_the_savings() -> None:
    s, _, _, _ = corners()
    n = s.normalize()
    bounds = te.schedule.InferBound(n)
    with PassContext(config=SWITCHES), recording() as record:
        run_step("te.ScheduleOps", lambda: te.schedule.ScheduleOps(n, bounds, False), before=n)
    assert record.notes("te.exact_unions")[0].facts == {"stage": "T", "computed": 8, "saved": 8}
    assert [(x.facts["stage"], x.facts["computed"], x.facts["used"]) for x in record.notes("te.waste")][0] == (
        "T",
        8,
        8,
    )


def test_long_loops_are_counted_without_an_array_of_their_values() -> None:
    A = te.placeholder((1 << 40,), name="A")
    B = te.compute((1 << 40,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 16)
    assert report(s) == {"B": (1 << 40, 1 << 40)}
    s[B].split(s[B].leaf_iter_vars[0], 3)
    assert report(s) == {"B": (None, 1 << 40)}, "a guard over too many iterations is not counted"


def test_what_comes_after_an_unknown_condition_is_counted() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].set_store_predicate(te.var("unknown") > 0)
    assert report(s) == {"B": (None, 8), "C": (8, 8)}


def test_what_one_stage_reads_of_many_is_collected_once(calls: Any) -> None:
    def lowered(count: int) -> int:
        inputs = [te.placeholder((8,), name=f"X{n}") for n in range(count)]
        Y = te.compute((8,), lambda i: functools.reduce(operator.add, [x[i] for x in inputs]), name="Y")
        s = te.create_schedule(Y.op).normalize()
        return calls(lambda: needed_elements(s, infer_bound(s)))

    lowered(8)
    assert lowered(200) < 2.6 * lowered(100)
