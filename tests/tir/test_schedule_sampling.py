"""Samples: drawn as TVM draws them, within what is asked for; decisions kept, changed and mended."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from typing import Any

import pytest

from tvmagic import te, tir
from tvmagic.errors import DefectError
from tvmagic.ir import PrimFunc, assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule import Trace
from tvmagic.tir.schedule.random import LinearCongruentialEngine

SEEDS = range(1, 2**31 - 1, 20_000_003)


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func(private=True)\n" + text.strip())


CHAIN = """
def f(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    B = T.alloc_buffer((64, 64))
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(64, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)
"""
INTO_SUM = """
def f(A: T.Buffer((16, 64), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16, 64))
    for i, j in T.grid(16, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for u, i, k in T.grid(1, 16, 64):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vk]
"""
BETWEEN_SUM = (
    INTO_SUM.replace("for u, i, k in T.grid(1, 16, 64)", "for i, k, u, j in T.grid(16, 64, 1, 8)")
    .replace("C: T.Buffer((16,),", "C: T.Buffer((16, 8),")
    .replace('vi, vk = T.axis.remap("SR", [i, k])', 'vi, vk, vj = T.axis.remap("SRS", [i, k, j])')
    .replace("C[vi]", "C[vi, vj]")
)


def test_the_engine() -> None:
    """The 10,000th number from the seed 1 is the one that the C++ standard gives for `minstd_rand`."""
    engine = LinearCongruentialEngine(1)
    for _ in range(9_999):
        engine.next()
    assert engine.next() == 399268537


def test_a_fork_draws_once() -> None:
    one, two = LinearCongruentialEngine(7), LinearCongruentialEngine(7)
    forked = one.fork_seed()
    assert forked == two.next() * 32767 % 1999999973 and one.state == two.state


def test_forked_schedules_go_apart() -> None:
    sch = tir.Schedule(parse(CHAIN), seed=1_000_000_007)
    again = tir.Schedule(parse(CHAIN), seed=1_000_000_007)
    assert [sch.fork_seed() for _ in range(3)] == [again.fork_seed() for _ in range(3)]
    copy = sch.copy()
    loops = [s.get_loops(s.get_block("C"))[0] for s in (sch, copy)]
    drawn = [
        [[s.get(f) for f in s.sample_perfect_tile(loop, 3, -1)] for _ in range(8)]
        for s, loop in zip((sch, copy), loops)
    ]
    assert drawn[0] != drawn[1]
    sch.seed(5)
    first = [sch.get(f) for f in sch.sample_perfect_tile(loops[0], 4)]
    sch.seed(5)
    assert [sch.get(f) for f in sch.sample_perfect_tile(loops[0], 4)] == first


def _tile(seed: int, n: int, extent: int = 64, most: int = -1) -> list[int]:
    text = CHAIN.replace("64", str(extent))
    sch = tir.Schedule(parse(text), seed=seed)
    return [sch.get(f) for f in sch.sample_perfect_tile(sch.get_loops("C")[0], n, most)]


def test_two_factors_by_hand() -> None:
    """The power of each prime is drawn for the first factor: 7 values of 2**6, so x * 7 // 2147483646."""
    for seed in SEEDS:
        drawn = seed * 48271 % 2147483647
        power = drawn // (2147483646 // 7)
        if power < 7:
            assert _tile(seed, 2) == [2**power, 2 ** (6 - power)]


def test_three_factors_by_hand() -> None:
    """Two of 8 places are drawn as bars between 6 stars."""
    seed = 1_234_567_890
    one = seed * 48271 % 2147483647
    two = one * 48271 % 2147483647
    first, second = one // (2147483646 // 8), two // (2147483646 // 7)
    low, high = sorted((first, second + (second >= first)))
    assert _tile(seed, 3) == [2**low, 2 ** (high - low - 1), 2 ** (7 - high)]


@pytest.mark.parametrize(("extent", "n", "most"), [(64, 4, 16), (60, 2, 3), (97, 3, 1), (1, 3, 16), (36, 5, -1)])
def test_tiles(extent: int, n: int, most: int) -> None:
    seen = set()
    for seed in SEEDS[::8]:
        tile = _tile(seed, n, extent, most)
        assert len(tile) == n and math.prod(tile) == extent and (most == -1 or tile[-1] <= most)
        seen.add(tuple(tile))
    assert len(seen) > (1 if extent > 1 else 0)


def test_every_tile_is_as_likely() -> None:
    """12 has 18 tiles of three factors: 6 ways to share 2 * 2, times 3 for the prime 3."""
    engine = LinearCongruentialEngine(99)
    from tvmagic.tir.schedule.primitives.sampling import sample_tile

    counts = Counter(tuple(sample_tile(engine, 12, 3)) for _ in range(9_000))
    assert len(counts) == 18 and all(400 < count < 600 for count in counts.values())


def test_partitioned_tiles() -> None:
    sch = tir.Schedule(parse(CHAIN), seed=17)
    loop = sch.get_loops("C")[0]
    for _ in range(40):
        tile = [sch.get(f) for f in sch.sample_partitioned_tile(loop, 3, 1, 8)]
        assert math.prod(tile) == 64 and tile[1] * tile[2] % 8 == 0

    def decided(decision: list[int]) -> list[int]:
        return [sch.get(f) for f in sch.sample_partitioned_tile(loop, 3, 1, 8, decision=decision)]

    assert decided([4, 4, 4]) == [4, 4, 4]
    assert decided([16, 2, 2]) == [8, 8, 1]  # 2 * 2 is no multiple of 8
    assert decided([1, 8, 3]) == [1, 1, 64]  # 3 does not divide 64: the last takes all


def test_decisions_of_other_extents() -> None:
    sch = tir.Schedule(parse(CHAIN))
    loop = sch.get_loops("C")[0]
    for decision, mended in ([4, 4, 4], [4, 4, 4]), ([9, 3, 8], [1, 8, 8]), ([1, 1, 5], [1, 1, 64]):
        assert [sch.get(f) for f in sch.sample_perfect_tile(loop, 3, decision=decision)] == mended


def _location(text: str, seed: int | None = None, decision: int | None = None) -> tuple[tir.Schedule, Any, int]:
    sch = tir.Schedule(parse(text), seed=seed, debug_mask="all")
    loop = sch.sample_compute_location("B", decision)
    (taken,) = sch.trace.decisions.values()
    return sch, loop, taken


@pytest.mark.parametrize(
    ("text", "places"), [(CHAIN, {-2, -1, 0, 1}), (INTO_SUM, {-2, -1, 1}), (BETWEEN_SUM, {-2, -1, 0, 1})]
)
def test_places_to_compute(text: str, places: set[int]) -> None:
    """Each sampled place is one if compute_at succeeds; unit loops and loops that only reduce are left out."""
    found = set()
    for seed in SEEDS[::4]:
        sch, loop, taken = _location(text, seed)
        sch.compute_at(sch.get_block("B"), loop)
        found.add(taken)
    assert found == places


def test_decided_places() -> None:
    assert _location(INTO_SUM, decision=1)[2] == 1
    assert _location(INTO_SUM, decision=2)[2] == 1  # the loop k is no place: the one before it
    assert _location(INTO_SUM, decision=0)[2] == -1  # nor is the unit loop
    sch = tir.Schedule(parse(CHAIN))
    sch.sample_compute_location("C", decision=0)  # an output has nowhere to go
    assert list(sch.trace.decisions.values()) == [-1]


# ---------------------------------------------------------------------------- decisions in traces


def _sampled(seed: int = 11) -> tir.Schedule:
    sch = tir.Schedule(parse(CHAIN), seed=seed)
    loop = sch.get_loops(sch.get_block("C"))[0]
    sch.sample_categorical([1, 2], [0.5, 0.5])  # nobody uses it
    sch.split(loop, sch.sample_perfect_tile(loop, 2))
    sch.enter_postproc()
    sch.annotate(sch.get_loops("B")[0], "note", 1)
    return sch


def _kinds(trace: Trace) -> list[str]:
    return [inst.kind.name for inst in trace.insts]


def test_another_decision() -> None:
    sch = _sampled()
    inst = next(i for i in sch.trace.insts if i.kind.name == "SamplePerfectTile")
    changed = sch.trace.with_decision(inst, [2, 32], remove_postproc=True)
    assert sch.trace.get_decision(inst) != [2, 32] and changed.get_decision(inst) == [2, 32]
    assert "EnterPostproc" in _kinds(sch.trace) and _kinds(changed)[-1] == "Split"
    new = tir.Schedule(parse(CHAIN))
    changed.apply_to_schedule(new, remove_postproc=False)
    assert [int(new.get(x).extent) for x in new.get_loops("C")] == [2, 32, 64]


def test_simplified() -> None:
    trace = _sampled().trace
    whole = trace.simplified(remove_postproc=False)
    assert "SampleCategorical" not in _kinds(whole) and "EnterPostproc" in _kinds(whole)
    short = trace.simplified(remove_postproc=True)
    assert _kinds(short) == ["GetBlock", "GetLoops", "SamplePerfectTile", "Split"]
    assert set(short.decisions) == {short.insts[2]}
    new = tir.Schedule(parse(CHAIN))
    short.apply_to_schedule(new, remove_postproc=True)
    assert len(new.get_loops("C")) == 3


def test_the_decision_provider() -> None:
    trace, asked = _sampled().trace, []

    def provide(inst: Any, inputs: list[Any], attrs: list[Any], decision: Any) -> Any:
        asked.append((inst.kind.name, decision))
        return [16, 4] if inst.kind.name == "SamplePerfectTile" else decision

    new = tir.Schedule(parse(CHAIN))
    trace.apply_to_schedule(new, remove_postproc=False, decision_provider=provide)
    assert [int(new.get(x).extent) for x in new.get_loops("C")] == [16, 4, 64]
    assert [name for name, _ in asked] == _kinds(trace)
    assert [16, 4] in new.trace.decisions.values()


def test_what_a_trace_shows(capsys: pytest.CaptureFixture[str]) -> None:
    sch = _sampled()
    sch.trace.show()
    shown = capsys.readouterr().out
    assert "sch.split(loop=l1" in shown and "sch.enter_postproc()" in shown and "decision=" in shown
    sch.show()
    shown = capsys.readouterr().out
    assert 'T.block("C")' in shown and "sch.enter_postproc()" in shown


def test_pop_and_append() -> None:
    trace = _sampled().trace.copy()
    last = trace.pop()
    assert last is not None and last.kind.name == "Annotate" and last not in trace.insts
    inst = next(i for i in trace.insts if i.kind.name == "SampleCategorical")
    trace.append(last, None)
    assert trace.insts[-1] is last and trace.get_decision(inst) in (0, 1)
    assert Trace().pop() is None


def test_debug_masks() -> None:
    for mask, number in (("none", 0), ("all", 3), (1, 1), (2, 2)):
        assert tir.Schedule(parse(CHAIN), debug_mask=mask).state.debug_mask == number
    sch = tir.Schedule(parse(CHAIN), debug_mask="all")
    sref = sch.get_sref(sch.get_loops("C")[1])
    sref.seq_index = 3  # what no primitive may leave behind
    with pytest.raises(DefectError, match="`i`"):
        sch.parallel(sch.get_loops("B")[0])
    for mask, fails in ((2, True), (1, False)):
        sch = tir.Schedule(parse(CHAIN), debug_mask=mask)
        state = sch.state
        block = sch.get_sref(sch.get_block("C"))
        assert state.get_cached_flags(block) == (True, True, True)
        state.flags.cover = dict.fromkeys(state.flags.cover, False)  # as if the block could read what is not written
        with pytest.raises(DefectError, match="`.*`") if fails else contextlib.nullcontext():
            sch.parallel(sch.get_loops("B")[0])


def test_sampled_numbers_are_names_in_the_json_of_a_trace() -> None:
    a = te.placeholder((8, 12), name="A")
    sch = tir.Schedule(te.create_prim_func([a, te.compute((8, 12), lambda i, j: a[i, j] + 1, name="B")]), seed=1)
    loop, _ = sch.get_loops(sch.get_block("B"))
    sch.split(loop, sch.sample_perfect_tile(loop, 2))
    steps, decisions = sch.trace.as_json()
    assert [step[0] for step in steps] == ["GetBlock", "GetLoops", "SamplePerfectTile", "Split"]
    assert steps[2][3] == ["v3", "v4"] and steps[3][1] == ["l1", "v3", "v4"]
    assert [place for place, _ in decisions] == [2]


@pytest.mark.parametrize(
    "sample", ["sample_perfect_tile(i, 2)", "sample_perfect_tile(i, 1)", "sample_partitioned_tile(i, 2, 1, 1)"]
)
def test_the_tile_of_a_loop_without_iterations_is_replayed(sample: str) -> None:
    a = te.placeholder((0, 4), name="A")
    func = te.create_prim_func([a, te.compute((0, 4), lambda i, j: a[i, j] + 1, name="B")])
    sch = tir.Schedule(func, seed=1)
    i, _ = sch.get_loops("B")
    sch.split(i, eval(f"sch.{sample}", {"sch": sch, "i": i}))
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
