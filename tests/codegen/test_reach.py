"""Sizes known at a call only: what has more elements than its indices reach is refused, and nothing is written."""

from __future__ import annotations

import numpy as np
import pytest

import tvmagic
from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.script import from_source
from tvmagic.tune import auto

OUTER = "X: uint8[n]\nY: uint8[m]\nP[i, j] = X[i] * Y[j]\nS[i] = max(P[i, j], over=j)"


@pytest.mark.parametrize("how", ["plain", "auto", "inlined"])
def test_a_product_of_sizes_that_wraps_stops_the_call(how: str) -> None:
    op = operator("outer", OUTER)
    if how == "inlined":
        schedule(op, "s[P].compute_inline()")
    call = op if how != "auto" else op.__class__.from_prim_func("outer", auto(op).mod["main"])
    x, y = np.ones(50_000, "uint8"), np.arange(50_000).astype("uint8")
    small = call(x[:50], y[:60])
    np.testing.assert_array_equal(small, 59)
    try:
        found = call(x[:1], y[:1]), call(x, y)
    except TVMagicError as error:
        assert "has 2500000000 elements, more than its indices reach" in error.message
    else:
        assert how != "plain"  # a schedule without the whole product computes it
        np.testing.assert_array_equal(found[1], 255)


def test_a_size_that_a_variable_holds_is_looked_at_too() -> None:
    from tvmagic.codegen import compile_module
    from tvmagic.ir import IRModule

    text = (
        "@T.prim_func\ndef main(x: T.handle, y: T.handle):\n    T.func_attr({'tir.noalias': True})\n"
        "    n = T.int32()\n    X = T.match_buffer(x, (n,), 'uint8')\n    Y = T.match_buffer(y, (1,), 'uint8')\n"
        "    k: T.int32 = n * n\n    P = T.allocate([k], 'uint8', 'global')\n    Q = T.Buffer((k,), 'uint8', data=P)\n"
        "    for i in range(n):\n        Q[i * n] = X[i]\n    Y[0] = Q[(n - 1) * n]"
    )
    module = compile_module(IRModule({"main": from_source(text)}))
    y = np.zeros(1, "uint8")
    module(np.arange(9, dtype="uint8"), y)
    assert y[0] == 8
    with pytest.raises(TVMagicError, match="in `main` has 4900000000 elements"):
        module(np.zeros(70_000, "uint8"), y)


@pytest.mark.parametrize("split", [False, True])
def test_a_loop_over_more_iterations_than_its_variable_counts_stops_the_call(split: bool) -> None:
    op = operator("most", OUTER.rsplit("\n", 1)[0] + "\nM[()] = max(P[i, j], over=(i, j))")
    cell = "s[P].compute_inline()\nf = s[M].fuse(*s[M].op.reduce_axis)"
    schedule(op, cell + ("\ns[M].split(f, 16)" if split else ""))
    x = (np.arange(70_000) // 300).astype("uint8")
    assert op(x[-1000:], np.ones(30, "uint8")) == 233
    with pytest.raises(TVMagicError, match="has 4900000000 iterations, more than its variable counts"):
        op(x, x)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("fused", [False, True])
def test_a_product_of_three_sizes_that_64_bits_do_not_hold_stops_the_call(dtype: str, fused: bool) -> None:
    sizes = [te.var(name, dtype) for name in "nmk"]
    X, Y, Z = (te.placeholder((size,), "int32", name=name) for size, name in zip(sizes, "XYZ"))
    P = te.compute(sizes, lambda i, j, l: X[i] + Y[j] + Z[l], name="P")
    axes = [te.reduce_axis((0, size), name) for size, name in zip(sizes, "ijl")]
    S = te.compute((1,), lambda q: te.max(P[tuple(axes)], axis=axes), name="S")
    s = te.create_schedule(S.op)
    if fused:
        s[P].compute_inline()
        s[S].fuse(*s[S].op.reduce_axis)
    f, out = tvmagic.build(s, [X, Y, Z, S]), np.zeros(1, "int32")
    f(*[np.arange(count, dtype="int32") for count in (5, 6, 7)], out)
    assert out[0] == 4 + 5 + 6
    large = np.zeros(1 << 22, "int32")  # 2**66 of them together: 4 in 64 bits
    with pytest.raises(TVMagicError, match="has at least 9223372036854775807 |no memory for 92233720368547758"):
        f(large, large, large, out)


def test_a_function_of_sizes_alone_is_asked_too() -> None:
    """What is multiplied has to be known at its begin: a variable that is computed later is not."""
    from tvmagic.codegen import llvm_ir

    text = "@T.prim_func\ndef main(n: T.int32, m: T.int32):\n    for i in range(n * {}):\n        T.evaluate(T.call_extern('int32', 'rand'))"
    for size in ("m", "n", "3"):
        assert (
            llvm_ir(from_source(text.format(size)), None, False).count("call { i64, i1 } @llvm.smul.with.overflow") == 1
        )
    later = text.replace("    for", "    for k in range(m):\n      for").format("k")
    assert "smul.with.overflow" not in llvm_ir(from_source(later), None, False)
