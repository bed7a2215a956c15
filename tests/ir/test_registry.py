"""Functions and attributes known by name, and renderers of errors in texts."""

import pytest
from refusals import refuses

import tvmagic
from tvmagic import ir, tir
from tvmagic.ir import registry
from tvmagic.tir.transform import LowerIntrin


def test_a_registered_function_is_part_of_a_program() -> None:
    tvmagic.register_func("tests.add_one", lambda x: x + 1, override=True)
    found = ir.EnvFunc.get("tests.add_one")
    again = ir.load_json(ir.save_json(found))
    assert again.name == "tests.add_one" and again(10) == 11
    assert ir.structural_equal(found, again)
    with refuses("global_function.unknown", error=tvmagic.TVMagicError):
        ir.EnvFunc.get("tests.add_two")
    registry.remove_global_func("tests.add_one")


def test_a_rule_of_a_user_lowers_an_operator() -> None:
    op = ir.Op.made("tir.tests_shifted")

    @ir.register_op_attr("tir.tests_shifted", "default.FLowerIntrin")
    def by_sine(call: ir.Call) -> ir.PrimExpr:
        return tir.sin(call.args[0] + 1.5)

    buffer = tir.decl_buffer((4,), "float32", "A")
    store = tir.BufferStore(buffer, ir.Call("float32", op, [buffer[0]]), [0])
    lowered = LowerIntrin()(ir.IRModule.from_expr(ir.PrimFunc([buffer], store)))
    assert "T.sin(A[0] + T.float32(1.5))" in lowered.script() and "shifted" not in lowered.script()
    assert op.get_attr("default.FLowerIntrin") is by_sine


def test_of_two_attributes_the_one_of_the_higher_level_stays() -> None:
    op = ir.Op.made("tir.tests_noted")
    ir.register_op_attr("tir.tests_noted", "tests.note", 1)
    ir.register_op_attr("tir.tests_noted", "tests.note", 2, level=11)
    ir.register_op_attr("tir.tests_noted", "tests.note", 3)
    assert op.get_attr("tests.note") == 2
    with refuses("op.attribute_set_twice", error=tvmagic.TVMagicError):
        ir.register_op_attr("tir.tests_noted", "tests.note", 4, level=11)
    assert op.has_attr("tests.note") and not op.has_attr("tests.other")


def test_a_renderer_is_told_of_a_text_that_cannot_be_read() -> None:
    found: list[ir.diagnostics.Diagnostic] = []
    ir.diagnostics.override_renderer(lambda context: found.extend(context.diagnostics))
    try:
        with pytest.raises(tvmagic.errors.DiagnosticError):
            tvmagic.script.from_source("@T.prim_func\ndef main(A: T.Buffer((4,))):\n    A[0] = B[0]\n")
    finally:
        ir.diagnostics.override_renderer(None)
    assert [d.span.line for d in found if d.span] == [3] and "`B`" in found[0].message
    with pytest.raises(tvmagic.errors.DiagnosticError):
        tvmagic.script.from_source("@T.prim_func\ndef main(A):\n    pass\n")
    assert len(found) == 1
