"""Options that need the analysis of buffer contents, which is in compat."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Python as it is where the folder `tvmagic/compat` is missing.
WITHOUT_COMPAT = """
import sys, tvmagic

class Missing:
    def find_spec(self, name, path, target=None):
        if name == "tvmagic.compat":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from tvmagic import tir
from tvmagic.errors import TVMagicError
from tvmagic.passes import PassContext
from tvmagic.script import from_source

mod = tvmagic.IRModule({"main": from_source("from tvm.script import tir as T\\n@T.prim_func\\n"
    "def main(A: T.Buffer((4,), 'int32')):\\n    A[0] = 1 + 2")})
make = getattr(tir.transform, sys.argv[1])
with PassContext(config={f"tir.{sys.argv[1]}": {sys.argv[2]: False}}):
    make()(mod)
try:
    with PassContext(config={f"tir.{sys.argv[1]}": {sys.argv[2]: True}}):
        make()(mod)
except TVMagicError as error:
    print(error)
assert not hasattr(tvmagic, "topi") and not hasattr(tir, "layout")
"""


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("Simplify", "propagate_knowns_to_prove_conditional"),
        ("Simplify", "propagate_knowns_to_simplify_expressions"),
        ("RemoveNoOp", "use_dataflow_analysis"),
    ],
)
def test_options_are_refused_by_name_without_compat(name: str, option: str) -> None:
    command = [sys.executable, "-c", WITHOUT_COMPAT, name, option]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"`tir.{name}.{option}`" in done.stdout and "`tvmagic.compat`" in done.stdout
