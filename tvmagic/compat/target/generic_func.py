"""Functions with one implementation for each target: what is called depends on the target of the `with` around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import BuildError, WrongValueError
from tvmagic.target import Target


class GenericFunc:
    """A function that is chosen by the keys of `Target.current()`.

    The first key of the target for which there is an implementation counts; without a target or such a key, the
    default one is called.
    """

    def __init__(self, name: str = "", default: Callable[..., Any] | None = None) -> None:
        self.name = name
        self._default = default
        self._of_key: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the implementation for the target of the `with` around."""
        return self.implementation(Target.current())(*args, **keywords)

    def implementation(self, target: Target | None) -> Callable[..., Any]:
        """The one for `target`. Raises `BuildError` if there is neither one for its keys nor a default."""
        keys = () if target is None else target.keys
        found = next((self._of_key[key] for key in keys if key in self._of_key), self._default)
        if found is None:
            raise BuildError(
                f"`{self.name}` has no implementation for this target",
                hint=f"there is one for {', '.join(sorted(self._of_key)) or 'no key'}; set_default gives one for all others",
                code="generic_func.no_implementation",
            )
        return found

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """Make `func` the implementation for targets without one. Raises `WrongValueError` if there is a default."""
        if self._default is not None and not allow_override:
            raise WrongValueError(
                f"`{self.name}` has a default implementation",
                hint="allow_override=True replaces it",
                code="generic_func.default_exists",
            )
        self._default = func

    def register(self, func: Callable[..., Any], key_list: str | Sequence[str], allow_override: bool = False) -> None:
        """Make `func` the implementation for targets with one of the keys.

        Raises `WrongValueError` if one of them has an implementation.
        """
        keys = [key_list] if isinstance(key_list, str) else list(key_list)
        taken = [key for key in keys if key in self._of_key]
        if taken and not allow_override:
            raise WrongValueError(
                f"`{self.name}` has an implementation for {', '.join(taken)}",
                hint="override=True replaces it",
                code="generic_func.implementation_exists",
            )
        self._of_key.update(dict.fromkeys(keys, func))


_NATIVE: dict[str, GenericFunc] = {}


def get_native_generic_func(name: str) -> GenericFunc:
    """The function of a name, made at the first call."""
    return _NATIVE.setdefault(name, GenericFunc(name))


class _Declared:
    """What the decorators give: a call goes to `function`, `register` and `set_default` add to it."""

    def __init__(self, function: GenericFunc, declared: Callable[..., Any]) -> None:
        self._function = function
        self.fdefault = declared
        self.dispatch_dict = function._of_key  # pyright: ignore[reportPrivateUsage]
        self.__name__ = getattr(declared, "__name__", function.name)
        self.__doc__ = declared.__doc__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._function(*args, **keywords)

    def register(self, key: str | Sequence[str], func: Callable[..., Any] | None = None, override: bool = False) -> Any:
        """A decorator: the function is the one for targets with the key, or one of the keys."""

        def add(added: Callable[..., Any]) -> Callable[..., Any]:
            self._function.register(added, key, override)
            return added

        return add if func is None else add(func)

    def set_default(self, func: Callable[..., Any], override: bool = False) -> Any:
        """Call `func` for targets without an implementation."""
        self._function.set_default(func, override)
        return func

    def get_packed_func(self) -> GenericFunc:
        """The function behind."""
        return self._function


def generic_func(fdefault: Callable[..., Any]) -> Any:
    """A decorator: `fdefault` is called for targets that `register` has given no function for."""
    return _Declared(GenericFunc(getattr(fdefault, "__name__", "generic"), fdefault), fdefault)


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: the function becomes the default of the function named `func_name`."""

    def declare(fdefault: Callable[..., Any]) -> Any:
        function = get_native_generic_func(func_name)
        function.set_default(fdefault, allow_override=True)
        return _Declared(function, fdefault)

    return declare
