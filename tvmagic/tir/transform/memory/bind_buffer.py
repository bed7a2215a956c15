"""Binding a buffer with symbolic fields to a part of another: its variables get their values."""

from __future__ import annotations

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import Buffer, IntImm, PrimExpr, Var
from tvmagic.ir.ops import equal, floormod

Check = tuple[PrimExpr, str]


def _bind(field: PrimExpr, value: PrimExpr, what: str, values: dict[Var, PrimExpr], analyzer: Analyzer) -> list[Check]:
    """Let `field` be `value`: a new variable gets it, else both are checked to be equal."""
    if isinstance(field, Var) and field not in values:
        values[field] = value
        return []
    known = values.get(field, field) if isinstance(field, Var) else field
    condition = analyzer.simplify(equal(known, value))
    if isinstance(condition, IntImm):
        if condition.value:
            return []
        raise TVMagicError(
            f"{what} is `{value}`, not `{known}` as declared", code="tir.bind_buffer.declaration_differs"
        )
    return [(condition, f"{what} does not fit what the intrinsic declares")]


def dense_strides(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """The strides of `buffer` in elements, those of a dense row-major array where it has none."""
    if buffer.strides:
        return buffer.strides
    strides: list[PrimExpr] = []
    stride: PrimExpr = IntImm(buffer.shape[0].dtype if buffer.shape else "int32", 1)
    for size in reversed(buffer.shape):
        strides.append(stride)
        stride = stride * size
    return tuple(reversed(strides))


def bind_view(
    view: Buffer,
    target: Buffer,
    begins: tuple[PrimExpr, ...],
    extents: tuple[PrimExpr, ...],
    values: dict[Var, PrimExpr],
    analyzer: Analyzer,
    dense: bool = True,
) -> list[Check]:
    """Give the variables that describe `view` their values as the part of `target` from `begins` on.

    The values go into `values`; what cannot be proved now comes back as checks. Leading dimensions
    of extent 1 may be missing in `view`. A view without strides must be dense, unless `dense` is False: when it is
    accessed by indices alone.
    """
    name = view.name
    missing = len(extents) - len(view.shape)
    if missing < 0:
        raise TVMagicError(
            f"buffer `{name}` has more dimensions than the region it is bound to",
            code="tir.bind_buffer.too_many_dimensions",
        )
    checks = _bind(view.data, target.data, f"the pointer of `{name}`", values, analyzer)
    for extent in extents[:missing]:
        if not analyzer.can_prove_equal(extent, 1):
            raise TVMagicError(
                f"buffer `{name}` has fewer dimensions than the region it is bound to",
                code="tir.bind_buffer.too_few_dimensions",
            )
    for axis, size in enumerate(view.shape):
        checks += _bind(size, extents[missing + axis], f"dimension {axis} of `{name}`", values, analyzer)
    strides = dense_strides(target)
    offset = target.elem_offset
    for begin, stride in zip(begins, strides):
        offset = offset + begin * stride
    offset = analyzer.simplify(offset)
    if view.strides:
        for axis, stride in enumerate(view.strides):
            checks += _bind(stride, strides[missing + axis], f"stride {axis} of `{name}`", values, analyzer)
    elif dense:
        checks += _dense_checks(view, strides[missing:], extents[missing:], analyzer)
    checks += _bind(view.elem_offset, offset, f"the offset of `{name}`", values, analyzer)
    if view.offset_factor > 1:
        checks += _bind(
            IntImm(offset.dtype, 0),
            floormod(offset, view.offset_factor),
            f"the alignment of `{name}`",
            values,
            analyzer,
        )
    return checks


def _dense_checks(
    view: Buffer, strides: tuple[PrimExpr, ...], extents: tuple[PrimExpr, ...], analyzer: Analyzer
) -> list[Check]:
    """A view without strides is dense: so must be the part it shows."""
    checks: list[Check] = []
    expected: PrimExpr = IntImm(strides[0].dtype if strides else "int32", 1)
    for axis in reversed(range(len(strides))):
        if not analyzer.can_prove_equal(extents[axis], 1):
            what = f"the part of memory bound to the compact buffer `{view.name}`"
            checks += _bind(expected, strides[axis], what, {}, analyzer)
        expected = expected * extents[axis]
    return checks
