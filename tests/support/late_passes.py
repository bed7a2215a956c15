"""Late passes on functions written as text: the result, and the laws that each application keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvmagic.eval.machine import run_function
from tvmagic.ir import For, IRModule, PrimFunc, Stmt
from tvmagic.ir.query import nodes_of
from tvmagic.passes import recording
from tvmagic.script import from_source
from tvmagic.target import resolved

X86_64_V2 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v2"
HASWELL = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
SKYLAKE = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"
# Verbs that begin a note: what the pass did, or that it did not apply.
PAST = re.compile(
    r"(accumulated|annotated|computed|kept|legalized|loaded|lowered|masked|placed|simplified|skipped:|speculated|split"
    r"|strip-mined|vectorized|versioned|wrote) "
)
# Notes that say why a pass changed nothing.
UNCHANGED = re.compile(r"skipped: |kept guarded loop |kept loop `[^`]*` whole: ")


def parsed(text: str, noalias: bool = False) -> PrimFunc:
    """The function of a text, whose arguments are disjoint with `noalias`."""
    func = from_source(text)
    return func.with_attr("tir.noalias", True) if noalias else func


def late(make: Callable[..., Any], func: PrimFunc, target: str = HASWELL, **options: Any) -> PrimFunc | None:
    """The function after a late pass, or None if the pass returned the same module.

    The pass must add a note if it changed something and only then, and change nothing the second time.
    """
    mod = IRModule({"main": func})
    run = make(resolved(target), **options)
    with recording() as record:
        made = run(mod)
    notes = [note.text for note in record.notes("late")]
    assert any(not UNCHANGED.match(text) for text in notes) == (made is not mod), notes
    assert all(PAST.match(text) for text in notes), notes
    assert run(made) is made, f"{run.name} changed its result"
    return None if made is mod else made["main"]


def loops(body: Any, name: str = "") -> list[For]:
    """The loops over variables of a name, or all; those inside a loop precede it."""
    return [loop for loop in nodes_of(body, For) if not name or loop.loop_var.name == name]


def assert_same_values(one: PrimFunc, other: PrimFunc, arrays: Sequence[np.ndarray]) -> None:
    """Assert that the interpreter leaves the same values in all arrays."""
    results = [[array.copy() for array in arrays] for _ in range(2)]
    for func, mine in zip((one, other), results):
        run_function(func, mine)
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


def with_body(body: Stmt, *params: Any, noalias: bool = True) -> PrimFunc:
    """A function of a body that was built by hand."""
    return PrimFunc(params, body, attrs={"global_symbol": "main", "tir.noalias": noalias})
