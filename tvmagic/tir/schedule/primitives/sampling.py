"""Primitives that sample: which tile sizes, which value, where to compute a block.

Each takes a decision made before (when a trace is replayed) or draws one from the schedule's random
numbers, and gives both the result and the decision, which the trace keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.ir import IntImm
from tvmagic.tir.schedule.error import ScheduleError
from tvmagic.tir.schedule.instruction import BlockRef, Loop, Size, Sizes, primitive
from tvmagic.tir.schedule.random import LinearCongruentialEngine
from tvmagic.tir.schedule.requirements import is_output, scope_root
from tvmagic.tir.schedule.sref import StmtSRef
from tvmagic.tir.schedule.state import ScheduleState, children_of


def prime_factors(number: int) -> list[int]:
    """The prime factors of a positive number, each as often as it divides it, in order."""
    factors: list[int] = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        factors.append(number)
    return factors


def sample_tile(random: LinearCongruentialEngine, extent: int, parts: int) -> list[int]:
    """`parts` factors of `extent`: each prime factor goes to a part drawn at random."""
    tile = [1] * parts
    for prime in prime_factors(extent):
        tile[random.integer(0, parts)] *= prime
    return tile


@primitive("SampleCategorical", pure=True)
def sample_categorical(
    state: ScheduleState,
    random: LinearCongruentialEngine,
    candidates: list[int],
    probs: list[float],
    decision: int | None = None,
) -> tuple[Size, Any]:
    """One of `candidates`, each as likely as its number in `probs` says; `decision` is its place."""
    if len(candidates) != len(probs) or not candidates:
        raise ScheduleError("sample_categorical takes as many probabilities as candidates, one or more")
    choice = random.weighted([float(p) for p in probs]) if decision is None else int(decision)
    if not 0 <= choice < len(candidates):
        raise ScheduleError(f"the decision {choice} is not a place among {len(candidates)} candidates")
    return int(candidates[choice]), choice


def _constant_extent(loop: StmtSRef) -> int | None:
    extent = loop.loop.extent
    return extent.value if isinstance(extent, IntImm) else None


def _adjusted(decision: Sequence[Any], extent: int) -> list[int]:
    """A decision made for another extent: inner factors stay while they divide it."""
    tile: list[int] = []
    left = extent
    for factor in reversed([int(f) for f in decision[1:]]):
        factor = factor if factor > 0 and left % factor == 0 else 1
        tile.append(factor)
        left //= factor
    return [left, *reversed(tile)]


@primitive("SamplePerfectTile", pure=True)
def sample_perfect_tile(
    state: ScheduleState,
    random: LinearCongruentialEngine,
    loop: Loop,
    n: int,
    max_innermost_factor: int = 16,
    decision: list[int] | None = None,
) -> tuple[Sizes, Any]:
    """`n` factors whose product is the loop's extent, the last at most `max_innermost_factor`.

    For a loop with a symbolic extent the factors are 1, and the first is to be inferred.
    """
    if n <= 0:
        raise ScheduleError(f"a tile has one factor or more, not {n}", loop)
    extent = _constant_extent(loop)
    if extent is None:
        return [1] * n, [1] * n
    if decision is not None:
        if len(decision) != n:
            raise ScheduleError(f"the decision has {len(decision)} factors, not {n}", loop)
        tile = _adjusted(decision, extent)
        return tile, tile
    while True:
        tile = sample_tile(random, extent, n)
        if max_innermost_factor == -1 or n == 1 or tile[-1] <= max_innermost_factor:
            return tile, tile


@primitive("SamplePartitionedTile", pure=True)
def sample_partitioned_tile(
    state: ScheduleState,
    random: LinearCongruentialEngine,
    loop: Loop,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: list[int] | None = None,
) -> tuple[Sizes, Any]:
    """`n` factors of the loop's extent; those from `partition_pos` on multiply to a multiple of
    `innerpart_factor`.

    Where `innerpart_factor` does not divide the extent, all the factors but the first are 1.
    """
    extent = _constant_extent(loop)
    if extent is None:
        return [1] * n, [1] * n
    if not 0 <= partition_pos <= n:
        raise ScheduleError(f"the partition position lies in [0, {n}], not {partition_pos}", loop)
    if decision is not None:
        tile = _adjusted(decision, extent)
        return tile, tile
    if extent % innerpart_factor or partition_pos in (0, n):
        tile = [extent, *[1] * (n - 1)] if extent % innerpart_factor else sample_tile(random, extent, n)
        return tile, tile
    outer = sample_tile(random, extent // innerpart_factor, partition_pos + 1)
    inner = sample_tile(random, outer.pop() * innerpart_factor, n - partition_pos)
    tile = [*outer, *inner]
    return tile, tile


@primitive("SampleComputeLocation", pure=True)
def sample_compute_location(
    state: ScheduleState, random: LinearCongruentialEngine, block: BlockRef, decision: int | None = None
) -> tuple[Loop, Any]:
    """A loop under which a block could be computed, or a mark: inline it, or leave it where it is.

    The decision is -2 for inlining, -1 for leaving it, else the place of the loop.
    """
    root = scope_root(state, block)
    places = _compute_places(state, block, root)
    if decision is None:
        decision = random.integer(-2, len(places))
    if decision == -2:
        return StmtSRef.inline_mark(), -2
    if not 0 <= decision < len(places):
        return StmtSRef.root_mark(), -1
    return places[decision], decision


def _compute_places(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> list[StmtSRef]:
    """The loops that hold all consumers of a block, outermost first."""
    consumers = state.get_block_scope(root).consumers(block)
    if not consumers or is_output(state, block, root):
        return []
    shared = state.loops_of(consumers[0])
    for other in consumers[1:]:
        around = set(state.loops_of(other))
        shared = [loop for loop in shared if loop in around]
    own = set(state.loops_of(block))
    return [loop for loop in shared if loop not in own and children_of(loop.loop)]
