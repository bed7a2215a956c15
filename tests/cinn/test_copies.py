"""Caches and single elements: what is copied or left out must be just what is stored and loaded, element for element."""

from __future__ import annotations

import re

import numpy as np
import pytest
from nests import block, guarded, left, nest, refused

from tvmagic.cinn import IRSchedule
from tvmagic.script import from_cinn

ORDER = np.array([3, 0, 5, 1, 4, 2], "int32")
TABLE = np.arange(24, dtype="float32").reshape(4, 6)
SIZES = {"A": (4, 6), "X": (4, 6), "Y": (4, 6), "L": (4,)}


def made_of(*parts: str, outputs: str = "") -> IRSchedule:
    known: dict[str, tuple[tuple[int, ...], str]] = {name: (shape, "float32") for name, shape in SIZES.items()}
    known["I"] = ((6,), "int32")
    return IRSchedule(from_cinn("\n".join(parts), known, outputs=list(outputs)))


def same_after(made: IRSchedule, before: dict[str, np.ndarray]) -> None:
    for name, array in left(made, A=TABLE, I=ORDER).items():
        np.testing.assert_array_equal(array, before[name], name)


GAPS = "block `B` is not known to store all elements of `Y` that would be copied"


@pytest.mark.parametrize(
    ("loops", "bound", "at", "whole"),
    [
        ("i:4 j:6", "i, j", "i0, i1", True),
        ("i:4 j:3", "i, (j + 2)", "i0, i1", True),
        ("i:4 j:3", "i, j", "i0, (i1 + 2)", True),
        ("i:4 j:3", "i, j", "i0, (5 - i1)", True),
        ("i:4 j:6", "(i % 2), j", "i0, i1", True),
        ("i:4 j:6", "i, (j / 2)", "i0, i1", True),
        ("i:4", "i", "i0, 3", True),
        ("i:4 j:3", "i, (2 * j)", "i0, i1", False),
        ("i:4 j:3", "i, j", "i0, (2 * i1)", False),
        ("i:2 j:6", "(2 * i), j", "i0, i1", False),
        ("i:4", "i", "i0, i0", False),
        ("i:4", "i", "i0, (i0 + 1)", False),
        ("i:4 j:6", "i, j", "i0, t", True),
        ("f:24", "(f / 6), (f % 6)", "i0, i1", True),
        ("f:12", "(f / 6), (f % 6)", "i0, i1", True),
        ("f:9", "(f / 6), (f % 6)", "i0, i1", False),
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_what_is_written_through_a_cache_is_what_is_stored(
    loops: str, bound: str, at: str, whole: bool, beside: bool
) -> None:
    """Elements between those that a block stores keep what the caller put there.

    If a reader is in the block's outermost loop, the copy is too; then it is one row that must have no gaps.
    """
    store = f"Y[{at}] = (A[1, 2] + i0)".replace("+ i0", "+ 3.0f")
    lines = nest("t:6", store) if at.endswith("t") else store
    if beside:
        first, _, rest = loops.partition(" ")
        name = first.partition(":")[0]
        inner = nest(rest, block("B", bound, lines)) if rest else block("B", bound, lines)
        made = made_of(nest(first, inner, block("L", f"({name} % 4)", "L[i0] = Y[i0, 0]")), outputs="Y")
        whole = whole or name == "f" or loops.startswith("i:2") or loops == "i:4"
    else:
        made = made_of(nest(loops, block("B", bound, lines)), outputs="Y")
    before = left(made, A=TABLE, I=ORDER)
    if not whole:
        refused(made, lambda s: s.cache_write("B", 0, "local"), GAPS)
        return
    made.cache_write("B", 0, "local")
    same_after(made, before)


def test_a_part_that_begins_before_its_tensor_is_not_copied() -> None:
    regions = "write_buffers(_L[i0(0:3)])"
    inner = guarded("(i > 0)", block("B", "(i - 1)", regions, "L[i0] = A[i0, 0]"))
    made = made_of(nest("i:4", inner, block("Z", "0", "X[0, 0] = L[2]")))
    said = "what block `B` stores in an iteration is not a range of a known size"
    refused(made, lambda s: s.cache_write("B", 0, "local"), said)


def test_the_range_of_a_variable_of_a_moving_part_is_the_whole_dimension() -> None:
    made = made_of(
        nest(
            "i:4", nest("j:3", block("B", "i, j", "Y[i0, (i1 + 2)] = A[i0, i1]")), block("L", "i", "L[i0] = Y[i0, 3]")
        ),
        outputs="Y",
    )
    made.cache_write("B", 0, "local")
    assert "write_buffers(_Y[v0(0:4), v1(2:5)])" in made.text()


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    "lines",
    [
        ("X[i0, i1] = A[i0, i1]", "Y[i0, (i1 + 3)] = 1.0f"),
        ("L[i0] = A[i0, i1]", "Y[i0, (i1 + 3)] = 1.0f"),
        ("Y[i0, (i1 + 3)] = A[i0, 2]", "L[i0] = A[i0, i1]"),
    ],
)
def test_a_block_that_stores_two_tensors(lines: tuple[str, str], number: int) -> None:
    """Each has the part at its own indices."""
    made = made_of(nest("i:4 j:3", block("B", "i, j", *lines)), outputs="XYL")
    before = left(made, A=TABLE, I=ORDER)
    made.cache_write("B", number, "local")
    (copy,) = [x for x in re.findall(r"write_buffers\((_\w+\[.*\])\)", made.text()) if "v0" in x]
    assert (
        copy
        == f"_{lines[number][0]}"
        + {"L": "[v0(0:4)]", "X": "[v0(0:4), v1(0:3)]", "Y": "[v0(0:4), v1(3:6)]"}[lines[number][0]]
    )
    assert f"{lines[number][0]}_local_temp_buffer[" in made.text(regions=False)
    same_after(made, before)


@pytest.mark.parametrize(
    ("lines", "fits"),
    [
        (("Y[i0, 0] = A[i0, 1]", "Y[i0, 1] = 1.0f"), False),
        (("Y[i0, (2 * i1)] = A[i0, 1]", "Y[i0, ((2 * i1) + 1)] = 1.0f"), False),
        (("Y[i0, i1] = A[i0, i1]", "Y[i0, i1] = (Y[i0, i1] + 1.0f)"), True),
        (("Y[i0, i1] = A[i0, i1]", "Y[i0, 2] = 9.0f"), True),
        (("Y[i0, 0] = A[i0, 1]", "Y[i0, i1] = 1.0f"), True),
        ((guarded("(i1 < 2)", "Y[i0, i1] = A[i0, i1]", "Y[i0, i1] = 2.0f"),), True),
        (("int32 v = (i1 % 2)", "Y[i0, v] = 1.0f"), False),
    ],
)
def test_a_block_that_stores_more_than_once(lines: tuple[str, ...], fits: bool) -> None:
    """One of its stores reaches all that is copied."""
    made = made_of(nest("i:4 j:3", block("B", "i, j", *lines)), outputs="Y")
    before = left(made, A=TABLE, I=ORDER)
    if not fits:
        refused(made, lambda s: s.cache_write("B", 0, "local"), GAPS)
        return
    made.cache_write("B", 0, "local")
    same_after(made, before)


@pytest.mark.parametrize("factor", [2, 4])
def test_a_part_that_ends_inside_a_loop(factor: int) -> None:
    """Conditions of a split keep the copy inside the tensor, in all loops and in the outer one's iterations."""
    for reader in (False, True):
        made = made_of(nest("i:4 j:5", block("B", "i, j", "Y[i0, i1] = A[i0, i1]")), outputs="Y")
        before = left(made, A=TABLE, I=ORDER)
        made.split("B", 1, [-1, factor])
        if reader:
            made = IRSchedule(
                from_cinn(
                    nest(
                        f"i:4 j:{-(-5 // factor)}",
                        nest(
                            f"k:{factor}",
                            guarded(
                                f"((({factor} * j) + k) < 5)",
                                block("B", f"i, (({factor} * j) + k)", "Y[i0, i1] = A[i0, i1]"),
                            ),
                        ),
                        block("L", "i", "L[i0] = Y[i0, 0]"),
                    ),
                    {n: (s, "float32") for n, s in SIZES.items()},
                    outputs=["Y"],
                )
            )
            before = left(made, A=TABLE, I=ORDER)
        made.cache_write("B", 0, "local")
        same_after(made, before)


# ---------------------------------------------------------------------------- variables of a block


INSIDE = {
    "let": "int32 v = (i1 % 3)\nX[i0, i1] = (T[i0, v] * 2.0f)",
    "let at the end": "int32 v = (5 - i1)\nX[i0, i1] = (T[i0, v] * 2.0f)",
    "in an expression": "X[i0, i1] = (T[i0, (let v = (i1 % 3) in (v + 1))] * 2.0f)",
    "loop": "X[i0, i1] = 0.0f\nserial for (t, 0, 6)\n{\nX[i0, i1] = (X[i0, i1] + T[i0, t])\n}",
    "to a variable": "X[i0, i1] = 0.0f\nserial for (t, 0, (i1 + 1))\n{\nX[i0, i1] = (X[i0, i1] + T[i0, t])\n}",
    "from a variable": "X[i0, i1] = 0.0f\nserial for (t, i0, 2)\n{\nX[i0, i1] = (X[i0, i1] + T[i0, t])\n}",
    "no last element": "X[i0, i1] = T[i0, cinn_max(I[i1], 0)]",
    "no first element": "X[i0, i1] = T[i0, cinn_min(I[i1], 5)]",
    "loops in loops": "X[i0, i1] = 0.0f\nserial for (t, i0, 2)\n{\nserial for (u, t, 2)\n{\nX[i0, i1] = (X[i0, i1] + T[i0, u])\n}\n}",
}


@pytest.mark.parametrize("name", INSIDE)
def test_variables_that_have_values_inside_a_block_alone(name: str) -> None:
    """The part that a block loads is in the variables of the loops around it, or the whole dimension."""
    producer = nest("i:4 j:6", block("T", "i, j", "T[i0, i1] = (A[i0, i1] + 1.0f)"))
    reader = nest("i:4 j:6", block("X", "i, j", INSIDE[name]))
    for place in (None, 1):
        made = made_of(producer, reader)
        before = left(made, A=TABLE, I=ORDER)
        if place is None:
            number = INSIDE[name].partition("T[")[0].count("[") - INSIDE[name].count("] = ")
            made.cache_read("X", number, "local")
            assert "T_local_temp_buffer[i0," in made.text(regions=False)
        else:
            made.compute_at("T", made.get_loops("X")[place])
        same_after(made, before)


def test_a_producer_that_stores_at_a_variable_of_its_own() -> None:
    store = "int32 v = (i1 % 6)\nT[i0, v] = (A[i0, i1] + 1.0f)"
    made = made_of(
        nest("i:4 j:6", block("T", "i, j", store)),
        nest("i:4 j:6", block("X", "i, j", "X[i0, i1] = (T[i0, i1] * 2.0f)")),
    )
    for place in (0, 1):
        refused(
            made,
            lambda s: s.reverse_compute_at("X", s.get_loops("T")[place]),
            "`X` does not load at its plain variables what is stored under the loop",
        )


# ---------------------------------------------------------------------------- one element


@pytest.mark.parametrize(
    ("stored", "loaded", "one"),
    [
        (("i0",), ("i0",), True),
        (("2",), ("2",), True),
        (("(i0 + 1)",), ("(1 + i0)",), True),
        (("i0",), ("(i0 + 1)",), False),
        (("(i0 + 1)",), ("i0",), False),
        (("i0",), ("0",), False),
        (("0",), ("i0",), False),
        (("i0", "i0"), ("i0", "i0"), True),
        (("i0", "1"), ("i0", "2"), False),
        (("1", "i0"), ("2", "i0"), False),
        (("i0", "1"), ("i0", "i0"), False),
    ],
)
def test_a_tensor_of_one_element_serves_one_place_at_a_time(
    stored: tuple[str, ...], loaded: tuple[str, ...], one: bool
) -> None:
    for again in (False, True):  # a third access, at the place of the first or the second one
        third = [block("X", "i", f"X[i0, 1] = T[{', '.join(stored if again else loaded)}]")]
        made = made_of(
            nest(
                "i:3",
                block("T", "i", f"T[{', '.join(stored)}] = (A[i0, 2] + 1.0f)"),
                block("L", "i", f"L[i0] = T[{', '.join(loaded)}]"),
                *third,
            )
        )
        if not one:
            refused(made, lambda s: s.set_buffer("T", "local", True), "not all accesses of `T` are to the same element")
            continue
        before = left(made, A=TABLE, I=ORDER)
        made.set_buffer("T", "local", True)
        assert "T[0] = " in made.text(regions=False)
        same_after(made, before)
