"""Notes of bounds inference: the elements asked for are computed, and the elements computed are in the domain."""

from __future__ import annotations

from typing import Any

import pytest

import tvmagic
from tvmagic import te
from tvmagic.errors import ScheduleError
from tvmagic.passes import Record, recording


def blurred(size: int = 24) -> list[te.Tensor]:
    """An input, a stage that is read at three neighbours, and the stage that reads it."""
    a = te.placeholder((size + 2,), name="A")
    b = te.compute((size + 2,), lambda i: a[i] + 1.0, name="B")
    return [a, b, te.compute((size,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")]


@pytest.mark.parametrize("factor", [1, 4, 5, 24])
def test_note_covers_what_is_asked_for(factor: int) -> None:
    a, b, c = blurred()
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor)
    s[b].compute_at(s[c], outer)
    record = Record()
    with recording(record=record):
        tvmagic.lower(s, [a, c])
    facts: list[Any] = [
        n.facts["first"] for n in record.notes() if n.topic == "infer_bound.gather" and n.facts["stage"] == "B"
    ]
    assert facts
    for first in facts:
        assert first is not None, "all bounds are numbers in the first iteration"
        low, high = first["computed"]
        assert (low, high) == (0, factor + 1)
        assert first["domain"][0] <= low and high <= first["domain"][1]
        assert all(low <= begin and end <= high for begin, end in first["asked"])


def test_hint_names_only_readers_outside_the_loop() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    inside = te.compute((8,), lambda i: b[i] * 2.0, name="Inside")
    outside = te.compute((8,), lambda i: b[i] * 3.0, name="Outside")
    c = te.compute((8,), lambda i: inside[i] + outside[i], name="C")
    s = te.create_schedule(c.op)
    s[inside].compute_at(s[c], c.op.axis[0])
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(ScheduleError) as error:
        tvmagic.lower(s, [a, c])
    assert error.value.hint is not None
    assert "`Outside`" in error.value.hint and "`Inside`" not in error.value.hint
