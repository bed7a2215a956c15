"""A fused loop as the loops that it was made of: where a body asks for quotients and remainders of its variable alone."""

from __future__ import annotations

import math

from tvmagic import ir


def unfuse(stmt: ir.Stmt) -> ir.Stmt:
    """The same program with each fused loop as loops over the digits of its variable, if the body uses nothing else of it.

    `for f in range(12): A[f // 4, f % 4]` has the digits `f // 4` and `f % 4`; what they are counted in (4 and 1) divide each
    other and the extent. Iterations keep their order.
    """
    return _Unfuser().visit(stmt)


class _Unfuser(ir.StmtMutator):
    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        node = self.visit_children(node)
        return _loops_of(node) or node


def _loops_of(loop: ir.For) -> ir.For | None:
    """The loops for the digits of a loop's variable; None if there are not several, or the body asks for more."""
    if not isinstance(loop.extent, ir.IntImm) or not isinstance(loop.min, ir.IntImm) or loop.min.value != 0:
        return None
    digits = _Digits(loop.loop_var)
    try:
        digits.visit(loop.body)
    except _Whole:
        return None
    steps = sorted({1, *(begin for begin, _ in digits.found), *(end for _, end in digits.found if end)})
    bounds = [*(s for s in steps if s < loop.extent.value), loop.extent.value]
    if len(bounds) < 3 or any(b % a for a, b in zip(bounds, bounds[1:])):
        return None
    dtype = loop.loop_var.dtype
    parts = [ir.Var(f"{loop.loop_var.name}_{number}", dtype) for number in range(len(bounds) - 1)]
    body = _Split(loop.loop_var, list(zip(bounds, parts))).visit(loop.body)
    for part, low, high in zip(parts, bounds, bounds[1:]):  # the innermost first
        loop = loop.with_(loop_var=part, extent=ir.IntImm(dtype, high // low), body=body)
        body = loop
    return loop


class _Whole(Exception):
    """The variable itself is used."""


def _digit(node: ir.PrimExpr, var: ir.Var) -> tuple[int, int] | None:
    """The digit of `var` that an expression is: `(begin, end)` for `var % end // begin`, end 0 if there is no remainder.

    `var // a % b` is written so too, with the end `a * b`.
    """
    begin, end = 1, 0
    while isinstance(node, (ir.FloorDiv, ir.FloorMod)) and isinstance(node.b, ir.IntImm) and node.b.value > 0:
        if isinstance(node, ir.FloorDiv):
            begin, end = begin * node.b.value, end * node.b.value
        elif end % node.b.value and node.b.value % end:
            return None  # a remainder of another one, of which neither divides the other
        else:
            end = math.gcd(end, node.b.value)
        node = node.a
    return (begin, end) if node is var and (begin, end) != (1, 0) else None


class _Digits(ir.Visitor):
    """Collects the digits of a variable; raises `_Whole` if it is used in another way."""

    def __init__(self, var: ir.Var) -> None:
        self.var, self.found = var, set[tuple[int, int]]()

    @ir.handles(ir.FloorDiv, ir.FloorMod)
    def quotient(self, node: ir.FloorDiv | ir.FloorMod) -> None:
        digit = _digit(node, self.var)
        if digit is None:
            self.visit_children(node)
        else:
            self.found.add(digit)

    @ir.handles(ir.Var)
    def use(self, node: ir.Var) -> None:
        if node is self.var:
            raise _Whole


class _Split(ir.Mutator):
    """Writes each digit as a sum over the loops that it reaches over; `parts`: the step of each with its variable."""

    def __init__(self, var: ir.Var, parts: list[tuple[int, ir.Var]]) -> None:
        self.var, self.parts = var, parts

    @ir.handles(ir.FloorDiv, ir.FloorMod)
    def quotient(self, node: ir.FloorDiv | ir.FloorMod) -> ir.PrimExpr:
        digit = _digit(node, self.var)
        if digit is None:
            return self.visit_children(node)
        begin, end = digit
        total: ir.PrimExpr = ir.IntImm(self.var.dtype, 0)
        for step, part in self.parts:
            if begin <= step and (not end or step < end):
                total = ir.Add(total, ir.Mul(part, ir.IntImm(self.var.dtype, step // begin)))
        return total
