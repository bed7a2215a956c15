"""One API call of a kernel as Ascend C: which elements it takes, and the loops around it where a call takes too few axes."""

from __future__ import annotations

import re

from tvmagic.ascend.addressing import by_axis, coefficient, seen_from
from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis, AxisType, plain_name
from tvmagic.ascend.kernel_queues import loops_of
from tvmagic.ascend.memory import buffer_length
from tvmagic.ascend.sizes import NUMBERS, Size
from tvmagic.ascend.verifier import domain_of, held_axes, reduced_axes
from tvmagic.ir import dtype_of

CTYPES = {
    "float32": "float", "float16": "half", "float64": "double", "bfloat16": "bfloat16_t", "int8": "int8_t", "int16": "int16_t",
    "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
}  # fmt: skip
_STARTS = {"Sum": "0", "Mean": "0", "Any": "0", "ArgMax": "0", "Prod": "1", "All": "1", "Max": "lowest", "Min": "max"}


def c_size(size: Size, lead: str = "") -> str:
    """A size with its variables as fields of the tiling data; `lead` is in front of those that tiling chose."""

    def field(match: re.Match[str]) -> str:
        name = match.group()
        if name in NUMBERS:
            return name
        return f"t->{lead if name.endswith('_size') else ''}{name}"

    text = re.sub(r"[A-Za-z_]\w*", field, str(size))
    return text[1:-1] if re.fullmatch(r"\([^()]*\)", text) else text


class CallText:
    """Texts of the calls of one ImplGraph."""

    def __init__(self, graph: AscGraph, lead: str) -> None:
        self.graph, self.lead = graph, lead
        self.readers = graph.readers()
        self.inner = {id(a.from_[0]): a for a in graph.axes if a.is_inner}

    def size(self, size: Size) -> str:
        """A size as a factor."""
        text = c_size(size, self.lead)
        return text if re.fullmatch(r"[\w>-]+", text) else f"({text})"

    def bytes_of(self, y: AscTensor) -> str:
        """The bytes of a local tensor, in whole blocks of 32."""
        return f"({self.size(buffer_length(y))} * {dtype_of(y.dtype).bytes} + 31) / 32 * 32"

    def looped(self, node: AscNode) -> bool:
        """Whether loops go on with a reduction, which begins in front of them."""
        return any(a is b for a in loops_of(node) for b in reduced_axes(node))

    # ------------------------------------------------------------------ indices

    def _steps(self, axis: Axis, node: AscNode) -> list[tuple[str, Size]]:
        """The index of an axis in the loops around a node: variables, each with what it is multiplied by."""
        if axis.bind_block or any(a is axis for a in loops_of(node)):
            return [(axis.name, Size.of(1))]
        inner = self.inner.get(id(axis))
        if inner is not None and inner.split_pair is not None:
            return [(n, f * inner.size) for n, f in self._steps(inner.split_pair, node)] + self._steps(inner, node)
        around = [a for a in node.sched.axis if any(a is b for b in loops_of(node)) or a.bind_block]
        merged = [a for b in around for a in (b, *b.from_) if a.is_merged and any(p is axis for p in a.from_)]
        return [(axis.name, Size.of(1))] if merged else []

    def _global(self, node: AscNode, y: AscTensor) -> str:
        axes, _, strides = seen_from(node, y)
        terms: list[str] = []
        for axis, stride in zip(axes, strides, strict=True):
            for name, factor in self._steps(axis, node) if stride != 0 else ():
                step = factor * stride
                terms.append(f"(int64_t){name}" + ("" if step.is_one else f" * (int64_t){self.size(step)}"))
        terms.append(c_size(Size.of(node.attr("offset") if node.op.kind != "gather" else 0), self.lead))
        return f"global_{y.mem.tensor_id}[{' + '.join(terms)}]"

    def _local(self, y: AscTensor, node: AscNode, more: list[tuple[str, Axis]]) -> str:
        if y.node.op.is_number:
            return self._scalar_text(y.node)
        strides = {id(a): s for a, s in zip(y.vectorized_axis, y.vectorized_strides, strict=True)}
        moving = [(a.name, a) for a in loops_of(node)] + more
        terms = [(name, strides.get(id(a), Size.of(0))) for name, a in moving]
        text = " + ".join(n if s.is_one else f"{n} * {self.size(s)}" for n, s in terms if s != 0)
        return f"local_{y.mem.tensor_id}[{text or '0'}]"

    def _scalar_text(self, node: AscNode) -> str:
        if node.type == "Scalar":
            return f"({CTYPES.get(node.y.dtype, node.y.dtype)}){node.attrs['value']}"
        return c_size(Size.of(node.attr("expr")), self.lead) if node.type == "IndexExpr" else plain_name(node.name)

    def length(self, axis: Axis, y: AscTensor) -> str:
        """How many elements a call has along an axis."""
        if axis.is_inner:
            return f"{axis.name}_actual_size" if axis.type is AxisType.TILE_IN else f"{axis.name}_loop_size"
        return f"{axis.name}_axis_size" if y.repeat(axis) == axis.size else self.size(y.repeat(axis))

    # ------------------------------------------------------------------ calls

    def start(self, node: AscNode) -> str:
        """The first value of a reduction, in all of its result."""
        y, first = node.y, _STARTS[node.type]
        if not first.isdigit():
            first = f"std::numeric_limits<{CTYPES.get(y.dtype, y.dtype)}>::{first}()"
        axes = held_axes(node, y)
        count = " * ".join(self.length(a, y) for a in axes) or "1"
        return f"Duplicate({self._local(y, node, [])}, {first}, {count});"

    def call(self, node: AscNode) -> list[str]:
        """The lines of a call, with the loops around it."""
        domain = domain_of(node)
        held = held_axes(node, domain)
        if node.op.kind in ("load", "store"):
            return self._moved(node, held, domain)
        if node.op.kind == "elewise":
            return self._elementwise(node, held, domain)
        operands = [self._local(node.y, node, [])]
        operands += [self._global(node, x) if x.is_global else self._local(x, node, []) for x in node.inputs]
        name = f"Reduce{node.type}" if node.op.kind == "reduce" else node.type
        if node.op.kind == "broadcast" and node.inputs[0].node.op.is_number:
            name = "Duplicate"
            return [f"Duplicate({', '.join([*operands, ' * '.join(self.length(a, domain) for a in held) or '1'])});"]
        sizes = [self.length(a, domain) for a in held]
        return [f"{name}({', '.join([*operands, *sizes, *self._row_step(held, domain)])});"]

    def _row_step(self, held: list[Axis], y: AscTensor) -> list[str]:
        """How many elements lie from one row of a call to the next, if that is more than a row has."""
        if len(held) < 2:
            return []
        step = self._stride(y, held[-2])
        return [] if step == y.local_length(held[-1]) else [self.size(step)]

    def _fuse_axes(
        self, held: list[Axis], domain: AscTensor, tensors: list[AscTensor]
    ) -> tuple[list[Axis], list[Axis]]:
        """The axes that one call takes as one, the innermost, and those outside it, which take loops."""
        run: list[Axis] = []
        for axis in reversed(held):
            if run:
                partial = run[0].is_inner
                even = all(self._stride(t, axis) == self._stride(t, run[0]) * domain.repeat(run[0]) for t in tensors)
                if partial or not even:
                    break
            run.insert(0, axis)
        return held[: len(held) - len(run)], run

    def _stride(self, y: AscTensor, axis: Axis) -> Size:
        return next((s for a, s in zip(y.vectorized_axis, y.vectorized_strides, strict=True) if a is axis), Size.of(0))

    def _elementwise(self, node: AscNode, held: list[Axis], domain: AscTensor) -> list[str]:
        tensors = [t for t in (*node.outputs, *node.inputs) if not t.node.op.is_number]
        outer, run = self._fuse_axes(held, domain, tensors)
        more = [(f"{a.name}_i", a) for a in outer]
        operands = [self._local(t, node, more) for t in (*node.outputs, *node.inputs)]
        operands += [str(node.attr(key)) for key in node.op.attrs]
        count = " * ".join(self.length(a, domain) for a in run) or "1"
        return self._nest(outer, domain, f"{node.type}({', '.join([*operands, count])});")

    def _nest(self, axes: list[Axis], domain: AscTensor, line: str) -> list[str]:
        loops = "".join(f"for (int {a.name}_i = 0; {a.name}_i < {self.length(a, domain)}; {a.name}_i++) " for a in axes)
        return [f"{loops}{{ {line} }}" if axes else line]

    def _moved(self, node: AscNode, held: list[Axis], domain: AscTensor) -> list[str]:
        """A move between global and local memory: rows of the innermost axes, in blocks that lie apart."""
        load = node.op.kind == "load"
        local = node.y if load else node.inputs[0]
        array = node.inputs[0] if load else next(n.y for n in self.readers[node.y] if n.op.is_buffer)
        strides = by_axis(node, array)
        run: list[Axis] = []
        for axis in reversed(held):
            if run:
                size = domain.repeat(run[0])
                dense = coefficient(strides, axis) == coefficient(strides, run[0]) * size
                if run[0].is_inner or not dense or self._stride(local, axis) != self._stride(local, run[0]) * size:
                    break
            run.insert(0, axis)
        outer = held[: len(held) - len(run)]
        rows, more = outer[-1:], [(f"{a.name}_i", a) for a in outer[:-1]]
        length = " * ".join(self.length(a, domain) for a in run) or "1"
        count = self.length(rows[0], domain) if rows else "1"
        gaps = ["0", "0"]
        if rows:
            gaps = [
                f"{self.size(coefficient(strides, rows[0]))} - {length}",
                f"{self.size(self._stride(local, rows[0]))} - {length}",
            ]
        place = self._global(node, array)
        for name, axis in more:
            place = f"{place[:-1]} + (int64_t){name} * (int64_t){self.size(coefficient(strides, axis))}]"
        sides = [self._local(local, node, more), place]
        if not load:
            sides, gaps = sides[::-1], gaps[::-1]
        line = f"DataCopyPadExtend({', '.join([*sides, count, length, *gaps])});"
        return self._nest([a for _, a in more], domain, line)
