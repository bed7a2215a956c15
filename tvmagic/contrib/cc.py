"""The C compiler of this machine as a linker."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from tvmagic.errors import TVMagicError

__all__ = ["create_shared", "create_staticlib", "get_cc"]


def get_cc() -> str | None:
    """The name of the C compiler; None if there is none."""
    return next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def create_shared(
    output: str, objects: Sequence[str] | str, options: Sequence[str] = (), cc: str | None = None
) -> None:
    """Link object files to the shared library `output`, by the compiler `cc`."""
    compiler = cc or get_cc()
    given = [objects] if isinstance(objects, str) else list(objects)
    if compiler is None:
        raise TVMagicError("there is no C compiler to link with", hint="install one, or pass cc=...")
    _run([str(compiler), "-shared", "-fPIC", "-o", str(output), *map(str, given), *options, "-lm"])


def create_staticlib(output: str, inputs: Sequence[str] | str, ar: str = "ar") -> None:
    """Put object files into the archive `output`."""
    _run([ar, "rcs", str(output), *([inputs] if isinstance(inputs, str) else map(str, inputs))])


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise TVMagicError(f"there is no program `{command[0]}` to link with", hint="pass cc=...") from error
    except subprocess.CalledProcessError as error:
        raise TVMagicError(f"the module cannot be linked: {error.stderr.strip()}") from error
