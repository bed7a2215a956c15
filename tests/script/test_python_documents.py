"""Documents and their text, sources, and expressions of Python, as tools for TVM use them."""

from __future__ import annotations

import ast
import inspect
import pathlib
from typing import Any

import pytest

from tvmagic.errors import TVMagicError
from tvmagic.runtime import ObjectPath
from tvmagic.script.printer import doc as d
from tvmagic.script.printer.doc import IdDoc, LiteralDoc, OperationDoc, StmtBlockDoc
from tvmagic.script.printer.doc import OperationKind as K
from tvmagic.script.printer.doc_printer import to_python_script

x, y, z = IdDoc("x"), IdDoc("y"), IdDoc("z")


def op(kind: K, *operands: d.ExprDoc) -> OperationDoc:
    return OperationDoc(kind, operands)


def test_expressions() -> None:
    texts = {
        "None": LiteralDoc(None),
        "True": LiteralDoc(True),
        "-3": LiteralDoc(-3),
        "2.0": LiteralDoc(2.0),
        '"inf"': LiteralDoc(float("inf")),
        r'"a\"\n"': LiteralDoc('a"\n'),
        "x.b[y, z:, :z:y](x, k=y)": x.attr("b")[y, d.SliceDoc(z), d.SliceDoc(None, z, y)].call(x, k=y),
        "x[()]": x[()],
        "x[:]": x[d.SliceDoc()],
        "lambda x, y: z": d.LambdaDoc([x, y], z),
        "(lambda x: y) * z": op(K.Mult, d.LambdaDoc([x], y), z),
        "(x,)": d.TupleDoc([x]),
        "()": d.TupleDoc([]),
        "[x, y]": d.ListDoc([x, y]),
        '{x: y, "k": z}': d.DictDoc({x: y, LiteralDoc("k"): z}),
        "y if x else (y if x else z)": op(K.IfThenElse, x, y, op(K.IfThenElse, x, y, z)),
    }
    for text, document in texts.items():
        assert to_python_script(document) == text


def random_operation(draw: Any, depth: int) -> tuple[d.ExprDoc, Any]:
    """An expression as a document, and as a tree of Python."""
    if depth == 0:
        name = draw.choice("xyz")
        return IdDoc(name), ast.Name(name)
    kind = draw.choice(list(OPERATORS))
    count = 1 if kind < K.UnaryEnd else 3 if kind is K.IfThenElse else 2
    parts = [random_operation(draw, depth - 1 - draw.randrange(depth)) for _ in range(count)]
    if kind is K.IfThenElse:  # TVM writes the value between `if`s without parentheses
        parts[1] = random_operation(draw, 0)
    return OperationDoc(kind, [p[0] for p in parts]), OPERATORS[kind](*[p[1] for p in parts])


def _binary(name: str) -> Any:
    return lambda a, b: ast.BinOp(a, getattr(ast, name)(), b)


OPERATORS: dict[K, Any] = {
    **{getattr(K, name): _binary(name) for name in ("Add", "Sub", "Mult", "Div", "FloorDiv", "Mod", "Pow")},
    **{getattr(K, name): _binary(name) for name in ("LShift", "RShift", "BitAnd", "BitOr", "BitXor")},
    **{
        getattr(K, name): (lambda a, name=name: ast.UnaryOp(getattr(ast, name)(), a))
        for name in ("USub", "Invert", "Not")
    },
    K.IfThenElse: ast.IfExp,
}


def test_operators_mean_in_python_what_the_document_says() -> None:
    import random

    draw = random.Random(1)
    for _ in range(200):
        document, tree = random_operation(draw, 4)
        assert ast.dump(ast.parse(to_python_script(document), mode="eval").body) == ast.dump(_loaded(tree))


def _loaded(tree: Any) -> Any:
    return ast.parse(ast.unparse(ast.fix_missing_locations(ast.Expression(tree))), mode="eval").body


def program() -> d.ClassDoc:
    body: list[d.StmtDoc] = [
        d.AssignDoc(d.TupleDoc([x, y]), z),
        d.IfDoc(x, [], [d.ReturnDoc(y)]),
        d.ForDoc(d.TupleDoc([x]), y, [d.ExprStmtDoc(x)]),
        d.WhileDoc(x, [d.AssertDoc(x, y)]),
    ]
    body[0].comment, body[2].comment = "behind", "above\nit"
    arguments = [d.AssignDoc(x, annotation=y), d.AssignDoc(z, LiteralDoc(1), y)]
    function = d.FunctionDoc(IdDoc("f"), arguments, [IdDoc("deco")], LiteralDoc(None), body)
    function.comment = "what it is\n\nmore"
    return d.ClassDoc(
        IdDoc("C"), [], [function, d.ScopeDoc(y, x, []), d.ScopeDoc(x, [d.CommentDoc("c"), d.DocStringDoc("d")])]
    )


TEXT = '''
class C:
    @deco
    def f(x: y, z: y = 1) -> None:
        """
        what it is

        more
        """
        x, y = z  # behind
        if x:
            pass
        else:
            return y
        # above
        # it
        for x, in y:
            x
        while x:
            assert x, y

    with x as y:
        pass
    with x:
        # c
        """d"""
'''.strip()


def test_statements() -> None:
    assert to_python_script(program()) == TEXT
    two = to_python_script(program(), indent_spaces=2, print_line_numbers=True)
    assert " 4     " in two and two.splitlines()[2] == " 3   def f(x: y, z: y = 1) -> None:"


def test_the_nearest_parts_are_underlined() -> None:
    root = ObjectPath.root()

    def part(name: str) -> IdDoc:
        document = IdDoc(name)
        document.source_paths = [root.attr(name)]
        return document

    total = op(K.Add, part("foo"), part("bar"))
    total.source_paths = [root]
    assert to_python_script(total, path_to_underline=[root.attr("bar").attr("k")]) == "foo + bar\n      ^^^"
    assert to_python_script(total, path_to_underline=[root.attr("z")]) == "foo + bar\n^^^^^^^^^"
    stmt = d.AssignDoc(part("foo"), part("bar"))
    stmt.comment, stmt.source_paths = "not this", [root]
    assert to_python_script(stmt, path_to_underline=[root]) == "foo = bar  # not this\n^^^^^^^^^"
    lines = StmtBlockDoc([d.ExprStmtDoc(part(f"line{i}")) for i in range(9)])
    text = to_python_script(lines, num_context_lines=1, path_to_underline=[root.attr("line4")])
    assert text.splitlines() == [
        "(... 3 lines skipped ...)",
        "line3",
        "line4",
        "^^^^^",
        "line5",
        "(... 3 lines skipped ...)",
    ]


def test_wrong_documents_are_refused() -> None:
    with pytest.raises(ValueError, match="At least one of rhs and annotation"):
        d.AssignDoc(x)
    with pytest.raises(ValueError, match="annotation can only be nonnull if lhs is an identifier"):
        d.AssignDoc(d.ListDoc([x]), y, z)
    with pytest.raises(ValueError, match="At least one of the then branch or else branch"):
        d.IfDoc(x, [], [])
    with pytest.raises(ValueError, match="two or three arguments"):
        d.ScopeDoc(x)
    with pytest.raises(TypeError, match="Unsupported type"):
        LiteralDoc(d)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="cannot be used as iterable"):
        list(x)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="requires 2 operands, but got 1"):
        to_python_script(op(K.Add, x))
    with pytest.raises(ValueError, match="Invalid operation"):
        to_python_script(op(K.BinaryEnd, x))
    with pytest.raises(TVMagicError, match="SliceDoc cannot be part"):
        to_python_script(op(K.Not, d.SliceDoc()))  # type: ignore[arg-type]
    behind = d.ExprStmtDoc(x)
    behind.comment = "a\nb"
    with pytest.raises(ValueError, match="cannot have newline"):
        to_python_script(behind)
    argument = d.AssignDoc(x, y)
    argument.comment = "a"
    with pytest.raises(ValueError, match="Function arg cannot have comment"):
        to_python_script(d.FunctionDoc(x, [argument], [], None, []))
    with pytest.raises(TVMagicError, match="Do not know how to print"):
        to_python_script(d.Doc())


# ---------------------------------------------------------------------------- sources and expressions


class Holder:
    def inside(self, a: int) -> int:
        return a + 1


def test_sources_know_their_place() -> None:
    from tvmagic.script.parser.core.diagnostics import Source  # type: ignore[import-not-found]

    source = Source(Holder.inside)
    assert source.source_name == __file__ and source.start_column == 4
    assert source.start_line == inspect.getsourcelines(Holder.inside)[1]
    assert source.source.startswith("def inside") and source.full_source == pathlib.Path(__file__).read_text()
    (function,) = source.as_ast().body
    assert isinstance(function, ast.FunctionDef) and function.name == "inside"
    assert Source("1 + 2").full_source == "1 + 2"
    with pytest.raises(TVMagicError, match="cannot be found"):
        Source(3)


def test_expressions_have_values() -> None:
    from tvmagic.script.parser.core import doc, evaluator  # type: ignore[import-not-found]

    def value(text: str, **names: Any) -> Any:
        return evaluator.ExprEvaluator.eval(None, doc.parse(text).body[0].value, names)

    assert value("1, 3.5, True, 'a'") == (1, 3.5, True, "a")
    assert value("f(a[1:], *b, k=2)", f=lambda *p, k: (p, k), a=[1, 2], b=(3,)) == (([2], 3), 2)
    assert value("{k: v + 1 for k, v in m.items()}", m={"a": 1}) == {"a": 2}
    (part,) = [n for n in ast.walk(doc.parse("a[1:n:2]")) if isinstance(n, doc.Slice)]
    assert evaluator.ExprEvaluator.eval(None, part, {"n": 8}) == slice(1, 8, 2)
    with pytest.raises(TVMagicError, match="not `Pass`"):
        evaluator.ExprEvaluator.eval(None, ast.Pass(), {})
