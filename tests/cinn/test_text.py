"""CINN's text read back: every statement there and back, what the text leaves out, errors with places."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import cinn, ir, te, tir
from tvmagic.cinn.cinn_form import to_tensorir
from tvmagic.cinn.text.syntax import Region
from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.operators import Source, operator_from_cell
from tvmagic.script import cinn_text, from_cinn, from_source


def block(*lines: str, extent: str = "8", kind: str = "serial") -> str:
    body = "\n".join(f"      {line}" for line in lines)
    return (
        "ScheduleBlock(root)\n{\n"
        f"  {kind} for (i, 0, {extent})\n  {{\n    ScheduleBlock(B)\n    {{\n      i0 = axis.bind(i)\n{body}\n    }}\n  }}\n}}"
    )


def same(text: str, **options) -> None:
    assert cinn_text(from_cinn(text, **options), regions="read_buffers" in text, head=False) == text


STORES = [
    "B[i0] = (A[i0] * 2.50000000f)",
    "B[i0] = cinn_max(cinn_min(A[i0], 1.00000000f), -1.00000000f)",
    "B[i0] = select((A[i0] > 0.00000000f), exp(A[i0]), (A[i0] / 2.00000000f))",
    "B[i0] = if_then_else(((i0 < 3) and !(i0 == 1)), 1.00000000f, float32(i0))",
    "B[i0] = ((A[(i0 / 2)] + A[(i0 % 2)]) - C[0])",
    "B[i0] = (let x = (A[i0] + 1.00000000f) in (x * x))",
    "B[i0] = (1 + A[(7 - i0)])",
    "B[i0] = (A[i0] + 3ll)",
    "B[i0] = (A[i0] * 0.50000000000000000)",
    "B[i0] = ((i0 >= 2) or true)",
    "B[i0] = pow(sqrt(A[i0]), 2.00000000f)",
]


STATEMENTS = [
    ("if ((i0 < 4)) {", "  B[i0] = A[i0]", "} else {", "  B[i0] = 0.00000000f", "}"),
    ("{", "  B[i0] = A[i0]", "  C[i0] = (A[i0] + 1.00000000f)", "}"),
    ("attrs(kind:fast, level:3)", "B[i0] = A[i0]"),
    ("float32 x = (A[i0] + 1.00000000f)", "B[i0] = (x * x)"),
    ('assert((i0 < 8), "far")', "B[i0] = A[i0]"),
    ("if ((i0 < 4)) {", "  {", "  }", "} else {", "  B[i0] = A[i0]", "}"),
]


def test_a_schedule_there_and_back() -> None:
    a, w = te.placeholder((10, 16), name="A"), te.placeholder((16, 12), name="W")
    k = te.reduce_axis((0, 16), name="k")
    b = te.compute((10, 12), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="B")
    c = te.compute((10, 12), lambda i, j: tir.exp(b[i, j]), name="C")
    schedule = cinn.IRSchedule(cinn.lower([a, w, c]))
    loops = schedule.split("B", 0, [-1, 4])  # 10 = 3 * 4 with a guard
    schedule.reorder([schedule.get_loops("B")[2], loops[1]])
    schedule.fuse("C", [0, 1])
    schedule.vectorize(schedule.get_loops("C")[0], 8)
    schedule.annotate("B", "note", 3)
    text = cinn_text(schedule.func)
    assert "if ((((4 * i) + i_0) < 10)) {" in text and "__reduce_init" in text and "attrs(note:3)" in text
    again = from_cinn(text)
    assert cinn_text(again) == text
    assert ir.structural_equal(to_tensorir(again), to_tensorir(schedule.func))


def test_what_the_text_leaves_out() -> None:
    function = from_cinn(block("B[i0] = (B[i0] + A[i0, (j / 2)])", extent="(n * 2)"), {"A": ((64, 9), "float16")})
    assert [p.name for p in function.params] == ["A_handle", "B_handle", "n", "j"]
    a, b = function.buffer_map.values()
    assert a.dtype == b.dtype == "float16" and str(b.shape[0]) == "n * 2"
    nest = from_cinn("""
        serial for (i, 0, 4)
        {
          serial for (k, 2, 5)
          {
            ScheduleBlock(R)
            {
              i0, i1 = axis.bind(i, k)
              R[i0] = (R[i0] + A[(i0 / 2), i1])
            }
          }
        }""")
    loop = nest.body.block.body
    inner = loop.body.body.block
    assert [v.iter_type for v in inner.iter_vars] == [ir.IterVar.DataPar, ir.IterVar.CommReduce]
    assert (loop.body.min.value, loop.body.extent.value) == (2, 5)
    assert [int(n) for n in nest.buffer_map[nest.params[0]].shape] == [2, 7]
    assert isinstance(inner.body.value.b.indices[0], ir.FloorDiv)


WHOLE = dict.fromkeys("ABC", ((8,), "int32"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("(A[i0] / C[i0])", lambda a, c: np.trunc(a / c)),
        ("(A[i0] % C[i0])", np.fmod),
        ("floordiv(A[i0], C[i0])", np.floor_divide),
        ("floormod(A[i0], C[i0])", np.mod),
        ("((A[i0] / 2) % 3)", lambda a, c: np.fmod(np.trunc(a / 2), 3)),
        ("((i0 - 3) / 2)", lambda a, c: np.array([-1, -1, 0, 0, 0, 1, 1, 2])),
        ("floordiv((i0 - 3), 2)", lambda a, c: (np.arange(8) - 3) // 2),
        ("((i0 + 3) % 3)", lambda a, c: (np.arange(8) + 3) % 3),
        ("(let x = A[i0] in (x / 2))", lambda a, c: np.trunc(a / 2)),
        ("(let x = (i0 * 3) in (x / 2))", lambda a, c: np.arange(8) * 3 // 2),
    ],
)
def test_whole_numbers_are_divided_as_in_c(value: str, expected) -> None:
    text = block(f"B[i0] = {value}")
    same(text, buffers=WHOLE)
    a, c = np.array([-7, -6, -1, 0, 1, 5, 6, 7], "int32"), np.array([2, -4, 3, -2, -3, 5, 4, -2], "int32")
    function, b = from_cinn(text, WHOLE, params=["A", "C", "B"]), np.zeros(8, "int32")
    tvmagic.build(function)(a, c, b)
    np.testing.assert_array_equal(b, expected(a, c))


def test_quotients_that_round_down_say_so_if_a_number_may_be_negative() -> None:
    a, c = te.placeholder((8,), "int32", name="A"), te.placeholder((8,), "uint8", name="C")
    for value, printed in (
        (lambda i: a[i] // 2, "floordiv(A[i0], 2)"),
        (lambda i: tir.truncdiv(a[i], 2), "(A[i0] / 2)"),
        (lambda i: a[i] % 2, "floormod(A[i0], 2)"),
        (lambda i: (i - 1) // 2, "floordiv((i0 - 1), 2)"),
        (lambda i: (7 - i) // 2, "((7 - i0) / 2)"),
        (lambda i: c[i] // tir.const(2, "uint8"), "(C[i0] / (uint8_t)2)"),
        (lambda i: tir.max(a[i], 0) // 2, "(cinn_max(A[i0], 0) / 2)"),
        (lambda i: c[i].astype("int32") // 2, "(int32(C[i0]) / 2)"),
        (lambda i: tir.max(a[i], a[7 - i]) // 2, "floordiv(cinn_max(A[i0], A[(7 - i0)]), 2)"),
        (lambda i: tir.min(a[i], 3) // 2, "floordiv(cinn_min(A[i0], 3), 2)"),
        (lambda i: tir.Select(i < 4, a[i], 3) // 2, "floordiv(select((i0 < 4), A[i0], 3), 2)"),
        (lambda i: tir.Select(i < 4, 3, a[i]) // 2, "floordiv(select((i0 < 4), 3, A[i0]), 2)"),
        (lambda i: tir.Select(i < 4, 3, tir.max(a[i], 0)) // 2, "(select((i0 < 4), 3, cinn_max(A[i0], 0)) / 2)"),
        (lambda i: a[i] % 3 // 2, "(floormod(A[i0], 3) / 2)"),
        (lambda i: tir.truncmod(a[i], 3) // 2, "floordiv((A[i0] % 3), 2)"),
    ):
        b = te.compute((8,), value, name="B")
        text = cinn_text(cinn.lower([a, c, b]))
        assert f"B[i0] = {printed}\n" in text
        assert cinn_text(from_cinn(text, {"A": ((8,), "int32"), "C": ((8,), "uint8")})) == text


@pytest.mark.parametrize(
    ("value", "printed"),
    [("A[vi] - 3", "floordiv(v, 2)"), ("vi - 3", "floordiv(v, 2)"), ("vi + 1", "(v / 2)"), ("A[vi]", "floordiv(v, 2)")],
)
def test_a_variable_may_be_negative_as_its_value_may(value: str, printed: str) -> None:
    text = cinn_text(from_source(ASSIGNED.format(value)))
    assert f"B[vi] = {printed}\n" in text


ASSIGNED = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            v: T.int32 = {}
            B[vi] = v // 2
"""


def test_buffers_and_parameters_that_are_given() -> None:
    a = ir.decl_buffer((100,), "float64", "A")
    function = from_cinn(block("B[i0] = (A[i0] + 1.0f)"), {"A": a}, params=["B", "A"], name="plus")
    assert [b.name for b in function.buffer_map.values()] == ["B", "A"]
    assert function.buffer_map[function.params[1]] is a
    assert function.buffer_map[function.params[0]].dtype == "float64"
    assert function.attrs["global_symbol"] == "plus"


def test_an_if_around_a_block_is_its_predicate_in_tensorir() -> None:
    text = """
        serial for (i, 0, 3)
        {
          serial for (j, 0, 4)
          {
            if ((((i * 4) + j) < 10))
            {
              ScheduleBlock(B)
              {
                i0 = axis.bind(((i * 4) + j))
                B[i0] = A[i0]
              }
            }
          }
        }"""
    function = from_cinn(text)
    assert [int(b.shape[0]) for b in function.buffer_map.values()] == [10, 10]
    found: list[object] = []
    from tvmagic.ir import post_order_visit

    post_order_visit(to_tensorir(function).body, lambda n: found.append(n) if isinstance(n, ir.IfThenElse) else None)
    assert not found


ERRORS = [
    (block("B[i0] = (A[i0] + $)"), "cinn.text.unknown_character", 8),
    (block("B[i0] = (A[i0] + 1.0f"), "cinn.text.unexpected_token", 9),
    (block("B[i0] = (A[i0] + 1)", "C[i0] = (A[i0] * 2.0f)"), "cinn.text.types_differ", 9),
    (block("B[i0] = nosuch(A[i0])"), "cinn.text.unknown_function", 8),
    (block("B[i0] = (A[i0] + A)"), "cinn.text.tensor_without_indices", 8),
    (block("B[i0] = A[i0]", "B[i0, i0] = A[i0]"), "cinn.text.wrong_index_count", 9),
    (block("(A[i0] + 1.0f)"), "cinn.text.expression_statement", 8),
    (block("B[i0] = A[(i0 == 1)]"), "cinn.text.index_not_integer", 8),
    (block("B[i0] = A[i0]").replace("(i)", "(1.0f)"), "cinn.text.index_not_integer", 7),
    (block("B[i0] = A[i0]")[:-2], "cinn.text.block_not_closed", 1),
    (block("B[i0] = A[i0]").replace("axis.bind(i)", "axis.bind(i, i)"), "cinn.text.wrong_binding_count", 5),
    ("", "cinn.text.no_statement", 1),
]


@pytest.mark.parametrize(("text", "code", "line"), ERRORS)
def test_errors_name_the_place(text: str, code: str, line: int) -> None:
    with pytest.raises(DiagnosticError, match=".*") as caught:
        from_cinn(text)
    assert code == caught.value.code
    assert caught.value.line == line and "^" in str(caught.value)


FOREIGN = {
    "(A[i0] > 0.0f) ? A[i0] : 0.0f": "select(",
    "max(A[i0], 0.0f)": "cinn_max(",
    "cast<float32>(A[i0])": "float32(x)",
    "(float)A[i0]": "float32(x)",
    "float(A[i0])": "float32(x)",
    "((A[i0] > 0.0f) && true)": "`and`",
    "(true || true)": "`or`",
    "A[i0];": "without `;`",
    "(A[i0] >> 1)": "right_shift(",
    "(A[i0] << 1)": "left_shift(",
    "(A[i0] & 1)": "bitwise_and(",
    "(A[i0] | 1)": "bitwise_or(",
    "(A[i0] ^ 1)": "bitwise_xor(",
    "~A[i0]": "bitwise_not(",
    "(A[i0] + 5u)": "5ull",
    "0x10": "decimal",
}


def test_other_languages_spellings_are_answered_with_what_to_write() -> None:
    rows = [(block(f"B[i0] = {value}"), hint) for value, hint in FOREIGN.items()]
    rows.append((block("B[i0] += A[i0]"), "`B[i0] = (B[i0] + x)`"))
    nest = block("B[i0] = A[i0]")
    rows.append((nest.replace("axis.bind(i)", "axis.S(8, i)"), "axis.bind(i, j)"))
    for loop in (
        "for (int i = 0; i < 8; i++)",
        "for (i = 0; i < 8; i++)",
        "warp for (i, 0, 8)",
        "serial for (i, 0:8)",
        "for i in range(8)",
    ):
        rows.append((nest.replace("serial for (i, 0, 8)", loop), "KIND for (VAR, MIN, EXTENT)"))
    for text, hint in rows:
        with pytest.raises(DiagnosticError) as caught:
            from_cinn(text)
        assert hint in (caught.value.hint or ""), text


def test_sizes_that_cannot_be_told() -> None:
    with refuses("cinn.text.size_not_known", names="`A`"):
        from_cinn(block("B[i0] = A[I[i0]]"))
    with refuses("cinn.text.unknown_tensor", names="`X`"):
        from_cinn(block("B[i0] = A[i0]"), params=["X"])
    with refuses("cinn.text.tensor_never_written"):
        from_cinn(block("B[i0] = A[i0]"), params=["B"])
    with refuses("cinn.text.wrong_buffer"):
        from_cinn(block("B[i0] = A[i0]"), {"A": 3})


def test_deep_expressions_and_long_texts() -> None:
    deep = "A[i0]"
    for _ in range(1000):
        deep = f"({deep} + 1.00000000f)"
    same(block(f"B[i0] = {deep}"))
    nests = [block("B[i0] = A[i0]").split("\n")[2:-1] for _ in range(300)]
    lines = [
        "  " + line.replace("B", f"B{n}").replace(f"ScheduleB{n}lock", "ScheduleBlock")
        for n, x in enumerate(nests)
        for line in x
    ]
    same("\n".join(["ScheduleBlock(root)", "{", "  {", *lines, "  }", "}"]))


CELL = """serial for (i, 0, 8)
{
  ScheduleBlock(B)
  {
    i0 = axis.bind(i)
    B[i0] = (A[i0] * 2.5f)
  }
}
"""


def test_a_cell_may_hold_cinn_text() -> None:
    from tvmagic.operators import operator

    (found,) = [operator("scaled", CELL)]
    a = np.arange(8, dtype="float32")
    np.testing.assert_allclose(found(a), a * 2.5)
    with pytest.raises(DiagnosticError) as caught:
        operator("scaled", CELL.replace("* 2.5f", "* ]"))
    assert caught.value.span.source == "tensor scaled" and caught.value.line == 7


def test_damaged_texts_give_errors_of_ours() -> None:
    rng = random.Random(7)
    whole = [block(store) for store in STORES] + [block(*lines) for lines in STATEMENTS] + [CELL]
    for _ in range(600):
        tokens = re.findall(r"\w+|\s+|.", rng.choice(whole))
        for _ in range(rng.randint(1, 3)):
            place, new = rng.randrange(len(tokens)), rng.choice([*tokens, "-", "1.0f", "let", "bool", "exp", "(", "}"])
            tokens[place : place + rng.randint(0, 1)] = [new] if rng.random() < 0.7 else []
        try:
            function = from_cinn("".join(tokens))
        except TVMagicError:
            continue
        text = cinn_text(function, head=False)
        again = from_cinn(text, {b.name: b for b in function.buffer_map.values()})
        assert cinn_text(again, head=False) == text


REDUCTION = """\
serial for (i, 0, 8)
{
  ScheduleBlock(B__reduce_init)
  {
    i0 = axis.bind(i)
    B__reduce_init[i0] = 0.00000000f
  }
  serial for (k0, 0, 9)
  {
    ScheduleBlock(B)
    {
      i0, i1 = axis.bind(i, INDEX)
      B[i0] = (B[i0] + A[i0, i1])
    }
  }
}
"""


def sums_right(text: str) -> None:
    func = from_cinn(text)
    assert [func.buffer_map[p].name for p in func.params] == ["A", "B"]
    a, b = np.random.default_rng(0).random((8, 9), "float32"), np.full(8, np.nan, "float32")
    tvmagic.build(func)(a, b)
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-6)


def test_a_reduction_with_its_first_values_is_a_block_with_an_init() -> None:
    text = REDUCTION.replace("INDEX", "k0")
    sums_right(text)
    printed = to_tensorir(from_cinn(text)).script()
    assert "with T.init():\n                B[i0] = T.float32(0.0)" in printed and "reduce_init" not in printed


def test_first_values_that_are_no_init_stay_a_block() -> None:
    """TensorIR would run the init in the last iteration, or for each `i` anew after the first `k0`."""
    outside = REDUCTION.replace("INDEX", "k0").replace(
        "  serial for (k0, 0, 9)\n  {\n", "}\nserial for (k0, 0, 9)\n{\n  serial for (i, 0, 8)\n  {\n"
    )
    for text in (REDUCTION.replace("INDEX", "(8 - k0)"), outside):
        sums_right(text)
        assert 'T.block("B__reduce_init")' in to_tensorir(from_cinn(text)).script()


def test_a_name_that_ends_like_first_values_is_a_tensor_of_its_own_without_a_reduction() -> None:
    text = block("B__reduce_init[i0] = A[i0]")
    assert [b.name for b in from_cinn(text).buffer_map.values()] == ["A", "B__reduce_init"]


def test_a_variable_and_an_assertion_hold_what_follows_them() -> None:
    first, second, third = [f"B[{n}] = {n}.00000000f" for n in range(3)]
    text = block(first, "float32 x = (A[i0] + 1.00000000f)", second, 'assert((i0 < 8), "far")', third)
    assert shapes(from_cinn(text)) == ["store 0", ["let", "store 1", ["assert", "store 2"]]]
    assert shapes(from_cinn(block(first, 'assert((i0 < 8), "far")'))) == ["store 0", ["assert", "nothing"]]


def shapes(found: Any) -> Any:
    """The statements of the only block inside, as lists and words."""
    if isinstance(found, ir.PrimFunc):
        blocks: list[Any] = []
        ir.post_order_visit(
            found.body, lambda n: blocks.append(n) if isinstance(n, ir.Block) and n.name_hint == "B" else None
        )
        return shapes(blocks[0].body)
    if isinstance(found, ir.SeqStmt):
        parts = [shapes(s) for s in found.seq]
        return [p[0] if isinstance(p, list) and len(p) == 1 else p for p in parts]
    if isinstance(found, ir.BufferStore):
        return f"store {found.indices[0]}"
    if isinstance(found, (ir.LetStmt, ir.AssertStmt)):
        inner = shapes(found.body)
        return [
            "let" if isinstance(found, ir.LetStmt) else "assert",
            *(inner if isinstance(found.body, ir.SeqStmt) else [inner]),
        ]
    return "nothing" if isinstance(found, ir.Evaluate) else type(found).__name__


def test_regions_of_the_text_are_no_values() -> None:
    """Their parts are expressions, for which `==` is no question."""
    one = Region("B", [(None, 0, 8)])
    assert one == one and one != Region("B", [(None, 0, 8)]) and len({one, one}) == 1


# ---------------------------------------------------------------------------- several functions

STEP = """{{
  ScheduleBlock({root})
  {{
    serial for (i, 0, 32)
    {{
      ScheduleBlock({out})
      {{
        i0 = axis.bind(i)
        {out}[i0] = ({given}[i0] * 2.00000000f)
      }}
    }}
  }}
}}"""
FIRST, SECOND = STEP.format(root="root", out="B", given="A"), STEP.format(root="root_0", out="C", given="B")
SEVERAL = {
    "heads": f"function f (_A, _B)\n{FIRST}\nfunction g (_B, _C)\n{SECOND}",
    "frames": f"// of a test\nExpr 0 {{\n{FIRST}\n}} // end Expr 0\nExpr 1 {{\n{SECOND}\n}} // end Expr 1\n",
    "roots": f"{FIRST}\n{SECOND}",
}


@pytest.mark.parametrize("form", SEVERAL)
def test_several_functions_are_a_module(form: str) -> None:
    text = SEVERAL[form]
    mod = from_cinn(text)
    names = ["f", "g"] if form == "heads" else ["main", "main_0"]
    assert isinstance(mod, tvmagic.IRModule) and [v.name_hint for v in mod.functions] == names
    if form == "heads":
        assert cinn_text(mod, regions=False) == text
    assert from_cinn(cinn_text(mod)) is not None and cinn_text(from_cinn(cinn_text(mod))) == cinn_text(mod)
    schedule = cinn.IRSchedule(text)
    assert cinn.IRSchedule(str(schedule)).mod["main" if form != "heads" else "main"] is not None
    schedule.merge_exprs()
    a = np.arange(32, dtype="float32")
    given = {b.name: np.zeros(32, "float32") for b in schedule.func.buffer_map.values()} | {"A": a}
    tvmagic.build(schedule.func)(*[given[schedule.func.buffer_map[p].name] for p in schedule.func.params])
    np.testing.assert_array_equal(given["C"], 4 * a)


def test_one_function_in_a_frame_is_a_function() -> None:
    func = from_cinn(f"Expr 0 {{\n{FIRST}\n}} // end Expr 0\n")
    assert isinstance(func, ir.PrimFunc) and cinn_text(func, regions=False, head=False) == FIRST


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (SEVERAL["roots"], {"outputs": ["B"]}, "cinn.text.several_functions"),
        (SEVERAL["heads"].replace("function g", "function f"), {}, "cinn.text.repeated_function"),
        ("function f (_A)\nfunction g (_B)", {}, "cinn.text.empty_function"),
        ("Expr 0 {\n" + FIRST, {}, "cinn.text.unexpected_token"),
        ("{ poly_for (i, 0, (i <= 31), 1) { B[i] = A[i] } }", {}, "cinn.text.poly_for"),
    ],
)
def test_functions_that_cannot_be_told_apart(text: str, options: dict[str, list[str]], code: str) -> None:
    with refuses(code):
        from_cinn(text, **options)


def test_a_cell_holds_one_function_and_may_begin_with_a_comment() -> None:
    source = Source("tensor doubled", f"%%tensor doubled\n// pasted\n{FIRST}")
    doubled = operator_from_cell(source, "doubled", {})
    np.testing.assert_array_equal(doubled(np.ones(32, "float32")), np.full(32, 2, "float32"))
    with refuses("cell.several_functions"):
        operator_from_cell(Source("tensor both", f"%%tensor both\n{SEVERAL['heads']}"), "both", {})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("A[i0] * 2 + 1", "((A[i0] * 2) + 1)"),
        ("1 + A[i0] * 2", "(1 + (A[i0] * 2))"),
        ("(1 + A[i0] * 2)", "(1 + (A[i0] * 2))"),
        ("7 - A[i0] - 2", "((7 - A[i0]) - 2)"),
        ("7 - (A[i0] - 2)", "(7 - (A[i0] - 2))"),
        ("A[i0] / 2 * 3 % 5", "(((A[i0] / 2) * 3) % 5)"),
        ("- (A[i0]) * 3 + 2", "((-(A[i0]) * 3) + 2)"),
        ("cinn_max(A[i0] + 1, 2 * A[i0])", "cinn_max((A[i0] + 1), (2 * A[i0]))"),
        (
            "select(A[i0] < 3 or A[i0] >= 5 and A[i0] + 1 != 7, A[i0 + 0 * 2], 4)",
            "select(((A[i0] < 3) or ((A[i0] >= 5) and ((A[i0] + 1) != 7))), A[(i0 + (0 * 2))], 4)",
        ),
    ],
)
def test_parentheses_that_people_leave_out(written: str, read: str) -> None:
    text = f"serial for (i, 0, 9) {{ ScheduleBlock(B) {{ i0 = axis.bind(i) B[i0] = {written} }} }}"
    assert f" B[i0] = {read}\n" in cinn_text(from_cinn(text, {"A": ((9,), "int32")}))


def test_a_condition_with_parentheses_left_out() -> None:
    func = from_cinn(
        "serial for (i, 0, 9) { ScheduleBlock(B) { i0 = axis.bind(i) if (i0 * 2 < 3 + i0) { B[i0] = A[i0] } } }"
    )
    assert "if (((i0 * 2) < (3 + i0))) {" in cinn_text(func)
