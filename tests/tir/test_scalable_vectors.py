"""Scalable vectors: types, nodes, text, proofs, schedules, passes and machine code."""

import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import arith, codegen, ir, tir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import DefectError, InternalError, ScheduleError, TVMagicError
from tvmagic.script import tir as T

SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+sve"
vs = tir.vscale()
x, y = tir.Var("x"), tir.Var("y")
FOUR = vs * 4


def simplified(e):
    return str(arith.Analyzer().rewrite_simplify(e))


# ---------------------------------------------------------------------------- nodes and types


@pytest.mark.parametrize("lanes", [vs * 6, 6 * vs, tir.Mul(6, vs)])
def test_lanes_are_kept_as_vscale_times_a_constant(lanes):
    ramp, broadcast = tir.Ramp(x, 1, lanes), tir.Broadcast(x, lanes)
    assert str(ramp) == "T.Ramp(x, 1, T.vscale() * 6)"
    assert str(broadcast) == "T.Broadcast(x, T.vscale() * 6)"
    assert ramp.dtype == broadcast.dtype == "int32xvscalex6"
    ir.assert_structural_equal(ramp.lanes, vs * 6)


@pytest.mark.parametrize("lanes", [vs, vs + 3, vs * 2 + 5, vs * x, x])
@pytest.mark.parametrize("make", [lambda n: tir.Ramp(x, 1, n), lambda n: tir.Broadcast(x, n)])
def test_other_lanes_are_refused(lanes, make):
    with refuses("expression.wrong_scalable_lanes"):
        make(lanes)


def test_the_lanes_of_fixed_vectors_are_int32_expressions():
    ramp = tir.Ramp(0, 1, tir.IntImm("int64", 6))
    assert ramp.lanes.dtype == "int32" and ramp.lanes == 6 and int(ramp.lanes) == 6
    assert tir.Broadcast(x, 6).lanes == 6


def test_the_type_of_a_scalable_vector():
    dtype = ir.DataType("float32xvscalex4")
    assert dtype == "float32xvscalex4" and dtype != "float32xvscalex8" and dtype.element_of == "float32"
    assert dtype.is_vector and dtype.is_scalable and not dtype.is_scalar and dtype.vscale_factor == 4
    assert ir.DataType("boolxvscalex4") == ir.DataType("uint1xvscalex4")
    with refuses("dtype.scalable_lanes"):
        _ = dtype.lanes


def test_casts_to_scalable_types():
    assert str(tir.Broadcast(1, vs * 6).astype("float32xvscalex6")) == "T.Broadcast(T.float32(1.0), T.vscale() * 6)"
    cast = tir.Ramp(x, 1, FOUR).astype("float32xvscalex4")
    assert str(cast) == 'T.Cast("float32xvscalex4", T.Ramp(x, 1, T.vscale() * 4))'
    assert str(x.astype("float32xvscalex4")) == 'T.Broadcast(T.Cast("float32", x), T.vscale() * 4)'
    with refuses("expression.lanes_differ"):
        tir.Ramp(x, 1, FOUR).astype("float32xvscalex8")


def test_a_scalar_is_broadcast_beside_a_scalable_vector():
    ramp = tir.Ramp(x, 1, FOUR)
    assert str(ramp + 7) == "T.Ramp(x, 1, T.vscale() * 4) + T.Broadcast(7, T.vscale() * 4)"
    condition = ramp < 7
    assert condition.dtype == "uint1xvscalex4"
    assert tir.And(condition, tir.Not(condition)).dtype == "uint1xvscalex4"
    assert tir.Select(condition, ramp, ramp + 1).dtype == "int32xvscalex4"


@pytest.mark.parametrize(
    ("lanes", "code"),
    [
        (4, "expression.scalable_and_fixed"),
        (vs * 8, "expression.lanes_differ"),
    ],
)
def test_vectors_of_different_lengths_do_not_mix(lanes, code):
    with refuses(code):
        tir.Ramp(x, 1, FOUR) + tir.Ramp(x, 1, lanes)


# ---------------------------------------------------------------------------- accesses


def test_loads_and_stores_have_the_lanes_of_the_index_times_those_of_the_element():
    plain, pairs = tir.decl_buffer((64,), "float32"), tir.decl_buffer((64,), "float32x2")
    scalable = tir.decl_buffer((64,), "float32xvscalex4")
    assert tir.BufferLoad(plain, [tir.Ramp(1, 1, vs * 8)]).dtype == "float32xvscalex8"
    assert tir.BufferLoad(pairs, [tir.Ramp(1, 1, vs * 8)]).dtype == "float32xvscalex16"
    assert tir.BufferLoad(scalable, [3]).dtype == "float32xvscalex4"
    with refuses("buffer.scalable_index_and_element"):
        tir.BufferLoad(scalable, [tir.Ramp(1, 1, FOUR)])
    tir.BufferStore(plain, tir.Broadcast(tir.const(1.0), FOUR), [tir.Ramp(0, 1, FOUR)])
    with refuses("buffer.scalable_element_mismatch"):
        tir.BufferStore(plain, tir.Broadcast(tir.const(1.0), 4), [tir.Ramp(0, 1, FOUR)])


def mask(dtype):
    return tir.call_intrin(dtype, "tir.get_active_lane_mask", 0, 13)


@pytest.mark.parametrize(
    ("lanes", "dtype"),
    [(FOUR, "uint1x4"), (4, "uint1x8"), (4, "int32x4")],
)
def test_masks_are_checked(lanes, dtype):
    buffer, index, value = tir.decl_buffer((64,)), tir.Ramp(0, 1, lanes), tir.Broadcast(tir.const(1.0), lanes)
    for access in (
        lambda: tir.BufferLoad(buffer, [index], mask(dtype)),
        lambda: buffer.vload([index], predicate=mask(dtype)),
        lambda: tir.BufferStore(buffer, value, [index], mask(dtype)),
        lambda: buffer.vstore([index], value, predicate=mask(dtype)),
    ):
        with pytest.raises(TVMagicError):
            access()


# ---------------------------------------------------------------------------- text


SCRIPTS = [
    "B[0:T.vscale() * 4] = A[T.Ramp(3, 2, T.vscale() * 4)] + T.Broadcast(T.float32(1.0), T.vscale() * 4)",
    "B[n:n + T.vscale() * 4] = A[T.vscale() * 4:T.vscale() * 4 + T.vscale() * 4]",
    "B[n * 4:n * 4 + T.vscale() * 8] = T.Broadcast(T.float32(2.0), T.vscale() * 8)",
    "T.evaluate(T.Ramp(n, 1, T.vscale() * 2))",
    'T.evaluate(T.Cast("float32xvscalex4", T.Ramp(n, 1, T.vscale() * 4)))',
    "B.vstore([T.Ramp(0, 1, T.vscale() * 4)], A.vload([T.Ramp(0, 1, T.vscale() * 4)], "
    'predicate=T.get_active_lane_mask("uint1xvscalex4", 0, 13)), '
    'predicate=T.get_active_lane_mask("uint1xvscalex4", 0, 13))',
    'p: T.handle("float32xvscalex4", "global") = T.call_extern("handle", "f")\nT.evaluate(p)',
]


@pytest.mark.parametrize("line", SCRIPTS)
def test_scripts_with_scalable_vectors_print_the_same(line):
    body = "\n".join("    " + part for part in line.split("\n"))
    head = "@T.prim_func(private=True)\ndef main(A: T.Buffer((64,)), B: T.Buffer((64,)), n: T.int32):\n"
    function = tvm.script.from_source(head + body)
    text = function.script()
    ir.assert_structural_equal(function, tvm.script.from_source(text))
    for part in line.split("\n"):
        assert part in text


def test_vload_of_a_scalable_type_reads_a_slice():
    buffer = tir.decl_buffer((64,), "float32", name="b")
    assert str(buffer.vload([3], "float32xvscalex4")) == "b[3:3 + T.vscale() * 4]"


# ---------------------------------------------------------------------------- proofs


@pytest.mark.parametrize(
    "target", [SVE, "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v2", "llvm -mtriple=aarch64-linux-gnu -mattr=+v9a"]
)
def test_vscale_is_1_to_16_with_sve(target):
    with tvm.target.Target(target):
        bound = arith.Analyzer().const_int_bound(vs)
    assert (bound.min_value, bound.max_value) == (1, 16)


@pytest.mark.parametrize("target", ["llvm -mtriple=aarch64-linux-gnu", SVE + ",-sve", "llvm -mtriple=x86_64-linux-gnu"])
def test_nothing_is_known_of_vscale_without_sve(target):
    with tvm.target.Target(target):
        assert arith.Analyzer().const_int_bound(vs).max_value > 1 << 30
        assert not arith.Analyzer().can_prove(vs * 8 < vs * 24)


def test_proofs_try_each_value_of_vscale():
    with tvm.target.Target(SVE):
        can_prove = arith.Analyzer().can_prove
        assert can_prove(vs * 8 < vs * 24)
        assert can_prove((vs * 4 + 90) // (vs * 4) * (vs * 4) >= 91)
        assert can_prove(tir.ceildiv(90, FOUR) * FOUR >= 90)
        assert not can_prove(vs < 16) and not can_prove(vs * 8 < vs * 24 - 17)


def test_a_proof_without_the_target_fails_with_a_warning(capsys):
    text = (
        "Warning: The expression contains scalable values. An attempt to prove by substituting with known values of vscale "
        "was not performed. This proof currently only supports AArch64 SVE targets, but the target was "
    )
    with tvm.target.Target("llvm -mtriple=aarch64-linux-gnu"):
        assert not arith.Analyzer().can_prove(vs * 8 < vs * 24)
    assert text + "llvm -keys=arm_cpu,cpu -mtriple=aarch64-linux-gnu\n" in capsys.readouterr().err
    assert not arith.Analyzer().can_prove(vs * 8 < vs * 24)
    assert text + "(nullptr)\n" in capsys.readouterr().err
    assert not arith.Analyzer().can_prove(x * 8 < x * 24)
    assert capsys.readouterr().err == ""


EXTREMES = [
    (tir.min(x + vs * 2, x), "x"),
    (tir.min(x - vs * 2, x), "x + T.vscale() * -2"),
    (tir.max(x + vs * 2, x + vs * 6), "x + T.vscale() * 6"),
    (tir.min(x + vs * 2, x + vs * 6), "x + T.vscale() * 2"),
    (tir.max(x - vs * 2, x), "x"),
    (tir.min(x + vs * 2, y), "T.min(T.vscale() * 2 + x, y)"),
]


@pytest.mark.parametrize(("e", "text"), EXTREMES, ids=str)
def test_extremes_are_decided_for_each_value_of_vscale(e, text):
    with tvm.target.Target(SVE):
        if text.startswith("T.min"):
            assert "T.min" in simplified(e)
        else:
            assert simplified(e) == text


def test_extremes_of_products_with_vscale_use_constraints():
    with tvm.target.Target(SVE):
        analyzer = arith.Analyzer()
        with analyzer.constraint_scope(x < y):
            assert str(analyzer.rewrite_simplify(tir.min(vs * x, vs * y))) == "T.vscale() * x"
            assert str(analyzer.rewrite_simplify(tir.max(vs * x, vs * y))) == "T.vscale() * y"
    assert "T.min" in simplified(tir.min(vs * x, vs * y))


def test_division_by_the_length_of_a_vector():
    with tvm.target.Target(SVE):
        assert simplified((x * vs * 8 + y) // (vs * 8)) == "x + y // (T.vscale() * 8)"
        assert simplified((x * vs * 8 + y) % (vs * 8)) == "y % (T.vscale() * 8)"
        analyzer = arith.Analyzer()
        with analyzer.constraint_scope(tir.all(x >= 0, x < vs * 8)):
            assert str(analyzer.rewrite_simplify(x // (vs * 8))) == "0"
            assert str(analyzer.rewrite_simplify(x % (vs * 8))) == "x"
        assert simplified(x // (vs * 8)) == "x // (T.vscale() * 8)"


VECTORS = [
    (tir.Ramp(x, 1, FOUR) + tir.Ramp(y, 2, FOUR), "T.Ramp(x + y, 3, T.vscale() * 4)"),
    (tir.Broadcast(0, FOUR) + tir.Broadcast(y, FOUR), "T.Broadcast(y, T.vscale() * 4)"),
    (tir.Ramp(x, 6, FOUR) // tir.Broadcast(3, FOUR), "T.Ramp(x // 3, 2, T.vscale() * 4)"),
    (tir.Ramp(x, 6, FOUR) % 3, "T.Broadcast(x % 3, T.vscale() * 4)"),
    (tir.Ramp(x * 8 + 1, 1, FOUR) % 8, "T.Ramp(1, 1, T.vscale() * 4) % T.Broadcast(8, T.vscale() * 4)"),
    (tir.Ramp(x * 8, 1, FOUR) // 4, "T.Ramp(x * 8, 1, T.vscale() * 4) // T.Broadcast(4, T.vscale() * 4)"),
    (tir.Ramp(x * 8, 1, 4) // 4, "T.Broadcast(x * 2, 4)"),
    (tir.truncdiv(tir.Ramp(x, 6, FOUR), tir.Broadcast(3, FOUR)), "T.Ramp(T.Div(x, 3), 2, T.vscale() * 4)"),
    (tir.truncdiv(tir.Ramp(x, 6, 4), tir.Broadcast(3, 4)), "T.Ramp(T.Div(x, 3), 2, 4)"),
    (tir.truncmod(tir.Ramp(x, 6, 4), tir.Broadcast(3, 4)), "T.Broadcast(T.truncmod(x, 3), 4)"),
    (tir.max(tir.Broadcast(x, FOUR), tir.Broadcast(x, FOUR)), "T.Broadcast(x, T.vscale() * 4)"),
]


@pytest.mark.parametrize(("e", "text"), VECTORS, ids=lambda v: None if isinstance(v, str) else str(v))
def test_rules_for_vectors_hold_for_scalable_lanes(e, text):
    assert simplified(e) == text


@pytest.mark.parametrize("operator", [tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod])
@pytest.mark.parametrize("lanes", [4, FOUR], ids=["fixed", "scalable"])
def test_a_vector_of_zeros_divides_nothing(operator, lanes):
    for simplify in (arith.Analyzer().rewrite_simplify, arith.Analyzer().simplify):
        with refuses("analyzer.division_by_zero"):
            simplify(operator(tir.Ramp(1, 1, lanes), tir.Broadcast(0, lanes)))


def test_truncated_quotients_of_vectors_are_split_only_if_all_lanes_have_one_sign():
    ramp = tir.Ramp(x, 6, FOUR)
    quotient, remainder = tir.truncdiv(ramp, tir.Broadcast(3, FOUR)), tir.truncmod(ramp, tir.Broadcast(3, FOUR))
    analyzer = Analyzer()  # what programs are compiled with
    assert str(analyzer.rewrite_simplify(quotient)) == str(quotient)  # -4 and 2 over 3 are -1 and 0, not -1 and 1
    with analyzer.constraint_scope(x >= 0):
        assert str(analyzer.rewrite_simplify(quotient)) == "T.Ramp(T.Div(x, 3), 2, T.vscale() * 4)"
        assert str(analyzer.rewrite_simplify(remainder)) == "T.Broadcast(T.truncmod(x, 3), T.vscale() * 4)"


@pytest.mark.parametrize(("stride", "low", "high"), [(2, "3", "pos_inf"), (-2, "neg_inf", "3")])
def test_the_set_of_a_scalable_ramp_is_open_at_the_far_end(stride, low, high):
    found = arith.IntSet.vector(tir.Ramp(3, stride, FOUR))
    assert (str(found.min_value), str(found.max_value)) == (low, high)


# ---------------------------------------------------------------------------- split


@T.prim_func
def doubled(a: T.Buffer((90,), "float32"), b: T.Buffer((90,), "float32")):
    for i in range(90):
        with T.block("B"):
            v = T.axis.spatial(90, i)
            b[v] = a[v] * T.float32(2)


@T.prim_func
def scalable_loop(b: T.Buffer((90,), "float32")):
    for i in range(T.vscale() * 4):
        with T.block("B"):
            v = T.axis.spatial(T.vscale() * 4, i)
            b[v] = T.float32(2)


def split(function, factors, target=SVE, **options):
    schedule = tir.Schedule(function)
    (loop,) = schedule.get_loops(schedule.get_block("B"))
    with tvm.target.Target(target):
        schedule.split(loop, factors, **options)
    return schedule


@pytest.mark.parametrize("factors", [[tir.ceildiv(90, FOUR), FOUR], [None, FOUR], [None, 4 * vs]], ids=str)
def test_split_takes_multiples_of_vscale(factors):
    schedule = split(doubled, factors)
    text = schedule.mod.script()
    assert "for i_0, i_1 in T.grid((T.vscale() * 4 + 89) // (T.vscale() * 4), T.vscale() * 4):" in text
    assert "v = T.axis.spatial(90, i_0 * (T.vscale() * 4) + i_1)" in text
    assert "T.where(i_0 * (T.vscale() * 4) + i_1 < 90)" in text
    again = tir.Schedule(doubled)
    with tvm.target.Target(SVE):
        schedule.trace.apply_to_schedule(again, remove_postproc=False)
    ir.assert_structural_equal(schedule.mod, again.mod)


def test_a_scalable_split_without_a_predicate():
    schedule = split(doubled, [tir.ceildiv(90, FOUR), FOUR], disable_predication=True)
    assert "T.where" not in schedule.mod.script()


def test_a_scalable_loop_splits_without_a_predicate_where_the_product_is_its_extent():
    text = split(scalable_loop, [vs * 2, 2]).mod.script()
    assert "T.grid(T.vscale() * 2, 2)" in text and "T.where" not in text
    assert "T.where" in split(scalable_loop, [vs * 3, 2]).mod.script()


def test_a_scalable_split_without_the_target_is_refused(capsys):
    text = "split.factors_too_small"
    with refuses(text, error=ScheduleError):
        split(doubled, [tir.ceildiv(90, FOUR), FOUR], "llvm -mtriple=aarch64-linux-gnu")
    assert "Warning: The expression contains scalable values." in capsys.readouterr().err


def test_primitives_other_than_split_refuse_sizes_with_vscale():
    schedule = tir.Schedule(doubled)
    (loop,) = schedule.get_loops(schedule.get_block("B"))
    with refuses("schedule.number_of_other_schedule"):
        schedule.loop_partition(loop, [FOUR, None])


# ---------------------------------------------------------------------------- VectorizeLoop


def vectorized(body, target=SVE, parameters="A: T.Buffer((64,)), B: T.Buffer((64,), 'int32'), n: T.int32", **config):
    lines = "\n".join("    " + line for line in body.split("\n"))
    module = tvm.IRModule({"main": tvm.script.from_source(f"@T.prim_func\ndef main({parameters}):\n{lines}")})
    with tvm.target.Target(target), tvm.transform.PassContext(config=config):
        function = tir.transform.VectorizeLoop()(module)["main"]
    text = function.script(show_meta=False).split("main(", 1)[1].split(":\n", 1)[1]
    return "\n".join(line[4:] for line in text.split("\n"))


SLICE, ONE = "0:T.vscale() * 4", "T.Broadcast(T.float32(1.0), T.vscale() * 4)"
VECTORIZED = [
    (
        "A[i * 2] = T.Cast('float32', B[i]) + T.float32(1)",
        f'A[T.Ramp(0, 2, T.vscale() * 4)] = T.Cast("float32xvscalex4", B[{SLICE}]) + {ONE}',
    ),
    ("B[i] = i", f"B[{SLICE}] = T.Ramp(0, 1, T.vscale() * 4)"),
    ("A[i] = T.reinterpret('float32', B[i])", f'A[{SLICE}] = T.reinterpret("float32xvscalex4", B[{SLICE}])'),
    (
        "A[i] = T.if_then_else(n < 3, A[i], T.float32(1))",
        f"A[{SLICE}] = T.if_then_else(n < 3, A[{SLICE}], {ONE})",
    ),
    (
        "A[i] = T.if_then_else(i < n, A[i], T.float32(1))",
        "for i_s in range(T.vscale() * 4):\n    A[i_s] = T.if_then_else(i_s < n, A[i_s], T.float32(1.0))",
    ),
    (
        "A[i] = T.Select(A[i] < T.float32(1) and 2 < n, A[i], T.float32(1))",
        f"A[{SLICE}] = T.Select(A[{SLICE}] < {ONE} and T.Broadcast(2 < n, T.vscale() * 4), A[{SLICE}], {ONE})",
    ),
    (
        "v: T.float32 = A[i] + T.float32(1)\n    A[i] = v + v",
        f"v: T.float32xvscalex4 = A[{SLICE}] + {ONE}\nA[{SLICE}] = v + v",
    ),
    (
        "A[i] = T.call_llvm_pure_intrin('float32', 'llvm.sqrt', T.uint32(1), A[i])",
        f'A[{SLICE}] = T.call_llvm_pure_intrin("float32xvscalex4", "llvm.sqrt", T.uint32(1), A[{SLICE}])',
    ),
    (
        "if n < 3:\n        A[i] = T.float32(1)\n    else:\n        A[i] = A[i] + T.float32(1)",
        f"if n < 3:\n    A[{SLICE}] = {ONE}\nelse:\n    A[{SLICE}] = A[{SLICE}] + {ONE}",
    ),
]


@pytest.mark.parametrize(("body", "expected"), VECTORIZED, ids=[b for b, _ in VECTORIZED])
def test_a_vectorized_loop_of_scalable_extent_becomes_vectors(body, expected):
    assert vectorized("for i in T.vectorized(T.vscale() * 4):\n    " + body) == expected


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "T.min", "T.max", "T.truncdiv", "T.truncmod"])
def test_operators_become_vectors(op):
    def applied(a, b):
        return f"{op}({a}, {b})" if op.startswith("T.") else f"{a} {op} {b}"

    found = vectorized(f"for i in T.vectorized(T.vscale() * 4):\n    B[i] = {applied('B[i]', 'n')}")
    expected = applied(f"B[{SLICE}]", "T.Broadcast(n, T.vscale() * 4)").replace("T.truncdiv", "T.Div")
    assert found == f"B[{SLICE}] = {expected}"


def test_the_target_comes_from_the_function_then_the_attribute_then_the_context():
    body = "for i in T.vectorized(T.vscale() * 4):\n    B[i] = i"
    attribute = f"T.attr(T.target({SVE!r}), 'target', 0)\n" + body
    assert "T.Ramp(0, 1" in vectorized(attribute, "llvm -mtriple=x86_64-linux-gnu")
    assert "T.Ramp(0, 1" in vectorized(f"T.func_attr({{'target': T.target({SVE!r})}})\n{body}", "llvm")
    with refuses("tir.vectorize_loop.scalable_extent", error=InternalError):
        vectorized("T.func_attr({'target': T.target('llvm')})\n" + body)


def test_scalable_loops_without_the_target_are_refused():
    for extent, target, shown in (
        ("T.vscale() * 4", "llvm -mtriple=x86_64-linux-gnu", "llvm -keys=cpu -mtriple=x86_64-linux-gnu"),
        ("n", SVE, "llvm -keys=arm_cpu,cpu -mattr=+sve -mtriple=aarch64-linux-gnu"),
    ):
        with pytest.raises(InternalError) as refused:
            vectorized(f"for i in T.vectorized({extent}):\n    B[i] = i", target)
        assert f"Failed to vectorize loop with extent {extent} for target {shown}" in str(refused.value)
    function = tvm.script.from_source(
        "@T.prim_func\ndef f(n: T.int32):\n  for i in T.vectorized(n):\n    T.evaluate(i)"
    )
    with pytest.raises(InternalError) as refused:
        tir.transform.VectorizeLoop()(tvm.IRModule({"f": function}))
    assert not isinstance(refused.value, DefectError)  # the user's mistake, not ours


ONES = "T.Broadcast(T.float32(1), {})"
AT = "A[j * T.vscale() * 4 : j * T.vscale() * 4 + T.vscale() * 4] = " + ONES.format("T.vscale() * 4")


@pytest.mark.parametrize(
    ("extent", "body", "element", "code"),
    [
        (
            "T.vscale() * 4",
            "A[j * 4 : j * 4 + 4] = " + ONES.format(4),
            "float32",
            "tir.vectorize_loop.vector_of_vectors",
        ),
        ("T.vscale() * 4", AT, "float32", "tir.vectorize_loop.vector_of_vectors"),
        ("4", AT, "float32", "tir.vectorize_loop.vector_of_vectors"),
        (
            "4",
            "A[j] = " + ONES.format("T.vscale() * 4"),
            "float32xvscalex4",
            "tir.vectorize_loop.scalable_elements",
        ),
    ],
)
def test_vectors_inside_of_vectors_are_refused(extent, body, element, code):
    with pytest.raises(InternalError) as refused:
        vectorized(f"for j in T.vectorized({extent}):\n    {body}", parameters=f"A: T.Buffer((64,), '{element}')")
    assert code == refused.value.code


MASKED = """for o in range(5):
    for i in T.vectorized({lanes}):
        if {condition}:
            {body}"""


def masked(lanes="4", condition="o * 4 + i < 18", body="B[o * 4 + i] = B[o * 4 + i]", target=SVE, **config):
    return vectorized(MASKED.format(lanes=lanes, condition=condition, body=body), target, **config)


def test_conditions_on_the_lane_become_masks():
    mask = 'predicate=T.get_active_lane_mask("uint1x4", o * 4, 18)'
    expected = (
        f"for o in range(5):\n    B.vstore([T.Ramp(o * 4, 1, 4)], B.vload([T.Ramp(o * 4, 1, 4)], {mask}), {mask})"
    )
    assert masked() == expected
    assert masked(target="llvm", **{"tir.enable_buffer_level_predication": True}) == expected
    assert "for o, i_s in T.grid(5, 4)" in masked(target="llvm")
    assert "for o, i_s in T.grid(5, 4)" in masked(**{"tir.enable_buffer_level_predication": False})


def test_conditions_become_scalable_masks():
    index = "o * (T.vscale() * 4) + i"
    text = masked("T.vscale() * 4", f"{index} < 18", f"B[{index}] = 1")
    mask = 'T.get_active_lane_mask("uint1xvscalex4", o * (T.vscale() * 4), 18)'
    place = "[T.Ramp(o * (T.vscale() * 4), 1, T.vscale() * 4)]"
    assert f"B.vstore({place}, T.Broadcast(1, T.vscale() * 4), predicate={mask})" in text


@pytest.mark.parametrize(
    ("condition", "body"),
    [
        ("o * 4 + i <= 18", "B[o * 4 + i] = 1"),
        ("18 > o * 4 + i", "B[o * 4 + i] = 1"),
        ("o * 4 + i < 18", "B[o * 4 + i + 1] = 1"),
        ("o * 4 + i < 18", "B[o * 4 + i] = B[i]"),
        ("o * 4 + i < 18", "B[o * 4 + i] = B[o]"),
        ("i < n", "B[o * 4 + i] = 1"),
    ],
)
def test_other_conditions_leave_the_loop_serial(condition, body):
    assert "for o, i_s in T.grid(5, 4)" in masked(condition=condition, body=body)


# ---------------------------------------------------------------------------- machine code


def machine_code(body, parameters="A: T.Buffer((64,)), B: T.Buffer((64,)), n: T.int32"):
    """LLVM's text and the assembly of a function for a processor with SVE."""
    lines = "\n".join("    " + line for line in body.split("\n"))
    function = tvm.script.from_source(f"@T.prim_func\ndef main({parameters}):\n{lines}")
    with tvm.target.Target(SVE):
        lowered = tvm.lower(tvm.IRModule({"main": function}))
        return codegen.llvm_ir(lowered, SVE), codegen.assembly(lowered, SVE)


LOOP = "for i in T.vectorized(T.vscale() * 4):\n    "


@pytest.mark.parametrize(
    ("body", "llvm", "assembly"),
    [
        (
            LOOP + "B[i] = A[i] * T.float32(2) + T.float32(1)",
            ["load <vscale x 4 x float>", "fmul contract <vscale x 4 x float>", "store <vscale x 4 x float>"],
            ["z0.s"],
        ),
        (LOOP + "B[i] = T.Cast('float32', i)", ["@llvm.stepvector.nxv4i32", "sitofp <vscale x 4 x i32>"], ["index"]),
        (LOOP + "B[i] = A[i * 2]", ["@llvm.masked.gather.nxv4f32.nxv4p0"], ["ld1w"]),
        (LOOP + "B[i * 2] = A[i]", ["@llvm.masked.scatter.nxv4f32.nxv4p0"], ["st1w"]),
        (
            LOOP + "B[i] = T.Select(A[i] < T.float32(1), T.float32(2), A[i])",
            ["fcmp olt <vscale x 4 x float>", "select <vscale x 4 x i1>"],
            ["fcmgt"],
        ),
        (
            "for o in range(5):\n    for i in T.vectorized(T.vscale() * 4):\n"
            "        if o * (T.vscale() * 4) + i < n: B[o * (T.vscale() * 4) + i] = A[o * (T.vscale() * 4) + i]",
            ["@llvm.get.active.lane.mask.nxv4i1", "@llvm.masked.load.nxv4f32", "@llvm.masked.store.nxv4f32"],
            ["whilelt", "ld1w", "st1w"],
        ),
        ("B[0] = T.Cast('float32', T.vscale())", ["@llvm.vscale.i32()", "vscale_range(1,16)"], ["rdvl"]),
    ],
)
def test_code_for_sve(body, llvm, assembly):
    found, listing = machine_code(body)
    for part in llvm:
        assert part in found
    for part in assembly:
        assert part in listing or (part == "whilelt" and "whilelo" in listing) or (part == "rdvl" and "cntw" in listing)


@pytest.mark.parametrize("target", ["llvm -mtriple=x86_64-linux-gnu", "llvm -mtriple=aarch64-linux-gnu"])
@pytest.mark.parametrize("body", ["B[0:T.vscale() * 4] = A[0:T.vscale() * 4]", "B[0] = T.Cast('float32', T.vscale())"])
def test_other_targets_have_no_code_for_scalable_vectors(target, body):
    function = tvm.script.from_source(f"@T.prim_func\ndef main(A: T.Buffer((64,)), B: T.Buffer((64,))):\n    {body}")
    with refuses("codegen.no_scalable_vectors"):
        codegen.llvm_ir(tvm.lower(tvm.IRModule({"main": function})), target)
