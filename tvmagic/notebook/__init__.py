"""The notebook: magics, the stepper, pictures, lexers, and plain functions that do the same.

`%load_ext tvmagic` gives the magics and the display of our objects; `%unload_ext tvmagic` takes
them away. Only this package imports IPython, anywidget and Pygments.
"""

from __future__ import annotations

import importlib
from typing import Any

_PLACES = {
    "Passes": "results",
    "Stepper": "stepper",
    "asm": "commands",
    "auto": "machine",
    "bench": "commands",
    "bounds": "commands",
    "check_result": "commands",
    "compare": "version_comparison",
    "graph": "pictures",
    "llvm": "commands",
    "machine_table": "machine",
    "make_view": "view",
    "page": "pages",
    "passes": "commands",
    "playground": "knob_playground",
    "prove": "proofs",
    "show_passes": "stepper",
    "time_calls": "commands",
    "tune": "tuning",
}

__all__ = [*_PLACES, "load_ipython_extension", "unload_ipython_extension"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"tvmagic.notebook.{_PLACES[name]}"), name)
    raise AttributeError(f"module `tvmagic.notebook` has no name `{name}`")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tvmagic`"""
    from tvmagic.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext tvmagic`"""
    from tvmagic.notebook.extension import unload

    unload(shell)
