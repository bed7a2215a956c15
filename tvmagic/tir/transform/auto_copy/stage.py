"""Copies through registers: each thread loads all of its elements before it stores one."""

from __future__ import annotations

from tvmagic.ir import (
    BufferLoad,
    BufferStore,
    FloorDiv,
    FloorMod,
    ForKind,
    IfThenElse,
    IntImm,
    Mul,
    PrimExpr,
    SeqStmt,
    Stmt,
    Var,
    Visitor,
    handles,
    ops,
    substitute,
    within_loops,
)
from tvmagic.tir.schedule.buffers import copy_in
from tvmagic.tir.transform.auto_copy.copies import Copy, loops_around, size_of


def through_registers(stmt: Stmt, copy: Copy) -> Stmt:
    """A coalesced copy whose threads load all of their elements before they store the first one.

    The loops over threads go to the outside; each thread then has registers for its elements.
    """
    loops, body = loops_around(stmt)
    threads = [loop for loop in loops if loop.kind is ForKind.THREAD_BINDING]
    inner = [loop for loop in loops if loop.kind is not ForKind.THREAD_BINDING]
    guard = body.condition if isinstance(body, IfThenElse) and body.else_case is None else None
    store = body.then_case if isinstance(body, IfThenElse) else body
    if not isinstance(store, BufferStore):
        return stmt
    ranges = {loop.loop_var: size_of(loop, copy) for loop in inner}
    place = _contiguous(store.value, ranges)
    shape, indices = place or ([loop.extent for loop in inner], [loop.loop_var for loop in inner])
    buffer = copy_in(store.buffer, "local", shape)
    new = {loop.loop_var: loop.loop_var.copy_with_suffix("_cache") for loop in inner}
    first: Stmt = BufferStore(buffer, substitute(store.value, new), [substitute(i, new) for i in indices])
    second: Stmt = store.replace(value=BufferLoad(buffer, indices))
    if guard is not None:
        first, second = IfThenElse(substitute(guard, new), first), IfThenElse(guard, second)
    first = within_loops([loop.replace(loop_var=new[loop.loop_var]) for loop in inner], first)
    copy.new_buffers.append(buffer)
    return within_loops(threads, SeqStmt([first, within_loops(inner, second)]))


# ---------------------------------------------------------------------------- where registers hold an element


def _contiguous(value: PrimExpr, ranges: dict[Var, int]) -> tuple[list[PrimExpr], list[PrimExpr]] | None:
    """For a load, registers with a dimension for each of its indices: their shape, and the place of the element.

    A strided index such as `x // 2 % 8 * 4` gets the 8 places that it takes. None if the value is not a plain load, or if
    some index is not made of products, divisions and remainders by constants that fit each other.
    """
    if not isinstance(value, BufferLoad):
        return None
    shape: list[PrimExpr] = []
    places: list[PrimExpr] = []
    for index in value.indices:
        parts = _Parts(ranges)
        parts.visit(index)
        if parts.failed:
            return None
        size, place = 1, IntImm(index.dtype, 0)
        for extent, part in parts.found:
            size, place = size * extent, place * extent + part
        shape.append(IntImm(index.dtype, size))
        places.append(place)
    return shape, places


class _Parts(Visitor):
    """What each variable adds to an index: the number of its different values, and which of them it is."""

    def __init__(self, ranges: dict[Var, int]) -> None:
        self.ranges, self.failed = ranges, False
        self.around: list[tuple[type, int]] = []  # the operators that the variable is in, the outermost first
        self.found: list[tuple[int, PrimExpr]] = []

    @handles(Mul, FloorDiv, FloorMod)
    def inside(self, node: Mul | FloorDiv | FloorMod) -> None:
        if not isinstance(node.b, IntImm):
            self.failed = True
            return
        self.around.append((type(node), node.b.value))
        self.visit(node.a)
        self.around.pop()

    @handles(Var)
    def variable(self, var: Var) -> None:
        """Follow the variable outwards: `values` multiples of `reach // values`, from 0 up to before `reach`."""
        if self.failed or var not in self.ranges:
            return
        reach = values = self.ranges[var]
        index: PrimExpr = var
        for operator, by in reversed(self.around):
            if operator is Mul:
                reach, index = reach * by, index * by
            elif operator is FloorDiv:
                if by <= 0 or (reach % by and by % reach):
                    self.failed = True
                    return
                reach, index = reach // by, ops.floordiv(index, by)
                values = max(1, min(values, reach))
                self.failed = self.failed or reach % values != 0
            else:
                step = reach // values
                if by <= 0 or (step % by and by % step):
                    self.failed = True
                    return
                values = 1 if step % by == 0 else max(1, min(values, by // step))
                reach = 0 if step % by == 0 else values * step
                index = ops.floormod(index, by)
        if values > 1 and not self.failed:
            self.found.append((values, ops.floordiv(index, reach // values)))
