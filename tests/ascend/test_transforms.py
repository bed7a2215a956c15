"""Splits, merges and reorders of axes keep where each element of a tensor is, as counted for every index."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from refusals import refuses

from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, Axis, AxisType, Size, ops
from tvmagic.ascend.addressing import Places, by_axis, coefficient, seen_from
from tvmagic.ascend.sizes import to_expr
from tvmagic.ascend.transforms import in_order, mergeable
from tvmagic.eval.integers import evaluate
from tvmagic.ir import IntImm, PrimExpr, SizeVar

SIZES = {"z0": 4, "z1": 6, "z2": 1, "z3": 8}
Index = dict[Axis, int]


def graph_of(held: list[bool]) -> AscGraph:
    """Two computed tensors over four axes, the first of size 1 along those that are not held."""
    graph = AscGraph("axes")
    axes = [graph.create_axis(name, size) for name, size in SIZES.items()]
    sizes = [size if wide else 1 for size, wide in zip(SIZES.values(), held)]
    part = ops.Abs(ops.Load(ops.Data(graph, "x", sizes=sizes)))
    ops.Output(ops.Store(ops.Neg(ops.broadcast_to(part, axes))), "out")
    return graph


def index_of(axis: Axis, at: Index) -> int:
    """The index along an axis that splits and merges made, from those along the original ones."""
    if not axis.from_:
        return at[axis]
    if axis.type is AxisType.MERGED:
        total = 0
        for part in axis.from_:
            total = total * part.size.evaluate({}) + index_of(part, at)
        return total
    inner = axis if axis.is_inner else axis.split_pair
    assert inner is not None
    outer, rest = divmod(index_of(axis.from_[0], at), inner.size.evaluate({}))
    return rest if axis is inner else outer


def addresses(graph: AscGraph, name: str) -> list[int]:
    """Where the element at each index of the original axes is in the memory of a node's tensor."""
    y, original = graph.find_node(name).y, graph.axes[: len(SIZES)]
    found = []
    for numbers in itertools.product(*(range(a.size.evaluate({})) for a in original)):
        at = dict(zip(original, numbers))
        found.append(sum(index_of(a, at) * s.evaluate({}) for a, s in zip(y.axis, y.strides, strict=True)))
    return found


def elements(graph: AscGraph, name: str) -> int:
    return graph.find_node(name).y.elements.evaluate({})


def split(graph: AscGraph, rng: random.Random) -> None:
    loops = graph.find_node("abs_0").sched.axis
    axis = rng.choice(loops)
    size = axis.size.evaluate({})
    pair = ascend.tile_split(graph, axis, rng.choice([n for n in range(1, size + 1) if size % n == 0]))
    ascend.apply_split(graph, *pair)
    assert graph.find_node("abs_0").sched.axis == [b for a in loops for b in (pair if a is axis else (a,))]


def merge(graph: AscGraph, rng: random.Random) -> None:
    """Merge two loops, where that is legal: the tensors then still have their elements where they were."""
    loops = graph.find_node("abs_0").sched.axis
    if len(loops) < 2:
        return
    place = rng.randrange(len(loops) - 1)
    pair = loops[place : place + 2]
    tensors = [y for y in graph.tensors() if not y.is_global]
    legal = ascend.are_neighbours(loops, pair) and all(in_order(y, pair) and mergeable(y, pair) for y in tensors)
    copy = graph.copy()
    merged = ascend.merge_axis(copy, [a.name for a in pair])
    if not legal:
        with pytest.raises(AscendError, match="merge-"):
            ascend.apply_merge(copy, merged)
        return
    merged = ascend.merge_axis(graph, pair)
    ascend.apply_merge(graph, merged)
    assert graph.find_node("abs_0").sched.axis == [*loops[:place], merged, *loops[place + 2 :]]


def reorder(graph: AscGraph, rng: random.Random) -> None:
    loops = graph.find_node("abs_0").sched.axis
    order = rng.sample(loops, len(loops))
    ascend.apply_reorder(graph, order)
    assert all(graph.find_node(n).sched.axis == order for n in ("load_0", "abs_0", "neg_0", "store_0"))
    assert [a for a in order if a in graph.find_node("neg_0").y.axis] == graph.find_node("neg_0").y.axis


STEPS: list[Callable[[AscGraph, random.Random], None]] = [split, merge, merge, reorder]


@pytest.mark.parametrize("seed", [*range(24), 42, 67])  # the last two merged axes of which a part has one element
def test_random_steps_move_no_element(seed: int) -> None:
    rng = random.Random(seed)
    graph = graph_of([rng.random() < 0.7 for _ in SIZES])
    before = {name: (addresses(graph, name), elements(graph, name)) for name in ("abs_0", "neg_0")}
    for _ in range(rng.randint(1, 6)):
        rng.choice(STEPS)(graph, rng)
        for name, wanted in before.items():
            assert (addresses(graph, name), elements(graph, name)) == wanted, seed
    check_places(graph)
    for name in ("x", "store_0", "out"):  # what callers rely on stays
        assert [a.name for a in graph.find_node(name).y.axis] == list(SIZES)


def test_axes_of_one_element_may_be_merged_from_anywhere() -> None:
    graph = AscGraph("ones")
    a, b, c = (graph.create_axis(name, size) for name, size in (("a", 4), ("b", 5), ("c", 6)))
    y = ops.Abs(ops.Load(ops.Data(graph, "x", sizes=[1, 5, 1])))
    merged = ascend.merge_axis(graph, [a, c])
    ascend.apply_tensor_merge(y.node, merged)
    assert (y.axis, y.repeats, y.strides) == ([merged, b], [1, 5], [0, 1])
    wide = ops.Abs(ops.Load(ops.Data(graph, "w", sizes=[4, 5, 1])))
    with refuses("ascend.merge_neighbours", error=AscendError):
        ascend.apply_tensor_merge(wide.node, merged)


def test_a_split_of_what_has_one_element() -> None:
    graph = AscGraph("single")
    graph.create_axis("z0", 8), graph.create_axis("z1", 1)
    part = ops.Abs(ops.Load(ops.Data(graph, "x", sizes=[1, 1])))
    whole = ops.Neg(ops.Load(ops.Data(graph, "y")))
    for axis, size in (("z0", 4), ("z1", 1)):
        ascend.apply_split(graph, *ascend.tile_split(graph, axis, size))
    assert part.repeats == [1, 1, 1, 1] and part.strides == [0, 0, 0, 0]
    assert whole.repeats == [2, 4, 1, 1] and whole.strides[:2] == [4, 1]


# ---------------------------------------------------------------------------- where an element is, from the loops around


def to_ir(size: Size) -> PrimExpr:
    return to_expr(size, {name: VARIABLES.setdefault(name, SizeVar(name, "int32")) for name in size.names()})


VARIABLES: dict[str, PrimExpr] = {}
ZERO = IntImm("int32", 0)


def check_places(graph: AscGraph) -> None:
    """From the loops around them, moves find each element where it is in global memory: as strides and as indices."""
    original = graph.axes[: len(SIZES)]
    for move, array in (("load_0", "x"), ("store_0", "out")):
        node, y = graph.find_node(move), graph.find_node(array).y
        loops = node.sched.axis
        places = Places(graph, to_ir, ZERO)
        places.open = {id(a): SizeVar(a.name, "int32") for a in loops}
        offset = places.offset(y.axis, y.strides)
        steps = [coefficient(by_axis(node, y), a).evaluate({}) for a in loops]
        axes, repeats, strides = seen_from(node, y)
        for numbers in itertools.product(*(range(a.size.evaluate({})) for a in original)):
            at = dict(zip(original, numbers))
            wanted = sum(at[a] * s.evaluate({}) for a, s in zip(y.axis, y.strides, strict=True))
            assert sum(index_of(a, at) * s.evaluate({}) for a, s in zip(axes, strides, strict=True)) == wanted
            assert sum(index_of(a, at) * step for a, step in zip(loops, steps)) == wanted
            assert evaluate(offset, {places.open[id(a)]: index_of(a, at) for a in loops}) == wanted  # type: ignore[misc]
        assert all(r == 1 or a.size == r for a, r in zip(axes, repeats, strict=True))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("whole", "tiles"),
    [
        (7, [3]),
        (6, [3]),
        (1, [1]),
        (5, [5]),
        (5, [8]),
        (24, [7, 2]),
        (24, [8, 3]),
        (24, [8, 4]),
        (13, [13, 2]),
        (13, [20, 3]),
        (9, [1, 4]),
    ],
)
def test_loops_with_tails_reach_each_element_once(whole: int, tiles: list[int], symbolic: bool) -> None:
    """An axis that is split, and its outer half once more: extents follow the loops that are open, as do indices."""
    graph = AscGraph("tails")
    axis = graph.create_axis("z", graph.create_size("n") if symbolic else whole)
    sizes, rest, loops = {"n": whole}, axis, []
    for number, tile in enumerate(tiles):
        made = graph.create_size(f"t{number}") if symbolic else tile
        sizes[f"t{number}"] = tile
        rest, inner = ascend.tile_split(graph, rest, made)
        loops.insert(0, inner)
    places = Places(graph, to_ir, ZERO)
    reached: list[int] = []
    values: dict[PrimExpr, int] = {
        VARIABLES.setdefault(name, SizeVar(name, "int32")): size for name, size in sizes.items()
    }

    def run(remaining: list[Axis]) -> None:
        if not remaining:
            reached.append(evaluate(places.index(axis), values))  # type: ignore[arg-type]
            return
        loop = remaining[0]
        extent, size = places.extent(loop)
        count = evaluate(extent, values)  # type: ignore[arg-type]
        assert size is None or size.evaluate(sizes) == count
        var = SizeVar(loop.name, "int32")
        places.open[id(loop)] = var
        for number in range(count):
            values[var] = number
            run(remaining[1:])
        del places.open[id(loop)]

    run([rest, *loops])
    assert reached == list(range(whole))
    even = not symbolic and all(w % t == 0 for w, t in zip([whole, whole // tiles[0]], tiles))
    if even:  # what is known to have no shorter tail says so
        assert all(places.extent(loop)[1] == loop.size for loop in loops)
