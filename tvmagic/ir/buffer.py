"""Buffers: arrays in memory, and the regions of them that a program touches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tvmagic.errors import TVMagicError, WrongValueError
from tvmagic.ir.derive import node
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.expr import (
    BufferLoad,
    Call,
    IntImm,
    IterVar,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Range,
    Var,
    expr,
    exprs,
)
from tvmagic.ir.hooks import provided
from tvmagic.ir.node import Name, Node, Span
from tvmagic.ir.operators import lanes_of, vscale_factor
from tvmagic.ir.prim_expr import SEQUENCES, SLICES, scope_of


def _simplified(value: PrimExpr) -> PrimExpr:
    return value if isinstance(value, IntImm) else provided("analyzer")().simplify(value)


@node(walk="dtype data shape strides axis_separators elem_offset name data_alignment offset_factor buffer_type")
class Buffer(Node):
    """An array: `data` points to it, `shape` are its sizes in elements of `dtype`.

    `strides` (in elements) are empty if the array is dense and row-major; `elem_offset` is the
    place of element 0 behind `data`. `data_alignment` is in bytes; `elem_offset` is a multiple of
    `offset_factor`. `axis_separators` are the places that divide the axes into groups, each
    flattened to one dimension. A buffer is what it is by identity.
    """

    READ = 1
    WRITE = 2

    data: Var
    dtype: DataType
    shape: tuple[PrimExpr, ...]
    strides: tuple[PrimExpr, ...]
    elem_offset: PrimExpr
    name: Name
    data_alignment: int
    offset_factor: int
    buffer_type: str
    axis_separators: tuple[IntImm, ...]

    def __init__(
        self,
        data: Var,
        dtype: Any,
        shape: Any,
        strides: Any,
        elem_offset: Any,
        name: str,
        data_alignment: int = 64,
        offset_factor: int = 1,
        buffer_type: str = "",
        axis_separators: Any = (),
        span: Span | None = None,
    ) -> None:
        self.data = data
        self.dtype = dtype_of(dtype)
        self.shape = exprs(shape)
        self.strides = exprs(strides) if strides else ()
        index_dtype = self.shape[0].dtype if self.shape else DataType("int32")
        self.elem_offset = IntImm(index_dtype, 0) if elem_offset is None else expr(elem_offset)
        self.name = name
        self.data_alignment = int(data_alignment) if int(data_alignment) > 0 else 64
        self.offset_factor = int(offset_factor) or 1
        self.buffer_type = "auto" if buffer_type in ("auto", "auto_broadcast", 2) else ""
        self.axis_separators = exprs(axis_separators) if axis_separators else ()  # type: ignore[assignment]
        self.span = span
        self._check_separators()

    def _check_separators(self) -> None:
        last = 0
        for separator in self.axis_separators:
            if not last <= separator.value <= len(self.shape):
                places = ", ".join(str(s) for s in self.axis_separators)
                raise WrongValueError(
                    f"the axis separators [{places}] of buffer `{self.name}` do not rise from 0 to its "
                    f"{len(self.shape)} dimensions",
                    code="buffer.wrong_axis_separators",
                )
            last = separator.value

    def scope(self) -> str:
        """The memory it lives in: `global`, `local`, `shared`, ..."""
        return scope_of(self.data)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def vload(self, begin: Any, dtype: Any = None, predicate: Any = None) -> BufferLoad:
        """The load at `begin`; of a vector where `dtype` has several lanes."""
        return BufferLoad(self, self.vector_index(begin, dtype), predicate)

    if TYPE_CHECKING:  # `stmt` attaches it

        def vstore(self, begin: Any, value: Any, predicate: Any = None) -> Any: ...

    def vector_index(self, begin: Any, dtype: Any) -> tuple[PrimExpr, ...]:
        """Return the indices of a vector of type `dtype` that begins at `begin`."""
        indices = exprs(begin)
        wanted = dtype_of(dtype) if dtype else self.dtype
        factor = wanted.lane_code // self.dtype.lane_code
        if factor in (0, 1) or indices[-1].dtype.is_vector:
            return indices
        lanes = lanes_of(wanted.with_lane_code(factor))
        return (*indices[:-1], Ramp(indices[-1], IntImm(indices[-1].dtype, 1), lanes))

    __iter__ = None  # by its indices Python would go through it without end, as in `sum(A)` and `x in A`

    def __getitem__(self, indices: Any) -> Any:
        """A load, of vectors where an index is a slice; a `BufferRegion` if there are slices and none has a step."""
        if not isinstance(indices, SEQUENCES):
            indices = (indices,)
        if not any(isinstance(i, SLICES) for i in indices):
            return BufferLoad(self, [i.var if isinstance(i, IterVar) else i for i in indices])
        return self._slice(indices)

    def _slice(self, indices: Sequence[Any]) -> Any:
        region = all(i.step is None for i in indices if isinstance(i, SLICES))
        result: list[Any] = []
        for axis, index in enumerate(indices):
            if not isinstance(index, SLICES):
                result.append(Range.from_min_extent(index, IntImm(expr(index).dtype, 1)) if region else index)
                continue
            start = expr(0 if index.start is None else index.start)
            stop = expr(self.shape[axis] if index.stop is None else index.stop)
            if region:
                result.append(Range.from_min_extent(start, _simplified(stop - start)))
                continue
            step = 1 if index.step is None else int(index.step)
            lanes = _simplified((stop - start + step - 1) // step)
            if not isinstance(lanes, IntImm) and vscale_factor(lanes) is None:
                raise TVMagicError(
                    f"a vector access of buffer `{self.name}` needs a constant number of lanes",
                    code="buffer.lanes_not_constant",
                )
            result.append(start if lanes == 1 else Ramp(start, step, lanes))
        return BufferRegion(self, result) if region else BufferLoad(self, result)

    def offset_of(self, indices: Any) -> list[PrimExpr]:
        """The flat index of the element at `indices`, one for each group of axes, simplified."""
        return list(provided("flat index")()(self, exprs(indices)))

    def unsimplified_offset_of(self, indices: Any) -> list[PrimExpr]:
        """The flat index of the element at `indices`, one for each group of axes, as shape and strides give it."""
        groups: list[PrimExpr] = []
        start, positions = 0, exprs(indices)
        for end in [*(int(s) for s in self.axis_separators), len(self.shape)]:
            groups.append(self._flat_index(positions, start, end))
            start = end
        if len(groups) == 1 and not (isinstance(self.elem_offset, IntImm) and self.elem_offset.value == 0):
            groups[0] = self.elem_offset + groups[0]
        return groups

    def _flat_index(self, positions: tuple[PrimExpr, ...], start: int, end: int) -> PrimExpr:
        if start == end:
            return IntImm("int32", 0)
        offset: PrimExpr | None = None
        for axis in range(start, end):
            term = positions[axis]
            if len(self.strides) == len(self.shape):
                term = term * self.strides[axis]
                offset = term if offset is None else offset + term
            else:
                offset = term if offset is None else offset * self.shape[axis] + term
        assert offset is not None
        return offset

    def get_flattened_buffer(self) -> Buffer:
        """The buffer of the same data with one dimension for each group of axes."""
        sizes: list[PrimExpr] = []
        start = 0
        for end in [*(int(s) for s in self.axis_separators), len(self.shape)]:
            if len(self.strides) == len(self.shape) and end > start:
                size = self.strides[start] * self.shape[start]
            else:
                size = IntImm(self.shape[0].dtype if self.shape else DataType("int32"), 1)
                for axis in range(start, end):
                    size = size * self.shape[axis]
                self._check_reach(size.dtype, self.shape[start:end])
            sizes.append(size)
            start = end
        if len(sizes) == len(self.shape) and not self.strides:
            return self
        separators = tuple([IntImm("int32", i + 1) for i in range(len(sizes) - 1)])
        return self.replace(shape=tuple(sizes), strides=(), axis_separators=separators)

    def _check_reach(self, dtype: DataType, shape: Sequence[PrimExpr]) -> None:
        """An error if the product of constant sizes is more than the type of the indices has.

        A size below 0 is one of nothing: a part of a buffer that nobody reads, as the reader has no elements.
        """
        sizes = [max(size.value, 0) for size in shape if isinstance(size, IntImm)]
        check_reach(self.name, math.prod(sizes) if len(sizes) == len(shape) else 0, dtype, self.span)

    def access_ptr(
        self, access_mask: Any, ptr_type: str = "handle", content_lanes: int = 1, offset: Any = 0, extent: Any = None
    ) -> Call:
        """The call `tvm_access_ptr`: a pointer to an element, with what is read or written there.

        `access_mask`: `Buffer.READ`, `Buffer.WRITE`, their sum, or a text of `r` and `w`.
        """
        if isinstance(access_mask, str):
            if set(access_mask) - {"r", "w"}:
                raise WrongValueError(
                    f"`{access_mask}` is not a kind of access",
                    hint="write `r`, `w` or `rw`",
                    code="buffer.unknown_access_kind",
                )
            access_mask = (Buffer.READ if "r" in access_mask else 0) | (Buffer.WRITE if "w" in access_mask else 0)
        dtype, elem_offset, total = self.dtype, self.elem_offset, self._element_count()
        if content_lanes > 1:
            elem_offset = elem_offset // content_lanes
            total = total // content_lanes
            dtype = dtype.with_lane_code(dtype.lane_code * content_lanes)
        offset = expr(offset)
        size = total - offset if extent is None else expr(extent)
        args = (Call(dtype, "tir.type_annotation", ()), self.data, elem_offset + offset, size, int(access_mask))
        return Call(ptr_type, "tir.tvm_access_ptr", args)

    def _element_count(self) -> PrimExpr:
        if self.strides and len(self.strides) == len(self.shape):
            return self.strides[0] * self.shape[0]
        total: PrimExpr = IntImm(self.shape[0].dtype if self.shape else DataType("int32"), 1)
        for size in self.shape:
            total = total * size
        return total


BufferDef: TypeAlias = Buffer  # a field that holds a buffer which the node defines


def is_reached(count: int, dtype: DataType) -> bool:
    """Whether indices of the integer type `dtype` tell so many elements apart."""
    return not count >> (dtype.bits - dtype.is_int)


def check_reach(name: str, count: int, dtype: DataType, span: Span | None = None) -> None:
    """An error if a buffer has more elements than its indices, of the integer type `dtype`, reach."""
    if not is_reached(count, dtype):
        raise WrongValueError(
            f"buffer `{name}` has {count} elements, more than its indices of type `{dtype}` reach",
            span=span,
            hint="make it smaller, or give its sizes the type `int64`",
            code="buffer.too_many_elements",
        )


def data_pointer(name: str, dtype: Any, scope: str = "global", span: Span | None = None) -> Var:
    """The pointer to the memory of a buffer of `dtype`. Bools are kept as int8."""
    element = dtype_of(dtype)
    return Var(name, PointerType(PrimType(DataType("int8") if element.is_bool else element), scope), span)


def decl_buffer(
    shape: Any,
    dtype: Any = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
    span: Span | None = None,
) -> Buffer:
    """A new buffer of `shape` elements of `dtype` (float32 by default).

    With `offset_factor` other than 0 and no `elem_offset`, the offset is a new variable. With the `buffer_type`
    "auto_broadcast" and no `strides`, each stride is one, which is 0 in a dimension whose size is 1 when it is bound.
    """
    shape = exprs(shape)
    dtype = dtype_of("float32" if dtype is None else dtype)
    index_dtype = shape[0].dtype if shape else DataType("int32")
    if offset_factor and elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset", index_dtype)
    if buffer_type == "auto_broadcast" and not strides:
        strides = [Var("stride", size.dtype) for size in shape]
    if data is None:
        data = data_pointer(name, dtype, scope or "global", span)
    return Buffer(
        data,
        dtype,
        shape,
        strides,
        elem_offset,
        name,
        data_alignment,
        offset_factor,
        buffer_type,
        axis_separators or (),
        span,
    )


@node
class BufferRegion(Node):
    """A box of elements of `buffer`: one range an axis."""

    buffer: Buffer
    region: tuple[Range, ...]


@node(walk="source buffer")
class MatchBufferRegion(Node):
    """`buffer` as another name for the region `source` inside a block."""

    buffer: BufferDef
    source: BufferRegion
