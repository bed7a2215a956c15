"""A plugin of pytest, `pytest_plugins = ["tvmagic.compat.testing.plugin"]`: tests that take `target` run for each target."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.compat.testing.requirements import target_parameters, targets_of_tests
from tvmagic.runtime import Device, device


def pytest_generate_tests(metafunc: Any) -> None:
    """Run a test that takes `target`, and does not say for which, for those that tests run on."""
    marked = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "target" in metafunc.fixturenames and not any("target" in names for names in marked):
        metafunc.parametrize("target", target_parameters(targets_of_tests()))


@pytest.fixture
def dev(target: Any) -> Device:
    """The device of the test's target."""
    return device(str(target))
