"""HintGraphs of tensor expressions and of cells: compiled and evaluated, equal to NumPy; what cannot be expressed."""

import random

import numpy as np
import pytest
from refusals import refuses
from sampling import every
from te_cells import CELLS, changed_cell, random_cell

from tvmagic import ascend, te
from tvmagic.ascend import AscendError, Machine
from tvmagic.errors import DefectError, TVMagicError
from tvmagic.ir import Call, Select
from tvmagic.operators import Operator, Version, operator


def inputs_of(op: Operator, seed: int = 0) -> list[np.ndarray]:
    """Random inputs; indices (`I`) are inside the 20 rows that every input has that is read at some."""
    arrays = op.random_inputs(seed, sizes={"n": 32, "m": 11})
    return [a % 20 if t.name.startswith("I") else a for t, a in zip(op.inputs, arrays, strict=True)]


def run_both(op: Operator, threads: int = 2) -> None:
    """The graph evaluated, and compiled as a version of the operator, against the operator's reference."""
    graph = ascend.hint_graph(op)
    arrays = inputs_of(op)
    wanted = op.reference(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    op.add_version(Version(op, ascend.compile_graph(graph, {"n": 32, "m": 11}, Machine(threads)), "ascend"))
    given = op(*arrays)
    given = given if isinstance(given, tuple) else (given,)
    for want, evaluated, compiled in zip(wanted, ascend.evaluate(graph, arrays), given, strict=True):
        np.testing.assert_allclose(evaluated, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(compiled, want, rtol=1e-4, atol=1e-4)
    assert str(ascend.parse_graph(str(graph))) == str(graph)


@pytest.mark.parametrize("name", every(3, CELLS))
def test_cells_equal_their_reference(name: str) -> None:
    run_both(operator(name, CELLS[name]))


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_cells_equal_their_reference(first: int) -> None:
    for seed in range(first, first + 20):
        op = operator("random", random_cell(seed))
        arrays = inputs_of(op, seed)
        wanted = op.reference(*arrays)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for want, got in zip(wanted, ascend.evaluate(ascend.hint_graph(op), arrays), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=random_cell(seed))


@pytest.mark.parametrize("seed", range(100, 102))
def test_random_cells_compiled(seed: int) -> None:
    run_both(operator("random", random_cell(seed)), threads=1)


@pytest.mark.soak
def test_many_random_cells_compiled() -> None:
    for seed in range(200, 500):
        run_both(operator("random", random_cell(seed)), threads=1)


def equals(
    outputs: list[te.Tensor], inputs: list[te.Tensor], arrays: list[np.ndarray], *wanted: np.ndarray
) -> ascend.AscGraph:
    """The graph of some tensors, which gives what is wanted."""
    graph = ascend.hint_graph(outputs, inputs)
    for got, want in zip(ascend.evaluate(graph, arrays), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return graph


def test_tensors_of_one_element_have_an_axis() -> None:
    x = te.placeholder((1, 1), name="x")
    y = te.compute((1, 1), lambda i, j: x[i, j] * 2.0, name="y")
    graph = equals([y], [x], [np.full((1, 1), 3, "float32")], np.full((1, 1), 6, "float32"))
    assert [(a.name, str(a.size)) for a in graph.axes] == [("z0", "1")]


def test_arguments_of_one_name_get_numbers() -> None:
    tensors = [te.placeholder((5,), name="x") for _ in range(3)]
    y = te.compute((5,), lambda i: tensors[0][i] - tensors[1][i] * tensors[2][i], name="x")
    arrays = [np.arange(5, dtype="float32") + n for n in range(3)]
    graph = equals([y], tensors, arrays, arrays[0] - arrays[1] * arrays[2])
    assert [n.name for n in graph.of_type("Data", "Output")] == ["x", "x_1", "x_2", "x_3"]


def test_casts_to_bool_and_conditions_that_are_likely() -> None:
    x = te.placeholder((7,), name="x", dtype="int32")
    y = te.compute((7,), lambda i: x[i].astype("bool"), name="y")
    z = te.compute((7,), lambda i: Select(Call("bool", "tir.likely", [x[i] > 0]), x[i], x[i] * 3), name="z")
    given = np.array([-2, -1, 0, 1, 2, 0, 5], "int32")
    graph = equals([y, z], [x], [given], given != 0, np.where(given > 0, given, given * 3))
    assert graph.of_type("Ne") and graph.of_type("Output")[0].y.dtype == "bool"


def test_a_select_by_an_index_is_a_concat() -> None:
    a, b = te.placeholder((3,), name="a"), te.placeholder((4,), name="b")
    y = te.compute((7,), lambda i: Select(i < 3, a[i] * 2.0, b[i - 3]), name="y")
    arrays = [np.arange(3, dtype="float32"), np.arange(4, dtype="float32") + 50]
    assert equals([y], [a, b], arrays, np.concatenate([arrays[0] * 2, arrays[1]])).of_type("Concat")


REFUSED = {
    "a shift": ("X: float32[9]\nY[i] = X[i + 1]", "ascend.te_expression"),
    "two orders": ("X: float32[4, 4]\nY[i, j] = X[i, j] + X[j, i]", "ascend.te_expression"),
    "a diagonal": ("X: float32[4, 4]\nY[i] = X[i, i]", "ascend.te_expression"),
    "a part": ("X: float32[9]\nfor i in range(5): Y[i] = X[i]", "ascend.te_expression"),
    "one element": ("X: float32[9]\nY[i] = X[i] - X[0]", "ascend.te_expression"),
    "an index as a value": ("X: float32[9]\nY[i] = X[i] * i", "ascend.te_expression"),
    "the wrong part": (
        "A: float32[8]\nB: float32[5]\nfor i in range(8): Y[i] = A[i] if i < 3 else B[i - 3]",
        "ascend.te_expression",
    ),
    "the wrong place": (
        "A: float32[3]\nB: float32[5]\nfor i in range(8): Y[i] = A[i] if i < 3 else B[i - 2]",
        "ascend.te_expression",
    ),
    "a part as an output": (
        "A: float32[3]\nB: float32[5]\nZ[i] = exp(A[i])\nfor i in range(8): Y[i] = A[i] if i < 3 else B[i - 3]",
        "ascend.te_expression",
    ),
    "a sum over a part": (
        "A: float32[2, 3]\nB: float32[2, 5]\nfor b in range(2):\n    for i in range(8):\n"
        "        Y[b, i] = A[b, i] if i < 3 else B[b, i - 3]\nZ[b] += A[b, k]",
        "ascend.te_expression",
    ),
    "a condition on two axes": ("X: float32[4, 4]\nY[i, j] = X[i, j] if i < j else 0", "ascend.te_expression"),
    "parts with holes": ("X: float32[4]\nY[i] = X[i] if i != 2 else 0", "ascend.te_expression"),
    "computed rows": (
        "X: float32[9, 4]\nI: int32[3]\nE[i, j] = exp(X[i, j])\nY[i, j] = E[I[i], j]",
        "ascend.te_expression",
    ),
    "indices of two dimensions": (
        "X: float32[9, 4]\nI: int32[3]\nJ: int32[3]\nY[i] = X[I[i], J[i]]",
        "ascend.te_expression",
    ),
    "rows and all": (
        "X: float32[3, 4]\nI: int32[3]\nY[i, j] = X[I[i], j] + X[i, j]",
        "ascend.te_expression",
    ),
    "steps": ("X: float32[3, 4]\nY[i, k] = cumsum(X[i, k], over=k)", "ascend.te_expression"),
    "another function": (
        "X: int32[9]\nY[i] = popcount(X[i])",
        "ascend.te_expression",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_expressed_is_named_with_its_place(name: str) -> None:
    text, message = REFUSED[name]
    with refuses(message, error=AscendError) as raised:
        ascend.hint_graph(operator("refused", text))
    assert raised.value.rule == "te-expression" and raised.value.span is not None


@pytest.mark.parametrize("what", [3, None, [], ["x"], "text"])
def test_what_is_no_operator_is_refused(what: object) -> None:
    with refuses("ascend.not_tensor_expressions", "ascend.unsupported_program", error=AscendError):
        ascend.hint_graph(what)


def test_other_operations_are_refused() -> None:
    x = te.placeholder((9,), name="x")
    k = te.reduce_axis((0, 9), name="k")
    with pytest.raises(AscendError):
        ascend.hint_graph(te.compute((1,), lambda o: te.sum(x[k], k, where=x[k] > 0), name="y"))
    joined = te.comm_reducer(lambda a, b: a * 2 + b, lambda t: te.const(0, t), name="joined")
    with pytest.raises(AscendError):
        ascend.hint_graph(te.compute((1,), lambda o: joined(x[k], k), name="y"))
    both = te.comm_reducer(
        lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda t, u: (te.const(0, t), te.const(0, u)), name="both"
    )
    with pytest.raises(AscendError):
        ascend.hint_graph(te.compute((1,), lambda o: both((x[k], x[k] * 2), k), name="z")[0])
    with refuses("ascend.unknown_input", error=AscendError):
        ascend.hint_graph(te.compute((9,), lambda i: x[i] + 1, name="y"), [])
    y = te.compute((9,), lambda i: x[i] + 1, name="y")
    with pytest.raises(AscendError, match="`y`"):
        ascend.hint_graph(te.compute((9,), lambda i: y[i] + 1, name="z"), [x, y])
    extern = te.extern((9,), [x], lambda i, o: te.const(0), name="other", dtype="float32")
    with pytest.raises(AscendError, match="`other`.*`extern`"):
        ascend.hint_graph(extern)
    function = "@T.prim_func\ndef f(x: T.Buffer((4,), 'float32'), y: T.Buffer((4,), 'float32')):\n" + (
        "    for i in range(4):\n        y[i] = x[i]\n"
    )
    with pytest.raises(AscendError):
        ascend.hint_graph(operator("f", function))


@pytest.mark.parametrize("name", CELLS)
def test_changed_cell_becomes_a_valid_graph_or_is_refused(name: str) -> None:
    rng = random.Random(name)
    for _ in range(4):
        try:
            op = operator("cell", changed_cell(CELLS[name], rng))
            graph = ascend.hint_graph(op)
        except DefectError:
            raise
        except TVMagicError:
            continue
        ascend.check_hint(graph)
