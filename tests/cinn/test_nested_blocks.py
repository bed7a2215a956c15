"""Steps on nested blocks, blocks of equal names and blocks under conditions."""

from __future__ import annotations

import pytest
from nests import block, guarded, nest, refused, schedule

from tvmagic.tir.blocks.error import ScheduleError

COPY = nest("i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))


def test_steps_refuse_nested_blocks() -> None:
    inner = nest("j:6", block("B", "j", "T[i0] = (A[i0] + 1.0f)"))
    text = nest("i:4", f"ScheduleBlock(O)\n{{\no0 = axis.bind(i)\n{inner}\n}}")
    reader = nest("k:6", block("Z", "k", "Z[i0] = (T[i0] * 2.0f)"))
    made = schedule(text, reader)
    refused(made, lambda s: s.compute_inline("O"), "cinn.compute_inline.refused")
    refused(
        made,
        lambda s: s.compute_at("B", s.get_loops("Z")[0]),
        "cinn.schedule.nested_block",
    )
    refused(made, lambda s: s.get_loops("B"), "cinn.schedule.nested_block")


def test_steps_refuse_ambiguous_names() -> None:
    made = schedule(COPY, COPY.replace("Y[", "Z["))
    with pytest.raises(ScheduleError) as raised:
        made.get_loops("Y")
    assert raised.value.names == ["block `Y`"]  # the second of them
    refused(made, lambda s: s.get_loops("X"), "cinn.schedule.unknown_block")


@pytest.mark.parametrize("condition", ["(p < 3)", "(((m * i) + j) < p)", "(i < n)"])
def test_guarded_block_owns_its_elements(condition: str) -> None:
    """In one of two branches that is not known: the condition may be what does not hold."""
    inner = block("T", "((m * i) + j)", "T[i0] = exp(T[i0])")
    made = schedule(nest("i:n j:m", guarded(condition, inner)))
    made.parallel(made.get_loops("T")[0])
    made = schedule(nest("i:n j:m", guarded(condition, block("X", "i", "X[i0] = 1.0f"), inner)))
    refused(made, lambda s: s.parallel(s.get_loops("T")[0]), "cinn.schedule.iterations_conflict")
