"""A text with a small fault, as people make them: a word that is missing, doubled, or another one."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tvmagic.errors import TVMagicError

__all__ = ["EDITS", "changed_lines", "changes", "edited", "random_edits", "words_of"]

EDITS = ("without", "twice", "swapped")
_PIECES = re.compile(r"[\w.]+|\s+|[^\w\s]")


def words_of(text: str) -> list[int]:
    """The places of words, numbers and signs among the pieces of a text."""
    return [place for place, piece in enumerate(_PIECES.findall(text)) if not piece.isspace()]


def edited(text: str, edit: str, number: int) -> str:
    """The text `without` its word of a number, with it `twice`, or `swapped` with the next one."""
    pieces, places = _PIECES.findall(text), words_of(text)
    at = places[number]
    if edit == "without":
        pieces[at] = ""
    elif edit == "twice":
        pieces[at] = f"{pieces[at]} {pieces[at]}"
    else:
        other = places[(number + 1) % len(places)]
        pieces[at], pieces[other] = pieces[other], pieces[at]
    return "".join(pieces)


def random_edits(text: str, rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Some edits, each with its name: mostly a name, a number or an operator of the text in the place of another."""
    found: list[tuple[str, str]] = []
    pieces, places = _PIECES.findall(text), words_of(text)
    for _ in range(count):
        number = rng.randrange(len(places))
        word = pieces[places[number]]
        others = sorted({piece for piece in pieces if _kind(piece) == _kind(word)} - {word})
        if not _kind(word) or not others or rng.random() < 0.1:
            edit = rng.choice(EDITS)
            found.append((f"{edit} {number}", edited(text, edit, number)))
            continue
        new = rng.choice(others)
        changed = [*pieces[: places[number]], new, *pieces[places[number] + 1 :]]
        found.append((f"{number} is {new} for {word}", "".join(changed)))
    return found


def _kind(word: str) -> str:
    """Of what may be in each other's place: names, numbers, operators; empty for brackets and commas."""
    if word[0].isalpha() or word[0] in "_.":
        return "name"
    return "number" if word[0].isdigit() else "operator" if word in "+-*/%<>" else ""


def changes(text: str, edits: list[tuple[str, str]], answer: Callable[[str], str]) -> str:
    """What each edit changes of the answer to a text, or how it is refused, a line for each."""
    before = answer(text)
    return "\n".join(f"{name}: {_said(before, new, answer)}" for name, new in edits)


def _said(before: str, text: str, answer: Callable[[str], str]) -> str:
    try:
        return changed_lines(before, answer(text))
    except TVMagicError as error:
        span = error.span
        place = "" if span is None else f" at {span.line}:{span.column} to {span.end_line}:{span.end_column}"
        return f"refused: {error.message}{place}" + (f", hint: {error.hint}" if error.hint else "")


def changed_lines(before: str, after: str) -> str:
    """The lines that only one of two texts has, in order: `- gone | + new`."""
    old, new = before.splitlines(), after.splitlines()
    kept = {*old} & {*new}
    gone = [f"- {line.strip()}" for line in old if line not in kept]
    return " | ".join([*gone, *(f"+ {line.strip()}" for line in new if line not in kept)]) or "the same"
