"""A sample of texts that TVM 0.19 printed: each is read and printed back with the same letters.

All of them are tried by `test_parser_golden.py`, where the golden cases are at hand. Where TVM itself prints other letters back (`reprinted`), ours are those; where TVM cannot read its
own text (`reprinted` is null), reading what we print gives an equal structure.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from tvmagic import ir, tir
from tvmagic.ir import structural_equal
from tvmagic.script import from_source

GOLDEN = pathlib.Path(__file__).parents[2].parent / "shared" / "golden"
SAMPLE = pathlib.Path(__file__).parents[1] / "golden" / "reprint_sample.jsonl"
HEAD = "# from tvm.script import tir as T\n"


def rows(path: pathlib.Path) -> list[dict[str, Any]]:
    if not path.exists():
        pytest.skip(f"{path.name} is not there: it stands beside the repository where the project is developed")
    return [json.loads(line) for line in path.read_text().splitlines()]


def body(text: str) -> str:
    """The text without the lines that say where `T` comes from."""
    return re.sub(r"^(# from tvm.*\n)+\n?", "", text).strip()


def outcome(text: str, want: str | None) -> str:
    """What becomes of a text that should come back as `want` (None: as an equal structure)."""
    function = from_source(HEAD + text)
    got = body(function.script())
    if want is not None:
        return "exact" if got == want.strip() else f"different:\n{got}"
    again = from_source(HEAD + got)
    return "equal" if structural_equal(function, again, map_free_vars=True) else "not equal"


@pytest.mark.parametrize("case", rows(SAMPLE), ids=lambda case: case["id"])
def test_sample_comes_back(case: dict[str, Any]) -> None:
    want = case.get("reprinted", case["text"])
    assert outcome(case["text"], want) in ("exact", "equal")


def test_all_golden_expressions_print_alike() -> None:
    """The expressions of the arithmetic cases, built by operators, print as TVM prints them."""
    functions = {
        "fld": tir.floordiv,
        "flm": tir.floormod,
        "min": tir.min,
        "max": tir.max,
        "land": tir.And,
        "lor": tir.Or,
        "lnot": tir.Not,
        "sel": tir.Select,
    }
    for case in rows(GOLDEN / "arith.jsonl"):
        if "error" in case:
            continue
        names = {name: ir.Var(name) for name in case["ranges"]}
        value = eval(case["expr"], {**names, **functions})
        expr = value.asobject() if hasattr(value, "asobject") else tir.convert(value)
        assert str(expr) == case["text"], case["id"]
