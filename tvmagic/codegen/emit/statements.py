"""Statements as LLVM blocks: loops, branches, allocations, checks.

Every function gives a status: 0 where it ran to its end, else why it stopped (`STOPPED`, or
the number of a record with the place and the values, see `ll/fail.ll`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic import ir
from tvmagic.codegen.emit.function_splits import call_as_function, function_parts
from tvmagic.codegen.emit.gpu_threads import no_assertions
from tvmagic.codegen.emit.memory import AliasScopes, MemoryEmitter
from tvmagic.codegen.emit.overflow_checks import allocated_bytes, check_index_range
from tvmagic.codegen.emit.parallel import emit_parallel
from tvmagic.codegen.late.legalize_masks import require_legal_mask
from tvmagic.codegen.late.lower_launches import LAUNCHES
from tvmagic.codegen.late.place_allocations import stack_elements
from tvmagic.codegen.late.work_estimate import constant_elements
from tvmagic.codegen.text.types import llvm_type, place_type
from tvmagic.codegen.text.writer import FunctionText
from tvmagic.errors import BuildError
from tvmagic.ir.loop_annotations import ANY_ORDER, INTERLEAVE, POLL, STACK, UNROLL, annotation, is_kept_scalar
from tvmagic.ir.prim_expr import scope_of
from tvmagic.ir.query import is_call
from tvmagic.tir.transform.expressions.widen_index import FIT_INT32

STOPPED = -1


def _unrolling(loop: ir.For) -> list[str]:
    wish = annotation(loop, UNROLL)
    if isinstance(wish, str):
        return [f"unroll.{wish}"]
    return [] if wish is None else [f"unroll.count i32 {wish}"]


def _interleaving(loop: ir.For) -> list[str]:
    count = annotation(loop, INTERLEAVE)
    return [] if count is None else [f"interleave.count i32 {count}"]


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
        if parent is not None:
            self.intervals.known.update(parent.intervals.known)
            self.intervals.given.extend(parent.intervals.given)
            self.scopes.group_of.update(parent.scopes.group_of)
            self.void = parent.void
        else:
            self.void = False

    def child(self, text: FunctionText, by_value: bool = False) -> FunctionEmitter:
        """Return the emitter of a function that this one calls, for the body of a parallel loop or a part of the code."""
        return FunctionEmitter(self.context, text, self, by_value)

    # ------------------------------------------------------------------ variables of the parent

    def missing(self, var: ir.Var) -> str:
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

    def statement(self, stmt: ir.Stmt) -> None:
        """Emit `stmt`. Statements that end in another one are followed without recursion."""
        heap, location = len(self.heap), self.out.location
        following: ir.Stmt | None = stmt
        while following is not None:
            self.context.at(self, following)
            following = self.visit(following)
        while len(self.heap) > heap:
            self.context.free(self, self.heap.pop())
        self.out.location = location

    @ir.handles(ir.SeqStmt)
    def sequence(self, stmt: ir.SeqStmt) -> None:
        self.statements(stmt.seq)

    def statements(self, stmts: Sequence[ir.Stmt]) -> None:
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

    @ir.handles(ir.LetStmt)
    def let_stmt(self, stmt: ir.LetStmt) -> ir.Stmt:
        self.bind(stmt.var, self.visit(stmt.value), stmt.value)
        return stmt.body

    @ir.handles(ir.DeclBuffer)
    def declare_buffer(self, stmt: ir.DeclBuffer) -> ir.Stmt:
        return stmt.body

    @ir.handles(ir.AttrStmt)
    def attribute(self, stmt: ir.AttrStmt) -> ir.Stmt | None:
        if stmt.attr_key in LAUNCHES:
            return self.context.threads.launch(self, stmt)
        if stmt.attr_key == "pragma_import_llvm":
            if not isinstance(stmt.value, ir.StringImm):
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

    @ir.handles(ir.AssertStmt)
    def assertion(self, stmt: ir.AssertStmt) -> ir.Stmt:
        if self.void:
            raise no_assertions(stmt)
        message = stmt.message.value if isinstance(stmt.message, ir.StringImm) else str(stmt.message)
        site = self.context.site("assert", stmt, message)
        self.fail_unless(self.visit(stmt.condition), site, [])
        return stmt.body

    @ir.handles(ir.Evaluate)
    def evaluate(self, stmt: ir.Evaluate) -> None:
        if is_call(stmt.value, "tir.ret"):
            # what follows can never run, but the text needs a block to put it in
            self.context.returned(self, stmt.value)
            self.out.start(self.out.new_block("dead"))
        else:
            self.visit(stmt.value)

    @ir.handles(ir.BufferStore)
    def store(self, stmt: ir.BufferStore) -> None:
        require_legal_mask(stmt)
        value = self.visit(stmt.value)
        predicate = self.visit(stmt.predicate) if stmt.predicate is not None else None
        self.store_value(stmt.buffer, self.checked_indices(stmt, predicate), value, predicate)

    @ir.handles(ir.IfThenElse)
    def if_then_else(self, stmt: ir.IfThenElse) -> None:
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

    @ir.handles(ir.While)
    def while_loop(self, stmt: ir.While) -> None:
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

    @ir.handles(ir.For)
    def loop(self, stmt: ir.For) -> ir.Stmt | None:
        if stmt.kind is ir.ForKind.THREAD_BINDING and self.context.family.launches:
            return self.context.threads.bind(self, stmt)
        if stmt.kind is ir.ForKind.PARALLEL and self.is_parallel:
            raise BuildError(
                "Nested parallel loop is not supported",
                node=stmt,
                hint="let the inner loop be serial, or fuse both and mark the result parallel",
                code="codegen.nested_parallel_loops",
            )
        if stmt.kind is ir.ForKind.PARALLEL and self.context.family.has_threads:
            emit_parallel(self, stmt)
            return None
        first, extent = self.visit(stmt.min), self.visit(stmt.extent)
        if isinstance(stmt.extent, ir.IntImm) and stmt.extent.value == 1:
            self.define_loop_var(stmt, first)
            return stmt.body
        if isinstance(stmt.extent, ir.IntImm) and stmt.extent.value <= 0:
            return None
        kind = llvm_type(stmt.loop_var.dtype)
        end = extent if first == "0" else self.out.op(f"add nsw {kind} {first}, {extent}")
        self.counted_loop(stmt, first, end, self.loop_metadata(stmt))
        return None

    def define_loop_var(self, stmt: ir.For, name: str) -> None:
        """Let the loop variable of `stmt` be the value called `name`."""
        self.values[stmt.loop_var] = name
        if name[0] == "%":
            self.index_values.add(name)
        self.intervals.counts(stmt.loop_var, stmt.extent, stmt.min)

    def counted_loop(self, stmt: ir.For, first: str, end: str, metadata: str) -> None:
        """The loop from `first` to `end`, the end left out."""
        self.loops += 1
        out, kind = self.out, llvm_type(stmt.loop_var.dtype)
        word = "slt" if stmt.loop_var.dtype.is_int else "ult"
        before = out.block
        head, done = out.new_block("loop"), out.new_block("done")
        constant_extent = isinstance(stmt.extent, ir.IntImm)
        if constant_extent:
            out.jump(head)
        else:
            out.branch(out.op(f"icmp {word} {kind} {first}, {end}"), head, done)
        out.start(head)
        index, following = f"%i{out.name()}", f"%n{out.name()}"
        place = len(out.lines)
        self.define_loop_var(stmt, index)
        self._poll_sometimes(index, kind, int(annotation(stmt, POLL) or 0))
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
        every = 1 << every.bit_length() - 1  # of an edited program it may be any number
        low = self.out.op(f"and {kind} {index}, {every - 1}")
        self.out.branch(self.out.op(f"icmp eq {kind} {low}, {every - 1}"), ask, go_on, self.context.unlikely())
        self.out.start(ask)
        self.context.poll(self)
        self.out.jump(go_on)
        self.out.start(go_on)

    def loop_metadata(self, stmt: ir.For) -> str:
        """Return what LLVM shall do with a loop, as annotations say, as the suffix of its branch."""
        if is_kept_scalar(stmt):
            return self.context.loop_metadata("vectorize.enable i1 false", *_interleaving(stmt))
        wishes = (*_unrolling(stmt), *_interleaving(stmt))
        return self.context.loop_metadata(*wishes) if wishes else ""

    # ------------------------------------------------------------------ memory

    @ir.handles(ir.Allocate)
    def allocate(self, stmt: ir.Allocate) -> ir.Stmt:
        pointer, scope = stmt.buffer_var, scope_of(stmt.buffer_var)
        stack = annotation(stmt, STACK)
        if stack is not None:
            needed = stack_elements(stmt, self.context.work, self.context.check_bounds)
            if needed is None or needed > int(stack):  # an edited program, whose accesses would be outside
                raise BuildError(
                    f"cannot place `{pointer.name}` on the stack: it has {'any number of' if needed is None else needed} "
                    f"elements, `late.stack` is {stack}",
                    node=stmt,
                    hint="remove the annotation `late.stack`",
                    code="codegen.stack_too_small",
                )
            count: int | None = int(stack)
        else:  # bounds checks compare accesses with the size as it is written
            count = constant_elements(stmt) if self.context.check_bounds else self.context.work.elements(stmt)
        if self.context.family.launches:
            threads, is_shared = self.context.threads, scope.startswith("shared")
            self.values[pointer] = threads.shared(stmt, count) if is_shared else threads.own(self, stmt, count)
        elif stack is not None:
            assert count is not None
            kind = f"[{max(count, 1)} x {place_type(stmt.dtype)}]"
            self.values[pointer] = self.out.at_entry(f"alloca {kind}, align 64")
            if pointer not in self.context.volatile:
                self.stack_bytes[self.values[pointer]] = max(count, 1) * stmt.dtype.bytes
        else:
            self.values[pointer] = self._heap(stmt, count)
        self.scopes.add(pointer)
        self.context.allocated(self, stmt, count)
        return stmt.body

    def _heap(self, stmt: ir.Allocate, count: int | None) -> str:
        size = str(count * stmt.dtype.bytes) if count is not None else allocated_bytes(self, stmt)
        pointer = self.context.allocate(self, size)
        self.heap.append(pointer)
        return pointer

    @ir.handles(ir.AllocateConst)
    def allocate_const(self, stmt: ir.AllocateConst) -> ir.Stmt:
        self.values[stmt.buffer_var] = self.context.constant_array(stmt)
        self.scopes.add(stmt.buffer_var)
        return stmt.body
