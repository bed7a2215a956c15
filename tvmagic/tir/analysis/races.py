"""Iterations of a loop that runs them at the same time and that touch the same element.

A parallel loop runs its iterations in any order, and so do the blocks of a kernel. The lanes of a vectorized
loop go through the body together, statement by statement, each statement reading before it writes. The threads
of a block wait for each other between statements if that is needed, so only what one statement reads and
writes counts. Two accesses of different iterations to one element, of which at least one is a write, are a race,
unless a serial loop has that order. What an iteration allocates is its own.

Each buffer of each such loop is first tried by a proof (`race_proof`), which holds for all sizes, then by
counting through the iterations (`race_search`), which gives the two iterations and the element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.eval.indices import evaluate
from tvmagic.tir.analysis.known_conditions import KnownConditions
from tvmagic.tir.analysis.race_accesses import Access, Domain, Program, collect
from tvmagic.tir.analysis.race_proof import Forms, never_meet
from tvmagic.tir.analysis.race_search import Conflict, Search, variables
from tvmagic.tir.transform.loops.vectorize_loop import lane_by_lane

_MOST_FORMS = 48  # different accesses of a buffer that are proved pair by pair
_SAMPLE = (33, 7)  # sizes to try if they are symbolic


@dataclass(frozen=True)
class Race:
    """Two iterations of a loop that touch one element, or a doubt whether there are such.

    certain: whether both accesses happen whatever the arrays hold. If not, `text` says what is not known.
    kind: `parallel`, `vectorized`, or the thread axes, such as `threadIdx.x`.
    loop: the For or the AttrStmt that runs the iterations at the same time.
    buffer, element: what they touch, and where (None if that is not known).
    iterations: the loop variables' values by name in the two iterations.
    first, second: the two accesses (nodes); the same one if it meets itself.
    text: all of it in one sentence.
    """

    certain: bool
    kind: str
    loop: Any
    buffer: Any
    text: str
    element: tuple[int, ...] | None = None
    iterations: tuple[dict[str, int], dict[str, int]] | None = None
    first: Any = None
    second: Any = None

    @property
    def name(self) -> str:
        """The name of the loop's variable."""
        return self.loop.loop_var.name if isinstance(self.loop, ir.For) else self.loop.node.var.name

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Group:
    """The accesses to one buffer that may happen at the same time.

    parallel: the domains whose values make an iteration; shared: those around both iterations.
    times: for vectorized loops, when an access happens.
    meet: whether two accesses count at all, if they touch one element.
    by_node: whether `meet` asks which access it is, so that accesses with the same indices are not the same.
    """

    kind: str
    parallel: Sequence[Domain]
    shared: Sequence[Domain]
    accesses: Sequence[Access]
    times: Callable[[Access, Mapping[ir.Var, Any]], Any] | None = None
    meet: Callable[[Access, Access], bool] = lambda a, b: a.write or b.write
    by_node: bool = False


def find_races(func: ir.PrimFunc, sizes: Mapping[str, int] | int | None = None) -> list[Race]:
    """The races of a function without blocks, at most one for each loop and buffer, certain ones first.

    What is proved to be free of races is not in the list. `sizes` are the values of symbolic sizes (by name, or one
    for all) to look for races with, by default several small ones.

    Raises `TVMagicError` if the function has blocks.
    """
    program = collect(func)
    known = KnownConditions(func)
    found = [race for group in _groups(program, known) if (race := _judge(group, program, sizes)) is not None]
    return sorted(found, key=lambda race: not race.certain)


def find_carried(
    func: ir.PrimFunc, var: ir.Var, meet: Callable[[Access, Access], bool], without: frozenset[Any] = frozenset()
) -> list[Race]:
    """The pairs of accesses to one element in different iterations of the loop of `var`, whatever its kind.

    `meet` says whether two accesses count if they touch one element; buffers in `without` do not count. What is
    proved to have none is not in the list; doubts are. Buffers have one memory for all iterations.

    Raises `TVMagicError` if the function has blocks.
    """
    program = collect(func)
    inside = [a for a in program.accesses if any(d.var is var for d in a.place.domains) and a.buffer not in without]
    if not inside:
        return []
    around = inside[0].place.domains
    place = next(n for n, d in enumerate(around) if d.var is var)
    groups = [_Group("parallel", [around[place]], around[:place], g, None, meet, True) for g in _by_buffer(inside)]
    found = [race for group in groups if (race := _judge(group, program, None)) is not None]
    return sorted(found, key=lambda race: not race.certain)


# ---------------------------------------------------------------------------- what runs at the same time


def _groups(program: Program, known: KnownConditions) -> Iterator[_Group]:
    yield from _loop_groups(program, known)
    yield from _kernel_groups(program)


def _by_buffer(accesses: Iterable[Access]) -> Iterator[list[Access]]:
    """The accesses of each buffer that is written."""
    groups: dict[ir.Var, list[Access]] = {}
    for access in accesses:
        groups.setdefault(access.buffer.data, []).append(access)
    for group in groups.values():
        if any(a.write for a in group):
            yield _comparable(group)


def _loop_groups(program: Program, known: KnownConditions) -> Iterator[_Group]:
    """Parallel and vectorized loops."""
    inside: dict[Domain, list[Access]] = {}
    for access in program.accesses:
        lanes = False  # a vectorized loop in another one is serial
        for depth, domain in enumerate(access.place.domains):
            vectorized = domain.kind == "vectorized"
            if (domain.kind == "parallel" or (vectorized and not lanes)) and access.depth <= depth:
                inside.setdefault(domain, []).append(access)
            lanes = lanes or vectorized
    for domain, accesses in inside.items():
        around = accesses[0].place.domains
        shared = around[: around.index(domain)]
        lanes = _Lanes(domain, shared, known) if domain.kind == "vectorized" else None
        for group in _by_buffer(accesses):
            if lanes is None:
                yield _Group("parallel", [domain], shared, group)
            elif lanes.together:
                yield _Group("vectorized", [domain], shared, group, lanes.time, lanes.meet)


def _kernel_groups(program: Program) -> Iterator[_Group]:
    """Blocks of threads, and the threads of a block within one statement."""
    kernels: dict[Domain, list[Access]] = {}
    for access in program.accesses:
        first = next((d for d in access.place.domains if d.tag), None)
        if first is not None:
            kernels.setdefault(first, []).append(access)
    for first, accesses in kernels.items():
        around = accesses[0].place.domains
        outside = around[: around.index(first)]
        axes = {d.tag: d for a in accesses for d in a.place.domains if d.tag}
        blocks = [d for tag, d in sorted(axes.items()) if tag.startswith("blockIdx")]
        redundant = _Redundant(accesses, blocks, program)
        common = [a for a in accesses if a.depth <= len(outside) and a not in redundant]
        if blocks:
            for group in _by_buffer(common):
                yield _Group(", ".join(d.tag for d in blocks), blocks, outside, group)
        yield from _thread_groups(accesses, len(outside), program)


def _thread_groups(accesses: Sequence[Access], outside: int, program: Program) -> Iterator[_Group]:
    statements: dict[ir.Stmt, list[Access]] = {}
    for access in accesses:
        scope = access.buffer.scope()
        if scope.startswith("shared") or (scope == "global" and access.depth <= outside):
            statements.setdefault(access.statement, []).append(access)
    redundant: dict[tuple[Domain, ...], _Redundant] = {}
    for group in statements.values():
        threads = tuple(d for d in group[0].place.domains if d.tag.startswith("threadIdx"))
        if not threads:
            continue
        if threads not in redundant:
            redundant[threads] = _Redundant(accesses, threads, program)
        shared = [d for d in group[0].place.domains if d not in threads]
        for part in _by_buffer(a for a in group if a not in redundant[threads]):
            yield _Group(", ".join(d.tag for d in threads), threads, shared, part)


class _Redundant:
    """The stores by which all threads store the same values in the same places, which is not a race.

    What differs from thread to thread follows from the threads' indices, through memory too.
    """

    def __init__(self, accesses: Sequence[Access], threads: Sequence[Domain], program: Program) -> None:
        self.differing: set[ir.Var] = {d.var for d in threads}
        self.combined, self.data = program.combined, program.data
        stores = [a for a in accesses if a.write]
        reading: dict[ir.Stmt, set[ir.Var]] = {}
        for access in accesses:
            if not access.write:
                reading.setdefault(access.statement, set()).add(access.buffer.data)
        self.own = {a.node for a in stores if a.buffer.data in reading.get(a.statement, ())}
        self.changed = True
        while self.changed:
            self.changed = False
            for store in stores:
                if store.buffer.data not in self.differing and store.buffer.data not in self.combined:
                    if self._differs(store):
                        self.differing.add(store.buffer.data)
                        self.changed = True

    def _differs(self, store: Access) -> bool:
        if store.indices is None or store.value is None:
            return True
        guards = [guard for guard, _ in store.place.guards]
        ranges = [e for d in store.domains if d.var not in self.differing for e in (d.begin, d.extent)]
        return any(self._depends(e) for e in (*store.indices, store.value, *guards, *ranges))

    def _depends(self, node: ir.PrimExpr) -> bool:
        found: list[Any] = []
        ir.post_order_visit(node, found.append)
        return any(
            (isinstance(n, ir.Var) and (n in self.differing or n in self.data))
            or (isinstance(n, ir.BufferLoad) and n.buffer.data in self.differing)
            for n in found
        )

    def __contains__(self, access: Access) -> bool:
        return access.write and access.node not in self.own and not self._differs(access)


# ---------------------------------------------------------------------------- lanes


class _Lanes:
    """When the accesses in a vectorized loop happen: statement by statement, in each the loads before the store.

    A statement that cannot be written with vectors runs lane by lane, as a serial loop would. A condition that always
    holds is gone by then, and what it guards does become vectors.
    """

    def __init__(self, domain: Domain, shared: Sequence[Domain], known: KnownConditions) -> None:
        self.loop, self.shared = domain.loop, shared
        scalar = lane_by_lane(known.loops.get(domain.var) or domain.loop)
        self.scalar = {known.origin.get(stmt, stmt) for stmt in scalar}
        self.together = self.loop.body not in self.scalar
        self.sizes: dict[ir.Stmt, int] = {}

    def meet(self, first: Access, second: Access) -> bool:
        """Whether the order of two accesses can be another than in a serial loop."""
        if not (first.write or second.write):
            return False
        whole = self._vector_statement(first)
        alone = whole is not None and whole is self._vector_statement(second)
        return self._repeats(first, whole) if alone or (first.write and first.node is second.node) else True

    def _repeats(self, access: Access, whole: ir.Stmt | None) -> bool:
        """Whether a loop inside the vectorized one runs the access, or the statement around it, several times."""
        steps = [step.stmt for step in access.place.path]
        inner = steps[steps.index(self.loop) + 1 : None if whole is None else steps.index(whole)]
        return any(isinstance(stmt, (ir.For, ir.While)) for stmt in inner) or (whole is None and bool(access.own))

    def _vector_statement(self, access: Access) -> ir.Stmt | None:
        """The statement around an access that runs lane by lane."""
        return next((step.stmt for step in access.place.path if step.stmt in self.scalar), None)

    def time(self, access: Access, values: Mapping[ir.Var, Any]) -> Any:
        """The number of an access in the order of the vectorized body."""
        parts: list[Any] = []
        path = access.place.path
        start = next(n for n, step in enumerate(path) if step.stmt is self.loop)
        for step in path[start + 1 :]:
            stmt = step.stmt
            if stmt in self.scalar:
                return sum(parts)
            if isinstance(stmt, ir.SeqStmt):
                parts += [self._size(part) for part in stmt.seq[: step.part]]
            elif isinstance(stmt, ir.For) and stmt.loop_var in values:
                begin = evaluate(stmt.min, values)
                parts.append((values[stmt.loop_var] - begin) * self._size(stmt.body))
        return sum(parts) + int(access.write)

    def _size(self, stmt: ir.Stmt) -> int:
        """More than the number of times that a statement takes."""
        if stmt not in self.sizes:
            self.sizes[stmt] = self._measure(stmt)
        return self.sizes[stmt]

    def _measure(self, stmt: ir.Stmt) -> int:
        if isinstance(stmt, ir.SeqStmt):
            return sum(self._size(part) for part in stmt.seq)
        if isinstance(stmt, ir.For):
            extent = stmt.extent.value if isinstance(stmt.extent, ir.IntImm) else 1 << 10
            return max(extent, 1) * self._size(stmt.body)
        if isinstance(stmt, ir.IfThenElse):
            branches = (stmt.then_case, stmt.else_case)
            return max(self._size(branch) for branch in branches if branch is not None)
        body = getattr(stmt, "body", None)
        return self._size(body) if isinstance(body, ir.Stmt) else 2


# ---------------------------------------------------------------------------- one buffer


def _comparable(accesses: list[Access]) -> list[Access]:
    """The accesses with indices of one kind: all by dimension, or all by the number of the element."""
    ranks = {(a.flat, len(a.indices)) for a in accesses if a.indices is not None}
    shapes = {tuple(getattr(s, "value", s) for s in a.buffer.shape) for a in accesses}
    if len(ranks) <= 1 and len(shapes) == 1:
        return accesses
    return [_flattened(a) for a in accesses]


def _flattened(access: Access) -> Access:
    if access.flat or access.indices is None:
        return access
    buffer = access.buffer
    number: ir.PrimExpr = buffer.elem_offset
    strides = buffer.strides or _dense(buffer.shape)
    for index, stride in zip(access.indices, strides):
        number = number + index * stride
    return replace(access, indices=(number,), flat=True)


def _dense(shape: Sequence[ir.PrimExpr]) -> list[ir.PrimExpr]:
    strides: list[ir.PrimExpr] = [ir.IntImm("int32", 1)]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return strides[::-1]


def _judge(group: _Group, program: Program, sizes: Mapping[str, int] | int | None) -> Race | None:
    """A race of the group, certain or not; None if it is proved to have none."""
    hidden = next((a for a in group.accesses if a.indices is None), None)
    if hidden is not None:
        return _doubt(group, f"what is touched behind the pointer `{hidden.node}` is not known")
    if _proved(group, program):
        return None
    writes = [a for a in group.accesses if a.write]
    partners = {True: group.accesses, False: writes}
    accesses = [a for a in group.accesses if any(group.meet(a, b) for b in partners[a.write])]
    if not accesses:
        return None
    free = _sizes(group, program)
    reason = ""
    for sample in [{}] if not free else _samples(free, sizes):
        found = Search(group.parallel, group.shared, sample, group.times).run(accesses)
        if found.conflict is not None:
            return _describe(group, found.conflict, sample)
        reason = reason or found.reason
    if not free and not reason:
        return None
    return _doubt(group, reason or "it is not proved for all sizes, and no two were found at small ones")


def _proved(group: _Group, program: Program) -> bool:
    forms = Forms([d.var for d in group.parallel], {d.var for d in group.shared}, program.data)
    forms.add_domains(group.shared)
    forms.shared |= _sizes(group, program)
    distinct: dict[Any, tuple[Any, Access]] = {}
    for form, access in zip(forms.of(group.accesses), group.accesses):
        alike = group.times is None and not group.by_node
        key = (form, access.write) if alike else (form, access.node)
        distinct.setdefault(key, (form, access))
    pairs = list(distinct.values())
    if len(pairs) > _MOST_FORMS:
        return False
    return all(
        never_meet(forms, form, other)
        for number, (form, access) in enumerate(pairs)
        for other, second in pairs[number:]
        if group.meet(access, second)
    )


def _sizes(group: _Group, program: Program) -> set[ir.Var]:
    """The variables that are neither loops' nor data."""
    bound = {d.var for a in group.accesses for d in a.domains} | {d.var for d in (*group.parallel, *group.shared)}
    nodes: list[ir.PrimExpr] = []
    for access in group.accesses:
        nodes += access.indices or ()
        nodes += [guard for guard, _ in access.place.guards]
        nodes += [e for d in access.domains for e in (d.begin, d.extent)]
    return {v for v in variables(nodes) if v not in bound and v not in program.data and v.dtype.is_int}


def _samples(free: Iterable[ir.Var], sizes: Mapping[str, int] | int | None) -> list[dict[ir.Var, int]]:
    """Values of symbolic sizes to try."""
    if sizes is None:
        return [dict.fromkeys(free, n) for n in _SAMPLE]
    return [{v: sizes if isinstance(sizes, int) else sizes.get(v.name, _SAMPLE[0]) for v in free}]


# ---------------------------------------------------------------------------- in words

_WORDS = {"parallel": "parallel loop", "vectorized": "vectorized loop"}


def _doubt(group: _Group, reason: str) -> Race:
    buffer = group.accesses[0].buffer
    text = f"{_loop_text(group)} may have iterations that touch the same element of `{buffer.name}`: {reason}"
    return Race(False, group.kind, group.parallel[0].loop, buffer, text)


def _loop_text(group: _Group) -> str:
    if group.kind in _WORDS:
        return f"{_WORDS[group.kind]} `{group.parallel[0].var.name}`"
    return f"the threads of `{group.kind}`"


def _describe(group: _Group, conflict: Conflict, sizes: Mapping[ir.Var, int]) -> Race:
    first, second = conflict.first, conflict.second
    buffer = first.buffer
    values = [{d.var.name: v[d.var] for d in group.parallel} for v in conflict.values]
    texts = [", ".join(f"{n} = {x}" for n, x in v.items()) for v in values]
    element = _element(first, conflict.element)
    where = f"{buffer.name}[{', '.join(map(str, element))}]"
    if first.write and second.write:
        deed = f"both write `{where}`"
    else:
        deed = f"touch `{where}`: one writes it, the other reads it"
    what = "iterations" if group.kind in _WORDS else "threads"
    text = f"{what} {texts[0]} and {texts[1]} of {_loop_text(group)} {deed}"
    around = [f"{d.var.name} = {conflict.values[0][d.var]}" for d in group.shared if d.var in conflict.values[0]]
    around += [f"{v.name} = {n}" for v, n in sizes.items()]
    text += f" (with {', '.join(around)})" if around else ""
    if not conflict.certain:
        text = f"{text}, if the data let both happen"
    loop = group.parallel[0].loop
    return Race(
        conflict.certain, group.kind, loop, buffer, text, element, (values[0], values[1]), first.node, second.node
    )


def _element(access: Access, place: tuple[int, ...]) -> tuple[int, ...]:
    """The place of an element by dimension, if the number of it tells that."""
    shape = [s.value for s in access.buffer.shape if isinstance(s, ir.IntImm)]
    plain = access.flat and not access.buffer.strides and len(shape) == len(access.buffer.shape)
    if not plain or not 0 <= place[0] < np.prod(shape, dtype=np.int64):
        return place
    return tuple(int(i) for i in np.unravel_index(place[0], shape))
