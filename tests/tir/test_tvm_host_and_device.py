"""A function for a host and its device, split into functions and launches."""

from __future__ import annotations

import pytest

import tvmagic as tvm
from tvmagic import te, tir
from tvmagic.errors import TVMagicError
from tvmagic.ir import structural_equal
from tvmagic.script import from_source
from tvmagic.tir.transform import AnnotateDeviceRegions, BindTarget, LowerDeviceKernelLaunch, SplitHostDevice
from tvmagic.tir.transform.threads.host_and_device import _RETURNS_STATUS

HEAD = "from tvm.script import ir as I\nfrom tvm.script import tir as T\n"
CUDA = tvm.target.Target("cuda", host="llvm")


def module(text: str) -> tvm.IRModule:
    return from_source(HEAD + "@I.ir_module\nclass Module:\n" + text)


def added_rows() -> tvm.IRModule:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 64)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    return tvm.lower(s, [a, b])


def test_a_kernel_is_annotated_split_and_launched() -> None:
    mod = AnnotateDeviceRegions()(BindTarget(CUDA)(added_rows()))
    region = mod["main"].body
    assert region.attr_key == "target" and str(region.node) == str(CUDA.without_host())
    assert AnnotateDeviceRegions()(mod)["main"] is mod["main"]  # what is annotated stays
    split = SplitHostDevice()(mod)
    tir.analysis.verify_well_formed(split)
    kernel = split["main_kernel"]
    assert [p.name for p in kernel.params] == ["A", "B", "n", "stride", "stride"]
    assert kernel.attrs["tir.is_global_func"] and "global_symbol" not in kernel.attrs
    assert not {id(p) for p in kernel.params} & {id(p) for p in split["main"].buffer_map}
    launched = LowerDeviceKernelLaunch()(split)
    tir.analysis.verify_well_formed(launched)
    assert launched["main_kernel"].attrs["calling_conv"] == 2
    assert list(launched["main_kernel"].attrs["tir.kernel_launch_params"]) == ["blockIdx.x", "threadIdx.x"]
    assert launched["main_kernel"].attrs["global_symbol"] == "main_kernel"
    call = launched["main"].body.value
    assert call.op.name == "tir.tvm_call_packed" and str(call.args[0]) == '"main_kernel"'
    assert [str(a) for a in call.args[3:4] + call.args[-2:]] == ["n", "(n + 63) // 64", "64"]
    assert structural_equal(from_source(launched.script())["main"], launched["main"])


def test_several_regions_get_names_of_their_own() -> None:
    mod = module("""
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        with T.launch_thread("threadIdx.x", 8) as t:
            A[t] = T.float32(1)
        with T.launch_thread("threadIdx.x", 4) as t:
            A[t] = T.float32(2)
        A[0] = T.float32(3)
""")
    split = SplitHostDevice()(AnnotateDeviceRegions()(mod))
    assert sorted(v.name_hint for v in split.functions) == ["main", "main_kernel", "main_kernel_1"]
    assert "A[0] = T.float32(3.0)" in split["main"].script()


def test_a_device_that_is_called_as_the_host_gives_a_status() -> None:
    mod = module("""
    @T.prim_func
    def main(n: T.int32):
        T.func_attr({"target": T.target("llvm")})
        T.attr(T.target("ext_dev"), "target", 0)
        T.evaluate(n)
""")
    split = SplitHostDevice()(mod)
    text = split["main"].script()
    assert "kernel_error_code: T.int32 = main_kernel(n)" in text.replace("Module.", "")
    assert 'assert kernel_error_code == 0, "Error executing compute kernel"' in text
    assert "return 0" in split["main_kernel"].script() or "T.ret(0)" in split["main_kernel"].script()


CALLS = """
    @T.prim_func
    def main(p: T.handle("float32"), n: T.int32):
        T.func_attr({{"target": T.target("llvm")}})
        Module.callee(p, n * 2)

    @T.prim_func(private=True)
    def callee(p: T.handle("float32"), n: T.int32):
        T.func_attr({{"target": T.target("{target}")}})
        i = T.launch_thread("threadIdx.x", n + 1)
        S = T.allocate([n], "float32", "shared.dyn")
        T.evaluate(i)
"""


def test_launches_pass_extents_and_dynamic_memory() -> None:
    mod = LowerDeviceKernelLaunch()(module(CALLS.format(target="cuda")))
    assert 'T.call_packed("callee", p, n * 2, n * 2 + 1, 4 * (n * 2))' in mod["main"].script()
    assert list(mod["callee"].attrs["tir.kernel_launch_params"]) == ["threadIdx.x", "tir.use_dyn_shared_memory"]


def test_a_call_between_targets_of_one_device_is_external() -> None:
    mod = LowerDeviceKernelLaunch()(module(CALLS.format(target="c")))
    assert 'T.call_extern("void", "callee", p, n * 2)' in mod["main"].script()
    assert mod["callee"].attrs["global_symbol"] == "callee" and "calling_conv" not in mod["callee"].attrs
    same = module(CALLS.format(target="llvm"))
    assert LowerDeviceKernelLaunch()(same) is same


def test_what_cannot_be_split() -> None:
    with pytest.raises(TVMagicError, match="needs the attribute `target`"):
        AnnotateDeviceRegions()(added_rows())
    twice = CALLS.format(target="cuda").replace(
        "        T.evaluate(i)", '        R = T.allocate([n], "float32", "shared.dyn")\n        T.evaluate(i)'
    )
    with pytest.raises(TVMagicError, match="one allocation of dynamic shared memory"):
        LowerDeviceKernelLaunch()(module(twice))
    host = BindTarget(tvm.target.Target("llvm"))(added_rows())
    assert AnnotateDeviceRegions()(host) is host and SplitHostDevice()(host) is host


def test_threads_define_their_variable() -> None:
    """As in TVM, `undefined_vars` does not list the variable of a launch."""
    body = BindTarget(CUDA)(added_rows())["main"].body
    assert "blockIdx.x" not in [v.name for v in tir.analysis.undefined_vars(body)]


def test_whose_code_says_whether_it_failed() -> None:
    """The host's, and that of devices that TVM calls as it calls the host."""
    kinds = [tvm.target.Target(kind).get_target_device_type() for kind in ("llvm", "ext_dev", "hexagon")]
    assert list(_RETURNS_STATUS) == kinds and CUDA.get_target_device_type() not in kinds
