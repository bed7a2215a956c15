"""What InferBound's notes say to people: a sentence a stage, the phases, a picture."""

from __future__ import annotations

from tvmagic.notebook.bound_notes import phases, region_picture, stage_sentences
from tvmagic.notebook.commands import passes
from tvmagic.notebook.view import make_view
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.passes import Note

BLUR = """I: float32[66, 66]
H: float32[66, 64]
H[i, j] = I[i, j] + I[i, j + 1] + I[i, j + 2]
for i in range(64): V[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]"""
CHAIN = """C = te.compute((5, 16), lambda ci, cj: te.const(5, "int32"), name="C")
D = te.compute((5, 16), lambda di, dj: C[di, dj] * 2, name="D")
E = te.compute((5, 16), lambda ei, ej: D[ei, ej] * 4, name="E")"""


def notes_of(text: str, calls: str) -> list[Note]:
    return [
        n for n in passes(schedule(operator("f", text), calls)).record.notes() if n.topic.startswith("infer_bound.")
    ]


def test_a_stage_in_a_loop_is_said_in_one_sentence_with_its_reason() -> None:
    notes = notes_of(BLUR, "yo, yi = s[V].split(s[V].axis[0], 10)\ns[H].compute_at(s[V], yo)")
    assert stage_sentences(notes) == [
        "`H`: 12 x 64 elements in each iteration of `i.outer` (`i` from `i_outer * 10`, `j` from `0`), because all "
        "iterations of `i.inner` (0 to 9) and `j` (0 to 63) of `V` need them; `i` covers 3 different sets"
    ]
    picture = region_picture(notes)
    assert "12 x 64 at a time" in picture and "dashed: 3 requests" in picture


def test_a_stage_at_the_root_is_computed_once() -> None:
    notes = notes_of(BLUR, "s[V].split(s[V].axis[0], 10)")
    assert stage_sentences(notes) == ["`H`: 66 x 64 elements, computed once, outside all loops of `V`"]
    assert region_picture(notes) == ""


def test_loops_around_a_consumer_are_said_to_be_relaxed() -> None:
    """`C` is outside of `ei` and `ej`, which are around its consumer `D`."""
    notes = notes_of(CHAIN, "s[D].compute_at(s[E], E.op.axis[1])")
    leaf = next(p for p in phases(notes) if p.title.startswith("Phase 1"))
    assert ["C", "D", "ei", "[0, 4]", "around `D`, and `C` is outside it: all iterations (relaxed)"] in leaf.rows
    up = next(p for p in phases(notes) if p.title.startswith("Phase 2"))
    assert ["D", "roots", "di: [0, 4], dj: [0, 15]", ""] in up.rows


def test_sets_are_simplified_and_nothing_is_a_dump() -> None:
    version = schedule(operator("f", BLUR), "yo, yi = s[V].split(s[V].axis[0], 10)\ns[H].compute_at(s[V], yo)")
    (step,) = make_view(passes(version).record, ["InferBound"]).steps
    said = " ".join([t for n in step.notes for t in n.texts] + [v for n in step.notes for row in n.rows for v in row])
    assert "IntervalSet" not in said and "relation:" not in said and "- 1 + 1" not in said
    assert [bool(n.fold) for n in step.notes] == [False, False, *[True] * 6], "a sentence, a picture, six folded tables"
    requests = next(n for n in step.notes if n.fold.startswith("Phase 3"))
    assert ["V", "H", "[i_outer * 10 + 1, i_outer * 10 + 10] x [0, 63]"] in requests.rows
