"""Documents: a Python program as a tree, for tools that print scripts of their own. `to_python_script` writes one.

The classes and their fields are those of TVM's `tvm.script.printer.doc`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from tvmagic.errors import WrongTypeError, WrongValueError
from tvmagic.ir.path import ObjectPath

__all__ = [
    "AssertDoc",
    "AssignDoc",
    "AttrAccessDoc",
    "CallDoc",
    "ClassDoc",
    "CommentDoc",
    "DictDoc",
    "Doc",
    "DocStringDoc",
    "ExprDoc",
    "ExprStmtDoc",
    "ForDoc",
    "FunctionDoc",
    "IdDoc",
    "IfDoc",
    "IndexDoc",
    "LambdaDoc",
    "ListDoc",
    "LiteralDoc",
    "OperationDoc",
    "OperationKind",
    "ReturnDoc",
    "ScopeDoc",
    "SliceDoc",
    "StmtBlockDoc",
    "StmtDoc",
    "TupleDoc",
    "WhileDoc",
]


class Doc:
    """A part of a Python program. `source_paths` say which parts of what is printed it stands for."""

    def __init__(self) -> None:
        self._paths: list[ObjectPath] = []

    @property
    def source_paths(self) -> list[ObjectPath]:
        """The parts that are underlined as this part of the text."""
        return self._paths

    @source_paths.setter
    def source_paths(self, paths: Sequence[ObjectPath]) -> None:
        self._paths = list(paths)


# ---------------------------------------------------------------------------- expressions


class ExprDoc(Doc):
    """An expression."""

    def attr(self, name: str) -> AttrAccessDoc:
        """`self.name`."""
        return AttrAccessDoc(self, name)

    def call(self, *args: ExprDoc, **kwargs: ExprDoc) -> CallDoc:
        """`self(*args, **kwargs)`."""
        return CallDoc(self, *args, **kwargs)

    def __getitem__(self, indices: Any) -> IndexDoc:
        return IndexDoc(self, indices if isinstance(indices, tuple) else (indices,))

    def __iter__(self) -> Iterator[NoReturn]:
        # by `__getitem__` Python would go on without end
        raise RuntimeError(f"{self.__class__} cannot be used as iterable.")


class LiteralDoc(ExprDoc):
    """None, a truth value, a number or a text."""

    def __init__(self, value: str | float | bool | int | None, path: ObjectPath | None = None) -> None:
        super().__init__()
        if not isinstance(value, (str, float, int, type(None))):
            raise WrongTypeError(f"Unsupported type {type(value)} for LiteralDoc")
        self.value = value
        if path is not None:
            self.source_paths = [path]


class IdDoc(ExprDoc):
    """A name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class AttrAccessDoc(ExprDoc):
    """`value.name`."""

    def __init__(self, value: ExprDoc, name: str) -> None:
        super().__init__()
        self.value, self.name = value, name


class IndexDoc(ExprDoc):
    """`value[indices]`, with expressions and slices."""

    def __init__(self, value: ExprDoc, indices: Sequence[ExprDoc | SliceDoc]) -> None:
        super().__init__()
        self.value, self.indices = value, list(indices)


class CallDoc(ExprDoc):
    """`callee(*args, **kwargs)`."""

    def __init__(self, callee: ExprDoc, *args: ExprDoc, **kwargs: ExprDoc) -> None:
        super().__init__()
        self.callee, self.args = callee, list(args)
        self.kwargs_keys, self.kwargs_values = list(kwargs), list(kwargs.values())


class OperationKind(enum.IntEnum):
    """The operators; the numbers are TVM's."""

    UnaryStart, USub, Invert, Not, UnaryEnd = range(5)
    BinaryStart, Add, Sub, Mult, Div, FloorDiv, Mod, Pow, LShift, RShift = range(5, 15)
    BitAnd, BitOr, BitXor, Lt, LtE, Eq, NotEq, Gt, GtE, And, Or, BinaryEnd = range(15, 27)
    SpecialStart, IfThenElse, SpecialEnd = range(27, 30)


class OperationDoc(ExprDoc):
    """An operator and its operands; those of `IfThenElse` are the condition and both values."""

    def __init__(self, kind: OperationKind, operands: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.kind, self.operands = OperationKind(kind), list(operands)


class LambdaDoc(ExprDoc):
    """`lambda args: body`."""

    def __init__(self, args: Sequence[IdDoc], body: ExprDoc) -> None:
        super().__init__()
        self.args, self.body = list(args), body


class TupleDoc(ExprDoc):
    """`(elements)`."""

    def __init__(self, elements: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.elements = list(elements)


class ListDoc(ExprDoc):
    """`[elements]`."""

    def __init__(self, elements: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.elements = list(elements)


class DictDoc(ExprDoc):
    """`{key: value}`."""

    def __init__(self, content: Mapping[ExprDoc, ExprDoc]) -> None:
        super().__init__()
        self.keys, self.values = list(content), list(content.values())


class SliceDoc(Doc):
    """`start:stop:step` in the index of an `IndexDoc`."""

    def __init__(self, start: ExprDoc | None = None, stop: ExprDoc | None = None, step: ExprDoc | None = None) -> None:
        super().__init__()
        self.start, self.stop, self.step = start, stop, step


# ---------------------------------------------------------------------------- statements


class StmtDoc(Doc):
    """A statement, with a comment behind or above it."""

    def __init__(self, comment: str | None = None) -> None:
        super().__init__()
        self._comment = comment

    @property
    def comment(self) -> str | None:
        """The comment's text, without `#`."""
        return self._comment

    @comment.setter
    def comment(self, value: str | None) -> None:
        self._comment = value


class StmtBlockDoc(Doc):
    """Statements one after the other."""

    def __init__(self, stmts: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.stmts = list(stmts)


class AssignDoc(StmtDoc):
    """`lhs: annotation = rhs`, where one of the two is left out if it is None."""

    def __init__(self, lhs: ExprDoc, rhs: ExprDoc | None = None, annotation: ExprDoc | None = None) -> None:
        super().__init__()
        if rhs is None and annotation is None:
            raise WrongValueError("At least one of rhs and annotation needs to be non-null for AssignDoc.")
        if annotation is not None and not isinstance(lhs, IdDoc):
            raise WrongValueError("annotation can only be nonnull if lhs is an identifier.")
        self.lhs, self.rhs, self.annotation = lhs, rhs, annotation


class IfDoc(StmtDoc):
    """`if predicate:` with both branches."""

    def __init__(
        self, predicate: ExprDoc, then_branch: Sequence[StmtDoc], else_branch: Sequence[StmtDoc] | None = None
    ) -> None:
        super().__init__()
        if not then_branch and not else_branch:
            raise WrongValueError("At least one of the then branch or else branch needs to be non-empty.")
        self.predicate, self.then_branch, self.else_branch = predicate, list(then_branch), list(else_branch or ())


class WhileDoc(StmtDoc):
    """`while predicate:`."""

    def __init__(self, predicate: ExprDoc, body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.predicate, self.body = predicate, list(body)


class ForDoc(StmtDoc):
    """`for lhs in rhs:`."""

    def __init__(self, lhs: ExprDoc, rhs: ExprDoc, body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.lhs, self.rhs, self.body = lhs, rhs, list(body)


class ScopeDoc(StmtDoc):
    """`with rhs as lhs:`; made by (lhs, rhs, body), or by (rhs, body)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        names = ("lhs", "rhs", "body") if len(args) + len(kwargs) == 3 else ("rhs", "body")
        given = dict(zip([name for name in names if name not in kwargs], args), **kwargs)
        if sorted(given) != sorted(names):
            raise WrongValueError("This function takes two or three arguments.", hint="lhs, rhs, body; or rhs, body")
        self.lhs: ExprDoc | None = given.get("lhs")
        self.rhs: ExprDoc = given["rhs"]
        self.body: list[StmtDoc] = list(given["body"])


class ExprStmtDoc(StmtDoc):
    """An expression as a statement."""

    def __init__(self, expr: ExprDoc) -> None:
        super().__init__()
        self.expr = expr


class AssertDoc(StmtDoc):
    """`assert test, msg`."""

    def __init__(self, test: ExprDoc, msg: ExprDoc | None = None) -> None:
        super().__init__()
        self.test, self.msg = test, msg


class ReturnDoc(StmtDoc):
    """`return value`."""

    def __init__(self, value: ExprDoc) -> None:
        super().__init__()
        self.value = value


class FunctionDoc(StmtDoc):
    """A function; its comment is its docstring."""

    def __init__(
        self,
        name: IdDoc,
        args: Sequence[AssignDoc],
        decorators: Sequence[ExprDoc],
        return_type: ExprDoc | None,
        body: Sequence[StmtDoc],
    ) -> None:
        super().__init__()
        self.name, self.args, self.decorators = name, list(args), list(decorators)
        self.return_type, self.body = return_type, list(body)


class ClassDoc(StmtDoc):
    """A class; its comment is its docstring."""

    def __init__(self, name: IdDoc, decorators: Sequence[ExprDoc], body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.name, self.decorators, self.body = name, list(decorators), list(body)


class CommentDoc(StmtDoc):
    """Lines of comments."""

    def __init__(self, comment: str) -> None:
        super().__init__(comment)


class DocStringDoc(StmtDoc):
    """A docstring."""

    def __init__(self, docs: str) -> None:
        super().__init__(docs)
