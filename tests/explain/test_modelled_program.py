"""The model reads the last program: what late passes and annotations say of loops decides, not a guess."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

from tvmagic.codegen import last_program
from tvmagic.explain import explain
from tvmagic.model.nests import nests_of
from tvmagic.model.program_model import model
from tvmagic.operators import Version, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.target import resolved

WIDE, HASWELL = "llvm -mcpu=skylake-avx512 -num-cores=1", "llvm -mcpu=haswell -num-cores=1"
PRODUCT = "A: float32[96, 100]\nB: float32[100, 192]\nC[i, j] += A[i, k] * B[k, j]"


def modelled(version: Version, target: str = WIDE) -> Any:
    """The model of a version's last program."""
    func = next(iter(last_program(version.lower(), target).functions.values()))
    return model(func, resolved(target).machine)


def annotated(key: str, value: str) -> Version:
    """A product whose innermost loop, of 32 columns, is annotated."""
    cell = (
        'i, j, k = sch.get_loops(sch.get_block("C"))\njo, ji = sch.split(j, [None, 32])\nsch.reorder(i, jo, k, ji)\n'
        f'sch.decompose_reduction(sch.get_block("C"), k)\nsch.annotate(ji, "{key}", {value})'
    )
    return schedule(operator("product", PRODUCT), cell, "annotated")


def test_a_loop_that_must_not_be_unrolled_is_the_innermost_one() -> None:
    free, kept = (
        modelled(annotated(key, value)).hot[0] for key, value in (("note", "1"), ("llvm.unroll", "'disable'"))
    )
    assert (free.rolled.name, kept.rolled.name) == ("k", "j_1")
    assert free.sums == 2 and kept.sums == 0


def test_a_loop_that_is_kept_scalar_has_no_vectors() -> None:
    version = annotated("llvm.vectorize", "0")
    found = modelled(version).hot[0]
    assert not found.vectorized and found.reason == "kept scalar"
    first = explain(version, WIDE, llvm=False, seconds=120).findings[0]
    assert first.code == "not-vectorized" and "keeps LLVM from making vectors" in first.text


def test_vectors_of_partial_sums_are_as_many_as_the_loop_says() -> None:
    sums = []
    for extent in (96, 1024):
        op = operator("sum", f"X: float32[64, {extent}]\nS[i] += X[i, k]")
        version = schedule(op, 's[S].pragma(s[S].op.reduce_axis[0], "any_order")', "any")
        sums.append(modelled(version).hot[0].sums)
    assert sums == [4, 8]


def test_sums_in_a_loop_that_polls_stay_in_memory() -> None:
    """The loop may be left before an iteration stores its sums, so that LLVM keeps none in registers."""
    text = "A: float32[64, {0}]\nB: float32[{0}, 128]\nC[i, j] += A[i, k] * B[k, j]"
    order = "s[C].reorder(C.op.axis[0], s[C].op.reduce_axis[0], C.op.axis[1])"
    short, long = (modelled(schedule(operator("mm", text.format(k)), order, "v")).hot[0] for k in (64, 8192))
    assert short.rolled.name == long.rolled.name == "k"
    assert short.sums == 8 and long.sums == 0


def test_strips_move_each_byte_once() -> None:
    """A loop of seconds is two loops, so that it can be interrupted."""
    count = 3_000_000_000
    (nest,) = modelled(
        operator("strip", f"X: float32[{count}]\nY: float32[{count}]\nY[i] = X[i] + 1").version("plain")
    ).nests
    assert len(nest.nest.loops) == 2 and nest.by_llvm
    assert nest.bytes["memory"] == pytest.approx(3 * 4 * count, rel=0.01)


def test_values_of_variables_are_computed_once() -> None:
    """The 24 lanes of a store are 16 and 8, each of whose values is a variable's first."""
    op = operator("odd", "A: float32[96, 240]\nB: float32[96, 240]\nY[i, j] = A[i, j] * B[i, j]")
    version = schedule(op, "s[Y].vectorize(s[Y].split(Y.op.axis[1], 24)[1])", "odd")
    func = next(iter(last_program(version.lower(), HASWELL).functions.values()))
    (nest,) = nests_of(func)[0]
    assert [s.lanes for s in nest.statements] == [16, 8]
    assert [(s.operations.simple, len(s.loads)) for s in nest.statements] == [(1, 2), (1, 2)]
    assert math.prod(loop.extent for loop in nest.loops) * sum(s.lanes for s in nest.statements) == 96 * 240


def test_copies_that_choose_by_their_number_are_no_vectors() -> None:
    op = operator("band", "A: float32[600, 600]\nY: float32[600, 600]\nY[i, j] = A[i, j] if j <= i else 0")
    split = "s[Y].split(Y.op.axis[1], 8)"
    plain, copies = (modelled(schedule(op, cell, "v"), HASWELL).hot[0] for cell in ("pass", split))
    assert plain.by_llvm and copies.reason == "choice" and copies.time > 2 * plain.time


def test_the_model_needs_no_llvm() -> None:
    code = (
        "import sys\nsys.modules['llvmlite'] = None\n"
        "from tvmagic.operators import operator\nfrom tvmagic.explain import explain\n"
        f"op = operator('mm', {PRODUCT!r})\n"
        "print(explain(op, llvm=False, seconds=0).loops[0].nest)\n"
        "try:\n    explain(op, seconds=0)\nexcept Exception as error:\n    print(error.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["C", "target.no_llvm"]


def test_nests_of_a_parallel_loop_start_its_threads_once() -> None:
    version = schedule(operator("product", PRODUCT), "s[C].parallel(C.op.axis[0])", "rows")
    nests = modelled(version, "llvm -mcpu=haswell -num-cores=4").nests
    assert len(nests) == 2 and [n.launches for n in nests] == [1, 1]
    assert sum(n.starts for n in nests) == 1
