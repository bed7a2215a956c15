"""What each line of a dump says of the graph, and how each fact is printed: line by line, in both generations."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refuses

from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, Axis, AxisType, GraphType, Memory, Queue, Size, TmpBuffer, ops
from tvmagic.ascend.dump_printer import attribute_text

HEAD = "Graph: g\nSizes:\n  n: VAR\n  m: CONST(4)\nAxis:\n"
AXES = "  a(0) : n, ORIGINAL, align: -1\n  b(1) : 6, ORIGINAL, align: -1\n"


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (
            "z(7) : n, ORIGINAL, align: -1, allow_oversize_axis: 0, allow_unaligned_tail: 1",
            (7, "n", "ORIGINAL", -1, False, True),
        ),
        (
            "z(2) : (2 * n), TILE_OUT, from: {a, }, align: 8, allow_oversize_axis: 1, allow_unaligned_tail: 0",
            (2, "(2 * n)", "TILE_OUT", 8, True, False),
        ),
        ("z(2) : TILE_IN, size:4, , from: {a, }", (2, "4", "TILE_IN", 1, False, True)),
        ("z(2) : ORIGINAL, size:n, ", (2, "n", "ORIGINAL", -1, False, True)),
        ("z(2) : 12, MERGED, from: {a, b, }, align: nil", (2, "12", "MERGED", -1, False, True)),
        ("z(2) : Max(n, 4), BLOCK_OUT, from: {b, }", (2, "Max(n, 4)", "BLOCK_OUT", 1, False, True)),
    ],
)
def test_axes(line: str, facts: tuple[Any, ...]) -> None:
    axis = ascend.parse_graph(f"{HEAD}{AXES}  {line}\n").find_axis("z")
    found = axis.id, str(axis.size), axis.type.name, axis.align, axis.allow_oversize_axis, axis.allow_unaligned_tail
    assert found == facts
    assert [f.name for f in axis.from_] == [name for name in "ab" if f"{name}, " in line.partition("from")[2]]


def test_axes_that_schedules_begin_with() -> None:
    """Not halves of splits, nor what was merged, nor what was made of a half."""
    graph = ascend.parse_graph(
        HEAD
        + AXES
        + "  c(2) : 5, ORIGINAL\n  d(3) : 3, ORIGINAL\n  ab(4) : (6 * n), MERGED, from: {a, b, }\n  cT(5) : 5, TILE_OUT, from: {c, }\n"
        "  ct(6) : 1, TILE_IN, from: {c, }\n  cTd(7) : 15, MERGED, from: {cT, d, }\n"
    )
    assert [a.name for a in graph.sched_axes] == ["c", "ab"]
    assert graph.find_axis("cT").split_pair is graph.find_axis("ct") and graph.find_axis(
        "ct"
    ).split_pair is graph.find_axis("cT")
    assert (
        graph.find_axis("c").split_pair is None
        and graph.find_axis("ab").is_merged
        and not graph.find_axis("ct").is_merged
    )


@pytest.mark.parametrize(
    ("name", "size", "made_of"),
    [
        ("ab", "(6 * n)", "ab"),
        ("ab", "(5 * n)", ""),
        ("ba", "(6 * n)", ""),
        ("abc", "(6 * n)", ""),
        ("a", "n", ""),
        ("aab", "(6 * n)", ""),
    ],
)
def test_merged_axes_that_a_dump_calls_original(name: str, size: str, made_of: str) -> None:
    """If the names and the sizes of axes in front of it make its own."""
    axes = AXES if name != "a" else "  b(1) : 6, ORIGINAL\n"
    graph = ascend.parse_graph(f"{HEAD}{axes}  {name}(2) : {size}, ORIGINAL\n")
    assert "".join(a.name for a in graph.axes[-1].from_) == made_of


NODE = (
    HEAD
    + AXES
    + "Nodes:\n  x: Data (0)\n    .ir_attr =  {.index = i: 0}\n    .axis = {a, b, }\n    .y.dtype = float32\n    .y.axis = {a, b, }\n"
)


def node_with(*lines: str) -> ascend.AscNode:
    return ascend.parse_graph(NODE + "".join(f"    {line}\n" for line in lines)).nodes[0]


@pytest.mark.parametrize(
    ("lines", "memory", "queue", "buffer"),
    [
        ([".mem = GM[tensor_id=3, pos=GM]"], Memory(3, "Global", "GM", "GM", -1), Queue(), -1),
        ([".mem = UB[que_id=0, pos=VECIN]"], Memory(-1, "Queue", "UB", "VECIN", -1), Queue(0, -1, 2), -1),
        ([".mem = UB[que_id=1, reuse_id=4, depth=2, buf_num=1]"], Memory(-1, "Queue", "UB", "", 4), Queue(1, 2, 1), -1),
        ([".mem = UB[buf_id=0, pos=VECCALC]"], Memory(-1, "Buffer", "UB", "VECCALC", -1), Queue(), 0),
    ],
)
def test_short_memory(lines: list[str], memory: Memory, queue: Queue, buffer: int) -> None:
    text = (
        NODE.rpartition("    .y.dtype")[0]
        + "    .y: float32\n        .axis = {a, b}\n"
        + "".join(f"        {line}\n" for line in lines)
    )
    graph = ascend.parse_graph(text)
    y = graph.nodes[0].y
    assert (y.mem, y.que, y.buf.id) == (memory, queue, buffer) and (graph.type, graph.generation) == (GraphType.IMPL, 2)
    assert lines[0] in ascend.graph_text(graph, 2)


def test_memory_line_by_line() -> None:
    node = node_with(
        ".y.mem:",
        "  .tensor_id = 5",
        "  .alloc_type = Queue",
        "  .hardware = UB",
        "  .position = TPosition::VECIN",
        ".y.que:",
        "  .id = 0",
        "  .depth = 3",
        "  .buf_num = 1",
        "  .reuse_id = 2",
        ".y.buf:",
        "  .id = nil",
        ".y.opt:",
        "  .ref = q",
        "  .reuse_id = 9",
    )
    y = node.y
    assert (y.mem, y.que, y.buf.id, y.opt) == (
        Memory(5, "Queue", "UB", "VECIN", 9),
        Queue(0, 3, 1),
        -1,
        {"ref": "q", "reuse_id": "9"},
    )
    assert node.graph.type is GraphType.IMPL and not node.extra
    for line in (".y.mem.depth = 3", ".y.que.hardware = UB", ".y.buf.depth = 1", ".y.other = 1"):
        assert node_with(line).extra == [f"    {line}"]
    assert node_with(".y.opt.more = 1").extra == [] and node_with(".y.buf.id = 3").y.buf.id == 3
    assert (
        node_with().graph.type is GraphType.HINT and node_with(".api:", "  .unit = MTE2").graph.type is GraphType.IMPL
    )
    assert (
        node_with(".api:", "  .compute_type = load").graph.type is GraphType.HINT
        and node_with(".loop_axis = nil").graph.type is GraphType.IMPL
    )
    assert (
        node_with(".loop_axis = b").sched.loop_axis is not None
        and node_with(".exec_condition = c").sched.exec_condition == "c"
    )


@pytest.mark.parametrize(
    ("value", "key", "text"),
    [
        (3, "index", "i: 3"),
        (0.5, "alpha", "f: 0.5"),
        (True, "flag", "b: true"),
        (False, "flag", "b: false"),
        ("fast", "mode", 's: "fast"'),
        (2.5, "value", 's: "2.5"'),
        (7, "value", 's: "7"'),
        (Size.of("n") * 2, "expr", 'expression: "(2 * n)"'),
        (Size.of("n"), "other", 'expression: "n"'),
        (0, "offset", 'expression: "0"'),
        (5, "expr", 'expression: "5"'),
    ],
)
def test_attributes(value: Any, key: str, text: str) -> None:
    assert attribute_text(value, key) == text
    read = ascend.parse_graph(NODE.replace(".index = i: 0", f".{key} = {text}")).nodes[0].attrs[key]
    assert read == value and (type(read) is type(value) or isinstance(read, Size))


def test_work_space_of_a_call() -> None:
    node = node_with(".tmp_buf = {{buf_id=1, size=8192}, {buf_id=2, size=(4 * n), life_time_axis_id=0}, {size=n}}")
    assert [(b.id, str(b.size), b.life_time_axis_id) for b in node.tmp_buffers] == [
        (1, "8192", -1),
        (2, "(4 * n)", 0),
        (-1, "n", -1),
    ]
    assert [b.mem for b in node.tmp_buffers] == [TmpBuffer(0, Size.of(1)).mem] * 3
    assert (
        ".tmp_buf = {{buf_id=1, size=8192}, {buf_id=2, size=(4 * n), life_time_axis_id=0}, {buf_id=-1, size=n}}"
        in ascend.graph_text(node.graph, 1)
    )


def test_sizes_and_sections() -> None:
    graph = ascend.parse_graph(
        "Graph: my graph\nSizes:\n  n: VAR\n  m: CONST(12)\n  k: 7\nAxis:\n  a(0) : n, ORIGINAL\nNodes:\n"
    )
    assert (graph.name, graph.sizes, graph.generation, graph.nodes) == ("my graph", {"n": None, "m": 12, "k": 7}, 1, [])
    for text, said in (
        ("Graph: g\nAxis:\nSizes:\n", "the section `Sizes` is in the wrong place"),
        ("Graph: g\nSizes:\nSizes:\n", "the section `Sizes` is in the wrong place"),
        ("Sizes:\n  n: VAR\nGraph: g\n", "a second graph begins here"),
        ("Graph: g\nSizes:\n  : VAR\n", "`: VAR` is not the line of a size"),
        ("Graph: g\nSizes:\n  n: CONST(x)\n", "is not the line of a size"),
        ("Graph: g\nAxis:\n  z(0) : n, ODD\n", "has no type of an axis"),
        ("Graph: g\nAxis:\n  z(0) : ORIGINAL\n", "has no size of an axis"),
        ("n: VAR\n", "is before the sections of a graph"),
        ("Graph: g\nNodes:\n  .x = a.y\n", "`.x = a.y` is in front of the first node"),
        (NODE + "    nothing\n", "`nothing` is not a line of a node"),
        (NODE + "  x: Data (1)\n", "the node `x` is already there"),
        (NODE + "    .y.mem.tensor_id = 1.5\n", "`1.5` is not a number"),
        (NODE.replace("i: 0", "f: much"), "`much` is not a number"),
    ):
        with pytest.raises(AscendError) as raised:
            ascend.parse_graph(text)
        assert said in raised.value.message, text
        quoted = raised.value.message.split("`")
        if len(quoted) > 1 and raised.value.source_line and quoted[1] in raised.value.source_line:
            column = raised.value.source_line.index(quoted[1]) + 1
            assert (raised.value.span.column, raised.value.span.end_column) == (column, column + len(quoted[1]))


def test_nodes_are_found_by_name() -> None:
    graph = AscGraph("g")
    graph.create_axis("z0", 4)
    x = ops.Load(ops.Data(graph, "x"))
    y = ops.Abs(x)
    assert graph.find_node("abs_0") is y.node and ops.Abs(x).node.name == "abs_1"
    graph.nodes.remove(y.node)
    with refuses("ascend.node_known", error=AscendError, names="`abs_0`"):
        graph.find_node("abs_0")
    assert ops.Abs(x, name="abs_0").node is graph.find_node("abs_0")  # the name is free again
    with pytest.raises(AscendError, match="`abs_0`"):
        ops.Abs(x, name="abs_0")
    assert ops.Abs(x).node.name == "abs_2"
    with pytest.raises(AscendError, match="`abs_2`.*`y1`"):
        graph.nodes[-1].output("y1")
    assert graph.nodes[-1].output("y") is graph.nodes[-1].y


def test_tensors_along_axes() -> None:
    graph = AscGraph("g")
    a, b = graph.create_axis("a", 6), graph.create_axis("b", 5)
    other = AscGraph("o").create_axis("q", 9)
    y = ops.Abs(ops.Load(ops.Data(graph, "x", [b])))
    assert [str(y.repeat(axis)) for axis in (a, b, other)] == ["1", "5", "1"] and [
        str(y.stride(axis)) for axis in (a, b, other)
    ] == ["0", "1", "0"]
    assert y.elements == 5 and y.local_length(b) == 5 and not y.is_global and graph.find_node("x").y.is_global
    _, inner = ascend.tile_split(graph, b, 2)
    y.axis, y.repeats = [a, inner], [Size.of(1), Size.of(3)]
    assert y.local_length(inner) == 2  # of a split axis a whole piece
    y.repeats = [Size.of(1), Size.of(1)]
    assert y.local_length(inner) == 1
    y.repeats.append(Size.of(4))  # of a graph that breaks a rule no error here
    assert y.repeat(a) == 1
    assert ascend.graph.dense_strides([Size.of(n) for n in (2, 1, 3)]) == [3, 0, 1]
    assert Axis(0, "z", Size.of(1), AxisType.TILE_IN).is_half and not Axis(0, "z", Size.of(1), AxisType.MERGED).is_half
