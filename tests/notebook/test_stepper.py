"""The view of a record and its three presentations."""

import html.parser
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.notebook.colour import html_line, pieces
from tvmagic.notebook.diff import diff_lines, likeness, word_marks
from tvmagic.notebook.glossary import GLOSSARY, words_of
from tvmagic.notebook.html import page, view_html
from tvmagic.notebook.stepper import Stepper, packed_numbers, packed_view
from tvmagic.notebook.terminal import view_text
from tvmagic.notebook.view import View, make_view
from tvmagic.passes import Note, Record, Step

EVIL = "<img src=x onerror=alert(1)>"
BEFORE = "for i in range(4):\n    for j in range(8):\n        A[i, j] = B[i, j] * 2.0\nC[0] = 1"
AFTER = "for i in T.parallel(4):\n    for q in range(1):\n        for j in range(8):\n            A[i, j] = B[i, j] * 2.0\nC[0] = 1"


def small_record(name: str = "dense") -> Record:
    notes = [
        Note("bound", "the range of `i`", {"min": 0, "extent": 4}),
        Note("bound", "the range of `j`", {"min": 0, "extent": 8}),
    ]
    steps = [
        Step("te.InferBound", "pass", BEFORE, BEFORE, 0.001, False, notes),
        Step("Parallelize", "pass", BEFORE, AFTER, 0.002, True, [Note("why", "it is safe")]),
        Step("split", "schedule", AFTER, None, 0.0, True, error=TVMagicError("no loop `z`", hint="there is `i`")),
    ]
    return Record(steps, name)


def long_record(passes: int = 100, lines: int = 500) -> Record:
    now = [f"    A[{i}] = B[{i}] + C[{i * 3}] * T.float32({i})" for i in range(lines)]
    steps = []
    for k in range(passes):
        new = list(now)
        for q in range(10):
            new[(k * 7 + q * 31) % lines] = f"    A[{k}] = changed_{k}_{q}"
        if k % 3 == 0:
            new.insert(k, "    for q in range(3):")
        steps.append(Step(f"Pass{k}", "pass", "\n".join(now), "\n".join(new), 0.001))
        now = new
    return Record(steps, "long")


def test_lines_are_matched_without_their_indentation() -> None:
    rows = diff_lines(BEFORE.split("\n"), AFTER.split("\n"))
    assert [r.kind for r in rows] == ["edited", "added", "moved", "moved", "same"]
    assert rows[0].after_marks == ((9, 19),)
    assert "for i in T.parallel(4):"[9:19] == "T.parallel"


def test_rows_hold_every_line_of_both_sides_once() -> None:
    a = [f"line {i * i % 17}" for i in range(60)]
    b = [f"line {i * i % 13}" for i in range(50)]
    rows = diff_lines(a, b)
    assert [r.before for r in rows if r.before is not None] == list(range(60))
    assert [r.after for r in rows if r.after is not None] == list(range(50))


@pytest.mark.parametrize("seed", range(20))
def test_long_texts_are_divided_at_lines_that_both_have_once(seed: int) -> None:
    choose = random.Random(seed)
    a = [choose.choice(["for", "if", f"x {n}", f"y {n // 2}"]) for n in range(300)]
    b = [line for line in a if choose.random() < 0.9]
    for _ in range(30):
        b.insert(choose.randrange(len(b)), choose.choice(["for", "new", f"x {choose.randrange(300)}"]))
    rows = diff_lines(a, b)
    assert [r.before for r in rows if r.before is not None] == list(range(len(a)))
    assert [r.after for r in rows if r.after is not None] == list(range(len(b)))
    same = [r for r in rows if r.kind == "same"]
    assert all(a[r.before] == b[r.after] for r in same if r.before is not None and r.after is not None)
    assert len(same) > 200, "nine lines of ten stand in both"


def test_the_time_of_a_comparison_does_not_grow_with_the_square(cpu_seconds: Any) -> None:
    def compare(count: int) -> float:
        before = [line for n in range(count) for line in ("for i in range(64):", f"A{n}[i] = B{n}[i]", "", "if x:")]
        after = [line for n in range(count) for line in ("for i in range(64):", f"A{n}[i] = B{n}[i]", "if x:")]
        return cpu_seconds(lambda: diff_lines(before, after), 2)

    assert compare(2400) < 8 * compare(600), "four times the lines, about four times the work"


def test_long_lines_are_compared_in_time_that_grows_with_their_length(cpu_seconds: Any) -> None:
    """The words of a long sum occur again and again, so that no word says which place belongs to which."""

    def compare(count: int) -> float:
        before = " + ".join(["X[i] * T.float32(2.0)"] * count)
        after = " + ".join(["X_1[i + 1] * T.float32(2.0)"] * count)
        return cpu_seconds(lambda: (word_marks(before, after), likeness(before, after + " ")), 2)

    assert compare(2000) < 8 * compare(500), "four times the words, about four times the work"


@pytest.mark.parametrize("seed", range(10))
def test_marks_of_long_lines_leave_what_is_equal(seed: int) -> None:
    choose = random.Random(seed)
    a = [choose.choice("abc") for _ in range(400)]
    b = list(a)
    for _ in range(25):
        b[choose.randrange(len(b))] = "z"
        del b[choose.randrange(len(b))]
    before, after = " ".join(a), " ".join(b)
    marks = word_marks(before, after)

    def rest(line: str, parts: Any) -> str:
        for start, end in reversed(parts):
            line = line[:start] + line[end:]
        return line.replace(" ", "")

    assert rest(before, marks[0]) == rest(after, marks[1])
    assert len(rest(before, marks[0])) > 300, "most words are in both"


def test_word_marks_cover_what_differs() -> None:
    before, after = word_marks("  A[i] = B[i] + 1", "    A[i] = C[i] + 1")
    assert before == ((9, 10),) and after == ((11, 12),)


def test_equal_texts_are_one_text_and_steps_tell_what_they_changed() -> None:
    view = make_view(small_record())
    assert [s.changed for s in view.steps] == [False, True, False], "a call that failed changed nothing"
    assert (view.steps[1].added, view.steps[1].removed) == (2, 1)
    assert len(view.texts) == 2
    assert view.text_lines(view.steps[1].after) == AFTER.split("\n")
    assert view.steps[2].after is None and "hint: there is `i`" in view.steps[2].error


def test_a_line_is_one_thread_through_the_passes() -> None:
    view = make_view(small_record())
    before, after = view.texts[0], view.texts[1]
    assert before.threads[2] == after.threads[3] >= 0
    assert after.threads[1] == -1


def unrolled_record() -> Record:
    from tvmagic.notebook.commands import passes
    from tvmagic.operators import Source, operator
    from tvmagic.operators.scheduling import schedule_from_cell

    op = operator("f", "A: float32[64, 8]\nB[i, j] = exp(A[i, j]) + 1.0")
    cell = Source(
        "schedule f",
        "%%schedule f\no, i = s[B].split(B.op.axis[0], 8)\ns[B].vectorize(s[B].op.axis[1])\ns[B].unroll(i)",
    )
    record = Record(title="f")
    version = schedule_from_cell(op, cell, "default", {}, record)
    version.record = record
    return passes(version).record


def test_every_copy_of_an_unrolled_line_is_linked_to_its_source_and_to_llvm() -> None:
    view = make_view(unrolled_record())
    unroll = next(s for s in view.steps if s.name == "tir.UnrollLoop")
    before, after, ir = (view.texts[n] for n in (unroll.before, unroll.after, view.steps[-2].after))
    (source,) = [before.threads[i] for i, n in enumerate(before.lines) if "T.exp" in view.lines[n]]
    copies = [after.threads[i] for i, n in enumerate(after.lines) if "T.exp" in view.lines[n]]
    assert len(copies) == len(set(copies)) == 8, "each copy is followed by itself"
    for copy in copies:
        followed = view.followed(copy)
        assert source in followed and followed.isdisjoint(set(copies) - {copy}), "copies are not relatives"
        assert followed & set(ir.threads), "and has instructions"
    assert set(copies) <= view.followed(source)


def test_notes_of_one_topic_become_a_table() -> None:
    note = make_view(small_record()).steps[0].notes[0]
    assert note.columns == ["min", "extent"]
    assert note.rows == [["0", "4"], ["0", "8"]]


def test_only_the_passes_asked_for() -> None:
    assert [s.name for s in make_view(small_record(), ["InferBound"]).steps] == ["te.InferBound"]
    with refuses("pass.step_did_not_run"):
        make_view(small_record(), ["Nope"])


def test_the_glossary_has_the_words_of_the_program() -> None:
    words = words_of(["with T.block('C'):", "    vi = T.axis.remap('S', [i])", "    x = B[T.Ramp(0, 1, 8)]"])
    assert set(words) == {"block", "T.axis.remap", "Ramp"}
    assert not any(text.endswith(".") for text in GLOSSARY.values()), "each goes on after a colon"


def test_search_gives_the_steps_that_hold_the_text() -> None:
    view = make_view(small_record())
    assert view.search("t.parallel") == [1]
    assert view.search("nowhere") == []


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "br", "hr", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_closed_html_without_scripts() -> None:
    text = page(view_html(make_view(small_record())), "Passes")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert "script" not in tags.seen and {"details", "summary", "ins", "table"} <= tags.seen


def test_names_of_users_are_text_everywhere() -> None:
    record = small_record(EVIL)
    record.sources[EVIL] = EVIL
    record.steps[1].after = AFTER + f"\n# {EVIL}"
    record.steps[0].notes[0].text = EVIL
    record.steps[0].notes[0].facts = {EVIL: EVIL}
    view = make_view(record)
    assert "<img" not in view_html(view)
    tags = Tags()
    tags.feed(view_html(view))
    assert "img" not in tags.seen
    assert "<img" not in html_line(EVIL, "tvmscript", ((0, 4),))


def test_the_terminal_shows_signs_and_colours_only_where_wanted() -> None:
    view = make_view(small_record())
    plain = view_text(view, colour=False)
    assert "\x1b" not in plain
    assert "+ for i in T.parallel(4):" in plain and "- for i in range(4):" in plain
    assert "the range of `i`" in plain and "no loop `z`" in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", view_text(view, colour=True)) == plain


@pytest.mark.parametrize("language", ["tvmscript", "classic", "asm", "llvm", "python", "text"])
@pytest.mark.parametrize(
    "line",
    [
        "    for i0_12, j in T.grid(12, T.int64(3)):  # 5 and 6",
        "realize C([0, 4], [dj, 1]) { produce C { for (i, 0, 1) {",
        "\tvfmadd231ps\t(%rdi,%rax,4), %zmm1, %zmm0  # 7",
        "%12 = fmul <16 x float> %5, %6, !tbaa !12",
        '  A["x<&>"] = 1e-5 \u00e9',
        "",
    ],
)
def test_pieces_are_the_line(line: str, language: str) -> None:
    assert "".join(text for _, text in pieces(line, language)) == line


def test_kinds_of_words_are_told_apart() -> None:
    found = {text: name for name, text in pieces("for i in T.vectorized(16): A[i] = T.float32(0.5)", "tvmscript")}
    assert found["for"] == found["vectorized"] == "k"
    assert found["float32"] == "t" and found["16"] == found["0.5"] == "d"


def unpack(numbers: list[int]) -> list[int]:
    triples = [numbers[i : i + 3] for i in range(0, len(numbers), 3)]
    return [first + step * k for first, step, count in triples for k in range(count)]


@pytest.mark.parametrize("numbers", [[], [5], [1, 2, 3], [7, 7, 7, 8, 9, 1, 0], [-1, -1, 3, 4, 4, 4]])
def test_packed_numbers_unpack(numbers: list[int]) -> None:
    assert unpack(packed_numbers(numbers)) == numbers


def test_the_output_holds_everything_and_a_page_besides() -> None:
    stepper = Stepper(small_record())
    data = stepper.data
    assert [s["name"] for s in data["steps"]] == ["te.InferBound", "Parallelize", "split"]
    bundle = stepper._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}, "a widget would be gone when the notebook is opened again"
    assert "<details" in bundle["text/html"] and "Parallelize" in bundle["text/plain"]
    json.dumps(data)


def test_a_long_record_is_small_and_quick(cpu_seconds) -> None:
    record = long_record()
    data = static = ""

    def describe() -> None:
        nonlocal data, static
        view = make_view(record)
        data, static = json.dumps(packed_view(view)), view_html(view)

    assert cpu_seconds(describe) < 4, "100 passes of 500 lines are described in well under a second when idle"
    assert len(data) + len(static) < 2_000_000


# ---------------------------------------------------------------------------- other widgets


MATMUL = "A: float32[256, 256]\nB: float32[256, 256]\nC[i, j] += A[i, k] * B[k, j]"


def shown_playground(size: int, text: str) -> Any:
    from tvmagic.notebook.knob_playground import playground
    from tvmagic.operators import Source, operator

    op = operator("matmul", MATMUL.replace("256", str(size)))
    return playground(op, Source("schedule matmul", f"%%schedule matmul --play\n{text}"))


def knobs_of(shown: Any) -> list[str]:
    return [name for name, _, _ in shown.drawn["knobs"]]


def test_the_playground_redraws_when_a_knob_is_turned() -> None:
    shown = shown_playground(
        64, "rows = knob(4, [2, 4, 8])\nio, jo, ii, ji = s[C].tile(*s[C].axis, rows, 16)\ns[C].vectorize(ji)"
    )
    assert dict(shown.values) == {"rows": 4} and shown.error is None
    steps = [s["name"] for s in shown.drawn["stepper"]["steps"]]
    before, first = shown.drawn["stepper"]["lines"], shown.record
    shown.turn("rows", 8)
    assert dict(shown.values) == {"rows": 8}
    assert [s["name"] for s in shown.drawn["stepper"]["steps"]] == steps
    assert shown.drawn["stepper"]["lines"] != before
    assert "vector lanes" in shown.drawn["facts"] and "tm-row" in shown.drawn["assembly"]
    shown.turn("rows", 4)
    shown.turned = ["rows", 2]
    assert dict(shown.values) == {"rows": 8}, "what the page says"
    shown.turned = ["rows", 1]
    assert shown.record is first and shown.drawn["stepper"]["lines"] == before, "drawn before, so only measured again"
    with refuses("knob.unknown_value"):
        shown.turn("cols", 8)


def test_a_knob_redraws_a_matmul_quickly(cpu_seconds) -> None:
    shown = shown_playground(
        256,
        "t = knob(32, [8, 16, 32, 64])\nCC = s.cache_write(C, 'global')\nio, jo, ii, ji = s[C].tile(*s[C].axis, t, 32)\n"
        "s[CC].compute_at(s[C], jo)\ni, j = s[CC].op.axis\nko, ki = s[CC].split(s[CC].op.reduce_axis[0], 4)\n"
        "s[CC].reorder(ko, i, ki, j)\ns[CC].vectorize(j)\ns[CC].unroll(ki)\ns[C].vectorize(ji)\ns[C].parallel(io)",
    )
    fresh = min(cpu_seconds(lambda t=t: shown.turn("t", t)) for t in (8, 16, 64))
    assert fresh < 0.5, "0.17 s on an idle machine, 0.1 s of it LLVM and measuring"
    assert cpu_seconds(lambda: shown.turn("t", 8)) < fresh


def test_knobs_of_any_values_and_knobs_that_appear_later() -> None:
    shown = shown_playground(
        32,
        "y, x = knob([4, 4], [[4, 4], [8, 2], [16, 1]], 'tile')\nif y > 4:\n    x = knob(y // 4, [y // 4, y // 2], 'x')\n"
        "s[C].tile(*s[C].axis, y, x)",
    )
    assert knobs_of(shown) == ["tile"]
    shown.turn("tile", [8, 2])
    assert knobs_of(shown) == ["tile", "x"]
    shown.turn("x", 4)
    assert dict(shown.values) == {"tile": [8, 2], "x": 4} and shown.error is None
    shown.turn("tile", [16, 1])
    assert shown.drawn["knobs"][1] == ["x", ["4", "8"], 0] and shown.values["x"] == 4
    shown.turn("x", 8)
    shown.turn("tile", [8, 2])
    assert dict(shown.values) == {"tile": [8, 2], "x": 2} and shown.error is None, "8 is no longer a choice"


def test_the_playground_shows_an_error_and_goes_on() -> None:
    from tvmagic.notebook.knob_playground import playground
    from tvmagic.operators import Source, operator

    op = operator("f", "A: float32[64]\nC[i] = A[i] + 1.0")
    text = "%%schedule f --play\nwhich = knob(0, [0, 1])\ns[C].split(s[C].axis[which], 4)"
    shown = playground(op, Source("schedule f", text))
    shown.turn("which", 1)
    assert "IndexError" in shown.drawn["facts"] and shown.drawn["assembly"] == ""
    shown.turn("which", 0)
    assert shown.error is None and "vector lanes" in shown.drawn["facts"] and "tm-row" in shown.drawn["assembly"]


def test_the_order_of_accesses_is_that_of_the_loops() -> None:
    from tvmagic.notebook.access_animation import player_data
    from tvmagic.notebook.pictures.access import access_view
    from tvmagic.operators import operator
    from tvmagic.operators.scheduling import schedule

    op = operator("f", "A: float32[4, 6]\nC[i, j] = A[i, j] + 1.0")
    version = schedule(op, "c = s[C]\nc.reorder(c.axis[1], c.axis[0])")
    view = access_view(version, "A")
    assert [a.index for a in view.trace.events[:5]] == [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)]
    assert view.trace.complete and not any(a.write for a in view.trace.events)
    data = player_data(view.trace, view.title)
    (grid,) = data["grids"]
    assert (grid["rows"], grid["columns"], grid["axes"], data["writes"]) == (4, 6, ["i", "j"], "r" * 24)


def test_all_buffers_are_traced_at_once_with_statements_and_loops() -> None:
    from tvmagic.notebook.access_animation import player_data
    from tvmagic.notebook.pictures.access import access_view
    from tvmagic.operators import operator

    op = operator("f", "A: float32[4, 6]\nS[i] += A[i, k]\nC[i] = S[i] + 1.0")
    view = access_view(op.current)
    data = player_data(view.trace, view.title)
    assert [g["name"] for g in data["grids"]] == ["S", "A", "C"] and data["complete"]
    touched = [data["grids"][w]["name"] + kind for w, kind in zip(data["which"], data["writes"])]
    assert touched[:5] == ["Sw", "Sr", "Ar", "Sw", "Sr"] and touched[-2:] == ["Sr", "Cw"]
    said = [data["statements"][n] for n in data["statement"]]
    assert (
        said[0] == ["S[i] = T.float32(0.0)", ["i"]]
        and said[2][1] == ["i", "k"]
        and said[-1][0] == "C[i] = S[i] + T.float32(1.0)"
    )
    assert data["loops"][2] == [0, 0] and data["loops"][-1] == [3] and data["indices"][-1] == [3]
    assert "4 writes and 0 reads of C" in view.text(False)


def test_a_long_trace_says_that_the_program_goes_on() -> None:
    from tvmagic.notebook.pictures.access import access_view
    from tvmagic.operators import operator

    for count, complete in ((2048, True), (2049, False)):
        view = access_view(operator("f", f"A: float32[{count}]\nC[i] = A[i]").current)
        assert (len(view.trace.events), view.trace.complete) == (4096, complete)
    assert "as far as the program was run" in view.text(False)


def test_regions_tell_what_is_computed_in_vain() -> None:
    from tvmagic.notebook.pictures.regions import regions_of
    from tvmagic.operators import operator

    op = operator("f", "A: float32[32]\nB[i] = A[i] * 2.0\nfor i in range(16): C[i] = B[2 * i]")
    (region,) = regions_of(op, op.te_schedule())
    assert (len(region.computed), len(region.used)) == (31, 16) or (len(region.computed), len(region.used)) == (32, 16)
    assert 0.45 < region.waste < 0.55


@pytest.mark.parametrize("notation", ["classic", "cinn"])
def test_passes_in_other_notations_keep_their_places(notation: str) -> None:
    from tvmagic.notebook.commands import passes
    from tvmagic.operators import Source, operator_from_cell
    from tvmagic.script import cinn_text, classic

    cell = Source("tensor f", "%%tensor f\nA: float32[8, 4]\nB[i] += A[i, k]\nC[i] = exp(B[i])")
    op = operator_from_cell(cell, "f", {}, "float32")
    shown = passes(op, notation=notation)
    step = next(s for s in shown.view.steps if s.name == "tir.StorageFlatten")
    node = next(s.after for s in shown.record if s.name == "tir.StorageFlatten")
    lines = shown.view.text_lines(step.after)
    assert "\n".join(lines) == {"classic": classic, "cinn": cinn_text}[notation](node)
    stage_loops = next(s for s in shown.view.steps if s.name == "te.ScheduleOps")
    lines_of_stages = [line.strip() for line in shown.view.text_lines(stage_loops.after)]
    assert {"classic": "C(i) =exp(B(i))", "cinn": "C[i] = exp(B[i])"}[notation] in lines_of_stages
    text = shown.view.texts[step.after]
    places = {shown.view.origins[text.origins[i]] for i, line in enumerate(lines) if "exp(" in line}
    assert places == {(("tensor f", 4),)}
    assembly = shown.view.texts[shown.view.steps[-1].after]
    assert any((("tensor f", 4)) in shown.view.origins[o] for o in assembly.origins), "down to the assembly"


def test_the_page_has_a_program_edited() -> None:
    from tvmagic.notebook import editor
    from tvmagic.operators import operator

    op = operator("f", "A: float32[8, 4]\nB[i] += A[i, k]")
    record = op.passes()
    editor.offer(op.current, record, [0, 33, len(record) - 1], "key")
    ask = editor.offer(op.current, record, list(range(len(record))), "all").answer
    assert (
        ask({"key": "nobody's"}) == {"key": "nobody's", "steps": []} == ask({"key": "nobody's", "step": 1})
        and ask("?")["steps"] == []
    )
    assert ask({"key": "key"})["steps"] == [1], "neither a schedule nor code"
    names = [step.name for step in record]
    number = names.index("tir.UnrollLoop")
    text = ask({"key": "all", "step": number})["text"]
    assert "for k in range(4)" in text
    told = ask({"key": "all", "step": number, "text": text})
    assert (
        told["both"] is None and "make the same program of both" in told["facts"] and "equal to NumPy" in told["facts"]
    )
    assert (
        told["timeline"]["steps"][0]["name"] == "edit after tir.UnrollLoop"
        and not told["timeline"]["steps"][0]["changed"]
    )
    told = ask({"key": "all", "step": number, "text": text.replace("range(4)", "range(3)")})
    assert "NOT equal" in told["facts"] and told["both"]["steps"][0]["name"] == "tir.RenormalizeSplitPattern"
    assert "is not defined" in ask({"key": "all", "step": number, "text": text.replace("range", "rnage")})["error"]
    assert "error" in ask({"key": "all", "step": 10**6, "text": text}) and "error" in ask({"key": "all", "step": None})


def test_a_comment_of_llvm_ir_is_one_piece() -> None:
    assert pieces("; alone in a loop", "llvm") == [("c", "; alone in a loop")]


def test_long_sentences_of_errors_break_between_names() -> None:
    from tvmagic.notebook.errors import wrapped

    name = "`s[Y].compute_at(s[Z], s[Z].axis[0])`"
    lines = wrapped(f"TVMagicError: {'word ' * 9}{name} {'word ' * 4}")
    assert len(lines) == 2 and all(len(line) <= 80 for line in lines) and name in lines[1]
    assert wrapped("in %%schedule dense, line 2:") == ["in %%schedule dense, line 2:"]
    assert wrapped("    " + "x = 1 " * 30) == ["    " + "x = 1 " * 30], "a line of a program stays as it is"


def test_a_table_that_a_terminal_has_no_room_for_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvmagic.notebook import terminal

    columns, rows = ["version", "what it is", "time"], [["a", "x" * 60, 1], ["b", "y", 23]]
    wide = terminal.text_table(columns, rows)
    assert len(wide.split("\n")) == 4 and len(wide.split("\n")[2]) > 72
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal.text_table(columns, rows).split("\n") == [
        "version     a",
        "what it is  " + "x" * 60,
        "time        1",
        "",
        "version     b",
        "what it is  y",
        "time        23",
    ]
    monkeypatch.setenv("COLUMNS", "80")
    assert terminal.text_table(columns, rows) == wide


def test_a_run_that_is_recorded_twice_has_the_same_data() -> None:
    """Origins are numbers of a process; the data number what is followed anew."""

    def data() -> dict[str, Any]:
        found = packed_view(make_view(unrolled_record()))
        for step in found["steps"]:
            step["time"] = ""
        return found

    assert json.dumps(data()) == json.dumps(data())


def reached(view: View, text: int, line: int) -> list[str]:
    """The names of the steps after which something is left of a line of an earlier text."""
    followed = view.followed(view.texts[text].threads[line])
    return [s.name for s in view.steps if s.after is not None and followed & set(view.texts[s.after].threads)]


def test_the_product_of_the_readme_is_followed_through_all_steps() -> None:
    from tvmagic.operators import operator
    from tvmagic.operators.scheduling import schedule

    text = (Path(__file__).parents[2] / "README.md").read_text()
    cells = {name: re.search(rf"    %%{name} dense.*\n((?:    .*\n)+)", text) for name in ("tensor", "schedule")}
    definition, calls = ("".join(re.findall(r"    (.*\n)", cell[1])) for cell in cells.values() if cell is not None)
    op = operator("dense", definition)
    view = make_view(op.passes(schedule(op, calls)))
    first = view.steps[0].before
    assert first is not None
    lines = view.text_lines(first)
    every = [s.name for s in view.steps if s.after is not None]
    for part in ("for k", "Y[i, j] + X[i, k]", "for i, j", "Z[i, j] = T.max"):
        (number, *_) = [n for n, line in enumerate(lines) if part in line]
        assert reached(view, first, number) == every, lines[number]


def test_loops_that_were_fused_lead_to_the_loop_they_became() -> None:
    from tvmagic import te, tir
    from tvmagic.passes import recording

    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    with recording() as record:
        sch = tir.Schedule(te.create_prim_func([A, B]))
        i, j = sch.get_loops(sch.get_block("B"))
        outer, inner = sch.split(i, [2, 4])
        sch.fuse(inner, j)
    view = make_view(record)
    split, fuse = view.steps
    assert split.before is not None and split.after is not None and fuse.after is not None
    (before,) = [n for n, line in enumerate(view.text_lines(split.before)) if "for i, j" in line]
    (between,) = [n for n, line in enumerate(view.text_lines(split.after)) if "for i_0, i_1, j" in line]
    (after,) = [n for n, line in enumerate(view.text_lines(fuse.after)) if "i_1_j_fused" in line and "for" in line]
    followed = view.followed(view.texts[split.before].threads[before])
    assert view.texts[split.after].threads[between] in followed and view.texts[fuse.after].threads[after] in followed
    assert view.texts[split.before].threads[before] in view.followed(view.texts[fuse.after].threads[after])
