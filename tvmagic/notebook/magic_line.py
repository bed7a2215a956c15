"""Comments above the line of a cell's magic: IPython takes a cell magic from the first line alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tvmagic.notebook.magics import TensorMagics

_MAGIC = re.compile(r"\s*%%(\w+)")


def install(shell: Any, magics: TensorMagics) -> Callable[[], None]:
    """Let our cells begin with comments and empty lines; returns what takes that away again."""
    table = shell.magics_manager.magics["cell"]

    def magic_first(lines: list[str]) -> list[str]:
        """The cell with the line of our magic first, if only comments and empty lines are above it.

        They go below it, so that the lines of the body keep their numbers. A byte order mark, with which a text from a file may
        begin, says nothing.
        """
        lines = [line.removeprefix("\ufeff") if n == 0 else line for n, line in enumerate(lines)]
        for number, line in enumerate(lines):
            if (found := _MAGIC.match(line)) is not None:
                if getattr(table.get(found[1]), "__self__", None) is not magics:
                    return lines
                return [line.strip() + "\n", *lines[:number], *lines[number + 1 :]]
            if line.strip() and not line.lstrip().startswith("#"):
                return lines
        return lines

    shell.input_transformers_cleanup.append(magic_first)
    return lambda: shell.input_transformers_cleanup.remove(magic_first)
