"""Every primitive refuses arguments of wrong kinds with a sentence, and leaves the schedule as it was."""

from typing import Any

import pytest

from tvmagic import tir
from tvmagic.errors import DefectError, TVMagicError
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError
from tvmagic.tir.schedule.instruction import InstructionKind

TEXT = """
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(2)
"""
JUNK = (None, -1, 3, 1.5, "nothing", [], [None], {}, (1, 2), object(), lambda *a: None, b"x")


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


def _arguments(block: Any, loop: Any, kind: InstructionKind, junk: Any, good: bool) -> tuple[list[Any], dict[str, Any]]:
    known = {
        "BlockRef": block,
        "Loop": loop,
        "BlockOrLoop": block,
        "LoopOrBlocks": loop,
        "Loops": [loop],
        "Sizes": [2, None],
        "Lengths": [2, None],
        "Size": 2,
        "BlocksIn": [],
    }
    named = {p.name: known.get(p.role or "", junk) if good else junk for p in kind.parameters if not p.variadic}
    return [loop if good else junk for p in kind.parameters if p.variadic], named


@pytest.mark.parametrize("good", [True, False], ids=["attributes", "all"])
@pytest.mark.parametrize("method", sorted(InstructionKind.methods))
def test_wrong_kinds(method: str, good: bool) -> None:
    start = tir.Schedule(parse(TEXT), debug_mask="all")
    kind, block = InstructionKind.methods[method], start.get_block("C")
    loop = start.get_loops(block)[0]
    for junk in JUNK:
        sch = start.copy()
        positional, named = _arguments(block, loop, kind, junk, good)
        mod, count = sch.mod, len(sch.trace.insts)
        try:
            getattr(sch, method)(*positional, **named)
        except TVMagicError as error:
            assert not isinstance(error, DefectError) and str(error)
            assert sch.mod is mod
            added = sch.trace.insts[count:]
            assert all(inst.kind.name == "GetBlock" for inst in added)
        sch.state.debug_verify()


def test_levels_of_errors() -> None:
    texts: dict[str, str] = {}
    for level in ("detail", "fast", "none"):
        sch = tir.Schedule(parse(TEXT), error_render_level=level)
        with pytest.raises(ScheduleError) as caught:
            sch.compute_inline("C")
        texts[level] = str(caught.value)
    assert "`C`" in texts["fast"] and "^^^" in texts["detail"] and texts["fast"] in texts["detail"]
    assert texts["none"] == "(not rendered)"


def test_same_seed_same_samples() -> None:
    def lines(seed: int) -> list[str]:
        sch = tir.Schedule(parse(TEXT), seed=seed)
        sch.split(loop := sch.get_loops("C")[0], sch.sample_perfect_tile(loop, 3))
        sch.sample_categorical([1, 2, 3], [0.2, 0.3, 0.5])
        return sch.trace.as_python()

    assert lines(7) == lines(7)
    assert len({tuple(lines(seed)) for seed in range(1, 30)}) > 5


def test_late_failure_is_rolled_back() -> None:
    sch = tir.Schedule(parse(TEXT), debug_mask="all")
    mod, loop = sch.mod, sch.get_sref(sch.get_loops("C")[0])
    stmt = loop.stmt
    with pytest.raises(RuntimeError), sch.state.transaction():
        assert isinstance(stmt, tir.For)
        sch.state.replace(loop, stmt.replace(annotations={"a": 1}))
        assert sch.mod is not mod
        raise RuntimeError
    assert sch.mod is mod and loop.stmt is stmt
    sch.state.debug_verify()
