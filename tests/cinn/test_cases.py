"""The article's example and the cases that stand beside it, each compiled against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cinn_programs import arrays, run
from refusals import refuses

import tvmagic
from tvmagic import cinn, passes, te, tir
from tvmagic.cinn.cinn_form import to_tensorir
from tvmagic.errors import ScheduleError, TVMagicError
from tvmagic.ir import structural_equal
from tvmagic.script import cinn_text, from_cinn


def nest(name: str, store: str, extents: tuple[int | str, ...] = (32, 32, 32), indent: int = 4) -> list[str]:
    """The lines of a block in a nest of loops `i`, `j`, `k`."""
    lines: list[str] = []
    for depth, (loop, extent) in enumerate(zip("ijk", extents)):
        lines += ["  " * depth + f"serial for ({loop}, 0, {extent})", "  " * depth + "{"]
    depth = len(extents)
    axes, loops = ", ".join(f"i{d}" for d in range(depth)), ", ".join("ijk"[:depth])
    block = [f"ScheduleBlock({name})", "{", f"  {axes} = axis.bind({loops})", f"  {store}", "}"]
    lines += ["  " * depth + line for line in block]
    lines += ["  " * d + "}" for d in reversed(range(depth))]
    return [" " * indent + line for line in lines]


def program(*nests: list[str]) -> str:
    return "\n".join(["ScheduleBlock(root)", "{", "  {", *[line for n in nests for line in n], "  }", "}"])


def without_regions(text: str) -> str:
    """The text without the lines of what blocks read and write."""
    return "\n".join(line for line in text.split("\n") if not re.match(r" *(read|write)_buffers\(", line))


SEED_B = nest("B", "B[i0, i1, i2] = (1 + A[i0, i1, i2])")
SEED_C = nest("C", "C[i0, i1, i2] = (2 * B[i1, i0, i2])")
SEED_INLINED = nest("C", "C[i0, i1, i2] = (2 * (1 + A[i1, i0, i2]))")


def vector(name: str, store: str, size: int | str = 8) -> list[str]:
    return nest(name, store, (size,))


def inlined(text: str, **options) -> cinn.StaticShapeGroupScheduler:
    """A scheduler after `do_compute_inline`."""
    scheduler = cinn.StaticShapeGroupScheduler(from_cinn(text, **options))
    scheduler.do_compute_inline()
    return scheduler


def stores(scheduler: cinn.StaticShapeGroupScheduler) -> list[str]:
    return [line.strip() for line in scheduler.ir_schedule.text().split("\n") if "] = " in line]


# ---------------------------------------------------------------------------- the article


def test_the_example_of_the_article_to_the_letter() -> None:
    before = program(SEED_B, SEED_C)
    schedule = cinn.IRSchedule(before)
    assert without_regions(str(schedule)) == before
    schedule.compute_inline("B")
    assert without_regions(str(schedule)) == program(SEED_INLINED)


def test_the_example_of_the_article_computes_the_same() -> None:
    schedule = cinn.IRSchedule(program(SEED_B, SEED_C))
    a = np.arange(32**3, dtype="int32").reshape(32, 32, 32)
    expected = 2 * (1 + a.transpose(1, 0, 2))
    for _ in range(2):
        np.testing.assert_array_equal(run(schedule.func, [a], a.shape, dtype="int32")[0], expected)
        if schedule.has_block("B"):
            schedule.compute_inline("B")


def test_the_steps_of_the_article_by_hand() -> None:
    schedule = cinn.IRSchedule(program(SEED_B, SEED_C))
    root = schedule.block_of(schedule.get_root_block("B"))
    block = schedule.block_of("B")
    store = block.body
    inliner = cinn.ComputeInliner(store.buffer, store)
    assert inliner.body_pattern_allow_inline()
    assert [v.name for v in inliner.idx_vars] == ["i0", "i1", "i2"]
    inliner.src_stmt, inliner.tgt_stmt = cinn.LeafBlockRemovalPlan(block)(root)
    assert inliner.src_stmt is root.body and len(root.body.seq) == 2
    assert list(inliner.tgt_stmt.seq) == [root.body.seq[1]]  # the nest of C, in a list that stays one
    new = inliner(root)
    assert cinn_text(new, regions=False) == program(SEED_INLINED)
    assert store is schedule.block_of("B").body  # nothing was changed in place
    load = schedule.block_of("C").body.value.b
    value = inliner.replace_inlined_tensor(load)
    assert cinn_text(value) == "(1 + A[i1, i0, i2])"
    assert [cinn_text(e) for e in inliner.idx_sub_expr] == ["i1", "i0", "i2"]


def test_twice_and_add_one() -> None:
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((32,), lambda i: b[i] + 1.0, name="C")
    schedule = cinn.IRSchedule(cinn.lower([a, c]))
    rule = cinn.AutoInline(["C"])
    assert rule.init(schedule) is cinn.RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES
    assert rule.number_applicable() == 1
    assert rule.apply(0)
    assert (
        str(schedule)
        == """{
  ScheduleBlock(root)
  {
    {
      serial for (i, 0, 32)
      {
        ScheduleBlock(C)
        {
          i0 = axis.bind(i)
          read_buffers(_A[i0(0:32)])
          write_buffers(_C[i0(0:32)])
          C[i0] = ((A[i0] * 2.00000000f) + 1.00000000f)
        }
      }
    }
  }
}"""
    )
    assert rule.init(schedule) is cinn.RuleApplyType.CANNOT_APPLY and rule.number_applicable() == 0
    (x,) = arrays([(32,)])
    np.testing.assert_allclose(run(schedule.func, [x], (32,))[0], x * 2 + 1, rtol=1e-6)


def test_add_then_relu() -> None:
    shape = (1, 64, 112, 112)
    a, b = te.placeholder(shape, name="A"), te.placeholder((64,), name="B")
    added = te.compute(shape, lambda i, j, k, m: a[i, j, k, m] + b[j], name="var_1")
    relu = te.compute(shape, lambda *i: tir.max(added(*i), tir.const(0.0, "float32")), name="var_2")
    schedule = cinn.IRSchedule(cinn.lower([a, b, relu]))
    rule = cinn.AutoInline(["var_2"])
    (new,) = rule.apply_on_block(schedule, "var_1")
    assert schedule.has_block("var_1") and not new.has_block("var_1")
    text = new.text()
    assert "i0, i1, i2, i3 = axis.bind(0, j, k, a)" in text
    line = "var_2[i0, i1, i2, i3] = cinn_max((A[i0, i1, i2, i3] + B[i1]), 0.00000000f)"
    assert line in text and text.count("ScheduleBlock") == 2
    assert rule.analyse_apply_type(new, "var_2") is cinn.RuleApplyType.CANNOT_APPLY
    assert rule.init(new) is cinn.RuleApplyType.CANNOT_APPLY
    x, y = arrays([shape, (64,)])
    expected = np.maximum(x + y[:, None, None], 0)
    np.testing.assert_allclose(run(new.func, [x, y], shape)[0], expected, rtol=1e-6)


# ---------------------------------------------------------------------------- the other cases


def test_a_chain() -> None:
    text = program(
        vector("B", "B[i0] = (A[i0] + 1.0f)"),
        vector("C", "C[i0] = (B[i0] * 2.0f)"),
        vector("D", "D[i0] = (C[i0] - 3.0f)"),
    )
    done = inlined(text)
    assert stores(done) == ["D[i0] = (((A[i0] + 1.00000000f) * 2.00000000f) - 3.00000000f)"]
    (a,) = arrays([(8,)])
    np.testing.assert_allclose(run(done.ir_schedule.func, [a], (8,))[0], (a + 1) * 2 - 3, rtol=1e-5)


def test_several_consumers_and_several_loads() -> None:
    text = program(
        vector("B", "B[i0] = (A[i0] * 3.0f)"),
        vector("C", "C[i0] = (B[i0] + B[(7 - i0)])"),
        vector("D", "D[i0] = (B[i0] - 1.0f)"),
    )
    done = inlined(text)
    assert done.schedule_block_graph.block_ids() == ["C", "D"]
    (a,) = arrays([(8,)])
    c, d = run(done.ir_schedule.func, [a], (8,), (8,))
    np.testing.assert_allclose(c, a * 3 + a[::-1] * 3, rtol=1e-5)
    np.testing.assert_allclose(d, a * 3 - 1, rtol=1e-5, atol=1e-6)


def test_a_gather() -> None:
    text = program(vector("B", "B[i0] = (A[i0] * 3.0f)"), vector("C", "C[i0] = (B[I[i0]] + 1.0f)", 5))
    done = inlined(text)
    assert stores(done) == ["C[i0] = ((A[I[i0]] * 3.00000000f) + 1.00000000f)"]
    (a,) = arrays([(8,)])
    places = np.array([7, 0, 3, 3, 1], "int32")
    out = np.zeros(5, "float32")
    by_name = {"A": a, "I": places, "C": out}
    func = done.ir_schedule.func
    tvmagic.build(func)(*[by_name[func.buffer_map[p].name] for p in func.params])
    np.testing.assert_allclose(out, a[places] * 3 + 1, rtol=1e-5)


def test_a_gather_through_the_inlined_tensor_itself() -> None:
    text = program(vector("P", "P[i0] = (7 - Q[i0])"), vector("C", "C[i0] = P[P[i0]]"))
    done = inlined(text)
    assert stores(done) == ["C[i0] = (7 - Q[(7 - Q[i0])])"]
    q = np.array([3, 1, 4, 1, 5, 2, 6, 0], "int32")
    p = 7 - q
    np.testing.assert_array_equal(run(done.ir_schedule.func, [q], (8,), dtype="int32")[0], p[p])


def test_a_transposed_read() -> None:
    text = program(
        nest("B", "B[i0, i1] = (A[i0, i1] + R[i1])", (4, 6)), nest("C", "C[i0, i1] = (B[i1, i0] * 2.0f)", (6, 4))
    )
    done = inlined(text)
    assert stores(done) == ["C[i0, i1] = ((A[i1, i0] + R[i0]) * 2.00000000f)"]
    a, r = arrays([(4, 6), (6,)])
    np.testing.assert_allclose(run(done.ir_schedule.func, [a, r], (6, 4))[0], (a + r).T * 2, rtol=1e-5)


REDUCTION = nest("R", "R[i0] = (R[i0] + B[i0, i1])", (4, 6))
SQUARED = nest("B", "B[i0, i1] = (A[i0, i1] * A[i0, i1])", (4, 6))


def test_a_reduction_stays() -> None:
    zero = nest("Z", "R[i0] = 0.0f", (4,))
    text = program(SQUARED, zero, REDUCTION, nest("C", "C[i0] = (R[i0] + 1.0f)", (4,)))
    done = inlined(text)
    assert done.schedule_block_graph.block_ids() == ["Z", "R", "C"]
    (a,) = arrays([(4, 6)])
    np.testing.assert_allclose(run(done.ir_schedule.func, [a], (4,))[0], (a * a).sum(1) + 1, rtol=1e-5)
    conditions = {n.facts["block"]: n.facts.get("condition") for n in notes(text) if not n.facts["inlined"]}
    assert conditions == {"Z": "only_writer", "R": "not_reduction", "C": "not_output"}
    assert [n.facts["block"] for n in notes(text) if n.facts["inlined"]] == ["B"]


def notes(text: str, **options) -> list[passes.Note]:
    with passes.recording() as record:
        inlined(text, **options)
    step = record["DoComputeInline"]
    assert step.before is not step.after or not step.changed
    return record.notes("cinn.auto_inline")


def test_an_output_stays_by_either_name() -> None:
    text = program(vector("B", "B[i0] = (A[i0] * 3.0f)"), vector("C", "C[i0] = (B[i0] + 1.0f)"))
    assert inlined(text, outputs=["B"]).schedule_block_graph.block_ids() == ["B", "C"]
    for name in ("B", "_B"):
        schedule = cinn.IRSchedule(text)
        rule = cinn.AutoInline([name, "C"])
        assert [str(v) for v in rule.verdicts(schedule)] == [
            "`B` stays: `B` is among the outputs",
            "`C` stays: `C` is among the outputs",
        ]
        assert not rule.apply(schedule, "B")
        (a,) = arrays([(8,)])
        np.testing.assert_allclose(run(schedule.func, [a], (8,))[0], a * 3 + 1, rtol=1e-5)


def test_a_branch_stays() -> None:
    loop = vector("B", "B[i0] = (A[i0] * 3.0f)")
    place = next(i for i, line in enumerate(loop) if "B[i0] =" in line)
    pad = loop[place][: len(loop[place]) - len(loop[place].lstrip())]
    branch = ["if ((i0 < 4)) {", "  B[i0] = A[i0]", "} else {", "  B[i0] = 0.0f", "}"]
    text = program(
        [*loop[:place], *[pad + line for line in branch], *loop[place + 1 :]], vector("C", "C[i0] = (B[i0] + 1.0f)")
    )
    done = inlined(text)
    assert done.schedule_block_graph.block_ids() == ["B", "C"]
    assert next(n for n in notes(text) if n.facts["block"] == "B").facts["condition"] == "no_branch"
    (a,) = arrays([(8,)])
    expected = np.where(np.arange(8) < 4, a, 0) + 1
    np.testing.assert_allclose(run(done.ir_schedule.func, [a], (8,))[0], expected, rtol=1e-5)


def test_the_only_leaf_stays() -> None:
    schedule = cinn.IRSchedule(program(vector("B", "B[i0] = (A[i0] * 3.0f)")))
    assert cinn.AutoInline().init(schedule) is cinn.RuleApplyType.CANNOT_APPLY
    with refuses("cinn.compute_inline.only_leaf", error=ScheduleError):
        cinn.LeafBlockRemovalPlan(schedule.block_of("B"))(schedule.block_of("root"))
    two = cinn.IRSchedule(program(vector("B", "B[i0] = (A[i0] * 3.0f)"), vector("C", "C[i0] = (B[i0] + 1.0f)")))
    with refuses("cinn.compute_inline.only_leaf", error=ScheduleError):  # nor is a block of another root removed
        cinn.LeafBlockRemovalPlan(schedule.block_of("B"))(two.block_of("root"))
    (a,) = arrays([(8,)])
    np.testing.assert_allclose(run(schedule.func, [a], (8,))[0], a * 3, rtol=1e-5)


def test_symbolic_extents() -> None:
    text = program(
        nest("B", "B[i0, i1] = (A[i0, i1] + 1.0f)", ("n", "m")), nest("C", "C[i0, i1] = (B[i1, i0] * 2.0f)", ("m", "n"))
    )
    done = inlined(text)
    assert stores(done) == ["C[i0, i1] = ((A[i1, i0] + 1.00000000f) * 2.00000000f)"]
    for shape in ((3, 5), (1, 1), (4, 7)):
        (a,) = arrays([shape])
        np.testing.assert_allclose(run(done.ir_schedule.func, [a], shape[::-1])[0], (a + 1).T * 2, rtol=1e-5)


def test_a_constant_without_loads() -> None:
    done = inlined(program(vector("B", "B[i0] = 5.0f"), vector("C", "C[i0] = (B[i0] + A[i0])")))
    assert stores(done) == ["C[i0] = (5.00000000f + A[i0])"]


def test_an_extern_call_is_skipped() -> None:
    text = program(vector("B", 'B[i0] = call_extern("sqrtf", A[i0])'), vector("C", "C[i0] = (B[i0] + 1.0f)"))
    done = inlined(text)
    assert done.schedule_block_graph.block_ids() == ["B", "C"]
    facts = next(n.facts for n in notes(text) if n.facts["block"] == "B")
    assert (facts["condition"], facts["inlined"]) == ("no_extern_call", False)


# ---------------------------------------------------------------------------- one condition each

A_B = vector("B", "B[i0] = (A[i0] * 3.0f)")
REFUSED = {
    "one_store": program(vector("B", "B[i0] = A[i0]\n      B[(7 - i0)] = A[i0]"), vector("C", "C[i0] = B[i0]")),
    "not_reduction": program(SQUARED, REDUCTION, nest("C", "C[i0] = R[i0]", (4,))),
    "no_self_load": program(vector("B", "B[i0] = (B[i0] + A[i0])"), vector("C", "C[i0] = B[i0]")),
    "only_writer": program(A_B, vector("E", "B[i0] = 0.0f"), vector("C", "C[i0] = B[i0]")),
    "plain_indices": program(vector("B", "B[(7 - i0)] = A[i0]"), vector("C", "C[i0] = B[i0]")),
    "no_other_variable": program(nest("B", "B[i0] = A[i0, i1]", (8, 4)), vector("C", "C[i0] = B[i0]")),
    "inputs_stay": program(
        vector("X", "X[i0] = A[i0]"),
        vector("B", "B[i0] = X[i0]"),
        vector("Y", "X[i0] = 0.0f"),
        vector("C", "C[i0] = (B[i0] + X[i0])"),
    ),
    "not_seen_outside": program(vector("X", "X[i0] = A[i0]"), vector("B", "B[i0] = A[i0]")),
}


@pytest.mark.parametrize("condition", REFUSED)
def test_what_may_not_be_inlined_says_why(condition: str) -> None:
    schedule = cinn.IRSchedule(REFUSED[condition])
    before = schedule.mod
    block = "R" if condition == "not_reduction" else "B"
    with pytest.raises(ScheduleError, match=f"`{condition}`"):
        schedule.compute_inline(block)
    assert schedule.mod is before
    verdict = cinn.AutoInline().verdict(schedule, block)
    assert not verdict.can_inline and verdict.condition is not None and verdict.condition.name == condition


# ---------------------------------------------------------------------------- into the producer


def test_reverse_compute_inline() -> None:
    text = program(
        nest("B", "B[i0, i1] = (A[i0, i1] + 1.0f)", (4, 6)), nest("C", "C[i0, i1] = (B[i1, i0] * R[i0])", (6, 4))
    )
    schedule = cinn.IRSchedule(text)
    other = tir.Schedule(to_tensorir(schedule.func))
    schedule.reverse_compute_inline("C")
    assert "C[i1, i0] = ((A[i0, i1] + 1.00000000f) * R[i1])" in schedule.text()
    a, r = arrays([(4, 6), (6,)])
    np.testing.assert_allclose(run(schedule.func, [a, r], (6, 4))[0], ((a + 1) * r).T, rtol=1e-5)
    other.reverse_compute_inline(other.get_block("C"))
    assert structural_equal(other.mod["main"], to_tensorir(schedule.func))


NOT_REVERSED = {
    "only_reader": program(A_B, vector("C", "C[i0] = B[i0]"), vector("D", "D[i0] = B[i0]")),
    "one_load": program(A_B, vector("C", "C[i0] = (B[i0] + B[i0])")),
    "plain_load": program(A_B, vector("C", "C[i0] = B[(7 - i0)]")),
    "same_domain": program(A_B, vector("C", "C[i0] = B[i0]", 4)),
    "no_other_variable": program(A_B, nest("C", "C[i0, i1] = B[i0]", (8, 4))),
    "one_producer": program(A_B, vector("E", "B[i0] = 0.0f"), vector("C", "C[i0] = B[i0]")),
    "nothing_between": program(A_B, vector("E", "C[i0] = 0.0f"), vector("C", "C[i0] = B[i0]")),
}


@pytest.mark.parametrize("condition", NOT_REVERSED)
def test_what_may_not_be_written_into_its_producer_says_why(condition: str) -> None:
    schedule = cinn.IRSchedule(NOT_REVERSED[condition])
    with pytest.raises(ScheduleError, match=f"`{condition}`"):
        schedule.reverse_compute_inline("C")


# ---------------------------------------------------------------------------- the other parts


def test_apply_until_nothing_is_left_and_its_errors() -> None:
    text = program(*[vector(f"T{n}", f"T{n}[i0] = (T{n - 1}[i0] + 1.0f)") for n in range(1, 6)])
    schedule = cinn.IRSchedule(text)
    rule = cinn.AutoInline(["T5"])
    with refuses("cinn.auto_rule.not_initialized"):
        rule.apply(0)
    rule.init(schedule)
    assert rule.number_applicable() == 4
    with pytest.raises(TVMagicError, match=r"\[0, 4\)"):
        rule.apply(4)
    assert rule.apply(2) and rule.number_applicable() == 3
    assert rule.apply_randomly(seed=1)
    left = [schedule.block_of(b).name_hint for b in schedule.get_all_blocks()]
    assert len(left) == 3 and "T3" not in left
    assert rule.apply_all(schedule) == left[:-1]
    assert rule.apply_all(schedule) == []
    assert rule.init(schedule) is cinn.RuleApplyType.CANNOT_APPLY
    with refuses("cinn.auto_inline.not_applicable"):
        rule.apply_on_block(schedule, "T5")


def test_the_graph_and_its_walks() -> None:
    text = program(
        vector("B", "B[i0] = A[i0]"),
        vector("X", "X[i0] = E[i0]"),
        vector("C", "C[i0] = B[i0]"),
        vector("D", "D[i0] = (B[i0] + X[i0])"),
        vector("F", "F[i0] = (C[i0] + D[i0])"),
    )
    graph = cinn.ScheduleBlockGraph(cinn.IRSchedule(text))
    assert [n.id for n in graph["D"].producers] == ["B", "X"] and [n.id for n in graph["B"].consumers] == ["C", "D"]
    assert [n.id for n in graph.start_points()] == ["B", "X"] and [n.id for n in graph.end_points()] == ["F"]
    assert {n.id for n in graph["F"].upstream_nodes()} == set("BXCD")
    assert {n.id for n in graph["X"].downstream_nodes()} == set("DF")
    order: list[str] = []
    graph.dfs_topo_walk(lambda node: order.append(node.id), is_reverse=False)
    assert order == ["B", "C", "X", "D", "F"]
    backward: list[str] = []
    graph.dfs_topo_walk(lambda node: backward.append(node.id))
    assert backward[0] == "F" and backward.index("D") < backward.index("B")
    with refuses("cinn.schedule.unknown_block"):
        graph["Q"]


def test_the_record_names_every_block_tried() -> None:
    text = program(A_B, vector("C", "C[i0] = B[i0]"))
    with passes.recording() as record:
        inlined(text)
    assert [n.facts["block"] for n in record.notes("cinn.auto_inline")] == ["C", "B"]
    assert [step.name for step in record] == ["DoComputeInline", "compute_inline"]
    assert record["DoComputeInline"].changed


def test_the_trace_replays_on_a_tensorir_schedule() -> None:
    text = program(SEED_B, SEED_C)
    schedule = cinn.IRSchedule(text)
    schedule.compute_inline("B")
    other = tir.Schedule(from_cinn(text))
    schedule.trace.apply_to_schedule(other, remove_postproc=False)
    assert structural_equal(other.mod["main"], schedule.func)
