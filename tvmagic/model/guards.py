"""Conditions inside loops that remain after LLVM unrolls loops and peels last iterations."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

from tvmagic import ir
from tvmagic.eval.integers import OF_SIZES, evaluate
from tvmagic.ir.query import has_node, variables_in
from tvmagic.model.nests import Loop, Statement
from tvmagic.tir.blocks.conditions import conjuncts

_COPIES = 64  # of a condition that are looked at one by one
_COMPARE = {
    ir.LT: operator.lt, ir.LE: operator.le, ir.GT: operator.gt, ir.GE: operator.ge, ir.EQ: operator.eq, ir.NE: operator.ne
}  # fmt: skip
_KNOWN = (ir.CmpOp, ir.Cast, ir.IntImm, *OF_SIZES)  # of which values of variables say the value
_MONOTONE = (ir.LT, ir.LE, ir.GT, ir.GE, ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.Cast, ir.IntImm, ir.Var)


def depending(guards: Sequence[ir.PrimExpr], loop: Loop) -> list[ir.PrimExpr]:
    """The conditions that change from one iteration of a loop to the next."""
    return [g for g in guards if any(v is loop.var for v in variables_in(g))]


def asked(s: Statement, rolled: Loop, unrolled: Sequence[Loop]) -> int:
    """How many conditions an iteration of `rolled` asks for a statement, with the copies that the loops inside were written out as.

    A copy of a condition that holds in every iteration is gone, as is one that fails in the first or the last iteration alone: LLVM
    writes these out beside the loop.
    """
    inner = [loop for loop in unrolled if loop in s.loops]
    found = depending(s.guards, rolled) or [g for g in s.guards if any(depending([g], loop) for loop in inner)]
    return sum(_unknown(guard, rolled, inner) for guard in found)


def _unknown(guard: ir.PrimExpr, rolled: Loop, inner: Sequence[Loop]) -> int:
    """The copies of a condition that do not hold in all iterations but the first and the last, nor fail in all of them."""
    names = [loop.var for loop in inner]
    copies, own = math.prod(loop.extent for loop in inner), {rolled.var, *names}
    parts = [p for p in conjuncts(guard) if any(v in own for v in variables_in(p))]  # the others are asked outside
    fixed = [p for p in parts if _is_known(p, names)]
    moving = [p for p in parts if all(p is not other for other in fixed)]
    if copies > _COPIES:
        return copies
    places = [dict(zip(names, at)) for at in itertools.product(*(range(loop.extent) for loop in inner))]
    places = [at for at in places if all(_holds(p, at) for p in fixed)]
    if any(not _is_comparison(p) or any(v not in own for v in variables_in(p)) for p in moving):
        return len(places)
    both = (min(1, rolled.extent - 1), max(rolled.extent - 2, 0))
    return sum(not all(_holds(p, {rolled.var: n, **at}) for p in moving for n in both) for at in places)


def _is_comparison(part: ir.PrimExpr) -> bool:
    """Whether a condition compares sums of products and quotients, so that it holds between two values at which it holds."""
    return isinstance(part, (ir.LT, ir.LE, ir.GT, ir.GE)) and not has_node(part, lambda n: not isinstance(n, _MONOTONE))


def _is_known(part: ir.PrimExpr, names: Sequence[ir.Var]) -> bool:
    """Whether values of `names` alone say whether a condition holds: it loads nothing and calls nothing."""
    return isinstance(part, ir.CmpOp) and not has_node(part, lambda n: not isinstance(n, _KNOWN) and n not in names)


def _holds(part: ir.PrimExpr, values: dict[ir.Var, int]) -> bool:
    assert isinstance(part, ir.CmpOp)
    return _COMPARE[type(part)](evaluate(part.a, values), evaluate(part.b, values))
