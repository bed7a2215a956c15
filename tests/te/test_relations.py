"""Splits, fusions and rebased loops on small numbers: what they say of values and sets, against all iterations."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.arith.int_set import IntSet
from tvmagic.errors import TVMagicError
from tvmagic.te.schedule.relations import DownContext, Fuse, Rebase, Singleton, Split, ceil_div, is_const, minus, plus


def axis(name: str) -> ir.IterVar:
    return ir.IterVar(None, ir.Var(name), ir.IterVar.DataPar)


def range_of(low: int, count: int) -> ir.Range:
    return ir.Range.from_min_extent(low, count)


def number(e: Any, point: dict[Any, int] | None = None) -> int:
    found = Analyzer().simplify(ir.substitute(e, {v: ir.IntImm("int32", n) for v, n in (point or {}).items()}))
    assert isinstance(found, ir.IntImm), found
    return found.value


def members(found: IntSet) -> set[int]:
    return set(range(number(found.min()), number(found.max()) + 1))


def passed_down(relation: Any, ranges: dict[ir.IterVar, ir.Range], **options: Any) -> dict[ir.IterVar, ir.Range]:
    context = DownContext(
        ranges, ranges.__setitem__, Analyzer(), options.get("may_miss", False), options.get("threads", set())
    )
    relation.domain_down(context)
    return ranges


# ---------------------------------------------------------------------------- splits


@pytest.mark.parametrize("given", ["factor", "nparts"])
def test_a_split_covers_its_parent_with_no_block_too_many(given: str) -> None:
    parent, outer, inner = axis("p"), axis("o"), axis("i")
    for low, extent, size in itertools.product((0, 3), range(9), range(1, 10)):
        by = {"factor": None, "nparts": None, given: ir.IntImm("int32", size)}
        ranges = passed_down(Split(parent, outer, inner, by["factor"], by["nparts"]), {parent: range_of(low, extent)})
        blocks, block = number(ranges[outer].extent), number(ranges[inner].extent)
        assert number(ranges[outer].min) == number(ranges[inner].min) == 0
        kept, other = (block, blocks) if given == "factor" else (blocks, block)
        assert kept == (min(size, extent) if extent else size)
        assert other == -(-extent // size)


def test_a_split_of_what_threads_run_keeps_its_size() -> None:
    parent, outer, inner = axis("p"), axis("o"), axis("i")
    split = Split(parent, outer, inner, ir.IntImm("int32", 8), None)
    assert split.disable_predication is False
    assert number(passed_down(split, {parent: range_of(0, 3)})[inner].extent) == 3
    assert number(passed_down(split, {parent: range_of(0, 3)}, threads={inner})[inner].extent) == 8
    assert number(passed_down(split, {parent: range_of(0, 3)}, may_miss=True)[inner].extent) == 8
    wide = passed_down(split, {parent: ir.Range.from_min_extent(ir.IntImm("int64", 0), ir.IntImm("int64", 20))})
    assert wide[inner].extent.dtype == "int64" and number(wide[outer].extent) == 3


def test_values_through_a_split() -> None:
    parent, outer, inner = axis("p"), axis("o"), axis("i")
    split = Split(parent, outer, inner, ir.IntImm("int32", 4), None)
    for low, extent in ((0, 10), (3, 8)):
        ranges = passed_down(split, {parent: range_of(low, extent)})
        for o, i in itertools.product(range(number(ranges[outer].extent)), range(4)):
            values: dict[ir.IterVar, Any] = {outer: ir.IntImm("int32", o), inner: ir.IntImm("int32", i)}
            split.index_up(ranges, values)
            assert number(values[parent]) == low + 4 * o + i
            back: dict[ir.IterVar, Any] = {parent: values[parent]}
            split.index_down(ranges, back)
            assert (number(back[outer]), number(back[inner])) == (o, i)


def test_sets_through_a_split() -> None:
    parent, outer, inner = axis("p"), axis("o"), axis("i")
    split = Split(parent, outer, inner, ir.IntImm("int32", 4), None)
    for low, extent in ((0, 8), (3, 8), (0, 10)):
        ranges = passed_down(split, {parent: range_of(low, extent)})
        blocks = number(ranges[outer].extent)
        for a, b, c, d in itertools.product(range(blocks), range(blocks), range(4), range(4)):
            if a > b or c > d:
                continue
            sets = {outer: IntSet.interval(a, b), inner: IntSet.interval(c, d)}
            case = split.domain_up(ranges, sets)
            values = {low + 4 * o + i for o in range(a, b + 1) for i in range(c, d + 1)}
            whole = (a, b, c, d) == (0, blocks - 1, 0, 3)
            assert case.startswith("case 1" if whole else "case 2")
            expected = set(range(low, low + extent)) if whole else set(range(min(values), max(values) + 1))
            assert members(sets[parent]) == expected


@pytest.mark.parametrize(
    ("extent", "factor", "children", "disabled", "checked"),
    [
        (8, 4, (False, False), False, False),
        (9, 4, (False, False), False, True),
        (8, 4, (True, False), False, True),
        (8, 4, (False, True), False, True),
        (9, 4, (True, True), True, False),
    ],
)
def test_which_splits_are_checked(
    extent: int, factor: int, children: tuple[bool, bool], disabled: bool, checked: bool
) -> None:
    parent, outer, inner = axis("p"), axis("o"), axis("i")
    split = Split(parent, outer, inner, ir.IntImm("int32", factor), None, disabled)
    ranges = passed_down(split, {parent: range_of(0, extent)})
    checks = {outer: children[0], inner: children[1]}
    split.check_up(ranges, checks, Analyzer())
    assert checks[parent] is checked
    if not disabled:
        for missing in (outer, inner):
            checks = {outer: False, inner: False}
            split.check_up({iv: r for iv, r in ranges.items() if iv is not missing}, checks, Analyzer())
            assert checks[parent] is True


# ---------------------------------------------------------------------------- fusions


def test_values_through_a_fusion() -> None:
    outer, inner, fused = axis("o"), axis("i"), axis("f")
    fuse = Fuse(outer, inner, fused)
    ranges = passed_down(fuse, {outer: range_of(2, 3), inner: range_of(1, 5)})
    assert number(ranges[fused].min) == 0 and number(ranges[fused].extent) == 15
    for place, (o, i) in enumerate(itertools.product(range(2, 5), range(1, 6))):
        values: dict[ir.IterVar, Any] = {fused: ir.IntImm("int32", place)}
        fuse.index_up(ranges, values)
        assert (number(values[outer]), number(values[inner])) == (o, i)
        back: dict[ir.IterVar, Any] = {outer: ir.IntImm("int32", o), inner: ir.IntImm("int32", i)}
        fuse.index_down(ranges, back)
        assert number(back[fused]) == place


def test_sets_through_a_fusion() -> None:
    """They hold all iterations, and no more where one row, or a part of it that divides it, is asked for."""
    outer, inner, fused = axis("o"), axis("i"), axis("f")
    fuse, cases = Fuse(outer, inner, fused), set()
    for rows, row, low_o, low_i in itertools.product((1, 2, 3), (1, 2, 3, 4, 6), (0, 2), (0, 1)):
        ranges = passed_down(fuse, {outer: range_of(low_o, rows), inner: range_of(low_i, row)})
        count = rows * row
        for low, high in itertools.combinations_with_replacement(range(count), 2):
            point = ir.IntImm("int32", low)
            sets = {fused: IntSet.single_point(point) if low == high else IntSet.interval(low, high)}
            case = fuse.domain_up(ranges, sets)[:6]
            cases.add(case)
            places = [(low_o + f // row, low_i + f % row) for f in range(low, high + 1)]
            outers, inners = ({p[k] for p in places} for k in (0, 1))
            assert members(sets[outer]) == outers, (case, rows, row, low, high)
            size = high - low + 1
            assert case == (
                "case 1"
                if size == count
                else "case 2"
                if low == high
                else "case 3"
                if row % size == 0 and low % size == 0
                else "case 4"
            )
            whole = set(range(low_i, low_i + row))
            assert members(sets[inner]) == (inners if case in ("case 2", "case 3") else whole)
    assert cases == {"case 1", "case 2", "case 3", "case 4"}


def test_fusions_that_no_index_counts() -> None:
    outer, inner, fused = axis("o"), axis("i"), axis("f")
    fuse, most = Fuse(outer, inner, fused), (1 << 31) - 1
    assert number(passed_down(fuse, {outer: range_of(0, most), inner: range_of(0, 1)})[fused].extent) == most
    with pytest.raises(TVMagicError, match="`int32`"):
        passed_down(fuse, {outer: range_of(0, 1 << 30), inner: range_of(0, 2)})
    some = ir.SizeVar("n")
    ranges = passed_down(fuse, {outer: ir.Range(0, some), inner: range_of(0, 2)})
    assert str(ranges[fused].extent) == "n * 2"


# ---------------------------------------------------------------------------- the others


def test_rebased_loops_and_singletons() -> None:
    parent, rebased, once = axis("p"), axis("r"), axis("s")
    relation = Rebase(parent, rebased)
    ranges = passed_down(relation, {parent: range_of(3, 5)})
    assert number(ranges[rebased].min) == 0 and number(ranges[rebased].extent) == 5
    values: dict[ir.IterVar, Any] = {rebased: ir.IntImm("int32", 2)}
    relation.index_up(ranges, values)
    assert number(values[parent]) == 5
    relation.index_down(ranges, back := {parent: ir.IntImm("int32", 7)})
    assert number(back[rebased]) == 4
    for low, high, case in ((0, 4, "case 1"), (1, 3, "case 2")):
        sets = {rebased: IntSet.interval(low, high)}
        assert relation.domain_up(ranges, sets).startswith(case)
        assert members(sets[parent]) == set(range(3 + low, 4 + high))
    single = Singleton(once)
    assert number(passed_down(single, {})[once].extent) == 1
    single.index_down({}, values)
    single.mask_down(masks := {})
    assert number(values[once]) == 0 and masks == {once: 0} and single.parents() == ()
    assert [repr(r) for r in (relation, single)] == ["rebase(p -> r)", "singleton( -> s)"]


def test_marks_go_along_relations() -> None:
    parent, outer, inner, other, fused = (axis(n) for n in "poiqf")
    split, fuse = Split(parent, outer, inner, ir.IntImm("int32", 4), None), Fuse(inner, other, fused)
    masks = {parent: 1, other: 2}
    split.mask_down(masks)
    fuse.mask_down(masks)
    assert masks == {parent: 1, other: 2, outer: 1, inner: 1, fused: 3}
    masks = {outer: 4, fused: 8}
    fuse.mask_up(masks)
    split.mask_up(masks)
    assert masks == {outer: 4, fused: 8, inner: 8, other: 8, parent: 12}
    fuse.mask_up(unknown := {parent: 1})
    assert unknown == {parent: 1}  # what has no bits gives none
    for inherited in (False, True):
        checks = {fused: inherited}
        fuse.check_up({}, checks, Analyzer())
        assert checks == {fused: inherited, inner: inherited, other: inherited}


def test_small_steps_of_index_arithmetic() -> None:
    n, x, analyzer = ir.SizeVar("n"), ir.Var("x"), Analyzer()
    zero, two = ir.IntImm("int32", 0), ir.IntImm("int32", 2)
    assert plus(x, zero) is x and minus(x, zero) is x and str(plus(x, two)) == "x + 2" and str(minus(x, two)) == "x - 2"
    assert is_const(two, 2) and not is_const(two, 1) and not is_const(x, 2)
    for a, b in itertools.product(range(9), range(1, 5)):
        assert number(ceil_div(analyzer, ir.IntImm("int32", a), ir.IntImm("int32", b))) == -(-a // b)
    assert str(ceil_div(analyzer, n * 4, two)) == "n * 2" and str(ceil_div(analyzer, n, two)) == "(n + 1) // 2"
