"""Loops, indices and guards are computed in int64 where int32 is too small for them."""

from __future__ import annotations

import mmap
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import codegen, te, tir
from tvmagic.errors import TVMagicError
from tvmagic.ir import post_order_visit, structural_equal
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.passes import recording
from tvmagic.script import from_source

NEAR = 2**31 - 3
SEVEN = te.const(7, "uint8")


def virtual(size: int) -> np.ndarray[Any, Any]:
    """Zeros that take no memory before they are written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return np.frombuffer(mmap.mmap(-1, size, flags), "uint8")


def summed(split: str) -> tuple[Any, Any]:
    n = te.var("n")
    A = te.placeholder((n,), "uint8", name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((1,), lambda i: te.sum(A[k].astype("int64"), axis=k), name="B")
    s = te.create_schedule(B.op)
    exec(split, {"s": s, "B": B})
    return tvmagic.build(s, [A, B]), n


def test_sum_over_nearly_2_31_elements_reads_each_once() -> None:
    """A vector of 64 lanes at once, so that the test takes less than a second."""
    built, _ = summed(
        "o, i = s[B].split(B.op.reduce_axis[0], 64)\nrf = s.rfactor(B, i)\ns[rf].vectorize(s[rf].op.axis[0])"
    )
    memory = virtual(NEAR + 4096)
    array, out = memory[:NEAR], np.zeros(1, "int64")
    array[[0, 1, NEAR // 2, NEAR - 2, NEAR - 1]] = 1, 2, 4, 8, 16
    memory[NEAR:] = 100
    built(array[:1000], out)
    assert out[0] == 3
    built(array, out)
    assert out[0] == 31


SKIP = tir.Evaluate(0)


def attributes(body: Any) -> list[Any]:
    found: list[Any] = []
    post_order_visit(body, lambda node: found.append(node) if getattr(node, "attr_key", "") == "fit_int32" else None)
    return found


def test_the_attribute_of_widened_indices_parses_to_an_equal_one() -> None:
    n = te.var("n")
    A = te.placeholder((n,), "uint8", name="A")
    B = te.compute((n,), lambda i: A[i] + SEVEN, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 64)[1])
    last = codegen.last_program(tvmagic.lower(s, [A, B]))
    (made,), (again,) = (attributes(program["main"].body) for program in (last, from_source(last.script())))
    assert structural_equal(made.replace(body=SKIP), again.replace(body=SKIP), map_free_vars=True)


EXAMPLES = {
    "nparts": "s[B].split(B.op.axis[0], nparts=8)",
    "unrolled": "s[B].unroll(s[B].split(B.op.axis[0], 12)[1])",
    "parallel": "o, i = s[B].split(B.op.axis[0], 48)\ns[B].parallel(s[B].split(o, nparts=5)[0])",
    "vectors": "o, i = s[B].split(B.op.axis[0], 48)\ns[B].vectorize(s[B].split(i, 16)[1])",
}


@pytest.mark.soak
@pytest.mark.parametrize("size", ["te.var('n')", str(NEAR)], ids=["symbolic", "constant"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_element_of_nearly_2_31_is_written(name: str, size: str) -> None:
    text = f"""
    import numpy as np, tvmagic
    from tvmagic import te
    B = te.compute(({size},), lambda i: te.const(7, "uint8"), name="B")
    s = te.create_schedule(B.op)
    exec({EXAMPLES[name]!r})
    memory = np.zeros({NEAR} + 64, "uint8")
    tvmagic.build(s, [B])(memory[:{NEAR}])
    assert memory[:{NEAR}].min() == 7 and not memory[{NEAR}:].any()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(text)], check=True)


def test_call_with_large_strides_runs_a_second_version() -> None:
    n = te.var("n")
    A = te.placeholder((n,), "uint8", name="A")
    B = te.compute((n,), lambda i: A[i] + SEVEN, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(s[B].split(B.op.axis[0], nparts=3)[0])
    strided = tir.decl_buffer((n,), "uint8", "A", strides=[te.var("stride")])
    built = tvmagic.build(s, [A, B], binds={A: strided})
    memory = virtual(2**33)
    for step in (1, 2**20, 2**28 + 1, 2**29 + 3):
        view = memory[: 14 * step : step]
        view[...] = np.arange(14)
        for _ in range(2):
            out = np.zeros(14, "uint8")
            built(view, out)
            np.testing.assert_array_equal(out, np.arange(14) + 7)


@pytest.mark.parametrize("how", ["plain", "tir", "check_bounds"])
def test_constant_dimensions_with_a_product_beyond_2_31_are_compiled(how: str) -> None:
    A = te.placeholder((65537, 32769), "uint8", name="A")
    B = te.compute((65537,), lambda i: A[i, 32768] + SEVEN, name="B")
    memory = virtual(65537 * 32769)
    array, out = memory.reshape(65537, 32769), np.zeros(65537, "uint8")
    array[::1000, 32768] = 5
    if how == "tir":
        sch = tir.Schedule(te.create_prim_func([A, B]))
        sch.vectorize(sch.split(sch.get_loops("B")[0], [None, 16])[1])
        built = tvmagic.build(sch.mod)
    else:
        built = tvmagic.build(te.create_schedule(B.op), [A, B], check_bounds=how == "check_bounds")
    built(array, out)
    np.testing.assert_array_equal(out, np.where(np.arange(65537) % 1000 == 0, 12, 7))


def test_operator_with_large_constant_input_computes() -> None:
    op = operator("f", "X: uint8[65537, 32769]\ni: range(65537)\nY[i] = X[i, 32768] + 1")
    array = virtual(65537 * 32769).reshape(65537, 32769)
    array[65536, 32768] = 41
    for _ in range(2):
        assert op(array)[-1] == 42
    schedule(op, "s[Y].parallel(s[Y].split(Y.op.axis[0], nparts=4)[0])")
    assert op(array)[-1] == 42 and op(array)[0] == 1


def test_symbolic_operator_with_large_input_computes() -> None:
    op = operator("f", "X: uint8[n, m]\ni: range(n)\nY[i] = X[i, m - 1] + 1")
    small, large = np.zeros((3, 4), "uint8"), virtual(65537 * 32769).reshape(65537, 32769)
    large[65536, 32768] = 41
    for _ in range(2):
        assert op(large)[-1] == 42 and op(large)[0] == 1
        np.testing.assert_array_equal(op(small), 1)


def test_split_that_passes_2_31_behind_its_guard_is_widened_at_build() -> None:
    B = te.compute((NEAR,), lambda i: SEVEN, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 12)
    lowered = tvmagic.lower(s, [B])
    assert "int64" not in str(lowered)
    with recording() as record:
        assert "T.int64" in str(codegen.last_program(lowered))
    assert record.steps[0].name == "tir.WidenIndexDataType"
    assert any("widened loops, indices and guards to int64" in note.text for note in record.notes("widen"))


def test_programs_that_int32_holds_are_unchanged() -> None:
    A = te.placeholder((1000, 1000), name="A")
    B = te.compute((1000, 1000), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    s[B].split(s[B].fuse(*B.op.axis), 7)
    lowered = tvmagic.lower(s, [A, B])
    with recording() as record:
        codegen.last_program(lowered)
    assert not record["WidenIndexDataType"].changed


def test_symbolic_sizes_get_a_condition_and_a_note() -> None:
    n = te.var("n")
    B = te.compute((n,), lambda i: SEVEN, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 12)
    with recording() as record:
        text = str(codegen.last_program(tvmagic.lower(s, [B])))
    assert '"fit_int32"' in text and "T.int64" in text
    assert any("int64 for others" in note.text for note in record.notes("widen"))


@pytest.mark.parametrize("target", ["opencl", "llvm -mtriple=wasm32-unknown-unknown"])
def test_targets_with_32_bit_indices_reject_large_constant_sizes(target: str) -> None:
    B = te.compute((NEAR,), lambda i: SEVEN, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 12)
    with pytest.raises(TVMagicError, match="int32"):
        codegen.assembly(tvmagic.lower(s, [B]), target)


def test_functions_that_call_each_other_are_widened_at_once() -> None:
    """A call cannot be run again once it has begun."""
    text = """
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((4,), "int64"), n: T.int32, m: T.int32):
            A[0] = T.int64(1)
            Module.add(A.data, n, m)

        @T.prim_func(private=True)
        def add(a: T.handle("int64"), n: T.int32, m: T.int32):
            A = T.Buffer((4,), "int64", data=a)
            for i in range(4):
                if i * n * m + 1 > n:
                    A[i] = A[i] + T.int64(1)
    """
    built = tvmagic.build(from_source(textwrap.dedent(text)))
    out = np.zeros(4, "int64")
    built(out, 70_000, 70_000)
    assert out.tolist() == [1, 1, 1, 1]


def test_saved_module_rejects_sizes_that_int32_does_not_hold() -> None:
    import pickle

    n = te.var("n")
    A = te.placeholder((n,), "uint8", name="A")
    B = te.compute((n,), lambda i: A[i] + SEVEN, name="B")
    strided = tir.decl_buffer((n,), "uint8", "A", strides=[te.var("stride")])
    loaded = pickle.loads(pickle.dumps(tvmagic.build(te.create_schedule(B.op), [A, B], binds={A: strided})))
    memory, out = virtual(2**33), np.zeros(14, "uint8")
    loaded(memory[:14], out)
    assert (out == 7).all()
    with pytest.raises(TVMagicError, match="`main`"):
        loaded(memory[: 14 * 2**29 : 2**29], out)


@pytest.mark.parametrize("stored", ["i * i", "i * 3 - 5", "i % 7 - 3"])
def test_data_keeps_the_arithmetic_of_its_type(stored: str) -> None:
    """Indices are widened, stored values are not: both versions of a function give the same."""
    text = f"@T.prim_func\ndef main(a: T.handle):\n    n, s = T.int32(), T.int32()\n    A = T.match_buffer(a, (n,), 'int32', strides=[s])\n    for i in range(n):\n        A[i] = {stored}"
    built = tvmagic.build(from_source(text))
    count = 60_000
    near, far = np.zeros(count, "int32"), virtual(2**34).view("int32")[:: 2**16][:count]
    built(near)
    built(far)
    np.testing.assert_array_equal(near, far)


def test_guard_of_a_split_that_overruns_int32_is_kept() -> None:
    """5 parts of 429496730 iterations end 3 iterations behind 2^31 - 1, which folds to a negative int32."""
    B = te.compute((2**31 - 1,), lambda i: SEVEN, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], nparts=5)
    assert "< 2147483647" in str(tvmagic.lower(s, [B], simple_mode=True)).replace("T.int64(2147483647)", "2147483647")
