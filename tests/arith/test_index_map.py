"""Index maps: making, applying and inverting them, and their text."""

import itertools
import random

import numpy as np
import pytest
from arith_evaluate import evaluate
from arith_random import mark
from refusals import refuses

from tvmagic import tir
from tvmagic.arith.index_map import SeparatedIndexMap
from tvmagic.errors import TVMagicError
from tvmagic.ir import Range, Var
from tvmagic.tir import IndexMap


def texts(values):
    return [str(v) for v in values]


def test_from_func_names_variables_as_the_parameters():
    tiled = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    assert [v.name for v in tiled.initial_indices] == ["i", "j"]
    assert texts(tiled.final_indices) == ["i // 4", "j", "i % 4"]
    rest = IndexMap.from_func(lambda i, *rest: (*rest, i), ndim=3, index_dtype="int64")
    assert [v.name for v in rest.initial_indices] == ["i", "rest_0", "rest_1"]
    assert rest.initial_indices[0].dtype == "int64"
    named = IndexMap.from_func(lambda i, *, j: (j, i))
    assert texts(named.final_indices) == ["j", "i"]
    assert texts(IndexMap.from_func(lambda i: i + 1).final_indices) == ["i + 1"]
    assert texts(IndexMap.from_func(lambda i: (i, 0)).final_indices) == ["i", "0"]


def test_separators():
    index_map, separators = IndexMap.from_func_with_separators(lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])
    assert separators == [1] and len(index_map.final_indices) == 2
    with refuses("index_map.axis_separators"):
        IndexMap.from_func(lambda i: [i, IndexMap.AXIS_SEPARATOR, 0])


@pytest.mark.parametrize(
    "function, error",
    [(lambda *i: i, TVMagicError), (lambda i: ["i"], TypeError), (lambda **i: i, ValueError)],
)
def test_functions_that_are_no_maps(function, error):
    with pytest.raises(error):
        IndexMap.from_func(function)


def test_map_indices_and_shapes():
    tiled = IndexMap.from_func(lambda i, j: (i // 4, j, i % 4))
    assert texts(tiled.map_indices([9, 5])) == ["2", "5", "1"]
    assert texts(tiled.map_shape([16, 8])) == ["4", "8", "4"]
    assert texts(tiled.map_shape([14, 8])) == ["4", "8", "4"]
    n = Var("n", "int64")
    (index,) = IndexMap.from_func(lambda i: i * 4).map_indices([n])
    assert index.dtype == "int64"
    ranges = IndexMap.from_func(lambda i: i + 3).map_ranges([Range(0, 5)])
    assert (int(ranges[0].min), int(ranges[0].extent)) == (3, 5)
    clipped = IndexMap.from_func(lambda i: tir.min(i, 3)).map_ranges([Range(0, 9)])
    assert (int(clipped[0].min), int(clipped[0].extent)) == (0, 4)
    with refuses("index_map.wrong_index_count"):
        tiled.map_indices([1])
    with refuses("index_map.shape_not_from_zero"):
        IndexMap.from_func(lambda i: i + 3).map_shape([4])


def test_map_ndarray():
    array = np.arange(24).reshape(4, 6)
    tiled = IndexMap.from_func(lambda i, j: (j // 2, i, j % 2)).map_ndarray(array)
    assert np.array_equal(tiled, array.reshape(4, 3, 2).transpose(1, 0, 2))
    padded = IndexMap.from_func(lambda i: (i // 4, i % 4)).map_ndarray(np.arange(1, 7))
    assert padded.tolist() == [[1, 2, 3, 4], [5, 6, 0, 0]]
    flipped = IndexMap.from_func(lambda i: tir.Select(i < 2, i + 2, i - 2)).map_ranges([Range(0, 4)])
    assert flipped
    assert IndexMap.from_func(lambda i: [0]).map_ndarray(np.array([7])).tolist() == [7]
    by_truncation = IndexMap.from_func(lambda i: (tir.truncdiv(i, 2), tir.truncmod(i, 2))).map_ndarray(np.arange(4))
    assert by_truncation.tolist() == [[0, 1], [2, 3]]
    with refuses("index_map.unbounded_values"):
        IndexMap.from_func(lambda i: tir.popcount(i)).map_ndarray(np.arange(4))
    assert IndexMap.from_func(lambda i: tir.Cast("int64", i)).map_ndarray(np.arange(4)).tolist() == [0, 1, 2, 3]
    with refuses("index_map.not_computable"):
        IndexMap.from_func(lambda i: tir.Cast("int8", i)).map_ndarray(np.arange(4))


def test_inverse():
    tiled = IndexMap.from_func(lambda i, j: (i // 4, j, i % 4))
    back = tiled.inverse([16, 8])
    assert back.to_python_string() == "lambda axis0, axis1, axis2: (axis0 * 4 + axis2, axis1,)"
    with refuses("index_map.not_affine"):
        tiled.inverse([14, 8])
    with refuses("index_map.not_affine"):
        IndexMap.from_func(lambda i, j: i).inverse([4, 4])
    given = IndexMap.from_func(lambda i: i * 2, inverse_index_map=lambda i: i // 2)
    assert given.inverse([8]).to_python_string() == "lambda i: (i // 2,)"


def test_a_map_without_inverse_is_refused_by_its_index() -> None:
    with refuses("iter_map.not_surjective"):
        IndexMap.from_func(lambda i: [i * 2]).inverse([8])
    with refuses("iter_map.overlapping_terms"):
        IndexMap.from_func(lambda i, j: [i * 3 + j]).non_surjective_inverse([4, 4])


def test_non_surjective_inverse():
    back, padding = IndexMap.from_func(lambda i: (i // 4, i % 4)).non_surjective_inverse([14])
    assert texts(back.final_indices) == ["axis0 * 4 + axis1"]
    assert str(padding) == "axis0 == 3 and 2 <= axis1"


def test_equivalence():
    tiled = IndexMap.from_func(lambda i, j: (i // 4, j, i % 4))
    assert tiled.is_equivalent_to(IndexMap.from_func(lambda a, b: (a // 4, b, a - a // 4 * 4)))
    assert not tiled.is_equivalent_to(IndexMap.from_func(lambda a, b: (a // 4, b, a % 2)))
    assert not tiled.is_equivalent_to(IndexMap.from_func(lambda a, b: (a, b)))
    assert not tiled.is_equivalent_to(IndexMap.from_func(lambda a: (a, a, a)))


def test_text_and_names():
    assert IndexMap.from_func(lambda i, j: (j, i)).to_python_string() == "lambda i, j: (j, i,)"
    i, also_i = Var("i"), Var("i")
    assert IndexMap([i, also_i], [also_i, i]).to_python_string() == "lambda i, i_1: (i_1, i,)"
    renamed = IndexMap([i], [i + 1]).rename_variables(lambda var: "k" if var is i else None)
    assert renamed.to_python_string() == "lambda k: (k + 1,)"
    both = IndexMap.from_func(lambda i: i * 2, inverse_index_map=lambda j: j // 2)
    assert both.to_python_string() == (
        "tvm.tir.IndexMap.from_func(lambda i: (i * 2,), inverse_index_map=lambda j: (j // 2,))"
    )


def check_back(index_map: IndexMap, shape, back: IndexMap, padding) -> list[int]:
    """`back` leads from each place to the index that is there, and `padding` holds where there is none; the new shape."""
    seen = set()
    for point in itertools.product(*map(range, shape)):
        mapped = [evaluate(e, dict(zip(index_map.initial_indices, point))) for e in index_map.final_indices]
        there = dict(zip(back.initial_indices, mapped))
        assert tuple(evaluate(e, there) for e in back.final_indices) == point, index_map
        assert not evaluate(padding, there), index_map
        seen.add(tuple(mapped))
    sizes = [int(size) for size in index_map.map_shape(shape)]
    for mapped in itertools.product(*map(range, sizes)):
        there = dict(zip(back.initial_indices, mapped))
        assert evaluate(padding, there) == (mapped not in seen), (index_map, mapped)
    return sizes


def check_inverts(seed):
    """A random split, reorder and fuse of axes is undone by its inverse, apart from padding."""
    choice = random.Random(seed)
    shape = [choice.choice([1, 2, 3, 4, 6, 7, 8]) for _ in range(choice.randint(1, 3))]
    variables = [Var(f"i{axis}") for axis in range(len(shape))]
    final = []
    for var, size in zip(variables, shape):
        factors = [f for f in range(1, size + 1) if size % f == 0 or choice.random() < 0.3]
        factor = choice.choice(factors)
        final += [tir.floordiv(var, factor), tir.floormod(var, factor)] if choice.random() < 0.6 else [var]
    choice.shuffle(final)
    index_map = IndexMap(variables, final)
    back, padding = index_map.non_surjective_inverse(shape)
    sizes = check_back(index_map, shape, back, padding)
    return mark(back, padding, *sizes)


def test_inverse_maps_invert():
    """And by the same expressions as before: a change must say why."""
    assert sum(check_inverts(seed) for seed in range(100)) == 212270600625


def answer(ask, *arguments):
    """What is answered, or the error."""
    try:
        return ask(*arguments)
    except TVMagicError as error:
        return error.code


def check_any_map(seed):
    """The ranges after a map of any two indices hold all values, and a map back leads back."""
    choice, i, j = random.Random(seed), Var("i"), Var("j")
    pick = choice.choice
    shape = [pick([1, 2, 3, 4, 6]), pick([1, 2, 3, 5])]
    final = []
    for _ in range(choice.randint(1, 3)):
        (v, size), (w, other) = choice.sample([(i, shape[0]), (j, shape[1])], 2)
        whole = v * other + w
        forms = [v, v, whole, whole, v + w, pick([1, 3]) - v, size - 1 - v, v * 2 - w, v * w, tir.const(2), v * 3 + 1]
        parts = [(v + pick([0, 1])) // 2, v % 2, tir.max(v, w), whole // 3, whole % 3, whole // size, whole % size]
        final.append(pick([*forms, *parts]))
    index_map = IndexMap([i, j], final)
    back = answer(index_map.inverse, shape)
    points = list(itertools.product(*map(range, shape)))
    places = [[evaluate(e, {i: a, j: b}) for e in final] for a, b in points]
    known = answer(index_map.map_ranges, [Range(0, size) for size in shape])
    for axis, range_ in enumerate([] if isinstance(known, str) else known):
        values = {place[axis] for place in places}
        assert evaluate(range_.min, {}) <= min(values), (seed, index_map)
        assert max(values) < evaluate(range_.min + range_.extent, {}), (seed, index_map)
    for point, place in zip(points, places) if isinstance(back, IndexMap) else ():
        there = dict(zip(back.initial_indices, place))
        assert tuple(evaluate(e, there) for e in back.final_indices) == point, (seed, index_map)
    return isinstance(back, IndexMap)


@pytest.mark.parametrize(("first", "inverted"), [(0, 6), (40, 7), (80, 5)])
def test_ranges_and_inverses_of_any_map(first, inverted):
    assert sum(check_any_map(seed) for seed in range(first, first + 40)) == inverted


@pytest.mark.soak
def test_inverse_maps_invert_long():
    for seed in range(1_000, 3_000):
        check_inverts(seed)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (lambda i: (i + 5) % 10, (10,)),
        (lambda i: (i + 5) % 13, (10,)),  # three places of padding in the middle
        (lambda i: 9 - (i + 1) % 10, (10,)),
        (lambda i, j: ((i * 5 + j + 7) % 20, 0), (4, 5)),
        (lambda i: ((i + 5) % 12 // 4, (i + 5) % 12 % 4), (12,)),
        (
            lambda i: ((i % 2 * 3 + i // 2) // 4, (i % 2 * 3 + i // 2) % 4),
            (6,),
        ),  # padding behind what is in another order
    ],
)
def test_indices_that_begin_in_the_middle_come_back(layout, shape) -> None:
    index_map = IndexMap.from_func(layout)
    check_back(index_map, shape, *index_map.injective_inverse(shape))


def test_a_map_back_that_does_not_lead_back_is_refused() -> None:
    with refuses("index_map.injectivity_not_proved"):
        IndexMap.from_func(lambda i: (i + 1) // 2).injective_inverse((2,))


@pytest.mark.parametrize(
    ("layout", "shape", "clash"),
    [
        (lambda i, j: [i // 2, j], (8, 8), r"\[0, 0\] and \[1, 0\] to \[0, 0\]"),
        (lambda i, j: [i, j % 4], (8, 8), r"\[0, 0\] and \[0, 4\] to \[0, 0\]"),
        (lambda i, j: [i + j], (8, 8), r"\[0, 1\] and \[1, 0\] to \[1\]"),
        (lambda i, j: [i * 7 + j], (8, 8), r"\[0, 7\] and \[1, 0\] to \[7\]"),
    ],
)
def test_a_map_of_two_indices_to_one_place_is_refused(layout, shape, clash: str) -> None:
    with refuses("index_map.not_injective"):
        IndexMap.from_func(layout).check_injective(shape)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (lambda i, j: [i // 2, j, i % 2], (7, 8)),
        (lambda i, j: [i * 8 + j], (8, 8)),
        (lambda i, j: [i * 9 + j], (8, 8)),
        (lambda i, j: [i // 5, j % 8], (1, 8)),  # what is dropped does not vary
        (lambda i, j: [(i + 3) % 8, j], (8, 8)),  # decided index by index
        (lambda i, j: [i, j], (0, 8)),
        (lambda i, j: [i // 4, j, i % 4], (tir.Var("n", "int32"), 8)),
    ],
)
def test_a_map_that_keeps_indices_apart(layout, shape) -> None:
    IndexMap.from_func(layout).check_injective(shape)


def test_a_map_of_symbolic_sizes_that_cannot_be_proved_is_refused() -> None:
    with refuses("index_map.injectivity_not_proved"):
        IndexMap.from_func(lambda i, j: [i // 2, j]).check_injective((tir.Var("n", "int32"), 8))
    with refuses("index_map.wrong_index_count"):
        IndexMap.from_func(lambda i, j: [i, j]).check_injective((8,))


def test_a_given_inverse_is_trusted_only_if_nothing_else_decides() -> None:
    n = tir.Var("n", "int32")
    swap = IndexMap.from_func(lambda i: [tir.Select(i % 2 == 0, i + 1, i - 1)], inverse_index_map=lambda i: [i])
    swap.check_injective((n,))
    with refuses("index_map.not_injective"):
        IndexMap.from_func(lambda i: [i // 2], inverse_index_map=lambda i: [i]).check_injective((4,))


def test_a_map_by_what_has_no_arrays_is_refused_unless_its_inverse_is_given() -> None:
    i = Var("i")
    bits = tir.Call("int32", "tir.tvm_thread_invariant", [i * 2])
    with refuses("index_map.injectivity_not_proved"):
        IndexMap([i], [bits]).check_injective([8])
    IndexMap([i], [bits], IndexMap([i], [i // 2])).check_injective([8])


def test_indices_of_another_type_take_the_constants_along() -> None:
    index_map = IndexMap.from_func(lambda i, j: [4 + i, i * 4 + j, 3 * j])
    i, j = Var("i", "int64"), Var("j", "int64")
    found = index_map.map_indices([i, j])
    assert [str(x.dtype) for x in found] == ["int64"] * 3
    assert [evaluate(x, {i: 5, j: 7}) for x in found] == [9, 27, 21]


@pytest.mark.parametrize(
    "layout",
    ["i, AXIS, j, i + j", "AXIS, j, AXIS, i", "j, i, AXIS", "AXIS, AXIS, i, j", "j, i"],
)
def test_the_text_of_a_map_has_its_separators(layout: str) -> None:
    made = eval(f"lambda i, j: [{layout}]", {"AXIS": IndexMap.AXIS_SEPARATOR})
    index_map, separators = IndexMap.from_func_with_separators(made)
    separated = SeparatedIndexMap(index_map.initial_indices, index_map.final_indices, None, separators)
    expected = layout.replace("AXIS", "IndexMap.AXIS_SEPARATOR")
    assert separated.to_python_string() == f"lambda i, j: ({expected},)"


@pytest.mark.parametrize(
    ("layout", "extent"), [(lambda i, j: i + j * 4, 32), (lambda i, j: i * 8 + j, 32), (lambda i, j: i, 4)]
)
def test_the_extent_of_a_sum_is_that_of_its_largest_term(layout, extent: int) -> None:
    (found,) = IndexMap.from_func(layout).map_ranges([Range(0, 4), Range(0, 8)])
    assert (int(found.min), int(found.extent)) == (0, extent)


@pytest.mark.parametrize(
    ("layout", "size", "shape"),
    [(lambda i: [4 - i], [5], [5]), (lambda i: [0 - i], [1], [1]), (lambda i, j: [i * 4 + 3 - j], [2, 4], [8])],
)
def test_an_index_that_counts_down_begins_at_its_last_value(layout, size: list[int], shape: list[int]) -> None:
    assert [int(extent) for extent in IndexMap.from_func(layout).map_shape(size)] == shape


def test_sizes_that_a_map_does_not_know() -> None:
    n, other = Var("n"), Var("other")
    index_map = IndexMap.from_func(lambda i: [i // n, i % n], inverse_index_map=lambda a, b: [a * n + b + other])
    assert index_map.free_variables() == [n, other]
    known = index_map.with_values({n: tir.const(4)})
    assert known.free_variables() == [other] and known.with_values({n: tir.const(3)}) is known
    assert known.to_python_string() == (
        "tvm.tir.IndexMap.from_func(lambda i: (i // 4, i % 4,), inverse_index_map=lambda a, b: (a * 4 + b + other,))"
    )
    renamed = index_map.rename_variables(lambda v: "size" if v is n else "row" if v.name == "a" else None)
    assert (
        str(renamed.final_indices[0]) == "i // size"
        and str(renamed.inverse_index_map.final_indices[0]) == "row * size + b + other"
    )


@pytest.mark.parametrize(("size", "whole"), [(16, True), (12, True), (14, False), (15, False)])
def test_what_pads_has_no_inverse_and_says_where_it_pads(size: int, whole: bool) -> None:
    index_map = IndexMap.from_func(lambda i: [i // 4, i % 4])
    back, padding = index_map.non_surjective_inverse([size])
    places = list(itertools.product(range(-(-size // 4)), range(4)))
    outside = [p for p in places if evaluate(padding, dict(zip(back.initial_indices, p)))]
    assert outside == [p for p in places if p[0] * 4 + p[1] >= size]
    if whole:
        assert index_map.inverse([size]).map_indices([2, 3])[0].value == 11
    else:
        with pytest.raises(TVMagicError):
            index_map.inverse([size])
    assert index_map.injective_inverse([Range.from_min_extent(0, size)])[0].is_equivalent_to(back)
    given = IndexMap.from_func(lambda i: [i // 4, i % 4], inverse_index_map=lambda a, b: [a * 4 + b])
    assert given.injective_inverse([size])[0] is given.inverse_index_map
