"""Copies through registers: each thread loads all of its elements before it stores one."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.tir.schedule.buffers import copy_in
from tvmagic.tir.transform.auto_copy.copies import Copy, loops_around, size_of


def through_registers(stmt: ir.Stmt, copy: Copy) -> ir.Stmt:
    """A coalesced copy whose threads load all of their elements before they store the first one.

    The loops over threads go to the outside; each thread then has registers for its elements.
    """
    loops, body = loops_around(stmt)
    threads = [loop for loop in loops if loop.kind is ir.ForKind.THREAD_BINDING]
    inner = [loop for loop in loops if loop.kind is not ir.ForKind.THREAD_BINDING]
    guard = body.condition if isinstance(body, ir.IfThenElse) and body.else_case is None else None
    store = body.then_case if isinstance(body, ir.IfThenElse) else body
    if not isinstance(store, ir.BufferStore):
        return stmt
    ranges = {loop.loop_var: size_of(loop, copy) for loop in inner}
    place = _contiguous(store.value, ranges)
    shape, indices = place or ([loop.extent for loop in inner], [loop.loop_var for loop in inner])
    buffer = copy_in(store.buffer, "local", shape)
    new = {loop.loop_var: loop.loop_var.copy_with_suffix("_cache") for loop in inner}
    first: ir.Stmt = ir.BufferStore(buffer, ir.substitute(store.value, new), [ir.substitute(i, new) for i in indices])
    second: ir.Stmt = store.replace(value=ir.BufferLoad(buffer, indices))
    if guard is not None:
        first, second = ir.IfThenElse(ir.substitute(guard, new), first), ir.IfThenElse(guard, second)
    first = ir.within_loops([loop.replace(loop_var=new[loop.loop_var]) for loop in inner], first)
    copy.new_buffers.append(buffer)
    return ir.within_loops(threads, ir.SeqStmt([first, ir.within_loops(inner, second)]))


# ---------------------------------------------------------------------------- where registers hold an element


def _contiguous(value: ir.PrimExpr, ranges: dict[ir.Var, int]) -> tuple[list[ir.PrimExpr], list[ir.PrimExpr]] | None:
    """For a load, registers with a dimension for each of its indices: their shape, and the place of the element.

    A strided index such as `x // 2 % 8 * 4` gets the 8 places that it takes. None if the value is not a plain load, or if
    some index is not made of products, divisions and remainders by constants that fit each other.
    """
    if not isinstance(value, ir.BufferLoad):
        return None
    shape: list[ir.PrimExpr] = []
    places: list[ir.PrimExpr] = []
    for index in value.indices:
        parts = _Parts(ranges)
        parts.visit(index)
        if parts.failed:
            return None
        size, place = 1, ir.IntImm(index.dtype, 0)
        for extent, part in parts.found:
            size, place = size * extent, place * extent + part
        shape.append(ir.IntImm(index.dtype, size))
        places.append(place)
    return shape, places


class _Parts(ir.Visitor):
    """What each variable adds to an index: the number of its different values, and which of them it is."""

    def __init__(self, ranges: dict[ir.Var, int]) -> None:
        self.ranges, self.failed = ranges, False
        self.around: list[tuple[type, int]] = []  # the operators that the variable is in, the outermost first
        self.found: list[tuple[int, ir.PrimExpr]] = []

    @ir.handles(ir.Mul, ir.FloorDiv, ir.FloorMod)
    def inside(self, node: ir.Mul | ir.FloorDiv | ir.FloorMod) -> None:
        if not isinstance(node.b, ir.IntImm):
            self.failed = True
            return
        self.around.append((type(node), node.b.value))
        self.visit(node.a)
        self.around.pop()

    @ir.handles(ir.Var)
    def variable(self, var: ir.Var) -> None:
        """Follow the variable outwards: `values` multiples of `reach // values`, from 0 up to before `reach`."""
        if self.failed or var not in self.ranges:
            return
        reach = values = self.ranges[var]
        index: ir.PrimExpr = var
        for operator, by in reversed(self.around):
            if operator is ir.Mul:
                reach, index = reach * by, index * by
            elif operator is ir.FloorDiv:
                if by <= 0 or (reach % by and by % reach):
                    self.failed = True
                    return
                reach, index = reach // by, ir.ops.floordiv(index, by)
                values = max(1, min(values, reach))
                self.failed = self.failed or reach % values != 0
            else:
                step = reach // values
                if by <= 0 or (step % by and by % step):
                    self.failed = True
                    return
                values = 1 if step % by == 0 else max(1, min(values, by // step))
                reach = 0 if step % by == 0 else values * step
                index = ir.ops.floormod(index, by)
        if values > 1 and not self.failed:
            self.found.append((values, ir.ops.floordiv(index, reach // values)))
