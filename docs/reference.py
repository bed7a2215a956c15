"""Write the API reference: a page for each package, from the docstrings of its public names.

    python docs/reference.py build/reference

The folder it writes is what MkDocs builds (`mkdocs.yml`). Nothing but the package itself is needed.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PACKAGES = {
    "tvmagic": "the compiler as a whole",
    "tvmagic.te": "tensor expressions",
    "tvmagic.te.schedule": "TE schedules",
    "tvmagic.tir": "TensorIR",
    "tvmagic.tir.schedule": "TensorIR schedules",
    "tvmagic.tir.transform": "passes on TensorIR",
    "tvmagic.ir": "programs as data",
    "tvmagic.arith": "what can be proved",
    "tvmagic.passes": "passes, pipelines and the record of a run",
    "tvmagic.instrument": "what watches passes",
    "tvmagic.topi": "elementary tensor operators",
    "tvmagic.topi.nn": "operators of neural networks",
    "tvmagic.script": "text of programs",
    "tvmagic.codegen": "machine code",
    "tvmagic.runtime": "running it",
    "tvmagic.operators": "operators and the index notation",
    "tvmagic.auto": "schedules by rules",
    "tvmagic.tune": "searches for schedules",
    "tvmagic.model": "predicted cycles of a program",
    "tvmagic.target": "what code is made for",
    "tvmagic.explain": "why a schedule takes the time that it does",
    "tvmagic.puzzles": "puzzles that grade themselves",
    "tvmagic.testing": "what test files share",
    "tvmagic.notebook": "what the magics do, as functions",
    "tvmagic.cinn": "CINN's schedules and inliner",
    "tvmagic.ascend": "Ascend's ImplGraph",
}


def public_names(module: Any) -> list[str]:
    """The names a package offers: its `__all__`, else those it lists that are not modules."""
    listed = getattr(module, "__all__", None) or getattr(module, "_NAMES", None) or dir(module)
    names = [n for n in listed if not n.startswith("_") and n != "annotations"]
    return sorted(n for n in names if hasattr(module, n) and not inspect.ismodule(getattr(module, n)))


def signature(value: Any) -> str:
    """The arguments of a callable, without the addresses of default objects and the quotes of postponed annotations."""
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"<([\w.]+) object at 0x\w+>|<function ([\w.]+) at 0x\w+>", r"\1\2", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def docstring(value: Any) -> str:
    """What a person wrote about `value`; the text that Python makes for a dataclass or a tuple does not count."""
    if not inspect.isclass(value):
        return inspect.getdoc(value) or ""
    text = inspect.cleandoc(value.__dict__.get("__doc__") or "")
    by_python = text.startswith(f"{value.__name__}(") and value.__module__ != "builtins"
    return "" if by_python or text == "An enumeration." else text


def members(cls: type) -> list[tuple[str, Any]]:
    """The public methods and properties that a class itself has; what a functor does at a kind of node is no call of users."""
    found: list[tuple[str, Any]] = []
    for name, member in sorted(vars(cls).items()):
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if not name.startswith("_") and inspect.isfunction(function) and not hasattr(function, "_handles"):
            found.append((name, member if isinstance(member, property) else getattr(cls, name)))
    return found


def described(name: str, value: Any, missing: list[str], level: int = 2) -> list[str]:
    """The heading, the signature and the docstring of one name; of a class also of its public methods and properties.

    What has no docstring is added to `missing`.
    """
    shown = signature(value) if callable(value) else ""
    lines = [f"{'#' * level} `{name}`", ""]
    if shown:
        lines += ["```python", f"{name}{shown}", "```", ""]
    if callable(value) or isinstance(value, property):
        text = docstring(value)
        if not text:
            missing.append(name)
        lines += ["```text", text.replace("```", "'''"), "```", ""]
    if inspect.isclass(value):
        for member, function in members(value):
            lines += described(f"{name}.{member}", function, missing, level + 1)
    return lines


def page(package: str, title: str, missing: list[str]) -> str:
    """The page of one package as Markdown; names without a docstring are added to `missing`."""
    module = importlib.import_module(package)
    lines = [f"# {package}: {title}", "", "```text", docstring(module), "```", ""]
    without: list[str] = [] if docstring(module) else ["its module"]
    for name in public_names(module):
        lines += described(name, getattr(module, name), without)
    missing += [f"{package}: {name}" for name in without]
    return "\n".join(lines)


def write(folder: Path) -> list[Path]:
    """The pages, below `folder`, with the index; what was there before is replaced.

    Raises SystemExit, with the names, where a public name has no docstring.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "api").mkdir(parents=True)
    for path in sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.css")]):
        shutil.copy(path, folder / path.name)
    written: list[Path] = []
    missing: list[str] = []
    for package, title in PACKAGES.items():
        path = folder / "api" / f"{package.removeprefix('tvmagic.').replace('.', '_')}.md"
        path.write_text(page(package, title, missing), encoding="utf-8")
        written.append(path)
    if missing:
        raise SystemExit("these public names have no docstring:\n  " + "\n  ".join(missing))
    return written


if __name__ == "__main__":
    write(Path(sys.argv[1]))
