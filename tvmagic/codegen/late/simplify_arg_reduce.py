"""Drop the tie-breaking comparison of indices from argmin and argmax reductions.

    P[j] = 2147483647; V[j] = inf                    P[j] = 0; V[j] = inf
    for k in range(64):                              for k in range(64):
        take = X[k, j] < V[j]                            take = X[k, j] < V[j]
            or X[k, j] == V[j] and k < P[j]
        P[j] = k if take else P[j]                       P[j] = k if take else P[j]
        V[j] = X[k, j] if take else V[j]                 V[j] = X[k, j] if take else V[j]

The current best index comes from an earlier iteration, so no later index is smaller. Only the identity element is larger than all others:
the first index replaces it as the initial value. That changes nothing, as the first iteration would replace an identity pair in any case. Two
comparisons of floats remain, or one of integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.codegen.late.common import NotApplicable, disjoint_memory, late_pass, unchecked_on_cpus
from tvmagic.ir.conditional import choice as choice_of
from tvmagic.ir.constants import largest_integer, min_value
from tvmagic.ir.deep_recursion import written_size
from tvmagic.ir.ops import isnan
from tvmagic.ir.query import is_call, is_one, linear_terms, nodes_of
from tvmagic.passes import note

_LARGEST = 2000  # nodes of what is stored, once what is in variables is written where it is used
_LESS, _SAME, _MORE = "less", "same", "more"  # how a value is to the one that is kept
_NAN, _KEPT_NAN, _BOTH_NAN = "NaN", "kept NaN", "both NaN"
_NUMBERS = frozenset({_LESS, _SAME, _MORE})
_CASES = _NUMBERS | {_NAN, _KEPT_NAN, _BOTH_NAN}
# In which cases a comparison of a value with the kept one holds.
_HOLDS: dict[type, set[str]] = {
    ir.LT: {_LESS},
    ir.LE: {_LESS, _SAME},
    ir.GT: {_MORE},
    ir.GE: {_MORE, _SAME},
    ir.EQ: {_SAME},
    ir.NE: {_LESS, _MORE, _NAN, _KEPT_NAN, _BOTH_NAN},
}
_TURNED: dict[type, type] = {ir.LT: ir.GT, ir.LE: ir.GE, ir.GT: ir.LT, ir.GE: ir.LE, ir.EQ: ir.EQ, ir.NE: ir.NE}


@late_pass("SimplifyArgReduce", when=unchecked_on_cpus)
def simplify_arg_reduce(func: ir.PrimFunc) -> ir.PrimFunc:
    """Drop the tie-breaking comparison of indices from argmin and argmax reductions."""
    return func.with_body(_Searches(disjoint_memory(func)).visit(func.body))


@dataclass(frozen=True)
class _Choice:
    """A store of `value` if `condition` holds, else of the current value, in `loops`, with lets substituted.

    `source` is the statement with the conditional: the store, or the let before it. `computed` and `stored` number both in program order.
    """

    source: ir.LetStmt | ir.BufferStore
    store: ir.BufferStore
    condition: ir.PrimExpr
    value: ir.PrimExpr
    loops: tuple[ir.For, ...]
    computed: int
    stored: int

    @property
    def kept(self) -> ir.BufferLoad:
        """Current value of the element."""
        return ir.BufferLoad(self.store.buffer, self.store.indices)


class _Searches(ir.Mutator):
    def __init__(self, apart: Callable[[ir.Var, ir.Var], bool]) -> None:
        self.apart = apart
        self.values: dict[
            ir.Stmt, ir.PrimExpr
        ] = {}  # what is stored, or kept in a variable, in the place of something else

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        return node.with_(value=self.values.get(node, node.value))

    @ir.handles(ir.LetStmt)
    def let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        value = self.values.get(node, node.value)
        return node.with_(value=value, body=self.visit(node.body))

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        for number, part in enumerate(node.seq):
            if isinstance(part, ir.For):
                try:
                    self.values |= _shorter(part, node.seq[:number], self.apart)
                except NotApplicable:
                    continue
                note("late", f"simplified the argmin or argmax in loop `{part.loop_var.name}`: indices only grow", part)
        return self.visit_children(node)


def _shorter(
    nest: ir.For, before: tuple[ir.Stmt, ...], apart: Callable[[ir.Var, ir.Var], bool]
) -> dict[ir.Stmt, ir.PrimExpr]:
    """Return the new values of a nest's conditionals and initial indices. Raises `NotApplicable` if the nest has other statements."""
    found = _Choices(nest, apart)
    choices = found.found
    inside = {*found.known, *(loop.loop_var for choice in choices for loop in choice.loops)}
    searches = [_Search(*pair, inside) for pair in _pairs(choices)]
    _check_order(searches)
    begins = _Begins(before, {choice.store.buffer.data for choice in choices})
    values: dict[ir.Stmt, ir.PrimExpr] = {}
    for search in searches:
        place, best = begins.of(search.place), begins.of(search.best)
        search.check_begin(place.value, best.value)
        values.setdefault(place, search.begin(place.value))
        condition = search.later()
        for choice in (search.place, search.best):
            values[choice.source] = _with_condition(choice.source.value, condition)
    return values


def _with_condition(choice: ir.PrimExpr, condition: ir.PrimExpr) -> ir.PrimExpr:
    if isinstance(choice, ir.Select):
        return choice.with_(condition=condition)
    assert isinstance(choice, ir.Call)
    return choice.with_(args=(condition, *choice.args[1:]))


# ---------------------------------------------------------------------------- what a nest stores


class _Choices:
    """Collects the conditional stores of a nest in program order. Raises `NotApplicable` if the nest does anything else."""

    def __init__(self, nest: ir.For, apart: Callable[[ir.Var, ir.Var], bool]) -> None:
        self.found = list[_Choice]()
        self.known: dict[ir.Var, ir.PrimExpr] = {}  # what variables stand for
        self.kept: dict[ir.Var, tuple[ir.LetStmt, int, tuple[ir.For, ...]]] = {}
        self.loaded: set[ir.Var] = set()
        self.time = 0
        self._collect(nest, ())
        written = {c.store.buffer.data for c in self.found}
        for choice in self.found:
            if any(load.buffer.data in written for load in nodes_of(choice.value, ir.BufferLoad)):
                raise NotApplicable
        if not all(a is b or apart(a, b) for a in written for b in written | self.loaded):
            raise NotApplicable

    def _collect(self, body: ir.Stmt, loops: tuple[ir.For, ...]) -> None:
        while isinstance(body, (ir.LetStmt, ir.For)):
            if isinstance(body, ir.LetStmt):
                self.known[body.var] = self._resolved(body.value)
                self.kept[body.var] = body, self._next(), loops
            elif body.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
                loops = (*loops, body)
            else:
                raise NotApplicable
            body = body.body
        if isinstance(body, ir.SeqStmt):
            for part in body.seq:
                self._collect(part, loops)
        elif isinstance(body, ir.BufferStore) and body.predicate is None and len(body.indices) == 1:
            self.found.append(self._choice(body, loops))
        else:
            raise NotApplicable

    def _next(self) -> int:
        self.time += 1
        return self.time

    def _choice(self, stored: ir.BufferStore, loops: tuple[ir.For, ...]) -> _Choice:
        source, computed, there = stored, self._next(), loops
        if isinstance(stored.value, ir.Var) and stored.value in self.kept:
            source, computed, there = self.kept[stored.value]
        store = stored.with_(value=self._resolved(stored.value), indices=(self._resolved(stored.indices[0]),))
        parts = choice_of(store.value)
        if parts is None or there != loops or not _is_load_of(parts[2], store):
            raise NotApplicable
        return _Choice(source, store, parts[0], parts[1], loops, computed, self._next())

    def _resolved(self, value: ir.PrimExpr) -> ir.PrimExpr:
        value = ir.substitute(value, self.known)
        if written_size(value) > _LARGEST:
            raise NotApplicable
        self.loaded |= {load.buffer.data for load in nodes_of(value, ir.BufferLoad)}
        return value


def _is_load_of(value: ir.PrimExpr, store: ir.BufferStore) -> bool:
    return (
        isinstance(value, ir.BufferLoad)
        and value.buffer.data is store.buffer.data
        and value.dtype == store.value.dtype
        and value.predicate is None
        and all(map(ir.expr_deep_equal, value.indices, store.indices))
    )


def _pairs(choices: list[_Choice]) -> list[tuple[_Choice, _Choice]]:
    """Return pairs of conditional stores: an index and its value, under one condition that is evaluated before both stores."""
    if len(choices) % 2:
        raise NotApplicable
    found: list[tuple[_Choice, _Choice]] = []
    for a, b in zip(choices[::2], choices[1::2]):
        places = [c for c in (a, b) if not nodes_of(c.value, ir.BufferLoad) and c.value.dtype.is_int]
        asked_before = max(a.computed, b.computed) < min(a.stored, b.stored)
        if len(places) != 1 or a.loops != b.loops or not asked_before:
            raise NotApplicable
        if a.store.buffer.data is b.store.buffer.data or not ir.expr_deep_equal(a.condition, b.condition):
            raise NotApplicable
        if found and min(a.computed, b.computed) < max(c.stored for c in found[-1]):
            raise NotApplicable
        found.append((places[0], b if places[0] is a else a))
    return found


# ---------------------------------------------------------------------------- one search


class _Search:
    """An index and the value there, selected by one condition.

    Raises `NotApplicable` unless indices grow from iteration to iteration, no other result shares these iterations, and the condition asks for
    nothing else.
    """

    def __init__(self, place: _Choice, best: _Choice, inside: set[ir.Var]) -> None:
        self.place, self.best, self.inside = place, best, inside
        self.base = _first_lane(place.value)
        self.rising = [loop for loop in place.loops if uses_var(self.base, {loop.loop_var})]
        self.others = [loop for loop in place.loops if loop not in self.rising]
        for choice in (place, best):
            if any(uses_var(choice.store.indices[0], {loop.loop_var}) for loop in self.rising):
                raise NotApplicable
            _check_apart_in(choice.store.indices[0], self.others)
        self.step = self._least_step()
        self.at_first = self._cases(place.condition, True)
        self.afterwards = self._cases(place.condition, False)

    def _least_step(self) -> int:
        """Return the minimum difference between the index and that of the previous iteration."""
        factors = _factors(self.base, self.rising)
        span = 0
        for loop, factor in zip(reversed(self.rising), reversed(factors)):
            if factor < span + (factors[-1] if span else 1):
                raise NotApplicable
            if loop is not self.rising[0]:
                span += factor * (_extent(loop) - 1)
        return factors[-1]

    def _cases(self, node: ir.PrimExpr, before: bool) -> set[str]:
        """Return the cases in which a condition holds, for an index before the current one or after it."""
        if isinstance(node, (ir.And, ir.Or)):
            a, b = self._cases(node.a, before), self._cases(node.b, before)
            return a & b if isinstance(node, ir.And) else a | b
        if isinstance(node, ir.Not):
            return set(_CASES) - self._cases(node.a, before)
        if isinstance(node, ir.CmpOp):
            return self._compared(node, before)
        if is_call(node, "tir.isnan") and self._is_value(node.args[0]):
            return {_NAN, _BOTH_NAN}
        if is_call(node, "tir.isnan") and self._is_kept(node.args[0]):
            return {_KEPT_NAN, _BOTH_NAN}
        raise NotApplicable

    def _compared(self, node: ir.CmpOp, before: bool) -> set[str]:
        kind = type(node)
        if self._is_value(node.a) and self._is_kept(node.b):
            return _HOLDS[kind]
        if self._is_kept(node.a) and self._is_value(node.b):
            return _HOLDS[_TURNED[kind]]
        a, b = (node.a, node.b) if kind is ir.LT else (node.b, node.a)
        if (
            kind in (ir.LT, ir.GT)
            and ir.expr_deep_equal(a, self.place.value)
            and ir.expr_deep_equal(b, self.place.kept)
        ):
            return set(_CASES) if before else set()
        raise NotApplicable

    def _is_value(self, node: ir.PrimExpr) -> bool:
        return ir.expr_deep_equal(_as_stored(node, self.best.value), self.best.value)

    def _is_kept(self, node: ir.PrimExpr) -> bool:
        return ir.expr_deep_equal(_as_stored(node, self.best.kept), self.best.kept)

    def first_place(self) -> ir.PrimExpr:
        """Return the index of the first iteration. Raises `NotApplicable` if it differs within the nest."""
        first = ir.substitute(self.place.value, {loop.loop_var: loop.min for loop in self.rising})
        if uses_var(first, self.inside):
            raise NotApplicable
        return Analyzer().simplify(first)

    def begin(self, place: ir.PrimExpr) -> ir.PrimExpr:
        """Return the initial value instead of `place`, which is kept if there is no iteration."""
        first = self.first_place()
        for loop in self.rising:
            if not isinstance(loop.extent, ir.IntImm):
                runs: ir.PrimExpr = loop.extent > 0
                lanes = place.dtype.lane_code
                first = ir.Select(runs if lanes == 1 else ir.Broadcast(runs, lanes), first, place)
        return first

    def check_begin(self, place: ir.PrimExpr, best: ir.PrimExpr) -> None:
        """Raise `NotApplicable` if the first iteration may keep the initial pair, or if there may be no iteration."""
        place, best = (value.value if isinstance(value, ir.Broadcast) else value for value in (place, best))
        assert isinstance(place, ir.IntImm) and isinstance(
            best, (ir.IntImm, ir.FloatImm)
        )  # as `_Begins` finds constants
        first = self.first_place()
        last = Analyzer().const_int_bound(_first_lane(first)).max_value
        if isinstance(first, ir.Ramp):
            if not isinstance(first.stride, ir.IntImm) or first.dtype.lane_code < 0:
                raise NotApplicable
            last += max(first.stride.value, 0) * (first.dtype.lanes - 1)
        if last >= place.value or not _possible(best) <= self.at_first or not all(map(self._is_known, self.rising)):
            raise NotApplicable

    def _is_known(self, loop: ir.For) -> bool:
        """Return whether the extent of a loop is known before the nest."""
        if isinstance(loop.extent, ir.IntImm):
            return loop.extent.value > 0
        return not uses_var(loop.extent, self.inside)

    def later(self) -> ir.PrimExpr:
        """Return the condition for an index that is not before the current one."""
        value, kept = self.best.value, self.best.kept
        cases = self.afterwards if value.dtype.is_float else self.afterwards & _NUMBERS
        for strict, loose, a, b in ((_LESS, ir.LE(kept, value), value, kept), (_MORE, ir.LE(value, kept), kept, value)):
            if cases == {strict}:
                return ir.LT(a, b)
            if cases == {strict, _NAN}:
                return ir.And(ir.Not(loose), ir.Not(isnan(kept)))
        raise NotApplicable


def _first_lane(place: ir.PrimExpr) -> ir.PrimExpr:
    return place.base if isinstance(place, ir.Ramp) else place.value if isinstance(place, ir.Broadcast) else place


def _extent(loop: ir.For) -> int:
    if not isinstance(loop.extent, ir.IntImm):
        raise NotApplicable
    return loop.extent.value


def _factors(expr: ir.PrimExpr, loops: list[ir.For]) -> list[int]:
    """Return the step of an expression along each of some loops. Raises `NotApplicable` unless it is affine and has a nonzero step."""
    terms = linear_terms(Analyzer().canonical_simplify(expr))[0]
    variables = {loop.loop_var for loop in loops}
    if not loops or any(term not in variables and uses_var(term, variables) for term, _ in terms):
        raise NotApplicable
    by_term = dict(terms)
    return [by_term.get(loop.loop_var, 0) for loop in loops]


def _check_apart_in(index: ir.PrimExpr, loops: list[ir.For]) -> None:
    """Raise `NotApplicable` if an index may access one element in two iterations of some loops."""
    if not loops:
        return
    base, reach = _first_and_count(index)
    factors = sorted(zip(map(abs, _factors(base, loops)), map(_extent, loops)))
    for factor, extent in factors:
        if factor < reach:
            raise NotApplicable
        reach += factor * max(extent - 1, 0)


def _as_stored(node: ir.PrimExpr, value: ir.PrimExpr) -> ir.PrimExpr:
    """Return a float without a widening cast, which keeps the order."""
    if not isinstance(node, ir.Cast) or node.value.dtype != value.dtype or not value.dtype.is_float:
        return node
    return node.value if node.dtype.is_float and node.dtype.bits > value.dtype.bits else node


def _possible(kept: ir.IntImm | ir.FloatImm) -> set[str]:
    """Return the cases that a value can have compared with a constant."""
    if isinstance(kept, ir.FloatImm):
        if math.isnan(kept.value):
            return {_KEPT_NAN, _BOTH_NAN}
        least, most = -math.inf, math.inf
    else:
        lowest = min_value(kept.dtype)
        assert isinstance(lowest, ir.IntImm)
        least, most = lowest.value, largest_integer(kept.dtype)
    cases = {_SAME} | ({_LESS} if kept.value > least else set()) | ({_MORE} if kept.value < most else set())
    return cases | ({_NAN} if isinstance(kept, ir.FloatImm) else set())


# ---------------------------------------------------------------------------- several searches


def _check_order(searches: list[_Search]) -> None:
    """Raise `NotApplicable` if two reductions may share an element, unless they are steps of one reduction with growing indices."""
    for number, later in enumerate(searches):
        for earlier in searches[:number]:
            if not _same_element(earlier, later):
                for a in (earlier.place, earlier.best):
                    for b in (later.place, later.best):
                        if not _elsewhere(a.store, a.loops, b.store, b.loops):
                            raise NotApplicable
                continue
            step = Analyzer().canonical_simplify(later.base - earlier.base)
            if not isinstance(step, ir.IntImm) or not 0 < step.value < later.step:
                raise NotApplicable


def _same_element(a: _Search, b: _Search) -> bool:
    return a.place.loops == b.place.loops and all(
        x.store.buffer.data is y.store.buffer.data and ir.expr_deep_equal(x.store.indices[0], y.store.indices[0])
        for x, y in ((a.place, b.place), (a.best, b.best))
    )


def _elsewhere(
    a: ir.BufferStore, loops_of_a: Iterable[ir.For], b: ir.BufferStore, loops_of_b: Iterable[ir.For]
) -> bool:
    """Return whether two stores provably write different elements in all iterations of their loops."""
    if a.buffer.data is not b.buffer.data:
        return True
    if a.buffer.dtype != b.buffer.dtype:
        return False
    analyzer = Analyzer()
    first, count = _first_and_count(_with_fresh(a.indices[0], loops_of_a, analyzer))
    other, count_of_other = _first_and_count(_with_fresh(b.indices[0], loops_of_b, analyzer))
    apart = analyzer.const_int_bound(analyzer.canonical_simplify(first - other))
    return apart.min_value >= count_of_other or -apart.max_value >= count


def _with_fresh(index: ir.PrimExpr, loops: Iterable[ir.For], analyzer: Analyzer) -> ir.PrimExpr:
    """Return an index with new variables for loops, bound to their ranges in the analyzer."""
    fresh: dict[ir.Var, ir.PrimExpr] = {}
    for loop in loops:
        fresh[loop.loop_var] = var = ir.Var(loop.loop_var.name, loop.loop_var.dtype)
        analyzer.bind(var, ir.Range.from_min_extent(loop.min, loop.extent))
    return ir.substitute(index, fresh)


def _first_and_count(index: ir.PrimExpr) -> tuple[ir.PrimExpr, int]:
    """Return the first element at an index and the number of elements. Raises `NotApplicable` unless they are contiguous."""
    if isinstance(index, ir.Ramp) and is_one(index.stride) and index.dtype.lane_code > 1:
        return index.base, index.dtype.lanes
    if index.dtype.lane_code != 1:
        raise NotApplicable
    return index, 1


class _Begins:
    """Constants stored before a nest to the memory that it writes."""

    def __init__(self, before: tuple[ir.Stmt, ...], written: set[ir.Var]) -> None:
        self.found: list[tuple[ir.BufferStore, tuple[ir.For, ...]]] = []
        for stmt in before:
            stores: list[tuple[ir.BufferStore, tuple[ir.For, ...]]] = []
            if _are_constants(stmt, (), stores):
                self.found += [(store, loops) for store, loops in stores if store.buffer.data in written]
            elif any(a.buffer.data in written for a in nodes_of(stmt, ir.BufferLoad, ir.BufferStore)):
                self.found = []

    def of(self, choice: _Choice) -> ir.BufferStore:
        """Return the last store that initializes a conditional store's elements. Raises `NotApplicable` if it also writes others."""
        loops = [loop for loop in choice.loops if uses_var(choice.store.indices[0], {loop.loop_var})]
        for store, around in reversed(self.found):
            same = store.buffer.data is choice.store.buffer.data and store.value.dtype == choice.store.value.dtype
            if same and len(around) == len(loops) and all(map(_same_range, around, loops)):
                at = ir.substitute(store.indices[0], {a.loop_var: b.loop_var for a, b in zip(around, loops)})
                if ir.expr_deep_equal(at, choice.store.indices[0]):
                    return store
            if not _elsewhere(store, around, choice.store, choice.loops):
                break
        raise NotApplicable


def _same_range(a: ir.For, b: ir.For) -> bool:
    return ir.expr_deep_equal(a.min, b.min) and ir.expr_deep_equal(a.extent, b.extent)


def _are_constants(
    stmt: ir.Stmt, loops: tuple[ir.For, ...], found: list[tuple[ir.BufferStore, tuple[ir.For, ...]]]
) -> bool:
    """Return whether a statement only stores constants; add the stores with their loops to `found`."""
    while isinstance(stmt, ir.For) and stmt.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
        loops, stmt = (*loops, stmt), stmt.body
    if isinstance(stmt, ir.SeqStmt):
        return all(_are_constants(part, loops, found) for part in stmt.seq)
    if not isinstance(stmt, ir.BufferStore) or stmt.predicate is not None or len(stmt.indices) != 1:
        return False
    value = stmt.value.value if isinstance(stmt.value, ir.Broadcast) else stmt.value
    found.append((stmt, loops))
    return isinstance(value, (ir.IntImm, ir.FloatImm))
