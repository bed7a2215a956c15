"""Style sheets: all rules of a sheet in `static/`, or those alone that an output can use, as each output brings its own.

A page may have many outputs, and each sheet holds for the whole page, so that the rules come in any order. Therefore two rules
of `view.css` that set the same property of an element differently are not of the same specificity.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files

_RULE = re.compile(r"([^{}]*)\{((?:[^{}]|\{[^{}]*\})*)\}")
_COLOUR = re.compile(r"--tm-[\w-]+")


@cache
def style(*names: str) -> str:
    """The style sheets of those names in `static/`, without comments and blanks that say nothing."""
    folder = files("tvmagic.notebook") / "static"
    sheets = "\n".join((folder / name).read_text(encoding="utf-8") for name in names or ("view.css",))
    bare = re.sub(r"\s*([{};,])\s*", r"\1", re.sub(r"/\*.*?\*/\s*", "", sheets, flags=re.S)).strip()
    return bare.replace(": ", ":").replace(";}", "}")


def style_for(body: str, added: Collection[str] = ()) -> str:
    """The rules of `view.css` that apply to the HTML `body`, with the colours that they and it name.

    `added` are classes that a script gives to elements later.
    """
    names = {name for _, value in re.findall(r"""class=(["'])(.*?)\1""", body) for name in value.split()}
    tags = set(re.findall(r"<([a-z][a-z0-9]*)", body))
    rules = "".join(_used(style(), frozenset(names | {"tvmagic", *added}), frozenset(tags | {"body", "div"})))
    named = {*re.findall(r"var\((--tm-[\w-]+)", rules + body)}
    return re.sub(
        rf"({_COLOUR.pattern}):[^;{{}}]*(?:;|(?=\}}))", lambda found: found[0] if found[1] in named else "", rules
    )


def _used(rules: str, names: frozenset[str], tags: frozenset[str]) -> Iterator[str]:
    """The rules that apply to an element with one of these classes, or of these tags."""
    for head, body in _RULE.findall(rules):
        if head.startswith("@"):
            inner = "".join(_used(body, names, tags))
            if inner:
                yield f"{head}{{{inner}}}"
            continue
        selectors = [s for s in re.split(r",(?![^(]*\))", head) if _applies(s, names, tags)]
        if selectors:
            yield f"{','.join(selectors)}{{{body}}}"


def _applies(selector: str, names: frozenset[str], tags: frozenset[str]) -> bool:
    """Whether each class and each tag that a selector asks for is there."""
    plain = re.sub(r"\[[^\]]*\]|::?[\w-]+(?:\([^)]*\))?", "", selector)
    asked = re.findall(r"(\.?)([A-Za-z][\w-]*)", plain)
    return all(name in (names if dot else tags) for dot, name in asked)
