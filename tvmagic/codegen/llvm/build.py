"""A lowered module, compiled for this machine and handed to the runtime."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tvmagic.codegen.emit.debug import Lines
from tvmagic.codegen.emit.module import ModuleContext, emit_module
from tvmagic.codegen.llvm.cache import from_disk, from_memory
from tvmagic.codegen.llvm.optimize import assembly_of, object_of, optimized
from tvmagic.errors import BuildError
from tvmagic.interrupts import deferred_interrupts, deferring_interrupts
from tvmagic.ir import IRModule
from tvmagic.passes import run_step
from tvmagic.runtime.module import Module
from tvmagic.runtime.support_code import needs_builtins, read_ll
from tvmagic.runtime.wasm import imported_functions
from tvmagic.target import Target, cpu_and_features
from tvmagic.tir.transform.expressions.widen_index import depends_on_sizes


def build_host_module(
    mod: IRModule, target: Target, check_bounds: bool, widened: Callable[[], IRModule] | None = None
) -> Any:
    """`mod` as a `tvmagic.runtime.Module`; the same one for an equal module that was built before.

    Code for another machine can be read and saved; that it does not run here is told when it is called. `widened` makes the last program with indices of
    int64, for calls whose sizes need them.
    """
    refusal: BuildError | None = None
    if not target.is_host:
        refusal = BuildError(
            f"code for `{target}` does not run on this machine",
            hint="its text is `get_source()`",
            code="codegen.other_machine",
        )
    else:
        try:
            target = target.for_this_machine()
        except BuildError as error:
            refusal = error
    make = lambda: _build(mod, target, check_bounds, refusal, widened)  # noqa: E731
    return run_step(
        "codegen.build",
        lambda: from_memory(mod, (str(target), check_bounds), make),
        before=mod,
        after=lambda built: built.get_source("ll"),
        kind="codegen",
    )


# The modules of LLVM for the texts that are asked for right after a build; of others they are made again.
_MODULES = 2
_recent: OrderedDict[Any, Any] = OrderedDict()


def recently_optimized(text: str, target: Target, imports: tuple[str, ...] = ()) -> Any:
    """Return the optimized module of LLVM text, of the last ones without optimizing again."""
    key = (text, target, imports)
    if (found := _recent.get(key)) is not None:
        return found
    module = optimized(text, target, imports)
    with deferred_interrupts():  # the oldest module goes away
        _recent[key] = module
        while len(_recent) > _MODULES:
            _recent.popitem(last=False)
    return module


@deferring_interrupts
def _text_of(module: Any) -> str:
    return str(module)


def _build(
    mod: IRModule,
    target: Target,
    check_bounds: bool,
    refusal: BuildError | None,
    widened: Callable[[], IRModule] | None,
) -> Any:
    context = emit_module(mod, target, check_bounds, Lines(mod) if check_bounds else None)
    text, imports = context.text.text(), tuple(context.text.imports)
    module = lambda: recently_optimized(text, target, imports)  # noqa: E731
    machine = (*cpu_and_features(target), str(target.attrs.get("opt-level", 3)), *imports)
    code = from_disk(text, machine, lambda: _object(text, target, imports, module))
    sources = {"ll": lambda: _text_of(module()), "asm": lambda: assembly_of(module(), target), "raw": lambda: text}
    return Module(
        code,
        list(context.abis.values()),
        context.sites,
        sources,
        exported(context),
        len(text),
        recompiled=lambda added: object_of(optimized(text + added, target, imports), target),
        refusal=refusal,
        externs=[name for name in context.text.declarations if not name.startswith("llvm.")],
        target=target,
        widened=(lambda: build_host_module(widened(), target, check_bounds))
        if widened is not None and depends_on_sizes(mod)
        else None,
    )


def _object(text: str, target: Target, imports: tuple[str, ...], module: Callable[[], Any]) -> bytes:
    """The object file; WebAssembly has what LLVM calls for 16-bit floats and the like in it, other machines in the process."""
    code = object_of(module(), target)
    if target.family.calls_process or not needs_builtins(imported_functions(code)):
        return code
    # LLVM calls these functions with the bits of a 16-bit float there. An argument of the type `half` is not that in every
    # version (LLVM 20 widens it), and for values of the type `bfloat` there is no code.
    builtins = re.sub(r"(?<!%)\b(half|bfloat)\b", "i16", read_ll("builtins"))
    return object_of(optimized(text, target, (*imports, builtins)), target)


def exported(context: ModuleContext) -> set[str]:
    """The symbols besides its functions that the module shares with the runtime."""
    names = {"runtime": "__tvmagic_runtime", "error": "__tvmagic_error"}
    return {symbol for key, symbol in names.items() if key in context.text.globals}
