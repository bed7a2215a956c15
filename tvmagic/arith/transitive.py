"""Comparisons that follow from others: from a <= b + 1 and b < c follows a <= c.

What is known is kept as `left OP right + offset` with `OP` one of `==`, `!=`, `<=`, `>=`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tvmagic.ir as ir
from tvmagic.arith.constraint import extract_constraints, side_effect
from tvmagic.ir import Add, CallEffect, CmpOp, IntImm, PrimExpr, Range, Sub, Var
from tvmagic.ir import ops as op
from tvmagic.ir.deep_equal import deep_equal

MAX_STEPS = 64  # expressions that a chain of comparisons is followed through

# a set of outcomes, one bit each: equal, less, greater
INCONSISTENT, EQ, LT, LE, GT, GE, NE, UNKNOWN = range(8)


class CompareResult(enum.IntEnum):
    """How two integers compare, as far as it is known."""

    INCONSISTENT = INCONSISTENT
    EQ = EQ
    LT = LT
    LE = LE
    GT = GT
    GE = GE
    NE = NE
    UNKNOWN = UNKNOWN


_REVERSED = (INCONSISTENT, EQ, GT, GE, LT, LE, NE, UNKNOWN)
_OF_CLASS: dict[type, int] = {ir.EQ: EQ, ir.NE: NE, ir.LT: LT, ir.LE: LE, ir.GT: GT, ir.GE: GE}


class Known(NamedTuple):
    """`left OP right + offset`; `left` and `right` are numbers of expressions."""

    left: int
    right: int
    offset: int
    result: int

    def seen_from(self, left: int) -> Known | None:
        """The same with `left` on the left side, if it is on one."""
        if left == self.left:
            return self
        if left == self.right:
            return Known(self.right, self.left, -self.offset, _REVERSED[self.result])
        return None

    def implies(self, other: Known) -> bool:
        """Whether `other`, of the same two expressions, follows."""
        mine, theirs = self.result, other.result
        if mine == theirs and self.offset == other.offset:
            return True
        if theirs == LE:
            return mine in (EQ, LE) and self.offset <= other.offset
        if theirs == GE:
            return mine in (EQ, GE) and self.offset >= other.offset
        if theirs == NE:
            return (
                (mine == EQ and self.offset != other.offset)
                or (mine == LE and self.offset < other.offset)
                or (mine == GE and self.offset > other.offset)
            )
        return False


def _as_known(left: int, right: int, offset: int, result: int) -> Known:
    # on integers a < b is a <= b - 1: offsets then add up along a chain
    if result == LT:
        return Known(left, right, offset - 1, LE)
    if result == GT:
        return Known(left, right, offset + 1, GE)
    return Known(left, right, offset, result)


class TransitiveComparisons:
    """The comparisons that hold of bound variables and in the conditions around."""

    def __init__(self, wraps: Callable[[PrimExpr], bool]) -> None:
        self.wraps = wraps
        self.bindings: dict[Var, Range] = {}
        self._of_binding: dict[Var, list[Known]] = {}
        # what is known of each expression, seen from it; nothing is kept as seen from 0
        self._edges: dict[int, list[Known]] = {}
        self._numbers: dict[type, list[tuple[PrimExpr, int]]] = {}
        self._vars: dict[Var, int] = {}
        self._count = 1  # 0 is the expression 0
        self._reached: dict[int, dict[int, list[Known]]] = {}

    def _split(self, e: PrimExpr) -> tuple[PrimExpr | None, int]:
        """An expression without its constant term, and that term; None stands for 0.

        A sum that may wrap around is kept whole.
        """
        if isinstance(e, IntImm):
            return None, e.value
        if isinstance(e, (Add, Sub)) and isinstance(e.b, IntImm) and not self.wraps(e):
            return e.a, e.b.value if isinstance(e, Add) else -e.b.value
        return e, 0

    def _find(self, e: PrimExpr | None, create: bool) -> int | None:
        """The number of an expression; with `create` it gets one if it has none."""
        if e is None:
            return 0
        if isinstance(e, Var):
            found = self._vars.get(e)
            if found is None and create:
                found = self._vars[e] = self._count
                self._count += 1
            return found
        same_class = self._numbers.get(type(e), [])
        for other, number in same_class:
            if deep_equal(other, e):
                return number
        if not create:
            return None
        self._numbers.setdefault(type(e), []).append((e, self._count))
        self._count += 1
        return self._count - 1

    def bind(self, var: Var, range_: Range) -> None:
        """Let `var` lie in a range."""
        old = self.bindings.get(var)
        if old is not None:
            if deep_equal(old.min, range_.min) and deep_equal(old.extent, range_.extent):
                return
            self._remove(self._of_binding.pop(var, []))
        self.bindings[var] = range_
        if isinstance(range_.extent, IntImm) and range_.extent.value == 1:
            known = [self._compared(var, range_.min, EQ)]
        else:
            end = op.add(range_.min, range_.extent)
            known = [self._compared(var, range_.min, GE), self._compared(var, end, LT)]
        added = [k for k in known if k is not None]
        if added:
            self._of_binding[var] = added
            self._append(added)

    def enter_constraint(self, condition: PrimExpr) -> Callable[[], None] | None:
        """Let `condition` hold until the returned function is called."""
        added = [k for e in extract_constraints(condition) if (k := self._known_from(e)) is not None]
        if not added:
            return None
        self._append(added)
        return lambda: self._remove(added)

    def _append(self, known: Iterable[Known]) -> None:
        for k in known:
            for side in {k.left, k.right} - {0}:
                seen = k.seen_from(side)
                assert seen is not None
                self._edges.setdefault(side, []).append(seen)
        self._reached = {}

    def _remove(self, known: Iterable[Known]) -> None:
        for k in known:
            for side in {k.left, k.right} - {0}:
                edges, seen = self._edges[side], k.seen_from(side)
                # what was added last goes first, so that it is near the end
                del edges[next(i for i in reversed(range(len(edges))) if edges[i] == seen)]
        self._reached = {}

    def _known_from(self, e: PrimExpr) -> Known | None:
        """What a comparison says; None if it compares nothing, or constants, or floats."""
        result = _OF_CLASS.get(type(e))
        return self._compared(e.a, e.b, result) if result is not None and isinstance(e, CmpOp) else None

    def _compared(self, lhs: PrimExpr, rhs: PrimExpr, result: int) -> Known | None:
        """That `lhs` compares with `rhs` by `result`; None if they are constants or floats, or if it may have an effect."""
        if not (lhs.dtype.is_int and rhs.dtype.is_int):
            return None
        (left, c1), (right, c2) = self._split(lhs), self._split(rhs)
        if (left is None and right is None) or max(side_effect(lhs), side_effect(rhs)) > CallEffect.PURE:
            return None
        a, b = self._find(left, True), self._find(right, True)
        assert a is not None and b is not None
        return _as_known(a, b, c2 - c1, result)

    def compare(self, lhs: PrimExpr, rhs: PrimExpr, propagate: bool = False) -> int:
        """What is known of `lhs` against `rhs`; with `propagate` through other expressions too."""
        if not self._edges:
            return UNKNOWN
        (left, c1), (right, c2) = self._split(lhs), self._split(rhs)
        a, b = self._find(left, False), self._find(right, False)
        if a is None or b is None:
            return UNKNOWN
        if a == b:
            return EQ if c1 == c2 else LT if c1 < c2 else GT
        if a == 0:
            return _REVERSED[self._compare(b, a, c1 - c2, propagate)]
        return self._compare(a, b, c2 - c1, propagate)

    def _compare(self, a: int, b: int, offset: int, propagate: bool) -> int:
        if not propagate:
            from_a = self._edges.get(a, ())
            if b and len(from_a) > len(self._edges.get(b, ())):
                return _REVERSED[_merge([k for k in self._edges.get(b, ()) if k.right == a], -offset)]
            return _merge([k for k in from_a if k.right == b], offset)
        return _merge(self._reachable(a, b), offset) & _REVERSED[_merge(self._reachable(b, a), -offset)]

    def _reachable(self, start: int, goal: int) -> list[Known]:
        """Everything that follows of `start` against `goal`."""
        reached = self._reached.get(start)
        if reached is None:
            reached = self._reached[start] = self._search(start)
        return reached.get(goal, [])

    def _search(self, start: int) -> dict[int, list[Known]]:
        """Everything that follows of `start` against each expression, along chains of comparisons."""
        reached: dict[int, list[Known]] = {}
        todo: list[int] = []

        def declare(new: Known) -> None:
            others = reached.setdefault(new.right, [])
            # a few comparisons hold the strongest of each kind, and keep cycles finite
            if len(others) < 4 and not any(k.implies(new) for k in others):
                others[:] = [k for k in others if not new.implies(k)] + [new]
                if new.right not in (start, 0):  # what follows by way of a constant, the bounds know
                    todo.append(new.right)

        for known in self._edges.get(start, ()):
            declare(known)
        for _ in range(MAX_STEPS):
            if not todo:
                break
            middle = todo.pop()
            for step in self._edges.get(middle, ()):
                if step.right == start:
                    continue
                for first in list(reached[middle]):
                    result = _chained(first.result, step.result)
                    if result is not None:
                        declare(_as_known(start, step.right, first.offset + step.offset, result))
        return reached


def _chained(first: int, second: int) -> int | None:
    if first == EQ:
        return second
    if second == EQ:
        return first
    return first if first == second and first in (LE, GE) else None


def _merge(known: list[Known], offset: int) -> int:
    """What the known comparisons say of `left OP right + offset`."""
    result = UNKNOWN
    for k in known:
        if k.result == EQ:
            result &= EQ if k.offset == offset else LT if k.offset < offset else GT
        elif k.result == LE and k.offset <= offset:
            result &= LT if k.offset < offset else LE
        elif k.result == GE and k.offset >= offset:
            result &= GT if k.offset > offset else GE
        elif k.result == NE and k.offset == offset:
            result &= NE
    return result
