"""InjectSoftwarePipeline: stages of several iterations of a loop run side by side.

A loop of statements S0 (stage 0, a copy) and S1 (stage 1, what computes with it) becomes

    S0(0)                           # prologue
    for i in range(n - 1):
        S0(i + 1)                   # body: the copy of the next iteration
        S1(i)                       #       beside the computation of this one
    S1(n - 1)                       # epilogue

Memory that an iteration has of its own gets as many versions as iterations are under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import callee, is_call, is_one
from tvmagic.passes import note
from tvmagic.tir.blocks.regions import effective_regions, used_by_pointer, with_detected_regions
from tvmagic.tir.renew import renewed
from tvmagic.tir.transform.declaration import tir_pass

STAGE, ORDER, ASYNC = "software_pipeline_stage", "software_pipeline_order", "software_pipeline_async_stages"


_ON_GIVEN_MEMORY = frozenset(
    f"tir.{name}"
    for name in """tvm_load_matrix_sync tvm_store_matrix_sync tvm_fill_fragment tvm_mma_sync tvm_bmma_sync mma_fill
    mma_store ptx_mma ptx_mma_sp ptx_ldmatrix""".split()
)  # the intrinsics that touch nothing but the memory whose pointers they are given


class _Pointers(ir.Visitor):
    """The memory that a statement reaches by pointers, and whether it calls what nothing is known of."""

    def __init__(self) -> None:
        self.found: set[ir.Var] = set()
        self.opaque = False

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        if node.dtype.is_handle:
            self.found.add(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if not isinstance(node.op, ir.Op) or (
            node.op.effect >= ir.CallEffect.UPDATE_STATE and node.op.name not in _ON_GIVEN_MEMORY
        ):
            self.opaque = True
        if is_call(node, "tir.address_of") and isinstance(node.args[0], ir.BufferLoad):
            self.found.add(node.args[0].buffer.data)
        self.visit_children(node)


_CALLS = ir.Var("calls", "handle")  # stands for what calls touch besides memory
_Accesses = dict[ir.Var, list[ir.BufferRegion | None]]


class _Part:
    """A statement of the loop: its block, when it runs, and which memory it touches (None: any part of it)."""

    def __init__(self, block: ir.Block, stage: int, order: int, position: int) -> None:
        self.block, self.stage, self.order, self.position = block, stage, order, position
        self.read: _Accesses = {}
        self.written: _Accesses = {}
        for regions, found in zip(effective_regions(block), (self.read, self.written)):
            for region in regions:
                found.setdefault(region.buffer.data, []).append(region)
        pointers = _Pointers()
        pointers.visit(block.body)
        for data in (*pointers.found, *((_CALLS,) if pointers.opaque else ())):
            self.read[data] = self.written[data] = [None]

    @property
    def memory(self) -> set[ir.Var]:
        return {*self.read, *self.written}

    def __str__(self) -> str:
        return f"statement {self.position}" + (f" (`{self.block.name_hint}`)" if self.block.name_hint else "")


def _block_of(stmt: ir.Stmt) -> ir.Block:
    """A statement as a block without variables."""
    if isinstance(stmt, ir.BlockRealize) and is_one(stmt.predicate):
        return stmt.block
    return with_detected_regions(ir.Block((), (), (), "", stmt, None, (), (), {}))


def _realized(block: ir.Block, predicate: ir.PrimExpr | None = None) -> ir.BlockRealize:
    return ir.BlockRealize((), ir.IntImm("bool", 1) if predicate is None else predicate, block)


# ---------------------------------------------------------------------------- what may be reordered


def _is_disjoint(a: ir.BufferRegion | None, b: ir.BufferRegion | None, analyzer: Analyzer) -> bool:
    """Whether two regions of one memory have no element in common."""
    if a is None or b is None or a.buffer is not b.buffer:
        return False
    return any(
        analyzer.can_prove(p.min + p.extent <= q.min) or analyzer.can_prove(q.min + q.extent <= p.min)
        for p, q in zip(a.region, b.region)
    )


class _Dependences:
    """Refuses stages and orders that would let a statement run before one that it depends on."""

    def __init__(self, loop: ir.For, parts: Sequence[_Part], own: Iterable[ir.Buffer]) -> None:
        self.loop, self.parts, self.own = loop, parts, {buffer.data for buffer in own}
        self.analyzer = Analyzer()
        self.analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))

    def check(self) -> None:
        orders = [part.order for part in self.parts]
        if len(set(orders)) < len(orders):
            raise TVMagicError(
                "Two statements in the software pipeline cannot have the same order",
                node=self.loop,
                hint=f"`{ORDER}` has a number of its own for each statement",
                code="tir.software_pipeline.repeated_order",
            )
        if sorted(orders) != list(range(len(orders))):
            raise TVMagicError(f"`{ORDER}` of {len(orders)} statements has the numbers from 0 to {len(orders) - 1}", node=self.loop, code="tir.software_pipeline.wrong_numbers")  # fmt: skip
        for i, first in enumerate(self.parts):
            for second in self.parts[i + 1 :]:
                self._one_iteration(first, second)
            for other in self.parts:
                self._several_iterations(first, other)

    def _conflicts(self, a: _Part, b: _Part, distance: int, memory: set[ir.Var]) -> bool:
        """Whether `b`, `distance` iterations later than `a`, touches what `a` touches, and one of them writes it."""
        later = {self.loop.loop_var: self.loop.loop_var + distance}
        for first, second in ((a.written, b.written), (a.written, b.read), (a.read, b.written)):
            for data in memory:
                for p in first.get(data, ()):
                    for q in second.get(data, ()):
                        moved = None if q is None else ir.substitute(q, later)
                        if not _is_disjoint(p, moved, self.analyzer):
                            return True
        return False

    def _one_iteration(self, first: _Part, second: _Part) -> None:
        if (first.stage, first.order) < (second.stage, second.order):
            return
        if not self._conflicts(first, second, 0, first.memory & second.memory):
            return
        if first.stage > second.stage:
            raise TVMagicError(
                f"{second} in stage {second.stage} cannot depend on {first} in the later stage {first.stage}",
                node=second.block,
                code="tir.software_pipeline.later_stage",
            )
        raise TVMagicError(
            "two statements with buffer access dependency in the same stage of the software pipeline cannot be "
            f"reordered: {first} and {second}",
            node=second.block,
            code="tir.software_pipeline.dependent_statements_swapped",
        )

    def _several_iterations(self, earlier: _Part, later: _Part) -> None:
        """Memory that iterations share: `later` may overtake `earlier` of an iteration before only if they are apart."""
        overtaken = earlier.stage - later.stage
        shared = (earlier.memory & later.memory) - self.own
        for distance in range(1, overtaken + 1):
            if distance == overtaken and earlier.order < later.order:
                continue
            if self._conflicts(earlier, later, distance, shared):
                raise TVMagicError(
                    f"{later} would run before {earlier} of {distance} iteration{'s' * (distance > 1)} ago, which "
                    "touches the same memory",
                    node=later.block,
                    hint="allocate the memory inside the loop, or let the two be in one stage",
                    code="tir.software_pipeline.iterations_swapped",
                )


# ---------------------------------------------------------------------------- versions of memory


def _versions(buffer: ir.Buffer, parts: Sequence[_Part], doubled: bool) -> int:
    """How many iterations need the memory of `buffer` at one time."""
    data = buffer.data
    writers = [part for part in parts if data in part.written]
    users = [part for part in parts if data in part.memory]
    if not writers:
        return 1
    count = max(part.stage for part in users) - min(part.stage for part in writers) + 1
    if count >= 2:
        # One less is enough if the last to read an element comes before the next one to write it.
        analyzer = Analyzer()
        meets = any(
            writer.order < user.order
            and writer.stage < user.stage
            and any(
                not _is_disjoint(p, q, analyzer)
                for p in writer.written[data]
                for q in (*user.read.get(data, ()), *user.written.get(data, ()))
            )
            for writer in writers
            for user in users
        )
        count -= not meets
    return max(count, 2) if doubled else count


# Intrinsics that take pointers and how far behind each they begin: the places of a pointer and of that distance among the
# arguments, and how many elements the distance counts in (a fragment has 256 of them, as in TVM).
_FRAGMENT = 256
_POINTERS: dict[str, Sequence[tuple[int, int, int]]] = {
    "tir.tvm_access_ptr": [(1, 2, 1)],
    "tir.tvm_load_matrix_sync": [(0, 4, _FRAGMENT)],
    "tir.tvm_store_matrix_sync": [(0, 4, _FRAGMENT)],
    "tir.tvm_fill_fragment": [(0, 4, _FRAGMENT)],
    "tir.tvm_mma_sync": [(place, place + 1, _FRAGMENT) for place in (0, 2, 4, 6)],
    "tir.ptx_mma": [(place, place + 1, 1) for place in (6, 8, 10)],
    "tir.ptx_ldmatrix": [(3, 4, 1)],
}


def _pointers(call: ir.Call) -> Sequence[tuple[int, int, int]]:
    return _POINTERS.get(callee(call), ())


class _Versioned(ir.Mutator):
    """Accesses of memory that has several versions: that of the iteration."""

    def __init__(self, loop: ir.For, buffers: Mapping[ir.Buffer, ir.Buffer], every: bool) -> None:
        self.loop, self.buffers, self.every = loop, buffers, every
        self.by_data = {buffer.data: buffer for buffer in buffers}

    def _version(self, count: ir.PrimExpr) -> ir.PrimExpr:
        return ir.ops.floormod(self.loop.loop_var - self.loop.min, count)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        node = self.visit_children(node)
        new = self.buffers.get(node.buffer)
        if new is None:
            return node
        return ir.BufferLoad(new, [self._version(new.shape[0]), *node.indices], node.predicate, node.span)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        node = self.visit_children(node)
        new = self.buffers.get(node.buffer)
        if new is None:
            return node
        return node.replace(buffer=new, indices=(self._version(new.shape[0]), *node.indices))

    @ir.handles(ir.BufferRegion)
    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        node = self.visit_children(node)
        new = self.buffers.get(node.buffer)
        if new is None:
            return node
        count = new.shape[0]
        one = ir.Range.from_min_extent(self._version(count), ir.IntImm("int32", 1))
        all_of_them = ir.Range.from_min_extent(ir.IntImm("int32", 0), count)
        return ir.BufferRegion(new, [all_of_them if self.every else one, *node.region], node.span)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        node = self.visit_children(node)
        args, pointers = list(node.args), _pointers(node)
        for place, distance, unit in pointers:
            buffer = self.by_data.get(args[place])
            if buffer is not None:
                new = self.buffers[buffer]
                size = ir.ops.floordiv(_elements(new), unit)
                args[distance] = args[distance] + self._version(new.shape[0]) * size
        return node.with_(args=tuple(args)) if pointers else node


def _elements(versions: ir.Buffer) -> ir.PrimExpr:
    """How far one version of a buffer is from the next."""
    if versions.strides:
        return versions.strides[0]
    size: ir.PrimExpr = ir.IntImm("int32", 1)
    for extent in versions.shape[1:]:
        size = size * extent
    return size


def _with_versions(buffer: ir.Buffer, count: int) -> ir.Buffer:
    strides = tuple(buffer.strides)
    if strides:
        strides = (strides[0] * buffer.shape[0], *strides)
    return buffer.replace(shape=(ir.IntImm("int32", count), *buffer.shape), strides=strides)


# ---------------------------------------------------------------------------- the three loops


class _Pipeline:
    """Emits the prologue, the body and the epilogue of one loop."""

    def __init__(self, loop: ir.For, parts: Sequence[_Part], own: Sequence[ir.Buffer], doubled: set[ir.Buffer]) -> None:
        self.loop, self.own = loop, own
        self.parts = sorted(parts, key=lambda part: part.order)
        self.last = max(part.stage for part in parts)
        counts = {buffer: _versions(buffer, parts, buffer in doubled) for buffer in own}
        self.buffers = {b: _with_versions(b, count) for b, count in counts.items() if count > 1}
        for buffer, new in self.buffers.items():
            note(
                "versions",
                f"`{buffer.name}` has {new.shape[0]} versions: so many iterations use it at one time",
                node=loop,
            )
        self.emitted = 0

    def statement(self) -> ir.Stmt:
        low, end, last = self.loop.min, self.loop.min + self.loop.extent, self.last
        analyzer = Analyzer()
        start, least = end, None
        if last > 1 and not analyzer.can_prove(self.loop.extent >= last):
            least = low + last  # the epilogue begins behind the prologue, however short the loop is
        pieces = [
            self._emit(low, low + last, True),
            self._emit(low + last, end, False),
            self._emit(start, end + last, True, least),
        ]
        body = ir.SeqStmt([piece for piece in pieces if piece is not None])
        own = tuple([self.buffers.get(buffer, buffer) for buffer in self.own])
        return _realized(with_detected_regions(ir.Block((), (), (), "", body, None, own, (), {})))

    def _emit(
        self, start: ir.PrimExpr, end: ir.PrimExpr, unroll: bool, least: ir.PrimExpr | None = None
    ) -> ir.Stmt | None:
        """The statements of the times from `start` to `end`: at time `t` a stage `s` runs iteration `t - s`."""
        loop, analyzer = self.loop, Analyzer()
        start, extent = analyzer.simplify(start), analyzer.simplify(end - start)
        once = analyzer.can_prove(extent.equal(1))
        if isinstance(extent, ir.IntImm) and extent.value <= 0:
            return None
        time: ir.PrimExpr = start
        var = ir.Var(loop.loop_var.name, loop.loop_var.dtype)
        if not once:
            analyzer.bind(var, ir.Range.from_min_extent(start, extent))
            time = var
        found: list[ir.Stmt] = []
        for part in self.parts:
            iteration = time - part.stage
            inside = ir.ops.logical_and(loop.min <= iteration, iteration < loop.min + loop.extent)
            if least is not None:
                inside = ir.ops.logical_and(inside, time >= least)
            inside = analyzer.simplify(inside)
            if analyzer.can_prove(ir.ops.logical_not(inside)):
                continue
            shift = analyzer.simplify(start - loop.min)
            if not once:  # the loop counts from the first iteration, not from its first time
                iteration = iteration + shift
                inside = ir.substitute(inside, {var: var + shift})
            found.append(_realized(self._copy(part, iteration), inside))
        if not found:
            return None
        body = found[0] if len(found) == 1 else ir.SeqStmt(found)
        if not once:
            kept = {k: v for k, v in loop.annotations.items() if k not in (STAGE, ORDER, ASYNC)}
            kind, bound = (ir.ForKind.UNROLLED, None) if unroll else (loop.kind, loop.thread_binding)
            body = ir.For(var, loop.min, extent, kind, body, bound, kept, span=loop.span)
        return _realized(_block_of(body))

    def _copy(self, part: _Part, iteration: ir.PrimExpr) -> ir.Block:
        block = _Versioned(self.loop, self.buffers, self.last != 1).visit(part.block)
        self.emitted += 1
        return renewed(ir.substitute(block, {self.loop.loop_var: iteration}))


# ---------------------------------------------------------------------------- the pass


class _Injector(ir.StmtMutator):
    """Finds the annotated loops, the inner ones first."""

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        node = self.visit_children(node)
        if STAGE not in node.annotations and ORDER not in node.annotations:
            return node
        for key, word in ((STAGE, "Stage"), (ORDER, "Order")):
            if key not in node.annotations:
                raise TVMagicError(
                    f"{word} of the software pipeline is not defined",
                    node=node,
                    hint=f"annotate `{key}`",
                    code="tir.software_pipeline.incomplete_annotations",
                )
        return self._pipelined(node)

    def _pipelined(self, loop: ir.For) -> ir.Stmt:
        own: list[ir.Buffer] = []
        statements = _statements(_inner(loop, own), loop)
        blocks: list[ir.Block] = []
        for stmt in statements:
            block = _block_of(stmt)
            if isinstance(stmt, ir.BlockRealize) and isinstance(block.body, ir.SeqStmt):
                own += block.alloc_buffers
                blocks += [_block_of(child) for child in block.body.seq]
            else:
                blocks.append(block)
        stages, orders = (_numbers(loop, key, len(blocks)) for key in (STAGE, ORDER))
        parts = [_Part(block, stage, order, n) for n, (block, stage, order) in enumerate(zip(blocks, stages, orders))]
        _Dependences(loop, parts, own).check()
        last = max(stages)
        if last and loop.kind not in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
            raise TVMagicError(
                f"the iterations of loop `{loop.loop_var.name}` need not run in order, which the stages of a software "
                "pipeline rely on",
                node=loop,
                hint="annotate a serial loop, and run a loop around it in parallel",
                code="tir.software_pipeline.iterations_unordered",
            )
        if isinstance(loop.extent, ir.IntImm) and loop.extent.value < last:
            note("ignored", f"the loop has {loop.extent} iterations, fewer than stages are before the last", node=loop)
            return loop.replace(
                annotations={k: v for k, v in loop.annotations.items() if k not in (STAGE, ORDER, ASYNC)}
            )
        if ASYNC in loop.annotations:
            note("ignored", "copies are not asynchronous on this machine", node=loop)
        pipeline = _Pipeline(loop, parts, own, _doubled(blocks))
        for buffer in pipeline.buffers:
            self._check_pointers(buffer, blocks)
        note("pipeline", f"{len(parts)} statements in {last + 1} stages", node=loop)
        return pipeline.statement()

    def _check_pointers(self, buffer: ir.Buffer, blocks: Sequence[ir.Block]) -> None:
        for block in blocks:
            if used_by_pointer(_WithoutKnownPointers(buffer).visit(block), buffer):
                raise TVMagicError(
                    f"`{buffer.name}` needs several versions, but is used by its pointer",
                    node=block,
                    hint="access it by its indices, or by `access_ptr`",
                    code="tir.software_pipeline.buffer_used_by_pointer",
                )


class _WithoutKnownPointers(ir.Mutator):
    """Programs without the pointers to a buffer that `_Versioned` moves to a version."""

    def __init__(self, buffer: ir.Buffer) -> None:
        self.buffer = buffer

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        known = [place for place, _, _ in _pointers(node) if node.args[place] is self.buffer.data]
        node = self.visit_children(node)
        if not known:
            return node
        return node.replace(args=tuple([ir.IntImm("int32", 0) if i in known else a for i, a in enumerate(node.args)]))


def _inner(loop: ir.For, own: list[ir.Buffer]) -> ir.Stmt:
    """The body of a loop, without the block around it; its buffers are added to `own`."""
    body = loop.body
    if not isinstance(body, ir.BlockRealize):
        return body
    if not is_one(body.predicate) or body.block.iter_vars or body.block.match_buffers:
        raise TVMagicError(
            "the block in a software pipeline has no condition, no variables and no views of buffers",
            node=body,
            hint="ConvertBlocksToOpaque and LowerMatchBuffer come first",
            code="tir.software_pipeline.wrong_block",
        )
    own += body.block.alloc_buffers
    return body.block.body


def _statements(body: ir.Stmt, loop: ir.For) -> Sequence[ir.Stmt]:
    if not isinstance(body, ir.SeqStmt):
        raise TVMagicError(
            f"The body of the software pipeline should be SeqStmt, got {type(body).__name__}",
            node=loop,
            hint="a pipeline has several statements, one for each stage",
            code="tir.software_pipeline.body_not_a_sequence",
        )
    return body.seq


def _numbers(loop: ir.For, key: str, count: int) -> list[int]:
    values: Any = loop.annotations[key]
    numbers = [int(getattr(value, "value", value)) for value in values]
    if len(numbers) != count:
        raise TVMagicError(
            f"the pipeline has {count} statements, and `{key}` has {len(numbers)} numbers",
            node=loop,
            code="tir.software_pipeline.wrong_number_count",
        )
    if min(numbers) < 0:
        raise TVMagicError(
            f"`{key}` has the negative number {min(numbers)}", node=loop, code="tir.software_pipeline.negative_number"
        )
    return numbers


def _doubled(blocks: Sequence[ir.Block]) -> set[ir.Buffer]:
    """The buffers that the annotation `double_buffer_scope` of a block gives two versions at least."""
    found: set[ir.Buffer] = set()
    for block in blocks:
        position = block.annotations.get("double_buffer_scope")
        if position is not None:
            found.add(block.writes[int(getattr(position, "value", position))].buffer)
    return found


@tir_pass("tir.InjectSoftwarePipeline")
def InjectSoftwarePipeline(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let stages of several iterations of a loop run side by side, as the annotations of the loop say.

    `software_pipeline_stage` has for each statement of the loop its stage, `software_pipeline_order` its place among the
    others at one time; a statement of stage `s` runs `s` iterations later than one of stage 0. What the loop's block
    allocates gets a version for each iteration under way. Raises `TVMagicError` if a statement would run before one
    that it depends on, or if the iterations need not run in order. `software_pipeline_async_stages` has no effect here.
    """
    return func.with_body(_Injector().visit(func.body))
