"""The random tensor expressions, with the switches on that go beyond TVM."""

from __future__ import annotations

import te_programs

from tvmagic import te
from tvmagic.passes import PassContext

assert te  # it declares the switches


class Case(te_programs.Case):
    """A program of `te_programs`, built with tight splits and exact unions."""

    def check(self) -> None:
        with PassContext(config={"te.tight_split": True, "te.exact_unions": True}):
            super().check()
