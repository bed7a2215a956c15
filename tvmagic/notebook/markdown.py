"""Markdown of a notebook as HTML that a page can show.

A notebook may come from anyone, so the page keeps what text is made of and nothing that runs or that loads from
elsewhere: JupyterLab and Notebook do the same with Markdown. Formulas become MathML (`tvmagic.notebook.formulas`), or keep the text
in which they are written if they have commands that are not known.
"""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from tvmagic.notebook.formulas import mathml
from tvmagic.notebook.html import escape

# Where Markdown names a picture that was pasted into the cell; nbconvert's own reader of it ends with one that is missing.
_ATTACHMENT = re.compile(r"""(\]\(\s*<?|\]:\s*<?|src=["'])attachment:""")
_ATTACHED = "attached-to-the-cell/"
_TAGS = (
    "a abbr b blockquote br caption center code col colgroup dd del details div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i"
    " img input ins kbd li mark ol p pre s samp section small span strong sub summary sup table tbody td tfoot th thead tr u ul var"
).split()
_EVERYWHERE = ("class", "title", "align", "style", "lang", "dir")
_ATTRIBUTES = {
    "img": ("src", "alt", "width", "height"),
    "input": ("type", "checked", "disabled"),
    "td": ("colspan", "rowspan"),
    "th": ("colspan", "rowspan", "scope"),
    "ol": ("start",),
    "details": ("open",),
    **{f"h{level}": ("id",) for level in range(1, 7)},
}
_STYLES = ("text-align", "color", "background-color", "width", "height", "font-size", "font-style", "font-weight")
_STYLES += ("margin", "padding", "float", "border", "vertical-align")
# Where a formula goes: its number between two signs that no text has a use for.
_FORMULA = re.compile("\ue000(\\d+)\ue001")
# Whose text nobody is to read either.
_UNSEEN = re.compile(r"<(script|style)\b.*?(</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)


def markdown(text: str, folder: Path, attachments: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> str:
    """Text as HTML without scripts, frames and forms, with the pictures of files and of the cell in it.

    Pictures of other places are left out, as a page needs no network.

    Parameters
    ----------
    text: the Markdown, which may have HTML in it.
    folder: the notebook's; the paths of pictures start there.
    attachments: the pictures that were pasted into the cell, by name and kind, in base64.
    """
    from bleach.css_sanitizer import CSSSanitizer
    from bleach.sanitizer import Cleaner

    formulas: list[tuple[str, Element | None]] = []

    def pictures(*, source: Any) -> Any:
        for token in source:
            if token["type"] in ("StartTag", "EmptyTag") and token["name"] == "img":
                name = unescape(token["data"].pop((None, "src"), ""))
                picture = _picture(name, folder, attachments)
                token["data"] |= {(None, "src"): escape(picture)} if picture else {}
            yield token

    def typeset(*, source: Any) -> Any:
        for token in source:
            yield from _typeset(token, formulas)

    cleaner = Cleaner(
        tags=_TAGS,
        attributes=_allowed,
        protocols=("http", "https", "mailto", "data"),
        strip=True,
        filters=[pictures, typeset],
        css_sanitizer=CSSSanitizer(allowed_css_properties=_STYLES),
    )
    return cleaner.clean(_UNSEEN.sub("", _html(_ATTACHMENT.sub(rf"\1{_ATTACHED}", text), formulas)))


# ---------------------------------------------------------------------------- formulas


def _html(text: str, formulas: list[tuple[str, Element | None]]) -> str:
    """Markdown as HTML with a mark in the place of each formula, which is added to the list with its text."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    def mark(text: str, formula: Element | None) -> str:
        formulas.append((text, formula))
        return f"\ue000{len(formulas) - 1}\ue001"

    class Renderer(IPythonRenderer):
        def inline_math(self, body: str) -> str:
            # `5$ and 6$` in a sentence are prices.
            return mark(f"${body}$", mathml(body) if body == body.strip() else None)

        def block_math(self, body: str) -> str:
            return mark(f"$${body}$$", mathml(body, display=True))

        def latex_environment(self, name: str, body: str) -> str:
            text = f"\\begin{{{name}}}{body}\\end{{{name}}}"
            return mark(text, mathml(text, display=True))

    plain = re.sub("[\ue000\ue001]", "", text)
    return MarkdownWithMath(renderer=Renderer(escape=False)).render(plain)


def _typeset(token: dict[str, Any], formulas: list[tuple[str, Element | None]]) -> Iterator[dict[str, Any]]:
    """A token of HTML with the formulas in the place of their marks; within an attribute, with their text."""

    def written(found: re.Match[str]) -> str:
        return escape(formulas[int(found[1])][0])

    if token["type"] != "Characters":
        if isinstance(token.get("data"), dict):
            token["data"] = {name: _FORMULA.sub(written, value) for name, value in token["data"].items()}
        yield token
        return
    for number, part in enumerate(_FORMULA.split(token["data"])):
        if number % 2 == 0:
            yield {"type": "Characters", "data": part}
        else:
            text, formula = formulas[int(part)]
            yield from _tokens(formula) if formula is not None else [{"type": "Characters", "data": text}]


def _tokens(element: Element) -> Iterator[dict[str, Any]]:
    """The tokens of an element and what is in it."""
    data = {(None, name): escape(value) for name, value in element.attrib.items()}
    yield {"type": "StartTag", "name": element.tag, "namespace": None, "data": data}
    if element.text:
        yield {"type": "Characters", "data": element.text}
    for part in element:
        yield from _tokens(part)
    yield {"type": "EndTag", "name": element.tag, "namespace": None, "data": {}}


# ---------------------------------------------------------------------------- pictures and links


def _allowed(tag: str, name: str, value: str) -> bool:
    """Whether a page keeps this attribute; a link goes to the web, to a file or within the page."""
    if (tag, name) == ("a", "href"):
        return re.match(r"(https?:|mailto:|[^:]*(#|\Z))", unescape(value).strip(), re.IGNORECASE) is not None
    return name in _EVERYWHERE or name in _ATTRIBUTES.get(tag, ())


def _picture(name: str, folder: Path, attachments: Mapping[str, Mapping[str, str]]) -> str:
    """A picture as the `data:` address of its bytes, or nothing if it is of another place or missing."""
    if name.startswith(_ATTACHED):
        attached = attachments.get(unquote(name.removeprefix(_ATTACHED)), {})
        return next((f"data:{kind};base64,{''.join(data)}" for kind, data in attached.items()), "")
    if name.startswith("data:image/"):
        return name
    place = folder / unquote(name)
    if re.match(r"[a-z]+:|//", name, re.IGNORECASE) or not place.is_file():
        return ""
    kind = mimetypes.guess_type(place.name)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(place.read_bytes()).decode()}"
