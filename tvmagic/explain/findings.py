"""What is wrong with a schedule, in words: each rule looks at one hot nest of the model and names calls that may help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tvmagic.explain import suggested_edits
from tvmagic.explain.diagnosis import CODES, Case, Suspect
from tvmagic.explain.schedule_writer import View, plain_name
from tvmagic.explain.trial import Edit
from tvmagic.ir import FloatImm, IntImm
from tvmagic.ir.query import nodes_of
from tvmagic.model.core_model import shuffled
from tvmagic.model.footprints import patterns, touched
from tvmagic.model.guards import depending
from tvmagic.model.nests import Access, Loop
from tvmagic.model.program_model import (
    LAUNCH,
    NestModel,
    entry,
    in_one_core,
)
from tvmagic.model.traffic import BYTES_A_CYCLE
from tvmagic.model.unrolling import parts
from tvmagic.target.machine import Machine

__all__ = ["CODES", "Case", "Suspect", "suspects"]

_CONFLICTS_COST = 1.15  # times that a nest takes longer by lines that push each other out, from which on it is said

Rule = Callable[[Case, NestModel], Iterable[Suspect]]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Have a rule looked at for each hot nest."""
    RULES.append(function)
    return function


def suspects(case: Case) -> list[Suspect]:
    """What may be wrong with a version, nest by nest."""
    return [s for nest in case.model.hot for look in RULES for s in look(case, nest)]


def _shapes(machine: Machine) -> list[tuple[int, int]]:
    """Tiles to try: the machine's best first."""
    tile = machine.tile()
    return list(dict.fromkeys([(tile.rows, tile.vectors), (4, 2), (8, 1), (6, 2), (1, 4)]))


# ---------------------------------------------------------------------------- shared lines


@rule
def _sharing(case: Case, nest: NestModel) -> Iterable[Suspect]:
    view, loop = case.view(nest), next((x for x in nest.nest.loops if x.parallel), None)
    if view is None or loop is None or nest.sharing < 0.2 * nest.time:
        return
    edits = [*suggested_edits.parallel_rows(view, case.lanes(nest)), *suggested_edits.parallel_lines(view, loop.extent, case.machine, case.lanes(nest))]  # fmt: skip
    text = (
        f"threads of the parallel loop `{loop.name}` write parts of the same cache lines of `{case.name(nest)}` "
        f"({case.machine.line} bytes), which then go from core to core"
    )
    yield Suspect("false-sharing", nest, text, edits, True)


# ---------------------------------------------------------------------------- lines that push each other out


def _smooth(nest: NestModel, loop: Loop) -> bool:
    """Whether all accesses that a loop moves go to the next element."""
    moved = [a.address.stride(loop.var) for a in nest.nest.accesses if a.address.uses(loop.var)]
    return bool(moved) and all(step in (1, -1) for step in moved)


@rule
def _conflicts(case: Case, nest: NestModel) -> Iterable[Suspect]:
    """Lines that a cache has space for, but not at the place where all of them belong."""
    level = {"L2": 1, "L3": 2}.get(nest.limit)
    if level is None:
        return
    parts = patterns(nest.nest.accesses)
    waiting = [p for p in parts if case.traffic.waiting(p, nest.nest) >= 0.3 * nest.transfers["L2"]]
    pattern = max(
        waiting if level == 1 and waiting else parts,
        key=lambda p: case.traffic.moved(nest.nest, p, level) * case.traffic.pushed(nest.nest, p, level),
    )
    way = case.traffic.ways[level - 1]
    share = 0.3 if level == 1 and waiting else case.traffic.pushed(nest.nest, pattern, level)
    steps = [abs(s) * pattern.access.bytes for s in pattern.access.address.strides.values()]
    apart = max((s for s in steps if s >= case.machine.line), key=lambda s: (math.gcd(s, way), -s), default=0)
    if share < 0.3 or not apart or (nest.reason == "strided" and any(_smooth(nest, x) for x in nest.nest.loops)):
        return  # or another order of the loops is what helps
    now = in_one_core(nest.core, nest.transfers, nest.waits)
    if now < _CONFLICTS_COST * in_one_core(nest.core, *case.traffic.cycles(nest.nest, conflicts=False)):
        return  # computing hides it
    view = case.view(nest)
    edits = _smaller(case, 0.5)
    if view is not None:
        # lanes that are apart ask for another order of the loops, not for vectors
        vectors = [] if nest.reason == "strided" else suggested_edits.vectorized(view, case.lanes(nest))
        edits = [*suggested_edits.square(view), *edits, *vectors, *suggested_edits.blocked(view)]
    text = (
        f"lines of `{case.read(nest, pattern.access)}` are {apart} bytes apart and belong to the same few places of the "
        f"{'first' if level == 1 else 'second'} cache, from which they push each other out; fewer of them at a time would stay, as would rows of another length"
    )
    yield Suspect("cache-conflicts", nest, text, edits, True, share >= 0.5)


# ---------------------------------------------------------------------------- vectors


@rule
def _not_vectorized(case: Case, nest: NestModel) -> Iterable[Suspect]:
    if nest.vectorized:
        return
    loop = nest.unrolled[-1] if nest.unrolled else nest.rolled
    view, lanes = case.view(nest), case.lanes(nest)
    edits: list[Edit] = []
    if view is not None:
        edits = [*suggested_edits.tiled(view, case.machine, lanes, _shapes(case.machine)[:2]), *suggested_edits.vectorized(view, lanes), *suggested_edits.longest_inside(view), *suggested_edits.square(view), *suggested_edits.in_any_order(view), *suggested_edits.partial_sums(view, lanes)]  # fmt: skip
    said = f" LLVM says: {case.remarks[id(loop.node)]}." if id(loop.node) in case.remarks else ""
    far = _farthest(nest)
    if nest.reason == "reduction":
        text = f"the loop `{loop.name}` adds to one element of `{case.name(nest)}`; sums of floats keep their order, so it runs one element at a time.{said}"
        yield Suspect("reduction-order", nest, text, edits, True)
    elif nest.reason == "strided" and far is not None:
        moved = abs(far.address.stride(loop.var) or 0)
        so = (
            "each lane of a vector takes an access of its own"
            if id(loop.node) in case.lane_by_lane
            else "no vectors are made of it"
        )
        text = f"along the innermost loop `{loop.name}` the access of `{case.read(nest, far)}` moves by {moved or 'varying numbers of'} elements, so that {so}.{said}"
        yield Suspect(
            "strided-access", nest, text, edits + suggested_edits.parallel_rows(view, lanes) * (view is not None), True
        )
    elif nest.reason == "recurrence":
        text = f"each iteration of `{loop.name}` takes what one before it has stored in `{case.name(nest)}`, so that they run one after the other"
        yield Suspect("not-vectorized", nest, text, edits, True)
    elif nest.reason == "guard":
        return
    elif case.checked and "call instruction" in said:
        text = f"compiled accesses are checked while the loop `{loop.name}` runs, so that it runs one element at a time; see `check_bounds`"
        yield Suspect("not-vectorized", nest, text, [], fact=True)
    elif nest.reason == "choice":
        text = f"LLVM unrolls the loop `{loop.name}`, and its copies choose values by different conditions, so that no vectors are made of them.{said}"
        yield Suspect("not-vectorized", nest, text, edits, True)
    elif nest.reason == "kept scalar":
        text = f"the loop `{loop.name}` runs one element at a time, as tvmagic keeps LLVM from making vectors of it that are slower"
        yield Suspect("not-vectorized", nest, text, edits, True)
    elif nest.reason == "lanes apart":
        text = f"the loop `{loop.name}` is so short that LLVM unrolls it and makes vectors along `{nest.rolled.name}`, whose lanes are far apart in memory.{said}"
        yield Suspect("not-vectorized", nest, text, edits, True)
    else:
        yield Suspect("not-vectorized", nest, f"the loop `{loop.name}` runs one element at a time.{said}", edits, True)


def _farthest(nest: NestModel) -> Access | None:
    loop = nest.unrolled[-1] if nest.unrolled else nest.rolled
    moving = [a for a in nest.nest.accesses if a.address.uses(loop.var) and abs(a.address.stride(loop.var) or 99) > 1]
    return max(moving, key=lambda a: abs(a.address.stride(loop.var) or 1 << 30), default=None)


@rule
def _strided_vectors(case: Case, nest: NestModel) -> Iterable[Suspect]:
    bad = [a for a in nest.nest.accesses if a.lanes > 1 and a.kind in ("strided", "gathered") and not shuffled(a)]
    if not bad:
        yield from _picked_by_llvm(case, nest)
        return
    access = max(bad, key=lambda a: abs(a.address.lane or 1 << 30))
    view, lanes = case.view(nest), case.lanes(nest)
    edits: list[Edit] = []
    if view is not None:
        edits = [
            *suggested_edits.vectorized(view, lanes),
            *suggested_edits.tiled(view, case.machine, lanes, _shapes(case.machine)[:2]),
            *suggested_edits.square(view),
        ]
    what = "stores" if access.store else "loads"
    apart = f"{access.address.lane} elements apart" if access.address.lane else "anywhere"
    text = f"the vector of `{case.read(nest, access)}` {what} {access.lanes} lanes that are {apart}, each on its own"
    yield Suspect("strided-vectors", nest, text, edits, True)


def _picked_by_llvm(case: Case, nest: NestModel) -> Iterable[Suspect]:
    """Vectors that LLVM makes of a loop along which elements are a few apart."""
    loop, view = nest.lanes_of, case.view(nest)
    if not nest.by_llvm or loop is None or nest.port != "shuffles" or not nest.in_core:
        return
    steps = [(abs(a.address.stride(loop.var) or 0), a) for a in nest.nest.accesses]
    step, access = max(steps, key=lambda x: x[0])
    if step < 2:
        return
    edits = (
        []
        if view is None
        else [*suggested_edits.vectorized(view, case.lanes(nest)), *suggested_edits.longest_inside(view)]
    )
    text = f"along the loop `{loop.name}` LLVM makes vectors of elements of `{case.read(nest, access)}` that are {step} apart, which it puts together one by one"
    yield Suspect("strided-vectors", nest, text, edits, True)


@rule
def _narrow_vectors(case: Case, nest: NestModel) -> Iterable[Suspect]:
    """Vectors that a schedule asked for, of which a register holds two or more."""
    if nest.nest.in_rows:
        return  # the schedule did not choose them
    access = min((s.target for s in nest.nest.statements), key=lambda a: a.lanes * a.bits)
    lanes = max(1, case.machine.vector_bits // max(8, access.bits))
    registers = parts(access.lanes, access.bits, case.machine)
    if access.lanes < 2 or access.kind != "contiguous" or access.lanes > 0.65 * registers * lanes or not nest.in_core:
        return
    extents = {size for view in case.views.values() for size in view.shape}
    sizes = [
        k
        for k in range(4 * lanes, lanes // 2, -1)
        if k != access.lanes and 0 in (k % access.lanes, k % lanes) and any(e % k == 0 for e in extents if e)
    ]
    edits = [n.edit(size) for size in sizes[:6] for n in case.numbers if n.value == access.lanes]
    take = f", which take {registers} registers" if registers > 1 else ""
    text = (
        f"the vectors of `{case.name(nest)}` have {access.lanes} lanes of {access.bits} bits{take}; a register of "
        f"{case.machine.name} holds {lanes}, and an operation on all takes no longer"
    )
    yield Suspect("narrow-vectors", nest, text, edits, True)


@rule
def _short_vectors(case: Case, nest: NestModel) -> Iterable[Suspect]:
    """Vectors that LLVM makes of a short loop, of which a register holds two or more."""
    loop, lanes = nest.lanes_of, case.lanes(nest)
    if not nest.by_llvm or loop is None or loop is nest.rolled or 2 * nest.lanes > lanes or not nest.in_core:
        return
    view = case.view(nest)
    edits = [n.edit(size) for n in case.numbers if n.value == loop.extent for size in (4 * lanes, 2 * lanes, lanes)]
    edits += _dividing(case, range(lanes, 8 * lanes + 1))
    if view is not None:
        edits += [*suggested_edits.vectorized(view, lanes), *suggested_edits.longest_inside(view)]
    text = (
        f"the loop `{loop.name}` has {loop.extent} iterations, which become vectors of {nest.lanes:.2g} lanes on average; a register of "
        f"{case.machine.name} holds {lanes}"
    )
    yield Suspect("narrow-vectors", nest, text, edits)


@rule
def _few_sums(case: Case, nest: NestModel) -> Iterable[Suspect]:
    others = max((v for k, v in nest.ports.items() if k not in ("latency", "pages")), default=0.0)
    if not nest.vectorized or not nest.in_core or nest.latency <= 1.25 * others:
        return
    view, lanes = case.view(nest), case.lanes(nest)
    need = case.machine.sums_in_flight()
    edits: list[Edit] = []
    if view is not None:
        edits = [*suggested_edits.tiled(view, case.machine, lanes, _shapes(case.machine)), *_larger(case)]
    waits = f"waits {case.machine.fma_latency} cycles"
    target = next((s.target for s in nest.nest.statements if s.accumulates), None)
    row = math.prod(x.extent for x in nest.unrolled if target is not None and not target.address.uses(x.var))
    if nest.chains:
        text = f"{nest.chains} vector{'s' * (nest.chains != 1)} of sums in the loop `{nest.rolled.name}`: each {waits} for its last addition; {need} would keep the multiply-adders busy"
    elif row > 1:
        text = f"an iteration of `{nest.rolled.name}` adds {row} times to one place, and each addition {waits} for the one before; {need} sums side by side would keep the multiply-adders busy"
    else:
        text = f"each addition to a place of `{case.name(nest)}` waits for the last one there to be stored and loaded again; sums that stay in registers would not"
    yield Suspect("few-accumulators", nest, text, edits, True)


def _larger(case: Case) -> list[Edit]:
    sizes = sorted({n.value * k for n in case.numbers for k in (2, 4)})
    return suggested_edits.other_sizes(case.numbers, sizes)[:4]


@rule
def _spills(case: Case, nest: NestModel) -> Iterable[Suspect]:
    if not nest.spills:
        return
    view = case.view(nest)
    most = case.machine.vector_registers - 4
    edits = _smaller(case, most / nest.sums)
    if view is not None:
        each = max(1, nest.sums // max(1, max((leaf.extent for leaf in view.leaves if leaf.kind == "unrolled"), default=1)))  # fmt: skip
        edits = [*suggested_edits.tiled(view, case.machine, case.lanes(nest), _shapes(case.machine)[:1]), *edits, *suggested_edits.fewer_rows(view, max(2, most // each))]  # fmt: skip
    text = (
        f"the tile of `{case.name(nest)}` takes {nest.sums} vector registers for its sums, and there are "
        f"{case.machine.vector_registers}: {nest.spills} go through memory in each iteration of `{nest.rolled.name}`"
    )
    yield Suspect("spills", nest, text, edits, True)


def _smaller(case: Case, ratio: float) -> list[Edit]:
    """Each size of the cell replaced by the two of its divisors that come next below a share of it."""
    found: list[Edit] = []
    for number in case.numbers:
        good = [d for d in range(2, number.value) if number.value % d == 0 and d <= max(2, number.value * ratio)]
        found += [number.edit(d) for d in sorted(good, reverse=True)[:2]]
    return found


@rule
def _small_tile(case: Case, nest: NestModel) -> Iterable[Suspect]:
    loads, work = nest.ports.get("loads", 0.0), nest.ports.get("multiply-adds", 0.0)
    if not nest.vectorized or not nest.in_core or not nest.sums or loads <= 1.15 * work or nest.latency > 1.25 * loads:
        return
    if nest.sums > case.machine.vector_registers // 2:
        return
    view, lanes = case.view(nest), case.lanes(nest)
    edits = (
        []
        if view is None
        else [*suggested_edits.tiled(view, case.machine, lanes, _shapes(case.machine)), *_larger(case)]
    )
    text = (
        f"a step of `{nest.rolled.name}` loads {loads * case.machine.loads_per_cycle:.3g} vectors for {nest.sums} vectors of "
        f"multiply-adds; a larger tile in the {case.machine.vector_registers} registers uses each load more often"
    )
    yield Suspect("small-tile", nest, text, edits)


# ---------------------------------------------------------------------------- memory


@rule
def _streamed(case: Case, nest: NestModel) -> Iterable[Suspect]:
    slowest = max(nest.transfers, key=lambda name: nest.transfers[name])
    if nest.limit not in BYTES_A_CYCLE and (nest.sums or nest.transfers[slowest] < 0.4 * nest.core):
        return  # but what is added up in memory may be as fast as the core, and slower than in registers
    level = {"L2": 1, "L3": 2, "memory": 3}[slowest]
    parts = patterns(nest.nest.accesses)
    pattern = max(parts, key=lambda p: case.traffic.moved(nest.nest, p, level))
    moved = case.traffic.moved(nest.nest, pattern, level)
    once = touched(pattern, 0, case.machine.line) * (1 + (pattern.stored and level == 3))
    if moved < 3 * once:
        return
    view = case.view(nest)
    edits: list[Edit] = []
    if view is not None:
        tiles = (
            suggested_edits.tiled(view, case.machine, case.lanes(nest), _shapes(case.machine)[:2])
            if nest.vectorized
            else []
        )
        edits = [*tiles, *suggested_edits.blocked(view), *suggested_edits.square(view)]
    where = {"L2": "the second cache", "L3": "the third cache", "memory": "memory"}[slowest]
    text = (
        f"`{case.read(nest, pattern.access)}` ({_bytes(once)}) comes {moved / once:.0f} times from {where}, {_bytes(moved)}; a block of it "
        f"would stay in the cache below, of {_bytes(case.traffic.sizes[level - 1])}"
    )
    yield Suspect("streamed-operand", nest, text, edits)


@rule
def _sums_in_memory(case: Case, nest: NestModel) -> Iterable[Suspect]:
    """Sums that are loaded and stored in each step, as the loop that adds to them is not the innermost."""
    moves, work = max(nest.ports.get(p, 0.0) for p in ("loads", "stores")), nest.ports.get("multiply-adds", 0.0)
    summed = any(s.accumulates for s in nest.nest.statements)
    if not nest.vectorized or not nest.in_core or nest.sums or not summed or moves <= 1.15 * work:
        return
    view, lanes = case.view(nest), case.lanes(nest)
    edits = [] if view is None else suggested_edits.tiled(view, case.machine, lanes, _shapes(case.machine))
    text = (
        f"each step of `{nest.rolled.name}` loads and stores the sums of `{case.name(nest)}` that it adds to; a tile of sums stays in "
        "registers if the loops that are reduced over are inside all others but the tile's"
    )
    yield Suspect("small-tile", nest, text, edits, True)


@rule
def _init_guards(case: Case, nest: NestModel) -> Iterable[Suspect]:
    """Sums that go through memory, as what they begin with is stored inside the loops that add to them."""
    view = case.view(nest)
    used = next((s.begun for s in nest.nest.statements if s.begun and s.accumulates), frozenset())
    if view is None or not used or nest.sums or not nest.in_core:
        return
    names = " and ".join(f"`{loop.name}`" for loop in nest.nest.loops if loop.var in used)
    text = (
        f"what the sums of `{case.name(nest)}` begin with is stored inside the loops that add to them, if {names} begin{'s' * (len(used) == 1)}: "
        "each step asks for that, and loads and stores the sums; stored before these loops, they would stay in registers"
    )
    yield Suspect("guards", nest, text, suggested_edits.begun_apart(view))


@rule
def _widened(case: Case, nest: NestModel) -> Iterable[Suspect]:
    """A constant that makes the result wider than all that it is computed from, if memory is what takes time."""
    if nest.limit not in BYTES_A_CYCLE:
        return
    for s in nest.nest.statements:
        loaded = [a for a in s.loads if a.data is not s.target.data]
        if not all(getattr(a.node.dtype, "is_float", False) for a in loaded):
            continue  # integers have to become floats
        bits = [a.bits for a in loaded]
        wide = s.value.dtype.element_of
        numbers = [n for n in nodes_of(s.value, FloatImm) if n.dtype == wide]
        if s.floating and bits and max(bits) < wide.bits == s.target.bits and numbers:
            text = (
                f"`{case.name(nest)}` is {wide}, as the constant `{numbers[0]}` is, though all that it is computed from has "
                f"{max(bits)} bits; in {max(bits)} bits it would take {s.target.bits / max(bits):.2g} times less memory"
            )
            yield Suspect("conversion", nest, text, [], fact=True)
            return


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


@rule
def _recomputed(case: Case, nest: NestModel) -> Iterable[Suspect]:
    view = case.view(nest)
    times = case.waste.get(plain_name(view.name), 1.0) if view is not None else 1.0
    if view is None or times < 1.25:
        return
    readers = [reader for r in view.readers if (reader := case.views.get(plain_name(r)))]
    edits = [e for reader in readers for e in case.elsewhere(view, reader)]
    moved = [
        e
        for edit, block in case.attachments
        for reader in readers
        for e in suggested_edits.attached(edit, block, reader)
    ]
    edits = [
        *(edit for edit, _ in case.attachments),
        *moved,
        *(e for e in edits if "compute_root" in e.text),
        *(e for e in edits if "compute_root" not in e.text),
        *_larger(case),
    ]
    text = f"`{view.name}` computes {times:.3g} elements for each one that is needed" + (
        f", as it runs inside a loop of `{view.attached}`" if view.attached else ""
    )
    yield Suspect("recomputed", nest, text, edits[:8], True, times >= 2)


@rule
def _inlined(case: Case, nest: NestModel) -> Iterable[Suspect]:
    view = case.view(nest)
    for stage in case.inlined:
        if view is None or plain_name(stage.reader) != plain_name(case.name(nest)) or not nest.in_core:
            continue
        edits = [edit for edit, _ in case.inlinings]
        for edit, block in case.inlinings:
            if block:
                edits += suggested_edits.attached(edit, block, view)
        if view.is_te and stage.name.isidentifier():
            own = View(stage.name, f"s[{stage.name}]", [], 0)
            edits = [e for e in suggested_edits.compute_elsewhere(own, view) if "inline" not in e.text][:6] + edits
        if stage.readers:
            text = f"`{stage.name}` is inlined into {' and '.join(f'`{r}`' for r in stage.readers)}, each of which computes it again"
        else:
            text = f"`{stage.name}` is inlined into `{stage.reader}`, which computes it at {stage.times} places for each element"
        yield Suspect("recomputed", nest, text, edits)


@rule
def _in_memory(case: Case, nest: NestModel) -> Iterable[Suspect]:
    if nest.limit not in BYTES_A_CYCLE:
        return
    made = {s.target.data for n in case.model.nests for s in n.nest.statements}
    for access in {a.data: a for s in nest.nest.statements for a in s.loads}.values():
        view = case.views.get(plain_name(case.read(nest, access)))
        reader = case.view(nest)
        if access.data not in made or view is None or reader is None or view is reader or view.is_output:
            continue
        if 2 * access.size <= case.traffic.sizes[0] or access.size < case.machine.cache(2) // 2:
            continue
        edits = case.elsewhere(view, reader)[:8]
        text = (
            f"all of `{view.name}` ({_bytes(access.size)}) is stored before `{reader.name}` reads it, more than the second "
            f"cache keeps; computed in parts inside `{reader.name}` it would stay in the cache"
        )
        yield Suspect("stage-in-memory", nest, text, [e for e in edits if "compute_root" not in e.text])


# ---------------------------------------------------------------------------- loops


@rule
def _short_loops(case: Case, nest: NestModel) -> Iterable[Suspect]:
    around = nest.iterations / max(nest.rolled.extent, 1) * entry(nest)
    if around < 0.2 * nest.core or nest.rolled.extent > 64 or not nest.in_core:
        return
    view = case.view(nest)
    edits: list[Edit] = []
    if view is not None:
        leaf = next((x for x in view.leaves if plain_name(x.name) == plain_name(nest.rolled.name)), None)
        edits = [*suggested_edits.unrolled(view, leaf), *suggested_edits.longest_inside(view), *suggested_edits.vectorized(view, case.lanes(nest))]  # fmt: skip
    text = (
        f"the innermost loop `{nest.rolled.name}` runs {nest.rolled.extent} times of {nest.cycles:.2g} "
        f"cycle{'s' * (f'{nest.cycles:.2g}' != '1')}; to enter and to leave it takes about {entry(nest)}"
    )
    yield Suspect("short-loop", nest, text, [*edits, *_larger(case)])


@rule
def _guards(case: Case, nest: NestModel) -> Iterable[Suspect]:
    loops = (nest.rolled, *nest.unrolled)
    found = [g for s in nest.nest.statements for loop in loops for g in depending(s.guards, loop) if nest.asked(s)]  # fmt: skip
    if not found or not nest.in_core:
        return
    view = case.view(nest)
    sizes = sorted({d for n in case.numbers for d in range(max(2, n.value // 2), n.value * 2 + 1)})
    edits = _dividing(case, sizes)
    if view is not None:
        edits = [*suggested_edits.begun_apart(view), *edits, *suggested_edits.vectorized(view, case.lanes(nest))]
        edits += [e for r in view.readers if (reader := case.views.get(plain_name(r))) for e in case.elsewhere(view, reader)][:3]  # fmt: skip
    text = f"each iteration of `{nest.rolled.name}` asks whether `{found[0]}`" + (
        "; that also keeps LLVM from making vectors" if not nest.vectorized else ""
    )
    yield Suspect("guards", nest, text, edits, not nest.vectorized)


def _dividing(case: Case, sizes: Sequence[int]) -> list[Edit]:
    """Sizes of the cell replaced by those near them that divide an extent of the program."""
    extents = {size for view in case.views.values() for size in view.shape}
    extents |= {math.prod(view.shape) for view in case.views.values()}
    found: list[Edit] = []
    for number in case.numbers:
        good = [
            s for s in sizes if number.value / 2 <= s <= number.value * 2 and any(e > 0 and e % s == 0 for e in extents)
        ]
        good = [s for s in good if s != number.value]
        found += [number.edit(s) for s in sorted(good, key=lambda s: abs(s - number.value))[:2]]
    return found


@rule
def _divisions(case: Case, nest: NestModel) -> Iterable[Suspect]:
    share = nest.ports.get("addresses", 0.0) / max(nest.cycles, 1e-9)
    if share < 0.3:
        return
    view = case.view(nest)
    edits = _dividing(case, range(2, 129))
    if view is not None:
        edits += suggested_edits.vectorized(view, case.lanes(nest))
    text = f"addresses in the loop `{nest.rolled.name}` need divisions or remainders that change in each iteration"
    yield Suspect("index-division", nest, text, edits, True)


@rule
def _conversion(case: Case, nest: NestModel) -> Iterable[Suspect]:
    count, work = nest.conversions, nest.work
    if not count or not nest.in_core or count < 0.2 * work or nest.port not in ("multiply-adds", "decoding"):
        return
    view = case.view(nest)
    edits = (
        suggested_edits.tiled(view, case.machine, case.lanes(nest), _shapes(case.machine)) if view is not None else []
    )
    text = (
        f"{count / work:.0%} of the operations in the loop `{nest.rolled.name}` convert between types; a tile of sums uses each "
        "converted value several times, a stage of its own would convert it once"
    )
    yield Suspect("conversion", nest, text, edits)


# ---------------------------------------------------------------------------- threads


@rule
def _threads(case: Case, nest: NestModel) -> Iterable[Suspect]:
    view, cores = case.view(nest), case.machine.cores
    if view is None or cores < 2:
        return
    loop = next((x for x in nest.nest.loops if x.parallel), None)
    whole = sum(n.time for n in case.model.nests if loop in n.nest.loops)  # of all that its threads do
    if loop is None:
        if nest.time > 10 * LAUNCH and not view.attached:
            text = f"one of {cores} cores computes `{case.name(nest)}`"
            yield Suspect("not-parallel", nest, text, suggested_edits.parallel(view, cores))
    elif nest.launches > 1 and nest.launches * LAUNCH > 0.1 * whole:
        text = (
            f"threads are started {nest.launches} times on the parallel loop `{loop.name}`, which costs more than "
            f"{nest.launches * LAUNCH / whole:.0%} of the time"
        )
        yield Suspect("parallel-too-fine", nest, text, suggested_edits.parallel_outside(view, case.parallel_calls))
    elif nest.width < 0.8 * cores and isinstance(loop.node.extent, IntImm) and nest.time > 3 * LAUNCH:
        few = loop.extent < cores
        code = "parallel-too-coarse" if few else "parallel-uneven"
        text = f"the parallel loop `{loop.name}` has {loop.extent} iteration{'s' * (loop.extent != 1)} for {cores} cores: as if {nest.width:.2g} core{'s' * (nest.width != 1)} worked"  # fmt: skip
        yield Suspect(code, nest, text, suggested_edits.fused_parallel(view, case.numbers, cores)[:6])
