"""Tools around compiled modules, at the places where TVM has them."""

from typing import Any as _Any

from tvmagic._places import submodule as _submodule


def __getattr__(name: str) -> _Any:
    return _submodule("tvmagic.contrib", name)
