"""The text form of a graph, printed and read back; and its loops as pseudo-code."""

from __future__ import annotations

import re
from typing import Any

from tvmagic.ascend.graph import AscendError, AscGraph, AscNode, AscTensor, Axis, AxisType
from tvmagic.ascend.sizes import Size, parse_size

__all__ = ["graph_text", "parse_graph", "pseudo_code"]

_MEMORY = ("tensor_id", "alloc_type", "hardware", "position", "reuse_id")
_QUEUE = ("id", "depth", "buf_num")


def graph_text(graph: AscGraph) -> str:
    """The dump of a graph: sizes, axes, nodes with all that is known of them."""
    lines = [f"Graph: {graph.name}", "Sizes:"]
    lines += [f"  {name}: {'VAR' if value is None else value}" for name, value in graph.sizes.items()]
    lines.append("Axis:")
    lines += [_axis_line(a) for a in graph.axes]
    lines.append("Nodes:")
    for node in graph.nodes:
        lines += _node_lines(node)
    return "\n".join(lines) + "\n"


def _list(values: Any) -> str:
    return "{" + "".join(f"{v}, " for v in values) + "}"


def _names(axes: list[Axis] | tuple[Axis, ...]) -> str:
    return _list(a.name for a in axes)


def _axis_line(axis: Axis) -> str:
    parts = [str(axis.size), axis.type.name]
    if axis.from_:
        parts.append(f"from: {_names(axis.from_)}")
    parts.append(f"align: {axis.align}")
    parts.append(f"allow_oversize_axis: {int(axis.allow_oversize_axis)}")
    parts.append(f"allow_unaligned_tail: {int(axis.allow_unaligned_tail)}")
    if axis.split_pair is not None:
        parts.append(f"split_pair: {axis.split_pair.name}")
    return f"  {axis.name}({axis.id}) : " + ", ".join(parts)


def _input_names(node: AscNode) -> list[str]:
    return ["x"] if len(node.inputs) == 1 else [f"x{i + 1}" for i in range(len(node.inputs))]


def _node_lines(node: AscNode) -> list[str]:
    op, y = node.op, node.y
    lines = [f"  {node.name}: {node.type} ({node.sched.exec_order})", f"    .axis = {_names(node.sched.axis)}"]
    if node.sched.loop_axis is not None:
        lines.append(f"    .loop_axis = {node.sched.loop_axis.name}")
    lines += [f"    .{key} = {value!r}" for key, value in node.attrs.items()]
    kind = "Buffer" if op.is_buffer else "Compute"
    lines += [
        "    .api:",
        f"      .compute_type = {op.compute_type}",
        f"      .type = {kind}",
        f"      .unit = {op.unit}",
    ]
    for name, x in zip(_input_names(node), node.inputs, strict=True):
        lines.append(f"    .{name} = {x}")
    lines += _tensor_lines(y)
    return lines


def _tensor_lines(y: AscTensor) -> list[str]:
    lead = f"    .{y.name}."
    lines = [f"{lead}dtype = {y.dtype}", f"{lead}axis = {_names(y.axis)}"]
    lines += [f"{lead}repeats = {_list(y.repeats)}", f"{lead}strides = {_list(y.strides)}"]
    lines.append(f"{lead}vectorized_axis = {_names(y.vectorized_axis)}")
    lines.append(f"{lead}vectorized_strides = {_list(y.vectorized_strides)}")
    for place, facts, keys in (("mem", y.mem, _MEMORY), ("que", y.que, _QUEUE)):
        values = {key: getattr(facts, key) for key in keys}
        lines += [f"{lead}{place}.{key} = {value}" for key, value in values.items() if value not in ("", -1)]
    return lines


# ---------------------------------------------------------------------------- reading

_AXIS = re.compile(r"(\w+)\((\d+)\) : (.*?), ([A-Z_]+)(?:, from: \{(.*?)\})?, align: (-?\d+)"
                   r", allow_oversize_axis: ([01]), allow_unaligned_tail: ([01])(?:, split_pair: (\w+))?$")  # fmt: skip
_NODE = re.compile(r"(\w+): (\w+) \((-?\d+)\)$")
_FACT = re.compile(r"\.([\w.]+) = (.*)$")


def _items(text: str) -> list[str]:
    return [t.strip() for t in text.strip(" {}").split(",") if t.strip()]


class _Reader:
    def __init__(self) -> None:
        self.graph = AscGraph("")
        self.node: AscNode | None = None
        self.pairs: list[tuple[Axis, str]] = []

    def axes(self, text: str) -> list[Axis]:
        return [self.graph.find_axis(name) for name in _items(text)]

    def size_line(self, line: str) -> None:
        name, _, value = line.partition(": ")
        self.graph.sizes[name] = None if value == "VAR" else int(value)

    def axis_line(self, line: str) -> None:
        found = _AXIS.match(line)
        if found is None:
            raise AscendError("text", f"`{line}` is not the line of an axis")
        name, number, size, type, parents, align, oversize, tail, pair = found.groups()
        if type not in AxisType.__members__:
            raise AscendError("text", f"`{type}` is not a type of axis")
        facts = {"align": int(align), "allow_oversize_axis": oversize == "1", "allow_unaligned_tail": tail == "1"}
        from_ = tuple(self.axes(parents or ""))
        axis = self.graph.create_axis(name, parse_size(size), AxisType[type], from_=from_, **facts)
        axis.id = int(number)
        if pair:
            self.pairs.append((axis, pair))

    def node_line(self, line: str) -> None:
        if (found := _NODE.match(line)) is not None:
            name, type, order = found.groups()
            self.node = self.graph.add_node(type, (), name)
            self.node.sched.exec_order, self.node.sched.axis = int(order), []
        elif (found := _FACT.match(line)) is not None and self.node is not None:
            self.fact(self.node, *found.groups())
        elif line != ".api:":
            raise AscendError("text", f"`{line}` is not a line of a node")

    def fact(self, node: AscNode, key: str, value: str) -> None:
        y = node.y
        if key == "axis" and value.startswith("{"):
            node.sched.axis = self.axes(value)
        elif key == "loop_axis":
            node.sched.loop_axis = self.graph.find_axis(value)
        elif key in ("compute_type", "type", "unit"):
            return  # follows from the type of the node
        elif re.fullmatch(r"x\d*", key):
            node.inputs.append(self.graph.find_node(value.removesuffix(".y")).y)
        elif key in ("y.axis", "y.vectorized_axis"):
            setattr(y, key[2:], self.axes(value))
        elif key in ("y.repeats", "y.strides", "y.vectorized_strides"):
            setattr(y, key[2:], [parse_size(t) for t in _items(value)])
        elif key == "y.dtype":
            y.dtype = value
        elif key.startswith("y.mem.") and key[6:] in _MEMORY:
            setattr(y.mem, key[6:], int(value) if re.fullmatch(r"-?\d+", value) else value)
        elif key.startswith("y.que.") and key[6:] in _QUEUE:
            if not value.isdigit():
                raise AscendError("text", f"`{value}` is no `{key[2:]}`")
            setattr(y.que, key[6:], int(value))
        else:
            node.attrs[key] = _attribute(value)


def _attribute(text: str) -> Any:
    if text[:1] in "'\"":
        return text[1:-1]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return parse_size(text)


def parse_graph(text: str) -> AscGraph:
    """The graph of a text that `graph_text` gave. Raises AscendError where a line is none of its lines."""
    reader, section = _Reader(), ""
    read = {"Sizes:": reader.size_line, "Axis:": reader.axis_line, "Nodes:": reader.node_line}
    for line in text.splitlines():
        if line.startswith("Graph: "):
            reader.graph.name = line[7:]
        elif line in read:
            section = line
        elif line.strip():
            if section not in read:
                raise AscendError("text", f"`{line.strip()}` stands before the sections of a graph")
            read[section](line.strip())
    for axis, name in reader.pairs:
        axis.split_pair = reader.graph.find_axis(name)
    return reader.graph


# ---------------------------------------------------------------------------- pseudo-code


def pseudo_code(graph: AscGraph) -> str:
    """The loops with their API calls: `for z0b in range(z0b_loop_size):`, `Abs(y_local[0], ...)`."""
    lines: list[str] = []
    opened: list[Axis] = []
    for node in graph.nodes:
        if node.op.is_buffer:
            continue
        axes, loop = node.sched.axis, node.sched.loop_axis
        loops = axes[: next((i for i, a in enumerate(axes) if a is loop), -1) + 1]
        shared = 0
        while shared < min(len(loops), len(opened)) and loops[shared] is opened[shared]:
            shared += 1
        for depth in range(shared, len(loops)):
            lines.append("  " * depth + f"for {loops[depth].name} in range({loops[depth].name}_loop_size):")
        opened = loops
        lines.append("  " * len(loops) + _call_text(node, axes[len(loops) :]))
    return "\n".join(lines) + "\n"


def _call_text(node: AscNode, inside: list[Axis]) -> str:
    def place(y: AscTensor) -> str:
        if y.mem.hardware == "GM" or y.node.type in ("Data", "Workspace"):
            return f"{y.node.name}_global"
        return f"{y.node.name}_local[{_offset(y, inside)}]"

    domain = node.inputs[0] if node.op.compute_type == "reduce" else node.y
    sizes = [
        f"{a.name}_actual_size" if a.split_pair is not None or domain.repeat(a) == a.size else str(domain.repeat(a))
        for a in inside if not domain.repeat(a).is_one
    ]  # fmt: skip
    return f"{node.type}({', '.join([place(node.y), *(place(x) for x in node.inputs), *sizes])})"


def _offset(y: AscTensor, inside: list[Axis]) -> str:
    """Where in its local buffer a call finds a tensor: the loops among the vectorized axes move it."""
    moving = [
        (a, s) for a, s in zip(y.vectorized_axis, y.vectorized_strides, strict=True)
        if not any(a is b for b in inside) and s != Size.of(0)
    ]  # fmt: skip
    return " + ".join(a.name if s.is_one else f"{a.name} * {s}" for a, s in moving) or "0"
