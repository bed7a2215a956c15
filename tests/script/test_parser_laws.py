"""Laws of the parser: damaged texts give one kind of error, and large texts are read quickly."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvmagic import ir
from tvmagic.errors import DiagnosticError
from tvmagic.script import from_source

HEAD = "@T.prim_func\n"
PROGRAMS = [
    HEAD
    + """def main(a: T.handle, B: T.Buffer((16, 16), "float32"), n: T.int32):
    T.func_attr({"tir.noalias": True, "list": [1, "two"]})
    A = T.match_buffer(a, (16, n), "float32", strides=("s", 1), offset_factor=2)
    C = T.alloc_buffer((16,), scope="local")
    for i, j in T.grid(16, 16):
        with T.block("b"):
            vi, vj = T.axis.remap("SR", [i, j])
            T.where(i * 16 + j < 200)
            T.reads(A[vi, vj], B[vi, 0:vj + 1])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + T.max(A[vi, vj], T.exp(B[vi, vj])) * 2.0
""",
    HEAD
    + """def main(A: T.Buffer((256,), "int8"), n: T.int32, k: T.int64):
    p = T.allocate([64], "int8", "local")
    P = T.Buffer((64,), "int8", data=p, scope="local")
    for i in T.serial(n, annotations={"a": 1}):
        x: T.int32 = i * 4 + n // 2
        for j in T.vectorized(4):
            if T.likely(x < n and 0 <= j):
                P[j] = T.Cast("int8", T.if_then_else(j == 3, x, n % 7))
            else:
                P[j] = A[T.min(x, 255)]
        A[x:x + 4] = P[0:4] + T.Broadcast(T.int8(1), 4)
    T.evaluate(T.call_extern("int32", "f", A.data, k))
""",
    """@I.ir_module
class Module:
    I.module_attrs({"level": 1})
    @T.prim_func(private=True)
    def helper(a: T.handle("float32"), n: T.int32) -> T.int32:
        A = T.decl_buffer((16,), "float32", data=a)
        tx = T.launch_thread("threadIdx.x", 16)
        A[tx] = T.Select(tx < n, A[tx], T.float32("inf"))
        return n
    @T.prim_func
    def main(A: T.Buffer((16,), "float32")):
        with T.LetStmt(Module.helper(A.data, 3)) as x:
            while A[x] < T.float32(3):
                A[x] += A[0] if x > 2 else A[1]
        assert A[0] > 1.0, "small"
        T.evaluate(0)
""",
]
WORDS = """( ) [ ] { } , : = + - * // % / ** @ < == != and or not if else for in while with as def class return lambda
T I T.block T.grid T.Buffer T.reads T.axis T.axis.remap T.handle T.float32 T.func_attr T.match_buffer T.init T.Let
T.LetStmt T.evaluate T.Ramp T.Cast T.comm_reducer T.launch_thread T.meta_var T.If T.iter_var T.attr T.realize T.call
T.allocate_const T.Shuffle T.index_map T.prefetch T.arg T.frame T.func_name 0 1 -1 3.5 1e400 'x' None True A B n i x
*args **kw ... len range sum list int float str max dict enumerate zip 99999999999999999999 'é' f'{n}' f'{n:>3}'
.dtype .data .shape .astype .vload .access_ptr .value .name .__class__ ; # \\ yield await async global import""".split()
PARTS = re.compile(r"\n\s*|[A-Za-z_][\w.]*|\d[\w.]*|\"[^\"]*\"|\s+|.")


def damaged(text: str, rng: random.Random) -> str:
    """`text` with one to three of its words left out, replaced, doubled or moved."""
    parts = PARTS.findall(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(parts))
        kind = rng.randrange(5)
        if kind == 0 and len(parts) > 1:
            del parts[at]
        elif kind == 1:
            parts[at] = rng.choice(WORDS)
        elif kind == 2:
            parts.insert(at, rng.choice(WORDS))
        elif kind == 3:
            parts[at] = rng.choice(parts)
        else:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
    return "".join(parts)


def read_or_refuse(text: str) -> bool:
    """Whether a text is read; anything but a diagnostic that can be shown is a defect."""
    try:
        from_source(text)
    except DiagnosticError as error:
        assert error.message and str(error)
        return False
    return True


@pytest.mark.parametrize("text", PROGRAMS, ids=["blocks", "loops", "module"])
def test_the_programs_are_sound(text: str) -> None:
    read = from_source(text)
    assert ir.structural_equal(read, from_source(read.script()))


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PROGRAMS), st.randoms(use_true_random=False))
def test_damaged_texts_are_read_or_refused(text: str, rng: random.Random) -> None:
    read_or_refuse(damaged(text, rng))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(text)
    read_or_refuse(HEAD + f"def main(n: T.int32):\n    T.evaluate({text})\n")


@pytest.mark.soak
def test_many_damaged_texts() -> None:
    rng = random.Random(7)
    read = sum(read_or_refuse(damaged(rng.choice(PROGRAMS), rng)) for _ in range(30_000))
    assert read > 300


def test_every_statement_and_expression_has_its_place() -> None:
    for text in PROGRAMS[:2]:
        func = from_source(text)
        lines = text.split("\n")

        def look(node: object, lines: list[str] = lines) -> None:
            if isinstance(node, (ir.Stmt, ir.BufferLoad)) and not isinstance(node, (ir.Block, ir.Var)):
                assert node.span is not None, node
                line = lines[node.span.line - 1]
                assert 1 <= node.span.column <= len(line)
            if isinstance(node, ir.BufferLoad):
                shown = line[node.span.column - 1 : node.span.end_column - 1]  # type: ignore[union-attr]
                assert shown.startswith(node.buffer.name) and shown.endswith("]")
            if isinstance(node, (ir.BufferStore, ir.For)):
                assert line[node.span.column - 1 :].startswith(  # type: ignore[union-attr]
                    node.buffer.name if isinstance(node, ir.BufferStore) else "for"
                )

        ir.post_order_visit(func.body, look)


def test_operators_have_their_place() -> None:
    text = HEAD + 'def main(A: T.Buffer((16,), "float32"), n: T.int32):\n    A[n * 2 + 1] = A[n] * T.exp(A[3] + 1.5)\n'
    shown: list[str] = []

    def look(node: object) -> None:
        if isinstance(node, ir.PrimExpr) and not isinstance(node, ir.Var) and node.span is not None:
            shown.append(text.split("\n")[node.span.line - 1][node.span.column - 1 : node.span.end_column - 1])

    ir.post_order_visit(from_source(text).body, look)
    assert shown == [
        "A[n]",
        "3",
        "A[3]",
        "1.5",
        "A[3] + 1.5",
        "T.exp(A[3] + 1.5)",
        "A[n] * T.exp(A[3] + 1.5)",
        "2",
        "n * 2",
        "1",
        "n * 2 + 1",
    ]


def _large_text(lines: int) -> str:
    block = (
        "    for i{k}, j{k} in T.grid(16, 16):\n"
        '        with T.block("b{k}"):\n'
        '            vi, vj = T.axis.remap("SS", [i{k}, j{k}])\n'
        "            T.reads(A[vi, vj], B[vi, 0:16])\n"
        "            T.writes(B[vi, vj])\n"
        "            B[vi, vj] = T.max(A[vi, vj] * T.float32(2.0), B[vi, vj // 2]) + T.exp(A[vi, 15 - vj])\n"
    )
    body = "".join(block.format(k=k) for k in range(lines // 6))
    return HEAD + f'def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):\n{body}'


def test_a_thousand_lines_are_read_in_150_milliseconds(cpu_seconds) -> None:
    text = _large_text(1000)
    assert cpu_seconds(lambda: from_source(text), repeat=5) < 0.150


def test_work_grows_with_the_text(calls) -> None:
    small, large = _large_text(300), _large_text(3000)
    assert calls(lambda: from_source(large)) < 11 * calls(lambda: from_source(small))


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 8, 1), (0, 8, 2), (0, 7, 2), (0, 7, 3), (8, 0, -2), (9, 0, -2), (7, 3, -1), (9, 2, -4)],
)
def test_slices_have_as_many_lanes_as_in_python(start: int, stop: int, step: int) -> None:
    text = f"@T.prim_func\ndef f(A: T.Buffer((16,), 'int32')):\n    A[{start}:{stop}:{step}] = A[{start}:{stop}:{step}]"
    func = from_source("from tvm.script import tir as T\n" + text)
    assert func.body.value.dtype.lanes == len(range(start, stop, step))
    assert ir.structural_equal(from_source(func.script()), func)


@pytest.mark.parametrize(
    "text",
    [
        "(n < 3) == (m < 4)",
        "(n < 3) == True",
        "True != (n == m)",
        "((n < 3) == (m < 4)) != (n > m)",
        "(n == 3) and (m < 4) == (n < m)",
    ],
)
def test_comparisons_of_comparisons_are_no_chains(text: str) -> None:
    text = text.replace("True", "T.bool(True)")
    func = from_source(
        f"from tvm.script import tir as T\n@T.prim_func\ndef f(A: T.Buffer((4,), 'bool'), n: T.int32, m: T.int32):\n    A[0] = {text}"
    )
    assert ir.structural_equal(from_source(func.script()), func), func.script()


ENDS = [
    ("i + 1", "i + 1 + (3 - i)", "3 - i"),
    ("i", "i + n", "n"),
    ("n", "n + m * 2", "m * 2"),
    ("n - 1", "n - 1 + 1", "1"),
    ("i + 1", "i + 4", "3"),
    ("n + 1", "n + 1 + (m - 1)", "m - 1"),
    ("i", "i + (i + n)", "i + n"),
    ("2", "9", "7"),
    ("0", "n", "n"),
    ("n // 2 * 2", "n // 2 * 2 + n % 2", "n % 2"),
    ("n", "m", "m - n"),
    ("i", "n - i", "n - i - i"),
]


@pytest.mark.parametrize(("begin", "end", "extent"), ENDS)
def test_the_extent_of_an_axis_is_what_is_added_to_its_beginning(begin: str, end: str, extent: str) -> None:
    """However often a text is printed and read again."""
    head = HEAD + "def main(A: T.Buffer((16, 16), 'int32'), n: T.int32, m: T.int32):\n    for i, j in T.grid(3, 16):\n"
    body = "        with T.block('B'):\n            vi = T.axis.spatial(3, i)\n            v = T.axis.spatial(({}, {}), j)\n            A[vi, v] = 1"
    func = from_source(head + body.format(begin, end))
    blocks: list[ir.Block] = []
    ir.post_order_visit(func.body, lambda node: blocks.append(node) if isinstance(node, ir.Block) else None)
    dom = next(block.iter_vars[1].dom for block in blocks if len(block.iter_vars) == 2)
    assert dom is not None and str(dom.extent) == extent
    for _ in range(3):
        again = from_source(func.script())
        assert ir.structural_equal(again, func) and again.script() == func.script()
        func = again
