"""Decisions of passes and primitives that few programs come to, each as a table."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest
from pass_checks import module, script

import tvmagic
from tvmagic import ir, tir
from tvmagic.arith import Analyzer
from tvmagic.arith.int_set import IntSet
from tvmagic.arith.iter_map import IterMark, IterSplitExpr
from tvmagic.errors import ScheduleError
from tvmagic.ir import IntImm, Range, Var, decl_buffer
from tvmagic.script import from_source
from tvmagic.target import Target
from tvmagic.tir import transform
from tvmagic.tir.analysis.race_search import _ranks
from tvmagic.tir.analysis.races import find_carried
from tvmagic.tir.schedule.analysis import _is_all_of_mark
from tvmagic.tir.schedule.instruction import BlockRef, Loop, Sizes, _output_role, _role
from tvmagic.tir.schedule.primitives.compute_at import _counts_inside
from tvmagic.tir.schedule.primitives.layout import _pad_constant
from tvmagic.tir.transform.auto_copy.padding import _strides
from tvmagic.tir.transform.expressions.lower_intrin import _kind
from tvmagic.tir.transform.threads.allreduce_plan import Group, Warps
from tvmagic.tir.transform.threads.lift_thread_binding import thread_rank


@pytest.mark.parametrize(
    ("tag", "rank"),
    [
        ("blockIdx.x", (0, 0)), ("blockIdx.z", (0, 2)), ("threadIdx.x", (1, 0)), ("threadIdx.y", (1, 1)), ("threadIdx", (1, 0)),
        ("vthread", (1, -1)), ("vthread.y", (1, -1)), ("other", (1, 0)),
    ],
)  # fmt: skip
def test_ranks_of_threads(tag: str, rank: tuple[int, int]) -> None:
    assert thread_rank(tag) == rank


@pytest.mark.parametrize(
    ("size", "most", "group", "count", "form"),
    [
        (32, 1024, 32, 1, "WARP"), (32, 1024, 32, 4, "WARP"), (32, 1024, 16, 2, "WARP"), (32, 1024, 24, 1, "WARP"),
        (32, 1024, 24, 2, "SHARED"), (32, 1024, 64, 1, "WARPS"), (32, 1024, 64, 2, "WARPS"), (32, 1024, 48, 1, "SHARED"),
        (32, 1025, 64, 1, "SHARED"), (32, 0, 64, 1, "SHARED"), (1, 1, 2, 1, "WARPS"),
    ],
)  # fmt: skip
def test_how_threads_reduce(size: int, most: int, group: int, count: int, form: str) -> None:
    threads = Group(IntImm("int32", 0), group, IntImm("int32", 0), count, group)
    assert Warps(size, most, True).form(threads, [ir.dtype_of("float32")]).name == form
    assert Warps(size, most, False).form(threads, [ir.dtype_of("float32")]).name == "SHARED"
    assert Warps(size, most, True).form(threads, [ir.dtype_of("int8")]).name == "SHARED"


def test_ranks_are_equal_where_rows_are() -> None:
    rng = np.random.default_rng(3)
    columns = [rng.integers(low, low + extent, 60) for low, extent in ((-3, 3), (0, 1), (7, 4))]
    columns.append(rng.integers(0, 2, 60) * (1 << 61) - 5)
    key, rows = _ranks(columns, 60), list(zip(*columns))
    assert all((key[a] == key[b]) == (rows[a] == rows[b]) for a in range(60) for b in range(60))


@pytest.mark.parametrize(("loop", "races"), [("i", 1), ("j", 0), ("k", 1)])
def test_which_loop_of_a_nest_carries(loop: str, races: int) -> None:
    func = from_source(
        "from tvm.script import tir as T\n@T.prim_func\n"
        "def main(A: T.Buffer((8,), 'int32')):\n"
        "    for i in range(4):\n        for j in range(8):\n            for k in range(3):\n"
        "                A[j] = A[j] + k"
    )
    found: list[Var] = []
    tir.stmt_functor.post_order_visit(func.body, lambda n: found.append(n.loop_var) if isinstance(n, tir.For) else None)
    var = next(v for v in found if v.name == loop)
    assert len(find_carried(func, var, lambda a, b: True)) == races


@pytest.mark.parametrize(
    ("begin", "end", "inside"),
    [(0, 0, True), (0, 1, False), (-1, 0, False), (-1, 1, False), (1, 0, True), (1, -1, True)],
)
def test_iterators_stay_inside_a_symbolic_bound(begin: int, end: int, inside: bool) -> None:
    n, x = ir.SizeVar("n"), Var("x")
    analyzer = Analyzer()
    bound = IntSet.interval(IntImm("int32", 0), n + 7)
    domains = {x: Range.from_min_extent(0, n + 8 - begin + end)}
    assert _counts_inside(x + begin, bound, domains, analyzer) is inside


@pytest.mark.parametrize(
    ("value", "inside"),
    [("i", True), ("i * 8 + j", False), ("i * 2", False), ("0 * i", False), ("j", False), ("i // 2", False), ("i + j", False), ("n - 1 - i", False)],
)  # fmt: skip
def test_only_whole_iterators_are_counted_inside_a_bound(value: str, inside: bool) -> None:
    """Of one step from value to value: here `i` from 0 to n - 1, in which nothing else is known to be."""
    n, i, j = ir.SizeVar("n"), Var("i", "int32"), Var("j", "int32")
    domains = {i: Range(0, n), j: Range(0, 8)}
    bound = IntSet.interval(IntImm("int32", 0), n - 1)
    analyzer = Analyzer(domains)
    expr = eval(value, {"n": n, "i": i, "j": j})
    assert (
        _counts_inside(expr if isinstance(expr, ir.PrimExpr) else IntImm("int32", expr), bound, domains, analyzer)
        is inside
    )


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("int8", 3, True), ("int8", 3.0, False), ("uint8", 3, True), ("uint8", 0.5, False), ("bool", 1, True),
        ("bool", 1.0, False), ("float32", 1.0, True), ("float32", 1, False), ("bfloat16", 0.5, True), ("bfloat16", 2, False),
    ],
)  # fmt: skip
def test_what_pads_a_buffer_has_its_type(dtype: str, value: float, fits: bool) -> None:
    buffer = decl_buffer((4,), dtype, "B")
    if fits:
        assert str(_pad_constant(value, buffer).dtype) == dtype
    else:
        with pytest.raises(ScheduleError, match="pad_value is"):
            _pad_constant(value, buffer)


@pytest.mark.parametrize(("count", "reused"), [(1, True), (15, True), (16, True), (17, False), (40, False)])
def test_freed_memory_is_reused_up_to_sixteen_times_the_size(count: int, reused: bool) -> None:
    text = f"""def main(A: T.Buffer(({64 * 40},), "float32")):
    B = T.allocate([{64 * count}], "float32", "global")
    B_1 = T.Buffer(({64 * count},), data=B)
    for i in range({64 * count}):
        B_1[i] = A[i] + T.float32(1)
    for i in range({64 * count}):
        A[i] = B_1[i]
    C = T.allocate([64], "float32", "global")
    C_1 = T.Buffer((64,), data=C)
    for i in range(64):
        C_1[i] = A[i] + T.float32(2)
    for i in range(64):
        A[i] = C_1[i]"""
    new = script(transform.StorageRewrite()(module(text)))
    assert new.count("T.allocate(") == (1 if reused else 2)


def test_pragmas_are_around_a_loop_in_the_order_of_their_names() -> None:
    text = """def main(A: T.Buffer((8,), "int32")):
    for i in T.serial(8, annotations={"pragma_b": 1, "pragma_a": 2, "kept": 3}):
        A[i] = i"""
    new = script(transform.LowerOpaqueBlock()(module(text)))
    assert new.index('"pragma_a"') < new.index('"pragma_b"') < new.index('"kept"')


@pytest.mark.parametrize(
    ("value", "single"), [("(T.Let(y + 1, where={y: x})) + (T.Let(y + 2, where={y: x}))", True), ("(T.Let(y + 1, where={y: x})) + (T.Let(y + 2, where={y: x + 1}))", False)]
)  # fmt: skip
def test_one_let_may_be_in_several_places(value: str, single: bool) -> None:
    func = from_source(
        "from tvm.script import tir as T\n@T.prim_func\ndef main(A: T.Buffer((8,), 'int32'), x: T.int32):\n"
        f"    y = T.int32()\n    A[0] = {value}"
    )
    assert tir.analysis.verify_ssa(func) is single


@pytest.mark.parametrize(
    ("sizes", "bits", "step", "strides"),
    [
        ([8, 32], 32, 1, [33, 1]),
        ([8, 31], 32, 1, [31, 1]),
        ([4, 8, 32], 32, 4, [288, 36, 1]),
        ([8, 64], 16, 8, [72, 1]),
    ],
)
def test_strides_with_few_conflicts(sizes: list[int], bits: int, step: int, strides: list[int]) -> None:
    rows = [[0] * (len(sizes) - 2) + [n % sizes[-2], 0] for n in range(32)]
    accesses: Any = [[[row[k] for row in rows] for k in range(len(sizes))]]
    assert _strides(sizes, bits, step, accesses) == strides


COPY = """from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 6), 'float32'), C: T.Buffer((4, 6), 'float32')):
    B = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""


@pytest.mark.parametrize(
    ("places", "fits"),
    [([], True), ([0], True), ([1], True), ([2], True), ([0, 2], True), ([3], False), ([-1], False), ([2, 1], False)],
)
def test_where_separators_of_a_matrix_may_be(places: list[int], fits: bool) -> None:
    sch = tir.Schedule(from_source(COPY))
    if not fits:
        with pytest.raises(ScheduleError):
            sch.set_axis_separator("B", ("write", 0), places)
    else:
        sch.set_axis_separator("B", ("write", 0), places)
        assert [int(p) for p in sch.get(sch.get_block("B")).writes[0].buffer.axis_separators] == places


@pytest.mark.parametrize("read", ["v // 2", "v // 3", "v % 4", "v * 2", "11 - v", "(v + 1) % 6"])
def test_what_a_reader_needs_of_a_quotient(read: str) -> None:
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


@pytest.mark.parametrize(
    ("annotation", "role", "output"),
    [
        ("Loop", "Loop", "Loop"), (Loop, "Loop", "Loop"), (Loop | None, "Loop", "Loop"), ("Loop | None", "Loop", None), (BlockRef, "BlockRef", "BlockRef"),
        (tuple[Loop, Any], "Loop", "Loop"), ("tuple[Loop, Any]", None, "Loop"), (tuple[Sizes, Any], "Sizes", "Sizes"), ("tuple[Loop, int]", None, None),
        ("list[Any]", None, None), (int, None, None), (list[int], None, None), (None, None, None), ("None", None, None),
    ],
)  # fmt: skip
def test_roles_of_annotations(annotation: Any, role: str | None, output: str | None) -> None:
    """As text, as in a file that keeps annotations as text, or as what a cell of a notebook has."""
    assert (_role(annotation), _output_role(annotation)) == (role, output)


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
def test_what_two_readers_in_a_loop_read_is_copied_at_once(index: str) -> None:
    sch = tir.Schedule(from_source(TWO_READERS.replace("{index}", index)))
    loop = sch.get_loops("C")[0]
    sch.read_at(loop, sch.get_block("C"), 0, "shared")
    array, c, d = np.arange(64, dtype="float32"), np.zeros(64, "float32"), np.zeros(64, "float32")
    tvmagic.build(sch.mod, check_bounds=True)(array, c, d)
    np.testing.assert_array_equal(c[:48], array[3:51] * 2)
    np.testing.assert_array_equal(d[:32], array[eval(index, {"v": np.arange(32)})] * 2)


def test_a_copy_of_what_is_written_leaves_its_readers_alone() -> None:
    sch = tir.Schedule(from_source(COPY))
    sch.cache_write("B", 0, "local")
    text = sch.mod.script()
    assert "C[vi, vj] = B[vi, vj]" in text and "B[v0, v1] = B_local[v0, v1]" in text  # who reads B still does


def test_which_data_classes_are_values() -> None:
    """Those whose objects nothing changes, and those that are told apart as objects, not by what they hold."""
    classes = {
        value
        for package in (tir.transform, tir.analysis)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, type) and value.__module__ == module.name and dataclasses.is_dataclass(value)
    }
    parameters = [(value.__name__, value.__dataclass_params__) for value in classes]  # type: ignore[attr-defined]
    frozen = "Access Conflict Direction Domain Form Found Place Race Step _Access _Group _Rules"
    assert {name for name, p in parameters if p.frozen} == set(frozen.split())
    objects = "Access Domain Edge Fact FlowBlock Graph Loop Place Region Step Touch _Entry _Fill"
    assert {name for name, p in parameters if not p.eq} == set(objects.split())


def test_an_iterator_is_all_of_its_mark_if_it_is_as_long_and_unscaled() -> None:
    mark = IterMark(ir.Var("i"), ir.IntImm("int32", 8))
    numbers = [(1, 8, 1), (1, 4, 1), (2, 8, 1), (1, 8, 3)]
    splits = [IterSplitExpr(mark, *(ir.IntImm("int32", n) for n in part)) for part in numbers]
    assert [_is_all_of_mark(split) for split in splits] == [True, False, False, False]


@pytest.mark.parametrize(
    ("target", "kind"), [(None, "llvm"), ("llvm -mcpu=haswell", "llvm"), ("opencl -max_num_threads=256", "opencl")]
)
def test_the_kind_of_target_that_a_function_is_for(target: str | None, kind: str) -> None:
    func = module('def main(A: T.Buffer((4,), "float32")):\n    A[0] = T.float32(1)')["main"]
    assert _kind(func if target is None else func.with_attr("target", Target(target))) == kind
