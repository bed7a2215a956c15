"""InjectCopyIntrin: loops that copy, marked by a pragma, become what an accelerator's function makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.linear import detect_clip_bound, detect_linear_equation
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Cast,
    For,
    IntImm,
    PrimExpr,
    PrimFunc,
    Stmt,
    StmtMutator,
    handles,
)
from tvmagic.ir.conditional import choice
from tvmagic.ir.ops import maximum
from tvmagic.ir.query import is_zero
from tvmagic.tir.transform.declaration import tir_pass

_Copy = Callable[..., Any]


@tir_pass("tir.InjectCopyIntrin")
def InjectCopyIntrin(func: PrimFunc, pragma_key: str, fintrin: _Copy) -> PrimFunc:
    """Replace the loops under the pragma `pragma_key` by the statement that `fintrin` makes.

    `fintrin(src, dst, pad_before, pad_after, pad_value)` gets two buffers, whose shape, strides and offset say what is
    copied; the elements that the copy fills with `pad_value` before and behind in each dimension (empty, and
    None, without a condition). The buffers are flat (StorageFlatten or FlattenBuffer). Raises `TVMagicError` for loops
    that do not copy, and if `fintrin` gives no statement.
    """
    return func.with_body(_Injector(f"pragma_{pragma_key}", fintrin).visit(func.body))


class _Injector(StmtMutator):
    def __init__(self, key: str, function: _Copy) -> None:
        self.key, self.function, self.analyzer = key, function, Analyzer()

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        if node.attr_key != self.key:
            return self.visit_children(node)
        loops: list[For] = []
        body = node.body
        while isinstance(body, For):
            if not is_zero(body.min):
                raise self._no_copy(body, f"the loop `{body.loop_var.name}` does not begin at 0")
            loops.append(body)
            body = body.body
        if not isinstance(body, BufferStore):
            raise self._no_copy(node, "there is no store in the loops")
        made = self.function(*self._described(loops, body))
        if not isinstance(made, Stmt):
            raise TVMagicError(f"the function for `{self.key}` gives no statement, but `{made!r}`", node=node)
        return made

    def _no_copy(self, node: Stmt, why: str) -> TVMagicError:
        return TVMagicError(f"what is marked by `{self.key}` is not a copy: {why}", node=node)

    def _described(self, loops: Sequence[For], store: BufferStore) -> tuple[Any, ...]:
        """What the function is called with."""
        condition, value, padding = _parts(store.value)
        load = value.value if isinstance(value, Cast) else value
        if not isinstance(load, BufferLoad):
            raise self._no_copy(store, "the value that is stored is not loaded from a buffer")
        if len(load.indices) != 1 or len(store.indices) != 1:
            raise TVMagicError("a copy is described in flat buffers", node=store, hint="run FlattenBuffer before")
        names = [loop.loop_var for loop in loops]
        target = detect_linear_equation(store.indices[0], names)
        source = detect_linear_equation(load.indices[0], names)
        if not target or not source:
            raise self._no_copy(store, "an index is not linear in the loops")
        extents: list[PrimExpr] = [loop.extent for loop in loops]
        shape, offset, before, after = list(extents), source[-1], [], []
        if condition is not None:
            before, after = self._padding(condition, loops, store)
            shape = [self.analyzer.simplify(e - b - a) for e, b, a in zip(extents, before, after)]
            for count, stride in zip(before, source):
                offset = offset + count * stride
            offset = self.analyzer.simplify(offset)
        src = _part(load.buffer, shape, source[:-1], offset)
        dst = _part(store.buffer, extents, target[:-1], target[-1])
        return src, dst, before, after, padding

    def _padding(
        self, condition: PrimExpr, loops: Sequence[For], store: BufferStore
    ) -> tuple[list[PrimExpr], list[PrimExpr]]:
        """How many elements of each dimension are not copied, before and behind those that are."""
        bounds = detect_clip_bound(condition, [loop.loop_var for loop in loops])
        if not bounds:
            raise self._no_copy(store, f"the condition `{condition}` does not bound each loop for itself")
        before: list[PrimExpr] = []
        after: list[PrimExpr] = []
        for loop, low, high in zip(loops, bounds[::2], bounds[1::2]):
            zero = IntImm(loop.loop_var.dtype, 0)
            before.append(zero if low is None else self.analyzer.simplify(maximum(low, zero)))
            after.append(zero if high is None else self.analyzer.simplify(maximum(loop.extent - high - 1, zero)))
        return before, after


def _parts(value: PrimExpr) -> tuple[PrimExpr | None, PrimExpr, PrimExpr | None]:
    """The condition under which a value is loaded, the value, and what is stored otherwise."""
    return choice(value) or (None, value, None)


def _part(buffer: Buffer, shape: Sequence[PrimExpr], strides: Sequence[PrimExpr], offset: PrimExpr) -> Buffer:
    """What the loops access of a buffer; a single element is one in a row."""
    one = (IntImm("int32", 1),)
    return buffer.replace(shape=tuple(shape) or one, strides=tuple(strides) or one, elem_offset=offset)
