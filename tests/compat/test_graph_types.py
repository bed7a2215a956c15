"""Types of graphs of operators."""

import pytest
from refusals import refuses

from tvmagic import ir
from tvmagic.errors import TVMError

A, B = ir.TypeVar("a", ir.TypeKind.Type), ir.TypeVar("b", ir.TypeKind.ShapeVar)
TENSOR = ir.TensorType((1, 2, 3), "float16")
TYPES = [
    A,
    TENSOR,
    ir.GlobalTypeVar("List"),
    ir.IncompleteType(),
    ir.TypeCall(A, [TENSOR]),
    ir.RelayRefType(TENSOR),
    ir.FuncType([], None),
    ir.FuncType([A, B], TENSOR, [A, B], [ir.TypeRelation(None, [A, TENSOR], 1)]),
    ir.TupleType([A, TENSOR]),
]


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: type(kind).__name__)
def test_types_become_json_and_text(kind: ir.Type) -> None:
    back = ir.load_json(ir.save_json(kind))
    assert ir.structural_equal(back, kind, map_free_vars=True) and str(kind)
    assert ir.structural_hash(back, map_free_vars=True) == ir.structural_hash(kind, map_free_vars=True)


def test_variables_of_types_are_what_they_are_by_identity() -> None:
    other = ir.TypeVar("a", ir.TypeKind.Type)
    assert A != other and ir.structural_equal(A, other, map_free_vars=True)
    assert not ir.structural_equal(A, B, map_free_vars=True)
    assert ir.TupleType([A, A]) != ir.TupleType([A, other]) and len({A, other, A}) == 2
    pair, same = ir.TupleType([A, B]), ir.TupleType([other, other])
    assert not ir.structural_equal(pair, same, map_free_vars=True)


def test_types_as_text() -> None:
    assert str(TENSOR) == "TensorType([1, 2, 3], float16)"
    assert str(ir.FuncType([A], ir.TupleType([TENSOR]), [A])).startswith(
        "FuncType([TypeVar(a)], [TypeVar(a)], T.Tuple("
    )


def test_types_of_tensors() -> None:
    assert TENSOR.concrete_shape == (1, 2, 3) and TENSOR.dtype == "float16"
    assert ir.TensorType([ir.Var("n")], "int8") != ir.TensorType([ir.Var("n")], "int8")
    with refuses("tensor_type.shape_is_text", error=TVMError):
        ir.TensorType("xx", "xx")
    with pytest.raises(TVMError, match="`n`"):
        ir.TensorType([ir.Var("n")], "int8").concrete_shape
