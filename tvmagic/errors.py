"""The errors that users meet.

Every mistake of a user ends in a `TVMagicError`: one sentence on what is wrong, and where it
is known the place in the IR, the place in the cell and what would work. The notebook shows
these without our own stack frames; `str(error)` gives the same in plain text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

__all__ = [
    "AssertionFailedError",
    "BoundsError",
    "BuildError",
    "DefectError",
    "DiagnosticError",
    "InternalError",
    "LiteralRangeError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "PreconditionError",
    "ScheduleError",
    "TVMError",
    "TVMagicError",
    "WrongIndexError",
    "WrongOptionError",
    "WrongTypeError",
    "WrongValueError",
    "closest",
    "did_you_mean",
    "underlined",
    "visible",
]


_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def closest(name: str, known: Iterable[str]) -> str | None:
    """The name among `known` for which `name` is probably a slip of the pen; None if no one is near enough to offer.

    A name of one or two letters is near those of the same letters (`y`, `YY` and `Y`). Of a longer one, three letters
    in ten may be wrong, missing, too many or swapped with their neighbour; one may if it has three letters, and the
    first letter of a short one is right. Of several that are as near, one with the same letters comes before others,
    then one with the same first letter. Else it may be the beginning of one name alone, or a whole part of it:
    `riscv` of `riscv64`, `loops` of `get_loops`; a long one with a slip: `Vectorise` of `VectorizeLoop`.
    """
    names = [k for k in dict.fromkeys(known) if not k.startswith("_") or name.startswith("_")]
    same = [k for k in names if k.lower() == name.lower() and k != name]
    if not same and len(name) < 3:
        same = [k for k in names if len(k) < 3 and set(k.lower()) == set(name.lower())]
    if same or len(name) < 3:
        return same[0] if same else None
    slips = [(far, number, k) for number, k in enumerate(names) if (far := _slip(name, k)) is not None]
    if slips:
        return min(slips)[2]
    parts = [k for k in names if k.startswith(name) or f"_{name}_" in f"_{k}_"] if len(name) > 3 else []
    parts = parts or [k for k in names if len(name) > 5 and _slip(name, k[: len(name)]) is not None]
    return min(parts, key=len) if len(parts) == 1 or (parts and len(name) > 7) else None


def _slip(name: str, other: str) -> float | None:
    """How far `name`, of three letters or more, is from `other`; None if it is no slip of the pen for it."""
    allowed = max(1, len(name) * 3 // 10)
    if len(other) < 3 or abs(len(other) - len(name)) > allowed or other == name:
        return None
    a, b = name.lower(), other.lower()
    edits, first = _edits(a, b, allowed), a[0] == b[0]
    swapped = len(a) == len(b) and sorted(a) == sorted(b)
    if edits > allowed or not (swapped or first or len(name) > 4):
        return None
    return edits - 0.5 * (swapped or _singled(a) == _singled(b)) - 0.2 * first


def _singled(name: str) -> str:
    """A name without letters that repeat the one before."""
    return "".join(c for i, c in enumerate(name) if not i or c != name[i - 1])


def _edits(a: str, b: str, most: int) -> int:
    """How many letters are wrong, missing, too many or swapped with their neighbour; some number above `most` if more."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a):
        last, before, row = before, row, [i + 1]
        for j, other in enumerate(b):
            least = min(before[j] + (letter != other), before[j + 1] + 1, row[j] + 1)
            if i and j and letter == b[j - 1] and a[i - 1] == other:
                least = min(least, last[j - 1] + 1)
            row.append(least)
        if min(row) > most:
            return most + 1
    return row[-1]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The hint `did you mean X?`, if a known name is near."""
    found = closest(name, known)
    return f"did you mean `{found}`?" if found else None


def no_such_name(owner: object, name: str) -> AttributeError:
    """The error for a name that an object does not have; a name as it is in C++ gets its name here."""
    known = [n for n in dir(type(owner)) if not n.startswith("_")]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    begun = [n for n in known if f"{words}_".startswith(f"{n}_") and n != name]  # `create_size` of `CreateSizeVar`
    near = f"did you mean `{max(begun, key=len)}`?" if begun else did_you_mean(name, known)
    return AttributeError(f"`{type(owner).__name__}` has no `{name}`" + (f"; {near}" if near else ""))


def a_thing(value: object) -> str:
    """The type of a value with its article: `a list`, `an int`."""
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOaeio' else 'a'} {name}"


def parameters_text(signature: inspect.Signature) -> str:
    """The parameters of a call as one writes them: without `self` and without types."""
    empty = inspect.Parameter.empty
    parameters = [p.replace(annotation=empty) for p in signature.parameters.values() if p.name != "self"]
    return str(signature.replace(parameters=parameters, return_annotation=empty))


def visible(text: str) -> str:
    """`text` with what a terminal would obey, or could not show, as escapes: `\\x1b` and the like."""
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


class TVMagicError(RuntimeError):
    """A user's mistake, told so that it can be mended.

    Parameters
    ----------
    message: one sentence on what is wrong, with names in backticks.
    node: the IR node the sentence is about; shown underlined in its function.
    root: the function or statement that `node` is shown in.
    span: the place in the user's cell (`tvmagic.ir.Span`); taken from `node` when left out.
    hint: what would work, as one sentence.
    code: stable name of the mistake, `unit.reason` (`compute_at.not_covered`). `docs/errors.md` lists all codes.
        Programs match codes; the words of a message may change in any version.
    """

    def __init__(
        self,
        message: str,
        *,
        node: Any = None,
        root: Any = None,
        span: Any = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        message = visible(message)
        super().__init__(message)
        self.message = message
        self.node = node
        self.root = root
        self.span = span if span is not None else getattr(node, "span", None) or None
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        parts = [self.message]
        if self.span is not None:
            parts.append(f"  at {self.span}")
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


TVMError = TVMagicError


_WIDEST = 160  # columns of a line of the user's text that an error shows: a window on longer ones


def underlined(line: str, span: Any) -> tuple[str, str]:
    """A line of the user's text, of a long one the part around the place, and the carets below the place.

    `span` (`tvmagic.ir.Span`) begins on this line; the carets go to the end of the line if it ends on a later one.
    """
    line = line.rstrip()
    start, end = span.column - 1, span.column
    if span.end_line not in (0, span.line):
        end = len(line)
    elif span.end_column > span.column:
        end = span.end_column - 1
    if len(line) > _WIDEST:
        begin = max(0, start - _WIDEST // 4)
        line, start, end = line[begin : begin + _WIDEST], start - begin, min(end - begin, _WIDEST)
    before = "".join(["\t" if c == "\t" else " " for c in line[:start].ljust(start)])
    return line, before + "^" * max(1, end - start)


class DiagnosticError(TVMagicError):
    """A text that cannot be read.

    `span` is the place; `source_line` the line of the text there, which `str(error)` shows with a
    caret under the column. `line` and `column` count from 1.
    """

    def __init__(
        self,
        message: str,
        *,
        span: Any = None,
        source_line: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, span=span, hint=hint, code=code)
        self.source_line = source_line

    @property
    def line(self) -> int | None:
        return None if self.span is None else self.span.line

    @property
    def column(self) -> int | None:
        return None if self.span is None else self.span.column

    def __str__(self) -> str:
        if self.source_line is None or self.span is None:
            return super().__str__()
        number = str(self.span.line)
        line, carets = underlined(self.source_line, self.span)
        parts = [
            self.message,
            f"  at {self.span}",
            f" {number} | {line}",
            f" {' ' * len(number)} | {carets}",
        ]
        return "\n".join([*parts, f"  hint: {self.hint}"] if self.hint else parts)


class ScheduleError(TVMagicError):
    """A schedule call that is not legal here; the schedule stays as it was."""


class BuildError(TVMagicError):
    """A program that cannot be compiled for the target asked for."""


class BoundsError(TVMagicError, IndexError):
    """An access outside a buffer, found while a kernel compiled with `check_bounds` ran."""


class PreconditionError(BoundsError):
    """Inputs for which an `assert` of the operator's cell does not hold; `tensors` are those that it reads."""

    tensors: tuple[Any, ...] = ()


# The same errors, for code that asks for one of Python's own classes, as it does with TVM.


class WrongValueError(TVMagicError, ValueError):
    """A value that is not one of those that are allowed."""


class LiteralRangeError(TVMagicError):
    """An integer constant does not fit its type."""


class WrongTypeError(TVMagicError, TypeError):
    """A value of a type that is not supported here."""


class WrongIndexError(TVMagicError, IndexError):
    """A place or name that is not there."""


class WrongNameError(TVMagicError, AttributeError):
    """A name that an object does not have."""


class WrongOptionError(TVMagicError, AttributeError, TypeError):
    """An option that there is not, or of another kind."""


class AssertionFailedError(TVMagicError, AssertionError):
    """A requirement on arguments that does not hold."""


class OpError(TVMagicError):
    """An operator of a model that cannot be taken over."""


class OpNotImplemented(OpError, NotImplementedError):
    """An operator that there is not."""


class OpAttributeRequired(OpError, AttributeError):
    """An operator without an attribute that it needs."""


class OpAttributeInvalid(OpError, AttributeError):
    """An operator with a wrong value of an attribute."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An operator with an attribute that is not supported."""


class DefectError(TVMagicError):
    """A rule of the compiler itself was broken: a defect of ours, not of the user."""


# TVM raises its InternalError for what a check in the compiler refuses, a user's mistake as a rule: any error here.
InternalError = TVMagicError
