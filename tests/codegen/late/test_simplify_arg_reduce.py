"""SimplifyArgReduce: which conditions of argmin and argmax become shorter, and which nests are unchanged."""

from collections.abc import Sequence

import numpy as np
import pytest
from late_passes import HASWELL, assert_same_values, late, parsed

import tvmagic
from tvmagic import tune
from tvmagic.auto import decide
from tvmagic.codegen.late.simplify_arg_reduce import simplify_arg_reduce
from tvmagic.eval.machine import run_function
from tvmagic.ir import And, Call, Or, Select
from tvmagic.ir.query import is_call, nodes_of
from tvmagic.operators import operator
from tvmagic.operators.operator import Version
from tvmagic.passes import PassContext

LAST = 2147483647


def shortened(func, alias=False):
    """A lowered function with such conditions made shorter, or None; with `alias`, arguments may overlap."""
    return late(simplify_arg_reduce, func.with_attr("tir.noalias", not alias))


def of_cell(text, scheduled=True):
    """The lowered function of an operator."""
    op = operator("f", text)
    version = Version(op, tune.auto(op, HASWELL) if scheduled else None, "auto")
    return next(iter(version.lower().functions.values()))


def questions(body):
    """How many parts the conditions of the choices have that a place is stored by."""
    conditions = [node.condition for node in nodes_of(body, Select) if node.dtype.is_int]
    calls = [node for node in nodes_of(body, Call) if is_call(node, "tir.if_then_else")]
    conditions += [node.args[0] for node in calls if node.dtype.is_int]
    return [1 + len(nodes_of(condition, And, Or)) for condition in conditions]


CELLS = {  # how many parts the condition has then, and in how many choices
    "columns": ("X: float32[20, 64]\nI[j] = argmin(X[k, j], over=k)", [2] * 4),
    "columns of integers": ("X: int8[20, 64]\nI[j] = argmax(X[k, j], over=k)", [1] * 4),
    "columns of doubles": ("X: float64[20, 16]\nI[j] = argmax(X[k, j], over=k)", [2] * 4),
    "halves": ("X: float16[20, 8]\nI[j] = argmax(X[k, j], over=k)", [2]),
    "a symbolic length": ("X: float32[n, 8]\nI[j] = argmax(X[k, j], over=k)", [2]),
    "a batch": ("X: float32[3, 20, 8]\nI[b, j] = argmin(X[b, k, j], over=k)", [2]),
}


@pytest.mark.parametrize("name", CELLS)
def test_conditions_become_shorter(name):
    text, found = CELLS[name]
    func = of_cell(text)
    assert min(questions(func.body)) > 2 or "int8" in text
    made = shortened(func)
    assert made is not None and questions(made.body)[-len(found) :] == found
    assert str(LAST) not in str(made) or "n" in text.split("]")[0]


def test_rows_in_parts_begin_with_their_own_places():
    func = of_cell("X: float32[5, 64]\nI[i] = argmax(X[i, k], over=k)")
    assert "[0:8] = T.Ramp(0, 1, 8)" in str(shortened(func))


def test_columns_that_outgrow_a_cache_are_searched_by_rows():
    op = operator("f", "X: float32[1024, 1024]\nI[j] = argmin(X[k, j], over=k)")
    found = decide(op, HASWELL)
    assert any("1024 results at a time along j, in vectors, stay in the first cache" in text for text in found.texts)
    func = next(iter(Version(op, found.schedule, "auto").lower().functions.values()))
    made = shortened(func)
    assert made is not None and set(questions(made.body)) == {2}


NEST = """
from tvm.script import ir as I
from tvm.script import tir as T

@T.prim_func
def f(X: T.Buffer((900,), "int32"), P: T.Buffer((8,), "int32"), V: T.Buffer((8,), "int32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    H = T.Buffer((16,), "int16", data=P.data)
    G = T.Buffer((16,), "int16", data=X.data)
    for j in range(8):
        P[j] = 2147483647
        V[j] = BEST
        for k in range(100):
            v: T.int32 = T.Select(TAKES, X[k * 8 + j], V[j])
            P[j] = T.Select(TAKES, k, P[j])
            V[j] = v
"""
TAKES = "X[k * 8 + j] < V[j] or X[k * 8 + j] == V[j] and k < P[j]"
CHANGES = {  # of the text above, with whether the condition becomes shorter
    "as it is": ({}, True),
    "more than the kept one": ({"X[k * 8 + j] < V[j]": "V[j] < X[k * 8 + j]", "BEST": str(-LAST - 1)}, True),
    "turned": ({"k < P[j]": "P[j] > k", "X[k * 8 + j] < V[j]": "V[j] > X[k * 8 + j]"}, True),
    "two steps for each element": (
        {
            "range(100)": "range(50)",
            "            v:": "            for r in T.unroll(2):\n            v:",
            "k * 8": "(k * 2 + r) * 8",
            ", k,": ", k * 2 + r,",
            "k <": "k * 2 + r <",
        },
        True,
    ),
    "a last one": ({"k < P[j]": "P[j] < k"}, False),
    "a later one of equal ones": ({"V[j] and k < P[j]": "V[j] and k > P[j]"}, False),
    "places that fall": ({", k,": ", 99 - k,", "k < P": "99 - k < P"}, False),
    "places twice": ({", k,": ", k // 2,", "k < P": "k // 2 < P"}, False),
    "a first value that may stay": ({"BEST": "5"}, False),
    "a first place that is before others": ({"2147483647": "0"}, False),
    "other values than the compared ones": ({", X[k * 8 + j], V": ", X[k * 8 + j + 8], V"}, False),
    "a value that is stored too early": ({"v: T.int32 =": "V[j] =", "            V[j] = v\n": ""}, False),
    "other loops between": ({"for k in range(100)": "for u, k in T.grid(2, 100)"}, False),
    "something else in the loop": (
        {"            V[j] = v": "            V[j] = v\n            P[j] = P[j] + 1"},
        False,
    ),
    "what is not constant": ({"V[j] = BEST": "V[j] = X[j]"}, False),
    "a begin that another type overwrites": ({"V[j] = BEST": "V[j] = BEST\n        H[j * 2] = T.int16(3)"}, False),
    "another memory of another type": ({"V[j] = BEST": "V[j] = BEST\n        G[j * 2] = T.int16(3)"}, True),
    "a begin for other elements": ({"P[j] = 2147483647": "P[7 - j] = 2147483647"}, False),
    "a begin that is replaced": ({"P[j] = 2147483647": "P[j] = 5\n        P[j] = 2147483647"}, True),
    "a begin that is replaced by a small one": ({"P[j] = 2147483647": "P[j] = 2147483647\n        P[j] = 0"}, False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_nests(name):
    changes, shorter = CHANGES[name]
    text = NEST.replace("TAKES", TAKES)
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
        if "unroll" in new:  # what is in the new loop
            before, after = text.split("            v:")
            text = (
                before
                + "                v:"
                + after.replace("            P[j] =", "                P[j] =", 1).replace(
                    "            V[j] = v", "                V[j] = v"
                )
            )
    text = text.replace("BEST", str(LAST))
    func = parsed(text)
    made = shortened(func)
    assert (made is not None) == shorter
    assert made is None or set(questions(made.body)) == {1}
    built, rng, overlaid = tvmagic.build(func), np.random.default_rng(0), "another type" in name or "of another" in name
    if overlaid:  # memory of two types, which the interpreter does not have
        with PassContext(disabled_pass=["late.SimplifyArgReduce"]):
            reference = tvmagic.build(func, target="llvm -opt-level=0")
    for data in (rng.integers(-3, 3, 900), np.full(900, LAST), np.full(900, -LAST - 1)):
        one, other = ([data.astype("int32"), np.zeros(8, "int32"), np.zeros(8, "int32")] for _ in range(2))
        built(*one)
        reference(*other) if overlaid else run_function(func, other)
        np.testing.assert_array_equal(one[1:], other[1:])


@pytest.mark.parametrize(
    ("dtype", "target"), [("float32", "llvm"), ("float16", "llvm -mcpu=haswell"), ("int8", "llvm -mcpu=x86-64-v2")]
)
def test_places_are_numpys(dtype, target):
    """Ties, NaN, infinities, zeros of both signs; nothing but neutral values."""
    rng = np.random.default_rng(1)
    data = rng.integers(-2, 3, (19, 40)).astype(dtype)
    data[:, 3] = np.iinfo(dtype).min if dtype == "int8" else -np.inf
    if dtype != "int8":
        data[:, 4], data[5:9, 5], data[7, 6], data[:, 7] = np.nan, np.nan, np.inf, -0.0
    for name, scheduled in (("argmax", False), ("argmin", True)):
        op = operator("f", f"X: {dtype}[19, 40]\nI[j] = {name}(X[k, j], over=k)")
        with tvmagic.target.Target(target):
            got = Version(op, tune.auto(op, target) if scheduled else None, "v")(data)
        np.testing.assert_array_equal(got, getattr(np, name)(data, axis=0))


# ---------------------------------------------------------------------------- one search, at its boundaries


def step(place: str = "k", value: str = "X[k]", at: str = "0", number: int = 0) -> list[str]:
    """A step of a search for the least value."""
    takes = f"T.Or({value} < V[{at}], T.And({value} == V[{at}], {place} < P[{at}]))"
    return [
        f"v{number}: VALUES = T.Select({takes}, {value}, V[{at}])",
        f"P[{at}] = T.Select({takes}, {place}, P[{at}])",
        f"V[{at}] = v{number}",
    ]


def nest_of(loops: list[str], steps: list[str], begin: list[str], lanes: int = 1, local: Sequence[str] = ()):
    """A function that begins in some way, and searches in loops."""
    lines = [*begin, *("    " * n + f"for {loop}:" for n, loop in enumerate(loops))]
    lines += [
        "    " * len(loops) + line.replace("VALUES", f"T.int32x{lanes}" if lanes > 1 else "T.int32") for line in steps
    ]
    text = """
from tvm.script import ir as I
from tvm.script import tir as T

@T.prim_func
def f(X: T.Buffer((400,), "int32"), P: T.Buffer((40,), "int32"), V: T.Buffer((40,), "int32"), W: T.Buffer((40,), "int32"), n: T.int32):
    T.func_attr({"tir.noalias": T.bool(True)})
""" + "".join(f"    {line}\n" for line in lines)
    for name in local:  # which has memory of its own; the argument is left unused
        text = text.replace(f"{name}: T.Buffer((", f"{name}_unused: T.Buffer((")
    return parsed(text)


def begun(count: int = 40, place: int = LAST, best: int = LAST) -> list[str]:
    """The begin of each of some elements."""
    return [line for at in range(count) for line in (f"P[{at}] = {place}", f"V[{at}] = {best}")]


def in_loop(loop: str = "j in range(8)", at: str = "j") -> list[str]:
    return [f"for {loop}:", f"    P[{at}] = {LAST}", f"    V[{at}] = {LAST}"]


def is_shortened(func) -> bool:
    """Whether the search of a function became shorter; with the same results then."""
    made = shortened(func)
    if made is None:
        return False
    rng = np.random.default_rng(0)
    for number in (0, 9):
        for data in (rng.choice([-1, 0, 1, LAST], 400), np.full(400, LAST)):
            arrays = [data.astype("int32"), *(np.full(40, 3, "int32") for _ in range(3)), np.array(number, "int32")]
            assert_same_values(func, made, arrays)
    return True


K = "k in range(20)"
THREE = ["k in range(4)", "q in range(3)", "r in range(2)"]


@pytest.mark.parametrize(
    ("loops", "place", "least"),
    [
        ([K], "k", 1),
        ([K], "k + 4", 5),
        (["k in range(5, 25)"], "k", 6),
        ([K], "k * 3 + 2", 3),
        (THREE, "k * 6 + q * 2 + r", 1),
        (["k in range(n)"], "k", 1),
    ],
)
def test_the_place_to_begin_with_is_behind_the_first_one(loops: list[str], place: str, least: int) -> None:
    for begin in (least - 1, least, least + 1):
        assert is_shortened(nest_of(loops, step(place, "X[k]"), begun(1, begin))) is (begin >= least)


@pytest.mark.parametrize(
    ("place", "last"),
    [
        ("T.Ramp(k * 8, 1, 8)", 7),
        ("T.Ramp(k * 16, 2, 8)", 14),
        ("T.Ramp(k * 8 + 7, -1, 8)", 7),
        ("T.Broadcast(k, 8)", 0),
        ("T.Ramp(k * 8, 0, 8)", 0),
        ("T.Ramp(k * 8, n, 8)", None),
    ],
)
@pytest.mark.parametrize("loop", [K, "k in range(n)"])
def test_the_places_of_lanes_to_begin_with_are_behind_the_first_ones(place: str, last: int | None, loop: str) -> None:
    for begin in (8,) if last is None else (last, last + 1):
        start = [f"P[0:8] = T.Broadcast({begin}, 8)", f"V[0:8] = T.Broadcast({LAST}, 8)"]
        made = nest_of([loop], step(place, "X[k * 8:k * 8 + 8]", "0:8"), start, 8)
        assert is_shortened(made) is (last is not None and begin > last)


@pytest.mark.parametrize(
    ("place", "rises"),
    [
        ("k * 6 + q * 2 + r", True),
        ("k * 5 + q * 2 + r", False),
        ("k * 7 + q * 2 + r", True),
        ("k * 6 + q * 2 + r * 2", False),
        ("k * 8 + q * 2 + r", True),
        ("k * 12 + q * 4 + r * 2", True),
        ("k * 11 + q * 4 + r * 2", False),
        ("k * 6 + q * 3 + r", False),
        ("k * 8 + q * 3 + r", True),
        ("k * 7 + q * 3 + r", False),
        ("r * 12 + k * 3 + q", False),
        ("n", False),
        ("k * n", False),
        ("20 - k", False),
        ("k * 6 + q * 2 - r", False),
    ],
)
def test_places_rise_from_iteration_to_iteration(place: str, rises: bool) -> None:
    found = is_shortened(nest_of(THREE, step(place, "X[k * 6 + q * 2 + r]"), begun(1)))
    assert found is (rises and place.count("+") == 2 and not place.startswith("r"))


@pytest.mark.parametrize(
    ("loops", "at", "apart"),
    [
        ([K, "j in range(4)"], "j", True),
        ([K, "j in range(4)"], "j // 2", False),
        ([K, "j in range(4)"], "j * 2 + 1", True),
        ([K, "j in range(4)"], "3", False),
        ([K, "j in range(4)"], "9 - j", True),
        ([K, "j in range(n)"], "j", False),
        ([K, "j in range(4)", "l in range(3)"], "j * 3 + l", True),
        ([K, "j in range(4)", "l in range(3)"], "j * 2 + l", False),
        ([K, "j in range(4)", "l in range(3)"], "j + l * 4", True),
        ([K, "j in range(4)", "l in range(3)"], "j + l * 3", False),
        ([K, "j in range(4)", "l in range(3)"], "j * 5 + l", True),
        ([K, "j in range(4)", "l in range(3)"], "20 - j * 3 - l", True),
        ([K, "j in range(1)", "l in range(3)"], "j + l", True),
        ([K, "j in range(2)", "l in range(3)"], "j + l", False),
        ([K, "j in range(4)"], "k", False),
        ([K, "j in range(4)"], "j + n", False),
    ],
)
def test_elements_are_apart_in_loops_that_are_not_searched(loops: list[str], at: str, apart: bool) -> None:
    """Each iteration of these has a search of its own. What is begun is known for constants, and for the same loops."""
    others = [loop for loop in loops[1:] if "n" not in loop.split("range")[1]]
    inside = "    " * len(others)
    begin = [
        *("    " * n + f"for {loop}:" for n, loop in enumerate(others)),
        f"{inside}P[{at.replace('k', '0')}] = {LAST}",
        f"{inside}V[{at.replace('k', '0')}] = {LAST}",
    ]
    if "range(n)" in loops[-1]:
        begin = begun(10)
    assert is_shortened(nest_of(loops, step("k", "X[k * 4]", at), begin)) is (apart or at == "j + n")


@pytest.mark.parametrize(("factor", "apart"), [(7, False), (8, True), (9, True), (-8, True), (-7, False)])
def test_lanes_are_apart_in_loops_that_are_not_searched(factor: int, apart: bool) -> None:
    first = f"j * {factor}" if factor > 0 else f"20 - j * {-factor}"
    at = f"T.Ramp({first}, 1, 8)"
    begin = ["for j in range(3):", f"    P[{at}] = T.Broadcast({LAST}, 8)", f"    V[{at}] = T.Broadcast({LAST}, 8)"]
    made = nest_of([K, "j in range(3)"], step("T.Broadcast(k, 8)", "X[k * 8:k * 8 + 8]", at), begin, 8)
    assert is_shortened(made) is apart


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("j", "j + 8", True),
        ("j + 8", "j", True),
        ("j", "j + 7", False),
        ("j + 7", "j", False),
        ("j * 2", "j * 2 + 1", False),
        ("j", "20 - j", True),
    ],
)
def test_two_searches_in_a_nest_are_of_other_elements(one: str, other: str, apart: bool) -> None:
    steps = step("k", "X[k * 8 + j]", one) + step("k", "X[k * 8 + j + 100]", other, 1)
    begin = in_loop(at=one) + in_loop(at=other)
    assert is_shortened(nest_of([K, "j in range(8)"], steps, begin)) is apart


@pytest.mark.parametrize(("one", "other", "apart"), [(0, 8, True), (8, 0, True), (0, 7, False), (7, 0, False)])
def test_two_searches_of_lanes_are_of_other_elements(one: int, other: int, apart: bool) -> None:
    steps = step("T.Broadcast(k, 8)", "X[k * 8:k * 8 + 8]", f"{one}:{one + 8}")
    steps += step("T.Broadcast(k, 8)", "X[k * 8 + 100:k * 8 + 108]", f"{other}:{other + 8}", 1)
    begin = [f"{a}[{at}:{at + 8}] = T.Broadcast({LAST}, 8)" for at in (one, other) for a in "PV"]
    assert is_shortened(nest_of([K], steps, begin, 8)) is apart


@pytest.mark.parametrize(
    ("first", "second", "steps"),
    [
        ("k * 2", "k * 2 + 1", True),
        ("k * 2 + 1", "k * 2", False),
        ("k * 2", "k * 2 + 2", False),
        ("k * 2", "k * 2", False),
        ("k * 3", "k * 3 + 2", True),
        ("k * 3", "k * 3 + n", False),
    ],
)
def test_steps_of_a_search_rise_within_an_iteration(first: str, second: str, steps: bool) -> None:
    lines = step(first, "X[k * 2]") + step(second, "X[k * 2 + 1]", number=1)
    assert is_shortened(nest_of([K], lines, begun(1))) is steps


@pytest.mark.parametrize(
    ("begin", "known"),
    [
        (in_loop(), True),
        (in_loop("j in range(9)"), False),
        (in_loop("j in range(7)"), False),
        (in_loop("j in range(1, 9)"), False),
        (in_loop("j in range(1, 9)", "j - 1"), False),
        (in_loop("j in T.unroll(8)"), True),
        (in_loop("j in T.parallel(8)"), False),
        ([*in_loop(), "W[0] = X[0]"], True),
        ([*in_loop(), "W[0] = P[0]"], False),
        ([*in_loop(), "P[0] = n"], False),
        ([*in_loop(), "P[30] = n"], False),
        ([*in_loop(), "P[30] = 5"], True),
        ([*in_loop(), "P[7] = 5"], False),
        ([*in_loop(), "for u in T.parallel(2):", "    W[u] = 1"], True),
        ([*in_loop(), "for u in T.parallel(2):", "    P[u + 20] = 1"], False),
        ([], False),
        (in_loop()[:2], False),
        (["P[0] = n", *in_loop()], True),
        (["W[0] = 1", *in_loop()], True),
    ],
)
def test_what_is_known_of_the_begin(begin: list[str], known: bool) -> None:
    """Constants for all elements, by the same loops, with nothing between that may change or read them."""
    made = nest_of([K, "j in range(8)"], step("k", "X[k * 8 + j]", "j"), [*begin, "W[1] = 2"])
    assert is_shortened(made) is known


@pytest.mark.parametrize(
    ("loops", "known"),
    [
        (["j in range(8)", "k in range(n)"], True),
        (["j in range(8)", "k in range(n + 1)"], True),
        (["j in range(8)", "k in range(j)"], False),
        (["j in range(8)", "k in range(0)"], False),
        (["j in range(8)", "k in range(1)"], True),
        (["k in T.parallel(20)", "j in range(8)"], False),
    ],
)
def test_it_is_known_before_how_often_a_search_goes_on(loops: list[str], known: bool) -> None:
    made = nest_of(loops, step("k", "X[k * 8 + j]", "j"), in_loop())
    assert is_shortened(made) is known


@pytest.mark.parametrize("same", ["", "XP", "XV", "PV", "PW"])
def test_searched_and_kept_memory_are_disjoint(same: str) -> None:
    """Arguments may overlap, allocations do not; memory that the search does not touch may be anywhere."""
    local = [name for name in "XPVW" if name not in same]
    made = nest_of([K], step(), [line for name in local for line in allocated(name)] + begun(1), local=local)
    assert (shortened(made, alias=True) is None) is (same in ("XP", "XV", "PV"))


def allocated(name: str) -> list[str]:
    """The lines that give a buffer memory of its own."""
    memory = f"{name}_memory"
    return [f"{memory} = T.allocate([400], 'int32', 'global')", f"{name} = T.Buffer((400,), 'int32', data={memory})"]


@pytest.mark.parametrize("other", ["P[1]", "W[0]", "X[k]", "n"])
@pytest.mark.parametrize("kept", ["P[0]", "V[0]"])
def test_what_is_stored_otherwise_is_what_was_there(kept: str, other: str) -> None:
    lines = [line.replace(f", {kept})", f", {other})") if line.count("Select") else line for line in step()]
    assert lines != step() and not is_shortened(nest_of([K], lines, begun(2)))
