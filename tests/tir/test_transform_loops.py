"""Passes on loops: unrolling, partition, hoisting, virtual threads, double buffers, thread bindings."""

import numpy as np
import pytest
from pass_checks import check, module, parse, script

import tvmagic
from tvmagic.errors import TVMagicError
from tvmagic.ir import assert_structural_equal
from tvmagic.passes import PassContext, recording
from tvmagic.tir.analysis import verify_ssa
from tvmagic.tir.transform import (
    ConvertSSA,
    HoistExpression,
    HoistIfThenElse,
    InjectDoubleBuffer,
    InjectVirtualThread,
    InsertHoistedExpression,
    LiftThreadBinding,
    LoopPartition,
    RemoveNoOp,
    Simplify,
    UnrollLoop,
)


def test_unroll_writes_out_the_iterations() -> None:
    check(
        [UnrollLoop(), Simplify()],
        """
        def main(A: T.Buffer((8,), "int32"), n: T.int32):
            for i in range(n):
                for j in T.unroll(2):
                    A[i + j] = j
        """,
        """
        def main(A: T.Buffer((8,), "int32"), n: T.int32):
            for i in range(n):
                A[i] = 0
                A[i + 1] = 1
        """,
    )


def test_short_loops_are_unrolled_within_the_limit_of_steps() -> None:
    mod = module(
        'def main(A: T.Buffer((8,), "int32")):\n    for i in range(4):\n        A[i] = 1\n    for j in range(8):\n        A[j] = 2'
    )
    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": 4}}):
        text = script(UnrollLoop()(mod))
    assert text.count("= 1") == 4 and "for j in range(8)" in text
    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8, "explicit_unroll": False}}):
        assert script(UnrollLoop()(mod)).count("T.unroll") == 2
    with PassContext(config={"tir.UnrollLoop": {"auto_max_extent": 4}}):
        assert "range(4)" not in script(UnrollLoop()(mod))


def test_pragmas_of_a_loop_stand_above_the_options() -> None:
    mod = module(
        """
        def main(A: T.Buffer((8,), "int32")):
            with T.attr(0, "pragma_auto_unroll_max_step", 4):
                with T.attr(0, "pragma_unroll_explicit", 0):
                    for i in range(4):
                        A[i] = 1
        """
    )
    assert "for i in T.unroll(4)" in script(UnrollLoop()(mod))


def test_unroll_of_an_unknown_extent_names_the_loop() -> None:
    mod = module('def main(A: T.Buffer((8,), "int32"), n: T.int32):\n    for lane in T.unroll(n):\n        A[lane] = 1')
    with pytest.raises(TVMagicError, match="`lane`.*`n`"):
        UnrollLoop()(mod)


def test_an_unknown_option_of_a_pass_is_named() -> None:
    with pytest.raises(TVMagicError, match="`tir.UnrollLoop`.*`auto_max_steps`"):
        PassContext(config={"tir.UnrollLoop": {"auto_max_steps": 4}})
    for wrong in ({"tir.UnrollLoop": 1}, {"tir.UnrollLoop": {"steps": 1}}, {"tir.NoPass": True}):
        with pytest.raises(AttributeError):
            PassContext(config=wrong)
    options = PassContext(config={"tir.UnrollLoop": {"auto_max_step": 4}}).config["tir.UnrollLoop"]
    assert options.auto_max_step == 4 and options.explicit_unroll and not hasattr(options, "steps")


def test_every_copy_of_a_definition_gets_a_variable_of_its_own() -> None:
    mod = module(
        """
        def main(A: T.Buffer((8,), "float32")):
            for j in T.unroll(2):
                v: T.float32 = A[j]
                for k in range(4):
                    A[k] = v
        """
    )
    first, second = UnrollLoop()(mod)["main"].body.seq
    assert first.var is not second.var and first.body.loop_var is not second.body.loop_var
    body = ConvertSSA()(mod)["main"].body
    assert body is mod["main"].body  # nothing is defined twice


PARTITION = """
        def main(A: T.Buffer((100,), "float32"), n: T.int32):
            for i in range((n + 3) // 4):
                for j in range(4):
                    if T.likely(i * 4 + j < n):
                        A[i * 4 + j] = T.float32(1)
        """


def test_partition_splits_at_where_the_condition_changes() -> None:
    text = script(RemoveNoOp()(Simplify()(LoopPartition()(module(PARTITION)))))
    assert "likely" not in text
    first, second = text.split("    for ")[1:]
    assert "if " not in first and "if " in second  # the whole blocks of four, and the rest


def test_partition_of_constant_loops_is_asked_for() -> None:
    before = """
        def main(A: T.Buffer((36,), "float32")):
            for i, j in T.grid(4, 10):
                if T.likely(i * 10 + j < 36):
                    A[i * 10 + j] = T.float32(1)
        """
    assert "if i * 10 + j < 36" in script(LoopPartition()(module(before)))
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}), recording() as record:
        result = RemoveNoOp()(Simplify()(LoopPartition()(module(before))))
    assert script(result) == script(
        module(
            """
        def main(A: T.Buffer((36,), "float32")):
            for i, j in T.grid(3, 10):
                A[i * 10 + j] = T.float32(1)
            for j in range(6):
                A[j + 30] = T.float32(1)
        """
        )
    )
    assert record.notes("partition")


def test_a_condition_moves_out_of_the_loops_it_does_not_depend_on() -> None:
    check(
        HoistIfThenElse(),
        """
        def main(A: T.Buffer((64,), "float32"), n: T.int32):
            for i, j in T.grid(4, 16):
                if i < n:
                    A[i * 16 + j] = T.float32(1)
        """,
        """
        def main(A: T.Buffer((64,), "float32"), n: T.int32):
            for i in range(4):
                if i < n:
                    for j in range(16):
                        A[i * 16 + j] = T.float32(1)
        """,
    )


def test_a_condition_beside_other_statements_stays() -> None:
    before = """
        def main(A: T.Buffer((64,), "float32"), n: T.int32):
            for i in range(4):
                A[i] = T.float32(2)
                if n < 3:
                    A[i] = T.float32(1)
        """
    check(HoistIfThenElse(), before, before)


def test_a_condition_on_a_let_that_stays_is_not_hoisted() -> None:
    text = script(
        HoistIfThenElse()(
            module(
                """
        def main(A: T.Buffer((64,), "float32"), n: T.int32):
            for i in range(4):
                v: T.float32 = A[i]
                if v < T.float32(0):
                    A[i] = T.float32(1)
        """
            )
        )
    )
    assert text.index("v:") < text.index("if v <")


def test_a_condition_on_one_side_of_a_branch_stays_in_the_loops_around_the_branch() -> None:
    """Around them it would leave out what the other side does; around a loop inside its own side it leaves out nothing."""
    before = """
        def main(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
            for i in range(8):
                if B[i] < 3:
                    for j in range(4):
                        if n < 3:
                            A[i, j] = 1
                else:
                    A[i, 0] = 2
        """
    after = before.replace(
        """for j in range(4):
                        if n < 3:""",
        """if n < 3:
                        for j in range(4):""",
    )
    check(HoistIfThenElse(), before, after)
    straight = before.replace("for j in range(4):", "if n < 5:").replace("A[i, j]", "A[i, 1]")
    check(HoistIfThenElse(), straight, straight)


def test_expressions_and_lets_are_hoisted() -> None:
    text = script(
        HoistExpression()(
            module(
                """
        def main(A: T.Buffer((64,), "float32"), n: T.int32):
            for i in range(16):
                A[i] = T.if_then_else(n < 3, A[i], T.float32(0))
        """
            )
        )
    )
    assert text.index("if n < 3") < text.index("for i")


def test_few_virtual_threads_are_written_out() -> None:
    check(
        [InjectVirtualThread(), Simplify()],
        """
        def main(A: T.Buffer((8,), "float32")):
            vt = T.launch_thread("vthread", 2)
            B = T.allocate([1], "float32", "local")
            b = T.Buffer((1,), data=B, scope="local")
            b[0] = A[vt]
            A[vt + 2] = b[0]
        """,
        """
        def main(A: T.Buffer((8,), "float32")):
            B = T.allocate([2], "float32", "local")
            b = T.Buffer((2,), data=B, scope="local")
            b[0] = A[0]
            b[1] = A[1]
            A[2] = b[0]
            A[3] = b[1]
        """,
    )


def test_many_virtual_threads_become_a_loop() -> None:
    text = script(
        InjectVirtualThread()(
            module(
                'def main(A: T.Buffer((32,), "float32")):\n    vt = T.launch_thread("vthread", 32)\n    A[vt] = T.float32(1)'
            )
        )
    )
    assert "for vt_s in range(32)" in text


def test_assertions_of_virtual_threads_are_of_each() -> None:
    """What is asserted may differ from thread to thread, as may what is behind it."""
    check(
        InjectVirtualThread(),
        """
        def main(A: T.Buffer((4,), "int32"), n: T.int32):
            with T.launch_thread("vthread", 2) as vx:
                assert n > 0, "none"
                assert A[vx] > n, "too small"
                A[vx + 2] = n
        """,
        """
        def main(A: T.Buffer((4,), "int32"), n: T.int32):
            assert n > 0, "none"
            with T.Assert(A[0] > n, "too small"):
                A[T.Add(0, 2)] = n
            assert A[1] > n, "too small"
            A[T.Add(1, 2)] = n
        """,
    )


@pytest.mark.parametrize(
    "around",
    [
        "if A[vt] > T.float32(0):",
        "with T.LetStmt(A[vt]) as x:",
        "for k in range(T.Cast('int32', A[vt])):",
        "with T.Assert(A[vt] > T.float32(0), 'small'):",
        "with T.attr(T.int32(0), 'note', A[vt]):",
        "for k in range(2):",
        "if A[7] > T.float32(0):",
    ],
)
def test_memory_of_virtual_threads_inside_statements_that_differ(around: str) -> None:
    """Whatever is around a statement, each thread has its own elements."""
    mod = module(f"""
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((2,), "float32")):
    vt = T.launch_thread("vthread", 2)
    B = T.allocate([2], "float32", "local")
    b = T.Buffer((2,), data=B, scope="local")
    b[0] = A[vt]
    {around}
        b[1] = b[0] + A[2]
        C[vt] = b[1]
""")
    after = InjectVirtualThread()(mod)
    assert "vthread" not in script(after)
    values, result = np.arange(1, 9, dtype="float32"), np.zeros(2, "float32")
    tvmagic.build(after)(values, result)
    assert result.tolist() == [4, 5]


@pytest.mark.parametrize("mask", [0, 1, 2, 3])
@pytest.mark.parametrize("indices", ["A[vt]", "A[3]"])
def test_memory_that_a_call_only_writes_gives_nothing_to_others(mask: int, indices: str) -> None:
    """Memory is of each virtual thread if a call fills it from what is of each, by pointers that the call may read."""
    text = script(
        InjectVirtualThread()(
            module(f"""
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    vt = T.launch_thread("vthread", 2)
    B = T.allocate([1], "float32", "local")
    b = T.Buffer((1,), data=B, scope="local")
    D = T.allocate([1], "float32", "local")
    d = T.Buffer((1,), data=D, scope="local")
    b[0] = {indices}
    T.evaluate(T.call_extern("int32", "f", T.tvm_access_ptr(T.type_annotation("float32"), D, 0, 1, 2), T.tvm_access_ptr(T.type_annotation("float32"), B, 0, 1, {mask})))
    C[vt] = b[0]
""")
        )
    )
    each = indices == "A[vt]"
    assert ('b = T.allocate([2], "float32"' in text) is each
    assert ('d = T.allocate([2], "float32"' in text) is (each and mask in (1, 3))


@pytest.mark.parametrize("mask", [0, 1, 2, 3])
def test_memory_that_a_call_only_reads_stays_common(mask: int) -> None:
    text = script(
        InjectVirtualThread()(
            module(f"""
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    vt = T.launch_thread("vthread", 2)
    B = T.allocate([1], "float32", "local")
    b = T.Buffer((1,), data=B, scope="local")
    b[0] = A[3]
    T.evaluate(T.call_extern("int32", "f", T.tvm_access_ptr(T.type_annotation("float32"), B, 0, 1, {mask}), vt))
    C[vt] = b[0]
""")
        )
    )
    assert ('b = T.allocate([2], "float32"' in text) is (mask in (2, 3))


def test_a_virtual_thread_needs_a_constant_extent() -> None:
    mod = module(
        'def main(A: T.Buffer((32,), "float32"), n: T.int32):\n    vt = T.launch_thread("vthread", n)\n    A[vt] = T.float32(1)'
    )
    with pytest.raises(TVMagicError, match="`vt`"):
        InjectVirtualThread()(mod)


DOUBLE = """
        def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
            for i in range(16):
                B = T.allocate([4], "float32", "global")
                b = T.Buffer((4,), data=B)
                with T.attr(B, "double_buffer_scope", 1):
                    for j in range(4):
                        b[j] = A[i * 4 + j]
                for j in range(4):
                    C[i * 4 + j] = b[j] + T.float32(1)
        """


def test_a_double_buffer_is_filled_one_iteration_ahead() -> None:
    text = script(InjectDoubleBuffer()(module(DOUBLE)))
    assert "T.allocate([8]" in text and text.count("double_buffer_write") == 1
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 2}}):
        assert "i_outer" in script(InjectDoubleBuffer()(module(DOUBLE)))


def test_a_double_buffer_is_filled_by_a_single_store() -> None:
    """As each thread of a kernel does whose share of a tile is one vector."""
    loop = """for j in range(4):
                        b[j] = A[i * 4 + j]"""
    assert loop in DOUBLE
    text = script(InjectDoubleBuffer()(module(DOUBLE.replace(loop, "b[0:4] = A[i * 4 : i * 4 + 4]"))))
    assert "T.allocate([8]" in text and text.count("double_buffer_write") == 1


def test_double_buffer_errors() -> None:
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 3}}):
        with pytest.raises(TVMagicError, match="0, 1 or an even number"):
            InjectDoubleBuffer()(module(DOUBLE))
    outside = module(
        """
        def main(A: T.Buffer((64,), "float32")):
            B = T.allocate([4], "float32", "global")
            b = T.Buffer((4,), data=B)
            with T.attr(B, "double_buffer_scope", 1):
                b[0] = A[0]
        """
    )
    with pytest.raises(TVMagicError, match="is in no loop"):
        InjectDoubleBuffer()(outside)


def test_loops_bound_to_one_axis_become_one() -> None:
    text = script(
        LiftThreadBinding()(
            module(
                """
        def main(A: T.Buffer((8, 8), "float32")):
            for i in range(8):
                for x in T.thread_binding(8, thread="threadIdx.x"):
                    A[i, x] = T.float32(1)
        """
            )
        )
    )
    assert 'for threadIdx_x in T.thread_binding(8, thread="threadIdx.x")' in text and "A[i, threadIdx_x]" in text


def test_loops_over_threads_that_are_hoisted_apart_define_their_own_axes() -> None:
    mod = module(
        """
        def main(A: T.Buffer((16,), "int32"), n: T.int32):
            for i in T.thread_binding(4, thread="threadIdx.y"):
                if n < 3:
                    A[i] = 1
                else:
                    A[i] = 2
        """
    )
    func = InsertHoistedExpression()(mod)["main"]
    assert verify_ssa(func)
    assert_structural_equal(parse(script(func)).body, func.body, map_free_vars=True)


@pytest.mark.parametrize(("flags", "moved"), [(15, True), (7, False), (9, True), (1, False), (8, False)])
def test_conditions_on_blocks_of_threads_move_if_asked_for(flags: int, moved: bool) -> None:
    text = """
        def main(A: T.Buffer((4, 4), "float32"), n: T.int32):
            bx = T.launch_thread("blockIdx.x", 4)
            for j in range(4):
                if bx < n:
                    A[bx, j] = T.float32(1)
        """
    with PassContext(config={"tir.HoistExpression": {"hoisted_conditionals": flags, "hoisted_let_bindings": 0}}):
        new = script(HoistExpression()(module(text)))
    assert (new.index("if bx < n") < new.index("for j")) is moved
