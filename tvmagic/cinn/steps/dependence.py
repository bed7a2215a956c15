"""Whether the iterations of a loop may run in another order, or at the same time.

A proof about the accesses in the loops, without the blocks, decides (`tir.analysis.races`). Additions of one
block to one element may change places; every other pair of accesses to one element, one of them a write, may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvmagic import ir
from tvmagic.cinn.enumeration import reaches_all
from tvmagic.cinn.steps.coverage import is_update, loads_what_it_stored
from tvmagic.cinn.steps.tree import leaves, path_to, ranges_of
from tvmagic.ir.query import is_one, nodes_of, variables_in
from tvmagic.tir.analysis.race_accesses import Access
from tvmagic.tir.analysis.races import Race, find_carried
from tvmagic.tir.blocks.conditions import all_of
from tvmagic.tir.blocks.error import ScheduleError


class _WithoutBlocks(ir.Mutator):
    """Blocks as their bodies, with what their variables are bound to; variables of loops that run once as their value."""

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        values = {axis.var: value for axis, value in zip(node.block.iter_vars, node.iter_values)}
        return ir.substitute(node.block.body, values)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.For:
        node = self.visit_children(node)
        return node.replace(body=ir.substitute(node.body, {node.loop_var: node.min})) if is_one(node.extent) else node

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        return ir.SeqStmt.flatten(*[self.visit(s) for s in node.seq])


def _ordered(first: Access, second: Access) -> bool:
    """Whether the order of two accesses matters if they touch one element."""
    if not (first.write or second.write):
        return False
    store = first.statement
    return not (store is second.statement and is_update(store) and first.buffer is store.buffer)  # type: ignore[attr-defined]


def _loads_what_is_stored(first: Access, second: Access) -> bool:
    return _ordered(first, second) and first.write is not second.write


def _conflicts(first: Access, second: Access) -> bool:
    return first.write or second.write


def private_buffers(body: ir.Stmt, inside: ir.For, arguments: Iterable[ir.Buffer]) -> set[ir.Buffer]:
    """The buffers that each iteration of `inside` may have for itself.

    They are used under that loop alone, and no iteration loads what another one stored.
    """
    within = {leaf.block for leaf in leaves(inside)}
    outside: set[ir.Buffer] = set(arguments)
    found: set[ir.Buffer] = set()
    for leaf in leaves(body):
        used = {n.buffer for n in _accesses(leaf.block.body)}
        (found if leaf.block in within else outside).update(used)
    return {buffer for buffer in found - outside if not takes_values_on(body, inside, buffer)}


def takes_values_on(body: ir.Stmt, inside: ir.For, buffer: ir.Buffer) -> bool:
    """Whether an iteration of a loop, or of those around it, may load what another one stored in a tensor."""
    if loads_what_it_stored(inside, buffer):
        return False
    around = [n for n in path_to(body, inside) if isinstance(n, ir.For)]
    func = ir.PrimFunc([], _WithoutBlocks().visit(body))
    rest = frozenset({n.buffer for n in _accesses(func.body)} - {buffer})
    return any(find_carried(func, loop.loop_var, _loads_what_is_stored, rest) for loop in around)


def _accesses(stmt: ir.Stmt) -> list[ir.BufferLoad | ir.BufferStore]:
    return nodes_of(stmt, ir.BufferLoad, ir.BufferStore)


def carried(body: ir.Stmt, loop: ir.For, *, order_alone: bool = True, without: Iterable[ir.Buffer] = ()) -> Race | None:
    """Two accesses in different iterations of a loop whose order matters, or a doubt whether there are such.

    body: the root's body.
    order_alone: whether additions of one block to one element may change places. They may not happen at once.
    without: buffers that do not count.
    """
    func, without = ir.PrimFunc([], _WithoutBlocks().visit(body)), set(without)
    while found := find_carried(func, loop.loop_var, _ordered if order_alone else _conflicts, frozenset(without)):
        if not _one_element_each(body, found[0].buffer):
            return found[0]
        without.add(found[0].buffer)
    return None


def _one_element_each(body: ir.Stmt, buffer: ir.Buffer) -> bool:
    """Whether one block alone uses a tensor, at its plain variables, and each iteration of its loops has others of these."""
    users = [leaf for leaf in leaves(body) if any(n.buffer is buffer for n in _accesses(leaf.block.body))]
    if len(users) != 1 or any(isinstance(n, ir.IfThenElse) and n.else_case is not None for n in users[0].path):
        return False
    (leaf,) = users
    places = [n.indices for n in _accesses(leaf.block.body) if n.buffer is buffer]
    bound = [axis.var for axis, value in leaf.bindings if variables_in(value)]
    if not set(bound) <= set(places[0]) or any(any(a is not b for a, b in zip(p, places[0])) for p in places[1:]):
        return False
    return reaches_all(leaf.bindings, ranges_of(leaf.loops), all_of(leaf.conditions), once=True)


def check_free_order(body: ir.Stmt, loops: Sequence[ir.For], without: Iterable[ir.Buffer], what: str) -> None:
    """Raise unless the iterations of the loops may run in any order, sums of one block aside."""
    without = set(without)
    for loop in loops:
        race = carried(body, loop, without=without)
        if race is not None:
            raise ScheduleError(
                f"{what} would change the order of accesses to `{race.buffer.name}` that depend on each other: "
                f"loop `{loop.loop_var.name}` carries a dependence",
                loop,
                code="cinn.schedule.order_of_accesses",
            )


def check_at_once(body: ir.Stmt, loop: ir.For, arguments: Iterable[ir.Buffer], what: str) -> None:
    """Raise unless the iterations of a loop may run at the same time."""
    race = carried(body, loop, order_alone=False, without=private_buffers(body, loop, arguments))
    if race is not None:
        raise ScheduleError(
            f"a loop that is {what} runs its iterations at the same time, and those of `{loop.loop_var.name}` "
            f"touch the same element of `{race.buffer.name}`",
            loop,
            hint="loops that reduce run one after the other; rfactor makes one of them free",
            code="cinn.schedule.iterations_conflict",
        )
