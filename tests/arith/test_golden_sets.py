"""Integer sets and iterator maps against what TVM 0.19 gives for random expressions.

Ratchets: the numbers of cases that are the same to the letter must not fall.
"""

import itertools

from golden import known, rows

from tvmagic import arith, ir, te, tir
from tvmagic.eval.integers import evaluate

INT_SET_SAME = 1512
ITER_MAP_SAME = 1055

# maps of TVM that do not have the value of the expression; here there is no map, or one that has it
KNOWN = known("iter_map")


def cases():
    return [case for case in rows("arith") if "int_set" in case and "error" not in case]


def build(case):
    variables = {name: te.var(name) for name in case["ranges"]}
    names = dict(variables, fld=tir.floordiv, flm=tir.floormod, min=tir.min, max=tir.max, sel=tir.Select)
    names.update(land=tir.And, lor=tir.Or, lnot=tir.Not)
    value = ir.expr(eval(case["expr"], names))
    return value, {variables[name]: ends for name, ends in case["ranges"].items()}


def same_int_set(case):
    value, ranges = build(case)
    domains = {v: arith.IntervalSet(low, low + extent - 1) for v, (low, extent) in ranges.items()}
    found = arith.Analyzer().int_set(value, domains)
    return [str(found.min_value), str(found.max_value)] == case["int_set"]


def same_iter_map(case):
    value, ranges = build(case)
    domains = {v: ir.Range.from_min_extent(*ends) for v, ends in ranges.items()}
    indices = arith.detect_iter_map([value], domains).indices
    same = ([str(i) for i in indices] or "not affine") == case["iter_map"]
    assert same or (case["id"] in KNOWN and all(is_right(value, ranges, i) for i in indices)), case["id"]
    return same


def is_right(value, ranges, index):
    """Whether an iterator has the value of the expression that it is for, at all places; TVM's has not where ours differs."""
    again = arith.normalize_iter_map_to_expr(index)
    variables = list(ranges)
    domains = [range(low, low + extent) for low, extent in ranges.values()]
    places = [dict(zip(variables, place)) for place in itertools.product(*domains)]
    return all(evaluate(value, place) == evaluate(again, place) for place in places)


def test_int_sets():
    assert sum(map(same_int_set, cases())) >= INT_SET_SAME


def test_iter_maps():
    assert sum(same_iter_map(case) for case in cases() if "iter_map" in case) >= ITER_MAP_SAME
