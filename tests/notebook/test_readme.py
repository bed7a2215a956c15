"""What the README tells a newcomer to write works as it stands, and what it names exists."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tvmagic.notebook.arguments import PARSERS
from tvmagic.notebook.magics import MAGICS
from tvmagic.runtime import num_threads, set_num_threads

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks() -> list[str]:
    """The indented blocks, without their indentation; blank lines inside a block stay."""
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", README, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


def block(start: str) -> str:
    (found,) = [b for b in blocks() if b.startswith(start)]
    return found


def test_the_cells_run(shell: Any) -> None:
    for start in ("%%tensor dense", "%%schedule dense"):
        result = shell.run_cell(block(start))
        assert result.success, result.error_in_exec
    dense = shell.user_ns["dense"]
    x, w, b = dense.random_inputs()
    np.testing.assert_allclose(dense(x, w, b), dense.reference(x, w, b), rtol=1e-4, atol=1e-4)


def test_the_first_four_lines_schedule_check_and_measure(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    load, cell = block("%load_ext tvmagic\n").strip().split("\n\n")
    assert len((load + "\n" + cell).split("\n")) == 4, "under five lines to type"
    shell.run_line_magic("config", "TensorMagics.bench_seconds = 0.01")
    assert shell.run_cell(cell).success
    out = capsys.readouterr().out
    assert "product (auto): \u2713 equal to NumPy" in out and "times NumPy's speed" in out and "VectorizeLoop" in out
    assert shell.user_ns["product"].current.name == "auto"


@pytest.mark.parametrize("target", ["", "llvm -mcpu=haswell"])
def test_the_example_is_faster_than_numpy(shell: Any, target: str) -> None:
    """Measured at 1.4 to 2 times NumPy's speed, with AVX2 and AVX-512; least times of interleaved calls on one thread."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    if not {"avx2", "fma"} <= {name for name, there in llvm.get_host_cpu_features().items() if there}:
        pytest.skip("the README says it of processors with AVX2")
    if target:
        shell.run_cell(f"%config TensorMagics.target = '{target}'")
    for start in ("%%tensor dense", "%%schedule dense"):
        assert shell.run_cell(block(start).replace(" --check --time", " -q")).success
    dense = shell.user_ns["dense"]
    x, w, b = dense.random_inputs()
    z = np.empty((1536, 128), "float32")
    threads = num_threads()
    best = [np.inf, np.inf]
    try:
        set_num_threads(1)
        with threadpoolctl.threadpool_limits(1):
            for _ in range(300):
                for side, call in enumerate((lambda: dense(x, w, b, out=z), lambda: np.maximum(x @ w + b, 0, out=z))):
                    start = time.perf_counter()
                    call()
                    best[side] = min(best[side], time.perf_counter() - start)
    finally:
        set_num_threads(threads)
    assert best[0] < best[1], f"{best[1] / best[0]:.2f} times NumPy's speed"


def test_the_table_of_magics_has_a_row_and_the_declared_example_of_each() -> None:
    rows = re.findall(r"(?m)^\| `(%+\w+)[^`]*` \| .* \| `(.*)` \|$", README)
    assert dict(rows) == {PARSERS[name].magic: PARSERS[name].example for name in MAGICS} and len(rows) == len(MAGICS)


def test_each_line_of_the_notation_is_understood(shell: Any) -> None:
    lines = block("X: float32[n, 256]").splitlines()
    x, y, m, q, s, h, table, both, shape, p, c, u, g, e, d, known, i, a = [
        re.split(r" {2,}", line)[0] for line in lines
    ]
    vector = "A: float32[33]"
    cells = {
        "matrix": [x, "W: float32[256, 8]", y],
        "largest": [x, m],
        "shares": [x, s],
        "paired": ["X: float32[8]", q],
        "halved": [vector, h],
        "table": ["X: float32[9, 33]", table],
        "together": [vector, "s: range(2)", both],
        "padded": ["X: float32[64]", shape, p],
        "strided": [vector, "K: float32[5]", c],
        "repeated": [vector, u],
        "called": ["def f(x): return x * 2", vector, g],
        "rows": ["T: float32[9, 4]", "I: int32[5]", e],
        "ranged": [vector, d],
        "known": ["P: int32[9]", "X: float32[n]", known, "Z[i] = X[P[i]]"],
        "all_ranged": [vector, i, "D[i] = A[i]"],
        "updated": [vector, a],
    }
    for name, lines in cells.items():
        result = shell.run_cell("\n".join([f"%%tensor {name} --quiet", *lines]))
        assert result.success, (name, result.error_in_exec)
    shapes = {name: [int(n) for n in shell.user_ns[name].outputs[0].shape] for name in list(cells)[3:]}
    assert shapes == {
        "paired": [4],
        "halved": [33],
        "table": [9, 33],
        "together": [33, 2],
        "padded": [66],
        "strided": [15],
        "repeated": [99],
        "called": [33],
        "rows": [5, 4],
        "ranged": [30],
        "known": [9],
        "all_ranged": [30],
        "updated": [33],
    }
    assert shell.user_ns["rows"].check_bounds and not shell.user_ns["strided"].check_bounds
    sample = np.ones((3, 256), "float32")
    np.testing.assert_array_equal(shell.user_ns["largest"](sample), np.ones(3))
    np.testing.assert_allclose(shell.user_ns["shares"](sample), np.full((3, 256), 1 / 256), rtol=1e-5)


def test_the_program_without_a_notebook_runs() -> None:
    names: dict[str, Any] = {}
    exec(block("from tvmagic import te"), names)
    x = np.arange(1024, dtype="float32")
    y = np.empty_like(x)
    names["add_one"](x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_files_targets_and_magics_exist(shell: Any) -> None:
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / path).exists(), path
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`make (\w+)`|^    make (\w+)", README, re.MULTILINE)):
        assert f"\n{''.join(target)}:" in makefile, target
    magics = {name for kind in shell.magics_manager.magics.values() for name in kind}
    for name in set(re.findall(r"`%{1,2}(\w+)", README)):
        assert name in magics, name
    for name in {p.name for p in (ROOT / "notebooks").glob("*.ipynb")}:
        assert name in README, f"the README does not name {name}"


@pytest.mark.parametrize("start", ["| |", "| kernel |", "| magic |", "| notebook |"])
def test_tables_have_rows_of_one_length(start: str) -> None:
    table = README[README.index(f"\n{start}") + 1 :].split("\n\n")[0].splitlines()
    assert len({line.replace("`%%", "").count("|") for line in table}) == 1
