"""`AutoInline`: finds the blocks that may be written into their consumers, and does it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tvmagic import passes
from tvmagic.cinn.cinn_form import buffer_name
from tvmagic.cinn.conditions import COMPUTE_INLINE, Candidate, Condition, first_failure
from tvmagic.cinn.ir_schedule import IRSchedule
from tvmagic.cinn.rule import AutoGenRule, RuleApplyType
from tvmagic.errors import TVMagicError


class AutoInlineType(enum.IntEnum):
    """Where a block can be inlined. CINN never gives the last one."""

    CANNOT_INLINE = 0
    INLINE_INTO_CONSUMER = 1
    INLINE_INTO_PRODUCER = 2


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
    return f"`{c.name}` has an `IfThenElse` in its body or around it" if c.found.branch else None


def _is_names(value: Any) -> bool:
    """Whether an argument is a name or a collection of names, and no target."""
    if isinstance(value, str):
        return True
    return isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(v, str) for v in value)


def _names(names: str | Iterable[str]) -> frozenset[str]:
    return frozenset([names]) if isinstance(names, str) else frozenset(names)


class AutoInline(AutoGenRule):
    """Writes blocks into their consumers where that is allowed.

    Parameters
    ----------
    target: kept for whoever asks; nothing here depends on it. A single argument that is a text or a collection of
        texts is taken as the names.
    no_inline_output_names: the names of tensors or buffers (`B` or `_B`) that must stay; a text is one name.

    Either `init(ir_schedule)`, then `apply(index)` of `number_applicable()` blocks; or
    `apply(ir_schedule, block)` at once; or `apply_all(ir_schedule)` until nothing is left.
    """

    def __init__(self, target: Any = None, no_inline_output_names: str | Iterable[str] | None = None) -> None:
        super().__init__(None if no_inline_output_names is None and _is_names(target) else target)
        if no_inline_output_names is None and _is_names(target):
            no_inline_output_names = target
        self.no_inline_output_names = _names(no_inline_output_names or ())
        self.conditions: tuple[Condition, ...] = (
            Condition("one_write_buffer", "it writes one buffer", _one_write_buffer),
            Condition("no_branch", "no `IfThenElse` is in its body", _no_branch),
            Condition("not_output", "its tensor is not among the outputs", self._not_output),
            *COMPUTE_INLINE,
        )

    def _not_output(self, c: Candidate) -> str | None:
        # either the tensor's name or its buffer's may be given
        for buffer in [r.buffer for r in c.block.writes]:
            if not self.no_inline_output_names.isdisjoint((buffer.name, f"_{buffer.name}", buffer_name(buffer))):
                return f"`{buffer.name}` is among the outputs"
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

    def analyze_inline_type(self, block: Any, ir_schedule: IRSchedule) -> AutoInlineType:
        """Where a block can be inlined."""
        can = self.can_inline_into_consumer(ir_schedule, block)
        return AutoInlineType.INLINE_INTO_CONSUMER if can else AutoInlineType.CANNOT_INLINE

    def verdicts(self, ir_schedule: IRSchedule) -> list[Verdict]:
        """What is found for each block, in program order."""
        return [self.verdict(ir_schedule, block) for block in ir_schedule.get_all_blocks()]

    def init(self, ir_schedule: IRSchedule) -> RuleApplyType:
        """Look for the blocks to which it can be applied."""
        self.ir_schedule = ir_schedule
        self.applicable = [v.block for v in self.verdicts(ir_schedule) if v.can_inline]
        return RuleApplyType.APPLY_AND_PRUNE_OTHER_RULES if self.applicable else RuleApplyType.CANNOT_APPLY

    # ------------------------------------------------------------------ applying

    def apply(self, target: int | IRSchedule, block: Any = None) -> bool:  # type: ignore[override]
        """`apply(index)` inlines one of the blocks that `init` found; `apply(ir_schedule, block)` tries
        one block of a schedule. Whether it was inlined; what each block reads and writes is found again.
        """
        if isinstance(target, IRSchedule):
            return self._try(target, block)
        schedule, name = self._schedule_and_block(target)
        done = passes.run_step(
            "AutoInline", lambda: self._try(schedule, name), before=schedule.mod, after=lambda _: schedule.mod
        )
        self.init(schedule)
        return done

    def apply_at(self, ir_schedule: IRSchedule, name: str) -> None:
        """Inline one block of a schedule. Raises `TVMagicError` if it may not be."""
        verdict = self.verdict(ir_schedule, name)
        if not verdict.can_inline:
            raise TVMagicError(
                str(verdict), hint="analyse_apply_type tells this beforehand", code="cinn.auto_inline.not_applicable"
            )
        self._try(ir_schedule, name)

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
                condition=verdict.condition.name if verdict.condition else "",
                reason=verdict.reason or "",
            )
        if verdict.can_inline:
            ir_schedule.compute_inline(block)
        return verdict.can_inline
