"""`%why`: an explanation as a table of hot loops, findings in words, a roofline, and the hottest loop's assembly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.eval.cost import human
from tvmagic.explain import Explanation, Finding, LoopRow, explain
from tvmagic.explain.finding_measurement import measure_calls
from tvmagic.explain.machine_limits import HERTZ, bandwidths, hertz_of
from tvmagic.model.traffic import LEVELS
from tvmagic.notebook.commands import target_text
from tvmagic.notebook.html import escape, frame, sentence
from tvmagic.notebook.pictures.roofline import Point, roofline
from tvmagic.notebook.pictures.svg import drawing, rectangle, text
from tvmagic.notebook.results import Listing, Parts, Picture, Shown, Table
from tvmagic.notebook.view import format_seconds
from tvmagic.operators import Version
from tvmagic.operators.cpu_contention import shared
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.measure import Timing, measure
from tvmagic.operators.peaks import Peaks, measured_peaks
from tvmagic.target import resolved

_ROOM = 56  # pixels that a number of bytes takes
_COLOURS = ("#8fbcd4", "#5b8db8", "#b58a3c", "#b0483c")
_FAR = 4  # times the modelled time from which on the model misses something
_TWICE = 2.0  # times the modelled time from which on nothing is called at its roof
_CALL = 50e-6  # seconds that a call with its threads may take whatever it computes
_LONGEST = 2.0  # seconds of a call by the model up to which it is measured
_SHORT = 0.25  # seconds of a call up to which the calls of findings are measured
_ROWS = 60  # instructions that are shown


class Why(Parts):
    """What `%why` shows; `explanation` has the same as data, `seconds` is the time of a call, None if it was not run."""

    def __init__(self, explanation: Explanation, parts: Sequence[Shown], seconds: float | None) -> None:
        super().__init__(*parts, title=f"Why: {explanation.name} ({explanation.version})")
        self.explanation, self.seconds = explanation, seconds

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain data."""
        return self.explanation.to_json()


def why(version: Version, target: str | None = None, size: int = 256, run: bool = True, inputs: Any = None) -> Why:
    """Where the time of a version goes and what would help; if it runs on this machine, its time and what each call gains are measured.

    Parameters
    ----------
    size: the value of symbolic sizes.
    run: measure the version, in all its threads, and the calls of findings, of which those that are no help are left out; without it
        the table has shares of the modelled time alone.
    inputs: what is measured on, by default the operator's `example_inputs`, else random; see `make_inputs`.
    """
    chosen = target_text(target)
    explanation = explain(version, chosen, size)
    timing = None
    if run:
        own = resolved(chosen) == resolved(None) and resolved(None).is_host
        reason = (
            _obstacle(explanation) if own else f"it is explained for `{target}`, which is not what is compiled for here"
        )
        try:
            timing = _measured(version, size, inputs) if not reason else None
        except TVMagicError as error:
            reason = error.message
        if reason:
            explanation.notes.append(f"not measured: {reason}")
    if timing is not None:
        withdraw_limit(explanation, timing.best, chosen)
        explanation.notes += shared({version.name: timing.waited})
        if timing.best < _SHORT:
            measure_calls(explanation, version, size, inputs=inputs)
    return explanation_view(explanation, timing.best if timing is not None else None, chosen)


def _slower(explanation: Explanation, seconds: float, peaks: Peaks) -> float:
    """How many times as long a call takes as by the model; 1 if it takes less time."""
    return max(1.0, seconds * hertz_of(explanation.machine, peaks) / max(explanation.cycles, 1e-9))


def withdraw_limit(explanation: Explanation, seconds: float, target: str | None) -> None:
    """Say so if the measured time is far from the modelled one; nothing is known to be at its limit then, and if it is twice as long."""
    if seconds >= _CALL and _slower(explanation, seconds - _CALL, measured_peaks(target)) >= _TWICE:
        explanation.findings[:] = [finding for finding in explanation.findings if finding.code != "at-roof"]
    expected = explanation.cycles / HERTZ
    if seconds >= _FAR * expected + _CALL:
        explanation.notes.append(
            f"a call takes {format_seconds(seconds)}, and {format_seconds(expected)} by the model: what takes most of the time is not in it"
        )


def _obstacle(explanation: Explanation) -> str:
    """Why a call is not measured: in words, empty if it is."""
    seconds = explanation.cycles / HERTZ
    if seconds < _LONGEST:
        return ""
    return (
        f"a call takes about {format_seconds(seconds)} by the model; `%bench {explanation.name}` runs it all the same"
    )


def _measured(version: Version, size: int, inputs: Any = None) -> Timing:
    """The time of a call."""
    arrays = make_inputs(version.operator, 0, size, inputs)
    outputs = version(*arrays)
    return measure(lambda: version(*arrays, out=outputs), seconds=0.1)


def explanation_view(explanation: Explanation, seconds: float | None = None, target: str | None = None) -> Why:
    """An explanation to look at; `seconds` is the measured time of a call of code for `target`."""
    peaks = measured_peaks(target) if seconds is not None else None
    parts: list[Shown] = [_table(explanation, seconds, peaks), Findings(explanation.findings)]
    if explanation.loops:
        parts.append(_bytes_bar(explanation.loops))
    if seconds is not None and peaks is not None and explanation.loops:
        parts.append(_roofline(explanation, seconds, peaks))
    if explanation.assembly:
        parts.append(_assembly(explanation))
    return Why(explanation, parts, seconds)


# ---------------------------------------------------------------------------- the table


def _table(explanation: Explanation, seconds: float | None, peaks: Peaks | None) -> Table:
    columns = [
        "loops", "time", "limited by", "reached", "operations", *LEVELS, "cycles an iteration", "busiest", "registers",
        "spills", "vectors", "computed for one used",
    ]  # fmt: skip
    slower = _slower(explanation, seconds, peaks) if seconds is not None and peaks is not None else 1.0
    rows = [_row(row, seconds, slower) for row in explanation.loops]
    whole = f"{format_seconds(seconds)} a call, measured" if seconds is not None else f"{human(explanation.cycles)} cycles a call by the model"  # fmt: skip
    title = f"{explanation.name} ({explanation.version}): {whole}, on {explanation.machine.name}"
    return Table(columns, rows, title, explanation.notes)


def _row(row: LoopRow, seconds: float | None, slower: float) -> list[Any]:
    time = f"{row.share:.0%}" + (f", {format_seconds(seconds * row.share)}" if seconds is not None else "")
    return [
        f"{row.nest}: {' > '.join(row.loops)}", time, row.roof, f"{row.roof_share / slower:.0%}", human(row.flops),
        *(human(row.bytes[level], "B") for level in LEVELS), f"{row.cycles:.3g} of {row.loop}", row.port,
        f"{row.registers} of {row.registers_there}", row.spills, row.vectorized, f"{row.recomputed:.3g}",
    ]  # fmt: skip


# ---------------------------------------------------------------------------- the findings


class Findings(Shown):
    """Findings as a list, worst first, each with its call to paste."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings, self.title = list(findings), "Findings"

    def html(self, styled: bool = True) -> str:
        items = "".join(map(_finding_html, self.findings))
        body = f"<ol>{items}</ol>" if items else '<div class="tm-meta">Nothing found that a call would mend.</div>'
        return frame(f'<div class="tm-title">{self.title}</div>{body}', self.title, styled)

    def text(self, colour: bool | None = None) -> str:
        lines = [self.title] if self.findings else ["Nothing found that a call would mend."]
        for number, finding in enumerate(self.findings, 1):
            lines.append(f"{number}. {finding.code}: {finding.text}")
            lines.append(f"   {_location(finding)}")
            if finding.call:
                lines.append(f"   {_advice(finding)}")
                lines += [f"       {line}" for line in finding.call.split("\n")]
        return "\n".join(lines)


def _location(finding: Finding) -> str:
    places = [f"line {finding.line} of the lowered program"] * (finding.line > 0)
    places += [f"line {finding.cell_line} of the cell"] * (finding.cell_line > 0)
    return ", ".join(places)


def _advice(finding: Finding) -> str:
    first, last = finding.cell_line, finding.cell_line + finding.lines - 1
    lines = f"line {first}" if last <= first else f"lines {first} to {last}"
    where = f"in the place of {lines}" if finding.replaces else "at the end of the %%schedule cell"
    measured = f", {finding.measured:.3g} times measured" if finding.measured else ""
    return f"{where}, about {finding.gain:.3g} times as fast by the model{measured}:"


def _finding_html(finding: Finding) -> str:
    call = ""
    if finding.call:
        call = f'<div class="tm-meta">{sentence(_advice(finding))}</div><pre>{escape(finding.call)}</pre>'
    place = escape(_location(finding))
    return (
        f'<li><b>{escape(finding.code)}</b>: {sentence(finding.text)} <span class="tm-meta">({place})</span>{call}</li>'
    )


# ---------------------------------------------------------------------------- pictures


def _roofline(explanation: Explanation, seconds: float, peaks: Peaks) -> Picture:
    """Each hot loop nest under the roof of the memory that its data is in, for as many threads as work on it."""
    reach = bandwidths(explanation.machine, peaks)
    points = [roof_point(row, seconds, peaks, reach) for row in explanation.loops if row.flops]
    threads = max((row.threads for row in explanation.loops), default=1.0)
    title = "Roofline of one thread" + (f", with a thread's part of what {threads:.2g} compute" if threads > 1 else "")
    return roofline(peaks, points, title, reach)


def roof_point(row: LoopRow, seconds: float, peaks: Peaks, reach: Mapping[str, float]) -> Point:
    """A nest's operations a second in one thread. What is faster than the memory that it should come from by the model came from a
    nearer one."""
    flops = row.flops / (row.share * seconds) / row.threads
    levels = [level for level in reversed(LEVELS) if row.bytes[level]] or ["memory"]
    points: list[Point] = []
    for level in levels:
        intensity = row.intensity if level == "memory" else row.flops / row.bytes[level]
        points.append(Point(row.nest, intensity, flops, level))
    return next((p for p in points if p.share(peaks.flops, reach) <= 1), points[-1])


def _bytes_bar(rows: Sequence[LoopRow]) -> Picture:
    """For each hot loop nest one bar of the bytes that each level of memory moves, to one scale."""
    width, height, left = 520.0, 26.0, 150.0
    most = max(max(sum(row.bytes[level] for level in LEVELS) for row in rows), 1)
    parts: list[str] = []
    words: list[str] = []
    for number, row in enumerate(rows):
        y, x = 6 + number * height, left
        parts.append(text(left - 8, y + 14, row.nest[:20], text_anchor="end", fill="currentColor"))
        for level, colour in zip(LEVELS, _COLOURS):
            size = row.bytes[level]
            part = (width - left - 10) * size / most
            parts.append(rectangle(x, y, part, height - 8, f"{level}: {human(size)} bytes", fill=colour))
            if part >= _ROOM:
                ink = "#ffffff" if level == "memory" else "#111111"
                parts.append(text(x + part / 2, y + 13, human(size, "B"), text_anchor="middle", fill=ink))
            x += part
        words.append(f"{row.nest}: " + ", ".join(f"{level} {human(row.bytes[level], 'B')}" for level in LEVELS))
    bottom = 12 + len(rows) * height
    for number, (level, colour) in enumerate(zip(LEVELS, _COLOURS)):
        parts.append(rectangle(left + 90 * number, bottom, 12, 12, fill=colour))
        parts.append(text(left + 90 * number + 17, bottom + 11, level, fill="currentColor"))
    title = "Bytes moved by each level"
    return Picture(drawing(width, bottom + 20, title, "; ".join(words), parts), "\n".join(words), title)


def _assembly(explanation: Explanation) -> Listing:
    """The hottest loop's instructions, with what each keeps busy if that is known."""
    rows = [row.expandtabs(8) for row, _ in explanation.assembly]
    if any(explanation.pressure):
        wide = min(max(map(len, rows)), 60)
        rows = [f"{row:<{wide}}  # {busy}" if busy else row for row, busy in zip(rows, explanation.pressure)]
    left_out = len(rows) - _ROWS
    if left_out > 0:
        rows = [*rows[:_ROWS], f"        # ... {left_out} more"]
    title = "The hottest loop in machine code"
    if explanation.body_cycles:
        title += f": {explanation.body_cycles:.3g} cycles each time through, by {explanation.cycles_by}"
    return Listing(rows, "asm", title)
