"""The dump of a graph: its text, in both generations that are in use. `reader` reads it.

A part of a graph that was read, and is as it was read, is printed to the letter as it was; all else in one form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis, AxisType, GraphType, as_graph
from tvmagic.ascend.sizes import Size
from tvmagic.ir.methods import method_of

# The names of dtypes in a dump that differ from NumPy's.
DTYPES = {
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t",
    "uint32": "uint32_t", "uint64": "uint64_t", "float64": "DT_DOUBLE", "bfloat16": "DT_BF16", "bool": "DT_BOOL",
}  # fmt: skip
SECTIONS = ("Graph", "Sizes", "Axis", "Nodes")


@method_of(AscGraph, name="__str__")
def graph_text(graph: AscGraph, generation: int | None = None) -> str:
    """The dump of a graph: sizes, axes, nodes with all that is known of them.

    Parameters
    ----------
    generation: 1 is that of the guide, 2 the later and shorter one; by default that which the graph was read from, or 1.
        If it is given, all of the text is in one form, whatever the graph was read from.
    """
    form = generation or as_graph(graph).generation
    parts = [(graph.sources.get(section), text) for section, text in _sections(graph, form).items()]
    parts += [(node.source, _node_text(node, form)) for node in graph.nodes]
    return "".join(
        source.text if generation is None and source is not None and source.printed == text else text
        for source, text in parts
    )


def remember(graph: AscGraph) -> None:
    """Note how each part of a graph that was just read is printed, so that a later change shows."""
    printed = _sections(graph, graph.generation)
    for section, source in graph.sources.items():
        source.printed = printed[section]
    for node in graph.nodes:
        if node.source is not None:
            node.source = replace(node.source, printed=_node_text(node, graph.generation))


def _sections(graph: AscGraph, form: int) -> dict[str, str]:
    sizes = [f"  {name}: {'VAR' if value is None else f'CONST({value})'}" for name, value in graph.sizes.items()]
    line = _axis_line if form == 1 else _short_axis_line
    return {
        "Graph": f"Graph: {graph.name}\n",
        "Sizes": "\n".join(["Sizes:", *sizes, ""]),
        "Axis": "\n".join(["Axis:", *map(line, graph.axes), ""]),
        "Nodes": "Nodes:\n",
    }


def _list(values: Iterable[Any]) -> str:
    return "{" + "".join(f"{v}, " for v in values) + "}"


def _names(axes: Iterable[Axis]) -> str:
    return _list(a.name for a in axes)


def _parents(axis: Axis) -> list[str]:
    return [f"from: {_names(axis.from_)}"] if axis.from_ and axis.type is not AxisType.ORIGINAL else []


def _axis_line(axis: Axis) -> str:
    parts = [str(axis.size), axis.type.name, *_parents(axis), f"align: {axis.align}"]
    parts.append(f"allow_oversize_axis: {int(axis.allow_oversize_axis)}")
    parts.append(f"allow_unaligned_tail: {int(axis.allow_unaligned_tail)}")
    return f"  {axis.name}({axis.id}) : " + ", ".join(parts)


def _short_axis_line(axis: Axis) -> str:
    return f"  {axis.name}({axis.id}) : {axis.type.name}, size:{axis.size}, " + "".join(
        f", {p}" for p in _parents(axis)
    )


# ---------------------------------------------------------------------------- nodes


def _node_text(node: AscNode, form: int) -> str:
    lines = [f"  {node.name}: {node.type} ({node.sched.exec_order})"]
    lines += _node_lines(node) if form == 1 else _short_node_lines(node)
    return "\n".join([*lines, *node.extra, ""])


def _input_names(node: AscNode) -> list[str]:
    return ["x"] if len(node.inputs) == 1 else [f"x{i + 1}" for i in range(len(node.inputs))]


def _attributes(node: AscNode, newline: str) -> list[str]:
    """`.ir_attr` of types that have attributes, also if it is empty."""
    if not (node.op.attrs or node.attrs):
        return []
    entries = [f".{key} = {attribute_text(value, key)}" for key, value in node.attrs.items()]
    inside = newline.join([*entries, "    "]) if newline else ", ".join(entries) or "    "
    return [f"    .ir_attr =  {{{inside}}}"]


def attribute_text(value: Any, key: str = "") -> str:
    """An attribute with the letter of its kind; offsets and index expressions are sizes, the value of a number is text."""
    if isinstance(value, Size) or key in ("offset", "expr"):
        return f'expression: "{value}"'
    if isinstance(value, bool):
        return f"b: {str(value).lower()}"
    if key == "value" or isinstance(value, str):
        return f's: "{value}"'
    return f"{'i' if isinstance(value, int) else 'f'}: {value}"


def _temporaries(node: AscNode, indent: str) -> list[str]:
    if not node.tmp_buffers:
        return []
    entries = []
    for buffer in node.tmp_buffers:
        life = f", life_time_axis_id={buffer.life_time_axis_id}" if buffer.life_time_axis_id >= 0 else ""
        entries.append(f"{{buf_id={buffer.id}, size={buffer.size}{life}}}")
    return [f"{indent}.tmp_buf = {{{', '.join(entries)}}}"]


def _loops(node: AscNode) -> list[str]:
    lines = [f"    .axis = {_names(node.sched.axis)}"]
    if node.sched.exec_condition != "no_cache":
        lines.append(f"    .exec_condition = {node.sched.exec_condition}")
    if node.sched.loop_axis is not None:
        lines.append(f"    .loop_axis = {node.sched.loop_axis.name}")
    return lines


def _node_lines(node: AscNode) -> list[str]:
    lines = [*_attributes(node, "\n"), *_loops(node), "    .api:", f"      .compute_type = {node.api.compute_type}"]
    if node.graph.type is GraphType.IMPL:
        lines += [f"      .type = {node.api.type}", f"      .unit = {node.api.unit}"]
    lines += _temporaries(node, "    ")
    lines += [f"    .{name} = {x}" for name, x in zip(_input_names(node), node.inputs, strict=True)]
    for y in node.outputs:
        lines += _tensor_lines(y)
    return lines


def _tensor_lines(y: AscTensor) -> list[str]:
    lead = f"    .{y.name}"
    lines = [f"{lead}.dtype = {DTYPES.get(y.dtype, y.dtype)}", f"{lead}.axis = {_names(y.axis)}"]
    lines += [f"{lead}.repeats = {_list(y.repeats)}", f"{lead}.strides = {_list(y.strides)}"]
    lines.append(f"{lead}.vectorized_axis = {_names(y.vectorized_axis)}")
    lines.append(f"{lead}.vectorized_strides = {_list(y.vectorized_strides)}")
    if y.node.graph.type is GraphType.HINT:
        return lines
    mem, que = y.mem, y.que
    position = mem.position and f"TPosition::{mem.position}"
    lines += _block(
        f"{lead}.mem:", tensor_id=mem.tensor_id, alloc_type=mem.alloc_type, hardware=mem.hardware, position=position
    )
    if que.id >= 0:
        lines += _block(f"{lead}.que:", id=que.id, depth=que.depth, buf_num=que.buf_num, reuse_id=mem.reuse_id)
    if y.buf.id >= 0:
        lines += _block(f"{lead}.buf:", id=y.buf.id)
    return lines + (_block(f"{lead}.opt:", **y.opt) if y.opt else [])


def _block(head: str, **values: Any) -> list[str]:
    known = [f"      .{key} = {value}" for key, value in values.items() if value not in ("", -1)]
    return [head, *known] if known else []


# ---------------------------------------------------------------------------- the second generation


def _short_node_lines(node: AscNode) -> list[str]:
    lines = _attributes(node, "")
    if node.op.is_call or not node.op.known:
        lines += _loops(node)
        if node.graph.type is GraphType.IMPL:
            lines.append(f"    .api.unit = {node.api.unit}")
    lines += _temporaries(node, "    ")
    if len(node.inputs) == 1:
        lines.append(f"    .x = {node.inputs[0]}")
    elif node.inputs:
        lines.append(f"    .x = {{{', '.join(map(str, node.inputs))}}}")
    for y in node.outputs:
        lines += _short_tensor_lines(y)
    return lines


def _short_tensor_lines(y: AscTensor) -> list[str]:
    lead = "        ."
    lines = [f"    .{y.name}: {DTYPES.get(y.dtype, y.dtype)}", f"{lead}axis = {{{', '.join(a.name for a in y.axis)}}}"]
    lines.append(f"{lead}repeats = ({', '.join(map(str, y.repeats))})")
    lines.append(f"{lead}strides = ({', '.join(map(str, y.strides))})")
    pairs = zip(y.vectorized_axis, y.vectorized_strides, strict=False)
    if y.vectorized_axis:
        lines.append(f"{lead}vectorized = {{{', '.join(f'{a.name}:{s}' for a, s in pairs)}}}")
    if y.mem.hardware and y.node.graph.type is GraphType.IMPL:
        lines.append(f"{lead}mem = {y.mem.hardware}[{', '.join(_short_memory(y))}]")
    return lines


def _short_memory(y: AscTensor) -> list[str]:
    values: dict[str, Any] = {
        "tensor_id": y.mem.tensor_id,
        "que_id": y.que.id,
        "buf_id": y.buf.id,
        "reuse_id": y.mem.reuse_id,
    }
    values |= {"depth": y.que.depth, "buf_num": -1 if y.que.buf_num == 2 else y.que.buf_num, "pos": y.mem.position}
    return [f"{key}={value}" for key, value in values.items() if value not in ("", -1)]
