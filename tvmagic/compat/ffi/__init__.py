"""Names that TVM's users reach at `tvm._ffi`."""

from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.compat.ffi import base
from tvmagic.errors import TVMError
from tvmagic.ir.registry import get_global_func, list_global_func_names, register_func, remove_global_func

__all__ = ["TVMError", "base", "get_global_func", "list_global_func_names", "register_func", "remove_global_func"]


def __getattr__(name: str) -> _Any:
    return _find_name("tvmagic._ffi", name)
