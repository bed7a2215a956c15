"""`script.ir_builder`: functions and modules built by calls, as the parser builds them."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refuses

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.script import from_source
from tvmagic.script.ir_builder import IRBuilder
from tvmagic.script.ir_builder import ir as I
from tvmagic.script.ir_builder import tir as T


def test_a_function_with_blocks() -> None:
    with IRBuilder() as ib:
        with T.prim_func():
            T.func_name("main")
            T.func_attr({"tir.noalias": True})
            A = T.arg("A", T.Buffer((8, 8), "float32"))
            b = T.arg("b", T.handle())
            n = T.arg("n", T.int32)
            T.func_ret(T.int32)
            B = ib.name("B", T.match_buffer(b, (8, n)))
            with T.grid(8, 8) as (i, j):
                ib.name_many(["i", "j"], [i, j])
                with T.block("b"):
                    vi, vj = ib.name("v", T.axis.remap("SR", [i, j]))
                    T.where(i < 4)
                    T.reads(A[vi, vj])
                    T.writes(B[vi, 0])
                    T.block_attr({"key": 1})
                    with T.init():
                        T.buffer_store(B, 0, [vi, 0])
                    T.buffer_store(B, B[vi, 0] + A[vi, vj], [vi, 0])
            T.evaluate(T.ret(n))
    built = ib.get()
    read = from_source(
        """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), b: T.handle, n: T.int32) -> T.int32:
    T.func_attr({"tir.noalias": True})
    B = T.match_buffer(b, (8, n))
    for i, j in T.grid(8, 8):
        with T.block("b"):
            v_0, v_1 = T.axis.remap("SR", [i, j])
            T.where(i < 4)
            T.reads(A[v_0, v_1])
            T.writes(B[v_0, 0])
            T.block_attr({"key": 1})
            with T.init():
                B[v_0, 0] = 0.0
            B[v_0, 0] = B[v_0, 0] + A[v_0, v_1]
    return n
"""
    )
    assert isinstance(built, ir.PrimFunc)
    assert ir.structural_equal(built, read)
    assert built.script() == read.script()


def test_every_kind_of_frame() -> None:
    with IRBuilder() as ib:
        with T.prim_func(is_private=True):
            T.func_name("main")
            A = T.arg("A", T.Buffer((8,), "float32"))
            n = T.arg("n", T.int32())
            tx = ib.name("tx", T.env_thread("threadIdx.x"))
            with T.If(n < 3):
                with T.Then():
                    T.buffer_store(A, 1.0, [0])
                with T.Else():
                    T.buffer_store(A, 2.0, [0])
            with T.While(n < 4):
                T.evaluate(1)
            with T.Assert(n < 5, "small"):
                with T.LetStmt(n + 1) as x:
                    ib.name("x", x)
                    T.buffer_store(A, 3.0, [x])
            with T.allocate([4], "float32", "local") as p:
                ib.name("p", p)
                with T.attr(p, "key", 1):
                    T.evaluate(2)
            with T.allocate_const([1, 2], "int32", [2]) as c:
                ib.name("c", c)
                T.evaluate(3)
            with T.decl_buffer((8,), data=A.data) as B:
                ib.name("B", B)
                with T.launch_thread(tx, 8):
                    T.buffer_store(B, 4.0, [tx])
            with T.realize(A[0:4], "local"):
                T.evaluate(4)
            for kind in (T.serial, T.parallel, T.vectorized, T.unroll):
                with kind(0, 4) as i:
                    ib.name("i", i)
                    T.buffer_store(A, 5.0, [i])
            with T.thread_binding(0, 4, "threadIdx.y") as y:
                ib.name("y", y)
                T.buffer_store(A, T.broadcast(T.float32(1), 4), [T.ramp(y, 1, 4)])
            T.evaluate(T.vscale())
    text = ib.get().script(show_meta=False)
    read = from_source(text)
    assert ir.structural_equal(read, ib.get(), map_free_vars=True)
    for part in (
        "else:",
        "while n < 4:",
        'with T.Assert(n < 5, "small"):',
        "T.allocate([4]",
        "T.allocate_const",
        "T.unroll(4)",
    ):
        assert part in text


def test_modules() -> None:
    with IRBuilder() as ib:
        with I.ir_module():
            I.module_attrs({"level": 1})
            assert I.module_get_attr("level") == 1
            with T.prim_func():
                T.func_name("first")
                T.evaluate(0)
            with T.prim_func():
                T.func_name("second")
                T.evaluate(1)
    module = ib.get()
    assert isinstance(module, ir.IRModule)
    assert sorted(v.name_hint for v in module) == ["first", "second"]
    assert module.attrs == {"level": 1}


def test_a_statement_alone() -> None:
    with IRBuilder() as ib:
        with T.serial(8) as i:
            ib.name("i", i)
            T.evaluate(i)
    assert isinstance(ib.get(), ir.For) and ib.get().loop_var.name == "i"


def test_builders_nest() -> None:
    assert not IRBuilder.is_in_scope()
    with IRBuilder() as outer:
        assert IRBuilder.current() is outer
        with IRBuilder() as inner:
            assert IRBuilder.current() is inner
            T.evaluate(1)
        assert IRBuilder.current() is outer
        T.evaluate(2)
    assert not IRBuilder.is_in_scope()
    assert isinstance(inner.get(), ir.Evaluate) and isinstance(outer.get(), ir.Evaluate)


def test_frames_that_reach_to_the_end_of_the_one_around() -> None:
    """An allocation entered by hand is closed with the loop that it is in."""
    with IRBuilder() as ib:
        with T.serial(4):
            frame = T.allocate([4], "float32")
            frame.add_callback(lambda: frame.__exit__(None, None, None))
            frame.__enter__()
            T.evaluate(1)
    assert type(ib.get().body).__name__ == "Allocate"


def wrong(action: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught, IRBuilder() as ib:
        with T.prim_func():
            T.func_name("main")
            action(ib)
        ib.get()
    return caught.value


@pytest.mark.parametrize(
    "action,code",
    [
        (lambda ib: T.func_name("again"), "script.second_function_name"),
        (lambda ib: T.arg("x", 3), "script.unknown_parameter_type"),
        (lambda ib: T.reads(), "script.not_in_block"),
        (lambda ib: T.Then().__enter__(), "script.branch_outside_if"),
        (lambda ib: T.If(T.int32() < 3).__enter__(), "script.if_without_then"),
        (lambda ib: T.buffer_store(3, 1, [0]), "script.store_not_an_element"),
        (lambda ib: I.module_attrs({}), "script.module.misplaced"),
        (lambda ib: T.launch_thread(ir.Var("x", "int32"), 4), "script.unknown_thread"),
        (lambda ib: ib.name_many(["a"], []), "script.builder.wrong_name_count"),
        (lambda ib: ib.close(T.serial(4)), "script.builder.frame_not_open"),
    ],
)
def test_misuse(action: Any, code: str) -> None:
    assert code == wrong(action).code


def test_errors_inside_frames_leave_no_frame_open() -> None:
    with IRBuilder() as ib:
        with pytest.raises(RuntimeError), T.prim_func():
            with T.serial(4):
                raise RuntimeError
        assert ib.frames == []
    with refuses("script.builder.nothing_built"):
        ib.get()
    with refuses("script.builder.statement_outside"), IRBuilder():
        T.evaluate(1)
        T.evaluate(2)
