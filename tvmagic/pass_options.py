"""The options of a pass, given by `PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.errors import WrongOptionError, did_you_mean


class PassOptions(dict[str, Any]):
    """The options that were given for one pass; as attributes all of them, with the defaults of the others."""

    def __init__(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._defaults = dict(defaults)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._defaults:
            raise AttributeError(f"there is no option `{name}`")
        return self.get(name, self._defaults[name])


def options_of(key: str, given: Any, defaults: Mapping[str, Any]) -> PassOptions:
    """The options `given` of the pass with the key `key`, which has those of `defaults` and no others.

    Raises `WrongOptionError` for one that it does not have, and for what is not a mapping of names to values.
    """
    known = ", ".join(f"`{name}`" for name in defaults)
    if not isinstance(given, Mapping):
        raise WrongOptionError(
            f"the options of `{key}` are a dict, not `{given!r}`",
            hint=f"its options are {known}",
            code="pass.options_not_a_dict",
        )
    for name in given:
        if name not in defaults:
            hint = did_you_mean(str(name), defaults) or f"its options are {known}"
            raise WrongOptionError(f"`{key}` has no option `{name}`", hint=hint, code="pass.unknown_option")
    return PassOptions(given, defaults)
