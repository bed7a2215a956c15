"""The one door to HTML, and to terminals: whatever a user named goes through it."""

from __future__ import annotations

import html
import re


def escape(text: object) -> str:
    """Text for HTML, with quotes escaped as well."""
    return html.escape(str(text), quote=True)


def sentence(text: object) -> str:
    """A sentence for HTML: with the parts between backquotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


# Control characters, which move the cursor or change colours, and those that change the direction of writing.
_PICTURES = {n: 0x2400 + n for n in range(32) if chr(n) not in "\t\n"} | {0x7F: 0x2421}
_PICTURES |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF], 0xFFFD)


def visible(text: object) -> str:
    """Text for a terminal: what it would take as a command is seen as a character, each in the place of one."""
    return str(text).translate(_PICTURES)
