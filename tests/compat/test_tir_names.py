"""TVM's names of TensorIR stand where code written for TVM looks for them."""

from __future__ import annotations

import importlib

import pytest
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.ir import Block, IRModule, pre_order_visit
from tvmagic.script import from_source


@pytest.mark.parametrize("module", ["expr", "stmt", "function", "buffer", "op", "block_scope", "block_dependence_info"])
def test_modules_can_be_imported(module: str) -> None:
    imported = importlib.import_module(f"tvmagic.tir.{module}")
    assert imported is getattr(tir, module)


def test_names_are_the_same_classes() -> None:
    assert tir.stmt.For is tir.For and tir.expr.Ramp is tir.Ramp and tir.buffer.Buffer is tir.Buffer
    assert tir.function.PrimFunc is tir.PrimFunc and tir.op.call_intrin is tir.call_intrin
    assert isinstance(tir.Var("x", "int32") == 1, tir.expr.EqualOp)


def test_containers() -> None:
    a = te.placeholder((8,), name="A")
    s = te.create_schedule(te.compute((8,), lambda i: a[i] + 1.0, name="B").op)
    assert isinstance(te.schedule.InferBound(s.normalize()), tvmagic.container.Map)
    assert isinstance(tvmagic.runtime.convert([1, 2]), tvmagic.container.Array)
    assert isinstance(tvmagic.runtime.convert({"a": 1}), tvmagic.container.Map)


def test_statements_as_a_list() -> None:
    one, two, three = [tir.Evaluate(n) for n in (1, 2, 3)]
    assert tir.stmt_list(one) == [one]
    assert tir.stmt_list(tir.SeqStmt([one, tir.SeqStmt([two, three])])) == [one, two, three]


TEXT = """
@T.prim_func(private=True)
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in range(8):
        with T.block("rows"):
            vi = T.axis.spatial(8, i)
            T.reads(B[vi, 0:8])
            T.writes(C[vi, 0:8])
            for j in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = B[vi, vj]
            for j in range(8):
                with T.block("D"):
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = C[vi, vj] * T.float32(2)
"""


def test_dependencies_of_blocks() -> None:
    """The same as in a schedule's state, without loops between blocks."""
    function = from_source("from tvm.script import tir as T\n" + TEXT)
    info = tir.BlockDependenceInfo(function)
    blocks: dict[str, Block] = {}
    pre_order_visit(function.body, lambda n: blocks.setdefault(n.name_hint, n) if isinstance(n, Block) else None)
    assert set(info.stmt2ref) == set(blocks.values())
    state = tir.ScheduleState(function)
    kind = tir.block_scope.DepKind
    for name, block in blocks.items():
        sref, known = info.get_sref(block), state.get_sref(block)
        assert sref is not None and known is not None and sref.stmt is block
        if name != "root":
            assert sref.parent is not None and sref.parent.stmt is state.scope_of(known).stmt
        ours, theirs = info.get_block_scope(sref), state.get_block_scope(known)
        assert [c.stmt for c in ours.children] == [c.stmt for c in theirs.children]
        for child, same in zip(ours.children, theirs.children):
            assert [(d.dst.stmt, d.kind) for d in ours.get_deps_by_src(child)] == [
                (d.dst.stmt, d.kind) for d in theirs.get_deps_by_src(same)
            ]
    writer, reader = (info.get_sref(blocks[name]) for name in ("B", "rows"))
    (dep,) = info.get_block_scope(info.get_sref(blocks["root"])).get_deps_by_src(writer)
    assert dep.dst is reader and dep.kind is kind.RAW


def test_dependencies_of_a_module() -> None:
    function = from_source("from tvm.script import tir as T\n" + TEXT)
    info = tir.BlockDependenceInfo(IRModule({"one": function, "two": tir.PrimFunc([], tir.Evaluate(0))}))
    assert len(info.sref2scope) == 5
    with refuses("block_dependence_info.unknown_block"):
        info.get_block_scope(tir.BlockDependenceInfo(function).get_sref(function.body.block))
    with refuses("block_dependence_info.not_a_program"):
        tir.BlockDependenceInfo(3)


def test_lanes_of_scalable_vectors_and_devices() -> None:
    assert str(tir.get_vscale_expr("float32")) == "4 * T.vscale()"
    assert str(tir.get_vscale_expr("int8", 256)) == "32 * T.vscale()"
    assert str(tir.broadcast(tir.Var("x", "int32"), 4)) == "T.Broadcast(x, 4)"
    assert repr(tvmagic.rocm(1)) == "rocm(1)" and not tvmagic.vulkan().exist
    assert tvmagic.device("metal") == tvmagic.runtime.metal(0) and tvmagic.gpu() == tvmagic.cuda()
