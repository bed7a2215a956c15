"""What every part of a program is: a slotted object whose fields are declared once.

The annotations of a class under `@node` (`derive.py`) are its fields, and become its `FIELDS`. Slots and constructor,
visitor and mutator, structural equality and hash, JSON and the printers' paths all follow from that list.
"""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from tvmagic.ir.hooks import provided

__all__ = ["NODE_CLASSES", "Field", "Identified", "Kind", "Name", "Node", "Object", "Operands", "Span"]

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


class Span(NamedTuple):
    """A place in a text that a user wrote; lines and columns count from 1."""

    source: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


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
