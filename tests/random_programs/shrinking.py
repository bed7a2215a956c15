"""Makes a failing program smaller: fewer schedule calls, smaller expressions, the same kind of failure."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import small_language as sl
from outcomes import Refused, Wrong

SECONDS = 20  # for one attempt
_deadline = 0.0


def outcome(case: Any) -> str:
    """`Wrong`'s kind, `died`, `hang`, or nothing, of the case's check in a process of its own."""
    if _deadline and time.monotonic() > _deadline:
        return "late"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(SECONDS)
        word = ""
        try:
            case.check()
        except Wrong as error:
            word = error.kind
        except Refused:
            word = ""
        except BaseException:
            word = "tester"
        os.write(write, word.encode() or b"-")
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        word = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "hang" if os.WTERMSIG(status) == signal.SIGALRM else "died"
    return "" if word == "-" else word


def shrink(case: Any, seconds: float = 120, report: Callable[[str], None] = lambda text: None) -> str:
    """Make `case` smaller in place, for so many seconds; the kind of its failure."""
    global _deadline
    _deadline = time.monotonic() + seconds
    try:
        return _shrink(case, report)
    finally:
        _deadline = 0.0


def _shrink(case: Any, report: Callable[[str], None]) -> str:
    wanted = outcome(case)
    if not wanted:
        return ""
    try:
        case.make()
    except (Wrong, Refused):
        pass
    case.replay = list(case.calls)
    if outcome(case) != wanted:
        report("the recorded calls do not fail in the same way; not made smaller")
        case.replay = None
        return wanted
    changed = True
    while changed:
        changed = _fewer_calls(case, wanted)
        changed |= _smaller_expressions(case, wanted)
        changed |= _smaller_sizes(case, wanted)
    return wanted


def _fewer_calls(case: Any, wanted: str) -> bool:
    changed = False
    size = max(1, len(case.replay) // 2)
    while size:
        n = len(case.replay) - size
        while n >= 0:
            before = case.replay
            case.replay = before[:n] + before[n + size :]
            if outcome(case) == wanted:
                changed = True
                n = min(n, len(case.replay) - size)
                continue
            case.replay = before
            n -= 1
        size //= 2
    return changed


def _smaller_expressions(case: Any, wanted: str) -> bool:
    changed = False
    for holder, n in case.holders():
        while True:
            before = holder[n]
            for smaller in _smaller(before):
                holder[n] = smaller
                if outcome(case) == wanted:
                    changed = True
                    break
            else:
                holder[n] = before
                break
    return changed


def _smaller(e: sl.Expr) -> list[sl.Expr]:
    """Expressions of the dtype of `e` with fewer nodes, the smallest first."""
    found: list[sl.Expr] = []
    if e.op == "const" or e.op == "var":
        return []
    if e.dtype != sl.INDEX:
        found.append(sl.constant({"bool": True}.get(e.dtype, 1.0 if e.is_float else 1), e.dtype))
    else:
        found.append(sl.constant(0, sl.INDEX))
    found += [a for a in e.args if a.dtype == e.dtype]
    for n, argument in enumerate(e.args):
        if e.op == "if" and n == 0:
            continue  # what it guards would be outside
        found += [e._replace(args=(*e.args[:n], s, *e.args[n + 1 :])) for s in _smaller(argument)]
    return found


def _smaller_sizes(case: Any, wanted: str) -> bool:
    changed = False
    for name in ("bounds",):
        if getattr(case, name, False):
            setattr(case, name, False)
            if outcome(case) == wanted:
                changed = True
            else:
                setattr(case, name, True)
    if case.target != "llvm":
        before, case.target = case.target, "llvm"
        if outcome(case) == wanted:
            changed = True
        else:
            case.target = before
    return changed
