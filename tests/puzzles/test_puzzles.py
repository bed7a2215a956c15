"""Puzzles: what each promises, what is counted, how answers are judged, and what is kept of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refuses
from sampling import every

from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.puzzles import (
    Facts,
    Goal,
    PredictionPuzzle,
    Progress,
    Puzzle,
    SchedulePuzzle,
    load,
    prove,
    puzzle,
    puzzles,
)
from tvmagic.puzzles.__main__ import main
from tvmagic.puzzles.loading import puzzle_files
from tvmagic.puzzles.metrics import FACTS

SPLIT = {
    "title": "T", "task": "Do it.", "program": "X: float32[8]\nY[i] = X[i] + 1", "goals": ["loops == 2"],
    "solution": "s[Y].split(s[Y].axis[0], 4)", "hints": {"loops == 2": "a", "refused": "b", "values": "c"},
    "wrong": [("s[Y]", "loops == 2"), ("s[Y].split(4)", "refused"), ("s[Y].unroll(4)", "refused")],
}  # fmt: skip


def made(**changes: Any) -> SchedulePuzzle:
    return SchedulePuzzle(**{**SPLIT, **changes})


@pytest.mark.parametrize("number", every(2, sorted(puzzle_files())))
def test_the_solution_passes_and_each_wrong_answer_gets_its_hint(number: int) -> None:
    prove(puzzle(number))


def test_puzzles_are_numbered_without_a_gap_and_named_once() -> None:
    found = puzzles()
    assert [p.number for p in found] == list(range(1, len(found) + 1)) and len(found) >= 24
    assert len({p.name for p in found}) == len({p.title for p in found}) == len(found)
    assert [p.address for p in found] == [str(p.number) for p in found]


@pytest.mark.parametrize(
    "changes",
    [
        {"solution": "s[Y]"},
        {"start": SPLIT["solution"]},
        {"hints": {"refused": "b", "loops == 2": "a"}},
        {"hints": {**SPLIT["hints"], "loops >= 2": "d"}},
        {"wrong": SPLIT["wrong"][:2]},
        {"wrong": [*SPLIT["wrong"], ("s[Y]", "refused")]},
        {"hints": {"refused": "b", "values": "c", "loops == 2": ""}},
    ],
)
def test_a_puzzle_that_breaks_its_promise_is_told(changes: dict[str, Any]) -> None:
    prove(made())
    with refuses("puzzle.promise_broken"):
        prove(made(**changes))


def test_a_wrong_result_is_a_fault_whatever_the_goals_say(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvmagic.operators.measure import check
    from tvmagic.puzzles import programs

    def broken(version: Any) -> Any:
        return (
            check(version)
            if version.name != "answer"
            else check(operator("f", "X: float32[2]\nY[i] = X[i]").current).__class__(
                False, 1.0, 1.0, "Y[0]", 1.0, 2.0, 8, wrong=1
            )
        )

    monkeypatch.setattr(programs, "check", broken)
    verdict = made().judge(SPLIT["solution"])
    assert verdict.fault == "values" and verdict.hint == "c" and not verdict.solved


def test_a_race_is_refused() -> None:
    subject = made(program="X: float32[64, 8]\nY[j] += X[i, j]", goals=["parallel >= 64"])
    verdict = subject.judge("s[Y].parallel(s[Y].reduce_axis[0])")
    assert verdict.fault == "refused" and verdict.hint == "b" and verdict.error is not None


def test_an_answer_that_was_not_begun_gets_no_hint() -> None:
    subject = made(start="y = s[Y]\n# your call here")
    assert subject.judge("y = s[Y]   # what now?\n\n").hint == ""
    assert not subject.judge("y = s[Y]").begun and subject.judge("y = s[Y]; y").begun
    assert subject.judge("y = s[Y]; y").hint == "a"


@pytest.mark.parametrize(
    "answer, code",
    [
        ("a = 1\nb = f(2)", "puzzle.wrong_value"),
        ("a = 1\nbb = 2", "puzzle.unknown_answer"),
        ("print(1)", "puzzle.not_an_assignment"),
        ("a, b = 1, 2", "puzzle.not_an_assignment"),
        ("a = (", "cell.syntax_error"),
        ("a = " + "-" * 100_000 + "1", "cell.nested_too_deeply"),
    ],
)
def test_an_answer_of_values_that_cannot_be_read_is_refused(answer: str, code: str) -> None:
    subject = PredictionPuzzle(
        title="",
        task="",
        solution="",
        hints={"refused": "r"},
        wrong=[],
        asks={"a": "A", "b": "B"},
        truth=lambda: {"a": 1, "b": 2},
    )
    verdict = subject.judge(answer)
    assert verdict.fault == "refused" and verdict.hint == "r" and verdict.error is not None
    assert verdict.error.code == code


def test_a_prediction_says_which_value_is_wrong_but_not_what_is_right() -> None:
    subject = PredictionPuzzle(
        title="", task="", solution="", hints={"a": "look at a", "b": "look at b"}, wrong=[], asks={"a": "A", "b": "B"},
        truth=lambda: {"a": 4321, "b": 2},
    )  # fmt: skip
    assert subject.start == "a = ...  # A\nb = ...  # B"
    half = subject.judge("a = 4321\nb = ...")
    assert (half.fault, half.hint, [row.right for row in half.rows]) == (
        "unanswered",
        "Write a value for each `...`.",
        [True, False],
    )
    assert subject.judge("b = 3").hint == "look at b" and subject.judge("b = ...\na = ...  # later").hint
    assert subject.judge("a = 4321\nb = 2").solved
    verdict = subject.judge("a = 3\nb = 2")
    assert (verdict.fault, verdict.hint) == ("a", "look at a") and "4321" not in str(verdict.rows)
    assert subject.judge("a = 4321\nb = True").fault == "b" and subject.judge("a = 4321.5\nb = 2").fault == "a"


# ---------------------------------------------------------------------------- goals and facts


@pytest.mark.parametrize("text", ["lanes", "lanes > 8", "lanes >= x", "lanes >= 8 and loops == 2", ""])
def test_a_goal_is_a_fact_a_relation_and_a_number(text: str) -> None:
    with refuses("puzzle.goal_not_readable"):
        Goal.parse(text, FACTS)


def test_a_goal_names_a_fact() -> None:
    goal = Goal.parse("loaded <= 65_536", FACTS)
    assert (goal.fact, goal.bound, goal.wanted) == ("loaded", 65536, "at most 65,536")
    assert goal.holds(65536) and not goal.holds(65537)
    with refuses("puzzle.unknown_metric") as caught:
        Goal.parse("lans >= 8", FACTS)
    assert caught.value.hint == "did you mean `lanes`?"


def test_the_page_on_puzzles_lists_the_facts() -> None:
    page = (Path(__file__).parents[2] / "docs" / "puzzles.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` | {words} |" in page for name, words in FACTS.items())


def facts(text: str, calls: str = "s") -> Facts:
    return Facts(schedule(operator("f", text), calls))


def test_facts_of_a_program_that_one_can_count() -> None:
    plain = facts("X: float32[6, 16]\nY[i, j] = 2 * X[i, j] + 1")
    assert (plain.arithmetic, plain.loaded, plain.stored, plain.read) == (192, 384, 384, 384)
    assert (plain.loops, plain.innermost, plain.lanes, plain.on_vectors, plain.made) == (2, 16, 1, 0, 288)
    vectors = facts(
        "X: float32[6, 16]\nY[i, j] = 2 * X[i, j] + 1", "s[Y].vectorize(s[Y].axis[1]); s[Y].parallel(s[Y].axis[0])"
    )
    assert (vectors.lanes, vectors.on_vectors, vectors.parallel, vectors.loops) == (16, 100, 6, 1)


def test_a_branch_counts_by_how_often_it_is_taken() -> None:
    found = facts("X: float32[10]\nY[i] = X[i] + 1", "s[Y].vectorize(s[Y].split(s[Y].axis[0], 8)[1])")
    assert (found.guards, found.made, found.lanes) == (16, 20, 1), "two turns of eight, six of them cut off"


def test_cycles_are_those_of_one_processor_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    text, calls = "X: float32[64, 64]\nY[j] += X[i, j]", "s[Y].reorder(s[Y].reduce_axis[0], s[Y].axis[0])"
    cycles = []
    for target in ("llvm -mcpu=haswell", "llvm -mcpu=znver4", "llvm -mcpu=x86-64-v2"):
        monkeypatch.setenv("TVMAGIC_TARGET", target)
        cycles.append((facts(text, calls).cycles, facts(text, calls).moved))
    assert len(set(cycles)) == 1 and cycles[0][0] < facts(text).cycles


# ---------------------------------------------------------------------------- files


def test_a_file_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "07_mine.py"
    path.write_text(f"from tvmagic.puzzles import SchedulePuzzle\nPUZZLE = SchedulePuzzle(**{SPLIT!r})\n")
    own = load(path)
    assert (own.number, own.name, own.address) == (0, "own/07_mine", str(path)), "7 is a puzzle of the package"
    assert main([str(path)]) == 0 and "each wrong answer gets its hint" in capsys.readouterr().out
    path.write_text(path.read_text().replace("loops == 2", "loops == 5"))
    assert main([str(path)]) == 1 and str(path) in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1", "puzzle.file_without_puzzle"),
        ("PUZZLE = 7", "puzzle.file_without_puzzle"),
        ("1 / 0", "puzzle.file_failed"),
        ("(", "puzzle.file_failed"),
    ],
)
def test_a_file_without_a_puzzle_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(text)
    with refuses(message):
        load(path)
    with refuses("puzzle.file_not_readable"):
        load(tmp_path / "none.py")
    with refuses("puzzle.unknown"):
        puzzle(0)


# ---------------------------------------------------------------------------- progress


def test_progress_is_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "puzzles.json"
    progress = Progress(path)
    assert progress.solved() == {} and progress.tries("split") == 0
    progress.tried("split", False)
    progress.tried("split", True)
    progress.tried("split", True)
    assert Progress(path).solved() == {"split": 2} and Progress(path).tries("split") == 3
    assert [p.name for p in path.parent.iterdir()] == ["puzzles.json"]
    progress.forget()
    assert Progress(path).solved() == {}


@pytest.mark.parametrize("text", ["", "[", "[1]", '{"split": 3}', '{"split": {"tries": "x"}}', "[" * 10**5])
def test_a_damaged_file_counts_as_empty(text: str, tmp_path: Path) -> None:
    path = tmp_path / "puzzles.json"
    path.write_text(text)
    assert Progress(path).solved() == {} and Progress(path).tries("split") == 0
    Progress(path).tried("split", True)
    assert json.loads(path.read_text())["split"] == {"solved": 1, "tries": 1}


def test_without_a_file_progress_lasts_for_the_session(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "puzzles.json"
    progress = Progress(path)
    progress.tried("split", True)
    assert not progress.kept and Progress(path).solved() == {"split": 1}


@pytest.mark.parametrize(
    "platform, variables, expected",
    [
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/tvmagic/puzzles.json"),
        ("linux", {"HOME": "/h"}, "/h/.local/share/tvmagic/puzzles.json"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/tvmagic/puzzles.json"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/tvmagic/puzzles.json"),
        ("linux", {"TVMAGIC_PROGRESS": "/elsewhere.json"}, "/elsewhere.json"),
    ],
)
def test_where_progress_is_kept(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvmagic.puzzles.progress import default_path

    for name in ("XDG_DATA_HOME", "TVMAGIC_PROGRESS", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert default_path().as_posix() == expected


def test_hints_are_sentences_and_three_for_each_puzzle() -> None:
    for subject in puzzles():
        assert isinstance(subject, Puzzle)
        for fault, hint in subject.hints.items():
            assert hint[0].isupper() or hint[0] in "`0123456789", (subject.number, fault)
            assert hint.rstrip()[-1] in ".?", (subject.number, fault)


@pytest.mark.parametrize(
    "number, answer",
    [
        (19, "yo = 64 / 16\nh_rows = 16 + 3 - 1\nh_columns = 66 - 2\nh_r = 3.0"),
        (21, 'line = 2 * 4\nloop = "k"\nadding = 32'),
        (24, "rows = 960 // 8 // 5\ntiles = 960 / 8 / 24"),
    ],
)
def test_a_number_may_be_calculated_in_an_answer(number: int, answer: str) -> None:
    verdict = puzzle(number).judge(answer)
    assert verdict.solved, verdict.rows


@pytest.mark.parametrize("value", ["1 / 0", "2 ** 1000000", "'a' * 3", "__import__('os')", "True + 1 + x", "-'a'"])
def test_what_is_not_a_calculation_is_refused_in_an_answer(value: str) -> None:
    verdict = puzzle(21).judge(f"line = {value}\nloop = 'k'\nadding = 32")
    assert verdict.fault == "refused" and verdict.error is not None
    assert verdict.error.code == "puzzle.wrong_value"


def test_several_names_at_once_are_no_answer() -> None:
    assert puzzle(20).judge("eight = sixteen = 8\nparts = 20").fault == "refused"
    assert puzzle(20).judge("eight = True\nsixteen = True\nparts = 20").fault == "eight"


def test_fewer_loops_than_the_solution_are_right_in_the_inliner() -> None:
    one_loop = """
serial for (i, 0, 64) {
  ScheduleBlock(C) {
    i0, i1 = axis.bind((i / 8), (i % 8))
    C[i0, i1] = cinn_max(((2.0f * A[i1, i0]) + bias[i0]), 0.0f)
  }
}
"""
    verdict = puzzle(23).judge(one_loop)
    assert verdict.solved, verdict.rows
