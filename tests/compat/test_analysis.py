"""Analyses at TVM's names: operations, accesses outside, the block that most of the work is in."""

from __future__ import annotations

import pytest
from pass_checks import module, parse
from refusals import refuses

from tvmagic import ir
from tvmagic.arith.presburger import TRUE, IntegerLogic
from tvmagic.compat.analysis.anchor import find_anchor_block
from tvmagic.compat.analysis.flops import Flops
from tvmagic.compat.analysis.oob_checker import OOBChecker
from tvmagic.compat.contents.state import Knowledge
from tvmagic.compat.contents.touches import Axes
from tvmagic.errors import ScheduleError
from tvmagic.tir import analysis

HEAD = 'def main(A: T.Buffer((8,), "int32"), x: T.int32):\n    '
X, Y, P = ir.Var("x"), ir.Var("y"), ir.Var("p", "int64")
DATA = ir.BufferLoad(ir.decl_buffer((4,), "int32", "D"), [0])
ABSTRACT = {"Any", "ConstExpr", "BinaryOp", "CmpOp", "LogicalOp", "PrimExpr", "Stmt"}


def test_operations_are_counted() -> None:
    def flops(body: str) -> float:
        return analysis.estimate_tir_flops(parse(HEAD + body))

    assert flops("for i in range(8):\n        A[i] = A[(i + 1) % 8] * 2 + x") == 16  # indices cost nothing
    assert flops("for i in range(8):\n        A[i] = T.Select(x < 3 and x > 1, x + 1, x * 2 - 1)") == 8 * 4
    assert flops("if x < 3:\n        A[0] = x + 1\n    else:\n        A[0] = x * x + x") == 3
    assert flops("A[T.Ramp(0, 1, 4)] = A[T.Ramp(4, 1, 4)] + A[T.Ramp(0, 1, 4)]") == 1
    assert flops("A[0] = T.Cast('int32', T.if_then_else(x > 1, x, x + 1))") == 2
    text = """for i in range(8):
        with T.block("b"):
            vi = T.axis.reduce(8, i)
            with T.init():
                A[0] = x * 3
            A[0] = A[0] + A[vi]"""
    assert flops(text) == 8
    func = parse(HEAD + "A[0] = x + 1")
    assert analysis.estimate_tir_flops(module(f"{HEAD}A[0] = x + 1").with_functions({})) == 1
    assert analysis.estimate_tir_flops(ir.IRModule({"a": func, "b": func.with_attr("estimated_flops", 40)})) == 41


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("for i in range(9):\n        A[i] = x", "oob_checker.index_out_of_range"),
        ("for i in range(8):\n        A[i - 1] = x", "oob_checker.index_out_of_range"),
        ("A[0] = A[8]", "oob_checker.index_out_of_range"),
        ("for i in range(9):\n        if T.likely(i >= 8):\n            A[i] = x", "oob_checker.index_out_of_range"),
        ("for i in range(9):\n        A[0] = T.Select(1 <= i, A[i - 1], 0)", "oob_checker.index_out_of_range"),
    ],
)
def test_accesses_outside_are_refused(body: str, code: str) -> None:
    with refuses("oob_checker.index_out_of_range") as caught:
        analysis.OOBChecker()(module(HEAD + body))
    assert code == caught.value.code


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(8):\n        A[i] = x",
        "for i in range(9):\n        if i < 8:\n            A[i] = x",
        "for i in range(9):\n        A[0] = T.if_then_else(1 <= i, A[i - 1], 0)",
        "for i in range(9):\n        if T.likely(i < 8):\n            A[i] = T.if_then_else(T.likely(i >= 1), A[i - 1], 0)",
        "A[x] = 1",
    ],
)
def test_accesses_that_may_be_right_pass(body: str) -> None:
    mod = module(HEAD + body)
    assert analysis.OOBChecker()(mod) is mod


@pytest.mark.parametrize(
    ("a", "b", "always", "if_equal"),
    [
        (X, X, True, True),
        (X, Y, False, True),
        (X + 1, ir.IntImm("int32", 1) + X, True, True),
        (X, ir.IntImm("int32", 3), False, True),
        (P, ir.Var("q", "int64"), False, True),
        (X, P, False, False),  # other types
        (ir.Var("a", "int8"), ir.Var("b", "int8"), False, False),
        (DATA, DATA, True, True),
        (DATA + 1, X, False, False),  # it may wrap around
        (X, DATA + 1, False, False),
        (ir.FloatImm("float32", 1.0), ir.FloatImm("float32", 1.0), True, True),
        (ir.FloatImm("float32", 0.0), ir.FloatImm("float32", -0.0), False, False),
    ],
)
def test_values_that_are_equal_under_a_condition(a: ir.PrimExpr, b: ir.PrimExpr, always: bool, if_equal: bool) -> None:
    logic = IntegerLogic()
    known = Knowledge(logic, Axes())
    assert known.agree(TRUE, a, b) == always
    assert known.agree(logic.equal(logic.linear(a), logic.linear(b)), a, b) == if_equal


def test_sizes_that_are_not_known_count_once_for_the_anchor() -> None:
    text = """
def main(a: T.handle, B: T.Buffer((12,), "float32"), X: T.Buffer((8,), "float32"), Y: T.Buffer((1,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n, 8), "float32")
    for i, k in T.grid(8, n):
        with T.block("many"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                X[vi] = T.float32(0)
            X[vi] = X[vi] + A[vk, vi]
    for k in range(12):
        with T.block("twelve"):
            vk = T.axis.reduce(12, k)
            with T.init():
                Y[0] = T.float32(0)
            Y[0] = Y[0] + B[vk]
"""
    block = find_anchor_block(parse(text))
    assert block is not None and block.name_hint == "twelve"


@pytest.mark.parametrize(("extent", "refused"), [(1 << 30, False), ((1 << 30) + 1, True), ((1 << 31) - 1, True)])
def test_indices_that_leave_a_large_buffer(extent: int, refused: bool) -> None:
    mod = module(
        f"def main(A: T.Buffer(({1 << 30},), 'int8')):\n    for i in range({extent}):\n        A[i] = T.int8(0)"
    )
    if not refused:
        assert OOBChecker()(mod) is mod
        return
    with refuses("oob_checker.index_out_of_range", error=ScheduleError):
        OOBChecker()(mod)


@pytest.mark.parametrize(
    "cls",
    [
        cls
        for name, cls in vars(ir).items()
        if isinstance(cls, type) and issubclass(cls, (ir.PrimExpr, ir.Stmt)) and name not in ABSTRACT
    ],
)
def test_operations_of_each_node_are_counted(cls: type) -> None:
    assert Flops.handler_of(cls) is not Flops.handler_of(ir.Node)


PRODUCT = """
def f(X: T.Buffer((8, 32), "uint8"), W: T.Buffer((64, 32), "int8"), C: T.Buffer((8, 64), "int32")):
    for i, j, k in T.grid(8, 64, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.cast(X[vi, vk], "int32") * T.cast(W[vj, vk], "int32")
"""


def test_the_anchor_of_a_product_is_its_block() -> None:
    func = parse(PRODUCT)
    assert analysis.estimate_tir_flops(func) == 2 * 8 * 64 * 32
    block = analysis.find_anchor_block(ir.IRModule({"main": func}))
    assert block is not None and block.name_hint == "C"


def test_operations_of_a_loop_of_unknown_length_are_refused() -> None:
    func = parse("def f(n: T.int32, A: T.Buffer((8,), 'int32')):\n    for i in range(n):\n        A[0] = A[0] + 1")
    with refuses("estimate_flops.symbolic_extent"):
        analysis.estimate_tir_flops(func)
