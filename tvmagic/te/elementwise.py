"""Element-wise computations of whole tensors, which broadcast as NumPy does: `A + B` is one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimExpr, ops
from tvmagic.ir.methods import method_of
from tvmagic.te.operation import compute
from tvmagic.te.tensor_operators import TensorOperators

# By the names of the operators `+ - * / // % < <= > >=`, in this order.
_COMBINE: dict[str, Callable[[Any, Any], PrimExpr]] = {
    "add": ops.add,
    "subtract": ops.subtract,
    "multiply": ops.multiply,
    "divide": ops.div,
    "floor_divide": ops.floordiv,
    "mod": ops.floormod,
    "less": ops.less,
    "less_equal": ops.less_equal,
    "greater": ops.greater,
    "greater_equal": ops.greater_equal,
}


def _broadcast_shape(name: str, shapes: Sequence[Sequence[PrimExpr]]) -> list[PrimExpr]:
    """The shape of an element-wise result: dimensions from the last on are equal, or one of them is 1."""
    analyzer, result = Analyzer(), list(max(shapes, key=len))
    for shape in shapes:
        for axis, size in enumerate(shape, len(result) - len(shape)):
            known = result[axis]
            if analyzer.can_prove_equal(size, 1) or analyzer.can_prove_equal(size, known):
                continue
            if not analyzer.can_prove_equal(known, 1):
                texts = " and ".join("[" + ", ".join(map(str, s)) + "]" for s in shapes)
                raise TVMagicError(
                    f"`{name}` of tensors of shapes {texts}, which do not broadcast",
                    hint="dimensions are compared from the last on: they must be equal, or one of them 1",
                    code="te.tensor.shapes_do_not_broadcast",
                )
            result[axis] = size
    return result


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorOperators)


def _element(operand: Any, indices: Sequence[PrimExpr]) -> Any:
    """The element of an operand at the indices of the result; a number is itself."""
    if not _is_tensor(operand):
        return operand
    own = indices[len(indices) - len(operand.shape) :]
    return operand(*[0 if Analyzer().can_prove_equal(size, 1) else i for size, i in zip(operand.shape, own)])


def elementwise(name: str, *operands: Any, combine: Callable[..., PrimExpr] | None = None) -> Any:
    """The tensor of an operation on each element; an expression if no operand has dimensions."""
    operation = combine or _COMBINE[name]
    shapes = [operand.shape for operand in operands if _is_tensor(operand)]
    if not any(shapes):
        return operation(*[operand() if _is_tensor(operand) else operand for operand in operands])
    shape = _broadcast_shape(name, shapes)

    def value(*indices: PrimExpr) -> PrimExpr:
        return operation(*[_element(operand, indices) for operand in operands])

    axes = [f"ax{i}" for i in range(len(shape))]
    return compute(shape, value, name=f"T_{name}", tag="broadcast", varargs_names=axes)


def _attach(method: str, name: str) -> None:
    """Let the operator `method` of tensors, and the reflected one of arithmetic, be `elementwise(name, ...)`."""
    method_of(TensorOperators, name=f"__{method}__")(lambda self, other: elementwise(name, self, other))
    if method not in ("lt", "le", "gt", "ge"):
        method_of(TensorOperators, name=f"__r{method}__")(lambda self, other: elementwise(name, other, self))


for _method, _name in zip("add sub mul truediv floordiv mod lt le gt ge".split(), _COMBINE):
    _attach(_method, _name)


@method_of(TensorOperators, name="__neg__")
def _negative(self: TensorOperators) -> Any:
    return elementwise("negative", self, combine=lambda value: -value)
