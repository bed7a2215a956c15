"""Programs as text: the printers and the TVMScript parser.

`script(node)` and `show(node)` print, `from_source(text)` reads; `tir` and `ir` are the dialects
that `from tvmagic.script import tir as T, ir as I` gives.
"""

from __future__ import annotations

import importlib
from typing import Any as _Any

from tvmagic.script.printer import PrinterConfig, script

_PLACES = {
    "from_source": "tvmagic.script.parser",
    "parse": "tvmagic.script.parser",
    "ir_module": "tvmagic.script.ir",
    "classic": "tvmagic.script.printer.classic_text",
    "cinn_text": "tvmagic.cinn.text.printer",
    "from_cinn": "tvmagic.cinn.text.parser",
    "is_cinn_text": "tvmagic.cinn.text.parser",
    "script_with_spans": "tvmagic.script.printer.spans",
    "show": "tvmagic.script.printer.shown",
    "set_show_hook": "tvmagic.script.printer.shown",
    "show_text": "tvmagic.script.printer.shown",
}
_MODULES = ("highlight", "ir", "ir_builder", "parser", "printer", "tir")


def __getattr__(name: str) -> _Any:
    if name in _PLACES:
        value = getattr(importlib.import_module(_PLACES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"tvmagic.script.{name}")
    raise AttributeError(f"module `tvmagic.script` has no name `{name}`")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, *_MODULES])
