"""Operators that take pieces of tensors, repeat them, or choose between elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir, te
from tvmagic.arith import Analyzer
from tvmagic.compat.topi import tag
from tvmagic.compat.topi.utils import axis_of, divisor, get_const_int, names, prod
from tvmagic.errors import WrongValueError
from tvmagic.te.elementwise import elementwise
from tvmagic.te.tensor import Tensor


def _made(shape: Sequence[Any], value: Any, name: str, kind: str = tag.INJECTIVE) -> Any:
    return te.compute(shape, value, name=name, tag=kind, varargs_names=names(len(shape)))


def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The parts of a tensor along an axis: so many of one size, or those that begin at 0 and at the given indices."""
    place = axis_of(axis, len(ary.shape))
    size = ary.shape[place]
    if isinstance(indices_or_sections, (list, tuple)):
        begins: list[Any] = [0, *indices_or_sections]
        name = "T_split"
    else:
        count, total = get_const_int(indices_or_sections), get_const_int(size)
        if count < 1 or total % count:
            raise WrongValueError(
                f"{total} elements cannot be split into {count} parts of one size", code="topi.not_divisible"
            )
        begins = list(range(0, total, total // count))
        name = "T_split_sections"
    ends = [*begins[1:], size]

    def part(begin: Any, end: Any) -> Any:
        shape = [*ary.shape[:place], Analyzer().simplify(ir.expr(end - begin)), *ary.shape[place + 1 :]]
        return _made(shape, lambda *i: ary(*i[:place], i[place] + begin, *i[place + 1 :]), name)

    return [part(begin, end) for begin, end in zip(begins, ends)]


def strided_slice(
    a: Tensor,
    begin: Sequence[Any],
    end: Sequence[Any],
    strides: Sequence[Any] | None = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
) -> Any:
    """`a[begin:end:strides]` for the first axes, or for `axes`, as in NumPy.

    slice_mode: `end`, or `size`: then `end` says how many elements are taken (-1 for all that follow) one after the other.
    """
    places = list(axes) if axes is not None else list(range(len(begin)))
    starts, steps, shape = [0] * len(a.shape), [1] * len(a.shape), list(a.shape)
    for number, axis in enumerate(places):
        place = axis_of(axis, len(a.shape))
        size, first = get_const_int(a.shape[place]), get_const_int(begin[number])
        step = 1 if slice_mode == "size" or not strides else get_const_int(strides[min(number, len(strides) - 1)])
        last = get_const_int(end[number]) if number < len(end) else size
        if slice_mode == "size":
            last = size if last < 0 else first + last
        if not step:
            raise WrongValueError("the steps of a slice are not 0", code="topi.step_is_zero")
        taken = range(size)[first:last:step]
        if not taken:
            raise WrongValueError(
                f"the slice {first}:{last}:{step} of {size} elements is empty", code="topi.empty_slice"
            )
        starts[place], steps[place], shape[place] = taken[0], step, ir.expr(len(taken))

    def value(*indices: ir.PrimExpr) -> Any:
        return a(*[i * step + start for i, step, start in zip(indices, steps, starts)])

    return _made(shape, value, "T_strided_slice")


def flip(a: Tensor, axis: int = 0) -> Any:
    """The elements in reverse order along an axis."""
    place = axis_of(axis, len(a.shape))
    last = a.shape[place] - 1
    return _made(a.shape, lambda *i: a(*i[:place], last - i[place], *i[place + 1 :]), "T_flip")


def tile(a: Tensor, reps: Sequence[Any]) -> Any:
    """The whole tensor several times along each axis; both count from the last axis."""
    rank = max(len(a.shape), len(reps))
    sizes = [*[1] * (rank - len(a.shape)), *a.shape]
    times = [*[1] * (rank - len(reps)), *reps]
    analyzer = Analyzer()
    shape = [analyzer.simplify(ir.expr(size * count)) for size, count in zip(sizes, times)]

    def value(*indices: ir.PrimExpr) -> Any:
        return a(*[ir.ops.floormod(i, divisor(size)) for i, size in zip(indices[rank - len(a.shape) :], a.shape)])

    return _made(shape, value, "T_tile", tag.BROADCAST)


def repeat(a: Tensor, repeats: int, axis: int) -> Any:
    """Each element several times, one behind the other along an axis."""
    place = axis_of(axis, len(a.shape))
    shape = [*a.shape[:place], Analyzer().simplify(a.shape[place] * repeats), *a.shape[place + 1 :]]

    def value(*i: ir.PrimExpr) -> Any:
        return a(*i[:place], ir.ops.floordiv(i[place], repeats), *i[place + 1 :])

    return _made(shape, value, "T_repeat", tag.BROADCAST)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "float32") -> Any:
    """The numbers from `start` (0 if it is the only one given) up to `stop`, which is not one of them."""
    first, last = (0, start) if stop is None else (start, stop)
    begin, end, by = (float(getattr(value, "value", value)) for value in (first, last, step))
    count = -int(-(end - begin) // by) if by else 0
    if count < 1:
        raise WrongValueError(
            f"there are no numbers from {begin:g} to {end:g} by steps of {by:g}", code="topi.empty_range"
        )
    kind = ir.dtype_of(dtype)
    offset, factor = (ir.ops.cast(kind, value) for value in (first, step))
    return _made([count], lambda i: offset + factor * ir.ops.cast(kind, i), "T_arange")


def where(condition: Any, x: Any, y: Any) -> Any:
    """The elements of `x` where the condition holds (is not 0), else those of `y`; the three broadcast."""

    def choose(chosen: Any, yes: Any, no: Any) -> ir.PrimExpr:
        test = ir.expr(chosen)
        return ir.Select(test if test.dtype.is_bool else ir.ops.not_equal(test, 0), yes, no)

    return elementwise("where", condition, x, y, combine=choose)


def one_hot(indices: Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: Any) -> Any:
    """A new axis of `depth` elements: `on_value` at the index, `off_value` elsewhere."""
    kind, rank = ir.dtype_of(dtype), len(indices.shape) + 1
    place = axis_of(axis, rank)
    on, off = ir.ops.cast(kind, on_value), ir.ops.cast(kind, off_value)
    shape = [*indices.shape[:place], depth, *indices.shape[place:]]

    def value(*i: ir.PrimExpr) -> ir.PrimExpr:
        return ir.Select(ir.ops.equal(indices(*i[:place], *i[place + 1 :]), i[place]), on, off)

    return _made(shape, value, "T_one_hot")


def gather(data: Tensor, axis: int, indices: Tensor) -> Any:
    """`data` with the index of one axis replaced by an element of `indices`, at the place of the result."""
    place = axis_of(axis, len(data.shape))
    if len(data.shape) != len(indices.shape):
        raise WrongValueError(
            f"the indices have {len(indices.shape)} dimensions, the data {len(data.shape)}", code="topi.ranks_differ"
        )
    return _made(indices.shape, lambda *i: data(*i[:place], indices(*i), *i[place + 1 :]), "T_gather")


def gather_nd(data: Tensor, indices: Tensor, batch_dims: int = 0) -> Any:
    """The elements at points: along the first axis of `indices` are the coordinates of each, after `batch_dims` axes."""
    count = get_const_int(indices.shape[0])
    if batch_dims + count > len(data.shape):
        raise WrongValueError(
            f"points of {batch_dims + count} coordinates in a tensor of {len(data.shape)} dimensions",
            code="topi.too_many_coordinates",
        )
    inner = len(indices.shape) - 1
    shape = [*indices.shape[1:], *data.shape[batch_dims + count :]]

    def value(*i: ir.PrimExpr) -> Any:
        point = [ir.ops.cast("int32", indices(k, *i[:inner])) for k in range(count)]
        return data(*i[:batch_dims], *point, *i[inner:])

    return _made(shape, value, "T_gather_nd")


def trilu(data: Tensor, k: Any, upper: bool) -> Any:
    """The upper or lower triangle of matrices, from diagonal number `k` on; zeros elsewhere."""
    zero = ir.ops.const(0, data.dtype)

    def value(*i: ir.PrimExpr) -> ir.PrimExpr:
        inside = ir.ops.less_equal(k, i[-1] - i[-2]) if upper else ir.ops.greater_equal(k, i[-1] - i[-2])
        return ir.Select(inside, data(*i), zero)

    return _made(data.shape, value, "trilu")


def elemwise_sum(xs: Sequence[Tensor]) -> Any:
    """The sum of tensors of one shape."""
    if not xs:
        raise WrongValueError("the sum of no tensors has no shape", code="topi.no_tensors")

    def value(*i: ir.PrimExpr) -> Any:
        total = xs[0](*i)
        for x in xs[1:]:
            total = total + x(*i)
        return total

    return _made(xs[0].shape, value, "T_elemwise_sum", tag.ELEMWISE)


def tensordot(a: Tensor, b: Tensor, axes: Any = 2) -> Any:
    """The sum of products over the last axes of `a` and the first of `b`, or over the two lists of axes given."""
    if isinstance(axes, (int, ir.IntImm)):
        count = int(axes)
        left, right = list(range(len(a.shape) - count, len(a.shape))), list(range(count))
    else:
        first, second = axes
        left = [axis_of(i, len(a.shape)) for i in (first if isinstance(first, (list, tuple)) else [first])]
        right = [axis_of(i, len(b.shape)) for i in (second if isinstance(second, (list, tuple)) else [second])]
    if len(left) != len(right) or not Analyzer().can_prove_equal(
        prod([a.shape[i] for i in left]), prod([b.shape[i] for i in right])
    ):
        raise WrongValueError(
            f"axes {left} of {list(a.shape)} and {right} of {list(b.shape)} have other sizes",
            code="topi.axis_sizes_differ",
        )
    free_a = [i for i in range(len(a.shape)) if i not in left]
    free_b = [i for i in range(len(b.shape)) if i not in right]
    over = [te.reduce_axis((0, a.shape[i]), name=f"k{n}") for n, i in enumerate(left)]

    def value(*i: ir.PrimExpr) -> Any:
        at_a = dict(zip([*free_a, *left], [*i[: len(free_a)], *over]))
        at_b = dict(zip([*free_b, *right], [*i[len(free_a) :], *over]))
        product = a(*[at_a[n] for n in range(len(a.shape))]) * b(*[at_b[n] for n in range(len(b.shape))])
        return te.sum(product, axis=over) if over else product

    shape = [*[a.shape[i] for i in free_a], *[b.shape[i] for i in free_b]]
    return _made(shape, value, "T_tensordot", "matmul")
