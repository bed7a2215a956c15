"""InjectCopyIntrin: what the function of an accelerator is told of a copy, and what is no copy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checks import module

import tvmagic as tvm
from tvmagic import te, tir
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.ir import IRModule
from tvmagic.tir.transform import InjectCopyIntrin, StorageFlatten


def lowered(args: list[te.Tensor], factor: int | None = None) -> IRModule:
    """The computation of the last tensor, its first (or inner) loop under the pragma `memcpy`, in flat buffers."""
    s = te.create_schedule(args[-1].op)
    stage = s[args[-1]]
    axis = stage.op.axis[0]
    stage.pragma(axis if factor is None else stage.split(axis, factor=factor)[1], "memcpy")
    s = s.normalize()
    body = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    func = te.schedule.SchedulePostProcToPrimFunc(args, body, None)
    return StorageFlatten(64)(tvm.IRModule({"main": func}))


def injected(mod: IRModule) -> tuple[list[str], str]:
    """What the function is called with, and the body after the pass."""
    told: list[str] = []

    def copy(src: tir.Buffer, dst: tir.Buffer, before: Any, after: Any, value: Any) -> tir.Stmt:
        for part in (src, dst):
            told.append(f"{list(part.shape)} by {list(part.strides)} from {part.elem_offset}")
        told.append(f"{list(before)} {list(after)} {value}")
        return tir.Evaluate(tir.call_extern("int32", "dma", src.data, dst.data))

    return told, str(InjectCopyIntrin("memcpy", copy)(mod)["main"].body)


def test_a_copy_in_two_dimensions() -> None:
    m, n = te.size_var("m"), te.size_var("n")
    A = te.placeholder((m, n), name="A")
    told, body = injected(lowered([A, te.compute((m, n), lambda i, j: A[i, j], name="B")]))
    assert told == ["[m, n] by [n, 1] from 0", "[m, n] by [n, 1] from 0", "[] [] None"]
    assert "dma" in body and "for" not in body and "pragma" not in body


def test_a_copy_that_pads() -> None:
    m, n = te.size_var("m"), te.size_var("n")
    A = te.placeholder((m, n), name="A")

    def padded(i: tir.Var, j: tir.Var) -> tir.PrimExpr:
        return tir.if_then_else(tir.all(i >= 1, i < m + 1), A[i - 1, j], 1.0)

    told, _ = injected(lowered([A, te.compute((m + 2, n), padded, name="B")]))
    assert told == ["[m, n] by [n, 1] from 0", "[m + 2, n] by [n, 1] from 0", "[1, 0] [1, 0] T.float32(1.0)"]


def test_a_part_of_a_copy_that_pads() -> None:
    A = te.placeholder((14,), name="A")
    B = te.compute((16,), lambda i: tir.Select(tir.all(i >= 1, i < 15), A[i - 1], tir.const(0.0, "float32")), name="B")
    told, body = injected(lowered([A, B], factor=4))
    assert told[1] == "[4] by [1] from i_outer * 4" and body.startswith("for i_outer in range(4)")
    assert "1 - i_outer * 4" in told[2] and "i_outer * 4" in told[0]


def test_a_copy_of_one_element_that_converts() -> None:
    A = te.placeholder((1,), "float16", name="A")
    told, _ = injected(lowered([A, te.compute((1,), lambda i: A[i].astype("float32"), name="B")]))
    assert told == ["[1] by [1] from 0", "[1] by [1] from 0", "[] [] None"]


@pytest.mark.parametrize(
    ("element", "wrong"),
    [
        (lambda A, i: A[i] + 1.0, "not loaded from a buffer"),
        (lambda A, i: A[i * i % 8], "an index is not linear"),
        (lambda A, i: tir.if_then_else(i * i < 9, A[i], 0.0), "does not bound each loop"),
    ],
)
def test_what_is_no_copy(element: Callable[..., Any], wrong: str) -> None:
    A = te.placeholder((8,), name="A")
    with pytest.raises(TVMagicError, match=wrong):
        injected(lowered([A, te.compute((8,), lambda i: element(A, i), name="B")]))


@pytest.mark.parametrize(("source", "target"), [("8", "8, 1"), ("8, 1", "8")])
def test_copies_are_described_in_flat_buffers(source: str, target: str) -> None:
    places = {"8": "[i]", "8, 1": "[i, 0]"}
    mod = module(f"""
def main(A: T.Buffer(({source},), "float32"), B: T.Buffer(({target},), "float32")):
    with T.attr(0, "pragma_memcpy", 1):
        for i in range(8):
            B{places[target]} = A{places[source]}
""")
    with pytest.raises(TVMagicError, match="a copy is described in flat buffers"):
        injected(mod)


def test_a_guard_is_no_part_of_a_copy() -> None:
    A = te.placeholder((10,), name="A")
    with pytest.raises(TVMagicError, match="there is no store in the loops"):
        injected(lowered([A, te.compute((10,), lambda i: A[i], name="B")], factor=4))


def test_the_function_gives_a_statement() -> None:
    A = te.placeholder((8,), name="A")
    mod = lowered([A, te.compute((8,), lambda i: A[i], name="B")])
    with pytest.raises(TVMagicError, match="gives no statement, but `None`"):
        InjectCopyIntrin("memcpy", lambda *_: None)(mod)
    assert InjectCopyIntrin("other", lambda *_: None)(mod)["main"] is mod["main"]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_told_is_the_copy(seed: int) -> None:
    """Done as it is told, a copy gives what the loops give: some of its elements from memory, the others one value."""
    rng = random.Random(seed)
    sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 3))]
    lows = [rng.choice([None, 0, 1, 2, -1]) for _ in sizes]
    highs = [rng.choice([None, *(max(n + k, (low or 0) + 1) for k in (-1, 0, 1))]) for n, low in zip(sizes, lows)]
    names, steps = "ijk"[: len(sizes)], [rng.choice([1, 2, 7, 13]) for _ in sizes]
    source = (
        " + ".join(f"({v} - {low or 0}) * {s}" for v, low, s in zip(names, lows, steps))
        + f" + {rng.randint(0, 3) + 20}"
    )
    place = [1]
    for n in reversed(sizes[1:]):
        place.insert(0, place[0] * n)
    target = " + ".join(f"{v} * {s}" for v, s in zip(names, place)) + f" + {rng.randint(0, 3)}"
    bounds = [f"{low} <= {v}" for v, low in zip(names, lows) if low is not None]
    bounds += [f"{v} < {high}" for v, high in zip(names, highs) if high is not None]
    value = f"T.if_then_else({' and '.join(bounds)}, A[{source}], 7)" if bounds else f"A[{source}]"
    lines = [f"{' ' * (8 + 4 * k)}for {v} in range({n}):" for k, (v, n) in enumerate(zip(names, sizes))]
    mod = module(
        'def main(A: T.Buffer((256,), "int32"), B: T.Buffer((256,), "int32")):\n    with T.attr(0, "pragma_memcpy", 1):\n'
        + "\n".join([*lines, f"{' ' * (8 + 4 * len(sizes))}B[{target}] = {value}"])
    )
    expected, told = np.zeros(256, "int32"), list[Any]()
    run_function(mod["main"], [np.arange(256, dtype="int32"), expected])

    def copy(*arguments: Any) -> tir.Stmt:
        told.extend(arguments)
        return tir.Evaluate(0)

    InjectCopyIntrin("memcpy", copy)(mod)
    src, dst, before, after, pad = told
    shape, strides, first = (tuple(map(int, part)) for part in (dst.shape, dst.strides, [dst.elem_offset]))
    pads = [tuple(map(int, part)) or (0,) * len(shape) for part in (before, after)]
    assert tuple(map(int, src.shape)) == tuple(n - b - a for n, b, a in zip(shape, *pads))
    done = np.zeros(256, "int32")
    for index in np.ndindex(shape):
        at = [i - b for i, b in zip(index, pads[0])]
        inside = all(0 <= i < int(n) for i, n in zip(at, src.shape))
        taken = int(src.elem_offset) + sum(i * int(s) for i, s in zip(at, src.strides))
        done[first[0] + sum(i * s for i, s in zip(index, strides))] = taken if inside else int(pad)
    np.testing.assert_array_equal(done, expected)
