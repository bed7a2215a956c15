"""Passes do what TVM's do: variables of modules, compaction, partitions, views, intrinsics."""

import textwrap

import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import arith, ir, te, tir
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


# ---------------------------------------------------------------------------- views, blocks, intrinsics


def test_a_predicate_of_a_blocks_own_variables_is_refused():
    body = "for i in range(8):\n    with T.block('b'):\n        v = T.axis.spatial(8, i)\n        T.where({} < 6)\n        A[v] = T.float32(0)"
    with refuses("tir.convert_blocks_to_opaque.predicate_uses_own_variable"):
        t.ConvertBlocksToOpaque()(module(body.format("v")))
    t.ConvertBlocksToOpaque()(module(body.format("i")))


def test_an_intrinsic_without_vectors_is_refused():
    body = "for i in T.vectorized(4):\n    B[i] = T.call_llvm_pure_intrin('int32', 'llvm.lround', T.uint32(1), A[i])"
    with refuses("codegen.intrinsic_without_vectors"):
        tvm.build(module(body, "A: T.Buffer((4,)), B: T.Buffer((4,), 'int32')"), target="llvm")


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


# ---------------------------------------------------------------------------- memory behind pointers


def test_a_declared_buffer_is_one_flat_allocation():
    mod = module('T.func_attr({"from_legacy_te_schedule": True})\nX = T.decl_buffer((3, 4))\nX[1, 2] = A[3]')
    assert "X = T.decl_buffer((12,))\nX[6] = A[3]" in text(t.StorageFlatten(64)(mod))


def test_memory_of_vectors_that_is_accessed_as_others_keeps_their_number():
    body = "m = T.allocate([4], 'float32x4')\nM = T.Buffer((4,), 'int32x4', data=m)\nfor i in range(4):\n    M[i] = T.Broadcast(i, 4)"
    after = text(t.StorageRewrite()(module(body)))
    assert 'T.allocate([4], "int32x4"' in after and 'T.Buffer((4,), "int32x4"' in after and "[i] = T.Bro" in after


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_memory_of_vectors_that_is_seen_as_other_ones_keeps_its_size(size, lanes):
    count = size * 4 // lanes
    place = f"i * {lanes}:i * {lanes} + {lanes}" if lanes > 1 else "i"
    body = f"m = T.allocate([{size}], 'float32x4')\nM = T.Buffer(({size * 4},), 'float32', data=m)\nfor i in range({count}):\n    M[{place}] = A[{place}]"
    found = text(t.StorageRewrite()(module(body, "A: T.Buffer((64,))")))
    assert f'T.allocate([{size}], "float32x4"' in found and f"T.Buffer(({size * 4},), data=M)" in found


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
