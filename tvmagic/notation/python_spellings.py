"""What Python says otherwise than the index notation does, in its terms.

    max(X[2 * i + r] for r in range(2))    is  max(X[2 * i + r], over=r), with the range of `r`
    sum(X[k] for k in range(9) if k > i)   is  sum(X[k] if k > i else 0, over=k)
    sum(X[k] for k in range(i + 1))        is  sum(X[k] if k < i + 1 else 0, over=k), over all that `X[k]` has
    any(X[k] > 0 for k in range(9))        is  max(bool(X[k] > 0), over=k); `all` is the minimum
    X.shape[1], len(X)                     are the sizes of the tensor `X`

What is none of these stays as it is.
"""

from __future__ import annotations

import ast
import copy
from typing import Any, NoReturn

from tvmagic.ir import IntImm, Var
from tvmagic.notation.composite_functions import DERIVED
from tvmagic.notation.expressions import REDUCTIONS, fail_at, index_items
from tvmagic.notation.scope import Scope

_Loops = ast.GeneratorExp | ast.ListComp
_EVERYWHERE = "<all>"  # in place of a range whose ends are conditions
_OF_BOOLS = {"any": "max", "all": "min"}
_FAR = {
    "max": "-1e30",
    "argmax": "-1e30",
    "min": "1e30",
    "argmin": "1e30",
}  # in hints: what is never the largest, or the smallest
_STARTS = {"sum": 0, "prod": 1}  # what changes nothing, for elements that a condition leaves out


def in_the_notation(value: ast.expr, axes: list[str], scope: Scope) -> tuple[ast.expr, dict[str, tuple[Any, Any]]]:
    """`value` in terms of the notation, and the range (first value, extent) of each index that a generator names.

    Raises NotationError for a generator that is not all that a reduction takes, runs over something else than
    `range(...)`, leaves elements out of a maximum, or names an index that means something else already.
    """
    if not any(_is_spelled(node) for node in ast.walk(value)):
        return value, {}
    spellings = _Spellings(axes, scope)
    _check_own_names(value, scope)
    return spellings.visit(value), spellings.ranges


def _check_own_names(value: ast.expr, scope: Scope) -> None:
    """The index of a `for` is used inside what it belongs to alone: it has one range in a statement, which another would have, too."""
    loops = [node for node in ast.walk(value) if isinstance(node, (ast.GeneratorExp, ast.ListComp))]
    own = {loop.target.id for node in loops for loop in node.generators if isinstance(loop.target, ast.Name)}
    inside = {id(part) for node in loops for part in ast.walk(node)}
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id in own and id(node) not in inside:
            fail_at(
                scope.source, node, f"`{node.id}` is the index of a `for` in another part of the value",
                "give that `for` a name of its own", code="notation.index_of_other_part",
            )  # fmt: skip


def _is_spelled(node: ast.AST) -> bool:
    """Whether the node may be something that is said otherwise in the notation."""
    if isinstance(node, ast.Name):
        return node.id in ("len", *_OF_BOOLS)
    return isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.Attribute))


class _Spellings(ast.NodeTransformer):
    def __init__(self, axes: list[str], scope: Scope) -> None:
        self.axes, self.scope, self.source = axes, scope, scope.source
        self.ranges: dict[str, tuple[Any, Any]] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Name(id=("any" | "all") as name), args=[whole]) if self._is_reduction(node):
                argument = self._bools(whole, name == "all")
                function = ast.copy_location(ast.Name(_OF_BOOLS[name], ast.Load()), node.func)
                return self.visit(ast.copy_location(ast.Call(function, [argument], node.keywords), node))
            case ast.Call(func=ast.Name(id=name), args=[ast.GeneratorExp() | ast.ListComp() as loops], keywords=[]):
                if name in REDUCTIONS or name in DERIVED:
                    loops = self._with_fixed_ends(loops)
                    over: list[ast.expr] = [self._index(loop, loops) for loop in loops.generators]
                    items = over[0] if len(over) == 1 else ast.copy_location(ast.Tuple(over, ast.Load()), over[0])
                    keyword = ast.copy_location(ast.keyword("over", items), over[0])
                    element = self._where(name, loops, over)
                    return ast.copy_location(ast.Call(node.func, [self.visit(element)], [keyword]), node)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if self._of_module(
                node, module, name
            ):
                function = ast.copy_location(ast.Name(name, ast.Load()), node.func)
                return self.visit(ast.copy_location(ast.Call(function, node.args, node.keywords), node))
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]):
                return self._size(node, name, 0)
        return self.generic_visit(node)  # type: ignore[return-value]

    def _of_module(self, call: ast.Call, module: str, name: str) -> bool:
        """Whether a call is a reduction of a module, such as `np.sum(X[i, k], over=k)`."""
        known = name in REDUCTIONS or name in DERIVED
        return known and bool(call.args) and module not in self.scope.tensors and self._is_reduction(call)

    def _bools(self, whole: ast.expr, start: bool) -> ast.expr:
        """What `any` and `all` run over, as bools; those that a condition leaves out are `start`, which changes nothing."""
        loops = self._with_fixed_ends(whole) if isinstance(whole, (ast.GeneratorExp, ast.ListComp)) else None
        inner = whole if loops is None else loops.elt
        element: ast.expr = ast.copy_location(ast.Call(ast.Name("bool", ast.Load()), [inner], []), inner)
        if loops is None:
            return element
        for condition in (c for loop in reversed(loops.generators) for c in reversed(loop.ifs)):
            other = ast.copy_location(ast.Constant(start), inner)
            element = ast.copy_location(ast.IfExp(condition, element, other), inner)
        bare = [ast.comprehension(loop.target, loop.iter, [], loop.is_async) for loop in loops.generators]
        return ast.copy_location(type(loops)(element, bare), loops)

    @staticmethod
    def _is_reduction(call: ast.Call) -> bool:
        """Whether `over=` or a `for` says over what a call with one argument runs."""
        return any(k.arg == "over" for k in call.keywords) or isinstance(call.args[0], (ast.GeneratorExp, ast.ListComp))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(axis))
            ):
                return self._size(node, name, axis)
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"),
                slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(axis))),
            ):
                return self._size(node, name, -axis)
        return self.generic_visit(node)  # type: ignore[return-value]

    def _size(self, node: ast.expr, name: str, axis: int) -> ast.expr:
        """The size of a dimension of the tensor called `name`: a number, or the name of a symbolic size."""
        tensor = self.scope.tensors.get(name)
        if tensor is None or not -len(tensor.shape) <= axis < len(tensor.shape):
            return node
        size = tensor.shape[axis]
        if isinstance(size, Var):
            return ast.copy_location(ast.Name(size.name, ast.Load()), node)
        return ast.copy_location(ast.Constant(int(size)), node) if isinstance(size, IntImm) else node

    def _where(self, reduction: str, loops: _Loops, over: list[ast.expr]) -> ast.expr:
        """The element of a generator if its conditions hold, else what changes nothing."""
        conditions = [condition for loop in loops.generators for condition in loop.ifs]
        if not conditions:
            return loops.elt
        if reduction not in _STARTS:
            self._refuse_condition(reduction, loops.elt, conditions[0], over)
        test = conditions[0] if len(conditions) == 1 else ast.copy_location(ast.BoolOp(ast.And(), conditions), loops)
        start = ast.copy_location(ast.Constant(_STARTS[reduction]), loops.elt)
        return ast.copy_location(ast.IfExp(test, loops.elt, start), loops.elt)

    def _refuse_condition(self, reduction: str, element: ast.expr, test: ast.expr, over: list[ast.expr]) -> NoReturn:
        """Say how a function without an element that changes nothing is written under a condition."""
        names = ", ".join(ast.unparse(n) for n in over)
        along, taken = f"over={names if len(over) == 1 else f'({names})'}", ast.unparse(test)
        written = f"{reduction}({ast.unparse(element)} if {taken} else {_FAR.get(reduction, 0)}, {along})"
        if reduction == "mean":  # of those that the condition takes
            total, count = (f"sum({text} if {taken} else 0.0, {along})" for text in (ast.unparse(element), "1.0"))
            written = f"{total} / {count}"
        said = f"`{reduction}` over an index has no condition after its `for`"
        fail_at(
            self.source,
            test,
            said,
            f"write it at the value, as in `{written}`",
            code="notation.condition_in_wrong_place",
        )

    def _with_fixed_ends(self, loops: _Loops) -> _Loops:
        """The loops with what is not a size in the ends of a range, such as another index, as a condition after their `for`."""
        inside = {*self.axes, *(loop.target.id for loop in loops.generators if isinstance(loop.target, ast.Name))}
        made = [self._with_conditions(loop, inside) for loop in loops.generators]
        return loops if made == loops.generators else ast.copy_location(type(loops)(loops.elt, made), loops)

    def _with_conditions(self, loop: ast.comprehension, inside: set[str]) -> ast.comprehension:
        """`for k in range(a, b)` as a loop over all `k`, of which those from `a` to below `b` are taken, if these move."""
        match loop:
            case ast.comprehension(
                target=ast.Name() as name, iter=ast.Call(func=ast.Name(id="range"), args=[*ends], keywords=[])
            ) if len(ends) in (1, 2) and any(self._moves(end, inside) for end in ends):
                begin, end = ends if len(ends) == 2 else (ast.copy_location(ast.Constant(0), loop.iter), ends[0])
                index = ast.copy_location(ast.Name(name.id, ast.Load()), name)
                within = ast.Compare(begin, [ast.LtE(), ast.Lt()], [index, end])
                if len(ends) == 1 and name.id not in self.scope.ranges:  # which may begin below 0
                    within = ast.Compare(index, [ast.Lt()], [end])
                within = ast.copy_location(within, loop.iter)
                everywhere = ast.copy_location(ast.Name(_EVERYWHERE, ast.Load()), loop.iter)
                return ast.comprehension(name, everywhere, [within, *loop.ifs], loop.is_async)
        return loop

    def _moves(self, end: ast.expr, inside: set[str]) -> bool:
        """Whether the end of a range depends on an index or on what a tensor holds."""
        return any(
            isinstance(node, ast.Name) and (node.id in inside or node.id in self.scope.tensors)
            for node in ast.walk(self.visit(copy.deepcopy(end)))
        )

    def _everywhere(self, loop: ast.comprehension, loops: _Loops) -> tuple[Any, Any]:
        """The range of an index that has moving ends: that of a line above, or the dimension that it indexes by itself."""
        assert isinstance(loop.target, ast.Name)
        name = loop.target.id
        found = self.scope.ranges.get(name) or self._indexed(name, loops.elt)
        if found is None:
            fail_at(
                self.source, loop.iter, f"nothing says how far `{name}` runs at most, as the ends of its range move",
                f"write `{name}: range(...)` above, with all values that it may have", code="notation.range_not_bounded",
            )  # fmt: skip
        return found

    def _indexed(self, name: str, element: ast.expr) -> tuple[Any, Any] | None:
        """The range of the first dimension that an index indexes by itself."""
        for access in ast.walk(element):
            if isinstance(access, ast.Subscript) and isinstance(access.value, ast.Name):
                tensor = self.scope.tensors.get(access.value.id)
                for item, size in zip(index_items(access), tensor.shape if tensor is not None else ()):
                    if isinstance(item, ast.Name) and item.id == name:
                        return 0, size.value if isinstance(size, IntImm) else size
        return None

    def _index(self, loop: ast.comprehension, loops: _Loops) -> ast.Name:
        """The index name of `for NAME in range(...)`; its range is noted."""
        if not isinstance(loop.target, ast.Name):
            fail_at(
                self.source,
                loop.target,
                f"`{ast.unparse(loop.target)}` is not an index name",
                "write a `for` for each index",
                code="notation.not_an_index_name",
            )
        name = loop.target.id
        moving = isinstance(loop.iter, ast.Name) and loop.iter.id == _EVERYWHERE
        if not moving and not (
            isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "range"
        ):
            fail_at(
                self.source, loop.iter, f"an index runs over `range(...)`, not over `{ast.unparse(loop.iter)}`",
                f"write `for {name} in range(10)`, and index the tensor by `{name}`", code="notation.wrong_range",
            )  # fmt: skip
        range_ = self._everywhere(loop, loops) if moving else self.scope.sizes.range(self.visit(loop.iter))
        if name in self.axes:
            fail_at(
                self.source,
                loop.target,
                f"`{name}` is an index of the left side already",
                "give this `for` a name of its own",
                code="notation.index_on_left",
            )
        if self.ranges.setdefault(name, range_) != range_:
            fail_at(
                self.source,
                loop.target,
                f"`{name}` has another range to the left of this",
                "give this `for` a name of its own",
                code="notation.ranges_differ",
            )
        return ast.copy_location(ast.Name(name, ast.Load()), loop.target)

    def _stray(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> NoReturn:
        loop = ast.unparse(node.generators[0].target)
        fail_at(
            self.source, node, "a `for` in an expression is what a reduction runs over",
            f"write `sum(... for {loop} in {ast.unparse(node.generators[0].iter)})`; others are {_OTHERS}", code="notation.stray_for",
        )  # fmt: skip

    visit_GeneratorExp = visit_ListComp = visit_SetComp = _stray


_OTHERS = ", ".join(f"`{name}`" for name in (*REDUCTIONS[1:], "mean"))
