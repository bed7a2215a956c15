"""Questions about modules, at the place where TVM has them."""

from tvmagic.ir.global_vars import collect_call_map

__all__ = ["collect_call_map"]
