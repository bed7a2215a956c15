"""The TVMScript printer: each construct's text, its options, and where nodes are in the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic import ir, script, tir
from tvmagic.ir import ObjectPath, assert_structural_equal
from tvmagic.script import from_source, script_with_spans

X, Y = ir.Var("x"), ir.Var("y")
A = ir.decl_buffer((16, 8), name="A")


def main(body: ir.Stmt, *params: Any, **attrs: Any) -> ir.PrimFunc:
    return ir.PrimFunc(params, body, attrs={"global_symbol": "main", **attrs})


EXPRESSIONS = [
    (X + Y * 2, "x + y * 2"),
    ((X + Y) * 2, "(x + y) * 2"),
    (X - (Y - 1), "x - (y - 1)"),
    (X - Y - 1, "x - y - 1"),
    (X * -1, "x * -1"),
    (X // 8 % 3, "x // 8 % 3"),
    (tir.truncmod(X, 3), "T.truncmod(x, 3)"),
    (tir.truncdiv(X, 3), "T.Div(x, 3)"),
    (ir.Add(X, ir.IntImm("int32", 0)), "T.Add(x, 0)"),
    (ir.Add(ir.IntImm("int32", 1), ir.IntImm("int32", 2)), "T.Add(1, 2)"),
    (ir.Max(X, X), "T.Max(x, x)"),
    (tir.max(8, Y), "T.max(8, y)"),
    (tir.all(X < 1, tir.any(Y > 2, X.equal(Y))), "x < 1 and (y > 2 or x == y)"),
    (ir.Not(ir.And(X < 1, Y < 1)), "not (x < 1 and y < 1)"),
    (ir.Not(tir.const(True)), "not T.bool(True)"),
    (tir.Select(X < 1, X, Y), "T.Select(x < 1, x, y)"),
    (tir.if_then_else(tir.likely(X < 1), X, Y), "T.if_then_else(T.likely(x < 1), x, y)"),
    (tir.const(3, "int64"), "T.int64(3)"),
    (tir.const(1e-5), "T.float32(1.0000000000000001e-05)"),
    (tir.const(0.1, "float16"), "T.float16(0.10000000000000001)"),
    (tir.const(1e20), "T.float32(100000000000000000000.0)"),
    (tir.const(float("-inf"), "float64"), 'T.float64("-inf")'),
    (tir.Cast("float32", X), 'T.Cast("float32", x)'),
    (tir.Ramp(X, 2, 4), "T.Ramp(x, 2, 4)"),
    (tir.Broadcast(tir.const(1.0), 4), "T.Broadcast(T.float32(1.0), 4)"),
    (tir.Shuffle([X, Y], [1, 0]), "T.Shuffle([x, y], [1, 0])"),
    (tir.Let(Y, 1, Y + X), "T.Let(y + x, where={y: 1})"),
    (tir.call_extern("int32", "f", X, 'a\t"b"'), 'T.call_extern("int32", "f", x, "a\\t\\"b\\"")'),
    (tir.reinterpret("float32", X), 'T.reinterpret("float32", x)'),
    (X + ir.Var("x"), "x + x_1"),
    (A[X, Y], "A[x, y]"),
    (ir.BufferLoad(A, [X, tir.Ramp(Y * 4, 1, 4)]), "A[x, y * 4:y * 4 + 4]"),
    (ir.BufferLoad(A, [X, tir.Ramp(0, 2, 4)]), "A[x, 0:8:2]"),
    (ir.IterVar((0, 4), X, ir.IterVar.CommReduce), 'T.iter_var(x, T.Range(0, 4), "CommReduce", "")'),
    (ir.Range(2, 16), "I.Range(2, 16)"),
    (ir.GlobalVar("f"), 'I.GlobalVar("f")'),
    (ir.PointerType(ir.PrimType("float32"), "global"), 'T.handle("float32", "global")'),
    (ir.BufferRegion(A, [ir.Range.from_min_extent(X, 1), ir.Range(0, 4)]), "A[x, 0:4]"),
]


@pytest.mark.parametrize("node, text", EXPRESSIONS, ids=[t for _, t in EXPRESSIONS])
def test_expressions(node: Any, text: str) -> None:
    assert str(node) == text


def test_a_reduction() -> None:
    k = ir.IterVar((0, 8), "k", ir.IterVar.CommReduce)
    a, b = ir.Var("x", "float32"), ir.Var("y", "float32")
    combiner = ir.CommReducer([a], [b], [a + b], [tir.const(0.0)])
    node = ir.Reduce(combiner, [A[0, k]], [k], True, 0)
    assert str(node) == (
        "T.reduce(T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)]), source=[A[0, k]], init=[], "
        'axis=[T.iter_var(k, T.Range(0, 8), "CommReduce", "")], condition=T.bool(True), value_index=0)'
    )


def test_free_variables_of_statements_are_declared() -> None:
    assert str(tir.Evaluate(X)) == "x = T.int32()\nT.evaluate(x)"
    assert str(tir.SeqStmt([tir.Evaluate(1), tir.Evaluate(X)])) == "T.evaluate(1)\nx = T.int32()\nT.evaluate(x)"
    size = ir.SizeVar("n")
    assert str(tir.Evaluate(size)) == "n = T.int32(is_size_var=True)\nT.evaluate(n)"
    pointer = ir.pointer_var("p", "float32", "shared")
    assert str(tir.Evaluate(tir.isnullptr(pointer))) == 'p = T.handle("float32", "shared")\nT.isnullptr(p)'


ROUND_TRIPS = {
    "loops": """
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), n: T.int32):
    for i, j in T.grid(16, 8):
        A[i, j] = T.float32(0.0)
    for i in T.parallel(2, 4):
        for j in T.vectorized(8):
            A[i, j] = T.float32(1.0)
    for i in T.unroll(16, annotations={"pragma_unroll_explicit": T.bool(True)}):
        for j in range(n):
            A[i, j] = T.float32(2.0)
    for i in T.thread_binding(16, thread="blockIdx.x"):
        while A[i, 0] < T.float32(3.0):
            A[i, 0] = A[i, 0] + T.float32(1.0)
""",
    "scopes": """
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    with T.LetStmt(1) as x:
        A[x] = T.float32(0.0)
    with T.allocate([4], "float32", "global") as B:
        T.isnullptr(B)
    with T.attr(0, "key", 1):
        A[0] = T.float32(0.0)
    with T.Assert(A[0] < T.float32(1.0), "small"):
        T.evaluate(0)
    x: T.int32 = 2
    assert x < 3, "x"
    C = T.decl_buffer((8,), scope="shared")
    tx = T.launch_thread("threadIdx.x", 8)
    C[tx] = A[tx]
    T.attr(C.data, "other", "text")
    T.evaluate(x)
""",
    "buffers": """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "int8", strides=("A_s0", 1), offset_factor=8)
    B = T.match_buffer(b, (n,), elem_offset=n, scope="shared", align=128, buffer_type="auto")
    C = T.match_buffer(c, (4, 4, 4), axis_separators=[2])
    for i in range(n):
        B[i] = T.Cast("float32", A[i, 0]) + C[0, 0, 0]
        T.evaluate(A.strides[0] + A.elem_offset)
""",
    "blocks": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    # with T.block("root"):
    C = T.alloc_buffer((16,), scope="local")
    for i, k in T.grid(16, 16):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(C[vi])
            T.block_attr({"note": [1, 2]})
            with T.init():
                C[vi] = T.float32(0.0)
            C[vi] = C[vi] + A[vi, vk]
    for i0, i1 in T.grid(4, 5):
        with T.block("B"):
            vi = T.axis.spatial(16, i0 * 5 + i1)
            T.where(i0 * 5 + i1 < 16)
            T.reads(C[vi:vi + 2])
            T.writes(B[vi])
            D = T.match_buffer(C[vi:vi + 2], (2,), offset_factor=1)
            B[vi] = D[0]
        with T.block("opaque"):
            vo = T.axis.opaque((2, 6), i0 + 2)
            T.reads()
            T.writes()
            T.evaluate(vo)
""",
}


def test_private_and_returning_functions() -> None:
    f = ir.PrimFunc([X], tir.Evaluate(tir.ret(X + 1)), ret_type=ir.PrimType("int32"))
    assert f.script() == (
        "# from tvm.script import tir as T\n\n@T.prim_func(private=True)\n"
        "def main(x: T.int32) -> T.int32:\n    return x + 1"
    )


def test_a_module_prints_main_last_and_calls_by_the_module() -> None:
    helper = ir.GlobalVar("helper")
    module = ir.IRModule({"main": main(tir.Evaluate(ir.Call("int32", helper, [1])))}, {"note": "text"})
    module.functions[helper] = ir.PrimFunc([X], tir.Evaluate(X), attrs={"global_symbol": "other"})
    assert module.script() == "\n".join(
        [
            "# from tvm.script import ir as I",
            "# from tvm.script import tir as T",
            "",
            "@I.ir_module",
            "class Module:",
            '    I.module_attrs({"note": "text"})',
            "    @T.prim_func",
            "    def helper(x: T.int32):",
            '        T.func_attr({"global_symbol": "other"})',
            "        T.evaluate(x)",
            "",
            "    @T.prim_func",
            "    def main():",
            "        Module.helper(1)",
        ]
    )


def test_a_name_is_free_again_after_its_scope() -> None:
    loops = [ir.For(ir.Var("i"), 0, 4, 0, tir.Evaluate(k)) for k in (1, 2)]
    i = ir.Var("i")
    nested = ir.For(i, 0, 4, 1, ir.For(ir.Var("i"), 0, i, 1, tir.Evaluate(3)))
    assert str(tir.SeqStmt([*loops, nested])).count("for i in range(4)") == 2
    assert "for i_1 in T.parallel(i):" in str(nested)


def test_names_that_python_has_are_not_used() -> None:
    assert str(ir.Var("for") + ir.Var("i.outer") + ir.Var("T")) == "for_1 + i_outer + T_1"


def test_constant_arrays_and_predicates() -> None:
    pointer = ir.pointer_var("c", "float32")
    node = ir.AllocateConst(pointer, "float32", [2], np.array([1.0, 2.5], "float32"), tir.Evaluate(0))
    assert str(node).startswith('with T.allocate_const([1.0, 2.5], "float32", [2]) as c:')
    mask = tir.Broadcast(tir.const(True), 4)
    load = ir.BufferLoad(A, [X, tir.Ramp(0, 1, 4)], mask)
    assert str(load) == "A.vload([x, T.Ramp(0, 1, 4)], predicate=T.Broadcast(T.bool(True), 4))"
    store = ir.BufferStore(A, load, [X, tir.Ramp(0, 1, 4)], mask)
    assert str(store).endswith(f"A.vstore([x, T.Ramp(0, 1, 4)], {load}, predicate=T.Broadcast(T.bool(True), 4))")


# ---------------------------------------------------------------------------- options

NEST = from_source(ROUND_TRIPS["blocks"])


def test_without_sugar() -> None:
    text = main(ir.For(X, 0, 4, 0, ir.For(Y, 0, 4, 0, ir.BufferStore(A, 0.0, [X, Y]))), A).script(syntax_sugar=False)
    assert text.split("\n")[3:] == [
        "def main(A_handle: T.handle):",
        "    A = T.match_buffer(A_handle, (16, 8))",
        "    for x in range(4):",
        "        for y in range(4):",
        "            A[x, y] = T.float32(0.0)",
    ]
    assert 'with T.block("root"):' in NEST.script(syntax_sugar=False)
    assert "T.axis.remap" not in NEST.script(syntax_sugar=False)


def test_prefixes_types_indentation_and_name() -> None:
    f = main(tir.Evaluate(tir.const(1, "int64") + tir.Cast("int64", X)), X)
    text = f.script(tir_prefix="tir", int_dtype="int64", indent_spaces=2, name="other")
    assert text.split("\n")[2:] == [
        "@tir.prim_func",
        "def other(x: tir.int32):",
        '  tir.func_attr({"global_symbol": "main"})',
        '  tir.evaluate(1 + tir.Cast("int64", x))',
    ]
    assert tir.const(1.5).script(float_dtype="float32") == "1.5"
    assert (X + 1).script(verbose_expr=True) == "x = T.int32()\nx + 1"


def test_metadata() -> None:
    node = tir.Evaluate(ir.StringImm("a\nb"))
    assert node.script() == (
        'T.evaluate(metadata["tir.StringImm"][0])\n'
        "# Metadata omitted. Use show_meta=True in script() method to show it."
    )
    first, _, second = node.script(show_meta=True).partition("\n")
    assert second == 'T.evaluate(metadata["tir.StringImm"][0])'
    names: dict[str, Any] = {"tvm": type("tvm", (), {"ir": ir})}
    exec(first, names)
    assert names["metadata"]["tir.StringImm"][0].value == "a\nb"


def test_underlining() -> None:
    store = ir.BufferStore(A, A[X, Y] + 1.0, [X, Y])
    f = main(ir.For(X, 0, 4, 0, ir.For(Y, 0, 4, 0, tir.SeqStmt([store, tir.Evaluate(X), tir.Evaluate(Y)]))), A)
    path = ObjectPath.root().attr("body").attr("body").attr("body").attr("seq").array_index(0).attr("value").attr("b")
    assert f.script(path_to_underline=[path]).split("\n")[5:7] == [
        "        A[x, y] = A[x, y] + T.float32(1.0)",
        "                            ^^^^^^^^^^^^^^",
    ]
    assert f.script(obj_to_underline=[f.body]).split("\n")[4:8] == [
        "    for x, y in T.grid(4, 4):",
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^",
        "        A[x, y] = A[x, y] + T.float32(1.0)",
        "        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
    text = f.script(obj_to_underline=[f.body.body.body.seq[2]], num_context_lines=1, print_line_numbers=True)
    assert text == "\n".join(
        ["(... 6 lines skipped ...)", "7         T.evaluate(x)", "8         T.evaluate(y)", "          ^^^^^^^^^^^^^"]
    )


def test_the_second_of_two_equal_operands_is_underlined() -> None:
    f = main(tir.Evaluate(ir.Add(X, X)), X)
    path = ObjectPath.root().attr("body").attr("value").attr("b")
    assert f.script(path_to_underline=[path]).endswith("T.evaluate(x + x)\n                   ^")


def test_a_path_to_what_has_no_text_underlines_what_is_around_it() -> None:
    f = main(tir.Evaluate(X), X)
    path = ObjectPath.root().attr("body").attr("value").attr("dtype")
    assert f.script(path_to_underline=[path]).endswith("T.evaluate(x)\n               ^")


def test_annotating() -> None:
    inner = tir.LetStmt(Y, X + 1, tir.Evaluate(Y))
    f = main(tir.LetStmt(X, 1, inner))
    assert f.script(obj_to_annotate={inner: "here", inner.body: "there"}).split("\n")[4:] == [
        "    x: T.int32 = 1",
        "    # here",
        "    with T.LetStmt(x + 1) as y:",
        "        T.evaluate(y)  # there",
    ]
    path = ObjectPath.root().attr("body").attr("body").attr("body")
    assert f.script(path_to_annotate={path: "by path"}).endswith("T.evaluate(y)  # by path")


def test_an_unknown_option_is_told() -> None:
    with refuses("printer.unknown_option"):
        X.script(sugar=True)


def test_show_prints_or_calls_the_hook(capsys: pytest.CaptureFixture[str]) -> None:
    (X + 1).show(black_format=False)
    assert capsys.readouterr().out == "x + 1\n"
    seen: list[Any] = []
    script.set_show_hook(lambda text, node, style: seen.append((text, style)))
    try:
        (X + 1).show(style="light")
    finally:
        script.set_show_hook(None)
    assert seen == [("x + 1", "light")]


# ---------------------------------------------------------------------------- spans


def cut(text: str, span: ir.Span) -> str:
    """The characters of a span of one line."""
    assert span.line == span.end_line
    return text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]


def test_spans_of_expressions_and_statements() -> None:
    f = from_source(ROUND_TRIPS["blocks"])
    text, spans = script_with_spans(f)
    assert text == f.script()
    root = f.body.block
    grid, second = root.body.seq
    block = grid.body.body.block
    assert cut(text, spans[block.body.value]) == "C[vi] + A[vi, vk]"
    assert cut(text, spans[block.reads[0]]) == "A[vi, vk]"
    assert cut(text, spans[block.init]) == "C[vi] = T.float32(0.0)"
    assert spans[grid] == spans[grid.body]
    assert text.split("\n")[spans[grid].line - 1] == "    for i, k in T.grid(16, 16):"
    assert text.split("\n")[spans[grid].end_line - 1].strip() == "C[vi] = C[vi] + A[vi, vk]"
    assert spans[block] == spans[grid.body.body]
    assert cut(text, spans[second.body.body.seq[0].predicate]) == "i0 * 5 + i1 < 16"
    assert [cut(text, s) for s in spans.all(grid.loop_var)] == ["i", "i"]
    assert spans.get(X) is None and X not in spans


def test_what_stands_at_a_place() -> None:
    f = from_source(ROUND_TRIPS["loops"])
    text, spans = script_with_spans(f)
    row = next(n for n, line in enumerate(text.split("\n"), 1) if "while" in line)
    loop = spans.at(row, 14)
    assert isinstance(loop, ir.While)
    assert isinstance(spans.at(row, text.split("\n")[row - 1].index("<") + 1), ir.LT)
    assert spans.at(1000, 1) is None


# ---------------------------------------------------------------------------- size


def test_large_and_deep_programs_print(cpu_seconds) -> None:
    many = ir.SeqStmt([ir.BufferStore(A, tir.const(float(k)), [k % 16, k % 8]) for k in range(5000)])
    assert main(many, A).script().count("\n") == 5003
    deep: ir.PrimExpr = X
    for k in range(1, 1000):
        deep = deep + Y * k
    assert len(str(deep)) > 6000
    for k in range(1000):
        deep = tir.Select(X < k, deep, Y)
    assert str(deep).startswith("T.Select(x < 999, T.Select(x < 998, ")
    nest: ir.Stmt = tir.Evaluate(0)
    for _ in range(5000):
        nest = tir.LetStmt(ir.Var("v"), X, nest)
    assert "v_4999: T.int32 = x" in main(nest, X).script()
    assert cpu_seconds(lambda: main(nest, X).script()) < 3
    assert script_with_spans(main(nest, X))[0].count("\n") == 5004


def test_cprint_shows_texts_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    from tvmagic.script.highlight import cprint

    cprint("a + 1")
    cprint(X + 1, style="dark")
    assert capsys.readouterr().out == "a + 1\nx + 1\n"
    with pytest.raises(TypeError, match="`dict`"):
        cprint({})


def reads_back(func: ir.PrimFunc) -> str:
    text = func.script()
    assert_structural_equal(from_source(text), func)
    return text


def test_buffers_are_declared_behind_what_allocates_their_memory() -> None:
    pointer = ir.Var("W", ir.PointerType(ir.PrimType("int32"), "global"))
    buffer = tir.decl_buffer((4,), "int32", "W", data=pointer)
    store = tir.BufferStore(buffer, 1, (0,))
    allocate = tir.Allocate(pointer, "int32", (4,), tir.const(True, "bool"), tir.SeqStmt([store, store]))
    n = ir.Var("n")
    lines = reads_back(ir.PrimFunc([n], tir.IfThenElse(n < 3, allocate, None))).split("\n")
    first = next(k for k, line in enumerate(lines) if "T.allocate" in line)
    assert lines[first + 1].strip() == 'W_1 = T.Buffer((4,), "int32", data=W)' and lines[first - 1].endswith(
        "if n < 3:"
    )


def test_buffers_of_a_loops_extent_are_declared_above_it() -> None:
    handle = ir.Var("A", ir.PointerType(ir.PrimType("int32"), "global"))
    buffer = tir.decl_buffer((4,), "int32", "B", data=handle)
    i = ir.Var("i")
    loop = tir.For(i, 0, tir.BufferLoad(buffer, (0,)), tir.ForKind.SERIAL, tir.BufferStore(buffer, i, (1,)))
    text = reads_back(ir.PrimFunc([handle], loop))
    assert text.index('B = T.Buffer((4,), "int32", data=A)') < text.index("for i in range(B[0])")
