"""The golden cases: what TVM 0.19 answers for random programs, as `tests/golden/README.md` describes them."""

from __future__ import annotations

import functools
import json
import lzma
import pathlib
from typing import Any

PLACE = pathlib.Path(__file__).parents[1] / "golden"


@functools.cache
def _read(name: str) -> tuple[dict[str, Any], ...]:
    with lzma.open(PLACE / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return tuple([json.loads(line) for line in lines])


def rows(name: str) -> list[dict[str, Any]]:
    """All cases of a file (`te`, `tir`, `pipeline`, `arith`, `reprint`, `vectorize`), read once a process."""
    return list(_read(name))


def known(name: str) -> dict[str, Any]:
    """The cases in which ours differs, each with the reason."""
    return json.loads((PLACE / f"{name}_known.json").read_text(encoding="utf-8"))
