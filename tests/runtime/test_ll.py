"""The LLVM text that comes with the package is well formed, each file by itself and all parts together."""

from __future__ import annotations

import pathlib
import re

import llvmlite.binding as llvm
import pytest

import tvmagic.codegen as codegen
import tvmagic.runtime as runtime
from tvmagic.codegen.support import ERROR_SLOTS, GLOBALS
from tvmagic.runtime.support_code import PARTS, machine_part, support_module

RUNTIME = pathlib.Path(runtime.__file__).parent / "ll"
CODEGEN = pathlib.Path(codegen.__file__).parent / "ll"
TRIPLES = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu"]


@pytest.mark.parametrize("path", sorted(RUNTIME.glob("*.ll")), ids=lambda p: p.stem)
def test_a_file_of_the_runtime_assembles(path: pathlib.Path) -> None:
    llvm.parse_assembly(path.read_text(encoding="utf-8")).verify()


@pytest.mark.parametrize("path", sorted(CODEGEN.glob("*.ll")), ids=lambda p: p.stem)
def test_a_helper_assembles_and_is_named_after_its_file(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    module = llvm.parse_assembly("\n".join([*GLOBALS.values(), text]))
    module.verify()
    assert [f.name for f in module.functions if not f.is_declaration] == [f"tvm.{path.stem}"]


def test_the_helpers_of_webassembly_assemble_together() -> None:
    paths = sorted((CODEGEN / "wasm").glob("*.ll"), reverse=True)
    module = llvm.parse_assembly("\n".join(path.read_text(encoding="utf-8") for path in paths))
    module.verify()
    defined = [f.name for f in module.functions if not f.is_declaration]
    assert defined == [f"tvm.{path.stem}" for path in paths]


def test_the_parts_of_the_runtime_define_what_they_use() -> None:
    found = {machine_part(triple) for triple in TRIPLES}
    assert {p.stem for p in RUNTIME.glob("*.ll")} == {*found, *PARTS, "builtins"}
    for triple in TRIPLES:
        module = support_module(triple)
        assert module.triple == triple
        missing = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
        assert {n for n in missing if not n.startswith(("Py", "pthread_"))} == {"sched_yield", "posix_memalign", "free"}
        assert not [g.name for g in module.global_variables if g.is_declaration]


def test_helpers_look_functions_up_where_the_runtime_puts_them() -> None:
    table = re.search(r"@table = constant .*?\[(ptr .*)\]", (RUNTIME / "questions.ll").read_text(encoding="utf-8"))
    assert table is not None
    order = re.findall(r"@(\w+)", table[1])
    for place, name in enumerate(["launch", "alloc", "free", "poll", "packed"]):
        text = (CODEGEN / f"{name}.ll").read_text(encoding="utf-8")
        assert f"ptr %rt, i64 {place}\n" in text
        assert order[place] == {"free": "release"}.get(name, name)


def test_a_failure_has_as_many_values_as_there_is_room() -> None:
    text = (CODEGEN / "fail.ll").read_text(encoding="utf-8")
    assert f"[{ERROR_SLOTS} x i64]" in text and f"[{ERROR_SLOTS} x i64]" in GLOBALS["error"]
