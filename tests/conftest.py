"""What tests of speed share: work that is counted or timed so that a busy machine does not change the answer."""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

import pytest

# Threads of BLAS and OpenMP wait for more work in a loop, for 20 ms and more after each call: here, where most calls are
# small, for nothing, and in the way of the other process. They sleep at once, in the processes that tests start, too.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The tests start some hundred processes: where none keeps what it compiled, the whole takes half as long again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# nbformat imports jsonschema, which prepares 38 grammars of this package in 1.5 s, for formats that no test looks at.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def _calls(run: Callable[[], Any]) -> int:
    counted = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return counted


def _cpu_seconds(run: Callable[[], Any], repeat: int = 1) -> float:
    times = []
    gc.collect()
    gc.disable()  # what other tests left on the heap is not this one's work
    try:
        for _ in range(repeat):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(times)


# These files share a browser and a server, and are started first, as they take longest.
BROWSER_FILES = ("test_browser.py", "test_editors.py", "test_pages.py", "test_share.py", "test_sheets.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, those of `BROWSER_FILES` go to one process too, and files start in the order they are in."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope = super()._split_scope(nodeid)
            return "browser" if scope.endswith(BROWSER_FILES) else scope

    config.option.loadscopereorder = False
    return Files(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Reject misspelt tools, and watch which tools are needed."""
    import tools

    tools.check_names()
    tools.record_needs()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests whose tools are missing, before their fixtures are set up."""
    import tools

    tools.skip_without_tools(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail tests that need a tool without a mark for it."""
    import tools

    result = yield
    tools.check_marks(item)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Then come searches for schedules: while one process waits for the browser, nobody waits for the other to measure.

    Tests in a browser need it.
    """
    import tools

    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(
                tools.needs(tools.BROWSER, *(["npm"] if "axe" in getattr(item, "fixturenames", ()) else []))
            )
    items.sort(key=lambda item: (not item.path.name.endswith(BROWSER_FILES), item.path.parent.name != "tune"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there before the first test stays: the garbage collector need not look at it again and again.

    Nor at what tests leave, as often as it would: that is a tenth of their time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report the tests that missed their tools, the processor and the target: `-q` shows no header."""
    import llvmlite.binding as llvm
    import tools

    target = os.environ.get("TVMAGIC_TARGET") or "this machine"
    line = tools.omitted(terminalreporter.stats.get("skipped", []))
    if line:
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"on {platform.machine()} {llvm.get_host_cpu_name()}, code for {target}")


@pytest.fixture
def calls() -> Callable[[Callable[[], Any]], int]:
    """How many calls of Python and C functions `run()` makes: the same on every machine."""
    return _calls


@pytest.fixture
def cpu_seconds() -> Callable[..., float]:
    """`cpu_seconds(run, repeat=1)`: the least processor time of a run, in s."""
    if sys.gettrace() is not None:
        pytest.skip("each line takes longer where the lines that run are recorded")
    return _cpu_seconds
