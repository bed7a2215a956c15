"""Names that TVM's users reach at `tvm._ffi`."""

from tvmagic._ffi import base
from tvmagic.ir.registry import get_global_func, register_func

__all__ = ["base", "get_global_func", "register_func"]
