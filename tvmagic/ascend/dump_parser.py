"""Reads the dump of a graph, of both generations and as a document shows it: with comments and dots.

Lines that say nothing known here are kept in their node. Every part keeps its text, so that it is printed as it was. An
excerpt may name axes and nodes that it does not have: it is read and printed, and refused by whatever computes with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from tvmagic.ascend.dump_printer import DTYPES, SECTIONS, remember
from tvmagic.ascend.graph import (
    AscendError,
    AscGraph,
    AscNode,
    AscTensor,
    Axis,
    AxisType,
    GraphType,
    Source,
    TmpBuffer,
)
from tvmagic.ascend.sizes import NUMBERS, Size, parse_size
from tvmagic.errors import TVMagicError, a_thing, did_you_mean

_AXIS = re.compile(r"(\S+?)\((\d+)\)\s*:\s*(.*)$")
_NODE = re.compile(r"(\S+): (\w+) \((-?\d+)\)$")
_FACT = re.compile(r"\.([\w.]+)\s*=\s*(.*)$")
_BLOCK = re.compile(r"\.([\w.]+):$")
_TENSOR = re.compile(r"\.(\w+): (\w+)$")
_ENTRY = re.compile(r'\.(\w+) = (?:expression: "([^"]*)"|s: "([^"]*)"|i: (-?\d+)|f: ([^\s,}]+)|b: (true|false))')
_SHORT_MEMORY = re.compile(r"(\w*)\[(.*)\]$")
_LATER_FORM = re.compile(r'\s*(%\w+(:\d+)?\s*[=,]|#\w+\s*=|!\w+\s*=|"?\w+\.\w+"?\s*[@({<]|module\b)')
_BEGINNING = "a dump begins with `Graph: NAME`, and goes on with `Sizes:`, `Axis:` and `Nodes:`"
_SIZE_LINE = "`s0: VAR` for a size that is open, `s0: CONST(4)` for a number"
_AXIS_LINE = "`z0(0) : s0, ORIGINAL, align: -1, ...`, or shorter `z0(0) : ORIGINAL, size:s0, `"
_NODE_LINE = "a node begins with `NAME: Type (0)`, and all that is said of it with a dot: `.axis = {z0, }`"
_SIZES = "sums, products and quotients of numbers and names of sizes, and " + ", ".join(NUMBERS)
_DTYPES = {name: dtype for dtype, name in DTYPES.items()} | {
    "double": "float64", "DT_FLOAT": "float32", "DT_FLOAT16": "float16", "half": "float16", "float": "float32",
    "DT_INT8": "int8", "DT_INT16": "int16", "DT_INT32": "int32", "DT_INT64": "int64", "DT_UINT8": "uint8",
    "DT_UINT16": "uint16", "DT_UINT32": "uint32", "DT_UINT64": "uint64",
}  # fmt: skip


def parse_graph(text: str) -> AscGraph:
    """The graph of a dump. Raises AscendError, with the place, for a line that is in no place where a dump may have it."""
    if not isinstance(text, str):
        raise AscendError(
            "dump", f"a dump is a text, not {a_thing(text)}", hint="the text of a file: `Path(name).read_text()`"
        )
    return _Reader().read(text)


def _uncommented(line: str) -> str:
    """A line without its comment; `//` in a quoted text does not begin one."""
    code = re.match(r'(?:[^"/]|"[^"]*"|/(?!/)|")*', line)
    assert code is not None
    return code.group().rstrip()


def _items(text: str) -> list[str]:
    """The parts of a list, which commas separate that are in no parentheses."""
    items, start = [], 0
    text = text.strip()
    if text[:1] in ("{", "(") and [*_depths(text), 0].index(0) == len(text) - 1:  # brackets around all of it
        text = text[1:-1]
    for place, depth in enumerate(_depths(text)):
        if text[place] == "," and depth == 0:
            items.append(text[start:place])
            start = place + 1
    items.append(text[start:])
    return [t.strip() for t in items if t.strip()]


def _depths(text: str) -> list[int]:
    """How many brackets are open behind each letter."""
    return list(accumulate((letter in "({") - (letter in ")}") for letter in text))


def _int_value(text: str) -> int:
    if text == "nil":
        return -1
    if not re.fullmatch(r"-?\d+", text):
        raise AscendError("text", f"`{text}` is not a number", hint="a whole number, or nil for none")
    return int(text)


def _size(text: str) -> Size:
    try:
        return parse_size(text)
    except AscendError:
        raise
    except TVMagicError as error:
        raise AscendError("text", str(error), hint=_SIZES) from None


class _Reader:
    """Goes through the lines; `block` is the fact that the lines with more than `indent` blanks are about."""

    def __init__(self) -> None:
        self.graph = AscGraph("")
        self.node: AscNode | None = None
        self.section = ""
        self.number = self.node_number = 0  # of the line, and of the first line of the node
        self.raw: list[str] = []
        self.blocks: list[tuple[int, str]] = []
        self.open_attributes = False
        self.missing_axes: dict[str, Axis] = {}
        self.missing_nodes: dict[str, AscNode] = {}

    def read(self, text: str) -> AscGraph:
        """The graph of a text."""
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            content = _uncommented(line)
            self.number = number
            if content.strip() and not set(content.strip()) <= {".", "…"}:
                try:
                    self.line(content)
                except AscendError as error:
                    raise error.at_line(number, line.rstrip()) from None
            self.raw.append(line)
        if not self.section:
            raise AscendError("text", "the text holds no graph", hint=_BEGINNING)
        self.end()
        self.finish()
        return self.graph

    def line(self, content: str) -> None:
        """A line that says something: the head of a section, or what its section says it is."""
        known = {"Sizes": self.size_line, "Axis": self.axis_line, "Nodes": self.node_line}
        if _LATER_FORM.match(content):
            raise AscendError(
                "text", f"`{content.strip()}` is of the form of dumps in MLIR, which is not read here", hint=_BEGINNING
            )
        head = content.strip().partition(":")[0]
        if head == "Graph" and self.section and content == content.lstrip():
            raise AscendError(
                "text",
                "a second graph begins here; one is read at a time",
                hint="call parse_graph for each `Graph: NAME`",
            )
        if head == "Graph" and not self.section:
            self.begin("Graph")
            self.graph.name = content.partition(":")[2].strip()
        elif content.strip() in ("Sizes:", "Axis:", "Nodes:"):
            self.begin(head)
        elif self.section not in known:
            raise AscendError("text", f"`{content.strip()}` is before the sections of a graph", hint=_BEGINNING)
        else:
            known[self.section](content)

    def begin(self, section: str) -> None:
        """A new section; what was read before it belongs to the section or the node before."""
        self.end()
        if SECTIONS.index(section) <= (SECTIONS.index(self.section) if self.section else -1):
            raise AscendError(
                "text", f"the section `{section}` is in the wrong place",
                hint="the sections are Graph, Sizes, Axis and Nodes, in this order and each once",
            )  # fmt: skip
        self.section = section

    def end(self) -> None:
        """The text since the last section or node."""
        text = "".join(self.raw)
        if not self.section:
            return  # lines in front of the graph go with its first one
        self.raw = []
        if self.node is not None:
            self.node.source = Source(text, line=self.node_number)
        else:
            self.graph.sources[self.section] = Source(text)

    # ------------------------------------------------------------------ sizes and axes

    def size_line(self, line: str) -> None:
        """`s0: VAR`."""
        name, _, value = line.strip().partition(": ")
        found = re.fullmatch(r"(?:CONST\()?(\d+)\)?", value)
        if not name or (value != "VAR" and found is None):
            raise AscendError("text", f"`{line.strip()}` is not the line of a size", hint=_SIZE_LINE)
        self.graph.sizes[name] = int(found.group(1)) if found else None

    def axis_line(self, line: str) -> None:
        """`z0(0) : s0, ORIGINAL, align: -1, ...`, or `z0(0) : ORIGINAL, size:s0, ` in the second generation."""
        found = _AXIS.match(line.strip())
        if found is None:
            raise AscendError("text", f"`{line.strip()}` is not the line of an axis", hint=_AXIS_LINE)
        parts = _items(found.group(3))
        facts = {key.strip(): value.strip() for key, colon, value in (p.partition(":") for p in parts) if colon}
        plain = [p for p in parts if ":" not in p]
        type = next((p for p in plain if p in AxisType.__members__), None)
        size = next((p for p in plain if p != type), facts.get("size"))
        if type is None or size is None:
            hint = (
                _AXIS_LINE
                if type
                else did_you_mean(plain[-1] if plain else "", AxisType.__members__)
                or ("the types are " + ", ".join(AxisType.__members__))
            )
            raise AscendError("text", f"`{line.strip()}` has no {'size' if type else 'type'} of an axis", hint=hint)
        if "size" in facts:
            self.graph.generation = 2
        from_ = tuple(self.axes(facts.get("from", "")))
        axis = self.graph.create_axis(found.group(1), _size(size), AxisType[type], from_=from_)
        axis.id = int(found.group(2))
        axis.align = _int_value(facts.get("align", "1" if axis.is_half else "-1"))
        axis.allow_oversize_axis = facts.get("allow_oversize_axis") == "1"
        axis.allow_unaligned_tail = facts.get("allow_unaligned_tail", "1") == "1"

    def axes(self, text: str) -> list[Axis]:
        """The axes of a list of names."""
        return [self.axis(name) for name in _items(text)]

    def axis(self, name: str) -> Axis:
        """The axis of a name; one that the graph does not have if an excerpt leaves it out."""
        found = next((a for a in self.graph.axes if a.name == name), None)
        return found or self.missing_axes.setdefault(name, Axis(-1, name, Size.of(name)))

    # ------------------------------------------------------------------ nodes

    def node_line(self, line: str) -> None:
        """The first line of a node, or a fact about it."""
        indent, content = len(line) - len(line.lstrip()), line.strip()
        if self.open_attributes:
            self.attributes(content)
            return
        if not content.startswith(".") and (found := _NODE.match(content)) is not None:
            self.end()
            name, type, order = found.groups()
            if any(n.name == name for n in self.graph.nodes[-1:]) or name in self.graph._named:
                raise AscendError("unique-name", f"the node `{name}` is already there")
            self.node, self.node_number = self.graph._add_node(type, (), name), self.number
            self.node.sched.exec_order, self.node.sched.axis = int(order), []
            self.blocks = []
            return
        if self.node is None:
            raise AscendError("text", f"`{content}` is in front of the first node", hint=_NODE_LINE)
        while self.blocks and indent <= self.blocks[-1][0]:
            self.blocks.pop()
        if (found := _BLOCK.match(content)) is not None:
            self.blocks.append((indent, found.group(1)))
        elif (found := _TENSOR.match(content)) is not None:
            self.graph.generation = 2
            self.node.output(found.group(1)).dtype = _dtype(found.group(2))
            self.blocks.append((indent, found.group(1)))
        elif (found := _FACT.match(content)) is not None:
            path = ".".join([*(b for _, b in self.blocks), found.group(1)])
            if not self.fact(self.node, path, found.group(2).strip()):
                self.node.extra.append(line)
        elif content.startswith("."):
            self.node.extra.append(line)
        else:
            raise AscendError("text", f"`{content}` is not a line of a node", hint=_NODE_LINE)

    def attributes(self, content: str) -> None:
        """Entries of `.ir_attr`, up to the brace that closes it."""
        assert self.node is not None
        for key, expression, text, whole, fraction, flag in _ENTRY.findall(content):
            value: Any = text
            if expression:
                value = _size(expression)
            elif whole:
                value = int(whole)
            elif fraction:
                value = _fraction(fraction)
            elif flag:
                value = flag == "true"
            elif key == "value":
                value = _as_number(text)
            self.node.attrs[key] = value
        self.open_attributes = not content.rstrip().endswith("}")

    def fact(self, node: AscNode, path: str, value: str) -> bool:
        """Take a fact; False for one that is not known."""
        head, _, rest = path.partition(".")
        if path == "ir_attr":
            self.attributes(value)
        elif path == "axis":
            node.sched.axis = self.axes(value)
        elif path == "exec_condition":
            node.sched.exec_condition = value
        elif path == "loop_axis":
            node.sched.loop_axis = None if value == "nil" else self.axis(value)
            self.graph.type = GraphType.IMPL
        elif path in ("api.compute_type", "api.type", "api.unit", "hint.compute_type"):
            setattr(node.api, rest, value)
            if path in ("api.type", "api.unit"):
                self.graph.type = GraphType.IMPL
        elif path == "tmp_buf":
            node.tmp_buffers = [_temporary(t) for t in _items(value)]
        elif re.fullmatch(r"x\d*", path):
            node.inputs += [self.tensor(name) for name in _items(value) if name != "nil"]
        elif re.fullmatch(r"y\d*", head) and rest:
            return self.tensor_fact(node.output(head), rest, value)
        else:
            return False
        return True

    def tensor(self, name: str) -> AscTensor:
        """The tensor `node.y`; of a node that is not in the graph if an excerpt leaves it out, or it comes later."""
        node, _, output = name.rpartition(".")
        if not node:
            node, output = output, "y"
        found = self.graph._named.get(node) or self.missing_nodes.setdefault(node, AscNode(self.graph, "", node, ()))
        return found.output(output)

    def tensor_fact(self, y: AscTensor, key: str, value: str) -> bool:
        """Take a fact about an output; False for one that is not known."""
        known = self.TENSOR.get(key)
        if known is not None:
            known(self, y, value)
            return True
        part, _, name = key.partition(".")
        if part == "opt" and name:
            y.opt[name] = value
        if name == "reuse_id" and part in ("mem", "que", "opt"):
            y.mem.reuse_id = _int_value(value)
            return True
        if part == "mem" and name in ("tensor_id", "alloc_type", "hardware", "position"):
            text = value.removeprefix("TPosition::")
            setattr(y.mem, name, _int_value(value) if name == "tensor_id" else text)
            self.graph.type = GraphType.IMPL
        elif part == "que" and name in ("id", "depth", "buf_num"):
            setattr(y.que, name, _int_value(value))
        elif key == "buf.id":
            y.buf.id = _int_value(value)
        else:
            return part == "opt"
        return True

    def short_memory(self, y: AscTensor, value: str) -> None:
        """`UB[tensor_id=2, que_id=0, reuse_id=0, depth=2, pos=VECIN]`."""
        found = _SHORT_MEMORY.match(value)
        if found is None:
            hint = "`UB[tensor_id=2, que_id=0, reuse_id=0, depth=2, pos=VECIN]`, or `GM[tensor_id=0, pos=GM]`"
            raise AscendError("text", f"`{value}` is not the memory of a tensor", hint=hint)
        facts = {key: v for key, _, v in (p.partition("=") for p in _items(found.group(2)))}
        number: Callable[[str, int], int] = lambda key, default: _int_value(facts[key]) if key in facts else default  # noqa: E731
        mem, que = y.mem, y.que
        mem.hardware, mem.position = found.group(1), facts.get("pos", "")
        mem.tensor_id, mem.reuse_id, y.buf.id = number("tensor_id", -1), number("reuse_id", -1), number("buf_id", -1)
        que.id, que.depth = number("que_id", -1), number("depth", -1)
        que.buf_num = number("buf_num", 2 if que.id >= 0 else -1)
        mem.alloc_type = "Global" if mem.hardware == "GM" else "Queue" if que.id >= 0 else "Buffer"
        self.graph.type, self.graph.generation = GraphType.IMPL, 2

    def vectorized(self, y: AscTensor, value: str) -> None:
        """`{z0t:1}` of the second generation, or the strides alone of the first."""
        if ":" not in value:
            y.vectorized_strides = [_size(t) for t in _items(value)]
            return
        pairs = [p.partition(":") for p in _items(value)]
        y.vectorized_axis = [self.axis(name.strip()) for name, _, _ in pairs]
        y.vectorized_strides = [_size(stride) for _, _, stride in pairs]

    TENSOR: dict[str, Callable[[_Reader, AscTensor, str], None]] = {
        "dtype": lambda self, y, value: setattr(y, "dtype", _dtype(value)),
        "axis": lambda self, y, value: setattr(y, "axis", self.axes(value)),
        "repeats": lambda self, y, value: setattr(y, "repeats", [_size(t) for t in _items(value)]),
        "strides": lambda self, y, value: setattr(y, "strides", [_size(t) for t in _items(value)]),
        "vectorized_axis": lambda self, y, value: setattr(y, "vectorized_axis", self.axes(value)),
        "vectorized_strides": vectorized,
        "vectorized": vectorized,
        "mem": short_memory,
    }

    # ------------------------------------------------------------------ what follows

    def finish(self) -> None:
        """Find again what a dump does not say: halves of splits, parts of merged axes, the loops around new nodes."""
        graph = self.graph
        for node in graph.nodes:
            later = [self.missing_nodes.get(x.node.name) is x.node and x.node.name in graph._named for x in node.inputs]
            node.inputs = [self.tensor(str(x)) if moved else x for x, moved in zip(node.inputs, later, strict=True)]
        _relate_axes(graph)
        for node in graph.nodes:
            if node.op.is_buffer and not node.sched.axis:
                node.sched.axis = list(node.y.axis)
        for section in SECTIONS:
            graph.sources.setdefault(section, Source(""))  # what an excerpt leaves out is not printed either
        remember(graph)


def _relate_axes(graph: Any) -> None:
    """Find the other half of each split, the parts of merged axes, and the axes that schedules begin with."""
    for axis in graph.axes:
        if axis.type in _HALVES:
            same = (a for a in graph.axes if a.from_ == axis.from_ and a.type is _HALVES[axis.type])
            axis.split_pair = next(same, None)
        elif axis.type is AxisType.ORIGINAL:
            axis.from_ = _merged_from(graph, axis)
    parts = {id(f) for a in graph.axes if a.is_merged for f in a.from_}
    kinds = (AxisType.ORIGINAL, AxisType.MERGED)
    graph.sched_axes = [
        a for a in graph.axes if a.type in kinds and id(a) not in parts and all(f.type in kinds for f in a.from_)
    ]


_HALVES = {
    AxisType.TILE_OUT: AxisType.TILE_IN, AxisType.TILE_IN: AxisType.TILE_OUT,
    AxisType.BLOCK_OUT: AxisType.BLOCK_IN, AxisType.BLOCK_IN: AxisType.BLOCK_OUT,
}  # fmt: skip


def _merged_from(graph: AscGraph, axis: Axis) -> tuple[Axis, ...]:
    """The axes before an axis that their names and sizes, one after the other, make: some dumps do not tell them."""
    rest, size, found = axis.name, Size.of(1), []
    for part in graph.axes[: graph.axes.index(axis)]:
        if rest and part.type is AxisType.ORIGINAL and rest.startswith(part.name):
            rest, size = rest[len(part.name) :], size * part.size
            found.append(part)
    return tuple(found) if not rest and len(found) > 1 and size == axis.size else ()


def _dtype(name: str) -> str:
    return _DTYPES.get(name, name)


def _as_number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AscendError("text", f"`{text}` is not a number", hint="as in `f: 0.5`") from None


def _temporary(text: str) -> TmpBuffer:
    facts = {key.strip(): v.strip() for key, _, v in (p.partition("=") for p in _items(text))}
    life = _int_value(facts.get("life_time_axis_id", "-1"))
    return TmpBuffer(_int_value(facts.get("buf_id", "-1")), _size(facts.get("size", "0")), life)
