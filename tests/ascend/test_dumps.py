"""Dumps of both generations: read, printed as they were, and computed from."""

from __future__ import annotations

import contextlib
import pathlib
import random
import re

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, AxisType, GraphType, ops
from tvmagic.ascend.lower import lower_graphs
from tvmagic.errors import TVMagicError

# Dumps as documents and tools print them, one of each generation. The first has comments, dots, facts in another order,
# and lines of older dumps.
DUMPS = pathlib.Path(__file__).parent / "dumps"
GUIDE, SHORT = ((DUMPS / name).read_text(encoding="utf-8") for name in ("guide.txt", "short.txt"))


def test_a_dump_of_a_document_is_read_and_printed_to_the_letter() -> None:
    graph = ascend.parse_graph(GUIDE)
    assert str(graph) == GUIDE and str(graph.copy()) == GUIDE
    assert graph.type is GraphType.IMPL and graph.sizes == {
        "s0": None,
        "s1": 100,
        "z0z1t_size": None,
        "z0z1Tb_size": None,
    }
    load = graph.find_node("relu_test/load_0")
    assert load.y.mem.position == "VECIN" and (load.y.que.id, load.y.que.buf_num, load.y.mem.reuse_id) == (0, 2, 0)
    assert load.api.unit == "MTE2" and load.sched.exec_condition == "no_cache"
    assert graph.find_axis("z0z1T").split_pair is graph.find_axis("z0z1t")
    assert graph.find_axis("z0z1TB").bind_block and graph.find_axis("z0z1TB").split_pair is graph.find_axis("z0z1Tb")
    assert [a.name for a in graph.find_axis("z0z1").from_] == ["z0", "z1"]
    assert graph.find_axis("z0z1").type is AxisType.ORIGINAL
    ascend.check_impl(graph)


def test_a_dump_of_a_document_computes() -> None:
    graph = ascend.parse_graph(GUIDE)
    x = np.random.default_rng(0).standard_normal((7, 100)).astype("float32")
    for tile, tiles in ((64, 3), (1000, 1), (700, 1)):
        out = np.full_like(x, 7)
        tvmagic.build(ascend.lower_graph(graph, {"z0z1t_size": tile, "z0z1Tb_size": tiles}))(x, out)
        np.testing.assert_array_equal(out, np.maximum(x, 0))


def test_what_is_changed_is_printed_again_and_the_rest_stays() -> None:
    graph = ascend.parse_graph(GUIDE)
    graph.find_node("relu_test/load_0").y.que.depth = 1
    graph.sizes["s1"] = 50
    was, now = GUIDE.splitlines(), str(graph).splitlines()
    gone = [line.strip() for line in was if line not in now]
    assert gone == [
        "s1: CONST(100)",
        ".exec_condition = no_cache",
        ".y.axis = {z0z1TB, z0z1Tb, z0z1t, }     // the loops, from outside",
        "......",
        "// what is computed",
    ]
    assert "  s1: CONST(50)" in now and "      .depth = 1" in now and "      .buf_ids = {}" in now


def test_lines_that_say_nothing_known_stay_with_their_node() -> None:
    text = GUIDE.replace("    .loop_axis = nil\n", "    .loop_axis = nil\n    .new_fact = {1, 2, }\n")
    graph = ascend.parse_graph(text)
    assert str(graph) == text
    graph.find_node("relu_test/x").y.mem.tensor_id = 7
    assert "    .new_fact = {1, 2, }\n" in str(graph)


def test_the_second_generation_is_read_printed_and_computed() -> None:
    graph = ascend.parse_graph(SHORT)
    assert graph.generation == 2 and str(graph) == SHORT
    # what is printed if nothing of the text is kept: the later name of one list is gone
    assert ascend.graph_text(graph, 2) == SHORT.replace("vectorized_strides", "vectorized")
    node = graph.find_node("brc/broadcast_0")
    assert [(b.id, str(b.size)) for b in node.tmp_buffers] == [(1, "8192")] and node.y.buf.id == 0
    assert graph.find_node("add_0").sched.exec_condition == "cache_block_split_origin_brc_axis"
    a = np.random.default_rng(0).standard_normal((13, 32)).astype("float32")
    b, c = a[:1] * 2, np.zeros_like(a)
    tvmagic.build(ascend.lower_graph(graph, {"z0t_size": 4}))(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    first = ascend.graph_text(graph, 1)
    assert ascend.graph_text(ascend.parse_graph(first), 2) == ascend.graph_text(graph, 2)


def elementwise() -> AscGraph:
    graph = AscGraph("elementwise")
    graph.create_axis("z0", graph.create_size("s0")), graph.create_axis("z1", 33)
    x, y = ops.Load(ops.Data(graph, "fused/x")), ops.Load(ops.Data(graph, "fused/y"))
    ops.Output(ops.Store(ops.Exp(ops.Sub(x, y), name="fused/exp")), "out")
    return graph


def softmax() -> AscGraph:
    graph = AscGraph("softmax")
    z0, z1 = graph.create_axis("z0", graph.create_size("s0")), graph.create_axis("z1", 33)
    x = ops.Load(ops.Data(graph, "x"))
    b = ops.Broadcast(ops.Load(ops.Data(graph, "b", [z1])), z0)
    e = ops.Exp(ops.Sub(ops.Add(x, b), ops.Broadcast(ops.Max(x, z1), z1)))
    ops.Output(ops.Store(ops.Div(e, ops.Broadcast(ops.Sum(e, z1), z1))), "out")
    return graph


def concat() -> AscGraph:
    graph = AscGraph("concat")
    z0, z1 = graph.create_axis("z0", graph.create_size("s0")), graph.create_axis("z1", 33)
    del z0
    half = ops.Load(ops.Data(graph, "a", sizes=[ascend.parse_size("s0"), 20]))
    rest = ops.Load(ops.Data(graph, "b", sizes=[ascend.parse_size("s0"), 13]))
    scaled = ops.LeakyRelu(half, negative_slope=0.5)
    ops.Output(ops.Store(ops.Concat([scaled, rest], z1)), "out")
    return graph


@pytest.mark.parametrize("make", [elementwise, softmax, concat])
def test_all_that_is_scheduled_is_read_back_and_computes_the_same(make) -> None:
    hint = make()
    inputs = [
        np.random.default_rng(i).standard_normal([s.evaluate({"s0": 9}) for s in n.array_shape()]).astype("float32")
        for i, n in enumerate(hint.of_type("Data"))
    ]
    (want,) = ascend.evaluate(hint, inputs)
    for generation in (1, 2):
        text = ascend.graph_text(hint, generation)
        again = ascend.parse_graph(text)
        assert str(again) == text and again.type is GraphType.HINT
        np.testing.assert_array_equal(ascend.evaluate(again, inputs)[0], want)
    for number, result in enumerate(ascend.auto_schedule(hint)):
        graphs, sizes = [], []
        for impl in (g.impls[-1] for g in result.groups):
            for generation in (1, 2):
                text = ascend.graph_text(impl.graph, generation)
                read = ascend.parse_graph(text)
                assert str(read) == text and ascend.graph_text(read, generation) == text
                ascend.check_impl(read)
                assert ascend.pseudo_code(read) == ascend.pseudo_code(impl.graph)
            graphs.append(read if number else ascend.parse_graph(str(impl.graph)))
            sizes.append(dict.fromkeys((*impl.tiles, *([impl.block] if impl.block else [])), 4))
        out = np.zeros_like(want)
        tvmagic.build(lower_graphs(hint, graphs, sizes))(*inputs, out)
        np.testing.assert_allclose(out, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("was", "now", "rule"),
    [
        ("Graph: relu_test\n", "%0 = ascir.Data()\n", "text"),
        ("  s0: VAR\n", "  s0: many\n", "text"),
        ("z0(0) : s0, ORIGINAL", "z0(0) : s0, ODD", "text"),
        ("z0(0) : s0, ORIGINAL", "z0(0) : ORIGINAL", "text"),
        ("z0(0) : s0,", "z0(0) : s0 +,", "text"),
        ("      .tensor_id = 2\n", "      .tensor_id = two\n", "text"),
        (".x = relu_test/x.y", ".x = relu_test/x.y1", "output-known"),
        ("relu_test/relu_0: Relu (2)", "relu_test/load_0: Relu (2)", "unique-name"),
        ("Nodes:\n", "Nodes:\n  .x = a.y\n", "text"),
        ("Nodes:\n", "Nodes:\nSizes:\n", "text"),
        ("    .loop_axis = nil\n", "    loop axis\n", "text"),
        ('expression: "0"', 'expression: "0 +"', "text"),
    ],
)
def test_texts_that_are_refused(was: str, now: str, rule: str) -> None:
    assert was in GUIDE
    with pytest.raises(AscendError) as raised:
        ascend.parse_graph(GUIDE.replace(was, now, 1))
    assert raised.value.rule == rule
    assert raised.value.line and raised.value.source_line in GUIDE.replace(was, now, 1).splitlines()
    assert "^" in str(raised.value) and (raised.value.hint or rule != "text")
    if now.startswith("%0"):
        assert "MLIR" in str(raised.value)
    text = SHORT.replace("UB[tensor_id=3", "UB(tensor_id=3")
    with pytest.raises(AscendError):
        ascend.parse_graph(text)


@pytest.mark.parametrize(
    ("was", "now", "rule"),
    [
        (".x = relu_test/x.y", ".x = relu_test/z.y", "acyclic"),
        (".loop_axis = z0z1Tb", ".loop_axis = z9", "loop-axis"),
        (".axis = {z0z1TB, z0z1Tb, z0z1t, }", ".axis = {z0z1TB, z0z1Tb, z9, }", "axis-known"),
        ("TILE_OUT, from: {z0z1, }", "TILE_OUT, from: {z9, }", "axis-known"),
        ("TILE_IN, from: {z0z1, }", "ORIGINAL", "split-pair"),
        (".y.repeats = {s0, s1, }", ".y.repeats = {s0, }", "tensor-rank"),
        (".loop_axis = z0z1Tb", ".loop_axis = z0", "loop-axis"),
    ],
)
def test_an_excerpt_is_read_and_printed_and_not_computed_with(was: str, now: str, rule: str) -> None:
    assert was in GUIDE
    text = GUIDE.replace(was, now, 1)
    graph = ascend.parse_graph(text)
    assert str(graph) == text and str(graph.copy()) == text and graph.describe()
    for call in (ascend.check_impl, ascend.lower_graph, ascend.pseudo_code, lambda g: ascend.evaluate(g, [])):
        with pytest.raises(AscendError) as raised:
            call(graph)
        assert raised.value.rule == rule


def test_the_excerpt_of_the_guide() -> None:
    """One node of several, of axes and nodes that the excerpt leaves out."""
    lines = GUIDE.splitlines(keepends=True)
    first, last = (next(i for i, line in enumerate(lines) if name in line) for name in ("load_0: Load", "......"))
    text = "".join([*lines[:7], lines[10], "  ......\n", "Nodes:\n", *lines[first : last + 1]])
    graph = ascend.parse_graph(text)
    assert str(graph) == text and [n.name for n in graph.nodes] == ["relu_test/load_0"]
    assert ".x = relu_test/x.y" in ascend.graph_text(graph, 1)


@pytest.mark.parametrize(
    "text", ["", "// nothing\n", "graph relu\n", '"ascir.graph"() ({', "#map = affine_map<(d0) -> (d0)>"]
)
def test_a_text_that_is_no_dump_is_refused(text: str) -> None:
    with pytest.raises(AscendError, match="`Graph: NAME`"):
        ascend.parse_graph(text)


def test_of_two_graphs_the_second_is_shown() -> None:
    with pytest.raises(AscendError) as raised:
        ascend.parse_graph(GUIDE + GUIDE)
    assert raised.value.line == len(GUIDE.splitlines()) + 1


def test_the_place_of_a_node_that_breaks_a_rule() -> None:
    graph = ascend.parse_graph(GUIDE.replace("relu_test/relu_0: Relu (2)", "relu_test/relu_0: Add (2)"))
    with refuses("ascend.input_count", error=AscendError) as raised:
        ascend.check_impl(graph)
    assert raised.value.source_line == "  relu_test/relu_0: Add (2)"
    assert raised.value.line == GUIDE.splitlines().index("  relu_test/relu_0: Relu (2)") + 1


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("\n", "\r\n"),
        ("    ", "\t"),
        ("    .api:\n", "    .api: \n"),
        ("z0(0) : s0", "z0(0): s0"),
        (".y.dtype = float32", ".y.dtype = DT_BF16"),
        ("    .ir_attr =  {    }", '    .ir_attr =  {.keep = b: true\n.axis = i: -1\n.note = s: "a//b {c}"\n    }'),
        ("relu_test/relu_0: Relu (2)", "relu_test/relu_0: FlashSoftmax (12)"),
        ("Nodes:\n", "\n\nNodes:   // in order\n"),
        ("      .alloc_type = Queue\n", "      ......\n"),
        ("    .y.vectorized_axis = {}\n    .y.vectorized_strides = {}\n", ""),
    ],
)
def test_variations_that_dumps_have_are_read_and_printed_as_they_were(was: str, now: str) -> None:
    assert was in GUIDE
    text = GUIDE.replace(was, now)
    graph = ascend.parse_graph(text)
    assert str(graph) == text and [n.name for n in graph.nodes] == [n.name for n in ascend.parse_graph(GUIDE).nodes]
    for generation in (1, 2):
        printed = ascend.graph_text(graph, generation)
        assert ascend.graph_text(ascend.parse_graph(printed), generation) == printed


def test_a_size_that_no_argument_has_is_given_as_a_number() -> None:
    text = (
        GUIDE.replace("s1: CONST(100)", "s1: VAR").replace("s1", "(2 * half)").replace("(2 * half): VAR", "half: VAR")
    )
    graph = ascend.parse_graph(text)
    sizes = {"z0z1t_size": 64, "z0z1Tb_size": 3}
    with refuses("ascend.size_known", error=AscendError):
        ascend.lower_graph(graph, sizes)
    x = np.random.default_rng(0).standard_normal((7, 26)).astype("float32")
    out = np.zeros_like(x)
    tvmagic.build(ascend.lower_graph(graph, {**sizes, "half": 13}))(x, out)
    np.testing.assert_array_equal(out, np.maximum(x, 0))


@pytest.mark.parametrize("seed", range(120))
def test_damaged_dumps_are_read_or_refused(seed: int) -> None:
    """Never another error than ours, from reading or from what is done with what was read."""
    rng = random.Random(seed)
    lines = rng.choice([GUIDE, SHORT]).splitlines(keepends=True)
    for _ in range(rng.randint(1, 3)):
        place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        line, cut = lines[place], rng.randrange(len(lines[place]))
        letter = rng.choice("{}(),.:=/ 0a-" + '"')
        changes = [
            [],
            [line, lines[other]],
            [line[:cut] + line[cut + 1 :]],
            [line[:cut] + letter + line[cut:]],
            [line[:cut] + "\n"],
        ]
        lines[place : place + 1] = rng.choice(changes)
    text = "".join(lines)
    try:
        graph = ascend.parse_graph(text)
    except AscendError:
        return
    assert str(graph) == text and str(graph.copy()) == text and graph.describe()
    for generation in (1, 2):
        ascend.graph_text(graph, generation)
    for call in (ascend.check_impl, ascend.lower_graph, ascend.pseudo_code):
        with contextlib.suppress(TVMagicError):
            call(graph)


def test_reading_takes_time_in_proportion(calls) -> None:
    def whole(length: int) -> None:
        graph = AscGraph("long")
        graph.create_axis("z0", 64)
        value = ops.Load(ops.Data(graph, "x"))
        for _ in range(length):
            value = ops.Abs(value)
        ops.Output(ops.Store(value), "out")
        str(ascend.parse_graph(str(graph)))

    whole(10)
    assert calls(lambda: whole(200)) < 4.6 * calls(lambda: whole(50))


def test_names_that_are_no_identifiers_are_kept_in_the_text_alone() -> None:
    text = str(ascend.lower_graph(ascend.parse_graph(str(elementwise()))))
    assert "fused_x" in text and not re.search(r"fused/", text)
