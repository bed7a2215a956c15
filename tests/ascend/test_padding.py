"""Rows of the innermost axis in local memory, each padded to whole blocks of 32 bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ascend_graphs import softmax

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscGraph, ops
from tvmagic.ascend.lower import lower_graphs


def impls(graph: AscGraph) -> list[ascend.ImplGraph]:
    return ascend.auto_schedule(graph)[0].groups[0].impls


@pytest.mark.parametrize(
    ("columns", "dtype", "row"),
    [(301, "float32", "304"), (301, "float16", "304"), (12, "float16", "16"), (None, "float32", "Align(s1, 8)")],
)
def test_a_template_of_several_rows_has_one_with_padded_rows_beside_it(
    columns: int | None, dtype: str, row: str
) -> None:
    dense, padded = impls(softmax(40_000, columns, dtype))
    assert (dense.rows, padded.rows, padded.case) == ("unaligned", "padded", f"{dense.case}_padded")
    whole = {y.name: list(map(str, y.vectorized_strides)) for y in [padded.graph.find_node("exp_0").y]}
    assert whole == {"y": [row, "1"]}
    assert [str(s) for s in padded.graph.find_node("max_0").y.vectorized_strides] == ["1", "0"]
    assert str(dense.graph.find_node("exp_0").y.vectorized_strides[0]) == (str(columns) if columns else "s1")
    for generation in (1, 2):
        text = ascend.graph_text(padded.graph, generation)
        assert ascend.graph_text(ascend.parse_graph(text), generation) == text


@pytest.mark.parametrize(("columns", "dtype"), [(304, "float32"), (16, "float16")])
def test_rows_of_whole_blocks_need_no_padding(columns: int, dtype: str) -> None:
    assert [impl.rows for impl in impls(softmax(40_000, columns, dtype))] == ["dense"]


def test_one_row_needs_no_padding() -> None:
    graph = AscGraph("chain")
    graph.create_axis("z0", 1001)
    ops.Output(ops.Store(ops.Abs(ops.Load(ops.Data(graph, "x")))), "y")
    assert [impl.rows for impl in impls(graph)] == ["dense"]


def test_padded_rows_compute_the_same() -> None:
    graph = softmax(37, None)
    x = np.random.default_rng(0).standard_normal((37, 13)).astype("float32")
    (want,) = ascend.evaluate(graph, [x])
    padded = impls(graph)[1].graph
    for read in (padded, ascend.parse_graph(str(padded))):
        for in_place in (False, True):
            out = np.zeros_like(x)
            func = lower_graphs(graph, [read], [{"z0t_size": 5, "z0Tb_size": 2}], in_place=in_place)
            tvmagic.build(func)(x, out)
            np.testing.assert_allclose(out, want, rtol=1e-5)


def test_tiling_for_an_npu_chooses_between_them_and_for_this_machine_pads_nothing() -> None:
    results = ascend.auto_schedule(softmax(40_000, 17))[:1]
    assert ascend.auto_tiling(results, machine="atlas_a2").choices[0].impl.rows == "padded"
    considered = ascend.auto_tiling(results).considered
    assert considered and all(choice.impl.rows != "padded" for _, choice in considered)
    # rows of 31 floats and an outer axis along which one input is repeated: a call takes all rows if they are dense
    graph = AscGraph("rows")
    z0 = graph.create_axis("z0", 100_000)
    z1 = graph.create_axis("z1", 3)
    b = ops.Broadcast(ops.Load(ops.Data(graph, "b", [z1])), z0)
    ops.Output(ops.Store(ops.Exp(ops.Add(ops.Load(ops.Data(graph, "x")), b))), "out")
    rows = {c.impl.rows for _, c in ascend.auto_tiling(ascend.auto_schedule(graph), machine="atlas_a2").considered}
    assert {"padded", "unaligned"} <= rows


def test_the_kernels_text_names_both_and_moves_row_by_row() -> None:
    text = ascend.auto_tiling(ascend.auto_schedule(softmax(40_000, 17))[:1], machine="atlas_a2").ascend_c()
    names = re.findall(r"^inline __aicore__ void (\w+)\(", text, re.M)
    assert names == ["softmax_0_general_0_nil_0_nil_unaligned", "softmax_0_general_1_nil_0_nil"]
    dense, padded = text.split("softmax_0_general_1_nil_0_nil(GM_ADDR")[:2]
    assert ", 1, z0t_actual_size * z1_axis_size, 0, 0);" in dense
    assert ", z0t_actual_size, z1_axis_size, 17 - z1_axis_size, 24 - z1_axis_size);" in padded
    assert re.search(r"ReduceMax\(local_\d+\[0\], local_\d+\[0\], z0t_actual_size, z1_axis_size, 24\);", padded)
