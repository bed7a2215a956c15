"""The API reference builds; a warning or a public name without a docstring makes it fail."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tvmagic import te
from tvmagic.te.schedule import Stage

ROOT = Path(__file__).parents[2]


def reference() -> Any:
    spec = importlib.util.spec_from_file_location("docs_reference", ROOT / "docs" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mkdocs(folder: Path) -> subprocess.CompletedProcess[str]:
    """MkDocs on `folder/build/reference`, with the arguments that `make docs` gives it."""
    shutil.copy(ROOT / "mkdocs.yml", folder / "mkdocs.yml")
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
    with (pages / "index.md").open("a", encoding="utf-8") as index:
        index.write("\n[nowhere](api/nowhere.md)\n")
    done = mkdocs(tmp_path)
    assert done.returncode != 0 and "nowhere.md" in done.stdout + done.stderr


def test_a_public_name_without_a_docstring_makes_it_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = reference().write
    monkeypatch.setattr(te.compute, "__doc__", None)
    monkeypatch.setattr(Stage.compute_at, "__doc__", None)
    monkeypatch.setattr(Stage, "__doc__", None)
    with pytest.raises(SystemExit) as stopped:
        write(tmp_path / "reference")
    missing = str(stopped.value).splitlines()[1:]
    wanted = {"tvmagic.te: compute", "tvmagic.te.schedule: Stage", "tvmagic.te.schedule: Stage.compute_at"}
    assert wanted <= {line.strip() for line in missing}
    assert {line.strip().split(": ")[1] for line in missing} == {"compute", "Stage", "Stage.compute_at"}


def test_texts_that_python_makes_are_no_docstrings() -> None:
    @dataclass
    class Plain:
        x: int

        @property
        def twice(self) -> int:
            return 2 * self.x

        @staticmethod
        def told() -> None:
            """Something."""

        def _hidden(self) -> None: ...

    missing: list[str] = []
    text = "\n".join(reference().described("Plain", Plain, missing))
    assert missing == ["Plain", "Plain.twice"]
    assert "### `Plain.told`" in text and "_hidden" not in text
