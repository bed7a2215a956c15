"""Indices that the running program checks, each against the extent of its dimension.

Once accesses are flat, an index that is too large for its dimension may still be inside the memory. So where
bounds are checked (the option `tir.check_bounds`), the passes that make accesses flat put a call of
`tir.checked_index` around every index that they cannot prove to be inside. The call gives the index, or stops.
"""

from __future__ import annotations

from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import Buffer, BufferStore, Call, IntImm, PrimExpr, StringImm
from tvmagic.ir.ops import greater_equal, less
from tvmagic.ir.query import is_call
from tvmagic.passes import PassContext
from tvmagic.tir.transform.with_analyzer import is_true

OPTION = "tir.check_bounds"


def checks_wanted() -> bool:
    """Whether the context that is open asks for checks."""
    return bool(PassContext.current().option(OPTION, False))


def checked_indices(
    buffer: Buffer, indices: tuple[PrimExpr, ...], shape: tuple[PrimExpr, ...], analyzer: Analyzer, node: Any
) -> tuple[PrimExpr, ...]:
    """The `indices` of the access `node` of `buffer`, those checked that may be outside `shape`."""
    if len(indices) != len(shape):
        return indices
    return tuple(
        [
            index if _is_inside(index, extent, analyzer) else _checked(buffer, index, extent, axis, shape, node)
            for axis, (index, extent) in enumerate(zip(indices, shape))
        ]
    )


def _is_inside(index: PrimExpr, extent: PrimExpr, analyzer: Analyzer) -> bool:
    if is_call(index, "tir.checked_index"):
        return True
    if index.dtype.is_vector:
        return False
    return _holds(greater_equal(index, 0), analyzer) and _holds(less(index, extent), analyzer)


def _holds(condition: PrimExpr, analyzer: Analyzer) -> bool:
    """Whether `condition` is proved, also if a branch around it says so in the same words.

    A proof begins with a canonical form, `io * 8 + i` for `i + io * 8`, in which it no longer finds the condition of a
    branch that guards the tail of a split.
    """
    return analyzer.can_prove(condition) or is_true(analyzer.for_proof(analyzer.rewrite_simplify, condition))


def _checked(
    buffer: Buffer, index: PrimExpr, extent: PrimExpr, axis: int, shape: tuple[PrimExpr, ...], node: Any
) -> PrimExpr:
    text = "(" + ", ".join(str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"
    what = StringImm(
        f"{'store to' if isinstance(node, BufferStore) else 'load from'} buffer `{buffer.name}` of shape {text}"
    )
    # an argument of this kind repeats the one element of a dimension of size 1
    repeats = IntImm("bool", buffer.buffer_type == "auto" and bool(buffer.strides))
    return Call(index.dtype, "tir.checked_index", (index, extent, IntImm("int32", axis), repeats, what), node.span)
