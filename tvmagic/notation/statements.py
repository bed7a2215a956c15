"""The index notation of `%%tensor`: statements such as `Y[i, j] += X[i, k] * W[j, k]`.

    X: float32[128, 256]               an input, its dtype and its shape
    X: [128, 256]                      an input of the default dtype (`%config TensorMagics.dtype`)
    n: range(30)                       the range of an index that cannot be inferred
    Y[i, j] += X[i, k] * W[j, k]       a sum over the names on the right only
    Y[i] *= X[i, k]                    a product over them
    Y[i] = max(X[i, k], over=k)        a reduction by name: sum, prod, max, min, mean, argmax, argmin
    Y[i, k] = softmax(X[i, k], over=k) along an index that stays: softmax, cumsum, cumprod, cummax, cummin
    Z[i] = exp(Y[i]) if i > 0 else 0   the untaken side is not computed
    for i in range(30): Y[i] = A[2*i]  the range of an index, for the statements inside

It is Python's syntax; it means tensor expressions. An index that stands alone in an access runs
over that dimension; one in a sum (`A[2*i + r]`), or divided (`A[i // 2]`), runs as far as no access leaves its tensor. A
name in a shape that neither the cell nor the notebook defines is a symbolic size. Accesses under
a condition (`... if i > 0 else 0`) bound nothing and are not checked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn

from tvmagic import te
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, PrimExpr
from tvmagic.ir.deep import with_deep_stack
from tvmagic.notation.affine import Affine, affine_of, holds, is_proved, quotient_of, shrunk, solve_extents
from tvmagic.notation.derived import DERIVED, refuse_sum_of_bools
from tvmagic.notation.expressions import (
    DTYPES,
    FUNCTIONS,
    REDUCTIONS,
    Expressions,
    NotationError,
    check_rank,
    fail_at,
    fail_undefined,
    index_items,
)
from tvmagic.notation.sizes import Sizes
from tvmagic.notation.source import Source
from tvmagic.notation.suggestions import declaration_hint, dtype_hint, reduction_hint, tensor_hint
from tvmagic.notation.syntax import cast_types, declaration, is_dtype, is_fraction, over_names, reduction_name

__all__ = ["Notation"]

_PADDING = "write `... if CONDITION else 0` for padding"
_AUGMENTED: dict[type[ast.AST], str] = {ast.Add: "sum", ast.Mult: "prod"}


class Notation:
    """Reads the statements of one cell in order and builds their tensors.

    `tensors` are the tensors by name, which Python statements of the same cell share; `inputs`
    the placeholders in order; `values` gives numbers by name; `dtype` is that of declarations
    without one.
    """

    def __init__(
        self, source: Source, tensors: dict[str, Any], values: Mapping[str, Any], dtype: str = "float32"
    ) -> None:
        self.source, self.tensors, self.values, self.dtype = source, tensors, values, dtype
        self.numbers: dict[str, int] = {}
        self.sizes = Sizes(source, self.numbers, values)
        self.ranges: dict[str, tuple[Any, Any]] = {}
        self.range_lines: dict[str, int] = {}  # the lines of the cell that say `j: range(5)`, also those not reached yet
        self.declared: dict[str, tuple[Any, str]] = {}
        self.assigned: set[str] = set()
        self.read: set[str] = set()
        self.made: set[str] = set()  # the names of stages that statements need besides their own
        self.carried: set[str] = set()  # tensors that are read before they are assigned: inputs that get a new value

    def prepare(self, statements: list[ast.stmt]) -> None:
        """Note which tensors the cell computes: a declaration of one of them is no input, unless it is read first. And which it reads."""
        pending = list(reversed(statements))
        while pending:
            statement = pending.pop()
            if isinstance(statement, ast.For):
                pending += reversed(statement.body)
                continue
            subscripts = [
                n for n in ast.walk(statement) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
            ]
            read = {n.value.id for n in subscripts if isinstance(n.ctx, ast.Load)}  # type: ignore[attr-defined]
            stored = {n.value.id for n in subscripts if isinstance(n.ctx, ast.Store)}  # type: ignore[attr-defined]
            self.read |= read
            if isinstance(statement, ast.AnnAssign):
                if isinstance(statement.target, ast.Name) and declaration(statement.annotation) == "range":
                    self.range_lines.setdefault(statement.target.id, statement.lineno)
            else:
                self.carried |= read - self.assigned
                self.assigned |= stored
        self.carried &= self.assigned

    def run(self, statement: ast.stmt) -> None:
        """Take in one statement."""
        match statement:
            case ast.AnnAssign():
                with_deep_stack(lambda: self._declare(statement))
            case ast.For():
                self._for(statement)
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                self._define(target, value, None)
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                if type(op) not in _AUGMENTED:
                    fail_at(self.source, statement, "a reduction is written `+=`, `*=` or `max(..., over=k)`")
                self._define(target, value, _AUGMENTED[type(op)])

    # ------------------------------------------------------------------------ declarations

    def _declare(self, node: ast.AnnAssign) -> None:
        assert isinstance(node.target, ast.Name)
        name, annotation = node.target.id, node.annotation
        if node.value is not None:
            fail_at(self.source, node.value, "a declaration has no value", f"write `{name}: {ast.unparse(annotation)}`")
        if declaration(annotation) == "range":
            assert isinstance(annotation, ast.Call)
            self.ranges[name] = self.sizes.range(annotation)
            return
        if isinstance(annotation, ast.List):
            dtype, items = self.dtype, annotation.elts
        else:
            dtype_node = annotation.value if isinstance(annotation, ast.Subscript) else annotation
            dtype = ast.unparse(dtype_node)
            if dtype not in DTYPES:
                fail_at(self.source, dtype_node, f"`{dtype}` is not a data type", declaration_hint(name, annotation))
            items = index_items(annotation) if isinstance(annotation, ast.Subscript) else []
        shape = [self.sizes.size(item) for item in items]
        if name in self.tensors and getattr(self.tensors[name].op, "span", None) is not None:
            earlier = self.tensors[name].op.span
            if earlier.source == self.source.name and name in self.declared:
                fail_at(self.source, node.target, f"`{name}` is declared twice")
        self.declared[name] = (shape, dtype)
        if name not in self.assigned or name in self.carried:
            self.tensors[name] = te.placeholder(shape, dtype, name=name)
            self.tensors[name].op.span = self.source.span(node)

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)
        if node.orelse:
            fail_at(self.source, node.orelse[0], "`else` after `for` has no meaning in the index notation")
        name, outer = node.target.id, dict(self.ranges)
        self.ranges[name] = self.sizes.range(node.iter)
        for statement in node.body:
            self.run(statement)
        self.ranges = outer

    # ------------------------------------------------------------------------ definitions

    def _define(self, target: ast.Subscript, value: ast.expr, reduction: str | None) -> None:
        assert isinstance(target.value, ast.Name)
        name, axes = target.value.id, with_deep_stack(lambda: self._axes(target))
        if name in self.declared and name in self.tensors and name not in self.assigned:
            fail_at(self.source, target, f"`{name}` is an input and cannot be assigned")
        previous = self.tensors.get(name) if reduction else None
        if previous is not None and isinstance(previous.op, te.PlaceholderOp) and name not in self.carried:
            previous = None
        tensor = with_deep_stack(lambda: _Statement(self, name, axes, target, value).build(reduction, previous))
        self._check_declared(name, tensor, target, value)
        self.tensors[name] = tensor

    def _axes(self, target: ast.Subscript) -> list[str]:
        axes: list[str] = []
        for item in index_items(target):
            if isinstance(item, ast.Tuple) and not item.elts:
                continue
            if not isinstance(item, ast.Name):
                hint = None
                if any(isinstance(n, ast.Subscript) for n in ast.walk(item)):
                    hint = f"compare with each place instead, as in `H[b] += 1 if {ast.unparse(item)} == b else 0`"
                elif isinstance(item, ast.Constant):
                    name = ast.unparse(target.value)
                    hint = (
                        f"a single value has an empty index: `{name}[()]`"
                        if len(index_items(target)) == 1
                        else "for a dimension of one element write `z: range(1)` above, and `z` here"
                    )
                else:
                    hint = "let the right side say which elements are taken, as in `Y[j] += X[10 * j + r]` below `r: range(10)`"
                fail_at(self.source, item, f"the left side takes plain index names, not `{ast.unparse(item)}`", hint)
            if item.id in axes:
                fail_at(
                    self.source, item, f"the index `{item.id}` appears twice on the left side",
                    "a diagonal is a condition, as in `Y[i, j] = X[i, j] if i == j else 0`",
                )  # fmt: skip
            axes.append(item.id)
        return axes

    def _check_declared(self, name: str, tensor: Any, target: ast.Subscript, value: ast.expr) -> None:
        if name not in self.declared:
            return
        shape, dtype = self.declared[name]
        if str(tensor.dtype) != dtype:
            fail_at(
                self.source, target, f"`{name}` is declared as `{dtype}`, its value is `{tensor.dtype}`",
                _conversion(dtype, str(tensor.dtype), value),
            )  # fmt: skip
        if len(shape) != len(tensor.shape):
            fail_at(self.source, target, f"`{name}` is declared with {len(shape)} dimensions, not {len(tensor.shape)}")


def _conversion(dtype: str, given: str, value: ast.expr) -> str:
    """The hint for a value of another type than declared: what is computed in a narrow integer has wrapped already."""
    read = next((n for n in ast.walk(value) if isinstance(n, ast.Subscript)), None)
    if isinstance(value, ast.BinOp) and read is not None and "int" in given and given != dtype:
        return f"convert what is read, as in `{dtype}({ast.unparse(read)})`: the right side is computed in `{given}`"
    return f"convert the right side by `{dtype}(...)`"


class _Statement:
    """One definition `T[i, j] = value`: its index names, their ranges, and its stages."""

    def __init__(self, notation: Notation, name: str, axes: list[str], target: ast.Subscript, value: ast.expr) -> None:
        self.notation, self.name, self.axes, self.target, self.value = notation, name, axes, target, value
        self.source = notation.source
        self._check_uses()
        self.names = self._index_names()
        self.ranges = self._infer()

    def _check_uses(self) -> None:
        """A whole tensor is no number, a tensor is not read before it is computed, a text is no index."""
        bases = {id(a.value) for a, _ in self.accesses}
        casts = cast_types(self.value)
        for node in ast.walk(self.value):
            if isinstance(node, ast.Constant) and (id(node) in casts or isinstance(node.value, str)):
                self._check_text(node, id(node) in casts)
            elif isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
                loop = node.generators[0]
                fail_at(
                    self.source, node, "`for` in an expression is not part of the index notation",
                    f"write `{ast.unparse(loop.target)}: {ast.unparse(loop.iter)}` above and `over={ast.unparse(loop.target)}`",
                )  # fmt: skip
            elif isinstance(node, ast.Name):
                self._check_name(node, id(node) in bases)
        for access, _ in self.accesses:
            assert isinstance(access.value, ast.Name)
            if access.value.id not in self.notation.tensors:
                self._fail_unknown(access.value)
            check_rank(self.source, access, self.notation.tensors[access.value.id])

    def _check_text(self, node: ast.Constant, is_type: bool) -> None:
        """A text is the name of a data type."""
        text = str(node.value)
        if is_dtype(text):
            return
        if is_type:
            fail_at(self.source, node, f"`{text}` is not a data type", dtype_hint(text))
        fail_at(self.source, node, f"`{node.value!r}` is not a number")

    def _check_name(self, node: ast.Name, indexed: bool) -> None:
        """A tensor is indexed, and computed above."""
        tensors = self.notation.tensors
        if node.id in tensors and len(tensors[node.id].shape) and not indexed:
            fail_at(self.source, node, f"`{node.id}` is a tensor, not a number", tensor_hint(node, self.value, tensors))
        if node.id in self.notation.assigned and node.id not in tensors:
            scan = "a value made of those before it is a `cumsum(..., over=i)` or the like, or a `te.scan`"
            hint = scan if node.id == self.name else "define it in a line above"
            fail_at(self.source, node, f"`{node.id}` is read before it is computed", hint)

    def _fail_unknown(self, base: ast.Name) -> NoReturn:
        """An error for the access of something that is no tensor of the cell."""
        outside: Any = self.notation.values.get(base.id)
        if hasattr(outside, "shape") and hasattr(outside, "dtype"):
            declared = f"{base.id}: {outside.dtype}[{', '.join(map(str, outside.shape))}]"
            fail_at(
                self.source, base, f"`{base.id}` is an array outside, not a tensor of the cell",
                f"declare it as `{declared}`, and pass the array in the call",
            )  # fmt: skip
        others = [n for n in self.notation.assigned if n != self.name]
        fail_undefined(self.source, base, base.id, dict.fromkeys([*self.notation.tensors, *others]))

    def _check_indices(self) -> None:
        """An index is a whole number: no slice, no fraction."""
        for access, _ in self.accesses:
            for item in index_items(access):
                for node in ast.walk(item):
                    if isinstance(node, ast.Slice):
                        fail_at(
                            self.source, item, f"`{ast.unparse(item)}` is a slice, an index is one element",
                            "index names run over a dimension by themselves, as in `Y[i] = max(X[i, k], over=k)`",
                        )  # fmt: skip
                if is_fraction(item):
                    fail_at(
                        self.source, item, f"the index `{ast.unparse(item)}` is not a whole number",
                        "divide by `//`, or convert it by `int32(...)`",
                    )  # fmt: skip

    def _check_reductions(self) -> None:
        """What follows `over=` indexes something, and no other keyword is in its place."""
        indexing = {n.id for a, _ in self.accesses for n in ast.walk(a.slice) if isinstance(n, ast.Name)}
        for node in ast.walk(self.value):
            if (
                not isinstance(node, ast.Call)
                or not isinstance(node.func, ast.Name)
                or node.func.id not in {*REDUCTIONS, *DERIVED}
            ):
                continue
            for keyword in node.keywords:
                if keyword.arg != "over":
                    hint = "did you mean `over`?"
                    if any(k.arg == "over" for k in node.keywords):
                        hint = f"the range of an index is a line of its own, as in `{keyword.arg}: range(10)`"
                    fail_at(
                        self.source, keyword, f"`{node.func.id}` takes no argument `{keyword.arg}`", hint
                    )  # fmt: skip
                for name in sorted(over_names(node, self.source) - indexing):
                    known = ", ".join(f"`{n}`" for n in sorted(indexing - set(self.axes)))
                    fail_at(
                        self.source, keyword.value, f"nothing is indexed by `{name}`, over which `{node.func.id}` runs",
                        f"the right side has {known}" if known else None,
                    )  # fmt: skip

    @cached_property
    def accesses(self) -> list[tuple[ast.Subscript, bool]]:
        """Every access of a tensor in the value, with whether it is under a condition."""
        found: list[tuple[ast.Subscript, bool]] = []
        pending: list[tuple[ast.AST, bool]] = [(self.value, False)]
        while pending:
            node, guarded = pending.pop()
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                found.append((node, guarded))
            always: ast.AST | None = None
            if isinstance(node, ast.IfExp):
                always = node.test
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("where", "select"):
                always = node.args[0] if node.args else None
            children = [(c, guarded or (always is not None and c is not always)) for c in ast.iter_child_nodes(node)]
            pending += reversed(children)
        return found

    def _index_names(self) -> set[str]:
        names = {*self.axes, *self.notation.ranges}
        for access, _ in self.accesses:
            for node in ast.walk(access.slice):
                if isinstance(node, ast.Name) and node.id not in self.notation.tensors:
                    names.add(node.id)
        for node in ast.walk(self.value):
            names.update(over_names(node, self.source) if isinstance(node, ast.Call) else ())
        called = {n.func.id for n in ast.walk(self.value) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        numbers, symbols = set(self.notation.numbers), set(self.notation.sizes.symbols)
        found = names - numbers - symbols - self._sizes_from_outside() - (called & set(FUNCTIONS)) - DTYPES
        for axis in self.axes:
            if axis not in found:
                what = "a number" if axis in numbers else "a size" if axis in symbols else "a function"
                what = "a data type" if axis in DTYPES else what
                fail_at(self.source, self.target, f"`{axis}` is {what} here, so it cannot be an index of the left side")
        return found

    def _sizes_from_outside(self) -> set[str]:
        """Names of the notebook's numbers that are sizes, and no index: nowhere a whole index, a reduction's or a range's name."""
        indices = {item.id for a, _ in self.accesses for item in index_items(a) if isinstance(item, ast.Name)}
        for node in ast.walk(self.value):
            indices |= over_names(node, self.source) if isinstance(node, ast.Call) else set()
        return set(self.notation.sizes.outside) - indices - {*self.axes, *self.notation.ranges}

    def _infer(self) -> dict[str, tuple[Any, Any]]:
        """The range (min, extent) of every index name."""
        notation = self.notation
        ranges = {n: r for n, r in notation.ranges.items() if n in self.names}
        where: dict[str, ast.AST] = {}
        if self.name in notation.declared:
            shape = notation.declared[self.name][0]
            for axis, size in zip(self.axes, shape):
                ranges.setdefault(axis, (0, size))
        given = set(ranges)  # said in the cell, so that a tensor may be read in part
        sums: list[tuple[Affine, Any]] = []
        self._check_indices()
        self._check_reductions()
        for access, guarded in self.accesses:
            if guarded:
                continue
            for item, size in self._dimensions(access):
                quotient = quotient_of(item, self.names, self._numbers)
                if quotient is None:
                    continue
                affine, by = quotient
                plain = affine.plain_name if by == 1 else None
                if plain is not None and plain not in given:
                    self._agree(ranges, where, plain, size, access)
                else:
                    sums.append((affine, size * by))
        used = self.names & ({*self.axes} | self._used())
        guessed: dict[str, ast.Subscript] = {}
        for access, _ in self.accesses:  # under a condition: where nothing else says how far
            for item, size in self._dimensions(access):
                if isinstance(item, ast.Name) and item.id in used and item.id not in ranges:
                    ranges[item.id], where[item.id] = (0, size), access
                    guessed[item.id] = access
        ranges.update(solve_extents(sums, ranges, used - set(ranges)))
        ranges.update(shrunk(sums, ranges, {*self.axes} - given))
        self._complete(ranges, used)
        self._check_conditions(ranges, guessed)
        self._check_bounds(ranges)
        return ranges

    @cached_property
    def _numbers(self) -> dict[str, Any]:
        """What is a number in an index, by name: symbolic sizes, numbers that are sizes, and the cell's own numbers."""
        sizes = self.notation.sizes
        return {**sizes.symbols, **sizes.outside, **self.notation.numbers}

    def _used(self) -> set[str]:
        return {n.id for n in ast.walk(self.value) if isinstance(n, ast.Name)}

    def _dimensions(self, access: ast.Subscript) -> Iterator[tuple[ast.expr, Any]]:
        assert isinstance(access.value, ast.Name)
        tensor = self.notation.tensors.get(access.value.id)
        if tensor is None:
            return
        for item, size in zip(index_items(access), tensor.shape):
            yield item, size.value if isinstance(size, IntImm) else size

    def _agree(
        self, ranges: dict[str, tuple[Any, Any]], where: dict[str, ast.AST], name: str, size: Any, access: ast.Subscript
    ) -> None:
        """Take in that `name` runs over a dimension of `size`; both must be the same where given twice."""
        known = ranges.get(name)
        if known is None:
            ranges[name], where[name] = (0, size), access
            return
        extent = known[1]
        extent = extent.value if isinstance(extent, IntImm) else extent
        if extent is size or (isinstance(extent, int) and isinstance(size, int) and extent == size):
            return
        if not isinstance(extent, int) and not isinstance(size, int) and str(extent) == str(size):
            return
        first = ast.unparse(where[name]) if name in where else f"the declaration of `{self.name}`"
        first = f"`{first}`" if name in where else first
        fail_at(
            self.source, access,
            f"`{name}` runs over {size} in `{ast.unparse(access)}` and over {extent} in {first}",
            "an index has one extent; check the shapes",
        )  # fmt: skip

    def _complete(self, ranges: dict[str, tuple[Any, Any]], used: set[str]) -> None:
        for name in sorted(used - set(ranges)):
            node = self._first_use(name)
            loop = isinstance(node, ast.Name) and self._inside_access(node)
            if not loop and name not in self.axes:
                continue
            if name in self.axes and name not in self._used():
                fail_at(
                    self.source, node, f"the extent of `{name}` cannot be inferred: the right side does not use it",
                    self._said_below(name) or f"write `{name}: range(...)` above, or declare the shape of `{self.name}`",
                )  # fmt: skip
            under = [is_guarded for access, is_guarded in self.accesses if name in _names_in(access)]
            why = ": what it indexes is read only under a condition" if under and all(under) else ""
            fail_at(
                self.source, node, f"the extent of `{name}` cannot be inferred{why}",
                self._said_below(name)
                or self._from_the_end(name)
                or f"write `{name}: range(...)` above, or `for {name} in range(...):` around it",
            )  # fmt: skip

    def _said_below(self, name: str) -> str | None:
        """The hint for a range that the cell gives too late."""
        line = self.notation.range_lines.get(name, 0)
        if line <= self.target.lineno:
            return None
        return f"the range of `{name}` in line {line} holds for the statements below it; move it above this one"

    def _from_the_end(self, name: str) -> str | None:
        """The hint for `X[-i]`: what Python reads from the end is written with the size."""
        for access, _ in self.accesses:
            for item, size in self._dimensions(access):
                affine = affine_of(item, self.names, self._numbers)
                if affine is not None and affine.factors.get(name, 0) < 0 and is_proved(affine.constant <= 0):
                    last = Analyzer().simplify(size - 1)
                    return f"an index does not count from the end: the last element is at {last}, `{last} - {name}` goes backwards"
        return None

    def _check_conditions(self, ranges: Mapping[str, tuple[Any, Any]], guessed: Mapping[str, ast.Subscript]) -> None:
        """A condition says nothing about a range that is what one of its branches reads: then both would not be meant."""
        for node in ast.walk(self.value):
            if not isinstance(node, ast.IfExp):
                continue
            found = next((n for n in sorted(_names_in(node.test)) if n in guessed), None)
            verdict = holds(node.test, self.names, self._numbers, ranges) if found is not None else None
            if found is not None and verdict is not None:
                test, access, how = ast.unparse(node.test), ast.unparse(guessed[found]), "holds" if verdict else "fails"
                fail_at(
                    self.source, node.test,
                    f"the extent of `{found}` cannot be inferred: over that of `{access}`, `{test}` always {how}",
                    f"write `{found}: range(...)` above, or declare the shape of `{self.name}`",
                )  # fmt: skip

    def _inside_access(self, name: ast.Name) -> bool:
        return any(name in ast.walk(access) for access, _ in self.accesses)

    def _first_use(self, name: str) -> ast.AST:
        for tree in (self.value, self.target):
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and node.id == name:
                    return node
        return self.target

    def _check_bounds(self, ranges: Mapping[str, tuple[Any, Any]]) -> None:
        """No access leaves its tensor; nothing else is said of an index whose first value does."""
        ranges = {name: (begin, 1 if is_proved(extent < 1) else extent) for name, (begin, extent) in ranges.items()}
        for access, guarded in self.accesses:
            if guarded:
                continue
            for item, size in self._dimensions(access):
                quotient = quotient_of(item, self.names, self._numbers)
                bounds = quotient[0].bounds(ranges) if quotient else None
                if quotient is None or bounds is None:
                    continue
                bounds = [bound // quotient[1] for bound in bounds] if quotient[1] > 1 else bounds
                below, above = is_proved(bounds[0] < 0), is_proved(bounds[1] >= size)
                if not below and not above:
                    continue
                reached, last = [Analyzer().simplify(x) for x in (bounds[0] if below else bounds[1], size - 1)]
                fail_at(
                    self.source, item,
                    f"the index `{ast.unparse(item)}` of `{ast.unparse(access.value)}` reaches {reached}, "
                    f"outside 0 to {last}",
                    self._inside(item, size, below, ranges) or f"shorten the range, or {_PADDING}",
                )  # fmt: skip

    def _inside(self, item: ast.expr, size: Any, below: bool, ranges: Mapping[str, tuple[Any, Any]]) -> str | None:
        """A hint for an index `i + constant` that leaves a dimension: what keeps it inside."""
        affine = affine_of(item, self.names, self._numbers)
        name = next(iter(affine.factors), None) if affine is not None and len(affine.factors) == 1 else None
        if affine is None or name is None or affine.factors[name] != 1 or name not in ranges:
            return None
        size, (begin, extent) = Analyzer().simplify(size), ranges[name]
        if not isinstance(size, (int, IntImm)) or not all(isinstance(x, int) for x in (affine.constant, begin, extent)):
            return None
        if name in self.axes:
            if not below or begin != 0:
                return None
            return (
                f"a result begins at 0: add {-affine.constant} to `{name}` wherever the right side reads, or {_PADDING}"
            )
        first, end = max(begin, -affine.constant), min(begin + extent, int(size) - affine.constant)
        return (
            f"write `{name}: range({f'{first}, ' if first else ''}{end})` above, or {_PADDING}" if first < end else None
        )

    # ------------------------------------------------------------------------ stages

    def build(self, reduction: str | None, previous: Any) -> Any:
        """The tensor that the statement defines."""
        value = self.value
        free = [n for n in self.index_names(value) if n not in self.axes]
        if reduction is not None:
            if not free:
                fail_at(
                    self.source, self.target,
                    f"`{ast.unparse(self.target)}` is reduced over nothing: every index of the right side is on the left",
                    "write `=`, or leave the index out on the left",
                )  # fmt: skip
            if previous is not None:
                return self._accumulate(reduction, free, previous)
            return self._stage(self.name, self.axes, value, reduction, free)
        if isinstance(value, ast.Call) and reduction_name(value) is not None:
            self._check_free(free, over_names(value, self.source))
            return self._reduction(self.name, self.axes, value)
        bound = {n for node in ast.walk(value) if isinstance(node, ast.Call) for n in over_names(node, self.source)}
        self._check_free(free, bound)
        return self._stage(self.name, self.axes, value, None, [])

    def index_names(self, node: ast.AST) -> list[str]:
        """The index names in `node`, in the order in which they are first read."""
        found: dict[str, int] = {}
        names = sorted(
            (n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in self.ranges),
            key=lambda n: (n.lineno, n.col_offset),
        )
        for name in names:
            found.setdefault(name.id, len(found))
        return list(found)

    def _check_free(self, free: list[str], bound: set[str]) -> None:
        loose = [n for n in free if n not in bound]
        if loose:
            name = loose[0]
            fail_at(
                self.source, self._first_use(name), f"`{name}` is on the right side only",
                reduction_hint(name, self.value),
            )  # fmt: skip

    def _accumulate(self, reduction: str, free: list[str], previous: Any) -> Any:
        part = self._stage(self._fresh(f"{self.name}_{reduction}"), self.axes, self.value, reduction, free)

        def combine(*indices: Any) -> Any:
            a, b = previous(*indices), part(*indices)
            return a + b if reduction == "sum" else a * b

        return self._compute(self.name, self.axes, combine)

    def _reduction(self, name: str, axes: list[str], call: ast.Call) -> Any:
        kind, over = reduction_name(call), over_names(call, self.source)
        assert kind is not None
        if len(call.args) != 1:
            fail_at(self.source, call, f"`{kind}(..., over=...)` takes one expression, not {len(call.args)}")
        for name_over in over:
            if name_over in axes and axes is self.axes:
                fail_at(self.source, call, f"`{name_over}` is reduced and on the left side, too")
            if name_over not in self.ranges:
                fail_at(self.source, call, f"nothing is indexed by `{name_over}`, over which `{kind}` runs")
        return self._stage(name, axes, call.args[0], kind, [n for n in self.index_names(call) if n in over])

    def _stage(self, name: str, axes: list[str], value: ast.expr, reduction: str | None, over: list[str]) -> Any:
        reduced = {n: te.reduce_axis((self.ranges[n][0], self.ranges[n][0] + self.ranges[n][1]), name=n) for n in over}

        def compute(*indices: Any) -> Any:
            bound = {**dict(zip(axes, indices)), **{n: iv.var for n, iv in reduced.items()}}
            expression = self._expressions(bound)
            result = expression.build(value)
            if reduction is None:
                return result
            if reduction == "sum" and result.dtype.is_bool:
                names = over[0] if len(over) == 1 else f"({', '.join(over)})"
                refuse_sum_of_bools(self, value, f"max({ast.unparse(value)}, over={names})")
            result = getattr(te, reduction)(result, axis=list(reduced.values()))
            result.span = result.span or self.source.span(value)
            return result

        return self._compute(name, axes, compute)

    def _compute(self, name: str, axes: list[str], body: Any) -> Any:
        for axis in axes:
            if not isinstance(self.ranges[axis][0], int) or self.ranges[axis][0] != 0:
                fail_at(self.source, self.target, f"the range of `{axis}`, which is on the left side, begins at 0")
        shape = tuple(self.ranges[axis][1] for axis in axes)
        try:
            tensor = te.compute(shape, named_function(axes, body), name=name)
        except NotationError:
            raise
        except TVMagicError as error:
            raise NotationError(error.message, span=self.source.span(self.target), hint=error.hint) from error
        first = tensor[0] if isinstance(tensor, (list, tuple)) else tensor
        first.op.span = self.source.span(self.target)
        return tensor

    def _expressions(self, bound: Mapping[str, Any]) -> Expressions:
        """What builds expressions with the names that the statement sees."""
        notation = self.notation
        return Expressions(self.source, bound, notation.tensors, self._values(), self._lift, notation.values)

    def _values(self) -> Mapping[str, Any]:
        return _Layered(self.notation.numbers, self.notation.sizes.symbols, self.notation.values)

    def _lift(self, call: ast.Call, bound: Mapping[str, Any]) -> PrimExpr:
        """The stage of a reduction inside an expression, and its element at the present indices."""
        derived = DERIVED.get(ast.unparse(call.func))
        if derived is not None:
            return derived(self, call, bound)
        over = over_names(call, self.source)
        free = [n for n in self.index_names(call) if n not in over]
        name = self._fresh(f"{self.name}_{reduction_name(call)}")
        tensor = self._reduction(name, free, call)
        return tensor(*[bound[n] for n in free])

    # what `derived` makes its stages with

    def fail(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        """Raise the error of a place in the statement."""
        fail_at(self.source, node, message, hint)

    def compute(self, suffix: str, axes: list[str], body: Callable[[Mapping[str, Any]], Any]) -> Any:
        """A stage named after the statement, of the elements `body(index names to variables)`."""
        return self._compute(self._fresh(f"{self.name}_{suffix}"), axes, lambda *at: body(dict(zip(axes, at))))

    def expression(self, node: ast.expr, bound: Mapping[str, Any]) -> PrimExpr:
        """An expression of the notation."""
        return self._expressions(bound).build(node)

    def _fresh(self, name: str) -> str:
        taken, candidate, count = {*self.notation.tensors, *self.notation.made}, name, 0
        while candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        self.notation.made.add(candidate)
        return candidate


class _Layered(Mapping[str, Any]):
    """Names looked up in several mappings, the first that has one; only numbers and sizes count."""

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self.layers = layers

    def __getitem__(self, name: str) -> Any:
        for layer in self.layers:
            value: Any = layer.get(name)
            if isinstance(value, (int, float, PrimExpr)) and not callable(value):
                return value
            item = getattr(value, "item", None)
            if item is not None and hasattr(value, "dtype") and getattr(value, "shape", None) == ():
                return item()
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(n for layer in self.layers for n in layer if n in self))

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except KeyError:
            return False
        return True

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def named_function(names: list[str], body: Any) -> Any:
    """A function of parameters called `names`, from which `te.compute` takes the axes' names."""
    parameters = ", ".join(names)
    return eval(f"lambda _body_: lambda {parameters}: _body_({parameters})", {})(body)
