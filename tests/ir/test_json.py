"""Programs as JSON: identity is kept, nothing is executed, what does not fit is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tvmagic import ir, te, tir
from tvmagic.errors import TVMagicError
from tvmagic.ir.constants import neutral_of_max, neutral_of_min
from tvmagic.ir.semantics import Neutral
from tvmagic.target import Target


def again(node: Any) -> Any:
    return ir.load_json(ir.save_json(node))


def test_shared_parts_stay_shared() -> None:
    x = ir.Var("x")
    shared = x * 2
    node = again(shared + shared)
    assert node.a is node.b and node.a is not shared
    pair = again([x, x + 1])
    assert pair[0] is pair[1].a


@pytest.mark.parametrize("least", [neutral_of_max("float32"), neutral_of_min("float64")])
def test_the_neutral_element_of_max_keeps_its_meaning(least: Any) -> None:
    """It is printed as the largest finite number and means the infinity, after a round trip, too."""
    value = again(least).value
    assert type(value) is type(least.value) is Neutral and value == least.value
    assert ir.save_json(again(least)) == ir.save_json(least)


def test_every_kind_of_node() -> None:
    a = ir.decl_buffer((4, 8), "float16", name="A", scope="shared", strides=[ir.Var("s"), 1], axis_separators=[1])
    i = ir.Var("i")
    thread = ir.IterVar((0, 4), "tx", ir.IterVar.ThreadIndex, "threadIdx.x")
    axis = ir.IterVar((0, 4), "v")
    region = ir.BufferRegion(a, [ir.Range(0, 4), ir.Range(i, i + 2)])
    match = ir.MatchBufferRegion(ir.decl_buffer((4, 2), "float16", name="M"), region)
    block = ir.Block([axis], [region], [], "b", tir.Evaluate(0), tir.Evaluate(1), [a], [match], {"k": [1, "t", 0.5]})
    left, right = ir.Var("l", "float16"), ir.Var("r", "float16")
    reducer = ir.CommReducer([left], [right], [left + right], [tir.const(0.0, "float16")])
    constants = np.arange(6, dtype="int16").reshape(2, 3)
    statements = [
        ir.For(i, 0, 4, 4, ir.BlockRealize([i], i < 3, block), thread, {"a": 1}),
        tir.AttrStmt(thread, "thread_extent", 4, tir.Evaluate(thread.var)),
        tir.Evaluate(ir.Reduce(reducer, [a[0, axis]], [axis], True, 0)),
        ir.AllocateConst(ir.pointer_var("c", "int16"), "int16", [2, 3], constants, tir.Evaluate(0)),
        tir.While(i < 3, tir.AssertStmt(i > 0, "text", tir.Evaluate(tir.call_extern("int32", "f", a.data)))),
        tir.IfThenElse(i < 1, tir.Evaluate(tir.const(float("inf"))), tir.Evaluate(tir.const(float("nan"), "float64"))),
        tir.BufferRealize(a, [ir.Range(0, 4), ir.Range(0, 8)], True, tir.Prefetch(a, [ir.Range(0, 4), ir.Range(0, 8)])),
        tir.Evaluate(tir.Shuffle([tir.Ramp(i, 1, 2), tir.Broadcast(i, 2)], [0, 3])),
    ]
    func = ir.PrimFunc([a, i], tir.SeqStmt(statements), ir.PrimType("int32"), attrs={"tir.noalias": True, "n": None})
    module = ir.IRModule({"main": func}, {"x": {"y": [1]}})
    copy = again(module)
    assert ir.structural_equal(module, copy)
    assert copy.script() == module.script()
    const = copy["main"].body.seq[3].data
    assert const.dtype == "int16" and (const == constants).all()


def test_a_function_that_calls_another_keeps_the_global_variable() -> None:
    var = ir.GlobalVar("helper")
    module = ir.IRModule({var: ir.PrimFunc([], tir.Evaluate(0)), "main": ir.PrimFunc([], tir.Evaluate(var()))})
    copy = again(module)
    assert copy["main"].body.value.op is copy.get_global_var("helper")


def test_types_of_variables() -> None:
    for var in (ir.Var("x", "int64"), ir.SizeVar("n"), ir.pointer_var("p", "float32", "local"), ir.Var("h", "handle")):
        copy = again(var)
        assert type(copy) is type(var) and copy.dtype is var.dtype and copy.name == var.name
        assert ir.structural_equal(copy.type_annotation, var.type_annotation)


VALID = json.loads(ir.save_json(ir.Var("x") + 1))


def changed(**changes: Any) -> str:
    return json.dumps({**VALID, **changes})


BAD = {
    "not JSON": "{",
    "deep": "[" * 100000,
    "not an object": "[1]",
    "no nodes": '{"root": 1}',
    "unknown class": changed(nodes=[["System", "rm"]]),
    "a class that is none": changed(nodes=[["__class__"]]),
    "not a list": changed(nodes=[{"a": 1}]),
    "too few fields": changed(nodes=[["PrimType"]]),
    "bad dtype": changed(nodes=[["PrimType", "flaot32"]]),
    "wrong field": changed(nodes=[["PrimType", "int32"], ["Var", 3, {"node": 0}]]),
    "forward reference": changed(nodes=[["Var", "x", {"node": 1}]]),
    "reference to nothing": changed(root={"node": 99}),
    "reference that is no number": changed(root={"node": "x"}),
    "unknown kind of object": changed(root={"eval": "1"}),
    "two kinds": changed(root={"node": 0, "map": []}),
    "no statement": changed(nodes=[["PrimType", "int32"], ["SeqStmt", [{"node": 0}]]]),
    "missing operand": changed(nodes=[["IntImm", "int32", 1], ["Add", {"node": 0}, None]]),
    "operands of two types": changed(
        nodes=[["IntImm", "int32", 1], ["IntImm", "int64", 1], ["Add", {"node": 0}, {"node": 1}]]
    ),
    "a literal that does not fit": changed(nodes=[["IntImm", "int8", 1000]]),
    "bool for a number": changed(nodes=[["IntImm", "int32", True]]),
    "unknown operator": changed(nodes=[["Call", "int32", {"op": "os.system"}, []]]),
    "an operator that is no text": changed(nodes=[["Call", "int32", {"op": 1}, []]]),
    "bad kind of loop": changed(
        nodes=[
            ["IntImm", "int32", 1],
            ["PrimType", "int32"],
            ["Var", "i", {"node": 1}],
            ["Evaluate", {"node": 0}],
            ["For", {"node": 0}, {"node": 0}, {"node": 2}, 17, {"node": 3}, None, {"map": []}],
        ]
    ),
    "a mapping that is none": changed(root={"map": [1]}),
    "a key that is none": changed(root={"map": [[1, 2]]}),
    "a float that is none": changed(root={"float": "1e5"}),
    "a neutral element that is no float": changed(root={"neutral": "1e5"}),
    "an array that is none": changed(root={"array": ["int32", [2], "@@"]}),
    "an array of objects": changed(root={"array": ["O", [1], "AAAAAAAAAAA="]}),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_bad_texts_are_refused(text: str) -> None:
    with pytest.raises(TVMagicError):
        ir.load_json(text)


class Setting:
    def __init__(self, name: str) -> None:
        self.name = name


def test_objects_of_registered_classes_can_be_saved() -> None:
    def read(plain: Any) -> Setting:
        if not isinstance(plain, str):
            raise ValueError(plain)
        return Setting(plain)

    ir.register_json("test.Setting", Setting, lambda setting: setting.name, read)
    func = ir.PrimFunc([], tir.Evaluate(0)).replace(attrs={"x": Setting("fast")})
    assert again(func).attrs["x"].name == "fast"
    for bad in (["test.Setting", "1"], ["other", "1"], "x", ["test.Setting", "{"]):
        with pytest.raises(TVMagicError):
            ir.load_json(changed(root={"object": bad}))


def test_targets_of_functions_are_saved() -> None:
    for target in ("llvm -mcpu=haswell", "nvidia/nvidia-a100", Target("cuda -arch=sm_80", host="llvm")):
        func = ir.PrimFunc([], tir.Evaluate(0)).with_attr("target", Target(target))
        assert again(func).attrs["target"] == func.attrs["target"] == Target(target)


def test_modules_saved_before_they_had_global_infos() -> None:
    data = json.loads(ir.save_json(ir.IRModule({"main": ir.PrimFunc([], tir.Evaluate(0))})))
    entry = next(entry for entry in data["nodes"] if entry[0] == "IRModule")
    assert entry.pop() == {"map": []}
    assert ir.load_json(json.dumps(data)).global_infos == {}


def test_nodes_by_the_name_of_their_class() -> None:
    node = ir.make_node("IntImm", dtype="int32", value=10)
    assert isinstance(node, ir.IntImm) and str(node) == "10"
    assert str(ir.make_node("tir.Add", a=node, b=ir.Var("x"))) == "10 + x"
    tensor = te.placeholder((4,))
    made: Any = ir.make_node("Tensor", shape=tensor.shape, dtype="float32", op=tensor.op, value_index=0)
    assert made.op == tensor.op and made.value_index == 0
    for key, fields in (
        ("Nothing", {}),
        ("Tensor", {"op": tensor.op}),
        ("IntImm", {"value": 1}),
        ("IntImm", {"dtype": "int32", "value": "x"}),
    ):
        with pytest.raises(TVMagicError):
            ir.make_node(key, **fields)


def test_what_cannot_be_saved_is_told() -> None:
    with pytest.raises(TVMagicError, match="`object`"):
        ir.save_json(ir.PrimFunc([], tir.Evaluate(0)).replace(attrs={"x": object()}))


def test_deep_programs() -> None:
    x = ir.Var("x")
    expr: ir.PrimExpr = x
    for k in range(1000):
        expr = tir.Select(x < k, expr, x)
    assert ir.structural_equal(expr, again(expr), map_free_vars=True)
    chain: ir.Stmt = tir.Evaluate(x)
    for _ in range(5000):
        chain = tir.LetStmt(ir.Var("v"), x, chain)
    assert ir.structural_equal(chain, again(chain), map_free_vars=True)
