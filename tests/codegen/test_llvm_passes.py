"""LLVM's own passes as steps: read from what LLVM writes, in the timeline, and followed."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from tvmagic import codegen
from tvmagic.codegen.llvm import listings as texts
from tvmagic.codegen.llvm import passes as llvm_passes
from tvmagic.codegen.llvm.passes import LLVMPass, grouped, read_passes
from tvmagic.notebook.commands import passes
from tvmagic.notebook.stepper import packed_view
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.target import Target

KERNELS = {
    "matmul": (
        "A: float32[32, 32]\nB: float32[32, 32]\nC[i, j] += A[i, k] * B[k, j]",
        "i, j, k = s[C].leaf_iter_vars\ns[C].reorder(i, k, j)\ns[C].vectorize(s[C].split(j, 8)[1])",
        "+= A[i, k]",
    ),
    "add": ("A: float32[64, 64]\nB[i, j] = A[i, j] + 1.5", "s[B].fuse(*s[B].leaf_iter_vars)", "A[i, j] + 1.5"),
    "rows": (
        "A: float32[16, 64]\nB[i] = max(A[i, k], over=k)",
        "s[B].unroll(s[B].split(s[B].op.reduce_axis[0], 4)[1])",
        "max(",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_timeline_goes_on_through_llvm_to_the_text_that_is_compiled(name: str) -> None:
    text, calls, line = KERNELS[name]
    version = schedule(operator(name, text), calls)
    view = passes(version).view
    names = [step.name for step in view.steps]
    first, last = names.index("codegen.emit"), names.index("codegen.llvm")
    steps = view.steps[first + 1 : last]
    assert len(steps) > 4 and any(step.name in ("llvm.LICM", "llvm.LoopVectorize", "llvm.LoopUnroll") for step in steps)
    assert [s.name for s, after in zip(steps, steps[1:]) if s.name == after.name == "llvm.others"] == []
    for before, after in zip(view.steps[first:last], steps):
        assert after.before == before.after and after.changed == (after.before != after.after)
    assert steps[-1].after == view.steps[last].after, "the passes end where the compiled text begins"
    assert "\n".join(view.text_lines(steps[-1].after)) + "\n" == codegen.llvm_ir(version.lower())
    ((source, rows),) = ((n, rows) for n, rows in view.sources.items() if n.startswith("tensor"))
    in_source = next(i for i, row in enumerate(rows) if line in row) + 1
    for step in [*steps, view.steps[-1]]:
        assert step.after is not None
        origins = view.texts[step.after].origins
        assert any((source, in_source) in view.origins[o] for o in origins), f"{step.name} is followed from the cell"
    assert len(json.dumps(packed_view(view))) < 400_000


def test_all_of_them_or_none() -> None:
    version = schedule(operator("matmul", KERNELS["matmul"][0]), KERNELS["matmul"][1])
    loops, each, none = (
        [s.name for s in passes(version, llvm=which).record if s.kind == "codegen"]
        for which in ("loops", "all", "none")
    )
    assert none == ["codegen.llvm", "codegen.assembly"] and "llvm.others" not in each
    assert len(each) > len(loops) > len(none) and "llvm.InstCombine" in each


def test_what_llvm_writes_is_read() -> None:
    def dump(name: str, place: str, body: str) -> str:
        return f"*** IR Dump After {name}Pass on {place} ***\n{body}\n"

    said = (
        "*** IR Dump At Start ***\nnothing\n"
        + dump("SimplifyCFG", "f", "a")
        + dump("EarlyCSE", "f", "b")
        + "remark: lowered.py:3:1: hoisting add\nremark: <unknown>:0:0: of nothing\n"
        + dump("LICM", "loop %l in function f", "c")
        + dump("LICM", "loop %m in function f", "d")
        + "remark: lowered.py:4:1: loop not vectorized: no\n"
        + dump("GVN", "f", "e")
        + "remark: lowered.py:5:1: loop not vectorized: never\n"
    )
    found = read_passes("source", said)
    assert [(p.names, p.places, p.after and p.after.strip(), p.remarks) for p in found] == [
        (["SimplifyCFG"], ["f"], "a", []),
        (["EarlyCSE"], ["f"], "b", []),
        (["LICM"], ["loop %l in function f", "loop %m in function f"], "d", [(3, "hoisting add")]),
        (["LoopVectorize"], [], None, [(4, "loop not vectorized: no")]),
        (["GVN"], ["f"], "e", []),
        (["LoopVectorize"], [], None, [(5, "loop not vectorized: never")]),
    ]
    names = [p.names for p in grouped(found)]
    assert names == [["SimplifyCFG", "EarlyCSE"], ["LICM"], ["LoopVectorize"], ["GVN"], ["LoopVectorize"]]
    assert [p.names for p in found][0] == ["SimplifyCFG"], "grouping leaves its argument as it is"
    assert not LLVMPass(["GVN"]).changes_loops and llvm_passes.LOOPS


def test_a_process_that_fails_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false") or "/bin/false")
    record = passes(operator("add", KERNELS["add"][0])).record
    (step,) = [s for s in record if s.name == "codegen.emit"]
    assert [n.text for n in step.notes] == ["LLVM's passes are not shown: the process that runs them one by one failed"]
    assert [s.name for s in record][-3:] == ["codegen.emit", "codegen.llvm", "codegen.assembly"]


def test_a_process_that_ends_with_an_error_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu")
    for program in ("false", "no program of this name"):
        monkeypatch.setattr(sys, "executable", shutil.which(program) or program)
        assert texts.optimized_apart(f"; {program}", target, ()) is None
