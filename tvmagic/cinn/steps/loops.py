"""Steps on loops: split, fuse, reorder, flatten, and how a loop runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.cinn.cinn_form import FOR_TYPE, VECTOR_LENGTH, in_order, listed
from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.dependence import check_at_once, check_free_order, private_buffers
from tvmagic.cinn.steps.lookup import found_block, loops_of_block
from tvmagic.cinn.steps.tree import (
    Edit,
    commit,
    leaves,
    loop_names,
    loop_ref,
    names_of,
    nested,
    of_ranges,
    only,
    path_to,
    ranges_of,
    rebound,
    unused,
)
from tvmagic.cinn.text.printer import flat_index
from tvmagic.ir.query import is_zero, nodes_of, variables_in
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop, Loops, Sizes
from tvmagic.tir.schedule.state import ScheduleState


def root_body(state: ScheduleState, sref: StmtSRef) -> ir.Stmt:
    """The body of the root above a block or a loop."""
    return state.root_of(sref).block.body


def arguments_of(state: ScheduleState, sref: StmtSRef) -> list[ir.Buffer]:
    """The buffers of the function that callers see."""
    return list(state.function_of(sref)[1].buffer_map.values())


def constant_extent(loop: StmtSRef) -> int:
    """The extent of a loop that begins at 0."""
    extent = loop.loop.extent
    if not is_zero(loop.loop.min):
        raise ScheduleError(
            f"{loop.label} begins at {loop.loop.min}; a loop to be split or fused begins at 0",
            loop,
            code="cinn.schedule.loop_not_from_zero",
        )
    if not isinstance(extent, ir.IntImm):
        raise ScheduleError(
            f"the extent `{extent}` of {loop.label} is not a number", loop,
            hint="a loop of an open extent can be reordered, run in parallel and moved to; this step needs a number", code="cinn.schedule.symbolic_extent",
        )  # fmt: skip
    return extent.value


# ---------------------------------------------------------------------------- split


def _factors(loop: StmtSRef, factors: Sequence[int | None]) -> list[int]:
    """The factors, with a number for -1."""
    extent = constant_extent(loop)
    if not factors:
        raise ScheduleError("a loop is split into one factor or more", loop, code="cinn.split.no_factors")
    given = [-1 if f is None else int(f) for f in factors]
    if any(f < 1 and f != -1 for f in given) or given.count(-1) > 1:
        raise ScheduleError(
            f"the factors {given} are positive numbers, one of them may be -1",
            loop,
            code="cinn.split.factor_not_positive",
        )
    product = math.prod(f for f in given if f != -1)
    if -1 in given:
        if product > extent:
            raise ScheduleError(
                f"the product {product} of the factors is more than the extent {extent}",
                loop,
                code="cinn.split.factors_too_large",
            )
        return [-(-extent // product) if f == -1 else f for f in given]
    if product < extent:
        raise ScheduleError(
            f"the product {product} of the factors is less than the extent {extent}",
            loop,
            code="cinn.split.factors_too_small",
        )
    return given


@step("Split")
def split(state: ScheduleState, loop: Loop, factors: Sizes) -> Loops:
    """Split a loop into nested ones, outermost first.

    Requires: the loop begins at 0 and its extent is a number. One factor may be -1: what is left, rounded up. Without
    it the product is at least the extent. If the product is larger than the extent, a condition directly inside the
    innermost new loop keeps to the extent. The new loops are of the old one's kind, so that one that is bound to threads is
    not split into several.
    """
    sizes, old = _factors(loop, factors), loop.loop
    names = names_of(state)
    body_of_root = root_body(state, loop)
    outer = [n for n in path_to(body_of_root, old) if isinstance(n, ir.For) and n is not old]
    taken = {n.loop_var.name for n in outer} | loop_names(old.body)
    fresh = [ir.Var(unused(names.take(old.loop_var.name), taken), old.loop_var.dtype) for _ in sizes]
    index: ir.PrimExpr = ir.IntImm(old.loop_var.dtype, 0)
    for var, size in zip(fresh, sizes):
        index = var if is_zero(index) else ir.Add(ir.Mul(index, ir.IntImm(var.dtype, size)), var)
    domains = {v: ir.Range.from_min_extent(ir.IntImm(v.dtype, 0), ir.IntImm(v.dtype, n)) for v, n in zip(fresh, sizes)}
    around = ranges_of(outer)
    index = in_order(of_ranges({**around, **domains}).simplify(index))
    body = rebound(old.body, {old.loop_var: index}, {**around, **domains})
    if math.prod(sizes) > constant_extent(loop):
        body = ir.IfThenElse(ir.LT(index, old.extent), listed(body), None)
    for var, size in zip(reversed(fresh), reversed(sizes)):
        body = old.replace(loop_var=var, extent=ir.IntImm(var.dtype, size), body=body)
    commit(state, loop, Edit({old: body})(body_of_root))
    return [loop_ref(state, var) for var in fresh]


# ---------------------------------------------------------------------------- fuse

_IN_ORDER = (ir.ForKind.SERIAL, ir.ForKind.UNROLLED)  # kinds of loops whose iterations run one after the other


def _fuse(state: ScheduleState, loops: Sequence[StmtSRef]) -> StmtSRef:
    if not loops:
        raise ScheduleError("at least one loop is fused", code="cinn.fuse.no_loops")
    if len(loops) == 1:
        return loops[0]
    for outer, inner in zip(loops, loops[1:]):
        if only(outer.loop.body) is not inner.loop:
            raise ScheduleError(
                f"{inner.label} is not the only statement of {outer.label}, directly inside it",
                inner,
                code="cinn.fuse.not_only_statement",
            )
    nodes = [s.loop for s in loops]
    sizes = [constant_extent(s) for s in loops]
    first, body_of_root = nodes[0], root_body(state, loops[0])
    if first.kind not in _IN_ORDER:
        for node in nodes[1:]:
            check_at_once(
                body_of_root,
                node,
                arguments_of(state, loops[0]),
                "fused with one whose iterations run at the same time",
            )
    var = ir.Var("_".join(n.loop_var.name for n in nodes) + "_fused", first.loop_var.dtype)
    domain = ir.Range.from_min_extent(ir.IntImm(var.dtype, 0), ir.IntImm(var.dtype, math.prod(sizes)))
    around = ranges_of(n for n in path_to(body_of_root, first) if isinstance(n, ir.For))
    body = rebound(nodes[-1].body, _places(nodes, sizes, var), {**around, var: domain})
    fused = first.replace(loop_var=var, extent=domain.extent, body=body)
    commit(state, loops[0], Edit({first: fused})(body_of_root))
    return loop_ref(state, var)


def _placed(state: ScheduleState, block: StmtSRef, places: Sequence[int]) -> list[StmtSRef]:
    loops = loops_of_block(state, block)
    wrong = [p for p in places if not 0 <= p < len(loops)]
    if wrong:
        raise ScheduleError(
            f"block `{block.block.name_hint}` has {len(loops)} loops; there is none at {wrong[0]}",
            block,
            code="cinn.schedule.loop_out_of_range",
        )
    return [loops[p] for p in places]


@step("Fuse")
def fuse(state: ScheduleState, loops: Loops) -> Loop:
    """Make one loop of nested ones.

    Requires: the loops are given outermost first, each is the only statement of the one outside, begins at 0 and has
    a number as its extent.
    """
    return _fuse(state, loops)


@step("FuseWithName")
def fuse_with_name(state: ScheduleState, block_name: str, loops_index: list[int]) -> Loop:
    """Fuse the loops at some places around the block of a name."""
    return _fuse(state, _placed(state, found_block(state, block_name), loops_index))


@step("FuseWithBlock")
def fuse_with_block(state: ScheduleState, block: BlockRef, loops_index: list[int]) -> Loop:
    """Fuse the loops at some places around a block."""
    return _fuse(state, _placed(state, block, loops_index))


# ---------------------------------------------------------------------------- reorder


class _Chain:
    """The statements from the outermost to the innermost of the loops to be reordered.

    loops: all loops of the chain in their order; guards: the conditions between them; before, after: the statements
    beside the chain, with how many of the loops and of the conditions are around them.
    """

    def __init__(self, body: ir.Stmt, loops: Sequence[ir.For]) -> None:
        paths = {loop: path_to(body, loop) for loop in loops}
        inner = max(loops, key=lambda loop: len(paths[loop]))
        outer = min(loops, key=lambda loop: len(paths[loop]))
        path = paths[inner]
        missing = next((loop for loop in loops if loop not in path), None)
        if missing is not None:
            raise ScheduleError(
                f"loops `{missing.loop_var.name}` and `{inner.loop_var.name}` are not nested in one another",
                missing,
                inner,
                code="cinn.reorder.not_nested",
            )
        self.top, self.path = outer, path[path.index(outer) :]
        self.loops = [n for n in self.path if isinstance(n, ir.For)]
        self.guards: list[ir.PrimExpr] = []
        self.before: list[tuple[int, int, tuple[ir.Stmt, ...]]] = []
        self.after: list[tuple[int, int, tuple[ir.Stmt, ...]]] = []
        self._walk()
        self.body = self._inner_guards(inner.body)

    def _walk(self) -> None:
        depth = 0
        for node, below in zip(self.path, self.path[1:]):
            if isinstance(node, ir.For):
                depth += 1
            elif isinstance(node, ir.IfThenElse):
                if node.else_case is not None:
                    raise ScheduleError(
                        "a condition with an else is between the loops",
                        *self.loops[:1],
                        code="cinn.reorder.condition_with_else",
                    )
                self.guards.append(node.condition)
            elif isinstance(node, ir.SeqStmt):
                place = next(n for n, part in enumerate(node.seq) if part is below)
                around = depth, len(self.guards)
                self.before.append((*around, node.seq[:place]))
                self.after.append((*around, node.seq[place + 1 :]))
            else:
                raise ScheduleError(
                    "a statement between the loops is neither a loop, a condition nor a list",
                    code="cinn.reorder.other_statement",
                )

    def _inner_guards(self, body: ir.Stmt) -> ir.Stmt:
        """The conditions directly inside the innermost loop, which go as far out as they can, taken off its body."""
        while isinstance(only(body), ir.IfThenElse):
            guard = only(body)
            assert isinstance(guard, ir.IfThenElse)
            if guard.else_case is not None:
                break
            self.guards.append(guard.condition)
            body = only(guard.then_case)
        return body

    def nest(self, order: Sequence[ir.For], depth: int, guards: int, body: ir.Stmt) -> ir.Stmt:
        """`body` in the loops of `order` that are among the first `depth` of the chain, under the first `guards` conditions."""
        used = [loop for loop in order if loop in self.loops[:depth]]
        return nested(used, self.guards[:guards], body, lists=False)


def _reorder(state: ScheduleState, loops: Sequence[StmtSRef]) -> None:
    nodes = [s.loop for s in loops]
    again = next((node for place, node in enumerate(nodes) if node in nodes[:place]), None)
    if again is not None:
        raise ScheduleError(f"loop `{again.loop_var.name}` is named twice", again, code="cinn.reorder.repeated_loop")
    if not loops:
        return
    place, *_ = loops
    body = root_body(state, place)
    chain = _Chain(body, nodes)
    held = iter(nodes)
    order = [next(held) if loop in nodes else loop for loop in chain.loops]
    if order == chain.loops:
        return
    _check_bounds(chain, order)
    inner = chain.loops[-1]
    check_free_order(body, chain.loops, private_buffers(body, inner, arguments_of(state, place)), "the new order")
    before = [chain.nest(order, depth, guards, listed(*parts)) for depth, guards, parts in chain.before if parts]
    after = [
        chain.nest(order, depth, guards, listed(*parts)) for depth, guards, parts in reversed(chain.after) if parts
    ]
    main = chain.nest(order, len(order), len(chain.guards), chain.body)
    new = listed(*_with_new_vars(before), main, *_with_new_vars(after))
    commit(state, place, Edit({chain.top: new})(body))


def _check_bounds(chain: _Chain, order: Sequence[ir.For]) -> None:
    for place, loop in enumerate(order):
        inside = {other.loop_var for other in order[place + 1 :]}
        if inside.intersection([*variables_in(loop.min), *variables_in(loop.extent)]):
            raise ScheduleError(
                f"the range of loop `{loop.loop_var.name}` depends on one that would be inside it",
                loop,
                code="cinn.reorder.bounds_depend_on_loop",
            )


def _with_new_vars(nests: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """Nests of their own: their loops have variables of their own, of the same names."""
    for nest in nests:
        yield _Renamed().visit(nest)


class _Renamed(ir.Mutator):
    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.For:
        var = ir.Var(node.loop_var.name, node.loop_var.dtype)
        body = rebound(self.visit(node.body), {node.loop_var: var}, {})
        return node.replace(loop_var=var, body=body)

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        return node

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        return listed(*[self.visit(s) for s in node.seq])


@step("Reorder")
def reorder(state: ScheduleState, loops: Loops) -> None:
    """Put nested loops in the order given, on the places that they hold; the loops between them stay.

    Requires: the loops are nested in one another, no condition with an else between them; no loop's range depends on
    one that comes inside it; no access depends on the order, sums aside. A condition goes directly inside the
    innermost loop whose variable it uses. Statements beside the chain become nests of their own before or after it,
    in the loops that they had in common with it.
    """
    _reorder(state, loops)


@step("ReorderWithName")
def reorder_with_name(state: ScheduleState, block_name: str, loops_index: list[int]) -> None:
    """Reorder the loops at some places around the block of a name."""
    _reorder(state, _placed(state, found_block(state, block_name), loops_index))


@step("ReorderWithBlock")
def reorder_with_block(state: ScheduleState, block: BlockRef, loops_index: list[int]) -> None:
    """Reorder the loops at some places around a block."""
    _reorder(state, _placed(state, block, loops_index))


# ---------------------------------------------------------------------------- how a loop runs

_PLAIN = {"Serial": ir.ForKind.SERIAL, "Parallel": ir.ForKind.PARALLEL, "Unrolled": ir.ForKind.UNROLLED}
_THREADS = {"GPUThread": "threadIdx", "GPUBlock": "blockIdx"}
_AXES = ("x", "y", "z")
_NAMED = ("GPULane", "Default")  # kinds that only CINN has
_WORDS = {
    ir.ForKind.PARALLEL: "parallel",
    ir.ForKind.VECTORIZED: "vectorized",
    ir.ForKind.THREAD_BINDING: "bound to threads",
}


def _set_kind(
    state: ScheduleState,
    loop: StmtSRef,
    kind: ir.ForKind,
    notes: Mapping[str, Any] | None = None,
    binding: ir.IterVar | None = None,
) -> None:
    """Let a serial loop run in another way, with some more annotations."""
    node = loop.loop
    if node.kind is not ir.ForKind.SERIAL or FOR_TYPE in node.annotations:
        raise ScheduleError(
            f"{loop.label} is not a serial loop any more; a loop's kind is set once",
            loop,
            code="cinn.schedule.loop_not_serial",
        )
    body = root_body(state, loop)
    if kind not in _IN_ORDER:
        check_at_once(body, node, arguments_of(state, loop), _WORDS[kind])
    new = node.replace(kind=kind, thread_binding=binding, annotations={**node.annotations, **(notes or {})})
    commit(state, loop, Edit({node: new})(body))


def _bind(state: ScheduleState, loop: StmtSRef, group: str, axis: str) -> None:
    binding = ir.IterVar(None, ir.Var("", loop.loop.loop_var.dtype), ir.IterVar.ThreadIndex, f"{group}.{axis}")
    _set_kind(state, loop, ir.ForKind.THREAD_BINDING, binding=binding)


@step("MutateForType")
def mutate_for_type(state: ScheduleState, loop: Loop, for_type: str, factor: int) -> None:
    """Say how a serial loop runs. `factor` is the vector length, or 0, 1, 2 for the axes x, y, z.

    Requires: the loop is serial; iterations that run at the same time touch different elements.
    """
    if for_type in _PLAIN:
        _set_kind(state, loop, _PLAIN[for_type])
    elif for_type in _NAMED:
        _set_kind(state, loop, ir.ForKind.SERIAL, {FOR_TYPE: for_type})
    elif for_type == "Vectorized":
        vectorize(state, loop, factor)
    elif for_type not in _THREADS:
        names = (*_PLAIN, "Vectorized", *_THREADS, *_NAMED)
        raise ScheduleError(
            f"`{for_type}` is not a kind of loop: {', '.join(names)}", loop, code="cinn.mutate_for_type.unknown_kind"
        )
    elif factor not in range(len(_AXES)):
        raise ScheduleError(
            f"the axis of a thread is 0, 1 or 2 for x, y, z, not {factor}", loop, code="cinn.mutate_for_type.wrong_axis"
        )
    else:
        _bind(state, loop, _THREADS[for_type], _AXES[factor])


@step("Parallel")
def parallel(state: ScheduleState, loop: Loop) -> None:
    """Run a loop's iterations on several threads. Requires: they touch different elements."""
    _set_kind(state, loop, ir.ForKind.PARALLEL)


@step("Vectorize")
def vectorize(state: ScheduleState, loop: Loop, factor: int) -> None:
    """Run a loop by vectors of `factor` elements. The loop keeps its extent; it is split when the program is lowered.

    Requires: `factor` is positive; the iterations touch different elements.
    """
    if factor < 1:
        raise ScheduleError(
            f"a vector has a positive number of elements, not {factor}", loop, code="cinn.vectorize.wrong_factor"
        )
    constant_extent(loop)
    _set_kind(state, loop, ir.ForKind.VECTORIZED, {VECTOR_LENGTH: ir.IntImm("int32", factor)})


@step("Unroll")
def unroll(state: ScheduleState, loop: Loop) -> None:
    """Write a loop's iterations out."""
    _set_kind(state, loop, ir.ForKind.UNROLLED)


@step("Bind")
def bind(state: ScheduleState, loop: Loop, thread_axis: str) -> None:
    """Bind a loop to `blockIdx.x` ... `threadIdx.z`. Requires: the iterations touch different elements."""
    group, _, axis = thread_axis.partition(".")
    if group not in _THREADS.values() or axis not in _AXES:
        raise ScheduleError(
            f"`{thread_axis}` is not a thread axis: blockIdx or threadIdx with .x, .y or .z",
            loop,
            code="cinn.bind.unknown_thread",
        )
    _bind(state, loop, group, axis)


# ---------------------------------------------------------------------------- flatten


@step("FlattenLoops")
def flatten_loops(state: ScheduleState, loops: Loops, force_flat: bool) -> Loop:
    """Make one loop of nested ones, and one variable of those of the blocks in them.

    Requires: as for fuse; the blocks in the loops do not reduce and bind the loops in order, or 0. An access whose
    indices are the block's variables in order, to a tensor of as many elements, is by the one variable; other indices
    are written out of it and made one flat index. With `force_flat` every access to such a tensor must be by the
    variable.
    """
    if not loops:
        raise ScheduleError("at least one loop is flattened", code="cinn.flatten_loops.no_loops")
    nodes = [s.loop for s in loops]
    body = root_body(state, loops[0])
    inner = leaves(nodes[-1].body)
    for leaf in inner:
        if leaf.loops:
            raise ScheduleError(
                f"block `{leaf.name}` has more loops around it than those to be flattened",
                *loops[:1],
                code="cinn.flatten_loops.other_loops",
            )
        _check_flat(leaf.realize, nodes)
    sizes = [constant_extent(s) for s in loops]
    for outer, below in zip(loops, loops[1:]):
        if only(outer.loop.body) is not below.loop:
            raise ScheduleError(
                f"{below.label} is not the only statement of {outer.label}, directly inside it",
                below,
                code="cinn.flatten_loops.not_only_statement",
            )
    var = ir.Var("flat_i", nodes[0].loop_var.dtype)
    total = math.prod(sizes)
    changes: dict[ir.Stmt, ir.Stmt | None] = {
        leaf.realize: _flattened(leaf.realize, nodes, sizes, var, force_flat) for leaf in inner
    }
    new = ir.substitute(Edit(changes)(nodes[-1].body), _places(nodes, sizes, var))  # the conditions there
    flat = nodes[0].replace(loop_var=var, extent=ir.IntImm(var.dtype, total), body=new)
    commit(state, loops[0], Edit({nodes[0]: flat})(body))
    return loop_ref(state, var)


def _check_flat(realize: ir.BlockRealize, loops: Sequence[ir.For]) -> None:
    if any(axis.iter_type != ir.IterVar.DataPar for axis in realize.block.iter_vars):
        raise ScheduleError(
            f"block `{realize.block.name_hint}` reduces; its loops cannot be flattened",
            realize.block,
            code="cinn.flatten_loops.reduction",
        )
    rest = [value for value in realize.iter_values if not is_zero(value)]
    every = {loop.loop_var: isinstance(loop.extent, ir.IntImm) and loop.extent.value == 1 for loop in loops}
    used = [var for var, once in every.items() if not once]
    if any(value not in every for value in rest) or [value for value in rest if value in used] != used:
        raise ScheduleError(
            f"block `{realize.block.name_hint}` does not bind the loops in their order, or 0",
            realize.block,
            code="cinn.flatten_loops.loops_out_of_order",
        )


def _places(loops: Sequence[ir.For], sizes: Sequence[int], flat: ir.Var) -> dict[ir.Var, ir.PrimExpr]:
    """The variables of nested loops, given the one of the loop over all their iterations."""
    places: dict[ir.Var, ir.PrimExpr] = {}
    rest: ir.PrimExpr = flat
    for loop, size in zip(reversed(loops[1:]), reversed(sizes[1:])):
        places[loop.loop_var] = ir.FloorMod(rest, ir.IntImm(flat.dtype, size))
        rest = ir.FloorDiv(rest, ir.IntImm(flat.dtype, size))
    places[loops[0].loop_var] = rest
    return places


def _flattened(
    realize: ir.BlockRealize, loops: Sequence[ir.For], sizes: Sequence[int], loop_var: ir.Var, force: bool
) -> ir.Stmt:
    block, var = realize.block, ir.Var("_flat_i", loop_var.dtype)
    places = _places(loops, sizes, var)
    values = {
        axis.var: places[value] if isinstance(value, ir.Var) else value
        for axis, value in zip(block.iter_vars, realize.iter_values)
    }
    body = ir.substitute(block.body, values)
    if force:
        _check_in_order(body, var, math.prod(sizes), block)
    domain = ir.Range.from_min_extent(ir.IntImm(var.dtype, 0), ir.IntImm(var.dtype, math.prod(sizes)))
    new = block.replace(iter_vars=(ir.IterVar(domain, var, ir.IterVar.DataPar),), body=body, reads=(), writes=())
    return realize.replace(iter_values=(loop_var,), block=new)


def _check_in_order(body: ir.Stmt, var: ir.Var, total: int, block: ir.Block) -> None:
    """All accesses to tensors of as many elements must be to the element whose number is the flat variable."""
    for access in nodes_of(body, ir.BufferLoad, ir.BufferStore):
        sizes = [s.value if isinstance(s, ir.IntImm) else 0 for s in access.buffer.shape]
        if math.prod(sizes) == total and flat_index(access, var) is not var:
            raise ScheduleError(
                f"`{block.name_hint}` does not go through `{access.buffer.name}` in the order of its elements", block,
                hint="without force_flat its indices are written out of the flat one", code="cinn.flatten_loops.elements_out_of_order",
            )  # fmt: skip
