"""Markdown of a notebook as HTML that a page can show.

A notebook may come from anyone, so the page keeps what text is made of and nothing that runs or that loads from
elsewhere: JupyterLab and Notebook do the same with Markdown. Formulas keep the text in which they are written.
"""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from tvmagic.notebook.html import escape

__all__ = ["markdown"]

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
    from nbconvert.filters.markdown import markdown2html

    def pictures(*, source: Any) -> Any:
        for token in source:
            if token["type"] in ("StartTag", "EmptyTag") and token["name"] == "img":
                name = unescape(token["data"].pop((None, "src"), ""))
                picture = _picture(name, folder, attachments)
                token["data"] |= {(None, "src"): escape(picture)} if picture else {}
            yield token

    cleaner = Cleaner(
        tags=_TAGS,
        attributes=_allowed,
        protocols=("http", "https", "mailto", "data"),
        strip=True,
        filters=[pictures],
        css_sanitizer=CSSSanitizer(allowed_css_properties=_STYLES),
    )
    return cleaner.clean(_UNSEEN.sub("", markdown2html(_ATTACHMENT.sub(rf"\1{_ATTACHED}", text))))


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
