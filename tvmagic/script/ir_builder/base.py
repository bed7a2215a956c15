"""The builder that statements are added to, and the frames that hold them until they are complete.

A frame is a statement under construction: what is built while it is open becomes its body. It is
entered with `with`, or as a statement of its own (`T.allocate(...)` without `with`), and then
reaches to the end of the frame around it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from tvmagic import ir
from tvmagic.errors import TVMagicError, WrongValueError

_F = TypeVar("_F", bound="IRBuilderFrame")
_T = TypeVar("_T")


class _Stack(threading.local):
    def __init__(self) -> None:
        self.builders: list[IRBuilder] = []


_stack = _Stack()


def current_builder() -> IRBuilder:
    """The innermost builder that is open in this thread."""
    builders = _stack.builders
    if not builders:
        raise WrongValueError(
            "no `IRBuilder` is open here",
            hint="write the function under `@T.prim_func`, or build it inside `with IRBuilder() as ib:`",
            code="script.builder.not_open",
        )
    return builders[-1]


class IRBuilder:
    """What collects the statements of a program that is built piece by piece.

        with IRBuilder() as ib:
            with T.prim_func():
                T.func_name("main")
                T.evaluate(0)
        func = ib.get()

    `span` is the place in the user's text that the next statements come from.
    """

    def __init__(self) -> None:
        self.frames: list[IRBuilderFrame] = []
        self.result: Any = None
        self.span: ir.Span | None = None

    def __enter__(self) -> IRBuilder:
        _stack.builders.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack.builders.remove(self)

    @staticmethod
    def current() -> IRBuilder:
        """The innermost builder that is open."""
        return current_builder()

    @staticmethod
    def is_in_scope() -> bool:
        """Whether a builder is open."""
        return bool(_stack.builders)

    def get(self) -> Any:
        """What was built: a function, a module or a statement."""
        if self.result is None:
            raise TVMagicError(
                "nothing was built",
                hint="close the frames before asking for the result",
                code="script.builder.nothing_built",
            )
        return self.result

    @staticmethod
    def name(s: str, v: _T) -> _T:
        """Call the variable or buffer `v` by the name `s`; gives `v` back."""
        name_value(s, v)
        return v

    @staticmethod
    def name_many(s: Sequence[str], vs: Sequence[_T]) -> list[_T]:
        """Name several values."""
        if len(s) != len(vs):
            raise TVMagicError(f"{len(s)} names are given for {len(vs)} values", code="script.builder.wrong_name_count")
        return [IRBuilder.name(name, value) for name, value in zip(s, vs)]

    def add(self, stmt: ir.Stmt | ir.PrimFunc | ir.IRModule) -> None:
        """Put a finished statement after those of the innermost frame."""
        if self.frames:
            self.frames[-1].add(stmt)
        elif self.result is None:
            self.result = stmt
        else:
            raise TVMagicError(
                "a second statement is outside all frames",
                hint="put both inside `with T.prim_func():`",
                code="script.builder.statement_outside",
            )

    def find(self, kind: type[_F]) -> _F | None:
        """The innermost open frame of a kind."""
        for frame in reversed(self.frames):
            if isinstance(frame, kind):
                return frame
        return None

    def last(self, kind: type[_F]) -> _F | None:
        """The innermost open frame, if it is of a kind."""
        frame = self.frames[-1] if self.frames else None
        return frame if isinstance(frame, kind) else None

    def close(self, frame: IRBuilderFrame) -> None:
        """Finish `frame`, and before it those that were opened inside it and reach to its end."""
        if frame.closed:  # with the frame around it, before its own callback came
            return
        if not self.frames or (self.frames[-1] is not frame and frame not in self.frames):
            raise TVMagicError(f"the frame `{type(frame).__name__}` is not open", code="script.builder.frame_not_open")
        while not frame.closed:
            top = self.frames[-1]
            top.closed = True
            for callback in reversed(top.callbacks):
                callback()
            self.frames.pop()
            if top is not frame and top.NEEDS_BODY and not getattr(top, "stmts", True):
                raise TVMagicError(
                    "nothing follows that this statement is about",
                    span=top.span,
                    code="script.builder.missing_statement",
                )
            top.finish(self)


class IRBuilderFrame:
    """A part of a program under construction; a context manager.

    `NEEDS_BODY`: whether it is refused if it is opened without `with` and nothing follows.
    """

    NEEDS_BODY: ClassVar[bool] = False

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], Any]] = []
        self.span = _stack.builders[-1].span if _stack.builders else None
        self.closed = False

    def add(self, stmt: Any) -> None:
        """Add a finished part."""
        raise TVMagicError(
            f"a statement cannot be directly inside `{type(self).__name__}`", code="script.builder.misplaced_statement"
        )

    def add_callback(self, callback: Callable[[], Any]) -> None:
        """Call `callback` when the frame that is innermost now ends."""
        current_builder().frames[-1].callbacks.append(callback)

    def start(self, builder: IRBuilder) -> Any:
        """Called when the frame is opened; gives what `with ... as` binds."""
        return self

    def finish(self, builder: IRBuilder) -> None:
        """Called when the frame was closed: hand over what was built."""

    def __enter__(self) -> Any:
        builder = current_builder()
        result = self.start(builder)
        builder.frames.append(self)
        return result

    def __exit__(self, kind: Any = None, value: Any = None, trace: Any = None) -> None:
        builder = current_builder()
        if kind is None:
            builder.close(self)
        elif self in builder.frames:
            del builder.frames[builder.frames.index(self) :]


def _name_var(var: ir.Var, name: str) -> None:
    var.name = name


def _name_buffer(buffer: ir.Buffer, name: str) -> None:
    buffer.name = name
    buffer.data.name = name
    for axis, stride in enumerate(buffer.strides):
        if isinstance(stride, ir.Var):
            stride.name = f"{name}_s{axis}"


def name_value(name: str, value: Any) -> None:
    """Give `value`, which is still under construction, a name.

    A buffer hands its name on to its pointer and to its strides that are variables.
    """
    if isinstance(value, ir.Var):
        _name_var(value, name)
    elif isinstance(value, ir.Buffer):
        _name_buffer(value, name)
    elif isinstance(value, ir.IterVar):
        _name_var(value.var, name)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            name_value(f"{name}_{i}", item)
    elif isinstance(value, Mapping):
        raise TVMagicError(f"a mapping cannot be called `{name}`", code="script.builder.mapping_named")
