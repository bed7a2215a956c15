"""Macros: a piece of script under a name, put in where it is called."""

from __future__ import annotations

import ast
import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.script.parser.source import Source

# `active.parser` reads a script on this thread: Python code that the script calls may call macros, which are put in there.
active = threading.local()


class ScriptMacro:
    """A function under `@T.macro`.

    A hygienic macro sees the names that were there where it was defined; one that is not sees
    those at the place of the call. `outer` are the mappings that hold the former. A macro in a class is a method:
    `bound` is the object that it is called on, its first argument.
    """

    bound: tuple[Any, ...] = ()

    def __init__(
        self, name: str, node: ast.FunctionDef, source: Source, outer: Sequence[Mapping[str, Any]], hygienic: bool
    ) -> None:
        self.__name__ = name
        self.node = node
        self.source = source
        self.outer = tuple(outer)
        self.hygienic = hygienic

    def __get__(self, instance: Any, owner: type | None = None) -> ScriptMacro:
        if instance is None:
            return self
        method = copy.copy(self)
        method.bound = (instance,)
        return method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        parser = getattr(active, "parser", None)
        if parser is None:
            raise TVMagicError(
                f"the macro `{self.__name__}` is called outside a script", code="script.macro.outside_script"
            )
        return parser.expand(self, list(args), kwargs, self.node)

    def __repr__(self) -> str:
        return f"T.macro({self.__name__})"


def bind_arguments(
    name: str, parameters: ast.arguments, args: list[Any], kwargs: dict[str, Any], default: Any
) -> dict[str, Any]:
    """The values of the parameters of a macro; `default(node)` gives the value of a default."""
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    keyword_only = [a.arg for a in parameters.kwonlyargs]
    defaults = dict(zip(reversed(positional), reversed(parameters.defaults)))
    defaults.update({k: d for k, d in zip(keyword_only, parameters.kw_defaults) if d is not None})
    bound: dict[str, Any] = dict(zip(positional, args))
    if len(args) > len(positional) and parameters.vararg is None:
        raise TVMagicError(
            f"the macro `{name}` takes {len(positional)} arguments, not {len(args)}",
            code="script.macro.wrong_argument_count",
        )
    if parameters.vararg is not None:
        bound[parameters.vararg.arg] = tuple(args[len(positional) :])
    rest: dict[str, Any] = {}
    for key, value in kwargs.items():
        if key in bound:
            raise TVMagicError(
                f"the macro `{name}` gets the argument `{key}` twice", code="script.macro.repeated_argument"
            )
        if key in positional or key in keyword_only:
            bound[key] = value
        elif parameters.kwarg is not None:
            rest[key] = value
        else:
            raise TVMagicError(f"the macro `{name}` has no parameter `{key}`", code="script.macro.unknown_argument")
    if parameters.kwarg is not None:
        bound[parameters.kwarg.arg] = rest
    for key in (*positional, *keyword_only):
        if key not in bound:
            if key not in defaults:
                raise TVMagicError(
                    f"the call of the macro `{name}` lacks the argument `{key}`", code="script.macro.missing_argument"
                )
            bound[key] = default(defaults[key])
    return bound
