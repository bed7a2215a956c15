"""Knobs of schedules."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.errors import TVMagicError
from tvmagic.notation.source import Source
from tvmagic.operators.knobs import Knobs


def refused(call: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught:
        call()
    return caught.value


def test_knob_values_follow_names_and_lines() -> None:
    cell = "tile = knob(8, [4, 8, 16])\nother = knob(1)\nfor _ in range(2):\n    tile = s.knob(3) or knob(2, [1, 2])\nprint(knob(5, (6, 7)))\na, b = knob(1), knob(2)"
    knobs = Knobs(Source("cell", cell), {"tile": 16, "other": 5, "tile 2": 1})
    for _ in range(2):
        knobs.begin()
        exec(compile(cell.replace("s.knob(3) or ", ""), "cell", "exec"), {"knob": knobs.knob, "print": lambda _: None})
        assert {name: (k.default, k.choices) for name, k in knobs.found.items()} == {
            "tile": (8, (4, 8, 16)),
            "other": (1, (1,)),
            "tile 2": (2, (1, 2)),
            "tile 3": (2, (1, 2)),
            "knob at line 5": (5, (5, 6, 7)),
            "knob at line 6": (1, (1,)),
            "knob 2 at line 6": (2, (2,)),
        }
    assert knobs.chosen()["tile"] == 16 and knobs.chosen()["other"] == 1 and knobs.chosen()["tile 2"] == 1
    knobs.any_value = True
    assert knobs.chosen()["other"] == 5
    assert refused(lambda: knobs.knob(1, [])).code == "knob.no_values"
