"""Completion in the lines of magics: flags, operators, their schedules, passes, targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from tvmagic.notebook.commands import TARGETS
from tvmagic.notebook.magics import MAGICS, PARSERS, TensorMagics

__all__ = ["candidates", "install"]

_LINE = re.compile(r"^\s*%{1,2}(\w+)\s(.*)$")


def candidates(line: str, magics: TensorMagics) -> list[str]:
    """What may stand at the end of a magic's line, as whole words."""
    match = _LINE.match(line)
    if not match or match.group(1) not in PARSERS:
        return []
    magic, rest = match.groups()
    words = rest.split(" ")
    last, before = words[-1], [w for w in words[:-1] if w]
    return sorted(w for w in _words(magic, last, before, magics) if w.startswith(last) and w != last)


def _words(magic: str, last: str, before: list[str], magics: TensorMagics) -> Iterable[str]:
    parser = PARSERS[magic]
    if last.startswith("-"):
        return parser.flags
    flag = before[-1] if before else ""
    if flag == "--target":
        return TARGETS
    if flag in ("-k", "--kind"):
        return ("stages", "iters", "blocks", "regions", "access")
    operators = magics.operators()
    chosen = next((operators[w] for w in before if w in operators), None)
    if flag in ("-p", "--passes") and chosen is not None and chosen.current.record is not None:
        return {step.name.rsplit(".", 1)[-1] for step in chosen.current.record if step.kind == "pass"}
    if flag in ("-v", "--version") or (magic == "compare" and chosen is not None):
        return ["plain", *(chosen.versions if chosen is not None else ())]
    return [] if magic == "tensor" else operators


def install(shell: Any, magics: TensorMagics) -> Callable[[], None]:
    """Complete the lines of our magics in `shell`; returns what takes it away again."""
    completer = shell.Completer
    if not hasattr(completer, "custom_completers") or completer.custom_completers is None:
        return lambda: None

    def complete(event: Any) -> list[str]:
        return candidates(event.text_until_cursor or event.line, magics)

    names = [prefix + name for name in MAGICS for prefix in ("%", "%%")]
    for name in names:
        completer.custom_completers.add_s(name, complete, 50)

    def forget() -> None:
        for name in names:
            chain = completer.custom_completers.strs.get(name)
            if chain is not None:
                chain.chain[:] = [item for item in chain.chain if item[1] is not complete]
                if not chain.chain:
                    del completer.custom_completers.strs[name]

    return forget
