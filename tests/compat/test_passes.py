"""Passes of TVM that no pipeline here runs: user functions, filters, targets."""

from tvmagic.ir import IRModule
from tvmagic.script import from_source
from tvmagic.tir import transform

PROGRAM = """from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8,), "int32"), x: T.int32):
    A[0] = x
"""


def test_functions_of_a_module() -> None:
    mod = IRModule({"main": from_source(PROGRAM)})
    assert transform.Apply(lambda f: f.with_attr("seen", 1))(mod)["main"].attrs["seen"] == 1
    assert len(transform.Filter(lambda f: False)(mod)) == 0 and transform.Filter(lambda f: True)(mod) is mod
    bound = transform.BindTarget("llvm")(mod)
    assert bound["main"].attrs["target"] == "llvm" and transform.BindTarget("c")(bound) is bound
    assert transform.AnnotateEntryFunc()(mod)["main"].attrs["tir.is_entry_func"]
    two = IRModule({"a": mod["main"], "b": mod["main"]})
    assert transform.AnnotateEntryFunc()(two) is two
