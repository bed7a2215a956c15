"""MergeSharedMemoryAllocations: the shared memory of a kernel as one allocation, of which each buffer is a part."""

from __future__ import annotations

import math
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DataType,
    DeclBuffer,
    IntImm,
    Mutator,
    PointerType,
    PrimExpr,
    PrimFunc,
    PrimType,
    Ramp,
    Stmt,
    StmtMutator,
    Var,
    Visitor,
    handles,
)
from tvmagic.ir.ops import floordiv, multiply
from tvmagic.ir.query import is_access_ptr, launches_thread
from tvmagic.ir.values import scope_of
from tvmagic.passes import PassContext, note
from tvmagic.tir.transform.declaration import tir_pass

ALIGNMENT = 16  # bytes: each part begins at a multiple, which is one of its elements, too
_NAMES = {"shared": "buf_shmem", "shared.dyn": "buf_dyn_shmem"}


class _Allocations(Visitor):
    """The allocations of one memory inside a kernel, in order."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.found: list[Allocate] = []

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> None:
        pass

    @handles(Allocate)
    def allocate(self, node: Allocate) -> None:
        if scope_of(node.buffer_var) == self.scope:
            self.found.append(node)
        self.visit_children(node)


def _bytes(node: Allocate) -> PrimExpr:
    size: PrimExpr = IntImm("int32", node.dtype.bytes)
    for extent in node.extents:
        size = multiply(extent, size)
    return size


def _aligned(size: PrimExpr, alignment: int) -> PrimExpr:
    if isinstance(size, IntImm):
        return IntImm(size.dtype, -(-size.value // alignment) * alignment)
    return floordiv(size + (alignment - 1), alignment) * alignment


class _Parts(Mutator):
    """Accesses of the parts, as accesses of the whole."""

    def __init__(self, allocations: list[Allocate], scope: str) -> None:
        self.whole = Var(_NAMES[scope], PointerType(PrimType(DataType("uint8")), scope))
        self.offsets: dict[Var, PrimExpr] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        size: PrimExpr = IntImm("int32", 0)
        for node in allocations:
            size = _aligned(size, math.lcm(ALIGNMENT, node.dtype.bytes))
            self.offsets[node.buffer_var] = size
            note("memory", f"`{node.buffer_var.name}` begins at byte {size} of `{self.whole.name}`", node=node)
            size = size + _bytes(node)
        self.size = size

    def _first(self, data: Var, element: DataType) -> PrimExpr:
        """The number of the first element of a part, in elements of a type."""
        return floordiv(self.offsets[data], element.bytes)

    def _buffer(self, buffer: Buffer) -> Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            if len(buffer.shape) != 1:
                raise TVMagicError(
                    f"`{buffer.name}` has {len(buffer.shape)} dimensions and cannot be a part of a larger memory yet",
                    hint="run FlattenBuffer first",
                )
            found = self.buffers[buffer] = buffer.replace(data=self.whole)
        return found

    def _indices(self, node: BufferLoad | BufferStore) -> tuple[PrimExpr, ...]:
        (index,) = node.indices
        first = self._first(node.buffer.data, node.buffer.dtype)
        index = self.visit(index)
        if isinstance(index, Ramp):
            return (Ramp(index.base + first, index.stride, index.lanes, index.span),)
        return (index + first,)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        if node.buffer.data not in self.offsets:
            return self.visit_children(node)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        return node.replace(buffer=self._buffer(node.buffer), indices=self._indices(node), predicate=predicate)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Stmt:
        if node.buffer.data not in self.offsets:
            return self.visit_children(node)
        buffer, indices, value = self._buffer(node.buffer), self._indices(node), self.visit(node.value)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        return node.replace(buffer=buffer, value=value, indices=indices, predicate=predicate)

    @handles(DeclBuffer)
    def declaration(self, node: DeclBuffer) -> Stmt:
        if node.buffer.data not in self.offsets:
            return self.visit_children(node)
        return node.replace(buffer=self._buffer(node.buffer), body=self.visit(node.body))

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        if not is_access_ptr(node) or node.args[1] not in self.offsets:
            return self.visit_children(node)
        kind, data, offset, extent, mask = node.args
        offset = self.visit(offset) + self._first(data, kind.dtype)
        return node.replace(args=(kind, self.whole, offset, self.visit(extent), mask))

    @handles(Var)
    def var(self, node: Var) -> Var:
        if node in self.offsets:
            raise TVMagicError(
                f"`{node.name}` becomes a part of a larger memory, but is used by its pointer",
                node=node,
                hint="access it by its indices, or by `access_ptr`",
            )
        return node

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        return self.visit(node.body) if node.buffer_var in self.offsets else self.visit_children(node)


class _Kernels(StmtMutator):
    """Merges inside each outermost launch."""

    def __init__(self, scope: str) -> None:
        self.scope = scope

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        if not launches_thread(node) or node.attr_key != "thread_extent":
            return self.visit_children(node)
        found = _Allocations(self.scope)
        found.visit(node.body)
        if len(found.found) < 2:
            return node
        parts = _Parts(found.found, self.scope)
        self._check(found.found, node)
        body = parts.visit(node.body)
        whole: Any = Allocate(parts.whole, DataType("uint8"), (parts.size,), IntImm("bool", 1), body)
        return node.replace(body=whole)

    def _check(self, allocations: list[Allocate], kernel: AttrStmt) -> None:
        from tvmagic.tir.analysis.ssa import undefined_vars

        outside = set(undefined_vars(kernel))
        for node in allocations:
            for extent in node.extents:
                inside = [var for var in undefined_vars(extent) if var not in outside]
                if inside:
                    raise TVMagicError(
                        f"the size of `{node.buffer_var.name}` uses `{inside[0].name}`, which the kernel computes: the "
                        "host cannot know it",
                        node=node,
                    )


@tir_pass("tir.MergeSharedMemoryAllocations")
def MergeSharedMemoryAllocations(func: PrimFunc, *, context: PassContext) -> PrimFunc:
    """Make the dynamic shared memory of each kernel one allocation, whose size a launch can pass.

    With the option `tir.merge_static_smem` the static one, too. Every buffer has bytes of its own: StorageRewrite
    shares memory between those that are not alive together. FlattenBuffer comes before.
    """
    body = _Kernels("shared.dyn").visit(func.body)
    if context.option("tir.merge_static_smem", False):
        body = _Kernels("shared").visit(body)
    return func.with_body(body)
