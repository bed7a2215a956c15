"""Reductions written as Python's: `max(X[2 * i + r] for r in range(2))` is `max(X[2 * i + r], over=r)` with the range of `r`."""

from __future__ import annotations

import ast
from typing import Any

from tvmagic.notation.derived import DERIVED
from tvmagic.notation.expressions import REDUCTIONS, fail_at
from tvmagic.notation.scope import Scope

__all__ = ["without_generators"]


def without_generators(value: ast.expr, axes: list[str], scope: Scope) -> tuple[ast.expr, dict[str, tuple[Any, Any]]]:
    """`value` with `over=` in place of generators, and the range (first value, extent) of each index that they name.

    Raises NotationError for a generator that is not all that a reduction takes, runs over something else than
    `range(...)`, has a condition, or names an index that means something else already.
    """
    if not any(isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)) for node in ast.walk(value)):
        return value, {}
    generators = _Generators(axes, scope)
    return generators.visit(value), generators.ranges


class _Generators(ast.NodeTransformer):
    def __init__(self, axes: list[str], scope: Scope) -> None:
        self.axes, self.scope, self.source = axes, scope, scope.source
        self.ranges: dict[str, tuple[Any, Any]] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.GeneratorExp() | ast.ListComp() as loops], keywords=[]):
                if name in REDUCTIONS or name in DERIVED:
                    over: list[ast.expr] = [self._index(loop) for loop in loops.generators]
                    items = over[0] if len(over) == 1 else ast.copy_location(ast.Tuple(over, ast.Load()), over[0])
                    keyword = ast.copy_location(ast.keyword("over", items), over[0])
                    return ast.copy_location(ast.Call(node.func, [self.visit(loops.elt)], [keyword]), node)
        return self.generic_visit(node)  # type: ignore[return-value]

    def _index(self, loop: ast.comprehension) -> ast.Name:
        """The index name of `for NAME in range(...)`; its range is noted."""
        if not isinstance(loop.target, ast.Name):
            fail_at(
                self.source,
                loop.target,
                f"`{ast.unparse(loop.target)}` is no index name",
                "write a `for` for each index",
            )
        name = loop.target.id
        if not (
            isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "range"
        ):
            fail_at(
                self.source, loop.iter, f"an index runs over `range(...)`, not over `{ast.unparse(loop.iter)}`",
                f"write `for {name} in range(10)`, and index the tensor by `{name}`",
            )  # fmt: skip
        for condition in loop.ifs:
            fail_at(
                self.source, condition, "a reduction over an index has no condition after its `for`",
                f"write it at the value, as in `sum(X[{name}] if {ast.unparse(condition)} else 0, over={name})`",
            )  # fmt: skip
        range_ = self.scope.sizes.range(loop.iter)
        if name in self.axes:
            fail_at(
                self.source,
                loop.target,
                f"`{name}` is an index of the left side already",
                "give this `for` a name of its own",
            )
        if self.ranges.setdefault(name, range_) != range_:
            fail_at(
                self.source,
                loop.target,
                f"`{name}` has another range to the left of this",
                "give this `for` a name of its own",
            )
        return ast.copy_location(ast.Name(name, ast.Load()), loop.target)

    def _stray(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> ast.expr:
        loop = ast.unparse(node.generators[0].target)
        fail_at(
            self.source, node, "a `for` in an expression is what a reduction runs over",
            f"write `sum(... for {loop} in {ast.unparse(node.generators[0].iter)})`; others are {_OTHERS}",
        )  # fmt: skip

    visit_GeneratorExp = visit_ListComp = visit_SetComp = _stray


_OTHERS = ", ".join(f"`{name}`" for name in (*REDUCTIONS[1:], "mean"))
