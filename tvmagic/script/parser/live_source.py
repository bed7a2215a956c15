"""The source of a live Python function or class, and the names that it sees."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmagic.errors import DiagnosticError
from tvmagic.script.parser.source import Source


@dataclass
class LiveSource:
    """A piece of a file or of a notebook's cell, with the names that are visible there."""

    source: Source
    outer: list[Mapping[str, Any]]
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(item: Any, caller: Any = None) -> LiveSource:
        """The source of a function or class; `caller` is the frame that defines it."""
        if isinstance(item, type):
            return _of_class(item, caller)
        if inspect.isfunction(item):
            return _of_function(item, caller)
        raise DiagnosticError(
            f"a `{type(item).__name__}` is neither a text nor a Python function or class", code="script.not_a_source"
        )


def _source(lines: list[str], first: int, filename: str, name: str) -> Source:
    """The block that begins at line `first` (from 1), moved to the left edge."""
    if not 0 < first <= len(lines):
        raise DiagnosticError(
            f"the source of `{name}` is not to be found",
            hint="give its text to `tvmagic.script.from_source`",
            code="script.source_not_found",
        )
    block = inspect.getblock(lines[first - 1 :])
    text = textwrap.dedent("".join(block))
    if text[:1].isspace():  # a text over several lines in it reaches further left than the code
        return Source("if True:\n" + "".join(block), filename, first - 2)
    indent = len(block[0]) - len(block[0].lstrip())
    return Source(text, filename, first - 1, indent)


def _of_function(function: Any, caller: Any) -> LiveSource:
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    source = _source(lines, code.co_firstlineno, code.co_filename, function.__name__)
    return LiveSource(source, _visible(function, caller), getattr(function, "__annotations__", {}))


def _visible(function: Any, caller: Any) -> list[Mapping[str, Any]]:
    """What the function sees: variables of functions around it, then globals."""
    cells: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    outer: list[Mapping[str, Any]] = [cells]
    if caller is not None and caller.f_locals is not caller.f_globals:
        outer.append(dict(caller.f_locals))
    return [*outer, function.__globals__]


def _of_class(cls: type, caller: Any) -> LiveSource:
    functions = [f for f in vars(cls).values() if inspect.isfunction(f)]
    outer: list[Mapping[str, Any]] = [scope for f in functions for scope in _visible(f, None)[:1]]
    if caller is not None:
        outer.append(dict(caller.f_locals))
        outer.append(caller.f_globals)
    module = sys.modules.get(cls.__module__)
    outer.append(functions[0].__globals__ if functions else vars(module) if module is not None else {})
    if functions:
        code = functions[0].__code__
        filename, near = code.co_filename, code.co_firstlineno
    elif caller is not None:
        filename, near = caller.f_code.co_filename, caller.f_lineno
    else:
        filename, near = inspect.getsourcefile(cls) or "", 1 << 30
    lines = linecache.getlines(filename, outer[-1])  # type: ignore[arg-type]
    return LiveSource(_source(lines, _class_line(lines, cls.__name__, near), filename, cls.__name__), outer)


def _class_line(lines: list[str], name: str, near: int) -> int:
    """The line of `class name`, the last one before `near`, else the first one after it."""
    pattern = re.compile(rf"\s*class\s+{re.escape(name)}\b")
    found = [i + 1 for i, line in enumerate(lines) if pattern.match(line)]
    before = [i for i in found if i <= near]
    return before[-1] if before else found[0] if found else 0


def is_inside_module_class(caller: Any) -> bool:
    """Whether the frame `caller` runs the body of a class under `@I.ir_module`."""
    if "__module__" not in caller.f_locals or "__qualname__" not in caller.f_locals:
        return False
    lines = linecache.getlines(caller.f_code.co_filename, caller.f_globals)
    first = caller.f_code.co_firstlineno
    for line in lines[max(0, first - 1) :]:
        if re.match(r"\s*class\b", line):
            break
        if "ir_module" in line:
            return True
    for line in reversed(lines[: max(0, first - 1)]):
        if not line.lstrip().startswith("@"):
            break
        if "ir_module" in line:
            return True
    return False
