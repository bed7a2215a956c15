"""Vectorize loops that store a few adjacent elements per iteration: colours of pixels, complex numbers, repeated elements.

LLVM takes such stores for scatters: it leaves the loop scalar, or scatters the lanes one by one. Here the values of each element become a
vector over many iterations, and shuffles interleave the vectors for contiguous stores:

    for i in range(4096):                      for v in range(256):
        Y[i * 2] = A[i]                            Y[v * 32:v * 32 + 32] = shuffle(A[v * 16:v * 16 + 16], B[v * 16:v * 16 + 16])
        Y[i * 2 + 1] = B[i]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.codegen.late.common import (
    MADE_BY,
    NotApplicable,
    StatementMutator,
    annotation,
    disjoint_memory,
    extent_from,
    has_many_operations,
    keep_scalar,
    late_pass,
    unchecked_on_cpus,
)
from tvmagic.codegen.late.condition_folder import ConditionFolder
from tvmagic.codegen.late.share_strided_loads import contiguous, offsets_of, share_loads
from tvmagic.ir.deep_recursion import written_size
from tvmagic.ir.loop_annotations import makers_of
from tvmagic.ir.ops import floordiv
from tvmagic.ir.query import contains, linear_terms, nodes_of
from tvmagic.passes import note
from tvmagic.target import Machine, Target
from tvmagic.tir.transform.loops.lanes import same_lanes
from tvmagic.tir.transform.loops.vectorize_loop import at_once

_COUNTERS = (
    ir.DataType("int32"),
    ir.DataType("int64"),
)  # types of loops that may also count what several iterations write
_FEWEST_LANES = 4  # of which a vector is worth its shuffles
_MOST_WRITTEN = 64  # stores in an iteration once its loops are written out
_MOST_STORES = 8  # to elements of their own, in an iteration
_LARGEST = 400  # nodes of a store, once what is in variables and what was stored before is written where it is used


def _when(target: Target, check_bounds: bool) -> Literal[True] | str:
    return (
        "vectors of a fixed length are narrower than those of SVE"
        if target.has_sve
        else unchecked_on_cpus(target, check_bounds)
    )


@late_pass("VectorizeInterleavedStores", when=_when)
def vectorize_interleaved_stores(func: ir.PrimFunc, target: Target, made_by: str = "") -> ir.PrimFunc:
    """Vectorize loops that store a few adjacent elements per iteration; with `made_by`, only loops that this late pass made."""
    loops = [loop for loop in nodes_of(func.body, ir.For) if not made_by or annotation(loop, MADE_BY) == made_by]
    if not loops or has_many_operations(func.body):
        return func
    return func.with_body(_Vectorizer(func, target, made_by).visit(func.body))


class _Vectorizer(StatementMutator):
    def __init__(self, func: ir.PrimFunc, target: Target, made_by: str) -> None:
        super().__init__(func)
        self.target, self.made_by = target, made_by
        self.apart = disjoint_memory(func, volatile=False)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        made = self._vectorized(node) if (annotation(node, MADE_BY) or "") == self.made_by else None
        if made is None:
            return self.visit_children(node)
        vectors, tail = made
        note("late", f"vectorized the interleaved stores of loop `{node.loop_var.name}`", node)
        vectors = vectors.with_(annotations={MADE_BY: ir.StringImm(", ".join([*makers_of(node), _MAKER]))})
        tail = keep_scalar(tail)
        if not isinstance(tail.extent, ir.IntImm):
            tail = tail.with_(annotations={**tail.annotations, MADE_BY: ir.StringImm(_MAKER)})
            return ir.SeqStmt([vectors, tail])
        # the tail of a constant number of iterations may fill shorter vectors
        return ir.SeqStmt.flatten(vectors, self.visit(tail)) if tail.extent.value > 0 else vectors

    def _vectorized(self, loop: ir.For) -> tuple[ir.For, ir.For] | None:
        if self.any_order:
            return None
        if loop.kind is ir.ForKind.SERIAL:
            return _in_vectors_and_tail(loop, self.target.machine, self.apart)
        if loop.kind is not ir.ForKind.PARALLEL or not self.target.family.has_threads:
            return None
        for one in (_over_periods(loop), loop):
            made = one and _in_vectors_and_tail(one.with_(kind=ir.ForKind.SERIAL), self.target.machine, self.apart)
            if made is not None:
                return made[0].with_(kind=ir.ForKind.PARALLEL), made[1]
        return None


# What MADE_BY says of loops over vectors, and of the iterations that are left of a loop of an unknown number of them.
_MAKER = "VectorizeInterleavedStores"


@dataclass(frozen=True)
class _Rows:
    """The stores of one iteration, for each value of `var` from `first` on, with inner loops unrolled and lets substituted."""

    var: ir.Var
    first: ir.PrimExpr
    count: ir.PrimExpr
    stores: list[ir.BufferStore]


@dataclass(frozen=True)
class _Row:
    """The stores of one iteration to contiguous elements, in order of their addresses."""

    stores: list[ir.BufferStore]


def _in_vectors_and_tail(
    loop: ir.For, machine: Machine, apart: Callable[[ir.Var, ir.Var], bool]
) -> tuple[ir.For, ir.For] | None:
    """Return the loop over vectors and the loop over the remaining iterations, or None if the loop does not qualify.

    `apart` tells whether two pointers provably lead to disjoint memory.
    """
    rows = _written_out(loop)
    if rows is None or len(rows.stores) > _MOST_STORES:
        return None
    loads = [load for store in rows.stores for load in nodes_of(store, ir.BufferLoad)]
    written, loaded = {store.buffer.data for store in rows.stores}, {load.buffer.data for load in loads}
    if not all(apart(a, b) for a in written for b in loaded | (written - {a})):
        return None
    if any(a.predicate is not None or a.buffer.dtype.lane_code != 1 for a in (*loads, *rows.stores)):
        return None
    grouped = _rows_of(rows)
    if grouped is None:
        return None
    widest = max([a.buffer.dtype for a in (*loads, *rows.stores)], key=lambda dtype: dtype.bits)
    lanes = machine.lanes(widest)
    if isinstance(rows.count, ir.IntImm):
        if rows.count.value < _FEWEST_LANES:
            return None
        lanes = min(lanes, 1 << rows.count.value.bit_length() - 1)
    if lanes < _FEWEST_LANES:
        return None
    return _in_vectors(loop, rows, grouped, lanes)


def _over_periods(loop: ir.For) -> ir.For | None:
    """Return the loop as one over periods of its index quotients, or None if its only store divides no index by a small constant.

    for i in T.parallel(4096):                 for i in T.parallel(2048):
        Y[i] = A[i // 2]                           for step in range(2):
                                                       Y[i * 2 + step] = A[(i * 2 + step) // 2]
    """
    stores = _stores_in(loop.body, {}) if loop.loop_var.dtype in _COUNTERS else None
    period = _period(stores, loop.loop_var) if stores is not None and len(stores) == 1 else 1
    if period == 1 or not all(isinstance(n, ir.IntImm) and n.value % period == 0 for n in (loop.min, loop.extent)):
        return None
    var, step = ir.Var(loop.loop_var.name, loop.loop_var.dtype), ir.Var("step", loop.loop_var.dtype)
    body = ir.substitute(loop.body, {loop.loop_var: var * period + step})
    steps = ir.For(step, ir.IntImm(step.dtype, 0), ir.IntImm(step.dtype, period), ir.ForKind.SERIAL, body)
    first, count = floordiv(loop.min, period), floordiv(loop.extent, period)
    return loop.with_(loop_var=var, min=first, extent=count, body=steps)


# ---------------------------------------------------------------------------- what an iteration stores


def _written_out(loop: ir.For) -> _Rows | None:
    """Return the stores of one iteration; for a single store with divided indices, those of one period."""
    found = _stores_in(loop.body, {}) if loop.loop_var.dtype in _COUNTERS else None
    if found is None:
        return None
    var, first, count = loop.loop_var, loop.min, loop.extent
    alone = len(found) == len({store.buffer.data for store in found})
    if alone and (len(found) > 1 or _period(found, var) == 1):
        return None  # one element to each, of which LLVM makes vectors
    folded = _Folded(var, first, count)
    stores = _last_values([folded.visit(store) for store in found])
    if stores is None:
        return None
    period = _period(stores, var) if len(stores) == 1 else 1
    if period == 1:
        return _Rows(var, first, count, stores)
    if not all(isinstance(n, ir.IntImm) and n.value % period == 0 for n in (first, count)):
        return None
    each = ir.Var(var.name, var.dtype)
    first, count = floordiv(first, period), floordiv(count, period)
    folded = _Folded(each, first, count)
    return _Rows(
        each, first, count, [folded.visit(ir.substitute(stores[0], {var: each * period + n})) for n in range(period)]
    )


def _stores_in(body: ir.Stmt, known: dict[ir.Var, ir.PrimExpr]) -> list[ir.BufferStore] | None:
    """Return the stores of a body with short loops unrolled, or None if it does anything else."""
    while isinstance(body, ir.LetStmt):
        value = ir.substitute(body.value, known)
        if written_size(value) > _LARGEST:
            return None
        known = {**known, body.var: value}
        body = body.body
    if isinstance(body, ir.BufferStore):
        store = ir.substitute(body, known)
        return [store] if body.value.dtype.lane_code == 1 and written_size(store) <= _LARGEST else None
    parts: list[list[ir.BufferStore] | None] = []
    if isinstance(body, ir.SeqStmt) and len(body.seq) <= _MOST_WRITTEN:
        parts = [_stores_in(part, known) for part in body.seq]
    elif isinstance(body, ir.For) and body.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
        if not isinstance(body.extent, ir.IntImm) or body.extent.value not in Machine.interleaved:
            return None
        if body.loop_var.dtype not in _COUNTERS or _count_stores(body) > _MOST_WRITTEN:
            return None
        parts = [_stores_in(body.body, {**known, body.loop_var: body.min + n}) for n in range(body.extent.value)]
    if not parts or any(part is None for part in parts):
        return None
    stores = [store for part in parts if part is not None for store in part]
    return stores if len(stores) <= _MOST_WRITTEN else None


def _count_stores(body: ir.Stmt) -> int:
    """Return the number of stores that a body has once its loops are written out, or 0 if they cannot be."""
    while isinstance(body, ir.LetStmt):
        body = body.body
    if isinstance(body, ir.SeqStmt):
        return sum(map(_count_stores, body.seq))
    if isinstance(body, ir.For):
        return body.extent.value * _count_stores(body.body) if isinstance(body.extent, ir.IntImm) else 0
    return int(isinstance(body, ir.BufferStore))


def _last_values(stores: list[ir.BufferStore]) -> list[ir.BufferStore] | None:
    """Return the last store to each element, with stored values forwarded to loads.

    None if it is unknown whether a load reads such an element, or if it reads one of another iteration.
    """
    kept: list[ir.BufferStore] = []
    analyzer = Analyzer()

    def before(access: ir.BufferLoad | ir.BufferStore) -> ir.BufferStore | None:
        """Return the earlier store to the accessed element, or None. Raises `NotApplicable` if that cannot be proved."""
        for store in kept:
            if store.buffer.data is access.buffer.data:
                if store.buffer.dtype != access.buffer.dtype or not len(store.indices) == len(access.indices) == 1:
                    raise NotApplicable
                apart = analyzer.canonical_simplify(store.indices[0] - access.indices[0])
                if not isinstance(apart, ir.IntImm):
                    raise NotApplicable
                if apart.value == 0:
                    return store
        return None

    written = {store.buffer.data for store in stores}
    if not any(load.buffer.data in written for store in stores for load in nodes_of(store, ir.BufferLoad)):
        return stores
    try:
        for store in stores:
            made = _Forwarded(written, before).visit(store)
            if written_size(made) > _LARGEST:
                return None
            old = before(made)
            kept = [other for other in kept if other is not old] + [made]
    except NotApplicable:
        return None
    return kept


class _Forwarded(ir.Mutator):
    """Replaces loads by the values stored before."""

    def __init__(self, written: set[ir.Var], before: Callable[[ir.BufferLoad], ir.BufferStore | None]) -> None:
        self.written, self.before = written, before

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        if node.buffer.data not in self.written:
            return self.visit_children(node)
        store = self.before(node)
        if store is None or store.predicate is not None:
            raise NotApplicable
        return store.value


def _period(stores: list[ir.BufferStore], var: ir.Var) -> int:
    """Return the number of iterations after which all index quotients and remainders by constants repeat, or 1 if there are none or too many."""
    divisors = [
        node.b.value
        for node in nodes_of(stores[0], ir.FloorDiv, ir.FloorMod)
        if isinstance(node.b, ir.IntImm) and uses_var(node.a, {var}) and not contains(node.a, ir.BufferLoad)
    ]
    period = math.lcm(1, *divisors)
    return period if period in Machine.interleaved else 1


class _Folded(ConditionFolder):
    """Simplifies indices and folds decided conditionals."""

    def __init__(self, var: ir.Var, first: ir.PrimExpr, count: ir.PrimExpr) -> None:
        self.analyzer = Analyzer()
        self.analyzer.bind(var, ir.Range.from_min_extent(first, count))

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> ir.BufferLoad | ir.BufferStore:
        node = self.visit_children(node)
        return node.with_(indices=ir.mutate_all(self.analyzer.canonical_simplify, node.indices))


# ---------------------------------------------------------------------------- rows


def _rows_of(rows: _Rows) -> list[_Row] | None:
    """Return the stores grouped by memory, or None unless each group is contiguous and continued by the next iteration."""
    by_memory: dict[ir.Var, list[ir.BufferStore]] = {}
    for store in rows.stores:
        by_memory.setdefault(store.buffer.data, []).append(store)
    found = [_row(stores, rows.var) for stores in by_memory.values()]
    if any(row is None for row in found) or all(len(stores) == 1 for stores in by_memory.values()):
        return None
    return [row for row in found if row is not None]


def _row(stores: list[ir.BufferStore], var: ir.Var) -> _Row | None:
    if any(len(store.indices) != 1 for store in stores):
        return None
    first, analyzer = stores[0].indices[0], Analyzer()
    places: dict[int, ir.BufferStore] = {}
    for store in stores:
        place = analyzer.canonical_simplify(store.indices[0] - first)
        if not isinstance(place, ir.IntImm):
            return None
        places[place.value] = store
    least = min(places)
    if sorted(places) != list(range(least, least + len(stores))):
        return None
    moving = [(term, factor) for term, factor in linear_terms(first)[0] if uses_var(term, {var})]
    if [(term is var, factor) for term, factor in moving] != [(True, len(stores))]:
        return None
    return _Row([places[n] for n in sorted(places)])


# ---------------------------------------------------------------------------- vectors


def _in_vectors(loop: ir.For, rows: _Rows, found: list[_Row], lanes: int) -> tuple[ir.For, ir.For] | None:
    """Return the loop over vectors of `lanes` iterations and the loop over the remaining ones."""
    step = ir.Var(f"{rows.var.name}.vector", rows.var.dtype)
    lane = ir.Var(f"{rows.var.name}.lane", rows.var.dtype)
    begin = rows.first + step * lanes
    flat = [store for row in found for store in row.stores]
    made = [_vector(store, {rows.var: begin + lane}, lane, lanes) for store in flat]
    values = [value for value in made if value is not None]
    if len(values) < len(flat):
        return None
    vectors = dict(zip(flat, zip(values, share_loads(values))))
    stores: list[ir.Stmt] = []
    for row in found:
        base = ir.substitute(row.stores[0].indices[0], {rows.var: begin})
        stores += _side_by_side([vectors[store] for store in row.stores], row.stores[0], base, lanes)
    whole = floordiv(rows.count, lanes)
    each = 1 if rows.var is loop.loop_var else len(rows.stores)  # iterations of the loop for one of `rows`
    done = whole * (lanes * each)
    begin = loop.min + done
    rest = loop.with_(min=begin, extent=extent_from(begin, loop.extent - done), kind=ir.ForKind.SERIAL)
    return ir.For(step, ir.IntImm(step.dtype, 0), whole, ir.ForKind.SERIAL, ir.SeqStmt(stores), span=loop.span), rest


def _vector(store: ir.BufferStore, at: dict[ir.Var, ir.PrimExpr], lane: ir.Var, lanes: int) -> ir.PrimExpr | None:
    """Return the values that a store writes in `lanes` iterations, or None if it loads elements that are far apart."""
    plain = ir.substitute(store, at).with_(indices=(lane,))
    made = at_once(ir.For(lane, ir.IntImm(lane.dtype, 0), ir.IntImm(lane.dtype, lanes), ir.ForKind.VECTORIZED, plain))
    if not isinstance(made, ir.BufferStore) or not all(map(_together, nodes_of(made.value, ir.BufferLoad))):
        return None
    return made.value


def _together(load: ir.BufferLoad) -> bool:
    """Return whether a load reads one element, or elements at small constant offsets."""
    if len(load.indices) != 1:
        return False
    index = load.indices[0]
    if not index.dtype.is_vector:
        return True
    return (
        isinstance(index, ir.Ramp)
        and isinstance(index.stride, ir.IntImm)
        and 1 <= abs(index.stride.value) <= Machine.widest_shuffle
    )


def _side_by_side(
    vectors: list[tuple[ir.PrimExpr, ir.PrimExpr]], store: ir.BufferStore, base: ir.PrimExpr, lanes: int
) -> list[ir.Stmt]:
    """Return the stores of the interleaved vectors.

    Each vector comes in two forms: with loads of its own, and with shared loads.
    """
    count, found = len(vectors), list[ir.Stmt]()
    alone, shared = [one for one, _ in vectors], [other for _, other in vectors]
    for part in range(count):
        places = range(part * lanes, (part + 1) * lanes)
        value = _merged(alone, places)
        if value is None:
            value = _picked(shared, [place % count * lanes + place // count for place in places])
        found.append(store.with_(value=value, indices=(ir.Ramp(base + part * lanes, ir.IntImm(base.dtype, 1), lanes),)))
    return found


def _picked(vectors: list[ir.PrimExpr], lanes: list[int]) -> ir.PrimExpr:
    return ir.Shuffle(vectors, [ir.IntImm("int32", lane) for lane in lanes])


def _merged(vectors: list[ir.PrimExpr], places: range) -> ir.PrimExpr | None:
    """Return lanes `places` of the interleaved vectors, computed on interleaved operands.

    None if the operands are not interleaved in memory, or if the vectors are computed differently.
    """
    first, count = vectors[0], len(vectors)
    if any(type(v) is not type(first) or v.dtype != first.dtype for v in vectors):
        return None
    if all(ir.expr_deep_equal(v, first) for v in vectors):
        same = first.dtype.is_scalar or isinstance(first, ir.Broadcast)
        return first if same else _picked([first], [place // count for place in places])
    if first.dtype.is_scalar:
        return _picked(vectors, [place % count for place in places])
    if isinstance(first, ir.BufferLoad):
        return _side_by_side_in_memory([v for v in vectors if isinstance(v, ir.BufferLoad)], places)
    if isinstance(first, ir.Broadcast):
        return _merged([v.value for v in vectors if isinstance(v, ir.Broadcast)], places)
    if isinstance(first, ir.Call) and any(
        v.op is not first.op or len(v.args) != len(first.args) for v in vectors if isinstance(v, ir.Call)
    ):
        return None
    if not isinstance(first, (ir.BinaryOp, ir.Cast, ir.Select, ir.Call)):
        return None
    return _computed(first, [_merged(list(parts), places) for parts in zip(*map(_operands, vectors))])


def _operands(node: ir.PrimExpr) -> tuple[ir.PrimExpr, ...]:
    if isinstance(node, ir.Call):
        return node.args
    return tuple([getattr(node, name) for name in _OPERANDS.get(type(node), ("a", "b"))])


_OPERANDS: dict[type, tuple[str, ...]] = {ir.Cast: ("value",), ir.Select: ("condition", "true_value", "false_value")}


def _computed(node: ir.PrimExpr, parts: list[ir.PrimExpr | None]) -> ir.PrimExpr | None:
    """Return a node with other operands of the same number of lanes."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    lanes = same_lanes(*known)
    if isinstance(node, ir.Call):
        return node.with_(args=tuple(lanes))
    return node.with_(**dict(zip(_OPERANDS.get(type(node), ("a", "b")), lanes)))


def _side_by_side_in_memory(loads: list[ir.BufferLoad], places: range) -> ir.PrimExpr | None:
    """Return elements `places` of loads that interleave in memory."""
    count, lanes = len(loads), len(places)
    offsets = offsets_of(loads, count)
    if offsets is None:
        return None
    least = offsets.index(min(offsets))
    ramp, order = loads[least].indices[0], [offset - offsets[least] for offset in offsets]
    assert isinstance(ramp, ir.Ramp)
    if order == list(range(count)):
        return contiguous(loads[least], ramp.base + places.start, lanes)
    parts: list[ir.PrimExpr] = [contiguous(loads[least], ramp.base + part * lanes, lanes) for part in range(count)]
    return _picked(parts, [place // count * count + order[place % count] for place in places])
