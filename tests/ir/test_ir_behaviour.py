"""What programs written for TVM 0.19 expect of the program as data: expressions, buffers, functions, equality, errors."""

import pickle

import numpy as np
import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import arith, ir, te, tir
from tvmagic.script import ir as I
from tvmagic.script import tir as T

x, y, z = (tir.Var(n, "int32") for n in "xyz")


# ---------------------------------------------------------------------------- expressions and types


def test_a_python_float_outside_of_float32_is_float64() -> None:
    assert [tir.const(v).dtype for v in (7e39, -7e39, 2.5, 3.4e38, float("inf"))] == [
        "float64",
        "float64",
        "float32",
        "float32",
        "float32",
    ]
    assert (tir.const(1 << 31).dtype, tir.const(-(1 << 31)).dtype) == ("int64", "int32")


@pytest.mark.parametrize(
    "value, dtype",
    [
        (70000.0, "float16"),
        (-65505.0, "float16"),
        (7e39, "float32"),
        (-7e39, "float32"),
        (3.4e38 * 1.01, "bfloat16"),
        (500.0, "e4m3_float8"),
        (60000.0, "e5m2_float8"),
        (-1, "uint64"),
        (1 << 64, "uint64"),
        (256, "uint8"),
    ],
)
def test_a_literal_outside_of_its_type_is_refused(value: float, dtype: str) -> None:
    with pytest.raises(tvm.TVMError):
        tir.const(value, dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_infinity_and_nan_are_literals_of_every_float(dtype: str) -> None:
    assert tir.const(float("inf"), dtype).value == float("inf")
    assert tir.const(float("-inf"), dtype).value == float("-inf")
    assert np.isnan(tir.const(float("nan"), dtype).value)


def test_a_float_literal_has_a_float_type() -> None:
    for dtype in ("int32", "uint8", "bool", "handle"):
        with pytest.raises(tvm.TVMError):
            tir.FloatImm(dtype, 1.0)
    assert tir.FloatImm("bfloat16", 1.0).dtype == "bfloat16"


def test_unsigned_constants_fold_as_unsigned() -> None:
    a, b = tir.const(255, "uint8"), tir.const(2, "uint8")
    with pytest.raises(tvm.TVMError):
        b - a
    assert str(a - b) == "T.uint8(253)"
    assert (str(a + b), str(a * b)) == ("T.uint8(1)", "T.uint8(254)")
    for divide in (tir.floordiv, tir.truncdiv, tir.floormod, tir.truncmod):
        with pytest.raises(tvm.TVMError):
            divide(a, tir.const(0, "uint8"))
    assert isinstance(tir.floormod(a, b), tir.FloorMod) and isinstance(tir.truncmod(a, b), tir.Mod)


def test_float_constants_fold_in_their_precision() -> None:
    big, small = tir.const(2e30, "float32"), tir.const(2e-30, "float32")
    for value in (big / small, big * big):
        assert isinstance(value, tir.FloatImm) and value.value == float("inf")
    assert (tir.const(0.1, "float32") + tir.const(0.2, "float32")).value == float(np.float32(0.1) + np.float32(0.2))
    infinity = tir.infinity("float32")
    assert np.isnan((infinity - infinity).value)
    assert (infinity * tir.const(-1.0)).value == float("-inf")
    with pytest.raises(tvm.TVMError):
        tir.const(1.0) / tir.const(0.0)


def test_isnan_of_other_types() -> None:
    assert str(tir.isnan(tir.Var("h", "float16"))) == 'T.isnan(T.Cast("float32", h))'
    assert tir.isnan(tir.Var("k", "int8x2")).dtype == "uint1x2"
    assert tir.isnan(tir.Var("k", "int8x2")).dtype == "boolx2"
    assert tir.isnan(tir.Var("k", "int8")).value == 0
    assert tir.isnan(tir.Var("f", "float32x4")).dtype == "uint1x4"
    assert tir.isnan(tir.Var("f", "float16x4")).dtype == "boolx4"


def test_bit_operators_take_integers() -> None:
    f = tir.const(1.5, "float32")
    with refuses("expression.not_on_float"):
        ~f
    for call in (lambda: f << 2.0, lambda: f >> 1, lambda: 1 << f, lambda: f & 1, lambda: x | 1.5, lambda: f ^ f):
        with pytest.raises(tvm.TVMError):
            call()


def test_a_vector_beside_a_number_keeps_its_type() -> None:
    v, c = tir.Var("v", "int16x4"), tir.const(1, "int8x2")
    assert (c >> 1).dtype == "int8x2" and (c << 1).dtype == "int8x2"
    assert [e.dtype for e in (v & 3, v | 3, v ^ 3, v << 3, v >> 3, 3 & v, 1 << v)] == ["int16x4"] * 7
    assert (tir.Var("w", "uint8x4") & 1).dtype == "uint8x4"
    assert (v + 1).dtype == "int32x4", "of other operators the number is an int32, as in TVM"


def test_lanes_are_expressions() -> None:
    ramp = tir.Ramp(0, 1, tir.IntImm("int64", 6))
    assert isinstance(ramp.lanes, tir.IntImm) and ramp.lanes.dtype == "int32" and ramp.lanes == 6
    broadcast = tir.Broadcast(x, 6)
    assert broadcast.lanes == 6 and isinstance(broadcast.lanes, tir.IntImm)
    assert int(broadcast.lanes) == 6 and list(range(broadcast.lanes)) == [0, 1, 2, 3, 4, 5]


def test_strings_cannot_be_cast() -> None:
    with pytest.raises(tvm.TVMError):
        tir.StringImm("s").astype("int32")


def test_comparison_with_none() -> None:
    for value in (tir.IntImm("int8", 3), x, tir.const(1.5)):
        with pytest.raises(ValueError):
            value != None  # noqa: E711
        with pytest.raises(ValueError):
            value == None  # noqa: E711
    assert tir.StringImm("q") != None  # noqa: E711
    assert not (tir.StringImm("q") == None)  # noqa: E711


def test_all_and_any_take_booleans() -> None:
    for combine in (tir.all, tir.any):
        with pytest.raises(ValueError):
            combine()
        with pytest.raises(tvm.TVMError):
            combine(tir.const(1, "uint1"), tir.Var("i", "int32"))
        with pytest.raises(tvm.TVMError):
            combine(tir.Var("i", "int32"), tir.const(0, "uint1"))
    assert tir.all(x < y, tir.const(1, "uint1")).same_as(tir.all(x < y, tir.const(1, "uint1"))) is False


@pytest.mark.parametrize(
    "name, dtype", [(3, "int32"), ("a", "int33x"), ("a", "x"), ("a", 3), (None, "int32"), ("a", "")]
)
def test_a_variable_has_a_name_and_a_type(name: object, dtype: object) -> None:
    if dtype == "":
        pytest.skip("the empty text is the type void")
    with pytest.raises(tvm.TVMError):
        tir.Var(name, dtype)  # type: ignore[arg-type]


def test_a_reduction_without_a_combiner_can_be_built() -> None:
    k = te.reduce_axis((0, 4), "k")
    node = tir.Reduce(None, [tir.const(1.0)], [k], tir.const(True), 0)
    assert node.combiner is None
    copy = tir.Reduce(None, [tir.const(1.0)], [k], tir.const(True), 0)
    assert ir.structural_equal(node, copy)
    with pytest.raises(tvm.TVMError):
        te.create_schedule(te.compute((4,), lambda i: node).op)


@pytest.mark.parametrize(
    "var, value", [("float16", "float32"), ("float32", "float16"), ("int16", "uint16"), ("int32", "float32")]
)
def test_a_let_has_one_type(var: str, value: str) -> None:
    v = tir.Var("v", var)
    with pytest.raises(tvm.TVMError):
        tir.Let(v, tir.Var("w", value), v)
    assert tir.Let(v, tir.Var("w", var), v).dtype == var


def test_clz_gives_int32() -> None:
    for dtype in ("int64", "int32", "uint8"):
        assert tir.clz(tir.Var("q", dtype)).dtype == "int32"


def test_a_remainder_of_constants_is_printed_as_a_call() -> None:
    a, b = T.int64(7), T.int64(2)
    assert str(tir.Mod(a, b)) == "T.truncmod(T.int64(7), T.int64(2))"
    assert str(tir.Div(a, b)) == "T.Div(T.int64(7), T.int64(2))"
    assert str(tir.FloorMod(a, b)) == "T.FloorMod(T.int64(7), T.int64(2))"
    assert str(tir.Mod(x, y)) == "T.truncmod(x, y)"


def test_any_is_the_unknown_dimension() -> None:
    size = tir.Any()
    assert isinstance(size, tir.PrimExpr) and size.dtype == "int32" and str(size) == "T.Any()"
    assert str(T.Any()) == "T.Any()"
    assert not ir.structural_equal(size, tir.Any())
    assert not arith.Analyzer().can_prove_equal(size, tir.Any())
    difference = arith.Analyzer().simplify(tir.Any() - tir.Any())
    assert isinstance(difference, tir.Sub)


def test_no_module_has_names_of_typing() -> None:
    import types
    import typing

    from tvmagic import runtime, transform

    modules: list[types.ModuleType] = [tvm, tir, te, ir, arith, tir.transform, tir.schedule, tir.analysis, runtime]
    for module in [*modules, transform, tir.stmt_functor, T, I]:
        for name in dir(module):
            if not name.startswith("_") and hasattr(typing, name):
                assert getattr(module, name) is not getattr(typing, name), f"{module.__name__}.{name}"


def test_float8() -> None:
    for dtype, largest in (("e4m3_float8", 448.0), ("e5m2_float8", 57344.0)):
        assert tir.max_value(dtype).value == largest and tir.min_value(dtype).value == -largest
        assert tvm.DataType(dtype).bits == 8
        v = tir.Var("v", dtype)
        assert (v + tir.Var("i", "int32")).dtype == dtype
        assert v.astype("float32").dtype == "float32" and tir.Cast(dtype, tir.Var("f", "float32")).dtype == dtype
        assert tir.Var("w", f"{dtype}x4").dtype.lanes == 4
        assert tir.decl_buffer((4,), dtype).dtype == dtype

    @T.prim_func
    def f(A: T.Buffer((4,), "e4m3_float8"), v: T.e5m2_float8) -> None:
        T.evaluate(T.e5m2_float8(1.5))
        A[0] = T.e4m3_float8(2.0)

    text = f.script()
    assert "T.evaluate(T.e5m2_float8(1.5))" in text
    ir.assert_structural_equal(tvm.script.from_source(text), f)


def test_sequences_flatten_when_they_are_made() -> None:
    nop, four, five = tir.Evaluate(0), tir.Evaluate(4), tir.Evaluate(5)
    assert len(tir.SeqStmt([tir.SeqStmt([nop, four]), five])) == 2
    assert len(tir.SeqStmt([nop, four])) == 2
    assert len(tir.SeqStmt([tir.SeqStmt([four, tir.SeqStmt([five, nop])]), nop, five])) == 3


# ---------------------------------------------------------------------------- buffers


def test_axis_separators_are_checked() -> None:
    for shape, separators in (([4], [1, 2]), ([4, 4, 4], [2, 1]), ([4], [-1])):
        with pytest.raises(ValueError):
            tir.decl_buffer(shape, axis_separators=separators)
    for shape, separators in (([4], [1]), ([4, 4, 4], [1, 2]), ([4, 4], [0, 2]), ([4, 4], [1, 1])):
        assert [int(s) for s in tir.decl_buffer(shape, axis_separators=separators).axis_separators] == separators


def test_offsets_of_elements_are_simplified() -> None:
    a, b, n, m = te.size_var("a"), te.size_var("b"), te.size_var("n"), te.size_var("m")
    assert [str(e) for e in tir.decl_buffer((a, b), elem_offset=9).offset_of([3, 2])] == ["b * 3 + 11"]
    assert [str(e) for e in tir.decl_buffer((4, b)).offset_of([x // b, x % b])] == ["x"]
    assert ir.structural_equal(tir.decl_buffer((n, m)).offset_of([te.indexdiv(x, m), te.indexmod(x, m)])[0], x)


def test_new_definitions_renew_sizes_of_buffers() -> None:
    @T.prim_func
    def f(p: T.handle) -> None:
        n = T.int32()
        A = T.match_buffer(p, (n, 8))
        for i in range(n):
            with T.block("b"):
                vi = T.axis.spatial(n, i)
                s = T.int32()
                B = T.match_buffer(A[vi, 0:8], (8,), strides=[s], offset_factor=1)
                B[0] = 1.0

    new = tir.stmt_functor.renew_defs(f)
    ir.assert_structural_equal(new, f)
    old_buffer, new_buffer = f.buffer_map[f.params[0]], new.buffer_map[new.params[0]]
    assert not new_buffer.shape[0].same_as(old_buffer.shape[0])

    def matched(func: tir.PrimFunc) -> tir.Buffer:
        found = []
        tir.stmt_functor.post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, tir.Block) else None)
        return found[0].match_buffers[0].buffer

    assert not matched(new).strides[0].same_as(matched(f).strides[0])
    assert not matched(new).elem_offset.same_as(matched(f).elem_offset)


def test_specializing_nothing_gives_the_same_object() -> None:
    @T.prim_func
    def f(a: T.int32) -> None:
        T.evaluate(a)

    assert f.specialize({}).same_as(f)


# ---------------------------------------------------------------------------- functions, modules, operators


def test_functions_and_modules_have_names() -> None:
    @T.prim_func
    def kern() -> None:
        T.evaluate(0)

    @I.ir_module
    class Both:
        @T.prim_func
        def one() -> None:
            T.evaluate(0)

    assert kern.__name__ == "kern" and Both.__name__ == "Both" and Both["one"].__name__ == "one"
    assert tir.PrimFunc([], tir.Evaluate(0)).with_attr("global_symbol", "other").__name__ == "other"
    assert not hasattr(tir.PrimFunc([], tir.Evaluate(0)), "__name__")


def test_same_as_is_identity() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                A[vi] = 1.0

    sch = tir.Schedule(f)
    b = sch.get_block("b")
    assert sch.get_sref(b).same_as(sch.get_sref(b))
    assert not sch.copy().get_sref(b).same_as(sch.get_sref(b))
    assert sch.get_sref(sch.get_loops(b)[0]).same_as(sch.get_sref(sch.get_loops(b)[0]))
    kind = tir.schedule.InstructionKind.get("GetBlock")
    assert kind.same_as(tir.schedule.InstructionKind.get("GetBlock"))
    assert sch.trace.same_as(sch.trace) and sch.trace.insts[0].same_as(sch.trace.insts[0])
    assert sch.trace.insts[0].kind.same_as(kind)
    assert sch.mod.same_as(sch.mod) and ir.PrimType("int32").same_as(ir.PrimType("int32")) is False
    array = tvm.nd.array(np.arange(3))
    assert tvm.runtime.convert([array, array])[1].same_as(array)
    assert sch.state.same_as(sch.state) and b.same_as(b)


def test_new_operators() -> None:
    ir.register_op_attr("tir.shade", "TCallEffectKind", tir.CallEffectKind.Pure)
    call = tir.call_intrin("float32", "tir.shade", tir.Var("a", "float32"))
    assert call.op.same_as(ir.Op.get("tir.shade"))

    @T.prim_func
    def f(A: T.Buffer((4,), "float32")) -> None:
        A[0] = T.Call("float32", "tir.shade", [A[1]])

    ir.assert_structural_equal(tvm.script.from_source(f.script()), f)
    ir.register_intrin_lowering("tir.shade", target="llvm", f=lambda op: op.args[0] * T.float32(2))
    run = tvm.build(f)
    data = np.arange(4, dtype="float32")
    run(data)
    assert data[0] == 2.0
    ir.register_op_attr("tir.bare_operator", "")

    @T.prim_func
    def g(A: T.Buffer((4,), "float32")) -> None:
        A[0] = T.bare_operator(A[1])
        T.evaluate(T.bare_operator(A[0], 3, dtype="int32"))

    for name in ("", "bare_operator"):
        if name:
            ir.register_op_attr("tir.bare_operator", "TScriptPrinterName", name)
        ir.assert_structural_equal(tvm.script.from_source(g.script()), g)
    assert "A[0] = T.bare_operator(A[1])" in g.script()
    assert ir.Op.get("tir.bare_operator").same_as(ir.Op.get("tir.bare_operator"))


def test_effects_of_calls_are_public() -> None:
    kinds = tir.CallEffectKind
    assert (kinds.ExprAnnotation, kinds.Pure, kinds.ReadState, kinds.UpdateState, kinds.Opaque) == (0, 1, 2, 3, 3)


def test_extern_primfunc_updates_buffers_in_place() -> None:
    @T.prim_func
    def f(A: T.Buffer((16,), "float32"), C: T.Buffer((1,), "float32")) -> None:
        for i in range(16):
            C[0] = C[0] + A[i]
            A[i] = A[i] * T.float32(2)

    a = te.placeholder((16,), name="A")
    out = te.extern_primfunc([a], f)
    op = out.op
    assert isinstance(op, te.ExternOp) and [t.shape[0].value for t in op.inputs] == [16]
    assert [s.value for s in out.shape] == [1]
    made = tvm.lower(te.create_prim_func([a, out]))["main"]
    ir.assert_structural_equal(made.body, tvm.lower(f)["main"].body, map_free_vars=True)


# ---------------------------------------------------------------------------- equality, hashing, JSON


def test_sequences_of_all_kinds_are_equal() -> None:
    assert ir.structural_equal((x, y), [x, y]) and ir.structural_equal([(x,), y], ([x], y))
    assert ir.structural_hash((x, y)) == ir.structural_hash([x, y])
    assert not ir.structural_equal((x, y), [x])
    ir.assert_structural_equal({"a": [1, 2]}, {"a": (1, 2)})
    assert ir.structural_equal(tvm.runtime.convert([x, y]), [x, y])


def test_iteration_variables_define_their_variables() -> None:
    one, two = tir.IterVar((0, 10), te.var("i"), 0), tir.IterVar((0, 10), te.var("j"), 0)
    assert ir.structural_equal(one, two) and ir.structural_hash(one) == ir.structural_hash(two)
    assert not ir.structural_equal(one, tir.IterVar((0, 11), te.var("i"), 0))


def test_arrays_are_equal_by_their_contents() -> None:
    one, two = tvm.nd.array(np.arange(4)), tvm.nd.array(np.arange(4))
    assert ir.structural_equal(one, two) and ir.structural_hash(one) == ir.structural_hash(two)
    assert not ir.structural_equal(one, tvm.nd.array(np.arange(4).reshape(2, 2)))
    assert not ir.structural_equal(one, tvm.nd.array(np.arange(4).astype("float32")))
    assert not ir.structural_equal(one, tvm.nd.array(np.arange(1, 5)))
    f, g = (tir.PrimFunc([], tir.Evaluate(0)).with_attr("table", array) for array in (one, two))
    assert ir.structural_equal(f, g) and ir.structural_hash(f) == ir.structural_hash(g)


def test_free_variables_have_hashes_of_their_own() -> None:
    a, b = te.var("x"), te.var("x")
    assert ir.structural_hash(a) != ir.structural_hash(b)
    assert ir.structural_hash(a, map_free_vars=True) == ir.structural_hash(b, map_free_vars=True)

    def programs(v: tir.Var) -> list[object]:
        inner = tir.Var("k", "int32")
        return [
            tir.While(v < 3, tir.Evaluate(v)),
            tir.LetStmt(inner, v + 1, tir.Evaluate(inner)),
            v + v * 2,
            tir.For(inner, 0, 4, tir.ForKind.SERIAL, tir.Evaluate(v + inner)),
        ]

    for p, q in zip(programs(a), programs(b)):
        assert not ir.structural_equal(p, q) and ir.structural_hash(p) != ir.structural_hash(q)
        assert ir.structural_equal(p, q, map_free_vars=True)
        assert ir.structural_hash(p, map_free_vars=True) == ir.structural_hash(q, map_free_vars=True)
    for p, q in zip(programs(a), programs(a)):
        assert ir.structural_equal(p, q) and ir.structural_hash(p) == ir.structural_hash(q)


def test_the_first_mismatch_of_maps_of_different_sizes() -> None:
    h, k = tir.Var("h", "handle"), tir.Var("k", "handle")
    p, q = tir.decl_buffer((4,), name="p"), tir.decl_buffer((4,), name="q")
    f0 = tir.PrimFunc([h, k], tir.Evaluate(0), buffer_map={h: p})
    f1 = tir.PrimFunc([h, k], tir.Evaluate(0), buffer_map={h: p, k: q})
    lhs, rhs = ir.base.get_first_structural_mismatch(f0, f1)
    assert (str(lhs), str(rhs)) == ("<root>.buffer_map[<missing entry>]", "<root>.buffer_map[k]")
    lhs, rhs = ir.base.get_first_structural_mismatch(f1, f0)
    assert (str(lhs), str(rhs)) == ("<root>.buffer_map[k]", "<root>.buffer_map[<missing entry>]")


def test_tensors_and_schedules_are_saved() -> None:
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: A[i] * 2, attrs={"note": 3}, tag="doubled", name="C")
    back = ir.load_json(ir.save_json(C))
    assert back.op.attrs["note"] == 3 and back.op.tag == "doubled" and back.op.name == "C"
    assert ir.structural_equal(back.op.body[0], C.op.body[0], map_free_vars=True) or str(back.op.body) == str(C.op.body)
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[0], 2)
    s[C].reorder(xi, xo)
    for copy in (ir.load_json(ir.save_json(s)), pickle.loads(pickle.dumps(s))):
        assert isinstance(copy, te.Schedule) and len(copy.stages) == 2
        assert len(copy.stages[1].relations) == 1 and len(copy.stages[1].leaf_iter_vars) == 2
        tensors = [copy.stages[0].op.output(0), copy.stages[1].op.output(0)]
        ir.assert_structural_equal(tvm.lower(copy, tensors), tvm.lower(s, [A, C]))


# ---------------------------------------------------------------------------- errors


def test_errors_are_runtime_errors() -> None:
    assert issubclass(tvm.TVMError, RuntimeError) and issubclass(tvm.error.InternalError, tvm.TVMError)
    for cls in (tvm.tir.ScheduleError, tvm.error.DiagnosticError, tvm.error.TVMError):
        assert issubclass(cls, tvm.TVMError)


def test_errors_have_the_classes_that_users_ask_for() -> None:
    @T.prim_func
    def outside(A: T.Buffer((4,), "float32"), B: T.Buffer((5,), "float32")) -> None:
        for i in range(5):
            with T.block("b"):
                vi = T.axis.spatial(5, i)
                B[vi] = A[vi]

    for call in (lambda: tir.TensorIntrin.get("not_there"), tvm.script.ir_builder.IRBuilder.current):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(ValueError), te.tag_scope(tag="a"), te.tag_scope(tag="b"):
        pass
    two = ir.IRModule({"one": outside, "two": outside})
    with refuses("get_block.several_functions", error=ValueError):
        tir.Schedule(two).get_block("b")
    sch, other = tir.Schedule(outside), tir.Schedule(outside)
    with pytest.raises(IndexError):
        sch.get(other.get_block("b"))
    block = sch.get_block("b")
    sch.remove_rv(block)
    with pytest.raises(IndexError):
        sch.get(block)
    for place in (("write", 1), ("read", -1)):
        with pytest.raises(AssertionError):
            sch.set_axis_separator("b", place, [1])
        with pytest.raises(tir.ScheduleError):
            sch.set_axis_separator("b", place, [1])
    state = te.placeholder((4, 4))
    init = te.compute((1, 4), lambda _, i: te.const(0.0))
    scan = te.scan(init, te.compute((4, 4), lambda t, i: state[t - 1, i]), state)
    with refuses("create_prim_func.unsupported_operation", error=TypeError):
        te.create_prim_func([scan])
    v = tir.Var("n", "int32")
    loop = tir.For(tir.Var("i", "int32"), 0, v, tir.ForKind.VECTORIZED, tir.Evaluate(0))
    with pytest.raises(tvm.error.InternalError):
        tir.transform.VectorizeLoop()(ir.IRModule.from_expr(tir.PrimFunc([v], loop)))
    for cls in ("WrongValueError", "WrongTypeError", "WrongIndexError", "AssertionFailedError"):
        assert issubclass(getattr(tvm.error, cls), tvm.TVMError)


@T.prim_func
def nest(A: T.Buffer((8, 4), "float32")) -> None:
    for i, k in T.grid(8, 4):
        with T.block("b"):
            vi, vk = T.axis.remap("SS", [i, k])
            A[vi, vk] = 1.0


def test_levels_of_errors() -> None:
    texts = {}
    for level in ("detail", "fast", "none"):
        sch = tir.Schedule(nest, error_render_level=level)
        with pytest.raises(tir.ScheduleError) as error:
            sch.get_block("zz")
        (texts[level],) = error.value.args
        assert texts[level] == str(error.value)
        with pytest.raises(tir.ScheduleError) as error:
            sch.fuse(*reversed(sch.get_loops("b")))
        assert ("for i in range(8):" in str(error.value)) == (level == "detail")
    assert "Cannot find a block with the name: zz" in texts["detail"]
    assert "Cannot find a block with the specified name" in texts["fast"] and "zz" not in texts["fast"]
    assert texts["none"] == "(not rendered)"
    with pytest.raises(AttributeError):
        tir.Schedule(nest).not_there


def test_places_of_an_error_are_numbered() -> None:
    sch = tir.Schedule(nest)
    i, k = sch.get_loops(sch.get_block("b"))
    with pytest.raises(tir.ScheduleError) as error:
        sch.fuse(k, i)
    lines = str(error.value).splitlines()
    for label, loop in (("# tir.For#1", "for i in range(8):"), ("# tir.For#0", "for k in range(4):")):
        at = next(n for n, line in enumerate(lines) if line.strip() == label)
        assert lines[at + 1].strip() == loop
        assert lines[at + 2] == " " * lines[at].index("#") + "^" * len(loop)
    with refuses("schedule.output_block", error=tir.ScheduleError):
        sch.compute_inline("b")


def test_a_bound_buffer_is_defined_below_it() -> None:
    @T.prim_func
    def f(A: T.Buffer((256, 256), "float32")) -> None:
        for ti, tj in T.grid(16, 16):
            offset = T.int32()
            B = T.Buffer((16, 16), "float32", elem_offset=offset)
            T.attr([B, A], "buffer_bind_scope", T.tvm_tuple(ti * 16, 16, tj * 16, 16))
            for i, j in T.grid(16, 16):
                B[i, j] = T.Cast("float32", offset)

    assert tir.analysis.verify_well_formed(f)
    ir.assert_structural_equal(tvm.script.from_source(f.script()), f)


def test_slices_of_a_buffer() -> None:
    i = tir.Var("i", "int32")
    buffer = tir.decl_buffer((16, 16), name="A")
    region = buffer[i : i + 4, 3:]
    assert isinstance(region, tir.BufferRegion) and [str(r.extent) for r in region.region] == ["4", "13"]
    load = buffer[
        i : i + 1, i * 2 : i * 2 + 8 : 2
    ]  # one slice with a step: a load, of a scalar index if it is one element
    assert isinstance(load, tir.BufferLoad) and load.indices[0] is i and load.dtype == "float32x4"
