"""Split functions that launch threads into one function per kernel, for targets whose driver launches kernels."""

from __future__ import annotations

from typing import Literal

from tvmagic.codegen.late.common import late_pass
from tvmagic.codegen.late.kernels import kernel_functions
from tvmagic.codegen.text.symbols import symbol_of
from tvmagic.ir import IRModule
from tvmagic.passes import note
from tvmagic.target import Target


def _when(target: Target, check_bounds: bool) -> Literal[True] | str:
    return True if target.family.launches else "functions of a processor launch no kernels"


@late_pass("SplitKernels", when=_when)
def split_kernels(mod: IRModule) -> IRModule:
    """Split each function into one function per kernel that it launches."""
    parts = [
        (v, func, symbol_of(str(func.attrs.get("global_symbol", v.name_hint)))) for v, func in mod.functions.items()
    ]
    made = [(v, func, kernel_functions(func, symbol)) for v, func, symbol in parts]
    if all(kernels == [func] for _, func, kernels in made):
        return mod
    note("late", f"split {len(mod.functions)} functions into {sum(len(kernels) for _, _, kernels in made)} kernels")
    return IRModule({str(k.attrs.get("global_symbol", v.name_hint)): k for v, _, kernels in made for k in kernels})
