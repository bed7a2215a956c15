"""Proofs of programs as data, and their sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KINDS = ("exact", "reordered", "real", "rounded")  # of proved steps, from the strongest to the weakest
MARKS = {"exact": "=", "reordered": "~", "real": "R", "rounded": "R", "unknown": "?", "refuted": "x"}
KIND_TEXTS = {
    "exact": "bit for bit",
    "reordered": "up to reassociation",
    "real": "over the reals",
    "rounded": "with constants rounded",
}


@dataclass(frozen=True)
class StepProof:
    """The verdict on the program after one step.

    status: `proved`, `refuted` or `unknown`; empty if the step has no program that runs.
    kind: of a proved step one of `KINDS`.
    reason: why it is not proved; of a proved one what the kind leaves open.
    element: the first element that is not proved; of a refuted step one that differs. Of kind `real` the first one of it.
    elements, compared: the number of elements of the outputs, and of those that were compared.
    term, wanted: the element's term after the step and by the definition.
    witness: inputs (all others 0), and the values there: `inputs`, `got`, `wanted`; None if there is none.
    constants: pairs of a rounded constant and what it stands for.
    """

    name: str
    number: int
    status: str
    kind: str = ""
    reason: str = ""
    element: str = ""
    elements: int = 0
    compared: int = 0
    term: str = ""
    wanted: str = ""
    witness: Mapping[str, Any] | None = None
    constants: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0

    @property
    def mark(self) -> str:
        """One character: `=` bit for bit, `~` reordered, `R` over the reals, `?` not proved, `x` refuted; empty if not run."""
        return MARKS.get(self.kind if self.status == "proved" else self.status, "")

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.status == "proved":
            return f"proved {KIND_TEXTS[self.kind]}" + (f": {self.reason}" if self.reason else "")
        if self.status == "refuted":
            return f"refuted at {self.element}: {self.reason}"
        return f"not proved: {self.reason}" if self.status else ""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        witness = dict(self.witness) if self.witness is not None else None
        return {**data, "witness": witness, "constants": [list(pair) for pair in self.constants]}


@dataclass(frozen=True)
class Proof:
    """Whether every step of an operator's version computes the same function as its definition.

    steps: a `StepProof` for each step of the record, in order.
    sizes: the symbolic sizes of each instance, by name.
    chance: a bound on the probability of a wrong `proved`, over the random points.
    estimated: whether the law of `exp` was used, for which the chance is an estimate.
    concrete_inputs: inputs that had concrete values, as they decide what runs.
    stopped: why the run ended early; empty if it did not.
    """

    operator: str
    steps: tuple[StepProof, ...]
    sizes: tuple[Mapping[str, int], ...] = ()
    seed: int = 0
    points: int = 3
    primes: tuple[int, int] = (0, 0)
    chance: float = 0.0
    estimated: bool = False
    seconds: float = 0.0
    concrete_inputs: tuple[str, ...] = ()
    stopped: str = ""
    sampled: bool = field(default=False)

    @property
    def _judged(self) -> list[StepProof]:
        return [s for s in self.steps if s.status]

    @property
    def refuted(self) -> bool:
        """Whether a step differs from the definition for some inputs."""
        return any(s.status == "refuted" for s in self.steps)

    @property
    def proved(self) -> bool:
        """Whether every step is proved, for all elements and inputs at these sizes."""
        return bool(self._judged) and not self.stopped and all(s.status == "proved" for s in self._judged)

    @property
    def unknown(self) -> bool:
        """Whether it is neither proved nor refuted."""
        return not self.proved and not self.refuted

    @property
    def _first(self) -> StepProof | None:
        order = ("refuted", "unknown")
        return next((s for status in order for s in self.steps if s.status == status), None)

    @property
    def step(self) -> str:
        """The name of the first step that is refuted, or else not proved; empty if all are proved."""
        return self._first.name if self._first is not None else ""

    @property
    def element(self) -> str:
        """The first element of `step` that is not proved."""
        return self._first.element if self._first is not None else ""

    @property
    def kind(self) -> str:
        """The weakest kind of the steps if all are proved; `sampled` if elements were left out; else empty."""
        if self.proved:
            return max((s.kind for s in self._judged), key=KINDS.index)
        return "sampled" if self.sampled and not self.refuted else ""

    @property
    def text(self) -> str:
        """The verdict in a sentence."""
        judged, first = self._judged, self._first
        proved = [s for s in judged if s.status == "proved"]
        counts = [(sum(s.kind == kind for s in proved), KIND_TEXTS[kind]) for kind in KINDS]
        kinds = ", ".join(f"{count} {text}" for count, text in counts if count)
        if self.refuted:
            assert first is not None
            return f"refuted: {first.name}, {first.text.removeprefix('refuted ')}"
        line = f"{len(proved)} of {len(judged)} steps proved for all inputs{self._where()}" + (
            f": {kinds}" if kinds else ""
        )
        if first is not None:
            line += f"; {first.name} is {first.text}"
        return line + (f"; {self.stopped}" if self.stopped else "")

    def _where(self) -> str:
        where = " of these sizes"
        if self.sizes and self.sizes[0]:
            names = list(self.sizes[0])
            texts = [f"{n} = {', '.join(map(str, dict.fromkeys(s[n] for s in self.sizes)))}" for n in names]
            where = f" for {' and '.join(texts)} (nothing is said of other sizes)"
        if self.concrete_inputs:
            where += f" and given values of {', '.join(self.concrete_inputs)}"
        return where

    @property
    def marks(self) -> list[str]:
        """For each step its mark with its verdict, or an empty text."""
        return [f"{s.mark} {s.text}".strip() for s in self.steps]

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, version 1."""
        return {
            "version": 1,
            "operator": self.operator,
            "sizes": dict(self.sizes[0]) if len(self.sizes) == 1 else [dict(s) for s in self.sizes],
            "proved": self.proved,
            "refuted": self.refuted,
            "unknown": self.unknown,
            "kind": self.kind,
            "step": self.step,
            "element": self.element,
            "text": self.text,
            "seed": self.seed,
            "points": self.points,
            "primes": list(self.primes),
            "chance": self.chance,
            "seconds": self.seconds,
            "concrete_inputs": list(self.concrete_inputs),
            "steps": [s.to_json() for s in self.steps],
        }

    def __str__(self) -> str:
        return self.text


def worst(proofs: Sequence[StepProof]) -> StepProof:
    """Of the proofs of one step at several sizes the one that counts: refuted, else unknown, else the weakest kind."""

    def rank(proof: StepProof) -> tuple[int, int]:
        order = {"refuted": 3, "unknown": 2, "proved": 1, "": 0}
        return order[proof.status], KINDS.index(proof.kind) if proof.kind in KINDS else 0

    return max(proofs, key=rank)
