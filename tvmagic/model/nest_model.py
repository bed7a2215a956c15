"""Model of one loop nest: its cycles, ports, registers and memory transfers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tvmagic.ir.query import variables_in
from tvmagic.model.guards import asked
from tvmagic.model.nests import Access, Loop, Nest, Statement

OVERLAP = 0.5  # share of what is shorter, of computing and moving and of what memories move, that does not hide behind the longest


@dataclass
class NestModel:
    """What the model finds for a nest; cycles are for an iteration of `rolled`, of all threads together.

    `registers`: vector registers for sums and what stays the same; `spills`: sums that find no register; `chains`: sums
    that wait for none of the others; `vectorized`: whether the statements are vectors or LLVM makes them so; `reason`: why
    not; `ports`: cycles by what is busy.
    """

    nest: Nest
    rolled: Loop
    unrolled: tuple[Loop, ...]
    late: tuple[Loop, ...] = ()  # of the unrolled loops those that LLVM writes out after it made vectors
    iterations: int = 0
    ports: dict[str, float] = field(default_factory=dict)
    conversions: float = 0.0
    work: float = 0.0  # operations of an iteration, in vectors
    cycles: float = 0.0  # of an iteration
    registers: int = 0
    sums: int = 0
    spills: int = 0
    chains: int = 0
    latency: float = 0.0
    vectorized: bool = True
    by_llvm: bool = False
    lanes: float = 1  # of the vectors that LLVM makes, on average; if their lanes are apart, too
    lanes_of: Loop | None = None  # the loop that LLVM makes vectors of
    alone: bool = False  # whether LLVM said that it makes no vectors
    masked: bool = False  # whether the vectors have lanes that are not used
    guarded: bool = False  # or lanes of which conditions say whether they are used
    begun: bool | None = None  # whether sums that begin inside go through memory, if code says so
    reason: str = ""
    flops: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    transfers: dict[str, float] = field(default_factory=dict)  # cycles for them in one thread, by level of memory
    waits: float = 0.0  # cycles of these in which lines are waited for
    width: float = 1.0
    launches: int = 0
    starts: float = 0.0  # its share of the launches: all nests of a parallel loop start with it
    sharing: float = 0.0  # cycles of lines that go from core to core, as threads write parts of them
    core: float = 0.0  # cycles in the core, of the whole nest in one thread
    time: float = 0.0  # cycles of the whole nest

    def asked(self, s: Statement) -> int:
        """How many conditions an iteration of `rolled` asks for a statement of the nest."""
        own = {x.var for x in self.unrolled}
        if self.late and all(v in own for g in s.guards for v in variables_in(g)):
            return 0  # known in each copy
        loop = self.late[-1] if self.late else self.rolled  # the innermost one when LLVM made vectors
        inside = self.unrolled[self.unrolled.index(loop) + 1 :] if self.late else self.unrolled
        return asked(s, loop, inside) * math.prod(x.extent for x in self.late)

    def apart(self, access: Access) -> int:
        """How many elements lie between two lanes of an access in the vectors that LLVM makes; 0 if none or if that is not known."""
        step = access.address.stride(self.lanes_of.var) if self.by_llvm and self.lanes_of is not None else None
        return max(0, abs(step) - 1) if step is not None else 0

    @property
    def partly(self) -> bool:
        """Whether stores are of some lanes of a vector."""
        return self.masked or self.guarded and any(self.asked(s) for s in self.nest.statements)

    @property
    def port(self) -> str:
        """What is busiest in an iteration."""
        return max(self.ports, key=lambda name: self.ports[name]) if self.ports else ""

    @property
    def moving(self) -> float:
        """Cycles that the memories need, in one thread."""
        return _moving(self.transfers)

    @property
    def in_core(self) -> bool:
        """Whether the core is what limits the nest, or close to it."""
        return self.core >= 0.7 * self.moving

    @property
    def limit(self) -> str:
        """What limits the nest: a port of the core or a level of memory."""
        worst = max(self.transfers, key=lambda name: self.transfers[name])
        return worst if self.transfers[worst] > self.core else self.port


def _moving(transfers: Mapping[str, float]) -> float:
    longest = max(transfers.values(), default=0.0)
    return longest + OVERLAP * (sum(transfers.values()) - longest)


def in_one_core(core: float, transfers: Mapping[str, float], waits: float = 0.0) -> float:
    """Cycles of one thread that computes for `core` cycles, while each level of memory moves for as many as `transfers` says.

    In `waits` cycles of these it waits for lines, and computes meanwhile what needs none of them.
    """
    moving = _moving(transfers)
    busy = max(0.0, moving - waits)
    return max(moving, max(core, busy) + OVERLAP * min(core, busy))
