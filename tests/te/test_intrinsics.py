"""Tensor intrinsics and extern operations: what they become, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dot_call import dot
from refusals import refuses
from statements import loop
from te_execution import largest_difference

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import ScheduleError, TVMagicError
from tvmagic.te.reference import evaluate


def loop_body(value: Any) -> Any:
    """A statement that stores `value(x)` for each element of a vector."""

    def body(ins: Any, outs: Any) -> Any:
        return loop("q", ins[0].shape[0], lambda q: outs[0].vstore([q], value(ins[0].vload([q]))))

    return body


def increment(size: int) -> Any:
    a = te.placeholder((size,), name="a")
    z = te.compute((size,), lambda i: a[i] + 1.0, name="z")
    return te.decl_tensor_intrin(
        z.op, loop_body(lambda x: x + 1.0), "increment", default_buffer_params={"offset_factor": 1}
    )


def vectors(n: int = 8, m: int = 16) -> tuple[Any, Any]:
    A = te.placeholder((n, m), name="A")
    return A, te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="C")


def test_a_loop_becomes_the_intrinsic() -> None:
    A, C = vectors()
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], increment(16))
    assert "for i, q in T.grid(8, 16)" in str(tvmagic.lower(s, [A, C])["main"])
    assert largest_difference(s, [A, C]) == 0


@pytest.mark.parametrize("with_init", [True, False])
def test_a_reduction_over_several_calls(with_init: bool) -> None:
    A = te.placeholder((6, 32), name="A")
    B = te.placeholder((5, 32), name="B")
    k = te.reduce_axis((0, 32), name="k")
    C = te.compute((6, 5), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(k, 8)
    s[C].tensorize(inner, dot(8, with_init))
    assert largest_difference(s, [A, B, C]) < 1e-5


def test_a_reduction_in_one_call_needs_neither_a_start_nor_an_update() -> None:
    x = te.placeholder((32,), name="x")
    q = te.reduce_axis((0, 32), name="q")
    z = te.compute((1,), lambda i: te.sum(x[q], axis=q), name="z")

    def body(ins: Any, outs: Any) -> Any:
        (source,), (target,) = ins, outs
        add = loop("p", 32, lambda p: target.vstore([0], target.vload([0]) + source.vload([p])))
        return tir.stmt_seq(target.vstore([0], tir.const(0.0)), add)

    total = te.decl_tensor_intrin(z.op, body, "total", default_buffer_params={"offset_factor": 1})
    A = te.placeholder((6, 32), name="A")
    k = te.reduce_axis((0, 32), name="k")
    C = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].tensorize(k, total)
    assert largest_difference(s, [A, C]) < 1e-5


def test_without_a_start_no_loop_is_of_data_and_reduction() -> None:
    A = te.placeholder((3, 24), name="A")
    B = te.placeholder((24,), name="B")
    k = te.reduce_axis((0, 24), "k")
    C = te.compute((3,), lambda i: te.sum(A[i, k] * B[k], axis=k), name="C")
    for with_init in (True, False):
        s = te.create_schedule(C.op)
        outer, inner = s[C].split(k, 8)
        s[C].fuse(C.op.axis[0], outer)
        s[C].tensorize(inner, dot(8, with_init))
        if with_init:
            assert largest_difference(s, [A, B, C]) < 1e-5
        else:
            n = s.normalize()
            bounds = te.schedule.InferBound(n)
            assert "`i.k.outer.fused`" in refused(lambda: te.schedule.ScheduleOps(n, bounds, False))


def test_a_stage_made_of_calls() -> None:
    A = te.placeholder((8, 16), name="A")
    call = increment(16)
    B = te.compute((8, 16), lambda i: call(A[i, 0:16]), name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 3)
    assert B.op.kind == "tensor_compute_op" and len(B.op.axis) == 2
    assert largest_difference(s, [A, B]) == 0


@pytest.mark.parametrize("factor", [0, 2, 3])
def test_a_stage_made_of_calls_is_computed_in_another_memory(factor: int) -> None:
    A = te.placeholder((8, 16), name="A")
    call = increment(16)
    B = te.compute((8, 16), lambda i: call(A[i, 0:16]), name="B")
    s = te.create_schedule(B.op)
    if factor:
        s[B].split(B.op.axis[0], factor)
    cache = s.cache_write(B, "local")
    assert cache.op.kind == "tensor_compute_op" and cache.name == "B.local" and s[B].op.kind == "compute"
    s[cache].compute_at(s[B], s[B].leaf_iter_vars[0])
    text = str(tvmagic.lower(s, [A, B])["main"])
    assert "T.allocate([16]" in text and '"local"' in text
    assert largest_difference(s, [A, B]) == 0


def test_a_stage_made_of_calls_feeds_others() -> None:
    A = te.placeholder((8, 16), name="A")
    call = increment(16)
    E = te.compute((8, 16), lambda i, j: A[i, j] * 2.0, name="E")
    B = te.compute((8, 16), lambda i: call(E[i, 0:16]), name="B")
    D = te.compute((8, 16), lambda i, j: B[i, j] - 1.0, name="D")
    s = te.create_schedule(D.op)
    s[B].compute_at(s[D], D.op.axis[0])
    s[E].compute_at(s[B], B.op.axis[0])
    assert largest_difference(s, [A, D]) < 1e-6


def test_a_call_computes_all_of_its_part() -> None:
    A = te.placeholder((8, 16), name="A")
    call = increment(16)
    B = te.compute((8, 16), lambda i: call(A[i, 0:16]), name="B")
    D = te.compute((5, 3), lambda i, j: B[i + 1, j + 2] - 1.0, name="D")
    s = te.create_schedule(D.op)
    n = s.normalize()
    assert "B[1:6, 0:16]" in str(te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False))
    assert largest_difference(s, [A, D]) < 1e-6


def refused(call: Any) -> str:
    with pytest.raises(TVMagicError) as caught:
        call()
    return str(caught.value)


def lower(tensor: Any, loop: Any, intrin: Any, **split: int) -> None:
    s = te.create_schedule(tensor.op)
    if split:
        _, loop = s[tensor].split(loop, **split)
    s[tensor].tensorize(loop, intrin)
    n = s.normalize()
    te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False)


def test_what_is_refused() -> None:
    A, C = vectors()
    D = te.compute((8, 16), lambda i, j: A[i, j] * 2.0, name="D")
    with refuses("te.tensorize.body_differs", names="`D`.*`increment`"):
        lower(D, D.op.axis[1], increment(16))
    with refuses("te.tensorize.missing_axis", names="`i`"):
        lower(C, C.op.axis[0], increment(16))
    with refuses("te.tensorize.guard_depends_on_loop"):
        lower(C, C.op.axis[1], increment(5), factor=5)
    two = te.create_schedule(C.op)
    for iv in C.op.axis:
        two[C].tensorize(iv, increment(16))
    n = two.normalize()
    bounds = te.schedule.InferBound(n)
    with refuses("te.tensorize.nested"):
        te.schedule.ScheduleOps(n, bounds, False)
    with refuses("te.intrinsic.wrong_slice_count"):
        increment(16)(A[0, 0:16], A[1, 0:16])
    with refuses("te.intrinsic.input_not_placeholder"):
        te.decl_tensor_intrin(te.compute((4,), lambda i: C[i, i]).op, None)


def test_a_stage_inside_a_tensorized_loop() -> None:
    A, C = vectors()
    D = te.compute((8, 16), lambda i, j: C[i, j] + 1.0, name="D")
    s = te.create_schedule(D.op)
    s[C].compute_at(s[D], D.op.axis[1])
    s[D].tensorize(D.op.axis[1], increment(16))
    n = s.normalize()
    bounds = te.schedule.InferBound(n)
    with pytest.raises(ScheduleError, match="`C`.*`j`.*`D`"):
        te.schedule.ScheduleOps(n, bounds, False)


def test_extern_runs_a_statement() -> None:
    A = te.placeholder((16,), name="A")
    E = te.extern((16,), [A], loop_body(lambda x: x * 2.0), name="E")
    D = te.compute((16,), lambda i: E[i] + 1.0, name="D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], 4)
    assert largest_difference(s, [A, D]) < 1e-6
    a = np.random.default_rng(0).random(16).astype("float32")
    np.testing.assert_allclose(evaluate(D, {A: a}), a * 2 + 1, rtol=1e-6)
    packed = te.extern((16,), [A], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="P")
    with pytest.raises(TVMagicError, match="`tir.tvm_call_packed`"):
        evaluate(packed, {A: a})


def test_extern_in_a_function() -> None:
    A = te.placeholder((16,), name="A")
    E = te.extern((16,), [A], loop_body(lambda x: x * 2.0), name="E")
    text = te.create_prim_func([A, E]).script()
    assert "E[q] = A[q] * T.float32(2.0)" in text and 'with T.block("E"):' in text


def test_an_extern_between_others_in_a_function_runs() -> None:
    """Its output is allocated with an offset that nothing defines."""
    A = te.placeholder((16,), name="A")
    E = te.extern((16,), [A], loop_body(lambda x: x * 2.0), name="E")
    D = te.compute((16,), lambda i: E[i] + 1.0, name="D")
    a, d = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    tvmagic.build(te.create_prim_func([A, D]))(a, d)
    assert (d == a * 2 + 1).all()


def test_extern_primfunc() -> None:
    X = te.placeholder((16,), name="X")
    Y = te.compute((16,), lambda i: X[i] * 3.0, name="Y")
    func = te.create_prim_func([X, Y])
    A = te.placeholder((16,), name="A")
    B = te.extern_primfunc([A], func)
    assert [int(x) for x in B.shape] == [16] and B.dtype == "float32"


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_a_tensor_from_an_array(dtype: str) -> None:
    values = np.arange(24).reshape(4, 6).astype(dtype)
    A = te.placeholder((4, 6), dtype, name="A")
    W = te.from_array(values, name="W")
    D = te.compute((4, 6), lambda i, j: A[i, j] + W[i, 5 - j], name="D")
    values[...] = 0  # the tensor keeps what the array held
    assert W.dtype == dtype and W.op.array[3, 5] == 23
    assert largest_difference(te.create_schedule(D.op), [A, D]) == 0
    a = np.ones((4, 6), dtype)
    d = np.zeros_like(a)
    tvmagic.build(te.create_prim_func([A, D]))(a, d)
    np.testing.assert_array_equal(d, 1 + W.op.array[:, ::-1])


def test_the_record_of_calls() -> None:
    from tvmagic.passes import PassContext

    _, C = vectors()
    with PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(C.op)
        s[C].tile(*C.op.axis, 4, 4)
        s.cache_write(C, "local")
    assert s.primitive_record == ["vanilla", "split", "split", "reorder", "set_scope", "cache_write"]
    assert [len(x[C].relations) for x in s.schedule_record[:3]] == [0, 1, 2]


def test_start_values_and_parts_of_a_sum_in_loops_of_their_own() -> None:
    A = te.placeholder((4, 16), name="A")
    B = te.placeholder((3, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    C = te.compute((3, 4), lambda i, j: te.sum(A[j, k] * B[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(k, 8)
    around, one = s[C].split(C.op.axis[1], 1)
    s[C].reorder(outer, around, one)
    s[C].tensorize(one, dot(8))
    assert "assert" not in str(tvmagic.lower(s, [A, B, C])["main"])
    assert largest_difference(s, [A, B, C]) < 1e-5


def test_what_calls_in_the_loop_of_another_stage_read_is_computed_for_all_iterations() -> None:
    A = te.placeholder((6, 16), name="A")
    call = increment(16)
    E = te.compute((6, 16), lambda i, j: A[i, j] * 2.0, name="E")
    B = te.compute((6, 16), lambda i: call(E[i, 0:16]), name="B")
    D = te.compute((6, 16), lambda i, j: B[i, j] - 1.0, name="D")
    s = te.create_schedule(D.op)
    s[B].compute_at(s[D], D.op.axis[0])
    n = s.normalize()
    assert "E[0:6, 0:16]" in str(te.schedule.ScheduleOps(n, te.schedule.InferBound(n), False))
    assert largest_difference(s, [A, D]) < 1e-6


@pytest.mark.parametrize("inside", [False, True])
def test_threads_are_outside_of_what_is_tensorized(inside: bool) -> None:
    A, C = vectors()
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[1], 8)
    s[C].bind(inner if inside else C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[C].tensorize(outer if inside else inner, increment(8))
    if inside:
        with pytest.raises(ScheduleError, match="`.*`"):
            tvmagic.lower(s, [A, C])
    else:
        assert "increment" in str(s[C].iter_var_attrs[inner].tensor_intrin.name)
        assert largest_difference(s, [A, C]) == 0
