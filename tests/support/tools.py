"""Optional tools of tests: marks for tests that use them, and the report of skipped tests.

    @needs("node")               # skipped if the tool is missing
    @uses("llvm-mca")            # runs without the tool, too
    @pytest.mark.parametrize("target", [on("aarch64"), on("wasm32")])  # needs the tools that run this code

`pytest -m tools` selects all of them. `TVMAGIC_HIDE_TOOLS` hides tools, see `tvmagic.tools`. With `TVMAGIC_ALL_TOOLS=1` a test
that misses a tool fails. `python tests/support/tools.py` prints the Debian packages of missing tools.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tvmagic import tools
from tvmagic.runners import MissingTool
from tvmagic.tools import Tool

ALL_TOOLS = "TVMAGIC_ALL_TOOLS"
BROWSER = os.environ.get("TVMAGIC_BROWSER", "chromium")

TOOLS = {
    tool.name: tool
    for tool in [
        *(value for value in vars(tools).values() if isinstance(value, Tool)),
        *map(tools.cross_library, ("aarch64", "riscv64")),
        Tool("chromium", ("chromium", "chromium-browser", "google-chrome"), debian="chromium"),
        Tool("firefox", ("firefox-esr", "firefox"), debian="firefox-esr"),
        Tool("node", ("node",), debian="nodejs"),
        Tool("npm", ("npm",), debian="npm"),
        Tool("patch", ("patch",), debian="patch"),
    ]
}
_AARCH64, _RISCV64, _OPENCL = ("qemu", "lld", "libc-aarch64"), ("qemu", "lld", "libc-riscv64"), ("pyopencl", "pocl")
# Tools that run code for a target.
TO_RUN = {
    "aarch64": _AARCH64, "aarch64-sve": _AARCH64, "riscv64": _RISCV64, "wasm32": ("wasmtime",), "opencl": _OPENCL,
    "nvptx64": ("ptxas", *_OPENCL),
}  # fmt: skip
UNTESTED = ("c++", "firefox", "nvcc")  # tools that `make tools` does not use
# Missing tools of skipped tests, in the properties of their reports.
_MISSING = "missing tool"
_NEEDED: set[str] = set()


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark a test that is skipped unless all these tools are installed."""
    return pytest.mark.tools(*(TOOLS[name].name for name in names))


def uses(*names: str) -> pytest.MarkDecorator:
    """Mark a test that covers the behaviour with and without these tools."""
    return pytest.mark.tools(optional=tuple(TOOLS[name].name for name in names))


def runs(*targets: str) -> pytest.MarkDecorator:
    """Mark a test that is skipped unless the tools are installed that run code for all these targets."""
    return needs(*dict.fromkeys(name for target in targets for name in TO_RUN[target]))


def on(target: str, *values: Any) -> Any:
    """Return the test parameters `values`, by default the target, with the mark of `runs` unless this machine runs its code.

    target: name of a target, and further words such as the width of its vectors.
    """
    family = target.split()[0]
    return pytest.param(*(values or (target,)), marks=[runs(family)] if family in TO_RUN else [])


@functools.cache
def is_installed(name: str) -> bool:
    """Return whether a tool is installed and not hidden."""
    tool = TOOLS[name]
    if name == "pocl":
        from tvmagic.runners.opencl import has_device

        return is_installed("pyopencl") and has_device()
    if name == "ptxas":
        from tvmagic.runners.ptx import assemblers

        return next(assemblers(), None) is not None
    if name == "qemu":
        return all(tool.find(program) for program in tool.programs)
    return tool.find() is not None


def skip_without_tools(item: pytest.Item) -> None:
    """Skip a marked test if one of its tools is missing. Forget the tools that earlier tests needed."""
    _NEEDED.clear()
    missing = [n for mark in item.iter_markers("tools") for n in mark.args if not is_installed(n)]
    if not missing:
        return
    item.user_properties += [(_MISSING, name) for name in missing]
    message = ", ".join(f"`{name}`" for name in missing) + " not installed: " + install_command(missing)
    if os.environ.get(ALL_TOOLS) and not all(TOOLS[name].is_hidden for name in missing):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def check_names() -> None:
    """Raise a usage error if `TVMAGIC_HIDE_TOOLS` names an unknown tool."""
    unknown = {name for name in os.environ.get(tools.HIDE, "").split(",") if name} - {"all", *TOOLS}
    if unknown:
        raise pytest.UsageError(
            f"{tools.HIDE} must be `all` or names of {', '.join(sorted(TOOLS))}, got {', '.join(unknown)}"
        )


def record_needs() -> None:
    """Record the tools that the product needs from now on, for `check_marks`."""
    need = Tool.need

    def recorded(tool: Tool, *programs: str) -> str:
        found = need(tool, *programs)
        _NEEDED.add(tool.name)
        return found

    Tool.need = recorded  # type: ignore[method-assign]


def check_marks(item: pytest.Item) -> None:
    """Fail a test that needed a tool without a mark for it: the test would fail where the tool is missing."""
    marked = {n for mark in item.iter_markers("tools") for n in (*mark.args, *mark.kwargs.get("optional", ()))}
    needed = sorted((_NEEDED - marked) & TOOLS.keys())
    if needed:
        pytest.fail("mark the test with @needs(" + ", ".join(f'"{name}"' for name in needed) + ")", pytrace=False)


def install_command(names: list[str]) -> str:
    """Return the command that installs these tools."""
    debian = dict.fromkeys(TOOLS[n].debian for n in names if TOOLS[n].debian)
    pypi = dict.fromkeys(f"'{TOOLS[n].pypi.replace('tvmagic[', '.[')}'" for n in names if TOOLS[n].pypi)
    commands = {"apt-get install": debian, ".venv/bin/python -m pip install": pypi}
    return " && ".join(f"{command} {' '.join(packages)}" for command, packages in commands.items() if packages)


def omitted(reports: list[Any]) -> str:
    """Return the line about skipped tests, their missing tools and how to install these; empty if none is missing."""
    found = [[name for key, name in r.user_properties if key == _MISSING] for r in reports]
    tests = [names for names in found if names]
    counts = Counter(name for names in tests for name in names)
    if not counts:
        return ""
    listed = ", ".join(f"{name} ({counts[name]})" for name in sorted(counts))
    install = install_command([name for name in sorted(counts) if not TOOLS[name].is_hidden])
    hidden = any(TOOLS[name].is_hidden for name in counts)
    advice = [f"run `{install}`"] * bool(install) + [f"unset `{tools.HIDE}`"] * hidden
    return f"omitted {len(tests)} test{'s' * (len(tests) > 1)} whose tools are missing, {listed}: {'; '.join(advice)}"


def need_gpu() -> tuple[str, int]:
    """Return the name and the architecture of this machine's GPU. Skip the test without one."""
    from tvmagic.runners.cuda import gpu

    found = gpu()
    if found is None:
        pytest.skip("this machine has no NVIDIA GPU, or no `cuda-bindings`, which calls its driver")
    return found


@contextlib.contextmanager
def skip_unsupported_code() -> Iterator[None]:
    """Skip the test if this machine's processor, or its version of a tool, cannot execute the code inside."""
    try:
        yield
    except MissingTool as error:
        pytest.skip(str(error))


if __name__ == "__main__":
    wanted = [tool for name, tool in TOOLS.items() if name not in UNTESTED and not is_installed(name)]
    print(*dict.fromkeys(tool.debian for tool in wanted if tool.debian))
