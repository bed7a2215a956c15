"""`AutoInline`: finds the blocks that may be written into their consumers, and does it."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tvmagic import passes
from tvmagic.cinn.conditions import COMPUTE_INLINE, Candidate, Condition, first_failure
from tvmagic.cinn.ir_schedule import IRSchedule
from tvmagic.errors import TVMagicError

__all__ = ["AutoInline", "RuleApplyType", "Verdict"]


class RuleApplyType(enum.Enum):
    """Whether a rule can be applied; after one that prunes, no other rule is tried there."""

    CANNOT_APPLY = "cannot apply"
    APPLY = "apply"
    APPLY_AND_PRUNE_OTHER_RULES = "apply and prune other rules"


@dataclass(frozen=True)
class Verdict:
    """What was found for one block: it may be inlined, or the condition that held it back and why."""

    block: str
    condition: Condition | None = None
    reason: str = ""

    @property
    def can_inline(self) -> bool:
        """Whether no condition holds the block back."""
        return self.condition is None

    def __str__(self) -> str:
        if self.condition is None:
            return f"`{self.block}` is written into its consumers"
        return f"`{self.block}` stays: {self.reason}"


def _one_write_buffer(c: Candidate) -> str | None:
    count = len(c.block.writes)
    return None if count == 1 else f"`{c.name}` writes {count} buffers, not one"


def _no_branch(c: Candidate) -> str | None:
    return f"`{c.name}` has an `IfThenElse` in its body or round it" if c.found.branch else None


class AutoInline:
    """Writes blocks into their consumers where that is allowed.

    Parameters
    ----------
    no_inline_output_names: the names of tensors or buffers (`B` or `_B`) that must stay.
    target: kept for whoever asks; nothing here depends on it.

    Either `init(ir_schedule)`, then `apply(index)` of `number_applicable()` blocks; or
    `apply(ir_schedule, block)` at once; or `apply_all(ir_schedule)` until nothing is left.
    """

    def __init__(self, no_inline_output_names: Iterable[str] = (), target: Any = None) -> None:
        self.no_inline_output_names = frozenset(no_inline_output_names)
        self.target = target
        self.conditions: tuple[Condition, ...] = (
            Condition("one_write_buffer", "it writes one buffer", _one_write_buffer),
            Condition("no_branch", "no `IfThenElse` stands in its body", _no_branch),
            Condition("not_output", "its tensor is not among the outputs", self._not_output),
            *COMPUTE_INLINE,
        )
        self.ir_schedule: IRSchedule | None = None
        self.applicable: list[str] = []

    def _not_output(self, c: Candidate) -> str | None:
        # CINN calls the buffer of a tensor `B` `_B`; either name may be given
        for name in [r.buffer.name for r in c.block.writes]:
            if name in self.no_inline_output_names or f"_{name}" in self.no_inline_output_names:
                return f"`{name}` is among the outputs"
        return None

    # ------------------------------------------------------------------ asking

    def verdict(self, ir_schedule: IRSchedule, block: Any) -> Verdict:
        """Whether a block may be inlined, or the first condition that holds it back."""
        candidate = ir_schedule.candidate(block)
        failure = first_failure(self.conditions, candidate)
        return Verdict(candidate.name, *failure) if failure else Verdict(candidate.name)

    def can_inline_into_consumer(self, ir_schedule: IRSchedule, block: Any) -> bool:
        """Whether a block may be inlined."""
        return self.verdict(ir_schedule, block).can_inline

    def verdicts(self, ir_schedule: IRSchedule) -> list[Verdict]:
        """What is found for each block, in program order."""
        return [self.verdict(ir_schedule, block) for block in ir_schedule.get_all_blocks()]

    def init(self, ir_schedule: IRSchedule) -> RuleApplyType:
        """Look for the blocks to which it can be applied."""
        self.ir_schedule = ir_schedule
        self.applicable = [v.block for v in self.verdicts(ir_schedule) if v.can_inline]
        return RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES if self.applicable else RuleApplyType.CANNOT_APPLY

    def number_applicable(self) -> int:
        """How many blocks `init` found."""
        return len(self.applicable)

    def analyse_apply_type(self, ir_schedule: IRSchedule, block_name: str) -> RuleApplyType:
        """Whether it can be applied to one block."""
        can = self.can_inline_into_consumer(ir_schedule, block_name)
        return RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES if can else RuleApplyType.CANNOT_APPLY

    # ------------------------------------------------------------------ applying

    def apply(self, target: int | IRSchedule, block: Any = None) -> bool:
        """`apply(index)` inlines one of the blocks that `init` found; `apply(ir_schedule, block)` tries
        one block of a schedule. Whether it was inlined; what each block reads and writes is found anew.
        """
        if isinstance(target, IRSchedule):
            return self._try(target, block)
        if self.ir_schedule is None:
            raise TVMagicError("`init` must be called with a schedule before `apply(index)`")
        if not 0 <= target < len(self.applicable):
            raise TVMagicError(f"the index lies in [0, {len(self.applicable)}), not {target}")
        name, schedule = self.applicable[target], self.ir_schedule
        done = passes.run_step(
            "AutoInline", lambda: self._try(schedule, name), before=schedule.mod, after=lambda _: schedule.mod
        )
        self.init(schedule)
        return done

    def apply_randomly(self, seed: int | None = None) -> bool:
        """Inline one of the blocks that `init` found."""
        return self.apply(random.Random(seed).randrange(max(len(self.applicable), 1)))

    def apply_on_block(self, ir_schedule: IRSchedule, block_name: str) -> list[IRSchedule]:
        """A new schedule in which one block is inlined; the one given stays as it is."""
        new = ir_schedule.copy()
        verdict = self.verdict(new, block_name)
        if not verdict.can_inline:
            raise TVMagicError(str(verdict), hint="analyse_apply_type tells this beforehand")
        self._try(new, block_name)
        return [new]

    def apply_all(self, ir_schedule: IRSchedule) -> list[str]:
        """Apply it again and again until nothing is left; the names of the blocks inlined, in order."""
        done: list[str] = []

        def run() -> None:
            while True:
                before = len(done)
                for block in ir_schedule.get_all_blocks():
                    name = ir_schedule.block_of(block).name_hint
                    if self._try(ir_schedule, block):
                        done.append(name)
                if len(done) == before:
                    return

        passes.run_step("AutoInline", run, before=ir_schedule.mod, after=lambda _: ir_schedule.mod)
        return done

    def _try(self, ir_schedule: IRSchedule, block: Any) -> bool:
        verdict = self.verdict(ir_schedule, block)
        if passes.is_recording():
            passes.note(
                "cinn.auto_inline",
                str(verdict),
                ir_schedule.block_of(block),
                block=verdict.block,
                inlined=verdict.can_inline,
                condition=verdict.condition.name if verdict.condition else None,
                reason=verdict.reason or None,
            )
        if verdict.can_inline:
            ir_schedule.compute_inline(block)
        return verdict.can_inline
