"""The checks that the code of the primitives declares, found in its syntax: what each primitive can raise, and where."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import tvmagic.tir.blocks as blocks
import tvmagic.tir.schedule as schedule
from tvmagic.tir.schedule.instruction import InstructionKind

ROOTS = [pathlib.Path(package.__file__).parent for package in (blocks, schedule)]
# what ends in an error of the schedule: the statement, and functions made for that
_RAISES = ("ScheduleError", "FunctionChoiceError", "BufferPlaceError", "Mismatch")
_REFUSALS = ("refuse", "fail")
_CODE = re.compile(r"[a-z_]+\.[a-z0-9_]+")


@dataclass(frozen=True)
class Site:
    """A place that refuses: file, first and last line, constant words of the message, and codes of the error."""

    file: str
    first: int
    last: int
    words: str = field(compare=False)
    codes: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.first} {self.codes}: {self.words}"


@dataclass
class Unit:
    """A function or class of the package: what it refuses itself, and what it calls."""

    file: str
    node: ast.FunctionDef | ast.ClassDef
    sites: list[Site]


def _words(node: ast.AST) -> str:
    texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return " ... ".join(text for text in texts if not _CODE.fullmatch(text))


def _codes(node: ast.AST) -> str:
    texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return " ".join(text for text in texts if _CODE.fullmatch(text))


def _callee(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _sites(file: str, node: ast.AST) -> list[Site]:
    found: list[Site] = []
    for n in ast.walk(node):
        refuses = isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call) and _callee(n.exc) in _RAISES
        if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) and _callee(n.value) in _REFUSALS:
            refuses = True
        if refuses and isinstance(n, ast.stmt):
            found.append(Site(file, n.lineno, n.end_lineno or n.lineno, _words(n), _codes(n)))
    return found


def units() -> dict[str, list[Unit]]:
    """The functions and classes of the package by name."""
    found: dict[str, list[Unit]] = {}
    for path in sorted(p for root in ROOTS for p in root.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.setdefault(node.name, []).append(Unit(path.name, node, _sites(path.name, node)))
    return found


def _switches(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    """The keywords of a function that are off unless given."""
    if isinstance(node, ast.ClassDef):
        return set()
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults)
    return {a.arg for a, default in pairs if isinstance(default, ast.Constant) and default.value is False}


def _reached(node: ast.AST, off: set[str]) -> Iterator[ast.AST]:
    """The nodes of a function's syntax, without the branches under switches that are off."""
    stack = [node]
    while stack:
        n = stack.pop()
        yield n
        if isinstance(n, ast.If):
            first = n.test.values[0] if isinstance(n.test, ast.BoolOp) else n.test
            if isinstance(first, ast.Name) and first.id in off:
                stack += n.orelse
                continue
        stack += ast.iter_child_nodes(n)


def checks() -> dict[str, set[Site]]:
    """For each primitive, by its method's name, the places that refuse which its function reaches by calls."""
    table = units()

    def target(name: str, file: str) -> list[Unit]:
        same = [u for u in table.get(name, []) if u.file == file]
        return same or table.get(name, [])

    result: dict[str, set[Site]] = {}
    primitives = {kind.function.__name__ for kind in InstructionKind.methods.values()}
    for method, kind in InstructionKind.methods.items():
        (start,) = table[kind.function.__name__]
        sites: set[Site] = set()
        seen: set[tuple[int, frozenset[str]]] = set()
        stack = [(start, frozenset[str]())]
        while stack:
            unit, off = stack.pop()
            if (id(unit), off) in seen:
                continue
            seen.add((id(unit), off))
            reached = list(_reached(unit.node, set(off)))
            lines = {n.lineno for n in reached if isinstance(n, ast.stmt)}
            sites |= {site for site in unit.sites if site.first in lines}
            named: list[tuple[str, set[str]]] = []
            for n in reached:
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name):
                    named.append((n.func.id, {k.arg for k in n.keywords if k.arg}))
                elif isinstance(n, ast.keyword) and n.arg == "prepare" and isinstance(n.value, ast.Name):
                    named.append((n.value.id, set()))
                elif isinstance(n, ast.ClassDef):
                    named += [(b.id, set()) for b in n.bases if isinstance(b, ast.Name)]
            for name, given in named:
                if name not in primitives:
                    stack += [(u, frozenset(_switches(u.node) - given)) for u in target(name, unit.file)]
        result[method] = sites
    return result


def reasons() -> list[str]:
    """The words of each reason that the functions named `..._failure` give."""
    found: list[str] = []
    for name, those in units().items():
        if name.endswith("_failure"):
            for unit in those:
                found += [
                    _words(r.value) for r in ast.walk(unit.node) if isinstance(r, ast.Return) and r.value is not None
                ]
    return [words for words in found if words]
