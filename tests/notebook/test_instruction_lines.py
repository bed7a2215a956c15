"""Instructions of the hottest loops lead back to lines of the cell, as the stepper shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from dense_schedules import BLOCKS
from ten_kernels import NAMES, kernel_named

from benchmarks import kernels
from tvmagic import codegen, lower, te, tir
from tvmagic.notebook.view import View, make_view
from tvmagic.operators import operator
from tvmagic.operators.codegen_steps import add_code_steps
from tvmagic.operators.scheduling import schedule
from tvmagic.passes import recording

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
BRANCH = re.compile(r"\s+j\w+\s+(\.LBB\w+)")
USES_DATA = re.compile(r"\s+(?!lea|nop|lock|prefetch)\w+\s.*(?:%[xyz]mm|\(%(?!rsp))")


def innermost_loops(assembly: list[str]) -> list[range]:
    """The lines of each loop that contains no other one."""
    labels = {row.split(":")[0]: i for i, row in enumerate(assembly) if row.startswith(".LBB")}
    jumps = [(i, m[1]) for i, row in enumerate(assembly) if (m := BRANCH.match(row))]
    loops = [range(labels[to], i + 1) for i, to in jumps if labels.get(to, i) < i]
    return [a for a in loops if not any(b != a and b.start in a and b.stop - 1 in a for b in loops)]


def check_instructions(view: View) -> int:
    """Check that what accesses memory or computes leads to the first program and has a location; return the count."""
    first = next(step.before for step in view.steps if step.before is not None)
    last = view.steps[-1].after
    assert first is not None and last is not None
    lines, text = view.text_lines(last), view.texts[last]
    starts = {thread for group in view.texts[first].threads for thread in view.followed(group)}
    found = {i for loop in innermost_loops(lines) for i in loop if USES_DATA.match(lines[i])}
    for i in found:
        assert text.threads[i] in starts, f"followed: {lines[i]}"
        assert view.origins[text.origins[i]] or not any(view.origins), f"has a place in the cell: {lines[i]}"
    return len(found)


def readme_cells() -> tuple[str, str]:
    text = (Path(__file__).parents[2] / "README.md").read_text()
    cells = [re.search(rf"    %%{name} dense.*\n((?:    .*\n)+)", text) for name in ("tensor", "schedule")]
    definition, calls = ["".join(re.findall(r"    (.*\n)", cell[1])) for cell in cells if cell is not None]
    return definition, calls


@pytest.mark.parametrize("kind", ["plain", "te", "tensorir"])
def test_instructions_of_the_product_lead_to_its_cell(kind: str) -> None:
    definition, calls = readme_cells()
    op = operator("dense", definition)
    version = {"plain": None, "te": calls, "tensorir": BLOCKS}[kind]
    view = make_view(op.passes(schedule(op, version) if version else None, target=TARGET))
    assert check_instructions(view) > 20


@pytest.mark.parametrize("name", NAMES)
def test_instructions_of_kernels_lead_to_their_statements(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, tensors = kernel_named(name, monkeypatch)
    with recording() as record:
        sch = tir.Schedule(te.create_prim_func(tensors))
        kernel.schedule(kernels.Steps(sch))
        add_code_steps(record, lower(sch.mod), codegen.resolved(TARGET), "none")
    assert check_instructions(make_view(record)) > 5


def test_loads_of_one_statement_are_followed_by_themselves() -> None:
    op = operator("f", "A: float32[64, 32]\nB: float32[32, 64]\nY[i, j] = A[i, j] / B[j, i]")
    view = make_view(op.passes(target=TARGET))
    last = view.steps[-1].after
    assert last is not None
    loads: dict[Any, str] = {}
    for i in {i for loop in innermost_loops(view.text_lines(last)) for i in loop}:
        row = view.text_lines(last)[i]
        if "mm" in row and "(%" in row:
            loads.setdefault(view.texts[last].threads[i], row)
    assert len(loads) > 1, "the loads of A and of B, and the store, have different threads"
