"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_levels import LEVEL

from tvmagic.errors import TVMagicError
from tvmagic.passes import prim_func_pass
from tvmagic.tir.schedule import instruction as i

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n# (tvmagic/\S+?)(, at the end|, after `([^\n]+)`)?\n(.*?)```", re.DOTALL)

FIRST = """
import subprocess
import sys
from tvmagic import arith, tir

x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
assert str(arith.Analyzer().simplify(x - tir.max(x - y, 0))) == "T.min(x, y)"
test = "/arith/test_rules.py::test_rule_fires_and_keeps_the_value[Sub: x - max(x - y, 0) -> min(x, y)]"
command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", sys.argv[1] + test]
done = subprocess.run(command, capture_output=True, text=True)
assert done.returncode == 0, done.stdout
"""

PRIMITIVE = """
import inspect
import pydoc
import numpy as np
import pytest
import tvmagic
from tvmagic import tir
from tvmagic.errors import TVMagicError
from tvmagic.passes import recording
from tvmagic.script import tir as T

@T.prim_func
def add_one(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1.0

assert "another name" in pydoc.render_doc(tir.Schedule.rename_loop)
assert list(inspect.signature(tir.Schedule.rename_loop).parameters) == ["self", "loop", "name"]
sch = tir.Schedule(add_one, debug_mask="all")
(loop,) = sch.get_loops("B")
with recording() as record:
    row = sch.rename_loop(loop, "row")
assert "for row in range(16)" in str(sch.mod) and "axis.spatial(16, row)" in str(sch.mod)
assert [(s.name, s.kind, s.changed) for s in record] == [("rename_loop", "schedule", True)]
assert 'l2 = sch.rename_loop(loop=l1, name="row")' in str(sch.trace)
again = tir.Schedule(add_one)
tir.schedule.Trace.apply_json_to_schedule(sch.trace.as_json(), again)
assert again.mod.script() == sch.mod.script()
sch.vectorize(sch.split(row, [None, 4])[1])
x, y = np.arange(16, dtype="float32"), np.empty(16, "float32")
tvmagic.build(sch.mod)(x, y)
np.testing.assert_array_equal(y, x + 1)
before = again.mod
with pytest.raises(tir.schedule.ScheduleError, match="the name of a loop is an identifier, not `a b`"):
    again.rename_loop(again.get_loops("B")[0], "a b")
assert again.mod is before
with pytest.raises(TVMagicError, match="takes a loop as `loop`"):
    again.rename_loop(again.get_block("B"), "row")
"""

PASS = """
import numpy as np
import tvmagic
from tvmagic import te
from tvmagic.driver import default_passes
from tvmagic.notebook import Passes
from tvmagic.passes import recording
from tvmagic.tir import transform

assert "powers of two" in transform.ShiftForProduct.__doc__ and "ShiftForProduct" in dir(transform)
assert "tir.ShiftForProduct" in [p.name for p in default_passes()]
A = te.placeholder((4, 8), name="A", dtype="int32")
B = te.compute((4, 8), lambda i, j: A[i, j] * 6, name="B")
with recording() as record:
    module = tvmagic.lower(te.create_schedule(B.op), [A, B])
step = record["ShiftForProduct"]
assert step.changed and "i * 8" in str(step.before) and "T.shift_left(i, 3)" in str(step.after)
assert "* 6" in str(step.after), "6 is no power of two"
assert [n.text for n in step.notes][0] == "`i * 8` becomes a shift"
assert "becomes a shift" in str(Passes(record, ["ShiftForProduct"]))
again = transform.ShiftForProduct()(module)
assert again is module, "nothing is left to do"
x, y = np.arange(-16, 16, dtype="int32").reshape(4, 8), np.empty((4, 8), "int32")
tvmagic.build(module)(x, y)
np.testing.assert_array_equal(y, x * 6)
"""

LATE_PASS = """
import numpy as np
import tvmagic
from tvmagic import codegen, te
from tvmagic.passes import recording

A = te.placeholder((2, 64), name="A")
B = te.compute((2, 64), lambda i, j: A[i, j] * 6, name="B")
module = tvmagic.lower(te.create_schedule(B.op), [A, B])
with recording() as record:
    last = codegen.last_program(module)
step = record["UnrollPairs"]
assert step.changed and "T.unroll(2)" in str(step.after), str(step.after)
assert [n.text for n in step.notes] == ["unrolled loop `i`"], step.notes
with recording() as record:
    assert codegen.last_program(last) is last
    codegen.last_program(module, "nvptx")
assert "skipped" in next(s for s in record.steps if s.name == "late.UnrollPairs" and not s.changed and s.notes).notes[0].text
x, y = np.arange(128, dtype="float32").reshape(2, 64), np.empty((2, 64), "float32")
tvmagic.build(module)(x, y)
np.testing.assert_array_equal(y, x * 6)
"""

NODE = """
from tvmagic import tir
from tvmagic.ir import (
    BufferStore, Evaluate, IntImm, Mutator, Repeat, Var, decl_buffer, handles, load_json, post_order_visit, save_json,
    structural_equal, structural_hash,
)

def repeat(n, times=3):
    return Repeat(n * times, BufferStore(decl_buffer((4,), "int32", "A"), n, [n]))

n, m = Var("n", "int32"), Var("m", "int32")
node = repeat(n)
assert "with T.repeat(n * 3):" in str(node) and "    A[n] = n" in str(node)
assert structural_equal(node, repeat(m), True) and not structural_equal(node, repeat(n, 4), True)
assert structural_hash(node, True) == structural_hash(repeat(m), True) != structural_hash(repeat(n, 4), True)
seen = []
post_order_visit(node, lambda part: seen.append(type(part).__name__))
assert seen.count("Repeat") == 1 and seen[-1] == "Repeat" and "BufferStore" in seen and "Mul" in seen

class Twice(Mutator):
    @handles(IntImm)
    def constant(self, node):
        return IntImm(node.dtype, 2 * node.value) if node.value == 3 else node

changed = Twice().visit(node)
assert structural_equal(changed, node.replace(times=n * 6)) and changed.body is node.body
assert Twice().visit(changed) is changed
assert structural_equal(load_json(save_json(node)), node, True)

import numpy as np
import tvmagic
from tvmagic.ir import structural_equal
from tvmagic.eval.cost import count
from tvmagic.cinn.text.printer import cinn_text
from tvmagic.eval.machine import run_function
from tvmagic.te.numpy_stmt import run_statement
from tvmagic.script import classic, from_source

func = from_source(
    "from tvmagic.script import tir as T\\n"
    "@T.prim_func\\n"
    "def main(A: T.Buffer((4,), 'float32')):\\n"
    "    with T.repeat(3):\\n"
    "        for i in range(4):\\n"
    "            A[i] = A[i] * 2.0\\n"
)
assert isinstance(func.body, Repeat) and "with T.repeat(3):" in func.script()
assert structural_equal(from_source(func.script()), func)
assert "repeat (3) {" in classic(func) and "repeat (3)\\n" in cinn_text(func)
array = np.ones(4, "float32")
run_statement(func.body, {func.buffer_map[func.params[0]]: array}, {})
assert array.tolist() == [8.0] * 4
start = np.arange(4, dtype="float32")
ran, built = start.copy(), start.copy()
run_function(func, [ran])
tvmagic.build(func)(built)
np.testing.assert_array_equal(ran, start * 8)
np.testing.assert_array_equal(built, start * 8)
assert count(func).total.arithmetic == 12
"""

TARGET = """
import tvmagic
from tvmagic import codegen, te
from tvmagic.codegen import Target
from tvmagic.target.names import target_text
from tvmagic.runners import FAMILIES, ways

A = te.placeholder((64,), name="A")
B = te.compute((64,), lambda i: A[i] * 3.0, name="B")
s = te.create_schedule(B.op)
s[B].vectorize(s[B].split(B.op.axis[0], 4)[1])
module = tvmagic.lower(s, [A, B])
target = Target(target_text("loongarch64"))
assert "vfmul.s" in codegen.assembly(module, target)
wide = Target(str(target).replace("+lsx", "+lsx,+lasx"))
assert (target.machine.lanes("float32"), wide.machine.lanes("float32")) == (4, 8)
assert target.machine.caches[2].size == 16 << 20 and target.machine.tile("float32").registers == 32
assert not target.has_kernels and not target.is_host
assert [way.name for way in ways(target)] == ["qemu-loongarch64"] and "loongarch64" in FAMILIES
assert Target("llvm -mtriple=loongarch32-linux-gnu").family.name == ""
"""

MAGIC = """
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from tvmagic.notebook.completion import candidates
from tvmagic.notebook.magics import TensorMagics

shell = InteractiveShell()
shell.run_line_magic("load_ext", "tvmagic")
shell.run_cell_magic("tensor", "double -q", "X: float32[4, 8]\\nY[i, j] = 2 * X[i, j]")
shown = shell.run_line_magic("shapes", "double")
assert "(4, 8)" in shown.text() and "shape" in shown.text()
assert "rank" in shell.run_line_magic("shapes", "double --rank").text()
magics = TensorMagics(shell)
assert candidates("%shapes --", magics) == ["--rank", "--help"] and candidates("%shapes do", magics) == ["double"]
assert "ranks alone" in TensorMagics.shapes.__doc__
with pytest.raises(UsageError, match="there is no argument `--rnk`; did you mean `--rank`"):
    shell.run_line_magic("shapes", "double --rnk")
shell.run_line_magic("unload_ext", "tvmagic")
assert "shapes" not in shell.magics_manager.magics["line"]
"""

PUZZLE = """
import os
os.environ["TVMAGIC_PROGRESS"] = "progress.json"
import shutil
from IPython.core.interactiveshell import InteractiveShell
from tvmagic.puzzles import prove, puzzle, puzzles
from tvmagic.puzzles.__main__ import main

rows = puzzle(25)
assert rows is puzzles()[-1] and (rows.number, rows.name) == (25, "rows")
prove(rows)
assert main(["tvmagic/puzzles/collection/25_rows.py"]) == 0
shell = InteractiveShell()
shell.run_line_magic("load_ext", "tvmagic")
assert "Rows in parallel" in shell.run_line_magic("puzzle", "25").text()
wrong = shell.run_cell_magic("puzzle", "25", rows.wrong[0][0])
assert "which of the two goes from row to row" in wrong.text()
assert "1 of 25 puzzles solved" in shell.run_cell_magic("puzzle", "25", rows.solution).text()
shutil.copy("tvmagic/puzzles/collection/25_rows.py", "rows.py")
assert "solved" in shell.run_cell_magic("puzzle", "rows.py", rows.solution).title
assert "at the first answer" not in shell.run_line_magic("puzzle", "rows.py").text()
"""


def followed(recipe: str) -> list[tuple[str, str | None, str | None, str]]:
    """The blocks of a recipe: the file, where in it (None: a new file), the anchor, the text."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split(f"## {recipe}\n")[1].split("\n## ")[0]
    return [(m[1], m[2], m[3], m[4]) for m in BLOCK.finditer(section)]


def with_imports(old: str, text: str) -> tuple[str, str]:
    """A file with the imports of a block at its top, and the block without them."""
    lines = text.splitlines(keepends=True)
    imports = [line for line in lines if line.startswith(("from ", "import "))]
    rest = "".join(line for line in lines if line not in imports)
    if not imports or not rest.strip():
        return old, text
    future = "from __future__ import annotations\n"
    return old.replace(future, future + "".join(imports), 1), rest.lstrip("\n")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "tvmagic", tmp_path / "tvmagic")
    return tmp_path


@pytest.mark.parametrize(
    "recipe, check",
    [
        ("A first change", FIRST),
        ("A new primitive", PRIMITIVE),
        ("A new pass", PASS),
        ("A new late pass", LATE_PASS),
        ("A new node", NODE),
        ("A new target", TARGET),
        ("A new magic", MAGIC),
        ("A new puzzle", PUZZLE),
    ],
    ids=lambda v: v[:15],
)
def test_a_recipe_works_as_it_is_written(recipe: str, check: str, copy: Path) -> None:
    blocks = followed(recipe)
    assert blocks
    for name, place, anchor, text in blocks:
        file = copy / name
        assert file.exists() == (place is not None), name
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        if old:
            old, text = with_imports(old, text)
        if anchor is None:
            new = f"{old}\n\n{text}" if old else text
        else:
            lines = [line for line in old.splitlines(keepends=True) if anchor in line]
            assert len(lines) == 1, f"`{anchor}` stands once in {name}"
            new = old.replace(lines[0], lines[0] + text)
        file.write_text(new, encoding="utf-8")
    (copy / "check.py").write_text(check, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, "check.py", str(ROOT / "tests")]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_map_lists_the_packages_by_level() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (`[^|]*`) \| \S", text, re.MULTILINE)
    assert {name: int(level) for level, names in rows for name in re.findall(r"`([\w.]+)`", names)} == LEVEL
    assert [int(level) for level, _ in rows] == sorted(LEVEL[re.findall(r"`([\w.]+)`", names)[0]] for _, names in rows)


@pytest.mark.parametrize("recipe", ["A new primitive", "A new pass", "A new magic"])
def test_a_recipe_is_ten_lines(recipe: str) -> None:
    lines = [line for _, _, _, text in followed(recipe) for line in text.splitlines()]
    code = [x for x in lines if x.strip() and not x.startswith(("from ", "import ")) and x.strip()[0] not in '@"']
    assert len(code) <= 10, code


def test_roles_are_known_with_and_without_postponed_annotations() -> None:
    def plain(state, block, loop, sizes, n, ns=()): ...  # type: ignore[no-untyped-def]

    names = ["block", "loop", "sizes", "n", "ns", "return"]
    objects = [i.BlockRef, i.Loop | None, i.Sizes, int, list[int], tuple[i.Loops, object]]
    texts = ["BlockRef", "Loop | None", "Sizes", "int", "list[int]", "tuple[Loops, Any]"]
    for hints in (objects, texts):
        plain.__annotations__ = dict(zip(names, hints))
        kind = i.InstructionKind("Plain", plain, False, None, None)
        assert [p.role for p in kind.parameters] == ["BlockRef", "Loop", "Sizes", None, None]
        assert [p.annotation for p in kind.attrs] == ["int", "list[int]"]
        assert kind.outputs == "Loops"


def test_a_class_makes_a_pass_only_where_it_says_how() -> None:
    class Empty: ...

    with pytest.raises(TVMagicError, match="`Empty`.*`transform_function`"):
        prim_func_pass(Empty, 0)()
