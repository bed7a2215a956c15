"""The magics in a terminal IPython: what they do, their help, completion, errors, and unloading."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cells_in_shell import run
from refusals import refuses
from tools import runs, uses

from tvmagic.notebook.arguments import PARSERS, Arguments
from tvmagic.notebook.magics import MAGICS
from tvmagic.operators import Operator

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

TENSOR = """%%tensor dense
X: float32[32, 16]
W: float32[24, 16]
b: float32[24]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)
"""
SCHEDULE = """%%schedule dense --name tiled
y, z = s[Y], s[Z]
io, jo, ii, ji = z.tile(*z.axis, 8, 8)
y.compute_at(z, jo)
z.vectorize(ji)
"""


@pytest.fixture
def loaded(shell: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """The shell with an operator and a schedule."""
    run(shell, TENSOR)
    run(shell, SCHEDULE.replace("--name", "--quiet --name"))  # what it shows takes most of its time
    capsys.readouterr()
    return shell


def fails(shell: Any, cell: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a failing cell prints; none of our own frames, the names as before."""
    before = {n: id(v) for n, v in shell.user_ns.items() if not n.startswith("_") and n not in ("In", "Out")}
    result = shell.run_cell(cell)
    assert not result.success
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "Traceback" not in text and "tvmagic/" not in text
    after = {n: id(v) for n, v in shell.user_ns.items() if not n.startswith("_") and n not in ("In", "Out")}
    assert after == before
    assert shell.run_cell("6 * 7").result == 42
    return text


def test_a_tensor_cell_makes_an_operator(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, TENSOR)
    out = capsys.readouterr().out
    assert "dense(X: float32[32, 16], W: float32[24, 16], b: float32[24]) -> Z: float32[32, 24]" in out
    assert "for i, j in T.grid(32, 24)" in out
    op = shell.user_ns["dense"]
    assert isinstance(op, Operator)
    x, w, b = op.random_inputs()
    np.testing.assert_allclose(op(x, w, b), np.maximum(x @ w.T + b, 0), rtol=1e-4, atol=1e-5)


def test_a_tensor_cell_is_checked_and_its_axes_have_their_names(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%%tensor one -q --check --size 5\nX: float32[n]\nY[i] = X[i]")
    out = capsys.readouterr().out
    assert "one (plain): \u2713 equal to NumPy" in out and "     5  " in out
    run(shell, "%%tensor two -q\nA = te.placeholder((8, 4))\nr = te.reduce_axis((0, 4))\n"
        "C = te.compute((8,), lambda i: te.sum(A[i, r], axis=r))")  # fmt: skip
    run(shell, "%%schedule two -q --check\nro, ri = s[C].split(r, factor=2)")
    assert "two (default): \u2713 equal to NumPy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%passes dense:plain dense:tiled", "`%compare dense:plain dense:tiled` shows two"),
        ("%passes dense tiled", "did you mean `--name tiled`?"),
        ("%passes dense InferBound,tir.VectorizeLoop", "did you mean `--passes InferBound,tir.VectorizeLoop`?"),
        ("%asm dense --march=aarch64", "did you mean `--target`?"),
        ("%tune dense --time 2", "did you mean `--seconds`?"),
        ("%tune dense -n 100", "`--trials 100` is how many to try"),
        ("%%schedule dense other\ns", "did you mean `--name other`?"),
        ("%bounds dense 7", "there is no argument `7`; it takes NAME, --version V, --ranges (see"),
        ("%bounds dense Y", "there is no argument `Y`; it takes NAME, --version V, --ranges (see"),
        ("%graph dense Y", "did you mean `--stage Y`?"),
    ],
)
def test_a_word_too_many_is_told_what_it_may_mean(
    loaded: Any, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    assert said in fails(loaded, line, capsys)


@pytest.mark.parametrize("above", ["# one\n", "# one\n\n  # two\n", "  # %%time\n   "])
def test_comments_may_be_above_the_magic(shell: Any, capsys: pytest.CaptureFixture[str], above: str) -> None:
    run(shell, above + TENSOR)
    run(shell, above + SCHEDULE + "# the last line")
    run(shell, "# how long\n%time 1")
    assert shell.user_ns["dense"].version("tiled") is not None
    capsys.readouterr()
    text = fails(shell, above + SCHEDULE.replace("compute_at", "compute_ta"), capsys)
    line = above.count("\n") + 4
    assert f"line {line}:" in text and f"{line} | y.compute_ta(z, jo)" in text


@pytest.mark.parametrize("cell", ["# c\n%%time\n1", "x = 1\n%%tensor f\nA: float32[4]\nB[i] = A[i]"])
def test_other_cells_are_left_as_they_are(shell: Any, capsys: pytest.CaptureFixture[str], cell: str) -> None:
    changed = shell.transform_cell(cell)
    shell.run_line_magic("unload_ext", "tvmagic")
    assert shell.transform_cell(cell) == changed
    assert "Line magic function" in fails(shell, f"# c\n{TENSOR}", capsys)
    shell.run_line_magic("load_ext", "tvmagic")


@runs("aarch64")
def test_a_check_for_another_machine_says_what_ran_it(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(loaded, SCHEDULE.replace("tiled", "tiled -q --check --target aarch64"))
    out = capsys.readouterr().out
    assert "dense (tiled, aarch64): \u2713 equal to NumPy" in out and "run by qemu-aarch64" in out


@uses("ptxas")
def test_code_for_another_machine_is_shown(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(loaded, "%asm dense --target nvptx64").text()
    assert "what its kernels need" in text and ".entry dense" in text
    assert "__kernel void dense_kernel" in run(loaded, "%asm dense --target opencl").text()
    assert "there is no target `aarch65`" in fails(loaded, "%%schedule dense --target aarch65\ns[Y]", capsys)


def test_a_check_shows_the_worst_element_and_what_wraps(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%%tensor f\nX: int8[32, 128]\nW: int8[128, 8]\nY[i, j] += X[i, k] * W[k, j]")
    capsys.readouterr()
    run(shell, "%%schedule f -q --check\ns[Y].split(s[Y].op.axis[0], 8)")
    out = capsys.readouterr().out
    assert "equal to NumPy" in out and "worst error (in bounds)" in out and "rounding bound" in out
    assert "the sum `Y` of int8 wraps around" in out and "write `int32(X[i, k]) * int32(W[k, j])`" in out


def test_a_schedule_cell_shows_its_timeline(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, TENSOR)
    capsys.readouterr()
    run(shell, SCHEDULE.replace("tiled", "tiled --check --time --cost"))
    out = capsys.readouterr().out
    for expected in (
        "1. z.tile(*z.axis, 8, 8)",
        "te.InferBound",
        "codegen.assembly",
        "equal to NumPy",
        "times NumPy's speed",
        "vector lanes",
    ):
        assert expected in out
    assert list(shell.user_ns["dense"].versions) == ["tiled"]


def test_only_some_passes(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(loaded, "%passes dense -p InferBound,VectorizeLoop")
    assert [s.name for s in shown.view.steps] == ["te.InferBound", "tir.VectorizeLoop"]


def test_schedule_calls_beside_some_passes(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(loaded, "%passes dense -p calls,VectorizeLoop")
    calls = ["z.tile(*z.axis, 8, 8)", "y.compute_at(z, jo)", "z.vectorize(ji)"]
    assert [s.name for s in shown.view.steps] == [*calls, "tir.VectorizeLoop"]
    assert not run(loaded, "%passes dense -v plain -p calls").view.steps
    assert "no step `call` ran" in fails(loaded, "%passes dense -p call", capsys)


def test_verified_steps_are_marked(loaded: Any) -> None:
    shown = run(loaded, "%passes dense --verify")
    marks = {s.name: s.mark for s in shown.view.steps}
    assert marks["tir.VectorizeLoop"].endswith("equal to NumPy") and marks["codegen.llvm"] == ""


def test_bounds_show_ranges_and_phases(loaded: Any) -> None:
    text = run(loaded, "%bounds dense").text(colour=False)
    assert "j.inner" in text and "Phase 1" in text and "Phase 4" in text
    assert "Phase" not in run(loaded, "%bounds dense --ranges").text(colour=False)


@pytest.mark.parametrize("kind", ["stages", "iters", "blocks", "regions", "access"])
def test_every_picture_is_svg_and_words(loaded: Any, kind: str) -> None:
    shown = run(loaded, f"%graph dense -k {kind}")
    assert shown.html().count("<svg") >= 1 and "<script" not in shown.html()
    assert shown.text(colour=False)


@pytest.mark.parametrize("target", ["avx512", "aarch64", "riscv64", "wasm32"])
def test_the_innermost_loop_of_the_assembly(shell: Any, target: str) -> None:
    run(shell, "%%tensor scaled -q\nX: float32[64, 1024]\nY[i, j] = 3 * X[i, j]")
    whole, loop = (run(shell, f"%asm scaled --target {target} {flag}") for flag in ("", "--loop"))
    assert 2 < len(loop.lines) < len(whole.lines) - 5 and f"innermost loop for {target}" in loop.title
    assert "\n".join(loop.lines) in "\n".join(whole.lines)
    assert not any("ret" in line.split() for line in loop.lines)


def test_of_several_innermost_loops_the_hottest_is_shown(shell: Any) -> None:
    """The loop of `exp` is longer, that of the product takes 128 times its iterations."""
    run(shell, "%%tensor powers -q\nA: float32[128, 128]\nE[i, j] = exp(A[i, j])\nC[i, j] += E[i, k] * A[k, j]")
    run(shell, "%%schedule powers -q\ni, j = C.op.axis\nk, = s[C].op.reduce_axis\ns[C].reorder(i, k, j)")
    loop = run(shell, "%asm powers --target avx2 --loop").lines
    assert any("vfmadd" in row for row in loop) and not any("vroundps" in row for row in loop)


def test_a_program_without_loops_shows_its_whole_assembly(shell: Any) -> None:
    run(shell, "%%tensor one -q\nX: float32[1]\nY[i] = 3 * X[i]")
    assert run(shell, "%asm one --loop").text() == run(shell, "%asm one").text()


def test_code_for_two_targets_side_by_side(loaded: Any) -> None:
    shown = run(loaded, "%asm dense --target avx512 --beside aarch64 --loop")
    first, *rest = shown.text(colour=False).splitlines()
    assert "for avx512" in first and first.endswith("for aarch64")
    assert (
        any("mm0" in line for line in rest)
        and any("fmla" in line or "fmul" in line for line in rest)  # the vectors that LLVM makes differ by its version
        and shown.html().count("<pre>") == 2
    )


def test_speeds_as_bars(loaded: Any) -> None:
    table, picture = run(loaded, "%bench dense --plot --seconds 0.01").parts
    (row,) = [row for row in table.rows if row[0] == "tiled"]
    assert picture.words.startswith("tiled: ") and picture.words.endswith(" times NumPy's speed")
    assert float(picture.words.split()[1]) == pytest.approx(float(row[1].split(", ")[1]), abs=0.006)
    assert picture.svg.count("<rect") == len(table.rows) - 1


def test_times_of_any_functions() -> None:
    from tvmagic.notebook import time_calls

    shown = time_calls({"slow": lambda: time.sleep(2e-3), "quick": lambda: None}, seconds=0.05, title="sums")
    assert [row[0] for row in shown.rows] == ["slow", "quick"] and shown.rows[1][3] == "1.00"
    assert shown.timings["slow"].best >= 2e-3 > shown.timings["quick"].best and shown.timings["quick"].calls > 100
    assert shown.plot().words.startswith("slow: ") and shown.plot().svg.count("<rect") == 1
    with refuses("magic.nothing_to_measure"):
        time_calls({})


def test_code_for_this_machine_and_others(loaded: Any) -> None:
    assert len(run(loaded, "%asm dense").lines) > 20
    # LLVM 20 leaves this loop scalar, later versions do not
    assert re.search(r"\bfm(la|add)\b", str(run(loaded, "%asm dense --target aarch64")))


def test_asm_for_an_npu_is_its_kernels_source(loaded: Any) -> None:
    loaded.run_cell_magic("tensor", "scaled", "X: float32[n, 300]\nY[i, j] = exp(X[i, j] * 0.5)")
    shown = run(loaded, "%asm scaled --target ascend")
    text = str(shown)
    assert (
        text.startswith("// For reading only")
        and 'extern "C" __global__ __aicore__ void scaled(GM_ADDR X, GM_ADDR Y, ' in text
    )
    assert "Exp(local_" in text and "for reading only" in shown.title and "tm-row" in shown.html()
    assert str(run(loaded, "%asm scaled --target atlas_a2_40")) == text  # sizes are fields that the host fills in
    assert "define" in str(run(loaded, "%llvm dense"))


def test_the_kernel_of_a_tiling_is_its_own(loaded: Any) -> None:
    from tvmagic import ascend

    loaded.run_cell_magic("tensor", "scaled", "X: float32[100, 300]\nY[i, j] = exp(X[i, j] * 0.5)")
    results = ascend.auto_schedule(ascend.hint_graph(loaded.user_ns["scaled"]))
    loaded.user_ns["npu"], loaded.user_ns["cpu"] = (
        ascend.auto_tiling(results, machine="atlas_a2"),
        ascend.auto_tiling(results),
    )
    for target in ("ascend", "atlas_a2"):
        assert str(run(loaded, f"%asm npu --target {target}")) == loaded.user_ns["npu"].ascend_c().rstrip()
    beside = run(loaded, "%asm npu --target ascend --beside haswell").text()
    assert "For reading only" in beside and "vmulps" in beside
    for line, said in (
        ("%asm npu --target atlas_a2_40", "the tiling is for atlas_a2, so that there is no kernel for atlas_a2_40"),
        ("%asm cpu --target ascend", "the tiling is for this CPU, so that there is no kernel for atlas_a2"),
        ("%llvm npu --target ascend", "`ascend` is an NPU, for which there is the source of a kernel"),
        ("%check npu --target atlas_a2", "`atlas_a2` is an NPU, for which there is the source of a kernel"),
    ):
        with pytest.raises(Exception, match=said):
            run(loaded, line)
    assert "npu:plain" in run(loaded, "%compare npu cpu").text()


def test_a_version_is_checked_by_its_name(loaded: Any) -> None:
    assert "dense (plain): \u2713 equal to NumPy" in str(run(loaded, "%check dense:plain --seed 2"))


def test_a_function_is_compared_with_instead_of_numpy(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(loaded, "def layer(x, w, b): return (x @ w.T + b).clip(0)")
    run(loaded, "def other(x, w, b): return x @ w.T + b")
    assert "equal to `layer`" in str(run(loaded, "%check dense --against layer"))
    wrong = run(loaded, "%check dense --against other")
    assert "NOT equal to `other`" in str(wrong) and "tm-error" in wrong.html()
    assert "`np.dot(X, W, b)` raised" in fails(loaded, "%check dense --against np.dot", capsys)
    assert "there is no function `othr`; did you mean `other`?" in fails(loaded, "%check dense --against othr", capsys)
    run(loaded, SCHEDULE.replace("--name", "--quiet --check --against other --name"))
    assert "NOT equal to `other`" in capsys.readouterr().out
    assert "`--against` would do nothing without `--check`" in fails(
        loaded, SCHEDULE.replace("--name", "--against other --name"), capsys
    )


def test_benchmarks_compare_all_versions(loaded: Any) -> None:
    run(loaded, SCHEDULE.replace("tiled", "second"))
    table = run(loaded, "%bench dense --seconds 0.01")
    assert [row[0] for row in table.rows] == ["tiled", "second", "NumPy"]
    words = "NumPy: Y = np.matmul(X, W.T); Z = np.maximum(Y + b, 0.0, out=out)"
    assert words in table.text(False) and words in table.html() and table.result.baseline.words in words
    loaded.user_ns["mine"] = lambda x, w, b: np.maximum(x @ w.T + b, 0)
    table = run(loaded, "%bench dense --seconds 0.01 --against mine")
    assert [row[0] for row in table.rows] == ["tiled", "second", "NumPy", "mine"]
    assert table.columns[1:3] == ["best, times mine's speed", "median, ratio"] and table.rows[-1][1].endswith(
        " us, 1.00"
    )


def test_compare_names_the_first_pass_where_two_part(loaded: Any, capsys: Any) -> None:
    shown = run(loaded, "%compare dense:plain dense:tiled")
    assert shown.first == "te.ScheduleOps"
    assert "they diverge at te.ScheduleOps" in shown.text(colour=False)
    assert "arithmetic" in shown.html()
    said = fails(loaded, "%compare dense tiled", capsys)
    assert "`dense:tiled`" in said and "`%compare dense:plain dense:tiled`" in said
    run(loaded, "%%tensor alone -q\nX: float32[4]\nY[i] = X[i]")
    assert "there is no other version yet" in fails(loaded, "%compare alone alone", capsys)


def test_times_beside_another_target_say_which_machine_they_are_of(
    loaded: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(loaded, "%config TensorMagics.bench_seconds = 0.001")
    said = "the times are those of code for this machine, not for `aarch64`"
    for target, there in (("--target aarch64", True), ("", False)):
        run(loaded, f"%%schedule dense -q --time {target}\ns[Z].vectorize(s[Z].op.axis[1])")
        assert (said in capsys.readouterr().out) == there


def test_a_long_timeline_is_shortened_in_a_terminal_unless_passes_are_named(loaded: Any) -> None:
    shown = run(loaded, "%passes dense")
    whole, brief = shown.text(colour=False), shown._repr_mimebundle_()["text/plain"]
    assert 2 * brief.count("\n") < whole.count("\n") and " more lines" in brief and " more lines" not in whole
    assert brief.endswith(
        "`%passes dense:tiled -p PASS` shows a step in full, `%passes dense:tiled --text` all of them"
    )
    named = run(loaded, "%passes dense -p assembly")
    assert named._repr_mimebundle_()["text/plain"] == named.text() and named.text().count("\n") > 20


# ---------------------------------------------------------------------------- errors

WRONG = [
    ("%%tensor\nY[i] = 1", "missing NAME"),
    ("%%tensor dense --quite\nY[i] = 1", "did you mean `--quiet`?"),
    ("%%tensor 1x\nY[i] = 1", "is not a name"),
    ("%%tensor class\nA: float32[4]\nB[i] = A[i]", "is not a name"),
    ("%%schedule dens\ns[Y]", "did you mean `dense`?"),
    ("%%schedule dense -n a:b\ns[Y]", "`a:b` cannot be the name of a schedule"),
    ("%graph dense -k blocks -s Y", "code: picture.no_single_stage"),
    ("%asm dense --target 'llvm -mcpu=nope'", "code: target.unknown_name_for_llvm"),
    ("%%schedule dense --chek\ns[Y]", "did you mean `--check`?"),
    ("%%schedule dense --size 0\ns[Y]", "is not a whole number"),
    ("%%schedule dense --size 8\ns[Y]", "`--size` would do nothing without `--check` or `--time`"),
    ("%%schedule dense -c --size 8\ns[Y]", "`dense` has no symbolic size, so that --size would do nothing"),
    ("%check dense --size 100", "`dense` has no symbolic size, so that --size would do nothing"),
    ("%bench dense --size 100", "`dense` has no symbolic size, so that --size would do nothing"),
    ("%%tensor np\nX: float32[4]\nY[i] = X[i]", "`np` is a name that cells have; give the operator another name"),
    ("%%tensor s\nX: float32[4]\nY[i] = X[i]", "`s` is a name that cells have"),
    ("%%schedule dense\ns[Y].vectorize(s[Y].axis[2])", "code: cell.entry_out_of_range"),
    ("%%schedule dense\ni, j, k = s[Y].axis", "code: cell.wrong_unpack_count"),
    ("%%schedule dense\ni, j = sch.get_loops(sch.get_block('Y'))", "code: cell.wrong_unpack_count"),
    ("%%schedule dense\nsch.get_loops(sch.get_block('Y'))[-4]", "code: cell.entry_out_of_range"),
    ("%passes nope", "there is no operator `nope`"),
    ("%passes dense -v nope", "`nope`"),
    ("%passes dense -p Nope", "code: pass.step_did_not_run"),
    ("%bounds dense --rangs", "did you mean `--ranges`?"),
    ("%graph dense -k iter", "did you mean `iters`?"),
    ("%graph dense -k iters -s Q", "code: picture.unknown_stage"),
    ("%graph dense -k access -s Q", "code: picture.unknown_buffer"),
    ("%asm", "missing NAME"),
    ("%asm dense --target nonsense", "code: target.unknown_kind"),
    ("%llvm dense --rw", "did you mean `--raw`?"),
    ("%bench dense np", "there is no operator `np`"),
    ("%asm dense --target armm", "code: target.unknown_kind"),
    ("%machine dense:tiled", "`dense` is one; %machine takes no version"),
    ("%bench dense --seconds x", "`x` is not a time in seconds, such as 0.5"),
    ("%bench dense --seconds -1", "`-1` is not a time"),
    ("%bench dense --against nope", "there is no function `nope`"),
    ("%bench dense --against np.doot", "there is no function `np.doot`"),
    ("%bench dense --against np.linalg.inv", "code: operator.call_failed"),
    ("%bench dense --size -3", ""),
    ("%bounds dense -v blocks", "code: magic.no_te_schedule"),
    ("%asm dense --target riscv", "code: target.unknown"),
    ("%compare tiled nope", "there is no operator `nope`"),
    ("%compare dense", "missing B"),
    ("%compare dense nope", "there is no operator `nope`"),
    ("%tune dense --trials many", "is not a whole number"),
    ('%passes "dense', "the line cannot be read"),
    ("%bench dense --seconds 1 --seconds=2", "`--seconds` is given twice; one of the two values would be ignored"),
    ("%passes dense -v tiled --name plain", "`--name` is given twice"),
    ("%passes dense -pcalls --passes Simplify", "`--passes` is given twice"),
    ("%%schedule dense -tq --hide\ns[Y]", "`--hide` would do nothing with `--quiet`"),
    ("%%schedule dense --play --time\ns[Y]", "`--time` would do nothing with `--play`"),
    ("%%tensor other -q --code\nX: float32[4]\nY[i] = X[i]", "`--code` would do nothing with `--quiet`"),
    ("%auto dense --cell --check", "`--check` would do nothing with `--cell`"),
    ("%machine --size 4", "no operator is named, so that --size would do nothing"),
    ("%tune dense --from x --trials 3", "`--trials` would do nothing with `--from`"),
    ("%tune dense --from x --database y", "name two files; write one of them"),
    ("%puzzle 1 --hint 1 --solution", "`--solution` would do nothing with `--hint`"),
    ("%puzzle --solution", "which puzzle is `--solution` for?"),
    ("%puzzle 1 --forget", "`--forget` is for all puzzles"),
    ("%%puzzle 1 --hint\nx", "the cell is the answer"),
    ("%program dense 0 --time", "`--time` is for the cell that is written"),
]


def test_a_backslash_divides_folders_on_windows() -> None:
    from tvmagic.notebook.arguments import words_of

    line = r'dense --html C:\Users\me\a.html -p "x y"'
    assert words_of(line, windows=True) == ["dense", "--html", r"C:\Users\me\a.html", "-p", "x y"]
    assert words_of(r"dense --html a\ b.html", windows=False) == ["dense", "--html", "a b.html"]


@pytest.mark.parametrize(("cell", "message"), WRONG, ids=[c.split("\n")[0] for c, _ in WRONG])
def test_wrong_arguments_are_told_in_a_line(
    loaded: Any, capsys: pytest.CaptureFixture[str], cell: str, message: str
) -> None:
    if "blocks" in cell:
        run(loaded, "%%schedule dense -q -n blocks\nsch.get_block('Y')")
    text = fails(loaded, cell, capsys)
    assert message in " ".join(text.split()), "long sentences go on in the next line"
    assert "get_ipython" not in text, "the user's own line, not what IPython makes of it"


def test_flags_without_a_value_may_be_repeated(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(loaded, "%%schedule dense -q --quiet -c --check\ns[Y]")
    assert "equal" in capsys.readouterr().out


@pytest.mark.parametrize("parser", PARSERS.values(), ids=list(PARSERS))
def test_options_that_do_nothing_beside_others_are_options(parser: Arguments) -> None:
    named = {flag for idle in parser.idle for flag in (*idle.flags, *idle.beside)}
    assert named <= set(parser.flags)


def test_a_wrong_expression_is_marked_in_the_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = fails(shell, "%%tensor bad\nX: float32[4]\nY[i] = X[i] + Q[i]", capsys)
    assert "`Q`" in text
    assert "   3 | Y[i] = X[i] + Q[i]\n     |               ^" in text
    assert "hint: declare it" in text


def test_a_wrong_schedule_call_shows_the_steps_before_it(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = loaded.user_ns["dense"].current
    text = fails(loaded, "%%schedule dense\nz = s[Z]\nz.split(z.axis[0], 4)\nz.vectorize(z.axis[0])", capsys)
    assert "z.split(z.axis[0], 4)" in text and "failed" in text
    assert "   4 | z.vectorize(z.axis[0])" in text
    assert loaded.user_ns["dense"].current is before


def test_errors_outside_of_magics_show_the_users_line_alone(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = fails(
        loaded,
        "q = dense.te_schedule()[dense.outputs[0]]\nq.split(3, 4)".replace("q = ", "_q = ").replace(
            "q.split", "_q.split"
        ),
        capsys,
    )
    assert "split" in text and "line 2" in text


def test_other_errors_keep_their_traceback(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not shell.run_cell("1 / 0").success
    assert "ZeroDivisionError" in capsys.readouterr().out


# ---------------------------------------------------------------------------- help, completion, configuration


@pytest.mark.parametrize("name", MAGICS)
def test_every_magic_has_help_from_its_arguments(shell: Any, name: str) -> None:
    kind = "cell" if name in ("tensor", "schedule") else "line"
    doc = shell.find_magic(name, kind).__doc__
    assert doc.startswith("%%" if kind == "cell" else "%")
    assert PARSERS[name].example in doc
    assert name == "tvmagic" or "positional arguments:" in doc
    assert name == "tvmagic" or any(word in doc for word in ("NAME", "OPERATOR", "the puzzle's number"))


def test_the_overview_lists_each_magic_with_an_example_and_the_operators(shell: Any) -> None:
    before = shell.run_line_magic("tvmagic", "")
    assert [row[0].strip("%") for row in before.rows] == list(MAGICS)
    for parser in PARSERS.values():
        assert parser.example.split()[0] == parser.magic
        parser.read(parser.example.removeprefix(parser.magic))  # refuses what it does not know
    shell.run_cell("%%tensor dense -q\nX: float32[n, 4]\nY[i] += X[i, k]")
    shell.run_line_magic("auto", "dense -q")
    after = shell.run_line_magic("tvmagic", "")
    assert after.parts[1].rows == [["dense(X: float32[n, 4]) -> Y: float32[n]", "auto"]]
    assert "%why dense:auto" in after.text() and "%why dense:auto" in after.html()


def test_the_tutorials_are_copied_and_not_overwritten(shell: Any, tmp_path: Path) -> None:
    copied = shell.run_line_magic("tvmagic", f"--tutorials {tmp_path / 'mine'}")
    first = tmp_path / "mine" / "01_first_steps.ipynb"
    assert [str(first)] in copied.rows and first.read_bytes() == (NOTEBOOKS / first.name).read_bytes()
    first.write_text("changed")
    with refuses("tutorial.file_exists"):
        shell.run_line_magic("tvmagic", f"--tutorials {tmp_path / 'mine'}")
    assert first.read_text() == "changed"
    (tmp_path / "file").write_text("")
    with refuses("file.not_writable"):
        shell.run_line_magic("tvmagic", f"--tutorials {tmp_path / 'file' / 'below'}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%passes d", "dense"),
        ("%passes dense --h", "--hide"),
        ("%passes dense -v t", "tiled"),
        ("%%schedule dense --che", "--check"),
        ("%asm dense --target aa", "aarch64"),
        ("%graph dense -k re", "regions"),
        ("%compare dense pl", "plain"),
    ],
)
def test_completion(loaded: Any, line: str, expected: str) -> None:
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        found = [c.text for c in loaded.Completer.completions(line, len(line))]
    assert expected in found


def test_configuration_holds_the_defaults(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(loaded, "%config TensorMagics.show_code = False")
    assert [s.kind for s in run(loaded, "%passes dense").view.steps][-1] == "pass"
    run(loaded, "%config TensorMagics.theme = 'dark'")
    assert 'data-theme="dark"' in run(loaded, "%bounds dense").html()
    run(loaded, "%config TensorMagics.theme = 'auto'")


def test_the_extension_leaves_nothing_behind(shell: Any) -> None:
    run(shell, "%unload_ext tvmagic")
    tables = shell.magics_manager.magics
    assert not any(name in tables["line"] or name in tables["cell"] for name in MAGICS)
    assert not any(type(c).__name__ == "TensorMagics" for c in shell.configurables)
    assert shell.custom_exceptions == ()
    for formatter in shell.display_formatter.formatters.values():
        assert not any("tvmagic" in c.__module__ for c in formatter.type_printers)
        assert not any(module.startswith("tvmagic") for module, _ in formatter.deferred_printers)
    assert not shell.Completer.custom_matchers
    run(shell, "%load_ext tvmagic")
    run(shell, "%reload_ext tvmagic")
    run(shell, TENSOR)


def test_show_displays_programs_in_colours(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython.utils.capture import capture_output

    run(shell, TENSOR)
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    with capture_output() as seen:
        run(shell, "dense.to_prim_func().show()")
    (shown,) = seen.outputs
    assert "@T.prim_func" in shown.data["text/plain"] and '<span class="' in shown.data["text/html"]
    run(shell, "%unload_ext tvmagic")
    with capture_output() as seen:
        run(shell, "dense.to_prim_func().show()")
    assert not seen.outputs and "@T.prim_func" in seen.stdout
    run(shell, "%load_ext tvmagic")


def test_the_default_dtype_and_the_theme(shell: Any) -> None:
    from tvmagic.notebook.html import theme

    run(shell, "%config TensorMagics.dtype = 'float64'\n%config TensorMagics.theme = 'dark'")
    run(shell, "%%tensor f -q\nA: [4, n]\nB: float32[4]\nC[i, j] = A[i, j] + float64(B[i])")
    assert [t.dtype for t in shell.user_ns["f"].inputs] == ["float64", "float32"]
    assert theme() == "dark"
    run(shell, "%unload_ext tvmagic")
    assert theme() == "auto"
    run(shell, "%load_ext tvmagic")


def test_versions_of_one_operator_are_compared_by_their_names_alone(
    loaded: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(loaded, SCHEDULE.replace("tiled", "second").replace("8, 8", "4, 8"))
    assert run(loaded, "%compare tiled second").title.startswith("dense:tiled against dense:second")
    run(loaded, TENSOR.replace("dense", "other"))
    run(loaded, SCHEDULE.replace("dense", "other"))
    assert "there are `dense:tiled` and `other:tiled`" in fails(loaded, "%compare tiled second", capsys)


def test_steps_are_verified_without_a_timeline_too(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(loaded, SCHEDULE.replace("tiled", "tiled -q --verify"))
    assert "steps are equal to NumPy, none differs" in capsys.readouterr().out


def test_what_stands_in_a_list_is_shown_short(loaded: Any) -> None:
    text = loaded.display_formatter.formatters["text/plain"](
        [loaded.user_ns["dense"], loaded.user_ns["dense"].versions]
    )
    assert text.count("\n") < 3 and "<Version tiled of dense(" in text


def test_graphs_in_words(loaded: Any) -> None:
    stages = run(loaded, "%graph dense -k stages").text(False)
    assert "Y (float32[32, 24], at Z.j.outer) to Z (float32[32, 24])\n" in stages and stages.count("Y (") == 3
    run(loaded, "%%schedule dense -q -n blocks\nsch.get_block('Y')")
    blocks = run(loaded, "%graph dense").text(False)
    assert "root to for i 32, j 24, k 16\nfor i 32, j 24, k 16 to Y (reads X, W, writes Y)" in blocks
    assert "Y (reads X, W, writes Y) to Z (reads Y, b, writes Z): RAW" in blocks


def test_long_cells_of_a_table_are_wrapped_in_a_terminal() -> None:
    from tvmagic.notebook.terminal import text_table

    lines = text_table(["a", "b"], [[1, "word " * 40], [2, "x"]]).split("\n")
    assert max(map(len, lines)) < 80 and [line[0] for line in lines if line[0] != " "] == ["a", "-", "1", "2"]


def test_python_does_what_the_magics_do(loaded: Any) -> None:
    from tvmagic import notebook

    op = loaded.user_ns["dense"]
    assert [s.name for s in notebook.passes(op).view.steps] == [s.name for s in run(loaded, "%passes dense").view.steps]
    assert notebook.bounds(op).text(False) == run(loaded, "%bounds dense").text(False)
    assert notebook.graph(op).text(False) == run(loaded, "%graph dense").text(False)
    assert str(notebook.asm(op)) == str(run(loaded, "%asm dense"))


def test_every_name_of_the_package_is_what_it_says_also_after_its_module_was_imported() -> None:
    from tvmagic import notebook

    for name in notebook.__all__ * 2:
        assert callable(getattr(notebook, name)), f"`tvmagic.notebook.{name}` is hidden by a module of that name"


SHOWN = ["dense", "dense.current", "dense.te_schedule()", "dense.te_schedule()[dense.outputs[0]]", "dense.outputs[0].op.axis[0]",
         "dense.lower()", "dense.schedule()", "dense.schedule().trace", "dense.current.build()", "dense.current.record",
         "dense.to_prim_func()"]  # fmt: skip


@pytest.mark.parametrize("code", SHOWN)
def test_every_object_shows_itself(loaded: Any, code: str) -> None:
    value = loaded.ev(code)
    formats, _ = loaded.display_formatter.format(value, include={"text/plain", "text/html"})
    assert formats["text/plain"].strip()
    html = loaded.display_formatter.formatters["text/html"](value)
    assert html is not None and 'class="tvmagic' in html and html.count("<script") <= 1


def test_names_from_te_are_escaped_in_every_view(shell: Any) -> None:
    evil = "<img src=x onerror=alert(1)>"
    run(
        shell,
        f"%%tensor odd\nA = te.placeholder((8,), name={evil!r})\nB = te.compute((8,), lambda i: A[i] + 1.0, name={evil!r} + 'b')\nC = te.compute((8,), lambda i: B[i] * 2.0, name={evil!r} + 'c')",
    )
    run(shell, "%%schedule odd --quiet\ns[C].split(s[C].op.axis[0], 4)")
    codes = ["odd", "odd.current", "odd.te_schedule()", "odd.lower()", "odd.te_schedule()[odd.outputs[0]]"]
    pages = [shell.display_formatter.formatters["text/html"](shell.ev(code)) for code in codes]
    pages += [run(shell, f"%graph odd -k {kind}").html() for kind in ("stages", "iters", "blocks", "regions", "access")]
    pages += [
        run(shell, f"%{line}").html()
        for line in ("bounds odd", "passes odd", "compare odd odd:plain", "asm odd", "bench odd --seconds 0.01")
    ]
    for number, html in enumerate(pages):
        assert "<img" not in html, number


@pytest.mark.parametrize(
    ("call", "header"),
    [
        ("s[Y].vectorize(s[Y].reduce_axis[0])", "        for k in range(16):\n            ^^^^^^^^^^^^^^^^^^^"),
        ("sch.parallel(sch.get_loops(sch.get_block('Y'))[2])", "for i, j, k in T.grid(32, 24, 16):"),
    ],
)
def test_a_refused_call_is_shown_in_the_cell_and_in_the_program(
    loaded: Any, capsys: pytest.CaptureFixture[str], call: str, header: str
) -> None:
    text = fails(loaded, f"%%schedule dense -q\n{call}", capsys)
    assert f"   2 | {call}\n     | {'^' * len(call)}"[:60] in text
    assert "in the program:" in text and header in text


def test_tune_shows_the_versions_and_the_trials_and_a_second_session_finds_them(
    loaded: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TVMAGIC_TUNED", str(tmp_path / "tuned.jsonl"))
    shown = loaded.run_line_magic("tune", "dense --trials 2 --seconds 60 --seed 2 --name fast")
    op = loaded.user_ns["dense"]
    assert set(op.versions) == {"tiled", "fast"}
    text = shown.text(colour=False)
    assert "dense: the best of 2 schedules" in text and "%%schedule dense -n fast" in text and "tiled" in text
    assert "Trials" in shown.html() and "instant" in shown.html() and "<svg" in shown.html()
    steps = run(loaded, "%passes dense -v fast --llvm none").view.steps
    names = [s.name for s in steps if s.kind == "schedule"]
    assert len(steps) > 5 and names and all("(" in name for name in names), "they say their arguments"
    del op.versions["fast"]
    found = loaded.run_line_magic("tune", f"dense --from {tmp_path / 'tuned.jsonl'} -n again").text(colour=False)
    assert "dense: a schedule from" in found and "Trials" not in found and set(op.versions) == {"tiled", "again"}
    cells: list[str] = []
    monkeypatch.setattr(loaded, "set_next_input", lambda text, replace: cells.append(text))
    shown = loaded.run_line_magic("tune", "dense --cell")
    assert not shown.result.trials, "what is known needs no search"
    ((head, body),) = [cell.split("\n", 1) for cell in cells]
    assert head == "%%schedule dense -n tuned"
    loaded.run_cell_magic("schedule", "dense -q -n copy", body)
    assert op.version("copy").schedule.script() == op.version("tuned").schedule.script()


def test_an_interrupt_shows_the_users_line_alone_and_leaves_all_as_it_was(
    loaded: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = fails(loaded, "%%schedule dense\ns[Z].vectorize(s[Z].axis[1])\nraise KeyboardInterrupt", capsys)
    assert "KeyboardInterrupt: stopped\nin %%schedule dense, line 3:\n   3 | raise KeyboardInterrupt" in text
    assert "KeyboardInterrupt: stopped" in fails(loaded, "%%tensor other\nraise KeyboardInterrupt", capsys)
    run(loaded, SCHEDULE)
    loaded.run_cell("raise KeyboardInterrupt")
    assert "Traceback" in capsys.readouterr().out, "an interrupt of the user's own code is shown as it always was"


BIG = "%%tensor big -q\nX: float32[1 << 40]\nY[i] = X[i] * 2"


@pytest.mark.parametrize(
    "cell",
    ["%%schedule big -q --check\ns[Y].split(s[Y].axis[0], 16)", "%%schedule big -q --verify\npass", "%bench big",
     "%%schedule big --play\npass", "_ = big.random_inputs()"],
)  # fmt: skip
def test_arrays_that_do_not_fit_into_memory_are_refused(
    shell: Any, capsys: pytest.CaptureFixture[str], cell: str
) -> None:
    run(shell, BIG)
    run(shell, "%%schedule big -q --cost\ns[Y].split(s[Y].axis[0], 16)")
    assert "4 TiB" in fails(shell, cell, capsys)


def test_what_allocates_too_much_by_itself_shows_the_users_line_alone(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%%tensor long -q\nX: float32[4]\ni: range(1 << 45)\nY[i] = X[0] * i")
    run(shell, "import numpy as _np\n_x = _np.ones(4, 'float32')")
    assert "128 TiB" in fails(shell, "long(_x)", capsys)
    text = fails(shell, "long.reference(_x)", capsys)
    assert "MemoryError: Unable to allocate" in text and "   1 | long.reference(_x)" in text


def test_small_words_of_the_magics(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("%bench dense --help", "%bench -h", "%%schedule --help\n ", "%llvm dense --nope --help"):
        run(loaded, line)
        assert "options:" in capsys.readouterr().out
    text = fails(loaded, "%%schedule dense\ns[Y]\nx = 3; sch.mod", capsys)
    assert "   3 | x = 3; sch.mod\n     |        ^^^" in text and "not by both" in text
    assert len(run(loaded, "%passes dense -p ,").view.steps) > 5
    run(loaded, SCHEDULE.replace("tiled", "tiled -q --verify"))
    assert "none differs\n" in (out := capsys.readouterr().out) and "verdict" not in out


def test_the_loop_that_an_error_names_is_one_of_its_stage(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = fails(loaded, "%%schedule dense -q\nz = s[Z]\nz.split(z.axis[0], 4)\nz.vectorize(z.axis[0])", capsys)
    assert "was split or fused already" in text and "in the program" not in text, "only `Y` has a loop `i`"
    text = fails(loaded, "%%schedule dense -q\ns[Z].reorder(s[Z].axis[0], s[Z].axis[0])", capsys)
    assert text.index("ProducerRealize(Z") < text.index("for i, j in T.grid(32, 24):\n            ^^^^")


def test_help_of_an_operator_names_its_inputs(loaded: Any) -> None:
    words = loaded.inspector.info(loaded.user_ns["dense"])["definition"].split()
    assert "".join(words) == "(X:float32[32,16],W:float32[24,16],b:float32[24],*,out=None)->float32[32,24]"
    run(loaded, "%%tensor odd -q\nA = te.placeholder((8,), name='A.b')\nB = te.compute((8,), lambda i: A[i], name='B')")
    assert "*arrays" in loaded.inspector.info(loaded.user_ns["odd"])["definition"]


def test_a_comparison_says_above_the_stepper_where_two_part(
    loaded: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run(loaded, "%compare dense:plain dense:tiled")
    monkeypatch.setattr(loaded, "kernel", object(), raising=False)
    capsys.readouterr()
    shown._repr_mimebundle_()
    assert "they diverge at te.ScheduleOps" in capsys.readouterr().out


def test_knobs_without_a_name_are_told_apart_by_their_lines(loaded: Any) -> None:
    from tvmagic.notebook.knob_playground import playground
    from tvmagic.operators import Source

    text = "%%schedule dense\nf = knob(8, [4, 8])\ns[Z].tile(*s[Z].axis, knob(8, [4, 8]), knob(4, [4, 8]))"
    names = list(playground(loaded.user_ns["dense"], Source("schedule dense", text)).values)
    assert names == ["f", "knob at line 3", "knob 2 at line 3"]


def test_a_schedule_keeps_its_name(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = fails(loaded, "%%schedule dense -q\ns = te.create_schedule(Z.op)\ns[Z].vectorize(Z.op.axis[1])", capsys)
    assert "the cell gives `s` another value" in text and "   2 | s = te.create_schedule(Z.op)\n     | ^\n" in text
    assert "another value" in fails(
        loaded, "%%schedule dense -q\nsch.get_block('Y')\nfor sch in range(3): pass", capsys
    )
    run(loaded, "%%schedule dense -q\nn = [s for s in range(3)]\ndef f(s): return s\nf(3)")
    run(loaded, "%%schedule dense -q\ni, s, *_ = sch.get_loops(sch.get_block('Y'))\nsch.parallel(i)\nsch.unroll(s)")
    run(loaded, "%%schedule dense -q\nfor sch in range(2): pass\ns[Z].vectorize(Z.op.axis[1])")


def test_an_axis_of_an_automatic_schedule_may_be_called_s(loaded: Any) -> None:
    run(loaded, "%%tensor filtered -q\nX: float32[8, 8]\nK: float32[3, 3]\nY[i, j] += X[i + r, j + s] * K[r, s]")
    run(loaded, "%auto filtered --check")


def test_a_pass_by_a_part_of_its_name_is_told(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = fails(loaded, "%passes dense -p vectorize", capsys)
    assert "no step `vectorize` ran" in text and "did you mean" in text and "`tir.VectorizeLoop`" in text


@pytest.mark.parametrize("mode", ["Minimal", "Plain", "Verbose", "Context"])
def test_errors_have_lines_in_every_mode(loaded: Any, capsys: pytest.CaptureFixture[str], mode: str) -> None:
    loaded.run_line_magic("xmode", mode)
    capsys.readouterr()
    try:
        assert "\nhint: call it as `dense(X, W, b)`" in fails(loaded, "dense(3)", capsys)
    finally:
        loaded.run_line_magic("xmode", "Context")


def test_an_array_outside_is_told_how_it_becomes_an_input(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(loaded, "import numpy as _np\nQ = _np.zeros((4, 6), 'float32')")
    text = fails(loaded, "%%tensor other\nR[i, j] = Q[i, j] * 2", capsys)
    assert "`Q` is an array outside" in text and "declare it as `Q: float32[4, 6]`" in text


def test_a_schedule_that_races_is_refused(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_cell("%%tensor columns --quiet\nX: float32[64, 8]\nY[j] += X[i, j]\n").success
    cell = "%%schedule columns --quiet\ny = s[Y]\ni = y.op.reduce_axis[0]\ny.reorder(i, *y.op.axis)\ny.parallel(i)\n"
    text = fails(shell, cell, capsys)
    assert "i = 0" in text and "i = 1" in text and "`Y[0]`" in text
    assert "line 5" in text and "y.parallel(i)" in text and "rfactor" in text
    assert not shell.user_ns["columns"].versions


def test_a_check_notes_what_is_not_proved(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    function = """%%tensor scatter --quiet
@T.prim_func
def f(P: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        Y[P[i]] = T.float32(1)"""
    assert shell.run_cell(function).success
    capsys.readouterr()
    assert shell.run_cell("%%schedule scatter --quiet --check\nsch\n").success
    assert "not proved to be free of races" in capsys.readouterr().out


def test_a_ratio_that_the_medians_contradict_is_said_to_be_open() -> None:
    from tvmagic.notebook.commands import bench_table
    from tvmagic.operators import operator
    from tvmagic.operators.measure import Baseline, Benchmark, Timing

    op = operator("f", "A: float32[4]\nB[i] = A[i] + 1.0")
    rows = [("V", Timing(2.0, 1.0, 10)), ("W", Timing(1.0, 0.5, 10)), ("NumPy", Timing(1.5, 1.1, 10))]
    table = bench_table(Benchmark(op, rows, [Baseline("NumPy", lambda: None, "one call")]))
    assert table.columns == ["version", "best, times NumPy's speed", "median, ratio", "calls"], "its work is not known"
    assert [row[1:3] for row in table.rows] == [["1.0 s, 1.10", "2.0 s, 0.75"], ["500 ms, 2.20", "1.0 s, 1.50"], ["1.1 s, 1.00", "1.5 s, 1.00"]]  # fmt: skip
    assert table.notes == [
        "V against NumPy: 1.10 by the best times, 0.75 by the medians; which of them is faster is open"
    ]


def test_a_call_that_makes_lowering_fail_is_named_and_underlined(
    loaded: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error itself speaks of a stage, which the operator's cell defines; the call is in the schedule's."""
    calls = "%%schedule dense\nz = s[Z]\nz.split(z.axis[0], 4)\nz.compute_at(s[Y], s[Y].op.axis[0])\ns[Y].unroll(s[Y].op.axis[1])"
    assert not loaded.run_cell(calls).success
    out = capsys.readouterr().out
    assert "in %%schedule dense, line 4:" in out and "in %%tensor" not in out
    assert "     | " + "^" * len("z.compute_at(s[Y], s[Y].op.axis[0])") in out
    assert "3 steps, 2 changed the program, one failed" in out, "the call that failed is no change"


@pytest.mark.parametrize("flag", ["-n", "-v", "--name", "--version"])
def test_one_flag_names_a_version_wherever_it_is_meant(loaded: Any, flag: str) -> None:
    run(loaded, f"%%schedule dense -q {flag} V2\ns[Y]")
    assert "V2" in loaded.user_ns["dense"].versions
    assert "V2" in run(loaded, f"%bench dense {flag} V2 --seconds 0.01").text(False)
    assert run(loaded, f"%passes dense {flag} V2").view.steps and run(loaded, "%passes dense:V2").view.steps


def test_check_is_there_wherever_something_is_measured(loaded: Any) -> None:
    assert "dense (tiled): \u2713 equal to NumPy" in run(loaded, "%bench dense:tiled -c --seconds 0.01").text(False)
    two = run(loaded, "%bench dense:plain tiled -c --seconds 0.01").text(False)
    assert "dense (plain): \u2713 equal" in two and "dense (tiled): \u2713 equal" in two and "V2" not in two


def test_one_default_for_symbolic_sizes(shell: Any) -> None:
    run(shell, "%%tensor rows -q\nX: float32[n, 32]\nY[i] += X[i, k]")
    run(shell, "%%tensor mm -q\nX: float32[n, k]\nW: float32[k, m]\nY[i, j] += X[i, r] * W[r, j]")
    assert [shell.user_ns[name].usual_size for name in ("rows", "mm")] == [256, 128]
    assert len(shell.user_ns["mm"].symbols) == 3
    times = run(shell, "%bench mm --seconds 0.01")
    assert times.result.operator is shell.user_ns["mm"]


def test_an_operator_that_hides_something_of_the_users_says_so(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "import math\nweights = [1]")
    cell = "%%tensor {} -q\nX: float32[4]\nY[i] = X[i]"
    assert "`math` is the module math" in fails(shell, cell.format("math"), capsys)
    run(shell, cell.format("weights"))
    assert "`weights` was a list; now it is this operator" in capsys.readouterr().err
    run(shell, cell.format("weights"))
    run(shell, cell.format("sum"))
    assert capsys.readouterr().err == "`sum` was a function; now it is this operator\n"


def test_functions_of_a_cell_may_run_when_it_is_over(shell: Any) -> None:
    run(shell, "%%tensor f -q\nX: float32[4]\nY[i] = X[i]")
    run(shell, "kept = []")
    run(shell, "%%schedule f -q\ndef first(x):\n    a, b = x\n    return x[0]\nkept.append(first)\ns[Y]")
    assert shell.user_ns["kept"][0]([1, 2]) == 1


def test_a_program_is_edited_in_a_cell(
    loaded: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cells: list[str] = []
    monkeypatch.setattr(loaded, "set_next_input", lambda text, replace=False: cells.append(text))
    run(loaded, "%program dense UnrollLoop")
    head, _, text = cells[0].partition("\n")
    assert head.startswith("%%program dense:tiled ") and "T.func_attr" in text
    run(loaded, cells[0])
    out = capsys.readouterr().out
    assert "dense:tiled against dense:edited: the passes that are left make the same program of both" in out
    assert "dense (edited): \u2713 equal to NumPy" in out
    run(loaded, cells[0].replace("T.float32(0.0)", "T.float32(2.0)", 1))
    out = capsys.readouterr().out
    assert "they diverge at tir." in out and "dense (edited): \u2715 NOT equal to NumPy" in out
    assert loaded.user_ns["dense"].version("edited").schedule.origin == "tiled"
    run(loaded, f"%%program dense UnrollLoop -q -t\n{text}")
    assert "tiled" in (out := capsys.readouterr().out) and "edited" in out and "against dense:" not in out
    assert loaded.user_ns["dense"].version("edited").schedule.origin == "tiled", "the step is one of the version before"
    wrong = fails(loaded, cells[0].replace("range(", "rnage(", 1), capsys)
    assert "the name `rnage` is not defined" in wrong and "in %%program dense, line" in wrong
    assert "cannot be edited" in fails(loaded, "%program dense InferBound", capsys)
    for line in ("%graph dense -k access", "%asm dense", "%why dense --no-run"):
        assert run(loaded, line) is not None
    assert "has no TE schedule" in fails(loaded, "%bounds dense", capsys)


def test_a_pass_of_te_schedules_is_not_looked_for_in_a_tensorir_schedule(loaded: Any, capsys: Any) -> None:
    run(loaded, "%%schedule dense -q -n blocks\nsch.get_block('Y')")
    said = " ".join(fails(loaded, "%passes dense:blocks -p VectorizeLoop,InferBound", capsys).split())
    assert "code: magic.no_te_schedule" in said and "`-v tiled`" in said
    said = " ".join(fails(loaded, "%passes dense:tiled -p Vectorize", capsys).split())
    assert "did you mean" in said and "`tir.VectorizeLoop`" in said
    said = " ".join(fails(loaded, "%passes dense:tiled -p Qqqq", capsys).split())
    assert "the passes are `te.normalize`" in said and "tile(" not in said, "calls are found by their line"


def test_compute_at_of_the_reader_is_told_the_other_way(loaded: Any, capsys: Any) -> None:
    said = " ".join(fails(loaded, "%%schedule dense\ns[Z].compute_at(s[Y], s[Y].axis[0])", capsys).split())
    assert "call compute_at on the stage that is read: `Y` at a loop of `Z`" in said


def test_an_interpreter_is_called_so_and_gets_no_ratio(loaded: Any) -> None:
    from tvmagic.notebook.commands import bench
    from tvmagic.operators import operator

    text = """
from tvmagic.script import tir as T
@T.prim_func
def twice(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * T.float32(2)
"""
    op = operator("twice", text)
    table = bench(op, ["plain"], seconds=0.01)
    assert [row[0] for row in table.rows] == ["plain", "interpreter"]
    assert table.columns == ["version", "best", "median", "GB/s", "of peak", "calls"]
    assert table.rows[0][4].endswith("%") and table.rows[1][3:5] == ["-", "-"]
    assert "no speed to compare with" in table.text(False) and table.plot().words
    against = bench(op, ["plain"], seconds=0.01, against=("mine", lambda a: a.T * 2))
    assert "best, times mine's speed" in against.columns and [row[0] for row in against.rows] == [
        "plain",
        "interpreter",
        "mine",
    ]
