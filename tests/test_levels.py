"""The levels of the house: each package imports only from those above it."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent / "tvmagic"
# The level of each package; of the packages inside another one, the innermost that is named here counts.
LEVEL = {
    "errors": 0, "ir": 0, "pass_options": 0.1,
    "passes": 1, "instrument": 1, "eval": 1, "script.printer": 1,
    "arith": 2,
    "script": 3,
    "te": 4, "tir": 4, "topi": 4.1,
    "cinn": 5, "ascend": 5, "runtime": 5, "codegen": 5.1, "runners": 5.2,
    "driver": 6,
    "notation": 7, "operators": 7.1, "tune.instant": 7.15, "explain": 7.2, "tune": 7.3, "testing": 7.3, "puzzles": 7.4,
    "notebook": 8, "share": 8.1, "page": 8.2,
}  # fmt: skip
BESIDE = {"errors", "ir"}  # at one level, and allowed to import each other
# Modules that only give names at the places where TVM's users, or older notebooks, look for them.
NAMES_ONLY = {
    "",
    "_absent",
    "_ffi",
    "_places",
    "contrib",
    "transform",
    "target",
    "container",
    "nd",
    "script",
    "support",
    "tir",
}
# What `ir/hooks.py` may load from below, each because a call that users make on a node needs it.
HOOKS = {
    "tvmagic.script.printer", "tvmagic.script",  # str(node), node.show()
    "tvmagic.arith.analyzer",  # the number of lanes of `A[i * 4 : i * 4 + 4 : 1]`
    "tvmagic.tir.transform.memory.flat_index",  # Buffer.offset_of
    "tvmagic.codegen.llvm_names",  # calls of LLVM's intrinsics, whose names are checked
    "tvmagic.runtime.ndarray",  # constant arrays of a program
    "tvmagic.te.saved",  # save_json and load_json of tensors and schedules
    "tvmagic.tir.tensor_intrin",  # TensorIntrin.get finds those that come with the package
    "tvmagic.contrib.functions",  # functions of TVM's libraries are found by their names
    "tvmagic.target",  # the target of a virtual device, named by a text
    "tvmagic.tir.transform",  # PassContext knows the options of all passes
}  # fmt: skip


def package_of(module: str) -> str | None:
    """The package of a module `tvmagic.a.b` that has a level of its own, without `tvmagic.`."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:k]) for k in range(len(parts), 0, -1))
    return next((name for name in names if name in LEVEL), None)


def module_of(path: pathlib.Path) -> str:
    """The dotted name of the module in a file."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported(path: pathlib.Path) -> list[tuple[int, str]]:
    """The modules of ours that a file imports, at its top, inside a function, or by a text with the name."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tvmagic"):
            names = [f"{node.module}.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.startswith("tvmagic.")]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if re.fullmatch(r"tvmagic(\.[a-z_]+)+", node.value) else []
        found += [(getattr(node, "lineno", 0), name) for name in names]
    return found


FILES = sorted(
    p for p in ROOT.rglob("*.py") if module_of(p).removeprefix("tvmagic").removeprefix(".") not in NAMES_ONLY
)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_levels(path: pathlib.Path) -> None:
    module = module_of(path)
    me = package_of(module)
    if me is None:
        assert module.split(".")[1] in NAMES_ONLY, f"{module} has no level"
        return
    allowed: set[str] = HOOKS if module == "tvmagic.ir.hooks" else set()
    for line, name in imported(path):
        other = package_of(name)
        if other is None or other == me or name in allowed:
            continue
        assert LEVEL[other] < LEVEL[me] or {other, me} == BESIDE, (
            f"{path.name}:{line} imports {name}, which is not above {module}"
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
