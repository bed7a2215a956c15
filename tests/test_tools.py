"""Optional tools: how tvmagic finds them, and what a test run says about missing ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from refusals import refuses
from tools import TOOLS, install_command, omitted

from tvmagic.runtime import cc
from tvmagic.tools import HIDE, MissingTool, Tool, cross_library

ROOT = Path(__file__).parents[1]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the program `second`, which alone is on the path."""
    (tmp_path / "second").write_text("#!/bin/sh\n")
    (tmp_path / "second").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(HIDE, raising=False)
    return tmp_path


def test_programs_are_found_in_order(programs: Path) -> None:
    tool = Tool("t", ("first", "second"), debian="some-package")
    assert tool.need() == str(programs / "second") and tool.find("first") is None
    (programs / "first").write_bytes((programs / "second").read_bytes())
    (programs / "first").chmod(0o755)
    assert tool.find() == str(programs / "first")


@pytest.mark.parametrize("hidden", ["t", "all", "qemu,t"])
def test_hidden_tools_are_not_found(hidden: str, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [Tool("t", ("second",)), Tool("t", package="numpy"), Tool("t", file=str(programs / "second"))]
    assert all(tool.find() for tool in tools)
    monkeypatch.setenv(HIDE, hidden)
    assert not any(tool.find() for tool in tools)
    for tool in tools:
        with refuses("tool.missing_library", "tool.missing_package", "tool.missing_program", error=MissingTool):
            tool.need()


def test_names_of_other_tools_hide_nothing(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDE, "qemu,tt")
    assert Tool("t", ("second",)).find()


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        (Tool("t", ("first", "third"), debian="some-package"), "tool.missing_program"),
        (Tool("t", package="no_such.package", pypi="such"), "tool.missing_package"),
        (Tool("t", file="/no/such/file", debian="such"), "tool.missing_library"),
        (cross_library("sparc64"), "tool.missing_library"),
    ],
    ids=["program", "package", "file", "library"],
)  # fmt: skip
def test_a_missing_tool_names_the_command_that_installs_it(programs: Path, tool: Tool, code: str) -> None:
    with refuses(code, error=MissingTool):
        tool.need()


@pytest.mark.parametrize(
    ("link", "program"),
    [
        (cc.create_shared, "cc"),
        (cc.create_executable, "cc"),
        (cc.create_staticlib, "ar"),
    ],
)
def test_linking_without_a_compiler_names_its_package(
    link: Any, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HIDE, "all")
    with refuses("tool.missing_program", error=MissingTool):
        link(str(tmp_path / "made"), [str(tmp_path / "some.o")])
    with refuses("link.no_linker", names="`no-such-program`"):
        link(str(tmp_path / "made"), [str(tmp_path / "some.o")], **{program: "no-such-program"})


def test_a_run_says_in_one_line_what_it_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def skipped(*missing: str) -> pytest.TestReport:
        properties = [("missing tool", name) for name in missing]
        return pytest.TestReport("t", ("", 0, ""), {}, "skipped", ("", 0, ""), "setup", user_properties=properties)

    monkeypatch.delenv(HIDE, raising=False)
    assert omitted([]) == omitted([skipped()]) == ""
    line = omitted([skipped("node"), skipped("qemu", "lld"), skipped("node"), skipped()])
    assert line.startswith("omitted 3 tests whose tools are missing, lld (1), node (2), qemu (1): run ")
    assert "`apt-get install lld nodejs qemu-user`" in line and "\n" not in line
    monkeypatch.setenv(HIDE, "node")
    assert omitted([skipped("node")]).endswith(f"node (1): unset `{HIDE}`")


def test_one_command_installs_all_tools() -> None:
    command = install_command(["qemu", "pyopencl", "ptxas", "libc-riscv64"])
    assert command == "apt-get install qemu-user libc6-riscv64-cross && .venv/bin/python -m pip install '.[targets]'"
    assert all(bool(tool.debian) != bool(tool.pypi) for tool in TOOLS.values())


def test_a_misspelt_tool_to_hide_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDE, "qemu,quemu")
    done = subprocess.run([sys.executable, "-m", "pytest", __file__], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 4 and f"{HIDE} must be `all` or names of" in done.stderr and "got quemu" in done.stderr


def test_a_test_without_a_mark_for_its_tool_fails(programs: Path) -> None:
    (programs / "second").rename(programs / "patch")
    (programs / "test_marks.py").write_text(
        "from tools import TOOLS, needs\n"
        "def test_unmarked(): TOOLS['patch'].need()\n"
        "@needs('patch')\ndef test_marked(): TOOLS['patch'].need()\n"
        "@needs('patch', 'node')\ndef test_skipped(): raise AssertionError\n"
    )
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "tests" / "support")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-c", str(ROOT / "pyproject.toml"), "test_marks.py"],
        cwd=programs,
        env={**os.environ, "PYTHONPATH": path, HIDE: "node"},
        capture_output=True,
        text=True,
    )
    assert "_ test_unmarked _" in done.stdout and 'mark the test with @needs("patch")' in done.stdout, done.stdout
    assert "1 failed, 1 passed, 1 skipped" in done.stdout
    assert f"omitted 1 test whose tools are missing, node (1): unset `{HIDE}`" in done.stdout
