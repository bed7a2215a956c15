"""A stage: one operation with its loops, and the calls by which users arrange them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tvmagic.errors import a_thing
from tvmagic.ir import IterVar
from tvmagic.ir.views import viewed
from tvmagic.te.schedule.attributes import AttachType, IterVarAttr
from tvmagic.te.schedule.buffer_calls import BufferCalls
from tvmagic.te.schedule.loop_calls import LoopCalls
from tvmagic.te.schedule.loop_marks import LoopMarks

__all__ = ["AttachType", "IterVarAttr", "Stage"]


@viewed("te stage")
class Stage(LoopCalls, LoopMarks, BufferCalls):
    """One operation of a schedule and its loops; the methods rearrange them in place.

    Attributes
    ----------
    op, origin_op: the operation, and what it was before rewrites of the schedule.
    name, axis, reduce_axis: those of the operation.
    all_iter_vars: every iteration variable; leaf_iter_vars: those that are loops, outermost first.
    relations: how they follow from each other, in the order in which they were made.
    attach_type, attach_stage, attach_ivar: where it runs.
    iter_var_attrs: what is said of single loops; thread_env: thread axes around everything.
    group, num_child_stages: the group it belongs to, and how many stages a group has.
    """

    @property
    def is_scheduled(self) -> bool:
        """Whether any call has rearranged its loops, or moved it."""
        moved = self.relations or self.attach_type != AttachType.GROUP_ROOT
        same = len(self.all_iter_vars) == len(self.leaf_iter_vars)
        return bool(moved) or not (same and all(a is b for a, b in zip(self.all_iter_vars, self.leaf_iter_vars)))

    @property
    def is_attached(self) -> bool:
        """Whether it runs inside a loop of another stage."""
        return self.attach_type in (AttachType.SCOPE, AttachType.SCAN_UPDATE)

    def get_attach_spec(self) -> Stage:
        """The stage or group that says where this one runs."""
        spec = self
        while spec.attach_type == AttachType.GROUP_ROOT and spec.group is not None:
            spec = spec.group
        return spec

    def copy(self) -> Stage:
        """A stage with lists of its own; links to other stages still name the old ones."""
        new = Stage.__new__(Stage)
        new.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, list):
                new.__dict__[name] = list(value)
        new.iter_var_attrs = {iv: attr.copy() for iv, attr in self.iter_var_attrs.items()}
        return new

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute what one iteration of the loop `scope` of `parent` needs, inside that loop.

        Parameters
        ----------
        parent: the stage that reads the result.
        scope: one of its loops.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].compute_at(s[C], C.op.axis[0])

        is lowered to

            B = T.allocate([1], "float32", "global")
            for i in range(16):
                B_1 = T.Buffer((1,), data=B, align=4)
                B_1[0] = A[i] + T.float32(1.0)
                C[i] = B_1[0] * T.float32(2.0)
        """
        if not isinstance(parent, Stage):
            name = getattr(getattr(parent, "op", None), "name", "TENSOR")
            raise self.error(
                f"compute_at takes the stage that reads the result, not {a_thing(parent)}",
                f"write `s[{name}]`",
                code="te.compute_at.not_a_stage",
            )
        if parent is self:
            raise self.error(
                "compute_at a loop of the stage itself",
                "give the stage that reads it, and a loop of that",
                code="te.compute_at.own_loop",
            )
        if parent.schedule is not self.schedule:
            raise self.error(
                f"cannot compute_at `{parent.name}`: that stage belongs to another schedule",
                f"take the stage of this schedule: `s[{parent.name}]`",
                code="te.compute_at.other_schedule",
            )
        self._check_group(parent)
        parent.leaf_position(scope, f"compute_at of `{self.name}`")
        self._check_cycle(parent)
        self.attach_type, self.attach_ivar, self.attach_stage = AttachType.SCOPE, scope, parent

    def _check_group(self, parent: Stage) -> None:
        if self.group is None:
            return
        group = parent.group
        while group is not None and group is not self.group:
            group = group.group
        if group is not self.group:
            raise self.error(f"compute_at `{parent.name}`, which is in another group", code="te.compute_at.other_group")

    def _check_cycle(self, parent: Stage) -> None:
        above: Stage | None = parent
        passed: set[Stage] = set()  # groups may have closed a cycle without this stage
        while above is not None and above not in passed:
            passed.add(above)
            spec = above.get_attach_spec()
            if not spec.is_attached:
                return
            above = spec.attach_stage
            if above is self:
                raise self.error(
                    f"compute_at `{parent.name}`, which is computed at `{self.name}` itself",
                    f"call compute_root on stage `{parent.name}` first",
                    code="te.compute_at.cyclic",
                )

    def compute_inline(self) -> None:
        """Compute each element where it is read; the stage has no loops of its own.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].compute_inline()

        is lowered to

            for i in range(16):
                C[i] = (A[i] + T.float32(1.0)) * T.float32(2.0)
        """
        self._detach(AttachType.INLINE)

    def compute_root(self) -> None:
        """Compute the whole before the stages that read it.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            s[B].compute_root()

        is lowered to

            B = T.allocate([16], "float32", "global")
            B_1 = T.Buffer((16,), data=B)
            for i in range(16):
                B_1[i] = A[i] + T.float32(1.0)
            for i in range(16):
                C[i] = B_1[i] * T.float32(2.0)
        """
        self._detach(AttachType.GROUP_ROOT)

    def _detach(self, attach_type: AttachType) -> None:
        """Run in no loop of another stage any more."""
        self.attach_type, self.attach_stage, self.attach_ivar = attach_type, None, None


# The calls are Stage's own, whichever file has them: in Python's messages, on help pages, and for whoever wraps them.
for _part in (LoopCalls, LoopMarks, BufferCalls):
    for _name, _call in vars(_part).items():
        if inspect.isfunction(_call) and not _name.startswith("_"):
            _call.__qualname__ = f"Stage.{_name}"
            setattr(Stage, _name, _call)

# The calls that a schedule keeps a record of, if it is asked to (`te.keep_schedule_record`).
STAGE_CALLS = (
    "bind", "compute_at", "compute_inline", "compute_root", "double_buffer", "env_threads", "fuse", "parallel",
    "pragma", "prefetch", "reorder", "rolling_buffer", "set_scope", "set_store_predicate", "split", "storage_align",
    "tensorize", "transform_layout", "unroll", "vectorize",
)  # fmt: skip


def _recorded(name: str) -> Callable[..., Any]:
    call = getattr(Stage, name)

    @functools.wraps(call)
    def run(self: Stage, *args: Any, **kwargs: Any) -> Any:
        if self.schedule is not None:
            self.schedule.check_open(name)
        result = call(self, *args, **kwargs)
        if self.schedule is not None and self.schedule.keep_record:
            self.schedule.record_call(name)
        return result

    return run


for _name in STAGE_CALLS:
    setattr(Stage, _name, _recorded(_name))
