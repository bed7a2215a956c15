"""The frames of TensorIR: functions, blocks, loops and the other statements that have a body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.block_regions import block_access_regions
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import variables_in
from tvmagic.script.ir_builder.base import IRBuilder, IRBuilderFrame

BOOL = ir.DataType("bool")


def as_stmt(stmts: Sequence[ir.Stmt]) -> ir.Stmt:
    """The statements in order as one; nothing becomes `T.evaluate(0)`."""
    if len(stmts) == 1:
        return stmts[0]
    if not stmts:
        return ir.Evaluate(0)
    body = ir.SeqStmt.flatten(*stmts)
    first, last = stmts[0].span, stmts[-1].span
    if isinstance(body, ir.SeqStmt) and first is not None and last is not None:
        body.span = ir.Span(first.source, first.line, first.column, last.end_line, last.end_column)
    return body


def true() -> ir.IntImm:
    return ir.IntImm(BOOL, 1)


class TIRFrame(IRBuilderFrame):
    """A frame whose content is statements."""

    def __init__(self) -> None:
        super().__init__()
        self.stmts: list[ir.Stmt] = []

    def add(self, stmt: ir.Stmt) -> None:
        if not isinstance(stmt, ir.Stmt):
            raise TVMagicError("only statements can be inside a function", code="script.not_a_statement")
        self.stmts.append(stmt)

    def make(self, body: ir.Stmt) -> ir.Stmt:
        """The finished statement around `body`."""
        raise NotImplementedError

    def finish(self, builder: IRBuilder) -> None:
        stmt = self.make(as_stmt(self.stmts))
        stmt.span = self.span
        builder.add(stmt)


class PrimFuncFrame(TIRFrame):
    """A function under construction."""

    def __init__(self, is_private: bool = False) -> None:
        super().__init__()
        self.name: str | None = None
        self.is_private = is_private
        self.args: list[ir.Var] = []
        self.ret_type: ir.Type | None = None
        self.buffer_map: dict[ir.Var, ir.Buffer] = {}
        self.attrs: dict[str, Any] | None = None
        self.env_threads: dict[ir.Var, ir.IterVar] = {}
        self.root_alloc_buffers: list[ir.Buffer] = []
        self.has_block = False
        self.undeclared: dict[int, list[str]] = {}

    def finish(self, builder: IRBuilder) -> None:
        attrs = dict(self.attrs or {})
        if not self.is_private and self.name is not None:
            attrs.setdefault("global_symbol", self.name)
        body = self._with_root()
        func = ir.PrimFunc(self.args, body, self.ret_type, self.buffer_map, attrs, self.span)
        from tvmagic.script.ir_builder.ir.frame import IRModuleFrame

        module = builder.find(IRModuleFrame)
        if module is not None:
            module.define(self.name or "", func)
        else:
            builder.add(func)

    def _with_root(self) -> ir.Stmt:
        """The body inside a root block, if blocks or allocations ask for one."""
        body = as_stmt(self.stmts)
        block = body.block if isinstance(body, ir.BlockRealize) else None
        needed = bool(self.root_alloc_buffers) or (self.has_block if block is None else bool(block.iter_vars))
        if not needed:
            return body
        if self.undeclared:
            body = as_stmt([self._declared(stmt) for stmt in self.stmts])
        return ir.BlockRealize(
            [], true(), ir.Block([], [], [], "root", body, None, self.root_alloc_buffers, span=self.span), self.span
        )

    def _declared(self, stmt: ir.Stmt) -> ir.Stmt:
        """A block that turned out not to be the root, with the regions found that it does not declare."""
        missing = self.undeclared.get(id(stmt))
        if missing is None or not isinstance(stmt, ir.BlockRealize):
            return stmt
        return stmt.replace(block=with_regions(stmt.block, missing, self.visible_buffers()))

    def visible_buffers(self) -> dict[ir.Var, ir.Buffer]:
        """The buffers that live in the whole function, by their pointers."""
        return {b.data: b for b in (*self.buffer_map.values(), *self.root_alloc_buffers)}


def with_regions(block: ir.Block, missing: Sequence[str], buffers: dict[ir.Var, ir.Buffer]) -> ir.Block:
    """`block` with those of its `reads` and `writes` that are `missing` found from its body."""
    reads, writes, opaque = block_access_regions(block, buffers)
    if opaque:
        raise TVMagicError(
            f"what block `{block.name_hint}` accesses cannot be found, because it uses the pointer of buffer "
            f"`{opaque[0].buffer.name}`",
            hint="declare its regions with `T.reads(...)` and `T.writes(...)`",
            code="script.block_accesses_unknown",
        )
    found = {"reads": reads, "writes": writes}
    return block.replace(**{name: found[name] for name in missing})


class BlockFrame(TIRFrame):
    """A block under construction. `reads` and `writes` are None until they are declared."""

    def __init__(self, name: str, no_realize: bool = False) -> None:
        super().__init__()
        self.name = name
        self.no_realize = no_realize
        self.iter_vars: list[ir.IterVar] = []
        self.iter_values: list[ir.PrimExpr] = []
        self.reads: list[ir.BufferRegion] | None = None
        self.writes: list[ir.BufferRegion] | None = None
        self.init: ir.Stmt | None = None
        self.alloc_buffers: list[ir.Buffer] = []
        self.match_buffers: list[ir.MatchBufferRegion] = []
        self.annotations: dict[str, Any] | None = None
        self.predicate: ir.PrimExpr | None = None

    def start(self, builder: IRBuilder) -> BlockFrame:
        function = builder.find(PrimFuncFrame)
        if function is not None:
            function.has_block = True
        return self

    def finish(self, builder: IRBuilder) -> None:
        block = ir.Block(
            self.iter_vars,
            self.reads or (),
            self.writes or (),
            self.name,
            as_stmt(self.stmts),
            self.init,
            self.alloc_buffers,
            self.match_buffers,
            self.annotations,
            self.span,
        )
        missing = [name for name in ("reads", "writes") if getattr(self, name) is None]
        function = builder.last(PrimFuncFrame)
        at_top = function is not None and not self.iter_vars and not self.no_realize
        if missing and builder.find(PrimFuncFrame) is None:  # found when the function is completed
            unknown = ("reads" in missing) + 2 * ("writes" in missing)
            note = {"tir.script_parsing_detect_access": ir.IntImm("int64", unknown)}
            block = block.replace(annotations={**block.annotations, **note})
        elif missing and not at_top:
            block = with_regions(block, missing, self._visible_buffers(builder))
        if self.no_realize:
            if self.iter_values or self.predicate is not None:
                raise TVMagicError(
                    "a block with `no_realize=True` has neither bindings nor `T.where`",
                    code="script.no_realize_with_bindings",
                )
            builder.add(block)
            return
        predicate = true() if self.predicate is None else self.predicate
        realize = ir.BlockRealize(self.iter_values, predicate, block, self.span)
        builder.add(realize)
        if missing and at_top:  # known at the function's end: a root block declares nothing
            assert function is not None
            function.undeclared[id(realize)] = missing

    @staticmethod
    def _visible_buffers(builder: IRBuilder) -> dict[ir.Var, ir.Buffer]:
        """The buffers that live around the block, by their pointers."""
        buffers: dict[ir.Var, ir.Buffer] = {}
        for frame in builder.frames:
            if isinstance(frame, PrimFuncFrame):
                buffers.update(frame.visible_buffers())
            elif isinstance(frame, BlockFrame):
                buffers.update({b.data: b for b in frame.alloc_buffers})
                buffers.update({m.buffer.data: m.buffer for m in frame.match_buffers})
            elif isinstance(frame, DeclBufferFrame):
                buffers.setdefault(frame.buffer.data, frame.buffer)
        return buffers


class BlockInitFrame(TIRFrame):
    """The `T.init()` part of a block."""

    def start(self, builder: IRBuilder) -> BlockInitFrame:
        block = self._block(builder)
        if block is None:
            raise TVMagicError(
                "`T.init` stands directly inside a block, or in loops there", code="script.init_not_in_block"
            )
        if block.init is not None:
            raise TVMagicError(f"block `{block.name}` has a second `T.init`", code="script.second_init")
        return self

    def finish(self, builder: IRBuilder) -> None:
        block = self._block(builder)
        assert block is not None
        init = as_stmt(self.stmts)
        used = variables_in(init)
        loops = builder.frames[builder.frames.index(block) + 1 :]
        around = next((v for loop in loops if isinstance(loop, ForFrame) for v in loop.vars if v in used), None)
        if around is not None:
            raise TVMagicError(
                f"cannot use loop `{around.name}` in the `T.init` of block `{block.name}`: it runs once for each "
                "instance of the block, not in the loop",
                code="script.init_in_loop",
            )
        block.init = init

    def _block(self, builder: IRBuilder) -> BlockFrame | None:
        """The innermost block around, if there are only loops between."""
        frames = (frame for frame in reversed(builder.frames) if frame is not self and not isinstance(frame, ForFrame))
        block = next(frames, None)
        return block if isinstance(block, BlockFrame) else None


class ForFrame(TIRFrame):
    """One loop, or a nest of them from `T.grid`."""

    def __init__(
        self,
        variables: Sequence[ir.Var],
        doms: Sequence[ir.Range],
        make_loop: Callable[[Sequence[ir.Var], Sequence[ir.Range], ir.Stmt, Any], ir.Stmt],
    ) -> None:
        super().__init__()
        self.vars = list(variables)
        self.doms = list(doms)
        self.make_loop = make_loop

    def start(self, builder: IRBuilder) -> Any:
        return self.vars if len(self.vars) != 1 else self.vars[0]

    def finish(self, builder: IRBuilder) -> None:
        builder.add(self.make_loop(self.vars, self.doms, as_stmt(self.stmts), self.span))


class AssertFrame(TIRFrame):
    """A check with what is after it."""

    def __init__(self, condition: ir.PrimExpr, message: Any) -> None:
        super().__init__()
        self.condition, self.message = condition, message

    def make(self, body: ir.Stmt) -> ir.Stmt:
        return ir.AssertStmt(self.condition, self.message, body)


class LetFrame(TIRFrame):
    """A variable with its value, and what uses it."""

    def __init__(self, var: ir.Var, value: ir.PrimExpr) -> None:
        super().__init__()
        self.var, self.value = var, value

    def start(self, builder: IRBuilder) -> ir.Var:
        return self.var

    def make(self, body: ir.Stmt) -> ir.Stmt:
        return ir.LetStmt(self.var, self.value, body)


class RealizeFrame(TIRFrame):
    """A region of a buffer that is allocated for what is inside."""

    NEEDS_BODY = True

    def __init__(self, region: ir.BufferRegion, storage_scope: str | None, condition: ir.PrimExpr) -> None:
        super().__init__()
        self.buffer_slice, self.storage_scope, self.condition = region, storage_scope, condition

    def make(self, body: ir.Stmt) -> ir.Stmt:
        region = self.buffer_slice
        realize = ir.BufferRealize(region.buffer, region.region, self.condition, body, self.span)
        if self.storage_scope is None:
            return realize
        return ir.AttrStmt(region.buffer, "realize_scope", self.storage_scope, realize)


class LaunchThreadFrame(TIRFrame):
    """The extent of a thread axis, and what runs in its threads."""

    NEEDS_BODY = True

    def __init__(self, iter_var: ir.IterVar, extent: ir.PrimExpr) -> None:
        super().__init__()
        self.iter_var, self.extent = iter_var, extent

    def start(self, builder: IRBuilder) -> ir.Var:
        return self.iter_var.var

    def make(self, body: ir.Stmt) -> ir.Stmt:
        key = "virtual_thread" if self.iter_var.thread_tag == "vthread" else "thread_extent"
        return ir.AttrStmt(self.iter_var, key, self.extent, body)


class AttrFrame(TIRFrame):
    """A fact about a node that holds inside."""

    NEEDS_BODY = True

    def __init__(self, node: Any, attr_key: str, value: Any) -> None:
        super().__init__()
        self.node, self.attr_key, self.value = node, attr_key, value

    def make(self, body: ir.Stmt) -> ir.Stmt:
        return ir.AttrStmt(self.node, self.attr_key, self.value, body)


class WhileFrame(TIRFrame):
    """A loop that runs while a condition holds."""

    def __init__(self, condition: ir.PrimExpr) -> None:
        super().__init__()
        self.condition = condition

    def make(self, body: ir.Stmt) -> ir.Stmt:
        return ir.While(self.condition, body)


class IfFrame(TIRFrame):
    """A condition with its `T.Then()` and `T.Else()`."""

    def __init__(self, condition: ir.PrimExpr) -> None:
        super().__init__()
        self.condition = condition
        self.then_stmts: list[ir.Stmt] | None = None
        self.else_stmts: list[ir.Stmt] | None = None

    def finish(self, builder: IRBuilder) -> None:
        if self.stmts:
            raise TVMagicError(
                "statements inside `T.If` belong under `T.Then()` or `T.Else()`", code="script.statement_outside_branch"
            )
        if self.then_stmts is None:
            raise TVMagicError("a `T.If` needs a `T.Then()`", code="script.if_without_then")
        then_case = as_stmt(self.then_stmts)
        else_case = None if self.else_stmts is None else as_stmt(self.else_stmts)
        builder.add(ir.IfThenElse(self.condition, then_case, else_case, self.span))


class _Branch(TIRFrame):
    FIELD = ""
    NAME = ""

    def start(self, builder: IRBuilder) -> _Branch:
        frame = builder.last(IfFrame)
        if frame is None:
            raise TVMagicError(f"`{self.NAME}` stands directly inside `T.If`", code="script.branch_outside_if")
        if getattr(frame, self.FIELD) is not None:
            raise TVMagicError(f"a `T.If` has one `{self.NAME}` only", code="script.repeated_branch")
        return self

    def finish(self, builder: IRBuilder) -> None:
        frame = builder.last(IfFrame)
        assert frame is not None
        setattr(frame, self.FIELD, self.stmts)


class ThenFrame(_Branch):
    """What runs where the condition holds."""

    FIELD, NAME = "then_stmts", "T.Then()"


class ElseFrame(_Branch):
    """What runs if the condition does not hold."""

    FIELD, NAME = "else_stmts", "T.Else()"


class AllocateFrame(TIRFrame):
    """Memory behind a pointer, and what uses it."""

    def __init__(
        self,
        buffer_var: ir.Var,
        dtype: ir.DataType,
        extents: Sequence[ir.PrimExpr],
        condition: ir.PrimExpr,
        annotations: dict[str, Any] | None,
    ) -> None:
        super().__init__()
        self.buffer_var, self.dtype, self.extents = buffer_var, dtype, tuple(extents)
        self.condition, self.annotations = condition, annotations

    def start(self, builder: IRBuilder) -> ir.Var:
        return self.buffer_var

    def make(self, body: ir.Stmt) -> ir.Stmt:
        return ir.Allocate(self.buffer_var, self.dtype, self.extents, self.condition, body, self.annotations)


class AllocateConstFrame(TIRFrame):
    """A constant array behind a pointer, and what uses it."""

    def __init__(
        self,
        buffer_var: ir.Var,
        dtype: ir.DataType,
        extents: Sequence[ir.PrimExpr],
        data: Any,
        annotations: dict[str, Any] | None,
    ) -> None:
        super().__init__()
        self.buffer_var, self.dtype, self.extents = buffer_var, dtype, tuple(extents)
        self.data, self.annotations = data, annotations

    def start(self, builder: IRBuilder) -> ir.Var:
        return self.buffer_var

    def make(self, body: ir.Stmt) -> ir.Stmt:
        return ir.AllocateConst(self.buffer_var, self.dtype, self.extents, self.data, body, self.annotations)


class DeclBufferFrame(TIRFrame):
    """A buffer over memory that is there (`allocated`), or over new memory."""

    def __init__(self, buffer: ir.Buffer, allocated: bool) -> None:
        super().__init__()
        self.buffer, self.allocated = buffer, allocated

    def start(self, builder: IRBuilder) -> ir.Buffer:
        return self.buffer

    def make(self, body: ir.Stmt) -> ir.Stmt:
        buffer = self.buffer
        declared = ir.DeclBuffer(buffer, body, self.span)
        return declared if self.allocated else ir.Allocate(buffer.data, buffer.dtype, buffer.shape, true(), declared)
