"""Modules of LLVM in garbage cycles: Python calls the finalizers of a cycle in any order, LLVM needs the context last."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import tvmagic

# Each kind of cycle puts the objects into the garbage collector's list in another order.
CYCLES = """
import gc
from tvmagic.target import layout_of
from tvmagic.codegen import resolved
from tvmagic.codegen.llvm.optimize import assembly_of, optimized
from tvmagic.target.llvm_module import parse_module

gc.disable()
target = resolved()
triple, layout = layout_of(target)
text = f'target datalayout = "{layout}"\\ntarget triple = "{triple}"\\ndefine void @f() {{\\n  ret void\\n}}\\n'

class Box:
    pass

def cycle_of_box(module):
    box = Box()
    box.module, box.box = module, box

def cycle_of_module(module):
    module.module = module

def cycle_of_context(module):
    module._context.context = module._context

def traceback_of(run):
    try:
        run()
    except Exception as error:
        kept = error  # the traceback holds this frame, and this frame the traceback
    else:
        raise AssertionError("no error")

for make in (lambda: parse_module(text), lambda: optimized(text, target)):
    for cycle in (cycle_of_box, cycle_of_module, cycle_of_context):
        for _ in range(20):
            cycle(make())
            gc.collect()
for broken in ("", "define void @g() {\\n  broken", "define i32 @f() {\\n  ret i32 0\\n}\\n"):
    for _ in range(20):
        source = text + "define void @f() {\\n  ret void\\n}" if not broken else text
        traceback_of(lambda: optimized(source, target, (broken,) if broken else ()))
        gc.collect()
print("alive")
"""


def test_modules_in_cycles_are_disposed_before_their_context():
    done = subprocess.run([sys.executable, "-c", CYCLES], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and done.stdout == "alive\n", done.stderr[-2000:]


def test_contexts_are_created_in_one_file_only():
    package = pathlib.Path(tvmagic.__file__).parent
    files = [path for path in package.rglob("*.py") if "create_context" in path.read_text(encoding="utf-8")]
    assert [path.relative_to(package).as_posix() for path in files] == ["target/llvm_module.py"]
