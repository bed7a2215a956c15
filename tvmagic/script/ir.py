"""The names of modules in scripts: `from tvmagic.script import ir as I`."""

from __future__ import annotations

from typing import Any as _Any

from tvmagic.script.ir_builder import ir as _ir
from tvmagic.script.parser.decorators import ir_module

NAMES: dict[str, _Any] = {**_ir.NAMES, "ir_module": ir_module}
globals().update(NAMES)
__all__ = list(NAMES)
