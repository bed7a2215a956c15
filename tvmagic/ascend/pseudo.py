"""The loops of an ImplGraph with their API calls, as pseudo-code."""

from __future__ import annotations

from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.verifier import calls_axes, check_structure, domain_of


def pseudo_code(graph: AscGraph) -> str:
    """The loops of one core with their API calls: `for z0b in range(z0b_loop_size):`, `Abs(y_local[0], ...)`.

    The block-outer axis is not a loop: each core has one index of it. Raises AscendError if the graph refers to what it does not
    have.
    """
    check_structure(graph)
    lines: list[str] = []
    opened: list[Axis] = []
    for node in graph.nodes:
        if not node.op.is_call:
            continue
        inside = calls_axes(node)
        loops = [a for a in node.sched.axis[: len(node.sched.axis) - len(inside)] if not a.bind_block]
        shared = 0
        while shared < min(len(loops), len(opened)) and loops[shared] is opened[shared]:
            shared += 1
        for depth in range(shared, len(loops)):
            lines.append("  " * depth + f"for {loops[depth].name} in range({loops[depth].name}_loop_size):")
        opened = loops
        lines.append("  " * len(loops) + _call_text(node, inside))
    return "\n".join(lines) + "\n"


def call_sizes(node: AscNode) -> list[tuple[Axis, str]]:
    """The axes of a call along which it computes more than one element, each with its length as the code names it."""
    domain = domain_of(node)
    return [
        (
            a,
            f"{a.name}_actual_size"
            if a.split_pair is not None or domain.repeat(a) == a.size
            else str(domain.repeat(a)),
        )
        for a in calls_axes(node)
        if not domain.repeat(a).is_one
    ]


def _call_text(node: AscNode, inside: list[Axis]) -> str:
    def place(y: AscTensor) -> str:
        if y.is_global:
            return f"{y.node.name}_global"
        if y.node.op.is_number:
            return str(y.node.attrs.get("value", y.node.name))
        return f"{y.node.name}_local[{local_offset(y, inside)}]"

    sizes = [text for _, text in call_sizes(node)]
    return f"{node.type}({', '.join([*map(place, node.outputs), *map(place, node.inputs), *sizes])})"


def local_offset(y: AscTensor, inside: list[Axis]) -> str:
    """Where in its local buffer a call finds a tensor: the loops among the vectorized axes move it."""
    moving = [
        (a, s) for a, s in zip(y.vectorized_axis, y.vectorized_strides, strict=True)
        if not any(a is b for b in inside) and s != Size.of(0)
    ]  # fmt: skip
    return " + ".join(a.name if s.is_one else f"{a.name} * {s}" for a, s in moving) or "0"
