"""Storage rewriting preserves results."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pass_checks import module, script

from tvmagic.eval.machine import run_function
from tvmagic.ir import IRModule
from tvmagic.tir import transform

TWO = "A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'), n: T.int32"


@pytest.mark.parametrize(
    ("use", "shared"),
    [
        ("", True),
        ("T.evaluate(T.call_extern('int32', 'f', S))", False),
        ("T.evaluate(T.call_extern('int32', 'f', R))", False),
        ("T.evaluate(n)", True),
    ],
)
def test_in_place_reuse_requires_private_pointer(use: str, shared: bool) -> None:
    text = f"""def main({TWO}):
    S = T.allocate([16], "int32", "global")
    S_1 = T.Buffer((16,), "int32", data=S)
    R = T.allocate([16], "int32", "global")
    R_1 = T.Buffer((16,), "int32", data=R)
    for i in range(16):
        S_1[i] = A[i]
    for i in range(16):
        R_1[i] = S_1[i] + 1
        {use or "T.evaluate(0)"}
    for i in range(16):
        B[i] = R_1[i]"""
    assert script(transform.StorageRewrite()(module(text))).count("T.allocate(") == (1 if shared else 2)


def chain(rng: random.Random) -> str:
    """Return a function that fills temporaries one after the other, some of them under a condition on `n`."""
    lines, filled = [], ["A"]
    for number in range(rng.randint(2, 5)):
        name, read = f"S{number}", rng.choice(filled)
        condition = rng.choice(["", "", "if n < i:", "if i < n:", f"if i % 4 == {rng.randrange(4)}:"])
        scale = rng.choice(
            ["* T.float32(2)", "+ T.float32(1)", f"+ {rng.choice(filled)}[{rng.choice(['i', '15 - i'])}]"]
        )
        lines += [f'{name}_data = T.allocate([16], "float32", "global")']
        lines += [f'{name} = T.Buffer((16,), "float32", data={name}_data)', "for i in range(16):"]
        store = f"{name}[i] = {read}[{rng.choice(['i', 'i', '15 - i'])}] {scale}"
        lines += [f"    {condition}", f"        {store}"] if condition else [f"    {store}"]
        filled.append(name)
    lines += ["for i in range(16):", f"    B[i] = {filled[-1]}[i] + {rng.choice(filled)}[i]"]
    head = 'def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):\n'
    return head + "".join(f"    {line}\n" for line in lines)


def result(mod: IRModule, n: int) -> np.ndarray:
    out = np.zeros(16, "float32")
    run_function(mod["main"], [np.arange(1, 17, dtype="float32"), out, np.asarray(n, "int32")])
    return out


@pytest.mark.parametrize("seed", range(40))
def test_sharing_memory_preserves_defined_elements(seed: int) -> None:
    """The interpreter fills new memory with NaN. An element that is NaN before was never written, so it is free."""
    before = module(chain(random.Random(seed)))
    after = transform.StorageRewrite()(before)
    for n in (-1, 7, 20):
        old, new = result(before, n), result(after, n)
        np.testing.assert_array_equal(new[~np.isnan(old)], old[~np.isnan(old)])


def test_sharing_memory_of_partly_written_buffers_happens() -> None:
    """The law above needs programs in which a temporary with unwritten elements shares memory."""
    mods = [module(chain(random.Random(seed))) for seed in range(40)]
    partial = [mod for mod in mods if np.isnan(result(mod, 7)).any()]
    shared = [
        m
        for m in partial
        if script(transform.StorageRewrite()(m)).count("T.allocate(") < script(m).count("T.allocate(")
    ]
    assert len(shared) > 5
