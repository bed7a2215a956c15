"""A worker that has accidents: the problem's name says which candidates (by the number of their calls) end it and how."""

import os
import signal
import sys
import time

from tvmagic.tune import worker
from tvmagic.tune.candidate import Candidate

usual = worker.Bench.build


def build(self: worker.Bench, candidate: Candidate) -> object:
    calls = len(candidate.trace[0])
    if calls == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if calls == 2:  # inside compiled code the alarm is what ends it
        time.sleep(1000)
    if calls == 3:  # neither the alarm nor anything else reaches it
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        time.sleep(1000)
    if calls == 4:
        print("text of the program's own")
        os.write(1, b"and more of it\n")
    if calls == 5:
        raise ZeroDivisionError("a defect")
    if calls == 6:
        sys.exit(7)
    return usual(self, candidate)


worker.Bench.build = build  # type: ignore[method-assign]
worker.main()
