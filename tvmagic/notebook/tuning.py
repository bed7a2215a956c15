"""`%tune`: the search over schedules, its progress and its result shown."""

from __future__ import annotations

import sys
from typing import Any

from tvmagic.notebook.results import Listing, Parts, Table, in_kernel
from tvmagic.notebook.view import format_seconds
from tvmagic.operators import Operator
from tvmagic.tune import Trial, TuneResult, tune_operator

__all__ = ["Tuned", "tune"]

_SHOWN = 20  # rows of the table of trials: the fastest, then how many more there are


class Tuned(Parts):
    """The result of a search: the times, the table of trials, the best trace as Python.

    `result` holds it all; the operator keeps the best schedule.
    """

    def __init__(self, result: TuneResult) -> None:
        self.result = result
        best, name, version = result.best, result.operator.name, result.version.name
        times = Table(
            ["schedule", "time", "times the plain loops' speed"],
            [
                [version, format_seconds(best.seconds or 0.0), f"{result.plain / (best.seconds or 1.0):.1f}"],
                ["plain", format_seconds(result.plain), "1.0"],
                [
                    "NumPy",
                    format_seconds(result.reference),
                    f"{result.plain / max(result.reference, 1e-9):.1f}",
                ],
            ],
            f"{name}: the best of {len(result.trials)} schedules, {result.elapsed:.1f} s of search"
            + (", interrupted" if result.interrupted else ""),
            [
                f"NumPy: {result.compared_with}",
                f"kept as the version `{version}`: calls of {name} use it; see `%passes {name} -v {version}`",
            ],
        )
        program = Listing(result.python, "python", "The best trace, a function that applies it")
        super().__init__(times, trials_table(result), program, title=f"{name}: search over schedules")


def trials_table(result: TuneResult) -> Table:
    """The trials, the fastest first; those that failed last."""
    ranked = sorted(result.trials, key=lambda t: (t.seconds is None, t.seconds or 0.0))
    rows = [
        [t.number, t.origin, "failed" if t.seconds is None else format_seconds(t.seconds), t.error.split("\n")[0][:80]]
        for t in ranked[:_SHOWN]
    ]
    failed = len(result.trials) - len(result.good)
    notes = [f"{len(ranked) - _SHOWN} slower ones are left out"] if len(ranked) > _SHOWN else []
    notes += [f"{failed} failed"] if failed else []
    return Table(["trial", "origin", "time", "error"] if failed else ["trial", "origin", "time"],
                 rows if failed else [r[:3] for r in rows], "Trials", notes)  # fmt: skip


class _Progress:
    """One line that is written anew after each trial: a display in a notebook, a line of stderr else."""

    def __init__(self, total: int) -> None:
        self.total, self.display = total, None
        self.terminal = sys.stderr.isatty()

    def __call__(self, trial: Trial, best: Trial | None) -> None:
        fastest = (
            f"best {format_seconds(best.seconds or 0.0)} (trial {best.number})" if best else "none is right so far"
        )
        self.show(f"trial {trial.number} of {self.total}: {fastest}")

    def show(self, line: str) -> None:
        if in_kernel():
            from IPython.display import display

            data: dict[str, Any] = {"text/plain": line}
            if self.display is None:
                self.display = display(data, raw=True, display_id=True)
            else:
                self.display.update(data, raw=True)
        elif self.terminal:
            print(f"\r{line:<60}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.terminal and not in_kernel():
            print(f"\r{'':<60}\r", end="", file=sys.stderr, flush=True)


def tune(
    op: Operator, trials: int = 64, seconds: float = 60.0, seed: int = 0, name: str = "tuned", size: int = 256
) -> Tuned:
    """Search for a fast schedule of an operator, trying at most `trials` of them; keep it as `name`."""
    progress = _Progress(trials)
    try:
        result = tune_operator(op, trials, seconds=seconds, seed=seed, name=name, sizes=size, progress=progress)
    finally:
        progress.end()
    return Tuned(result)
