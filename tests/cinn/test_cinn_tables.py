"""CINN's text, small decision by small decision: numbers, operators, places of errors, types, attributes, blocks."""

from __future__ import annotations

import random
from typing import Any

import pytest
from refusals import refuses

from tvmagic import ir, te
from tvmagic.arith.analyzer import Analyzer
from tvmagic.cinn.text.numbers import number_value, plain_float
from tvmagic.cinn.text.syntax import INFIX, Expr, Statement, Text, parse_programs
from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.ir.query import nodes_of
from tvmagic.script import cinn_text, from_cinn

# ---------------------------------------------------------------------------- numbers


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


# ---------------------------------------------------------------------------- texts as a whole


@pytest.mark.parametrize(
    ("bind", "extent"), [("i", 8), ("(i + 2)", 10), ("(i * 3)", 22), ("(7 - i)", 8), ("(i / 2)", 4), ("(i % 3)", 3)]
)
def test_sizes_follow_from_what_is_bound(bind: str, extent: int) -> None:
    func = from_cinn(B.replace("{}", "A[(i0 + 1)]").replace("bind(i)", f"bind({bind})"))
    assert {b.name: int(b.shape[0]) for b in func.buffer_map.values()} == {"A": extent + 1, "B": extent}


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
        ("I[0]", "", "cinn.text.size_not_known"),
        ("(I[i0] + 1)", "", "cinn.text.size_not_known"),
        ("I[0]", "read_buffers(_I[(0:1)], _A[(0:50)])", None),
        ("I[0]", "read_buffers(_I[(0:1)], _A[(0:(i0 + 50))])", None),
        ("I[0]", "read_buffers(_I[(0:1)], _A[(0:I[3])])", "cinn.text.size_not_known"),
    ],
)
def test_sizes_that_depend_on_an_element(index: str, region: str, said: str | None) -> None:
    text = B.replace("    B[i0] = {}", f"    {region}\n    B[i0] = A[{index}]")
    if said is not None:
        with refuses(said):
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


def test_a_module_is_printed_function_by_function() -> None:
    """Each of them in CINN's form, those that have it already as they are."""
    a, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="k")
    func = te.create_prim_func([a, te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="S")])
    own = from_cinn(cinn_text(func))
    for functions in ([func], [func, func], [own, func], [func, own], [own, own]):
        module = ir.IRModule({f"f{n}": f for n, f in enumerate(functions)})
        text = cinn_text(module)
        assert text.count("ScheduleBlock(S__reduce_init)") == len(functions) == text.count("function f")
