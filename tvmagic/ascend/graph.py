"""The graph: sizes, axes, nodes, tensors, and what is known of each.

An `AscGraph` is a DAG of nodes over one set of axes. As a HintGraph it says what is computed; as
an ImplGraph it says also how: loops, tiles, cores, local memory. `verifier.py` checks it,
`transforms.py` changes its axes, `dump_printer.py` prints and reads it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tvmagic.ascend.optypes import OP_TYPES, OpType, op_type
from tvmagic.ascend.sizes import Size, SizeLike
from tvmagic.errors import DiagnosticError, a_thing, did_you_mean, no_such_name
from tvmagic.ir import Span
from tvmagic.ir.views import viewed


class AscendError(DiagnosticError):
    """A graph that breaks a rule, or a transformation that is not legal; `rule` is the rule's name.

    The code is `ascend.` and the rule's name in snake case, unless one is given.

    `span` is the place in the dump that the graph was read from, if it was; `source_line` the line there.
    """

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        span: Any = None,
        source_line: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        code = code or f"ascend.{rule.replace('-', '_')}"
        super().__init__(f"rule `{rule}`: {message}", span=span, source_line=source_line, hint=hint, code=code)
        self.rule = rule

    def at_line(self, number: int, line: str) -> AscendError:
        """This error with a place: in line `number` of a dump, at what its sentence quotes from the line."""
        if self.span is None:
            quoted = [q for q in re.findall(r"`([^`]+)`", self.message) if q in line]
            text = quoted[0] if quoted else line.strip()
            column = line.index(text) + 1
            self.span = Span("<dump>", number, column, number, column + len(text))
            self.source_line = line
        return self


@contextmanager
def in_node(node: AscNode) -> Iterator[None]:
    """Errors about a node that was read tell its place in the dump."""
    try:
        yield
    except AscendError as error:
        if node.source is not None and node.source.line:
            raise error.at_line(node.source.line, node.source.text.splitlines()[0]) from None
        raise


class GraphType(enum.Enum):
    """What a graph says: only what is computed, or also how."""

    HINT = "hint"
    IMPL = "impl"


class AxisType(enum.Enum):
    """By which transformation an axis came to be; of several, the last."""

    ORIGINAL = "kAxisTypeOriginal"
    BLOCK_OUT = "kAxisTypeBlockOuter"
    BLOCK_IN = "kAxisTypeBlockInner"
    TILE_OUT = "kAxisTypeTileOuter"
    TILE_IN = "kAxisTypeTileInner"
    MERGED = "kAxisTypeMerged"


@dataclass(eq=False)
class Axis:
    """An axis of a graph. `from_` are the axes it was split or merged from, `split_pair` its other half.

    `align` is -1 for none, else the number of which the size is a multiple; that of the halves of a split is 1.
    """

    id: int
    name: str
    size: Size
    type: AxisType = AxisType.ORIGINAL
    from_: tuple[Axis, ...] = ()
    split_pair: Axis | None = None
    align: int = -1
    allow_oversize_axis: bool = False
    allow_unaligned_tail: bool = True

    @property
    def bind_block(self) -> bool:
        """Whether the axis is spread over the cores."""
        return self.type is AxisType.BLOCK_OUT

    @property
    def is_half(self) -> bool:
        """Whether it is a half of a split."""
        return self.type not in (AxisType.ORIGINAL, AxisType.MERGED)

    @property
    def is_inner(self) -> bool:
        """Whether it is the inner half of a split."""
        return self.type in (AxisType.TILE_IN, AxisType.BLOCK_IN)

    def ancestors(self) -> list[Axis]:
        """The axis, and all that it was made of."""
        return [self, *(axis for part in self.from_ for axis in part.ancestors())]

    @property
    def is_merged(self) -> bool:
        """Whether several axes became this one. (Some dumps call such an axis ORIGINAL.)"""
        return len(self.from_) > 1

    def __repr__(self) -> str:
        return self.name


@dataclass
class Queue:
    """The queue that a tensor comes through: its number, how many tensors it holds, how many buffers; -1 if there is
    no queue."""

    id: int = -1
    depth: int = -1
    buf_num: int = -1


@dataclass
class Memory:
    """Where a tensor lives: `hardware` GM or UB, `position` GM, VECIN, VECOUT or VECCALC; a number that it does not
    have is -1.

    Tensors of one queue with the same `reuse_id` lie side by side in it; with others they use it one after the other.
    """

    tensor_id: int = -1
    alloc_type: str = ""
    hardware: str = ""
    position: str = ""
    reuse_id: int = -1


@dataclass
class LocalBuffer:
    """The number of the buffer that a tensor is in; -1 if it is in no buffer."""

    id: int = -1


@dataclass
class TmpBuffer:
    """Work space of one call: `size` in bytes. `life_time_axis_id`: the loop that it is kept over; -1 is the call only."""

    id: int
    size: Size
    life_time_axis_id: int = -1
    mem: Memory = field(default_factory=lambda: Memory(alloc_type="Buffer", hardware="UB", position="VECCALC"))


@dataclass
class Api:
    """How a dump names the call of a node: its `compute_type`, `Buffer` or `Compute`, and the hardware unit."""

    compute_type: str
    type: str
    unit: str


@dataclass
class Source:
    """What a part of a graph was read from: the text, how the part as read is printed if it were our own, and the line
    with which it begins, from 1."""

    text: str
    printed: str = ""
    line: int = 0


@dataclass(eq=False)
class AscTensor:
    """An output of a node: its size and stride (in elements) along each axis; stride 0 where the size is 1.

    The axes are in the order of the tensor's memory, the outermost first. `que` is the queue that it comes through, or
    `buf` its buffer; `opt` keeps what a dump says under `.y.opt:`.
    """

    node: AscNode
    dtype: str = "float32"
    axis: list[Axis] = field(default_factory=list)
    repeats: list[Size] = field(default_factory=list)
    strides: list[Size] = field(default_factory=list)
    vectorized_axis: list[Axis] = field(default_factory=list)
    vectorized_strides: list[Size] = field(default_factory=list)
    mem: Memory = field(default_factory=Memory)
    que: Queue = field(default_factory=Queue)
    buf: LocalBuffer = field(default_factory=LocalBuffer)
    opt: dict[str, str] = field(default_factory=dict)
    name: str = "y"

    @property
    def is_global(self) -> bool:
        """Whether it is in global memory, as an input, an output or workspace. Such a tensor keeps its axes for good."""
        return self.node.op.is_buffer or self.node.type == "Store"

    @property
    def elements(self) -> Size:
        """How many elements it has: the product of its sizes."""
        total = Size.of(1)
        for repeat in self.repeats:
            total = total * repeat
        return total

    def repeat(self, axis: Axis) -> Size:
        """The size along an axis; 1 if the tensor does not have it."""
        return next((r for a, r in zip(self.axis, self.repeats, strict=False) if a is axis), Size.of(1))

    def local_length(self, axis: Axis) -> Size:
        """How many places along an axis its local buffer has; of a split axis as many as a whole piece, also in the tail."""
        repeat = self.repeat(axis)
        return axis.size if axis.is_inner and not repeat.is_one else repeat

    def stride(self, axis: Axis) -> Size:
        """The stride along an axis; 0 if the tensor does not have it."""
        return next((s for a, s in zip(self.axis, self.strides, strict=False) if a is axis), Size.of(0))

    def __repr__(self) -> str:
        return f"{self.node.name}.{self.name}"


@dataclass
class Sched:
    """The loops around a node; those up to `loop_axis` are loops, the rest is one call.

    `exec_condition`: `no_cache`, or one of `cache_block_split_fused_brc_axis` and `cache_block_split_origin_brc_axis`, with
    which the node runs only when its data changes.
    """

    axis: list[Axis] = field(default_factory=list)
    loop_axis: Axis | None = None
    exec_order: int = -1
    exec_condition: str = "no_cache"


class AscNode:
    """A node: a type (`optypes.OP_TYPES`), its inputs (outputs of other nodes) and its outputs, the first of them `y`.

    `extra` are lines of a dump that say nothing known here; they are printed again.
    """

    def __init__(self, graph: AscGraph, type: str, name: str, inputs: Sequence[AscTensor], **attrs: Any) -> None:
        self.graph, self.type, self.name = graph, type, name
        self.op: OpType = op_type(type)
        """What is known of the node's type."""
        self.inputs = list(inputs)
        self.attrs = attrs
        self.sched = Sched(list(graph.sched_axes))
        self.api = Api(self.op.compute_type, "Compute" if self.op.is_call else "Buffer", self.op.unit)
        self.tmp_buffers: list[TmpBuffer] = []
        self.outputs = [AscTensor(self)]
        self.extra: list[str] = []
        self.source: Source | None = None

    @property
    def y(self) -> AscTensor:
        """The output, or the first of them."""
        return self.outputs[0]

    def attr(self, name: str) -> Any:
        """An attribute; its value by default if the node does not give it."""
        return self.attrs.get(name, self.op.attrs.get(name))

    def output(self, name: str) -> AscTensor:
        """The output of a name; a new one if the type has several and none has the name yet."""
        found = next((y for y in self.outputs if y.name == name), None)
        if found is None and self.op.outputs != 1:
            unnamed = len(self.outputs) == 1 and self.y.name == "y" and not self.y.axis
            found = self.y if unnamed else AscTensor(self)
            found.name = name
            if not unnamed:
                self.outputs.append(found)
        if found is None:
            raise AscendError("output-known", f"`{self.name}` has no output `{name}`")
        return found

    def array_axes(self) -> list[Axis | None]:
        """The axes of the array of a Data or Output node, in the array's order.

        The attribute `array` names them (`"z1, 1, z0"`; 1 is a dimension of size 1, here None);
        without it they are the node's own.
        """
        names = self.attrs.get("array")
        if names is None:
            return list(self.y.axis)
        known = {a.name: a for a in self.y.axis}
        return [known.get(name) for name in names.split(", ") if name]

    def array_shape(self) -> list[Size]:
        """The sizes of that array."""
        return [Size.of(1) if a is None else self.y.repeat(a) for a in self.array_axes()]

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"


@viewed("ascend graph")
class AscGraph:
    """A graph of nodes over axes.

    `sizes` maps the name of each size variable to its value, None if it is open; `axes` and
    `nodes` are in the order of their creation, which is an order of execution.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.type = GraphType.HINT
        self.tiling_key = -1
        self.generation = 1  # of the text that it is printed as
        self.sources: dict[str, Source] = {}
        self.sizes: dict[str, int | None] = {}
        self.axes: list[Axis] = []
        self.nodes: list[AscNode] = []
        self.sched_axes: list[Axis] = []
        self._counts: dict[str, int] = {}
        self._named: dict[str, AscNode] = {}  # nodes that were added; some may have been taken out of `nodes` since

    def create_size(self, name: str | int, value: int | None = None) -> Size:
        """A size: a variable of that name; a number where a number is given."""
        if isinstance(name, int):
            return Size.of(_positive(name))
        if name in self.sizes:
            raise _duplicate_error("size", name, "`create_size`")
        self.sizes[name] = None if value is None else _positive(value)
        return Size.of(name) if value is None else Size.of(value)

    def create_axis(self, name: str, size: SizeLike, type: AxisType = AxisType.ORIGINAL, **facts: Any) -> Axis:
        """An axis of a size; around new nodes an original axis is inside the others."""
        if any(a.name == name for a in self.axes):
            raise _duplicate_error("axis", name, "`create_axis`")
        if isinstance(size, int):
            _positive(size)
        elif not isinstance(size, Size):
            raise AscendError("size", f"a size is a whole number, or what `create_size` gives, not {a_thing(size)}")
        axis = Axis(len(self.axes), name, Size.of(size), type, **facts)
        self.axes.append(axis)
        if type is AxisType.ORIGINAL:
            self.sched_axes.append(axis)
        return axis

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """An error for a name as it is in C++, with the name that it has here."""
            raise no_such_name(self, name)

    def find_axis(self, axis: Axis | str) -> Axis:
        """The axis of a name; an axis of the graph as it is."""
        for known in self.axes:
            if axis is known or axis == known.name:
                return known
        if not isinstance(axis, (Axis, str)):
            raise AscendError(
                "axis-known",
                f"an axis is given as it was created or by its name, not {a_thing(axis)}",
                hint="`create_axis(name, size)` gives one",
            )
        name = axis if isinstance(axis, str) else axis.name
        names = [known.name for known in self.axes]
        hint = did_you_mean(name, names) or (f"it has {', '.join(names)}" if names else "`create_axis` makes one")
        raise AscendError("axis-known", f"graph `{self.name}` has no axis `{name}`", hint=hint)

    def find_axes(self, axes: Axis | str | Sequence[Axis | str]) -> list[Axis]:
        """Axes of the graph, given as `find_axis` takes them; one alone as a list of it."""
        if isinstance(axes, (Axis, str)) or not isinstance(axes, Iterable):
            return [self.find_axis(axes)]
        return [self.find_axis(axis) for axis in axes]

    def find_node(self, name: str) -> AscNode:
        """The node of a name."""
        node = self._named.get(name)
        if node is not None and node in self.nodes:
            return node
        raise AscendError(
            "node-known",
            f"graph `{self.name}` has no node `{name}`",
            hint=f"its nodes are {', '.join(n.name for n in self.nodes) or 'none yet'}",
        )

    def add_node(self, type: str, inputs: Sequence[AscTensor] = (), name: str | None = None, **attrs: Any) -> AscNode:
        """A new node after those that are there; `tvmagic.ascend.ops` gives its tensor attributes too.

        Raises AscendError for a type that is not known. (A dump may have such nodes: `tvmagic.ascend.parse_graph`.)
        """
        if type not in OP_TYPES:
            raise AscendError("op-type", f"there is no node type `{type}`", hint="one of " + ", ".join(OP_TYPES))
        return self._add_node(type, inputs, name, **attrs)

    def _add_node(self, type: str, inputs: Sequence[AscTensor], name: str | None, **attrs: Any) -> AscNode:
        if name is None:
            count = self._counts.get(type, 0)
            while (name := f"{type.lower()}_{count}") in self._named:
                count += 1
            self._counts[type] = count + 1
        if name in self._named and self._named[name] in self.nodes:
            raise _duplicate_error("node", name, "the call")
        node = AscNode(self, type, name, inputs, **attrs)
        node.sched.exec_order = len(self.nodes)
        self.nodes.append(node)
        self._named[name] = node
        return node

    def readers(self) -> dict[AscTensor, list[AscNode]]:
        """The nodes that read each tensor, in order; a tensor that none reads has an empty list."""
        table: dict[AscTensor, list[AscNode]] = {y: [] for n in self.nodes for y in n.outputs}
        for node in self.nodes:
            for tensor in dict.fromkeys(node.inputs):
                table.setdefault(tensor, []).append(node)
        return table

    def consumers(self, tensor: AscTensor) -> list[AscNode]:
        """The nodes that read one tensor; `readers` tells those of all."""
        return [n for n in self.nodes if tensor in n.inputs]

    def of_type(self, *types: str) -> list[AscNode]:
        """The nodes of some types, in order."""
        return [n for n in self.nodes if n.type in types]

    def tensors(self) -> Iterator[AscTensor]:
        """The outputs of all nodes."""
        return (y for n in self.nodes for y in n.outputs)

    def copy(self, name: str | None = None) -> AscGraph:
        """A graph of its own with the same content."""
        new = AscGraph(name or self.name)
        new.sizes, new._counts = dict(self.sizes), dict(self._counts)
        new.type, new.tiling_key, new.generation, new.sources = (
            self.type,
            self.tiling_key,
            self.generation,
            self.sources,
        )
        axes: dict[Axis, Axis] = {}
        for a in self.axes:
            facts = (a.align, a.allow_oversize_axis, a.allow_unaligned_tail)
            axes[a] = Axis(a.id, a.name, a.size, a.type, tuple(axes.get(f, f) for f in a.from_), None, *facts)
        for a in self.axes:
            axes[a].split_pair = axes.get(a.split_pair, a.split_pair) if a.split_pair is not None else None
        new.axes = [axes[a] for a in self.axes]
        new.sched_axes = [axes.get(a, a) for a in self.sched_axes]
        tensors: dict[AscTensor, AscTensor] = {}
        for n in self.nodes:
            copied = _copied_node(n, new, axes, tensors)
            new.nodes.append(copied)
            new._named[copied.name] = copied
        for n, copied in zip(self.nodes, new.nodes, strict=True):
            copied.inputs = [tensors.get(x, x) for x in n.inputs]
        return new

    def describe(self) -> dict[str, Any]:
        """The graph as plain data, for pictures: axes with their ancestry, nodes with loops and memory."""
        return {
            "name": self.name,
            "sizes": dict(self.sizes),
            "axes": [
                {
                    "id": a.id, "name": a.name, "size": str(a.size), "type": a.type.name,
                    "from": [f.name for f in a.from_], "split_pair": a.split_pair.name if a.split_pair else None,
                }
                for a in self.axes
            ],
            "nodes": [_describe_node(n) for n in self.nodes],
            "edges": [(t.node.name, n.name) for n in self.nodes for t in n.inputs],
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"AscGraph({self.name!r}, {len(self.axes)} axes, {len(self.nodes)} nodes)"


def _describe_node(node: AscNode) -> dict[str, Any]:
    y, loop = node.y, node.sched.loop_axis
    return {
        "name": node.name,
        "type": node.type,
        "compute_type": node.api.compute_type,
        "unit": node.api.unit,
        "axis": [a.name for a in node.sched.axis],
        "loop_axis": loop.name if loop is not None else None,
        "inputs": [t.node.name for t in node.inputs],
        "dtype": y.dtype,
        "tensor_axis": [a.name for a in y.axis],
        "repeats": [str(r) for r in y.repeats],
        "strides": [str(s) for s in y.strides],
        "vectorized_axis": [a.name for a in y.vectorized_axis],
        "vectorized_strides": [str(s) for s in y.vectorized_strides],
        "mem": {**asdict(y.mem), "que": asdict(y.que), "buf": asdict(y.buf)},
    }


def _copied_node(
    node: AscNode, graph: AscGraph, axes: dict[Axis, Axis], tensors: dict[AscTensor, AscTensor]
) -> AscNode:
    """The node in another graph, which has `axes` for those of this one; its inputs are not set yet.

    `tensors` learns which outputs it has there. Axes that the graph does not have, as in an excerpt of a dump, stay as they are.
    """
    new = AscNode(graph, node.type, node.name, (), **node.attrs)
    loop = node.sched.loop_axis
    new.sched = replace(
        node.sched,
        axis=[axes.get(a, a) for a in node.sched.axis],
        loop_axis=None if loop is None else axes.get(loop, loop),
    )
    new.api, new.tmp_buffers = replace(node.api), [replace(b, mem=replace(b.mem)) for b in node.tmp_buffers]
    new.extra, new.source = list(node.extra), node.source
    new.outputs = []
    for y in node.outputs:
        tensors[y] = copied = replace(
            y, node=new, axis=[axes.get(a, a) for a in y.axis], repeats=list(y.repeats), strides=list(y.strides),
            vectorized_axis=[axes.get(a, a) for a in y.vectorized_axis], vectorized_strides=list(y.vectorized_strides),
            mem=replace(y.mem), que=replace(y.que), buf=replace(y.buf), opt=dict(y.opt),
        )  # fmt: skip
        new.outputs.append(copied)
    return new


_DTYPES = (
    "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"
)  # fmt: skip


def the_dtype(dtype: str, said: str | None = None) -> str:
    """`dtype`, if it is a type of tensors; else an error, with `said` as what is wrong."""
    if dtype not in _DTYPES:
        raise AscendError("dtype", said or f"`{dtype}` is not a type of tensors", hint="one of " + ", ".join(_DTYPES))
    return dtype


def _duplicate_error(what: str, name: str, by: str) -> AscendError:
    """The error for a second size, axis or node of a name, which `by` made."""
    hint = f"give it another name, or use what {by} gave for it"
    return AscendError("unique-name", f"the {what} `{name}` is already there", hint=hint)


def _positive(value: int) -> int:
    if value < 1:
        raise AscendError("size-positive", f"a size is at least 1, not {value}")
    return value


def plain_name(name: str) -> str:
    """A node's or graph's name as that of a variable; a dump's may hold `/`."""
    return re.sub(r"\W", "_", name)


def dense_strides(repeats: Sequence[Size]) -> list[Size]:
    """The strides of a row-major array without gaps; 0 where the size is 1."""
    strides: list[Size] = []
    step = Size.of(1)
    for repeat in reversed(repeats):
        strides.append(Size.of(0) if repeat.is_one else step)
        step = step * repeat
    return strides[::-1]


def as_graph(value: Any) -> AscGraph:
    """`value`, if it is a graph; else AscendError, with what makes one of it."""
    if isinstance(value, AscGraph):
        return value
    raise AscendError(
        "graph",
        f"{a_thing(value)} is not a graph",
        hint="`ascend.parse_graph(text)` reads one, `ascend.hint_graph(NAME)` makes one of the operator of a cell, and "
        "`.graph` is that of a result of `ascend.auto_schedule`",
    )
