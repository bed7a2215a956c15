"""What the body of an operation reads: which tensors, at which indices, in which part of an axis.

A choice by an iteration variable, `A[i, j] if j < 3 else B[i, j - 3]`, cuts the variable's axis into
parts, which a HintGraph puts together by a Concat. An index that is itself read, `T[I[i], j]`, is a Gather.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tvmagic import ir, te
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.ascend.graph import AscendError
from tvmagic.ascend.sizes import Size, from_expr
from tvmagic.ir.conditional import choice
from tvmagic.ir.query import contains, strip_likely

RULE = "te-expression"


def refuse(op: te.Operation, node: object, why: str, hint: str | None = None) -> AscendError:
    """The error of an expression that a HintGraph has no node for; `why` goes on after its text."""
    span = getattr(node, "span", None) or op.span
    return AscendError("te-expression", f"`{node}` of `{op.name}` {why}", span=span, hint=hint)


def size_of(op: te.Operation, size: ir.PrimExpr) -> Size:
    """The size of an expression: numbers, variables, sums and products of them."""
    found = from_expr(size)
    if found is None:
        raise refuse(op, size, "is not a size of an axis", "a number, a variable, sums and products of them")
    return found


@dataclass(frozen=True)
class Part:
    """The values of an iteration variable from `start` on, `size` of them."""

    start: Size
    size: Size

    @property
    def end(self) -> Size:
        """The first value behind it."""
        return self.start + self.size


Parts = Mapping[ir.Var, Part]
Piece = tuple[Part, ir.PrimExpr]


# ---------------------------------------------------------------------------- choices by a variable


def pieces(node: ir.PrimExpr, parts: Parts) -> tuple[ir.Var, list[Piece]] | None:
    """The pieces into which a choice cuts the part of an iteration variable, in order, each with its expression.

    None if the condition does not compare such a variable with sizes whose order is known.
    """
    chosen = choice(node)
    if chosen is None:
        return None
    var = _compared(chosen[0], parts)
    if var is None:
        return None
    found = _split(node, var, parts[var])
    return None if found is None else (var, found)


def _compared(condition: ir.PrimExpr, parts: Parts) -> ir.Var | None:
    """The only iteration variable in a condition that reads nothing."""
    found: set[ir.Var] = set()
    reads: list[ir.PrimExpr] = []

    def note(node: ir.PrimExpr) -> None:
        if isinstance(node, ir.Var) and node in parts:
            found.add(node)
        elif isinstance(node, ir.ProducerLoad):
            reads.append(node)

    ir.post_order_visit(condition, note)
    return next(iter(found)) if len(found) == 1 and not reads else None


def _split(node: ir.PrimExpr, var: ir.Var, part: Part) -> list[Piece] | None:
    chosen = choice(node)
    if chosen is None or not uses_var(chosen[0], {var}):
        return [(part, node)]
    held = _where(chosen[0], var, part)
    if held is None:
        return None
    found: list[Piece] = []
    stretches = (part.start, held.start, chosen[2]), (held.start, held.end, chosen[1]), (held.end, part.end, chosen[2])
    for start, end, value in stretches:
        if start == end:
            continue
        inside = _split(value, var, Part(start, end - start))
        if inside is None:
            return None
        found += inside
    return found


def _where(condition: ir.PrimExpr, var: ir.Var, part: Part) -> Part | None:
    """The values in `part` for which a condition on `var` holds, if they follow each other."""
    condition = strip_likely(condition)
    if isinstance(condition, ir.And):
        first = _where(condition.a, var, part)
        return None if first is None else _where(condition.b, var, first)
    if isinstance(condition, ir.Not):
        held = _where(condition.a, var, part)
        if held is None:
            return None
        if held.start == part.start:
            return Part(held.end, part.end - held.end)
        return Part(part.start, held.start - part.start) if held.end == part.end else None
    bounds = _bounds(condition, var, part)
    if bounds is None:
        return None
    start, end = (_clamp(bound, part) for bound in bounds)
    if start is None or end is None:
        return None
    end = _larger(start, end)
    return None if end is None else Part(start, end - start)


_TURNED = {ir.LT: ir.GT, ir.LE: ir.GE, ir.GT: ir.LT, ir.GE: ir.LE, ir.EQ: ir.EQ}


def _bounds(condition: ir.PrimExpr, var: ir.Var, part: Part) -> tuple[Size, Size] | None:
    """From where, and up to before where, a comparison of `var` with a size holds."""
    kind = type(condition)
    if kind not in _TURNED:
        return None
    left, right = condition.a, condition.b  # type: ignore[attr-defined]
    if uses_var(right, {var}):
        left, right, kind = right, left, _TURNED[kind]
    place = shifted(left)
    if place is None or place[0] is not var:
        return None
    bound = from_expr(right)
    if bound is None:
        return None
    limit = bound - place[1]
    if kind is ir.LT or kind is ir.LE:
        return part.start, limit + (1 if kind is ir.LE else 0)
    if kind is ir.GT or kind is ir.GE:
        return limit + (1 if kind is ir.GT else 0), part.end
    return limit, limit + 1


def _clamp(bound: Size, part: Part) -> Size | None:
    """A bound, moved to the nearest end of a part if it is outside."""
    above = _larger(bound, part.start)
    return None if above is None else _smaller(above, part.end)


def _larger(a: Size, b: Size) -> Size | None:
    return a if a.covers(b) else b if b.covers(a) else None


def _smaller(a: Size, b: Size) -> Size | None:
    return b if a.covers(b) else a if b.covers(a) else None


# ---------------------------------------------------------------------------- reads


def shifted(index: ir.PrimExpr) -> tuple[ir.Var, Size] | None:
    """The variable and what is added to it, of an index `i`, `i + 3` or `i - n`."""
    if isinstance(index, ir.Var):
        return index, Size.of(0)
    if isinstance(index, (ir.Add, ir.Sub)):
        first, second = index.a, index.b
        if isinstance(index, ir.Add) and isinstance(second, ir.Var) and not isinstance(first, ir.Var):
            first, second = second, first
        inner = shifted(first)
        offset = from_expr(second)
        if inner is not None and offset is not None:
            return inner[0], inner[1] + offset if isinstance(index, ir.Add) else inner[1] - offset
    return None


def gathered_place(load: ir.ProducerLoad) -> int | None:
    """The place of the index that is itself read; the first of several."""
    return next((i for i, index in enumerate(load.indices) if reads_something(index)), None)


def reads_something(index: ir.PrimExpr) -> bool:
    """Whether an index is itself read from a tensor."""
    return not isinstance(index, (ir.Var, ir.IntImm)) and contains(index, ir.ProducerLoad)


@dataclass(frozen=True)
class Read:
    """A load of a body, and the parts of the iteration variables in which it is read."""

    load: ir.ProducerLoad
    parts: Parts


def whole_parts(op: te.ComputeOp) -> Parts:
    """The iteration variables of an operation, each over all of its domain."""
    axes = [(iv.var, iv.dom) for iv in (*op.axis, *op.reduce_axis)]
    return {var: Part(Size.of(0), size_of(op, dom.extent)) for var, dom in axes if dom is not None}


def reads(op: te.ComputeOp) -> Iterator[Read]:
    """All reads of an operation."""
    for body in op.body:
        walk = _Reads(whole_parts(op))
        walk.visit(body)
        yield from walk.found


class _Reads(ir.Visitor):
    def __init__(self, parts: Parts) -> None:
        self.parts, self.found = parts, list[Read]()
        self.bound: dict[ir.Var, ir.PrimExpr] = {}

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> None:
        self.found.append(Read(node, self.parts))
        self.visit_children(node)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> None:
        self.bound[node.var] = node.value
        self.visit(node.body)

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        if node in self.bound:
            self.visit(self.bound[node])

    @ir.handles(ir.Select, ir.Call)
    def chosen(self, node: ir.PrimExpr) -> None:
        cut = pieces(node, self.parts)
        if cut is None:
            self.visit_children(node)
            return
        var, found = cut
        outer = self.parts
        for part, value in found:
            self.parts = {**outer, var: part}
            self.visit(value)
        self.parts = outer
