"""The canonical simplifier: index expressions as sums of splits, all else by rules."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from tvmagic.arith.canonical_form import FLOOR, TRUNC, UNBOUNDED, Split, Sum, constant, divide, remainder
from tvmagic.arith.constraint import side_effect
from tvmagic.arith.rewrite.compile import BUILDERS
from tvmagic.arith.rewrite.simplifier import ATOMS, DIVISIONS, RewriteSimplifier
from tvmagic.arith.transitive import LT as IS_LT
from tvmagic.ir import (
    EQ,
    LT,
    Add,
    BinaryOp,
    CallEffect,
    Cast,
    CommReducer,
    DataType,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    PrimExpr,
    Reduce,
    Select,
    Sub,
    handles,
    pre_order_visit,
    substitute,
)
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.fold import FOLDERS, truncate_divide

# an expression, or its canonical form
Form = Any

_MODE: dict[type, int] = {Div: TRUNC, Mod: TRUNC, FloorDiv: FLOOR, FloorMod: FLOOR}


def normalize(form: Form) -> PrimExpr:
    """The expression of a canonical form."""
    return form.normalize() if isinstance(form, (Sum, Split)) else form


def to_split(form: Form) -> Split:
    """The form as one split."""
    if isinstance(form, Split):
        return form
    if isinstance(form, Sum) and form.base == 0 and len(form.args) == 1:
        return form.args[0]
    return Split(normalize(form))


def to_sum(form: Form) -> Sum:
    """The form as a sum."""
    if isinstance(form, Sum):
        return form
    if isinstance(form, IntImm):
        return Sum(form.dtype, (), form.value)
    return Sum(form.dtype, (to_split(form),))


def with_mode(split: Split, mode: int) -> Split:
    """The split as one of the given division mode."""
    if split.mode == mode:
        return split
    if not split.compatible(mode):
        split = Split(split.normalize())
    return Split(split.index, split.lower, split.upper, split.scale, mode)


def _keeps_rounding(split: Split) -> bool:
    """Whether a further division may be put together with the one inside.

    Rounding down does not commute with a change of sign: floor(floor(x / 2) / -1) is not floor(x / -2).
    """
    return split.scale > 0 or split.lower == 1 or split.mode == TRUNC


def _fits(factor: int, dtype: DataType) -> bool:
    return abs(factor) < 1 << (dtype.bits - 1)


class CanonicalSimplifier(RewriteSimplifier):
    """Brings index expressions to the canonical form; uses the rules for everything else."""

    def __init__(self, parent: Any) -> None:
        super().__init__(parent)
        self.forms: dict[Any, tuple[PrimExpr, Form]] = {}

    def __call__(self, e: PrimExpr) -> PrimExpr:
        """`e` in canonical form."""
        return self.parent.request(self.visit, e)

    def visit(self, node: Any) -> Any:
        """`node` in canonical form, as an expression."""
        known = self.memo.get(id(node))
        if known is not None and not self.observed():
            return known[1]
        stops, memo = (self.cut, self.deep), self.memo
        result = normalize(self.form(node))
        if stops == (self.cut, self.deep) and memo is self.memo:
            memo[id(node)] = (node, result)
        return result

    def form(self, node: Any) -> Form:
        """The canonical form of a node, or an expression where it has none."""
        forms = self.forms
        known = forms.get(id(node))
        if known is not None and not self.observed():
            return known[1]
        if type(node) in ATOMS:
            return self._table[type(node)](self, node)
        number = self.parent.structure(node)
        known = forms.get(number)
        if known is None and self.deep:
            known = forms.get((number, self.depth))
        if known is not None and not self.observed():
            return node if known[1] is known[0] else known[1]
        parent = self.parent
        if self.calm is not None and not parent.effort.reads(node):
            return self.calm_form(node)
        if parent.budget <= 0:
            self.cut += 1
            return node
        parent.budget -= 1
        cut, deep = self.cut, self.deep
        result = self._table[type(node)](self, node)
        if cut == self.cut and forms is self.forms:
            if deep == self.deep:
                forms[id(node)] = forms[number] = (node, result)
            else:
                forms[number, self.depth] = (node, result)
        return result

    def calm_form(self, node: PrimExpr) -> Form:
        """The form of `node`, which reads no data, as if the conditions on data did not hold that say nothing of it."""
        forms, calm = self.forms, self.calm
        assert calm is not None
        self.forms, self.calm = calm, None
        try:
            return self.form(node)
        finally:
            if self.forms is calm:  # or all that was remembered is forgotten
                self.forms, self.calm = forms, calm

    # ------------------------------------------------------------------ sums and products

    @handles(Add, Sub)
    def sum(self, e: BinaryOp) -> Form:
        if not e.dtype.is_index:
            return self.binary(e)
        a, b = self.form(e.a), self.form(e.b)
        folded = self.folded(type(e), a, b)
        if folded is not None:
            return folded
        sign = 1 if type(e) is Add else -1
        total = to_sum(a)
        if isinstance(b, IntImm):
            return total.plus(sign * b.value)
        if isinstance(b, Sum):
            return total.plus_sum(b, sign)
        return total.plus_split(to_split(b), sign)

    def folded(self, op: type, a: Form, b: Form) -> Form | None:
        """What constant folding gives for two forms."""
        if op in DIVISIONS and isinstance(b, IntImm) and b.value == 0:
            return op(normalize(a), b)  # an error if it is reached, which may be nowhere
        return FOLDERS[op](a, b)

    @handles(Mul)
    def product(self, e: Mul) -> Form:
        if not e.dtype.is_index:
            return self.binary(e)
        a, b = self.form(e.a), self.form(e.b)
        folded = self.folded(Mul, a, b)
        if folded is not None:
            return folded
        if isinstance(a, IntImm):
            a, b = b, a
        if isinstance(b, IntImm):
            return a.times(b.value) if isinstance(a, Sum) else to_split(a).scaled(b.value)
        result = product_of(normalize(a), normalize(b))
        if type(result) is Mul and result.a is e.a and result.b is e.b:
            return e
        return result

    # ------------------------------------------------------------------ quotients and remainders

    @handles(Div, FloorDiv)
    def quotient(self, e: BinaryOp) -> Form:
        return self.divided(e, self.quotient_by, lambda reduced, factor: reduced)

    def divided(
        self,
        e: BinaryOp,
        by_constant: Callable[[Form, int, int, DataType], Form],
        scaled_back: Callable[[PrimExpr, PrimExpr], PrimExpr],
    ) -> Form:
        """A quotient or a remainder: folded, by a positive constant, or with the common factors cancelled.

        `scaled_back` makes the result from that of the cancelled operands and the factor taken from both.
        """
        if not self.is_index(e):
            return self.binary(e)
        a, b = self.form(e.a), self.form(e.b)
        folded = self.folded(type(e), a, b)
        if folded is not None:
            return folded
        if isinstance(b, IntImm) and b.value > 0:
            return by_constant(a, b.value, _MODE[type(e)], e.dtype)
        new_a, new_b = normalize(a), normalize(b)
        reduced = cancel_common_factors(new_a, new_b)
        if reduced is not None:
            return scaled_back(BUILDERS[type(e)](reduced[0], reduced[1]), reduced[2])
        return e if new_a is e.a and new_b is e.b else type(e)(new_a, new_b)

    def quotient_by(self, a: Form, divisor: int, mode: int, dtype: DataType) -> Form:
        """`a / divisor` for a positive constant."""
        if divisor == 1:
            return a
        if not isinstance(a, Sum):
            low, high = self.bound(normalize(a))
            if low >= 0 and high < divisor:
                return IntImm(dtype, 0)
            return self.split_quotient(to_split(a), divisor, mode)
        whole, rest = a.separate(divisor)
        if rest.is_zero:
            return whole.over(divisor)
        extra = rest.normalize()
        if mode == TRUNC and not (
            self.prove_greater_equal(whole.normalize(), 0) and self.prove_greater_equal(extra, 0)
        ):
            return self.split_quotient(to_split(a), divisor, mode)
        whole = whole.over(divisor)
        if isinstance(extra, IntImm):
            exact = truncate_divide(extra.value, divisor) if mode == TRUNC else extra.value // divisor
            return whole.plus(exact)
        fits = self.compare_constant(extra, divisor) == IS_LT
        if fits and (mode == TRUNC or self.prove_greater_equal(extra, 0)):
            return whole
        return whole.plus_split(self.split_quotient(Split(extra), divisor, mode), 1)

    def split_quotient(self, split: Split, divisor: int, mode: int) -> Split:
        """`split / divisor`"""
        split = with_mode(split, mode)
        if mode == TRUNC and split.upper < 0:  # a truncated remainder has the sign of the dividend
            split = Split(split.index, split.lower, -split.upper, split.scale, mode)
        if split.scale % divisor == 0:
            return split.with_scale(split.scale // divisor)
        lower = split.lower * (divisor // split.scale)
        if divisor % split.scale == 0 and _keeps_rounding(split) and _fits(lower, split.dtype):
            if split.upper == UNBOUNDED or split.upper % lower == 0:
                return Split(split.index, lower, split.upper, 1, mode)
            if 0 < split.upper <= lower or lower <= split.upper < 0:
                return Split(IntImm(split.dtype, 0))
            return Split(remainder(split.index, split.upper, mode), lower, UNBOUNDED, 1, mode)
        return Split(split.normalize(), divisor, UNBOUNDED, 1, mode)

    @handles(Mod, FloorMod)
    def remainder(self, e: BinaryOp) -> Form:
        return self.divided(e, self.remainder_by, BUILDERS[Mul])

    def remainder_by(self, a: Form, divisor: int, mode: int, dtype: DataType) -> Form:
        """`a % divisor` for a positive constant."""
        if not isinstance(a, Sum):
            low, high = self.bound(normalize(a))
            if low >= 0 and high < divisor:
                return a
            return self.split_remainder(to_split(a), divisor, mode)
        whole, rest = a.separate(divisor)
        if mode == FLOOR:
            return self.floor_remainder(rest, divisor)
        if rest.is_zero:
            return IntImm(dtype, 0)
        if self.prove_greater_equal(whole.normalize(), 0) and self.prove_greater_equal(rest.normalize(), 0):
            extra = rest.normalize()
            if isinstance(extra, IntImm):
                return remainder(extra, divisor, TRUNC)
            if self.compare_constant(extra, divisor) == IS_LT:
                return extra
            a = rest
        low, _ = self.bound(a.normalize())
        base = a.base - truncate_divide(a.base, divisor) * divisor
        if low >= 0 and low - a.base + base >= 0:
            a = Sum(a.dtype, a.args, base)
        return self.split_remainder(to_split(a), divisor, TRUNC)

    def floor_remainder(self, rest: Sum, divisor: int) -> Form:
        """The floored remainder of what the divisor does not divide."""
        extra = rest.normalize()
        if isinstance(extra, IntImm):
            return remainder(extra, divisor, FLOOR)
        if self.compare_constant(extra, divisor) == IS_LT and self.prove_greater_equal(extra, 0):
            return extra
        reduced = Sum(rest.dtype, rest.args, rest.base % divisor)
        if rest.base < 0 and not self.stays_in_type(reduced.normalize()):
            reduced = rest
        return self.split_remainder(to_split(reduced), divisor, FLOOR)

    def split_remainder(self, split: Split, divisor: int, mode: int) -> Split:
        """`split % divisor`"""
        split = with_mode(split, mode)
        if split.scale % divisor == 0:
            return split.with_scale(0)
        upper = split.lower * (divisor // split.scale)
        if divisor % split.scale == 0 and _keeps_rounding(split) and _fits(upper, split.dtype):
            if split.upper == UNBOUNDED:
                return Split(split.index, split.lower, upper, split.scale, mode)
            if split.upper % upper == 0:
                if upper == split.upper:
                    return split
                # a smaller factor may simplify the index
                index = to_split(self.visit(remainder(split.index, upper, mode)))
                if split.lower != 1:
                    index = self.split_quotient(index, split.lower, mode)
                return index.scaled(split.scale)
            # rounding down, what has the sign of its divisor is not below zero once scaled
            if upper % split.upper == 0 and (mode == TRUNC or (upper > 0) == (split.upper > 0)):
                return split
        return Split(split.normalize(), 1, divisor, 1, mode)

    # ------------------------------------------------------------------ comparisons and casts

    @handles(LT)
    def less(self, e: LT) -> Form:
        if not e.a.dtype.is_index or self.parent.wraps(e):
            return self.equal_or_less(e)
        difference = self.form(BUILDERS[Sub](e.a, e.b))
        if not isinstance(difference, Sum):
            return self.equal_or_less(e)
        scales = [abs(a.scale) for a in difference.args if abs(a.scale) > 1]
        common = gcd(difference.base, *scales)
        if not scales or common <= 1:
            return self.equal_or_less(e)
        whole, rest = difference.separate(common)
        extra = rest.normalize()
        zero = IntImm(e.a.dtype, 0)
        quotient = whole.over(common).normalize()
        low, high = self.bound(extra)
        if -common < low and high < common and self.keeps_sign(quotient, extra, low):
            return self.form(BUILDERS[LT](quotient, zero))
        if len(rest.args) == 1:
            split = rest.args[0]
            lower = common * split.lower
            if split.scale == 1 and split.upper != UNBOUNDED and split.upper % lower == 0 and split.mode == FLOOR:
                inner = remainder(divide(split.index, lower, FLOOR), split.upper // lower, FLOOR)
                return self.form(BUILDERS[LT](BUILDERS[Add](quotient, inner), zero))
        return self.equal_or_less(e)

    def keeps_sign(self, quotient: PrimExpr, extra: PrimExpr, low: float) -> bool:
        """Whether `quotient * d + extra < 0` holds exactly where `quotient < 0`, for `|extra| < d`.

        It does where `extra` is not negative, at least where the quotient is zero.
        """
        if low >= 0 or self.prove_greater_equal(extra, 0):
            return True
        with self.parent.constraint_scope(BUILDERS[EQ](quotient, IntImm(quotient.dtype, 0))):
            return self.prove_greater_equal(extra, 0)

    @handles(Cast)
    def cast_form(self, e: Cast) -> Form:
        if self.is_index(e):
            form = self.form(e.value)
            if isinstance(form, (Sum, Split)) and self.cast_is_safe(form, e.dtype):
                return form.cast_to(e.dtype)
        return self.cast(e)

    def cast_is_safe(self, form: Sum | Split, dtype: DataType) -> bool:
        """Whether every value on the way fits into `dtype`."""
        if dtype.bits >= form.dtype.bits:
            return True
        limit = 1 << (dtype.bits - 1)

        def fits(e: PrimExpr) -> bool:
            low, high = self.bound(e)
            return -limit <= low and high < limit

        if isinstance(form, Split):
            return form.scale == 0 or all(fits(e) for e in form.steps())
        total: PrimExpr = IntImm(form.dtype, 0)
        for split in form.args:
            total = BUILDERS[Add](total, split.normalize())
            if not fits(total):
                return False
        whole = BUILDERS[Add](total, constant(form.dtype, form.base))
        return -limit <= form.base < limit and fits(whole) and all(self.cast_is_safe(s, dtype) for s in form.args)

    # ------------------------------------------------------------------ reductions

    @handles(Reduce)
    def reduction(self, e: Reduce) -> Form:
        new = self.reduce(e)
        if not isinstance(new, Reduce):
            return new
        if not new.axis:
            combiner, i = new.combiner, new.value_index
            if new.init:
                values = dict(zip(combiner.lhs + combiner.rhs, new.init + new.source))
                return self.form(Select(new.condition, substitute(combiner.result[i], values), new.init[i]))
            return self.form(Select(new.condition, new.source[i], combiner.identity_element[i]))
        return self.simplify_combiner(new)

    def simplify_combiner(self, e: Reduce) -> PrimExpr:
        """The reduction without the components that its value does not need."""
        combiner = e.combiner
        results = [self.visit(r) for r in combiner.result]
        used = _used_components(e, results)
        if used == list(range(len(results))) and all(a is b for a, b in zip(results, combiner.result)):
            identities = [self.visit(i) for i in combiner.identity_element]
            if all(a is b for a, b in zip(identities, combiner.identity_element)):
                return e

        def keep(items: Any) -> tuple[Any, ...]:
            return tuple([items[i] for i in used])

        identity = tuple([self.visit(combiner.identity_element[i]) for i in used])
        new = CommReducer(
            keep(combiner.lhs), keep(combiner.rhs), keep(results), identity, combiner.attrs, combiner.span
        )
        init = keep(e.init) if e.init else ()
        return Reduce(new, keep(e.source), e.axis, e.condition, used.index(e.value_index), init, e.span)


def _used_components(e: Reduce, results: list[PrimExpr]) -> list[int]:
    """The components that the value of a reduction rests on, and those with side effects."""
    combiner = e.combiner
    names = {v: i for side in (combiner.lhs, combiner.rhs) for i, v in enumerate(side)}
    needs: list[set[int]] = []
    for result in results:
        found: set[int] = set()
        pre_order_visit(result, lambda node, found=found: found.add(names[node]) if node in names else None)
        needs.append(found)
    used: set[int] = set()
    effects = [
        i
        for i in range(len(results))
        if max(map(side_effect, (e.source[i], combiner.identity_element[i], combiner.result[i])))
        > CallEffect.READ_STATE
    ]
    todo = [e.value_index, *effects]
    while todo:
        i = todo.pop()
        if i not in used:
            used.add(i)
            todo += needs[i]
    return sorted(used)


# ---------------------------------------------------------------------------- products


_MOST_FACTORS = 64  # a square of a square of ... has exponentially many


def factors_of(e: PrimExpr) -> tuple[list[PrimExpr], int]:
    """The factors of a product that are not constants, from left to right, and its constant.

    A product of too many factors counts as one factor.
    """
    factors: list[PrimExpr] = []
    scale, todo = 1, [e]
    while todo:
        node = todo.pop()
        if type(node) is Mul:
            todo += [node.b, node.a]
        elif isinstance(node, IntImm):
            scale *= node.value
        else:
            factors.append(node)
        if len(factors) > _MOST_FACTORS:
            return [e], 1
    return factors, scale


def _product(factors: list[PrimExpr], scale: int, dtype: DataType) -> PrimExpr:
    result: PrimExpr = IntImm(dtype, 1)
    for factor in factors:
        result = BUILDERS[Mul](result, factor)
    return result if scale == 1 else BUILDERS[Mul](result, constant(dtype, scale))


def product_of(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """`a * b` as one chain of factors with the constant last."""
    left, c1 = factors_of(a)
    right, c2 = factors_of(b)
    return _product(left + right, c1 * c2, a.dtype)


def cancel_common_factors(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """Both without their common factors, and these; None if there are none."""
    if isinstance(b, IntImm):
        return None
    left, c1 = factors_of(a)
    right, c2 = factors_of(b)
    kept: list[PrimExpr] = []
    common: list[PrimExpr] = []
    for factor in right:
        match = next((i for i, f in enumerate(left) if deep_equal(f, factor)), None)
        if match is None:
            kept.append(factor)
        else:
            common.append(left.pop(match))
    scale = gcd(c1, c2)
    if not common and scale == 1:
        return None
    dtype = a.dtype
    return _product(left, c1 // scale, dtype), _product(kept, c2 // scale, dtype), _product(common, scale, dtype)
