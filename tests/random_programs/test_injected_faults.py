"""The check of an edited program finds injected faults that change results; `make soak` injects 200."""

from __future__ import annotations

import pytest
from injected_faults import run


def test_injected_faults_are_found() -> None:
    report = run(10, seed=3)
    assert report.total == 10
    assert report.missed == [], str(report)


@pytest.mark.soak
def test_many_injected_faults_are_found() -> None:
    report = run(200, seed=46)
    print(report)
    assert report.total == 200
    assert report.missed == [], str(report)
