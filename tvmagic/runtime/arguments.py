"""Checks of a call's arguments before compiled code runs.

Compiled code trusts what it is given, so everything that could make it read or write outside an
array is checked here, and each mistake is told in one sentence with the parameter's name.
Arrays are taken as they are, never copied: one that does not fit is refused.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.eval.size_equations import Dimension, solve_sizes
from tvmagic.ir import DataType, IntImm, PrimExpr, Var
from tvmagic.ir.constants import largest_integer
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.runtime.ndarray import NDArray, aligned_empty

_INT32 = DataType("int32")


class ScalarParam:
    """A parameter that takes a number of type `dtype`."""

    def __init__(self, var: Var) -> None:
        self.var, self.name, self.dtype = var, var.name, var.dtype

    def check(self, value: Any) -> Any:
        """`value` as ctypes takes it."""
        dtype = self.dtype
        if isinstance(value, np.ndarray) and value.ndim == 0 or isinstance(value, np.generic):
            value = value.item()
        if dtype.is_handle:
            return self._pointer(value)
        if dtype.is_float:
            if not isinstance(value, (int, float)):
                raise TVMagicError(
                    f"parameter `{self.name}` takes a number of type `{dtype}`, not {_kind(value)}",
                    code="call.wrong_number_type",
                )
            return _float_bits(dtype, float(value)) if dtype.bits == 16 else float(value)
        if isinstance(value, float) and not value.is_integer() or not isinstance(value, (int, float)):
            raise TVMagicError(
                f"parameter `{self.name}` takes an integer of type `{dtype}`, not {_kind(value)}",
                code="call.wrong_number_type",
            )
        value = int(value)
        if dtype.is_bool:
            return int(value != 0)
        low, high = integer_limits(dtype)
        if not low <= value <= high:
            raise TVMagicError(
                f"parameter `{self.name}` is of type `{dtype}`, which does not hold {value}",
                code="call.number_does_not_fit",
            )
        return value

    def _pointer(self, value: Any) -> int:
        address = value.value if hasattr(value, "value") else value
        if not isinstance(address, int) or address == 0:
            raise TVMagicError(f"parameter `{self.name}` is a pointer and must not be null", code="call.null_pointer")
        return address


def _float_bits(dtype: DataType, value: float) -> int:
    return int(np.array(value, numpy_dtype(dtype)).view(np.uint16))


class ArrayParam:
    """A parameter that takes an array: a buffer's dtype, shape and strides, and whether it is written."""

    def __init__(self, var: Var, buffer: Any, written: bool) -> None:
        self.var, self.buffer, self.written = var, buffer, written
        self.name = buffer.name
        lanes = buffer.dtype.lanes
        self.dtype = numpy_dtype(buffer.dtype.element_of)
        self.shape: tuple[PrimExpr, ...] = buffer.shape
        self.strides: tuple[PrimExpr, ...] = buffer.strides
        if lanes > 1:  # the lanes are the array's innermost dimension
            self.shape = (*self.shape, IntImm("int32", lanes))
        self.sizes = tuple([s.value if isinstance(s, IntImm) else None for s in self.shape])
        self.broadcasts = buffer.buffer_type == "auto" and bool(buffer.strides)
        self.index = max((s.dtype for s in self.shape), key=lambda dtype: dtype.bits, default=_INT32)
        self.offset: PrimExpr | None = None if _begins(buffer.elem_offset) else buffer.elem_offset
        self.static = None if None in self.sizes or self.strides or self.offset is not None else self.sizes

    def text_of_shape(self) -> str:
        return "(" + ", ".join(str(s) for s in self.shape) + ("," if len(self.shape) == 1 else "") + ")"

    def as_array(self, value: Any) -> np.ndarray:
        """`value` as a NumPy array that shares its memory."""
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, NDArray):
            return value._array
        if value is None:
            raise TVMagicError(f"parameter `{self.name}` got None instead of an array", code="call.array_is_none")
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            try:
                return np.from_dlpack(value)
            except (BufferError, RuntimeError, TypeError) as error:
                raise TVMagicError(
                    f"parameter `{self.name}` cannot be shared by DLPack: {error}", code="call.array_without_dlpack"
                ) from error
        if hasattr(value, "__array__") and not self.written:
            return np.asarray(value)
        raise TVMagicError(
            f"parameter `{self.name}` takes a NumPy array, not {_kind(value)}",
            hint="convert it with numpy.asarray",
            code="call.not_an_array",
        )

    def check(self, value: Any, sizes: dict[Var, int]) -> np.ndarray:
        """`value` as an array that fits; the size variables it shows are added to `sizes`."""
        array = self.as_array(value)
        if array.dtype != self.dtype:
            hint = self._instead(f"convert it with astype({str(self.dtype)!r})", array)
            raise TVMagicError(
                f"parameter `{self.name}` takes `{self.dtype}`, not `{array.dtype}`", hint=hint, code="call.wrong_dtype"
            )
        if array.ndim != len(self.shape):
            raise TVMagicError(
                f"parameter `{self.name}` takes {len(self.shape)} dimensions {self.text_of_shape()}, "
                f"not {array.ndim} {array.shape}",
                code="call.wrong_rank",
            )
        for axis, (expected, size) in enumerate(zip(self.shape, array.shape)):
            self._bind(expected, size, sizes, f"has size {size} in dimension {axis}", array)
        if self.strides:
            self._check_strides(array, sizes)
        elif not array.flags.c_contiguous:
            raise TVMagicError(
                f"parameter `{self.name}` takes a contiguous array in C order, not one with strides {array.strides}",
                hint=self._instead("copy it with numpy.ascontiguousarray", array),
                code="call.not_contiguous",
            )
        if not array.flags.aligned:
            raise TVMagicError(
                f"parameter `{self.name}` is not aligned to its elements of {self.dtype.itemsize} bytes",
                hint=self._instead("copy it with numpy.copy", array),
                code="call.not_aligned",
            )
        if self.written and not array.flags.writeable:
            raise TVMagicError(
                f"parameter `{self.name}` is an output, but the array is read-only", code="call.read_only_output"
            )
        return array

    def _instead(self, copy: str, array: np.ndarray) -> str:
        """The hint for an array that is not as it has to be; what is written into a copy would not arrive."""
        if not self.written:
            return copy
        return f"it is written in place, so that a copy does not help: pass numpy.empty({array.shape}, {str(self.dtype)!r})"

    def _bind(self, expected: PrimExpr, size: int, sizes: dict[Var, int], what: str, array: np.ndarray) -> None:
        if isinstance(expected, IntImm):
            wanted = expected.value
        elif isinstance(expected, Var):
            if not integer_limits(expected.dtype)[0] <= size <= largest_integer(expected.dtype):
                raise TVMagicError(
                    f"parameter `{self.name}` {what}, more than `{expected.name}` of type `{expected.dtype}` holds",
                    hint="pass a smaller array, or give the size the type `int64`",
                    code="call.size_does_not_fit",
                )
            wanted = sizes.setdefault(expected, size)
        else:
            return  # an expression of sizes: compared when all are known
        if wanted != size:
            name = "" if isinstance(expected, IntImm) else f" (`{expected.name}` elsewhere)"  # type: ignore[attr-defined]
            raise TVMagicError(
                f"parameter `{self.name}` {what}, but {wanted}{name} is expected: its shape is "
                f"{self.text_of_shape()}, the array's {array.shape}",
                code="call.size_mismatch",
            )

    def _check_strides(self, array: np.ndarray, sizes: dict[Var, int]) -> None:
        item = array.itemsize
        for axis, (expected, stride) in enumerate(zip(self.strides, array.strides)):
            if array.shape[axis] <= 1 and isinstance(expected, IntImm):
                continue
            if self.broadcasts and array.shape[axis] == 1:
                stride = 0  # every index reads the one element
            self._bind(expected, stride // item, sizes, f"has stride {stride // item} in dimension {axis}", array)

    def check_rest(self, array: np.ndarray, sizes: dict[Var, int]) -> None:
        """Compare the sizes and strides that are expressions of others; an array begins at the first element of its memory."""
        if self.offset is not None and evaluate(self.offset, sizes) != 0:
            raise TVMagicError(
                f"the buffer of parameter `{self.name}` begins at element {self.offset} of its memory, an array at element 0",
                hint="leave `elem_offset` out, and pass a part of an array",
                code="call.wrong_element_offset",
            )
        strides = [stride // array.itemsize for stride in array.strides]
        found = [("size", n, *pair) for n, pair in enumerate(zip(self.shape, array.shape))]
        found += [("stride", n, *pair) for n, pair in enumerate(zip(self.strides, strides)) if array.shape[n] > 1]
        for what, axis, expected, has in found:
            if not isinstance(expected, (IntImm, Var)) and (wanted := evaluate(expected, sizes)) != has:
                raise TVMagicError(
                    f"parameter `{self.name}` has {what} {has} in dimension {axis}, but `{expected}` = {wanted} is expected",
                    code="call.wrong_stride",
                )

    def allocate(self, sizes: dict[Var, int]) -> np.ndarray:
        """A new array of the shape that follows from the other arguments."""
        shape = [evaluate(s, sizes) for s in self.shape]
        if None in shape:
            raise TVMagicError(
                f"the shape of the output `{self.name}` does not follow from the other arguments",
                code="call.output_shape_unknown",
            )
        below = next((axis for axis, size in enumerate(shape) if size < 0), None)  # type: ignore[operator]
        if below is not None:
            raise TVMagicError(
                f"dimension {below} of the output `{self.name}`, `{self.shape[below]}`, is {shape[below]}",
                code="call.negative_output_size",
            )
        strides = [evaluate(s, sizes) for s in self.strides]
        if None in strides or len(strides) != len(shape) or min(strides) < 0:  # type: ignore[type-var]
            strides = []
        array = aligned_empty(shape, self.dtype, strides)  # type: ignore[arg-type]
        if self.strides:
            self._check_strides(array, sizes)
        return array


def _begins(offset: PrimExpr) -> bool:
    """Whether a buffer with this offset can be at the begin of its memory whatever the sizes are."""
    return isinstance(offset, Var) or (isinstance(offset, IntImm) and offset.value == 0)


def _kind(value: Any) -> str:
    return f"`{value!r}`" if isinstance(value, (int, float, str)) else f"a `{type(value).__name__}`"


def span(array: np.ndarray) -> tuple[int, int]:
    """The first address of an array and the one behind its last."""
    low = high = array.__array_interface__["data"][0]
    if array.size == 0:
        return 0, 0
    for size, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize


def memory_of(array: np.ndarray) -> tuple[np.ndarray, int]:
    """The bytes from an array's first address to behind its last, as an array on the same memory, and the place of its
    first element in them. Whoever writes there makes sure that the array is not read-only."""
    low, high = span(array)
    if high == low:
        return np.zeros(0, np.uint8), 0
    return np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low)), array.ctypes.data - low


class Checker:
    """Checks all arguments of a function and gives what the machine takes."""

    def __init__(
        self, name: str, params: list[ArrayParam | ScalarParam], sizes: tuple[Var, ...], noalias: bool
    ) -> None:
        self.name, self.params, self.sizes, self.noalias = name, params, sizes, noalias
        last = len(params)
        while last and isinstance(params[last - 1], ArrayParam) and params[last - 1].written:  # type: ignore[union-attr]
            last -= 1
        self.least = last  # the outputs at the end may be left out

    def check(self, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], list[np.ndarray]]:
        """Machine values, the arrays behind them (to be kept alive), and the outputs allocated here."""
        if not self.least <= len(args) <= len(self.params):
            wanted = f"{self.least} to {len(self.params)}" if self.least < len(self.params) else f"{len(self.params)}"
            names = ", ".join(f"`{p.name}`" for p in self.params)
            raise TVMagicError(
                f"`{self.name}` takes {wanted} arguments ({names}), not {len(args)}", code="call.wrong_argument_count"
            )
        sizes: dict[Var, int] = {}
        values: list[Any] = []
        for param, arg in zip(self.params, args):
            if isinstance(param, ScalarParam):
                value = param.check(arg)
                if param.dtype.is_int or param.dtype.is_uint:
                    sizes[param.var] = value
                values.append(value)
        arrays = [p.check(a, sizes) for p, a in zip(self.params, args) if isinstance(p, ArrayParam)]
        self._solve_sizes(arrays, sizes)
        made = [p.allocate(sizes) for p in self.params[len(args) :] if isinstance(p, ArrayParam)]
        arrays += made
        array_params = [p for p in self.params if isinstance(p, ArrayParam)]
        for param, array in zip(array_params, arrays):
            param.check_rest(array, sizes)
        if self.noalias:
            self._check_overlap(array_params, arrays)
        return self._machine_values(arrays, values, sizes), arrays, made

    def _solve_sizes(self, arrays: list[np.ndarray], sizes: dict[Var, int]) -> None:
        """Add to `sizes` those that dimensions such as `m + 1` determine."""
        params = [p for p in self.params if isinstance(p, ArrayParam)]
        pairs = [(p, Dimension(*pair)) for p, array in zip(params, arrays) for pair in zip(p.shape, array.shape)]
        if all(isinstance(d.size, (IntImm, Var)) for _, d in pairs):
            return
        failed = solve_sizes([d for _, d in pairs], sizes)
        if failed is not None and evaluate(failed.size, sizes) is None:
            param = next(p for p, d in pairs if d is failed)
            raise TVMagicError(
                f"parameter `{param.name}` has a dimension of size {failed.extent}, which is not `{failed.size}`",
                code="call.size_not_solvable",
            )

    def _machine_values(self, arrays: list[np.ndarray], scalars: list[Any], sizes: dict[Var, int]) -> list[Any]:
        pointers, numbers = iter(arrays), iter(scalars)
        result = [
            next(pointers).__array_interface__["data"][0] if isinstance(p, ArrayParam) else next(numbers)
            for p in self.params
        ]
        return result + [sizes.get(v, 0) for v in self.sizes]

    def _check_overlap(self, params: list[ArrayParam], arrays: list[np.ndarray]) -> None:
        spans = [span(a) for a in arrays]
        for i, param in enumerate(params):
            if not param.written:
                continue
            for j, other in enumerate(params):
                if j != i and spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1]:
                    raise TVMagicError(
                        f"the output `{param.name}` overlaps with the argument `{other.name}` in memory",
                        hint="pass a copy of one of them",
                        code="call.output_overlaps_input",
                    )
