"""Tests use public names. The exceptions are counted, and their number may only fall.

Counted are private names of `tvmagic` that a test imports or takes from an object, names of `tvmagic` that it replaces by
`monkeypatch.setattr`, and fakes by `SimpleNamespace`. A test that reaches into a module breaks when the module is
rewritten, though no user would notice.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterator

import pytest

TESTS = pathlib.Path(__file__).parent
# Private in form only: named tuples, `os`, Jupyter's protocol, and names that TVM has.
PROTOCOLS = {"_replace", "_asdict", "_fields", "_exit", "_repr_mimebundle_", "_get_cached_flags", "_create_view"}
OF_TVM = ("tvmagic._ffi", "tvmagic.arith._ffi_api")

# Whoever removes some of these lowers the number. Nobody raises one.
ALLOWED = {
    "compat/test_compat_docs.py": 1,
    "compat/test_known_buffer_contents.py": 1,
    "compat/test_places.py": 1,
    "notebook/conftest.py": 2,
    "notebook/test_pages.py": 1,
    "notebook/test_why.py": 1,
    "operators/test_fast_path.py": 1,
    "puzzles/test_puzzles.py": 1,
    "runners/test_emulated.py": 1,
    "runners/test_gpu.py": 2,
    "test_files.py": 1,
    "tune/conftest.py": 1,
    "tune/test_search.py": 4,
    "tune/test_workers.py": 1,
}


# Only files with this are parsed.
MAYBE = re.compile(r"\._[a-z]|import .*\b_[a-z]|^ +_\w+,$|\.setattr\(|SimpleNamespace", re.MULTILINE)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PROTOCOLS


def own_names(tree: ast.Module) -> set[str]:
    """Names that the file itself defines, so that they are not another module's."""
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    return own


def imported_names(tree: ast.Module) -> set[str]:
    """Names that the file imports from `tvmagic`."""
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("tvmagic")]
    return {alias.asname or alias.name for node in nodes for alias in node.names}


def _is_setattr(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "setattr" and ast.unparse(node.value) == "monkeypatch"


def private_names(tree: ast.Module) -> Iterator[str]:
    """Yield each private import, private attribute, replaced name and fake of a file."""
    own, imported = own_names(tree), imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tvmagic"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (n for n in names if not n.startswith(OF_TVM) and any(map(is_private, n.split("."))))
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr
        elif isinstance(node, ast.Call) and _is_setattr(node.func):
            target = ast.unparse(node.args[0]).strip("'")
            if target.split(".")[0] in {"tvmagic", *imported}:
                yield f"setattr {target}"
        elif isinstance(node, ast.Name) and node.id == "SimpleNamespace":
            yield node.id


@functools.cache
def counts() -> dict[str, int]:
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        number = len(list(private_names(ast.parse(text)))) if MAYBE.search(text) else 0
        if number:
            found[path.relative_to(TESTS).as_posix()] = number
    return found


def test_private_names_only_become_fewer() -> None:
    found = counts()
    more = {path: number for path, number in found.items() if number > ALLOWED.get(path, 0)}
    assert not more, f"test through the public surface in place of private names: {more}"


def test_list_has_no_slack() -> None:
    found = counts()
    if not (TESTS / "compat").exists():  # a copy of the core, see support/without_compat.py
        found |= {path: number for path, number in ALLOWED.items() if path.startswith("compat/")}
    slack = {path: found.get(path, 0) for path, number in ALLOWED.items() if found.get(path, 0) < number}
    assert not slack, f"lower the numbers in ALLOWED to these: {slack}"


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("from tvmagic.arith.analyzer import _entry", 1),
        ("from tvmagic._places import PLACES", 1),
        ("module._value", 1),
        ("from tvmagic import codegen\nmonkeypatch.setattr(codegen, 'LIMIT', 3)", 1),
        ("monkeypatch.setattr('tvmagic.codegen.LIMIT', 3)", 1),
        ("monkeypatch.setattr(sys, 'platform', 'darwin')", 0),
        ("SimpleNamespace(a=1)", 1),
        ("values._replace(a=1)", 0),
        ("from tvmagic.arith._ffi_api import DomainTouched", 0),
        ("self._value", 0),
        ("from tvmagic.arith import Analyzer", 0),
    ],
)
def test_counter_finds_each_kind(line: str, number: int) -> None:
    assert len(list(private_names(ast.parse(line)))) == number
