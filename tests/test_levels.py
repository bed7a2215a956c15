"""The levels of packages: each imports only from those of lower levels, and no imports make a circle."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent / "tvmagic"
# The packages from the lowest level up: each imports from those of lower levels alone, also inside functions. Of the packages
# inside another one, the innermost that is named here counts.
LEVELS = """
    errors interrupts lazy locks
    files tools
    ir
    pass_options
    passes instrument eval script.printer target
    arith
    script
    te tir
    cinn ascend
    runtime
    codegen.text
    codegen.late
    codegen.math
    codegen.emit
    codegen.llvm
    codegen.gpu
    codegen
    runners
    driver
    notation prove
    operators
    model
    auto
    explain
    tune
    puzzles
    notebook
    share
    page
    compat
"""
LEVEL = {name: level for level, names in enumerate(LEVELS.split("\n")) for name in names.split()}


def package_of(module: str) -> str | None:
    """The package of a module `tvmagic.a.b` that has a level of its own, without `tvmagic.`."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:k]) for k in range(len(parts), 0, -1))
    return next((name for name in names if name in LEVEL), None)


def module_of(path: pathlib.Path) -> str:
    """The dotted name of the module in a file."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@functools.cache
def imports_of(path: pathlib.Path) -> tuple[list[ast.Import | ast.ImportFrom | ast.Constant], set[ast.AST]]:
    """The imports and the texts in a file, and those of them that only type checkers see."""
    found: list[ast.Import | ast.ImportFrom | ast.Constant] = []
    typed: set[ast.AST] = set()
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), False)]
    while todo:
        node, apart = todo.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            found.append(node)
            if apart:
                typed.add(node)
        apart = apart or (
            isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        )
        todo += [(child, apart) for child in ast.iter_child_nodes(node)]
    return found, typed


def imported(path: pathlib.Path) -> list[tuple[int, str]]:
    """The modules of ours that a file imports, at its top, inside a function, or by a text with the name."""
    found: list[tuple[int, str]] = []
    for node in imports_of(path)[0]:
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tvmagic"):
            names = [f"{node.module}.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.startswith("tvmagic.")]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if re.fullmatch(r"tvmagic(\.[a-z_]+)+", node.value) else []
        found += [(getattr(node, "lineno", 0), name) for name in names]
    return found


# The finder in `tvmagic/__init__.py` names packages of all levels, as text.
FILES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_levels(path: pathlib.Path) -> None:
    module = module_of(path)
    me = package_of(module)
    assert me is not None, f"{module} has no level"
    for line, name in imported(path):
        other = package_of(name)
        if other is None or other == me:
            continue
        assert LEVEL[other] < LEVEL[me], f"{path.name}:{line} imports {name}, which is not below {module}"


def imports_that_run() -> dict[str, set[str]]:
    """For each module the modules of ours that it imports when it is loaded or when a function runs, not for types alone.

    The package itself is left out: it is loaded before all of them and only gives names.
    """
    modules = {module_of(p).removeprefix("tvmagic."): p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py"}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        nodes, typed = imports_of(path)
        found: set[str] = set()
        for node in nodes:
            if node in typed:
                continue
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tvmagic"):
                base = node.module.removeprefix("tvmagic").removeprefix(".")
                inner = [f"{base}.{a.name}".removeprefix(".") for a in node.names]
                found.update(n if n in modules else base for n in inner)
            elif isinstance(node, ast.Import):
                found.update(a.name.removeprefix("tvmagic.") for a in node.names)
        graph[name] = (found & modules.keys()) - {name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The modules that are left when those that import none of the others are taken away again and again, from both sides."""
    left = {name: set(others) for name, others in graph.items()}
    while True:
        used = set().union(*left.values())
        gone = {name for name, others in left.items() if not others or name not in used}
        if not gone:
            break
        left = {name: others - gone for name, others in left.items() if name not in gone}
    return [[name, *sorted(others)] for name, others in sorted(left.items())]


def test_imports_make_no_circles() -> None:
    assert circles(imports_that_run()) == []


# The packages that import what is large or not always there, and nobody else.
LIBRARIES = {
    "llvmlite": {"codegen.llvm", "runtime", "target"},
    **dict.fromkeys(("IPython", "ipywidgets", "anywidget", "traitlets", "pygments"), {"notebook"}),
}


def test_libraries_are_imported_by_their_packages_alone() -> None:
    for path in ROOT.rglob("*.py"):
        parts = module_of(path).split(".")[1:3]
        packages = {parts[0], ".".join(parts)} if parts else set[str]()
        for node in imports_of(path)[0]:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                allowed = LIBRARIES.get(name.split(".")[0])
                assert allowed is None or packages & allowed, f"{path.name}:{node.lineno} imports {name}"


def lazy_names(path: pathlib.Path) -> dict[str, str]:
    """The names that a package loads when they are first asked for, with the modules that have them."""
    found: dict[str, str] = {}
    tree = ast.parse(path.read_text())
    modules = [
        n.value
        for n in tree.body
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) in ("_PLACES", "_MOVED", "_RENAMED")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and node not in modules:  # these tables are of modules, not of names in one
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found[str(key.value)] = value.value.rsplit(".")[-1]
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("__init__.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_lazy_name_is_not_the_name_of_its_module(path: pathlib.Path) -> None:
    """Whoever imports the module puts it in the place of the name."""
    clashes = [name for name, module in lazy_names(path).items() if name == module]
    assert [name for name in clashes if not name.startswith("_")] == []
