"""Software pipelines preserve results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from pass_checks import module, script

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.eval.machine import run_function
from tvmagic.ir.deep_recursion import parts_of
from tvmagic.ir.query import is_call, is_one, nodes_of
from tvmagic.tir import transform


def values(mod: Any) -> np.ndarray:
    func = mod["main"]
    (buffer,) = func.buffer_map.values()
    out = np.full([int(n) for n in buffer.shape], -1, "int32")
    run_function(func, [out])
    return out


PIPELINE = """def main(A: T.Buffer((32,), "int32"), S: T.Buffer((32,), "int32"), n: T.int32):
    for i in T.serial({extent}, annotations={{"software_pipeline_order": {order}, "software_pipeline_stage": {stage}}}):
        with T.block(""):
            T.reads(A[i * 2:i * 2 + 2])
            T.writes(S[i * 2:i * 2 + 2])
            P = T.alloc_buffer((2,), "int32")
            Q = T.alloc_buffer((2,), "int32")
            for j in range(2):
                with T.block(""):
                    T.reads(A[i * 2 + j])
                    T.writes(P[j])
                    P[j] = A[i * 2 + j]
            for j in range(2):
                with T.block(""):
                    T.reads(P[j])
                    T.writes(Q[j])
                    Q[j] = P[j] + 1
            for j in range(2):
                with T.block(""):
                    T.reads(Q[j], P[j])
                    T.writes(S[i * 2 + j])
                    S[i * 2 + j] = Q[j] * 3 + P[j]"""


def versions(writer: int, readers: tuple[int, ...], stage: list[int], order: list[int]) -> int:
    """How many iterations after a write may pass until it is read, with the one that writes if a read is behind it.

    Whether a read is behind it is asked of all later stages, as TVM does; asked of the last one it may be one less.
    """
    distance = max(stage[r] for r in readers) - stage[writer]
    behind = any(order[r] > order[writer] and stage[r] > stage[writer] for r in readers)
    needed = max(stage[r] - stage[writer] + (order[r] > order[writer]) for r in readers)
    assert needed <= max(1, distance + behind) <= needed + 1
    return max(1, distance + behind)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [1, 2, 0]])
@pytest.mark.parametrize("stage", [[0, 1, 2], [0, 2, 2], [0, 0, 1], [0, 1, 1], [0, 1, 3]])
def test_software_pipeline_preserves_results(stage: list[int], order: list[int]) -> None:
    """Memory has as many versions as iterations use at one time, and no iteration is lost, however few there are."""
    backwards = any(stage[w] == stage[r] and order[w] > order[r] for w, r in ((0, 1), (0, 2), (1, 2)))
    for extent in ("1", "3", "n"):
        mod = module(PIPELINE.format(extent=extent, stage=stage, order=order))
        if backwards:
            with pytest.raises(TVMagicError):
                transform.InjectSoftwarePipeline()(mod)
            continue
        new = transform.InjectSoftwarePipeline()(mod)
        if extent == "3":
            wanted = [versions(0, (1, 2), stage, order), versions(1, (2,), stage, order)]
            assert [int(n or 1) for n in re.findall(r"alloc_buffer\(\((?:(\d+), )?2,?\)", script(new))] == wanted
        for n in (1, 2, 4) if extent == "n" else (1,):
            given = np.arange(5, 37, dtype="int32")
            outs = [np.full(32, -1, "int32") for _ in range(2)]
            for one, out in zip((mod, new), outs):
                run_function(one["main"], [given, out, np.asarray(n, "int32")])
            np.testing.assert_array_equal(outs[0], outs[1])


@pytest.mark.parametrize("stage", [[0, 0, 1], [0, 1, 1], [0, 1, 2], [0, 2, 2]])
@pytest.mark.parametrize("extent", [2, 3, 5])
def test_pipelined_pointers_skip_earlier_versions(stage: list[int], extent: int) -> None:
    """What a call gets is behind all versions before that of its iteration."""
    pointer = 'T.tvm_access_ptr(T.type_annotation("int32"), P.data, j, 1, 1)'
    text = PIPELINE.format(extent=extent, stage=stage, order=[0, 1, 2])
    text = text.replace("Q[j] = P[j] + 1", f'Q[j] = T.call_extern("int32", "f", {pointer})')
    body = transform.InjectSoftwarePipeline()(module(text))["main"].body
    found: list[int] = []

    def run(node: Any, values: dict[ir.Var, int]) -> None:
        if isinstance(node, ir.For):
            first = evaluate(node.min, values)
            for n in range(first, first + evaluate(node.extent, values)):
                run(node.body, {**values, node.loop_var: n})
        elif isinstance(node, ir.BlockRealize):
            numbers: dict[ir.Var, ir.PrimExpr] = {var: ir.IntImm(var.dtype, value) for var, value in values.items()}
            if is_one(Analyzer().simplify(ir.substitute(node.predicate, numbers))):
                run(node.block.body, values)
        elif isinstance(node, ir.BufferStore):
            found.extend(
                evaluate(c.args[2], values) for c in nodes_of(node.value, ir.Call) if is_call(c, "tir.tvm_access_ptr")
            )
        else:
            for part in parts_of(node):
                run(part, values)

    run(body, {})
    count = versions(0, (1, 2), stage, [0, 1, 2])
    assert found == [i % count * 2 + j for i in range(extent) for j in range(2)]
