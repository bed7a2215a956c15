"""Tensor intrinsics of machines that do not run code here: CUDA's WMMA and MMA, AMD's and Hexagon's products."""

from __future__ import annotations

from tvmagic.compat.tensor_intrin import cuda, hexagon, rocm

__all__ = ["intrinsics"]


def intrinsics() -> dict[str, tuple[object, object]]:
    """Return the description and the implementation of each intrinsic, by name."""
    return {**cuda.INTRINSICS, **rocm.INTRINSICS, **hexagon.INTRINSICS}
