"""What each pass makes of functions that tests of it made is what it was, to the letter."""

from __future__ import annotations

import pytest
from recorded import PARTS, check, pass_answer


@pytest.mark.parametrize("part", range(PARTS))
def test_passes(part: int) -> None:
    check("passes", part, pass_answer)
