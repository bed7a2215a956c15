"""Reductions whose axes depend on others, as in `te.sum(A[i, k], axis=te.reduce_axis((0, i)))`: blocks inside blocks.

The domain of a block's variable must not name another variable of the same block. So the axes are put on levels: those
of one level depend on those of the levels before alone. Each level has its loops and a block, which binds the variables
of the levels before once more, each to the one value that it has there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.ir.ops import const
from tvmagic.ir.query import variables_in


def axis_levels(axes: Sequence[ir.IterVar], analyzer: Analyzer) -> list[list[ir.IterVar]]:
    """The axes by levels: the domain of each names axes of the levels before only."""
    by_var = {iv.var: iv for iv in axes}
    depth: dict[ir.Var, int] = {}

    def depth_of(axis: ir.IterVar) -> int:
        found = depth.get(axis.var)
        if found is None:
            ends = [analyzer.simplify(end) for end in _min_and_extent(axis)]
            named = [by_var[v] for end in ends for v in variables_in(end) if v in by_var]
            found = depth[axis.var] = max((depth_of(other) + 1 for other in named), default=0)
        return found

    levels: list[list[ir.IterVar]] = [[] for _ in range(max(map(depth_of, axes), default=0) + 1)]
    for axis in axes:
        levels[depth[axis.var]].append(axis)
    return levels


def _min_and_extent(axis: ir.IterVar) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    assert axis.dom is not None
    return axis.dom.min, axis.dom.extent


@dataclass
class _Level:
    """The loops of a level with their domains, and the variables of its block with what they are bound to."""

    loops: list[tuple[ir.Var, ir.Range]] = field(default_factory=list[tuple[ir.Var, ir.Range]])
    iter_vars: list[ir.IterVar] = field(default_factory=list[ir.IterVar])
    bindings: list[ir.PrimExpr] = field(default_factory=list[ir.PrimExpr])
    values: dict[ir.Var, ir.PrimExpr] = field(default_factory=dict[ir.Var, ir.PrimExpr])

    def add(self, axis: ir.IterVar, domain: ir.Range, binding: ir.PrimExpr) -> None:
        var = ir.Var("v_" + axis.var.name, axis.dtype)
        self.iter_vars.append(ir.IterVar(domain, var, axis.iter_type, axis.thread_tag, axis.span))
        self.bindings.append(binding)
        self.values[axis.var] = var


def _levels(axes: Sequence[Sequence[ir.IterVar]], analyzer: Analyzer) -> list[_Level]:
    made: list[_Level] = []
    for depth, new_axes in enumerate(axes):
        level, above = _Level(), made[-1].values if made else {}
        for axis in (axis for before in axes[:depth] for axis in before):
            outer = above[axis.var]
            level.add(axis, ir.Range.from_min_extent(outer, const(1, outer.dtype)), outer)
        for axis in new_axes:
            ends = [analyzer.simplify(ir.substitute(end, above)) for end in _min_and_extent(axis)]
            loop, domain = ir.Var(axis.var.name, axis.dtype), ir.Range.from_min_extent(*ends)
            level.loops.append((loop, domain))
            level.add(axis, domain, loop)
        made.append(level)
    return made


def nested_blocks(
    axes: Sequence[Sequence[ir.IterVar]],
    analyzer: Analyzer,
    reduction: Callable[[dict[ir.Var, ir.PrimExpr]], tuple[ir.Stmt, ir.Stmt]],
    fresh_name: Callable[[], str],
    annotations: dict[str, Any],
    span: Any,
) -> ir.Stmt:
    """The loops and blocks of all levels.

    reduction: the initialization and the update, for the variables in the place of the axes. The block of the first level
    with a reduced axis has the initialization; the innermost has the update, the first name and the annotations.
    """
    levels = _levels(axes, analyzer)
    body = reduction(levels[-1].values)[1]
    first = next(i for i, level in enumerate(axes) if any(axis.iter_type == ir.IterVar.CommReduce for axis in level))
    for depth, level in reversed(list(enumerate(levels))):
        init = reduction(level.values)[0] if depth == first else None
        marks = annotations if depth == len(levels) - 1 else {}
        block = ir.Block(level.iter_vars, (), (), fresh_name(), body, init, annotations=marks, span=span)
        body = ir.BlockRealize(level.bindings, const(True), block, span)
        for loop, domain in reversed(level.loops):
            body = ir.For(loop, domain.min, domain.extent, ir.ForKind.SERIAL, body, span=span)
    return body
