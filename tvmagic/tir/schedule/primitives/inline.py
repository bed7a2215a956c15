"""Primitives that write one block into another."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import logical_and
from tvmagic.ir.query import is_one, nodes_of
from tvmagic.tir.blocks.conditions import both
from tvmagic.tir.blocks.domains import iter_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import detected_regions, used_buffers
from tvmagic.tir.blocks.scope import DepKind
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, primitive
from tvmagic.tir.schedule.requirements import (
    check_complete,
    check_loops_unused,
    check_no_matches,
    check_no_pointer,
    check_not_output,
    check_runs_everywhere,
    is_complete,
    is_output,
    scope_root,
)
from tvmagic.tir.schedule.rewrite import BlockReuse, remove_child
from tvmagic.tir.schedule.state import ScheduleState


class _Inliner(ir.Mutator):
    """Rewrites a scope: loads or stores of the inlined buffer are replaced, signatures renewed."""

    def __init__(self, root: ir.Block, buffer: ir.Buffer, inlined: ir.Block) -> None:
        self.root = root
        self.buffer = buffer
        self.listed = {region.buffer for region in (*inlined.reads, *inlined.writes)}
        self.reuse = BlockReuse()

    def rewrite_scope(self, body: ir.Stmt) -> ir.Block:
        """The scope's root with a new body, without the inlined buffer."""
        new = self.root.replace(
            body=self.visit(body),
            alloc_buffers=tuple([b for b in self.root.alloc_buffers if b is not self.buffer]),
        )
        self.reuse.note(self.root, new)
        return new

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        return self.visit_children(node) if self.buffer in used_buffers(node) else node

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        if any(match.source.buffer is self.buffer for match in node.match_buffers):
            raise ScheduleError(
                f"buffer `{self.buffer.name}` is matched in block `{node.name_hint}`, so it cannot be inlined",
                node,
                code="compute_inline.buffer_matched",
            )
        new = self.visit_children(node)
        if any(region.buffer is self.buffer for region in (*node.reads, *node.writes)):
            # what neither block listed, such as a mere view of memory, is not listed now
            listed = self.listed | {region.buffer for region in (*node.reads, *node.writes)}
            reads, writes = detected_regions(new)
            new = new.replace(
                reads=tuple([r for r in reads if r.buffer in listed]),
                writes=tuple([w for w in writes if w.buffer in listed]),
            )
        self.reuse.note(node, new)
        return new


# ---------------------------------------------------------------------------- compute_inline


def _single_write(block: StmtSRef) -> ir.Buffer:
    if block.block.init is not None:
        raise ScheduleError(
            f"{block.label} has an init, so it is a reduction and cannot be inlined",
            block,
            code="compute_inline.reduction",
        )
    buffers = list(dict.fromkeys([r.buffer for r in block.block.writes]))
    if len(block.block.writes) != 1 or len(buffers) != 1:
        raise ScheduleError(
            f"{block.label} must write exactly one buffer, it writes {len(block.block.writes)}",
            block,
            code="compute_inline.several_buffers_written",
        )
    return buffers[0]


class _ComputeInliner(_Inliner):
    """Replaces loads of the producer's buffer by the stored value at their indices."""

    def __init__(self, root: ir.Block, buffer: ir.Buffer, block: StmtSRef) -> None:
        super().__init__(root, buffer, block.block)
        store = block.block.body
        if not isinstance(store, ir.BufferStore):
            raise ScheduleError(
                f"the body of {block.label} must be one store", block, code="compute_inline.not_one_store"
            )
        self.value = store.value
        self.variables = self._plain_indices(block.block, store) or self._inverted_indices(block, store)

    @staticmethod
    def _plain_indices(block: ir.Block, store: ir.BufferStore) -> list[ir.Var] | None:
        """The block's variables where they are the indices, each in its place."""
        if len(block.iter_vars) != len(store.indices):
            return None
        analyzer = Analyzer()
        for var, index in zip(block.iter_vars, store.indices):
            if index is var.var:
                continue
            assert var.dom is not None
            unit = isinstance(var.dom.extent, ir.IntImm) and var.dom.extent.value == 1
            if not (unit and analyzer.can_prove_equal(index, 0) and analyzer.can_prove_equal(var.dom.min, 0)):
                return None
        return [var.var for var in block.iter_vars]

    def _inverted_indices(self, block: StmtSRef, store: ir.BufferStore) -> list[ir.Var]:
        """Placeholders for the indices, with the value rewritten in terms of them."""
        from tvmagic.arith.iter_map import detect_iter_map, inverse_affine_iter_map

        domains = iter_domains(block.block.iter_vars)
        found = detect_iter_map(store.indices, domains, check_level="bijective", simplify_trivial_iterators=False)
        if not found.indices:
            raise ScheduleError(
                f"the indices at which {block.label} stores are not a bijection of its variables",
                block,
                code="compute_inline.indices_not_bijective",
            )
        places = [ir.Var(f"ph_{i}", index.dtype) for i, index in enumerate(store.indices)]
        inverse = dict(inverse_affine_iter_map(found.indices, places))
        analyzer = Analyzer()
        for var, dom in domains.items():
            if isinstance(dom.min, ir.IntImm) and analyzer.can_prove_equal(dom.extent, 1):
                inverse[var] = dom.min
        self.value = ir.substitute(store.value, inverse)
        return places

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        new = self.visit_children(node)
        if new.buffer is not self.buffer:
            return new
        return ir.substitute(self.value, dict(zip(self.variables, new.indices)))


def _check_sources_stay(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> None:
    """What the block reads must still be there where its consumers will read it."""
    scope = state.get_block_scope(root)
    places = {child: i for i, child in enumerate(scope.children)}
    last = max([places[consumer] for consumer in scope.consumers(block)], default=-1)
    for dep in scope.get_deps_by_src(block):
        if dep.kind is DepKind.WAR and places[dep.dst] <= last:
            raise ScheduleError(
                f"{dep.dst.label} overwrites what {block.label} reads before the last consumer has it",
                dep.dst,
                block,
                code="compute_inline.source_overwritten",
            )


def _without(state: ScheduleState, root: StmtSRef, block: StmtSRef) -> ir.Stmt:
    body = remove_child(root.block.body, block.block)
    if body is None:
        raise ScheduleError(
            f"{block.label} is the only leaf of its scope {root.label}", block, code="compute_inline.only_leaf"
        )
    return body


@primitive("ComputeInline")
def compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Write a block into its consumers and take it away.

    Requires: the block is complete, uses no loop variables but through its bindings, writes one buffer that its scope
    allocates, stores it by one statement at indices that are a bijection of its variables, is not the only leaf of its scope, and
    its scope is a stage pipeline; no block overwrites what it reads before its consumers ran; nothing uses
    the buffer by its pointer.

    Example
    -------
    `sch.compute_inline("B")` makes of

        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v] * 2.0

    this:

        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = (A[v] + T.float32(1.0)) * T.float32(2.0)
    """
    root = scope_root(state, block, stage_pipeline=True)
    buffer = _single_write(block)
    check_complete(state, block, root)
    check_not_output(state, block, root)
    check_loops_unused(state, block)
    check_no_matches(block)
    _check_sources_stay(state, block, root)
    check_no_pointer(root.block, buffer, block)
    inliner = _ComputeInliner(root.block, buffer, block)
    new = inliner.rewrite_scope(_without(state, root, block))
    state.replace(root, new, inliner.reuse)


# ---------------------------------------------------------------------------- reverse_compute_inline


def _single_read(state: ScheduleState, consumer: StmtSRef, root: StmtSRef) -> ir.Buffer:
    """The one buffer that the consumer reads and its scope writes."""
    if consumer.block.init is not None:
        raise ScheduleError(
            f"{consumer.label} has an init, so it is a reduction and cannot be inlined",
            consumer,
            code="reverse_compute_inline.reduction",
        )
    writers = state.get_block_scope(root).buffer_writers
    produced = [r.buffer for r in consumer.block.reads if r.buffer in writers]
    buffers = list(dict.fromkeys(produced))
    if len(buffers) != 1:
        raise ScheduleError(
            f"{consumer.label} must read exactly one buffer that a block of its scope writes, it reads {len(buffers)}",
            consumer,
            code="reverse_compute_inline.several_buffers_read",
        )
    return buffers[0]


def _single_producer(state: ScheduleState, consumer: StmtSRef, root: StmtSRef) -> StmtSRef:
    scope = state.get_block_scope(root)
    into = scope.get_deps_by_dst(consumer)
    producers = list(dict.fromkeys([d.src for d in into]))
    if len(producers) == 1 and all(d.kind is DepKind.RAW for d in into):
        producer = producers[0]
        out = scope.get_deps_by_src(producer)
        if {d.dst for d in out} == {consumer} and is_complete(state, producer, root):
            return producer
    raise ScheduleError(
        f"{consumer.label} must have a single producer, a complete block with no other consumer",
        consumer,
        code="reverse_compute_inline.no_single_producer",
    )


def _store_of(block: ir.Block) -> ir.BufferStore | None:
    """The store that is all of a block's body, or all of an `if` without `else` there."""
    body = block.body
    if isinstance(body, ir.IfThenElse) and body.else_case is None:
        body = body.then_case
    return body if isinstance(body, ir.BufferStore) else None


class _ReverseInliner(_Inliner):
    """Writes a consumer into the store of its producer.

    `values` gives for each variable of the consumer the expression in the producer's variables.
    """

    def __init__(
        self, root: ir.Block, buffer: ir.Buffer, consumer: StmtSRef, realize: ir.BlockRealize, producer: ir.Block
    ) -> None:
        super().__init__(root, buffer, consumer.block)
        self.label, self.consumer, self.producer = consumer.label, consumer.block, producer
        if not (isinstance(realize.predicate, ir.IntImm) and realize.predicate.value):
            raise ScheduleError(
                f"{self.label} has a predicate, so it cannot be inlined",
                consumer,
                code="reverse_compute_inline.predicate",
            )
        if not isinstance(self.consumer.body, ir.BufferStore):
            raise ScheduleError(
                f"the body of {self.label} must be one store", consumer, code="reverse_compute_inline.not_one_store"
            )
        self.store = self.consumer.body
        self.analyzer = Analyzer()
        self.values = self._invert(consumer)
        self._check_covered(consumer)

    def _invert(self, consumer: StmtSRef) -> dict[ir.Var, ir.PrimExpr]:
        from tvmagic.arith.iter_map import detect_iter_map, inverse_affine_iter_map

        loads = [load for load in nodes_of(self.store, ir.BufferLoad) if load.buffer is self.buffer]
        produced = _store_of(self.producer)
        same = loads and all(
            ir.structural_equal(a, b) for other in loads[1:] for a, b in zip(loads[0].indices, other.indices)
        )
        if produced is None or not same:
            raise ScheduleError(
                f"{self.label} must read `{self.buffer.name}` at one place, written by one store",
                consumer,
                code="reverse_compute_inline.several_reads",
            )
        domains = iter_domains(self.consumer.iter_vars)
        found = detect_iter_map(
            loads[0].indices, domains, check_level="nocheck", simplify_trivial_iterators=False, analyzer=self.analyzer
        )
        try:
            inverse = inverse_affine_iter_map(found.indices, produced.indices) if found.indices else None
            back = inverse_affine_iter_map(found.indices, loads[0].indices) if found.indices else {}
        except TVMagicError:
            inverse, back = None, {}
        # `B[v // 2]` is read by two iterations, of which the inverse gives one
        if inverse is None or not all(self.analyzer.can_prove_equal(var, value) for var, value in back.items()):
            raise ScheduleError(
                f"the indices at which {self.label} reads `{self.buffer.name}` cannot be inverted",
                consumer,
                code="reverse_compute_inline.indices_not_invertible",
            )
        values: dict[ir.Var, ir.PrimExpr] = {}
        for var, dom in iter_domains(self.consumer.iter_vars).items():
            if is_one(dom.extent) and isinstance(dom.min, ir.IntImm):
                values[var] = dom.min
        values.update(inverse)
        self.read_at, self.written_at = loads[0].indices, produced.indices
        return values

    def _check_covered(self, consumer: StmtSRef) -> None:
        domains = iter_domains(self.producer.iter_vars)
        for var, dom in iter_domains(self.consumer.iter_vars).items():
            value = self.values.get(var)
            covered = value is not None
            if value is not None:
                reached = eval_set(value, domains)
                last = dom.min + dom.extent - 1
                covered = not (
                    self.analyzer.can_prove(reached.min() > dom.min) or self.analyzer.can_prove(reached.max() < last)
                )
            if not covered:
                raise ScheduleError(
                    f"{self.label} is not covered by its producer: `{var.name}` goes beyond what is written",
                    consumer,
                    code="reverse_compute_inline.not_covered",
                )

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        new = self.visit_children(node)
        if node.block is not self.producer:
            return new
        predicate = self.in_bounds()
        if is_one(predicate):
            return new
        bound = {v.var: value for v, value in zip(self.producer.iter_vars, node.iter_values)}
        analyzer = Analyzer()
        inside = ir.substitute(predicate, bound)
        with analyzer.constraint_scope(node.predicate):
            known = analyzer.can_prove(inside)
        return new if known else new.replace(predicate=analyzer.simplify(both(node.predicate, inside)))

    def in_bounds(self) -> ir.PrimExpr:
        """That the consumer reads what is written, with variables in their domains, in the producer's variables."""
        analyzer = Analyzer(iter_domains(self.producer.iter_vars))
        inside: ir.PrimExpr = ir.IntImm("bool", 1)
        for var, dom in iter_domains(self.consumer.iter_vars).items():
            inside = logical_and(inside, logical_and(var >= dom.min, var < dom.min + dom.extent))
        inside = analyzer.simplify(ir.substitute(inside, self.values))
        for read, written in zip(self.read_at, self.written_at):  # `B[0, 2 * i]` is a part of what is written
            read = ir.substitute(read, self.values)
            with analyzer.constraint_scope(inside):
                same = analyzer.can_prove_equal(read, written)
            if not same:
                inside = logical_and(inside, analyzer.simplify(written.equal(read)))
        return analyzer.simplify(inside)

    @ir.handles(ir.BufferStore)
    def producer_store(self, node: ir.BufferStore) -> ir.BufferStore:
        new = self.visit_children(node)
        if new.buffer is not self.buffer:
            return new
        return _WriteInto(self.buffer, new.value, self.values).visit(self.store)


class _WriteInto(ir.Mutator):
    """The consumer's store with the producer's value in place of the load."""

    def __init__(self, buffer: ir.Buffer, value: ir.PrimExpr, values: dict[ir.Var, ir.PrimExpr]) -> None:
        self.buffer, self.value, self.values = buffer, value, values

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.PrimExpr:
        return self.values.get(node, node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        return self.value if node.buffer is self.buffer else self.visit_children(node)


def _check_reads_what_is_written(
    state: ScheduleState, root: StmtSRef, block: StmtSRef, producer: StmtSRef, inliner: _ReverseInliner
) -> None:
    """The block may read only what its producer writes, or it would not run where it ran before."""
    if block in state.flags.covered(state, root):
        return
    predicate = state.realize_of(producer).predicate
    raise ScheduleError(
        f"the producer block {producer.label} does not write all that {block.label} reads: its predicate {predicate} cannot "
        f"be implied from the synthesized predicate {inliner.in_bounds()} of the new inlined block",
        block,
        producer,
        hint="let the producer run over all that is read",
        code="reverse_compute_inline.producer_predicate",
    )


@primitive("ReverseComputeInline")
def reverse_compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Write a block into its one producer and take it away.

    Requires: the block is complete, reads one buffer that its scope allocates and writes, at indices that can be
    inverted, stores by one statement, has no predicate, uses no loop variables but through its bindings, runs for every
    value of its variables if it is an output block, is covered by its producer, which is a complete
    block with no other consumer; it is not the only leaf of its scope; nothing uses the buffer by its pointer.

    Example
    -------
    `sch.reverse_compute_inline("C")` makes of

        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0
        for j in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, j)
                C[v] = B[v] * 2.0

    this:

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                C[v] = (A[v] + T.float32(1.0)) * T.float32(2.0)
    """
    root = scope_root(state, block)
    buffer = _single_read(state, block, root)
    check_complete(state, block, root)
    check_loops_unused(state, block)
    if is_output(state, block, root):
        check_runs_everywhere(state, block)
    producer = _single_producer(state, block, root)
    if buffer not in root.block.alloc_buffers:
        raise ScheduleError(
            f"buffer `{buffer.name}` is not allocated by the scope of {block.label}, so blocks outside may read it",
            block,
            root,
            code="reverse_compute_inline.buffer_not_local",
        )
    check_no_pointer(root.block, buffer, block)
    for part in (block, producer):
        check_no_matches(part)
    inliner = _ReverseInliner(root.block, buffer, block, state.realize_of(block), producer.block)
    _check_reads_what_is_written(state, root, block, producer, inliner)
    new = inliner.rewrite_scope(_without(state, root, block))
    state.replace(root, new, inliner.reuse)
