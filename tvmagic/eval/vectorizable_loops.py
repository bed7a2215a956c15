"""Which loops of a nest may be tried as lanes: those that choose where each store goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir


def lane_loops(node: ir.For, serial: set[int]) -> tuple[list[ir.For], list[ir.For], ir.Stmt]:
    """The nest of loops that begins at `node`, those of it to run as lanes, and its body.

    A loop is chosen where every store to memory that lives longer than the nest has an index that
    depends on it; then no two of its iterations store to one place, as long as indices are
    one-to-one (which the run checks).
    """
    nest = [node]
    while isinstance(nest[-1].body, ir.For) and id(nest[-1].body) not in serial:
        inner = nest[-1].body
        if any(_depends(bound, loop.loop_var) for bound in (inner.min, inner.extent) for loop in nest):
            break
        nest.append(inner)
    body = nest[-1].body
    stores = _Stores()
    stores.visit(body)
    needed = [stores.closure(indices) for data, indices in stores.found if data not in stores.private]
    chosen = [loop for loop in nest if all(loop.loop_var in used for used in needed)]
    return nest, chosen, body


def _depends(node: ir.PrimExpr, var: ir.Var) -> bool:
    return var in _variables([node])


class _Variables(ir.Visitor):
    def __init__(self) -> None:
        self.found: set[ir.Var] = set()

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        self.found.add(node)


def _variables(nodes: Sequence[Any]) -> set[ir.Var]:
    visitor = _Variables()
    for node in nodes:
        visitor.visit(node)
    return visitor.found


class _Stores(ir.Visitor):
    """The stores of a body with the variables in their indices, and how bound variables follow."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, set[ir.Var]]] = []
        self.private: set[Any] = set()
        self.bound: dict[ir.Var, set[ir.Var]] = {}

    def closure(self, names: set[ir.Var]) -> set[ir.Var]:
        """The variables that `names` depend on, through bindings of blocks and lets."""
        result: set[ir.Var] = set()
        pending = list(names)
        while pending:
            var = pending.pop()
            if var not in result:
                result.add(var)
                pending.extend(self.bound.get(var, ()))
        return result

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.found.append((node.buffer.data, _variables(node.indices)))
        self.visit_children(node)

    @ir.handles(ir.ProducerStore)
    def producer_store(self, node: ir.ProducerStore) -> None:
        self.found.append(((id(node.producer.op), node.producer.value_index), _variables(node.indices)))

    @ir.handles(ir.LetStmt, ir.Let)
    def let(self, node: Any) -> None:
        self.bound[node.var] = _variables([node.value])
        self.visit_children(node)

    @ir.handles(ir.BlockRealize)
    def block_realize(self, node: ir.BlockRealize) -> None:
        for iv, value in zip(node.block.iter_vars, node.iter_values):
            self.bound[iv.var] = _variables([value])
        for match in node.block.match_buffers:
            self.private.discard(match.buffer.data)
        self.visit(node.block)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        self.private.update(b.data for b in node.alloc_buffers)
        for part in (node.init, node.body):
            if part is not None:
                self.visit(part)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        self.private.add(node.buffer_var)
        self.visit_children(node)

    @ir.handles(ir.BufferRealize)
    def buffer_realize(self, node: ir.BufferRealize) -> None:
        self.private.add(node.buffer.data)
        self.visit(node.body)

    @ir.handles(ir.ProducerRealize)
    def producer_realize(self, node: ir.ProducerRealize) -> None:
        self.private.add((id(node.producer.op), node.producer.value_index))
        self.visit(node.body)
