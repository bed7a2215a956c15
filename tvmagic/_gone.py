"""Names of version 0.1 that were removed: what each did, and why programs here do without it.

`_instead` adds the sentence to the message of the `AttributeError`. Whole modules that were removed are in `_absent`.
"""

from __future__ import annotations

__all__ = ["GONE"]

_PASSES = {
    **dict.fromkeys(
        ("MakePackedAPI", "MakeUnpackedAPI", "LowerTVMBuiltin", "LegalizePackedCalls"),
        "it prepared a function for calls by TVM's C runtime. `build` compiles and calls functions without that runtime",
    ),
}
GONE: dict[str, dict[str, str]] = {
    "tvmagic.tir.transform": _PASSES,
}
