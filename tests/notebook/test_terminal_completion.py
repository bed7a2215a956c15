"""Completion in cells as IPython's terminal asks for it, through prompt_toolkit."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.terminal.interactiveshell import TerminalInteractiveShell
from IPython.terminal.ptutils import IPythonPTCompleter
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from traitlets.config import Config

CELL = "A: float32[64, 64]\nO[i, j] += A[i, k] * A[k, j]"


@pytest.fixture(scope="module")
def completer() -> Iterator[Any]:
    TerminalInteractiveShell.clear_instance()
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    shell = TerminalInteractiveShell.instance(simple_prompt=True, config=config)
    shell.run_line_magic("load_ext", "tvmagic")
    shell.run_cell_magic("tensor", "mm", CELL)
    yield IPythonPTCompleter(shell=shell)
    shell.run_line_magic("unload_ext", "tvmagic")
    atexit.unregister(shell.atexit_operations)
    TerminalInteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("%%schedule mm\ns[O].", ["bind", "compute_at", "compute_inline"]),
        ('%%schedule mm\nsch.get_block("', ["O", "root"]),
        ("%%schedule mm\ni, j = s[O].op.axis\ns[O].split(", ["i", "j", "factor="]),
        ("%%schedule mm\ni, j = s[O].op.axis\ns[O].reorder(", ["i", "j"]),
        ('%%schedule mm\nb = sch.get_block("O")\ni, j, k = sch.get_loops(b)\nsch.split(', ["i", "j", "k"]),
        ("%%schedule mm\ni, j, k = ir_sch.get_loops('O')\nir_sch.parallel(", ["i", "j", "k"]),
        ("%%schedule mm --ch", ["--check"]),
        ("%passes mm --not", ["--notation"]),
    ],
)
def test_a_terminal_completes_cells(completer: Any, text: str, first: list[str]) -> None:
    found = [c.text for c in completer.get_completions(Document(text), CompleteEvent())]
    assert found[: len(first)] == first
