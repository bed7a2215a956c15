"""Fixtures of pytest under TVM's names: `parameter`, `parameters`, `fixture`."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvmagic.errors import WrongValueError

__all__ = ["fixture", "is_fixture", "parameter", "parameters"]

_groups = itertools.count()


def is_fixture(value: Any) -> bool:
    """Whether pytest takes a value for a fixture."""
    return hasattr(value, "_pytestfixturefunction") or type(value).__name__ == "FixtureFunctionDefinition"


def parameter(*values: Any, ids: Sequence[str] | None = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """A fixture that has each of `values` in turn; a test that takes several such runs for all combinations.

    It may be assigned in a module or in the body of a class. ids: how pytest names the values; by_dict: the values by
    their names.
    """
    import pytest

    if by_dict is not None:
        if values or ids is not None:
            raise WrongValueError(
                "`by_dict` gives the values and their names",
                hint="leave out `values` and `ids`",
                code="testing.wrong_parameters",
            )
        ids, values = list(by_dict), tuple(by_dict.values())

    def value_of_parameter(*_instance: Any, request: Any) -> Any:
        return request.param

    return pytest.fixture(params=values, ids=ids)(value_of_parameter)


def parameters(*value_sets: Sequence[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """As many fixtures as each of `value_sets` has entries; a test takes the entries of one set at a time.

    `a, b = parameters((1, 2), (3, 4))` in a module or in the body of a class: the pairs are (1, 2) and (3, 4).
    """
    import pytest

    sizes = {len(values) for values in value_sets}
    if len(sizes) != 1:
        raise WrongValueError("the sets of parameters have different lengths", code="testing.lengths_differ")
    (size,) = sizes
    group = f"_parameters_{next(_groups)}"

    def set_of_parameters(*_instance: Any, request: Any) -> Any:
        return value_sets[request.param]

    # the fixtures depend on one that is the set; pytest finds it by its name beside them
    names = [str(i) for i in range(len(value_sets))] if ids is None else ids
    sys._getframe(1).f_locals[group] = pytest.fixture(params=range(len(value_sets)), ids=names)(set_of_parameters)
    return [pytest.fixture(_entry(group, i)) for i in range(size)]


def _entry(group: str, index: int) -> Callable[..., Any]:
    """The fixture function of entry `index` of the set that the fixture `group` is."""

    def entry(*_instance: Any, **values: Any) -> Any:
        return values[group][index]

    kinds = inspect.Parameter
    entry.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [kinds("_instance", kinds.VAR_POSITIONAL), kinds(group, kinds.KEYWORD_ONLY)]
    )
    return entry


def fixture(func: Callable[..., Any] | None = None, *, cache_return_value: bool = False) -> Any:
    """`pytest.fixture`; with `cache_return_value` it is called once for each choice of its arguments.

    Each test gets a deep copy of the cached value, so that no test changes it for another.
    """
    import pytest

    def decorate(function: Callable[..., Any]) -> Any:
        return pytest.fixture(_cached(function) if cache_return_value else function)

    return decorate if func is None else decorate(func)


def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[Any, ...], Any] = {}
    takes_instance = next(iter(inspect.signature(function).parameters), "") == "self"

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        values = args[1:] if takes_instance else args
        key = (*map(_key, values), *((name, _key(value)) for name, value in sorted(kwargs.items())))
        if key not in known:
            known[key] = function(*args, **kwargs)
        return copy.deepcopy(known[key])

    return call


def _key(value: Any) -> Any:
    """A value as a part of a key: itself, or its text if it cannot be one."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
