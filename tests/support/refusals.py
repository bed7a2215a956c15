"""Expect an error by its class and code; its words may change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tvmagic.errors import TVMagicError

__all__ = ["refuses"]


@contextlib.contextmanager
def refuses(*codes: str, error: type[BaseException] = TVMagicError) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """Check that the block raises an error of a class, with one of the codes."""
    with pytest.raises(error) as info:
        yield info
    assert getattr(info.value, "code", None) in codes
