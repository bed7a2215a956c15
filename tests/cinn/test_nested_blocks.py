"""Steps on nested blocks, blocks of equal names and blocks under conditions."""

from __future__ import annotations

import numpy as np
import pytest
from nests import block, guarded, nest, refused, results, schedule

from tvmagic.tir.blocks.error import ScheduleError

ROW = np.arange(24, dtype="float32").reshape(4, 6)


COPY = nest("i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))


def test_steps_refuse_nested_blocks() -> None:
    inner = nest("j:6", block("B", "j", "T[i0] = (A[i0] + 1.0f)"))
    text = nest("i:4", f"ScheduleBlock(O)\n{{\no0 = axis.bind(i)\n{inner}\n}}")
    reader = nest("k:6", block("Z", "k", "Z[i0] = (T[i0] * 2.0f)"))
    made = schedule(text, reader)
    refused(made, lambda s: s.compute_inline("O"), "`O` holds other blocks (`leaf`")
    refused(
        made,
        lambda s: s.compute_at("B", s.get_loops("Z")[0]),
        "block `B` is inside another block; a step takes those below the root",
    )
    refused(made, lambda s: s.get_loops("B"), "block `B` is inside another block; a step takes those below the root")


def test_steps_refuse_ambiguous_names() -> None:
    made = schedule(COPY, COPY.replace("Y[", "Z["))
    with pytest.raises(ScheduleError) as raised:
        made.get_loops("Y")
    assert raised.value.names == ["block `Y`"]  # the second of them
    refused(made, lambda s: s.get_loops("X"), "there is no block `X`")


SUMS = (
    nest("i:4", block("S__reduce_init", "i", "S__reduce_init[i0] = 0.0f")),
    nest("i:4 k:6", block("S", "i, k", "S[i0] = (S[i0] + A[i0, i1])")),
)


def test_steps_refuse_reduction_next_to_other_block() -> None:
    first, update = (
        block("S__reduce_init", "i", "S__reduce_init[i0] = 0.0f"),
        SUMS[1].partition("{\n")[2].rpartition("\n}")[0],
    )
    beside = block("Z", "i", "Z[i0] = A[i0, 0]")
    refused(
        schedule(nest("i:4", first, update, beside)),
        lambda s: s.rfactor(s.get_loops("S")[1], 0),
        "`Z` is in the nest of the reduction too",
    )
    made = schedule(nest("i:4", first, update))
    made.rfactor(made.get_loops("S")[1], 0)
    assert results(made, ROW, np.full(4, 7, "float32"))[1].tolist() == ROW.sum(1).tolist()


def test_steps_respect_else_branch() -> None:
    inner, other = block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"), block("X", "i, j", "X[i0, i1] = A[i0, i1]")
    reader = nest("i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)"))
    for then, otherwise in ((other, inner), (inner, other)):
        made = schedule(nest("i:4 j:6", guarded("(i < 4)", then, otherwise)), reader)
        refused(
            made,
            lambda s: s.cache_write("Y", 0, "local"),
            "it is not known that `Y` runs for all values of its variables",
        )
        refused(
            made,
            lambda s: s.compute_inline("Y"),
            "`Y` is under a condition, and it is not known that it runs for all values",
        )
        refused(made, lambda s: s.compute_at("Y", s.get_loops("Z")[0]), "block `Y` is in a condition with an else")


@pytest.mark.parametrize("condition", ["(p < 3)", "(((m * i) + j) < p)", "(i < n)"])
def test_guarded_block_owns_its_elements(condition: str) -> None:
    """In one of two branches that is not known: the condition may be what does not hold."""
    inner = block("T", "((m * i) + j)", "T[i0] = exp(T[i0])")
    made = schedule(nest("i:n j:m", guarded(condition, inner)))
    made.parallel(made.get_loops("T")[0])
    made = schedule(nest("i:n j:m", guarded(condition, block("X", "i", "X[i0] = 1.0f"), inner)))
    refused(made, lambda s: s.parallel(s.get_loops("T")[0]), "touch the same element of `T`")
