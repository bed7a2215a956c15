"""Code in C as text for LLVM, by the compiler clang."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tvmagic.errors import TVMagicError
from tvmagic.files import TemporaryFolder, write_file
from tvmagic.tools import CLANG

__all__ = ["create_llvm", "find_clang"]


def find_clang(required: bool = True) -> list[str]:
    """Return the names of the installed clangs, the newest first. Raise MissingTool if one is `required` and none is installed."""
    found = [name for name in CLANG.programs if CLANG.find(name)]
    if not found and required:
        raise CLANG.missing()
    return found


def create_llvm(
    inputs: str | Sequence[str], output: str | None = None, options: Sequence[str] | None = None, cc: str | None = None
) -> str:
    """The text for LLVM of C or C++ code, for `pragma_import_llvm`.

    inputs: the code, or a file with it; output: a file that gets the text, too; options: further ones of clang, such
    as `-O3`, which is used without them; cc: the clang to use.
    """
    compiler = cc or find_clang()[0]
    codes = [inputs] if isinstance(inputs, str) else list(inputs)
    if len(codes) != 1:
        raise TVMagicError(
            f"clang makes LLVM's text of one file at a time, not of {len(codes)}", code="clang.several_files"
        )
    with TemporaryFolder() as folder:
        source, text = Path(codes[0]), folder / "code.ll"
        if "\n" in codes[0] or "{" in codes[0]:
            source = write_file(folder / "code.cc", codes[0])
        command = [
            compiler,
            *(["-O3"] if options is None else options),
            "-emit-llvm",
            "-S",
            str(source),
            "-o",
            str(text),
        ]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise TVMagicError(
                f"clang does not take the code:\n{result.stderr.strip()}", code="clang.compilation_failed"
            )
        found = text.read_text(encoding="utf-8")
    if output is not None:
        write_file(output, found)
    return found
