"""From LLVM text to machine code: parse, verify, optimize with the new pass manager, emit."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from tvmagic.codegen.emit.interruptible import interruptible
from tvmagic.errors import BuildError, DefectError
from tvmagic.interrupts import deferring_interrupts
from tvmagic.target import Target, has_feature, layout_of, target_machine
from tvmagic.target.host import llvm_version
from tvmagic.target.llvm_module import parse_module

_Code = TypeVar("_Code", str, bytes)


@cache
def _set_options() -> None:
    """LLVM's own options, for the whole process.

    Its register allocator grows the regions that it splits along the edges of blocks, for each value again: with a
    budget of 10,000 edges a loop of 800 branches takes 15 s, with 300 it takes 0.2 s, and the code is as long.
    CodeGenPrepare visits a function of fewer than 10,000 blocks anew after each change of a block. With 500 it visits
    changed blocks only: 32 transpositions (2,308 blocks) take 4 s instead of 13 s, and the code is the same.
    """
    import llvmlite.binding as llvm

    llvm.set_option("tvmagic", "-grow-region-complexity-budget=300")
    llvm.set_option("tvmagic", "-cgpp-huge-func=500")


def optimized(text: str, target: Target, imports: tuple[str, ...] = ()) -> Any:
    """The LLVM module of `text` after LLVM's passes for the optimization level of `target`; see `_level`.

    `imports`: modules of users that are linked in: LLVM text, or the name of a file `.ll` or `.bc`.
    """
    _set_options()
    machine = target_machine(target)
    return interruptible(lambda: _optimized(text, target, machine, imports))


def _optimized(text: str, target: Target, machine: Any, imports: tuple[str, ...]) -> Any:
    """The optimized module, again without the vectorizer of straight code if LLVM does not accept its own result.

    That vectorizer of LLVM 22.1 may use values before it computes them, on which its code generator ends the process.
    """
    level = _level(text, target)
    module = _linked(text, imports)
    _run_passes(module, machine, level, straight=True)
    try:
        module.verify()
    except RuntimeError:
        module.close()
        module = _linked(text, imports)
        _run_passes(module, machine, level, straight=False)
        _verify(module, "LLVM made code that it refuses")
    return module


# Lines of LLVM text beyond which a level is not used.
_LONGEST = {3: 12_000, 2: 40_000}


def _level(text: str, target: Target) -> int:
    """The optimization level: as `target` says, else 3, or less for a long text.

    LLVM takes 30 s for 114,000 lines (16 unrolled copies of a sum with symbolic sizes) at level 3, and 6 s at level 1;
    for 20,000 lines of many conditions 10, 6 and 3 s at the levels 3, 2 and 1.
    """
    asked = target.attrs.get("opt-level")
    if asked is not None:
        return min(int(asked), 3)
    lines = text.count("\n")
    return next((level for level, most in _LONGEST.items() if lines <= most), 1)


def _verify(module: Any, what: str) -> None:
    try:
        module.verify()
    except RuntimeError as error:
        raise DefectError(f"{what}: {error}", code="codegen.llvm.invalid_module") from error


def _linked(text: str, imports: tuple[str, ...]) -> Any:
    """The module of `text` with what it imports, not yet optimized."""
    # a separate context: LLVM keeps what modules share as long as their context
    try:
        module = parse_module(text)
        module.verify()
    except RuntimeError as error:
        raise DefectError(f"LLVM refused the code made for it: {error}", code="codegen.llvm.code_refused") from error
    for source in imports:
        _link_in(module, source)
    return module


def _run_passes(module: Any, machine: Any, level: int, straight: bool) -> None:
    """Run LLVM's passes of a level; with `straight` statements without a loop are vectorized too."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(level)
    options.loop_vectorization = level >= 2
    options.slp_vectorization = level >= 2 and straight
    options.loop_interleaving = options.loop_unrolling = level >= 2
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    llvm.NewPassManager._dispose(passes)  # llvmlite 0.50's own `close` leaves the passes, some 70 kB, if they are
    passes.detach()


def _link_in(module: Any, source: str) -> None:
    """Add the functions of a user's module."""
    other: Any = None
    try:
        other = _parsed(source, module._context)
        other.triple, other.data_layout = module.triple, module.data_layout
        other.verify()
        module.link_in(other)
    except (RuntimeError, OSError) as error:
        raise BuildError(
            f"what `import_llvm` names is not LLVM text that can be linked in: {error}",
            code="codegen.llvm.import_not_linkable",
        ) from None
    finally:
        if other is not None:
            other.close()  # before `module`, which owns the context of both


def _parsed(source: str, context: Any) -> Any:
    """The module of LLVM text, or of a file with it or with bitcode."""
    import llvmlite.binding as llvm

    name = source.strip()
    if "\n" not in name and name.endswith(".bc"):
        return llvm.parse_bitcode(pathlib.Path(name).read_bytes(), context)
    is_file = "\n" not in name and name.endswith(".ll")
    return llvm.parse_assembly(pathlib.Path(name).read_text(encoding="utf-8") if is_file else source, context)


@deferring_interrupts
def object_of_text(text: str, target: Target) -> bytes:
    """The object file of LLVM text that names neither triple nor layout, for a target; no passes run on it."""
    import llvmlite.binding as llvm

    machine = target_machine(target)
    triple, layout = layout_of(target)
    module = llvm.parse_assembly(f'target datalayout = "{layout}"\ntarget triple = "{triple}"\n{text}')
    module.verify()
    return machine.emit_object(module)


def object_of(module: Any, target: Target) -> bytes:
    """The object file of an optimized module."""
    return _emitted(module, lambda machine, m: machine.emit_object(m), target, _SIGNS_IN_CODE)


def assembly_of(module: Any, target: Target) -> str:
    """The assembly of an optimized module."""
    try:
        return _emitted(module, lambda machine, m: machine.emit_assembly(m), target, _SIGNS_IN_TEXT)
    except RuntimeError as error:
        raise BuildError(
            f"LLVM cannot write this module's assembly: {error}", code="codegen.llvm.no_assembly"
        ) from error


# The instructions that take the signs of a vector to an integer register, of VEX: `vmovmskps`, `vmovmskpd`, `vpmovmskb`.
_SIGNS_IN_CODE = re.compile(rb"(?:\xc5|\xc4[\x00-\xff])[\x78\x79\x7c\x7d\xf8\xf9\xfc\xfd][\x50\xd7]", re.DOTALL)
_SHORT_VECTORS = "avx512vl"
_SIGNS_IN_TEXT = re.compile(r"\tvp?movmsk(?:ps|pd|b)\b")


def _emitted(module: Any, emit: Callable[[Any, Any], _Code], target: Target, signs: re.Pattern[_Code]) -> _Code:
    """What `emit` makes of a module for the machine of `target`, without AVX-512's short vectors if that may be wrong.

    Where LLVM 22 moves the signs of a vector to a mask register and from there to an integer register, it takes the signs
    at once. It drops the mask register even if a shift in place uses it (LLVM's pull request 198220), and takes
    another vector if this one is among the registers 16 to 31 (issue 191304). What has no such vectors has no such moves.
    """
    machine = target_machine(target)
    code = interruptible(lambda: emit(machine, module))
    if not _may_fold_signs(target) or not signs.search(code):
        return code
    plain = target_machine(target, without=_SHORT_VECTORS)
    return interruptible(lambda: emit(plain, _without_short_vectors(module)))


@deferring_interrupts
def _without_short_vectors(module: Any) -> Any:
    """The module, of which the functions that name their machine's features do not name the short vectors of AVX-512."""
    text = str(module)
    named = re.sub(r'("target-features"="[^"]*)"', rf'\1,-{_SHORT_VECTORS}"', text)
    if named == text:  # a processor, or nothing: then the features are those of the machine
        named = re.sub(r'("target-cpu"="[^"]*")', rf'\1 "target-features"="-{_SHORT_VECTORS}"', text)
    return module if named == text else parse_module(named)


def _may_fold_signs(target: Target) -> bool:
    """Whether LLVM's code generator is one that does so, for a machine that may have AVX-512."""
    if llvm_version()[0] < 22 or not target.family.folds_signs:
        return False
    return bool(target.mcpu or target.mtriple) or has_feature(target, _SHORT_VECTORS)
