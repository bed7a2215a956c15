"""Draw the README's pictures again: its two cells, run, opened in Chromium, and stepped through.

    python docs/pictures.py docs/images

Writes `stepper.webp`, a frame for each step of `SCENES`, and `following.png`, the stepper with a line followed into the assembly.
Needs Chromium, and the packages that the browser tests use. What is timed runs on one thread, so that the times are steady.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "notebooks")]
SIZE = {"width": 1120, "height": 760}


def cells() -> list[str]:
    """The cells of the README's example, with the extension loaded first."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?m)^    %%(?:.*\n)(?:    .*\n)*", text)
    return ["%load_ext tvmagic", *(re.sub(r"(?m)^    ", "", block).rstrip() for block in blocks)]


def page_of(sources: list[str], folder: Path) -> Path:
    """The cells, executed, as one HTML page."""
    import nbformat
    from run import execute, save_page

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    path = folder / "readme.ipynb"
    nbformat.write(notebook, path)
    return save_page(execute(path), "readme", folder)


def step(name: str) -> Callable[[Any], None]:
    """Go to the first step of the list whose label begins with `name`."""
    return lambda stepper: stepper.locator(".tm-list li", has_text=re.compile(rf"^\W*{re.escape(name)}")).first.click()


def follow(text: str) -> Callable[[Any], None]:
    """Click the last line with `text`."""
    return lambda stepper: stepper.locator(".tm-cell.tm-right", has_text=text).last.click()


# What is done, what the caption says of it, and for how many seconds it is shown.
SCENES: list[tuple[str, float, list[Callable[[Any], None]]]] = [
    ("An operator in one cell, its schedule in the next", 4.0, []),
    ("Each schedule call is a step: z.tile makes blocks of 6 x 16", 3.5, [step("z.tile")]),
    ("y.compute_at: the sums of a block, right before they are used", 3.5, [step("y.compute_at")]),
    ("z.vectorize: 16 columns at once", 3.0, [step("z.vectorize")]),
    ("Then every pass. InferBound finds the range of each loop, and says how", 4.0, [step("te.InferBound")]),
    ("tir.VectorizeLoop: a loop becomes a vector", 3.5, [step("tir.VectorizeLoop")]),
    ("Click a line ...", 3.0, [follow("T.Broadcast(X_1")]),
    ("... and follow it down to the machine code, and back to the cell", 4.5, [step("codegen.assembly")]),
    ("The result is equal to NumPy's, and both are timed", 4.5, []),
]


def frames(page: Any) -> list[tuple[bytes, float]]:
    """A screenshot after each scene, with how long it is shown."""
    stepper = page.locator(".tm-stepper").first
    stepper.wait_for()
    page.add_style_tag(content=CAPTION)
    page.evaluate("document.body.append(Object.assign(document.createElement('div'), {className: 'caption'}))")
    found: list[tuple[bytes, float]] = []
    for number, (caption, seconds, actions) in enumerate(SCENES):
        for action in actions:
            action(stepper)
        first, last = number == 0, number == len(SCENES) - 1
        page.evaluate(
            "([first, last]) => { const box = e => e.getBoundingClientRect().top + scrollY;"
            " const to = first ? box(document.querySelectorAll('.jp-Cell')[1]) : last ? document.body.scrollHeight"
            " : box(document.querySelector('.tm-stepper')); scrollTo(0, to - 12); }",
            [first, last],
        )
        page.evaluate("text => { document.querySelector('.caption').textContent = text; }", caption)
        page.wait_for_timeout(300)
        found.append((page.screenshot(), seconds))
    return found


CAPTION = """
.caption { position: fixed; bottom: 0; left: 0; right: 0; padding: 10px 18px; font: 600 19px system-ui, sans-serif;
  color: white; background: #1d3557; text-align: center; z-index: 99 }
body { padding-bottom: 70px }
"""


def main(folder: Path) -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TVMAGIC_NUM_THREADS": "1"}
    folder.mkdir(parents=True, exist_ok=True)
    chromium = next(p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n)))
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        address = page_of(cells(), Path(work)).as_uri()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.25)
        page.goto(address)
        shots = frames(page)
        page.evaluate("document.querySelector('.caption').remove()")
        whole = page.locator(".tm-stepper").first.screenshot()
        browser.close()
    images = [Image.open(io.BytesIO(shot)).convert("RGB") for shot, _ in shots]
    times = [int(1000 * seconds) for _, seconds in shots]
    images[0].save(
        folder / "stepper.webp",
        save_all=True,
        append_images=images[1:],
        duration=times,
        loop=0,
        lossless=True,
        method=6,
    )
    Image.open(io.BytesIO(whole)).convert("RGB").quantize(128).save(folder / "following.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
