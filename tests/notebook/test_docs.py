"""The API reference builds; a warning or a public name without a docstring makes it fail."""

from __future__ import annotations

import importlib
import pydoc
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from loaded_file import load

from tvmagic import ascend, cinn, te
from tvmagic.notebook.arguments import PARSERS
from tvmagic.notebook.magics import MAGICS
from tvmagic.te.schedule import Stage

ROOT = Path(__file__).parents[2]


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


# ---------------------------------------------------------------------------- the pages that people wrote

WITH_CODE = ["guide", "for_tvm", "for_halide", "for_cinn", "for_ascend"]


def text_of(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WITH_CODE)
def test_the_code_of_a_page_runs(
    shell: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", text_of(name))
    assert blocks
    for block in blocks:
        result = shell.run_cell(block)
        assert result.success, (block, result.error_in_exec or result.error_before_exec, capsys.readouterr().out)


@pytest.mark.parametrize("name", WITH_CODE[1:])
def test_the_names_in_a_table_exist(name: str) -> None:
    rows = [re.split(r"(?<!\\) \| ", line) for line in text_of(name).splitlines() if line.startswith("| `")]
    assert len(rows) > 3
    here = " ".join(row[1] for row in rows)
    assert re.search(r"`tvmagic\.", here)
    for dotted in re.findall(r"`(tvmagic(?:\.\w+)+)", here):
        assert pydoc.locate(dotted) is not None, dotted
    kinds = {"for_cinn": (cinn.IRSchedule,), "for_ascend": (ascend.AscGraph,)}.get(name, (Stage, te.Schedule))
    for method in re.findall(r"(?:`|s|s\[\w\])\.(\w+)(?=[(`])", re.sub(r"`tvmagic[.\w]*`", "", here)):
        assert any(hasattr(kind, method) for kind in kinds), f"{method} of {kinds}"


PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]


def magic_lines(text: str) -> list[str]:
    """The magics with arguments of a page: lines of its blocks, without comments, and what is in the text in backticks."""
    blocks = re.findall(r"(?m)^(?:    )?(%{1,2}[a-z]\w* .*)$", text)
    return [re.sub(r" +# .*", "", line).strip() for line in (*blocks, *re.findall(r"`(%{1,2}[a-z]\w* [^`]*)`", text))]


def test_the_magics_in_every_page_take_the_arguments_that_they_are_given() -> None:
    lines = [(path.name, line) for path in PAGES for line in magic_lines(path.read_text(encoding="utf-8"))]
    seen = 0
    for page, line in lines:
        word, _, rest = line.partition(" ")
        if word.lstrip("%") in MAGICS and "..." not in rest:
            arguments = PARSERS[word.lstrip("%")].read(rest)  # a UsageError says what is wrong
            assert word in ("%%puzzle", PARSERS[word.lstrip("%")].magic), (page, line)
            seen += arguments is not None
        else:
            assert word in ("%load_ext", "%config", "%reload_ext", "%shapes") or "..." in rest, (page, line)
    assert seen > 80
    with pytest.raises(UsageError):
        PARSERS["passes"].read("dense --htm dense.html")


def test_the_python_in_indented_blocks_names_what_there_is() -> None:
    """Blocks that are not run, as they take long or need other machines: their names exist."""
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


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert target.startswith("api/") or (path.parent / target).exists(), target


def test_a_public_name_without_a_docstring_makes_it_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = reference().write
    monkeypatch.setattr(Stage.compute_at, "__doc__", None)
    with pytest.raises(SystemExit) as stopped:
        write(tmp_path / "reference")
    missing = str(stopped.value).splitlines()[1:]
    assert "tvmagic.te.schedule: Stage.compute_at" in [line.strip() for line in missing]
    assert {line.strip().split(": ")[1] for line in missing} == {"Stage.compute_at"}


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
