"""Coloured text of programs, at the place where TVM has it."""

from __future__ import annotations

from typing import Any

from tvmagic.script.printer.show import show, show_text


def cprint(printable: Any, style: str | None = None, black_format: bool | None = None) -> None:
    """Show a text of Python, or the TVMScript text of a node, in colours where they can be shown.

    `style` is `light`, `dark`, `ansi` or the name of a style of Pygments; `black_format` is accepted as in TVM.
    Raises TypeError for what is neither.
    """
    if isinstance(printable, str):
        show_text(printable, style)
    elif hasattr(printable, "script"):
        show(printable, style, black_format)
    else:
        raise TypeError(f"a `{type(printable).__name__}` has no text to show: give a text or a part of a program")
