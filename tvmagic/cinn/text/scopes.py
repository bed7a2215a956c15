"""What CINN's text leaves out around its statements: sizes of tensors, signatures, the function."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.block_regions import block_access_regions
from tvmagic.arith.int_set import IntervalSet, IntSet, as_int_set
from tvmagic.arith.int_set_eval import IntervalSetEvaluator, bounds_of_constraint, eval_set
from tvmagic.cinn.enumeration import counted_values
from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.ir import (
    Add,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    FloorDiv,
    FloorMod,
    IntImm,
    Mutator,
    Not,
    PrimExpr,
    PrimFunc,
    Range,
    Stmt,
    Sub,
    Var,
    Visitor,
    data_pointer,
    decl_buffer,
    handles,
    structural_equal,
    substitute,
)
from tvmagic.ir.expr import EQ, GE, GT, LE, LT, Max, Min
from tvmagic.ir.query import nodes_of, variables_in
from tvmagic.tir.blocks.conditions import conjuncts


class CinnShapes:
    """How far each tensor is accessed, by the ranges of the loops and block variables in scope."""

    def __init__(self, known: Mapping[str, Buffer]) -> None:
        self.known = dict(known)
        self.analyzer = Analyzer()
        self.value_set = eval_set
        self.scope: dict[Var, Range | IntSet] = {}
        self.guards: list[PrimExpr] = []  # the conditions that hold at this place of the text
        self.choices: list[PrimExpr] = []  # those of them that choose between two values
        self.bound: dict[Var, PrimExpr] = {}  # block variables, by what they are in variables of loops
        self.ends: dict[str, list[list[PrimExpr]]] = {}
        self.region_ends: dict[str, list[list[PrimExpr]]] = {}
        self.buffers: dict[str, Buffer] = {}
        self.buffer_names: dict[str, str] = {}  # of tensors whose buffers the text calls otherwise than `_A`
        self.flat_sizes: dict[tuple[str, int], Var] = {}
        self.read: set[str] = set()
        self.written: set[str] = set()

    def simplify(self, value: PrimExpr) -> PrimExpr:
        return self.analyzer.simplify(value)

    @contextlib.contextmanager
    def domains(self, pairs: Sequence[tuple[Var, Range | None]]) -> Iterator[None]:
        """Variables with their ranges, while their body is read."""
        before = self.scope
        self.scope = {**before, **{var: dom for var, dom in pairs if dom is not None}}
        yield
        self.scope = before

    def assigned(self, var: Var, value: PrimExpr) -> None:
        """A variable that gets a value in the body that is being read: which ones it may have, if that is known."""
        found = self.range_of(value) if var.dtype.is_int else None
        self.scope = {**self.scope, var: IntSet.everything() if found is None else found}

    def domain(self, var: Var, dom: Range) -> contextlib.AbstractContextManager[None]:
        return self.domains([(var, dom)])

    @contextlib.contextmanager
    def under(self, condition: PrimExpr, *, choice: bool = False) -> Iterator[None]:
        """A condition holds while what it guards is read; a `choice` is that of a `select`."""
        parts = [p for c in conjuncts(condition) for p in conjuncts(self.simplify(c) if isinstance(c, Not) else c)]
        before = self.guards, self.choices
        self.guards, self.choices = [*self.guards, *parts], [*self.choices, *(parts if choice else ())]
        yield
        self.guards, self.choices = before

    def bind(self, variables: Sequence[Var], values: Sequence[PrimExpr]) -> None:
        """Block variables, with what they are bound to."""
        for var, value in zip(variables, values):
            self.bound[var] = substitute(value, self.bound)

    def range_of(self, value: PrimExpr) -> Range | None:
        """The values that a block variable takes, from what it is bound to; None if they have no known ends."""
        found = self.value_set(value, self.scope)
        if not (found.has_lower_bound() and found.has_upper_bound()):
            return None
        low, end = found.min(), self.simplify(found.max() + 1)
        for left, right in _pairs(self.guards):
            if structural_equal(left, value) and self.analyzer.can_prove(right <= end):
                end = right
        return Range.from_min_extent(low, self.simplify(end - low))

    def _load_end(self, index: PrimExpr, end: PrimExpr) -> PrimExpr:
        """How far a load reaches, `end` without the conditions here: for `A[i - 1]` 7 if `i < 8`.

        A variable alone has the range that its block says, unless a `select` chooses by it between tensors.
        """
        guards = [substitute(c, self.bound) for c in (self.choices if isinstance(index, Var) else self.guards)]
        index = substitute(index, self.bound)
        ranges = {var: dom for var, dom in self.scope.items() if isinstance(dom, Range)}
        counted = counted_values([index], ranges, guards)
        if counted is not None:
            last = IntImm(index.dtype, int(counted[0].max()) + 1) if counted[0].size else end
            return last if self.analyzer.can_prove(last <= end) else end
        scope = as_int_set(self.scope)
        ends = [index - left + right for left, right in _pairs(guards)]
        for left, right in _pairs(guards):
            if nodes_of(left, Add, Sub):  # a sum that is less than something, somewhere in the index
                var, low = Var("sum", left.dtype), eval_set(left, scope).min()
                index = _Replace(left, var).visit(index)
                scope[var] = IntervalSet(low, right - 1)
        bounds = [pair for guard in guards for pair in bounds_of_constraint(guard)]
        found = IntervalSetEvaluator(self.analyzer, scope, bounds).visit(index)
        ends += [found.max() + 1] if found.has_upper_bound() else []
        for bound in map(self.simplify, ends):
            open_end = nodes_of(bound, Min) or not scope.keys().isdisjoint(variables_in(bound))
            if not open_end and self.analyzer.can_prove(bound <= end):
                end = bound
        return end

    def digits(self, name: str, rank: int, index: PrimExpr) -> list[PrimExpr]:
        """A flat index by dimension; the sizes are put in when they are known."""
        places: list[PrimExpr] = []
        for axis in range(rank - 1, 0, -1):
            size = self.flat_sizes.setdefault((name, axis), Var(f"size_{axis}_of_{name}", index.dtype))
            places.append(FloorMod(index, size))
            index = FloorDiv(index, size)
        return [index, *reversed(places)]

    def sizes(self, shapes: Mapping[str, Buffer]) -> dict[Var, PrimExpr]:
        """What the sizes in `digits` are, from the tensors with their shapes."""
        return {var: shapes[name].shape[axis] for (name, axis), var in self.flat_sizes.items()}

    def note_use(self, buffer: Buffer, writes: bool) -> None:
        """An access of a tensor that says nothing of its size."""
        (self.written if writes else self.read).add(buffer.name)
        self.buffers.setdefault(buffer.name, buffer)
        self.ends.setdefault(buffer.name, [[] for _ in buffer.shape])

    def note_access(self, buffer: Buffer, indices: Sequence[PrimExpr], writes: bool) -> None:
        """An access of a tensor: it reaches at least as far as the indices do."""
        self.note_use(buffer, writes)
        if buffer.name in self.known:
            return
        ends = self.ends[buffer.name]
        for axis, index in zip(ends, indices):
            found = self.value_set(index, self.scope)
            if found.has_upper_bound():
                end = found.max() + 1
                guarded = not writes and (self.choices if isinstance(index, Var) else self.guards)
                self._keep(axis, self._load_end(index, end) if guarded else end)

    def note_region(self, name: str, ends: Sequence[PrimExpr]) -> None:
        """The ends of a region that a block is said to read or write."""
        kept = self.region_ends.setdefault(name, [[] for _ in ends])
        for axis, end in zip(kept, ends):
            self._keep(axis, self.value_set(end, self.scope).max())

    def resolve(self) -> dict[Buffer, Buffer]:
        """For each stand-in the buffer with its shape."""
        result: dict[Buffer, Buffer] = {}
        for name, buffer in self.buffers.items():
            if name not in self.known:
                told = self.region_ends.get(name, [])
                shape = []
                for axis, ends in enumerate(self.ends[name]):
                    ends = ends or (told[axis] if axis < len(told) else [])
                    if not ends:
                        raise TVMagicError(
                            f"the size of axis {axis} of `{name}` cannot be told from the text",
                            hint=f"give it: from_cinn(text, {{'{name}': (shape, dtype)}})",
                            code="cinn.text.size_not_known",
                        )
                    shape.append(self._furthest(ends))
                result[buffer] = self._made(shape, buffer)
        return result

    def _made(self, shape: list[PrimExpr], buffer: Buffer) -> Buffer:
        called = self.buffer_names.get(buffer.name)
        data = data_pointer(called, buffer.dtype) if called else None
        return decl_buffer(shape, buffer.dtype, buffer.name, data)

    def _keep(self, axis: list[PrimExpr], end: PrimExpr) -> None:
        """Add an end that is made of numbers and sizes alone, once."""
        end = self.simplify(end)
        if not nodes_of(end, BufferLoad) and self.scope.keys().isdisjoint(variables_in(end)):
            if not any(structural_equal(end, other) for other in axis):
                axis.append(end)

    def _furthest(self, ends: list[PrimExpr]) -> PrimExpr:
        furthest = ends[0]
        for end in ends[1:]:
            if self.analyzer.can_prove(furthest <= end):
                furthest = end
            elif not self.analyzer.can_prove(end <= furthest):
                furthest = self.simplify(Max(furthest, end))
        return furthest


class _Replace(Mutator):
    """Puts a variable in the place of an expression."""

    def __init__(self, old: PrimExpr, var: Var) -> None:
        self.old, self.var = old, var

    def visit(self, node: Any) -> Any:
        return self.var if isinstance(node, PrimExpr) and structural_equal(node, self.old) else super().visit(node)


def _pairs(guards: Iterable[PrimExpr]) -> Iterator[tuple[PrimExpr, PrimExpr]]:
    """The pairs of whole numbers of which conditions say that the first is less than the second."""
    for guard in guards:
        yield from _comparisons(guard)


def _comparisons(guard: PrimExpr) -> list[tuple[PrimExpr, PrimExpr]]:
    """The pairs of whole numbers of which a condition says that the first is less than the second."""
    if not isinstance(guard, (LT, LE, GT, GE, EQ)) or not guard.a.dtype.is_int:
        return []
    if isinstance(guard, LT):
        return [(guard.a, guard.b)]
    if isinstance(guard, GT):
        return [(guard.b, guard.a)]
    pairs = [(guard.a, guard.b)] if isinstance(guard, (LE, EQ)) else []
    pairs += [(guard.b, guard.a)] if isinstance(guard, (GE, EQ)) else []
    return [(left, right + 1) for left, right in pairs]


# ---------------------------------------------------------------------------- the function


class _Finish(Mutator):
    """Puts the buffers with their shapes in, and finds what each block reads and writes."""

    def __init__(self, buffers: Mapping[Buffer, Buffer], by_pointer: Mapping[Var, Buffer]) -> None:
        self.buffers, self.by_pointer = buffers, by_pointer

    def visit_buffer_use(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)

    @handles(Block)
    def block(self, node: Block) -> Block:
        new = self.visit_children(node)
        reads, writes, opaque = block_access_regions(new, self.by_pointer)
        return new.replace(reads=(*reads, *opaque), writes=(*writes, *opaque))


class _ReadElsewhere(Visitor):
    """The names of tensors that some block reads without storing to them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.stored: set[str] = set()
        self.loaded: set[str] = set()

    @handles(Block)
    def block(self, node: Block) -> None:
        outer = self.stored, self.loaded
        self.stored, self.loaded = set(), set()
        self.visit_children(node)
        self.names |= self.loaded - self.stored
        self.stored, self.loaded = outer

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        self.stored.add(node.buffer.name)
        self.visit_children(node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.loaded.add(node.buffer.name)
        self.visit_children(node)


def finish_function(
    body: Stmt,
    shapes: CinnShapes,
    outputs: Sequence[str],
    params: Sequence[str] | None,
    name: str,
    symbols: Mapping[str, Var],
) -> PrimFunc:
    """The function around a body: its parameters, the tensors that live inside, the root block.

    `symbols` are the sizes in the text, which `params` may name too.
    """
    resolved = shapes.resolve()
    buffers = {n: resolved.get(b, b) for n, b in shapes.buffers.items()}
    if shapes.flat_sizes:
        body = substitute(body, shapes.sizes({**shapes.known, **buffers}))
    body = _Finish(resolved, {b.data: b for b in buffers.values()}).visit(body)
    names = _parameters(body, shapes, outputs, buffers) if params is None else list(params)
    tensors = {**shapes.known, **buffers}
    unknown = [n for n in (*names, *outputs) if n not in tensors and n not in symbols]
    if unknown:
        raise TVMagicError(
            f"the text has no tensor `{unknown[0]}`",
            hint=did_you_mean(unknown[0], tensors),
            code="cinn.text.unknown_tensor",
        )
    interface = [tensors[n] if n in tensors else symbols[n] for n in names]
    inside = [b for n, b in buffers.items() if n not in names]
    lost = [b.name for b in inside if b.name not in shapes.written]
    if lost:
        raise TVMagicError(
            f"`{lost[0]}` is read but never written, so it must be among `params`",
            code="cinn.text.tensor_never_written",
        )
    sizes = _free_sizes(body, interface)
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        body = body.replace(block=body.block.replace(reads=(), writes=(), alloc_buffers=tuple(inside)))
    else:
        body = BlockRealize([], True, Block([], [], [], "root", body, alloc_buffers=inside))
    return PrimFunc([*interface, *sizes], body, attrs={"global_symbol": name, "tir.noalias": True})


def _parameters(body: Stmt, shapes: CinnShapes, outputs: Sequence[str], buffers: Mapping[str, Buffer]) -> list[str]:
    elsewhere = _ReadElsewhere()
    elsewhere.visit(body)
    inputs = [n for n in buffers if n not in shapes.written]
    results = [n for n in buffers if n in shapes.written and (n not in elsewhere.names or n in outputs)]
    return [*inputs, *results]


def _free_sizes(body: Stmt, interface: Sequence[Buffer | Var]) -> list[Var]:
    """The sizes in a body that are not parameters and that no parameter's shape gives, in the order of their first use."""
    buffers = [p for p in interface if isinstance(p, Buffer)]
    given = {size for buffer in buffers for size in buffer.shape if isinstance(size, Var)}
    given |= {p for p in interface if isinstance(p, Var)}
    finder = _FreeVars()
    finder.visit(body)
    for buffer in buffers:
        for size in buffer.shape:
            finder.visit(size)
    return [v for v in finder.used if v not in finder.bound and v not in given]


class _FreeVars(Visitor):
    def __init__(self) -> None:
        self.used: dict[Var, None] = {}
        self.bound: set[Any] = set()

    def visit_var_def(self, var: Any) -> Any:
        self.bound.add(getattr(var, "var", var))
        return var

    @handles(Var)
    def var(self, node: Var) -> None:
        self.used[node] = None
