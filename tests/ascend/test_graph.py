"""Sizes, axes and their transformations, the text of graphs, and the rules, one by one."""

import pytest
from refusals import refuses

from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, AxisType, ops, parse_size
from tvmagic.errors import TVMagicError


def softmax_like() -> AscGraph:
    """exp(x + y) divided by its sum along z1; y has z1 only."""
    graph = AscGraph("softmax_like")
    z0 = graph.create_axis("z0", graph.create_size("s0"))
    z1 = graph.create_axis("z1", 100)
    x = ops.Load(ops.Data(graph, "x"))
    y = ops.Broadcast(ops.Load(ops.Data(graph, "y", [z1])), z0)
    e = ops.Exp(ops.Add(x, y))
    total = ops.Broadcast(ops.Sum(e, z1), z1)
    ops.Output(ops.Store(ops.Div(e, total)), "out")
    return graph


def chain(sizes=(6, 7, 8, 9)) -> AscGraph:
    graph = AscGraph("chain")
    for place, size in enumerate(sizes):
        graph.create_axis(f"z{place}", size)
    ops.Output(ops.Store(ops.Abs(ops.Load(ops.Data(graph, "x")))), "out")
    return graph


def names(axes) -> list[str]:
    return [a.name for a in axes]


@pytest.mark.parametrize(
    "text",
    [
        "40000",
        "s0",
        "(s0 * s1)",
        "(40000 / (z0z1t_size))",
        "Ceiling((40000 / (z0z1t_size)))",
        "(s0 + s1)",
        "(100 + s0)",
        "Max(s0, (2 * s1))",
        "Floor((s0 / (3)))",
        "Align(s0, 32)",
        "Mod(s0, 7)",
        "Min(s0, s1)",
        "(40000 / (z0z1Tb_size * z0z1t_size))",
        "Ceiling((Ceiling((s0 / (t_size))) / (b_size)))",
        "(2 * s0 * s1)",
    ],
)
def test_sizes_are_read_as_they_are_printed(text: str) -> None:
    assert str(parse_size(text)) == text


def test_sizes_compute() -> None:
    size = parse_size("Ceiling((s0 * s1 / (t)))")
    assert size.evaluate({"s0": 7, "s1": 3, "t": 4}) == 6
    assert parse_size("s0 * s1 / s1") == parse_size("s0")
    assert parse_size("Ceiling(7 / 2)") == 4
    with pytest.raises(TVMagicError, match="`s1`"):
        size.evaluate({"s0": 1, "t": 1})


def test_split_names_sizes_and_ancestry() -> None:
    graph = chain()
    z0, z1 = graph.axes[:2]
    outer, inner = ascend.block_split(graph, z0)
    assert (outer.name, inner.name) == ("z0B", "z0b")
    assert str(outer.size) == "Ceiling((6 / (z0b_size)))" and str(inner.size) == "z0b_size"
    assert (outer.type, inner.type) == (AxisType.BLOCK_OUT, AxisType.BLOCK_IN)
    assert outer.from_ == (z0,) and inner.from_ == (z0,)
    assert outer.split_pair is inner and inner.split_pair is outer
    tile_outer, tile_inner = ascend.tile_split(graph, z1, 3)
    assert (tile_outer.name, tile_inner.name) == ("z1T", "z1t")
    assert tile_outer.size == 3 and (tile_outer.type, tile_inner.type) == (AxisType.TILE_OUT, AxisType.TILE_IN)
    ascend.apply_split(graph, outer, inner)
    node = graph.find_node("abs_0")
    assert names(node.sched.axis) == ["z0B", "z0b", "z1", "z2", "z3"]
    assert [str(r) for r in node.y.repeats[:2]] == ["(6 / (z0b_size))", "z0b_size"]
    assert [str(s) for s in node.y.strides[:2]] == ["(504 * z0b_size)", "504"]
    ascend.apply_sched_split(node, tile_outer, tile_inner)
    assert "z1T" in names(node.sched.axis) and "z1T" not in names(node.y.axis)
    ascend.apply_tensor_split(node, tile_outer, tile_inner)
    assert "z1T" in names(node.y.axis)


def test_neighbours_of_the_manual() -> None:
    """The lists of the manual: plain loops, split loops, reordered loops, reordered halves."""
    graph = chain()
    z0, z1, z2, z3 = graph.axes
    assert ascend.are_neighbours([z0, z1, z2, z3], [z1, z2, z3])
    assert not ascend.are_neighbours([z0, z1, z2, z3], [z0, z2])
    assert ascend.are_neighbours([z0, z2, z1, z3], [z0, z2])
    outer1, inner1 = ascend.tile_split(graph, z1)
    outer2, inner2 = ascend.tile_split(graph, z2)
    assert ascend.are_neighbours([z0, outer1, inner1, outer2, inner2, z3], [inner1, outer2])
    moved = [z0, outer1, z2, inner1, z3]
    assert ascend.are_neighbours(moved, [z0, outer1])
    assert not ascend.are_neighbours(moved, [z2, inner1])
    assert not ascend.are_neighbours(moved, [inner1, z3])


def test_merge_of_contiguous_axes() -> None:
    graph = chain()
    merged = ascend.merge_axis(graph, graph.axes[1:3])
    assert merged.name == "z1z2" and merged.size == 56 and merged.type is AxisType.MERGED
    ascend.apply_merge(graph, merged)
    y = graph.find_node("abs_0").y
    assert names(y.axis) == ["z0", "z1z2", "z3"] and [str(s) for s in y.strides] == ["504", "9", "1"]


def test_transformations_that_are_not_legal() -> None:
    graph = chain()
    z0, z1, z2, z3 = graph.axes
    outer, inner = ascend.tile_split(graph, z1, 2)
    ascend.apply_split(graph, outer, inner)
    ascend.apply_reorder(graph, [z0, outer, z2, inner, z3])
    with refuses("ascend.merge_neighbours", error=AscendError):
        ascend.apply_sched_merge(graph, ascend.merge_axis(graph, [z2, inner]))
    with refuses("ascend.reorder_permutation", error=AscendError):
        ascend.apply_reorder(graph, [z0, outer])
    with refuses("ascend.axis_transformed_once", error=AscendError):
        ascend.tile_split(graph, z1)
    with refuses("ascend.split_pair", error=AscendError):
        ascend.apply_split(graph, outer, z3)
    with refuses("ascend.merge_count", error=AscendError):
        ascend.merge_axis(graph, [z0])
    ascend.block_split(graph, z0)
    with refuses("ascend.one_block_outer", error=AscendError):
        ascend.block_split(graph, z3)
    broadcast = softmax_like()
    merged = ascend.merge_axis(broadcast, broadcast.axes)
    with refuses("ascend.merge_contiguous", error=AscendError):
        ascend.apply_tensor_merge(broadcast, merged)


@pytest.mark.parametrize("make", [softmax_like, chain])
def test_text_is_read_back(make) -> None:
    graph = make()
    ascend.check_hint(graph)
    assert str(ascend.parse_graph(str(graph))) == str(graph)
    outer, inner = ascend.block_split(graph, graph.axes[0])
    ascend.apply_split(graph, outer, inner)
    text = str(graph)
    again = ascend.parse_graph(text)
    assert str(again) == text and str(again.copy()) == text
    assert again.find_axis("z0B").split_pair is again.find_axis("z0b")


def test_text_has_the_form_of_the_dump() -> None:
    text = str(softmax_like())
    assert "  s0: VAR\n" in text
    assert "  z1(1) : 100, ORIGINAL, align: -1, allow_oversize_axis: 0, allow_unaligned_tail: 1\n" in text
    assert (
        "  exp_0: Exp (6)\n    .axis = {z0, z1, }\n    .api:\n      .compute_type = elewise\n"
        "    .x = add_0.y\n    .y.dtype = float32\n    .y.axis = {z0, z1, }\n"
        "    .y.repeats = {s0, 100, }\n    .y.strides = {100, 1, }\n"
    ) in text


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        "Axis:\n  z0 is 4",
        "Axis:\n  z0(0) : 4, ODD, align: -1, allow_oversize_axis: 0, allow_unaligned_tail: 1",
        "Nodes:\n  .x = a.y\n",
    ],
)
def test_text_that_cannot_be_read(line: str) -> None:
    with refuses("ascend.text", error=AscendError):
        ascend.parse_graph("Graph: g\n" + line)


def test_broadcast_of_computed_values_is_refused() -> None:
    graph = AscGraph("late")
    z0, z1 = graph.create_axis("z0", 4), graph.create_axis("z1", 5)
    ops.Output(ops.Store(ops.Broadcast(ops.Abs(ops.Load(ops.Data(graph, "x", [z1]))), z0)))
    with pytest.raises(AscendError) as raised:
        ascend.check_hint(graph)
    assert raised.value.rule == "broadcast-after-load"


def test_concat_sizes_add_up() -> None:
    graph = AscGraph("cat")
    graph.create_axis("z0", 4)
    z1 = graph.create_axis("z1", 7)
    a = ops.Load(ops.Data(graph, "a", sizes=[4, 3]))
    b = ops.Load(ops.Data(graph, "b", sizes=[4, 5]))
    ops.Output(ops.Store(ops.Concat([a, b], z1)))
    with pytest.raises(AscendError) as raised:
        ascend.check_hint(graph)
    assert raised.value.rule == "concat-size"


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.create_size("s", 0),
        lambda g: g.create_axis("z0", 2),
        lambda g: g.find_node("none"),
        lambda g: g.add_node("Unknown"),
        lambda g: ops.Abs(3),
        lambda g: ops.Add(g.nodes[1].y),
        lambda g: g.find_axis("q"),
    ],
)
def test_calls_that_make_no_sense(call) -> None:
    with pytest.raises(AscendError):
        call(chain())


def test_axes_are_given_as_they_were_created_or_by_name() -> None:
    graph = AscGraph("rows")
    z0, z1 = graph.create_axis("z0", 4), graph.create_axis("z1", 6)
    x = ops.Load(ops.Data(graph, "x", ["z0", "z1"]))
    total = ops.Sum(x, "z1")
    assert [str(r) for r in total.repeats] == ["4", "1"] and total.repeats == ops.Sum(x, [z1]).repeats
    assert ops.Broadcast(total, "z1").repeats == x.repeats
    assert ascend.tile_split(graph, "z0")[0].from_ == (z0,)
    for wrong, said in (("z2", "ascend.axis_known"), (5, "ascend.axis_known"), ([z0, "zz"], "ascend.axis_known")):
        with refuses(said, error=AscendError):
            ops.Sum(x, wrong)
    named = AscGraph("named")
    named.create_axis("rows", 4), named.create_axis("columns", 6)
    for made, wrong, hint in (
        (named, "z0", "it has rows, columns"),
        (named, "row", "did you mean `rows`"),
        (AscGraph("none"), "row", "`create_axis` makes one"),
    ):
        with refuses("ascend.axis_known", error=AscendError) as raised:
            made.find_axis(wrong)
        assert (raised.value.hint or "").startswith(hint)
    with refuses("ascend.axis_known", error=AscendError, names="`z1`"):  # an axis of another graph
        ops.Sum(ops.Load(ops.Data(AscGraph("other"), "x")), z1)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda g: ops.Data(g, "x", dtype="float31"), "ascend.dtype"),
        (lambda g: ops.Cast(ops.Load(ops.Data(g, "x")), "half"), "ascend.dtype"),
        (lambda g: g.create_axis("z9", 2.5), "ascend.size"),
        (lambda g: ascend.apply_split(g, g.axes[0], 7), "ascend.split_pair"),
        (lambda g: ascend.apply_merge(g, g.axes), "ascend.merged_axis"),
    ],
)
def test_arguments_that_fit_nothing(call, code: str) -> None:
    graph = AscGraph("rows")
    graph.create_axis("z0", 4), graph.create_axis("z1", 6)
    with refuses(code, error=AscendError):
        call(graph)


def test_names_as_in_cpp_are_told_by_their_names_here() -> None:
    with pytest.raises(AttributeError, match="did you mean `create_axis`"):
        AscGraph("g").CreateAxis("z0", 4)
    with pytest.raises(AttributeError, match="did you mean `create_size`"):
        AscGraph("g").CreateSizeVar("s0")
    with pytest.raises(AttributeError, match="did you mean `Relu`"):
        _ = ops.Relu6
    assert not hasattr(AscGraph("g"), "nothing_like_it")


def test_output_names_resolve_or_are_refused() -> None:
    """The first name is that of the output that is there, unless that has a name or axes; a type of one output takes none."""
    made = graph(4)
    parts = made.add_node("Split", [ops.Data(made, "x")])
    first = parts.y
    assert parts.output("a") is first and first.name == "a" and parts.output("a") is first
    second = parts.output("b")
    assert second is not first and parts.outputs == [first, second] and parts.output("b") is second
    known = made.add_node("Split", [ops.Data(made, "z")])
    known.y.axis = made.axes[:1]
    assert (
        known.output("a") is not known.y
        and [y.name for y in known.outputs] == ["y", "a"]
        and known.output("y") is known.y
    )
    alone = made.add_node("Abs", [ops.Data(made, "w")])
    assert alone.output("y") is alone.y
    with pytest.raises(ascend.AscendError):
        alone.output("a")


def graph(*sizes: int | str) -> AscGraph:
    made = AscGraph("g")
    for n, size in enumerate(sizes):
        made.create_axis(f"z{n}", made.create_size(size) if isinstance(size, str) else size)
    return made
