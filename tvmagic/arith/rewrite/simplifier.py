"""The rewrite simplifier: children first, then constants, then the first rule that fits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

from tvmagic.arith.const_int_bound import known_ends
from tvmagic.arith.constraint import extract_constraints, normalize_boolean, side_effect
from tvmagic.arith.extension import Extension
from tvmagic.arith.overflow import stays_in_type
from tvmagic.arith.rewrite import rules_add, rules_division, rules_logic, rules_minmax
from tvmagic.arith.rewrite.call_folding import CALL_FOLDS
from tvmagic.arith.rewrite.compile import BUILDERS, Rule, RuleSet
from tvmagic.arith.rewrite.procedural_rules import STEPS, constant_offset
from tvmagic.arith.transitive import EQ as IS_EQ
from tvmagic.arith.transitive import GE as IS_GE
from tvmagic.arith.transitive import GT as IS_GT
from tvmagic.arith.transitive import LE as IS_LE
from tvmagic.arith.transitive import LT as IS_LT
from tvmagic.arith.transitive import NE as IS_NE
from tvmagic.arith.transitive import UNKNOWN
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    CallEffect,
    Cast,
    CmpOp,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Mutator,
    Not,
    Or,
    PrimExpr,
    Reduce,
    Select,
    Sub,
    Var,
    handles,
)
from tvmagic.ir import ops as op
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.expr import BOOL
from tvmagic.ir.fold import FOLDERS, wrap_int
from tvmagic.ir.query import callee

_TABLES: dict[type, str] = {
    Add: rules_add.ADD,
    Sub: rules_add.SUB,
    Mul: rules_add.MUL,
    Div: rules_division.DIV,
    Mod: rules_division.MOD,
    FloorDiv: rules_division.FLOORDIV,
    FloorMod: rules_division.FLOORMOD,
    Min: rules_minmax.MIN,
    Max: rules_minmax.MAX,
    EQ: rules_logic.EQUAL,
    LT: rules_logic.LESS,
    Not: rules_logic.NOT,
    And: rules_logic.AND,
    Or: rules_logic.OR,
    Select: rules_logic.SELECT,
}
# the rules by the class of expression they are for; parsed and compiled on first use
RULES: dict[type, RuleSet] = {root: RuleSet(root, text, STEPS) for root, text in _TABLES.items()}

MAX_DEPTH = 5  # how often a result is simplified again inside another

Observer = Callable[[Rule, PrimExpr, PrimExpr], None]
_observers: list[Observer] = []


@contextlib.contextmanager
def observe_rules(observer: Observer) -> Generator[None]:
    """Call `observer(rule, before, after)` for every rule that fires inside the `with`.

    Rules that fire while something is proved, to no visible end, are left out.
    """
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


ATOMS = frozenset((Var, IntImm, FloatImm))  # what costs less than to look it up
DIVISIONS = frozenset((Div, Mod, FloorDiv, FloorMod))
_subtract = BUILDERS[Sub]
# a plain int is quicker to test than a flag
_TRANSITIVE = Extension.TransitivelyProveInequalities.value
_AND_OF_ORS = Extension.ConvertBooleanToAndOfOrs.value
_BRANCHES = Extension.ApplyConstraintsToBooleanBranches.value
_PRODUCT_AND_SUM = Extension.ComparisonOfProductAndSum.value


def _too_far_apart(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether the difference of the numbers in `a` and `b` leaves their type, so that `a - b` says nothing of their order."""
    ends = [e.value if isinstance(e, IntImm) else constant_offset(e)[1] for e in (a, b)]
    offset = ends[0] - ends[1]
    return wrap_int(offset, a.dtype) != offset


class RewriteSimplifier(Mutator):
    """Simplifies expressions by rules, knowing the values of variables and conditions that hold."""

    def __init__(self, parent: Any) -> None:
        self.parent = parent
        self.values: dict[Var, PrimExpr] = {}
        self.literals: list[tuple[PrimExpr, bool]] = []
        self.extensions = 0  # the value of an `Extension`
        self.depth = 0
        self.cut: int = 0  # how often the budget stopped it, or its result depended on its place
        self.deep: int = 0  # how often `MAX_DEPTH` stopped it
        self.in_boolean = False
        self.calm: dict[Any, Any] | None = None  # what was known before conditions on data, if such hold
        self.memo: dict[
            Any, tuple[PrimExpr, PrimExpr]
        ] = {}  # by identity, and by structure (with the depth, if it counts)

    def __call__(self, e: PrimExpr) -> PrimExpr:
        """`e` simplified, twice where the first time changed it."""
        return self.parent.request(self._twice, e)

    def _twice(self, e: PrimExpr) -> PrimExpr:
        first = self.visit(e)
        if first is e:
            return e
        # the second time conditions keep the form that they were brought to
        in_boolean, self.in_boolean = self.in_boolean, True
        try:
            return self.visit(first)
        finally:
            self.in_boolean = in_boolean

    # ------------------------------------------------------------------ what is known

    def update(self, var: Var, value: PrimExpr, allow_override: bool) -> None:
        """Let `var` have the value of an expression."""
        old = self.values.get(var)
        if old is not None and not allow_override and not deep_equal(old, value):
            raise TVMagicError(
                f"`{var.name}` is bound to another value already",
                hint="pass allow_override=True to bind it again",
                code="analyzer.bound_differs",
            )
        self.values[var] = value

    def enter_constraint(self, condition: PrimExpr) -> Callable[[], None] | None:
        """Let `condition` hold until the returned function is called."""
        size = len(self.literals)
        for part in extract_constraints(self.visit(condition), False):
            if side_effect(part) > CallEffect.PURE:
                continue
            self.literals.append((part, True))
            if part.dtype.is_bool:
                self.literals.append((normalize_boolean(Not(part)), False))
            else:
                self.literals.append((op.equal(part, op.make_zero(part.dtype)), False))

        def recover() -> None:
            del self.literals[size:]

        return recover

    def literal(self, e: PrimExpr) -> PrimExpr | None:
        """The constant that `e` is by a condition that holds."""
        inner = e.a if type(e) is Not else None
        for condition, value in self.literals:
            if deep_equal(condition, e):
                return op.make_const(e.dtype, value)
            if deep_equal(condition, inner):
                return op.make_const(e.dtype, not value)
        return None

    # ------------------------------------------------------------------ the walk

    def visit(self, node: Any) -> Any:
        """`node` simplified, from memory where it was met in the same state of knowledge."""
        known = self.memo.get(id(node))
        if known is not None and not self.observed():
            return known[1]
        parent = self.parent
        if type(node) in ATOMS:
            return self._table[type(node)](self, node)
        number, memo = parent.structure(node), self.memo
        known = memo.get(number)
        if known is None and self.deep:
            known = memo.get((number, self.depth))  # as far as it was simplified from there
        if known is not None and not self.observed():
            return node if known[1] is known[0] else known[1]
        if self.calm is not None and not parent.effort.reads(node):
            return self.calmly(node)
        if parent.budget <= 0:
            self.cut += 1
            return node
        parent.budget -= 1
        cut, deep = self.cut, self.deep
        result = self._table[type(node)](self, node)
        if memo is self.memo:
            if cut == self.cut and deep == self.deep:
                memo[id(node)] = memo[number] = (node, result)
            elif cut == self.cut:
                memo[number, self.depth] = (node, result)
        return result

    def calmly(self, node: PrimExpr) -> PrimExpr:
        """`node`, which reads no data, simplified as if the conditions on data did not hold that say nothing of it."""
        memo, calm = self.memo, self.calm
        assert calm is not None
        self.memo, self.calm = calm, None
        try:
            return self.visit(node)
        finally:
            if self.memo is calm:  # or all that was remembered is forgotten
                self.memo, self.calm = memo, calm

    def observed(self) -> bool:
        """Whether somebody wants to see the rules fire, also those that fired before."""
        return bool(_observers) and not self.parent.proving

    def again(self, e: PrimExpr) -> PrimExpr:
        """`e` simplified as the result of a rule."""
        if self.depth >= MAX_DEPTH:
            self.deep += 1
            return e
        self.depth += 1
        try:
            return self.visit(e)
        finally:
            self.depth -= 1

    def apply(self, e: PrimExpr, key: tuple[Any, ...]) -> PrimExpr:
        """The result of the first rule that fits, or `e`."""
        parent = self.parent
        wraps = key[0].is_int and parent.wraps(e)
        for function, rule in RULES[type(e)].lookup(key, wraps, parent.fast_math):
            try:
                result = function(self, e)
            except OverflowError:  # a constant of the result does not fit
                continue
            if result is not None:
                if self.observed():
                    for observer in tuple(_observers):
                        observer(rule, e, result)
                return result
        return e

    def children(self, e: Any) -> Any:
        """A binary node with its operands simplified."""
        a, b = self.visit(e.a), self.visit(e.b)
        if a is e.a and b is e.b:
            return e
        new = type(e)(a, b)
        new.span = e.span
        return new

    @handles(BinaryOp)
    def binary(self, e: BinaryOp) -> PrimExpr:
        e = self.children(e)
        a, b = e.a, e.b
        if type(e) in DIVISIONS and isinstance(b, IntImm) and b.value == 0:
            return e  # an error if it is reached, which may be nowhere
        folded = FOLDERS[type(e)](a, b)
        if folded is not None:
            return folded
        return self.apply(e, (a.dtype, type(a), type(b)))

    # ------------------------------------------------------------------ questions of rules

    def bound(self, e: PrimExpr) -> tuple[float, float]:
        """The constant bound of `e`, infinite where nothing is known."""
        return known_ends(self.parent.bounds.visit(e))

    def modular(self, e: PrimExpr) -> tuple[int, int]:
        """The modular set of `e`."""
        return self.parent.modular.visit(e)

    def prove_greater_equal(self, e: PrimExpr, value: int) -> bool:
        """Whether `e >= value` is proved."""
        return self.parent.can_prove_greater_equal(e, value)

    def prove_less(self, e: PrimExpr, value: int) -> bool:
        """Whether `e < value` is proved."""
        return self.parent.can_prove_less(e, value)

    def is_zero(self, e: PrimExpr) -> bool:
        """Whether `e == 0` is proved."""
        return self.compare_constant(e, 0) == IS_EQ

    def stays_in_type(self, e: PrimExpr) -> bool:
        """Whether a sum of products with numbers is not seen to have values outside its type."""
        return stays_in_type(e, self.parent.bounds.visit)

    def is_index(self, e: PrimExpr) -> bool:
        """Whether `e` is an integer that does not wrap around: an index or a size."""
        return e.dtype.is_index and not self.parent.wraps(e)

    def is_exact(self, e: PrimExpr) -> bool:
        """Whether one of `<`, `==`, `>` holds of `e` and any other value, as it does not of NaN."""
        return not e.dtype.is_float or self.parent.fast_math

    def compare(self, a: PrimExpr, b: PrimExpr) -> int:
        """What is known of `a` against `b`."""
        difference = _subtract(a, b)
        result = self.compare_constant(difference, 0)
        if self.parent.wraps(difference) or _too_far_apart(a, b):
            return self.compare_data(a, b, result)
        if result in (IS_EQ, IS_LT, IS_GT):
            return result
        extensions = self.extensions
        result &= self.parent.transitive.compare(a, b, bool(extensions & _TRANSITIVE))
        if result in (IS_EQ, IS_LT, IS_GT) or not extensions & _PRODUCT_AND_SUM:
            return result
        from tvmagic.arith.rewrite.product_sum import compare_product_and_sum

        return result & compare_product_and_sum(self, a, b)

    def compare_data(self, a: PrimExpr, b: PrimExpr, difference: int) -> int:
        """What is known of data: that both are equal or not from their difference, an order from both alone."""
        if difference == IS_EQ:
            return IS_EQ
        result = IS_NE if not difference & IS_EQ else UNKNOWN
        low, high = self.bound(a), self.bound(b)
        if low[1] <= high[0]:
            result &= IS_LT if low[1] < high[0] else IS_LE
        if high[1] <= low[0]:
            result &= IS_GT if high[1] < low[0] else IS_GE
        return result & self.parent.transitive.compare(a, b, bool(self.extensions & _TRANSITIVE))

    def compare_constant(self, e: PrimExpr, value: int) -> int:
        """What is known of `e` against a constant, by its bounds and its remainder alone."""
        e = self.parent.for_proof(self.visit, e)
        low, high = self.bound(e)
        if low == high == value:
            return IS_EQ
        if low > value:
            return IS_GT
        if high < value:
            return IS_LT
        if low >= value:
            return IS_GE
        if high <= value:
            return IS_LE
        return IS_NE if value == 0 and self.modular(e)[1] != 0 else UNKNOWN

    # ------------------------------------------------------------------ comparisons

    def comparison(self, e: Any) -> tuple[Any, PrimExpr | None]:
        """A comparison with simplified operands, and its value if that is a constant."""
        e = self.children(e)
        folded = FOLDERS[type(e)](e.a, e.b)
        if folded is None and self.literals:
            folded = self.literal(e)
        return e, folded

    def apply_cmp(self, e: CmpOp) -> PrimExpr:
        """The rules for a comparison."""
        return self.apply(e, (e.a.dtype, type(e.a), type(e.b)))

    def apply_not(self, a: PrimExpr) -> PrimExpr:
        """The rules for the negation of `a`."""
        return self.apply(Not(a), (a.dtype, type(a)))

    @handles(EQ, LT)
    def equal_or_less(self, e: Any) -> PrimExpr:
        e, value = self.comparison(e)
        return self.apply_cmp(e) if value is None else value

    @handles(NE)
    def not_equal(self, e: Any) -> PrimExpr:
        e, value = self.comparison(e)
        if value is not None:
            return value
        if e.a.dtype.is_index:
            result = self.compare(e.a, e.b)
            if result in (IS_NE, IS_GT, IS_LT, IS_EQ):
                return op.make_const(e.dtype, result != IS_EQ)
            if result == IS_GE:
                return self.apply_cmp(LT(e.b, e.a))
            if result == IS_LE:
                return self.apply_cmp(LT(e.a, e.b))
        return self.apply_not(self.apply_cmp(EQ(e.a, e.b)))

    @handles(LE)
    def less_equal(self, e: Any) -> PrimExpr:
        e, value = self.comparison(e)
        if value is not None or not self.is_exact(e.a):
            return e if value is None else value
        new: Any = self.apply_not(self.apply_cmp(LT(e.b, e.a)))
        if type(new) is LE and new.a.dtype.is_index:
            result = self.compare(new.a, new.b)
            if result in (IS_LE, IS_LT, IS_EQ, IS_GT):
                return op.make_const(e.dtype, result != IS_GT)
            if result == IS_NE:
                return self.apply_cmp(LT(new.a, new.b))
            if result == IS_GE:
                return self.apply_cmp(EQ(new.a, new.b))
        return new

    @handles(GT)
    def greater(self, e: Any) -> PrimExpr:
        return self.visit(op.less(e.b, e.a))

    @handles(GE)
    def greater_equal(self, e: Any) -> PrimExpr:
        return self.visit(op.less_equal(e.b, e.a))

    # ------------------------------------------------------------------ logical terms

    @handles(Not)
    def negation(self, e: Not) -> PrimExpr:
        a: PrimExpr = self.visit(e.a)
        e = e if a is e.a else Not(a, e.span)
        if isinstance(a, IntImm):
            return IntImm(BOOL, not a.value)
        if self.literals and (value := self.literal(e)) is not None:
            return value
        return self.apply(e, (a.dtype, type(a)))

    @handles(And, Or)
    def logical(self, e: And | Or) -> PrimExpr:
        extensions = self.extensions
        outermost, self.in_boolean = not self.in_boolean, True
        if extensions & _AND_OF_ORS:
            self.cut += 1  # what becomes of it depends on where it stands
        try:
            e = self.branches(e) if extensions & _BRANCHES else self.children(e)
        finally:
            self.in_boolean = not outermost
        folded = FOLDERS[type(e)](e.a, e.b)
        if folded is None and self.literals:
            folded = self.literal(e)
        if folded is not None:
            return folded
        if extensions & _AND_OF_ORS and outermost:
            from tvmagic.arith.cnf import simplify_as_and_of_ors

            return simplify_as_and_of_ors(e, self.parent)
        return self.apply(e, (e.dtype, type(e.a), type(e.b)))

    def branches(self, e: Any) -> Any:
        """Both terms simplified, each where the other decides nothing."""
        parts = [e.a, e.b]
        unchanged = 0
        for i in range(4):
            other = parts[1 - i % 2]
            constraint = other if type(e) is And else normalize_boolean(Not(other))
            with self.parent.constraint_scope(constraint):
                new = self.visit(parts[i % 2])
            unchanged = unchanged + 1 if new is parts[i % 2] else 0
            parts[i % 2] = new
            if unchanged >= 2:
                break
        return e if parts[0] is e.a and parts[1] is e.b else type(e)(*parts)

    # ------------------------------------------------------------------ selections, calls, variables

    def branch(self, condition: PrimExpr, value: PrimExpr) -> PrimExpr:
        """`value` simplified where `condition` holds; without it, if it would take too long."""
        if _tells_nothing(value) or not (self.parent.effort.is_small(condition) and self.parent.effort.is_small(value)):
            return self.visit(value)
        with self.parent.constraint_scope(condition):
            return self.visit(value)

    @handles(Select)
    def select(self, e: Select) -> PrimExpr:
        condition = self.visit(e.condition)
        true_value = self.branch(condition, e.true_value)
        false_value = self.branch(self.parent.rewrite_simplify(Not(condition)), e.false_value)
        if isinstance(condition, IntImm):
            return true_value if condition.value else false_value
        if condition is not e.condition or true_value is not e.true_value or false_value is not e.false_value:
            e = Select(condition, true_value, false_value, e.span)
        return self.apply(e, (e.dtype,))

    def if_then_else(self, e: Call) -> PrimExpr:
        """A choice, each branch simplified under its condition."""
        condition = self.visit(e.args[0])
        true_value = self.branch(condition, e.args[1])
        false_value = self.branch(Not(condition), e.args[2])
        if isinstance(condition, IntImm):
            return true_value if condition.value else false_value
        new = (condition, true_value, false_value)
        if any(a is not b for a, b in zip(new, e.args)):
            e = e.replace(args=new)
        inner = true_value
        if isinstance(inner, Call) and inner.op is e.op and isinstance(false_value, (IntImm, FloatImm)):
            other = inner.args[2]
            if isinstance(other, (IntImm, FloatImm)) and self.parent.can_prove(op.equal(other, false_value)):
                return op.if_then_else(op.logical_and(condition, inner.args[0]), inner.args[1], false_value)
        return e

    @handles(Call)
    def call(self, e: Call) -> PrimExpr:
        name = callee(e)
        if name == "tir.if_then_else":
            return self.if_then_else(e)
        e = self.visit_children(e)
        fold = CALL_FOLDS.get(name)
        if fold is not None and (result := fold(e)) is not None:
            return result
        if name == "tir.likely" and self.literals:
            value = self.literal(e.args[0])
            return e if value is None else value
        return e

    @handles(Var)
    def var(self, e: Var) -> PrimExpr:
        if self.literals and e.dtype is BOOL:
            value = self.literal(e)
            if value is not None:
                return value
        return self.values.get(e, e)

    @handles(Cast)
    def cast(self, e: Cast) -> PrimExpr:
        value = self.visit(e.value)
        result = op.cast(e.dtype, value)
        return e if value is e.value and type(result) is Cast else result

    @handles(Let)
    def let(self, e: Let) -> PrimExpr:
        self.parent.wraps.define(e.var, e.value)
        value = self.visit(e.value)
        if isinstance(e.value, (IntImm, FloatImm, Var)):
            self.parent.bind(e.var, value)
            return self.visit(e.body)
        body = self.visit(e.body)
        return e if value is e.value and body is e.body else Let(e.var, value, body, e.span)

    @handles(Reduce)
    def reduce(self, e: Reduce) -> PrimExpr:
        for axis in e.axis:
            if axis.dom is not None:
                self.parent.bind(axis.var, axis.dom, True)
        for var in (*e.combiner.lhs, *e.combiner.rhs):
            self.parent.wraps.define(var)
        return self.visit_children(e)


def _tells_nothing(e: Any) -> bool:
    """Whether no condition has a say in how `e` is simplified, so that there is no need to enter its scope."""
    if isinstance(e, (Add, Sub, Mul)):
        return type(e.a) in ATOMS and type(e.b) in ATOMS
    return type(e) in ATOMS and not e.dtype.is_bool
