"""The style that an output brings: what it needs and no more, whatever order the sheets of a page come in."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sampling import every
from test_stepper import small_record

from tvmagic import notebook
from tvmagic.notebook.commands import passes
from tvmagic.notebook.costs import cost_view
from tvmagic.notebook.display import operator_view
from tvmagic.notebook.html import frame, view_html
from tvmagic.notebook.live import script
from tvmagic.notebook.results import Beside, Listing, Table
from tvmagic.notebook.stepper import packed_view
from tvmagic.notebook.style_sheets import style, style_for
from tvmagic.notebook.view import make_view
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

CELL = "A: float32[16, 8]\nB[i] += A[i, j]\nC[i] = B[i] * 2"
SCHEDULE = "b, c = s[B], s[C]\no, i = c.split(c.axis[0], factor=4)\nb.compute_at(c, o)\nc.vectorize(i)"

RULE = re.compile(r"([^{}]*)\{((?:[^{}]|\{[^{}]*\})*)\}")


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    """One output of each kind that has a sheet."""
    op = operator("sums", CELL)
    version = schedule(op, SCHEDULE)
    table = Table(["name", "value"], [["`a`", 1], ["b", 2.5]], "A table", ["a sentence with `code`"])
    code = Listing("for i in range(4):  # four\n    x = 'a'", "python", "A program")
    return [
        operator_view(op).html(),
        table.html(),
        code.html(),
        Beside(code, code).html(),
        notebook.bounds(version).html(),
        notebook.graph(version).html(),
        cost_view(version).html(),
        view_html(passes(version).view),
        view_html(make_view(small_record())),
        frame("<div class='tm-error'>not equal</div>", "Error"),
    ]


def test_an_output_brings_the_rules_and_colours_that_it_uses() -> None:
    table = style_for('<table class="tm-table"><tr><td class="tm-num">1</td></tr></table>')
    assert ".tm-num" in table and ".tm-stale" not in table and ".tm-step" not in table and "svg" not in table
    assert "--tm-waste" not in table and "--tm-waste:" in style_for('<svg fill="var(--tm-waste, #fff)"/>')
    assert ".tm-stale" in style_for("", ["tm-stale"])
    assert len(table) < len(style()) / 3
    for name in re.findall(r"var\((--tm-[\w-]+)", table):
        assert f"{name}:" in table
    assert style_for("<p class='none'>") == style_for("")


# All that `view.css` sets, but for the colours' own names.
PROPERTIES = sorted(set(re.findall(r"[{;]([a-z][a-z-]*):", style())))
STYLES = """([of, names]) => [...document.querySelectorAll(of)].map(e => {
    const all = getComputedStyle(e);
    return { of: `${e.tagName}.${e.className}`, ...Object.fromEntries(names.map(n => [n, all.getPropertyValue(n)])) };
})"""


def looks(page: Any, of: str = ".tvmagic, .tvmagic *:not(style)") -> list[dict[str, str]]:
    return page.evaluate(STYLES, [of, PROPERTIES])


def differences(first: list[dict[str, str]], second: list[dict[str, str]]) -> list[tuple[str, str, str, str]]:
    """The element, the property and its two values, wherever two looks differ."""
    assert len(first) == len(second) > 0
    return [(a["of"], name, a[name], b[name]) for a, b in zip(first, second) for name in a if a[name] != b[name]]


def backwards(sheet: str) -> str:
    """The rules in the reverse order; those of `@media` are one."""
    return "".join(f"{head}{{{body}}}" for head, body in reversed(RULE.findall(sheet)))


def page_of(outputs: list[str], theme: str) -> str:
    light = str(theme == "light").lower()
    return f'<!DOCTYPE html><title>t</title><body data-jp-theme-light="{light}">{"".join(outputs)}'


@pytest.mark.browser
@pytest.mark.parametrize("theme", every(2, ["light", "dark"]))
def test_outputs_look_as_with_the_whole_sheet(page: Any, outputs: list[str], theme: str) -> None:
    """Alone, and beside others whose rules come in another order."""
    whole = [re.sub(r"<style>.*?</style>", f"<style>{style()}</style>", output) for output in outputs]
    for mine, its_whole in zip(outputs, whole):
        page.set_content(page_of([its_whole], theme))
        expected = looks(page)
        page.set_content(page_of([mine], theme))
        assert differences(looks(page), expected) == []
    page.set_content(page_of(whole, theme))
    expected = looks(page)
    page.set_content(
        page_of(
            [re.sub(r"<style>(.*?)</style>", lambda s: f"<style>{backwards(s[1])}</style>", o) for o in outputs], theme
        )
    )
    assert differences(looks(page), expected) == []


@pytest.mark.browser
def test_the_stepper_looks_the_same_beside_any_output(page: Any) -> None:
    op = operator("sums", CELL)
    page.set_content('<!DOCTYPE html><title>t</title><body data-jp-theme-light="true"><div id="at"></div>')
    data = packed_view(passes(schedule(op, SCHEDULE)).view)
    page.evaluate(
        "([code, data]) => new Function(code)().stepper(document.getElementById('at'), data)", [script("stepper"), data]
    )
    page.locator(".tm-cell").first.wait_for()
    alone = looks(page, ".tm-stepper, .tm-stepper *")
    page.add_style_tag(content=backwards(style()))
    assert differences(looks(page, ".tm-stepper, .tm-stepper *"), alone) == []
