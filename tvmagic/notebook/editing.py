"""A step's program as a cell to edit, and what becomes of it."""

from __future__ import annotations

from tvmagic.notebook.commands import record_of
from tvmagic.notebook.results import Parts, Passes, Shown, Table
from tvmagic.notebook.version_comparison import programs_by_pass, side_by_side
from tvmagic.operators import Source, Version
from tvmagic.operators.editing import edit, program_text, step_number, unedited
from tvmagic.operators.partial_pipeline import Edited
from tvmagic.passes import Record


def cell_to_edit(version: Version, step: str) -> str:
    """The `%%program` cell that holds the program after a step of a version."""
    record = record_of(version, code=False, late=True)
    number = step_number(record, step)
    return f"%%program {version.operator.name}:{version.name} {number + 1}\n{program_text(record, number)}"


def edited(version: Version, step: str, text: str, name: str = "edited", source: Source | None = None) -> Version:
    """The version with `text` as its program after a step, kept as `name`.

    A version that is itself an edit kept as `name` is edited again: the step is one of the version that it was made of.
    Raises `TVMagicError` for what `tvmagic.operators.editing.edit` refuses.
    """
    return edit(_base(version, name), step, text, name, source)


def _base(version: Version, name: str) -> Version:
    op = version.operator
    if version.name == name and isinstance(version.schedule, Edited):
        return op.version(version.schedule.origin)
    return version


def from_edit(both: Record, made: Version) -> Record:
    """Two timelines side by side, without the passes before the edit."""
    assert isinstance(made.schedule, Edited)
    both.steps = both.steps[len(programs_by_pass(Record(list(made.schedule.steps[:-1])))) :]
    return both


def timelines(made: Version, code: bool = True) -> Shown:
    """The timeline of an edited version from the edit on, and beside it that of the version that it was made of."""
    first, record = unedited(made), record_of(made, code=code)
    number = next(n for n, step in enumerate(record) if step.name.startswith("edit after "))
    both = from_edit(side_by_side(first, made), made)
    parted = next((step.name for step in both if step.changed), None)
    words = f"they diverge at {parted}" if parted else "the passes that are left make the same program of both"
    shown = Record(
        record.steps[number:], record.title, record.sources, notation=record.notation, parents=record.parents
    )
    return Parts(
        Table([], [], f"{record.title}: {record.steps[number].name}, and the passes that are left"),
        Passes(shown),
        Table([], [], f"{both.title}: {words}"),
        *([Passes(both)] if parted else []),
        title=record.title,
    )
