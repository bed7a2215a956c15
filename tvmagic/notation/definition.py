"""The stages that one definition `T[i, j] = value` makes: its own, and those of the reductions inside it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import PrimExpr, Var, ops, substitute
from tvmagic.lazy import cached_property
from tvmagic.notation.composite_functions import DERIVED, refuse_sum_of_bools
from tvmagic.notation.conditional_reductions import Branch, is_inside, only_if, parts_of
from tvmagic.notation.expressions import Expressions, NotationError, fail_at
from tvmagic.notation.index_ranges import IndexRanges
from tvmagic.notation.recurrence import EXAMPLE, recurrence
from tvmagic.notation.scope import Layered
from tvmagic.notation.suggestions import reduction_hint
from tvmagic.notation.syntax import as_read, over_names, reduces, reduction_name
from tvmagic.notation.wide_sums import WideSum, is_narrow_float, named_function, round_to, widen


class Definition(IndexRanges):
    """One definition, from whose value `build` makes stages."""

    _own: Any = None  # in a recurrence: what its name stands for in the expression that is built

    @cached_property
    def _branches(self) -> dict[ast.expr, Sequence[Branch]]:
        """The branches that what is reduced is in, as far as its stage has the indices of their conditions."""
        return {}

    @cached_property
    def _lifted(self) -> dict[ast.Call, tuple[Mapping[str, Any], PrimExpr]]:
        """Reductions in the value: the indices that each was first read at, and its element there."""
        return {}

    def build(self, reduction: str | None, previous: Any) -> Any:
        """The tensor that the statement defines."""
        value = self.value
        free = [n for n in self.index_names(value) if n not in self.axes]
        kept = {n for node in ast.walk(value) if isinstance(node, ast.Call) for n in self._kept(node)}
        if self.reads_itself:
            if reduction is not None:
                self._refuse_recurrent_sum(reduction)
            self._check_free(free, kept)
            return recurrence(self)
        if reduction is not None:
            if not free and previous is not None:
                operator = ast.Add() if reduction == "sum" else ast.Mult()
                changed = ast.copy_location(ast.BinOp(as_read(self.target), operator, value), value)
                return self._stage(self.name, self.axes, changed, None, [])
            if not free:
                self._check_ranges(value)
                fail_at(
                    self.source, self.target,
                    f"`{ast.unparse(self.target)}` is reduced over nothing: every index of the right side is on the left",
                    "write `=`, or leave the index out on the left", code="notation.nothing_to_reduce",
                )  # fmt: skip
            if previous is not None:
                return self._accumulate(reduction, free, previous)
            return self._stage(self.name, self.axes, value, reduction, free)
        self._check_free(free, kept)
        if isinstance(value, ast.Call) and reduction_name(value) is not None:
            return self._reduction(self.name, self.axes, value)
        return self._stage(self.name, self.axes, value, None, [])

    def _refuse_recurrent_sum(self, reduction: str) -> NoReturn:
        over = [n for n in self.index_names(self.value) if n not in self.axes]
        names = over[0] if len(over) == 1 else f"({', '.join(over)})"
        fail_at(
            self.source, self.target, f"`{self.name}` is read before it is computed",
            f"with `=` it may read itself earlier, as in {EXAMPLE}; a {reduction} inside is `{reduction}(..., over={names})`", code="notation.read_before_computed",
        )  # fmt: skip

    def index_names(self, node: ast.AST) -> list[str]:
        """The index names in `node`, in the order in which they are first read; not those over which a reduction in it runs."""
        found: list[ast.Name] = []
        pending: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset())]
        while pending:
            part, reduced = pending.pop()
            if isinstance(part, ast.Name) and part.id in self.ranges and part.id not in reduced:
                found.append(part)
            elif isinstance(part, ast.Call) and reduces(part):
                reduced |= over_names(part, self.source)
            pending += [(child, reduced) for child in ast.iter_child_nodes(part)]
        return list(dict.fromkeys(n.id for n in sorted(found, key=lambda n: (n.lineno, n.col_offset))))

    def _kept(self, call: ast.Call) -> set[str]:
        """The names that follow `over=` in a call with a value for each of them, such as `softmax`."""
        return set() if reduces(call) else over_names(call, self.source)

    def _check_free(self, free: list[str], bound: set[str]) -> None:
        loose = [n for n in free if n not in bound]
        if loose:
            name = loose[0]
            fail_at(
                self.source, self._first_use(name), f"`{name}` is on the right side only",
                reduction_hint(loose, self.value), code="notation.index_only_on_right",
            )  # fmt: skip

    def _check_ranges(self, value: ast.expr) -> None:
        """Raise at a name that stands for nothing: it may be meant as an index, whose range does not follow."""
        called = {id(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)}
        numbers = self._values()
        for node in ast.walk(value):
            if not isinstance(node, ast.Name) or id(node) in called:
                continue
            if node.id not in self.scope.tensors and node.id not in self.ranges and node.id not in numbers:
                fail_at(
                    self.source, node, f"nothing says how far `{node.id}` runs, as no tensor is indexed by it",
                    f"write `{node.id}: range(...)` above", code="notation.unknown_range",
                )  # fmt: skip

    def _accumulate(self, reduction: str, free: list[str], previous: Any) -> Any:
        part = self._stage(self._unique_name(f"{self.name}_{reduction}"), self.axes, self.value, reduction, free)

        def combine(*indices: Any) -> Any:
            a, b = previous(*indices), part(*indices)
            if reduction != "sum":
                return a * b
            return round_to(part.dtype, widen(a) + part.wide(*indices)) if isinstance(part, WideSum) else a + b

        return self._compute(self.name, self.axes, combine)

    def _reduction(self, name: str, axes: list[str], call: ast.Call) -> Any:
        kind, over = reduction_name(call), over_names(call, self.source)
        assert kind is not None
        if len(call.args) != 1:
            fail_at(
                self.source,
                call,
                f"`{kind}(..., over=...)` takes one expression, not {len(call.args)}",
                code="notation.wrong_argument_count",
            )
        for name_over in sorted(over):
            if name_over in axes and axes is self.axes:
                fail_at(
                    self.source, call, f"`{name_over}` is reduced and on the left side, too",
                    "give the index over which it runs a name of its own", code="notation.reduced_index_on_left",
                )  # fmt: skip
            if name_over not in self.ranges:
                fail_at(
                    self.source, call, f"nothing says how far `{name_over}` runs, over which `{kind}` is",
                    f"write {' and '.join(f'`{n}: range(...)`' for n in sorted(over.difference(self.ranges)))} above", code="notation.unknown_range",
                )  # fmt: skip
        inside = self.index_names(call.args[0])
        for name_over in sorted(over.difference(inside)):
            fail_at(
                self.source, call, f"`{name_over}` is reduced inside already, so that nothing is left over which `{kind}` runs",
                "give one of the two indices another name", code="notation.reduced_inside",
            )  # fmt: skip
        return self._stage(name, axes, call.args[0], kind, [n for n in inside if n in over])

    def _stage(self, name: str, axes: list[str], value: ast.expr, reduction: str | None, over: list[str]) -> Any:
        reduced = {n: te.reduce_axis((self.ranges[n][0], self.ranges[n][0] + self.ranges[n][1]), name=n) for n in over}
        rounded: list[Any] = []  # the dtype of a sum that is accumulated in a wider one

        def compute(*indices: Any) -> Any:
            bound = {**dict(zip(axes, indices)), **{n: iv.var for n, iv in reduced.items()}}
            result = self._element(value, bound)
            if reduction is None:
                return result
            if reduction == "sum" and result.dtype.is_bool:
                names = over[0] if len(over) == 1 else f"({', '.join(over)})"
                refuse_sum_of_bools(self, value, f"max({ast.unparse(value)}, over={names})")
            if reduction == "sum" and is_narrow_float(result.dtype):
                rounded.append(result.dtype)
                result = widen(result)
            result = getattr(te, reduction)(result, axis=list(reduced.values()))
            result.span = self.source.span(value)
            return result

        tensor = self._compute(name, axes, compute)
        return WideSum(tensor, rounded[0], self._unique_name(f"{name}_{rounded[0]}")) if rounded else tensor

    def _compute(self, name: str, axes: list[str], body: Any) -> Any:
        for axis in axes:
            if not isinstance(self.ranges[axis][0], int) or self.ranges[axis][0] != 0:
                fail_at(
                    self.source,
                    self.target,
                    f"the range of `{axis}`, which is on the left side, begins at 0",
                    code="notation.range_not_from_zero",
                )
        shape = tuple(self.ranges[axis][1] for axis in axes)
        try:
            tensor = te.compute(shape, named_function(axes, body), name=name)
        except NotationError:
            raise
        except TVMagicError as error:
            raise NotationError(
                error.message, span=self.source.span(self.target), hint=error.hint, code=error.code
            ) from error
        for made in tensor if isinstance(tensor, (list, tuple)) else [tensor]:
            made.op.span = self.source.span(self.target)
        return tensor

    def _expressions(self, bound: Mapping[str, Any], branches: Sequence[Branch] = ()) -> Expressions:
        """What builds expressions with the names that the statement sees."""
        tensors = self.scope.tensors if self._own is None else {**self.scope.tensors, self.name: self._own}
        values = self._values()
        return Expressions(self.source, bound, tensors, values, self._lift, self.scope.values, self._real, branches)

    def _element(self, node: ast.expr, bound: Mapping[str, Any]) -> PrimExpr:
        """The value of an expression; of what is reduced inside a branch, only if the branch is taken."""
        branches = self._branches.get(node, ())
        value = self._expressions(bound, branches).build(node)
        if not branches or not self._may_leave(node):
            return value
        tests = [(self._expressions(bound).build(test), taken) for test, taken in branches]
        return only_if([test if taken else ops.logical_not(test) for test, taken in tests], value)

    def _may_leave(self, node: ast.expr) -> bool:
        """Whether an expression may read outside a tensor; what a recurrence by steps reads of itself is looked at there."""
        variables = {name: Var(name) for name in self.ranges}
        ranges = {variables[name]: self.ranges[name] for name in self.ranges}
        for access in ast.walk(node):
            if not isinstance(access, ast.Subscript) or not isinstance(access.value, ast.Name):
                continue
            if self._own is not None and self._own.in_a_table and access.value.id == self.name:
                return True
            for item, size in self._dimensions(access):
                if any(isinstance(part, ast.Call) and over_names(part, self.source) for part in ast.walk(item)):
                    return True
                if not is_inside(self._expressions(variables).build(item), size, ranges):
                    return True
        return False

    @cached_property
    def _real(self) -> str:
        """The type of fractions that no float is beside: that of NumPy if the statement has values of it, else a narrower one."""
        names = {node.id for node in ast.walk(self.value) if isinstance(node, ast.Name)}
        types = {str(self.scope.tensors[n].dtype) for n in names & set(self.scope.tensors)} | (names & {"float64"})
        declared = self.scope.declared.get(self.name, ((), ""))[1]
        return "float64" if "float64" in types or declared == "float64" else "float32"

    def _values(self) -> Mapping[str, Any]:
        return Layered(self.scope.numbers, self.scope.sizes.symbols, self.scope.values)

    def _lift(self, call: ast.Call, bound: Mapping[str, Any], branches: Sequence[Branch]) -> PrimExpr:
        """The stage of a reduction inside an expression, made once, and its element at the present indices."""
        indices = {*self.index_names(call)} - over_names(call, self.source)
        for node in call.args:
            self._branches[node] = [part for part in parts_of(branches) if {*self.index_names(part[0])} <= indices]
        if self._own is not None or not all(isinstance(value, Var) for value in bound.values()):
            return self._composite(call, bound)  # of the steps of a recurrence
        if call not in self._lifted:
            self._lifted[call] = (bound, self._composite(call, bound))
        places, made = self._lifted[call]
        return substitute(made, {places[n]: value for n, value in bound.items() if n in places})

    def _composite(self, call: ast.Call, bound: Mapping[str, Any]) -> PrimExpr:
        derived = DERIVED.get(ast.unparse(call.func))
        if derived is not None:
            return derived(self, call, bound)
        free = self.index_names(call)
        self._check_free(free, set(bound))
        name = self._unique_name(f"{self.name}_{reduction_name(call)}")
        tensor = self._reduction(name, free, call)
        return tensor(*[bound[n] for n in free])

    # what `derived` makes its stages with

    def fail(self, node: ast.AST, message: str, hint: str | None = None, *, code: str | None = None) -> NoReturn:
        """Raise the error of a place in the statement."""
        fail_at(self.source, node, message, hint, code=code)

    def compute(self, suffix: str, axes: list[str], body: Callable[[Mapping[str, Any]], Any]) -> Any:
        """A stage named after the statement, of the elements `body(index names to variables)`."""
        return self._compute(self._unique_name(f"{self.name}_{suffix}"), axes, lambda *at: body(dict(zip(axes, at))))

    def expression(self, node: ast.expr, bound: Mapping[str, Any], own: Any = None) -> PrimExpr:
        """An expression of the notation; `own` is what the definition's name stands for in one that reads itself."""
        before, self._own = self._own, own or self._own
        try:
            return self._element(node, bound)
        finally:
            self._own = before

    # what `recurrence` makes its stages with

    def stage(self, name: str, axes: list[str], body: Callable[[Mapping[str, Any]], Any]) -> Any:
        """A stage of the elements `body(index names to variables)`."""
        return self._compute(name, axes, lambda *at: body(dict(zip(axes, at))))

    def numbers_of_indices(self) -> Mapping[str, Any]:
        """What is a number in an index, by name."""
        return self._numbers

    def _unique_name(self, name: str) -> str:
        taken, candidate, count = {*self.scope.tensors, *self.scope.made, *self.scope.assigned}, name, 0
        while candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        self.scope.made.add(candidate)
        return candidate
