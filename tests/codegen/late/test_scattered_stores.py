"""KeepScalarLoops: which loops it keeps scalar as LLVM would scatter their vectors, program by program."""

from __future__ import annotations

import pytest
from late_passes import HASWELL, SKYLAKE, late, loops, parsed

from tvmagic.codegen.late.keep_scalar_loops import keep_scalar_loops
from tvmagic.ir import PrimFunc
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

HEAD = """\
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), n: T.int32):
"""


def found(body: str, target: str = SKYLAKE) -> list[str]:
    return kept(parsed(HEAD + "".join(f"    {line}\n" for line in body.splitlines())), target)


def kept(function: PrimFunc, target: str = SKYLAKE) -> list[str]:
    """The names of the loops that LLVM must not vectorize."""
    made = late(keep_scalar_loops, function, target)
    return (
        [] if made is None else sorted(l.loop_var.name for l in loops(made.body) if "llvm.vectorize" in l.annotations)
    )


def rows(
    extent: int | str, step: int, value: str = "A[i]", kind: str = "serial", inner: str = "serial", at: str = "j"
) -> str:
    """A loop over rows that are `step` elements apart, and a loop inside each."""
    return f"for i in T.{kind}(64):\n    for j in T.{inner}({extent}):\n        B[i * {step} + {at}] = {value}"


@pytest.mark.parametrize(
    ("body", "loops"),
    [
        (rows(2, 8), []),
        (rows(3, 8), ["i"]),
        (rows(15, 20), ["i"]),
        (rows(16, 20), []),
        (rows("n", 20), []),
        (rows(5, 2), ["i"]),
        (rows(5, 1), []),
        (rows(5, -1, at="j + 63"), []),
        (rows(5, -2, at="j + 200"), ["i"]),
        (rows(5, 0), []),
        (rows(5, 8, at="j * 2"), []),
        (rows(5, 8, at="4 - j"), []),
        (rows(5, 8, kind="parallel"), ["i"]),
        (rows(5, 8, kind="unroll"), []),
        (rows(5, 8, kind="vectorized"), []),
        (rows(5, 8, inner="unroll"), ["i"]),
        (rows(5, 8, "T.exp(A[i])"), []),
        (rows(5, 8, "T.if_then_else(i < 3, A[i], T.float32(0))"), ["i"]),
        (rows(5, 8, "T.sqrt(A[i])"), []),
        (rows(5, 8, "B[i * 8 + j] + A[i]"), []),
        (rows(5, 8, "T.fma(A[i], A[i], A[i])"), ["i"]),
    ],
)
def test_rows_of_a_loop_inside(body: str, loops: list[str]) -> None:
    """Short rows that are apart, of nothing that is stored and of no function."""
    assert found(body) == loops


@pytest.mark.parametrize(
    ("stores", "step", "loops"),
    [
        (2, 8, []),
        (3, 8, ["i"]),
        (4, 8, ["i"]),
        (3, 2, ["i"]),
        (3, 1, []),
    ],
)
def test_rows_of_neighbouring_statements(stores: int, step: int, loops: list[str]) -> None:
    body = "for i in range(64):\n" + "".join(f"    B[i * {step} + {n}] = A[i]\n" for n in range(stores))
    assert found(body) == loops


def test_statements_that_are_not_neighbours() -> None:
    """Each store is to have two others within two elements of it."""
    for places in ((0, 1, 2, 4), (0, 2, 3, 4)):  # the one that is apart has one
        assert found("for i in range(64):\n" + "".join(f"    B[i * 8 + {n}] = A[i]\n" for n in places)) == []
    assert found("for i in range(64):\n    B[i * 8] = A[i]\n    B[i * 8 + 2] = A[i]\n    B[i * 8 + 4] = A[i]") == []
    assert (
        found(
            "for i in range(64):\n    B[i * 8] = A[i]\n    B[i * 8 + 1] = A[i]\n    B[i * 8 + 2] = A[i]\n    B[i * 8 + 5] = A[i]"
        )
        == []
    )
    assert found("for i in range(64):\n    B[i * 8 + 2] = A[i]\n    B[i * 8 + 1] = A[i]\n    B[i * 8] = A[i]") == ["i"]


def test_how_many_bodies_are_written_out() -> None:
    """Up to 256 bodies; only loops that begin a vector there are taken, the outer ones too if all inside is short."""
    deep = "for i in range(64):\n    for k in range({k}):\n        for j in range({j}):\n            B[i * 512 + k * 8 + j] = A[i]"
    assert found(deep.format(k=15, j=15)) == ["i", "k"]  # 225
    assert found(deep.format(k=15, j=8)) == ["i", "k"]
    assert found(deep.format(k=20, j=5)) == ["k"]
    assert found(
        "for h in range(5):\n" + "".join(f"    {line}\n" for line in deep.format(k=15, j=15).splitlines())
    ) == ["i", "k"]
    assert found("for i in range(64):\n    A[i] = T.float32(0)") == []


@pytest.mark.parametrize(("other", "row", "taken"), [(3, 4, True), (4, 3, False)])
def test_256_bodies_are_written_out_and_257_are_not(other: int, row: int, taken: bool) -> None:
    body = f"""for i in range(64):
    for k in range(15):
        for j in range(15):
            B[i * 1024 + k * 16 + j] = A[i]
    for l in range({other}):
        for m in range({row}):
            B[i * 1024 + l * 16 + m + 512] = A[i]"""
    assert 1 + 15 * (1 + 15) + other * (1 + row) == (256 if taken else 257)
    assert found(body) == (["i", "k", "l"] if taken else ["k", "l"])
    assert found(body.replace("i * 1024 + l", "l")) == ["k", "l"]  # a store that stays where it is counts, too


def test_only_where_vectors_are_stored_lane_by_lane() -> None:
    body = rows(5, 8)
    assert found(body, HASWELL) == found(body, "llvm -mtriple=aarch64-linux-gnu") == []
    assert found(body, "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4") == ["i"]


def test_places_through_variables() -> None:
    let = "for i in range(64):\n    for j in range(5):\n        base: T.int32 = i * {step}\n        B[base + j] = A[i]"
    assert found(let.format(step=8)) == ["i"] and found(let.format(step=1)) == []
    assert found("for i in range(64):\n    for j in range(5):\n        B[T.Cast('int32', A[i]) + j] = A[i]") == []


@pytest.mark.parametrize(("last", "is_found"), [(12, True), (13, False)])
def test_bodies_of_loops_beside_each_other_add_up(last: int, is_found: bool) -> None:
    """256 of them are written out: one, 16 times 15, and those of the two loops behind."""
    body = "for i in range(4):\n    for j in range(15):\n        for k in range(15):\n            B[i * 1000 + j * 15 + k] = A[i]\n"
    body += f"    for l in range({last}):\n        B[i * 1000 + 400 + l] = A[i]\n    for m in range(3):\n        B[i * 1000 + 500 + m] = A[i]"
    assert ("i" in found(body)) is is_found


def test_strided_stores_are_scattered_only_for_a_function() -> None:
    """Vectors of 16 arguments are worth it; a loop along a column has no short row."""

    def of(text: str, calls: str) -> list[str]:
        return kept(next(iter(schedule(operator("rows", text), calls).lower().functions.values())))

    split = "s[Y].split(Y.op.axis[1], 5)"
    assert len(of("X: float32[60, 200]\nY[i, j] = X[i, j] * 2", split)) == 1
    assert not of("X: float32[60, 200]\nY[i, j] = exp(X[i, j])", split)
    assert not of("X: float32[60, 200]\nY[i, j] = X[i, j] * 2", "s[Y].reorder(*reversed(Y.op.axis))")
    assert not of("X: float32[60, 200]\nY[i, j] = X[i, j] * 2", "s[Y].split(Y.op.axis[1], 2)")
    assert not of("X: float32[60, 200]\nY[i] += X[i, j]", "s[Y].split(s[Y].op.reduce_axis[0], 5)")
