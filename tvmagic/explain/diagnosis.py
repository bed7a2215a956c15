"""A version as the finding rules see it, their suspects, and the codes of the findings."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvmagic.explain import suggested_edits
from tvmagic.explain.schedule_writer import View, plain_name
from tvmagic.explain.trial import Edit, Number
from tvmagic.explain.waste import Inlined
from tvmagic.model.nests import Access
from tvmagic.model.program_model import NestModel, ProgramModel
from tvmagic.model.traffic import Traffic
from tvmagic.target.machine import Machine

# Each code with what it means, for help and documentation.
CODES = {
    "not-vectorized": "the hot loop runs element by element",
    "reduction-order": "sums of floats keep their order, which forbids vectors along a reduction",
    "strided-access": "the innermost loop jumps through memory",
    "strided-vectors": "the lanes of a vector are far from each other in memory",
    "narrow-vectors": "vectors take a part of a register",
    "few-accumulators": "too few sums at once, each waits for its last addition",
    "spills": "more sums than vector registers",
    "small-tile": "more loads than multiply-adds, as the tile is small",
    "streamed-operand": "an operand comes again and again from a slower memory that a block would keep",
    "cache-conflicts": "lines of memory push each other out of a cache that has space for all of them",
    "recomputed": "a stage computes elements more often than they are used",
    "stage-in-memory": "a stage goes through memory although parts of it fit into a cache",
    "short-loop": "the innermost loop is short beside what it takes to enter it",
    "guards": "conditions inside the hot loop",
    "index-division": "divisions or remainders in addresses",
    "parallel-too-fine": "threads are started too often",
    "parallel-too-coarse": "fewer parallel iterations than cores",
    "parallel-uneven": "parallel iterations do not divide among the cores",
    "false-sharing": "threads write parts of the same cache lines",
    "not-parallel": "one core works",
    "conversion": "conversions between types inside the hot loop, or to a type that takes more memory",
    "at-roof": "the machine does no more",
}


@dataclass
class Case:
    """A version as the rules see it. `waste`: for each stage how often it computes an element that is used."""

    model: ProgramModel
    traffic: Traffic
    machine: Machine
    views: dict[str, View]
    numbers: list[Number]
    attachments: list[tuple[Edit, str]] = field(default_factory=list)
    parallel_calls: dict[str, tuple[int, int]] = field(default_factory=dict)
    waste: dict[str, float] = field(default_factory=dict)
    inlined: list[Inlined] = field(default_factory=list)
    inlinings: list[tuple[Edit, str]] = field(default_factory=list)
    remarks: dict[int, str] = field(default_factory=dict)
    lane_by_lane: set[int] = field(default_factory=set)  # loops of which LLVM makes vectors
    checked: bool = False  # whether compiled accesses are checked

    def view(self, nest: NestModel) -> View | None:
        """The stage or block that a nest computes."""
        names = [plain_name(s.target.name) for s in nest.nest.statements]
        found = next((self.views[n] for n in names if n in self.views), None)
        span = nest.nest.statements[0].node.span
        if span and (found is None or found.line != span.line):  # stages share memory, and its name
            return next((v for v in self.views.values() if v.line == span.line), found)
        return found

    def name(self, nest: NestModel) -> str:
        """What a nest computes: the stage or block, if its buffer is that of another one, too; else the buffers."""
        view, names = self.view(nest), [s.target.name for s in nest.nest.statements]
        shared = view is not None and plain_name(view.name) not in map(plain_name, names)
        return view.name if view is not None and shared else nest.nest.name

    def read(self, nest: NestModel, access: Access) -> str:
        """What an access reads or writes: the stage that was last stored to its memory before; else its buffer."""
        if access.store:
            return self.name(nest)
        before = self.model.nests[: self.model.nests.index(nest)]
        made = next((n for n in reversed(before) if any(s.target.data is access.data for s in n.nest.statements)), None)
        return access.name if made is None else self.name(made)

    def elsewhere(self, view: View, reader: View) -> list[Edit]:
        """A stage computed elsewhere, with its own threads given up if it has some: those of the other stage run it then."""
        edits, place = list(suggested_edits.compute_elsewhere(view, reader)), self.parallel_calls.get(view.text)
        inside = [e for e in edits if "compute_root" not in e.text]
        return edits if place is None else [*suggested_edits.in_place(inside, *place), *edits]

    def lanes(self, nest: NestModel) -> int:
        """Elements of the result in a vector register."""
        return max(1, self.machine.vector_bits // max(8, nest.nest.statements[0].target.bits))


@dataclass
class Suspect:
    """What may be wrong: a code, a sentence, the nest, edits that may help.

    `certain`: worth saying of a schedule that has no cell, so that no edit can be tried. `fact`: worth saying even if none
    of the edits helps.
    """

    code: str
    nest: NestModel
    text: str
    edits: list[Edit]
    certain: bool = False
    fact: bool = False
