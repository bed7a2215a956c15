"""TVM's behaviour of blockize, tensorize, annotations and layouts in schedules, rule by rule."""

from __future__ import annotations

import pytest
from schedule_behaviour import block, loops, parse, same_results, schedule

from tvmagic import tir
from tvmagic.tir import IndexMap


@pytest.fixture(scope="module")
def rows() -> str:
    name = "test.row_of_eight"
    description = parse("""
def desc(x: T.handle, y: T.handle, z: T.handle):
    X = T.match_buffer(x, (1,), "float32", offset_factor=1)
    Y = T.match_buffer(y, (8,), "float32", offset_factor=1)
    Z = T.match_buffer(z, (8,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(X[0], Y[0:8])
        T.writes(Z[0:8])
        for i in range(8):
            with T.block("z"):
                v = T.axis.spatial(8, i)
                Z[v] = X[0] * Y[v % 8]
""")
    implementation = parse("""
def impl(x: T.handle, y: T.handle, z: T.handle):
    X = T.match_buffer(x, (1,), "float32", offset_factor=1)
    Y = T.match_buffer(y, (8,), "float32", offset_factor=1)
    Z = T.match_buffer(z, (8,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(X[0], Y[0:8])
        T.writes(Z[0:8])
        for i in T.vectorized(8):
            Z[i] = Y[i] * X[0]
""")
    tir.TensorIntrin.register(name, description, implementation, override=True)
    return name


ROWS = """
def main(X: T.Buffer((4, 2), "float32"), Y: T.Buffer((8,), "float32"), Z: T.Buffer((4, 16), "float32")):
    for row, o, i in T.grid(4, 2, 8):
        with T.block("z"):
            vrow, col = T.axis.spatial(4, row), T.axis.spatial(16, o * 8 + i)
            Z[vrow, col] = X[vrow, col // 8] * Y[col % 8]
"""


def test_137_tensorize_compares_after_simplifying(rows: str) -> None:
    text = ROWS.replace(
        "vrow, col = T.axis.spatial(4, row), T.axis.spatial(16, o * 8 + i)",
        "vrow = T.axis.spatial(4, row)\n            col = T.axis.spatial(16, o * 8 + i)",
    )
    sch = schedule(text)
    sch.tensorize(loops(sch, "z")[2], rows)
    same_results(parse(text), sch.mod["main"])


PLAIN = """
def main(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] + D[v]
"""


MATCHED = """
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    B = T.alloc_buffer((8, 16))
    for i, j in T.grid(8, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            S = T.match_buffer(B[vi, vj], (), offset_factor=1)
            S[()] = A[vi, vj] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(B[vi, 0:16])
            T.writes(C[vi, 0:16])
            R = T.match_buffer(B[vi, 0:16], (16,), offset_factor=1)
            for j in range(16):
                C[vi, j] = R[j]
"""


def test_139_matched_buffers_follow_the_layout() -> None:
    sch = schedule(MATCHED)
    sch.transform_layout("B", ("write", 0), lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])
    (match,) = block(sch, "B").match_buffers
    assert [int(x) for x in match.buffer.axis_separators] == [0]


DIVIDED = """
def main(A: T.Buffer((20,), "int32"), B: T.Buffer((20,), "int32"), m: T.int32):
    for i in range(20):
        with T.block("B"):
            v = T.axis.spatial(20, i)
            B[v] = A[v]
"""


def test_141_a_parameter_in_the_map() -> None:
    sch = schedule(DIVIDED)
    m = sch.mod["main"].params[2]
    sch.transform_layout("B", "B", lambda i: [i // m, i % m], pad_value=0)
    (buffer,) = [b for b in sch.mod["main"].buffer_map.values() if b.name == "B"]
    assert [str(n) for n in buffer.shape] == ["(-20 % m + 20) // m", "m"]
    store = block(sch, "B").body
    assert [str(i) for i in store.indices] == ["v_axis0", "v_axis1"]
    assert str(store.value).startswith("T.if_then_else(-20 % m != 0 and ")
    assert str(store.value).endswith(", 0, A[v_axis1 + v_axis0 * m])")


def test_the_text_of_a_trace_is_that_of_tvm() -> None:
    sch = schedule(PLAIN)
    sch.get_child_blocks(sch.get_block("root"))
    sch.sample_categorical([1, 2, 3], [0.2, 0.3, 0.5], 1)
    lines = sch.trace.as_python()
    assert lines[1].endswith("= sch.get_child_blocks(b0)")
    assert "probs=[0.20000000000000001, 0.29999999999999999, 0.5], decision=1" in lines[2]
