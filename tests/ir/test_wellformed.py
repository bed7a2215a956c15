"""Programs that are not well-formed: what is told of each, and where."""

from __future__ import annotations

import pytest
from refusals import refuses

from tvmagic import ir, tir
from tvmagic.script import from_source

A = ir.decl_buffer((16,), name="A")
I, J = ir.Var("i"), ir.Var("j")


def function(body: ir.Stmt, *params: ir.Var | ir.Buffer) -> ir.PrimFunc:
    return ir.PrimFunc([A, *params], body)


def store(index: ir.PrimExpr) -> ir.Stmt:
    return ir.BufferStore(A, 0.0, [index])


def block(reads: list, writes: list, body: ir.Stmt, value: ir.PrimExpr, **fields: object) -> ir.BlockRealize:
    axis = fields.pop("axis") if "axis" in fields else ir.IterVar((0, 16), "v")
    return ir.BlockRealize([value], True, ir.Block([axis], reads, writes, "b", body, **fields))


def whole(buffer: ir.Buffer) -> ir.BufferRegion:
    return ir.BufferRegion(buffer, [ir.Range(0, 16)])


def loop(body: ir.Stmt, var: ir.Var = I, extent: int = 16) -> ir.Stmt:
    return ir.For(var, 0, extent, 0, body)


V = ir.IterVar((0, 16), "v")
OTHER = ir.decl_buffer((16,), name="O")
PROBLEMS = {
    "undefined variable": (function(store(I)), "i"),
    "past its scope": (
        function(tir.SeqStmt([loop(store(I)), store(I)])),
        "i",
    ),
    "nested definitions": (function(loop(loop(store(I)))), "i"),
    "definitions side by side": (
        function(tir.SeqStmt([loop(store(I)), loop(store(I))])),
        "i",
    ),
    "a parameter twice": (function(tir.Evaluate(0), I, I), "i"),
    "undeclared buffer": (function(ir.BufferStore(OTHER, 0.0, [0])), "O"),
    "freed buffer": (
        function(
            tir.SeqStmt(
                [
                    ir.Allocate(OTHER.data, "float32", [16], True, ir.BufferStore(OTHER, 0.0, [0])),
                    ir.BufferStore(OTHER, 0.0, [0]),
                ]
            )
        ),
        "O",
    ),
    "a let in its own value": (function(tir.LetStmt(I, I + 1, tir.Evaluate(0))), "i"),
    "loop variable past the bindings": (
        function(loop(block([], [whole(A)], store(I), I))),
        "`b`",
    ),
    "bindings missing": (
        function(loop(block([], [whole(A)], store(V.var), I, axis=V).replace(iter_values=()))),
        "`b`",
    ),
    "block without bindings": (
        function(block([], [whole(A)], store(V.var), I, axis=V).block),
        "`b`",
    ),
    "buffer that no region names": (
        function(loop(block([], [], store(V.var), I, axis=V))),
        "`A`",
    ),
    "access outside the region": (
        function(
            loop(
                block(
                    [],
                    [ir.BufferRegion(A, [ir.Range.from_min_extent(V.var, 1)])],
                    loop(store(V.var + J), J, 2),
                    I,
                    axis=V,
                )
            )
        ),
        "`A`",
    ),
    "parameter that holds no buffer": (
        function(tir.Evaluate(0)).replace(params=()),
        "`A`",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name: str) -> None:
    func, named = PROBLEMS[name]
    with refuses("program.not_well_formed", error=ValueError, names=rf"(?<!\w){named}(?!\w)"):
        ir.verify_well_formed(func, check_regions=True)
    assert not ir.verify_well_formed(func, assert_mode=False, check_regions=True)
    assert ir.find_problems(func)


def test_the_place_is_underlined() -> None:
    with pytest.raises(ValueError) as error:
        ir.verify_well_formed(function(loop(tir.SeqStmt([store(I), store(J)]))))
    lines = str(error.value).split("\n")
    caret = next(n for n, line in enumerate(lines) if "^" in line)
    assert lines[caret - 1].strip() == "A[j] = T.float32(0.0)"
    assert lines[caret].index("^") == lines[caret - 1].index("j")


def test_problems_across_functions() -> None:
    func = function(loop(store(I)))
    other = ir.PrimFunc([ir.decl_buffer((4,), name="B")], loop(tir.Evaluate(I)))
    assert ir.verify_well_formed(ir.IRModule({"f": func}))
    assert not ir.verify_well_formed(ir.IRModule({"f": func, "g": other}), assert_mode=False)


WELL_FORMED = [
    """
@T.prim_func
def main(a: T.handle, B: T.Buffer((16,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), strides=("s",), offset_factor=1)
    for i in range(16):
        with T.block("b"):
            v = T.axis.spatial(16, i)
            T.where(i < n)
            T.reads(A[v])
            T.writes(B[v])
            C = T.alloc_buffer((16,))
            M = T.match_buffer(A[v:v + 1], (1,), offset_factor=1)
            C[0] = M[0]
            B[v] = C[0]
""",
    """
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    tx = T.env_thread("threadIdx.x")
    with T.launch_thread(tx, 16):
        A[tx] = T.float32(0.0)
    with T.launch_thread(tx, 16):
        B = T.allocate([1], "float32", "local")
        B_1 = T.Buffer((1,), data=B, scope="local")
        B_1[0] = A[tx]
        x: T.int32 = tx + 1
        A[x] = B_1[0] + T.Let(T.Cast("float32", x), where={x: 1})
""",
    """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("b"):
            v = T.axis.spatial(16, i)
            T.reads(A[T.max(v - 1, 0):v])
            T.writes(B[v])
            B[v] = T.if_then_else(1 <= v, A[v - 1], T.float32(0.0))
""",
]


@pytest.mark.parametrize("text", WELL_FORMED[:1] + WELL_FORMED[2:])
def test_well_formed_programs(text: str) -> None:
    assert ir.verify_well_formed(from_source("from tvm.script import tir as T\n" + text), check_regions=True)


def test_threads_may_be_bound_again() -> None:
    tx = ir.IterVar((0, 16), "tx", ir.IterVar.ThreadIndex, "threadIdx.x")
    launches = [tir.AttrStmt(tx, "thread_extent", 16, store(tx.var)) for _ in range(2)]
    assert ir.verify_well_formed(function(tir.SeqStmt(launches)))


def test_long_programs() -> None:
    chain: ir.Stmt = store(tir.const(0))
    for _ in range(5000):
        chain = tir.LetStmt(ir.Var("v"), 1, chain)
    many = tir.SeqStmt([store(tir.const(k % 16)) for k in range(5000)])
    assert ir.verify_well_formed(function(tir.SeqStmt([chain, many])))
    assert not ir.verify_well_formed(function(tir.LetStmt(I, J, chain)), assert_mode=False)
