"""What an explanation says: its data, its places, LLVM's remarks, the loop's assembly, addresses and footprints."""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from instant_cells import random_cell
from refusals import refuses
from tools import is_installed, needs, uses

from tvmagic import te
from tvmagic.codegen import last_program
from tvmagic.driver import lower
from tvmagic.explain import CODES, Explanation
from tvmagic.explain import explain as explain_in_time
from tvmagic.explain.body_cycles import count_cycles, read_mca
from tvmagic.explain.llvm import Facts, inner_loops
from tvmagic.model.footprints import footprint, patterns
from tvmagic.model.nests import nests_of
from tvmagic.model.program_model import model
from tvmagic.notebook.machine import auto_source
from tvmagic.operators import Operator, Version, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.target import resolved

WIDE = "llvm -mcpu=skylake-avx512 -num-cores=4"


def explain(value: Any, target: Any = None, seconds: float = 120, **options: Any) -> Explanation:
    """An explanation that has the time to try every call, on a busy machine, too."""
    return explain_in_time(value, target, seconds=seconds, **options)


def matmul(name: str = "mm") -> Operator:
    return operator(name, "A: float32[96, 100]\nB: float32[100, 192]\nC[i, j] += A[i, k] * B[k, j]")


def first(version: Version, target: str = WIDE) -> Any:
    """The first function of a version's last program."""
    return next(iter(last_program(version.lower(), target).functions.values()))


# ---------------------------------------------------------------------------- data


def test_the_data_has_the_keys_of_the_attributes() -> None:
    found = explain(matmul(), WIDE, llvm=False)
    data = json.loads(json.dumps(found.to_json()))
    assert {"code", "text", "line", "cell_line", "call", "gain"} <= set(data["findings"][0])
    for finding, row in zip(found.findings, data["findings"]):
        assert row["code"] == finding.code in CODES and row["gain"] == finding.gain
    loop = data["loops"][0]
    assert loop["nest"] == "C" and loop["loops"] == ["i", "j", "k"] and loop["vectorized"] == "no"
    assert loop["flops"] == 2 * 96 * 100 * 192 and set(loop["bytes"]) == {"L1", "L2", "L3", "memory"}
    assert found.loops[0].share == pytest.approx(1, abs=0.05)


def test_findings_name_their_lines() -> None:
    op = matmul()
    found = explain(op, WIDE, llvm=False)
    finding = found.findings[0]
    assert "C_1[" in found.program.split("\n")[finding.line - 1]
    assert op.source is not None and "C[i, j] +=" in op.source.lines[finding.cell_line - 1]


def test_a_call_uses_the_names_of_the_cell() -> None:
    version = schedule(
        matmul(), "row, column = C.op.axis\ninner, = C.op.reduce_axis\ns[C].reorder(row, inner, column)", "named"
    )
    calls = "\n".join(f.call for f in explain(version, WIDE, llvm=False).findings)
    assert "row" in calls and "C.op.axis" not in calls


def test_a_schedule_without_a_cell_gets_findings_without_calls() -> None:
    op = matmul()
    sch = op.te_schedule()
    sch[op.outputs[0]].unroll(op.outputs[0].op.axis[0])
    found = explain(Version(op, sch, "api"), WIDE, llvm=False).findings
    assert found[0].code == "reduction-order" and not found[0].call and found[0].gain == 1


def test_the_attempt_of_a_failed_cell_stays() -> None:
    op = matmul()
    version = schedule(op, "s[C].unroll(C.op.axis[0])", "kept")
    attempt = op.attempt
    explain(version, WIDE, llvm=False)
    assert op.attempt is attempt and op.current is version and list(op.versions) == ["kept"]


def test_only_operators_and_versions_are_explained() -> None:
    with refuses("explain.not_an_operator"):
        explain(3)  # type: ignore[arg-type]
    with refuses("explain.not_a_cpu"):
        explain(matmul(), "llvm -mtriple=nvptx64-nvidia-cuda", llvm=False)


def test_symbolic_sizes_and_tensorir_functions_are_explained() -> None:
    op = operator("free", "A: float32[n, m]\nB: float32[n, m]\nC[i, j] = A[i, j] * B[i, j]")
    assert explain(op, WIDE, size=512, llvm=False).loops
    text = """
from tvmagic.script import tir as T
@T.prim_func
def twice(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * T.float32(2)
"""
    assert isinstance(explain(operator("twice", text), WIDE, llvm=False), Explanation)


def test_strides_of_symbolic_sizes_are_those_of_arrays_without_gaps() -> None:
    op = operator("free", "A: float32[n, m]\nB: float32[n, m]\nC[i, j] = A[i, j] * B[i, j]")
    (nest,) = nests_of(first(op.version("plain")), 300)[0]
    assert {a.address.stride(nest.loops[0].var) for a in nest.accesses} == {300}
    assert {a.address.stride(nest.inner.var) for a in nest.accesses} == {1}
    found = explain(op, WIDE, size=3000, llvm=False)
    assert found.loops[0].recomputed == 1


def test_statements_that_never_run_wait_for_nothing() -> None:
    op = operator("empty", "X: int64[n, 2]\nk: range(2)\nS[i] = prod(X[i, k], over=k)")
    version = schedule(op, "outer, inner = s[S].split(s[S].op.reduce_axis[0], nparts=4)\ns.rfactor(S, inner)", "parts")
    assert explain(version, WIDE, size=16, llvm=False).loops


def test_schedules_and_targets_of_gpus_are_named() -> None:
    op = operator("bound", "A: float32[64, 64]\nB[i, j] = A[i, j] * 2")
    version = schedule(op, "s[B].bind(B.op.axis[0], te.thread_axis('blockIdx.x'))", "bound")
    found = explain(version, WIDE, llvm=False)
    assert not found.findings and any("one for a GPU" in note for note in found.notes)
    (row,) = found.loops
    assert row.flops == 64 * 64 and row.recomputed == 1 and row.loops == ("blockIdx.x", "j")
    for target in ("opencl", "llvm -mtriple=nvptx64-nvidia-cuda"):
        with refuses("explain.not_a_cpu"):
            explain(op, target, llvm=False)


def test_a_call_that_takes_long_or_much_memory_is_not_made() -> None:
    from tvmagic.notebook.why import why

    text = "X: float32[{0}, {0}]\nY: float32[{0}, {0}]\nZ[i, j] += X[i, k] * Y[k, j]"
    for size in (4000, 40_000):
        shown = why(operator("large", text.format(size)).version("plain"))
        assert shown.seconds is None and "not measured: a call takes about" in shown.text(False)
    elsewhere = why(operator("little", text.format(8)).version("plain"), "llvm -mtriple=aarch64-linux-gnu")
    assert elsewhere.seconds is None and "not measured: it is explained for" in elsewhere.text(False)


def cycles(text: str, cell: str, target: str = WIDE) -> float:
    """What the model gives for a kernel `C` with a schedule."""
    return model(first(schedule(operator("kernel", text), cell, "tried"), target), resolved(target).machine).time


def test_columns_that_fall_onto_the_same_lines_of_a_cache_do_not_stay_in_it() -> None:
    """32 rows of 4 KB fit into the first cache by their bytes, not by their places."""
    cell = "i, j = C.op.axis\ns[C].reorder(j, i)"
    same, apart = (cycles(f"A: float32[32, {n}]\nC[i, j] = A[i, j] + 1", cell) / n for n in (1024, 1040))
    assert same > 1.5 * apart


def test_lines_at_the_same_places_of_a_cache_are_named() -> None:
    """A transpose in blocks of 64 rows that are 4 KB apart; rows of another length stay in the cache."""
    text, cell = "A: float32[{0}, {0}]\nB[i, j] = A[j, i]", "s[B].tile(*B.op.axis, 64, 64)"
    first_code, *_ = (
        f.code for f in explain(schedule(operator("turn", text.format(1024)), cell), WIDE, llvm=False).findings
    )
    others = explain(schedule(operator("turn", text.format(1088)), cell), WIDE, llvm=False).findings
    assert first_code == "cache-conflicts" and all(f.code != "cache-conflicts" for f in others)
    blocks = [cycles(text.format(1024).replace("B[", "C["), f"s[C].tile(*C.op.axis, {n}, {n})") for n in (64, 16, 8)]
    assert blocks[0] > 1.5 * blocks[1] > 1.5 * blocks[2]


def test_a_condition_on_data_does_not_say_which_iterations_run() -> None:
    op = operator("f", "X: int32[4096]\nY[i] = where(X[i] == 3, 1, where(X[i] == 2, 5, 0))")
    cell = 'i, = sch.get_loops(sch.get_block("Y"))\nio, ii = sch.split(i, [8, None])\nsch.unroll(io)'
    found = explain(schedule(op, cell, "v"), WIDE, llvm=False)
    assert {row.recomputed for row in found.loops} == {1}


# ---------------------------------------------------------------------------- LLVM


@uses("llvm-mca", "osaca")
def test_llvm_says_why_a_loop_has_no_vectors() -> None:
    found = explain(matmul())
    assert any("reorder floating-point" in f.text for f in found.findings)
    assert found.assembly and any(line > 0 for _, line in found.assembly)
    if not is_installed("llvm-mca") and not is_installed("osaca"):
        assert any("llvm-mca" in note for note in found.notes)


@needs("llvm-mca")
def test_with_the_tool_the_loop_has_cycles_and_pressure() -> None:
    found = explain(matmul(), "llvm -mcpu=haswell")
    assert found.body_cycles > 0 and any(found.pressure) and found.cycles_by == "llvm-mca"
    assert not any("simple model of the core" in note for note in found.notes)


@uses("llvm-mca", "osaca")
def test_without_the_tools_the_findings_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    op = matmul()
    before = explain(op)
    monkeypatch.setenv("TVMAGIC_HIDE_TOOLS", "llvm-mca,osaca")
    after = explain(op)
    assert [(f.code, f.call) for f in after.findings] == [(f.code, f.call) for f in before.findings]
    assert after.body_cycles == 0 and any("llvm-mca, or the package `osaca`" in note for note in after.notes)


BODY = [".LBB0_1:", "\tvmovups\t(%rdi,%rax), %ymm1", "\tvfmadd231ps\t(%rsi,%rax), %ymm1, %ymm0", "\taddq\t$32, %rax",
        "\tcmpq\t$4096, %rax", "\tjb\t.LBB0_1"]  # fmt: skip


@needs("osaca")
def test_without_llvm_mca_osaca_counts_the_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMAGIC_HIDE_TOOLS", "llvm-mca")
    found = count_cycles(BODY, resolved("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
    assert found is not None and (found.tool, found.processor) == ("osaca", "haswell")
    assert found.cycles == 5.0, "a multiply-add waits for the one before"
    assert len(found.pressure) == len(BODY) and found.pressure[0] == "" and found.pressure[1].startswith("port ")
    assert count_cycles(["\tnonsense\t%what"], resolved("llvm -mtriple=riscv64-linux-gnu")) is None


def test_a_tool_that_fails_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("llvm-mca", "python"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert count_cycles(BODY, resolved("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")) is None


def test_remarks_belong_to_the_innermost_loop_of_their_line() -> None:
    version = schedule(matmul(), "s[C].reorder(C.op.axis[0], C.op.reduce_axis[0], C.op.axis[1])", "rows")
    target = resolved("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    found = explain(version, target)
    assert found.loops[0].vectorized == "vectors by LLVM"


def test_spills_are_counted_in_the_loop_alone() -> None:
    rows = ("\tvmovups\t%zmm1, 64(%rsp)", ".L1:", "\tvmovups\t%zmm1, 64(%rsp)", "\tvaddps\t%zmm1, %zmm2, %zmm2", "\tvmovaps\t%ymm3, -32(%rbp)", "\tjne\t.L1", "\tretq")  # fmt: skip
    assert inner_loops(rows) == [(1, 5)]
    from tvmagic.codegen.emit.debug import AssemblyLines

    facts = Facts(assembly=AssemblyLines("", rows, (0, 0, 7, 7, 7, 7, 0)))
    assert facts.spills({7}) == 2 and facts.spills({9}) is None


def test_a_loop_that_begins_inside_another_one_is_inside_it() -> None:
    """LLVM may place the last part of a loop before its first, so that the loop inside ends after it."""
    rows = (
        ".last:",
        "\tincq\t%r8",
        "\tje\t.out",
        ".inner:",
        "\tvfmadd231ps\t%zmm1, %zmm2, %zmm3",
        "\tje\t.last",
        "\tjmp\t.inner",
        ".out:",
    )
    assert inner_loops(rows) == [(3, 6)]


@pytest.mark.parametrize(("inside", "apart"), [("ko, ki = sch.split(k, [None, 16])\nsch.reorder(io, jo, ko, ki, ii, ji)", "ko"), ("sch.reorder(io, jo, k, ii, ji)", "k")])  # fmt: skip
def test_sums_that_begin_inside_go_through_memory(inside: str, apart: str) -> None:
    """Measured: 3 times as long with the sums of 8 rows begun in two loops, 3 times with rows that LLVM makes vectors of."""
    op = operator("begun", "A: float32[112, 128]\nB: float32[128, 160]\nC[i, j] += A[i, k] * B[k, j]")
    head = 'b = sch.get_block("C")\ni, j, k = sch.get_loops(b)\nio, ii = sch.split(i, [None, 8])\njo, ji = sch.split(j, [None, 16])\n'
    marks = "\nsch.unroll(ii)" + "\nsch.vectorize(ji)" * (apart == "ko")
    version = schedule(op, head + inside + marks, "begun")
    found = explain(version, "llvm -mcpu=skylake-avx512 -num-cores=1", llvm=False).findings
    said = next(f for f in found if f.code == "guards")
    assert said.call.endswith(f'sch.decompose_reduction(sch.get_block("C"), {apart})')
    assert "begin with is stored inside the loops that add to them" in said.text


def test_the_answer_of_llvm_mca_is_read() -> None:
    said = {
        "CodeRegions": [
            {
                "SummaryView": {"TotalCycles": 412, "Iterations": 100},
                "ResourcePressureView": {
                    "ResourcePressureInfo": [
                        {"InstructionIndex": 0, "ResourceIndex": 1, "ResourceUsage": 0.5},
                        {"InstructionIndex": 1, "ResourceIndex": 0, "ResourceUsage": 1.0},
                        {"InstructionIndex": 2, "ResourceIndex": 0, "ResourceUsage": 1.5},
                    ]
                },
            }
        ],
        "TargetInfo": {"Resources": ["P0", "P1"]},
    }
    cycles, pressure = read_mca(said, [".L1:", "\tvaddps\t%ymm0, %ymm1, %ymm1", "\tjne\t.L1"])
    assert cycles == 4.12 and pressure == ["", "P1 0.50", "P0 1.00"]


# ---------------------------------------------------------------------------- addresses and footprints


def lines_touched(accesses: Any, loops: Any, line: int) -> int:
    """Bytes of the cache lines that are touched, by running through all iterations."""
    found: set[tuple[Any, int]] = set()
    for access in accesses:
        keys = [(k, s) for k, s in access.address.strides.items()]
        ranges = [range(loop.extent) for loop in loops]
        for values in itertools.product(*ranges):
            known = {loop.var: v for loop, v in zip(loops, values)}
            for lane in range(access.lanes):
                place = access.address.offset
                for (var, kind, by), stride in keys:
                    value = known.get(var, lane if var.name == "lane" else 0)
                    value = value // by if kind == "div" else value % by if kind == "mod" else value
                    place += stride * value
                found.add((access.data, place * access.bytes // line))
    return len(found) * line


@pytest.mark.parametrize("seed", range(30))
def test_footprints_are_those_of_the_iterations(seed: int) -> None:
    """Against counting lines one by one; a run that does not begin with a line may take one more."""
    rng = random.Random(seed)
    n, m = rng.choice([8, 17, 32]), rng.choice([16, 30, 64])
    a = te.placeholder((n + 4, m + 4), name="A")
    shift = rng.choice([0, 1, 4])
    step = rng.choice([1, 1, 2])
    turned = rng.random() < 0.3
    b = te.compute(
        (n // step, m // step),
        lambda i, j: a[i * step, j * step] + (a[i + shift, j + shift] if not turned else a[j % n, i]),
        name="B",
    )
    s = te.create_schedule(b.op)
    i, j = b.op.axis
    if rng.random() < 0.5:
        s[b].tile(i, j, 4, 8)
    func = next(iter(lower(s, [a, b]).functions.values()))
    for nest in nests_of(func)[0]:
        for start in range(len(nest.loops)):
            inside = nest.loops[start:]
            for access in nest.accesses:
                if not access.address.known:
                    continue
                guess, true = footprint([access], start, 64), lines_touched([access], inside, 64)
                assert true / 2.2 <= guess <= 2.2 * true + 128, (str(access.node), [x.name for x in inside])


def test_accesses_that_differ_by_constants_are_one_pattern() -> None:
    op = operator("three", "X: float32[66]\nfor i in range(64): Y[i] = X[i] + X[i + 1] + X[i + 2]")
    (nest,) = nests_of(first(op.version("plain")))[0]
    found = {p.access.name: p.offsets for p in patterns(nest.accesses)}
    assert found == {"X": (0, 1, 2), "Y": (0,)}


# ---------------------------------------------------------------------------- the model


def test_threads_that_are_started_often_cost_time() -> None:
    machine = resolved(WIDE).machine
    outer = model(first(schedule(matmul(), "s[C].parallel(C.op.axis[0])", "outer")), machine)
    inner = model(first(schedule(matmul(), "s[C].parallel(C.op.axis[1])", "inner")), machine)
    assert inner.nests[0].launches == 96 and outer.nests[0].launches == 1 and inner.time > outer.time


# ---------------------------------------------------------------------------- any cell


def explained_both(seed: int, seconds: float) -> None:
    """A random cell's plain loops and its instant schedule are explained, and each call that is proposed runs."""
    text, size = random_cell(seed)
    op = operator(f"cell{seed}", text)
    cell, _ = auto_source(op, WIDE)
    for version in (op.version("plain"), schedule(op, cell.split("\n", 1)[1], "auto")):
        found = explain(version, WIDE, size=size or 16, llvm=False, seconds=seconds)
        assert all(0 <= row.share <= 1.001 and 0 <= row.roof_share <= 1 for row in found.loops)
        json.dumps(found.to_json())
        for finding in [f for f in found.findings if f.call][:1]:
            schedule(op, finding.cell.split("\n", 1)[1], "pasted", version.scope)


# 42: a batched product whose store has fewer loops than axes; 144: a sum around a loop without iterations
@pytest.mark.parametrize("seed", [0, 42, 144])
def test_any_cell_is_explained(seed: int) -> None:
    explained_both(seed, 0.5)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [n for n in range(1, 400) if n not in (42, 144)])
def test_many_cells_are_explained(seed: int) -> None:
    explained_both(seed, 2)


# ---------------------------------------------------------------------------- memory and chains


def plane(rows: int, columns: int, order: str = "") -> Any:
    """A stencil's model; with `order` along rows in blocks of a few columns, as column after column."""
    text = f"X: float32[{rows}, {columns + 2}]\nfor j in range({columns}):\n    Y[i, j] = X[i, j] + X[i, j + 1] + X[i, j + 2]"
    made = schedule(operator("plane", text), order or "pass", "tried")
    return model(first(made), resolved(WIDE).machine).nests[-1]


def test_stores_wait_if_more_of_them_belong_to_a_place_than_it_has_ways() -> None:
    order = "jo, ji = s[Y].split(Y.op.axis[1], 16)\ns[Y].reorder(jo, Y.op.axis[0], ji)\ns[Y].vectorize(ji)"
    even, odd = plane(512, 1024, order), plane(512, 1040, order)  # rows of 4096 bytes, and of 4160
    assert even.transfers["L2"] > 3 * odd.transfers["L2"]
    assert plane(512, 1024).transfers["L2"] < 1.2 * plane(512, 1040).transfers["L2"]


@pytest.mark.parametrize("text", ["X: float32[1]\nY[i] = 3 * X[i]", "X: float32[3, 3]\nY[i, j] += X[i, k] * X[k, j]"])
def test_what_takes_less_than_a_call_has_no_findings(text: str) -> None:
    found = explain(operator("few", text).version("plain"), WIDE, llvm=False)
    assert not found.findings and found.notes


def test_a_slow_stage_inlined_into_two_is_computed_twice() -> None:
    text = "X: float32[256, 512]\nE[i, j] = exp(X[i, j])\nt[i] = sum(E[i, k], over=k)\nY[i, j] = E[i, j] / t[i]"
    version = schedule(operator("twice", text), "s[E].compute_inline()\ns[t].reorder(*s[t].op.reduce_axis, *t.op.axis)")
    said = [f.text for f in explain(version, "llvm -mcpu=haswell -num-cores=1", llvm=False).findings]
    assert any("`E` is inlined into `t` and `Y`, each of which computes it again" in text for text in said)


# ---------------------------------------------------------------------------- conditions, threads, stages beside each other


def test_integers_that_become_floats_are_no_accident() -> None:
    op = operator("gray", "X: uint8[480, 6400]\nG[i, j] = float32(X[i, j]) * 0.3")
    assert all(f.code != "conversion" for f in explain(op, WIDE, llvm=False).findings)


@pytest.mark.parametrize(
    "cell",
    [
        "s[E].parallel(E.op.axis[1])",
        'i, j = sch.get_loops(sch.get_block("E"))\nsch.parallel(j)',
    ],
)
def test_finding_replaces_the_call_of_an_inner_parallel_loop(cell: str) -> None:
    op = operator("grown", "A: float32[300, 800]\nE[i, j] = exp(A[i, j])")
    found = explain(schedule(op, cell, "inside"), WIDE, llvm=False).findings
    (finding,) = [f for f in found if f.code == "parallel-too-fine"]
    assert finding.replaces and finding.call.endswith(("(s[E].op.axis[0])", "parallel(i)"))
    assert finding.cell.count("parallel") == 1 and finding.gain > 2
