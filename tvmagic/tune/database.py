"""The schedules that searches found, in a file: one JSON text a line, of a program, a target, a machine, a trace and times.

Several processes may write at once: each line is one write at the end of the file, under a lock where the system has
one. A process that is ended while it writes leaves at most a part of its own line; the next one begins a line of its
own. Each line has a digest. A line that cannot be read, or has another digest, is skipped, and `damaged` says which.
The default file is only read if nobody else can write to it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.files import cache_folder, digest_of, read_file, read_trusted

# The environment variable that names the file of a search that is not told one.
VARIABLE = "TVMAGIC_TUNED"
_FILE = "tuned.jsonl"
_TYPES: dict[str, tuple[type, ...]] = {
    "program": (str,), "target": (str,), "machine": (str,), "seconds": (int, float), "trace": (list,),
}  # fmt: skip


def default_path() -> Path:
    """The file that `TVMAGIC_TUNED` names, else one in the folder for what is kept between sessions."""
    return Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else cache_folder() / _FILE


@dataclass(frozen=True)
class Entry:
    """A schedule whose result was right.

    `program` is the structural hash of the function, `trace` the JSON of its calls, `seconds` of a call the least of
    `times`; `machine` the kind that measured it. `best`: a search compared it with its others, and this one was the best.
    """

    program: str
    target: str
    machine: str
    trace: Any
    seconds: float
    times: list[float] = field(default_factory=list)
    name: str = ""
    best: bool = False


class Database:
    """The entries of a file, which need not exist yet. `damaged` has the numbers of the lines that the last reading
    skipped, counted from 1, each with the reason.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._is_default = path is None
        self.damaged: list[tuple[int, str]] = []

    def entries(self, program: str | None = None, target: str | None = None, machine: str | None = None) -> list[Entry]:
        """The entries of a program, a target and a kind of machine (of all if left out), the fastest first.

        Before all others are those that a search found to be its best, as their times are not lucky ones.

        Raises `TVMagicError` if there is a file that cannot be read.
        """
        wanted = {"program": program, "target": target, "machine": machine}
        found = [
            entry
            for entry in self._read()
            if all(value is None or getattr(entry, name) == value for name, value in wanted.items())
        ]
        return sorted(found, key=lambda entry: (not entry.best, entry.seconds))

    def _read(self) -> Iterator[Entry]:
        self.damaged = []
        try:
            data = read_file(self.path) if os.path.lexists(self.path) else b""
        except (TVMagicError, ValueError) as error:  # ValueError: a name with NUL
            why = error.message if isinstance(error, TVMagicError) else f"cannot read `{self.path}`: {error}"
            hint = f"name another file of schedules: --database FILE, or the environment variable {VARIABLE}"
            raise TVMagicError(why, hint=hint, code="tune.file_not_readable") from error
        lines = ((read_trusted(self.path) or b"") if self._is_default else data).split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield _entry(line)
            except (ValueError, RecursionError) as error:
                self.damaged.append((number, str(error).split("\n")[0]))

    def notes(self) -> list[str]:
        """What the last reading skipped, a sentence for each line."""
        return [f"line {number} of {self.path} is damaged and was skipped: {why}" for number, why in self.damaged]

    def add(self, entry: Entry) -> None:
        """Append an entry; `TVMagicError` if the file cannot be written."""
        row = asdict(entry)
        line = json.dumps({**row, "digest": digest_of(row)}, separators=(",", ":")).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                with _locked(file):
                    if _is_torn(file):  # somebody was ended in the middle of a line
                        line = b"\n" + line
                    end = os.lseek(file, 0, os.SEEK_END)
                    if os.write(file, line) != len(line):
                        os.ftruncate(file, end)
                        raise OSError(0, "there is no room left")
            finally:
                os.close(file)
        except (OSError, ValueError) as error:
            raise TVMagicError(
                f"the file of schedules `{self.path}` cannot be written: {getattr(error, 'strerror', None) or error}",
                hint=f"name another one: --database FILE, or the environment variable {VARIABLE}",
                code="tune.file_not_writable",
            ) from error


def _is_torn(file: int) -> bool:
    """Whether the file ends in the middle of a line."""
    size = os.lseek(file, 0, os.SEEK_END)
    if not size:
        return False
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1) != b"\n"


@contextlib.contextmanager
def _locked(file: int) -> Iterator[None]:
    """Others wait, if the system has locks; elsewhere a line is still one write."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _entry(line: bytes) -> Entry:
    """The entry of a line; `ValueError` if it is not one."""
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if not isinstance(data, dict):
        raise ValueError("it is not an object")
    if data.pop("digest", None) not in (None, digest_of(data)):  # files of earlier versions have none
        raise ValueError("its digest is another one")
    for name, types in _TYPES.items():
        if not isinstance(data.get(name), types) or isinstance(data[name], bool):
            raise ValueError(
                f"`{name}` is missing" if name not in data else f"`{name}` is a {type(data[name]).__name__}"
            )
    if not (math.isfinite(data["seconds"]) and data["seconds"] > 0):
        raise ValueError("`seconds` is not a time")
    known = {name: data[name] for name in Entry.__dataclass_fields__ if name in data}
    return Entry(**known)
