"""Ctrl-C while LLVM compiles, while a pass runs, while a kernel runs: it returns soon, and what was there still works.

Each case runs in a process of its own, which gets a real signal.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="needs POSIX signals")

PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import tvmagic as tvm
from tvmagic import codegen, te, tir
from tvmagic.script import tir as T

def small(k):
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + float(k), name="B")
    return tvm.build(te.create_schedule(B.op), [A, B])

before = small(1)
zeros = np.zeros(16, "float32")
before(zeros)

def interrupted(run, after=0.3):
    sent = []
    def send():
        time.sleep(after)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send, daemon=True).start()
    try:
        run()
    except KeyboardInterrupt:
        print("returned after", time.perf_counter() - sent[0])
    else:
        print("not interrupted")
    np.testing.assert_array_equal(before(zeros), np.ones(16))
"""
# LLVM works for seconds on the moves of so many lanes.
WIDE = """
from tvmagic.codegen.llvm.optimize import object_of, optimized
lanes = 4096
order = ", ".join(f"i32 {(i * 2654435761) % lanes}" for i in range(lanes))
kind = f"<{lanes} x float>"
target = codegen.resolved()
from tvmagic.target import layout_of
triple, layout = layout_of(target)
text = f'target datalayout = "{layout}"\\ntarget triple = "{triple}"\\n'
text += f"define void @f(ptr %p) {{\\n  %x = load {kind}, ptr %p\\n"
text += f"  %y = shufflevector {kind} %x, {kind} poison, <{lanes} x i32> <{order}>\\n"
text += "".join(f"  %z{n} = fadd {kind} %{'y' if n == 0 else f'z{n - 1}'}, %x\\n" for n in range(8))
text += f"  store {kind} %z7, ptr %p\\n  ret void\\n}}\\n"
"""
CASES = {
    "LLVM's code generator": WIDE + "module = optimized(text, target)\ninterrupted(lambda: object_of(module, target))",
    "a build": """
from tvmagic.codegen.llvm import build, optimize
real = optimize._optimized
def slow(*args):  # LLVM that holds on to the processor
    import ctypes
    ctypes.PyDLL(None).PyErr_CheckSignals
    ctypes.CDLL(None).sleep(4)
    return real(*args)
optimize._optimized = slow
interrupted(lambda: small(2))
optimize._optimized = real
np.testing.assert_array_equal(small(2)(zeros), np.full(16, 2))
""",
    "a pass in a thread with a deep stack": """
from tvmagic.ir.deep_recursion import with_deep_stack
def endless():
    if threading.current_thread() is threading.main_thread():
        raise RecursionError
    while True:
        time.sleep(0.01)
interrupted(lambda: with_deep_stack(endless))
time.sleep(0.1)
assert not [t for t in threading.enumerate() if "deep stack" in t.name]
np.testing.assert_array_equal(small(3)(zeros), np.full(16, 3))
""",
    "an endless while": """
source = '''@T.prim_func
def main(A: T.Buffer((16,))):
    while A[0] < T.float32(1):
        A[1] = A[1] + T.float32(1)
'''
endless = tvm.build(tvm.script.from_source(source))
interrupted(lambda: endless(np.zeros(16, "float32")))
np.testing.assert_array_equal(small(4)(zeros), np.full(16, 4))
""",
    "one long loop": """
A, k, k2 = te.placeholder((8,), name="A"), te.reduce_axis((0, 1 << 30), "k"), te.reduce_axis((0, 8), "k2")
for S in (te.compute((), lambda: te.max(te.exp(A[k % 8] + k), axis=k), name="S"),
          te.compute((), lambda: te.sum(A[k2] / (k + 1.0), axis=[k, k2]), name="S")):
    f = tvm.build(te.create_schedule(S.op), [A, S])
    interrupted(lambda: f(zeros[:8], np.zeros((), "float32")))
""",
    "a parse": """
lines = "\\n".join(f"    A[{i % 16}] = A[{(i + 1) % 16}] * T.float32({i}) + A[{i % 7}]" for i in range(8000))
interrupted(lambda: tvm.script.from_source("@T.prim_func\\ndef main(A: T.Buffer((16,))):\\n" + lines))
np.testing.assert_array_equal(small(5)(zeros), np.full(16, 5))
""",
}


@pytest.mark.parametrize("name", CASES)
def test_ctrl_c_returns_within_a_second(name):
    text = PRELUDE + textwrap.dedent(CASES[name]) + "\nprint('done', flush=True)\nos._exit(0)\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr
    waited = re.findall(r"^returned after (\S+)$", done.stdout, re.MULTILINE)
    assert waited and "not interrupted" not in done.stdout, done.stdout
    assert max(map(float, waited)) < 1.0


def test_a_script_that_is_interrupted_ends():
    """LLVM's thread does not keep the process, nor does it bring it down."""
    text = PRELUDE + WIDE + "module = optimized(text, target)\nsignal.setitimer(signal.ITIMER_REAL, 0)\n"
    text += "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\nobject_of(module, target)\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode in (1, 130, -signal.SIGINT), (done.returncode, done.stderr[-500:])
