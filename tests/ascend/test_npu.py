"""Tiling for an NPU: what fits, how many cores work, the tiling data, and the same results here."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from ascend_graphs import softmax
from random_graphs import Maker
from refusals import refuses
from sampling import every

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import NPUS, AscendError, AscGraph, Npu, ops
from tvmagic.ascend.npu import local_sizes


def chain(*sizes: int, dtype: str = "float16") -> AscGraph:
    graph = AscGraph("chain")
    for number, size in enumerate(sizes):
        graph.create_axis(f"z{number}", size)
    ops.Output(ops.Store(ops.Abs(ops.Load(ops.Data(graph, "x", dtype=dtype)))), "y")
    return graph


def tiled(graph: AscGraph, machine: Npu | str = "atlas_a2") -> ascend.Tiling:
    return ascend.auto_tiling(ascend.auto_schedule(graph), machine=machine)


def test_the_machines() -> None:
    assert (NPUS["atlas_a2"].cores, NPUS["atlas_a2"].ub_size, NPUS["atlas_a2_40"].cores) == (48, 192 * 1024 - 256, 40)
    for name, hint in (("atlas_a3", "did you mean `atlas_a2`"), ("cuda", "one of atlas_a2, atlas_a2_40")):
        with refuses("ascend.machine.unknown") as raised:
            ascend.machine_of(name)
        assert (raised.value.hint or "").startswith(hint)
    with refuses("ascend.machine.not_a_machine"):
        ascend.machine_of(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("machine", ["atlas_a2", "atlas_a2_40"])
@pytest.mark.parametrize(
    "graph",
    [chain(4096, 4096), chain(40, 1000), chain(1000, 1001, dtype="float32"), softmax(4096, 1024), softmax(5000, 300)],
)
def test_large_data_keeps_all_cores_busy_and_fits(graph: AscGraph, machine: str) -> None:
    tiling = tiled(graph, machine)
    npu = NPUS[machine]
    for choice in tiling.choices:
        used = sum(size * count for size, count in local_sizes(choice.impl.graph, choice.sizes).values())
        assert used == choice.cost.local_bytes <= npu.ub_size
    data = tiling.tiling_data
    assert data["block_dim"] == npu.cores
    assert npu.name in tiling.report() and "assumed speeds" in tiling.report()


def test_tiles_of_large_data_fill_local_memory() -> None:
    assert tiled(chain(4096, 4096)).choices[0].cost.local_bytes > 0.9 * NPUS["atlas_a2"].ub_size


def test_a_tile_may_take_all_of_local_memory() -> None:
    full = tiled(chain(4096, 4096)).choices[0].cost.local_bytes
    machine = dataclasses.replace(NPUS["atlas_a2"], ub_size=full)
    assert tiled(chain(4096, 4096), machine).choices[0].cost.local_bytes == full
    assert tiled(chain(4096, 4096), dataclasses.replace(machine, ub_size=full - 1)).choices[0].cost.local_bytes < full


def test_little_data_takes_fewer_cores() -> None:
    assert tiled(chain(3, 5)).tiling_data["block_dim"] <= 15
    assert tiled(chain(1)).tiling_data["block_dim"] == 1


def test_rows_too_long_for_local_memory_are_looped_over() -> None:
    tiling = tiled(softmax(100, 100_000))
    assert tiling.result.template.reduction == "loop" and all(c.fits for c in tiling.choices)
    assert any("(too much)" in line for line in tiling.report().splitlines())
    with refuses("ascend.ub_size", error=AscendError, names="`chain`"):
        tiled(chain(4096), Npu("tiny", 4, 64))


def test_the_fields_of_the_tiling_data() -> None:
    tiling = tiled(chain(4096, 4096))
    data = tiling.tiling_data
    assert list(data) == [
        "block_dim",
        "corenum",
        "ub_size",
        "hbm_size",
        "tiling_key",
        "z0z1t_size",
        "z0z1Tb_size",
        "q0_size",
        "q1_size",
    ]
    sizes = tiling.choices[0].sizes
    assert data["z0z1t_size"] == sizes["z0z1t_size"] and data["q1_size"] == -(-2 * sizes["z0z1t_size"] // 32) * 32
    assert (data["corenum"], data["hbm_size"], data["ub_size"], data["tiling_key"]) == (0, 0, 196352, 0)
    text = data.text().splitlines()
    assert text[:2] == ["BEGIN_TILING_DATA_DEF_T(AutofuseTilingData)", "  const uint32_t block_dim = 48;"]
    assert text[-1] == "END_TILING_DATA_DEF_T;"
    assert "  TILING_DATA_FIELD_DEF_T(uint32_t, block_dim);\n" in data.fields()


def test_a_queue_of_half_precision() -> None:
    """17968 elements of float16 take 35936 bytes; two loads side by side twice as many."""
    graph = AscGraph("two")
    graph.create_axis("z0", 10**6)
    x, y = (ops.Load(ops.Data(graph, name, dtype="float16")) for name in "xy")
    ops.Output(ops.Store(ops.Add(x, y)), "z")
    made = ascend.auto_schedule(graph)[0].groups[0].impls[0].graph
    found = local_sizes(made, {"z0t_size": 17968, "z0Tb_size": 1})
    assert found == {"q0": (2 * 35936, 2), "q1": (35936, 2)}


def test_workspace_and_several_groups() -> None:
    tiling = tiled(softmax(100, 100_000))
    data = tiling.tiling_data
    assert (data["workspace0"], data["workspace1"]) == (0, 416)  # 100 floats, in whole blocks
    keys = [name for name in data if name.endswith("tiling_key")]
    assert keys == ["graph0_tiling_key", "graph1_tiling_key", "graph2_tiling_key"]
    assert [data[key] for key in keys] == list(tiling.tiling_key[1:])
    assert "graph0_z1t_size" in data and "graph2_q0_size" in data


def test_symbolic_sizes_are_fields() -> None:
    graph = AscGraph("symbolic")
    graph.create_axis("z0", graph.create_size("s0")), graph.create_axis("z1", 64)
    ops.Output(ops.Store(ops.Exp(ops.Load(ops.Data(graph, "x")))), "y")
    data = ascend.auto_tiling(ascend.auto_schedule(graph), {"s0": 5000}, "atlas_a2").tiling_data
    assert data["s0"] == 5000 and list(data).index("s0") == list(data).index("tiling_key") + 1


@pytest.mark.parametrize("seed", every(2, range(30)))
def test_random_graphs_fit(seed: int) -> None:
    maker = Maker(seed)
    graph = maker.build()
    known = {f"s{i}": n for i, n in enumerate(maker.lengths)} | {n: 9 for n in graph.sizes if n.startswith("t")}
    npu = Npu("small", random.Random(seed).choice([1, 7, 48]), 40_000)
    tiling = ascend.auto_tiling(ascend.auto_schedule(graph), known, npu)
    for choice in tiling.choices:
        assert choice.cost.local_bytes <= npu.ub_size
        sizes = {**known, **choice.sizes}
        outer = [a for a in choice.impl.graph.axes if a.bind_block]
        assert all(a.size.evaluate(sizes) <= npu.cores for a in outer)
    assert tiling.tiling_data["block_dim"] <= npu.cores


@pytest.mark.parametrize("make", [lambda: chain(37, 1001, dtype="float32"), lambda: softmax(37, 1003)])
def test_the_tiling_of_an_npu_computes_the_same_here(make) -> None:
    graph = make()
    x = np.random.default_rng(0).standard_normal([a.size.constant for a in graph.axes]).astype("float32")
    out = np.zeros_like(x)
    tvmagic.build(ascend.compile_graph(graph, machine=Npu("small", 5, 30_000)))(x, out)
    np.testing.assert_allclose(out, ascend.evaluate(graph, [x])[0], rtol=1e-5)
