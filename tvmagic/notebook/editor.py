"""Editing a program in the stepper: the page asks this kernel to run the passes that are left on it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from tvmagic.errors import TVMagicError
from tvmagic.notebook import editing
from tvmagic.notebook.commands import check_result, record_of
from tvmagic.notebook.errors import error_lines
from tvmagic.notebook.html import escape
from tvmagic.notebook.stepper import packed_view
from tvmagic.notebook.version_comparison import side_by_side
from tvmagic.notebook.view import make_view
from tvmagic.operators import Version
from tvmagic.operators.editing import editable, program_text, unedited
from tvmagic.passes import Record

_KEPT = 64  # timelines whose steps can be edited, the last ones
_editor: Editor | None = None


class Editor(anywidget.AnyWidget):
    """The model by which steppers in the page reach the kernel; one for all, and not displayed.

    A stepper calls itself by its key, which follows from what it shows. It sends `{key}` to ask which of its steps can be
    edited, `{key, step}` for the program after one, and `{key, step, text}` to have the passes that are left run on it.
    """

    _esm = Path(__file__).parent / "static" / "link.js"
    key = traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        self.known: dict[str, tuple[Version, list[int], Record]] = {}
        super().__init__(key=f"tvmagic-editor-{uuid.uuid4().hex}")  # a page may have those of several kernels
        self.on_msg(lambda _, content, __: self.send(self.answer(content)))

    def answer(self, asked: Any) -> dict[str, Any]:
        """What the page is told."""
        key = str(asked.get("key")) if isinstance(asked, dict) else ""
        found = self.known.get(key)
        if found is None:
            return {"key": key, "steps": []}
        version, places, record = found
        if "step" not in asked:
            return {"key": key, "steps": [i for i, place in enumerate(places) if place in editable(record)]}
        reply: dict[str, Any] = {"key": key, "step": asked["step"]}
        try:
            place = places[int(asked["step"])]
            if "text" not in asked:
                return {**reply, "text": program_text(record, place)}
            return {**reply, **self.taken_on(version, place, str(asked["text"]))}
        except TVMagicError as error:
            return {**reply, "error": "\n".join(error_lines(error, colour=False))}
        except Exception as error:  # the page has to be told, whatever it was
            return {**reply, "error": f"{type(error).__name__}: {error}"}

    def taken_on(self, version: Version, place: int, text: str) -> dict[str, Any]:
        """The result of an edit: the verdict as HTML, and the timeline, beside that of the version before if they differ."""
        made = editing.edited(version, str(place + 1), text)
        first = unedited(made)
        both = editing.from_edit(side_by_side(first, made), made)
        parted = next((step.name for step in both if step.changed), None)
        words = f"The timelines diverge at {parted}." if parted else "The passes make the same program of both."
        facts = check_result(made).html(styled=False) + f"<div class='tm-meta'>{escape(words)}</div>"
        whole = record_of(made, code=True)
        shown = Record(whole.steps[place + 1 :], f"{made.operator.name}: edited", parents=whole.parents)
        made.operator.add_sources(shown)
        packed = packed_view(make_view(shown))
        return {"facts": facts, "timeline": packed, "both": packed_view(make_view(both)) if parted else None}


def offer(version: Version, record: Record, places: list[int], key: str) -> Editor:
    """Let the stepper called `key` edit the programs of a version; `places` are those of its steps in the record."""
    global _editor
    if _editor is None or _editor.comm is None:
        _editor = Editor()
    _editor.known.pop(key, None)
    _editor.known[key] = (version, places, record)
    for old in list(_editor.known)[:-_KEPT]:
        del _editor.known[old]
    return _editor
