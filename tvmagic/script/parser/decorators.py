"""`@T.prim_func`, `@T.macro` and `@I.ir_module` on live Python."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from tvmagic.errors import DiagnosticError, TVMagicError, WrongValueError
from tvmagic.ir.function import name_as_python
from tvmagic.script.parser.entry import read_function, read_macro, read_module
from tvmagic.script.parser.live_source import LiveSource, is_inside_module_class
from tvmagic.script.parser.source import reported


def prim_func(func: Any = None, private: bool = False, check_well_formed: bool = True) -> Any:
    """Read a Python function as a function of TensorIR.

    `private` leaves out the attribute `global_symbol`. Inside a class under `@I.ir_module` the
    function stays as it is, to be read with the module.
    """
    caller = sys._getframe(1)

    def read(function: Any) -> Any:
        if not inspect.isfunction(function):
            raise TVMagicError(
                f"`T.prim_func` stands over a function, not over a `{type(function).__name__}`",
                code="script.decorator_on_wrong_statement",
            )
        if is_inside_module_class(caller):
            return function
        try:
            func = read_function(LiveSource.of(function, caller), private, check_well_formed)
            name_as_python(func, function.__name__)
            return func
        except DiagnosticError as error:
            raise reported(error) from error.__cause__

    return read if func is None else read(func)


def macro(*args: Any, hygienic: bool = True) -> Any:
    """Read a Python function as a macro: calling it in a script puts its body in.

    A hygienic macro sees the names at its definition, one that is not those at its call.
    """
    caller = sys._getframe(1)

    def read(function: Any) -> Any:
        if not inspect.isfunction(function):
            raise WrongValueError(
                f"`T.macro` stands over a function, not over a `{type(function).__name__}`",
                hint="write `@T.macro` or `@T.macro(hygienic=False)`",
                code="script.decorator_on_wrong_statement",
            )
        return read_macro(LiveSource.of(function, caller), hygienic)

    return read(args[0]) if args else read


def ir_module(mod: Any = None, check_well_formed: bool = True) -> Any:
    """Read a Python class as a module: its functions under `@T.prim_func`, and `I.module_attrs`."""
    caller = sys._getframe(1)

    def read(cls: Any) -> Any:
        if not isinstance(cls, type):
            raise TVMagicError(
                f"`I.ir_module` stands over a class, not over a `{type(cls).__name__}`",
                code="script.decorator_on_wrong_statement",
            )
        try:
            module = read_module(LiveSource.of(cls, caller), check_well_formed)
            name_as_python(module, cls.__name__)
            return module
        except DiagnosticError as error:
            raise reported(error) from error.__cause__

    return read if mod is None else read(mod)


prim_func.script_decorator = "prim_func"  # type: ignore[attr-defined]
macro.script_decorator = "macro"  # type: ignore[attr-defined]
ir_module.script_decorator = "ir_module"  # type: ignore[attr-defined]
