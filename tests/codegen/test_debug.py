"""From a line of the lowered program to its instructions."""

import re

import pytest
from handmade import matmul, module

from tvmagic import codegen, tir
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
