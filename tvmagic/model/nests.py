"""The hot loops of a lowered program as data: loops, accesses with their strides, operations.

Every loop with statements of its own is a `Nest`. An index is a sum of variables times constants (`Address`); `v // c`
and `v % c` of a loop's variable count as variables of their own, and the lanes of a vector as the variable `LANE`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir.loop_annotations import ANY_ORDER, is_made_by, makers_of
from tvmagic.ir.query import callee, is_zero, variables_in
from tvmagic.model.addresses import LANE, Address, Key, Linear

__all__ = ["LANE", "Access", "Address", "Key", "Linear", "Loop", "Nest", "Nests", "Operations", "Statement", "nests_of"]


# Late passes that make the loops that are seen here.
_INTERLEAVED, _VERSIONED = "VectorizeInterleavedStores", "VersionGuardedLoops"


@dataclass(eq=False)
class Loop:
    """A loop of the program: its variable, extent and kind; `parent` is the loop around it."""

    var: ir.Var
    extent: int
    node: ir.For
    parent: Loop | None
    subtree: list[Access] = field(default_factory=list)  # all accesses inside

    @property
    def name(self) -> str:
        """The name of its variable; of a loop over vectors that a late pass made, of the variable of the loop before."""
        return self.var.name.removesuffix(".vector") if is_made_by(self.node, _INTERLEAVED) else self.var.name

    @property
    def is_version(self) -> bool:
        """Whether a test chooses between it and another loop that does the same."""
        return _VERSIONED in makers_of(self.node)

    @property
    def parallel(self) -> bool:
        """Whether threads share its iterations."""
        return self.node.kind == ir.ForKind.PARALLEL


@dataclass(eq=False)
class Access:
    """A load or a store: `lanes` elements of `bits` at `address` of the memory `data`, called `name`."""

    name: str
    data: ir.Var
    bits: int
    lanes: int
    address: Address
    store: bool
    scope: str
    size: int  # bytes of the whole buffer, 0 if not known
    loops: tuple[Loop, ...]
    node: Any
    converted: bool = False  # whether its value is used in another type
    own: bool = False  # whether the function allocates the memory

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return max(1, self.bits // 8)

    @property
    def kind(self) -> str:
        """`scalar`, `broadcast`, `contiguous`, `reversed`, `strided` or `gathered`."""
        if self.lanes == 1:
            return "scalar"
        names = {0: "broadcast", 1: "contiguous", -1: "reversed", None: "gathered"}
        return names.get(self.address.lane, "strided")


@dataclass
class Operations:
    """What a statement computes once, in operations on its values: multiply-adds, others, divisions, calls, conversions.

    `shuffles` put lanes of two vectors together. Of the calls and divisions `fixed_calls` and `fixed_divisions` are the same in all
    iterations of the innermost loop: code has them before it. `quotients` are divisions of integers by what is not constant, for which
    no vectors have an operation: one lane after the other. They count as divisions, too.
    """

    fused: int = 0
    simple: int = 0
    divisions: int = 0
    calls: int = 0
    conversions: int = 0
    shuffles: int = 0
    quotients: int = 0
    index: int = 0  # divisions and remainders on loops' variables, in conditions
    fixed_calls: int = 0
    fixed_divisions: int = 0

    def flops(self) -> int:
        """Floating point operations, a multiply-add counted as two."""
        return 2 * self.fused + self.simple + self.divisions + self.calls


@dataclass(eq=False)
class Statement:
    """A store of a value with what it loads; `lanes` of its vector, `guards` around it that change with the loops inside.

    `any_order`: sums of floats may be added in any order, as `pragma_any_order` says. `begun`: the variables of the condition
    below which the loops that add to a sum store what it begins with; empty if it is stored before them. `below`: those of the guards
    that the store is below, and not a value alone. `choices`: conditions on loops that choose between two values, which are both computed.
    """

    node: ir.BufferStore
    value: ir.PrimExpr
    target: Access
    loads: list[Access]
    operations: Operations
    lanes: int
    loops: tuple[Loop, ...]
    guards: list[ir.PrimExpr]
    floating: bool
    any_order: bool = False
    begun: frozenset[ir.Var] = frozenset()
    below: tuple[ir.PrimExpr, ...] = ()
    choices: tuple[ir.PrimExpr, ...] = ()

    @property
    def extreme(self) -> bool:
        """Whether its value is a maximum or minimum of floats, in their order."""
        return self.floating and not self.any_order and isinstance(self.value, (ir.Max, ir.Min))

    @property
    def accumulates(self) -> bool:
        """Whether it updates the place that it reads."""
        return any(
            a.data is self.target.data
            and a.address.signature == self.target.address.signature
            and a.address.offset == self.target.address.offset
            for a in self.loads
        )

    def turns_before(self, loop: Loop) -> int:
        """How many iterations of a loop before the store something was stored that it reads now; 0 if none was."""
        target = self.target.address
        step, turns = target.stride(loop.var), loop.extent
        if not step or not target.known:
            return 0
        for load in self.loads:
            back = target.offset - load.address.offset
            if load.data is self.target.data and load.address.known and load.address.signature == target.signature:
                turns = min(turns, back // step if back % step == 0 and back // step > 0 else turns)
        return turns if turns < loop.extent else 0


@dataclass(eq=False)
class Nest:
    """A loop's own statements, with all loops around them."""

    loops: tuple[Loop, ...]
    statements: list[Statement]

    @property
    def inner(self) -> Loop:
        """The innermost loop."""
        return self.loops[-1]

    @property
    def accesses(self) -> list[Access]:
        """All loads and stores."""
        return [a for s in self.statements for a in (*s.loads, s.target)]

    @property
    def in_rows(self) -> bool:
        """Whether a late pass made its vectors, of a loop that stores a few adjacent elements per iteration."""
        return is_made_by(self.inner.node, _INTERLEAVED) and all(s.lanes > 1 for s in self.statements)

    @property
    def iterations(self) -> int:
        """How often the body runs."""
        return math.prod(loop.extent for loop in self.loops)

    @property
    def name(self) -> str:
        """What it computes: the buffers that it stores to."""
        return ", ".join(dict.fromkeys(s.target.name for s in self.statements))


class _Values(ir.Visitor):
    """The loads and the operations of an expression."""

    def __init__(self, walk: _Walk, target: ir.Var) -> None:
        self.walk, self.target = walk, target
        self.loads: list[Access] = []
        self.found = Operations()
        self.guards: list[ir.PrimExpr] = []
        self.choices: list[ir.PrimExpr] = []

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.loads.append(self.walk.access(node.buffer, node.indices, node.dtype, False, node))

    @ir.handles(ir.Add, ir.Sub)
    def sum(self, node: Any) -> None:
        fused = node.dtype.is_float and (isinstance(node.a, ir.Mul) or isinstance(node.b, ir.Mul))
        if fused:
            self.found.fused += 1
            self.found.simple -= 1  # its product
        else:
            self.found.simple += 1
        self.visit_children(node)

    @ir.handles(ir.BinaryOp, ir.CmpOp, ir.LogicalOp, ir.Not, ir.Select)
    def simple(self, node: ir.PrimExpr) -> None:
        if isinstance(node, _QUOTIENTS) and not node.dtype.is_float:
            self._quotient(node)
        elif isinstance(node, ir.Div):
            self.found.divisions += 1
            self.found.fixed_divisions += self._fixed(node)
        elif (
            isinstance(node, (ir.Max, ir.Min))
            and node.dtype.is_float
            and not (_is_number(node.a) or _is_number(node.b))
        ):
            self.found.simple += 3  # a comparison and two choices, as a NaN goes through
        else:
            self.found.simple += 1
            if isinstance(node, ir.Select):
                self._choice(node.condition)
        self.visit_children(node)

    def _choice(self, condition: ir.PrimExpr) -> None:
        """Note a condition on loops alone that chooses between two values."""
        if not _reads(condition):
            self.choices.append(ir.substitute(condition, self.walk.lets))

    def _quotient(self, node: Any) -> None:
        """A division or a remainder of integers: shifts, or a product of twice the width by what a constant makes of it."""
        by = node.b.value if isinstance(node.b, ir.Broadcast) else node.b
        if not isinstance(by, ir.IntImm):
            self.found.quotients += 1
            self.found.divisions += 1
        elif by.value > 0 and not by.value & (by.value - 1):
            self.found.simple += 1
        elif node.dtype.bits > 32:  # of which vectors have no such product
            self.found.quotients += 1
            self.found.divisions += 1
        else:
            self.found.simple += _BY_A_CONSTANT

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> None:
        before = len(self.loads)
        self.visit_children(node)
        if node.dtype.element_of != node.value.dtype.element_of:
            if isinstance(node.value, ir.BufferLoad):
                self.loads[before].converted = True
            else:
                self.found.conversions += 1

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        name = callee(node).removeprefix("tir.")
        if name == "if_then_else":
            self.found.simple += 1
            if any(_reads(value) for value in node.args[1:]):  # else both values are computed, and one is chosen
                self.guards.append(ir.substitute(node.args[0], self.walk.lets))
                self._guard(node.args[0])
                self.visit(node.args[1])
                self.visit(node.args[2])
                return
            self._choice(node.args[0])
        elif name not in _FREE:
            self.found.calls += 1
            self.found.fixed_calls += self._fixed(node)
        for value in node.args:
            if isinstance(value, ir.PrimExpr):
                self.visit(value)

    def _fixed(self, node: ir.PrimExpr) -> bool:
        """Whether an expression of one element is the same in all iterations of the innermost loop."""
        return node.dtype.lanes == 1 and self._invariant(node)

    def _invariant(self, node: ir.PrimExpr) -> bool:
        walk = self.walk
        if not walk.loops:
            return False
        loads: list[ir.BufferLoad] = []
        ir.post_order_visit(node, lambda n: loads.append(n) if isinstance(n, ir.BufferLoad) else None)
        known = all(v in walk.extents or v in walk.values for v in variables_in(node))
        names = Linear(walk.values, walk.extents).loosely(node).loose
        return known and walk.loops[-1].var not in names and all(x.buffer.data is not self.target for x in loads)

    def _guard(self, condition: ir.PrimExpr) -> None:
        """What a condition loads; its comparisons are counted as a guard's."""
        simple = self.found.simple
        self.visit(condition)
        self.found.simple = simple

    @ir.handles(ir.Shuffle)
    def shuffle(self, node: ir.Shuffle) -> None:
        """Lanes of some vectors, each of which is computed once in an iteration, however many vectors are made of its lanes.

        What is the same in all iterations is put together before the loop.
        """
        lanes = tuple([int(index) if isinstance(index, ir.IntImm) else index for index in node.indices])
        key = tuple(map(id, node.vectors)), lanes
        if key not in self.walk.shuffles and not self._invariant(node):
            self.walk.shuffles.add(key)
            self.found.shuffles += max(1, len(node.vectors) - 1)
        for vector in node.vectors:
            if vector not in self.walk.picked:
                self.walk.picked.add(vector)
                self.visit(vector)

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        """A variable, whose value is computed once, for the first statement that uses it; before the loop if it is from there."""
        value, loop = self.walk.data.get(node, (None, None))
        if value is not None and value not in self.walk.picked and self.walk.loops[-1:] == [loop]:
            self.walk.picked.add(value)
            self.visit(value)

    @ir.handles(ir.IntImm)
    def leaf(self, node: ir.IntImm) -> None:
        pass


_QUOTIENTS = (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)
_BY_A_CONSTANT = 8  # operations that a division of integers by a constant becomes
_FREE = {"likely", "reinterpret", "assume", "fma"}


def _is_versioned(node: ir.IfThenElse) -> bool:
    """Whether an `if` chooses between the versions of one loop."""
    then = node.then_case
    loops = [s for s in (then.seq if isinstance(then, ir.SeqStmt) else [then]) if isinstance(s, ir.For)]
    return node.else_case is not None and any(_VERSIONED in makers_of(loop) for loop in loops)


def _is_number(value: ir.PrimExpr) -> bool:
    return isinstance(value.value if isinstance(value, ir.Broadcast) else value, ir.FloatImm)


def _reads(value: Any) -> bool:
    """Whether an expression loads or calls, so that it may not be computed where its condition does not hold."""
    found: list[Any] = []
    ir.post_order_visit(value, lambda n: found.append(n) if isinstance(n, (ir.BufferLoad, ir.Call)) else None)
    return bool(found)


class _Walk(ir.Visitor):
    """Goes through the statements of a function and keeps its nests."""

    def __init__(self, sizes: int) -> None:
        self.sizes = sizes
        self.picked: set[ir.PrimExpr] = set()  # values that are computed already and used again
        self.shuffles: set[tuple[Any, ...]] = set()  # vectors and lanes that were put together
        # Values that are no indices, each with the loop that it is in.
        self.data: dict[ir.Var, tuple[ir.PrimExpr, Loop | None]] = {}
        self.loops: list[Loop] = []
        self.values: dict[ir.Var, Any] = {}
        self.extents: dict[ir.Var, int] = {LANE: 1}
        self.guards: list[ir.PrimExpr] = []
        self.any_order = False
        self.begun: dict[
            ir.Var, frozenset[ir.Var]
        ] = {}  # variables of conditions below which sums begin, by their memory
        self.bare = 0
        self.lets: dict[ir.Var, ir.PrimExpr] = {}
        self.allocated: dict[ir.Var, int] = {}
        self.nests: dict[ir.For, Nest] = {}
        self.top: list[Loop] = []

    def bind(self, func: ir.PrimFunc) -> None:
        """Give the symbolic sizes of arguments their value, and their strides those of arrays without gaps."""
        for buffer in func.buffer_map.values():
            step = 1
            sizes = [self.number(size) for size in buffer.shape]
            self.values |= {var: self.sizes for size in buffer.shape for var in variables_in(size)}
            for stride, size in zip(reversed(buffer.strides), reversed(sizes)):
                if isinstance(stride, ir.Var):
                    self.values[stride] = step
                step *= max(1, size)

    def number(self, value: ir.PrimExpr) -> int:
        """A size as a number; symbolic ones are `sizes`, loops around are in the middle."""
        known = {v: self._constant_value(v) for v in variables_in(value)}
        try:
            return int(evaluate(value, known))
        except TVMagicError:
            return self.sizes

    def _constant_value(self, var: ir.Var) -> int:
        value = self.values.get(var)
        if isinstance(value, Address):
            return value.offset + sum(step * (self.extents[k[0]] // 2) // k[2] for k, step in value.strides.items())
        if isinstance(value, int):
            return value
        return self.extents[var] // 2 if var in self.extents else self.sizes

    def linear(self, value: ir.PrimExpr) -> Address:
        """An index as an address."""
        return Linear(self.values, self.extents).visit(value)

    def access(self, buffer: Any, indices: Any, dtype: Any, store: bool, node: Any) -> Access:
        """What is read or written at the indices of a buffer."""
        lanes = max(buffer.dtype.lanes, 1)
        total, step = Address({}, 0), 1
        linear = Linear(self.values, self.extents)
        for index, size in zip(reversed(indices), reversed(buffer.shape)):
            part = linear.visit(index)
            scaled = Address({k: s * step * lanes for k, s in part.strides.items()}, part.offset * step * lanes, part.known, part.loose, part.divisions)  # fmt: skip
            total = linear.sum(total, scaled, 1)
            step *= max(1, self.number(size))
        if lanes > 1:  # elements that are vectors are contiguous
            total = linear.sum(total, Address({(LANE, "", 1): 1}, 0), 1)
        size = step * lanes * max(1, buffer.dtype.bits // 8)
        size = self.allocated.get(buffer.data) or size
        own = buffer.data in self.allocated
        found = Access(buffer.name, buffer.data, buffer.dtype.bits, dtype.lanes, total, store, buffer.scope(), size, tuple(self.loops), node, own=own)  # fmt: skip
        for loop in self.loops:
            loop.subtree.append(found)
        return found

    # ------------------------------------------------------------------------ statements

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        extent = node.extent.value if isinstance(node.extent, ir.IntImm) else self.number(node.extent)
        loop = Loop(node.loop_var, max(extent, 0), node, self.loops[-1] if self.loops else None)
        if not self.loops:
            self.top.append(loop)
        self.loops.append(loop)
        self.extents[node.loop_var] = loop.extent
        if not isinstance(node.min, ir.IntImm) and (first := self.linear(node.min)).strides:
            linear = Linear(self.values, self.extents)
            self.values[node.loop_var] = linear.sum(first, Address({(node.loop_var, "", 1): 1}, 0), 1)
        self.visit(node.body)
        self.loops.pop()

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        """Blocks and threads of a GPU are loops: on a CPU they run one after the other."""
        if node.attr_key in ("thread_extent", "virtual_thread") and isinstance(node.node, ir.IterVar):
            self.loop(ir.For(node.node.var, 0, node.value, ir.ForKind.SERIAL, node.body))
            return
        before, self.any_order = self.any_order, self.any_order or node.attr_key == ANY_ORDER
        self.visit_children(node)
        self.any_order = before

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        if node.var.dtype.is_int and node.var.dtype.is_scalar:
            self.values[node.var] = self.linear(node.value)
            self.lets[node.var] = ir.substitute(node.value, self.lets)
        else:
            self.data[node.var] = node.value, self.loops[-1] if self.loops else None
        self.visit(node.body)

    @ir.handles(ir.Let)
    def let_value(self, node: ir.Let) -> None:
        self.visit(node.body)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        total = math.prod(max(1, self.number(e)) for e in node.extents)
        self.allocated[node.buffer_var] = total * node.dtype.lanes * max(1, node.dtype.bits // 8)
        self.visit(node.body)

    def _first_alone(self, condition: ir.PrimExpr) -> bool:
        """Whether a condition holds in the first iteration of loops alone: such a start of a sum costs nothing beside it."""
        if isinstance(condition, ir.And):
            return self._first_alone(condition.a) and self._first_alone(condition.b)
        if not isinstance(condition, ir.EQ):
            return False
        value = condition.a if is_zero(condition.b) else condition.b if is_zero(condition.a) else None
        place = self.linear(value) if value is not None else Address({}, 0)
        return bool(place.strides) and place.known and not place.offset and all(s > 0 for s in place.strides.values())

    def _loops_of(self, var: ir.Var) -> frozenset[ir.Var]:
        """The loops' variables that a variable depends on."""
        return Linear(self.values, self.extents).variables(var)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        if self._first_alone(node.condition) and node.else_case is None:
            used = frozenset(v for part in variables_in(node.condition) for v in self._loops_of(part))
            ir.post_order_visit(
                node.then_case,
                lambda n: self.begun.update({n.buffer.data: used}) if isinstance(n, ir.BufferStore) else None,
            )
            return
        if _is_versioned(node):  # all iterations but the last few run the first version
            self.visit(node.then_case)
            return
        self.guards.append(ir.substitute(node.condition, self.lets))
        self.visit(node.then_case)
        if node.else_case is not None:
            self.visit(node.else_case)
        self.guards.pop()

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        values = _Values(self, node.buffer.data)
        values.visit(node.value)
        target = self.access(node.buffer, node.indices, node.value.dtype, True, node)
        value, _ = (
            self.data.get(node.value, (node.value, None)) if isinstance(node.value, ir.Var) else (node.value, None)
        )
        if not self.loops:
            self.bare += node.value.dtype.lanes
            return
        guards = [*self.guards, *values.guards]
        made = Statement(
            node, value, target, values.loads, values.found, node.value.dtype.lanes, tuple(self.loops), guards,
            node.value.dtype.is_float, self.any_order, self._init_guard_vars(target.data), tuple(self.guards), tuple(values.choices),
        )  # fmt: skip
        inner = self.loops[-1].node
        self.nests.setdefault(inner, Nest(tuple(self.loops), [])).statements.append(made)

    def _init_guard_vars(self, data: ir.Var) -> frozenset[ir.Var]:
        """The variables of the condition below which the loops around store what a sum in some memory begins with."""
        used, around = self.begun.get(data, frozenset()), {loop.var for loop in self.loops}
        return used if used <= around else frozenset()

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> None:
        pass

    @ir.handles(ir.AssertStmt, ir.While, ir.Block, ir.BlockRealize)
    def through(self, node: Any) -> None:
        self.visit_children(node)


class Nests(NamedTuple):
    """The nests of a program in its order, its outermost loops, and how many elements it stores outside loops."""

    nests: list[Nest]
    top: list[Loop]
    bare: int


def nests_of(func: ir.PrimFunc, sizes: int = 256) -> Nests:
    """The nests of a lowered function, such as one of the last program; symbolic sizes become `sizes`."""
    walk = _Walk(sizes)
    walk.bind(func)
    walk.visit(func.body)
    return Nests(list(walk.nests.values()), walk.top, walk.bare)
