"""Saved and cached kernels."""

import pathlib
import random
import subprocess

import numpy as np
import pytest
from damaged_files import damages
from refusals import refuses
from tools import needs

from tvmagic import codegen, runtime, tir
from tvmagic.codegen.llvm import cache
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.ir import ForKind, IRModule, PrimFunc, decl_buffer
from tvmagic.ir.expr import Var
from tvmagic.tools import CC


def program(name="scale", names=("X", "Y")):
    n, k = Var("n", "int32"), Var("k", "float32")
    x, y = (decl_buffer((n,), "float32", v) for v in names)
    i = Var("i", "int32")
    body = tir.For(i, 0, n, ForKind.PARALLEL, tir.BufferStore(y, x[i] * k, [i]))
    return IRModule.from_expr(PrimFunc([x, y, k], body, attrs={"global_symbol": name, "tir.noalias": True}))


def test_a_saved_module_comes_back(tmp_path):
    path = tmp_path / "scale.o"
    codegen.compile_module(program()).save(path)
    loaded = runtime.load_module(path)
    x, y = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    loaded(x, y, 3.0)
    np.testing.assert_array_equal(y, x * 3)
    with refuses("call.size_mismatch"):
        loaded(x, np.zeros(4, "float32"), 3.0)
    header = path.with_suffix(".h").read_text()
    assert "int32_t scale(const float* X, float* Y, float k, int32_t n);" in header


@pytest.mark.parametrize(
    "name",
    ["x.o", "x.json", "e.o", *[pytest.param(f"x.{kind}", marks=needs("cc", "ar")) for kind in ("so", "tar", "a")]],
)
def test_damaged_modules_are_refused(name, tmp_path, capfd):
    """Code of a damaged file could do anything; LLVM aborts on some."""
    path = tmp_path / ("x.o" if name == "x.json" else name)
    built = codegen.compile_module(program())
    (built.save if path.name == "x.o" else built.export_library)(path)
    damaged, good, rng = tmp_path / name, (tmp_path / name).read_bytes(), random.Random(0)
    for _ in range(20 if path.suffix == ".o" else 3):
        for bad in damages(good, rng):
            damaged.write_bytes(bad)
            x, y = np.arange(5, dtype="float32"), np.zeros(5, "float32")
            try:
                runtime.load_module(path)(x, y, 3.0)
            except TVMagicError as error:
                assert str(error)
            else:  # what is damaged does not matter, such as the name of a digest
                np.testing.assert_array_equal(y, x * 3)


def test_failures_of_a_saved_module_are_told(tmp_path):
    y = decl_buffer((4,), "float32", "Y")
    i = Var("i", "int32")
    func = PrimFunc([y], tir.For(i, 0, 4, 0, tir.BufferStore(y, 1.0, [i + 1])), attrs={"global_symbol": "main"})
    codegen.compile_module(func, check_bounds=True).save(tmp_path / "k.o")
    with pytest.raises(BoundsError, match="`Y`.*`main`"):
        runtime.load_module(tmp_path / "k.o")(np.zeros(4, "float32"))


def test_texts_and_unknown_forms(tmp_path):
    built = codegen.compile_module(program())
    built.save(tmp_path / "k.ll")
    built.save(tmp_path / "k.s")
    assert "define" in (tmp_path / "k.ll").read_text() and "scale" in (tmp_path / "k.s").read_text()
    with pytest.raises(TVMagicError, match="`zip`"):
        built.save(tmp_path / "k.zip")
    with refuses("load_module.no_such_file"):
        runtime.load_module(tmp_path / "none.o")
    with pytest.raises(TVMagicError, match="`ptx`"):
        built.get_source("ptx")


@needs("cc")
def test_a_c_program_links_the_object(tmp_path):
    codegen.compile_module(program()).save(tmp_path / "scale.o")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "scale.h"\nint main(void) { float x[4] = {1, 2, 3, 4}, y[4];\n'
        'int status = scale(x, y, 2.0f, 4); printf("%d %g %g", status, y[0], y[3]); return 0; }\n'
    )
    command = [CC.need(), "main.c", "scale.o", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == "0 2 8"
    codegen.compile_module(program()).export_library(tmp_path / "scale.so")
    assert (tmp_path / "scale.so").exists()


@needs("cc")
def test_names_that_c_does_not_take_are_changed_in_the_header(tmp_path):
    """`main` is a program's own, `float` a word of the language, and two buffers may have one name."""
    x, y, z = (decl_buffer((4,), "float32", name) for name in ("float", "in.0", "in.0"))
    i = tir.Var("i", "int32")
    store = tir.BufferStore(z, x[i] + y[i], [i])
    attrs = {"global_symbol": "main", "tir.noalias": True}
    mod = IRModule({"main": PrimFunc([x, y, z], tir.For(i, 0, 4, ForKind.SERIAL, store), attrs=attrs)})
    codegen.compile_module(mod).save(tmp_path / "sum.o")
    assert "int32_t main_(const float* float_, const float* in_0, float* in_0_);" in (tmp_path / "sum.h").read_text()
    (tmp_path / "program.c").write_text(
        '#include <stdio.h>\n#include "sum.h"\nint main(void) { float x[4] = {1, 2, 3, 4}, y[4] = {1}, z[4];\n'
        'int status = main_(x, y, z); printf("%d %g %g", status, z[0], z[3]); return 0; }\n'
    )
    subprocess.run([CC.need(), "program.c", "sum.o", "-o", "program"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    assert done.stdout == "0 2 4"
    built = runtime.load_module(tmp_path / "sum.o")
    assert (built["main"](np.ones(4, "float32"), np.ones(4, "float32")) == 2).all()


def test_an_equal_module_is_compiled_once():
    cache.clear_cache()
    first = codegen.compile_module(program())
    assert codegen.compile_module(program()) is first
    assert codegen.compile_module(program(names=("P", "Q"))) is not first
    assert codegen.compile_module(program(), check_bounds=True) is not first
    assert codegen.compile_module(program(), "llvm -opt-level=1") is not first


def test_object_files_are_kept_on_disk_where_asked(tmp_path):
    cache.set_cache_dir(tmp_path)
    try:
        for _ in range(2):
            cache.clear_cache()
            built = codegen.compile_module(program())
            x = np.ones(3, "float32")
            y = np.zeros(3, "float32")
            built(x, y, 2.0)
            assert (y == 2).all()
            assert len(list(pathlib.Path(tmp_path).glob("*.o"))) == 1
        assert "fmul" in built.get_source("ll")
    finally:
        cache.set_cache_dir(None)
