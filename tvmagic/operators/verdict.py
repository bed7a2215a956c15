"""The words of a verdict, the same in text, outputs and pages.

A verdict begins with what was found: equal, not judged, or NOT equal. Then it says with what the values were
compared and how many were judged. It says "equal to NumPy" only if NumPy was asked and at least 99% were judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmagic.prove.proof import MARKS

if TYPE_CHECKING:
    from tvmagic.operators.comparison import CheckResult

# Why a value would pass whatever it is, and the words for one or for several such values.
UNJUDGED = {
    "loose": ("its bound is larger than the value", "their bounds are larger than the values"),
    "no bound": ("its rounding error has no bound", "their rounding errors have no bound"),
    "tie": (
        "its comparison is a tie, either side was accepted",
        "their comparisons are ties, either side was accepted",
    ),
    "nan": ("NaN in the reference", "NaN in the reference"),
    "empty": ("a reduction without terms", "reductions without terms"),
    "unwritten": ("nothing writes it", "nothing writes them"),
}
_ARE = {"nan": "NaN in the reference", "empty": "reductions without terms", "unwritten": "not written"}
GLYPHS = {"equal": "\u2713", "self": "\u2261", "open": "?", "bad": "\u2715"}
EQUAL_STATES = ("equal", "self")
# States by the first characters of verdicts: those of checks, and the marks of proofs.
_STATES = {glyph: state for state, glyph in GLYPHS.items()} | {
    mark: {"unknown": "open", "refuted": "bad"}.get(kind, "equal") for kind, mark in MARKS.items()
}
_NEARLY_ALL = 0.99


@dataclass(frozen=True)
class VerdictLine:
    """A verdict in one line.

    Attributes
    ----------
    state: `equal`, `self` (equal to the operator's own definition), `open` (not or partly judged), `bad`.
    chip: the first words, after the glyph of the state.
    facts: the further facts, in order.
    cautions: what changes how the line is read, in sentences.
    """

    state: str
    chip: str
    facts: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The line as text."""
        return " \u00b7 ".join([f"{GLYPHS[self.state]} {self.chip}", *self.facts])


def state_of(text: str) -> str:
    """The state of a verdict by its text; empty if the text is not a verdict."""
    return _STATES.get(text.partition(" ")[0], "")


def verdict_line(result: CheckResult) -> VerdictLine:
    """The words for the result of a check."""
    subject = {"definition": "its own definition", "function": f"`{result.against_name}`"}.get(result.against, "NumPy")
    if any(race.certain for race in result.races):
        return VerdictLine("bad", "NOT right: iterations race")
    if result.ok is False:
        return VerdictLine("bad", f"NOT equal to {subject}", (_difference(result),))
    cautions = _cautions(result)
    if result.ok is None:
        left = result.elements - result.judged
        facts = (f"{left:,} of {result.elements:,} values: {_reasons(result)}",) if left else ("no values",)
        return VerdictLine("open", "not judged", facts, cautions)
    if result.judged < _NEARLY_ALL * result.elements:
        values = f"{result.judged:,} of {result.elements:,} values judged"
        return VerdictLine("open", values, (f"equal to {subject} where judged", *_counts(result)), cautions)
    whole = result.judged == result.elements
    plural = "" if result.elements == 1 else "s"
    of = "" if whole else f" of {result.elements:,}"
    judged = f"{result.judged:,}{of} value{plural} judged"
    facts = (judged, *([] if whole else _counts(result)), worst_error(result))
    if result.against == "definition":
        asked = "interpreted; NumPy was not asked: add `--against f`"
        return VerdictLine("self", f"equal to {subject}", (*facts, asked), cautions)
    return VerdictLine("equal", f"equal to {subject}", facts, cautions)


def worst_error(result: CheckResult) -> str:
    """How far the worst value is off."""
    if not result.absolute:
        return "no difference"
    return f"worst error {result.units:.2g} of the rounding bound, at `{result.place}`"


def _difference(result: CheckResult) -> str:
    where = f"first at `{result.place}`: got {result.got:.8g}, expected {result.expected:.8g}"
    bound = f", rounding bound {result.bound:.3g}" if result.bound else ""
    return f"{result.wrong:,} of {result.elements:,} values differ, {where}{bound}"


def _reasons(result: CheckResult) -> str:
    """Why values are not judged, the most frequent reason first."""
    reasons = sorted(result.unjudged.items(), key=lambda item: -item[1])
    if len(reasons) == 1:
        reason, count = reasons[0]
        if reason == "loose" and result.elements == 1:
            return f"its bound ({result.bound:.3g}) is larger than the value ({result.expected:.3g})"
        return UNJUDGED[reason][count > 1]
    return "; ".join(f"of {count:,} {UNJUDGED[reason][count > 1]}" for reason, count in reasons)


def _counts(result: CheckResult) -> list[str]:
    """How many values are not judged for each reason."""
    found: list[str] = []
    for reason, count in sorted(result.unjudged.items(), key=lambda item: -item[1]):
        if reason in _ARE:
            found.append(
                f"{count:,} {'are' if count > 1 else 'is'} {_ARE[reason] if count > 1 else UNJUDGED[reason][0]}"
            )
        else:
            found.append(f"of {count:,} {UNJUDGED[reason][count > 1]}")
    return found


def _cautions(result: CheckResult) -> tuple[str, ...]:
    """What to do about values that were not judged."""
    found: list[str] = []
    if result.judged < _NEARLY_ALL * result.elements:
        advice = {
            "tie": "Not judged: give inputs without ties, `--inputs f`",
            "no bound": "Not judged: give inputs for which no divisor is near 0 and no root or logarithm is of a negative number, `--inputs f`",
            "nan": "Not judged: give inputs for which the expression is a number, `--inputs f`",
        }
        found += [
            text
            for reason, text in advice.items()
            if 2 * result.unjudged.get(reason, 0) > result.elements - result.judged
        ]
    return tuple(found)
