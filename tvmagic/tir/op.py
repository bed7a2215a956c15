"""Functions that build expressions, at the place where TVM has them."""

from tvmagic.ir.op import Op
from tvmagic.ir.ops import *  # noqa: F403
from tvmagic.ir.ops import maximum as max
from tvmagic.ir.ops import minimum as min

__all__ = ["Op", "max", "min", *(name for name in dir() if not name.startswith("_"))]  # pyright: ignore[reportUnsupportedDunderAll]
