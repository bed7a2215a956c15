"""Behaviour of TVM that no other file has: refusals of `rfactor`, names that are renewed, what is known of buffers."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import ir, te, tir
from tvmagic.errors import ScheduleError
from tvmagic.script import from_source
from tvmagic.tir.stmt_functor import post_order_visit, renew_defs
from tvmagic.tir.transform import (
    ConvertSSA,
    InjectDoubleBuffer,
    InjectVirtualThread,
    Simplify,
    StorageFlatten,
    ThreadSync,
)

HEAD = "from tvm.script import ir as I\nfrom tvm.script import tir as T\n"


def function(params: str, body: str) -> tir.PrimFunc:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return from_source(f"{HEAD}@T.prim_func\ndef f({params}):\n{lines}")


def found(node: Any, kind: type) -> list[Any]:
    nodes: list[Any] = []
    post_order_visit(node, lambda n: nodes.append(n) if isinstance(n, kind) else None)
    return nodes


# ---------------------------------------------------------------------------- rfactor

LARGEST = """
for i, k in T.grid(4, 8):
    with T.block("largest"):
        vi, vk = T.axis.remap("SR", [i, k])
        T.reads(P[vi, vk], V[vi, vk]); T.writes(OP[vi], OV[vi])
        with T.init():
            %s
        p: T.int32 = T.Select(OV[vi] >= V[vi, vk], OP[vi], P[vi, vk])
        v: T.float32 = T.Select(OV[vi] >= V[vi, vk], OV[vi], V[vi, vk])
        OP[vi] = p; OV[vi] = v
"""
LARGEST_PARAMS = (
    'P: T.Buffer((4, 8), "int32"), V: T.Buffer((4, 8), "float32"), OP: T.Buffer((4,), "int32"), '
    'OV: T.Buffer((4,), "float32")'
)


def factored(params: str, body: str, block: str) -> tir.Schedule:
    sch = tir.Schedule(function(params, body))
    sch.rfactor(sch.get_loops(block)[-1], 0)
    return sch


@pytest.mark.parametrize(
    "init",
    [
        "OP[vi] = -1\n            OP[vi] = -1",  # twice, and the other one never
        "OP[vi] = -1",
        "if vi < 3:\n                OP[vi] = -1\n            OV[vi] = T.min_value('float32')",  # no store
    ],
)
def test_004_init_stores_each_buffer_of_the_update_once(init: str) -> None:
    with pytest.raises(ScheduleError, match="`largest`"):
        factored(LARGEST_PARAMS, LARGEST % init, "largest")
    right = "OV[vi] = T.min_value('float32')\n            OP[vi] = -1"  # in any order
    assert len(found(factored(LARGEST_PARAMS, LARGEST % right, "largest").mod["main"].body, tir.Block)) == 3


def test_016_a_stage_that_does_not_cover_its_consumer() -> None:
    body = """
C = T.alloc_buffer((16, 16))
for i, j, k in T.grid(%d, 16, 16):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init(): C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vj, vk]
for i, j in T.grid(16, 16):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj]
"""
    params = 'A: T.Buffer((16, 16, 16), "float32"), D: T.Buffer((16, 16), "float32")'
    with pytest.raises(ScheduleError, match="`root`"):
        factored(params, body % 8, "C")
    factored(params, body % 16, "C")


def test_017_init_and_update_store_at_the_same_place() -> None:
    body = """
for i, j, k in T.grid(16, 16, 16):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init(): C[vi, vj] = T.float32(0)
        C[%s] = C[%s] + A[vi, vk]
"""
    params = 'A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")'
    with refuses("schedule.init_and_update_differ", error=ScheduleError):
        factored(params, body % ("vj, vi", "vj, vi"), "C")
    factored(params, body % ("vi, vj", "vi, vj"), "C")


# ---------------------------------------------------------------------------- names


def test_042_renewed_sizes_and_strides() -> None:
    func = function(
        "a: T.handle, b: T.handle",
        """
n, m, s, o = T.int32(), T.int32(), T.int32(), T.int32()
A = T.match_buffer(a, (n, m), strides=(s, 1), elem_offset=o)
B = T.match_buffer(b, (n, 8))
for i in range(n):
    with T.block("x"):
        vi = T.axis.S(n, i)
        t = T.int32()
        S = T.match_buffer(B[vi, 0:8], (1, 8), strides=(t, t))
        S[0, 0] = A[vi, 0]
""",
    )
    new = renew_defs(func)
    ir.assert_structural_equal(func, new)
    old_a, old_b = func.buffer_map.values()
    new_a, new_b = new.buffer_map.values()
    for old, renewed in zip(
        (*old_a.shape, old_a.strides[0], old_a.elem_offset), (*new_a.shape, new_a.strides[0], new_a.elem_offset)
    ):
        assert isinstance(renewed, tir.Var) and not renewed.same_as(old)
    assert new_a.shape[0].same_as(new_b.shape[0])  # `n`, once
    matched = [[b.match_buffers[0].buffer for b in found(f.body, tir.Block) if b.match_buffers][0] for f in (func, new)]
    assert matched[1].strides[0].same_as(matched[1].strides[1])
    assert not matched[1].strides[0].same_as(matched[0].strides[0])


def test_053_paths_name_functions_and_end_at_statements() -> None:
    text = f"{HEAD}@I.ir_module\nclass M:\n    @T.prim_func\n    def g(A: T.Buffer((8,), 'int32')):\n        for i in range(8):\n            %s"
    one, two, none = (from_source(text % body) for body in ("A[i] = 1", "A[i] = 2", "T.evaluate(0)"))
    with refuses("structural_equal.differs", error=ValueError) as error:
        ir.assert_structural_equal(one, two)
    assert '<root>.functions[I.GlobalVar("g")].body.body.value.value:\n' in str(error.value)
    assert "A[i] = 1\n                   ^\nand rhs at <root>" in str(error.value)
    with refuses("structural_equal.differs", error=ValueError) as error:
        ir.assert_structural_equal(one, none)
    assert "T.evaluate(0)\n            ^^^^^^^^^^^^^" in str(error.value)


def test_094_constants_are_arrays() -> None:
    from tvmagic.script.ir_builder import IRBuilder
    from tvmagic.script.ir_builder import tir as builder

    with IRBuilder() as ib:
        with builder.prim_func():
            with builder.allocate_const([1, 2, 3], "float32", [3]):
                builder.evaluate(0)
    data = ib.get().body.data
    assert isinstance(data, tvm.nd.NDArray) and (data.dtype, data.shape) == ("float32", (3,))


def test_178_threads_of_two_functions_differ() -> None:
    func = function(
        "A: T.Buffer((8,), 'int32')",
        'tx = T.env_thread("threadIdx.x")\nwith T.launch_thread(tx, 8): A[tx] = 1\n'
        "with T.launch_thread(tx, 8): A[tx] = 2",
    )
    mod = ConvertSSA()(tvm.IRModule({name: func.with_attr("global_symbol", name) for name in "ab"}))
    first, second = ([s.node for s in found(mod[name].body, tir.AttrStmt)] for name in "ab")
    assert first[0].var is first[1].var and second[0].var is second[1].var
    assert first[0].var is not second[0].var and first[0] is not second[0]
    tir.analysis.verify_well_formed(mod)


def test_160_a_let_that_describes_a_buffer_stays() -> None:
    n, k = tir.Var("n", "int32"), tir.Var("k", "int32")
    pointer = tir.Var("p", ir.PointerType(ir.PrimType("int32")))
    buffer = tir.decl_buffer((k,), "int32", data=pointer, name="b")
    body = tir.LetStmt(k, n * 4, tir.BufferStore(buffer, k + 1, [k - 1]))
    new: Any = Simplify()(tvm.IRModule.from_expr(tir.PrimFunc([n, pointer], body)))["main"].body
    assert new.var is k and str(new.body.indices[0]) == "n * 4 - 1" and str(new.body.value) == "n * 4 + 1"
    plain = tir.LetStmt(k, n * 4, tir.Evaluate(tir.call_extern("int32", "f", k)))
    gone: Any = Simplify()(tvm.IRModule.from_expr(tir.PrimFunc([n], plain)))["main"].body
    assert str(gone.value) == 'T.call_extern("int32", "f", n * 4)'


# ---------------------------------------------------------------------------- memory of threads


def test_183_shifted_ramps_stay_ramps() -> None:
    body = """
v = T.env_thread("vthread")
T.launch_thread(v, 2)
E = T.allocate([%d], "%s", scope="shared")
F = T.Buffer((%d,), "%s", data=E, scope="shared")
F[%s] = T.broadcast(v, %d)
if v < 1: A[0] = 1
else: A[1] = 2
"""
    A = 'A: T.Buffer((16,), "int32")'
    new = InjectVirtualThread()(tvm.IRModule.from_expr(function(A, body % (8, "int32", 8, "int32", "0:8", 8))))["f"]
    stores = [s for s in found(new.body, tir.BufferStore) if s.buffer.name == "F"]
    assert stores and all(isinstance(s.indices[0], tir.Ramp) for s in stores)
    assert [int(a.extents[0]) for a in found(new.body, tir.Allocate)] == [16]
    assert any(branch.else_case is not None for branch in found(new.body, tir.IfThenElse))
    wide = InjectVirtualThread()(tvm.IRModule.from_expr(function(A, body % (8, "int32x4", 8, "int32x4", "0", 4))))["f"]
    assert [(int(a.extents[0]), str(a.dtype)) for a in found(wide.body, tir.Allocate)] == [(16, "int32x4")]


def test_184_a_double_buffer_behind_storage_flatten() -> None:
    func = function(
        'A: T.Buffer((400,), "float32"), B: T.Buffer((4,), "float32")',
        """
T.func_attr({"from_legacy_te_schedule": True})
tx = T.env_thread("threadIdx.x")
T.launch_thread(tx, 1)
for i in range(100):
    C = T.decl_buffer([4], "float32", scope="shared")
    with T.attr(C.data, "double_buffer_scope", 1):
        for j in range(4):
            C[j] = A[i * 4 + j]
    for j in range(4):
        B[j] = C[j] + T.float32(1)
""",
    )
    passes = tvm.transform.Sequential([StorageFlatten(64), InjectDoubleBuffer(), Simplify(), ThreadSync("shared")])
    with tvm.transform.PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 2}}):
        new = passes(tvm.IRModule.from_expr(func))["f"]
    assert [int(a.extents[0]) for a in found(new.body, tir.Allocate)] == [8]
    assert new.script().count("T.tvm_storage_sync") == 4


@pytest.mark.parametrize(
    "scope", ["local.L0A", "global:tag", "local_TB2", "global.vtcm", "shared.dyn", "wmma.matrix_a"]
)
def test_197_scopes_with_tags(scope: str) -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] + 1, name="C")
    s = te.create_schedule(c.op)
    s[b].set_scope(scope)
    s.cache_read(a, scope, [b])
    s.cache_write(c, scope)
    kinds = [x.buffer_var.type_annotation.storage_scope for x in found(tvm.lower(s, [a, c])["main"].body, tir.Allocate)]
    assert kinds and set(kinds) == {scope}
    func = te.create_prim_func([a, c])
    for call in ("cache_read", "cache_write", "set_scope"):
        block, arguments = ("C", (0, scope)) if call != "set_scope" else ("B", (0, scope))
        getattr(tir.Schedule(func), call)(block, *arguments)
        with pytest.raises(ScheduleError, match="`nonsense`"):
            getattr(tir.Schedule(func), call)(block, 0, "nonsense")


def test_a_pass_made_of_a_class_has_its_attributes() -> None:
    @tvm.tir.transform.prim_func_pass(opt_level=1)
    class Replace:
        def __init__(self, new: tir.PrimFunc) -> None:
            self.new = new

        def transform_function(self, func: tir.PrimFunc, mod: Any, ctx: Any) -> tir.PrimFunc:
            return self.new

    new = function("", "T.evaluate(1)")
    made = Replace(new)
    assert made.new is new and made(tvm.IRModule({"f": function("", "T.evaluate(2)")}))["f"] is new
    with pytest.raises(AttributeError, match="other"):
        made.other


# ---------------------------------------------------------------------------- refusals, and buffers by name


def test_003_a_loop_that_a_spatial_and_a_reduced_variable_share() -> None:
    body = """
for io, m, ki in T.grid(3, 20, 2):
    with T.block("B"):
        vi = T.axis.S(12, io * 4 + m // 5)
        vk = T.axis.R(10, m % 5 * 2 + ki)
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
"""
    with pytest.raises(ScheduleError):
        factored('A: T.Buffer((12, 10), "float32"), B: T.Buffer((12,), "float32")', body, "B")


def test_005_a_buffer_that_is_read_through_a_pointer_is_not_inlined() -> None:
    body = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        v = T.axis.S(8, i)
        B[v] = A[v]
for i in range(8):
    with T.block("C"):
        v = T.axis.S(8, i)
        T.reads(B[0:8]); T.writes(C[v])
        T.evaluate(T.call_extern("int32", "peek", B.access_ptr("r"))); C[v] = B[v]
"""
    params = 'A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")'
    with pytest.raises(ScheduleError):
        tir.Schedule(function(params, body)).compute_inline("B")
    with pytest.raises(ScheduleError):
        tir.Schedule(function(params, body)).reverse_compute_inline("C")


def test_008_a_buffer_by_name_is_what_the_block_writes() -> None:
    body = """
for i, k in T.grid(4, 5):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
"""
    sch = tir.Schedule(function('A: T.Buffer((4, 5), "float32"), B: T.Buffer((4,), "float32")', body))
    sch.reindex("B", "B")
    assert [str(r) for r in sch.get(sch.get_block("B")).writes] == ["B_reindex[vi]"]
    assert [str(r) for r in sch.get(sch.get_block("B_reindex")).writes] == ["B[v0]"]
