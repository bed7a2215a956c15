"""No step loses a statement: what still does some of its work leads back to it.

`origin_laws` sees by names of arguments and by constants what a statement became, and compares with the origins.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import te_programs
import tir_programs
from dense_schedules import BLOCKS
from origin_laws import programs, show, table
from ten_kernels import NAMES, kernel_named

import tvmagic
from benchmarks import kernels
from tvmagic import te, tir
from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimFunc, structural_equal
from tvmagic.ir.origins import with_new_origins
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.passes import Record, prim_func_pass, recording

DENSE = """X: float32[1536, 64]
W: float32[64, 128]
b: float32[128]
Y[i, j] += X[i, k] * W[k, j]
Z[i, j] = max(Y[i, j] + b[j], 0.123)"""
STAGES = """y, z = s[Y], s[Z]
io, jo, ii, ji = z.tile(*z.axis, 6, 16)
y.compute_at(z, jo)
y.reorder(*y.reduce_axis, *y.axis)
y.unroll(y.axis[0])
y.vectorize(y.axis[1])
z.vectorize(ji)
z.parallel(io)"""
CACHED = 'sch.cache_read("Y", 1, "global")\n' + BLOCKS
SEEDS = 12  # of each kind


def assert_nothing_lost(record: Record, what: str) -> None:
    rows = table(record)
    print(f"{what}\n{show(rows)}")
    assert len(rows) > 20, "the record has the passes"
    for row in rows:
        assert not row.lost, f"{what}: {row.step} lost {row.lost[0]}"


@pytest.mark.parametrize("cell", ["", STAGES, CACHED], ids=["plain", "te", "tensorir"])
def test_schedules_of_dense_lose_nothing(cell: str) -> None:
    op = operator("dense", DENSE)
    version = schedule(op, cell) if cell else None
    record = op.passes(version, code=False)
    assert_nothing_lost(record, "dense")
    *_, (_, recorded) = programs(record)
    assert structural_equal(recorded, op.lower(version and version.schedule)), "recording changes no program"


@pytest.mark.parametrize("name", NAMES)
def test_schedules_of_kernels_lose_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, tensors = kernel_named(name, monkeypatch)

    def lowered() -> Any:
        sch = tir.Schedule(te.create_prim_func(tensors))
        kernel.schedule(kernels.Steps(sch))
        return tvmagic.lower(sch.mod)

    with recording() as record:
        recorded = lowered()
    assert_nothing_lost(record, name)
    assert structural_equal(recorded, lowered()), "recording changes no program"


def lowered_stages(case: te_programs.Case) -> Any:
    case.make()
    names = [*case.program.sizes, *[t.name for t in (*case.args, *case.results)]]
    case.source.run(f"m = tvmagic.lower(s, [{', '.join(names)}])")
    return case.source.names["m"]


def lowered_blocks(case: tir_programs.Case) -> Any:
    case.make()
    case.source.run("m = tvmagic.lower(sch.mod)")
    return case.source.names["m"]


@pytest.mark.parametrize(
    ("make", "lower"), [(te_programs.Case, lowered_stages), (tir_programs.Case, lowered_blocks)], ids=["te", "tensorir"]
)
@pytest.mark.parametrize("count", [SEEDS, pytest.param(8 * SEEDS, marks=pytest.mark.soak)])
def test_random_schedules_lose_nothing(make: Callable[[int], Any], lower: Callable[[Any], Any], count: int) -> None:
    first = 5000 if count == SEEDS else random.randrange(10**6)  # long runs look at other programs each time
    print(f"seeds from {first}")
    done = 0
    for seed in range(first, first + count):
        with recording() as record:
            try:
                recorded = lower(make(seed))
            except Exception as error:  # refused calls and programs are other tests' subject
                assert (
                    isinstance(error, TVMagicError) or "refused" in str(error) or type(error).__module__ != "builtins"
                ), error
                continue
        assert_nothing_lost(record, f"{make.__module__} seed {seed}")
        if done % 5 == 0:
            assert structural_equal(recorded, lower(make(seed))), f"recording seed {seed} changes no program"
        done += 1
    assert done > count // 2


@prim_func_pass(opt_level=0)
def Forgetful(func: PrimFunc, mod: Any, context: Any) -> PrimFunc:
    """A pass that builds everything anew."""
    return with_new_origins(func)


def test_a_pass_that_forgets_origins_is_noticed() -> None:
    op = operator("dense", DENSE)
    with recording() as record:
        Forgetful(op.lower(None))
    assert table(record)[-1].lost
