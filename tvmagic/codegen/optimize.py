"""From LLVM text to machine code: parse, verify, optimize with the new pass manager, emit."""

from __future__ import annotations

from functools import cache
from typing import Any

from tvmagic.codegen.interruptible import interruptible
from tvmagic.codegen.target import Target, target_machine
from tvmagic.errors import BuildError, InternalError

__all__ = ["assembly_of", "object_of", "optimized"]


@cache
def _set_options() -> None:
    """LLVM's own options, for the whole process.

    LLVM 22.1 groups strided accesses whose index wraps around (`i % 4 * 4 + r`) as if it did not, and
    so vectorizes loops wrongly. Without such groups it gathers.
    """
    import llvmlite.binding as llvm

    llvm.set_option("tvmagic", "-enable-interleaved-mem-accesses=false")


def optimized(text: str, target: Target, most: int = 3) -> Any:
    """The LLVM module of `text` after LLVM's passes for the optimization level of `target`, at most `most`."""
    _set_options()
    machine = target_machine(target)
    return interruptible(lambda: _optimized(text, target, machine, most))


def _optimized(text: str, target: Target, machine: Any, most: int) -> Any:
    import llvmlite.binding as llvm

    try:
        # a context of its own: what LLVM shares between modules of one context it keeps as long as the context
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refused the code made for it: {error}") from error
    level = min(int(target.attrs.get("opt-level", 3)), most)
    options = llvm.create_pipeline_tuning_options(level)
    options.loop_vectorization = options.slp_vectorization = level >= 2
    options.loop_interleaving = options.loop_unrolling = level >= 2
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    llvm.NewPassManager._dispose(passes)  # llvmlite 0.50's own `close` leaves the passes, some 70 kB, where they are
    passes.detach()
    return module


def object_of(module: Any, target: Target) -> bytes:
    """The object file of an optimized module."""
    machine = target_machine(target)
    return interruptible(lambda: machine.emit_object(module))


def assembly_of(module: Any, target: Target) -> str:
    """The assembly of an optimized module."""
    machine = target_machine(target)
    try:
        return interruptible(lambda: machine.emit_assembly(module))
    except RuntimeError as error:
        raise BuildError(f"LLVM cannot write this module's assembly: {error}") from error
