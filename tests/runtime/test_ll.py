"""The LLVM text that comes with the package is well formed, each file by itself and all parts together."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import llvmlite.binding as llvm
import pytest

import tvmagic
import tvmagic.codegen as codegen
import tvmagic.runtime as runtime
from tvmagic import te
from tvmagic.codegen.emit.runtime_calls import GLOBALS
from tvmagic.runtime.abi import ERROR_RECORDS, ERROR_SLOTS
from tvmagic.runtime.support_code import PARTS, own_parts, support_module

RUNTIME = pathlib.Path(runtime.__file__).parent / "ll"
CODEGEN = pathlib.Path(codegen.__file__).parent / "emit" / "ll"
POSIX = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu", "arm64-apple-macosx14.0"]
WINDOWS = ["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc"]
# What kernel32 and the C runtime of Windows have; `__chkstk` and `_fltused` are asked for by code of large frames and of floats.
OF_WINDOWS = set(
    """InitializeSRWLock AcquireSRWLockExclusive ReleaseSRWLockExclusive InitializeConditionVariable
    SleepConditionVariableSRW WakeAllConditionVariable CreateThread WaitForSingleObject CloseHandle SwitchToThread
    _aligned_malloc _aligned_free __chkstk _fltused memset memcpy memmove expf logf tanhf""".split()
)


@pytest.mark.parametrize("path", sorted(RUNTIME.glob("*.ll")), ids=lambda p: p.stem)
def test_a_file_of_the_runtime_assembles(path: pathlib.Path) -> None:
    llvm.parse_assembly(path.read_text(encoding="utf-8")).verify()


@pytest.mark.parametrize("path", sorted(CODEGEN.glob("*.ll")), ids=lambda p: p.stem)
def test_a_helper_assembles_and_is_named_after_its_file(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    module = llvm.parse_assembly("\n".join([*GLOBALS.values(), text]))
    module.verify()
    assert [f.name for f in module.functions if not f.is_declaration] == [f"tvm.{path.stem.partition('_')[0]}"]


def missing(module: Any) -> set[str]:
    """The functions that a module calls and does not define."""
    return {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}


def test_the_helpers_of_webassembly_assemble_together() -> None:
    paths = sorted((CODEGEN / "wasm").glob("*.ll"), reverse=True)
    module = llvm.parse_assembly("\n".join(path.read_text(encoding="utf-8") for path in paths))
    module.verify()
    defined = [f.name for f in module.functions if not f.is_declaration]
    assert defined == [f"tvm.{path.stem}" for path in paths]


def test_the_parts_of_the_runtime_define_what_they_use() -> None:
    machines = {part for triple in [*POSIX, *WINDOWS] for part in own_parts(triple)}
    assert {p.stem for p in RUNTIME.glob("*.ll")} == {*machines, *PARTS, "builtins"}
    for triple in [*POSIX, *WINDOWS]:
        module = support_module(triple)
        assert module.triple == triple
        asked = {name for name in missing(module) if not name.startswith("Py")}
        if triple in WINDOWS:
            assert asked <= OF_WINDOWS
        else:
            of_linux = {"sched_getcpu", "sched_getaffinity", "__sched_cpucount"} if "linux" in triple else set()
            expected = {"sched_yield", "posix_memalign", "free", *of_linux}
            assert {n for n in asked if not n.startswith("pthread_")} == expected
        assert not [g.name for g in module.global_variables if g.is_declaration]
        assert len(machine_of(triple).emit_object(module)) > 1000


def machine_of(triple: str) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(triple).create_target_machine(reloc="pic")


@pytest.mark.parametrize("triple", [*POSIX, *WINDOWS])
def test_a_kernel_asks_its_system_only_for_what_it_has(triple: str) -> None:
    """A kernel with scratch memory, threads, a check of its arguments and functions of mathematics."""
    n = te.var("n")
    a = te.placeholder((n, 64), name="A")
    b = te.compute((n, 64), lambda i, j: te.tanh(a[i, j]) + te.exp(a[i, j]), name="B")
    c = te.compute((n, 64), lambda i, j: b[i, j] * b[i, 63 - j], name="C")
    s = te.create_schedule(c.op)
    s[c].parallel(c.op.axis[0])
    built = tvmagic.build(s, [a, c], target=f"llvm -mtriple={triple}")
    module = llvm.parse_assembly(built.get_source("ll"))
    asked = missing(module)
    assert "tvm.alloc" in {f.name for f in module.functions} or {"aligned_alloc", "_aligned_malloc"} & asked
    if triple in WINDOWS:
        assert asked <= OF_WINDOWS
    else:
        assert not {name for name in asked if name.startswith("_aligned")}


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
    room = f"[{ERROR_SLOTS * ERROR_RECORDS + 1} x i64]"
    assert room in text and room in GLOBALS["error"]
