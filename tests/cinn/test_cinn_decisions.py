"""Lowering and searches of CINN, small decision by small decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from data_classes import data_classes
from step_programs import program

import tvmagic
from tvmagic import te
from tvmagic.cinn import IRSchedule, RuleApplyType, SearchSpace
from tvmagic.cinn.accesses import with_regions
from tvmagic.cinn.form import is_cinn_form, to_cinn
from tvmagic.cinn.lower import _AXES, lower
from tvmagic.cinn.rules import MultiLevelTiling, TilingConfig
from tvmagic.cinn.search import FLT_MAX, SearchState
from tvmagic.cinn.steps.coverage import is_extreme
from tvmagic.cinn.steps.tree import leaves
from tvmagic.cinn.to_tir import _statements as statements
from tvmagic.cinn.to_tir import lower_schedule_blocks
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.ir import (
    Block,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Ramp,
    SeqStmt,
    Stmt,
    Var,
    decl_buffer,
)
from tvmagic.ir.query import nodes_of
from tvmagic.passes import PassContext
from tvmagic.script import from_cinn, from_source


def test_data_classes_are_values_but_for_what_is_gathered() -> None:
    found = data_classes("tvmagic.cinn")
    assert {name for name, frozen in found.items() if frozen} == {
        "Verdict",
        "Condition",
        "TilingConfig",
        "Span",
        "Leaf",
        "Step",
    }


# ---------------------------------------------------------------------------- lowering

B = decl_buffer((64,), "float32", "B")
STORE = BufferStore(B, IntImm("int32", 1).astype("float32"), [0])


def loop(extent: Any, body: Stmt, kind: ForKind = ForKind.SERIAL) -> For:
    return For(Var("i", "int32"), 0, extent, kind, body)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (STORE, 1), (Evaluate(0), 1), (SeqStmt([STORE, STORE, Evaluate(0)]), 3), (loop(5, STORE), 1), (loop(5, STORE, ForKind.UNROLLED), 5), (loop(5, SeqStmt([STORE, STORE]), ForKind.UNROLLED), 10), (loop(Var("n", "int32"), STORE, ForKind.UNROLLED), 1),
        (loop(3, loop(4, STORE, ForKind.UNROLLED), ForKind.UNROLLED), 12), (IfThenElse(Var("c", "bool"), STORE, None), 2),
    ],
)  # fmt: skip
def test_statements_once_loops_are_written_out(body: Stmt, count: int) -> None:
    assert statements(body) == count


TEXT = """
serial for (i, 0, 3)
{
  vectorize[LENGTH] for (j, LOW, EXTENT)
  {
    ScheduleBlock(B)
    {
      i0, i1 = axis.bind(i, j)
      B[i0, i1] = (A[i0, i1] * 2.00000000f)
    }
  }
}"""


@pytest.mark.parametrize(
    ("length", "low", "extent", "kinds"),
    [
        (4, 0, 16, [("serial", 4), ("vectorized", 4)]), (4, 0, 18, [("serial", 4), ("vectorized", 4), ("serial", 2)]), (4, 0, 4, [("vectorized", 4)]), (4, 0, 5, [("vectorized", 4), ("serial", 1)]), (4, 0, 3, [("serial", 3)]), (1, 0, 6, [("serial", 6)]),
        (4, 2, 9, [("serial", 2), ("vectorized", 4), ("serial", 1)]), (8, 0, 8, [("vectorized", 8)]), (3, 1, 7, [("serial", 2), ("vectorized", 3), ("serial", 1)]),
    ],
)  # fmt: skip
def test_loops_by_vectors(length: int, low: int, extent: int, kinds: list[tuple[str, int]]) -> None:
    """Vectors of the length asked for, and what is left one by one; the same elements, from the same first one on."""
    function = from_cinn(
        TEXT.replace("LENGTH", str(length)).replace("LOW", str(low)).replace("EXTENT", str(extent)),
        dict.fromkeys("AB", ((3, 20), "float32")),
    )
    lowered = plain(function)
    inside = [n for n in nodes_of(lowered.body, For) if n.loop_var.name != "i"]
    found = sorted((n.kind.name.lower(), int(n.extent)) for n in inside)
    assert found == sorted(kinds)
    given, out = np.random.default_rng(0).normal(size=(3, 20)).astype("float32"), np.zeros((3, 20), "float32")
    run_function(tvmagic.lower(function)["main"], [given, out])
    wanted = np.zeros((3, 20), "float32")
    wanted[:, low : low + extent] = 2 * given[:, low : low + extent]
    np.testing.assert_array_equal(out, wanted)


def test_blocks_are_lowered_even_if_nothing_is_to_be_improved() -> None:
    text = TEXT.replace("LENGTH", "4").replace("LOW", "0").replace("EXTENT", "16")
    with PassContext(opt_level=0):
        body = tvmagic.lower(from_cinn(text))["main"].body
    assert [int(n.extent) for n in nodes_of(body, For)] == [4, 3] and nodes_of(body, Ramp)
    assert not nodes_of(body, Block)


def plain(function: Any) -> Any:
    return lower_schedule_blocks()(tvmagic.IRModule({"main": function}))["main"]


@pytest.mark.parametrize(
    ("step", "inner", "outer", "unrolled"),
    [
        (0, 4, 8, []),
        (3, 4, 8, []),
        (4, 4, 8, ["j"]),
        (31, 4, 8, ["j"]),
        (32, 4, 8, ["i", "j"]),
        (1024, 16, 16, ["i", "j"]),
        (255, 16, 16, ["j"]),
    ],
)
def test_loops_that_are_unrolled_as_the_root_says(step: int, inner: int, outer: int, unrolled: list[str]) -> None:
    """From inside, as long as the statements, written out, are not more than the step."""
    text = f"""
ScheduleBlock(root)
{{
  attrs(auto_unroll_max_step:{step})
  serial for (i, 0, {outer})
  {{
    serial for (j, 0, {inner})
    {{
      ScheduleBlock(B)
      {{
        i0, i1 = axis.bind(i, j)
        B[i0, i1] = (A[i0, i1] * 2.00000000f)
      }}
    }}
  }}
}}"""
    lowered = plain(from_cinn(text))
    assert sorted(n.loop_var.name for n in nodes_of(lowered.body, For) if n.kind is ForKind.UNROLLED) == unrolled
    assert "auto_unroll_max_step" not in str(lowered)


def test_parallel_loops_in_one_another() -> None:
    text = TEXT.replace("serial for (i", "parallel for (i").replace(
        "vectorize[LENGTH] for (j, LOW, EXTENT)", "parallel for (j, 0, 8)"
    )
    lowered = plain(from_cinn(text))
    assert {n.loop_var.name: n.kind for n in nodes_of(lowered.body, For)} == {
        "i": ForKind.PARALLEL,
        "j": ForKind.SERIAL,
    }
    vectors = (
        TEXT.replace("serial for (i, 0, 3)", "vectorize[4] for (i, 0, 8)")
        .replace("LENGTH", "4")
        .replace("LOW", "0")
        .replace("EXTENT", "4")
    )
    kinds = {n.loop_var.name: n.kind for n in nodes_of(plain(from_cinn(vectors)).body, For)}
    assert kinds == {"i": ForKind.SERIAL, "j": ForKind.VECTORIZED}


# ---------------------------------------------------------------------------- searches


class Rule:
    """A rule that answers alike for every block, and makes states that cost what it is told, or an error."""

    def __init__(self, answer: RuleApplyType, *costs: float) -> None:
        self.answer, self.costs, self.asked = answer, costs, list[str]()

    def analyse_apply_type(self, state: SearchState, name: str) -> RuleApplyType:
        self.asked.append(name)
        return self.answer

    def apply_on_block(self, state: SearchState, name: str) -> list[SearchState]:
        if not self.costs:
            raise TVMagicError("no place for a cache")
        return [SearchState(state.ir_schedule, cost) for cost in self.costs]


CANNOT, APPLY, PRUNE = RuleApplyType.CANNOT_APPLY, RuleApplyType.APPLY, RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES


@pytest.mark.parametrize(
    ("rules", "costs", "asked"),
    [
        ([(CANNOT, 1)], [FLT_MAX], 1), ([(APPLY, 1)], [1], 1), ([(APPLY, 1, 2), (APPLY, 3)], [1, 2, 3], 2), ([(PRUNE, 1), (APPLY, 2)], [1], 1), ([(CANNOT, 1), (PRUNE, 2), (APPLY, 3)], [2], 2), ([(APPLY,), (APPLY, 2)], [2], 2),
        ([(PRUNE,), (APPLY, 2)], [2], 2), ([(APPLY,)], [FLT_MAX], 1), ([(APPLY, 1), (PRUNE, 2), (APPLY, 3)], [1, 2], 2),
    ],
)  # fmt: skip
def test_rules_are_tried_until_one_prunes(rules: list[Any], costs: list[float], asked: int) -> None:
    """What cannot be applied, or finds no place, makes no state; if nothing does, the state stays."""
    space = SearchSpace(program("chain").schedule(), seed=1)
    tried = [Rule(answer, *made) for answer, *made in rules]
    space.rules = tried  # type: ignore[assignment]
    state = SearchState(space.ir_schedule)
    assert [found.cost for found in space._on_block(state, "B", "rule_prune")] == costs
    assert sum(len(rule.asked) for rule in tried) == asked


@pytest.mark.parametrize(
    ("structure", "depths"), [("SSRSRS", [0, 2, 4, 5, 7, 8, 10]), ("RS", [0, 1, 3]), ("S", [0, 2])]
)
def test_loops_around_the_end_of_a_level(structure: str, depths: list[int]) -> None:
    """Two of a matrix product are spatial, one reduces."""
    schedule = program("matmul").schedule()
    (name,) = {schedule.block_of(b).name_hint for b in schedule.get_all_blocks() if len(schedule.get_loops(b)) == 3}
    rule = MultiLevelTiling(None, TilingConfig(structure))
    assert [rule._depth(schedule, name, level) for level in range(len(structure) + 1)] == depths


@pytest.mark.parametrize("body", ["", "int32 n = 3"])
def test_a_text_without_statements_does_nothing(body: str) -> None:
    (nothing,) = nodes_of(from_cinn(f"function f (_A)\n{{\n{body}\n}}").body, Evaluate)
    assert str(nothing.value) == "0"


def test_rules_at_random() -> None:
    """One alone; or all, those behind the first that made something left out half of the time, and none prunes."""
    space = SearchSpace(program("chain").schedule(), seed=1)
    counts = {"random": [0] * 4, "random_prune": [0] * 4}
    for strategy, seen in counts.items():
        for _ in range(60):
            space.rules = [Rule(APPLY, 1), Rule(PRUNE, 2), Rule(APPLY, 3)]  # type: ignore[list-item]
            found = space._on_block(SearchState(space.ir_schedule), "B", strategy)
            seen[len(found)] += 1
    assert counts["random"] == [0, 60, 0, 0] and counts["random_prune"][0] == 0 and min(counts["random_prune"][1:]) > 3


def test_states_are_ordered_by_cost_and_equal_by_program() -> None:
    one, two = SearchState(program("chain").schedule(), 1.0), SearchState(program("chain").schedule(), 2.0)
    other = SearchState(program("matmul").schedule(), 1.0)
    assert (
        one == two
        and hash(one) == hash(two)
        and one != other
        and one != 3
        and one < two
        and two >= one
        and not one < other
    )
    assert (
        one.copy() is not one
        and (one.copy().cost, one.copy()) == (1.0, one)
        and SearchState(one.ir_schedule).cost == FLT_MAX
    )
    named = SearchState(IRSchedule(program("chain").function))
    named.ir_schedule.split("B", 0, [-1, 4])
    assert named != one
    with pytest.raises(TVMagicError, match="`odd` is not a way to make sketches"):
        SearchSpace(program("chain").schedule()).generate_sketches(1, "odd")


@pytest.mark.parametrize(("count", "tries"), [(0, 0), (1, 1), (2, 8), (5, 20)])
def test_a_search_for_more_states_than_there_are_ends(count: int, tries: int) -> None:
    space, rule = SearchSpace(program("chain").schedule(), seed=1), Rule(CANNOT)
    space.rules = [rule]  # type: ignore[list-item]
    assert len(space.generate_sketches(count)) == min(count, 1) and rule.asked.count("B") == tries


@pytest.mark.parametrize("count", [0, 1])
def test_as_many_sketches_as_are_asked_for(count: int) -> None:
    found = SearchSpace(program("chain").schedule(), seed=2).generate_sketches(count)
    assert len(found) == count and len(set(found)) == count


# ---------------------------------------------------------------------------- names and updates


@pytest.mark.parametrize("rank", [1, 3, 9, 25, 26, 27, 28])
def test_names_of_many_loops(rank: int) -> None:
    """Letters by dimension, as far as there are any; then numbers."""
    a = te.placeholder((2,) * rank, name="A")
    function = lower([a, te.compute((2,) * rank, lambda *i: a[i] * 2.0, name="B")])
    names = [n.loop_var.name for n in nodes_of(function.body, For)][::-1]
    letters = _AXES[:rank]
    assert names == [*letters, *(f"i_{depth}" for depth in range(len(letters), rank))]


@pytest.mark.parametrize(
    ("value", "extreme"),
    [("cinn_max(B[i0], A[i0, i1])", True), ("cinn_min(A[i0, i1], B[i0])", True), ("(B[i0] + A[i0, i1])", False), ("(B[i0] * A[i0, i1])", False), ("cinn_max(A[i0, i1], 0.0f)", False), ("cinn_max(B[0], A[i0, i1])", False), ("A[i0, i1]", False),
     ("cinn_max(B[i0], (B[i0] + 1.0f))", False)],
)  # fmt: skip
def test_blocks_that_may_run_more_than_once(value: str, extreme: bool) -> None:
    """Those that take the greatest or least of values that they do not change."""
    text = f"serial for (i, 0, 4)\n{{\nserial for (k, 0, 6)\n{{\nScheduleBlock(B)\n{{\ni0, i1 = axis.bind(i, k)\nB[i0] = {value}\n}}\n}}\n}}"
    function = from_cinn(text, {"A": ((4, 6), "float32"), "B": ((4,), "float32")})
    (leaf,) = leaves(function.body.block.body)  # type: ignore[attr-defined]
    assert is_extreme(leaf) is extreme


def test_functions_in_the_form_of_cinn_say_so() -> None:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="B")
    made = to_cinn(te.create_prim_func([a, b]))
    assert is_cinn_form(made) and made.attrs["cinn.form"] == 1 and to_cinn(made) is made


@pytest.mark.parametrize(
    ("moved", "to", "between"),
    [
        ("Z", "X", "Y"),
        ("X", "Z", "Y"),
        ("W", "Y", "Z"),
        ("Y", "W", "Z"),
        ("Y", "X", ""),
        ("X", "Y", ""),
        ("W", "Z", ""),
    ],
)
def test_what_is_right_beside_the_loop_or_the_block_is_passed_too(moved: str, to: str, between: str) -> None:
    a = te.placeholder((8,), name="A")
    x = te.compute((8,), lambda i: a[i] + 1.0, name="X")
    y = te.compute((8,), lambda i: x[i] * 2.0, name="Y")
    z = te.compute((8,), lambda i: y[i] + x[i], name="Z")
    w = te.compute((8,), lambda i: z[i] + x[i], name="W")
    s = IRSchedule(te.create_prim_func([a, w]))
    if between:
        with pytest.raises(TVMagicError, match=f"`{between}` is between `{moved}` and loop"):
            s.simple_compute_at(moved, s.get_loops(to)[0])
    else:
        s.simple_compute_at(moved, s.get_loops(to)[0])


MATCHED = """
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            {}
"""


@pytest.mark.parametrize(
    ("lines", "reads", "writes"),
    [
        (["B[vi, 0] = A[vi, 3]"], "A[vi, 3]", "B[vi, 0]"), (["M = T.match_buffer(A[vi, 0:8], (8,))", "B[vi, 0] = M[3]"], "A[vi, 3]", "B[vi, 0]"),
        (["M = T.match_buffer(B[vi, 0:8], (8,))", "M[2] = A[vi, 3]"], "A[vi, 3]", "B[vi, 2]"), (["C = T.alloc_buffer((8,))", "C[vi] = A[vi, 0]", "B[vi, 0] = C[vi]"], "A[vi, 0]", "B[vi, 0]"),
    ],
)  # fmt: skip
def test_what_a_block_reads_and_writes_is_of_tensors_from_outside_it(lines: list[str], reads: str, writes: str) -> None:
    body = from_source(MATCHED.format("\n            ".join(lines))).body
    (block,) = [b for b in nodes_of(body, Block) if b.name_hint == "B"]
    found = with_regions(block.replace(reads=(), writes=()))
    assert ([str(r) for r in found.reads], [str(r) for r in found.writes]) == ([reads], [writes])
