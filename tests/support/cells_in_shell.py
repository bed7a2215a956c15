"""Cells that are run in the shell of a test."""

from __future__ import annotations

from typing import Any


def run(shell: Any, cell: str) -> Any:
    """What a cell gives; it must succeed."""
    result = shell.run_cell(cell)
    assert result.success, result.error_in_exec or result.error_before_exec
    return result.result
