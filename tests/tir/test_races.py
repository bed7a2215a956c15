"""Races of loops that run their iterations at the same time, against an oracle that reads the printed program."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from pass_checks import parse
from race_oracle import TooLong, races
from race_programs import Annotated, Loops
from refusals import refuses

import tvmagic
from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import BufferStore, For
from tvmagic.ir.query import nodes_of
from tvmagic.script.parser import from_source
from tvmagic.tir.analysis.races import find_carried, find_races


def function(body: str, arguments: str) -> Any:
    """A function of statements; `X(8, 4)` among the arguments is a buffer of floats, `I{8}` one of int32."""
    named = []
    for part in arguments.split("; "):
        name, dtype = part[0], "int32" if "{" in part else "float32"
        shape = part[2:-1]
        named.append(f'{name}: T.Buffer(({shape},), "{dtype}")')
    lines = "\n".join("    " + line for line in body.split("\n"))
    return from_source(f"from tvm.script import tir as T\n@T.prim_func\ndef main({', '.join(named)}):\n{lines}")


def found(body: str, arguments: str) -> list[str]:
    return [str(race) if race.certain else f"doubt: {race}" for race in find_races(function(body, arguments))]


SUM = "for i in {}(64):\n    for j in range(8):\n        Y[j] = Y[j] + X[i, j]"


def test_a_parallel_sum_names_two_iterations_and_the_element() -> None:
    assert found(SUM.format("T.parallel"), "X(64, 8); Y(8)") == [
        "iterations i = 0 and i = 1 of parallel loop `i` both write `Y[0]`"
    ]
    (race,) = find_races(function(SUM.format("T.parallel"), "X(64, 8); Y(8)"))
    assert race.iterations == ({"i": 0}, {"i": 1}) and race.element == (0,) and race.name == "i"


@pytest.mark.parametrize("count", [2, 47, 48, 49, 60])
def test_accesses_of_one_buffer_however_many(count: int) -> None:
    stores = [f"    A[p * 64 + {k}] = 0.0" for k in range(count - 1)]
    for last, conflicts in ((63, 0), (64, 1)):
        lines = ["for p in T.parallel(8):", *stores, f"    A[p * 64 + {last}] = 1.0"]
        assert len(found("\n".join(lines), "A(600)")) == conflicts


DOUBTS = {
    "indices from data": ("for i in T.parallel(8):\n    Y[I[i]] = Y[I[i]] + 1.0", "I{8}; Y(8)", "depends on data"),
    "a condition on data": (
        "for i in T.parallel(8):\n    if I[i] > 0:\n        Y[0] = 1.0",
        "I{8}; Y(8)",
        "if the data let both happen",
    ),
    "an address": (
        "for i in T.parallel(8):\n    T.evaluate(T.call_extern('int32', 'f', T.address_of(Y[i])))",
        "Y(8)",
        "behind the pointer",
    ),
    "the second part of a condition": (
        "for i in T.parallel(4):\n    C[i] = T.Select(I[i] > 0 and A[0] > 0.0, 1.0, 2.0)\n    A[i] = 1.0",
        "A(4); C(4); I{4}",
        "if the data let both happen",
    ),
    "one of two values": (
        "for i in T.parallel(4):\n    C[i] = T.if_then_else(I[i] > 0, A[0], 2.0)\n    A[i] = 1.0",
        "A(4); C(4); I{4}",
        "if the data let both happen",
    ),
    "the other of two values": (
        "for i in T.parallel(4):\n    C[i] = T.if_then_else(I[i] > 0, 2.0, A[0])\n    A[i] = 1.0",
        "A(4); C(4); I{4}",
        "if the data let both happen",
    ),
    "a pointer": (
        "for i in T.parallel(8):\n    T.evaluate(T.call_extern('int32', 'f', Y.data))",
        "Y(8)",
        "behind the pointer",
    ),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_what_cannot_be_decided_is_a_doubt(name: str) -> None:
    body, arguments, text = DOUBTS[name]
    (race,) = found(body, arguments)
    assert race.startswith("doubt: ") and text in race


def symbolic(body: str) -> list[str]:
    lines = "\n".join("    " + line for line in body.split("\n"))
    head = "n = T.int32()\n    m = T.int32()\n    A = T.match_buffer(a, (n, m))\n    B = T.match_buffer(b, (n, m))"
    func = from_source(
        f"from tvm.script import tir as T\n@T.prim_func\ndef main(a: T.handle, b: T.handle):\n    {head}\n{lines}"
    )
    return [str(race) for race in find_races(func)]


@pytest.mark.parametrize(("size", "tried"), [(33, True), (7, True), (8, False), (34, False)])
def test_races_of_symbolic_sizes_are_looked_for_at_two_of_them(size: int, tried: bool) -> None:
    (race,) = symbolic(f"for p in T.parallel(n):\n    if n == {size}:\n        B[0, 0] = A[p, 0]")
    assert (f"n = {size}" in race) is tried and ("it is not proved for all sizes" in race) is not tried


def test_symbolic_sizes_are_proved_for_all_of_them() -> None:
    assert symbolic("for p in T.parallel(n * m):\n    B[p // m, p % m] = A[p // m, p % m]") == []
    tiles = "for p in T.parallel((n + 15) // 16):\n    for i, j in T.grid(16, m):\n        if p * 16 + i < n:\n            {} = A[p * 16 + i, j]"
    assert symbolic(tiles.format("B[p * 16 + i, j]")) == []
    (race,) = symbolic(tiles.format("B[0, j]"))
    assert "`B[0, 0]`" in race and "n = " in race


def test_a_reduction_over_threads_does_not_race() -> None:
    x = te.placeholder((64, 32), name="x")
    k = te.reduce_axis((0, 32), name="k")
    y = te.compute((64,), lambda i: te.sum(x[i, k], axis=k), name="y")
    s = te.create_schedule(y.op)
    s[y].bind(s[y].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    s[y].bind(s[y].op.axis[0], te.thread_axis("blockIdx.x"))
    assert find_races(tvmagic.driver.schedule_to_module(s, [x, y])["main"]) == []


def test_blocks_are_lowered_first() -> None:
    x = te.placeholder((8,), name="x")
    func = te.create_prim_func([x, te.compute((8,), lambda i: x[i] + 1, name="y")])
    with refuses("race_check.blocks_left"):
        find_races(func)


# ---------------------------------------------------------------------------- random programs


def plain(name: str) -> str:
    """The name of a buffer without what printing adds to it."""
    return re.sub(r"_\d+$", "", name.replace(".", "_"))


def compare(program: Any) -> tuple[int, int]:
    """How many races a program has by the oracle, and how many doubts there are; raises if the races differ."""
    func = program.function()
    text = func.script()
    try:
        wanted = Counter((kind, plain(buffer)) for kind, _, buffer in races(text))
    except TooLong:
        return 0, 0
    got = find_races(func)
    assert Counter((r.kind, plain(r.buffer.name)) for r in got if r.certain) == wanted, text
    return sum(wanted.values()), sum(not r.certain for r in got)


def run_loops(seeds: range) -> None:
    counts = [compare(Loops(seed)) for seed in seeds]
    assert sum(n for n, _ in counts) > len(counts)  # the programs are worth their time
    assert sum(doubts for _, doubts in counts) == 0


def run_schedules(seeds: range) -> None:
    number = 0
    for seed in seeds:
        try:
            program = Annotated(seed)
            program.function()
        except TVMagicError:
            continue
        number += compare(program)[0]
    assert number


def test_random_loops() -> None:
    run_loops(range(20))


def test_random_schedules() -> None:
    run_schedules(range(12))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 6000, 250))
def test_many_random_loops(first: int) -> None:
    run_loops(range(first, first + 250))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_random_schedules(first: int) -> None:
    run_schedules(range(first, first + 100))


VIEWS = {
    # two shapes of one memory: elements by their number
    "rows of a view": (
        "V = T.decl_buffer((4, 8), data=A.data)\nfor p in T.parallel(4):\n    for j in range(8):\n        V[p, j] = A[p * 8 + j]",
        [],
    ),
    "a view of the next row": (
        "V = T.decl_buffer((4, 8), data=A.data)\nfor p in T.parallel(3):\n    for j in range(8):\n        V[p, j] = A[p * 8 + j + 8]",
        ["p = 1 and p = 0", "`A[8]`|`V[1, 0]`"],
    ),
    "two ranks": (
        "V = T.decl_buffer((2, 4, 4), data=A.data)\nW = T.decl_buffer((8, 4), data=A.data)\nfor p in T.parallel(8):\n    for j in range(4):\n        W[p, j] = V[p // 4, p % 4, j]",
        [],
    ),
    "two ranks that meet": (
        "V = T.decl_buffer((2, 4, 4), data=A.data)\nW = T.decl_buffer((8, 4), data=A.data)\nfor p in T.parallel(8):\n    for j in range(4):\n        W[p, j] = V[p % 2, p // 2, j]",
        ["p = "],
    ),
    "strides": (
        "V = T.decl_buffer((4, 4), data=A.data, strides=(8, 2))\nW = T.decl_buffer((32,), data=A.data)\nfor p in T.parallel(4):\n    for j in range(4):\n        V[p, j] = W[p * 8 + j * 2 + 1]",
        [],
    ),
    "strides that meet": (
        "V = T.decl_buffer((4, 4), data=A.data, strides=(8, 2))\nW = T.decl_buffer((32,), data=A.data)\nfor p in T.parallel(4):\n    for j in range(4):\n        V[p, j] = W[(p * 8 + j * 2 + 8) % 32]",
        ["p = "],
    ),
    "an offset": (
        "V = T.decl_buffer((8,), data=A.data, elem_offset=8)\nfor p in T.parallel(8):\n    V[p] = A[p] + 1.0",
        [],
    ),
    "an offset that meets": (
        "V = T.decl_buffer((8,), data=A.data, elem_offset=3)\nfor p in T.parallel(8):\n    V[p] = A[p] + 1.0",
        ["p = 0 and p = 3", "`A[3]`|`V[3]`"],
    ),
    "one shape twice": (
        "V = T.decl_buffer((32,), data=A.data)\nfor p in T.parallel(31):\n    V[p] = A[p + 1]",
        ["p = "],
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_one_memory(name: str) -> None:
    body, texts = VIEWS[name]
    races = found(body, "A(32)")
    assert bool(races) is bool(texts), races
    for text in texts:
        assert any(part in races[0] for part in text.split("|")), races[0]


KERNELS = {
    "blocks apart": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    for t in T.thread_binding(8, thread='threadIdx.x'):\n        A[b * 8 + t] = 1.0",
        [],
    ),
    "blocks that meet": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    for t in T.thread_binding(8, thread='threadIdx.x'):\n        A[b * 7 + t] = A[b * 7 + t] + 1.0",
        ["blockIdx.x"],
    ),
    "all store the same": ("for b in T.thread_binding(4, thread='blockIdx.x'):\n    A[0] = 1.0", []),
    "all store the same value of data": ("for b in T.thread_binding(4, thread='blockIdx.x'):\n    A[0] = B[3]", []),
    "they store what differs": ("for b in T.thread_binding(4, thread='blockIdx.x'):\n    A[0] = B[b]", ["blockIdx.x"]),
    "it differs through memory": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    B[b] = T.Cast('float32', b)\n    A[0] = B[0]",
        ["blockIdx.x"],
    ),
    "it differs by a condition": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    if b < 2:\n        A[0] = 1.0",
        ["blockIdx.x"],
    ),
    "it differs by a loop": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    for i in range(b, b + 2):\n        A[i] = 1.0",
        ["blockIdx.x"],
    ),
    "two axes": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    for c in T.thread_binding(2, thread='blockIdx.y'):\n        A[b * 2 + c] = A[b * 2 + c] + 1.0",
        [],
    ),
    "two axes that meet": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    for c in T.thread_binding(3, thread='blockIdx.y'):\n        A[b * 2 + c] = A[b * 2 + c] + 1.0",
        ["blockIdx.x, blockIdx.y"],
    ),
    "threads apart": ("for t in T.thread_binding(8, thread='threadIdx.x'):\n    A[t] = A[t] + 1.0", []),
    "a neighbour in one statement": (
        "for t in T.thread_binding(8, thread='threadIdx.x'):\n    A[t] = A[t + 1]",
        ["threadIdx.x"],
    ),
    "a neighbour in the next statement": (
        "for t in T.thread_binding(8, thread='threadIdx.x'):\n    A[t] = 1.0\n    B[t] = A[t + 1]",
        [],
    ),
    "memory of each thread": (
        "for t in T.thread_binding(8, thread='threadIdx.x'):\n    L = T.decl_buffer((1,), scope='local')\n    L[0] = A[t]\n    L[0] = L[0] + 1.0\n    B[t] = L[0]",
        [],
    ),
    "memory of a block": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    S = T.decl_buffer((8,), scope='shared')\n    for t in T.thread_binding(8, thread='threadIdx.x'):\n        S[t // 2] = S[t // 2] + 1.0",
        ["threadIdx.x", "`S[0]`"],
    ),
    "memory of a block, each its own": (
        "for b in T.thread_binding(4, thread='blockIdx.x'):\n    S = T.decl_buffer((8,), scope='shared')\n    for t in T.thread_binding(8, thread='threadIdx.x'):\n        S[t] = S[t] + 1.0",
        [],
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_blocks_and_threads(name: str) -> None:
    body, texts = KERNELS[name]
    races = found(body, "A(64); B(64)")
    assert bool(races) is bool(texts), races
    assert all(text in races[0] and not races[0].startswith("doubt") for text in texts), races


def symbolic_races(body: str, sizes: Any) -> list[str]:
    lines = "\n".join("    " + line for line in body.split("\n"))
    func = from_source(
        f"from tvm.script import tir as T\n@T.prim_func\ndef main(a: T.handle, n: T.int32):\n    A = T.match_buffer(a, (n,))\n{lines}"
    )
    return [str(race) for race in find_races(func, sizes)]


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (None, "(with n = 33)"),
        (12, "(with n = 12)"),
        ({"n": 13}, "(with n = 13)"),
        ({"m": 13}, "(with n = 33)"),
        ({}, "(with n = 33)"),
        (5, "no two were found at small ones"),
        ({"n": 10}, "no two were found at small ones"),
    ],
)
def test_sizes_to_look_at(sizes: Any, text: str) -> None:
    """Iterations 0 and 10 meet, if there are so many."""
    (race,) = symbolic_races("for p in T.parallel(n):\n    A[p % 10] = A[p % 10] + 1.0", sizes)
    assert text in race and ("p = 0 and p = 10" in race) is ("with" in text)


def test_the_place_of_an_element_behind_a_pointer() -> None:
    body = "for p in T.parallel(4):\n    T.evaluate(T.call_extern('int32', 'f', T.tvm_access_ptr(T.type_annotation('float32'), A.data, p // 2 * 9, 1, 2)))"
    (race,) = find_races(function(body, "A(4, 8)"))
    assert race.certain and race.element == (0, 0) and "`A[0, 0]`" in race.text
    (race,) = find_races(function(body.replace("p // 2 * 9", "p // 4 + 19"), "A(4, 8)"))
    assert race.element == (2, 3) and race.iterations == ({"p": 0}, {"p": 1})


ARGUMENTS = "A: T.Buffer((200,)), B: T.Buffer((64,)), C: T.Buffer((8,)), n: T.int32"
ORDERS = {
    # what a later statement reads before a later iteration writes it, which all lanes have done by then
    "a loop that begins elsewhere": (
        "for i in T.vectorized(4):\n    for k in range(4, 6):\n        A[i] = B[i + k]\n    C[i] = A[i + 1]",
        True,
    ),
    "the last step of a loop": (
        "for i in T.vectorized(4):\n    for k in range(4):\n        if k == 3:\n            A[i] = B[i + k]\n    C[i] = A[i + 1]",
        True,
    ),
    "the last step of a loop of n": (
        "for i in T.vectorized(4):\n    for k in range(n):\n        if k == n - 1:\n            A[i] = B[i + k]\n    C[i] = A[i + 1]",
        True,
    ),
    "read before it is written": (
        "for i in T.vectorized(4):\n    C[i] = A[i + 1]\n    for k in range(4, 6):\n        A[i] = B[i + k]",
        False,
    ),
    "an earlier element": (
        "for i in T.vectorized(4):\n    for k in range(4):\n        A[i + 1] = B[i + k]\n    C[i] = A[i]",
        False,
    ),
    "the first step of a loop": (
        "for i in T.vectorized(4):\n    for k in range(4):\n        C[i] = A[i + 1]\n        A[i] = B[i + k]",
        True,
    ),
    "both read": ("for i in T.vectorized(4):\n    A[i * 2] = A[n * 2 + 1] + A[n * 2 + 1]", False),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_of_lanes(name: str) -> None:
    body, raced = ORDERS[name]
    func = from_source(
        f"from tvm.script import tir as T\n@T.prim_func\ndef main({ARGUMENTS}):\n"
        + "".join(f"    {line}\n" for line in body.split("\n"))
    )
    races = [str(race) for race in find_races(func)]
    assert len(races) == raced and all("vectorized loop `i`" in race and "`A[1]`" in race for race in races), races


STORES = {
    "what differs in memory of each thread": (
        "L = T.decl_buffer((1,), scope='local')\nL[0] = T.Cast('float32', t)\nA[0] = L[0]",
        True,
    ),
    "what differs from the third step on": (
        "L = T.decl_buffer((1,), scope='local')\nM = T.decl_buffer((1,), scope='local')\nfor k in range(3):\n    A[0] = M[0]\n    M[0] = L[0]\n    L[0] = T.Cast('float32', t)",
        True,
    ),
    "what is the same in memory of each thread": (
        "L = T.decl_buffer((1,), scope='local')\nL[0] = B[3]\nA[0] = L[0]",
        False,
    ),
    "what a function stores": (
        "T.evaluate(T.call_extern('int32', 'f', T.tvm_access_ptr(T.type_annotation('float32'), A.data, 0, 1, 2)))",
        True,
    ),
    "what is stored where data say": ("A[T.Cast('int32', B[0])] = B[1]", False),
}


@pytest.mark.parametrize("name", STORES)
def test_stores_of_the_same_values(name: str) -> None:
    body, raced = STORES[name]
    inside = "\n".join("    " + line for line in body.split("\n"))
    races = found(f"for t in T.thread_binding(8, thread='threadIdx.x'):\n{inside}", "A(64); B(64)")
    assert len(races) == raced and all("`A[0]`" in race and "threadIdx.x" in race for race in races), races


def test_shared_memory_of_blocks_without_threads_is_each_ones_own() -> None:
    body = "for b in T.thread_binding(4, thread='blockIdx.x'):\n    S = T.decl_buffer((8,), scope='shared')\n    S[T.Cast('int32', A[b])] = S[T.Cast('int32', B[b])] + 1.0"
    assert found(body, "A(64); B(64)") == []


@pytest.mark.parametrize(("row", "raced"), [("p", False), ("(p + 1) % 4", True)])
def test_rows_of_a_matrix_and_a_part_of_it_by_its_first_element(row: str, raced: bool) -> None:
    part = "T.tvm_access_ptr(T.type_annotation('float32'), A.data, p * 8, 8, 1)"
    body = f"for p in T.parallel(4):\n    T.evaluate(T.call_extern('int32', 'f', {part}))\n    A[{row}, 2] = 1.0"
    races = found(body, "A(4, 8)")
    assert len(races) == raced and all("`A[" in race for race in races)


def test_what_is_certain_comes_first() -> None:
    doubt, certain = (
        "for i in T.parallel(8):\n    Y[I[i]] = Y[I[i]] + 1.0\n",
        "for i in T.parallel(8):\n    A[0] = A[0] + 1.0",
    )
    for body in (doubt + certain, certain + "\n" + doubt):
        func = function(body.strip(), "I{8}; Y(8); A(8)")
        assert [race.certain for race in find_races(func)] == [True, False]
    func = function(
        "for j in range(4):\n    for i in range(8):\n        Y[I[i]] = Y[I[i]] + 1.0\n        A[0] = A[0] + 1.0",
        "I{8}; Y(8); A(8)",
    )
    loop = nodes_of(func.body, For)[0]
    assert [race.certain for race in find_carried(func, loop.loop_var, lambda a, b: a.write or b.write)] == [
        True,
        False,
    ]


def test_accesses_that_count_are_told_apart_from_others_at_the_same_place() -> None:
    func = function("for i in range(4):\n    A[0] = 1.0\n    A[0] = 2.0\n    A[0] = 3.0", "A(8)")
    loop = nodes_of(func.body, For)[0]
    stores = nodes_of(func.body, BufferStore)
    for chosen in stores:
        races = find_carried(func, loop.loop_var, lambda a, b: a.node is b.node is chosen)
        assert [(race.first, race.second) for race in races] == [(chosen, chosen)]
    assert not find_carried(func, loop.loop_var, lambda a, b: False)
    alone = function("for i in range(4):\n    A[0] = 1.0", "A(8)")
    assert len(find_carried(alone, nodes_of(alone.body, For)[0].loop_var, lambda a, b: True)) == 1


@pytest.mark.parametrize(
    ("body", "races"),
    [
        # a loop in lanes: the order of its statements, each of which reads before it writes
        ("A[i] = B[i]\nB[i] = A[i]", 0),
        ("A[i + 1] = B[i]\nB[i] = A[i]", 0),
        ("B[i] = A[i + 1]\nA[i] = B[i]", 0),
        ("A[i] = A[i + 1]", 0),
        ("A[i + 1] = A[i]", 1),
        ("if n < 3:\n    A[i + 1] = B[i]\nelse:\n    B[i] = A[i + 1]\nB[i + 1] = A[i]", 2),
        ("for k in range(2):\n    A[i] = A[i + 1]", 1),
        ("for k in range(2):\n    A[i * 2 + k] = B[i]", 0),
        ("for k in range(2):\n    A[i + k] = B[i]", 1),
        # a statement that runs lane by lane is a serial loop of its own, which may run several times
        ("if i < n:\n    A[i + 1] = A[i]", 0),
        ("for k in range(2):\n    if i < n:\n        A[i + 1] = A[i]", 1),
        ("if i < n:\n    for k in range(2):\n        A[i + 1] = A[i]", 0),
        ("if i < n:\n    A[i + 1] = 1\nif i < n:\n    B[i] = A[i]", 1),
        ("B[i] = 3\nif i < n:\n    A[i + 1] = A[i]", 0),
        ("if i < n:\n    A[i] = A[i + 1]\nA[i + 1] = 3", 1),
        ("if i < n:\n    A[0] = i", 0),
        ("A[0] = i", 0),
        ("A[n] = i", 0),
        ("if i < n:\n    A[n] = i", 0),
        ("for k in range(n):\n    A[n] = k", 1),
        ("for k in range(2):\n    A[0] = i", 1),
        ("if i < n:\n    B[i] = A[0]\nelse:\n    A[0] = B[i + 1]", 0),
        ("for k in range(1):\n    A[i + 1] = B[i]\nB[i] = A[i]", 0),
        ("for k in range(3):\n    B[i] = A[i + k]\nA[i] = B[i]", 0),
        ("for k in range(3):\n    B[i] = A[i]\n    A[i + 1] = k", 1),
    ],
)
def test_vector_lanes_with_equal_index_race(body: str, races: int) -> None:
    lines = "\n".join("        " + line for line in body.splitlines())
    func = parse(
        "def main(A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'), n: T.int32):\n"
        f"    for i in T.vectorized(4):\n{lines}"
    )
    assert len(find_races(func)) == races


@pytest.mark.parametrize(
    ("body", "free"),
    [
        ("A[tx] = B[tx]", True),
        ("A[0] = B[tx]", False),
        ("A[0] = B[0]", True),
        ("A[0] = 3", True),
        ("A[n] = n", True),
        ("A[tx // 2] = tx // 2", False),
        ("if tx == 0:\n    A[0] = B[tx]", True),
        ("if tx < 2:\n    A[0] = 1", False),
        ("for k in range(tx):\n    A[k] = 1", False),
        ("for k in range(n):\n    A[k] = 1", True),
        ("A[0] = A[0] + 1", False),
    ],
)
def test_identical_stores_of_threads_do_not_race(body: str, free: bool) -> None:
    """What all threads store in the same place is no race, if neither the value nor whether it is stored is a thread's own."""
    lines = "\n".join("        " + line for line in body.splitlines())
    func = parse(
        "def main(A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'), n: T.int32):\n"
        f"    with T.launch_thread('threadIdx.x', 4) as tx:\n{lines}"
    )
    assert (find_races(func) == []) is free


@pytest.mark.parametrize(
    ("condition", "raced"),
    [
        ("i < 8", True),
        ("i + j < 16", True),
        ("T.likely(i * 2 < 20)", True),
        ("i < 7", False),
        ("i % 2 == 0", False),
        ("A[i] < 1.0", False),
    ],
)
@pytest.mark.parametrize("form", ["if {}:\n{}A[i + 1] = A[i] * 2.0", "{1}A[i + 1] = T.if_then_else({0}, A[i], 0.0)"])
def test_lanes_run_together_behind_conditions_that_always_hold(form: str, condition: str, raced: bool) -> None:
    statement = form.format(condition, " " * 4 * form.startswith("if")).replace("\n", "\n" + " " * 8)
    body = f"for j in range(8):\n    for i in T.vectorized(8):\n        {statement}"
    assert bool(found(body, "A(16)")) is raced
