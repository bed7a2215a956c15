"""Blocks whose variables do not begin at 0, are alone in their domain, or end at a size: what primitives make of their indices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from pass_checks import parse, script

from tvmagic import tir
from tvmagic.eval.machine import run_function
from tvmagic.ir import PrimFunc

MOVED = """def main(A: T.Buffer((24, 24), "int32"), C: T.Buffer((24, 24), "int32")):
    B = T.alloc_buffer(({shape}), "int32")
    for i, j in T.grid({rows}, {columns}):
        with T.block("B"):
            vi = T.axis.spatial(({first}, {first} + {rows}), i + {first})
            vj = T.axis.spatial(({second}, {second} + {columns}), j + {second})
            B[{place}] = A[vi, vj] * 2
    for i, j in T.grid({rows}, {columns}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[{read}] + 1
"""
# where an element is, and where the element (vi + first, vj + second) is read
PLACES = [
    ("24, 24", "vi, vj", "vi + {first}, vj + {second}"),
    ("24, 24", "vj, vi", "vj + {second}, vi + {first}"),
    ("24, 24", "vi - {first}, vj + 3", "vi, vj + {second} + 3"),
    ("24, 24", "23 - vi, vj", "23 - (vi + {first}), vj + {second}"),
    ("24, 1, 24", "vi, 0, vj", "vi + {first}, 0, vj + {second}"),
    ("{rows} * {columns}", "(vi - {first}) * {columns} + (vj - {second})", "vi * {columns} + vj"),
]


def values(func: PrimFunc, outputs: int = 1) -> np.ndarray:
    """What a function leaves in its arrays, one after another, of which the last `outputs` begin with zeros."""
    shapes = [tuple(int(n.value) for n in func.buffer_map[p].shape) for p in func.params]
    rng = np.random.default_rng(3)
    arrays = [rng.integers(0, 99, shape).astype("int32") for shape in shapes]
    for array in arrays[len(arrays) - outputs :]:
        array[...] = 0
    run_function(func, arrays)
    return np.concatenate([array.ravel() for array in arrays])


def moved(text: str, primitive: str, block: str, other: str, at: int) -> tir.Schedule:
    sch = tir.Schedule(parse(text))
    getattr(sch, primitive)(sch.get_block(block), sch.get_loops(other)[at])
    return sch


@pytest.mark.parametrize(("shape", "place", "read"), PLACES)
@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (0, 7), (5, 7)])
def test_a_block_that_begins_later_is_moved(shape: str, place: str, read: str, first: int, second: int) -> None:
    sizes = {"first": first, "second": second, "rows": 3, "columns": 4}
    text = MOVED.format(shape=shape, place=place, read=read, **sizes).format(**sizes)
    before = values(parse(text))
    for (primitive, block, other), at in itertools.product(
        (("compute_at", "B", "C"), ("reverse_compute_at", "C", "B")), (0, 1)
    ):
        sch = moved(text, primitive, block, other, at)
        assert math.prod(int(sch.get(loop).extent.value) for loop in sch.get_loops(block)) == 12, "each element once"
        np.testing.assert_array_equal(values(sch.mod["main"]), before)


INTO = """def main(A: T.Buffer((24,), "int32"), C: T.Buffer((24,), "int32")):
    B = T.alloc_buffer((24,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(({first}, {first} + 8), i + {first})
            B[{place}] = A[v] * 2 + v
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(({second}, {second} + 8), i + {second})
            C[{write}] = B[{read}] + v
"""


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (0, 4), (5, 4)])
@pytest.mark.parametrize("back", [False, True])
def test_a_block_that_begins_later_is_inlined(first: int, second: int, back: bool) -> None:
    """Into its reader, and its reader into it: the variables of each in terms of the other's."""
    shift = first - second
    for place, read, write in (
        ("v", f"v + {shift}", "v"),
        ("23 - v", f"23 - (v + {shift})", "v + 1"),
        ("v + 3", f"v + {shift + 3}", "20 - v"),
    ):
        text = INTO.format(first=first, second=second, place=place, read=read, write=write)
        sch = tir.Schedule(parse(text))
        if back:
            sch.reverse_compute_inline("C")
        else:
            sch.compute_inline("B")
        assert "B = T.alloc" not in script(sch.mod)
        np.testing.assert_array_equal(values(sch.mod["main"]), values(parse(text)))


SINGLE = """def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid({rows}, 8):
        with T.block("B"):
            vi = T.axis.spatial(({first}, {first} + {rows}), i + {first})
            vj = T.axis.spatial(8, j)
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(1, 8):
        with T.block("C"):
            vi = T.axis.spatial(({row}, {row} + 1), i + {row})
            vj = T.axis.spatial(8, j)
            C[vi, vj] = B[vi, vj] + 1
"""


@pytest.mark.parametrize("row", [0, 3, 7])
@pytest.mark.parametrize("at", [0, 1])
def test_a_single_row_is_computed_as_it_is_there(row: int, at: int) -> None:
    """The reader of one row runs in one iteration of the writer's loop; one row that is written is where it was."""
    text = SINGLE.format(rows=8, first=0, row=row)
    sch = moved(text, "reverse_compute_at", "C", "B", at)
    assert "T.where(" in script(sch.mod)
    np.testing.assert_array_equal(values(sch.mod["main"]), values(parse(text)))
    text = SINGLE.format(rows=1, first=row, row=row)
    for primitive, block, other in (("compute_at", "B", "C"), ("reverse_compute_at", "C", "B")):
        sch = moved(text, primitive, block, other, at)
        assert "T.where(" not in script(sch.mod)
        np.testing.assert_array_equal(values(sch.mod["main"]), values(parse(text)))


NESTED = """def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    for i in range(4):
        with T.block("outer"):
            vo = T.axis.spatial(4, i)
            T.reads(A[vo, 0:8])
            T.writes(C[vo, 0:8])
            B = T.alloc_buffer((4,), "int32")
            for k in range(8):
                with T.block("B"):
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        B[vo] = 0
                    B[vo] = B[vo] + A[vo, vk]
            for j in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(8, j)
                    C[vo, vj] = B[vo] * A[vo, vj]
"""


def test_variables_of_the_block_around_are_no_part_of_a_domain() -> None:
    """The sum is at an index of the outer block: all of it is computed where it is read."""
    sch = moved(NESTED, "compute_at", "B", "C", 0)
    assert [int(sch.get(loop).extent.value) for loop in sch.get_loops("B")] == [8, 8]
    np.testing.assert_array_equal(values(sch.mod["main"]), values(parse(NESTED)))


PART = """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v + 4] = A[v] * 2
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v + 4] + 1
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[11 - v]
"""


@pytest.mark.parametrize("readers", [["C"], ["D"], ["C", "D"], []])
def test_a_copy_of_what_is_written_is_read_at_its_own_places(readers: list[str]) -> None:
    """It begins with the first element that the block writes; who is not named reads the buffer where it did."""
    sch = tir.Schedule(parse(PART))
    sch.cache_read(readers[0] if readers else "C", 0, "local", readers)
    text = script(sch.mod)
    assert "B_local = T.alloc_buffer((8,)" in text
    reads = {"C": ("B[v + 4]", "B_local[v]"), "D": ("B[11 - v]", "B_local[7 - v]")}
    for name, (old, new) in reads.items():
        assert (new if name in (readers or "CD") else old) + (" + 1" if name == "C" else "") in text
    np.testing.assert_array_equal(values(sch.mod["main"], 2), values(parse(PART), 2))


@pytest.mark.parametrize("readers", [["C"], ["D"], []])
def test_a_copy_of_what_is_written_is_written_at_its_own_places(readers: list[str]) -> None:
    sch = tir.Schedule(parse(PART))
    sch.cache_write("B", 0, "local", readers)
    assert "B_local = T.alloc_buffer((8,)" in script(sch.mod)
    np.testing.assert_array_equal(values(sch.mod["main"], 2), values(parse(PART), 2))


SIZED = """def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "int32")
    C = T.match_buffer(c, (n,), "int32")
    B = T.alloc_buffer((n,), "int32")
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * 2
    for i, j in T.grid({tiles}, {size}):
        with T.block("C"):
            v = T.axis.spatial(n, i * {size} + j)
            {guard}
            C[v] = B[{read}] + 1
"""
WHERE = "T.where(i * 8 + j < n)"


@pytest.mark.parametrize(
    ("tiles", "size", "guard", "guarded"),
    [
        ("n // 8", 8, "", False),
        ("(n + 7) // 8", 8, WHERE, True),
        ("n // 8 - 1", 8, "", False),
        ("n", 1, "", False),
        ("n // 8 + 1", 8, WHERE, True),
        ("1", "n", "", False),
    ],
)
@pytest.mark.parametrize("read", ["v", "n - 1 - v"])
def test_a_part_of_a_size_that_stays_inside_needs_no_condition(
    tiles: str, size: str, guard: str, guarded: bool, read: str
) -> None:
    """Eights of `n // 8 * 8` elements stay inside: their loops count it, where their ends alone do not say it."""
    text = SIZED.format(tiles=tiles, size=size, guard=guard, read=read)
    sch = moved(text, "compute_at", "B", "C", 0)
    assert ("T.where" in script(sch.mod).split('block("C")')[0]) is guarded
    for n in (8, 24) if guard else (8, 13, 24):
        a, outs = np.arange(n, dtype="int32"), [np.zeros(n, "int32") for _ in range(2)]
        for out, func in zip(outs, (sch.mod["main"], parse(text))):
            run_function(func, [a, out, np.array(n, "int32")])
        np.testing.assert_array_equal(*outs)


CUT = """def main(A: T.Buffer((12,), "int32"), C: T.Buffer((12,), "int32")):
    for i in range({extent}):
        with T.block("B"):
            v = T.axis.spatial(12, {value})
            T.where(0 <= {value} and {value} < 12)
            C[v] = A[v] * 2 + v
"""


@pytest.mark.parametrize(
    ("extent", "value"), [(12, "i"), (16, "i"), (16, "i - 2"), (12, "11 - i"), (16, "13 - i"), (20, "i - 8")]
)
@pytest.mark.parametrize("factor", [1, 2, 5, 9, 11])
def test_pieces_of_a_loop_stay_inside_their_buffers(extent: int, value: str, factor: int) -> None:
    """What a piece declares is what it accesses: the values that a condition leaves out are no part of its domain."""
    text = CUT.format(extent=extent, value=value)
    sch = tir.Schedule(parse(text))
    sch.loop_partition(sch.get_loops("B")[0], [factor, None])
    np.testing.assert_array_equal(values(sch.mod["main"]), values(parse(text)))
    for number, piece in enumerate((range(factor), range(factor, extent))):
        reached = [v for v in (eval(value, {"i": i}) for i in piece) if 0 <= v < 12]
        block = sch.get(sch.get_block(f"B_i{number}"))
        for side in (block.iter_vars[0].dom, block.reads[0].region[0], block.writes[0].region[0]):
            declared = range(int(side.min), int(side.min) + int(side.extent))
            assert list(declared) == (sorted(reached) or list(range(12)))
