"""Steps on memory: copies of tensors, the memory of a tensor, barriers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.cinn.cinn_form import ListMutator, accesses_in_order, in_order, init_block_of, listed, parts_of
from tvmagic.cinn.steps.compute_at import Span, conditions_on, spanned
from tvmagic.cinn.steps.coverage import follows, inner_ranges, loads_of, relaxed, stored_box, stored_part
from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.loops import arguments_of, root_body
from tvmagic.cinn.steps.tree import (
    Edit,
    Leaf,
    always_stores,
    before_and_after,
    block_ref,
    check_runs_for_all,
    commit,
    leaf_of,
    leaves,
    names_of,
    nested,
    path_to,
    ranges_of,
    twin_of,
)
from tvmagic.ir.query import is_zero, nodes_of, variables_in
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockOrLoop, BlockRef
from tvmagic.tir.schedule.state import ScheduleState

_MEMORIES = ("local", "shared", "global")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _check_memory(memory_type: str, block: StmtSRef) -> None:
    if memory_type not in _MEMORIES:
        raise ScheduleError(
            f"`{memory_type}` is not a kind of memory: {', '.join(_MEMORIES)}",
            block,
            code="cinn.schedule.unknown_memory",
        )


def _cache_of(buffer: ir.Buffer, memory_type: str, state: ScheduleState, block: StmtSRef) -> ir.Buffer:
    """The cache of a tensor: of its shape, in a memory; its name must be free for a tensor and for a block."""
    name = f"{buffer.name}_{memory_type}_temp_buffer"
    root = state.root_of(block).block
    if any(b.name == name for b in root.alloc_buffers):
        raise ScheduleError(f"there is a tensor `{name}` already", block, code="cinn.schedule.repeated_tensor")
    if any(leaf.name == name for leaf in leaves(root.body)):
        raise ScheduleError(f"there is a block `{name}` already", block, code="cinn.schedule.repeated_block")
    return ir.decl_buffer(buffer.shape, buffer.dtype, name, scope=memory_type)


class _Renamed(ListMutator):
    """Accesses of one buffer as those of another."""

    def __init__(self, old: ir.Buffer, new: ir.Buffer, loads: bool = True, stores: bool = True) -> None:
        self.old, self.new, self.loads, self.stores = old, new, loads, stores

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        node = self.visit_children(node)
        return node.replace(buffer=self.new) if self.loads and node.buffer is self.old else node

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        node = self.visit_children(node)
        return node.replace(buffer=self.new) if self.stores and node.buffer is self.old else node


def _with_buffer(leaf: Leaf, old: ir.Buffer, new: ir.Buffer, **what: bool) -> ir.BlockRealize:
    block = leaf.block
    return leaf.realize.replace(block=block.replace(body=_Renamed(old, new, **what).visit(block.body)))


# ---------------------------------------------------------------------------- where a copy goes


def _shared(leaves_: Sequence[Leaf]) -> tuple[ir.Stmt, ...]:
    """The statements that are around all of some blocks, from the root inwards."""
    shared = leaves_[0].path
    for leaf in leaves_[1:]:
        same = itertools.takewhile(lambda pair: pair[0] is pair[1], zip(shared, leaf.path))
        shared = tuple([node for node, _ in same])
    return shared


def _loops(path: Sequence[ir.Stmt]) -> list[ir.For]:
    return [n for n in path if isinstance(n, ir.For)]


class _Copy:
    """The nest that copies a part of a tensor to another: `v0, v1 = axis.bind(cache_ax0, cache_ax1)`."""

    def __init__(
        self, state: ScheduleState, source: ir.Buffer, target: ir.Buffer, spans: Sequence[Span], name: str
    ) -> None:
        names = names_of(state)
        loops: list[ir.For] = []
        values: list[ir.PrimExpr] = []
        axes: list[ir.IterVar] = []
        for place, (span, size) in enumerate(zip(spans, source.shape)):
            var = ir.Var(names.take(f"cache_ax{place}"), size.dtype)
            loops.append(ir.For(var, 0, span.extent, ir.ForKind.SERIAL, listed()))
            values.append(var if is_zero(span.low) else in_order(ir.Add(span.low, var)))
            own = ir.Var(f"v{place}", size.dtype)
            whole = variables_in(span.low) or span.above is not None
            domain = ir.Range.from_min_extent(0, size) if whole else ir.Range.from_min_extent(span.low, span.extent)
            axes.append(ir.IterVar(domain, own, ir.IterVar.DataPar))
        indices = [axis.var for axis in axes]
        store = ir.BufferStore(target, ir.BufferLoad(source, indices), indices)
        result: ir.Stmt = ir.BlockRealize(values, True, ir.Block(axes, [], [], name, listed(store)))
        conditions = [value < span.above for value, span in zip(values, spans) if span.above is not None]
        self.nest = nested(loops, conditions, result)


def _check_complete(writers: Sequence[Leaf], loops: Sequence[ir.For], leaf: Leaf) -> None:
    """What is copied in an iteration of some loops must be complete then: no loop of them reduces."""
    for writer in writers:
        bad = next((n for n in loops if n.loop_var in writer.reducing), None)
        if bad is not None:
            raise ScheduleError(
                f"`{writer.name}` adds up over loop `{bad.loop_var.name}`, in which `{leaf.name}` is too, so there is "
                f"nothing complete to be copied",
                leaf.block,
                code="cinn.cache_write.reduction_incomplete",
            )


# ---------------------------------------------------------------------------- cache_read


@step("CacheRead")
def cache_read(state: ScheduleState, block: BlockRef, read_buffer_index: int, memory_type: str) -> BlockRef:
    """Read a tensor through a copy of the part that the block reads; the block that copies.

    `read_buffer_index` counts the loads in the block's body from 0, that of what a reduction adds to included. The copy
    is made right after the tensor's producer, or first in the root. A dimension of which the part is not a number is
    copied whole. Loads that stay within the part become loads of the copy, in all blocks.

    Requires: the block does not store the tensor; the producer comes before the block, nothing stores it after that.
    """
    _check_memory(memory_type, block)
    body = root_body(state, block)
    leaf = leaf_of(body, block.block)
    loads = accesses_in_order(leaf.block)[0]
    if not 0 <= read_buffer_index < len(loads):
        raise ScheduleError(
            f"block `{leaf.name}` has {_counted(len(loads), 'load')}; there is none at {read_buffer_index}",
            block,
            code="cinn.cache_read.buffer_index_out_of_range",
        )
    source = loads[read_buffer_index].buffer
    if any(s.buffer is source for s in leaf.stores):
        raise ScheduleError(
            f"block `{leaf.name}` stores `{source.name}` itself, so a copy would be out of date",
            block,
            code="cinn.cache_read.stored_by_block",
        )
    every = leaves(body)
    writers = [found for found in every if any(s.buffer is source for s in found.stores)]
    late = [found for found in before_and_after(every, leaf.block)[1] if found in writers]
    if late:
        raise ScheduleError(
            f"`{late[0].name}` stores `{source.name}` after `{leaf.name}` loads it",
            block,
            code="cinn.cache_read.stored_after_load",
        )
    cache = _cache_of(source, memory_type, state, block)
    path = _shared([writers[-1], leaf]) if writers else ()
    loops = _loops(path)
    _check_complete(writers, loops, leaf)
    spans = _region_read(leaf, source, loops)
    copy = _Copy(state, source, cache, spans, cache.name).nest
    before = _holder(writers[-1], len(loops)) if writers else None
    early = before_and_after(every, writers[-1].block)[0] if writers else ()
    readers = [
        found
        for found in every
        if loads_of(found, source)
        and not any(node is before for node in (*found.path, found.realize))
        and found not in early
        and _within(found, source, spans, path)
    ]
    if leaf.block not in {found.block for found in readers}:
        raise ScheduleError(
            f"what block `{leaf.name}` loads of `{source.name}` is not a range of a known size",
            block,
            code="cinn.cache_read.range_not_known",
        )
    changes: dict[ir.Stmt, ir.Stmt | None] = {
        found.realize: _with_buffer(found, source, cache, stores=False) for found in readers
    }
    new = _inserted(Edit(changes)(body), copy, [found.name for found in writers], len(loops))
    commit(state, block, new, added=[cache], lists=True)
    return block_ref(state, state.root_of(block), cache.name)


def _region_read(leaf: Leaf, source: ir.Buffer, shared: Sequence[ir.For]) -> list[Span]:
    """The part of a tensor that a block reads in its loops inside the shared ones."""
    inner = [n for n in leaf.loops if n not in shared]
    analyzer = Analyzer(ranges_of(leaf.loops))
    spans: list[Span] = []
    for place, size in enumerate(source.shape):
        ends = [relaxed(load.indices[place], leaf, inner, analyzer) for load in loads_of(leaf, source)]
        spans.append(spanned(ends, ir.Range.from_min_extent(0, size), analyzer))
    return spans


def _within(
    found: Leaf,
    source: ir.Buffer,
    spans: Sequence[Span],
    path: tuple[ir.Stmt, ...],
) -> bool:
    """Whether all that a block loads of a tensor is in the part that is copied in the statements of `path`."""
    if found.path[: len(path)] != path:
        return False
    loops = _loops(path)
    analyzer = Analyzer(ranges_of([*found.loops]))
    inner = [n for n in found.loops if n not in loops]
    for load in loads_of(found, source):
        for index, span, size in zip(load.indices, spans, source.shape):
            if is_zero(span.low) and ir.structural_equal(span.extent, size):
                continue
            ends = relaxed(index, found, inner, analyzer)
            if ends is None or not analyzer.can_prove(span.low <= ends[0]):
                return False
            if not analyzer.can_prove(ends[1] < span.low + span.extent):
                return False
    return not any(s.buffer is source for s in found.stores)


def _holder(writer: Leaf, depth: int) -> ir.Stmt:
    """The statement, in as many loops as `depth`, that holds a block: a copy comes right after it."""
    place = 0
    for number in range(len(writer.path)):
        if len(_loops(writer.path[: number + 1])) > depth:
            break
        place = number + 1
    return (*writer.path, writer.realize)[place]


def _inserted(body: ir.Stmt, copy: ir.Stmt, writers: Sequence[str], depth: int) -> ir.Stmt:
    """The body with a copy right after the last of its producers, in as many loops; or first, if there is none."""
    if not writers:
        return listed(copy, *parts_of(body))
    holder = _holder([leaf for leaf in leaves(body) if leaf.name in writers][-1], depth)
    return Edit({holder: listed(holder, copy)})(body)


# ---------------------------------------------------------------------------- cache_write


@step("CacheWrite")
def cache_write(state: ScheduleState, block: BlockRef, write_buffer_index: int, memory_type: str) -> BlockRef:
    """Write a tensor through a cache; the block that computes.

    Afterwards block `B` is the copy from the cache to `B`, right after; the block that computes is called
    `B_local_temp_buffer` and stays in its loops. `B__reduce_init` names the cache's tensor.

    Requires: no block other than the first values of a reduction stores the tensor; the block always stores it; what is
    stored is as many elements in each iteration of the loops around the copy, without gaps; of an argument of the function
    the block stores all elements that are copied.
    """
    _check_memory(memory_type, block)
    body = root_body(state, block)
    leaf = leaf_of(body, block.block)
    if init_block_of(leaf.block):
        raise ScheduleError(
            f"`{leaf.name}` stores first values; cache what its reduction writes",
            block,
            code="cinn.cache_write.stores_init",
        )
    stored = list(dict.fromkeys([s.buffer for s in leaf.stores]))
    if not 0 <= write_buffer_index < len(stored):
        raise ScheduleError(
            f"block `{leaf.name}` stores {_counted(len(stored), 'tensor')}; there is none at {write_buffer_index}",
            block,
            code="cinn.cache_write.buffer_index_out_of_range",
        )
    target, twin = stored[write_buffer_index], twin_of(body, leaf)
    own = [leaf] if twin is None else [twin, leaf]
    every = leaves(body)
    others = [f for f in every if f.block not in {x.block for x in own} and any(s.buffer is target for s in f.stores)]
    if others:
        raise ScheduleError(
            f"`{target.name}` is stored by `{others[0].name}` too",
            block,
            others[0].block,
            code="cinn.cache_write.several_writers",
        )
    readers = [f for f in every if f.block not in {x.block for x in own} and loads_of(f, target)]
    early = [f for f in before_and_after(every, leaf.block)[0] if f in readers]
    if early:
        raise ScheduleError(
            f"`{early[0].name}` loads `{target.name}` before it is stored",
            block,
            code="cinn.cache_write.read_before_store",
        )
    if not always_stores(leaf, target):
        raise ScheduleError(
            f"`{leaf.name}` does not store to `{target.name}` in all cases; the copy would",
            block,
            code="cinn.cache_write.conditional_store",
        )
    cache = _cache_of(target, memory_type, state, block)
    loops = _loops(_shared([leaf, readers[0]])) if readers else []  # the first reader shares the most with it
    _check_complete(own, loops, leaf)
    check_runs_for_all(leaf)
    spans = _stored_part(leaf, target, loops, target in arguments_of(state, block))
    copy = _Copy(state, cache, target, spans, leaf.name).nest
    renamed = _with_buffer(leaf, target, cache)
    renamed = renamed.replace(block=renamed.block.replace(name_hint=cache.name))
    changes: dict[ir.Stmt, ir.Stmt | None] = {leaf.realize: renamed}
    if twin is not None:
        changes[twin.realize] = _with_buffer(twin, target, cache)
    new = _inserted(Edit(changes)(body), copy, [cache.name], len(loops))
    commit(state, block, new, renamed={leaf.name: cache.name}, added=[cache], lists=True)
    return block_ref(state, state.root_of(block), cache.name)


def _stored_part(leaf: Leaf, target: ir.Buffer, shared: Sequence[ir.For], visible: bool) -> list[Span]:
    """The part of a tensor that a block stores in its loops inside the shared ones: no more, so that all is computed.

    Without shared loops only what callers see must not be more: elements that nobody stores have no value otherwise.
    """
    inner = [n for n in leaf.loops if n not in shared]
    analyzer = Analyzer(ranges_of(leaf.loops))
    stores = [store for store in leaf.stores if store.buffer is target]
    domains = {axis.var: axis.dom for axis in leaf.block.iter_vars if axis.dom is not None}
    spans: list[Span] = []
    for place, size in enumerate(target.shape):
        indices = [store.indices[place] for store in stores]
        domain = domains.get(indices[0]) if all(index is indices[0] for index in indices) else None  # type: ignore[call-overload]
        ends = [relaxed(index, leaf, inner, analyzer) for index in indices]
        span = spanned(ends, domain or ir.Range.from_min_extent(0, size), analyzer)
        if span.below is not None or (shared and not isinstance(span.extent, ir.IntImm)):
            raise ScheduleError(
                f"what block `{leaf.name}` stores in an iteration is not a range of a known size",
                leaf.block,
                code="cinn.cache_write.range_not_known",
            )
        spans.append(span)
    if (shared or visible) and not any(_stores_all(leaf, store, spans, shared, analyzer) for store in stores):
        raise ScheduleError(
            f"block `{leaf.name}` is not known to store all elements of `{target.name}` that would be copied",
            leaf.block,
            code="cinn.cache_write.region_not_fully_written",
        )
    return spans


def _stores_all(
    leaf: Leaf, store: ir.BufferStore, spans: Sequence[Span], shared: Sequence[ir.For], analyzer: Analyzer
) -> bool:
    """Whether a store is known to reach all elements that are copied in an iteration of the shared loops."""
    if leaf.conditions and not shared:  # then the block runs for all values of its variables
        domains = {axis.var: axis.dom for axis in leaf.block.iter_vars if axis.dom is not None}
        part = stored_box(store.indices, {**domains, **ranges_of(nodes_of(leaf.block.body, ir.For))}, True, analyzer)
    else:
        values = [ir.substitute(index, leaf.values) for index in store.indices]
        copied = [c for value, span in zip(values, spans) for c in conditions_on(value, span)]
        every = {**ranges_of(leaf.loops), **inner_ranges(leaf)}
        others = [c for c in leaf.conditions if not follows(c, copied, every)]
        part = stored_part(leaf, store, [n for n in leaf.loops if n not in shared], others, analyzer)
    return part is not None and all(
        analyzer.can_prove(first <= span.low) and analyzer.can_prove(span.low + span.extent - 1 <= last)
        for span, (first, last) in zip(spans, part)
    )


# ---------------------------------------------------------------------------- set_buffer


class _InMemory(ListMutator):
    """A buffer in other memory; of one element if all indices become 0."""

    def __init__(self, old: ir.Buffer, new: ir.Buffer, fixed: bool) -> None:
        self.old, self.new, self.fixed = old, new, fixed

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> ir.BufferLoad | ir.BufferStore:
        node = self.visit_children(node)
        if node.buffer is not self.old:
            return node
        indices = (ir.IntImm("int32", 0),) if self.fixed else node.indices
        return node.replace(buffer=self.new, indices=indices)


@step("SetBuffer")
def set_buffer(state: ScheduleState, block: BlockRef, memory_type: str, fixed: bool) -> None:
    """Put what a block stores into `local`, `shared` or `global` memory; its buffer is then `_B_temp_buffer`.

    With `local` and `fixed` the tensor has one element, at which all accesses are. Requires: the tensor lives inside the
    function; for one element, all accesses in an iteration of the loops around them all are to the same one.
    """
    _check_memory(memory_type, block)
    body = root_body(state, block)
    leaf = leaf_of(body, block.block)
    buffers = {s.buffer for s in leaf.stores}
    if len(buffers) != 1:
        raise ScheduleError(
            f"block `{leaf.name}` stores {len(buffers)} tensors, not one", block, code="cinn.set_buffer.several_tensors"
        )
    (old,) = buffers
    if old in arguments_of(state, block):
        raise ScheduleError(
            f"`{old.name}` is an argument of the function, whose memory is the caller's",
            block,
            code="cinn.set_buffer.argument",
        )
    one = fixed and memory_type == "local"
    if one:
        _check_one_element(body, old, block)
    data = ir.data_pointer(f"_{old.name}_temp_buffer", old.dtype, memory_type)
    new = ir.decl_buffer([1] if one else old.shape, old.dtype, old.name, data, scope=memory_type)
    commit(state, block, _InMemory(old, new, one).visit(body), added=[new])


def _check_one_element(body: ir.Stmt, buffer: ir.Buffer, block: StmtSRef) -> None:
    """All accesses of a tensor in one iteration of the loops that they share must be to one element."""
    users = [f for f in leaves(body) if loads_of(f, buffer) or any(s.buffer is buffer for s in f.stores)]
    shared = {n.loop_var for n in _loops(_shared(users))}
    places: list[tuple[ir.PrimExpr, ...]] = []
    for found in users:
        inner = {n.loop_var for n in found.loops} - shared
        for access in [*loads_of(found, buffer), *(s for s in found.stores if s.buffer is buffer)]:
            indices = tuple([ir.substitute(i, found.values) for i in access.indices])
            if any(inner.intersection(variables_in(i)) for i in indices):
                raise ScheduleError(
                    f"`{found.name}` uses more than one element of `{buffer.name}` at a time",
                    block,
                    code="cinn.set_buffer.several_elements",
                )
            places.append(indices)
    analyzer = Analyzer()
    if any(not analyzer.can_prove_equal(a, b) for other in places[1:] for a, b in zip(places[0], other)):
        raise ScheduleError(
            f"not all accesses of `{buffer.name}` are to the same element",
            block,
            code="cinn.set_buffer.different_elements",
        )


# ---------------------------------------------------------------------------- barriers


@step("SyncThreads")
def sync_threads(state: ScheduleState, node: BlockOrLoop, after_node: bool) -> None:
    """Put `__syncthreads()` after a block or loop, or before it: the threads of a block wait for each other there.

    Requires: the block is not a root. On a CPU it does nothing.
    """
    if node.parent is None:
        raise ScheduleError(
            "a barrier is beside a block or loop under a root, not beside the root", node, code="cinn.sync_threads.root"
        )
    body = root_body(state, node)
    target = node.loop if node.is_loop else leaf_of(body, node.block).realize
    path_to(body, target)
    barrier = ir.Evaluate(ir.Call("int32", "tir.tvm_storage_sync", [ir.StringImm("shared")]))
    pair = (target, barrier) if after_node else (barrier, target)
    commit(state, node, Edit({target: listed(*pair)})(body), lists=True)
