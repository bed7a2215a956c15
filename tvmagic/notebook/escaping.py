"""The one door to HTML: whatever a user named goes through it."""

from __future__ import annotations

import html
import re

__all__ = ["escape", "sentence"]


def escape(text: object) -> str:
    """Text for HTML, with quotes escaped as well."""
    return html.escape(str(text), quote=True)


def sentence(text: object) -> str:
    """A sentence for HTML: with the parts between backquotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
