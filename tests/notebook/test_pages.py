"""Pages that compute: what is in them, and what they do in a browser without a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import refuses
from test_browser import violations
from tools import TOOLS, needs

from tvmagic import notebook, te, tir
from tvmagic.errors import TVMagicError
from tvmagic.notebook import pages
from tvmagic.operators import Operator, Version, operator
from tvmagic.operators.javascript import javascript
from tvmagic.operators.scheduling import schedule

ROOT = Path(__file__).parents[2]
MOST_BYTES = 1_000_000
DENSE = """X: float32[32, 48]
W: float32[64, 48]
b: float32[64]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)"""
TILES = """y, z = s[Y], s[Z]
tile = knob(8, [8, 16])
width = 16
io, jo, ii, ji = z.tile(*z.axis, tile, width)
y.compute_at(z, jo)
z.vectorize(ji)"""


@pytest.fixture
def dense() -> Operator:
    op = operator("dense", DENSE)
    op.add_version(schedule(op, TILES))
    return op


# ---------------------------------------------------------------------------- what is in a page


def test_the_knobs_of_the_cell_are_sliders_with_all_their_choices(dense: Operator, tmp_path: Path) -> None:
    path = notebook.page(dense, tmp_path / "dense.html")
    assert path.stat().st_size < MOST_BYTES / 4
    sliders = pages.Sliders(dense.current, None)
    assert sliders.shown() == [("tile", ["8", "16"], 0)] and sliders.first == 0
    texts = [str(version.lower()) for version, _, _ in sliders.versions() if version is not None]
    assert len(texts) == 2 and texts[0] != texts[1]


def test_values_are_given_to_knobs_and_to_numbers_that_the_cell_assigns(dense: Operator) -> None:
    sliders = pages.Sliders(dense.current, {"width": [8, 16, 32], "tile": [4]})
    assert sliders.shown() == [("width", ["8", "16", "32"], 1), ("tile", ["4"], 0)]
    made = sliders.versions()
    assert [error for _, _, error in made] == [None] * 3
    assert "T.grid(8, 8)" in str(made[0][0].lower()), "32 rows by 4, 64 columns by 8"  # type: ignore[union-attr]
    assert dense.current.source.text == TILES.join(["%%schedule dense\n", ""]), "the cell is as it was"  # type: ignore[union-attr]


def test_a_choice_that_fails_says_why_and_shows_the_steps_so_far(dense: Operator) -> None:
    made = pages.Sliders(dense.current, {"tile": [8, -1]}).versions()
    assert made[0][2] is None and made[1][0] is None
    variant = pages.PageVariant.of(*made[1], pages.PageArrays.of(dense))
    assert variant.kernel is None and "tm-error" in variant.data()["failure"]


@pytest.mark.parametrize(
    "knobs, code",
    [
        ({"til": [4]}, "page.unknown_knob"),
        ({"tile": []}, "page.knob_without_values"),
        ({"tile": list(range(1, 12)), "width": [4, 8, 16]}, "page.too_many_choices"),
    ],
)
def test_wrong_knobs_are_refused(dense: Operator, knobs: Any, code: str, tmp_path: Path) -> None:
    with refuses(code):
        notebook.page(dense, tmp_path / "x.html", knobs)


def test_knobs_without_a_cell_and_files_without_a_folder_are_refused(dense: Operator, tmp_path: Path) -> None:
    with refuses("page.no_schedule_cell"):
        notebook.page(dense.version("plain"), tmp_path / "x.html", {"tile": [4]})
    with refuses("file.not_writable"):
        notebook.page(dense.version("plain"), tmp_path / "none" / "x.html")


def test_what_has_no_code_for_webassembly_is_shown_without_a_button() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: tir.call_extern("float32", "lgammaf", A[i]), name="B")
    op = Operator("f", [A], [B])
    variant = pages.PageVariant.of(op.current, pages.Record(title="f"), None, pages.PageArrays.of(op))
    assert variant.kernel is None and "lgammaf" in variant.data()["failure"]
    assert len(variant.view.steps) > 5
    assert "no form in JavaScript" in pages.reference_data(op, {})["missing"]


def test_arrays_that_webassembly_cannot_address_are_refused_with_their_size() -> None:
    op = operator("f", "A: float32[n, 30_000]\nB[i, j] = A[i, j] + 1")
    with pytest.raises(TVMagicError, match=r"4\.5 GiB"):
        pages.kernel_data(op.current, pages.PageArrays.of(op, 20_000))


def test_arrays_larger_than_any_memory_are_refused_before_they_are_made(tmp_path: Path) -> None:
    op = operator("f", "A: float32[46_000, 46_000]\nB[i, j] = A[i, j] + 1")
    text = notebook.page(op, tmp_path / "f.html").read_text()
    assert len(text) < MOST_BYTES / 4
    variant = pages.PageVariant.of(op.current, pages.Record(title="f"), None, pages.PageArrays.of(op))
    assert variant.kernel is None and "15.8 GiB" in variant.data()["failure"]
    assert len(variant.view.steps) > 5


def test_names_of_users_are_escaped(tmp_path: Path) -> None:
    A = te.placeholder((4,), name="<b>A</b>")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    path = notebook.page(Operator("<script>x", [A], [B]), tmp_path / "x.html")
    assert "<b>A" not in path.read_text() and "<script>x" not in path.read_text()


def test_the_magic_writes_a_page(shell: Any, tmp_path: Path, capsys: Any) -> None:
    shell.run_cell(f"%%tensor dense\n{DENSE}")
    shell.run_cell(f"%%schedule dense -q\n{TILES}")
    capsys.readouterr()
    for words, said in [
        (f"--html {tmp_path / 'x.html'} --knob tile=8,16 --knob width=32", "it needs no kernel and no network"),
        (f"--html {tmp_path / 'x.html'} --knob tile", "is not a name with values"),
        (f"--html {tmp_path / 'x.html'} --verify", "`--verify` would do nothing with `--html`"),
        ("--knob tile=4", "`--knob` would do nothing without `--html`"),
    ]:
        shell.run_cell(f"%passes dense {words}")
        out = capsys.readouterr()
        assert said in out.out + out.err
    assert (tmp_path / "x.html").stat().st_size > 10_000


# ---------------------------------------------------------------------------- in a browser


@pytest.fixture
def offline(browser: Any) -> Iterator[Any]:
    """A fresh page without a network, whose errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, offline=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    fresh, errors = context.new_page(), []
    fresh.set_default_timeout(60_000)
    fresh.on("pageerror", lambda error: errors.append(str(error)))
    fresh.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    yield fresh
    context.close()
    assert errors == []


def said(page: Any) -> str:
    """What the page says when it has computed."""
    status = page.locator(".tm-playground > .tm-controls [role=status]")
    page.wait_for_function(
        "document.querySelector('.tm-playground > .tm-controls [role=status]').className !== 'tm-meta'"
    )
    return status.inner_text()


def times(page: Any) -> list[str]:
    return page.locator(".tm-playground > div > .tm-table tbody td:nth-child(2)").all_inner_texts()


@pytest.mark.browser
def test_the_page_computes_steps_and_follows_without_a_network(
    offline: Any, dense: Operator, axe: str, tmp_path: Path, screenshot: Any
) -> None:
    path = notebook.page(dense, tmp_path / "dense.html")
    offline.goto(f"{path.as_uri()}#step=2&line=3")
    run = offline.get_by_role("button", name="Run")
    run.wait_for()
    offline.wait_for_function("document.querySelector('.tm-run:enabled')")
    assert offline.locator('.tm-list [aria-selected="true"] .tm-label').inner_text().startswith("y.compute_at")
    assert offline.locator(".tm-at").count() > 0, "the linked line is marked"
    run.click()
    assert said(offline).startswith("\u2713 equal to plain JavaScript \u00b7 2,048 values judged")
    assert len(times(offline)) == 2 and all(re.fullmatch(r"[\d.]+ (µs|ms|s)", t) for t in times(offline))
    assert violations(offline, axe) == []
    screenshot(offline, "page")
    offline.evaluate("document.querySelectorAll('body, .tvmagic').forEach((e) => { e.dataset.theme = 'dark'; })")
    grounds = "[document.body, document.querySelector('.tvmagic')].map((e) => getComputedStyle(e).backgroundColor)"
    assert offline.evaluate(grounds) == ["rgb(13, 17, 23)"] * 2, "one ground, around the stepper too"
    assert violations(offline, axe) == []
    slider = offline.get_by_role("slider", name="tile")
    slider.focus()
    offline.keyboard.press("ArrowRight")
    offline.wait_for_function("document.querySelector('.tm-knob output').textContent === '16'")
    offline.wait_for_function(
        "document.querySelector('.tm-playground > .tm-controls [role=status]').textContent === ''"
    )
    assert offline.locator('.tm-list [aria-selected="true"] .tm-label').inner_text().startswith("y.compute_at"), (
        "it stays"
    )
    offline.wait_for_function("document.querySelector('.tm-run:enabled')")
    offline.keyboard.press("r")
    assert said(offline).startswith("\u2713 equal to plain JavaScript")
    offline.locator(".tm-view").focus()
    offline.keyboard.press("End")
    assert offline.locator('.tm-list [aria-selected="true"] .tm-label').inner_text() == "codegen.assembly"
    offline.get_by_role("button", name="Link").click()
    link = offline.evaluate("() => navigator.clipboard.readText()")
    assert re.search(r"#step=\d+(&line=\d+)?&in=\w{6}&knob\.tile=16$", link)
    other = offline.context.new_page()
    other.goto(link)
    other.wait_for_function("document.querySelector('.tm-run:enabled')")
    assert other.locator(".tm-knob output").inner_text() == "16"
    assert other.locator('.tm-list [aria-selected="true"] .tm-label').inner_text() == "codegen.assembly"
    other.close()
    offline.locator(".tm-view").focus()
    offline.keyboard.press("/")
    offline.keyboard.type("f32.mul")
    assert offline.locator(".tm-bar [role=status]").inner_text().startswith("in 1 step; first: codegen.assembly")


@pytest.mark.browser
def test_a_wrong_result_is_said_with_its_place(offline: Any, monkeypatch: Any, tmp_path: Path) -> None:
    """The page's reference is that of an operator with another term in one place: only there it differs."""
    right = operator("f", "X: float32[40]\nY[i] = X[i] * 2")
    other = operator("f", "X: float32[40]\nY[i] = X[i] * 2 + (1e-5 if i == 33 else 0)")
    monkeypatch.setattr(pages, "javascript", lambda op, sizes, bounds=False: javascript(other, sizes, bounds))
    offline.goto(notebook.page(right, tmp_path / "f.html").as_uri())
    offline.wait_for_function("document.querySelector('.tm-run:enabled')")
    offline.get_by_role("button", name="Run").click()
    assert "NOT equal to plain JavaScript \u00b7 1 of 40 values differ, first at Y[33]" in said(offline)


@pytest.mark.browser
def test_a_function_that_stops_says_why(offline: Any, monkeypatch: Any, tmp_path: Path) -> None:
    op = operator("f", "X: float32[8]\nI: int32[8]\nY[i] = X[I[i]]")
    monkeypatch.setattr(type(op.accesses), "limit", lambda self, tensor, sizes: 100 if tensor.name == "I" else None)
    offline.goto(notebook.page(op, tmp_path / "f.html").as_uri())
    offline.wait_for_function("document.querySelector('.tm-run:enabled')")
    offline.get_by_role("button", name="Run").click()
    assert "The operator stopped: an access of `X` is outside its shape" in said(offline)


# ---------------------------------------------------------------------------- in Node

CELLS = {
    "half": "X: float16[n]\nY[i] = X[i] * X[i] + exp(X[i])",
    "brain": "X: bfloat16[n]\nY[i] = X[i] * 3 - 1",
    "double": "X: float64[n]\nY[i] += X[i] * X[k] if k > i else 0",
    "wide": "X: int64[16]\nI: int32[16]\nY[i] = X[i] // 3 + X[I[i]] * X[i] % 7",
    "gather": "X: float32[n]\nI: int32[n]\nY[i] = X[I[i]] * 2",
    "bools": "B: bool[n]\nX: uint8[n]\nY[i] = X[i] * X[i] > 9 and B[i]\nZ[i] = X[i] + 250",
    "update": "A: float32[n]\nA[i] = A[i] * 2 + 1",
    "library": "X: float32[n]\nY[i] = tan(X[i]) + sinh(X[i]) + atan2(X[i], 2) + cos(X[i] * 60000) * 0 + hypot(X[i], 3)",
    "edges": "X: float16[n, 20]\nY[i] *= X[i, k]\nZ[i] += X[i, k] * X[i, k] * 30000\nW[i, k] = exp(X[i, k] * 20)\nV[i, k] = exp(X[i, k] * 200) * 0",
    "rounds": """@T.prim_func
def f(A: T.Buffer((32,), "float32"), Q: T.Buffer((32,), "int8"), B: T.Buffer((32,), "float32"), N: T.Buffer((1,), "int64")):
    for i in range(32):
        Q[i] = T.Cast("int8", T.round(A[i] * T.float32(0.3) * T.float32(100)))
    N[0] = T.int64(0)
    for i in range(32):
        B[i] = T.Cast("float32", Q[i]) * T.float32(0.01) - A[i]
        N[0] = N[0] + T.Cast("int64", Q[i]) * T.int64(3)""",
    "decided": """@T.prim_func
def f(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        I[i] = T.Cast("int32", T.abs(A[i]) * T.float32(7))
        B[i] = A[I[i]] * T.float32(3)
        while B[i] > T.float32(0.01):
            B[i] = B[i] * T.float32(0.7)""",
    "names": """@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        x: T.float32 = T.max(A[i], T.float32(0))
        B[i] = x * x""",
    "argmax": "X: float32[6, 30]\nM[i] = argmax(X[i, k], over=k)",
    "heap": "X: float32[n, 200, 100]\nY[m, i, j] = X[m, i, j] + 1\nZ[m, i] += Y[m, i, j] * Y[m, i, j]",
}


@needs("node")
def test_node_runs_the_same_host() -> None:
    """Every dtype in memory, updates in place, C's functions, the heap: equal to the loops in JavaScript."""
    jobs = {}
    for name, text in CELLS.items():
        op = operator("f", text)
        arrays = pages.PageArrays.of(op, 16)
        kernel, reference = pages.kernel_data(op.current, arrays), pages.reference_data(op, arrays.sizes)
        jobs[name] = {"kernel": kernel, "params": pages.argument_data(op, arrays), "seed": 3, **reference}
    static = ROOT / "tvmagic" / "notebook" / "static"
    script = f"""{(static / "arithmetic.js").read_text()}
{(static / "kernel.js").read_text().replace("BUDGET = 300", "BUDGET = 1")}
const host = makeHost(makeArithmetic());
const jobs = {json.dumps(jobs)}, found = {{}};
for (const [name, job] of Object.entries(jobs)) found[name] = await host.run(job);
console.log(JSON.stringify(found));
"""
    done = subprocess.run(
        [TOOLS["node"].need(), "--input-type=module"],
        input=script,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in CELLS:
        for output in found[name]["outputs"]:
            assert output["values"] > 0 and output["wrong"] == 0, (name, output)
            assert not output["open"] or name == "edges", output  # half of the values of `V` are NaN


@needs("node")
def test_a_host_without_room_says_so() -> None:
    """An engine that gives no memory ends in a sentence with the size, not in the engine's own words."""
    op = operator("f", "X: float32[1024, 1024]\nY[i, j] = X[i, j] + 1")
    arrays = pages.PageArrays.of(op)
    job = {
        "kernel": pages.kernel_data(op.current, arrays),
        "params": pages.argument_data(op, arrays),
        "seed": 3,
        "plain": "",
    }
    static = ROOT / "tvmagic" / "notebook" / "static"
    script = f"""{(static / "arithmetic.js").read_text()}
{(static / "kernel.js").read_text()}
WebAssembly.Memory = class {{ constructor() {{ throw new RangeError("could not allocate memory"); }} }};
makeHost(makeArithmetic()).run({json.dumps(job)}).catch((error) => console.log(error.message));
"""
    done = subprocess.run(
        [TOOLS["node"].need(), "--input-type=module"],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "this browser has no room for its arrays (8 MiB) and those of the reference"


# ---------------------------------------------------------------------------- notebooks


def test_a_notebook_becomes_a_page(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("nbconvert")
    from tvmagic.page import main

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    cells = [
        nbformat.v4.new_markdown_cell("# Title\n\n![a](dot.svg) ![b](https://example.com/x.png)"),
        nbformat.v4.new_code_cell("%load_ext tvmagic\nprint('<i>')"),
        nbformat.v4.new_code_cell("%%tensor double\nX: float32[8]\nY[i] = X[i] * 2"),
        nbformat.v4.new_code_cell("from IPython.display import JSON, Latex\ndisplay(Latex('$x^2$'), JSON({'a': '<'}))"),
    ]
    cells[0].attachments = {"a b.png": {"image/png": "iVBORw0K"}}
    cells[
        0
    ].source += (
        "\n\n![c](attachment:a%20b.png) ![d](attachment:gone.png) <img src='attachment:gone.png'> `attachment:x`"
    )
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "n.ipynb")
    assert main([str(tmp_path / "n.ipynb"), "-o", str(tmp_path / "n.html")]) == 0
    text = (tmp_path / "n.html").read_text()
    assert "Title" in text and "&lt;i&gt;" in text and "data:image/svg+xml;base64," in text
    assert 'src="data:image/png;base64,iVBORw0K"' in text and 'alt="d"' in text and "<code>attachment:x</code>" in text
    assert 'aria-label="double, computed in this page"' in text
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in text and "&quot;a&quot;: &quot;&lt;&quot;" in text
    assert re.findall(r"https?://(?!www\.w3\.org)[\w./]+", text) == []
    assert main([str(tmp_path / "none.ipynb")]) == 1 and "none.ipynb" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (("CellExecutionError", "traceback", "ValueError", "a\nb"), "`n.ipynb` (`x = 1`)"),
        (("CellTimeoutError",), "`n.ipynb` (`x = 1`)"),
        (("DeadKernelError",), "`n.ipynb` (`x = 1`)"),
        ((), "`n.ipynb`"),
    ],
)
def test_a_notebook_that_does_not_run_is_told_with_its_cell(
    tmp_path: Path, monkeypatch: Any, capsys: Any, error: tuple[str, ...], said: str
) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    from tvmagic.page import main

    class Client:
        def __init__(self, content: Any, on_cell_execute: Any, **options: Any) -> None:
            self.content, self.begin = content, on_cell_execute

        def execute(self) -> None:
            self.begin(cell=self.content.cells[0], cell_index=0)
            raise getattr(nbclient.exceptions, error[0])(*error[1:])

    monkeypatch.setattr(nbclient, "NotebookClient", Client)
    language = {} if error else {"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}
    cells = [nbformat.v4.new_code_cell("\n x = 1\ny = 2")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=language), tmp_path / "n.ipynb")
    assert main([str(tmp_path / "n.ipynb"), "-o", str(tmp_path / "n.html")]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <script>alert(1)</script> b", "<p>a  b</p>"),
        ("a\n\n<script>alert(1)\n\nb", "<p>a</p>"),
        ("<style>p { color: red }</style>\n\na", "<p>a</p>"),
        ("<b onclick=alert(1)>a</b>", "<p><b>a</b></p>"),
        ("<iframe src=https://e.com></iframe><form action=x>a</form>", "a"),
        ("[a](javascript:alert%281%29)", "<p><a>a</a></p>"),
        ("<a href='java&#10;script:alert(1)'>a</a>", "<p><a>a</a></p>"),
        ("<a href='data:text/html,x'>a</a>", "<p><a>a</a></p>"),
        ("[a](https://e.com) [b](c.md#d:e)", '<p><a href="https://e.com">a</a> <a href="c.md#d:e">b</a></p>'),
        ("<img alt='1 > 0' src='https://e.com/x.png' onerror=alert(1)>", '<img alt="1 > 0">'),
        ("![a](//e.com/x.png)", '<p><img alt="a"></p>'),
        ("![a](data:image/png;base64,iVBO+/w==)", '<p><img alt="a" src="data:image/png;base64,iVBO+/w=="></p>'),
        ("<p style='text-align: center; background: url(https://e.com)'>a</p>", '<p style="text-align: center;">a</p>'),
        ("<details><summary>a</summary>b</details>", "<details><summary>a</summary>b</details>"),
        ("`<script>` is $\\foo <script>$", "<p><code>&lt;script&gt;</code> is $\\foo &lt;script&gt;$</p>"),
        ("![$x^2$](a) $5 and $6 `$x$`", '<p><img alt="$x^2$"> $5 and $6 <code>$x$</code></p>'),
        ('$"<$', '<p><math alttext="&quot;&lt;"><mrow><mi>"</mi><mo>&lt;</mo></mrow></math></p>'),
        ("${" + "{" * 999 + "$", "<p>${" + "{" * 999 + "$</p>"),
    ],
)
def test_markdown_neither_runs_nor_loads(tmp_path: Path, text: str, expected: str) -> None:
    """A page shows what a Markdown cell says; what JupyterLab leaves out, and pictures of the web, it leaves out."""
    pytest.importorskip("nbconvert")
    from tvmagic.notebook.markdown import markdown

    assert markdown(text, tmp_path).strip() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x^2 < y", "mrow(msup(mi:x mn:2) mo:< mi:y)"),
        (r"\frac{a}{b+1}", "mrow(mfrac(mrow(mi:a) mrow(mi:b mo:+ mn:1)))"),
        (r"\sum_k x_12'", "mrow(munder(mo:∑ mi:k) msub(mi:x mn:1) msup(mn:2 mi:′))"),
        (r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \\ \end{bmatrix}",
         "mrow(mo:[ mtable(mtr(mtd(mn:1) mtd(mn:2)) mtr(mtd(mn:3) mtd(mn:4))) mo:])"),
        (r"\begin{align*} a &= b \label{x} \end{align*}", "mrow(mtable(mtr(mtd(mi:a) mtd(mi() mo:= mi:b))))"),
        (r"\href{javascript:alert(1)}{x}\class{a}{b}", "mrow(mrow(mrow(mi:x)) mrow(mi:b))"),
        *((wrong, None) for wrong in (r"\foo", r"\left( x", "x_1_2", "x^", r"\begin{cases} 1 \end{matrix}", r"\sqrt[3", "\\")),
    ],
)  # fmt: skip
def test_formulas_are_mathml_or_stay_as_they_are_written(text: str, expected: str | None) -> None:
    pytest.importorskip("latex2mathml")
    from tvmagic.notebook.formulas import mathml

    def shape(element: Any) -> str:
        parts = " ".join(shape(part) for part in element)
        return f"{element.tag}:{element.text}" if element.text else f"{element.tag}({parts})"

    found = mathml(text, display=True)
    assert found is None or all(not {"href", "class"} & {*part.attrib} for part in found.iter())
    assert (found if found is None else shape(found[0])) == expected


# ---------------------------------------------------------------------------- all tutorials and kernels


def tutorial_operators() -> Iterator[tuple[str, Operator | Version]]:
    """The operators that the tutorials make, each with its last schedule."""
    import contextlib
    import io
    import os

    import nbformat
    from IPython.core.interactiveshell import InteractiveShell

    here = os.getcwd()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        InteractiveShell.clear_instance()
        shell = InteractiveShell.instance(colors="nocolor")
        os.chdir(path.parent)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                for cell in nbformat.read(path, as_version=4).cells:
                    if cell.cell_type == "code" and not cell.source.startswith(("%tune", "%bench", "%machine")):
                        shell.run_cell(cell.source)
        finally:
            os.chdir(here)
        for name, value in shell.user_ns.items():
            if isinstance(value, Operator) and not name.startswith("_"):
                yield f"{path.stem[:2]} {name}", value
        if path.stem.startswith("10"):  # it has no cell of ours, but TVM's own calls
            names = shell.user_ns
            yield "10 product", Version(Operator("product", [names["A"], names["B"]], [names["C"]]), names["s"])
    InteractiveShell.clear_instance()


def kernels() -> Iterator[tuple[str, Version]]:
    """The ten kernels of the benchmarks with their instant schedules for WebAssembly."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from kernels import KERNELS  # type: ignore[import-not-found]

    from tvmagic.tune import auto

    for kernel in KERNELS:
        tensors = (kernel.plain or kernel.build)(te)
        op = Operator(kernel.name.replace(" ", "_"), tensors[:-1], tensors[-1:])
        yield kernel.name, Version(op, auto(op, pages.TARGET), "auto")


def native(version: Version) -> str:
    """The time of a call on this machine, on one thread."""
    from tvmagic.notebook.view import format_seconds
    from tvmagic.operators.measure import measure

    inputs = version.operator.random_inputs(sizes=pages.SIZE)
    outputs = version(*inputs)
    return format_seconds(measure(lambda: version(*inputs, out=outputs), seconds=0.1).best)


@pytest.mark.soak
@pytest.mark.browser
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", [tutorial_operators, kernels], ids=["tutorials", "kernels"])
def test_all_tutorials_and_kernels_are_small_pages_that_agree(offline: Any, source: Any, tmp_path: Path) -> None:
    offline.set_default_timeout(300_000)
    rows = []
    for name, value in source():
        path = notebook.page(value, tmp_path / "x.html")
        assert path.stat().st_size < MOST_BYTES, name
        offline.goto(path.as_uri())
        offline.wait_for_function("document.querySelector('.tm-run:enabled')")
        offline.get_by_role("button", name="Run").click()
        assert said(offline).startswith("\u2713 equal to plain JavaScript"), f"{name}: {said(offline)}"
        version = value.current if isinstance(value, Operator) else value
        rows.append([name, f"{path.stat().st_size / 1000:.0f} kB", *times(offline), native(version)])
    print("\noperator | page | WebAssembly | JavaScript | this machine")
    print("\n".join(" | ".join(row) for row in rows))
    assert len(rows) >= 10
