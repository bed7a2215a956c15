"""FlattenBuffer: buffers of several dimensions become flat, accesses get one index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import logical_and
from tvmagic.ir.query import is_call, strip_likely
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.checked_indices import checked_indices, checks_wanted
from tvmagic.tir.transform.memory.flat_index import FlatIndex
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator

BOOL, INT8 = ir.DataType("bool"), ir.DataType("int8")


def stored_dtype(dtype: ir.DataType) -> ir.DataType:
    """The type that memory holds for values of `dtype`: bools are bytes."""
    return INT8.with_lanes_of(dtype) if dtype.is_bool else dtype


def from_legacy_te_schedule(func: ir.PrimFunc) -> bool:
    """Whether `func` comes from a TE schedule, whose buffers StorageFlatten flattens."""
    return bool(func.attrs.get("from_legacy_te_schedule", False))


def flat_extents(
    node: ir.Allocate, analyzer: Analyzer, flat: Callable[[ir.Buffer], ir.Buffer]
) -> tuple[ir.PrimExpr, ...]:
    """The extents of an allocation when accesses are flat: those of its buffer, if it is declared right there.

    flat: the flat buffer of a buffer.
    """
    if len(node.extents) == 1:
        return node.extents
    declared = node.body.buffer if isinstance(node.body, ir.DeclBuffer) else None
    if declared is not None and declared.data is node.buffer_var and len(declared.shape) == len(node.extents):
        pairs = zip(declared.shape, node.extents)
        if all(a is b or analyzer.can_prove_equal(a, b) for a, b in pairs):
            return flat(declared).shape
    if declared is not None and declared.axis_separators:
        raise TVMagicError(
            f"buffer `{declared.name}` has axis separators that do not fit its allocation",
            code="tir.flatten_buffer.wrong_axis_separators",
        )
    total: ir.PrimExpr = ir.IntImm("int32", 1)
    for extent in node.extents:
        total = total * extent
    return (analyzer.canonical_simplify(total),)


class _BufferFlattener(AnalyzerMutator):
    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.flattened: dict[ir.Buffer, ir.Buffer] = {}
        self.offsets = FlatIndex()
        self.checks = checks_wanted()
        self.domains: dict[Any, ir.Range] = {}
        self.predicates: list[ir.PrimExpr] = []
        self.address = False

    def flat(self, buffer: ir.Buffer) -> ir.Buffer:
        """The flat buffer of the same data; bools are stored as bytes."""
        new = self.flattened.get(buffer)
        if new is None:
            new = buffer.get_flattened_buffer()
            shape = tuple([self.analyzer.canonical_simplify(size) for size in new.shape])
            new = self.flattened[buffer] = new.replace(shape=shape, dtype=stored_dtype(new.dtype))
        return new

    # ------------------------------------------------------------------ what is known

    def known_domain(self, var: ir.Var, domain: ir.Range) -> None:
        super().known_domain(var, domain)
        self.domains[var] = domain

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        self.predicates.append(strip_likely(condition))
        with self.holds(strip_likely(condition)):
            then_case = self.visit(node.then_case)
        self.predicates.pop()
        else_case = None if node.else_case is None else self.visit(node.else_case)
        return node.with_(condition=condition, then_case=then_case, else_case=else_case)

    def flat_indices(self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        """The flat index of an access, simplified as a map from the loops around it."""
        return self.in_context(self.offsets(buffer, indices))

    def places(self, node: ir.BufferLoad | ir.BufferStore) -> tuple[ir.PrimExpr, ...]:
        """The flat index of the access `node`; what it is made of is checked if that is wanted."""
        indices, buffer = ir.mutate_all(self.visit, node.indices), node.buffer
        if self.checks and len(indices) > 1:  # code generation checks a single one
            indices = checked_indices(buffer, indices, buffer.shape, self.analyzer, node)
        return self.flat_indices(buffer, indices)

    def in_context(self, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        from tvmagic.arith.iter_map import IterMapLevel, iter_map_simplify

        predicate: ir.PrimExpr = ir.IntImm(BOOL, 1)
        for fact in self.predicates:
            predicate = logical_and(predicate, fact)
        return tuple(
            iter_map_simplify(
                list(indices),
                self.domains,
                predicate,
                check_level=IterMapLevel.Surjective,
                simplify_trivial_iterators=True,
                analyzer=self.analyzer,
            )
        )

    # ------------------------------------------------------------------ accesses

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        indices, flat = self.places(node), self.flat(node.buffer)
        new = ir.BufferLoad(flat, indices, node.predicate, node.span)
        return ir.Cast(node.dtype, new, node.span) if node.dtype.is_bool and not self.address else new

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        indices, value = self.places(node), self.visit(node.value)
        flat = self.flat(node.buffer)
        if value.dtype.is_bool:
            value = ir.Cast(stored_dtype(value.dtype), value, node.span)
        return ir.BufferStore(flat, value, indices, node.predicate, node.span)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if is_call(node, "tir.address_of"):
            outer, self.address = self.address, True
            new = self.visit_children(node)
            self.address = outer
            return new
        if not is_call(node, "tir.if_then_else"):
            return self.visit_children(node)
        condition = self.visit(node.args[0])
        parts = [condition]
        for fact, part in ((condition, node.args[1]), (ir.Not(condition), node.args[2])):
            self.predicates.append(fact)
            with self.holds(self.analyzer.rewrite_simplify(fact)):
                parts.append(self.visit(part))
            self.predicates.pop()
        return node if all(a is b for a, b in zip(parts, node.args)) else node.replace(args=tuple(parts))

    # ------------------------------------------------------------------ definitions

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        extents = flat_extents(node, self.analyzer, self.flat)
        new = self.visit_children(node)
        return new.replace(extents=extents, dtype=stored_dtype(new.dtype))

    @ir.handles(ir.DeclBuffer)
    def declaration(self, node: ir.DeclBuffer) -> ir.Stmt:
        return self.visit(node.body)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        if node.match_buffers:
            raise TVMagicError(
                f"block `{node.name_hint}` still matches buffers",
                node=node,
                hint="run LowerMatchBuffer first",
                code="tir.flatten_buffer.matched_buffer",
            )
        self.known_block(node)
        new = self.visit_children(node)
        return new.replace(
            alloc_buffers=tuple([self.flat(b) for b in new.alloc_buffers]),
            reads=tuple([self.region(r) for r in new.reads]),
            writes=tuple([self.region(r) for r in new.writes]),
        )

    @ir.handles(ir.BufferRegion)
    def leave_region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        return node

    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        """A box of a buffer as a box of the flat one: from its first to its last element."""
        flat = self.flat(node.buffer)
        if len(flat.shape) == len(node.buffer.shape):
            return node.replace(buffer=flat)
        first = self.flat_indices(node.buffer, tuple([r.min for r in node.region]))
        last = self.flat_indices(node.buffer, tuple([r.min + r.extent - 1 for r in node.region]))
        box = [ir.Range.from_min_extent(a, self.analyzer.simplify(b - a + 1)) for a, b in zip(first, last)]
        return ir.BufferRegion(flat, box, node.span)


@tir_pass("tir.FlattenBuffer")
def FlattenBuffer(func: ir.PrimFunc) -> ir.PrimFunc:
    """Flatten the buffers of a TensorIR function; those of its parameters keep their shape.

    A function made from a TE schedule stays as it is: StorageFlatten does this there.
    """
    if from_legacy_te_schedule(func):
        return func
    flattener = _BufferFlattener(Analyzer())
    flattener.mark_sizes(func)
    return func.with_body(flattener.visit(func.body))
