"""Small functions on which calls of primitives are refused, by name, from `schedule_refusal_programs.txt`.

Each breaks one requirement at least. A function follows a line `--- NAME`, perhaps below lines of comments.
"""

from __future__ import annotations

import pathlib

SIGNATURE = 'A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")'
_FILE = pathlib.Path(__file__).with_suffix(".txt")


def function(body: str, signature: str = SIGNATURE) -> str:
    lines = [f"    {line}" if line else line for line in body.strip("\n").split("\n")]
    return f"@T.prim_func(private=True)\ndef f({signature}):\n" + "\n".join(lines) + "\n"


def _read() -> dict[str, str]:
    found = {}
    for part in _FILE.read_text(encoding="utf-8").split("\n--- ")[1:]:
        name, _, text = part.partition("\n")
        lines = [line for line in text.split("\n") if not line.startswith("#")]
        text = "\n".join(lines)
        found[name] = text if text.startswith("@") else "@T.prim_func(private=True)\n" + text
    return found


PROGRAMS: dict[str, str] = _read()
