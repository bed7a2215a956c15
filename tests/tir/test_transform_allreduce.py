"""LowerThreadAllreduce and ThreadsAsLoops: threads that reduce together or wait for each other, step by step."""

import numpy as np
import pytest
from pass_checks import module, script
from refusals import refuses
from test_transform_threads import AXES, shared_copy

import tvmagic
from tvmagic import codegen
from tvmagic.codegen.gpu.threads import prepare_threads
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.ir import IRModule
from tvmagic.target import host_target
from tvmagic.tir.transform import LowerThreadAllreduce, ThreadsAsLoops

ALLREDUCE = """
def main(A: T.Buffer((4, {y}, {x}), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        threadIdx_y = T.launch_thread("threadIdx.y", {y})
        R = T.allocate([1], "float32", "local")
        threadIdx_x = T.launch_thread("threadIdx.x", {x})
        r = T.Buffer((1,), data=R, scope="local")
        with T.attr({reducer}, "reduce_scope", T.reinterpret("handle", T.uint64(0))):
            T.tvm_thread_allreduce(T.uint32(1), A[i, threadIdx_y, threadIdx_x], {where}, r[0], {threads})
        if threadIdx_x == 0:
            B[i, threadIdx_y] = r[0]
"""
SUM = "T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0)])"


def for_target(target: str, mod: IRModule) -> IRModule:
    """Return the module with the target as an attribute of each function."""
    return IRModule({v.name_hint: f.with_attr("target", codegen.Target(target)) for v, f in mod.functions_items()})


def allreduce(y: int, x: int, threads: str, reducer: str = SUM, where: str = "T.bool(True)") -> str:
    return ALLREDUCE.format(y=y, x=x, threads=threads, reducer=reducer, where=where)


def test_the_warps_of_the_functions_target() -> None:
    mod = module(allreduce(1, 32, "threadIdx_x"))
    assert '"warp"' not in script(LowerThreadAllreduce()(mod))
    for target, count in (("nvptx", 10), ("nvptx -thread_warp_size=8", 6), ("llvm", 0)):
        text = script(LowerThreadAllreduce()(for_target(target, mod)))
        assert text.count('T.tvm_storage_sync("warp")') == count


def for_cuda(text: str) -> list[str]:
    """The lines of the steps that are written for CUDA."""
    lowered = script(LowerThreadAllreduce()(for_target("cuda", module(text))))
    lines = [line.strip() for line in lowered.replace("red_buf0_1", "red").splitlines()]
    return lines[next(n for n, line in enumerate(lines) if "reduce_scope" in line) + 1 :]


@pytest.mark.parametrize(
    ("size", "distances"),
    [(2, [1]), (3, [2, 1]), (4, [2, 1]), (5, [4, 2, 1]), (16, [8, 4, 2, 1]), (17, [16, 8, 4, 2, 1]), (32, [16, 8, 4, 2, 1])],
)  # fmt: skip
def test_values_come_from_half_as_far_at_each_step(size: int, distances: list[int]) -> None:
    lines = for_cuda(allreduce(1, size, "threadIdx_x"))
    assert [int(line.split(", ")[2]) for line in lines if "shuffle_down" in line] == distances


@pytest.mark.parametrize(("y", "x", "threads"), [(4, 6, "threadIdx_x"), (8, 4, "threadIdx_y"), (1, 48, "threadIdx_x")])
def test_groups_that_are_no_warps_reduce_in_shared_memory(y: int, x: int, threads: str) -> None:
    """Several groups of no power of two; threads that do not follow each other; more than a warp, but not several."""
    lines = for_cuda(allreduce(y, x, threads))
    assert not any("shuffle" in line for line in lines) and 'T.tvm_storage_sync("shared")' in lines


@pytest.mark.parametrize(
    ("y", "x", "threads", "place"),
    [(1, 6, "threadIdx_x", "threadIdx_x"), (1, 6, "threadIdx_x, threadIdx_y", "threadIdx_x"), (6, 1, "threadIdx_x, threadIdx_y", "threadIdx_y"), (6, 1, "threadIdx_y", "threadIdx_y"), (2, 3, "threadIdx_x", "threadIdx_y * 3 + threadIdx_x"), (2, 3, "threadIdx_x, threadIdx_y", "threadIdx_x + threadIdx_y * 3")],
)  # fmt: skip
def test_an_axis_of_one_thread_has_no_part_in_places(y: int, x: int, threads: str, place: str) -> None:
    text = script(LowerThreadAllreduce()(module(allreduce(y, x, threads))))
    assert f"red_buf0_1[{place}] = A[i, threadIdx_y, threadIdx_x]" in text


def test_one_thread_needs_no_step() -> None:
    text = script(LowerThreadAllreduce()(module(allreduce(3, 1, "threadIdx_x"))))
    assert "red_buf" not in text and "r_1[0] = A[i, threadIdx_y, threadIdx_x]" in text
    mod = module("def main(A: T.Buffer((4,), 'float32')):\n    A[0] = 1.0")
    assert LowerThreadAllreduce()(mod) is mod and ThreadsAsLoops()(mod) is mod


def _sharing_text(y: int, x: int) -> str:
    """The memory of the result also has a value that comes from it, as StorageRewrite lets it."""
    last = "        if threadIdx_x == 0:\n            B[i, threadIdx_y] = r[0]\n"
    text = allreduce(y, x, "threadIdx_x").replace(last, "        r[0] = r[0] * T.float32(2)\n" + last)
    assert "r[0] * T" in text
    return text


@pytest.mark.parametrize(("y", "x"), [(4, 6), (4, 8), (2, 128)], ids=["shared memory", "a warp", "warps"])
def test_the_memory_of_a_result_that_has_other_values_too_stays(y: int, x: int) -> None:
    lines = [line.replace("r_1[", "r[") for line in for_cuda(_sharing_text(y, x))]
    copied = next(n for n, line in enumerate(lines) if line.startswith("r[0] = red"))
    assert lines[copied + 1] == "r[0] = r[0] * T.float32(2.0)"
    assert lines[-1] == "B[i, threadIdx_y] = r[0]"
    values, result = np.random.default_rng(0).random((4, y, x)).astype("float32"), np.zeros((4, 8), "float32")
    tvmagic.build(module(_sharing_text(y, x)))(values, result)
    np.testing.assert_allclose(result[:, :y], 2 * values.sum(axis=2), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("r[0], threadIdx_x)", "r[0], i)"), "tir.thread_reduction.outside_threads"),
        (('launch_thread("threadIdx.x", 6)', 'launch_thread("threadIdx.x", T.Cast("int32", A[0, 0, 0]))'), "tir.thread_reduction.symbolic_extent"),
        (("r[0], threadIdx_x)", "A[i, 0, 0] + r[0], threadIdx_x)"), "tir.thread_reduction.wrong_result"),
        (("T.uint32(1)", "T.uint32(2)"), "tir.thread_reduction.wrong_arguments"),
        (("r[0], threadIdx_x)", "r[0], threadIdx_x + 1)"), "tir.thread_reduction.not_a_thread"),
    ],
)  # fmt: skip
def test_refused_reductions(change: tuple[str, str], code: str) -> None:
    with refuses(code):
        LowerThreadAllreduce()(module(allreduce(2, 6, "threadIdx_x").replace(*change)))


@pytest.mark.parametrize("axis", ["threadIdx.x", "threadIdx.z"])
def test_threads_of_unknown_number_have_a_hint(axis: str) -> None:
    launch = f'launch_thread("{axis}", T.Cast("int32", A[0, 0, 0]))'
    text = allreduce(2, 6, "threadIdx_x").replace('launch_thread("threadIdx.x", 6)', launch)
    with pytest.raises(TVMagicError) as caught:
        LowerThreadAllreduce()(module(text))
    assert caught.value.hint == "split the loop by a constant"


TWO = """
def main(A: T.Buffer(({y}, {x}), "float32"), B: T.Buffer(({y}, {x}), "float32"), C: T.Buffer(({y}, {x}), "float32")):
    threadIdx_y = T.launch_thread("threadIdx.y", {y})
    R = T.allocate([1], "float32", "local")
    threadIdx_x = T.launch_thread("threadIdx.x", {x})
    r = T.Buffer((1,), data=R, scope="local")
    with T.attr({reducer}, "reduce_scope", T.reinterpret("handle", T.uint64(0))):
        T.tvm_thread_allreduce(T.uint32(1), A[threadIdx_y, threadIdx_x], T.bool(True), r[0], {first})
    B[threadIdx_y, threadIdx_x] = r[0]
    with T.attr({reducer}, "reduce_scope", T.reinterpret("handle", T.uint64(0))):
        T.tvm_thread_allreduce(T.uint32(1), A[threadIdx_y, threadIdx_x] + T.float32(1), T.bool(True), r[0], {second})
    C[threadIdx_y, threadIdx_x] = r[0]
"""
X, Y, BOTH = "threadIdx_x", "threadIdx_y", "threadIdx_x, threadIdx_y"


@pytest.mark.parametrize(
    ("target", "y", "x", "first", "second"),
    [("llvm", 4, 6, X, Y), ("llvm", 4, 6, X, BOTH), ("cuda", 4, 32, X, BOTH), ("cuda", 2, 64, X, BOTH), ("cuda", 4, 6, X, BOTH)],
)  # fmt: skip
def test_one_result_of_reductions_over_different_threads(target: str, y: int, x: int, first: str, second: str) -> None:
    """What comes in its place is at one place for each thread."""
    for one, two, fits in ((first, first, True), (second, second, True), (first, second, False)):
        mod = for_target(target, module(TWO.format(y=y, x=x, reducer=SUM, first=one, second=two)))
        if fits:
            assert script(LowerThreadAllreduce()(mod)).count("A[threadIdx_y, threadIdx_x]") == 2
            continue
        with pytest.raises(TVMagicError, match="`r`"):
            LowerThreadAllreduce()(mod)


def test_results_of_reductions_in_turn() -> None:
    values, b, c = np.arange(24, dtype="float32").reshape(4, 6), *np.zeros((2, 4, 6), "float32")
    tvmagic.build(module(TWO.format(y=4, x=6, reducer=SUM, first=X, second=X)))(values, b, c)
    np.testing.assert_array_equal(b, values.sum(axis=1, keepdims=True).repeat(6, 1))
    np.testing.assert_array_equal(c, b + 6)


# ---------------------------------------------------------------------------- loops over the threads

WAITING = """
def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4, 16), "float32")):
    blockIdx_x = T.launch_thread("blockIdx.x", 4)
    S = T.allocate([16], "float32", "shared")
    L = T.allocate([2], "float32", "local")
    threadIdx_x = T.launch_thread("threadIdx.x", 16)
    s = T.Buffer((16,), data=S, scope="shared")
    l = T.Buffer((2,), data=L, scope="local")
"""


def waiting(*lines: str) -> str:
    return WAITING + "\n".join(f"    {line}" for line in lines)


@pytest.mark.parametrize(
    "lines",
    [
        ("if threadIdx_x < 8:", '    T.tvm_storage_sync("shared")'),
        ("for k in range(threadIdx_x):", '    T.tvm_storage_sync("shared")'),
        ("l[0] = A[0, threadIdx_x]", "while l[0] < T.float32(1):", '    T.tvm_storage_sync("shared")', "    l[0] = T.float32(2)"),
    ],
)  # fmt: skip
def test_a_barrier_where_not_all_threads_come(lines: tuple[str, ...]) -> None:
    with refuses("tir.kernel.barrier_depends_on_thread"):
        ThreadsAsLoops()(module(waiting(*lines)))


@pytest.mark.parametrize("axes", [AXES, ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")])
def test_lowered_threads_that_share_memory_run_here(axes: tuple[str, str, str, str]) -> None:
    values = np.random.default_rng(0).random(64, dtype="float32")
    built = tvmagic.build(tvmagic.lower(shared_copy(axes).mod))
    np.testing.assert_array_equal(built(values), np.roll(values.reshape(4, 16), -1, axis=1).ravel() * 2)


def test_threads_that_share_memory_where_some_are_not_are_refused() -> None:
    text = waiting("if threadIdx_x < 8:", "    s[threadIdx_x] = A[0, threadIdx_x]",
                   "    B[blockIdx_x, threadIdx_x] = s[7 - threadIdx_x]")  # fmt: skip
    with pytest.raises(BuildError, match="`s`"):
        tvmagic.build(module(text))


def test_functions_without_launches_are_left_alone() -> None:
    mod = module("def main(A: T.Buffer((4,), 'float32')):\n    for i in range(4):\n        A[i] = 1.0")
    assert prepare_threads(mod, host_target()) is mod


def test_code_for_a_gpu_has_the_barriers_of_a_reduction() -> None:
    assert codegen.assembly(module(allreduce(2, 32, "threadIdx_x")), "nvptx").count("bar.sync") >= 7


@pytest.mark.parametrize(
    ("arguments", "works"),
    [
        ("1, V, C, R", True),
        ("1, V, C, R, X", True),
        ("1, V, C", False),
        ("1, V", False),
        ("2, V, C, R, X", False),
        ("0, C, R, X", False),
    ],
)
def test_arguments_of_a_reduction_over_threads(arguments: str, works: bool) -> None:
    """The number of values, the values, a condition, a result of each, then the threads: none is one group of one thread."""
    parts = {"V": "A[i, threadIdx_y, threadIdx_x]", "C": "T.bool(True)", "R": "r[0]", "X": "threadIdx_x"}
    count, *rest = arguments.split(", ")
    text = allreduce(2, 4, "threadIdx_x")
    line = next(line for line in text.splitlines() if "tvm_thread_allreduce" in line)
    call = f"            T.tvm_thread_allreduce({', '.join([f'T.uint32({count})', *[parts[p] for p in rest]])})"
    mod = module(text.replace(line, call))
    if not works:
        with refuses("tir.thread_reduction.wrong_arguments"):
            LowerThreadAllreduce(32)(mod)
    else:
        after = script(LowerThreadAllreduce(32)(mod))
        assert ("red_buf0" in after) is (rest[-1] == "X") and "tvm_thread_allreduce" not in after


def test_memory_around_a_kernel() -> None:
    """Of what only threads use, each has its own; what the function uses, too, is the same for all."""
    text = """
        def main(A: T.Buffer((2, 8), "float32"), B: T.Buffer((2, 8), "float32")):
            L = T.allocate([1], "float32", "local")
            M = T.allocate([8], "float32", "local")
            S = T.allocate([8], "float32", "shared")
            m = T.Buffer((8,), data=M, scope="local")
            for i in range(2):
                for k in range(8):
                    m[k] = A[i, 7 - k]
                threadIdx_x = T.launch_thread("threadIdx.x", 8)
                l = T.Buffer((1,), data=L, scope="local")
                s = T.Buffer((8,), data=S, scope="shared")
                l[0] = m[threadIdx_x]
                s[threadIdx_x] = A[i, threadIdx_x]
                T.tvm_storage_sync("shared")
                B[i, threadIdx_x] = l[0] + s[(threadIdx_x + 1) % 8]
    """
    values = np.random.default_rng(0).random((2, 8), dtype="float32")
    np.testing.assert_array_equal(tvmagic.build(module(text))(values), values[:, ::-1] + np.roll(values, -1, axis=1))
