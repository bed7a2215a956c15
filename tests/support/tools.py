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


def need_gpu() -> tuple[str, int]:
    """The name and the architecture of this machine's GPU; skips the test without one."""
    from tvmagic.runners.cuda import gpu

    found = gpu()
    if found is None:
        pytest.skip("this machine has no NVIDIA GPU, or no `cuda-bindings`, which calls its driver")
    return found


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
