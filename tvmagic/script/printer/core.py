"""The state of one print, and how printed items become lines.

A handler is declared for a class of nodes with `@prints(Add, Sub)`. For an expression it returns
its text and how tightly its outermost operator binds (`ATOM`: needs no parentheses); for a
statement an item: a line, a `Suite` with a body, or a list of items that are in its place.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unicodedata import normalize

from tvmagic.errors import TVMagicError
from tvmagic.ir import Buffer, SeqStmt, Var
from tvmagic.script.printer.config import PrinterConfig
from tvmagic.script.printer.literals import float_text, quoted
from tvmagic.script.printer.scope import CommonAncestors, Frame

# how tightly Python's operators bind
LAMBDA, OR, AND, NOT, COMPARE, ADD, MUL, ATOM = 1, 3, 4, 5, 6, 11, 12, 15
Text = tuple[str, int]
Handler = Callable[["Printer", Any], Any]


class _Handlers(dict[type, Handler]):
    """What prints each class of nodes; a class without one of its own takes its base's."""

    by_name: dict[str, Handler] = {}

    def __missing__(self, cls: type) -> Handler:
        for base in cls.__mro__:
            handler = self.by_name.get(base.__name__)
            if handler is not None:
                self[cls] = handler
                return handler
        return _without_handler


HANDLERS = _Handlers()
_RESERVED = frozenset({"range", *keyword.kwlist})


def prints(*classes: type | str) -> Callable[[Handler], Handler]:
    """Mark a function as what prints nodes of these classes (or classes of these names)."""

    def mark(handler: Handler) -> Handler:
        for cls in classes:
            HANDLERS.by_name[cls if isinstance(cls, str) else cls.__name__] = handler
        return handler

    return mark


def _without_handler(printer: Printer, node: Any) -> Text:
    return printer.metadata_reference(node), ATOM


class Opened(NamedTuple):
    """A statement that defines something for its body, after its frame was pushed.

    It prints as `line` before the body where it is `concise`, else as `header` with the body under it.
    """

    concise: bool
    line: str
    header: str
    body: Any


OPENERS: dict[type, Callable[[Printer, Any], Opened]] = {}


def opens(*classes: type) -> Callable[[Callable[[Any, Any], Opened]], Callable[[Any, Any], Opened]]:
    """Mark a function as what opens statements of these classes."""

    def mark(opener: Callable[[Any, Any], Opened]) -> Callable[[Any, Any], Opened]:
        for cls in classes:
            OPENERS[cls] = opener
            HANDLERS.by_name[cls.__name__] = _print_opened
        return opener

    return mark


def _print_opened(printer: Printer, node: Any) -> Any:
    items: list[Any] = []
    printer.print_into(items, node)
    return items[0]


class Suite:
    """A compound statement: headers, each with the items of its body."""

    __slots__ = ("comment", "decorator", "parts", "start")

    def __init__(self, *parts: tuple[str, list[Any]]) -> None:
        self.parts = parts
        self.start: str | None = None
        self.comment: str | None = None
        self.decorator: str | None = None


class Names:
    """The names in use. A name that is taken gets the smallest number that makes it free."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self.taken: set[str] = set(reserved)
        # for a hint, the number below which all are taken
        self._next: dict[str, int] = {}

    def take(self, hint: str) -> str:
        """A free name like `hint`, which is taken from then on."""
        if not (hint.isidentifier() and normalize("NFKC", hint) == hint):  # Python reads names in that form
            hint = "".join(c if c == "_" or (c.isascii() and c.isalnum()) else "_" for c in hint)
            hint = f"_{hint}" if hint[:1].isdigit() else hint
        name = hint
        if name in self.taken:
            number = self._next.get(hint, 1)
            while (name := f"{hint}_{number}") in self.taken:
                number += 1
            self._next[hint] = number + 1
        self.taken.add(name)
        return name

    def release(self, name: str) -> None:
        self.taken.discard(name)
        if self._next:
            self._next.pop(name, None)
            self._next.pop(name.rpartition("_")[0], None)


class Printer:
    """What is known while one node is printed."""

    def __init__(self, root: Any, config: PrinterConfig) -> None:
        self.root = root
        self.config = config
        self.sugar = config.syntax_sugar
        self.T = config.tir_prefix
        self.names: dict[int, str | Callable[[], str]] = {}
        self.free_names = Names([*_RESERVED, config.ir_prefix, config.tir_prefix, config.relax_prefix])
        self.frames: list[Frame] = []
        self.dialects: set[str] = set()
        self.binding_names: list[str] = [config.name] if config.name else []
        self.metadata: dict[str, list[Any]] = {}
        self.loops: dict[int, Any] = {}
        self.annotated = {id(k): v for k, v in config.obj_to_annotate.items()} if config.obj_to_annotate else {}
        self._ancestors: CommonAncestors | None = None
        self._ancestors_root = root

    # ------------------------------------------------------------------ parts

    def expr(self, node: Any) -> Text:
        """The text of an expression and how tightly it binds."""
        return HANDLERS[type(node)](self, node)

    def text(self, node: Any) -> str:
        """The text of an expression if it needs no parentheses."""
        return self.expr(node)[0]

    def stmt(self, node: Any) -> Any:
        """The item for a statement."""
        return self.decorated(HANDLERS[type(node)](self, node), node)

    def decorated(self, item: Any, node: Any) -> Any:
        """The item of `node` with the comment that it should have."""
        return annotate(item, self.annotated[id(node)]) if id(node) in self.annotated else item

    def body(self, node: Any, frame: Frame) -> None:
        """Print the statements of a scope into its frame."""
        last = self._all_but_last(node, frame)
        if last is not None:
            self.print_into(frame.items, last)

    def _all_but_last(self, node: Any, frame: Frame) -> Any:
        """Print all statements of a scope but the last, which is returned."""
        seq = node.seq if isinstance(node, SeqStmt) else (node,)
        frame.concise = False
        for child in seq[:-1]:
            self.print_into(frame.items, child)
            frame.concise = False
        frame.concise = True
        return seq[-1] if seq else None

    def print_into(self, items: list[Any], node: Any) -> None:
        """Print a statement into `items`.

        Statements that define something for their bodies, one inside the other, are opened one
        after the other, so that thousands of them do not exhaust the stack.
        """
        opened: list[tuple[Any, list[Any], Opened]] = []
        while node is not None:
            opener = OPENERS.get(type(node))
            if opener is None:
                items.append(self.stmt(node))
                break
            scope = opener(self, node)
            opened.append((node, items, scope))
            frame = self.frames[-1]
            items = frame.items
            node = self._all_but_last(scope.body, frame)
        for node, items, scope in reversed(opened):
            inner = self.frames[-1].items
            self.pop()
            item = [scope.line, inner] if scope.concise else Suite((scope.header, inner))
            items.append(self.decorated(item, node))

    def concise(self, node: Any) -> bool:
        """Whether what `node` defines needs no `with`."""
        return self.frames[-1].concise and id(node) not in self.annotated

    def stands_in(self, part: Any, whole: Any) -> None:
        """Note that `part` has no text of its own but is told by that of `whole`."""

    # ------------------------------------------------------------------ values

    def value(self, value: Any) -> str:
        """The text of an attribute value."""
        if value is None:
            return "None"
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, (bool, int)):
            return str(value)
        if isinstance(value, float):
            return float_text(value)
        if isinstance(value, (tuple, list)):
            return "[" + ", ".join([self.value(v) for v in value]) + "]"
        if isinstance(value, Mapping):
            items = sorted(value.items()) if all(isinstance(k, str) for k in value) else value.items()
            return "{" + ", ".join([f"{self.value(k)}: {self.value(v)}" for k, v in items]) + "}"
        return self.text(value)

    def string(self, text: str) -> str:
        """A text in quotes; one of several lines goes to the metadata."""
        return self.metadata_reference(text, "runtime.String") if "\n" in text else quoted(text)

    def values(self, items: Any) -> str:
        return ", ".join([self.text(item) for item in items])

    def tuple_of(self, items: Any) -> str:
        """A Python tuple of the texts of expressions."""
        return f"({self.text(items[0])},)" if len(items) == 1 else f"({self.values(items)})"

    def metadata_reference(self, node: Any, kind: str | None = None) -> str:
        """A reference to an object that has no text form."""
        kind = kind or f"tir.{type(node).__name__}"
        known = self.metadata.setdefault(kind, [])
        for i, other in enumerate(known):
            if other is node:
                return f'metadata["{kind}"][{i}]'
        known.append(node)
        return f'metadata["{kind}"][{len(known) - 1}]'

    def tir(self, name: str) -> str:
        """`T.name`"""
        self.dialects.add("tir")
        return f"{self.T}.{name}"

    def ir(self, name: str) -> str:
        """`I.name`"""
        self.dialects.add("ir")
        return f"{self.config.ir_prefix}.{name}"

    # ------------------------------------------------------------------ names

    @contextmanager
    def frame(self, node: Any) -> Any:
        """A scope; the names defined in it are free again after it."""
        frame = self.push(node)
        try:
            yield frame
        finally:
            self.pop()

    def push(self, node: Any) -> Frame:
        frame = Frame(node)
        self.frames.append(frame)
        return frame

    def pop(self) -> None:
        frame = self.frames.pop()
        for key in reversed(frame.defined):
            name = self.names.pop(key, None)
            if isinstance(name, str):
                self.free_names.release(name)

    def define(self, item: Any, hint: str, frame: Frame) -> str:
        """Give a variable or buffer its name, until `frame` ends; the text where it is defined."""
        return self.declare(item, hint, frame)

    def declare(self, item: Any, hint: str, frame: Frame) -> str:
        """Give a variable or buffer its name, until `frame` ends, if nothing defines it."""
        known = self.names.get(id(item))
        if known is not None:
            return known if isinstance(known, str) else known()
        if self.config.show_object_address:
            hint = f"{hint}_{id(item):#x}"
        name = self.free_names.take(hint)
        self.names[id(item)] = name
        frame.defined.append(id(item))
        return name

    def known_or(self, item: Any, hint: str, creation: Callable[[Frame], str]) -> str:
        """The name of a variable or buffer; if nothing defines it, a line with `creation` does, in the lowest frame that it needs."""
        name = self.names.get(id(item))
        if name is None:
            frame = self.lowest_frame(item)
            name = self.declare(item, hint, frame)
            frame.items.append(f"{name} = {creation(frame)}")
        return name if isinstance(name, str) else name()

    def define_inline(self, item: Any, text: Callable[[], str], frame: Frame) -> None:
        """Let a variable be written as `text()`, a part of the buffer that defines it."""
        self.names[id(item)] = text
        frame.defined.append(id(item))

    def define_var(self, var: Var, frame: Frame) -> str:
        return self.define(var, var.name or "v", frame)

    def define_buffer(self, buffer: Buffer, frame: Frame) -> str:
        return self.define(buffer, buffer.name or "buffer", frame)

    def is_defined(self, item: Any) -> bool:
        return id(item) in self.names

    def name_of(self, item: Any) -> str:
        """The text of a variable or buffer that is defined."""
        name = self.names[id(item)]
        return name if isinstance(name, str) else name()

    @property
    def ancestors(self) -> CommonAncestors:
        if self._ancestors is None:
            self._ancestors = CommonAncestors(self._ancestors_root)
        return self._ancestors

    def start_function(self, function: Any) -> None:
        """Free variables from now on are declared in `function`."""
        self._ancestors, self._ancestors_root = None, function

    def lowest_frame(self, item: Any) -> Frame:
        """The frame that a declaration of the free variable or buffer `item` goes to."""
        if len(self.frames) == 1:
            return self.frames[0]
        # where a branch is one statement, both its frame and that of the statement are known by it: the outer counts
        open_frames = {id(f.node): f for f in reversed(self.frames) if f.node is not None and not f.in_header}
        for scope in self.ancestors.scopes_of(item):
            if scope in open_frames:
                frame = open_frames[scope]
                if not _defines_pointer(frame.node, item):
                    return frame
                return next(f for f in reversed(self.frames) if f.node is frame.node)
        return self.frames[0]

    def holds_all_uses(self, node: Any, item: Any) -> bool:
        """Whether every use of `item` is inside `node`."""
        return id(node) in self.ancestors.scopes_of(item)


def _defines_pointer(node: Any, item: Any) -> bool:
    """Whether `item` is a buffer on a pointer that the statement `node` defines, and so is declared inside it."""
    if not isinstance(item, Buffer):
        return False
    return getattr(node, "buffer_var", None) is item.data or getattr(node, "var", None) is item.data


def annotate(item: Any, comment: str) -> Any:
    """The item with a comment: before a compound statement, behind a line."""
    if isinstance(item, Suite):
        item.comment = comment
        return item
    if isinstance(item, str):
        if "\n" in comment:
            raise TVMagicError(
                "the comment at a statement of one line has one line too", code="printer.comment_too_long"
            )
        return f"{item}  # {comment}"
    if item:
        return [annotate(item[0], comment), *item[1:]]
    return item


def layout(items: list[Any], indent: int) -> list[str]:
    """The lines of printed items. None among them ends the last mark that is open."""
    lines: list[str] = []
    # what is still to do, last first: an item, and the columns it is indented by
    stack: list[tuple[Any, int]] = [(item, 0) for item in reversed(items)]
    while stack:
        item, column = stack.pop()
        if isinstance(item, str):
            lines.append(" " * column + item if item else item)
        elif isinstance(item, list):
            stack += [(child, column) for child in reversed(item)]
        elif isinstance(item, Suite):
            stack += reversed(_unfold(item, column, indent))
        else:
            lines[-1] += END
    return lines


END = "\x03"


def _unfold(suite: Suite, column: int, indent: int) -> list[tuple[Any, int]]:
    """The comment, decorator, headers and bodies of a compound statement, each indented."""
    parts: list[tuple[Any, int]] = []
    if suite.decorator is not None:
        parts.append((suite.decorator, column))
    for header, body in suite.parts:
        parts.append((header, column))
        parts += [(child, column + indent) for child in (body if has_lines(body) else ["pass"])]
    if suite.start is not None:
        parts[0] = (suite.start + parts[0][0], column)
        parts.append((None, column))
    if suite.comment is not None:
        parts = [*((f"# {line}", column) for line in suite.comment.split("\n")), *parts]
    return parts


def has_lines(items: list[Any]) -> bool:
    """Whether the items print at least one line."""
    return any(not isinstance(item, list) or has_lines(item) for item in items)
