"""Python's operators on whole tensors: computations that broadcast as NumPy does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import ExprOp, PrimExpr, ops

__all__ = ["TensorOperators", "elementwise"]

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
    from tvmagic.te.operation import compute

    operation = combine or _COMBINE[name]
    shapes = [operand.shape for operand in operands if _is_tensor(operand)]
    if not any(shapes):
        return operation(*[operand() if _is_tensor(operand) else operand for operand in operands])
    shape = _broadcast_shape(name, shapes)

    def value(*indices: PrimExpr) -> PrimExpr:
        return operation(*[_element(operand, indices) for operand in operands])

    axes = [f"ax{i}" for i in range(len(shape))]
    return compute(shape, value, name=f"T_{name}", tag="broadcast", varargs_names=axes)


class TensorOperators(ExprOp):
    """The operators of tensors.

    Those without dimensions are expressions, as in a computation; `==` and `!=` tell whether two tensors are one.
    """

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return elementwise("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return elementwise("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return elementwise("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return elementwise("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return elementwise("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return elementwise("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return elementwise("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return elementwise("divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return elementwise("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return elementwise("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return elementwise("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return elementwise("mod", other, self)

    def __neg__(self) -> Any:
        return elementwise("negative", self, combine=lambda value: -value)

    def __lt__(self, other: Any) -> Any:
        return elementwise("less", self, other)

    def __le__(self, other: Any) -> Any:
        return elementwise("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return elementwise("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return elementwise("greater_equal", self, other)

    __hash__ = ExprOp.__hash__
