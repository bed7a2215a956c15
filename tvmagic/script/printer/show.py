"""`show`: the text of a program on the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.script.printer import script

_hook: Callable[..., Any] | None = None


def set_show_hook(hook: Callable[..., Any] | None) -> None:
    """What shows a text in place of `print`: called as `hook(text, node, style)`."""
    global _hook
    _hook = hook


def show(node: Any, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
    """Show the TVMScript text of `node`, coloured in the given Pygments style where possible.

    `black_format` is accepted as in TVM; the text is shown as it is printed.
    """
    show_text(script(node, **options), style, node)


def show_text(text: str, style: str | None = None, node: Any = None) -> None:
    """Show a text: the TVMScript text of `node`, or Python."""
    if _hook is None:
        print(text)
    else:
        _hook(text, node, style)
