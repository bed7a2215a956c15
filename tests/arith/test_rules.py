"""Every rule of the tables: it fires, and it keeps the value."""

from __future__ import annotations

import random
from typing import Any

import pytest
from arith_evaluate import evaluate

from tvmagic import ir
from tvmagic.arith import Analyzer, observe_rules
from tvmagic.arith.rewrite import RULES
from tvmagic.arith.rewrite.compile import Rule, parse_expression, shape_of
from tvmagic.errors import TVMagicError

FIELDS = {ir.Not: ("a",), ir.Select: ("condition", "true_value", "false_value")}
LOGICAL = (ir.And, ir.Or, ir.Not)
ALL_RULES = [rule for rules in RULES.values() for rule in rules.rules]
WITH_PATTERNS = [rule for rule in ALL_RULES if rule.patterns]


class Instance:
    """A pattern with variables and random constants in the places of its names."""

    def __init__(self, rule: Rule, pattern: str, choice: random.Random) -> None:
        self.choice = choice
        self.floating = rule.section == "other" or "f1" in pattern
        self.named: dict[str, Any] = {"lanes": 4}
        self.expr = self.build(shape_of(parse_expression(pattern)), rule.root is ir.Not)

    def build(self, shape: Any, boolean: bool = False) -> Any:
        if shape.value is not None:
            return ir.IntImm("int32", shape.value)
        if shape.name:
            if shape.name not in self.named:
                self.named[shape.name] = self.stand_in(shape.name, boolean)
            return self.named[shape.name]
        logical = shape.cls in LOGICAL or (boolean and shape.cls is ir.Broadcast)
        parts = [self.build(p, logical or (shape.cls is ir.Select and i == 0)) for i, p in enumerate(shape.parts)]
        if shape.cls is ir.Broadcast or shape.cls is ir.Ramp:
            return shape.cls(*parts)
        # a name beside a vector is a vector too
        lanes = max((p.dtype.lanes for p in parts), default=1)
        parts = [ir.Broadcast(p, lanes) if p.dtype.lanes < lanes else p for p in parts]
        return shape.cls(*parts)

    def stand_in(self, name: str, boolean: bool) -> Any:
        if name[0] == "c":
            return ir.IntImm("int32", self.choice.choice([-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8]))
        if name == "f1":
            return ir.FloatImm("float32", self.choice.choice([0.0, 1.0, 2.0]))
        return ir.Var(name, "bool" if boolean else "float32" if self.floating else "int32")


def try_once(rule: Rule, pattern_index: int, choice: random.Random) -> bool:
    """Apply one pattern of a rule to an instance of it; whether it fired."""
    instance = Instance(rule, rule.patterns[pattern_index], choice)
    e = instance.expr
    variables = [v for v in instance.named.values() if isinstance(v, ir.Var)]
    analyzer = Analyzer()
    ranges = {}
    for var in variables:
        if var.dtype == "int32":
            low = choice.choice([0, 0, 0, 1, 2, -3, -7])
            ranges[var] = (low, low + choice.choice([1, 2, 4, 7]))
            analyzer.bounds.update(var, (ranges[var][0], ranges[var][1] - 1))
    names = FIELDS.get(rule.root, ("a", "b"))
    function = rule.compile_pattern(
        pattern_index, rule.patterns[pattern_index], tuple(type(getattr(e, n)) for n in names)
    )
    try:
        result = function(analyzer.rewriter, e) if function is not None else None
    except TVMagicError:  # a divisor that was chosen to be zero
        return False
    if result is None:
        return False
    assert result.dtype is e.dtype
    for _ in range(12):
        point = {v: choice.randrange(*ranges[v]) if v in ranges else choice.choice([True, False]) for v in variables}
        try:
            before = evaluate(e, point)
        except ZeroDivisionError:
            continue
        if rule.root is ir.Div and instance.floating:
            continue
        assert evaluate(result, point) == before, f"{rule.name}: {e} became {result} at {point}"
    return True


@pytest.mark.parametrize("rule", WITH_PATTERNS, ids=lambda rule: rule.name)
def test_rule_fires_and_keeps_the_value(rule: Rule) -> None:
    choice = random.Random(rule.name)
    for index in range(len(rule.patterns)):
        fired = 0
        for _ in range(4000):
            fired += try_once(rule, index, choice)
            if fired >= 12:
                break
        assert fired, f"`{rule.patterns[index]}` never fits"


def test_rules_are_named_and_countable() -> None:
    assert len(ALL_RULES) > 300
    assert sum(len(rule.patterns) for rule in ALL_RULES) > 450
    names = [rule.name for rule in ALL_RULES]
    assert len(set(names)) == len(names)


def test_observer_sees_the_rule_that_fired() -> None:
    x, y = ir.Var("x"), ir.Var("y")
    seen: list[tuple[str, str, str]] = []
    with observe_rules(lambda rule, before, after: seen.append((rule.name, str(before), str(after)))):
        Analyzer().rewrite_simplify((x - y) + y)
    assert seen[0] == ("Add: (x - y) + y -> x", "x - y + y", "x")
    seen.clear()
    Analyzer().rewrite_simplify((x - y) + y)
    assert not seen
