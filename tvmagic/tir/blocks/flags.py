"""What is known of a block in its scope: affine binding, region cover, stage pipeline.

Each is computed from the program when it is asked for, and kept by the identity of the nodes it
was computed from: a node is never changed, so what was found for it stays true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.query import is_one
from tvmagic.tir.blocks.coverage import region_covered
from tvmagic.tir.blocks.domains import loop_domains
from tvmagic.tir.blocks.scope import BlockScope
from tvmagic.tir.blocks.sref import StmtSRef

if TYPE_CHECKING:
    from tvmagic.arith.iter_map import IterSumExpr
    from tvmagic.tir.schedule.state import ScheduleState

_LIMIT = 20_000


class CachedFlags(NamedTuple):
    """`affine_binding`: the block's variables are bound to affine expressions of its loops, each
    value once. `region_cover`: all that it reads was written before. `stage_pipeline`: its scope is a
    chain of stages, each covering what the next reads; none writes what one before it reads."""

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


def is_affine_binding(realize: ir.BlockRealize, domains: dict[ir.Var, ir.Range], analyzer: Analyzer) -> bool:
    """Whether the values bound are independent iterators of the loops, each with scale 1."""
    from tvmagic.arith.iter_map import detect_iter_map

    if not domains:
        return True
    found: Sequence[IterSumExpr] = ()
    # the condition may be one on a sum with a loop of extent 1, which then must count as an iterator
    for as_constants in (True, False):
        found = detect_iter_map(
            realize.iter_values, domains, realize.predicate, "surjective", as_constants, analyzer
        ).indices
        if found:
            break
    return bool(found) and all(not s.args or analyzer.can_prove_equal(s.args[0].scale, 1) for s in found)


class FlagCache:
    """Flags by the nodes they follow from; shared by a state and its copies."""

    def __init__(self) -> None:
        self.affine: dict[tuple[Any, ...], bool] = {}
        self.distinct: dict[tuple[Any, ...], bool] = {}
        self.cover: dict[tuple[Any, ...], bool] = {}

    def scope(self, state: ScheduleState, block_sref: StmtSRef) -> BlockScope:
        found = state.scopes.get(block_sref.block)
        if found is None:
            if len(state.scopes) > _LIMIT:
                state.scopes.clear()
            found = state.scopes[block_sref.block] = BlockScope(state.child_blocks(block_sref))
        return found

    def flags(self, state: ScheduleState, block_sref: StmtSRef) -> CachedFlags:
        covered = True
        if block_sref.parent is not None:
            scope_root = state.scope_of(block_sref)
            covered = self.region_cover(state, scope_root, block_sref)
        pipeline = self.stage_pipeline(state, block_sref) and not self.scope(state, block_sref).has_overwriters
        return CachedFlags(self.affine_binding(state, block_sref), covered, pipeline)

    def affine_binding(self, state: ScheduleState, block_sref: StmtSRef) -> bool:
        """Whether the bindings of a block are affine in the loops of its scope."""
        if block_sref.parent is None:
            return True
        return self._affine(state, block_sref, state.realize_of(block_sref), self.affine)

    def distinct_binding(self, state: ScheduleState, block_sref: StmtSRef) -> bool:
        """Whether the bindings are affine or, if the block has a condition, would be without it.

        The condition of a block that rfactor made leaves out iterations, but what is left binds each value once.
        """
        if self.affine_binding(state, block_sref):
            return True
        realize = state.realize_of(block_sref)
        if is_one(realize.predicate):
            return False
        bare = realize.replace(predicate=ir.IntImm("bool", 1))
        return self._affine(state, block_sref, bare, self.distinct)

    def _affine(
        self, state: ScheduleState, block_sref: StmtSRef, realize: ir.BlockRealize, cache: dict[tuple[Any, ...], bool]
    ) -> bool:
        key = _surroundings(state, block_sref)
        found = cache.get(key)
        if found is None:
            if len(cache) > _LIMIT:
                cache.clear()
            domains = loop_domains(state.loops_of(block_sref))
            found = cache[key] = is_affine_binding(realize, domains, Analyzer(domains))
        return found

    def stage_pipeline(self, state: ScheduleState, scope_root: StmtSRef) -> bool:
        """Whether every child of a scope reads only what was written before it."""
        return len(self.covered(state, scope_root)) == len(self.scope(state, scope_root).children)

    def covered(self, state: ScheduleState, scope_root: StmtSRef) -> set[StmtSRef]:
        """The children of a scope whose reads are covered; found once for a scope at a place."""
        scope, place = self.scope(state, scope_root), _surroundings(state, scope_root)
        found = scope.covered.get(place)
        if found is None:
            found = {child for child in scope.children if self.region_cover(state, scope_root, child)}
            scope.covered[place] = found
        return found

    def region_cover(self, state: ScheduleState, scope_root: StmtSRef, consumer: StmtSRef) -> bool:
        """Whether the writers of what `consumer` reads cover it together."""
        producers = self.scope(state, scope_root).producers(consumer)
        if not producers:
            return True
        key = (_surroundings(state, consumer), *[_surroundings(state, p) for p in producers])
        found = self.cover.get(key)
        if found is None:
            if len(self.cover) > _LIMIT:
                self.cover.clear()
            found = self.cover[key] = region_covered(state, scope_root, consumer, producers)
        return found


def _surroundings(state: ScheduleState, sref: StmtSRef) -> tuple[Any, ...]:
    """A block's realize and the loops and blocks around it, as far as regions depend on them.

    It stays the same while what is beside the block is rewritten.
    """
    found: list[Any] = [state.realize_of(sref)]
    above = sref.parent
    while above is not None:
        stmt = above.stmt
        if isinstance(stmt, ir.For):
            found += (stmt.loop_var, stmt.min, stmt.extent, stmt.thread_binding)
        elif isinstance(stmt, ir.Block):
            found += stmt.iter_vars
        above = above.parent
    return tuple(found)
