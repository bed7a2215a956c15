"""Ctrl-C at a random point of a build, a call, a lowering or a magic; afterwards everything must still work.

The signal is real. A trace function raises it at one event (a line, call or return) of the modules that keep state
between calls, so that a window of a microsecond is as likely as a long call. A few seeds use a timer instead, which
also reaches code that waits in C.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import os
import random
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from outcomes import Wrong

import tvmagic
from tvmagic import te

# Files whose functions keep state between calls; the others make new objects of old ones.
TRACED = re.compile(
    r"/tvmagic/(runtime/(jit|kernel|fast_call|threads|raised|module|callbacks)"
    r"|codegen/(cache|interruptible|optimize|build)|interrupts|lazy|locks)\.py$|/llvmlite/binding/"
)
_known: dict[str, int] = {}
_number = [0.0]


def build(parallel: bool = False, bounds: bool = False) -> Any:
    """A function that adds a number that no other one adds."""
    _number[0] += 1
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + _number[0], name="B")
    s = te.create_schedule(B.op)
    if parallel:
        s[B].parallel(s[B].op.axis[0])
    return _number[0], tvmagic.build(s, [A, B], check_bounds=bounds)


def _build_and_call() -> None:
    added, f = build(parallel=random.random() < 0.5)
    for _ in range(3):
        result = np.zeros(16, "float32")
        f(np.zeros(16, "float32"), result)
        np.testing.assert_array_equal(result, np.full(16, added, "float32"))


def _beyond_bounds() -> None:
    source = "@T.prim_func\ndef main(A: T.Buffer((4,)), n: T.int32):\n    A[n] = T.float32(1)\n"
    f = tvmagic.build(tvmagic.script.from_source(source), check_bounds=True)
    for _ in range(3):
        with contextlib.suppress(tvmagic.TVMagicError):
            f(np.zeros(4, "float32"), 7)


def _drop_all() -> None:
    kept = [build()[1] for _ in range(2)]
    for f in kept:
        f(np.zeros(16, "float32"))
    tvmagic.codegen.llvm.cache.clear_cache()
    del kept, f
    gc.collect()


def _read_texts() -> None:
    _, f = build()
    f.get_source("ll"), f.get_source("asm")


def _long_loop() -> None:
    source = "@T.prim_func\ndef main(A: T.Buffer((4,))):\n    while A[0] < T.float32(1):\n        A[1] = A[1] + T.float32(1)\n"
    tvmagic.build(tvmagic.script.from_source(source))(np.zeros(4, "float32"))


TRACED_ACTIONS: dict[str, Callable[[], None]] = {
    "build and call": _build_and_call,
    "bounds": _beyond_bounds,
    "drop": _drop_all,
    "texts": _read_texts,
}
TIMED_ACTIONS = {**TRACED_ACTIONS, "loop": _long_loop}


@functools.cache
def _after_checks(code: types.CodeType) -> frozenset[int]:
    """Return the offsets before which Python looks for signals: behind calls, jumps back and the begin."""
    found, before = set(), ""
    for instruction in dis.get_instructions(code):
        if before.startswith(("CALL", "JUMP_BACKWARD", "RESUME")):
            found.add(instruction.offset)
        before = instruction.opname
    return frozenset(found)


class _Events:
    """Count the events of the traced modules, and raise the signal at one of them."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted, self.count, self.where = wanted, 0, ""

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "call" and not TRACED.search(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti not in _after_checks(frame.f_code):
            return self
        if event not in ("opcode", "call"):
            return self
        self.count += 1
        if self.count == self.wanted:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name}, {event})"
            signal.raise_signal(signal.SIGINT)
        return self


class Case:
    """The interrupt of a seed."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng = random.Random(seed)
        self.timed = self.rng.random() < 0.2
        self.name = self.rng.choice(sorted(TIMED_ACTIONS if self.timed else TRACED_ACTIONS))
        self.share = self.rng.random()
        self.events = _Events()
        self.calls: list[str] = []
        self.replay: list[str] | None = None

    def make(self) -> None:
        """There is nothing to make."""

    def check(self) -> None:
        """Raise `Wrong` unless everything works after the interrupt."""
        before = build(parallel=True), build(), build(bounds=True)
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            (self._timed if self.timed else self._traced)()
        finally:
            if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                raise Wrong("state", f"{self.text()}: the signal's handler is another one afterwards")
            signal.signal(signal.SIGINT, handler)
        for added, f in (*before, build(), build(parallel=True)):
            result = np.zeros(16, "float32")
            f(np.zeros(16, "float32"), result)
            if not (result == np.float32(added)).all():
                raise Wrong("result", f"{self.text()}: {result[0]} instead of {added}")

    def _traced(self) -> None:
        action = TRACED_ACTIONS[self.name]
        if self.name not in _known:
            action()
            counting = _Events()
            self._run(action, counting)
            _known[self.name] = counting.count
        self.events = _Events(1 + int(self.share * _known[self.name]))
        self._run(action, self.events)

    def _run(self, action: Callable[[], None], events: _Events) -> None:
        try:
            sys.settrace(events)
            action()
            sys.settrace(None)
            if events.where:
                time.sleep(0.1)  # it may come a little later
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)

    def _timed(self) -> None:
        seconds = self.share * 0.05

        def send() -> None:
            time.sleep(seconds)
            os.kill(os.getpid(), signal.SIGINT)

        sender = threading.Thread(target=send, daemon=True)
        try:
            sender.start()
            while sender.is_alive():
                TIMED_ACTIONS[self.name]()
            time.sleep(1)  # the signal is on its way
        except KeyboardInterrupt:
            pass

    def text(self) -> str:
        """Where the interrupt came."""
        where = f"after {self.share * 0.05:.4f} s" if self.timed else self.events.where
        return f"# {self.name}, interrupted at {where}"

    def holders(self) -> list[Any]:
        """Expressions for a shrinker: there are none."""
        return []
