"""Statements built by Python calls, as TVM's `tir.ir_builder` does.

ib = tir.ir_builder.create()
A = ib.pointer("float32", name="A")
with ib.for_range(0, n) as i:
    A[i] = A[i] + 1.0
stmt = ib.get()
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.prim_expr import SEQUENCES

__all__ = ["BufferVar", "IRBuilder", "create"]

_KINDS = {
    "serial": ir.ForKind.SERIAL,
    "parallel": ir.ForKind.PARALLEL,
    "vectorize": ir.ForKind.VECTORIZED,
    "unroll": ir.ForKind.UNROLLED,
}
_Part = ir.Stmt | Callable[[ir.Stmt], ir.Stmt]


class BufferVar:
    """A buffer whose accesses are written `x[i]`; assigning to `x[i]` adds a store to the builder.

    An access has one index for each dimension, or a single one into the flattened buffer.
    """

    __iter__ = None  # by its indices Python would go through it without end, as in `sum(A)` and `x in A`

    def __init__(self, builder: IRBuilder, buffer: ir.Buffer, content_type: Any) -> None:
        self._builder = builder
        self._buffer = buffer
        self._content_type = content_type

    def asobject(self) -> ir.Buffer:
        """The buffer."""
        return self._buffer

    @property
    def dtype(self) -> Any:
        """The type of an element."""
        return self._content_type

    def _indices(self, index: Any) -> list[Any]:
        indices = list(index) if isinstance(index, SEQUENCES) else [index]
        indices = [i.var if isinstance(i, ir.IterVar) else i for i in indices]
        shape = self._buffer.shape
        if len(indices) != 1 or len(shape) == 1:
            return indices
        rest = indices[0]
        parts: list[ir.PrimExpr] = []
        for size in reversed(shape):
            parts.append(ir.ops.indexmod(rest, size))
            rest = ir.ops.indexdiv(rest, size)
        return parts[::-1]

    def __getitem__(self, index: Any) -> ir.BufferLoad:
        return ir.BufferLoad(self._buffer, self._indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        value = ir.expr(value)
        element = self._buffer.dtype.element_of
        if value.dtype.element_of is not element:
            raise TVMagicError(
                f"a value of type `{value.dtype}` cannot be stored in `{self._buffer.name}`, which holds `{element}`",
                hint="convert it with astype",
                code="ir_builder.dtypes_differ",
            )
        self._builder.emit(ir.BufferStore(self._buffer, value, self._indices(index)))


class IRBuilder:
    """Collects statements; scopes are opened with `with`, `get` gives the whole."""

    def __init__(self) -> None:
        self._levels: list[list[_Part]] = [[]]
        self.nidx = 0

    def _pop(self) -> ir.Stmt:
        """The statements of the innermost level as one; a callable takes what follows as its body."""
        level = self._levels.pop()
        following: list[ir.Stmt] = []
        if not level or not isinstance(level[-1], ir.Stmt):
            following.append(ir.Evaluate(0))
        for part in reversed(level):
            if isinstance(part, ir.Stmt):
                following.append(part)
            else:
                following = [part(_sequence(following))]
        return _sequence(following)

    @contextlib.contextmanager
    def _scope(self, value: Any, finish: Callable[[ir.Stmt], ir.Stmt]) -> Generator[Any]:
        self._levels.append([])
        yield value
        self.emit(finish(self._pop()))

    def emit(self, stmt: _Part | ir.PrimExpr) -> None:
        """Add a statement, a call, or a function from what follows to the statement around it."""
        if isinstance(stmt, ir.Call):
            stmt = ir.Evaluate(stmt)
        if not isinstance(stmt, ir.Stmt) and not callable(stmt):
            raise TVMagicError(f"a `{type(stmt).__name__}` is not a statement", code="ir_builder.not_a_statement")
        self._levels[-1].append(stmt)

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """The fact `attr_key` of `node`, for all that follows in this scope."""
        if not isinstance(node, ir.IterVar):
            node = ir.StringImm(node) if isinstance(node, str) else ir.convert(node)
        value = ir.StringImm(value) if isinstance(value, str) else ir.expr(value)
        if attr_key == "thread_extent":
            value = ir.ops.maximum(1, value)
        self.emit(lambda body: ir.AttrStmt(node, attr_key, value, body))

    def for_range(self, begin: Any, end: Any, name: str = "i", dtype: Any = None, kind: str = "serial") -> Any:
        """A loop from `begin` to `end`, the end left out; `with` gives its variable.

        `kind` is `serial`, `parallel`, `vectorize` or `unroll`. Unnamed variables are called i, j,
        k, i_0, i_1, ...
        """
        if kind not in _KINDS:
            raise TVMagicError(
                f"`{kind}` is not a kind of loop",
                hint=f"the kinds are {', '.join(_KINDS)}",
                code="ir_builder.unknown_loop_kind",
            )
        if name == "i":
            name = "ijk"[self.nidx] if self.nidx < 3 else f"i_{self.nidx - 3}"
            self.nidx += 1
        first, last = ir.expr(begin), ir.expr(end)
        for bound in (first, last):
            if not bound.dtype.is_int:
                raise TVMagicError(
                    f"the bounds of a loop are integers, not `{bound.dtype}`", code="ir_builder.bounds_not_integer"
                )
        if dtype is None:
            dtype = "int64" if "int64" in (first.dtype, last.dtype) else "int32"
        var = ir.Var(name, dtype)
        extent = last if isinstance(first, ir.IntImm) and first.value == 0 else last - first
        return self._scope(var, lambda body: ir.For(var, first, extent, _KINDS[kind], body))

    def while_loop(self, condition: Any) -> Any:
        """A loop that runs while `condition` holds."""
        return self._scope(None, lambda body: ir.While(condition, body))

    def if_scope(self, cond: Any) -> Any:
        """What runs where `cond` holds."""
        return self._scope(None, lambda body: ir.IfThenElse(cond, body))

    def else_scope(self) -> Any:
        """What runs where the condition of the `if_scope` just before does not hold."""
        previous = self._levels[-1][-1] if self._levels[-1] else None
        if not isinstance(previous, ir.IfThenElse) or previous.else_case is not None:
            raise TVMagicError("`else_scope` stands right after `if_scope`", code="ir_builder.else_without_if")
        self._levels[-1].pop()
        return self._scope(None, lambda body: previous.replace(else_case=body))

    def new_scope(self) -> Any:
        """A scope of its own: attributes and allocations inside it end with it."""
        return self._scope(None, lambda body: body)

    def let(self, var_name: str, value: ir.PrimExpr) -> ir.Var:
        """A variable that stands for `value` in all that follows."""
        value = ir.expr(value)
        var = ir.Var(var_name, value.dtype)
        self.emit(lambda body: ir.LetStmt(var, value, body))
        return var

    def allocate(
        self, dtype: Any, shape: Any, name: str = "buf", axis_separators: Any = None, scope: str = ""
    ) -> BufferVar:
        """Memory for `shape` elements of `dtype`, for all that follows."""
        shape = list(shape) if isinstance(shape, SEQUENCES) else [shape]
        buffer = ir.decl_buffer(shape, dtype, name, scope=scope, axis_separators=axis_separators)
        self.emit(lambda body: ir.Allocate(buffer.data, dtype, shape, ir.IntImm("bool", 1), body))
        return BufferVar(self, buffer, dtype)

    def pointer(self, content_type: Any, name: str = "ptr", scope: str = "") -> BufferVar:
        """A pointer to elements of `content_type`."""
        return BufferVar(self, ir.decl_buffer([1], content_type, name, scope=scope), content_type)

    def buffer_ptr(self, buf: ir.Buffer) -> BufferVar:
        """The buffer `buf` for accesses in this builder."""
        return BufferVar(self, buf, buf.dtype)

    def likely(self, expr: Any) -> ir.PrimExpr:
        """`expr`, a condition, marked as nearly always true."""
        value = ir.convert(expr)
        return ir.Call(value.dtype, "tir.likely", [value])

    def get(self) -> ir.Stmt:
        """The whole as one statement."""
        if len(self._levels) != 1:
            raise TVMagicError(
                "`get` is called inside an open scope",
                hint="call it after the `with` blocks",
                code="ir_builder.open_scope",
            )
        return self._pop()


def _sequence(reverse: list[ir.Stmt]) -> ir.Stmt:
    """Statements, given last first, as one."""
    return reverse[0] if len(reverse) == 1 else ir.SeqStmt(reverse[::-1])


def create() -> IRBuilder:
    """A new builder."""
    return IRBuilder()
