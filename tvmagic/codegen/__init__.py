"""Machine code for lowered functions, by LLVM.

module = codegen.compile_module(mod)          # runs on this machine
text = codegen.assembly(mod, "llvm -mtriple=aarch64-linux-gnu")
"""

from __future__ import annotations

import functools
from typing import Any

from tvmagic.errors import BuildError
from tvmagic.ir import IRModule, Op, PrimFunc
from tvmagic.ir.deep_recursion import deep
from tvmagic.passes import Sequential, run_step
from tvmagic.target import Target, default_target, has_llvm, host_target, require_llvm, resolved

__all__ = [
    "Target",
    "assembly",
    "assembly_lines",
    "code_texts",
    "compile_module",
    "default_target",
    "has_llvm",
    "host_target",
    "last_program",
    "llvm_ir",
    "require_llvm",
    "resolved",
    "with_threads",
]


def _module_of(mod: Any) -> IRModule:
    return IRModule.from_expr(mod) if isinstance(mod, PrimFunc) else mod


@deep
def last_program(mod: Any, target: Any = None, check_bounds: bool = False) -> IRModule:
    """Return the program that machine code is made of: the lowered module after the passes for `target`.

    Users' rules for operators are applied. Launches of threads get barriers and, for a CPU, loops instead of threads that wait
    for each other. Indices that exceed int32 are widened. Then the late passes run (`tvmagic.codegen.late`). Functions
    here that compile a lowered module do this themselves; `code_texts` takes the result.
    """
    return _late(_prepared(mod, target), resolved(target), check_bounds)


with_threads = last_program  # its name in 0.1.0


@deep
def _prepared(mod: Any, target: Any) -> IRModule:
    """Return the lowered module with users' rules applied, threads lowered and indices widened."""
    from tvmagic.codegen.gpu.threads import prepare_threads
    from tvmagic.codegen.late.wide_indices import widen_indices
    from tvmagic.tir.transform.expressions.lower_intrin import lower_by_rules

    target = resolved(target)
    mod, kind = _module_of(mod), target.kind.name
    if Op.with_rules:
        mod = run_step(
            "tir.LowerIntrin", functools.partial(lower_by_rules, mod, kind), before=mod, options={"rules": kind}
        )
    return widen_indices(prepare_threads(mod, target), target)


def _late(mod: IRModule, target: Target, check_bounds: bool) -> IRModule:
    from tvmagic.codegen.late.order import late_passes

    return Sequential(late_passes(target, check_bounds), name="late")(mod)


@deep
def llvm_ir(mod: Any, target: Any = None, optimize: bool = True, check_bounds: bool = False) -> str:
    """LLVM IR of the lowered module or function `mod` for any target that LLVM here knows.

    `optimize`: after LLVM's passes, else as it is handed to them.
    """
    from tvmagic.codegen.emit.module import emit_module
    from tvmagic.codegen.llvm.optimize import optimized

    target = resolved(target)
    if target.is_opencl:
        raise BuildError(
            "OpenCL C is made without LLVM",
            hint="its text is `codegen.assembly(mod, 'opencl')`",
            code="codegen.no_llvm_for_opencl",
        )
    made = emit_module(last_program(mod, target, check_bounds), target, check_bounds).text
    return str(optimized(made.text(), target, tuple(made.imports))) if optimize else made.text()


@deep
def assembly(mod: Any, target: Any = None, check_bounds: bool = False) -> str:
    """Assembly of the lowered module or function `mod` for any target that LLVM here knows; OpenCL C for `opencl`."""
    from tvmagic.codegen.emit.module import emit_module
    from tvmagic.codegen.llvm.optimize import assembly_of, optimized

    target = resolved(target)
    if target.is_opencl:
        from tvmagic.codegen.gpu.opencl import opencl_text

        return opencl_text(last_program(mod, target))
    made = emit_module(last_program(mod, target, check_bounds), target, check_bounds).text
    return assembly_of(optimized(made.text(), target, tuple(made.imports)), target)


def assembly_lines(mod: Any, target: Any = None) -> Any:
    """The lowered text of `mod` and its assembly, with the line of the text that each instruction comes from
    (`tvmagic.codegen.emit.debug.AssemblyLines`)."""
    return code_texts(last_program(mod, target), target).assembly()


@deep
def code_texts(mod: Any, target: Any = None) -> Any:
    """What makes the LLVM IR, its passes and the assembly of `mod`, which comes from `last_program`, with the line of the
    lowered text that each of their lines comes from (`tvmagic.codegen.llvm.listings.CodeTexts`)."""
    from tvmagic.codegen.llvm.listings import CodeTexts

    return CodeTexts(_module_of(mod), resolved(target))


@deep
def compile_module(mod: Any, target: Any = None, check_bounds: bool = False) -> Any:
    """The lowered module or function `mod`, compiled for this machine: a `tvmagic.runtime.Module`.

    With `check_bounds`, an access outside a buffer or a division by zero stops the function with an
    error. Raises BuildError where `target` is not this machine.
    """
    from tvmagic.codegen.llvm.build import build_host_module
    from tvmagic.tir.transform.expressions.widen_index import widened as widen

    target = resolved(target)
    if target.kind.name == "c":
        raise BuildError(
            "cannot write C: there is no C printer",
            hint="build for `llvm`: `get_source('asm')` is the assembly, `get_source('ll')` LLVM's IR",
            code="codegen.no_c_printer",
        )
    prepared = _prepared(mod, target)
    last = _late(prepared, target, check_bounds)
    if target.has_kernels:
        from tvmagic.codegen.gpu.opencl import DeviceModule

        made = lambda: DeviceModule(prepared, target, last)  # noqa: E731
        return run_step("codegen.build", made, before=last, after=lambda built: built.get_source(), kind="codegen")

    def widened() -> IRModule:
        return _late(
            run_step("tir.WidenIndexDataType", lambda: deep(widen)(prepared), before=prepared), target, check_bounds
        )

    return build_host_module(last, target, check_bounds, widened)
