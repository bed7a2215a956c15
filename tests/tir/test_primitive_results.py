"""Calls of primitives preserve results, or are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pass_checks import parse

import tvmagic
from tvmagic import tir
from tvmagic.errors import ScheduleError
from tvmagic.eval.integers import evaluate
from tvmagic.eval.machine import run_function
from tvmagic.ir import IntImm, PrimFunc
from tvmagic.script import from_source


def result(func: PrimFunc, n: int = 3) -> list[np.ndarray]:
    """The arguments of a function, small random numbers at first, after it ran; `n` for its scalars."""
    rng, arrays = np.random.default_rng(n), []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            arrays.append(np.asarray(n, "int32"))
        else:
            shape = [size.value for size in buffer.shape if isinstance(size, IntImm)]
            arrays.append(rng.integers(0, 50, shape).astype(str(buffer.dtype)))
    run_function(func, arrays)
    return arrays


def called(text: str, call: str) -> tir.Schedule:
    """The schedule of a function after a call on it: `B(name)` is a block, `L(name)` are its loops."""
    sch = tir.Schedule(parse(text), debug_mask="all")
    exec(call, {"sch": sch, "B": sch.get_block, "L": lambda name: sch.get_loops(sch.get_block(name))})
    return sch


def keeps(text: str, call: str, n: tuple[int, ...] = (3,)) -> str:
    """The text of the function after a call, which changes no result."""
    sch = called(text, call)
    for size in n:
        for before, after in zip(result(parse(text), size), result(sch.mod["main"], size)):
            np.testing.assert_array_equal(before, after)
    return sch.mod.script()


def refuses(text: str, call: str, why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        called(text, call)


UPSAMPLED = """def main(A: T.Buffer(({size},), "int32"), C: T.Buffer(({whole},), "int32")):
    B = T.alloc_buffer(({size},), "int32")
    for i, j in T.grid({size} // {tile}, {tile}):
        with T.block("B"):
            v = T.axis.spatial({size}, i * {tile} + j)
            B[v] = A[v] + 1
    for i in range({whole}):
        with T.block("C"):
            v = T.axis.spatial({whole}, i)
            C[v] = B[v // {factor}] * 2"""


@pytest.mark.parametrize(
    ("size", "tile", "factor", "whole"),
    [(8, 4, 2, 16), (6, 2, 3, 18), (6, 3, 2, 11), (6, 1, 4, 24), (6, 2, 4, 21), (4, 4, 2, 8)],
)
def test_reverse_compute_at_covers_upsampled_reads(size: int, tile: int, factor: int, whole: int) -> None:
    """For a tile of the producer it runs over that many elements times the factor, no more."""
    text = UPSAMPLED.format(size=size, tile=tile, factor=factor, whole=whole)
    after = keeps(text, "sch.reverse_compute_at(B('C'), L('B')[0])")
    found = re.search(r"for ax0 in range\((\d+)\)", after)
    assert found is not None and int(found[1]) == min(tile * factor, whole)
    assert ("T.where(" in after) is (whole % (tile * factor) != 0)


UNIT = """def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
    B = T.alloc_buffer((4, {width}), "int32")
    for i, j in T.grid(4, {extent}):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(({begin}, {begin} + {extent}), j + {begin})
            B[vi, {place}] = A[vi, vj] + vi
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi, {read}] * 2"""


@pytest.mark.parametrize(
    ("width", "extent", "begin", "place", "read", "works"),
    [
        (1, 1, 0, "0", "0", True),
        (1, 1, 2, "0", "0", True),
        (1, 1, 0, "vj", "0", True),
        (4, 1, 3, "vj", "3", False),
        (6, 6, 0, "vj", "2", True),
        (6, 6, 0, "5 - vj", "2", True),
        (4, 1, 0, "3", "3", False),
        (1, 2, 0, "0", "0", False),
    ],
)
def test_inlining_substitutes_unit_variable(
    width: int, extent: int, begin: int, place: str, read: str, works: bool
) -> None:
    text = UNIT.format(width=width, extent=extent, begin=begin, place=place, read=read)
    if works:
        assert 'T.block("B")' not in keeps(text, "sch.compute_inline(B('B'))")
        return
    try:
        keeps(text, "sch.compute_inline(B('B'))")  # refused, or right
    except ScheduleError:
        pass


MATCHED = """def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
    B = T.alloc_buffer((4, 6), "int32")
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
    for i, j in T.grid(4, {steps}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(B[vi, {region}])
            T.writes(C[vi, {region}])
            M = T.match_buffer(B[vi, {region}], (1, {width}), "int32", offset_factor=1)
            for k in range({width}):
                C[vi, {place} + k] = M[0, k] * 2"""


ONE = {"steps": "6", "region": "vj", "width": "1", "place": "vj"}


ROW = {"steps": "1", "region": "0:6", "width": "6", "place": "0"}


@pytest.mark.parametrize(
    ("program", "index_map", "works"),
    [
        (ONE, "lambda i, j: (j, i)", True),
        (ONE, "lambda i, j: (i, j)", True),
        (ONE, "lambda i, j: (j % 3, i * 2 + j // 3)", True),
        (ROW, "lambda i, j: (i, j)", True),
        (ROW, "lambda i, j: (j, i)", False),
        (ROW, "lambda i, j: (i, j, 0)", False),
    ],
)
def test_transform_layout_rewrites_matched_buffer(program: dict[str, str], index_map: str, works: bool) -> None:
    text, call = MATCHED.format(**program), f"sch.transform_layout(B('B'), ('write', 0), {index_map})"
    if works:
        keeps(text, call)
    else:
        refuses(text, call, "which knows the old layout")


SUM = """def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
    for i, r, k in T.grid(4, {repeats}, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]"""


@pytest.mark.parametrize(
    ("repeats", "order", "works"),
    [
        (1, "k, r", True),
        (2, "k, r", False),
        (2, "r, i", True),
        (2, "r, k", True),
        (2, "r, i, k", True),
        (2, "k, i", False),
        (1, "k, i", True),
        (2, "i, r", True),
    ],
)
def test_rfactor_keeps_repeating_loop_outside(repeats: int, order: str, works: bool) -> None:
    call = f"i, r, k = L('C'); sch.reorder({order})"
    if works:
        keeps(SUM.format(repeats=repeats), call)
    else:
        refuses(SUM.format(repeats=repeats), call, "another number of times")


NESTED = """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((4, 16), "int32"), n: T.int32):
    S = T.alloc_buffer((16,), "int32", scope="shared")
    for i in range(4):
        for k in range({begin}, {begin} + 1):
            for j in range(16):
                with T.block("S"):
                    v = T.axis.spatial(16, j)
                    {store}
        for t in range(16):
            with T.block("C"):
                vi, vt = T.axis.remap("SS", [i, t])
                C[vi, vt] = S[vt]"""


@pytest.mark.parametrize(
    ("begin", "store", "why"),
    [
        ("0", "S[v] = A[v]", ""),
        ("n", "S[v] = A[v]", ""),
        ("i // 4", "S[v] = A[v]", "are not affine"),
        ("0", "S[v] = S[v] + A[v]", "nor a reduction block"),
        (
            "0",
            "with T.init():\n                        S[v] = 0\n                    S[v] = S[v] + A[v]",
            "is bound to `threadIdx.x` already",
        ),
    ],
)
def test_bind_requires_idempotent_store(begin: str, store: str, why: str) -> None:
    """Store what none of their loops decides, and nothing that is read where it is stored."""
    text, call = (
        NESTED.format(begin=begin, store=store),
        "sch.bind(L('S')[-1], 'threadIdx.x'); sch.bind(L('C')[0], 'threadIdx.x')",
    )
    if why:
        refuses(text, call, why)
    else:
        called(text, call)


def test_bind_refuses_inner_loop_of_shared_work() -> None:
    text = """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((4, 16), "int32")):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            for j in range(16):
                with T.block("C"):
                    v = T.axis.spatial(16, j)
                    C[vi, v] = A[v]"""
    refuses(text, "sch.bind(L('outer')[0], 'threadIdx.x'); sch.bind(L('C')[0], 'threadIdx.x')", "is bound to")


BESIDE = """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
    for i in range(4):
        for j in range(4):
            with T.block("C"):
                v = T.axis.spatial(16, i * 4 + j)
                C[v] = A[v] + 1
            {read}"""


READ = """with T.block("D"):
                v = T.axis.spatial(16, i * 4 + j)
                D[v] = C[v] * 2"""


@pytest.mark.parametrize(("indent", "works"), [(12, False), (8, True)])
def test_cache_refuses_reader_before_copy(indent: int, works: bool) -> None:
    """In the same part of the loop that is so; in a later part it is copied already."""
    read = READ if indent == 12 else "\n        for j in range(4):\n            " + READ
    text, call = BESIDE.format(read=read), "sch.write_at(L('C')[0], B('C'), 0, 'local')"
    if works:
        assert "auto_copy" in called(text, call).mod.script()
    else:
        refuses(text, call, "before it is copied back")


WHERE = """def main(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where({condition})
            C[vi, vj] = A[vi, vj] + 1"""


@pytest.mark.parametrize(
    ("condition", "conditions"),
    [
        ("i < 3", ["i < 3"]),
        ("j < 3", ["j < 3"]),
        ("i < 3 and j < 2", ["i < 3", "j < 2"]),
        ("1 <= j", None),
        ("i + j < 5", None),
        ("i < 2 and i + j < 3", None),
    ],
)
def test_blockize_splits_predicates(condition: str, conditions: list[str] | None) -> None:
    text, call = WHERE.format(condition=condition), "sch.blockize(L('C')[1])"
    if conditions is None:
        refuses(text, call, "cannot be divided")
    else:
        assert re.findall(r"T.where\((.*)\)", keeps(text, call)) == conditions


IN_BRANCHES = """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32"), n: T.int32):
    for i in range(16):
        if {condition}:
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v] = A[v] + 1
        else:
            with T.block("D"):
                v = T.axis.spatial(16, i)
                D[v] = A[v] * 3"""


@pytest.mark.parametrize("condition", ["n < 4", "i < n"])
def test_primitives_find_blocks_below_branches(condition: str) -> None:
    sch = tir.Schedule(parse(IN_BRANCHES.format(condition=condition)), debug_mask="all")
    (loop,) = sch.get_loops("C")
    children = sch.get_child_blocks(loop)
    assert [sch.get(block).name_hint for block in children] == ["C", "D"]
    for block in children:
        sref = sch.get_sref(block)
        realize = sch.state.realize_of(sref)
        assert realize.block is sref.stmt and sref.seq_index == -1
    sch.annotate(sch.get_block("D"), "key", 1)
    sch.unroll(loop)
    for before, after in zip(result(parse(IN_BRANCHES.format(condition=condition))), result(sch.mod["main"])):
        np.testing.assert_array_equal(before, after)


EDGE = """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("C"):
            v = T.axis.spatial(16, i * 4 + j)
            C[v] = T.if_then_else({inside}, A[v + {shift}], 7)"""


@pytest.mark.parametrize(
    ("shift", "inside"), [(1, "v < 15"), (-1, "v > 0"), (3, "v < 13"), (-2, "v >= 2"), (0, "v < 20")]
)
def test_cache_read_copies_clamped_region(shift: int, inside: str) -> None:
    """It holds what is inside the array, the first and the last element too."""
    text = EDGE.format(shift=shift, inside=inside)
    after = keeps(text, "sch.read_at(L('C')[0], B('C'), 0, 'local')")
    assert ("if " in after) is (shift != 0)
    keeps(text, "sch.cache_read(B('C'), 0, 'local')")


PARTLY = """def main(A: T.Buffer((16,), "int32"), C: T.Buffer(({reads},), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i, j in T.grid(4, 4):
        with T.block("B"):
            v = T.axis.spatial(16, i * 4 + j)
            T.where(i * 4 + j < 10)
            B[v] = A[v] + 1
    for i in range({reads}):
        with T.block("C"):
            v = T.axis.spatial({reads}, i)
            C[v] = B[v] * 2"""


@pytest.mark.parametrize(("reads", "copied"), [(10, 10), (7, 10), (1, 10)])
def test_cache_holds_partially_written_region(reads: int, copied: int) -> None:
    after = keeps(PARTLY.format(reads=reads), "sch.cache_read(B('C'), 0, 'local')")
    assert re.findall(r"for ax0 in range\((\d+)\)", after) == [str(copied)]


IN_PLACE = """def main(A: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * 2
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            A[v] = B[v] + 1"""


def test_reverse_inline_refuses_overwritten_input() -> None:
    refuses(IN_PLACE, "sch.reverse_compute_inline(B('C'))", "must have a single producer")


HALF = """def main(A: T.Buffer((16,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    C = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * 2
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = B[v] + 1
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = C[v] - 1"""


def test_partial_block_may_execute_fully_if_unobserved() -> None:
    assert keeps(HALF, "sch.reverse_compute_at(B('C'), L('B')[0])").count("for ") == 2
    seen = (
        HALF.replace("(8,)", "(16,)")
        .replace("C = T.alloc_buffer", "X = T.alloc_buffer")
        .replace("A: T", 'C: T.Buffer((16,), "int32"), A: T')
    )
    refuses(seen, "sch.reverse_compute_at(B('C'), L('B')[0])", "it would write more than before")
    refuses(seen, "sch.reverse_compute_inline(B('C'))", "it would write more than before")


ROLLED = """def main(A: T.Buffer((16,), "int32"), D: T.Buffer((14,), "int32"), E: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(14):
        for j in range(3):
            with T.block("B"):
                v = T.axis.spatial(16, i + j)
                B[v] = A[v] * 2
        with T.block("D"):
            v = T.axis.spatial(14, i)
            D[v] = B[v] + B[v + 1] + B[v + 2]
        with T.block("E"):
            v = T.axis.spatial(14, i)
            E[v] = A[v]"""


def test_rolling_buffer_makes_iterations_dependent() -> None:
    after = keeps(ROLLED, "sch.rolling_buffer(B('B'), 0)")
    assert after.count("v = T.axis.opaque(") == 2
    assert "v = T.axis.spatial(14, i)" in after.split('T.block("E")')[1]


COPY = """def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            v = T.axis.spatial(12, {place})
            B[v] = A[v] * T.float32(2)"""


def doubled(sch: tir.Schedule) -> None:
    """Run the schedule of a function that doubles twelve numbers."""
    array, out = np.arange(12, dtype="float32"), np.zeros(12, "float32")
    tvmagic.build(sch.mod, check_bounds=True)(array, out)
    np.testing.assert_array_equal(out, array * 2)


@pytest.mark.parametrize(
    ("place", "works"),
    [
        ("i * 4 + j", True),
        ("11 - (i * 4 + j)", False),
        ("i * 4 + 3 - j", False),
        ("8 - i * 4 + j", False),
        ("j * 3 + i", False),
        ("i * 4 + j * 1 + 0", True),
    ],
)
def test_blockized_inner_loop_keeps_order(place: str, works: bool) -> None:
    sch = tir.Schedule(parse(COPY.format(place=place)))
    if works:
        block = sch.get(sch.blockize(sch.get_loops("B")[1]))
        side, first = block.writes[0].region[0], block.iter_vars[0].var
        assert [(evaluate(side.min, {first: n}), evaluate(side.extent, {first: n})) for n in range(3)] == [
            (0, 4),
            (4, 4),
            (8, 4),
        ]
        doubled(sch)
    else:
        with pytest.raises(ScheduleError):
            sch.blockize(sch.get_loops("B")[1])


TWO = """from tvm.script import ir as I
from tvm.script import tir as T

@I.ir_module
class M:
    @T.prim_func
    def {first}(A: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("X"):
                v = T.axis.spatial(4, i)
                A[v] = 1

    @T.prim_func
    def {second}(A: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("Y"):
                v = T.axis.spatial(4, i)
                A[v] = 1
"""


@pytest.mark.parametrize(
    ("names", "chosen"), [(("main", "other"), "X"), (("other", "main"), "Y"), (("one", "two"), "")]
)
def test_schedule_works_on_main_by_default(names: tuple[str, str], chosen: str) -> None:
    mod = from_source(TWO.format(first=names[0], second=names[1]))
    sch = tir.Schedule(mod)
    for name in "XY":
        if name == chosen:
            assert sch.get(sch.get_block(name)).name_hint == name
        else:
            with pytest.raises(ScheduleError):
                sch.get_block(name)
    assert sch.get(sch.get_block("X", names[0])).name_hint == "X"
    sch.work_on(names[1])
    assert sch.get(sch.get_block("Y")).name_hint == "Y"


THREADS = """def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    {memory}
    for i in range(4):
        for k in range({begin}, {end}):
            for j in range({extent}):
                with T.block("S"):
                    v = T.axis.spatial(16, {place})
                    {store}
        for t in range(16):
            with T.block("B"):
                w = T.axis.spatial(64, i * 16 + t)
                B[w] = A[w] + {read}"""


SHARED = {
    "memory": 'S = T.alloc_buffer((16,), scope="shared")',
    "begin": "0",
    "end": "1",
    "extent": "16",
    "place": "j",
    "store": "S[v] = A[v]",
    "read": "S[w % 16]",
}


@pytest.mark.parametrize(
    ("change", "works"),
    [
        ({}, True),
        ({"memory": 'S = T.alloc_buffer((16,), scope="local")'}, False),
        ({"memory": 'S = T.alloc_buffer((16,), scope="warp")'}, True),
        ({"memory": "S = T.alloc_buffer((16,))"}, True),
        ({"place": "(i + j) % 16"}, False),
        ({"begin": "i * 0", "end": "i * 0 + 1"}, True),
        ({"store": "S[v] = A[i * 16 + v]"}, False),
        ({"begin": "0", "end": "4", "place": "k * 4 + j", "extent": "4"}, True),
    ],
)
def test_threads_share_identical_work_only_in_shared_memory(change: dict[str, str], works: bool) -> None:
    """Under a loop that is bound to them: if it depends on none of them, in memory that they share."""
    sch = tir.Schedule(parse(THREADS.format(**{**SHARED, **change})))
    outer, inner = sch.get_loops("B")[0], sch.get_loops("S")[-1]
    sch.bind(outer, "threadIdx.x")
    if works:
        sch.bind(inner, "threadIdx.x")
        assert sch.get(inner).thread_binding.thread_tag == "threadIdx.x"  # type: ignore[union-attr]
    else:
        with pytest.raises(ScheduleError):
            sch.bind(inner, "threadIdx.x")
    other = tir.Schedule(parse(THREADS.format(**{**SHARED, **change})))
    outer, inner = other.get_loops("B")[0], other.get_loops("S")[-1]
    other.bind(inner, "threadIdx.x")
    if works:
        other.bind(outer, "threadIdx.x")
    else:
        with pytest.raises(ScheduleError):
            other.bind(outer, "threadIdx.x")


READERS = """def main(A: T.Buffer((64,), "float32"), C: T.Buffer((16,), "float32"), D: T.Buffer((32,), "float32")):
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = A[v + 3] + A[v + 5]
    for i in range(32):
        with T.block("D"):
            v = T.axis.spatial(32, i)
            D[v] = A[63 - v] * T.float32(2)"""


@pytest.mark.parametrize("readers", [["C"], ["D"], ["C", "D"]])
@pytest.mark.parametrize("reader", ["C", "D"])
def test_cache_read_redirects_named_consumers(reader: str, readers: list[str]) -> None:
    """The others go on reading the array, where they did."""
    sch = tir.Schedule(parse(READERS))
    copy = sch.get(sch.cache_read(reader, 0, "local", readers))
    read = {name: [r.buffer.name for r in sch.get(sch.get_block(name)).reads] for name in "CD"}
    assert all(set(read[name]) == {copy.writes[0].buffer.name if name in readers else "A"} for name in "CD")
    a, c, d = np.arange(64, dtype="float32"), np.zeros(16, "float32"), np.zeros(32, "float32")
    tvmagic.build(sch.mod, check_bounds=True)(a, c, d)
    np.testing.assert_array_equal(c, a[3:19] + a[5:21])
    np.testing.assert_array_equal(d, a[:31:-1] * 2)


@pytest.mark.parametrize("read", ["v // 2", "v // 3", "v % 4", "v * 2", "11 - v", "(v + 1) % 6"])
def test_compute_at_covers_quotient_reads(read: str) -> None:
    """Moved to its reader, a block runs over all that is read there."""
    text = f"""from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((12,), 'float32'), C: T.Buffer((6,), 'float32')):
    B = T.alloc_buffer((12,))
    for i in range(12):
        with T.block("B"):
            v = T.axis.spatial(12, i)
            B[v] = A[v] * T.float32(2)
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[{read}]
"""
    sch = tir.Schedule(from_source(text))
    sch.compute_at("B", sch.get_loops("C")[0])
    array, out = np.arange(12, dtype="float32"), np.zeros(6, "float32")
    tvmagic.build(sch.mod, check_bounds=True)(array, out)
    index = eval(read, {"v": np.arange(6)})
    np.testing.assert_array_equal(out, array[index] * 2)


TWO_READERS = """from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((64,), 'float32'), C: T.Buffer((64,), 'float32'), D: T.Buffer((64,), 'float32')):
    B = T.alloc_buffer((64,), scope="shared")
    for i in range(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * T.float32(2)
    for i in range(4):
        for j in range(12):
            with T.block("C"):
                v = T.axis.spatial(48, i * 12 + j)
                C[v] = B[v + 3]
        for j in range(8):
            with T.block("D"):
                v = T.axis.spatial(32, i * 8 + j)
                D[v] = B[{index}]
"""


@pytest.mark.parametrize("index", ["v", "v + 16", "v * 2", "63 - v", "v // 2 + 7"])
def test_compute_at_covers_two_readers(index: str) -> None:
    sch = tir.Schedule(from_source(TWO_READERS.replace("{index}", index)))
    loop = sch.get_loops("C")[0]
    sch.read_at(loop, sch.get_block("C"), 0, "shared")
    array, c, d = np.arange(64, dtype="float32"), np.zeros(64, "float32"), np.zeros(64, "float32")
    tvmagic.build(sch.mod, check_bounds=True)(array, c, d)
    np.testing.assert_array_equal(c[:48], array[3:51] * 2)
    np.testing.assert_array_equal(d[:32], array[eval(index, {"v": np.arange(32)})] * 2)
