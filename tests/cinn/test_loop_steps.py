"""Steps on loops: fusion, reordering, predicates and thread axes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from nests import block, guarded, left, nest, refused, results, schedule

from tvmagic.cinn import IRSchedule
from tvmagic.script import cinn_text, from_source
from tvmagic.tir.blocks.error import ScheduleError

ROW = np.arange(24, dtype="float32").reshape(4, 6)


COPY = nest("i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))


PREDICATES = """\
@T.prim_func
def main(A: T.Buffer((4, 6), 'float32'), Y: T.Buffer((4, 6), 'float32')):
    for i, j in T.grid(5, 7):
        with T.block('Y'):
            vi, vj = T.axis.remap('SS', [i, j])
            T.where({})
            Y[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_initial_values_keep_spatial_predicates() -> None:
    sums = PREDICATES.replace("'SS'", "'SR'").replace("Y: T.Buffer((4, 6)", "Y: T.Buffer((4,)")
    sums = sums.replace(
        "            Y[vi, vj] = A[vi, vj] + T.float32(1)",
        "            with T.init():\n                Y[vi] = T.float32(0)\n            Y[vi] = Y[vi] + A[vi, vj]",
    )
    func = from_source("from tvm.script import tir as T\n" + sums.format("i < 4 and j < 6 and i + j < 7"))
    text = cinn_text(func, regions=False)
    first, _, update = text.partition("ScheduleBlock(Y__reduce_init)")
    assert re.findall(r"if \((\(.*\))\) \{", first) == ["(i < 4)"]
    assert re.findall(r"if \((\(.*\))\) \{", update) == ["(i < 4)", "(j < 6)", "((i + j) < 7)"]
    triangle = np.where(np.add.outer(np.arange(4), np.arange(6)) < 7, ROW, 0).sum(1)
    np.testing.assert_array_equal(left(IRSchedule(func), A=ROW)["Y"], triangle)


@pytest.mark.parametrize(("kind", "fits"), [("serial", True), ("parallel", False), ("unroll", True)])
def test_fuse_refuses_parallel_loop_with_reduction(kind: str, fits: bool) -> None:
    """The sums along `j` go on in the fused loop, whose iterations then run at the same time, too."""
    made = schedule(nest(f"{kind}/i:4 j:6", block("S", "i, j", "S[i0] = (S[i0] + A[i0, i1])")), S=((4,), "float32"))
    if kind == "unroll" or fits:
        made.fuse("S", [0, 1])
        assert results(made, ROW, np.zeros(4, "float32"))[1].tolist() == ROW.sum(1).tolist()
    else:
        refused(
            made,
            lambda s: s.fuse("S", [0, 1]),
            "a loop that is fused with one whose iterations run at the same time runs its iterations at the same time",
        )
    free = schedule(COPY.replace("serial for (i", f"{kind} for (i"))
    free.fuse("Y", [0, 1])
    assert f"{kind} for (i_j_fused, 0, 24)" in free.text()


def test_reorder_refuses_dependent_conditions() -> None:
    inner = nest("j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))
    plain = schedule(nest("i:4", guarded("(i < 3)", inner)))
    plain.reorder("Y", [1, 0])
    assert [x.strip() for x in plain.text(regions=False).split("\n") if "for (" in x or "if (" in x] == [
        "serial for (j, 0, 6)",
        "serial for (i, 0, 4)",
        "if ((i < 3)) {",
    ]
    other = nest("j:6", block("Z", "i, j", "Z[i0, i1] = A[i0, i1]"))
    made = schedule(nest("i:4", guarded("(i < 3)", inner, other)))
    with pytest.raises(ScheduleError) as raised:
        made.reorder("Y", [1, 0])
    assert raised.value.names == ["loop `i`"]  # the outermost of them


@pytest.mark.parametrize("order", ["V", "W", "VWY", "YVW", "VYW", "Y"])
def test_reorder_keeps_order_of_adjacent_statements(order: str) -> None:
    """What is before the inner loop stays before it, what is after it after; each gets a nest of the loops around it."""
    each = {name: block(name, "i", f"{name}[i0] = (A[i0, 0] + {n}.0f)") for n, name in enumerate("VW")}
    each["Y"] = nest("j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 2.0f)"))
    order += "Y" * ("Y" not in order)
    made = schedule(nest("i:4", *[each[name] for name in order]))
    made.reorder("Y", [1, 0])
    text = made.text(regions=False)
    assert re.findall(r"ScheduleBlock\((\w)\)", text) == list(order)
    assert [made.loop_of(loop).loop_var.name for loop in made.get_loops("Y")] == ["j", "i"]
    found = left(made, A=ROW)
    for name in order:
        np.testing.assert_array_equal(found[name], ROW + 2 if name == "Y" else ROW[:, 0] + "VW".index(name))


def test_reader_in_other_loops_reads_tensor() -> None:
    made = schedule(
        nest(
            "i:4",
            nest("j:6", block("B", "i, j", "B[i0, i1] = (A[i0, i1] + 1.0f)")),
            nest("k:6", block("Z", "i, k", "Z[i0, i1] = (B[i0, i1] * 2.0f)")),
        ),
        nest("i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (B[i0, i1] * 3.0f)")),
    )
    made.cache_read("Z", 0, "local")
    text = made.text(regions=False)
    assert (
        "Z[i0, i1] = (B_local_temp_buffer[i0, i1] * 2.00000000f)" in text
        and "Y[i0, i1] = (B[i0, i1] * 3.00000000f)" in text
    )
    given = [np.zeros_like(ROW) for _ in made.func.params[1:]]
    found = dict(zip([made.func.buffer_map[p].name for p in made.func.params], results(made, ROW, *given)))
    np.testing.assert_array_equal(found["Z"], (ROW + 1) * 2)
    np.testing.assert_array_equal(found["Y"], (ROW + 1) * 3)


@pytest.mark.parametrize("first", ["own", "target"])
def test_unit_outer_loop_is_skipped(first: str) -> None:
    one, two = ("o:1 ", "") if first == "own" else ("", "o:1 ")
    made = schedule(
        nest(f"{one}i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)")),
        nest(f"{two}i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)")),
    )
    made.simple_compute_at("Y", made.get_loops("Z")[1 + (first == "target")])
    assert [made.loop_of(loop).loop_var.name for loop in made.get_loops("Y")] == ([] if first == "own" else ["o"]) + [
        "i",
        "j",
    ]
    refused(made, lambda s: s.simple_compute_at("Z", s.get_loops("Z")[0]), "is around block `Z` already")
    np.testing.assert_array_equal(results(made, ROW, ROW * 0)[1], (ROW + 1) * 2)


def test_bind_refuses_nested_loops_on_one_axis() -> None:
    said = "loops around `Y`, one in the other, would both be bound to `threadIdx.x`"
    made = schedule(COPY, nest("i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)")))
    made.bind(made.get_loops("Y")[0], "threadIdx.x")
    made.bind(made.get_loops("Z")[1], "threadIdx.x")
    refused(made, lambda s: s.split("Y", 0, [2, 2]), said)
    refused(made, lambda s: s.bind(s.get_loops("Y")[1], "threadIdx.x"), said)
    refused(made, lambda s: s.simple_compute_at("Z", s.get_loops("Y")[0]), said.replace("`Y`", "`Z`"))
    made.split("Y", 0, [4])
    made.split("Y", 1, [2, 3])
    made.bind(made.get_loops("Y")[1], "threadIdx.y")
    found = re.findall(r"(\S+) for \((\w+), 0, (\d)", made.text())
    assert found == [
        ("thread_bind[threadIdx.x]", "i", "4"),
        ("thread_bind[threadIdx.y]", "j", "2"),
        ("serial", "j_0", "3"),
        ("serial", "i", "4"),
        ("thread_bind[threadIdx.x]", "j", "6"),
    ]
    np.testing.assert_array_equal(results(made, ROW, ROW * 0)[1], (ROW + 1) * 2)
