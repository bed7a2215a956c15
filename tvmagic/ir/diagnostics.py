"""What tells users of a text that cannot be read: renderers of their own in place of the error's text."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvmagic.errors import DiagnosticError
from tvmagic.ir.node import Span

__all__ = ["Diagnostic", "DiagnosticContext", "DiagnosticLevel", "DiagnosticRenderer", "override_renderer", "render"]


class DiagnosticLevel(enum.IntEnum):
    """How much a finding weighs (the numbers are TVM's)."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


@dataclass(frozen=True)
class Diagnostic:
    """One finding: its level, its place and what it says."""

    level: DiagnosticLevel
    span: Span | None
    message: str


@dataclass
class DiagnosticContext:
    """The findings about one text, in the order in which they were made."""

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])


class DiagnosticRenderer:
    """Calls `render(context)` for what was found in a text."""

    def __init__(self, render: Callable[[DiagnosticContext], Any]) -> None:
        self._render = render

    def render(self, context: DiagnosticContext) -> None:
        """Show the findings in `context`."""
        self._render(context)


_renderer: DiagnosticRenderer | None = None


def override_renderer(render_func: Callable[[DiagnosticContext], Any] | DiagnosticRenderer | None) -> None:
    """Let `render_func(context)` be called for each text that cannot be read, before its error is raised.

    `None` takes the renderer away again.
    """
    global _renderer
    if render_func is not None and not isinstance(render_func, DiagnosticRenderer):
        render_func = DiagnosticRenderer(render_func)
    _renderer = render_func


def render(error: DiagnosticError) -> None:
    """Tell the renderer, if there is one, of the text that cannot be read."""
    if _renderer is not None:
        _renderer.render(DiagnosticContext([Diagnostic(DiagnosticLevel.ERROR, error.span, error.message)]))
