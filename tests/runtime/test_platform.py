"""What the package does without those parts of Python that Windows does not have."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import os, signal, sys
import IPython, llvmlite.binding, numpy as np  # these know their system themselves

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("sched_getaffinity", "register_at_fork", "fork", "getuid", "uname"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("setitimer", "pthread_sigmask", "SIGALRM", "SIGPROF", "SIGVTALRM", "SIGKILL"):
    if hasattr(signal, name):
        delattr(signal, name)

import tvmagic
from tvmagic import te
from tvmagic.operators import operator
from tvmagic.tune import auto
from tvmagic.tune.measurement_lock import alone
from tvmagic.tune.worker import _alarm, _patience

op = operator("scaled", "A: float32[64, 64]\\nB[i, j] = A[i, j] * 2 + 1")
s = op.te_schedule()
b = s[op.outputs[0]]
b.parallel(b.op.axis[0])
built = tvmagic.build(s, [*op.inputs, *op.outputs])
(a,) = op.random_inputs()
out = np.empty_like(a)
for _ in range(20):
    built(a, out)
np.testing.assert_allclose(out, a * 2 + 1, rtol=1e-6)
auto(op)
with alone() as had, _alarm(1.0), _patience(1.0):
    assert had is False
print("done")
"""


def test_it_runs_without_locks_timers_and_masks_of_signals() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr[-2000:]
