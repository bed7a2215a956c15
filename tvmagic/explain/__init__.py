"""Why a schedule takes the time that it does: `explain(op)` gives findings in words, each with the call that would help."""

from tvmagic.explain.differences import differences
from tvmagic.explain.explanation import Explanation, Finding, LoopRow, explain
from tvmagic.explain.findings import CODES

__all__ = ["CODES", "Explanation", "Finding", "LoopRow", "differences", "explain"]
