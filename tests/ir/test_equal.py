"""Structural equality, its paths and messages, and the hash that agrees with it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic import ir, tir


def nest(names: str = "ij", add: float = 1.0, block: str = "B", extent: int = 4) -> ir.PrimFunc:
    """B[i, j] = A[i, j] + add, in a block."""
    a, b = ir.decl_buffer((4, extent), name="A"), ir.decl_buffer((4, extent), name="B")
    i, j = (ir.Var(n) for n in names)
    vi, vj = ir.IterVar((0, 4), "vi"), ir.IterVar((0, extent), "vj")
    store = ir.BufferStore(b, a[vi, vj] + add, [vi.var, vj.var])
    regions = [ir.BufferRegion(x, [ir.Range.from_min_extent(v.var, 1) for v in (vi, vj)]) for x in (a, b)]
    realize = ir.BlockRealize([i, j], True, ir.Block([vi, vj], regions[:1], regions[1:], block, store))
    return ir.PrimFunc([a, b], ir.For(i, 0, 4, 0, ir.For(j, 0, extent, 0, realize)), attrs={"global_symbol": "main"})


def test_names_and_places_do_not_count() -> None:
    f, g = nest(), nest("xy", block="other")
    assert ir.structural_equal(f, g)
    assert ir.structural_hash(f) == ir.structural_hash(g)
    assert ir.structural_equal(f.replace(span=ir.Span("a", 1)), f)


@pytest.mark.parametrize(
    "other, path",
    [
        (nest(add=2.0), "<root>.body.body.body.block.body.value.b.value"),
        (nest(extent=5), "<root>.params"),
        (nest().with_attr("key", 1), "<root>.attrs[<missing entry>]"),
    ],
)
def test_differences_have_paths(other: ir.PrimFunc, path: str) -> None:
    f = nest()
    assert not ir.structural_equal(f, other)
    mismatch = ir.get_first_structural_mismatch(f, other)
    assert mismatch is not None
    if path == "<root>.params":
        path = str(mismatch.lhs_path)
        assert path.startswith("<root>.buffer_map[") and path.endswith(".shape[1].value")
    assert str(mismatch.lhs_path) == path


def mismatch(a: Any, b: Any) -> tuple[str, str]:
    found = ir.get_first_structural_mismatch(a, b)
    assert found is not None
    return str(found.lhs_path), str(found.rhs_path)


def test_paths_of_parameters_and_sequences() -> None:
    x, y, z = ir.Var("x"), ir.Var("y"), ir.Var("z")
    wide, pointer = ir.Var("y", "int64"), ir.pointer_var("p", "float32")
    body = tir.Evaluate(x)
    two, three = ir.PrimFunc([x, y], body), ir.PrimFunc([x, y, z], body)
    assert mismatch(two, three) == ("<root>.params[<missing element #2>]", "<root>.params[2]")
    assert mismatch(two, ir.PrimFunc([x, wide], body)) == ("<root>.params[1].dtype",) * 2
    other = ir.PrimFunc([pointer], body), ir.PrimFunc([ir.pointer_var("p", "float32", "local")], body)
    assert mismatch(*other) == ("<root>.params[0].type_annotation.storage_scope",) * 2
    many = [tir.SeqStmt([tir.Evaluate(k) for k in range(n)]) for n in (3, 4)]
    assert mismatch(*many) == ("<root>.seq[<missing element #3>]", "<root>.seq[3]")
    assert mismatch(tir.convert([1, 2]), tir.convert([1, 3])) == ("<root>[1].value",) * 2
    assert mismatch(x + 1, x - 1) == ("<root>",) * 2


def test_free_variables_are_equal_to_themselves_or_mapped() -> None:
    x, y, z = ir.Var("x"), ir.Var("y"), ir.Var("z")
    assert ir.structural_equal(x + y, x + y)
    assert not ir.structural_equal(x + y, x + z)
    assert ir.structural_equal(x + y, x + z, map_free_vars=True)
    assert not ir.structural_equal(x + y, z + z, map_free_vars=True)
    assert not ir.structural_equal(x + x, y + z, map_free_vars=True)
    assert not ir.structural_equal(x, ir.Var("x", "int64"), map_free_vars=True)
    assert not ir.structural_equal(ir.SizeVar("n"), ir.Var("n"), map_free_vars=True)


def test_each_variable_stands_for_just_one() -> None:
    def two(a: ir.Var, b: ir.Var) -> ir.Stmt:
        return tir.LetStmt(a, 1, tir.LetStmt(b, 2, tir.Evaluate(a + b)))

    x, y = ir.Var("x"), ir.Var("y")
    assert ir.structural_equal(two(x, y), two(y, x))
    assert not ir.structural_equal(tir.LetStmt(x, 1, tir.Evaluate(x)), tir.LetStmt(y, 1, tir.Evaluate(x))), (
        "x is bound on the left only"
    )


def test_the_same_object_is_not_equal_to_itself_under_a_renaming() -> None:
    x, y = ir.Var("x"), ir.Var("y")
    shared = tir.Evaluate(x)
    assert not ir.structural_equal(tir.LetStmt(x, 1, shared), tir.LetStmt(y, 1, shared))


def test_buffers_are_compared_by_what_they_are() -> None:
    data = ir.pointer_var("p", "float32")

    def load(**fields: Any) -> ir.PrimExpr:
        return ir.decl_buffer((4,), data=data, **fields)[0]

    assert ir.structural_equal(load(name="a"), load(name="b"))
    for other in (
        load(dtype="float32", strides=[1]),
        load(elem_offset=4),
        load(data_alignment=8),
        load(offset_factor=2),
    ):
        assert not ir.structural_equal(load(), other)
    n, m = ir.Var("n"), ir.Var("m")
    assert ir.structural_equal(ir.decl_buffer((n, n)), ir.decl_buffer((m, m)))
    assert not ir.structural_equal(ir.decl_buffer((n, n)), ir.decl_buffer((n, m)))
    shared = ir.decl_buffer((4,), data=data)
    one = tir.SeqStmt([tir.Evaluate(shared[0]), tir.Evaluate(load(elem_offset=2))])
    other = tir.SeqStmt([one.seq[0], tir.Evaluate(ir.decl_buffer((4,), elem_offset=2)[0])])
    assert not ir.structural_equal(one, other), "the second buffer shares its memory on the left only"


def test_memory_without_a_name_is_global() -> None:
    functions = [
        ir.PrimFunc([ir.pointer_var("p", "float32", scope)], tir.Evaluate(0)) for scope in ("", "global", "local")
    ]
    assert ir.structural_equal(functions[0], functions[1])
    assert ir.structural_hash(functions[0]) == ir.structural_hash(functions[1])
    assert not ir.structural_equal(functions[0], functions[2])


def test_constants() -> None:
    assert not ir.structural_equal(tir.const(1), tir.const(1, "int64"))
    assert not ir.structural_equal(tir.const(1.0), tir.const(1.5))
    nan = [tir.const(float("nan")), tir.const(float("nan"))]
    assert ir.structural_equal(*nan) and ir.structural_hash(nan[0]) == ir.structural_hash(nan[1])
    assert ir.structural_equal(ir.StringImm("a"), ir.StringImm("a"))
    pointer = ir.pointer_var("c", "int32")
    first, second, third = (
        ir.AllocateConst(pointer, "int32", [2], np.array(values, "int32"), tir.Evaluate(0))
        for values in ([1, 2], [1, 2], [1, 3])
    )
    assert ir.structural_equal(first, second) and ir.structural_hash(first) == ir.structural_hash(second)
    assert not ir.structural_equal(first, third)


def test_annotations_count() -> None:
    i = ir.Var("i")
    loops = [ir.For(i, 0, 4, 0, tir.Evaluate(0), annotations=a) for a in ({"a": [1, "b"]}, {"a": [1, "b"]}, {"a": [1]})]
    assert ir.structural_equal(loops[0], loops[1])
    assert ir.structural_hash(loops[0]) == ir.structural_hash(loops[1])
    assert str(ir.get_first_structural_mismatch(loops[0], loops[2])) == (
        'ObjectPathPair(lhs_path=<root>.annotations["a"][1], rhs_path=<root>.annotations["a"][<missing element #1>])'
    )


def test_modules_match_functions_by_name() -> None:
    f, g = nest(), nest("xy")
    one, two = ir.IRModule({"f": f, "g": g}), ir.IRModule({"g": f, "f": g})
    assert ir.structural_equal(one, two) and ir.structural_hash(one) == ir.structural_hash(two)
    assert ir.structural_equal(one, one.clone())
    missing = ir.get_first_structural_mismatch(one, ir.IRModule({"f": f}))
    assert missing is not None
    assert (str(missing.lhs_path), str(missing.rhs_path)) == (
        '<root>.functions[I.GlobalVar("g")]',
        "<root>.functions[<missing entry>]",
    )


def test_calls_of_a_module_s_functions() -> None:
    def module(name: str) -> ir.IRModule:
        var = ir.GlobalVar("helper")
        body = tir.Evaluate(ir.Call("int32", var, []))
        return ir.IRModule({var: nest(), ir.GlobalVar(name): ir.PrimFunc([], body)})

    assert ir.structural_equal(module("main"), module("main"))
    assert ir.structural_hash(module("main")) == ir.structural_hash(module("main"))
    assert not ir.structural_equal(module("main"), module("other"))


def test_the_message_shows_both_places() -> None:
    with refuses("structural_equal.differs", error=ValueError) as error:
        ir.assert_structural_equal(nest(), nest(add=2.0))
    lines = str(error.value).split("\n")
    caret = [n for n, line in enumerate(lines) if "^" in line]
    assert len(caret) == 2
    assert lines[caret[0] - 1].strip() == "B[vi, vj] = A[vi, vj] + T.float32(1.0)"
    assert lines[caret[1] - 1].strip() == "B[vi, vj] = A[vi, vj] + T.float32(2.0)"
    assert lines[caret[0]].strip() == "^" * len("T.float32(1.0)")
    ir.assert_structural_equal(nest(), nest())
    ir.assert_structural_equal([1, "a"], [1, "a"])
    with pytest.raises(ValueError):
        ir.assert_structural_equal([tir.const(1)], [tir.const(2)])


def test_tensors_are_what_they_are() -> None:
    from tvmagic import te

    a, b = te.placeholder((4,), name="a"), te.placeholder((4,), name="a")
    assert ir.structural_equal(a[0], a[0]) and ir.structural_hash(a[0]) == ir.structural_hash(a[0])
    assert not ir.structural_equal(a[0], b[0])


def test_deep_equality_keeps_variables() -> None:
    x, y = ir.Var("x"), ir.Var("y")
    assert ir.expr_deep_equal(x * 2 + 1, x * 2 + 1)
    assert not ir.expr_deep_equal(x + 1, y + 1)
    k = ir.Var("k")
    assert not ir.expr_deep_equal(tir.Let(x, 1, x), tir.Let(k, 1, k))


def test_the_hash_is_the_same_in_another_run() -> None:
    code = (
        "from tvmagic import ir, tir\n"
        "x = ir.Var('x'); b = ir.decl_buffer((4,), 'float16')\n"
        "f = ir.PrimFunc([b, x], ir.For(ir.Var('i'), 0, x, 0, tir.Evaluate(b[x]), annotations={'k': 'text'}))\n"
        "print(ir.structural_hash(f))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != ""


def test_hashes_tell_programs_apart() -> None:
    x, y = ir.Var("x"), ir.Var("y")
    programs = [nest(), nest(add=2.0), nest(extent=5), x + y, x - y, x + x, tir.const(1), tir.const(1, "int64")]
    assert len({ir.structural_hash(p) for p in programs}) == len(programs)


def large(lines: int) -> ir.PrimFunc:
    a = ir.decl_buffer((1024, 1024), name="A")
    loops = []
    for n in range(lines // 4):
        i, j = ir.Var("i"), ir.Var("j")
        stores = [ir.BufferStore(a, a[i * 4 + n, j // 2] * 2.0 + a[j, i % 8], [i, j + k]) for k in range(3)]
        loops.append(ir.For(i, 0, 4, 0, ir.For(j, 0, 4, 0, tir.SeqStmt(stores))))
    return ir.PrimFunc([a], tir.SeqStmt(loops))


def test_large_and_deep_programs_are_compared_fast(cpu_seconds) -> None:
    f, g = large(1000), large(1000)
    assert ir.structural_equal(f, g)
    assert cpu_seconds(lambda: ir.structural_equal(f, g), repeat=5) < 0.02
    assert cpu_seconds(lambda: ir.structural_hash(f), repeat=5) < 0.02
    x = ir.Var("x")
    first: ir.PrimExpr = x
    second: ir.PrimExpr = x
    for k in range(1, 1001):
        first, second = first + x * k, second + x * k
    assert ir.structural_equal(first, second) and ir.structural_hash(first) == ir.structural_hash(second)
    chains = []
    for _ in range(2):
        chain: ir.Stmt = tir.Evaluate(x)
        for _ in range(5000):
            chain = tir.LetStmt(ir.Var("v"), x, chain)
        chains.append(chain)
    assert ir.structural_equal(*chains) and ir.structural_hash(chains[0]) == ir.structural_hash(chains[1])
