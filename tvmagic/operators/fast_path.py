"""Calls with small plain arrays: what takes longer in Python than the kernel itself is worked out once.

The checks of dtypes, shapes and overlaps are those that the kernel has as machine code. What does not pass them, and what
is not a plain array, takes the long way, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.ir import IntImm, Var
from tvmagic.operators.arrays import array_dtype
from tvmagic.runtime.ndarray import aligned_empty

if TYPE_CHECKING:
    from tvmagic.operators.operator import Version
    from tvmagic.runtime.kernel import Kernel

_Shape = tuple[int | tuple[int, int], ...]  # sizes, or the input and the dimension that have the size


class QuickCall:
    """The quick way for one version of an operator, compiled with or without checks of bounds.

    `kernel`: its compiled code; None if there is no quick way. `outputs`: shape and dtype of each of the `count` outputs;
    None if a shape is computed from sizes, or if elements may be left without a value.
    """

    def __init__(
        self, kernel: Kernel | None, outputs: list[tuple[_Shape, np.dtype[Any]]] | None, count: int, checked: bool
    ) -> None:
        self.kernel, self.outputs, self.count, self.checked = kernel, outputs, count, checked

    def __call__(self, arrays: Sequence[Any], out: Any) -> Any:
        """The output array or the tuple of them; None if nothing was computed."""
        if self.kernel is None:
            return None
        if out is not None:
            if not self.kernel.checker.noalias:
                return None
            given = out if isinstance(out, tuple) else tuple(out) if isinstance(out, list) else (out,)
            if len(given) != self.count:
                return None
        elif self.outputs is None:
            return None
        else:
            try:
                given = tuple(aligned_empty(_sizes(shape, arrays), dtype) for shape, dtype in self.outputs)
            except (AttributeError, IndexError, TypeError):
                return None
        if not self.kernel.quick((*arrays, *given)):
            return None
        return given[0] if len(given) == 1 else given


def _sizes(shape: _Shape, arrays: Sequence[Any]) -> list[int]:
    return [s if isinstance(s, int) else arrays[s[0]].shape[s[1]] for s in shape]


def quick_call(version: Version, checked: bool) -> QuickCall:
    """The quick way for a version that is built, with or without checks of bounds.

    There is none if an argument is both read and written, or if it takes arithmetic to tell whether a reduction is empty.
    """
    op = version.operator
    if any(map(op.is_input, op.outputs)) or (version.of_blocks and op.computed_reductions):
        return QuickCall(None, None, len(op.outputs), checked)
    places: dict[Any, tuple[int, int]] = {}
    for number, tensor in enumerate(op.inputs):
        for axis, size in enumerate(tensor.shape):
            if isinstance(size, Var):
                places.setdefault(size, (number, axis))
    outputs: list[tuple[_Shape, np.dtype[Any]]] | None = []
    for tensor, left in zip(op.outputs, op.left_unwritten):
        sizes = [size.value if isinstance(size, IntImm) else places.get(size) for size in tensor.shape]
        known = tuple(size for size in sizes if size is not None)
        if left or len(known) < len(sizes) or getattr(tensor, "strides", ()):
            outputs = None
            break
        outputs.append((known, array_dtype(tensor)))
    return QuickCall(version.modules[checked].entry_func, outputs, len(op.outputs), checked)
