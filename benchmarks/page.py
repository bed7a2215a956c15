"""The page of results: tables, and bars as SVG. No package beyond Python's own is needed."""

from __future__ import annotations

import html
from typing import Any

from benchmarks.kernels import KERNELS
from benchmarks.more_kernels import MORE_KERNELS

COLOURS = {
    "auto": "#7c3aed",
    "tvmagic": "#2563eb",
    "NumPy": "#9ca3af",
    "Numba": "#059669",
    "TVM": "#d97706",
    "Halide, Mullapudi": "#be185d",
    "Halide, Adams": "#f472b6",
}
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}small{color:#666}"""


def base_of(report: dict[str, Any], name: str) -> str:
    """The side that the others are compared with: the schedule by hand, or the instant one where there is none."""
    return "tvmagic" if "tvmagic" in report["kernels"][name]["seconds"] else "auto"


def ratios(report: dict[str, Any], name: str) -> dict[str, float]:
    """How many times our time each side takes for a kernel."""
    seconds = report["kernels"][name]["seconds"]
    own = seconds.get(base_of(report, name))
    return {side: t / own for side, t in seconds.items()} if own else {}


def bars(report: dict[str, Any]) -> str:
    """Speed of each side relative to tvmagic's (1 is the vertical line; longer is faster)."""
    rows, y, left, unit = [], 10, 150, 260
    for name in report["kernels"]:
        shown = ratios(report, name)
        rows.append(f'<text x="0" y="{y + 22}" font-size="13">{html.escape(name)}</text>')
        for side, ratio in shown.items():
            width = min(unit / ratio, unit * 1.9)
            rows.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="9" fill="{COLOURS[side]}"/>')
            rows.append(f'<text x="{left + width + 5:.1f}" y="{y + 9}" font-size="10">{side} {1 / ratio:.2f}</text>')
            y += 11
        y += 12
    line = f'<line x1="{left + unit}" x2="{left + unit}" y1="0" y2="{y}" stroke="#888" stroke-dasharray="3 3"/>'
    return f'<svg viewBox="0 0 760 {y}" role="img" aria-label="Speed relative to tvmagic">{line}{"".join(rows)}</svg>'


def table(report: dict[str, Any]) -> str:
    """Times in milliseconds and the ratios to ours."""
    sides = ["tvmagic", "auto", "NumPy", "Numba", "TVM"]
    head = "".join(f"<th>{s}</th>" for s in sides) + "<th>what it reaches</th>"
    rows = []
    for kernel in [*KERNELS, *MORE_KERNELS]:
        entry = report["kernels"].get(kernel.name)
        if entry is None:
            continue
        cells = []
        for side in sides:
            seconds = entry["seconds"].get(side)
            if seconds is None:
                cells.append(f"<td><small>{html.escape(entry['problems'].get(side, 'absent'))}</small></td>")
                continue
            ratio = ratios(report, kernel.name).get(side)
            note = f" <small>×{ratio:.2f}</small>" if ratio and side != base_of(report, kernel.name) else ""
            cells.append(f"<td>{seconds * 1e3:.2f} ms{note}</td>")
        rows.append(
            f"<tr><td>{kernel.name}<br><small>{kernel.work}</small></td>{''.join(cells)}<td>{reached(kernel, report)}</td></tr>"
        )
    return f"<table><tr><th>kernel</th>{head}</tr>{''.join(rows)}</table>"


def reached_by(report: dict[str, Any], name: str) -> str:
    """What the best of ours reaches of a kernel by its name."""
    return reached(next(k for k in [*KERNELS, *MORE_KERNELS] if k.name == name), report)


def reached(kernel: Any, report: dict[str, Any]) -> str:
    """The share of the machine's peak or of a copy's bandwidth that the better of ours reaches."""
    own = report["kernels"][kernel.name]["seconds"]
    seconds = min((own[side] for side in ("tvmagic", "auto") if side in own), default=None)
    if not seconds:
        return ""
    if kernel.flops:
        share = kernel.flops / seconds / report["peak_flops"] / report["threads"]
        return f"{kernel.flops / seconds / 1e9:.0f} GFLOP/s, {share:.0%} of peak"
    share = kernel.bytes / seconds / report["copy_bandwidth"]
    return f"{kernel.bytes / seconds / 1e9:.1f} GB/s, {share:.0%} of a copy"


def page(reports: list[dict[str, Any]], machine: str) -> str:
    """The whole page."""
    parts = [f"<!doctype html><meta charset=utf-8><title>Benchmarks</title><style>{_STYLE}</style><h1>Benchmarks</h1>"]
    parts.append(
        f"<p>{html.escape(machine)}. All sides ran in one process and took turns; the best of nine rounds or more counts. "
        "tvmagic and TVM compile the same expression with the same schedule. ×2 means twice tvmagic's time.</p>"
    )
    for report in reports:
        threads = report["threads"]
        parts.append(f"<h2>{threads} thread{'s' if threads > 1 else ''}</h2>")
        parts += [f"<p><small>{html.escape(s)}: {html.escape(w)}</small></p>" for s, w in report["missing"].items()]
        parts.append(
            f"<p>Measured in the same run: {report['peak_flops'] / 1e9:.0f} GFLOP/s of multiply-adds in registers, "
            f"{report['copy_bandwidth'] / 1e9:.1f} GB/s of a copy (one thread).</p>"
        )
        parts += [table(report), bars(report)]
        if report.get("twins"):
            items = "".join(
                f"<li>{html.escape(k)}: TensorIR {t['TensorIR'] * 1e3:.2f} ms, TE ×{t['TE'] / t['TensorIR']:.2f}</li>"
                for k, t in report["twins"].items()
            )
            parts.append(f"<h3>The same schedule in TE</h3><ul>{items}</ul>")
        if "compile" in report:
            items = "".join(f"<li>{html.escape(k)}: {v * 1e3:.0f} ms</li>" for k, v in report["compile"].items())
            parts.append(f"<h3>Lowering and building the matmul</h3><ul>{items}</ul>")
            parts.append(
                f"<p>A call with three small arrays: {report['call_overhead'] * 1e6:.2f} µs over the kernel.</p>"
            )
        for title, times in report.get("schedule", {}).items():
            items = "".join(f"<li>{html.escape(k)}: {v * 1e3:.2f} ms</li>" for k, v in times.items())
            parts.append(f"<h3>{html.escape(title)}</h3><ul>{items}</ul>")
    return "\n".join(parts) + "\n"
