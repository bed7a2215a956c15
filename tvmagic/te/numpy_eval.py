"""Expressions evaluated with NumPy, each variable standing for an array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.eval.ops import BINARY, CALLS, convert
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.query import callee
from tvmagic.ir.semantics import plain
from tvmagic.te.tensor import Tensor


def given(values: Mapping[Tensor, np.ndarray], tensor: Tensor) -> np.ndarray:
    """The array of a tensor; an error if there is none."""
    if tensor not in values:
        raise TVMagicError(f"no array is given for `{tensor.name}`", code="te.reference.missing_array")
    return values[tensor]


class ArrayEvaluator(ir.Visitor):
    """Gives for an expression an array that broadcasts over the axes of the operation.

    `env`: the arrays of variables; `values`: those of tensors.
    `strict`: a read outside a tensor is an error, unless a condition keeps it from being used.
    """

    def __init__(
        self,
        env: Mapping[ir.Var, np.ndarray],
        values: Mapping[Tensor, np.ndarray] | None = None,
        strict: bool = True,
    ) -> None:
        self.values, self.env, self.strict = values or {}, dict(env), strict
        self.mask: np.ndarray | None = None

    @ir.handles(ir.Node)
    def other(self, node: ir.Node) -> Any:
        raise TVMagicError(
            f"`{type(node).__name__}` has no value in NumPy", node=node, code="te.reference.no_numpy_value"
        )

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> Any:
        if var not in self.env:
            raise TVMagicError(
                f"`{var.name}` has no value",
                hint="give it one among the inputs",
                code="te.reference.variable_without_value",
            )
        return self.env[var]

    @ir.handles(ir.IntImm, ir.FloatImm)
    def constant(self, node: Any) -> Any:
        return np.asarray(plain(node.value), numpy_dtype(node.dtype))

    @ir.handles(ir.BinaryOp)
    def binary(self, node: ir.BinaryOp) -> Any:
        a = self.visit(node.a)
        if isinstance(node, (ir.And, ir.Or)):
            needed = a if isinstance(node, ir.And) else np.logical_not(a)
            if np.ndim(a) == 0 and not needed:
                return a
            return BINARY[type(node)](a, self._where(needed, node.b))
        return BINARY[type(node)](a, self.visit(node.b))

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> Any:
        return np.logical_not(self.visit(node.a))

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> Any:
        return convert(self.visit(node.value), node.dtype)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> Any:
        self.env[node.var] = self.visit(node.value)
        return self.visit(node.body)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> Any:
        return self._choose(node.condition, node.true_value, node.false_value)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> Any:
        name = callee(node)
        if name == "tir.if_then_else":
            return self._choose(*node.args)
        if name == "tir.reinterpret":
            return self.visit(node.args[0]).view(numpy_dtype(node.dtype))
        function = CALLS.get(name)
        if function is None:
            raise TVMagicError(
                f"`{name or node.op}` has no value in NumPy", node=node, code="te.reference.no_numpy_value"
            )
        return function(*[self.visit(a) for a in node.args])

    def _choose(self, condition: ir.PrimExpr, then: ir.PrimExpr, otherwise: ir.PrimExpr) -> Any:
        holds = self.visit(condition)
        if np.ndim(holds) == 0:
            return self.visit(then if holds else otherwise)
        first = self._where(holds, then)
        return np.where(holds, first, self._where(np.logical_not(holds), otherwise))

    def _where(self, holds: Any, node: ir.PrimExpr) -> Any:
        """The value of `node`, which is used only if `holds`."""
        outer = self.mask
        self.mask = holds if outer is None else np.logical_and(outer, holds)
        value = self.visit(node)
        self.mask = outer
        return value

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Any:
        array = given(self.values, node.producer)
        places: list[np.ndarray] = []
        for axis, index in enumerate(node.indices):
            place, size = self.visit(index), array.shape[axis]
            outside = (place < 0) | (place >= size)
            if outside.any():
                self._check_outside(node, axis, place, outside, size)
                place = np.clip(place, 0, max(size - 1, 0))
            places.append(place)
        if array.size == 0:  # there is no element, not even one that is read in vain
            return np.zeros(np.broadcast_shapes(*[np.shape(p) for p in places]), array.dtype)
        return array[tuple(places)]

    def _check_outside(self, node: ir.ProducerLoad, axis: int, place: Any, outside: Any, size: int) -> None:
        used = outside if self.mask is None else np.logical_and(outside, self.mask)
        if self.strict and used.any():
            worst = np.broadcast_to(place, used.shape)[used].flat[0]
            raise BoundsError(
                f"index {int(worst)} is outside dimension {axis} of `{node.producer.name}`, which has {size} elements",
                node=node,
                code="te.reference.index_out_of_range",
            )
