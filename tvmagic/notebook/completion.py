"""Completion in the lines of magics: flags, operators, their schedules, passes, targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from tvmagic.notebook.arguments import PARSERS, Argument, Arguments
from tvmagic.notebook.magics import MAGICS, TensorMagics

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
    operators = magics.operators()
    chosen = next((operators[w] for w in before if w in operators), None)
    wanted = _argument_at(parser, before)
    return wanted.completes(magics, chosen) if wanted is not None and wanted.completes is not None else ()


def _argument_at(parser: Arguments, before: list[str]) -> Argument | None:
    """The argument that the word after `before` is for."""
    flags = {name: a for a in parser.declared for name in a.names if name.startswith("-")}
    positions = [a for a in parser.declared if not a.names[0].startswith("-")]
    taken, value_of = 0, None
    for word in before:
        if value_of is not None:
            value_of = None
        elif word in flags:
            value_of = None if "action" in flags[word].options else flags[word]
        else:
            taken += 1
    return value_of or (positions[taken] if taken < len(positions) else None)


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
