"""Forms of programs: TensorIR's, and the one that CINN's schedules work on.

Both are the same IR. A function attribute marks CINN's form, so that the driver, operators and views can query it
without loading `tvmagic.cinn`.
"""

from __future__ import annotations

from tvmagic.ir.function import IRModule, PrimFunc

FORM = "cinn.form"  # attribute of a function in CINN's form


def is_cinn_form(program: object) -> bool:
    """Return whether a function is in CINN's form, or every function of a module that has any."""
    if isinstance(program, IRModule):
        return bool(program.functions) and all(is_cinn_form(f) for f in program.functions.values())
    return isinstance(program, PrimFunc) and bool(program.attrs) and FORM in program.attrs
