"""Passes on loops that are bound to threads, and such schedules on this machine."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checks import module, script
from refusals import refuses

import tvmagic
from tvmagic import codegen, te, tir
from tvmagic.errors import TVMagicError
from tvmagic.passes import recording
from tvmagic.tir.transform import (
    ConvertThreadLoopsToSerial,
    KernelMemory,
    LiftThreadBinding,
    ThreadSync,
    UnifyThreadBinding,
)

TWO_STAGES = """
def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    for i in T.thread_binding(8, thread="blockIdx.x"):
        for j in T.thread_binding(16, thread="threadIdx.x"):
            B[i, j] = A[i, j] * T.float32(2)
        for k in T.thread_binding({extent}, thread="threadIdx.x"):
            C[i, {k}] = B[i, {k}] + T.float32(1)
"""


def test_loops_of_one_axis_with_two_extents_are_refused() -> None:
    with pytest.raises(TVMagicError, match="`threadIdx.x`"):
        UnifyThreadBinding()(module(TWO_STAGES.format(extent="4", k="k")))


def shared_copy(axes: tuple[str, str, str, str]) -> tir.Schedule:
    """`B` from a copy of `A` in shared memory, made by the threads of each block together; each reads another's."""
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i // 16 * 16 + (i % 16 + 1) % 16] * 2.0, name="B")
    sch = tir.Schedule(te.create_prim_func([a, b]))
    block = sch.get_block("B")
    loops = sch.split(sch.get_loops(block)[0], [2, 2, 4, 4])
    copy = sch.cache_read(block, 0, "shared")
    sch.compute_at(copy, loops[1])
    mine = sch.split(sch.get_loops(copy)[-1], [4, 4])
    for loop, axis in zip((*loops, *mine), (*axes, *axes[2:])):
        sch.bind(loop, axis)
    return sch


AXES = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y")


@pytest.mark.parametrize("axes", [AXES, ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")])
def test_lifted_threads_come_inside_blocks(axes: tuple[str, str, str, str]) -> None:
    """The order in which TVM nests them: the lifted axes turn round."""
    mod = shared_copy(axes).mod
    for name in ("PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque"):
        mod = getattr(tir.transform, name)()(mod)
    lifted = re.findall(r'thread="(.*?)"', LiftThreadBinding()(mod).script())
    assert lifted == [axes[0], axes[1], axes[3], axes[2]]
    assert re.findall(r'thread="(.*?)"', UnifyThreadBinding()(mod).script()) == list(axes)


def test_a_schedule_for_a_gpu_gives_the_right_result_here() -> None:
    """What one thread reads, another wrote: the loops run one after the other, each to its end."""
    values = np.random.default_rng(0).random(64, dtype="float32")
    wanted = np.roll(values.reshape(4, 16), -1, axis=1).ravel() * 2
    sch = shared_copy(AXES)
    np.testing.assert_array_equal(tvmagic.build(sch.mod)(values), wanted)
    np.testing.assert_array_equal(tvmagic.build(sch.mod["main"])(values), wanted)
    serial = ConvertThreadLoopsToSerial()(sch.mod)
    assert "thread_binding" not in serial.script() and ConvertThreadLoopsToSerial()(serial) is serial
    with recording() as record:
        tvmagic.build(sch.mod)
    assert next(iter(record)).name == "tir.ConvertThreadLoopsToSerial"


def test_a_reduction_over_threads() -> None:
    a, k = te.placeholder((8, 64), name="A"), te.reduce_axis((0, 64), "k")
    sch = tir.Schedule(te.create_prim_func([a, te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")]))
    rows, columns = sch.get_loops(sch.get_block("B"))
    sch.bind(rows, "blockIdx.x")
    sch.bind(sch.split(columns, [None, 16])[1], "threadIdx.x")
    values = np.random.default_rng(0).random((8, 64), dtype="float32")
    np.testing.assert_allclose(tvmagic.build(sch.mod)(values), values.sum(axis=1), rtol=1e-5)


KERNEL = """
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    S = T.allocate([64], "float32", "{scope}")
    U = T.allocate([64], "float32", "{scope}")
    threadIdx_x = T.launch_thread("threadIdx.x", 16)
    s = T.Buffer((64,), data=S, scope="{scope}")
    u = T.Buffer((64,), data=U, scope="{scope}")
{body}
"""


def synchronized(body: str, scope: str = "shared") -> list[str]:
    """The statements after ThreadSync, a barrier as `sync`."""
    lines = [f"    {line}" for line in body.strip().splitlines()]
    text = script(ThreadSync(scope)(module(KERNEL.format(scope=scope, body="\n".join(lines)))))
    barrier = f'T.tvm_storage_sync("{scope}")'
    found = [line.strip().replace(barrier, "sync") for line in text.splitlines()]
    return [re.sub(r"\b([su])_1\b", r"\1", line) for line in found if not re.match(r"@|def|\w+ = T\.", line)]


WRITE_OWN, READ_NEXT = "s[threadIdx_x] = A[threadIdx_x]", "B[threadIdx_x] = s[(threadIdx_x + 1) % 16]"


OWN_ROWS = ["    B[threadIdx_x] = s[k * 16 + threadIdx_x]", "    s[k * 16 + threadIdx_x] = A[k]"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([WRITE_OWN, READ_NEXT], [WRITE_OWN, "sync", READ_NEXT]),
        # what a thread wrote itself
        ([WRITE_OWN, "B[threadIdx_x] = s[threadIdx_x]"], [WRITE_OWN, "B[threadIdx_x] = s[threadIdx_x]"]),
        (["for k in range(4):", *OWN_ROWS], ["for k in range(4):", *[line.strip() for line in OWN_ROWS]]),
        # another thread's place of an iteration before, which TVM does not see
        (
            [
                "for k in range(4):",
                *[line.replace("k * 16 + threadIdx_x", "(k + threadIdx_x) % 16") for line in OWN_ROWS],
            ],
            [
                "for k in range(4):",
                "sync",
                "B[threadIdx_x] = s[(k + threadIdx_x) % 16]",
                "s[(k + threadIdx_x) % 16] = A[k]",
            ],
        ),
        # one barrier is enough for two reads; a read before a write needs one too
        ([WRITE_OWN, READ_NEXT, READ_NEXT], [WRITE_OWN, "sync", READ_NEXT, READ_NEXT]),
        ([READ_NEXT, WRITE_OWN], [READ_NEXT, "sync", WRITE_OWN]),
        # the next iteration writes what this one reads
        (
            ["for k in range(4):", "    " + WRITE_OWN, "    " + READ_NEXT],
            ["for k in range(4):", "sync", WRITE_OWN, "sync", READ_NEXT],
        ),
        # a place for all, written by one
        (
            [
                "if threadIdx_x < 1:",
                "    s[0] = A[0]",
                "B[threadIdx_x] = s[0]",
                "if threadIdx_x < 1:",
                "    s[0] = A[1]",
            ],
            [
                "if threadIdx_x < 1:",
                "s[0] = A[0]",
                "sync",
                "B[threadIdx_x] = s[0]",
                "sync",
                "if threadIdx_x < 1:",
                "s[0] = A[1]",
            ],
        ),
        # a loop is one statement for what follows it
        (
            ["for k in range(4):", "    s[k * 16 + threadIdx_x] = A[k]", READ_NEXT],
            ["for k in range(4):", "s[k * 16 + threadIdx_x] = A[k]", "sync", READ_NEXT],
        ),
        ([WRITE_OWN, 'T.tvm_storage_sync("shared")', READ_NEXT], [WRITE_OWN, "sync", READ_NEXT]),
        # one of other memory does not do
        (
            [WRITE_OWN, 'T.tvm_storage_sync("warp")', READ_NEXT],
            [WRITE_OWN, 'T.tvm_storage_sync("warp")', "sync", READ_NEXT],
        ),
        (
            [WRITE_OWN, "with T.LetStmt(s[15 - threadIdx_x]) as x:", "    B[threadIdx_x] = x"],
            [WRITE_OWN, "sync", "x: T.float32 = s[15 - threadIdx_x]", "B[threadIdx_x] = x"],
        ),
    ],
)
def test_barriers(body: list[str], expected: list[str]) -> None:
    assert synchronized("\n".join(body)) == expected


def test_dynamic_shared_buffers_are_one_allocation() -> None:
    body = "B[threadIdx_x] = s[threadIdx_x]\nu[threadIdx_x] = A[threadIdx_x]"
    assert "sync" not in synchronized(body)
    assert synchronized(body, "shared.dyn") == [
        "B[threadIdx_x] = s[threadIdx_x]",
        "sync",
        "u[threadIdx_x] = A[threadIdx_x]",
    ]


def test_the_work_grows_with_the_statements(calls: Callable[[Callable[[], Any]], int]) -> None:
    def work(rows: int) -> int:
        lines = ["    s[threadIdx_x] = u[threadIdx_x] + A[0]", "    u[threadIdx_x] = s[threadIdx_x] * A[1]"] * rows
        mod = module(KERNEL.format(scope="shared", body="\n".join(lines)))
        return calls(lambda: ThreadSync("shared")(mod))

    assert work(80) < 5 * work(20)


def test_a_barrier_in_a_branch_is_refused() -> None:
    with refuses("tir.kernel.barrier_in_branch"):
        synchronized(f"if threadIdx_x < 4:\n    {WRITE_OWN}\n    {READ_NEXT}")


def test_code_for_a_gpu_has_the_barriers() -> None:
    assert "bar.sync" in codegen.assembly(tvmagic.lower(shared_copy(AXES).mod), "nvptx")


@pytest.mark.parametrize(("scope", "after"), [("global", "shared"), ("local", "local"), ("shared", "shared")])
def test_global_memory_of_a_kernel_is_shared_by_the_threads_of_a_block(scope: str, after: str) -> None:
    mod = module(
        f"""
        def main(A: T.Buffer((32,), "float32")):
            t = T.launch_thread("threadIdx.x", 32)
            X = T.allocate([32], "float32", "{scope}")
            Xb = T.Buffer((32,), data=X, scope="{scope}")
            Xb[t] = A[t]
            A[t] = Xb[31 - t]
        """
    )
    text = script(KernelMemory()(mod))
    assert f'T.allocate([32], "float32", "{after}")' in text and f'scope="{after}"' in text
