"""Wrong programs: each gives one error that underlines the place marked by « and »."""

from __future__ import annotations

import pytest
from refusals import refuses

from tvmagic.errors import DiagnosticError
from tvmagic.script import from_source

HEAD = '@T.prim_func\ndef main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):\n'
BLOCK = HEAD + "    for i, j in T.grid(16, 16):\n        with T.block('b'):\n"

# code: bodies of `main`
BODIES: dict[str, list[str]] = {
    "script.undefined_name": [
        "B[0] = «C»[0]",
        "for i in range(4):\n    B[i] = 0.0\nB[«i»] = 1.0",
        "with «open»('x'):\n    B[0] = 0.0",
    ],
    "script.unknown_attribute": [
        "for i in «T.gird»(16):\n    B[i] = 0.0",
        "with T.block('b'):\n    v = «T.axis.spatal»(16, 0)",
        "T.evaluate(«A.shap»)",
        "T.evaluate(«n.foo»)",
        "T.evaluate(«T.frame»)",
        "x = «T.flaot32»(1)",
    ],
    "script.name_not_allowed": ["B[0] = «T.__dict__»", "B[0] = «(1).__class__»"],
    "script.defined_twice": [
        "x = T.int32()\n«x» = T.int32()",
        "x = n + 1\n«x» = n + 2",
        "x: T.int32 = n\n«x»: T.int32 = n",
    ],
    "script.wrong_call": [
        "B[0] = «T.exp(B[0], B[1], B[2])»",
        "B[0] = «T.if_then_else(n < 3, B[0])»",
        "for i in «T.serial(4, anotations={})»:\n    B[i] = 0.0",
        "«B(0)»",
    ],
    "script.wrong_argument_count": ["T.evaluate(«T.tvm_struct_set(B.data, 0)»)"],
    "script.wrong_reducer": ["T.evaluate(«T.comm_reducer(lambda x: x, [T.float32(0)])»)"],
    "script.not_iterable": ["for i in T.grid(*«n»):\n    B[i] = 0.0"],
    "script.unknown_dtype": ["C = «T.alloc_buffer((4,), 'float31')»", "C = «T.alloc_buffer((4,), 32)»"],
    "script.shape_not_integer": ["C = «T.alloc_buffer((4.5,), 'float32')»"],
    "script.wrong_operand": ["B[0] = «B[0] + 'one'»", "B[0] = «B[0] * (1, 2)»"],
    "script.wrong_comparison": ["if «n < 'x'»:\n    B[0] = 0.0"],
    "script.unsupported_operator": ["B[0] = «B[0] ** 2»", "B[0] = «B[0] @ B[1]»"],
    "expression.ambiguous_division": ["x = «n / 2»"],
    "expression.not_an_integer": ["B[0] = «B[0] // 2.0»"],
    "expression.division_by_zero": ["x = «n // 0»"],
    "expression.not_a_bool": ["if «n and n»:\n    B[0] = 0.0", "if «not n»:\n    B[0] = 0.0"],
    "script.condition_not_bool": ["if «B[0]»:\n    B[0] = 0.0", "if «'yes'»:\n    B[0] = 0.0"],
    "constant.does_not_fit": ["if «T.int8(n) < 300»:\n    B[0] = 0.0"],
    "script.literal_does_not_fit": ["x = «T.int8(300)»", "x = «T.uint8(-1)»", "x = «T.float16(1e6)»"],
    "constant.beyond_64_bits": ["x = n + «99999999999999999999»"],
    "expression.dtypes_differ": ["B[0] = «T.Add(n, B[0])»"],
    "script.let_dtype_differs": ["x: T.float32 = «n»"],
    "script.not_a_variable_type": ["x: «n + 1» = n"],
    "script.declaration_without_value": ["«x: T.int32»"],
    "script.store_dtype_differs": ["«B[0:4] = B[0:8]»", "«B[0] = (1, 2)»", "«B[0] = A»"],
    "expression.lanes_differ": ["B[0:4] = «B[0:4] + B[0:8]»"],
    "script.wrong_index_count": ["B[0] = «A[0]»", "«B[0, 1] = 0.0»"],
    "script.index_not_integer": ["B[0] = B[«0.5»]", "B[0] = B[«B[1]»]", "B[«'a'»] = 0.0"],
    "script.region_of_unknown_size": ["B[0:4] = «B[0:n] + B[0:4]»"],
    "script.wrong_vector_step": ["B[0] = «B[0:4:0]»"],
    "script.not_indexable": ["B[0] = «n[0]»"],
    "script.store_not_an_element": ["«n[0]» = 1"],
    "script.attribute_assigned": ["«A.data» = 1"],
    "script.chained_assignment": ["«x = y = n»"],
    "script.not_a_loop": ["for i in «[1, 2]»:\n    B[i] = 0.0", "for i in «n»:\n    B[i] = 0.0"],
    "script.wrong_unpack_count": ["for «i, j» in T.grid(2, 2, 2):\n    B[i] = 0.0", "«x, y» = T.meta_var((1, 2, 3))"],
    "script.loop_with_else": ["for i in range(4):\n    B[i] = 0.0\nelse:\n    «B[0] = 1.0»"],
    "script.loop_without_for": ["«T.serial(4)»"],
    "script.loop_assigned": ["«x» = T.serial(4)"],
    "script.block_without_with": ["«T.block('b')»"],
    "script.wrong_with": ["with «n»:\n    B[0] = 0.0"],
    "script.unsupported_statement": [
        "«try:\n    B[0] = 0.0\nexcept Exception:\n    pass»",
        "«class C:\n    pass»",
        "«def f():\n    pass»",
        "«import os»",
        "«from os import path»",
        "«global n»",
        "«del n»",
        "«raise ValueError»",
        "for i in range(4):\n    «break»",
        "«match n:\n    case 1:\n        pass»",
    ],
    "script.wrong_let": [
        "«f» = lambda x: x",
        "«f» = {'a': 1}",
        "x = T.int32()\ny = T.int32()\nT.evaluate(«T.Let(x, where={x: 1, y: 2})»)",
    ],
    "script.unsupported_expression": ["B[0] = («x := 1»)", "(«yield n»)", "x = «{1, 2}»"],
    "script.unsupported_constant": ["x = «b'abc'»", "«...»"],
    "script.bounds_not_constant": ["x = T.meta_var([i for i in «range(n)»])"],
    "script.condition_not_constant": ["x = T.meta_var([i for i in range(4) if «n»])"],
    "script.return_without_value": ["«return»"],
    "script.wrong_return": ["return «(n, n)»"],
    "script.not_a_statement": ["«(n, n)»"],
    "script.assert_message_not_a_text": ["«assert n < 3, n»"],
    "script.exponent_too_large": ["x = «9 ** 9 ** 9»"],
    "script.sequence_too_long": ["x = «'a' * 1000000000»"],
    "script.method_not_allowed": ["x = «'{0.__class__}'.format»(n)"],
    "script.not_in_block": ["«T.reads(B[0])»", "v = «T.axis.spatial(16, 0)»", "«T.where(n < 3)»"],
    "script.init_not_in_block": ["with «T.init()»:\n    B[0] = 0.0"],
    "script.parameter_not_a_handle": ["C = «T.match_buffer(n, (4,))»"],
    "script.wrong_match_buffer": ["C = «T.match_buffer(3, (4,))»"],
    "script.data_not_a_pointer": ["C = «T.Buffer((4,), data=3)»"],
    "script.unknown_buffer_kind": ["C = «T.Buffer((4,), buffer_type='x')»"],
    "script.missing_thread": ["for i in «T.thread_binding(4)»:\n    B[i] = 0.0"],
    "script.unknown_thread": ["with «T.launch_thread(n, 4)»:\n    B[0] = 0.0"],
    "script.grid_without_extents": ["for i in «T.grid()»:\n    B[i] = 0.0"],
    "script.attribute_given_twice": ["T.func_attr({'a': 1})\n«T.func_attr({'a': 2})»"],
    "script.constant_size_differs": ["with «T.allocate_const([1, 2], 'int32', [3])» as p:\n    T.evaluate(0)"],
    "script.not_a_number": ["x = «T.float32('big')»"],
    "script.branch_outside_if": ["with «T.Then()»:\n    B[0] = 0.0"],
}

# code: bodies of a block inside two loops `i`, `j`
IN_BLOCKS: dict[str, list[str]] = {
    "script.wrong_remap_count": ["vi, vj = «T.axis.remap('S', [i, j])»"],
    "script.unknown_axis_kind": ["vi, vj = «T.axis.remap('SX', [i, j])»"],
    "script.remap_not_loop_variables": ["vi, vj = «T.axis.remap('SS', [i, j + 1])»"],
    "script.not_a_loop_variable": ["vi, vj = «T.axis.remap('SS', [i, n])»"],
    "script.binding_not_integer": ["vi = «T.axis.spatial(16, 1.5)»"],
    "script.wrong_axis_domain": ["vi = «T.axis.spatial((1, 2, 3), i)»"],
    "script.second_where": ["T.where(i < 3)\n«T.where(j < 3)»"],
    "script.second_access_list": ["T.reads(B[i])\n«T.reads(B[j])»"],
    "script.not_an_access": ["«T.reads(3)»"],
    "script.second_init": ["with T.init():\n    B[i] = 0.0\nwith «T.init()»:\n    B[i] = 0.0"],
    "script.not_a_mapping": ["«T.block_attr([1])»"],
    "script.block_accesses_unknown": ["T.evaluate(T.call_extern('int32', 'f', B.data))"],
    "script.not_in_block": ["for k in range(4):\n    «T.where(k < 3)»"],
}

# code: whole texts
TEXTS: dict[str, list[str]] = {
    "script.function_without_decorator": ["«def main(A: T.Buffer((16,), 'float32')):\n    A[0] = 1.0»"],
    "script.unknown_attribute": ["@«T.prim_fun»\ndef main():\n    T.evaluate(0)"],
    "script.parameter_without_type": ["@T.prim_func\ndef main(«A»):\n    T.evaluate(0)"],
    "script.unknown_parameter_type": ["@T.prim_func\ndef main(«A: 3»):\n    T.evaluate(0)"],
    "script.defined_twice": ["@T.prim_func\ndef main(A: T.int32, «A: T.int32»):\n    T.evaluate(0)"],
    "script.parameter_kind": ["@T.prim_func\ndef main(*«A»):\n    T.evaluate(0)"],
    "script.parameter_default": ["@T.prim_func\ndef main(n: T.int32 = «3»):\n    T.evaluate(0)"],
    "script.undefined_name": ["@T.prim_func\ndef main(A: T.Buffer((«m»,), 'float32'), m: T.int32):\n    T.evaluate(0)"],
    "script.unknown_dtype": ["@T.prim_func\ndef main() -> «'float31'»:\n    T.evaluate(0)"],
    "script.not_python": [
        "@T.prim_func\ndef main(n: T.int32):\n    x = n\n     « y» = n",
        "@T.prim_func\ndef main(n: T.int32):\n    for i in range(4):\n    «T»\n",
        "@T.prim_func\ndef main(n: T.int32):\n    T.evaluate«(»n",
    ],
    "script.import_statement": ["«import os»\n@T.prim_func\ndef main():\n    T.evaluate(0)"],
    "script.unsupported_definition": ["«x = 1»\n@T.prim_func\ndef main():\n    T.evaluate(0)", "«print(1)»"],
    "script.unsupported_in_module": ["@I.ir_module\nclass M:\n    «x = 1»"],
    "script.module_with_bases": ["@I.ir_module\n«class M(object):\n    pass»"],
    "script.unknown_function": [
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def main(n: T.int32):\n        «M.helper»(n)"
    ],
    "script.wrong_argument": [
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def f(n: T.int32):\n        T.evaluate(n)\n    @T.prim_func\n    def main(A: T.Buffer((4,), 'float32')):\n        M.f(«A»)"
    ],
    "script.module.repeated_function": [
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def f(n: T.int32):\n        T.evaluate(n)\n    @T.prim_func\n    «def f(n: T.int32):\n        T.evaluate(n)»"
    ],
    "script.macro.missing_argument": [
        "@T.macro\ndef put(A, i):\n    A[i] = 0.0\n@T.prim_func\ndef main(B: T.Buffer((4,), 'float32')):\n    «put(B)»"
    ],
    "script.macro.unknown_argument": [
        "@T.macro\ndef put(A):\n    A[0] = 0.0\n@T.prim_func\ndef main(B: T.Buffer((4,), 'float32')):\n    «put(B, k=1)»"
    ],
    "script.endless_macro": [
        "@T.macro\ndef put(A):\n    «put(A)»\n@T.prim_func\ndef main(B: T.Buffer((4,), 'float32')):\n    put(B)"
    ],
}


def _indent(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.split("\n"))


CASES: list[tuple[str, str]] = [
    *((code, HEAD + _indent(body, 4)) for code, bodies in BODIES.items() for body in bodies),
    *((code, BLOCK + _indent(body, 12)) for code, bodies in IN_BLOCKS.items() for body in bodies),
    *((code, text) for code, texts in TEXTS.items() for text in texts),
]


def _marked(text: str) -> tuple[str, tuple[int, int] | None]:
    """The text without its marks, and the line and column of the first mark."""
    start = text.find("«")
    place = None
    if start >= 0:
        before = text[:start]
        place = (before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1)
    return text.replace("«", "").replace("»", ""), place


@pytest.mark.parametrize(("code", "marked"), CASES, ids=[code for code, _ in CASES])
def test_a_wrong_program_gives_one_error_at_its_place(code: str, marked: str) -> None:
    text, place = _marked(marked)
    with refuses(code, error=DiagnosticError) as caught:
        from_source(text)
    error = caught.value
    if place is None:
        return
    assert (error.line, error.column) == place
    shown = str(error)
    assert text.split("\n")[place[0] - 1] in shown
    assert "^" in shown
    inside = marked[marked.index("«") + 1 : marked.index("»")]
    if "\n" not in inside and error.code != "script.not_python":
        caret = next(line for line in shown.split("\n") if "^" in line)
        assert caret.count("^") == len(inside)


def test_hints_name_what_is_close() -> None:
    with pytest.raises(DiagnosticError) as caught:
        from_source(HEAD + "    T.evaluate(T.flordiv(n, 2))\n")
    assert caught.value.hint == "did you mean `floordiv`?"
    with pytest.raises(DiagnosticError) as caught:
        from_source("@T.prim_func\ndef main(source: T.int32):\n    T.evaluate(sorce)\n")
    assert caught.value.hint == "did you mean `source`?"
    assert "hint: did you mean `source`?" in str(caught.value)


def test_the_caret_stands_under_the_place() -> None:
    with pytest.raises(DiagnosticError) as caught:
        from_source(HEAD + "    B[0] = A[0, 0] + missing\n")
    assert str(caught.value).split("\n")[1:4] == [
        "  at <script>:3:22",
        " 3 |     B[0] = A[0, 0] + missing",
        "   |                      ^^^^^^^",
    ]


def test_columns_count_characters_not_bytes() -> None:
    with pytest.raises(DiagnosticError) as caught:
        from_source('@T.prim_func\ndef main(n: T.int32):\n    assert n < 3, "größer" + fehlt\n')
    assert (caught.value.line, caught.value.column) == (3, 30)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "'a docstring'", "\0", "def", "@", "(" * 300, "x = " + "-" * 5000 + "1"]
)
def test_texts_without_a_function(text: str) -> None:
    with pytest.raises(DiagnosticError):
        from_source(text)


@pytest.mark.parametrize("value", [None, 3, b"text", object()])
def test_what_is_no_text(value: object) -> None:
    with pytest.raises(DiagnosticError):
        from_source(value)


def test_nothing_of_a_text_is_executed(tmp_path: object) -> None:
    """Names that reach Python's own functions are not there; calls before the error have no effect."""
    marker = f"{tmp_path}/made"
    for attack in (
        f"open({marker!r}, 'w')",
        f"__import__('os').mkdir({marker!r})",
        f"eval(\"open({marker!r}, 'w')\")",
        "T.prim_func.__globals__['__builtins__']",
        "().__class__.__base__.__subclasses__()",
        "T.frame.threading",
        "getattr(T, 'exp')",
        "globals()",
        "T.exp.__wrapped__",
        "[c for c in ().__class__.__mro__]",
        "(lambda: 0).__globals__",
        "A.data.__init__",
        "A.__class__",
        "f'{A.__class__}'",
        "T.axis.mro()[0].__subclasses__()",
    ):
        with pytest.raises(DiagnosticError):
            from_source(HEAD + f"    T.evaluate({attack})\n")
    from pathlib import Path

    assert not Path(marker).exists()
