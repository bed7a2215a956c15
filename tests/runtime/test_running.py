"""Running kernels: bounds checks, stopping, threads, timing, registered functions."""

import ast
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import codegen, runtime, tir
from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.ir import ForKind, IRModule, PrimFunc, Ramp, decl_buffer
from tvmagic.ir.expr import Var


def environment():
    """The environment of a process that imports this tvmagic."""
    return {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(tvmagic.__file__))}


def build(body, *params, **options):
    attrs = {"global_symbol": "main", "tir.noalias": True}
    return codegen.compile_module(IRModule.from_expr(PrimFunc(list(params), body, attrs=attrs)), **options)


def loop(extent, make, kind=ForKind.SERIAL):
    i = Var("i", "int32")
    return tir.For(i, 0, extent, kind, make(i))


def buffers(*names, shape=(10,), dtype="float32"):
    return [decl_buffer(shape, dtype, name) for name in names]


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL])
def test_an_index_outside_a_buffer_is_an_index_error(kind):
    x, y = buffers("X", "Y")
    built = build(loop(10, lambda i: tir.BufferStore(y, x[i + 3], [i]), kind), x, y, check_bounds=True)
    with pytest.raises(IndexError, match="`X`"):
        built(np.zeros(10, "float32"))
    with pytest.raises(BoundsError):
        built(np.zeros(10, "float32"))


def test_the_place_of_a_store_in_two_dimensions_is_named():
    (x,) = buffers("X", shape=(4, 5))
    built = build(loop(5, lambda i: tir.BufferStore(x, 1.0, [i, 2 - i])), x, check_bounds=True)
    with pytest.raises(BoundsError, match="`X`"):
        built(np.zeros((4, 5), "float32"))


def test_vectors_are_checked_at_both_ends():
    x, y = buffers("X", "Y")
    store = tir.BufferStore(y, x[Ramp(4, 1, 8)], [Ramp(0, 1, 8)])
    with pytest.raises(BoundsError, match="`X`"):
        build(store, x, y, check_bounds=True)(np.zeros(10, "float32"))
    index = decl_buffer((8,), "int32", "I")
    gather = tir.BufferStore(y, x[index[Ramp(0, 1, 8)]], [Ramp(0, 1, 8)])
    built = build(gather, x, index, y, check_bounds=True)
    places = np.arange(8, dtype="int32")
    built(np.zeros(10, "float32"), places)
    places[5] = -3
    with pytest.raises(BoundsError, match=r"\[-3..7\]"):
        built(np.zeros(10, "float32"), places)


def test_lanes_that_are_off_are_not_checked():
    x, y = buffers("X", "Y", shape=(6,))
    lanes = Ramp(0, 1, 8)
    mask = lanes < tir.Broadcast(tir.IntImm("int32", 6), 8)
    store = tir.BufferStore(y, tir.BufferLoad(x, [lanes], mask), [lanes], mask)
    values = np.arange(6, dtype="float32")
    np.testing.assert_array_equal(build(store, x, y, check_bounds=True)(values), values)


def test_division_by_zero_is_an_error_under_checks_and_zero_without():
    x, y = buffers("X", "Y", dtype="int32")
    body = loop(10, lambda i: tir.BufferStore(y, tir.FloorDiv(tir.IntImm("int32", 7), x[i]), [i]))
    values = np.zeros(10, "int32")
    assert (build(body, x, y)(values) == 0).all()
    with pytest.raises(TVMagicError, match="`main`"):
        build(body, x, y, check_bounds=True)(values)


ENDLESS = """
import _thread, os, signal, sys, threading, time
import numpy as np
from tvmagic import codegen, tir, runtime
from tvmagic.ir import ForKind, IRModule, PrimFunc, decl_buffer
from tvmagic.ir.expr import Var
runtime.set_num_threads(2)
x = decl_buffer((1024,), "float32", "X")
i, j, k, m = (Var(v, "int32") for v in "ijkm")
body = tir.BufferStore(x, x[k] * tir.FloatImm("float32", 0.5) + tir.Cast("float32", i + j), [k])
kind = ForKind[sys.argv[1]]
inner = tir.For(k, 0, 1024, 0, tir.For(m, 0, 64, 0, body))
loops = tir.For(i, 0, 1 << 30, kind, tir.For(j, 0, 1 << 30, 0, inner))
func = PrimFunc([x], loops, attrs={"global_symbol": "main", "tir.noalias": True})
built = codegen.compile_module(IRModule.from_expr(func))
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.time()
try:
    built(np.zeros(1024, "float32"))
except KeyboardInterrupt:
    seconds = time.time() - begin
    print("stopped", seconds < 3)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("kind", ["SERIAL", "PARALLEL"])
def test_ctrl_c_stops_a_long_loop(kind):
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS, kind], capture_output=True, text=True, timeout=60, env=environment()
    )
    assert done.stdout.strip() == "stopped True", done.stderr


def test_other_python_threads_run_while_a_kernel_does():
    (x,) = buffers("X", shape=(1 << 16,))
    body = loop(300, lambda _: loop(1 << 16, lambda i: tir.BufferStore(x, tir.sin(x[i]) + 1.0, [i])))
    built = build(body, x)
    ticks, stop = [], threading.Event()

    def count():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.perf_counter()
    built(np.zeros(1 << 16, "float32"))
    end = time.perf_counter()
    stop.set()
    thread.join()
    assert sum(begin < t < end for t in ticks) >= (end - begin) * 20


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_parallel_loops_run_every_iteration_once(threads):
    before = runtime.num_threads()
    runtime.set_num_threads(threads)
    try:
        (x,) = buffers("X", shape=(1000,), dtype="int32")
        built = build(loop(1000, lambda i: tir.BufferStore(x, x[i] + i, [i]), ForKind.PARALLEL), x)
        values = np.zeros(1000, "int32")
        for _ in range(200):
            built(values)
        np.testing.assert_array_equal(values, np.arange(1000) * 200)
    finally:
        runtime.set_num_threads(before)


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2, reason="Linux with 2 processors"
)
@pytest.mark.parametrize("extra", [0, 2])
def test_workers_run_where_the_caller_is_not(extra):
    """With more threads than processors they may run where the caller is, too."""
    allowed = os.sched_getaffinity(0)
    script = f"""
import os, numpy as np
import tvmagic
from tvmagic import runtime, te
runtime.set_num_threads({len(allowed) + extra})
x = te.placeholder((4096,), name="X")
y = te.compute((4096,), lambda i: x[i] + 1, name="Y")
s = te.create_schedule(y.op)
s[y].parallel(y.op.axis[0])
others = set(os.listdir("/proc/self/task"))
built = tvmagic.build(s, [x, y])
built(np.zeros(4096, "float32"), np.zeros(4096, "float32"))
print([sorted(os.sched_getaffinity(int(t))) for t in set(os.listdir("/proc/self/task")) - others])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=environment())
    places = [set(p) for p in ast.literal_eval(done.stdout)]
    assert len(places) == len(allowed) - 1 + extra, done.stderr
    for there in places:
        assert there == places[0] <= allowed and len(there) == len(allowed) - (extra == 0)


def test_kernels_may_be_called_from_several_threads():
    (x,) = buffers("X", shape=(4096,), dtype="int32")
    built = build(loop(4096, lambda i: tir.BufferStore(x, x[i] + 1, [i]), ForKind.PARALLEL), x)
    arrays = [np.zeros(4096, "int32") for _ in range(4)]

    def work(array):
        for _ in range(100):
            built(array)

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((a == 100).all() for a in arrays)


def test_a_forked_child_has_a_pool_of_its_own():
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    script = """
import os, numpy as np
from tvmagic import codegen, tir, runtime
from tvmagic.ir import ForKind, IRModule, PrimFunc, decl_buffer
from tvmagic.ir.expr import Var
runtime.set_num_threads(3)
x, i = decl_buffer((100,), "int32", "X"), Var("i", "int32")
body = tir.For(i, 0, 100, ForKind.PARALLEL, tir.BufferStore(x, x[i] + 1, [i]))
built = codegen.compile_module(IRModule.from_expr(PrimFunc([x], body, attrs={"global_symbol": "main"})))
a = np.zeros(100, "int32")
built(a)
pid = os.fork()
built(a)
if pid == 0:
    os._exit(0 if (a == 2).all() else 1)
print(os.waitpid(pid, 0)[1], (a == 2).all())
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60, env=environment()
    )
    assert done.stdout.strip() == "0 True", done.stderr


def test_time_evaluator():
    x, y = buffers("X", "Y", shape=(1000,))
    built = build(loop(1000, lambda i: tir.BufferStore(y, x[i] + 1.0, [i])), x, y)
    arrays = [np.zeros(1000, "float32") for _ in "XY"]
    result = built.time_evaluator(built.entry_name, tvmagic.cpu(), number=5, repeat=3)(*arrays)
    assert len(result.results) == 3 and 0 < result.min <= result.mean <= result.max
    assert "mean (ms)" in str(result)
    longer = built.time_evaluator("main", tvmagic.cpu(0), number=1, min_repeat_ms=5)(*arrays)
    assert longer.mean < 1e-3


def test_a_registered_function_is_called():
    seen = []

    @tvmagic.register_func("test.note", override=True)
    def note(*args):
        seen.append(args)
        return 41

    (y,) = buffers("Y", shape=(1,), dtype="int32")
    call = tir.call_packed("test.note", 7, tir.FloatImm("float32", 2.5), "text")
    built = build(tir.BufferStore(y, call + 1, [0]), y)
    assert built()[0] == 42 and seen == [(7, 2.5, "text")]
    assert tvmagic.get_global_func("test.note") is note
    missing = build(tir.Evaluate(tir.call_packed("test.nothing")), y)
    with refuses("global_function.unknown"):
        missing(np.zeros(1, "int32"))
    with refuses("global_function.registered_twice"):
        tvmagic.register_func("test.note", note)


def test_an_unknown_extern_function_is_refused():
    (y,) = buffers("Y", shape=(1,))
    built = build(tir.BufferStore(y, tir.call_extern("float32", "no_such_function", 1.0), [0]), y)
    with pytest.raises(TVMagicError, match="`no_such_function`"):
        built(np.zeros(1, "float32"))


def test_importing_loads_no_llvm():
    code = "import sys, tvmagic, tvmagic.runtime, tvmagic.codegen; print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment())
    assert done.stdout.strip() == "False", done.stderr
