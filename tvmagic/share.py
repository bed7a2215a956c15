"""`python -m tvmagic.share NOTEBOOK`: a saved notebook with the scripts of its outputs stored once.

Each output of tvmagic brings the script that makes it live, so that it can be copied, rerun, or shown in a frame of its own.
A notebook that is finished needs each script once: the first output that has it keeps it, the others find it in the page.
A cell that runs again has an output with all that it needs, as before.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.files import read_file, write_file
from tvmagic.notebook.live import share

__all__ = ["main", "share_scripts"]


def share_scripts(notebook: Any) -> None:
    """Store each script in the first output that has it; `notebook` is one of nbformat's, or its JSON."""
    places = list(_pages(notebook))
    texts = ["".join(data["text/html"]) for data in places]
    for data, before, after in zip(places, texts, share(texts)):
        if before != after:
            data["text/html"] = after if isinstance(data["text/html"], str) else after.splitlines(keepends=True)


def _pages(notebook: Any) -> Iterator[MutableMapping[str, Any]]:
    """The data of all outputs that have HTML, in their order."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                yield output["data"]


def _rewrite(path: Path) -> tuple[int, int]:
    """Rewrite a file; gives its sizes before and after. Jupyter trusts it afterwards if it did before."""
    try:
        before = read_file(path).decode()
        notebook = json.loads(before)
        share_scripts(notebook)
    except (OSError, UnicodeDecodeError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise TVMagicError(f"`{path}` cannot be read as a notebook: {error}", code="share.not_a_notebook") from None
    signed = _signer(before)
    after = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    write_file(path, after)
    signed(after)
    return len(before.encode()), len(after.encode())


def _signer(text: str) -> Any:
    """What signs the new text of a notebook, so that its scripts may run; does nothing if the old one was not signed."""
    try:
        from nbformat import ValidationError, reads
        from nbformat.sign import NotebookNotary
    except ImportError:
        return lambda _: None
    notary = NotebookNotary()
    try:
        trusted = notary.check_signature(reads(text, as_version=4))
    except (ValidationError, OSError):  # a new home has no secret yet, and may have no room for one
        trusted = False

    def sign(new: str) -> None:
        if trusted:
            notary.sign(reads(new, as_version=4))
        notary.store.close()

    return sign


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tvmagic.share", description=__doc__)
    parser.add_argument(
        "notebooks", nargs="+", metavar="NOTEBOOK", type=Path, help="saved notebooks, which are rewritten"
    )
    for path in parser.parse_args(arguments).notebooks:
        try:
            before, after = _rewrite(path)
        except TVMagicError as error:
            print(f"{parser.prog}: {error}", file=sys.stderr)
            return 1
        print(f"{path}: {before / 1e3:.0f} kB, now {after / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
