"""Indices as sums of variables times constants; `v // c` and `v % c` of a loop's variable count as variables of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.ir.query import variables_in

LANE = ir.Var("lane", "int32")

# A variable of an address: a loop's, or its quotient or remainder by a constant.
Key = tuple[ir.Var, str, int]


@dataclass(frozen=True)
class Address:
    """An index into flat memory: `offset` plus the sum of keys times strides, in elements.

    `known` is False if part of it is not of this form; `loose` are the variables in that part. `divisions` are the
    divisions and remainders in it that are not by a power of two, with the variables below each.
    """

    strides: Mapping[Key, int]
    offset: int
    known: bool = True
    loose: frozenset[ir.Var] = frozenset()
    divisions: tuple[frozenset[ir.Var], ...] = ()

    @property
    def lane(self) -> int | None:
        """By how many elements it moves from lane to lane; None if that is not constant."""
        return None if LANE in self.loose else self.strides.get((LANE, "", 1), 0)

    def stride(self, var: ir.Var) -> int | None:
        """By how many elements it moves along a loop's variable; None if that is not constant."""
        if var in self.loose or any(k[0] is var and k[1] for k in self.strides):
            return None
        return self.strides.get((var, "", 1), 0)

    def uses(self, var: ir.Var) -> bool:
        """Whether it changes with a variable."""
        return var in self.loose or any(k[0] is var for k in self.strides)

    @property
    def signature(self) -> tuple[Any, ...]:
        """What two addresses that differ by a constant have in common."""
        return tuple(sorted(((k[0].name, id(k[0]), k[1], k[2], s) for k, s in self.strides.items()), key=str))


class Linear(ir.Visitor):
    """An integer expression as an `Address`."""

    def __init__(self, values: Mapping[ir.Var, Any], extents: Mapping[ir.Var, int]) -> None:
        self.values, self.extents = values, extents

    @ir.handles(ir.PrimExpr)
    def other(self, node: ir.PrimExpr) -> Address:
        return self.loosely(node)

    def loosely(self, node: ir.PrimExpr, divisions: tuple[frozenset[ir.Var], ...] = ()) -> Address:
        """An expression of which only the variables are known."""
        names = frozenset(v for var in variables_in(node) for v in self.variables(var))
        lane = {LANE} if node.dtype.lanes > 1 else set()
        return Address({}, 0, False, names | lane, divisions)

    def variables(self, var: ir.Var) -> frozenset[ir.Var]:
        """The loops' variables that a variable depends on."""
        value = self.values.get(var)
        if isinstance(value, Address):
            return value.loose | {k[0] for k in value.strides}
        return frozenset([var]) if var in self.extents else frozenset()

    @ir.handles(ir.IntImm)
    def number(self, node: ir.IntImm) -> Address:
        return Address({}, node.value)

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> Address:
        value = self.values.get(node)
        if isinstance(value, Address):
            return value
        if isinstance(value, int):
            return Address({}, value)
        return Address({(node, "", 1): 1}, 0) if node in self.extents else Address({}, 0)

    @ir.handles(ir.Cast, ir.Broadcast)
    def inside(self, node: Any) -> Address:
        return self.visit(node.value)

    @ir.handles(ir.Ramp)
    def ramp(self, node: ir.Ramp) -> Address:
        step = self.visit(node.stride)
        if step.strides or not step.known:
            return self.loosely(node)
        loose = (
            frozenset() if isinstance(node.stride, ir.IntImm) else frozenset([LANE])
        )  # code has to take each lane alone
        return self.sum(self.visit(node.base), Address({(LANE, "", 1): step.offset}, 0, loose=loose), 1)

    @ir.handles(ir.Add)
    def add(self, node: ir.Add) -> Address:
        return self.sum(self.visit(node.a), self.visit(node.b), 1)

    @ir.handles(ir.Sub)
    def subtract(self, node: ir.Sub) -> Address:
        return self.sum(self.visit(node.a), self.visit(node.b), -1)

    @ir.handles(ir.Mul)
    def multiply(self, node: ir.Mul) -> Address:
        a, b = self.visit(node.a), self.visit(node.b)
        if a.known and not a.strides:
            a, b = b, a
        if not b.known or b.strides:
            return self.loosely(node, (*a.divisions, *b.divisions))
        strides = {k: s * b.offset for k, s in a.strides.items() if s * b.offset}
        return Address(strides, a.offset * b.offset, a.known, a.loose, a.divisions)

    def sum(self, a: Address, b: Address, sign: int) -> Address:
        """`a + sign * b`."""
        strides = dict(a.strides)
        for key, stride in b.strides.items():
            strides[key] = strides.get(key, 0) + sign * stride
        strides = {k: s for k, s in strides.items() if s}
        return Address(strides, a.offset + sign * b.offset, a.known and b.known, a.loose | b.loose, a.divisions + b.divisions)  # fmt: skip

    @ir.handles(ir.Max, ir.Min)
    def clamped(self, node: ir.Max | ir.Min) -> Address:
        """An index that is kept inside an array: all iterations but some at the edge have the index itself."""
        a, b = self.visit(node.a), self.visit(node.b)
        index, edge = (a, b) if a.strides else (b, a)
        return (
            index
            if index.known and edge.known and not edge.strides
            else self.loosely(node, (*a.divisions, *b.divisions))
        )

    @ir.handles(ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod)
    def quotient(self, node: Any) -> Address:
        a, b = self.visit(node.a), self.visit(node.b)
        by = b.offset if b.known and not b.strides else 0
        names = a.loose | {k[0] for k in a.strides}
        slow = () if by > 0 and not by & (by - 1) else (frozenset(names),)
        divisions = (*a.divisions, *slow)
        word = "mod" if isinstance(node, (ir.FloorMod, ir.Mod)) else "div"
        if by > 0 and a.known and not a.offset and len(a.strides) == 1:
            (((var, kind, _), stride),) = a.strides.items()
            if not kind and stride == 1 and var is not LANE:
                return Address({(var, word, by): 1}, 0, divisions=divisions)
        return Address({}, 0, False, frozenset(names), divisions)
