"""VerifyMemory: a function for a GPU leaves its arguments to the GPU's threads."""

from __future__ import annotations

from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimFunc
from tvmagic.tir.analysis.verify_device import host_accesses
from tvmagic.tir.transform.declaration import tir_pass


@tir_pass("tir.VerifyMemory")
def VerifyMemory(func: PrimFunc) -> PrimFunc:
    """Refuse a function for a GPU that accesses its arguments outside all threads."""
    for var, node in host_accesses(func).items():
        raise TVMagicError(
            f"Did you forget to bind? Variable `{var.name}` is directly accessed by host memory: no thread is around it",
            node=node,
            hint="bind the loops around it to blockIdx and threadIdx",
        )
    return func
