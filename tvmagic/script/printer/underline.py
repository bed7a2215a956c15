"""A text with places underlined, and only the lines around them."""

from __future__ import annotations

from collections.abc import Iterable

_MIN_CUT = 2  # a single line is shown rather than left out


def decorate(
    text: str,
    ranges: Iterable[tuple[int, int]],
    line_numbers: bool = False,
    context: int | None = None,
    comments: Iterable[str] = (),
) -> str:
    """`text` with `^` under the characters of `ranges` (begin, end left out).

    Indentation is not underlined, nor are lines that are one of `comments`. `context`: how many lines to keep around underlined ones; all
    by default. `line_numbers`: each line begins with its number.
    """
    lines = text.split("\n")
    carets = _carets(lines, ranges)
    exempt = frozenset(comments)
    carets = {number: text for number, text in carets.items() if lines[number].strip() not in exempt}
    width = len(str(len(lines))) + 1 if line_numbers else 0
    shown = _shown_lines(len(lines), sorted(carets), context)
    out: list[str] = []
    last = 0
    for begin, end in shown:
        _write_skipped(out, begin - last)
        for i in range(begin, end):
            out.append((f"{i + 1} ".rjust(width) if line_numbers else "") + lines[i])
            if i in carets:
                out.append(" " * width + carets[i])
        last = end
    _write_skipped(out, len(lines) - last)
    return "\n".join(out)


def _carets(lines: list[str], ranges: Iterable[tuple[int, int]]) -> dict[int, str]:
    """For each line with something underlined, what is under it."""
    result: dict[int, str] = {}
    wanted = sorted(ranges)
    start = 0
    for number, line in enumerate(lines):
        end = start + len(line)
        indent = len(line) - len(line.lstrip(" "))
        columns: set[int] = set()
        for low, high in wanted:
            if low <= end and high > start:
                columns.update(range(max(low - start, indent), min(high - start, len(line))))
        if columns:
            result[number] = "".join(["^" if i in columns else " " for i in range(max(columns) + 1)])
        start = end + 1
    return result


def _shown_lines(count: int, underlined: list[int], context: int | None) -> list[tuple[int, int]]:
    """The chunks of lines to show."""
    if not underlined or context is None or context < 0:
        return [(0, count)]
    chunks: list[tuple[int, int]] = []
    for line in underlined:
        begin, end = max(0, line - context), min(count, line + context + 1)
        if chunks and begin < chunks[-1][1] + _MIN_CUT:
            chunks[-1] = (chunks[-1][0], max(end, chunks[-1][1]))
        else:
            chunks.append((begin, end))
    if chunks[0][0] < _MIN_CUT:
        chunks[0] = (0, chunks[0][1])
    if count - chunks[-1][1] < _MIN_CUT:
        chunks[-1] = (chunks[-1][0], count)
    return chunks


def _write_skipped(out: list[str], count: int) -> None:
    if count > 0:
        out.append(f"(... {count} lines skipped ...)")
