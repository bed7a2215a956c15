"""Small analyses of programs as tables: what a buffer's description uses, pointers, accesses outside of buffers and threads, limits."""

from __future__ import annotations

from typing import Any

import pytest
from pass_checks import module, parse

from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    Block,
    BufferLoad,
    Call,
    FloatImm,
    IntImm,
    PrimExpr,
    Range,
    SizeVar,
    StringImm,
    Var,
    decl_buffer,
    structural_equal,
)
from tvmagic.ir.query import nodes_of
from tvmagic.tir import analysis, transform
from tvmagic.tir.analysis.facts import Facts
from tvmagic.tir.transform.uses import buffer_mentions, used_as_pointer

n, m = SizeVar("n"), SizeVar("m")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, False),
        ({"shape": (4, n)}, True),
        ({"shape": (m,)}, False),
        ({"strides": (n, 1)}, True),
        ({"elem_offset": n * 2}, True),
        ({"elem_offset": m}, False),
    ],
)
def test_what_a_buffer_is_made_of(options: dict[str, Any], named: bool) -> None:
    buffer = decl_buffer(options.pop("shape", (4, 4)), "int32", "B", **options)
    assert buffer_mentions(buffer, n) is named
    assert buffer_mentions(buffer, buffer.data)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ("b[0] = b[1] + A[0]", False), ('T.evaluate(T.call_extern("int32", "f", B))', True), ('T.evaluate(T.call_extern("int32", "f", T.address_of(b[0])))', True),
        ('T.evaluate(T.call_extern("int32", "f", T.address_of(A[0])))', False), ('T.evaluate(T.call_extern("int32", "f", A.data))', False),
        ('T.evaluate(T.call_extern("int32", "f", T.tvm_access_ptr(T.type_annotation("int32"), B, 0, 1, 1)))', True), ("A[0] = T.max(b[0], 2)", False),
    ],
)  # fmt: skip
def test_memory_that_is_reached_by_its_pointer(body: str, pointer: bool) -> None:
    func = parse(
        f'def main(A: T.Buffer((4,), "int32")):\n    B = T.allocate([4], "int32", "global")\n    b = T.Buffer((4,), "int32", data=B)\n    {body}'
    )
    (allocation,) = nodes_of(func.body, Allocate)
    assert used_as_pointer(allocation.body, allocation.buffer_var) is pointer


BLOCK = """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.reduce(8, i)
            T.reads(A[vi])
            T.writes(C[0])
            with T.init():
                C[{init}] = 0
            C[0] = C[0] + A[{index}]"""


@pytest.mark.parametrize(
    ("init", "index", "inside"),
    [
        ("0", "vi", True),
        ("7", "7 - vi", True),
        ("8", "vi", False),
        ("-1", "vi", False),
        ("0", "vi + 1", False),
        ("0", "vi - 1", False),
        ("0", "vi * 0 + 7", True),
        ("0", "A[vi]", True),
    ],
)
def test_indices_that_leave_a_buffer(init: str, index: str, inside: bool) -> None:
    mod = module(BLOCK.format(init=init, index=index))
    if inside:
        assert analysis.OOBChecker()(mod) is mod
    else:
        with pytest.raises(TVMagicError, match="is outside it"):
            analysis.OOBChecker()(mod)


@pytest.mark.parametrize(
    ("dtype", "value", "known"),
    [
        ("int32", n * 2 + 1, True),
        ("int64", IntImm("int64", 7), True),
        ("uint8", IntImm("uint8", 7), True),
        ("bool", n < 3, True),
        ("float32", FloatImm("float32", 2.0), False),
        ("int32", BufferLoad(decl_buffer((4,), "int32"), [0]), False),
        ("int32", Call("int32", "tir.call_extern", [StringImm("f")]), False),
    ],
)
def test_values_that_proofs_are_told_of(dtype: str, value: PrimExpr, known: bool) -> None:
    """Integers and conditions of variables alone: what is loaded may be another number later on."""
    facts, x = Facts(), Var("x", dtype)
    facts.analyzer = Analyzer()
    facts.known_value(x, value)
    assert structural_equal(facts.analyzer.simplify(x), facts.analyzer.simplify(value) if known else x)


def test_what_is_known_of_a_variable_is_what_was_said_last() -> None:
    """A variable may be defined at several places."""
    facts, x = Facts(), Var("x", "int32")
    facts.analyzer = Analyzer()
    facts.known_value(x, IntImm("int32", 3))
    facts.known_value(x, n + 1)
    assert structural_equal(facts.analyzer.simplify(x), n + 1)
    facts.known_domain(m, Range(0, 4))
    facts.known_domain(m, Range(2, 8))
    assert str(facts.analyzer.const_int_bound(m)) == str(Analyzer({m: Range(2, 8)}).const_int_bound(m))


@pytest.mark.parametrize(
    ("region", "shape", "used", "meant"),
    [
        ("A[vi, 2:6, 0:8]", "4, 8", "M[vj, 1:5]", "A[vi, 2 + vj, 1:5]"),
        ("A[vi, 2:6, 0:8]", "1, 4, 8", "M[0, vj, 1:5]", "A[vi, 2 + vj, 1:5]"),
        ("A[vi, 5, 0:8]", "8", "M[vj:vj + 3]", "A[vi, 5, vj:vj + 3]"),
        ("A[vi, 5, 3]", "1", "M[0]", "A[vi, 5, 3]"),
        ("A[vi:vi + 1, 0:2, 0:8]", "2, 8", "M[0:2, vj]", "A[vi, 0:2, vj]"),
    ],
)
def test_parts_of_views_are_parts_of_what_they_show(region: str, shape: str, used: str, meant: str) -> None:
    """A view has the last dimensions of a region; the others have one element each."""
    text = f"""def main(A: T.Buffer((4, 8, 8), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("outer"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, 0:8, 0:8])
            T.writes(A[vi, 0:8, 0:8])
            M = T.match_buffer({region}, ({shape},), "int32", strides={[f"s{k}" for k in range(shape.count(",") + 1)]}, offset_factor=1)
            with T.block("inner"):
                T.reads({used})
                T.writes({used})
                T.evaluate(vj)"""
    inner = next(
        b for b in nodes_of(transform.LowerMatchBuffer()(module(text))["main"].body, Block) if b.name_hint == "inner"
    )
    plain = next(
        b
        for b in nodes_of(module(text.replace(f"T.reads({used})", f"T.reads({meant})"))["main"].body, Block)
        if b.name_hint == "inner"
    )
    assert [str(r) for r in (*inner.reads, *inner.writes)] == [str(plain.reads[0])] * 2
