"""The rules of automatic scheduling: what each makes, whether it can be applied, results in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from cinn_programs import run
from refusals import refuses
from step_programs import check, program

from tvmagic import cinn, te
from tvmagic.cinn import IRSchedule, RuleApplyType
from tvmagic.cinn.rules import GPU


def wide(size: int) -> IRSchedule:
    a = te.placeholder((size,), name="A")
    return IRSchedule(cinn.lower([a, te.compute((size,), lambda i: a[i] + 1.0, name="B")]))


def test_skip_changes_nothing() -> None:
    schedule = program("chain").schedule()
    rule = cinn.SkipRule()
    assert rule.init(schedule) is RuleApplyType.APPLY and rule.number_applicable() == 1
    before = str(schedule)
    rule.apply(0)
    assert str(schedule) == before and rule.get_rule_name() == "SkipRule"


def test_auto_unroll_sets_a_step_on_the_root() -> None:
    assert cinn.AutoUnroll().init(program("chain").schedule()) is RuleApplyType.CANNOT_APPLY
    seen = set()
    for seed in range(6):
        schedule = program("row_max").schedule()
        rule = cinn.AutoUnroll(None, seed)
        assert rule.init(schedule) is RuleApplyType.APPLY
        rule.apply(0)
        seen.add(schedule.root.annotations["auto_unroll_max_step"].value)
        assert "attrs(auto_unroll_max_step:" in schedule.text()
        check("row_max", schedule)
    assert seen <= {0, 8, 32, 128} and len(seen) > 1


@pytest.mark.parametrize(
    ("size", "loops"),
    [
        (100, ["thread_bind[threadIdx.x] for (i, 0, 100)"]),
        (5000, ["thread_bind[blockIdx.x] for (i, 0, 5)", "thread_bind[threadIdx.x] for (i_0, 0, 1024)"]),
        (
            300000,
            [
                "thread_bind[blockIdx.x] for (i_0, 0, 256)",
                "thread_bind[threadIdx.x] for (i_1, 0, 1024)",
                "serial for (i, 0, 2)",
            ],
        ),
    ],
)
def test_auto_bind(size: int, loops: list[str]) -> None:
    schedule = wide(size)
    rule = cinn.AutoBind()
    assert rule.init(schedule) is RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES
    rule.apply(0)
    assert [x.strip() for x in schedule.text().split("\n") if " for (" in x] == loops
    a = np.arange(size, dtype="float32")
    np.testing.assert_array_equal(run(schedule.func, [a], (size,))[0], a + 1)


@pytest.mark.parametrize(
    ("size", "extents"),
    [
        (1, [1]),
        (1023, [1023]),
        (1024, [1024]),
        (1025, [2, 1024]),
        (256 * 1024, [256, 1024]),
        (256 * 1024 + 1, [256, 1024, 2]),
    ],
)
def test_how_many_threads_and_blocks_there_are_at_most(size: int, extents: list[int]) -> None:
    schedule = wide(size)
    rule = cinn.AutoBind()
    rule.init(schedule)
    rule.apply(0)
    assert [int(str(schedule.loop_of(loop).extent)) for loop in schedule.get_loops("B")] == extents


@pytest.mark.parametrize("config", [cinn.TilingConfig(), cinn.TilingConfig(read_level=None), GPU])
@pytest.mark.parametrize("seed", range(2))
def test_multi_level_tiling(config: cinn.TilingConfig, seed: int) -> None:
    schedule = program("matmul").schedule(seed)
    rule = cinn.MultiLevelTiling(None, config)
    assert rule.init(schedule) is RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES and rule.applicable == ["B"]
    rule.apply(0)
    assert "B_local_temp_buffer" in schedule.text()
    if config.read_level:
        assert "cooperative_process:0" in schedule.text()
    check("matmul", schedule)
    assert cinn.MultiLevelTiling().init(program("chain").schedule()) is RuleApplyType.CANNOT_APPLY
    with refuses("cinn.auto_rule.inputs_used_once"):
        rule.apply_at(program("chain").schedule(), "B")


def test_the_target_says_which_tiling_it_is() -> None:
    assert cinn.MultiLevelTiling("llvm").config == cinn.TilingConfig() == cinn.MultiLevelTiling().config
    assert cinn.MultiLevelTiling("cuda -arch=sm_80").config == GPU
    assert cinn.MultiLevelTiling("cuda", cinn.TilingConfig(bound=())).config.structure == "SSRSRS"


def test_more_elements_than_threads_in_two_dimensions() -> None:
    """513 x 1030 are more than 256 x 1024, and neither divides: that each iteration has an element of its own is proved."""
    a = te.placeholder((513, 1030), name="A")
    schedule = IRSchedule(cinn.lower([a, te.compute((513, 1030), lambda i, j: a[i, j] + 1.0, name="B")]))
    rule = cinn.AutoBind()
    rule.init(schedule)
    rule.apply(0)
    assert "thread_bind[threadIdx.x] for (i_j_fused_1, 0, 1024)" in schedule.text()
    data = np.arange(513 * 1030, dtype="float32").reshape(513, 1030)
    np.testing.assert_array_equal(run(schedule.func, [data], data.shape)[0], data + 1)


def test_rules_on_a_block_leave_the_given_state() -> None:
    state = cinn.SearchState(program("matmul").schedule())
    before = str(state.ir_schedule)
    (new,) = cinn.MultiLevelTiling().apply_on_block(state, "B")
    assert str(state.ir_schedule) == before and new != state and state == state.copy()
    assert cinn.SearchState(program("matmul").schedule(), 1.0) < cinn.SearchState(program("matmul").schedule(), 2.0)
    assert not cinn.SearchState(program("matmul").schedule(), 1.0) < cinn.SearchState(program("matmul").schedule(), 1.0)
    assert len({state, state.copy()}) == 1


@pytest.mark.parametrize("strategy", ["rule_prune", "random_prune", "random"])
def test_sketches(strategy: str) -> None:
    states = cinn.SearchSpace(program("matmul").schedule(), seed=4).generate_sketches(3, strategy)
    assert 1 <= len(states) <= 3 and len(set(states)) == len(states)
    check("matmul", states[0].ir_schedule)
    with refuses("cinn.search.unknown_strategy"):
        cinn.SearchSpace(program("chain").schedule()).generate_sketches(1, "all")


def test_three_loops_become_threads() -> None:
    a = te.placeholder((4, 5, 6), name="A")
    schedule = IRSchedule(cinn.lower([a, te.compute((4, 5, 6), lambda i, j, k: a[i, j, k] + 1.0, name="B")]))
    rule = cinn.AutoBind()
    rule.init(schedule)
    rule.apply(0)
    assert "thread_bind[threadIdx.x] for (i_j_k_fused, 0, 120)" in schedule.text()


def test_levels_of_more_blocks_than_there_are_stay_as_they_are() -> None:
    """Tiles are at most 64 wide, so that at least 32 x 64 of them are outside."""
    a, w, k = (
        te.placeholder((2048, 4), name="A"),
        te.placeholder((4, 4096), name="W"),
        te.reduce_axis((0, 4), name="k0"),
    )
    b = te.compute((2048, 4096), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="B")
    config = cinn.TilingConfig("SSRR", read_level=None, write_level=None, bound=("blockIdx.x",))
    for seed in range(3):
        schedule = IRSchedule(cinn.lower([a, w, b]), seed=seed)
        rule = cinn.MultiLevelTiling(None, config)
        rule.init(schedule)
        rule.apply(0)
        assert "thread_bind" not in schedule.text()
