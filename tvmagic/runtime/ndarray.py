"""`nd.array`: NumPy arrays under TVM's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError, WrongValueError
from tvmagic.ir.dtype import dtype_of
from tvmagic.ir.node import Identified
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.runtime.device import Device, cpu

__all__ = ["NDArray", "aligned_empty", "array", "empty", "from_dlpack"]

_ALIGNMENT = 64


def aligned_empty(shape: Any, dtype: Any, strides: Sequence[int] = ()) -> np.ndarray:
    """An array whose first element is at a multiple of 64 bytes, with no values set.

    `strides`: elements from each index of an axis to the next, none below 0; by default those of rows side by side.
    """
    dtype = np.dtype(dtype)
    shape = tuple(int(s) for s in shape)
    elements = math.prod(shape)
    if strides and elements:
        elements = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    raw = np.empty(elements * dtype.itemsize + _ALIGNMENT, np.uint8)
    steps = [stride * dtype.itemsize for stride in strides] or None
    return np.ndarray(shape, dtype, raw, -raw.__array_interface__["data"][0] % _ALIGNMENT, steps)


class NDArray(Identified):
    """An array with TVM's interface around a NumPy array, which it shares.

    `lanes`: of each element; the lanes of vectors are the last dimension of the NumPy array.
    """

    __slots__ = ("_array", "lanes")

    def __init__(self, array: np.ndarray, lanes: int = 1) -> None:
        self._array, self.lanes = array, lanes

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the dimensions."""
        return self._array.shape if self.lanes == 1 else self._array.shape[:-1]

    @property
    def dtype(self) -> str:
        """The type of the elements by name."""
        return str(self._array.dtype) if self.lanes == 1 else f"{self._array.dtype}x{self.lanes}"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._array.size // self.lanes

    @property
    def device(self) -> Device:
        """Where it is: on the CPU."""
        return cpu()

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array; of bfloat16 the bits, as uint16, as in TVM."""
        return self._array.view(np.uint16).copy() if self.dtype == "bfloat16" else self._array.copy()

    asnumpy = numpy

    def tobytes(self) -> bytes:
        """The bytes of its elements, the last dimension the fastest."""
        return self._array.tobytes()

    def copyfrom(self, source: Any) -> NDArray:
        """Take the values of `source`, which has this shape. An array of uint16 is the bits of bfloat16."""
        values = source._array if isinstance(source, NDArray) else np.asarray(source)
        if self.dtype == "bfloat16" and values.dtype == np.uint16 and not isinstance(source, NDArray):
            values = values.view(self._array.dtype)
        if values.shape != self._array.shape:
            raise WrongValueError(
                f"an array of shape {values.shape} cannot be copied into one of shape {self.shape}",
                code="ndarray.shape_mismatch",
            )
        self._array[...] = values
        return self

    def copyto(self, target: Any) -> Any:
        """Copy the values to another NDArray, or to a new one on a device."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        return NDArray(self._array.copy(), self.lanes)

    def _create_view(self, shape: Any, dtype: Any = None, relative_byte_offset: int = 0) -> NDArray:
        """An array of another shape and type on the same memory, which begins `relative_byte_offset` behind its start."""
        kind = dtype_of(self.dtype if dtype is None else dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(int(s) for s in shape)
        lanes = () if kind.is_scalar else (kind.lanes,)
        element = np.dtype(numpy_dtype(kind.element_of))
        if not self._array.flags.c_contiguous:
            raise TVMagicError(
                "only of an array whose elements are without gaps there are views", code="ndarray.view_not_contiguous"
            )
        if (
            relative_byte_offset < 0
            or relative_byte_offset + math.prod((*shape, *lanes)) * element.itemsize > self._array.nbytes
        ):
            raise TVMagicError(
                f"a view of shape {shape} and type `{kind}` reaches beyond the array", code="ndarray.view_too_large"
            )
        memory = self._array.reshape(-1).view(np.uint8)
        return NDArray(np.ndarray((*shape, *lanes), element, memory, relative_byte_offset), kind.lanes)

    def to_dlpack(self) -> Any:
        """The array for other packages, which share its memory: a DLPack capsule."""
        return self.__dlpack__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is not None and np.dtype(dtype) != self._array.dtype:
            return self._array.astype(dtype)
        return self._array.copy() if copy else self._array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __getitem__(self, key: Any) -> Any:
        return self._array[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[key] = value._array if isinstance(value, NDArray) else value

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"<tvm.nd.NDArray shape={self.shape}, {self.device!r}>\n{self._array!r}"

    def __str__(self) -> str:
        return str(self.numpy())


def array(arr: Any, device: Device | None = None) -> NDArray:
    """A new array with the values of `arr`. Raises `WrongValueError` if they are not integers, floats or truth values."""
    values = np.asarray(arr)
    if values.dtype.kind in "OSUMmc":
        raise WrongValueError(
            f"an array of `{values.dtype}` has no counterpart here",
            hint="its elements are numbers or truth values",
            code="ndarray.unsupported_dtype",
        )
    copy = aligned_empty(values.shape, values.dtype)
    copy[...] = values
    return NDArray(copy)


def of_numpy(values: Any) -> NDArray:
    """A NumPy array as an NDArray that shares its elements."""
    return NDArray(np.asarray(values))


def from_dlpack(ext_tensor: Any) -> NDArray:
    """An array of another package, such as NumPy's or PyTorch's, or its capsule (`to_dlpack`), as one that shares its memory."""
    return NDArray(np.from_dlpack(ext_tensor if hasattr(ext_tensor, "__dlpack__") else _InCapsule(ext_tensor)))


class _InCapsule:
    """What NumPy asks of an array, for one in a capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # this computer's memory


def empty(shape: Any, dtype: Any = "float32", device: Device | None = None) -> NDArray:
    """A new array with no values set; its elements may be vectors (`float32x2`)."""
    shape = (shape,) if isinstance(shape, int) else shape
    kind = dtype_of(dtype)
    lanes = () if kind.is_scalar else (kind.lanes,)
    return NDArray(aligned_empty((*shape, *lanes), numpy_dtype(kind.element_of)), kind.lanes)
