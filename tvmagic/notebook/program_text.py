"""The text of whatever a step shows: a program, a schedule, a text, assembly."""

from __future__ import annotations

from typing import Any

from tvmagic import te
from tvmagic.ir import Node
from tvmagic.ir.schedulable import Schedulable
from tvmagic.notebook.te_text import schedule_program
from tvmagic.notebook.text import Program, language_of, node_program


def program_of(value: Any, notation: str | None = None, whole: bool = False) -> Program:
    """The text of whatever a step holds: an IR node, a schedule, a built module, or a text.

    `notation`: how programs are written, one of `NOTATIONS`; by default in TVMScript, in CINN's form in CINN's. `whole`:
    in TVMScript if `notation` would leave anything out.
    """
    if isinstance(value, Program):
        return value
    if isinstance(value, str):
        if (lines := getattr(value, "line_of", None)) is not None:
            language = getattr(value, "language", "llvm")
            numbers = [(n,) if n else () for n in getattr(value, "origins", ())]
            source = getattr(value, "source")
            return Program(value.splitlines(), language, numbers=numbers, made_of=source, made_of_lines=lines)
        return Program(value.rstrip("\n").split("\n"), language_of(value))
    if isinstance(value, Node):
        return node_program(value, notation, whole)
    if hasattr(value, "line_of") and hasattr(value, "assembly"):
        loads = [(n,) if n else () for n in value.origins or [0] * len(value.assembly)]
        return Program(
            list(value.assembly), "asm", numbers=loads, made_of=value.source, made_of_lines=tuple(value.line_of)
        )
    if isinstance(value, te.schedule.Schedule):
        return schedule_program(value, notation)
    if isinstance(value, Schedulable):
        return node_program(value.lower(), notation, whole)
    return Program(str(value).rstrip("\n").split("\n"), "text")
