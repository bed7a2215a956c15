"""Steps check which elements other blocks read and write."""

from __future__ import annotations

import numpy as np
import pytest
from nests import block, guarded, nest, refused, results, schedule

from tvmagic.errors import TVMagicError
from tvmagic.script import from_cinn

ROW = np.arange(24, dtype="float32").reshape(4, 6)


COPY = nest("i:4 j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ("YAZ", "`A` stores `A` after `Y` loaded it"),
        ("YZA", "`A` stores `A` after `Y` loaded it"),
        ("AYZ", None),
        ("YBZ", None),
        ("YZB", None),
    ],
)
def test_inlining_refuses_input_overwritten_before_use(blocks: str, said: str | None) -> None:
    each = {
        "A": nest("i:4 j:6", block("A", "i, j", "A[i0, i1] = 3.0f")),
        "B": nest("i:4 j:6", block("B", "i, j", "B[i0, i1] = 3.0f")),
        "Y": COPY,
        "Z": nest("i:4 j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)")),
    }
    made = schedule(*(each[name] for name in blocks))
    if said is not None:
        refused(made, lambda s: s.compute_inline("Y"), said)
        return
    made.compute_inline("Y")
    assert "ScheduleBlock(Y)" not in made.text()


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


def test_cache_write_refuses_two_writers() -> None:
    other = nest("i:4 j:6", block("Z", "i, j", "Y[i0, i1] = (A[i0, i1] + 2.0f)"))
    refused(schedule(COPY, other), lambda s: s.cache_write("Y", 0, "local"), "`Y` is stored by `Z` too")
    refused(schedule(COPY, other), lambda s: s.cache_write("Z", 0, "local"), "`Y` is stored by `Y` too")


@pytest.mark.parametrize(
    ("place", "loop", "said"),
    [
        (0, 0, "`Z` loads the place 0, which one iteration need not store"),
        (0, 1, "`Z` loads the place 0, which one iteration need not store"),
        (5, 0, "`Z` loads the place 5, which one iteration need not store"),
    ],
)
def test_reverse_inlining_refuses_constant_index(place: int, loop: int, said: str) -> None:
    made = schedule(COPY, nest("j:6", block("Z", "j", f"Z[i0] = (Y[{place}, i0] * 2.0f)")))
    refused(made, lambda s: s.reverse_compute_at("Z", s.get_loops("Y")[loop]), said)


def test_reverse_inlining_refuses_index_at_size() -> None:
    made = schedule(COPY, nest("j:6", block("Z", "j", "Z[i0] = (Y[n, i0] * 2.0f)")), Y=((4, 6), "float32"))
    refused(
        made,
        lambda s: s.reverse_compute_at("Z", s.get_loops("Y")[0]),
        "`Z` does not load at its plain variables what is stored under the loop",
    )


@pytest.mark.parametrize(
    ("lines", "always"),
    [
        ("Y[i0, i1] = A[i0, i1]", True),
        (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]"), False),
        (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]", "Y[i0, i1] = 2.0f"), True),
        (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]", guarded("(i0 < 2)", "Y[i0, i1] = 2.0f")), False),
        ("Y[i0, i1] = 1.0f\n" + guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]"), True),
        (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]") + "\nY[i0, i1] = 1.0f", True),
        (guarded("(i1 < 3)", "__syncthreads()") + "\nfloat32 v = A[i0, i1]\nY[i0, i1] = v", True),
        (guarded("(i1 < 3)", "Y[i0, i1] = A[i0, i1]", "Y[i0, 0] = 2.0f"), False),
        ("while ((i0 < 0)) {\nY[i0, i1] = A[i0, i1]\n}", False),
        (guarded("(i1 < 3)", "__syncthreads()", "Y[i0, i1] = 2.0f"), False),
    ],
)
def test_cache_write_requires_full_write(lines: str, always: bool) -> None:
    """The copy copies every element; one that the block leaves as it is would be lost."""
    made = schedule(nest("i:4 j:6", block("Y", "i, j", lines)), A=((4, 6), "float32"), Y=((4, 6), "float32"))
    if not always:
        refused(
            made, lambda s: s.cache_write("Y", 0, "local"), "`Y` does not store to `Y` in all cases; the copy would"
        )
        return
    before = results(made, ROW, ROW * 7)
    made.cache_write("Y", 0, "local")
    np.testing.assert_array_equal(results(made, ROW, ROW * 7)[1], before[1])


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
        said = "a loop that is parallel runs its iterations at the same time, and those of `i` touch the same element of `T`"
        refused(made, lambda s: s.parallel(s.get_loops("T")[0]), said)


@pytest.mark.parametrize(("line", "fits"), [("V[i0] = T[i0]", False), ("V[i0] = A[i0]", True)])
def test_parallel_refuses_tensor_of_two_blocks(line: str, fits: bool) -> None:
    both = [block("T", "((m * i) + j)", "T[i0] = exp(T[i0])"), block("W", "((m * i) + j)", line)]
    made = schedule(nest("i:n j:m", *both))
    if fits:
        made.parallel(made.get_loops("T")[0])
    else:
        refused(made, lambda s: s.parallel(s.get_loops("T")[0]), "touch the same element of `T`")
