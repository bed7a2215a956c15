"""Scalable vectors: types, nodes, text, proofs, schedules, passes and machine code."""

import pytest

import tvmagic as tvm
from tvmagic import arith, ir, tir
from tvmagic.errors import TVMagicError

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
    with pytest.raises(TVMagicError, match="Invalid expression for scalable lanes"):
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
    with pytest.raises(TVMagicError, match="Can't fetch the lanes"):
        _ = dtype.lanes


def test_casts_to_scalable_types():
    assert str(tir.Broadcast(1, vs * 6).astype("float32xvscalex6")) == "T.Broadcast(T.float32(1.0), T.vscale() * 6)"
    cast = tir.Ramp(x, 1, FOUR).astype("float32xvscalex4")
    assert str(cast) == 'T.Cast("float32xvscalex4", T.Ramp(x, 1, T.vscale() * 4))'
    assert str(x.astype("float32xvscalex4")) == 'T.Broadcast(T.Cast("float32", x), T.vscale() * 4)'
    with pytest.raises(TVMagicError, match="different numbers of lanes"):
        tir.Ramp(x, 1, FOUR).astype("float32xvscalex8")


def test_a_scalar_is_broadcast_beside_a_scalable_vector():
    ramp = tir.Ramp(x, 1, FOUR)
    assert str(ramp + 7) == "T.Ramp(x, 1, T.vscale() * 4) + T.Broadcast(7, T.vscale() * 4)"
    condition = ramp < 7
    assert condition.dtype == "uint1xvscalex4"
    assert tir.And(condition, tir.Not(condition)).dtype == "uint1xvscalex4"
    assert tir.Select(condition, ramp, ramp + 1).dtype == "int32xvscalex4"


@pytest.mark.parametrize(
    ("lanes", "text"),
    [
        (4, "Can't match scalable and fixed length vectors"),
        (vs * 8, "Cannot match type int32xvscalex4 vs int32xvscalex8"),
    ],
)
def test_vectors_of_different_lengths_do_not_mix(lanes, text):
    with pytest.raises(TVMagicError, match=text):
        tir.Ramp(x, 1, FOUR) + tir.Ramp(x, 1, lanes)


# ---------------------------------------------------------------------------- accesses


def test_loads_and_stores_have_the_lanes_of_the_index_times_those_of_the_element():
    plain, pairs = tir.decl_buffer((64,), "float32"), tir.decl_buffer((64,), "float32x2")
    scalable = tir.decl_buffer((64,), "float32xvscalex4")
    assert tir.BufferLoad(plain, [tir.Ramp(1, 1, vs * 8)]).dtype == "float32xvscalex8"
    assert tir.BufferLoad(pairs, [tir.Ramp(1, 1, vs * 8)]).dtype == "float32xvscalex16"
    assert tir.BufferLoad(scalable, [3]).dtype == "float32xvscalex4"
    with pytest.raises(TVMagicError, match="can't both be scalable"):
        tir.BufferLoad(scalable, [tir.Ramp(1, 1, FOUR)])
    tir.BufferStore(plain, tir.Broadcast(tir.const(1.0), FOUR), [tir.Ramp(0, 1, FOUR)])
    with pytest.raises(TVMagicError, match="Can't store non-scalable data into scalable buffer"):
        tir.BufferStore(plain, tir.Broadcast(tir.const(1.0), 4), [tir.Ramp(0, 1, FOUR)])


def mask(dtype):
    return tir.call_intrin(dtype, "tir.get_active_lane_mask", 0, 13)


@pytest.mark.parametrize(
    ("lanes", "dtype", "load", "store"),
    [
        (
            FOUR,
            "uint1x4",
            "Predicate mask dtype and load indices must both be scalable.",
            "Predicate mask dtype and value dtype must both be scalable.",
        ),
        (
            4,
            "uint1x8",
            "Got a predicate mask with 8 lanes, but trying to load a vector with 4 lanes. The number of lanes must match.",
            "Got a predicate mask with 8 lanes, but trying to store a value with 4 lanes. The number of lanes must match.",
        ),
        (4, "int32x4", *["Predicate mask elements must be boolean values, but got int32."] * 2),
    ],
)
def test_masks_are_checked(lanes, dtype, load, store):
    buffer, index, value = tir.decl_buffer((64,)), tir.Ramp(0, 1, lanes), tir.Broadcast(tir.const(1.0), lanes)
    for text, access in (
        (load, lambda: tir.BufferLoad(buffer, [index], mask(dtype))),
        (load, lambda: buffer.vload([index], predicate=mask(dtype))),
        (store, lambda: tir.BufferStore(buffer, value, [index], mask(dtype))),
        (store, lambda: buffer.vstore([index], value, predicate=mask(dtype))),
    ):
        with pytest.raises(TVMagicError) as refused:
            access()
        assert text in str(refused.value)


# ---------------------------------------------------------------------------- text


SCRIPTS = [
    "B[0:T.vscale() * 4] = A[T.Ramp(3, 2, T.vscale() * 4)] + T.Broadcast(T.float32(1.0), T.vscale() * 4)",
    "B[n:n + T.vscale() * 4] = A[T.vscale() * 4:T.vscale() * 4 + T.vscale() * 4]",
    "B[n * 4:n * 4 + T.vscale() * 8] = T.Broadcast(T.float32(2.0), T.vscale() * 8)",
    "T.evaluate(T.Ramp(n, 1, T.vscale() * 2))",
    'T.evaluate(T.Cast("float32xvscalex4", T.Ramp(n, 1, T.vscale() * 4)))',
    'B.vstore([T.Ramp(0, 1, T.vscale() * 4)], A.vload([T.Ramp(0, 1, T.vscale() * 4)], '
    'predicate=T.get_active_lane_mask("uint1xvscalex4", 0, 13)), '
    'predicate=T.get_active_lane_mask("uint1xvscalex4", 0, 13))',
    'p: T.handle("float32xvscalex4", "global") = T.call_extern("handle", "f")\nT.evaluate(p)',
]  # fmt: skip


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
    (tir.max(tir.Broadcast(x, FOUR), tir.Broadcast(x, FOUR)), "T.Broadcast(x, T.vscale() * 4)"),
]


@pytest.mark.parametrize(("e", "text"), VECTORS, ids=lambda v: None if isinstance(v, str) else str(v))
def test_rules_for_vectors_hold_for_scalable_lanes(e, text):
    assert simplified(e) == text


def test_truncated_quotients_of_vectors_are_split_only_if_all_lanes_have_one_sign():
    ramp = tir.Ramp(x, 6, FOUR)
    quotient, remainder = tir.truncdiv(ramp, tir.Broadcast(3, FOUR)), tir.truncmod(ramp, tir.Broadcast(3, FOUR))
    analyzer = arith.Analyzer()
    assert str(analyzer.rewrite_simplify(quotient)) == str(quotient)  # -4 and 2 over 3 are -1 and 0, not -1 and 1
    with analyzer.constraint_scope(x >= 0):
        assert str(analyzer.rewrite_simplify(quotient)) == "T.Ramp(T.Div(x, 3), 2, T.vscale() * 4)"
        assert str(analyzer.rewrite_simplify(remainder)) == "T.Broadcast(T.truncmod(x, 3), T.vscale() * 4)"


@pytest.mark.parametrize(("stride", "low", "high"), [(2, "3", "pos_inf"), (-2, "neg_inf", "3")])
def test_the_set_of_a_scalable_ramp_is_open_at_the_far_end(stride, low, high):
    found = arith.IntSet.vector(tir.Ramp(3, stride, FOUR))
    assert (str(found.min_value), str(found.max_value)) == (low, high)
