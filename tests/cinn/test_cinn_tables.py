"""CINN's text, small decision by small decision: numbers, operators, places of errors, types, attributes, blocks."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pytest
from written_texts import WHOLE

from tvmagic import ir, te
from tvmagic.arith.analyzer import Analyzer
from tvmagic.cinn.text.numbers import number_value, plain_float
from tvmagic.cinn.text.parser import is_cinn_text
from tvmagic.cinn.text.printer import cinn_with_nodes, type_name
from tvmagic.cinn.text.syntax import INFIX, Expr, Statement, Text, parse_programs
from tvmagic.cinn.text.unprintable import left_out
from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.ir.query import nodes_of
from tvmagic.script import cinn_text, from_cinn, from_source

# ---------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x0", 0.0),
        ("(int8_t)-5", -5),
        ("(float16)-0.5f", -0.5),
        ("-7ull", -7),
        ("-3", -3),
        ("1.5e3", 1500.0),
        ("1e2f", 100.0),
        ("2f", 2.0),
        ("-inff", -math.inf),
        ("nanf", math.nan),
        ("-2.5f", -2.5),
        ("cinn::common::raw_uint16_to_float16(0x3c00)", 1.0),
        ("cinn::common::raw_uint16_to_bfloat16(0xBF80)", -1.0),
    ],
)
def test_values_of_literals(text: str, value: float) -> None:
    assert number_value(text) == pytest.approx(value, nan_ok=True) and type(number_value(text)) is type(value)


def test_a_text_that_is_no_number() -> None:
    with pytest.raises(TVMagicError, match=r"`1\.2\.3`"):
        number_value("1.2.3")
    assert [plain_float(v) for v in (2.0, 0.5, 1e-7, -3.25)] == ["2", "0.5", "1e-07", "-3.25"]


# ---------------------------------------------------------------------------- operators and places


def parsed(text: str) -> list[Statement]:
    (program,) = parse_programs(Text(text))
    return program.statements


def tree(expr: Expr) -> Any:
    return (expr.text, *map(tree, expr.args)) if expr.kind == "infix" else expr.text


RANKS = [["or"], ["and"], ["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"]]


def drawn(rng: random.Random, depth: int) -> tuple[Any, str, int]:
    """A random tree of operators, its text with the parentheses that it needs alone, and how tightly it binds."""
    if depth == 0 or rng.random() < 0.2:
        name = rng.choice("abcd")
        return name, name, len(RANKS)
    rank = rng.randrange(len(RANKS))
    operator = rng.choice(RANKS[rank])
    (left, left_text, left_rank), (right, right_text, right_rank) = drawn(rng, depth - 1), drawn(rng, depth - 1)
    if left_rank < rank:
        left_text = f"({left_text})"
    if right_rank <= rank:  # operators of one rank go from left to right
        right_text = f"({right_text})"
    return (operator, left, right), f"{left_text} {operator} {right_text}", rank


@pytest.mark.parametrize("seed", range(60))
def test_operators_bind_as_in_c(seed: int) -> None:
    wanted, text, _ = drawn(random.Random(seed), 4)
    (statement,) = parsed(f"x = {text}")
    assert tree(statement.exprs[0]) == wanted
    assert {operator: rank for rank, operators in enumerate(RANKS) for operator in operators} == INFIX


B = "serial for (i, 0, 8)\n{\n  ScheduleBlock(B)\n  {\n    i0 = axis.bind(i)\n    B[i0] = {}\n  }\n}"


@pytest.mark.parametrize(
    ("text", "line", "underlined", "code"),
    [
        (" ", 1, " ", "cinn.text.no_statement"),
        ("$", 1, "$", "cinn.text.unknown_character"),
        ("x = $", 1, "$", "cinn.text.unknown_character"),
        ("x = ", 1, "the end", "cinn.text.incomplete_statement"),
        ("x = (1", 1, "the end", "cinn.text.unexpected_token"),
        ("serial for (i, 0 8)\n{ }", 1, "8", "cinn.text.unexpected_token"),
        ("serial for (1, 0, 8)\n{ }", 1, "1", "cinn.text.unexpected_token"),
        ("{\n  B[0] = 1", 1, "{", "cinn.text.brace_not_closed"),
        ("ScheduleBlock(B)\n{\n  B[0] = 1", 1, "ScheduleBlock", "cinn.text.block_not_closed"),
        ("ScheduleBlock(7)", 1, "7", "cinn.text.unexpected_token"),
        ("assert(1)", 1, "assert", "cinn.text.wrong_assert"),
        ("\n  assert(1, 2, 3)", 2, "assert", "cinn.text.wrong_assert"),
        ("x += 1", 1, "+=", "cinn.text.unknown_operator"),
        ("A[0] -= 1", 1, "-=", "cinn.text.unknown_operator"),
        ("A[0]", 1, "A", "cinn.text.expression_statement"),
        ("f(x) = 1", 1, "f", "cinn.text.wrong_store"),
        ("x = * 2", 1, "*", "cinn.text.not_an_expression"),
        ("x = y<float32>(1)", 1, "y", "cinn.text.unknown_template"),
        ("poly_for (i, 0, 3)", 1, "poly_for", "cinn.text.poly_for"),
        (
            "ScheduleBlock(B)\n{\n  i0, i1 = axis.bind(i)\n}",
            1,
            "ScheduleBlock"[:1],
            "cinn.text.wrong_binding_count",
        ),
        ("ScheduleBlock(B)\n{\n  attrs a:1\n  B[0] = 1\n}", 3, "attrs", "cinn.text.expression_statement"),
        ("ScheduleBlock(B)\n{\n  attrs(a:1\n  B[0] = 1\n}", 3, "attrs", "cinn.text.wrong_attributes"),
        ("ScheduleBlock(B)\n{\n  attrs(1)\n  B[0] = 1\n}", 3, "attrs", "cinn.text.wrong_attributes"),
        ("alloc(3)", 1, "3", "cinn.text.unexpected_token"),
        ("function f (1)\nx = 1", 1, "1", "cinn.text.unexpected_token"),
        ("function f (_A _B)\nx = 1", 1, "_B", "cinn.text.unexpected_token"),
        ("function f (_A)", 1, "f", "cinn.text.empty_function"),
        ("  ", 1, " ", "cinn.text.no_statement"),
        ('x = "a" +', 1, "+", "cinn.text.incomplete_statement"),
    ],
)
def test_places_of_errors(text: str, line: int, underlined: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        parse_programs(Text(text))
    error, rows = raised.value, text.split("\n")
    assert code == error.code and error.span.line == line and error.source_line == rows[line - 1]
    if underlined != "the end":
        assert rows[line - 1][error.span.column - 1 :].startswith(
            underlined
        ) and error.span.end_column - error.span.column == len(underlined)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("A[i0] + A", "cinn.text.tensor_without_indices"),
        ("A[i0, 0] + A[i0]", "cinn.text.wrong_index_count"),
        ("noname(A[i0])", "cinn.text.unknown_function"),
        ("A[1.0f]", "cinn.text.index_not_integer"),
        ("A[(i0 < 3)]", "cinn.text.index_not_integer"),
        ("(1.0f + 1.00000000000000000)", "cinn.text.types_differ"),
        ("(5ll + true)", "cinn.text.types_differ"),
        ("((i0 < 1) + 1.0f)", "cinn.text.types_differ"),
        ("(" + "9" * 401 + " + 1)", "cinn.text.number_too_long"),
    ],
)
def test_what_does_not_fit(text: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        from_cinn(B.replace("{}", text))
    assert code == raised.value.code and raised.value.span.line == 6


# ---------------------------------------------------------------------------- types


def types_of(func: ir.PrimFunc) -> dict[str, str]:
    found = {b.name: str(b.dtype) for b in func.buffer_map.values()}
    found |= {p.name: str(p.dtype) for p in func.params if p not in func.buffer_map}

    def note(node: Any) -> None:
        if isinstance(node, ir.LetStmt):
            found[node.var.name] = str(node.var.dtype)
        elif isinstance(node, ir.For):
            found[node.loop_var.name] = str(node.loop_var.dtype)

    ir.post_order_visit(func.body, note)
    return found


@pytest.mark.parametrize(
    ("value", "types"),
    [
        ("A[i0]", "A float32 B float32 i int32"),
        ("(A[i0] + 1)", "A int32 B int32"),
        ("(A[i0] + 1ll)", "A int64 B int64"),
        ("(A[i0] * 2.0)", "A float64 B float64"),
        ("(A[i0] * 2.0f)", "A float32 B float32"),
        ("(A[i0] + (int8_t)1)", "A int8 B int8"),
        ("((A[i0] + 1) + 1ll)", "A int64 B int64"),
        ("((A[i0] + 1ll) + 1)", "A int64 B int64"),
        ("float64(A[i0])", "A float32 B float64"),
        ("float32((A[i0] + (float16)1.0f))", "A float16 B float32"),
        ("(A[i0] < 3)", "A int32 B bool"),
        ("((A[i0] < 3ll) and C[i0])", "A int64 B bool C bool"),
        ("!A[i0]", "A bool B bool"),
        ("-(A[i0])", "A float32 B float32"),
        ("select(C[i0], A[i0], 2.0)", "A float64 B float64 C bool"),
        ("if_then_else(C[i0], 1ll, A[i0])", "A int64 B int64 C bool"),
        ("isnan(A[i0])", "A float32 B bool"),
        ("exp((A[i0] + 1.0))", "A float64 B float64"),
        ("(A[i0] + float32(C[(i0 / 2)]))", "A float32 B float32 C float32"),
        ("(let x = A[i0] in (x + 1ll))", "A int64 B int64"),
        ("cinn_max(A[i0], 2.0)", "A float64 B float64"),
        ("(m + A[i0])", "A int32 B int32 m int32"),
        ("A[(n + i0)]", "A float32 n int32"),
        ("(A[i0] + inf)", "A float32 B float32"),
        ("(inf + 1.0)", "B float64"),
        ("Reduce(sum, A[i0],0.0)", "A float64 B float64"),
        ("(A[i0] + (uint8_t)1)", "A uint8 B uint8"),
        ("(1 + (uint8_t)1)", "B uint8"),
        ("(A[i0] == true)", "A bool B bool"),
    ],
)
def test_types_follow_from_the_text(value: str, types: str) -> None:
    func = from_cinn(B.replace("{}", value))
    words = types.split()
    found = types_of(func)
    assert {name: found[name] for name in words[::2]} == dict(zip(words[::2], words[1::2]))


@pytest.mark.parametrize(
    ("line", "types"),
    [
        ("float32 v = 1.0f", "v float32"),
        ("int64 v = 5", "v int64"),
        ("float16 v", "v float16"),
        ("v = (A[i0] + 1ll)", "v int64 A int64"),
        ("bool v = (A[i0] < 1.0)", "v bool A float64"),
    ],
)
def test_types_of_variables(line: str, types: str) -> None:
    words = types.split()
    found = types_of(from_cinn(B.replace("B[i0] = {}", f"{line}\n    B[i0] = A[i0]")))
    assert {name: found[name] for name in words[::2]} == dict(zip(words[::2], words[1::2]))


# ---------------------------------------------------------------------------- texts as a whole


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        (WHOLE, True),
        (B, True),
        ("// a\n\n  // b\nserial for (i, 0, 3)", True),
        ("{ { ScheduleBlock(root)", True),
        ("Expr 0 {\nx", True),
        ("vectorize[4] for (i, 0, 4)", True),
        ("vectorize(4) for (i", True),
        ("thread_bind[blockIdx.x] for (i", True),
        ("thread_bind[invalid info] for (", True),
        ("default for (i", True),
        ("for (i, 0, 3)", False),
        ("warp for (i", False),
        ("B[i] = A[i]", False),
        ("A: float32[3]", False),
        ("", False),
        ("function f (", True),
        ("def f(", False),
        ("ScheduleBlock", False),
    ],
)
def test_texts_that_are_taken_as_cinns(text: str, yes: bool) -> None:
    assert is_cinn_text(text) is yes


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("3.5", 3.5),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("-2e-1", -0.2),
        ("2.", 2.0),
        ("1.5e+2", 150.0),
        ("fast", "fast"),
        ("1.2.3", "1.2.3"),
        ("3x", "3x"),
        ("e5", "e5"),
        ("", ""),
    ],
)
def test_values_of_attributes(written: str, value: Any) -> None:
    func = from_cinn(B.replace("    B[i0] = {}", f"    attrs(note:{written})\n    B[i0] = A[i0]"))
    (found,) = [n for n in notes(func) if "note" in n]
    plain = getattr(found["note"], "value", found["note"])
    assert plain == value and type(plain) is type(value)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("attrs()", {}),
        ("attrs(a:1)", {"a": 1}),
        ("attrs(a:1, b:2)", {"a": 1, "b": 2}),
        ("attrs(a:x, y)", {"a": "x, y"}),
        ("attrs(a.b:(x), c_1:y:z)  ", {"a.b": "(x)", "c_1": "y:z"}),
        ("attrs(a:x, , y)", {"a": "x, , y"}),
        ("attrs(a:)", {"a": ""}),
    ],
)
def test_attributes_and_what_follows_them(written: str, found: dict[str, Any]) -> None:
    func = from_cinn(B.replace("    B[i0] = {}", f"    {written}\n    B[i0] = A[i0]"))
    assert [{key: getattr(x, "value", x) for key, x in n.items()} for n in notes(func)] == [found, {}]
    assert "B[i0] = A[i0]" in cinn_text(func)


@pytest.mark.parametrize("written", ["attrs()", "attrs(a:1)", "attrs(a:x, y)", "attrs(a:1)  "])
def test_a_text_that_ends_after_attributes(written: str) -> None:
    with pytest.raises(TVMagicError, match="`B`"):
        from_cinn(f"ScheduleBlock(B)\n{{\n{written}")


def notes(func: ir.PrimFunc) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    ir.post_order_visit(
        func.body,
        lambda n: found.append(dict(n.annotations)) if hasattr(n, "name_hint") and hasattr(n, "annotations") else None,
    )
    return found


@pytest.mark.parametrize(
    ("word", "printed"),
    [
        ("serial", "serial"),
        ("default", "default"),
        ("for", "for"),
        ("thread_bind[invalid info]", "thread_bind[invalid info]"),
        ("unroll", "unroll"),
        ("vectorize[2]", "vectorize[2]"),
        ("vectorize(8)", "vectorize[8]"),
        ("vectorize", "vectorize[8]"),
        ("parallel", "parallel"),
        ("thread_bind[blockIdx.y]", "thread_bind[blockIdx.y]"),
    ],
)
def test_kinds_of_loops(word: str, printed: str) -> None:
    text = B.replace("{}", "A[i0]").replace("serial for", "for" if word == "for" else f"{word} for")
    assert re.search(
        rf"^ *{re.escape(printed)}{'' if printed == 'for' else ' for'} \(i, 0, 8\)$", cinn_text(from_cinn(text)), re.M
    )


@pytest.mark.parametrize(
    ("bind", "extent"), [("i", 8), ("(i + 2)", 10), ("(i * 3)", 22), ("(7 - i)", 8), ("(i / 2)", 4), ("(i % 3)", 3)]
)
def test_sizes_follow_from_what_is_bound(bind: str, extent: int) -> None:
    func = from_cinn(B.replace("{}", "A[(i0 + 1)]").replace("bind(i)", f"bind({bind})"))
    assert {b.name: int(b.shape[0]) for b in func.buffer_map.values()} == {"A": extent + 1, "B": extent}


@pytest.mark.parametrize(
    ("guard", "extent"),
    [
        ("((i + 2) < 5)", 5),
        ("((i + 2) <= 5)", 6),
        ("(((i + 2) < 6) and (n < 3))", 6),
        ("((i + 2) < 50)", 10),
        ("((i + 1) < 5)", 10),
    ],
)
def test_sizes_follow_from_conditions_around(guard: str, extent: int) -> None:
    block = B.split("\n")[2:-1]
    inner = "\n".join(block).replace("bind(i)", "bind((i + 2))").replace("{}", "A[i0]")
    func = from_cinn(f"serial for (i, 0, 8)\n{{\n  if ({guard}) {{\n{inner}\n  }}\n}}")
    assert [int(b.shape[0]) for b in func.buffer_map.values()] == [extent, extent]


HEAD = "from tvm.script import tir as T\n\n@T.prim_func\ndef main(A: T.Buffer((8,), 'float32')):\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    A[0] = T.float32(1)", ""),
        (
            '    for i in T.serial(8, annotations={"k": 1}):\n        A[i] = T.float32(1)',
            "the annotation `k` of a loop",
        ),
        ('    with T.attr(0, "key", 1):\n        A[0] = T.float32(1)', "the attribute `key`"),
        (
            "    B = T.Buffer((4, 2), 'float32', data=A.data)\n    B[0, 0] = T.float32(1)",
            "that `B` is in the memory of `A`",
        ),
        ("    A_1 = T.Buffer((8,), 'float32', data=A.data)\n    A_1[0] = A[0]", "that `A_1` is in the memory of `A`"),
    ],
)
def test_what_the_text_does_not_say(body: str, said: str) -> None:
    assert left_out(from_source(HEAD + body)) == said


@pytest.mark.parametrize(
    ("regions", "sizes"),
    [
        ("read_buffers(_A[i0(0:8)])\n    write_buffers(_B[i0(0:8)])", (8, 8)),
        ("read_buffers(_A[i0(0:20)])", (20, 20)),
        ("read_buffers(_A[i0(undefined:undefined)])", (8, 8)),
        ("read_buffers(_A[i0(2:9)])", (9, 9)),
        ("read_buffers(_A[i0(undefined:30)])", (8, 8)),
        ("", (8, 8)),
    ],
)
def test_sizes_follow_from_regions(regions: str, sizes: tuple[int, int]) -> None:
    """A variable has the ends that regions give it; without them those of what it is bound to."""
    func = from_cinn(B.replace("    B[i0] = {}", f"    {regions}\n    B[i0] = A[i0]"))
    assert tuple(int(b.shape[0]) for b in func.buffer_map.values()) == sizes


def test_what_regions_say_of_tensors_that_indices_say_nothing_of() -> None:
    text = B.replace("    B[i0] = {}", "    read_buffers(_A[(0:50)], _I[i0(0:8)])\n    B[i0] = A[I[i0]]")
    assert {b.name: int(b.shape[0]) for b in from_cinn(text).buffer_map.values()} == {"A": 50, "I": 8, "B": 8}


@pytest.mark.parametrize(
    "ends",
    [
        "n n",
        "n (n+2)",
        "(n+2) n",
        "4 n",
        "n 4",
        "n m",
        "(m+n) (n+m)",
        "8 4",
        "4 8",
        "n 4 n",
        "n cinn_max(n,4)",
        "cinn_max(n,4) n",
        "n (n+1) (n-1)",
        "n m (n+m)",
    ],
)
def test_a_tensor_is_as_large_as_its_furthest_access(ends: str) -> None:
    """Of several ends the greatest for all sizes; if it is not known which, the greatest of them."""
    nests = [
        B.replace("(B)", f"(B{n})").replace("(i, 0, 8)", f"(i, 0, {end})").replace("B[i0] = {}", f"B{n}[i0] = A[i0]")
        for n, end in enumerate(ends.split())
    ]
    (size,) = next(b.shape for b in from_cinn("\n".join(nests)).buffer_map.values() if b.name == "A")
    names = {v.name: v for v in nodes_of(size, ir.Var)}
    for given in ({"n": 3, "m": 7}, {"n": 5, "m": 2}, {"n": 9, "m": 9}):
        found = ir.substitute(size, {var: ir.IntImm("int32", given[name]) for name, var in names.items()})
        assert int(Analyzer().simplify(found)) == max(eval(end, {"cinn_max": max}, dict(given)) for end in ends.split())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("index", "region", "said"),
    [
        ("I[0]", "", "the size of axis 0 of `A` cannot be told from the text"),
        ("(I[i0] + 1)", "", "the size of axis 0 of `A` cannot be told from the text"),
        ("I[0]", "read_buffers(_I[(0:1)], _A[(0:50)])", None),
        ("I[0]", "read_buffers(_I[(0:1)], _A[(0:(i0 + 50))])", None),
        ("I[0]", "read_buffers(_I[(0:1)], _A[(0:I[3])])", "the size of axis 0 of `A` cannot be told from the text"),
    ],
)
def test_sizes_that_depend_on_an_element(index: str, region: str, said: str | None) -> None:
    text = B.replace("    B[i0] = {}", f"    {region}\n    B[i0] = A[{index}]")
    if said is not None:
        with pytest.raises(TVMagicError, match=re.escape(said)):
            from_cinn(text, {"I": ((8,), "int32")})
        return
    sizes = {b.name: int(b.shape[0]) for b in from_cinn(text, {"I": ((8,), "int32")}).buffer_map.values()}
    assert sizes == {"I": 8, "A": 57 if "i0 + 50" in region else 50, "B": 8}


@pytest.mark.parametrize(
    ("line", "index", "size"),
    [
        ("int32 v = (i0 % 3)", "v", 3),
        ("int32 v = (7 - i0)", "(v + 2)", 10),
        ("int32 v = i0\nint32 w = (v * 2)", "w", 15),
        ("int32 v = 5", "v", 6),
        ("int32 v = (i0 + n)", "v", "n + 8"),
        ("int32 v = I[i0]", "v", None),
        ("int32 v = I[0]", "v", None),
        ("int32 v", "v", None),
        ("int32 v = I[i0]", "(v % 4)", 4),
        ("bool b = (i0 < 3)\nint32 v = select(b, 1, 6)", "v", 7),
        ("float32 x = A[i0]\nint32 v = int32(x)", "(v % 2)", 2),
    ],
)
def test_sizes_follow_from_variables_with_values(line: str, index: str, size: int | str | None) -> None:
    """From the values that they may have, never from the variable itself, which nothing outside the block knows."""
    text = B.replace("    B[i0] = {}", f"    {line}\n    B[i0] = T[{index}]")
    known = {"I": ((8,), "int32"), "A": ((8,), "float32")}
    if size is None:
        with pytest.raises(TVMagicError, match="`T`"):
            from_cinn(text, known)
        return
    shapes = {b.name: str(b.shape[0]) for b in from_cinn(text, known).buffer_map.values()}
    assert shapes["T"] == str(size)


FLAT = """serial for (flat_i, 0, 24)
{
  ScheduleBlock(Y)
  {
    _flat_i = axis.bind(flat_i)
    Y[_flat_i] = (A[_flat_i] + V[_flat_i])
  }
}"""


@pytest.mark.parametrize("known", ["", "Y", "AY", "AVY", "V"])
def test_flat_indices_of_what_has_one_dimension_or_several(known: str) -> None:
    """Tensors whose shape is known have theirs; of all others the index is that of their only dimension."""
    func = from_cinn(FLAT, dict.fromkeys(known, ((4, 6), "float32")))
    shapes = {b.name: [int(n) for n in b.shape] for b in func.buffer_map.values()}
    assert shapes == {name: [4, 6] if name in known else [24] for name in "AVY"}


def test_a_tensor_that_is_stored_at_flat_indices_and_others() -> None:
    """How many dimensions it has its stores say too."""
    plain = "serial for (i, 0, 4) { serial for (j, 0, 6) { ScheduleBlock(W) { i0, i1 = axis.bind(i, j) Y[i0, i1] = 1.0f } } }"
    for text in (f"{FLAT}\n{plain}", f"{plain}\n{FLAT}"):
        func = from_cinn(text.replace("V[_flat_i]", "2.0f"))
        assert {b.name: [int(n) for n in b.shape] for b in func.buffer_map.values()} == {"A": [24], "Y": [4, 6]}


def test_names_of_vector_types() -> None:
    for lanes, name in ((1, "float32"), (2, "float32<2>"), (4, "float32<4>")):
        assert type_name(ir.dtype_of("float32").with_lanes(lanes)) == name


def test_the_lines_of_a_text_and_the_statements_that_they_are_of() -> None:
    func = from_cinn(f"function f (_A, _B)\n{B.replace('{}', 'A[i0]')}")
    lines, statements = cinn_with_nodes(func)
    assert lines == cinn_text(func).split("\n") and len(lines) == len(statements)
    assert lines[0].startswith("function f") and any("read_buffers" in line for line in lines)
    assert cinn_with_nodes(func, head=False)[0] == cinn_text(func, head=False).split("\n")


def test_a_module_is_printed_function_by_function() -> None:
    """Each of them in CINN's form, those that have it already as they are."""
    a, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="k")
    func = te.create_prim_func([a, te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="S")])
    own = from_cinn(cinn_text(func))
    for functions in ([func], [func, func], [own, func], [func, own], [own, own]):
        module = ir.IRModule({f"f{n}": f for n, f in enumerate(functions)})
        text = cinn_text(module)
        assert text.count("ScheduleBlock(S__reduce_init)") == len(functions) == text.count("function f")


def test_buffers_that_are_called_otherwise() -> None:
    text = B.replace(
        "    B[i0] = {}", "    read_buffers(_A_7[i0(0:8)])\n    write_buffers(_B[i0(0:8)])\n    B[i0] = A[i0]"
    )
    func = from_cinn(text)
    assert [(b.name, b.data.name) for b in func.buffer_map.values()] == [("A", "_A_7"), ("B", "B")]
    assert "read_buffers(_A_7[i0(0:8)])" in cinn_text(func)


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("B[i0] = (B[i0] + A[i0, i1])", "SR"),
        ("B[i0] = A[i0, i1]", "SS"),
        ("B[i0] = (C[i0] + A[i0, i1])", "SS"),
        ("B[i0, i1] = (B[i0, i1] + A[i0, i1])", "SS"),
        ("init\n{\nB[i0] = 0.0f\n}\nB[i0] = A[i0, i1]", "SR"),
        ("B[0] = (B[0] + A[i0, i1])", "RR"),
    ],
)
def test_axes_that_reduce(body: str, kinds: str) -> None:
    """A block that loads what it stores, or has an init, reduces along what its store has no index of."""
    func = from_cinn(
        "serial for (i, 0, 4)\n{\nserial for (k, 0, 6)\n{\nScheduleBlock(B)\n{\ni0, i1 = axis.bind(i, k)\n"
        + body
        + "\n}\n}\n}"
    )
    found: list[ir.Block] = []
    ir.post_order_visit(
        func.body, lambda n: found.append(n) if isinstance(n, ir.Block) and n.name_hint == "B" else None
    )
    assert "".join("R" if v.iter_type == ir.IterVar.CommReduce else "S" for v in found[0].iter_vars) == kinds


@pytest.mark.parametrize("lists", [False, True])
def test_bodies_of_one_statement_with_blocks_are_in_braces_if_asked(lists: bool) -> None:
    func = from_cinn("ScheduleBlock(root)\n{\n" + B.replace("{}", "A[i0]") + "\n}")
    wanted = "ScheduleBlock(root) { { serial for (i, 0, 8) { ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = A[i0] } } } }"
    if not lists:
        wanted = wanted.replace("(root) { {", "(root) {").removesuffix(" }")
    assert " ".join(cinn_text(func, regions=False, lists=lists, head=False).split()) == wanted
