"""Reductions over threads in TensorIR: LowerCrossThreadReduction, and such functions lowered."""

import numpy as np
import pytest
from pass_checks import module, script
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.passes import recording
from tvmagic.tir.transform import LowerCrossThreadReduction

SUM = 'T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))'


# A block before the reduction in the same thread, as rfactor leaves it; the result in each thread's own memory,
# from where a block outside the threads' loop stores it.
BEFORE_AND_AFTER = """
def main(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4,), "float32")):
    S = T.alloc_buffer((8, 4), scope="local")
    B = T.alloc_buffer((4,), scope="local")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            for l in range(4):
                with T.block("S"):
                    vk, vi, vl = T.axis.remap("SSR", [k, i, l])
                    T.reads(A[vi, vk * 4 + vl])
                    T.writes(S[vk, vi])
                    with T.init():
                        S[vk, vi] = T.float32(0)
                    S[vk, vi] = S[vk, vi] + A[vi, vk * 4 + vl]
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                T.reads(S[vk, vi])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + S[vk, vi]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(B[vi])
            T.writes(C[vi])
            C[vi] = B[vi] * T.float32(2)
"""


def test_what_stays_in_a_threads_own_memory_is_computed_by_all() -> None:
    text = BEFORE_AND_AFTER.replace("C: T.Buffer((4,)", "D: T.Buffer((4,)").replace(
        "    for i in", '    C = T.alloc_buffer((4,), scope="local")\n    for i in', 1
    )
    assert "tx" not in script(LowerCrossThreadReduction()(module(text)))


def test_a_lone_condition_on_the_output_is_kept() -> None:
    """TVM drops it, and stores beyond the end."""
    text = (
        reduction(PLAIN)
        .replace("for i in range(8):", "for i in range(10):")
        .replace(
            'vi, vk = T.axis.remap("SR", [i, k])', 'vi, vk = T.axis.remap("SR", [i, k])\n                T.where(i < 8)'
        )
    )
    lowered = script(LowerCrossThreadReduction()(module(text)))
    assert "T.where(i < 8 and k == 0)" in lowered and "T.where(i < 8)\n" in lowered
    values = np.random.default_rng(0).random((8, 16), dtype="float32")
    result, unused = np.zeros(8, "float32"), np.zeros(8, "float32")
    tvmagic.build(tvmagic.lower(module(text)), check_bounds=True)(values, result, unused)
    np.testing.assert_allclose(result, values.sum(axis=1), rtol=1e-5)


def reduction(update: str, init: str = "B[vi] = T.float32(0)", **parts: str) -> str:
    """A function with one reduction over threads; `parts` replace what they name."""
    lines = [
        'def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):',
        "    for i in range(8):",
        '        for k in T.thread_binding(16, thread="threadIdx.x"):',
        '            with T.block("B"):',
        '                vi, vk = T.axis.remap("SR", [i, k])',
        "                with T.init():",
        *[f"                    {line}" for line in init.splitlines()],
        *[f"                {line}" for line in update.splitlines()],
    ]
    text = "\n".join(lines)
    for old, new in parts.items():
        text = text.replace(
            {
                "loops": 'for i in range(8):\n        for k in T.thread_binding(16, thread="threadIdx.x")',
                "thread": "threadIdx.x",
            }[old],
            new,
            1,
        )
    return text


PLAIN = "B[vi] = B[vi] + A[vi, vk]"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            reduction(PLAIN, loops='for k in T.thread_binding(16, thread="threadIdx.x"):\n        for i in range(8)'),
            "tir.thread_reduction.loops_not_innermost",
        ),
        (reduction(PLAIN, thread="blockIdx.x"), "tir.thread_reduction.wrong_thread"),
        (reduction(PLAIN + "\nC[vi] = A[vi, vk]"), "schedule.init_and_update_differ"),
        (reduction("B[vi] = B[vi] - A[vi, vk]"), "schedule.unknown_reducer"),
        (reduction("B[vi] = B[vi] + B[vi] * A[vi, vk]"), "schedule.unknown_reducer"),
        (reduction(PLAIN, "B[vi] = T.float32(1)"), "schedule.unknown_reducer"),
        (reduction("B[vi] = T.max(B[vi], A[vi, vk])", "B[vi] = C[vi]"), "schedule.unknown_reducer"),
        (reduction("B[vi] = T.Select(A[vi, 0] > T.float32(0), B[vi], A[vi, vk])"), "schedule.unknown_reducer"),
        (
            reduction(PLAIN)
            + '\n            with T.block("C"):\n                vi = T.axis.spatial(8, i)\n                C[vi] = B[vi]',
            "tir.thread_reduction.followed_inside_loop",
        ),
    ],
)
def test_refused(text: str, code: str) -> None:
    with refuses(code):
        LowerCrossThreadReduction()(module(text))


@pytest.mark.parametrize(
    ("update", "init", "reducer"),
    [
        (PLAIN, "B[vi] = T.float32(0)", "lambda x0, y0: x0 + y0, [T.float32(0.0)]"),
        ("B[vi] = A[vi, vk] * B[vi]", "B[vi] = T.float32(1)", "lambda x0, y0: x0 * y0, [T.float32(1.0)]"),
        ("B[vi] = T.min(B[vi], A[vi, vk])", "B[vi] = T.float32(9)", "lambda x0, y0: T.min(x0, y0), [T.float32(9.0)]"),
        (
            "b: T.float32 = B[vi] + A[vi, vk]\nc: T.float32 = T.max(C[vi], A[vi, vk])\nC[vi] = c\nB[vi] = b",
            "C[vi] = T.float32(-5)\nB[vi] = T.float32(0)",
            "lambda x0, x1, y0, y1: (x0 + y0, T.max(x1, y1)), [T.float32(0.0), T.float32(-5.0)]",
        ),
        (
            "b: T.float32 = T.if_then_else(C[vi] < A[vi, vk], T.Cast('float32', vk), B[vi])\n"
            "c: T.float32 = T.if_then_else(C[vi] < A[vi, vk], A[vi, vk], C[vi])\nB[vi] = b\nC[vi] = c",
            "B[vi] = T.float32(-1)\nC[vi] = T.float32(-5)",
            "lambda x0, x1, y0, y1: (T.if_then_else(x1 < y1, y0, x0), T.if_then_else(x1 < y1, y1, x1)), "
            "[T.float32(-1.0), T.float32(-5.0)]",
        ),
    ],
)
def test_reducers(update: str, init: str, reducer: str) -> None:
    assert f"T.comm_reducer({reducer})" in script(LowerCrossThreadReduction()(module(reduction(update, init))))


def test_what_is_no_reduction_over_threads_stays() -> None:
    for text in (
        reduction(PLAIN, thread="vthread").replace('T.thread_binding(16, thread="vthread")', "range(16)"),
        "def main(A: T.Buffer((8,), 'float32')):\n    for i in T.thread_binding(8, thread='threadIdx.x'):\n        A[i] = 1.0",
    ):
        mod = module(text)
        assert LowerCrossThreadReduction()(mod) is mod
    a, k = te.placeholder((8, 16), name="A"), te.reduce_axis((0, 16), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    mod = tvmagic.driver.schedule_to_module(s, [a, b])
    assert LowerCrossThreadReduction()(mod) is mod


def row_sums(n: int, m: int, threads: int | None) -> tir.Schedule:
    """The sums of `n` rows of `m`, a row for each block, by `threads` threads (as many as elements unless given)."""
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), "k")
    sch = tir.Schedule(te.create_prim_func([a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")]))
    rows, columns = sch.get_loops(sch.get_block("B"))
    sch.bind(rows, "blockIdx.x")
    sch.bind(columns if threads is None else sch.split(columns, [None, threads])[1], "threadIdx.x")
    return sch


def test_lowered_text() -> None:
    with recording() as record:
        lowered = tvmagic.lower(row_sums(8, 60, 16).mod)
    assert "tir.LowerCrossThreadReduction" in [step.name for step in record if step.changed]
    assert record.notes("cross_thread")
    assert script(lowered).splitlines()[3:] == [
        '    blockIdx_x = T.launch_thread("blockIdx.x", 8)',
        '    in_thread_B = T.allocate([1], "float32", "local")',
        '    cross_thread_B = T.allocate([1], "float32", "local")',
        '    threadIdx_x = T.launch_thread("threadIdx.x", 16)',
        '    in_thread_B_1 = T.Buffer((1,), data=in_thread_B, scope="local")',
        "    in_thread_B_1[0] = T.float32(0.0)",
        "    for k_0 in range(4):",
        "        if k_0 * 4 + threadIdx_x // 4 < 15:",
        "            A_1 = T.Buffer((480,), data=A.data)",
        "            in_thread_B_1[0] = in_thread_B_1[0] + A_1[blockIdx_x * 60 + k_0 * 16 + threadIdx_x]",
        '    cross_thread_B_1 = T.Buffer((1,), data=cross_thread_B, scope="local")',
        f"    with T.attr({SUM.replace('(0)]', '(0.0)]')}):",
        "        T.tvm_thread_allreduce(T.uint32(1), in_thread_B_1[0], T.bool(True), cross_thread_B_1[0], threadIdx_x)",
        "    if threadIdx_x == 0:",
        "        B_1 = T.Buffer((8,), data=B.data)",
        "        B_1[blockIdx_x] = cross_thread_B_1[0]",
    ]


@pytest.mark.parametrize(("n", "m", "threads"), [(8, 64, 16), (5, 60, 16), (3, 33, None), (4, 100, 7), (2, 1, None)])
def test_lowered_results(n: int, m: int, threads: int | None) -> None:
    values = np.random.default_rng(0).random((n, m), dtype="float32")
    mod = row_sums(n, m, threads).mod
    for built in (tvmagic.build(tvmagic.lower(mod)), tvmagic.build(mod)):
        np.testing.assert_allclose(built(values), values.sum(axis=1), rtol=1e-5)


def test_lowered_results_of_wide_indices() -> None:
    """Threads counted in 64 bits, as in a program with such shapes."""
    size = tir.const(40, "int64")
    a, k = te.placeholder((size, size), name="A"), te.reduce_axis((tir.const(0, "int64"), size), "k")
    sch = tir.Schedule(te.create_prim_func([a, te.compute((size,), lambda i: te.sum(a[i, k], axis=k), name="B")]))
    rows, columns = sch.get_loops(sch.get_block("B"))
    sch.bind(rows, "blockIdx.x")
    sch.bind(sch.split(columns, [None, 16])[1], "threadIdx.x")
    values = np.random.default_rng(0).random((40, 40), dtype="float32")
    np.testing.assert_allclose(tvmagic.build(tvmagic.lower(sch.mod))(values), values.sum(axis=1), rtol=1e-5)


def test_lowered_results_around_a_reduction() -> None:
    values = np.random.default_rng(0).random((4, 32), dtype="float32")
    built = tvmagic.build(tvmagic.lower(module(BEFORE_AND_AFTER)))
    np.testing.assert_allclose(built(values), values.sum(axis=1) * 2, rtol=1e-5)


@pytest.mark.parametrize("scope", ["shared", "local", "global"])
def test_two_reductions_in_one_kernel(scope: str) -> None:
    """A softmax: each thread needs the results of both reductions, from whichever memory."""
    n, m, threads = 3, 60, 16
    a = te.placeholder((n, m), name="A")
    k, l = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "l")
    high = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="M")
    power = te.compute((n, m), lambda i, j: te.exp(a[i, j] - high[i]), name="E")
    total = te.compute((n,), lambda i: te.sum(power[i, l], axis=l), name="S")
    sch = tir.Schedule(te.create_prim_func([a, te.compute((n, m), lambda i, j: power[i, j] / total[i], name="O")]))
    sch.compute_inline(sch.get_block("E"))
    out = sch.get_block("O")
    rows = sch.get_loops(out)[0]
    sch.bind(rows, "blockIdx.x")
    for name in ("S", "M"):
        block = sch.get_block(name)
        sch.compute_at(block, rows)
        sch.set_scope(block, 0, scope)
    for name in ("S", "M", "O"):
        sch.bind(sch.split(sch.get_loops(sch.get_block(name))[-1], [None, threads])[1], "threadIdx.x")
    values = np.random.default_rng(0).random((n, m), dtype="float32")
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    wanted = powers / powers.sum(axis=1, keepdims=True)
    for built in (tvmagic.build(tvmagic.lower(sch.mod)), tvmagic.build(sch.mod)):
        np.testing.assert_allclose(built(values), wanted, rtol=1e-4)


def test_threads_that_fetch_together_and_reduce_together() -> None:
    """Inside the reduction's loops, all threads bring a part of `A` to shared memory; two reduce each element of `C`."""
    mod = module(
        """
        def main(A: T.Buffer((16, 48), "float32"), B: T.Buffer((8, 48), "float32"), C: T.Buffer((16, 8), "float32")):
            C_local = T.alloc_buffer((16, 8), scope="local")
            A_shared = T.alloc_buffer((16, 48), scope="shared")
            for i in T.thread_binding(4, thread="blockIdx.x"):
                for j in T.thread_binding(32, thread="threadIdx.y"):
                    for k2 in T.thread_binding(2, thread="threadIdx.x"):
                        for k0 in range(4):
                            for f in T.thread_binding(32, thread="threadIdx.y"):
                                for g in T.thread_binding(2, thread="threadIdx.x"):
                                    with T.block("A_shared"):
                                        v0 = T.axis.spatial(16, i * 4 + (f * 2 + g) // 12)
                                        v1 = T.axis.spatial(48, k0 * 12 + (f * 2 + g) % 12)
                                        T.where(f * 2 + g < 48)
                                        A_shared[v0, v1] = A[v0, v1]
                            for k1 in range(6):
                                with T.block("C_local"):
                                    v0 = T.axis.spatial(16, i * 4 + j // 8)
                                    v1 = T.axis.spatial(8, j % 8)
                                    v2 = T.axis.reduce(48, k0 * 12 + k1 * 2 + k2)
                                    with T.init():
                                        C_local[v0, v1] = T.float32(0)
                                    C_local[v0, v1] = C_local[v0, v1] + A_shared[v0, v2] * B[v1, v2]
                    with T.block("C"):
                        v0 = T.axis.spatial(16, i * 4 + j // 8)
                        v1 = T.axis.spatial(8, j % 8)
                        C[v0, v1] = C_local[v0, v1]
        """
    )
    text = script(LowerCrossThreadReduction()(mod))
    assert 'for g in T.thread_binding(2, thread="threadIdx.x")' in text and "T.where(tx == 0)" in text
    a, b = (np.random.default_rng(n).random((16 - 8 * n, 48), dtype="float32") for n in (0, 1))
    for built in (tvmagic.build(tvmagic.lower(mod), check_bounds=True), tvmagic.build(mod)):
        np.testing.assert_allclose(built(a, b), a @ b.T, rtol=1e-5)
