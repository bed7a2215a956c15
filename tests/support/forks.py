"""Runs chosen tests with a fault planted, each time in a fork of a process that has imported and collected them all.

usage: forks.py QUESTIONS.json ANSWERS.txt FOLDER ... with questions `[{path, text, tests, seconds}]`

Starting pytest takes seconds and most faults are noticed in a tenth of one. The fault is in the code of a function:
`text` is the file's text with the fault. A line of the answers has the number of a question and `True` if all its tests
passed.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import math
import os
import pathlib
import resource
import signal
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest

MEMORY = 8 << 30  # in bytes, of a fork: a fault may build something without end
WAITS = 10  # times as long as a fork may compute, it may take where others compute too


def all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a file or function, and that of all functions and classes inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from all_codes(inner)


def plant(path: str, text: str) -> bool:
    """Give each function of a file the code that it has in `text`; whether the outermost one that differs was there.

    So for the functions inside it, which others hold that were made as the file was imported: what a decorator gave.
    """
    before, after = (compile(source, path, "exec") for source in (pathlib.Path(path).read_text(), text))
    codes = {old: new for old, new in zip(all_codes(before), all_codes(after), strict=True) if old != new}
    outermost = next((old for old in codes if old.co_flags & inspect.CO_OPTIMIZED), None)  # of no class, nor the file
    found = False
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__code__.co_filename == path and thing.__code__ in codes:
            old, new = thing.__code__, codes[thing.__code__]
            if old.co_freevars != new.co_freevars:
                return False
            thing.__code__ = new
            found |= old == outermost
    return found


class Forks:
    """Instead of pytest's loop over the tests."""

    def __init__(self, questions: list[dict[str, Any]], answers: pathlib.Path) -> None:
        self.questions, self.answers = questions, answers

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()
        items = {item.nodeid: item for item in session.items}
        for number, question in enumerate(self.questions):
            child = os.fork()
            if child == 0:
                os.setsid()
                self._in_fork(session, question, items)
            answer = _wait(child, time.monotonic() + WAITS * question["seconds"])
            with self.answers.open("a") as out:
                print(number, {0: True, 1: False, 2: None}[answer], file=out)
        return True

    def _in_fork(self, session: pytest.Session, question: dict[str, Any], items: dict[str, pytest.Item]) -> None:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            seconds = math.ceil(question["seconds"])
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            path = str(pathlib.Path(question["path"]).resolve())
            module = question["path"].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            importlib.import_module(module)  # some are loaded when they are first used
            if not plant(path, question["text"]):
                os._exit(2)
            chosen = [items[name] for name in question["tests"] if name in items]
            status = 0
            for item, after in zip(chosen, [*chosen[1:], None]):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if session.testsfailed:
                    status = 1
                    break
        finally:
            os._exit(status)


def _wait(child: int, end: float) -> int:
    """0 if the tests passed, 1 if one failed or they took too long, 2 if the fault could not be planted."""
    pause = 0.005
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
        time.sleep(pause)
        pause = min(2 * pause, 0.2)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1


if __name__ == "__main__":
    asked, answered, *folders = sys.argv[1:]
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not soak and not browser", *folders]
    pytest.main(arguments, plugins=[Forks(json.loads(pathlib.Path(asked).read_text()), pathlib.Path(answered))])
