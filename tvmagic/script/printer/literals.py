"""How constants are written: numbers and quoted texts."""

from __future__ import annotations

import math

_ESCAPES = {
    **{chr(c): f"\\{c:03o}" for c in range(32)},
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\x7f": "\\177",
    **{chr(c): f"\\u{c:04x}" for c in range(0xD800, 0xE000)},  # surrogates, which no text in UTF-8 can have
}
_TABLE = str.maketrans(_ESCAPES)


def quoted(text: str) -> str:
    """`text` in double quotes, with what cannot be in them escaped."""
    return '"' + text.translate(_TABLE) + '"'


def float_text(value: float) -> str:
    """A float as TVMScript writes it: whole numbers in full, others with 17 digits."""
    if math.isinf(value) or math.isnan(value):
        return f'"{value}"'
    if value == math.floor(value):
        return f"{value:.1f}"
    return f"{value:.17g}"
