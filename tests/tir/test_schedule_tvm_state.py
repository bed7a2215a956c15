"""TVM's behaviour of flags, lookups and traces of schedules, rule by rule."""

from __future__ import annotations

import pytest
from schedule_behaviour import block, expect, loops, parse, schedule

from tvmagic import tir
from tvmagic.errors import TVMagicError
from tvmagic.tir.schedule import Trace
from tvmagic.tir.schedule.testing import verify_trace_roundtrip

THREADS = """
def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    B = T.alloc_buffer((32,), scope="{scope}")
    for i in T.thread_binding({blocks}, thread="blockIdx.x"):
        for j in T.thread_binding({threads}, thread="{first}"):
            for k in range({serial}):
                with T.block("B"):
                    v = T.axis.spatial(32, i * {per_block} + j * {serial} + k)
                    B[v] = A[v] * T.float32(2)
        for j in T.thread_binding({threads}, thread="{second}"):
            for k in range({serial}):
                with T.block("C"):
                    v = T.axis.spatial(32, i * {per_block} + j * {serial} + k)
                    C[v] = B[{read}] + T.float32(1)
"""


def threads(scope: str, read: str = "v", first: str = "threadIdx.x", second: str = "threadIdx.x") -> str:
    return THREADS.format(
        scope=scope, read=read, first=first, second=second, blocks=4, threads=4, serial=2, per_block=8
    )


def flags(text: str) -> tuple[bool, bool]:
    """Whether block C is covered, and whether the root is a stage pipeline."""
    sch = tir.Schedule(parse(text))
    state, c = sch.state, sch.get_sref(sch.get_block("C"))
    assert state._get_cached_flags(state.root_of(c)).region_cover
    return state._get_cached_flags(c).region_cover, state._get_cached_flags(state.root_of(c)).stage_pipeline


@pytest.mark.parametrize(
    "text",
    [
        threads("shared"),
        threads("shared", "v // 8 * 8 + 7 - v % 8"),
        threads("local"),
        threads("shared", second="threadIdx.y"),
        threads("global"),
    ],
    ids=["shared", "shared, read in reverse", "local", "shared, other thread", "global"],
)
def test_109_threads_cover(text: str) -> None:
    assert flags(text) == (True, True)


ONE_LOOP = """
def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    B = T.alloc_buffer((32,), scope="{scope}")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="{thread}"):
            for _ in range(1):
                with T.block("B"):
                    v = T.axis.spatial(32, i * 8 + j)
                    B[v] = A[v] * T.float32(2)
            for _ in range(1):
                with T.block("C"):
                    v = T.axis.spatial(32, i * 8 + j)
                    C[v] = B[v // 8 * 8 + 7 - v % 8] + T.float32(1)
"""


@pytest.mark.parametrize(
    ("scope", "thread", "covered"),
    [
        ("shared", "threadIdx.x", True),
        ("warp", "threadIdx.x", True),
        ("warp", "threadIdx.y", False),
        ("local", "threadIdx.x", False),
        ("global", "threadIdx.x", False),
        ("shared", "vthread.x", True),
    ],
)
def test_109_what_the_threads_around_both_have(scope: str, thread: str, covered: bool) -> None:
    assert flags(ONE_LOOP.format(scope=scope, thread=thread)) == (covered, covered)


def test_109_shared_memory_of_another_block_is_not_covered() -> None:
    assert flags(threads("shared", "(v + 8) % 32")) == (False, False)


FUSED = """
def main(A: T.Buffer((3, 5, 5), "float32"), B: T.Buffer((3,), "float32")):
    for x, o in T.grid(3, {outer}):
        for i in T.serial({inner}):
            with T.block("B"):
                vx = T.axis.spatial(3, x)
                k = T.axis.reduce(5, (o * {inner} + i) // 5)
                l = T.axis.reduce(5, (o * {inner} + i) % 5)
                T.where(o * {inner} + i < 25)
                with T.init():
                    B[vx] = T.float32(0)
                B[vx] = B[vx] + A[vx, k, l]
"""


@pytest.mark.parametrize(("outer", "inner"), [(1, 64), (2, 16), (4, 7)])
def test_110_fused_and_split_reduction_is_affine(outer: int, inner: int) -> None:
    sch = tir.Schedule(parse(FUSED.format(outer=outer, inner=inner)))
    assert sch.state._get_cached_flags(sch.get_sref(sch.get_block("B"))).affine_binding


NESTED = """
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    with T.block("root"):
        D = T.alloc_buffer((8,))
        for i in range(2):
            with T.block("outer"):
                vi = T.axis.spatial(2, i)
                E = T.alloc_buffer((8,))
                for j in range(4):
                    with T.block("hidden"):
                        v = T.axis.spatial(8, vi * 4 + j)
                        E[v] = A[v]
                for j in range(4):
                    with T.block("inner"):
                        v = T.axis.spatial(8, vi * 4 + j)
                        B[v] = E[v]
        for i in range(8):
            with T.block("between"):
                v = T.axis.spatial(8, i)
                D[v] = B[v]
        for i in range(8):
            with T.block("last"):
                v = T.axis.spatial(8, i)
                C[v] = D[v]
"""


def test_111_output_blocks_at_any_depth() -> None:
    sch = schedule(NESTED)
    names = {s: [sch.get(b).name_hint for b in sch.get_output_blocks(s)] for s in ("root", "outer", "inner", "hidden")}
    assert names == {"root": ["outer", "inner", "last"], "outer": ["inner"], "inner": [], "hidden": []}


PLAIN = """
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_112_separators_in_traces() -> None:
    sch = schedule(PLAIN)
    sch.transform_layout("B", "B", lambda i, j: [i, tir.IndexMap.AXIS_SEPARATOR, j])
    assert "lambda i, j: (i, IndexMap.AXIS_SEPARATOR, j,)" in str(sch.trace)
    replayed = verify_trace_roundtrip(sch, parse(PLAIN))
    (buffer,) = [b for b in replayed.mod["main"].buffer_map.values() if b.name == "B"]
    assert [int(x) for x in buffer.axis_separators] == [1]


def test_112_sampled_values_in_index_maps() -> None:
    sch = schedule(PLAIN)
    n = sch.sample_categorical([4, 2], [0.5, 0.5], decision=0)
    sch.transform_layout("B", "B", lambda i, j: [i // n, j, i % n])
    assert "i // v0, j, i % v0" in str(sch.trace)
    replayed = verify_trace_roundtrip(sch, parse(PLAIN))
    (buffer,) = [b for b in replayed.mod["main"].buffer_map.values() if b.name == "B"]
    assert [str(x) for x in buffer.shape] == ["2", "8", "4"]


@pytest.mark.parametrize("text", ["", '"', "SSR", "v0", "b0", "l1", "None", "it's", 'a"b', "\\", "a\nb"])
def test_112_strings_as_annotations(text: str) -> None:
    sch = schedule(PLAIN)
    b = sch.get_block("B")
    i, _ = sch.get_loops(b)
    sch.annotate(b, "key", text)
    sch.annotate(i, "key", [text, 1, [text]])
    replayed = verify_trace_roundtrip(sch, parse(PLAIN))
    assert str(block(replayed, "B").annotations["key"]) == text


def test_112_probabilities_in_json() -> None:
    sch = schedule(PLAIN)
    sch.sample_categorical([3], [1.0], decision=0)
    ((_, _, attrs, *_),) = [i for i in sch.trace.as_json()[0] if i[0] == "SampleCategorical"]
    assert attrs == [[3], [1]] and all(type(n) in (int, float) for part in attrs for n in part)


WIDE = """
def main(A: T.Buffer((T.int64(16),), "float32"), B: T.Buffer((T.int64(16),), "float32")):
    for i in T.serial(T.int64(16)):
        with T.block("B"):
            v = T.axis.spatial(T.int64(16), i)
            B[v] = A[v] * T.float32(2)
"""


def test_113_int64_index_maps_replay() -> None:
    sch = schedule(WIDE)
    sch.transform_layout("B", "B", lambda i: [i // 4, i % 4])
    assert "lambda i: (i // T.int64(4), i % T.int64(4),)" in str(sch.trace)
    verify_trace_roundtrip(sch, parse(WIDE))


def test_114_copies_keep_apart() -> None:
    sch = schedule(PLAIN)
    copy = sch.copy()
    b = copy.get_block("B")
    i, _ = copy.get_loops(b)
    for unknown in (b, i):
        with pytest.raises((IndexError, TVMagicError)):
            sch.get(unknown)
    again = schedule(PLAIN)
    Trace.apply_json_to_schedule(copy.trace.as_json(), again)
    with pytest.raises((IndexError, TVMagicError)):
        again.get(i)
    assert len(loops(again, "B")) == 2
    assert expect(copy, PLAIN, PLAIN) is None


PRODUCERS = """
def main(d: T.Buffer((16, 16), "float32")):
    a = T.alloc_buffer((16, 16))
{}
    for i, j in T.grid(16, 16):
        with T.block("C"):
            v, w = T.axis.remap("SS", [i, j])
            d[v, w] = a[v, w]
"""
PRODUCER = """
    for i, j in T.grid({rows}, {columns}):
        with T.block("p{row}_{column}"):
            v, w = T.axis.remap("SS", [i, j])
            a[v + {row}, w + {column}] = T.float32(1)
"""


def producers(*parts: tuple[int, int, int, int]) -> str:
    """A program whose block C reads what several blocks write: parts of so many rows and columns, and their places."""
    return PRODUCERS.format(
        "".join(PRODUCER.format(rows=r, columns=c, row=row, column=column) for r, c, row, column in parts)
    )


@pytest.mark.parametrize(
    "text, covered",
    [
        (producers((9, 16, 0, 0), (7, 16, 9, 0)), True),
        (producers((8, 16, 0, 0), (7, 16, 9, 0)), False),
        (producers((10, 9, 6, 7), (6, 7, 0, 0), (10, 7, 6, 0), (6, 9, 0, 7)), True),
        (producers((8, 8, 0, 0), (8, 8, 8, 8)), False),
        (producers((8, 8, 0, 0), (8, 8, 8, 8), (16, 9, 0, 0)), False),
    ],
)
def test_14_several_producers_cover_together(text: str, covered: bool) -> None:
    assert flags(text) == (covered, covered)


def test_15_what_a_later_block_writes_is_read() -> None:
    text = """
    def main(a: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        b = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = b[v]
        for i in range(8):
            with T.block("b"):
                v = T.axis.spatial(8, i)
                b[v] = a[v]
    """
    assert flags(text) == (True, False)
