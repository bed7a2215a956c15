"""Live Python under the decorators: functions, modules, macros, and the names they see."""

from __future__ import annotations

import linecache

import pytest
from refusals import refuses

import tvmagic
from tvmagic import ir
from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.script import from_source
from tvmagic.script import ir as I
from tvmagic.script import tir as T

SIZE = 24


@T.prim_func
def double(A: T.Buffer((SIZE,), "float32"), B: T.Buffer((SIZE,), "float32")) -> None:
    """Twice each element."""
    for i in range(SIZE):
        B[i] = A[i] * 2.0  # a comment


def test_decorated_function_is_a_function_of_the_ir() -> None:
    assert isinstance(double, ir.PrimFunc)
    assert double.attrs["global_symbol"] == "double"
    assert int(double.body.extent) == 24  # type: ignore[attr-defined]


def test_statements_know_their_place_in_the_file() -> None:
    lines = linecache.getlines(__file__)
    loop = double.body
    assert isinstance(loop, ir.For) and loop.span is not None
    store = loop.body
    assert isinstance(store, ir.BufferStore) and store.span is not None
    assert loop.span.source == store.span.source == __file__
    assert lines[store.span.line - 1][store.span.column - 1 : store.span.end_column - 1] == "B[i] = A[i] * 2.0"
    assert lines[loop.span.line - 1][loop.span.column - 1 : loop.span.end_column - 1] == "for i in range(SIZE)"
    value = store.value.span
    assert value is not None
    assert lines[value.line - 1][value.column - 1 : value.end_column - 1] == "A[i] * 2.0"


def make(n: int, dtype: str, scale: float) -> ir.PrimFunc:
    inner = n * 2

    @T.prim_func(private=True)
    def scaled(a: T.handle, B: T.Buffer((inner,), dtype)):
        A = T.match_buffer(a, (inner,), dtype)
        for i in T.serial(inner):
            B[i] = A[i] * T.Cast(dtype, T.float32(scale))

    return scaled


def test_closures_over_python_values() -> None:
    func = make(8, "float16", 0.5)
    assert "global_symbol" not in func.attrs
    assert [str(b.dtype) for b in func.buffer_map.values()] == ["float16", "float16"]
    assert [int(b.shape[0]) for b in func.buffer_map.values()] == [16, 16]
    assert ir.structural_equal(make(8, "float16", 0.5), func)
    assert not ir.structural_equal(make(4, "float16", 0.5), func)


def test_a_name_used_in_an_annotation_only() -> None:
    extent = 6

    @T.prim_func
    def func(A: T.Buffer((extent, extent), "int32")):
        T.evaluate(0)

    assert [int(s) for b in func.buffer_map.values() for s in b.shape] == [6, 6]


def test_a_variable_of_python_stands_in_the_function() -> None:
    n = ir.Var("n", "int32")

    @T.prim_func(check_well_formed=False)
    def func(A: T.Buffer((16,), "float32"), m: T.int32):
        A[m] = T.Cast("float32", n)

    assert func.body.value.value is n  # type: ignore[attr-defined]


@I.ir_module
class Chain:
    I.module_attrs({"system": "test", "level": 3})

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"tir.noalias": True})
        Chain.helper(A.data, 1)
        cls.helper(A.data, 2)  # noqa: F821

    @T.prim_func(private=True)
    def helper(a: T.handle("float32"), k: T.int32):
        A = T.Buffer((4,), "float32", data=a)
        A[k] = 1.0


def test_a_class_is_a_module_whose_functions_call_each_other() -> None:
    assert isinstance(Chain, ir.IRModule)
    assert sorted(v.name_hint for v in Chain) == ["helper", "main"]
    assert Chain.attrs == {"system": "test", "level": 3}
    body = Chain["main"].body
    assert isinstance(body, ir.SeqStmt)
    for stmt in body.seq:
        assert isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.Call)
        assert stmt.value.op is Chain.get_global_var("helper")
    assert "global_symbol" not in Chain["helper"].attrs
    assert Chain["main"].attrs["global_symbol"] == "main"


def test_a_module_inside_a_function_sees_its_variables() -> None:
    n = 5

    @I.ir_module
    class Local:
        @T.prim_func
        def main(A: T.Buffer((n,), "float32")):
            for i in range(n):
                A[i] = 0.0

    assert int(Local["main"].body.extent) == 5  # type: ignore[attr-defined]


def test_a_function_in_an_ordinary_class_is_read_at_once() -> None:
    class Holder:
        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            A[0] = 1.0

    assert isinstance(Holder.main, ir.PrimFunc)


@T.macro
def clear(buffer, size, value=0.0):
    for i in range(size):
        buffer[i] = value


@T.macro(hygienic=False)
def store_at_i(buffer):
    buffer[i] = 3.0  # noqa: F821


def test_macros_are_put_in() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        clear(A, 8)
        clear(A, size=4, value=2.0)
        for i in range(3):
            store_at_i(A)

    expected = from_source(
        """
@T.prim_func
def func(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = 0.0
    for i in range(4):
        A[i] = 2.0
    for i in range(3):
        A[i] = 3.0
"""
    )
    assert ir.structural_equal(func, expected)


def test_a_hygienic_macro_does_not_see_the_names_of_the_call() -> None:
    @T.macro
    def uses_j(buffer):
        buffer[j] = 1.0  # noqa: F821

    with pytest.raises(DiagnosticError, match="`j`") as caught:

        @T.prim_func
        def func(A: T.Buffer((8,), "float32")):
            for j in range(8):
                uses_j(A)

    lines = linecache.getlines(__file__)
    assert lines[caught.value.line - 1].strip().startswith("buffer[j] = 1.0")  # type: ignore[operator]


def test_a_macro_called_outside_a_script() -> None:
    with pytest.raises(TVMagicError, match="`clear`"):
        clear(None, 1)


def test_a_macro_called_by_python_code_that_the_script_calls() -> None:
    def both(buffer):
        clear(buffer, 2)
        clear(buffer, 3)

    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        both(A)

    assert isinstance(func.body, ir.SeqStmt) and len(func.body) == 2


def test_meta_values_and_comprehensions() -> None:
    tiles = (2, 4)
    offsets = {"a": 1, "b": 2}

    @T.prim_func
    def func(A: T.Buffer((8, 8), "float32")):
        shape = T.meta_var([t * 2 for t in tiles if t > 1])
        k = T.meta_var(offsets["b"])
        if len(tiles) == 2:
            for i, j in T.grid(*shape):
                A[i, j] = T.float32(k) + A[i, sum([t + 0 for t in tiles]) % 8]
        else:
            T.evaluate(undefined_name)  # noqa: F821

    loop = func.body
    assert isinstance(loop, ir.For) and int(loop.extent) == 4
    assert int(loop.body.extent) == 8  # type: ignore[attr-defined]
    assert not isinstance(loop, ir.LetStmt)


def test_names_of_blocks_from_python() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block(f"block_{SIZE}"):
                v = T.axis.spatial(8, i)
                A[v] = 0.0

    assert func.root_block is not None
    assert "block_24" in str(func)


def test_an_error_in_live_code_is_shown_at_its_line() -> None:
    with pytest.raises(DiagnosticError) as caught:

        @T.prim_func
        def func(A: T.Buffer((8,), "float32")):
            for i in range(8):
                A[i] = B_typo[i]  # noqa: F821

    text = str(caught.value)
    lines = linecache.getlines(__file__)
    assert lines[caught.value.line - 1].rstrip() in text  # type: ignore[operator]
    caret = next(line for line in text.split("\n") if "^" in line)
    shown = next(line for line in text.split("\n") if "B_typo[i]" in line)
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "B_typo"


def test_texts_that_reach_further_left_than_the_code() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        T.evaluate("""a text
with lines at the left edge""")
        A[0] = 1.0

    lines = linecache.getlines(__file__)
    span = func.body[1].span  # type: ignore[index]
    assert span is not None
    assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == "A[0] = 1.0"


def test_undefined_variables_are_refused() -> None:
    n = ir.Var("n", "int32")
    with refuses("script.not_well_formed", error=DiagnosticError) as caught:

        @T.prim_func
        def func(A: T.Buffer((16,), "float32")):
            A[0] = 1.0
            A[n] = 2.0

    lines = linecache.getlines(__file__)
    assert lines[caught.value.line - 1].strip() == "A[n] = 2.0"  # type: ignore[operator]
    assert "A[n] = 2.0" in str(caught.value)


def test_loop_variables_past_the_bindings_of_a_block_are_refused() -> None:
    text = (
        "@T.prim_func\ndef main(A: T.Buffer((16,), 'float32')):\n    for i in range(16):\n"
        "        with T.block('b'):\n            v = T.axis.spatial(16, i)\n            A[i] = 2.0\n"
    )
    assert isinstance(from_source(text), ir.PrimFunc)
    with refuses("script.not_well_formed", error=DiagnosticError) as caught:
        from_source(text, check_well_formed=True)
    assert caught.value.line is not None


def test_a_function_whose_source_is_lost() -> None:
    scope = {"T": T}
    with pytest.raises(DiagnosticError, match="`func`"):
        exec('@T.prim_func\ndef func(A: T.Buffer((8,), "float32")):\n    A[0] = 1.0\n', scope)


def test_source_of_a_notebook_cell() -> None:
    """IPython keeps the text of a cell in linecache under a name of its own."""
    text = (
        "from tvmagic.script import tir as T, ir as I\n"
        "@I.ir_module\nclass Cell:\n    @T.prim_func\n    def main(A: T.Buffer((N,), 'float32')):\n        A[0] = 1.0\n"
        "@T.prim_func\ndef func(A: T.Buffer((N,), 'float32')):\n    A[1] = 1.0\n"
    )
    name = "<ipython-input-7-test>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict = {"N": 12, "__name__": "__main__"}
    exec(compile(text, name, "exec"), scope)
    assert isinstance(scope["Cell"], ir.IRModule)
    assert int(next(iter(scope["func"].buffer_map.values())).shape[0]) == 12
    assert scope["func"].body.span.line == 9


def test_decorators_refuse_what_they_cannot_read() -> None:
    for decorator, value in ((T.prim_func, 3), (T.macro, 3), (I.ir_module, 3), (T.prim_func, double)):
        with pytest.raises(TVMagicError):
            decorator(value)


def test_from_source_of_live_python() -> None:
    def func(A: T.Buffer((SIZE,), "float32")):
        A[0] = 1.0

    with refuses("script.function_without_decorator", error=DiagnosticError):
        from_source(func)


def test_the_names_stand_where_tvm_has_them() -> None:
    from tvmagic.script.parser.tir import prim_func

    assert prim_func is T.prim_func
    assert tvmagic.script.parser.tir is tvmagic.script.tir
    assert tvmagic.script.parser.ir.ir_module is tvmagic.script.ir_module is I.ir_module
    assert tvmagic.script.ir_builder.tir.evaluate is T.evaluate
    assert isinstance(ir.FloatImm, type) and T.FloatImm is ir.FloatImm
