"""The value of a tensor expression in NumPy, independent of the compiler.

Every axis of an operation becomes a dimension of NumPy arrays that broadcast against each other,
the reduction axes behind the others. Large operations are computed in blocks of the first axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.arith.reducer_laws import can_regroup
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.eval.ops import REDUCTIONS
from tvmagic.eval.size_equations import Dimension, solve_sizes
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.te.numpy_eval import ArrayEvaluator, given
from tvmagic.te.numpy_stmt import run_statement
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

BLOCK_ELEMENTS = 1 << 22  # elements of one block, so that its temporaries stay near 16 MB each


def evaluate(tensor: Tensor, inputs: Mapping[Any, Any]) -> np.ndarray:
    """The value of `tensor`.

    Parameters
    ----------
    inputs: an array for each placeholder that it needs, and a number for each variable that no
        shape of these determines.

    A read outside a tensor is a `BoundsError`.
    """
    return evaluate_all([tensor], inputs)[0]


@deep
def evaluate_all(tensors: Sequence[Tensor], inputs: Mapping[Any, Any]) -> list[np.ndarray]:
    """The values of several tensors; what they share is computed once."""
    values, sizes = bind_inputs(inputs)
    roots = [t.op for t in tensors]
    graph = create_read_graph(roots)
    inside_scans = {op for root in graph if isinstance(root, ScanOp) for op in scan_get_body(root)}
    with np.errstate(all="ignore"):
        for op in post_dfs_order(roots, graph):
            if not isinstance(op, PlaceholderOp) and (op not in inside_scans or op in roots):
                _compute_op(op, values, sizes)
    return [given(values, t) for t in tensors]


def bind_inputs(inputs: Mapping[Any, Any]) -> tuple[dict[Tensor, np.ndarray], dict[ir.Var, np.ndarray]]:
    """The arrays of the tensors among `inputs`, and the values of variables: those given, and sizes of the arrays."""
    values: dict[Tensor, np.ndarray] = {}
    sizes: dict[ir.Var, np.ndarray] = {}
    for key, value in inputs.items():
        if isinstance(key, Tensor):
            values[key] = np.asarray(value)
            bind_sizes(key, values[key], sizes)
        else:
            var = key.var if isinstance(key, ir.IterVar) else key
            sizes[var] = np.asarray(value, numpy_dtype(var.dtype))
    known = {var: int(value) for var, value in sizes.items() if value.dtype.kind in "iu"}
    solve_sizes([Dimension(*pair) for t, array in values.items() for pair in zip(t.shape, array.shape)], known)
    return values, {**{var: np.asarray(n, numpy_dtype(var.dtype)) for var, n in known.items()}, **sizes}


def bind_sizes(tensor: Tensor, array: np.ndarray, sizes: dict[ir.Var, np.ndarray]) -> None:
    if array.ndim != len(tensor.shape):
        raise TVMagicError(
            f"`{tensor.name}` has {len(tensor.shape)} dimensions, the array has {array.ndim}",
            code="te.reference.wrong_rank",
        )
    for axis, size in enumerate(tensor.shape):
        length = array.shape[axis]
        if isinstance(size, ir.Var):
            known = sizes.setdefault(size, np.asarray(length, numpy_dtype(size.dtype)))
            if int(known) != length:
                raise TVMagicError(
                    f"dimension {axis} of `{tensor.name}` is {length}, `{size.name}` is {known} elsewhere",
                    code="te.reference.size_mismatch",
                )
        elif isinstance(size, ir.IntImm) and size.value != length:
            raise TVMagicError(
                f"dimension {axis} of `{tensor.name}` is {size.value}, that of the array is {length}",
                code="te.reference.size_mismatch",
            )


def _compute_op(op: Operation, values: dict[Tensor, np.ndarray], sizes: dict[ir.Var, np.ndarray]) -> None:
    if all(t in values for t in op.outputs):
        return
    compute = _COMPUTE.get(type(op))
    if compute is None:
        raise TVMagicError(
            f"`{op.name}` is a {op.kind}, which has no value in NumPy", code="te.reference.no_numpy_value"
        )
    for tensor, value in zip(op.outputs, compute(op, values, sizes)):
        values[tensor] = value


# ---------------------------------------------------------------------------- compute


def number(value: ir.PrimExpr, sizes: Mapping[ir.Var, np.ndarray]) -> int:
    return value.value if isinstance(value, ir.IntImm) else int(ArrayEvaluator(sizes).visit(value))


def ends_of(range_: ir.Range | None, sizes: Mapping[ir.Var, np.ndarray]) -> tuple[int, int]:
    """The first value of a range and the one after its last; a negative size is no iteration."""
    assert range_ is not None
    low = number(range_.min, sizes)
    return low, low + max(number(range_.extent, sizes), 0)


def _compute(
    op: ComputeOp, values: Mapping[Tensor, np.ndarray], sizes: Mapping[ir.Var, np.ndarray]
) -> list[np.ndarray]:
    return _compute_part(op, values, sizes, [ends_of(iv.dom, sizes) for iv in op.axis], True)


Ends = Sequence[tuple[int, int]]


def _compute_part(
    op: ComputeOp, values: Mapping[Tensor, np.ndarray], sizes: Mapping[ir.Var, np.ndarray], ends: Ends, strict: bool
) -> list[np.ndarray]:
    """The outputs of `op` for the part `ends` of its axes."""
    shape = [high - low for low, high in ends]
    results = [np.empty(shape, numpy_dtype(t.dtype)) for t in op.outputs]
    reduced = [ends_of(iv.dom, sizes) for iv in op.reduce_axis]
    work = int(np.prod([high - low for low, high in reduced], dtype=np.int64)) if reduced else 1
    for block in blocks(ends, max(work, 1)):
        place = tuple([slice(b[0] - e[0], b[1] - e[0]) for b, e in zip(block, ends)])
        for result, value in zip(results, _compute_block(op, values, sizes, block, reduced, strict)):
            result[place] = value
    return results


def blocks(ends: Ends, work: int) -> list[list[tuple[int, int]]]:
    """The box `ends` cut along its first axes, so that each part has not too many elements."""
    limit = max(BLOCK_ELEMENTS // work, 1)
    steps: list[list[tuple[int, int]]] = []
    inner = 1
    for low, high in reversed(ends):
        step = max(min(high - low, limit // max(inner, 1)), 1)
        steps.append([(start, min(start + step, high)) for start in range(low, high, step)])
        inner *= max(high - low, 1)
    return [list(box) for box in itertools.product(*reversed(steps))]


def _compute_block(
    op: ComputeOp,
    values: Mapping[Tensor, np.ndarray],
    sizes: Mapping[ir.Var, np.ndarray],
    block: Ends,
    reduced: Ends,
    strict: bool,
) -> list[np.ndarray]:
    rank = len(block) + len(reduced)
    env = dict(sizes)
    for axis, (iv, (low, high)) in enumerate(zip(op.root_iter_vars(), (*block, *reduced))):
        shape = [1] * rank
        shape[axis] = high - low
        env[iv.var] = np.arange(low, high, dtype=numpy_dtype(iv.dtype)).reshape(shape)
    evaluator = ArrayEvaluator(env, values, strict)
    spatial = tuple([high - low for low, high in block])
    first = op.body[0]
    if not isinstance(first, ir.Reduce):
        return [np.broadcast_to(evaluator.visit(b), spatial) for b in op.body]
    domain = (*spatial, *[high - low for low, high in reduced])
    return _reduce(first, evaluator, domain, len(spatial))


# ---------------------------------------------------------------------------- reductions


def _reduce(reduce: ir.Reduce, evaluator: ArrayEvaluator, domain: tuple[int, ...], rank: int) -> list[np.ndarray]:
    """The values of a reduction; the dimensions of `domain` from `rank` on are reduced."""
    combiner = reduce.combiner
    if "nonempty" in combiner.attrs and not all(domain[rank:]):
        names = ", ".join(f"`{axis.var.name}`" for axis in reduce.axis)
        raise BoundsError(f"cannot reduce over {names}: there are no elements", code="te.empty_reduction")
    condition = None
    if not (isinstance(reduce.condition, ir.IntImm) and reduce.condition.value):
        condition = evaluator.mask = evaluator.visit(reduce.condition)
    sources = [evaluator.visit(s) for s in reduce.source]
    evaluator.mask = None
    neutral = [evaluator.visit(e) for e in combiner.identity_element]
    if not can_regroup(combiner):
        return _reduce_in_order(reduce, evaluator, domain, rank, sources, neutral, condition)
    if condition is not None:
        sources = [np.where(condition, s, e) for s, e in zip(sources, neutral)]
    sources = [np.broadcast_to(s, domain) for s in sources]
    axes = tuple(range(rank, len(domain)))
    fast = simple_combiner(combiner)
    if fast is not None and all(domain[rank:]):
        results = [fast.reduce(sources[0], axis=axes, dtype=sources[0].dtype)]
    else:
        flat = [s.reshape((*domain[:rank], -1)) for s in sources]
        results = _reduce_pairs(combiner, evaluator, flat, neutral)
    if reduce.init:
        start = [evaluator.visit(i) for i in reduce.init]
        start = [s.reshape(s.shape[:rank]) if s.ndim else s for s in start]
        results = _combine(combiner, evaluator, start, results)
    return [np.broadcast_to(r, domain[:rank]) for r in results]


def simple_combiner(combiner: ir.CommReducer) -> np.ufunc | None:
    """The NumPy function that a combiner of one value is, if it is one."""
    if len(combiner.result) != 1:
        return None
    result = combiner.result[0]
    function = REDUCTIONS.get(type(result))
    if function is None or not isinstance(result, ir.BinaryOp):
        return None
    return function if result.a is combiner.lhs[0] and result.b is combiner.rhs[0] else None


def _combine(
    combiner: ir.CommReducer, evaluator: ArrayEvaluator, left: Sequence[Any], right: Sequence[Any]
) -> list[Any]:
    inner = ArrayEvaluator(evaluator.env, evaluator.values, evaluator.strict)
    inner.env.update(zip(combiner.lhs, left))
    inner.env.update(zip(combiner.rhs, right))
    return [inner.visit(r) for r in combiner.result]


def _reduce_in_order(
    reduce: ir.Reduce,
    evaluator: ArrayEvaluator,
    domain: tuple[int, ...],
    rank: int,
    sources: list[Any],
    neutral: list[Any],
    condition: Any,
) -> list[np.ndarray]:
    """Reduce one element after the other, for a combiner whose result may depend on the order."""
    shape = (*domain[:rank], math.prod(domain[rank:]))
    flat = [np.broadcast_to(s, domain).reshape(shape) for s in sources]
    taken = None if condition is None else np.broadcast_to(condition, domain).reshape(shape)
    start = [evaluator.visit(i) for i in reduce.init] or neutral
    start = [s.reshape(s.shape[:rank]) if np.ndim(s) else s for s in start]
    results = [np.broadcast_to(s, shape[:-1]) for s in start]
    for n in range(shape[-1]):
        made = _combine(reduce.combiner, evaluator, results, [v[..., n] for v in flat])
        results = made if taken is None else [np.where(taken[..., n], m, r) for m, r in zip(made, results)]
    return [np.broadcast_to(r, shape[:-1]) for r in results]


def _reduce_pairs(
    combiner: ir.CommReducer, evaluator: ArrayEvaluator, values: list[np.ndarray], neutral: list[Any]
) -> list[np.ndarray]:
    """Reduce the last dimension by combining neighbours, in order, until one is left."""
    while values[0].shape[-1] > 1:
        odd = [v[..., -1:] for v in values] if values[0].shape[-1] % 2 else None
        pairs = values[0].shape[-1] // 2 * 2
        left, right = [v[..., 0:pairs:2] for v in values], [v[..., 1:pairs:2] for v in values]
        values = [np.broadcast_to(v, left[0].shape) for v in _combine(combiner, evaluator, left, right)]
        if odd is not None:
            values = [np.concatenate([v, o], axis=-1) for v, o in zip(values, odd)]
    if values[0].shape[-1] == 0:
        return [np.broadcast_to(e, v.shape[:-1]) for e, v in zip(neutral, values)]
    last = [v[..., 0] for v in values]
    return _combine(combiner, evaluator, neutral, last)


# ---------------------------------------------------------------------------- scan, intrinsics


def _scan(op: ScanOp, values: dict[Tensor, np.ndarray], sizes: Mapping[ir.Var, np.ndarray]) -> list[np.ndarray]:
    """The states of a recurrence, step by step."""
    known = dict(values)
    states: list[np.ndarray] = []
    for tensor, first, state in zip(op.outputs, op.init, op.state_placeholder):
        array = np.zeros([number(s, sizes) for s in tensor.shape], numpy_dtype(tensor.dtype))
        array[: given(values, first).shape[0]] = given(values, first)
        known[state] = array
        states.append(array)
    body = scan_get_body(op)
    start, stop = ends_of(op.scan_axis.dom, sizes)
    updates = {t.op for t in op.update}
    for step in range(start, stop):
        done: list[tuple[np.ndarray, np.ndarray]] = []
        for inner in body:
            if not isinstance(inner, ComputeOp):
                raise TVMagicError(
                    f"`{inner.name}` inside a scan is a {inner.kind}, which has no value in NumPy",
                    code="te.reference.no_numpy_value",
                )
            ends = [ends_of(iv.dom, sizes) for iv in inner.axis]
            if inner in updates:
                ends[0] = (step, step + 1)
            results = _compute_part(inner, known, sizes, ends, inner in updates)
            known.update(zip(inner.outputs, results))
        for array, tensor in zip(states, op.update):
            done.append((array, known[tensor][0]))
        for array, value in done:  # all updates read the states of the step before
            array[step] = value
    return states


def _tensor_compute(
    op: TensorComputeOp, values: Mapping[Tensor, np.ndarray], sizes: Mapping[ir.Var, np.ndarray]
) -> list[np.ndarray]:
    """The intrinsic's own operation on the regions of each call, one call after the other."""
    outer = op.axis[: op.schedulable_ndim]
    inner_op = op.intrin.op
    results = [np.zeros([number(s, sizes) for s in t.shape], numpy_dtype(t.dtype)) for t in op.outputs]
    spans = [range(*ends_of(iv.dom, sizes)) for iv in outer]
    for place in itertools.product(*spans):
        parts = [
            _call_intrinsic(op, inner_op, values, {**sizes, **points(outer, place), **points(op.reduce_axis, step)})
            for step in itertools.product(*[range(*ends_of(iv.dom, sizes)) for iv in op.reduce_axis])
        ]
        for i, result in enumerate(results):
            result[place] = _join([p[i] for p in parts], inner_op, i)
    return results


def points(axes: Sequence[ir.IterVar], place: Sequence[int]) -> dict[ir.Var, np.ndarray]:
    return {iv.var: np.asarray(p, numpy_dtype(iv.dtype)) for iv, p in zip(axes, place)}


def _call_intrinsic(
    op: TensorComputeOp, inner: Operation, values: Mapping[Tensor, np.ndarray], env: Mapping[ir.Var, np.ndarray]
) -> list[np.ndarray]:
    inputs: dict[Any, Any] = {}
    for tensor, source, region in zip(op.intrin.inputs, op.inputs, op.input_regions):
        part = given(values, source)[tuple([slice(*ends_of(r, env)) for r in region])]
        inputs[tensor] = part.reshape(part.shape[part.ndim - len(tensor.shape) :])
    evaluator = ArrayEvaluator(env, values)
    for param, scalar in zip(op.intrin.scalar_params, op.scalar_inputs):
        inputs[param] = evaluator.visit(scalar)
    return evaluate_all(list(inner.outputs), inputs)


def _join(parts: list[np.ndarray], inner: Operation, index: int) -> np.ndarray:
    """The results of the calls of one reduction combined."""
    if len(parts) == 1:
        return parts[0]
    reduce = inner.body[index] if isinstance(inner, ComputeOp) else None
    fast = simple_combiner(reduce.combiner) if isinstance(reduce, ir.Reduce) else None
    if fast is None:
        raise TVMagicError(
            f"the calls of intrinsic `{inner.name}` cannot be combined in NumPy",
            code="te.reference.calls_not_combinable",
        )
    return fast.reduce(np.stack(parts), axis=0)


def _extern(op: ExternOp, values: Mapping[Tensor, np.ndarray], sizes: Mapping[ir.Var, np.ndarray]) -> list[np.ndarray]:
    """What the statement of an extern operation stores, beginning from zeros."""
    outputs = [np.zeros([number(s, sizes) for s in t.shape], numpy_dtype(t.dtype)) for t in op.outputs]
    arrays = {b: given(values, t) for b, t in zip(op.input_placeholders, op.inputs)}
    arrays.update(zip(op.output_placeholders, outputs))
    run_statement(op.body, arrays, sizes)
    return outputs


_COMPUTE: dict[type, Callable[[Any, dict[Tensor, np.ndarray], dict[ir.Var, np.ndarray]], list[np.ndarray]]] = {
    ComputeOp: _compute,
    ScanOp: _scan,
    ExternOp: _extern,
    ConstantOp: lambda op, values, sizes: [op.array],
    TensorComputeOp: _tensor_compute,
}
