"""The levels of the house: each package imports only from those above it."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent / "tvmagic"
LEVEL = {
    "errors": 0, "ir": 0, "script": 1, "arith": 1, "passes": 1, "eval": 1, "te": 2, "tir": 2, "cinn": 3, "ascend": 3,
    "codegen": 3, "runtime": 3, "driver": 4, "operators": 5, "tune": 5, "testing": 5, "notebook": 6,
}  # fmt: skip
# Thin modules that only give names at the places where TVM has them.
NAMES_ONLY = {"__init__", "_ffi", "transform", "target", "container", "nd"}


def imported(path: pathlib.Path) -> list[tuple[int, str]]:
    """The packages of ours that a file imports, at its top or inside a function, with the line of each."""
    found: list[tuple[int, str]] = []
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tvmagic"):
            names = [node.module] if node.module != "tvmagic" else [f"tvmagic.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.startswith("tvmagic.")]
        found += [(node.lineno, name.split(".")[1]) for name in names]
    return found


FILES = sorted(p for p in ROOT.rglob("*.py") if p.relative_to(ROOT).parts[0].removesuffix(".py") not in NAMES_ONLY)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_levels(path: pathlib.Path) -> None:
    me = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for line, other in imported(path):
        assert other == me or other in NAMES_ONLY or LEVEL[other] < LEVEL[me] or LEVEL[other] == LEVEL[me] == 0, (
            f"{path.name}:{line} imports tvmagic.{other}, which is not above tvmagic.{me}"
        )


def lazy_names(path: pathlib.Path) -> dict[str, str]:
    """The names that a package loads when they are first asked for, with the modules that have them."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found[str(key.value)] = value.value.rsplit(".")[-1]
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("__init__.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_lazy_name_is_not_the_name_of_its_module(path: pathlib.Path) -> None:
    """Whoever imports the module puts it in the place of the name."""
    clashes = [name for name, module in lazy_names(path).items() if name == module]
    assert [name for name in clashes if not name.startswith("_")] == []
