"""Digests at the end of saved object files and libraries, so that a damaged one is refused before its code runs.

Linkers and loaders ignore bytes behind the last section. What rewrites a file, such as `strip`, drops its digest: the
file is then loaded without this check. macOS signs libraries as a whole, so they get no digest there.
"""

from __future__ import annotations

import hashlib
from typing import Any

from tvmagic.errors import TVMagicError

_MARK = b"\ntvmagic digest "
_LENGTH = len(_MARK) + 65
_AR, _AR_HEADER = b"!<arch>\n", 60


def seal_of(code: bytes) -> bytes:
    """Return what is appended to an object file or a library."""
    return _MARK + hashlib.sha256(code).hexdigest().encode() + b"\n"


def append_seal(path: Any) -> None:
    """Append its digest to a new file. Raises OSError if there is no room."""
    with open(path, "r+b") as file:
        file.write(seal_of(file.read()))


def unsealed(data: bytes, path: Any) -> bytes:
    """Return the content of the object file or library `path` without its digest.

    Raises TVMagicError if the content has another digest, or an ELF file is cut off.
    """
    code, seal = data[:-_LENGTH], data[-_LENGTH:]
    if not seal.startswith(_MARK):
        code = data
    elif seal != seal_of(code):
        raise damaged(path, "its digest is another one")
    if _is_cut_off(code):
        raise damaged(path, "its end is missing")
    return code


def check_archive(data: bytes, path: Any) -> None:
    """Check the digests of the object files in the archive `path`, as `ar` writes it.

    Raises TVMagicError if one of them is damaged.
    """
    at = len(_AR) if data.startswith(_AR) else len(data)
    while at < len(data):
        size = data[at + 48 : at + 58].strip()
        begin = at + _AR_HEADER
        if not size.isdigit() or begin + int(size) > len(data):
            raise damaged(path, "its end is missing")
        at = begin + int(size)
        unsealed(data[begin:at], path)
        at += at % 2


def damaged(path: Any, why: str) -> TVMagicError:
    """Return the error about a file that is damaged."""
    return TVMagicError(
        f"cannot load `{path}`: it is damaged ({why})", hint="save the module again", code="load_module.damaged"
    )


def _is_cut_off(code: bytes) -> bool:
    """Return whether the section table of an ELF file for 64 bits, which is its last part, is missing."""
    if code[:6] != b"\x7fELF\x02\x01":
        return False
    table = int.from_bytes(code[40:48], "little")
    each, count = (int.from_bytes(code[at : at + 2], "little") for at in (58, 60))
    return len(code) < 64 or table + each * count > len(code)
