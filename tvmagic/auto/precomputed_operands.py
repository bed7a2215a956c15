"""Compute operands of a product once, before the product: computed, gathered, or twice the same array.

A contraction reads an operand again for each tile; `exp(A[i, k])`, `(float32(W[k, j]) - z[j]) * s[j]` or `A[I[i], k]` would be
computed as often, and what is not read at plain variables cannot be packed. What is computed once is packed while it is computed.
"""

from __future__ import annotations

import math

from tvmagic.auto.program import Access, BlockInfo, Decisions, extent_or_guess, loads_in
from tvmagic.ir import BufferLoad, Cast, PrimExpr, structural_equal
from tvmagic.ir.query import variables_in
from tvmagic.tir.schedule import Schedule
from tvmagic.tir.schedule.primitives.cache_factor import factors_of

_USES = 8  # of each value of a factor, from which computing it once is worth a copy
_USES_AS_IT_IS = 16  # the same for a factor that is only read, with steps or offsets
_LARGER = 1.5  # how many values a factor may have for each element it reads: overlapping windows have more


def compute_factors(sch: Schedule, info: BlockInfo, notes: Decisions) -> list[str]:
    """Compute the factors of a block's product beforehand for which that pays; the names of the blocks that do it."""
    made: list[str] = []
    factors = factors_of(info.node)
    if len(factors) < 2 or any(not loads_in(f) for f in factors):
        return made
    twice = _second_of_an_array(factors)
    for number, factor in enumerate(factors):
        if number != twice and not _worth(info, factor):
            continue
        if number == twice and _uses(info, factor) < _USES:
            continue
        at = len(sch.trace.insts)
        block = sch.cache_factor(info.rv, number, "global")
        made.append(sch.get(block).name_hint)
        why = "so that each operand is an array of its own" if number == twice else "once, not again for each tile"
        notes.items.append((at, f"{made[-1]}: the factor `{factor}` is computed before the product, {why}"))
    return made


def _operand(factor: PrimExpr) -> PrimExpr:
    """What a factor is without the casts around it, which are part of the multiplication."""
    while isinstance(factor, Cast):
        factor = factor.value
    return factor


def _second_of_an_array(factors: list[PrimExpr]) -> int | None:
    """The last of two factors that read one array at different places, each as it is; None if there are no such two."""
    operands = [_operand(f) for f in factors]
    for n, last in reversed(list(enumerate(operands))):
        for first in operands[:n]:
            if isinstance(first, BufferLoad) and isinstance(last, BufferLoad) and first.buffer is last.buffer:
                return None if structural_equal(first.indices, last.indices) else n
    return None


def _uses(info: BlockInfo, factor: PrimExpr) -> int:
    """How often each value of a factor is multiplied."""
    variables = set(variables_in(factor))
    return math.prod(extent_or_guess(a) for a in info.spatial if a.var not in variables)


def _worth(info: BlockInfo, factor: PrimExpr) -> bool:
    operand = _operand(factor)
    loads = loads_in(operand)
    as_it_is = isinstance(operand, BufferLoad)
    if as_it_is and Access(operand.buffer, tuple(operand.indices)).plain:
        return False
    gathered = any(loads_in(i) for a in loads for i in a.indices)
    if _uses(info, factor) < (_USES_AS_IT_IS if as_it_is and not gathered else _USES):
        return False
    variables = set(variables_in(factor))
    extents = {a.var: extent_or_guess(a) for a in info.axes if a.var in variables}
    return gathered or math.prod(extents.values()) <= _LARGER * max(a.elements(extents) for a in loads)
