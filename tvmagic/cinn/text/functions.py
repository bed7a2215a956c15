"""How CINN calls the functions that have other names here."""

from __future__ import annotations

OP_NAMES = {"abs": "fabs", "left_shift": "shift_left", "right_shift": "shift_right"}
"""Our name of a function, by CINN's."""
CINN_NAMES = {own: name for name, own in OP_NAMES.items()}
EXTERNAL = "cinn_"  # with this the names of CINN's functions at run time begin, which only its own compiler can call
