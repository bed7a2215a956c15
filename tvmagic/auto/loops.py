"""Loop helpers that several rules share: chunks for cores and caches, copies, elementwise nests."""

from __future__ import annotations

from typing import Any

from tvmagic.auto.program import Access, Axis
from tvmagic.ir import IntImm, IterVar, Var
from tvmagic.ir.query import variables_in
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_TOGETHER = 8  # panels that are written at a time
_PARTS = 4  # of a loop for each core, so that one that is late has fewer of them
_SQUARE = 16  # elements on a side of the part that is transposed at a time


def chunks(count: int, most: int, cores: int) -> int:
    """How many of `count` steps belong together: at most `most`, if possible a divisor, so that no chunk asks where it
    ends; else so that each core gets as many chunks as the others."""
    divisors = [d for d in range(most, most // 2, -1) if count % d == 0]
    even = next((d for d in divisors if count // d % cores == 0 or count // d > 4 * cores), None)
    if even is not None:
        return even
    parts = -(-count // most)
    parts = -(-parts // cores) * cores
    return max(1, -(-count // parts))


def extent_of(sch: Schedule, loop: Any) -> int | None:
    """The extent of a loop; None if it is symbolic."""
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else None


def hint_partition(sch: Schedule, *loops: Any) -> None:
    """Ask LoopPartition to give what is beyond the last full step of loops loops of its own; it does so by itself
    for a symbolic extent.

    Of the loops over tiles, over the vectors of one, and over lanes: what is left is whole vectors and one of fewer lanes.
    """
    for loop in loops:
        if extent_of(sch, loop) is not None:
            sch.annotate(loop, "pragma_loop_partition_hint", 1)


def any_order(sch: Schedule, block: Any, below: int) -> None:
    """Let a reduction below `below` loops take its values in any order, so that LLVM makes vectors of its last loop.

    Of integers of 8 and 16 bits it makes vectors as it is, and better ones: their order does not matter.
    """
    dtype = sch.get(block).writes[0].buffer.dtype
    if not dtype.is_float and dtype.bits in (8, 16):
        return
    own = own_loops(sch, block, below)
    reduced = [iv.var for iv in sch.get(block).iter_vars if iv.iter_type == IterVar.CommReduce and iv.var in own]
    which = {sch.get_sref(own[var]) for var in reduced}
    steps = [loop for loop in sch.get_loops(block) if sch.get_sref(loop) in which]
    if steps:
        sch.decompose_reduction(block, steps[0])
        sch.annotate(steps[-1], "pragma_any_order", 1)


def own_loops(sch: Schedule, block: Any, below: int = 0) -> dict[Var, Any]:
    """The innermost loop that each variable of a block follows, of those from depth `below` on; variables of one value
    have none."""
    sref = sch.get_sref(block)
    realize = sch.state.realize_of(sref)
    loops = sch.get_loops(block)[below:]
    depth = {sch.get(loop).loop_var: n for n, loop in enumerate(loops)}
    found: dict[Var, Any] = {}
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        places = [depth[v] for v in variables_in(value) if v in depth]
        if places:
            found[iv.var] = loops[max(places)]
    return found


def copy_block(
    sch: Schedule,
    copy: Any,
    access: Access,
    axis: Axis,
    width: int,
    machine: Machine,
    below: int = 0,
    parallel: bool = True,
) -> None:
    """The loops of a copy into panels of `width` elements of `axis`: along the axis in which the source is contiguous.

    `below` is the number of loops around it. `parallel`: whether it is made on all cores, as no loop around it is.
    """
    own = own_loops(sch, copy, below)
    places = [iv.var for iv in sch.get(copy).iter_vars]
    loops = {i: own[places[n]] for n, i in enumerate(access.indices) if places[n] in own}
    if axis.var not in loops:
        return
    size = extent_of(sch, loops[axis.var])
    outer, inner = (None, loops[axis.var]) if size == width else sch.split(loops[axis.var], [None, width])
    others = [loop for var, loop in loops.items() if var is not axis.var]
    head = [outer] if outer is not None else []
    source = access.buffer.shape[next(n for n, i in enumerate(access.indices) if i is axis.var)]
    padded = not isinstance(source, IntImm) or source.value % width != 0  # the last panel asks where its source ends
    if access.step(axis.var) == 1 or not others:
        count = extent_of(sch, outer) if outer is not None else None
        if others and count is not None and count >= 2 * _TOGETHER:  # longer stretches of each row of the source
            even = count - padded
            together = next((t for t in range(_TOGETHER, _TOGETHER // 2, -1) if even % t == 0), _TOGETHER)
            some, each = sch.split(outer, [None, together])
            sch.reorder(some, *others, each, inner)
            head = [some]
        else:
            sch.reorder(*head, *others, inner)
        lanes = machine.lanes(access.buffer.dtype)
        if width % lanes == 0:
            whole = inner if width == lanes else sch.split(inner, [None, lanes])[1]
            sch.vectorize(whole)
    else:  # a vector takes its elements from as many lines of the source, of which the next steps read the rest
        far, near = others[:-1], others[-1]
        piece = next((d for d in range(_SQUARE, 3, -1) if width % d == 0), width)
        *some, lanes = [inner] if piece == width else sch.split(inner, [None, piece])
        extent = extent_of(sch, near)
        if some and extent is not None and extent > _SQUARE:
            most, near = sch.split(near, [None, _SQUARE])
            far = [*far, most]
        sch.reorder(*head, *far, *some, near, lanes)
        sch.vectorize(lanes)
    if padded and head:
        sch.annotate(head[0], "pragma_loop_partition_hint", 1)
    if parallel:
        sch.parallel(sch.get_loops(copy)[below])


def vector_parts(sch: Schedule, loop: Any, lanes: int, calls: bool) -> None:
    """A loop in vectors of `lanes`. A rest that does not fill one is left to LLVM, or with calls, which LLVM does not
    make of vectors, to LoopPartition."""
    extent = extent_of(sch, loop)
    if calls or extent is None or extent % lanes == 0:
        in_vectors(sch, loop, lanes)


def in_vectors(sch: Schedule, loop: Any, lanes: int) -> list[Any]:
    """A loop in vectors of `lanes`, a rest that does not fill one left to LoopPartition; the loop over vectors, if there
    are several."""
    extent, far = extent_of(sch, loop), []
    if extent is None or extent > lanes:
        *far, loop = sch.split(loop, [None, lanes])
        if extent is None or extent % lanes:
            hint_partition(sch, *far, loop)
    sch.vectorize(loop)
    return far


def fused(sch: Schedule, loops: list[Any]) -> Any:
    """Nested loops as one."""
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def share(sch: Schedule, outer: list[Any], machine: Machine) -> list[Any]:
    """Loops in parallel, of nested ones as many as give each core some parts: others stay as they are, as the places of
    a fused loop are divided by sizes in each of its iterations, and what only one of them changes is no longer kept while
    the others run. The loops that there are then, outermost first."""
    parts, count = 1, 0
    while count < len(outer) and parts < _PARTS * machine.cores:
        parts *= extent_of(sch, outer[count]) or 256
        count += 1
    first = fused(sch, outer[: max(count, 1)])
    sch.parallel(first)
    return [first, *outer[max(count, 1) :]]
