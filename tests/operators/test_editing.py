"""A step's program, edited or not, and the passes that are left run on it."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic import codegen
from tvmagic.errors import TVMagicError
from tvmagic.operators import Operator, Version, operator
from tvmagic.operators.editing import edit, editable, program_text, step_number
from tvmagic.operators.scheduling import schedule
from tvmagic.operators.unfinished import evaluated

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
DENSE = """X: float32[n, 24]
W: float32[16, 24]
b: float32[16]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)"""
SOFTMAX = "X: float32[6, 20]\nP[i, k] = softmax(X[i, k], over=k)"
BLUR = "I: float32[18, 18]\nH[i, j] = (I[i, j] + I[i, j + 1] + I[i, j + 2]) / 3\nV[i, j] = H[i, j] + H[i + 1, j]"
GATHER = "T: float32[9, 4]\nI: int32[5]\nE[i, j] = T[I[i], j]"
CELLS = [
    (
        DENSE,
        "y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 8, 8)\ny.compute_at(z, jo)\nz.vectorize(ji)\nz.parallel(io)",
    ),
    (SOFTMAX, "s[P_max].compute_at(s[P_exp], s[P_exp].axis[0])"),
    (
        BLUR,
        "h, v = sch.get_block('H'), sch.get_block('V')\ni, j = sch.get_loops(v)\nsch.compute_at(h, i)\nsch.unroll(j)",
    ),
    (GATHER, "s[E].unroll(s[E].axis[1])"),
]


def code(module: Any) -> str:
    return codegen.llvm_ir(module, optimize=False)


def differing(version: Version) -> list[str]:
    """The steps whose program, printed, read and taken on unchanged, ends as other code than the version's."""
    op = version.operator
    record, wanted, known, found = op.passes(version, code=False), code(version.lower()), set(), []
    for number, left in editable(record).items():
        text = program_text(record, number)
        if text not in known:
            known.add(text)
            made = edit(version, number + 1, text)
            assert made.schedule.left == left
            if code(made.lower()) != wanted:
                found.append(record.steps[number].name)
    return found


@pytest.mark.parametrize(("text", "cell"), CELLS)
def test_an_unedited_step_of_any_kind_ends_as_the_same_code(text: str, cell: str) -> None:
    assert differing(schedule(operator("f", text), cell)) == []


def versions_of_tutorials() -> Iterator[tuple[str, Version]]:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        names: dict[str, Any] = {"np": np}
        for number, cell in enumerate(json.loads(path.read_text())["cells"]):
            text = "".join(cell["source"])
            head, _, body = text.partition("\n")
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):  # what needs other cells
                if head.startswith("%%tensor"):
                    made = names[head.split()[1]] = operator(head.split()[1], body, names)
                    yield f"{path.name} {number}", made.current
                elif head.startswith("%%schedule"):
                    yield f"{path.name} {number}", schedule(names[head.split()[1]], body, "v", names)
                elif not text.startswith("%") and "=" in text and evaluated("1", {}):
                    for line in text.split("\n"):  # sizes that cells use
                        name, _, value = line.partition("=")
                        if name.strip().isidentifier() and value.strip().isdigit():
                            names[name.strip()] = int(value)


@pytest.mark.soak
def test_every_step_of_the_tutorials_operators_ends_as_the_same_code() -> None:
    found = {name: wrong for name, version in versions_of_tutorials() if (wrong := differing(version))}
    assert found == {}


# ---------------------------------------------------------------------------- edits


@pytest.fixture
def dense() -> Operator:
    op = operator("f", DENSE)
    schedule(op, CELLS[0][1])
    return op


def text_after(op: Operator, step: str) -> str:
    record = op.passes(op.version("default"), code=False)
    return program_text(record, step_number(record, step))


def test_a_step_that_ran_several_times_is_told_by_its_turn(dense: Operator) -> None:
    record = dense.passes(dense.version("default"), code=False)
    places = [n for n, step in enumerate(record) if step.name.endswith(".Simplify")]
    assert len(places) > 2 and places[1] != places[-1] - 1
    for turn, place in enumerate(places, 1):
        assert step_number(record, f"Simplify:{turn}") == step_number(record, str(place + 1)) == place
    assert step_number(record, "Simplify") == places[0]
    for turn in (0, len(places) + 1):
        with refuses("edit.ambiguous_step"):
            step_number(record, f"Simplify:{turn}")


def test_an_edit_that_keeps_the_meaning_is_compiled_and_right(dense: Operator) -> None:
    text = text_after(dense, "SchedulePostProcToPrimFunc")
    assert "for k in range(24):" in text
    made = edit(
        dense.version("default"),
        "SchedulePostProcToPrimFunc",
        text.replace("for k in range(24):", "for k in T.unroll(24):"),
    )
    assert dense.current is made and dense.check("edited").ok
    names = [step.name for step in dense.passes(made)]
    assert names.index("edit after te.SchedulePostProcToPrimFunc") == names.index("te.SchedulePostProcToPrimFunc") + 1
    assert names[-1] == "codegen.assembly" and "T.unroll" not in text_after(dense, "UnrollLoop")
    of_default = dense.passes(dense.version("default"))
    assert str(dense.passes(made)["codegen.llvm"].after) != str(of_default["codegen.llvm"].after)


def test_an_edit_that_changes_the_meaning_is_compiled_and_told(dense: Operator) -> None:
    text = text_after(dense, "UnrollLoop")
    edit(dense.version("default"), "UnrollLoop", text.replace("T.float32(0.0)", "T.float32(1.0)", 1))
    assert not dense.check("edited").ok and dense.check("default").ok


@pytest.mark.parametrize(
    ("step", "old", "new", "code"),
    [
        ("UnrollLoop", "T.max(", "T.mxa(", "script.unknown_attribute"),
        ("UnrollLoop", "(16, 24)", "(16, 23)", "edit.arguments_differ"),
        ("UnrollLoop", "for ", "fro ", "script.not_python"),
        ("InferBound", "", "", "edit.step_not_editable"),
        ("z.vectorize(ji)", "", "", "edit.step_not_editable"),
        ("llvm", "", "", "edit.unknown_step"),
        ("Simplfy", "", "", "edit.unknown_step"),
        ("Simplify:9", "", "", "edit.ambiguous_step"),
        ("0", "", "", "edit.unknown_step"),
        ("77", "", "", "edit.unknown_step"),
    ],
)
def test_what_cannot_be_taken_on_is_refused(dense: Operator, step: str, old: str, new: str, code: str) -> None:
    text = text_after(dense, step) if old else ""
    assert old in text
    with pytest.raises(TVMagicError) as caught:
        edit(dense.version("default"), step, text.replace(old, new, 1))
    assert code == caught.value.code and list(dense.versions) == ["default"]


def test_an_edit_that_lets_iterations_meet_is_refused(dense: Operator) -> None:
    text = text_after(dense, "SchedulePostProcToPrimFunc")
    with refuses("operator.race"):
        edit(
            dense.version("default"),
            "SchedulePostProcToPrimFunc",
            text.replace("for k in range(24)", "for k in T.parallel(24)"),
        )


def test_the_function_is_one_and_whole(dense: Operator) -> None:
    with refuses("script.unsupported_definition"):
        edit(dense.version("default"), "UnrollLoop", "x = 1")
