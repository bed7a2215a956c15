"""Decisions of passes and analyses against counting: each over all small numbers, or at its boundary."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from pass_checks import module, parse, script

from tvmagic.arith import Analyzer
from tvmagic.arith.int_set import IntervalSet
from tvmagic.errors import ScheduleError, TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.eval.machine import run_function
from tvmagic.ir import (
    EQ,
    NE,
    BlockRealize,
    BufferStore,
    Call,
    For,
    IfThenElse,
    IntImm,
    Let,
    LetStmt,
    PrimExpr,
    Var,
    substitute,
)
from tvmagic.ir.deep import parts_of
from tvmagic.ir.query import is_call, is_one, nodes_of
from tvmagic.passes import PassContext
from tvmagic.tir import transform
from tvmagic.tir.analysis import OOBChecker
from tvmagic.tir.transform.auto_copy.padding import _conflicts
from tvmagic.tir.transform.loops.loop_partition import constant_runs
from tvmagic.tir.transform.loops.vectorize_loop import lane_by_lane

# ---------------------------------------------------------------------------- runs of a loop's values

LOW, HIGH = 2, 11


def drawn_conditions(rng: random.Random, x: Var, y: Var) -> list[tuple[PrimExpr, bool, Any]]:
    """Conditions with the intervals in which they are known to be true or false."""
    found: list[tuple[PrimExpr, bool, Any]] = []
    for _ in range(rng.randint(0, 3)):
        low = rng.randint(LOW - 2, HIGH + 2)
        high = low + rng.choice((0, 0, 1, 3, 20))
        form = rng.choice(
            (x < low, EQ(x, IntImm("int32", low)), NE(x, IntImm("int32", low)), EQ(x + y, IntImm("int32", low)))
        )
        found.append((form, rng.random() < 0.7, IntervalSet(IntImm("int32", low), IntImm("int32", high))))
        if not isinstance(form, (EQ, NE)) and rng.random() < 0.3:  # known in two pieces
            more = IntervalSet(IntImm("int32", high + 1), IntImm("int32", high + rng.randint(1, 4)))
            found.append((form, found[-1][1], more))
    return found


def test_runs_of_values_in_which_conditions_are_known() -> None:
    """Each value is in one run; two values are in one if they are neighbours and the same is known of both."""
    rng, x, y = random.Random(8), Var("x", "int32"), Var("y", "int32")
    for _ in range(300):
        found = drawn_conditions(rng, x, y)

        def known(value: int, found: list[tuple[PrimExpr, bool, Any]] = found) -> dict[PrimExpr, bool]:
            truths: dict[PrimExpr, bool] = {}
            for condition, holds, interval in found:
                low, high = (max(interval.min_value.value, LOW), min(interval.max_value.value, HIGH))
                if low > high:
                    continue
                alone = isinstance(condition, (EQ, NE)) and condition.a is x and low == high
                if low <= value <= high:
                    truths[condition] = holds
                elif alone and holds is isinstance(condition, EQ):
                    truths[condition] = not holds
            return truths

        runs = constant_runs(x, found, LOW, HIGH, Analyzer())
        values = [(v, truths) for first, last, truths in runs for v in range(first, last + 1)]
        assert [v for v, _ in values] == list(range(LOW, HIGH + 1))
        assert all(truths == known(v) for v, truths in values)
        assert all(a[2] != b[2] for a, b in itertools.pairwise(runs))


def test_an_end_that_is_not_constant_says_nothing() -> None:
    x, n = Var("x", "int32"), Var("n", "int32")
    condition = x < n
    assert constant_runs(x, [(condition, True, IntervalSet(IntImm("int32", 0), n))], 0, 9, Analyzer()) == [(0, 9, {})]


# ---------------------------------------------------------------------------- accesses


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_accesses_to_a_bank(bits: int) -> None:
    """Elements of some bits, 32 banks of 32 bits each: how many meet in the fullest."""
    rng = random.Random(bits)
    for _ in range(40):
        high = [rng.randint(0, 8) for _ in range(rng.randint(1, 6))]
        low = [rng.randint(0, 40) for _ in range(rng.randint(1, 6))]
        stride = rng.randint(1, 70)
        places = Counter((row * stride + at) * bits // 8 % (32 * 4) // 4 for row in high for at in low)
        assert _conflicts(high, low, stride, bits) == max(places.values())


@pytest.mark.parametrize(
    ("index", "outside"),
    [
        ("i", False), ("i + 8", False), ("i + 9", True), ("i - 1", True), ("15 - i", False), ("7 - i", False), ("6 - i", True), ("i * 2", False), ("i * 2 + 2", True),
        ("B[i]", False), ("n", False), ("n % 16", False), ("n % 17", True), ("T.max(n, 0) % 16", False), ("T.min(i, 3) + 13", True),
    ],
)  # fmt: skip
def test_accesses_outside_are_found_if_their_bounds_are_known(index: str, outside: bool) -> None:
    text = "def main(A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'), n: T.int32):\n"
    for body in (f"A[{index}] = i", f"B[i] = A[{index}]"):
        mod = module(f"{text}    for i in range(8):\n        {body}")
        if outside:
            with pytest.raises(ScheduleError, match="is outside it"):
                OOBChecker()(mod)
        else:
            assert OOBChecker()(mod) is mod


# ---------------------------------------------------------------------------- the same values


def stored(expressions: list[str], extents: tuple[int, ...] = (48,)) -> str:
    """A function with a loop for each name of `ijk`, which stores each expression in a column of its own."""
    count = int(np.prod(extents))
    lines = [f"def main(A: T.Buffer(({len(expressions)}, {count}), 'int32')):"]
    place, indent = "0", "    "
    for name, extent in zip("ijk", extents):
        lines.append(f"{indent}for {name} in range({extent}):")
        place, indent = f"({place}) * {extent} + {name}", indent + "    "
    lines += [f"{indent}A[{n}, {place}] = {e}" for n, e in enumerate(expressions)]
    return "\n".join(lines)


def values(mod: Any) -> np.ndarray:
    func = mod["main"]
    (buffer,) = func.buffer_map.values()
    out = np.full([int(n) for n in buffer.shape], -1, "int32")
    run_function(func, [out])
    return out


DIVIDED = [f"i % {m} // {d}" for m in (6, 8, 12) for d in (2, 3, 4)] + [
    f"i // {c} // {d}" for c in (2, 3) for d in (2, 5)
]
DIVIDED += [f"(i * {c} + {e}) // {d}" for c in (2, 4, 6) for d in (2, 3, 4, 8) for e in (0, 1, 5)]
DIVIDED += [f"(i * {c} + i % 5) // {d}" for c in (-6, -4, 4, 6) for d in (-8, -4, -3, -2)]
DIVIDED += [f"(i * {c} + i % 5) // {d}" for c in (-6, -4) for d in (2, 3, 4, 8)]
DIVIDED += [f"(i // {c} * {c} + i % {c}) // 3" for c in (2, 4)] + [
    "(i + 8) // 8 * 2 // 3",
    "i * 4 % 6 // 2",
    "(i % 12 + i // 12) // 4",
]
CONDITIONS = [
    "i <= 3",
    "i >= 3",
    "i > 3",
    "3 > i",
    "i // 4 <= 2",
    "i % 6 // 4 >= 1",
    "i * 4 // 6 > 1",
    "(i * 2 + 1) // 2 <= 7",
]


def test_splits_in_another_form_have_the_same_values() -> None:
    """Quotients of sums and remainders, whatever divides what."""
    mod = module(stored(DIVIDED + [f"T.Select({c}, 1, 0)" for c in CONDITIONS]))
    np.testing.assert_array_equal(values(transform.RenormalizeSplitPattern()(mod)), values(mod))
    nested = module(
        stored([f"(i * 8 + j) // {c} // {d} + (i * 8 + j) % {c}" for c in (2, 4, 8) for d in (2, 4)], (3, 8))
    )
    after = transform.RenormalizeSplitPattern()(nested)
    np.testing.assert_array_equal(values(after), values(nested))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("i % 12 // 4", "i // 4 % 3"), ("i % 6 // 4", "i % 6 // 4"), ("i % 8 // 3", "i % 8 // 3"), ("i // 4 // 2", "i // 4 // 2"), ("(i * 8 + j) // 4", "i * 2 + j // 4"),
        ("(i * -8 + j) // 4", "(i * -8 + j) // 4"), ("(i * 8 + j) // -4", "(i * 8 + j) // -4"),
        ("(i % 12 // 4 + n) // 3", "(i // 4 % 3 + n) // 3"), ("i <= n", "T.bool(True)"),
    ],
)  # fmt: skip
def test_forms_of_splits(before: str, after: str) -> None:
    """A quotient of a remainder becomes a remainder of a quotient if it divides; parts are rewritten in what stays."""
    form = "def main(A: T.Buffer((64,), 'int32'), n: T.int32):\n    for i, j in T.grid(16, 8):\n        A[0] = {}"
    if "<=" in before:
        text = script(transform.RenormalizeSplitPattern()(module(form.format(f"T.Select({before}, 1, 0)"))))
        assert "n >= i" in text or "not n < i" in text or "i <= n" in text
        return
    assert f"A[0] = {after}\n" in script(transform.RenormalizeSplitPattern()(module(form.format(before)))) + "\n"


@pytest.mark.parametrize("levels", range(1, 9))
def test_a_quotient_goes_into_six_remainders(levels: int) -> None:
    """Each level taken is `x % m // 2 = x // 2 % (m // 2)`; results of rewriting are rewritten five levels deep, as in TVM: for `x < c` there is no end."""
    sizes = [4 * 3**n for n in range(levels)]  # the innermost last
    taken, left = sizes[: min(levels, 6)], sizes[min(levels, 6) :]
    before = "n" + "".join(f" % {m}" for m in reversed(sizes)) + " // 2"
    after = "n" + "".join(f" % {m}" for m in reversed(left)) + " // 2"
    after += "".join(f" % {m // 2}" for m in reversed(taken))
    text = "def main(A: T.Buffer((1,), 'int32'), n: T.int32):\n    A[0] = {}"
    assert f"A[0] = {after}\n" in script(transform.RenormalizeSplitPattern()(module(text.format(before)))) + "\n"


@pytest.mark.parametrize(
    ("ends", "holds", "fails"),
    [
        ("n", "i < n, i >= 0, i + 1 <= n", "i < n - 1, i > 0"),
        ("m, n", "i >= m, i < n", "i > m, i < n - 1, m > 0"),
        ("m, m + 4", "i >= m, i <= m + 3", "i > m, i < m + 3, i >= 0"),
        ("3, n", "i >= 3, i < n", "i > 3, i < n - 1, n > 4"),
        ("3, 7", "i >= 3, i < 7", "i > 3, i < 6, n > 3"),
        ("n, 7", "i >= n, i < 7", "i > n, i < 6, n > 0"),
    ],
)
def test_what_the_ends_of_a_loop_say(ends: str, holds: str, fails: str) -> None:
    """In a loop its variable is between the ends, sizes or numbers; nothing more is known."""
    for known, conditions in ((True, holds), (False, fails)):
        for condition in conditions.split(", "):
            text = (
                "def main(A: T.Buffer((64,), 'int32'), m: T.int32, n: T.int32):\n"
                f"    for i in range({ends}):\n        if {condition}:\n            A[0] = 1"
            )
            assert ("if " not in script(transform.Simplify()(module(text)))) is known, condition


# ---------------------------------------------------------------------------- vectors


@pytest.mark.parametrize(
    ("extent", "whole"),
    [("4", False), ("2", False), ("2147483647", False), ("n", True), ("0", True), ("T.int64(2147483648)", True)],
)
def test_loops_that_can_be_no_vectors(extent: str, whole: bool) -> None:
    """Of a number of lanes that is unknown, none or too large: all of the body stays as it is."""
    func = parse(
        f"def main(A: T.Buffer((64,), 'int32'), n: T.int32):\n    for i in T.vectorized({extent}):\n        A[i] = 1"
    )
    (loop,) = nodes_of(func.body, For)
    assert lane_by_lane(loop) == ({loop.body} if whole else set())


def test_vectors_of_what_llvm_computes() -> None:
    """All arguments behind the number of those that choose the overload are vectors."""
    text = """def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), x: T.float32):
    for i in T.vectorized(8):
        B[i] = T.call_llvm_pure_intrin("float32", "llvm.fma.f32", T.uint32(3), {a}, {b}, {c})"""
    for a, b, c in itertools.permutations(["A[i]", "x", "T.float32(2)"]):
        new = script(transform.VectorizeLoop()(module(text.format(a=a, b=b, c=c))))
        wide = {"A[i]": "A[0:8]", "x": "T.Broadcast(x, 8)", "T.float32(2)": "T.Broadcast(T.float32(2), 8)"}
        assert f"T.uint32(3), {wide[a]}, {wide[b]}, {wide[c]})" in re.sub(r"\.0\)", ")", new)


# ---------------------------------------------------------------------------- threads and memory

TWO_KERNELS = """def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    S = T.allocate([8], "int32", "shared")
    S_1 = T.Buffer((8,), "int32", data=S, scope="shared")
    with T.launch_thread("threadIdx.x", 8) as t:
        S_1[t] = A[t]
        {one}
    with T.launch_thread("threadIdx.x", 8) as u:
        {two}"""


@pytest.mark.parametrize(
    ("one", "two", "barriers"),
    [
        ("A[t] = 1", "B[u] = S_1[7 - u]", 0), ("B[t] = S_1[7 - t]", "A[u] = 2", 1), ("B[t] = S_1[7 - t]", "A[u] = S_1[7 - u]", 1),
        ("B[t] = S_1[t]", "S_1[u] = 3", 0), ("B[t] = S_1[7 - t]", "S_1[u] = 3", 1),
    ],
)  # fmt: skip
def test_no_barrier_stands_between_kernels(one: str, two: str, barriers: int) -> None:
    """The end of one is a barrier itself; the next begins with nothing to wait for."""
    text = script(transform.ThreadSync("shared")(module(TWO_KERNELS.format(one=one, two=two))))
    assert text.count("tvm_storage_sync") == barriers


# ---------------------------------------------------------------------------- pipelines

PIPELINE = """def main(A: T.Buffer((32,), "int32"), S: T.Buffer((32,), "int32"), n: T.int32):
    for i in T.serial({extent}, annotations={{"software_pipeline_order": {order}, "software_pipeline_stage": {stage}}}):
        with T.block(""):
            T.reads(A[i * 2:i * 2 + 2])
            T.writes(S[i * 2:i * 2 + 2])
            P = T.alloc_buffer((2,), "int32")
            Q = T.alloc_buffer((2,), "int32")
            for j in range(2):
                with T.block(""):
                    T.reads(A[i * 2 + j])
                    T.writes(P[j])
                    P[j] = A[i * 2 + j]
            for j in range(2):
                with T.block(""):
                    T.reads(P[j])
                    T.writes(Q[j])
                    Q[j] = P[j] + 1
            for j in range(2):
                with T.block(""):
                    T.reads(Q[j], P[j])
                    T.writes(S[i * 2 + j])
                    S[i * 2 + j] = Q[j] * 3 + P[j]"""


def versions(writer: int, readers: tuple[int, ...], stage: list[int], order: list[int]) -> int:
    """How many iterations after a write may pass until it is read, with the one that writes if a read is behind it.

    Whether a read is behind it is asked of all later stages, as TVM does; asked of the last one it may be one less.
    """
    distance = max(stage[r] for r in readers) - stage[writer]
    behind = any(order[r] > order[writer] and stage[r] > stage[writer] for r in readers)
    needed = max(stage[r] - stage[writer] + (order[r] > order[writer]) for r in readers)
    assert needed <= max(1, distance + behind) <= needed + 1
    return max(1, distance + behind)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [1, 2, 0]])
@pytest.mark.parametrize("stage", [[0, 1, 2], [0, 2, 2], [0, 0, 1], [0, 1, 1], [0, 1, 3]])
def test_stages_of_a_pipeline(stage: list[int], order: list[int]) -> None:
    """Memory has as many versions as iterations use at one time, and no iteration is lost, however few there are."""
    backwards = any(stage[w] == stage[r] and order[w] > order[r] for w, r in ((0, 1), (0, 2), (1, 2)))
    for extent in ("1", "3", "n"):
        mod = module(PIPELINE.format(extent=extent, stage=stage, order=order))
        if backwards:
            with pytest.raises(TVMagicError, match="in the same sta"):
                transform.InjectSoftwarePipeline()(mod)
            continue
        new = transform.InjectSoftwarePipeline()(mod)
        if extent == "3":
            wanted = [versions(0, (1, 2), stage, order), versions(1, (2,), stage, order)]
            assert [int(n or 1) for n in re.findall(r"alloc_buffer\(\((?:(\d+), )?2,?\)", script(new))] == wanted
        for n in (1, 2, 4) if extent == "n" else (1,):
            given = np.arange(5, 37, dtype="int32")
            outs = [np.full(32, -1, "int32") for _ in range(2)]
            for one, out in zip((mod, new), outs):
                run_function(one["main"], [given, out, np.asarray(n, "int32")])
            np.testing.assert_array_equal(outs[0], outs[1])


@pytest.mark.parametrize("stage", [[0, 0, 1], [0, 1, 1], [0, 1, 2], [0, 2, 2]])
@pytest.mark.parametrize("extent", [2, 3, 5])
def test_pointers_into_memory_of_a_pipeline(stage: list[int], extent: int) -> None:
    """What a call gets is behind all versions before that of its iteration."""
    pointer = 'T.tvm_access_ptr(T.type_annotation("int32"), P.data, j, 1, 1)'
    text = PIPELINE.format(extent=extent, stage=stage, order=[0, 1, 2])
    text = text.replace("Q[j] = P[j] + 1", f'Q[j] = T.call_extern("int32", "f", {pointer})')
    body = transform.InjectSoftwarePipeline()(module(text))["main"].body
    found: list[int] = []

    def run(node: Any, values: dict[Var, int]) -> None:
        if isinstance(node, For):
            first = evaluate(node.min, values)
            for n in range(first, first + evaluate(node.extent, values)):
                run(node.body, {**values, node.loop_var: n})
        elif isinstance(node, BlockRealize):
            numbers: dict[Var, PrimExpr] = {var: IntImm(var.dtype, value) for var, value in values.items()}
            if is_one(Analyzer().simplify(substitute(node.predicate, numbers))):
                run(node.block.body, values)
        elif isinstance(node, BufferStore):
            found.extend(
                evaluate(c.args[2], values) for c in nodes_of(node.value, Call) if is_call(c, "tir.tvm_access_ptr")
            )
        else:
            for part in parts_of(node):
                run(part, values)

    run(body, {})
    count = versions(0, (1, 2), stage, [0, 1, 2])
    assert found == [i % count * 2 + j for i in range(extent) for j in range(2)]


# ---------------------------------------------------------------------------- what is known

TWO = "A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'), n: T.int32"
KNOWN = {
    "tir.Simplify": {"propagate_knowns_to_prove_conditional": True, "propagate_knowns_to_simplify_expressions": True}
}


@pytest.mark.parametrize(
    ("condition", "value", "known"),
    [("n >= 1", 5, True), ("n == 1", 5, True), ("n < 1", 2, True), ("n == 0", 2, True), ("n >= 0", 5, False), ("n < 2", 2, False), ("n > 7", 5, True)],
)  # fmt: skip
def test_what_is_known_behind_a_loop_that_may_not_run(condition: str, value: int, known: bool) -> None:
    text = f"""def main({TWO}):
    A[0] = 2
    for i in range(n):
        A[0] = 5
    if {condition}:
        if A[0] == {value}:
            B[0] = 1"""
    with PassContext(config=KNOWN):
        new = script(transform.Simplify()(module(text)))
    assert ("A[0] ==" not in new) is known


@pytest.mark.parametrize(
    ("use", "shared"), [("", True), ("T.evaluate(T.call_extern('int32', 'f', S))", False), ("T.evaluate(T.call_extern('int32', 'f', R))", False), ("T.evaluate(n)", True)]
)  # fmt: skip
def test_memory_is_written_in_place_if_no_pointer_goes_elsewhere(use: str, shared: bool) -> None:
    text = f"""def main({TWO}):
    S = T.allocate([16], "int32", "global")
    S_1 = T.Buffer((16,), "int32", data=S)
    R = T.allocate([16], "int32", "global")
    R_1 = T.Buffer((16,), "int32", data=R)
    for i in range(16):
        S_1[i] = A[i]
    for i in range(16):
        R_1[i] = S_1[i] + 1
        {use or "T.evaluate(0)"}
    for i in range(16):
        B[i] = R_1[i]"""
    assert script(transform.StorageRewrite()(module(text))).count("T.allocate(") == (1 if shared else 2)


def test_a_thread_that_is_launched_again_inside_keeps_its_bounds() -> None:
    text = f"""def main({TWO}):
    t = T.env_thread("threadIdx.x")
    with T.launch_thread(t, 8):
        with T.block("r"):
            S = T.alloc_buffer((64,), "int32", scope="shared")
            with T.launch_thread(t, 8):
                S[t] = A[t]
            B[t] = S[15 - t]"""
    assert 'S = T.alloc_buffer((16,), "int32", scope="shared")' in script(
        transform.CompactBufferAllocation()(module(text))
    )


@pytest.mark.parametrize(
    ("shape", "index", "checks"),
    [
        ((4, 6), "i, n", [(6, 1)]), ((4, 6), "n, 5", [(4, 0)]), ((4, 6), "n, n + 1", [(4, 0), (6, 1)]),
        ((4, 6, 2), "i, n, n", [(6, 1), (2, 2)]), ((3, 6), "i, 0", [(3, 0)]), ((4, 5), "i, i + 2", [(5, 1)]), ((4, 6), "i, i + 2", []),
    ],
)  # fmt: skip
def test_indices_that_the_program_checks(shape: tuple[int, ...], index: str, checks: list[tuple[int, int]]) -> None:
    """Each that may be outside its dimension, with the shape as it is written."""
    strides = [2 * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    text = f"""def main(a: T.handle, n: T.int32):
    A = T.match_buffer(a, {shape}, "int32", strides={strides})
    for i in range(4):
        A[{index}] = i"""
    with PassContext(config={"tir.check_bounds": True}):
        new = script(transform.FlattenBuffer()(module(text)))
    form = r'T.checked_index\(.*?, (\d+), (\d+), T.bool\(\w+\), "store to buffer `A` of shape (.*?)"\)'
    assert [(int(size), int(axis)) for size, axis, _ in re.findall(form, new)] == checks
    assert {found for _, _, found in re.findall(form, new)} <= {str(shape)}


def test_pragmas_are_around_a_block_in_the_order_of_their_names() -> None:
    text = """def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("b"):
            T.block_attr({"pragma_b": 1, "pragma_a": 2, "other": 3, "pragma_c": 4})
            A[i] = i"""
    new = script(transform.LowerOpaqueBlock()(module(text)))
    assert re.findall(r'T.attr\(0, "(\w+)", (\d)\)', new) == [("pragma_a", "2"), ("pragma_b", "1"), ("pragma_c", "4")]


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(
    "body", ["A[0, i] = i * 3 + 1", "A[0, i] = A[0, {last} - i] + i", "A[0, i] = T.Select(i < 1, 5, i)"]
)
def test_each_lane_of_a_loop_is_there_once(lanes: int, body: str) -> None:
    """A loop of one iteration is its body; lanes read before they write."""
    text = f"def main(A: T.Buffer((1, {lanes}), 'int32')):\n    for i in T.vectorized({lanes}):\n        {body.format(last=lanes - 1)}"
    after = transform.VectorizeLoop()(module(text))
    array = np.full(lanes, -1)
    numbers = np.arange(lanes)
    expected = {
        "A[0, i] = i": numbers * 3 + 1,
        "A[0, i] = A": array + numbers,
        "A[0, i] = T": np.where(numbers < 1, 5, numbers),
    }
    np.testing.assert_array_equal(values(after)[0], expected[body[:11]])
    assert f"x{lanes}" in script(after) or ":" in script(after).split("main")[1].split("):")[1] or lanes == 1


LETS = """def main(A: T.Buffer((16,), "int32"), n: T.int32):
    y = T.int32()
    for i in range(4):
        for j in range(4):
            x: T.int32 = n * 3
            z: T.int32 = i + 7
            if x < 40:
                A[i * 4 + j] = T.Let(y * (x + z), where={y: n + 5})"""


def loops_around(body: Any) -> dict[str, int]:
    """How many loops are around each let and around the branch."""
    found: dict[str, int] = {}

    def look(node: Any, depth: int) -> None:
        if isinstance(node, (Let, LetStmt)):
            found[node.var.name] = depth
        elif isinstance(node, IfThenElse):
            found.setdefault("if", depth)
        inside = {id(part) for part in (node.body,)} if isinstance(node, For) else set()
        for part in parts_of(node):
            look(part, depth + (id(part) in inside))

    look(body, 0)
    return found


@pytest.mark.parametrize("lets", range(8))
@pytest.mark.parametrize("conditionals", [0, 1, 15])
def test_lets_move_out_of_loops_by_their_kind(lets: int, conditionals: int) -> None:
    """1: those that a condition needs that moves; 2: statements; 4: expressions. As far as the loops that they name."""
    mod = module(LETS)
    with PassContext(
        config={"tir.HoistExpression": {"hoisted_let_bindings": lets, "hoisted_conditionals": conditionals}}
    ):
        after = transform.InsertHoistedExpression()(mod)
    needed = bool(conditionals & 1 and lets & 1)
    moves_x = bool(lets & 2) or needed
    assert loops_around(after["main"].body) == {
        "x": 0 if moves_x else 2,
        "z": 1 if lets & 2 else 2,
        "y": 0 if lets & 4 else 2,
        "if": 0 if conditionals & 1 and moves_x else 2,
    }
    for size in (0, 12, 13, 14):
        arrays = [np.full(16, -1, "int32") for _ in range(2)]
        for array, program in zip(arrays, (mod, after)):
            run_function(program["main"], [array, np.array(size, "int32")])
        np.testing.assert_array_equal(arrays[0], arrays[1])
