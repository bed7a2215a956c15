"""`python -m tvmagic.puzzles FILE ...`: whether the puzzles of files hold what they promise."""

from __future__ import annotations

import sys

from tvmagic.errors import TVMagicError
from tvmagic.puzzles.loading import load, prove


def main(paths: list[str]) -> int:
    """Prove each puzzle, say what is wrong; the exit status is 1 if anything is."""
    failed = 0
    for path in paths:
        try:
            prove(load(path))
            print(f"{path}: the solution passes, and each wrong answer gets its hint")
        except TVMagicError as error:
            failed = 1
            print(f"{path}: {error.message}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
