"""The value of a tensor expression in float64, with a bound of what rounding may do to a program that computes it.

The same plan as `reference.py`, evaluated on pairs of values and errors (`error_bound.py`): every axis of an operation
is a dimension of arrays that broadcast against each other. Sums of products are products of matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.arith.reducer_laws import can_regroup
from tvmagic.errors import TVMagicError
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.query import contains, is_call, operands
from tvmagic.te.error_bound import Approximate, Value, choose, either, parts, stored_numbers
from tvmagic.te.error_evaluator import ErrorEvaluator, widened
from tvmagic.te.error_memory import ErrorRunner, cells, loaded
from tvmagic.te.error_sums import Sum, extreme, product, sum_of_products, sum_of_terms
from tvmagic.te.error_ties import Comparison, Ties, comparing, numbers_of_bits, ties
from tvmagic.te.numpy_eval import given
from tvmagic.te.reference import Ends, bind_inputs, bind_sizes, blocks, ends_of, number, points, simple_combiner
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order, scan_get_body
from tvmagic.te.tensor import (
    ComputeOp,
    ConstantOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
)

_PART = 1 << 20  # elements that are computed at once: temporaries of 8 MB


@dataclass
class Evaluation:
    """Values with their errors.

    Attributes
    ----------
    values: a value with its error for each output. Copies of one element of memory are one value, and tie exactly.
    notes: remarks, in sentences.
    recomputed: the same if copies may differ, as a schedule can compute a stage twice by different instructions; None
        if that makes no difference.
    decided: for each output its errors if every comparison goes as the float64 values say; None if all are decided.
    empty: for each output which of its elements are reductions without terms; None if it has no such element.
    unwritten: for each output which of its elements nothing writes; None if it has no such element.
    comparisons: the comparisons of data that were evaluated.
    """

    values: list[Value]
    notes: list[str] = field(default_factory=list)
    recomputed: list[Value] | None = None
    decided: list[np.ndarray] | None = None
    empty: list[np.ndarray | None] = field(default_factory=list)
    unwritten: list[np.ndarray | None] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)


def with_ties(evaluate: Callable[[], Evaluation]) -> Evaluation:
    """Evaluate a program, again with value numbers if a comparison is undecided, and once more as if none were.

    The first evaluation is the only one if all comparisons are decided.
    """
    compared: dict[int, Comparison] = {}
    result: Evaluation | None = None
    with comparing(Ties(compared=compared)) as mode:
        try:
            result = evaluate()
        except TVMagicError:  # a program that has no bound where a comparison is undecided may have one where it is not
            if not mode.found:
                raise
    seen = [c for c in compared.values() if c.on_data]
    if result is not None and not mode.found:
        return replace(result, comparisons=seen)
    with comparing(Ties(numbered=True)):
        numbered = evaluate()
    with comparing(Ties(numbered=True, decided=True)):
        decided = evaluate()
    return replace(
        numbered,
        recomputed=None if result is None else result.values,
        decided=[_error(v) for v in decided.values],
        comparisons=seen,
    )


def evaluate_with_errors(tensors: Sequence[Tensor], inputs: Mapping[Any, Any]) -> Evaluation:
    """The values of tensors with bounds of their rounding errors.

    Parameters
    ----------
    inputs: an array for each placeholder that is needed, and a number for each variable that no shape of these
        determines.

    A read outside a tensor is a `BoundsError`.
    """
    arrays, sizes = bind_inputs(inputs)

    def evaluate() -> Evaluation:
        values: dict[Tensor, Any] = {**arrays}
        plan = _Plan(values, dict(sizes))
        with np.errstate(all="ignore"):
            plan.run([t.op for t in tensors])
        found = [widened(given(values, t), t.dtype) for t in tensors]
        empty, unwritten = ([masks.get(t) for t in tensors] for masks in (plan.empty, plan.unwritten))
        return Evaluation(found, plan.notes, empty=empty, unwritten=unwritten)

    return with_ties(evaluate)


class _Results:
    """The outputs of an operation, filled in part by part."""

    def __init__(self, shape: Sequence[int], dtypes: Sequence[ir.DataType], zero: bool = False) -> None:
        self.shape = tuple(shape)
        make = np.zeros if zero else np.empty
        self.values = [make(shape, np.float64 if d.is_float else numpy_dtype(d)) for d in dtypes]
        self.errors: list[np.ndarray | None] = [None] * len(dtypes)
        self.numbers: list[np.ndarray | None] = [None] * len(dtypes)

    def put(self, n: int, place: Any, value: Value) -> None:
        plain, error = parts(value)
        self.values[n][place] = plain
        if error is not None and self.errors[n] is None:
            self.errors[n] = np.zeros(self.shape)
            self.numbers[n] = np.array(numbers_of_bits(self.values[n])) if ties().numbered else None
        found, numbers = self.errors[n], self.numbers[n]
        if found is not None:
            found[place] = 0.0 if error is None else error
        if numbers is not None:
            numbers[place] = stored_numbers(value, numbers[place].shape)

    def whole(self, n: int) -> Value:
        error = self.errors[n]
        return self.values[n] if error is None else Approximate(self.values[n], error, self.numbers[n])


class _Plan:
    """The operations that tensors need, computed one after the other."""

    def __init__(self, values: dict[Tensor, Any], sizes: dict[ir.Var, np.ndarray]) -> None:
        self.values, self.sizes, self.notes = values, sizes, list[str]()
        self.empty: dict[Tensor, np.ndarray] = {}
        self.unwritten: dict[Tensor, np.ndarray] = {}

    def run(self, roots: list[Operation]) -> None:
        graph = create_read_graph(roots)
        inside = {op for root in graph if isinstance(root, ScanOp) for op in scan_get_body(root)}
        for op in post_dfs_order(roots, graph):
            if isinstance(op, PlaceholderOp) or (op in inside and op not in roots):
                continue
            if not all(t in self.values for t in op.outputs):
                self.values.update(zip(op.outputs, self.outputs(op)))

    def outputs(self, op: Operation) -> list[Value]:
        rule = _COMPUTE.get(type(op))
        if rule is None:
            raise TVMagicError(
                f"`{op.name}` is a {op.kind}, which has no value in NumPy", code="error_bound.no_numpy_value"
            )
        return rule(self, op)

    # ------------------------------------------------------------------------ compute

    def compute(self, op: ComputeOp) -> list[Value]:
        return self.part(op, [ends_of(iv.dom, self.sizes) for iv in op.axis], True)

    def part(self, op: ComputeOp, ends: Ends, strict: bool) -> list[Value]:
        """The outputs of `op` for the part `ends` of its axes."""
        results = _Results([high - low for low, high in ends], [t.dtype for t in op.outputs])
        reduced = [ends_of(iv.dom, self.sizes) for iv in op.reduce_axis]
        first = op.body[0]
        summed = isinstance(first, ir.Reduce) and _Reduction(self, op, first, strict)
        wraps = 0
        for block in blocks(ends, self._work(op, reduced)):
            place = tuple([slice(b[0] - e[0], b[1] - e[0]) for b, e in zip(block, ends)])
            if summed:
                values = summed.block(block, reduced)
            else:
                evaluator = self.evaluator(op, block, strict)
                values = [evaluator.visit(b) for b in op.body]
            for n, value in enumerate(values):
                results.put(n, place, value)
            if summed:
                self._note_empty(op, results.shape, place, summed.without_terms(block, reduced))
        if not summed:
            self._copy_empty(op)
        if summed and summed.wraps:
            wraps = summed.wraps
            self.notes.append(_wrapping(op, wraps, results.values[0].size))
        return [results.whole(n) for n in range(len(op.outputs))]

    def _note_empty(self, op: ComputeOp, shape: tuple[int, ...], place: Any, mask: Any) -> None:
        """Note which elements of a part are reductions without terms."""
        if np.any(mask):
            found = self.empty.setdefault(op.outputs[0], np.zeros(shape, bool))
            found[place] = mask
            self.empty.update(dict.fromkeys(op.outputs, found))

    def _copy_empty(self, op: ComputeOp) -> None:
        """An elementwise copy of a reduction, as a conversion is, has no terms where the reduction has none."""
        for tensor, value in zip(op.outputs, op.body):
            while isinstance(value, ir.Cast):
                value = value.value
            if isinstance(value, ir.ProducerLoad) and value.producer in self.empty:
                if len(value.indices) == len(op.axis) and all(i is a.var for i, a in zip(value.indices, op.axis)):
                    self.empty[tensor] = self.empty[value.producer]

    def _work(self, op: ComputeOp, reduced: Ends) -> int:
        """Elements of the reduced axes that one element of a part stands for, so that a part has not too many."""
        number = int(np.prod([high - low for low, high in reduced], dtype=np.int64)) if reduced else 1
        first = op.body[0]
        if isinstance(first, ir.Reduce) and _is_product(first):
            return 1  # parts are as large as the outputs
        return max(min(number, _PART), 1) * 4

    def evaluator(self, op: ComputeOp, box: Ends, strict: bool) -> ErrorEvaluator:
        """One in which the axes of `op` have the values of a box."""
        env = dict(self.sizes)
        for axis, (iv, (low, high)) in enumerate(zip(op.root_iter_vars(), box)):
            shape = [1] * len(box)
            shape[axis] = high - low
            env[iv.var] = np.arange(low, high, dtype=numpy_dtype(iv.dtype)).reshape(shape)
        return ErrorEvaluator(env, self.values, strict)

    # ------------------------------------------------------------------------ scans, intrinsics, statements

    def scan(self, op: ScanOp) -> list[Value]:
        """The states of a recurrence, step by step."""
        outer, self.values = self.values, dict(self.values)
        states: list[_Results] = []
        for tensor, first, state in zip(op.outputs, op.init, op.state_placeholder):
            results = _Results([number(s, self.sizes) for s in tensor.shape], [tensor.dtype], zero=True)
            begin = widened(given(self.values, first), first.dtype)
            results.put(0, slice(parts(begin)[0].shape[0]), begin)
            self.values[state] = results.whole(0)
            states.append(results)
        body, (start, stop) = scan_get_body(op), ends_of(op.scan_axis.dom, self.sizes)
        updates = {t.op for t in op.update}
        for step in range(start, stop):
            for inner in body:
                if not isinstance(inner, ComputeOp):
                    raise TVMagicError(
                        f"`{inner.name}` inside a scan is a {inner.kind}, which has no value in NumPy",
                        code="error_bound.no_numpy_value",
                    )
                box = [ends_of(iv.dom, self.sizes) for iv in inner.axis]
                if inner in updates:
                    box[0] = (step, step + 1)
                self.values.update(zip(inner.outputs, self.part(inner, box, inner in updates)))
            for results, tensor in zip(states, op.update):
                results.put(0, slice(step, step + 1), self.values[tensor])
            for results, state in zip(states, op.state_placeholder):  # all updates read the states before the step
                self.values[state] = results.whole(0)
        self.values = outer
        return [results.whole(0) for results in states]

    def intrinsic(self, op: TensorComputeOp) -> list[Value]:
        """The intrinsic's own operation on the regions of each call, one call after the other."""
        outer, inner = op.axis[: op.schedulable_ndim], op.intrin.op
        results = _Results([number(s, self.sizes) for s in op.outputs[0].shape], [t.dtype for t in op.outputs], True)
        for place in itertools.product(*[range(*ends_of(iv.dom, self.sizes)) for iv in outer]):
            calls = [
                self.intrinsic_call(op, inner, {**self.sizes, **points(outer, place), **points(op.reduce_axis, step)})
                for step in itertools.product(*[range(*ends_of(iv.dom, self.sizes)) for iv in op.reduce_axis])
            ]
            for n in range(len(op.outputs)):
                results.put(n, place, _joined([c[n] for c in calls], inner, n))
        return [results.whole(n) for n in range(len(op.outputs))]

    def intrinsic_call(self, op: TensorComputeOp, inner: Operation, env: Mapping[ir.Var, np.ndarray]) -> list[Value]:
        known: dict[Tensor, Any] = {}
        sizes = dict(self.sizes)
        for tensor, source, region in zip(op.intrin.inputs, op.inputs, op.input_regions):
            plain, error = parts(given(self.values, source))
            at = tuple([slice(*ends_of(r, env)) for r in region])
            shape = plain[at].shape[plain.ndim - len(tensor.shape) :]
            known[tensor] = (
                plain[at].reshape(shape)
                if error is None
                else Approximate(plain[at].reshape(shape), error[at].reshape(shape))
            )
            bind_sizes(tensor, parts(known[tensor])[0], sizes)
        evaluator = ErrorEvaluator(env, self.values)
        for param, scalar in zip(op.intrin.scalar_params, op.scalar_inputs):
            sizes[param] = parts(evaluator.visit(scalar))[0]
        plan = _Plan(known, sizes)
        plan.run([inner])
        return [given(plan.values, t) for t in inner.outputs]

    def extern(self, op: ExternOp) -> list[Value]:
        """What the statement of an extern operation stores, beginning from zeros."""
        arrays: dict[Any, Any] = {}
        for buffer, tensor in zip(op.input_placeholders, op.inputs):
            arrays[buffer] = cells(widened(given(self.values, tensor), tensor.dtype), tensor.dtype)
        outputs = [cells(np.zeros([number(s, self.sizes) for s in t.shape]), t.dtype) for t in op.outputs]
        for output in outputs:
            output["number"] = 0
        arrays.update(zip(op.output_placeholders, outputs))
        ErrorRunner(arrays, self.sizes).visit(op.body)
        for tensor, output in zip(op.outputs, outputs):
            if not np.all(output["number"]):
                self.unwritten[tensor] = output["number"] == 0
        return [loaded(o, t.dtype) for o, t in zip(outputs, op.outputs)]


def _joined(calls: list[Value], inner: Operation, index: int) -> Value:
    """The results of the calls of one reduction combined."""
    if len(calls) == 1:
        return calls[0]
    reduce = inner.body[index] if isinstance(inner, ComputeOp) else None
    fast = simple_combiner(reduce.combiner) if isinstance(reduce, ir.Reduce) else None
    if fast is None or not isinstance(reduce, ir.Reduce):
        raise TVMagicError(
            f"the calls of intrinsic `{inner.name}` cannot be combined in NumPy",
            code="error_bound.calls_not_combinable",
        )
    values = np.stack([parts(c)[0] for c in calls])
    stacked: Value = values
    if any(isinstance(c, Approximate) for c in calls):
        stacked = Approximate(values, np.stack([np.broadcast_to(_error(c), values.shape[1:]) for c in calls]))
    return _simple(fast, stacked, (0,), reduce.dtype)


def _error(value: Value) -> Any:
    error = parts(value)[1]
    return np.float64(0) if error is None else error


def _wrapping(op: ComputeOp, wraps: int, total: int) -> str:
    """That a sum of integers wraps around, and what to write instead."""
    reduce = op.body[0]
    assert isinstance(reduce, ir.Reduce)
    dtype = reduce.dtype
    wider = {8: "int32", 16: "int32", 32: "int64"}.get(dtype.bits, "float64")
    terms = " * ".join(f"{wider}({f})" for f in operands(reduce.source[0], ir.Mul))
    return (
        f"the sum `{op.name}` of {dtype} wraps around in {wraps} of {total} elements; to sum in {wider} write `{terms}`"
    )


# ---------------------------------------------------------------------------- reductions


def _is_product(reduce: ir.Reduce) -> bool:
    """Whether it sums a product of several factors, without a condition."""
    combiner = reduce.combiner
    plain = isinstance(reduce.condition, ir.IntImm) and bool(reduce.condition.value)
    adds = simple_combiner(combiner) is np.add
    return plain and adds and isinstance(reduce.source[0], ir.Mul) and not reduce.dtype.is_bool


class _Reduction:
    """A reduction of an operation, for parts of its axes.

    `wraps`: how many sums of integers were outside the range of their dtype.
    """

    def __init__(self, plan: _Plan, op: ComputeOp, reduce: ir.Reduce, strict: bool) -> None:
        self.plan, self.op, self.reduce, self.strict = plan, op, reduce, strict
        self.wraps = 0

    def block(self, box: Ends, reduced: Ends) -> list[Value]:
        reduce, rank = self.reduce, len(box)
        domain = tuple([high - low for low, high in (*box, *reduced)])
        results: list[Value] | None = None
        if 0 not in domain and simple_combiner(reduce.combiner) is np.add:
            results = [self.sum(box, reduced, domain, rank)]
        if results is None:
            results = self.combined(box, reduced, domain, rank)
        if reduce.init:
            results = self.with_init(box, reduced, results, rank)
        return [_broadcast(r, domain[:rank]) for r in results]

    def without_terms(self, box: Ends, reduced: Ends) -> Any:
        """Which elements of a part have no term, because an axis is empty or a condition on data holds for none."""
        conditions = [c for c in self._conditions() if contains(c, ir.ProducerLoad)]
        if not all(high > low for low, high in reduced):
            return True
        if not conditions:
            return False
        evaluator = self.plan.evaluator(self.op, (*box, *reduced), self.strict)
        domain = tuple([high - low for low, high in (*box, *reduced)])
        holds = np.broadcast_to(np.logical_and.reduce([parts(evaluator.visit(c))[0] for c in conditions]), domain)
        return np.logical_not(holds.any(axis=tuple(range(len(box), len(domain)))))

    def _conditions(self) -> list[ir.PrimExpr]:
        """The conditions below which a term counts: otherwise it is the identity element."""
        found, source = [self.reduce.condition], self.reduce.source[0]
        neutral = self.reduce.combiner.identity_element[0]
        while is_call(source, "tir.if_then_else") and ir.structural_equal(source.args[2], neutral):
            found, source = [*found, source.args[0]], source.args[1]
        return found

    # ------------------------------------------------------------------------ sums

    def sum(self, box: Ends, reduced: Ends, domain: tuple[int, ...], rank: int) -> Value:
        dtype = self.reduce.dtype
        kind = np.dtype(np.float64) if dtype.is_float else numpy_dtype(dtype)
        total = self.products(box, reduced, domain, rank, kind) if _is_product(self.reduce) else None
        if total is None:
            room = max(_PART * 4 // max(int(np.prod(domain[:rank], dtype=np.int64)), 1), 1)
            for part in blocks(reduced, 1) if np.prod(domain[rank:], dtype=np.int64) <= room else _cut(reduced, room):
                terms = _broadcast(self.terms(box, part)[0], (*domain[:rank], *[high - low for low, high in part]))
                one = sum_of_terms(terms, tuple(range(rank, len(domain))), kind)
                total = one if total is None else total + one
        assert total is not None
        if dtype.is_float:
            return total.of_floats(dtype)
        if not dtype.is_bool:
            self.wraps += total.wraps(kind)
        return total.of_integers(kind)

    def products(self, box: Ends, reduced: Ends, domain: tuple[int, ...], rank: int, kind: np.dtype[Any]) -> Sum | None:
        """None if factors have as many elements as their product: then nothing is won."""
        evaluator = self.plan.evaluator(self.op, (*box, *reduced), self.strict)
        values = [evaluator.visit(f) for f in operands(self.reduce.source[0], ir.Mul)]
        if any(np.shape(parts(v)[0]) == domain for v in values) and np.prod(domain, dtype=np.int64) > _PART * 4:
            return None
        return sum_of_products([_aligned(v, len(domain)) for v in values], domain, rank, kind)

    def terms(self, box: Ends, reduced: Ends) -> list[Value]:
        """What is combined, of parts of the axes; the neutral element if the condition does not hold."""
        reduce = self.reduce
        evaluator = self.plan.evaluator(self.op, (*box, *reduced), self.strict)
        condition: Any = None
        if not (isinstance(reduce.condition, ir.IntImm) and reduce.condition.value):
            condition = evaluator.visit(reduce.condition)
            holds, open_ = parts(condition)
            evaluator.mask = holds if open_ is None else holds | (open_ > 0)
        sources = [evaluator.visit(s) for s in reduce.source]
        evaluator.mask = None
        if condition is None:
            return sources
        neutral = [evaluator.visit(e) for e in reduce.combiner.identity_element]
        return [choose(condition, s, e) for s, e in zip(sources, neutral)]

    # ------------------------------------------------------------------------ other combiners

    def combined(self, box: Ends, reduced: Ends, domain: tuple[int, ...], rank: int) -> list[Value]:
        terms = [_broadcast(t, domain) for t in self.terms(box, reduced)]
        combiner, axes = self.reduce.combiner, tuple(range(rank, len(domain)))
        evaluator = self.plan.evaluator(self.op, (*box, *reduced), self.strict)
        if all(domain[rank:]):
            apart = _separate(combiner)
            if apart is not None and (len(apart) > 1 or apart[0] is not np.add):
                dtypes = [s.dtype for s in self.reduce.source]
                return [_simple(f, t, axes, d) for f, t, d in zip(apart, terms, dtypes)]
        neutral = [evaluator.visit(e) for e in combiner.identity_element]
        flat = [_reshaped(t, (*domain[:rank], int(np.prod(domain[rank:], dtype=np.int64)))) for t in terms]
        return self.pairs(evaluator, flat, neutral)

    def with_init(self, box: Ends, reduced: Ends, results: list[Value], rank: int) -> list[Value]:
        evaluator = self.plan.evaluator(self.op, (*box, *reduced), self.strict)
        start = [evaluator.visit(i) for i in self.reduce.init]
        start = [_reshaped(s, np.shape(parts(s)[0])[:rank]) for s in start]
        return self.combine(evaluator, start, results)

    def pairs(self, evaluator: ErrorEvaluator, values: list[Value], neutral: list[Value]) -> list[Value]:
        """Combine neighbours until one is left.

        A schedule may combine one after the other, with n - 1 roundings in a row for the log2(n) here.
        """
        number = parts(values[0])[0].shape[-1]
        if number == 0:
            return [_broadcast(e, parts(v)[0].shape[:-1]) for e, v in zip(neutral, values)]
        if not can_regroup(self.reduce.combiner):  # one after the other, the only order there is
            total = neutral
            for n in range(number):
                total = self._once(evaluator, total, [_sliced(v, n) for v in values])
            return total
        evaluator.scale = max((number - 1) / max(np.ceil(np.log2(number)), 1), 1.0)
        while parts(values[0])[0].shape[-1] > 1:
            number = parts(values[0])[0].shape[-1]
            even = number // 2 * 2
            left, right = (
                [_sliced(v, slice(0, even, 2)) for v in values],
                [_sliced(v, slice(1, even, 2)) for v in values],
            )
            shape = parts(left[0])[0].shape
            made = [_broadcast(v, shape) for v in self.combine(evaluator, left, right)]
            if number % 2:
                made = [_joined_ends(m, _sliced(v, slice(number - 1, number))) for m, v in zip(made, values)]
            values = made
        return self.combine(evaluator, neutral, [_sliced(v, 0) for v in values])

    def combine(self, evaluator: ErrorEvaluator, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """The combiner on two operands, in either order: a reducer is taken to be commutative."""
        first, second = self._once(evaluator, left, right), self._once(evaluator, right, left)
        results: list[Value] = []
        for a, b in zip(first, second):
            (va, ea), (vb, eb) = parts(a), parts(b)
            if ea is None and eb is None and np.array_equal(va, vb):
                results.append(a)
                continue
            results.append(Approximate(va, np.maximum(_error(a), either(va, vb, eb))))
        return results

    def _once(self, evaluator: ErrorEvaluator, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        combiner = self.reduce.combiner
        inner = ErrorEvaluator(evaluator.env, evaluator.values, evaluator.strict)
        inner.scale = evaluator.scale
        inner.env.update(zip(combiner.lhs, left))  # type: ignore[arg-type]
        inner.env.update(zip(combiner.rhs, right))  # type: ignore[arg-type]
        return [inner.visit(r) for r in combiner.result]


def _cut(reduced: Ends, room: int) -> list[list[tuple[int, int]]]:
    """Reduced axes in parts of at most `room` elements, as far as they can be cut."""
    from tvmagic.te.reference import BLOCK_ELEMENTS

    return blocks(reduced, max(BLOCK_ELEMENTS // room, 1))


_UFUNCS: dict[type, np.ufunc] = {ir.Add: np.add, ir.Mul: np.multiply, ir.Min: np.minimum, ir.Max: np.maximum}


def _separate(combiner: ir.CommReducer) -> list[np.ufunc] | None:
    """The NumPy functions of a combiner that combines each of its values by itself."""
    found: list[np.ufunc] = []
    for result, left, right in zip(combiner.result, combiner.lhs, combiner.rhs):
        function = _UFUNCS.get(type(result))
        if function is None or not isinstance(result, ir.BinaryOp) or result.a is not left or result.b is not right:
            return None
        found.append(function)
    return found


def _simple(function: np.ufunc, terms: Value, axes: tuple[int, ...], dtype: ir.DataType) -> Value:
    """A reduction by one of NumPy's functions."""
    if function is np.add:
        kind = np.dtype(np.float64) if dtype.is_float else numpy_dtype(dtype)
        total = sum_of_terms(terms, axes, kind)
        return total.of_floats(dtype) if dtype.is_float else total.of_integers(kind)
    if function is not np.multiply:
        return extreme(function, terms, axes)
    if dtype.is_float:
        return product(terms, axes, dtype)
    value, error = parts(terms)
    result = np.multiply.reduce(value, axis=axes, dtype=value.dtype)
    return result if error is None else Approximate(result, np.where(error.sum(axis=axes) == 0, 0.0, np.inf))


# ---------------------------------------------------------------------------- shapes


def _mapped(value: Value, change: Callable[[np.ndarray], np.ndarray]) -> Value:
    if not isinstance(value, Approximate):
        return change(value)
    shape, number = np.shape(value.value), value.number
    number = None if number is None else change(np.broadcast_to(number, shape))
    return Approximate(change(value.value), change(np.broadcast_to(value.error, shape)), number)


def _broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    if not isinstance(value, Approximate):
        return np.broadcast_to(value, shape)
    number = None if value.number is None else np.broadcast_to(value.number, shape)
    return Approximate(np.broadcast_to(value.value, shape), np.broadcast_to(value.error, shape), number)


def _reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    return _mapped(value, lambda a: a.reshape(shape) if a.ndim else a)


def _sliced(value: Value, at: Any) -> Value:
    return _mapped(value, lambda a: a[..., at])


def _aligned(value: Value, rank: int) -> Value:
    """With `rank` dimensions, of length 1 in front."""
    return _mapped(value, lambda a: a.reshape((1,) * (rank - a.ndim) + a.shape))


def _joined_ends(first: Value, last: Value) -> Value:
    (a, ea), (b, eb) = parts(first), parts(last)
    value = np.concatenate([a, b], axis=-1)
    if ea is None and eb is None:
        return value
    return Approximate(
        value, np.concatenate([np.broadcast_to(_error(v), np.shape(parts(v)[0])) for v in (first, last)], -1)
    )


_COMPUTE: dict[type, Callable[[_Plan, Any], list[Value]]] = {
    ComputeOp: _Plan.compute,
    ScanOp: _Plan.scan,
    ExternOp: _Plan.extern,
    ConstantOp: lambda plan, op: [op.array],
    TensorComputeOp: _Plan.intrinsic,
}
