"""Primitives that sample: which tile sizes, which value, where to compute a block.

Each takes a decision made before (when a trace is replayed) or draws one from the schedule's random
numbers, and gives both the result and the decision, which the trace keeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ir import IntImm, IterVar
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop, Size, Sizes, primitive
from tvmagic.tir.schedule.primitives.compute_at import compute_at
from tvmagic.tir.schedule.primitives.inline import compute_inline
from tvmagic.tir.schedule.random import LinearCongruentialEngine
from tvmagic.tir.schedule.requirements import scope_root
from tvmagic.tir.schedule.state import ScheduleState

_LARGE_PRIME = 65536  # primes from here on count as one indivisible factor
_MOST_FACTORS = 1024  # of a tile: each becomes a loop
_TRIES = 10_000


def prime_powers(number: int) -> list[tuple[int, int]]:
    """The primes that divide a positive number, in order, each with its power."""
    found: list[tuple[int, int]] = []
    prime = 2
    while prime * prime <= number and prime < _LARGE_PRIME:
        power = 0
        while number % prime == 0:
            number //= prime
            power += 1
        if power:
            found.append((prime, power))
        prime += 1
    if number > 1:
        found.append((number, 1))
    return found


def _shared_power(random: LinearCongruentialEngine, power: int, parts: int) -> list[int]:
    """`parts` numbers from 0 on that sum to `power`, each such list as likely as the others.

    The places of `parts - 1` bars between `power` stars, in a row, say how the stars are shared out.
    """
    places = power + parts - 1
    bars = [*sorted(random.distinct(places, parts - 1)), places]
    return [bar - before - 1 for before, bar in zip([-1, *bars], bars)]


def sample_tile(random: LinearCongruentialEngine, extent: int, parts: int) -> list[int]:
    """`parts` factors of `extent`; the power of each of its primes is shared out evenly at random.

    The numbers are drawn as TVM draws them, so that a seed gives the same tile.
    """
    tile = [1] * parts
    if parts == 1:
        return [extent]
    for prime, power in prime_powers(extent):
        if parts == 2 and prime < _LARGE_PRIME:
            first = random.integer(0, power + 1)
            shares = [first, power - first]
        elif power == 1:
            at = random.integer(0, parts)
            shares = [int(i == at) for i in range(parts)]
        else:
            shares = _shared_power(random, power, parts)
        tile = [factor * prime**share for factor, share in zip(tile, shares)]
    return tile


@primitive("SampleCategorical", pure=True)
def sample_categorical(
    state: ScheduleState,
    random: LinearCongruentialEngine,
    candidates: list[int],
    probs: list[float],
    decision: int | None = None,
) -> tuple[Size, Any]:
    """One of `candidates`, each as likely as its number in `probs` says; `decision` is its place.

    Example
    -------
    >>> factor = sch.sample_categorical([4, 8, 16], [0.25, 0.25, 0.5], decision=1)
    >>> sch.get(factor)
    8
    """
    if len(candidates) != len(probs) or not candidates:
        raise ScheduleError(
            "sample_categorical takes as many probabilities as candidates, one or more",
            code="sample_categorical.wrong_probabilities",
        )
    choice = random.weighted([float(p) for p in probs]) if decision is None else int(decision)
    if not 0 <= choice < len(candidates):
        raise ScheduleError(
            f"the decision {choice} is not a place among {len(candidates)} candidates",
            code="sample_categorical.decision_out_of_range",
        )
    return int(candidates[choice]), choice


def _tiled_extent(loop: StmtSRef) -> int | None:
    """The extent that the factors of a tile multiply to; the factors of a loop without iterations are 1."""
    extent = _constant_extent(loop)
    return None if extent is None else max(extent, 1)


def _constant_extent(loop: StmtSRef) -> int | None:
    extent = loop.loop.extent
    return extent.value if isinstance(extent, IntImm) else None


def _unknown_tile(n: int) -> tuple[list[Any], list[int]]:
    """The factors of a loop with a symbolic extent, the first to be inferred; and the decision that says so."""
    return [None, *[1] * (n - 1)], [-1, *[1] * (n - 1)]


def _adjusted(decision: Sequence[Any], extent: int) -> list[int]:
    """A decision made for another extent: inner factors stay while they divide it, the next takes what is left."""
    tile: list[int] = []
    left = extent
    for factor in reversed([int(f) for f in decision[1:]]):
        factor = factor if factor > 0 and left % factor == 0 else left
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

    Example
    -------
    >>> i, j = sch.get_loops("B")
    >>> outer, inner = sch.split(i, sch.sample_perfect_tile(i, 2, decision=[4, 4]))
    >>> sch.get(outer).extent, sch.get(inner).extent
    (4, 4)
    """
    if not 0 < n <= _MOST_FACTORS:
        raise ScheduleError(
            f"a tile has between 1 and {_MOST_FACTORS} factors, not {n}",
            loop,
            code="sample_perfect_tile.wrong_factor_count",
        )
    if max_innermost_factor == 0 or max_innermost_factor < -1:
        raise ScheduleError(
            f"the innermost factor is at most a positive number or -1, not {max_innermost_factor}",
            loop,
            code="sample_perfect_tile.wrong_innermost_factor",
        )
    extent = _tiled_extent(loop)
    if extent is None:
        return _unknown_tile(n)
    if decision is not None:
        if len(decision) != n:
            raise ScheduleError(
                f"the decision has {len(decision)} factors, not {n}", loop, code="sample_perfect_tile.wrong_decision"
            )
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

    If `innerpart_factor` does not divide the extent, all the factors but the first are 1.

    Example
    -------
    >>> i, j = sch.get_loops("B")
    >>> factors = sch.sample_partitioned_tile(i, 3, 1, 4, decision=[2, 2, 4])
    >>> [int(sch.get(factor)) for factor in factors]
    [2, 2, 4]
    """
    extent = _tiled_extent(loop)
    if extent is None:
        return _unknown_tile(n)
    if not 0 <= partition_pos < n:
        raise ScheduleError(
            f"the partition position lies in [0, {n}), not {partition_pos}",
            loop,
            code="sample_partitioned_tile.position_out_of_range",
        )
    if innerpart_factor <= 0:
        raise ScheduleError(
            f"the factor of the inner part is positive, not {innerpart_factor}",
            loop,
            code="sample_partitioned_tile.factor_not_positive",
        )
    if extent % innerpart_factor:
        tile = [extent, *[1] * (n - 1)]
    elif decision is None:
        tile = _partitioned_tile(random, extent, n, partition_pos, innerpart_factor)
    elif len(decision) != n:
        raise ScheduleError(
            f"the decision has {len(decision)} factors, not {n}", loop, code="sample_partitioned_tile.wrong_decision"
        )
    elif math.prod(int(f) for f in decision[partition_pos:]) % innerpart_factor:
        tile = _trivial_partition(extent, n, partition_pos, innerpart_factor)
    else:
        tile = _adjusted(decision, extent)
    return tile, tile


def _trivial_partition(extent: int, n: int, partition_pos: int, innerpart_factor: int) -> list[int]:
    """The factor itself at the partition, and what is left first."""
    tile = [1] * n
    tile[partition_pos] = innerpart_factor
    tile[0] *= extent // innerpart_factor
    return tile


def _partitioned_tile(
    random: LinearCongruentialEngine, extent: int, n: int, partition_pos: int, innerpart_factor: int
) -> list[int]:
    """The first tile drawn whose inner part is a multiple of the factor; the trivial one if that is too rare."""
    for _ in range(_TRIES):
        tile = sample_tile(random, extent, n)
        if math.prod(tile[partition_pos:]) % innerpart_factor == 0:
            return tile
    return _trivial_partition(extent, n, partition_pos, innerpart_factor)


@primitive("SampleComputeLocation", pure=True)
def sample_compute_location(
    state: ScheduleState, random: LinearCongruentialEngine, block: BlockRef, decision: int | None = None
) -> tuple[Loop, Any]:
    """A loop under which a block could be computed, or a mark: inline it, or leave it where it is.

    The decision is -2 for inlining, -1 for leaving it, else the place of the loop among those around its first
    consumer; one that is not possible here gives way to the next possible one before it. Loops of one iteration
    and trailing loops that reduce are left out.

    Example
    -------
    >>> loop = sch.sample_compute_location("B", decision=0)
    >>> sch.compute_at("B", loop)
    >>> sch.get(sch.get_loops("B")[0]) is sch.get(sch.get_loops("C")[0])
    True
    """
    places = _compute_places(state, block, scope_root(state, block))
    if decision is None:
        chosen = [*places][random.integer(0, len(places))]
    else:
        chosen = max([place for place in places if place <= decision], default=-1)
    return places[chosen], chosen


def _iter_type(state: ScheduleState, loop: StmtSRef) -> int:
    """What a loop counts in the blocks below: data parallel variables alone, reduced ones alone, or other."""
    found: set[int] = set()
    for block in state.child_blocks(loop):
        for var, value in zip(block.block.iter_vars, state.realize_of(block).iter_values):
            if uses_var(value, {loop.loop.loop_var}):
                found.add(var.iter_type)
    if len(found) > 1:
        return IterVar.Opaque
    return found.pop() if found else IterVar.DataPar


def _compute_places(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> dict[int, StmtSRef]:
    """Where a block could be computed, by the number that stands for it in decisions, in order."""
    places: dict[int, StmtSRef] = {}
    if state.accepts(lambda: compute_inline(state, block)):
        places[-2] = StmtSRef.inline_mark()
    places[-1] = StmtSRef.root_mark()
    consumers = state.get_block_scope(root).consumers(block)
    shared = state.loops_of(consumers[0]) if consumers else []
    for other in consumers[1:]:
        around = set(state.loops_of(other))
        shared = [loop for loop in shared if loop in around]
    types = [_iter_type(state, loop) for loop in shared]
    last_parallel = max([i for i, kind in enumerate(types) if kind == IterVar.DataPar], default=-1)
    mixed = False
    for i, (loop, kind) in enumerate(zip(shared, types)):
        if _constant_extent(loop) == 1:
            continue
        if mixed if kind == IterVar.DataPar else i > last_parallel:
            break
        mixed = mixed or kind != IterVar.DataPar
        if state.accepts(lambda at=loop: compute_at(state, block, at, preserve_unit_loops=True)):
            places[i] = loop
    return places
