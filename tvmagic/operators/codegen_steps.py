"""The steps after the program's passes: LLVM's passes, LLVM IR, assembly."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule
from tvmagic.passes import Note, Record, Step, note, run_step


def add_code_steps(record: Record, module: IRModule, target: Any, llvm: str) -> None:
    """What threads need, LLVM's passes if they are asked for, then LLVM IR and assembly, as steps of the open record.

    Without LLVM there is only OpenCL C.
    """
    from tvmagic import codegen

    chosen = codegen.resolved(target)
    if not codegen.has_llvm() and not chosen.is_opencl:
        return
    mod = codegen.last_program(module, target)
    if chosen.is_opencl:
        from tvmagic.codegen.gpu.opencl import opencl_text

        run_step("codegen.opencl", lambda: opencl_text(mod), before=mod, kind="codegen")
        return
    texts = codegen.code_texts(mod, target)
    if llvm != "none":
        _add_llvm_steps(record, mod, texts, llvm == "all")
    ir = run_step("codegen.llvm", texts.llvm, before=mod, kind="codegen")
    made = (lambda: _with_needs(texts.assembly(), chosen)) if chosen.is_nvptx else texts.assembly
    run_step("codegen.assembly", made, before=ir, kind="codegen")


def _with_needs(made: Any, target: Any) -> Any:
    """The assembly of kernels, with a note on what each needs if there is a ptxas that tells it."""
    from tvmagic.runners import MissingTool
    from tvmagic.runners.ptx import needs_of

    try:
        for needs in needs_of("\n".join(made.assembly).replace(", debug", ""), target):
            note("ptxas", str(needs))
    except MissingTool:
        pass
    except TVMagicError as error:
        note("ptxas", error.message)
    return made


def _add_llvm_steps(record: Record, mod: IRModule, texts: Any, each: bool) -> None:
    """The IR that LLVM gets, and what its passes make of it."""
    from tvmagic.codegen.llvm.passes import grouped

    text = run_step("codegen.emit", texts.emitted, before=mod, kind="codegen")
    passes = texts.passes()
    if passes is None:
        failed = "LLVM's passes are not shown: the process that runs them one by one failed"
        record.steps[-1].notes.append(Note("llvm", failed))
        return
    for one in passes if each else grouped(passes):
        single = len(one.names) == 1
        where = ", ".join(one.places if single else one.names)
        options = {"on" if single else "passes": where} if where else {}
        notes = [Note("llvm.remark", said, {"line": line}) for line, said in one.remarks]
        after = text if one.after is None else one.after
        name = one.names[0] if single else "others"
        record.steps.append(
            Step(f"llvm.{name}", "codegen", text, after, changed=one.after is not None, notes=notes, options=options)
        )
        text = after
