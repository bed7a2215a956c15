"""An interpreter of programs in NumPy: any function or statement, before, between and after passes.

It shares nothing with code generation, so that a program can be checked after every pass. Loops
whose iterations do not depend on each other run as lanes (`lanes.py`), the others one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.algebra import PLAIN, Plain
from tvmagic.eval.lanes import Conflict, Context, Storage
from tvmagic.eval.loop_unfusing import unfuse
from tvmagic.eval.size_equations import Dimension
from tvmagic.eval.values import Journaled, TooLong, Unsupported, Values, tensor_key, whole_storage
from tvmagic.eval.vectorizable_loops import lane_loops
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.query import launches_thread

Array = Any
_MOST_LANES = 1 << 20


def run_function(
    func: ir.PrimFunc, arrays: Sequence[np.ndarray], seconds: float | None = None, algebra: Plain = PLAIN
) -> None:
    """Run a function on arrays (inputs and outputs, contiguous), which it changes in place.

    Raises
    ------
    OutOfRange: an access outside a buffer.
    Unsupported: the program has something that cannot be interpreted.
    TooLong: it did not end within `seconds`.
    """
    machine = Machine(seconds, algebra)
    for param, array in zip(func.params, arrays, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            machine.values[param] = np.asarray(array)
            continue
        machine.bind_buffer(buffer, array)
    with np.errstate(all="ignore"):
        machine.visit(unfuse(func.body))


def run_statement(stmt: ir.Stmt, tensors: Mapping[Any, np.ndarray], seconds: float | None = None) -> None:
    """Run a statement on the arrays of its tensors, which it changes in place; errors as `run_function`."""
    machine = Machine(seconds)
    for tensor, array in tensors.items():
        for size, extent in zip(tensor.shape, array.shape):
            if isinstance(size, ir.Var):
                machine.values.setdefault(size, np.asarray(extent, numpy_dtype(size.dtype)))
        machine.bind_sizes([Dimension(*pair) for pair in zip(tensor.shape, array.shape)])
        machine.tensors[tensor_key(tensor)] = whole_storage(tensor.name, array)
    with np.errstate(all="ignore"):
        machine.visit(stmt)


class Machine(Values):
    """The statements of a program; loops run as lanes where that is right."""

    # ------------------------------------------------------------------------ statements

    @ir.handles(ir.SeqStmt)
    def _seq(self, node: ir.SeqStmt) -> None:
        for part in node.seq:
            self.visit(part)

    @ir.handles(ir.Evaluate)
    def _evaluate(self, node: ir.Evaluate) -> None:
        if isinstance(node.value, ir.Call):
            self.visit(node.value)

    @ir.handles(ir.Prefetch)
    def _prefetch(self, node: ir.Prefetch) -> None:
        return None

    @ir.handles(ir.LetStmt)
    def _let_stmt(self, node: ir.LetStmt) -> None:
        self.values[node.var] = self.kept(node.var, self.visit(node.value))
        self.visit(node.body)

    @ir.handles(ir.AttrStmt)
    def _attr(self, node: ir.AttrStmt) -> None:
        if launches_thread(node):
            if node.node.var not in self.values:
                self._iterations(node.node.var, 0, self._uniform(node.value), node.body)
                self.values.pop(node.node.var, None)  # the next launch, perhaps by the same variable, runs again
                return
        self.visit(node.body)

    @ir.handles(ir.AssertStmt)
    def _assert(self, node: ir.AssertStmt) -> None:
        holds = self.deciding(node.condition)
        if self.mask is not None:  # only the lanes that are here must hold it
            holds = np.logical_or(holds[..., None] if np.ndim(self.mask) > np.ndim(holds) > 0 else holds, ~self.mask)
        if not np.all(holds):
            raise TVMagicError(
                f"an assertion of the program does not hold: {node.message}", code="interpreter.assertion_failed"
            )
        self.visit(node.body)

    @ir.handles(ir.IfThenElse)
    def _if(self, node: ir.IfThenElse) -> None:
        taken = self.visit(node.condition)
        may, may_not, is_open = self.algebra.branches(taken)
        if is_open:
            self._merge(taken, [(node.then_case, may), (node.else_case, may_not)])
            return
        if np.ndim(taken) == 0:
            branch = node.then_case if may else node.else_case
            if branch is not None:
                self.visit(branch)
            return
        with self.where(may):
            self.visit(node.then_case)
        if node.else_case is not None:
            with self.where(may_not):
                self.visit(node.else_case)

    def _merge(self, taken: Array, branches: list[tuple[ir.Stmt | None, Array]]) -> None:
        """Run both branches on the same memory, then select what each stored."""
        outer, sides = self.journal, []
        for branch, may in branches:
            self.journal = []
            try:
                if branch is not None:
                    with self.where(may), self._speculating(True):
                        self.visit(branch)
                stored = [(e.storage, e.position, e.lane, e.storage.data.flat[e.position]) for e in self.journal]
            finally:
                for entry in reversed(self.journal):
                    entry.storage.data.flat[entry.position] = entry.before
                self.journal = outer
            sides.append(stored)
        storages = {id(storage.data): storage for stored in sides for storage, *_ in stored}
        for storage in storages.values():
            mine = [[entry[1:] for entry in stored if entry[0].data is storage.data] for stored in sides]
            every = [entry for stored in mine for entry in stored]
            position, first = np.unique(np.concatenate([e[0] for e in every]), return_index=True)
            lane = np.concatenate([e[1] for e in every])[first]
            before = storage.data.flat[position]
            values = []
            for stored in mine:
                values.append(before.copy())
                for where, _, value in stored:
                    values[-1][np.searchsorted(position, where)] = value
            if self.journal is not None:
                self.journal.append(Journaled(storage, position, lane, before))
            condition = taken[lane] if np.ndim(taken) else taken
            storage.data.flat[position] = self.algebra.merged(condition, *values)

    @ir.handles(ir.While)
    def _while(self, node: ir.While) -> None:
        while True:
            going = self.deciding(node.condition)
            if np.ndim(going):
                raise Conflict
            if not going:
                return
            self.visit(node.body)
            self._watch_clock()

    @ir.handles(ir.BufferStore)
    def _store(self, node: ir.BufferStore) -> None:
        self.store_value(node, self.visit(node.value))

    def store_value(self, node: ir.BufferStore, value: Array) -> None:
        """Do the store `node` with a value that was computed."""
        storage, indices = self._address(node.buffer, node.indices)
        with self.where(self.deciding(node.predicate) if node.predicate is not None else None):
            self._write(storage, indices, value, node.value.dtype)

    @ir.handles(ir.ProducerStore)
    def _producer_store(self, node: ir.ProducerStore) -> None:
        value = self.visit(node.value)
        indices = [self.indexing(i) for i in node.indices]
        self._write(self._tensor(node.producer), indices, value, node.value.dtype)

    @ir.handles(ir.ProducerRealize)
    def _producer_realize(self, node: ir.ProducerRealize) -> None:
        key = tensor_key(node.producer)
        if key not in self.tensors or self.tensors[key].level or self.contexts:
            outer = self.tensors.get(key)
            mins, extents = self._region(node.bounds)
            self.tensors[key] = self._new_storage(node.producer.name, node.producer.dtype, mins, extents)
            self.visit(node.body)
            if outer is not None:
                self.tensors[key] = outer
            else:
                del self.tensors[key]
            return
        self.visit(node.body)

    @ir.handles(ir.BufferRealize)
    def _buffer_realize(self, node: ir.BufferRealize) -> None:
        if node.buffer.data not in self.memory:
            mins, extents = self._region(node.bounds)
            self.memory[node.buffer.data] = self._new_storage(node.buffer.name, node.buffer.dtype, mins, extents)
            self.visit(node.body)
            del self.memory[node.buffer.data]
            return
        self.visit(node.body)

    def _region(self, bounds: Any) -> tuple[list[Array], list[int]]:
        return [self.indexing(r.min) for r in bounds], [self._uniform(r.extent) for r in bounds]

    def _uniform(self, node: ir.PrimExpr) -> int:
        """A size that all lanes agree on; the largest if they do not."""
        value = np.asarray(self.deciding(node))
        return int(value.max()) if value.ndim else int(value)

    @ir.handles(ir.Allocate)
    def _allocate(self, node: ir.Allocate) -> None:
        size = int(np.prod([self._uniform(e) for e in node.extents], dtype=np.int64)) * node.dtype.lanes
        self._with_memory(node.buffer_var, node.buffer_var.name, node.dtype.element_of, size, node.body)

    def _with_memory(self, var: ir.Var, name: str, dtype: Any, size: int, body: ir.Stmt) -> None:
        outer = self.memory.get(var)
        self.memory[var] = self._new_storage(name, dtype, [0], [size])
        self.visit(body)
        if outer is not None:
            self.memory[var] = outer
        else:
            del self.memory[var]

    @ir.handles(ir.AllocateConst)
    def _allocate_const(self, node: ir.AllocateConst) -> None:
        data = self.constant_memory(node)
        self.memory[node.buffer_var] = Storage(node.buffer_var.name, data, 0, [0], [data.size])
        self.visit(node.body)

    def constant_memory(self, node: ir.AllocateConst) -> Array:
        """The memory of a constant array, as one row."""
        data = np.ascontiguousarray(node.data).reshape(1, -1)
        return self.algebra.memory_of(data, node.dtype.element_of)

    @ir.handles(ir.DeclBuffer)
    def _decl_buffer(self, node: ir.DeclBuffer) -> None:
        self.visit(node.body)

    @ir.handles(ir.BlockRealize)
    def _block_realize(self, node: ir.BlockRealize) -> None:
        holds = self.deciding(node.predicate)
        if np.ndim(holds) == 0 and not holds:
            return
        with self.where(holds if np.ndim(holds) else None):
            for iv, value in zip(node.block.iter_vars, node.iter_values):
                self.values[iv.var] = self.visit(value)
            self._block(node.block)

    def _span(self, buffer: ir.Buffer) -> int:
        """How many elements a buffer of its own takes, up to its last one."""
        extents = [self._uniform(s) for s in buffer.shape]
        size = int(np.prod(extents, dtype=np.int64))
        if buffer.strides and size:
            size = 1 + sum((extent - 1) * self._uniform(step) for extent, step in zip(extents, buffer.strides))
        return self._uniform(buffer.elem_offset) + size

    def _block(self, block: ir.Block) -> None:
        for buffer in block.alloc_buffers:
            self.memory[buffer.data] = self._new_storage(buffer.name, buffer.dtype, [0], [self._span(buffer)])
        for match in block.match_buffers:
            mins = [self.indexing(r.min) for r in match.source.region]
            extra = len(mins) - len(match.buffer.shape)
            if extra:
                raise Unsupported(
                    f"the buffer `{match.buffer.name}` matches a region of another rank",
                    code="interpreter.match_rank_differs",
                )
            self.views[match.buffer] = (match.source.buffer, mins)
        if block.init is not None:
            first: Array = np.asarray(True)
            for iv in block.iter_vars:
                if iv.iter_type == ir.IterVar.CommReduce:
                    assert iv.dom is not None
                    first = first & (self.values[iv.var] == self.deciding(iv.dom.min))
            if np.ndim(first) or first:
                with self.where(first if np.ndim(first) else None):
                    self.visit(block.init)
        self.visit(block.body)

    # ------------------------------------------------------------------------ loops

    @ir.handles(ir.For)
    def _for(self, node: ir.For) -> None:
        if id(node) not in self.serial and self._as_lanes(node):
            return
        begin, extent = self.deciding(node.min), self.deciding(node.extent)
        self._iterations(node.loop_var, begin, extent, node.body)

    def _iterations(self, var: ir.Var, begin: Array, extent: Array, body: ir.Stmt) -> None:
        """Run a loop one iteration after the other; lanes that end sooner are masked."""
        kind = numpy_dtype(var.dtype)
        last = int(np.max(extent)) if np.size(extent) else 0
        for step in range(last):
            self.values[var] = np.asarray(begin + step).astype(kind)
            if np.ndim(extent):
                with self.where(step < extent):
                    self.visit(body)
            else:
                self.visit(body)
            self._watch_clock()

    def _watch_clock(self) -> None:
        if self.end is not None and time.monotonic() > self.end:
            raise TooLong("the program takes too long to be interpreted", code="interpreter.too_slow")

    def _as_lanes(self, node: ir.For) -> bool:
        """Run a nest of loops as lanes; False if it has to run one iteration after the other."""
        nest, chosen, body = lane_loops(node, self.serial)
        ranges = [(loop, self.deciding(loop.min), self.deciding(loop.extent)) for loop in nest if loop in chosen]
        if not ranges or any(np.ndim(m) or np.ndim(e) for _, m, e in ranges):
            self.serial.add(id(node))
            return False
        extents = [int(e) for _, _, e in ranges]
        count = int(np.prod(extents, dtype=np.int64))
        if count * self.count > _MOST_LANES or count < 2:
            self.serial.add(id(node))
            return False
        state = (dict(self.values), dict(self.memory), dict(self.tensors), dict(self.views), self.mask)
        context = self._enter(count)
        try:
            grid = np.unravel_index(np.tile(np.arange(count), self.count // count), extents)
            for (loop, begin, _), places in zip(ranges, grid):
                self.values[loop.loop_var] = (begin + places).astype(numpy_dtype(loop.loop_var.dtype))
            self._run_rest([loop for loop in nest if loop not in chosen], body)
        except Conflict:
            context.restore()
            self.serial.update(id(loop) for loop in nest)
            return False
        finally:
            self.contexts.pop()
            self.values, self.memory, self.tensors, self.views, self.mask = state
        return True

    def _enter(self, count: int) -> Context:
        """Open a context of `count` lanes inside each lane that is active now."""
        outer, total = self.count, self.count * count
        owners = [np.repeat(o, count) for o in self.contexts[-1].owner] if self.contexts else []
        widen: Callable[[Array], Array] = lambda v: np.repeat(v, count, axis=0)  # noqa: E731
        if self.contexts:
            self.values = {k: widen(v) if self._has_lanes(k, v, outer) else v for k, v in self.values.items()}
            self.mask = widen(self.mask) if self.mask is not None and np.ndim(self.mask) else self.mask
            self.memory = {key: _widened(s, widen) for key, s in self.memory.items()}
            self.tensors = {key: _widened(s, widen) for key, s in self.tensors.items()}
            self.views = {b: (o, [widen(m) if np.ndim(m) else m for m in mins]) for b, (o, mins) in self.views.items()}
        context = Context(total, [*owners, np.arange(total)])
        self.contexts.append(context)
        return context

    @staticmethod
    def _has_lanes(var: ir.Var, value: Array, outer: int) -> bool:
        return np.ndim(value) >= 1 and (var.dtype.lanes == 1 or np.ndim(value) == 2) and np.shape(value)[0] == outer

    def _run_rest(self, loops: list[ir.For], body: ir.Stmt) -> None:
        """Run the loops of a nest that are not lanes, then its body."""
        if not loops:
            self.visit(body)
            return
        loop = loops[0]
        inner = _Rest(loops[1:], body)
        begin, extent = self.deciding(loop.min), self.deciding(loop.extent)
        self._iterations(loop.loop_var, begin, extent, inner)

    def visit(self, node: Any) -> Any:
        if type(node) is _Rest:
            return self._run_rest(node.loops, node.stmt)
        return super().visit(node)


class _Rest(ir.Stmt):
    """What is left of a nest whose outer loops run already."""

    __slots__ = ("loops", "stmt")

    def __init__(self, loops: list[ir.For], stmt: ir.Stmt) -> None:
        self.loops, self.stmt, self.span = loops, stmt, None


def _widened(storage: Storage, widen: Callable[[Array], Array]) -> Storage:
    """The same elements seen from more lanes."""
    mins = [widen(m) if np.ndim(m) else m for m in storage.mins]
    if all(a is b for a, b in zip(storage.mins, mins)):
        return storage
    return Storage(storage.name, storage.data, storage.level, mins, storage.extents)
