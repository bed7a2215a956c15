"""InjectPermutedLayout: columns of shared memory are exchanged, so that the threads of a warp access different banks."""

from __future__ import annotations

from typing import Any

from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    IntImm,
    PrimExpr,
    PrimFunc,
    Stmt,
    Var,
    handles,
    ops,
)
from tvmagic.ir.memory_scope import MemoryScope, StorageRank
from tvmagic.ir.query import callee, is_call
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator

_KEY = "permuted_layout"
_GROUP = 8  # neighbouring elements that stay together
# What goes between shared memory and registers: which argument is the pointer, and which, if any, an offset behind it.
_MOVES = {"tir.ptx_ldmatrix": (5, 6), "tir.mma_store": (2, None)}


@tir_pass("tir.InjectPermutedLayout")
def InjectPermutedLayout(func: PrimFunc) -> PrimFunc:
    """Exchange the groups of 8 columns of each row of shared memory, in blocks with the annotation `permuted_layout`.

    Which are exchanged depends on the row: neighbouring rows then have the same column in different banks. Both what
    writes the memory and what reads it is to be in such a block. Raises `TVMagicError` if only some of the accesses
    of a buffer are, and for buffers whose rows cannot be divided in that way.
    """
    injector = _Injector(func)
    body = injector.visit(func.body)
    for buffer, place in injector.plain.items():
        if buffer in injector.permuted:
            raise TVMagicError(
                f"`{buffer.name}` is accessed both inside and outside blocks with `{_KEY}`",
                node=place,
                hint="annotate all blocks that write or read it",
            )
    return func.with_body(body)


def _asked_for(block: Block) -> bool:
    value: Any = block.annotations.get(_KEY, 0)
    value = getattr(value, "value", value)
    return value not in ("", 0)


class _Injector(AnalyzerMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(Analyzer())
        self.buffers: dict[Var, Buffer] = {b.data: b for b in func.buffer_map.values()}
        self.inside = False
        self.permuted: set[Buffer] = set()
        self.plain: dict[Buffer, Any] = {}  # buffers, and a place outside of such blocks where each is accessed

    @handles(Block)
    def block(self, node: Block) -> Stmt:
        for buffer in [*node.alloc_buffers, *(match.buffer for match in node.match_buffers)]:
            self.buffers[buffer.data] = buffer
        outer, self.inside = self.inside, self.inside or _asked_for(node)
        new: Block = self.visit_children(node)
        self.inside = outer
        if not _asked_for(node):
            return new
        note("permute", f"the block `{node.name_hint}` accesses permuted columns", node=node)
        return new.replace(annotations={k: v for k, v in new.annotations.items() if k != _KEY})

    @handles(BufferStore, BufferLoad)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        if len(node.buffer.shape) < 2 or MemoryScope.of(node.buffer.scope()).rank is not StorageRank.SHARED:
            return new
        if not self.inside:
            self.plain.setdefault(node.buffer, node)
            return new
        self.permuted.add(node.buffer)
        width = _width(node.buffer)
        *first, row, column = new.indices
        return new.replace(indices=(*first, row, self._column(row, column, width)))

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        new = self.visit_children(node)
        if not self.inside or callee(node) not in _MOVES:
            return new
        at, offset_at = _MOVES[callee(node)]
        args = list(new.args)
        offset = args[offset_at] if offset_at is not None else None
        args[at] = self._pointer(args[at], offset)
        if offset_at is not None:
            args[offset_at] = IntImm(args[offset_at].dtype, 0)
        return Call(new.dtype, new.op, args, new.span)

    def _pointer(self, pointer: PrimExpr, offset: PrimExpr | None) -> PrimExpr:
        """The pointer to where the element is now; an offset behind it becomes part of it."""
        buffer = self.buffers.get(pointer.args[1]) if is_call(pointer, "tir.tvm_access_ptr") else None  # type: ignore[arg-type]
        if buffer is None or not isinstance(pointer, Call):
            raise TVMagicError(f"the pointer `{pointer}` to a permuted layout is not the `access_ptr` of a buffer")
        self.permuted.add(buffer)
        width = _width(buffer)
        element = pointer.args[2] if offset is None else pointer.args[2] + offset
        row, column = ops.floordiv(element, width), ops.floormod(element, width)
        new = self.analyzer.simplify(row * width + self._column(row, column, width))
        return Call(pointer.dtype, pointer.op, [*pointer.args[:2], new, *pointer.args[3:]], pointer.span)

    def _column(self, row: PrimExpr, column: PrimExpr, width: int) -> PrimExpr:
        group, inside = ops.floordiv(column, _GROUP), ops.floormod(column, _GROUP)
        # rows of 64 elements go around all banks once; those of 32 do so in pairs, and pairs are exchanged alike
        by = ops.floormod(row, 8) if width % 64 == 0 else ops.floordiv(ops.floormod(row, 8), 2)
        return self.analyzer.simplify((group ^ by) * _GROUP + inside)


def _width(buffer: Buffer) -> int:
    """The number of columns. Raises `TVMagicError` if 8 rows of it do not fill the banks."""
    sizes = [size.value if isinstance(size, IntImm) else None for size in buffer.shape[-2:]]
    rows, columns = sizes if len(sizes) == 2 else (None, None)
    if columns and (columns % 64 == 0 or (columns % 32 == 0 and rows and rows % 2 == 0)):
        return columns
    shape = ", ".join(map(str, buffer.shape))
    raise TVMagicError(
        f"the layout of `{buffer.name}`, of shape [{shape}], cannot be permuted",
        hint="its last dimension is to be a multiple of 64, or of 32 with an even number of rows",
    )
