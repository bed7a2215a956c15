"""When a block may be inlined: the conditions as data, each with the reason where it fails.

`COMPUTE_INLINE` must hold for a block that is written into its consumers, `REVERSE_COMPUTE_INLINE`
for one that is written into its producer. `AutoInline` adds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.cinn.accesses import BlockAccesses, scope
from tvmagic.cinn.cinn_form import SUFFIX, parts_of
from tvmagic.cinn.inliner import distinct_plain_variables
from tvmagic.cinn.steps.coverage import changing_input
from tvmagic.cinn.steps.tree import leaves, runs_for_all
from tvmagic.ir.query import nodes_of
from tvmagic.lazy import cached_property
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.state import ScheduleState


class Candidate:
    """A block that may be inlined, and what the conditions ask of it and of its root."""

    def __init__(self, state: ScheduleState, block: StmtSRef) -> None:
        self.state, self.sref, self.block = state, block, block.block
        self.name = self.block.name_hint
        self.root = state.root_of(block).block

    @cached_property
    def found(self) -> BlockAccesses:
        """What the block loads and stores."""
        return scope(self.root).blocks[self.block]

    @cached_property
    def store(self) -> ir.BufferStore:
        """The one store of the block; asked for after `one_store` held."""
        return self.found.stores[0]

    @property
    def tensor(self) -> ir.Buffer:
        """The tensor that the block stores."""
        return self.store.buffer

    @cached_property
    def bound_variables(self) -> set[ir.Var]:
        """The variables of the block, and of the loops and blocks around it; others are sizes."""
        bound = {v.var for v in self.block.iter_vars}
        for above in self.sref.ancestors():
            bound |= {above.loop.loop_var} if above.is_loop else {v.var for v in above.block.iter_vars}
        return bound

    @cached_property
    def loads_of_tensor(self) -> list[ir.BufferLoad]:
        """For the reverse direction: the loads, in the store, of what another block stores."""
        writers = scope(self.root).writers_of
        return [
            x for x in nodes_of(self.store, ir.BufferLoad) if any(f.block is not self.block for f in writers(x.buffer))
        ]

    @cached_property
    def producer(self) -> BlockAccesses | None:
        """For the reverse direction: the one other block that stores what this one loads."""
        found = scope(self.root).writers_of(self.loads_of_tensor[0].buffer)
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Condition:
    """A requirement: its name, what must hold as a sentence, and a function that says why it fails."""

    name: str
    text: str
    failure: Callable[[Candidate], str | None]


def first_failure(conditions: Sequence[Condition], candidate: Candidate) -> tuple[Condition, str] | None:
    """The first condition that does not hold, with the reason; None if all hold."""
    for condition in conditions:
        reason = condition.failure(candidate)
        if reason is not None:
            return condition, reason
    return None


def _body(block: ir.Block) -> ir.Stmt:
    """A block's body; a list of one is its statement."""
    parts = parts_of(block.body)
    return parts[0] if len(parts) == 1 else block.body


def _leaf(c: Candidate) -> str | None:
    if c.block is c.root:
        return f"`{c.name}` is the root block"
    return f"`{c.name}` holds other blocks" if c.found.inner else None


def _one_store(c: Candidate) -> str | None:
    if len(c.found.stores) == 1 and isinstance(_body(c.block), ir.BufferStore):
        return None
    return f"the body of `{c.name}` has {len(c.found.stores)} stores or other statements, not one store alone"


def _not_reduction(c: Candidate) -> str | None:
    reduced = [v.var.name for v in c.block.iter_vars if v.iter_type == ir.IterVar.CommReduce]
    if c.block.init is not None or any(other.name_hint == c.name + SUFFIX for other in scope(c.root).blocks):
        return f"`{c.name}` has an init: its tensor is a reduction"
    return f"`{c.name}` reduces over `{'`, `'.join(reduced)}`" if reduced else None


def _no_self_load(c: Candidate) -> str | None:
    return f"`{c.name}` loads `{c.tensor.name}`, which it stores" if c.tensor in c.found.loads else None


def _only_writer(c: Candidate) -> str | None:
    others = [f.block.name_hint for f in scope(c.root).writers_of(c.tensor) if f.block is not c.block]
    return f"`{c.tensor.name}` is stored by `{'`, `'.join(others)}` too" if others else None


def _not_seen_outside(c: Candidate) -> str | None:
    for sref in [c.sref, *c.sref.ancestors()]:
        if sref.is_block and any(b is c.tensor for b in sref.block.alloc_buffers):
            return None
    return f"`{c.tensor.name}` is an output of the function"


def _plain_indices(c: Candidate) -> str | None:
    if distinct_plain_variables(c.store.indices) is not None:
        return None
    return f"`{c.name}` stores `{c.tensor.name}` at indices that are not distinct plain variables"


def _no_other_variable(c: Candidate) -> str | None:
    indices = set(c.store.indices)
    other = sorted([v.name for v in c.found.variables if v in c.bound_variables and v not in indices])
    return f"the store of `{c.name}` uses `{other[0]}`, which is not one of its indices" if other else None


def _inputs_stay(c: Candidate) -> str | None:
    around = scope(c.root)
    for found in around.leaves[around.place[c.block] + 1 :]:
        for store in found.stores:
            if store.buffer in c.found.loads:
                return f"`{found.block.name_hint}` stores `{store.buffer.name}` after `{c.name}` loaded it"
    return _changed(c, [found.block for found in around.readers_of(c.tensor)])


def _changed(c: Candidate, others: Sequence[ir.Block]) -> str | None:
    """Why the block would load other values in the loops of one of some other blocks."""
    around = scope(c.root)
    writers = [place for buffer in c.found.loads for place in around.writers.get(buffer, ())]
    if not any(around.part[around.leaves[place].block] == around.part[c.block] for place in writers):
        return None  # in no loop with the block
    every = {leaf.block: leaf for leaf in leaves(c.root.body)}
    for other in others:
        found = changing_input(every[c.block], every.values(), every[other].loops)
        if found is not None:
            return f"`{c.name}` loads what one iteration of loop `{found[1].loop_var.name}` leaves in `{found[0].name}`"
    return None


def _runs_for_all(c: Candidate) -> str | None:
    if not c.found.branch:
        return None
    leaf = next((leaf for leaf in leaves(c.root.body) if leaf.block is c.block), None)
    if leaf is None or runs_for_all(leaf):
        return None
    return f"`{c.name}` is under a condition, and it is not known that it runs for all values of its variables"


def _not_only_leaf(c: Candidate) -> str | None:
    if len(scope(c.root).leaves) > 1:
        return None
    return f"`{c.name}` is the only leaf of `{c.root.name_hint}`"


LEAF = Condition("leaf", "it is a leaf block", _leaf)
ONE_STORE = Condition("one_store", "its body is exactly one store", _one_store)
NOT_REDUCTION = Condition("not_reduction", "its tensor is not a reduction", _not_reduction)
NOT_ONLY_LEAF = Condition("not_only_leaf", "something else is left when it is removed", _not_only_leaf)
RUNS_FOR_ALL = Condition("runs_for_all", "it runs for all values of its variables", _runs_for_all)
NO_OTHER_VARIABLE = Condition("no_other_variable", "no other variable occurs in the store", _no_other_variable)

COMPUTE_INLINE: tuple[Condition, ...] = (
    LEAF,
    ONE_STORE,
    NOT_REDUCTION,
    Condition("no_self_load", "it does not load the tensor that it stores", _no_self_load),
    Condition("not_seen_outside", "its tensor lives inside the function", _not_seen_outside),
    Condition("only_writer", "it is the only writer of its tensor under the root", _only_writer),
    Condition("plain_indices", "the indices of its store are distinct plain variables", _plain_indices),
    NO_OTHER_VARIABLE,
    Condition("inputs_stay", "nothing that it loads is stored again after it", _inputs_stay),
    RUNS_FOR_ALL,
    NOT_ONLY_LEAF,
)


# ---------------------------------------------------------------------------- into the producer


def _one_load(c: Candidate) -> str | None:
    loads = c.loads_of_tensor
    if len(loads) == 1:
        return None
    return f"`{c.name}` has {len(loads)} loads of what other blocks store, not one"


def _only_reader(c: Candidate) -> str | None:
    tensor = c.loads_of_tensor[0].buffer
    others = [f.block.name_hint for f in scope(c.root).readers_of(tensor) if f.block is not c.block]
    return f"`{tensor.name}` is loaded by `{'`, `'.join(others)}` too" if others else None


def _one_producer(c: Candidate) -> str | None:
    tensor, producer = c.loads_of_tensor[0].buffer, c.producer
    if producer is None or not isinstance(_body(producer.block), ir.BufferStore):
        return f"`{tensor.name}` is not stored by exactly one block with exactly one store"
    reduces = producer.block.init is not None  # one that loads its tensor would be a reader too
    return f"the producer `{producer.block.name_hint}` is a reduction" if reduces else None


def _tensor_inside(c: Candidate) -> str | None:
    tensor = c.loads_of_tensor[0].buffer
    scopes = [c.sref, *c.sref.ancestors()]
    if any(s.is_block and any(b is tensor for b in s.block.alloc_buffers) for s in scopes):
        return None
    return f"`{tensor.name}` is an argument of the function"


def _plain_load(c: Candidate) -> str | None:
    load = c.loads_of_tensor[0]
    if distinct_plain_variables(load.indices) is not None:
        return None
    return f"`{c.name}` loads `{load.buffer.name}` at indices that are not distinct plain variables"


def _no_other_in_consumer(c: Candidate) -> str | None:
    indices = set(c.loads_of_tensor[0].indices)
    other = sorted([v.name for v in c.found.variables if v in c.bound_variables and v not in indices])
    return f"the store of `{c.name}` uses `{other[0]}`, at which it does not load its producer" if other else None


def _same_domain(c: Candidate) -> str | None:
    """The consumer computes an element for each one that the producer stores, and no other."""
    producer = c.producer
    assert producer is not None
    load, analyzer = c.loads_of_tensor[0], Analyzer()
    of_consumer = {v.var: v.dom for v in c.block.iter_vars}
    of_producer = {v.var: v.dom for v in producer.block.iter_vars}
    for index, stored in zip(load.indices, producer.stores[0].indices):
        reads, writes = eval_set(index, of_consumer), eval_set(stored, of_producer)
        if not (analyzer.can_prove_equal(reads.min(), writes.min())
                and analyzer.can_prove_equal(reads.max(), writes.max())):  # fmt: skip
            return f"`{c.name}` does not load all that `{producer.block.name_hint}` stores of `{load.buffer.name}`"
    return None


def _no_predicate(c: Candidate) -> str | None:
    predicate = c.state.realize_of(c.sref).predicate
    return None if getattr(predicate, "value", None) == 1 else f"`{c.name}` has a predicate"


def _nothing_between(c: Candidate) -> str | None:
    """What moves up to the producer must not pass a block on which it depends."""
    producer, around = c.producer, scope(c.root)
    assert producer is not None
    first, last = around.place[producer.block], around.place[c.block]
    if first > last:
        return f"`{c.name}` comes before its producer"
    for found in around.leaves[first + 1 : last]:
        stored = {s.buffer for s in found.stores}
        if c.tensor in stored or c.tensor in found.loads or not stored.isdisjoint(c.found.loads):
            return f"`{found.block.name_hint}` is between `{c.name}` and its producer and depends on it"
    return None


REVERSE_COMPUTE_INLINE: tuple[Condition, ...] = (
    LEAF,
    ONE_STORE,
    NOT_REDUCTION,
    Condition("no_self_load", "it does not load the tensor that it stores", _no_self_load),
    Condition("one_load", "it has one load of what another block stores", _one_load),
    Condition("tensor_inside", "that tensor lives inside the function", _tensor_inside),
    Condition("only_reader", "it is the only reader of that tensor under the root", _only_reader),
    Condition("one_producer", "one block with one store, no reduction, is the producer", _one_producer),
    Condition("plain_load", "the indices of its load are distinct plain variables", _plain_load),
    Condition("no_other_variable", "no other variable occurs in its store", _no_other_in_consumer),
    Condition("no_predicate", "it has no predicate", _no_predicate),
    Condition("same_domain", "it loads all that its producer stores", _same_domain),
    Condition("nothing_between", "no block between the two depends on it", _nothing_between),
    RUNS_FOR_ALL,
    NOT_ONLY_LEAF,
)
