"""A lowered module, compiled for this machine and handed to the runtime."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tvmagic.codegen.cache import from_disk, from_memory
from tvmagic.codegen.debug import Lines
from tvmagic.codegen.module import ModuleContext, emit_module
from tvmagic.codegen.optimize import assembly_of, object_of, optimized
from tvmagic.codegen.target import Target, cpu_and_features
from tvmagic.errors import BuildError
from tvmagic.ir import IRModule
from tvmagic.passes import run_step
from tvmagic.runtime.module import Module

__all__ = ["build_host_module"]


def build_host_module(mod: IRModule, target: Target, check_bounds: bool = False) -> Any:
    """`mod` as a `tvmagic.runtime.Module`; the same one for an equal module that was built before."""
    if not target.is_host:
        raise BuildError(
            f"code for `{target}` does not run on this machine",
            hint="its text can be had with `tvmagic.codegen.llvm_ir` and `tvmagic.codegen.assembly`",
        )
    target = target.for_this_machine()
    make = lambda: _build(mod, target, check_bounds)  # noqa: E731
    return run_step(
        "codegen.build",
        lambda: from_memory(mod, (str(target), check_bounds), make),
        before=mod,
        after=lambda built: built.get_source("ll"),
        kind="codegen",
    )


# The modules of LLVM for the texts that are asked for right after a build; of others they are made again.
_optimized = lru_cache(maxsize=2)(optimized)


def _build(mod: IRModule, target: Target, check_bounds: bool) -> Any:
    context = emit_module(mod, target, check_bounds, Lines(mod) if check_bounds else None)
    text = context.text.text()
    most = 1 if check_bounds else 3  # checked code is for finding mistakes: ready soon rather than fast
    module = lambda: _optimized(text, target, most)  # noqa: E731
    machine = (*cpu_and_features(target), str(target.attrs.get("opt-level", 3)), str(most))
    code = from_disk(text, machine, lambda: object_of(module(), target))
    sources = {"ll": lambda: str(module()), "asm": lambda: assembly_of(module(), target), "raw": lambda: text}
    return Module(code, list(context.abis.values()), context.sites, sources, exported(context), len(text))


def exported(context: ModuleContext) -> set[str]:
    """The symbols besides its functions that the module shares with the runtime."""
    names = {"runtime": "__tvmagic_runtime", "error": "__tvmagic_error"}
    return {symbol for key, symbol in names.items() if key in context.text.globals}
