"""Differences of two programs by line and by word.

Lines are matched by their text without indentation, so that a loop put around a body shows as one
new line and a shift, not as a new body.
"""

from __future__ import annotations

import bisect
import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_WORDS = re.compile(r"\w+|\s+|.")
LIKE = 0.45
_PAIRING_LIMIT = 40
_MATCHED = 40_000  # pairs of lines, or of words, that are all compared with each other
_EDITS = 64  # so many insertions and removals are tried in all combinations before the best one is kept

Marks = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a comparison.

    `kind` is `same`, `moved` (only the indentation differs), `edited`, `removed` or `added`;
    `before` and `after` are line numbers from 0, None on the side that has no line; the marks are
    the parts of each line that differ, as (start, end) in characters.
    """

    kind: str
    before: int | None
    after: int | None
    before_marks: Marks = field(default=())
    after_marks: Marks = field(default=())


def diff_lines(before: Sequence[str], after: Sequence[str]) -> list[Row]:
    """The rows that show `before` beside `after`, in order."""
    start, end = _common_ends(before, after)
    rows = [Row("same", i, i) for i in range(start)]
    a, b = before[start : len(before) - end], after[start : len(after) - end]
    left, right = [line.strip() for line in a], [line.strip() for line in b]
    for equal, i, i_end, j, j_end in _segments(left, right):
        if equal:
            for p, q in zip(range(i, i_end), range(j, j_end)):
                kind = "same" if a[p] == b[q] else "moved"
                rows.append(Row(kind, start + p, start + q))
        else:
            rows += _replaced(a, b, range(i, i_end), range(j, j_end), start)
    tail_a, tail_b = len(before) - end, len(after) - end
    return rows + [Row("same", tail_a + k, tail_b + k) for k in range(end)]


Part = tuple[bool, int, int, int, int]


def _segments(left: Sequence[str], right: Sequence[str]) -> Iterator[Part]:
    """Two sequences of lines or words in parts that are equal and parts that are not: (equal, begin, end, begin, end).

    Long ones are divided at what both have once, so that the time does not grow with the square
    if lines such as `for i in range(64):` occur again and again.
    """
    i, j = 0, 0
    anchors = _anchors(left, right) if len(left) * len(right) > _MATCHED else []
    for p, q in [*anchors, (len(left), len(right))]:
        inside = (left[i:p], right[j:q])
        between = _segments(*inside) if anchors else _matched(*inside)
        yield from ((e, i + a, i + a_end, j + b, j + b_end) for e, a, a_end, b, b_end in between)
        if p < len(left):
            yield True, p, p + 1, q, q + 1
        i, j = p + 1, q + 1


def _matched(left: Sequence[str], right: Sequence[str]) -> Iterator[Part]:
    if not left or not right:
        if left or right:
            yield False, 0, len(left), 0, len(right)
    elif len(left) * len(right) > _MATCHED:
        yield from _walked(left, right)
    else:
        matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
        for tag, i, i_end, j, j_end in matcher.get_opcodes():
            yield tag == "equal", i, i_end, j, j_end


def _walked(left: Sequence[str], right: Sequence[str]) -> Iterator[Part]:
    """The parts of long sequences that have little in common once, by Myers' greedy walk.

    The walk keeps, for each number of edits, how far each diagonal gets. After `_EDITS` of them it commits to the path
    that got farthest and starts again at its end, so that the time grows with the length alone.
    """
    x = y = i = j = 0  # what is equal is said up to (i, j), and looked for up to (x, y)
    while x < len(left) or y < len(right):
        for x, y, equal in _farthest(left, right, x, y):
            if equal:
                if (i, j) != (x, y):
                    yield False, i, x, j, y
                yield True, x, x + equal, y, y + equal
                x, y = i, j = x + equal, y + equal
    if (i, j) != (x, y):
        yield False, i, x, j, y


def _farthest(left: Sequence[str], right: Sequence[str], x: int, y: int) -> list[tuple[int, int, int]]:
    """The path from (x, y) on that gets farthest with `_EDITS` edits: where it is after each, and how much is equal there.

    Diagonals are numbered by the difference of both places, counted from where the walk began.
    """
    shift, goal = x - y, len(left) - len(right) - (x - y)
    ends = {0: _equal_until(left, right, x, y)}  # the place in `left` that each diagonal gets to
    history = [ends]
    while ends.get(goal) != len(left) and len(history) <= _EDITS:
        before, ends = ends, {}
        for k in range(-len(history), len(history) + 1, 2):
            at = _edited(before, k, len(left), len(right) + shift)
            if at is not None:
                ends[k] = _equal_until(left, right, at[0], at[0] - k - shift)
        history.append(ends)
    k = goal if ends.get(goal) == len(left) else max(ends, key=lambda k: 2 * ends[k] - k)
    path: list[tuple[int, int, int]] = []
    for ends, before in zip(history[:0:-1], history[-2::-1]):
        at = _edited(before, k, len(left), len(right) + shift)
        assert at is not None
        path.append((at[0], at[0] - k - shift, ends[k] - at[0]))
        k = at[1]
    return [(x, y, history[0][0] - x), *path[::-1]]


def _edited(before: dict[int, int], k: int, end: int, low: int) -> tuple[int, int] | None:
    """Where diagonal `k` begins after another edit, and the diagonal that the edit starts from.

    An insertion comes from the diagonal above, and a removal from the one below, if both sequences have room for it.
    """
    inserted = before.get(k + 1, -1)
    removed = before.get(k - 1, -2) + 1
    if inserted - k > low:
        inserted = -1
    if removed > end:
        removed = -1
    if inserted < 0 and removed < 0:
        return None
    return (inserted, k + 1) if inserted >= removed else (removed, k - 1)


def _equal_until(left: Sequence[str], right: Sequence[str], x: int, y: int) -> int:
    """How far `left` from `x` and `right` from `y` are the same: the end in `left`."""
    while x < len(left) and y < len(right) and left[x] == right[y]:
        x, y = x + 1, y + 1
    return x


def _anchors(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs of lines that occur once in both, as many as have the same order."""
    once = [_unique_lines(left), _unique_lines(right)]
    pairs = [(p, once[1][line]) for line, p in once[0].items() if line in once[1]]
    ends: list[int] = []  # of each length of a rising sequence, the least place that it ends at
    chains: list[tuple[int, int, int]] = []  # a pair, and the pair before it in its sequence
    tops: list[int] = []
    for p, q in pairs:
        length = bisect.bisect_left(ends, q)
        before = tops[length - 1] if length else -1
        ends[length : length + 1], tops[length : length + 1] = [q], [len(chains)]
        chains.append((p, q, before))
    found: list[tuple[int, int]] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        p, q, at = chains[at]
        found.append((p, q))
    return found[::-1]


def _unique_lines(text: Sequence[str]) -> dict[str, int]:
    """The lines that occur once, with their places."""
    counts = Counter(text)
    return {line: n for n, line in enumerate(text) if counts[line] == 1}


def _common_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning and at the end."""
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, end


def _replaced(a: Sequence[str], b: Sequence[str], left: range, right: range, offset: int) -> list[Row]:
    """Rows for lines that were replaced: like ones side by side, the others removed and added."""
    rows: list[Row] = []
    i, j = left.start, right.start
    for p, q in _pairs(a, b, left, right):
        rows += [Row("removed", offset + k, None) for k in range(i, p)]
        rows += [Row("added", None, offset + k) for k in range(j, q)]
        marks = word_marks(a[p], b[q])
        rows.append(Row("edited", offset + p, offset + q, *marks))
        i, j = p + 1, q + 1
    rows += [Row("removed", offset + k, None) for k in range(i, left.stop)]
    rows += [Row("added", None, offset + k) for k in range(j, right.stop)]
    return rows


def _pairs(a: Sequence[str], b: Sequence[str], left: range, right: range) -> list[tuple[int, int]]:
    """Pairs of like lines in order, chosen so that the likenesses add up to the most."""
    if not left or not right:
        return []
    if len(left) > _PAIRING_LIMIT or len(right) > _PAIRING_LIMIT:
        return [(p, q) for p, q in zip(left, right) if likeness(a[p], b[q]) >= LIKE]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    like = [[likeness(a[p], b[q]) for q in right] for p in left]
    for x in range(len(left) - 1, -1, -1):
        for y in range(len(right) - 1, -1, -1):
            pair = like[x][y] + best[x + 1][y + 1] if like[x][y] >= LIKE else 0.0
            best[x][y] = max(pair, best[x + 1][y], best[x][y + 1])
    result, x, y = [], 0, 0
    while x < len(left) and y < len(right):
        if like[x][y] >= LIKE and best[x][y] == like[x][y] + best[x + 1][y + 1]:
            result.append((left[x], right[y]))
            x, y = x + 1, y + 1
        elif best[x][y] == best[x + 1][y]:
            x += 1
        else:
            y += 1
    return result


@lru_cache(maxsize=16384)
def _tokens(line: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(line.strip()))


@lru_cache(maxsize=16384)
def _counts(line: str) -> Counter[str]:
    return Counter(_tokens(line))


@lru_cache(maxsize=65536)
def likeness(a: str, b: str) -> float:
    """From 0 to 1: how much of two lines is the same, by words, in this order unless the lines are very long."""
    left, right = _tokens(a), _tokens(b)
    if not left or not right:
        return 0.0
    shorter, longer = sorted((left, right), key=len)
    if len(shorter) > 2 and longer[: len(shorter)] == shorter:
        return 0.8  # a line that only grew
    ratio = 2 * sum((_counts(a) & _counts(b)).values()) / (len(left) + len(right))
    if ratio < LIKE or len(left) * len(right) > _MATCHED:
        return ratio if ratio >= LIKE else 0.0
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


def word_marks(before: str, after: str) -> tuple[Marks, Marks]:
    """The parts of two lines that differ, by words; leading blanks are not marked."""
    left, right = _WORDS.findall(before), _WORDS.findall(after)
    skip_a = 1 if left and left[0].isspace() else 0
    skip_b = 1 if right and right[0].isspace() else 0
    a, b = _offsets(left), _offsets(right)
    marks_a: list[tuple[int, int]] = []
    marks_b: list[tuple[int, int]] = []
    for equal, i, i_end, j, j_end in _segments(left[skip_a:], right[skip_b:]):
        if equal:
            continue
        if i_end > i:
            marks_a.append((a[skip_a + i], a[skip_a + i_end]))
        if j_end > j:
            marks_b.append((b[skip_b + j], b[skip_b + j_end]))
    return _merge_marks(marks_a, before), _merge_marks(marks_b, after)


def _offsets(words: Sequence[str]) -> list[int]:
    offsets = [0]
    for word in words:
        offsets.append(offsets[-1] + len(word))
    return offsets


def _merge_marks(marks: list[tuple[int, int]], line: str) -> Marks:
    """Marks with only blanks between them made one."""
    result: list[tuple[int, int]] = []
    for start, end in marks:
        if result and not line[result[-1][1] : start].strip():
            result[-1] = (result[-1][0], end)
        else:
            result.append((start, end))
    return tuple(result)
