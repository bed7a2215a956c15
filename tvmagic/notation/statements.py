"""The index notation of `%%tensor`: statements such as `Y[i, j] += X[i, k] * W[j, k]`.

    X: float32[128, 256]               an input, its dtype and its shape
    X: [128, 256]                      an input of the default dtype (`%config TensorMagics.dtype`)
    n: range(30)                       the range of an index that cannot be inferred
    Y[i, j] += X[i, k] * W[j, k]       a sum over the names on the right only
    Y[i] *= X[i, k]                    a product over them
    Y[i] = max(X[i, k], over=k)        a reduction by name: sum, prod, max, min, mean, argmax, argmin
    Y[i] = max(X[2 * i + r] for r in range(2))    the same, with the range of the index
    Y[i, k] = softmax(X[i, k], over=k) along an index that stays: softmax, cumsum, cumprod, cummax, cummin
    H[t] = X[t] if t == 0 else H[t - 1] + X[t]    a recurrence; one index is earlier wherever it reads itself
    L[i, j] = 0 if i < 1 or j < 1 else max(L[i - 1, j], L[i, j - 1])    a table; its elements are computed row by row
    Z[i] = exp(Y[i]) if i > 0 else 0   the untaken side is not computed
    for i in range(30): Y[i] = A[2*i]  the range of an index, for the statements inside
    assert 0 <= P[i] < n               a precondition on inputs, for all `i`; see `assertions.py`

Sums of float16 and bfloat16 are accumulated in float32 and rounded once (`wide_sums`).

It is Python's syntax; it means tensor expressions. An index that is alone in an access runs
over that dimension; one in a sum (`A[2*i + r]`), or divided (`A[i // 2]`), runs as far as no access leaves its tensor. A
name in a shape that neither the cell nor the notebook defines is a symbolic size. Accesses under
a condition (`... if i > 0 else 0`) bound nothing and are not checked.
"""

from __future__ import annotations

import ast
from typing import Any

from tvmagic import te
from tvmagic.ir.deep_recursion import with_deep_stack
from tvmagic.notation.assertions import read_assertions
from tvmagic.notation.definition import Definition
from tvmagic.notation.expressions import DTYPES, fail_at, index_items
from tvmagic.notation.python_spellings import in_the_notation
from tvmagic.notation.recurrence import earlier_access
from tvmagic.notation.scope import Scope
from tvmagic.notation.suggestions import declaration_hint, gathered, with_first_values
from tvmagic.notation.syntax import as_read, declaration, is_number

_AUGMENTED: dict[type[ast.AST], str] = {ast.Add: "sum", ast.Mult: "prod"}


class Notation(Scope):
    """Reads the statements of one cell in order and builds their tensors."""

    def prepare(self, statements: list[ast.stmt]) -> None:
        """Note which tensors the cell computes: a declaration of one of them is not an input, unless it is read first. And which it reads."""
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
            self.left |= {
                n.id
                for s in subscripts
                if isinstance(s.ctx, ast.Store)
                for n in ast.walk(s.slice)
                if isinstance(n, ast.Name)
            }
            if isinstance(statement, ast.AnnAssign):
                if isinstance(statement.target, ast.Name) and declaration(statement.annotation) == "range":
                    self.range_lines.setdefault(statement.target.id, statement.lineno)
            else:
                if isinstance(statement, ast.Assign):
                    self.assignments.append(statement)
                self.carried |= read - self.assigned
                self.assigned |= stored
        self.carried &= self.assigned

    def run(self, statement: ast.stmt) -> None:
        """Read one statement."""
        match statement:
            case ast.AnnAssign():
                with_deep_stack(lambda: self._declare(statement))
            case ast.For():
                self._for(statement)
            case ast.Assert():
                self.assertions += with_deep_stack(lambda: read_assertions(statement, self))
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                self._define(target, value, None)
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                if type(op) in _AUGMENTED:
                    self._define(target, value, _AUGMENTED[type(op)])
                    return
                again = ast.copy_location(ast.BinOp(as_read(target), op, value), statement)
                if ast.unparse(target.value) not in self.defined:
                    fail_at(
                        self.source, statement, "a reduction is written `+=`, `*=` or `max(..., over=k)`",
                        f"of a tensor above, `{ast.unparse(target)} = {ast.unparse(again)}` changes each element", code="notation.unsupported_assignment",
                    )  # fmt: skip
                self._define(target, again, None)

    # ------------------------------------------------------------------------ declarations

    def _declare(self, node: ast.AnnAssign) -> None:
        assert isinstance(node.target, ast.Name)
        name, annotation = node.target.id, node.annotation
        if node.value is not None:
            fail_at(
                self.source,
                node.value,
                "a declaration has no value",
                f"write `{name}: {ast.unparse(annotation)}`",
                code="notation.declaration_with_value",
            )
        if declaration(annotation) == "range":
            assert isinstance(annotation, ast.Call)
            self.ranges[name] = self.sizes.range(self._spelled(annotation))
            return
        if isinstance(annotation, ast.List):
            dtype, items = self.dtype, annotation.elts
        else:
            dtype_node = annotation.value if isinstance(annotation, ast.Subscript) else annotation
            dtype = ast.unparse(dtype_node)
            if dtype not in DTYPES:
                fail_at(
                    self.source,
                    dtype_node,
                    f"`{dtype}` is not a data type",
                    declaration_hint(name, annotation),
                    code="notation.unknown_dtype",
                )
            items = index_items(annotation) if isinstance(annotation, ast.Subscript) else []
        shape = [self.sizes.size(self._spelled(item)) for item in items]
        if name in self.tensors and getattr(self.tensors[name].op, "span", None) is not None:
            earlier = self.tensors[name].op.span
            if earlier.source == self.source.name and name in self.declared:
                fail_at(self.source, node.target, f"`{name}` is declared twice", code="notation.declared_twice")
        self.declared[name] = (shape, dtype)
        if name not in self.assigned or name in self.carried:
            self.tensors[name] = te.placeholder(shape, dtype, name=name)
            self.tensors[name].op.span = self.source.span(node)

    def _spelled(self, node: ast.expr) -> Any:
        """The sizes in a range or a shape, in terms of the notation."""
        return in_the_notation(node, [], self)[0]

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)
        if node.orelse:
            fail_at(
                self.source,
                node.orelse[0],
                "`else` after `for` has no meaning in the index notation",
                code="notation.for_with_else",
            )
        name, outer = node.target.id, dict(self.ranges)
        self.ranges[name] = self.sizes.range(self._spelled(node.iter))
        for statement in node.body:
            self.run(statement)
        self.ranges = outer

    # ------------------------------------------------------------------------ definitions

    def _define(self, target: ast.Subscript, value: ast.expr, reduction: str | None) -> None:
        assert isinstance(target.value, ast.Name)
        name, axes = target.value.id, with_deep_stack(lambda: self._axes(target, value))
        if name in self.declared and name in self.tensors and name not in self.assigned:
            fail_at(self.source, target, f"`{name}` is an input and cannot be assigned", code="notation.input_assigned")
        previous = self.tensors.get(name) if reduction else None
        if previous is not None and isinstance(previous.op, te.PlaceholderOp) and name not in self.carried:
            previous = None
        if name in self.declared and is_number(value):
            value = _converted(value, self.declared[name][1])
        outer = self.ranges
        value, own = with_deep_stack(lambda: in_the_notation(value, axes, self))
        self.ranges = {**outer, **own}
        made = with_deep_stack(lambda: Definition(self, name, axes, target, value, previous))
        tensor = with_deep_stack(lambda: made.build(reduction, previous))
        self.ranges = outer
        if name in self.carried and reduction is None and name not in self.defined and not made.reads_itself:
            self._remark_on_old_values(made)
        self._remark_on_parts(made)
        self._note_ranges(made)
        self.defined.add(name)
        self._check_declared(name, tensor, target, value)
        self.tensors[name] = tensor

    def _remark_on_old_values(self, made: Definition) -> None:
        """Say what an input that is assigned reads, if the statement looks as a recurrence does."""
        access = earlier_access(made)
        if access is not None:
            ranges = " and ".join(f"`{axis}: range({made.ranges[axis][1]})`" for axis in made.axes)
            self.remarks.append(
                f"`{made.name}` is declared and read, so it is an input: `{ast.unparse(access)}` is its old value. With {ranges} in "
                f"place of the line that declares it, the statement is a recurrence, and reads what it has computed before"
            )

    def _remark_on_parts(self, made: Definition) -> None:
        """Say which index of the left side has the range that a window of an earlier statement was given in a line above."""
        for axis in made.axes:
            part = made.part_of(axis) if axis in self.reduced and axis in self.range_lines else None
            if part is not None:
                self.remarks.append(
                    f"`{made.name}` has {made.ranges[axis][1]} of the {part[1]} elements that `{part[0]}` has along `{axis}`: the range of "
                    f"`{axis}` in line {self.range_lines[axis]} holds here, too. Give the index that is reduced above another name"
                )

    def _note_ranges(self, made: Definition) -> None:
        """Note what later hints and remarks say of this statement's indices."""
        self.reduced |= made.used() - set(made.axes)
        for index, (begin, extent) in made.ranges.items():
            if isinstance(begin, int) and begin == 0:
                self.ran.setdefault(index, (extent, made.target.lineno))

    def _axes(self, target: ast.Subscript, value: ast.expr) -> list[str]:
        axes: list[str] = []
        for item in index_items(target):
            if isinstance(item, ast.Tuple) and not item.elts:
                continue
            if not isinstance(item, ast.Name):
                hint = None
                if any(isinstance(n, ast.Subscript) for n in ast.walk(item)):
                    hint = f"compare with each place instead, as in `H[b] += 1 if {ast.unparse(item)} == b else 0`"
                elif isinstance(item, ast.Slice) or (isinstance(item, ast.Constant) and item.value is ...):
                    hint = f"each dimension has an index name, which runs over it: `{ast.unparse(target.value)}[i, j] = ...`"
                elif isinstance(item, ast.Constant):
                    name = ast.unparse(target.value)
                    hint = with_first_values(name, self.assignments, self.declared.get(name)) or (
                        f"a single value has an empty index: `{name}[()]`"
                        if len(index_items(target)) == 1
                        else "for a dimension of one element write `z: range(1)` above, and `z` here"
                    )
                else:
                    hint = gathered(target, value, self.tensors) or (
                        "let the right side say which elements are taken, as in `Y[j] += X[10 * j + r]` below `r: range(10)`"
                    )
                fail_at(
                    self.source,
                    item,
                    f"the left side takes plain index names, not `{ast.unparse(item)}`",
                    hint,
                    code="notation.left_side_not_indices",
                )
            if item.id in axes:
                fail_at(
                    self.source, item, f"the index `{item.id}` appears twice on the left side",
                    "a diagonal is a condition, as in `Y[i, j] = X[i, j] if i == j else 0`", code="notation.repeated_index",
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
                _conversion(dtype, str(tensor.dtype), value), code="notation.declared_dtype_differs",
            )  # fmt: skip
        if len(shape) != len(tensor.shape):
            fail_at(
                self.source,
                target,
                f"`{name}` is declared with {len(shape)} dimensions, not {len(tensor.shape)}",
                code="notation.declared_rank_differs",
            )


def _converted(value: ast.expr, dtype: str) -> ast.expr:
    """A number as one of the declared data type, if that holds it."""
    is_whole = not any(isinstance(n, ast.Constant) and isinstance(n.value, float) for n in ast.walk(value))
    if not (is_whole or "float" in dtype):
        return value
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(dtype, ast.Load()), value), [value], []), value)


def _conversion(dtype: str, given: str, value: ast.expr) -> str:
    """The hint for a value of another type than declared: what is computed in a narrow integer has wrapped already."""
    read = next((n for n in ast.walk(value) if isinstance(n, ast.Subscript)), None)
    if isinstance(value, ast.BinOp) and read is not None and "int" in given and given != dtype:
        return f"convert what is read, as in `{dtype}({ast.unparse(read)})`: the right side is computed in `{given}`"
    return f"convert the right side by `{dtype}(...)`"
