"""A lowered module, compiled for this machine and handed to the runtime."""

from __future__ import annotations

from typing import Any

from tvmagic.codegen.module import ModuleContext, emit_module
from tvmagic.codegen.optimize import assembly_of, object_of, optimized
from tvmagic.codegen.target import Target
from tvmagic.errors import BuildError
from tvmagic.ir import IRModule

__all__ = ["build_host_module"]


def build_host_module(mod: IRModule, target: Target, check_bounds: bool = False) -> Any:
    """`mod` as a `tvmagic.runtime.Module`."""
    from tvmagic.runtime.module import Module

    if not target.is_host:
        raise BuildError(
            f"code for `{target}` does not run on this machine",
            hint="its text can be had with `tvmagic.codegen.llvm_ir` and `tvmagic.codegen.assembly`",
        )
    context = emit_module(mod, target, check_bounds)
    text = context.text.text()
    module = optimized(text, target)
    code = object_of(module, target)
    sources = {
        "ll": lambda: str(module),
        "asm": lambda: assembly_of(module, target),
        "raw": lambda: text,
    }
    return Module(code, list(context.abis.values()), context.sites, sources, exported(context))


def exported(context: ModuleContext) -> set[str]:
    """The symbols besides its functions that the module shares with the runtime."""
    names = {"runtime": "__tvmagic_runtime", "error": "__tvmagic_error"}
    return {symbol for key, symbol in names.items() if key in context.text.globals}
