"""In which notation steps are shown: CINN's text for what was written in it, as long as that says the whole program."""

from __future__ import annotations

import pytest
from step_programs import program

import tvmagic
from tvmagic import passes
from tvmagic.cinn.text.unprintable import left_out
from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimFunc
from tvmagic.notebook.commands import passes as shown_passes
from tvmagic.notebook.display import operator_view
from tvmagic.notebook.errors import error_lines
from tvmagic.notebook.version_comparison import compare
from tvmagic.notebook.view import View, make_view
from tvmagic.operators import Operator, as_operator, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.script import from_source

NEST = """
  serial for (i, 0, 8)
  {{
    serial for (j, 0, 16)
    {{
      ScheduleBlock({1})
      {{
        i0, i1 = axis.bind(i, j)
        {1}[i0, i1] = ({0}[i0, i1] + 1.50000000f)
      }}
    }}
  }}
"""
CELL = "ScheduleBlock(root)\n{\n" + NEST.format("A", "B") + NEST.format("B", "C") + "}"


def cell() -> Operator:
    return operator("shifted", CELL)


def texts(view: View) -> dict[str, str]:
    """The text after each step, of steps of one name the last."""
    return {s.name.split("(")[0]: "\n".join(view.text_lines(s.after)) for s in view.steps if s.after is not None}


def test_an_operator_in_cinns_text_is_shown_in_it_until_memory_is_flat() -> None:
    view = shown_passes(cell(), llvm="none").view
    after = texts(view)
    assert "ScheduleBlock(B)" in after["tir.ConvertBlocksToOpaque"] and "serial for" in after["tir.LowerOpaqueBlock"]
    assert "T.Buffer((128,)" in after["tir.FlattenBuffer"] and "serial for" not in after["tir.UnrollLoop"]
    said = [(s.name, n.texts) for s in view.steps for n in s.notes if n.topic == "notation"]
    reason = "CINN's text does not say that `A` is the memory of an array of 2 dimensions"
    assert said == [("tir.FlattenBuffer", [f"shown in TVMScript from here on: {reason}"])], "it is said once"
    flatten = next(s for s in view.steps if s.name == "tir.FlattenBuffer")
    assert flatten.rows[0].kind == "same", "compared with the program before, not added as a whole"


def test_a_step_that_is_shown_in_another_notation_than_the_one_before_compares_in_one() -> None:
    view = shown_passes(cell(), llvm="none").view
    for step in view.steps:
        if step.kind == "pass" and step.before is not None and step.after is not None:
            assert view.texts[step.before].language == view.texts[step.after].language


@pytest.mark.parametrize("notation", ["tvmscript", "cinn", "classic"])
def test_what_is_asked_for_is_shown(notation: str) -> None:
    view = shown_passes(cell(), notation=notation, llvm="none").view
    first, last = (texts(view)[name] for name in ("tir.InjectPrefetch", "tir.RemoveNoOp"))
    wanted = {"tvmscript": "T.grid(8, 16)", "cinn": "serial for (i, 0, 8)", "classic": "for (i, 0, 8) {"}[notation]
    assert wanted in first and wanted in last
    assert not any(n.topic == "notation" for s in view.steps for n in s.notes)


def test_schedule_calls_comparisons_and_the_cell_itself() -> None:
    op = cell()
    version = schedule(op, "sch.parallel(sch.get_loops(sch.get_block('C'))[0])", "wide")
    assert version.record is not None
    assert "parallel for (i, 0, 8)" in texts(make_view(version.record))["sch.parallel"]
    view = compare(op.plain, version).passes.view
    first = next(s for s in view.steps if s.after is not None and "ScheduleBlock" in view.text_lines(s.after)[2])
    assert first.before is not None and "ScheduleBlock(root)" in view.text_lines(first.before)[2]
    assert "ScheduleBlock(B)" in operator_view(op).text()


def test_steps_of_an_ir_schedule_and_its_lowering() -> None:
    made = program("matmul").schedule()
    with passes.recording() as record:
        made.split("C", 0, [-1, 4])
        made.sync_threads("C")
        tvmagic.lower(made.mod)
    view = make_view(record)
    lowering = next(s for s in view.steps if s.name == "cinn.LowerScheduleBlocks")
    changed = [r for r in lowering.rows if r.kind != "same"]
    assert lowering.changed and all(r.kind in ("removed", "moved") for r in changed)
    before = view.text_lines(lowering.before)
    gone = {before[r.before].strip() for r in changed if r.before is not None and r.kind == "removed"}
    assert gone == {"__syncthreads()", "{", "}"}, "the barrier, and braces of lists of one"
    assert as_operator(made.mod).notation == "cinn"
    assert operator("f", "A: float32[4]\nB[i] = A[i]").notation == "tvmscript"


FUNCTION = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    {0}
"""


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (["for i in range(8):", "    B[i] = A[i]"], ""),
        (["C = T.allocate([8], 'float32')", "D = T.decl_buffer((8,), data=C)", "D[0] = A[0]", "B[0] = D[0]"], ""),
        (["C = T.Buffer((8,), data=A.data)", "B[0] = C[0]"], "that `C` is in the memory of `A`"),
        (["A_1 = T.Buffer((2, 4), data=A.data)", "B[0] = A_1[0, 1]"], "that `A_1` is in the memory of `A`"),
        (["T.attr(0, 'fence', 1)", "B[0] = A[0]"], "the attribute `fence`"),
        (
            ["for i in T.serial(8, annotations={'pragma_unroll': 1}):", "    B[i] = A[i]"],
            "the annotation `pragma_unroll` of a loop",
        ),
        (["C = T.allocate_const([1.0, 2.0], 'float32', [2])", "B[0] = A[0]"], "the values of constant arrays"),
        (
            ["with T.block('b'):", "    C = T.match_buffer(A[2:4], (2,))", "    B[0] = C[0]"],
            "which part of an array a block works on (`match_buffer`)",
        ),
        (["with T.block(''):", "    B[0] = A[0]"], "where in the program an array lives"),
    ],
)
def test_what_the_text_leaves_out(lines: list[str], missing: str) -> None:
    func = from_source(FUNCTION.format("\n    ".join(lines)))
    assert isinstance(func, PrimFunc) and left_out(func) == missing


def test_a_schedule_cell_by_cinns_calls() -> None:
    op = cell()
    text = "loops = ir_sch.get_loops('C')\nouter, inner = ir_sch.split(loops[1], factors=[-1, 4])\nir_sch.vectorize(inner, 4)"
    version = schedule(op, text, "vectors")
    assert version.record is not None and [s.name.split(".")[1][:5] for s in version.record] == ["split", "vecto"]
    assert "vectorize[4] for (" in texts(make_view(version.record))["ir_sch.vectorize"]
    assert op.check().ok
    rows = operator("rows", "A: float32[8, 16]\nB[i] += A[i, j]")
    schedule(rows, "rf = ir_sch.rfactor(ir_sch.split('B', 1, [-1, 4])[1], 0)", "parts")
    assert rows.check().ok and rows.current.name == "parts"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "ir_sch.split('C', 0, [2, 3])",
            ["the product 6 of the factors is less", "serial for (i, 0, 8)\n", "^^^^^^^^\n"],
        ),
        ("ir_sch.compute_inline('C')", ["ScheduleBlock(C)\n", "^^^^^^^^^^^^^^^^\n"]),
        ("ir_sch.compute_at('B', 0)\nsch.get_block('B')", ["the cell uses both `ir_sch` and `sch`"]),
        ("ir_sch = 1", ["the cell gives `ir_sch` another value"]),
        ("ir_sch.ComputeInline('B')", ["did you mean `compute_inline`?"]),
        ("ir_sch.split('C', 0, factor=[2, 3])", ["it is called as `split(loop, *args, factors=None)`"]),
    ],
)
def test_an_error_of_such_a_cell_is_shown_in_cinns_text(text: str, lines: list[str]) -> None:
    with pytest.raises(TVMagicError) as caught:
        schedule(cell(), text)
    shown = "\n".join(error_lines(caught.value, colour=False))
    assert all(line in shown for line in lines), shown
    assert "T.grid" not in shown
