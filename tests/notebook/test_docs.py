"""The pages that people wrote: their code runs, and what they name exists."""

from __future__ import annotations

import pydoc
import re
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


# ---------------------------------------------------------------------------- the pages that people wrote

WITH_CODE = ["guide", "for_halide", "for_cinn", "for_ascend"]  # `for_tvm` needs compat


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


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert target.startswith("api/") or (path.parent / target).exists(), target


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
