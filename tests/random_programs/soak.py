"""Random programs in processes of their own, so that a death or a hang costs one seed and names it.

    python tests/random_programs/soak.py KIND FIRST END [--jobs N] [--without WORDS]
    python tests/random_programs/soak.py KIND SEED --show [--shrink]

KIND is te, beyond (te with the switches that go beyond TVM), tir, cell, calls (one scalar function), notation (statements), flow (plain loops and branches), magic (lines of a notebook), tiny (te or tir, of sizes 0 to 3), inplace (tir, whose arguments change), float8 (floats of 8 bits), strided (loops over elements that lie apart), interrupt (Ctrl-C at a random point of a build or call), verdict (cell, notation or tir, judged by the package's own check), large (indices that pass int32), arguments (schedule calls with arguments of other schedules and types), empty (te or tir, with sizes of 0), racy (races of threads and lanes), dimensions (te or tir of 8 to 16 dimensions), topi (operators of TOPI, and gradients), growth (long programs), system (files, caches, threads and children, in odd surroundings), elsewhere (te, tir or strided, compiled for other
machines and run by emulators), threads (te as OpenCL C) or gpu (te as PTX, on an NVIDIA GPU if there is one). The seeds from FIRST to END - 1 that fail
are printed with what is wrong: `result`, `outside` (memory written beside an array), `bounds` (an access that checked
code stops at), `state` (a refused call that changed something), `replay` (a trace that makes another function),
`accepted` (an argument that must be refused), `regions` (a block touches more than it declares), `refused` (an argument), `inconsistent` (a pass left a broken program), `slow` (a node of a long program takes several times as long to build as one of a short program), `verdict` (the check calls a legal program wrong), `internal`, `link`, `died`, `hang`, `tester` (a
defect of the tester). `--show` prints the program of a seed as a text that runs by itself, `--shrink` with the calls
and expressions that matter. `--without` leaves out features, to look behind what is known: see the words of each kind.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import gc
import importlib
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

CHUNK = 50
SECONDS = 20  # of processor time to build and run a program, which takes a tenth of a second
HERE = pathlib.Path(__file__).resolve().parent
KINDS = (
    "te",
    "beyond",
    "tir",
    "cell",
    "calls",
    "notation",
    "flow",
    "magic",
    "tiny",
    "inplace",
    "float8",
    "strided",
    "interrupt",
    "verdict",
    "large",
    "arguments",
    "empty",
    "racy",
    "dimensions",
    "growth",
    "system",
    *(["topi"] if importlib.util.find_spec("tvmagic.compat") else []),  # a part of compat
)
EMULATED = ("elsewhere", "threads", "gpu")  # which need emulators


def run_seeds(
    kind: str,
    seeds: Sequence[int],
    without: str = "",
    jobs: int = 1,
    program: str = __file__,
    report: Callable[[str], None] = lambda text: None,
) -> tuple[dict[int, str], collections.Counter[str]]:
    """What went wrong by seed; how many were right, refused and so on.

    `report` is called with a line for each seed that fails, as soon as its part of the seeds is done.
    """
    found: dict[int, str] = {}
    counts: collections.Counter[str] = collections.Counter()
    chunks = [list(seeds[at : at + CHUNK]) for at in range(0, len(seeds), CHUNK)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for part, counted in pool.map(lambda chunk: _chunk(program, kind, chunk, without), chunks):
            found.update(part)
            for seed, reason in sorted(part.items()):
                report(f"{seed}: {reason}")
            counts.update(counted)
    return dict(sorted(found.items())), counts


def _chunk(program: str, kind: str, seeds: list[int], without: str) -> tuple[dict[int, str], dict[str, int]]:
    """Check seeds, in a new process after each death."""
    found: dict[int, str] = {}
    counts: collections.Counter[str] = collections.Counter()
    while seeds:
        command = [sys.executable, program, kind, *map(str, seeds), "--here", "--without", without]
        started, death = _process(command, seeds[0], found, counts)
        if death:
            found[started] = death
            counts[death.split(":")[0]] += 1
        seeds = seeds[seeds.index(started) + 1 :] if death else []
    return found, counts


def _process(
    command: list[str], first: int, found: dict[int, str], counts: collections.Counter[str]
) -> tuple[int, str]:
    """Run a process; the seed it came to, and how it died if it did."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.DEVNULL)
        try:
            code = process.wait()
        finally:
            process.kill()
        log.seek(0)
        started = first
        for line in log:
            word, seed, *rest = line.rstrip("\n").split(" ", 2)
            if word == "start":
                started = int(seed)
            elif word == "wrong":
                found[int(seed)] = rest[0]
                counts[rest[0].split(":")[0]] += 1
            elif word in ("right", "refused"):
                counts[word] += 1
    if code in (-signal.SIGALRM, -signal.SIGPROF):
        return started, f"hang: more than {SECONDS} s for a program"
    return started, "" if code == 0 else f"died: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"


def load_case(kind: str, seed: int, without: str = "") -> Any:
    """The case of a seed; its modules are imported."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
    return importlib.import_module(f"{kind}_programs").Case(seed, frozenset(without.split(",")))


def _run_here(kind: str, seeds: list[int], without: str) -> None:
    """Check the seeds in this process, and say on stdout what each comes to."""
    seconds = SECONDS * getattr(load_case(kind, 0, without), "builds", 1)  # this also does the imports
    from outcomes import Refused, Wrong

    gc.freeze()  # what is imported stays, and a tenth of the time went into looking at it again and again
    gc.set_threshold(20_000, 20, 20)
    for seed in seeds:
        print("start", seed, flush=True)
        signal.setitimer(signal.ITIMER_PROF, seconds)  # ends the process
        signal.alarm(30 * seconds)  # also for a process that hardly gets a processor
        try:
            load_case(kind, seed, without).check()
            print("right", seed, flush=True)
        except Wrong as error:
            print("wrong", seed, f"{error.kind}: {error}".replace("\n", " "), flush=True)
        except Refused as error:
            print("refused", seed, str(error).replace("\n", " "), flush=True)
        except Exception as error:
            print("wrong", seed, "tester:", type(error).__name__, " ".join(str(error).split()), flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def _show(kind: str, seed: int, without: str, smaller: bool) -> None:
    case = load_case(kind, seed, without)
    import shrinking

    case = case.of_one_target(shrinking.outcome) if kind == "elsewhere" else case
    failure = shrinking.shrink(case, report=print) if smaller else shrinking.outcome(case)
    try:
        if failure in ("died", "hang"):
            case.make()
        else:
            case.check()
    except Exception as error:
        print("#", getattr(error, "kind", type(error).__name__), error)
    print("#", failure or "right, or refused")
    print(case.text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=(*KINDS, *EMULATED))
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int, nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--without", default="")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.here:  # the seeds themselves
        _run_here(o.kind, [o.first, *o.end], o.without)
        return 0
    if len(o.end) > 1:
        parser.error("at most two numbers: the first seed and the end")
    end = o.end[0] if o.end else o.first + 1
    if o.show or o.shrink:
        _show(o.kind, o.first, o.without, o.shrink)
        return 0
    begin = time.time()
    found, counts = run_seeds(
        o.kind, range(o.first, end), o.without, o.jobs, report=lambda text: print(text, flush=True)
    )
    print(f"{end - o.first} seeds in {time.time() - begin:.0f} s, {len(found)} failing;", dict(counts))
    return 1 if found else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
