"""The stepper in the frame in which VS Code shows outputs: how that runs scripts, its policy for them, and its themes.

VS Code itself is not run. What is here is what its notebook renderer does (`renderHTML` and `domEval` of the extension
`notebook-renderers`): the output's HTML is put into an element, where scripts do not run, and then each script is run by a copy of it at
the end of that element.
"""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.notebook.commands import passes
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

pytestmark = pytest.mark.browser

# Inline scripts and `new Function` are allowed, nothing from a network is.
POLICY = "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; connect-src data: blob:;"
RENDER = """html => {
    const container = document.getElementById('output'), element = document.createElement('div');
    element.innerHTML = html;
    container.appendChild(element);
    for (const node of Array.from(element.getElementsByTagName('script'))) {
        const copy = document.createElement('script');
        copy.text = node.innerText;
        element.appendChild(copy).parentNode.removeChild(copy);
    }
}"""


@pytest.fixture(scope="module")
def output() -> str:
    """The HTML that a `%passes` cell saves."""
    op = operator("scaled", "A: float32[64]\nB[i] = A[i] * 2")
    version = schedule(op, "x, y = s[B].split(s[B].op.axis[0], factor=8)\ns[B].vectorize(y)")
    return passes(version).html()


def shown(page: Any, kind: str, html: str) -> Any:
    head = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    page.set_content(
        f'<!DOCTYPE html><html><head>{head}</head><body data-vscode-theme-kind="{kind}"><div id="output"></div></body></html>'
    )
    page.evaluate(RENDER, html)
    stepper = page.locator(".tm-stepper")
    stepper.wait_for()
    return stepper


def test_the_stepper_is_live_and_takes_keys(page: Any, output: str) -> None:
    stepper = shown(page, "vscode-light", output)
    label = stepper.locator('.tm-list [aria-selected="true"] .tm-label')
    first = label.inner_text()
    stepper.locator(".tm-view").focus()
    page.keyboard.press("ArrowRight")
    assert label.inner_text() != first
    page.keyboard.press("End")
    assert label.inner_text() == "codegen.assembly"


def test_its_colours_are_those_of_the_editor_not_of_the_system_unless_the_user_chose(page: Any, output: str) -> None:
    shown(page, "vscode-light", output)

    def scheme() -> str:
        return page.locator(".tvmagic").first.evaluate("e => getComputedStyle(e).colorScheme")

    for kind, wanted in (("vscode-light", "light"), ("vscode-dark", "dark"), ("vscode-high-contrast", "dark")):
        page.evaluate("kind => { document.body.dataset.vscodeThemeKind = kind; }", kind)
        for system in ("light", "dark"):
            page.emulate_media(color_scheme=system)
            assert scheme() == wanted, (kind, system)
    page.evaluate("document.querySelector('.tvmagic').dataset.theme = 'light'")
    assert scheme() == "light"
