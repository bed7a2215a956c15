"""`%machine` and `%auto`: the machine that schedules depend on, and schedules made for it at once."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic import runtime
from tvmagic.auto import Instant, decide
from tvmagic.notation.source import Source
from tvmagic.notebook.commands import target_text
from tvmagic.notebook.costs import program_cost
from tvmagic.notebook.pictures.roofline import Point, roofline
from tvmagic.notebook.results import Listing, Parts, Table
from tvmagic.operators import Operator
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.measure import measure
from tvmagic.operators.peaks import measured_peaks
from tvmagic.target import Machine, resolved


def machine(
    target: str | None = None, operators: Sequence[Operator] = (), size: int = 256, measure_again: bool = False
) -> Parts:
    """The machine that code is made for, what it reaches, and a roofline with `operators` on it, one thread each.

    Of a target whose code does not run here only what is known is shown. `size` is the value of symbolic sizes.
    """
    chosen = resolved(target_text(target))
    table = machine_table(chosen.machine)
    if not chosen.is_host:
        return Parts(table, title="machine")
    peaks = measured_peaks(chosen, measure_again)
    points = [_point(op, size) for op in operators]
    table.rows += [
        ["multiply-add peak, measured", f"{peaks.flops / 1e9:.0f} GFLOP/s of float32, one thread"],
        ["bandwidth of a copy, measured", f"{peaks.bandwidth / 1e9:.1f} GB/s read and written, one thread"],
    ]
    return Parts(table, roofline(peaks, points, "Roofline, one thread"), title="machine")


def machine_table(described: Machine) -> Table:
    """The numbers that schedules depend on."""
    caches = [
        [f"cache {c.level}", f"{_size(c.size)}" + (f", shared by {c.cores} cores" if c.cores > 1 else "")]
        for c in described.caches
    ]
    rows = [
        ["vectors", f"{described.vector_bits} bits, {described.vector_registers} registers"],
        [
            "multiply-adds",
            f"{described.fma_per_cycle} vectors begun a cycle, done after {described.fma_latency} cycles",
        ],
        ["cache line", f"{described.line} bytes"],
        *caches,
        ["cores", str(described.cores)],
        ["tile of a product", str(described.tile())],
    ]
    return Table(["", described.name], rows, f"Machine: {described.name}", [f"from {described.source}"])


def _size(count: int) -> str:
    return f"{count >> 20} MB" if count >= 1 << 20 and not count % (1 << 20) else f"{count >> 10} KB"


def _point(op: Operator, size: int) -> Point:
    """An operator's place: the operations of its plain loops per byte of its arguments, and how fast it is."""
    inputs = make_inputs(op, 0, size)
    version = op.current
    outputs = version(*inputs)
    threads = runtime.num_threads()
    runtime.set_num_threads(1)
    try:
        seconds = measure(lambda: version(*inputs, out=outputs)).best
    finally:
        runtime.set_num_threads(threads)
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    _, cost = program_cost(op.version("plain"))
    count = float(cost.total.arithmetic) or 1.0
    total = sum(a.nbytes for a in (*inputs, *results))
    return Point(op.name, count / max(total, 1), count / seconds)


# ---------------------------------------------------------------------------- the instant schedule


def auto(op: Operator, target: str | None = None) -> Listing:
    """The instant schedule of an operator as the text of a `%%schedule` cell; `%auto NAME` runs it."""
    source, _ = auto_source(op, target)
    return Listing(source, "python", f"{op.name}: the instant schedule")


def auto_source(op: Operator, target: str | None = None, name: str = "auto") -> tuple[str, Instant]:
    """The `%%schedule` cell of the instant schedule, and the schedule with its reasons."""
    instant = decide(op, target_text(target))
    head = f"%%schedule {op.name}" + (f" --name {name}" if name != "default" else "")
    return f"{head}\n{instant.cell}\n", instant


def source_of(op: Operator, text: str) -> Source:
    """The text of an instant schedule as the source of a version."""
    return Source(f"auto {op.name}", text)
