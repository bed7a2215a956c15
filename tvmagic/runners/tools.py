"""The programs and packages that run code for other machines: where they are, and what has them if they are not there."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil

from tvmagic.errors import TVMagicError

__all__ = ["MissingTool", "need_package", "program", "system_libraries"]


class MissingTool(TVMagicError):
    """A program or package is not installed that code for a target is run by."""


def program(names: str, package: str) -> str:
    """The path of the first program of `names` (divided by blanks) that is there; `package` is Debian's with the first one.

    Raises MissingTool if there is none.
    """
    for name in names.split():
        found = shutil.which(name)
        if found is not None:
            return found
    first = names.split()[0]
    raise MissingTool(f"the program `{first}` is not installed", hint=f"`apt-get install {package}` brings it")


def need_package(name: str) -> None:
    """Raise MissingTool unless the Python package `name` is installed; it is not imported here."""
    if importlib.util.find_spec(name) is None:
        raise MissingTool(f"the Python package `{name}` is not installed", hint=f"`pip install {name}` brings it")


def system_libraries(arch: str) -> pathlib.Path:
    """The folder in which programs for Linux on `arch` find their C library: `/usr/aarch64-linux-gnu` in Debian.

    Raises MissingTool if it is not there.
    """
    root = pathlib.Path(f"/usr/{arch}-linux-gnu")
    if not (root / "lib" / "libc.so.6").exists():
        name = {"aarch64": "arm64"}.get(arch, arch)
        raise MissingTool(
            f"the C library for `{arch}` is not installed", hint=f"`apt-get install libc6-{name}-cross` brings it"
        )
    return root
