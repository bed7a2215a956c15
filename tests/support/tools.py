"""Tests that need programs which run code for other machines: skipped without them, except on the machine that has all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tvmagic.errors import TVMagicError
from tvmagic.runners import MissingTool

# Set where every tool is installed, so that a test that does not find its own fails.
VARIABLE = "TVMAGIC_ALL_TOOLS"


@contextlib.contextmanager
def tools_there() -> Iterator[None]:
    """Skip the test, with the reason, if a tool that is needed inside is missing."""
    try:
        yield
    except MissingTool as error:
        skip_without(error)


def skip_without(error: TVMagicError) -> NoReturn:
    """Skip the test for want of a tool, or fail where all are said to be there."""
    if os.environ.get(VARIABLE):
        raise error
    pytest.skip(f"{error.message}; {error.hint}" if error.hint else error.message)
