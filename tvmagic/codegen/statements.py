"""Statements as LLVM blocks: loops, branches, allocations, checks.

Every function gives a status: 0 where it ran to its end, else why it stopped (`STOPPED`, or
the number of a record with the place and the values, see `ll/fail.ll`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.arith.analyzer import Analyzer
from tvmagic.codegen.between_places import between_places
from tvmagic.codegen.emit import FunctionText
from tvmagic.codegen.function_splits import call_as_function, function_parts
from tvmagic.codegen.gpu import no_assertions
from tvmagic.codegen.masks import with_plain_mask
from tvmagic.codegen.memory import AliasScopes, MemoryEmitter
from tvmagic.codegen.odd_vectors import parts_of
from tvmagic.codegen.parallel import emit_parallel
from tvmagic.codegen.scattered import SCATTERS
from tvmagic.codegen.shared_loads import share_loads
from tvmagic.codegen.short_rows import short_rows_as_vectors
from tvmagic.codegen.size_counts import allocated_bytes, check_index_range
from tvmagic.codegen.tail_versions import tail_versions
from tvmagic.codegen.types import llvm_type, place_type
from tvmagic.codegen.work_estimate import LARGEST_UNROLLED_BY_LLVM, constant_elements
from tvmagic.errors import BuildError
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    DataType,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    LetStmt,
    Max,
    PrimExpr,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    While,
    post_order_visit,
    structural_equal,
)
from tvmagic.ir.functor import handles
from tvmagic.ir.query import contains, is_call, nodes_of
from tvmagic.ir.values import scope_of
from tvmagic.tir.transform.expressions.widen_index import FIT_INT32

__all__ = ["STOPPED", "FunctionEmitter"]

STOPPED = -1
# Constant allocations up to this size live on the stack, where LLVM can turn them into registers.
_STACK_BYTES = 32 * 1024
# Operations of an unrolled loop that LLVM agrees to.
_LARGEST_UNROLLED = 4096
# Operations of a function in which LLVM may write loops out if nobody asked for it. Each is short, but a schedule may
# have made hundreds of them, and the time to emit a function grows faster than the function.
_LARGEST_WRITTEN = 16384
_INT64 = DataType("int64")


# The annotation of a loop whose sums and extrema may be taken in any order.
ANY_ORDER = "pragma_any_order"


_SHORT = (8, 128)  # iterations of a loop over vectors that LLVM might write out as a whole
_PARTIAL_RESULTS = (4, 8)  # vectors of them, of a reduction in any order: at least, and at most
_SHORT_STEP = 4  # iterations of it that are written out
_WHOLE = 64  # iterations of a loop over elements that LLVM might write out as a whole
_FEW_STORES = 8  # vectors that its body stores at most; more are the tile of a product, which is to stay in registers


def _stores_elements(body: Stmt) -> bool:
    """Whether a body without loops stores elements, not vectors, and not in place of what it reads, as sums are."""
    stored: set[Var] = set()
    loaded: set[Var] = set()
    others = [0]

    def look(node: object) -> None:
        if isinstance(node, BufferStore):
            stored.add(node.buffer.data)
            others[0] += node.value.dtype.lane_code != 1
        elif isinstance(node, BufferLoad):
            loaded.add(node.buffer.data)
        elif isinstance(node, For):
            others[0] += 1

    post_order_visit(body, look)
    return not others[0] and bool(stored) and not stored & loaded


def _vector_stores(stmt: Stmt) -> int:
    """How many vectors a body without loops stores; 0 for others."""
    if contains(stmt, For):
        return 0
    return sum(store.value.dtype.lanes > 1 for store in nodes_of(stmt, BufferStore))


def _on_bytes(stmt: BufferStore) -> PrimExpr:
    """What is stored; the step of `max` over bools, which are bytes in memory, as `or` of two bytes.

    LLVM would ask whether the `or` of both is zero, and then sees no reduction any more, of which it could make vectors.
    """
    value = stmt.value
    if not isinstance(value, Cast) or not value.dtype.is_int or not isinstance(value.value, Max):
        return value
    mine, other = (_byte_of(side) for side in (value.value.a, value.value.b))
    if mine is None or other is None:
        return value
    if mine.buffer is not stmt.buffer:
        mine, other = other, mine
    if mine.buffer is not stmt.buffer or not all(map(structural_equal, mine.indices, stmt.indices)):
        return value
    return Call(value.dtype, "tir.bitwise_or", [mine, Cast(value.dtype, Cast(value.value.dtype, other))])


def _byte_of(value: PrimExpr) -> BufferLoad | None:
    """The load of a byte that a bool is made of; None if it is made of something else."""
    load = value.value if isinstance(value, Cast) and value.dtype.is_bool else None
    return load if isinstance(load, BufferLoad) and load.dtype.bits == 8 else None


class FunctionEmitter(MemoryEmitter):
    """Emits the body of one LLVM function."""

    def __init__(
        self, context, text: FunctionText, parent: FunctionEmitter | None = None, by_value: bool = False
    ) -> None:
        super().__init__(context, text)
        self.scopes = AliasScopes(context.text)
        self.parent = parent
        self.by_value = by_value  # the captured values are arguments, and the caller waits; else they are in a closure
        self.is_parallel = parent is not None and (parent.is_parallel or not by_value)
        self.loops = 0  # emitted so far
        self.stack_bytes: dict[str, int] = {}  # of the arrays on the stack, by their pointers
        self.captured: list[tuple[str, str]] = []
        self.heap: list[str] = []
        self.worker = "0" if parent is None else "%worker"
        self.rests: set[For] = set()  # loops with the iterations that fill no vector of `short_rows`
        if parent is not None:
            self.intervals.known.update(parent.intervals.known)
            self.intervals.given.extend(parent.intervals.given)
            self.scopes.group_of.update(parent.scopes.group_of)
            self.void = parent.void
            if by_value:
                self.rests = parent.rests
        else:
            self.void = False

    def child(self, text: FunctionText, by_value: bool = False) -> FunctionEmitter:
        """Return the emitter of a function that this one calls, for the body of a parallel loop or a part of the code."""
        return FunctionEmitter(self.context, text, self, by_value)

    # ------------------------------------------------------------------ variables of the parent

    def missing(self, var: Var) -> str:
        """Return the value of a variable of the calling function, as an argument or read from the closure."""
        if self.parent is None:
            return super().missing(var)
        outer = self.parent.visit(var)
        kind = llvm_type(var.dtype)
        if outer[0] not in "%@":
            return outer
        slot = len(self.captured)
        self.captured.append((kind, outer))
        if self.by_value:
            name = f"%c{slot}"
        else:
            place = self.out.at_entry(f"getelementptr inbounds i64, ptr %closure, i64 {slot}")
            name = self.out.at_entry(f"load {kind}, ptr {place}, align 8, !invariant.load {self.context.empty_node()}")
        if self.parent.is_index(outer):
            self.index_values.add(name)
        self.values[var] = name
        return name

    # ------------------------------------------------------------------ leaving

    def leave(self, status: str) -> None:
        """Free what is allocated and return `status`."""
        for pointer in reversed(self.heap):
            self.context.free(self, pointer)
        self.out.do("ret void" if self.void else f"ret i32 {status}")

    def leave_if(self, status: str) -> None:
        """Go on where the i32 `status` is 0, else return it."""
        bad = self.out.op(f"icmp ne i32 {status}, 0")
        leave, go_on = self.out.new_block("leave"), self.out.new_block("on")
        self.out.branch(bad, leave, go_on, self.context.unlikely())
        self.out.start(leave)
        self.leave(status)
        self.out.start(go_on)

    def fail_unless(self, condition: str, site: int, values: list[str]) -> None:
        """Stop with the error of `site` and the i64 `values` if `condition` does not hold."""
        bad, go_on = self.out.new_block("bad"), self.out.new_block("on")
        self.out.branch(condition, go_on, bad, self.context.likely())
        self.out.start(bad)
        self.leave(self.context.record_failure(self, site, values))
        self.out.start(go_on)

    # ------------------------------------------------------------------ statements

    def statement(self, stmt: Stmt) -> None:
        """Emit `stmt`. Statements that end in another one are followed without recursion."""
        heap, location = len(self.heap), self.out.location
        following: Stmt | None = stmt
        while following is not None:
            self.context.at(self, following)
            following = self.visit(following)
        while len(self.heap) > heap:
            self.context.free(self, self.heap.pop())
        self.out.location = location

    @handles(SeqStmt)
    def sequence(self, stmt: SeqStmt) -> None:
        self.statements(stmt.seq)

    def statements(self, stmts: Sequence[Stmt]) -> None:
        """Emit statements one after the other, in a long program some of them as functions."""
        if not self.context.is_split or self.any_order or self.void:
            for part in stmts:
                self.statement(part)
            return
        for group, as_function in function_parts(self, stmts):
            if as_function:
                call_as_function(self, group)
            else:
                for part in group:
                    self.statement(part)

    @handles(LetStmt)
    def let_stmt(self, stmt: LetStmt) -> Stmt:
        self.bind(stmt.var, self.visit(stmt.value), stmt.value)
        return stmt.body

    @handles(DeclBuffer)
    def declare_buffer(self, stmt: DeclBuffer) -> Stmt:
        return stmt.body

    @handles(AttrStmt)
    def attribute(self, stmt: AttrStmt) -> Stmt | None:
        if stmt.attr_key in ("thread_extent", "virtual_thread"):
            return self.context.threads.launch(self, stmt)
        if stmt.attr_key == "pragma_import_llvm":
            if not isinstance(stmt.value, StringImm):
                raise BuildError(
                    "`import_llvm` takes LLVM text, or the name of a file with it",
                    node=stmt,
                    code="codegen.wrong_import_llvm",
                )
            if stmt.value.value not in self.context.text.imports:
                self.context.text.imports.append(stmt.value.value)
        elif stmt.attr_key == "volatile_scope":
            self.context.volatile.add(stmt.node)
        elif stmt.attr_key == FIT_INT32:
            check_index_range(self, stmt.value)
        if stmt.attr_key == ANY_ORDER and not self.any_order:
            self.any_order = True
            self.statement(stmt.body)
            self.any_order = False
            return None
        return stmt.body

    @handles(AssertStmt)
    def assertion(self, stmt: AssertStmt) -> Stmt:
        if self.void:
            raise no_assertions(stmt)
        message = stmt.message.value if isinstance(stmt.message, StringImm) else str(stmt.message)
        site = self.context.site("assert", stmt, message)
        self.fail_unless(self.visit(stmt.condition), site, [])
        return stmt.body

    @handles(Evaluate)
    def evaluate(self, stmt: Evaluate) -> None:
        if is_call(stmt.value, "tir.ret"):
            # what follows can never run, but the text needs a block to put it in
            self.context.returned(self, stmt.value)
            self.out.start(self.out.new_block("dead"))
        else:
            self.visit(stmt.value)

    @handles(BufferStore)
    def store(self, stmt: BufferStore) -> None:
        plain = with_plain_mask(stmt)
        if plain is not stmt:
            self.statement(plain)
            return
        parts = [stmt] if self.context.check_bounds else parts_of(stmt)
        if len(parts) > 1:
            values = [self.visit(part.value) for part in parts]
            for part, value in zip(parts, values):
                self.store_value(part.buffer, part.indices, value, None)
            return
        if stmt.value.dtype.lane_code > 1 and not self.context.check_bounds:
            stmt = stmt.with_(value=share_loads([stmt.value])[0])
        value = self.visit(_on_bytes(stmt) if self.any_order else stmt.value)
        predicate = self.visit(stmt.predicate) if stmt.predicate is not None else None
        self.store_value(stmt.buffer, self.checked_indices(stmt, predicate), value, predicate)

    @handles(IfThenElse)
    def if_then_else(self, stmt: IfThenElse) -> None:
        if stmt.condition.dtype.lane_code != 1:
            raise BuildError(
                "the condition of an `if` differs from lane to lane",
                node=stmt,
                hint="run VectorizeLoop",
                code="codegen.condition_differs_by_lane",
            )
        condition = self.visit(stmt.condition)
        then, other, done = (self.out.new_block(hint) for hint in ("then", "else", "endif"))
        self.out.branch(condition, then, other if stmt.else_case is not None else done)
        self.out.start(then)
        with self.intervals.where(stmt.condition):
            self.statement(stmt.then_case)
        self.out.jump(done)
        if stmt.else_case is not None:
            self.out.start(other)
            self.statement(stmt.else_case)
            self.out.jump(done)
        self.out.start(done)

    @handles(While)
    def while_loop(self, stmt: While) -> None:
        head, body, done = (self.out.new_block(hint) for hint in ("while", "do", "done"))
        self.out.jump(head)
        self.out.start(head)
        self.out.branch(self.visit(stmt.condition), body, done)
        self.out.start(body)
        self.context.poll(self)
        self.statement(stmt.body)
        self.out.jump(head)
        self.out.start(done)

    # ------------------------------------------------------------------ loops

    @handles(For)
    def loop(self, stmt: For) -> Stmt | None:
        if stmt.kind is ForKind.THREAD_BINDING and self.context.family.launches:
            return self.context.threads.bind(self, stmt)
        if stmt.kind is ForKind.PARALLEL and self.is_parallel:
            raise BuildError(
                "Nested parallel loop is not supported",
                node=stmt,
                hint="let the inner loop be serial, or fuse both and mark the result parallel",
                code="codegen.nested_parallel_loops",
            )
        if stmt.kind is ForKind.PARALLEL and self.context.family.has_threads:
            emit_parallel(self, stmt)
            return None
        if (
            self.context.family.has_threads
            and not self.void
            and (parts := self.context.work.in_stretches(stmt)) is not None
        ):
            if stmt in self.context.elements:
                self.context.elements.add(parts.body)
            return parts
        if (vectors := self.short_rows(stmt)) is not None:
            return vectors
        if (stretches := self._stretches(stmt)) is not None:
            return stretches
        if self.context.family.has_threads and not self.context.check_bounds and stmt not in self.context.elements:
            versions = tail_versions(stmt, self.context.target.machine.masks, self.intervals.fits)
            if versions is not None:
                return versions
        first, extent = self.visit(stmt.min), self.visit(stmt.extent)
        if isinstance(stmt.extent, IntImm) and stmt.extent.value == 1:
            self.define_loop_var(stmt, first)
            return stmt.body
        if isinstance(stmt.extent, IntImm) and stmt.extent.value <= 0:
            return None
        kind = llvm_type(stmt.loop_var.dtype)
        end = extent if first == "0" else self.out.op(f"add nsw {kind} {first}, {extent}")
        self.counted_loop(stmt, first, end, self.loop_metadata(stmt))
        return None

    def short_rows(self, stmt: For) -> Stmt | None:
        """A serial loop that writes a few neighbours in each iteration, by vectors; None for others."""
        context = self.context
        if stmt.kind is not ForKind.SERIAL or context.family.launches or context.check_bounds or context.target.has_sve:
            return None
        if stmt in self.rests or self.any_order or context.work.written > _LARGEST_WRITTEN:
            return None
        made = short_rows_as_vectors(stmt, context.target.machine, self._apart)
        if made is None:
            return None
        if not isinstance(made[1].extent, IntImm):
            self.rests.add(made[1])  # of a known number of iterations the rest is tried with shorter vectors
        context.elements.add(made[1])
        return SeqStmt(list(made))

    def _stretches(self, stmt: For) -> Stmt | None:
        """A loop in which something changes at known places, as loops between them; None for others."""
        context = self.context
        if context.family.launches or context.check_bounds or stmt in context.elements or self.any_order:
            return None
        return between_places(stmt) if context.work.written <= _LARGEST_WRITTEN else None

    def _apart(self, a: Var, b: Var) -> bool:
        """Whether two pointers are known to be to different memory, none of which is volatile."""
        return self.scopes.apart(a, b) and not self.context.volatile & {a, b}

    def define_loop_var(self, stmt: For, name: str) -> None:
        """Let the loop variable of `stmt` be the value called `name`."""
        self.values[stmt.loop_var] = name
        if name[0] == "%":
            self.index_values.add(name)
        self.intervals.counts(stmt.loop_var, stmt.extent, stmt.min)

    def counted_loop(self, stmt: For, first: str, end: str, metadata: str) -> None:
        """The loop from `first` to `end`, the end left out."""
        self.loops += 1
        out, kind = self.out, llvm_type(stmt.loop_var.dtype)
        word = "slt" if stmt.loop_var.dtype.is_int else "ult"
        before = out.block
        head, done = out.new_block("loop"), out.new_block("done")
        constant_extent = isinstance(stmt.extent, IntImm)
        if constant_extent:
            out.jump(head)
        else:
            out.branch(out.op(f"icmp {word} {kind} {first}, {end}"), head, done)
        out.start(head)
        index, following = f"%i{out.name()}", f"%n{out.name()}"
        place = len(out.lines)
        self.define_loop_var(stmt, index)
        self._poll_sometimes(index, kind, self.context.work.poll_every(stmt))
        self.statement(stmt.body)
        flags = "nuw nsw" if self.intervals.of(stmt.min)[0] >= 0 else "nsw"
        out.do(f"{following} = add {flags} {kind} {index}, 1")
        out.lines.insert(place, f"  {index} = phi {kind} [ {first}, %{before} ], [ {following}, %{out.block} ]")
        out.branch(out.op(f"icmp {word} {kind} {following}, {end}"), head, done, metadata)
        out.start(done)

    def _poll_sometimes(self, index: str, kind: str, every: int) -> None:
        """Ask whether to stop in every `every`-th iteration (0: in none)."""
        if every == 0 or self.void:
            return
        if every == 1:
            self.context.poll(self)
            return
        ask, go_on = self.out.new_block("ask"), self.out.new_block("on")
        low = self.out.op(f"and {kind} {index}, {every - 1}")
        self.out.branch(self.out.op(f"icmp eq {kind} {low}, {every - 1}"), ask, go_on, self.context.unlikely())
        self.out.start(ask)
        self.context.poll(self)
        self.out.jump(go_on)
        self.out.start(go_on)

    def loop_metadata(self, stmt: For) -> str:
        """What LLVM is to do with a loop, as the suffix of its branch.

        Quotients of integers are computed one by one, 32 for a vector of bytes. Of a loop that has them LLVM is not to make
        several vectors at once: it would gain nothing by it, and takes many times as long for the code.
        """
        wishes = self._loop_wishes(stmt)
        if stmt.kind is ForKind.SERIAL and stmt.loop_var in self.context.work.dividing:
            wishes = (*(wish for wish in wishes if not wish.startswith("interleave")), "interleave.count i32 1")
        return self.context.loop_metadata(*wishes) if wishes else ""

    def _loop_wishes(self, stmt: For) -> tuple[str, ...]:
        """The wish to unroll, if LLVM will grant it: it complains aloud about one that it cannot; or not to vectorize.

        A short loop over vectors is not to be written out as a whole. LLVM would keep what several such loops read in
        registers from one to the next, and more of it than there are, so that it stores all of that and loads it again.
        """
        extent = stmt.extent
        if stmt in self.context.elements:
            return ("vectorize.enable i1 false",)
        if stmt.kind is ForKind.SERIAL and isinstance(extent, IntImm) and not self.context.check_bounds:
            if self.any_order:  # as many partial results as keep the machine busy while each waits for its last value
                return "unroll.disable", f"interleave.count i32 {_PARTIAL_RESULTS[self._divides_many(extent.value)]}"
            if self.context.work.written > _LARGEST_WRITTEN or self._would_scatter(stmt):
                return ("unroll.disable",)
            if self.context.is_split and self._unrolls_beyond_registers(stmt, extent.value):
                return ("unroll.disable",)
            if _SHORT[0] <= extent.value <= _SHORT[1] and 0 < _vector_stores(stmt.body) <= _FEW_STORES:
                return (f"unroll.count i32 {_SHORT_STEP}",) if extent.value % _SHORT_STEP == 0 else ()
        if stmt.kind is not ForKind.UNROLLED or self.context.check_bounds or not isinstance(extent, IntImm):
            return ()
        whole = extent.value * self.context.work.bodies.get(stmt, _LARGEST_UNROLLED)
        return ("unroll.full",) if whole <= _LARGEST_UNROLLED else ()

    def _would_scatter(self, stmt: For) -> bool:
        """Whether LLVM would write out an innermost loop as a whole and make vectors of the loop around it, with a scatter
        for each element: on machines that have scatters, which are slow."""
        if self.context.family.launches or not isinstance(stmt.extent, IntImm) or stmt.extent.value > _WHOLE:
            return False
        machine = self.context.target.machine
        long = machine.lanes("float32") <= stmt.extent.value
        return long and machine.vector_bits >= SCATTERS and _stores_elements(stmt.body)

    def _unrolls_beyond_registers(self, stmt: For, extent: int) -> bool:
        """Return whether LLVM would unroll a loop once it is over vectors, to more of them than there are registers.

        The time to order the instructions of a basic block grows with the square of its accesses. Unrolling gains only
        if the next loop finds the vectors in registers.
        """
        machine = self.context.target.machine
        lanes, whole = machine.lanes("float32"), extent * self.context.work.bodies.get(stmt, 0)
        return extent > lanes * machine.vector_registers and whole <= LARGEST_UNROLLED_BY_LLVM * lanes

    def _divides_many(self, extent: int) -> bool:
        """Whether the most vectors of partial results divide a loop, and some times: else it has a rest without vectors."""
        if self.context.family.launches:
            return False
        step = _PARTIAL_RESULTS[1] * self.context.target.machine.lanes("float32")
        return extent % step == 0 and extent >= 4 * step

    # ------------------------------------------------------------------ memory

    @handles(Allocate)
    def allocate(self, stmt: Allocate) -> Stmt:
        pointer, scope = stmt.buffer_var, scope_of(stmt.buffer_var)
        if self.context.check_bounds:  # which compares accesses with the size as it is written
            count = constant_elements(stmt)
        else:
            count = self.context.work.elements(stmt)
            if count is None:  # the part of a symbolic size that a tile takes is often bounded
                count = self._most(stmt)
        if self.context.family.launches:
            threads, is_shared = self.context.threads, scope.startswith("shared")
            self.values[pointer] = threads.shared(stmt, count) if is_shared else threads.own(self, stmt, count)
        elif count is not None and count * stmt.dtype.bytes <= _STACK_BYTES:
            kind = f"[{max(count, 1)} x {place_type(stmt.dtype)}]"
            self.values[pointer] = self.out.at_entry(f"alloca {kind}, align 64")
            if pointer not in self.context.volatile:
                self.stack_bytes[self.values[pointer]] = max(count, 1) * stmt.dtype.bytes
        else:
            self.values[pointer] = self._heap(stmt, count)
        self.scopes.add(pointer)
        self.context.allocated(self, stmt, count)
        return stmt.body

    @staticmethod
    def _most(stmt: Allocate) -> int | None:
        """The most elements that symbolic extents can come to, if these fit the stack."""
        analyzer, most = Analyzer(), 1
        for extent in stmt.extents:
            most *= max(analyzer.const_int_bound(extent).max_value, 0)
        return most if most * stmt.dtype.bytes <= _STACK_BYTES else None

    def _heap(self, stmt: Allocate, count: int | None) -> str:
        size = str(count * stmt.dtype.bytes) if count is not None else allocated_bytes(self, stmt)
        pointer = self.context.allocate(self, size)
        self.heap.append(pointer)
        return pointer

    @handles(AllocateConst)
    def allocate_const(self, stmt: AllocateConst) -> Stmt:
        self.values[stmt.buffer_var] = self.context.constant_array(stmt)
        self.scopes.add(stmt.buffer_var)
        return stmt.body
