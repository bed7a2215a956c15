"""The classic and the CINN text, on the examples of the articles that show them."""

from __future__ import annotations

from typing import Any

from tvmagic import ir, te, tir
from tvmagic.script import cinn_text, classic, from_source


def flat(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def test_schedule_ops_with_an_attached_stage() -> None:
    c = te.compute((5, 16), lambda i, j: tir.const(5, "int32"), name="C")
    d = te.compute((4, 5, 16), lambda di, dj, dk: c[dj, dk] * 2, name="D")
    i, j, di, dj, dk = (ir.Var(n) for n in ("i", "j", "di", "dj", "dk"))

    def store(tensor: Any, value: Any, *indices: Any) -> ir.Stmt:
        return ir.ProducerStore(tensor, value, indices)

    inner = ir.For(i, 0, 1, 0, ir.For(j, 0, 1, 0, store(c, 5, i + dj, j + dk)))
    outer = store(d, ir.ProducerLoad(c, [dj, dk]) * 2, di, dj, dk)
    one = [ir.Range.from_min_extent(v, 1) for v in (dj, dk)]
    body: ir.Stmt = ir.ProducerRealize(c, one, True, tir.SeqStmt([inner, outer]))
    for var, extent in ((dk, 16), (dj, 5), (di, 4)):
        body = ir.For(var, 0, extent, 0, body)
    whole = [ir.Range(0, extent) for extent in (4, 5, 16)]
    assert flat(classic(ir.ProducerRealize(d, whole, True, body))) == flat(
        """
        realize D([0, 4], [0, 5], [0, 16]) {
        produce D {
        for (di, 0, 4) {
        for (dj, 0, 5) {
        for (dk, 0, 16) {
        realize C([dj, 1], [dk, 1]) {
        produce C {
        for (i, 0, 1) {
        for (j, 0, 1) {
        C((i + dj), (j + dk)) =5
        }
        }
        }
        D(di, dj, dk) =(C(dj, dk)*2)
        }
        }
        }
        }
        }
        }
        """
    )


def test_a_lowered_chain_of_attached_stages() -> None:
    c, d, e = (ir.decl_buffer((size,), "int32", name=name) for name, size in (("C", 1), ("D", 1), ("E", 80)))
    ci, cj, di, dj, ei, ej = (ir.Var(n) for n in ("ci", "cj", "di", "dj", "ei", "ej"))

    def loops(body: ir.Stmt, *pairs: tuple[ir.Var, int]) -> ir.Stmt:
        for var, extent in reversed(pairs):
            body = ir.For(var, 0, extent, 0, body)
        return body

    of_c = loops(ir.BufferStore(c, 5, [ci + cj]), (ci, 1), (cj, 1))
    of_d = loops(tir.SeqStmt([of_c, ir.BufferStore(d, c[di + dj] * 2, [di + dj])]), (di, 1), (dj, 1))
    of_e = loops(tir.SeqStmt([of_d, ir.BufferStore(e, d[0] * 4, [ei * 16 + ej])]), (ei, 5), (ej, 16))
    body = ir.Allocate(d.data, "int32", [1], True, ir.Allocate(c.data, "int32", [1], True, of_e))
    assert flat(classic(body)) == flat(
        """
        // attr [D] storage_scope = "global"
        allocate D[int32 * 1]
        // attr [C] storage_scope = "global"
        allocate C[int32 * 1]
        produce E {
        for (ei, 0, 5) {
        for (ej, 0, 16) {
        produce D {
        for (di, 0, 1) {
        for (dj, 0, 1) {
        produce C {
        for (ci, 0, 1) {
        for (cj, 0, 1) {
        C[(ci + cj)] = 5
        }
        }
        }
        D[(di + dj)] = (C[(di + dj)]*2)
        }
        }
        }
        E[((ei*16) + ej)] = (D[0]*4)
        }
        }
        }
        """
    )


def test_a_vectorized_loop_before_and_after() -> None:
    n, i, j = ir.Var("n"), ir.Var("i"), ir.Var("j")
    a = ir.decl_buffer((n * 4,), name="A")
    before = ir.For(i, 0, n, 0, ir.For(j, 0, 4, 2, ir.BufferStore(a, a[i * 4 + j] + 1.0, [i * 4 + j])))
    assert classic(before) == (
        "for (i, 0, n) {\n  vectorized (j, 0, 4) {\n    A[((i*4) + j)] = (A[((i*4) + j)] + 1f)\n  }\n}"
    )
    ramp = tir.Ramp(i * 4, 1, 4)
    value = ir.BufferLoad(a, [ramp]) + tir.Broadcast(tir.const(1.0), 4)
    after = ir.For(i, 0, n, 0, ir.BufferStore(a, value, [ramp]))
    assert classic(after) == "for (i, 0, n) {\n  A[ramp((i*4), 1, 4)] = (A[ramp((i*4), 1, 4)] + x4(1f))\n}"


def test_classic_expressions() -> None:
    x, y = ir.Var("x"), ir.Var("y")
    cases = {
        "(x + (int64)1)": ir.Add(ir.Var("x", "int64"), tir.const(1, "int64")),
        "floordiv(x, y)": x // y,
        "floormod(x, y)": x % y,
        "(x/y)": tir.truncdiv(x, y),
        "(x % y)": tir.truncmod(x, y),
        "min(x, max(y, 3))": tir.min(x, tir.max(y, 3)),
        "((x < y) && !(x == y))": tir.all(x < y, tir.Not(x.equal(y))),
        "select((x < 1), x, y)": tir.Select(x < 1, x, y),
        "float32(x)": tir.Cast("float32", x),
        "if_then_else((x < 1), 0.5f, exp(1f))": tir.if_then_else(x < 1, 0.5, tir.exp(tir.const(1.0))),
        "(let x = 1 in (x + y))": tir.Let(x, 1, x + y),
        "(bool)1": tir.const(True),
        "1h": tir.const(1.0, "float16"),
    }
    for text, node in cases.items():
        assert classic(node) == text


def test_classic_blocks_and_functions() -> None:
    text = classic(from_source(BLOCKS))
    assert flat(text)[:9] == [
        'PrimFunc([A, C]) attrs={"global_symbol": "main"} {',
        "block root() {",
        "reads([])",
        "writes([])",
        "B = alloc_buffer(float32[32])",
        "produce B {",
        "for (i, 0, 32) {",
        "block B(iter_var(i0, range(min=0, ext=32))) {",
        "bind(i0, i)",
    ]


BLOCKS = """from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    B = T.alloc_buffer((32,))
    for i in range(32):
        with T.block("B"):
            i0 = T.axis.spatial(32, i)
            B[i0] = A[i0] * T.float32(2.0)
    for i in T.vectorized(32):
        with T.block("C"):
            i0 = T.axis.spatial(32, i)
            C[i0] = T.max(B[i0] + T.float32(1.0), T.float32(0.0))
"""


def test_cinn_text() -> None:
    assert (
        cinn_text(from_source(BLOCKS))
        == """function main (_A, _C)
{
  ScheduleBlock(root)
  {
    {
      serial for (i, 0, 32)
      {
        ScheduleBlock(B)
        {
          i0 = axis.bind(i)
          read_buffers(_A[i0(0:32)])
          write_buffers(_B[i0(0:32)])
          B[i0] = (A[i0] * 2.00000000f)
        }
      }
      vectorize[32] for (i, 0, 32)
      {
        ScheduleBlock(C)
        {
          i0 = axis.bind(i)
          read_buffers(_B[i0(0:32)])
          write_buffers(_C[i0(0:32)])
          C[i0] = cinn_max((B[i0] + 1.00000000f), 0.00000000f)
        }
      }
    }
  }
}"""
    )


def test_cinn_binds_several_and_constants() -> None:
    a = ir.decl_buffer((1, 8), "int32", name="A")
    j = ir.Var("j")
    axes = [ir.IterVar((0, 1), "i0"), ir.IterVar((0, 8), "i1")]
    block = ir.Block(axes, [], [], "A", ir.BufferStore(a, axes[1].var + 1, [axes[0].var, axes[1].var]))
    nest = ir.For(j, 0, 8, ir.ForKind.PARALLEL, ir.BlockRealize([tir.const(0), j], True, block))
    assert cinn_text(nest).split("\n") == [
        "parallel for (j, 0, 8)",
        "{",
        "  ScheduleBlock(A)",
        "  {",
        "    i0, i1 = axis.bind(0, j)",
        "    write_buffers(_A[i0(0:1), i1(0:8)])",
        "    A[i0, i1] = (i1 + 1)",
        "  }",
        "}",
    ]


def test_cinn_loops_and_conditions() -> None:
    text = cinn_text(
        from_source(
            """from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((32,), "float32")):
    for i in T.thread_binding(32, thread="threadIdx.x"):
        for j in T.unroll(2, 4):
            if i < 8 and j < 3:
                A[i] = T.Select(i == 0, T.float32(1.5), T.min(A[i], T.float32(0.0)))
            else:
                A[i] = T.Cast("float32", i // 2)
"""
        )
    )
    assert flat(text) == flat(
        """
        function main (_A)
        {
        thread_bind[threadIdx.x] for (i, 0, 32)
        {
        unroll for (j, 2, 2)
        {
        if (((i < 8) and (j < 3))) {
        A[i] = select((i == 0), 1.50000000f, cinn_min(A[i], 0.00000000f))
        } else {
        A[i] = float32((i / 2))
        }
        }
        }
        }
        """
    )


def test_long_chains_do_not_exhaust_the_stack() -> None:
    x = ir.Var("x")
    chain: ir.Stmt = tir.Evaluate(x)
    for _ in range(5000):
        chain = tir.AttrStmt("a", "key", 1, chain)
    assert classic(chain).count("\n") == 5000
    assert cinn_text(chain) == "x"
