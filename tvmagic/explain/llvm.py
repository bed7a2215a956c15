"""What LLVM itself says of a program: its remarks, its assembly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmagic.ir import For

__all__ = ["Facts", "facts_of"]


@dataclass
class Facts:
    """`vectorized`: for loops that LLVM spoke of whether it made vectors; `remarks`: why not."""

    vectorized: dict[For, bool] = field(default_factory=dict)
    remarks: dict[For, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: Any = None

    def spills(self, lines: set[int]) -> int | None:
        """Stores of vector registers to the stack in the code of some lines; None if not known."""
        return None

    def body(self, lines: set[int], target: Any) -> tuple[list[tuple[str, int]], list[str]]:
        """The instructions of the innermost loop of some lines."""
        return [], []


def facts_of(mod: Any, target: Any, loops: Mapping[int, For]) -> Facts:
    """What LLVM says of a lowered module; `loops` are the innermost loops by the lines of the program."""
    return Facts()
