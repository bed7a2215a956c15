"""Names that TVM's users reach at `arith._ffi_api`."""

from tvmagic.arith.domain_touched import DomainTouched
from tvmagic.arith.narrow import narrow_predicate_expression as NarrowPredicateExpression
from tvmagic.arith.solve_inequalities import solve_inequalities_as_condition as SolveInequalitiesAsCondition

__all__ = ["DomainTouched", "NarrowPredicateExpression", "SolveInequalitiesAsCondition"]
