"""Which puzzles somebody has solved, in a small file in their data folder."""

from __future__ import annotations

import os
from pathlib import Path

from tvmagic.errors import TVMagicError
from tvmagic.files import data_folder, is_trusted, read_table, write_table

VARIABLE = "TVMAGIC_PROGRESS"  # names the file
_FILE = "puzzles.json"


def default_path() -> Path:
    """The file that `TVMAGIC_PROGRESS` names, else `puzzles.json` in the folder `tvmagic` of the user's data."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return data_folder() / _FILE


class Progress:
    """What is kept: by the name of each puzzle how many answers were tried, and which of them was the first to solve it.

    A file that cannot be read counts as empty. A file that cannot be written, or that others can write to, is not
    modified: progress then lasts as long as the session. `kept` says whether the last change is in the file.
    """

    _here: dict[Path, dict[str, dict[str, int]]] = {}  # of files that cannot be written

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self.kept = True

    def _read(self) -> dict[str, dict[str, int]]:
        if self.path in self._here:
            return self._here[self.path]
        return {
            name: {k: v for k, v in row.items() if k in ("tries", "solved") and isinstance(v, int)}
            for name, row in read_table(self.path).items()
            if isinstance(row, dict)
        }

    def _write(self, table: dict[str, dict[str, int]]) -> None:
        try:
            if not is_trusted(self.path):
                raise TVMagicError(
                    f"cannot write `{self.path}`: it is not the user's own", code="puzzle.file_of_other_user"
                )
            write_table(self.path, table)
            self.kept = True
            self._here.pop(self.path, None)
        except TVMagicError:
            self.kept = False
            self._here[self.path] = table

    def tried(self, name: str, solved: bool) -> None:
        """Note an answer to the puzzle `name`."""
        table = self._read()
        row = table.setdefault(name, {})
        row["tries"] = row.get("tries", 0) + 1
        if solved:
            row.setdefault("solved", row["tries"])
        self._write(table)

    def tries(self, name: str) -> int:
        """How many answers were tried."""
        return self._read().get(name, {}).get("tries", 0)

    def solved(self) -> dict[str, int]:
        """The puzzles that are solved, each with the number of the answer that solved it."""
        return {name: row["solved"] for name, row in self._read().items() if "solved" in row}

    def forget(self) -> None:
        """Start again."""
        self._write({})
