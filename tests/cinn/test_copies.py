"""Caches and single elements: what is copied or left out must be just what is stored and loaded, element for element."""

from __future__ import annotations

import numpy as np
import pytest
from nests import block, left, nest, refused

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
            "cinn.reverse_compute_at.load_not_at_variables",
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
            refused(made, lambda s: s.set_buffer("T", "local", True), "cinn.set_buffer.different_elements")
            continue
        before = left(made, A=TABLE, I=ORDER)
        made.set_buffer("T", "local", True)
        assert "T[0] = " in made.text(regions=False)
        same_after(made, before)
