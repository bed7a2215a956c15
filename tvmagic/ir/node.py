"""What every part of a program is: a slotted object whose fields are declared once.

The annotations of a class under `@node` (`derive.py`) are its fields, and become its `FIELDS`. Slots and constructor,
visitor and mutator, structural equality and hash, JSON and the printers' paths all follow from that list.
"""

from __future__ import annotations

import contextvars
import enum
import itertools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from tvmagic.ir.hooks import provided

if sys.platform == "emscripten":
    # A browser's stack ends after some 500 frames of calls through C, and takes the kernel with it.
    sys.setrecursionlimit(min(sys.getrecursionlimit(), 400))
else:
    # An expression 1,000 levels deep takes some six Python frames a level in the deepest pass.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))


class Kind(enum.Enum):
    """What a field holds, and so how a walk treats it."""

    EXPR = "expression, or None if the field is optional"
    EXPRS = "tuple of expressions"
    STMT = "statement, or None if the field is optional"
    STMTS = "tuple of statements"
    NODE = "another node that is walked into (Range, IterVar, BufferRegion, ...), or None"
    NODES = "tuple of such nodes"
    VAR_DEF = "a variable that the node defines for what is inside it"
    VAR_DEFS = "tuple of such variables"
    BUFFER_USE = "a buffer that is accessed"
    BUFFER_DEF = "a buffer that the node defines for what is inside it"
    BUFFER_DEFS = "tuple of such buffers"
    ATTRS = "a mapping from names to attribute values, which may hold nodes"
    VALUE = "a plain Python value: text, number, enum, dtype"
    NAME = "a name that is only a hint: printed, not compared"
    TYPE = "a type; compared, not walked"
    OBJECT = "an attribute value: text, number, node, or a tuple of them"


Name: TypeAlias = str  # a field of kind NAME
Object: TypeAlias = Any  # a field of kind OBJECT
Operands: TypeAlias = tuple[Any, ...]  # a field of kind EXPRS whose items need not be expressions


class Field(NamedTuple):
    """One declared field of a class of nodes: its name, what it holds, whether it may be None, its annotation."""

    name: str
    kind: Kind
    optional: bool = False
    annotation: str = ""


# The next number of an origin. Taking one is a single call of C, so threads never get the same one.
new_origin: Callable[[], int] = itertools.count(1).__next__
# While somebody records: for each origin that was made of others, those others.
parents_of_origins: contextvars.ContextVar[dict[int, tuple[int, ...]] | None] = contextvars.ContextVar(
    "tvmagic_parents_of_origins", default=None
)


class Span(NamedTuple):
    """A location in a text that a user wrote, and the number of what began there; lines and columns count from 1.

    `origin` is 0, or the number that a statement, a loop or a load got when it first appeared. Passes keep it, so that a
    line is followed through them. It is neither compared, hashed, printed nor saved. A node without a location has a
    span that only holds its origin, and is false: `span.known`.
    """

    source: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0
    origin: int = 0

    @staticmethod
    def nowhere(origin: int = 0) -> Span:
        """The span of a node without a location; with a new origin unless one is given."""
        return new_span(Span, ("", 0, 1, 0, 0, origin or new_origin()))

    @staticmethod
    def joined(*spans: Span | None) -> Span | None:
        """The span of a node that several nodes became: the first location, and an origin whose parents are theirs.

        If nobody records it is the first span with an origin.
        """
        origins = tuple(dict.fromkeys([s.origin for s in spans if s is not None and s.origin]))
        first = next((s for s in spans if s is not None and s.origin), None)
        place = next((s for s in spans if s), first)
        parents = parents_of_origins.get()
        if first is None or place is None or (len(origins) == 1 and place.origin == origins[0]):
            return place
        if parents is None or len(origins) == 1:
            return place.with_origin(first.origin)
        made = place.born()
        parents[made.origin] = origins
        return made

    @staticmethod
    def made_of(*nodes: Node) -> Span | None:
        """The span of a node that is new, but computes what these nodes do: their location, and an origin of its own.

        If nobody records it is the first node's span.
        """
        spans = [node.span for node in nodes if node.span is not None]
        if not spans or parents_of_origins.get() is None:
            return spans[0] if spans else None
        return copy_of(next((s for s in spans if s), spans[0]), *[s.origin for s in spans if s.origin])

    @staticmethod
    def part_of(whole: int, part: int, place: Span | None = None) -> Span:
        """The span of one of the statements that a TE stage or axis with the origin `whole` always becomes.

        A schedule is lowered anew after each of its calls; so a statement has the same origin each time. `part` is below 64.
        """
        origin = -(whole * 64 + part)
        return Span.nowhere(origin) if place is None else place.with_origin(origin)

    @staticmethod
    def parts_of(whole: int, count: int) -> tuple[int, ...]:
        """The origins of the first parts of `whole`."""
        return tuple([-(whole * 64 + part) for part in range(count)])

    def born(self) -> Span:
        """The same location with a new origin."""
        return new_span(Span, self[:5] + (new_origin(),))

    def with_origin(self, origin: int) -> Span:
        """The same location with another origin."""
        return new_span(Span, (*self[:5], origin))

    def of(self, node: Any) -> Span:
        """This location with the origin that a node already has."""
        span = getattr(node, "span", None)
        return self if span is None or not span.origin else self.with_origin(span.origin)

    @property
    def known(self) -> bool:
        """Whether there is a location."""
        return self[1] > 0

    def __bool__(self) -> bool:
        return self[1] > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and self[:5] == other[:5]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:5])

    def __reduce__(self) -> Any:
        # A number means something in its own process alone: whoever reads the span gives it a new one.
        return _read_span, (*self[:5], self.origin != 0)

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"

    def __repr__(self) -> str:
        return f"Span(source={self.source!r}, line={self.line}, column={self.column}, end_line={self.end_line}, end_column={self.end_column})"


new_span: Callable[[type[Span], tuple[Any, ...]], Span] = getattr(tuple, "__new__")


def _read_span(source: str, line: int, column: int, end_line: int, end_column: int, born: bool) -> Span:
    return Span(source, line, column, end_line, end_column, new_origin() if born else 0)


def copy_of(span: Span, *parents: int) -> Span:
    """`span` with a new origin, made of these, if somebody records."""
    made = span.born()
    if parents:
        note_parents(made.origin, *parents)
    return made


def note_parents(origin: int, *parents: int) -> None:
    """Keep, if somebody records, that what has this origin was made of what has those."""
    known = parents_of_origins.get()
    if known is not None:
        known[origin] = parents


NODE_CLASSES: dict[str, type[Node]] = {}
_Self = TypeVar("_Self", bound="Node")


def _print(node: Node, **options: Any) -> str:
    return provided("print")(node, **options)


class Identified:
    """What is itself by identity, which `same_as` asks for."""

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """Whether `other` is this very object."""
        return self is other


class Node(Identified):
    """A part of a program. It is not changed after it was built.

    `FIELDS` are the declared fields, those of the base classes first, in the order in which they are walked and
    compared: a definition comes before its uses.
    """

    __slots__ = ("__weakref__", "span")
    span: Span | None
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    HAS_ORIGIN: ClassVar[bool] = False  # whether a node gets the number of an origin when it is built

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        NODE_CLASSES[cls.__name__] = cls

    if TYPE_CHECKING:  # what `@node` makes takes the fields in their order

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def check(self) -> None:
        """Called by the constructor at its end: raises if the fields do not fit together, or adjusts them."""

    def replace(self: _Self, **changes: Any) -> _Self:
        """The same node with some fields changed. The new values are taken as they are."""
        cls = type(self)
        new = cls.__new__(cls)
        for name in slots_of(cls):
            setattr(new, name, changes[name] if name in changes else getattr(self, name))
        return new

    def with_(self: _Self, **changes: Any) -> _Self:
        """The same node with some fields changed; itself if each of them is what it was. Values are taken as they are."""
        for name, value in changes.items():
            if getattr(self, name) is not value:
                new = self.replace(**changes)
                new.retype()
                return new
        return self

    def retype(self) -> None:
        """Set what follows from the fields, such as the `dtype` of an operator, once they are in place."""

    def __str__(self) -> str:
        return _print(self)

    def __repr__(self) -> str:
        return _print(self)

    def script(self, **options: Any) -> str:
        """The TVMScript text; the options are those of `tvmagic.script.script`."""
        return _print(self, script=True, **options)

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The TVMScript text, as `script(show_meta=show_meta_data)`; `annotate` is not used."""
        return _print(self, script=True, show_meta=show_meta_data)

    def show(self, style: str | None = None, **options: Any) -> None:
        """Print the TVMScript text, coloured if the output can show colours."""
        provided("show")(self, style=style, **options)

    def __copy__(self: _Self) -> _Self:
        return self

    def __deepcopy__(self: _Self, memo: object) -> _Self:
        return self


_slots: dict[type, tuple[str, ...]] = {}


def slots_of(cls: type) -> tuple[str, ...]:
    """All slots that hold values, base classes first."""
    found = _slots.get(cls)
    if found is None:
        names: list[str] = []
        for base in reversed(cls.__mro__):
            slots = base.__dict__.get("__slots__", ())
            names += [slots] if isinstance(slots, str) else [s for s in slots if s != "__weakref__"]
        found = _slots[cls] = tuple(names)
    return found
