"""One schedule that a search tried, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvmagic.tune.candidate import Candidate


@dataclass(frozen=True)
class Trial:
    """One schedule that was tried.

    `seconds` a call is None if it failed; `error` then says why. `stopped`: it was slower than three times the best, so
    that its time is that of a call or two. `origin` is `instant`, `variant`, `random`, `database`, the version of the user's it is,
    or `change of N` for the trial it comes from. `predicted` are the seconds that the model expected before it was
    measured, None if it had learned nothing yet. `machine` is the kind that measured it.
    """

    number: int
    origin: str
    candidate: Candidate
    seconds: float | None
    error: str = ""
    predicted: float | None = None
    stopped: bool = False
    machine: str = ""
    times: tuple[float, ...] = ()
    features: tuple[float, ...] = field(default=(), repr=False)
    elapsed: float = 0.0
