"""Activations, borders and dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import te
from tvmagic.arith import Analyzer
from tvmagic.compat.topi import tag
from tvmagic.compat.topi.elementwise import each
from tvmagic.compat.topi.utils import axes_of, axis_of, prod, unravelled
from tvmagic.errors import WrongValueError
from tvmagic.ir import PrimExpr, Select, ops
from tvmagic.te.tensor import Tensor

__all__ = [
    "batch_matmul", "batch_norm", "dense", "dilate", "flatten", "layer_norm", "leaky_relu", "log_softmax", "matmul", "pad",
    "prelu", "relu", "softmax",
]  # fmt: skip


def relu(x: Any) -> Any:
    """Each element, or 0 if it is less."""
    return each(x, lambda value: ops.maximum(value, ops.const(0, value.dtype)))


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
) -> Any:
    """`data` with `pad_before` elements of `pad_value` in front of each axis and `pad_after` behind it."""
    behind = list(pad_before) if pad_after is None else list(pad_after)
    analyzer = Analyzer()
    shape = [analyzer.simplify(size + (a + b)) for size, a, b in zip(data.shape, pad_before, behind)]
    filling = ops.cast(data.dtype, pad_value)

    def value(*indices: PrimExpr) -> Any:
        conditions: list[PrimExpr] = []
        for index, size, a, b in zip(indices, data.shape, pad_before, behind):
            if not (analyzer.can_prove_equal(a, 0) and analyzer.can_prove_equal(b, 0)):
                conditions += [ops.greater_equal(index, a), ops.less(index, size + a)]
        moved = [index if analyzer.can_prove_equal(a, 0) else index - a for index, a in zip(indices, pad_before)]
        return ops.if_then_else(ops.all(*conditions), data(*moved), filling) if conditions else data(*moved)

    return te.compute(shape, value, name=name, tag="injective,pad")


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Any:
    """The product of two matrices, each of which may be transposed, plus `bias`, an element for each column."""
    kind = tensor_a.dtype if out_dtype is None else out_dtype
    rows, depth = (tensor_a.shape[::-1] if transpose_a else tensor_a.shape)[:2]
    inner, columns = (tensor_b.shape[::-1] if transpose_b else tensor_b.shape)[:2]
    _check_depths(depth, inner)
    k = te.reduce_axis((0, depth), name="k")

    def product(*at: PrimExpr) -> Any:
        left = tensor_a(k, at[0]) if transpose_a else tensor_a(at[0], k)
        right = tensor_b(at[1], k) if transpose_b else tensor_b(k, at[1])
        return te.sum(ops.cast(kind, left) * ops.cast(kind, right), axis=k)

    name = f"T_matmul_{'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'}"
    kind_of_product, free = "dense" if name.endswith("NT") else "matmul", {"layout_free_placeholders": [tensor_b]}
    result = te.compute((rows, columns), product, name=name, tag=kind_of_product, attrs=free)
    if bias is None:
        return result
    return te.compute(result.shape, lambda i, j: result(i, j) + ops.cast(kind, bias(j)), tag=tag.BROADCAST)


def _check_depths(depth: PrimExpr, inner: PrimExpr) -> None:
    if not Analyzer().can_prove_equal(depth, inner):
        raise WrongValueError(
            f"matrices of {depth} columns and {inner} rows cannot be multiplied", code="topi.matrix_sizes_differ"
        )


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: Any = None) -> Any:
    """`data` times the transposed `weight`, plus `bias`: a row of the weight for each column of the result."""
    return matmul(data, weight, bias, out_dtype, transpose_b=True)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Sequence[Any] | None = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Any:
    """The products of the matrices of two tensors, along the first axis; one of them may have a single matrix."""
    kind = tensor_a.dtype if out_dtype is None else out_dtype
    batches = [tensor_a.shape[0], tensor_b.shape[0]]
    analyzer = Analyzer()
    single = [analyzer.can_prove_equal(n, 1) for n in batches]
    if not any(single) and not analyzer.can_prove_equal(*batches):
        raise WrongValueError(f"there are {batches[0]} and {batches[1]} matrices", code="topi.batch_sizes_differ")
    rows, depth = (tensor_a.shape[:0:-1] if transpose_a else tensor_a.shape[1:])[:2]
    inner, columns = (tensor_b.shape[:0:-1] if transpose_b else tensor_b.shape[1:])[:2]
    _check_depths(depth, inner)
    k = te.reduce_axis((0, depth), name="k")

    def product(b: PrimExpr, i: PrimExpr, j: PrimExpr) -> Any:
        at = [0 if one else b for one in single] if single != [True, True] else [b, b]
        left = tensor_a(at[0], k, i) if transpose_a else tensor_a(at[0], i, k)
        right = tensor_b(at[1], j, k) if transpose_b else tensor_b(at[1], k, j)
        return te.sum(ops.cast(kind, left) * ops.cast(kind, right), axis=k)

    name = f"T_batch_matmul_{'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'}"
    shape = oshape or (batches[1] if single[0] else batches[0], rows, columns)
    return te.compute(shape, product, name=name, tag="batch_matmul")


def leaky_relu(x: Any, alpha: float) -> Any:
    """Each element, or `alpha` times it if it is not above 0."""
    return each(x, lambda value: Select(ops.greater(value, 0), value, value * ops.const(alpha, value.dtype)))


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Any:
    """Each element, or if it is not above 0 times the slope of its place along `axis`."""
    place = axis_of(axis, len(x.shape))
    return te.compute(
        x.shape, lambda *i: Select(ops.greater(x(*i), 0), x(*i), x(*i) * slope(i[place])), tag=tag.BROADCAST
    )


def flatten(data: Tensor) -> Any:
    """All axes but the first as one."""
    width, whole = prod(list(data.shape[1:])), data.shape[1:]
    return te.compute((data.shape[0], width), lambda i, j: data(i, *unravelled(j, whole)), tag=tag.INJECTIVE)


def dilate(data: Tensor, strides: Sequence[Any], dilation_value: Any = 0.0, name: str = "DilatedInput") -> Any:
    """The elements of `data` at the distances `strides`, and `dilation_value` between them."""
    if len(strides) != len(data.shape):
        raise WrongValueError(
            f"there are {len(data.shape)} axes, and {len(strides)} distances", code="topi.wrong_value_count"
        )
    shape = [Analyzer().simplify((size - 1) * step + 1) for size, step in zip(data.shape, strides)]

    def value(*indices: PrimExpr) -> Any:
        conditions: list[PrimExpr] = []
        places: list[Any] = []
        for index, step in zip(indices, strides):
            plain = getattr(step, "value", step) == 1
            places.append(index if plain else ops.floordiv(index, step))
            conditions += [] if plain else [ops.equal(ops.floormod(index, step), 0)]
        filling = ops.cast(data.dtype, dilation_value)
        return ops.if_then_else(ops.all(*conditions), data(*places), filling) if conditions else data(*places)

    return te.compute(shape, value, name=name, tag="injective,dilate")


def log_softmax(x: Tensor, axis: int = -1) -> Any:
    """The logarithm of the softmax along an axis, computed without large exponentials."""
    place = axis_of(axis, len(x.shape))
    outer = [size for i, size in enumerate(x.shape) if i != place]
    k = [te.reduce_axis((0, x.shape[place]), name="k") for _ in range(2)]
    most = te.compute(outer, lambda *i: te.max(x(*i[:place], k[0], *i[place:]), axis=k[0]), name="T_softmax_maxelem")
    total = te.compute(
        outer,
        lambda *i: te.sum(ops.exp(x(*i[:place], k[1], *i[place:]) - most(*i)), axis=k[1]),
    )

    def value(*i: PrimExpr) -> Any:
        rest = [*i[:place], *i[place + 1 :]]
        return x(*i) - most(*rest) - ops.log(total(*rest))

    return te.compute(x.shape, value, attrs={"axis": place})


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> list[Any]:
    """`data` less the mean, divided by the deviation, times `gamma` and plus `beta`, each of them along `axis`.

    Returns the result, the mean and the variance, which are those that were given.
    """
    place = axis_of(axis, len(data.shape))

    def value(*i: PrimExpr) -> Any:
        channel = i[place]
        deviation = ops.sqrt(moving_var(channel) + ops.const(epsilon, moving_var.dtype))
        result = (data(*i) - moving_mean(channel)) / deviation
        result = result * gamma(channel) if scale else result
        return result + beta(channel) if center else result

    return [te.compute(data.shape, value, name="T_batch_norm", tag=tag.BROADCAST), moving_mean, moving_var]


def layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Sequence[int] | int, epsilon: float = 1e-5
) -> Any:
    """`data` less its mean over `axis`, divided by its deviation there, times `gamma` and plus `beta`."""
    reduced = axes_of(axis, len(data.shape))
    over = [te.reduce_axis((0, data.shape[i]), name=f"k{n}") for n, i in enumerate(reduced)]
    kept = [i for i in range(len(data.shape)) if i not in reduced]
    count = prod([data.shape[i] for i in reduced])
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda a, b: (ops.const(0, a), ops.const(0, b)), name="sums"
    )

    def sums(*i: PrimExpr) -> Any:
        at = dict(zip([*kept, *reduced], [*i, *over]))
        element = data(*[at[n] for n in range(len(data.shape))])
        return both((element, element * element), axis=over)

    total = te.compute([data.shape[i] for i in kept], sums, name=f"{data.op.name}_red_temp", tag=tag.COMM_REDUCE)

    def value(*i: PrimExpr) -> Any:
        place, inner = [i[n] for n in kept], [i[n] for n in reduced]
        size = ops.cast(data.dtype, count)
        mean = total[0](*place) / size
        variance = total[1](*place) / size - mean * mean
        result = (data(*i) - mean) * ops.rsqrt(variance + ops.const(epsilon, data.dtype)) * gamma(*inner)
        return result if beta is None else result + beta(*inner)

    return te.compute(data.shape, value, name="T_layer_norm", tag=tag.INJECTIVE)


def softmax(x: Tensor, axis: int = -1) -> Any:
    """The exponentials of the elements along an axis, divided by their sum."""
    place = axis_of(axis, len(x.shape))
    outer = [size for i, size in enumerate(x.shape) if i != place]
    names = [f"i{i}" for i in range(len(x.shape))]

    def at(index: Any, others: Sequence[PrimExpr]) -> list[Any]:
        return [*others[:place], index, *others[place:]]

    def over(values: Any, reducer: Any, name: str) -> Any:
        k = te.reduce_axis((0, x.shape[place]), name="k")
        return te.compute(outer, lambda *i: reducer(values(*at(k, i)), axis=k), name=name, varargs_names=names[:-1])

    def without(indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        return [*indices[:place], *indices[place + 1 :]]

    most = over(x, te.max, "T_softmax_maxelem")
    powers = te.compute(
        x.shape, lambda *i: ops.exp(x(*i) - most(*without(i))), name="T_softmax_exp", varargs_names=names
    )
    total = over(powers, te.sum, "T_softmax_expsum")
    return te.compute(
        x.shape,
        lambda *i: powers(*i) / total(*without(i)),
        name="T_softmax_norm",
        attrs={"axis": place},
        varargs_names=names,
        tag="softmax_output",
    )
