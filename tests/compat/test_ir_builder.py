"""`tir.ir_builder`: statements built by calls, as TVM's own tests of passes build them."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refuses

import tvmagic
from tvmagic import ir, te, tir
from tvmagic.tir.transform import VectorizeLoop


def test_a_vectorized_loop() -> None:
    n = ir.Var("n", "int32")
    ib = tvmagic.tir.ir_builder.create()
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, n) as i:
        with ib.for_range(0, 4, kind="vectorize") as j:
            A[i * 4 + j] += tvmagic.tir.const(1, A.dtype)
    stmt = ib.get()
    assert isinstance(stmt, ir.For) and isinstance(stmt.body, tvmagic.tir.For)
    assert stmt.body.kind is tir.ForKind.VECTORIZED
    func = tvmagic.tir.PrimFunc([A, n], stmt)
    assert [b.name for b in func.buffer_map.values()] == ["A"]
    module = tvmagic.IRModule.from_expr(func)
    assert "A[i * 4 + j] = A[i * 4 + j] + T.float32(1.0)" in module.script()


def test_conditions() -> None:
    ib = tir.ir_builder.create()
    n = ir.Var("n", "int32")
    A = ib.pointer("float32", name="A")
    with ib.for_range(1, n, name="i") as i:
        with ib.if_scope(ib.likely(i % 2 == 0)):
            A[i] = A[i] + 1.0
        with ib.else_scope():
            A[0] = A[i] + 2.0
    body = ib.get()
    assert isinstance(body, ir.For) and str(body.extent) == "n - 1"
    branch = body.body
    assert isinstance(branch, ir.IfThenElse) and isinstance(branch.else_case, ir.BufferStore)
    assert branch.condition.op.name == "tir.likely"  # type: ignore[attr-defined]


def test_what_reaches_to_the_end_of_its_scope() -> None:
    ib = tir.ir_builder.create()
    tx = ir.Var("tx", "int32")
    with ib.new_scope():
        ib.scope_attr(tir.IterVar(None, tx, 1, "threadIdx.x"), "thread_extent", tx)
        x = ib.allocate("float32", (4, 8), name="x", scope="local")
        y = ib.let("y", tx + 1)
        x[y, 0] = x[1, 2] * 2.0
    ib.emit(tir.call_extern("int32", "f", y))
    whole = ib.get()
    assert isinstance(whole, ir.SeqStmt)
    attr = whole[0]
    assert isinstance(attr, ir.AttrStmt) and str(attr.value) == "T.max(1, tx)"
    assert isinstance(attr.body, ir.Allocate) and isinstance(attr.body.body, ir.LetStmt)


def test_a_flat_index_into_several_dimensions() -> None:
    ib = tir.ir_builder.create()
    x = ib.allocate("float32", (4, 8))
    load = x[ir.Var("i", "int32")]
    assert isinstance(load, ir.BufferLoad)
    assert [str(i) for i in load.indices] == ["i // 8 % 4", "i % 8"]


def test_loops_while_a_condition_holds() -> None:
    ib = tir.ir_builder.create()
    count = ib.allocate("int32", (1,), name="count", scope="local")
    count[0] = 0
    with ib.while_loop(count[0] < 10):
        count[0] += 1
    whole = ib.get()
    assert isinstance(whole, ir.Allocate) and isinstance(whole.body, ir.SeqStmt)
    assert isinstance(whole.body[1], ir.While)


def test_names_and_types_of_loop_variables() -> None:
    ib = tir.ir_builder.create()
    names = []
    for _ in range(5):
        with ib.for_range(0, 4) as i:
            names.append(i.name)
            ib.emit(tir.Evaluate(i))
    assert names == ["i", "j", "k", "i_0", "i_1"]
    with ib.for_range(0, tir.const(4, "int64")) as wide:
        assert wide.dtype == "int64"
    with ib.for_range(0, 4, dtype="int8") as small:
        assert small.dtype == "int8"
    assert isinstance(ib.get(), ir.SeqStmt)


def test_buffers_of_others() -> None:
    buffer = tir.decl_buffer((4,), "int8", name="B")
    ib = tir.ir_builder.create()
    B = ib.buffer_ptr(buffer)
    B[0] = tir.const(3, "int8")
    assert B.dtype == "int8" and B.asobject() is buffer
    store = ib.get()
    assert isinstance(store, ir.BufferStore) and store.buffer is buffer


def _open_scope(ib: Any) -> None:
    with ib.for_range(0, 4):
        ib.get()


@pytest.mark.parametrize(
    "action,code",
    [
        (lambda ib: ib.for_range(0, 4, kind="odd"), "ir_builder.unknown_loop_kind"),
        (lambda ib: ib.for_range(0, 4.5), "ir_builder.bounds_not_integer"),
        (lambda ib: ib.pointer("float32").__setitem__(0, 1), "ir_builder.dtypes_differ"),
        (lambda ib: ib.else_scope(), "ir_builder.else_without_if"),
        (lambda ib: ib.emit(3), "ir_builder.not_a_statement"),
        (_open_scope, "ir_builder.open_scope"),
    ],
)
def test_misuse(action: Any, code: str) -> None:
    with refuses(code):
        action(tir.ir_builder.create())


def test_a_buffer_of_the_builder_is_not_iterated() -> None:
    ib = tir.ir_builder.create()
    with pytest.raises(TypeError, match="not iterable"):
        sum(ib.allocate("float32", 4))


def test_the_node_of_a_thread_attribute_is_its_iteration_variable() -> None:
    ib = tir.ir_builder.create()
    tx = te.thread_axis("threadIdx.x")
    with ib.new_scope():
        ib.scope_attr(tx, "thread_extent", 4)
        ib.emit(tir.Evaluate(tx.var))
    stmt = ib.get()
    assert isinstance(stmt.node, tir.IterVar) and stmt.node.var.same_as(tx.var)


def test_vectorized_loop_of_builder_is_vectorized() -> None:
    n = ir.Var("n", "int32")
    ib = tir.ir_builder.create()
    a = ib.pointer("float32", name="A")
    with ib.for_range(0, n) as i:
        with ib.for_range(0, 4, kind="vectorize") as j:
            a[i * 4 + j] += tir.const(1, a.dtype)
    stmt = ib.get()
    assert isinstance(stmt.body, tir.For)
    mod = tvmagic.IRModule.from_expr(tir.PrimFunc([a, n], stmt))
    stmt = VectorizeLoop()(mod)["main"].body
    assert isinstance(stmt, tir.For) and not isinstance(stmt.body, tir.For)
    assert isinstance(stmt.body.indices[0], tir.Ramp) and isinstance(stmt.body.value, tir.Add)
    assert isinstance(stmt.body.value.a, tir.BufferLoad) and isinstance(stmt.body.value.b, tir.Broadcast)
