"""Passes on whole functions: what a user gives, targets, entry points, which functions stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir import IRModule, PrimFunc
from tvmagic.tir.transform.declaration import tir_pass


@tir_pass("tir.Apply")
def Apply(func: PrimFunc, ftransform: Callable[[PrimFunc], PrimFunc]) -> PrimFunc:
    """Call `ftransform` on every function and keep what it gives."""
    return ftransform(func)


@tir_pass("tir.Filter")
def Filter(mod: IRModule, fcond: Callable[[PrimFunc], bool]) -> IRModule:
    """Keep the functions for which `fcond` holds."""
    kept = {var: func for var, func in mod.functions.items() if fcond(func)}
    return mod if len(kept) == len(mod) else mod.replace(functions=kept)


@tir_pass("tir.BindTarget")
def BindTarget(func: PrimFunc, target: Any) -> PrimFunc:
    """Note `target` on the functions that have none yet.

    A function that has one, and a name outside, gets the host of `target`; one with the attribute `tir.is_host_func` is
    for the host; one without a name outside runs where it is called, and has no host of its own.
    """
    exposed, own = "global_symbol" in func.attrs, func.attrs.get("target")
    host = getattr(target, "host", None)
    if own is not None:
        add = exposed and host is not None and getattr(own, "host", host) is None
        return func.with_attr("target", own.with_host(host)) if add else func
    if func.attrs.get("tir.is_host_func") and host is not None:
        return func.without_attr("tir.is_host_func").with_attr("target", host.with_host(host))
    return func.with_attr("target", target if exposed or host is None else target.without_host())


@tir_pass("tir.AnnotateEntryFunc")
def AnnotateEntryFunc(mod: IRModule) -> IRModule:
    """Mark the entry point of a module: its only function, or the function that is callable from outside."""
    funcs = list(mod.functions.items())
    if len(funcs) > 1:
        funcs = [(var, func) for var, func in funcs if "global_symbol" in func.attrs]
    if len(funcs) != 1:
        return mod
    var, func = funcs[0]
    return mod.with_functions({var: func.with_attr("tir.is_entry_func", True)})
