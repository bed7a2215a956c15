"""Decisions of analyses and passes that few programs come to: what is asked of a table, and what the answer says."""

from __future__ import annotations

from typing import Any

import pytest
from pass_checks import module, parse, script

from tvmagic.errors import BuildError, TVMagicError
from tvmagic.ir import Evaluate, For, ForKind, IntImm, IRModule, Var
from tvmagic.ir.query import nodes_of
from tvmagic.tir import analysis, transform
from tvmagic.tir.analysis.races import find_carried, find_races
from tvmagic.tir.transform.auto_copy.padding import Padding, _Accesses
from tvmagic.tir.transform.loops.loop_partition import mentions_others


def reductions(*counts: tuple[int, int]) -> Any:
    """A function with a sum of so many terms of so many operations for each pair, one after the other."""
    lines = ["def main(A: T.Buffer((4096,), 'float32'), C: T.Buffer((8,), 'float32')):"]
    for n, (count, work) in enumerate(counts):
        term = " * ".join([f"A[v{n}]"] * (work or 1))
        lines += [
            f"    for i{n} in range({count}):",
            f"        with T.block('C{n}'):",
            f"            v{n} = T.axis.reduce({count}, i{n})",
            "            with T.init():",
            f"                C[{n}] = T.float32(0)",
            f"            C[{n}] = C[{n}] + {term}",
        ]
    return parse("\n".join(lines))


@pytest.mark.parametrize(
    ("counts", "anchor"),
    [([(10, 20), (100, 1)], "C0"), ([(100, 1), (10, 20)], "C1"), ([(10, 20), (1000, 1)], "C1"), ([(1000, 1), (10, 20)], "C0"), ([(3, 1)], "C0")],
)  # fmt: skip
def test_the_anchor_is_the_reduction_with_the_most_operations(counts: list[tuple[int, int]], anchor: str) -> None:
    """All iterations counted, not one."""
    func = reductions(*counts)
    for asked in (func, IRModule({"main": func})):
        found = analysis.find_anchor_block(asked)
        assert found is not None and found.name_hint == anchor


def test_a_program_without_reductions_has_no_anchor() -> None:
    assert analysis.find_anchor_block(parse("def main(A: T.Buffer((8,), 'int32')):\n    A[0] = 1")) is None


TWO_LOOPS = """def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(4):
        A[i] = A[0] + 1
    for j in range(4):
        B[{place}] = B[j] + 1"""


@pytest.mark.parametrize(
    ("place", "carried"), [("j", {"i": 1, "j": 0}), ("j + 1", {"i": 1, "j": 1}), ("j + 4", {"i": 1, "j": 0})]
)
def test_only_accesses_in_a_loop_are_carried_by_it(place: str, carried: dict[str, int]) -> None:
    func = parse(TWO_LOOPS.format(place=place))
    for loop in nodes_of(func.body, For):
        races = find_carried(func, loop.loop_var, lambda a, b: a.write or b.write)
        assert len(races) == carried[loop.loop_var.name]
        buffers = frozenset(func.buffer_map.values())
        assert find_carried(func, loop.loop_var, lambda a, b: True, buffers) == []


@pytest.mark.parametrize(
    ("body", "races"),
    [
        # a loop in lanes: the order of its statements, each of which reads before it writes
        ("A[i] = B[i]\nB[i] = A[i]", 0), ("A[i + 1] = B[i]\nB[i] = A[i]", 0), ("B[i] = A[i + 1]\nA[i] = B[i]", 0), ("A[i] = A[i + 1]", 0), ("A[i + 1] = A[i]", 1),
        ("if n < 3:\n    A[i + 1] = B[i]\nelse:\n    B[i] = A[i + 1]\nB[i + 1] = A[i]", 2),
        ("for k in range(2):\n    A[i] = A[i + 1]", 1), ("for k in range(2):\n    A[i * 2 + k] = B[i]", 0), ("for k in range(2):\n    A[i + k] = B[i]", 1),
        # a statement that runs lane by lane is a serial loop of its own, which may run several times
        ("if i < n:\n    A[i + 1] = A[i]", 0), ("for k in range(2):\n    if i < n:\n        A[i + 1] = A[i]", 1), ("if i < n:\n    for k in range(2):\n        A[i + 1] = A[i]", 0),
        ("if i < n:\n    A[i + 1] = 1\nif i < n:\n    B[i] = A[i]", 1), ("B[i] = 3\nif i < n:\n    A[i + 1] = A[i]", 0), ("if i < n:\n    A[i] = A[i + 1]\nA[i + 1] = 3", 1),
        ("if i < n:\n    A[0] = i", 0), ("A[0] = i", 0), ("A[n] = i", 0), ("if i < n:\n    A[n] = i", 0), ("for k in range(n):\n    A[n] = k", 1), ("for k in range(2):\n    A[0] = i", 1), ("if i < n:\n    B[i] = A[0]\nelse:\n    A[0] = B[i + 1]", 0),
        ("for k in range(1):\n    A[i + 1] = B[i]\nB[i] = A[i]", 0), ("for k in range(3):\n    B[i] = A[i + k]\nA[i] = B[i]", 0), ("for k in range(3):\n    B[i] = A[i]\n    A[i + 1] = k", 1),
    ],
)  # fmt: skip
def test_lanes_that_meet(body: str, races: int) -> None:
    lines = "\n".join("        " + line for line in body.splitlines())
    func = parse(
        "def main(A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'), n: T.int32):\n"
        f"    for i in T.vectorized(4):\n{lines}"
    )
    assert len(find_races(func)) == races


@pytest.mark.parametrize(
    ("body", "free"),
    [
        ("A[tx] = B[tx]", True), ("A[0] = B[tx]", False), ("A[0] = B[0]", True), ("A[0] = 3", True), ("A[n] = n", True), ("A[tx // 2] = tx // 2", False),
        ("if tx == 0:\n    A[0] = B[tx]", True), ("if tx < 2:\n    A[0] = 1", False), ("for k in range(tx):\n    A[k] = 1", False), ("for k in range(n):\n    A[k] = 1", True),
        ("A[0] = A[0] + 1", False),
    ],
)  # fmt: skip
def test_threads_that_store_the_same(body: str, free: bool) -> None:
    """What all threads store in the same place is no race, if neither the value nor whether it is stored is a thread's own."""
    lines = "\n".join("        " + line for line in body.splitlines())
    func = parse(
        "def main(A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'), n: T.int32):\n"
        f"    with T.launch_thread('threadIdx.x', 4) as tx:\n{lines}"
    )
    assert (find_races(func) == []) is free


@pytest.mark.parametrize("scope", ["global", "shared", "shared.dyn", "local"])
@pytest.mark.parametrize("inside", [False, True])
def test_memory_in_which_threads_meet(scope: str, inside: bool) -> None:
    """That of the block, and that outside of the threads if it is not of each thread."""
    launch = "    with T.launch_thread('threadIdx.x', 4) as tx:\n"
    buffer = f"B = T.decl_buffer((8,), 'int32', scope='{scope}')\n"
    head = "def main(A: T.Buffer((16,), 'int32')):\n"
    text = head + (launch + "        " + buffer if inside else "    " + buffer + launch)
    races = find_races(parse(text + "        B[tx // 2] = tx\n        A[tx] = B[tx // 2]"))
    assert bool(races) is (scope.startswith("shared") or (scope == "global" and not inside))


@pytest.mark.parametrize("scope", ["global", "shared", "local", "warp"])
@pytest.mark.parametrize(
    "tags", [("blockIdx.x", "blockIdx.x"), ("blockIdx.x", "blockIdx.y"), ("threadIdx.x", "threadIdx.x")]
)
def test_memory_of_a_block_is_of_one_launch(scope: str, tags: tuple[str, str]) -> None:
    text = (
        "def main(A: T.Buffer((4,), 'int32')):\n    with T.launch_thread('threadIdx.y', 2):\n"
        f"        M = T.allocate([4], 'int32', '{scope}')\n"
        f"        B = T.Buffer((4,), 'int32', data=M, scope='{scope}')\n"
    )
    for tag, stores in zip(tags, ("B[b] = b", "A[b] = B[b]")):
        text += f"        with T.launch_thread('{tag}', 4) as b:\n            {stores}\n"
    if scope in ("shared", "local") and tags == ("blockIdx.x", "blockIdx.x"):
        with pytest.raises(BuildError, match="is memory of a block, and two launches of `blockIdx.x` use it"):
            transform.ThreadsAsLoops()(module(text))
    else:
        assert "A[b] = " in script(transform.ThreadsAsLoops()(module(text)))


@pytest.mark.parametrize(("values", "mentions"), [(["x"], False), (["x", "y"], True), (["y"], True), ([], False)])
def test_conditions_of_other_variables(values: list[str], mentions: bool) -> None:
    x, y = Var("x", "int32"), Var("y", "int32")
    condition: Any = IntImm("int32", 3)
    for name in values:
        condition = condition + {"x": x, "y": y}[name]
    assert mentions_others(condition < 7, x) is mentions


def test_a_loop_that_is_too_large_to_unroll_says_why() -> None:
    for extent, why in (("n", "not constant"), (str(1 << 31), "too large"), ("n * 0 + 20000", "more than")):
        kind = "T.int64" if extent.isdigit() else ""
        count = f"{kind}({extent})" if kind else extent
        text = f"def main(A: T.Buffer((16,), 'int32'), n: T.int32):\n    for i in T.unroll({count}):\n        A[i % 16] = A[0] * A[1] * A[2] + n"
        with pytest.raises(TVMagicError, match=why):
            transform.UnrollLoop()(module(text))


@pytest.mark.parametrize(
    ("index", "contiguous"),
    [("v", True), ("v + i", True), ("v * 2", False), ("i - v", False), ("v * 2 - v", True), ("v // 4 + v", True), ("i", False), ("v * n", True), ("v * v", True), ("v * 8 + i", False)],
)  # fmt: skip
def test_neighbouring_lanes_and_neighbouring_elements(index: str, contiguous: bool) -> None:
    """Of lanes 0 and 1, unless they are known to be apart; loops around are at their first iteration."""
    i, v, n = (Var(name, "int32") for name in "ivn")
    accesses = _Accesses(Padding(), {i: IntImm("int32", 0)}, {})
    accesses.lanes = For(v, 0, 4, ForKind.VECTORIZED, Evaluate(0))
    assert accesses._is_contiguous(eval(index, {"i": i, "v": v, "n": n})) is contiguous
