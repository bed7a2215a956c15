"""Completion and tooltips inside cells, as IPython's completer and the kernel's inspect requests give them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tvmagic.notebook import tooltips
from tvmagic.notebook.cursor import cursor_in
from tvmagic.notebook.tooltips import tooltip
from tvmagic.operators.examples import example_lines, example_operator
from tvmagic.operators.scheduling import SCHEDULE_CALLS, STAGE_CALLS, schedule
from tvmagic.operators.unfinished import evaluated, schedule_names
from tvmagic.tir.schedule.instruction import InstructionKind

TENSOR = """%%tensor dense -q
X: float32[128, 256]
W: float32[64, 256]
b: float32[64]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)"""
HEAD = "%%schedule dense --check\n"
TILED = f"{HEAD}y, z = s[Y], s[Z]\nio, jo, ii, ji = z.tile(*z.axis, 32, 32)\n"
BLOCKS = f"{HEAD}c = sch.get_block('Y')\ni, j, k = sch.get_loops(c)\n"
CALLS = [f"te.{n}" for n in (*STAGE_CALLS, *SCHEDULE_CALLS)] + [f"tir.{n}" for n in InstructionKind.methods]


@pytest.fixture
def dense(shell: Any) -> Any:
    assert shell.run_cell(TENSOR).success
    assert shell.run_cell("%%schedule dense -q -n mine\ns[Z].vectorize(s[Z].axis[1])").success
    return shell


def completed(shell: Any, code: str) -> list[str]:
    from IPython.core.completer import provisionalcompleter

    at = code.index("|") if "|" in code else len(code)
    with provisionalcompleter():
        return [c.text for c in shell.Completer.completions(code.replace("|", "", 1), at)]


def said(shell: Any, code: str) -> str | None:
    return tooltip(code.replace("|", "", 1), code.index("|"), shell.__dict__["_tvmagic_extension"][0])


# ---------------------------------------------------------------------------- completion


@pytest.mark.parametrize(
    ("code", "first"),
    [
        (f"{HEAD}s[Y].", ["bind", "compute_at"]),
        (f"{HEAD}s[Y].ve", ["vectorize"]),
        (f"{HEAD}s[", ["X", "W", "b", "Y", "Z"]),
        (f"# tiles\n\n{HEAD}s[", ["X", "W", "b", "Y", "Z"]),
        (f"{HEAD}s['", ["X", "W", "Y", "b", "Z"]),
        (f"{HEAD}sch.", ["add_unit_loop", "annotate"]),
        (f"{HEAD}sch.get_block('", ["Y", "Z", "root"]),
        (f"{HEAD}s.cache_write(Y, '", ["global", "local"]),
        (f"{TILED}z.vec|\n# below", ["vectorize"]),
        (f"{TILED}z.vectorize(", ["io", "jo", "ii", "ji"]),
        (f"{TILED}y.compute_at(", ["y", "z"]),
        (f"{TILED}y.compute_at(z,\n             ", ["io", "jo"]),
        (f"{TILED}z.split(ii, ", ["factor=", "nparts="]),
        (f"{BLOCKS}sch.reorder(", ["i", "j", "k"]),
        (f"{BLOCKS}sch.compute_at(", ["c"]),
        (f"{BLOCKS}l = sch.get_loops(c)\nsch.vectorize(l[0]); sch.unr", []),
        (f"{HEAD}y = s[Y]; io, ii = y.split(y.axis[0], 8); y.vectorize(", ["io", "ii"]),
        (f"{HEAD}y = s[Y]; a, c = y.split(y.axis[0], 8); y.compute_at(s[Z],\n    ", ["a", "c"]),
        (f"{BLOCKS}sch.split(i, fac", ["factors="]),
        ("%%puzzle 7\ns[", ["X", "B", "Y"]),
        ("%%puzzle 7\ns[B].comp", ["compute_at", "compute_inline", "compute_root"]),
        ("%%schedule dense -n ", ["mine", "plain"]),
        ("%why dense:", ["dense:plain", "dense:mine"]),
        ("%why dense:m", ["dense:mine"]),
        ("%compare dense:mine d", ["dense"]),
        ("%compare dense:mine ", ["dense", "mine", "plain"]),
        (
            "%passes dense:mine -p InferBound,Vect",
            ["InferBound,VectorizeInterleavedStores", "InferBound,VectorizeLoop"],
        ),
        ("%%schedule dense --", ["--against", "--check"]),
        ("%%schedule d", ["dense"]),
        ("%bounds dense ", ["--name", "--ranges"]),
        ("x = %passes dense --v", ["--verify", "--version"]),
        ("%%tensor q\nX: fl", ["float32", "float16", "float64"]),
        ("%%tensor q\nX: float32[4]\nY[i] = soft", ["softmax"]),
        ("%%tensor q\nX: float32[4]\nY[i] = softmax(X[i], ", ["over=", "X", "Y", "i"]),
        ("%%tensor q\nB = te.comp", ["compute"]),
    ],
)
def test_likely_words_come_first(dense: Any, code: str, first: list[str]) -> None:
    found = completed(dense, code)
    assert found[: len(first)] == first or (not first and "unroll" in found)


def test_a_schedules_index_is_a_tensor_and_nothing_else(dense: Any) -> None:
    assert completed(dense, f"{HEAD}Q = 1; s[") == ["X", "W", "b", "Y", "Z"]


def test_a_members_list_has_calls_of_the_schedule_alone(dense: Any) -> None:
    found = completed(dense, f"{HEAD}s[Y].")
    assert set(found) >= {*STAGE_CALLS, "axis"} and not {"error", "leaf_position", "same_as"} & set(found)


@pytest.mark.parametrize("code", [f"{HEAD}# s[Y].", "%%schedule nothing\ns.", "x = 1\ns[Y].", f"{HEAD}'s[Y]."])
def test_other_places_are_left_to_ipython(dense: Any, code: str) -> None:
    assert "vectorize" not in completed(dense, code)


def test_trying_a_cell_changes_nothing_and_ends(dense: Any) -> None:
    op, users = dense.user_ns["dense"], {"kept": [1], "Thing": type("Thing", (), {"split": lambda self: 1 / 0})()}
    lines = [
        "kept.append(2)",
        "kept += [3]",
        "kept[0] = 9",
        "open('made.txt', 'w')",
        "Thing.split()",
        "while True: pass",
        "big = 'x' * 60000 * 60000",
        "for i in range(60000):\n    for j in range(60000): s[Y].unroll(s[Y].axis[0])",
        "a, c = s[Y].split(s[Y].axis[0], 8)",
        "bad(",
        "last, _ = s[Z].split(s[Z].axis[0], 4)",
    ]
    names = schedule_names(op, "\n".join(lines[:-4]), users)
    assert users["kept"] == [1] and "big" not in names and [*op.versions] == ["mine"]
    names = schedule_names(op, "\n".join(lines[-3:]), users)
    assert names["a"].var.name == "i.outer" and names["last"].var.name == "i.outer", "past a line that cannot be read"
    schedule_names(op, lines[-4], users)  # stops before it has run as long as its text says
    assert evaluated("s[Y].op.name", schedule_names(op, "", {})) == "Y" and evaluated("open('x')", {}) is None


def test_any_place_in_any_text_is_answered(dense: Any) -> None:
    rng = random.Random(3)
    pieces = [
        *"()[]{}'\"#.,:=*\n ",
        "s[Y]",
        "z",
        "sch",
        "io",
        "X: ",
        "é",
        "\\",
        "lambda",
        "for i in",
        "'''",
        "1e",
        "over=",
    ]
    magics = dense.__dict__["_tvmagic_extension"][0]
    for _ in range(120):
        head = rng.choice([TILED, BLOCKS, "%%tensor q\nX: float32[4]\n"])
        code = head + "".join(rng.choice(pieces) for _ in range(rng.randint(1, 12)))
        at = rng.randint(len(head), len(code))
        completed(dense, f"{code[:at]}|{code[at:]}")
        tooltip(code, at, magics)


def test_the_statement_may_begin_further_up(dense: Any) -> None:
    code = f"{TILED}z.tile(\n    ii,\n    "
    place = cursor_in(code, len(code), dense.user_ns)
    assert place is not None and place.call == ("z.tile", 1) and "ji" in place.names


# ---------------------------------------------------------------------------- tooltips


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (f"{TILED}y.compute_at|(z, jo)", ["compute_at(parent: Stage, scope: IterVar)", "s[S].compute_at(s[C]"]),
        (f"{TILED}y.compute_at(z, |", ["compute_at(parent: Stage, scope: IterVar)"]),
        (f"{TILED}y.compute_at(z, j|o", ["jo: the loop j.outer of stage Z, 2 iterations"]),
        (f"{TILED}z|.", ["stage Z: at the root", "for i.outer from 0, 4 times"]),
        (f"{HEAD}s|[Y]", ["a TE schedule", "stage Y: at the root"]),
        (f"{HEAD}s[Y|]", ["Y: float32[128, 64]", "Y[i, j] += X[i, k] * W[j, k]"]),
        (
            f"{BLOCKS}sch.split(i, |",
            ["split(loop: Loop, factors: Lengths", "Requires:", "io, ii = sch.split(i, [None, 8])"],
        ),
        (f"{BLOCKS}j|", ["j: the loop j, 64 iterations, serial"]),
        (f"{BLOCKS}c|", ["c: a block", "T.reads(X[v_i, v_k]"]),
        ("%%schedule dense --ch|eck", ["-c, --check", "compare with NumPy"]),
        ("%%sche|dule dense", ["Schedule an operator"]),
        ("%%tensor q\nX: float32[4]\nY[i] = cum|sum(X[i], over=i)", ["The sum of the values along `k` up to this one"]),
        ("%%tensor q\nX: float32[4]\nY[i] = tanh(|", ["tanh(x)"]),
        ("%%tensor q\nX: flo|at32[4]", []),
    ],
)
def test_a_tooltip_says_what_is_there(dense: Any, code: str, words: list[str]) -> None:
    text = said(dense, code)
    assert all(word in (text or "") for word in words) and (text is not None or not words)


@pytest.mark.parametrize("code", ["x = 1\nx|", f"{TILED}# z|", "%%schedule nothing\ns|", f"{TILED}nowhere|"])
def test_what_is_not_ours_has_no_tooltip(dense: Any, code: str) -> None:
    assert said(dense, code) is None


@pytest.mark.parametrize("name", CALLS)
def test_every_call_has_an_example_that_runs(name: str) -> None:
    lines = example_lines(name)
    assert lines is not None and f".{name.partition('.')[2]}(" in lines, "tvmagic/operators/examples.py has none"
    version = schedule(example_operator(name), lines)

    assert version.lower().functions and not any(step.error for step in version.record or ())


def test_the_kernels_inspect_requests_are_answered(dense: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Kernel:
        def do_inspect(self, code: str, at: int, level: int = 0, omit: tuple[str, ...] = ()) -> dict[str, Any]:
            asked.append(code)
            return {"found": False}

    kernel: Any = Kernel()
    monkeypatch.setattr(dense, "kernel", kernel, raising=False)
    forget = tooltips.install(dense, dense.__dict__["_tvmagic_extension"][0])
    code = f"{TILED}y.compute_at"
    reply = kernel.do_inspect(code, len(code), 0, omit=())
    assert reply["found"] and "compute_at(parent: Stage" in reply["data"]["text/plain"] and not asked
    kernel.do_inspect("print", 5)
    assert asked == ["print"]
    forget()
    assert "do_inspect" not in kernel.__dict__
