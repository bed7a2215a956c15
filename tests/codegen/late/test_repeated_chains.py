"""KeepScalarLoops: reductions repeated in all iterations of a loop, which LLVM would take years to vectorize."""

from __future__ import annotations

import numpy as np
import pytest
from late_passes import late

import tvmagic
from tvmagic import te, tir
from tvmagic.codegen import llvm_ir
from tvmagic.codegen.late.keep_scalar_loops import keep_scalar_loops
from tvmagic.script import from_source

WHOLE = "S[i] = T.min(S[i], X[k])"


def reduction(step: str, extent: int = 36, bound: str = "") -> str:
    """`S[i]` begins with 1; then comes `step` for each `k`."""
    lines = [f"cse: T.int32 = {bound}"] if bound else []
    return "\n".join(
        [
            "@T.prim_func",
            'def main(X: T.Buffer((64,), "float32"), Y: T.Buffer((8, 64), "float32"), S: T.Buffer((8,), "float32")):',
            "    for i in range(8):",
            "        S[i] = T.float32(1)",
            f"        for k in range({extent}):",
            *[f"            {line}" for line in (*lines, *step.split("\n"))],
        ]
    )


CHAINS = {
    "a minimum": (WHOLE, lambda s, x: np.minimum(s, x)),
    "an index that is shared": ("S[i] = T.max(S[i], X[cse])", lambda s, x: np.maximum(s, x)),
    "a condition": ("if X[k] < T.float32(0.5):\n    S[i] = S[i] + X[k]", lambda s, x: s + x if x < 0.5 else s),
    "a choice": (
        "S[i] = T.Select(S[i] < X[k], X[k], S[i] * T.float32(0.5))",
        lambda s, x: x if s < x else s * np.float32(0.5),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_long_chain_is_built_at_once(name: str) -> None:
    step, meaning = CHAINS[name]
    x = np.random.default_rng(0).random(64, "float32")
    out = np.zeros(8, "float32")
    f = tvmagic.build(from_source(reduction(step, bound="k" if "cse" in step else "")))
    f(x, np.zeros((8, 64), "float32"), out)
    wanted = np.float32(1)
    for value in x[:36]:
        wanted = meaning(wanted, value)
    assert (out == wanted).all()


def test_the_two_parts_of_an_argmax_are_one_chain() -> None:
    """Each part goes on from both; LLVM would take minutes for 16 steps of the two."""
    step = "\n".join(
        [
            "better: T.bool = B[i] < X[k] or B[i] == X[k] and k < S[i]",
            "S[i] = T.Select(better, k, S[i])",
            "B[i] = T.Select(better, X[k], B[i])",
        ]
    )
    text = (
        reduction(step).replace("S: T", 'S: T.Buffer((8,), "int32"), B: T').replace("S[i] = T.float32(1)", "S[i] = 0")
    )
    text = text.replace("        S[i] = 0", "        S[i] = 0\n        B[i] = T.float32(0)")
    assert is_kept(text)
    assert not is_kept(text.replace("B[i] = T.float32(0)", "B[i] = Y[i, 0]"))
    assert is_kept(text.replace("X[k]", "Y[i, k]"))


@pytest.mark.parametrize(
    "step",
    [
        "S[i] = T.min(S[i], Y[i, k])",
        "S[i] = S[i] + X[k]",
        "S[i] = T.min(S[i], X[cse])",
        "Y[i, k] = X[k]\nS[i] = T.min(S[i], Y[i, k])",
    ],
    ids=["of its own row", "a plain sum", "by way of an index", "by way of memory"],
)
def test_other_loops_may_become_vectors(step: str) -> None:
    text = reduction(step, bound="i + k" if "cse" in step else "")
    assert not is_kept(text)
    assert is_kept(reduction(WHOLE))
    assert not is_kept(reduction(WHOLE, 8))


# A step of each kind whose code leads to the value before it by several ways, and how many. A chain with more ways than
# 5 to the power of 8, as loops over `r` and over one or two values of `k` that LLVM unrolls, stays scalar.
OPERATIONS = [
    ("bfloat16", "S[i] + X[k]", 5),
    ("bfloat16", "T.min(-S[i], X[k])", 25),
    ("bfloat16", "T.floor(S[i]) * X[k]", 25),
    ("float32", "T.min(S[i], X[k])", 5),
    ("float32", "T.exp(S[i]) * X[k]", 125),
    ("float32", "T.tanh(S[i]) * X[k]", 125),
    ("float16", "T.exp(S[i]) * X[k]", 125),
    ("float32", "T.exp(T.min(S[i], X[k]))", 625),
    ("int32", "T.popcount(S[i]) + X[k]", 125),
    ("float32", "T.floor(S[i]) * X[k]", 5),
    ("float32", "T.nearbyint(S[i]) * X[k]", 5),
    ("int32", "T.shift_left(S[i], X[k])", 5),
    ("int32", "S[i] // X[k]", 5),
    ("int32", "T.floormod(S[i], X[k])", 5),
    ("int16", "T.truncmod(S[i], X[k])", 5),
    ("int32", 'T.Cast("int32", T.Cast("float32", S[i])) + X[k]', 5),
    ("float32", 'T.Cast("float32", T.Cast("int32", S[i])) + X[k]', 5),
    ("int64", "S[i] * S[i] + X[k]", 2),
    ("float32", "T.min(S[i], X[k]) + S[i]", 10),
    ("float32", "S[i] * S[i] + S[i]", 3),
]


def chain(dtype: str, step: str, count: int) -> str:
    """`count` steps from 3 on."""
    values = 2 - count % 2
    return "\n".join(
        [
            "@T.prim_func",
            f'def main(X: T.Buffer((8,), "{dtype}"), S: T.Buffer((60,), "{dtype}")):',
            '    T.func_attr({"tir.noalias": T.bool(True)})',
            "    for i in range(60):",
            f'        S[i] = T.Cast("{dtype}", 3)',
            f"        for r, k in T.grid({count // values}, {values}):",
            f"            S[i] = {step}",
        ]
    )


def too_many(ways: int) -> int:
    """So many steps of `ways` ways each are too many."""
    return next(n for n in range(60) if ways**n > 5**8)


@pytest.mark.parametrize(("dtype", "step", "ways"), OPERATIONS, ids=[f"{d} {s}" for d, s, _ in OPERATIONS])
def test_operations_whose_code_repeats_what_it_computes_from(dtype: str, step: str, ways: int) -> None:
    count = too_many(ways)
    assert is_kept(chain(dtype, step, count))
    assert not is_kept(chain(dtype, step, count - 1))


@pytest.mark.parametrize("ways", {ways: None for *_, ways in OPERATIONS})
def test_chains_of_any_number_of_ways_are_built_at_once(ways: int) -> None:
    dtype, step, _ = next(operation for operation in OPERATIONS if operation[2] == ways)
    for count in (too_many(ways) - 1, too_many(ways)):
        tvmagic.build(from_source(chain(dtype, step, count)), target="llvm -mcpu=x86-64-v2")


def test_functions_in_place_may_become_vectors() -> None:
    """What they begin with is another value in each iteration."""
    text = "\n".join(
        [
            "@T.prim_func",
            'def main(S: T.Buffer((60,), "float32"), X: T.Buffer((8,), "float32")):',
            "    for i in range(60):",
            "        S[i] = T.exp(T.tanh(T.sigmoid(T.min(S[i], X[0]))))",
            "        S[i] = T.exp(T.tanh(T.sigmoid(T.min(S[i], X[1]))))",
        ]
    )
    assert not is_kept(text)
    begun = text.replace("range(60):\n", "range(60):\n        S[i] = X[2]\n")
    assert is_kept(begun)


@pytest.mark.parametrize("step", ["S[i] * X[k]", "S[i] + X[k]", "S[i] / X[k]", "T.sqrt(S[i])", "T.fabs(S[i])"])
def test_steps_of_one_way_are_as_many_as_they_are(step: str) -> None:
    assert not is_kept(reduction(f"S[i] = {step}"))


def is_kept(text: str) -> bool:
    """Whether a loop of a program is kept scalar."""
    return late(keep_scalar_loops, tvmagic.lower(from_source(text))["main"]) is not None


def test_llvm_is_told() -> None:
    for text, told in ((reduction(WHOLE), True), (reduction(WHOLE, 8), False)):
        assert ("vectorize.enable" in llvm_ir(tvmagic.lower(from_source(text)), optimize=False)) is told


def branches(count: int, of_index: bool = False) -> tvmagic.IRModule:
    """A loop whose value is chosen by so many conditions, one inside the other, on what is read or on the loop variable."""
    X = te.placeholder((64,), name="X")

    def body(i):
        value, asked = X[i], i.astype("float32") if of_index else X[i]
        for k in range(count):
            value = tir.if_then_else(asked > float(k), asked + float(k), value)
        return value

    Y = te.compute((64,), body, name="Y")
    return tvmagic.lower(te.create_schedule(Y.op), [X, Y])


def test_a_loop_of_many_branches_is_built_at_once(cpu_seconds) -> None:
    """LLVM's register allocator would take 10 s for 700 of them, each with constants of its own."""
    mod, built = branches(700), []
    assert cpu_seconds(lambda: built.append(tvmagic.codegen.compile_module(mod))) < 3
    x, y = np.arange(64, dtype="float32") * 10, np.zeros(64, "float32")
    built[0](x, y)
    assert (y == np.where(x > 0, x + np.minimum(np.maximum(x - 1, 0), 699), x)).all()


@pytest.mark.parametrize("of_index", [False, True])
def test_what_is_asked_of_each_branch_takes_time_linear_in_their_number(calls, of_index: bool) -> None:
    few, many = (branches(count, of_index) for count in (20, 100))
    assert calls(lambda: llvm_ir(many, optimize=False)) < 5.5 * calls(lambda: llvm_ir(few, optimize=False))
