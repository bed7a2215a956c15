"""One API call as loops over its vectorized axes: vectors of full width, then the tail.

Axes that all operands step through as through one become one loop first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvmagic import ir
from tvmagic.ascend.sizes import Size

VECTOR_BYTES = 64
_BLOCK_ROWS, _BLOCK_LANES = 16, 8  # of a block of a transpose: a line of the input, and rows that a cache set holds
_ACCUMULATORS = 2  # vectors that a reduction along the innermost axis sums into


@dataclass
class Dim:
    """A loop of a call: its extent, and the size if that is not shorter in a tail."""

    name: str
    extent: ir.PrimExpr
    size: Size | None


@dataclass
class Operand:
    """A tensor in a call: where it begins, and how far a step along each loop moves.

    `buffer` None: every element is `value`.
    """

    buffer: ir.Buffer | None
    start: ir.PrimExpr | None
    steps: list[Size]
    value: ir.PrimExpr | None = None

    def at(self, indices: Sequence[ir.PrimExpr], to_expr: Callable[[Size], ir.PrimExpr]) -> ir.PrimExpr:
        """The flat index at some indices of the loops."""
        assert self.start is not None
        place = self.start
        for index, step in zip(indices, self.steps, strict=True):
            if step == 0:
                continue
            term = index if step.is_one else index * to_expr(step)
            place = term if isinstance(place, ir.IntImm) and place.value == 0 else place + term
        return place

    def load(self, indices: Sequence[ir.PrimExpr], to_expr: Callable[[Size], ir.PrimExpr]) -> ir.PrimExpr:
        """The element at some indices of the loops."""
        if self.buffer is None:
            assert self.value is not None
            return self.value
        return ir.BufferLoad(self.buffer, [self.at(indices, to_expr)])

    def operands(self) -> list[Operand]:
        """All tensors that the operand reads."""
        return [self]


@dataclass(kw_only=True)
class Gathered(Operand):
    """A tensor that is read at indices: besides the loops' steps, `stride` times what `indices` say, 0 to `last`.

    `from_end`: negative indices count from the end.
    """

    indices: Operand
    stride: ir.PrimExpr
    last: ir.PrimExpr
    from_end: bool = False

    def at(self, indices: Sequence[ir.PrimExpr], to_expr: Callable[[Size], ir.PrimExpr]) -> ir.PrimExpr:
        place = self.indices.load(indices, to_expr)
        wide = "int64" if max(place.dtype.bits, self.last.dtype.bits) > 32 else "int32"
        place, last = ir.ops.cast(wide, place), ir.ops.cast(wide, self.last)
        if self.from_end:
            place = ir.Select(place < 0, place + last + 1, place)
        inside = ir.ops.maximum(ir.ops.minimum(place, last), ir.ops.const(0, wide))
        return super().at(indices, to_expr) + ir.ops.cast(self.last.dtype, inside) * self.stride

    def operands(self) -> list[Operand]:
        return [self, self.indices]


Expression = Callable[..., ir.PrimExpr]
ToExpr = Callable[[Size], ir.PrimExpr]


def _collapse(dims: list[Dim], operands: Sequence[Operand]) -> list[Dim]:
    """Make one loop of neighbouring ones wherever every operand steps through them as through one."""
    place = len(dims) - 2
    while place >= 0:
        outer, inner = dims[place], dims[place + 1]
        size = inner.size
        if size is not None and all(o.steps[place] == o.steps[place + 1] * size for o in operands):
            whole = None if outer.size is None else outer.size * size
            dims[place : place + 2] = [Dim(outer.name + inner.name, outer.extent * inner.extent, whole)]
            for operand in operands:
                del operand.steps[place]
        place -= 1
    return dims


def _loop(
    name: str, extent: ir.PrimExpr, body: Callable[[ir.Var], ir.Stmt], kind: ir.ForKind = ir.ForKind.SERIAL
) -> ir.Stmt:
    var = ir.Var(name, extent.dtype)
    return ir.For(var, ir.IntImm(extent.dtype, 0), extent, kind, body(var))


def _nest(
    dims: Sequence[Dim], body: Callable[[list[ir.PrimExpr]], ir.Stmt], opened: list[ir.PrimExpr] | None = None
) -> ir.Stmt:
    opened = opened or []
    if not dims:
        return body(opened)
    return _loop(dims[0].name, dims[0].extent, lambda var: _nest(dims[1:], body, [*opened, var]))


def _lanes(operands: Sequence[Operand], factor: int = 1) -> int:
    """How many elements of the widest operand a vector holds."""
    widths = [(o.steps[-1] != 0, o.buffer.dtype.bytes) for o in operands if o.buffer is not None]
    widest = max(widths, default=(False, 4))[1]  # of what is stepped through, where anything is
    return factor * VECTOR_BYTES // max(widest, 2)


def _extent(dim: Dim) -> ir.PrimExpr:
    constant = None if dim.size is None else dim.size.constant
    return dim.extent if constant is None else ir.IntImm(dim.extent.dtype, constant)


def _strips(
    dim: Dim, lanes: int, vector: Callable[[ir.PrimExpr], ir.Stmt], tail: Callable[[ir.PrimExpr], ir.Stmt]
) -> ir.Stmt:
    """Vectors of full width along `dim` (`vector` gets the first index), then what is left (`tail` each index)."""
    extent = _extent(dim)
    parts: list[ir.Stmt] = []
    constant = extent.value if isinstance(extent, ir.IntImm) else None
    whole = ir.ops.floordiv(extent, lanes)
    if constant is None or constant >= lanes:
        parts.append(_loop(f"{dim.name}_v", whole, lambda var: vector(var * lanes)))
    rest = extent - whole * lanes
    if constant is None or constant % lanes:
        first = whole * lanes
        parts.append(_loop(f"{dim.name}_r", rest, lambda var: tail(first + var)))
    return ir.SeqStmt.flatten(*parts)


def _blocks(dims: Sequence[Dim], turned: int, element: Callable[[list[ir.PrimExpr]], ir.Stmt]) -> ir.Stmt:
    """Loops in small blocks of the innermost one and of `turned`, along which an input is read element after element.

    Of the lines of both sides each is used whole while it is near, and few rows of the input are read side by side, so
    that the machine sees how they go on. What is left over at the ends is done element by element.
    """
    across, along = dims[turned], dims[-1]

    def body(outer: list[ir.PrimExpr]) -> ir.Stmt:
        def one(i: ir.PrimExpr, j: ir.PrimExpr) -> ir.Stmt:
            return element([*outer[:turned], i, *outer[turned:], j])

        def lanes(i: ir.PrimExpr, j: ir.PrimExpr) -> ir.Stmt:
            width = ir.IntImm(along.extent.dtype, _BLOCK_LANES)
            return _loop("lane", width, lambda lane: one(i, j + lane), ir.ForKind.VECTORIZED)

        def strip(j: ir.PrimExpr) -> ir.Stmt:
            length = ir.IntImm(across.extent.dtype, _BLOCK_ROWS)
            block = lambda i: _loop(f"{across.name}_i", length, lambda a: lanes(i + a, j))  # noqa: E731
            return _strips(across, _BLOCK_ROWS, block, lambda i: lanes(i, j))

        def column(j: ir.PrimExpr) -> ir.Stmt:
            return _loop(across.name, _extent(across), lambda i: one(i, j))

        return _strips(along, _BLOCK_LANES, strip, column)

    return _nest([d for i, d in enumerate(dims[:-1]) if i != turned], body)


def map_call(dims: list[Dim], y: Operand, inputs: Sequence[Operand], compute: Expression, to_expr: ToExpr) -> ir.Stmt:
    """`y = compute(*inputs)` for every element."""
    operands = [y, *(o for x in inputs for o in x.operands())]
    dims = _collapse(list(dims), operands)

    def element(indices: list[ir.PrimExpr]) -> ir.Stmt:
        assert y.buffer is not None
        return ir.BufferStore(y.buffer, compute(*(x.load(indices, to_expr) for x in inputs)), [y.at(indices, to_expr)])

    if not dims:
        return element([])
    unit = y.steps[-1].is_one and all(o.steps[-1] in (0, 1) for o in operands)
    unit = unit and not any(isinstance(x, Gathered) and x.indices.steps[-1] != 0 for x in inputs)
    if not unit:
        turned = next((i for i in reversed(range(len(dims) - 1)) if any(x.steps[i].is_one for x in inputs)), None)
        if turned is None or not y.steps[-1].is_one or any(isinstance(x, Gathered) for x in inputs):
            return _nest(dims, element)
        return _blocks(dims, turned, element)
    lanes, last = _lanes(operands), dims[-1]

    def row(outer: list[ir.PrimExpr]) -> ir.Stmt:
        def vector(first: ir.PrimExpr) -> ir.Stmt:
            width = ir.IntImm(last.extent.dtype, lanes)
            return _loop("lane", width, lambda lane: element([*outer, first + lane]), ir.ForKind.VECTORIZED)

        return _strips(last, lanes, vector, lambda index: element([*outer, index]))

    return _nest(dims[:-1], row)


def _combined(y: Operand, x: Operand, indices: list[ir.PrimExpr], combine: Expression, to_expr: ToExpr) -> ir.Stmt:
    """`y = combine(y, x)` for one element of `x`."""
    assert y.buffer is not None
    place = y.at(indices, to_expr)
    return ir.BufferStore(y.buffer, combine(ir.BufferLoad(y.buffer, [place]), x.load(indices, to_expr)), [place])


def reduce_call(
    dims: list[Dim], y: Operand, x: Operand, combine: Expression, identity: ir.PrimExpr, to_expr: ToExpr
) -> tuple[ir.Stmt, ir.Buffer | None]:
    """`y = combine(y, x)` for every element of `x`; with the buffer of partial results, if there is one."""
    dims = _collapse(list(dims), [y, x])

    def element(indices: list[ir.PrimExpr]) -> ir.Stmt:
        return _combined(y, x, indices, combine, to_expr)

    last = dims[-1]
    lanes = _lanes([x], 1 if y.steps[-1] != 0 else _ACCUMULATORS)
    constant = None if last.size is None else last.size.constant
    if not x.steps[-1].is_one or (constant is not None and constant < lanes) or y.steps[-1] not in (0, 1):
        return _nest(dims, element), None
    width = ir.IntImm(last.extent.dtype, lanes)
    if y.steps[-1] != 0:

        def columns(outer: list[ir.PrimExpr]) -> ir.Stmt:
            def vector(first: ir.PrimExpr) -> ir.Stmt:
                return _loop("lane", width, lambda lane: element([*outer, first + lane]), ir.ForKind.VECTORIZED)

            return _strips(last, lanes, vector, lambda index: element([*outer, index]))

        return _nest(dims[:-1], columns), None
    return _along_rows(dims, lanes, (y, x), combine, identity, to_expr)


def _along_rows(
    dims: list[Dim],
    lanes: int,
    operands: tuple[Operand, Operand],
    combine: Expression,
    identity: ir.PrimExpr,
    to_expr: ToExpr,
) -> tuple[ir.Stmt, ir.Buffer]:
    """A reduction along the innermost loop: `lanes` partial results, which are combined at the end of each row."""
    y, x = operands
    assert y.buffer is not None
    result, last = y.buffer, dims[-1]
    width = ir.IntImm(last.extent.dtype, lanes)
    partial = ir.decl_buffer([lanes], result.dtype, "partial", scope="local")

    def vectors(body: Callable[[ir.Var], ir.PrimExpr]) -> ir.Stmt:
        return _loop("lane", width, lambda lane: ir.BufferStore(partial, body(lane), [lane]), ir.ForKind.VECTORIZED)

    def along(outer: list[ir.PrimExpr]) -> ir.Stmt:
        def vector(first: ir.PrimExpr) -> ir.Stmt:
            return vectors(lambda lane: combine(partial[lane], x.load([*outer, first + lane], to_expr)))

        place = y.at([*outer, ir.IntImm(last.extent.dtype, 0)], to_expr)
        parts: list[ir.PrimExpr] = [
            ir.BufferLoad(partial, [ir.IntImm(last.extent.dtype, lane)]) for lane in range(lanes)
        ]
        while len(parts) > 1:  # by halves, so that few results wait for another
            half = len(parts) // 2
            parts = [combine(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
        total = combine(ir.BufferLoad(result, [place]), parts[0])
        strips = _strips(last, lanes, vector, lambda index: _combined(y, x, [*outer, index], combine, to_expr))
        return ir.SeqStmt.flatten(vectors(lambda lane: identity), strips, ir.BufferStore(result, total, [place]))

    return _nest(dims[:-1], along), partial


def argmax_call(dims: list[Dim], reduced: int, y: Operand, x: Operand, to_expr: ToExpr) -> ir.Stmt:
    """`y` is the place of the first greatest element of `x` along the loop number `reduced`; it begins with 0."""
    assert y.buffer is not None
    result, along = y.buffer, dims[reduced]

    def row(outer: list[ir.PrimExpr]) -> ir.Stmt:
        def inside(index: ir.PrimExpr) -> list[ir.PrimExpr]:
            return [*outer[:reduced], index, *outer[reduced:]]

        def element(index: ir.Var) -> ir.Stmt:
            place = y.at(inside(index), to_expr)
            best = ir.BufferLoad(result, [place])
            greatest = x.load(inside(ir.ops.cast(index.dtype, best)), to_expr)
            better = x.load(inside(index), to_expr) > greatest
            return ir.BufferStore(result, ir.Select(better, ir.ops.cast(result.dtype, index), best), [place])

        return _loop(along.name, _extent(along), element)

    return _nest([d for i, d in enumerate(dims) if i != reduced], row)
