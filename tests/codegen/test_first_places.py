"""Searches for the first of the best values: which conditions become shorter, and which nests are left as they are."""

import math

import numpy as np
import pytest

import tvmagic
from tvmagic import tune
from tvmagic.codegen.first_places import _first_and_count, _possible, _Unfit, first_places
from tvmagic.ir import And, Broadcast, FloatImm, IntImm, Or, Ramp, Select, Var
from tvmagic.ir.query import is_call, nodes_of
from tvmagic.operators import operator
from tvmagic.operators.operator import Version
from tvmagic.script import from_source
from tvmagic.tune.instant import decide

HASWELL = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
LAST = 2147483647


def shortened(func, alike=False):
    """The body of a lowered function, with such conditions made shorter; `alike`: pointers may be to the same memory."""
    heard = []
    body = first_places(func.body, lambda a, b: a is not b and not alike, lambda new, old: heard.append((new, old)))
    assert (body is func.body) == (not heard)
    return body


def of_cell(text, scheduled=True):
    """The lowered function of an operator."""
    op = operator("f", text)
    version = Version(op, tune.auto(op, HASWELL) if scheduled else None, "auto")
    return next(iter(version.lower().functions.values()))


def questions(body):
    """How many parts the conditions of the choices have that a place is stored by."""
    conditions = [node.condition for node in nodes_of(body, Select) if node.dtype.is_int]
    conditions += [
        node.args[0]
        for node in nodes_of(body, tvmagic.ir.Call)
        if is_call(node, "tir.if_then_else") and node.dtype.is_int
    ]
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
    body = shortened(func)
    assert questions(body)[-len(found) :] == found
    assert str(LAST) not in str(func.with_body(body)) or "n" in text.split("]")[0]
    assert shortened(func, alike=True) is func.body


def test_rows_in_parts_begin_with_their_own_places():
    func = of_cell("X: float32[5, 64]\nI[i] = argmax(X[i, k], over=k)")
    text = str(func.with_body(shortened(func)))
    assert "[0:8] = T.Ramp(0, 1, 8)" in text


def test_columns_that_outgrow_a_cache_are_searched_by_rows():
    op = operator("f", "X: float32[1024, 1024]\nI[j] = argmin(X[k, j], over=k)")
    found = decide(op, HASWELL)
    assert any("1024 results at a time along j, in vectors, stay in the first cache" in text for text in found.texts)
    func = next(iter(Version(op, found.schedule, "auto").lower().functions.values()))
    assert set(questions(shortened(func))) == {2}


NEST = """
from tvm.script import ir as I
from tvm.script import tir as T

@T.prim_func
def f(X: T.Buffer((900,), "int32"), P: T.Buffer((8,), "int32"), V: T.Buffer((8,), "int32")):
    T.func_attr({"tir.noalias": T.bool(True)})
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
    func = from_source(text)
    body = shortened(func)
    assert (body is not func.body) == shorter
    assert not shorter or set(questions(body)) == {1}
    rng = np.random.default_rng(0)
    for data in (rng.integers(-3, 3, 900), np.full(900, LAST), np.full(900, -LAST - 1)):
        data = data.astype("int32")
        results = []
        for program in (func, func.with_body(body)):
            place, best = np.zeros(8, "int32"), np.zeros(8, "int32")
            tvmagic.build(program, target="llvm -opt-level=0" if program is func else "llvm")(data, place, best)
            results.append((place, best))
        np.testing.assert_array_equal(*results)


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


def test_the_elements_at_an_index_are_one_or_neighbours() -> None:
    x = Var("x")
    assert [_first_and_count(index) for index in (x, Ramp(x, 1, 2), Ramp(x, 1, 8))] == [(x, 1), (x, 2), (x, 8)]
    for index in (Ramp(x, 2, 2), Broadcast(x, 2)):
        with pytest.raises(_Unfit):
            _first_and_count(index)


def test_what_a_value_may_be_to_a_kept_constant() -> None:
    kept = [IntImm("int8", -128), IntImm("int8", 127), IntImm("int8", 0), IntImm("uint8", 0)]
    assert [_possible(k) for k in kept] == [
        {"same", "more"},
        {"same", "less"},
        {"less", "same", "more"},
        {"same", "more"},
    ]
    floats = [_possible(FloatImm("float32", k)) for k in (-math.inf, math.inf, 0.0)]
    assert floats == [{"same", "more", "NaN"}, {"same", "less", "NaN"}, {"less", "same", "more", "NaN"}]
    assert _possible(FloatImm("float32", math.nan)) == {"kept NaN", "both NaN"}
