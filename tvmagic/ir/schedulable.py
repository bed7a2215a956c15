"""Values that stand for a program: schedules of TE, TensorIR and CINN, and tilings of Ascend.

A package that is above `ir` derives its class from `Schedulable`. A lower package, or one that must not load it, asks
`isinstance(value, Schedulable)` instead of comparing the names of modules or attributes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from tvmagic.errors import TVMagicError
from tvmagic.ir.function import IRModule, PrimFunc
from tvmagic.ir.hooks import provided
from tvmagic.ir.program_form import is_cinn_form
from tvmagic.ir.stmt import Stmt

# Notations of programs, and the service that prints each.
NOTATIONS = {"tvmscript": "print", "classic": "classic text", "cinn": "cinn text"}


class Schedulable(ABC):
    """A value that stands for a program.

    `needs_args` says that a function is made of it only for arguments in a given order, as of a schedule of TE.
    """

    needs_args: ClassVar[bool] = False

    @abstractmethod
    def lower(self) -> IRModule | PrimFunc | Stmt:
        """Return the program as it is now. If `needs_args`, it is a statement on tensors."""

    @property
    def parameters(self) -> list[Any]:
        """Tensors, buffers and variables that a caller passes, in order. Those of the first function of a module."""
        program = self.lower()
        if isinstance(program, IRModule):
            program = next(iter(program.functions.values()), None)
        return [program.buffer_map.get(p, p) for p in program.params] if isinstance(program, PrimFunc) else []

    def text(self, notation: str | None = None) -> str:
        """Return the program as text.

        `notation`: `tvmscript`, `classic` or `cinn`. By default CINN's for a program in CINN's form, else TVMScript.
        Raises TVMagicError if there is no such notation, or if it cannot express the program.
        """
        program = self.lower()
        service = NOTATIONS.get(notation or notation_of(program))
        if service is None:
            raise TVMagicError(
                f"notation must be one of {', '.join(f'`{n}`' for n in NOTATIONS)}, got `{notation}`",
                code="text.unknown_notation",
            )
        return provided(service)(program)


def notation_of(value: object) -> str:
    """Return the notation in which a program or a schedule is shown: `cinn` for CINN's form, else `tvmscript`."""
    if isinstance(value, Schedulable):
        value = None if value.needs_args else value.lower()
    return "cinn" if is_cinn_form(value) else "tvmscript"
