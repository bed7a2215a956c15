"""Gradients of tensors by tensors that they are computed from, as tensors: `te.gradient`.

Reverse mode: from the output to the inputs, each tensor gets the gradient of the output by it, the sum of what each of
its readers adds. A reader computes `T[o] = sum over r of e`. If `e` reads `X[f(o, r)]` it adds

    grad_X[x] = sum over o, r with f(o, r) = x  of  grad_T[o] * (derivative of e by that element)

The equations `f(o, r) = x` are solved for as many axes as possible (`index_equations`), so that the sum is over the others
alone: the gradient of a matrix product is a matrix product again, that of a convolution goes over the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Add, CommReducer, IterVar, PrimExpr, ProducerLoad, Range, Reduce, Var, expr, ops, substitute
from tvmagic.te.derivatives import Partial, partials
from tvmagic.te.index_equations import Solution, solved
from tvmagic.te.operation import compute, reduce_axis
from tvmagic.te.reduction import sum as sum_over
from tvmagic.te.tensor import ComputeOp, Tensor


def gradient(output: Tensor, inputs: Sequence[Tensor] | Tensor, head: Tensor | None = None) -> list[Tensor]:
    """The gradients of `output` by `inputs`.

    Parameters
    ----------
    output: what is differentiated.
    inputs: the tensors by which, each a placeholder or a tensor on the way.
    head: the gradient of some value by `output`, of the shape `prefix + output.shape`; by default all derivatives of the
        elements of `output` by themselves, so that the results are Jacobians.

    Returns
    -------
    For each input the tensor of the shape `prefix + input.shape` (`output.shape + input.shape` without a head). An input
    that `output` does not depend on has zeros.

    Raises TVMagicError for a step whose derivative is not known (scans, external code, several outputs), and for a head of
    another shape.

        A = te.placeholder((4, 4)); B = te.compute((4, 4), lambda i, j: A[i, j] * A[i, j])
        [dA] = te.gradient(B, A, head=topi.full_like(B, 1.0))    # 2 * A
    """
    wanted: list[Tensor] = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    seed = _identity(output) if head is None else head
    prefix = _prefix(output, seed)
    order = _on_the_way(output, wanted)
    parts: dict[Tensor, list[Tensor]] = {output: [seed]}
    totals: dict[Tensor, Tensor] = {}
    for tensor in order:
        if not parts.get(tensor):
            continue
        totals[tensor] = total = _added(tensor, parts[tensor], prefix)
        for read in _inputs_of(tensor, set(order)):
            parts.setdefault(read, []).extend(_contributions(tensor, read, total, prefix))
    return [totals[tensor] if tensor in totals else _zeros(tensor, prefix) for tensor in wanted]


def _identity(tensor: Tensor) -> Tensor:
    """The derivatives of the elements of a tensor by themselves."""
    rank = len(tensor.shape)

    def value(*i: Var) -> PrimExpr:
        one, zero = ops.const(1, tensor.dtype), ops.const(0, tensor.dtype)
        return ops.if_then_else(ops.all(*[a.equal(b) for a, b in zip(i[:rank], i[rank:])]), one, zero) if rank else one

    return compute([*tensor.shape, *tensor.shape], value, name="identity")


def _prefix(output: Tensor, head: Tensor) -> list[PrimExpr]:
    """The axes of the head before those of the output."""
    count = len(head.shape) - len(output.shape)
    tail = head.shape[count:] if count >= 0 else ()
    if count < 0 or any(_differ(a, b) for a, b in zip(tail, output.shape)):
        raise TVMagicError(
            f"the head of shape {list(head.shape)} does not end with the shape {list(output.shape)} of `{output.name}`",
            hint="topi.full_like(output, 1.0) is one",
            code="gradient.wrong_head_shape",
        )
    return list(head.shape[:count])


def _differ(a: PrimExpr, b: PrimExpr) -> bool:
    first, second = getattr(a, "value", None), getattr(b, "value", None)
    return first is not None and second is not None and first != second


def _on_the_way(output: Tensor, wanted: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that depend on a wanted one, each after all its readers; the wanted ones too."""
    order: list[Tensor] = []
    depends: dict[Tensor, bool] = {}
    stack: list[tuple[Tensor, bool]] = [(output, False)]
    ends = {id(tensor) for tensor in wanted}
    while stack:
        tensor, done = stack.pop()
        if done:
            depends[tensor] = id(tensor) in ends or any(depends[t] for t in tensor.op.input_tensors)
            if depends[tensor]:
                order.append(tensor)
        elif tensor not in depends:
            depends[tensor] = False
            stack.append((tensor, True))
            stack += [(t, False) for t in tensor.op.input_tensors if t not in depends]
    return order[::-1]


def _inputs_of(tensor: Tensor, order: set[Tensor]) -> list[Tensor]:
    """What a tensor is computed from and is on the way."""
    found = [t for t in tensor.op.input_tensors if t in order]
    if found and (not isinstance(tensor.op, ComputeOp) or tensor.op.num_outputs > 1):
        what = "with several outputs" if isinstance(tensor.op, ComputeOp) else f"({tensor.op.kind})"
        raise TVMagicError(
            f"the derivative of `{tensor.name}` {what} is not known",
            span=tensor.op.span,
            code="gradient.unknown_derivative",
        )
    return found


def _added(tensor: Tensor, parts: Sequence[Tensor], prefix: Sequence[PrimExpr]) -> Tensor:
    """The sum of what the readers of a tensor add to its gradient."""
    if len(parts) == 1:
        return parts[0]

    def value(*i: Var) -> PrimExpr:
        total = parts[0](*i)
        for part in parts[1:]:
            total = total + part(*i)
        return total

    return compute([*prefix, *tensor.shape], value, name=f"{tensor.op.name}_grad")


def _zeros(tensor: Tensor, prefix: Sequence[PrimExpr]) -> Tensor:
    zero = ops.const(0, tensor.dtype)
    return compute([*prefix, *tensor.shape], lambda *i: zero, name=f"{tensor.op.name}_grad")


# ---------------------------------------------------------------------------- one step


def _contributions(tensor: Tensor, read: Tensor, head: Tensor, prefix: Sequence[PrimExpr]) -> list[Tensor]:
    """What `tensor` adds to the gradient by `read`, which it reads: one tensor for each place of reading."""
    op = tensor.op
    assert isinstance(op, ComputeOp)
    body = op.body[0]
    step = _Step(op, read, head, prefix)
    if not isinstance(body, Reduce):
        return step.of(body, ())
    parts = step.of(body.init[0], ()) if body.init else []
    if _is_sum(body.combiner):
        return [*parts, *step.of(body.source[0], body.axis, body.condition)]
    return [*parts, *step.through_reduction(body)]


def _is_sum(combiner: CommReducer) -> bool:
    result = combiner.result[0]
    both = {id(combiner.lhs[0]), id(combiner.rhs[0])}
    return isinstance(result, Add) and {id(result.a), id(result.b)} == both


class _Step:
    """What an operation adds to the gradient of one tensor that it reads."""

    def __init__(self, op: ComputeOp, read: Tensor, head: Tensor, prefix: Sequence[PrimExpr]) -> None:
        self.op, self.read, self.head, self.prefix = op, read, head, prefix
        self.shape = [*prefix, *read.shape]
        self.name = f"{op.name}_{read.op.name}_grad"
        self.domains = {iv.var: _domain(iv) for iv in op.axis}

    def is_read(self, e: PrimExpr) -> bool:
        """Whether it is an element of the tensor."""
        return isinstance(e, ProducerLoad) and e.producer is self.read

    def of(self, value: PrimExpr, axes: Sequence[IterVar], condition: PrimExpr | None = None) -> list[Tensor]:
        """What the sum of `value` over `axes`, of the terms for which the condition holds, adds."""
        places = partials(value, self.is_read)
        return [self.sum_at(value, number, axes, condition) for number in range(len(places))]

    def sum_at(self, value: PrimExpr, number: int, axes: Sequence[IterVar], condition: PrimExpr | None) -> Tensor:
        """What the reading place of that number adds."""

        def element(*i: Var) -> PrimExpr:
            before, at = i[: len(self.prefix)], i[len(self.prefix) :]
            seed = self.head(*before, *self.domains)
            leaf, term = partials(value, self.is_read, seed)[number]
            assert isinstance(leaf, ProducerLoad)
            domains = {**self.domains, **{iv.var: _domain(iv) for iv in axes}}
            solution = solved(leaf.indices, at, self.read.shape, domains)
            return _summed(term, solution, domains, condition)

        return compute(self.shape, element, name=self.name)

    def through_reduction(self, body: Reduce) -> list[Tensor]:
        """What a reduction that is not a sum adds: its derivatives, reduced with it, times the gradient by its result."""
        source = body.source[0]
        places = partials(source, self.is_read)
        if not places:
            return []
        same = self.same_axes(places)
        outer = list(self.domains)
        free = [k for k in range(len(self.read.shape)) if k not in same]
        combiner = _with_derivative(body.combiner, source, self.read)

        def derivative(*i: Var) -> Any:
            at = dict(zip(free, i[len(outer) :]))
            axes = [
                reduce_axis((_domain(iv).min, _domain(iv).min + _domain(iv).extent), iv.var.name) for iv in body.axis
            ]
            values = {**dict(zip(outer, i)), **{old.var: new.var for old, new in zip(body.axis, axes)}}
            total: Any = ops.const(0, self.read.dtype)
            for leaf, coefficient in places:
                assert isinstance(leaf, ProducerLoad)
                here = [leaf.indices[k].equal(at[k]) for k in free]
                total = total + (
                    ops.if_then_else(ops.all(*here), coefficient, ops.const(0, self.read.dtype))
                    if here
                    else coefficient
                )
            terms = [substitute(source, values), substitute(expr(total), values)]
            where = substitute(body.condition, values)
            return tuple([Reduce(combiner, terms, axes, where, number) for number in range(2)])

        shape = [*self.op.output(0).shape, *[self.read.shape[k] for k in free]]
        derivatives = compute(shape, derivative, name=f"{self.name}_each")[1]

        def element(*i: Var) -> PrimExpr:
            before, at = i[: len(self.prefix)], i[len(self.prefix) :]
            term = self.head(*before, *outer) * derivatives(*outer, *[at[k] for k in free])
            indices, wanted = [outer[j] for j in same.values()], [at[k] for k in same]
            solution = solved(indices, wanted, [self.read.shape[k] for k in same], self.domains)
            return _summed(term, solution, self.domains, None)

        return [compute(self.shape, element, name=self.name)]

    def same_axes(self, places: Sequence[Partial]) -> dict[int, int]:
        """The axes of the tensor read that each reading place indexes by the same axis of the result, with that axis."""
        outer = list(self.domains)
        found: dict[int, int] = {}
        for k in range(len(self.read.shape)):
            indices = [getattr(leaf, "indices")[k] for leaf, _ in places]
            first = next((j for j, var in enumerate(outer) if var is indices[0]), None)
            if first is not None and first not in found.values() and all(index is indices[0] for index in indices):
                found[k] = first
        return found


def _summed(term: PrimExpr, solution: Solution, domains: Mapping[Var, Range], condition: PrimExpr | None) -> PrimExpr:
    """The sum of a term over the axes that were not solved for, if the conditions hold."""
    axes = [reduce_axis((domains[v].min, domains[v].min + domains[v].extent), v.name) for v in solution.left]
    fresh: dict[Any, Any] = {v: axis.var for v, axis in zip(solution.left, axes)}
    values = {**{v: substitute(value, fresh) for v, value in solution.values.items()}, **fresh}
    conditions = [substitute(c, fresh) for c in solution.conditions]
    if condition is not None and not getattr(condition, "value", 0):
        conditions.append(substitute(condition, values))
    result = substitute(term, values)
    if conditions:
        result = ops.if_then_else(ops.all(*conditions), result, ops.const(0, result.dtype))
    return sum_over(result, axis=axes) if axes else result


def _with_derivative(combiner: CommReducer, source: PrimExpr, read: Tensor) -> CommReducer:
    """The reduction of values together with their derivatives by one element."""
    a, b = Var("x", source.dtype), Var("y", source.dtype)
    da, db = Var("dx", read.dtype), Var("dy", read.dtype)
    value = substitute(combiner.result[0], {combiner.lhs[0]: a, combiner.rhs[0]: b})
    total: Any = ops.const(0, read.dtype)
    for leaf, coefficient in partials(value, lambda e: e is a or e is b):
        total = total + coefficient.astype(read.dtype) * (da if leaf is a else db)
    zero = ops.const(0, read.dtype)
    return CommReducer([a, da], [b, db], [value, total], [combiner.identity_element[0], zero])


def _domain(iv: IterVar) -> Range:
    assert iv.dom is not None
    return iv.dom
