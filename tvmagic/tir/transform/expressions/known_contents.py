"""What passes ask about the contents of buffers, if an option says so."""

from __future__ import annotations

from typing import Protocol

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import BufferStore, PrimExpr, Stmt
from tvmagic.ir.hooks import provided_if


class BufferContents(Protocol):
    """Answers about one statement, whose buffers get known values from stores and from `T.assume`."""

    def simplified(self, e: PrimExpr, stmt: Stmt, analyzer: Analyzer) -> PrimExpr:
        """Return `e` simplified by the values that buffers hold before `stmt`."""
        ...

    def holds_already(self, store: BufferStore, analyzer: Analyzer) -> bool:
        """Return whether the buffer holds the stored value already."""
        ...

    def is_overwritten(self, store: BufferStore) -> bool:
        """Return whether the stored elements are overwritten before they are read."""
        ...

    def remove_store(self, store: BufferStore) -> None:
        """Note that `store` is removed from the statement."""
        ...


def buffer_contents(stmt: Stmt, option: str, max_steps: int = 0) -> BufferContents:
    """Return the analysis of `stmt` that `option` asks for. Raises TVMagicError if it is not installed."""
    analysis = provided_if("buffer contents")
    if analysis is None:
        raise TVMagicError(
            f"cannot use the option `{option}`: it needs `tvmagic.compat`, which is not installed",
            hint=f"leave `{option}` out",
            code="compat.not_installed",
        )
    return analysis(stmt, max_steps)
