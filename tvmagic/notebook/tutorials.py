"""The tutorials, copied to where their reader can run and change them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tvmagic.errors import TVMagicError
from tvmagic.files import write_file

# In an installed package they are beside this file; in a clone they are in its folder `notebooks`.
_PLACES = (Path(__file__).with_name("tutorials"), Path(__file__).parents[2] / "notebooks")


def copy_tutorials(folder: str | Path) -> list[Path]:
    """Copy the tutorials into `folder`, which is made if it is not there. Returns the files.

    Raises `TVMagicError` if one of them is there already: a reader's changes are not overwritten.
    """
    to = Path(folder).expanduser()
    pairs = [(path, to / path.relative_to(source)) for source, path in _notebooks()]
    if there := [copy for _, copy in pairs if copy.exists()]:
        raise TVMagicError(
            f"`{there[0]}` is there already",
            hint="name another folder, or remove it first",
            code="tutorial.file_exists",
        )
    return [write_file(copy, path.read_bytes(), make_folder=True) for path, copy in pairs]


def _notebooks() -> Iterator[tuple[Path, Path]]:
    """The folder with the tutorials, and each of them."""
    for source in _PLACES:
        found = [p for p in sorted(source.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]
        if found:
            yield from ((source, path) for path in found)
            return
    raise TVMagicError(
        "the tutorials are not in this installation",
        hint="install the wheel, or use a clone",
        code="tutorial.not_installed",
    )
