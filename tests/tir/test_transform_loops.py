"""Passes on loops: unrolling, partition, hoisting, virtual threads, double buffers, thread bindings."""

import numpy as np
import pytest
from pass_checks import module, script

import tvmagic
from tvmagic.errors import TVMagicError
from tvmagic.passes import PassContext
from tvmagic.tir.transform import (
    ConvertSSA,
    InjectDoubleBuffer,
    InjectVirtualThread,
    LoopPartition,
    RemoveNoOp,
    Simplify,
    UnrollLoop,
)


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
