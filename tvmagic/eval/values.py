"""Values and memory of the interpreter: what expressions compute, for one iteration or many lanes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.algebra import PLAIN, Plain, Unsupported
from tvmagic.eval.lanes import Context, OutOfRange, Storage
from tvmagic.eval.size_equations import Dimension, solve_sizes
from tvmagic.ir.memory_scope import MemoryScope
from tvmagic.ir.numpy_types import numpy_dtype

Array = Any


class TooLong(TVMagicError):
    """The program did not end in the time that the interpreter was given."""


@contextmanager
def _placed_at(node: ir.Node) -> Iterator[None]:
    """Give an access outside memory its place."""
    try:
        yield
    except OutOfRange as error:
        error.node, error.span = error.node or node, error.span or node.span or None
        raise


def tensor_key(tensor: Any) -> tuple[int, int]:
    """What tells tensors apart: the operation and which of its outputs."""
    return id(tensor.op), tensor.value_index


def whole_storage(name: str, array: np.ndarray) -> Storage:
    if not array.flags.c_contiguous:
        raise TVMagicError(f"the array of `{name}` is not contiguous", code="interpreter.array_not_contiguous")
    return Storage(name, array.reshape(1, -1), 0, [0] * array.ndim, list(array.shape))


@dataclass
class Journaled:
    """Elements that a store overwrote: their positions in the flat memory, the lanes that stored, what was there before."""

    storage: Storage
    position: Array
    lane: Array
    before: Array


class Values(ir.Visitor):
    """The state of a run: values of variables, memory, and the lanes that are active.

    A value has the shape (), (lanes,), (vector,) or (lanes, vector); which follows from its dtype.
    """

    def __init__(self, seconds: float | None, algebra: Plain = PLAIN) -> None:
        self.algebra = algebra
        self.values: dict[ir.Var, Array] = {}
        self.memory: dict[ir.Var, Storage] = {}
        self.tensors: dict[tuple[int, int], Storage] = {}
        self.views: dict[ir.Buffer, tuple[ir.Buffer, list[Array]]] = {}
        # arguments with strides: indices of their flattened groups of axes are multiplied by them already
        self.strided: set[ir.Var] = set()
        self.dimensions: list[Dimension] = []  # of arguments, whose sizes are expressions of symbols
        self.contexts: list[Context] = []
        self.mask: Array = None
        self.serial: set[int] = set()
        self.journal: list[Journaled] | None = None  # what stores of a branch overwrote
        self.end = None if seconds is None else time.monotonic() + seconds

    def bind_buffer(self, buffer: ir.Buffer, array: np.ndarray) -> None:
        """Let an argument's array be the memory of its buffer, and its shape the values of its sizes."""
        strides = [step // array.itemsize for step in array.strides]
        if array.flags.c_contiguous:  # what NumPy says of an axis of one element says nothing
            strides = list(np.cumprod([1, *array.shape[:0:-1]])[::-1]) if array.ndim else []
        pairs = [*zip(buffer.shape, array.shape), *zip(buffer.strides, strides), (buffer.elem_offset, 0)]
        for size, extent in pairs:
            if isinstance(size, ir.Var):
                self.values.setdefault(size, np.asarray(extent, numpy_dtype(size.dtype)))
        self.bind_sizes([Dimension(*pair) for pair in zip(buffer.shape, array.shape)])
        if buffer.strides and not array.flags.c_contiguous and min(strides) >= 0:
            span = 1 + sum((size - 1) * step for size, step in zip(array.shape, strides))
            array = np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
        flat = whole_storage(buffer.name, array)
        self.memory[buffer.data] = Storage(buffer.name, flat.data, 0, [0], [array.size])
        if buffer.strides:
            self.strided.add(buffer.data)

    def bind_sizes(self, dimensions: list[Dimension]) -> None:
        """Give values to the symbols of sizes such as `m + 1`, as soon as dimensions determine them."""
        self.dimensions += [d for d in dimensions if not isinstance(d.size, (ir.Var, ir.IntImm))]
        if self.dimensions:
            known = {
                var: int(value) for var, value in self.values.items() if value.ndim == 0 and value.dtype.kind in "iu"
            }
            before = set(known)
            solve_sizes(self.dimensions, known)
            self.values |= {v: np.asarray(n, numpy_dtype(v.dtype)) for v, n in known.items() if v not in before}

    # ------------------------------------------------------------------------ expressions

    def value(self, node: ir.PrimExpr) -> Array:
        """The value of an expression."""
        return self.visit(node)

    @ir.handles(ir.Node)
    def _unknown(self, node: ir.Node) -> Array:
        raise Unsupported(
            f"the interpreter does not know nodes of the kind `{type(node).__name__}`",
            code="interpreter.unsupported_node",
        )

    @ir.handles(ir.ConstExpr)
    def _constant(self, node: Any) -> Array:
        return self.algebra.constant(node)

    @ir.handles(ir.Var)
    def _var(self, node: ir.Var) -> Array:
        if node not in self.values:
            raise Unsupported(f"the variable `{node.name}` has no value", code="interpreter.variable_without_value")
        return self.values[node]

    @ir.handles(ir.IterVar)
    def _iter_var(self, node: ir.IterVar) -> Array:
        return self._var(node.var)

    @ir.handles(ir.BinaryOp)
    def _binary(self, node: Any) -> Array:
        a = self.visit(node.a)
        if isinstance(node, ir.LogicalOp):
            may, may_not, is_open = self.algebra.branches(a)
            with self.where(may if isinstance(node, ir.And) else may_not), self._speculating(is_open):
                b = self.visit(node.b)
        else:
            b = self.visit(node.b)
        return self.algebra.binary(node, a, b)

    @ir.handles(ir.Not)
    def _not(self, node: ir.Not) -> Array:
        return self.algebra.invert(self.visit(node.a))

    @ir.handles(ir.Cast)
    def _cast(self, node: ir.Cast) -> Array:
        return self.algebra.cast(self.visit(node.value), node.value.dtype, node.dtype)

    @ir.handles(ir.Select)
    def _select(self, node: ir.Select) -> Array:
        return self._choose(node.condition, node.true_value, node.false_value)

    def _choose(self, condition: Any, yes: Any, no: Any) -> Array:
        taken = self.visit(condition)
        may, may_not, is_open = self.algebra.branches(taken)
        if np.ndim(taken) == 0 and not is_open:
            return self.visit(yes if may else no)
        per_lane = condition.dtype.lanes == 1
        with self._speculating(is_open):
            with self.where(may if per_lane else None):
                first = self.visit(yes)
            with self.where(may_not if per_lane else None):
                second = self.visit(no)
        if per_lane and yes.dtype.lanes > 1:
            taken = taken[..., None]
        return self.algebra.select(taken, first, second, yes.dtype)

    @contextmanager
    def _speculating(self, is_open: bool) -> Iterator[None]:
        """Run what only some inputs reach: an access outside memory is then no certain error."""
        try:
            yield
        except OutOfRange as error:
            if not is_open:
                raise
            raise Unsupported(
                f"cannot decide whether an access is executed, because a condition on data guards it: {error.message}",
                code="interpreter.guarded_by_data",
            ) from error

    @ir.handles(ir.Ramp)
    def _ramp(self, node: ir.Ramp) -> Array:
        base, stride = (np.asarray(self.deciding(part)) for part in (node.base, node.stride))
        return base[..., None] + stride[..., None] * np.arange(node.dtype.lanes, dtype=base.dtype)

    @ir.handles(ir.Broadcast)
    def _broadcast(self, node: ir.Broadcast) -> Array:
        value = np.asarray(self.visit(node.value))
        return np.repeat(value[..., None], node.dtype.lanes, axis=-1)

    @ir.handles(ir.Shuffle)
    def _shuffle(self, node: ir.Shuffle) -> Array:
        parts = [np.asarray(self.visit(v)) for v in node.vectors]
        parts = [p if v.dtype.lanes > 1 else p[..., None] for p, v in zip(parts, node.vectors)]
        wide = max(p.ndim for p in parts)
        parts = [np.broadcast_to(p, (self.count, *p.shape)) if p.ndim < wide else p for p in parts]
        picked = np.concatenate(parts, axis=-1)[..., [int(i.value) for i in node.indices]]  # type: ignore[attr-defined]
        return picked if len(node.indices) > 1 else picked[..., 0]

    @ir.handles(ir.Let)
    def _let(self, node: ir.Let) -> Array:
        self.values[node.var] = self.kept(node.var, self.visit(node.value))
        return self.visit(node.body)

    def deciding(self, node: ir.PrimExpr) -> Array:
        """A value that decides which statements run, or how often."""
        return self.algebra.decide(self.visit(node), node)

    def indexing(self, node: ir.PrimExpr) -> Array:
        """An index, as plain numbers if it is exact."""
        return self.algebra.decide(self.visit(node), node)

    def kept(self, var: ir.Var, value: Array) -> Array:
        """What is kept as the value of a variable."""
        return value

    @ir.handles(ir.Call)
    def _call(self, node: ir.Call) -> Array:
        name = getattr(node.op, "name", str(node.op)).removeprefix("tir.")
        if name == "if_then_else":
            return self._choose(*node.args)
        if name == "likely":
            return self.visit(node.args[0])
        if name in ("assume", "undef", "prefetch", "type_annotation"):
            return np.asarray(0)
        if name in ("call_extern", "call_pure_extern"):
            function = getattr(node.args[0], "value", node.args[0])
            raise Unsupported(
                f"cannot interpret a call of `{function}`: the function is not here",
                code="interpreter.unsupported_call",
            )
        return self.called(name, node, [self.visit(a) for a in node.args])

    def called(self, name: str, node: ir.Call, args: list[Array]) -> Array:
        """The value of a call that computes all its arguments."""
        return self.algebra.call(name, node, args)

    @ir.handles(ir.BufferLoad)
    def _load(self, node: ir.BufferLoad) -> Array:
        storage, indices = self._address(node.buffer, node.indices)
        if node.predicate is None:
            with _placed_at(node):
                return self._read(storage, indices, node.dtype)
        holds, lanes = np.asarray(self.deciding(node.predicate)), node.dtype.lanes
        with self.where(holds), _placed_at(node):
            value = self._read(storage, indices, node.dtype)
        if self.contexts and lanes > 1 and holds.ndim == 1 and holds.shape != (lanes,):
            holds = holds[:, None]
        # lanes that are off load 0
        return self.algebra.select(holds, value, self.algebra.zero(node.dtype), node.dtype)

    @ir.handles(ir.ProducerLoad)
    def _producer_load(self, node: ir.ProducerLoad) -> Array:
        return self._read(self._tensor(node.producer), [self.indexing(i) for i in node.indices], node.dtype)

    # ------------------------------------------------------------------------ memory

    @property
    def count(self) -> int:
        return self.contexts[-1].count if self.contexts else 1

    def _tensor(self, tensor: Any) -> Storage:
        found = self.tensors.get(tensor_key(tensor))
        if found is None:
            raise Unsupported(
                f"the tensor `{tensor.name}` is used where it has no memory", code="interpreter.tensor_without_memory"
            )
        return found

    def _address(self, buffer: ir.Buffer, indices: Sequence[ir.PrimExpr]) -> tuple[Storage, list[Array]]:
        """The memory of a buffer, and the indices into it."""
        places = [self.indexing(i) for i in indices]
        if self.contexts and any(i.dtype.lanes > 1 for i in indices):  # the lanes of loops before those of a vector
            places = [
                p if np.ndim(p) != 1 else p[None] if i.dtype.lanes > 1 else p[:, None] for p, i in zip(places, indices)
            ]
        while buffer in self.views:
            buffer, mins = self.views[buffer]
            places = [p + (m[..., None] if np.ndim(p) > np.ndim(m) > 0 else m) for p, m in zip(places, mins)]
        storage = self.memory.get(buffer.data)
        if storage is None:
            raise Unsupported(
                f"the buffer `{buffer.name}` is used where it has no memory", code="interpreter.buffer_without_memory"
            )
        size = self.algebra.element_size(storage.data)
        if (
            size not in (None, numpy_dtype(buffer.dtype.element_of).itemsize)
            and MemoryScope.of(buffer.scope()).is_special
        ):
            raise Unsupported(
                f"`{storage.name}` holds elements of several sizes in the special memory `{buffer.scope()}`",
                code="interpreter.element_sizes_differ",
            )
        if len(storage.extents) == len(buffer.shape) > 1 and not buffer.strides:
            return storage, places
        place = self._flat(buffer, places)
        lanes = buffer.dtype.lanes
        if lanes > 1:  # memory holds elements, not vectors
            vectors = np.asarray(place if indices[-1].dtype.lanes > 1 else np.expand_dims(place, -1))
            elements = np.expand_dims(vectors, -1) * lanes + np.arange(lanes)
            place = elements.reshape((*vectors.shape[:-1], -1))
        return storage, [place]

    def _flat(self, buffer: ir.Buffer, places: list[Array]) -> Array:
        total: Array = np.asarray(self.visit(buffer.elem_offset))
        if buffer.strides:
            sizes = [self.visit(s) for s in buffer.strides]
            terms = [self._times(p, s) for p, s in zip(places, sizes)]
        elif buffer.data in self.strided and buffer.axis_separators:
            terms = places
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
            at = ", ".join(str(int(self._shaped(index, shape, lanes)[wrong].flat[0])) for index in indices)
            raise OutOfRange(
                f"an access outside `{storage.name}`, at index [{at}]", code="interpreter.index_out_of_range"
            )
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

    def _listeners(self, storage: Storage, shape: tuple[int, ...]) -> Iterator[tuple[Context, Array]]:
        """The loops run as lanes that share a memory, each with its lane of every element of an access."""
        for number, context in enumerate(self.contexts):
            if storage.level <= number:
                yield context, self._shaped(self.contexts[-1].owner[number], shape, 1)

    def _elements(self, storage: Storage, indices: list[Array], lanes: int) -> Array:
        """The elements at `indices`, as they are in memory."""
        row, column, active = self._place(storage, indices, lanes)
        for context, lane in self._listeners(storage, np.shape(row)):
            context.read(storage, (row[active], column[active]), lane[active])
        return storage.data[row, column]

    def _read(self, storage: Storage, indices: list[Array], dtype: Any) -> Array:
        return self.algebra.loaded(self._elements(storage, indices, dtype.lanes), dtype)

    def _write(self, storage: Storage, indices: list[Array], value: Array, dtype: ir.DataType) -> None:
        lanes = dtype.lanes
        row, column, active = self._place(storage, indices, lanes)
        value = self.algebra.stored(np.asarray(value), dtype, storage.data)
        if self.contexts and lanes > 1 and value.ndim == 1 and value.shape != (lanes,):
            value = value[:, None]
        value = np.broadcast_to(value, np.shape(row))
        for context, lane in self._listeners(storage, np.shape(row)):
            context.save(storage)
            context.write(storage, (row[active], column[active]), lane[active])
        row, column = row[active], column[active]
        if self.journal is not None:
            lane = np.nonzero(active)[0] if self.contexts else np.zeros(row.size, np.int64)
            position = np.asarray(row * storage.data.shape[1] + column).reshape(-1)
            self.journal.append(Journaled(storage, position, lane, storage.data.flat[position]))
        storage.data[row, column] = value[active]

    def _new_storage(self, name: str, dtype: Any, mins: list[Array], extents: list[int]) -> Storage:
        """Fresh memory, for each lane its own."""
        size = int(np.prod(extents, dtype=np.int64)) * dtype.lanes
        if size * self.count > 1 << 28:
            raise TooLong(f"`{name}` needs too much memory to be interpreted", code="interpreter.too_much_memory")
        return Storage(name, self.algebra.fresh(dtype, (self.count, size)), len(self.contexts), mins, extents)

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
