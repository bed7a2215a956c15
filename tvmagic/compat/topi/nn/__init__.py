"""Operators of neural networks."""

# pyright: reportUnusedImport=false
# What is imported here is what the package offers.

from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.compat.topi.nn import convolution, layers, pooling
from tvmagic.compat.topi.nn.convolution import (
    conv,
    conv1d,
    conv2d,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_nhwc,
    conv2d_transpose_nchw,
    conv3d,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    get_pad_tuple,
    group_conv2d_nchw,
)
from tvmagic.compat.topi.nn.layers import (
    batch_matmul,
    batch_norm,
    dense,
    dilate,
    flatten,
    layer_norm,
    leaky_relu,
    log_softmax,
    matmul,
    pad,
    prelu,
    relu,
    softmax,
)
from tvmagic.compat.topi.nn.pooling import adaptive_pool, global_pool, pool1d, pool2d, pool3d


def __getattr__(name: str) -> _Any:
    return _find_name("tvmagic.topi.nn", name)


__all__ = [*convolution.__all__, *layers.__all__, *pooling.__all__, "pooling"]  # pyright: ignore[reportUnsupportedDunderAll]
