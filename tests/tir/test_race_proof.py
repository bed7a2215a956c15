"""The parts of the search for races, each against counting: proofs, rows of accesses, bounds, values of expressions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tvmagic import ir
from tvmagic.eval.indices import Unevaluated, evaluate
from tvmagic.ir.query import variables_in
from tvmagic.tir.analysis.race_accesses import Access, Domain, Place
from tvmagic.tir.analysis.race_proof import Forms, never_meet
from tvmagic.tir.analysis.race_search import Search

ZERO = ir.IntImm("int32", 0)
BUFFER = ir.decl_buffer((1 << 20,), "int32", "A")


def domain(name: str, extent: Any, begin: Any = 0) -> Domain:
    return Domain(ir.Var(name, "int32"), ir.IntImm("int32", 0) + begin, ir.IntImm("int32", 0) + extent)


def access(
    indices: Sequence[Any], domains: Sequence[Domain], guards: Sequence[ir.PrimExpr] = (), write: bool = True
) -> Access:
    place = Place(tuple(domains), tuple((guard, len(domains)) for guard in guards))
    node = ir.Evaluate(ZERO)
    return Access(BUFFER, tuple(ZERO + i for i in indices), write, node, node, place, 0)


def proved(
    parallel: Sequence[Domain], shared: Sequence[Domain], *accesses: Access, sizes: Sequence[ir.Var] = ()
) -> bool:
    """Whether no two different iterations of `parallel` are proved to touch one element by two accesses (or by one)."""
    forms = Forms([d.var for d in parallel], {d.var for d in shared} | set(sizes), set())
    forms.add_domains(shared)
    first, *rest = forms.of(accesses)
    return never_meet(forms, first, rest[0] if rest else first)


SEEDS = 400
P, Q, I, J, S = domain("p", 24), domain("q", 6), domain("i", 4), domain("j", 8), domain("s", 5)
p, q, i, j, s = (d.var for d in (P, Q, I, J, S))
n, m = ir.SizeVar("n", "int32"), ir.SizeVar("m", "int32")
LONG, NM = domain("l", n), domain("f", n * m)
length, flat = LONG.var, NM.var


@pytest.mark.parametrize(
    ("indices", "free"),
    [
        # a factor that the rest cannot reach, and one that it just reaches
        ([p * 4 + i], True),
        ([p * 3 + i], False),
        ([p * 4 + i * 2], False),
        ([p * 8 + i * 2], True),
        ([i * 24 + p], True),
        ([i * 23 + p], False),
        ([p * -4 + i], True),
        ([p * -3 + i], False),
        ([p * 32 + i * 8 + j], True),
        ([p * 31 + i * 8 + j], False),
        ([p * 32 + i + j * 4], True),
        ([p * 32 + i + j * 3], True),
        ([p * 12 + i + j], True),
        ([p * 10 + i + j], False),
        ([p * 11 + i + j], True),
        # quotients and remainders
        ([p // 8, p % 8], True),
        ([p // 8, p % 4], False),
        ([p // 8, p % 16], True),
        ([p // 8 * 8 + p % 8], True),
        ([p // 8 * 7 + p % 8], False),
        ([p // 12, p // 4 % 3, p % 4], True),
        ([p // 12, p // 4 % 2, p % 4], False),
        ([p // 12, p // 4 % 6, p % 4], True),
        ([(p * 4 + i) // 4], True),
        ([(p * 4 + i) // 8], False),
        ([(p * 4 + i) // 8, (p * 4 + i) % 8], True),
        ([(p * 4 + i) // 2, i], True),
        ([(p * 8 + i) // 16, (p * 8 + i) % 16], True),
        ([(p * 8 + i + 4) // 8], True),
        ([p % 24], True),
        ([p % 23], False),
        ([p // 1], True),
        ([p % 1], False),
        ([(p + 8) // 8, p % 8], True),
        # several dimensions, each with a part
        ([p // 8, i, p % 8], True),
        ([p + i, i], True),
        ([p + i, j], False),
        ([p + s], True),
        ([p * s], False),
        ([s, p], True),
        ([s, i], False),
        # no integers that are known
        ([p * n], False),
        ([p + n], True),
        ([n, p], True),
    ],
)
def test_iterations_that_never_meet(indices: list[Any], free: bool) -> None:
    """What is decided here is also what counting says; where a size is free, for all of them."""
    assert proved([P], [S], access(indices, [S, P, I, J]), sizes=[n]) is free
    if not any(isinstance(v, ir.SizeVar) for index in indices for v in variables_in(index)):
        assert meets(indices, indices, [S], [P], [I, J]) is not free


@pytest.mark.parametrize(
    ("indices", "free"),
    [
        ([flat // m, flat % m], True),
        ([flat % m, flat // m], True),
        ([flat // m, flat % n], False),
        ([flat // m], False),
        ([flat // m + flat % m], False),
        ([flat], True),
        ([flat * 2 + flat % 2], True),
        ([flat - flat % 2], False),
        ([flat * 2], True),
        ([-flat], True),
        ([length, flat], True),
        ([length], False),
    ],
)
def test_iterations_that_never_meet_for_all_sizes(indices: list[Any], free: bool) -> None:
    assert proved([NM], [], access(indices, [NM, LONG]), sizes=[n, m]) is free


def test_a_size_that_differs_between_iterations_proves_nothing() -> None:
    assert proved([NM], [], access([flat // m, flat % m], [NM]), sizes=[n]) is False
    assert proved([P], [S], access([p // (s + 1), p % (s + 1)], [S, P])) is True
    assert proved([P], [], access([p // (s + 1), p % (s + 1)], [P, S])) is False


def test_begins_of_loops_count() -> None:
    outer = domain("o", 6)
    rest = domain("r", 4, outer.var * 4)
    assert proved([outer], [], access([rest.var], [outer, rest])) is True
    longer = domain("r", 5, outer.var * 4)
    assert proved([outer], [], access([longer.var], [outer, longer])) is False
    assert proved([domain("x", 4, 100)], [], access([ZERO], [outer])) is False


@pytest.mark.parametrize(
    ("first", "second", "free"),
    [
        ([0], [1], True),
        ([0], [-1], True),
        ([1], [0], True),
        ([0], [0], False),
        ([p], [p + 1], False),
        ([p * 2], [p * 2 + 1], True),
        ([p * 2 + 1], [p * 2], True),
        ([p * 2], [p * 2 + 2], False),
        ([p], [p + 23], False),
        ([p], [p + 24], True),
        ([p], [p - 24], True),
        ([p * 4 + i], [p * 4 + i + 1], False),
        ([p * 8 + i], [p * 8 + i + 4], True),
        ([p * 8 + i], [p * 8 + i + 5], False),
        ([p, 0], [p + 1, 1], True),
        ([p, 0], [p + 1, 0], False),
        ([i, p], [j, p], True),
        ([p * 24], [i], False),
        ([p], [23 - p], False),
        ([p * 2], [47 - p * 2], True),
        ([n + p], [n + p], True),
        ([n], [n + 1], True),
        ([n], [n], False),
        ([p * 6 + q], [p * 6 + 5 - q], True),
        ([p], [p * 2], False),
        ([p // 4, p % 4], [p // 4, p % 4], True),
        ([p // 4 * 4 + p % 4], [p], True),
        ([p // 4], [p // 4 + 6], True),
        ([p // 4], [p // 4 + 5], False),
        ([p % 4], [p % 4 + 4], True),
        ([p % 4], [p % 4 + 3], False),
        ([s * 24 + p], [s * 24 + p], True),
    ],
)
def test_two_accesses_that_never_meet(first: list[Any], second: list[Any], free: bool) -> None:
    around = [S, P, Q, I, J]
    assert proved([P], [S, Q], access(first, around), access(second, around), sizes=[n]) is free
    if not any(isinstance(v, ir.SizeVar) for index in (*first, *second) for v in variables_in(ZERO + index)):
        assert meets(first, second, [S, Q], [P], [I, J]) is not free


def test_accesses_of_different_ranks_may_meet() -> None:
    assert proved([P], [], access([p], [P]), access([p, ZERO], [P])) is False


def test_conditions_that_are_equalities_count() -> None:
    one = access([ZERO], [P], [ir.EQ(p, ir.IntImm("int32", 3))])
    assert proved([P], [], one) is True
    assert proved([P], [], access([ZERO], [P], [p < 3])) is False
    other = access([ZERO], [P], [ir.EQ(p, ir.IntImm("int32", 4))])
    assert proved([P], [], one, other) is False
    same = access([ZERO], [P], [ir.EQ(p, i), ir.EQ(i, ir.IntImm("int32", 3))])
    assert proved([P], [], same, one) is True
    assert proved([P, Q], [], access([p], [P, Q], [ir.EQ(q, p)])) is True
    assert proved([P, Q], [], access([p], [P, Q])) is False
    single = domain("z", 1)
    assert proved([P, single], [], access([p], [P, single])) is True


def meets(
    first: Sequence[ir.PrimExpr],
    second: Sequence[ir.PrimExpr],
    shared: Sequence[Domain],
    parallel: Sequence[Domain],
    inner: Sequence[Domain],
) -> bool:
    """Whether two different iterations touch one element, found by counting."""
    touched: dict[Any, set[Any]] = {}
    for number, indices in enumerate((first, second)):
        for common, iteration, place in places(indices, shared, parallel, inner):
            touched.setdefault((common, place), set()).add((number, iteration))
    return any(
        a != b and (x, y) == (0, 1) for found in touched.values() for (x, a), (y, b) in itertools.product(found, found)
    )


def number(node: Any) -> int:
    return node.value


def places(indices: Sequence[Any], *groups: Sequence[Domain]) -> Any:
    """For all values of the variables, those of the first group, those of the second, and the element."""
    domains = [d for group in groups for d in group]
    place = eval(f"lambda {', '.join(d.var.name for d in domains)}: ({', '.join(map(str, indices))},)")
    common = len(groups[0])
    parallel = common + len(groups[1])
    for values in itertools.product(*(range(number(d.begin), number(d.begin) + number(d.extent)) for d in domains)):
        yield values[:common], values[common:parallel], place(*values)


class Indices:
    """Random indices: sums of variables, quotients and remainders with factors that often fit together."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        choice = self.random.choice
        self.shared = [domain("s", choice([1, 3]), choice([0, 2]))]
        self.parallel = [domain("p", choice([4, 6, 12]))] + [domain("q", choice([2, 3]))] * choice([0, 0, 1])
        self.inner = [domain("i", choice([1, 2, 4])), domain("j", choice([2, 3]), choice([0, 1]))]
        self.rank = choice([1, 2, 2, 3])
        self.first = [self.index() for _ in range(self.rank)]
        self.second = (
            [index + choice([0, 0, 1, 4]) for index in self.first]
            if choice([0, 1, 1])
            else [self.index() for _ in range(self.rank)]
        )

    def index(self) -> ir.PrimExpr:
        total: ir.PrimExpr = ir.IntImm("int32", self.random.choice([0, 0, 0, 1, 5]))
        for _ in range(self.random.choice([1, 1, 2, 2, 3])):
            total = total + self.part() * self.random.choice([1, 1, 2, 3, 4, 6, 8, 12, 24, -1, -4])
        return total

    def part(self) -> ir.PrimExpr:
        everything = [*self.shared, *self.parallel, *self.parallel, *self.inner]
        var = self.random.choice(everything).var
        divisor = ir.IntImm("int32", self.random.choice([1, 2, 3, 4, 6, 8, 12]))
        kind = self.random.random()
        if kind < 0.5:
            return var
        if kind > 0.85:
            inner = self.random.choice(self.inner)
            var = var * inner.extent + (inner.var - inner.begin)
        return var // divisor if self.random.random() < 0.5 else var % divisor

    def accesses(self) -> tuple[Access, Access]:
        domains = [*self.shared, *self.parallel, *self.inner]
        return access(self.first, domains), access(self.second, domains)


def test_what_is_proved_of_random_indices() -> None:
    """No proof is wrong, and most of what is true is proved."""
    true = found = 0
    for seed in range(SEEDS):
        program = Indices(seed)
        free = not meets(program.first, program.second, program.shared, program.parallel, program.inner)
        proof = proved(program.parallel, program.shared, *program.accesses())
        assert free or not proof, f"{seed}: {program.first} and {program.second} meet"
        true, found = true + free, found + proof
    assert true == 293 and found >= 275, (true, found)


# ---------------------------------------------------------------------------- the search


@pytest.mark.parametrize(
    ("dtype", "known"),
    [("int32", True), ("uint32", True), ("int64", True), ("int8", False), ("uint16", False), ("float32", False)],
)
def test_casts_that_keep_values_are_evaluated(dtype: str, known: bool) -> None:
    node, values = ir.Cast(dtype, p), {p: np.arange(3)}
    if known:
        assert evaluate(node, values).tolist() == [0, 1, 2]
    else:
        with pytest.raises(Unevaluated):
            evaluate(node, values)


def search(
    *accesses: Access,
    parallel: Sequence[Domain] = (P,),
    shared: Sequence[Domain] = (),
    sizes: Mapping[ir.Var, int] = {},
) -> Any:
    return Search(parallel, shared, sizes).run(accesses)


def test_what_the_search_finds() -> None:
    """The first pair of iterations, the values of all variables in both and the element."""
    found = search(access([p // 2 + 5], [P]))
    assert not found.reason and found.conflict.certain and found.conflict.element == (5,)
    assert [values[p] for values in found.conflict.values] == [0, 1]
    found = search(access([p + i + s * 100], [S, P, I], [s >= 3, i < 2, p > 7]), shared=[S])
    assert [[values[v] for v in (s, p, i)] for values in found.conflict.values] == [[3, 8, 1], [3, 9, 0]]
    assert found.conflict.element == (309,)
    assert search(access([p + s * 100], [S, P]), shared=[S]).conflict is None
    assert search(access([p + s], [S, P]), shared=[S]).conflict is None
    assert search(access([p + s], [P, S])).conflict.element == (1,)
    assert search(access([p % n], [P]), sizes={n: 7}).conflict.values[1][p] == 7
    assert search(access([p % n], [P]), sizes={n: 24}).conflict is None
    assert search(access([p], [P]), access([p + 23], [P], write=False)).conflict.element == (23,)
    assert search(access([p], [P]), access([p + 24], [P], write=False)).conflict is None


def test_loops_that_never_run_touch_nothing() -> None:
    for extent in (0, -1, s - 10):
        nothing = domain("e", extent)
        found = search(access([ZERO], [S, P, nothing]), shared=[S])
        assert found.conflict is None and not found.reason
    found = search(access([ZERO], [S, P, domain("e", s - 3)]), shared=[S])
    assert [values[s] for values in found.conflict.values] == [4, 4]


def test_data_makes_a_conflict_uncertain() -> None:
    load = BUFFER[p]
    found = search(access([ZERO], [P], [load > 0]))
    assert found.conflict is not None and not found.conflict.certain
    found = search(access([load], [P]))
    assert found.conflict is None and "depends on data" in found.reason
    found = search(access([load], [P]), access([p // 2], [P]))
    assert found.conflict.certain and found.reason
