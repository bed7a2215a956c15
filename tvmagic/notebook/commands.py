"""What the magics do, as plain functions: each takes operators and gives a result that shows itself.

from tvmagic import notebook
notebook.passes(dense)            # %passes dense
notebook.bench(dense)             # %bench dense
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.schedulable import Schedulable
from tvmagic.notebook.bound_notes import PREFIX, phases, stage_sentences
from tvmagic.notebook.escaping import sentence
from tvmagic.notebook.html import TONES
from tvmagic.notebook.results import Listing, Parts, Passes, Picture, Shown, Table
from tvmagic.notebook.view import format_seconds, selected
from tvmagic.operators import Operator, Version, as_operator
from tvmagic.operators.comparison import CheckResult
from tvmagic.operators.cpu_contention import shared
from tvmagic.operators.measure import Benchmark, Timing, check, measure_in_turns
from tvmagic.operators.measure import bench as measure_versions
from tvmagic.operators.verdict import EQUAL_STATES, state_of
from tvmagic.passes import Record, recording, run_step
from tvmagic.target.names import target_text

if TYPE_CHECKING:
    from tvmagic.explain.machine_limits import Roof
    from tvmagic.ir import IRModule


_TE_PASSES = ("normalize", "InferBound", "ScheduleOps", "SchedulePostProcToPrimFunc")


def version_of(value: Any, name: str | None = None) -> Version:
    """The version that a command works on: the one named, or the one scheduled last.

    `value`: a version, an operator, or what `as_operator` makes one of.
    """
    return value if isinstance(value, Version) else as_operator(value).version(name)


def record_of(
    version: Version, target: str | None = None, code: bool = True, llvm: str = "none", late: bool = False
) -> Record:
    """Return the whole timeline of a version: its schedule calls, the passes, the machine code; see `Operator.passes`."""
    return version.operator.passes(version, target, code, llvm, late)


def passes(
    value: Operator | Version,
    only: Iterable[str] | None = None,
    version: str | None = None,
    target: str | None = None,
    show_unchanged: bool = True,
    code: bool = True,
    verify: bool = False,
    notation: str | None = None,
    llvm: str = "loops",
) -> Passes:
    """Every schedule call and pass of an operator, to step through.

    Parameters
    ----------
    only: names of passes to show; all by default.
    version: which of its schedules; the last one by default.
    target: what to compile for, such as `llvm -mtriple=aarch64-linux-gnu`; this machine by default.
    show_unchanged: show passes that changed nothing.
    code: end with LLVM IR and assembly.
    verify: run the program after every step and compare it with NumPy.
    notation: how programs are written: `tvmscript`, `classic` (as TVM printed them before) or `cinn`; by default as the
        operator is, in CINN's text or in TVMScript.
    llvm: LLVM's own passes: `loops` (each that changed loops, the others between them as one step), `all` or `none`.
    """
    chosen = version_of(value, version)
    only = None if only is None else list(only)
    record = record_of(chosen, target, code, "none" if only and llvm == "loops" else llvm)
    of_te = next((n for n in only or () if n.rpartition(".")[2] in _TE_PASSES), None)
    if of_te is not None and not any(step.name.startswith("te.") for step in record):
        raise _without_te(chosen, of_te)
    if only and llvm == "loops" and not _has_all(record, only):  # LLVM's are among them
        record = record_of(chosen, target, code, llvm)
    marks = verify_marks(record, chosen.operator) if verify else ()
    shown = Passes(record, only, show_unchanged, marks, notation)
    shown.version = chosen
    return shown


def _has_all(record: Record, names: Iterable[str]) -> bool:
    try:
        selected(record, names)
    except TVMagicError:
        return False
    return True


def verify_marks(record: Record, op: Operator) -> list[str]:
    """The verdict on each step, whose program is interpreted, as text."""
    from tvmagic.operators.verify import verify as verify_steps

    return [verdict.text for verdict in verify_steps(record, op)]


def verify_table(version: Version, marks: Sequence[str]) -> Table:
    """The steps that differ from what is expected or are not judged, below a line that counts all."""
    assert version.record is not None
    states = [state_of(mark) for mark in marks]
    rows = [[step.name, m] for step, m, state in zip(version.record, marks, states) if state in ("bad", "open")]
    equal, wrong = sum(state in EQUAL_STATES for state in states), states.count("bad")
    against = "their own definition" if version.operator.prim_func is not None else "NumPy"
    counts = f"{equal} of {len(marks)} steps are equal to {against}"
    title = f"{counts}, none differs" if not wrong else f"{wrong} of {len(marks)} steps differ from {against}"
    return Table(["step", "verdict"], rows, f"{version.operator.name} ({version.name}): {title}")


def asm(
    value: Operator | Version, target: str | None = None, version: str | None = None, loop: bool = False
) -> Listing | Parts:
    """The assembly of an operator, for this machine or any target that LLVM here knows; OpenCL C for `opencl`.

    Beside PTX is what each kernel needs of a GPU, if there is a ptxas that tells it.
    `target` `ascend`, or the name of an NPU, gives the kernel's source in Ascend C instead, for reading only; a tiling of
    Ascend is taken as it is.
    `loop`: its innermost loop alone; of several the hottest by the model, and the whole if it has none.
    """
    from tvmagic import codegen

    listing, wanted = code_listing(value, target, version, loop), target_text(target)
    if loop or target in KERNELS or not codegen.resolved(wanted).is_nvptx:
        return listing
    return Parts(needs_table(version_of(value, version).operator.name, str(listing), codegen.resolved(wanted)), listing)


def code_listing(
    value: Operator | Version, target: str | None = None, version: str | None = None, loop: bool = False
) -> Listing:
    """The text that `asm` shows, alone."""
    from tvmagic import codegen

    if target in KERNELS:
        return (
            ascend_kernel(value, target)
            if isinstance(value, Schedulable)
            else _kernel_of(version_of(value, version).operator, target)
        )
    chosen = version_of(value, version)
    wanted = codegen.resolved(target_text(target))
    mod = chosen.lower()
    text = codegen.assembly(mod, wanted)
    shown = innermost_loop(text, mod, wanted) if loop else ""
    what = "OpenCL C" if wanted.is_opencl else "innermost loop" if shown else "assembly"
    title = f"{chosen.operator.name}: {what} for {target or 'this machine'}"
    return Listing(shown or text, "opencl" if wanted.is_opencl else "asm", title)


def innermost_loop(assembly: str, mod: IRModule, target: Any) -> str:
    """The loop without loops inside that takes most time by the model; if that is not known the longest, empty if there are none."""
    from tvmagic.explain.explanation import hottest_loop
    from tvmagic.explain.llvm import inner_loops

    rows = tuple(assembly.splitlines())
    loops = inner_loops(rows)
    number = hottest_loop(mod, target) if len(loops) > 1 else None
    longest = max(loops, key=lambda loop: loop[1] - loop[0], default=(0, -1))
    first, last = loops[number] if number is not None and number < len(loops) else longest
    return "\n".join(rows[first : last + 1])


def ascend_kernel(tiling: Any, target: str) -> Listing:
    """The Ascend C source that a tiling for an NPU becomes. It is not run."""
    machine = getattr(tiling.machine, "name", "this CPU")
    wanted = machine if target == "ascend" and machine in KERNELS else KERNELS[target]
    if machine != wanted:
        raise TVMagicError(
            f"the tiling is for {machine}, so that there is no kernel for {wanted}",
            hint=f'`auto_tiling(results, machine="{wanted}")` makes one',
            code="magic.no_kernel_for_target",
        )
    name = tiling.result.hint.name
    return Listing(tiling.ascend_c(), "cpp", f"{name}: the kernel's source for {machine}, for reading only")


def _kernel_of(op: Operator, target: str) -> Listing:
    """The Ascend C source of an operator, tiled for an NPU; open sizes count as 1024."""
    from tvmagic import ascend

    hint = ascend.hint_graph(op)
    open_sizes = {name: 1024 for name, value in hint.sizes.items() if value is None}
    return ascend_kernel(ascend.auto_tiling(ascend.auto_schedule(hint), open_sizes, KERNELS[target]), KERNELS[target])


def needs_table(name: str, text: str, target: Any) -> Table:
    """What the kernels of a text in PTX need of a GPU, or why that is not known."""
    from tvmagic.runners.ptx import needs_of

    title = f"{name}: what its kernels need"
    try:
        rows = [[n.name, n.registers, n.spilled, n.shared, n.stack] for n in needs_of(text, target)]
    except TVMagicError as error:
        return Table([], [], title, [error.message, *([error.hint] if error.hint else [])])
    columns = ["kernel", "registers a thread", "bytes spilled", "bytes of shared memory", "bytes of stack"]
    return Table(columns, rows, title)


def llvm(
    value: Operator | Version, target: str | None = None, version: str | None = None, optimize: bool = True
) -> Listing:
    """The LLVM IR of an operator; before LLVM's own passes with `optimize=False`."""
    from tvmagic import codegen

    chosen = version_of(value, version)
    text = codegen.llvm_ir(chosen.lower(), target_text(target), optimize)
    return Listing(text, "llvm", f"{chosen.operator.name}: LLVM IR for {target or 'this machine'}")


# Short names of NPUs, for which there is a kernel's source to read.
KERNELS = {"ascend": "atlas_a2", "atlas_a2": "atlas_a2", "atlas_a2_40": "atlas_a2_40"}


def _without_te(version: Version, name: str) -> TVMagicError:
    """The error for a pass of TE schedules that is asked for of a version that has none."""
    from tvmagic.te.schedule import Schedule

    op = version.operator
    others = [f"`-v {v.name}`" for v in op.versions.values() if isinstance(v.schedule, Schedule)]
    return TVMagicError(
        f"the version `{version.name}` of `{op.name}` has no TE schedule, so {name} does not run",
        hint=f"take {' or '.join(others)}" if others else "see %graph for its blocks",
        code="magic.no_te_schedule",
    )


def bounds(value: Operator | Version, version: str | None = None, phases: bool = True) -> Shown:
    """Every stage's iteration variables with their ranges, and how InferBound found them.

    `phases` adds the notes of its four phases: leaf sets, sets passed up, regions asked for by
    each consumer, and their union.
    """
    from tvmagic import te

    chosen = version_of(value, version)
    op = chosen.operator
    sch = chosen.schedule if chosen.schedule is not None else op.te_schedule()
    if not isinstance(sch, te.schedule.Schedule):
        raise _without_te(chosen, "InferBound")
    with recording(op.name) as record:
        normalized = sch.normalize()
        found = run_step("te.InferBound", lambda: te.schedule.InferBound(normalized), before=None, after=lambda _: None)
    ranges = Table(["stage", "variable", "kind", "min", "extent", "role"], bound_rows(normalized, found))
    ranges.title = f"{op.name}: ranges of the iteration variables"
    if not phases:
        return ranges
    return Parts(ranges, *phase_tables(record), title=f"Bounds of {op.name}")


KINDS = {0: "data", 1: "thread", 2: "reduction", 3: "ordered", 4: "opaque", 5: "unrolled", 6: "vectorized", 7: "parallel", 8: "tensorized"}  # fmt: skip


def bound_rows(sch: Any, ranges: Mapping[Any, Any]) -> list[list[Any]]:
    """A row for each iteration variable of each stage."""
    rows: list[list[Any]] = []
    for stage in sch.stages:
        leaves = {id(iv) for iv in stage.leaf_iter_vars}
        roots = {id(iv) for iv in stage.op.root_iter_vars()}
        for iv in stage.all_iter_vars:
            if iv not in ranges:
                continue
            found = ranges[iv]
            attr = stage.iter_var_attrs.get(iv)
            kind = KINDS.get(attr.iter_type if attr is not None and attr.iter_type else iv.iter_type, "")
            role = " and ".join(r for r, ids in (("root", roots), ("loop", leaves)) if id(iv) in ids) or "inner"
            rows.append([stage.op.name, iv.var.name, kind, _as_number(found.min), _as_number(found.extent), role])
    return rows


def _as_number(value: Any) -> Any:
    return getattr(value, "value", None) if hasattr(value, "value") else str(value)


def phase_tables(record: Record) -> list[Shown]:
    """InferBound's notes: a sentence for each stage, and one table a phase."""
    notes = [n for n in record.notes() if n.topic.startswith(PREFIX)]
    tables: list[Shown] = [Table(p.columns, p.rows, p.title) for p in phases(notes)]
    sentences = stage_sentences(notes)
    return [Table([], [], "What is computed at a time, and why", sentences), *tables] if sentences else tables


def check_result(
    value: Operator | Version,
    seed: int = 0,
    sizes: int = 16,
    target: str | None = None,
    against: Callable[..., Any] | tuple[str, Callable[..., Any]] | None = None,
    inputs: Any = None,
) -> CheckTable:
    """The verdict on a version after runs on random inputs, beside NumPy or the function `against`.

    If a target is named, the version is compiled for it and run by what there is for it.
    `inputs`: a dict of arrays by name, a tuple of them, or a function of a `np.random.Generator` that returns either.
    """
    version = version_of(value)
    result = check(version, seed, sizes, target_text(target), against, inputs)
    of = f", {target}" if target_text(target) else ""
    return CheckTable(result, f"{version.operator.name} ({version.name}{of})")


class CheckTable(Table):
    """The verdict of a check, and its worst value as a table."""

    def __init__(self, result: CheckResult, name: str = "") -> None:
        columns = [
            "values",
            "judged",
            "worst error (in bounds)",
            "absolute error",
            "at",
            "got",
            "expected",
            "rounding bound",
        ]
        row = [f"{result.elements:,}", f"{result.judged:,}", f"{result.units:.2g}", f"{result.absolute:.3g}"]
        values = [f"{v:.8g}" for v in (result.got, result.expected)]
        of_worst = [result.place, *values, f"{result.bound:.3g}"] if result.place else ["-"] * 4
        title = f"{name}: {result.verdict}" if name else result.verdict
        super().__init__(columns, [[*row, *of_worst]], title, result.remarks)
        self.result = result

    def heading(self) -> str:
        """The verdict in the colour of its state."""
        tone = TONES[self.result.line.state]
        return f'<div class="tm-title {tone}">{sentence(self.title)}</div>'


def bench(
    value: Operator | Version,
    versions: Sequence[str] | None = None,
    seconds: float = 0.2,
    size: int = 256,
    against: Callable[..., Any] | tuple[str, Callable[..., Any]] | None = None,
    inputs: Any = None,
) -> BenchmarkTable:
    """Times of the versions of an operator (all by default) beside NumPy's, interleaved with each other, as a table.

    The columns are the least of the runs' seconds a call and how many times the speed of the last row that is, the
    same by the medians, the operations on floats or the bytes of the arguments a second, whichever limits the
    operator, the share of what this machine can do of them at most, and how many calls were measured.

    `against`: a function of the inputs to compare with besides, perhaps with the name to show for it.
    `inputs`: as of `check_result`.
    """
    op = as_operator(value) if not isinstance(value, Version) else value.operator
    chosen = [value] if isinstance(value, Version) else [op.version(n) for n in versions or ()] or None
    if against is not None and not isinstance(against, tuple):
        against = (getattr(against, "__name__", "function"), against)
    return bench_table(measure_versions(op, chosen, seconds, size, against=against, inputs=inputs))


class BenchmarkTable(Table):
    """Times as a table; `result` holds the numbers, `plot` draws them."""

    def plot(self) -> Picture:
        """A bar for each version: how many times the speed of the last row it has, by the best times."""
        from tvmagic.notebook.pictures.bars import bars

        base, name = self.result.reference, self.result.baseline.name
        if self.result.baseline.interpreted:
            base, name = max(self.result.rows[:-1], key=lambda row: row[1].best)[1], "the slowest version"
        left_out = {name, *(b.name for b in self.result.baselines if b.interpreted)}
        rows = [(version, base.best / timing.best) for version, timing in self.result.rows if version not in left_out]
        return bars(rows, f"{name}'s speed", f"{self.result.operator.name}: speed")

    def __init__(self, result: Benchmark, columns: list[str], rows: list[list[Any]]) -> None:
        super().__init__(columns, rows, f"{result.operator.name}: time", result.notes)
        self.result = result


class TimesTable(Table):
    """Times of functions as a table; `timings` holds the numbers, by name, and `plot` draws them."""

    def __init__(self, timings: Mapping[str, Timing], title: str) -> None:
        self.timings = dict(timings)
        last, base = next(reversed(self.timings.items()))
        rows = [
            [name, format_seconds(t.median), format_seconds(t.best), f"{base.best / t.best:.2f}"]
            for name, t in self.timings.items()
        ]
        notes = shared({name: t.waited for name, t in self.timings.items()})
        super().__init__(["function", "median", "best", f"times {last}'s speed"], rows, title, notes)
        self.last = last

    def plot(self) -> Picture:
        """A bar for each function but the last: how many times the last one's speed it has, by the best times."""
        from tvmagic.notebook.pictures.bars import bars

        base = self.timings[self.last].best
        rows = [(name, base / t.best) for name, t in self.timings.items() if name != self.last]
        return bars(rows, f"{self.last}'s speed", self.title)


def time_calls(calls: Mapping[str, Callable[[], Any]], seconds: float = 0.2, title: str = "times") -> TimesTable:
    """Times of functions without arguments, measured interleaved in one process for about `seconds` each.

    Speeds are relative to the last one's. Raises `TVMagicError` if there is none.
    """
    if not calls:
        raise TVMagicError(
            "there is no function to measure",
            hint='write `time_calls({"mine": f, "NumPy": g})`',
            code="magic.nothing_to_measure",
        )
    return TimesTable(dict(zip(calls, measure_in_turns(list(calls.values()), seconds))), title)


def bench_table(result: Benchmark) -> BenchmarkTable:
    """A benchmark as a table: for each row the best time, which other work on the machine changes least, beside the
    baseline's best time over it, the same of the medians, and how fast that is of what the machine can do."""
    base, name = result.reference, result.baseline.name
    compared = not result.baseline.interpreted
    interpreters = {b.name for b in result.baselines if b.interpreted}
    roof = _roof(result)
    rows: list[list[Any]] = []
    for version, t in result.rows:
        times = [format_seconds(t.best), format_seconds(t.median)]
        if compared and version not in interpreters:
            times = [f"{times[0]}, {base.best / t.best:.2f}", f"{times[1]}, {base.median / t.median:.2f}"]
        rate = ["-", "-"] if version in interpreters else _rate(roof, t.best)
        rows.append([version, *times, *(rate if roof is not None else []), t.calls])
    times = [f"best, times {name}'s speed", "median, ratio"] if compared else ["best", "median"]
    columns = ["version", *times, *([roof.unit, "of peak"] if roof is not None else []), "calls"]
    notes = [*result.notes, *_limit(roof, result.rows), *(_open(result) if compared else [])]
    notes += shared({version: t.waited for version, t in result.rows})
    return BenchmarkTable(replace(result, notes=notes), columns, rows)


def _roof(result: Benchmark) -> Roof | None:
    """What limits the operator; None if its work is not known, or the machine is not."""
    from tvmagic.explain.machine_limits import roof_of

    if result.work is None:
        return None
    try:
        return roof_of(result.work)
    except TVMagicError:
        return None


def _rate(roof: Roof | None, seconds: float) -> list[str]:
    if roof is None:
        return []
    share = roof.share(seconds)
    return [f"{roof.rate(seconds):.3g}", f"{share:.0%}" if share >= 0.095 else f"{100 * share:.2g}%"]


def _limit(roof: Roof | None, rows: Sequence[tuple[str, Timing]]) -> list[str]:
    """What the peak is, and that it is too low if a row exceeds it."""
    if roof is None:
        return []
    beyond = max(roof.share(t.best) for _, t in rows) > 1.05
    return [f"{roof.words}; {roof.beyond}" if beyond else roof.words]


def _open(result: Benchmark) -> list[str]:
    """The rows of which the best times and the medians tell different things."""
    base, name = result.reference, result.baseline.name
    ratios = [(version, base.best / t.best, base.median / t.median) for version, t in result.rows]
    return [
        f"{version} against {name}: {best:.2f} by the best times, {median:.2f} by the medians; which of them is faster is open"
        for version, best, median in ratios
        if (best - 1) * (median - 1) < 0
    ]
