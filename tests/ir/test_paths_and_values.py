"""Paths of parts, attributes by name, types, and values under the names of `tvm.runtime`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tvmagic.runtime.object_path import (
    ArrayIndexPath,
    AttributeAccessPath,
    MapValuePath,
    MissingArrayElementPath,
    MissingMapEntryPath,
    ObjectPath,
    RootPath,
    UnknownAttributeAccessPath,
)

import tvmagic as tvm
from tvmagic import ir, te, tir


def test_the_class_of_a_path_is_its_last_step() -> None:
    root = ObjectPath.root()
    assert isinstance(root, RootPath) and root.parent is None and len(root) == 1 and str(root) == "<root>"
    attr = root.attr("body")
    assert isinstance(attr, AttributeAccessPath) and attr.attr_key == "body" and attr.parent == root
    index = attr.array_index(2)
    assert isinstance(index, ArrayIndexPath) and index.index == 2
    key = index.map_value("axis")
    assert isinstance(key, MapValuePath) and key.key == "axis" and str(key) == '<root>.body[2]["axis"]'
    missing = index.missing_array_element(5)
    assert isinstance(missing, MissingArrayElementPath) and str(missing).endswith("[<missing element #5>]")
    assert isinstance(root.missing_map_entry(), MissingMapEntryPath)
    assert type(key.get_prefix(3)) is ArrayIndexPath and type(key.get_prefix(1)) is RootPath


def test_paths_are_compared_by_their_steps() -> None:
    root = ObjectPath.root()
    path = root.attr("body").array_index(2)
    assert path == ObjectPath.root().attr("body").array_index(2) and hash(path) == hash(
        root.attr("body").array_index(2)
    )
    assert path != root.attr("body").array_index(3) and path != root.attr("body").missing_array_element(2)
    assert root.attr("body").is_prefix_of(path) and not path.is_prefix_of(root.attr("body"))
    assert path.get_prefix(2) == root.attr("body")
    for length in (0, 4):
        with refuses("object_path.wrong_prefix_length", error=IndexError):
            path.get_prefix(length)


def test_roots_with_names_and_unknown_fields() -> None:
    named = ObjectPath.root("before").attr("body")
    assert str(named) == "before.body" and len(named) == 2 and named.parent == ObjectPath.root("before")
    assert named != ObjectPath.root().attr("body") and named.name == "before"
    unknown = ObjectPath.root().attr(None)
    assert isinstance(unknown, UnknownAttributeAccessPath) and str(unknown) == "<root>.<unknown attribute>"
    assert unknown != ObjectPath.root().attr(None)


def test_numbers_are_equal_to_constants_of_the_type_they_become() -> None:
    assert ir.structural_equal([0, 2.5], [tir.const(0), tir.const(2.5)])
    assert not ir.structural_equal([0], [tir.const(0, "int64")]) and not ir.structural_equal([1], [tir.const(1.0)])
    mismatch = ir.get_first_structural_mismatch((1, 2), (tir.const(1), tir.const(3)))
    assert mismatch is not None and str(mismatch.lhs_path).startswith("<root>[1]")


def test_attributes_by_name() -> None:
    attrs = ir.make_node("DictAttrs", axis=1, label="row", sizes=(2, 3))
    assert isinstance(attrs, ir.Attrs) and attrs.axis == 1 and attrs["label"] == "row" and attrs.get("none") is None
    assert attrs.keys() == ["axis", "label", "sizes"] and "axis" in attrs and len(attrs) == 3 and dict(attrs.items())
    assert (attrs.get_int("axis"), attrs.get_str("label"), attrs.get_int_tuple("sizes")) == (1, "row", (2, 3))
    again = ir.load_json(ir.save_json(attrs))
    assert ir.structural_equal(attrs, again) and not ir.structural_equal(attrs, ir.make_node("DictAttrs", axis=2))
    with pytest.raises(AttributeError, match="`other`"):
        attrs.other
    with pytest.raises(IndexError, match="`other`"):
        attrs["other"]


def test_types_of_functions() -> None:
    kind = ir.FuncType([ir.PrimType("int32")], ir.TupleType([]))
    assert kind == ir.load_json(ir.save_json(kind)) and kind.arg_types[0] == ir.PrimType("int32")
    assert kind != ir.FuncType([], ir.TupleType([])) and ir.TupleType([kind]).fields[0] == kind


def test_registered_functions_are_nodes() -> None:
    tvm.register_func("test.add_one", lambda x: x + 1, override=True)
    found = ir.EnvFunc.get("test.add_one")
    assert found.func(2) == found(2) == 3


def test_values_as_the_runtime_keeps_them() -> None:
    texts = tvm.runtime.convert(["a", ("b", {"k": "c"})])
    assert texts == ("a", ("b", {"k": "c"})) and tvm.runtime.convert(None) is None
    assert tvm.runtime.convert({"a": 2})["a"].value == 2 and tvm.runtime.const(3, "int64").dtype == "int64"
    assert tvm.runtime.ShapeTuple([tir.const(2), 3]) == (2, 3) and tvm.runtime.String("a") == "a"
    for number in (np.float64(1), np.float16(1), np.int8(1), np.bool_(True)):
        assert tir.const(number).dtype == str(np.array(number).dtype)
    assert [tvm.DataType(t).type_code for t in ("int8", "uint8", "float32", "handle", "bfloat16")] == [0, 1, 2, 3, 4]
    assert tvm.DataTypeCode.BFLOAT == 4


def test_modules_take_functions_and_attributes() -> None:
    one, two = (tir.PrimFunc([], tir.Evaluate(n)) for n in (1, 2))
    mod = tvm.IRModule({"f": one})
    mod.update(tvm.IRModule({"f": two, "g": one}))
    assert mod["f"] is two and [var.name_hint for var, _ in mod.functions_items()] == ["f", "g"]
    marked = mod.with_attrs({"a": 1, "b": 2}).without_attr("a")
    assert marked.get_attr("a") is None and marked.get_attr("b") == 2 and mod.get_attr("b") is None


def test_classes_of_passes() -> None:
    assert isinstance(tir.transform.Simplify(), tir.transform.PrimFuncPass)
    made = tvm.transform.module_pass(lambda mod, context: mod, opt_level=2, name="same")
    assert isinstance(made, tvm.transform.ModulePass) and made.info.opt_level == 2

    @tvm.transform.module_pass(opt_level=2)
    class Marked:
        def __init__(self, key: str) -> None:
            self.key = key

        def transform_module(self, mod: tvm.IRModule, context: Any) -> tvm.IRModule:
            return mod.with_attr(self.key, 1)

    marking = Marked("seen")
    assert isinstance(marking, tvm.transform.ModulePass) and marking.key == "seen" and marking.info.name == "Marked"
    assert marking(tvm.IRModule({})).get_attr("seen") == 1
    with refuses("pass.missing_method", error=tvm.TVMError, names="`transform_module`"):
        tvm.transform.module_pass(dict)


def test_access_masks() -> None:
    buffer = tir.decl_buffer((4,))
    assert buffer.access_ptr("rw").args[4].value == 3
    with pytest.raises(ValueError, match="`x`"):
        buffer.access_ptr("rx"[1:])


def test_values_of_a_computation_are_traced(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, float]] = []

    def look(*values: float) -> float | None:
        seen.append(values)  # type: ignore[arg-type]
        return None if values[0] < 2 else 10

    tvm.register_func("test.look", look, override=True)
    X = te.placeholder((4,), name="X")
    x, y = np.array([1, 2, 3, 4], "float32"), np.zeros(4, "float32")
    Y = te.compute((4,), lambda i: tir.trace([i, X[i]], "test.look") * 2, name="Y")
    tvm.build(te.create_schedule(Y.op), [X, Y])(x, y)
    # what the function gives, if it gives anything, is the value
    assert y.tolist() == [2, 4, 20, 20] and seen == [(0, 1), (1, 2), (2, 3), (3, 4)]
    Y = te.compute((4,), lambda i: tir.trace([X[i]]), name="Y")
    tvm.build(te.create_schedule(Y.op), [X, Y])(x, y)
    assert y.tolist() == x.tolist() and capsys.readouterr().out == "[1.0]\n[2.0]\n[3.0]\n[4.0]\n"
    with pytest.raises(TypeError, match="`trace`"):
        tir.trace(X[0])


def test_views_of_arrays() -> None:
    array = tvm.nd.array(np.arange(12, dtype="float32").reshape(3, 4))
    view = array._create_view((2, 6))
    view[0, 0] = 7
    assert array.numpy()[0, 0] == 7 and view.shape == (2, 6)
    assert array._create_view((4,), "float32", 16).numpy().tolist() == [4, 5, 6, 7]
    assert array._create_view((3,), "float32x4").dtype == "float32x4"
    with refuses("ndarray.view_too_large", error=tvm.TVMError):
        array._create_view((13,))
    with refuses("ndarray.view_not_contiguous", error=tvm.TVMError):
        tvm.nd.NDArray(np.zeros((4, 4))[:, ::2])._create_view((8,))
    values = np.arange(3.0)
    shared = tvm.nd.from_dlpack(values)
    values[0] = 5
    assert shared.numpy().tolist() == [5, 1, 2]


@pytest.mark.parametrize("shift", [ir.ops.shift_left, ir.ops.shift_right])
def test_shifts_are_by_less_than_the_bits(shift: Any) -> None:
    x = ir.Var("x", "int32")
    assert shift(x, 0) is x and str(shift(x, 31).args[1]) == "31"
    for by in (-1, 32):
        with refuses("expression.shift_out_of_range"):
            shift(x, by)


def test_a_pointer_to_part_of_a_buffer_has_the_rest_as_its_extent() -> None:
    dense, strided = ir.decl_buffer((4, 8)), ir.decl_buffer((4, 8), strides=(16, 1))
    thin = ir.decl_buffer((4, 8), strides=(1,))
    extents = [b.access_ptr("r", offset=3).args[3] for b in (dense, strided, thin)]
    assert [int(e) for e in extents] == [29, 61, 29]
    wide = dense.access_ptr("w", content_lanes=4, offset=2)
    assert (int(wide.args[2]), int(wide.args[3]), str(wide.args[0].dtype)) == (2, 6, "float32x4")
    assert [int(b.access_ptr("r", extent=5).args[3]) for b in (dense, strided)] == [5, 5]
