"""What a schedule says of stages and loops: where a stage runs, what a loop is."""

from __future__ import annotations

import enum
from typing import Any

from tvmagic.ir import Identified, IterVar, PrimExpr, StringImm
from tvmagic.te.intrinsic import TensorIntrin
from tvmagic.te.tensor import Tensor


class AttachType(enum.IntEnum):
    """Where a stage runs (the numbers are TVM's)."""

    GROUP_ROOT = 1
    INLINE = 2
    INLINED_ALREADY = 3
    SCOPE = 4
    SCAN_UPDATE = 5


ITER_TYPE_NAMES = {
    IterVar.DataPar: "a data axis",
    IterVar.ThreadIndex: "a thread axis",
    IterVar.CommReduce: "a reduction axis",
    IterVar.Ordered: "an ordered axis",
    IterVar.Opaque: "an opaque axis",
    IterVar.Unrolled: "an unrolled axis",
    IterVar.Vectorized: "a vectorized axis",
    IterVar.Parallelized: "a parallel axis",
    IterVar.Tensorized: "a tensorized axis",
}


class IterVarAttr(Identified):
    """What a schedule says of one loop besides its place."""

    __slots__ = (
        "bind_thread",
        "dim_align_factor",
        "dim_align_offset",
        "iter_type",
        "pragma_keys",
        "pragma_values",
        "prefetch_data",
        "prefetch_offset",
        "tensor_intrin",
    )

    def __init__(self) -> None:
        self.iter_type: int = IterVar.DataPar
        self.bind_thread: IterVar | None = None
        self.prefetch_data: list[Tensor] = []
        self.prefetch_offset: list[PrimExpr] = []
        self.tensor_intrin: TensorIntrin | None = None
        self.dim_align_factor: int = 0
        self.dim_align_offset: int = 0
        self.pragma_keys: list[StringImm] = []
        self.pragma_values: list[Any] = []

    def copy(self) -> IterVarAttr:
        """The same attributes, to be changed on their own."""
        new = IterVarAttr()
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(new, name, list(value) if isinstance(value, list) else value)
        return new
