"""`check_bounds` stops a call if, and only if, a lane that is done touches a place outside: against counting, for all small numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from handmade import module
from refusals import refuses

import tvmagic
from tvmagic import codegen
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.eval.lanes import OutOfRange
from tvmagic.eval.machine import run_function
from tvmagic.ir import (
    GT,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    FloorDiv,
    For,
    ForKind,
    IntImm,
    PrimExpr,
    Ramp,
    Var,
    decl_buffer,
)
from tvmagic.ir.ops import if_then_else
from tvmagic.script import from_source

MEMORY = 24  # elements of the argument
Places = list[tuple[int, ...]]
n, m = Var("n", "int32"), Var("m", "int32")


def lanes(count: int, value: PrimExpr) -> PrimExpr:
    return Broadcast(value, count)


def below(limit: PrimExpr, count: int) -> PrimExpr:
    """The mask of the first `limit` lanes."""
    return Ramp(IntImm("int32", 0), 1, count) < Broadcast(limit, count)


# the shape and strides of a view of the argument, the indices by `n` and `m`, the places of the lanes, a mask
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], list[Any], Callable[[int, int], Places], PrimExpr | None]] = {
    "scalar": ((24,), (), [n * 5 + m], lambda a, b: [(a * 5 + b,)], None),
    "shorter": ((11,), (), [n * 3 + m], lambda a, b: [(a * 3 + b,)], None),
    "longer": ((30,), (), [n * 5 + m], lambda a, b: [(a * 5 + b,)], None),
    "row": ((24,), (), [Ramp(n * 5 + m, 1, 4)], lambda a, b: [(a * 5 + b + k,) for k in range(4)], None),
    "pair": ((24,), (), [Ramp(n * 5 + m, 1, 2)], lambda a, b: [(a * 5 + b + k,) for k in range(2)], None),
    "every third": ((24,), (), [Ramp(n * 5, 3, 4)], lambda a, b: [(a * 5 + 3 * k,) for k in range(4)], None),
    "backwards": ((24,), (), [Ramp(n * 5, -2, 4)], lambda a, b: [(a * 5 - 2 * k,) for k in range(4)], None),
    "any step": ((24,), (), [Ramp(n * 5, m, 4)], lambda a, b: [(a * 5 + b * k,) for k in range(4)], None),
    "turned": ((24,), (), [lanes(4, n * 5) - Ramp(m, 1, 4)], lambda a, b: [(a * 5 - b - k,) for k in range(4)], None),
    "some": ((24,), (), [Ramp(n * 5, 1, 4)], lambda a, b: [(a * 5 + k,) for k in range(4) if k < b], below(m, 4)),
    "some apart": (
        (24,),
        (),
        [Ramp(n * 5, 3, 4)],
        lambda a, b: [(a * 5 + 3 * k,) for k in range(4) if k < b],
        below(m, 4),
    ),
    "two": ((4, 6), (), [n, m], lambda a, b: [(a, b)], None),
    "two of a part": ((3, 5), (), [n, m], lambda a, b: [(a, b)], None),
    "two beyond": ((5, 6), (), [n, m], lambda a, b: [(a, b)], None),
    "two rows": ((4, 6), (), [n, Ramp(m, 1, 3)], lambda a, b: [(a, b + k) for k in range(3)], None),
    "rows beyond": ((6, 5), (), [n, Ramp(m, 1, 3)], lambda a, b: [(a, b + k) for k in range(3)], None),
    "pairs beyond": ((6, 5), (), [n, Ramp(m, 1, 2)], lambda a, b: [(a, b + k) for k in range(2)], None),
    "strided": ((3, 4), (8, 1), [n, m], lambda a, b: [(a, b)], None),
    "strided beyond": ((4, 4), (7, 2), [n, m], lambda a, b: [(a, b)], None),
    "strided rows": ((4, 4), (7, 2), [n, Ramp(m, 1, 2)], lambda a, b: [(a, b), (a, b + 1)], None),
    "columns": ((4, 4), (1, 6), [n, m], lambda a, b: [(a, b)], None),
    "three": ((2, 3, 4), (), [n, m, IntImm("int32", 3)], lambda a, b: [(a, b, 3)], None),
    "some rows": (
        (5, 6),
        (),
        [n, Ramp(IntImm("int32", 2), 1, 4)],
        lambda a, b: [(a, 2 + k) for k in range(4) if k < b],
        below(m, 4),
    ),
}


def inside(place: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether a place is one of the view, and of the memory behind it."""
    rows = strides or tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
    flat = sum(index * row for index, row in zip(place, rows, strict=True))
    return all(0 <= index < size for index, size in zip(place, shape, strict=True)) and 0 <= flat < MEMORY


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_places(case: str, stored: bool) -> None:
    shape, strides, indices, places, mask = CASES[case]
    x, y = decl_buffer((MEMORY,), "float32", "X"), decl_buffer((4,), "float32", "Y")
    view: Buffer = decl_buffer(shape, "float32", "V", data=x.data, strides=strides)
    count = max([index.dtype.lanes for index in indices])
    others = [Ramp(IntImm("int32", 0), 1, count)] if count > 1 else [IntImm("int32", 0)]
    ones = Broadcast(y[IntImm("int32", 0)], count) if count > 1 else y[IntImm("int32", 0)]
    body = BufferStore(view, ones, indices, mask) if stored else BufferStore(y, BufferLoad(view, indices, mask), others)
    built = codegen.compile_module(module(body, x, y, scalars=(n, m)), check_bounds=True)
    memory, out = np.arange(MEMORY, dtype="float32"), np.zeros(4, "float32")
    for a, b in itertools.product(range(-2, 8), range(-2, 7)):
        fine = all(inside(place, shape, strides) for place in places(a, b))
        try:
            built(memory, out, a, b)
        except BoundsError:
            assert not fine, (a, b)
        else:
            assert fine, (a, b)


BOXES = [((0, 3), (0, 4)), ((1, 3), (2, 4)), ((0, 5), (0, 5)), ((-1, 2), (0, 3)), ((0, 2), (-2, 3)), ((4, 2), (4, 2))]


@pytest.mark.parametrize("case", [name for name, (*_, mask) in CASES.items() if mask is None and name != "turned"])
def test_places_that_are_known_to_be_inside_are_not_checked(case: str) -> None:
    """Loops of constant ends leave a check if, and only if, one of their places is outside."""
    shape, strides, indices, places, _ = CASES[case]
    x, y = decl_buffer((MEMORY,), "float32", "X"), decl_buffer((4,), "float32", "Y")
    view = decl_buffer(shape, "float32", "V", data=x.data, strides=strides)
    count = max([index.dtype.lanes for index in indices])
    others = [Ramp(IntImm("int32", 0), 1, count)] if count > 1 else [IntImm("int32", 0)]
    store = BufferStore(y, BufferLoad(view, indices), others)
    for (first, rows), (begin, columns) in BOXES:
        body = For(n, first, rows, ForKind.SERIAL, For(m, begin, columns, ForKind.SERIAL, store))
        box = itertools.product(range(first, first + rows), range(begin, begin + columns))
        fine = all(inside(place, shape, strides) for a, b in box for place in places(a, b))
        text = codegen.llvm_ir(module(body, x, y), optimize=False, check_bounds=True)
        assert ("call i32 @tvm.fail" not in text) == fine, (first, rows, begin, columns)


@pytest.mark.parametrize("strides", [(5, 1), (-5, 1), (5, -1), (-1, -5)])
def test_places_of_an_argument_that_goes_backwards(strides: tuple[int, int]) -> None:
    """Indices that would be inside a memory as large may be in front of it, or behind."""
    x, y = decl_buffer((4, 5), "float32", "X", strides=strides), decl_buffer((1,), "float32", "Y")
    flat = decl_buffer((20,), "float32", "F", data=x.data)
    built = codegen.compile_module(module(BufferStore(y, flat[n], [0]), x, y, scalars=(n,)), check_bounds=True)
    memory, out = np.arange(100, dtype="float32"), np.zeros(1, "float32")
    corners = [i * strides[0] + j * strides[1] for i in (0, 3) for j in (0, 4)]
    given = np.lib.stride_tricks.as_strided(memory[50:], (4, 5), [4 * s for s in strides])
    for place in range(-30, 31):
        if min(corners) <= place <= max(corners):
            built(given, out, place)
            assert out[0] == 50 + place
        else:
            with pytest.raises(BoundsError):
                built(given, out, place)


@pytest.mark.parametrize("stored", [False, True])
def test_lanes_that_are_off_need_no_memory(stored: bool) -> None:
    """A view of an argument of `n` elements, also of none, in its first `m` lanes."""
    x, y = decl_buffer((n,), "float32", "X"), decl_buffer((4,), "float32", "Y")
    view, whole = decl_buffer((2, 4), "float32", "V", data=x.data), Ramp(IntImm("int32", 0), 1, 4)
    row: list[Any] = [IntImm("int32", 0), whole]
    mask = below(m, 4)
    body = BufferStore(view, y[whole], row, mask) if stored else BufferStore(y, BufferLoad(view, row, mask), [whole])
    built = codegen.compile_module(module(body, x, y, scalars=(m,)), check_bounds=True)
    for size, on in itertools.product(range(5), range(5)):
        given, out = np.arange(size, dtype="float32"), np.ones(4, "float32")
        if on > size:
            with pytest.raises(BoundsError):
                built(given, out, on)
        else:
            built(given, out, on)
            assert (out[:on] == np.arange(on)).all() or stored and (given[:on] == 1).all()


@pytest.mark.parametrize("count", [2, 4])
def test_the_index_of_a_masked_load_is_read_in_all_lanes(count: int) -> None:
    """As the interpreter does: the mask says in which lanes the load itself reads."""
    x, y = decl_buffer((8,), "float32", "X"), decl_buffer((4,), "float32", "Y")
    places = decl_buffer((6,), "int32", "P")
    load = BufferLoad(x, [BufferLoad(places, [Ramp(n, 1, count)])], below(m, count))
    func = module(BufferStore(y, load, [Ramp(IntImm("int32", 0), 1, count)]), x, places, y, scalars=(n, m))
    checked, plain = (codegen.compile_module(func, check_bounds=check) for check in (True, False))
    values, wild = np.arange(8, dtype="float32"), np.array([3, 8, 0, 7, -1, 2], "int32")
    for a, b in itertools.product(range(-1, 7), range(count + 1)):
        out, same, wanted = (np.zeros(4, "float32") for _ in range(3))
        try:
            run_function(func["main"], (values, wild, wanted, np.array(a), np.array(b)))
        except OutOfRange:
            with pytest.raises(BoundsError):
                checked(values, wild, out, a, b)
        else:
            checked(values, wild, out, a, b)
            plain(values, wild, same, a, b)
            assert out[:b].tolist() == same[:b].tolist() == wanted[:b].tolist()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_divisors(count: int) -> None:
    """One lane that is zero is enough."""
    x, y = decl_buffer((count,), "int32", "X"), decl_buffer((count,), "int32", "Y")
    places = [Ramp(IntImm("int32", 0), 1, count)] if count > 1 else [IntImm("int32", 0)]
    seven = Broadcast(IntImm("int32", 7), count) if count > 1 else IntImm("int32", 7)
    body = BufferStore(y, FloorDiv(seven, BufferLoad(x, places)), places)
    built, out = codegen.compile_module(module(body, x, y), check_bounds=True), np.zeros(count, "int32")
    for values in itertools.product((0, 2, -3), repeat=count):
        given = np.array(values, "int32")
        if 0 in values:
            with refuses("call.division_by_zero"):
                built(given, out)
        else:
            built(given, out)
            np.testing.assert_array_equal(out, 7 // given)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_divisors_of_lanes_that_are_off(count: int) -> None:
    """A divisor is looked at in the lanes that divide."""
    x, y, z = (decl_buffer((count,), "int32", name) for name in "XYZ")
    places = [Ramp(IntImm("int32", 0), 1, count)] if count > 1 else [IntImm("int32", 0)]
    seven, zero = (Broadcast(IntImm("int32", v), count) if count > 1 else IntImm("int32", v) for v in (7, 0))
    value = if_then_else(GT(BufferLoad(z, places), zero), FloorDiv(seven, BufferLoad(x, places)), zero)
    built = codegen.compile_module(module(BufferStore(y, value, places), x, z, y), check_bounds=True)
    out = np.zeros(count, "int32")
    for values in itertools.product((0, 2, -3), repeat=count):
        for on in itertools.product((0, 1), repeat=count):
            given, taken = np.array(values, "int32"), np.array(on, "int32")
            if any(v == 0 and t for v, t in zip(values, on)):
                with refuses("call.division_by_zero"):
                    built(given, taken, out)
            else:
                built(given, taken, out)
                np.testing.assert_array_equal(out, np.where(taken, 7 // np.where(given, given, 1), 0))


HEAD = "from tvm.script import tir as T\n\n@T.prim_func\n"


@pytest.mark.parametrize(
    ("size", "offset", "first", "inside"),
    [
        (4, 4, 0, True),
        (4, 4, 1, False),
        (8, 8, 4, True),
        (8, 8, 5, False),
        (8, 4, 0, True),
        (8, 4, 4, True),
        (4, 0, 1, False),
        (12, 4, 8, True),
        (12, 4, 9, False),
    ],
)
def test_vector_access_of_view_is_checked_against_view(size: int, offset: int, first: int, inside: bool) -> None:
    """Places are counted from where the part begins."""
    text = f"""def main(A: T.Buffer((16,), "int32"), B: T.Buffer((4,), "int32")):
    V = T.Buffer(({size},), "int32", data=A.data, elem_offset={offset})
    B[0:4] = V[{first}:{first + 4}]"""
    run = tvmagic.build(from_source(HEAD + text), check_bounds=True)
    array, out = np.arange(16, dtype="int32"), np.zeros(4, "int32")
    if inside:
        run(array, out)
        np.testing.assert_array_equal(out, array[offset + first : offset + first + 4])
    else:
        with pytest.raises(TVMagicError):
            run(array, out)
