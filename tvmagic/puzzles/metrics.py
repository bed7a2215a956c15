"""What is counted of a lowered program, each count by a name that the goals of puzzles use.

Nothing is measured, and nothing depends on this machine: cycles are those of the model of one processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.codegen import last_program
from tvmagic.errors import TVMagicError
from tvmagic.eval.cost import ProgramCost, count
from tvmagic.eval.machine import Machine
from tvmagic.eval.tally import Tally
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.query import callee, nodes_of, variables_in
from tvmagic.lazy import cached_property
from tvmagic.model.program_model import ProgramModel, model
from tvmagic.operators import Version
from tvmagic.target import Target

MACHINE = "llvm -mcpu=haswell -num-cores=4"  # that cycles are modelled for, whatever this machine is

# What each fact is, by its name.
FACTS: dict[str, str] = {}


def fact(description: str) -> Callable[[Callable[[Any], Any]], cached_property[Any]]:
    """Declare a method of `Facts` as a fact: what it counts, in words."""

    def declare(method: Callable[[Any], Any]) -> cached_property[Any]:
        FACTS[method.__name__] = description
        return cached_property(method)

    return declare


class Facts:
    """What is counted of a version; each fact is found when it is first asked for."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.func: ir.PrimFunc = next(iter(version.lower().functions.values()))

    @cached_property
    def cost(self) -> ProgramCost:
        """The totals that `--cost` shows."""
        return count(self.func)

    @cached_property
    def work(self) -> Work:
        """Vectors, single values and guards."""
        return _WorkTally({buffer.data for buffer in self.func.buffer_map.values()}).visit(self.func.body)

    @cached_property
    def model(self) -> ProgramModel:
        """The model of `%why`, for `MACHINE`."""
        target = Target(MACHINE)
        (func, *_) = last_program(self.version.lower(), target).functions.values()
        return model(func, target.machine)

    @cached_property
    def nests(self) -> list[int]:
        """How often each loop runs that has no loop inside."""
        found: list[int] = []

        def look(node: Any) -> None:
            if isinstance(node, ir.For) and not _loops(node.body) and isinstance(node.extent, ir.IntImm):
                found.append(node.extent.value)

        ir.pre_order_visit(self.func.body, look)
        return found

    @fact("bytes loaded from tensors in memory")
    def loaded(self) -> int:
        return self.cost.total.loaded.get("global", 0)

    @fact("bytes loaded from the inputs and the results")
    def read(self) -> int:
        return math.ceil(self.work.read)

    @fact("bytes stored to tensors in memory")
    def stored(self) -> int:
        return self.cost.total.stored.get("global", 0)

    @fact("bytes allocated for tensors in between")
    def allocated(self) -> int:
        return self.cost.allocated

    @fact("operations on floats")
    def arithmetic(self) -> int:
        return self.cost.total.arithmetic

    @fact("operations on floats and stores that are made, not those whose condition does not hold")
    def made(self) -> int:
        return math.ceil(self.work.values)

    @fact("operations on indices")
    def integer(self) -> int:
        return self.cost.total.integer

    @fact("lanes of the widest vector")
    def lanes(self) -> int:
        return self.cost.lanes

    @fact("% of the operations and stores that are on vectors")
    def on_vectors(self) -> int:
        return math.floor(100 * self.work.on_vectors / self.work.values) if self.work.values else 0

    @fact("iterations that may run in parallel")
    def parallel(self) -> int:
        return self.cost.parallel

    @fact("conditions that are tested")
    def guards(self) -> int:
        return math.ceil(self.work.guards)

    @fact("loops in the program")
    def loops(self) -> int:
        return _loops(self.func.body)

    @fact("iterations of the innermost loop")
    def innermost(self) -> int:
        return min(self.nests, default=1)

    @fact("calls of other functions, such as intrinsics")
    def calls(self) -> int:
        return math.ceil(self.work.calls)

    @fact("cycles on a Haswell core, by the model")
    def cycles(self) -> int:
        return round(self.model.time)

    @fact("bytes moved into the first cache of a Haswell core, by the model")
    def moved(self) -> int:
        return sum(nest.bytes["L2"] for nest in self.model.nests)


def _loops(stmt: Any) -> int:
    return len(nodes_of(stmt, ir.For))


@dataclass(frozen=True)
class Work:
    """Values computed or stored, those of them in vectors, conditions of branches, calls of functions outside, and
    bytes loaded from arguments.

    They are averages, as a branch counts by the share of the iterations in which it is taken.
    """

    values: Fraction = Fraction(0)
    on_vectors: Fraction = Fraction(0)
    guards: Fraction = Fraction(0)
    calls: Fraction = Fraction(0)
    read: Fraction = Fraction(0)

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(self._counts, other._counts)))

    @property
    def _counts(self) -> tuple[Fraction, ...]:
        return self.values, self.on_vectors, self.guards, self.calls, self.read

    def times(self, factor: int | Fraction) -> Work:
        """The work of doing it `factor` times."""
        return Work(*(count * factor for count in self._counts))


_OUTSIDE = ("call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin")
_CASES = 1 << 16  # up to which it is tried how often a condition holds


class _WorkTally(Tally[Work]):
    """The work of one run of a node.

    A branch whose condition is on loops alone counts by the share of their iterations in which it is taken; any other
    one by its longer side. A loop whose extent is not constant counts once.
    """

    def __init__(self, arguments: set[ir.Var]) -> None:
        self.arguments = arguments
        self.ranges: dict[ir.Var, range] = {}  # the loops around

    def zero(self) -> Work:
        return Work()

    def add(self, a: Work, b: Work) -> Work:
        return a + b

    def times(self, count: Work, factor: int) -> Work:
        return count.times(factor)

    def longer(self, a: Work, b: Work) -> Work:
        return a if a.values >= b.values else b

    def iterations(self, loop: ir.For) -> int:
        return loop.extent.value if isinstance(loop.extent, ir.IntImm) else 1

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> Work:
        if isinstance(node.min, ir.IntImm) and isinstance(node.extent, ir.IntImm):
            self.ranges[node.loop_var] = range(node.min.value, node.min.value + node.extent.value)
        return super().loop(node)

    @ir.handles(ir.BinaryOp)
    def arithmetic(self, node: Any) -> Work:
        return self.all_of(node.a, node.b) + (_values(node.dtype.lanes) if node.dtype.is_float else Work())

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> Work:
        name = callee(node).removeprefix("tir.")
        outside = name in _OUTSIDE
        return super().call(node) + (Work(calls=Fraction(1)) if outside else Work())

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> Work:
        read = node.dtype.bytes if node.buffer.data in self.arguments else 0
        return self.all_of(*node.indices) + Work(read=Fraction(read))

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> Work:
        return self.all_of(node.value, *node.indices) + _values(node.value.dtype.lanes)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> Work:
        share, then, other = self.share(node.condition), self.visit(node.then_case), self.all_of(node.else_case)
        taken = self.longer(then, other) if share is None else then.times(share) + other.times(1 - share)
        return self.visit(node.condition) + taken + Work(guards=Fraction(1))

    def share(self, condition: ir.PrimExpr) -> Fraction | None:
        """The share of the iterations of the loops around in which a condition holds; None if that is not known."""
        variables = list(variables_in(condition))
        ranges = [self.ranges.get(v, range(0)) for v in variables]
        if not 0 < math.prod(len(r) for r in ranges) <= _CASES:
            return None
        cases = np.meshgrid(*[np.asarray(r) for r in ranges], indexing="ij")
        machine = Machine(None)
        machine.values.update((v, c.ravel().astype(numpy_dtype(v.dtype))) for v, c in zip(variables, cases))
        try:
            held = np.atleast_1d(machine.visit(condition))
        except TVMagicError:
            return None
        return Fraction(int(held.sum()), held.size)


def _values(lanes: int) -> Work:
    return Work(values=Fraction(lanes), on_vectors=Fraction(lanes if lanes > 1 else 0))
