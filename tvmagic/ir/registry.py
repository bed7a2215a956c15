"""What is known by name: functions for `T.call_packed` and `get_global_func`, attributes of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.errors import TVMagicError, WrongValueError, did_you_mean
from tvmagic.ir.derive import node
from tvmagic.ir.hooks import provided_if
from tvmagic.ir.node import Node

_functions: dict[str, Callable[..., Any]] = {}


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Make `f` known as `func_name`; a decorator where `f` is left out.

    `@register_func` alone takes the function's own name.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if func_name in _functions and not override:
            raise TVMagicError(
                f"the function `{func_name}` is registered already",
                hint="pass override=True",
                code="global_function.registered_twice",
            )
        _functions[func_name] = function
        return function

    return register(f) if f is not None else register


class _Callables(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return callable(instance)


class PackedFunc(metaclass=_Callables):
    """What is registered by a name and called from compiled code: here, any callable of Python."""


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The function known as `name`."""
    found = _functions.get(name)
    if found is None and name.startswith("tvm.contrib."):  # registered when one is first asked for
        register = provided_if("contrib functions")
        if register is not None:
            register(name)
        found = _functions.get(name)
    if found is None and not allow_missing:
        hint = did_you_mean(name, _functions) or "register it with `tvmagic.register_func`"
        raise WrongValueError(
            f"Cannot find global function {name}: none is registered by that name",
            hint=hint,
            code="global_function.unknown",
        )
    return found


def list_global_func_names() -> list[str]:
    """The names of all registered functions."""
    return sorted(_functions)


def remove_global_func(name: str) -> None:
    """Forget the function known as `name`."""
    _functions.pop(name, None)


@node
class EnvFunc(Node):
    """A registered function as a part of a program: saved by its name, looked up when it is called."""

    name: str

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The function registered as `name`; an error if there is none."""
        get_global_func(name)
        return EnvFunc(name)

    @property
    def func(self) -> Callable[..., Any]:
        """The registered function."""
        function = get_global_func(self.name)
        assert function is not None
        return function

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)


@register_func("tvm.default_trace_action")
def _print_values(*values: Any) -> None:
    """What `tir.trace` calls by default."""
    print(list(values))
