"""Each type of node: made, printed, read back, evaluated against NumPy and lowered; and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from refusals import refuses
from sampling import some

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, AscTensor, ops
from tvmagic.ascend.optypes import OP_TYPES

COUNT = 41  # elements: vectors and a tail
DTYPES = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8")
# Which of the inputs below an elementwise type takes, if it is not `unit` (and `large`).
SIGNED = (
    "Abs",
    "Neg",
    "Sign",
    "Relu",
    "Ceil",
    "Floor",
    "Trunc",
    "Round",
    "Ceil2Int",
    "FloorToInt",
    "LeakyRelu",
    "Square",
    "Ub2ub",
    "Nop",
    "Pad",
    "RemovePad",
    "LogicalNot",
    "BitwiseNot",
    "Erf",
    "Erfc",
    "Gelu",
    "Tanh",
    "Sigmoid",
    "Lgamma",
    "Digamma",
    "Expm",
)
SPECIAL = ("Isnan", "IsInf", "IsFinite")
TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-8}
# Their formulas end with a difference, which loses what is left of the smaller one.
COARSE = {"Erfc": 10, "Erfinv": 10, "Lgamma": 40, "Digamma": 40, "Gelu": 10, "Expm": 10, "Pow": 4, "FloorDiv": 4}


def values(dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype).kind
    flags = rng.integers(0, 2, COUNT).astype("uint8")
    if kind == "f":
        halves = np.resize(np.array([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 0.3, -0.7, 3.2]), COUNT)
        special = np.resize(np.array([1.0, np.nan, -np.inf, np.inf, 0.0]), COUNT)
        unit, large = rng.uniform(0.05, 0.95, COUNT), rng.uniform(1.1, 3, COUNT)
        return {
            "unit": unit.astype(dtype),
            "large": large.astype(dtype),
            "signed": halves.astype(dtype),
            "special": special.astype(dtype),
            "flags": flags,
        }
    low = 0 if kind == "u" else -9
    whole = {name: rng.integers(a, 10, COUNT).astype(dtype) for name, a in (("unit", low), ("signed", low))}
    return {**whole, "large": rng.integers(1, 4, COUNT).astype(dtype), "flags": flags}


def build(dtype: str) -> tuple[AscGraph, list[np.ndarray], list[str]]:
    """A graph with an output for every elementwise type, and every reduction, that takes a dtype."""
    graph = AscGraph(f"types_{dtype}")
    z0, z1 = graph.create_axis("z0", 1), graph.create_axis("z1", COUNT)
    del z0
    data = values(dtype)
    loaded = {name: ops.Load(ops.Data(graph, name, dtype=str(array.dtype))) for name, array in data.items()}
    made: list[tuple[str, AscTensor]] = []
    for name, op in OP_TYPES.items():
        if np.dtype(dtype).kind not in op.takes or op.refused or op.kind not in ("elewise", "reduce"):
            continue
        first = "special" if name in SPECIAL else "signed" if name in SIGNED else "large" if name == "Acosh" else "unit"
        if op.kind == "reduce":
            made.append((name, getattr(ops, name)(loaded[first if name != "Prod" else "large"], z1)))
        elif name == "Cast":
            made += [(name, ops.Cast(loaded["unit"], to)) for to in ("float32", "int32", "uint8")]
        else:
            order = [loaded[first], loaded["large"], loaded["signed"]]
            if name == "ClipByValue":
                order = [loaded["signed"], loaded["unit"], loaded["large"]]
            for place in op.conditions:
                order.insert(place, loaded["flags"])
            attrs = dict.fromkeys(op.attrs, 0.25)
            made.append((name, getattr(ops, name)(*order[: op.inputs], **attrs)))
    for number, (name, y) in enumerate(made):
        ops.Output(ops.Store(y), f"out{number}_{name}")
    return graph, [a.reshape(1, COUNT) for a in data.values()], [name for name, _ in made]


def test_there_are_113_types() -> None:
    assert len(OP_TYPES) == 113
    assert {n for n, t in OP_TYPES.items() if t.refused} == {"MatMul", "VectorFunc", "AiryAi", "Nddma"}


def test_every_type_is_computed_on_three_dtypes() -> None:
    seen = [name for dtype in DTYPES for name in set(build(dtype)[2])]
    for name, op in OP_TYPES.items():
        if op.kind in ("elewise", "reduce") and not op.refused:
            assert seen.count(name) >= 3, name


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_are_printed_and_read(dtype: str) -> None:
    graph, inputs, _ = build(dtype)
    ascend.check_hint(graph)
    wanted = ascend.evaluate(graph, inputs)
    for generation in (1, 2):
        text = ascend.graph_text(graph, generation)
        again = ascend.parse_graph(text)
        assert str(again) == text and ascend.graph_text(again, generation) == text
        for got, want in zip(ascend.evaluate(again, inputs), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


# One function with 60 to 80 loops takes LLVM some seconds.
@pytest.mark.parametrize("dtype", some(DTYPES, ["float32"]))
def test_types_equal_numpy(dtype: str) -> None:
    graph, inputs, names = build(dtype)
    wanted = ascend.evaluate(graph, inputs)
    outputs = [np.full(w.shape, 7).astype(w.dtype) for w in wanted]
    tvmagic.build(ascend.lower_graph(graph))(*inputs, *outputs)
    for name, got, want in zip(names, outputs, wanted, strict=True):
        near = TOLERANCE.get(str(want.dtype), 0) * COARSE.get(name, 1)
        np.testing.assert_allclose(got, want, rtol=near, atol=near, err_msg=name)


# What `evaluate` gives is compared with NumPy, or with what is known, written here once more.
KNOWN = {
    "Log1p": (np.log1p, 0.3),
    "Expm": (np.expm1, 0.3),
    "Exp2": (np.exp2, 1.5),
    "Round": (np.rint, 2.5),
    "Round ": (np.rint, -0.5),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), 4.0),
    "Erf": (math.erf, 0.4),
    "Erfc": (math.erfc, 0.4),
    "Lgamma": (math.lgamma, 3.7),
    "Lgamma ": (math.lgamma, -1.3),
    "Erfinv": (lambda x: 0.4769362762044699, 0.5),
    "Asin": (np.arcsin, 0.4),
    "Digamma": (lambda x: -0.5772156649015329, 1.0),
    "Digamma ": (lambda x: 0.03648997397857652, -0.5),
    "Gelu": (lambda x: x / (1 + np.exp(-1.5957691 * (x + 0.044715 * x**3))), 0.7),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 2.0),
    "Ceil2Int": (np.ceil, -1.5),
    "FloorToInt": (np.floor, -1.5),
    "Sign": (np.sign, -3.0),
    "Trunc": (np.trunc, -1.7),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_type_means(name: str) -> None:
    function, x = KNOWN[name]
    (got,) = one(name.strip(), np.array([[x]]))
    np.testing.assert_allclose(got, [[function(x)]], rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("Lgamma", [1.0, 1.25, 0.5, 0.25, -1.5], [math.lgamma(v) for v in (1.0, 1.25, 0.5, 0.25, -1.5)]),
        ("Erfinv", [-1.0, 1.0, 1.5, -1.5, 0.5], [-math.inf, math.inf, math.nan, math.nan, 0.4769362762044699]),
    ],
)
def test_compiled_code_at_the_ends_of_a_formula(name: str, values: list[float], wanted: list[float]) -> None:
    graph = AscGraph("ends")
    graph.create_axis("z0", len(values))
    ops.Output(ops.Store(getattr(ops, name)(ops.Load(ops.Data(graph, "x")))), "out")
    out = np.zeros(len(values), "float32")
    tvmagic.build(ascend.lower_graph(graph))(np.array(values, "float32"), out)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)


def test_the_series_of_digamma() -> None:
    """In float64, and on both sides of 1/2."""
    x = np.array([1.0, 0.5, 0.25, -0.5, 1.5])
    graph = AscGraph("series")
    graph.create_axis("z0", len(x))
    ops.Output(ops.Store(ops.Digamma(ops.Load(ops.Data(graph, "x", dtype="float64")))), "out")
    out = np.zeros_like(x)
    tvmagic.build(ascend.lower_graph(graph))(x, out)
    gamma, log2 = 0.5772156649015329, math.log(2)
    half = -gamma - 2 * log2
    np.testing.assert_allclose(
        out, [-gamma, half, -gamma - math.pi / 2 - 3 * log2, half + 2, half + 2], atol=5e-11, rtol=0
    )


def one(name: str, *inputs: np.ndarray, **attrs: object) -> list[np.ndarray]:
    graph = AscGraph("one")
    for axis, length in enumerate(inputs[0].shape):
        graph.create_axis(f"z{axis}", length)
    loaded = [ops.Load(ops.Data(graph, f"x{i}", dtype=str(x.dtype))) for i, x in enumerate(inputs)]
    ops.Output(ops.Store(getattr(ops, name)(*loaded, **attrs)), "out")
    ascend.check_hint(graph)
    return ascend.evaluate(graph, inputs)


@pytest.mark.parametrize(
    ("name", "a", "b", "wanted"),
    [
        ("FloorDiv", -7, 2, -4),
        ("TruncDiv", -7, 2, -3),
        ("Remainder", -7, 3, 2),
        ("Fmod", -7, 3, -1),
        ("Mod", -7, 3, 2),
        ("TrueDiv", 7, 2, 3.5),
        ("LogicalXor", 3, 0, 1),
        ("LogicalAnd", 3, 2, 1),
        ("Xor", 6, 3, 5),
        ("LShift", 3, 2, 12),
        ("RShift", 12, 2, 3),
        ("Ge", 2, 2, 1),
        ("Ne", 2, 2, 0),
    ],
)
def test_what_a_type_of_two_numbers_means(name: str, a: int, b: int, wanted: float) -> None:
    (got,) = one(name, np.array([a], "int32"), np.array([b], "int32"))
    assert got[0] == wanted
    assert str(got.dtype) == {"TrueDiv": "float32", "LogicalXor": "uint8", "LogicalAnd": "uint8"}.get(
        name, "uint8" if name in ("Ge", "Ne") else "int32"
    )


def test_attributes_of_types() -> None:
    x = np.array([-2.0, 3.0], "float32")
    assert one("LeakyRelu", x, negative_slope=0.5)[0].tolist() == [-1.0, 3.0]
    assert one("Axpy", x, x, alpha=2.0)[0].tolist() == [-6.0, 9.0]
    with refuses("ascend.attribute", error=AscendError):
        one("Axpy", x, x, beta=2.0)


def test_an_argmax_is_the_first_greatest() -> None:
    graph = AscGraph("argmax")
    z1 = [graph.create_axis("z0", 37), graph.create_axis("z1", 20)][1]
    ops.Output(ops.Store(ops.ArgMax(ops.Abs(ops.Load(ops.Data(graph, "x"))), z1)), "out")
    x = np.random.default_rng(0).integers(-5, 6, (37, 20)).astype("float32")
    out = np.zeros((37, 1), "int64")
    tvmagic.build(ascend.compile_graph(graph, machine=ascend.Machine(threads=2)))(x, out)
    np.testing.assert_array_equal(out[:, 0], abs(x).argmax(1))
    np.testing.assert_array_equal(ascend.evaluate(graph, [x])[0], out)
    both = AscGraph("both")
    axes = [both.create_axis("z0", 3), both.create_axis("z1", 4)]
    ops.Output(ops.Store(ops.ArgMax(ops.Load(ops.Data(both, "x")), axes)), "out")
    with refuses("ascend.argmax_one_axis", error=AscendError):
        ascend.check_hint(both)


def test_negative_indices_count_from_the_end_if_asked() -> None:
    for from_end in (False, True):
        graph = AscGraph("gather")
        z0 = graph.create_axis("z0", 4)
        at = ops.Load(ops.Data(graph, "at", [z0], "int32"))
        y = ops.Gather(ops.Data(graph, "table", sizes=[10]), at, z0, negative_index_support=from_end)
        ops.Output(ops.Store(y), "out")
        assert f".negative_index_support = b: {str(from_end).lower()}" in str(graph)
        inputs = [np.array([0, -1, 3, -10], "int32"), np.arange(10, dtype="float32")]
        out = np.zeros(4, "float32")
        tvmagic.build(ascend.compile_graph(graph, machine=ascend.Machine()))(*inputs, out)
        assert out.tolist() == ([0, 9, 3, 0] if from_end else [0, 0, 3, 0])
        np.testing.assert_array_equal(ascend.evaluate(graph, inputs)[0], out)


def read_only(name: str) -> AscGraph:
    graph = AscGraph("read_only")
    z0, z1 = graph.create_axis("z0", 4), graph.create_axis("z1", 4)
    x = ops.Load(ops.Data(graph, "x"))
    if name == "Nddma":
        y = ops.Nddma(graph.find_node("x").y)
    elif name == "MatMul":
        y = ops.MatMul(x, x, [z0, z1], transpose_x2=True)
    elif name == "VectorFunc":
        y = ops.VectorFunc([x], "body")[0]
    else:
        y = ops.AiryAi(x)
    ops.Output(ops.Store(y), "out")
    return graph


@pytest.mark.parametrize("name", ["AiryAi", "MatMul", "Nddma", "VectorFunc"])
def test_types_that_are_only_read(name: str) -> None:
    graph = read_only(name)
    for generation in (1, 2):
        text = ascend.graph_text(graph, generation)
        assert str(ascend.parse_graph(text)) == text
    for call in (ascend.auto_schedule, ascend.lower_graph, lambda g: ascend.evaluate(g, [np.zeros((4, 4), "float32")])):
        with refuses("ascend.not_run", error=AscendError):
            call(graph)


def test_unknown_types_are_read_with_their_attributes() -> None:
    text = str(read_only("AiryAi")).replace(": AiryAi", ": FlashSoftmax")
    text = text.replace(
        "    .x = load_0.y\n", '    .ir_attr =  {.scale = f: 0.5\n.mode = s: "fast"\n    }\n    .x = load_0.y\n'
    )
    graph = ascend.parse_graph(text)
    node = graph.of_type("FlashSoftmax")[0]
    assert node.attrs == {"scale": 0.5, "mode": "fast"} and str(graph) == text
    with refuses("ascend.not_run", error=AscendError):
        ascend.evaluate(graph, [np.zeros((4, 4), "float32")])
    with refuses("ascend.op_type", error=AscendError):
        graph.add_node("FlashSoftmax")


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda x, i: ops.Exp(i), "op-dtype"),
        (lambda x, i: ops.BitwiseAnd(x, x), "op-dtype"),
        (lambda x, i: ops.Where(x, x, x), "edge-dtype"),
        (lambda x, i: ops.Add(x, i), "edge-dtype"),
        (lambda x, i: ops.Sum(ops.Cast(i, "bool"), i.axis[0]), "op-dtype"),
    ],
)
def test_dtypes_that_a_type_does_not_take(call, rule: str) -> None:
    graph = AscGraph("refused")
    graph.create_axis("z0", 4)
    x, i = ops.Load(ops.Data(graph, "x")), ops.Load(ops.Data(graph, "i", dtype="int32"))
    ops.Output(ops.Store(call(x, i)), "out")
    with pytest.raises(AscendError) as raised:
        ascend.check_hint(graph)
    assert raised.value.rule == rule
