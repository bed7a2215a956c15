"""Stages inside loops of others: attachment, guards, groups and automatic inlining."""

from __future__ import annotations

import re
from typing import Any

import pytest
from refusals import refuses

from tvmagic import te, tir
from tvmagic.errors import ScheduleError
from tvmagic.te.schedule.auto_inline import is_broadcast, is_elem_wise, is_injective


def sums() -> tuple[Any, Any, Any]:
    a = te.placeholder((12, 9, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((12, 9), lambda i, j: te.sum(a[i, j, k], k), name="B")
    return a, b, te.create_schedule(b.op)


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
def test_elementwise_stages_are_inlined_automatically(body: Any, kinds: str) -> None:
    out = te.compute((6, 6), body, name="B")
    first = out[0] if isinstance(out, (list, tuple)) else out
    tests = {"elementwise": is_elem_wise, "broadcast": is_broadcast, "injective": is_injective}
    assert " ".join(name for name, test in tests.items() if test(first.op)) == kinds
    assert not any(test(MATRIX.op) for test in tests.values())


def test_reductions_are_not_inlined_automatically() -> None:
    k = te.reduce_axis((0, 6), "k")
    total = te.compute((8,), lambda i: te.sum(MATRIX[i, k], k), name="S")
    assert not is_injective(total.op) and not is_broadcast(total.op) and not is_elem_wise(total.op)


def test_stage_lookup_by_tensor_operation_and_name() -> None:
    a, b, s = sums()
    assert s[b] is s[b.op] is s["B"] and s[a].op is a.op and b in s and b.op in s and "A" in s and "C" not in s
    other = te.compute((2,), lambda i: 1.0, name="Z")
    for key, message in (
        (other, "te.schedule.unknown_stage"),
        ("Z", "te.schedule.unknown_stage"),
        (3, "te.schedule.unknown_stage"),
    ):
        with refuses(message, error=ScheduleError) as caught:
            s[key]
        assert caught.value.hint == "its stages are `A`, `B`"
    assert other not in s and repr(s) == "schedule(A, B)"
    twin = te.compute((12, 9), lambda i, j: b[i, j], name="B")
    with pytest.raises(ScheduleError):
        te.create_schedule(twin.op)["B"]


def test_tensorized_init_is_outside_intrinsic_loops() -> None:
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
        "in T.grid(8, 2)",
        '"reset"',
        "in range(4)",
        '"update"',
    ]
