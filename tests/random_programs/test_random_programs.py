"""Random programs of each kind compute what they mean; `make soak` runs many.

A seed that has failed is in `SEEDS` with a word on what was wrong. While its defect is open it is in `OPEN` too.
"""

from __future__ import annotations

import collections
import ctypes
import pathlib
import random
import re
from typing import Any

import numpy as np
import pytest
import small_language as sl
from declared_regions import outside_of_regions
from guarded_arrays import Guarded, difference
from outcomes import Argument, Wrong, check_call
from soak import KINDS, load_case, run_seeds
from tir_schedules import CALLS

from tvmagic.script import from_source
from tvmagic.tir.schedule.instruction import InstructionKind

SHORT = {
    "te": 8,
    "beyond": 4,
    "tir": 6,
    "cell": 9,
    "calls": 3,
    "notation": 4,
    "flow": 3,
    "magic": 1,
    "tiny": 5,
    "inplace": 4,
    "float8": 4,
    "strided": 6,
    "interrupt": 6,
    "verdict": 6,
    "large": 4,
    "arguments": 3,
    "empty": 3,
    "racy": 6,
    "dimensions": 3,
    "topi": 3,
    "growth": 1,
    "system": 4,
}
LONG = dict.fromkeys(KINDS, 20_000) | {
    "notation": 5_000,
    "flow": 5_000,
    "magic": 2_000,
    "interrupt": 2_000,
    "verdict": 2_000,
    "large": 2_000,
    "arguments": 2_000,
    "empty": 2_000,
    "racy": 2_000,
    "dimensions": 2_000,
    "topi": 2_000,
    "growth": 2_000,
    "system": 2_000,
}  # a session takes some seconds
PART = 500
SEEDS: dict[str, dict[int, str]] = {
    "te": {
        1: "compute_at a reduction loop of what its init reads",
        5: "scan inside compute_at",
        9: "a maximum of NaN",
        21: "a library call of LLVM for bfloat16",
        23: "threads around a scan of which readers take a part",
        24: "a scan of which readers take a part",
        30: "a double buffer of a size that depends on a loop",
        47: "compute_at a reduction loop of what its init reads",
        54: "compute_at a reduction loop of what its init reads",
        55: "a double buffer of a size that depends on a loop",
        72: "scan inside compute_at",
        30063: "a copy in shared memory is read where it is not realized",
        30133: "an update outside a launch, by each thread that has memory of its own",
        892: "a stage in a scan whose time axis is fused, of a size whose sign is not known",
        50769: "vectors in memory whose bytes are no power of two",
        51831: "a reduction over threads for each lane of a vector",
        124: "a vectorized loop whose extent is no constant",
        200023: "start values of a stage inside a loop that overruns its domain",
        201350: "virtual threads that add to the same memory under a condition",
        201369: "a stage in the loop of a reduction over threads",
        50095: "the first step of a scan, over threads that have its memory of their own",
        300843: "what a step of a scan reads in memory of each thread's own",
        601394: "a result of threads whose memory has other values too",
        601894: "a loop split where its own result says",
        700013: "a view of a buffer that is bound to two parts",
        700081: "what calls of an intrinsic read in the loop of another stage",
        992670: "a check of a row that a lane that is off would read",
        700158: "virtual threads of a layout that begins before 0",
        5003429: "a minimum of bfloat16 that LLVM visits again for each use",
        5005347: "a sum of an index and a large number that wraps around",
        5005754: "shared memory that is read by what each thread computes for itself",
        5000007: "the state of a scan behind the steps that are read",
        5010769: "an argmax of many steps that LLVM visits again for each use",
    },
    "beyond": {},
    "tir": {
        14: "reindex_cache_write of what write_at has made, of a symbolic size",
        17: "set_axis_separator",
        29: "set_axis_separator",
        31: "storage_align of a symbolic size",
        32: "set_axis_separator",
        40: "a predicate on a unit loop that is left out",
        49: "set_axis_separator",
        55: "padding of an iteration map with symbolic factors",
        57: "a library call of LLVM for bfloat16",
        84: "a reduction moved under a loop that runs backwards",
        244: "a reduction moved into the loop of another one",
        1257: "a chain of steps that LLVM visits again for each use",
        2556: "a Select whose condition its values count on",
        50673: "a copy of all that a piece of a partitioned loop declares",
        3543: "a region that depends on a cached index",
        200204: "padding of what reads a cached index",
        401148: "padding of a block that writes one element",
        500277: "memory of two dimensions, shared",
        5004384: "the tile of a loop without iterations",
        5005721: "padding of a part that loop_partition left",
        5015509: "the least of all integers of 64 bits, compared with itself",
        5018019: "what a block writes by the address of an element, after another is inlined into it",
        4800014: "pieces of a loop that declare one of three rows",
    },
    "cell": {
        23: "a library call of LLVM for float16",
        66: "truncdiv by zero",
        68: "truncdiv by zero",
        71: "round",
        97: "bool + bool",
        30133: "the floored remainder of a remainder times a negative factor",
        5013901: "bytes at places of remainders, of which LLVM made four vectors at once",
    },
    "calls": {
        59: "clz of 64 bits is an int32",
        71: "clz of 16 bits is an int32",
        116: "fma of float64, rounded once",
        129: "the neighbour of a bfloat16",
        268: "the neighbour of a float16",
        569: "the bits of a bfloat16 that was computed",
    },
    "notation": {105: "two results without dimensions, one read by a scan"},
    "flow": {},
    "magic": {},
    "tiny": {},
    "inplace": {},
    "float8": {},
    "strided": {},
    "interrupt": {},
    "verdict": {},
    "large": {},
    "arguments": {},
    "empty": {},
    "racy": {},
    "dimensions": {},
    "topi": {},
    "growth": {},
    "system": {},
}
# Seeds whose defect is not mended yet; whoever mends one takes it out.
OPEN: dict[str, set[int]] = {kind: set() for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind: str) -> None:
    found, counts = run_seeds(kind, range(SHORT[kind]))
    assert {seed: reason for seed, reason in found.items() if seed not in OPEN[kind]} == {}
    assert counts["refused"] <= max(1, SHORT[kind] // 3)  # or it would test nothing


# one process for several seeds, as it takes longer to start than to check one
NAMED = [(kind, list(SEEDS[kind])[at : at + 20]) for kind in KINDS for at in range(0, len(SEEDS[kind]), 20)]


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "seeds"), [pytest.param(*row, id=f"{row[0]} {row[1][0]}") for row in NAMED])
def test_seeds_that_failed(kind: str, seeds: list[int]) -> None:
    found, _ = run_seeds(kind, seeds)
    assert {SEEDS[kind][seed]: reason for seed, reason in found.items() if seed not in OPEN[kind]} == {}
    assert OPEN[kind] & set(seeds) <= set(found), "mended: take it out of `OPEN`"


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "first"), [(kind, first) for kind in KINDS for first in range(0, LONG[kind], PART)])
def test_many_random_programs(kind: str, first: int) -> None:
    found, _ = run_seeds(kind, range(first, first + PART))
    assert {seed: reason for seed, reason in found.items() if seed not in OPEN[kind]} == {}


# ---------------------------------------------------------------------------- the tester itself


def test_every_primitive_occurs() -> None:
    missing = {kind.method for kind in InstructionKind.registry.values()} - set(CALLS)
    assert not missing, "`CALLS` of tir_schedules.py has no row for it"


def applied(seed: int) -> set[str]:
    """The methods of `tir.Schedule` that the function of a seed accepts."""
    case = load_case("tir", seed)
    case.make()
    return {method for call in case.calls for method in re.findall(r"sch\.(\w+)\(", call)}


# seeds that have all primitives together; after a change of the generator take others, such as those that
# `test_each_primitive_is_applied_in_many_programs` reads
COVER = (71, 158, 95, 38, 66, 414, 61, 28, 6, 8, 33)


def test_every_primitive_is_applied() -> None:
    assert set(CALLS) - set().union(*map(applied, COVER)) == set()


@pytest.mark.soak
def test_each_primitive_is_applied_in_many_programs() -> None:
    counts = collections.Counter(method for seed in range(500) for method in applied(seed))
    assert {method: counts[method] for method in CALLS if counts[method] < 10} == {}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "magic"])
def test_a_seed_makes_the_same_program_each_time(kind: str) -> None:
    texts = []
    for _ in range(2):
        case = load_case(kind, 3)
        case.make()
        texts.append(case.text())
    assert texts[0] == texts[1]
    exec(texts[0], {})  # it runs by itself


def test_no_part_that_gives_the_right_answer_imports_the_package() -> None:
    here = pathlib.Path(__file__).parent
    parts = ("small_language", "reductions", "random_values", "computations", "guarded_arrays", "random_layouts")
    for name in (*parts, "odd_arguments"):
        lines = (here / f"{name}.py").read_text().splitlines()
        assert not [line for line in lines if "import" in line and "tvmagic" in line], name


def fault(change: Any) -> str:
    """The kind of what is found when a function doubles its input and then does `change(input, output)`."""

    def run(x: Any, y: Any) -> None:
        y[...] = x * 2
        change(x, y)

    values = np.arange(12, dtype="float32").reshape(3, 4)
    try:
        check_call(run, [Argument(values, False), Argument(values * 2, True)], random.Random(0), edges=(None,))
    except Wrong as error:
        return error.kind
    return "right"


def _beside(array: Any, index: int) -> None:
    """Write what is `index` elements behind the first."""
    ctypes.c_float.from_address(array.ctypes.data + index * array.itemsize).value = 5.0


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda x, y: None, "right"),
        (lambda x, y: y.__setitem__((2, 3), 0), "result"),
        (lambda x, y: y.__setitem__((2, 3), np.nan), "result"),
        (lambda x, y: x.__setitem__((0, 0), 9), "outside"),
        (lambda x, y: _beside(y, 12), "outside"),
        (lambda x, y: _beside(y, -1), "outside"),
        (lambda x, y: _beside(x, 12), "outside"),
    ],
    ids=["none", "one element", "a NaN", "an input", "behind", "before", "behind an input"],
)
def test_planted_faults_are_found(change: Any, kind: str) -> None:
    assert fault(change) == kind


def test_a_strided_array_has_guards_between_its_elements() -> None:
    array = Guarded(np.zeros((2, 3), "int16"), strided=True, filled=False, changes=True)
    array.array[...] = 7
    assert array.outside_written() == 0
    array.array.base[..., 1] = 7  # every second element
    assert array.outside_written() > 0


def test_a_view_in_any_order_has_guards_between_its_elements() -> None:
    values = np.arange(12, dtype="int16").reshape(3, 4)
    array = Guarded(values, changes=True, order=(1, 0), steps=(-2, 3))
    assert array.array.strides == (-4, 36) and (array.array == values).all()
    array.array[...] = 7
    assert array.outside_written() == 0
    ctypes.c_int16.from_address(array.array.ctypes.data + 2).value += 1  # beside the first element
    assert array.outside_written() > 0


def test_infinities_and_nans_are_compared_exactly() -> None:
    a = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert difference(a, a.copy(), 0, 0) is None
    assert difference(a, np.array([np.nan, np.inf, np.inf, 1.0]), 1e-3, 1e-3) is not None
    assert difference(a, np.array([0, np.inf, -np.inf, 1.0]), 1e-3, 1e-3) is not None


def test_meanings_of_special_cases() -> None:
    def value(op: str, *numbers: int) -> int:
        return int(sl.evaluate(sl.apply(op, *[sl.constant(n, "int8") for n in numbers]), {}))

    with np.errstate(all="ignore"):
        assert [value("floordiv", 7, 0), value("floormod", 7, 0), value("truncdiv", 7, 0)] == [0, 0, 0]
        assert [value("truncmod", 7, 0), value("floordiv", -128, -1), value("add", 127, 1)] == [0, -128, -128]
        assert [value("truncdiv", -7, 2), value("truncmod", -7, 2), value("floormod", -7, 2)] == [-3, -1, 1]


def test_a_death_or_a_hang_costs_one_seed_and_names_it(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
import os, signal, sys

for seed in map(int, sys.argv[2 : sys.argv.index("--here")]):
    print("start", seed, flush=True)
    if seed == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if seed == 5:
        print("wrong", seed, "result: not equal", flush=True)
    if seed == 6:
        sys.exit(4)
    if seed == 7:
        os.kill(os.getpid(), signal.SIGALRM)
    print("right", seed, flush=True)
""")
    found, counts = run_seeds("te", range(9), program=str(program))
    assert {seed: reason.split(" more")[0] for seed, reason in found.items()} == {
        3: "died: SIGSEGV", 5: "result: not equal", 6: "died: exit code 4", 7: "hang:"
    }  # fmt: skip
    assert counts["right"] == 6


@pytest.mark.parametrize("rows, outside", [("0:3", None), ("0:2", "C reads B[2, 0], which is not among its regions")])
def test_what_a_block_touches_is_held_against_its_regions(rows: str, outside: str | None) -> None:
    func = from_source(f"""
@T.prim_func
def f(B: T.Buffer((3, 4)), C: T.Buffer((4,))):
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            T.reads(B[{rows}, v])
            T.writes(C[v])
            C[v] = B[0, v] + B[2, v]
""")
    assert outside_of_regions(func) == outside
