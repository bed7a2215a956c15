"""A schedule: the stages of a dataflow graph, and the calls that change the graph itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.errors import ScheduleError, TVMagicError, a_thing, visible
from tvmagic.ir import Identified, IterVar, Reduce, Stmt
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.numpy_types import as_flag
from tvmagic.ir.schedulable import Schedulable
from tvmagic.ir.views import viewed
from tvmagic.passes import PassContext, Record, recording, user_span
from tvmagic.te.schedule.graph import create_read_graph, get_sub_graph, post_dfs_order
from tvmagic.te.schedule.stage import AttachType, Stage
from tvmagic.te.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor


def create_schedule(ops: Any) -> Schedule:
    """A schedule that computes the operations `ops` and all they need, each stage at the root."""
    given = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    for op in given:
        if not isinstance(op, Operation):
            what = f"tensor `{op.name}`; give `{op.name}.op`" if isinstance(op, Tensor) else repr(op)
            raise TVMagicError(
                f"a schedule is made of operations, not of {what}",
                span=user_span(),
                code="te.create_schedule.not_an_operation",
            )
    schedule = Schedule(given)
    for stage in schedule.stages:
        body = stage.op.body[:1] if isinstance(stage.op, ComputeOp) else ()
        if body and isinstance(body[0], Reduce) and body[0].combiner is None:
            raise TVMagicError(
                f"the reduction of `{stage.name}` has no combiner",
                span=stage.op.span,
                code="te.create_schedule.reduction_without_combiner",
            )
    return schedule


@viewed("te schedule")
class Schedule(Identified, Schedulable):
    """The stages, in an order in which each comes after what it reads.

    `s[C]` is the stage of a tensor or operation, `s["C"]` that with a name. Attributes: `outputs` (operations), `stages`,
    `groups`, `stage_map` (also from operations that rewrites have replaced). With the option
    `te.keep_schedule_record`, `primitive_record` are the names of the calls made and
    `schedule_record` the schedules after each. `sealed_by` names the version that the schedule belongs to; a schedule
    of a version is not changed any more.
    """

    needs_args = True
    keep_record = False
    sealed_by = ""

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.outputs = list(outputs)
        self.stages: list[Stage] = []
        self.groups: list[Stage] = []
        self.stage_map: dict[Operation, Stage] = {}
        graph = create_read_graph(self.outputs)
        for op in post_dfs_order(self.outputs, graph):
            stage = Stage(op, self)
            stage.is_output = any(op is output for output in self.outputs)
            self.stages.append(stage)
            self.stage_map[op] = stage
            if isinstance(op, ScanOp):
                self._group_scan(op, stage)
        self.keep_record = bool(PassContext.current().option("te.keep_schedule_record", False))
        self.schedule_record: list[Schedule] = []
        self.primitive_record: list[str] = []
        if self.keep_record:
            self.record_call("vanilla")

    def _group_scan(self, op: ScanOp, stage: Stage) -> None:
        """Put what one step of the scan runs into a group that is attached at the scan."""
        sources = [t for t in (*op.state_placeholder, *op.inputs) if t.op in self.stage_map]
        group = self._group([self[member] for member in get_sub_graph(op.update, sources, False)])
        group.attach_type, group.attach_stage = AttachType.SCAN_UPDATE, stage
        for tensor in op.update:
            if self.stage_map[tensor.op].group is not group:
                raise TVMagicError(
                    f"update `{tensor.name}` of scan `{op.name}` reads none of its states or inputs",
                    code="te.scan.update_reads_nothing",
                )

    def __getitem__(self, key: Any) -> Stage:
        """The stage of a tensor or an operation, or the only one with a name (`s["mu_sum"]`)."""
        if isinstance(key, str):
            return self._stage_named(key)
        op = key.op if isinstance(key, Tensor) else key
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        if stage is None:  # an operation that a rewrite has made of another one
            stage = next((s for s in self.stages if s.op is op), None)
        if stage is None:
            name = op.name if isinstance(op, Operation) else repr(key)
            known = ", ".join(f"`{s.name}`" for s in self.stages)
            raise ScheduleError(
                f"the schedule has no stage `{name}`",
                span=user_span(),
                hint=f"its stages are {known}",
                code="te.schedule.unknown_stage",
            )
        return stage

    def _stage_named(self, name: str) -> Stage:
        found = [stage for stage in self.stages if stage.name == name]
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"`{s.name}`" for s in self.stages)
        if found:
            raise ScheduleError(
                f"{len(found)} stages have the name `{name}`",
                span=user_span(),
                hint="give the tensor: `s[C]`",
                code="te.schedule.ambiguous_stage",
            )
        raise ScheduleError(
            f"the schedule has no stage `{name}`",
            span=user_span(),
            hint=f"its stages are {known}",
            code="te.schedule.unknown_stage",
        )

    def __contains__(self, key: Any) -> bool:
        if isinstance(key, str):
            return any(stage.name == key for stage in self.stages)
        return (key.op if isinstance(key, Tensor) else key) in self.stage_map

    def __repr__(self) -> str:
        return f"schedule({', '.join(visible(s.name) for s in self.stages)})"

    def check_tensor(self, tensor: Any, call: str) -> Stage:
        """Return the stage of a tensor; raise if it is not a tensor of the schedule."""
        self.check_open(call)
        if not isinstance(tensor, Tensor):
            named = tensor.name if isinstance(tensor, Operation) and tensor.num_outputs else "B"
            hint = f"give the tensor, such as `{named}`, or an output of the operation, such as `{named}.op.output(0)`"
            raise ScheduleError(
                f"cannot {call}: expected a tensor, got {a_thing(tensor)}",
                span=user_span(),
                hint=hint,
                code="te.schedule.not_a_tensor",
            )
        return self[tensor]

    def check_open(self, call: str) -> None:
        """Raise if the schedule belongs to a version."""
        if self.sealed_by:
            raise ScheduleError(
                f"cannot {call}: the schedule belongs to {self.sealed_by}",
                span=user_span(),
                hint="`SCHEDULE.copy()` is one to go on with",
                code="te.schedule.sealed",
            )

    def record_call(self, name: str) -> None:
        """Keep a copy of the schedule as it is after the call `name`."""
        self.schedule_record.append(self.copy())
        self.primitive_record.append(name)

    def _done(self, name: str, result: Any) -> Any:
        if self.keep_record:
            self.record_call(name)
        return result

    def copy(self) -> Schedule:
        """A schedule with stages of its own on the same operations."""
        new = Schedule.__new__(Schedule)
        twins = {s: s.copy() for s in (*self.stages, *self.groups)}
        for twin in twins.values():
            twin.schedule = new
            twin.attach_stage = twins.get(twin.attach_stage) if twin.attach_stage is not None else None
            twin.group = twins.get(twin.group) if twin.group is not None else None
        new.keep_record, new.schedule_record, new.primitive_record = False, [], []
        new.outputs = list(self.outputs)
        new.stages = [twins[s] for s in self.stages]
        new.groups = [twins[g] for g in self.groups]
        new.stage_map = {op: twins[s] for op, s in self.stage_map.items()}
        return new

    @deep
    def normalize(self) -> Schedule:
        """A copy in the form that bounds inference takes.

        Inlined stages are put into what reads them, loops start at zero, and a place that was
        split or fused after `compute_at` is followed to the loop that it became.
        """
        from tvmagic.te.schedule.normalize import normalize

        return normalize(self)

    def lower(self) -> Stmt:
        """Return the loops of the schedule as a statement on tensors. They are not steps of a record.

        Raises ScheduleError if the schedule is incomplete.
        """
        from tvmagic.te.schedule.infer_bound import infer_bound
        from tvmagic.te.schedule.schedule_ops import schedule_ops

        with recording(record=Record()):
            normalized = self.normalize()
            return schedule_ops(normalized, infer_bound(normalized))

    @property
    def parameters(self) -> list[Tensor]:
        """The placeholders in the order of their stages, then the outputs."""
        read = [stage.op for stage in self.stages if isinstance(stage.op, PlaceholderOp)]
        return [op.output(n) for op in (*read, *self.outputs) for n in range(op.num_outputs)]

    # ------------------------------------------------------------------ rewrites of the graph

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Stage:
        """Make the stages between `inputs` and `outputs` a group, to be attached as one.

        Parameters
        ----------
        outputs, inputs: the tensors at the ends of the group.
        include_inputs: whether the stages of `inputs` belong to it.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
            D = te.compute((16,), lambda i: C[i] - 3.0, name="D")
            s = te.create_schedule(D.op)
            s.create_group(C, A).compute_at(s[D], D.op.axis[0])

        is lowered to

            B = T.allocate([1], "float32", "global")
            for i in range(16):
                B_1 = T.Buffer((1,), data=B, align=4)
                B_1[0] = A[i] + T.float32(1.0)
                B_2 = T.Buffer((1,), data=B, align=4)
                B_2[0] = B_1[0] * T.float32(2.0)
                D[i] = B_2[0] - T.float32(3.0)
        """
        targets = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        sources = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        for tensor in (*targets, *sources):
            self.check_tensor(tensor, "create_group")
        flag = as_flag(include_inputs)
        if flag is None:
            raise TVMagicError(
                f"cannot create_group: expected a bool as `include_inputs`, got {a_thing(include_inputs)}",
                code="te.create_group.wrong_flag",
            )
        members = [self[op] for op in get_sub_graph(targets, sources, flag)]
        if not members:
            raise TVMagicError(
                "cannot create_group: no stage reads `inputs` for `outputs`", code="te.create_group.empty"
            )
        return self._group(members)

    def _group(self, members: list[Stage]) -> Stage:
        group = Stage(None, self)
        parent = _common_group(members)
        group.group = parent
        if parent is not None:
            parent.num_child_stages += 1
        for stage in members:
            self._adopt(stage, group, parent)
        self.groups.append(group)
        return group

    def _adopt(self, stage: Stage, group: Stage, parent: Stage | None) -> None:
        """Put `stage`, or the outermost of its groups inside `parent`, into `group`."""
        top = stage
        while top.group is not parent and top.group is not group:
            assert top.group is not None
            top = top.group
        if top.group is group:
            return
        if parent is not None:
            parent.num_child_stages -= 1
        top.group = group
        group.num_child_stages += 1

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """Copy `tensor` into the memory `scope`, and let `readers` read the copy; the copy.

        Parameters
        ----------
        tensor: what is read.
        scope: the memory of the copy.
        readers: the operations or tensors that read the copy.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            AA = s.cache_read(A, "local", [B])

        is lowered to

            A_local = T.allocate([16], "float32", "local")
            A_local_1 = T.Buffer((16,), data=A_local, scope="local")
            for ax0 in range(16):
                A_local_1[ax0] = A[ax0]
            for i in range(16):
                B[i] = A_local_1[i] + T.float32(1.0)
        """
        from tvmagic.te.schedule.cache import cache_read

        _check_scope(scope)
        return self._done("cache_read", cache_read(self, tensor, scope, readers))

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute `tensor` in the memory `scope` and copy it out; the tensor computed there.

        Several outputs of one operation are given as a list, and come back as one.

        Parameters
        ----------
        tensor: the result, or all results of one operation.
        scope: the memory of the new stage.

        Example
        -------
            B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
            s = te.create_schedule(B.op)
            BB = s.cache_write(B, "local")

        is lowered to

            B_local = T.allocate([16], "float32", "local")
            B_local_1 = T.Buffer((16,), data=B_local, scope="local")
            for i_c in range(16):
                B_local_1[i_c] = A[i_c] + T.float32(1.0)
            for i in range(16):
                B[i] = B_local_1[i]
        """
        from tvmagic.te.schedule.cache import cache_write

        _check_scope(scope)
        return self._done("cache_write", cache_write(self, tensor, scope))

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Compute partial reductions, one for each value of the reduction loop `axis`.

        They have a new dimension at `factor_axis`; `tensor` reduces them. Returns the tensor of
        the partial reductions, or a list of them for a tuple reduction.

        Parameters
        ----------
        tensor: the result of a reduction.
        axis: the loop of the reduction to factor.
        factor_axis: the dimension that it becomes.

        Example
        -------
            k = te.reduce_axis((0, 16), name="k")
            B = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="B")
            s = te.create_schedule(B.op)
            partial = s.rfactor(B, s[B].split(k, 4)[1])

        is lowered to

            B_rf = T.allocate([64], "float32", "global")
            B_rf_1 = T.Buffer((64,), data=B_rf)
            for k_inner, i in T.grid(4, 16):
                B_rf_1[k_inner * 16 + i] = T.float32(0.0)
                for k_outer in range(4):
                    cse_var_1: T.int32 = k_inner * 16 + i
                    A_1 = T.Buffer((256,), data=A.data)
                    B_rf_1[cse_var_1] = B_rf_1[cse_var_1] + A_1[i * 16 + k_outer * 4 + k_inner]
            for ax0 in range(16):
                B[ax0] = T.float32(0.0)
                for k_inner_v in range(4):
                    B[ax0] = B[ax0] + B_rf_1[k_inner_v * 16 + ax0]
        """
        from tvmagic.te.schedule.rfactor import rfactor

        return self._done("rfactor", rfactor(self, tensor, axis, factor_axis))


def _check_scope(scope: Any) -> None:
    if not isinstance(scope, str):
        raise TVMagicError(
            f'a memory scope is a text such as "local", not `{type(scope).__name__}`', code="te.set_scope.wrong_scope"
        )


def _common_group(stages: Sequence[Stage]) -> Stage | None:
    """The innermost group that holds all `stages`."""
    chains: list[list[Stage]] = []
    for stage in stages:
        chain: list[Stage] = []
        group = stage.group
        while group is not None:
            chain.append(group)
            group = group.group
        chains.append(chain)
    if not chains:
        return None
    for candidate in chains[0]:
        if all(any(g is candidate for g in chain) for chain in chains):
            return candidate
    return None
