"""Python's syntax trees (`ast`) under the names of TVM's `script.parser.core.doc`."""

from __future__ import annotations

import ast
from typing import Any


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and hasattr(ast, name):
        return getattr(ast, name)
    raise AttributeError(f"module `{__name__}` has no name `{name}`")


def __dir__() -> list[str]:
    return [name for name in dir(ast) if not name.startswith("_")]
