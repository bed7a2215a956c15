"""Laws of the emitter: it makes no nodes, and packages above it call it by its public functions.

The tables list what still breaks a law, with the number of places. They may only shrink: whoever removes a place lowers its number,
nobody raises one.
"""

from __future__ import annotations

import ast
import collections
import functools
import pathlib

import pytest

from tvmagic import codegen, ir

ROOT = pathlib.Path(codegen.__file__).parent
# Files that write LLVM text for statements and expressions.
EMITTER = (
    "abi", "bounds", "conversions", "debug", "divisions", "expressions", "gpu", "intrinsics", "kernels", "memory", "module", "parallel",
    "signatures", "size_counts", "statements",
)  # fmt: skip
# Functions of index arithmetic: LLVM text for an address needs the index of an element in the memory of its buffer.
ADDRESSES = {"flat_index"}
REWRITERS = {"Mutator", "substitute", "StmtMutator", "ExprMutator"}
LEFT = {
    "bounds": 2,  # the vector of places that a checked access touches
    "kernels": 5,  # the functions of kernels
    "memory": 3,  # the index of a masked access, and of a loop over lanes
    "module": 1,
    "size_counts": 4,  # what sizes multiply to
}
CALLS_LEFT = {"explain/llvm.py": 1}


def is_node(name: str) -> bool:
    """Whether a name of `tvmagic.ir` is a class of nodes. Types are values, not nodes of the program."""
    found = getattr(ir, name, None)
    return isinstance(found, type) and issubclass(found, (ir.PrimExpr, ir.Stmt, ir.PrimFunc, ir.IRModule, ir.Buffer))


def imports_of(tree: ast.AST) -> dict[str, str]:
    """The module that each name is imported from, also inside functions."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.asname or name.name: node.module or "" for node in nodes for name in node.names}


def functions_without(tree: ast.Module, names: set[str]) -> ast.Module:
    """A file without some of its functions."""
    return ast.Module([n for n in tree.body if not (isinstance(n, ast.FunctionDef) and n.name in names)], [])


def made_nodes(path: pathlib.Path) -> list[str]:
    """The places of a file that make nodes: constructors, operators, `with_` and `replace`, and imports of rewriters."""
    whole = ast.parse(path.read_text(encoding="utf-8"))
    imported, found = imports_of(whole), list[str]()
    for node in ast.walk(functions_without(whole, ADDRESSES)):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.lineno}: import {name.name}" for name in node.names if name.name in REWRITERS]
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            name, module = node.func.id, imported.get(node.func.id, "")
            if (module == "tvmagic.ir" and is_node(name)) or module == "tvmagic.ir.ops":
                found.append(f"{node.lineno}: {name}")
        elif isinstance(node.func, ast.Attribute):
            name, copies = node.func.attr, node.keywords and not node.args
            if name in ("with_", "with_body", "with_attr") or (name == "replace" and copies):
                found.append(f"{node.lineno}: .{name}")
    return found


@pytest.mark.parametrize("name", EMITTER)
def test_the_emitter_makes_no_nodes(name: str) -> None:
    path = ROOT / f"{name}.py"
    if not path.exists():
        pytest.skip("moved")
    found = made_nodes(path)
    assert len(found) == LEFT.get(name, 0), found


@functools.cache
def imports_from_codegen() -> dict[str, collections.Counter[str]]:
    """What files of the packages above import from inside `codegen`, by file."""
    found: dict[str, collections.Counter[str]] = {}
    for package in ("model", "auto", "explain", "tune"):
        for path in sorted((ROOT.parent / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            inner = [node for node in nodes if (node.module or "").startswith("tvmagic.codegen.")]
            if inner:
                names = [f"{node.module}.{name.name}" for node in inner for name in node.names]
                found[path.relative_to(ROOT.parent).as_posix()] = collections.Counter(names)
    return found


def test_packages_above_call_public_functions_of_codegen() -> None:
    found = {file: sum(names.values()) for file, names in imports_from_codegen().items()}
    assert found == CALLS_LEFT, imports_from_codegen()


def test_public_calls_are_declared() -> None:
    """What they may import is what `codegen` lists."""
    for package in ("explain", "tune"):
        for path in sorted((ROOT.parent / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == "tvmagic.codegen":
                    assert {name.name for name in node.names} <= set(codegen.__all__), path
