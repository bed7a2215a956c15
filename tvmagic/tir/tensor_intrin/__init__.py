"""Tensor intrinsics under TVM's names; they are registered when one is first asked for.

`x86`: `dot_16x4_vnni`, `dot_16x4_avx512`. `arm_cpu`: `dot_4x4_i8i8s32_neon`, `dot_4x4_i8i8s32_sdot`,
`dot_4x4_u8u8u32_udot`, `dot_4x4_u8u8i32_hdot`. Those of other machines, for code that is read and not run here, are in
`dot_product_common` (`dp4a_s8s8s32`, ...) and in compat.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tvmagic import find_name as _find_name
from tvmagic.ir import PrimFunc, TensorIntrin
from tvmagic.ir.hooks import provided_if
from tvmagic.tir.tensor_intrin import arm_cpu, x86

__all__ = ["arm_cpu", "registered", "x86"]


def _register(intrinsics: dict[str, tuple[PrimFunc, PrimFunc]]) -> None:
    for name, (desc, impl) in intrinsics.items():
        TensorIntrin.register(name, desc, impl, override=True)


for _machine in (x86, arm_cpu):
    _register(_machine.INTRINSICS)


@cache
def register_others() -> None:
    """Register those of machines whose code is not run here. It is called when an unknown name is asked for."""
    from tvmagic.tir.tensor_intrin import dot_product_common

    _register(dot_product_common.INTRINSICS)
    of_compat = provided_if("intrinsics of other machines")
    if of_compat is not None:
        _register(of_compat())


def registered(name: str) -> TensorIntrin:
    """The intrinsic known as `name`, those of this package included; an error if there is none."""
    found = TensorIntrin.get(name)
    assert found is not None
    return found


def __getattr__(name: str) -> Any:
    return _find_name("tvmagic.tir.tensor_intrin", name)
