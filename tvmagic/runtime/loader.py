"""Load saved modules: an object file, an archive, a shared library."""

from __future__ import annotations

import ctypes
import pathlib
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.files import TemporaryFolder, read_file, write_file
from tvmagic.runtime.description import descriptions_in, read_description
from tvmagic.runtime.module import Module
from tvmagic.runtime.seal import check_archive, unsealed


def read_saved(path: pathlib.Path) -> Module:
    """The module whose object file is `path`; how it is called is told beside it, or inside."""
    beside, code = path.with_suffix(".json"), unsealed(read_file(path), path)
    texts = [read_file(beside).decode(errors="replace")] if beside.exists() else descriptions_in(code)
    if not texts:
        raise TVMagicError(
            f"`{path}` is not an object file of tvmagic",
            hint="save a module with `module.save`",
            code="load_module.not_an_object_file",
        )
    abis, sites, symbols = read_description(texts[0])
    return Module(code, abis, sites, {}, symbols)


# ---------------------------------------------------------------------------- libraries


class _Library:
    """A shared library in this process: a copy of the file, which may be written again meanwhile."""

    def __init__(self, path: pathlib.Path, code: bytes) -> None:
        # Windows does not delete a library that is loaded
        with TemporaryFolder() as folder:
            copy = write_file(folder / path.name, code)
            try:
                self._library = ctypes.CDLL(str(copy))
            except OSError as error:
                raise TVMagicError(f"`{path}` cannot be loaded: {error}", code="load_module.failed") from error

    def address(self, name: str) -> int:
        """The address of a symbol."""
        try:
            symbol = getattr(self._library, name)
        except AttributeError:
            raise TVMagicError(f"the library has no function `{name}`", code="load_module.unknown_function") from None
        return ctypes.cast(symbol, ctypes.c_void_p).value or 0


def _load_library(path: pathlib.Path) -> Module:
    code = unsealed(read_file(path), path)
    texts = descriptions_in(code)
    if not texts:
        raise TVMagicError(
            f"`{path}` is not a library of tvmagic",
            hint="export it with `module.export_library`, or link what `save` wrote",
            code="load_module.not_a_library",
        )
    library = _Library(path, code)
    parts = [Module(b"", *read_description(text)[:2], {}, read_description(text)[2], loaded=library) for text in texts]
    if len(parts) == 1:
        return parts[0]
    whole = Module(b"", [a for p in parts for a in p.abis], [], {}, set(), loaded=library)
    whole.functions = {name: kernel for p in parts for name, kernel in p.functions.items()}
    return whole


def load_module(path: Any, fmt: str = "") -> Module:
    """The module saved as an object file, or exported or linked as a shared library, at `path`.

    An archive (`.tar`, `.a`) is linked by the C compiler first.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise TVMagicError(
            f"there is no file `{path}`",
            hint="save a module with `module.save` or `export_library`",
            code="load_module.no_such_file",
        )
    if path.suffix in (".tar", ".a"):
        return _load_archive(path)
    return read_saved(path) if path.suffix in (".o", ".obj") else _load_library(path)


def _load_archive(path: pathlib.Path) -> Module:
    """The module of an archive of object files."""
    from tvmagic.runtime import cc
    from tvmagic.runtime.tar import untar

    with TemporaryFolder() as folder:
        library = folder / f"{path.stem}.so"
        if path.suffix == ".a":
            check_archive(read_file(path), path)
            cc.create_shared(str(library), ["-Wl,--whole-archive", str(path), "-Wl,--no-whole-archive"])
        else:
            (folder / "parts").mkdir()
            untar(path, folder / "parts")
            parts = sorted((folder / "parts").iterdir())
            for part in parts:
                unsealed(read_file(part), path)
            cc.create_shared(str(library), [str(part) for part in parts])
        return _load_library(library)
