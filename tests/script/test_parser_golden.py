"""Every function text of the golden cases is read, and printed back as TVM prints it back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from golden import rows

from tvmagic.ir import structural_equal
from tvmagic.script import from_source

HEAD = re.compile(r"^(# from tvm.*\n)+\n?")
# texts that print otherwise than TVM prints them, each with its reason; none is known
EXCEPTIONS: dict[str, str] = {}


def functions() -> Iterator[Any]:
    """The function texts of all files, some of them more than once."""
    for case in rows("tir"):
        yield from (case.get("before"), case.get("final"), *(step.get("after") for step in case.get("steps", ())))
    for case in rows("vectorize"):
        yield from (case.get(key) for key in ("before", "after", "skipped", "simplified"))
    for case in rows("pipeline"):
        yield from (case.get("source"), *(text for _, text in case.get("passes", ())))
    for case in rows("te"):
        yield case.get("lowered")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return list(dict.fromkeys(t for t in functions() if isinstance(t, str) and t.startswith("@")))


@pytest.fixture(scope="module")
def reprinted() -> dict[str, str | None]:
    return {row["text"]: row["reprinted"] for row in rows("reprint")}


def printed(func: Any) -> str:
    return HEAD.sub("", func.script(show_meta=False)).strip()


# every third text in the normal tests, the rest in the long ones
@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2))])
def test_every_text_prints_back(texts: list[str], reprinted: dict[str, str | None], first: int) -> None:
    """TVM's own text, or what TVM makes of it; where TVM cannot read it, a text of equal structure."""
    assert len(texts) > 5000
    different: list[tuple[str, str]] = []
    for text in texts[first::3]:
        func = from_source(text)
        back = printed(func)
        wanted = reprinted.get(text, text)
        if wanted is None:
            good = structural_equal(from_source(back), func, map_free_vars=True)
        else:
            good = back == wanted.strip()
        if not good and text not in EXCEPTIONS:
            different.append((text, back))
    assert not different, (
        f"{len(different)} of {len(texts[first::3])} differ; the first:\n{different[0][0]}\n{different[0][1]}"
    )


def test_what_is_printed_back_reads_back(texts: list[str]) -> None:
    """Names may change as TVM changes them; the structure does not."""
    for text in texts[::17]:
        func = from_source(text)
        again = from_source(printed(func))
        assert structural_equal(func, again, map_free_vars=True), text
