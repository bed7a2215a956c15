"""Lines of OpenCL C lead to lines of the last program."""

from tvmagic import codegen, lower, te, tir
from tvmagic.codegen.gpu.opencl import opencl_text


def test_opencl_lines_lead_to_statements_of_the_program() -> None:
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[i, j] * 2, name="B")
    sch = tir.Schedule(te.create_prim_func([a, b]))
    i, j = sch.get_loops(sch.get_block("B"))
    outer, inner = sch.split(j, [None, 8])
    sch.bind(i, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    text = opencl_text(codegen.last_program(lower(sch.mod), "opencl"))
    program = text.source.splitlines()
    leads = {row.strip(): program[line - 1].strip() for row, line in zip(text.splitlines(), text.line_of) if line}
    assert "\0" not in text and len(text.splitlines()) == len(text.line_of) - text.endswith("\n")
    assert leads["for (int j_0 = 0; j_0 < 8; ++j_0) {"].startswith("for j_0 in")
    (store,) = [program for row, program in leads.items() if row.startswith("B[")]
    assert store.startswith(("B_1[", "B["))
    (thread,) = [program for row, program in leads.items() if "get_local_id" in row]
    assert "threadIdx.x" in thread
