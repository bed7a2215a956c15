"""Bounds of index arithmetic: they hold at all sizes, and small sizes need no wide indices."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sampling import every

from tvmagic import ir
from tvmagic.script import from_source
from tvmagic.tir.analysis.index_overflow import LIMIT, find_index_overflow

LARGEST = 2**31 - 1


def value(expr: object, values: dict[ir.Var, int]) -> int:
    """The value of an expression over unbounded integers."""
    if isinstance(expr, ir.IntImm):
        return expr.value
    if isinstance(expr, ir.Var):
        return values[expr]
    if isinstance(expr, ir.Cast):
        return value(expr.value, values)
    assert isinstance(expr, ir.BinaryOp)
    a, b = value(expr.a, values), value(expr.b, values)
    names = {"Add": a + b, "Sub": a - b, "Mul": a * b, "Min": min(a, b), "Max": max(a, b)}
    names |= {"LE": int(a <= b), "LT": int(a < b), "And": a and b, "Or": a or b}
    name = type(expr).__name__
    return names[name] if name in names else a // b if name == "FloorDiv" else a % b


def drawn(rng: random.Random, leaves: list[str], depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*leaves, str(rng.choice((1, 2, 3, 12, 63, 4097)))])
    a, b = (drawn(rng, leaves, depth - 1) for _ in range(2))
    kind = rng.choice(("+", "+", "-", "*", "*", "//", "%", "min", "max"))
    if kind in ("min", "max"):
        return f"T.{kind}({a}, {b})"
    divisor = rng.choice(("3", "64", "(n + 1)", "(m + 1)"))
    return f"({a} {kind} {divisor if kind in ('//', '%') else b})"


def function(rng: random.Random) -> ir.PrimFunc:
    index = drawn(rng, ["i", "j", "n", "m"], 4)
    extent = drawn(rng, ["n", "m"], 2)
    return from_source(
        "@T.prim_func\ndef main(a: T.handle, b: T.handle):\n    n, m = T.int32(), T.int32()\n"
        "    A = T.match_buffer(a, (n,), 'uint8')\n    B = T.match_buffer(b, (m,), 'uint8')\n"
        f"    for i in range({extent}):\n        for j in range(m):\n            A[({index}) % 7] = B[j]"
    )


@pytest.mark.parametrize("seed", every(3, range(150)))
def test_no_index_leaves_int32_where_the_condition_holds(seed: int) -> None:
    rng = random.Random(seed)
    func = function(rng)
    found = find_index_overflow(func)
    outer = func.body
    assert isinstance(outer, ir.For) and isinstance(outer.body, ir.For) and found.fits is not None
    n, m = (func.buffer_map[param].shape[0] for param in func.params)
    nodes: list[ir.BinaryOp] = []
    ir.post_order_visit(func.body, lambda x: nodes.append(x) if isinstance(x, ir.BinaryOp) else None)
    for _ in range(40):
        sizes: dict[Any, int] = {n: int(2 ** rng.uniform(0, 31)) - 1, m: int(2 ** rng.uniform(0, 31)) - 1}
        if found.always or not value(found.fits, sizes):
            continue
        extent = value(outer.extent, sizes)
        for i in {0, 1, extent // 2, extent - 2, extent - 1} if extent > 0 else ():
            for j in {0, 1, sizes[m] // 2, sizes[m] - 1}:
                if 0 <= i < extent and 0 <= j < sizes[m]:
                    at: dict[Any, int] = {**sizes, outer.loop_var: i, outer.body.loop_var: j}
                    assert all(abs(value(node, at)) <= LARGEST for node in nodes)


@pytest.mark.parametrize(
    ("index", "sizes", "fits"),
    [
        ("i + 12", (LIMIT - 11, 1), True),
        ("i + 12", (LIMIT - 10, 1), False),
        ("i * m + j", (30_000, 70_000), True),
        ("i * m + j", (31_000, 70_000), False),
        ("(i * m + j) // m", (100_000, 3), True),
        ("(i * 64 + j) % m", (2**25 - 2000, 64), True),
        ("i * 64 + j", (2**25, 64), False),
    ],
)
def test_condition_is_as_exact_as_affine_indices_allow(index: str, sizes: tuple[int, int], fits: bool) -> None:
    func = from_source(
        "@T.prim_func\ndef main(a: T.handle, b: T.handle):\n    n, m = T.int32(), T.int32()\n"
        "    A = T.match_buffer(a, (n,), 'uint8')\n    B = T.match_buffer(b, (m,), 'uint8')\n"
        f"    for i, j in T.grid(n, m):\n        if {index} < 5:\n            A[i] = B[j]"
    )
    found = find_index_overflow(func)
    shapes = [func.buffer_map[param].shape[0] for param in func.params]
    assert found.fits is not None and bool(value(found.fits, dict(zip(shapes, sizes)))) is fits


@pytest.mark.parametrize(("index", "always"), [("i * 2 + 1", False), ("i * 2000 + 1", True), ("0 - i * 2000", True)])
def test_constant_sizes_decide_at_once(index: str, always: bool) -> None:
    text = "@T.prim_func\ndef main(A: T.Buffer((2000000,), 'uint8')):\n    for i in range(2000000):\n"
    found = find_index_overflow(from_source(f"{text}        if {index} < 5:\n            A[i] = T.uint8(1)"))
    assert bool(found.always) is always and found.fits is None
