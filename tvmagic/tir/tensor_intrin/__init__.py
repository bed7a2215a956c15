"""Tensor intrinsics under TVM's names; they are registered when one is first asked for.

`x86`: `dot_16x4_vnni`, `dot_16x4_avx512`. `arm_cpu`: `dot_4x4_i8i8s32_neon`, `dot_4x4_i8i8s32_sdot`,
`dot_4x4_u8u8u32_udot`, `dot_4x4_u8u8i32_hdot`. Those of other machines, for code that is read and not run here, are in
`dot_product_common` (`dp4a_s8s8s32`, ...), `cuda` (WMMA: `wmma_sync_16x16x16_f16f16f32`, and MMA: `mma_f16f16f32`, each
with what fills, loads and stores its tiles), `rocm` (`sdot4`) and `hexagon`.
"""

from __future__ import annotations

import importlib
from functools import cache

from tvmagic.ir import PrimFunc, TensorIntrin
from tvmagic.tir.tensor_intrin import arm_cpu, x86

__all__ = ["arm_cpu", "registered", "x86"]

_ELSEWHERE = ("dot_product_common", "cuda", "rocm", "hexagon")  # read when an unknown name is asked for


def _register(intrinsics: dict[str, tuple[PrimFunc, PrimFunc]]) -> None:
    for name, (desc, impl) in intrinsics.items():
        TensorIntrin.register(name, desc, impl, override=True)


for _machine in (x86, arm_cpu):
    _register(_machine.INTRINSICS)


@cache
def register_others() -> None:
    """Register those of machines whose code is not run here."""
    for name in _ELSEWHERE:
        _register(importlib.import_module(f"{__name__}.{name}").INTRINSICS)


def registered(name: str) -> TensorIntrin:
    """The intrinsic known as `name`, those of this package included; an error if there is none."""
    found = TensorIntrin.get(name)
    assert found is not None
    return found
