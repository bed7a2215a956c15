"""The reducer that the init and the update of a reduction block make up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvmagic import ir
from tvmagic.arith.reducer_laws import can_regroup
from tvmagic.errors import TVMagicError
from tvmagic.ir.conditional import choice
from tvmagic.ir.ops import make_const

_COMBINING = (ir.Add, ir.Mul, ir.Min, ir.Max)
# What a sum and a product start with; a minimum or maximum may start with any value, which each thread takes in again.
_NEUTRAL: Mapping[type, int] = {ir.Add: 0, ir.Mul: 1}


@dataclass(frozen=True)
class BlockReduction:
    """`updates`: the store of each result; `added`: the values that one iteration takes in, one a result."""

    reducer: ir.CommReducer
    updates: list[ir.BufferStore]
    added: list[ir.PrimExpr]


def block_reduction(block: ir.Block) -> BlockReduction:
    """What a reduction block combines, and how.

    Known are results that are each a sum, product, minimum or maximum of their own, and results that one
    comparison chooses together (argmax, argmin). Raises `TVMagicError` at others.
    """
    stores = stores_of_reduction(block)
    if stores is None:
        raise TVMagicError(
            f"the init and the update of block `{block.name_hint}` are not stores to the same places",
            node=block,
            hint="a reduction over threads stores each result once in its init and once in its update",
            code="schedule.init_and_update_differ",
        )
    init, lets, update = stores
    found = find_reduction(init, lets, _in_order(lets, update))
    if found is None:
        raise TVMagicError(
            f"how block `{block.name_hint}` combines its values, or what it starts with, is not known to be a reduction",
            node=block,
            hint="results are sums, products, minima or maxima, or are chosen together by one comparison",
            code="schedule.unknown_reducer",
        )
    return found


def find_reduction(
    init: list[ir.BufferStore], lets: list[ir.LetStmt], update: list[ir.BufferStore]
) -> BlockReduction | None:
    """The reduction that stores with these first values and updates are (`stores_of_reduction`); None if it is not known.

    Its results are in the order of `update`.
    """
    starts = {s.buffer: s.value for s in init}
    identity = [starts[s.buffer] for s in update]
    outputs = _Outputs(
        _values_of(lets, update),
        [ir.BufferLoad(s.buffer, s.indices) for s in update],
        identity,
        [ir.Var(f"x{i}", v.dtype) for i, v in enumerate(identity)],
        [ir.Var(f"y{i}", v.dtype) for i, v in enumerate(identity)],
    )
    for match in (_each_alone, _chosen_together):
        found = match(outputs)
        if found is None or any(_Reads.test(a, starts) for a in found[0]):
            continue
        reducer = ir.CommReducer(outputs.lhs, outputs.rhs, found[1], identity)
        if _is_closed(reducer) and can_regroup(reducer):
            return BlockReduction(reducer, update, found[0])
    return None


# ---------------------------------------------------------------------------- stores


def stores_of_reduction(block: ir.Block) -> tuple[list[ir.BufferStore], list[ir.LetStmt], list[ir.BufferStore]] | None:
    """The stores of the init, and the lets and stores of the update; None if both do not store once to each of the same places."""
    assert block.init is not None
    init, update = _stores_of(block.init), _stores_of(block.body)
    if init is None or update is None or init[0] or not _same_places(init[1], update[1]):
        return None
    return init[1], *update


def _stores_of(stmt: ir.Stmt) -> tuple[list[ir.LetStmt], list[ir.BufferStore]] | None:
    """The lets and then the stores that a statement consists of."""
    lets: list[ir.LetStmt] = []
    while isinstance(stmt, ir.LetStmt):
        lets.append(stmt)
        stmt = stmt.body
    parts = stmt.seq if isinstance(stmt, ir.SeqStmt) else (stmt,)
    stores = [p for p in parts if isinstance(p, ir.BufferStore)]
    return (lets, stores) if len(stores) == len(parts) else None


def _same_places(init: list[ir.BufferStore], update: list[ir.BufferStore]) -> bool:
    """Whether both store once to each of the same buffers, at the same indices."""
    places = {s.buffer: s.indices for s in init}
    if not len(places) == len(init) == len(update) == len({s.buffer for s in update}):
        return False
    return all(s.buffer in places and all(map(ir.expr_deep_equal, places[s.buffer], s.indices)) for s in update)


def _values_of(lets: list[ir.LetStmt], stores: list[ir.BufferStore]) -> list[ir.PrimExpr]:
    """What stores behind lets store, without the variables of the lets."""
    known: dict[ir.Var, ir.PrimExpr] = {}
    for let in lets:
        known[let.var] = ir.substitute(let.value, known)
    return [ir.substitute(s.value, known) for s in stores]


def _in_order(lets: list[ir.LetStmt], stores: list[ir.BufferStore]) -> list[ir.BufferStore]:
    """The stores in the order in which their values are computed."""
    place = {let.var: n for n, let in enumerate(lets)}
    return sorted(stores, key=lambda s: place.get(s.value, len(lets)) if isinstance(s.value, ir.Var) else len(lets))


class _Reads(ir.Visitor):
    """Whether an expression reads one of some buffers."""

    def __init__(self, buffers: Mapping[ir.Buffer, ir.PrimExpr]) -> None:
        self.buffers, self.found = buffers, False

    @staticmethod
    def test(expr: ir.PrimExpr, buffers: Mapping[ir.Buffer, ir.PrimExpr]) -> bool:
        visitor = _Reads(buffers)
        visitor.visit(expr)
        return visitor.found

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.found = self.found or node.buffer in self.buffers
        self.visit_children(node)


# ---------------------------------------------------------------------------- patterns

_Match = tuple[list[ir.PrimExpr], list[ir.PrimExpr]]


class _Outputs(NamedTuple):
    """Of each result: the value that an iteration stores, the old one, the first one, and the reducer's variables."""

    values: list[ir.PrimExpr]
    loads: list[ir.BufferLoad]
    identity: list[ir.PrimExpr]
    lhs: list[ir.Var]
    rhs: list[ir.Var]


def _other(value: ir.BinaryOp, load: ir.BufferLoad) -> ir.PrimExpr | None:
    """The operand of `value` beside `load`."""
    if ir.expr_deep_equal(value.a, load):
        return value.b
    return value.a if ir.expr_deep_equal(value.b, load) else None


def _each_alone(outputs: _Outputs) -> _Match | None:
    """Results that are each a sum, product, minimum or maximum."""
    added: list[ir.PrimExpr] = []
    result: list[ir.PrimExpr] = []
    for value, load, start, x, y in zip(*outputs):
        if not isinstance(value, _COMBINING):
            return None
        neutral = _NEUTRAL.get(type(value))
        if neutral is not None and not _same_number(start, make_const(value.dtype, neutral)):
            return None
        other = _other(value, load)
        if other is None:
            return None
        added.append(other)
        result.append(type(value)(x, y))
    return added, result


def _same_number(a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
    return isinstance(a, (ir.IntImm, ir.FloatImm)) and isinstance(b, (ir.IntImm, ir.FloatImm)) and a.value == b.value


def _chosen_together(outputs: _Outputs) -> _Match | None:
    """Results that are each a choice between the old value and a new one."""
    added: list[ir.PrimExpr] = []
    for value, load in zip(outputs.values, outputs.loads):
        chosen = choice(value)
        if chosen is None:
            return None
        _, yes, no = chosen
        if ir.expr_deep_equal(yes, load):
            added.append(no)
        elif ir.expr_deep_equal(no, load):
            added.append(yes)
        else:
            return None
    exchange = _Exchange([*zip(outputs.loads, outputs.lhs), *zip(added, outputs.rhs)])
    return added, [exchange.visit(value) for value in outputs.values]


class _Exchange(ir.Mutator):
    """Puts expressions in the place of those that are equal to others."""

    def __init__(self, pairs: Sequence[tuple[ir.PrimExpr, ir.PrimExpr]]) -> None:
        self.pairs = pairs

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        for old, new in self.pairs:
            if type(node) is type(old) and ir.expr_deep_equal(node, old):
                return new
        return self.visit_children(node)


class _Closed(ir.Visitor):
    """Whether there is nothing but variables of the reducer, constants and computation."""

    def __init__(self, variables: set[ir.Var]) -> None:
        self.variables, self.holds = variables, True

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        self.holds = self.holds and var in self.variables

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.holds = False


def _is_closed(reducer: ir.CommReducer) -> bool:
    start = _Closed(set())
    for value in reducer.identity_element:
        start.visit(value)
    combined = _Closed({*reducer.lhs, *reducer.rhs})
    for value in reducer.result:
        combined.visit(value)
    return start.holds and combined.holds


def reduction_vars_stay_inside(block: ir.Block) -> bool:
    """Whether no store of the block's outputs is indexed by a reduced variable."""
    reduced = {v.var for v in block.iter_vars if v.iter_type == ir.IterVar.CommReduce}
    outputs = {region.buffer.data for region in block.writes}
    uses: list[ir.Var] = []

    def at_store(node: Any) -> None:
        if isinstance(node, ir.BufferStore) and node.buffer.data in outputs:
            for index in node.indices:
                ir.post_order_visit(index, lambda n: uses.append(n) if isinstance(n, ir.Var) and n in reduced else None)

    ir.post_order_visit(block.body, at_store)
    if block.init is not None:
        ir.post_order_visit(block.init, at_store)
    return not uses
