"""LowerWarpMemory: memory that the threads of a warp share becomes registers, which they read from each other."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.linear import detect_linear_equation
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    BufferLoad,
    BufferStore,
    Call,
    For,
    IntImm,
    Mutator,
    Node,
    PointerType,
    PrimExpr,
    PrimFunc,
    Ramp,
    Stmt,
    StmtMutator,
    Var,
    Visitor,
    handles,
    substitute,
)
from tvmagic.ir.ops import floordiv, floormod
from tvmagic.ir.query import callee, launches_thread, variables_in
from tvmagic.ir.values import scope_of
from tvmagic.tir.analysis.facts import Facts
from tvmagic.tir.transform.declaration import tir_pass


def _launches_lanes(node: AttrStmt) -> bool:
    return launches_thread(node) and node.attr_key == "thread_extent" and node.node.thread_tag == "threadIdx.x"


class _Warp(Visitor):
    """The variable and the extent of `threadIdx.x` around the accesses; no extent if there is no variable."""

    width: int

    def __init__(self, warp_size: int) -> None:
        self.warp_size = warp_size
        self.lane: Var | None = None

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if _launches_lanes(node):
            extent = node.value.value if isinstance(node.value, IntImm) else 0
            if not 0 < extent <= self.warp_size or self.warp_size % extent != 0:
                raise TVMagicError(
                    f"`threadIdx.x` has the extent {node.value}, which does not divide a warp of {self.warp_size} threads",
                    node=node,
                    hint="warp memory is of the threads of one warp: let `threadIdx.x` count them",
                )
            if self.lane is not None and self.lane is not node.node.var:
                raise TVMagicError(
                    "two variables are bound to `threadIdx.x` in one kernel",
                    node=node,
                    hint="make the axis once, and bind loops to it several times",
                )
            self.lane, self.width = node.node.var, extent
        self.visit_children(node)


class _Coefficient(Visitor):
    """How many neighbouring elements each thread stores: the factor of the thread's number in the indices."""

    def __init__(self, pointer: Var, lane: Var, analyzer: Analyzer) -> None:
        self.pointer, self.lane, self.analyzer = pointer, lane, analyzer
        self.found = 0

    @handles(Call)
    def call(self, node: Call) -> None:
        name, args = callee(node), node.args
        if name == "tir.ptx_ldmatrix" and args[3] is self.pointer:
            self._index(args[4], node)
        elif name == "tir.mma_fill" and args[1] is self.pointer and isinstance(args[0], IntImm):
            self._agree(args[0].value, node)
        self.visit_children(node)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        if node.buffer.data is self.pointer:
            self._index(_first_of(node.indices, node), node)
        self.visit_children(node)

    def _index(self, index: PrimExpr, node: Node) -> None:
        parts = detect_linear_equation(index, [self.lane])
        if len(parts) != 2:
            raise TVMagicError(f"the index `{index}` of warp memory is not linear in `{self.lane}`", node=node)
        factor = self.analyzer.canonical_simplify(parts[0])
        if not isinstance(factor, IntImm) or factor.value <= 0:
            raise TVMagicError(
                f"the index `{index}` of warp memory has no positive constant factor of `{self.lane}`, but `{factor}`",
                node=node,
                hint="each thread stores its own elements, one behind the other: `W[threadIdx_x * n + k]`",
            )
        self._agree(factor.value, node)

    def _agree(self, value: int, node: Node) -> None:
        if self.found not in (0, value):
            raise TVMagicError(
                f"one store into warp memory has the factor {self.found} of the thread's number, another {value}",
                node=node,
            )
        self.found = value


def _first_of(indices: tuple[PrimExpr, ...], node: Node) -> PrimExpr:
    """The one index of an access; the first of a vector's."""
    if len(indices) != 1:
        raise TVMagicError("warp memory is lowered in flat buffers", node=node, hint="run FlattenBuffer before")
    index = indices[0]
    if index.dtype.lanes == 1:
        return index
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or index.stride.value != 1:
        raise TVMagicError(f"the lanes of the index `{index}` of warp memory are not neighbours", node=node)
    return index.base


class _Accesses(Mutator):
    """Each access to one buffer of warp memory: in the thread's own registers, or by a shuffle."""

    def __init__(self, allocate: Allocate, launches: Sequence[AttrStmt], warp_size: int, analyzer: Analyzer) -> None:
        size = 1
        for extent in allocate.extents:
            size *= extent.value if isinstance(extent, IntImm) else 0
        if size <= 0:
            raise TVMagicError(f"the warp memory `{allocate.buffer_var.name}` has no constant size", node=allocate)
        warp = _Warp(warp_size)
        for launch in launches:
            warp.attribute(launch.replace(body=allocate.body))
        warp.visit(allocate.body)
        if warp.lane is None:
            raise TVMagicError(
                f"there is no `threadIdx.x` where the warp memory `{allocate.buffer_var.name}` is used", node=allocate
            )
        stores = _Coefficient(allocate.buffer_var, warp.lane, analyzer)
        stores.visit(allocate.body)
        if stores.found == 0:
            raise TVMagicError(f"nothing is stored into the warp memory `{allocate.buffer_var.name}`", node=allocate)
        self.pointer, self.lane, self.width = allocate.buffer_var, warp.lane, warp.width
        self.warp_size, self.analyzer, self.factor = warp_size, analyzer, stores.found
        self.groups = -(-size * allocate.dtype.lanes // (self.width * self.factor))
        self.of_thread = self.groups * self.factor

    @handles(Var)
    def var(self, node: Var) -> PrimExpr:
        if node is self.pointer:
            raise TVMagicError(
                f"the address of the warp memory `{node.name}` is taken, but registers have none", node=node
            )
        return node

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        pointers = [at for at in _POINTERS.get(callee(node), ()) if node.args[at] is self.pointer]
        new: list[PrimExpr] = []
        for k, arg in enumerate(node.args):
            arg = arg if k in pointers else self.visit(arg)
            new.append(self._split(arg)[0] if k - 1 in pointers else arg)
        return node.with_(args=tuple(new)) if any(a is not b for a, b in zip(new, node.args)) else node

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Stmt:
        value = self.visit(node.value)
        if node.buffer.data is not self.pointer:
            return node.with_(value=value, indices=self._all(node.indices))
        index = self.visit(_first_of(node.indices, node))
        place, thread = self._split(index)
        if not self.analyzer.can_prove_equal(thread, self.lane):
            raise TVMagicError(
                f"the store at `{index}` of warp memory is into the registers of the thread `{thread}`",
                node=node,
                hint=f"a thread stores only its own elements: from `{self.lane} * {self.factor}` on",
            )
        return node.replace(value=value, indices=(self._vector(place, node.indices[0]),))

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> PrimExpr:
        if node.buffer.data is not self.pointer:
            return node.with_(indices=self._all(node.indices))
        index = self.visit(_first_of(node.indices, node))
        place, thread = self._split(index)
        if self.lane in variables_in(place):
            raise TVMagicError(
                f"the load at `{index}` of warp memory needs the element `{place}` of a thread, which differs from "
                "thread to thread",
                node=node,
                hint="what all threads read at one time is at one place of their registers",
            )
        value = node.replace(indices=(self._vector(place, node.indices[0]),))
        if self.analyzer.can_prove_equal(thread, self.lane):
            return value
        mask, width = Call("uint32", "tir.tvm_warp_activemask", []), IntImm("int32", self.width)
        size = IntImm("int32", self.warp_size)
        return Call(value.dtype, "tir.tvm_warp_shuffle", [mask, value, thread, width, size])

    def _all(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        new = tuple(self.visit(index) for index in indices)
        return indices if all(a is b for a, b in zip(new, indices)) else new

    @staticmethod
    def _vector(place: PrimExpr, index: PrimExpr) -> PrimExpr:
        return place if index.dtype.lanes == 1 else Ramp(place, IntImm(place.dtype, 1), index.dtype.lanes)

    def _split(self, index: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """The place in a thread's registers, and the thread."""
        simplify, own = self.analyzer.canonical_simplify, IntImm(index.dtype, self.factor)
        place = simplify(floormod(index, own))
        if self.groups == 1:
            return place, simplify(floordiv(index, own))
        row = IntImm(index.dtype, self.factor * self.width)
        return simplify(floordiv(index, row) * own + place), simplify(floordiv(floormod(index, row), own))


# where calls that work on a warp have pointers; behind each is the index from which they access it
_POINTERS = {
    "tir.ptx_mma": (6, 8, 10),
    "tir.ptx_ldmatrix": (3,),
    "tir.mma_store": (3,),
    "tir.mma_fill": (1,),
}


class _Rewriter(Facts, StmtMutator):
    def __init__(self, warp_size: int, analyzer: Analyzer) -> None:
        self.warp_size, self.analyzer = warp_size, analyzer
        self.launches: list[AttrStmt] = []

    @handles(For)
    def loop(self, node: For) -> Stmt:
        self.known_loop(node)
        return self.visit_children(node)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        self.known_thread(node)
        if not _launches_lanes(node):
            return self.visit_children(node)
        self.launches.append(node)
        new = self.visit_children(node)
        self.launches.pop()
        return new

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        new = self.visit_children(node)
        if scope_of(node.buffer_var) != "warp":
            return new
        accesses = _Accesses(new, self.launches, self.warp_size, self.analyzer)
        kind = node.buffer_var.type_annotation
        assert isinstance(kind, PointerType)
        pointer = Var(node.buffer_var.name, PointerType(kind.element_type, "local"))
        body = substitute(accesses.visit(new.body), {node.buffer_var: pointer})
        return new.replace(buffer_var=pointer, extents=(IntImm("int32", accesses.of_thread),), body=body)


@tir_pass("tir.LowerWarpMemory")
def LowerWarpMemory(func: PrimFunc) -> PrimFunc:
    """Keep buffers in `warp` memory in the registers of the warp's threads; a load from another thread is a shuffle.

    Each thread holds the elements that it stores. The function's target gives the size of a warp
    (`thread_warp_size`; with 1, nothing changes); the extent of `threadIdx.x` divides it. Raises `TVMagicError`
    without a target, and for stores whose indices are not `threadIdx.x` times one positive constant plus the rest.
    """
    target = func.attrs.get("target")
    if target is None:
        raise TVMagicError("the function has no target, which tells the size of a warp", hint="run BindTarget before")
    warp_size = int(target.attrs.get("thread_warp_size", 1))
    if warp_size == 1:
        return func
    return func.with_body(_Rewriter(warp_size, Analyzer()).visit(func.body))
