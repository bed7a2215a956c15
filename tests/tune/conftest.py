"""What the tests of searches share: versions are timed no longer than it takes to tell that they are."""

from __future__ import annotations

import pytest

from tvmagic.tune import finalize


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of versions decide nothing here, so they are measured for 20 ms each, and not for a quarter of a second."""
    monkeypatch.setattr(finalize, "_TURN", 0.02)
