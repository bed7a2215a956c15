"""An interpreter of programs in NumPy: any function or statement, before, between and after passes.

It shares nothing with code generation, so that a program can be checked after every pass. Loops
whose iterations do not depend on each other run as lanes (`lanes.py`), the others one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BinaryOp,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferStore,
    Call,
    Cast,
    ConstExpr,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    Let,
    LetStmt,
    Not,
    Prefetch,
    PrimExpr,
    PrimFunc,
    ProducerLoad,
    ProducerRealize,
    ProducerStore,
    Ramp,
    Select,
    SeqStmt,
    Shuffle,
    Stmt,
    Var,
    Visitor,
    While,
    handles,
)
from tvmagic.operators.lanes import Conflict, Context, OutOfRange, Storage
from tvmagic.operators.loops import lane_loops
from tvmagic.te.numpy_ops import BINARY, CALLS, numpy_dtype

__all__ = ["TooLong", "Unsupported", "run_function", "run_statement"]

Array = Any
_MOST_LANES = 1 << 20


class Unsupported(TVMagicError):
    """Something that the interpreter does not know, such as a call of C code."""


class TooLong(TVMagicError):
    """The program did not end in the time that the interpreter was given."""


def run_function(func: PrimFunc, arrays: Sequence[np.ndarray], seconds: float | None = None) -> None:
    """Run a function on arrays (inputs and outputs, contiguous), which it changes in place.

    Raises
    ------
    OutOfRange: an access outside a buffer.
    Unsupported: the program has something that cannot be interpreted.
    TooLong: it did not end within `seconds`.
    """
    machine = _Machine(seconds)
    for param, array in zip(func.params, arrays, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            machine.values[param] = np.asarray(array)
            continue
        machine.bind_buffer(buffer, array)
    with np.errstate(all="ignore"):
        machine.visit(func.body)


def run_statement(stmt: Stmt, tensors: Mapping[Any, np.ndarray], seconds: float | None = None) -> None:
    """Run a statement on the arrays of its tensors, which it changes in place; errors as `run_function`."""
    machine = _Machine(seconds)
    for tensor, array in tensors.items():
        for size, extent in zip(tensor.shape, array.shape):
            if isinstance(size, Var):
                machine.values.setdefault(size, np.asarray(extent, numpy_dtype(size.dtype)))
        machine.tensors[tensor_key(tensor)] = whole_storage(tensor.name, array)
    with np.errstate(all="ignore"):
        machine.visit(stmt)


def tensor_key(tensor: Any) -> tuple[int, int]:
    """What tells tensors apart: the operation and which of its outputs."""
    return id(tensor.op), tensor.value_index


def whole_storage(name: str, array: np.ndarray) -> Storage:
    if not array.flags.c_contiguous:
        raise TVMagicError(f"the array of `{name}` is not contiguous")
    return Storage(name, array.reshape(1, -1), 0, [0] * array.ndim, list(array.shape))


class _Machine(Visitor):
    """The state of a run: values of variables, memory, and the lanes that are active.

    A value has the shape (), (lanes,), (vector,) or (lanes, vector); which follows from its dtype.
    """

    def __init__(self, seconds: float | None) -> None:
        self.values: dict[Var, Array] = {}
        self.memory: dict[Var, Storage] = {}
        self.tensors: dict[tuple[int, int], Storage] = {}
        self.views: dict[Buffer, tuple[Buffer, list[Array]]] = {}
        self.contexts: list[Context] = []
        self.mask: Array = None
        self.serial: set[int] = set()
        self.end = None if seconds is None else time.monotonic() + seconds

    def bind_buffer(self, buffer: Buffer, array: np.ndarray) -> None:
        """Let an argument's array be the memory of its buffer, and its shape the values of its sizes."""
        strides = np.cumprod([1, *array.shape[:0:-1]])[::-1] if array.ndim else []
        pairs = [*zip(buffer.shape, array.shape), *zip(buffer.strides, strides), (buffer.elem_offset, 0)]
        for size, extent in pairs:
            if isinstance(size, Var):
                self.values.setdefault(size, np.asarray(extent, numpy_dtype(size.dtype)))
        flat = whole_storage(buffer.name, array)
        self.memory[buffer.data] = Storage(buffer.name, flat.data, 0, [0], [array.size])

    # ------------------------------------------------------------------------ expressions

    def value(self, node: PrimExpr) -> Array:
        """The value of an expression."""
        return self.visit(node)

    @handles(ConstExpr)
    def _constant(self, node: Any) -> Array:
        if node.dtype.is_handle:
            return node.value
        return np.asarray(node.value, numpy_dtype(node.dtype))

    @handles(Var)
    def _var(self, node: Var) -> Array:
        if node not in self.values:
            raise Unsupported(f"the variable `{node.name}` has no value")
        return self.values[node]

    @handles(IterVar)
    def _iter_var(self, node: IterVar) -> Array:
        return self._var(node.var)

    @handles(BinaryOp)
    def _binary(self, node: Any) -> Array:
        a = self.visit(node.a)
        with self.where(a if type(node).__name__ == "And" else ~a if type(node).__name__ == "Or" else None):
            b = self.visit(node.b)
        compute = BINARY[type(node)]
        return np.asarray(compute(a, b)).astype(numpy_dtype(node.dtype.element_of), copy=False)

    @handles(Not)
    def _not(self, node: Not) -> Array:
        return ~self.visit(node.a)

    @handles(Cast)
    def _cast(self, node: Cast) -> Array:
        value = self.visit(node.value)
        if node.value.dtype.is_float and not node.dtype.is_float:
            value = np.nan_to_num(np.trunc(np.asarray(value, np.float64)), posinf=0, neginf=0)
        return np.asarray(value).astype(numpy_dtype(node.dtype.element_of))

    @handles(Select)
    def _select(self, node: Select) -> Array:
        return self._choose(node.condition, node.true_value, node.false_value)

    def _choose(self, condition: Any, yes: Any, no: Any) -> Array:
        taken = self.visit(condition)
        if np.ndim(taken) == 0:
            return self.visit(yes if taken else no)
        per_lane = condition.dtype.lanes == 1
        with self.where(taken if per_lane else None):
            first = self.visit(yes)
        with self.where(~taken if per_lane else None):
            second = self.visit(no)
        if per_lane and yes.dtype.lanes > 1:
            taken = taken[..., None]
        return np.where(taken, first, second)

    @handles(Ramp)
    def _ramp(self, node: Ramp) -> Array:
        base, stride = np.asarray(self.visit(node.base)), np.asarray(self.visit(node.stride))
        return base[..., None] + stride[..., None] * np.arange(node.lanes, dtype=base.dtype)

    @handles(Broadcast)
    def _broadcast(self, node: Broadcast) -> Array:
        value = np.asarray(self.visit(node.value))
        return np.repeat(value[..., None], node.lanes, axis=-1)

    @handles(Shuffle)
    def _shuffle(self, node: Shuffle) -> Array:
        parts = [np.asarray(self.visit(v)) for v in node.vectors]
        parts = [p if v.dtype.lanes > 1 else p[..., None] for p, v in zip(parts, node.vectors)]
        wide = max(p.ndim for p in parts)
        parts = [np.broadcast_to(p, (self.count, *p.shape)) if p.ndim < wide else p for p in parts]
        picked = np.concatenate(parts, axis=-1)[..., [int(i.value) for i in node.indices]]  # type: ignore[attr-defined]
        return picked if len(node.indices) > 1 else picked[..., 0]

    @handles(Let)
    def _let(self, node: Let) -> Array:
        self.values[node.var] = self.visit(node.value)
        return self.visit(node.body)

    @handles(Call)
    def _call(self, node: Call) -> Array:
        name = getattr(node.op, "name", str(node.op)).removeprefix("tir.")
        if name == "if_then_else":
            return self._choose(*node.args)
        if name == "likely":
            return self.visit(node.args[0])
        if name in ("assume", "undef", "prefetch", "type_annotation"):
            return np.asarray(0)
        compute = CALLS.get(name) or CALLS.get(f"tir.{name}")
        if compute is None:
            raise Unsupported(f"the interpreter does not know the call `{name}`")
        result = compute(*[self.visit(a) for a in node.args])
        return np.asarray(result).astype(numpy_dtype(node.dtype.element_of), copy=False)

    @handles(BufferLoad)
    def _load(self, node: BufferLoad) -> Array:
        storage, indices = self._address(node.buffer, node.indices)
        with self.where(self.visit(node.predicate) if node.predicate is not None else None):
            return self._read(storage, indices, node.dtype)

    @handles(ProducerLoad)
    def _producer_load(self, node: ProducerLoad) -> Array:
        return self._read(self._tensor(node.producer), [self.visit(i) for i in node.indices], node.dtype)

    # ------------------------------------------------------------------------ memory

    @property
    def count(self) -> int:
        return self.contexts[-1].count if self.contexts else 1

    def _tensor(self, tensor: Any) -> Storage:
        found = self.tensors.get(tensor_key(tensor))
        if found is None:
            raise Unsupported(f"the tensor `{tensor.name}` is used where it has no memory")
        return found

    def _address(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> tuple[Storage, list[Array]]:
        """The memory of a buffer, and the indices into it."""
        places = [self.visit(i) for i in indices]
        while buffer in self.views:
            buffer, mins = self.views[buffer]
            places = [p + (m[..., None] if np.ndim(p) > np.ndim(m) > 0 else m) for p, m in zip(places, mins)]
        storage = self.memory.get(buffer.data)
        if storage is None:
            raise Unsupported(f"the buffer `{buffer.name}` is used where it has no memory")
        if len(storage.extents) == len(buffer.shape) > 1 and not buffer.strides:
            return storage, places
        return storage, [self._flat(buffer, places)]

    def _flat(self, buffer: Buffer, places: list[Array]) -> Array:
        total: Array = np.asarray(self.visit(buffer.elem_offset))
        if buffer.strides:
            sizes = [self.visit(s) for s in buffer.strides]
            terms = [self._times(p, s) for p, s in zip(places, sizes)]
        else:
            terms, step = [], np.asarray(1)
            for place, size in zip(reversed(places), reversed(buffer.shape)):
                terms.append(self._times(place, step))
                step = step * self.visit(size)
        for term in terms:
            total = term if np.ndim(total) == 0 and total == 0 else self._plus(total, term)
        return total

    @staticmethod
    def _times(a: Array, b: Array) -> Array:
        return a * (b[..., None] if np.ndim(a) > np.ndim(b) > 0 else b)

    def _plus(self, a: Array, b: Array) -> Array:
        """The sum of two places, of which one may be a vector and the other a lane's scalar."""
        wide = max(np.ndim(a), np.ndim(b))
        if wide == 2 or (wide == 1 and not self.contexts):
            a = a[..., None] if np.ndim(a) == 1 and self.contexts else a
            b = b[..., None] if np.ndim(b) == 1 and self.contexts else b
        return a + b

    def _place(self, storage: Storage, indices: list[Array], lanes: int) -> tuple[Array, Array, Array]:
        """The row and column of elements in a storage, and which of them are really accessed."""
        shape: tuple[int, ...] = (self.count,) if self.contexts else ()
        shape = (*shape, lanes) if lanes > 1 else shape
        column: Array = np.zeros(shape, np.int64)
        inside: Array = np.ones(shape, bool)
        for index, low, extent in zip(indices, storage.mins, storage.extents):
            offset = self._shaped(index, shape, lanes) - self._shaped(low, shape, 1)
            inside &= (offset >= 0) & (offset < extent)
            column = column * extent + offset
        active = (
            self._shaped(self.mask, shape, 1 if self._mask_is_scalar() else lanes) if self.mask is not None else None
        )
        wrong = ~inside if active is None else ~inside & active
        if np.any(wrong):
            raise OutOfRange(f"an access outside `{storage.name}`")
        active = inside if active is None else active & inside
        row: Array = np.zeros(shape, np.int64)
        if storage.level:
            row = self._shaped(self.contexts[-1].owner[storage.level - 1], shape, 1)
        return np.where(inside, row, 0), np.where(inside, column, 0), active

    def _mask_is_scalar(self) -> bool:
        return np.ndim(self.mask) < 2 and bool(self.contexts)

    def _shaped(self, value: Array, shape: tuple[int, ...], lanes: int) -> Array:
        """A value of any form in the shape of an access."""
        value = np.asarray(value)
        if lanes == 1 and self.contexts and value.ndim == 1 and len(shape) == 2:
            value = value[:, None]
        return np.broadcast_to(value, shape)

    def _read(self, storage: Storage, indices: list[Array], dtype: Any) -> Array:
        row, column, active = self._place(storage, indices, dtype.lanes)
        for number, context in enumerate(self.contexts):
            if storage.level <= number:
                lane = self._shaped(self.contexts[-1].owner[number], np.shape(row), 1)
                context.read(storage, (row[active], column[active]), lane[active])
        value = storage.data[row, column]
        wanted = numpy_dtype(dtype.element_of)
        if value.dtype is not wanted and value.dtype != wanted:
            value = value.view(wanted) if value.dtype.itemsize == wanted.itemsize else value.astype(wanted)
        return value

    def _write(self, storage: Storage, indices: list[Array], value: Array, lanes: int) -> None:
        row, column, active = self._place(storage, indices, lanes)
        value = np.asarray(value)
        if self.contexts and lanes > 1 and value.ndim == 1 and value.shape != (lanes,):
            value = value[:, None]
        value = np.broadcast_to(value, np.shape(row))
        for number, context in enumerate(self.contexts):
            if storage.level <= number:
                lane = self._shaped(self.contexts[-1].owner[number], np.shape(row), 1)
                context.save(storage)
                context.write(storage, (row[active], column[active]), lane[active])
        if value.dtype != storage.data.dtype and value.dtype.itemsize == storage.data.dtype.itemsize:
            value = value.view(storage.data.dtype)
        storage.data[row[active], column[active]] = value[active]

    def _new_storage(self, name: str, dtype: Any, mins: list[Array], extents: list[int]) -> Storage:
        """Fresh memory, for each lane its own; floats begin as NaN, so that reading them early shows."""
        kind = numpy_dtype(dtype.element_of)
        size = int(np.prod(extents, dtype=np.int64)) * dtype.lanes
        if size * self.count > 1 << 28:
            raise TooLong(f"`{name}` needs too much memory to be interpreted")
        data = np.full((self.count, size), np.nan if kind.kind == "f" else 0, kind)
        return Storage(name, data, len(self.contexts), mins, extents)

    @contextmanager
    def where(self, condition: Array) -> Iterator[None]:
        """Only the lanes in which `condition` holds are active inside."""
        if condition is None:
            yield
            return
        before = self.mask
        condition = np.asarray(condition)
        if before is not None:
            if np.ndim(before) and condition.ndim and np.ndim(before) != condition.ndim:
                wide, thin = (before, condition) if np.ndim(before) > condition.ndim else (condition, before)
                condition = wide & thin[..., None]
            else:
                condition = condition & before
        self.mask = condition
        try:
            yield
        finally:
            self.mask = before

    # ------------------------------------------------------------------------ statements

    @handles(SeqStmt)
    def _seq(self, node: SeqStmt) -> None:
        for part in node.seq:
            self.visit(part)

    @handles(Evaluate)
    def _evaluate(self, node: Evaluate) -> None:
        if isinstance(node.value, Call):
            self.visit(node.value)

    @handles(Prefetch)
    def _prefetch(self, node: Prefetch) -> None:
        return None

    @handles(LetStmt)
    def _let_stmt(self, node: LetStmt) -> None:
        self.values[node.var] = self.visit(node.value)
        self.visit(node.body)

    @handles(AttrStmt)
    def _attr(self, node: AttrStmt) -> None:
        if node.attr_key in ("thread_extent", "virtual_thread") and isinstance(node.node, IterVar):
            if node.node.var not in self.values:
                self._iterations(node.node.var, 0, self._uniform(node.value), node.body)
                return
        self.visit(node.body)

    @handles(AssertStmt)
    def _assert(self, node: AssertStmt) -> None:
        if not np.all(self.visit(node.condition)):
            raise TVMagicError(f"an assertion of the program does not hold: {node.message}")
        self.visit(node.body)

    @handles(IfThenElse)
    def _if(self, node: IfThenElse) -> None:
        taken = self.visit(node.condition)
        if np.ndim(taken) == 0:
            branch = node.then_case if taken else node.else_case
            if branch is not None:
                self.visit(branch)
            return
        with self.where(taken):
            self.visit(node.then_case)
        if node.else_case is not None:
            with self.where(~taken):
                self.visit(node.else_case)

    @handles(While)
    def _while(self, node: While) -> None:
        while True:
            going = self.visit(node.condition)
            if np.ndim(going):
                raise Conflict
            if not going:
                return
            self.visit(node.body)
            self._watch_clock()

    @handles(BufferStore)
    def _store(self, node: BufferStore) -> None:
        value = self.visit(node.value)
        storage, indices = self._address(node.buffer, node.indices)
        with self.where(self.visit(node.predicate) if node.predicate is not None else None):
            self._write(storage, indices, value, node.value.dtype.lanes)

    @handles(ProducerStore)
    def _producer_store(self, node: ProducerStore) -> None:
        value = self.visit(node.value)
        indices = [self.visit(i) for i in node.indices]
        self._write(self._tensor(node.producer), indices, value, node.value.dtype.lanes)

    @handles(ProducerRealize)
    def _producer_realize(self, node: ProducerRealize) -> None:
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

    @handles(BufferRealize)
    def _buffer_realize(self, node: BufferRealize) -> None:
        if node.buffer.data not in self.memory:
            mins, extents = self._region(node.bounds)
            self.memory[node.buffer.data] = self._new_storage(node.buffer.name, node.buffer.dtype, mins, extents)
            self.visit(node.body)
            del self.memory[node.buffer.data]
            return
        self.visit(node.body)

    def _region(self, bounds: Any) -> tuple[list[Array], list[int]]:
        return [self.visit(r.min) for r in bounds], [self._uniform(r.extent) for r in bounds]

    def _uniform(self, node: PrimExpr) -> int:
        """A size that all lanes agree on; the largest where they do not."""
        value = np.asarray(self.visit(node))
        return int(value.max()) if value.ndim else int(value)

    @handles(Allocate)
    def _allocate(self, node: Allocate) -> None:
        size = int(np.prod([self._uniform(e) for e in node.extents], dtype=np.int64)) * node.dtype.lanes
        self._with_memory(node.buffer_var, node.buffer_var.name, node.dtype.element_of, size, node.body)

    def _with_memory(self, var: Var, name: str, dtype: Any, size: int, body: Stmt) -> None:
        outer = self.memory.get(var)
        self.memory[var] = self._new_storage(name, dtype, [0], [size])
        self.visit(body)
        if outer is not None:
            self.memory[var] = outer
        else:
            del self.memory[var]

    @handles(AllocateConst)
    def _allocate_const(self, node: AllocateConst) -> None:
        data = np.ascontiguousarray(node.data).reshape(1, -1)
        self.memory[node.buffer_var] = Storage(node.buffer_var.name, data, 0, [0], [data.size])
        self.visit(node.body)

    @handles(DeclBuffer)
    def _decl_buffer(self, node: DeclBuffer) -> None:
        self.visit(node.body)

    @handles(BlockRealize)
    def _block_realize(self, node: BlockRealize) -> None:
        for iv, value in zip(node.block.iter_vars, node.iter_values):
            self.values[iv.var] = self.visit(value)
        holds = self.visit(node.predicate)
        if np.ndim(holds) == 0 and not holds:
            return
        with self.where(holds if np.ndim(holds) else None):
            self._block(node.block)

    def _block(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            extents = [self._uniform(s) for s in buffer.shape]
            size = int(np.prod(extents, dtype=np.int64))
            self.memory[buffer.data] = self._new_storage(buffer.name, buffer.dtype, [0], [size])
        for match in block.match_buffers:
            mins = [self.visit(r.min) for r in match.source.region]
            extra = len(mins) - len(match.buffer.shape)
            if extra:
                raise Unsupported(f"the buffer `{match.buffer.name}` matches a region of another rank")
            self.views[match.buffer] = (match.source.buffer, mins)
        if block.init is not None:
            first: Array = np.asarray(True)
            for iv in block.iter_vars:
                if iv.iter_type == IterVar.CommReduce:
                    assert iv.dom is not None
                    first = first & (self.values[iv.var] == self.visit(iv.dom.min))
            if np.ndim(first) or first:
                with self.where(first if np.ndim(first) else None):
                    self.visit(block.init)
        self.visit(block.body)

    # ------------------------------------------------------------------------ loops

    @handles(For)
    def _for(self, node: For) -> None:
        if id(node) not in self.serial and self._as_lanes(node):
            return
        begin = self.visit(node.min)
        extent = self.visit(node.extent)
        self._iterations(node.loop_var, begin, extent, node.body)

    def _iterations(self, var: Var, begin: Array, extent: Array, body: Stmt) -> None:
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
            raise TooLong("the program takes too long to be interpreted")

    def _as_lanes(self, node: For) -> bool:
        """Run a nest of loops as lanes; False where it has to run one iteration after the other."""
        nest, chosen, body = lane_loops(node, self.serial)
        ranges = [(loop, self.visit(loop.min), self.visit(loop.extent)) for loop in nest if loop in chosen]
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
            for table in (self.memory, self.tensors):
                for key, s in table.items():
                    mins = [widen(m) if np.ndim(m) else m for m in s.mins]
                    table[key] = s if all(m is w for m, w in zip(s.mins, mins)) else _same_memory(s, mins)
            self.views = {b: (o, [widen(m) if np.ndim(m) else m for m in mins]) for b, (o, mins) in self.views.items()}
        context = Context(total, [*owners, np.arange(total)])
        self.contexts.append(context)
        return context

    @staticmethod
    def _has_lanes(var: Var, value: Array, outer: int) -> bool:
        return np.ndim(value) >= 1 and (var.dtype.lanes == 1 or np.ndim(value) == 2) and np.shape(value)[0] == outer

    def _run_rest(self, loops: list[For], body: Stmt) -> None:
        """Run the loops of a nest that are not lanes, then its body."""
        if not loops:
            self.visit(body)
            return
        loop = loops[0]
        inner = _Rest(loops[1:], body)
        begin, extent = self.visit(loop.min), self.visit(loop.extent)
        self._iterations(loop.loop_var, begin, extent, inner)

    def visit(self, node: Any) -> Any:
        if type(node) is _Rest:
            return self._run_rest(node.loops, node.stmt)
        return super().visit(node)


class _Rest(Stmt):
    """What is left of a nest whose outer loops run already."""

    __slots__ = ("loops", "stmt")

    def __init__(self, loops: list[For], stmt: Stmt) -> None:
        self.loops, self.stmt, self.span = loops, stmt, None


def _same_memory(storage: Storage, mins: list[Array]) -> Storage:
    """The same elements seen from more lanes."""
    return Storage(storage.name, storage.data, storage.level, mins, storage.extents)
