"""Whether blocks touch only what they are taken to touch, found by running through a function's indices with plain numbers.

As in TVM, some blocks declare less than they touch (hidden accesses, cached indices, pieces of a partitioned loop), so that what
counts is what dependences and copies go by: `effective_regions`. What depends on data is not looked at.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tvmagic.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    For,
    IfThenElse,
    IntImm,
    LetStmt,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    PrimFunc,
    Select,
    Stmt,
    Sub,
    Var,
)  # fmt: skip
from tvmagic.ir.conditional import choice
from tvmagic.ir.query import is_call
from tvmagic.tir.blocks.regions import effective_regions

MOST_STEPS = 40_000
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, FloorDiv: operator.floordiv, FloorMod: operator.mod, Min: min, Max: max,
    LT: operator.lt, LE: operator.le, GT: operator.gt, GE: operator.ge, EQ: operator.eq, NE: operator.ne,
}  # fmt: skip
Values = dict[Var, int]
Box = list[range]


class _Unknown(Exception):
    """A value depends on data, or there are too many steps."""


def outside_of_regions(func: PrimFunc) -> str | None:
    """The first access to an element that a block around it is not taken to touch, in words; None if there is none."""
    walk = _Walk()
    try:
        walk.statement(func.body, {})
    except _Unknown:
        pass
    return walk.found


def _value(node: PrimExpr, values: Values) -> Any:
    if isinstance(node, IntImm):
        return node.value
    if isinstance(node, Var) and node in values:
        return values[node]
    if isinstance(node, (And, Or)):
        first = _value(node.a, values)
        return _value(node.b, values) if bool(first) == isinstance(node, And) else first
    if isinstance(node, Not):
        return not _value(node.a, values)
    if isinstance(node, BinaryOp) and type(node) in OPERATORS:
        a, b = _value(node.a, values), _value(node.b, values)
        if isinstance(node, (FloorDiv, FloorMod)) and b == 0:
            raise _Unknown
        return OPERATORS[type(node)](a, b)
    if isinstance(node, Cast) and not node.dtype.is_float and not node.value.dtype.is_float:
        return _value(node.value, values)
    parts = choice(node)
    if parts is not None:
        condition, taken, other = parts
        return _value(taken if _value(condition, values) else other, values)
    if is_call(node, "tir.likely"):
        return _value(node.args[0], values)
    raise _Unknown


def _boxes(regions: tuple[BufferRegion, ...], values: Values) -> list[tuple[Buffer, Box | None]]:
    """The elements of regions; None for those that depend on data."""
    found: list[tuple[Buffer, Box | None]] = []
    for region in regions:
        try:
            sides = [(_value(r.min, values), _value(r.extent, values)) for r in region.region]
        except _Unknown:
            found.append((region.buffer, None))
        else:
            found.append((region.buffer, [range(first, first + count) for first, count in sides]))
    return found


class _Walk:
    """All iterations of a function, one after another."""

    def __init__(self) -> None:
        self.around: list[tuple[Block, list[tuple[Buffer, Box | None]], list[tuple[Buffer, Box | None]]]] = []
        self.steps = 0
        self.found: str | None = None

    def statement(self, node: Stmt, values: Values) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS or self.found:
            raise _Unknown
        if isinstance(node, For):
            first = _value(node.min, values)
            for number in range(first, first + _value(node.extent, values)):
                self.statement(node.body, {**values, node.loop_var: number})
        elif isinstance(node, BlockRealize):
            if _value(node.predicate, values):
                self.block(node, dict(values))
        elif isinstance(node, IfThenElse):
            self.expression(node.condition, values)
            branch = node.then_case if _value(node.condition, values) else node.else_case
            if branch is not None:
                self.statement(branch, values)
        elif isinstance(node, LetStmt):
            self.expression(node.value, values)
            self.statement(node.body, values)
        elif isinstance(node, BufferStore):
            for part in (node.value, *node.indices):
                self.expression(part, values)
            self.access(node.buffer, node.indices, values, True)
        else:
            for part in getattr(node, "seq", None) or [getattr(node, "body", None)]:
                if isinstance(part, Stmt):
                    self.statement(part, values)

    def block(self, node: BlockRealize, values: Values) -> None:
        block = node.block
        first = True
        for axis, value in zip(block.iter_vars, node.iter_values):
            values[axis.var] = _value(value, values)
            assert axis.dom is not None
            first &= axis.iter_type != axis.CommReduce or values[axis.var] == _value(axis.dom.min, values)
        reads, writes = effective_regions(block)
        self.around.append((block, _boxes(reads, values), _boxes(writes, values)))
        if block.init is not None and first:
            self.statement(block.init, values)
        self.statement(block.body, values)
        self.around.pop()

    def expression(self, node: PrimExpr, values: Values) -> None:
        """The loads in an expression, of which only those are evaluated that a condition takes."""
        parts = choice(node)
        if parts is not None and not isinstance(node, Select):
            condition, taken, other = parts
            self.expression(condition, values)
            try:
                self.expression(taken if _value(condition, values) else other, values)
            except _Unknown:
                return
        elif isinstance(node, (And, Or)):
            self.expression(node.a, values)
            try:
                if bool(_value(node.a, values)) == isinstance(node, And):
                    self.expression(node.b, values)
            except _Unknown:
                return
        elif isinstance(node, BufferLoad):
            for index in node.indices:
                self.expression(index, values)
            self.access(node.buffer, node.indices, values, False)
        elif not isinstance(node, Call):  # of which some take memory
            for part in parts or [getattr(node, name, None) for name in ("a", "b", "value")]:
                if isinstance(part, PrimExpr):
                    self.expression(part, values)

    def access(self, buffer: Buffer, indices: tuple[PrimExpr, ...], values: Values, write: bool) -> None:
        try:
            element = [_value(index, values) for index in indices]
        except _Unknown:
            return
        for block, reads, writes in self.around:
            declared = [box for other, box in (writes if write else reads + writes) if other is buffer]
            if declared and not any(b is None or all(i in side for i, side in zip(element, b)) for b in declared):
                self.found = f"{block.name_hint} {'writes' if write else 'reads'} {buffer.name}{element}, which is not among its regions"
