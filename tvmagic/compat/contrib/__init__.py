"""Tools around compiled modules, at the places where TVM has them."""

from typing import Any as _Any

from tvmagic import find_name as _find_name


def __getattr__(name: str) -> _Any:
    return _find_name("tvmagic.contrib", name)
