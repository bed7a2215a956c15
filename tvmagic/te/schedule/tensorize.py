"""Tensorization: the loops from one on replaced by the call of a tensor intrinsic.

The computation inside the tensorized loop must be what the intrinsic declares; both are compared
after the axes of the one are put in the place of those of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet, union
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.errors import ScheduleError
from tvmagic.ir.ops import likely, logical_or
from tvmagic.te.intrinsic import TensorIntrin
from tvmagic.te.schedule.infer_bound import request_inputs
from tvmagic.te.schedule.loop_nest import ComputeLoopNest, LoopContext, if_nest, merge_nest, substitute_values
from tvmagic.te.schedule.message_passing import pass_up_domain
from tvmagic.te.schedule.relations import is_const
from tvmagic.te.schedule.stage import Stage
from tvmagic.te.tensor import BaseComputeOp, ComputeOp, Tensor, TensorComputeOp

_NO_OP = ir.Evaluate(0)
Regions = dict[Tensor, list[ir.Range]]


def make_tensorize(stage: Stage, context: LoopContext) -> ir.Stmt:
    """The statement of a compute stage with a tensorized loop."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    place, roots, regions = _tensorized_regions(stage, op, context)
    intrin = stage.iter_var_attrs[stage.leaf_iter_vars[place]].tensor_intrin
    assert intrin is not None
    loops = ComputeLoopNest(op, stage, context)
    _check_conditions(stage, loops, place)
    _Matcher(stage, op, intrin, roots, regions).verify()
    inputs = [_bind(b, t, regions[t]) for b, t in zip(intrin.buffers, op.input_tensors)]
    outputs = intrin.buffers[len(intrin.inputs) :]
    region = [roots[iv] for iv in op.axis]
    call = _IntrinsicCall(stage, intrin, inputs, [_bind(b, t, region) for b, t in zip(outputs, op.outputs)])
    _bind_reduction_sizes(stage, op, intrin, roots, call.values)
    return call.place(loops, context, place, place > loops.common)


def make_tensor_compute(stage: Stage, context: LoopContext) -> ir.Stmt:
    """The statement of a stage that is made of intrinsic calls."""
    op = stage.op
    assert isinstance(op, TensorComputeOp)
    intrin = op.intrin
    inputs = [_bind(b, t, list(r)) for b, t, r in zip(intrin.buffers, op.inputs, op.input_regions)]
    region = [
        ir.Range.from_min_extent(iv.var, 1) if i < op.schedulable_ndim else iv.dom for i, iv in enumerate(op.axis)
    ]
    outputs = intrin.buffers[len(intrin.inputs) :]
    call = _IntrinsicCall(stage, intrin, inputs, [_bind(b, t, region) for b, t in zip(outputs, op.outputs)])
    if len(intrin.scalar_params) != len(op.scalar_inputs):
        raise ScheduleError(
            f"stage `{stage.name}`: intrinsic `{intrin.name}` takes {len(intrin.scalar_params)} scalars, "
            f"{len(op.scalar_inputs)} are given",
            span=stage.span,
            code="te.tensorize.wrong_scalar_count",
        )
    call.values.update(zip(intrin.scalar_params, op.scalar_inputs))
    loops = ComputeLoopNest(op, stage, context)
    return call.place(loops, context, len(stage.leaf_iter_vars), bool(op.reduce_axis))


def _bind(buffer: Any, tensor: Tensor, region: Sequence[Any]) -> ir.Stmt:
    """The statement that lets `buffer` stand for a region of `tensor`."""
    ends: list[Any] = []
    for range_ in region:
        ends += [range_.min, range_.extent]
    return ir.AttrStmt((buffer, tensor), "buffer_bind_scope", ir.Call("handle", "tir.tvm_tuple", ends), _NO_OP)


class _IntrinsicCall:
    """The statements of an intrinsic, with its buffers bound.

    `values`: what the variables of its declaration stand for.
    """

    def __init__(self, stage: Stage, intrin: TensorIntrin, inputs: list[ir.Stmt], outputs: list[ir.Stmt]) -> None:
        self.stage, self.intrin = stage, intrin
        self.inputs, self.outputs = inputs, outputs
        self.values: dict[ir.Var, ir.PrimExpr] = {}

    def _intrinsic_part(self, name: str) -> ir.Stmt:
        part = getattr(self.intrin, name)
        if part is None:
            raise ScheduleError(
                f"stage `{self.stage.name}`: intrinsic `{self.intrin.name}` declares no {name}",
                span=self.stage.span,
                code="te.tensorize.undeclared_part",
            )
        return part

    def _bound(self, body: ir.Stmt, loops: ComputeLoopNest) -> ir.Stmt:
        body = merge_nest([self.inputs, self.outputs], body)
        return substitute_values(ir.substitute(body, self.values), loops.main_values)

    def place(self, loops: ComputeLoopNest, context: LoopContext, place: int, split: bool) -> ir.Stmt:
        """The call inside the loops before number `place`; `split`: the reduction goes over several calls."""
        conditions = if_nest(loops.main_predicates)
        nest = loops.main_nest[: place + 1]
        if not split:
            body = self._bound(self._intrinsic_part("body"), loops)
            return merge_nest([*nest, conditions], body)
        update = self._intrinsic_part("reduce_update")
        inner = [*nest[loops.common + 1 :], conditions]
        common = loops.main_nest[: loops.common + 1]
        if self.intrin.reduce_init is None:
            update = self._first_or_update(loops, context, self._intrinsic_part("body"), update)
            return merge_nest(common, merge_nest(inner, self._bound(update, loops)))
        init = merge_nest([self.outputs], self.intrin.reduce_init)
        init = substitute_values(ir.substitute(init, self.values), loops.init_values)
        init = merge_nest([*loops.init_nest[: place + 1], if_nest(loops.init_predicates)], init)
        update = merge_nest(inner, self._bound(update, loops))
        return merge_nest(common, ir.SeqStmt.flatten(init, update))

    def _first_or_update(self, loops: ComputeLoopNest, context: LoopContext, body: ir.Stmt, update: ir.Stmt) -> ir.Stmt:
        """`body` in the first iteration of the reduction, `update` in all others."""
        later: ir.PrimExpr = ir.IntImm("bool", 0)
        variables: set[ir.Var] = set()
        for iv in self.stage.leaf_iter_vars:
            attr = self.stage.iter_var_attrs.get(iv)
            if attr is not None and attr.iter_type == ir.IterVar.Tensorized:
                break
            if iv in loops.mixed:
                raise ScheduleError(
                    f"stage `{self.stage.name}`: `{iv.var.name}` is fused of data and reduction, so its first iteration is "
                    f"not the first of each reduction, and intrinsic `{self.intrin.name}` declares no initialization",
                    span=self.stage.span,
                    hint="declare an initialization with the intrinsic, or fuse loops of the data alone",
                    code="te.tensorize.fused_with_data",
                )
            if iv.iter_type == ir.IterVar.CommReduce:
                later = logical_or(later, likely(iv.var > context.ranges[iv].min))
                variables.add(iv.var)
        for condition in loops.main_predicates:
            if uses_var(condition, variables):
                raise ScheduleError(
                    f"stage `{self.stage.name}`: the guard `{condition}` can skip the first iteration of the reduction",
                    span=self.stage.span,
                    hint="declare an initialization with the intrinsic, or split by a factor that divides",
                    code="te.tensorize.guard_skips_init",
                )
        return ir.IfThenElse(later, update, body)


# ---------------------------------------------------------------------------- what is tensorized


def _tensorized_regions(
    stage: Stage, op: ComputeOp, context: LoopContext
) -> tuple[int, dict[ir.IterVar, ir.Range], Regions]:
    """The place of the tensorized loop; the ranges of the roots and the regions of inputs inside it."""
    place: int | None = None
    sets: dict[ir.IterVar, IntSet] = {}
    for position in range(len(stage.leaf_iter_vars) - 1, -1, -1):
        iv = stage.leaf_iter_vars[position]
        range_, attr = context.ranges[iv], stage.iter_var_attrs.get(iv)
        if is_const(range_.extent, 1):
            sets[iv] = IntSet.single_point(range_.min)
        else:
            sets[iv] = IntSet.single_point(iv.var) if place is not None else IntSet.from_range(range_)
        if attr is None:
            continue
        if place is None and attr.bind_thread is not None:
            raise ScheduleError(
                f"stage `{stage.name}`: thread loop `{iv.var.name}` inside a tensorized one",
                code="te.tensorize.thread_loop_inside",
            )
        if attr.iter_type == ir.IterVar.Tensorized:
            if place is not None:
                raise ScheduleError(
                    f"stage `{stage.name}`: two tensorized loops, one of them `{iv.var.name}`",
                    code="te.tensorize.nested",
                )
            place = position
    assert place is not None
    pass_up_domain(stage, context.ranges, sets)
    roots: dict[ir.IterVar, ir.Range] = {}
    root_sets: dict[ir.Var, IntSet] = {}
    analyzer = Analyzer()
    for iv in op.root_iter_vars():
        roots[iv] = sets[iv].cover_range(context.ranges[iv])
        analyzer.bind(iv.var, roots[iv])
        root_sets[iv.var] = sets[iv]
    requests: dict[Tensor, list[list[IntSet]]] = {t: [[] for _ in t.shape] for t in op.input_tensors}
    request_inputs(op, analyzer, root_sets, requests)
    regions: Regions = {}
    for tensor, dom in requests.items():
        whole = [ir.Range.from_min_extent(0, size) for size in tensor.shape]
        regions[tensor] = [union(sets_).cover_range(w) for sets_, w in zip(dom, whole)]
    return place, roots, regions


def _check_conditions(stage: Stage, loops: ComputeLoopNest, place: int) -> None:
    """No guard may depend on a loop that the intrinsic replaces."""
    inside: set[ir.Var] = set()
    for nest in (loops.main_nest, loops.init_nest):
        for level in nest[place + 1 :]:
            for stmt in level:
                if isinstance(stmt, ir.For):
                    inside.add(stmt.loop_var)
                elif isinstance(stmt, ir.LetStmt):
                    inside.add(stmt.var)
    for condition in (*loops.main_predicates, *loops.init_predicates):
        if uses_var(condition, inside):
            raise ScheduleError(
                f"stage `{stage.name}`: the guard `{condition}` depends on a loop inside the tensorized one",
                span=stage.span,
                hint="split by a factor that divides the extent",
                code="te.tensorize.guard_depends_on_loop",
            )


def _bind_reduction_sizes(
    stage: Stage,
    op: BaseComputeOp,
    intrin: TensorIntrin,
    roots: dict[ir.IterVar, ir.Range],
    values: dict[ir.Var, ir.PrimExpr],
) -> None:
    """Let symbolic reduction sizes of the declaration stand for those of the call."""
    target = intrin.op.reduce_axis
    for iv, own in zip(op.reduce_axis[len(op.reduce_axis) - len(target) :], target):
        assert own.dom is not None
        size = own.dom.extent
        if isinstance(size, ir.Var):
            values[size] = roots[iv].extent
        elif not Analyzer().can_prove(size.equal(roots[iv].extent)):
            raise ScheduleError(
                f"stage `{stage.name}`: reduction `{iv.var.name}` has {roots[iv].extent} iterations, "
                f"intrinsic `{intrin.name}` takes {size}",
                span=stage.span,
                code="te.tensorize.reduction_size_differs",
            )


class _Matcher(ir.Mutator):
    """Rewrites the body of a stage with the axes and inputs of an intrinsic's declaration."""

    def __init__(
        self, stage: Stage, op: ComputeOp, intrin: TensorIntrin, roots: dict[ir.IterVar, ir.Range], regions: Regions
    ) -> None:
        self.stage, self.op, self.intrin, self.regions = stage, op, intrin, regions
        declared = intrin.op
        if not isinstance(declared, ComputeOp):
            raise self._refusal("is not declared by te.compute", code="te.tensorize.not_declared_by_compute")
        self.declared = declared
        self.analyzer = Analyzer()
        self.values: dict[ir.Var, ir.PrimExpr] = {}
        self.axes: dict[ir.IterVar, ir.IterVar] = {}
        self.inputs: dict[Tensor, Tensor] = {}
        self._map_axes(op.axis, declared.axis, roots, "output")
        self._map_axes(op.reduce_axis, declared.reduce_axis, roots, "reduction")
        self._map_inputs(regions)

    def _refusal(self, message: str, code: str) -> ScheduleError:
        where = f"stage `{self.stage.name}`: intrinsic `{self.intrin.name}`"
        return ScheduleError(f"{where} {message}", span=self.stage.span, code=code)

    def _map_axes(
        self, own: Sequence[ir.IterVar], declared: Sequence[ir.IterVar], roots: dict[ir.IterVar, ir.Range], what: str
    ) -> None:
        """The last axes stand for those of the declaration; the others run once."""
        start = len(own) - len(declared)
        if start < 0:
            raise self._refusal(
                f"has {len(declared)} {what} axes, the stage only {len(own)}", code="te.tensorize.too_many_axes"
            )
        for position, iv in enumerate(own):
            range_ = roots[iv]
            if position < start:
                if not is_const(range_.extent, 1):
                    raise self._refusal(
                        f"has no {what} axis for `{iv.var.name}`, of which `{range_.extent}` iterations are inside",
                        code="te.tensorize.missing_axis",
                    )
                self.values[iv.var] = range_.min
                continue
            target = declared[position - start]
            self.values[iv.var] = target.var + range_.min
            self.axes[iv] = target
            assert target.dom is not None
            self.analyzer.bind(target.var, target.dom)

    def _map_inputs(self, regions: Regions) -> None:
        own = self.op.input_tensors
        if len(own) != len(self.intrin.inputs):
            raise self._refusal(
                f"has {len(self.intrin.inputs)} inputs, the stage {len(own)}", code="te.tensorize.wrong_input_count"
            )
        for tensor, declared in zip(own, self.intrin.inputs):
            start = len(regions[tensor]) - len(declared.shape)
            outer = regions[tensor][: max(start, 0)]
            if start < 0 or not all(is_const(self.analyzer.simplify(r.extent), 1) for r in outer):
                raise self._refusal(
                    f"takes a region of {len(declared.shape)} dimensions of `{tensor.name}`",
                    code="te.tensorize.wrong_input_rank",
                )
            self.inputs[tensor] = declared

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> Any:
        return self.values.get(var, var)

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Any:
        tensor = node.producer
        node = self.visit_children(node)
        declared = self.inputs.get(tensor)
        if declared is None:
            return node
        start = len(node.indices) - len(declared.shape)
        region = self.regions[tensor]
        places = [self.analyzer.simplify(i - r.min) for i, r in zip(node.indices[start:], region[start:])]
        return ir.ProducerLoad(declared, places)

    @ir.handles(ir.Reduce)
    def reduce(self, node: ir.Reduce) -> Any:
        axes = [self.axes[iv] for iv in node.axis if iv in self.axes]
        source = [self.visit(s) for s in node.source]
        condition = self.visit(node.condition)
        return (
            ir.Reduce(node.combiner, source, axes, condition, node.value_index, node.init)
            if axes
            else source[node.value_index]
        )

    def verify(self) -> None:
        """An error if the stage computes something else than the intrinsic declares."""
        if len(self.op.body) != len(self.declared.body):
            raise self._refusal(
                f"has {len(self.declared.body)} outputs, the stage {len(self.op.body)}",
                code="te.tensorize.wrong_output_count",
            )
        for own, wanted in zip(self.op.body, self.declared.body):
            found = self.analyzer.simplify(self.visit(own))
            wanted = self.analyzer.simplify(wanted)
            if not ir.structural_equal(found, wanted):
                raise self._refusal(f"computes `{wanted}`, the stage `{found}`", code="te.tensorize.body_differs")
