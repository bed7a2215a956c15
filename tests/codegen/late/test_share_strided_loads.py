"""ShareStridedLoads: which interleaved strided loads share contiguous ones, and that each gets its own elements."""

from __future__ import annotations

import pytest
from late_passes import HASWELL, late, with_body

from tvmagic import codegen, ir
from tvmagic.codegen.late.share_strided_loads import offsets_of, share_loads, share_strided_loads
from tvmagic.eval.integers import evaluate
from tvmagic.ir.query import nodes_of

X, Z = ir.decl_buffer((400,), "float32", "X"), ir.decl_buffer((400,), "float32", "Z")
WIDE, ROWS = ir.decl_buffer((400,), "float32x2", "V"), ir.decl_buffer((20, 20), "float32", "R")
I = ir.Var("i", "int32")


def load(offset: int, stride: int, buffer: ir.Buffer = X, lanes: int = 4) -> ir.BufferLoad:
    return ir.BufferLoad(buffer, [ir.Ramp(I * 8 + offset, stride, lanes)])


def elements(value: ir.PrimExpr) -> list[tuple[str, int]]:
    """The elements that the lanes of a value are, for i = 3."""
    if isinstance(value, ir.Shuffle):
        every = [element for part in value.vectors for element in elements(part)]
        return [every[evaluate(index, {})] for index in value.indices]
    assert isinstance(value, ir.BufferLoad)
    (ramp,) = value.indices
    assert isinstance(ramp, ir.Ramp)
    base, stride = evaluate(ramp.base, {I: 3}), evaluate(ramp.stride, {})
    return [(value.buffer.name, base + stride * lane) for lane in range(ramp.dtype.lanes)]


@pytest.mark.parametrize(
    ("stride", "offsets", "shared"),
    [
        (2, [0, 1], True),
        (2, [1, 0], True),
        (2, [5, 6], True),
        (2, [6, 5], True),
        (2, [0, 0, 1], True),
        (2, [0], False),
        (2, [0, 2], False),
        (2, [0, 1, 2], False),
        (2, [0, 3], False),
        (3, [0, 1, 2], True),
        (3, [4, 2, 3], True),
        (3, [0, 1], False),
        (3, [0, 1, 3], False),
        (4, [2, 0, 3, 1], True),
        (4, [0, 1, 2], False),
        (5, [0, 1, 2, 3, 4], False),
        (1, [0], False),
        (1, [0, 1], False),
        (-2, [0, 1], False),
    ],
)
def test_loads_that_together_take_all_elements(stride: int, offsets: list[int], shared: bool) -> None:
    values: list[ir.PrimExpr] = [load(offset, stride) for offset in offsets]
    made = share_loads(values)
    assert [elements(value) for value in made] == [elements(value) for value in values]
    assert all(isinstance(value, ir.Shuffle) == shared for value in made) and (shared or made is values)
    parts = {str(part) for value in made if isinstance(value, ir.Shuffle) for part in value.vectors}
    assert len(parts) == (stride if shared else 0)


@pytest.mark.parametrize(
    "other",
    [
        load(1, 2, Z),
        load(1, 2, X, 8),
        load(1, 3),
        load(1, 2, WIDE),
        ir.BufferLoad(X, [ir.Ramp(I * 8 + 1, ir.Var("s", "int32"), 4)]),
        ir.BufferLoad(X, [ir.Ramp(I * 8 + 1, 2, 4)], ir.Ramp(I, 1, 4) < ir.Ramp(ir.IntImm("int32", 9), 0, 4)),
        ir.BufferLoad(X, [ir.Ramp(ir.Var("j", "int32"), 2, 4)]),
        ir.BufferLoad(X, [I]),
        ir.BufferLoad(ROWS, [I, ir.Ramp(1, 2, 4)]),
    ],
)
def test_loads_that_are_of_other_kinds(other: ir.BufferLoad) -> None:
    first = load(0, 2, other.buffer if other.buffer in (WIDE,) else X)
    for values in ([first, other], [other, first]):
        assert all(made is value for made, value in zip(share_loads([*values]), values, strict=True))
        assert first.dtype.lanes != other.dtype.lanes or offsets_of(values, 2) is None
    rows: list[ir.PrimExpr] = [ir.BufferLoad(ROWS, [I, ir.Ramp(n, 2, 4)]) for n in (0, 1)]
    assert share_loads(rows) is rows


def test_groups_are_shared_one_by_one() -> None:
    values: list[ir.PrimExpr] = [load(0, 2) + load(1, 2, Z), load(1, 2) * load(7, 3, Z), load(0, 2, Z)]
    first, second, third = share_loads(values)
    assert isinstance(first, ir.Add) and isinstance(second, ir.Mul) and isinstance(values[1], ir.Mul)
    shared = [first.a, first.b, second.a, third]
    assert all(isinstance(value, ir.Shuffle) for value in shared) and second.b is values[1].b
    assert [elements(value)[1] for value in shared] == [("X", 26), ("Z", 27), ("X", 27), ("Z", 26)]


def test_offsets_are_counted_from_the_first() -> None:
    for offsets in ([0, 1], [3, 2], [5, 6, 5]):
        assert offsets_of([load(n, 2) for n in offsets], 2) == [n - offsets[0] for n in offsets]
    assert offsets_of([load(0, 2), load(1, 2)], 3) is None


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_a_store_of_a_few_lanes_shares_what_it_loads(lanes: int) -> None:
    """Two vectors for all that both halves of pairs take; but not if each load is checked."""
    value = ir.BufferLoad(X, [ir.Ramp(0, 2, lanes)]) + ir.BufferLoad(X, [ir.Ramp(1, 2, lanes)])
    func = with_body(ir.BufferStore(Z, value, [ir.Ramp(0, 1, lanes)]), X, Z, noalias=False)
    made = late(share_strided_loads, func)
    assert made is not None and late(share_strided_loads, func, check_bounds=True) is None
    assert {str([*load.indices]) for load in nodes_of(made.body, ir.BufferLoad)} == {
        f"[T.Ramp({first}, 1, {lanes})]" for first in (0, lanes)
    }
    text = codegen.llvm_ir(func, HASWELL)
    assert text.count(f"load <{lanes} x float>") == text.count("= load") == 2
    raw, checked = (codegen.llvm_ir(func, HASWELL, False, check) for check in (False, True))
    assert "add i64 0, 1" not in raw and f"add i64 0, {lanes - 1}" not in raw and f"add i64 0, {lanes - 1}" in checked
