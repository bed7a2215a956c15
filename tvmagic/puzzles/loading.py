"""Puzzles from their files: those of the package, and a teacher's own."""

from __future__ import annotations

import dataclasses
import re
import runpy
from functools import cache
from pathlib import Path

from tvmagic.errors import TVMagicError
from tvmagic.puzzles.puzzle import Puzzle

_FOLDER = Path(__file__).parent / "collection"
_FILE = re.compile(r"(\d+)_(\w+)\.py")


def puzzle_files() -> dict[int, Path]:
    """The files of the package's puzzles by number."""
    found = ((_FILE.fullmatch(path.name), path) for path in _FOLDER.iterdir())
    return dict(sorted((int(match[1]), path) for match, path in found if match))


def load(path: str | Path) -> Puzzle:
    """The puzzle of a file: what it calls `PUZZLE`. One of the package has its number and its name from the file's.

    Raises `TVMagicError` if the file does not exist, does not run, or has no puzzle.
    """
    path = Path(path)
    try:
        found = runpy.run_path(str(path)).get("PUZZLE")
    except OSError as error:
        raise TVMagicError(
            f"the file `{path}` of a puzzle cannot be read: {error.strerror or error}",
            hint="a puzzle of the package has a number, such as 7; `%puzzle` lists them",
            code="puzzle.file_not_readable",
        ) from error
    except TVMagicError:
        raise
    except Exception as error:
        raise TVMagicError(
            f"the file `{path}` of a puzzle does not run: {type(error).__name__}: {error}", code="puzzle.file_failed"
        ) from error
    if not isinstance(found, Puzzle):
        raise TVMagicError(
            f"the file `{path}` has no puzzle",
            hint="write `PUZZLE = SchedulePuzzle(...)` in it",
            code="puzzle.file_without_puzzle",
        )
    match = _FILE.fullmatch(path.name) if path.parent == _FOLDER else None
    if match is None:
        return dataclasses.replace(found, name=f"own/{path.stem}", address=str(path))
    return dataclasses.replace(found, number=int(match[1]), name=match[2], address=str(int(match[1])))


@cache
def puzzle(number: int) -> Puzzle:
    """The package's puzzle of a number, from 1 on.

    Raises `TVMagicError` if there is none.
    """
    files = puzzle_files()
    if number not in files:
        raise TVMagicError(
            f"there is no puzzle {number}", hint=f"they are numbered from 1 to {max(files)}", code="puzzle.unknown"
        )
    return load(files[number])


def puzzles() -> list[Puzzle]:
    """All puzzles of the package, in order."""
    return [puzzle(number) for number in puzzle_files()]


def prove(subject: Puzzle) -> None:
    """Prove that a puzzle holds what it promises.

    Its solution is solved and its start is not; it has three hints, each for a fault that an answer can have, and three
    wrong answers, each of which gets the hint of its fault.

    Raises `TVMagicError` with all that does not hold.
    """
    wrong: list[str] = []
    verdict = subject.judge(subject.solution)
    if not verdict.solved:
        wrong.append(f"its solution is not solved: {_missed(subject, subject.solution)}")
    if subject.judge(subject.start).solved:
        wrong.append("its start is solved already")
    if len(subject.hints) < 3:
        wrong.append(f"it has {len(subject.hints)} hints, three are needed")
    wrong += [
        f"the hint for `{fault}` is for no fault: {subject.faults}"
        for fault in subject.hints
        if fault not in subject.faults
    ]
    if len({code for code, _ in subject.wrong}) < 3:
        wrong.append(f"it has {len(subject.wrong)} wrong answers, three are needed")
    for number, (answer, fault) in enumerate(subject.wrong, start=1):
        found = subject.judge(answer)
        if found.fault != fault:
            wrong.append(
                f"wrong answer {number} has the fault `{found.fault}`, not `{fault}`: {_missed(subject, answer)}"
            )
        elif not found.hint:
            wrong.append(f"wrong answer {number} gets no hint: none is for `{fault}`")
    if wrong:
        raise TVMagicError(
            f"puzzle {subject.address} does not hold what it promises: " + "; ".join(wrong),
            code="puzzle.promise_broken",
        )


def _missed(subject: Puzzle, answer: str) -> str:
    rows = subject.judge(answer).rows
    return (
        ", ".join(f"{row.what} {row.got} (wanted {row.wanted})" for row in rows if not row.right) or "nothing is wrong"
    )
