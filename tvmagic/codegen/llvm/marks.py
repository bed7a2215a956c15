"""Lines of instructions that LLVM moved or merged.

LLVM drops the debug location of an instruction that it hoists, sinks or merges with another one. Alias scopes survive its
passes: an instruction that was merged has the scopes of both. So the module is optimized again, with a scope for each
location, and instructions without a location get that of a scope before code is made of them. The code generator drops the
locations of blocks that it merges; labels survive there. The instructions have to be the same; otherwise nothing is added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from tvmagic.codegen.emit.debug import AssemblyLines, LLVMText, Point, load_at, location_in, metadata_nodes

_Text = TypeVar("_Text", LLVMText, AssemblyLines)

_MARK = re.compile(r'!\{!"tvmagic\.(\d+)\.(\d+)"')
_DEBUG = re.compile(r", !dbg (!\d+)")
_PROGRAM = re.compile(r" !dbg (!\d+)")
_SCOPES = re.compile(r", !alias\.scope (!\d+)")
_METADATA = re.compile(r"(?:, ![a-z].*| *;.*)$")
# Rows of both texts that are instructions; of LLVM text those that access memory or compute with floats or vectors; of assembly these too.
_INSTRUCTION = re.compile(r"[\t ]+[a-z%]")
_LLVM_WORK = re.compile(
    r"\s+store |\s+%\S+ = (?:load (?!ptr)|f(?:add|sub|mul|div|neg)|.*<(?:vscale x )?\d+ x |.*call.* @llvm\.)"
)
_WORK = re.compile(r"\s+(?!lea|nop|lock\b|prefetch)[a-z][\w.]*\s.*(?:\(%|\[|%[xyz]mm\d)")
_VECTOR = re.compile(r"%[xyz]mm(\d+)")
_SECTION = re.compile(r'\s*\.section\s+"?(?:tvmagic\.(\d+)\.(\d+))?')
_LISTED = re.compile(r"(\.Lpcsection\d+)\s*-")
_LABEL = re.compile(r"(\.Lpcsection\d+):")


def is_complete(text: LLVMText | AssemblyLines) -> bool:
    """Return whether every instruction that accesses memory or computes with floats or vectors comes from a line."""
    work = _LLVM_WORK if isinstance(text, LLVMText) else _WORK
    return not any(not line and work.match(row) for row, line in zip(text.rows, text.line_of))


class _Module:
    """The rows of LLVM IR and its metadata, to which nodes are added."""

    def __init__(self, text: str) -> None:
        self.rows = text.splitlines()
        self.nodes = metadata_nodes(self.rows)
        self.unused = 1 + max((int(name[1:]) for name in self.nodes), default=-1)
        self.added: dict[str, str] = {}

    def node(self, body: str) -> str:
        """The name of a metadata node."""
        return self.added.setdefault(body, f"!{self.unused + len(self.added)}")

    def located(self) -> Iterator[tuple[int, str, Point]]:
        """The instructions with a location: number, row and location, or else the first mark."""
        for number, row in enumerate(self.rows):
            point = self.point_of(row) if _LLVM_WORK.match(row) else (0, 0)
            if point[0]:
                yield number, row, point

    def location_of(self, row: str) -> Point:
        """The location of an instruction; (0, 0) if it has none."""
        found = _DEBUG.search(row)
        point = location_in(self.nodes.get(found[1], "")) if found is not None else (0, 0)
        return point if point[0] else (0, 0)

    def point_of(self, row: str) -> Point:
        """The location of an instruction, or else its first mark."""
        place = self.location_of(row)
        if place[0]:
            return place
        marks = [_MARK.match(self.nodes.get(scope, "")) for scope in self.scopes(row)]
        return min([(int(m[1]), int(m[2])) for m in marks if m is not None], default=(0, 0))

    def scopes(self, row: str) -> list[str]:
        """The alias scopes of an instruction."""
        found = _SCOPES.search(row)
        return re.findall(r"!\d+", self.nodes.get(found[1], "")) if found is not None else []

    def text(self) -> str:
        """The text with the nodes that were added."""
        return "\n".join([*self.rows, *[f"{name} = {body}" for body, name in self.added.items()]]) + "\n"


def with_marks(text: str) -> str:
    """Return LLVM IR whose located instructions have their location as an alias scope, which no `noalias` names."""
    module = _Module(text)
    domain = module.node('!{!"tvmagic"}')
    for number, row, (line, column) in module.located():
        mark = module.node(f'!{{!"tvmagic.{line}.{column}", {domain}}}')
        scopes = module.node(f"!{{{', '.join([*module.scopes(row), mark])}}}")
        module.rows[number] = f"{_SCOPES.sub('', row)}, !alias.scope {scopes}"
    return module.text()


def with_locations(text: str) -> str:
    """Return LLVM IR with marks in which instructions without a location have that of their first mark."""
    module = _Module(text)
    program = ""
    for number, row in enumerate(module.rows):
        if row.startswith("define "):
            found = _PROGRAM.search(row)
            program = found[1] if found is not None else ""
        elif program and _LLVM_WORK.match(row) and not module.location_of(row)[0]:
            line, column = module.point_of(row)
            if line:
                place = module.node(f"!DILocation(line: {line}, column: {column}, scope: {program})")
                module.rows[number] = f"{_DEBUG.sub('', row)}, !dbg {place}"
    return module.text()


def with_labels(text: str) -> str:
    """Return LLVM IR whose located instructions have labels in the assembly, with a section for each location that lists them.

    Only ELF has such sections. LLVM's code generator may abort on some such programs: let it run in a process of its own.
    """
    module = _Module(text)
    for number, row, (line, column) in module.located():
        section = module.node(f'!{{!"tvmagic.{line}.{column}"}}')
        module.rows[number] = f"{row}, !pcsections {section}"
    return module.text()


def placed_by_marks(text: LLVMText, marked: str, origins: Mapping[Point, int]) -> LLVMText:
    """Return LLVM IR with the lines of instructions that have no location, from the same IR with marks."""
    module = _Module(marked)
    rows = [row for row in module.rows if _INSTRUCTION.match(row)]
    points = [module.point_of(row) for row in rows]
    return _placed(text, rows, [line for line, _ in points], [load_at(point, origins) for point in points])


def placed_by_locations(text: AssemblyLines, located: AssemblyLines) -> AssemblyLines:
    """Return assembly with the lines of instructions that have no location, from the same assembly with more locations."""
    numbers = [i for i, row in enumerate(located.rows) if _INSTRUCTION.match(row)]
    rows, lines = [located.rows[i] for i in numbers], [located.line_of[i] for i in numbers]
    placed = _placed(text, rows, lines, [located.origins[i] for i in numbers])
    return _with_unfolded_loads(placed)


def placed_by_labels(text: AssemblyLines, labelled: str, origins: Mapping[Point, int]) -> AssemblyLines:
    """Return assembly with the lines of instructions that have no location, from the same assembly with labels."""
    point: Point = (0, 0)
    points: dict[str, Point] = {}
    for row in labelled.splitlines():
        section, listed = _SECTION.match(row), _LISTED.search(row)
        if section is not None:
            point = int(section[1] or 0), int(section[2] or 0)
        elif listed is not None:
            points.setdefault(listed[1], point)
    rows: list[str] = []
    found: list[Point] = []
    point = 0, 0
    for row in labelled.splitlines():
        label = _LABEL.match(row)
        if label is not None:
            point = points.get(label[1], point)
        elif _INSTRUCTION.match(row):
            rows.append(row)
            found.append(point)
            point = 0, 0
    placed = _placed(text, rows, [line for line, _ in found], [load_at(point, origins) for point in found])
    return _with_unfolded_loads(placed)


def _with_unfolded_loads(text: AssemblyLines) -> AssemblyLines:
    """Give a load without a line that of the instruction that uses it: x86's code generator made both of one instruction."""
    lines = list(text.line_of)
    user: dict[str, int] = {}  # by vector register: the line of the next instruction with it
    for i in reversed(range(len(lines))):
        registers = _VECTOR.findall(text.assembly[i])
        if not lines[i] and len(registers) == 1 and _WORK.match(text.assembly[i]):
            lines[i] = user.get(registers[0], 0)
        user.update(dict.fromkeys(registers, lines[i]))
    return text.with_lines(lines, text.origins)


def _placed(text: _Text, rows: list[str], lines: list[int], origins: list[int]) -> _Text:
    """`text` with the lines and origins of `rows`, its instructions, for those that have no line."""
    numbers = [i for i, row in enumerate(text.rows) if _INSTRUCTION.match(row)]
    if [_METADATA.sub("", text.rows[i]) for i in numbers] != [_METADATA.sub("", row) for row in rows]:
        return text
    found, loads = list(text.line_of), list(text.origins)
    for i, line, origin in zip(numbers, lines, origins):
        if not found[i]:
            found[i], loads[i] = line, origin
    return text.with_lines(found, loads)
