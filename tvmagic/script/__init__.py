"""Programs as text: the printers and the TVMScript parser.

`script(node)` and `show(node)` print, `from_source(text)` reads; `tir` and `ir` are the dialects
that `from tvmagic.script import tir as T, ir as I` gives.
"""

from __future__ import annotations

import importlib
from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.script.printer import PrinterConfig, script

_PLACES = {
    "from_source": "tvmagic.script.parser",
    "parse": "tvmagic.script.parser",
    "ir_module": "tvmagic.script.ir",
    "classic": "tvmagic.script.printer.classic_text",
    "script_with_spans": "tvmagic.script.printer.spans",
    "show": "tvmagic.script.printer.show",
    "set_show_hook": "tvmagic.script.printer.show",
    "show_text": "tvmagic.script.printer.show",
}
_FOUND = ("cinn_text", "from_cinn", "is_cinn_text")  # by the finder in `tvmagic/__init__.py`
_MODULES = ("highlight", "ir", "ir_builder", "parser", "printer", "tir")


def __getattr__(name: str) -> _Any:
    if name in _PLACES:
        value = getattr(importlib.import_module(_PLACES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"tvmagic.script.{name}")
    return _find_name("tvmagic.script", name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, *_FOUND, *_MODULES])
