"""KernelThreads: what a GPU runs as kernels, each launched once with all its threads.

The launches inside a kernel come to its head, so that its threads are there from its beginning to its end. What was
outside the launch of an axis is then run by all threads of that axis: they do the same, each in its own memory,
and the first of them alone writes what they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.errors import BuildError
from tvmagic.ir.ops import cast, logical_and
from tvmagic.ir.prim_expr import scope_of
from tvmagic.ir.query import has_node, is_call
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.use_def import used_vars


def is_launch(node: Any) -> bool:
    """Whether a statement launches threads or blocks."""
    return isinstance(node, ir.AttrStmt) and node.attr_key == "thread_extent" and isinstance(node.node, ir.IterVar)


def _is_barrier(node: Any) -> bool:
    value = getattr(node, "value", None)
    return is_call(value, "tir.tvm_storage_sync")


class _OfKernels(ir.Mutator):
    """Rewrites the kernels of a function: what its outermost launches hold."""

    def __init__(self, rewrite: Callable[[ir.AttrStmt], ir.Stmt]) -> None:
        self.rewrite = rewrite

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        return self.rewrite(node) if is_launch(node) else self.visit_children(node)


# ---------------------------------------------------------------------------- memory


class _Uses(ir.Visitor):
    """Which kernels use memory of threads and blocks that is allocated around them, and whether it is used outside them."""

    def __init__(self) -> None:
        self.allocations: dict[ir.Var, ir.Allocate] = {}
        self.kernels: dict[ir.Var, list[ir.Stmt]] = {}
        self.outside: set[ir.Var] = set()
        self.repeated: set[ir.Var] = set()  # by launches in a loop inside the allocation
        self.loops: list[set[ir.Var]] = []  # what was allocated around each loop

    def _used(self, var: ir.Var) -> None:
        if var in self.allocations:
            self.outside.add(var)

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        self._used(node)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        self._used(node.buffer.data)
        self.visit_children(node)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        if scope_of(node.buffer_var).startswith(("local", "shared")):
            self.allocations[node.buffer_var] = node
        self.visit_children(node)

    @ir.handles(ir.For, ir.While)
    def loop(self, node: ir.For | ir.While) -> None:
        self.loops.append(set(self.allocations))
        self.visit_children(node)
        self.loops.pop()

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if not is_launch(node):
            self.visit(node.body)
            return
        for var in used_vars(node):
            if var in self.allocations:
                self.kernels.setdefault(var, []).append(node)
                if any(var in around for around in self.loops):
                    self.repeated.add(var)


def _has_blocks(kernel: ir.Stmt) -> bool:
    return has_node(kernel, lambda node: is_launch(node) and node.node.thread_tag.startswith("blockIdx"))


class _Places(ir.Mutator):
    """Puts memory of threads and blocks into the kernel that uses it; what several use becomes global memory."""

    def __init__(self, uses: _Uses) -> None:
        self.into: dict[ir.Stmt, list[ir.Allocate]] = {}
        self.gone: set[ir.Allocate] = set()
        self.moved = _Moved()
        for var, kernels in uses.kernels.items():
            node, is_local = uses.allocations[var], scope_of(var).startswith("local")
            alone = len(kernels) == 1 and var not in uses.outside
            if alone and (is_local or var not in uses.repeated):
                self.into.setdefault(kernels[0], []).append(node)
                self.gone.add(node)
                continue
            if is_local and var not in uses.outside or any(map(_has_blocks, kernels)):
                raise BuildError(
                    f"`{var.name}` is memory of threads or of a block, and more than one launch uses it: it ends with the first",
                    node=node,
                    hint="compute it inside the threads that read it, or keep it in global memory",
                    code="tir.kernel.memory_shared_by_launches",
                )
            self.moved.move(node, "global")

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        body = self.visit(node.body)
        return body if node in self.gone else node.replace(body=body)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if not is_launch(node):
            return self.visit_children(node)
        body = node.body
        for allocation in self.into.get(node, ()):
            body = allocation.replace(body=body)
        return node.replace(body=body)


class _Moved(ir.Mutator):
    """Memory in another scope: its allocation and all that accesses it."""

    def __init__(self) -> None:
        self.pointers: dict[ir.Var, ir.Var] = {}
        self.buffers: dict[ir.Buffer, ir.Buffer] = {}

    def move(self, node: ir.Allocate, scope: str) -> None:
        """Let the memory of an allocation be of another scope."""
        old = node.buffer_var.type_annotation
        assert isinstance(old, ir.PointerType)
        self.pointers[node.buffer_var] = ir.Var(node.buffer_var.name, ir.PointerType(old.element_type, scope))
        note("memory", f"`{node.buffer_var.name}` is in {scope} memory: all who use it see it there", node=node)

    def _buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        data = self.pointers.get(buffer.data)
        if data is None:
            return buffer
        if buffer not in self.buffers:
            self.buffers[buffer] = buffer.replace(data=data)
        return self.buffers[buffer]

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.Var:
        return self.pointers.get(node, node)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        new = self.visit_children(node)
        return new.replace(buffer_var=self.pointers.get(node.buffer_var, node.buffer_var))

    @ir.handles(ir.BufferLoad, ir.BufferStore, ir.DeclBuffer)
    def access(self, node: ir.BufferLoad | ir.BufferStore | ir.DeclBuffer) -> Any:
        new = self.visit_children(node)
        return new.replace(buffer=self._buffer(node.buffer))


class _ToShared(_Moved):
    """Global memory that is allocated inside a kernel becomes shared: it is there for the threads of a block."""

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        if scope_of(node.buffer_var) == "global":
            self.move(node, "shared")
        return super().allocate(node)


@tir_pass("tir.KernelMemory")
def KernelMemory(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let memory of threads and blocks be where the kernels find it.

    What is allocated around the one kernel that uses it comes inside; what several launches use becomes global memory;
    global memory that is allocated inside a kernel becomes shared. Not a pass of TVM's. It comes before ThreadSync,
    which puts barriers around accesses of shared memory. Raises `BuildError` where a thread or block would read memory
    of its own that is gone.
    """
    uses = _Uses()
    uses.visit(func.body)
    places = _Places(uses)
    body = places.moved.visit(places.visit(func.body))
    return func.with_body(_OfKernels(lambda kernel: _ToShared().visit(kernel)).visit(body))


# ---------------------------------------------------------------------------- launches


class _Axes(ir.Visitor):
    """The axes of a kernel by tag; refuses what no kernel can be."""

    def __init__(self) -> None:
        self.axes: dict[str, ir.AttrStmt] = {}
        self.defined: set[ir.Var] = set()

    def visit_var_def(self, var: ir.Var) -> None:
        self.defined.add(var)

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> None:
        pass

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if is_launch(node):
            self._add(node, node.node.thread_tag)
        self.visit(node.body)

    def _add(self, node: ir.AttrStmt, tag: str) -> None:
        if tag not in _ORDER:
            hint = "run InjectVirtualThread" if tag.startswith("vthread") else "axes are blockIdx.x to threadIdx.z"
            raise BuildError(f"there is no thread axis `{tag}`", node=node, hint=hint, code="tir.kernel.unknown_thread")
        known = self.axes.setdefault(tag, node)
        if not ir.structural_equal(known.value, node.value):
            raise BuildError(
                f"a kernel launches {known.value} and {node.value} threads of `{tag}`",
                node=node,
                hint="loops that are bound to one thread axis have the same extent",
                code="tir.kernel.extents_differ",
            )
        if known is not node and tag.startswith("blockIdx"):
            raise BuildError(
                f"a kernel launches the blocks of `{tag}` twice, and blocks cannot wait for each other",
                node=node,
                hint="let each of the two be a kernel by itself",
                code="tir.kernel.launched_twice",
            )
        inside = [var for var in used_vars(node.value) if var in self.defined]
        if inside:
            raise BuildError(
                f"how many threads `{tag}` has depends on `{inside[0].name}`, which the kernel computes",
                node=node,
                code="tir.kernel.computed_extent",
            )


class _Guards(ir.Mutator):
    """Takes the launches out of a kernel, and lets the first thread alone write what threads share."""

    def __init__(self, axes: dict[str, ir.AttrStmt]) -> None:
        self.axes = axes
        self.vars: dict[ir.Var, ir.PrimExpr] = {}
        self.active: set[str] = set()
        # what differs from thread to thread
        self.differing = {launch.node.var for tag, launch in axes.items() if tag.startswith("threadIdx")}
        self.differs_here: list[ir.Stmt] = []

    def _missing(self, blocks: bool) -> list[ir.Var]:
        """The axes of more than one thread that are not launched here."""
        kinds = ("threadIdx", "blockIdx") if blocks else ("threadIdx",)
        return [
            launch.node.var
            for tag, launch in sorted(self.axes.items())
            if tag.startswith(kinds)
            and tag not in self.active
            and not (isinstance(launch.value, ir.IntImm) and launch.value.value == 1)
        ]

    def _first(self, node: ir.Stmt, blocks: bool) -> ir.Stmt:
        missing = self._missing(blocks)
        if not missing:
            return node
        condition: ir.PrimExpr = missing[0].equal(0)
        for var in missing[1:]:
            condition = logical_and(condition, var.equal(0))
        return ir.IfThenElse(condition, node, span=node.span)

    def _differs(self, value: ir.PrimExpr) -> bool:
        return any(var in self.differing for var in used_vars(value))

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if not is_launch(node):
            return self.visit_children(node)
        tag, var, first = node.node.thread_tag, node.node.var, self.axes[node.node.thread_tag].node.var
        if var is not first:
            self.vars[var] = cast(var.dtype, first)
            self.differing.add(var)
        added = tag not in self.active
        self.active.add(tag)
        body = self.visit(node.body)
        if added:
            self.active.discard(tag)
        return body

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        if scope_of(node.buffer_var).startswith("local"):
            self.differing.add(node.buffer_var)
        return self.visit_children(node)

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> ir.Stmt:
        if self._differs(node.value):
            self.differing.add(node.var)
        return self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        scope = scope_of(node.buffer.data)
        return node if scope.startswith("local") else self._first(node, blocks=scope == "global")

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        if not _is_barrier(node):
            return node if isinstance(node.value, ir.IntImm) else self._first(node, blocks=True)
        if self.differs_here:
            raise BuildError(
                "threads wait for each other in a loop or branch that differs from thread to thread",
                node=self.differs_here[-1],
                hint="let all threads reach the barrier, and guard what they store",
                code="tir.kernel.barrier_in_branch",
            )
        return node

    @ir.handles(ir.For, ir.While, ir.IfThenElse)
    def nest(self, node: ir.For | ir.While | ir.IfThenElse) -> ir.Stmt:
        values = (node.min, node.extent) if isinstance(node, ir.For) else (node.condition,)
        if any(map(self._differs, values)):
            if isinstance(node, ir.For):
                self.differing.add(node.loop_var)
            self.differs_here.append(node)
            result = self.visit_children(node)
            self.differs_here.pop()
            return result
        return self.visit_children(node)


def _one_launch(kernel: ir.AttrStmt) -> ir.Stmt:
    """A kernel with all its launches at its head, those of blocks first."""
    found = _Axes()
    found.visit(kernel)
    guards = _Guards(found.axes)
    body = guards.visit(kernel)
    if guards.vars:
        body = ir.substitute(body, guards.vars)
    for _, launch in sorted(found.axes.items(), key=lambda item: _ORDER.index(item[0]), reverse=True):
        body = launch.replace(body=body)
    return body


_ORDER = [f"{name}.{axis}" for name in ("blockIdx", "threadIdx") for axis in "zyx"]


@tir_pass("tir.KernelThreads")
def KernelThreads(func: ir.PrimFunc) -> ir.PrimFunc:
    """Launch each kernel once, with all its threads; the first thread writes what was outside a launch.

    Not a pass of TVM's. It comes after ThreadSync and LowerThreadAllreduce. Raises `BuildError` for what no kernel can
    be: two extents of an axis, two launches of one block axis, a barrier that not all threads come to.
    """
    return func.with_body(_OfKernels(_one_launch).visit(func.body))
