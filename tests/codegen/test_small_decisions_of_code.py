"""Decisions of code generation that few programs come to, each as a table."""

from __future__ import annotations

import pathlib

import pytest

from tvmagic import codegen
from tvmagic.codegen.intervals import Intervals
from tvmagic.codegen.target import machine
from tvmagic.codegen.target.machine import Cache, Machine
from tvmagic.errors import BuildError
from tvmagic.ir import IntImm, Max, Min, PrimExpr, Var
from tvmagic.script import from_source

HEAD = (
    "from tvm.script import tir as T\n\n@T.prim_func\ndef main(A: T.Buffer((64,), '{}'), B: T.Buffer((64,), '{}')):\n"
)


def text(body: str, target: str = "opencl", dtype: str = "float32") -> str:
    return codegen.assembly(from_source(HEAD.format(dtype, dtype) + body), target)


def test_caches_as_linux_describes_them(tmp_path: pathlib.Path) -> None:
    kinds = [
        ("Data", 1, "48K", "0"),
        ("Instruction", 1, "32K", "0"),
        ("Unified", 2, "2M", "0-1"),
        ("Unified", 3, "1G", "0-3,8,10-11"),
    ]
    for number, (kind, level, size, cores) in enumerate(
        [*kinds, ("Unified", 4, "0", "0"), ("Unified", 5, "none", "0")]
    ):
        (tmp_path / f"index{number}").mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size), ("shared_cpu_list", cores)):
            (tmp_path / f"index{number}" / name).write_text(f"{value}\n")
    found = machine._linux_caches(tmp_path)
    assert found == (Cache(1, 48 << 10, 1), Cache(2, 2 << 20, 2), Cache(3, 1 << 30, 7))
    assert machine._cores_in("") == 1


def test_a_machine_is_one_that_is_known_by_default() -> None:
    known = Machine(
        "x", 256, 16, 2, 4, 2, 64, (Cache(1, 32 << 10, 1), Cache(2, 1 << 20, 1), Cache(3, 1 << 25, 4)), 2, "a test"
    )
    assert not known.generic and known.stored == 0 and known.storing(64) == 1.0
    assert [known.cache(n) for n in (1, 2, 3, 4)] == [32 << 10, 1 << 20, 1 << 24, 1 << 24]
    assert (known.lanes("int8"), known.lanes("float32"), known.sums_in_flight()) == (32, 8, 8)
    assert {v for _, v in known.tiles()} == {1, 2, 3, 4} and (13, 1) in known.tiles() and (14, 1) not in known.tiles()


@pytest.mark.parametrize(("deep", "interval"), [(1, (0, 1)), (15, (0, 1)), (16, (0, 1)), (17, (-1, 6)), (18, (-1, 7))])
def test_expressions_are_followed_32_deep(deep: int, interval: tuple[int, int]) -> None:
    intervals, i = Intervals(), Var("i", "int32")
    intervals.known[i] = (0, 1)
    e: PrimExpr = i
    for n in range(deep):
        e = Max(i - 1, Min(e, IntImm("int32", 5 + n)))
    assert intervals.of(e) == interval


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    B[0:2] = T.Shuffle([A[0:2]], [0, 2])", "constants within its vectors"),
        ("    B[0:2] = T.Shuffle([A[0:2]], [-1, 1])", "constants within its vectors"),
        ("    S = T.allocate([4], 'float32x2', 'local')\n    T.evaluate(0)", "memory of vectors `float32x2`"),
        ("    S = T.allocate([4], 'float32', 'warp')\n    T.evaluate(0)", "`warp` memory"),
        ("    T.evaluate(T.ret(1))", "a kernel gives no value|gives a number"),
    ],
)
def test_what_opencl_has_no_words_for(body: str, says: str) -> None:
    launched = "    with T.launch_thread('threadIdx.x', 2) as tx:\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )
    with pytest.raises(BuildError, match=says):
        text(launched)


def test_the_text_of_a_module_of_kernels_is_its_own_by_default() -> None:
    import tvmagic

    mod = from_source(
        HEAD.format("float32", "float32") + "    with T.launch_thread('threadIdx.x', 8) as tx:\n        B[tx] = A[tx]"
    )
    assert "__kernel" in tvmagic.build(mod, target="opencl").get_source()
    built = tvmagic.build(mod, target="nvptx -arch=sm_70")
    assert ".visible .entry" in built.get_source() and "__kernel" in built.get_source("cl")
