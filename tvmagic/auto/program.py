"""Facts that the rules query: blocks, their axes, and the stride of each access along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.arith.linear import detect_linear_equation
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import variables_in
from tvmagic.ir.store_merging import update_term
from tvmagic.lazy import cached_property
from tvmagic.tir.schedule import Schedule

SYMBOLIC = 512  # the size that a symbolic one is taken to have
_SHORT = 3  # results that are too few for a vector


class Decisions:
    """Why the calls of a schedule are as they are: sentences, each at the number of calls made before it."""

    def __init__(self, sch: Schedule) -> None:
        self.sch = sch
        self.items: list[tuple[int, str]] = []

    def say(self, text: str) -> None:
        """Add a sentence about the calls that follow."""
        self.items.append((len(self.sch.trace.insts), text))

    @property
    def texts(self) -> list[str]:
        """The sentences alone."""
        return [text for _, text in self.items]


def constant(value: Any) -> int | None:
    """The number that an expression is; None for a symbolic one."""
    return value.value if isinstance(value, ir.IntImm) else value if isinstance(value, int) else None


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a block: its variable, its extent (None if symbolic), whether it is reduced over."""

    var: ir.Var
    extent: int | None
    reduced: bool

    @property
    def name(self) -> str:
        """The name of the variable, without the prefix that blocks give it."""
        return self.var.name.removeprefix("v_")


def extent_or_guess(axis: Axis) -> int:
    """The extent of an axis; a symbolic one is taken to be of middle size."""
    return axis.extent if axis.extent is not None else SYMBOLIC


@dataclass(frozen=True, eq=False)
class Access:
    """An access to a buffer. `steps`: by how many elements it moves along a variable; None if that is not constant."""

    buffer: ir.Buffer
    indices: tuple[ir.PrimExpr, ...]

    @cached_property
    def variables(self) -> set[ir.Var]:
        """The variables in its indices."""
        return {v for index in self.indices for v in variables_in(index)}

    @cached_property
    def plain(self) -> bool:
        """Whether each index is a variable of its own, or a constant."""
        variables = [i for i in self.indices if isinstance(i, ir.Var)]
        return len(set(variables)) == len(variables) and all(isinstance(i, (ir.Var, ir.IntImm)) for i in self.indices)

    def is_at(self, variables: Sequence[ir.Var]) -> bool:
        """Whether its indices are just these variables, in this order."""
        return len(self.indices) == len(variables) and all(i is v for i, v in zip(self.indices, variables))

    def coefficient(self, dimension: int, var: ir.Var) -> int | None:
        """By how much the index of a dimension grows along a variable; None if that is not constant."""
        index = self.indices[dimension]
        if index is var:
            return 1
        if var not in variables_in(index):
            return 0
        found = detect_linear_equation(index, [var])
        return constant(found[0]) if found else None

    def step(self, var: ir.Var) -> int | None:
        """By how many elements of the memory the access moves along a variable; None if that is not constant."""
        if var not in self._steps:
            self._steps[var] = self._step(var)
        return self._steps[var]

    @cached_property
    def _steps(self) -> dict[ir.Var, int | None]:
        return {}  # found before: each way to tile a block asks again

    def _step(self, var: ir.Var) -> int | None:
        if self.buffer.strides:
            return self._strided_step(var)
        total, stride = 0, 1
        known = True
        for dimension in reversed(range(len(self.indices))):
            size = self.coefficient(dimension, var)
            if size is None or (size and not known):
                return None
            total += size * stride
            extent = constant(self.buffer.shape[dimension])
            known = known and extent is not None
            stride *= extent or 1
        return total

    def _strided_step(self, var: ir.Var) -> int | None:
        total = 0
        for dimension, stride in enumerate(map(constant, self.buffer.strides)):
            size = self.coefficient(dimension, var)
            if size is None or (size and stride is None):
                return None
            total += size * (stride or 0)
        return total

    def elements(self, extents: dict[ir.Var, int]) -> int:
        """About how many elements it touches while its variables take `extents` values each."""
        total = 1
        for dimension, index in enumerate(self.indices):
            span = 1
            for var in set(variables_in(index)):
                span += abs(self.coefficient(dimension, var) or 1) * (extents.get(var, 1) - 1)
            total *= min(span, constant(self.buffer.shape[dimension]) or span)
        return total


@dataclass(eq=False)
class BlockInfo:
    """A block as the rules see it; `added` is what an iteration of a reduction takes in, `value` what is stored."""

    rv: Any
    node: ir.Block
    axes: list[Axis]
    store: Access
    value: ir.PrimExpr
    combine: type | None
    loads: list[Access] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    alone: set[ir.Var] = field(default_factory=set)  # variables whose values are computed with, beside indices
    conditions: list[ir.PrimExpr] = field(default_factory=list)  # of `if_then_else` and `Select`

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.node.name_hint

    @property
    def spatial(self) -> list[Axis]:
        """The axes that are not reduced over."""
        return [a for a in self.axes if not a.reduced]

    @cached_property
    def along(self) -> Axis | None:
        """The reduced axis along which what a block reads is contiguous; None if there is none, or more is read one after another
        along the axis of the results, if that is long enough for vectors."""
        most = max((len(a.variables) for a in self.loads), default=0)
        widest = [a for a in self.loads if len(a.variables) == most]
        found = [x for x in reversed(self.axes) if x.reduced and any(a.step(x.var) == 1 for a in widest)]
        if not found:
            return None
        best = next((x for x in found if x.extent != 1), found[0])
        own = [x for x in self.spatial if (x.extent is None or x.extent > _SHORT) and self.store.step(x.var) == 1]
        return best if all(self._scattered(best) <= self._scattered(x) for x in own) else None

    def _scattered(self, axis: Axis) -> tuple[int, int]:
        """How many loads are of elements apart along an axis; and of those that are not, less the elements they read."""
        steps = [(a, a.step(axis.var)) for a in self.loads]
        extents = {x.var: extent_or_guess(x) for x in self.axes}
        return sum(s not in (0, 1) for _, s in steps), -sum(a.elements(extents) for a, s in steps if s == 1)

    @property
    def reduced(self) -> list[Axis]:
        """The axes that are reduced over, in the order of their loops: the contiguous one last."""
        found = [a for a in self.axes if a.reduced]
        if self.along is not None:
            found.sort(key=lambda a: a is self.along)
        return found

    @property
    def branches(self) -> bool:
        """Whether it has conditions of which only the side that is taken is computed."""
        return "tir.if_then_else" in self.calls

    @property
    def constant(self) -> bool:
        """Whether all extents are numbers."""
        return all(a.extent is not None for a in self.axes)


class _Loads(ir.Visitor):
    """The loads in an expression, the calls by name, the variables in no load."""

    def __init__(self) -> None:
        self.found: list[Access] = []
        self.calls: set[str] = set()
        self.alone: set[ir.Var] = set()
        self.conditions: list[ir.PrimExpr] = []
        self.inside = 0  # loads around

    @ir.handles(ir.Var)
    def variable(self, node: ir.Var) -> None:
        if not self.inside:
            self.alone.add(node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.found.append(Access(node.buffer, tuple(node.indices)))
        self.inside += 1
        self.visit_children(node)
        self.inside -= 1

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if isinstance(node.op, ir.Op):
            self.calls.add(node.op.name)
            if node.op.name == "tir.if_then_else":
                self.conditions.append(node.args[0])
        self.visit_children(node)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> None:
        self.conditions.append(node.condition)
        self.visit_children(node)


def axes_of(block: ir.Block) -> list[Axis] | None:
    """The axes of a block; None if one does not begin at 0, or is neither spatial nor reduced over."""
    axes: list[Axis] = []
    for iv in block.iter_vars:
        if (
            iv.dom is None
            or constant(iv.dom.min) != 0
            or iv.iter_type not in (ir.IterVar.DataPar, ir.IterVar.CommReduce)
        ):
            return None
        axes.append(Axis(iv.var, constant(iv.dom.extent), iv.iter_type == ir.IterVar.CommReduce))
    return axes


def loads_in(node: ir.Node) -> list[Access]:
    """The loads in a statement or an expression."""
    finder = _Loads()
    finder.visit(node)
    return finder.found


def loads_one_to_one(info: BlockInfo, result: ir.Buffer) -> list[Access]:
    """The loads by which an elementwise block follows the block that makes `result`: each of its iterations reads elements
    of its own and writes one. Empty if it reads others too, or is a reduction."""
    loads = [a for a in info.loads if a.buffer is result]
    varying = {a.var for a in info.axes if a.extent != 1}
    own = not info.reduced and info.store.plain and all(a.plain and varying <= a.variables for a in loads)
    return loads if own else []


def look(sch: Schedule, rv: Any) -> BlockInfo | None:
    """What the rules know of a block; None if it is not one store with axes from 0 on, or not a known reduction."""
    block = sch.get(rv)
    store = block.body
    loops = sch.get_loops(rv) if block.iter_vars else []
    if not isinstance(store, ir.BufferStore) or block.alloc_buffers or block.match_buffers:
        return None
    axes = axes_of(block)
    if axes is None or len(loops) != len(axes):
        return None
    info = BlockInfo(rv, block, axes, Access(store.buffer, tuple(store.indices)), store.value, None)
    value: Any = store.value
    if block.init is not None:
        parts = combined(store)
        if parts is None:
            return None
        info.combine, info.value = parts
        value = info.value
    elif any(a.reduced for a in axes):
        return None
    finder = _Loads()
    finder.visit(value)
    info.loads, info.calls, info.alone, info.conditions = finder.found, finder.calls, finder.alone, finder.conditions
    return info


def combined(store: ir.BufferStore) -> tuple[type, ir.PrimExpr] | None:
    """How a reduction's update combines what it stored with a new value, and that value."""
    added = update_term(store, ir.Add, ir.Mul, ir.Min, ir.Max)
    return (type(store.value), added) if added is not None else None


def _is_equal(a: Sequence[ir.PrimExpr], b: Sequence[ir.PrimExpr]) -> bool:
    return len(a) == len(b) and all(x is y or ir.structural_equal(x, y) for x, y in zip(a, b))


def same_element(a: Access, b: Access) -> bool:
    """Whether two accesses are of the same element in each iteration."""
    return a.buffer is b.buffer and _is_equal(a.indices, b.indices)


def distinct(loads: Sequence[Access]) -> list[Access]:
    """The accesses, those that read the same element once: `(A[i, k] - B[j, k]) * (A[i, k] - B[j, k])` has two."""
    found: list[Access] = []
    for load in loads:
        if not any(same_element(a, load) for a in found):
            found.append(load)
    return found


def blocks_of(sch: Schedule) -> list[Any]:
    """The blocks directly below the root, in program order; empty if the program has no root block."""
    try:
        root = sch.get_block("root")
    except TVMagicError:
        return []
    return list(sch.get_child_blocks(root))
