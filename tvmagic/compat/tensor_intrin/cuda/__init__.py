"""The intrinsics of CUDA: products of 16 x 16 matrices in fragments of tensor cores (WMMA) or in the registers of a warp
(`mma`), and the dot products of four bytes."""

from tvmagic.compat.tensor_intrin.cuda import mma, wmma
from tvmagic.compat.tensor_intrin.cuda.mma import *
from tvmagic.compat.tensor_intrin.cuda.wmma import *
from tvmagic.compat.tensor_intrin.cuda.wmma_memory import (
    get_wmma_fill_intrin,
    get_wmma_load_intrin,
    get_wmma_store_intrin,
)
from tvmagic.tir.tensor_intrin.dot_product import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
)

__all__ = [
    "DP4A_S8S8S32_INTRIN",
    "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN",
    "DP4A_U8U8U32_INTRIN",
    "get_wmma_fill_intrin",
    "get_wmma_load_intrin",
    "get_wmma_store_intrin",
]
__all__ += mma.__all__
__all__ += wmma.__all__

INTRINSICS = {**wmma.INTRINSICS, **mma.INTRINSICS}
