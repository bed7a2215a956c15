"""The wheel and the sdist: what is in them, and that they work in an empty environment, without the clone.

The environments take half a minute and a package registry: `make package` runs all of this file, `make test` its quick part.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import tvmagic

ROOT = Path(__file__).parents[1]
# Run where no clone is: the README's cells, its program without a notebook, a page of HTML, and what was not installed.
TRIED = """
import importlib.util, pathlib, re, sys
import numpy as np
import tvmagic
from IPython.core.interactiveshell import InteractiveShell

assert pathlib.Path(tvmagic.__file__).is_relative_to(sys.prefix), tvmagic.__file__
readme = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
blocks = [re.sub("(?m)^    ", "", b) for b in re.findall(r"(?m)^    (?:%%|from tvmagic)(?:.*\\n)(?:(?:    .*)?\\n(?=    |\\n))*(?:    .*\\n)*", readme)]
cells, programs = [b for b in blocks if b.startswith("%%")], [b for b in blocks if b.startswith("from tvmagic import te")]
assert len(cells) == 3 and len(programs) == 1
shell = InteractiveShell.instance(colors="nocolor")
shell.run_line_magic("load_ext", "tvmagic")
for cell in cells:
    assert shell.run_cell(cell).success
dense = shell.user_ns["dense"]
x, w, b = dense.random_inputs()
np.testing.assert_allclose(dense(x, w, b), dense.reference(x, w, b), rtol=1e-4, atol=1e-4)
html = tvmagic.notebook.passes(dense).html()
assert "tm-stepper" in html or "tm-live" in html
exec(programs[0], {})
shell.run_line_magic("tvmagic", "--tutorials")
assert len(list(pathlib.Path("tutorials").glob("*.ipynb"))) >= 10
assert importlib.util.find_spec("jupyterlab") is None and importlib.util.find_spec("pytest") is None
print("works:", tvmagic.__version__)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    pytest.importorskip("hatchling", reason="the package is built by `hatchling`: pip install .[dev]")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), place=ROOT)
    return folder


def run(*command: str, place: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "IPYTHON"))}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def in_wheel(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built: Path) -> None:
    here = {p for p in (ROOT / "tvmagic").rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    wanted = {p.relative_to(ROOT).as_posix(): p.read_bytes() for p in here}
    tutorials = [p for p in (ROOT / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts]
    for path in tutorials:
        wanted[f"tvmagic/notebook/tutorials/{path.relative_to(ROOT / 'notebooks').as_posix()}"] = path.read_bytes()
    wheel = only(built, "*.whl")
    assert in_wheel(wheel) == wanted
    assert wheel.name == f"tvmagic-{tvmagic.__version__}-py3-none-any.whl"
    assert tutorials and wheel.stat().st_size < 4_000_000


def test_the_sdist_has_the_tests_and_the_documentation(built: Path) -> None:
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "docs/guide.md", "Makefile"):
        assert name in names
    assert {"tests/test_package.py", "tvmagic/runtime/ll/pool.ll", "notebooks/01_first_steps.ipynb"} <= names
    assert not [name for name in names if name.startswith((".venv", "build", ".git/"))]


def test_the_version_is_the_same_everywhere(built: Path) -> None:
    with zipfile.ZipFile(only(built, "*.whl")) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("/METADATA")]
        metadata = archive.read(name).decode()
    assert f"\nVersion: {tvmagic.__version__}\n" in metadata
    changes = re.findall(r"(?m)^## (\d\S*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    cited = re.search(r"(?m)^version: (\S+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert changes[0] == tvmagic.__version__ and cited is not None and cited.group(1) == tvmagic.__version__


def test_the_versions_of_python_named_are_those_that_are_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f">={named[0]}" == project["requires-python"]


def test_a_demo_installs_neither_tools_for_developers_nor_jupyterlab() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    names = {extra: {re.split(r"[\[<>=]", r)[0] for r in required} for extra, required in extras.items()}
    assert not names["demo"] & (names["dev"] | names["docs"] | {"jupyterlab", "notebook"})
    (recipe,) = re.findall(r"(?m)^\$\(DEMO\):.*\n(?:\t.*\n)+", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert re.findall(r"'\.\[(.*?)\]'", recipe) == ["demo"]


@pytest.mark.soak
def test_the_wheel_works_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    run(sys.executable, "-m", "venv", str(environment), place=tmp_path)
    python = str(environment / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", str(only(built, "*.whl")), place=tmp_path)
    (tmp_path / "tried.py").write_text(TRIED, encoding="utf-8")
    assert f"works: {tvmagic.__version__}" in run(python, "tried.py", str(ROOT / "README.md"), place=tmp_path)


@pytest.mark.soak
def test_the_sdist_gives_the_same_wheel(built: Path, tmp_path: Path) -> None:
    sdist = str(only(built, "*.tar.gz"))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), sdist, place=tmp_path)
    assert in_wheel(only(tmp_path, "*.whl")) == in_wheel(only(built, "*.whl"))
