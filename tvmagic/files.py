"""Write and read files safely.

A full disk, a lost connection or Ctrl-C must not cost a user the file that is there already. So new content goes to
a file next to the old one, which replaces it only when it is complete. Files that tvmagic itself reads again carry a
digest, and where the system has owners only the user's own files are read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tvmagic.errors import TVMagicError

_CACHE = "TVMAGIC_CACHE"  # environment variable: the folder of all caches
_MAGIC = b"tvmagic cache 1\n"
_DIGEST = "//digest"  # the key of a table that has the digest of the others
_FOREIGN_WRITERS = stat.S_IWGRP | stat.S_IWOTH
_warned: set[str] = set()


# ---------------------------------------------------------------------------- writing


def write_file(path: Any, content: str | bytes, *, make_folder: bool = False, private: bool = False) -> Path:
    """Write `content` to the file `path`, which has either its old content or all of the new one.

    Text is written as UTF-8. A link stays a link, and an existing file keeps its mode and owner, unless `private`:
    then only the user can read it.

    Raises TVMagicError if the file cannot be written.
    """
    path = Path(path)
    with replacing(path, make_folder=make_folder, private=private) as part:
        _write(path, part, content)
    return path


def write_files(contents: Mapping[Path, str | bytes], *, make_folder: bool = False) -> None:
    """Write several files that belong together. All are written next to the old ones before the first is replaced.

    Raises TVMagicError if one of them cannot be written; then all old files are kept.
    """
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(replacing(path, make_folder=make_folder)) for path in contents]
        for part, (path, content) in zip(parts, contents.items()):
            _write(path, part, content)


def _write(path: Path, part: Path, content: str | bytes) -> None:
    """Write the new content of `path` to the file `part`."""
    with _reported(path):
        data = content.encode() if isinstance(content, str) else content
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # devices have no disk to wait for
                os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: Any, *, make_folder: bool = False, private: bool = False) -> Iterator[Path]:
    """Yield an empty file next to `path`, with the same suffix; it replaces `path` unless the block raises.

    A device or a pipe is yielded itself: it has no content to lose.

    Raises TVMagicError, before the block runs, if the file cannot be written.
    """
    path = Path(path)
    with _reported(path):
        if not os.fspath(path) or path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        target = Path(os.path.realpath(path))  # the file that a link names
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        old = target.stat() if target.exists() else None
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(0, "it is read-only")
        part = (
            target
            if old is not None and not stat.S_ISREG(old.st_mode)
            else _create_beside(target, private or old is not None)
        )
    if part is target:
        yield target
        return
    try:
        yield part
        with _reported(path):
            if old is not None and not private:
                _copy_rights(old, part)
            os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _create_beside(target: Path, private: bool) -> Path:
    """Create an empty file next to `target`, with the same suffix."""
    # a name has 255 bytes, and a letter up to four
    part = target.with_name(f".{target.stem[:40]}.{secrets.token_hex(6)}{target.suffix[:10]}")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666))
    return part


def _copy_rights(old: os.stat_result, part: Path) -> None:
    """Give a new file the owner and the mode of the old one."""
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):  # only root may give a file away
            os.chown(part, old.st_uid, old.st_gid)
    os.chmod(part, stat.S_IMODE(old.st_mode))


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Raise what the system or Python refuses about a file as TVMagicError."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a name with NUL, text with half a surrogate pair
        raise TVMagicError(
            f"cannot write `{path}`: {_reason(error)}",
            hint="name another file, in a folder with room that you own",
            code="file.not_writable",
        ) from error


def _reason(error: Exception) -> str:
    """Return why a file cannot be used, in lower case."""
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """New folder that only the user can read. It is removed with this object, at the latest when Python ends.

    Raises TVMagicError if the system has no temporary folder, or no room in it.
    """

    def __init__(self) -> None:
        try:
            super().__init__(prefix="tvmagic-", ignore_cleanup_errors=True)
        except OSError as error:
            raise TVMagicError(
                f"cannot create a temporary folder: {_reason(error)}",
                hint="make room, or name a folder in the environment variable TMPDIR and start Python again",
                code="file.no_temporary_folder",
            ) from error
        self.path = Path(self.name)

    def __enter__(self) -> Path:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.path


# ---------------------------------------------------------------------------- reading what was cached


def digest_of(value: Any) -> str:
    """Return the digest of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_file(path: Any) -> bytes:
    """Return the content of a user's file.

    Raises TVMagicError if it cannot be read. A device or a pipe might have no end.
    """
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(file, "rb") as content:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(0, "it is not a regular file")
            return content.read()
    except (OSError, ValueError) as error:
        raise TVMagicError(f"cannot read `{path}`: {_reason(error)}", code="file.not_readable") from error


def read_trusted(path: Any) -> bytes | None:
    """Return the content of a file, or None if it cannot be read or others can write to it.

    The first file of a session that is not trusted is named on the error stream.
    """
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError):
        return None
    try:
        with open(file, "rb") as content:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return None
            if why := _distrusted(status):
                _warn_once("trust", f"tvmagic does not load `{path}`: {why}")
                return None
            return content.read()
    except OSError:
        return None


def is_trusted(path: Any) -> bool:
    """Return whether only the user and root can write to a file; True if there is none."""
    try:
        return not _distrusted(os.stat(path))
    except (OSError, ValueError):
        return True


def _distrusted(status: os.stat_result) -> str:
    """Return why somebody else may have made a file; empty if only the user and root could."""
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid not in (os.geteuid(), 0):
        return f"its owner is the user {status.st_uid}"
    return "others can write to it" if status.st_mode & _FOREIGN_WRITERS else ""


def _warn_once(kind: str, text: str) -> None:
    if kind not in _warned:
        _warned.add(kind)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the error stream may be closed, or None
            print(text, file=sys.stderr)


def write_entry(path: Any, made_by: dict[str, Any], content: bytes) -> None:
    """Write `content` with its digest and `made_by`, what it depends on, for `read_entry`.

    Raises TVMagicError if the file cannot be written.
    """
    head = json.dumps(made_by, sort_keys=True).encode() + b"\n"
    digest = hashlib.sha256(head + content).hexdigest().encode() + b"\n"
    write_file(path, _MAGIC + digest + head + content, make_folder=True, private=True)


def read_entry(path: Any, made_by: dict[str, Any]) -> bytes | None:
    """Return what `write_entry` wrote for an equal `made_by`, or None.

    A file that is damaged, or was made by something else, is removed.
    """
    data = read_trusted(path)
    if data is None:
        return None
    head = json.dumps(made_by, sort_keys=True).encode() + b"\n"
    before = len(_MAGIC) + 65
    digest = hashlib.sha256(data[before:]).hexdigest().encode() + b"\n"
    if data[:before] == _MAGIC + digest and data[before : before + len(head)] == head:
        return data[before + len(head) :]
    with contextlib.suppress(OSError):
        os.unlink(path)
    return None


def write_table(path: Any, rows: dict[str, Any]) -> None:
    """Write a JSON object, with its digest, for `read_table`.

    Raises TVMagicError if the file cannot be written.
    """
    text = json.dumps({**rows, _DIGEST: digest_of(rows)}, indent=1, sort_keys=True)
    write_file(path, text, make_folder=True, private=True)


def read_table(path: Any) -> dict[str, Any]:
    """Return the JSON object of a file; empty if the file is damaged, or not trusted.

    Files of earlier versions have no digest.
    """
    try:
        rows = json.loads(read_trusted(path) or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(rows, dict):
        return {}
    digest = rows.pop(_DIGEST, None)
    return rows if digest is None or digest == digest_of(rows) else {}


# ---------------------------------------------------------------------------- folders


def cache_folder() -> Path:
    """Return the folder of caches: `TVMAGIC_CACHE`, or `tvmagic` in the user's caches."""
    if named := os.environ.get(_CACHE):
        return Path(named)
    home = _home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "tvmagic"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home) / "tvmagic"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "tvmagic"


def data_folder() -> Path:
    """Return the folder of the user's data."""
    home = _home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "tvmagic"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home) / "tvmagic"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "tvmagic"


def _home() -> Path:
    """Return the user's home, or a path that cannot be written if the system does not know one."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def private_folder() -> Path | None:
    """Return a folder of this machine that only the user can write to, or None.

    In a temporary folder anybody can create a file or a link under a name that tvmagic would use, so a folder that
    exists already must be a real one, and the user's.
    """
    try:
        user = os.geteuid() if hasattr(os, "geteuid") else 0
        folder = Path(tempfile.gettempdir()) / f"tvmagic-{user}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError:
        return None
    trusted = stat.S_ISDIR(status.st_mode) and (
        not hasattr(os, "geteuid") or (status.st_uid == user and not status.st_mode & _FOREIGN_WRITERS)
    )
    return folder if trusted else None
