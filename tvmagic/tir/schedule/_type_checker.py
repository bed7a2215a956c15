"""Functions whose arguments are checked against their annotations at each call."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar, Union, cast

from tvmagic.errors import WrongTypeError

__all__ = ["type_checked"]

Function = TypeVar("Function", bound=Callable[..., Any])

_SEQUENCES = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def type_checked(func: Function) -> Function:
    """A decorator: a call with an argument that its annotation does not allow raises `WrongTypeError`.

    Annotations are classes, None, `Any`, unions, type variables, callables, and lists, dictionaries and tuples of
    those; what another annotation says is not checked.
    """
    signature = inspect.signature(func)
    hints = _hints(func)

    @functools.wraps(func)
    def checked(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if name in hints:
                _check(func, signature.parameters[name], value, hints[name])
        return func(*args, **keywords)

    return checked  # type: ignore[return-value]


def _hints(func: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the parameters; as they are written if a name in them is not known."""
    try:
        return typing.get_type_hints(func)
    except NameError:
        return {name: hint for name, hint in func.__annotations__.items() if not isinstance(hint, str)}


def _check(func: Callable[..., Any], parameter: inspect.Parameter, value: Any, hint: Any) -> None:
    """Raise if a value does not have the type of its parameter; of `*args` and `**keywords`, each one counts."""
    values = [value]
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        values = list(value)
    elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
        values = list(value.values())
    for one in values:
        if not _has_type(one, hint):
            raise WrongTypeError(
                f"In `{func.__qualname__}`, type of `{parameter.name}` is {_name(hint)}, not {type(one).__name__}",
                hint=f"the value is {one!r}"[:200],
            )


def _has_type(value: Any, hint: Any) -> bool:
    """Whether an annotation allows a value."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return _is_instance(value, hint)
    if origin in (Union, types.UnionType):
        return any(_has_type(value, option) for option in arguments)
    if origin in _SEQUENCES:
        return _is_list(value) and all(_has_type(item, arguments[0]) for item in value)
    if origin in _MAPPINGS:
        return isinstance(value, collections.abc.Mapping) and _is_mapping_of(
            cast("collections.abc.Mapping[Any, Any]", value), arguments
        )
    if origin is tuple:
        return _is_tuple_of(value, arguments)
    if origin is cast(Any, collections.abc.Callable):
        return callable(value)
    return not isinstance(origin, type) or isinstance(value, origin)


def _is_instance(value: Any, hint: Any) -> bool:
    """Whether an annotation without arguments allows a value."""
    if hint is Any or isinstance(hint, str):
        return True
    if hint is None or hint is type(None):
        return value is None
    if isinstance(hint, TypeVar):
        return not hint.__constraints__ or any(_has_type(value, option) for option in hint.__constraints__)
    return not isinstance(hint, type) or isinstance(value, hint)


def _is_list(value: Any) -> bool:
    return isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes))


def _is_mapping_of(value: collections.abc.Mapping[Any, Any], arguments: tuple[Any, ...]) -> bool:
    """Whether all keys and values of a mapping have the two types."""
    return all(_has_type(k, arguments[0]) and _has_type(v, arguments[1]) for k, v in value.items())


def _is_tuple_of(given: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a value is a tuple of such types; `tuple[int, ...]` is one of any length."""
    if not isinstance(given, tuple):
        return False
    value = cast("tuple[Any, ...]", given)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return all(_has_type(item, arguments[0]) for item in value)
    return len(value) == len(arguments) and all(map(_has_type, value, arguments))


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")
