"""The analyzer: what can be proved of expressions over variables whose ranges are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tvmagic.arith.canonical import CanonicalSimplifier
from tvmagic.arith.const_int_bound import POS_INF, ConstIntBound, ConstIntBoundAnalyzer, known_ends
from tvmagic.arith.extension import Extension, ProofStrength
from tvmagic.arith.modular_set import ModularSet, ModularSetAnalyzer
from tvmagic.arith.overflow import Wrapping
from tvmagic.arith.rewrite import RewriteSimplifier
from tvmagic.arith.scalable import (
    ContainsVscale,
    known_vscale_values,
    prove_for_each_vscale,
    warn_of_unknown_vscale,
)
from tvmagic.arith.simplify_budget import Effort
from tvmagic.arith.transitive import TransitiveComparisons
from tvmagic.arith.value_numbering import Structure
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    GE,
    GT,
    LE,
    LT,
    Add,
    FloatImm,
    IntImm,
    IterVar,
    Mul,
    PrimExpr,
    Range,
    Sub,
    Var,
    expr,
)
from tvmagic.ir import ops as op
from tvmagic.ir.deep_recursion import deep

BUDGET = 20_000  # nodes visited for one request; what is left after that stays as it is


class ConstraintScope:
    """`with analyzer.constraint_scope(condition):` the condition holds inside."""

    def __init__(self, enter: Callable[[], list[Callable[[], None]]]) -> None:
        self._enter = enter
        self._recover: list[Callable[[], None]] = []

    def __enter__(self) -> ConstraintScope:
        self._recover = self._enter()
        return self

    def __exit__(self, *_: object) -> None:
        for recover in reversed(self._recover):
            recover()
        self._recover = []


class Analyzer:
    """Simplifies expressions and proves conditions, knowing ranges of variables and conditions.

    `ranges`: those of some variables, known from the start.
    `fast_math`: floats are simplified as if they were real numbers (`x - x` is 0), as TVM does; without it
    the rules keep what IEEE 754 says, NaN, infinities and the sign of zero included.
    `trusting`: ramps are divided as TVM does, which takes all lanes of a truncated quotient to have one sign
    and refuses a zero as the divisor.
    """

    def __init__(
        self, ranges: Mapping[Var, Range] | None = None, fast_math: bool = False, trusting: bool = False
    ) -> None:
        self.fast_math = fast_math
        self.inexact_reciprocals = fast_math  # whether `x / 3.0` becomes a product
        self.trusting = trusting
        self.wraps = Wrapping(lambda e: self.bounds.visit(e))
        self.structure = Structure()
        self.effort = Effort()
        self.contains_vscale = ContainsVscale()
        self.bounds = ConstIntBoundAnalyzer(self)
        self.modular = ModularSetAnalyzer(self)
        self.rewriter = RewriteSimplifier(self)
        self.canonical = CanonicalSimplifier(self)
        self.transitive = TransitiveComparisons(self.wraps)
        self._domains: dict[Var, Any] = {}
        self._constraints: list[PrimExpr] = []
        self._sets: Any = None
        self._version = object()  # another one after each change of what is known
        self.budget = BUDGET
        self._open = False  # whether a request is being answered
        self.proving = False  # whether what is simplified only serves a proof
        if ranges:
            for var, range_ in ranges.items():
                self.bind(var, range_)

    def __reduce__(self) -> Any:
        """Refuse to be pickled: what is remembered is found by identity, and objects of another process have another."""
        raise TVMagicError(
            "an Analyzer cannot be pickled",
            hint="make a new one and bind its variables again",
            code="analyzer.not_picklable",
        )

    def __deepcopy__(self, memo: object) -> Any:
        raise TVMagicError(
            "an Analyzer cannot be copied",
            hint="make a new one and bind its variables again",
            code="analyzer.not_copyable",
        )

    # ------------------------------------------------------------------ what is known

    def bind(self, var: Any, expr: Any, allow_override: bool = False) -> None:
        """Let `var` lie in a `Range`, or have the value of an expression."""
        var = var.var if isinstance(var, IterVar) else var
        if not isinstance(expr, Range):
            self._bind_value(var, _expr(expr), allow_override)
        elif isinstance(expr.extent, IntImm) and expr.extent.value == 1:
            self._bind_value(var, expr.min, allow_override)
        else:
            self.bounds.bind(var, expr, allow_override)
            self.transitive.bind(var, expr)
            for known in (self.rewriter.values, self.canonical.values, self.modular.vars):
                known.pop(var, None)  # what an earlier binding to a value told
            self._set_domain(var, expr)

    def _bind_value(self, var: Var, value: PrimExpr, allow_override: bool) -> None:
        self.wraps.define(var, value)
        simplified = self.for_proof(self.rewriter, self.for_proof(self.canonical, value))
        self.bounds.update(var, self.bounds.visit(simplified), allow_override)
        self.modular.update(var, self.modular.visit(simplified), allow_override)
        self.rewriter.update(var, simplified, allow_override)
        self.canonical.update(var, simplified, allow_override)
        if value.dtype.is_index:
            self.transitive.bind(var, Range.from_min_extent(value, IntImm(value.dtype, 1)))
        self._set_domain(var, simplified)

    def _set_domain(self, var: Var, domain: Any) -> None:
        self._domains[var] = domain
        self.changed()
        if self._sets is not None:
            self._sets.bind(var, domain)

    def update(self, var: Any, info: Any, override: bool = False) -> None:
        """Set what is known of `var`: a `ConstIntBound`, a `ModularSet`, or its value."""
        var = var.var if isinstance(var, IterVar) else var
        if isinstance(info, ConstIntBound):
            self.bounds.update(var, (info.min_value, info.max_value), override)
        elif isinstance(info, ModularSet):
            self.modular.update(var, info, override)
        elif isinstance(info, (PrimExpr, int)):
            self._bind_value(var, _expr(info), override)
        else:
            raise TVMagicError(
                f"`{info!r}` says nothing of a variable",
                hint="give a ConstIntBound or a ModularSet",
                code="analyzer.no_fact",
            )
        self.changed()

    @property
    def has_constraints(self) -> bool:
        """Whether conditions hold at present, as inside a branch."""
        return bool(self._constraints)

    def constraint_scope(self, constraint: Any) -> ConstraintScope:
        """A context in which `constraint` holds."""
        return ConstraintScope(lambda: self.enter_constraint(_expr(constraint)))

    def enter_constraint(self, constraint: PrimExpr) -> list[Callable[[], None]]:
        """Let `constraint` hold until the returned functions are called, the last one first."""
        memos = self._take_memos()
        calm = _calm_of(memos) if self.effort.is_of_data(constraint) else (None, None)
        self.rewriter.calm, self.canonical.calm = calm
        version = self._version
        parts = (self.bounds, self.modular, self.rewriter, self.transitive)
        entered = [self.for_proof(part.enter_constraint, constraint) for part in parts]
        recover = [leave for leave in entered if leave is not None]
        self._constraints.append(constraint)
        self._take_memos()
        self.rewriter.calm, self.canonical.calm = calm
        sets = self._sets
        if sets is not None:
            recover.append(sets.enter_constraint(constraint))

        def leave() -> None:
            self._constraints.pop()
            self.wraps.forget()
            self._sets = sets
            self._take_memos()
            if version is self._version:
                self._put_memos(memos)

        return [leave, *recover]

    def changed(self) -> None:
        """Forget results that rest on what was known before."""
        self._version = object()
        self.wraps.forget()
        self._take_memos()

    def _take_memos(self) -> tuple[Any, ...]:
        """Start with empty memos; gives those there were, and last what conditions on data do not change of them."""
        rewriter, canonical = self.rewriter, self.canonical
        memos = self.bounds.memo, self.modular.memo, rewriter.memo, canonical.memo, canonical.forms
        old = *memos, rewriter.calm, canonical.calm
        self._put_memos(({}, {}, {}, {}, {}, None, None))
        return old

    def _put_memos(self, memos: tuple[Any, ...]) -> None:
        *others, rules, forms = memos
        self.bounds.memo, self.modular.memo, self.rewriter.memo, self.canonical.memo, self.canonical.forms = others
        self.rewriter.calm, self.canonical.calm = rules, forms

    def mark_global_non_neg_value(self, value: Any) -> None:
        """Let `value`, a size such as `n`, `4 * n` or `n + 1`, be non-negative from now on."""
        value = _expr(value)
        symbolic, offset = _split_sum(value)
        if len(symbolic) != 1 or symbolic[0][1] < 0:
            return
        factors, scale = _split_product(symbolic[0][0])
        if scale > 0 and len(factors) == 1 and isinstance(factors[0], Var) and factors[0].dtype.is_index:
            self.bounds.update(factors[0], (-offset, POS_INF), True)
            self.changed()

    def const_int_bound_is_bound(self, var: Any) -> bool:
        """Whether a constant bound of `var` was set."""
        return var in self.bounds.vars

    # ------------------------------------------------------------------ sub-analyzers

    @deep
    def const_int_bound(self, expr: Any, bound: dict[PrimExpr, ConstIntBound] | None = None) -> ConstIntBound:
        """The constant bound of `expr`; those of its parts go into `bound` if it is given."""
        e = _expr(expr)
        result = ConstIntBound(*self.bounds.visit(e))
        if bound is not None:
            from tvmagic.ir import post_order_visit

            def note(node: Any) -> None:
                if isinstance(node, PrimExpr):
                    bound[node] = ConstIntBound(*self.bounds.visit(node))

            post_order_visit(e, note)
        return result

    @deep
    def modular_set(self, expr: Any) -> ModularSet:
        """Which remainder `expr` has."""
        return ModularSet(*self.modular.visit(_expr(expr)))

    if TYPE_CHECKING:  # `int_set_eval` attaches it

        def new_sets(self) -> Any: ...

    @deep
    def int_set(self, expr: Any, dom_map: Any = None) -> Any:
        """The integer set of `expr` for variables in the sets of `dom_map`, or as bound here."""
        if self._sets is None:
            self._sets = self.new_sets()
            for var, domain in self._domains.items():
                self._sets.bind(var, domain)
            for constraint in self._constraints:
                self._sets.enter_constraint(constraint)
        return self._sets(_expr(expr), dom_map)

    # ------------------------------------------------------------------ simplification

    def request(self, simplify: Callable[[PrimExpr], PrimExpr], e: PrimExpr) -> PrimExpr:
        """`simplify(e)`: a request from outside, and all that it asks for, share one budget."""
        if self._open:
            return simplify(e)
        self._open, self.budget = True, BUDGET
        try:
            return simplify(e)
        finally:
            self._open = False

    @deep
    def rewrite_simplify(self, expr: Any) -> PrimExpr:
        """`expr` simplified by rules."""
        return self.rewriter(_expr(expr))

    @deep
    def canonical_simplify(self, expr: Any) -> PrimExpr:
        """`expr` as a canonical sum of products of quotients and remainders."""
        return self.canonical(_expr(expr))

    @deep
    def simplify(self, expr: Any, steps: int = 2) -> PrimExpr:
        """`expr` simplified: the canonical form, then `steps` times the rules and that form in turn."""
        result = _expr(expr)
        if isinstance(result, IntImm):
            return result
        if isinstance(result, Var) and result not in self.rewriter.values and not result.dtype.is_bool:
            return result
        return self.request(lambda e: self._in_turn(e, steps), result)

    def _in_turn(self, e: PrimExpr, steps: int) -> PrimExpr:
        """The canonical form of `e`, then `steps` times the rules and that form in turn."""
        e = self.canonical(e)
        for i in range(steps):
            if isinstance(e, IntImm):
                break
            e = self.canonical(e) if i % 2 else self.rewriter(e)
        return e

    # ------------------------------------------------------------------ proofs

    @deep
    def can_prove(self, expr: Any, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether the condition `expr` is proved to hold; False says nothing."""
        e = _expr(expr)
        if isinstance(e, IntImm):
            return e.value != 0
        simplified = self.for_proof(self.simplify, e)
        if isinstance(simplified, IntImm):
            return simplified.value != 0
        if strength >= ProofStrength.SYMBOLIC_BOUND and self._prove_by_set(e):
            return True
        return self.contains_vscale(simplified) and self._prove_by_vscale(simplified)

    def _prove_by_vscale(self, e: PrimExpr) -> bool:
        """Prove `e` for each length that the target's vectors may have; without a target that has such, say so."""
        if known_vscale_values():
            return prove_for_each_vscale(self, e)
        if not self.proving:
            warn_of_unknown_vscale()
        return False

    def for_proof(self, ask: Callable[[PrimExpr], Any], e: PrimExpr) -> Any:
        """`ask(e)` without a word to those who observe rules."""
        outer, self.proving = self.proving, True
        try:
            return ask(e)
        finally:
            self.proving = outer

    def _prove_by_set(self, e: PrimExpr) -> bool:
        """Prove `a < b` by the least value of `b - a` over the sets of the variables."""
        if isinstance(e, (LT, LE)):
            difference = e.b - e.a
        elif isinstance(e, (GT, GE)):
            difference = e.a - e.b
        else:
            return False
        if self.wraps(difference):
            return False  # it may wrap around where the comparison holds
        interval = self.int_set(self.simplify(difference))
        if not interval.has_lower_bound():
            return False
        least = interval.min_value
        return self.bounds.visit(self.simplify(least))[0] >= isinstance(e, (LT, GT))

    @deep
    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether `lhs == rhs` is proved."""
        lhs, rhs = _expr(lhs), _expr(rhs)
        if isinstance(lhs, IntImm) and isinstance(rhs, IntImm):
            return lhs.value == rhs.value
        if lhs is rhs:
            return True
        if lhs.dtype.is_handle or rhs.dtype.is_handle:
            return False
        return self.can_prove(op.equal(op.subtract(lhs, rhs), 0))

    @deep
    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Whether `expr >= lower_bound` is proved by its constant bound."""
        return self._bound_for_proof(expr)[0] >= lower_bound

    @deep
    def can_prove_less(self, expr: Any, upper_bound: int) -> bool:
        """Whether `expr < upper_bound` is proved by its constant bound."""
        return self._bound_for_proof(expr)[1] < upper_bound

    def _bound_for_proof(self, expr: Any) -> tuple[float, float]:
        e = _expr(expr)
        return known_ends(self.bounds.visit(e if isinstance(e, IntImm) else self.for_proof(self.rewriter, e)))

    @deep
    def can_prove_less_equal_than_symbolic_shape_value(self, lhs: Any, shape: Any) -> bool:
        """Whether `lhs <= shape` for a size such as `32 * n`, which is taken to be positive."""
        lhs, shape = _expr(lhs), _expr(shape)
        if self.can_prove(op.less_equal(lhs, shape), ProofStrength.SYMBOLIC_BOUND):
            return True
        if isinstance(shape, IntImm):
            return False
        scale = abs(_split_product(shape)[1])
        return self.can_prove(op.less_equal(lhs, IntImm(shape.dtype, scale)), ProofStrength.SYMBOLIC_BOUND)

    # ------------------------------------------------------------------ extensions

    @property
    def enabled_extensions(self) -> Extension:
        """The optional parts of the rewrite simplifier that are on."""
        return Extension(self.rewriter.extensions)

    @enabled_extensions.setter
    def enabled_extensions(self, flags: Any) -> None:
        self.set_enabled_extensions(flags)

    def set_enabled_extensions(self, flags: Any) -> None:
        """Turn optional parts of the rewrite simplifier on."""
        self.rewriter.extensions = Extension(flags).value
        self.changed()


def _calm_of(memos: tuple[Any, ...]) -> tuple[Any, Any]:
    """What is known, by those memos, of expressions that read no data: by the rules, and as canonical forms."""
    _, _, rules, _, forms, calm_rules, calm_forms = memos
    return rules if calm_rules is None else calm_rules, forms if calm_forms is None else calm_forms


def _expr(value: Any) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else expr(value)


def _split_sum(e: PrimExpr) -> tuple[list[tuple[PrimExpr, int]], int]:
    """The terms of a sum with their signs, and its constant."""
    terms: list[tuple[PrimExpr, int]] = []
    offset, todo = 0, [(e, 1)]
    while todo:
        node, sign = todo.pop()
        if isinstance(node, (Add, Sub)):
            todo += [(node.b, -sign if isinstance(node, Sub) else sign), (node.a, sign)]
        elif isinstance(node, IntImm):
            offset += sign * node.value
        else:
            terms.append((node, sign))
    return terms, offset


def _split_product(e: PrimExpr) -> tuple[list[PrimExpr], int]:
    """The factors of a product, and its constant."""
    factors: list[PrimExpr] = []
    scale, todo = 1, [e]
    while todo:
        node = todo.pop()
        if isinstance(node, Mul):
            todo += [node.b, node.a]
        elif isinstance(node, IntImm):
            scale *= node.value
        elif not isinstance(node, FloatImm):
            factors.append(node)
    return factors, scale
