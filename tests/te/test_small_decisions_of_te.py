"""Decisions of TE's schedules that few programs come to, each as a table."""

from __future__ import annotations

import functools
import re
import types
from typing import Any

import pytest

import tvmagic
from tvmagic import te, tir
from tvmagic.arith import Analyzer
from tvmagic.arith.int_set import IntSet
from tvmagic.errors import ScheduleError
from tvmagic.ir import Call, CallEffect, GlobalVar, IntImm, IterVar, Op, Range, SizeVar, Var
from tvmagic.passes import PassContext
from tvmagic.te.schedule import Schedule
from tvmagic.te.schedule.attributes import AttachType, IterVarAttr
from tvmagic.te.schedule.auto_inline import is_broadcast, is_elem_wise, is_injective
from tvmagic.te.schedule.cache import _earlier_rows
from tvmagic.te.schedule.infer_bound import _first, _inside_shape, _may_overrun, needs_relax
from tvmagic.te.schedule.inline import _has_effect
from tvmagic.te.schedule.relations import Fuse
from tvmagic.te.schedule.rfactor import _connected
from tvmagic.te.schedule.scan import scan_fix_point_analysis
from tvmagic.te.schedule.thread import StorageRank, ThreadScope
from tvmagic.te.schedule.thread_memory import has_memory_of_its_own


def sums() -> tuple[Any, Any, Any]:
    a = te.placeholder((12, 9, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((12, 9), lambda i, j: te.sum(a[i, j, k], k), name="B")
    return a, b, te.create_schedule(b.op)


def test_numbers_of_the_ways_to_attach_are_those_of_tvm() -> None:
    names = ["GROUP_ROOT", "INLINE", "INLINED_ALREADY", "SCOPE", "SCAN_UPDATE"]
    assert [(t.name, int(t)) for t in AttachType] == [(name, n + 1) for n, name in enumerate(names)]


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        (0, "10 12 9"),
        (1, "12 10 9"),
        (2, "12 9 10"),
        (-1, "12 9 10"),
        (-2, "12 10 9"),
        (-3, "10 12 9"),
        (3, ""),
        (-4, ""),
    ],
)
def test_where_rfactor_puts_its_dimension(place: int, shape: str) -> None:
    _, b, s = sums()
    if not shape:
        with pytest.raises(ScheduleError, match="which the result does not have"):
            s.rfactor(b, b.op.reduce_axis[0], place)
    else:
        assert " ".join(str(n) for n in s.rfactor(b, b.op.reduce_axis[0], place).shape) == shape


def test_loops_that_share_a_root_with_one() -> None:
    _, b, s = sums()
    stage, k = s[b], b.op.reduce_axis[0]
    outer, inner = stage.split(k, 4)
    alone = set(_connected(stage, stage.op.axis[0]))
    assert alone == {stage.op.axis[0]}
    assert set(_connected(stage, inner)) == {k, outer, inner}
    fused = stage.fuse(*stage.op.axis)
    assert set(_connected(stage, fused)) == {fused, *stage.op.axis}


def test_a_schedule_keeps_no_record_by_itself() -> None:
    _, b, s = sums()
    assert Schedule.keep_record is False
    s[b].parallel(b.op.axis[0])
    assert not s.keep_record and s.primitive_record == [] and s.schedule_record == []


@pytest.mark.parametrize(
    ("low", "extent", "ends"), [(0, 8, (0, 7)), (3, 5, (3, 7)), ("n", 5, (0, 4)), (0, "n", (0, -1))]
)
def test_first_elements_are_told_if_they_are_numbers(low: Any, extent: Any, ends: tuple[int, int]) -> None:
    size = SizeVar("n")
    domain = Range.from_min_extent(size if low == "n" else low, size if extent == "n" else extent)
    number, two, three = Range.from_min_extent(1, 2), IntImm("int32", 2), IntImm("int32", 3)
    found = _first(domain, number, [IntSet.interval(two, three)])
    assert found == {"domain": ends, "computed": (1, 2), "asked": [(2, 3)]}
    everything = IntSet.everything()
    for asked in (everything, IntSet.interval(two, everything.max()), IntSet.interval(everything.min(), three)):
        assert _first(domain, number, [asked]) is None


def test_what_is_said_of_layouts() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[b].transform_layout(lambda i, j: [i // 4, te.AXIS_SEPARATOR, i % 4, j])
    s = s.normalize()
    text = str(te.schedule.ScheduleOps(s, te.schedule.InferBound(s), False))
    assert '"axis_separators", 1)' in text and '"layout_transforms", 1)' in text


MATRIX = te.placeholder((8, 6), name="M")
ROW, COLUMN, ONE = te.placeholder((6,), name="R"), te.placeholder((8, 1), name="K"), te.placeholder((1,), name="O")


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (lambda i, j: MATRIX[i, j] + 1.0, "elementwise broadcast injective"),
        (lambda i, j: MATRIX[i, j] * MATRIX[i, j], "elementwise broadcast injective"),
        (lambda i, j: MATRIX[i, j] + MATRIX[0, j], "broadcast injective"),
        (lambda i, j: ROW[j], "broadcast injective"),
        (lambda i, j: MATRIX[i, j] + ROW[j], "broadcast injective"),
        (lambda i, j: COLUMN[i, 0] * ONE[0], "broadcast injective"),
        (lambda i, j: MATRIX[i, 1], "injective"),
        (lambda i, j: MATRIX[j, i], "injective"),
        (lambda i, j: MATRIX[i, i], "injective"),
        (lambda i, j: MATRIX[j, j], "injective"),
        (lambda i, j: MATRIX[i + 0 * j, j // 2], "injective"),
        (lambda i, j: MATRIX[i, j] + MATRIX[7 - i, j], "injective"),
        (lambda i, j: 1.0, "elementwise broadcast injective"),
        (lambda i, j: (MATRIX[i, j], MATRIX[i, j]), ""),
    ],
)
def test_which_computations_are_inlined_by_themselves(body: Any, kinds: str) -> None:
    out = te.compute((6, 6), body, name="B")
    first = out[0] if isinstance(out, (list, tuple)) else out
    tests = {"elementwise": is_elem_wise, "broadcast": is_broadcast, "injective": is_injective}
    assert " ".join(name for name, test in tests.items() if test(first.op)) == kinds
    assert not any(test(MATRIX.op) for test in tests.values())


def test_reductions_are_not_inlined_by_themselves() -> None:
    k = te.reduce_axis((0, 6), "k")
    total = te.compute((8,), lambda i: te.sum(MATRIX[i, k], k), name="S")
    assert not is_injective(total.op) and not is_broadcast(total.op) and not is_elem_wise(total.op)


class Tags:
    """The part of bounds inference that knows the threads of loops."""

    def thread_tag(self, iv: str) -> str:
        return iv


def test_which_loops_are_relaxed_for_which_memory() -> None:
    """Outside the place of computation all loops; inside it, threads that share the memory."""
    shared = {  # the memories that all iterations of a tag share, once what is computed is inside
        "": (),
        "pipeline": (),
        "blockIdx.x": ("global",),
        "threadIdx.x": ("global", "shared", "warp"),
        "threadIdx.y": ("global", "shared"),
        "vthread": ("global", "shared"),
        "cthread": ("global", "shared"),
    }
    ranks = {
        "global": StorageRank.GLOBAL,
        "shared": StorageRank.SHARED,
        "warp": StorageRank.WARP,
        "local": StorageRank.LOCAL,
    }
    for tag, scopes in shared.items():
        loop = tag in ("", "pipeline")
        for name, rank in ranks.items():
            inside, outside = (needs_relax(tag, found, (rank, rank), Tags()) for found in (True, False))  # type: ignore[arg-type]
            assert inside == (name in scopes), (tag, name)
            assert outside == (loop or tag in ("vthread", "cthread") or name in scopes), (tag, name)
    global_local = (StorageRank.GLOBAL, StorageRank.LOCAL)  # in a virtual thread, which threads share
    assert needs_relax("threadIdx.x", True, global_local, Tags())  # type: ignore[arg-type]
    assert not needs_relax("vthread", True, global_local, Tags())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tag", "scope"),
    [
        ("threadIdx.x", (1, 0)),
        ("threadIdx.z", (1, 2)),
        ("blockIdx.y", (0, 1)),
        ("vthread", (1, -1)),
        ("cthread", (1, -1)),
    ],
)
def test_threads_and_the_memory_they_have_of_their_own(tag: str, scope: tuple[int, int]) -> None:
    assert ThreadScope.of(tag) == scope and ThreadScope.launched(tag) == (scope[1] >= 0)
    _, b, s = sums()
    data, axis = b.op.axis[0], te.thread_axis(tag)
    for rank in (StorageRank.GLOBAL, StorageRank.SHARED, StorageRank.WARP, StorageRank.LOCAL):
        own = {0: ("SHARED", "WARP", "LOCAL"), 1: ("WARP", "LOCAL")}[scope[0]]
        expected = rank.name in own and not (rank.name == "WARP" and scope == (1, 0))
        assert has_memory_of_its_own(s[b], data, axis, {s[b]: rank}) == expected, rank
        assert not has_memory_of_its_own(s[b], b.op.reduce_axis[0], axis, {s[b]: rank})
    assert not has_memory_of_its_own(s[b], data, axis, {})


@pytest.mark.parametrize(
    ("step", "apart"),
    [
        (lambda s, x, t, i, j: s[t - 1, i, j] + x[t, i, j], (True, True)),
        (lambda s, x, t, i, j: s[t - 1, i, 0] + x[t, i, j], (True, False)),
        (lambda s, x, t, i, j: s[t - 1, 7 - i, j] + x[t, i, j], (False, True)),
        (lambda s, x, t, i, j: s[t - 1, j, i] + x[t, i, j], (False, False)),
        (lambda s, x, t, i, j: s[t - 1, i, j] + s[t - 1, i, i], (False, False)),
        (lambda s, x, t, i, j: s[t - 1, i, i] + s[t - 1, j, j], (False, False)),
        (lambda s, x, t, i, j: x[t, i, j], (False, False)),
    ],
)
def test_axes_of_a_scan_that_steps_keep_apart(step: Any, apart: tuple[bool, bool]) -> None:
    x = te.placeholder((5, 8, 8), name="X")
    state = te.placeholder((5, 8, 8), name="state")
    first = te.compute((1, 8, 8), lambda t, i, j: x[0, i, j], name="first")
    update = te.compute((5, 8, 8), lambda t, i, j: step(state, x, t, i, j), name="update")
    scan = te.scan(first, update, state, inputs=[x], name="scan")
    assert tuple(scan_fix_point_analysis(scan.op).values()) == apart


@pytest.mark.parametrize(("split", "overrun"), [("", set()), ("update", {"place"}), ("mid", {"place", "time"})])
def test_what_a_stage_in_a_split_loop_of_a_step_may_read(split: str, overrun: set[str]) -> None:
    """The first axis of an update is time; those of other stages in a step may be."""
    x, state = te.placeholder((5, 8), name="X"), te.placeholder((5, 8), name="state")
    first = te.compute((1, 8), lambda t, i: x[0, i], name="first")
    deep = te.compute((5, 8), lambda t, i: state[t - 1, i] + x[t, i], name="deep")
    mid = te.compute((5, 8), lambda t, i: deep[t, i] * 2.0, name="mid")
    update = te.compute((5, 8), lambda t, i: mid[t, i] + 1.0, name="update")
    scan = te.scan(first, update, state, inputs=[x], name="scan")
    s = te.create_schedule(scan.op)
    loops = {t.op.name: t.op.axis[1] for t in (mid, update)}
    if split:
        tensor = {"mid": mid, "update": update}[split]
        loops[split] = s[tensor].split(loops[split], 3)[1]
    s[mid].compute_at(s[update], loops["update"])
    s[deep].compute_at(s[mid], loops["mid"])
    context: Any = types.SimpleNamespace(stage_of={t.op: s[t] for t in (deep, mid, update)})
    assert _may_overrun(scan.op, context) == overrun


def test_what_is_read_stays_in_the_shape_where_that_is_less() -> None:
    size, n = IntImm("int32", 8), SizeVar("n")
    everything, analyzer = IntSet.everything(), Analyzer()

    def inside(low: Any, high: Any, extent: Any = size) -> str:
        found = _inside_shape(IntSet.interval(low, high), extent, analyzer)
        return f"{found.min_value} {analyzer.simplify(found.max_value) if found.has_upper_bound() else found.max_value}"

    assert inside(0, 7) == inside(-1, 7) == inside(0, 8) == inside(-3, 20) == "0 7"
    assert inside(1, 9) == "1 9" and inside(-1, 6) == "-1 6" and inside(2, 5) == "2 5"
    assert inside(-1, n, n) == "0 n - 1" and inside(-1, n - 2, n) == "-1 n - 2"
    assert inside(everything.min(), everything.max()) == "0 7"
    assert inside(everything.min(), 3) == "neg_inf 3" and inside(3, everything.max()) == "3 pos_inf"


def test_stages_by_tensor_operation_and_name() -> None:
    a, b, s = sums()
    assert s[b] is s[b.op] is s["B"] and s[a].op is a.op and b in s and b.op in s and "A" in s and "C" not in s
    other = te.compute((2,), lambda i: 1.0, name="Z")
    for key, message in ((other, "no stage `Z`"), ("Z", "no stage `Z`"), (3, "no stage `3`")):
        with pytest.raises(ScheduleError, match=message) as caught:
            s[key]
        assert caught.value.hint == "its stages are `A`, `B`"
    assert other not in s and repr(s) == "schedule(A, B)"
    twin = te.compute((12, 9), lambda i, j: b[i, j], name="B")
    with pytest.raises(ScheduleError, match="2 stages have the name `B`"):
        te.create_schedule(twin.op)["B"]


def _one_more(tensor: Any, i: Any) -> Any:
    return tensor[i] + 1.0


def test_groups_count_what_is_in_them() -> None:
    a = te.placeholder((8,), name="A")
    stages = [a]
    for name in "BCDE":
        stages.append(te.compute((8,), functools.partial(_one_more, stages[-1]), name=name))
    _, b, c, d, e = stages
    s = te.create_schedule(e.op)
    outer = s.create_group(d, a)
    assert outer.num_child_stages == 3 and s[b].group is outer and s[e].group is None
    inner = s.create_group(c, b, include_inputs=True)
    assert (inner.num_child_stages, outer.num_child_stages) == (2, 2)
    assert inner.group is outer and s[b].group is inner and s[d].group is outer


@pytest.mark.parametrize(("rows", "guarded"), [(15, False), (14, True), (17, False)])
def test_loops_that_end_with_what_is_needed_have_no_guard(rows: int, guarded: bool) -> None:
    """`B` is read from its third row on, in blocks of 4 that are computed by loops of 3; the last block needs 14 rows."""
    a = te.placeholder((rows, 5), name="A")
    b = te.compute((rows, 5), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((12, 5), lambda i, j: te.if_then_else(i + 3 < rows, b[i + 3, j], 0.0), name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 4)
    s[b].compute_at(s[c], outer)
    s[b].split(b.op.axis[0], 3)
    with PassContext(config={"te.tight_split": True}):
        n = s.normalize()
        text = str(te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False))
    assert ("T.likely" in text) == guarded, text


def test_attributes_of_loops_say_nothing_by_default() -> None:
    """A copy is changed on its own."""
    first = IterVarAttr()
    assert (first.dim_align_factor, first.dim_align_offset, first.iter_type) == (0, 0, IterVar.DataPar)
    assert first.bind_thread is None and first.tensor_intrin is None
    lists = ("prefetch_data", "prefetch_offset", "pragma_keys", "pragma_values")
    assert all(getattr(first, name) == [] for name in lists)
    second = first.copy()
    second.pragma_values.append(1)
    second.dim_align_offset = 3
    assert first.pragma_values == [] and first.dim_align_offset == 0 and second.copy().pragma_values == [1]


@pytest.mark.parametrize("effect", list(CallEffect), ids=lambda effect: effect.name)
def test_indices_that_change_something_are_computed_once(effect: CallEffect) -> None:
    op = next((op for _, op in sorted(Op.registry.items()) if op.effect == effect), None)
    if op is not None:
        call = Call("int32", op, [])
        assert _has_effect(call + 1) == (effect > CallEffect.READ_STATE)
    assert _has_effect(Call("int32", GlobalVar("f"), [])) and not _has_effect(SizeVar("n") + 1)


def test_rows_of_a_state_that_a_step_reads_before_its_own() -> None:
    state, x = te.placeholder((6, 8), name="state"), te.placeholder((6, 8), name="X")
    first = te.compute((2, 8), lambda t, i: x[t, i], name="first")
    body = lambda t, i: state[t - 1, 7 - i] + state[t - 2, i] * state[t - 1, i] + state[0, i] + x[t - 1, i]  # noqa: E731
    update = te.compute((6, 8), body, name="update")
    scan = te.scan(first, update, state, inputs=[x], name="scan")
    stage = te.create_schedule(scan.op)[update]
    t, i = (iv.var for iv in update.op.axis)
    blocks = Var("o") * 4 + Var("p")
    assert [str(row) for row in _earlier_rows(stage, update.op, {t: blocks, i: i})] == ["t - 1", "t - 2"]
    assert _earlier_rows(stage, update.op, {t: t, i: blocks}) == []


def test_a_copy_keeps_no_record() -> None:
    _, b, s = sums()
    with PassContext(config={"te.keep_schedule_record": True}):
        kept = te.create_schedule(b.op)
    kept[b].parallel(b.op.axis[0])
    for whole in (s, kept):
        again = whole.copy()
        again[b].unroll(b.op.axis[1])
        assert not again.keep_record and again.schedule_record == [] and again.primitive_record == []


def test_trivial_loops_are_left_out_unless_they_are_asked_for() -> None:
    a = te.placeholder((1, 4), name="A")
    b = te.compute((1, 4), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    bounds = te.schedule.InferBound(s)
    texts = [str(te.schedule.ScheduleOps(s, bounds, *keep)) for keep in ((), (False,), (True,))]
    assert ["T.grid(1, 4)" in text for text in texts] == [False, False, True] and texts[0] == texts[1]


@pytest.mark.parametrize(
    ("size", "row", "low", "inside"),
    [(2, 4, 2, True), (2, 4, 1, False), (3, 4, 0, False), (4, 4, 8, True), (0, 4, 0, False)],
)
def test_which_parts_of_rows_lie_inside_one(size: int, row: int, low: int, inside: bool) -> None:
    assert Fuse._inside_one_row(*[IntImm("int32", n) for n in (size, row, low)]) == inside


@pytest.mark.parametrize("later", ["inner", "outer"])
def test_a_place_moves_to_the_loop_that_it_became(later: str) -> None:
    """A split and then a fuse of the loop at which a stage is computed: it moves inside."""
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    s[b].compute_at(s[c], i)
    outer, inner = s[c].split(i, 2)
    if later == "inner":
        s[c].reorder(outer, j, inner)
        s[c].fuse(j, inner)
        loops = "for i_outer, j_i_inner_fused in T.grid(4, 16)"
    else:
        s[c].split(inner, 1)
        loops = "for i_outer, i_inner_outer in T.grid(4, 2)"
    text = str(tvmagic.lower(s, [a, c]))
    assert loops in text and text.index(loops) < text.index("B_1[")


def test_an_intrinsic_that_starts_and_updates_starts_outside_of_its_own_loops() -> None:
    """The start values are set for each call that updates, inside no loop that the intrinsic does itself."""

    def intrinsic() -> Any:
        a, b, r = te.placeholder((4, 4), name="a"), te.placeholder((4,), name="b"), te.reduce_axis((0, 4), name="r")
        c = te.compute((4,), lambda i: te.sum(a[i, r] * b[r], axis=r), name="c")
        rows = tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[te.var("s"), 1])

        def body(ins: Any, outs: Any) -> Any:
            calls = [tir.call_extern("int32", name, outs[0].access_ptr("rw")) for name in ("whole", "reset", "update")]
            return tuple(calls)

        return te.decl_tensor_intrin(c.op, body, binds={a: rows}, default_buffer_params={"offset_factor": 1})

    A, B, k = te.placeholder((8, 16), name="A"), te.placeholder((8, 16), name="B"), te.reduce_axis((0, 16), name="k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[j, k] * B[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    jo, ji = s[C].split(j, 4)
    ko, ki = s[C].split(k, 4)
    s[C].reorder(i, jo, ko, ji, ki)
    s[C].tensorize(ji, intrinsic())
    text = str(te.schedule.ScheduleOps(s, te.schedule.InferBound(s)))
    assert re.findall(r"in T.grid\(8, 2\)|in range\(\d+\)|\"(?:reset|update|whole)\"", text) == [
        "in T.grid(8, 2)", '"reset"', "in range(4)", '"update"',
    ]  # fmt: skip
