"""Formulas of Markdown as MathML, which browsers show without a script. The package latex2mathml reads them."""

from __future__ import annotations

import re
from html import unescape
from xml.etree.ElementTree import Element

_TAGS = frozenset(
    "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow mspace msqrt mstyle msub msubsup msup"
    " mtable mtd mtext mtr munder munderover none".split()
)
# What says how a formula looks: neither links nor styles and classes of the page.
_LOOKS = frozenset(
    "accent accentunder depth displaystyle fence form height linethickness lspace maxsize minsize movablelimits rspace scriptlevel"
    " separator stretchy symmetric voffset width mathsize".split()
)
_DEEPEST = 60  # elements in elements
_WITHOUT_NUMBERS = re.compile(r"\\(?:label|tag\*?)\s*\{[^{}]*\}|\\(?:nonumber|notag)\b")


class _UnknownError(Exception):
    """What is not a formula that a page can show; it is then shown as it is written."""


def mathml(text: str, display: bool = False) -> Element | None:
    r"""A formula as MathML; None if it has commands that are not known or does not end.

    Parameters
    ----------
    text: the formula without its dollars, or an environment with its `\begin` and `\end`.
    display: whether it is a formula of its own, rather than one in a sentence.
    """
    from latex2mathml.converter import convert_to_element

    try:
        found = convert_to_element(_WITHOUT_NUMBERS.sub("", text), display="block" if display else "inline")
        content = [_sanitized(part) for part in found]
    except Exception:  # the package ends in whatever error its reader happens to meet
        return None
    math = Element("math", {"alttext": text.strip()} | ({"display": "block"} if display else {}))
    math.extend(content)
    return math


def _sanitized(element: Element, depth: int = 0) -> Element:
    """A copy that has only what a page keeps, with its text as it is shown."""
    words = unescape(element.text or "")
    unknown = words.startswith("\\")  # the package writes a command that it does not know as it is
    if element.tag not in _TAGS or unknown or depth > _DEEPEST:
        raise _UnknownError
    copy = Element(element.tag, {name: value for name, value in element.attrib.items() if name in _LOOKS})
    copy.text = words or None
    if (side := element.get("columnalign")) in ("left", "right"):  # MathML Core has styles in place of this attribute
        # Chromium aligns what is in a cell by its own name of the value.
        copy.set("style", f"text-align: {side}; text-align: -webkit-{side}; padding-inline: 0")
    copy.extend([_sanitized(part, depth + 1) for part in element])
    return copy
