"""VectorizeLoop: loops marked `vectorized` become vector code, or are left serial.

In the body of such a loop the loop variable is the vector `Ramp(0, 1, lanes)`. What is computed
from it becomes a vector too: sums and products of ramps stay ramps, so that dense accesses stay
dense; other scalars beside a vector are broadcast. A statement that decides by lane, or calls what
takes no vectors, keeps its scalar form in a loop over the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.scalable import ContainsVscale, current_target
from tvmagic.errors import TVMagicError
from tvmagic.ir.expr import access_dtype
from tvmagic.ir.operators import vscale_factor
from tvmagic.ir.ops import add, logical_not, make_zero, multiply, subtract
from tvmagic.passes import PassContext, is_recording, note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.loops.lanes import (
    LaneStorage,
    broadcast_to,
    lane_of,
    longest,
    refuse_scalable_elements,
    refuse_vectors_of_vectors,
    same_lanes,
)
from tvmagic.tir.transform.loops.predicate import predicate_accesses
from tvmagic.tir.transform.loops.vectorize_notes import Explanation
from tvmagic.tir.transform.use_def import buffer_mentions, mentions, used_as_pointer


class _NeedsScalar(Exception):
    """The innermost statement around this place cannot be written for all lanes at once."""

    def __init__(self, reason: str, node: Any) -> None:
        super().__init__(reason)
        self.reason, self.node = reason, node


class _Vectorizer(ir.Mutator):
    """Rewrites the body of one loop with its variable as a vector of all its values."""

    def __init__(self, loop: ir.For, masks: bool, explained: bool = False) -> None:
        self.loop, self.var, self.masks = loop, loop.loop_var, masks
        self.ramp = ir.Ramp(ir.IntImm(self.var.dtype, 0), ir.IntImm(self.var.dtype, 1), loop.extent)
        self.lanes, self.code = self.ramp.lanes, self.ramp.dtype.lane_code
        self.analyzer = Analyzer()
        self.said = Explanation(loop, self.lanes) if explained else None
        self.lets: dict[ir.Var, ir.Var] = {}
        # scalar values of the lets that became vectors, innermost last, for statements kept scalar
        self.vector_lets: list[tuple[ir.Var, ir.PrimExpr]] = []

    def visit(self, node: Any) -> Any:
        if not isinstance(node, ir.Stmt):
            return super().visit(node)
        depth, said = len(self.vector_lets), len(self.said.said) if self.said is not None else 0
        try:
            return super().visit(node)
        except _NeedsScalar as need:
            del self.vector_lets[depth:]
            if self.said is not None:
                self.said.forget(said)
            return self.scalarize(node, need)

    def scalarize(self, stmt: ir.Stmt, need: _NeedsScalar) -> ir.Stmt:
        """`stmt` in a serial loop over the lanes."""
        if is_recording():
            note(
                "vectorize.scalar",
                f"loop `{self.var.name}` runs lane by lane here: {need.reason}",
                node=need.node,
                loop=self.var.name,
                lanes=self.code,
                reason=need.reason,
            )
        lane = ir.Var(self.var.name + ".s", self.var.dtype)
        for var, value in reversed(self.vector_lets):
            if mentions(stmt, (var,)):
                stmt = ir.LetStmt(var, value, stmt, stmt.span)
        body = ir.substitute(stmt, {self.var: lane})
        zero = ir.IntImm(self.var.dtype, 0)
        return ir.For(lane, zero, self.loop.extent, ir.ForKind.SERIAL, body, span=self.loop.span)

    # ------------------------------------------------------------------ expressions

    @ir.handles(ir.Var)
    def var_use(self, var: ir.Var) -> ir.PrimExpr:
        return self.ramp if var is self.var else self.lets.get(var, var)

    @ir.handles(ir.BinaryOp)
    def binary(self, node: ir.BinaryOp) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        return type(node)(*same_lanes(a, b), span=node.span)

    @ir.handles(ir.Add, ir.Sub)
    def sum(self, node: ir.BinaryOp) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        combine = add if isinstance(node, ir.Add) else subtract
        if a.dtype.is_scalar and isinstance(b, ir.Ramp):
            stride = combine(make_zero(b.stride.dtype), b.stride)
            return self.by_rule(
                node, ir.Ramp(combine(a, b.base), stride, b.lanes, node.span), "a scalar moves the ramp"
            )
        if b.dtype.is_scalar and isinstance(a, ir.Ramp):
            return self.by_rule(
                node, ir.Ramp(combine(a.base, b), a.stride, a.lanes, node.span), "a scalar moves the ramp"
            )
        return combine(*same_lanes(a, b), span=node.span)

    @ir.handles(ir.Mul)
    def product(self, node: ir.Mul) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        for ramp, factor in ((a, b), (b, a)):
            if not isinstance(ramp, ir.Ramp) or not factor.dtype.is_scalar:
                continue
            if self._is_positive(factor):
                scaled = ir.Ramp(multiply(ramp.base, factor), multiply(ramp.stride, factor), ramp.lanes, node.span)
                return self.by_rule(node, scaled, "a positive factor scales base and stride")
            if self.said is not None:
                self.said.unproved(node, factor)
        return ir.Mul(*same_lanes(a, b), span=node.span)

    def by_rule(self, node: ir.PrimExpr, became: ir.PrimExpr, rule: str) -> ir.PrimExpr:
        """`became`, with a note of the rule that made it of `node`."""
        if self.said is not None:
            self.said.rule(node, became, rule)
        return became

    def _is_positive(self, value: ir.PrimExpr) -> bool:
        return value.value > 0 if isinstance(value, ir.IntImm) else self.analyzer.can_prove(value > 0)

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> ir.PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else logical_not(a, node.span)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> ir.PrimExpr:
        parts = [self.visit(p) for p in (node.condition, node.true_value, node.false_value)]
        if parts[0] is node.condition and parts[1] is node.true_value and parts[2] is node.false_value:
            return node
        return ir.Select(*same_lanes(*parts), span=node.span)

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> ir.PrimExpr:
        value = self.visit(node.value)
        return node if value is node.value else ir.Cast(node.dtype.with_lanes_of(value.dtype), value, node.span)

    @ir.handles(ir.Ramp)
    def ramp_of_ramp(self, node: ir.Ramp) -> ir.PrimExpr:
        base, stride = self.visit(node.base), self.visit(node.stride)
        if base is node.base and stride is node.stride:
            return node
        refuse_vectors_of_vectors(node, base)
        if base.dtype.is_scalar and stride.dtype.is_scalar:
            return ir.Ramp(base, stride, node.lanes, node.span)
        lanes = node.dtype.lanes
        if isinstance(base, ir.Ramp) and stride.dtype.is_scalar:
            span = multiply(stride, ir.IntImm(stride.dtype, lanes))
            if self.analyzer.can_prove(base.stride.equal(span)):
                return ir.Ramp(base.base, stride, base.lanes * lanes, node.span)
        base, stride = same_lanes(base, stride)
        count = base.dtype.lanes
        parts = [ir.Ramp(lane_of(base, i), lane_of(stride, i), lanes) for i in range(count)]
        index_type = "int32"
        return ir.Shuffle(parts, [ir.IntImm(index_type, i) for i in range(count * lanes)], node.span)

    @ir.handles(ir.Broadcast)
    def broadcast(self, node: ir.Broadcast) -> ir.PrimExpr:
        value = self.visit(node.value)
        if value.dtype.is_vector:
            raise _NeedsScalar("a broadcast inside it would become a vector of vectors", node)
        return node.with_(value=value)

    @ir.handles(ir.Shuffle, ir.Reduce)
    def opaque(self, node: ir.PrimExpr) -> ir.PrimExpr:
        if mentions(node, (self.var, *self.lets)):
            raise _NeedsScalar(f"a {type(node).__name__} inside it depends on the lane", node)
        return node

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        rule = _CALL_RULES.get(node.op.name) if isinstance(node.op, ir.Op) else None
        if rule is not None:
            return rule(self, node)
        if isinstance(node.op, ir.Op) and node.op.vectorizable:
            args = ir.mutate_all(self.visit, node.args)
            if args is node.args:
                return node
            args = same_lanes(*args)
            return ir.Call(node.dtype.with_lanes_of(args[0].dtype), node.op, args, node.span)
        args = ir.mutate_all(self.visit, node.args)
        if any(isinstance(a, ir.PrimExpr) and a.dtype.lane_code != b.dtype.lane_code for a, b in zip(args, node.args)):
            name = node.op.name if isinstance(node.op, ir.Op) else node.op.name_hint
            raise _NeedsScalar(f"`{name.removeprefix('tir.')}` takes no vectors", node)
        return node.with_(args=args)

    def if_then_else(self, node: ir.Call) -> ir.PrimExpr:
        condition = self.visit(node.args[0])
        if condition.dtype.is_vector:
            raise _NeedsScalar("the condition of an `if_then_else` differs from lane to lane", node)
        then, other = self.visit(node.args[1]), self.visit(node.args[2])
        if condition is node.args[0] and then is node.args[1] and other is node.args[2]:
            return node
        then, other = same_lanes(then, other)
        return ir.Call(node.dtype.with_lanes_of(then.dtype), node.op, (condition, then, other), node.span)

    def reinterpret(self, node: ir.Call) -> ir.PrimExpr:
        value = self.visit(node.args[0])
        if value is node.args[0]:
            return node
        return ir.Call(node.dtype.with_lanes_of(value.dtype), node.op, (value,), node.span)

    def llvm_intrinsic(self, node: ir.Call) -> ir.PrimExpr:
        """The intrinsic on vectors; its name and the number of arguments that choose the overload stay as they are."""
        args = ir.mutate_all(self.visit, node.args)
        if args is node.args:
            return node
        args = same_lanes(*args[2:])
        return ir.Call(node.dtype.with_lanes_of(args[0].dtype), node.op, (*node.args[:2], *args), node.span)

    def checked_index(self, node: ir.Call) -> ir.PrimExpr:
        index, extent = self.visit(node.args[0]), self.visit(node.args[1])
        if extent.dtype.is_vector:
            raise _NeedsScalar("the extent of a dimension differs from lane to lane", node)
        return ir.Call(index.dtype, node.op, (index, extent, *node.args[2:]), node.span)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> ir.PrimExpr:
        value = self.visit(node.value)
        var = self._bind(node.var, node.value, value)
        body = self.visit(node.body)
        if value is node.value and body is node.body:
            return node
        return ir.Let(var, value, body, node.span)

    def _bind(self, var: ir.Var, scalar: ir.PrimExpr, value: ir.PrimExpr) -> ir.Var:
        """The variable that stands for `value` from here on: a new one if it is a vector."""
        if value.dtype is scalar.dtype:
            self.lets[var] = var
            return var
        new = self.lets[var] = ir.Var(var.name, value.dtype, var.span)
        return new

    # ------------------------------------------------------------------ accesses

    def _indices(self, node: ir.BufferLoad | ir.BufferStore) -> tuple[ir.PrimExpr, ...]:
        if buffer_mentions(node.buffer, self.var):
            raise _NeedsScalar(f"the shape or place of buffer `{node.buffer.name}` depends on the lane", node)
        indices = ir.mutate_all(self.visit, node.indices)
        if any(index.dtype.is_vector for index in indices[:-1]):
            raise _NeedsScalar(f"an index of `{node.buffer.name}` other than the last differs from lane to lane", node)
        if node.predicate is not None and self.visit(node.predicate) is not node.predicate:
            raise _NeedsScalar(f"the mask of an access to `{node.buffer.name}` differs from lane to lane", node)
        if self.said is not None:
            self.said.access(node, indices)
        return indices

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        indices = self._indices(node)
        if indices is node.indices:
            return node
        refuse_scalable_elements(node)
        return node.replace(indices=indices, dtype=access_dtype(node.buffer, indices))

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        indices, value = self._indices(node), self.visit(node.value)
        if indices is node.indices and value is node.value:
            return node
        if not indices:
            raise _NeedsScalar(f"buffer `{node.buffer.name}` has no dimension to spread lanes over", node)
        refuse_scalable_elements(node)
        element_lanes = node.buffer.dtype.lanes
        total = longest(element_lanes * indices[-1].dtype.lane_code, value.dtype.lane_code)
        last = broadcast_to(indices[-1], total // element_lanes)
        return node.replace(indices=(*indices[:-1], last), value=broadcast_to(value, total))

    # ------------------------------------------------------------------ statements

    @ir.handles(ir.For)
    def loop_inside(self, node: ir.For) -> ir.Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        if extent.dtype.is_vector or low.dtype.is_vector:
            raise _NeedsScalar(f"the range of loop `{node.loop_var.name}` differs from lane to lane", node)
        kind = node.kind
        if kind is ir.ForKind.VECTORIZED:
            note("vectorize.nested", f"vectorized loop `{node.loop_var.name}` inside another runs serially", node=node)
            kind = ir.ForKind.SERIAL
        body = self.visit(node.body)
        return node.with_(min=low, extent=extent, body=body, kind=kind)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        if condition.dtype.is_vector:
            masked = None
            if self.masks and node.else_case is None:
                masked = predicate_accesses(self.visit(node.then_case), condition)
            if masked is not None:
                note("vectorize.masked", "a condition on the lane became masks of loads and stores", node=node)
                return masked
            raise _NeedsScalar("the condition of an `if` differs from lane to lane", node)
        then_case = self.visit(node.then_case)
        else_case = None if node.else_case is None else self.visit(node.else_case)
        return node.with_(condition=condition, then_case=then_case, else_case=else_case)

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> ir.Stmt:
        raise TVMagicError(
            f"loop `{self.var.name}` cannot be vectorized: its lanes may leave the `while` at different times",
            node=node,
            hint="make the loop serial: A while loop inside a vectorized loop not supported",
            code="tir.vectorize_loop.while_loop",
        )

    @ir.handles(ir.BlockRealize)
    def block(self, node: ir.BlockRealize) -> ir.Stmt:
        raise _NeedsScalar("it holds a block that is not lowered", node)

    @ir.handles(ir.AttrStmt, ir.AssertStmt)
    def fact(self, node: Any) -> ir.Stmt:
        if mentions(node.value if isinstance(node, ir.AttrStmt) else node.condition, (self.var, *self.lets)):
            raise _NeedsScalar("it holds a check or an attribute that depends on the lane", node)
        body = self.visit(node.body)
        return node.with_(body=body)

    @ir.handles(ir.LetStmt)
    def let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        value = self.visit(node.value)
        var = self._bind(node.var, node.value, value)
        if var is not node.var:
            self.vector_lets.append((node.var, node.value))
        body = self.visit(node.body)
        if var is not node.var:
            self.vector_lets.pop()
        if value is node.value and body is node.body:
            return node
        return node.replace(var=var, value=value, body=body)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        condition, extents = self.visit(node.condition), ir.mutate_all(self.visit, node.extents)
        if condition.dtype.is_vector or any(e.dtype.is_vector for e in extents):
            raise _NeedsScalar(f"the size of `{node.buffer_var.name}` differs from lane to lane", node)
        self.check_pointer(node)
        extents = (*extents[:-1], multiply(extents[-1], self.lanes))
        body = LaneStorage(node.buffer_var, self.var, self.lanes, self.analyzer).visit(node.body)
        return node.replace(condition=condition, extents=extents, body=self.visit(body))

    @staticmethod
    def check_pointer(node: ir.Allocate) -> None:
        """The elements of a lane would not lie one beside the other, as who has the pointer expects."""
        if used_as_pointer(node.body, node.buffer_var):
            raise _NeedsScalar(f"`{node.buffer_var.name}` is used by its pointer", node)

    @ir.handles(ir.DeclBuffer, ir.BufferRealize)
    def declaration(self, node: Any) -> ir.Stmt:
        if buffer_mentions(node.buffer, self.var):
            raise _NeedsScalar(f"buffer `{node.buffer.name}` depends on the lane", node)
        body = self.visit(node.body)
        return node.with_(body=body)


_CALL_RULES: dict[str, Callable[[_Vectorizer, ir.Call], ir.PrimExpr]] = {
    "tir.if_then_else": _Vectorizer.if_then_else,
    "tir.reinterpret": _Vectorizer.reinterpret,
    "tir.checked_index": _Vectorizer.checked_index,
    "tir.call_llvm_pure_intrin": _Vectorizer.llvm_intrinsic,
}


class _Decider(_Vectorizer):
    """Only decides which statements keep their scalar form; accesses may have any number of dimensions."""

    def __init__(self, loop: ir.For) -> None:
        super().__init__(loop, False)
        self.scalar: set[ir.Stmt] = set()

    def scalarize(self, stmt: ir.Stmt, need: _NeedsScalar) -> ir.Stmt:
        self.scalar.add(stmt)
        return stmt

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        indices = ir.mutate_all(self.visit, node.indices)
        code = longest(1, *[i.dtype.lane_code for i in indices])
        return node if code == 1 else broadcast_to(node, code)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        ir.mutate_all(self.visit, node.indices)
        self.visit(node.value)
        return node

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> ir.Stmt:
        raise _NeedsScalar("it holds a `while`, whose lanes may end at different times", node)

    @ir.handles(ir.Allocate, ir.DeclBuffer, ir.BufferRealize)
    def memory(self, node: Any) -> ir.Stmt:
        if isinstance(node, ir.Allocate):
            self.check_pointer(node)
        self.visit(node.body)
        return node


def lane_by_lane(loop: ir.For) -> set[ir.Stmt]:
    """The statements of a vectorized loop that keep their scalar form, in a serial loop over the lanes."""
    if vscale_factor(loop.extent) is None and (
        not isinstance(loop.extent, ir.IntImm) or not 1 <= loop.extent.value < 1 << 31
    ):
        return {loop.body}
    decider = _Decider(loop)
    decider.visit(loop.body)
    return decider.scalar


class _ScalarForm(_Vectorizer):
    """Notes whether a statement keeps its scalar form."""

    def __init__(self, loop: ir.For) -> None:
        super().__init__(loop, False)
        self.scalar = False

    def scalarize(self, stmt: ir.Stmt, need: _NeedsScalar) -> ir.Stmt:
        self.scalar = True
        return stmt


def at_once(loop: ir.For) -> ir.Stmt | None:
    """The body of a loop from 0 to a constant for all its iterations at once; None if a part of it keeps its scalar form."""
    vectorizer = _ScalarForm(loop)
    body = vectorizer.visit(loop.body)
    return None if vectorizer.scalar else body


class _LoopVectorizer(ir.StmtMutator):
    """Finds the vectorized loops, outermost first.

    `masks`: whether conditions on the lane become masks; None for yes where the target's vectors are scalable.
    """

    def __init__(self, masks: bool | None, target: Any) -> None:
        self.masks, self.target = masks, target

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.attr_key != "target":
            return self.visit_children(node)
        outer, self.target = self.target, node.node
        try:
            return self.visit_children(node)
        finally:
            self.target = outer

    def has_sve(self) -> bool:
        """Whether the target here has scalable vectors."""
        return bool(getattr(self.target, "has_sve", False))

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        if node.kind is not ir.ForKind.VECTORIZED:
            return self.visit_children(node)
        name = node.loop_var.name
        if not isinstance(node.extent, ir.IntImm) or node.extent.value < 1:
            self._check_scalable(node)
        elif node.extent.value >= 1 << 31:
            raise TVMagicError(
                f"loop `{name}` cannot be vectorized: its extent `{node.extent}` is too large",
                node=node,
                hint="split it by a constant factor and vectorize the inner loop",
                code="tir.vectorize_loop.extent_too_large",
            )
        if not (isinstance(node.min, ir.IntImm) and node.min.value == 0):
            raise TVMagicError(
                f"loop `{name}` cannot be vectorized: it starts at `{node.min}`, not at 0",
                node=node,
                hint="let the loop start at 0 and add the offset in its body",
                code="tir.vectorize_loop.loop_not_from_zero",
            )
        if isinstance(node.extent, ir.IntImm) and node.extent.value == 1:
            zero = ir.IntImm(node.loop_var.dtype, 0)
            return self.visit(ir.substitute(node.body, {node.loop_var: zero}))
        masks = self.has_sve() if self.masks is None else self.masks
        vectorizer = _Vectorizer(node, masks, is_recording())
        body = vectorizer.visit(node.body)
        if vectorizer.said is not None:
            vectorizer.said.tell()
        return body

    def _check_scalable(self, node: ir.For) -> None:
        scalable = ContainsVscale()(node.extent)
        if scalable and self.has_sve():
            return
        needed = (
            "the target has no scalable vectors"
            if scalable
            else f"its extent `{node.extent}` is not a positive constant"
        )
        raise TVMagicError(
            f"Failed to vectorize loop with extent {node.extent} for target {self.target or '(nullptr)'}: "
            f"loop `{node.loop_var.name}` cannot be vectorized: {needed}",
            node=node,
            hint="name a target with +sve"
            if scalable
            else "split it by a constant factor and vectorize the inner loop",
            code="tir.vectorize_loop.scalable_extent",
        )


class _VectorizeSkipper(ir.StmtMutator):
    """Makes vectorized loops serial."""

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        new = self.visit_children(node)
        return new.replace(kind=ir.ForKind.SERIAL) if new.kind is ir.ForKind.VECTORIZED else new


@tir_pass("tir.VectorizeLoop")
def VectorizeLoop(func: ir.PrimFunc, enable_vectorize: bool = True, *, context: PassContext) -> ir.PrimFunc:
    """Lower the loops marked `vectorized` to vector code.

    With `enable_vectorize` False they become serial loops. The extent of such a loop is a positive
    constant, or `vscale() * k` for a target with scalable vectors, and its first value 0; a `TVMagicError`
    names a loop that is not so. Statements that cannot be vector code run in a serial loop over the lanes, with a note
    `vectorize.scalar` of the reason; other notes say what each access became, by which rules, and what was not
    proved. With the option `tir.enable_buffer_level_predication`, which is on for
    targets with scalable vectors, a branch on `lane < limit` becomes masked loads and stores where every
    access allows it.

    The target is the function's, else that of an enclosing attribute `target`, else the current one.
    """
    if not enable_vectorize:
        return func.with_body(_VectorizeSkipper().visit(func.body))
    masks = context.option("tir.enable_buffer_level_predication", None)
    target = func.attrs.get("target") or current_target()
    return func.with_body(_LoopVectorizer(None if masks is None else bool(masks), target).visit(func.body))
