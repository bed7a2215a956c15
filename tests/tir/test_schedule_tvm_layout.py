"""TVM's behaviour of blockize, tensorize, annotations and layouts in schedules, rule by rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from schedule_behaviour import block, expect, loops, parse, same_results, schedule, script

from tvmagic import tir
from tvmagic.tir import IndexMap
from tvmagic.tir.schedule import ScheduleError

SIDE_BY_SIDE = """
def main(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(5, 1):
        with T.block("L"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 6):
        with T.block("R"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj + 6] = A[vi, vj + 6] + T.float32(1)
"""


def test_136_unit_loops_are_replaced_in_joined_blocks() -> None:
    sch = schedule(SIDE_BY_SIDE)
    outer = block(sch, sch.blockize([sch.get_block("L"), sch.get_block("R")], preserve_unit_iters=False))
    assert [str(r) for r in outer.reads] == ["A[0:8, 0:12]"]
    assert [str(r) for r in outer.writes] == ["B[0:8, 0:12]"]
    assert "B[vi_i, 0] = A[vi_i, 0] * T.float32(2.0)" in script(sch.mod["main"])
    same_results(parse(SIDE_BY_SIDE), sch.mod["main"])


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


def test_138_annotated_accesses_are_a_list() -> None:
    sch = schedule(PLAIN)
    b = sch.get_block("B")
    sch.annotate_buffer_access(b, 0, "read", lambda v: ((v, v + 2),))
    assert 'T.block_attr({"explicit_read_region": [0]})' in script(sch.mod["main"])
    sch.annotate_buffer_access(b, 1, "read", lambda v: ((v, v + 1),))
    sch.annotate_buffer_access(b, 0, "write", lambda v: ((v, v + 1),))
    text = script(sch.mod["main"])
    assert '"explicit_read_region": [0, 1]' in text and '"explicit_write_region": [0]' in text
    same_results(parse(PLAIN), sch.mod["main"])


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


def test_139_matched_buffers_follow_the_separators() -> None:
    sch = schedule(MATCHED)
    sch.set_axis_separator("B", ("write", 0), [1])
    found = {m.buffer.name: m for name in ("B", "C") for m in block(sch, name).match_buffers}
    places = {name: [int(x) for x in m.buffer.axis_separators] for name, m in found.items()}
    assert places == {"S": [0], "R": [0]}
    assert all([int(x) for x in m.source.buffer.axis_separators] == [1] for m in found.values())


def test_139_matched_buffers_follow_the_type() -> None:
    sch = schedule(MATCHED)
    sch.unsafe_set_dtype("B", 0, "float64")
    for name in ("B", "C"):
        for match in block(sch, name).match_buffers:
            assert str(match.buffer.dtype) == "float64"
            assert str(match.buffer.data.type_annotation.element_type) == "T.float64" or "float64" in str(
                match.buffer.data.type_annotation
            )
    same_results(parse(MATCHED), sch.mod["main"])


def test_139_matched_buffers_follow_the_layout() -> None:
    sch = schedule(MATCHED)
    sch.transform_layout("B", ("write", 0), lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])
    (match,) = block(sch, "B").match_buffers
    assert [int(x) for x in match.buffer.axis_separators] == [0]


FILLED = """
def main(A: T.Buffer((10,), "int32")):
    for i in range(10):
        with T.block("w"):
            A[i] = 7
"""
FILLED_AFTER = """
def main(A: T.Buffer((3, 4), "int32"{separators})):
    # with T.block("root"):
    for axis0, axis1 in T.grid(3, 4):
        with T.block("w"):
            T.reads()
            T.writes(A[axis0, axis1])
            A[axis0, axis1] = T.if_then_else(axis0 == 2 and 2 <= axis1, 0, 7)
"""
SUMMED = """
def main(A: T.Buffer((10, 5), "int32"), B: T.Buffer((10,), "int32")):
    for i in range(10):
        with T.block("w"):
            B[i] = 0
            for k in range(5):
                B[i] = B[i] + A[i, k]
"""


@pytest.mark.parametrize("separated", [False, True])
def test_140_padding_of_blocks_without_variables(separated: bool) -> None:
    sch = schedule(FILLED)
    if separated:
        sch.transform_layout("w", "A", lambda i: [i // 4, IndexMap.AXIS_SEPARATOR, i % 4], pad_value=0)
    else:
        sch.transform_layout("w", "A", lambda i: [i // 4, i % 4], pad_value=0)
    after = FILLED_AFTER.format(separators=", axis_separators=[1]" if separated else "")
    expect(sch, FILLED, after, run=False)


def test_140_each_store_of_a_reduction_in_plain_statements() -> None:
    sch = schedule(SUMMED)
    sch.transform_layout("w", "B", lambda i: [i // 4, i % 4], pad_value=0)
    text = script(sch.mod["main"])
    assert "B[axis0, axis1] = 0" in text or "T.if_then_else(axis0 == 2 and 2 <= axis1, 0, 0)" in text
    assert "T.if_then_else(axis0 == 2 and 2 <= axis1, 0, B[axis0, axis1] + A[axis0 * 4 + axis1, k])" in text


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


@pytest.mark.parametrize(
    ("text", "value"),
    [(PLAIN, 0), (FILLED, 0.5), (FILLED, tir.IntImm("int8", 0)), (PLAIN, tir.FloatImm("float16", 0.0))],
)
def test_142_the_padding_has_the_type_of_the_buffer(text: str, value: object) -> None:
    sch = schedule(text)
    name, buffer = ("B", "B") if text is PLAIN else ("w", "A")
    with pytest.raises(ScheduleError, match="pad_value|padding"):
        sch.transform_layout(name, buffer, lambda i: [i // 12, i % 12], pad_value=value)


def _with_zero(zero: object) -> Callable[..., tuple[object, ...]]:
    return lambda i, k: (zero, i, k)


def test_a_constant_is_a_variable_of_one_value() -> None:
    text = """
    def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
    """
    for zero, extent in ((0, "1"), (tir.IntImm("int64", 0), "T.int64(1)")):
        sch = schedule(text)
        sch.transform_block_layout("C", tir.IndexMap.from_func(_with_zero(zero), ndim=2))
        assert f"for ax0, ax1, ax2 in T.grid({extent}, 4, 6):" in script(sch.mod["main"])
        assert 'v0, v1, v2 = T.axis.remap("SSR", [ax0, ax1, ax2])' in script(sch.mod["main"])
        same_results(parse(text), sch.mod["main"])


def test_loops_over_a_padded_layout_have_the_names_of_an_inverse() -> None:
    sch = schedule(PLAIN)
    sch.transform_layout("B", "B", lambda i: [i // 12, i % 12], pad_value=0.0)
    assert "for axis0, axis1 in T.grid(2, 12):" in script(sch.mod["main"])


def test_the_text_of_a_trace_is_that_of_tvm() -> None:
    sch = schedule(PLAIN)
    sch.get_child_blocks(sch.get_block("root"))
    sch.sample_categorical([1, 2, 3], [0.2, 0.3, 0.5], 1)
    lines = sch.trace.as_python()
    assert lines[1].endswith("= sch.get_child_blocks(b0)")
    assert "probs=[0.20000000000000001, 0.29999999999999999, 0.5], decision=1" in lines[2]
