"""The greatest or mean element of windows that move over two axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import te
from tvmagic.arith import Analyzer
from tvmagic.compat.topi.nn.layers import pad
from tvmagic.compat.topi.utils import axis_of
from tvmagic.errors import WrongValueError
from tvmagic.ir import PrimExpr, Select, ops
from tvmagic.te.tensor import Tensor

__all__ = ["adaptive_pool", "global_pool", "pool1d", "pool2d", "pool3d"]


def _window_axes(layout: str, letters: str = "HW") -> list[int]:
    if any(letter not in layout for letter in letters):
        raise WrongValueError(
            f"the layout `{layout}` has not the axes {' and '.join(letters)}", code="topi.wrong_layout"
        )
    return [layout.index(letter) for letter in letters]


def pool1d(
    data: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
    pool_type: str, ceil_mode: bool = False, layout: str = "NCW", count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """As `pool2d`, along the axis W of `layout`; the border is that on the left and on the right."""
    return _pool("W", data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def pool2d(
    data: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
    pool_type: str, ceil_mode: bool = False, layout: str = "NCHW", count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """`pool_type` (`max` or `avg`) of each window of `kernel` elements along the axes H and W of `layout`.

    stride: how far a window moves; dilation: the distance of its elements; padding: the border at the top, left, bottom
    and right. With `ceil_mode` a last window may reach behind the border. A mean counts the border if `count_include_pad`.
    """
    return _pool("HW", data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def pool3d(
    data: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
    pool_type: str, ceil_mode: bool = False, layout: str = "NCDHW", count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """As `pool2d`, along the axes D, H and W of `layout`; the border is that in front of the three, then behind them."""
    return _pool("DHW", data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def _pool(
    letters: str, data: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], pool_type: str, ceil_mode: bool, layout: str, count_include_pad: bool,
) -> Any:  # fmt: skip
    if pool_type not in ("max", "avg"):
        raise WrongValueError(
            f"`{pool_type}` is not a kind of pooling", hint="write `max` or `avg`", code="topi.unknown_pool_type"
        )
    axes, analyzer = _window_axes(layout, letters), Analyzer()
    front = {axis: padding[i] for i, axis in enumerate(axes)}
    behind = {axis: padding[i + len(axes)] + (stride[i] - 1 if ceil_mode else 0) for i, axis in enumerate(axes)}
    rank = range(len(data.shape))
    filling = ops.min_value(data.dtype) if pool_type == "max" else ops.const(0, data.dtype)
    padded = data
    if any([*front.values(), *behind.values()]):
        padded = pad(data, [front.get(i, 0) for i in rank], [behind.get(i, 0) for i in rank], filling, name="pad_temp")
    shape: list[Any] = list(data.shape)
    for i, axis in enumerate(axes):
        reach = (kernel[i] - 1) * dilation[i] + 1
        shape[axis] = analyzer.simplify((padded.shape[axis] - reach) // stride[i] + 1)
    window = [te.reduce_axis((0, size), name=f"rv{i}") for i, size in enumerate(kernel)]

    def element(indices: Sequence[PrimExpr]) -> Any:
        moved = list(indices)
        for i, axis in enumerate(axes):
            moved[axis] = indices[axis] * stride[i] + window[i] * dilation[i]
        return padded(*moved)

    axis_names = [f"ax{i}" for i in rank]
    if pool_type == "max":
        greatest = lambda *i: te.max(element(i), axis=window)  # noqa: E731
        return te.compute(shape, greatest, name="pool_max", tag="pool_max", varargs_names=axis_names)
    total = te.compute(
        shape, lambda *i: te.sum(element(i), axis=window), name="pool_sum", tag="pool_sum", varargs_names=axis_names
    )

    def mean(*indices: PrimExpr) -> Any:
        if count_include_pad:
            return ops.div(total(*indices), kernel[0] * kernel[1])
        counts: Any = 1
        for i, axis in enumerate(axes):
            counts = counts * _inside_count(
                indices[axis] * stride[i] - front[axis], kernel[i], dilation[i], data.shape[axis]
            )
        return ops.div(total(*indices), ops.cast(data.dtype, ops.maximum(counts, 1)))

    return te.compute(shape, mean, name="pool_avg", tag="elemwise", varargs_names=axis_names)


def _inside_count(begin: PrimExpr, count: int, step: int, size: PrimExpr) -> PrimExpr:
    """How many of `count` places from `begin` on, `step` apart, are from 0 up to `size`."""
    before = ops.floordiv(ops.maximum(0 - begin, 0) + (step - 1), step)
    until = ops.floordiv(ops.minimum(size - 1, begin + (count - 1) * step) - begin, step) + 1
    return ops.maximum(until - before, 0)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Any:
    """`pool_type` (`max` or `avg`) of all elements along the axes H and W of `layout`, which keep the size 1."""
    if pool_type not in ("max", "avg"):
        raise WrongValueError(
            f"`{pool_type}` is not a kind of pooling", hint="write `max` or `avg`", code="topi.unknown_pool_type"
        )
    axes = [axis_of(axis, len(data.shape)) for axis in _window_axes(layout)]
    window = [te.reduce_axis((0, data.shape[axis]), name=f"rv{i}") for i, axis in enumerate(axes)]
    shape = [1 if i in axes else size for i, size in enumerate(data.shape)]
    axis_names = [f"ax{i}" for i in range(len(shape))]

    def element(indices: Sequence[PrimExpr]) -> Any:
        return data(*[window[axes.index(i)] if i in axes else index for i, index in enumerate(indices)])

    if pool_type == "max":
        return te.compute(
            shape,
            lambda *i: te.max(element(i), axis=window),
            name="adaptive_pool_max",
            tag="adaptive_pool_max",
            varargs_names=axis_names,
        )
    total = te.compute(
        shape,
        lambda *i: te.sum(element(i), axis=window),
        name="adaptive_pool_sum",
        tag="adaptive_pool_sum",
        varargs_names=axis_names,
    )
    count = ops.cast(data.dtype, data.shape[axes[0]] * data.shape[axes[1]])
    return te.compute(
        shape,
        lambda *i: ops.div(total(*i), count),
        name="adaptive_pool_avg",
        tag="elemwise",
        varargs_names=axis_names,
    )


def adaptive_pool(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCHW") -> Any:
    """`pool_type` (`max` or `avg`) of windows along the axes H and W of `layout`, so many that `output_size` remain.

    output_size: one size for both axes, or two. Window i of n on an axis of m elements goes from `i * m // n` up to
    `(i + 1) * m / n`, rounded up; neighbours may overlap.
    """
    if pool_type not in ("max", "avg"):
        raise WrongValueError(
            f"`{pool_type}` is not a kind of pooling", hint="write `max` or `avg`", code="topi.unknown_pool_type"
        )
    axes = _window_axes(layout)
    sizes = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * 2
    if len(sizes) != len(axes):
        raise WrongValueError(
            f"there are {len(axes)} axes for windows, and {len(sizes)} sizes", code="topi.wrong_value_count"
        )
    shape: list[Any] = list(data.shape)
    for axis, size in zip(axes, sizes):
        shape[axis] = size

    def windows(indices: Sequence[PrimExpr]) -> tuple[list[PrimExpr], list[Any]]:
        """The first element of each window, and the axes that run over it."""
        starts, reduced = [], []
        for i, (axis, size) in enumerate(zip(axes, sizes)):
            total, index = data.shape[axis], indices[axis]
            start, end = ops.floordiv(index * total, size), ops.floordiv((index + 1) * total, size)
            exact = ops.floormod((index + 1) * total, size).equal(0)
            reduced.append(te.reduce_axis((0, Select(exact, end, end + 1) - start), name=f"rv{i}"))
            starts.append(start)
        return starts, reduced

    def reduced(indices: Sequence[PrimExpr], combine: Any) -> Any:
        starts, window = windows(indices)
        place = list(indices)
        for axis, start, step in zip(axes, starts, window):
            place[axis] = start + step
        return combine(data(*place), axis=window)

    given: dict[str, Any] = {"varargs_names": [f"ax{i}" for i in range(len(shape))]}
    rule = {"schedule_rule": f"meta_schedule.adaptive_pool_{pool_type}"}
    if pool_type == "max":
        name = "adaptive_pool_max"
        return te.compute(shape, lambda *i: reduced(i, te.max), name=name, tag=name, attrs=rule, **given)
    name = "adaptive_pool_sum"
    total = te.compute(shape, lambda *i: reduced(i, te.sum), name=name, tag=name, **given)

    def mean(*indices: PrimExpr) -> Any:
        count: Any = ops.cast(data.dtype, 1)
        for window in windows(indices)[1]:
            count = count * ops.cast(data.dtype, window.dom.extent)
        return ops.div(total(*indices), count)

    return te.compute(shape, mean, name="adaptive_pool_avg", tag="elemwise", attrs=rule, **given)
