"""Version loops on their tail: a loop guarded by `i < n` becomes an unguarded loop and a shorter one, under one test.

LLVM vectorizes `for j in range(16): if i * 16 + j < n: C[i * 16 + j] = A[i] * B[i * 16 + j]` only if the processor masks lanes. It never does if
a load is invariant, here `A[i]`: that load is legal only if some lane is on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

from tvmagic import ir
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.codegen.late.common import (
    MADE_BY,
    NotApplicable,
    StatementMutator,
    is_kept_scalar,
    late_pass,
    on_threaded_targets,
    unchecked_on_cpus,
)
from tvmagic.ir.ops import cast, floordiv, maximum, minimum
from tvmagic.ir.query import contains, nodes_of, operands, strip_likely
from tvmagic.passes import note
from tvmagic.target import Target
from tvmagic.tir.blocks.conditions import all_of, conjuncts

_WIDE = ir.DataType("int64")
_LARGEST_STEP = 1 << 16  # products of such a step and a difference of numbers of 32 bits are far from the ends of 64
_FEWEST = 4  # iterations of a loop that is worth a second version
# Iterations that LLVM writes out before it makes vectors; with branches inside, no vectors come of them.
_WRITTEN_OUT = 16


def _when(target: Target, check_bounds: bool) -> Literal[True] | str:
    applies = on_threaded_targets(target, check_bounds)
    return unchecked_on_cpus(target, check_bounds) if applies is True else applies


@late_pass("VersionGuardedLoops", when=_when)
def version_guarded_loops(func: ir.PrimFunc, target: Target) -> ir.PrimFunc:
    """Replace a loop guarded by `i < n` with an unguarded loop and a shorter one, under one test."""
    if not any(isinstance(loop.body, ir.IfThenElse) for loop in nodes_of(func.body, ir.For)):
        return func
    return func.with_body(_Versioner(func, target.machine.masks).visit(func.body))


class _Versioner(StatementMutator):
    def __init__(self, func: ir.PrimFunc, masks: bool) -> None:
        super().__init__(func)
        self.masks = masks

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        guard = node.body
        if not isinstance(guard, ir.IfThenElse) or guard.else_case is not None or node.kind is not ir.ForKind.SERIAL:
            return super().loop(node)
        try:
            made = _versions(node, guard, self.masks, self.intervals.fits)
        except NotApplicable as reason:
            note("late", f"kept guarded loop `{node.loop_var.name}`: {reason}", node)
            return super().loop(node)
        note("late", f"versioned loop `{node.loop_var.name}`: one version has no guard", node)
        return made


def _versions(loop: ir.For, guard: ir.IfThenElse, masks: bool, fits: Callable[[ir.PrimExpr], bool]) -> ir.Stmt:
    """Return both versions under their test. Raises NotApplicable if the loop does not qualify, or LLVM does as well without them.

    `masks`: whether the processor has masked loads and stores; `fits` tells whether an expression provably does not wrap.
    """
    extent = loop.extent
    if is_kept_scalar(loop):
        raise NotApplicable("it is kept scalar")
    if not isinstance(extent, ir.IntImm) or not isinstance(loop.min, ir.IntImm) or loop.min.value:
        raise NotApplicable("its bounds are not constant, or it does not start at 0")
    if extent.value < _FEWEST:
        raise NotApplicable(f"it has only {extent.value} iterations")
    if contains(guard.then_case, ir.For, ir.While, ir.Allocate):
        raise NotApplicable("its body has loops or allocations")
    if masks and not _loads_the_same(loop.loop_var, guard.then_case):
        raise NotApplicable("the processor masks its loads and stores")
    if extent.value <= _WRITTEN_OUT and contains(guard.then_case, ir.IfThenElse):
        raise NotApplicable("LLVM unrolls it, and does not vectorize branches")
    parts = conjuncts(strip_likely(guard.condition))
    if any(contains(part, ir.BufferLoad, ir.Call) for part in parts):
        raise NotApplicable("its guard reads memory or calls functions")
    fixed, limits = list[ir.PrimExpr](), list[ir.PrimExpr]()
    for part in parts:
        if not uses_var(part, {loop.loop_var}):
            fixed.append(part)
            continue
        limit = _limit(part, loop.loop_var, fits)
        if limit is None:
            raise NotApplicable(f"cannot turn `{part}` into an upper bound of `{loop.loop_var.name}`")
        limits.append(limit)
    if not limits:
        raise NotApplicable(f"its guard does not depend on `{loop.loop_var.name}`")
    dtype = max((limit.dtype for limit in limits), key=lambda dtype: dtype.bits)
    count, whole = ir.Var(f"{loop.loop_var.name}_end", dtype), ir.IntImm(dtype, extent.value)
    first = functools.reduce(minimum, [cast(dtype, limit) for limit in limits])
    some = cast(extent.dtype, maximum(minimum(count, whole), ir.IntImm(dtype, 0)))
    annotations = {**loop.annotations, MADE_BY: ir.StringImm("VersionGuardedLoops")}
    other = ir.Var(loop.loop_var.name, loop.loop_var.dtype)
    rest = ir.substitute(guard.then_case, {loop.loop_var: other})
    versions = ir.IfThenElse(
        count >= whole,
        loop.with_(body=guard.then_case, annotations=annotations),
        loop.with_(loop_var=other, extent=some, body=rest, annotations=annotations),
        span=guard.span,
    )
    chosen: ir.Stmt = ir.LetStmt(count, first, versions, span=loop.span)
    return ir.IfThenElse(all_of(fixed), chosen, None, span=guard.span) if fixed else chosen


def _limit(part: ir.PrimExpr, var: ir.Var, fits: Callable[[ir.PrimExpr], bool]) -> ir.PrimExpr | None:
    """Return the exclusive upper bound of a variable that is equivalent to a condition, or None.

    It is computed in 64 bits if it might wrap in 32: a size from the caller may be any number.
    """
    if not isinstance(part, (ir.LT, ir.LE)) or uses_var(part.b, {var}) or var.dtype.bits > 32:
        return None
    for dtype, safe in ((var.dtype, fits), (_WIDE, lambda expr: True)):
        found = _below(part.a, cast(dtype, part.b) + int(isinstance(part, ir.LE)), var, safe)
        if found is not None:
            return found
    return None


def _below(
    expr: ir.PrimExpr, limit: ir.PrimExpr, var: ir.Var, safe: Callable[[ir.PrimExpr], bool]
) -> ir.PrimExpr | None:
    """Return the exclusive upper bound of `var` that is equivalent to `expr < limit`, or None if it is unknown or not `safe` to compute."""
    if not safe(limit):
        return None
    if expr is var:
        return limit
    if isinstance(expr, ir.Add):
        terms = operands(expr, ir.Add)
        moving = [term for term in terms if uses_var(term, {var})]
        if len(moving) != 1:
            return None
        for term in terms:
            limit = limit if term is moving[0] else limit - cast(limit.dtype, term)
            if not safe(limit):
                return None
        return _below(moving[0], limit, var, safe)
    if isinstance(expr, ir.Sub) and not uses_var(expr.b, {var}):
        return _below(expr.a, limit + cast(limit.dtype, expr.b), var, safe)
    if isinstance(expr, (ir.FloorDiv, ir.Mul)) and isinstance(expr.b, ir.IntImm) and 0 < expr.b.value <= _LARGEST_STEP:
        by = ir.IntImm(limit.dtype, expr.b.value)
        if isinstance(expr, ir.FloorDiv):
            return _below(expr.a, limit * by, var, safe)
        limit = limit + (by - 1)
        return _below(expr.a, floordiv(limit, by), var, safe) if safe(limit) else None
    return None


def _loads_the_same(var: ir.Var, body: ir.Stmt) -> bool:
    """Return whether a body has a load that is invariant in the loop over `var`."""
    loads = _Invariant(var)
    loads.visit(body)
    return loads.found


class _Invariant(ir.Visitor):
    def __init__(self, var: ir.Var) -> None:
        self.moving, self.found = {var}, False

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        if uses_var(node.value, self.moving):
            self.moving.add(node.var)
        self.visit_children(node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        if not any(uses_var(index, self.moving) for index in node.indices):
            self.found = True
        self.visit_children(node)
