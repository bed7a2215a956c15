"""Passes on whole functions: what a user gives, targets, entry points, which functions stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir import IRModule, PrimFunc
from tvmagic.passes import Pass, PassContext, prim_func_pass


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> Pass:
    """Call `ftransform` on every function and keep what it gives."""

    def run(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
        return ftransform(func)

    return prim_func_pass(run, 0, "tir.Apply")


def Filter(fcond: Callable[[PrimFunc], bool]) -> Pass:
    """Keep the functions for which `fcond` holds."""

    def run(mod: IRModule, context: PassContext) -> IRModule:
        kept = {var: func for var, func in mod.functions.items() if fcond(func)}
        return mod if len(kept) == len(mod) else mod.replace(functions=kept)

    return Pass("tir.Filter", run)


def BindTarget(target: Any) -> Pass:
    """Note `target` on the functions that have none yet."""

    def run(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
        return func if "target" in func.attrs else func.with_attr("target", target)

    return prim_func_pass(run, 0, "tir.BindTarget", options={"target": str(target)})


def AnnotateEntryFunc() -> Pass:
    """Mark the entry point of a module: its only function, or the one that is callable from outside."""

    def run(mod: IRModule, context: PassContext) -> IRModule:
        funcs = list(mod.functions.items())
        if len(funcs) > 1:
            funcs = [(var, func) for var, func in funcs if "global_symbol" in func.attrs]
        if len(funcs) != 1:
            return mod
        var, func = funcs[0]
        return mod.with_functions({var: func.with_attr("tir.is_entry_func", True)})

    return Pass("tir.AnnotateEntryFunc", run)
