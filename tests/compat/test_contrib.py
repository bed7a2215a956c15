"""Libraries at TVM's places: products by `contrib.cblas`, text for LLVM by `contrib.clang`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tools import needs
from tvmagic.contrib import cblas, clang

import tvmagic as tvm
from tvmagic import te


@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (3, "iterative")])
def test_products_by_a_library(transa: bool, transb: bool, batch: tuple[Any, ...]) -> None:
    n, l, m = 4, 5, 6
    sizes: tuple[int, ...] = batch[:1]
    A = te.placeholder((*sizes, *((l, n) if transa else (n, l))), name="A")
    B = te.placeholder((*sizes, *((m, l) if transb else (l, m))), name="B")
    if batch:
        C = cblas.batch_matmul(A, B, transa, transb, iterative=len(batch) == 2)
    else:
        C = cblas.matmul(A, B, transa, transb)
    rng = np.random.default_rng(0)
    a = rng.random((*sizes, *((l, n) if transa else (n, l))), dtype="float32")
    b = rng.random((*sizes, *((m, l) if transb else (l, m))), dtype="float32")
    c = np.zeros((*sizes, n, m), "float32")
    tvm.build(te.create_schedule(C.op), [A, B, C], "llvm")(a, b, c)
    wanted = (a.swapaxes(-1, -2) if transa else a) @ (b.swapaxes(-1, -2) if transb else b)
    np.testing.assert_allclose(c, wanted, rtol=1e-6)


def test_what_a_library_does_not_multiply() -> None:
    A = te.placeholder((3, 4), name="A")
    with refuses("cblas.wrong_rank"):
        cblas.batch_matmul(te.placeholder((2, 3, 4)), A)
    assert tvm.get_global_func("tvm.contrib.cblas.solve", allow_missing=True) is None
    with refuses("global_function.unknown"):
        tvm.get_global_func("tvm.contrib.cblas.solve")


def test_without_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMAGIC_HIDE_TOOLS", "clang")
    assert clang.find_clang(required=False) == []
    with refuses("tool.missing_program", names="`clang`"):
        clang.create_llvm("int f() { return 1; }")


@needs("clang")
def test_text_for_llvm_of_code_in_c() -> None:
    assert "@add" in clang.create_llvm('extern "C" int add(int a, int b) { return a + b; }')
    with refuses("clang.compilation_failed"):
        clang.create_llvm("int f( {")


def test_clang_is_called_with_the_code(tmp_path: Path) -> None:
    """A program in clang's place gets the file, and its output is the text."""
    program = tmp_path / "clang"
    program.write_text('#!/bin/sh\nfor last; do :; done\necho "; text of $*" > "$last"\n')
    program.chmod(0o755)
    text = clang.create_llvm("int f() { return 1; }", output=str(tmp_path / "f.ll"), cc=str(program))
    assert "-O3 -emit-llvm -S" in text and (tmp_path / "f.ll").read_text() == text
    with refuses("clang.several_files"):
        clang.create_llvm(["a.c", "b.c"], cc=str(program))
