"""What this compiler made of many programs, kept in `tests/golden/own_*.jsonl.xz`, so that no change of it goes unseen.

A row has an `id`, a `source` and the `answers` to it by name. The programs are random ones, chosen so that together they
reach what the package does. A change that is meant is recorded by

    TVMAGIC_RECORD=1 python -m pytest -n 0 tests/te/test_recorded_te.py

and the difference, which the failing test prints, is part of the review.
"""

from __future__ import annotations

import difflib
import json
import lzma
import os
from collections.abc import Callable
from typing import Any

from golden import PLACE, rows

from tvmagic import tir
from tvmagic.errors import DefectError, TVMagicError
from tvmagic.passes import PassContext
from tvmagic.script import from_source

__all__ = ["answer", "check", "pass_answer"]

RECORD = bool(os.environ.get("TVMAGIC_RECORD"))
PARTS = 8
SHOWN = 40  # lines of a difference


def answer(make: Callable[[], Any]) -> str:
    """The text of what `make` gives, or which error it is that refuses it."""
    try:
        return str(make())
    except DefectError:
        raise
    except TVMagicError as error:
        return type(error).__name__


def pass_answer(row: dict[str, Any]) -> dict[str, str]:
    """What the pass of a row makes of its module, with the row's options and configuration."""
    mod = from_source(row["source"])
    make = getattr(tir.transform, row["pass"].removeprefix("tir."))
    # a profiler's numbers go on from pass to pass: what a row says must not depend on what ran before it
    with PassContext(config={"tir.reset_start_id": True, **row["config"]}):
        return {row["pass"]: answer(lambda: make(**row["options"])(mod).script(show_meta=True))}


def check(name: str, part: int, answers: Callable[[dict[str, Any]], dict[str, str]]) -> None:
    """The answers to the rows of a part (of `PARTS`) of the file `own_NAME` are those that were recorded."""
    found = {row["id"]: answers(row) for row in rows(f"own_{name}")[part::PARTS]}
    if RECORD:
        _write(name, found)
        return
    for row in rows(f"own_{name}")[part::PARTS]:
        for what, now in found[row["id"]].items():
            assert now == row["answers"].get(what), _difference(f"{row['id']}: {what}", row, what, now)


def _difference(title: str, row: dict[str, Any], what: str, now: str) -> str:
    before = row["answers"].get(what, "").splitlines()
    lines = list(difflib.unified_diff(before, now.splitlines(), "recorded", "now", lineterm="", n=2))
    return "\n".join(
        [f"{title} is not what was recorded; see tests/support/recorded.py", *lines[:SHOWN], "", row["source"]]
    )


def _write(name: str, found: dict[str, dict[str, str]]) -> None:
    path = PLACE / f"own_{name}.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        kept = [json.loads(line) for line in lines]
    for row in kept:
        row["answers"] = found.get(row["id"], row["answers"])
    text = "".join(json.dumps(row) + "\n" for row in kept)
    path.write_bytes(lzma.compress(text.encode(), preset=9))
