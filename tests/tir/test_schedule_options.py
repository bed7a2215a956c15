"""What the options of primitives change that are rarely given."""

from __future__ import annotations

import pytest
from refusals import refuses
from schedule_behaviour import loops, parse, same_results, schedule

from tvmagic.ir import PrimFunc
from tvmagic.tir import Schedule, TensorIntrin
from tvmagic.tir.blocks.error import ScheduleError

COLUMN = """def main(A: T.Buffer((1, 4, 2), "float32"), C: T.Buffer((1, 4, 2), "float32")):
    B = T.alloc_buffer((1, 4, 2))
    for u, i, j in T.grid(1, 4, 2):
        with T.block("B"):
            vu, vi, vj = T.axis.remap("SSS", [u, i, j])
            B[vu, vi, vj] = A[vu, vi, vj] * 2.0
    for u, i, j in T.grid(1, 4, 2):
        with T.block("C"):
            vu, vi, vj = T.axis.remap("SSS", [u, i, j])
            C[vu, vi, vj] = B[vu, vi, vj] + 1.0"""

ROW_SUMS = """def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]"""


TWO = """def main(x: T.handle, y: T.handle):
    X = T.match_buffer(x, {shape}, "float32", offset_factor=1)
    Y = T.match_buffer(y, {shape}, "float32", offset_factor=1)
    with T.block("root"):
        T.reads(X[{all}])
        T.writes(Y[{all}])
        {body}"""


@pytest.fixture(scope="module")
def doubling() -> str:
    loop = """for j in range(2):
            with T.block("one"):
                v = T.axis.spatial(2, j)
                Y[v] = X[v] * T.float32(2)"""
    call = "T.evaluate(T.call_extern('int32', 'twice', Y.access_ptr('w'), X.access_ptr('r')))"
    texts = [TWO.format(shape="(2,)", all="0:2", body=body) for body in (loop, call)]
    TensorIntrin.register("test.doubling", *map(parse, texts), override=True)
    return "test.doubling"


@pytest.mark.parametrize("keep", [True, False])
def test_so_a_binding_of_the_block_of_an_instruction(doubling: str, keep: bool) -> None:
    sch = schedule(COLUMN)
    sch.tensorize(loops(sch, "B")[2], doubling, preserve_unit_iters=keep)
    before, _ = sch.mod.script().split('T.block("C")')
    bound = 'vu_o, vi_o = T.axis.remap("SS", [u, i])', "vu_o = T.axis.spatial(1, 0)"
    assert [text in before for text in bound] == [keep, not keep]


@pytest.mark.parametrize("how", ["parallel", "vectorize", "bind"])
def test_a_decomposed_reduction_is_taken_where_nothing_is_checked(how: str) -> None:
    """As in TVM: neither of its two blocks is complete or a reduction."""

    def scheduled(check: bool) -> PrimFunc:
        first = Schedule(parse(ROW_SUMS), debug_mask="all", enable_check=check)
        sch = first.copy()
        sch.decompose_reduction(sch.get_block("B"), loops(sch, "B")[1])
        getattr(sch, how)(loops(sch, "B_init")[0], *(["threadIdx.x"] if how == "bind" else []))
        return sch.mod["main"]

    with pytest.raises(ScheduleError):
        scheduled(True)
    after = scheduled(False)
    same_results(parse(ROW_SUMS), after)


def test_buffers_of_a_block_are_given_by_number_by_name_or_as_they_are() -> None:
    first = schedule(COLUMN).mod["main"]
    texts: dict[str, list[str]] = {"read": [], "written": [], "aligned": []}
    for how in (lambda buffer: 0, lambda buffer: buffer.name, lambda buffer: buffer):
        sch = Schedule(first, debug_mask="all")
        made = sch.get(sch.get_block("C"))
        sch.cache_read(sch.get_block("C"), how(made.reads[0].buffer), "local")
        texts["read"].append(sch.mod.script())
        sch.cache_write(sch.get_block("C"), how(made.writes[0].buffer), "local")
        texts["written"].append(sch.mod.script())
        sch.storage_align(sch.get_block("B"), how(sch.get(sch.get_block("B")).writes[0].buffer), 1, 8, 1)
        texts["aligned"].append(sch.mod.script())
    assert all(found == [found[0]] * 3 for found in texts.values())
    assert (
        "B_local" in texts["read"][0] and "C_local" in texts["written"][0] and "buffer_dim_align" in texts["aligned"][0]
    )
    other = schedule(ROW_SUMS).mod["main"]
    sch = Schedule(first)
    with pytest.raises(ScheduleError, match="`A`"):
        sch.cache_read(sch.get_block("C"), next(iter(other.buffer_map.values())), "local")


def test_what_depends_on_the_order_is_refused_without_checks_as_well() -> None:
    sch = Schedule(parse(ROW_SUMS), enable_check=False)
    with refuses("schedule.loop_not_parallel", error=ScheduleError):
        sch.parallel(loops(sch, "B")[1])
    with pytest.raises(ScheduleError):
        sch.decompose_reduction(sch.get_block("B"), sch.split(loops(sch, "B")[1], [2, None])[1])


def test_a_layout_of_a_map_that_joins_elements_is_yours_to_ask_for() -> None:
    sch = schedule(COLUMN)
    with refuses("transform_layout.not_invertible", error=ScheduleError):
        sch.transform_layout(sch.get_block("B"), "B", lambda u, i, j: [i, j // 2])
    sch.transform_layout(sch.get_block("B"), "B", lambda u, i, j: [i, j // 2], assume_injective_transform=True)
    assert "B = T.alloc_buffer((4, 1))" in sch.mod.script()
    assert "B[vi, 0]" in sch.mod.script()
