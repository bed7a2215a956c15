"""Integer sets and iterator maps against what TVM 0.19 gives for random expressions.

Ratchets: the numbers of cases that are the same to the letter must not fall.
"""

import json
import pathlib

import pytest

from tvmagic import arith, ir, te, tir

GOLDEN = pathlib.Path(__file__).parents[2].parent / "shared" / "golden" / "arith.jsonl"
INT_SET_SAME = 1512
ITER_MAP_SAME = 1055

# TVM writes maps that do not have the value of the expression; these stay as they are here:
# - a remainder of a remainder that does not divide it (`x % 4 % 3` as `x % 3`),
# - a negative divisor, from a scale of -1 that was taken out of the division,
# - a padding on the left side that two divisions would need to differ.
NOT_MAPS = {597, 838, 864, 874, 1221, 1391, 1456, 1551, 1576, 1601, 1651}


def cases():
    if not GOLDEN.exists():
        pytest.skip("the golden cases are not beside this clone")
    with GOLDEN.open() as lines:
        loaded = [json.loads(line) for line in lines]
    return [case for case in loaded if "int_set" in case and "error" not in case]


def build(case):
    variables = {name: te.var(name) for name in case["ranges"]}
    names = dict(variables, fld=tir.floordiv, flm=tir.floormod, min=tir.min, max=tir.max, sel=tir.Select)
    names.update(land=tir.And, lor=tir.Or, lnot=tir.Not)
    value = ir.expr(eval(case["expr"], names))
    return value, {variables[name]: ends for name, ends in case["ranges"].items()}


def test_int_sets():
    same = 0
    for case in cases():
        value, ranges = build(case)
        domains = {v: arith.IntervalSet(low, low + extent - 1) for v, (low, extent) in ranges.items()}
        found = arith.Analyzer().int_set(value, domains)
        same += [str(found.min_value), str(found.max_value)] == case["int_set"]
    assert same >= INT_SET_SAME


def test_iter_maps():
    same, different = 0, set()
    for case in cases():
        if "iter_map" not in case:
            continue
        value, ranges = build(case)
        domains = {v: ir.Range.from_min_extent(*ends) for v, ends in ranges.items()}
        indices = arith.detect_iter_map([value], domains).indices
        if ([str(i) for i in indices] or "not affine") == case["iter_map"]:
            same += 1
        else:
            assert not indices, case["id"]
            different.add(int(case["id"].split("-")[1]))
    assert same >= ITER_MAP_SAME
    assert different <= NOT_MAPS
