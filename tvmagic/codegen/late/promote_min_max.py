"""Accumulate min and max reductions of 16-bit floats in float32.

    Y[i] = -inf                            best[0] = float32(-inf)
    for k in range(64):                    for k in range(64):
        Y[i] = max(Y[i], X[i, k])              best[0] = max(best[0], float32(X[i, k]))
                                           Y[i] = float16(best[0])

CPUs cannot compare 16-bit floats, so each iteration would wait until the previous result is widened, compared and rounded. LLVM vectorizes
the right side. The result is the same: rounding keeps the order, and a widened value rounds back to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvmagic import ir
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.codegen.late.common import disjoint_memory, late_pass, unchecked_on_cpus
from tvmagic.ir.ops import cast
from tvmagic.ir.query import contains, nodes_of
from tvmagic.passes import note

_WIDE = ir.DataType("float32")


@late_pass("PromoteMinMax", when=unchecked_on_cpus)
def promote_min_max(func: ir.PrimFunc) -> ir.PrimFunc:
    """Accumulate min and max reductions of 16-bit floats in float32."""
    updates, apart = _Updates(), disjoint_memory(func)
    updates.visit(func.body)
    found = [made for nest in updates.found for made in _reductions(nest, updates.found[nest], apart)]
    for reduction in found:
        store = reduction.first.store
        note("late", f"accumulated `{store.buffer.name}` in float32: processors compare no {store.value.dtype}", store)
    return func.with_body(_Widened(found).visit(func.body)) if found else func


@dataclass(frozen=True)
class _Update:
    """A store of a minimum or maximum in a nest, at indices that are invariant in the nest.

    `begin` is the store of its initial value directly before the nest, or None if the memory keeps its value.
    """

    store: ir.BufferStore
    indices: tuple[ir.PrimExpr, ...]
    begin: ir.BufferStore | None


@dataclass(frozen=True)
class _Reduction:
    """All updates of one element, or of the elements of one vector, in a nest; `stores` maps each to its replacement."""

    nest: ir.For
    first: _Update
    best: ir.Buffer
    stores: dict[ir.Stmt, ir.BufferStore] = field(default_factory=dict[ir.Stmt, ir.BufferStore])


def _is_small(dtype: ir.DataType) -> bool:
    return dtype.bits == 16 and dtype.code in ("float", "bfloat") and not dtype.is_scalable


def _in_turn(loop: ir.For) -> bool:
    return loop.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED)


class _Updates(ir.Visitor):
    """Collects stores of small floats that may be updates, by the largest nest in which each has one index."""

    def __init__(self) -> None:
        self.above: list[ir.Stmt] = []
        self.found: dict[ir.For, list[_Update]] = {}

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> None:
        return None

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> None:
        self.above.append(node)
        self.visit_children(node)
        self.above.pop()

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        if not _is_small(node.value.dtype) or node.predicate is not None or not contains(node.value, ir.Max, ir.Min):
            return
        indices, always, found = node.indices, True, None
        for number in reversed(range(len(self.above))):
            around = self.above[number]
            if isinstance(around, ir.LetStmt):
                indices = tuple([ir.substitute(index, {around.var: around.value}) for index in indices])
            elif isinstance(around, ir.For) and _in_turn(around):
                if any(uses_var(index, {around.loop_var}) for index in indices):
                    break
                always = always and isinstance(around.extent, ir.IntImm) and around.extent.value > 0
                found = around, indices, self._begin(number, node, indices), always
            elif isinstance(around, ir.IfThenElse):
                always = False
            elif not isinstance(around, ir.SeqStmt):
                break
        if found is not None and (found[2] is not None or found[3]):
            nest, indices, begin, _ = found
            self.found.setdefault(nest, []).append(_Update(node, indices, begin))

    def _begin(self, number: int, store: ir.BufferStore, indices: Sequence[ir.PrimExpr]) -> ir.BufferStore | None:
        """Return the store directly before statement `number` if it initializes the same element, or None."""
        around = self.above[number - 1] if number else None
        if not isinstance(around, ir.SeqStmt):
            return None
        place = next(n for n, part in enumerate(around.seq) if part is self.above[number])
        before = around.seq[place - 1] if place else None
        if not isinstance(before, ir.BufferStore) or before.buffer is not store.buffer or before.predicate is not None:
            return None
        return before if all(map(ir.expr_deep_equal, before.indices, indices)) else None


def _reductions(nest: ir.For, updates: list[_Update], apart: Callable[[ir.Var, ir.Var], bool]) -> list[_Reduction]:
    """Return the reductions of a nest whose memory nothing else in the nest accesses."""
    for stmt in nodes_of(nest, ir.Stmt):
        plain = isinstance(stmt, (ir.SeqStmt, ir.LetStmt, ir.IfThenElse, ir.BufferStore))
        if not plain and not (isinstance(stmt, ir.For) and _in_turn(stmt)):
            return []
    if any(not isinstance(call.op, ir.Op) or call.op.effect > ir.CallEffect.PURE for call in nodes_of(nest, ir.Call)):
        return []
    stored = [store.buffer.data for store in nodes_of(nest, ir.BufferStore)]
    loaded = [load.buffer.data for load in nodes_of(nest, ir.BufferLoad)]
    named = set(nodes_of(nest, ir.Var))
    found: list[_Reduction] = []
    for memory in dict.fromkeys(update.store.buffer.data for update in updates):
        mine = [update for update in updates if update.store.buffer.data is memory]
        if len(mine) != stored.count(memory) or memory in named:
            continue
        if not all(other is memory or apart(memory, other) for other in {*stored, *loaded}):
            continue
        made = _of_one_place(nest, mine, loaded.count(memory))
        if made is not None:
            found.append(made)
    return found


def _of_one_place(nest: ir.For, updates: list[_Update], loads: int) -> _Reduction | None:
    """Return the reduction that consists of these updates, or None unless all `loads` of its memory read the accumulator."""
    first = updates[0]
    dtype = first.store.value.dtype
    if any(contains(index, ir.BufferLoad) for index in first.indices):
        return None
    best = ir.decl_buffer((dtype.lanes,), _WIDE, f"{first.store.buffer.name}_best", scope="local")
    made, count = _Reduction(nest, first, best), 0
    for update in updates:
        store = update.store
        same = store.buffer is first.store.buffer and store.value.dtype == dtype
        if not same or not all(map(ir.expr_deep_equal, update.indices, first.indices)):
            return None
        wide = _Wide(store, _load(best))
        value = wide.of(store.value)
        if value is None:
            return None
        made.stores[store] = ir.BufferStore(best, value, _load(best).indices, span=store.span)
        count += wide.kept
    return made if count == loads else None


def _load(best: ir.Buffer) -> ir.BufferLoad:
    """Return the load of the accumulator, with one lane per element."""
    size, zero = best.shape[0], ir.IntImm("int32", 0)
    assert isinstance(size, ir.IntImm)
    return ir.BufferLoad(best, [zero if size.value == 1 else ir.Ramp(zero, ir.IntImm("int32", 1), size.value)])


class _Wide:
    """Rewrites a stored value to float32 with the accumulator instead of loads of the element; `kept` counts these loads."""

    def __init__(self, store: ir.BufferStore, best: ir.BufferLoad) -> None:
        self.store, self.best, self.kept = store, best, 0

    def of(self, node: ir.PrimExpr) -> ir.PrimExpr | None:
        """Return the widened expression, or None if the element is not in it or more than its order matters."""
        if isinstance(node, ir.BufferLoad):
            same = node.buffer is self.store.buffer and node.predicate is None
            if not same or not all(map(ir.expr_deep_equal, node.indices, self.store.indices)):
                return None
            self.kept += 1
            return self.best
        if isinstance(node, ir.Cast):
            types = {node.dtype.element_of, node.value.dtype.element_of}
            return self.of(node.value) if types == {_WIDE, self.store.value.dtype.element_of} else None
        if isinstance(node, (ir.Max, ir.Min)):
            sides = [(self.of(side), side) for side in (node.a, node.b)]
            if all(wide is None for wide, _ in sides):
                return None
            a, b = [cast(self.best.dtype, side) if wide is None else wide for wide, side in sides]
            return type(node)(a, b)
        return None


class _Widened(ir.Mutator):
    def __init__(self, found: list[_Reduction]) -> None:
        self.stores = {store: new for reduction in found for store, new in reduction.stores.items()}
        self.begins = {reduction.first.begin for reduction in found}
        self.nests: dict[ir.Stmt, list[_Reduction]] = {}
        for reduction in found:
            self.nests.setdefault(reduction.nest, []).append(reduction)

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        return self.stores.get(node, node)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        parts = [self.visit(part) for part in node.seq if part not in self.begins]
        changed = len(parts) != len(node.seq) or any(a is not b for a, b in zip(parts, node.seq))
        return ir.SeqStmt.flatten(*parts) if changed else node

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> ir.Stmt:
        made = self.visit_children(node)
        for reduction in self.nests.get(node, ()):
            made = self._around(made, reduction)
        return made

    def _around(self, nest: ir.Stmt, reduction: _Reduction) -> ir.Stmt:
        """Allocate the accumulator around a nest, initialize it before and store it after."""
        update, best = reduction.first, _load(reduction.best)
        store = update.store
        before = update.begin.value if update.begin is not None else ir.BufferLoad(store.buffer, update.indices)
        span = (update.begin or store).span
        first = ir.BufferStore(reduction.best, cast(best.dtype, before), best.indices, span=span)
        last = store.replace(value=cast(store.value.dtype, best), indices=update.indices)
        memory = reduction.best
        return ir.Allocate(
            memory.data, _WIDE, memory.shape, ir.IntImm("bool", 1), ir.SeqStmt([first, nest, last]), span=store.span
        )
