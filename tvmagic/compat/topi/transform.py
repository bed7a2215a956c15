"""Operators that move elements, and products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import te
from tvmagic.arith import Analyzer
from tvmagic.compat.topi import tag
from tvmagic.compat.topi.utils import axes_of, axis_of, names, prod, size_list, unravelled
from tvmagic.errors import WrongValueError
from tvmagic.ir import PrimExpr, ops
from tvmagic.ir.query import is_zero
from tvmagic.te.tensor import Tensor


def _moved(shape: Sequence[Any], value: Any, name: str, kind: str = tag.INJECTIVE) -> Any:
    return te.compute(shape, value, name=name, tag=kind, varargs_names=names(len(shape)))


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Any:
    """`a` with `num_newaxis` axes of size 1 at `axis`."""
    place = int(axis) + len(a.shape) + 1 if axis < 0 else int(axis)
    shape = [*a.shape[:place], *[1] * num_newaxis, *a.shape[place:]]
    return _moved(shape, lambda *i: a(*i[:place], *i[place + num_newaxis :]), "T_expand_dims", tag.BROADCAST)


def squeeze(a: Tensor, axis: Any = None) -> Any:
    """`a` without the axes given, or without all axes of size 1."""
    ones = [i for i, size in enumerate(a.shape) if Analyzer().can_prove_equal(size, 1)]
    gone = ones if axis is None else axes_of(axis, len(a.shape))
    for i in gone:
        if i not in ones:
            raise WrongValueError(
                f"axis {i} has size {a.shape[i]}, not 1, and cannot be left out", code="topi.axis_not_one"
            )
    kept = [i for i in range(len(a.shape)) if i not in gone]

    def value(*indices: PrimExpr) -> Any:
        given = dict(zip(kept, indices))
        return a(*[given.get(i, 0) for i in range(len(a.shape))])

    return _moved([a.shape[i] for i in kept], value, "T_squeeze")


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Any:
    """`a` with its axes in the order `axes`; reversed by default."""
    rank = len(a.shape)
    order = [axis_of(i, rank) for i in axes] if axes is not None else list(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise WrongValueError(f"{order} is not an order of {rank} axes", code="topi.not_a_permutation")

    def value(*indices: PrimExpr) -> Any:
        return a(*[indices[order.index(i)] for i in range(rank)])

    return _moved([a.shape[i] for i in order], value, "T_transpose")


def reshape(a: Tensor, newshape: Sequence[Any]) -> Any:
    """The elements of `a`, the last axis the fastest, in another shape of as many elements."""
    shape = size_list(newshape)
    if not Analyzer().can_prove_equal(prod(list(a.shape)), prod(shape)):
        raise WrongValueError(
            f"a tensor of shape {list(a.shape)} cannot be reshaped to {shape}: it has other elements",
            code="topi.element_count_differs",
        )

    def value(*indices: PrimExpr) -> Any:
        place: Any = 0
        for number, (index, size) in enumerate(zip(indices, shape)):
            place = place * size + index if number else index
        return a(*unravelled(place, a.shape))

    return _moved(shape, value, "T_reshape")


def flatten(a: Tensor) -> Any:
    """All axes but the first as one."""
    width = prod(list(a.shape[1:]))
    return _moved([a.shape[0], width], lambda i, j: a(i, *unravelled(j, a.shape[1:])), "T_flatten")


def broadcast_to(a: Tensor, shape: Sequence[Any]) -> Any:
    """`a` with axes of size 1, and axes in front, repeated to `shape`."""
    sizes, analyzer = size_list(shape), Analyzer()
    ones = [analyzer.can_prove_equal(size, 1) for size in a.shape]
    for size, wanted, one in zip(reversed(a.shape), reversed(sizes), reversed(ones)):
        if len(a.shape) > len(sizes) or not (one or analyzer.can_prove_equal(size, wanted)):
            raise WrongValueError(
                f"a tensor of shape {list(a.shape)} does not broadcast to {sizes}", code="topi.shapes_do_not_broadcast"
            )

    def value(*indices: PrimExpr) -> Any:
        own = indices[len(indices) - len(a.shape) :]
        return a(*[0 if one else i for one, i in zip(ones, own)])

    return _moved(sizes, value, "T_broadcast_to", tag.BROADCAST)


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Any:
    """Tensors one behind the other along `axis`."""
    first, place = a_tuple[0], axis_of(axis, len(a_tuple[0].shape))
    ends: list[Any] = []
    for part in a_tuple:
        ends.append(part.shape[place] + ends[-1] if ends else part.shape[place])

    def value(*indices: PrimExpr) -> Any:
        index, found = indices[place], first(*indices)
        for part, begin in zip(a_tuple[1:], ends):
            moved = [*indices[:place], index - begin, *indices[place + 1 :]]
            found = ops.if_then_else(ops.greater_equal(index, begin), part(*moved), found)
        return found

    return _moved([*first.shape[:place], ends[-1], *first.shape[place + 1 :]], value, "T_concat")


def stack(a: Sequence[Tensor], axis: int = 0) -> Any:
    """Tensors of one shape along a new axis."""
    place = axis_of(axis, len(a[0].shape) + 1)
    shape = [*a[0].shape[:place], len(a), *a[0].shape[place:]]

    def value(*indices: PrimExpr) -> Any:
        inner = [*indices[:place], *indices[place + 1 :]]
        found = a[0](*inner)
        for number, part in enumerate(a[1:], 1):
            found = ops.if_then_else(ops.greater_equal(indices[place], number), part(*inner), found)
        return found

    return _moved(shape, value, "T_stack")


def take(a: Tensor, indices: Tensor, axis: int | None = None, mode: str = "clip") -> Any:
    """The elements at `indices`, along `axis` or of all elements in a row.

    mode: what an index outside does: `clip` takes the nearest element, `wrap` counts from the other end.
    """
    if mode not in ("clip", "wrap"):
        raise WrongValueError(
            f"`{mode}` is not a mode of take", hint="write `clip` or `wrap`", code="topi.unknown_mode"
        )
    sizes = prod(list(a.shape)) if axis is None else a.shape[axis_of(axis, len(a.shape))]

    if is_zero(sizes):
        raise WrongValueError(
            f"cannot take elements of `{a.name}`: it has none along that axis", code="topi.empty_axis"
        )

    def inside(index: PrimExpr) -> PrimExpr:
        if mode == "wrap":
            return ops.floormod(index, sizes)
        return ops.minimum(ops.maximum(0, index), sizes - 1)

    if axis is None:
        return _moved(indices.shape, lambda *i: a(*unravelled(inside(indices(*i)), a.shape)), "T_take")
    place, count = axis_of(axis, len(a.shape)), len(indices.shape)
    shape = [*a.shape[:place], *indices.shape, *a.shape[place + 1 :]]

    def value(*i: PrimExpr) -> Any:
        return a(*i[:place], inside(indices(*i[place : place + count])), *i[place + count :])

    return _moved(shape, value, "T_take")


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Any:
    """The product of two matrices, each of which may be transposed."""
    rows, depth = (a.shape[1], a.shape[0]) if transp_a else (a.shape[0], a.shape[1])
    inner, columns = (b.shape[1], b.shape[0]) if transp_b else (b.shape[0], b.shape[1])
    if not Analyzer().can_prove_equal(depth, inner):
        raise WrongValueError(
            f"matrices of {depth} columns and {inner} rows cannot be multiplied", code="topi.matrix_sizes_differ"
        )
    k = te.reduce_axis((0, depth), name="k")

    def value(*at: PrimExpr) -> Any:
        left = a(k, at[0]) if transp_a else a(at[0], k)
        return te.sum(left * (b(at[1], k) if transp_b else b(k, at[1])), axis=k)

    return te.compute((rows, columns), value, name="T_matmul", tag="matmul", varargs_names=["ax0", "ax1"])
