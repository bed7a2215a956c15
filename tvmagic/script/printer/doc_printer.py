"""The text of documents (`tvmagic.script.printer.doc`), as TVM writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import TVMagicError, WrongValueError
from tvmagic.ir.path import ObjectPath
from tvmagic.script.printer import doc as d
from tvmagic.script.printer.literals import float_text, quoted
from tvmagic.script.printer.underline import decorate

__all__ = ["to_python_script"]

_K = d.OperationKind
_TOKENS = {
    _K.USub: "-",
    _K.Invert: "~",
    _K.Not: "not ",
    _K.Add: "+",
    _K.Sub: "-",
    _K.Mult: "*",
    _K.Div: "/",
    _K.FloorDiv: "//",
    _K.Mod: "%",
    _K.Pow: "**",
    _K.LShift: "<<",
    _K.RShift: ">>",
    _K.BitAnd: "&",
    _K.BitOr: "|",
    _K.BitXor: "^",
    _K.Lt: "<",
    _K.LtE: "<=",
    _K.Eq: "==",
    _K.NotEq: "!=",
    _K.Gt: ">",
    _K.GtE: ">=",
    _K.And: "and",
    _K.Or: "or",
}
# From what binds least to what binds most; all else is an atom.
_LEVELS: list[tuple[_K, ...]] = [
    (_K.IfThenElse,),
    (_K.Or,),
    (_K.And,),
    (_K.Not,),
    (_K.Lt, _K.LtE, _K.Eq, _K.NotEq, _K.Gt, _K.GtE),
    (_K.BitOr,),
    (_K.BitXor,),
    (_K.BitAnd,),
    (_K.LShift, _K.RShift),
    (_K.Add, _K.Sub),
    (_K.Mult, _K.Div, _K.FloorDiv, _K.Mod),
    (_K.USub, _K.Invert),
    (_K.Pow,),
]
_LAMBDA = 0
_LEVEL = {kind: level for level, kinds in enumerate(_LEVELS, 1) for kind in kinds}
_UNARY, _ATOM = _LEVEL[_K.USub], len(_LEVELS) + 1


def to_python_script(
    doc: d.Doc,
    indent_spaces: int = 4,
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
    path_to_underline: Sequence[ObjectPath] | None = None,
) -> str:
    """The text of a document.

    Parameters
    ----------
    indent_spaces: the spaces of each level of indentation.
    print_line_numbers: whether each line begins with its number.
    num_context_lines: how many lines around underlined ones are kept; all by default.
    path_to_underline: paths; the parts whose `source_paths` come nearest to each are underlined.
    """
    writer = _Writer(indent_spaces, path_to_underline or ())
    writer.write(doc)
    return decorate("".join(writer.parts).rstrip(), writer.underlined(), print_line_numbers, num_context_lines)


_WRITERS: dict[type[d.Doc], Callable[[_Writer, Any], None]] = {}


def _writes(kind: type[d.Doc]) -> Callable[[Any], Any]:
    def declare(function: Callable[[_Writer, Any], None]) -> Callable[[_Writer, Any], None]:
        _WRITERS[kind] = function
        return function

    return declare


class _Writer:
    """The text so far, and for each path to underline the best places for it."""

    def __init__(self, indent: int, paths: Sequence[ObjectPath]) -> None:
        self.step, self.indent = indent, 0
        self.parts: list[str] = []
        self.length = 0
        self.exempt: list[tuple[int, int]] = []  # comments, which are not underlined
        self.best: list[tuple[ObjectPath, int, list[tuple[int, int]]]] = [(path, 0, []) for path in paths]

    def text(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def line(self) -> None:
        self.text("\n" + " " * self.indent)

    def write(self, doc: d.Doc) -> None:
        begin = self.length
        writer = next((_WRITERS[kind] for kind in type(doc).__mro__ if kind in _WRITERS), None)
        if writer is None:
            raise TVMagicError(f"Do not know how to print {type(doc).__name__}")
        writer(self, doc)
        for path in doc.source_paths:
            self._mark((begin, self.length), path)

    def _mark(self, span: tuple[int, int], path: ObjectPath) -> None:
        """Note a place for the paths that it is the nearest to so far."""
        for number, (wanted, longest, spans) in enumerate(self.best):
            if len(path) >= longest and path.is_prefix_of(wanted):
                self.best[number] = (wanted, len(path), [span] if len(path) > longest else [*spans, span])

    def underlined(self) -> list[tuple[int, int]]:
        """The places to underline, without comments."""
        found = [span for _, _, spans in self.best for span in spans]
        for begin, end in self.exempt:
            parts = [((low, min(high, begin)), (max(low, end), high)) for low, high in found]
            found = [span for both in parts for span in both if span[0] < span[1]]
        return found

    # ------------------------------------------------------------------ parts

    def child(self, doc: d.Doc, level: int, strictly: bool = False) -> None:
        """An operand, in parentheses if it binds less than `level`, or (`strictly`) not more."""
        own = _level(doc)
        inside = own < level or (strictly and own == level)
        self.text("(" if inside else "")
        self.write(doc)
        self.text(")" if inside else "")

    def joined(self, docs: Sequence[d.Doc]) -> None:
        for number, doc in enumerate(docs):
            self.text(", " if number else "")
            self.write(doc)

    def block(self, docs: Sequence[d.Doc]) -> None:
        self.indent += self.step
        for doc in docs:
            self.line()
            self.write(doc)
        if not docs:
            self.line()
            self.text("pass")
        self.indent -= self.step

    def comment_behind(self, doc: d.StmtDoc) -> None:
        if doc.comment is None:
            return
        if "\n" in doc.comment:
            raise WrongValueError(f"the comment string of {type(doc).__name__} cannot have newline.")
        begin = self.length
        self.text(f"  # {doc.comment}")
        self.exempt.append((begin, self.length))

    def comment_above(self, doc: d.StmtDoc, goes_on: bool = True) -> None:
        if doc.comment is None:
            return
        begin = self.length
        for number, text in enumerate(doc.comment.split("\n")):
            if number:
                self.line()
            self.text(f"# {text}")
        self.exempt.append((begin, self.length))
        if goes_on:
            self.line()

    def docstring(self, comment: str | None) -> None:
        """A comment as the docstring of what was begun."""
        if comment is None:
            return
        self.indent += self.step
        begin = self.length
        for text in ('"""', *comment.split("\n"), '"""'):
            if text:
                self.line()
                self.text(text)
            else:
                self.text("\n")
        self.exempt.append((begin, self.length))
        self.indent -= self.step

    def decorators(self, docs: Sequence[d.Doc]) -> None:
        for doc in docs:
            self.text("@")
            self.write(doc)
            self.line()


def _level(doc: d.Doc) -> int:
    if isinstance(doc, d.OperationDoc):
        return _LEVEL[doc.kind]
    if isinstance(doc, d.LambdaDoc):
        return _LAMBDA
    if isinstance(doc, d.ExprDoc):
        return _ATOM
    raise TVMagicError(f"{type(doc).__name__} cannot be part of an expression here")


# ---------------------------------------------------------------------------- expressions


@_writes(d.LiteralDoc)
def _literal(out: _Writer, doc: d.LiteralDoc) -> None:
    value = doc.value
    if isinstance(value, str):
        out.text(quoted(value))
    else:
        out.text(float_text(value) if isinstance(value, float) else str(value))


@_writes(d.IdDoc)
def _name(out: _Writer, doc: d.IdDoc) -> None:
    out.text(doc.name)


@_writes(d.AttrAccessDoc)
def _attribute(out: _Writer, doc: d.AttrAccessDoc) -> None:
    out.child(doc.value, _ATOM)
    out.text(f".{doc.name}")


@_writes(d.IndexDoc)
def _index(out: _Writer, doc: d.IndexDoc) -> None:
    out.child(doc.value, _ATOM)
    out.text("[" if doc.indices else "[()")
    out.joined(doc.indices)
    out.text("]")


@_writes(d.SliceDoc)
def _slice(out: _Writer, doc: d.SliceDoc) -> None:
    if doc.start is not None:
        out.write(doc.start)
    out.text(":")
    if doc.stop is not None:
        out.write(doc.stop)
    if doc.step is not None:
        out.text(":")
        out.write(doc.step)


@_writes(d.CallDoc)
def _call(out: _Writer, doc: d.CallDoc) -> None:
    out.child(doc.callee, _ATOM)
    out.text("(")
    out.joined(doc.args)
    for number, (key, value) in enumerate(zip(doc.kwargs_keys, doc.kwargs_values)):
        out.text(f"{', ' if number or doc.args else ''}{key}=")
        out.write(value)
    out.text(")")


@_writes(d.OperationDoc)
def _operation(out: _Writer, doc: d.OperationDoc) -> None:
    kind, operands = doc.kind, doc.operands
    if kind not in _LEVEL:
        raise WrongValueError(f"Invalid operation: {kind.name}")
    level = _LEVEL[kind]
    count = 3 if kind is _K.IfThenElse else 1 if kind < _K.UnaryEnd else 2
    if len(operands) != count:
        raise WrongValueError(f"{kind.name} requires {count} operands, but got {len(operands)}")
    if kind is _K.IfThenElse:
        condition, then, other = operands
        out.child(then, level)
        out.text(" if ")
        out.child(condition, level, strictly=True)
        out.text(" else ")
        out.child(other, level, strictly=True)
    elif count == 1:
        out.text(_TOKENS[kind])
        out.child(operands[0], level)
    else:  # a power groups from the right, and binds less than the sign of its exponent
        power = kind is _K.Pow
        out.child(operands[0], level, strictly=power)
        out.text(f" {_TOKENS[kind]} ")
        out.child(operands[1], _UNARY if power else level, strictly=not power)


@_writes(d.LambdaDoc)
def _lambda(out: _Writer, doc: d.LambdaDoc) -> None:
    out.text("lambda ")
    out.joined(doc.args)
    out.text(": ")
    out.child(doc.body, _LAMBDA)


@_writes(d.TupleDoc)
def _tuple(out: _Writer, doc: d.TupleDoc) -> None:
    out.text("(")
    out.joined(doc.elements)
    out.text(",)" if len(doc.elements) == 1 else ")")


@_writes(d.ListDoc)
def _list(out: _Writer, doc: d.ListDoc) -> None:
    out.text("[")
    out.joined(doc.elements)
    out.text("]")


@_writes(d.DictDoc)
def _dict(out: _Writer, doc: d.DictDoc) -> None:
    out.text("{")
    for number, (key, value) in enumerate(zip(doc.keys, doc.values)):
        out.text(", " if number else "")
        out.write(key)
        out.text(": ")
        out.write(value)
    out.text("}")


# ---------------------------------------------------------------------------- statements


@_writes(d.StmtBlockDoc)
def _statements(out: _Writer, doc: d.StmtBlockDoc) -> None:
    for stmt in doc.stmts:
        out.write(stmt)
        out.line()


@_writes(d.AssignDoc)
def _assignment(out: _Writer, doc: d.AssignDoc) -> None:
    if isinstance(doc.lhs, d.TupleDoc):
        out.joined(doc.lhs.elements)
    else:
        out.write(doc.lhs)
    for part, before in ((doc.annotation, ": "), (doc.rhs, " = ")):
        if part is not None:
            out.text(before)
            out.write(part)
    out.comment_behind(doc)


@_writes(d.IfDoc)
def _if(out: _Writer, doc: d.IfDoc) -> None:
    out.comment_above(doc)
    out.text("if ")
    out.write(doc.predicate)
    out.text(":")
    out.block(doc.then_branch)
    if doc.else_branch:
        out.line()
        out.text("else:")
        out.block(doc.else_branch)


@_writes(d.WhileDoc)
def _while(out: _Writer, doc: d.WhileDoc) -> None:
    out.comment_above(doc)
    out.text("while ")
    out.write(doc.predicate)
    out.text(":")
    out.block(doc.body)


@_writes(d.ForDoc)
def _for(out: _Writer, doc: d.ForDoc) -> None:
    out.comment_above(doc)
    out.text("for ")
    if isinstance(doc.lhs, d.TupleDoc):
        out.joined(doc.lhs.elements)
        out.text("," if len(doc.lhs.elements) == 1 else "")
    else:
        out.write(doc.lhs)
    out.text(" in ")
    out.write(doc.rhs)
    out.text(":")
    out.block(doc.body)


@_writes(d.ScopeDoc)
def _scope(out: _Writer, doc: d.ScopeDoc) -> None:
    out.comment_above(doc)
    out.text("with ")
    out.write(doc.rhs)
    if doc.lhs is not None:
        out.text(" as ")
        out.write(doc.lhs)
    out.text(":")
    out.block(doc.body)


@_writes(d.ExprStmtDoc)
def _expression(out: _Writer, doc: d.ExprStmtDoc) -> None:
    out.write(doc.expr)
    out.comment_behind(doc)


@_writes(d.AssertDoc)
def _assertion(out: _Writer, doc: d.AssertDoc) -> None:
    out.text("assert ")
    out.write(doc.test)
    if doc.msg is not None:
        out.text(", ")
        out.write(doc.msg)
    out.comment_behind(doc)


@_writes(d.ReturnDoc)
def _return(out: _Writer, doc: d.ReturnDoc) -> None:
    out.text("return ")
    out.write(doc.value)
    out.comment_behind(doc)


@_writes(d.FunctionDoc)
def _function(out: _Writer, doc: d.FunctionDoc) -> None:
    if any(arg.comment is not None for arg in doc.args):
        raise WrongValueError("Function arg cannot have comment attached to them.")
    out.decorators(doc.decorators)
    out.text("def ")
    out.write(doc.name)
    out.text("(")
    out.joined(doc.args)
    out.text(")")
    if doc.return_type is not None:
        out.text(" -> ")
        out.write(doc.return_type)
    out.text(":")
    out.docstring(doc.comment)
    out.block(doc.body)
    out.text("\n")


@_writes(d.ClassDoc)
def _class(out: _Writer, doc: d.ClassDoc) -> None:
    out.decorators(doc.decorators)
    out.text("class ")
    out.write(doc.name)
    out.text(":")
    out.docstring(doc.comment)
    out.block(doc.body)
    out.text("\n")


@_writes(d.CommentDoc)
def _comment(out: _Writer, doc: d.CommentDoc) -> None:
    out.comment_above(doc, goes_on=False)


@_writes(d.DocStringDoc)
def _docstring(out: _Writer, doc: d.DocStringDoc) -> None:
    if doc.comment:
        out.text(f'"""{doc.comment}"""')
