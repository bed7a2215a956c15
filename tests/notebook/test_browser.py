"""The stepper in a real browser: by itself, in JupyterLab 4, in Notebook 7, and as a saved page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from sampling import every
from test_stepper import EVIL, long_record, small_record, unrolled_record
from tools import BROWSER, TOOLS, needs

from tvmagic import ascend
from tvmagic.notebook import display
from tvmagic.notebook.commands import passes
from tvmagic.notebook.html import page as whole_page
from tvmagic.notebook.html import view_html
from tvmagic.notebook.live import script
from tvmagic.notebook.stepper import packed_view
from tvmagic.notebook.style_sheets import style
from tvmagic.notebook.view import make_view
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.passes import Record, Step

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
DEFINE = "%load_ext tvmagic"
TENSOR = """%%tensor dense
X: float32[128, 256]
W: float32[64, 256]
b: float32[64]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)"""
SCHEDULE = """%%schedule dense --check
y, z = s[Y], s[Z]
io, jo, ii, ji = z.tile(*z.axis, 32, 32)
y.compute_at(z, jo)
z.vectorize(ji)"""
ALIVE = "from IPython.display import Markdown\nMarkdown('the kernel ' + 'lives')"  # the words are in the output alone


def in_chromium(reason: str) -> pytest.MarkDecorator:
    """What is not tested in Firefox, and why."""
    return pytest.mark.skipif(BROWSER == "firefox", reason=reason)


# ---------------------------------------------------------------------------- the stepper by itself


def show(page: Any, record: Record, after: str = "") -> Any:
    """A page with nothing but the stepper of a record and what is `after` it, in light colours."""
    page.set_content(
        f'<!DOCTYPE html><html lang="en"><title>t</title><body data-jp-theme-light="true"><main><div class="jp-Cell"><div id="at"></div></div>{after}</main>'
    )
    page.evaluate("code => { window.mount = new Function(code)().stepper; }", script("stepper"))
    page.evaluate(
        "data => { window.stepper = mount(document.getElementById('at'), data); }", packed_view(make_view(record))
    )
    return page.locator(".tm-stepper")


def dense_record() -> Record:
    op = operator("dense", TENSOR.split("\n", 1)[1])
    version = schedule(op, SCHEDULE.split("\n", 1)[1])
    return passes(version).record


def current(stepper: Any) -> str:
    label = stepper.locator('.tm-list [aria-selected="true"] .tm-label').text_content()  # also of what is scrolled away
    return label.split(" (")[0]


@pytest.fixture(scope="module")
def record() -> Record:
    return dense_record()


def test_keys_and_clicks_step(page: Any, record: Record, screenshot: Any) -> None:
    stepper = show(page, record)
    assert current(stepper).startswith("z.tile")
    stepper.locator(".tm-view").focus()
    for key, expected in [
        ("ArrowRight", "y.compute_at"),
        ("j", "z.vectorize"),
        ("k", "y.compute_at"),
        ("ArrowLeft", "z.tile"),
    ]:
        page.keyboard.press(key)
        assert current(stepper).startswith(expected)
    page.keyboard.press("End")
    assert current(stepper) == "codegen.assembly"
    assert stepper.get_by_role("button", name="Next").is_disabled()
    stepper.locator("li", has_text="te.InferBound").click()
    assert stepper.locator(".tm-notes li").inner_text().startswith("Y: 32 x 32 elements in each iteration of j.outer")
    assert stepper.locator(".tm-picture svg").is_visible() and not stepper.locator(".tm-notes table").first.is_visible()
    stepper.get_by_text("Phase 1").click()
    assert "case 2, Y is computed inside it" in stepper.locator(".tm-notes table").nth(1).inner_text()
    screenshot(stepper, "stepper_infer_bound")


@pytest.mark.parametrize("theme", every(2, ["light", "dark"]))
def test_words_are_explained_on_hover_and_beside_a_followed_line(
    page: Any, record: Record, theme: str, screenshot: Any
) -> None:
    stepper = show(page, record)
    page.evaluate(f"document.body.dataset.jpThemeLight = '{'true' if theme == 'light' else 'false'}'")
    stepper.locator(".tm-text span", has_text="ProducerRealize").first.hover()
    hint = stepper.locator(".tm-hint")
    hint.wait_for()
    assert hint.inner_text().startswith("ProducerRealize: room for the results of a stage")
    screenshot(stepper, f"glossary_{theme}")
    stepper.locator(".tm-title").hover()
    assert not hint.is_visible()
    stepper.locator(".tm-cell", has_text="T.ProducerRealize").last.click()
    assert "ProducerRealize: room for" in stepper.locator(".tm-follow").inner_text(), "also without a mouse"


def test_changes_are_walked_and_marked(page: Any, record: Record) -> None:
    stepper = show(page, record)
    stepper.locator(".tm-view").focus()
    page.keyboard.press("ArrowDown")
    at = stepper.locator(".tm-at")
    assert at.count() == 2 and "T.grid" in at.last.inner_text()
    assert at.first.locator("del").count() > 0 and at.last.locator("ins").count() > 0
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert "T.grid" in stepper.locator(".tm-at").last.inner_text()


def test_search_finds_the_first_pass_with_a_text(page: Any, record: Record, screenshot: Any) -> None:
    stepper = show(page, record)
    stepper.locator(".tm-view").focus()
    page.keyboard.press("/")
    page.keyboard.type("T.ramp(")
    status = stepper.locator(".tm-bar [role=status]")
    assert "first:" in status.inner_text() or status.inner_text() == "nowhere"
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("T.vectorized")
    assert "first: z.vectorize(ji)" in status.inner_text()
    page.keyboard.press("Enter")
    assert current(stepper).startswith("z.vectorize")
    assert stepper.locator("mark").count() > 0
    assert stepper.locator("li.tm-has").count() > 3
    screenshot(stepper, "stepper_search")


def test_a_line_is_followed_through_passes_and_to_the_cell(page: Any, record: Record, screenshot: Any) -> None:
    stepper = show(page, record)
    stepper.locator(".tm-cell.tm-right", has_text="T.max(").last.click()
    said = stepper.locator(".tm-follow").inner_text()
    assert "in " in said and "line 6" in said and "Z[i, j] = max" in said
    assert stepper.locator(".tm-cellsrc .tm-hit").count() == 1
    page.keyboard.press("ArrowRight")
    assert stepper.locator(".tm-view .tm-hit").count() >= 1
    assert stepper.locator("li.tm-has").count() > 10
    screenshot(stepper, "stepper_follow")
    stepper.locator("li", has_text="codegen.assembly").click()
    assert stepper.locator(".tm-view .tm-hit").count() >= 1, "the line is followed into the machine code"
    screenshot(stepper, "stepper_assembly")
    stepper.locator(".tm-view").focus()
    page.keyboard.press("Escape")
    assert stepper.locator(".tm-hit").count() == 0


def test_a_line_of_the_cell_lights_up_what_came_from_it(page: Any, record: Record) -> None:
    stepper = show(page, record)
    stepper.locator(".tm-cellsrc summary").click()
    stepper.locator(".tm-cellsrc .tm-row", has_text="Y[i, j] += X").click()
    assert stepper.locator(".tm-view .tm-hit").count() >= 1


def test_copies_are_followed_and_relatives_are_named_only_where_that_helps(page: Any, screenshot: Any) -> None:
    stepper = show(page, unrolled_record())
    hits, kin = stepper.locator(".tm-view .tm-right.tm-hit"), stepper.locator(".tm-view .tm-kin:not(.tm-hit)")
    stepper.locator("li", has_text="VectorizeLoop").click()
    stepper.locator(".tm-cell.tm-right", has_text="T.exp(").click()
    stepper.locator("li", has_text="UnrollLoop").click()
    assert hits.count() == 8 and stepper.locator(".tm-view .tm-hit").count() == 9, "the line and all its copies"
    screenshot(stepper, "stepper_copies")
    hits.nth(3).click()
    assert hits.count() == 1 and stepper.locator(".tm-view .tm-hit").count() == 2, "a copy and what it was made of"
    stepper.locator("li", has_text="codegen.llvm").click()
    page.wait_for_function(
        "() => document.querySelectorAll('.tm-view .tm-cell').length > 500"
    )  # the rest of a long step
    lines = stepper.locator(".tm-view .tm-cell").count()
    assert 0 < stepper.locator(".tm-view .tm-hit").count() < lines / 3, "one copy of eight"
    assert kin.count() == 0, "most lines come from this line of the cell, so that says nothing"


def test_data_of_an_earlier_version_are_read(page: Any, record: Record) -> None:
    """They have a thread for each line, and for each thread one parent or -1."""
    show(page, record)
    data = packed_view(make_view(record))
    del data["version"], data["groups"]
    data["parents"] = [-1, 0, len(data["parents"])]
    page.evaluate("data => mount(document.getElementById('at'), data)", data)
    stepper = page.locator(".tm-stepper").last
    stepper.locator(".tm-cell.tm-right", has_text="T.max(").last.click()
    assert stepper.locator("li.tm-has").count() > 3 and stepper.locator(".tm-view .tm-hit").count() >= 1


def test_a_line_of_the_schedule_leads_to_its_call(page: Any) -> None:
    stepper = show(page, unrolled_record())
    stepper.locator("li", has_text="codegen.llvm").click()
    stepper.locator(".tm-cellsrc summary").click()
    stepper.locator(".tm-cellsrc .tm-row", has_text=".unroll(i)").click()
    assert current(stepper) == "s[B].unroll(i)"
    assert "the call of step 3" in stepper.locator(".tm-follow").inner_text()


def test_a_call_marks_the_loops_that_it_made(page: Any) -> None:
    stepper = show(page, unrolled_record())
    stepper.locator(".tm-cellsrc summary").click()
    stepper.locator(".tm-cellsrc .tm-row", has_text=".split(").click()
    hits = stepper.locator(".tm-view .tm-right.tm-hit")
    assert hits.count() == 1 and "outer" in hits.first.inner_text(), "the loops of the split"
    stepper.locator("li", has_text="VectorizeLoop").click()
    assert stepper.locator(".tm-view .tm-hit").count() >= 1, "and what they became"


def test_a_line_of_the_cell_is_followed_by_the_keyboard(page: Any, record: Record) -> None:
    stepper = show(page, record)
    stepper.locator(".tm-cellsrc summary").click()
    stepper.locator(".tm-cellsrc .tm-scroll").last.focus()
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "tensor dense, line 5" in stepper.locator(".tm-follow").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "tensor dense, line 6" in stepper.locator(".tm-follow").inner_text(), "the place in the cell is kept"
    page.keyboard.press("Escape")
    assert stepper.locator(".tm-hit").count() == 0


def test_what_is_found_in_a_changed_word_is_one_mark(page: Any, record: Record) -> None:
    stepper = show(page, record)
    stepper.locator("li", has_text="VectorizeLoop").click()
    stepper.locator("input[type=search]").fill("T.Broadcast(T")
    marks = stepper.locator("mark")
    marks.filter(
        has_text=re.compile(r"^T\.Broadcast\(T$")
    ).wait_for()  # visible; the step is drawn a moment after the click
    assert marks.count() == 1 and marks.locator("ins").count() == 1


def test_two_columns_where_there_is_room_until_the_user_chooses(page: Any, record: Record) -> None:
    stepper = show(page, record)
    page.set_viewport_size({"width": 900, "height": 800})
    stepper.locator(".tm-stacked").wait_for()
    page.set_viewport_size({"width": 1280, "height": 800})
    stepper.locator(".tm-side").wait_for()
    stepper.get_by_role("button", name="Side by side").click()
    page.set_viewport_size({"width": 1300, "height": 800})
    page.wait_for_timeout(200)
    assert stepper.locator(".tm-stacked").count() == 1


def test_the_bar_is_one_line_in_a_narrow_cell(page: Any, record: Record, screenshot: Any) -> None:
    stepper = show(page, record)
    page.set_viewport_size({"width": 716, "height": 800})  # the stepper is as wide as in JupyterLab at 900 px
    stepper.locator(".tm-stacked").wait_for()
    bar = stepper.locator(".tm-bar")
    tops = bar.evaluate(
        "b => [...b.querySelectorAll('button, input')].map(e => Math.round(e.getBoundingClientRect().top))"
    )
    assert max(tops) - min(tops) <= 2
    room = bar.locator("input").evaluate(
        "e => { const c = document.createElement('canvas').getContext('2d'); c.font = getComputedStyle(e).font;"
        " return e.clientWidth - c.measureText(e.placeholder).width; }"
    )
    assert room > 20, "all of what the search field says is seen"
    screenshot(stepper, "narrow")


def test_unchanged_parts_fold_and_unfold(page: Any, record: Record) -> None:
    stepper = show(page, record)
    fold = stepper.locator(".tm-foldrow button").first
    before = stepper.locator(".tm-cell").count()
    assert "unchanged lines" in fold.inner_text()
    fold.click()
    assert stepper.locator(".tm-cell").count() > before
    stepper.locator(".tm-view").focus()
    page.keyboard.press("f")
    assert stepper.locator(".tm-foldrow").count() == 0


def test_passes_that_changed_nothing_are_dimmed_or_hidden(page: Any, record: Record) -> None:
    stepper = show(page, record)
    items = stepper.locator(".tm-list li")
    every, dim = items.count(), stepper.locator("li.tm-noop").count()
    assert dim > 5
    stepper.get_by_role("button", name="Hide no-ops").click()
    assert items.count() == every - dim


def test_one_column_or_two(page: Any, record: Record) -> None:
    stepper = show(page, record)
    assert stepper.locator(".tm-side").count() == 1
    stepper.get_by_role("button", name="Side by side").click()
    assert stepper.locator(".tm-side").count() == 0
    assert stepper.locator(".tm-cell.tm-removed").count() > 0


STEPPING = """async () => {
    const view = document.querySelector('.tm-view');
    const [times, cells] = [[], []];
    for (let i = 0; i < 20; i++) {
        const t = performance.now();
        view.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
        view.getBoundingClientRect();
        times.push(performance.now() - t);
        cells.push(view.querySelectorAll('.tm-cell').length);
    }
    return [times.sort((a, b) => a - b)[5], Math.max(...cells)];
}"""


def test_a_long_record_opens_and_steps_quickly(page: Any) -> None:
    record = long_record()
    stepper = show(page, record)
    data = packed_view(make_view(record))
    opening = page.evaluate(
        "data => { const t = performance.now(); mount(document.getElementById('at'), data); return performance.now() - t; }",
        data,
    )
    assert opening < 1000
    stepper.locator(".tm-view").focus()
    for unfolded in (False, True):
        milliseconds, cells = page.evaluate(STEPPING)
        assert milliseconds < 50, "5 ms folded and 10 ms unfolded on an idle machine"
        assert cells <= 56, "a step waits for the lines that are seen, in two columns of 28, and for no others"
        if not unfolded:
            page.keyboard.press("f")
    assert current(stepper) == "Pass40"
    page.wait_for_function("() => document.querySelectorAll('.tm-view .tm-cell').length > 1000")
    page.locator(".tm-cell.tm-right:not(.tm-blank)").last.click()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(200)
        hit = page.evaluate("() => document.querySelector('.tm-hit').getBoundingClientRect().top")
        box = stepper.locator(".tm-view").bounding_box()
        assert box["y"] < hit < box["y"] + box["height"], "the followed line stays in sight while the rest is filled in"


def test_other_data_keep_the_step_and_how_it_is_shown(page: Any, record: Record) -> None:
    stepper = show(page, record)
    stepper.locator("li", has_text="te.InferBound").click()
    stepper.get_by_role("button", name="Side by side").click()
    stepper.locator("input[type=search]").fill("T.max")
    renewed = "data => { window.stepper = mount(document.getElementById('at'), data); }"
    page.evaluate(renewed, packed_view(make_view(dense_record())))
    assert current(stepper) == "te.InferBound" and stepper.locator(".tm-side").count() == 0
    assert stepper.locator("li.tm-has").count() > 3
    page.evaluate(renewed, packed_view(make_view(Record([], "dense"))))
    assert stepper.inner_text() == "No pass has run."
    page.evaluate(renewed, packed_view(make_view(small_record())))
    assert current(stepper) == "split" and stepper.locator(".tm-side").count() == 0, "the call that failed"


def test_names_of_users_are_text_in_the_stepper(page: Any) -> None:
    alerts: list[str] = []
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    record = small_record(EVIL)
    record.sources[EVIL] = EVIL
    record.steps[1].after += f"\n# {EVIL}"
    record.steps[1].name = EVIL
    record.steps[1].notes[0].text = EVIL
    record.steps[0].notes[0].facts = {EVIL: EVIL}
    stepper = show(page, record)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    stepper.locator("li", has_text="<img").first.click()
    assert page.locator("img").count() == 0
    page.set_content(whole_page(view_html(make_view(record)), EVIL))
    assert page.locator("img").count() == 0
    page.wait_for_timeout(200)
    assert alerts == []


@pytest.mark.parametrize("width", every(2, [900, 1600]))
def test_a_failed_schedule_opens_at_the_call(page: Any, axe: str, width: int, screenshot: Any) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    stepper = show(page, small_record())
    assert current(stepper) == "split"
    assert "no loop z" in stepper.get_by_role("alert").inner_text()
    assert "failed" in stepper.locator(".tm-head").inner_text()
    assert stepper.locator(".tm-list .tm-failed").count() == 1 and stepper.locator(".tm-cell.tm-added").count() == 0
    assert violations(page, axe) == []
    screenshot(stepper, f"failed_{width}")


@pytest.mark.parametrize("width", every(2, [1600, 900]))
def test_one_step_is_a_plain_comparison_and_long_lines_go_on(page: Any, axe: str, width: int, screenshot: Any) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    record = small_record()
    long = f"    for j in range(8):  # {'long ' * 60}"
    step = Step(
        "Parallelize", "pass", str(record.steps[1].before), str(record.steps[1].after).replace("    for j", long), 0.1
    )
    stepper = show(page, Record([step], "one"))
    assert stepper.locator(".tm-list, .tm-bar, .tm-help").count() == 0, "nothing to step through"
    assert stepper.locator(".tm-side").count() == 1, "there is room, as there is no list"
    if width == 900:
        stepper.locator(".tm-view").focus()
        page.keyboard.press("s")
    view = stepper.locator(".tm-view")
    assert view.evaluate("e => e.scrollWidth <= e.clientWidth"), "no line is cut"
    assert stepper.get_by_role("button", name="Copy diff").is_enabled()
    assert violations(page, axe) == []
    screenshot(stepper, f"single_{width}")


# ---------------------------------------------------------------------------- what is taken out of the page


OTHERS = (
    '<div class="tvmagic"><style>{}</style><table class="tm-table"><tbody><tr><td>1</td></tr></tbody></table></div>'
)


def colours(locator: Any) -> str:
    return locator.evaluate("e => getComputedStyle(e).backgroundColor")


@pytest.mark.parametrize("theme", every(2, ["dark", "light"]))
def test_a_followed_line_is_marked_in_changed_lines_beside_other_outputs(page: Any, record: Record, theme: str) -> None:
    stepper = show(page, record, OTHERS.format(style()) * 2)
    page.evaluate(f"document.body.dataset.jpThemeLight = '{'true' if theme == 'light' else 'false'}'")
    stepper.locator(".tm-cell.tm-added", has_text="T.max(").last.click()
    hit = stepper.locator(".tm-cell.tm-added.tm-hit").last
    assert colours(hit) == {"light": "rgb(255, 241, 168)", "dark": "rgb(75, 63, 0)"}[theme]
    assert colours(hit) != colours(stepper.locator(".tm-cell.tm-added:not(.tm-hit)").first)
    assert stepper.evaluate("e => getComputedStyle(e.querySelector('.tm-list')).listStyleType") == "none"


def clipboard(page: Any) -> str:
    return page.evaluate("navigator.clipboard.readText()")


@pytest.fixture
def served(page: Any) -> Any:
    """A page with an address, so that it has a clipboard and a place to store preferences."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.route("http://localhost/**", lambda route: route.fulfill(body="<title>t</title>", content_type="text/html"))
    page.goto("http://localhost/")
    return page


@needs("patch")
def test_programs_and_diffs_are_copied(served: Any, record: Record, tmp_path: Path) -> None:
    stepper = show(served, record)
    view = make_view(record)
    before, after = (view.text_lines(n) for n in (view.steps[0].before, view.steps[0].after))
    for name, lines in (("Copy before", before), ("Copy after", after)):
        stepper.get_by_role("button", name=name).click()
        assert clipboard(served).split("\n") == lines
    assert "copied" in stepper.locator(".tm-tools [role=status]").inner_text()
    stepper.get_by_role("button", name="Copy diff").click()
    (tmp_path / "program").write_text("\n".join(before) + "\n")
    subprocess.run(
        [TOOLS["patch"].need(), "program"],
        input=clipboard(served),
        text=True,
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "program").read_text() == "\n".join(after) + "\n", "`patch` reads the diff"


@in_chromium("Playwright does not hear of Firefox's downloads")
def test_a_program_is_saved(served: Any, record: Record) -> None:
    stepper = show(served, record)
    view = make_view(record)
    with served.expect_download() as saved_file:
        stepper.get_by_role("button", name="Download").click()
    assert saved_file.value.suggested_filename == "dense-1-z.tile_z.axis_32_32_.py"
    assert Path(saved_file.value.path()).read_text() == "\n".join(view.text_lines(view.steps[0].after)) + "\n"


def test_a_selection_is_copied_by_columns_or_with_signs(served: Any, record: Record) -> None:
    stepper = show(served, record)
    select = """([first, last]) => {
        const cells = [...document.querySelectorAll('.tm-cell[data-line]')];
        document.getSelection().setBaseAndExtent(cells.at(first).querySelector('.tm-text').firstChild, 0, cells.at(last).lastChild, 1);
    }"""
    after = make_view(record).text_lines(make_view(record).steps[0].after)
    served.evaluate(select, [1, -1])
    served.keyboard.press("Control+c")
    assert clipboard(served).split("\n") == after[3:], "the column in which it began, without what is folded"
    stepper.get_by_role("button", name="Side by side").click()
    served.evaluate(select, [0, -1])
    served.keyboard.press("Control+c")
    lines = clipboard(served).split("\n")
    assert [line[0] for line in lines] == [" ", " ", " ", "-", "+", "-", "+"] and lines[3][
        2:
    ] == "        for i, j in T.grid(128, 64):"


def test_a_step_has_an_address(served: Any, record: Record) -> None:
    stepper = show(served, record)
    stepper.locator("li", has_text="tir.VectorizeLoop").click()
    stepper.locator(".tm-view").focus()
    served.keyboard.press("ArrowDown")
    stepper.get_by_role("button", name="Link").click()
    address = clipboard(served)
    assert re.fullmatch(r"http://localhost/#step=\d+&line=\d+&in=[0-9a-f]{6}", address)
    stepper.locator("li").first.click()
    served.evaluate("a => { location.hash = new URL(a).hash; }", address)
    served.wait_for_function(
        "() => document.querySelector('.tm-list [aria-selected=true]').textContent.includes('VectorizeLoop')"
    )
    line = stepper.locator(".tm-at.tm-right .tm-no").inner_text().strip()
    assert f"&line={line}&" in address
    served.evaluate("location.hash = '#step=2&in=000000'")
    served.wait_for_timeout(100)
    assert current(stepper) == "tir.VectorizeLoop", "the address of another stepper"
    served.evaluate("location.hash = '#step=2'")
    served.wait_for_function("() => document.querySelector('.tm-list [aria-selected=true]').textContent.includes('at')")
    assert current(stepper).startswith("y.compute_at"), "without `in`, the first stepper is meant"
    stepper.get_by_role("button", name="Next").click()
    served.evaluate("data => mount(document.getElementById('at'), data)", packed_view(make_view(dense_record())))
    assert current(stepper).startswith("z.vectorize"), "a cell that runs again goes on at its step"


def test_an_address_names_a_step_in_each_notebook_of_a_page(served: Any, record: Record) -> None:
    """JupyterLab opens the notebooks of the last time as well, maybe before that of the address."""
    served.goto("http://localhost/#step=2")
    show(served, record, '<div class="jp-Notebook"><div id="b"></div><div id="c"></div></div>')
    data = packed_view(make_view(dense_record()))
    small = packed_view(make_view(small_record()))
    served.evaluate(
        "([b, c]) => { mount(document.getElementById('b'), b); mount(document.getElementById('c'), c); }", [small, data]
    )
    steppers = served.locator(".tm-stepper")
    assert current(steppers.nth(0)).startswith("y.compute_at")
    assert current(steppers.nth(1)) == make_view(small_record()).steps[1].name.split(" (")[0]
    assert current(steppers.nth(2)).startswith("z.tile"), "not the first of its notebook"


def test_the_stepper_is_as_large_as_the_window(page: Any, record: Record, screenshot: Any) -> None:
    stepper = show(page, record)
    stepper.locator(".tm-view").focus()
    page.keyboard.press("m")
    box = page.locator("dialog .tm-stepper").bounding_box()
    assert box["width"] > 1240 and page.locator("dialog").bounding_box()["height"] == 1000
    page.keyboard.press("ArrowRight")
    assert current(stepper).startswith("y.compute_at"), "the keys work there, too"
    screenshot(page, "maximised")
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert page.locator("#at .tm-stepper").count() == 1
    assert page.evaluate("document.activeElement.className").startswith("tm-view")


@in_chromium("Playwright does not make Firefox show what it would print")
def test_a_printed_step_is_whole(page: Any, record: Record, screenshot: Any) -> None:
    """On paper nothing is left out that one would scroll to, and there is nothing to press."""
    stepper = show(page, record)
    stepper.locator("li", has_text="codegen.assembly").click()
    page.emulate_media(media="print")
    sizes = "nodes => nodes.map(n => [n.scrollHeight - n.clientHeight, n.scrollWidth - n.clientWidth])"
    assert stepper.locator(".tm-view, .tm-list").evaluate_all(sizes) == [[0, 0], [0, 0]]
    assert not stepper.locator("button:visible").count() or stepper.locator(".tm-foldrow button:visible").count()
    assert not stepper.locator(".tm-bar").is_visible() and not stepper.locator(".tm-tools").is_visible()
    screenshot(stepper, "printed")
    page.emulate_media(media="screen")
    assert stepper.locator(".tm-bar").is_visible()


def test_preferences_hold_for_all_steppers_and_a_step_for_its_cell(served: Any, record: Record) -> None:
    stepper = show(served, record)
    stepper.get_by_role("button", name="Hide no-ops").click()
    stepper.get_by_role("button", name="Fold unchanged").click()
    stepper.locator("li", has_text="tir.StorageFlatten").click()
    served.evaluate("data => mount(document.getElementById('at'), data)", packed_view(make_view(dense_record())))
    assert current(stepper) == "tir.StorageFlatten", "the same cell goes on at its step"
    stepper = show(served, small_record())
    pressed = {b.inner_text(): b.get_attribute("aria-pressed") for b in stepper.locator(".tm-bar [aria-pressed]").all()}
    assert pressed == {"Side by side": "true", "Fold unchanged": "false", "Hide no-ops": "true"}, "another cell"
    assert current(stepper) == "split"


@pytest.mark.parametrize("width", every(2, [900, 1600]))
def test_two_schedules_are_in_one_stepper_at_the_same_pass(page: Any, axe: str, width: int, screenshot: Any) -> None:
    from tvmagic.notebook.version_comparison import side_by_side

    page.set_viewport_size({"width": width, "height": 800})
    op = operator("dense", TENSOR.split("\n", 1)[1])
    versions = [
        schedule(op, SCHEDULE.split("\n", 1)[1].replace("32, 32", size), name)
        for size, name in (("32, 32", "V1"), ("8, 64", "V2"))
    ]
    stepper = show(page, side_by_side(*versions))
    heads = stepper.locator(".tm-colhead").all_inner_texts()
    assert heads == (["dense:V1", "dense:V2"] if width == 1600 else ["dense:V1 (\u2212) and dense:V2 (+)"])
    stepper.locator("li", has_text="tir.VectorizeLoop").click()
    assert "of dense:V1 alone" in stepper.locator(".tm-head").inner_text()
    assert stepper.get_by_role("button", name="Copy dense:V2").is_enabled()
    assert "T.grid(4, 2)" in stepper.inner_text() and re.search(r"i_outer.*16", stepper.inner_text())
    assert violations(page, axe) == []
    screenshot(stepper, f"compare_{width}")


@pytest.mark.parametrize("theme", every(2, ["dark", "light"]))
def test_outputs_of_an_old_definition_are_marked(
    page: Any, shell: Any, axe: str, theme: str, monkeypatch: pytest.MonkeyPatch, screenshot: Any
) -> None:
    """Without a kernel: the output of the `%%tensor` cell knows its definition, and so do all others."""
    from tvmagic.notebook.display import operator_view

    monkeypatch.setattr(shell, "kernel", object(), raising=False)

    def html(shown: Any) -> str:
        return shown._repr_mimebundle_()["text/html"]

    def defined(text: str) -> str:
        shell.run_cell_magic("tensor", "f -q", text)
        return html(operator_view(shell.user_ns["f"]))

    old = defined("A: float32[8]\nB[i] = A[i] + 1.0")
    others = html(shell.run_line_magic("passes", "f")), html(shell.run_line_magic("bounds", "f"))
    new = defined("A: float32[8]\nB[i] = A[i] + 2.0")
    assert html(shell.run_line_magic("bounds", "f")) != others[1]
    frame = f'<!DOCTYPE html><html lang="en"><title>t</title><body data-jp-theme-light="{str(theme == "light").lower()}"><main>'
    page.set_content(f'{frame}<div id="cell">{old}</div>{"".join(others)}')
    page.locator(".tm-stepper").wait_for()
    marks = page.locator(".tm-stale")
    put = """html => document.getElementById('cell').replaceChildren(document.createRange().createContextualFragment(html))"""
    page.wait_for_timeout(300)
    assert marks.count() == 0
    page.evaluate(put, new)
    page.wait_for_function("() => document.querySelectorAll('.tm-stale').length === 2")
    assert marks.first.inner_text() == "Out of date: f was defined again since. Run this cell again."
    page.evaluate(
        "document.body.style.background = getComputedStyle(document.querySelector('.tvmagic')).backgroundColor"
    )
    assert violations(page, axe) == []
    screenshot(page, f"stale_{theme}")
    page.evaluate(put, old)
    page.wait_for_function("() => document.querySelectorAll('.tm-stale').length === 0")


# ---------------------------------------------------------------------------- accessibility


def violations(page: Any, axe: str, of: str = "body") -> list[str]:
    """What axe-core finds serious in what `of` selects."""
    page.evaluate(axe)
    found = page.evaluate(
        "async of => (await axe.run(of)).violations.filter(v => ['serious', 'critical'].includes(v.impact))", of
    )
    return [f"{v['id']}: {[(n['html'][:160], n['failureSummary'][-300:]) for n in v['nodes'][:3]]}" for v in found]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_live_stepper(
    page: Any, record: Record, axe: str, theme: str, screenshot: Any
) -> None:
    stepper = show(page, record)
    page.evaluate(f"document.body.dataset.jpThemeLight = '{'true' if theme == 'light' else 'false'}'")
    page.evaluate(
        "document.body.style.background = getComputedStyle(document.querySelector('.tvmagic')).backgroundColor"
    )
    stepper.locator(".tm-cell.tm-right", has_text="T.max(").last.click()
    stepper.locator("input[type=search]").fill("max")
    assert violations(page, axe) == []
    screenshot(stepper, f"stepper_{theme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_static_page(browser: Any, record: Record, axe: str, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    body = view_html(make_view(record)).replace("<details", "<details open")
    page.set_content(whole_page(body, "Passes"))
    assert violations(page, axe) == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_tiles_of_an_npu(browser: Any, axe: str, scheme: str, screenshot: Any) -> None:
    """And nothing of the picture reaches out of it: no text is cut off."""
    graph = ascend.AscGraph("softmax")
    z1 = [graph.create_axis("z0", 4096), graph.create_axis("z1", 1024)][1]
    x = ascend.ops.Load(ascend.ops.Data(graph, "x"))
    ascend.ops.Output(ascend.ops.Store(ascend.ops.Sub(x, ascend.ops.Broadcast(ascend.ops.Max(x, z1), z1))), "y")
    tiling = ascend.auto_tiling(ascend.auto_schedule(graph), machine="atlas_a2")
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.set_content(whole_page(display.shown(tiling).html(), "Tiles"))
    page.evaluate(
        "document.body.style.background = getComputedStyle(document.querySelector('.tvmagic')).backgroundColor"
    )
    assert violations(page, axe) == []
    out = page.evaluate(
        "() => [...document.querySelectorAll('svg')].flatMap(s => [...s.querySelectorAll('text')].filter(t => {"
        " const a = s.getBoundingClientRect(), b = t.getBoundingClientRect();"
        " return b.left < a.left - 1 || b.right > a.right + 1 || b.bottom > a.bottom + 1; }).map(t => t.textContent))"
    )
    assert out == []
    screenshot(page.locator("svg").first, f"tiles_{scheme}")
    context.close()


# ---------------------------------------------------------------------------- in JupyterLab and Notebook


def notebook(folder: Path, name: str, *cells: str) -> str:
    made = nbformat.v4.new_notebook()
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made.cells = [nbformat.v4.new_code_cell(c) for c in cells]
    nbformat.write(made, folder / name)
    return name


def playwright_timeout() -> type[Exception]:
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    return PlaywrightTimeout


# Run before its kernel is known, a notebook asks which one it shall have, in a dialog over everything.
KERNEL_IS_READY = """() => {
    const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
    return context?.isReady && context.session?.kernel?.status === "idle";
}"""


def run_all(page: Any, address: str) -> Any:
    """Open a notebook, run all its cells, and give the stepper that appears."""
    page.goto(address, wait_until="domcontentloaded")
    page.wait_for_selector(".jp-Notebook .jp-Cell .cm-content", timeout=90_000)
    page.wait_for_function(KERNEL_IS_READY, timeout=90_000)
    begun = page.locator(".jp-InputPrompt").filter(has_text=re.compile(r"[*0-9]"))
    for _ in range(5):  # on a busy machine the menu may be there before what it does
        page.click(".jp-Notebook .jp-Cell .cm-content >> nth=0")
        page.keyboard.press("Escape")
        page.click(".lm-MenuBar-item:has-text('Run')")
        page.click('[data-command="runmenu:run-all"]')
        try:
            begun.first.wait_for(timeout=20_000)
            break
        except playwright_timeout():
            continue
    stepper = page.locator(".tm-stepper").first
    # JupyterLab hides cells that are scrolled out of view, so wait until they are there, not seen
    stepper.wait_for(state="attached", timeout=120_000)
    page.get_by_text("the kernel lives").first.wait_for(state="attached", timeout=60_000)
    page.evaluate(
        "document.querySelector('.tm-stepper').scrollIntoView()"
    )  # at once: a playground puts a new one there
    return stepper


PLAY = SCHEDULE.replace("dense --check", "dense --play").replace("32, 32)", "knob(32, [8, 16, 32], 'rows'), 32)")
PLAYED = PLAY.replace("dense --play", "dense --play --name played")


def outermost(page: Any) -> Any:
    """The stepper of the third cell, scrolled into view; JupyterLab takes cells out of the page that are far from it."""
    page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
    stepper = page.locator(".tm-stepper:not(.tm-playground .tm-stepper, .tm-edit .tm-stepper)")
    stepper.scroll_into_view_if_needed()
    return stepper


@pytest.fixture(scope="module")
def lab_page(lab: Any, jupyters_files: Any) -> Any:
    """A page with JupyterLab in which a notebook with all that is live has run; several tests go on in it."""
    page = jupyters_files.new_page()
    page.set_default_timeout(30_000)
    notebook(lab.folder, "one.ipynb", DEFINE, TENSOR, SCHEDULE, PLAYED, "%graph dense -k access -s Z", ALIVE)
    run_all(page, lab.url("lab/tree/one.ipynb"))
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    shutil.copy(lab.folder / "one.ipynb", lab.folder / "saved.ipynb")
    yield page
    page.close()


def test_the_playground_and_the_player_are_alive_in_jupyterlab(lab_page: Any, screenshot: Any) -> None:
    page = lab_page
    page.evaluate("document.querySelector('.tm-playground').scrollIntoView()")
    slider = page.get_by_label("rows", exact=True)
    slider.wait_for()
    text = page.locator(".tm-playground .tm-view").inner_text()
    page.wait_for_function("() => !document.querySelector('.tm-knob input').disabled")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("before => document.querySelector('.tm-playground .tm-view').innerText !== before", arg=text)
    screenshot(page, "playground")
    player = page.locator(".tm-player:not(.tm-playground)")
    player.scroll_into_view_if_needed()
    player.get_by_role("button", name="One access on").click()
    assert player.locator(".tm-status").inner_text().startswith("1 of")
    assert player.locator(".tm-now code").inner_text().startswith("Z[")
    player.get_by_role("button", name="Play").click()
    page.wait_for_function("() => parseInt(document.querySelector('.tm-player .tm-status').textContent) > 5")
    player.get_by_role("button", name="Pause").click()
    screenshot(player, "player")


def test_the_player_is_drawn_again_in_the_colours_of_another_theme(page: Any) -> None:
    grid = {"name": "A", "rows": 4, "columns": 4, "shape": [4, 4], "axes": ["i", "j"]}
    data = {
        "title": "f", "grids": [grid], "writes": "w", "which": [0], "indices": [[1, 2]], "spots": [1, 2],
        "statements": [], "statement": [], "loops": [[]], "complete": True, "theme": "auto",
    }  # fmt: skip
    page.set_content('<!DOCTYPE html><title>t</title><body data-jp-theme-light="true"><div id="at"></div>')
    page.add_style_tag(content=style())
    page.evaluate(
        "([code, data]) => new Function(code)().player(document.getElementById('at'), data)", [script("player"), data]
    )
    drawn = "() => document.querySelector('canvas').toDataURL()"
    light = page.evaluate(drawn)
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_function(f"light => ({drawn})() !== light", arg=light)
    dark = page.evaluate(drawn)
    page.get_by_role("button", name="One access on").click()
    page.get_by_role("button", name="One access back").click()
    assert page.evaluate(drawn) == dark, "as it is drawn there from the beginning"
    corner = "() => document.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1).data[3]"
    assert page.evaluate(corner) == 0, "the ground is the page's"


TILED = SCHEDULE.rpartition("\n")[0]


def write(page: Any, cell: Any, text: str) -> None:
    """Replace the text of a cell. Outside of its editor keys are commands: letters would delete, copy and paste cells."""
    cell.locator(".cm-content").click()
    page.locator(".jp-Notebook.jp-mod-editMode").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def completed_and_explained(page: Any, screenshot: Any, name: str) -> None:
    """Write the beginning of a schedule into the last cell, and see what Tab and Shift+Tab show."""
    last = page.locator(".jp-Notebook .jp-CodeCell").last
    write(page, last, TILED + "\nz.vec")
    page.keyboard.press("Tab")
    items = page.locator(".jp-Completer .jp-Completer-item")
    items.first.wait_for()
    assert [item.split("\n")[1] for item in items.all_inner_texts()] == ["vectorize"]
    page.keyboard.press("Enter")
    items.first.wait_for(state="hidden")
    page.keyboard.insert_text("(")
    page.keyboard.press("Tab")
    items.first.wait_for()
    assert [item.split("\n")[1] for item in items.all_inner_texts()[:4]] == ["io", "jo", "ii", "ji"]
    screenshot(page, f"completion_{name}")
    page.keyboard.press("Escape")
    items.first.wait_for(state="hidden")
    last.locator(".cm-content").focus()  # in JupyterLab 4.2 Escape leaves the cell as well
    page.keyboard.press("Shift+Tab")
    page.get_by_text("Run the loop's iterations as one vector operation.").wait_for()
    assert "s[D].vectorize(ji)" in page.locator(".jp-Tooltip").inner_text()
    screenshot(page, f"tooltip_{name}")
    page.keyboard.press("Escape")
    page.locator(".jp-Tooltip").wait_for(state="detached")
    write(page, last, ALIVE)
    page.keyboard.press("Escape")


def test_cells_are_completed_and_explained_in_jupyterlab(lab_page: Any, screenshot: Any) -> None:
    completed_and_explained(lab_page, screenshot, "lab")


@pytest.mark.parametrize(("theme", "width"), every(2, [("dark", 1600), ("light", 900)]))
def test_a_program_is_edited_in_place(lab_page: Any, axe: str, theme: str, width: int, screenshot: Any) -> None:
    page = lab_page
    page.set_viewport_size({"width": width, "height": 1000})
    page.evaluate(f"document.body.dataset.jpThemeLight = '{str(theme == 'light').lower()}'")
    stepper = outermost(page)
    page.wait_for_function(
        "() => [...(globalThis.tvmagicModels?.keys() ?? [])].some(k => k.startsWith('tvmagic-editor'))"
    )
    stepper.locator("li", has_text="te.InferBound").first.click()
    assert stepper.get_by_role("button", name="Edit", exact=True).first.is_hidden(), "its sets are not a program"
    stepper.locator("li", has_text="tir.UnrollLoop").first.click()
    stepper.get_by_role("button", name="Edit", exact=True).click()
    area = stepper.get_by_label("Program after tir.UnrollLoop")
    area.wait_for()
    text = area.input_value()
    area.fill(text.replace("range(256)", "rnage(256)"))
    stepper.get_by_role("button", name="Run the passes that are left").click()
    stepper.get_by_text("the name `rnage` is not defined").wait_for()
    area.fill(text.replace("range(256)", "T.unroll(256)"))
    page.keyboard.press("Control+Enter")
    stepper.get_by_text("dense (edited): \u2713 equal to NumPy").wait_for()
    stepper.get_by_text("The timelines diverge at").wait_for()
    assert stepper.locator(".tm-stepper").count() == 2
    page.evaluate(
        "document.body.style.background = getComputedStyle(document.querySelector('.tvmagic')).backgroundColor"
    )
    assert violations(page, axe, ".tm-edit") == []
    screenshot(stepper, f"edit_{theme}_{width}")
    area.fill(text.replace("T.float32(0.0)", "T.float32(1.0)", 1))
    page.keyboard.press("Control+Enter")
    stepper.get_by_text("dense (edited): \u2715 NOT equal to NumPy").wait_for()
    stepper.get_by_role("button", name="Close").click()
    assert stepper.locator(".tm-edit").is_hidden() and stepper.locator(".tm-view").first.is_visible()
    page.set_viewport_size({"width": 1280, "height": 1000})


def test_an_edit_that_no_kernel_answers_says_so(page: Any, record: Record) -> None:
    page.clock.install()
    stepper = show(page, record)
    page.evaluate("""() => {
        const model = { on(_, told) { this.told = told; }, send(asked) { if (asked.step === undefined) this.told({ key: asked.key, steps: [0] }); } };
        globalThis.tvmagicModels = new Map([["tvmagic-editor", model]]);
        dispatchEvent(new CustomEvent("tvmagic-model"));
    }""")
    stepper.get_by_role("button", name="Edit", exact=True).click()
    said = stepper.locator(".tm-tools [role=status]").first
    assert said.inner_text() == ""
    page.clock.fast_forward(4000)
    assert said.inner_text().startswith("The kernel does not answer")


def test_each_stepper_is_edited_by_the_kernel_that_knows_it(page: Any, record: Record) -> None:
    """A page of JupyterLab may have two notebooks, each with a kernel; one that is restarted has a model more."""
    stepper = show(page, record)
    page.evaluate("""key => {
        const made = (number, steps) => ({
            heard: [], on(_, told) { this.told = told; },
            send(asked) { this.heard.push(asked); this.told(asked.step === undefined ? { key: asked.key, steps } : { key: asked.key, step: asked.step, text: `of kernel ${number}` }); },
        });
        const ended = { on() {}, send() { throw new Error("Cannot send"); } };
        window.kernels = [made(0, []), made(1, [0, 1, 2]), made(2, [])];
        globalThis.tvmagicModels = new Map([["tvmagic-editor-ended", ended]]);
        kernels.forEach((model, n) => { tvmagicModels.set(`tvmagic-editor-${n}`, model); dispatchEvent(new CustomEvent("tvmagic-model")); });
    }""")
    stepper.get_by_role("button", name="Edit", exact=True).click()
    assert stepper.locator(".tm-edit textarea").input_value() == "of kernel 1"
    assert page.evaluate("kernels.map(model => model.heard.length)") == [1, 2, 1]
    page.evaluate("data => mount(document.getElementById('at'), data)", packed_view(make_view(dense_record())))
    assert page.locator("#at .tm-stepper").count() == 1, "live also if the kernel of an earlier run has ended"


def test_everything_in_jupyterlab_also_after_the_kernel_has_stopped(lab: Any, lab_page: Any, screenshot: Any) -> None:
    page = lab_page
    stepper = outermost(page)
    assert stepper.locator(".tm-side").count() == 0, "there is no room for two columns beside the list of files"
    page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
    stepper.locator(".tm-side").wait_for()
    stepper.locator("li", has_text="y.compute_at").click()
    screenshot(page, "lab")
    stepper.locator("li", has_text="z.tile").click()
    assert page.get_by_text("equal to NumPy").count() >= 1
    stepper.locator(".tm-view").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("j")
    assert current(stepper).startswith("z.vectorize"), "the keys are the stepper's, not the notebook's"
    stepper.get_by_role("button", name="Previous").click()
    assert current(stepper).startswith("y.compute_at")
    page.evaluate("delete document.body.dataset.jpThemeLight; document.body.style.background = ''")
    page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    page.locator("#jupyterlab-splash").wait_for(state="detached")
    ground = stepper.evaluate("e => getComputedStyle(e).backgroundColor")
    assert ground == "rgb(17, 17, 17)"
    screenshot(page, "lab_dark")
    lab.stop_kernels()
    page.wait_for_function(
        "async token => (await (await fetch(`/api/kernels?token=${token}`)).json()).length === 0", arg=lab.token
    )
    stepper.locator("li", has_text="VectorizeLoop").click()
    assert "VectorizeLoop" in current(stepper)
    stepper.locator("input[type=search]").fill("T.max")
    assert "first:" in stepper.locator(".tm-bar [role=status]").inner_text()
    stepper.locator(".tm-cell.tm-right", has_text="T.max(").first.click()
    assert "Following" in stepper.locator(".tm-follow").inner_text()


def test_it_steps_in_notebook_7(classic: Any, tab: Any, axe: str, screenshot: Any) -> None:
    notebook(classic.folder, "two.ipynb", DEFINE, TENSOR, SCHEDULE, ALIVE)
    stepper = run_all(tab, classic.url("notebooks/two.ipynb"))
    completed_and_explained(tab, screenshot, "notebook7")
    stepper.scroll_into_view_if_needed()
    stepper.get_by_role("button", name="Next").click()
    assert current(stepper).startswith("y.compute_at")
    tab.keyboard.press("ArrowRight")
    assert current(stepper).startswith("z.vectorize")
    screenshot(tab, "notebook7")
    for theme in ("Light", "Dark"):
        tab.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme}'}})")
        tab.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{str(theme == 'Light').lower()}'")
        for width in (900, 1600):
            tab.set_viewport_size({"width": width, "height": 1000})
            assert violations(tab, axe, ".jp-OutputArea-output .tvmagic") == [], f"{theme}, {width}"
            screenshot(tab, f"notebook7_{theme}_{width}".lower())


@pytest.fixture(scope="module")
def saved(lab: Any, lab_page: Any) -> Any:
    """The notebook with all that is live, as it was saved after it ran; there is no kernel for it."""
    sys.path.insert(0, str(ROOT / "notebooks"))
    import run

    executed = run.without_volatile(nbformat.read(lab.folder / "saved.ipynb", as_version=4))
    executed.metadata.kernelspec = {"name": "gone", "display_name": "Gone", "language": "gone"}
    return executed


@in_chromium("the test's own look into the page needs scripts in Firefox")
def test_a_saved_page_shows_all_without_scripts(saved: Any, browser: Any, tmp_path: Path, screenshot: Any) -> None:
    import run

    written = run.save_page(saved, "three", tmp_path)
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1100, "height": 900})
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(written.as_uri())
    steps = page.locator("details.tm-step")
    assert steps.count() > 20
    last = steps.filter(has_text="tir.VectorizeLoop").first
    last.locator("summary").first.click()
    assert last.locator("pre .tm-added").first.is_visible()
    screenshot(page, "saved_page")
    assert [u for u in requests if not u.startswith(("file:", "data:"))] == []
    context.close()


APPS = ("lab/workspaces/alone/tree", "notebooks")  # alone: the notebook of the other tests has a kernel


def reopened(server: Any, saved: Any, page: Any, app: str, trusted: bool, fragment: str = "") -> Any:
    """Open the saved notebook without a kernel; gives what it is shown in."""
    from nbformat.sign import NotebookNotary

    name = f"{'trusted' if trusted else 'foreign'}.ipynb"
    saved.metadata["copy"] = name  # the signature is one of the content
    nbformat.write(saved, server.folder / name)
    if trusted:
        notary = NotebookNotary(data_dir=str(server.folder / ".data"))
        notary.sign(nbformat.read(server.folder / name, as_version=4))
        notary.store.close()
    page.add_locator_handler(page.locator(".jp-Dialog .jp-mod-reject"), lambda refuse: refuse.click())  # a kernel?
    page.goto(server.url(f"{app}/{name}") + fragment, wait_until="domcontentloaded")
    # JupyterLab 4.2 opens the notebooks of the last time first
    page.wait_for_function(
        "name => window.jupyterapp?.shell.currentWidget?.context?.path === name", arg=name, timeout=90_000
    )
    root = page.locator(".jp-NotebookPanel:visible")
    root.locator(".jp-OutputArea-output .tvmagic, .jp-OutputArea-output details").first.wait_for(
        state="attached", timeout=90_000
    )
    return root


@pytest.mark.parametrize("app", APPS)
def test_a_saved_notebook_is_live_without_a_kernel(
    classic: Any, saved: Any, tab: Any, app: str, screenshot: Any
) -> None:
    """Neither has settings for widgets; in both the stepper, the playground and the player are there."""
    root = reopened(classic, saved, tab, app, trusted=True, fragment="#step=2&line=7")
    stepper = root.locator(".tm-stepper").first
    stepper.wait_for()
    assert current(stepper).startswith("y.compute_at"), "the step that the address names"
    assert stepper.locator(".tm-at .tm-no").last.text_content() == "7"
    stepper.get_by_role("button", name="Next").click()
    assert current(stepper).startswith("z.vectorize")
    root.locator(".tm-playground .tm-stepper").wait_for(state="attached")
    assert root.locator(".tm-stepper").count() == 2 and root.locator("details.tm-step").count() == 0
    assert root.locator(".tm-knob input").is_disabled(), "there is no kernel that computes"
    assert "run the cell" in root.locator(".tm-playground > [role=status]").inner_text()
    player = root.locator(".tm-player:not(.tm-playground)")
    player.get_by_role("button", name="One access on").click()
    assert player.locator(".tm-status").inner_text().startswith("1 of")
    assert tab.get_by_text("Error displaying widget").count() == 0
    screenshot(tab, f"saved_{app.partition('/')[0]}")


@pytest.mark.parametrize("app", APPS)
def test_a_foreign_notebook_shows_the_static_page(
    classic: Any, saved: Any, tab: Any, app: str, screenshot: Any
) -> None:
    """A notebook that is not trusted loses scripts and style sheets; what is left is readable."""
    root = reopened(classic, saved, tab, app, trusted=False)
    steps = root.locator("details.tm-step")
    steps.nth(20).wait_for(state="attached")
    assert root.locator(".tm-stepper").count() == 0
    step = steps.filter(has_text="z.tile").first
    rows = step.locator("pre").last.inner_text().split("\n")
    assert "-         for i, j in T.grid(128, 64):" in rows
    tint = step.locator(".tm-added").first.evaluate("e => getComputedStyle(e).backgroundColor")
    assert tint.startswith("rgba(46, 160, 67"), "new lines are seen without the style sheet"
    assert tab.get_by_text("Error displaying widget").count() == 0
    step.scroll_into_view_if_needed()
    screenshot(tab, f"foreign_{app.partition('/')[0]}")


def test_nbconvert_writes_a_live_page(saved: Any, page: Any, tmp_path: Path, screenshot: Any) -> None:
    from nbconvert import HTMLExporter

    (tmp_path / "saved.html").write_text(HTMLExporter().from_notebook_node(saved)[0], encoding="utf-8")
    page.goto((tmp_path / "saved.html").as_uri(), wait_until="domcontentloaded")
    stepper = page.locator(".tm-stepper").first
    stepper.get_by_role("button", name="Next").click()
    assert current(stepper).startswith("y.compute_at")
    screenshot(page, "nbconvert")
