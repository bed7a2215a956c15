"""Debug locations: from an instruction back to its line in the lowered program's text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvmagic.codegen.text.symbols import symbol_of
from tvmagic.codegen.text.writer import FunctionText, ModuleText
from tvmagic.ir import Node
from tvmagic.lazy import cached_property

Point = tuple[int, int]  # a line, and the number of a statement or a load on it, both from 1


class Lines:
    """The text of a program and the line of every node in it.

    Statements and loads also have a point: several loads of a line are told apart. A node that was rewritten after the text
    was made has the point of its origin.
    """

    def __init__(self, program: Any) -> None:
        from tvmagic.script import script_with_spans

        self.text, self.spans = script_with_spans(program)

    @cached_property
    def points(self) -> dict[int, Point]:
        """The first point of each origin."""
        found: dict[int, Point] = {}
        counts: dict[int, int] = {}
        for place in self.spans.places:
            origin = _origin_of(place.node)
            if origin:
                counts[place.span.line] = counts.get(place.span.line, 0) + 1
                found.setdefault(origin, (place.span.line, counts[place.span.line]))
        return found

    @cached_property
    def origins(self) -> dict[Point, int]:
        """The origin at each point."""
        return {point: origin for origin, point in self.points.items()}

    def point_of(self, node: Any) -> Point:
        """The first point of `node`; line 0 if neither it nor its origin is in the text."""
        if not isinstance(node, Node):
            return 0, 1
        span, point = self.spans.get(node), self.points.get(_origin_of(node))
        if span is None:
            return point or (0, 1)
        return point if point is not None and point[0] == span.line else (span.line, 1)

    def line_of(self, node: Any) -> int:
        """The first line that `node` is on, counted from 1; 0 if it is not in the text."""
        return self.point_of(node)[0]


def _origin_of(node: Any) -> int:
    span = getattr(node, "span", None)
    return span.origin if span is not None and getattr(node, "HAS_ORIGIN", False) else 0


class DebugInfo:
    """The metadata that gives LLVM the line of each instruction."""

    def __init__(self, module: ModuleText, lines: Lines) -> None:
        self.module, self.lines = module, lines
        self.file = module.node('!DIFile(filename: "lowered.py", directory: ".")')
        self.unit = module.node(
            f'distinct !DICompileUnit(language: DW_LANG_C, file: {self.file}, producer: "tvmagic", '
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
        )
        kind = module.node("!DISubroutineType(types: !{})")
        self.type = kind
        dwarf = module.node('!{i32 7, !"Dwarf Version", i32 4}')
        version = module.node('!{i32 2, !"Debug Info Version", i32 3}')
        module.named_metadata.append(f"!llvm.dbg.cu = !{{{self.unit}}}\n!llvm.module.flags = !{{{dwarf}, {version}}}")
        self.scope = ""
        self.places: dict[tuple[str, Point], str] = {}
        self.scopes: dict[int, str] = {}

    def subprogram(self, node: Any, name: str) -> str:
        """The function called `name`, at the line of `node`: a suffix of its head."""
        line = self.lines.line_of(node)
        self.scope = self.module.node(
            f'distinct !DISubprogram(name: "{symbol_of(name)}", scope: {self.file}, file: {self.file}, line: {line}, '
            f"type: {self.type}, scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self.unit})"
        )
        return f" !dbg {self.scope}"

    def at(self, out: FunctionText, node: Any) -> None:
        """What `out` gets next belongs to the point of `node`; the column is the number on the line."""
        scope = re.search(r"!dbg (!\d+)$", out.head)
        line, column = self.lines.point_of(node)
        if scope is None or not line and out.location:
            return
        key = scope.group(1), (line, column)
        if key not in self.places:
            self.places[key] = self.module.node(f"!DILocation(line: {line}, column: {column}, scope: {key[0]})")
        out.location = f", !dbg {self.places[key]}"


@dataclass(frozen=True)
class AssemblyLines:
    """A lowered program's text and its assembly, line by line.

    `line_of[i]` is the line of `source` (from 1) that the i-th line of `assembly` comes from, 0 where it
    comes from none. `origins[i]` is the origin of the load that it is, 0 where it is none, or of several.
    """

    source: str
    assembly: tuple[str, ...]
    line_of: tuple[int, ...]
    origins: tuple[int, ...] = ()

    def of_line(self, line: int) -> list[int]:
        """The lines of the assembly (from 0) that come from one line of the source."""
        return [i for i, own in enumerate(self.line_of) if own == line]

    @property
    def rows(self) -> tuple[str, ...]:
        """The lines of the assembly."""
        return self.assembly

    def with_lines(self, lines: Iterable[int], origins: Iterable[int]) -> AssemblyLines:
        """Return the same text with other lines and origins."""
        return replace(self, line_of=tuple(lines), origins=tuple(origins))


_LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)(?:\s+(\d+))?")
_LABEL = re.compile(r"^[\w.$\"]+:")
# Directives and labels that say nothing to a reader.
_NOISE = re.compile(r"^\s*\.(file|cfi_\w+|ident|addrsig\w*|size|type)\b|^\.?L(func|tmp|debug|line|info)\w*:|^\s*#")


def lines_of_assembly(source: str, text: str, origins: Mapping[Point, int] | None = None) -> AssemblyLines:
    """Read the line directives of an assembly text, and leave them and the debug sections out."""
    kept: list[str] = []
    lines: list[int] = []
    found: list[int] = []
    current = column = 0
    skipped = False
    for row in text.splitlines():
        if row.lstrip().startswith(".section") or row.strip() in (".text", ".data", ".bss"):
            skipped = ".debug" in row
            current = 0
        location = _LOCATION.match(row)
        if location:
            current, column = int(location.group(1)), int(location.group(2) or 0)
        if skipped or location or _NOISE.match(row) or not row.strip():
            continue
        if _LABEL.match(row) and not row.startswith((".LBB", "$")):
            current = 0
        kept.append(row)
        instruction = row.startswith(("\t", " ")) and not row.lstrip().startswith(".")
        lines.append(current if instruction else 0)
        found.append(load_at((lines[-1], column), origins))
    return AssemblyLines(source, tuple(kept), tuple(lines), tuple(found))


def load_at(point: Point, origins: Mapping[Point, int] | None) -> int:
    """The origin at a point; 0 for the first one of a line, which is that of its statement and of its operations."""
    return origins.get(point, 0) if origins is not None and point[1] > 1 else 0


class LLVMText(str):
    """LLVM IR as text that knows what it was made of.

    `line_of[i]` is the line of `source` (from 1) that the i-th line comes from, 0 if it comes from none. `origins[i]` is
    the origin of the load that it is, 0 if it is none.
    """

    source: str
    line_of: tuple[int, ...]
    origins: tuple[int, ...]

    @property
    def rows(self) -> tuple[str, ...]:
        """The lines of the text."""
        return tuple(self.splitlines())

    def with_lines(self, lines: Iterable[int], origins: Iterable[int]) -> LLVMText:
        """Return the same text with other lines and origins."""
        found = LLVMText(self)
        found.source, found.line_of, found.origins = self.source, tuple(lines), tuple(origins)
        return found


_NODE = re.compile(r"(!\d+) = (.*)")
_PLACE = re.compile(r"(?:distinct )?!DILocation\(line: (\d+)(?:, column: (\d+))?")
_DEBUG = re.compile(r",? !dbg (!\d+)")
_REFERENCE = re.compile(r"!\d+")


def metadata_nodes(rows: Iterable[str]) -> dict[str, str]:
    """Return the text of each metadata node of LLVM IR, by its name."""
    return {m[1]: m[2] for row in rows if (m := _NODE.match(row))}


def location_in(node: str) -> Point:
    """Return the line and column of a metadata node that is a debug location, else (0, 0)."""
    found = _PLACE.match(node)
    return (int(found[1]), int(found[2] or 0)) if found is not None else (0, 0)


def lines_of_llvm(source: str, text: str, origins: Mapping[Point, int] | None = None) -> LLVMText:
    """Read the debug locations of LLVM IR, and leave out all that is there for debugging alone.

    The text is then that made without debug locations: what metadata is left has numbers from 0 on.
    """
    rows = text.splitlines()
    nodes = metadata_nodes(rows)
    places = {name: location_in(body) for name, body in nodes.items()}
    program = [
        row for row in rows if not _NODE.match(row) and not row.startswith(("!llvm.dbg.cu", "!llvm.module.flags"))
    ]
    points = [max((places.get(name, (0, 0)) for name in _DEBUG.findall(row)), default=(0, 0)) for row in program]
    program = [_DEBUG.sub("", row) for row in program]
    numbers: dict[str, str] = {}
    for row in program:  # the nodes that are in use, each before those that it names
        _number(_REFERENCE.findall(row), nodes, numbers)
    program = [_REFERENCE.sub(lambda m: numbers.get(m[0], m[0]), row) for row in program]
    while program and not program[-1].strip():
        program.pop()
    kept = [f"{number} = {_REFERENCE.sub(lambda m: numbers[m[0]], nodes[name])}" for name, number in numbers.items()]
    found = LLVMText("\n".join([*program, *([""] if kept else []), *kept]) + "\n")
    rest = (0,) * (len(kept) + bool(kept))
    found.source, found.line_of = source, (*[line for line, _ in points[: len(program)]], *rest)
    found.origins = (*[load_at(point, origins) for point in points[: len(program)]], *rest)
    return found


def _number(names: list[str], nodes: dict[str, str], numbers: dict[str, str]) -> None:
    waiting = names[::-1]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in numbers:
            numbers[name] = f"!{len(numbers)}"
            waiting += _REFERENCE.findall(nodes[name])[::-1]
