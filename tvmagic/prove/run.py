"""Run programs and definitions on terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmagic import ir, te
from tvmagic.eval.algebra import Unsupported
from tvmagic.eval.lanes import Context, OutOfRange, Storage
from tvmagic.eval.loop_unfusing import unfuse
from tvmagic.eval.machine import Machine
from tvmagic.eval.values import tensor_key
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.prove.algebra import TermAlgebra
from tvmagic.prove.terms import TERM, Terms
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order

Array = Any
_LANES = 1 << 17  # elements of a definition that are computed together


@dataclass
class Sample:
    """The iterations of outermost loops that run: first, last and one between, by their share of the loop."""

    shares: tuple[float, ...]
    text: str = ""

    def iterations(self, loop: ir.For, extent: int) -> list[int]:
        """The iterations of a loop that run."""
        found = sorted({min(int(share * extent), extent - 1) for share in self.shares})
        if not self.text:
            self.text = f"{len(found)} of {extent} iterations of `{loop.loop_var.name}`"
        return found


class ProofMachine(Machine):
    """The interpreter on terms. What is read before anything wrote it is a fresh term."""

    algebra: TermAlgebra

    def __init__(self, terms: Terms, seconds: float | None, roundings: Mapping[Any, Any] | None = None) -> None:
        super().__init__(seconds, TermAlgebra(terms, dict(roundings or {})))
        self.kinds: dict[int, Any] = {}  # dtypes of the elements of memory
        self.sample: Sample | None = None
        self.samples: list[ir.For] = []  # loops over sampled iterations, which `serial` knows by their identity

    @ir.handles(ir.For)
    def _for(self, node: ir.For) -> None:
        sample, extent = self.sample, self.deciding(node.extent)
        if sample is None or np.ndim(extent) or extent < 4:
            return super()._for(node)
        self.sample = None
        chosen = sample.iterations(node, int(extent))
        number, value = ir.Var("number", node.loop_var.dtype), node.min + chosen[0]
        for place, iteration in enumerate(chosen):
            value = ir.Select(number.equal(place), node.min + iteration, value)
        self.samples.append(ir.For(number, 0, len(chosen), node.kind, ir.LetStmt(node.loop_var, value, node.body)))
        try:
            super()._for(self.samples[-1])
        finally:
            self.sample = sample

    def bind(self, tensor: Any, memory: np.ndarray) -> None:
        """Let terms be the memory of an argument, a buffer or a tensor."""
        self.kinds[id(memory)] = tensor.dtype
        if isinstance(tensor, ir.Buffer):
            self.bind_buffer(tensor, memory)
            self.kinds[id(self.memory[tensor.data].data)] = tensor.dtype.element_of
            return
        storage = Storage(tensor.name, memory.reshape(1, -1), 0, [0] * memory.ndim, list(memory.shape))
        self.tensors[tensor_key(tensor)] = storage
        self.kinds[id(storage.data)] = tensor.dtype.element_of

    def _new_storage(self, name: str, dtype: Any, mins: list[Array], extents: list[int]) -> Storage:
        storage = super()._new_storage(name, dtype, mins, extents)
        self.kinds[id(storage.data)] = dtype.element_of
        return storage

    def _elements(self, storage: Storage, indices: list[Array], lanes: int) -> Array:
        found = super()._elements(storage, indices, lanes)
        if np.any(found["term"] == 0):
            row, column, active = self._place(storage, indices, lanes)
            missing = (found["term"] == 0) & active
            if np.any(missing):
                self._invent(storage, row[missing], column[missing])
            found = storage.data[row, column]
            if np.any(found["term"] == 0):  # of lanes that are off
                found = found.copy()
                found["term"][found["term"] == 0] = self._nothing(storage)
        return found

    def _invent(self, storage: Storage, row: Array, column: Array) -> None:
        terms = self.algebra.terms
        position = np.unique(row * storage.data.shape[1] + column)
        terms.names.append((storage.name, tuple(storage.extents)))
        made = terms.leaves(position % storage.data.shape[1], len(terms.names) - 1, self._kind(storage), "unwritten")
        storage.data.flat[position] = made.view(TERM)

    def _nothing(self, storage: Storage) -> int:
        kind = self._kind(storage)
        return int(self.algebra.lifted(np.zeros((), numpy_dtype(kind)), kind)["term"])

    def _kind(self, storage: Storage) -> Any:
        return self.kinds.get(id(storage.data), ir.DataType("float32"))


def run_program(
    program: ir.PrimFunc | ir.Stmt,
    tensors: Sequence[Any],
    memories: Sequence[np.ndarray],
    sizes: Mapping[ir.Var, int],
    terms: Terms,
    seconds: float | None,
    roundings: Mapping[Any, Any] | None = None,
    sample: Sample | None = None,
) -> None:
    """Run a function or a statement on the memory of an operator's arguments, which it changes in place.

    Errors as of `eval.machine.run_function`; besides, `NeedsNumbers` and `Redraw`.
    """
    machine = ProofMachine(terms, seconds, roundings)
    machine.sample = sample
    for var, size in sizes.items():
        machine.values[var] = np.asarray(size, numpy_dtype(var.dtype))
    if isinstance(program, ir.PrimFunc):
        for param, memory in zip(program.params, memories, strict=True):
            buffer = program.buffer_map.get(param)
            if buffer is None:
                raise Unsupported("cannot prove the function: it has scalar parameters", code="prove.unsupported")
            machine.bind(buffer, memory)
        body = unfuse(program.body)
    else:
        for tensor, memory in zip(tensors, memories, strict=True):
            machine.bind(tensor, memory)
        body = program
    with np.errstate(all="ignore"):
        machine.visit(body)


# ---------------------------------------------------------------------------- definitions


class Definition(ProofMachine):
    """The elements of tensor expressions as terms, each computed when it is asked for."""

    def __init__(self, sizes: Mapping[ir.Var, int], terms: Terms, seconds: float | None) -> None:
        super().__init__(terms, seconds)
        self.sizes = {var: np.asarray(n, numpy_dtype(var.dtype)) for var, n in sizes.items()}
        self.values = dict(self.sizes)

    @staticmethod
    def covers(outputs: Sequence[Any]) -> bool:
        """Whether all operations of a definition are of the kinds that are known here."""
        roots = [t.op for t in outputs]
        graph = post_dfs_order(roots, create_read_graph(roots))
        return all(isinstance(op, (te.ComputeOp, te.PlaceholderOp)) for op in graph)

    def elements(self, tensor: Any, positions: Array) -> Array:
        """The terms of elements of a tensor, by their flat positions."""
        storage = self._storage(tensor)
        data = storage.data[0]
        missing = np.unique(positions[data["term"][positions] == 0])
        for begin in range(0, missing.size, _LANES):
            self._compute(tensor.op, missing[begin : begin + _LANES])
        return data[positions]

    def _storage(self, tensor: Any) -> Storage:
        key = tensor_key(tensor)
        if key not in self.tensors:
            shape = [int(self.visit(size)) for size in tensor.shape]
            self.bind(tensor, np.zeros(shape, TERM))
        return self.tensors[key]

    def _compute(self, op: Any, positions: Array) -> None:
        saved = self.values, self.contexts, self.mask
        self.values, self.mask = dict(self.sizes), None
        try:
            shape = [int(self.visit(iv.dom.extent)) for iv in op.axis]
            self.contexts = [Context(positions.size, [np.arange(positions.size)])]
            for iv, index in zip(op.axis, np.unravel_index(positions, shape) if shape else []):
                low = self.visit(iv.dom.min)
                self.values[iv.var] = (index + low).astype(numpy_dtype(iv.var.dtype))
            first = op.body[0]
            values = self._reduced(first) if isinstance(first, ir.Reduce) else [self.visit(v) for v in op.body]
            for number, value in enumerate(values):
                tensor = op.output(number)
                lifted = self.algebra.lifted(np.broadcast_to(value, positions.shape), tensor.dtype)
                self._storage(tensor).data[0][positions] = lifted
        finally:
            self.values, self.contexts, self.mask = saved

    def _reduced(self, node: ir.Reduce) -> list[Array]:
        """The results of a reduction, its terms combined in the order of its axes."""
        combiner = node.combiner
        values = [self.visit(v) for v in (node.init or combiner.identity_element)]
        ranges = [(int(self.visit(iv.dom.min)), int(self.visit(iv.dom.extent))) for iv in node.axis if iv.dom]
        for index in np.ndindex(*(extent for _, extent in ranges)):
            for iv, place, (low, _) in zip(node.axis, index, ranges):
                self.values[iv.var] = np.asarray(place + low, numpy_dtype(iv.var.dtype))
            holds = self.visit(node.condition)
            may, _, is_open = self.algebra.branches(holds)
            if np.ndim(holds) == 0 and not is_open and not may:
                continue
            with self.where(may if np.ndim(may) else None), self._speculating(is_open):
                sources = [self.visit(v) for v in node.source]
            self.values.update(zip(combiner.lhs, values))
            self.values.update(zip(combiner.rhs, sources))
            made = [self.visit(v) for v in combiner.result]
            kinds = [v.dtype for v in combiner.lhs]
            plain = np.ndim(holds) == 0 and not is_open
            values = made if plain else [self.algebra.select(holds, *v) for v in zip(made, values, kinds)]
            self._watch_clock()
        return values

    @ir.handles(ir.ProducerLoad)
    def _producer_load(self, node: ir.ProducerLoad) -> Array:
        indices = [self.indexing(i) for i in node.indices]
        storage = self._storage(node.producer)
        with _Located(node):
            _, column, active = self._place(storage, indices, 1)
        if np.ndim(column) == 0:
            column, active = column[None], active[None]
        if isinstance(node.producer.op, te.ComputeOp) and np.any(active):
            self.elements(node.producer, column[active])
        found = storage.data[0][column].copy()
        missing = found["term"] == 0
        if np.any(missing):
            if np.any(missing & active):
                raise Unsupported(
                    f"cannot read `{storage.name}`: no operation computes it and no input is bound to it",
                    code="prove.unsupported",
                )
            found["term"][missing] = self._nothing(storage)
        return self.algebra.loaded(found, node.dtype)


class _Located:
    """Adds the node to an error about an access outside a tensor."""

    def __init__(self, node: ir.Node) -> None:
        self.node = node

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, OutOfRange):
            error.node = error.node or self.node
