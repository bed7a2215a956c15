"""The index names of one definition `T[i, j] = value`, and how far each of them runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import IntImm
from tvmagic.lazy import cached_property
from tvmagic.notation.affine import Affine, affine_of, holds, is_proved, quotient_of, shrunk, solve_extents
from tvmagic.notation.composite_functions import DERIVED
from tvmagic.notation.expressions import DTYPES, REDUCTIONS, check_rank, fail_at, fail_undefined, index_items
from tvmagic.notation.scope import Scope
from tvmagic.notation.suggestions import dtype_hint, slice_hint, tensor_hint
from tvmagic.notation.syntax import cast_types, is_dtype, is_fraction, is_number, over_names


class IndexRanges:
    """A definition: `names` has its index names, `ranges` their ranges (first value, extent).

    `previous`: the tensor whose elements the statement adds to or multiplies, if there is one.
    """

    def __init__(
        self, scope: Scope, name: str, axes: list[str], target: ast.Subscript, value: ast.expr, previous: Any = None
    ) -> None:
        self.scope, self.name, self.axes, self.target, self.value = scope, name, axes, target, value
        self.previous = previous
        self.source = scope.source
        self._check_uses()
        self.names = self._index_names()
        self.ranges = self._infer()

    def _check_uses(self) -> None:
        """A whole tensor is not a number, a tensor is not read before it is computed, a text is not an index."""
        bases = {id(a.value) for a, _ in self.accesses}
        casts = cast_types(self.value)
        for node in ast.walk(self.value):
            if isinstance(node, ast.Constant) and (id(node) in casts or isinstance(node.value, str)):
                self._check_text(node, id(node) in casts)
            elif isinstance(node, ast.Name):
                self._check_name(node, id(node) in bases)
        for access, _ in self.accesses:
            assert isinstance(access.value, ast.Name)
            if self.reads_itself and access.value.id == self.name:
                self._check_own_rank(access)
                continue
            if access.value.id not in self.scope.tensors:
                self._fail_unknown(access.value)
            check_rank(self.source, access, self.scope.tensors[access.value.id])

    @cached_property
    def reads_itself(self) -> bool:
        """Whether elements of the tensor are made of others of it; a tensor of that name above is read instead."""
        bases = {a.value.id for a, _ in self.accesses if isinstance(a.value, ast.Name)}
        return self.name in bases and self.name in self.scope.assigned and self.name not in self.scope.tensors

    @property
    def _own_accesses(self) -> list[ast.Subscript]:
        own = [a for a, _ in self.accesses if isinstance(a.value, ast.Name) and a.value.id == self.name]
        return own if self.reads_itself else []

    def _check_own_rank(self, access: ast.Subscript) -> None:
        rank, given = len(self.axes), len(index_items(access))
        if rank != given:
            fail_at(
                self.source,
                access,
                f"`{self.name}` has {rank} {'index' if rank == 1 else 'indices'} on the left and {given} here",
                code="notation.wrong_index_count",
            )

    def _check_text(self, node: ast.Constant, is_type: bool) -> None:
        """A text is the name of a data type."""
        text = str(node.value)
        if is_dtype(text):
            return
        if is_type:
            fail_at(self.source, node, f"`{text}` is not a data type", dtype_hint(text), code="notation.unknown_dtype")
        letters = "->" in text and re.fullmatch(r"[A-Za-z., >-]+", text)
        hint = "einsum's letters are the indices here, as in `Y[i, j] += A[i, k] * B[k, j]`" if letters else None
        fail_at(self.source, node, f"`{node.value!r}` is not a number", hint, code="notation.not_a_number")

    def _check_name(self, node: ast.Name, indexed: bool) -> None:
        """A tensor is indexed, and computed above."""
        tensors = self.scope.tensors
        if node.id in tensors and len(tensors[node.id].shape) and not indexed:
            fail_at(
                self.source,
                node,
                f"`{node.id}` is a tensor, not a number",
                tensor_hint(node, self.value, tensors),
                code="notation.tensor_without_indices",
            )
        if node.id in self.scope.assigned and node.id not in tensors:
            if node.id == self.name and indexed and self.reads_itself:
                return
            fail_at(
                self.source,
                node,
                f"`{node.id}` is read before it is computed",
                self._order(node),
                code="notation.read_before_computed",
            )

    def _order(self, tensor: ast.Name) -> str:
        """What to do if a tensor is read that is defined below: it may read what is defined here."""
        for access in ast.walk(self.value):
            match access:
                case ast.Subscript(value=ast.Name() as base) if base is tensor:
                    items = [item for item in index_items(access) if isinstance(item, ast.BinOp)]
                    if any(isinstance(item.op, ast.Sub) and isinstance(item.left, ast.Name) for item in items):
                        return (
                            "define it in a line above; tensors that read each other are one, with an index that says which of them it is: "
                            "`S[t, s, i] = (...) if s == 0 else (...)`, for `s: range(2)`"
                        )
        return "define it in a line above"

    def _fail_unknown(self, base: ast.Name) -> NoReturn:
        """An error for the access of something that is not a tensor of the cell."""
        outside: Any = self.scope.values.get(base.id)
        if hasattr(outside, "shape") and hasattr(outside, "dtype"):
            declared = f"{base.id}: {outside.dtype}[{', '.join(map(str, outside.shape))}]"
            fail_at(
                self.source, base, f"`{base.id}` is an array outside, not a tensor of the cell",
                f"declare it as `{declared}`, and pass the array in the call", code="notation.outside_array",
            )  # fmt: skip
        others = [n for n in self.scope.assigned if n != self.name]
        fail_undefined(self.source, base, base.id, dict.fromkeys([*self.scope.tensors, *others]))

    def _check_indices(self) -> None:
        """An index is a whole number: no slice, no fraction."""
        for access, _ in self.accesses:
            for item in index_items(access):
                for node in ast.walk(item):
                    if isinstance(node, ast.Slice):
                        fail_at(
                            self.source, item, f"`{ast.unparse(item)}` is a slice, an index is one element",
                            slice_hint(node), code="notation.slice_index",
                        )  # fmt: skip
                if isinstance(item, ast.Constant) and item.value is Ellipsis:
                    fail_at(
                        self.source, item, "`...` stands for indices, and an element has one for each dimension",
                        "write their names, on both sides of `=`", code="notation.ellipsis_index",
                    )  # fmt: skip
                if is_fraction(item):
                    fail_at(
                        self.source, item, f"the index `{ast.unparse(item)}` is not a whole number",
                        "divide by `//`, or convert it by `int32(...)`", code="notation.index_not_integer",
                    )  # fmt: skip

    def _check_reductions(self) -> None:
        """What follows `over=` indexes something or has a range, and no other keyword is in its place."""
        indexing = {n.id for a, _ in self.accesses for n in ast.walk(a.slice) if isinstance(n, ast.Name)}
        indexing |= self._used() & set(self.scope.ranges)
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
                        self.source, keyword, f"`{node.func.id}` takes no argument `{keyword.arg}`", hint, code="notation.unknown_argument"
                    )  # fmt: skip
                for name in sorted(over_names(node, self.source) - indexing):
                    known = ", ".join(f"`{n}`" for n in sorted(indexing - set(self.axes)))
                    fail_at(
                        self.source, keyword.value, f"nothing is indexed by `{name}`, over which `{node.func.id}` runs",
                        f"the right side has {known}" if known else f"write `{name}: range(...)` above", code="notation.unused_index",
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
        names = {*self.axes, *self.scope.ranges}
        for access, _ in self.accesses:
            for node in ast.walk(access.slice):
                if isinstance(node, ast.Name) and node.id not in self.scope.tensors:
                    names.add(node.id)
        for node in ast.walk(self.value):
            names.update(over_names(node, self.source) if isinstance(node, ast.Call) else ())
        called = {n.func.id for n in ast.walk(self.value) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        numbers, symbols = set(self.scope.numbers), set(self.scope.sizes.symbols)
        own = {self.name} if self.reads_itself else set()  # in an index of another tensor
        found = names - own - numbers - symbols - self._sizes_from_outside() - called - DTYPES
        for axis in self.axes:
            if axis not in found:
                what = "a number" if axis in numbers else "a size" if axis in symbols else "a function"
                what = "a data type" if axis in DTYPES else what
                fail_at(
                    self.source, self.target, f"`{axis}` is {what} here, so it cannot be an index of the left side",
                    "give the index another name", code="notation.index_name_taken",
                )  # fmt: skip
        return found

    def _sizes_from_outside(self) -> set[str]:
        """Names of the notebook's numbers that are sizes, and no index: nowhere a whole index, a reduction's or a range's name."""
        indices = {item.id for a, _ in self.accesses for item in index_items(a) if isinstance(item, ast.Name)}
        for node in ast.walk(self.value):
            indices |= over_names(node, self.source) if isinstance(node, ast.Call) else set()
        return set(self.scope.sizes.outside) - indices - {*self.axes, *self.scope.ranges}

    def _infer(self) -> dict[str, tuple[Any, Any]]:
        """The range (min, extent) of every index name."""
        scope = self.scope
        ranges = {n: r for n, r in scope.ranges.items() if n in self.names}
        where: dict[str, ast.AST] = {}
        if self.name in scope.declared:
            shape = scope.declared[self.name][0]
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
        for access, _ in self.accesses:  # under a condition: if nothing else says how far
            for item, size in self._dimensions(access):
                if isinstance(item, ast.Name) and item.id in used and item.id not in ranges:
                    ranges[item.id], where[item.id] = (0, size), access
                    guessed[item.id] = access
        ranges.update(solve_extents(sums, ranges, used - set(ranges)))
        ranges.update(shrunk(sums, ranges, {*self.axes} - given))
        for access in self._own_accesses:  # `Y[t - 1, k]` of `Y[t, i]`: `k` runs as far as `i`
            for item, axis in zip(index_items(access), self.axes):
                if isinstance(item, ast.Name) and item.id in self.names and axis in ranges:
                    ranges.setdefault(item.id, ranges[axis])
        if self.previous is not None and len(self.previous.shape) == len(self.axes):
            for axis, size in zip(self.axes, self.previous.shape):
                ranges.setdefault(axis, (0, size.value if isinstance(size, IntImm) else size))
        self._complete(ranges, used)
        self._check_conditions(ranges, guessed)
        self._check_bounds(ranges)
        return ranges

    @cached_property
    def _numbers(self) -> dict[str, Any]:
        """What is a number in an index, by name: symbolic sizes, numbers that are sizes, and the cell's own numbers."""
        sizes = self.scope.sizes
        return {**sizes.symbols, **sizes.outside, **self.scope.numbers}

    def used(self) -> set[str]:
        """The index names in the value."""
        return self.names & self._used()

    def _used(self) -> set[str]:
        return {n.id for n in ast.walk(self.value) if isinstance(n, ast.Name)}

    def _dimensions(self, access: ast.Subscript) -> Iterator[tuple[ast.expr, Any]]:
        assert isinstance(access.value, ast.Name)
        tensor = self.scope.tensors.get(access.value.id)
        if tensor is None:
            return
        for item, size in zip(index_items(access), tensor.shape):
            yield item, size.value if isinstance(size, IntImm) else size

    def _agree(
        self, ranges: dict[str, tuple[Any, Any]], where: dict[str, ast.AST], name: str, size: Any, access: ast.Subscript
    ) -> None:
        """Note that `name` runs over a dimension of `size`; a second dimension must have the same size."""
        known = ranges.get(name)
        if known is None:
            ranges[name], where[name] = (0, size), access
            return
        extent = known[1]
        extent = extent.value if isinstance(extent, IntImm) else extent
        if str(extent) == str(size):
            return
        first = ast.unparse(where[name]) if name in where else f"the declaration of `{self.name}`"
        first = f"`{first}`" if name in where else first
        fail_at(
            self.source, access,
            f"`{name}` runs over {size} in `{ast.unparse(access)}` and over {extent} in {first}",
            f"an index has one extent: check the shapes, or, if a part of a tensor is meant, write `{name}: range(...)` above", code="notation.ranges_differ",
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
                    self._said_below(name)
                    or self._ran(name)
                    or f"write `{name}: range(...)` above, or declare the shape of `{self.name}`", code="notation.extent_not_inferred",
                )  # fmt: skip
            under = [is_guarded for access, is_guarded in self.accesses if name in _names_in(access)]
            why = ": what it indexes is read only under a condition" if under and all(under) else ""
            fail_at(
                self.source, node, f"the extent of `{name}` cannot be inferred{why}",
                self._said_below(name)
                or self._from_the_end(name)
                or self._sum_hint(name, ranges)
                or self._ran(name)
                or self._as_long_as(name, ranges)
                or f"write `{name}: range(...)` above, or `for {name} in range(...):` around it", code="notation.extent_not_inferred",
            )  # fmt: skip

    def _said_below(self, name: str) -> str | None:
        """The hint for a range that the cell gives too late."""
        line = self.scope.range_lines.get(name, 0)
        if line <= self.target.lineno:
            return None
        return f"the range of `{name}` in line {line} holds for the statements below it; move it above this one"

    def _sum_hint(self, name: str, ranges: Mapping[str, tuple[Any, Any]]) -> str | None:
        """The hint for sums of two names that no other access bounds, such as the place and the window in `X[2 * i + r]`."""
        windows: dict[str, str] = {}  # the name whose range is asked for, and the sum it is in
        for access, _ in self.accesses:
            for item in index_items(access):
                affine = affine_of(item, self.names, self._numbers)
                open_names = [n for n in affine.factors if n not in ranges] if affine is not None else []
                if len(open_names) == 2:
                    inner = next((n for n in open_names if n not in self.axes), open_names[1])
                    windows.setdefault(inner, ast.unparse(item))
        first = next((n for n, item in windows.items() if re.search(rf"\b{name}\b", item)), None)
        if first is None:
            return None
        inside = [first, *(n for n in windows if n != first)]
        again = [n for n in inside if n in self.scope.left]  # a line above would hold for the other statement, too
        said = f"`{windows[first]}` fits as soon as one of the two is known: "
        if again:
            return f"{said}write `for {again[0]} in range(...):` around it, as `{again[0]}` is another index elsewhere"
        return f"{said}write {' and '.join(f'`{n}: range(...)`' for n in inside)} above"

    def _ran(self, name: str) -> str | None:
        """The hint for a name that has a range in a statement above: each statement infers its own."""
        extent, line = self.scope.ran.get(name, (None, 0))
        if not line:
            return None
        counted = isinstance(self.value, ast.Compare) and self.used() - set(self.axes)
        count = f", and `int32({ast.unparse(self.value)})` for a sum that counts" if counted else ""
        return f"it runs over {extent} in line {line}; write `{name}: range({extent})` above for both{count}"

    def _as_long_as(self, name: str, ranges: Mapping[str, tuple[Any, Any]]) -> str | None:
        """The hint for indices that are read under a condition or through a function: as far as the dimensions that they index."""
        sizes: dict[str, Any] = {}
        for access, _ in self.accesses:
            for item, size in self._dimensions(access):
                for n in sorted(_names_in(item) & self.names - set(ranges)):
                    sizes.setdefault(n, size)
        if name not in sizes:
            return None
        inside = {n: size if n in self.axes else "..." for n, size in sizes.items()}
        said = ", ".join(f"`{n}: range({inside[n]})`" for n in sorted(inside, key=lambda n: n != name))
        shape = f", or declare the shape of `{self.name}`" if {*sizes} <= {*self.axes} else ""
        return f"say how far, for example {said} above{shape}"

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
                    f"write `{found}: range(...)` above, or declare the shape of `{self.name}`", code="notation.extent_not_inferred",
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
                    self._behind_a_condition(access) or self._offset_hint(item, size, below, ranges) or self._from_the_last(access, item) or f"shorten the range, or {self._padding(ranges)}", code="notation.index_out_of_range",
                )  # fmt: skip

    def _padding(self, ranges: Mapping[str, tuple[Any, Any]]) -> str:
        """How zeros are read wherever an index leaves its dimension, for all that do."""
        plain = {i.id for a, guarded in self.accesses if not guarded for i in index_items(a) if isinstance(i, ast.Name)}
        cut = {*self.axes} - set(self.scope.ranges) - plain  # as far as accesses such as these allow
        conditions: dict[str, None] = {}
        for access, guarded in self.accesses:
            for item, size in self._dimensions(access):
                affine = affine_of(item, self.names, self._numbers)
                bounds = affine.bounds(ranges) if affine is not None and not guarded else None
                if bounds is None:
                    continue
                text, size = ast.unparse(item), Analyzer().simplify(size)
                below, above = is_proved(bounds[0] < 0), is_proved(bounds[1] >= size)
                if below and (above or _names_in(item) & cut):
                    conditions[f"0 <= {text} < {size}"] = None
                elif below or above:
                    conditions[f"{text} >= 0" if below else f"{text} < {size}"] = None
        condition = " and ".join(conditions) or "CONDITION"
        unknown = self.name not in self.scope.declared and any(re.search(rf"\b{n}\b", condition) for n in cut)
        shape = f", and declare the shape of `{self.name}`" if unknown else ""
        return f"write `... if {condition} else 0` for padding{shape}"

    def part_of(self, axis: str) -> tuple[str, Any] | None:
        """A tensor of which the range of `axis`, of the left side, reads only a part, and the size of that dimension."""
        plain = [
            (ast.unparse(access.value), size)
            for access, _ in self.accesses
            for item, size in self._dimensions(access)
            if isinstance(item, ast.Name) and item.id == axis
        ]
        extent = self.ranges[axis][1]
        whole = any(not is_proved(size > extent) for _, size in plain)
        return plain[0] if plain and not whole else None

    def _behind_a_condition(self, access: ast.Subscript) -> str | None:
        """The hint for an access on the right of `or` or `and`: all sides of them are evaluated."""
        for node in ast.walk(self.value):
            if isinstance(node, ast.BoolOp) and any(access in ast.walk(side) for side in node.values[1:]):
                first, rest = ast.unparse(node.values[0]), ast.unparse(node.values[-1])
                either = isinstance(node.op, ast.Or)
                said = f"True if {first} else {rest}" if either else f"{rest} if {first} else False"
                return f"all sides of `{'or' if either else 'and'}` are evaluated; a branch not taken is not: `{said}`"
        return None

    def _from_the_last(self, access: ast.Subscript, item: ast.expr) -> str | None:
        """A hint for `X[-1]`, which counts from the end in Python."""
        for index, size in self._dimensions(access):
            if index is item and is_number(item) and ast.unparse(item).startswith("-"):
                place = Analyzer().simplify(size + int(ast.unparse(item)))
                items = [str(place) if i is item else ast.unparse(i) for i in index_items(access)]
                return f"an index counts from the front: write `{ast.unparse(access.value)}[{', '.join(items)}]`"
        return None

    def _offset_hint(self, item: ast.expr, size: Any, below: bool, ranges: Mapping[str, tuple[Any, Any]]) -> str | None:
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
            return f"a result begins at 0: add {-affine.constant} to `{name}` wherever the right side reads, or {self._padding(ranges)}"
        first, end = max(begin, -affine.constant), min(begin + extent, int(size) - affine.constant)
        return (
            f"write `{name}: range({f'{first}, ' if first else ''}{end})` above, or {self._padding(ranges)}"
            if first < end
            else None
        )


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
