"""Every rule of graphs: what breaks it just so, with the sentence that is said, and what just keeps it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from rule_graphs import chain, every_kind, random_change

from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, AscNode, AscTensor, AxisType, Size, ops
from tvmagic.ascend.broadcast_sinking import sink_broadcasts
from tvmagic.ascend.verifier import (
    axis_of,
    calls_axes,
    domain_of,
    held_axes,
    moved_parts,
    reduced_axes,
    split_before,
    split_group,
)
from tvmagic.errors import DefectError, TVMagicError
from tvmagic.ir import BufferLoad
from tvmagic.ir.query import nodes_of

Change = Callable[[AscGraph, Callable[[str], AscNode]], Any]


def sizes(y: AscTensor, *numbers: int) -> None:
    y.repeats = [Size.of(n) for n in numbers]
    y.strides = ascend.graph.dense_strides(y.repeats)


def summed(graph: AscGraph, cast: AscNode, total: AscNode) -> None:
    """Let a sum be one of integers, whose result is still a float."""
    cast.inputs, total.inputs = total.inputs, [cast.y]
    graph.nodes.remove(cast)
    graph.nodes.insert(graph.nodes.index(total), cast)


def test_the_graph_keeps_all_rules() -> None:
    graph = every_kind()
    ascend.check_hint(graph)
    ascend.check_graph(graph)


CHANGES: list[tuple[Change, str, str]] = [
    (
        lambda g, n: n("add").inputs.reverse() or g.nodes.remove(n("br")),
        "acyclic",
        "`add`",
    ),
    (
        lambda g, n: setattr(n("add"), "inputs", [n("lx").y, AscTensor(n("lr"))]),
        "output-known",
        "`add`",
    ),
    (lambda g, n: n("add").inputs.append(n("lx").y), "input-count", "`add: Add`"),
    (lambda g, n: n("cat").inputs.clear(), "input-count", "`cat: Concat`"),
    (lambda g, n: n("o0").inputs.clear(), "input-count", "`o0: Output`"),
    (lambda g, n: n("x").inputs.append(n("x").y), "acyclic", "`x`"),
    (lambda g, n: setattr(n("t"), "inputs", [n("lx").y]), "input-count", "`t: Data`"),
    (lambda g, n: n("add").y.axis.append(g.axes[0]), "axis-once", "`add`"),
    (lambda g, n: n("add").y.vectorized_axis.extend(g.axes[:1] * 2), "axis-once", "`add`"),
    (
        lambda g, n: setattr(n("add").sched, "loop_axis", AscGraph("o").create_axis("q", 2)),
        "loop-axis",
        "`add`",
    ),
    (
        lambda g, n: n("add").y.vectorized_axis.append(g.axes[0]),
        "tensor-rank",
        "`add.y`",
    ),
    (lambda g, n: n("add").y.strides.pop(), "tensor-rank", "`add.y`"),
    (lambda g, n: n("add").y.repeats.pop(), "tensor-rank", "`add.y`"),
    (lambda g, n: setattr(n("add").y, "dtype", "float33"), "dtype", "`add.y`"),
    (
        lambda g, n: (
            n("add").y.vectorized_strides.append(Size.of("far")) or n("add").y.vectorized_axis.append(g.axes[0])
        ),
        "size-known",
        "`add`",
    ),
    (
        lambda g, n: n("lx").attrs.update(offset=Size.of("far")),
        "size-known",
        "`lx`",
    ),
    (lambda g, n: setattr(g.axes[0], "size", Size.of("far")), "size-known", "`x`"),
    (
        lambda g, n: n("x").y.strides.__setitem__(0, Size.of(-6)),
        "strides",
        "`x.y`",
    ),
    (
        lambda g, n: n("x").y.strides.__setitem__(0, Size.of(0)),
        "strides",
        "`x.y`",
    ),
    (
        lambda g, n: n("r").y.strides.__setitem__(0, Size.of(6)),
        "strides",
        "`r.y`",
    ),
    (
        lambda g, n: n("add").y.strides.__setitem__(0, Size.of(7)),
        "strides",
        "`add.y`",
    ),
    (
        lambda g, n: n("x").attrs.update(index=1),
        "index",
        "`Data`",
    ),
    (
        lambda g, n: n("o5").attrs.pop("index"),
        "index",
        "`Output`",
    ),
    (lambda g, n: sizes(n("add").y, 4, 5, 1), "edge-repeats", "`lx.y`"),
    (
        lambda g, n: setattr(n("lx").y, "axis", [g.axes[1], g.axes[0], g.axes[2]]),
        "edge-axis",
        "`x.y`",
    ),
    (lambda g, n: sizes(n("lx").y, 5, 6, 1), "edge-repeats", "`x.y`"),
    (lambda g, n: setattr(n("x").y, "dtype", "float16"), "edge-dtype", "`lx`"),
    (lambda g, n: setattr(n("lr").y, "dtype", "float16"), "edge-dtype", "`lr`"),
    (lambda g, n: setattr(n("lx"), "inputs", [n("lx").y]), "acyclic", "`lx`"),
    (
        lambda g, n: setattr(n("cast"), "inputs", [n("x").y]),
        "compute-on-local",
        "`cast`",
    ),
    (lambda g, n: setattr(n("s1"), "inputs", [n("x").y]), "edge-axis", ""),
    (
        lambda g, n: setattr(n("s2"), "inputs", [n("x").y]),
        "store-from-local",
        "`s2`",
    ),
    (lambda g, n: setattr(n("o2"), "inputs", [n("get").y]), "output-from-store", "`o2`"),
    (lambda g, n: setattr(n("lt").y, "dtype", "float32"), "edge-dtype", "`lt`"),
    (lambda g, n: setattr(n("add").y, "dtype", "float16"), "edge-dtype", "`add`"),
    (
        lambda g, n: setattr(n("where"), "inputs", [n("sub").y, n("sub").y, n("lx").y]),
        "edge-dtype",
        "`where`",
    ),
    (
        lambda g, n: setattr(n("where"), "inputs", [n("lt").y, n("sub").y, n("lt").y]),
        "edge-dtype",
        "`where`",
    ),
    (lambda g, n: sizes(n("br").y, 4, 1, 1), "broadcast-one-axis", "`br`"),
    (lambda g, n: sizes(n("br").y, 1, 6, 1), "broadcast-one-axis", "`br`"),
    (
        lambda g, n: sizes(n("lr").y, 2, 6, 1) or sizes(n("r").y, 2, 6, 1),
        "broadcast-one-axis",
        "`br`",
    ),
    (lambda g, n: setattr(n("br").y, "dtype", "float16"), "edge-dtype", "`br`"),
    (lambda g, n: setattr(n("bs"), "inputs", [n("s0").y]), "acyclic", ""),
    (lambda g, n: summed(g, n("cast"), n("sum")), "edge-dtype", "`sum`"),
    (
        lambda g, n: setattr(n("sum").y, "axis", n("sum").y.axis[::-1]),
        "reduce-keeps-dimension",
        "`sum`",
    ),
    (
        lambda g, n: sizes(n("sum").y, 4, 6, 1),
        "reduce-keeps-dimension",
        "`sum`",
    ),
    (lambda g, n: sizes(n("sum").y, 3, 1, 1), "edge-repeats", "`add.y`"),
    (
        lambda g, n: setattr(n("turn").y, "axis", [g.axes[1], g.axes[0], g.axes[0]]),
        "axis-once",
        "`turn`",
    ),
    (
        lambda g, n: sizes(n("turn").y, 4, 6, 1),
        "edge-repeats",
        "`where.y`",
    ),
    (
        lambda g, n: setattr(n("turn").y, "dtype", "float16"),
        "edge-dtype",
        "`turn`",
    ),
    (
        lambda g, n: setattr(n("get"), "inputs", [n("lx").y, n("li").y]),
        "gather-from-global",
        "`get`",
    ),
    (
        lambda g, n: setattr(n("get"), "inputs", [n("t").y, n("i").y]),
        "compute-on-local",
        "`get`",
    ),
    (
        lambda g, n: setattr(n("li").y, "dtype", "float32") or setattr(n("i").y, "dtype", "float32"),
        "gather-indices",
        "`get`",
    ),
    (lambda g, n: setattr(n("get").y, "dtype", "float16"), "edge-dtype", "`get`"),
    (lambda g, n: sizes(n("get").y, 4, 5, 1), "edge-repeats", "`get`"),
    (lambda g, n: sizes(n("get").y, 3, 6, 1), "edge-repeats", "`li.y`"),
    (lambda g, n: n("get").attrs.update(axis=3), "node-axis", "`get`"),
    (lambda g, n: n("get").attrs.update(axis=-1), "node-axis", "`get`"),
    (
        lambda g, n: setattr(n("cat"), "inputs", [n("lx").y, n("lx").y]),
        "concat-size",
        "`cat`",
    ),
    (
        lambda g, n: sizes(n("cat").y, 4, 5, 1),
        "concat-size",
        "`cat`",
    ),
    (
        lambda g, n: setattr(n("l2").y, "dtype", "float16") or setattr(n("p2").y, "dtype", "float16"),
        "edge-dtype",
        "`cat`",
    ),
    (
        lambda g, n: sizes(n("l4").y, 3, 4, 1) or sizes(n("p4").y, 3, 4, 1),
        "edge-repeats",
        "`l4.y`",
    ),
    (
        lambda g, n: sizes(n("cut").outputs[1], 4, 3, 1),
        "split-size",
        "`cut`",
    ),
    (
        lambda g, n: sizes(n("cut").outputs[1], 3, 4, 1),
        "edge-repeats",
        "`cat.y`",
    ),
    (
        lambda g, n: setattr(n("cut").outputs[1], "dtype", "float16"),
        "edge-dtype",
        "`cut`",
    ),
    (
        lambda g, n: n("x").attrs.update() or n("lx").attrs.update(offset=1),
        "offset-inside",
        "`lx`",
    ),
    (lambda g, n: n("lx").attrs.update(offset=-1), "offset-inside", "`lx`"),
    (
        lambda g, n: n("s0").attrs.update(offset=1),
        "offset-inside",
        "`s0`",
    ),
    (
        lambda g, n: n("add").sched.axis.reverse(),
        "same-sched-axis",
        "`add`",
    ),
    (lambda g, n: setattr(n("bs"), "inputs", [n("add").y]), "broadcast-one-axis", "`bs`"),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_what_breaks_a_rule(number: int) -> None:
    change, rule, name = CHANGES[number]
    graph = every_kind()
    change(graph, graph.find_node)
    with pytest.raises(AscendError) as raised:
        ascend.check_hint(graph)
    assert raised.value.rule == rule and name in raised.value.message, raised.value.message


KEPT: list[Change] = [
    lambda g, n: sizes(n("x").y, 5, 6, 1),  # a part of it is loaded
    lambda g, n: sizes(n("x").y, 5, 6, 1) or n("lx").attrs.update(offset=6),  # and ends where it ends
    lambda g, n: sizes(n("o0").y, 6, 6, 1) or n("s0").attrs.update(offset=12),
    lambda g, n: setattr(n("x").y, "strides", [Size.of(12), Size.of(2), Size.of(0)]),  # with gaps in global memory
    lambda g, n: setattr(n("lt").y, "dtype", "bool"),
    lambda g, n: n("get").attrs.update(axis=0),
    lambda g, n: setattr(n("cat"), "inputs", [n("lx").y]),  # a concat of one input
    lambda g, n: setattr(n("li").y, "dtype", "uint8") or setattr(n("i").y, "dtype", "uint8"),
    lambda g, n: setattr(
        n("x").y, "strides", [Size.of(6), Size.of(1), Size.of(1)]
    ),  # of an axis of one element any stride
]


@pytest.mark.parametrize("number", range(len(KEPT)))
def test_what_just_keeps_the_rules(number: int) -> None:
    graph = every_kind()
    KEPT[number](graph, graph.find_node)
    ascend.check_hint(graph)


def test_hints_say_what_would_work() -> None:
    for change, hint in (
        (lambda g, n: n("sub").y.axis.reverse(), None),
        (
            lambda g, n: setattr(n("sub").y, "axis", [g.axes[1], g.axes[0], g.axes[2]]),
            "another order of axes in memory takes a Transpose node",
        ),
        (
            lambda g, n: (
                setattr(n("lr").y, "dtype", "float16")
                or setattr(n("r").y, "dtype", "float16")
                or setattr(n("br").y, "dtype", "float16")
            ),
            'cast one of them, as in `ops.Cast(br, "float32")`',
        ),
        (lambda g, n: setattr(n("add"), "inputs", [n("lx").y, n("r").y]), "load it first: `ops.Load(r)`"),
    ):
        graph = every_kind()
        change(graph, graph.find_node)
        with pytest.raises(AscendError) as raised:
            ascend.check_hint(graph)
        assert hint is None or raised.value.hint == hint


def test_what_nodes_do_along_their_axes() -> None:
    graph = every_kind()
    z0, z1, z2 = graph.axes
    node = graph.find_node
    assert axis_of(node("cat")) is z1 and axis_of(node("cut")) is z1 and axis_of(node("get")) is z0
    assert reduced_axes(node("sum")) == [z1] and domain_of(node("sum")) is node("add").y
    assert domain_of(node("s0")) is node("cast").y and domain_of(node("add")) is node("add").y
    assert calls_axes(node("add")) == [z0, z1, z2] and held_axes(node("add"), node("lr").y) == [z1]
    node("add").sched.loop_axis = z0
    assert calls_axes(node("add")) == [z1, z2] and held_axes(node("add"), node("add").y) == [z1]
    node("add").sched.loop_axis = z2
    assert calls_axes(node("add")) == []
    assert split_group(node("cut")) == [node("cut")] and split_before(node("cut")) == 0


def test_splits_that_belong_together() -> None:
    graph = AscGraph("cuts")
    z1 = [graph.create_axis("z0", 2), graph.create_axis("z1", 9)][1]
    x = ops.Abs(ops.Load(ops.Data(graph, "x")))
    parts = []
    for index, gid, size in ((1, 0, 4), (0, 0, 5), (0, 1, 9)):
        (y,) = ops.Split(x, z1, [size])
        y.node.attrs.update(index=index, gid=gid)
        parts.append(y.node)
    second, first, other = parts
    assert split_group(second) == split_group(first) == [first, second] and split_group(other) == [other]
    assert (split_before(first), split_before(second), split_before(other)) == (0, 5, 0)
    assert axis_of(second) is z1


def test_a_graph_without_axes_or_outputs() -> None:
    with pytest.raises(AscendError, match="`none`"):
        ascend.check_hint(AscGraph("none"))
    graph = AscGraph("open")
    graph.create_axis("z0", 4)
    ops.Store(ops.Load(ops.Data(graph, "x")))
    with pytest.raises(AscendError, match="`open`"):
        ascend.check_hint(graph)
    with refuses("ascend.graph", error=AscendError):
        ascend.check_hint("graph")  # type: ignore[arg-type]


def tiled() -> tuple[AscGraph, Callable[[str], AscNode]]:
    graph = ascend.auto_schedule(chain())[0].groups[0].impls[0].graph
    ascend.check_impl(graph)
    return graph, graph.find_node


def test_rules_of_what_is_scheduled() -> None:
    graph, node = tiled()
    outer = next(a for a in graph.axes if a.bind_block)
    node("abs_0").sched.axis = [*node("abs_0").sched.axis[1:], outer]
    with refuses("ascend.block_outermost", error=AscendError, names="`abs_0`"):
        ascend.check_impl(graph)
    graph, node = tiled()
    node("abs_0").y.vectorized_axis, node("abs_0").y.vectorized_strides = [], []
    with refuses("ascend.vectorized_axis", error=AscendError, names="`abs_0.y`.*`z0z1t`"):
        ascend.check_impl(graph)
    graph, node = tiled()
    graph.axes[0].type = AxisType.BLOCK_OUT
    with refuses("ascend.split_pair", error=AscendError):
        ascend.check_impl(graph)
    for change, said in (
        (lambda a: setattr(a, "split_pair", None), "ascend.split_pair"),
        (lambda a: setattr(a, "from_", ()), "ascend.split_pair"),
        (
            lambda a: setattr(a, "from_", (AscGraph("o").create_axis("q", 2),)),
            "ascend.axis_known",
        ),
    ):
        graph, node = tiled()
        change(next(a for a in graph.axes if a.is_inner))
        with refuses(said, error=AscendError):
            ascend.check_impl(graph)


def test_parts_that_are_moved() -> None:
    graph = AscGraph("parts")
    axes = [graph.create_axis("z0", 4), graph.create_axis("z1", 6)]
    x = ops.Data(graph, "x", sizes=[8, 6])
    ops.Load(x), ops.Load(x, offset=6), ops.Load(x, sizes=[4, 6]), ops.Load(x, offset=7, sizes=[2, 3])
    sizes(ops.Nddma(x), 4, 6), sizes(ops.Nddma(x, offset=3), 4, 6)
    ops.Output(ops.Store(ops.Load(x), offset=5), "y", sizes=[9, 6])
    found = [(node.name, str(offset), part, whole) for node, _, offset, part, whole in moved_parts(graph)]
    assert found == [
        ("load_1", "6", 48, 48),
        ("load_2", "0", 24, 48),
        ("load_3", "7", 9, 48),
        ("nddma_1", "3", 24, 48),
        ("store_0", "5", 48, 54),
    ]
    assert axes[0].size == 4


def test_kinds_of_dtypes() -> None:
    graph = AscGraph("kinds")
    graph.create_axis("z0", 4)
    half = ops.Load(ops.Data(graph, "x", dtype="bfloat16"))
    ops.Output(ops.Store(ops.Exp(half)), "y")
    ascend.check_hint(graph)
    ops.Output(ops.Store(ops.BitwiseNot(half)), "z")
    with refuses("ascend.op_dtype", error=AscendError, names="`load_0.y`.*`bfloat16`"):
        ascend.check_hint(graph)


@pytest.mark.parametrize(
    ("places", "refused"), [([0], False), ([1], False), ([0, 1], True), ([0, 1, 2], True), ([1, 2], False)]
)
def test_an_argmax_reduces_one_axis(places: list[int], refused: bool) -> None:
    """An axis of one element does not count."""
    graph = AscGraph("greatest")
    axes = [graph.create_axis(name, size) for name, size in (("z0", 4), ("z1", 6), ("z2", 1))]
    y = ops.ArgMax(ops.Load(ops.Data(graph, "x")), [axes[p] for p in places])
    ops.Output(ops.Store(y), "y")
    if not refused:
        ascend.check_hint(graph)
        return
    with refuses("ascend.argmax_one_axis", error=AscendError):
        ascend.check_hint(graph)


def test_the_block_outer_axis_is_outermost() -> None:
    graph, node = tiled()
    first, second, *rest = node("abs_0").sched.axis
    assert first.bind_block
    node("abs_0").sched.axis = [second, first, *rest]
    with refuses("ascend.block_outermost", error=AscendError):
        ascend.check_impl(graph)
    graph, node = tiled()
    outer = next(a for a in graph.axes if a.bind_block)
    graph.axes.append(ascend.Axis(99, "q", Size.of(2), AxisType.BLOCK_OUT, outer.from_, outer.split_pair))
    with refuses("ascend.one_block_outer", error=AscendError):
        ascend.check_graph(graph)


def test_a_concat_of_one_input_goes_along_the_first_axis() -> None:
    graph = every_kind()
    graph.find_node("cat").inputs = [graph.find_node("lx").y]
    assert axis_of(graph.find_node("cat")) is graph.axes[0]


@pytest.mark.parametrize(
    ("strides", "span"), [([20, 3], 76), ([6, 1], 24), ([1, 4], 24), ([7, 1], 27), ([100, 10], 351)]
)
def test_an_array_with_gaps_takes_as_much_memory_as_from_its_first_to_its_last_element(
    strides: list[int], span: int
) -> None:
    graph = AscGraph("gaps")
    graph.create_axis("z0", 4), graph.create_axis("z1", 6)
    ops.Output(ops.Store(ops.Abs(ops.Load(ops.Data(graph, "x", strides=strides)))), "y")
    loads = nodes_of(ascend.lower_graph(graph).body, BufferLoad)
    assert {str(load.buffer.shape) for load in loads if load.buffer.name == "x_flat"} == {f"({span},)"}
    x = np.arange(span, dtype="float32")
    (found,) = ascend.evaluate(graph, [np.lib.stride_tricks.as_strided(-x, (4, 6), [4 * s for s in strides])])
    assert [found[0, 0], found[3, 5]] == [0, span - 1]


@pytest.mark.parametrize(("columns", "kept"), [(6, False), (1, True)])
def test_indices_are_repeated_only_along_axes_that_the_table_lacks(columns: int, kept: bool) -> None:
    graph = AscGraph("table")
    z0, z1 = graph.create_axis("z0", 4), graph.create_axis("z1", 6)
    at = ops.Broadcast(ops.Load(ops.Data(graph, "at", [z0], dtype="int32")), z1)
    y = ops.Gather(ops.Data(graph, "t", sizes=[9, columns]), at, z0)
    ops.Output(ops.Store(ops.Exp(y)), "y")
    ascend.check_hint(graph)
    sunk = sink_broadcasts(graph)
    gather = sunk.of_type("Gather")[0]
    assert (gather.inputs[1].node.type == "Broadcast") is kept


@pytest.mark.parametrize("make", [every_kind, chain])
@pytest.mark.parametrize("seed", range(4))
def test_changed_graph_is_refused_or_reads_back(make: Callable[[], AscGraph], seed: int) -> None:
    """A graph that the rules accept is written and read without a loss; any other is refused with a reason."""
    rng, accepted = random.Random(seed), 0
    for _ in range(20):
        changed = make().copy()
        random_change(changed, rng)
        try:
            ascend.check_hint(changed)
        except DefectError:
            raise
        except TVMagicError as error:
            assert error.message
            continue
        accepted += 1
        again = ascend.parse_graph(ascend.graph_text(changed, changed.generation))
        text = ascend.graph_text(again, changed.generation)  # which names compute types and units that were implied
        assert ascend.graph_text(ascend.parse_graph(text), changed.generation) == text
        assert [(n.name, n.type) for n in again.nodes] == [(n.name, n.type) for n in changed.nodes]
    assert accepted < 20
