"""Calls of primitives preserve results, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import parse

from tvmagic import tir
from tvmagic.errors import ScheduleError
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
