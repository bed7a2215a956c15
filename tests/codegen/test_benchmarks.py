"""The benchmarks' kernels give what NumPy gives, and their page can be made."""

import numpy as np
import pytest

from tvmagic import codegen, lower, te, tir

kernels = pytest.importorskip("benchmarks.kernels", reason="the benchmarks are in the repository only")
SMALL = [k for k in kernels.KERNELS if "float" not in k.work or "4194304" in k.work]


@pytest.mark.parametrize("kernel", SMALL, ids=lambda k: k.name)
def test_kernel(kernel):
    sch = tir.Schedule(te.create_prim_func(kernel.build(te)))
    kernel.schedule(kernels.Steps(sch))
    arrays = kernel.inputs(np.random.default_rng(0))
    expected = kernel.numpy(*arrays)
    result = np.zeros_like(expected)
    codegen.compile_module(lower(sch.mod))(*arrays, result)
    assert np.abs(result - expected).max() <= kernel.tolerance * max(1.0, float(np.abs(expected).max()))


@pytest.mark.parametrize("name", ["matmul", "conv2d 3x3"])
def test_the_te_twin_gives_the_same(name, monkeypatch):
    from benchmarks import te_twins

    for size, value in {"N": 64, "SIDE": 14, "CHANNELS": 32}.items():
        monkeypatch.setattr(kernels, size, value)
    rng = np.random.default_rng(0)
    shapes = {"matmul": [(64, 64), (64, 64)], "conv2d 3x3": [(16, 16, 32), (3, 3, 32, 32)]}[name]
    arrays = [rng.standard_normal(shape, dtype="float32") for shape in shapes]
    expected = te_twins.kernel_named(name).numpy(*arrays)
    for way, built in te_twins.both(name).items():
        result = np.zeros_like(expected)
        built(*arrays, result)
        np.testing.assert_allclose(result, expected, 1e-4, 1e-3, err_msg=way)


def test_the_page_shows_ratios_and_what_is_missing():
    from benchmarks.page import page

    report = {
        "threads": 1,
        "missing": {"TVM": "not installed"},
        "peak_flops": 1e11,
        "copy_bandwidth": 3e10,
        "kernels": {"matmul": {"seconds": {"tvmagic": 0.02, "NumPy": 0.04}, "problems": {"Numba": "wrong by 3"}}},
        "twins": {"matmul": {"TensorIR": 0.02, "TE": 0.021}},
        "schedule": {"Primitives": {"split": 0.001}},
    }
    text = page([report], "a machine")
    assert "×2.00" in text and "TVM: not installed" in text and "wrong by 3" in text and "107% of peak" in text
    assert "TE ×1.05" in text and "split: 1.00 ms" in text


def test_the_compiler_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import compiler

    monkeypatch.setattr(compiler, "least", lambda run: [0.0, run()][0])
    monkeypatch.setattr(compiler, "STATEMENTS", 50)
    found = compiler.measured()
    assert "lowering the matmul" in found and "a walk over 50 statements" in found and len(found) == 5
