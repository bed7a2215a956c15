"""`python -m tvmagic.page NOTEBOOK -o FILE`: a notebook as a page that computes.

The notebook runs from top to bottom. The page has its cells and their outputs, and each of its operators in WebAssembly
with a button that runs it (`tvmagic.notebook.page`). It is one file and needs no kernel and no network.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.files import write_file
from tvmagic.notebook.colour import html_line
from tvmagic.notebook.html import escape
from tvmagic.notebook.html import page as whole_page
from tvmagic.notebook.markdown import markdown
from tvmagic.notebook.style_sheets import style
from tvmagic.share import share_scripts

__all__ = ["main", "notebook_page"]

_SECONDS = 600  # for one cell
# The last cell: each operator that the notebook has made, as its page shows it.
_OPERATORS = "from tvmagic.notebook.pages import show_operators as _show\n_show(get_ipython().user_ns)"
_STYLE = """
body { margin: 0; }
main { max-width: 1280px; margin: 0 auto; padding: 16px; }
.cell { margin: 12px 0; }
.cell pre.input, .output pre { font: 13px/1.45 ui-monospace, Menlo, Consolas, monospace; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.cell pre.input { background: var(--page-panel); border: 1px solid var(--page-line); border-radius: 6px; padding: 8px; }
.output { margin: 6px 0 6px 8px; overflow-x: auto; }
.output img, main > .cell img { max-width: 100%; }
.markdown table { border-collapse: collapse; } .markdown th, .markdown td { border: 1px solid var(--page-line); padding: 2px 8px; }
.markdown code { background: var(--page-panel); padding: 0 3px; border-radius: 3px; }
.anchor-link { display: none; }
"""


def notebook_page(notebook: str | Path, file: str | Path) -> Path:
    """Run a notebook and write the page of its cells and its operators.

    Raises TVMagicError if the notebook cannot be read, or if a cell fails that is not tagged `raises-exception`.
    """
    source, path = Path(notebook), Path(file)
    executed = _executed(source)
    share_scripts(executed)
    cells = "\n".join(part for cell in executed.cells for part in _cell(cell, source.parent))
    body = f"<style>{style('view.css')}{_STYLE}</style>{cells}"
    return write_file(path, whole_page(body, source.stem.replace("_", " ")))


def _executed(path: Path) -> Any:
    """The notebook after it ran, with a cell more that shows its operators."""
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    except ImportError as error:
        raise TVMagicError(
            f"a page of a notebook needs the package `{error.name}`",
            hint="pip install tvmagic[notebooks]",
            code="page.missing_package",
        ) from None
    try:
        content = nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError) as error:
        raise TVMagicError(
            f"`{path}` cannot be read as a notebook: {str(error).splitlines()[0]}", code="page.not_a_notebook"
        ) from None
    _refuse_other_languages(path, content.metadata)
    content.cells.append(nbformat.v4.new_code_cell(_OPERATORS, metadata={"tvmagic": "operators"}))
    begun: list[str] = []  # the code cells that ran, the last of which failed if one did
    client = NotebookClient(
        content,
        timeout=_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=40"],  # errors only: the kernel talks to nobody but this process
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=lambda cell, cell_index: begun.append(cell.source),
    )
    try:
        return client.execute()
    except CellExecutionError as error:
        why = f"fails: {error.ename}: {error.evalue}".strip().splitlines()[0]
        hint = "tag the cell `raises-exception` if that is what it shows"
    except CellTimeoutError:
        why, hint = f"takes more than {_SECONDS} seconds", "a page is made of cells that come to an end"
    except DeadKernelError:
        why, hint = "ends the kernel", "run it in a notebook to see what it does"
    first = next((line for line in begun[-1].splitlines() if line.strip()), "") if begun else ""
    raise TVMagicError(
        f"cell {len(begun)} of `{path.name}` (`{first.strip()}`) {why}", hint=hint, code="page.cell_failed"
    )


def _refuse_other_languages(path: Path, metadata: Any) -> None:
    """Refuse a notebook that says that it is in another language than Python."""
    said = [metadata.get("kernelspec", {}).get("language"), metadata.get("language_info", {}).get("name")]
    other = next((str(name) for name in said if name and str(name).lower() not in ("python", "ipython")), None)
    if other is not None:
        raise TVMagicError(
            f"`{path.name}` is a notebook in {other}",
            hint="pages are made of notebooks in Python",
            code="page.other_language",
        )


# ---------------------------------------------------------------------------- cells


def _cell(cell: Any, folder: Path) -> Iterator[str]:
    """A cell as HTML: what it says, then its outputs."""
    if cell.cell_type == "markdown":
        yield f'<section class="cell markdown">{markdown(cell.source, folder, cell.get("attachments", {}))}</section>'
    elif cell.cell_type == "code":
        ours = cell.metadata.get("tvmagic") == "operators"
        outputs = "".join(f'<div class="output">{text}</div>' for o in cell.outputs if (text := _output(o)))
        if ours:
            yield (
                f'<section class="cell"><h2>The operators, computed in this page</h2>{outputs}</section>'
                if outputs
                else ""
            )
        elif cell.source.strip() or outputs:
            yield f'<section class="cell"><div class="tvmagic">{_source(cell.source)}</div>{outputs}</section>'


def _source(text: str) -> str:
    lines = "\n".join(html_line(line, "python") for line in text.rstrip().split("\n"))
    return f'<pre class="input" tabindex="0" role="group" aria-label="Cell">{lines}</pre>'


def _output(output: Any) -> str:
    """The form of an output that a page shows best."""
    from nbconvert.filters.ansi import ansi2html

    if output.output_type == "stream":
        return f"<pre>{ansi2html(output.text)}</pre>"
    if output.output_type == "error":
        return "<pre>" + ansi2html("\n".join(output.traceback)) + "</pre>"
    data = output.data
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            return str(data[kind])
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            words = escape(data.get("text/plain", "picture"))
            return f'<img alt="{words}" src="data:{kind};base64,{str(data[kind]).strip()}">'
    for kind in ("text/markdown", "text/latex"):
        if kind in data:
            return markdown(str(data[kind]), Path())
    if "application/json" in data:
        return f"<pre>{escape(json.dumps(data['application/json'], indent=2, ensure_ascii=False))}</pre>"
    return f"<pre>{ansi2html(str(data['text/plain']))}</pre>" if "text/plain" in data else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tvmagic.page", description=__doc__)
    parser.add_argument("notebook", metavar="NOTEBOOK", help="the notebook, which is run from top to bottom")
    parser.add_argument("-o", "--output", metavar="FILE", help="where the page goes (NOTEBOOK with the ending .html)")
    chosen = parser.parse_args(arguments)
    try:
        path = notebook_page(chosen.notebook, chosen.output or Path(chosen.notebook).with_suffix(".html").name)
    except TVMagicError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
