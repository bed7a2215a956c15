"""Rows of the innermost axis in local memory, each padded to whole blocks.

An NPU's calls take rows that begin with a block of 32 bytes. `pad_rows` gives every local tensor of several rows such
strides: `{Align(s1, 8), 1, }` for float32.
"""

from __future__ import annotations

from tvmagic.ascend.graph import AscGraph, AscTensor, dense_strides
from tvmagic.ascend.lifetimes import is_local
from tvmagic.ascend.sizes import Size, function
from tvmagic.ir import dtype_of

BLOCK = 32  # bytes of a block of local memory


def row_strides(y: AscTensor, *, padded: bool = False) -> list[Size]:
    """The strides of a local tensor along its vectorized axes, in the order of its memory.

    Dense; or (`padded`) with the innermost axis rounded up to whole blocks, if there are several rows of it.
    """
    lengths = [y.local_length(a) for a in y.vectorized_axis]
    held = [place for place, n in enumerate(lengths) if not n.is_one]
    if padded and len(held) > 1:
        rounded = list(lengths)
        rounded[held[-1]] = function("Align", lengths[held[-1]], max(1, BLOCK // dtype_of(y.dtype).bytes))
        return [Size.of(0) if n.is_one else step for n, step in zip(lengths, dense_strides(rounded), strict=True)]
    return dense_strides(lengths)


def has_gaps(graph: AscGraph) -> bool:
    """Whether padding would change where the rows of some local tensor begin."""
    tensors = [y for n in graph.nodes if is_local(n) for y in n.outputs]
    return any(row_strides(y, padded=True) != row_strides(y) for y in tensors)


def pad_rows(graph: AscGraph) -> AscGraph:
    """An ImplGraph like `graph`, whose local tensors have padded rows; queues and buffers stay shared as they are."""
    padded = graph.copy(f"{graph.name}_padded")
    for node in filter(is_local, padded.nodes):
        for y in node.outputs:
            y.vectorized_strides = row_strides(y, padded=True)
    return padded
