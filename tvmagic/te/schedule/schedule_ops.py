"""ScheduleOps: a scheduled dataflow graph as one statement on tensors.

Each stage becomes a pipeline: the region it computes realized, the loops that compute it, then
what consumes it. The statement is put together in one walk: where a loop is met at which stages
are computed, their pipelines are made there and walked in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.errors import DefectError, ScheduleError
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.effects import side_effect
from tvmagic.passes import PassContext, is_recording, note
from tvmagic.te.exact.required_regions import needed_elements, saves_work
from tvmagic.te.exact.used_elements import stage_waste
from tvmagic.te.schedule.bound_context import BoundContext
from tvmagic.te.schedule.loop_nest import LoopContext
from tvmagic.te.schedule.provide import build_provide, build_realize
from tvmagic.te.schedule.relations import is_const
from tvmagic.te.schedule.stage import AttachType, Stage
from tvmagic.te.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule


@deep
def schedule_ops(
    sch: Schedule, dom_map: Mapping[ir.IterVar, ir.Range], debug_keep_trivial_loop: bool = False
) -> ir.Stmt:
    """The statement that computes the outputs of a normalized schedule.

    Parameters
    ----------
    dom_map: the ranges that `InferBound` gives for `sch`.
    debug_keep_trivial_loop: keep loops of one iteration, and leave initializations out.
    """
    context = _context(sch, dom_map, bool(debug_keep_trivial_loop))
    plan = _Plan(sch, context)
    body: ir.Stmt | None = None
    for stage in plan.roots:
        body = plan.pipeline(stage, body)
    for stage in sch.stages:
        if body is not None and isinstance(stage.op, PlaceholderOp):
            body = _with_layout(stage, body)
    result = _Assembler(sch, plan).visit(body) if body is not None else ir.Evaluate(0)
    plan.check_all_placed()
    if is_recording():
        for row in stage_waste(sch, result, dom_map):
            note("te.waste", str(row), stage=row.stage, computed=row.computed, used=row.used)
    return result


def _context(sch: Schedule, dom_map: Mapping[ir.IterVar, ir.Range], keep_trivial: bool) -> LoopContext:
    """The ranges and the options; with `te.exact_unions` also the elements to compute of each stage."""
    options = PassContext.current()
    demand: dict[Stage, Any] = {}
    if options.option("te.exact_unions", False):
        for stage, union in needed_elements(sch, dom_map, True).items():
            if isinstance(stage.op, ComputeOp) and saves_work(union) and not stage.get_attach_spec().is_attached:
                demand[stage] = union
                note("te.exact_unions", f"of `{stage.name}` only {union.count()} elements are computed, not the "
                     f"{union.count() + union.waste()} of the box around them", stage=stage.name,
                     computed=union.count(), saved=union.waste())  # fmt: skip
    inside: dict[Stage, dict[Stage, ir.IterVar]] = {}
    for stage in sch.stages:
        spec = stage.get_attach_spec()
        if spec.attach_ivar is not None:
            assert spec.attach_stage is not None
            inside.setdefault(spec.attach_stage, {})[stage] = spec.attach_ivar
    return LoopContext(
        dom_map,
        keep_trivial,
        bool(options.option("te.tight_split", False)),
        demand,
        inside,
        BoundContext(sch).memory_ranks,
    )


class _Plan:
    """Where the pipeline of each stage goes.

    `roots`, and for each place the stages there, are in the order in which they wrap what is
    there already: consumers first.
    """

    def __init__(self, sch: Schedule, context: LoopContext) -> None:
        self.context = context
        self.roots: list[Stage] = []
        self.at_loop: dict[ir.IterVar, list[Stage]] = {}
        self.at_init: dict[Operation, list[Stage]] = {}
        self.at_update: dict[Operation, list[Stage]] = {}
        self.placed: set[Stage] = set()
        scan_of = _scan_inits(sch)
        for stage in reversed(sch.stages):
            if stage.attach_type == AttachType.INLINE:
                raise DefectError(
                    f"stage `{stage.name}` is not inlined yet; call schedule.normalize() first",
                    code="te.lower.not_normalized",
                )
            if isinstance(stage.op, PlaceholderOp):
                continue
            spec = stage.get_attach_spec()
            if stage.op in scan_of:
                self.at_init.setdefault(scan_of[stage.op], []).append(stage)
            elif spec.attach_type == AttachType.SCAN_UPDATE:
                assert spec.attach_stage is not None
                self.at_update.setdefault(spec.attach_stage.op, []).append(stage)
            elif spec.attach_type == AttachType.GROUP_ROOT:
                self.roots.append(stage)
            elif spec.attach_type == AttachType.SCOPE:
                assert spec.attach_ivar is not None
                self.at_loop.setdefault(spec.attach_ivar, []).append(stage)

    def pipeline(self, stage: Stage, consumer: ir.Stmt | None) -> ir.Stmt:
        """The statement that computes `stage`, then runs `consumer`."""
        self.placed.add(stage)
        producer = build_provide(stage, self.context)
        for tensor in reversed(stage.op.outputs if stage.is_double_buffered else ()):
            producer = ir.AttrStmt(tensor, "double_buffer_scope", 1, producer, stage.span)
        body = producer
        if consumer is not None and not _is_no_op(consumer):
            body = ir.SeqStmt([producer, consumer])
        if stage.is_rolling:
            body = ir.AttrStmt(stage.op.output(0), "rolling_buffer_scope", ir.IntImm("bool", 1), body, stage.span)
        return _with_layout(stage, build_realize(stage, self.context, body))

    def check_all_placed(self) -> None:
        """An error if the loop at which a stage is computed is nowhere in the program."""
        waiting = [s for places in (self.at_loop, self.at_init, self.at_update) for g in places.values() for s in g]
        for stage in waiting:
            if stage not in self.placed:
                spec = stage.get_attach_spec()
                loop = f"`{spec.attach_ivar.var.name}`" if spec.attach_ivar is not None else "a scan"
                where = f" of stage `{spec.attach_stage.name}`" if spec.attach_stage is not None else ""
                raise ScheduleError(
                    f"stage `{stage.name}` is computed at {loop}{where}, which is not in the program",
                    span=stage.span,
                    hint="a loop inside a tensorized one is replaced by the intrinsic",
                    code="te.compute_at.loop_not_in_program",
                )


def _with_layout(stage: Stage, body: ir.Stmt) -> ir.Stmt:
    """`body` with what is said of the layout of the stage's result."""
    tensor = stage.op.output(0)
    if stage.layout_transforms:
        body = ir.AttrStmt((tensor, tuple(stage.layout_transforms)), "layout_transforms", 1, body, stage.span)
    if stage.axis_separators:
        body = ir.AttrStmt((tensor, tuple(stage.axis_separators)), "axis_separators", 1, body, stage.span)
    return body


def _scan_inits(sch: Schedule) -> dict[Operation, Operation]:
    """For each operation that initializes a scan, the scan."""
    found: dict[Operation, Operation] = {}
    for stage in sch.stages:
        if isinstance(stage.op, ScanOp):
            for tensor in stage.op.init:
                if found.setdefault(tensor.op, stage.op) is not stage.op:
                    raise ScheduleError(
                        f"`{tensor.name}` initializes more than one scan", span=stage.span, code="te.scan.shared_init"
                    )
    return found


def _is_no_op(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.IntImm)


class _Assembler(ir.Mutator):
    """Puts pipelines at their places, and tidies up.

    Marks of places are dropped; single values of loops that run once are put in; rewritten
    operations are named as the user knows them; threads are launched once.
    """

    def __init__(self, sch: Schedule, plan: _Plan) -> None:
        self.plan = plan
        self.values: dict[ir.Var, ir.PrimExpr] = {}
        self.launched: dict[Any, ir.PrimExpr] = {}
        self.conditions: list[ir.PrimExpr] = []
        self.tensors: dict[Tensor, Tensor] = {}
        # tensors without a memory of their own: parts of a scan
        self.unrealized: set[Tensor] = set()
        for stage in sch.stages:
            for iv, attr in stage.iter_var_attrs.items():
                if attr.bind_thread is not None:
                    self.values[iv.var] = attr.bind_thread.var
            if isinstance(stage.op, ScanOp):
                self._merge_scan(stage.op, stage.origin_op)
            if stage.op is not stage.origin_op:
                self.tensors.update(zip(stage.op.outputs, stage.origin_op.outputs))

    def _merge_scan(self, scan: ScanOp, origin: Operation) -> None:
        for i, target in enumerate(origin.outputs):
            for part in (scan.init[i], scan.update[i], scan.state_placeholder[i]):
                self.tensors[part] = target
                self.unrealized.add(part)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> Any:
        return self.values.get(var, var)

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> Any:
        value = self.visit(node.value)
        if side_effect(value) > ir.CallEffect.PURE:  # keeps what is there before a store, and is computed once
            return node.replace(value=value, body=self.visit(node.body))
        self.values[node.var] = value
        return self.visit(node.body)

    @ir.handles(ir.AttrStmt)
    def attr(self, node: ir.AttrStmt) -> Any:
        handler = _ATTRS.get(node.attr_key)
        return self.visit_children(node) if handler is None else handler(self, node)

    def _at(self, places: dict[Any, list[Stage]], node: ir.AttrStmt) -> ir.Stmt:
        """The body of a mark, with the pipelines that belong there around it."""
        body = node.body
        for stage in places.get(node.node, ()):
            if stage in self.plan.placed:
                raise DefectError(
                    f"the place of stage `{stage.name}` was found twice", code="te.lower.stage_placed_twice"
                )
            body = self.plan.pipeline(stage, body)
        return self.visit(body)

    def _loop_scope(self, node: ir.AttrStmt) -> ir.Stmt:
        return self._at(self.plan.at_loop, node)

    def _scan_init(self, node: ir.AttrStmt) -> ir.Stmt:
        return self._at(self.plan.at_init, node)

    def _scan_update(self, node: ir.AttrStmt) -> ir.Stmt:
        return self._at(self.plan.at_update, node)

    def _launch(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.node in self.launched:
            self._check_all_come(node)
            return self.visit(node.body)
        self.launched[node.node] = node.value
        result = self.visit_children(node)
        del self.launched[node.node]
        return result

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        self.conditions.append(condition)
        then = self.visit(node.then_case)
        self.conditions.pop()
        other = None if node.else_case is None else self.visit(node.else_case)
        return node.replace(condition=condition, then_case=then, else_case=other)

    def _check_all_come(self, node: ir.AttrStmt) -> None:
        """A loop over threads that were launched outside it runs in all of them."""
        var = node.node.var
        if not is_const(node.value, 1) and any(uses_var(c, (var,)) for c in self.conditions):
            raise ScheduleError(
                f"a loop of {node.value} iterations is bound to `{var.name}` where not all of these threads come: "
                "a loop outside it is bound to them too, and its iterations are fewer",
                span=node.span,
                hint="bind one of the two loops only",
                code="te.bind.threads_missing",
            )

    def _about_tensor(self, node: ir.AttrStmt) -> ir.Stmt:
        """A fact on a tensor: on the tensor that the user knows; none if it has no memory."""
        if node.node in self.unrealized:
            return self.visit(node.body)
        result = self.visit_children(node)
        return result.replace(node=self.tensors.get(node.node, node.node))

    def _layout(self, node: ir.AttrStmt) -> ir.Stmt:
        tensor, facts = node.node
        return node.replace(node=(self.tensors.get(tensor, tensor), facts), body=self.visit(node.body))

    def _bind_buffer(self, node: ir.AttrStmt) -> ir.Stmt:
        buffer, tensor = node.node
        result = self.visit_children(node)
        return result.replace(node=(buffer, self.tensors.get(tensor, tensor)))

    @ir.handles(ir.ProducerRealize)
    def realize(self, node: ir.ProducerRealize) -> Any:
        if node.producer in self.unrealized:
            return self.visit(node.body)
        result = self.visit_children(node)
        return self._renamed(result)

    @ir.handles(ir.ProducerStore, ir.ProducerLoad)
    def access(self, node: Any) -> Any:
        return self._renamed(self.visit_children(node))

    def _renamed(self, node: Any) -> Any:
        other = self.tensors.get(node.producer)
        return node if other is None else node.replace(producer=other)


_ATTRS: dict[str, Callable[[_Assembler, ir.AttrStmt], ir.Stmt]] = {
    "loop_scope": _Assembler._loop_scope,
    "scan_init_scope": _Assembler._scan_init,
    "scan_update_scope": _Assembler._scan_update,
    "thread_extent": _Assembler._launch,
    "double_buffer_scope": _Assembler._about_tensor,
    "rolling_buffer_scope": _Assembler._about_tensor,
    "buffer_dim_align": _Assembler._about_tensor,
    "prefetch_scope": _Assembler._about_tensor,
    "buffer_bind_scope": _Assembler._bind_buffer,
    "layout_transforms": _Assembler._layout,
    "axis_separators": _Assembler._layout,
}
