"""Statements run with NumPy, one iteration after the other: what an extern operation computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.query import callee
from tvmagic.te.numpy_eval import ArrayEvaluator


def run_statement(stmt: ir.Stmt, arrays: Mapping[ir.Buffer, np.ndarray], env: Mapping[ir.Var, np.ndarray]) -> None:
    """Run `stmt`, which reads and writes `arrays`; `env` are the values of variables."""
    StatementRunner(arrays, env).visit(stmt)


class StatementRunner(ArrayEvaluator):
    """`memory`: for each pointer the array behind it."""

    def __init__(self, arrays: Mapping[ir.Buffer, np.ndarray], env: Mapping[ir.Var, np.ndarray]) -> None:
        super().__init__(env)
        self.memory: dict[ir.Var, np.ndarray] = {b.data: a for b, a in arrays.items()}

    def _number(self, value: Any) -> int:
        return int(self.visit(value))

    def _place(self, node: ir.BufferLoad | ir.BufferStore) -> tuple[np.ndarray, tuple[Any, ...]]:
        """The array of an access in the shape of its buffer, and the indices."""
        array = self.memory.get(node.buffer.data)
        if array is None:
            raise TVMagicError(
                f"buffer `{node.buffer.name}` has no array", node=node, code="te.reference.missing_array"
            )
        shape = tuple([self._number(s) for s in node.buffer.shape])
        if array.shape != shape:
            array = array.reshape(shape)
        indices = tuple([self._lanes(i) for i in node.indices])
        for axis, (index, size) in enumerate(zip(indices, shape)):
            if np.any(index < 0) or np.any(index >= size):
                raise BoundsError(
                    f"index {index} is outside dimension {axis} of `{node.buffer.name}`, which has {size} elements",
                    node=node,
                    code="te.reference.index_out_of_range",
                )
        return array, indices

    def _lanes(self, index: Any) -> Any:
        if isinstance(index, ir.Ramp):
            return self._number(index.base) + self._number(index.stride) * np.arange(index.dtype.lanes)
        return self._number(index)

    @ir.handles(ir.BufferLoad)
    def buffer_load(self, node: ir.BufferLoad) -> Any:
        array, indices = self._place(node)
        return np.asarray(array[indices])

    @ir.handles(ir.BufferStore)
    def buffer_store(self, node: ir.BufferStore) -> None:
        value = self.visit(node.value)
        array, indices = self._place(node)
        array[indices] = value

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
        for stmt in node.seq:
            self.visit(stmt)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        low, dtype = self._number(node.min), numpy_dtype(node.loop_var.dtype)
        for step in range(self._number(node.extent)):
            self.env[node.loop_var] = np.asarray(low + step, dtype)
            self.visit(node.body)

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> None:
        while bool(self.visit(node.condition)):
            self.visit(node.body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        if bool(self.visit(node.condition)):
            self.visit(node.then_case)
        elif node.else_case is not None:
            self.visit(node.else_case)

    @ir.handles(ir.LetStmt)
    def let_stmt(self, node: ir.LetStmt) -> None:
        self.env[node.var] = self.visit(node.value)
        self.visit(node.body)

    @ir.handles(ir.AttrStmt, ir.DeclBuffer)
    def inner(self, node: Any) -> None:
        self.visit(node.body)

    @ir.handles(ir.AssertStmt)
    def check(self, node: ir.AssertStmt) -> None:
        if not bool(self.visit(node.condition)):
            raise TVMagicError(
                str(getattr(node.message, "value", node.message)), node=node, code="te.reference.assertion_failed"
            )
        self.visit(node.body)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        sizes = [self._number(e) for e in node.extents]
        self.memory[node.buffer_var] = np.zeros(sizes, numpy_dtype(node.dtype.element_of))
        self.visit(node.body)

    @ir.handles(ir.AllocateConst)
    def constant_array(self, node: ir.AllocateConst) -> None:
        self.memory[node.buffer_var] = np.asarray(node.data)
        self.visit(node.body)

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> None:
        if isinstance(node.value, ir.Call):
            name = callee(node.value)
            raise TVMagicError(
                f"the call `{name}` has no value in NumPy", node=node, code="te.reference.no_numpy_value"
            )
