"""The texts that machine code is made through, each with the line of the lowered program that its lines come from."""

from __future__ import annotations

from typing import Any

from tvmagic.codegen.emit.debug import AssemblyLines, Lines, LLVMText, lines_of_assembly, lines_of_llvm
from tvmagic.codegen.emit.module import emit_module
from tvmagic.codegen.llvm.marks import (
    is_complete,
    placed_by_labels,
    placed_by_locations,
    placed_by_marks,
    with_labels,
    with_locations,
    with_marks,
)
from tvmagic.codegen.llvm.optimize import assembly_of, optimized
from tvmagic.codegen.llvm.optimizer_process import compiled_apart, optimized_apart
from tvmagic.codegen.llvm.passes import OPTIONS, LLVMPass, read_passes
from tvmagic.codegen.text.writer import ModuleText
from tvmagic.ir import IRModule
from tvmagic.ir.deep_recursion import deep
from tvmagic.lazy import cached_property
from tvmagic.target import Target, layout_of
from tvmagic.target.llvm_module import parse_module


class CodeTexts:
    """The LLVM IR and the assembly of a module that comes from `codegen.last_program`; each is made when it is first asked for."""

    def __init__(self, mod: IRModule, target: Target) -> None:
        self.mod, self.target = mod, target
        self.lines = Lines(mod)

    @cached_property
    @deep
    def _emitted(self) -> ModuleText:
        return emit_module(self.mod, self.target, lines=self.lines, debug=True).text

    def emitted(self) -> LLVMText:
        """LLVM IR as it is handed to LLVM."""
        return lines_of_llvm(self.lines.text, self._emitted.text(), self.lines.origins)

    def passes(self) -> list[LLVMPass] | None:
        """LLVM's passes that changed something, or that remarked why they did not; None if their process fails."""
        made = self._emitted
        done = optimized_apart(made.text(), self.target, OPTIONS, tuple(made.imports))
        if done is None:
            return None
        found = read_passes(self.lines.text, done[1], self.lines.origins)
        last = next((one for one in reversed(found) if one.after is not None), None)
        if last is not None and last.after == self.llvm():
            last.after = self.llvm()
        return found

    def remarks(self, options: tuple[str, ...]) -> tuple[AssemblyLines, str] | None:
        """The assembly, and what LLVM's passes say with LLVM's `options`; None if their process fails."""
        made = self._emitted
        done = optimized_apart(made.text(), self.target, options, tuple(made.imports))
        return None if done is None else (lines_of_assembly(self.lines.text, done[0]), done[1])

    @cached_property
    def _optimized(self) -> Any:
        return optimized(self._emitted.text(), self.target, tuple(self._emitted.imports))

    @cached_property
    def _marked(self) -> str:
        """LLVM IR after LLVM's passes, with marks on its instructions."""
        text = with_marks(self._emitted.text())
        return str(optimized(text, self.target, tuple(self._emitted.imports)))

    def llvm(self) -> LLVMText:
        """LLVM IR after LLVM's passes."""
        return self._llvm

    @cached_property
    def _llvm(self) -> LLVMText:
        text = lines_of_llvm(self.lines.text, str(self._optimized), self.lines.origins)
        return text if is_complete(text) else placed_by_marks(text, self._marked, self.lines.origins)

    def assembly(self) -> AssemblyLines:
        """The machine's assembly."""
        code = assembly_of(self._optimized, self.target)
        text = lines_of_assembly(self.lines.text, code, self.lines.origins)
        if is_complete(text):
            return text
        located = assembly_of(parse_module(with_locations(self._marked)), self.target)
        text = placed_by_locations(text, lines_of_assembly(self.lines.text, located, self.lines.origins))
        if is_complete(text) or "linux" not in layout_of(self.target)[0]:
            return text
        labelled = compiled_apart(with_labels(self._marked), self.target)
        return text if labelled is None else placed_by_labels(text, labelled, self.lines.origins)
