"""Whether every access of an operator is proved to stay inside its tensor, whatever the arrays hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvmagic import te
from tvmagic.arith import ProofStrength
from tvmagic.ir import (
    BlockRealize,
    BufferLoad,
    BufferStore,
    Cast,
    IntImm,
    PrimExpr,
    PrimFunc,
    ProducerLoad,
    Range,
    handles,
    ops,
)
from tvmagic.operators.arrays import evaluate_size
from tvmagic.tir.analysis.analyzer_visitor import AnalyzerVisitor

__all__ = ["Accesses"]


class Accesses(AnalyzerVisitor):
    """What is known of the accesses of an operator.

    Attributes
    ----------
    open: the accesses that are not proved to be inside; they depend on data or on sizes that nothing relates.
    limits: for a tensor whose elements themselves are indices, the sizes of what they index, by identity
        of its operation or buffer.
    """

    def __init__(self, outputs: Sequence[Any], func: PrimFunc | None = None) -> None:
        super().__init__()
        self.open: list[Any] = []
        self.limits: dict[int, list[PrimExpr]] = {}
        if func is not None:
            self.visit(func.body)
            return
        operations = _operations(outputs)
        times = {id(t.op): o.scan_axis.dom for o in operations if isinstance(o, te.ScanOp) for t in o.update}
        for operation in operations:
            self._operation(operation, times.get(id(operation)))

    def limit(self, tensor: Any, sizes: Mapping[Any, int]) -> int | None:
        """One more than the largest index that the elements of `tensor` may be; None if they are no indices.

        `sizes`: the values of symbolic sizes.
        """
        found = self.limits.get(id(_key(tensor)), [])
        return min([evaluate_size(size, sizes) for size in found], default=None)

    def _operation(self, operation: Any, time: Range | None) -> None:
        """`time`: when the operation is computed, if it is a step of a recurrence."""
        if isinstance(operation, te.ComputeOp):
            for number, iv in enumerate((*operation.axis, *operation.reduce_axis)):
                dom = iv.dom if time is None or number else time
                if dom is not None:
                    self.analyzer.bind(iv.var, dom, True)
            for expr in operation.body:
                self.visit(expr)
        elif isinstance(operation, te.ExternOp):
            self.visit(operation.body)

    # ------------------------------------------------------------------------ what bounds a variable

    @handles(BlockRealize)
    def block(self, node: BlockRealize) -> None:
        """What the variables are bound to counts, not the domains that the block claims."""
        for value in node.iter_values:
            self.visit(value)
        for iv, value in zip(node.block.iter_vars, node.iter_values):
            self.analyzer.bind(iv.var, value, True)
        with self.holds(node.predicate):
            for part in (node.block.init, node.block.body):
                if part is not None:
                    self.visit(part)

    # ------------------------------------------------------------------------ accesses

    @handles(BufferLoad, BufferStore)
    def access(self, node: Any) -> None:
        self.visit_children(node)
        self._check(node, node.indices, node.buffer.shape)

    @handles(ProducerLoad)
    def read(self, node: ProducerLoad) -> None:
        self.visit_children(node)
        self._check(node, node.indices, node.producer.shape)

    def _check(self, node: Any, indices: Iterable[PrimExpr], shape: Iterable[Any]) -> None:
        pairs = list(zip(indices, shape))
        for index, size in pairs:
            self._note_limit(index, size)
        if not all(self._inside(index, size) for index, size in pairs):
            self.open.append(node)

    def _inside(self, index: PrimExpr, size: PrimExpr) -> bool:
        """Whether `index` is at least 0 and less than `size`."""
        if index.dtype.lanes != 1:
            return False
        if isinstance(size, IntImm):
            bound = self.analyzer.const_int_bound(index)
            if bound.min_value >= 0 and bound.max_value < size.value:
                return True
        prove = lambda claim: self.analyzer.can_prove(claim, ProofStrength.SYMBOLIC_BOUND)  # noqa: E731
        return prove(ops.greater_equal(index, 0)) and prove(ops.less(index, size))

    def _note_limit(self, index: PrimExpr, size: Any) -> None:
        while isinstance(index, Cast):
            index = index.value
        if isinstance(index, (ProducerLoad, BufferLoad)):
            key = id(_key(index.producer if isinstance(index, ProducerLoad) else index.buffer))
            self.limits.setdefault(key, []).append(size)


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
