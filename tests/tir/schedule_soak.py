"""Random schedules in processes of their own, so that a crash costs one seed and names it.

usage: schedule_soak.py FIRST END    the seeds from FIRST to END - 1; the failing ones are printed
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

CHUNK = 100
SECONDS = 60  # a seed takes a tenth of a second


def failing(first: int, end: int, program: str = __file__) -> dict[int, str]:
    """What went wrong by seed, for the seeds from `first` to `end` - 1 that fail."""
    found: dict[int, str] = {}
    while first < end:
        last = min(end, first + CHUNK)
        started, ended = _chunk(program, first, last, found)
        if ended:
            found[started] = ended
        first = started + 1 if ended else last
    return found


def _chunk(program: str, first: int, end: int, found: dict[int, str]) -> tuple[int, str]:
    """Check seeds in one process; the seed it came to, and how the process died if it did."""
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, program, "--here", str(first), str(end)]
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
    return started, "" if code == 0 else f"the process died: {_reason(code)}"


def _reason(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _run_here(first: int, end: int) -> None:
    from schedule_random import check

    for seed in range(first, end):
        print("start", seed, flush=True)
        signal.alarm(SECONDS)  # ends the process
        try:
            check(seed)
        except Exception as error:
            print("wrong", seed, type(error).__name__, " ".join(str(error).split()), flush=True)
        signal.alarm(0)


def main(arguments: list[str]) -> int:
    here = arguments[0] == "--here"
    first, end = (int(a) for a in arguments[-2:])
    if here:
        _run_here(first, end)
        return 0
    found = failing(first, end)
    for seed, reason in found.items():
        print(f"{seed}: {reason}")
    print(f"{end - first} seeds, {len(found)} failing")
    return 1 if found else 0


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
