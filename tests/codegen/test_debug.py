"""From a line of the lowered program to its instructions."""

import re

import pytest
from handmade import matmul, module

from tvmagic import codegen, tir
from tvmagic.codegen.emit.debug import DebugInfo, Lines, lines_of_assembly, lines_of_llvm
from tvmagic.codegen.text.writer import FunctionText, ModuleText
from tvmagic.ir import Ramp, decl_buffer


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu"])
def test_instructions_know_their_lines(triple):
    x, y, z = (decl_buffer((8,), "float32", n) for n in "XYZ")
    place = [Ramp(0, 1, 8)]
    body = tir.SeqStmt([tir.BufferStore(y, tir.sqrt(x[place]), place), tir.BufferStore(z, x[place] / y[place], place)])
    found = codegen.assembly_lines(module(body, x, y, z), f"llvm -mtriple={triple}")
    source = found.source.splitlines()
    roots = next(i for i, text in enumerate(source, 1) if "sqrt" in text)
    assert any("sqrt" in found.assembly[i] for i in found.of_line(roots))
    assert any("div" in found.assembly[i] for i in found.of_line(roots + 1))
    assert not any(".loc" in row or "debug" in row for row in found.assembly)


def test_the_inner_loop_of_a_matmul_belongs_to_its_update():
    found = codegen.assembly_lines(matmul(64), "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    update = next(i for i, text in enumerate(found.source.splitlines(), 1) if "T.Broadcast(A_1[" in text)
    fused = [i for i, row in enumerate(found.assembly) if "vfmadd" in row]
    assert fused and all(found.line_of[i] == update for i in fused)


def test_llvm_knows_its_lines_and_is_the_text_that_is_made_without_them():
    mod = codegen.with_threads(matmul(64))
    texts = codegen.code_texts(mod)
    text = texts.llvm()
    assert text == codegen.llvm_ir(matmul(64)), "nothing of the debug locations is left, metadata are numbered from 0"
    source, rows = text.source.splitlines(), text.splitlines()
    update = next(i for i, line in enumerate(source, 1) if "T.Broadcast(A_1[" in line)
    fused = [i for i, row in enumerate(rows) if re.search(r"\bf(mul|ma)|llvm.fm", row) and "declare" not in row]
    assert fused and all(text.line_of[i] == update for i in fused)
    assert len(text.line_of) == len(rows) and texts.assembly().source == text.source


ASSEMBLY = """\
\t.file\t1 "." "lowered.py"
\t.section\t.text,"ax",@progbits
\t.globl\tmain
main:
.Lfunc_begin0:
\t.loc\t1 3 0
\t.cfi_startproc
\tpushq\t%rbp
# a remark
\t.loc\t1 7 5 prologue_end

.LBB0_1:
\tvmovups\t(%rdi), %ymm0
\t.loc\t1 8 1
\tvaddps\t%ymm0, %ymm0, %ymm0
other:
\tretq
\t.section\t.debug_info,"",@progbits
\t.byte\t1
\tnop
\t.text
\t.p2align\t4
\tnop
.data
_word:
\t.long\t7
"""


def test_the_lines_of_an_assembly_text():
    """A location holds up to the next one, through the labels of loops; another function's label or a section ends it."""
    found = lines_of_assembly("source", ASSEMBLY)
    assert dict(zip(found.assembly, found.line_of)) == {
        '\t.section\t.text,"ax",@progbits': 0,
        "\t.globl\tmain": 0,
        "main:": 0,
        "\tpushq\t%rbp": 3,
        ".LBB0_1:": 0,
        "\tvmovups\t(%rdi), %ymm0": 7,
        "\tvaddps\t%ymm0, %ymm0, %ymm0": 8,
        "other:": 0,
        "\tretq": 0,
        "\t.text": 0,
        "\t.p2align\t4": 0,
        "\tnop": 0,
        ".data": 0,
        "_word:": 0,
        "\t.long\t7": 0,
    }
    assert found.of_line(7) == [5] and found.of_line(3) == [3] and found.of_line(99) == [] and found.source == "source"


def test_an_assembly_text_begins_with_no_line() -> None:
    found = lines_of_assembly("", "\tnop\n\t.loc\t1 3 0\n\tnop\n")
    assert found.assembly == ("\tnop", "\tnop") and found.line_of == (0, 3)


def test_what_is_not_in_the_text_has_the_line_before_it() -> None:
    """The first instruction of a function has to have a line, or LLVM takes the function's."""
    x = decl_buffer((8,), "float32", "X")
    mod, absent = module(tir.BufferStore(x, 0.0, [0]), x), tir.Evaluate(1)
    (function,) = mod.functions.values()
    text = ModuleText("", "")
    info = DebugInfo(text, Lines(mod))
    head = "define void @f()"
    out, bare = FunctionText(text, head + info.subprogram(function, "f")), FunctionText(text, head)
    locations = []
    for node in (absent, function.body, absent, absent, function.body):
        for where in (out, bare):
            info.at(where, node)
        number = int(out.location.removeprefix(", !dbg !"))
        locations.append(re.sub(r"!\d+", "SCOPE", text.metadata[number]))
    line = info.lines.line_of(function.body)
    assert line > 1 and bare.location == ""
    assert locations == [f"!DILocation(line: {n}, column: 1, scope: SCOPE)" for n in (0, *[line] * 4)]
    assert sum("DILocation" in node for node in text.metadata) == 2


LLVM = """\
define i32 @f(ptr %p) !dbg !4 {
  %x = load i32, ptr %p, align 4, !dbg !7, !tbaa !9
  %y = add i32 %x, 1
  %z = add i32 %y, 2, !dbg !8, !range !10
  ret i32 %z, !dbg !8
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!1}
!other = !{!11}

!0 = distinct !DICompileUnit(language: DW_LANG_C)
!1 = !{i32 7}
!4 = distinct !DISubprogram(name: "f", line: 2)
!7 = !DILocation(line: 5, column: 1, scope: !4)
!8 = distinct !DILocation(line: 6, column: 1, scope: !4)
!9 = !{!12, !12}
!10 = !{i32 0, i32 9}
!11 = !{!10}
!12 = !{!"root"}
"""


def test_the_lines_of_llvm_text():
    """What is there for debugging alone is gone; the rest has numbers from 0 on, in the order of its use."""
    found = lines_of_llvm("source", LLVM)
    assert found.splitlines() == [
        "define i32 @f(ptr %p) {",
        "  %x = load i32, ptr %p, align 4, !tbaa !0",
        "  %y = add i32 %x, 1",
        "  %z = add i32 %y, 2, !range !2",
        "  ret i32 %z",
        "}",
        "!other = !{!3}",
        "",
        "!0 = !{!1, !1}",
        '!1 = !{!"root"}',
        "!2 = !{i32 0, i32 9}",
        "!3 = !{!2}",
    ]
    assert found.line_of == (0, 5, 0, 6, 6, 0, 0, 0, 0, 0, 0, 0) and found.source == "source"
    plain = lines_of_llvm("", "define void @f() {\n  ret void\n}\n\n")
    assert plain == "define void @f() {\n  ret void\n}\n" and plain.line_of == (0, 0, 0)


def test_loads_of_one_line_are_told_apart_in_llvm_and_in_assembly():
    x, y, z = (decl_buffer((64,), "float32", n) for n in "XYZ")
    i = tir.Var("i", "int32")
    store = tir.BufferStore(z, x[i] / y[63 - i], [i])
    mod = codegen.with_threads(module(tir.For(i, 0, 64, 0, store), x, y, z))
    texts = codegen.code_texts(mod)
    loads = {store.value.a.span.origin, store.value.b.span.origin}
    emitted, assembly = texts.emitted(), texts.assembly()
    assert {n for n, row in zip(emitted.origins, emitted.splitlines()) if " load float" in row} == loads
    assert loads <= set(assembly.origins)
    store_line = next(line for line, row in zip(emitted.line_of, emitted.splitlines()) if "fdiv" in row)
    assert all(line == store_line for line, n in zip(emitted.line_of, emitted.origins) if n)


def test_a_node_that_was_rewritten_has_the_point_of_its_origin():
    x = decl_buffer((8,), "float32", "X")
    store = tir.BufferStore(x, x[1] + 1.0, [0])
    lines = Lines(module(store, x))
    again = store.replace(indices=(tir.IntImm("int32", 2),))
    assert lines.point_of(again) == lines.point_of(store) and lines.line_of(store) > 1
    assert lines.point_of(store.value.a) == (lines.line_of(store), 2)
    assert lines.origins[lines.point_of(store)] == store.span.origin
    assert lines.point_of(tir.Evaluate(3)) == (0, 1)
