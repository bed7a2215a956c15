"""`assert` in a cell of index notation: preconditions on the inputs.

    assert ptr[0] == 0 and ptr[m] == p
    assert ptr[i] <= ptr[i + 1]                      for all `i` for which no access leaves its tensor
    assert distinct(P[i], over=i)                    no two elements are equal
    assert all(col[q] < i for q in range(ptr[i], ptr[i + 1]))    for each `q` of each `i`, and no other
    assert abs(sum(P[i, k], over=k) - 1) < 1e-5

A condition holds for all values of its index names. `and` and `or` evaluate their sides from left to right, as far as these
decide. A range visits only itself, so that a test takes time linear in its loops.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tvmagic import te
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import IntImm, PrimExpr, ProducerLoad, Span, Var, ops, post_order_visit
from tvmagic.ir.constants import const, max_value, min_value
from tvmagic.notation.affine import affine_of, is_proved
from tvmagic.notation.expressions import REDUCTIONS, Expressions, check_rank, fail_at, fail_undefined, index_items
from tvmagic.notation.python_spellings import in_the_notation
from tvmagic.notation.scope import Layered, Scope
from tvmagic.notation.syntax import over_names

_REDUCING = ("any", "all", *REDUCTIONS)
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


@dataclass(frozen=True)
class Loop:
    """An index name that runs from `begin` to below `end`, which may depend on data and on the loops around it."""

    var: Var
    begin: Any
    end: Any


@dataclass(frozen=True)
class Reduction:
    """A reduction in a condition, which reads its value as `var`. `inner` are those in its `element`."""

    var: Var
    kind: str
    loops: tuple[Loop, ...]
    element: PrimExpr
    inner: tuple[Reduction, ...]

    @property
    def identity(self) -> PrimExpr:
        """The value over nothing."""
        dtype = self.element.dtype
        if self.kind in ("any", "all"):
            return const(self.kind == "all", "bool")
        if self.kind in ("sum", "prod"):
            return const(int(self.kind == "prod"), dtype)
        if dtype.is_float:
            return const(float("-inf" if self.kind == "max" else "inf"), dtype)
        return min_value(dtype) if self.kind == "max" else max_value(dtype)

    def combine(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """The reduction of two values."""
        match self.kind:
            case "any":
                return ops.any(a, b)
            case "all":
                return ops.all(a, b)
            case "sum":
                return a + b
            case "prod":
                return a * b
            case "max":
                return ops.maximum(a, b)
        return ops.minimum(a, b)


@dataclass(frozen=True)
class Side:
    """An operand of a comparison, with the reductions that it reads."""

    value: PrimExpr
    reductions: tuple[Reduction, ...] = ()


@dataclass(frozen=True)
class Assertion:
    """One condition, for all values of the variables of `loops`.

    Attributes
    ----------
    text, span, message: the condition as written, its place in the cell, and the text after its comma.
    reductions: those that the condition has inside.
    sides, signs: the operands and the signs if it is a comparison, such as `0 <= X[i] < n`; else empty.
    over: how many of the loops, the last ones, no two elements `condition` of which are equal if it is `distinct`; else 0.
    """

    text: str
    span: Span
    message: str
    loops: tuple[Loop, ...]
    condition: PrimExpr
    reductions: tuple[Reduction, ...]
    sides: tuple[Side, ...] = ()
    signs: tuple[str, ...] = ()
    over: int = 0

    def expressions(self) -> Iterator[PrimExpr]:
        """All expressions of the assertion."""
        pending = list(self.reductions)
        yield self.condition
        yield from _loop_bounds(self.loops)
        while pending:
            reduction = pending.pop()
            yield reduction.element
            yield from _loop_bounds(reduction.loops)
            pending += reduction.inner

    @property
    def tensors(self) -> list[Any]:
        """The tensors that it reads."""
        found: dict[Any, None] = {}
        for expr in self.expressions():
            post_order_visit(expr, lambda n: found.setdefault(n.producer) if isinstance(n, ProducerLoad) else None)
        return list(found)


def _loop_bounds(loops: tuple[Loop, ...]) -> list[PrimExpr]:
    return [end for loop in loops for end in (loop.begin, loop.end) if isinstance(end, PrimExpr)]


def read_assertions(statement: ast.Assert, scope: Scope) -> list[Assertion]:
    """The conditions of an `assert`, those joined by `and` each by itself."""
    message = statement.msg.value if isinstance(statement.msg, ast.Constant) else ""
    terms = [_Term(scope, node, []).read() for node in _conjuncts(statement.test)]
    return [replace(term, message=str(message)) for found in terms for term in found]


def _conjuncts(node: ast.expr) -> list[ast.expr]:
    """The conditions that `and` joins."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _conjuncts(value)]
    return [node]


def _is_generator(call: ast.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0], (ast.GeneratorExp, ast.ListComp))


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


class _Term:
    """Reads one condition. `within` are the `for`s of an `all(...)` around it."""

    def __init__(self, scope: Scope, node: ast.expr, within: list[ast.comprehension]) -> None:
        self.scope, self.node, self.within, self.source = scope, node, within, scope.source
        self.variables: dict[str, Any] = {}

    def read(self) -> list[Assertion]:
        """The assertions of the condition: those of `all(A and B for ...)` are two."""
        match self.node:
            case ast.Call(func=ast.Name(id="all"), args=[inner], keywords=[]) if _is_generator(self.node):
                loops = [*self.within, *inner.generators]  # type: ignore[attr-defined]
                parts = _conjuncts(inner.elt)  # type: ignore[attr-defined]
                return [a for part in parts for a in _Term(self.scope, part, loops).read()]
            case ast.Call(func=ast.Name(id="all"), args=[inner], keywords=[ast.keyword(arg="over")]):
                over_names(self.node, self.source)
                return [a for part in _conjuncts(inner) for a in _Term(self.scope, part, self.within).read()]
            case ast.Call(func=ast.Name(id="distinct")):
                return [self._distinct(self.node)]
        self._check_accesses()
        loops = self._loops()
        node = _in_order(copy.deepcopy(self.node))
        condition, reductions = self._build(node, dict(self.variables))
        if not condition.dtype.is_bool:
            text = ast.unparse(self.node)
            self._fail(
                self.node,
                f"`assert` takes a condition, and `{text}` is {condition.dtype}",
                f"write a comparison, as in `{text} != 0`",
                code="notation.assert.not_a_condition",
            )
        for guard in [test for loop in reversed(self.within) for test in reversed(loop.ifs)]:
            test, more = self._build(_in_order(copy.deepcopy(guard)), dict(self.variables))
            condition, reductions = ops.if_then_else(test, condition, const(True, "bool")), (*more, *reductions)
        sides, signs = self._sides(self.node)
        return [
            Assertion(
                ast.unparse(self.node), self.source.span(self.node), "", loops, condition, reductions, sides, signs
            )
        ]

    def _distinct(self, call: ast.Call) -> Assertion:
        """The assertion of `distinct(E, over=i)`."""
        text = ast.unparse(call)
        if self.within or _is_generator(call) or len(call.args) != 1:
            self._fail(
                call, f"`{text}` does not say over which index", "write `distinct(P[i], over=i)`; of sorted elements in a range write "
                "`all(P[q] < P[q + 1] for q in range(a, b - 1))`", code="notation.assert.distinct_without_index",
            )  # fmt: skip
        over = over_names(call, self.source)
        if not over or any(k.arg != "over" for k in call.keywords):
            self._fail(
                call,
                "`distinct` does not say over what",
                f"write `distinct({ast.unparse(call.args[0])}, over=i)`",
                code="notation.assert.distinct_without_index",
            )
        self.node = call.args[0]
        self._check_accesses()
        loops = self._loops()
        for name in sorted(over - set(self.variables)):
            self._fail(
                call, f"nothing is indexed by `{name}`, over which `distinct` runs", code="notation.assert.unused_index"
            )
        element, reductions = self._build(copy.deepcopy(self.node), dict(self.variables))
        if element.dtype.is_float or reductions:
            self._fail(
                call,
                "`distinct` takes integers without a reduction",
                "write `X[i] < X[i + 1]` for sorted numbers",
                code="notation.assert.distinct_not_integer",
            )
        inner = {id(self.variables[name]) for name in over}
        order = sorted(loops, key=lambda loop: id(loop.var) in inner)
        return Assertion(text, self.source.span(call), "", tuple(order), element, (), over=len(over))

    # ------------------------------------------------------------------------ index names

    def _check_accesses(self) -> None:
        """Every access is of an input, with an index for each dimension."""
        for access in self._accesses():
            assert isinstance(access.value, ast.Name)
            name, tensors = access.value.id, self.scope.tensors
            if name not in tensors and name not in self.scope.assigned:
                fail_undefined(self.source, access.value, name, tensors)
            if name not in tensors or not isinstance(tensors[name].op, te.PlaceholderOp):
                self._fail(
                    access,
                    f"`assert` is about inputs, and `{name}` is computed",
                    "write it above the statement that assigns it",
                    code="notation.assert.reads_computed_tensor",
                )
            check_rank(self.source, access, tensors[name])

    def _trees(self) -> list[ast.AST]:
        return [self.node, *(loop.iter for loop in self.within), *(test for loop in self.within for test in loop.ifs)]

    def _accesses(self) -> list[ast.Subscript]:
        """The accesses of tensors, those in the ends of ranges too."""
        nodes = [node for tree in self._trees() for node in ast.walk(tree)]
        found = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)]
        return sorted(found, key=lambda n: (n.lineno, n.col_offset))

    def _generated(self) -> set[str]:
        """The names that generators bind."""
        made = [
            g
            for tree in self._trees()
            for node in ast.walk(tree)
            if isinstance(node, ast.GeneratorExp | ast.ListComp)
            for g in node.generators
        ]
        return {g.target.id for g in [*self.within, *made] if isinstance(g.target, ast.Name)}

    def _numbers(self) -> dict[str, Any]:
        sizes = self.scope.sizes
        return {**sizes.symbols, **sizes.outside, **self.scope.numbers}

    def _loops(self) -> tuple[Loop, ...]:
        """The loops of the free index names, then those of the `for`s around the condition."""
        reduced = set().union(
            *(over_names(n, self.source) for tree in self._trees() for n in ast.walk(tree) if isinstance(n, ast.Call))
        )
        free = [n for n in self._index_names() if n not in self._generated() and n not in reduced]
        loops: list[Loop] = []
        for name in free:
            begin, end = self._range(name)
            self.variables[name] = Var(name)
            loops.append(Loop(self.variables[name], begin, end))
        return (*loops, *self._generator_loops(self.within, self.variables))

    def _index_names(self) -> list[str]:
        """The index names, in the order in which they first appear."""
        accesses = self._accesses()
        plain = {i.id for a in accesses for i in index_items(a) if isinstance(i, ast.Name)}
        numbers = {*self.scope.numbers, *self.scope.sizes.symbols, *(set(self.scope.sizes.outside) - plain)}
        inside = {n for a in accesses for item in index_items(a) for n in _names_in(item)} | set(self.scope.ranges)
        called = {
            n.func.id
            for tree in self._trees()
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        names = inside - numbers - set(self.scope.tensors) - called
        nodes = [n for tree in self._trees() for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in names]
        return list(dict.fromkeys(n.id for n in sorted(nodes, key=lambda n: (n.lineno, n.col_offset))))

    def _range(self, name: str) -> tuple[Any, Any]:
        """How far a name runs: as a line above says, else as far as no access leaves its tensor."""
        if name in self.scope.ranges:
            begin, extent = self.scope.ranges[name]
            return begin, begin + extent
        begin: Any = 0
        ends: list[Any] = []
        for access in self._accesses():
            for item, size in zip(index_items(access), self.scope.tensors[access.value.id].shape):  # type: ignore[attr-defined]
                affine = affine_of(item, {name, *self.variables}, self._numbers())
                if affine is None or list(affine.factors) != [name] or affine.factors[name] < 1:
                    continue
                factor = affine.factors[name]
                size = size.value if isinstance(size, IntImm) else size
                begin = max(begin, -((affine.constant) // factor)) if isinstance(affine.constant, int) else begin
                ends.append((size - affine.constant - 1) // factor + 1 if factor > 1 else size - affine.constant)
        if not ends:
            node = next(n for tree in self._trees() for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name)
            self._fail(
                node,
                f"nothing says how far `{name}` runs",
                f"write `{name}: range(...)` above",
                code="notation.assert.unknown_range",
            )
        end = _smallest(ends)
        if end is None:
            texts = " and over ".join(dict.fromkeys(str(_simple(e)) for e in ends))
            self._fail(
                self.node,
                f"`{name}` runs over {texts}",
                f"write `{name}: range(...)` above",
                code="notation.assert.wrong_range",
            )
        return begin, _simple(end)

    def _generator_loops(self, generators: list[ast.comprehension], variables: dict[str, Any]) -> list[Loop]:
        """The loops of `for`s; their names are added to `variables`."""
        loops: list[Loop] = []
        for generator in generators:
            match generator:
                case ast.comprehension(
                    target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[*ends], keywords=[])
                ) if len(ends) in (1, 2):
                    if name in variables or name in self.scope.tensors:
                        self._fail(
                            generator.target,
                            f"`{name}` means something else already",
                            "give this `for` a name of its own",
                            code="notation.assert.name_taken",
                        )
                    values = [self._end(end, variables) for end in ends]
                    variables[name] = Var(name, "int64")  # the ends may be far apart
                    loops.append(
                        Loop(variables[name], *(values if len(values) == 2 else (const(0, "int64"), values[0])))
                    )
                case _:
                    self._fail(
                        generator.iter,
                        f"an index runs over `range(...)`, not over `{ast.unparse(generator.iter)}`",
                        code="notation.assert.wrong_range",
                    )
        return loops

    def _end(self, node: ast.expr, variables: Mapping[str, Any]) -> Any:
        value, reductions = self._build(copy.deepcopy(node), dict(variables))
        if reductions or not (value.dtype.is_int or value.dtype.is_uint):
            self._fail(
                node,
                f"the end of a range is an integer without a reduction, not `{ast.unparse(node)}`",
                code="notation.assert.wrong_range_end",
            )
        return ops.cast("int64", value)

    # ------------------------------------------------------------------------ expressions

    def _build(self, node: ast.expr, variables: dict[str, Any]) -> tuple[PrimExpr, tuple[Reduction, ...]]:
        """An expression, and the reductions inside it, which it reads by their variables."""
        found = _Reductions(self, variables)
        node = found.visit(node)
        return self._expressions(variables).build(node), tuple(found.reductions)

    def _expressions(self, variables: Mapping[str, Any]) -> Expressions:
        scope = self.scope
        values = Layered(scope.numbers, scope.sizes.symbols, scope.values)
        return Expressions(self.source, variables, scope.tensors, values, self._refuse, scope.values)

    def _refuse(self, call: ast.Call, *_: Any) -> NoReturn:
        self._fail(
            call,
            f"`{ast.unparse(call.func)}` has no place in an assertion",
            f"there are {', '.join(_REDUCING)}",
            code="notation.assert.unsupported",
        )

    def _sides(self, node: ast.expr) -> tuple[tuple[Side, ...], tuple[str, ...]]:
        """The operands of a comparison and the signs between them; of anything else none."""
        if not isinstance(node, ast.Compare) or any(type(op) not in _SIGNS for op in node.ops):
            return (), ()
        sides = [
            self._build(_in_order(copy.deepcopy(side)), dict(self.variables)) for side in (node.left, *node.comparators)
        ]
        return tuple(Side(*side) for side in sides), tuple(_SIGNS[type(op)] for op in node.ops)

    def reduction(self, call: ast.Call, variables: dict[str, Any]) -> Reduction:
        """A reduction inside a condition, over the `for`s of its generator or the names after `over=`."""
        kind = call.func.id  # type: ignore[attr-defined]
        inside = dict(variables)
        if _is_generator(call):
            whole: Any = call.args[0]
            loops, element = self._generator_loops(whole.generators, inside), whole.elt
            guards = [test for generator in whole.generators for test in generator.ifs]
        else:
            loops, element, guards = [], call.args[0], []
            for name in sorted(over_names(call, self.source)):
                begin, end = self._range(name)
                inside[name] = Var(name)
                loops.append(Loop(inside[name], begin, end))
        value, inner = self._build(element, inside)
        if value.dtype.is_bool and kind not in ("any", "all"):
            self._fail(
                call,
                f"`{ast.unparse(element)}` is a `bool`",
                f"write `int32({ast.unparse(element)})` to count them",
                code="notation.assert.reduction_of_bools",
            )
        if not value.dtype.is_bool and kind in ("any", "all"):
            self._fail(
                call,
                f"`{kind}` takes conditions, and `{ast.unparse(element)}` is {value.dtype}",
                code="notation.assert.not_a_condition",
            )
        found = Reduction(Var(kind, value.dtype), kind, tuple(loops), value, inner)
        for guard in reversed(guards):
            test, more = self._build(guard, inside)
            found = replace(
                found, element=ops.if_then_else(test, found.element, found.identity), inner=(*more, *found.inner)
            )
        return found

    def _fail(self, node: ast.AST, message: str, hint: str | None = None, *, code: str) -> NoReturn:
        fail_at(self.source, node, message, hint, code=code)


class _Reductions(ast.NodeTransformer):
    """Replaces reductions in an expression by names of their values, and spells the rest in the notation."""

    def __init__(self, term: _Term, variables: dict[str, Any]) -> None:
        self.term, self.variables = term, variables
        self.reductions: list[Reduction] = []

    def visit(self, node: Any) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _REDUCING:
            if _is_generator(node) or any(k.arg == "over" for k in node.keywords):
                reduction = self.term.reduction(node, self.variables)
                name = f"<{ast.unparse(node)}>"
                self.variables[name] = reduction.var
                self.reductions.append(reduction)
                return ast.copy_location(ast.Name(name, ast.Load()), node)
        if isinstance(node, (ast.Subscript, ast.Call)):
            node = in_the_notation(node, [], self.term.scope)[0] if not _has_reduction(node) else node
        return super().generic_visit(node)


def _has_reduction(node: ast.AST) -> bool:
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in _REDUCING for n in ast.walk(node)
    )


class _InOrder(ast.NodeTransformer):
    """Writes `a or b` as `True if a else b`, so that `b` is evaluated only where it decides."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        result = node.values[-1]
        for value in reversed(node.values[:-1]):
            decided = ast.copy_location(ast.Constant(isinstance(node.op, ast.Or)), node)
            sides = (decided, result) if isinstance(node.op, ast.Or) else (result, decided)
            result = ast.copy_location(ast.IfExp(value, *sides), node)
        return result


def _in_order(node: ast.expr) -> ast.expr:
    return _InOrder().visit(node)


def _smallest(ends: list[Any]) -> Any:
    """The smallest of some sizes; None if it is not known which one that is."""
    for end in ends:
        if all(end is other or is_proved(end <= other) for other in ends):
            return end
    return None


def _simple(size: Any) -> Any:
    return Analyzer().simplify(size) if isinstance(size, PrimExpr) else size
