"""From LLVM text to machine code: parse, verify, optimize with the new pass manager, emit."""

from __future__ import annotations

import pathlib
from functools import cache
from typing import Any

from tvmagic.codegen.interruptible import interruptible
from tvmagic.codegen.target import Target, target_machine
from tvmagic.errors import BuildError, DefectError

__all__ = ["assembly_of", "object_of", "optimized"]


@cache
def _set_options() -> None:
    """LLVM's own options, for the whole process.

    LLVM 22.1 groups strided accesses whose index wraps around (`i % 4 * 4 + r`) as if it did not, and
    so vectorizes loops wrongly. Without such groups it gathers.

    Its register allocator grows the regions that it splits along the edges of blocks, for each value again: with a
    budget of 10,000 edges a loop of 800 branches takes 15 s, with 300 it takes 0.2 s, and the code is as long.
    """
    import llvmlite.binding as llvm

    llvm.set_option("tvmagic", "-enable-interleaved-mem-accesses=false")
    llvm.set_option("tvmagic", "-grow-region-complexity-budget=300")


def optimized(text: str, target: Target, imports: tuple[str, ...] = ()) -> Any:
    """The LLVM module of `text` after LLVM's passes for the optimization level of `target`, by default 3.

    `imports`: modules of users that are linked in: LLVM text, or the name of a file `.ll` or `.bc`.
    """
    _set_options()
    machine = target_machine(target)
    return interruptible(lambda: _optimized(text, target, machine, imports))


def _optimized(text: str, target: Target, machine: Any, imports: tuple[str, ...]) -> Any:
    import llvmlite.binding as llvm

    # a context of its own: what LLVM shares between modules of one context it keeps as long as the context
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise DefectError(f"LLVM refused the code made for it: {error}") from error
    for source in imports:
        _link_in(module, source, context)
    level = min(int(target.attrs.get("opt-level", 3)), 3)
    options = llvm.create_pipeline_tuning_options(level)
    options.loop_vectorization = options.slp_vectorization = level >= 2
    options.loop_interleaving = options.loop_unrolling = level >= 2
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    llvm.NewPassManager._dispose(passes)  # llvmlite 0.50's own `close` leaves the passes, some 70 kB, if they are
    passes.detach()
    return module


def _link_in(module: Any, source: str, context: Any) -> None:
    """Add the functions of a user's module."""
    other: Any = None
    try:
        other = _parsed(source, context)
        other.triple, other.data_layout = module.triple, module.data_layout
        other.verify()
        module.link_in(other)
        return
    except (RuntimeError, OSError) as error:
        reason = str(error)
    # closed here: what an error's traceback holds goes away in any order, and LLVM needs the context last
    for made in (other, module):
        if made is not None:
            made.close()
    raise BuildError(f"what `import_llvm` names is not LLVM text that can be linked in: {reason}")


def _parsed(source: str, context: Any) -> Any:
    """The module of LLVM text, or of a file with it or with bitcode."""
    import llvmlite.binding as llvm

    name = source.strip()
    if "\n" not in name and name.endswith(".bc"):
        return llvm.parse_bitcode(pathlib.Path(name).read_bytes(), context)
    is_file = "\n" not in name and name.endswith(".ll")
    return llvm.parse_assembly(pathlib.Path(name).read_text(encoding="utf-8") if is_file else source, context)


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
