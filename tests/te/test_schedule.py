"""The calls that arrange a schedule: what they do, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from refusals import refuses
from te_execution import largest_difference

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import ScheduleError, TVMagicError
from tvmagic.te.schedule import AttachType


def names(stage: Any) -> list[str]:
    return [iv.var.name for iv in stage.leaf_iter_vars]


def ops_text(s: Any, keep_trivial: bool = False) -> str:
    n = s.normalize()
    return str(te.schedule.ScheduleOps(n, te.schedule.InferBound(n), keep_trivial))


class Chain:
    """A (32, 64) -> B -> C, a matrix product M with a reduction k, and their schedule."""

    def __init__(self) -> None:
        self.A = te.placeholder((32, 64), name="A")
        self.B = te.compute((32, 64), lambda i, j: self.A[i, j] + 1.0, name="B")
        self.C = te.compute((32, 64), lambda i, j: self.B[i, j] * 2.0, name="C")
        self.k = te.reduce_axis((0, 64), name="k")
        self.M = te.compute((32,), lambda i: te.sum(self.C[i, self.k], axis=self.k), name="M")
        self.s = te.create_schedule(self.M.op)


@pytest.fixture
def p() -> Chain:
    return Chain()


# ---------------------------------------------------------------------------- what calls do


def test_fuse_of_several_and_of_none(p: Chain) -> None:
    stage = p.s[p.C]
    assert stage.fuse(*p.C.op.axis).var.name == "i.j.fused"
    assert stage.fuse().var.name == "singleton"
    assert names(stage) == ["singleton", "i.j.fused"]
    assert "T.grid(2048)" in ops_text(p.s) or "range(2048)" in ops_text(p.s)


def test_loop_kinds_and_pragmas(p: Chain) -> None:
    stage = p.s[p.C]
    i, j = p.C.op.axis
    stage.parallel(i)
    outer, inner = stage.split(j, 8)
    stage.vectorize(inner)
    stage.unroll(outer)
    stage.pragma(i, "auto_unroll_max_step", 16)
    text = ops_text(p.s)
    assert "T.parallel(32)" in text and "T.unroll(8)" in text and "T.vectorized(8)" in text
    assert "pragma_auto_unroll_max_step" in text


def test_copy_is_independent(p: Chain) -> None:
    twin = p.s.copy()
    p.s[p.C].split(p.C.op.axis[1], 4)
    assert names(twin[p.C]) == ["i", "j"]
    assert twin[p.C].schedule is twin


def test_cache_read_and_write() -> None:
    A = te.placeholder((16, 16), name="A")
    B = te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    AS = s.cache_read(A, "shared", [CL])
    assert (CL.op.name, AS.op.name) == ("C.local", "A.shared")
    assert [st.name for st in s.stages] == ["A", "A.shared", "B", "C.local", "C"]
    assert [s[t].scope for t in (CL, AS)] == ["local", "shared"]
    xo, yo, xi, yi = s[C].tile(*s[C].op.axis, 4, 4)
    s[CL].compute_at(s[C], yo)
    text = ops_text(s)
    assert "C[i_inner + i_outer * 4, j_inner + j_outer * 4] = C.local[" in text
    assert "A.shared" in text


def test_cache_write_follows_the_loops() -> None:
    A = te.placeholder((20,), name="A")
    C = te.compute((20,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 6)
    s[C].reorder(inner, outer)
    CL = s.cache_write(C, "local")
    assert [int(x) for x in CL.shape] == [6, 4]
    text = ops_text(s)
    assert (
        "T.Select(i_inner_c + i_outer_c * 6 < 20, A[i_inner_c + i_outer_c * 6] + T.float32(1.0), T.float32(0.0))"
        in text
    )
    assert "C[i] = C.local[i % 6, i // 6]" in text


def test_rfactor() -> None:
    A = te.placeholder((64,), name="A")
    k = te.reduce_axis((0, 64), name="k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(k, 16)
    BF = s.rfactor(B, ki)
    assert BF.op.name == "B.rf" and [int(x) for x in BF.shape] == [16, 1]
    assert [iv.var.name for iv in s[B].op.reduce_axis] == ["k.inner.v"]
    text = ops_text(s)
    assert "B.rf[k_inner, 0] = B.rf[k_inner, 0] + A[k_inner + k_outer * 16]" in text
    assert "B[0] = B[0] + B.rf[k_inner_v, 0]" in text


def test_tuple_reduction() -> None:
    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    I = te.placeholder((4, 10), "int32", name="I")
    V = te.placeholder((4, 10), name="V")
    k = te.reduce_axis((0, 10), name="k")
    T0, T1 = te.compute((4,), lambda i: argmax((I[i, k], V[i, k]), axis=k), name="T")
    assert (T0.op, T1.value_index, T0.name) == (T1.op, 1, "T.v0")
    text = ops_text(te.create_schedule(T0.op))
    assert "T.v0[i] = -1" in text and "T.Select(T.v1[i] >= V[i, k], T.v0[i], I[i, k])" in text


def test_a_tuple_reduction_that_reads_what_it_stores() -> None:
    product = te.comm_reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda a, b: (te.const(1, a), te.const(0, b)),
        name="complex_product",
    )
    U = te.placeholder((4, 10), "int32", name="U")
    V = te.placeholder((4, 10), "int32", name="V")
    k = te.reduce_axis((0, 10), name="k")
    R, S = te.compute((4,), lambda i: product((U[i, k], V[i, k]), axis=k), name="R")
    s = te.create_schedule(R.op)
    assert "v_R_v1: T.int32 = R.v0[i] * V[i, k] + R.v1[i] * U[i, k]" in ops_text(s)
    assert largest_difference(s, [U, V, R, S]) == 0


def test_auto_inline() -> None:
    A = te.placeholder((8, 8), name="A")
    v = te.placeholder((8,), name="v")
    E = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="E")
    B = te.compute((8, 8), lambda i, j: E[i, j] * v[j], name="B")
    T = te.compute((8, 8), lambda i, j: B[j, i], name="T")
    O = te.compute((8, 8), lambda i, j: T[i, j] + 1.0, name="O")
    expected = {"AutoInlineElemWise": "E", "AutoInlineBroadcast": "EB", "AutoInlineInjective": "EBT"}
    for call, inlined in expected.items():
        s = te.create_schedule(O.op)
        getattr(te.schedule, call)(s)
        assert "".join(st.name for st in s.stages if st.attach_type == AttachType.INLINE) == inlined
        assert largest_difference(s, [A, v, O]) < 1e-6
    s = te.create_schedule(O.op)
    s[E].reorder(*reversed(E.op.axis))
    te.schedule.AutoInlineElemWise(s)
    assert s[E].attach_type == AttachType.GROUP_ROOT  # what is scheduled already is left alone


def test_extern_binds_buffers() -> None:
    A = te.placeholder((8,), name="A")
    E = te.extern((8,), [A], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    s = te.create_schedule(E.op)
    n = s.normalize()
    stmt = te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False)
    assert te.schedule.VerifyCompactBuffer(stmt)
    assert "buffer_bind_scope" in str(stmt) and "extern_scope" in str(stmt)


def test_spans_lead_to_the_users_line(p: Chain) -> None:
    n = p.s.normalize()
    stmt = te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False)
    assert p.B.op.span is not None and p.B.op.span.source == __file__
    assert stmt.span is not None and stmt.span.source == __file__


def test_disable_predication() -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 8, disable_predication=True)
    assert "likely" not in ops_text(s)


def test_storage_align_and_double_buffer(p: Chain) -> None:
    p.s[p.C].storage_align(p.C.op.axis[0], 32, 1)
    p.s[p.B].double_buffer()
    text = ops_text(p.s)
    assert "buffer_dim_align" in text and "double_buffer_scope" in text


# ---------------------------------------------------------------------------- what is refused


def _thread(tag: str = "threadIdx.x") -> Any:
    return te.thread_axis(tag)


REFUSED: dict[str, tuple[Callable[[Chain], Any], str]] = {
    "a loop that was split": (
        lambda p: (p.s[p.C].split(p.C.op.axis[1], 4), p.s[p.C].split(p.C.op.axis[1], 4)),
        "te.schedule.loop_replaced",
    ),
    "a loop that was fused": (
        lambda p: (p.s[p.C].fuse(*p.C.op.axis), p.s[p.C].unroll(p.C.op.axis[0])),
        "te.schedule.loop_replaced",
    ),
    "a loop of another stage": (
        lambda p: p.s[p.C].split(p.B.op.axis[0], 4),
        "te.schedule.loop_of_other_stage",
    ),
    "a tensor in place of a loop": (lambda p: p.s[p.C].split(p.A, 4), "te.schedule.not_a_loop"),
    "factor zero": (lambda p: p.s[p.C].split(p.C.op.axis[0], 0), "te.split.factor_not_positive"),
    "a negative number of parts": (lambda p: p.s[p.C].split(p.C.op.axis[0], nparts=-2), "te.split.factor_not_positive"),
    "a factor that is a float": (lambda p: p.s[p.C].split(p.C.op.axis[0], 2.5), "te.schedule.not_an_integer"),
    "factor and nparts": (lambda p: p.s[p.C].split(p.C.op.axis[0], 4, 4), "te.split.factor_and_nparts"),
    "fuse of loops apart": (
        lambda p: (p.s[p.C].split(p.C.op.axis[1], 4), p.s[p.C].fuse(p.C.op.axis[0], p.s[p.C].leaf_iter_vars[2])),
        "te.fuse.not_adjacent",
    ),
    "fuse with itself": (lambda p: p.s[p.C].fuse(p.C.op.axis[0], p.C.op.axis[0]), "te.fuse.not_adjacent"),
    "a loop twice in reorder": (lambda p: p.s[p.C].reorder(*p.C.op.axis, p.C.op.axis[0]), "te.reorder.repeated_loop"),
    "reorder across stages": (
        lambda p: p.s[p.C].reorder(p.C.op.axis[1], p.B.op.axis[0]),
        "te.schedule.loop_of_other_stage",
    ),
    "tile of one loop": (lambda p: p.s[p.C].tile(p.C.op.axis[0], p.C.op.axis[0], 2, 2), "te.tile.repeated_loop"),
    "vectorize of a reduction": (
        lambda p: p.s[p.M].vectorize(p.k),
        "te.schedule.wrong_loop_kind",
    ),
    "compute_at a loop of another stage": (
        lambda p: p.s[p.B].compute_at(p.s[p.C], p.M.op.axis[0]),
        "te.schedule.loop_of_other_stage",
    ),
    "compute_at itself": (
        lambda p: p.s[p.B].compute_at(p.s[p.B], p.B.op.axis[0]),
        "te.compute_at.own_loop",
    ),
    "a cycle": (
        lambda p: (p.s[p.B].compute_at(p.s[p.C], p.C.op.axis[0]), p.s[p.C].compute_at(p.s[p.B], p.B.op.axis[0])),
        "te.compute_at.cyclic",
    ),
    "bind to a loop": (
        lambda p: p.s[p.C].bind(p.C.op.axis[0], p.C.op.axis[1]),
        "te.bind.wrong_axis_kind",
    ),
    "bind of a loop of another stage": (lambda p: p.s[p.C].bind(p.k, _thread()), "te.schedule.loop_of_other_stage"),
    "bind to something else": (
        lambda p: p.s[p.C].bind(p.C.op.axis[0], cast(Any, p.A)),
        "te.bind.not_a_thread_axis",
    ),
    "env_threads of a compute": (lambda p: p.s[p.C].env_threads([_thread()]), "te.env_threads.not_a_scan"),
    "double buffer of an output": (lambda p: p.s[p.M].double_buffer(), "te.schedule.output_stage"),
    "rolling buffer of an output": (lambda p: p.s[p.M].rolling_buffer(), "te.schedule.output_stage"),
    "rfactor of a data loop": (
        lambda p: p.s.rfactor(p.M, p.M.op.axis[0]),
        "te.rfactor.loop_not_reduced",
    ),
    "rfactor of no reduction": (
        lambda p: p.s.rfactor(p.C, p.C.op.axis[0]),
        "te.rfactor.not_a_reduction",
    ),
    "rfactor to no dimension": (lambda p: p.s.rfactor(p.M, p.k, 5), "te.rfactor.axis_out_of_range"),
    "rfactor of a loop fused with data": (
        lambda p: p.s.rfactor(p.M, p.s[p.M].fuse(p.M.op.axis[0], p.k)),
        "te.rfactor.fused_with_data",
    ),
    "a stage of another schedule": (
        lambda p: p.s[te.compute((4,), lambda i: te.const(1.0), name="Z")],
        "te.schedule.unknown_stage",
    ),
    "a name that no stage has": (lambda p: p.s["Z"], "te.schedule.unknown_stage"),
    "cache_read for who does not read": (lambda p: p.s.cache_read(p.A, "local", [p.C]), "te.cache_read.not_a_reader"),
    "cache_write of a placeholder": (
        lambda p: p.s.cache_write(p.A, "local"),
        "te.cache_write.not_computed",
    ),
    "cache_write of two stages": (lambda p: p.s.cache_write([p.B, p.C], "local"), "te.cache_write.several_operations"),
    "compute_at a stage of another group": (
        lambda p: (p.s.create_group(p.C, p.A), p.s[p.B].compute_at(p.s[p.M], p.M.op.axis[0])),
        "te.compute_at.other_group",
    ),
    "a loop that runs once prefetches": (
        lambda p: (p.s[p.C].prefetch(p.B, p.s[p.C].fuse(), 1), ops_text(p.s)),
        "te.prefetch.loop_runs_once",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_calls(what: str, p: Chain) -> None:
    call, message = REFUSED[what]
    with refuses(message, error=ScheduleError) as caught:
        call(p)
    assert caught.value.span is None or caught.value.span.source == __file__


def _state(stage: Any) -> Any:
    attrs = {iv: [getattr(attr, name) for name in attr.__slots__] for iv, attr in stage.copy().iter_var_attrs.items()}
    return list(stage.leaf_iter_vars), list(stage.all_iter_vars), len(stage.relations), attrs


HALF_WAY: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "tile, the second factor": lambda s, i, j, k: s.tile(i, j, 2, 0),
    "tile, the second loop": lambda s, i, j, k: (s.unroll(k), s.bind(j, _thread()), s.tile(i, "j", 2, 2)),
    "tile of a loop that was split": lambda s, i, j, k: s.tile(i, s.op.axis[0], 2, 2),
    "fuse, the third loop": lambda s, i, j, k: s.fuse(i, j, i),
    "fuse, the third loop apart": lambda s, i, j, k: s.fuse(j, i, s.leaf_iter_vars[3]),
    "fuse, no loop": lambda s, i, j, k: s.fuse(i, j, "k"),
    "a distance of a prefetch": lambda s, i, j, k: s.prefetch(s.op.input_tensors[0], i, object()),
}


@pytest.mark.parametrize("what", HALF_WAY)
def test_a_refused_call_of_several_changes_nothing(what: str) -> None:
    A = te.placeholder((4, 4, 4), name="A")
    B = te.compute((16, 4, 4), lambda i, j, k: A[i // 4, j, k] + 1.0, name="B")
    s = te.create_schedule(B.op)[B]
    i, _ = s.split(B.op.axis[0], 4)
    s.reorder(i, B.op.axis[1], B.op.axis[2], s.leaf_iter_vars[1])
    before = []

    class Watched:
        """The stage, whose state is taken down before its last call."""

        def __getattr__(self, name: str) -> Any:
            before[:] = [_state(s)]
            return getattr(s, name)

    with pytest.raises(TVMagicError):
        HALF_WAY[what](Watched(), i, B.op.axis[1], B.op.axis[2])
    assert _state(s) == before[0]


def test_tile_of_an_ordered_axis_is_refused_before_it_splits() -> None:
    X = te.placeholder((8, 6), name="X")
    state = te.placeholder((8, 6), name="state")
    first = te.compute((1, 6), lambda t, i: X[t, i], name="first")
    S = te.scan(first, te.compute((8, 6), lambda t, i: state[t - 1, i] + X[t, i], name="next"), state, [X], name="S")
    s = te.create_schedule(S.op)[S]
    time, single = s.leaf_iter_vars[0], s.fuse()
    before = _state(s)
    with pytest.raises(ScheduleError, match="`.*`"):
        s.tile(single, time, 2, 2)
    assert _state(s) == before


def test_start_values_are_not_computed_inside_the_reduction() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    k, m = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 2), name="m")
    C = te.compute((8,), lambda i: te.sum(A[k] + A[m], axis=[k, m], init=B[i]), name="C")
    for at, reorder in ((k, False), (m, False), (C.op.axis[0], True)):
        s = te.create_schedule(C.op)
        if reorder:
            s[C].reorder(k, C.op.axis[0], m)
        s[B].compute_at(s[C], at)
        with pytest.raises(ScheduleError, match="`B`.*`.*`.*`C`"):
            tvmagic.lower(s, [A, C])
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    assert largest_difference(s, [A, C]) < 1e-5


LATE: dict[str, tuple[Callable[[Chain], Any], str]] = {
    "a consumer outside the loop": (
        lambda p: p.s[p.B].compute_at(p.s[p.M], p.M.op.axis[0]),
        "te.compute_at.reader_outside_loop",
    ),
    "an output inside a loop": (
        lambda p: p.s[p.M].compute_at(p.s[p.C], p.C.op.axis[0]),
        "te.compute_at.output_stage",
    ),
    "inlining a reduction": (lambda p: p.s[p.M].compute_inline(), "te.compute_inline.reduction"),
    "threads of output and reduction": (
        lambda p: p.s[p.M].bind(p.s[p.M].fuse(p.M.op.axis[0], p.k), _thread()),
        "te.thread_reduction.mixed_loop",
    ),
}


@pytest.mark.parametrize("what", LATE)
def test_refused_when_lowered(what: str, p: Chain) -> None:
    call, message = LATE[what]
    call(p)
    with refuses(message, error=ScheduleError):
        ops_text(p.s)


def test_an_iteration_variable_of_two_stages() -> None:
    A = te.placeholder((8, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    M = te.compute((8,), lambda i: te.max(A[i, k], axis=k), name="M")
    S = te.compute((8,), lambda i: te.sum(A[i, k] - M[i], axis=k), name="S")
    with pytest.raises(ScheduleError, match="`k`.*`M`.*`S`"):
        ops_text(te.create_schedule(S.op))


def test_the_two_stages_of_an_iteration_variable_are_found_among_others() -> None:
    """Stages with loops of their own come before, between and behind them."""
    A = te.placeholder((8, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    before = te.compute((8, 16), lambda i, j: A[i, j] * 2.0, name="before")
    M = te.compute((8,), lambda i: te.max(before[i, k], axis=k), name="M")
    between = te.compute((8,), lambda i: M[i] + 1.0, name="between")
    S = te.compute((8,), lambda i: te.sum(A[i, k] - between[i], axis=k), name="S")
    behind = te.compute((8,), lambda i: S[i] / 2.0, name="behind")
    with pytest.raises(ScheduleError, match="`k`.*`M`.*`S`"):
        ops_text(te.create_schedule(behind.op))


def test_loops_that_do_not_begin_at_zero() -> None:
    """Of a schedule that is not normalized: a counter goes from 0 on, and the variable is what it begins at and the counter."""
    A = te.placeholder((16, 4), name="A")
    k = te.reduce_axis((1, 4), "k")
    B = te.compute((16,), lambda i: te.sum(A[i, k], k), name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], factor=4)[0])
    text = str(te.schedule.ScheduleOps(s, te.schedule.InferBound(s), False))
    assert "for i_idx in range(4):" in text and "for k_idx in range(3):" in text
    place = "i_outer * 4 + i_idx"
    assert f"B[{place}] = B[{place}] + A[{place}, 1 + k_idx]" in text and f"B[{place}] = T.float32(0.0)" in text
    assert " i_idx " not in ops_text(s) and "B[i + i_outer * 4] + A[i + i_outer * 4, k + 1]" in ops_text(s)


def test_inlining_an_output_or_into_an_extern() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].compute_inline()
    with pytest.raises(ScheduleError, match="`B`"):
        s.normalize()
    E = te.extern((8,), [B], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    s = te.create_schedule(E.op)
    s[B].compute_inline()
    with pytest.raises(ScheduleError, match="`B`.*`E`"):
        s.normalize()


EXPRESSIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "a schedule of a tensor": (
        lambda: te.create_schedule(te.placeholder((4,), name="A")),
        "te.create_schedule.not_an_operation",
    ),
    "too few indices": (
        lambda: te.compute((4,), lambda i: te.placeholder((4, 4), name="A")[i] + 1.0),
        "te.tensor.wrong_index_count",
    ),
    "too many arguments": (lambda: te.compute((4,), lambda i, j: te.const(1.0)), "te.compute.wrong_index_count"),
    "no value": (lambda: te.compute((4,), lambda i: None, name="B"), "te.compute.no_value"),
    "a negative size": (lambda: te.placeholder((4, -1), name="A"), "te.shape.negative_size"),
    "a sum over a data axis": (
        lambda: te.compute((4,), lambda i: te.sum(te.const(1.0), axis=tir.IterVar((0, 4), "q")), name="B"),
        "te.comm_reducer.not_a_reduction_axis",
    ),
    "a nested reduction": (lambda: _nested(), "te.compute.nested_reduction"),
    "two different reductions": (lambda: _two_reductions(), "te.compute.outputs_differ"),
    "a thread axis without a tag": (lambda: te.thread_axis((0, 4)), "te.thread_axis.no_tag"),
    "a tag inside a tag": (lambda: _tag_in_tag(), "te.tag_scope.tag_given"),
    "an extern without a dtype": (
        lambda: te.extern((4,), [], lambda i, o: tir.call_packed("f", o[0]), name="E"),
        "te.extern.unknown_dtype",
    ),
}


def _nested() -> Any:
    k = te.reduce_axis((0, 4), name="k")
    return te.compute((4,), lambda i: te.sum(te.const(1.0), axis=k) + 1.0, name="B")


def _two_reductions() -> Any:
    k = te.reduce_axis((0, 4), name="k")
    return te.compute((4,), lambda i: (te.sum(te.const(1.0), axis=k), te.sum(te.const(2.0), axis=k)), name="B")


def _tag_in_tag() -> None:
    with te.tag_scope("a"):
        te.compute((4,), lambda i: te.const(1.0), tag="b")


@pytest.mark.parametrize("what", EXPRESSIONS)
def test_refused_expressions(what: str) -> None:
    call, message = EXPRESSIONS[what]
    with refuses(message):
        call()


def test_tensors_as_arguments_are_the_buffers_of_the_body() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2, name="B")
    s = te.create_schedule(b.op).normalize()
    stmt = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    func = te.schedule.SchedulePostProcToPrimFunc([a, b], stmt)
    assert "B[i] = A[i] * T.float32(2.0)" in func.script()
    with pytest.raises(TVMagicError, match="`A`"):
        te.schedule.SchedulePostProcToPrimFunc([a, b, a], stmt)


@pytest.mark.parametrize(("scope", "tag"), [("shared", "blockIdx.x"), ("local", "threadIdx.x")])
def test_a_stage_outside_of_the_threads_that_it_depends_on(scope: str, tag: str) -> None:
    c = Chain()
    copy = c.s.cache_read(c.A, scope, [c.B])
    c.s[c.B].bind(c.B.op.axis[0], te.thread_axis(tag))
    with refuses("te.infer_bound.thread_not_around_reader", error=ScheduleError):
        tvmagic.lower(c.s, [c.A, c.M])
    c.s[copy].compute_at(c.s[c.B], c.B.op.axis[0])
    tvmagic.lower(c.s, [c.A, c.M])


@pytest.mark.parametrize("tag", ["blockIdx.x", "threadIdx.x"])
def test_the_length_of_what_a_stage_copies_depends_on_a_thread(tag: str) -> None:
    def prefix(i: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(A[k], axis=k)

    A = te.placeholder((16,), name="A")
    B = te.compute((16,), prefix, name="B")
    s = te.create_schedule(B.op)
    copy = s.cache_read(A, "local", [B])
    s[B].bind(B.op.axis[0], te.thread_axis(tag))
    with refuses("te.infer_bound.thread_not_around_reader", error=ScheduleError):
        tvmagic.lower(s, [A, B])
    s[copy].compute_at(s[B], B.op.axis[0])
    assert "for ax0 in range(thread + 1)" in tvmagic.lower(s, [A, B]).script().replace(tag.replace(".", "_"), "thread")


def test_a_stage_is_found_by_its_name() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    C = te.compute((4,), lambda i: B[i] * 2, name="B")
    D = te.compute((4,), lambda i: C[i] * 2, name="D")
    s = te.create_schedule(D.op)
    assert s["D"] is s[D] and "D" in s and "E" not in s
    with pytest.raises(ScheduleError, match="`B`"):
        s["B"]


def test_a_stage_moved_to_the_root_has_left_its_loop() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    for move in ("compute_root", "compute_inline"):
        s = te.create_schedule(C.op)
        s[B].compute_at(s[C], C.op.axis[0])
        s[C].split(C.op.axis[0], 4)
        getattr(s[B], move)()
        assert s[B].attach_stage is None and s[B].attach_ivar is None
        tvmagic.lower(s, [A, C])


@pytest.mark.parametrize(("place", "inner"), [(0, True), (1, False), (2, True), (-1, False), (-2, True), (-3, False)])
def test_where_rfactor_puts_its_axis(place: int, inner: bool) -> None:
    A, k = te.placeholder((6, 5, 12), name="A"), te.reduce_axis((0, 12), name="k")
    B = te.compute((6, 5), lambda i, j: te.sum(A[i, j, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    parts = s[B].split(k, 3)
    factor = s.rfactor(B, parts[inner], place)
    shape = [6, 5]
    shape.insert(place % 3, 3 if inner else 4)
    assert [int(n) for n in factor.shape] == shape
    assert [iv.var.name for iv in factor.op.axis][place] == parts[inner].var.name
    assert place != -1 or largest_difference(s, [A, B]) <= 1e-5


def test_a_new_copy_of_what_was_split_before() -> None:
    """The loops over data come along, those of the reduction stay."""
    A, k = te.placeholder((6, 12), name="A"), te.reduce_axis((0, 12), name="k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 4)
    s[B].reorder(inner, outer)
    copy = s.cache_write(B, "local")
    assert [iv.var.name for iv in s[copy].leaf_iter_vars] == ["i.inner.c", "i.outer.c", "k"]
    assert largest_difference(s, [A, B]) <= 1e-5


def test_the_numbers_of_attach_types_are_tvms() -> None:
    names = ["kGroupRoot", "kInline", "kInlinedAlready", "kScope", "kScanUpdate"]
    kinds = te.schedule.AttachType
    assert [f"k{kind.name.title().replace('_', '')}" for kind in kinds] == names and list(kinds) == [1, 2, 3, 4, 5]
