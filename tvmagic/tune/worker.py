"""A process that builds, checks and measures schedules: `python -m tvmagic.tune.worker`.

It reads the path of a problem, then tasks from its input and writes what it found to its output, one JSON text a line. Whatever a schedule does to
it, a crash in its code or a loop without end, happens to this process alone. A system's alarm ends it when a build or a
call takes longer than it may, even if the process that started it is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tvmagic.codegen import compile_module, last_program
from tvmagic.errors import TVMagicError
from tvmagic.files import read_entry, write_entry
from tvmagic.ir import structural_hash
from tvmagic.runtime.threads import num_threads, set_num_threads
from tvmagic.target import host_cpu, require_llvm
from tvmagic.tune.candidate import Candidate
from tvmagic.tune.features import features_of
from tvmagic.tune.measurement_lock import alone, together
from tvmagic.tune.problem import Problem
from tvmagic.tune.timing import interleaved, runs

SLOWER = 3.0  # times the best so far that a call may take
GRACE = 0.3  # seconds that any call may take: ending the process costs more
_LOWERING = 1.0  # seconds of processor time that a schedule and its lowering may take
_SECONDS = 0.1  # of measuring a candidate that may be the best, all runs together, of which the least counts
_INTERRUPTION = 0.1  # seconds up to which a slow call may be one that was interrupted
_CALLS = 3  # that tell a slow candidate from one that was interrupted
_TOLD = 8  # runs, the least ones, that are told


def machine_kind() -> str:
    """What times depend on, of the machine that this process runs on: the processor and the number of threads.

    Raises BuildError if there is no LLVM, without which nothing is measured.
    """
    require_llvm()
    return f"{host_cpu()[0]}, {num_threads()} threads"


class Bench:
    """The tasks, on one problem. `tell(phase)` is called before each part of a trial that may fail to come back.

    `folder`: of this machine, in which what one worker compiled is found by the others.
    """

    def __init__(
        self, problem: Problem, tell: Callable[[str], None] = lambda phase: None, folder: Path | None = None
    ) -> None:
        self.problem, self.tell, self.folder = problem, tell, folder
        if problem.threads:
            set_num_threads(problem.threads)
        self.machine = replace(problem.code_target.machine, cores=num_threads())
        self.kept: dict[str, Any] = {}  # lowered modules by the text of their candidates
        self.modules: dict[str, Any] = {}  # compiled ones
        self.called = False  # whether compiled code was called in this process

    def run(self, task: dict[str, Any]) -> dict[str, Any]:
        """What a task gives: `look` at candidates, `try` one, or `compare` some."""
        if task["do"] == "look":
            with together():
                patience = task.get("patience", _LOWERING)
                return {"looks": [self.look(Candidate(data), patience) for data in task["candidates"]]}
        if task["do"] == "compare":
            return self.side_by_side([Candidate(data) for data in task["candidates"]], task["seconds"], task["limit"])
        best = task.get("best", {}).get(machine_kind())
        known, patience = task.get("known", ()), task.get("patience", _LOWERING)
        return self.attempt(Candidate(task["candidate"]), best, task["limit"], known, patience)

    # ------------------------------------------------------------------ what can be seen without running it

    def look(self, candidate: Candidate, patience: float = _LOWERING) -> dict[str, Any]:
        """The features of a candidate's lowered program, and its hash by which equal ones are found; or the error.

        `patience`: seconds of processor time that its lowering may take.
        """
        try:
            with _patience(patience):
                made = candidate.made(self.problem)
                lowered = self.lowered(made)
                features = features_of(last_program(lowered, self.problem.code_target), self.machine)
        except TVMagicError as error:
            return {"error": error.message}
        seen = {"hash": f"{structural_hash(lowered):x}", "features": features}
        return seen if made is candidate else seen | {"trace": made.trace}

    def lowered(self, candidate: Candidate) -> Any:
        """The lowered module of a candidate."""
        return self.once(self.kept, candidate, lambda: candidate.lower(self.problem), 256)

    def built(self, candidate: Candidate) -> Any:
        """The compiled module of a candidate, one that was compiled lately as it is."""
        return self.once(self.modules, candidate, lambda: self.shared(candidate), 64)

    def shared(self, candidate: Candidate) -> Any:
        """The compiled module of a candidate, from the folder if a worker compiled it before."""
        if self.folder is None:
            return self.build(candidate)
        path = self.folder / f"{hashlib.sha256(candidate.text.encode()).hexdigest()[:24]}.module"
        made_by = {"candidate": candidate.text}
        if (kept := read_entry(path, made_by)) is not None:
            return pickle.loads(kept)
        module = self.build(candidate)
        with contextlib.suppress(TVMagicError):  # without the file others compile it, too
            write_entry(path, made_by, pickle.dumps(module))
        return module

    @staticmethod
    def once(kept: dict[str, Any], candidate: Candidate, make: Callable[[], Any], most: int) -> Any:
        """What `make` gives for a candidate, if it is not among the `most` kept."""
        if candidate.text not in kept:
            if len(kept) >= most:
                kept.clear()
            kept[candidate.text] = make()
        return kept[candidate.text]

    # ------------------------------------------------------------------ a trial

    def attempt(
        self, candidate: Candidate, best: float | None, limit: float, known: Collection[str] = (),
        patience: float = _LOWERING,
    ) -> dict[str, Any]:  # fmt: skip
        """Build, check and measure a candidate; `best` are the seconds a call of the best on machines of this kind.

        `limit`: seconds after which a part of it is given up in any case. `known`: the hashes of programs that were tried;
        one of them is `old` and not tried again. `patience`: see `look`.
        """
        started = time.perf_counter()
        found: dict[str, Any] = {"machine": machine_kind()}
        try:
            with together():
                self.tell("build")
                begun = time.perf_counter()
                with _alarm(limit):
                    seen_before = candidate.text in self.kept
                    found |= self.look(candidate, patience)
                    if not seen_before:
                        found["looked"] = time.perf_counter() - begun
                    if "error" in found:
                        raise TVMagicError(found["error"], code="tune.trial_failed")
                    if found["hash"] in known:
                        return found | {"old": True}
                    module = self.built(Candidate({"trace": found["trace"]}) if "trace" in found else candidate)
                most = limit if best is None else min(limit, max(SLOWER * best, GRACE))
                self.tell("run")
                first = self.check(module, most, limit, best)
            found |= {"seconds": first, "times": [first], "stopped": True, "checked": False}
            if best is None or first <= max(SLOWER * best, 1e-3):
                found |= self.measure(module, best, first, most, limit)
        except TVMagicError as error:
            found["error"] = error.message
        found["elapsed"] = time.perf_counter() - started
        return found

    def build(self, candidate: Candidate) -> Any:
        """The compiled module of a candidate."""
        return compile_module(self.lowered(candidate), self.problem.code_target, self.problem.check_bounds)

    def check(self, module: Any, most: float, limit: float, best: float | None) -> float:
        """Run on each set of inputs and compare; seconds of the least call. `TVMagicError` if a result is wrong.

        A candidate whose first calls show that it is too slow is not called again. The first one of this process is called
        twice: its first call takes tens of milliseconds more, in which the way from Python into such code is compiled.
        """
        least, slow = math.inf, math.inf if best is None else max(SLOWER * best, 1e-3)
        op = self.problem.operator
        for case in self.problem.cases:
            outputs = self.fresh(case.inputs)
            arguments = op.arguments(case.inputs, outputs)
            with _alarm(limit, most):
                for _ in range(1 if self.called else 2):
                    op.start(case.inputs, outputs)
                    start = time.perf_counter()
                    module(*arguments)
                    least = min(least, time.perf_counter() - start)
            self.called = True
            result = self.problem.compare(case, outputs)
            if result.ok is False:
                raise TVMagicError(result.verdict, code="tune.wrong_values")
            if slow < least < _INTERRUPTION:  # or another process had the processor meanwhile
                with _alarm(limit, most):
                    least = min(least, self.quickest(module, slow))
            if least > slow:
                break
        return least

    def quickest(self, module: Any, slow: float) -> float:
        """Seconds of a few calls, the least of them, or of the first one that is not slow."""
        call, least = self.call_of(module), math.inf
        for _ in range(_CALLS):
            start = time.perf_counter()
            call()
            least = min(least, time.perf_counter() - start)
            if least <= slow:
                break
        return least

    def fresh(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Outputs for a call, filled so that an element that is not written shows."""
        op = self.problem.operator
        outputs = op.fresh_outputs(inputs)
        for tensor, output in zip(op.outputs, outputs):
            if not op.is_input(tensor):
                output.reshape(-1).view(np.uint8).fill(0xA5)
        return outputs

    def measure(self, module: Any, best: float | None, once: float, most: float, limit: float) -> dict[str, Any]:
        """Seconds a call, which takes about `once`: the least of many short runs, fewer if it cannot be the best."""
        call = self.call_of(module)
        with alone() as had, _alarm(limit, most + 4 * _SECONDS):
            times = runs(call, _SECONDS, once, best)
        found = {"seconds": times[0], "times": times[:_TOLD], "checked": True}
        stopped = best is not None and times[0] > SLOWER * best
        return found | {"stopped": stopped} | ({} if had else {"busy": True})

    def call_of(self, module: Any) -> Callable[[], None]:
        """A call on the first set of inputs."""
        op, inputs = self.problem.operator, self.problem.cases[0].inputs
        outputs = op.fresh_outputs(inputs)
        arguments = op.arguments(inputs, outputs)
        restart = any(map(op.is_input, op.outputs))  # each call starts from the same values

        def call() -> None:
            if restart:
                op.start(inputs, outputs)
            module(*arguments)

        return call

    # ------------------------------------------------------------------ the best ones

    def side_by_side(self, candidates: list[Candidate], seconds: float, limit: float) -> dict[str, Any]:
        """Seconds a call of candidates that are right, their runs interleaved for `seconds` in all, so that all meet the
        same machine; one that cannot be built has none. Those that fall behind are measured less.
        """
        calls: list[Callable[[], None] | None] = []
        with together(), _alarm(limit):
            self.tell("build")
            for candidate in candidates:
                try:
                    calls.append(self.call_of(self.built(candidate)))
                except TVMagicError:
                    calls.append(None)
        self.tell("run")
        with alone(), _alarm(limit):
            return {"machine": machine_kind(), "seconds": interleaved(calls, seconds)}


@contextlib.contextmanager
def _alarm(seconds: float, busy: float = math.inf) -> Iterator[None]:
    """The system ends this process if it is still here after `seconds`, even inside compiled code, or after `busy`
    seconds of each thread's processor time, which other work on the machine does not use up.
    """
    if not hasattr(signal, "setitimer"):  # there who started the process ends it
        yield
        return
    limits = {signal.ITIMER_REAL: seconds, signal.ITIMER_PROF: busy * num_threads()}
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    for timer, limit in limits.items():
        signal.setitimer(timer, max(limit, 0.01) if limit < math.inf else 0)
    try:
        yield
    finally:
        for timer in limits:
            signal.setitimer(timer, 0)


@contextlib.contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """Give up on Python code that takes more than `seconds` of processor time, with a `TVMagicError`."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise TVMagicError(
            f"its program is too large: lowering takes more than {seconds:g} s", code="tune.program_too_large"
        )

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


# ---------------------------------------------------------------------------- the process


def main() -> None:
    """Work on the tasks that come in until there are no more."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compiled code prints must not be read as an answer

    def send(**values: Any) -> None:
        output.write(json.dumps(values) + "\n")
        output.flush()

    lines = _lines()
    path = Path(json.loads(next(lines)))
    bench = Bench(Problem.load(path), lambda phase: send(phase=phase), path.parent)
    bench.look(
        Candidate.of_trace([[], []])
    )  # what the first lowering of a process loads is not to count for a candidate
    send(ready=machine_kind())
    for line in lines:
        task = json.loads(line)
        try:
            send(id=task["id"], result=bench.run(task))
        except Exception as error:  # a defect of ours costs a candidate, too, and is told
            send(id=task["id"], result={"error": f"{type(error).__name__}: {error}"})


def _lines() -> Iterator[str]:
    """The lines that come in. When their sender is gone the process ends at once, whatever it is at."""
    import queue

    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield lines.get()


if __name__ == "__main__":
    main()
