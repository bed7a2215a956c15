"""Expect an error by its class, its code and the objects that it names; its words may change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tvmagic.errors import TVMagicError


@contextlib.contextmanager
def refuses(
    *codes: str, error: type[BaseException] = TVMagicError, names: str | None = None
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Check that the block raises an error of a class, with one of the codes.

    names: a pattern that the message matches, of what the program itself calls its objects.
    """
    with pytest.raises(error, match=names) as info:
        yield info
    assert getattr(info.value, "code", None) in codes
