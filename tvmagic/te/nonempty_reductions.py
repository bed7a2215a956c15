"""Sizes for which a reduction has no value: the index of the largest of no elements.

A reducer that is declared so (`te.comm_reducer(..., nonempty=True)`) has an identity element that only starts the
reduction. Its axes must have elements; compiled functions test it in each call, before they write anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import IntImm, PrimExpr, Reduce
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order
from tvmagic.te.tensor import ComputeOp, Operation


def nonempty_sizes(outputs: Iterable[Operation]) -> list[tuple[PrimExpr, str]]:
    """Return the conditions on symbolic extents of reductions, each with its error message."""
    roots = list(outputs)
    found: dict[str, PrimExpr] = {}
    analyzer = Analyzer()
    for op in post_dfs_order(roots, create_read_graph(roots)):
        body = op.body[0] if isinstance(op, ComputeOp) else None
        if not isinstance(body, Reduce) or body.combiner is None or "nonempty" not in body.combiner.attrs:
            continue
        for axis in body.axis:
            if axis.dom is not None and not isinstance(axis.dom.extent, IntImm):
                message = f"cannot compute `{op.name}`: its reduction axis `{axis.var.name}` has no elements"
                found[message] = analyzer.simplify(axis.dom.extent > 0)
    return [(condition, message) for message, condition in found.items()]
