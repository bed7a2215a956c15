"""The solvers of integer systems under the name of TVM's module."""

from tvmagic.arith.int_constraints import IntConstraints, IntConstraintsTransform, IntGroupBounds
from tvmagic.arith.solve_equations import solve_linear_equations
from tvmagic.arith.solve_inequalities import solve_linear_inequalities

__all__ = [
    "IntConstraints",
    "IntConstraintsTransform",
    "IntGroupBounds",
    "solve_linear_equations",
    "solve_linear_inequalities",
]
