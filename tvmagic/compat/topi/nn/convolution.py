"""Convolutions over one, two or three axes, in any order of the axes of data and filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import te
from tvmagic.arith import Analyzer
from tvmagic.compat.topi.nn.layers import dilate, pad
from tvmagic.compat.topi.utils import get_const_int
from tvmagic.errors import WrongValueError
from tvmagic.ir import PrimExpr, ops
from tvmagic.te.tensor import Tensor

__all__ = [
    "conv", "conv1d", "conv2d", "conv2d_hwcn", "conv2d_nchw", "conv2d_nhwc", "conv2d_transpose_nchw", "conv3d", "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc", "get_pad_tuple", "group_conv2d_nchw",
]  # fmt: skip

_AXES = "DHW"


def _each(value: Any, count: int) -> list[Any]:
    """One value for each of `count` axes."""
    given = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(given) != count:
        raise WrongValueError(
            f"there are {count} axes, and {len(given)} values for them", code="topi.wrong_value_count"
        )
    return given


def _padding(padding: Any, reaches: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The border in front of each axis and behind it; `reaches` are how far a filter reaches along each."""
    count = len(reaches)
    if padding == "VALID":
        return [0] * count, [0] * count
    if padding == "SAME":
        return [reach // 2 for reach in reaches], [(reach - 1) // 2 for reach in reaches]
    if isinstance(padding, str):
        raise WrongValueError(
            f"`{padding}` is not a padding", hint="write `VALID`, `SAME`, or sizes", code="topi.wrong_padding"
        )
    if isinstance(padding, (list, tuple)) and len(padding) == 2 * count != 2:
        return list(padding[:count]), list(padding[count:])
    sizes = list(padding) if count == 1 and isinstance(padding, (list, tuple)) else _each(padding, count)
    return sizes[:count], sizes[-count:]


def get_pad_tuple(padding: Any, kernel: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """The border at the top, left, bottom and right: from one size, two, four, `VALID` or `SAME` for a filter's sizes."""
    before, behind = _padding(padding, kernel)
    return before[0], before[1], behind[0], behind[1]


def _places(layout: str, letters: str) -> list[int]:
    if sorted(layout) != sorted(letters):
        raise WrongValueError(
            f"the layout `{layout}` does not have the axes {', '.join(letters)}", code="topi.wrong_layout"
        )
    return [layout.index(letter) for letter in letters]


def _in_order(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """`values[i]` at place `places[i]`."""
    ordered: list[Any] = [None] * len(values)
    for value, place in zip(values, places):
        ordered[place] = value
    return ordered


def _windows(
    data: Tensor, of_data: list[int], kernel: Sequence[Any], strides: Sequence[Any], padding: Any, dilations: Sequence[Any],
    name: str,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The data with its border, and how many windows there are along each axis.

    of_data: the places of the axes of the batch and the channels, then of those that windows move along.
    """
    analyzer = Analyzer()
    reaches = [analyzer.simplify((size - 1) * d + 1) for size, d in zip(kernel, dilations)]
    before, behind = _padding(padding, [get_const_int(r) if padding == "SAME" else r for r in reaches])
    padded = pad(data, _in_order([0, 0, *before], of_data), _in_order([0, 0, *behind], of_data), name=name)
    steps = zip([data.shape[i] for i in of_data[2:]], reaches, before, behind, strides)
    return padded, [analyzer.simplify((size - reach + a + b) // s + 1) for size, reach, a, b, s in steps]


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: Any = None,
) -> Any:
    """The sum of products of each window of the data with each filter.

    Parameters
    ----------
    stride: how far a window moves along each axis; dilation: the distance of its elements.
    padding: the border of zeros: one size, one for each axis, one for each side, `VALID` or `SAME`.
    groups: into how many parts the channels fall; a filter sees those of its own part.
    data_layout: the order of the axes, such as `NCHW`; kernel_layout: that of the filters, such as `OIHW`, by default as
        that of the data, with `O` for `N` and `I` for `C`.
    out_dtype: the type of the result, by default that of the data.
    """
    letters = [letter for letter in _AXES if letter in data_layout]
    dim = len(letters)
    of_data = _places(data_layout, "NC" + "".join(letters))
    order = kernel_layout or data_layout.replace("N", "O").replace("C", "I")
    of_filter = _places(order, "OI" + "".join(letters))
    batch, channels = [inp.shape[i] for i in of_data[:2]]
    filters, depth, *kernel = [filt.shape[i] for i in of_filter]
    strides, dilations = _each(stride, dim), _each(dilation, dim)
    if not Analyzer().can_prove_equal(depth * groups, channels):
        raise WrongValueError(
            f"data of {channels} channels in {groups} groups, and filters of {depth} channels",
            code="topi.channels_differ",
        )
    padded, outer = _windows(inp, of_data, kernel, strides, padding, dilations, "pad_temp")
    rc = te.reduce_axis((0, depth), name="rc")
    window = [te.reduce_axis((0, size), name=f"r{'zyx'[3 - dim + i]}") for i, size in enumerate(kernel)]
    kind = inp.dtype if out_dtype is None else out_dtype

    def value(*indices: PrimExpr) -> Any:
        nn, ff, *place = [indices[i] for i in of_data]
        channel = rc if groups == 1 else ff // (filters // groups) * (channels // groups) + rc
        moved = [i * s + r * d for i, s, r, d in zip(place, strides, window, dilations)]
        pixel = padded(*_in_order([nn, channel, *moved], of_data)).astype(kind)
        weight = filt(*_in_order([ff, rc, *window], of_filter)).astype(kind)
        axes = [axis for axis in _in_order([None, rc, *window], of_data) if axis is not None]
        return te.sum(pixel * weight, axis=axes)

    name = f"{'group_' if groups > 1 else ''}conv{dim}d_{data_layout.lower()}"
    varargs = _in_order(["nn", "ff", "yy", "xx", "zz"][: dim + 2], of_data)
    return te.compute(_in_order([batch, filters, *outer], of_data), value, name=name, tag=name, varargs_names=varargs)


def conv1d(
    data: Tensor, kernel: Tensor, strides: Any = 1, padding: Any = "VALID", dilation: Any = 1, data_layout: str = "NCW",
    kernel_layout: str = "", out_dtype: Any = None,
) -> Any:  # fmt: skip
    """A convolution over the axis W."""
    return conv(data, kernel, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype)


def conv2d(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, data_layout: str = "NCHW",
    kernel_layout: str = "", out_dtype: Any = None,
) -> Any:  # fmt: skip
    """A convolution over the axes H and W."""
    return conv(data, kernel, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype)


def conv3d(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, groups: int = 1, data_layout: str = "NCDHW",
    kernel_layout: str = "", out_dtype: Any = None,
) -> Any:  # fmt: skip
    """A convolution over the axes D, H and W."""
    return conv(data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype)


def conv2d_nchw(Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None) -> Any:
    """A convolution of data with the axes NCHW and filters with the axes OIHW."""
    return conv(Input, Filter, stride, padding, dilation, 1, "NCHW", "OIHW", out_dtype)


def conv2d_nhwc(Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None) -> Any:
    """A convolution of data with the axes NHWC and filters with the axes HWIO."""
    return conv(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype)


def conv2d_hwcn(Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None) -> Any:
    """A convolution of data with the axes HWCN and filters with the axes HWIO."""
    return conv(Input, Filter, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


def group_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, out_dtype: Any = None
) -> Any:
    """A convolution of NCHW data in which each filter sees the channels of its group."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype)


def _depthwise(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Any, nchw: bool
) -> Any:
    of_data = _places("NCHW" if nchw else "NHWC", "NCHW")
    of_filter = [0, 1, 2, 3] if nchw else [2, 3, 0, 1]  # channel, number, y, x
    batch, channels = [data.shape[i] for i in of_data[:2]]
    _, times, *window = [kernel.shape[i] for i in of_filter]
    strides, dilations = _each(stride, 2), _each(dilation, 2)
    padded, outer = _windows(data, of_data, window, strides, padding, dilations, "PaddedInput")
    over = [te.reduce_axis((0, size), name=name) for size, name in zip(window, ("di", "dj"))]
    kind = data.dtype if out_dtype is None else out_dtype

    def value(*indices: PrimExpr) -> Any:
        b, c, *place = [indices[i] for i in of_data]
        moved = [i * s + r * d for i, s, r, d in zip(place, strides, over, dilations)]
        pixel = padded(*_in_order([b, ops.floordiv(c, times), *moved], of_data)).astype(kind)
        weight = kernel(*_in_order([ops.floordiv(c, times), ops.floormod(c, times), *over], of_filter)).astype(kind)
        return te.sum(pixel * weight, axis=over)

    shape = _in_order([batch, Analyzer().simplify(channels * times), *outer], of_data)
    return te.compute(
        shape,
        value,
        name="DepthwiseConv2d",
        tag=f"depthwise_conv2d_{'nchw' if nchw else 'nhwc'}",
        varargs_names=_in_order(["b", "c", "i", "j"], of_data),
    )


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None
) -> Any:
    """Each channel with its own filters, of the axes channel, number, H, W; the results are channels again."""
    return _depthwise(Input, Filter, stride, padding, dilation, out_dtype, True)


def depthwise_conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None
) -> Any:
    """Each channel with its own filters, of the axes H, W, channel, number; the results are channels again."""
    return _depthwise(Input, Filter, stride, padding, dilation, out_dtype, False)


def conv2d_transpose_nchw(
    Input: Tensor, Filter: Tensor, strides: Any, padding: Any, out_dtype: Any = None, output_padding: Any = 0
) -> Any:
    """The convolution that goes back: each element of NCHW data times the filters (of the axes IOHW), added up where the
    results overlap.

    strides: how far apart the results of neighbours are; padding: what is left out at the border of the sum;
    output_padding: rows and columns that are added at the bottom and on the right.
    """
    analyzer, steps, extra = Analyzer(), _each(strides, 2), _each(output_padding, 2)
    batch, channels, *_ = Input.shape
    inner, filters, *window = Filter.shape
    if not analyzer.can_prove_equal(channels, inner):
        raise WrongValueError(f"data of {channels} channels, and filters of {inner}", code="topi.channels_differ")
    before, behind = _padding(padding, [get_const_int(size) for size in window])
    spread = dilate(Input, [1, 1, *steps], name="data_dilate")
    front = [analyzer.simplify(size - 1 - a) for size, a in zip(window, before)]
    back = [analyzer.simplify(size - 1 - b + more) for size, b, more in zip(window, behind, extra)]
    padded = pad(spread, [0, 0, *front], [0, 0, *back], name="data_pad")

    def turned(o: PrimExpr, i: PrimExpr, h: PrimExpr, w: PrimExpr) -> Any:
        return Filter(i, o, window[0] - 1 - h, window[1] - 1 - w)

    kernel = te.compute((filters, channels, *window), turned, name="kernel_transform")
    outer = [analyzer.simplify(size - reach + 1) for size, reach in zip(padded.shape[2:], window)]
    dc, dh, dw = (te.reduce_axis((0, n), name=name) for n, name in zip((channels, *window), ("dc", "dh", "dw")))
    kind = Input.dtype if out_dtype is None else out_dtype

    def value(b: PrimExpr, c: PrimExpr, h: PrimExpr, w: PrimExpr) -> Any:
        return te.sum(
            padded(b, dc, h + dh, w + dw).astype(kind) * kernel(c, dc, dh, dw).astype(kind), axis=[dc, dh, dw]
        )

    return te.compute((batch, filters, *outer), value, tag="conv2d_transpose_nchw")
