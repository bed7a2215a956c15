"""Outputs that live in the page: HTML with its own script and data, so that no kernel and no widget is needed.

An output is one element: first what is read where scripts do not run (GitHub, a notebook that is not trusted),
then a script that puts the live form in its place. Whatever opens the notebook shows one or the other. The code
is in every output, compressed, and a page runs it once; the data of each output are compressed in the same way. So an
output depends on no other, which may be deleted, run again, or in another frame. In a notebook that is finished `share`
leaves the code in one output (`python -m tvmagic.share`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from tvmagic.notebook.html import escape, theme_attribute
from tvmagic.notebook.style_sheets import style

_STEPPER = (("lines.js", "memory.js", "tools.js", "edit.js", "stepper.js"), ("view.css", "stepper.css"))
_PLAYER = (("lines.js", "player.js"), ("view.css", "player.css"))
# For each kind of output its scripts, in this order one function, of which the last puts what makes an element live on
# `kinds`; and its style sheets.
_PARTS = {
    "stepper": _STEPPER,
    "player": _PLAYER,
    "playground": ((*_STEPPER[0], "playground.js"), (*_STEPPER[1], "player.css")),
    "page": ((*_STEPPER[0], "arithmetic.js", "kernel.js", "page.js"), (*_STEPPER[1], "player.css")),
}


def live_html(kind: str, data: dict[str, Any], static: str, label: str) -> str:
    """An output that becomes live where scripts run.

    Parameters
    ----------
    kind: what makes it live: `stepper`, `player`, `playground` or `page`.
    data: what that function is given, as JSON.
    static: the HTML that is shown until then, and wherever scripts do not run; it has to be readable without a style
        sheet, as most places that leave out the one leave out the other.
    label: the accessible name.
    """
    key, code = _code(kind)
    kept = _OWN.replace("KEY", key).replace("CODE", code)
    text = packed(json.dumps(data, separators=(",", ":")))
    boot = _BOOT.replace("KEPT", kept).replace("KIND", kind).replace("DATA", text)
    return (
        f'<div class="tvmagic tm-live"{theme_attribute()} role="group" aria-label="{escape(label)}">'
        f"<div>{static}</div><script>{boot}</script></div>"
    )


# `currentScript` is inside of the element, except in VS Code, which runs the script from the element around it.
_BOOT = """(() => {
const me = document.currentScript, box = me.closest(".tm-live") ?? me.parentElement.querySelector(".tm-live:not([data-awake])");
box.dataset.awake = "";
const unpack = (text) => new Response(new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
const code = KEPT;
Promise.all([code, unpack("DATA")]).then(([kinds, data]) => kinds.KIND(box, JSON.parse(data))).catch(console.warn);
})();"""
# The code, from this output: the page keeps it, and tells outputs that wait for it.
_OWN = """(window.KEY ??= unpack("CODE").then((code) => new Function(code)()), dispatchEvent(new Event("KEY")), window.KEY)"""
# The code, from another output of the page, which may come later; if it does not come soon, the reader is told.
_SHARED = """window.KEY ?? new Promise((found) => {
const line = Object.assign(document.createElement("div"), { className: "tm-meta", role: "status", textContent: "MISSING" });
const late = setTimeout(() => box.prepend(line), PATIENCE);
addEventListener("KEY", () => { clearTimeout(late); found(window.KEY); }, { once: true });
})"""
_MISSING = (
    "These are the steps as text. The script of the live view is in an output that is not on this page: "
    "run this cell again, or open the notebook in which it was saved."
)
_PATIENCE = 3000  # milliseconds
_CARRIES = re.compile(
    re.escape(_OWN).replace("KEY", "(tvmagic[0-9a-f]{12})", 1).replace("KEY", r"\1").replace("CODE", '[^"]*')
)


def share(pages: Iterable[str]) -> list[str]:
    """The outputs of one notebook, in their order, with each script in the first output alone that needs it.

    The others find it in the page, and are live when it is there, in whatever order the outputs come. Without it (its cell is
    deleted, or each output is in a frame of its own) they stay what they are without scripts, with a line that says why.
    """
    seen: set[str] = set()

    def shared(found: re.Match[str]) -> str:
        if found[1] not in seen:
            seen.add(found[1])
            return found[0]
        return _SHARED.replace("KEY", found[1]).replace("MISSING", _MISSING).replace("PATIENCE", str(_PATIENCE))

    return [_CARRIES.sub(shared, page) for page in pages]


def packed(text: str) -> str:
    """A text compressed, in characters that need no escaping anywhere."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


@cache
def _code(kind: str) -> tuple[str, str]:
    """The name under which a page keeps the code, which differs from version to version, and the code, compressed."""
    code = script(kind)
    return f"tvmagic{hashlib.sha256(code.encode()).hexdigest()[:12]}", packed(code)


@cache
def script(kind: str) -> str:
    """The body of a function that returns what makes elements live, by kind."""
    scripts, styles = _PARTS[kind]
    folder = files("tvmagic.notebook") / "static"
    lines = "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts).split("\n")
    # without indentation and without lines that are comments; strings in our scripts are on one line
    code = "\n".join(s for line in lines if (s := line.strip()) and not re.match(r"//|/\*\*.*\*/$", s))
    return (
        '"use strict";\nconst kinds = {};\n'
        f"document.head.append(Object.assign(document.createElement('style'), {{ textContent: {json.dumps(style(*styles))} }}));\n"
        f"{code}\nreturn kinds;"
    )
