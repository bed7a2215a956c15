"""Changes of a trace, on its JSON: tile sizes, the place of a computation, the order of loops, unrolling, how much runs
in parallel, or a step left out with all that depends on it.

A change may not fit the program; then its replay is refused, and the search takes another. It never changes a result,
as every call of a schedule keeps the program's meaning or is refused.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from tvmagic.errors import TVMagicError

_FACTORS = (2, 2, 2, 3, 5, 7)
_LARGEST = 4096  # of a tile size
_UNROLL = "pragma_auto_unroll_max_step"
_UNROLLED = 16  # iterations that are written out
_STEPS = (16, 64, 256, 512)
_TRIES = 10  # to find changes that fit
# Steps that may be left out. Without the others a schedule is none, or what is left does not fit.
_OPTIONAL = {
    "CacheRead", "CacheWrite", "TransformLayout", "RFactor", "DecomposeReduction", "Unroll", "Annotate", "Parallel",
    "ComputeAt", "ReverseComputeAt", "ComputeInline", "ReverseComputeInline", "Reorder", "SetScope", "Fuse",
}  # fmt: skip

Inst = list[Any]  # [kind, inputs, attributes, outputs]
Insts = list[Inst]


def mutate(trace: Any, draw: random.Random) -> Any:
    """The JSON of a trace with one change drawn from those that it allows; None if there are none."""
    for _ in range(12):
        kind = draw.choices(list(_KINDS), weights=list(_KINDS.values()))[0]
        insts, decisions = copy.deepcopy(trace)
        changed = kind(insts, decisions, draw)
        if changed and [insts, decisions] != list(trace):
            return [insts, decisions]
    return None


def changed(trace: Any, seed: int, fits: Callable[[Any], Any]) -> Any:
    """What `fits` makes of the JSON of a trace with one to three changes drawn from `seed`.

    `fits` raises `TVMagicError` for a trace that the program refuses; then other changes are drawn. After a few tries the
    last error is raised.
    """
    draw, error = (
        random.Random(seed),
        TVMagicError("there is nothing to change in the schedule", code="tune.nothing_to_change"),
    )
    for _ in range(_TRIES):
        new = trace
        for _ in range(draw.choice((1, 1, 1, 2, 2, 3))):
            new = mutate(new, draw) or new
        if new is not trace:
            try:
                return fits(new)
            except TVMagicError as refused:
                error = refused
    raise error


def _indices(insts: Insts, *kinds: str) -> list[int]:
    return [i for i, inst in enumerate(insts) if inst[0] in kinds]


# ---------------------------------------------------------------------------- tile sizes


def tile_size(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """One factor of a split multiplied or divided, or given to another factor of the same split."""
    places = [(i, n) for i in _indices(insts, "Split") for n, f in enumerate(insts[i][1]) if n and isinstance(f, int)]
    if not places:
        return sampled_tile(insts, decisions, draw)
    at, place = draw.choice(places)
    inputs = insts[at][1]
    others = [n for n, f in enumerate(inputs) if n and n != place and isinstance(f, int)]
    step = draw.choice(_FACTORS)
    if others and draw.random() < 0.4:
        other = draw.choice(others)
        if inputs[place] % step:
            return False
        inputs[place], inputs[other] = inputs[place] // step, inputs[other] * step
        return inputs[other] <= _LARGEST
    move = draw.random()
    if move < 0.45:
        inputs[place] *= step
    elif move < 0.9:
        if inputs[place] % step:
            return False
        inputs[place] //= step
    else:
        inputs[place] += draw.choice((-1, 1))
    return 1 <= inputs[place] <= _LARGEST


def linked_size(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """A number changed wherever a split has it, as sizes that are equal often belong together."""
    places = [(i, n) for i in _indices(insts, "Split") for n, f in enumerate(insts[i][1]) if n and isinstance(f, int)]
    sizes = sorted({insts[i][1][n] for i, n in places if insts[i][1][n] > 1})
    if not sizes:
        return False
    old, step = draw.choice(sizes), draw.choice(_FACTORS)
    if draw.random() < 0.5 and old % step:
        return False
    new = old // step if draw.random() < 0.5 and old % step == 0 else old * step
    for i, n in places:
        if insts[i][1][n] == old:
            insts[i][1][n] = new
    return 1 <= new <= _LARGEST


def interleaved(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """Several vectors beside each other: the split that makes a loop of vectors gets a factor before it, unrolled."""
    made = {inst[3][-1]: i for i, inst in enumerate(insts) if inst[0] == "Split"}
    places = [i for i in _indices(insts, "Vectorize") if insts[i][1][0] in made]
    if not places:
        return False
    at = draw.choice(places)
    split = insts[made[insts[at][1][0]]]
    name = _unique_name(insts)
    split[1].insert(-1, draw.choice((2, 2, 3, 4, 8)))
    split[3].insert(-1, name)
    after = next((i for i in range(at) if insts[i][0] == "Reorder" and split[3][-1] in insts[i][1]), None)
    if after is not None:
        insts[after][1].insert(insts[after][1].index(split[3][-1]), name)
    insts.insert(at + 1, ["Unroll", [name], [], []])
    _shift(decisions, at + 1, 1)
    return True


def sampled_tile(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """A factor of one sampled tile size given to another; the innermost stays at most what the sample allows."""
    places = [n for n, (i, _) in enumerate(decisions) if insts[i][0] == "SamplePerfectTile"]
    if not places:
        return False
    inst, sizes = decisions[draw.choice(places)]
    moves = [
        (source, target, factor)
        for source, size in enumerate(sizes)
        for factor in range(2, min(size, 64) + 1)
        for target in range(len(sizes))
        if size % factor == 0
        and target != source
        and (target != len(sizes) - 1 or sizes[target] * factor <= insts[inst][2][1])
    ]
    if not moves:
        return False
    source, target, factor = draw.choice(moves)
    sizes[source] //= factor
    sizes[target] *= factor
    return True


def sampled_choice(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """Another of the values that a sample chooses from."""
    places = [n for n, (i, _) in enumerate(decisions) if insts[i][0] == "SampleCategorical"]
    if not places:
        return False
    at = draw.choice(places)
    inst, decision = decisions[at]
    others = [n for n in range(len(insts[inst][2][0])) if n != decision]
    if others:
        decisions[at][1] = draw.choice(others)
    return bool(others)


# ---------------------------------------------------------------------------- places and order


def compute_location(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """A computation moved to another loop of the same nest."""
    places = _indices(insts, "ComputeAt", "ReverseComputeAt")
    if not places:
        return False
    at = draw.choice(places)
    loops = [name for name in _neighbours(insts[:at], insts[at][1][1]) if name != insts[at][1][1]]
    if not loops:
        return False
    insts[at][1][1] = draw.choice(loops)
    return True


def _neighbours(insts: Insts, loop: str) -> list[str]:
    """The loops that were last named together with `loop`, in order."""
    for kind, inputs, _, outputs in reversed(insts):
        if kind == "Reorder" and loop in inputs:
            return list(inputs)
        if kind in ("Split", "GetLoops") and loop in outputs:
            return list(outputs)
    return []


def order(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """Two loops of a reorder exchanged."""
    places = [i for i in _indices(insts, "Reorder") if len(insts[i][1]) > 1]
    if not places:
        return False
    loops = insts[draw.choice(places)][1]
    first = draw.randrange(len(loops) - 1)
    second = first + 1 if draw.random() < 0.7 else draw.randrange(len(loops))
    loops[first], loops[second] = loops[second], loops[first]
    return first != second


# ---------------------------------------------------------------------------- kinds of loops


def parallel_extent(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """More or fewer loops fused into the parallel one."""
    places = _indices(insts, "Parallel")
    if not places:
        return False
    at = draw.choice(places)
    loop = insts[at][1][0]
    fuse = next((i for i in range(at) if insts[i][0] == "Fuse" and insts[i][3] == [loop]), None)
    loops = list(insts[fuse][1]) if fuse is not None else [loop]
    around = _neighbours(insts[: at if fuse is None else fuse], loops[-1])
    following = around[around.index(loops[-1]) + 1 :] if loops[-1] in around else []
    if following and draw.random() < 0.5:
        loops.append(following[0])
    elif len(loops) > 1:
        loops.pop()
    else:
        return False
    if fuse is None:
        name = _unique_name(insts)
        insts.insert(at, ["Fuse", loops, [True], [name]])
        for inst in insts[at + 1 :]:
            _rename(inst, loop, name)
    elif len(loops) == 1:
        del insts[fuse]
        _shift(decisions, fuse, -1)
        for inst in insts[fuse:]:
            _rename(inst, loop, loops[0])
        return True
    else:
        insts[fuse][1] = loops
        return True
    _shift(decisions, at, 1)
    return True


def unrolling(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """Another limit up to which loops are unrolled, or one more loop that is."""
    places = [i for i in _indices(insts, "Annotate") if _UNROLL in str(insts[i][2])]
    if places and draw.random() < 0.6:
        inst = insts[draw.choice(places)]
        now = inst[1][1] if len(inst[1]) > 1 else None
        inst[1][1:] = [draw.choice([s for s in _STEPS if s != now])]
        return True
    taken = {inst[1][0] for inst in insts if inst[0] in ("Unroll", "Vectorize", "Parallel", "Fuse", "Split")}
    at = next((i for i in _indices(insts, "DecomposeReduction")), len(insts))
    splits = [zip(inst[1][1:], inst[3]) for inst in insts[:at] if inst[0] == "Split"]
    loops = [
        name for pairs in splits for n, name in pairs if isinstance(n, int) and n <= _UNROLLED and name not in taken
    ]
    if not loops:
        return False
    insts.insert(at, ["Unroll", [draw.choice(loops)], [], []])
    _shift(decisions, at, 1)
    return True


# ---------------------------------------------------------------------------- structure


def left_out(insts: Insts, decisions: Any, draw: random.Random) -> bool:
    """One step left out, with the steps that use what it gave."""
    places = [i for i, inst in enumerate(insts) if inst[0] in _OPTIONAL]
    if not places:
        return False
    gone, dead = {draw.choice(places)}, set()
    for i, inst in enumerate(insts):
        if i in gone or any(name in dead for name in _names(inst[1])):
            gone.add(i)
            dead |= set(inst[3])
    if 2 * len(gone) > len(insts):
        return False
    kept = [i for i in range(len(insts)) if i not in gone]
    decisions[:] = [[kept.index(i), d] for i, d in decisions if i in kept]
    insts[:] = [insts[i] for i in kept]
    return True


_KINDS: dict[Callable[[Insts, Any, random.Random], bool], float] = {
    tile_size: 5.0, linked_size: 2.0, interleaved: 1.5, sampled_tile: 2.0, sampled_choice: 1.0, compute_location: 1.0, order: 1.0, parallel_extent: 1.0,
    unrolling: 1.0, left_out: 0.7,
}  # fmt: skip


# ---------------------------------------------------------------------------- names


def _names(value: Any) -> Iterator[str]:
    """The names of blocks and loops in inputs; texts of other kinds are in quotes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _names(item)


def _rename(inst: Inst, old: str, new: str) -> None:
    inst[1] = _renamed(inst[1], old, new)


def _renamed(value: Any, old: str, new: str) -> Any:
    """Inputs with another name for a loop, also in the rows and mappings among them."""
    if isinstance(value, list):
        return [_renamed(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _renamed(item, old, new) for key, item in value.items()}
    return new if value == old else value


def _unique_name(insts: Insts) -> str:
    used = {name for inst in insts for name in inst[3]}
    return next(name for n in range(len(used) + 1) if (name := f"m{n}") not in used)


def _shift(decisions: Any, at: int, by: int) -> None:
    """Decisions name instructions by their places."""
    for decision in decisions:
        if decision[0] >= at:
            decision[0] += by
