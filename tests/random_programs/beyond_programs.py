"""The random tensor expressions, with the switches on that go beyond TVM."""

from __future__ import annotations

import te_programs

from tvmagic.passes import PassContext


class Case(te_programs.Case):
    """A program of `te_programs`, built with tight splits and exact unions."""

    def check(self) -> None:
        with PassContext(config={"te.tight_split": True, "te.exact_unions": True}):
            super().check()
