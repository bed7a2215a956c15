"""Passes do what TVM's do: variables of modules, compaction, partitions, views, intrinsics."""

import textwrap

import pytest

import tvmagic as tvm
from tvmagic import arith, ir, te, tir
from tvmagic.errors import TVMagicError
from tvmagic.ir.functor import ir_transform
from tvmagic.ir.query import nodes_of
from tvmagic.tir import transform as t


def function(body, head="A: T.Buffer((12,), 'float32'), C: T.Buffer((12,), 'float32')"):
    return tvm.script.from_source(f"@T.prim_func\ndef main({head}):\n{textwrap.indent(textwrap.dedent(body), '    ')}")


def module(*arguments):
    return tvm.IRModule({"main": function(*arguments)})


def text(mod):
    return textwrap.dedent(mod["main"].script().split("):\n", 1)[1])


# ---------------------------------------------------------------------------- ConvertSSA


def test_a_function_used_twice_gets_parameters_of_its_own():
    v = tir.Var("v", "int32")
    f = tir.PrimFunc([v], tir.Evaluate(v + 1))
    mod = t.ConvertSSA()(tvm.IRModule({"a": f, "b": f}))
    assert mod["a"] is f and mod["b"].params[0] is not v
    assert mod["b"].body.value.a is mod["b"].params[0]
    ir.assert_structural_equal(mod["a"], mod["b"])


def test_buffers_loops_and_sizes_of_a_second_function_are_renewed():
    f = (
        function("for i in range(n): A[i] = T.float32(0)", "a: T.handle, n: T.int32").with_attr("x", 1)
        if False
        else None
    )
    f = tvm.script.from_source(
        "@T.prim_func\ndef main(a: T.handle):\n    n = T.int32()\n    A = T.match_buffer(a, (n,))\n"
        "    for i in range(n):\n        A[i] = T.float32(0)"
    )
    mod = t.ConvertSSA()(tvm.IRModule({"a": f, "b": f}))
    (old,), (new,) = f.buffer_map.values(), mod["b"].buffer_map.values()
    assert mod["a"] is f and new.data is not old.data and new.shape[0] is not old.shape[0]
    body = mod["b"].body
    assert body.extent is new.shape[0] and body.body.buffer is new and body.loop_var is not f.body.loop_var


def test_a_block_inside_a_block_of_the_same_variable():
    f = tvm.script.from_source(
        "@T.prim_func\ndef main(A: T.Buffer((8, 8))):\n    for i, j in T.grid(8, 8):\n        with T.block('b'):\n"
        "            v = T.axis.spatial(8, i)\n            with T.block('c'):\n                w = T.axis.spatial(8, j)\n"
        "                A[v, w] = T.float32(1)\n            A[v, 0] = T.float32(2)"
    )
    outer, inner = (next(b for b in nodes_of(f.body, tir.Block) if b.name_hint == name) for name in "bc")
    v, w = outer.iter_vars[0].var, inner.iter_vars[0].var
    same = inner.replace(iter_vars=(inner.iter_vars[0].replace(var=v),), body=ir.substitute(inner.body, {w: v}))
    body = ir_transform(f.body, lambda node: same if node is inner else None, None)
    mod = t.ConvertSSA()(tvm.IRModule({"a": f.with_body(body), "b": f.with_body(body)}))
    variables = []
    for name in "ab":
        outer, inner = (next(b for b in nodes_of(mod[name].body, tir.Block) if b.name_hint == n) for n in "bc")
        own, other = outer.iter_vars[0].var, inner.iter_vars[0].var
        assert outer.body.seq[1].indices[0] is own and inner.body.indices[0] is inner.body.indices[1] is other
        variables += [own, other]
    assert len(set(variables)) == 4 and variables[0] is v


def test_a_thread_is_one_variable_in_a_function():
    launch = "with T.launch_thread('threadIdx.x', 4) as tx:\n    A[tx] = T.float32(0)\n"
    f = function(launch)
    axis = f.body.node
    twice = f.with_body(tir.SeqStmt([f.body, tir.AttrStmt(axis, "thread_extent", 4, f.body.body)]))
    mod = t.ConvertSSA()(tvm.IRModule({"a": twice, "b": twice}))
    assert mod["a"] is twice
    first, second = mod["b"].body.seq
    assert first.node.var is second.node.var is not axis.var
    assert first.body.indices[0] is first.node.var


# ---------------------------------------------------------------------------- CompactBufferAllocation

SHARED = """
for i in range(3):
    B = T.decl_buffer((12,){scope})
    for j in range(4): B[i * 4 + j] = A[i * 4 + j] + T.float32(1)
    for j in range(4): C[i * 4 + j] = B[i * 4 + j]
"""


def compacted(body, *arguments):
    return text(t.Simplify()(t.CompactBufferAllocation()(module(body, *arguments))))


def test_an_allocation_shrinks_to_what_is_accessed():
    found = compacted(SHARED.format(scope=""))
    assert "B = T.decl_buffer((4,))" in found and "B[j] = A[i * 4 + j] + T.float32(1.0)" in found
    assert "C[i * 4 + j] = B[j]" in found


@pytest.mark.parametrize(
    ("index", "count", "strict", "loose"),
    [
        ("i", 8, "(4,)) [i]", "(8,)) [i]"),
        ("i - 2", 3, "(3,)) [i - 2]", "(3,)) [i]"),
        ("i + 1", 3, "(3,)) [i]", "(3,)) [i]"),
    ],
)
def test_what_is_accessed_outside_of_a_buffer_counts_if_asked_for(index, count, strict, loose):
    before = module(f"B = T.decl_buffer((4,))\nfor i in range({count}): B[{index}] = A[0]")
    for one, expected in (
        (t.CompactBufferAllocation(), strict),
        (t.CompactBufferAllocation(is_strict=True), strict),
        (t.CompactBufferAllocation(is_strict=False), loose),
    ):
        shape, place = expected.split(" ", 1)
        found = text(t.Simplify()(one(before)))
        assert f"T.decl_buffer({shape}" in found and f"B{place} = " in found


@pytest.mark.parametrize(
    ("size", "extent", "compact"),
    [
        ("m", "i % 5", "4"), ("m", "i % 5 + 2", "6"), ("m", "T.min(i, 6) + 1", "7"), ("12", "i % 5", "4"), ("12", "i % 12 + 1", "12"), ("12", "i", "12"),
        ("m", "i", "m"), ("m", "i + 1", "m"), ("m", "i // 2", "m"), ("m", "i // 2 + 7", "m"),
    ],
)  # fmt: skip
def test_a_region_of_a_size_that_a_loop_outside_gives_is_as_large_as_the_largest(size, extent, compact):
    """All that there is if nothing but its type bounds the size."""
    body = f"for i in range(n):\n    B = T.decl_buffer(({size},))\n    for j in range({extent}): B[j] = A[0]"
    found = text(t.CompactBufferAllocation()(module(body, "A: T.Buffer((12,)), n: T.int32, m: T.int32")))
    assert f"B = T.decl_buffer(({compact},))" in found


def test_conditions_bound_what_is_accessed():
    body = "B = T.decl_buffer((12,))\nfor i in range(12):\n    if {}: B[i] = A[i]\n"
    assert "T.decl_buffer((7,))" in compacted(body.format("2 <= i and i < 9"))
    assert "T.decl_buffer((12,))" in compacted(body.format("i"))  # an integer as a condition: `i != 0`


@pytest.mark.parametrize(
    ("access", "size"),
    [("for i in range(3): B[X[0] + i] = A[i]", 12), ("for i in range(X[0]): B[i + 2] = A[i]", 12), ("for i in range(X[0]): B[X[1] + i] = A[i]", 12), ("for i in range(3): B[i + 2] = A[X[i]]", 3)],
)  # fmt: skip
def test_what_is_loaded_bounds_no_memory(access, size):
    """It may be another value at the next access, and where the memory is allocated."""
    body = f"X = T.decl_buffer((3,), 'int32')\nX[0] = 3\nX[1] = 4\nX[2] = 5\nB = T.decl_buffer((12,))\n{access}"
    assert f"B = T.decl_buffer(({size},))" in compacted(body)


def test_threads_share_memory_by_its_scope():
    body = """
    with T.launch_thread("threadIdx.x", 4) as tx:
        L = T.decl_buffer((12,), scope="local")
        S = T.decl_buffer((12,), scope="shared")
        for i in range(3): L[tx * 3 + i] = A[tx * 3 + i]
        for i in range(2): S[tx * 3 + i] = L[tx * 3 + i]
        for i in range(2): C[tx * 3 + i] = S[tx * 3 + i]
    """
    found = compacted(body)
    assert 'L = T.decl_buffer((3,), scope="local")' in found and 'S = T.decl_buffer((11,), scope="shared")' in found


@pytest.mark.parametrize(
    "body",
    [
        "m = T.allocate([12], 'float32')\nB = T.Buffer((12,), data=m)\nD = T.Buffer((3, 4), data=m)\nB[0] = A[0]\nD[0, 1] = A[1]",
        "m = T.allocate([12], 'float32')\nB = T.Buffer((12,), 'int32', data=m)\nB[0] = 1",
        "B = T.decl_buffer((12,))\nB[0] = A[0]\nT.evaluate(T.call_extern('int32', 'f', B.data))",
    ],
)
def test_memory_that_is_seen_in_other_ways_keeps_its_size(body):
    before = module(body)
    ir.assert_structural_equal(t.CompactBufferAllocation()(before), before)


def test_compaction_before_and_after_lowering_of_blocks_is_the_same():
    body = """
    with T.block("root"):
        B = T.alloc_buffer((16, 16))
        for i in range(16):
            for j in range(16):
                with T.block("b"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    {align}
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for j in range(16):
                with T.block("c"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] * T.float32(2)
    """
    for align in ("pass", "T.block_attr({'buffer_dim_align': [[0, 0, 32, 8]]})"):
        before = module(body.format(align=align), "A: T.Buffer((16, 16)), C: T.Buffer((16, 16))")
        for step in (t.PlanAndUpdateBufferAllocationLocation(), t.ConvertBlocksToOpaque()):
            before = step(before)
        one = t.Simplify()(t.LowerOpaqueBlock()(t.CompactBufferAllocation()(before)))
        other = t.Simplify()(t.CompactBufferAllocation()(t.LowerOpaqueBlock()(before)))
        ir.assert_structural_equal(one, other)


# ---------------------------------------------------------------------------- LoopPartition

HINTED = 'for i in T.serial(20, annotations={"pragma_loop_partition_hint": True, "tag": "x"}):\n'


def partitioned(body, **options):
    mod = module(HINTED + textwrap.indent(body, "    "), "A: T.Buffer((20,), 'int32')")
    with tvm.transform.PassContext(config={"tir.LoopPartition": options}):
        return text(t.RemoveNoOp()(t.Simplify()(t.LoopPartition()(mod))))


def loop(extent, statement):
    return f'for i in T.serial({extent}, annotations={{"tag": "x"}}):\n    {statement}'


THREE = "\n".join([loop(4, "A[i] = 1"), loop(11, "A[i + 4] = 2"), loop(5, "A[i + 15] = 3")])


def test_all_comparisons_of_a_hinted_loop_count():
    assert partitioned("if i < 4: A[i] = 1\nelif 4 <= i and i < 15: A[i] = 2\nelse: A[i] = 3") == THREE
    assert partitioned("if 15 <= i: A[i] = 3\nif 4 <= i and i < 15: A[i] = 2\nif i < 4: A[i] = 1") == THREE


@pytest.mark.parametrize("unroll", [False, True])
def test_points_of_a_hinted_loop_are_iterations_of_their_own(unroll):
    found = partitioned(
        "if i == 0: A[i] = 1\nelif i == 19: A[i] = 3\nelse: A[i] = 2",
        unroll_loop_with_partition_hint_no_interval=unroll,
    )
    assert found == f"A[0] = 1\n{loop(18, 'A[i + 1] = 2')}\nA[19] = 3"


def test_a_point_outside_of_a_hinted_loop_leaves_it():
    assert partitioned("if i == 30: A[i] = 1\nelse: A[i] = 2") == loop(20, "A[i] = 2")


def test_a_hinted_loop_in_the_parts_of_another_is_split_too():
    """So that a tile of a size that divides neither axis has full vectors: 10 of 4 x 16 in 37 x 170."""
    body = """
        for i in T.serial(10, annotations={"pragma_loop_partition_hint": True}):
            for j in T.serial(11, annotations={"pragma_loop_partition_hint": True}):
                for a in range(4):
                    for b in T.vectorized(16):
                        if i * 4 + a < 37 and j * 16 + b < 170: A[i * 4 + a, j * 16 + b] = 1
    """
    found = text(t.Simplify()(t.LoopPartition()(module(body, "A: T.Buffer((37, 170), 'int32')"))))
    whole = [line for line in found.splitlines() if "if " not in line and "A[i * 4 + a, j * 16 + b] = 1" in line]
    assert "T.grid(9, 10, 4)" in found or "j, a in T.grid(10, 4)" in found
    assert len(whole) == 1 and found.index(whole[0]) < found.index("if ")


def test_a_kept_loop_of_one_iteration_counts_as_its_value():
    loops = "for k in T.serial(1, annotations={'preserve_unit_loop': True}):\n    " + HINTED
    body = "        if 15 <= k * 20 + i: A[i] = 1\n        else: A[i] = 2"
    found = text(t.Simplify()(t.LoopPartition()(module(loops + body, "A: T.Buffer((20,), 'int32')"))))
    assert loop(15, "A[i] = 2").split("\n")[0] in found and "A[i + 15] = 1" in found and "if" not in found
    body = (
        "        if 15 <= k * 20 + i: A[i] = 3\n        if 4 <= k + i and i < 15: A[i] = 2\n        if i < 4: A[i] = 1"
    )
    found = text(t.Simplify()(t.LoopPartition()(module(loops + body, "A: T.Buffer((20,), 'int32')"))))
    assert textwrap.indent(THREE, "    ") in found


# ---------------------------------------------------------------------------- views, blocks, intrinsics

VIEW = """
for i, j, k in T.grid(8, 16, 8):
    with T.block():
        T.reads([])
        T.writes(A[i * 8:i * 8 + 8, j, k * 3:k * 3 + 3])
        S = T.match_buffer(A[i * 8:i * 8 + 8, j, k * 3:k * 3 + 3], (8, 1, 3), offset_factor=1)
        {}
"""
CUBE = "A: T.Buffer((64, 64, 64), 'float32')"


def test_a_view_need_not_be_compact_if_it_is_accessed_by_indices():
    stores = "for a, b in T.grid(8, 3):\n            S[a, 0, b] = T.float32(0)"
    assert "A[i * 8 + a, j, k * 3 + b] = T.float32(0.0)" in text(
        t.LowerMatchBuffer()(module(VIEW.format(stores), CUBE))
    )
    with pytest.raises(TVMagicError, match="compact buffer `S`"):
        t.LowerMatchBuffer()(module(VIEW.format("T.evaluate(T.call_extern('int32', 'f', S.data))"), CUBE))


def test_a_predicate_of_a_blocks_own_variables_is_refused():
    body = "for i in range(8):\n    with T.block('b'):\n        v = T.axis.spatial(8, i)\n        T.where({} < 6)\n        A[v] = T.float32(0)"
    with pytest.raises(TVMagicError, match="uses `v`"):
        t.ConvertBlocksToOpaque()(module(body.format("v")))
    t.ConvertBlocksToOpaque()(module(body.format("i")))


def test_fma_becomes_fmuladd_for_llvm():
    body = "A[0] = T.fma(A[0], A[1], A[2])"
    target = "T.func_attr({'target': T.target('llvm')})\n"
    assert 'T.call_llvm_pure_intrin("float32", "llvm.fmuladd", T.uint32(3), A[0]' in text(
        t.LowerIntrin()(module(target + body))
    )
    assert "T.fma(" in text(t.LowerIntrin()(module(body)))


def test_an_intrinsic_without_vectors_is_refused():
    body = "for i in T.vectorized(4):\n    B[i] = T.call_llvm_pure_intrin('int32', 'llvm.lround', T.uint32(1), A[i])"
    with pytest.raises(TVMagicError, match="Intrinsic does not support vectors"):
        tvm.build(module(body, "A: T.Buffer((4,)), B: T.Buffer((4,), 'int32')"), target="llvm")


def test_threads_are_bounded_by_lets():
    body = """
    n: T.int32 = 10
    with T.launch_thread("threadIdx.x", n) as tx:
        with T.launch_thread("threadIdx.y", 1) as ty:
            if tx + ty < 12: A[tx] = T.float32(0)
    """
    assert "if" not in text(t.Simplify()(module(body)))


# ---------------------------------------------------------------------------- arith


def test_coefficients_of_unsigned_variables_are_signed():
    c = tir.Var("c", "uint32")
    coefficient, base = arith.detect_linear_equation(100 - c, [c])
    assert coefficient.value == -1 and base.value == 100


def test_the_domain_of_a_vector_is_that_of_all_lanes():
    f = function(
        "for i in range(n): A[i * 16:(i + 1) * 16] = T.Broadcast(T.float32(0), 16)", "A: T.Buffer((160,)), n: T.int32"
    )
    (buffer,) = f.buffer_map.values()
    (touched,) = arith.DomainTouched(f.body.body, buffer, True, True)
    assert touched.extent == 16 and str(touched.min) == "i * 16"
    assert arith.DomainTouched(f.body, buffer, True, False) == ()


def test_suggest_index_map_of_columns_read_one_after_the_other():
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    loops = [tir.For(var, 0, extent, tir.ForKind.SERIAL, tir.Evaluate(0)) for var, extent in ((i, 12), (j, 8))]
    found = tir.schedule.analysis.suggest_index_map(tir.decl_buffer([8, 12]), [j, i], loops, tir.const(True))
    assert str(found) == "T.index_map(lambda i0, i1: (i1, i0))"


def test_suggest_index_map_finds_the_order_of_loops():
    i, j = te.var("i"), te.var("j")
    loops = [tir.For(v, 0, n, 0, tir.Evaluate(0)) for v, n in ((i, 2), (j, 32))]
    found = tir.schedule.analysis.suggest_index_map(tir.decl_buffer([8]), [j % 4 * 2 + i], loops, tir.const(True))
    assert found.is_equivalent_to(tir.IndexMap.from_func(lambda a: (a % 2, a // 2)))


# ---------------------------------------------------------------------------- NarrowDataType

WIDE = "A: T.Buffer((T.int64(45),)), B: T.Buffer((T.int64(45),)), D: T.Buffer((T.int64(45),), 'int64')"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "for i, j in T.grid(T.int64(5), T.int64(9)):\n"
            "    if i * T.int64(9) + j < T.int64(40): B[i * T.int64(9) + j] = A[i * T.int64(9) + j]",
            "for i, j in T.grid(5, 9):\n    if i * 9 + j < 40:\n        B[i * 9 + j] = A[i * 9 + j]",
        ),
        (
            "for i in range(T.int64(8)): D[i] = D[i + T.int64(1)] * T.int64(2)",
            "for i in range(8):\n    D[i] = D[i + 1] * T.int64(2)",
        ),
        (
            "for i in range(T.int64(5)): A[i] = T.if_then_else(i < T.int64(3), B[i], T.float32(0))",
            "for i in range(5):\n    A[i] = T.if_then_else(i < 3, B[i], T.float32(0.0))",
        ),
        (
            "for i in range(T.int64(5)): A[i] = T.Cast('float32', T.Cast('int32', i * T.int64(3)))",
            'for i in range(5):\n    A[i] = T.Cast("float32", i * 3)',
        ),
        (
            "for i in range(T.int64(5)):\n"
            "    if D[i] < T.int64(1) << T.int64(40): A[i] = T.float32(0)",
            "for i in range(5):\n    if D[i] < T.int64(1099511627776):\n        A[i] = T.float32(0.0)",
        ),
    ],
)  # fmt: skip
def test_conditions_and_indices_are_narrowed(before, after):
    assert text(t.NarrowDataType(32)(module(before, WIDE))) == after


def test_blocks_are_narrowed():
    body = """
    for i in range(T.int64(5)):
        with T.block("b"):
            v = T.axis.spatial(T.int64(5), i)
            T.where(i < T.int64(4))
            B[v] = A[v]
    """
    found = text(t.NarrowDataType(32)(module(body, WIDE)))
    assert "for i in range(5):" in found and "v = T.axis.spatial(5, i)" in found and "T.where(i < 4)" in found


# ---------------------------------------------------------------------------- InjectVirtualThread


def test_vectors_of_virtual_threads_stay_dense():
    body = """
    with T.launch_thread("vthread", 2) as v:
        E = T.decl_buffer((8,), "int32", scope="shared")
        E[0:8] = T.Broadcast(v, 8)
    """
    found = text(t.InjectVirtualThread()(module(body)))
    assert "E[T.Mul(0, 8):T.Mul(0, 8) + 8] = T.Broadcast(0, 8)" in found
    assert "E[T.Mul(1, 8):T.Mul(1, 8) + 8] = T.Broadcast(1, 8)" in found


def test_memory_is_repeated_for_threads_that_it_depends_on():
    body = """
    with T.launch_thread("vthread", 2) as x:
        with T.launch_thread("vthread", 2) as y:
            B = T.decl_buffer((4,), "int32", scope="shared")
            for i in range(4): B[i] = x
    """
    assert "B = T.decl_buffer((8,)" in text(t.InjectVirtualThread()(module(body)))


# ---------------------------------------------------------------------------- memory behind pointers


def test_a_declared_buffer_is_one_flat_allocation():
    mod = module('T.func_attr({"from_legacy_te_schedule": True})\nX = T.decl_buffer((3, 4))\nX[1, 2] = A[3]')
    assert "X = T.decl_buffer((12,))\nX[6] = A[3]" in text(t.StorageFlatten(64)(mod))


def test_buffers_on_pointers_are_flattened_too():
    body = """
        T.func_attr({"from_legacy_te_schedule": True})
        p: T.handle("float32") = T.call_extern("handle", "get")
        P = T.Buffer((3, 4), data=p)
        Q = T.Buffer((3, 4), data=q)
        P[1, 2] = Q[2, 1]
    """
    flat = text(t.StorageFlatten(64)(tvm.IRModule({"main": function(body, "q: T.handle('float32')")})))
    assert "[6] = " in flat and flat.rstrip().endswith("[9]")


def test_memory_behind_a_let_that_is_accessed_by_vectors_has_vector_elements():
    body = """
        p: T.handle("int32") = T.call_extern("handle", "get")
        P = T.Buffer((16,), "int32", data=p)
        P[0:8] = T.Broadcast(42, 8)
    """
    after = text(t.StorageRewrite()(tvm.IRModule({"main": function(body, "")})))
    assert 'T.handle("int32x8", "global")' in after and 'T.Buffer((2,), "int32x8"' in after and "[0] = T.Bro" in after
    mixed = text(t.StorageRewrite()(tvm.IRModule({"main": function(body + "    P[1] = 3\n", "")})))
    assert 'T.handle("int32", "global")' in mixed and "[0:8] = T.Broadcast(42, 8)" in mixed


def test_memory_of_vectors_that_is_accessed_as_others_keeps_their_number():
    body = "m = T.allocate([4], 'float32x4')\nM = T.Buffer((4,), 'int32x4', data=m)\nfor i in range(4):\n    M[i] = T.Broadcast(i, 4)"
    after = text(t.StorageRewrite()(module(body)))
    assert 'T.allocate([4], "int32x4"' in after and 'T.Buffer((4,), "int32x4"' in after and "[i] = T.Bro" in after


def test_pointers_get_the_type_of_the_memory_that_they_are_to():
    body = """
        m = T.allocate([4], 'float32x4')
        M = T.Buffer((4,), 'int32x4', data=m)
        M[0] = T.Broadcast(3, 4)
        T.evaluate(T.call_extern("int32", "f", T.tvm_access_ptr(T.type_annotation("int32x4"), m, 2, 1, 1)))
    """
    after = text(t.StorageRewrite()(module(body)))
    assert 'T.allocate([4], "int32x4"' in after
    assert 'T.tvm_access_ptr(T.type_annotation("int32x4"), M, 2, 1, 1)' in after


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_memory_of_vectors_that_is_seen_as_other_ones_keeps_its_size(size, lanes):
    count = size * 4 // lanes
    place = f"i * {lanes}:i * {lanes} + {lanes}" if lanes > 1 else "i"
    body = f"m = T.allocate([{size}], 'float32x4')\nM = T.Buffer(({size * 4},), 'float32', data=m)\nfor i in range({count}):\n    M[{place}] = A[{place}]"
    found = text(t.StorageRewrite()(module(body, "A: T.Buffer((64,))")))
    assert f'T.allocate([{size}], "float32x4"' in found and f"T.Buffer(({size * 4},), data=M)" in found


@pytest.mark.parametrize("value", ["T.Broadcast(1, 4)", "T.Ramp(1, 2, 4)"])
def test_memory_that_is_seen_as_vectors_and_one_by_one_keeps_its_elements(value):
    body = (
        f"m = T.allocate([16], 'int32')\nM = T.Buffer((4,), 'int32x4', data=m)\nfor i in range(4):\n    M[i] = {value}"
    )
    found = text(t.StorageRewrite()(module(body)))
    assert 'T.allocate([16], "int32"' in found and 'T.Buffer((4,), "int32x4", data=M)' in found


def test_pointers_and_arguments_get_the_type_of_their_accesses():
    body = """
        P = T.Buffer((12,), data=p)
        for i in range(3):
            P[i * 4:i * 4 + 4] = A[i * 4:i * 4 + 4]
            C[i] = T.float32(1)
    """
    head = "A: T.Buffer((12,), 'float32'), C: T.Buffer((12,), 'float32'), p: T.handle('float32')"
    before = tvm.IRModule({"main": function(body, head)})
    after = t.PointerValueTypeRewrite()(before)["main"]
    assert [str(buffer.dtype) for buffer in after.buffer_map.values()] == ["float32x4", "float32"]
    assert [int(buffer.shape[0]) for buffer in after.buffer_map.values()] == [3, 12]
    assert after.params[2].type_annotation.element_type.dtype == "float32x4"
    # StorageRewrite leaves what callers see
    assert ir.structural_equal(t.StorageRewrite()(before), before)


# ---------------------------------------------------------------------------- private functions


# ---------------------------------------------------------------------------- devices
