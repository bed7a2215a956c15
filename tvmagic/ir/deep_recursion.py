"""Programs that nest deeper than Python's stack, and those that are too large once written out.

A sum of thousands of terms nests as deep as it has terms. A function with `@deep` runs as any other; when it runs
out of stack it runs again in a thread with a stack that is large enough, so it must not have changed anything
before it failed.
"""

from __future__ import annotations

import contextvars
import ctypes
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tvmagic.errors import TVMagicError
from tvmagic.ir.node import Kind, Node
from tvmagic.ir.prim_expr import Var

_LIMIT, _STACK = 200_000, 512 << 20  # frames; bytes, of which only those used take memory
_P = ParamSpec("_P")
_T = TypeVar("_T")
_here = threading.local()


def deep(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """`function`, which runs again with a deep stack when it runs out of Python's.

    Raises
    ------
    TVMagicError: the program is nested too deeply for that stack too.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            if getattr(_here, "deep", False):
                raise
        return _in_deep_thread(lambda: function(*args, **kwargs))

    return call


def with_deep_stack(run: Callable[[], _T]) -> _T:
    """`run()`, as a function with `@deep` runs."""
    return deep(run)()


def _in_deep_thread(run: Callable[[], _T]) -> _T:
    """`run()` in a thread with a deep stack, which sees the context variables of the caller."""
    context = contextvars.copy_context()
    outcome: list[Any] = []

    def target() -> None:
        _here.deep = True
        try:
            outcome.append(context.run(run))
        except BaseException as error:
            outcome.extend((None, error))

    thread = threading.Thread(target=target, name="a deep program", daemon=True)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _LIMIT))
    try:
        _start(thread)
        _join(thread)
    finally:
        sys.setrecursionlimit(limit)
    if len(outcome) == 2:
        if isinstance(outcome[1], RecursionError):
            raise _too_deep() from None
        raise outcome[1]
    return outcome[0]


def _start(thread: threading.Thread) -> None:
    size = threading.stack_size(_STACK)
    try:
        thread.start()
    except RuntimeError:  # no memory for such a stack
        raise _too_deep() from None
    finally:
        threading.stack_size(size)


def _join(thread: threading.Thread) -> None:
    """Wait for the thread; an interrupt of the caller stops it."""
    try:
        thread.join()
    except BaseException as error:
        if thread.ident is not None:
            kind = type(error) if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(kind))
        thread.join(1.0)
        raise


def _too_deep() -> TVMagicError:
    return TVMagicError(
        "the program is nested too deeply, or a function calls itself without end",
        hint="compute parts of a long expression in stages of their own",
        code="program.nested_too_deeply",
    )


# ---------------------------------------------------------------------------- written out

_LARGEST = 1 << 20  # nodes
_NAME_IT = "compute what is used several times in a stage of its own, or name it by a let"
_ONE = (Kind.EXPR, Kind.STMT, Kind.NODE)
_MANY = (Kind.EXPRS, Kind.STMTS, Kind.NODES)


@functools.cache
def _fields_of(cls: type[Node]) -> tuple[list[str], list[str]]:
    """The fields of a class that hold a part of the program, and those that hold several."""
    fields = () if issubclass(cls, Var) else cls.FIELDS
    return [f.name for f in fields if f.kind in _ONE], [f.name for f in fields if f.kind in _MANY]


def parts_of(node: Node) -> list[Node]:
    """The nodes in the fields of a node that a walk goes into."""
    one, many = _fields_of(type(node))
    found = [getattr(node, name) for name in one]
    for name in many:
        found += getattr(node, name)
    return [part for part in found if isinstance(part, Node)]


def written_size(root: Node) -> int:
    """How many nodes a program has when each part is counted as often as it is used.

    Takes time linear in the nodes that there are, however often these are shared.
    """
    sizes: dict[int, int] = {}
    todo = [root]
    while todo:
        node = todo[-1]
        parts = parts_of(node)
        missing = [part for part in parts if id(part) not in sizes]
        if missing:
            todo += missing
        else:
            todo.pop()
            sizes[id(node)] = 1 + sum([sizes[id(part)] for part in parts])
    return sizes[id(root)]


def check_written_size(root: Node, what: str, largest: int = _LARGEST, hint: str = _NAME_IT) -> None:
    """Refuse a program of more than `largest` nodes when written out: passes and printers visit each use of a shared part.

    `what` says what it is in the message: "the body of `B`".
    """
    size = written_size(root)
    if size > largest:
        raise TVMagicError(
            f"{what} uses its own parts so often that it has about 2^{size.bit_length() - 1} nodes when written out",
            hint=hint,
            code="program.too_large_written_out",
        )
