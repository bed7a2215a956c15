"""The regions that a block accesses, where conditions narrow the loops inside it."""

from __future__ import annotations

import pytest

from tvmagic import ir
from tvmagic.arith.block_regions import block_access_regions, block_read_write_regions, condition_bounds
from tvmagic.arith.int_set import IntervalSet
from tvmagic.script import from_source

# a condition on x in 0..7 and y in 0..8, and what TVM finds that `A[x, y]` reads under it
CONDITIONS = [
    ("x > 2", "A[3:8, 0:9]"),
    ("x < 5 and x > 2", "A[3:5, 0:9]"),
    ("x + vi < 8", "A[0:8, 0:9]"),
    ("vi + x < 8", "A[0:8, 0:9]"),
    ("x > 2 and vi < 3", "A[0:8, 0:9]"),
    ("x + vi < 8 and x > 2", "A[0:8, 0:9]"),
    ("x * 3 < 12", "A[0:4, 0:9]"),
    ("x * 3 + y < 12", "A[0:8, 0:9]"),
    ("y - x >= 2", "A[0:8, 0:9]"),
    ("x * 3 + y < 12 and y - x >= 2", "A[0:8, 0:9]"),
    ("x == 3", "A[3, 0:9]"),
    ("x != 3", "A[0:8, 0:9]"),
    ("x + 2 == vi", "A[0:8, 0:9]"),
    ("vi * 4 + x < n", "A[0:8, 0:9]"),
    ("x // 2 < 3", "A[0:6, 0:9]"),
    ("x % 4 == 1", "A[0:8, 0:9]"),
    ("x // 2 == 1", "A[0:8, 0:9]"),
    ("not (x < 3)", "A[3:8, 0:9]"),
    ("x < 3 or x > 6", "A[0:8, 0:9]"),
    ("T.likely(x < 3)", "A[0:3, 0:9]"),
    ("x + y == 4", "A[0:8, 0:9]"),
    ("x < y", "A[0:8, 0:9]"),
    ("x <= n", "A[0:8, 0:9]"),
    ("n <= x", "A[0:8, 0:9]"),
    ("3 <= x", "A[3:8, 0:9]"),
    ("x - n < 0", "A[0:8, 0:9]"),
    ("x < 20", "A[0:8, 0:9]"),
    ("x < 3 and y < 4", "A[0:3, 0:4]"),
    ("2 * x > 5", "A[3:8, 0:9]"),
    ("x < vi", "A[0:8, 0:9]"),
    ("x > 2 and x < y", "A[0:8, 0:9]"),
    ("x < 3 and x + y < 5", "A[0:8, 0:9]"),
    ("x > 2 and y > 3 and x + y < 9", "A[0:8, 0:9]"),
    ("x < 3 and y < 4 and x < 2", "A[0:2, 0:4]"),
    ("x > 2 and x < 1", "A[0:8, 0:9]"),
    ("x > 2 and A[x, y] > T.float32(0)", "A[0:8, 0:9]"),
    ("x > 2 and (x < 5 or y > 2)", "A[3:8, 0:9]"),
    ("x * 2 + 1 < 9 and x * 2 - 1 > 2", "A[2:4, 0:9]"),
    ("y == 2 and x > 2", "A[3:8, 2]"),
    ("x == 3 and y > x", "A[3, 4:9]"),
    ("3 * x <= 10 and y * 2 >= 5", "A[0:4, 3:9]"),
    ("x * 3 == 6", "A[2, 0:9]"),
    ("x * 3 == 7", "A[0:8, 0:9]"),
    ("x % 2 == 0 and y < 3", "A[0:8, 0:9]"),
    ("x != 3 and y < 3", "A[0:8, 0:9]"),
    ("x // 2 == 1 and y < 3", "A[0:8, 0:9]"),
    ("T.max(x, y) < 5 and y < 3", "A[0:5, 0:3]"),
    ('x < 5 and T.call_extern("bool", "f", x)', "A[0:5, 0:9]"),
    ("x < 5 and n == 3", "A[0:5, 0:9]"),
    ("x < 5 and n > 3", "A[0:8, 0:9]"),
]


def block_of(
    text: str, params: str = "A: T.Buffer((128, 128)), C: T.Buffer((128,)), n: T.int32"
) -> tuple[ir.Block, ir.PrimFunc]:
    func = from_source(f"@T.prim_func\ndef main({params}):\n{text}")
    found: list[ir.Block] = []
    ir.post_order_visit(func.body, lambda node: found.append(node) if isinstance(node, ir.Block) else None)
    return next(b for b in found if b.name_hint == "b"), func


def shown(regions: object) -> str:
    return ", ".join(str(r) for r in regions)  # type: ignore[attr-defined]


@pytest.mark.parametrize("condition,reads", CONDITIONS)
def test_conditions_narrow_what_is_read(condition: str, reads: str) -> None:
    block, _ = block_of(
        f"""    for i in range(16):
        with T.block("b"):
            vi = T.axis.spatial(16, i)
            for x, y in T.grid(8, 9):
                if {condition}:
                    C[x] = A[x, y]
"""
    )
    assert shown(block.reads) == reads


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        (
            "for x in range(8):\n    if x < 3:\n        C[x] = A[x, vi]\n    else:\n        C[x] = A[x, vi] + 1.0",
            "A[0:8, vi]",
        ),
        (
            "for x in range(8):\n    if x < 3:\n        C[x] = A[x, vi]\n    if x > 5:\n        C[x] = A[x, vi]",
            "A[0:8, vi]",
        ),
        ("for x in range(4):\n    C[x] = A[x, vi]\nfor y in range(6, 8):\n    C[y] = A[y, vi]", "A[0:8, vi]"),
        ("j = T.int32()\nwith T.LetStmt(vi + 2, var=j):\n    C[vi] = A[j, vi] + A[j, vi]", "A[vi + 2, vi]"),
        ("for x in range(8):\n    C[x] = T.if_then_else(x < 3, A[x, vi], 1.0)", "A[0:3, vi]"),
        ("for x in range(8):\n    C[x] = T.if_then_else(x < 3, 1.0, A[x, vi])", "A[3:8, vi]"),
        ("for x in range(8):\n    if x < 3:\n        C[x] = 1.0\n    else:\n        C[x] = A[x, vi]", "A[3:8, vi]"),
        ("C[vi] = A[vi, vi] + A[vi, vi]", "A[vi, vi]"),
        ("C[vi] = A[vi, vi] + A[vi, vi + 1]", "A[vi, vi:vi + 2]"),
    ],
)
def test_what_is_read_several_times(body: str, reads: str) -> None:
    """By the same indices in other ranges of loops too."""
    head = '    for i in range(16):\n        with T.block("b"):\n            vi = T.axis.spatial(16, i)\n'
    block, _ = block_of(head + "".join(f"            {line}\n" for line in body.split("\n")))
    assert shown(block.reads) == reads


OPAQUE = """    for i in range(16):
        with T.block("b"):
            v = T.axis.spatial(16, i)
            T.reads()
            T.writes()
            C[v] = A[v, 0]
            T.evaluate(T.call_extern("int32", "f", A.data))
"""


def test_buffers_used_by_their_pointer() -> None:
    block, func = block_of(OPAQUE)
    buffers = {b.data: b for b in func.buffer_map.values()}
    reads, writes, opaque = block_access_regions(block, buffers)
    assert (shown(reads), shown(writes), shown(opaque)) == ("A[v, 0]", "C[v]", "A[0:128, 0:128]")
    reads, writes = block_read_write_regions(block, buffers)
    assert (shown(reads), shown(writes)) == ("A[0:128, 0:128]", "C[v], A[0:128, 0:128]")


def test_buffers_of_others_do_not_count() -> None:
    block, _ = block_of(OPAQUE)
    assert block_access_regions(block, {}) == ((), (), ())


def test_a_buffer_that_a_reduction_writes_is_not_read() -> None:
    text = """    for i, k in T.grid(16, 16):
        with T.block("b"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = 0.0
            C[v] = C[v] + A[v, w]
"""
    assert shown(block_of(text)[0].reads) == "A[v, w]"
    without = text.replace("            with T.init():\n                C[v] = 0.0\n", "")
    assert shown(block_of(without)[0].reads) == "C[v], A[v, w]"


WINDOW = """    for i in range(4):
        with T.block("b"):
            v = T.axis.spatial(4, i)
            T.reads(A[v * 8:v * 8 + 8, 3:19])
            T.writes(C[v])
            W = T.match_buffer(A[v * 8:v * 8 + 8, 3:19], (8, 16), strides=[128, 1], offset_factor=1)
            R = T.match_buffer(A[v * 8 + 2, 3:19], (16,), strides=[1], offset_factor=1)
            for x in range(2, 5):
                C[v] = {}
"""


@pytest.mark.parametrize(
    ("read", "regions"),
    [
        ("W[x, x + 1]", "A[v * 8 + 2:v * 8 + 2 + 3, 6:9]"),
        ("W[1, 2]", "A[v * 8 + 1, 5]"),
        ("W[7 - x, 0]", "A[v * 8 + 3:v * 8 + 3 + 3, 3]"),
        ("R[x * 2]", "A[v * 8 + 2, 7:12]"),
        ("A[x, 0]", "A[2:5, 0]"),
        ("R[T.call_extern('int32', 'f', x)]", "A[v * 8 + 2, 3:19]"),
    ],
)
def test_what_is_read_through_a_window_is_read_in_its_source(read: str, regions: str) -> None:
    block, func = block_of(WINDOW.format(read))
    reads, writes, _ = block_access_regions(block, {b.data: b for b in func.buffer_map.values()})
    assert (shown(reads), shown(writes)) == (regions, "C[v]")
    assert block_access_regions(block, {}) == ((), (), ())


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        ("1", ("A[0:128, 0:128]", "", "")),
        ("2", ("", "A[0:128, 0:128]", "")),
        ("3", ("", "", "A[0:128, 0:128]")),
        ("0", ("", "", "")),
        ("5", ("A[0:128, 0:128]", "", "")),
        ("v", ("", "", "A[0:128, 0:128]")),
    ],
)
def test_a_pointer_says_whether_it_is_read_or_written(mask: str, found: tuple[str, str, str]) -> None:
    text = f"""    for i in range(4):
        with T.block("b"):
            v = T.axis.spatial(4, i)
            T.reads()
            T.writes()
            T.evaluate(T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 64, {mask}))
"""
    block, func = block_of(text)
    regions = block_access_regions(block, {b.data: b for b in func.buffer_map.values()})
    assert tuple(map(shown, regions)) == found
    assert block_access_regions(block, {}) == ((), (), ())


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("k = T.alloc_buffer((1,), 'int32'); k[0] = vi; C[vi] = A[k[0]]", "A[0:8]"),
        ("N[vi] = 7 - vi; C[vi] = A[N[vi]]", "A[0:8]"),
        ("C[vi] = A[N[vi]]", "A[N[vi]]"),
    ],
)
def test_an_index_that_the_block_itself_stores_is_not_known_outside_it(body: str, reads: str) -> None:
    statements = "".join(f"\n            {part.strip()}" for part in body.split(";"))
    func = from_source(f"""from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8,), "int32"), N: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i){statements}
""")
    found: list[ir.Block] = []
    ir.post_order_visit(
        func.body, lambda n: found.append(n) if isinstance(n, ir.Block) and n.name_hint == "C" else None
    )
    assert reads in [str(region) for region in found[0].reads]


def test_bounds_where_a_condition_holds_and_where_it_does_not() -> None:
    x, y = ir.Var("x"), ir.Var("y")
    domains = {x: IntervalSet(0, 7), y: IntervalSet(0, 8)}
    for known, ends in (
        (condition_bounds(x < 3, domains), "[0, 2]"),
        (condition_bounds(x < 3, domains, False), "[3, 7]"),
    ):
        assert {v.name: str(s) for v, s in known.items()} == {"x": f"IntervalSet{ends}"}


def test_a_variable_that_is_let_twice_reads_both_places() -> None:
    a, b, x = ir.decl_buffer((8,), name="A"), ir.decl_buffer((2,), name="B"), ir.Var("x")
    lets = [ir.LetStmt(x, ir.IntImm("int32", value), ir.BufferStore(b, a[x], [n])) for n, value in enumerate((1, 5))]
    reads, writes = block_read_write_regions(
        ir.Block([], [], [], "b", ir.SeqStmt(lets)), {buffer.data: buffer for buffer in (a, b)}
    )
    assert [str(region) for region in (*reads, *writes)] == ["A[1:6]", "B[0:2]"]
