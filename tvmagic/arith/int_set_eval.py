"""Evaluation of expressions over integer sets: interval arithmetic with symbolic ends.

A variable with a set is relaxed to it; every other variable stays as a symbol in the ends. Where
nothing useful can be said of an expression its set is everything.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.const_int_bound import POS_INF as UNKNOWN_END
from tvmagic.arith.const_int_bound import everything
from tvmagic.arith.int_set import (
    NEG_INF,
    POS_INF,
    IntervalSet,
    IntSet,
    as_int_set,
    constant_interval,
    intersect,
    is_const,
    max_of,
    min_of,
    negate,
    new_analyzer,
    to_interval,
    union_of,
)
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpOp,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    LogicalOp,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Sub,
    Var,
    Visitor,
    expr,
    handles,
    ops,
    pre_order_visit,
)
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.methods import method_of
from tvmagic.ir.ops import make_const
from tvmagic.ir.query import is_call, operands

Combiner = Callable[["Analyzer", IntervalSet, IntervalSet, type], IntervalSet]
Build = Callable[[PrimExpr, PrimExpr], PrimExpr]


def _point(value: PrimExpr) -> IntervalSet:
    return IntervalSet(value, value)


# ---------------------------------------------------------------------------- interval arithmetic


def combine(op: type[BinaryOp], analyzer: Analyzer, a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """The set of `x op y` for `x` in `a` and `y` in `b`."""
    if a.is_single_point() and b.is_single_point():
        return _point(ops.binary(op, a.min_value, b.min_value))
    if issubclass(op, (CmpOp, LogicalOp)):
        return IntervalSet(IntImm("bool", 0), IntImm("bool", 1))
    if a.is_nothing():
        return a
    if b.is_nothing():
        return b
    combiner = _COMBINERS.get(op)
    return combiner(analyzer, a, b, op) if combiner is not None else IntSet.everything()


def _add(analyzer: Analyzer, a: IntervalSet, b: IntervalSet, op: type) -> IntervalSet:
    low = a.min_value + b.min_value if a.has_lower_bound() and b.has_lower_bound() else NEG_INF
    high = a.max_value + b.max_value if a.has_upper_bound() and b.has_upper_bound() else POS_INF
    return IntervalSet(low, high)


def _sub(analyzer: Analyzer, a: IntervalSet, b: IntervalSet, op: type) -> IntervalSet:
    low = a.min_value - b.max_value if a.has_lower_bound() and b.has_upper_bound() else NEG_INF
    high = a.max_value - b.min_value if a.has_upper_bound() and b.has_lower_bound() else POS_INF
    return IntervalSet(low, high)


def _scaled(analyzer: Analyzer, a: IntervalSet, factor: PrimExpr, build: Build) -> IntervalSet:
    """The set of `build(x, factor)`, a function that grows or falls in `x` with the sign of `factor`."""
    low, high = a.has_lower_bound(), a.has_upper_bound()
    if analyzer.can_prove_greater_equal(factor, 0):
        return IntervalSet(
            build(a.min_value, factor) if low else NEG_INF, build(a.max_value, factor) if high else POS_INF
        )
    if analyzer.can_prove_greater_equal(negate(factor), 1):
        return IntervalSet(
            build(a.max_value, factor) if high else NEG_INF, build(a.min_value, factor) if low else POS_INF
        )
    if low and high:
        positive = ops.greater_equal(factor, make_const(factor.dtype.element_of, 0))
        at_min, at_max = build(a.min_value, factor), build(a.max_value, factor)
        return IntervalSet(Select(positive, at_min, at_max), Select(positive, at_max, at_min))
    return IntSet.everything()


def _mul(analyzer: Analyzer, a: IntervalSet, b: IntervalSet, op: type) -> IntervalSet:
    if a.is_single_point():
        a, b = b, a
    if not b.is_single_point():
        return IntSet.everything()
    factor = b.min_value
    if is_const(factor, 0):
        return b
    return a if is_const(factor, 1) else _scaled(analyzer, a, factor, ops.multiply)


def _check_divisor(divisor: PrimExpr) -> None:
    if is_const(divisor, 0):
        raise TVMagicError(
            "division by the constant zero in the set of an expression", node=divisor, code="int_set.division_by_zero"
        )


_DIVIDE: dict[type, Build] = {Div: ops.div, FloorDiv: ops.floordiv}


def _divide(analyzer: Analyzer, a: IntervalSet, b: IntervalSet, op: type) -> IntervalSet:
    if not b.is_single_point():
        return IntSet.everything()
    divisor = b.min_value
    _check_divisor(divisor)
    return a if is_const(divisor, 1) else _scaled(analyzer, a, divisor, _DIVIDE[op])


def _remainders(analyzer: Analyzer, divisor: PrimExpr) -> IntervalSet:
    """All remainders that rounding down with `divisor` may leave."""
    if analyzer.can_prove_greater_equal(divisor, 0):
        return IntervalSet(make_const(divisor.dtype, 0), divisor - 1)
    bound = ops.abs(divisor) - 1
    return IntervalSet(negate(bound), bound)


def _truncmod(analyzer: Analyzer, a: IntervalSet, b: IntervalSet, op: type) -> IntervalSet:
    if not b.is_single_point():
        return IntSet.everything()
    divisor = b.min_value
    _check_divisor(divisor)
    bounds = _remainders(analyzer, divisor)
    # towards zero: the sign is that of the dividend
    if is_const(bounds.min_value, 0) and not (a.has_lower_bound() and _not_negative(analyzer, a.min_value)):
        return IntervalSet(negate(bounds.max_value), bounds.max_value)
    return bounds


def _not_negative(analyzer: Analyzer, value: PrimExpr) -> bool:
    return analyzer.can_prove_greater_equal(value, 0)


def _floormod(analyzer: Analyzer, a: IntervalSet, b: IntervalSet, op: type) -> IntervalSet:
    if not b.is_single_point():
        return IntSet.everything()
    divisor = b.min_value
    _check_divisor(divisor)
    if isinstance(divisor, IntImm) and divisor.value > 0 and a.has_upper_bound() and a.has_lower_bound():
        low, high = ops.floordiv(a.min_value, divisor), ops.floordiv(a.max_value, divisor)
        if analyzer.can_prove(ops.equal(high, low)):  # no multiple of the divisor inside
            return IntervalSet(a.min_value - divisor * low, a.max_value - divisor * low)
    return _remainders(analyzer, divisor)


def _min(analyzer: Analyzer, a: IntervalSet, b: IntervalSet, op: type) -> IntervalSet:
    return IntervalSet(min_of(a.min_value, b.min_value), min_of(a.max_value, b.max_value))


def _max(analyzer: Analyzer, a: IntervalSet, b: IntervalSet, op: type) -> IntervalSet:
    return IntervalSet(max_of(a.min_value, b.min_value), max_of(a.max_value, b.max_value))


_COMBINERS: dict[type, Combiner] = {
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    Div: _divide,
    FloorDiv: _divide,
    Mod: _truncmod,
    FloorMod: _floormod,
    Min: _min,
    Max: _max,
}


# ---------------------------------------------------------------------------- the evaluator


class IntervalSetEvaluator(Visitor):
    """Gives for an expression the interval of its values.

    Parameters
    ----------
    analyzer: what proves signs and equalities.
    dom_map: the sets of the variables to relax.
    constraints: further sets of variables, each intersected with the one in `dom_map`.
    """

    def __init__(
        self,
        analyzer: Analyzer,
        dom_map: Mapping[Var, IntSet],
        constraints: Sequence[tuple[Var, IntSet]] = (),
    ) -> None:
        self.analyzer = analyzer
        self.dom_map = dom_map
        self.constraints = constraints
        self.depth = 0
        self.known: dict[tuple[int, int], tuple[PrimExpr, IntervalSet]] = {}

    def evaluate(self, value: Any) -> IntervalSet:
        """The set of an expression; of an interval, the one with its ends relaxed too."""
        return self.relax(value) if isinstance(value, IntervalSet) else self.visit(value)

    def relax(self, interval: IntervalSet) -> IntervalSet:
        """`interval` with the variables in its ends relaxed, as deep as there are variables."""
        if self.depth >= len(self.dom_map):
            return interval
        self.depth += 1
        low = self.visit(interval.min_value).min_value
        high = self.visit(interval.max_value).max_value
        self.depth -= 1
        return IntervalSet(low, high)

    def visit(self, node: Any) -> Any:
        """The set of an expression; that of a part which is shared is found once."""
        if not isinstance(node, (BinaryOp, Select, Cast)):
            return super().visit(node)
        key = id(node), self.depth
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = node, super().visit(node)
        return found[1]

    @handles(Node)
    def other(self, node: PrimExpr) -> IntervalSet:
        return IntSet.everything()

    @handles(IntImm)
    def constant(self, node: IntImm) -> IntervalSet:
        return IntervalSet(node, node)

    @handles(Var)
    def var(self, var: Var) -> IntervalSet:
        known = [s for v, s in self.constraints if v is var] if self.constraints else []
        if var in self.dom_map:
            known.append(self.dom_map[var])
        if not known:
            return IntervalSet(var, var)
        result = to_interval(known[0] if len(known) == 1 else intersect(known))
        if result.min_value is var and result.max_value is var:
            return result
        return self.relax(result)

    @handles(BinaryOp)
    def binary(self, node: BinaryOp) -> IntervalSet:
        a, b = self.visit(node.a), self.visit(node.b)
        # nothing relaxed: the expression itself is the point
        if a.min_value is node.a and a.max_value is node.a and b.min_value is node.b and b.max_value is node.b:
            return IntervalSet(node, node)
        if self.analyzer.wraps(node):
            return IntSet.everything()  # the ends of what wraps around are not where those of its parts are
        return combine(type(node), self.analyzer, a, b)

    @handles(Ramp)
    def ramp(self, node: Ramp) -> IntervalSet:
        base = self.visit(node.base)
        if not isinstance(node.stride, IntImm):
            return IntSet.everything()
        if node.dtype.is_scalable:  # the far end is not known
            zero = make_const(node.base.dtype, 0)
            far = IntervalSet(zero, POS_INF) if node.stride.value >= 0 else IntervalSet(NEG_INF, zero)
            return combine(Add, self.analyzer, base, far)
        last = node.stride.value * (node.dtype.lanes - 1)
        return combine(Add, self.analyzer, base, constant_interval(min(0, last), max(0, last), node.base.dtype))

    @handles(Broadcast)
    def broadcast(self, node: Broadcast) -> IntervalSet:
        return self.visit(node.value)

    @handles(Select)
    def select(self, node: Select) -> IntervalSet:
        a, b = self.visit(node.true_value), self.visit(node.false_value)
        fixed = a.min_value is a.max_value is node.true_value and b.min_value is b.max_value is node.false_value
        if fixed and not uses_var(node.condition, lambda var: self.var(var).min_value is not var):
            return IntervalSet(node, node)  # nothing relaxed, as of `binary`
        return union_of(b, a)

    @handles(Cast)
    def cast(self, node: Cast) -> IntervalSet:
        value = self.visit(node.value)
        if value.is_nothing():
            return value
        if value.is_single_point():
            return _point(ops.cast(node.dtype, value.min_value))
        if self.analyzer.wraps(node) and not self._fits(value, node):
            return IntSet.everything()
        low = ops.cast(node.dtype, value.min_value) if value.has_lower_bound() else NEG_INF
        high = ops.cast(node.dtype, value.max_value) if value.has_upper_bound() else POS_INF
        return IntervalSet(low, high)

    def _fits(self, value: IntervalSet, node: Cast) -> bool:
        """Whether all of `value` can be converted as `node` does, without a change."""
        if node.value.dtype.is_float or not (value.has_lower_bound() and value.has_upper_bound()):
            return False
        low, high = everything(node.dtype)
        bounds = self.analyzer.bounds
        return low <= bounds.visit(value.min_value)[0] and bounds.visit(value.max_value)[1] <= min(
            high, UNKNOWN_END - 1
        )

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> IntervalSet:
        if not (node.dtype.is_int or node.dtype.is_uint):
            return IntSet.everything()
        if any(uses_var(index, self.dom_map) for index in node.indices):
            return IntSet.everything()
        return IntervalSet(node, node)

    @handles(Call)
    def call(self, node: Call) -> IntervalSet:
        is_vscale = is_call(node, "tir.vscale")
        return IntervalSet(node, node) if is_vscale else IntSet.everything()


def uses_var(node: Any, variables: Container[Any] | Callable[[Var], bool]) -> bool:
    """Whether `node` reads one of `variables` (a container, or a test of a variable)."""
    test = variables if callable(variables) else variables.__contains__
    found = False

    def look(item: Node) -> bool:
        nonlocal found
        found = found or (isinstance(item, Var) and test(item))
        return not found

    pre_order_visit(node, look)
    return found


# ---------------------------------------------------------------------------- functions


@deep
def eval_set(value: Any, dom_map: Mapping[Any, Any], analyzer: Analyzer | None = None) -> IntervalSet:
    """The set of `value` (an expression, range, or interval) with variables relaxed.

    Parameters
    ----------
    value: what to evaluate; for a range, the set of all its elements.
    dom_map: the sets (or ranges) of the variables to relax; other variables stay symbols.
    """
    evaluator = IntervalSetEvaluator(analyzer or new_analyzer(), as_int_set(dom_map))
    return _eval_one(evaluator, value)


def _eval_one(evaluator: IntervalSetEvaluator, value: Any) -> IntervalSet:
    if isinstance(value, Range):
        # Simplified first: min and extent may share variables. Facts of others stay aside: a variable to relax that has a
        # single value at some loop would become that loop's variable, which is not relaxed.
        last = new_analyzer().simplify(value.min + value.extent - 1)
        return evaluator.relax(IntervalSet(value.min, last))
    if isinstance(value, IntervalSet):
        high = evaluator.visit(value.max_value).max_value if value.has_upper_bound() else value.max_value
        low = evaluator.visit(value.min_value).min_value if value.has_lower_bound() else value.min_value
        return IntervalSet(low, high)
    return evaluator.visit(expr(value))


@deep
def eval_sets(region: Sequence[Any], dom_map: Mapping[Any, Any]) -> list[IntSet]:
    """`eval_set` of each range or expression of `region`."""
    evaluator = IntervalSetEvaluator(new_analyzer(), as_int_set(dom_map))
    return [_eval_one(evaluator, value) for value in region]


class _SubExprEvaluator(IntervalSetEvaluator):
    """Keeps the set of every part of an expression."""

    def __init__(self, analyzer: Analyzer, dom_map: Mapping[Var, IntSet]) -> None:
        super().__init__(analyzer, dom_map)
        self.sets: dict[PrimExpr, IntervalSet] = {}

    def visit(self, node: Any) -> Any:
        result = super().visit(node)
        self.sets[node] = result
        return result


@deep
def eval_set_for_each_sub_expr(value: PrimExpr, dom_map: Mapping[Any, Any]) -> dict[PrimExpr, IntervalSet]:
    """The set of `value` and of each of its parts, by identity."""
    evaluator = _SubExprEvaluator(new_analyzer(), as_int_set(dom_map))
    evaluator.visit(value)
    return evaluator.sets


# ---------------------------------------------------------------------------- inside an analyzer


class IntSetAnalyzer:
    """What an `Analyzer` knows of the sets of its variables.

    Called with an expression alone, it relaxes the variables that were bound and uses the
    constraints that hold; called with `dom_map`, it relaxes those variables only.
    """

    def __init__(self, parent: Analyzer) -> None:
        self.parent = parent
        self.dom_map: dict[Var, IntSet] = {}
        self.constraints: list[tuple[Var, IntSet]] = []

    def __call__(self, value: Any, dom_map: Mapping[Any, Any] | None = None) -> IntervalSet:
        if dom_map is not None:
            return eval_set(value, dom_map, self.parent)
        return IntervalSetEvaluator(self.parent, self.dom_map, self.constraints).visit(expr(value))

    def update(self, var: Var, info: IntSet) -> None:
        """Record that `var` lies in `info`."""
        self.dom_map[var] = info

    def bind(self, var: Var, value: Any) -> None:
        """Bind `var` to a range or to the set of an expression."""
        self.update(var, IntSet.from_range(value) if isinstance(value, Range) else self(value))

    def enter_constraint(self, constraint: PrimExpr) -> Callable[[], None]:
        """Use `constraint` from now on; gives the function that forgets it again."""
        bounds = bounds_of_constraint(constraint)
        kept = len(self.constraints)
        self.constraints += bounds

        def leave() -> None:
            del self.constraints[kept:]

        return leave


def _interval_of(op: type, limit: PrimExpr) -> IntervalSet:
    return {
        LE: lambda: IntervalSet(NEG_INF, limit),
        LT: lambda: IntervalSet(NEG_INF, limit - 1),
        GE: lambda: IntervalSet(limit, POS_INF),
        GT: lambda: IntervalSet(limit + 1, POS_INF),
        EQ: lambda: _point(limit),
    }[op]()


_MIRRORED: dict[type, type] = {LE: GE, LT: GT, GE: LE, GT: LT, EQ: EQ}


def bounds_of_constraint(constraint: PrimExpr) -> list[tuple[Var, IntSet]]:
    """The sets of variables that follow from the comparisons whose conjunction `constraint` is."""
    found: list[tuple[Var, IntSet]] = []
    for part in operands(constraint, And):
        if not isinstance(part, CmpOp) or type(part) not in _MIRRORED:
            continue
        if isinstance(part.a, Var):
            found.append((part.a, _interval_of(type(part), part.b)))
        elif isinstance(part.b, Var):
            found.append((part.b, _interval_of(_MIRRORED[type(part)], part.a)))
    return found


@method_of(Analyzer)
def new_sets(self: Analyzer) -> IntSetAnalyzer:
    """Return an evaluator of sets that asks this analyzer."""
    return IntSetAnalyzer(self)


@method_of(IntSet)
@staticmethod
def vector(vec: Any) -> IntervalSet:
    """The interval that holds every lane of the vector `vec`."""
    vec = expr(vec)
    return IntSet.single_point(vec) if vec.dtype.is_scalar else eval_set(vec, {})
