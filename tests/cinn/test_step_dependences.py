"""Steps check which elements other blocks read and write."""

from __future__ import annotations

import pytest
from nests import block, nest, refused, schedule

from tvmagic.errors import TVMagicError
from tvmagic.script import from_cinn


def test_binding_to_tensor_element_is_refused() -> None:
    """Which values it has only a region says."""
    text = nest("k:6", block("Z", "I[k]", "Z[i0] = A[i0]"))
    known: dict[str, tuple[tuple[int, ...], str]] = {"I": ((8,), "int32")}
    with pytest.raises(TVMagicError) as raised:
        from_cinn(text, known)
    assert raised.value.span is not None
    assert text.split("\n")[raised.value.span.line - 1][raised.value.span.column - 1 :].startswith("I[k]")
    func = from_cinn(text.replace("Z[i0] =", "write_buffers(_Z[i0(0:5)])\nZ[i0] ="), known)
    assert {b.name: int(str(b.shape[0])) for b in func.buffer_map.values()} == {"A": 5, "I": 8, "Z": 5}


@pytest.mark.parametrize(
    ("bound", "beside", "fits"),
    [
        ("((m * i) + j)", "", True),
        ("((m * i) + j)", "V[i0] = A[i0]", True),
        ("((m * i) + j)", "V[i0] = T[i0]", True),
        ("((m * i) + j)", "V[i0] = T[(i0 + 1)]", False),
        ("((m * i) + j)", "T[0] = 1.0f", False),
        ("((m * j) + i)", "", False),
        ("((n * j) + i)", "", True),
        ("(i + j)", "", False),
    ],
)
def test_block_owns_elements_that_only_it_uses(bound: str, beside: str, fits: bool) -> None:
    """If it is bound to each value once, which is known of open sizes, too."""
    lines = ["T[i0] = exp(T[i0])", *([beside] if beside else [])]
    made = schedule(nest("i:n j:m", block("T", bound, *lines)))
    if fits:
        made.parallel(made.get_loops("T")[0])
        assert "parallel for (i" in made.text()
    else:
        said = "cinn.schedule.iterations_conflict"
        refused(made, lambda s: s.parallel(s.get_loops("T")[0]), said)


@pytest.mark.parametrize(("line", "fits"), [("V[i0] = T[i0]", False), ("V[i0] = A[i0]", True)])
def test_parallel_refuses_tensor_of_two_blocks(line: str, fits: bool) -> None:
    both = [block("T", "((m * i) + j)", "T[i0] = exp(T[i0])"), block("W", "((m * i) + j)", line)]
    made = schedule(nest("i:n j:m", *both))
    if fits:
        made.parallel(made.get_loops("T")[0])
    else:
        refused(made, lambda s: s.parallel(s.get_loops("T")[0]), "cinn.schedule.iterations_conflict")
