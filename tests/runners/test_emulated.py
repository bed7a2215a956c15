"""Code for other machines, run by emulators, gives what NumPy gives; and what goes wrong in it is an error here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tools import on, runs, skip_unsupported_code

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import BoundsError, BuildError, TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.runners import FAMILIES, MissingTool, family_of, run, ways
from tvmagic.runners import qemu as qemu_runner
from tvmagic.target import Target
from tvmagic.target.names import TARGETS, target_text

SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+sve2"
DENSE = "X: float32[20, 37]\nW: float32[32, 37]\nY[i, j] += X[i, k] * W[j, k]\nZ[i, j] = exp(Y[i, j]) + atan(Y[i, j])"


def dense() -> Any:
    """An operator whose second axis is in vectors of 16; `atan` is the C library's."""
    op = operator("dense", DENSE)
    op.add_version(
        schedule(op, "z = s[Z]\nz.vectorize(z.split(z.axis[1], 16)[1])\ns[Y].compute_at(z, z.leaf_iter_vars[0])")
    )
    return op


def vectors(lanes: int = 16, n: int = 100) -> tuple[Any, list[Any]]:
    """A schedule of `B = A * 2 + 1` on `n` elements, in vectors."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0 + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], lanes)[1])
    return s, [A, B]


@pytest.mark.parametrize("target", [on("aarch64"), on("aarch64-sve"), on("riscv64"), on("x86-64-v4")])
def test_a_check_on_another_machine(target: str) -> None:
    with skip_unsupported_code():
        result = dense().check(target=target)
    assert result.ok and result.absolute > 0, str(result)
    lengths = [f"vectors of {bits} bits" for bits in (128, 256, 512)] if target in ("aarch64-sve", "riscv64") else []
    assert all(length in result.notes[0] for length in lengths) and result.notes[0].startswith("run by ")


SCALABLE = [("-vector-width=256", 256), ("-vector-width=512", 512), ("-mcpu=a64fx", 512)]


@pytest.mark.parametrize(("options", "bits"), SCALABLE)
def test_vectors_become_scalable_registers_of_a_given_length(options: str, bits: int) -> None:
    """They did not, whatever the target: LLVM was told that registers may have 128 bits."""
    s, args = vectors()
    built = tvmagic.build(s, args, target=f"{SVE} {options}")
    assert "ptrue" in built.get_source("asm") and "z0.s" in built.get_source("asm")
    assert "z0.s" not in tvmagic.build(s, args, target=SVE).get_source("asm")
    names = [f"qemu-aarch64, vectors of {n} bits" for n in (256, 512) if n >= bits]
    assert [way.name for way in ways(built.target)] == names


@runs("aarch64-sve")
@pytest.mark.parametrize(("options", "bits"), SCALABLE)
def test_scalable_vectors_compute_on_long_enough_registers(options: str, bits: int) -> None:
    s, args = vectors()
    built = tvmagic.build(s, args, target=f"{SVE} {options}")
    a, b = np.arange(100, dtype="float32"), np.zeros(100, "float32")
    for way in ways(built.target):
        b[:] = 0
        way.run(built, [a, b])
        np.testing.assert_array_equal(b, a * 2 + 1)
    with refuses("call.vectors_too_short"):
        qemu_runner.run_in_qemu("aarch64", "max,sve-max-vq=1,sve-default-vector-length=16", built, [a, b])


@runs("aarch64-sve")
def test_code_for_longer_vectors_would_be_wrong_on_shorter_ones() -> None:
    """What the guard is for: without it the result is wrong."""
    s, args = vectors(32, 96)
    target = f"{SVE} -vector-width=512"
    text = tvmagic.build(s, args, target=target)
    assert "@tvm.vscale" in text.get_source("raw")
    a, b = np.arange(96, dtype="float32"), np.zeros(96, "float32")
    broken = tvmagic.codegen.compile_module(tvmagic.lower(s, args), target)
    from tvmagic.codegen.llvm.optimize import object_of, optimized

    raw = text.get_source("raw").replace("icmp uge i64", "icmp ule i64")
    broken.code = object_of(optimized(raw, text.target), text.target)
    qemu_runner.run_in_qemu("aarch64", "max,sve-max-vq=1,sve-default-vector-length=16", broken, [a, b])
    assert not np.array_equal(b, a * 2 + 1)


def test_a_width_that_no_processor_has_is_refused() -> None:
    s, args = vectors()
    with pytest.raises(TVMagicError, match="AArch64.*384"):
        tvmagic.build(s, args, target=f"{SVE} -vector-width=384")


def test_the_timeline_says_that_vectors_of_fixed_lanes_are_not_scalable() -> None:
    op = dense()
    notes = [n.text for step in op.passes(op.current, SVE) for n in step.notes if n.topic == "vectors"]
    assert len(notes) == 1 and "become NEON registers of 128 bits" in notes[0]
    wide = op.passes(op.current, f"{SVE} -vector-width=256")
    assert not [n for step in wide for n in step.notes if n.topic == "vectors"]


@runs("riscv64")
def test_strides_sizes_and_scalars_are_passed() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, 4), name="A")
    factor = te.var("factor", "float32")
    B = te.compute((n, 4), lambda i, j: A[i, j] * factor, name="B")
    built = tvmagic.build(te.create_schedule(B.op), [A, B, factor], target=TARGETS["riscv64"])
    a, b = np.arange(80, dtype="float32").reshape(10, 8)[:, ::2], np.zeros((10, 8), "float32")
    run(built, [a, b[:, ::2], 2.5])
    np.testing.assert_array_equal(b[:, ::2], a * np.float32(2.5))
    assert not b[:, 1::2].any()


@runs("aarch64")
def test_what_the_code_stops_at_is_the_same_error() -> None:
    op = operator("pick", "X: float32[8]\nI: int32[4]\nY[i] = X[I[i]]")
    built = op.build(target=TARGETS["aarch64"])
    y = np.zeros(4, "float32")
    run(built, [np.arange(8, dtype="float32"), np.array([1, 2, 3, 4], "int32"), y])
    assert list(y) == [1, 2, 3, 4]
    with pytest.raises(BoundsError, match="`X`.*`pick`"):
        run(built, [np.arange(8, dtype="float32"), np.array([1, 2, 9, 4], "int32"), y])
    run(built, [np.arange(8, dtype="float32"), np.array([7, 2, 3, 4], "int32"), y])
    assert y[0] == 7


def faulty(place: int) -> Any:
    """A function that stores one element at a place of an array of 4."""
    buffer = tir.decl_buffer((4,), "float32", "A")
    body = tir.BufferStore(buffer, tir.const(1.0, "float32"), [place])
    func = tir.PrimFunc([tir.Var("a", "handle")], body)
    func = func.replace(buffer_map={func.params[0]: buffer}).with_attr("global_symbol", "main")
    return tvmagic.codegen.compile_module(func, TARGETS["aarch64"])


@runs("aarch64")
def test_stray_stores_are_errors_and_nothing_ends_this_process() -> None:
    a = np.zeros(4, "float32")
    with pytest.raises(TVMagicError, match="`main`"):
        run(faulty(5), [a])
    with pytest.raises(TVMagicError, match="aarch64"):
        run(faulty(1 << 30), [a])
    run(faulty(2), [a])
    assert list(a) == [0, 0, 1, 0]


@runs("aarch64")
def test_functions_that_the_machine_lacks_are_named() -> None:
    buffer = tir.decl_buffer((4,), "float32", "A")
    call = tir.Call("float32", "tir.call_extern", ["my_function", tir.const(1.0, "float32")])
    func = tir.PrimFunc([tir.Var("a", "handle")], tir.BufferStore(buffer, call, [0]))
    func = func.replace(buffer_map={func.params[0]: buffer}).with_attr("global_symbol", "main")
    built = tvmagic.codegen.compile_module(func, TARGETS["aarch64"])
    with refuses("runner.missing_functions", error=BuildError, names="`my_function`"):
        run(built, [np.zeros(4, "float32")])


@pytest.mark.parametrize(
    ("tools", "target", "code"),
    [
        ("all", "aarch64", "tool.missing_program"),
        ("qemu", "riscv64", "tool.missing_program"),
        ("wasmtime", "wasm32", "tool.missing_package"),
    ],
)
def test_a_missing_tool_names_its_package(tools: str, target: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMAGIC_HIDE_TOOLS", tools)
    with refuses(code, error=MissingTool):
        dense().check(target=target)


def test_a_processor_with_more_than_this_machine_has_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvmagic.runners import native

    monkeypatch.setitem(native.FEATURES, "haswell", frozenset(("avx2", "no-such-feature")))
    if Target(TARGETS["haswell"]).is_host:
        with pytest.raises(MissingTool, match="`haswell`.*`no-such-feature`"):
            dense().check(target="haswell")


def test_families() -> None:
    wanted = {
        "aarch64": "aarch64", "arm64": "aarch64", "aarch64-sve": "aarch64-sve", "riscv64": "riscv64-v", "wasm32": "wasm32",
        "nvptx64": "nvptx64", "opencl": "opencl",
    }  # fmt: skip
    assert {name: family_of(Target(TARGETS[name])) for name in wanted} == wanted and set(wanted.values()) < set(
        FAMILIES
    )
    assert family_of(Target("llvm")) == "native" and family_of(Target("llvm -mtriple=s390x-linux-gnu")) == ""
    assert family_of(Target("llvm -mtriple=riscv64-linux-gnu -mattr=+v,-v")) == "riscv64"
    for foreign in ("arm64-apple-darwin", "aarch64-pc-windows-msvc"):  # QEMU runs programs of Linux
        assert family_of(Target(f"llvm -mtriple={foreign}")) == ""
    assert family_of(Target("llvm -mtriple=aarch64-unknown-elf")) == "aarch64"
    with pytest.raises(TVMagicError, match="s390x"):
        ways(Target("llvm -mtriple=s390x-linux-gnu"))
    assert target_text("riscv64") == TARGETS["riscv64"] and target_text(None) is None
    with pytest.raises(TVMagicError, match="`aarch46`"):
        target_text("aarch46")


@pytest.mark.parametrize("size", ["T.int64(16)", "n * 4", "T.uint64(n * 4)"])
@runs("wasm32")
def test_functions_of_c_on_blocks_of_memory_are_instructions_of_webassembly(size: str) -> None:
    """A module there has no C library that they could be called in."""
    built = tvmagic.build(
        tvmagic.script.from_source(
            "@T.prim_func\n"
            "def main(A: T.Buffer((8,), 'float32'), B: T.Buffer((8,), 'float32'), n: T.int32):\n"
            "    T.evaluate(T.call_extern('handle', 'memset', B.access_ptr('w'), 0, 32))\n"
            f"    T.evaluate(T.call_extern('handle', 'memcpy', B.access_ptr('w'), A.access_ptr('r'), {size}))\n"
            f"    T.evaluate(T.call_extern('int32', 'memmove', B.access_ptr('w', offset=2), B.access_ptr('r'), {size}))\n"
        ),
        target=target_text("wasm32"),
    )
    a, b = np.arange(1, 9, dtype="float32"), np.full(8, 7, "float32")
    run(built, [a, b, 4])
    assert b.tolist() == [1, 2, 1, 2, 3, 4, 0, 0]


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import time; time.sleep(60)", "runner.no_answer"),
        ("import sys; sys.exit(3)", "runner.code_ended"),
        ("import sys; sys.stdout.write('abc')", "runner.code_ended"),
    ],
    ids=["hangs", "fails", "ends within an answer"],
)
def test_a_process_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch, program: str, code: str) -> None:
    from tvmagic.runners import connection

    monkeypatch.setattr(connection, "_SECONDS", 0.2 if "sleep" in program else 20.0)
    other = connection.Connection([sys.executable, "-c", program], "python")
    with refuses(code):
        other.receive(8)
    assert not other.alive
