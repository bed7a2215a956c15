"""Documents that name parts of `tvmagic.compat`: the page for users of TVM, the API reference, the list of errors."""

from __future__ import annotations

import importlib
import importlib.util
import pydoc
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loaded_file import load

from tvmagic import te
from tvmagic.te.schedule import Stage

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
FOR_TVM = (ROOT / "docs" / "for_tvm.md").read_text(encoding="utf-8")


def reference() -> Any:
    return load(ROOT / "docs" / "reference.py")


def mkdocs(folder: Path) -> subprocess.CompletedProcess[str]:
    """MkDocs on `folder/build/reference`, with the arguments that `make docs` gives it."""
    shutil.copy(ROOT / "mkdocs.yml", folder / "mkdocs.yml")
    shutil.copytree(ROOT / "docs" / "theme", folder / "docs" / "theme", dirs_exist_ok=True)
    (line,) = [x for x in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "/mkdocs " in x]
    arguments = line.split("/mkdocs ")[1].split("#")[0].split()
    return subprocess.run([sys.executable, "-m", "mkdocs", *arguments], cwd=folder, capture_output=True, text=True)


def test_the_reference_builds_and_a_warning_makes_it_fail(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the reference needs `mkdocs`: pip install .[docs]")
    pages = tmp_path / "build" / "reference"
    assert len(reference().write(pages)) == len(reference().PACKAGES)
    done = mkdocs(tmp_path)
    assert done.returncode == 0, done.stderr
    site = (tmp_path / "build" / "site" / "api" / "te_schedule.html").read_text(encoding="utf-8")
    assert "create_schedule" in site and "Stage.compute_at(self, parent: Stage, scope: " in site
    script = (tmp_path / "build" / "site" / "js" / "base.js").read_text(encoding="utf-8")
    asked = set(re.findall(r"getElementById\('([\w-]+)'\)", script))
    assert asked and all(f'id="{name}"' in site for name in asked), "the theme's script stops at what it does not find"
    assert "narrow.css" in site and (tmp_path / "build" / "site" / "narrow.css").exists()
    with (pages / "index.md").open("a", encoding="utf-8") as index:
        index.write("\n[nowhere](api/nowhere.md)\n")
    done = mkdocs(tmp_path)
    assert done.returncode != 0 and "nowhere.md" in done.stdout + done.stderr


def test_a_public_name_without_a_docstring_makes_it_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = reference().write
    monkeypatch.setattr(Stage.compute_at, "__doc__", None)
    with pytest.raises(SystemExit) as stopped:
        write(tmp_path / "reference")
    missing = str(stopped.value).splitlines()[1:]
    assert "tvmagic.te.schedule: Stage.compute_at" in [line.strip() for line in missing]
    assert {line.strip().split(": ")[1] for line in missing} == {"Stage.compute_at"}


def test_code_for_users_of_tvm_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", FOR_TVM)
    assert blocks
    for block in blocks:
        exec(compile(block, "for_tvm.md", "exec"), names)


def test_names_for_users_of_tvm_exist() -> None:
    rows = [re.split(r"(?<!\\) \| ", line) for line in FOR_TVM.splitlines() if line.startswith("| `")]
    assert len(rows) > 3
    here = " ".join(row[1] for row in rows)
    assert re.search(r"`tvmagic\.", here)
    for method in re.findall(r"(?:`|s|s\[\w\])\.(\w+)(?=[(`])", re.sub(r"`tvmagic[.\w]*`", "", here)):
        assert any(hasattr(kind, method) for kind in (Stage, te.Schedule)), method


def test_names_in_every_page_exist() -> None:
    """Also those in indented blocks, which are not run: they take long or need other machines."""
    seen = 0
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for module, names in re.findall(r"(?m)^    from (tvmagic[\w.]*) import ([\w, ]+)", text):
            for name in names.split(", "):
                place = importlib.import_module(module)
                assert hasattr(place, name) or importlib.util.find_spec(f"{module}.{name}"), (path.name, module, name)
                seen += 1
        for dotted in re.findall(r"`(tvmagic(?:\.\w+)+)(?:\(|`)", text):
            assert pydoc.locate(dotted) is not None, (path.name, dotted)
            seen += 1
        for file in re.findall(r"`((?:tests|tvmagic|docs|notebooks|benchmarks)/[\w/.]+)`", text):
            assert (ROOT / file).exists() or (ROOT / f"{file}.py").exists(), (path.name, file)
    assert seen > 40
