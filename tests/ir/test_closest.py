"""Which name is offered for one that does not exist."""

from __future__ import annotations

import pytest

from tvmagic.errors import closest, did_you_mean

KNOWN = ["id", "max", "sum", "mu_sum", "vectorize", "parallel", "Y", "float32", "_hidden"]


@pytest.mark.parametrize(
    "name, meant",
    [
        ("mu_summ", "mu_sum"),
        ("vectorise", "vectorize"),
        ("paralel", "parallel"),
        ("y", "Y"),
        ("YY", "Y"),
        ("flaot32", "float32"),
        ("i", None),
        ("argmax", None),
        ("summary", None),
        ("hidden", None),
        ("tile", None),
    ],
)
def test_only_a_near_name_is_offered(name: str, meant: str | None) -> None:
    assert closest(name, KNOWN) == meant
    assert did_you_mean(name, KNOWN) == (f"did you mean `{meant}`?" if meant else None)
