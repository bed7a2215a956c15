"""Predict which loops LLVM unrolls: those with few instructions, from the innermost outwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvmagic.ir import BinaryOp, CmpOp, For, IntImm, PrimExpr
from tvmagic.ir.loop_annotations import UNROLL, annotation
from tvmagic.ir.query import nodes_of
from tvmagic.model.guards import depending
from tvmagic.model.nests import Access, Loop, Nest, Statement
from tvmagic.target.machine import Machine
from tvmagic.tir.blocks.conditions import conjuncts

UNROLLED = 300  # instructions below which LLVM unrolls a loop of constant extent
_AT_MOST = 600  # instructions that a loop may be counted as here if LLVM says that it unrolled it
CALL = 20  # operations that the code of a function counts as
_CONTROL = 4  # instructions of a loop inside another to begin, to count and to go on
_MASKED = 16  # iterations below which LLVM makes no loop for what is left, but masks the last vector


@dataclass(eq=False)
class Body:
    """The loop that stays a loop around some nests, which LLVM makes one piece of code of.

    `copied`: all loops of the program that are written out before LLVM makes vectors, those around others that stay, too;
    `unrolled`: for each nest those of it inside `rolled`, the outermost first.
    """

    rolled: Loop
    copied: set[Loop]
    nests: list[Nest] = field(default_factory=list)
    unrolled: list[tuple[Loop, ...]] = field(default_factory=list)


def parts(lanes: int, bits: int, machine: Machine) -> int:
    """Registers that so many lanes take: code has one or more for each power of two in their number."""
    pieces = [1 << n for n in range(lanes.bit_length()) if lanes >> n & 1]
    return sum(max(1, piece * bits // machine.vector_bits) for piece in pieces)


def vector_of(extent: int, most: int, loop: bool, machine: Machine) -> tuple[float, bool]:
    """Iterations that a vector takes on average, if LLVM makes vectors of up to `most`, and whether the last one is masked.

    Of a `loop` it takes the power of two that leaves the least vectors and single iterations together. What was written out
    becomes a vector for each power of two in the number of iterations.
    """
    if not loop:
        pieces = extent // most + (extent % most).bit_count()
        return max(1.0, extent / max(1, pieces)), False
    masked = extent < _MASKED and machine.masks

    def count(lanes: int) -> int:
        whole, left = divmod(extent, lanes)
        return whole + ((left > 0) if masked else left)

    lanes = min([1 << n for n in range(most.bit_length())], key=count)
    return max(1.0, extent / max(1, count(lanes))), masked and extent % lanes > 0


def bodies_of(nests: Sequence[Nest], machine: Machine, told: Mapping[For, bool]) -> list[Body]:
    """The bodies of a program, in the order in which they first appear.

    `told`: loops of which LLVM said whether it made vectors of them. It does of loops without loops inside alone, so that those
    inside were written out.
    """
    own = {nest.inner: nest for nest in nests}
    inside: dict[Loop, list[Loop]] = {}
    for loop in dict.fromkeys(loop for nest in nests for loop in nest.loops):
        inside.setdefault(loop, [])
        if loop.parent is not None:
            inside.setdefault(loop.parent, []).append(loop)
    depth = {loop: n for nest in nests for n, loop in enumerate(nest.loops)}
    sizes: dict[Loop, Size] = {}  # of an iteration, with each loop inside that stays one counted once
    copied = set[Loop]()
    for loop in sorted(inside, key=lambda x: -depth[x]):
        size = instructions(own[loop].statements, machine) if loop in own else Size()
        for child in inside[loop]:
            size += sizes[child].times(child.extent) if child in copied else sizes[child] + Size(_CONTROL)
        size += Size(_before([nest for nest in nests if loop in nest.loops[:-1]], loop, copied))
        sizes[loop] = size
        whole = (size.total + 1) * loop.extent
        small = whole < UNROLLED or whole < _AT_MOST and _said(loop, own, told)
        if loop.parent is not None and not loop.parallel and small and not stays(loop):
            copied.add(loop)
    found: dict[Loop, Body] = {}
    for nest in nests:
        number = next((n for n in range(len(nest.loops) - 1, -1, -1) if nest.loops[n] not in copied), 0)
        body = found.setdefault(nest.loops[number], Body(nest.loops[number], copied))
        body.nests.append(nest)
        body.unrolled.append(nest.loops[number + 1 :])
    return list(found.values())


def stays(loop: Loop) -> bool:
    """Whether a loop is not unrolled fully, however short it is: its extent is not known, or a pass asked for that."""
    return not isinstance(loop.node.extent, IntImm) or annotation(loop.node, UNROLL) not in (None, "full")


def _said(loop: Loop, own: Mapping[Loop, Nest], told: Mapping[For, bool]) -> bool:
    """Whether what LLVM said means that it wrote out a loop: it made vectors of the one around it. That is also so if it names
    the line of a sum of floats, of which it makes no vectors."""
    if loop.parent is not None and told.get(loop.parent.node):
        return True
    sums = [s for s in own[loop].statements if s.accumulates and s.floating] if loop in own else []
    return bool(told.get(loop.node)) and any(not s.target.address.uses(loop.var) for s in sums)


@dataclass(frozen=True)
class Size:
    """Instructions of code: `work` on values, with loads and stores; `first` for the place of each pattern of access, of which
    there are `patterns`, and `more` for those of copies, which are a sum away."""

    work: int = 0
    first: int = 0
    patterns: int = 0
    more: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.work + self.first + self.more

    def times(self, copies: int) -> Size:
        """The size of so many copies, as a loop that is written out has."""
        return replace(self, work=(self.work + 1) * copies, more=self.more * copies + self.patterns * (copies - 1))

    def __add__(self, other: Size) -> Size:
        return Size(self.work + other.work, self.first + other.first, self.patterns + other.patterns, self.more + other.more)  # fmt: skip


def _before(nests: Sequence[Nest], loop: Loop, copied: set[Loop]) -> int:
    """Instructions of an iteration of a loop for what does not change in the loops inside: loads, and parts of places."""
    found: dict[object, int] = {}
    for nest in nests:
        inner = nest.loops[nest.loops.index(loop) + 1 :]
        for access in nest.accesses:
            if access.address.uses(loop.var):
                whole = not any(access.address.uses(x.var) for x in inner)
                part = 0 if all(x in copied for x in inner) else 2
                found[access.data, access.address.signature, access.address.offset * whole] = 4 if whole else part
    return sum(found.values())


def _operations(condition: PrimExpr) -> int:
    """The operations of a condition."""
    return len(nodes_of(condition, BinaryOp, CmpOp))


def instructions(statements: Sequence[Statement], machine: Machine) -> Size:
    """Instructions of an iteration as LLVM counts them before it unrolls: of vectors as many as they take registers, two for a
    number in all lanes, and for the place of each pattern of access a sum, a conversion and, if it has a stride, a product. A condition
    is its operations, a comparison among them, and a branch. What is the same in each iteration was taken out of the loop."""
    count, seen = 0, set[object]()
    places: dict[object, int] = {}

    def moved(access: Access, number: int) -> int:
        key = (access.data, access.address.signature, access.address.offset, access.store)
        if key in seen or not access.address.uses(access.loops[-1].var):
            return 0
        seen.add(key)
        places[access.data, access.address.signature] = 2 + (access.address.stride(access.loops[-1].var) != 1)
        spread = 2 * (access.kind == "broadcast")
        return number * (access.lanes if access.kind in ("strided", "gathered") else 1) + spread

    for s in statements:
        number, o = parts(s.lanes, s.target.bits, machine), s.operations
        count += number * (2 * o.fused + max(o.simple, 0) + o.divisions + o.conversions + CALL * o.calls)
        count += sum(moved(a, number) for a in (*s.loads, s.target))
        count += sum(
            1 + _operations(part) for part in depending([p for g in s.guards for p in conjuncts(g)], s.loops[-1])
        )
    return Size(count, sum(places.values()), len(places))
