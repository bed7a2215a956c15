"""What each name of `T` builds, and how the shorthands of scripts are read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from refusals import refuses

import tvmagic
from tvmagic import ir
from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.script import from_source
from tvmagic.script import tir as T

HEADER = re.compile(r"^(# from tvm.*\n)+\n?")


def func(
    body: str, params: str = 'A: T.Buffer((16, 16), "float32"), n: T.int32', decorator: str = "T.prim_func"
) -> ir.PrimFunc:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return from_source(f"@{decorator}\ndef main({params}):\n{lines}")


def body(text: str, **options: Any) -> Any:
    return func(text, **options).body


def body_text(text: str, **options: Any) -> str:
    """The body as it is printed back."""
    printed = HEADER.sub("", func(text, **options).script()).strip().split("\n")
    return "\n".join(line[4:] for line in printed[2:])


# name: (what is written, what it means)
SHORTHANDS = {
    "range with two ends": (
        "for i in range(2, 10):\n    A[i, 0] = 1",
        "for i in range(2, 10):\n    A[i, 0] = T.float32(1.0)",
    ),
    "serial with ends": (
        "for i in T.serial(n, n + 8):\n    A[i, 0] = 1.0",
        "for i in range(n, n + 8):\n    A[i, 0] = T.float32(1.0)",
    ),
    "augmented": ("A[0, 0] += 1", "A[0, 0] = A[0, 0] + T.float32(1.0)"),
    "augmented division": ("A[0, 0] /= 2", "A[0, 0] = A[0, 0] / T.float32(2.0)"),
    "chained comparison": (
        "if 0 < n <= 8 < 20:\n    A[0, 0] = 1.0",
        "if 0 < n and n <= 8:\n    A[0, 0] = T.float32(1.0)",
    ),
    "not": ("if not n < 3 or n > 8:\n    A[0, 0] = 1.0", "if not n < 3 or n > 8:\n    A[0, 0] = T.float32(1.0)"),
    "conditional expression": (
        "A[0, 0] = A[0, 1] if n < 3 else 0.0",
        "A[0, 0] = T.if_then_else(n < 3, A[0, 1], T.float32(0.0))",
    ),
    "elif": (
        "if n < 3:\n    A[0, 0] = 1.0\nelif n < 6:\n    A[0, 0] = 2.0",
        "if n < 3:\n    A[0, 0] = T.float32(1.0)\nelse:\n    if n < 6:\n        A[0, 0] = T.float32(2.0)",
    ),
    "constant if": ("if True:\n    A[0, 0] = 1.0\nelse:\n    A[0, 0] = 2.0", "A[0, 0] = T.float32(1.0)"),
    "plain let": ("x = n + 1\nA[x, 0] = 1.0", "x: T.int32 = n + 1\nA[x, 0] = T.float32(1.0)"),
    "let of a number": ("x = 3\nA[x, 0] = 1.0", "x: T.int32 = 3\nA[x, 0] = T.float32(1.0)"),
    "let of a type": (
        "x: T.int64 = 3\nA[x, T.int64(0)] = 1.0",
        "x: T.int64 = T.int64(3)\nA[x, T.int64(0)] = T.float32(1.0)",
    ),
    "let of a vector": ("x = A[0, 0:4]\nA[1, 0:4] = x", "x: T.float32x4 = A[0, 0:4]\nA[1, 0:4] = x"),
    "meta": ("x = T.meta_var(n + 1)\nA[x, 0] = 1.0", "A[n + 1, 0] = T.float32(1.0)"),
    "docstring": ('"""What it does."""\nA[0, 0] = 1.0', "A[0, 0] = T.float32(1.0)"),
    "pass": ("pass\nA[0, 0] = 1.0", "A[0, 0] = T.float32(1.0)"),
    "no effect": ("T.evaluate(0)\nA[0, 0] = 1.0\nT.evaluate(0)", "A[0, 0] = T.float32(1.0)"),
    "keywords": (
        "A[0, 0] = T.if_then_else(cond=n < 3, t=A[0, 1], f=A[0, 2])",
        "A[0, 0] = T.if_then_else(n < 3, A[0, 1], A[0, 2])",
    ),
    "stored type": ("A[0, 0] = n", 'A[0, 0] = T.Cast("float32", n)'),
    "stored truth": ("A[0, 0] = True", "A[0, 0] = T.float32(1.0)"),
    "stored constant": ("A[0, 0] = T.int64(3)", "A[0, 0] = T.float32(3.0)"),
    "cast": (
        'A[0, 0] = T.cast(n, "float32") + n.astype("float32")',
        'A[0, 0] = T.Cast("float32", n) + T.Cast("float32", n)',
    ),
    "lower-case nodes": (
        "A[0, 0:4] = T.broadcast(A[0, 0], 4) + A[0, T.ramp(0, 2, 4)]",
        "A[0, 0:4] = T.Broadcast(A[0, 0], 4) + A[0, 0:8:2]",
    ),
    "call with the dtype last": ('T.evaluate(T.call_extern("f", n, dtype="int32"))', 'T.call_extern("int32", "f", n)'),
    "packed buffer": (
        'T.evaluate(T.call_packed("f", A))',
        'T.call_packed("f", T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(16, 16), 0, 2, T.float32(0.0), 0))',
    ),
    "open slices": (
        "B = T.Buffer((16,))\nT.realize(B[:])\nB[:] = A[0, :]",
        "B = T.Buffer((16,))\nT.realize(B[0:16])\nB[0:16] = A[0, 0:16]",
    ),
    "list of indices": ("A[[0, 1]] = A[(2, 3)]", "A[0, 1] = A[2, 3]"),
    "starred extents": (
        "for i, j in T.grid(*[16, 16]):\n    A[i, j] = 1.0",
        "for i, j in T.grid(16, 16):\n    A[i, j] = T.float32(1.0)",
    ),
    "environment thread": (
        'tx = T.env_thread("threadIdx.x")\nT.launch_thread(tx, 16)\nA[0, tx] = 1.0',
        'tx = T.launch_thread("threadIdx.x", 16)\nA[0, tx] = T.float32(1.0)',
    ),
    "allocate": (
        'p = T.allocate([4], "float32", "local")\nB = T.Buffer((4,), data=p, scope="local")\nB[0] = A[0, 0]',
        'B = T.allocate([4], "float32", "local")\nB_1 = T.Buffer((4,), data=B, scope="local")\nB_1[0] = A[0, 0]',
    ),
    "nested frames": (
        'with T.allocate([4], "int32", "local") as p, T.attr(0, "k", 1):\n    A[0, 0] = 1.0',
        'p = T.allocate([4], "int32", "local")\nT.attr(0, "k", 1)\nA[0, 0] = T.float32(1.0)',
    ),
    "ceildiv": ("A[T.ceildiv(n, 4), 0] = 1.0", "A[(n + 4 - 1) // 4, 0] = T.float32(1.0)"),
    "return type": ("return 1", "return 1"),
}


@pytest.mark.parametrize("name", SHORTHANDS)
def test_a_shorthand_means(name: str) -> None:
    written, meaning = SHORTHANDS[name]
    assert body_text(written) == meaning


# ---------------------------------------------------------------------------- functions


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "int64", "float16", "float64", "bfloat16", "bool", "float32x4", "int8x16", "int32x3"]
)
def test_dtypes_convert_and_declare(dtype: str) -> None:
    read = func(f"x = T.{dtype}()\nT.evaluate(x)\nT.evaluate(T.{dtype}(1))")
    assert isinstance(read.body, ir.SeqStmt)
    first, second = read.body.seq
    assert isinstance(first, ir.Evaluate) and isinstance(first.value, ir.Var) and first.value.dtype == dtype
    assert isinstance(second, ir.Evaluate) and second.value.dtype == dtype


# ---------------------------------------------------------------------------- blocks

MATMUL = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vj, vk]
"""


def blocks_of(read: ir.PrimFunc) -> dict[str, ir.Block]:
    found: dict[str, ir.Block] = {}

    def look(node: Any) -> None:
        if isinstance(node, ir.Block):
            found[node.name_hint] = node

    ir.post_order_visit(read.body, look)
    return found


def test_a_root_block_is_put_around_blocks() -> None:
    read = from_source(MATMUL)
    assert isinstance(read.body, ir.BlockRealize) and read.body.block.name_hint == "root"
    assert not read.body.block.reads and not read.body.block.writes and not read.body.block.iter_vars


@pytest.mark.parametrize(
    "text",
    [
        'with T.block("root"):\n    for i in range(16):\n        with T.block("b"):\n            v = T.axis.spatial(16, i)\n            A[v, 0] = 1.0',
        'with T.block("root"):\n    T.reads()\n    T.writes()\n    for i in range(16):\n        with T.block("b"):\n            v = T.axis.spatial(16, i)\n            A[v, 0] = 1.0',
        'for i in range(16):\n    with T.block("b"):\n        v = T.axis.spatial(16, i)\n        A[v, 0] = 1.0',
    ],
)
def test_a_written_root_block_is_the_root(text: str) -> None:
    read = func(text)
    assert isinstance(read.body, ir.BlockRealize)
    assert isinstance(read.body.block.body, ir.For)
    assert set(blocks_of(read)) == {"root", "b"}


def test_two_blocks_at_the_top() -> None:
    read = func('with T.block("a"):\n    A[0, 0] = A[1, 1]\nwith T.block("b"):\n    A[2, 0] = 1.0')
    found = blocks_of(read)
    assert set(found) == {"root", "a", "b"}
    assert [str(r) for r in found["a"].reads] == ["A[1, 1]"] and [str(w) for w in found["b"].writes] == ["A[2, 0]"]


def test_one_name_for_all_axes() -> None:
    read = func(
        'for i, j in T.grid(16, 16):\n    with T.block("b"):\n        v = T.axis.remap("SS", [i, j])\n        A[v[0], v[1]] = 1.0'
    )
    assert [v.var.name for v in blocks_of(read)["b"].iter_vars] == ["v_0", "v_1"]


# ---------------------------------------------------------------------------- regions left out

LEFT_OUT = {
    "reduction": ("A[v, 0:16]", "B[v]", "with T.init():\n    B[v] = 0.0\nfor k in range(16):\n    B[v] += A[v, k]"),
    "without init": ("B[v], A[v, 0:16]", "B[v]", "for k in range(16):\n    B[v] += A[v, k]"),
    "window": ("A[v, v:v + 3]", "B[v]", "for k in range(3):\n    B[v] = A[v, v + k]"),
    "two accesses": ("A[v:v + 3, 0]", "B[v]", "B[v] = A[v, 0] + A[v + 2, 0]"),
    "condition": ("A[v, 3:8]", "B[v]", "for k in range(8):\n    if k > 2:\n        B[v] = A[v, k]"),
    "other branch": (
        "A[v, 0:8]",
        "B[v]",
        "for k in range(8):\n    if k < 3:\n        B[v] = A[v, k]\n    else:\n        B[v] = A[v, k]",
    ),
    "conditional value": ("A[v, 0:3]", "B[v]", "for k in range(8):\n    B[v] = T.if_then_else(k < 3, A[v, k], 0.0)"),
    "division": ("A[v, 0:4]", "B[v]", "for k in range(8):\n    B[v] = A[v, k // 2]"),
    "let": ("A[v, 0:15]", "B[v]", "for k in range(8):\n    x: T.int32 = k * 2\n    B[v] = A[v, x]"),
    "vector": ("A[v, 4:8]", "B[0:4]", "B[0:4] = A[v, 4:8]"),
    "symbolic": ("A[v, n:n + 8]", "B[v]", "for k in range(8):\n    B[v] = A[v, n + k]"),
    "own buffer": ("A[v, 0]", "B[v]", "C = T.alloc_buffer((4,))\nC[0] = A[v, 0]\nB[v] = C[0]"),
    "match": (
        "A[v, 0:16]",
        "B[v]",
        "W = T.match_buffer(A[v, 0:16], (16,), offset_factor=1)\nfor k in range(16):\n    B[v] = W[k]",
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_regions_that_a_script_leaves_out_are_found(name: str) -> None:
    reads, writes, inside = LEFT_OUT[name]
    lines = "\n".join("        " + line for line in inside.split("\n"))
    text = f'for i in range(16):\n    with T.block("b"):\n        v = T.axis.spatial(16, i)\n{lines}'
    block = blocks_of(func(text, params='A: T.Buffer((32, 32), "float32"), B: T.Buffer((32,), "float32"), n: T.int32'))[
        "b"
    ]
    assert ", ".join(str(r) for r in block.reads) == reads
    assert ", ".join(str(w) for w in block.writes) == writes


def test_only_what_is_left_out_is_found() -> None:
    text = 'for i in range(16):\n    with T.block("b"):\n        v = T.axis.spatial(16, i)\n        T.reads(A[0:16, 0:16])\n        A[v, 1] = A[v, 0]'
    block = blocks_of(func(text))["b"]
    assert [str(r) for r in block.reads] == ["A[0:16, 0:16]"] and [str(w) for w in block.writes] == ["A[v, 1]"]


def test_the_regions_of_inner_blocks_are_relaxed() -> None:
    text = """
for i in range(4):
    with T.block("outer"):
        v = T.axis.spatial(4, i)
        for j in range(4):
            with T.block("inner"):
                w = T.axis.spatial(16, v * 4 + j)
                A[w, 0] = A[w, 1]
"""
    found = blocks_of(func(text))
    assert [str(r) for r in found["outer"].reads] == ["A[v * 4:v * 4 + 4, 1]"]
    assert [str(w) for w in found["outer"].writes] == ["A[v * 4:v * 4 + 4, 0]"]


# ---------------------------------------------------------------------------- expressions


def value(text: str) -> Any:
    read = body(f"T.evaluate({text})", params='A: T.Buffer((16, 16), "float32"), n: T.int32, m: T.int64, b: T.bool')
    assert isinstance(read, ir.Evaluate)
    return read.value


def test_arithmetic_folds_and_comparison_does_not() -> None:
    assert isinstance(value("n + 0"), ir.Var)
    assert isinstance(value("T.Add(n, 0)"), ir.Add)
    assert str(value("T.LT(1, 2)")) == "T.LT(1, 2)"
    assert isinstance(value("b and b"), ir.And)
    assert type(value("T.bool(True) and b")) is ir.And
    assert value("2 + 3 * 4").value == 14
    assert value("-n").b.value == -1


def test_numbers_take_the_type_of_the_other_side() -> None:
    assert value("m < 3").b.dtype == "int64"
    assert value("m + 3").b.dtype == "int64"
    assert value("A[0, 0] < 3").b.dtype == "float32"
    assert value("m + n").b.dtype == "int64" and isinstance(value("m + n").b, ir.Cast)
    assert value("A[0, 0:4] < 3").b.lanes == 4


def test_slices_are_vectors_or_regions() -> None:
    load = value("A[0, 2:6]")
    assert isinstance(load, ir.BufferLoad) and isinstance(load.indices[1], ir.Ramp) and load.dtype == "float32x4"
    assert isinstance(value("A[n, n:n + 1]"), ir.BufferLoad)
    assert value("A[n, n:n + 1]").dtype == "float32"
    strided = value("A[0, 0:8:2]")
    assert strided.indices[1].stride.value == 2 and strided.indices[1].lanes == 4
    assert value("A[0, n * 4:n * 4 + 4]").indices[1].lanes == 4
    assert isinstance(value("T.exp(A[0, 0:4])"), ir.Call)
    assert value("T.exp(A[0, 0:4])").dtype == "float32x4"


def test_texts_as_arguments() -> None:
    call = value('T.call_extern("int32", "f", "text")')
    assert isinstance(call.args[1], ir.StringImm) and call.args[1].value == "text"


def test_extra_names() -> None:
    text = "@X.prim_func\ndef main(A: X.Buffer((SIZE,), DTYPE)):\n    for i in range(SIZE):\n        A[i] = scale(i)\n"
    read = from_source(text, {"X": T, "SIZE": 12, "DTYPE": "int32", "scale": lambda i: i * 3})
    assert int(read.body.extent) == 12 and isinstance(read.body.body.value, ir.Mul)
    with pytest.raises(DiagnosticError, match="`X`"):
        from_source(text)


def test_an_error_of_a_given_function_is_told() -> None:
    def broken(i: Any) -> Any:
        raise RuntimeError("out of luck")

    with refuses("script.python_error", error=DiagnosticError) as caught:
        func_text = "@T.prim_func\ndef main(A: T.Buffer((4,), 'int32')):\n    A[0] = broken(1)\n"
        from_source(func_text, {"broken": broken})
    assert isinstance(caught.value.__cause__, RuntimeError) and caught.value.line == 3


def test_imports_of_the_names_that_scripts_have() -> None:
    for package in ("tvm.script", "tvmagic.script"):
        read = from_source(
            f"from {package} import ir as I\nfrom {package} import tir as TT\n\n@TT.prim_func\ndef f(n: TT.int32):\n    TT.evaluate(n)\n"
        )
        assert isinstance(read, ir.PrimFunc)


def test_every_name_in_use_is_there() -> None:
    names = """block Buffer grid match_buffer handle prim_func axis.remap int64 reads writes alloc_buffer serial float32
    int32 axis.spatial evaluate axis.S init thread_binding func_attr decl_buffer floordiv Cast if_then_else where cast
    launch_thread max floormod allocate tvm_struct_get Select block_attr bool attr int8 vscale axis.reduce ramp min
    axis.R call_extern vectorized Ramp Broadcast env_thread uint32 ret uint8 float16 assume likely broadcast floor
    LetStmt type_annotation tvm_access_ptr unroll parallel min_value axis.opaque meta_var realize allocate_const uint64
    tvm_load_matrix_sync Mul ceildiv tvm_tuple exp address_of iter_var tvm_struct_set call_llvm_pure_intrin
    get_active_lane_mask sqrt reinterpret isnullptr tvm_store_matrix_sync target Range shift_left comm_reducer Div
    uint16 tvm_thread_allreduce tvm_stack_make_shape tvm_stack_make_array shift_right erf tvm_throw_last_error truncdiv
    q_multiply_shift rsqrt log2 bitwise_and max_value Call truncmod tvm_stack_alloca tvm_call_packed_lowered round
    q_multiply_shift_per_axis float64 ceil bitwise_or tvm_storage_sync tvm_call_packed tvm_call_cpacked macro StringImm
    Let Add Sub Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Not Shuffle index_map reduce axis.scan If Then
    Else While Assert prefetch arg func_name func_ret buffer_store int32x4 float32x16 uint8x64 int8x48""".split()
    for name in names:
        found: Any = T
        for part in name.split("."):
            found = getattr(found, part)
    with pytest.raises(AttributeError):
        T.no_such_name
    assert tvmagic.script.from_source is from_source


@pytest.mark.parametrize(
    "text",
    [
        'tvm_storage_sync("shared")',
        "tvm_throw_last_error()",
        "tvm_tuple(n, 1)",
        'tvm_stack_alloca("array", 1)',
        "tvm_thread_allreduce(T.uint32(1), n)",
        "TVMBackendFreeWorkspace(1, 0, A.data)",
        "TVMBackendAllocWorkspace(1, 0, T.uint64(8), 2, 32)",
        'lookup_param("p")',
        "vscale()",
        "undef()",
        'get_active_lane_mask("boolx4", n, 16)',
        "bitwise_xor(n, 3)",
        "bitwise_not(n)",
        "clz(n)",
        "popcount(n)",
        'call_llvm_pure_intrin("float32", "llvm.sqrt.f32", A[0, 0])',
        'call_intrin("float32", "tir.exp", A[0, 0])',
        "fma(A[0, 0], A[0, 0], A[0, 0])",
        "nextafter(A[0, 0], A[0, 0])",
        "atan2(A[0, 0], A[0, 0])",
        "abs(n)",
        'large_uint_imm("uint64", T.uint32(1), T.uint32(2))',
        "dp4a(T.int8x4(1), T.int8x4(2))",
        "isnan(A[0, 0])",
        "log1p(A[0, 0])",
        "sinh(A[0, 0])",
        "acosh(A[0, 0])",
        "ldexp(A[0, 0], n)",
        "hypot(A[0, 0], A[0, 0])",
        'vectorlow("float32x2", A[0, 0:4])',
        "min(A[0, 0:4], 1.0)",
        'infinity("float32")',
        'min_value("int8")',
    ],
)
def test_operators_build_expressions(text: str) -> None:
    params = 'A: T.Buffer((16, 16), "float32"), n: T.int32, m: T.int64, b: T.bool'
    read = func(f"T.evaluate(T.{text})", params=params)
    assert isinstance(read.body, ir.Evaluate) and isinstance(read.body.value, tvmagic.ir.PrimExpr)
    assert ir.structural_equal(from_source(read.script()), read)


def test_a_long_sum_and_many_statements() -> None:
    loop = body("A[0, 0] = " + " + ".join(["A[0, 1]"] * 1000))
    assert isinstance(loop, ir.BufferStore)
    many = body("A[0, 0] = 1.0\n" * 5000)
    assert len(many) == 5000


@pytest.mark.parametrize("opening,closing", [("n - (", ")"), ("T.max(n, n + ", ")"), ("T.max(n + ", ", n)")])
def test_deep_expressions(opening: str, closing: str) -> None:
    deep = value(opening * 1000 + "n" + closing * 1000)
    depth = 0
    while not isinstance(deep, ir.Var):
        children = [deep.a, deep.b]
        deep = next((c for c in children if not isinstance(c, ir.Var)), children[0])
        depth += 1
    assert depth >= 1000


def test_places_in_deep_expressions() -> None:
    text = "@T.prim_func\ndef main(n: T.int32):\n    T.evaluate(" + "n - (" * 500 + "wrong" + ")" * 501 + "\n"
    with refuses("script.undefined_name", error=DiagnosticError) as caught:
        from_source(text)
    assert (caught.value.line, caught.value.column) == (3, 16 + 5 * 500)


def test_broadcast_is_a_node() -> None:
    assert isinstance(value("T.Broadcast(n, 4)"), ir.Broadcast)
    assert isinstance(value("T.Broadcast(value=n, lanes=4)"), ir.Broadcast)
    with refuses("expression.wrong_broadcast", error=DiagnosticError):
        value("T.Broadcast(n, 1)")


def test_live_use_outside_a_builder() -> None:
    for call in (lambda: T.grid(4), lambda: T.evaluate(1), lambda: T.reads()):
        with pytest.raises(TVMagicError, match="`IRBuilder`"):
            call()
    assert isinstance(T.Buffer((4,), "int8"), ir.Buffer)
    assert T.float32(1.5).value == 1.5 and T.handle().dtype == "handle"


def test_objects_without_a_text_of_their_own() -> None:
    """`show_meta` prints them as JSON before the function, and that is read back."""
    inner = func("T.evaluate(n)", params="n: T.int32")
    outer = func("T.evaluate(n)", params="n: T.int32").with_attr("intrin", tvmagic.ir.TensorIntrin(inner, inner))
    text = outer.script(show_meta=True)
    assert text.startswith("metadata = ")
    assert ir.structural_equal(from_source(text), outer)
    with pytest.raises(DiagnosticError) as caught:
        from_source('metadata = tvm.ir.load_json("[1, 2")\n' + HEADER.sub("", text.split("\n", 1)[1]))
    assert caught.value.line == 1


def test_targets() -> None:
    read = func('T.func_attr({"target": T.target("llvm")})\nT.evaluate(0)')
    assert ir.structural_equal(from_source(read.script()), read)


def test_an_error_in_a_long_line_shows_a_part_of_it() -> None:
    text = "@T.prim_func\ndef main(n: T.int32):\n    T.evaluate(" + "n + " * 200 + "wrong" + " + n" * 200 + ")\n"
    with pytest.raises(DiagnosticError) as caught:
        from_source(text)
    shown, caret = str(caught.value).split("\n")[2:4]
    assert len(shown) < 200
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "wrong"
