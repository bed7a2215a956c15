"""Tensor intrinsics of CPUs, under TVM's names; they are registered when one is first asked for.

`x86`: `dot_16x4_vnni`, `dot_16x4_avx512`. `arm_cpu`: `dot_4x4_i8i8s32_neon`, `dot_4x4_i8i8s32_sdot`,
`dot_4x4_u8u8u32_udot`, `dot_4x4_u8u8i32_hdot`.
"""

from __future__ import annotations

from tvmagic.ir import TensorIntrin
from tvmagic.tir.tensor_intrin import arm_cpu, x86

__all__ = ["arm_cpu", "registered", "x86"]

for _intrinsics in (x86.INTRINSICS, arm_cpu.INTRINSICS):
    for _name, (_desc, _impl) in _intrinsics.items():
        TensorIntrin.register(_name, _desc, _impl, override=True)


def registered(name: str) -> TensorIntrin:
    """The intrinsic known as `name`, those of this package included; an error if there is none."""
    found = TensorIntrin.get(name)
    assert found is not None
    return found
