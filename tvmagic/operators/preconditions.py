"""Assertions of a cell, tested before an operator computes anything.

They become a TensorIR function: loops that leave the number of the first assertion that fails, and the values of its loops
there. It is compiled with checks of bounds, and the script of a page is written from it, too. What has to be `distinct` is
left in an array, whose equal elements NumPy finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.codegen import has_llvm
from tvmagic.errors import BoundsError, PreconditionError
from tvmagic.ir.constants import const
from tvmagic.notation.assertions import Assertion, Loop, Reduction
from tvmagic.operators.arrays import size_values, symbols_of
from tvmagic.operators.assertion_points import Points, side_value
from tvmagic.operators.javascript import javascript

_SHOWN = 4  # values of accesses in a message


class Preconditions:
    """Tests the assertions of an operator.

    `make`: makes an operator of a name and a TensorIR function.
    """

    def __init__(
        self, name: str, inputs: Sequence[Any], assertions: Sequence[Assertion], make: Callable[[str, ir.PrimFunc], Any]
    ) -> None:
        self.inputs, self.assertions = tuple(inputs), tuple(assertions)
        self.operator = make(f"{name}_preconditions", assertion_function(inputs, assertions))

    def test(self, values: Sequence[np.ndarray]) -> None:
        """Raise a PreconditionError for the first assertion that does not hold."""
        run = self.operator if has_llvm() else self.operator.reference
        try:
            results = run(*[np.ascontiguousarray(v) for v in values])
        except BoundsError as error:
            error.hint = (
                error.hint or "an assertion reads outside a tensor: assert in a line above that its indices are inside"
            )
            raise
        found, *work = results if isinstance(results, tuple) else (results,)
        if found[0]:
            failed = self.assertions[int(found[0]) - 1]
            raise self._error(failed, {loop.var: int(n) for loop, n in zip(failed.loops, found[1:])}, values)
        for assertion, array in zip((a for a in self.assertions if a.over), work):
            pair = _equal_pair(array, assertion.over)
            if pair is not None:
                raise self._distinct_error(assertion, pair, values)

    def script(self, sizes: Mapping[Any, int]) -> dict[str, Any]:
        """The test as a function in JavaScript, with the text, the line and the loops of each assertion.

        `over`: how many elements in a row have to be distinct. Raises TVMagicError if it has no form in JavaScript.
        """
        own = dict(zip(symbols_of(self.operator.inputs), (sizes[v] for v in symbols_of(self.inputs))))
        extents = Points({}, sizes)
        return {
            "code": javascript(self.operator, own),
            "assertions": [
                {
                    "text": a.text,
                    "line": a.span.line,
                    "names": [loop.var.name for loop in a.loops],
                    "over": math.prod(
                        int(extents.value(x.end)) - int(extents.value(x.begin)) for x in a.loops[-a.over :]
                    )
                    if a.over
                    else 0,
                }
                for a in self.assertions
            ],
        }

    def _input_values(self, values: Sequence[np.ndarray]) -> tuple[dict[Any, np.ndarray], dict[Any, int]]:
        return dict(zip(self.inputs, values)), size_values(self.inputs, values)

    def _error(self, failed: Assertion, at: Mapping[ir.Var, int], values: Sequence[np.ndarray]) -> PreconditionError:
        arrays, sizes = self._input_values(values)
        where = ", ".join(f"`{var.name} = {n}`" for var, n in at.items())
        text = f"`{failed.text}` does not hold{f' at {where}' if where else ''}"
        shown = _comparison(failed, at, arrays, sizes) or _accesses(failed, at, arrays, sizes)
        return _of(failed, f"{text}: {shown}" if shown else text)

    def _distinct_error(
        self, failed: Assertion, pair: tuple[tuple[int, ...], tuple[int, ...]], values: Sequence[np.ndarray]
    ) -> PreconditionError:
        arrays, sizes = self._input_values(values)
        begins = [int(Points(arrays, sizes).value(loop.begin)) for loop in failed.loops]
        first, second = ([at + begin for at, begin in zip(place, begins)] for place in pair)
        known = {**sizes, **dict(zip((loop.var for loop in failed.loops), first))}
        value = Points(arrays, known).value(failed.condition)
        texts = [
            ", ".join(f"`{loop.var.name} = {n}`" for loop, n in zip(failed.loops, place)) for place in (first, second)
        ]
        message = f"`{failed.text}` does not hold: `{failed.condition}` is {value} at {texts[0]} and at {texts[1]}"
        return _of(failed, message)


def _of(failed: Assertion, message: str) -> PreconditionError:
    error = PreconditionError(message, span=failed.span, hint=failed.message or None, code="operator.assertion_failed")
    error.tensors = tuple(failed.tensors)
    return error


def _comparison(failed: Assertion, at: Mapping[ir.Var, int], arrays: Any, sizes: Any) -> str:
    """The values that were compared, such as `7 <= 5`."""
    values = [_number_text(side_value(side, at, arrays, sizes)) for side in failed.sides]
    return " ".join(text for pair in zip(values, (*failed.signs, "")) for text in pair).strip()


def _accesses(failed: Assertion, at: Mapping[ir.Var, int], arrays: Any, sizes: Any) -> str:
    """The elements that the condition reads outside its reductions."""
    points, found = Points(arrays, {**sizes, **at}), dict[str, None]()
    for load in _Loads.of(failed.condition):
        try:
            places = [int(points.value(i)) for i in load.indices]
            value = points.value(load).item()
        except BoundsError:  # in a branch that was not taken
            continue
        found[f"`{load.producer.name}[{', '.join(map(str, places))}]` is {_number_text(value)}"] = None
    return ", ".join(list(found)[:_SHOWN])


def _number_text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _equal_pair(array: np.ndarray, over: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The indices of two equal elements that differ in the last `over` indices alone; None if there are none."""
    rows = array.reshape(int(np.prod(array.shape[: array.ndim - over], dtype=np.int64)), -1)
    for number, row in enumerate(rows):
        if row.size < 2 or not _repeats(row):
            continue
        order = np.argsort(row, kind="stable")
        same = np.flatnonzero(row[order[1:]] == row[order[:-1]])
        first, second = (number * row.size + int(order[same[0] + n]) for n in (0, 1))
        return tuple(map(int, np.unravel_index(first, array.shape))), tuple(
            map(int, np.unravel_index(second, array.shape))
        )
    return None


def _repeats(row: np.ndarray) -> bool:
    """Whether a number occurs twice: counted if the numbers are near each other, else by sorting."""
    least, most = int(row.min()), int(row.max())
    if most - least < row.size - 1:
        return True
    if most - least < 8 * row.size + 1024:
        seen = np.zeros(most - least + 1, np.bool_)
        seen[row - least] = True
        return int(np.count_nonzero(seen)) < row.size
    ordered = np.sort(row)
    return bool((ordered[1:] == ordered[:-1]).any())


class _Loads(ir.Mutator):
    """The accesses of tensors in an expression."""

    def __init__(self) -> None:
        self.found: list[ir.ProducerLoad] = []

    @staticmethod
    def of(expr: ir.PrimExpr) -> list[ir.ProducerLoad]:
        finder = _Loads()
        finder.visit(expr)
        return finder.found

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> ir.PrimExpr:
        self.found.append(node)
        return self.visit_children(node)


# ---------------------------------------------------------------------------- the function


def assertion_function(inputs: Sequence[Any], assertions: Sequence[Assertion]) -> ir.PrimFunc:
    """The function of the inputs that tests assertions.

    Its first output, of int64, is the number of the first that fails, from 1, and the values of its loops; 0 if all hold.
    The others have the values that have to be distinct, for each of these assertions.
    """
    buffers = {tensor: ir.decl_buffer(tensor.shape, tensor.dtype, tensor.name) for tensor in inputs}
    depth = max((len(a.loops) for a in assertions), default=0)
    found = ir.decl_buffer((1 + depth,), "int64", "found")
    writer = _Writer(buffers, found)
    place = ir.Var("k")
    statements: list[ir.Stmt] = [
        ir.For(place, 0, 1 + depth, ir.ForKind.SERIAL, ir.BufferStore(found, const(0, "int64"), [place]))
    ]
    work: list[ir.Buffer] = []
    for number, assertion in enumerate(assertions, 1):
        if assertion.over:
            extents = [ir.ops.cast("int32", loop.end - loop.begin) for loop in assertion.loops]
            work.append(ir.decl_buffer(extents, "int64", f"values{number}"))
            places = [loop.var - loop.begin for loop in assertion.loops]
            store = ir.BufferStore(work[-1], ir.ops.cast("int64", writer.visit(assertion.condition)), places)
            statements.append(writer.nest(assertion.loops, store))
        else:
            statements.append(writer.test(number, assertion))
    # those that have to be distinct last: their loops are not ended by what failed
    return ir.PrimFunc([*buffers.values(), found, *work], ir.SeqStmt(statements), attrs={"tir.noalias": True})


class _Writer(ir.Mutator):
    """Writes assertions as statements on buffers."""

    def __init__(self, buffers: Mapping[Any, ir.Buffer], found: ir.Buffer) -> None:
        self.buffers, self.found = buffers, found

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> ir.PrimExpr:
        return ir.BufferLoad(self.buffers[node.producer], [self.visit(i) for i in node.indices])

    def nest(self, loops: Sequence[Loop], body: ir.Stmt) -> ir.Stmt:
        """Loops around a statement."""
        for loop in reversed(loops):
            dtype = loop.var.dtype
            begin, end = (
                self.visit(e) if isinstance(e, ir.PrimExpr) else ir.IntImm(dtype, e) for e in (loop.begin, loop.end)
            )
            body = ir.For(loop.var, begin, ir.ops.cast(dtype, end - begin), ir.ForKind.SERIAL, body)
        return body

    def test(self, number: int, assertion: Assertion) -> ir.Stmt:
        """The loops of an assertion; the first failure is kept."""
        kept = [ir.BufferStore(self.found, const(number, "int64"), [0])]
        kept += [
            ir.BufferStore(self.found, ir.ops.cast("int64", loop.var), [n]) for n, loop in enumerate(assertion.loops, 1)
        ]
        none_yet = ir.ops.equal(ir.BufferLoad(self.found, [0]), const(0, "int64"))
        first = ir.IfThenElse(none_yet, ir.SeqStmt(kept) if len(kept) > 1 else kept[0])
        body = self.reduced(
            assertion.reductions,
            lambda values: ir.IfThenElse(
                ir.ops.logical_not(ir.substitute(self.visit(assertion.condition), values)), first
            ),
        )
        loops = self.nest(assertion.loops, body)
        return ir.IfThenElse(none_yet, loops)

    def reduced(
        self, reductions: Sequence[Reduction], then: Callable[[Mapping[ir.Var, ir.PrimExpr]], ir.Stmt]
    ) -> ir.Stmt:
        """A statement made of the values of reductions, below the loops that compute these."""
        cells = [
            ir.decl_buffer((1,), "uint8" if r.element.dtype.is_bool else r.element.dtype, r.kind) for r in reductions
        ]
        values = {r.var: _read(cell, r) for r, cell in zip(reductions, cells)}
        parts: list[ir.Stmt] = []
        for reduction, cell in zip(reductions, cells):
            parts.append(_write(cell, reduction.identity))
            update = self.reduced(
                reduction.inner,
                lambda inner, r=reduction, c=cell: _write(
                    c, r.combine(_read(c, r), ir.substitute(self.visit(r.element), inner))
                ),
            )
            parts.append(self.nest(reduction.loops, update))
        body: ir.Stmt = then(values)
        if parts:
            body = ir.SeqStmt([*parts, body])
        for cell in reversed(cells):
            body = ir.Allocate(cell.data, cell.dtype, [1], const(True, "bool"), body)
        return body


def _read(cell: ir.Buffer, reduction: Reduction) -> ir.PrimExpr:
    value = ir.BufferLoad(cell, [0])
    return ir.ops.not_equal(value, const(0, "uint8")) if reduction.element.dtype.is_bool else value


def _write(cell: ir.Buffer, value: ir.PrimExpr) -> ir.Stmt:
    return ir.BufferStore(cell, ir.ops.cast("uint8", value) if value.dtype.is_bool else value, [0])
