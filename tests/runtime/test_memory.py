"""Modules, their code, LLVM's passes and linkers: when they are released, and where code is mapped."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import te
from tvmagic.codegen.llvm import cache


@pytest.fixture(autouse=True)
def empty_cache():
    cache.clear_cache()
    yield
    cache.set_cache_limit(64 << 20)
    cache.clear_cache()


def built(k: int):
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + float(k), name="B")
    return tvm.build(te.create_schedule(B.op), [A, B])


def test_a_module_that_nobody_holds_goes_away_with_its_code():
    module = built(1)
    module(np.zeros(16, "float32"))
    held = [weakref.ref(module), weakref.ref(module.entry_func), weakref.ref(module.entry_func.loaded)]
    cache.clear_cache()
    gc.disable()  # it is in no cycle, so that it goes at once
    try:
        del module
        assert [ref() for ref in held] == [None] * 3
    finally:
        gc.enable()


def test_a_function_keeps_the_code_of_its_module():
    module = built(2)
    kernel, gone = module["main"], weakref.ref(module)
    again = kernel.prepared(np.zeros(16, "float32"), np.zeros(16, "float32"))
    cache.clear_cache()
    del module
    gc.collect()
    assert gone() is None
    for _ in range(3):
        np.testing.assert_array_equal(kernel(np.zeros(16, "float32")), np.full(16, 2, "float32"))
    del kernel
    again()


def test_what_stops_a_function_is_told_without_its_module():
    A, I = te.placeholder((4,), name="A"), te.placeholder((4,), "int32", name="I")
    B = te.compute((4,), lambda i: A[I[i]], name="B")
    kernel = tvm.build(te.create_schedule(B.op), [A, I, B], check_bounds=True)["main"]
    cache.clear_cache()
    gc.collect()
    with refuses("call.index_out_of_range", error=IndexError):
        kernel(np.zeros(4, "float32"), np.full(4, 9, "int32"))


def test_the_cache_has_a_limit_in_bytes():
    one = built(3)
    assert built(3) is one and one.nbytes > len(one.code)
    cache.set_cache_limit(4 * one.nbytes)
    modules = [weakref.ref(built(10 + k)) for k in range(12)]
    gc.collect()
    alive = [ref() for ref in modules if ref() is not None]
    # two entries for each module: by its schedule's loops and by what they were lowered to
    assert 1 <= len(alive) <= 2 and alive[-1] is modules[-1]()
    cache.set_cache_limit(0)
    assert built(3) is not built(3)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_small_builds_do_not_grow_the_process():
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    cache.set_cache_limit(0)
    ones = np.ones(16, "float32")
    for k in range(60):
        built(k)(ones)
    before = resident()
    for k in range(60, 160):
        built(k)(ones)
    gc.collect()
    assert resident() - before < 4 << 20  # it was 100 kB each


# Fills all gaps of the address space above an array of 3 GiB but one page, so that the next mappings lie on both sides of it.
SPLIT_ADDRESS_SPACE = """
import ctypes
import numpy as np
import tvmagic
from tvmagic import te

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def reserve(size):
    return libc.mmap(None, size, 0, 0x4022, -1, 0)  # MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE

def build(factor):
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: te.exp(A[i]) * factor, name="B")
    return tvmagic.build(te.create_schedule(B.op), [A, B])

a, b = np.arange(5, dtype="float32"), np.zeros(5, "float32")
build(2.0)(a, b)  # links the runtime
built = build(3.5)
page, last = 4096, 0
array = reserve(3 << 30)
for size in (1 << 30, 1 << 24, 1 << 18, page):
    while (found := reserve(size)) > array:
        last = found
    libc.munmap(found, size)
libc.munmap(last, page)
built(a, b)
np.testing.assert_allclose(b, np.exp(a) * 3.5, rtol=1e-6)
print("right")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses mmap of Linux")
def test_code_reaches_its_constants_across_large_arrays():
    ran = subprocess.run([sys.executable, "-c", SPLIT_ADDRESS_SPACE], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "right\n"), ran.stderr
