"""Calls of primitives on programs that have what few programs have: the results stay, or the call is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from pass_checks import parse

from tvmagic import tir
from tvmagic.arith import Analyzer
from tvmagic.arith.int_set import NEG_INF, POS_INF, IntSet
from tvmagic.errors import DefectError, ScheduleError
from tvmagic.eval.machine import run_function
from tvmagic.ir import BufferLoad, FloatImm, IntImm, PrimExpr, PrimFunc, Range, Var, decl_buffer
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.primitives.compute_at import _counts_inside
from tvmagic.tir.schedule.primitives.padding import _vanishes
from tvmagic.tir.schedule.primitives.sampling import _unknown_tile


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
    ("size", "tile", "factor", "whole"), [(8, 4, 2, 16), (6, 2, 3, 18), (6, 3, 2, 11), (6, 1, 4, 24), (6, 2, 4, 21), (4, 4, 2, 8)]
)  # fmt: skip
def test_a_block_that_reads_each_element_several_times_moves_to_its_producer(
    size: int, tile: int, factor: int, whole: int
) -> None:
    """For a tile of the producer it runs over that many elements times the factor, no more."""
    text = UPSAMPLED.format(size=size, tile=tile, factor=factor, whole=whole)
    after = keeps(text, "sch.reverse_compute_at(B('C'), L('B')[0])")
    found = re.search(r"for ax0 in range\((\d+)\)", after)
    assert found is not None and int(found[1]) == min(tile * factor, whole)
    assert ("T.where(" in after) is (whole % (tile * factor) != 0)


def test_iterators_of_another_step_are_not_known_to_stay_inside() -> None:
    n, x, analyzer = Var("n", "int32"), Var("x", "int32"), Analyzer()
    bound, domains = IntSet.interval(IntImm("int32", 0), n + 7), {x: Range.from_min_extent(0, n + 8)}
    values: list[tuple[PrimExpr, bool]] = [(x, True), (x * 2, False), (x * n, False), (x + 1, False)]
    for value, inside in values:
        assert _counts_inside(value, bound, domains, analyzer) is inside
    for ends in ((IntImm("int32", 0), POS_INF), (NEG_INF, n + 7), (NEG_INF, POS_INF)):  # whose ends are not known
        assert not _counts_inside(x, IntSet.interval(*ends), domains, analyzer)


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
        (1, 1, 0, "0", "0", True), (1, 1, 2, "0", "0", True), (1, 1, 0, "vj", "0", True), (4, 1, 3, "vj", "3", False),
        (6, 6, 0, "vj", "2", True), (6, 6, 0, "5 - vj", "2", True), (4, 1, 0, "3", "3", False), (1, 2, 0, "0", "0", False),
    ],
)  # fmt: skip
def test_a_variable_of_one_value_is_inlined_as_that_value(
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
        (ONE, "lambda i, j: (j, i)", True), (ONE, "lambda i, j: (i, j)", True), (ONE, "lambda i, j: (j % 3, i * 2 + j // 3)", True),
        (ROW, "lambda i, j: (i, j)", True), (ROW, "lambda i, j: (j, i)", False), (ROW, "lambda i, j: (i, j, 0)", False),
    ],
)  # fmt: skip
def test_another_layout_of_what_is_matched(program: dict[str, str], index_map: str, works: bool) -> None:
    text, call = MATCHED.format(**program), f"sch.transform_layout(B('B'), ('write', 0), {index_map})"
    if works:
        keeps(text, call)
    else:
        refuses(text, call, "which knows the old layout")


def test_padding_of_an_argument_is_stated_before_all_else() -> None:
    text = """def main(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("D"):
            v = T.axis.spatial(14, i)
            C[v] = v
    for i in range(14):
        with T.block("C"):
            v = T.axis.spatial(14, i)
            C[v] = A[v] * 2"""
    after = called(
        text, "sch.transform_layout(B('C'), ('read', 0), lambda i: (i // 4, i % 4), pad_value=0)"
    ).mod.script()
    assert after.index("T.assume(") < after.index('T.block("D")') < after.index('T.block("C")')
    assert "A[v_i // 4" not in after.replace("A[v // 4", "") and after.count("T.assume(") == 1


SUM = """def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
    for i, r, k in T.grid(4, {repeats}, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]"""


@pytest.mark.parametrize(
    ("repeats", "order", "works"),
    [(1, "k, r", True), (2, "k, r", False), (2, "r, i", True), (2, "r, k", True), (2, "r, i, k", True), (2, "k, i", False), (1, "k, i", True), (2, "i, r", True)],
)  # fmt: skip
def test_a_loop_that_repeats_a_sum_stays_outside_of_it(repeats: int, order: str, works: bool) -> None:
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
        ("0", "S[v] = A[v]", ""), ("n", "S[v] = A[v]", ""), ("i // 4", "S[v] = A[v]", "are not affine"),
        ("0", "S[v] = S[v] + A[v]", "nor a reduction block"), ("0", "with T.init():\n                        S[v] = 0\n                    S[v] = S[v] + A[v]", "is bound to `threadIdx.x` already"),
    ],
)  # fmt: skip
def test_what_threads_may_all_do(begin: str, store: str, why: str) -> None:
    """Store what none of their loops decides, and nothing that is read where it is stored."""
    text, call = (
        NESTED.format(begin=begin, store=store),
        "sch.bind(L('S')[-1], 'threadIdx.x'); sch.bind(L('C')[0], 'threadIdx.x')",
    )
    if why:
        refuses(text, call, why)
    else:
        called(text, call)


def test_a_loop_in_a_block_is_no_work_of_all_threads_around_the_block() -> None:
    text = """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((4, 16), "int32")):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            for j in range(16):
                with T.block("C"):
                    v = T.axis.spatial(16, j)
                    C[vi, v] = A[v]"""
    refuses(text, "sch.bind(L('outer')[0], 'threadIdx.x'); sch.bind(L('C')[0], 'threadIdx.x')", "is bound to")


def test_what_is_nothing_if_a_buffer_is() -> None:
    """A product of which one factor is, a sum of which all terms are; nothing that the padded variable does not index."""
    x, y = Var("x", "int32"), Var("y", "int32")
    a: PrimExpr = BufferLoad(decl_buffer((8,), "float32", "A"), [x])
    b: PrimExpr = BufferLoad(decl_buffer((8,), "float32", "B"), [y])
    one: PrimExpr = FloatImm("float32", 1.0)
    nothing = [
        a,
        a * b,
        b * a,
        a * one,
        a + a,
        a * b + a,
        (a + b) * a,
        a.astype("float64"),
        (a * one).astype("float16"),
    ]
    something = [b, one, a + b, b + a, a + one, (a + b) * b, a - a, b.astype("float64"), a / b]
    assert [_vanishes(e, x) for e in nothing] == [True] * len(nothing)
    assert [_vanishes(e, x) for e in something] == [False] * len(something)


def test_tiles_of_what_is_not_constant() -> None:
    assert [_unknown_tile(n) for n in (1, 2, 3)] == [([None], [-1]), ([None, 1], [-1, 1]), ([None, 1, 1], [-1, 1, 1])]


@pytest.mark.parametrize(
    ("extent", "n", "inner", "tile"), [(60, 3, 8, [60, 1, 1]), (60, 1, 7, [60]), (15, 2, 2, [15, 1]), (1, 2, 4, [1, 1])]
)
def test_a_partition_that_does_not_divide_is_none(extent: int, n: int, inner: int, tile: list[int]) -> None:
    text = (
        SUM.replace("T.grid(4", f"T.grid({extent}").replace("(4, 6)", f"({extent}, 6)").replace("(4,)", f"({extent},)")
    )
    sch = tir.Schedule(parse(text.format(repeats=1)))
    drawn = sch.sample_partitioned_tile(sch.get_loops("C")[0], n, 0, inner)
    assert [int(sch.get(f)) for f in drawn] == tile and list(sch.trace.decisions.values()) == [tile]


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
def test_who_reads_before_the_copy_is_back(indent: int, works: bool) -> None:
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
    [("i < 3", ["i < 3"]), ("j < 3", ["j < 3"]), ("i < 3 and j < 2", ["i < 3", "j < 2"]), ("1 <= j", None), ("i + j < 5", None), ("i < 2 and i + j < 3", None)],
)  # fmt: skip
def test_conditions_of_a_block_go_to_the_part_that_they_are_about(condition: str, conditions: list[str] | None) -> None:
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
def test_blocks_below_a_condition_are_found(condition: str) -> None:
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
def test_a_copy_of_what_is_read_at_an_edge(shift: int, inside: str) -> None:
    """It holds what is inside the array, the first and the last element too."""
    text = EDGE.format(shift=shift, inside=inside)
    after = keeps(text, "sch.read_at(L('C')[0], B('C'), 0, 'local')")
    assert ("if " in after) is (shift != 0)
    keeps(text, "sch.cache_read(B('C'), 0, 'local')")


def test_a_record_has_the_arguments_that_are_no_defaults() -> None:
    from tvmagic.passes import recording

    text = WHERE.format(condition="i < 3")
    sch = tir.Schedule(parse(text))
    i, j = sch.get_loops("C")
    with recording() as record:
        sch.split(i, [2, None])
        sch.split(j, [None, 2], preserve_unit_iters=False)
        sch.annotate(sch.get_loops("C")[0], "key", 1)
    options: list[dict[str, Any]] = [dict(step.options) for step in record.steps]
    assert [set(o) for o in options] == [
        {"loop", "factors"},
        {"loop", "factors", "preserve_unit_iters"},
        {"block_or_loop", "ann_key", "ann_val"},
    ]
    assert options[0] == {"loop": "i", "factors": "[2, None]"} and options[1]["preserve_unit_iters"] is False


@pytest.mark.parametrize("damage", ["none", "place", "parent", "missing", "gone", "root", "table"])
def test_a_tree_of_references_that_does_not_fit(damage: str) -> None:
    """What is wrong with one reference is found, whichever of its parts it is."""
    sch = tir.Schedule(parse(WHERE.format(condition="i < 3")))
    state, (i, j) = sch.state, [sch.get_sref(loop) for loop in sch.get_loops("C")]
    root, block = sch.get_sref(sch.get_block("root")), sch.get_sref(sch.get_block("C"))
    assert i.stmt is not None and root.stmt is not None and block.stmt is not None
    if damage == "place":
        j.seq_index = 1
    elif damage == "parent":
        j.parent = root
    elif damage == "missing":
        del state.srefs[block.stmt]
    elif damage == "gone":
        state.srefs[i.loop.replace(annotations={"other": 1})] = StmtSRef(i.stmt, root, -1)
    elif damage == "root":
        root.stmt = block.stmt
    elif damage == "table":
        state.srefs[root.stmt] = StmtSRef(root.stmt, None, -1)
    says = {"root": "does not fit its body", "table": "is not in the table", "gone": "statements that are gone"}
    if damage == "none":
        state.debug_verify()
    else:
        with pytest.raises(DefectError, match=says.get(damage, "the reference to a child of .* is wrong")):
            state.debug_verify()


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
def test_a_copy_holds_what_was_written_if_that_is_all_that_is_read(reads: int, copied: int) -> None:
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


def test_what_overwrites_the_input_of_its_producer_is_not_inlined_into_it() -> None:
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


def test_a_block_that_runs_for_some_of_its_values_may_run_for_all_where_nobody_sees_it() -> None:
    assert keeps(HALF, "sch.reverse_compute_at(B('C'), L('B')[0])").count("for ") == 2
    seen = (
        HALF.replace("(8,)", "(16,)")
        .replace("C = T.alloc_buffer", "X = T.alloc_buffer")
        .replace("A: T", 'C: T.Buffer((16,), "int32"), A: T')
    )
    refuses(seen, "sch.reverse_compute_at(B('C'), L('B')[0])", "moved, it would write more than before")


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


def test_iterations_of_blocks_that_use_a_ring_depend_on_each_other_those_of_others_do_not() -> None:
    after = keeps(ROLLED, "sch.rolling_buffer(B('B'), 0)")
    assert after.count("v = T.axis.opaque(") == 2
    assert "v = T.axis.spatial(14, i)" in after.split('T.block("E")')[1]
