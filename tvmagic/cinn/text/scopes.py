"""What CINN's text leaves out around its statements: sizes of tensors, signatures, the function."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.block_regions import block_access_regions
from tvmagic.arith.int_set import IntervalSet, IntSet, as_int_set
from tvmagic.arith.int_set_eval import IntervalSetEvaluator, bounds_of_constraint, eval_set
from tvmagic.cinn.enumeration import counted_values
from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.ir.query import nodes_of, variables_in
from tvmagic.tir.blocks.conditions import conjuncts


class CinnShapes:
    """How far each tensor is accessed, by the ranges of the loops and block variables in scope."""

    def __init__(self, known: Mapping[str, ir.Buffer]) -> None:
        self.known = dict(known)
        self.analyzer = Analyzer()
        self.value_set = eval_set
        self.scope: dict[ir.Var, ir.Range | IntSet] = {}
        self.guards: list[ir.PrimExpr] = []  # the conditions that hold at this place of the text
        self.choices: list[ir.PrimExpr] = []  # those of them that choose between two values
        self.bound: dict[ir.Var, ir.PrimExpr] = {}  # block variables, by what they are in variables of loops
        self.ends: dict[str, list[list[ir.PrimExpr]]] = {}
        self.region_ends: dict[str, list[list[ir.PrimExpr]]] = {}
        self.buffers: dict[str, ir.Buffer] = {}
        self.buffer_names: dict[str, str] = {}  # of tensors whose buffers the text calls otherwise than `_A`
        self.flat_sizes: dict[tuple[str, int], ir.Var] = {}
        self.read: set[str] = set()
        self.written: set[str] = set()

    def simplify(self, value: ir.PrimExpr) -> ir.PrimExpr:
        return self.analyzer.simplify(value)

    @contextlib.contextmanager
    def domains(self, pairs: Sequence[tuple[ir.Var, ir.Range | None]]) -> Iterator[None]:
        """Variables with their ranges, while their body is read."""
        before = self.scope
        self.scope = {**before, **{var: dom for var, dom in pairs if dom is not None}}
        yield
        self.scope = before

    def assigned(self, var: ir.Var, value: ir.PrimExpr) -> None:
        """A variable that gets a value in the body that is being read: which ones it may have, if that is known."""
        found = self.range_of(value) if var.dtype.is_int else None
        self.scope = {**self.scope, var: IntSet.everything() if found is None else found}

    def domain(self, var: ir.Var, dom: ir.Range) -> contextlib.AbstractContextManager[None]:
        return self.domains([(var, dom)])

    @contextlib.contextmanager
    def under(self, condition: ir.PrimExpr, *, choice: bool = False) -> Iterator[None]:
        """A condition holds while what it guards is read; a `choice` is that of a `select`."""
        parts = [p for c in conjuncts(condition) for p in conjuncts(self.simplify(c) if isinstance(c, ir.Not) else c)]
        before = self.guards, self.choices
        self.guards, self.choices = [*self.guards, *parts], [*self.choices, *(parts if choice else ())]
        yield
        self.guards, self.choices = before

    def bind(self, variables: Sequence[ir.Var], values: Sequence[ir.PrimExpr]) -> None:
        """Block variables, with what they are bound to."""
        for var, value in zip(variables, values):
            self.bound[var] = ir.substitute(value, self.bound)

    def range_of(self, value: ir.PrimExpr) -> ir.Range | None:
        """The values that a block variable takes, from what it is bound to; None if they have no known ends."""
        found = self.value_set(value, self.scope)
        if not (found.has_lower_bound() and found.has_upper_bound()):
            return None
        low, end = found.min(), self.simplify(found.max() + 1)
        for left, right in _pairs(self.guards):
            if ir.structural_equal(left, value) and self.analyzer.can_prove(right <= end):
                end = right
        return ir.Range.from_min_extent(low, self.simplify(end - low))

    def _load_end(self, index: ir.PrimExpr, end: ir.PrimExpr) -> ir.PrimExpr:
        """How far a load reaches, `end` without the conditions here: for `A[i - 1]` 7 if `i < 8`.

        A variable alone has the range that its block says, unless a `select` chooses by it between tensors.
        """
        guards = [ir.substitute(c, self.bound) for c in (self.choices if isinstance(index, ir.Var) else self.guards)]
        index = ir.substitute(index, self.bound)
        ranges = {var: dom for var, dom in self.scope.items() if isinstance(dom, ir.Range)}
        counted = counted_values([index], ranges, guards)
        if counted is not None:
            last = ir.IntImm(index.dtype, int(counted[0].max()) + 1) if counted[0].size else end
            return last if self.analyzer.can_prove(last <= end) else end
        scope = as_int_set(self.scope)
        ends = [index - left + right for left, right in _pairs(guards)]
        for left, right in _pairs(guards):
            if nodes_of(left, ir.Add, ir.Sub):  # a sum that is less than something, somewhere in the index
                var, low = ir.Var("sum", left.dtype), eval_set(left, scope).min()
                index = _Replace(left, var).visit(index)
                scope[var] = IntervalSet(low, right - 1)
        bounds = [pair for guard in guards for pair in bounds_of_constraint(guard)]
        found = IntervalSetEvaluator(self.analyzer, scope, bounds).visit(index)
        ends += [found.max() + 1] if found.has_upper_bound() else []
        for bound in map(self.simplify, ends):
            open_end = nodes_of(bound, ir.Min) or not scope.keys().isdisjoint(variables_in(bound))
            if not open_end and self.analyzer.can_prove(bound <= end):
                end = bound
        return end

    def digits(self, name: str, rank: int, index: ir.PrimExpr) -> list[ir.PrimExpr]:
        """A flat index by dimension; the sizes are put in when they are known."""
        places: list[ir.PrimExpr] = []
        for axis in range(rank - 1, 0, -1):
            size = self.flat_sizes.setdefault((name, axis), ir.Var(f"size_{axis}_of_{name}", index.dtype))
            places.append(ir.FloorMod(index, size))
            index = ir.FloorDiv(index, size)
        return [index, *reversed(places)]

    def sizes(self, shapes: Mapping[str, ir.Buffer]) -> dict[ir.Var, ir.PrimExpr]:
        """What the sizes in `digits` are, from the tensors with their shapes."""
        return {var: shapes[name].shape[axis] for (name, axis), var in self.flat_sizes.items()}

    def note_use(self, buffer: ir.Buffer, writes: bool) -> None:
        """An access of a tensor that says nothing of its size."""
        (self.written if writes else self.read).add(buffer.name)
        self.buffers.setdefault(buffer.name, buffer)
        self.ends.setdefault(buffer.name, [[] for _ in buffer.shape])

    def note_access(self, buffer: ir.Buffer, indices: Sequence[ir.PrimExpr], writes: bool) -> None:
        """An access of a tensor: it reaches at least as far as the indices do."""
        self.note_use(buffer, writes)
        if buffer.name in self.known:
            return
        ends = self.ends[buffer.name]
        for axis, index in zip(ends, indices):
            found = self.value_set(index, self.scope)
            if found.has_upper_bound():
                end = found.max() + 1
                guarded = not writes and (self.choices if isinstance(index, ir.Var) else self.guards)
                self._keep(axis, self._load_end(index, end) if guarded else end)

    def note_region(self, name: str, ends: Sequence[ir.PrimExpr]) -> None:
        """The ends of a region that a block is said to read or write."""
        kept = self.region_ends.setdefault(name, [[] for _ in ends])
        for axis, end in zip(kept, ends):
            self._keep(axis, self.value_set(end, self.scope).max())

    def resolve(self) -> dict[ir.Buffer, ir.Buffer]:
        """For each stand-in the buffer with its shape."""
        result: dict[ir.Buffer, ir.Buffer] = {}
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
                result[buffer] = self._create_buffer(shape, buffer)
        return result

    def _create_buffer(self, shape: list[ir.PrimExpr], buffer: ir.Buffer) -> ir.Buffer:
        called = self.buffer_names.get(buffer.name)
        data = ir.data_pointer(called, buffer.dtype) if called else None
        return ir.decl_buffer(shape, buffer.dtype, buffer.name, data)

    def _keep(self, axis: list[ir.PrimExpr], end: ir.PrimExpr) -> None:
        """Add an end that is made of numbers and sizes alone, once."""
        end = self.simplify(end)
        if not nodes_of(end, ir.BufferLoad) and self.scope.keys().isdisjoint(variables_in(end)):
            if not any(ir.structural_equal(end, other) for other in axis):
                axis.append(end)

    def _furthest(self, ends: list[ir.PrimExpr]) -> ir.PrimExpr:
        furthest = ends[0]
        for end in ends[1:]:
            if self.analyzer.can_prove(furthest <= end):
                furthest = end
            elif not self.analyzer.can_prove(end <= furthest):
                furthest = self.simplify(ir.Max(furthest, end))
        return furthest


class _Replace(ir.Mutator):
    """Puts a variable in the place of an expression."""

    def __init__(self, old: ir.PrimExpr, var: ir.Var) -> None:
        self.old, self.var = old, var

    def visit(self, node: Any) -> Any:
        return (
            self.var if isinstance(node, ir.PrimExpr) and ir.structural_equal(node, self.old) else super().visit(node)
        )


def _pairs(guards: Iterable[ir.PrimExpr]) -> Iterator[tuple[ir.PrimExpr, ir.PrimExpr]]:
    """The pairs of whole numbers of which conditions say that the first is less than the second."""
    for guard in guards:
        yield from _comparisons(guard)


def _comparisons(guard: ir.PrimExpr) -> list[tuple[ir.PrimExpr, ir.PrimExpr]]:
    """The pairs of whole numbers of which a condition says that the first is less than the second."""
    if not isinstance(guard, (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ)) or not guard.a.dtype.is_int:
        return []
    if isinstance(guard, ir.LT):
        return [(guard.a, guard.b)]
    if isinstance(guard, ir.GT):
        return [(guard.b, guard.a)]
    pairs = [(guard.a, guard.b)] if isinstance(guard, (ir.LE, ir.EQ)) else []
    pairs += [(guard.b, guard.a)] if isinstance(guard, (ir.GE, ir.EQ)) else []
    return [(left, right + 1) for left, right in pairs]


# ---------------------------------------------------------------------------- the function


class _Finish(ir.Mutator):
    """Puts the buffers with their shapes in, and finds what each block reads and writes."""

    def __init__(self, buffers: Mapping[ir.Buffer, ir.Buffer], by_pointer: Mapping[ir.Var, ir.Buffer]) -> None:
        self.buffers, self.by_pointer = buffers, by_pointer

    def visit_buffer_use(self, buffer: ir.Buffer) -> ir.Buffer:
        return self.buffers.get(buffer, buffer)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        new = self.visit_children(node)
        reads, writes, opaque = block_access_regions(new, self.by_pointer)
        return new.replace(reads=(*reads, *opaque), writes=(*writes, *opaque))


class _ReadElsewhere(ir.Visitor):
    """The names of tensors that some block reads without storing to them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.stored: set[str] = set()
        self.loaded: set[str] = set()

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        outer = self.stored, self.loaded
        self.stored, self.loaded = set(), set()
        self.visit_children(node)
        self.names |= self.loaded - self.stored
        self.stored, self.loaded = outer

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.stored.add(node.buffer.name)
        self.visit_children(node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.loaded.add(node.buffer.name)
        self.visit_children(node)


def finish_function(
    body: ir.Stmt,
    shapes: CinnShapes,
    outputs: Sequence[str],
    params: Sequence[str] | None,
    name: str,
    symbols: Mapping[str, ir.Var],
) -> ir.PrimFunc:
    """The function around a body: its parameters, the tensors that live inside, the root block.

    `symbols` are the sizes in the text, which `params` may name too.
    """
    resolved = shapes.resolve()
    buffers = {n: resolved.get(b, b) for n, b in shapes.buffers.items()}
    if shapes.flat_sizes:
        body = ir.substitute(body, shapes.sizes({**shapes.known, **buffers}))
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
    if isinstance(body, ir.BlockRealize) and not body.block.iter_vars:
        body = body.replace(block=body.block.replace(reads=(), writes=(), alloc_buffers=tuple(inside)))
    else:
        body = ir.BlockRealize([], True, ir.Block([], [], [], "root", body, alloc_buffers=inside))
    return ir.PrimFunc([*interface, *sizes], body, attrs={"global_symbol": name, "tir.noalias": True})


def _parameters(
    body: ir.Stmt, shapes: CinnShapes, outputs: Sequence[str], buffers: Mapping[str, ir.Buffer]
) -> list[str]:
    elsewhere = _ReadElsewhere()
    elsewhere.visit(body)
    inputs = [n for n in buffers if n not in shapes.written]
    results = [n for n in buffers if n in shapes.written and (n not in elsewhere.names or n in outputs)]
    return [*inputs, *results]


def _free_sizes(body: ir.Stmt, interface: Sequence[ir.Buffer | ir.Var]) -> list[ir.Var]:
    """The sizes in a body that are not parameters and that no parameter's shape gives, in the order of their first use."""
    buffers = [p for p in interface if isinstance(p, ir.Buffer)]
    given = {size for buffer in buffers for size in buffer.shape if isinstance(size, ir.Var)}
    given |= {p for p in interface if isinstance(p, ir.Var)}
    finder = _FreeVars()
    finder.visit(body)
    for buffer in buffers:
        for size in buffer.shape:
            finder.visit(size)
    return [v for v in finder.used if v not in finder.bound and v not in given]


class _FreeVars(ir.Visitor):
    def __init__(self) -> None:
        self.used: dict[ir.Var, None] = {}
        self.bound: set[Any] = set()

    def visit_var_def(self, var: Any) -> Any:
        self.bound.add(getattr(var, "var", var))
        return var

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        self.used[node] = None
