"""InjectSoftwarePipeline: the text for TVM's simple forms, results of random pipelines, and what is refused."""

from __future__ import annotations

import random
import textwrap

import numpy as np
import pytest
from pass_checks import module, parse
from refusals import refuses

import tvmagic as tvm
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.ir import IRModule
from tvmagic.passes import recording
from tvmagic.tir.transform import InjectSoftwarePipeline, LowerOpaqueBlock, Simplify

COPY = """
def main(A: T.Buffer((16, {n}), "float32"), C: T.Buffer((16, {n}), "float32")):
    for t in T.thread_binding(16, thread="threadIdx.x"):
        for i in T.serial({n}, annotations={{"software_pipeline_stage": {stage}, "software_pipeline_order": {order}, "kept": 3}}):
            with T.block(""):
                T.reads(A[t, i])
                T.writes(C[t, i])
                B = T.alloc_buffer((16, 1), scope="shared")
                with T.block("load"):
                    T.reads(A[t, i])
                    T.writes(B[t, 0])
                    B[t, 0] = A[t, i] * T.float32(2)
                with T.block("use"):
                    T.reads(B[t, 0])
                    T.writes(C[t, i])
                    C[t, i] = B[t, 0] + T.float32(1)
"""


def pipelined(text: str) -> str:
    return Simplify()(InjectSoftwarePipeline()(module(text)))["main"].script()


def test_one_version_is_enough_if_the_use_comes_first() -> None:
    text = pipelined(COPY.format(n=16, stage=[0, 1], order=[1, 0]))
    assert 'B = T.alloc_buffer((16, 1), scope="shared")' in text


def test_loops_shorter_than_the_pipeline() -> None:
    mod = module(COPY.format(n=2, stage=[0, 3], order=[0, 1]))
    with recording() as record:
        text = InjectSoftwarePipeline()(mod)["main"].script()
    assert "software_pipeline" not in text and record.notes("ignored")
    assert "for i in range(" not in pipelined(COPY.format(n=1, stage=[0, 1], order=[0, 1]))


REFUSED = [
    ('"software_pipeline_stage": [0, 1]', "tir.software_pipeline.incomplete_annotations"),
    ('"software_pipeline_order": [0, 1]', "tir.software_pipeline.incomplete_annotations"),
    (
        '"software_pipeline_stage": [0, 1, 1], "software_pipeline_order": [0, 1, 2]',
        "tir.software_pipeline.wrong_number_count",
    ),
    ('"software_pipeline_stage": [0, -1], "software_pipeline_order": [0, 1]', "tir.software_pipeline.negative_number"),
    ('"software_pipeline_stage": [0, 0], "software_pipeline_order": [1, 1]', "tir.software_pipeline.repeated_order"),
    ('"software_pipeline_stage": [0, 0], "software_pipeline_order": [0, 2]', "tir.software_pipeline.wrong_numbers"),
    (
        '"software_pipeline_stage": [0, 0], "software_pipeline_order": [1, 0]',
        "tir.software_pipeline.dependent_statements_swapped",
    ),
    ('"software_pipeline_stage": [1, 0], "software_pipeline_order": [0, 1]', "tir.software_pipeline.later_stage"),
]


@pytest.mark.parametrize(("annotations", "words"), REFUSED, ids=lambda v: None)
def test_annotations_that_are_refused(annotations: str, words: str) -> None:
    start = COPY.index("annotations=")
    text = COPY[:start] + "annotations={{" + annotations + "}}):" + COPY[COPY.index("\n", start) :]
    with refuses(words):
        InjectSoftwarePipeline()(module(text.format(n=8)))


KINDS = [
    "T.parallel(8",
    "T.vectorized(8",
    'T.thread_binding(8, thread="vthread.x"',
    'T.thread_binding(8, thread="threadIdx.x"',
]


@pytest.mark.parametrize("kind", KINDS)
def test_stages_need_iterations_in_order(kind: str) -> None:
    text = COPY.format(n=8, stage=[0, 1], order=[0, 1]).replace("T.serial(8", kind)
    assert kind in text
    with refuses("tir.software_pipeline.iterations_unordered"):
        InjectSoftwarePipeline()(module(text))
    text = COPY.format(n=8, stage=[0, 0], order=[0, 1]).replace("T.serial(8", kind)  # one stage: nothing overlaps
    assert kind.split("(")[0] in InjectSoftwarePipeline()(module(text))["main"].script()


@pytest.mark.parametrize(
    ("stage", "order", "body", "words"),
    [
        ([0], [0], "A[i] = T.float32(1)", "tir.software_pipeline.body_not_a_sequence"),
        (
            [0, 1, 1],
            [0, 1, 2],
            "T.evaluate(A[i])\nA[i + 1] = T.float32(2)\nC[i] = A[i]",
            "tir.software_pipeline.iterations_swapped",
        ),
        (
            [0, 1],
            [0, 1],
            'B = T.alloc_buffer((4,))\nB[0] = A[i]\nT.evaluate(T.call_extern("int32", "f", B.data))',
            "tir.software_pipeline.buffer_used_by_pointer",
        ),
        (
            [1, 0],
            [0, 1],
            'T.evaluate(T.call_extern("int32", "f"))\nT.evaluate(T.call_extern("int32", "g"))',
            "tir.software_pipeline.later_stage",
        ),
        (
            [1, 0],
            [0, 1],
            'T.reads(A[0:32])\nT.writes(A[0:32])\nT.evaluate(T.call_extern("int32", "f", A.data))\nA[i] = T.float32(1)',
            "tir.software_pipeline.later_stage",
        ),
    ],
)
def test_bodies_that_are_refused(stage: list[int], order: list[int], body: str, words: str) -> None:
    head = (
        'def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):\n    for i in T.serial(8, annotations='
    )
    head += f'{{"software_pipeline_stage": {stage}, "software_pipeline_order": {order}}}):\n        with T.block(""):\n'
    with refuses(words):
        InjectSoftwarePipeline()(module(head + textwrap.indent(body, " " * 12)))


# ---------------------------------------------------------------------------- random pipelines


def random_pipeline(rng: random.Random) -> str:
    """Statements on memory of an iteration's own (P, Q) and of all iterations (S, C), in random stages and orders."""
    count, extent = rng.randint(2, 5), rng.randint(1, 7)
    own = ["P[j]", "Q[j]", "P[1 - j]"]
    shared = [f"S[i * 2 + {k} + j]" for k in (0, 2, 4)] + ["S[j]", "C[i * 2 + j]"]
    body = ["P[j] = A[i * 2 + j]", "Q[j] = P[j] + 1"]
    for n in range(count - 2):
        target = rng.choice(["Q[j]", "P[j]", rng.choice(shared), "C[i * 2 + j]"])
        body.append(f"{target} = {rng.choice(own[:2])} * 3 + {rng.choice([*own, *shared])} + {n}")
    stages, orders = [rng.randint(0, 3) for _ in body], list(range(count))
    if rng.random() < 0.7:
        stages.sort()
    if rng.random() < 0.5:
        rng.shuffle(orders)
    lines = [
        'def main(A: T.Buffer((32,), "int32"), S: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")):',
        f'    for i in T.serial({rng.choice([0, 0, 1])}, {extent + 1}, annotations={{"software_pipeline_stage": {stages}, '
        f'"software_pipeline_order": {orders}}}):',
        '        with T.block(""):',
        '            P = T.alloc_buffer((2,), "int32")',
        '            Q = T.alloc_buffer((2,), "int32")',
    ]
    for stmt in body:
        lines += ["            for j in range(2):", f'                with T.block(""):\n                    {stmt}']
    return "\n".join(lines)


def contents(mod: IRModule) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 50, 32).astype("int32") for _ in range(3)]
    run_function(LowerOpaqueBlock()(mod)["main"], arrays)
    return arrays


def test_random_pipelines_compute_what_their_loops_do() -> None:
    """A pipeline is refused, or gives the same results."""
    done = refused = 0
    for seed in range(100):
        text = random_pipeline(random.Random(seed))
        before = IRModule({"main": parse(text)})
        try:
            after = InjectSoftwarePipeline()(before)
        except TVMagicError:
            refused += 1
            continue
        done += 1
        for got, wanted in zip(contents(after), contents(before)):
            np.testing.assert_array_equal(got, wanted, f"seed {seed}\n{text}")
    assert done > 20 and refused > 20


def test_a_pipeline_is_built() -> None:
    text = COPY.format(n=16, stage=[0, 2], order=[0, 1])
    a, c = np.arange(256, dtype="float32").reshape(16, 16), np.zeros((16, 16), "float32")
    tvm.build(module(text), target="llvm")(a, c)
    np.testing.assert_array_equal(c, a * 2 + 1)


def _pipelined_text(body: str) -> str:
    func = parse(textwrap.dedent(body))
    return str(Simplify()(InjectSoftwarePipeline()(IRModule({"main": func}))))


def test_memory_that_no_statement_writes_has_one_version() -> None:
    text = COPY.format(n=16, stage=[0, 1], order=[0, 1])
    text = text.replace('scope="shared")', 'scope="shared")\n                Q = T.alloc_buffer((3,))')
    text = text.replace("T.reads(B[t, 0])", "T.reads(B[t, 0], Q[1])").replace("+ T.float32(1)", "+ Q[1]")
    new = pipelined(text)
    assert 'B = T.alloc_buffer((2, 16, 1), scope="shared")' in new and "Q = T.alloc_buffer((3,))" in new


@pytest.mark.parametrize("condition", ["T.bool(True)", "k < n"])
def test_statements_of_a_block_that_always_runs_have_stages_of_their_own(condition: str) -> None:
    """All of a block that runs under a condition is in one."""
    alone = condition == "T.bool(True)"
    text = _pipelined_text(f"""
    def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32"), n: T.int32):
        for k in T.serial(4, annotations={{"software_pipeline_stage": {[0, 1, 1] if alone else [0, 1]}, "software_pipeline_order": {[0, 1, 2] if alone else [0, 1]}}}):
            with T.block(""):
                T.reads(A[k])
                T.writes(C[k], D[k])
                B = T.alloc_buffer((1,), "int32")
                with T.block("load"):
                    T.reads(A[k])
                    T.writes(B[0])
                    B[0] = A[k]
                with T.block("uses"):
                    T.where({condition})
                    T.reads(B[0])
                    T.writes(C[k], D[k])
                    with T.block("C"):
                        T.reads(B[0])
                        T.writes(C[k])
                        C[k] = B[0] + 1
                    with T.block("D"):
                        T.reads(B[0])
                        T.writes(D[k])
                        D[k] = B[0] + 2
    """)
    assert 'B = T.alloc_buffer((2, 1), "int32")' in text
    assert ('T.block("uses")' not in text) is alone and ("T.where(k < n)" in text) is not alone
