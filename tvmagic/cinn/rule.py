"""What the rules of CINN's automatic scheduling have in common."""

from __future__ import annotations

import enum
import random
from typing import Any

from tvmagic.cinn.ir_schedule import IRSchedule
from tvmagic.errors import TVMagicError


class RuleApplyType(enum.IntEnum):
    """Whether a rule can be applied; after one that prunes, no other rule is tried there."""

    CANNOT_APPLY = 0
    APPLY = 1
    APPLY_AND_PRUNE_OTHER_RULES = 2


class AutoGenRule:
    """A rule: `init(schedule)` looks where it can be applied, `apply(index)` applies it at one of these places.

    `analyse_apply_type(state, block_name)` and `apply_on_block(state, block_name)` ask and do it for one block of a
    search state (or of a schedule); the latter gives new states and leaves the given one.
    """

    def __init__(self, target: Any = None) -> None:
        self.target = target
        self.ir_schedule: IRSchedule | None = None
        self.applicable: list[str] = []

    def get_rule_name(self) -> str:
        """The name of the rule's class."""
        return type(self).__name__

    def init(self, ir_schedule: IRSchedule) -> RuleApplyType:
        """Look for the places to which it can be applied."""
        raise NotImplementedError

    def number_applicable(self) -> int:
        """At how many places `init` found that it can be applied."""
        return len(self.applicable)

    def apply_at(self, ir_schedule: IRSchedule, name: str) -> None:
        """Apply the rule to one block of a schedule."""
        raise NotImplementedError

    def apply(self, index: int) -> Any:
        """Apply it at one of the places that `init` found."""
        schedule, name = self._schedule_and_block(index)
        return self.apply_at(schedule, name)

    def _schedule_and_block(self, index: int) -> tuple[IRSchedule, str]:
        if self.ir_schedule is None:
            raise TVMagicError(
                "`init` must be called with a schedule before `apply(index)`", code="cinn.auto_rule.not_initialized"
            )
        if not 0 <= index < len(self.applicable):
            raise TVMagicError(
                f"the index lies in [0, {len(self.applicable)}), not {index}", code="cinn.auto_rule.index_out_of_range"
            )
        return self.ir_schedule, self.applicable[index]

    def apply_randomly(self, seed: int | None = None) -> Any:
        """Apply it at one of the places that `init` found. Raises `TVMagicError` if there is none."""
        if not self.applicable:
            raise TVMagicError(
                f"{self.get_rule_name()} can be applied nowhere",
                hint="`init` says so: CANNOT_APPLY",
                code="cinn.auto_rule.not_applicable",
            )
        return self.apply(random.Random(seed).randrange(len(self.applicable)))

    def analyse_apply_type(self, state: Any, block_name: str) -> RuleApplyType:
        """Whether it can be applied to one block."""
        found = type(self).__new__(type(self))
        found.__dict__.update(self.__dict__)
        answer = found.init(_schedule_of(state))
        return answer if block_name in found.applicable else RuleApplyType.CANNOT_APPLY

    def apply_on_block(self, state: Any, block_name: str) -> list[Any]:
        """New states in which it is applied to one block; the one given stays as it is."""
        new = state.copy()
        self.apply_at(_schedule_of(new), block_name)
        return [new]


def _schedule_of(state: Any) -> IRSchedule:
    """The schedule of a search state, or a schedule itself."""
    return getattr(state, "ir_schedule", state)
