"""Operators from TensorIR functions: arguments, outputs and unwritten elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic import tir
from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule
from tvmagic.operators import operator
from tvmagic.operators.analysis import read_before_written, written_buffers
from tvmagic.operators.operator import as_operator
from tvmagic.operators.uninitialized_outputs import left_unwritten
from tvmagic.script import from_source


def refused(call: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught:
        call()
    return caught.value


WRITTEN = [
    ("for i in range(8):\n    B[i] = A[i]", ""),
    ("for i in range(7):\n    B[i] = A[i]", "7"),
    ("for i in range(1, 8):\n    B[i] = A[i]", "0"),
    ("for i in range(4):\n    B[i * 2] = A[i]", "1 3 5 7"),
    ("for i, j in T.grid(4, 2):\n    B[i * 2 + j] = A[i]", ""),
    ("for i, j in T.grid(4, 2):\n    B[7 - i * 2 - j] = A[i]", "?"),
    ("for i in range(8):\n    if i < 5:\n        B[i] = A[i]", "5 6 7"),
    ("for i in range(8):\n    if i >= 0:\n        B[i] = A[i]", ""),
    ("for i in range(16):\n    if i < 8:\n        B[i] = A[i]", ""),
    ("for i in range(8):\n    if A[i] > 100.0:\n        B[i] = A[i]", "0 1 2 3 4 5 6 7"),
    ("for i in range(8):\n    if A[i] > 100.0:\n        B[i] = A[i]\n    else:\n        B[i] = 2.0", "?"),
    ("for i in range(8):\n    with T.block('B'):\n        v = T.axis.spatial(8, i)\n        B[v] = A[v]", ""),
    (
        "for i in range(8):\n    with T.block('B'):\n        v = T.axis.spatial(8, i)\n        T.where(i < 6)\n        B[v] = A[v]",
        "6 7",
    ),
    (
        "for i in range(4):\n    with T.block('B'):\n        v = T.axis.spatial(8, i + 2)\n        B[v] = A[v]",
        "0 1 6 7",
    ),
    (
        "for i, k in T.grid(8, 3):\n    with T.block('B'):\n        v, w = T.axis.remap('SR', [i, k])\n        with T.init():\n            B[v] = 0.0\n        B[v] = B[v] + A[v]",
        "",
    ),
    ("for i in range(8):\n    for j in range(i, 8):\n        B[j] = A[j]", "?"),
    ("for i in range(8):\n    j = T.int32()\n    with T.LetStmt(7 - i, var=j):\n        B[j] = A[i]", ""),
    ("B[3] = A[3]", "0 1 2 4 5 6 7"),
    ("for i in range(8):\n    for k in range(0):\n        B[i] = A[i]", "0 1 2 3 4 5 6 7"),
    ("for i in T.thread_binding(8, thread='threadIdx.x'):\n    B[i] = A[i]", ""),
]


@pytest.mark.parametrize(("body", "left"), WRITTEN, ids=[str(n) for n in range(len(WRITTEN))])
def test_unwritten_output_elements_are_zero(body: str, left: str) -> None:
    """`?`: all is written, but not by a store that is proved to reach all."""
    text = "@T.prim_func\ndef f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n    " + body.replace("\n", "\n    ")
    op = operator("f", text)
    assert op.left_unwritten == (bool(left),)
    (start,) = op.fresh_outputs([np.ones(8, "float32")])
    assert not left or not start.any()
    if "thread" not in body:
        found = op(np.full(8, 9, "float32"))
        unwritten = {int(n) for n in left.split()} if left != "?" else set()
        assert {n for n in range(8) if found[n] == 0} == unwritten


@pytest.mark.parametrize(
    ("first", "second", "inputs", "outputs"),
    [(1, 2, "A", "B"), (1, 3, "A B", "B"), (3, 3, "A B", "A B"), (2, 2, "", "A B"), (1, 1, "", "")],
)
def test_pointer_arguments_declare_writes(first: int, second: int, inputs: str, outputs: str) -> None:
    pointers = ", ".join(
        f"T.tvm_access_ptr(T.type_annotation('float32'), {name}.data, 0, 8, {mask})"
        for name, mask in (("A", first), ("B", second))
    )
    text = f"@T.prim_func\ndef f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n    T.evaluate(T.call_extern('int32', 'g', {pointers}))"
    if not outputs:
        assert refused(lambda: operator("f", text)).code == "operator.no_output"
        return
    op = operator("f", text)
    assert " ".join(t.name for t in op.outputs) == outputs
    assert " ".join(t.name for t in op.inputs) == inputs


DENSE = "X: float32[8, 6]\nW: float32[4, 6]\nY[i, j] += X[i, k] * W[j, k]\nZ[i, j] = max(Y[i, j], 0)"


def function(text: str, parameters: str = 'X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")') -> Any:
    """A function of TensorIR with the given statements."""
    body = "\n".join(f"    {line}" for line in text.split("\n"))
    return from_source(f"@T.prim_func\ndef f({parameters}):\n{body}")


@pytest.mark.parametrize(
    "out", [np.zeros((9, 4), "float32", order="F"), np.zeros((9, 4), ">f4"), np.zeros((9, 8), "float32")[:, ::2]]
)
def test_output_array_must_fit(out: np.ndarray) -> None:
    op = operator("f", "X: float32[9, 4]\nY[i, j] = X[i, j] + 1")
    error = refused(lambda: op(np.zeros((9, 4), "float32"), out=out))
    assert error.hint is not None and error.hint.endswith("pass numpy.empty((9, 4), 'float32')")


def test_operator_refuses_other_objects() -> None:
    op, func = operator("dense", DENSE), function("for i in range(8):\n    Y[i] = X[i]")
    assert as_operator(op) is op and as_operator(func).name == "f" and as_operator(func, "g").name == "g"
    assert as_operator(tir.Schedule(func)).name == "f" and as_operator(IRModule({"main": func})).name == "f"
    for value in (3, None, IRModule({"a": func, "b": func}), IRModule({})):
        assert refused(lambda value=value: as_operator(value)).code == "operator.not_an_operator"


def test_coverage_of_stores_is_sound() -> None:
    """Threads count from 0, once however often they are launched; what may fail does not count."""
    cases = {
        "for i in range(8):\n    Y[i] = X[i]": False,
        "for i in range(7):\n    Y[i] = X[i]": True,
        'for i in T.thread_binding(8, thread="threadIdx.x"):\n    Y[i] = X[i]': False,
        'i = T.launch_thread("threadIdx.x", 8)\nY[i] = X[i]': False,
        'i = T.launch_thread("threadIdx.x", 7)\nY[i] = X[i]': True,
        'i = T.launch_thread("blockIdx.x", 2)\nj = T.launch_thread("threadIdx.x", 4)\nY[i * 4 + j] = X[i]': False,
        'i = T.launch_thread("blockIdx.x", 2)\nj = T.launch_thread("threadIdx.x", 4)\nY[i * 3 + j] = X[i]': True,
        "for i in range(8):\n    if X[i] > T.float32(0):\n        Y[i] = X[i]": True,
        "for i in range(8):\n    Y[X[0].astype('int32')] = X[i]": True,
        "for i in range(8):\n    Y[7 - i] = X[i]": False,
        "for i, z in T.grid(8, 1):\n    Y[i] = X[i]": False,
        "for i, z in T.grid(8, 0):\n    Y[i] = X[i]": True,
        "for i in range(8):\n    for j in range(i):\n        Y[i] = X[j]": True,
        "for i, j in T.grid(2, 8):\n    Y[j * i // 2] = X[j]": True,
    }
    for body, left in cases.items():
        func = function(body)
        x, y = func.buffer_map.values()
        assert left_unwritten(func, [x], [y]) == (left,), body
        assert left_unwritten(func, [x, y], [y]) == (False,) == left_unwritten(None, [x], [y])


@pytest.mark.parametrize(
    ("body", "written", "early"),
    [
        ("for i in range(8):\n    Y[i] = X[i]", "Y", ""),
        ("for i in range(8):\n    Y[i] = Y[i] + X[i]", "Y", "Y"),
        ("for i in range(8):\n    X[i] = T.float32(0)\n    Y[i] = X[i]", "X Y", ""),
        ("for i in range(8):\n    Y[i] = X[i]\n    X[i] = T.float32(0)", "X Y", "X"),
        ('T.evaluate(T.call_extern("int32", "f", Y.access_ptr("r")))', "", ""),
        ('T.evaluate(T.call_extern("int32", "f", Y.access_ptr("w")))', "Y", ""),
        ('T.evaluate(T.call_extern("int32", "f", Y.access_ptr("rw")))', "Y", "Y"),
        ('T.evaluate(T.call_extern("int32", "f", X.access_ptr("r"), Y.access_ptr("w")))', "Y", ""),
        ('T.evaluate(T.call_extern("int32", "f", X.data, Y.data))', "X Y", "X Y"),
        ('T.evaluate(T.call_extern("int32", "f", T.address_of(Y[0])))', "Y", "Y"),
        ('for i in range(8):\n    Y[i] = X[i]\nT.evaluate(T.call_extern("int32", "f", X.data, Y.data))', "Y", ""),
    ],
)
def test_written_and_previously_read_arguments(body: str, written: str, early: str) -> None:
    func = function(body)
    found = written_buffers(func)
    assert " ".join(b.name for b in found) == written
    assert " ".join(b.name for b in read_before_written(func, found)) == early


def test_positional_sizes_are_refused() -> None:
    for axis, size in ((0, 4), (1, 6), (-1, 6), (-2, 4)):
        op = operator("f", f"X: float32[4, 6]\nY[i] = X[i, 0] * X.shape[{axis}]")
        assert np.array_equal(op(np.ones((4, 6), "float32")), np.full(4, size))
    for axis in (2, -3):
        refused(lambda axis=axis: operator("f", f"X: float32[4, 6]\nY[i] = X[i, 0] * X.shape[{axis}]"))


def test_wrong_number_of_outputs_is_refused() -> None:
    x = np.zeros(4, "float32")
    one, two = operator("f", "X: float32[4]\nY[i] = X[i]"), operator("g", "X: float32[4]\nY[i] = X[i]\nZ[i] = X[i] * 2")
    with pytest.raises(TVMagicError):
        one(x, out=(x.copy(), x.copy()))
    with pytest.raises(TVMagicError):
        two(x, out=x.copy())


@pytest.mark.parametrize(
    ("cell", "code", "line"),
    [
        (
            "import math\n\n@T.prim_func\ndef f(X: T.Buffer((8,), 'float32')):\n    for i in range(8):\n        T.evaluate(X[i])",
            "operator.no_output",
            5,
        ),
        (
            "import math\n\n@T.prim_func\ndef f(X: T.Buffer((8,), 'float32')):\n    X[0] = 1\n    while True:\n        X[1] = 2",
            "operator.endless_loop",
            7,
        ),
        ("import tvmagic.ir as ir\n\nf = ir.PrimFunc([], ir.Evaluate(0))", "operator.no_output", 1),
    ],
)
def test_function_error_carries_location(cell: str, code: str, line: int) -> None:
    """That of the error, else that of the function, else the beginning of the cell."""
    with refuses(code) as caught:
        operator("f", cell)
    span = caught.value.span
    assert span is not None and span.line == line and (line > 1 or span.column == 1)
