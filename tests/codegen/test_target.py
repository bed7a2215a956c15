"""Targets as texts and mappings."""

import platform

import numpy as np
import pytest
from handmade import module
from refusals import refuses

from tvmagic import codegen, tir
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.ir import Call, ForKind, Ramp, decl_buffer
from tvmagic.target import Target, has_avx512, has_fma
from tvmagic.target.names import target_text


def test_options_come_from_the_text():
    target = Target("llvm -mcpu=skylake-avx512 -mattr=+avx512f,+fma -num-cores=8")
    assert target.kind.name == "llvm" and target.mcpu == "skylake-avx512"
    assert target.mattr == ["+avx512f", "+fma"] and target.attrs["num-cores"] == 8
    assert Target(target.export()) == target and Target(str(target)) == target


def test_the_current_target():
    assert Target.current() is None
    with Target("llvm -mcpu=znver4") as outer, Target({"kind": "cuda", "arch": "sm_80"}) as inner:
        assert Target.current() is inner and inner.is_nvptx and not outer.is_nvptx
    with refuses("target.not_entered"):
        Target.current(allow_none=False)


@pytest.mark.parametrize("text, code", [
    ("lvm", "target.unknown_kind"),
    ("llvm -mcup=x", "target.unknown_option"),
    ("llvm mcpu=x", "target.not_an_option"),
    ("llvm -num-cores=many", "target.option_not_a_number"),
    (3, "target.not_a_target"),
])  # fmt: skip
def test_mistakes_are_named(text, code):
    with refuses(code):
        Target(text)


def test_where_code_runs():
    assert Target("llvm").is_host and not Target("llvm -mtriple=sparc-unknown-none").is_host
    assert Target("llvm", host="llvm -mcpu=x").host is not None


def doubled(lanes=16):
    x, y = decl_buffer((64,), "float32", "X"), decl_buffer((64,), "float32", "Y")
    i = tir.Var("i", "int32")
    place = [Ramp(i * lanes, 1, lanes)]
    body = tir.BufferStore(y, Call(f"float32x{lanes}", "tir.exp", [x[place]]), place)
    return module(tir.For(i, 0, 64 // lanes, ForKind.SERIAL, body), x, y)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("llvm -mcpu=nonsense", "target.unknown_name_for_llvm"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=i386", "target.no_code_for_processor"),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=sve", "target.wrong_feature"),
        ("llvm -mtriple=riscv64-linux-gnu -mattr=+foo", "target.unknown_name_for_llvm"),
        ("nvptx -arch=sm_1", "target.unknown_name_for_llvm"),
        ("llvm -mtriple=bpf", "target.unknown_architecture"),
        ("llvm -opt-level=4", "target.wrong_opt_level"),
    ],
)
def test_what_llvm_would_end_the_process_for_is_refused(target, code):
    with refuses(code):
        codegen.assembly(doubled(), target)


def test_a_processor_with_more_than_this_machine_has():
    """Its code is made without what is missing here; code that uses it can be read, and is refused when it is called."""
    import llvmlite.binding as llvm

    values = np.linspace(-1, 1, 64, dtype="float32")
    own = llvm.get_host_cpu_features()
    missing = next(name for name, has in own.items() if not has)
    built = codegen.compile_module(doubled(), f"llvm -mattr=+{missing}")
    assert f"+{missing}" in built.get_source("ll")
    with refuses("target.feature_missing_on_host", error=BuildError):
        built(values)
    built = codegen.compile_module(doubled(), f"llvm -mcpu={llvm.get_host_cpu_name()}")
    np.testing.assert_allclose(built(values), np.exp(values), rtol=1e-6)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64")
def test_a_feature_may_be_switched_off():
    target = "llvm -mattr=-avx512f"
    values = np.linspace(-1, 1, 64, dtype="float32")
    np.testing.assert_allclose(codegen.compile_module(doubled(), target)(values), np.exp(values), rtol=1e-6)
    assert "zmm" not in codegen.assembly(doubled(), target)


def test_an_environment_variable_names_the_default_target(monkeypatch):
    """It is the target of what is compiled without one, or for `llvm`; another processor or triple is as it was."""
    monkeypatch.setenv("TVMAGIC_TARGET", "llvm -opt-level=1")
    assert str(codegen.default_target()) == "llvm -keys=cpu -opt-level=1"
    assert codegen.resolved() == codegen.resolved("llvm") == codegen.default_target()
    assert codegen.resolved("llvm -opt-level=2").attrs["opt-level"] == 2
    assert codegen.resolved("llvm -mtriple=aarch64-linux-gnu").attrs == {"mtriple": "aarch64-linux-gnu"}
    with Target("llvm -num-cores=3"):
        assert codegen.resolved().attrs == {"opt-level": 1, "num-cores": 3}
    values = np.linspace(-1, 1, 64, dtype="float32")
    np.testing.assert_allclose(codegen.compile_module(doubled())(values), np.exp(values), rtol=1e-6)
    monkeypatch.delenv("TVMAGIC_TARGET")
    assert codegen.default_target() == codegen.host_target()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="processors of x86-64")
def test_code_for_the_default_target_has_its_instructions_alone(monkeypatch):
    monkeypatch.setenv("TVMAGIC_TARGET", "llvm -mcpu=x86-64-v2")
    assert "ymm" not in codegen.assembly(doubled()) and "zmm" not in codegen.assembly(doubled(), "llvm")
    assert "ymm" in codegen.assembly(doubled(), "llvm -mcpu=haswell")
    monkeypatch.setenv("TVMAGIC_TARGET", "llvm -mcpu=haswell")
    assert "ymm" in codegen.assembly(doubled())
    assert "ymm" not in codegen.assembly(doubled(), "llvm -mattr=-avx")


@pytest.mark.parametrize(
    "text", ["no target", "llvm -mcpu=none-such", "llvm -no-option=1", "{broken", "cuda -arch=none"]
)
def test_an_environment_variable_that_names_no_target_is_refused(monkeypatch, text):
    monkeypatch.setenv("TVMAGIC_TARGET", text)
    with refuses("target.wrong_environment") as caught:
        codegen.compile_module(doubled())
    assert "set TVMAGIC_TARGET to a text such as `llvm -mcpu=haswell`" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "expected"),
    [("haswell", True), ("x86-64-v2", False), ("llvm -mtriple=x86_64-linux-gnu -mcpu=ivybridge", False), ("aarch64", True),
     ("riscv64", True), ("wasm32", False), ("nvptx64", True), ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -mattr=-fma", False)],
)  # fmt: skip
def test_a_machine_without_multiply_adds_is_known_as_one(target, expected):
    assert has_fma(codegen.resolved(target_text(target))) is expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [("avx512", True), ("x86-64-v4", True), ("haswell", False), ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -mattr=+avx512f", True),
     ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=-avx512f", False), ("aarch64", False), ("wasm32", False)],
)  # fmt: skip
def test_vectors_of_512_bits_are_known_by_the_name_of_a_processor(target, expected):
    assert has_avx512(codegen.resolved(target_text(target))) is expected


@pytest.mark.parametrize(
    ("target", "vector", "multiply_adds", "caches"),
    [
        ("haswell", (256, 16), (2, 5), (32, 256, 8192)),
        ("avx512", (512, 32), (2, 4), (32, 1024, 16384)),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", (512, 32), (1, 4), (32, 1024, 32768)),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=ivybridge", (256, 16), (1, 8), (32, 256, 8192)),
        ("wasm32", (128, 16), (1, 8), (32, 256)),
    ],
)
def test_what_the_makers_say_of_processors(target, vector, multiply_adds, caches):
    """Vectors in bits and how many; multiply-adds a cycle and cycles until one is done; caches in KiB."""
    machine = codegen.resolved(target_text(target)).machine
    assert (machine.vector_bits, machine.vector_registers) == vector
    assert (machine.fma_per_cycle, machine.fma_latency) == multiply_adds
    assert tuple(cache.size >> 10 for cache in machine.caches) == caches


def test_target_defaults_to_entered_one() -> None:
    with pytest.raises(TVMagicError):
        Target.target_or_current(None)
    with pytest.raises(TVMagicError):
        Target.current(allow_none=False)
    with Target("cuda") as entered:
        assert Target.target_or_current(None) is entered and Target.target_or_current("opencl") == Target("opencl")
