"""Names of version 0.1 that were removed: what each did, and why programs here do without it.

`_instead` adds the sentence to the message of the `AttributeError`. Whole modules that were removed are in `_absent`.
"""

from __future__ import annotations

__all__ = ["GONE"]

GONE: dict[str, dict[str, str]] = {}
