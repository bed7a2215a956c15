"""Terms as text: infix, cut where they are long, and two terms side by side with their equal operands once."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np

from tvmagic.prove.terms import Terms
from tvmagic.prove.witness import name_of, number_text

_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2), "lt": ("<", 0), "le": ("<=", 0), "eq": ("==", 0), "ne": ("!=", 0)}  # fmt: skip
_DEPTH, _MOST_OPERANDS = 8, 12


def term_text(terms: Terms, term: int, depth: int = _DEPTH) -> str:
    """A term as text; deep operands are `...`, long sums are cut in the middle."""
    return _text(terms, term, depth)[0]


def sides_text(terms: Terms, got: int, wanted: int) -> tuple[str, str]:
    """Two terms as text; of sums the operands that both have are only counted."""
    sides = [_operands(terms, t) for t in (got, wanted)]
    if max(map(len, sides)) <= 3:
        return term_text(terms, got), term_text(terms, wanted)
    common = Counter(sides[0]) & Counter(sides[1])
    texts = []
    for side in sides:
        left = list((Counter(side) - common).elements())
        text = " + ".join(left[:_MOST_OPERANDS]) + (
            f" + ... {len(left) - _MOST_OPERANDS} more" if len(left) > _MOST_OPERANDS else ""
        )
        equal = f"... {common.total()} equal terms" if common else ""
        texts.append(" + ".join(t for t in (equal, text) if t))
    return texts[0], texts[1]


def _operands(terms: Terms, term: int) -> list[str]:
    """The operands of a sum as text."""
    return [_text(terms, t, 4)[0] for t in _summands(terms, term)]


def _summands(terms: Terms, term: int) -> list[int]:
    """The operands of a sum, zeros left out; of other terms the term itself."""
    add, found, pending = terms.code("add"), [], [term]
    while pending and len(found) < 4096:
        node = pending.pop()
        if int(terms.columns["op"][node]) == add:
            pending += [int(terms.columns["b"][node]), int(terms.columns["a"][node])]
        elif not terms.is_constant(np.asarray(node), 0):
            found.append(node)
    return found or [term]


def _text(terms: Terms, term: int, depth: int) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    columns = terms.columns
    op = terms.op_names[columns["op"][term]]
    if op == "const":
        value = terms.constant_value(term)
        return (value if isinstance(value, str) else _constant_text(value)), 3
    if op in ("input", "unwritten"):
        return name_of(terms, term), 3
    if depth == 0:
        return "...", 3
    if op == "add" and (found := _summands(terms, term)) != [term]:
        texts = [
            _text(terms, t, depth - 1)[0] for t in (found if len(found) <= _MOST_OPERANDS else (found[0], found[-1]))
        ]
        if len(found) > _MOST_OPERANDS:
            texts.insert(1, f"... {len(found) - 2} terms")
        return " + ".join(texts), 1
    args = [_text(terms, int(columns[c][term]), depth - 1) for c in "abc" if columns[c][term]]
    if op in _INFIX:
        sign, level = _INFIX[op]
        left = args[0][0] if args[0][1] >= level else f"({args[0][0]})"
        right = args[1][0] if args[1][1] > level or (op == "mul" and args[1][1] >= level) else f"({args[1][0]})"
        return f"{left} {sign} {right}", level
    name = op.replace("cast ", "") if op.startswith("cast ") else op
    return f"{name}({', '.join(a for a, _ in args)})", 3


def _constant_text(value: Fraction | int | bool) -> str:
    if isinstance(value, Fraction) and value.denominator != 1:
        return repr(float(value)) if Fraction(float(value)) == value else str(value)
    return number_text(value)
