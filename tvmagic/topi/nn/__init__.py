"""Operators of neural networks."""

# pyright: reportUnusedImport=false
# What is imported here is what the package offers.

from tvmagic.topi.nn import pooling
from tvmagic.topi.nn.layers import dense, pad, relu, softmax
from tvmagic.topi.nn.pooling import adaptive_pool, global_pool, pool2d

__all__ = ["adaptive_pool", "dense", "global_pool", "pad", "pool2d", "pooling", "relu", "softmax"]
