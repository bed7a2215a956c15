"""Comparison of a sum with a product: (A + B) * C against A * B * D, for positive terms."""

from __future__ import annotations

import math
from typing import Any

from tvmagic.arith.rewrite.compile import BUILDERS
from tvmagic.arith.transitive import GT, LT, UNKNOWN
from tvmagic.ir import Add, Mul, PrimExpr, Sub
from tvmagic.ir.deep_equal import deep_equal

Bound = tuple[float, float]
Found = tuple[PrimExpr, PrimExpr, PrimExpr, "PrimExpr | None"]


def _is_product_of(e: PrimExpr, a: PrimExpr, b: PrimExpr) -> bool:
    if type(e) is not Mul:
        return False
    return (deep_equal(e.a, a) and deep_equal(e.b, b)) or (deep_equal(e.a, b) and deep_equal(e.b, a))


def _terms(difference: PrimExpr) -> Found | None:
    """A, B, C, D of (A + B) * C + A * B * D; D is None for A * B alone."""
    if type(difference) is not Add:
        return None
    for total, product in ((difference.a, difference.b), (difference.b, difference.a)):
        if type(total) is not Mul or type(total.a) is not Add or type(product) is not Mul:
            continue
        a, b, c = total.a.a, total.a.b, total.b
        if _is_product_of(product.a, a, b):
            return a, b, c, product.b
        if _is_product_of(product, a, b):
            return a, b, c, None
    return None


def _negated(bound: Bound) -> Bound:
    return -bound[1], -bound[0]


def compare_product_and_sum(S: Any, x: PrimExpr, y: PrimExpr) -> int:
    """What is known of `x` against `y` where `x - y` is (A + B) * C - A * B * D.

    The sign is that of 1 / (A D) + 1 / (B D) - 1 / C, all terms being positive.
    """
    found = _terms(S.visit(BUILDERS[Sub](x, y)))
    if found is None:
        return UNKNOWN
    a, b, c = map(S.bound, found[:3])
    d = (-1, -1) if found[3] is None else _negated(S.bound(found[3]))
    flipped = d[1] < 0
    if flipped:
        c, d = _negated(c), _negated(d)
    if c[1] < 0:
        a, b, c = _negated(a), _negated(b), _negated(c)
    if min(a[0], b[0], c[0], d[0]) <= 0 or d[1] == math.inf:
        return UNKNOWN
    positive = min(a[1], b[1]) * d[1] <= c[0]
    if not positive and a[1] != math.inf and b[1] != math.inf:
        positive = a[1] * b[1] * d[1] < c[0] * (a[1] + b[1])
    if not positive:
        return UNKNOWN
    return LT if flipped else GT
