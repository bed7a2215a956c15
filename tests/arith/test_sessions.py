"""What an analyzer remembers from question to question, and forgets when a condition ends or a range changes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from arith_random import RandomExpressions, mark

from tvmagic import ir
from tvmagic.arith.analyzer import BUDGET, Analyzer

W, DATA = ir.Var("w"), ir.decl_buffer((4,), "int32", "A")
SIMPLIFIERS = ("rewrite_simplify", "canonical_simplify", "simplify")


class Session:
    """An analyzer that is asked, told and made to forget at random; `fresh` makes one that was told the same at once."""

    def __init__(self, choice: random.Random) -> None:
        self.choice, self.source = choice, RandomExpressions(choice)
        self.ranges = {**self.source.ranges, W: (0, 16)}
        self.conditions: list[Any] = []
        self.scopes: list[Any] = []
        self.analyzer = self.bound()
        element = ir.BufferLoad(DATA, [self.source.vars[0]])
        self.pool = [self.source.index(2), ir.Add(ir.FloorMod(W, ir.IntImm("int32", 8)), self.source.index(1))]
        self.pool += [ir.Sub(ir.Max(element, self.source.vars[1]), element), self.source.condition(1)]
        self.told = [self.source.condition(1), ir.LT(element, self.source.index(0)), self.source.condition(0)]

    def bound(self) -> Analyzer:
        analyzer = Analyzer()
        for var, (low, extent) in self.ranges.items():
            analyzer.bind(var, ir.Range.from_min_extent(low, extent))
        return analyzer

    def fresh(self) -> Analyzer:
        analyzer = self.bound()
        for condition in self.conditions:
            analyzer.enter_constraint(condition)
        return analyzer

    def tell(self) -> None:
        """Begin or end a condition, or give `w`, which no condition is about, another range."""
        kind = self.choice.randrange(5)
        if kind < 2 and len(self.scopes) < 3:
            self.conditions.append(self.choice.choice(self.told))
            self.scopes.append(self.analyzer.constraint_scope(self.conditions[-1]))
            self.scopes[-1].__enter__()
        elif kind < 4 and self.scopes:
            self.conditions.pop()
            self.scopes.pop().__exit__()
        else:
            self.ranges[W] = (self.choice.choice([0, 0, -3]), self.choice.choice([5, 8, 16]))
            self.analyzer.bind(W, ir.Range.from_min_extent(*self.ranges[W]), True)

    def ask(self) -> tuple[str, int]:
        """An answer, which is that of a fresh analyzer; and how many nodes were visited for it."""
        e = self.choice.choice(self.pool)
        name = self.choice.choice([*SIMPLIFIERS, *SIMPLIFIERS, "const_int_bound", "modular_set", "int_set"])
        answer, wanted = str(getattr(self.analyzer, name)(e)), str(getattr(self.fresh(), name)(e))
        assert answer == wanted, (name, str(e), list(map(str, self.conditions)))
        return answer, BUDGET - self.analyzer.budget if name in SIMPLIFIERS else 0


def test_sessions() -> None:
    """The answers are those of an analyzer that was told all at once, and take as much work as before."""
    found: Counter[str] = Counter()
    for seed in range(60):
        session = Session(random.Random(seed))
        for _ in range(8):
            session.tell()
            for _ in range(2):
                answer, work = session.ask()
                found.update(texts=mark(seed, answer), work=work)
    assert found == Counter(work=3365, texts=2053584502534)
