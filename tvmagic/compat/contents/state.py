"""What is known at one point: for each buffer, values and the elements that have them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.presburger import Condition, IntegerLogic, Linear
from tvmagic.compat.contents.graph import Step
from tvmagic.compat.contents.touches import Axes
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.query import nodes_of

MOST_FACTS = 16  # about one buffer


@dataclass(eq=False)
class Fact:
    """The elements for which `condition` holds, in the variables of the axes, have `value`."""

    condition: Condition
    value: ir.PrimExpr


Contents = Mapping[ir.Buffer, tuple[Fact, ...]]


def _floats(e: ir.PrimExpr) -> list[tuple[float, float]]:
    return [(number.value, math.copysign(1.0, number.value)) for number in nodes_of(e, ir.FloatImm)]


def same_value(a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
    """Whether two values are equal, bit for bit."""
    return a is b or (deep_equal(a, b) and _floats(a) == _floats(b))


def first_load(e: ir.PrimExpr) -> ir.BufferLoad | None:
    """A load in `e` with indices that load nothing."""
    return next(iter(nodes_of(e, ir.BufferLoad)), None)


class Knowledge:
    """The operations on contents."""

    def __init__(self, logic: IntegerLogic, axes: Axes) -> None:
        self.logic, self.axes = logic, axes
        self.analyzer = Analyzer()

    def simplified(self, value: ir.PrimExpr) -> ir.PrimExpr:
        """A value in a form in which equal ones look the same."""
        return self.analyzer.simplify(value) if value.dtype.is_index else value

    def with_fact(self, facts: Iterable[Fact], condition: Condition, value: ir.PrimExpr) -> tuple[Fact, ...]:
        """The facts with a new one, joined to another one of the same value."""
        condition = self.logic.reduced(condition)
        result: list[Fact] = []
        for fact in facts:
            if same_value(fact.value, value):
                condition = self.logic.reduced(self.logic.either(fact.condition, condition))
            else:
                result.append(fact)
        if not condition.is_false:
            result.append(Fact(condition, value))
        return tuple(result[-MOST_FACTS:])

    def replaced(self, contents: Contents, values: Mapping[ir.Var, ir.PrimExpr]) -> Contents:
        """The contents with variables replaced."""
        if not values:
            return contents
        sums = {var: self.logic.linear(value) for var, value in values.items()}
        return {b: tuple([self._replaced(f, values, sums) for f in facts]) for b, facts in contents.items()}

    def _replaced(self, fact: Fact, values: Mapping[ir.Var, ir.PrimExpr], sums: Mapping[ir.Var, Linear]) -> Fact:
        value = ir.substitute(fact.value, values)
        value = fact.value if value is fact.value else self.simplified(value)
        return Fact(self.logic.reduced(self.logic.replaced(fact.condition, sums, values)), value)

    def conditions(self, step: Step) -> Condition:
        """The conditions of a step together."""
        return self.logic.both(*[self.logic.condition(c) for c in step.conditions])

    def under(self, contents: Contents, condition: Condition) -> Contents:
        """The contents where `condition` holds, nothing elsewhere."""
        if condition.is_true:
            return contents
        both = self.logic.both
        kept = {b: [Fact(both(f.condition, condition), f.value) for f in facts] for b, facts in contents.items()}
        return {b: tuple([f for f in facts if not f.condition.is_false]) for b, facts in kept.items()}

    def either(self, a: Contents, b: Contents) -> Contents:
        """What one of them says, for contents that exclude each other."""
        result = dict(a)
        for buffer, facts in b.items():
            for fact in facts:
                result[buffer] = self.with_fact(result.get(buffer, ()), fact.condition, fact.value)
        return result

    def common(self, a: Contents, b: Contents) -> Contents:
        """What both of them say."""
        result: dict[ir.Buffer, tuple[Fact, ...]] = {}
        for buffer in a.keys() & b.keys():
            facts: tuple[Fact, ...] = ()
            for first in a[buffer]:
                for second in b[buffer]:
                    condition = self.logic.both(first.condition, second.condition)
                    if not condition.is_false and self.agree(condition, first.value, second.value):
                        facts = self.with_fact(facts, condition, first.value)
            result[buffer] = facts
        return result

    def agree(self, condition: Condition, a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
        """Whether two values are equal where `condition` holds."""
        if same_value(a, b):
            return True
        if a.dtype is not b.dtype or not a.dtype.is_index or self.analyzer.wraps(a) or self.analyzer.wraps(b):
            return False
        logic = self.logic
        return logic.implies(condition, logic.equal(logic.linear(a), logic.linear(b)))

    def narrowed(self, old: Contents, new: Contents) -> Contents:
        """What `new` says as far as `old` said it, too."""
        result: dict[ir.Buffer, tuple[Fact, ...]] = {}
        for buffer in old.keys() & new.keys():
            facts: tuple[Fact, ...] = ()
            for fact in new[buffer]:
                before = next((f for f in old[buffer] if same_value(f.value, fact.value)), None)
                if before is not None:
                    both = self.logic.both(before.condition, fact.condition)
                    facts = self.with_fact(facts, both, fact.value)
            result[buffer] = facts
        return result

    def equivalent(self, a: Contents, b: Contents) -> bool:
        """Whether two contents say the same."""
        return all(self._same_facts(a.get(key, ()), b.get(key, ())) for key in a.keys() | b.keys())

    def _same_facts(self, a: tuple[Fact, ...], b: tuple[Fact, ...]) -> bool:
        if len(a) != len(b):
            return False
        for fact in a:
            twin = next((other for other in b if same_value(fact.value, other.value)), None)
            if twin is None or not self.logic.equivalent(fact.condition, twin.condition):
                return False
        return True

    # ------------------------------------------------------------------ values of loads

    def at(self, fact: Fact, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> Fact:
        """A fact about a buffer as one about the element at `indices`."""
        values = dict(zip(self.axes.of(buffer), indices))
        sums = {var: self.logic.linear(value) for var, value in values.items()}
        value = ir.substitute(fact.value, values)
        return Fact(self.logic.replaced(fact.condition, sums, values), self.simplified(value))
