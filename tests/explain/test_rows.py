"""What `%why` says of loops that write a few neighbours in each iteration, of which tvmagic's code is vectors; divisions of integers."""

import pytest

from tvmagic.codegen import last_program
from tvmagic.explain import Explanation, explain
from tvmagic.ir import PrimFunc
from tvmagic.model.nests import nests_of
from tvmagic.model.program_model import model
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.target import resolved

HASWELL, WIDE = "llvm -mcpu=haswell -num-cores=4", "llvm -mcpu=skylake-avx512 -num-cores=4"
ROWS = {
    "colours the other way round": "X: uint8[60000, 3]\nY[i, c] = X[i, 2 - c]",
    "planes to pixels": "X: uint8[3, 60000]\nY[i, c] = X[c, i]",
    "complex products": "A: float32[40000, 2]\nB: float32[40000, 2]\nC: float32[40000, 2]\n"
    "C[i, p] = A[i, 0] * B[i, 0] - A[i, 1] * B[i, 1] if p == 0 else A[i, 0] * B[i, 1] + A[i, 1] * B[i, 0]",
    "in turns": "A: float32[40000]\nB: float32[40000]\nY: float32[80000]\nY[i] = A[i // 2] if i % 2 == 0 else B[i // 2]",
    "points turned by a matrix": "A: float32[3, 3]\nX: float32[40000, 3]\nY[b, i] += A[i, k] * X[b, k]",
    "functions": "X: float32[30000, 2]\nY[i, c] = exp(X[i, 1 - c])",
}


def explained(text: str, cell: str = "", target: str = WIDE) -> Explanation:
    op = operator("rows", text)
    return explain(schedule(op, cell, "v") if cell else op.current, target, llvm=False)


def last(func: PrimFunc) -> PrimFunc:
    """The function as code is made of it."""
    return next(iter(last_program(func, WIDE).functions.values()))


def cycles(text: str) -> float:
    return explained(text).cycles


@pytest.mark.parametrize("target", [HASWELL, WIDE])
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_few_neighbours_are_vectors_by_tvmagic(name: str, target: str) -> None:
    found = explained(ROWS[name], target=target)
    (row,) = found.loops
    assert row.vectorized == "vectors by tvmagic" and not row.loop.endswith(".vector")
    assert found.program.split("\n")[row.line - 1].strip().startswith(("Y", "C"))
    assert {f.code for f in found.findings} <= {"not-parallel", "at-roof"}, "no call of a schedule is missing"


def test_a_parallel_loop_of_rows_is_vectors_in_each_thread() -> None:
    text, cell = ROWS["functions"], "s[Y].parallel(s[Y].op.axis[0])"
    (row,) = explained(text, cell).loops
    assert (row.vectorized, row.loop, row.threads) == ("vectors by tvmagic", "i", pytest.approx(4, abs=0.1))
    assert explained(text, cell).cycles < explained(text).cycles


def test_iterations_that_fill_no_vector_are_in_the_model() -> None:
    (func,) = operator("rows", "X: float32[100, 7, 3]\nY[n, i, c] = X[n, i, 2 - c]").current.lower().functions.values()
    nests = nests_of(last(func))[0]
    assert [(nest.in_rows, nest.statements[0].lanes) for nest in nests] == [(True, 4), (False, 1)]
    assert not any(nest.in_rows for nest in nests_of(func)[0])


def test_what_is_computed_for_several_vectors_is_computed_once() -> None:
    text = "A: float32[400, 2]\nC: float32[400, 2]\nC[i, p] = exp(A[i, 0]) if p == 0 else A[i, 1] * 2"
    (func,) = operator("rows", text).current.lower().functions.values()
    (nest,) = nests_of(last(func))[0]
    assert [s.operations.calls for s in nest.statements] == [1, 0]


def test_memory_that_may_be_the_same_has_no_rows() -> None:
    (func,) = operator("rows", ROWS["functions"]).current.lower().functions.values()
    shared = func.without_attr("tir.noalias")
    assert [nest.in_rows for nest in nests_of(last(shared))[0]] == [False]


def test_elements_by_the_remainder_of_an_index_are_all_computed() -> None:
    assert [row.recomputed for row in explained(ROWS["in turns"]).loops] == [1]


def test_divisions_of_integers_take_time() -> None:
    one = "X: {0}[60000]\nZ: {0}[60000]\nY[i] = X[i] {1}"
    shift, constant, variable = (cycles(one.format("int32", end)) for end in ("// 8 + Z[i]", "// 7 + Z[i]", "// Z[i]"))
    assert shift < constant < variable / 5
    assert cycles(one.format("int64", "// 7 + Z[i]")) > 3 * constant
    assert not any(
        f.code == "at-roof" and "stored once" in f.text for f in explained(one.format("int32", "// Z[i]")).findings
    )


def test_the_model_ranks_rows_like_what_llvm_makes_vectors_of() -> None:
    machine = resolved(WIDE).machine

    def time(text: str) -> float:
        (func,) = operator("rows", text).current.lower().functions.values()
        return model(last(func), machine).time

    swapped, plain = time(ROWS["functions"]), time("X: float32[60000]\nY[i] = exp(X[i])")
    assert plain <= swapped < 1.5 * plain
