"""`%tune`: the search over schedules, its progress and its result shown."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

from tvmagic.auto.cell import cell_text
from tvmagic.notebook.pictures.search import search_picture
from tvmagic.notebook.results import Listing, Parts, Picture, Shown, Table, in_kernel
from tvmagic.notebook.view import format_seconds
from tvmagic.operators import Operator
from tvmagic.tune import CostModel, Database, Trial, TuneResult, load, tune_operator
from tvmagic.tune.loading import find

_SHOWN = 12  # rows of the table of trials: the fastest, then how many more there are
_PAUSE = 0.7  # seconds between two updates of the picture


class Tuned(Parts):
    """The result of a search: the versions, the picture, the table of trials, the schedule as calls.

    `result` holds it all; `cell` is the schedule as a cell that can be run and changed.
    """

    def __init__(self, result: TuneResult) -> None:
        self.result = result
        name, parts = result.operator.name, list[Shown]([standings_table(result)])
        if result.trials:
            parts += [search_picture(name, result.trials, result.correlation), trials_table(result)]
        parts.append(Listing(self.cell, "python", f"The version `{result.version.name}` as a cell"))
        super().__init__(*parts, title=f"{name}: search over schedules")

    @property
    def cell(self) -> str:
        """The cell that makes the version that was found."""
        version, op = self.result.version, self.result.operator
        calls = cell_text(op.to_prim_func(), version.schedule.trace.simplified(remove_postproc=False), [])
        return f"%%schedule {op.name} -n {version.name}\n{calls or 'pass  # the plain loops'}"


def standings_table(result: TuneResult) -> Table:
    """The versions that were measured beside each other, and what the search used."""
    name, standings = result.operator.name, result.choice.standings
    numpy = next((s.seconds for s in standings if s.name == "NumPy"), None)
    rows = [
        [
            s.name,
            format_seconds(s.seconds) if math.isfinite(s.seconds) else "stopped",
            f"{numpy / s.seconds:.2f}" if numpy and math.isfinite(s.seconds) else "",
            "current" if s.current else "",
        ]
        for s in standings
    ]
    if result.trials:
        many = f"{len(result.trials)} schedules" if len(result.trials) > 1 else "1 schedule"
        title = f"{name}: the best of {many}, {result.elapsed:.1f} s of search"
    elif result.model:
        title = f"{name}: the instant schedule, after {result.elapsed:.1f} s"
    else:
        title = f"{name}: a schedule from {result.database.path if result.database else 'a file'}"
    title += ", interrupted" if result.interrupted else ""
    notes = [f"NumPy: {result.compared_with}"] if result.compared_with else []
    version = result.version.name
    if result.choice.current:
        notes.append(f"calls of {name} use `{version}` now; see `%passes {name} -v {version}`")
    elif result.choice.kept:
        notes.append(f"what was found is kept as the version `{version}`")
    if result.database is not None and result.trials:
        notes.append(f"kept in {result.database.path}; `%tune {name} --from` finds it without a trial")
    return Table(["version", "time", "NumPy's time over it", ""], rows, title, [*notes, *result.notes])


def trials_table(result: TuneResult) -> Table:
    """The trials, the fastest first; those that failed last."""
    ranked = sorted(result.trials, key=lambda t: (t.seconds is None, t.seconds or 0.0))
    rows = [
        [
            t.number, t.origin, "failed" if t.seconds is None else format_seconds(t.seconds),
            "" if t.predicted is None else format_seconds(t.predicted), t.error.split("\n")[0][:80],
        ]
        for t in [*ranked[:_SHOWN], *[t for t in ranked[_SHOWN:] if t.seconds is None][:3]]
    ]  # fmt: skip
    failed = len(result.trials) - len(result.good)
    stopped = sum(t.stopped for t in result.trials)
    notes = [f"left out of the table: {len(ranked) - len(rows)}"] if len(ranked) > len(rows) else []
    notes += [f"stopped, as they took more than three times the best so far: {stopped}"] if stopped else []
    notes += [f"{failed} failed"] if failed else []
    if not math.isnan(result.correlation):
        notes.append(
            f"the rank correlation of predicted and measured times is {result.correlation:.2f}, over "
            f"{len(result.predictions)} schedules that the model ({result.model}) had not seen"
        )
    return Table(["trial", "origin", "time", "predicted", "error"], rows, "Trials", notes)


class TuningProgress:
    """A picture in a notebook, a line of stderr in a terminal, kept up to date while the search runs."""

    def __init__(self, op: Operator, total: int | None, seconds: float) -> None:
        self.name, self.total, self.seconds = op.name, total, seconds
        self.trials: list[Trial] = []
        self.display: Any = None
        self.started = self.shown = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def __call__(self, trial: Trial, best: Trial | None) -> None:
        self.trials.append(trial)
        now = time.monotonic()
        if now - self.shown < _PAUSE and len(self.trials) > 1:
            return
        self.shown = now
        fastest = (
            f"best {format_seconds(best.seconds or 0.0)} (trial {best.number})" if best else "no result is right so far"
        )
        of = f" of {self.total}" if self.total else ""
        self.show(f"{now - self.started:.0f} of {self.seconds:.0f} s, trial {trial.number}{of}: {fastest}")

    def show(self, line: str) -> None:
        if in_kernel():
            from IPython.display import display

            picture = search_picture(self.name, self.trials)
            data = Picture(picture.svg, line, line)._repr_mimebundle_()
            if self.display is None:
                self.display = display(data, raw=True, display_id=True)
            else:
                self.display.update(data, raw=True)
        elif self.terminal:
            print(f"\r{line:<78}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take it away; the result has a picture of its own."""
        if self.display is not None:
            self.display.update({"text/plain": "", "text/html": ""}, raw=True)
        elif self.terminal and not in_kernel():
            print(f"\r{'':<78}\r", end="", file=sys.stderr, flush=True)


def tune(
    op: Operator,
    trials: int | None = None,
    seconds: float = 60.0,
    seed: int = 0,
    name: str = "tuned",
    size: int = 256,
    *,
    target: Any = None,
    database: str | Path | None = None,
    source: str | Path | None = None,
    on: str | None = None,
    model: CostModel | None = None,
    inputs: Any = None,
) -> Tuned:
    """Search for a fast schedule of an operator for `seconds`, trying at most `trials`, and keep it as `name`.

    Parameters
    ----------
    size: the value of symbolic sizes.
    inputs: what is measured and compared on, by default the operator's `example_inputs`, else random; see `make_inputs`.
    database: the file in which results are kept, by default one in the user's folder of caches.
    source: such a file; the schedule is taken from it, without a trial. Empty for the default one.
    on: the address of the scheduler of a Dask cluster, such as `tcp://host:8786`, whose workers measure.
    """
    if source is not None:
        return Tuned(load(op, source or database, name=name, sizes=size, target=target, inputs=inputs))
    progress = TuningProgress(op, trials, seconds)
    try:
        result = tune_operator(
            op, trials, seconds=seconds, seed=seed, name=name, sizes=size, target=target,
            database=Database(database), on=on, progress=progress, model=model,
            inputs=inputs,
        )  # fmt: skip
    finally:
        progress.end()
    return Tuned(result)


def is_known(op: Operator, database: str | Path | None = None, target: Any = None) -> bool:
    """Whether a database has a schedule of an operator for a target."""
    return bool(find(op, Database(database), target))
