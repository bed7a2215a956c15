"""Write the list of error codes, `docs/errors.md`, from the places that raise errors.

    python docs/errors.py

A place is a call that creates a `TVMagicError` or one of its subclasses, directly or by a function that hands a
parameter `code` on to such a call. Its code is a literal, so that the list is complete without running anything.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tvmagic"
PAGE = ROOT / "docs" / "errors.md"
CODE = re.compile(r"([a-z][a-z0-9_]*\.){1,2}[a-z][a-z0-9]*(_[a-z0-9]+){0,4}")

# Codes of released versions that nothing raises any more. They are never given to another mistake.
RETIRED: tuple[str, ...] = ()

HEAD = """# Error codes

Each error of tvmagic has a code, `error.code`. A notebook shows it in the last line: `code: compute_at.not_covered`. The code names the
mistake and is stable: programs and tests can match it. The words of a message may change in any version. A code of a released
version is never given to another mistake.

A code is `unit.reason`. The unit is a primitive, a pass, a magic or a part of the language. Units of the same name in several
parts of tvmagic begin with the part: `te.compute_at`, `cinn.compute_at`.

`python docs/errors.py` writes this page from the source.
"""


class Site(NamedTuple):
    """A call that creates an error: its place, the class or function called, its codes and its message.

    `codes` is empty if the call has no code. Constant parts of `message` are text, others are `{...}`.
    """

    path: Path
    line: int
    callee: str
    codes: tuple[str, ...]
    message: str | None
    call: ast.Call

    @property
    def package(self) -> str:
        """The package or module of `tvmagic` with the call."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.message}"


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax trees of the files that can raise errors."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    return {path: ast.parse(text) for path, text in texts.items() if "rror" in text or "code" in text}


@functools.cache
def _nodes() -> dict[Path, list[ast.ClassDef | ast.FunctionDef | ast.Call]]:
    """Return the classes, functions and calls of each file, in the order of a walk."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.Call)
    return {path: [n for n in ast.walk(tree) if isinstance(n, kinds)] for path, tree in trees().items()}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@functools.cache
def error_classes() -> frozenset[str]:
    """Return the names of `TVMagicError`, its aliases and its subclasses."""
    bases = {
        (n.name, tuple(_name(b) for b in n.bases))
        for nodes in _nodes().values()
        for n in nodes
        if isinstance(n, ast.ClassDef)
    }
    found = {"TVMagicError", "TVMError", "InternalError"}
    while new := {name for name, those in bases if found.intersection(those)} - found:
        found |= new
    return frozenset(found)


def _package(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def _forwards(function: ast.FunctionDef, callees: frozenset[str]) -> bool:
    """Return whether a function hands its parameter `code` on to one of `callees`."""
    arguments = (*function.args.args, *function.args.kwonlyargs)
    return any(a.arg == "code" for a in arguments) and any(
        isinstance(n, ast.Call) and _name(n.func) in callees and _is_forwarded(n) for n in ast.walk(function)
    )


def _is_forwarded(call: ast.Call) -> bool:
    values = (*call.args, *(k.value for k in call.keywords))
    return any(isinstance(v, ast.Name) and v.id == "code" for v in values)


@functools.cache
def callees(package: str) -> frozenset[str]:
    """Return the names of the error classes and of the package's functions that forward a code."""
    functions = [
        n
        for path, nodes in _nodes().items()
        if _package(path) == package
        for n in nodes
        if isinstance(n, ast.FunctionDef) and n.name != "__init__"
    ]
    found = error_classes() | (callees("script") if package == "compat" else frozenset())  # hybrid scripts
    while new := {f.name for f in functions if f.name not in found and _forwards(f, found)}:
        found |= new
    return found


def _codes(call: ast.Call) -> tuple[str, ...]:
    """Return the codes of a call: of a rule of Ascend, of `code=`, or the last argument of a forwarding function."""
    given = [k.value for k in call.keywords if k.arg == "code"]
    if not given and _name(call.func) == "AscendError" and isinstance(call.args[0], ast.Constant):
        return (f"ascend.{str(call.args[0].value).replace('-', '_')}",)
    given = given or call.args[-1:]
    texts = [n.value for value in given for n in _results(value) if isinstance(n, ast.Constant)]
    return tuple(t for t in texts if isinstance(t, str) and CODE.fullmatch(t))


def _results(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the values that an expression can have: both of a conditional one."""
    if isinstance(node, ast.IfExp):
        yield from _results(node.body)
        yield from _results(node.orelse)
    else:
        yield node


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{...}" for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return f"{'{...}' if left is None else left}{'{...}' if right is None else right}"
    return None


def _message(call: ast.Call) -> str | None:
    """Return the message of a call, its first text with a space; None if it is not written there."""
    return next((text for a in call.args if (text := _text(a)) is not None and " " in text), None)


@functools.cache
def sites() -> tuple[Site, ...]:
    """Return the calls that create errors, in the order of files and lines.

    Calls that pass the code of another error on (`code=error.code`) are left out.
    """
    found: list[Site] = []
    for path, nodes in _nodes().items():
        names = callees(_package(path))
        for node in nodes:
            if isinstance(node, ast.Call) and _name(node.func) in names and not _passes_on(node):
                found.append(Site(path, node.lineno, _name(node.func), _codes(node), _message(node), node))
    return tuple(sorted(found, key=lambda s: (s.path, s.line, s.call.col_offset)))


def _passes_on(call: ast.Call) -> bool:
    given = [k.value for k in call.keywords if k.arg == "code"]
    return _is_forwarded(call) or any(isinstance(v, ast.Attribute) and v.attr == "code" for v in given)


def page() -> str:
    """Return the text of the page: the codes of each unit with the classes of their errors.

    It names neither files nor messages, so that it changes only with the codes.
    """
    units: dict[str, dict[str, set[str]]] = {}
    for site in sites():
        for code in site.codes:
            unit, _, _ = code.rpartition(".")
            kinds = units.setdefault(unit, {}).setdefault(code, set())
            if site.callee in error_classes():
                kinds.add(site.callee)
    lines = [HEAD]
    for unit in sorted(units):
        lines += [f"## {unit}", ""]
        for code, kinds in sorted(units[unit].items()):
            lines.append(f"- `{code}`" + (f": {', '.join(sorted(kinds))}" if kinds else ""))
        lines.append("")
    if RETIRED:
        lines += ["## Retired", "", *(f"- `{code}`" for code in RETIRED), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
