"""What LLVM itself says of a program: its remarks on loops, the assembly by lines, the cycles of a loop's body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tvmagic.codegen.emit.debug import AssemblyLines
from tvmagic.explain.body_cycles import count_cycles
from tvmagic.ir import For
from tvmagic.target.target import cpu_and_features

OPTIONS = ("-pass-remarks-analysis=loop-vectorize", "-pass-remarks=loop-vectorize|loop-idiom")
_REMARK = re.compile(r"remark: lowered\.py:(\d+):\d+: (.*)")
_WITHOUT_TOOL = "cycles are those of a simple model of the core; LLVM's tool llvm-mca, or the package `osaca`, if one is installed, counts them with the tables of the processor"  # fmt: skip


@dataclass
class Body:
    """The instructions of a loop with their lines of the program, the cycles of one run by `tool`, and the pressure.

    `pressure` has for each instruction the resource that it keeps busy, with the cycles, or nothing.
    """

    rows: list[tuple[str, int]] = field(default_factory=list)
    cycles: float = 0.0
    pressure: list[str] = field(default_factory=list)
    tool: str = ""


@dataclass
class Facts:
    """`vectorized`: for loops that LLVM spoke of whether it made vectors; `remarks`: why not; `notes`: what is missing."""

    vectorized: dict[For, bool] = field(default_factory=dict)
    remarks: dict[For, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    assembly: AssemblyLines | None = None

    def spills(self, lines: set[int]) -> int | None:
        """Vector registers stored to the stack in the innermost loop of some lines; None if that is not known."""
        rows = self.loop(lines)
        return sum(bool(_SPILL.search(row)) for row, _ in rows) if rows else None

    def stored(self, lines: set[int]) -> bool | None:
        """Whether each second sum or more of the innermost loop of some lines is stored, not to the stack; None if that is not known."""
        rows = [row for row, _ in self.loop(lines)]
        sums = sum(bool(_SUM.search(row)) for row in rows)
        return 2 * sum(bool(_STORE.search(row) and not _SPILL.search(row)) for row in rows) > sums if sums else None

    def loop(self, lines: set[int]) -> list[tuple[str, int]]:
        """The innermost loop of the assembly with most instructions of some lines of the program."""
        if self.assembly is None or (number := loop_of_lines(self.assembly, lines)) is None:
            return []
        first, last = inner_loops(self.assembly.assembly)[number]
        return list(zip(self.assembly.assembly, self.assembly.line_of))[first : last + 1]

    def body(self, lines: set[int], target: Any) -> Body:
        """The innermost loop of some lines, with what a tool says of it if one is installed."""
        rows = self.loop(lines)
        if not rows:
            return Body()
        found = count_cycles([row for row, _ in rows], target)
        if found is None:
            if _WITHOUT_TOOL not in self.notes:
                self.notes.append(_WITHOUT_TOOL)
            return Body(rows)
        cpu = cpu_and_features(target)[1]
        if found.processor != cpu:
            unknown = (
                f"this {found.tool} does not know {cpu or 'the processor'}: its cycles are those of {found.processor}"
            )
            self.notes.append(unknown)
        return Body(rows, found.cycles, found.pressure, found.tool)


# Stores of a vector register to the stack: x86-64, AArch64.
_SPILL = re.compile(r"^\s*v?mov\w+\s+%[xyz]mm\d+, -?\d*\(%r[sb]p\)|^\s*stu?[rp]\s+q\d+.*\[(?:sp|x29)")
_STORE = re.compile(
    r"^\s*v?mov\w+\s+%[xyz]mm\d+, [^%]*\(|^\s*stu?[rp]\s+[qds]\d+"
)  # of a register of floats or vectors
_SUM = re.compile(
    r"^\s*(?:v?fn?m(?:add|sub|la|ls)|v?(?:f?add|f?max|f?min)(?:nm)?[ps]?[shd]?\s|v?p(?:add|max|min)|vpdp)\w*\b.*(?:%[xyz]mm|\b[qdshv]\d)"
)
_VECTOR = re.compile(r"%[yz]mm\d+|\.4s|\.2d|\.16b")
_LABEL = re.compile(r"^([\w.$]+):")
_JUMP = re.compile(r"^\s*(?:j\w+|b(?:\.\w+)?|cbn?z|tbn?z|b\w{2,4})\s+(?:.*[ ,])?([.\w$]+)\s*(?:#.*)?$")


@lru_cache(maxsize=4)
def inner_loops(assembly: tuple[str, ...]) -> list[tuple[int, int]]:
    """The first and last rows of the loops without loops inside: from a label to the last jump back to it. A loop that begins in
    another one is inside, even if it ends after it, as the last part of a loop may be before its first.

    In WebAssembly they are from `loop` to `end_loop`.
    """
    places: dict[str, int] = {}
    opened: list[int] = []
    found: dict[int, int] = {}
    for number, row in enumerate(assembly):
        if label := _LABEL.match(row):
            places[label.group(1)] = number
        elif (jump := _JUMP.match(row)) and jump.group(1) in places:
            found[places[jump.group(1)]] = number
        elif row.strip() == "loop":
            opened.append(number)
        elif row.strip() == "end_loop" and opened:
            found[opened.pop()] = number
    loops = list(found.items())
    return [
        (a, b)
        for a, b in loops
        if not any(a < c <= b for c, _ in loops)
    ]  # fmt: skip


def loop_of_lines(text: AssemblyLines, lines: set[int]) -> int | None:
    """The number of the innermost loop with most instructions of some lines of the program, loops of vectors first."""
    best, score = None, 0
    for number, (first, last) in enumerate(inner_loops(text.assembly)):
        own = text.line_of[first : last + 1]
        vectors = any(_VECTOR.search(row) for row in text.assembly[first : last + 1])
        count = sum(line in lines for line in own) * (1 + vectors)
        if count > score:
            best, score = number, count
    return best


# ---------------------------------------------------------------------------- remarks


def facts_of(texts: Any, loops: Mapping[int, For]) -> Facts:
    """What LLVM says of the last program that `codegen.code_texts` took; `loops` are the innermost loops by the lines of its text."""
    done = texts.remarks(OPTIONS)
    if done is None:
        return Facts(notes=["LLVM's remarks are missing: the process that asks for them failed"])
    assembly, said = done
    facts = Facts(assembly=assembly)
    _read_remarks(facts, said, loops)
    return facts


def _read_remarks(facts: Facts, said: str, loops: Mapping[int, For]) -> None:
    for line in said.splitlines():
        remark = _REMARK.match(line)
        loop = loops.get(int(remark.group(1))) if remark else None
        if remark is None or loop is None:
            continue
        text = remark.group(2).split(". Use #pragma")[0]  # a way out that C has alone
        if text.startswith(("vectorized loop", "Formed a call to llvm.mem")):  # memcpy, memset: vectors inside
            facts.vectorized[loop] = True
            facts.remarks.pop(loop, None)
        elif text.startswith("loop not vectorized: ") and not facts.vectorized.get(loop):
            facts.vectorized[loop] = False
            facts.remarks.setdefault(loop, text.removeprefix("loop not vectorized: "))
