"""Where names live while a program is printed, and where free variables are declared."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tvmagic import ir


class Frame:
    """The printed items of one scope, and the names that end with it.

    `concise`: the statement that is printed now is the last of its scope, so that what it
    defines needs no `with`. `in_header`: the first line of the scope is printed now, above all that is inside it.
    """

    __slots__ = ("concise", "defined", "in_header", "items", "node")

    def __init__(self, node: Any) -> None:
        self.node = node
        self.items: list[Any] = []
        self.defined: list[int] = []
        self.concise = False
        self.in_header = False


_WALKED = frozenset({ir.Kind.EXPR, ir.Kind.STMT, ir.Kind.NODE, ir.Kind.VAR_DEF, ir.Kind.BUFFER_USE, ir.Kind.BUFFER_DEF})
_WALKED_MANY = frozenset({ir.Kind.EXPRS, ir.Kind.STMTS, ir.Kind.NODES, ir.Kind.VAR_DEFS, ir.Kind.BUFFER_DEFS})
_SCOPES = (ir.Stmt, ir.Block, ir.PrimFunc, ir.CommReducer)
Step = Callable[["CommonAncestors", Any], None]


class CommonAncestors:
    """For each variable and buffer of a program, the innermost scope that holds all its uses.

    As in TVM's printer, a part that several places share is walked once, at its first place, and
    the fields of a buffer are walked at its first use. `hits` counts how often each was met.
    """

    def __init__(self, root: Any) -> None:
        self.parent: dict[int, int] = {}
        self.hits: dict[int, int] = {}
        self._lowest: dict[int, int] = {}
        self._open: set[int] = set()
        self._seen: set[int] = set()
        self._current = 0
        self.visit(root)

    def scopes_of(self, item: Any) -> list[int]:
        """The identities of the scopes that hold all uses of `item`, innermost first."""
        found: list[int] = []
        scope = self._lowest.get(id(item), 0)
        while scope:
            found.append(scope)
            scope = self.parent[scope]
        return found

    def visit(self, item: Any) -> None:
        _STEPS.get(type(item), _first_step)(self, item)

    def meet(self, item: Any) -> None:
        """Count one use of a variable or buffer at the current place."""
        key = id(item)
        self.hits[key] = self.hits.get(key, 0) + 1
        scope = self._lowest.setdefault(key, self._current)
        while scope and scope not in self._open:
            scope = self.parent[scope]
        self._lowest[key] = scope

    def enter(self, key: int) -> int:
        outer = self._current
        self.parent[key] = outer
        self._open.add(key)
        self._current = key
        return outer

    def leave(self, key: int, outer: int) -> None:
        self._open.discard(key)
        self._current = outer


_STEPS: dict[type, Step] = {}


def _first_step(walk: CommonAncestors, item: Any) -> None:
    cls = type(item)
    step = _STEPS[cls] = _step_of(cls)
    step(walk, item)


def _step_of(cls: type) -> Step:
    if issubclass(cls, ir.Var):
        return CommonAncestors.meet
    if issubclass(cls, (tuple, list)):
        return _visit_all
    if issubclass(cls, dict):
        return _visit_dict
    if issubclass(cls, ir.Node):
        return _generate(cls)
    return _visit_nothing


def _visit_nothing(walk: CommonAncestors, item: Any) -> None:
    pass


def _visit_all(walk: CommonAncestors, items: Any) -> None:
    for item in items:
        walk.visit(item)


def _visit_dict(walk: CommonAncestors, items: Any) -> None:
    for key, value in items.items():
        walk.visit(key)
        walk.visit(value)


def _walked_names(cls: type[ir.Node]) -> tuple[list[str], list[str]]:
    """The names of the fields to walk, with those that hold tuples told apart."""
    one: list[str] = []
    many: list[str] = []
    for field in cls.FIELDS:
        if field.kind in _WALKED_MANY:
            many.append(field.name)
        elif field.kind in _WALKED:
            one.append(field.name)
        elif field.kind in (ir.Kind.ATTRS, ir.Kind.OBJECT) or field.name in ("buffer_map", "functions", "producer"):
            one.append(field.name)
    return one, many


@cache
def _generate(cls: type[ir.Node]) -> Step:
    """The function that walks the fields of a class of nodes."""
    one, many = _walked_names(cls)
    if not one and not many:
        return _visit_nothing
    scope = issubclass(cls, _SCOPES) or cls.__name__ == "IndexMap"
    lines = ["key = id(node)"]
    if issubclass(cls, ir.Buffer):
        lines.append("if key in walk._seen: return walk.meet(node)")
    else:
        lines.append("if key in walk._seen: return")
    lines.append("walk._seen.add(key)")
    if scope:
        lines.append("outer = walk.enter(key)")
    for field in cls.FIELDS:
        if field.name in many:
            lines += [f"for item in node.{field.name}:", "    steps.get(type(item), first)(walk, item)"]
        elif field.name in one:
            lines += [f"item = node.{field.name}", "if item is not None: steps.get(type(item), first)(walk, item)"]
    if issubclass(cls, ir.Buffer):
        lines.append("walk.meet(node)")
    if scope:
        lines.append("walk.leave(key, outer)")
    source = "def step(walk, node):\n" + "".join(f"    {line}\n" for line in lines)
    names: dict[str, Any] = {"steps": _STEPS, "first": _first_step}
    exec(compile(source, f"<common ancestors of {cls.__name__}>", "exec"), names)
    return names["step"]
