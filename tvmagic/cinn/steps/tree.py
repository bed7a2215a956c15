"""The tree that steps rewrite: the leaves under a root, edits of statements, expressions as CINN writes them.

A step computes the root's new body and puts it in place by `commit`, which finds again what blocks read and write and
keeps the references to the blocks and loops that are still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.cinn.cinn_form import ListMutator, StmtList, in_order, init_block_of, listed
from tvmagic.cinn.enumeration import counted_all
from tvmagic.ir.query import is_one, is_zero, nodes_of, variables_in
from tvmagic.tir.analysis.facts import Facts
from tvmagic.tir.blocks.conditions import all_of, runs_everywhere
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.regions import used_buffers, with_detected_regions
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.state import ScheduleState

# ---------------------------------------------------------------------------- names


class Names:
    """The counter of a schedule: the first who asks for a name gets it, the next ones get `_0`, `_1`, ... after it."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts = dict(counts or {})

    def take(self, name: str) -> str:
        """The next name for `name`."""
        count = self.counts.get(name, 0)
        self.counts[name] = count + 1
        return name if count == 0 else f"{name}_{count - 1}"

    def copy(self) -> Names:
        """A counter of its own at the same point."""
        return Names(self.counts)


def unused(name: str, taken: Iterable[str]) -> str:
    """A name that is not among those of the loops around or inside: `name`, or with `_0` after it."""
    taken = set(taken)
    while name in taken:
        name = f"{name}_0"
    return name


def loop_names(stmt: ir.Stmt) -> set[str]:
    """The names of the loops in a statement."""
    found: set[str] = set()
    ir.post_order_visit(stmt, lambda n: found.add(n.loop_var.name) if isinstance(n, ir.For) else None)
    return found


_names: WeakKeyDictionary[ScheduleState, Names] = WeakKeyDictionary()


def names_of(state: ScheduleState) -> Names:
    """The counter of the schedule that has this state."""
    return _names.setdefault(state, Names())


def set_names(state: ScheduleState, names: Names) -> None:
    """Let the schedule that has this state go on with a counter."""
    _names[state] = names


# ---------------------------------------------------------------------------- what is there


@dataclass(frozen=True, eq=False)
class Leaf:
    """A block under a root with what is around it, from the root inwards: loops, conditions and lists."""

    realize: ir.BlockRealize
    path: tuple[ir.Stmt, ...]

    @property
    def block(self) -> ir.Block:
        """The block itself."""
        return self.realize.block

    @property
    def name(self) -> str:
        """The block's name."""
        return self.block.name_hint

    @property
    def loops(self) -> list[ir.For]:
        """The loops around it, outermost first."""
        return [n for n in self.path if isinstance(n, ir.For)]

    @property
    def conditions(self) -> list[ir.PrimExpr]:
        """The conditions around it that must hold."""
        return [n.condition for n in self.path if isinstance(n, ir.IfThenElse)]

    @property
    def bindings(self) -> list[tuple[ir.IterVar, ir.PrimExpr]]:
        """The block's variables, each with what it is bound to."""
        return list(zip(self.block.iter_vars, self.realize.iter_values))

    @property
    def values(self) -> dict[ir.Var, ir.PrimExpr]:
        """What each block variable is bound to."""
        return {axis.var: value for axis, value in self.bindings}

    @property
    def stores(self) -> list[ir.BufferStore]:
        """The stores in the block."""
        return [n for n in _nodes(self.block.body) if isinstance(n, ir.BufferStore)]

    @property
    def reducing(self) -> set[ir.Var]:
        """The variables of the loops over which the block adds up."""
        return {v for axis, x in self.bindings if axis.iter_type == ir.IterVar.CommReduce for v in variables_in(x)}


def _nodes(stmt: ir.Stmt) -> list[Any]:
    found: list[Any] = []
    ir.post_order_visit(stmt, found.append)
    return found


def leaves(body: ir.Stmt) -> list[Leaf]:
    """The blocks in a root's body in program order; blocks inside them do not count."""
    found: list[Leaf] = []
    stack: list[tuple[ir.Stmt, tuple[ir.Stmt, ...]]] = [(body, ())]
    while stack:
        stmt, path = stack.pop()
        inside = (*path, stmt)
        if isinstance(stmt, ir.BlockRealize):
            found.append(Leaf(stmt, path))
        elif isinstance(stmt, ir.For):
            stack.append((stmt.body, inside))
        elif isinstance(stmt, ir.SeqStmt):
            stack += [(part, inside) for part in reversed(stmt.seq)]
        elif isinstance(stmt, ir.IfThenElse):
            if stmt.else_case is not None:
                stack.append((stmt.else_case, inside))
            stack.append((stmt.then_case, inside))
        elif isinstance(getattr(stmt, "body", None), ir.Stmt):
            stack.append((stmt.body, inside))  # type: ignore[attr-defined]
    return found


def before_and_after(every: Sequence[Leaf], block: ir.Block) -> tuple[Sequence[Leaf], Sequence[Leaf]]:
    """The leaves that come before a block in program order, and those that come after it."""
    place = next(place for place, leaf in enumerate(every) if leaf.block is block)
    return every[:place], every[place + 1 :]


def leaf_of(body: ir.Stmt, block: ir.Block) -> Leaf:
    """The leaf of a block."""
    found = next((leaf for leaf in leaves(body) if leaf.block is block), None)
    if found is None:
        raise ScheduleError(
            f"block `{block.name_hint}` is inside another block; a step takes those below the root",
            code="cinn.schedule.nested_block",
        )
    return found


def bound_and_first(leaf: Leaf) -> tuple[list[ir.For], dict[ir.Var, ir.PrimExpr]]:
    """The loops that the block's variables are bound to, and the first values of the others, which repeat the block."""
    used = {var for value in leaf.realize.iter_values for var in variables_in(value)}
    loops = [loop for loop in leaf.loops if loop.loop_var in used]
    return loops, {loop.loop_var: loop.min for loop in leaf.loops if loop not in loops}


def runs_for_all(leaf: Leaf) -> bool:
    """Whether a block runs for all values of its variables, whatever conditions are around it.

    Of loops that repeat it the first iteration is enough.
    """
    if any(isinstance(n, ir.IfThenElse) and n.else_case is not None for n in leaf.path):
        return False
    if not leaf.conditions:
        return True
    loops, first = bound_and_first(leaf)
    ranges, condition = ranges_of(loops), ir.substitute(all_of(leaf.conditions), first)
    return runs_everywhere(leaf.realize, ranges, condition) or bool(counted_all(leaf.bindings, ranges, condition))


def always_stores(leaf: Leaf, buffer: ir.Buffer) -> bool:
    """Whether a block stores to a tensor whatever the conditions inside it are, and under them to one element only."""
    stores = [store for store in leaf.stores if store.buffer is buffer]
    if not any(isinstance(n, (ir.IfThenElse, ir.While)) for n in _nodes(leaf.block.body)):
        return bool(stores)
    first = stores[0].indices
    one = all(ir.structural_equal(a, b) for store in stores for a, b in zip(store.indices, first))
    return one and _always_stores(leaf.block.body, buffer)


def _always_stores(stmt: ir.Stmt, buffer: ir.Buffer) -> bool:
    if isinstance(stmt, ir.SeqStmt):
        return any(_always_stores(part, buffer) for part in stmt.seq)
    if isinstance(stmt, ir.IfThenElse):
        cases = (stmt.then_case, stmt.else_case)
        return all(case is not None and _always_stores(case, buffer) for case in cases)
    if isinstance(stmt, ir.BufferStore):
        return stmt.buffer is buffer
    inner = getattr(stmt, "body", None)
    return not isinstance(stmt, ir.While) and isinstance(inner, ir.Stmt) and _always_stores(inner, buffer)


def check_runs_for_all(leaf: Leaf) -> None:
    """Raise unless a block runs for all values of its variables: it would lose the conditions around it."""
    if not runs_for_all(leaf):
        raise ScheduleError(
            f"it is not known that `{leaf.name}` runs for all values of its variables; it would lose the conditions "
            f"around it",
            leaf.block,
            code="cinn.schedule.block_may_be_skipped",
        )


def path_to(body: ir.Stmt, target: ir.Stmt) -> list[ir.Stmt]:
    """The statements around `target`, from `body` on, and `target` at the end."""
    stack: list[tuple[ir.Stmt, tuple[ir.Stmt, ...]]] = [(body, ())]
    while stack:
        stmt, above = stack.pop()
        path = (*above, stmt)
        if stmt is target:
            return list(path)
        if isinstance(stmt, ir.SeqStmt):
            stack += [(part, path) for part in stmt.seq]
        elif isinstance(stmt, ir.IfThenElse):
            stack += [(part, path) for part in (stmt.then_case, stmt.else_case) if part is not None]
        elif not isinstance(stmt, ir.BlockRealize) and isinstance(getattr(stmt, "body", None), ir.Stmt):
            stack.append((stmt.body, path))  # type: ignore[attr-defined]
    raise ScheduleError(
        "the loop is inside a block; a step takes those below the root", target, code="cinn.schedule.nested_block"
    )


def only(stmt: ir.Stmt) -> ir.Stmt:
    """The statement of a list of one; any other statement as it is."""
    while isinstance(stmt, ir.SeqStmt) and len(stmt.seq) == 1:
        stmt = stmt.seq[0]
    return stmt


def ranges_of(loops: Iterable[ir.For]) -> dict[ir.Var, ir.Range]:
    """What the variables of loops run over."""
    return {loop.loop_var: ir.Range.from_min_extent(loop.min, loop.extent) for loop in loops}


def twin_of(body: ir.Stmt, leaf: Leaf) -> Leaf | None:
    """The block `B__reduce_init` that stores the first values of what a block adds to."""
    stored = {s.buffer for s in leaf.stores}
    for other in leaves(body):
        if other.block is not leaf.block and init_block_of(other.block) and stored & {s.buffer for s in other.stores}:
            return other
    return None


# ---------------------------------------------------------------------------- edits


class Edit(ir.Mutator):
    """Puts other statements in the places of some, or takes them out (None) with all that then holds nothing."""

    def __init__(self, changes: Mapping[ir.Stmt, ir.Stmt | None]) -> None:
        self.changes = changes

    def __call__(self, body: ir.Stmt) -> ir.Stmt:
        """The body with the changes; raises if nothing would be left."""
        new = self.visit(body)
        if new is None:
            raise ScheduleError("nothing would be left of the root", code="cinn.schedule.root_empty")
        return new

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> Any:
        if node in self.changes:
            return self.changes[node]
        if isinstance(node, ir.SeqStmt):
            return self.sequence(node)
        if isinstance(node, ir.IfThenElse):
            return self.branch(node)
        inner = getattr(node, "body", None)
        if isinstance(node, ir.BlockRealize) or not isinstance(inner, ir.Stmt):
            return node
        new = self.visit(inner)
        return node if new is inner else None if new is None else node.replace(body=new)

    def sequence(self, node: ir.SeqStmt) -> Any:
        parts = [self.visit(s) for s in node.seq]
        if all(a is b for a, b in zip(parts, node.seq)):
            return node
        left = [p for p in parts if p is not None]
        return listed(*left) if left else None

    def branch(self, node: ir.IfThenElse) -> Any:
        then_case = self.visit(node.then_case)
        else_case = None if node.else_case is None else self.visit(node.else_case)
        if then_case is node.then_case and else_case is node.else_case:
            return node
        if then_case is None and else_case is None:
            return None
        return node.replace(then_case=listed() if then_case is None else then_case, else_case=else_case)


class _NewRegions(ListMutator):
    """Finds what the blocks that were not there before read and write."""

    def __init__(self, known: set[ir.Block], lists: bool) -> None:
        self.known, self.lists = known, lists

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        block = node.block
        if self.lists and not isinstance(block.body, ir.SeqStmt):
            return node.replace(block=block.replace(body=StmtList((block.body,))))
        return node if block in self.known else node.replace(block=with_detected_regions(block))


def commit(
    state: ScheduleState,
    sref: StmtSRef,
    body: ir.Stmt,
    *,
    renamed: Mapping[str, str] | None = None,
    added: Sequence[ir.Buffer] = (),
    lists: bool = False,
) -> None:
    """Put `body` in the root of what `sref` refers to. Raises if loops in each other would be bound to one thread axis.

    renamed: blocks whose references stay although their names changed, old to new.
    added: buffers that now live in the root; those that nobody uses any more go.
    lists: whether the bodies of the root and of every block become lists, as caches and barriers make them.
    """
    root_ref = state.root_of(sref)
    root = root_ref.block
    before = {leaf.name: leaf.block for leaf in leaves(root.body)}
    body = _NewRegions(set(before.values()), lists).visit(body)
    if lists and not isinstance(body, ir.SeqStmt):
        body = StmtList((body,))
    _check_threads(root.body, body)
    used = used_buffers(body)
    kept = [b for b in (*root.alloc_buffers, *added) if b in used]
    new_root = root.replace(body=body, alloc_buffers=tuple(dict.fromkeys(kept)))
    after = {leaf.name: leaf.block for leaf in leaves(body)}
    names = renamed or {}
    reuse = {block: after[names.get(name, name)] for name, block in before.items() if names.get(name, name) in after}
    reuse = {old: new for old, new in reuse.items() if old is not new}
    state.replace(root_ref, new_root, {**reuse, root: new_root})


def _check_threads(before: ir.Stmt, after: ir.Stmt) -> None:
    known = _bound_twice(before)
    for tag, leaf in _bound_twice(after).items():
        if tag not in known:
            raise ScheduleError(
                f"loops around `{leaf.name}`, one in the other, would both be bound to `{tag}`", leaf.block,
                hint="split, fuse and move loops first, then bind them", code="cinn.schedule.thread_used_twice",
            )  # fmt: skip


def _bound_twice(body: ir.Stmt) -> dict[str, Leaf]:
    """The thread axes to which loops are bound that are in each other, with the first block in them."""
    found: dict[str, Leaf] = {}
    for leaf in leaves(body):
        tags = [loop.thread_binding.thread_tag for loop in leaf.loops if loop.thread_binding is not None]
        for place, tag in enumerate(tags):
            if tag in tags[:place]:
                found.setdefault(tag, leaf)
    return found


def loop_ref(state: ScheduleState, var: ir.Var) -> StmtSRef:
    """The reference to the loop of a variable."""
    return next(s for stmt, s in state.srefs.items() if isinstance(stmt, ir.For) and stmt.loop_var is var)


def block_ref(state: ScheduleState, root: StmtSRef, name: str) -> StmtSRef:
    """The reference to the block of a name under a root."""
    return state.sref_of(next(leaf.block for leaf in leaves(root.block.body) if leaf.name == name))


def nested(loops: Sequence[ir.For], conditions: Sequence[ir.PrimExpr], body: ir.Stmt, *, lists: bool = True) -> ir.Stmt:
    """`body` in loops, each condition once: directly inside the innermost loop that it uses, else around them all.

    `lists` says whether what is under a condition is a list.
    """
    every = {loop.loop_var for loop in loops}
    for place in range(len(loops), -1, -1):
        known = {loop.loop_var for loop in loops[:place]}
        last = loops[place - 1].loop_var if place else None
        for condition in reversed(conditions):
            used = every.intersection(variables_in(condition))
            if (last in used and used <= known) or (last is None and not used):
                body = ir.IfThenElse(condition, listed(body) if lists else body, None)
        if place:
            body = loops[place - 1].replace(body=body)
    return body


# ---------------------------------------------------------------------------- expressions


def of_ranges(loops: Mapping[ir.Var, ir.Range]) -> Analyzer:
    """What simplifies indices in some loops. A loop that runs once stays in them: CINN does not put 0 in its place."""
    return Analyzer({var: range_ for var, range_ in loops.items() if not is_one(range_.extent)})


def tidy(expr: ir.PrimExpr, analyzer: Analyzer) -> ir.PrimExpr:
    """An index expression simplified where it is a sum; quotients and remainders of fused loops stay as they are."""
    if isinstance(expr, ir.CmpOp):
        return type(expr)(tidy(expr.a, analyzer), tidy(expr.b, analyzer))
    sums = [n for n in _expressions(expr) if isinstance(n, (ir.Add, ir.Sub))]
    return in_order(_whole_sums(analyzer.simplify(expr), expr, analyzer)) if sums else expr


def _whole_sums(simple: ir.PrimExpr, expr: ir.PrimExpr, analyzer: Analyzer) -> ir.PrimExpr:
    """`simple` with the sums of `expr` as dividends of remainders: `(8 * i + j) % 6`, which simplified is `(2 * i + j) % 6`.

    The quotient of the same sum is beside it, so that both together still say that each element is reached once. A sum
    of which simplifying takes a variable away stays simplified.
    """
    whole = [n for n in nodes_of(expr, ir.FloorMod) if isinstance(n.a, (ir.Add, ir.Sub))]
    restored: dict[ir.PrimExpr, ir.PrimExpr] = {}
    for node in nodes_of(simple, ir.FloorMod) if whole else ():
        for other in whole:
            same = ir.structural_equal(node.b, other.b) and set(variables_in(node.a)) == set(variables_in(other.a))
            if same and is_zero(analyzer.simplify(ir.FloorMod(other.a - node.a, node.b))):
                restored[node] = ir.FloorMod(analyzer.simplify(other.a), other.b)
                break
    return _Restore(restored).visit(simple) if restored else simple


class _Restore(ir.Mutator):
    """Puts expressions in the place of others."""

    def __init__(self, by_node: Mapping[ir.PrimExpr, ir.PrimExpr]) -> None:
        self.by_node = by_node

    @ir.handles(ir.FloorMod)
    def remainder(self, node: ir.FloorMod) -> ir.PrimExpr:
        return self.by_node[node] if node in self.by_node else self.visit_children(node)


def _expressions(expr: ir.PrimExpr) -> list[Any]:
    found: list[Any] = []
    ir.post_order_visit(expr, found.append)
    return found


class _Rebind(Facts, ListMutator):
    def __init__(self, values: Mapping[ir.Var, ir.PrimExpr], loops: Mapping[ir.Var, ir.Range]) -> None:
        self.values = values
        self.analyzer = of_ranges(loops)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.For:
        self.known_loop(node)
        low, extent, body = self.expr(node.min), self.expr(node.extent), self.visit(node.body)
        return node.replace(min=low, extent=extent, body=body)

    @ir.handles(ir.IfThenElse)
    def condition(self, node: ir.IfThenElse) -> ir.IfThenElse:
        else_case = None if node.else_case is None else self.visit(node.else_case)
        return node.replace(
            condition=self.expr(node.condition), then_case=self.visit(node.then_case), else_case=else_case
        )

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        values = tuple([self.expr(v) for v in node.iter_values])
        return node.replace(iter_values=values, block=ir.substitute(node.block, self.values))

    def expr(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        new = ir.substitute(expr, self.values)
        return expr if new is expr else tidy(new, self.analyzer)


def rebound(stmt: ir.Stmt, values: Mapping[ir.Var, ir.PrimExpr], loops: Mapping[ir.Var, ir.Range]) -> ir.Stmt:
    """A statement with loop variables replaced, the bindings and conditions in it simplified.

    `loops` are the ranges of the variables around it, those in `values` included.
    """
    return _Rebind(values, loops).visit(stmt)


def renamed_axes(block: ir.Block, names: Sequence[str]) -> ir.Block:
    """A block with new variables of these names."""
    fresh = [ir.Var(name, axis.var.dtype) for name, axis in zip(names, block.iter_vars)]
    values: dict[ir.Var, ir.PrimExpr] = {axis.var: var for axis, var in zip(block.iter_vars, fresh)}
    axes = [axis.replace(var=var) for axis, var in zip(block.iter_vars, fresh)]
    return block.replace(iter_vars=tuple(axes), body=ir.substitute(block.body, values), reads=(), writes=())
