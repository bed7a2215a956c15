"""ExtractPrimFuncConstants: constant arrays of functions, gathered in the module."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmagic.ir import AllocateConst, IRModule, Stmt, StmtMutator, handles
from tvmagic.tir.transform.declaration import tir_pass

_KEY = "constants"


@tir_pass("tir.ExtractPrimFuncConstants")
def ExtractPrimFuncConstants(mod: IRModule) -> IRModule:
    """Gather the arrays of `allocate_const` in the module's attribute `constants`, equal ones once.

    Each allocation has its number there as `irmod_storage_idx`.
    """
    arrays = _Arrays([*(mod.attrs or {}).get(_KEY, ())])
    new = {v: f.with_body(arrays.visit(f.body)) for v, f in mod.functions.items()}
    if not arrays.found:
        return mod
    return mod.with_functions(new).with_attr(_KEY, tuple(arrays.found))


class _Arrays(StmtMutator):
    def __init__(self, found: list[Any]) -> None:
        self.found = found
        self.numbers = {_content(array): number for number, array in enumerate(found)}

    @handles(AllocateConst)
    def allocation(self, node: AllocateConst) -> Stmt:
        number = self.numbers.setdefault(_content(node.data), len(self.found))
        if number == len(self.found):
            self.found.append(node.data)
        return self.visit_children(node).replace(irmod_storage_idx=number)


def _content(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    values = np.ascontiguousarray(array.numpy())
    return str(array.dtype), values.shape, values.tobytes()
