"""The frame of a module."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import GlobalVar, IRModule, PrimFunc
from tvmagic.script.ir_builder.base import IRBuilder, IRBuilderFrame


class IRModuleFrame(IRBuilderFrame):
    """A module under construction: its functions by name, declared before they are defined."""

    def __init__(self) -> None:
        super().__init__()
        self.global_vars: dict[str, GlobalVar] = {}
        self.functions: dict[str, PrimFunc] = {}
        self.attrs: dict[str, Any] | None = None
        self.global_infos: dict[str, Any] | None = None

    def declare(self, name: str) -> GlobalVar:
        """The name of a function that is defined later."""
        if name in self.global_vars:
            raise TVMagicError(f"the module has a function `{name}` already", code="script.module.repeated_function")
        var = self.global_vars[name] = GlobalVar(name)
        return var

    def define(self, name: str, func: PrimFunc) -> None:
        """The function of a name; declares the name where it is new."""
        if name in self.functions:
            raise TVMagicError(f"the module has a function `{name}` already", code="script.module.repeated_function")
        if name not in self.global_vars:
            self.declare(name)
        self.functions[name] = func

    def finish(self, builder: IRBuilder) -> None:
        missing = [name for name in self.global_vars if name not in self.functions]
        if missing:
            raise TVMagicError(
                f"the function `{missing[0]}` is declared but not defined", code="script.module.function_not_defined"
            )
        functions = {self.global_vars[name]: func for name, func in self.functions.items()}
        builder.add(IRModule(functions, self.attrs, self.global_infos))
