"""Whether every access of an operator is proved to stay inside its tensor, whatever the arrays hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic import ir, te
from tvmagic.arith import ProofStrength
from tvmagic.ir.query import contains, is_call
from tvmagic.operators.analysis import without_views
from tvmagic.operators.arrays import evaluate_size
from tvmagic.tir.analysis.analyzer_visitor import AnalyzerVisitor


class Accesses(AnalyzerVisitor):
    """What is known of the accesses of an operator.

    Attributes
    ----------
    open: the accesses that are not proved to be inside; they depend on data or on sizes that nothing relates.
    limits: for a tensor whose elements themselves are indices, the sizes of what they index, by identity
        of its operation or buffer.
    copied: the tensors that take over elements of a tensor as they are, both by the same.
    """

    def __init__(self, outputs: Sequence[Any], func: ir.PrimFunc | None = None) -> None:
        super().__init__()
        self.open: list[Any] = []
        self.limits: dict[int, list[ir.PrimExpr]] = {}
        self.copied: dict[int, set[int]] = {}
        self.memory: dict[ir.Var, _Memory] = {}  # by its pointer
        self.fitting: dict[ir.Buffer, bool] = {}
        if func is not None:
            func = without_views(func)
            for buffer in func.buffer_map.values():
                self._own(buffer)
            self.visit(func.body)
            return
        operations = _operations(outputs)
        times = {id(t.op): o.scan_axis.dom for o in operations if isinstance(o, te.ScanOp) for t in o.update}
        for operation in operations:
            self._operation(operation, times.get(id(operation)))

    def limit(self, tensor: Any, sizes: Mapping[Any, int]) -> int | None:
        """One more than the largest index that the elements of `tensor` may be; None if they are not indices.

        `sizes`: the values of symbolic sizes.
        """
        keys, pending = set(), [id(_key(tensor))]
        while pending:
            key = pending.pop()
            if key not in keys:
                keys.add(key)
                pending += self.copied.get(key, ())
        return min([evaluate_size(size, sizes) for key in keys for size in self.limits.get(key, [])], default=None)

    @property
    def depend_on_data(self) -> bool:
        """Whether some index is computed from elements, so that these decide whether it is inside."""
        return any(
            contains(index, ir.ProducerLoad, ir.BufferLoad)
            for node in self.open
            for index in getattr(node, "indices", ())
        )

    def _operation(self, operation: Any, time: ir.Range | None) -> None:
        """`time`: when the operation is computed, if it is a step of a recurrence."""
        if isinstance(operation, te.ComputeOp):
            for number, iv in enumerate((*operation.axis, *operation.reduce_axis)):
                dom = iv.dom if time is None or number else time
                if dom is not None:
                    self.analyzer.bind(iv.var, dom)
            for expr in operation.body:
                self.visit(expr)
                self._copy(expr, operation)
        elif isinstance(operation, te.ScanOp):
            for first, step, state in zip(operation.init, operation.update, operation.state_placeholder):
                for source, target in ((first.op, state.op), (step.op, state.op), (state.op, operation)):
                    self.copied.setdefault(id(source), set()).add(id(target))
        elif isinstance(operation, te.ExternOp):
            for buffer in (*operation.input_placeholders, *operation.output_placeholders):
                self._own(buffer)
            self.visit(operation.body)

    # ------------------------------------------------------------------------ what bounds a variable

    @ir.handles(ir.BlockRealize)
    def block(self, node: ir.BlockRealize) -> None:
        """What the variables are bound to counts, not the domains that the block claims."""
        for value in node.iter_values:
            self.visit(value)
        for iv, value in zip(node.block.iter_vars, node.iter_values):
            self.analyzer.bind(iv.var, value, True)
        for buffer in node.block.alloc_buffers:
            self._own(buffer)
        with self.holds(node.predicate):
            for part in (node.block.init, node.block.body):
                if part is not None:
                    self.visit(part)

    # ------------------------------------------------------------------------ memory

    @ir.handles(ir.Allocate, ir.AllocateConst)
    def allocate(self, node: Any) -> None:
        self.memory[node.buffer_var] = _Memory(_elements(node.extents, ()), node.dtype)
        self.visit_children(node)

    def _own(self, buffer: ir.Buffer) -> None:
        """Note that a buffer is the whole of its memory."""
        self.memory[buffer.data] = _Memory(_elements(buffer.shape, buffer.strides), buffer.dtype)
        self.fitting[buffer] = True

    def _fits(self, buffer: ir.Buffer) -> bool:
        """Whether a buffer ends where the memory that it is on ends, or before."""
        if buffer not in self.fitting:
            memory = self.memory.get(buffer.data)
            end = buffer.elem_offset + _elements(buffer.shape, buffer.strides)
            self.fitting[buffer] = memory is None or self._proved(
                ir.ops.less_equal(end * _bits(buffer.dtype), memory.elements * _bits(memory.dtype))
            )
        return self.fitting[buffer]

    # ------------------------------------------------------------------------ accesses

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> None:
        self.visit_children(node)
        self._check(node, node.indices, node.buffer.shape)
        if isinstance(node, ir.BufferStore):
            self._copy(node.value, node.buffer.data)
        if not self._fits(node.buffer) and node not in self.open:
            self.open.append(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        super().call(node)
        if is_call(node, "tir.tvm_access_ptr") and (memory := self.memory.get(node.args[1])) is not None:
            kind, _, first, count, _ = node.args
            end = (first + count) * _bits(kind.dtype)
            inside = ir.ops.less_equal(end, memory.elements * _bits(memory.dtype))
            if not all(map(self._proved, (ir.ops.greater_equal(first, 0), ir.ops.greater_equal(count, 0), inside))):
                self.open.append(node)

    @ir.handles(ir.ProducerLoad)
    def read(self, node: ir.ProducerLoad) -> None:
        self.visit_children(node)
        self._check(node, node.indices, node.producer.shape)

    def _check(self, node: Any, indices: Iterable[ir.PrimExpr], shape: Iterable[Any]) -> None:
        pairs = list(zip(indices, shape))
        for index, size in pairs:
            self._note_limit(index, size)
        if not all(self._is_inside(index, size) for index, size in pairs):
            self.open.append(node)

    def _is_inside(self, index: ir.PrimExpr, size: ir.PrimExpr) -> bool:
        """Whether `index` is at least 0 and less than `size`."""
        if index.dtype.lanes != 1:
            return False
        if isinstance(size, ir.IntImm):
            bound = self.analyzer.const_int_bound(index)
            if bound.min_value >= 0 and bound.max_value < size.value:
                return True
        return self._proved(ir.ops.greater_equal(index, 0)) and self._proved(ir.ops.less(index, size))

    def _proved(self, claim: ir.PrimExpr) -> bool:
        return self.analyzer.can_prove(claim, ProofStrength.SYMBOLIC_BOUND)

    def _note_limit(self, index: ir.PrimExpr, size: Any) -> None:
        while isinstance(index, ir.Cast):
            index = index.value
        if isinstance(index, (ir.ProducerLoad, ir.BufferLoad)):
            self.limits.setdefault(id(_source(index)), []).append(size)

    def _copy(self, value: ir.PrimExpr, target: Any) -> None:
        """Note whose elements the `value` that is stored in a target may be, as they are."""
        pending = [value]
        while pending:
            value = pending.pop()
            if isinstance(value, (ir.ProducerLoad, ir.BufferLoad)):
                self.copied.setdefault(id(_source(value)), set()).add(id(target))
            elif isinstance(value, ir.Cast):
                pending.append(value.value)
            elif isinstance(value, ir.Select):
                pending += [value.true_value, value.false_value]
            elif is_call(value, "tir.if_then_else"):
                pending += value.args[1:]


@dataclass(frozen=True)
class _Memory:
    """How many elements there are behind a pointer, and of which type."""

    elements: ir.PrimExpr
    dtype: ir.DataType


def _elements(shape: Iterable[ir.PrimExpr], strides: Iterable[ir.PrimExpr]) -> ir.PrimExpr:
    """How many elements of memory a buffer spans."""
    total: ir.PrimExpr = ir.IntImm("int64", 1)
    strides = list(strides)
    if not strides:
        for size in shape:
            total = total * size
        return total
    for size, stride in zip(shape, strides):
        total = total + (size - 1) * stride
    return total


def _bits(dtype: ir.DataType) -> int:
    return dtype.bits * dtype.lanes


def _source(load: Any) -> Any:
    """What stands for the tensor or the buffer that is read."""
    return _key(load.producer if isinstance(load, ir.ProducerLoad) else load.buffer)


def _key(tensor: Any) -> Any:
    """What stands for a tensor or a buffer: its operation, or its memory."""
    return tensor.op if isinstance(tensor, te.Tensor) else tensor.data


def _operations(outputs: Sequence[Any]) -> list[Any]:
    """The operations of `outputs` and of all that they read."""
    found: dict[int, Any] = {}
    pending = [t.op for t in outputs]
    while pending:
        operation = pending.pop()
        if id(operation) not in found:
            found[id(operation)] = operation
            pending += [t.op for t in operation.input_tensors]
    return list(found.values())
