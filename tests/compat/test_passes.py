"""Passes of TVM that no pipeline here runs: user functions, filters, targets."""

import pytest
from pass_checks import module

import tvmagic
from tvmagic import tir
from tvmagic.ir import IRModule
from tvmagic.passes import Sequential, module_pass
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


def test_print_ir_prints_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    mod = module('def main(A: T.Buffer((4,), "float32")):\n    A[0] = T.float32(1)')
    same = Sequential([tvmagic.transform.PrintIR("here"), module_pass(lambda m, ctx: m, opt_level=0)])(mod)
    printed = capsys.readouterr().out
    assert same is mod and printed == f"PrintIR(here):\n{mod.script()}\n"


def test_print_ir_shows_metadata_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    mod = module('def main(A: T.Buffer((4,), "float32")):\n    A[0] = T.float32(1)')
    mod = tvmagic.IRModule({"main": mod["main"].with_attr("note", "two\nlines")})
    for show, said in ((False, "# Metadata omitted"), (True, "metadata = tvm.ir.load_json")):
        tvmagic.transform.PrintIR("", show)(mod)
        assert said in capsys.readouterr().out
    tvmagic.transform.PrintIR()(mod)
    assert "# Metadata omitted" in capsys.readouterr().out


def test_targets_of_functions():
    f = tir.PrimFunc([], tir.Evaluate(0))
    g = f.with_attr("global_symbol", "g")
    target = tvmagic.target.Target("cuda", host="llvm")
    own = g.with_attr("target", tvmagic.target.Target("cuda"))
    mod = transform.BindTarget(target)(
        tvmagic.IRModule({"f": f, "g": g, "h": g.with_attr("tir.is_host_func", 1), "k": own})
    )
    kinds = {n: (mod[n].attrs["target"].kind.name, mod[n].attrs["target"].host) for n in "fghk"}
    assert kinds["f"] == ("cuda", None) and kinds["g"] == kinds["k"] == ("cuda", tvmagic.target.Target("llvm"))
    assert kinds["h"][0] == "llvm" and "tir.is_host_func" not in mod["h"].attrs
