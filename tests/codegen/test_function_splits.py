"""Long programs as several functions of LLVM: the results, and sizes that bound the time to compile."""

from __future__ import annotations

import re

import numpy as np
import pytest
from handmade import allocate, local, loop, module

import tvmagic
from tvmagic import codegen, te, tir
from tvmagic.ir import decl_buffer

LINES = 3000  # of one function; the time to compile it grows with their square
SIZE = 20


def chain(stages: int):
    A = tensor = te.placeholder((SIZE,), name="A")
    for k in range(stages):
        tensor = step(tensor, k)
    return te.create_schedule(tensor.op), [A, tensor]


def step(x, k: int):
    return te.compute((SIZE,), lambda i: x[i] * 0.5 + float(k), name=f"S{k}")


def functions(mod) -> list[str]:
    """The texts of the functions of a module."""
    return re.findall(r"^define .*?^}$", codegen.llvm_ir(mod, optimize=False), re.MULTILINE | re.DOTALL)


def test_size_of_functions_is_bounded_and_whole_size_proportional():
    sizes = {}
    for stages in (100, 150, 300, 600):
        texts = functions(tvmagic.lower(*chain(stages)))
        sizes[stages] = sum(map(len, texts)) / stages
        assert (len(texts) > 1) == (stages > 128), stages
        assert max(text.count("\n") for text in texts) < LINES
    assert max(sizes.values()) < 1.1 * min(sizes.values())


@pytest.mark.parametrize("stages", [128, 129, 300])
def test_chain_gives_result_of_numpy(stages):
    x, y = np.random.default_rng(0).random(SIZE, "float32"), np.zeros(SIZE, "float32")
    tvmagic.build(*chain(stages))(x, y)
    for k in range(stages):
        x = x * np.float32(0.5) + np.float32(k)
    np.testing.assert_allclose(y, x, rtol=1e-5)


# One round of each kind of statement; `k` is its number. All use the arrays of the rounds before.
ROUND = """
for i in range(20):
    S[i] = S[i] + A[i] * T.float32({k})
for i in T.parallel(20):
    H[i * 1000] = S[i] + T.float32({k})
for i in range(n):
    if i % 3 == {k} % 3:
        S[i] = S[i] + H[(19 - i) * 1000]
with T.LetStmt(A[{k} % 20] * T.float32(2), var=x):
    for i in range(5):
        for j in range(4):
            S[i * 4 + j] = S[i * 4 + j] - x
for i in T.vectorized(16):
    S[i] = S[i] * T.float32(0.25)
"""
HEAD = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((20,)), n: T.int32):
    A = T.match_buffer(a, (20,))
    S = T.alloc_buffer((20,))
    H = T.alloc_buffer((20000,))
    x = T.float32()
    for i in range(20):
        S[i] = T.float32(0)
    for i in range(20000):
        H[i] = T.float32(0)
"""


def mixed(rounds: int, around: str = "") -> str:
    body = "".join(ROUND.format(k=k) for k in range(rounds))
    indent = "        " if around else "    "
    lines = "".join(f"{indent}{line}\n" for line in body.splitlines() if line)
    return HEAD + (f"    {around}\n" if around else "") + lines + "    for i in range(20):\n        B[i] = S[i]\n"


def expected(a: np.ndarray, n: int, rounds: int, times: int = 1) -> np.ndarray:
    s, h, i = np.zeros(20), np.zeros(20), np.arange(20)
    for k in [*range(rounds)] * times:
        s = s + a * k
        h = s + k
        s = np.where((i < n) & (i % 3 == k % 3), s + h[::-1], s)
        s = s - a[k % 20] * 2
        s[:16] *= 0.25
    return s


@pytest.mark.parametrize("around, times, check_bounds", [("", 1, True), ("for r in range(3):", 3, False)])
def test_mixed_statements_give_result_of_numpy(around, times, check_bounds):
    rounds = 27
    mod = tvmagic.lower(tvmagic.script.from_source(mixed(rounds, around)))
    assert len(functions(mod)) > rounds + 2, "one function for each parallel loop, and the parts"
    f = tvmagic.build(mod, check_bounds=check_bounds)
    a, b = np.random.default_rng(1).random(20, "float32"), np.zeros(20, "float32")
    f(a, b, 20)
    np.testing.assert_allclose(b, expected(a.astype("float64"), 20, rounds, times), rtol=1e-3, atol=1e-3)


def test_error_in_late_function_leaves_with_its_message():
    source = mixed(27) + "    B[n] = T.float32(1)\n"
    f = tvmagic.build(tvmagic.script.from_source(source), check_bounds=True)
    f(np.zeros(20, "float32"), np.zeros(20, "float32"), 19)
    with pytest.raises(tvmagic.TVMagicError, match="B"):
        f(np.zeros(20, "float32"), np.zeros(20, "float32"), 20)


def test_sequence_in_sequence_is_split_at_each_depth():
    """Each allocation holds the rest of the program."""
    A, B = decl_buffer((20,), "float32", "A"), decl_buffer((20,), "float32", "B")
    arrays = [local(f"S{k}", 20) for k in range(300)]
    add = lambda to, x, y: loop(20, lambda i: tir.BufferStore(to, x[i] + y(i), [i]))  # noqa: E731
    body = add(B, arrays[-1][1], lambda i: arrays[5][1][i])
    for k, (pointer, buffer) in reversed(list(enumerate(arrays))):
        before = arrays[k - 1][1] if k else A
        body = allocate(
            pointer, 20, tir.SeqStmt([add(buffer, before, lambda i, k=k: tir.const(float(k), "float32")), body])
        )
    mod = module(body, A, B)
    texts = functions(mod)
    assert 3 < len(texts) < 12 and max(text.count("\n") for text in texts) < LINES
    result = np.zeros(20, "float32")
    codegen.compile_module(mod)(np.ones(20, "float32"), result)
    np.testing.assert_array_equal(result, np.full(20, 1 + sum(range(300)) + 1 + sum(range(6)), "float32"))
