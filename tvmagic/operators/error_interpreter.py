"""TensorIR functions run on values with errors: what a correct schedule of one may compute.

The interpreter's machine (`interpreter.py`) with memory whose elements hold a value and its error
(`te/error_memory.py`); loops run as lanes in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic import ir
from tvmagic.eval.lanes import Storage
from tvmagic.eval.machine import Machine, Unsupported
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.operators.arrays import evaluate_size, laid_out, size_values
from tvmagic.te.error_bound import Approximate, Value, binary, cast, choose, parts
from tvmagic.te.error_evaluator import constant, reinterpreted, widened
from tvmagic.te.error_functions import call
from tvmagic.te.error_memory import added_term, cells, cells_dtype, extended, loaded
from tvmagic.te.error_reference import Evaluation, with_ties
from tvmagic.te.error_ties import ties

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator

Array = Any

MOST_CELLS = 1 << 24  # of the memory of one name in all lanes, 16 bytes each


def run_with_errors(op: Operator, inputs: Sequence[np.ndarray], seconds: float | None = None) -> Evaluation:
    """The values that an operator written as a function gives for `inputs`, with the bounds of their rounding errors.

    Raises `Unsupported` if the function has something for which no bound is known, `TooLong` if it does not end
    within `seconds`.
    """
    func = op.prim_func
    assert func is not None
    sizes = size_values(op.inputs, inputs)
    fresh = [np.zeros([evaluate_size(s, sizes) for s in b.shape]) for b in op.args[len(inputs) :]]

    def evaluate() -> Evaluation:
        memory: dict[Any, np.ndarray] = {}
        machine = _ErrorMachine(seconds)
        for n, (buffer, array) in enumerate(zip(op.args, [*inputs, *fresh], strict=True)):
            memory[buffer] = laid_out(buffer, array.shape, sizes, cells_dtype(buffer.dtype))
            memory[buffer][...] = cells(widened(array, buffer.dtype), buffer.dtype)
            if n >= len(inputs):
                memory[buffer]["number"] = 0
            machine.bind_buffer(buffer, memory[buffer])
        with np.errstate(all="ignore"):
            machine.visit(func.body)
            values = [loaded(memory[b], b.dtype) for b in op.outputs]
        unwritten = [memory[b]["number"] == 0 for b in op.outputs]
        return Evaluation(values, unwritten=[mask if mask.any() else None for mask in unwritten])

    return with_ties(evaluate)


class _ErrorMachine(Machine):
    """Integers are plain arrays as long as they are exact, so that indices and loops are those of the machine."""

    @ir.handles(ir.ConstExpr)
    def _constant(self, node: Any) -> Array:
        return node.value if node.dtype.is_handle else constant(node)

    @ir.handles(ir.Var, ir.IterVar)
    def _var(self, node: Any) -> Array:
        var = node.var if isinstance(node, ir.IterVar) else node
        value = super()._var(var)
        return loaded(value, var.dtype) if getattr(value, "dtype", np.dtype(bool)).names else value

    @ir.handles(ir.BinaryOp)
    def _binary(self, node: Any) -> Array:
        a = self.visit(node.a)
        holds, open_ = parts(a)
        may, name = holds, type(node).__name__
        if name in ("And", "Or"):
            may = holds if name == "And" else np.logical_not(holds)
            may = may if open_ is None else may | (open_ > 0)
        with self.where(may if name in ("And", "Or") else None):
            b = self.visit(node.b)
        result = self._typed(binary(type(node), a, b, node.a.dtype), node.dtype)
        if isinstance(node, ir.CmpOp):
            ties().observe(node, parts(result)[0], self.mask)
        return result

    @staticmethod
    def _typed(value: Value, dtype: Any) -> Value:
        """Integers in their own dtype, which scalars of NumPy may have left."""
        if dtype.is_float or dtype.is_handle:
            return value
        kind = numpy_dtype(dtype.element_of)
        plain, error = parts(value)
        plain = np.asarray(plain).astype(kind, copy=False)
        return value._replace(value=plain) if isinstance(value, Approximate) else plain

    @ir.handles(ir.Not)
    def _not(self, node: ir.Not) -> Array:
        value, error = parts(self.visit(node.a))
        return np.logical_not(value) if error is None else Approximate(np.logical_not(value), error)

    @ir.handles(ir.Cast)
    def _cast(self, node: ir.Cast) -> Array:
        return cast(self.visit(node.value), node.value.dtype, node.dtype)

    def _choose(self, condition: Any, yes: Any, no: Any) -> Array:
        chosen = self.visit(condition)
        taken, open_ = parts(chosen)
        if np.ndim(taken) == 0 and (open_ is None or not np.any(open_)):
            return self.visit(yes if taken else no)
        may = taken if open_ is None else taken | (open_ > 0)
        may_not = np.logical_not(taken) if open_ is None else np.logical_not(taken) | (open_ > 0)
        with self.where(may):
            first = self.visit(yes)
        with self.where(may_not):
            second = self.visit(no)
        return choose(chosen, first, second)

    def called(self, name: str, node: ir.Call, args: list[Array]) -> Array:
        if name == "reinterpret":
            return reinterpreted(args[0], node.args[0].dtype, node.dtype)
        return self._typed(call(node, args), node.dtype)

    @ir.handles(ir.Broadcast, ir.Ramp, ir.Shuffle)
    def _vector(self, node: Any) -> Array:
        raise Unsupported(
            "the function computes on vectors, whose rounding errors are not followed", code="error_bound.vectors"
        )

    def kept(self, var: ir.Var, value: Array) -> Array:
        """The value of a variable as an array that the machine can repeat for lanes."""
        return cells(value, var.dtype) if isinstance(value, Approximate) else value

    # ------------------------------------------------------------------------ memory

    def _address(self, buffer: Any, indices: Any) -> tuple[Storage, list[Array]]:
        storage, places = super()._address(buffer, indices)
        if any(isinstance(p, Approximate) for p in places):
            raise Unsupported(
                f"an index into `{buffer.name}` depends on rounding", code="error_bound.index_depends_on_rounding"
            )
        return storage, places

    def _flat(self, buffer: Any, places: list[Array]) -> Array:
        if any(isinstance(p, Approximate) for p in places):
            raise Unsupported(
                f"an index into `{buffer.name}` depends on rounding", code="error_bound.index_depends_on_rounding"
            )
        return super()._flat(buffer, places)

    def _read(self, storage: Storage, indices: list[Array], dtype: Any) -> Array:
        found = np.asarray(self._elements(storage, indices, dtype.lanes).copy())  # one record alone is a view of memory
        return loaded(found, dtype)

    @ir.handles(ir.BufferStore)
    def _store(self, node: ir.BufferStore) -> None:
        term = added_term(node)
        if term is None:
            found = cells(self.visit(node.value), node.value.dtype)
        else:
            value = self.visit(term[0])
            storage, indices = self._address(node.buffer, node.indices)
            found = extended(np.asarray(self._elements(storage, indices, 1)), value, term[1])
        self.store_value(node, found)

    def _new_storage(self, name: str, dtype: Any, mins: list[Array], extents: list[int]) -> Storage:
        size = int(np.prod(extents, dtype=np.int64)) * dtype.lanes
        if size * self.count > MOST_CELLS:
            raise Unsupported(
                f"`{name}` needs too much memory to be interpreted with errors", code="error_bound.too_much_memory"
            )
        data = cells(np.zeros((self.count, size)), dtype)
        if dtype.is_float:
            data["value"] = np.nan  # reading it early shows
        return Storage(name, data, len(self.contexts), mins, extents)

    def constant_memory(self, node: ir.AllocateConst) -> Array:
        return cells(widened(super().constant_memory(node), node.dtype.element_of), node.dtype)

    def deciding(self, node: ir.PrimExpr) -> Array:
        """Such a value has to be the same however the program rounds."""
        value, error = parts(self.visit(node))
        if error is not None and np.any(error):
            raise Unsupported(
                "which statements run depends on rounding", code="error_bound.control_depends_on_rounding"
            )
        return value

    @ir.handles(ir.IfThenElse)
    def _if(self, node: ir.IfThenElse) -> None:
        value = self.deciding(node.condition)
        for branch, holds in ((node.then_case, value), (node.else_case, np.logical_not(value))):
            if branch is None or (np.ndim(holds) == 0 and not holds):
                continue
            with self.where(holds if np.ndim(holds) else None):
                self.visit(branch)
