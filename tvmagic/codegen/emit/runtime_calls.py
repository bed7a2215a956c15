"""What compiled code asks of the runtime, as LLVM text.

Each object holds a pointer `__tvmagic_runtime` to a table of functions. The runtime sets it when it
loads the object; if it stays null, as in a C program that links a saved object, parallel
loops run on the calling thread and memory comes from the C library.
"""

from __future__ import annotations

import pathlib
from functools import cache

from tvmagic.runtime.abi import ERROR_RECORDS, ERROR_SLOTS

GLOBALS = {
    "runtime": "@__tvmagic_runtime = weak global ptr null",
    "error": f"@__tvmagic_error = weak global [{ERROR_SLOTS * ERROR_RECORDS + 1} x i64] zeroinitializer",
}


@cache
def helper(name: str) -> str:
    """The LLVM text of a helper, `ll/<name>.ll`."""
    return (pathlib.Path(__file__).parent / "ll" / f"{name}.ll").read_text(encoding="utf-8")
