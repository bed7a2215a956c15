"""TVM's behaviour of analyses of programs with blocks, rule by rule."""

from __future__ import annotations

import pytest
from pass_checks import parse

from tvmagic import tir
from tvmagic.ir import Block, For
from tvmagic.tir.schedule.analysis import get_tensorize_loop_mapping


def lca_of(text: str) -> dict[str, str]:
    """For each buffer the block or loop that holds all its accesses, by name."""
    func = parse(text)
    found = tir.analysis.detect_buffer_access_lca(func)

    def name(stmt: object) -> str:
        if isinstance(stmt, Block):
            return stmt.name_hint
        return stmt.loop_var.name if isinstance(stmt, For) else type(stmt).__name__

    return {buffer.name: name(stmt) for buffer, stmt in found.items()}


REDUCED = """
def main(A: T.Buffer((2, 8), "float32"), D: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    with T.block("root"):
        C = T.alloc_buffer((8,))
        for i, k in T.grid(2, 2):
            with T.block("r"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    for a in range(4):
                        B[vi * 4 + a] = T.float32(0)
                for b in range(4):
                    B[vi * 4 + b] = B[vi * 4 + b] + C[vi * 4 + b] * A[vk, vi * 4 + b]
                for c in range(4):
                    D[vi * 4 + c] = B[vi * 4 + c]
"""


def test_201_spatial_and_reduced_variables_do_not_lift_a_buffer() -> None:
    found = lca_of(REDUCED)
    assert found["B"] == "r" and found["C"] == "b"


def test_201_memory_of_the_function_lives_through_a_reduction() -> None:
    inside = REDUCED.replace(', B: T.Buffer((8,), "float32")', "").replace(
        "        C = T.alloc", "        B = T.alloc_buffer((8,))\n        C = T.alloc"
    )
    assert lca_of(inside)["B"] == "i"


OPAQUE = """
def main(A: T.Buffer((20,), "float32"), C: T.Buffer((20,), "float32")):
    with T.block("root"):
        R = T.alloc_buffer((3,))
        S = T.alloc_buffer((20,))
        for j in range(2):
            for i in range(10):
                with T.block("put"):
                    vi = T.axis.{kind}(20, j * 10 + i)
                    R[vi % 3] = A[vi]
                    S[vi] = A[vi]
                with T.block("get"):
                    vi = T.axis.{kind}(20, j * 10 + i)
                    C[vi] = R[vi % 3] + S[vi]
"""


def test_201_opaque_variables_lift_a_buffer_above_their_loops() -> None:
    assert lca_of(OPAQUE.format(kind="opaque"))["R"] == "root"
    assert lca_of(OPAQUE.format(kind="spatial"))["R"] == "i"


BLOCKS = """
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    with T.block("root"):
        L = T.alloc_buffer((32,), scope="local")
        for o in range(1):
            for i in T.thread_binding(4, thread="blockIdx.x"):
                for j in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("B"):
                        v = T.axis.spatial(32, i * 8 + j)
                        L[v] = A[v]
                        B[v] = L[v]
"""


def test_202_global_memory_is_at_or_above_the_loops_of_blocks() -> None:
    found = lca_of(BLOCKS)
    assert (found["A"], found["B"], found["L"]) == ("i", "i", "B")


def test_202_two_loops_of_blocks() -> None:
    text = BLOCKS.replace("range(1)", 'T.thread_binding(1, thread="blockIdx.y")')
    assert lca_of(text)["A"] == "o"


MATMUL = """
def main(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({n}, {k}), "float32"), C: T.Buffer(({m}, {n}), "float32")):
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
DESCRIPTION = """
def desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (16, 16), offset_factor=1)
    B = T.match_buffer(b, (16, 16), offset_factor=1)
    C = T.match_buffer(c, (16, 16), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        for i, j, k in T.grid(16, 16, 16):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""


@pytest.mark.parametrize(
    ("sizes", "paddings"),
    [((30, 64, 50), [16, 1, 16]), ((32, 64, 48), None), ((32, 60, 48), [1, 16, 1])],
)
def test_203_paddings_are_multiples(sizes: tuple[int, ...], paddings: list[int] | None) -> None:
    m, n, k = sizes
    sch = tir.Schedule(parse(MATMUL.format(m=m, n=n, k=k)))
    found = get_tensorize_loop_mapping(sch, sch.get_block("C"), parse(DESCRIPTION), allow_padding=True)
    assert found is not None
    got = found.block_iter_paddings
    assert (None if got is None else [int(p) for p in got]) == paddings
