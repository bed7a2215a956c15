"""The TVMScript parser: texts, and live Python under `@T.prim_func`, as programs."""

from __future__ import annotations

import importlib
from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.script import ir as _ir
from tvmagic.script import tir as _tir
from tvmagic.script.parser.entry import DIALECTS, from_source, parse
from tvmagic.script.parser.macro import ScriptMacro

__all__ = ["ScriptMacro", "from_source", "ir", "ir_module", "parse", "tir"]

DIALECTS.update(T=_tir, tir=_tir, I=_ir, ir=_ir)


def __getattr__(name: str) -> _Any:
    if name in ("ir", "tir"):
        return importlib.import_module(f"tvmagic.script.{name}")
    if name == "ir_module":
        return importlib.import_module("tvmagic.script.ir").ir_module
    return _find_name("tvmagic.script.parser", name)
