"""The Ascend C text of a tiling's kernel, for reading: nothing here compiles or runs it.

A function for each ImplGraph, and an entry that calls the one of the tiling key. In a function: the sizes of all axes, the
core's index, arrays, queues and buffers; then the loops with their calls, each with the queues around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.ascend.autoschedule import ImplGraph, ScheduleResult
from tvmagic.ascend.graph import AscGraph, AscNode, Axis, AxisType, plain_name
from tvmagic.ascend.kernel_calls import CTYPES, CallText, c_size
from tvmagic.ascend.kernel_queues import Element, Loop, elements_of, tree_of
from tvmagic.ascend.lifetimes import is_local
from tvmagic.ascend.tiling_data import TilingData

_NOTICE = "// For reading only: the source that this graph becomes on an NPU. Nothing here compiles or runs it."


def kernel_text(result: ScheduleResult, number: int, data: TilingData) -> str:
    """The source of the kernel of a result, whose number among the results is `number`."""
    several = len(result.groups) > 1
    fields = dict.fromkeys(data)
    functions: list[str] = []
    entry: list[str] = []
    for g, group in enumerate(result.groups):
        lead = f"graph{g}_" if several else ""
        names = [
            _function_name(result, number, f"graph{g}" if several else "", i, impl)
            for i, impl in enumerate(group.impls)
        ]
        for impl, name in zip(group.impls, names, strict=True):
            fields |= dict.fromkeys(f"{lead}{n}" for n in _fields(impl))
            functions.append("\n".join(_Function(result, impl, lead).lines(name)))
        if g:
            entry.append("SyncAll();")
        arguments = ", ".join([*_arguments(result.hint), "workspace", "&t"])
        calls = [f"if (t.{lead}tiling_key == {i}) {{ {name}({arguments}); }}" for i, name in enumerate(names)]
        entry.append("\nelse ".join(calls))
    head = ", ".join([*_parameters(result.hint), "GM_ADDR workspace", "AutofuseTilingData t"])
    kernel = f'extern "C" __global__ __aicore__ void {plain_name(result.hint.name)}({head}) {{'
    definition = TilingData(dict.fromkeys(fields, 0)).fields()
    return "\n\n".join([f"{_NOTICE}\n{definition.rstrip()}", *functions, "\n".join([kernel, *entry, "}"])]) + "\n"


def _arguments(hint: AscGraph) -> list[str]:
    return [plain_name(n.name) for n in (*hint.of_type("Data"), *hint.of_type("ScalarData"), *hint.of_type("Output"))]


def _parameters(hint: AscGraph) -> list[str]:
    arrays = {plain_name(n.name): "GM_ADDR" for n in (*hint.of_type("Data"), *hint.of_type("Output"))}
    numbers = {plain_name(n.name): CTYPES.get(n.y.dtype, n.y.dtype) for n in hint.of_type("ScalarData")}
    kinds = arrays | numbers
    return [f"{kinds[name]} {name}" for name in _arguments(hint)]


def _function_name(result: ScheduleResult, number: int, group: str, case: int, impl: ImplGraph) -> str:
    """Graph, result, `general`, case, the axes tiled among those of x, y and r, and `unaligned` beside padded rows."""
    tiled = {a.from_[0].name: a.from_[0] for a in impl.graph.axes if a.type is AxisType.TILE_OUT}
    groups = next(g.groups for g in result.groups if any(i is impl for i in g.impls))
    ids = [
        next((str(tiled[a.name].id) for a in axes if a.name in tiled), "nil") for axes in (groups.x, groups.y, groups.r)
    ]
    parts = [plain_name(result.hint.name), str(number), *([group] if group else []), "general", str(case), *ids]
    return "_".join([*parts, "unaligned"] if impl.rows == "unaligned" else parts)


def _fields(impl: ImplGraph) -> list[str]:
    queues = sorted({y.que.id for y in impl.graph.tensors() if y.que.id >= 0})
    buffers = sorted({y.buf.id for y in impl.graph.tensors() if y.buf.id >= 0})
    blocks = [impl.block] if impl.block else []
    return [*impl.tiles, *blocks, *(f"q{q}_size" for q in queues), *(f"b{b}_size" for b in buffers)]


class _Function:
    """The function of one ImplGraph."""

    def __init__(self, result: ScheduleResult, impl: ImplGraph, lead: str) -> None:
        self.result, self.graph, self.lead = result, impl.graph, lead
        self.calls = CallText(impl.graph, lead)
        self.out: list[str] = []
        self.declared: list[set[str]] = [set()]
        self.written: set[object] = set()  # by the vector unit since the last barrier

    def lines(self, name: str) -> list[str]:
        """The lines of the function."""
        head = ", ".join([*_parameters(self.result.hint), "GM_ADDR workspace", "const AutofuseTilingData *t"])
        self.out = [f"inline __aicore__ void {name}({head}) {{"]
        self._sizes()
        self._core()
        self._arrays()
        self._memory()
        nodes = [n for n in self.graph.nodes if n.op.is_call]
        tree = tree_of(nodes)
        self._items(tree, elements_of(self.graph, tree), ())
        return [*self.out, "}"]

    def _say(self, line: str) -> None:
        self.out.append(line)

    # ------------------------------------------------------------------ what comes before the loops

    def _sizes(self) -> None:
        for axis in self.graph.axes:
            name = axis.name
            if axis.is_inner:
                continue  # with its outer half
            if axis.split_pair is None:
                parts = (
                    " * ".join(f"{_count(p)}" for p in axis.from_) if axis.is_merged else c_size(axis.size, self.lead)
                )
                self._say(f"const int {name}_axis_size = {parts};")
                continue
            inner, whole = axis.split_pair.name, _count(axis.from_[0])
            self._say(f"const int {inner}_axis_size = {c_size(axis.split_pair.size, self.lead)};")
            self._say(f"const int {inner}_tail_size = {whole} % {inner}_axis_size;")
            self._say(f"const int {name}_axis_size = {whole} / {inner}_axis_size;")
            self._say(f"const int {name}_loop_size = {name}_axis_size + ({inner}_tail_size > 0);")

    def _core(self) -> None:
        outer = next((a for a in self.graph.axes if a.bind_block), None)
        self._say("int block_dim = GetBlockIdx();")
        limit = (
            f"{outer.name}_loop_size"
            if outer is not None and self.lead
            else "t->block_dim"
            if outer is not None
            else "1"
        )
        self._say(f"if (block_dim >= {limit}) {{ return; }}")
        if outer is not None:
            self._say(f"const int {outer.name} = block_dim % {outer.name}_loop_size;")

    def _arrays(self) -> None:
        number, offsets = 0, {}
        for group in self.result.groups:
            for node in group.hint.of_type("Workspace"):
                if node.name not in offsets:
                    offsets[node.name], number = number, number + 1
        seen: set[int] = set()
        for node in self.graph.nodes:
            key = node.y.mem.tensor_id
            if not node.op.is_buffer or key in seen:
                continue
            seen.add(key)
            dtype = CTYPES.get(node.y.dtype, node.y.dtype)
            place = f"(__gm__ {dtype}*){plain_name(node.name)}"
            if node.type == "Workspace":
                place = f"(__gm__ {dtype}*)((__gm__ uint8_t*)workspace + t->workspace{offsets[node.name]})"
            self._say(f"GlobalTensor<{dtype}> global_{key};")
            self._say(f"global_{key}.SetGlobalBuffer({place});")

    def _memory(self) -> None:
        self._say("TPipe tpipe;")
        local = [n.y for n in self.graph.nodes if is_local(n)]
        for buffer in sorted({y.buf.id for y in local if y.buf.id >= 0}):
            self._say(f"TBuf<TPosition::VECCALC> b{buffer};")
            self._say(f"tpipe.InitBuffer(b{buffer}, t->{self.lead}b{buffer}_size);")
        queues = {y.que.id: y for y in local if y.que.id >= 0 and y.mem.position != "VECCALC"}
        for queue, y in sorted(queues.items()):
            self._say(f"TQue<TPosition::{y.mem.position}, 1> q{queue};")
            self._say(f"tpipe.InitBuffer(q{queue}, {y.que.buf_num}, t->{self.lead}q{queue}_size);")
        for y in local:
            if y.buf.id >= 0:
                dtype = CTYPES.get(y.dtype, y.dtype)
                self._say(f"LocalTensor<{dtype}> local_{y.mem.tensor_id} = b{y.buf.id}.Get<{dtype}>();")

    # ------------------------------------------------------------------ the loops

    def _items(self, items: Sequence[Loop | AscNode], elements: Sequence[Element], loops: tuple[Axis, ...]) -> None:
        """Calls and loops in order; a queue's element is taken and given back where all that use it are in sight."""
        own = [e for e in elements if e.loops == loops]
        for item in items:
            for element in own:
                if element.first_made is item:
                    self._allocate(element)
            for element in own:
                if element.first_read is item:
                    self._say(f"q{element.queue}_buf = q{element.queue}.DeQue<uint8_t>();")
            if isinstance(item, Loop):
                self._loop(item, elements, loops)
            else:
                self._call(item)
            for element in own:
                if element.last_made is item:
                    self._say(f"q{element.queue}.EnQue(q{element.queue}_buf);")
            for element in own:
                if element.last_read is item or (element.last_read is None and element.last_made is item):
                    if element.last_read is None:
                        self._say(f"q{element.queue}_buf = q{element.queue}.DeQue<uint8_t>();")
                    self._say(f"q{element.queue}.FreeTensor(q{element.queue}_buf);")

    def _allocate(self, element: Element) -> None:
        name = f"q{element.queue}_buf"
        lead = "" if name in self.declared[-1] else "LocalTensor<uint8_t> "
        self.declared[-1].add(name)
        self._say(f"{lead}{name} = q{element.queue}.AllocTensor<uint8_t>();")
        before: list[str] = []
        for y in element.tensors:
            dtype, place = CTYPES.get(y.dtype, y.dtype), " + ".join(before) or "0"
            self._say(
                f"LocalTensor<{dtype}> local_{y.mem.tensor_id} = {name}[{place}].template ReinterpretCast<{dtype}>();"
            )
            before.append(self.calls.bytes_of(y))

    def _loop(self, loop: Loop, elements: Sequence[Element], loops: tuple[Axis, ...]) -> None:
        axis = loop.axis
        for node in loop.starting:
            self._start(node)
        if axis.type is AxisType.BLOCK_IN and axis.split_pair is not None:
            outer = axis.split_pair.name
            self._say(
                f"int {axis.name}_loop_size = {outer} < {outer}_axis_size ? {axis.name}_axis_size : {axis.name}_tail_size;"
            )
        self._say(f"for (int {axis.name} = 0; {axis.name} < {_count(axis)}; {axis.name}++) {{")
        self.declared.append(set())
        if axis.type is AxisType.BLOCK_IN and axis.split_pair is not None:
            whole = axis.from_[0]
            self._say(f"int {whole.name} = {axis.split_pair.name} * {self.calls.size(axis.size)} + {axis.name};")
            self._define_derived(whole)
        else:
            self._define_derived(axis)
        self._items(loop.items, elements, (*loops, axis))
        self.declared.pop()
        self._say("}")

    def _define_derived(self, axis: Axis) -> None:
        """What follows once the index of an axis is known: those of its parts, and the true length of a tile."""
        if axis.is_merged:
            for place, part in enumerate(axis.from_):
                after = [_count(p) for p in axis.from_[place + 1 :]]
                below = " * ".join(after) if len(after) < 2 else f"({' * '.join(after)})"
                index = f"{axis.name} / {below}" if after else axis.name
                self._say(f"int {part.name} = {index + (f' % {_count(part)}' if place else '')};")
                self._define_derived(part)
        elif axis.type is AxisType.TILE_OUT and axis.split_pair is not None:
            inner, name = axis.split_pair.name, axis.name
            self._say(f"int {inner}_actual_size = {name} < {name}_axis_size ? {inner}_axis_size : {inner}_tail_size;")

    def _call(self, node: AscNode) -> None:
        if node.op.kind == "reduce" and not self.calls.looped(node):
            self._start(node)
        if node.op.unit == "Vector":
            self._wait(node.y, node.inputs)
        self.out += self.calls.call(node)

    def _start(self, node: AscNode) -> None:
        """The first value of a reduction, which the calls that reduce wait for."""
        self._wait(node.y, ())
        self._say(self.calls.start(node))

    def _wait(self, y: Any, inputs: Sequence[Any]) -> None:
        """The barrier in front of a call of the vector unit if it touches what an earlier one wrote."""
        if self.written & {self._storage_key(t) for t in (y, *inputs)}:
            self._say("AscendC::PipeBarrier<PIPE_V>();")
            self.written = set()
        self.written.add(self._storage_key(y))

    def _storage_key(self, y: Any) -> object:
        return ("b", y.buf.id) if y.buf.id >= 0 else y


def _count(axis: Axis) -> str:
    """How often a loop over an axis runs, as the text names it."""
    if axis.type in (AxisType.TILE_OUT, AxisType.BLOCK_OUT, AxisType.BLOCK_IN):
        return f"{axis.name}_loop_size"
    return f"{axis.name}_axis_size"
