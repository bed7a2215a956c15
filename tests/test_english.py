"""The words that plain English avoids do not come back (`tests/support/english.py` counts them and says what to write instead)."""

from __future__ import annotations

from pathlib import Path

import english
import pytest

# As many as there are: lower these with each that goes. What is left is used in its plain meaning (`x // y, where 0 <= x`).
# Texts of pictures in saved tutorials have a limit of their own.
LATER = ("notebook",)
LIMITS = {"messages": 3, "docstrings": 6, "pages": 1}
LIMITS_LATER = {"messages": 0, "docstrings": 6}


def test_they_do_not_come_back() -> None:
    counts = english.counts()
    for area, limit in LIMITS.items():
        later = sum(counts.get(f"{area}/{package}", 0) for package in LATER)
        hint = f"see `python tests/support/english.py --list {area}`"
        assert counts[area] - later <= limit, hint
        assert later <= LIMITS_LATER.get(area, 0), hint


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ('raise E("`x` stands in no loop")', {"messages"}),
        ('"""None where it is not known."""', {"docstrings"}),
        ('"""The place where it is written, inside the loop."""', set()),
        ('x = f"{y} has no value by NumPy"', {"messages"}),
        ('x = "a pass that is none"', {"messages"}),
        ('x = "there is none"', set()),
        ("# what stands in a comment is not counted", set()),
    ],
)
def test_what_is_counted(text: str, counted: set[str], tmp_path: Path) -> None:
    path = tmp_path / "text.py"
    path.write_text(f"{text}\n", encoding="utf-8")
    found = {area for area, _, words in english.texts(path) if any(p.search(words) for p in english.PATTERNS)}
    assert found == counted
