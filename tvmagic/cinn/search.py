"""States of a search and the space that they are taken from."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence
from functools import total_ordering

from tvmagic.cinn.ir_schedule import IRSchedule
from tvmagic.cinn.rule import AutoGenRule, RuleApplyType
from tvmagic.cinn.rules import AutoUnroll, MultiLevelTiling, SkipRule
from tvmagic.errors import TVMagicError

FLT_MAX = 3.4028234663852886e38
_STRATEGIES = ("rule_prune", "random_prune", "random")


@total_ordering
class SearchState:
    """A schedule on the way of a search, with what it costs (unknown: the greatest float) and the rules still to be tried.

    States are ordered by cost; two are equal if their programs are, the numbers at the ends of names aside.
    """

    def __init__(self, ir_schedule: IRSchedule, cost: float = FLT_MAX, rules: Sequence[AutoGenRule] = ()) -> None:
        self.ir_schedule, self.cost, self.rules = ir_schedule, cost, list(rules)

    def copy(self) -> SearchState:
        """A state of its own at the same point."""
        return SearchState(self.ir_schedule.copy(), self.cost, self.rules)

    def key(self) -> str:
        """The program without the numbers at the ends of names."""
        return re.sub(r"(?<=[a-z0-9])(_\d+)+\b", "", str(self.ir_schedule))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SearchState) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __lt__(self, other: SearchState) -> bool:
        return self.cost < other.cost


class SearchSpace:
    """The states that the rules MultiLevelTiling, AutoUnroll and SkipRule reach from a schedule, block by block."""

    def __init__(self, ir_schedule: IRSchedule, target: object = None, seed: int | None = None) -> None:
        self.ir_schedule, self.random = ir_schedule, random.Random(seed)
        seed = self.random.randrange(sys.maxsize)
        self.rules: list[AutoGenRule] = [
            MultiLevelTiling(target, seed=seed),
            AutoUnroll(target, seed),
            SkipRule(target),
        ]

    def generate_sketches(self, num: int, strategy: str = "rule_prune") -> list[SearchState]:
        """`num` states (or fewer, if there are no more): by the rules' answers (`rule_prune`), or some of them at random.

        `random_prune` leaves rules out at random, `random` applies one rule, chosen at random, to each block.
        """
        if strategy not in _STRATEGIES:
            raise TVMagicError(
                f"`{strategy}` is not a way to make sketches: {', '.join(_STRATEGIES)}",
                code="cinn.search.unknown_strategy",
            )
        found: dict[SearchState, None] = {}
        for _ in range(num * 4):
            for state in self._run_once(strategy):
                found[state] = None
            if len(found) >= num:
                break
        return list(found)[:num]

    def _run_once(self, strategy: str) -> list[SearchState]:
        states = [SearchState(self.ir_schedule.copy(), rules=self.rules)]
        names = [self.ir_schedule.block_of(b).name_hint for b in self.ir_schedule.get_all_blocks()]
        for name in reversed(names):
            states = [new for state in states for new in self._on_block(state, name, strategy)]
        return states

    def _on_block(self, state: SearchState, name: str, strategy: str) -> list[SearchState]:
        rules = [self.random.choice(self.rules)] if strategy == "random" else self.rules
        made: list[SearchState] = []
        for rule in rules:
            answer = rule.analyse_apply_type(state, name)
            leave_out = strategy == "random_prune" and self.random.random() < 0.5
            if answer is RuleApplyType.CANNOT_APPLY or (leave_out and made):
                continue
            try:
                made += rule.apply_on_block(state, name)
            except TVMagicError:  # the tile that was drawn leaves no place for a cache
                continue
            if answer is RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES and strategy == "rule_prune":
                break
        return made or [state]
