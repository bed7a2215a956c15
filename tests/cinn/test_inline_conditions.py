"""When CINN's blocks may be inlined: for each condition a program that fails it alone, and one that just keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.cinn import IRSchedule
from tvmagic.cinn.accesses import accesses, scope
from tvmagic.cinn.conditions import COMPUTE_INLINE, REVERSE_COMPUTE_INLINE, Candidate, first_failure
from tvmagic.script import from_cinn


def nest(name: str, *lines: str, extents: tuple[int, ...] = (8, 6), guard: str = "", bind: str = "") -> str:
    """A block of a name in loops over `i` and `j`, its body given by lines."""
    variables = "ij"[: len(extents)]
    text = "\n".join(["{", *lines, "}"]) if len(lines) > 1 else lines[0]
    bound = bind or ", ".join(variables)
    block = (
        f"ScheduleBlock({name})\n{{\n{', '.join(f'i{n}' for n in range(len(extents)))} = axis.bind({bound})\n{text}\n}}"
    )
    if guard:
        block = f"if ({guard}) {{\n{block}\n}}"
    for variable, extent in zip(reversed(variables), reversed(extents)):
        block = f"serial for ({variable}, 0, {extent})\n{{\n{block}\n}}"
    return block


Y = nest("Y", "Y[i0, i1] = (A[i0, i1] + 1.0f)")
Z = nest("Z", "Z[i0, i1] = (Y[i0, i1] * 2.0f)")
ROW = nest("Y", "Y[i0] = (A[i0, 0] + 1.0f)", extents=(8,))
SUM = nest("Y", "Y[i0] = (Y[i0] + A[i0, i1])")


def failure(conditions: Any, name: str, *blocks: str, **options: Any) -> tuple[str, str] | None:
    schedule = IRSchedule(from_cinn("\n".join(blocks), {"A": ((8, 6), "float32")}, **options))
    state = schedule.schedule.state
    block = next(s for s in state.srefs.values() if s.is_block and s.block.name_hint == name)
    found = first_failure(conditions, Candidate(state, block))
    return None if found is None else (found[0].name, found[1])


FORWARD: list[tuple[str, list[str], dict[str, Any], str | None, str]] = [
    ("Y", [Y, Z], {}, None, ""),
    ("root", [Y, Z], {}, "leaf", "`root` is the root block"),
    (
        "Y",
        [nest("Y", "Y[i0, i1] = A[i0, i1]", "W[i0, i1] = A[i0, i1]"), Z],
        {},
        "one_store",
        "the body of `Y` has 2 stores or other statements, not one store alone",
    ),
    (
        "Y",
        [nest("Y", "if ((i0 < 3)) {", "Y[i0, i1] = A[i0, i1]", "}"), Z],
        {},
        "one_store",
        "the body of `Y` has 1 stores or other statements, not one store alone",
    ),
    ("Y", [SUM, nest("Z", "Z[i0, i1] = Y[i0]")], {}, "not_reduction", "`Y` reduces over `i1`"),
    (
        "Y",
        [nest("Y__reduce_init", "Y__reduce_init[i0] = 0.0f", extents=(8,)), SUM, nest("Z", "Z[i0, i1] = Y[i0]")],
        {},
        "not_reduction",
        "`Y` has an init: its tensor is a reduction",
    ),
    (
        "Y",
        [nest("X", "Y[i0, i1] = 0.0f"), nest("Y", "Y[i0, i1] = (Y[i0, i1] + 1.0f)"), Z],
        {},
        "no_self_load",
        "`Y` loads `Y`, which it stores",
    ),
    ("Z", [Y, Z], {}, "not_seen_outside", "`Z` is an output of the function"),
    ("Y", [Y, Z], {"outputs": ["Y"]}, "not_seen_outside", "`Y` is an output of the function"),
    ("Y", [Y, nest("X", "Y[i0, i1] = 0.0f"), Z], {}, "only_writer", "`Y` is stored by `X` too"),
    (
        "Y",
        [nest("Y", "Y[(i0 + 1), i1] = A[i0, i1]"), nest("Z", "Z[i0, i1] = Y[i0, i1]")],
        {},
        "plain_indices",
        "`Y` stores `Y` at indices that are not distinct plain variables",
    ),
    (
        "Y",
        [nest("Y", "Y[i0, i0] = A[i0, i1]"), nest("Z", "Z[i0, i1] = Y[i0, i1]")],
        {},
        "plain_indices",
        "`Y` stores `Y` at indices that are not distinct plain variables",
    ),
    (
        "Y",
        [nest("Y", "Y[i0] = A[i0, i1]"), nest("Z", "Z[i0, i1] = Y[i0]")],
        {},
        "no_other_variable",
        "the store of `Y` uses `i1`, which is not one of its indices",
    ),
    (
        "Y",
        [nest("X", "X[i0, i1] = A[i0, i1]"), nest("Y", "Y[i0, i1] = X[i0, i1]"), nest("W", "X[i0, i1] = 0.0f"), Z],
        {},
        "inputs_stay",
        "`W` stores `X` after `Y` loaded it",
    ),
    (
        "Y",
        [nest("X", "X[i0, i1] = A[i0, i1]"), nest("W", "X[i0, i1] = 0.0f"), nest("Y", "Y[i0, i1] = X[i0, i1]"), Z],
        {},
        None,
        "",
    ),
    (
        "Y",
        [nest("Y", "Y[i0, i1] = A[i0, i1]", guard="(i < n)"), Z],
        {},
        "runs_for_all",
        "`Y` is under a condition, and it is not known that it runs for all values of its variables",
    ),
    ("Y", [nest("Y", "Y[i0, i1] = A[i0, i1]", guard="(i < 8)"), Z], {}, None, ""),
    ("Y", [Y], {"params": ["A"]}, "not_only_leaf", "`Y` is the only leaf of `root`"),
]


@pytest.mark.parametrize("number", range(len(FORWARD)))
def test_into_the_consumers(number: int) -> None:
    name, blocks, options, condition, reason = FORWARD[number]
    assert failure(COMPUTE_INLINE, name, *blocks, **options) == (None if condition is None else (condition, reason))


BACK: list[tuple[str, list[str], dict[str, Any], str | None, str]] = [
    ("Z", [Y, Z], {}, None, ""),
    (
        "Z",
        [Y, nest("Z", "Z[i0, i1] = (Y[i0, i1] * Y[i0, i1])")],
        {},
        "one_load",
        "`Z` has 2 loads of what other blocks store, not one",
    ),
    ("Y", [Y, Z], {}, "one_load", "`Y` has 0 loads of what other blocks store, not one"),
    ("Z", [Y, Z], {"outputs": ["Y"]}, "tensor_inside", "`Y` is an argument of the function"),
    ("Z", [Y, Z, nest("W", "W[i0, i1] = Y[i0, i1]")], {}, "only_reader", "`Y` is loaded by `W` too"),
    (
        "Z",
        [Y, nest("X", "Y[i0, i1] = 0.0f"), Z],
        {},
        "one_producer",
        "`Y` is not stored by exactly one block with exactly one store",
    ),
    (
        "Z",
        [nest("Y", "Y[i0, i1] = A[i0, i1]", "W[i0, i1] = A[i0, i1]"), Z],
        {},
        "one_producer",
        "`Y` is not stored by exactly one block with exactly one store",
    ),
    ("Z", [SUM, nest("Z", "Z[i0] = Y[i0]", extents=(8,))], {}, "only_reader", "`Y` is loaded by `Y` too"),
    (
        "Z",
        [nest("Y", "if ((i0 < 3)) {", "Y[i0, i1] = A[i0, i1]", "}"), Z],
        {},
        "one_producer",
        "`Y` is not stored by exactly one block with exactly one store",
    ),
    (
        "Z",
        [
            nest("Y", "init {", "Y[i0] = 0.0f", "}", "Y[i0] = A[i0, i1]")
            .replace("axis.bind(i, j)\n{\n", "axis.bind(i, j)\n")
            .replace("A[i0, i1]\n}", "A[i0, i1]"),
            nest("Z", "Z[i0] = Y[i0]", extents=(8,)),
        ],
        {},
        "one_producer",
        "the producer `Y` is a reduction",
    ),
    (
        "Z",
        [Y, nest("Z", "Z[i0, i1] = Y[(7 - i0), i1]")],
        {},
        "plain_load",
        "`Z` loads `Y` at indices that are not distinct plain variables",
    ),
    (
        "Z",
        [ROW, nest("Z", "Z[i0, i1] = Y[i0]")],
        {},
        "no_other_variable",
        "the store of `Z` uses `i1`, at which it does not load its producer",
    ),
    (
        "Z",
        [Y, nest("Z", "Z[i0, i1] = Y[i0, i1]", extents=(7, 6))],
        {},
        "same_domain",
        "`Z` does not load all that `Y` stores of `Y`",
    ),
    (
        "Z",
        [Y, nest("Z", "Z[i0, i1] = Y[i0, i1]", extents=(7, 6), bind="(i + 1), j")],
        {},
        "same_domain",
        "`Z` does not load all that `Y` stores of `Y`",
    ),
    ("Z", [Y, nest("Z", "Z[i1, i0] = Y[i0, i1]")], {}, None, ""),
    ("Z", [Y, nest("W", "W[i0, i1] = A[i0, i1]"), Z], {}, None, ""),
    ("Z", [Y, nest("W", "W[i0, i1] = A[i0, i1]"), nest("Z", "Z[i0, i1] = (Y[i0, i1] + B[i0, i1])")], {}, None, ""),
    ("Z", [Z, Y], {"outputs": []}, "nothing_between", "`Z` comes before its producer"),
    (
        "Z",
        [Y, nest("Z", "Z[i0, i1] = Y[i0, i1]", guard="(i < n)")],
        {},
        "runs_for_all",
        "`Z` is under a condition, and it is not known that it runs for all values of its variables",
    ),
]


@pytest.mark.parametrize("number", range(len(BACK)))
def test_into_the_producer(number: int) -> None:
    name, blocks, options, condition, reason = BACK[number]
    found = failure(REVERSE_COMPUTE_INLINE, name, *blocks, **options)
    assert found == (None if condition is None else (condition, reason))


@pytest.mark.parametrize(
    ("between", "depends"),
    [
        ("Z[i0, i1] = 0.0f", True),
        ("W[i0, i1] = Z[i0, i1]", True),
        ("W[i0, i1] = A[i0, i1]", False),
    ],
)
def test_what_is_between_a_block_and_its_producer(between: str, depends: bool) -> None:
    found = failure(REVERSE_COMPUTE_INLINE, "Z", nest("Y", "Y[i0, i1] = A[i0, i1]"), nest("X", between), Z)
    assert found == (("nothing_between", "`X` is between `Z` and its producer and depends on it") if depends else None)


def test_each_condition_is_named_and_worded() -> None:
    for conditions in (COMPUTE_INLINE, REVERSE_COMPUTE_INLINE):
        names = [c.name for c in conditions]
        assert len(set(names)) == len(names) and all(c.text for c in conditions)
    failing = {row[3] for row in FORWARD} | {row[3] for row in BACK}
    assert {c.name for c in (*COMPUTE_INLINE, *REVERSE_COMPUTE_INLINE)} - failing <= {"no_predicate"}


def test_what_blocks_access() -> None:
    """In the order of the text; a condition counts for what is inside it, or in the block, and for nothing behind it."""
    blocks = [
        nest("P", "P[i0, i1] = A[i0, i1]", guard="(i < n)"),
        nest("Q", "if ((i0 < 3)) {", "Q[i0, i1] = exp(P[i0, i1])", "}"),
        nest("R", "R[i0, i1] = (P[i0, i1] + Q[i0, i1])"),
        nest("S", "if ((i0 < 3)) {", "if ((i1 < 3)) {", "S[i0, i1] = R[i0, i1]", "}", "}"),
        nest("T", "T[(i0 + m), 0] = A[0, i1]"),
    ]
    schedule = IRSchedule(from_cinn("\n".join(blocks), {"A": ((8, 6), "float32")}))
    root = next(s.block for s in schedule.schedule.state.srefs.values() if s.is_block and s.block.name_hint == "root")
    around = scope(root)
    leaves = {found.block.name_hint: found for found in around.leaves}
    assert list(leaves) == list("PQRST")
    assert {name: found.branch for name, found in leaves.items()} == {
        "P": True,
        "Q": True,
        "R": False,
        "S": True,
        "T": False,
    }
    assert {name: sorted(b.name for b in found.loads) for name, found in leaves.items()} == {
        "P": ["A"],
        "Q": ["P"],
        "R": ["P", "Q"],
        "S": ["R"],
        "T": ["A"],
    }
    assert {name: [s.buffer.name for s in found.stores] for name, found in leaves.items()} == {
        name: [name] for name in "PQRST"
    }
    assert sorted(v.name for v in leaves["T"].variables) == ["i0", "i1", "m"] and not any(
        found.inner for found in leaves.values()
    )
    whole = accesses(root.body)
    assert sorted(b.name for b in whole.loads) == list("APQR") and sorted(b.name for b in whole.stores) == list("PQRST")
    assert [around.place[found.block] for found in leaves.values()] == [0, 1, 2, 3, 4]
    p = leaves["P"].stores[0].buffer
    assert [f.block.name_hint for f in around.writers_of(p)] == ["P"] and [
        f.block.name_hint for f in around.readers_of(p)
    ] == ["Q", "R"]
    assert len({around.part[found.block] for found in leaves.values()}) == 5


def test_blocks_beside_a_condition_are_not_in_it() -> None:
    first, second = (nest(name, f"{name}[i0, i1] = A[i0, i1]") for name in "PQ")
    inner = [part.split("\n{\n", 2)[2].rsplit("\n}\n}", 1)[0] for part in (first, second)]
    text = f"serial for (i, 0, 8)\n{{\nserial for (j, 0, 6)\n{{\nif ((i < n)) {{\nif ((j < n)) {{\n{inner[0]}\n}}\n}}\n{inner[1]}\n}}\n}}"
    function = from_cinn(text, {"A": ((8, 6), "float32")})
    found = accesses(function.body.block.body).blocks  # type: ignore[attr-defined]
    assert [(f.block.name_hint, f.branch) for f in found] == [("P", True), ("Q", False)]
