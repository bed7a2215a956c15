"""VectorizeInterleavedStores: vectors of loops that store a few adjacent elements, and which loops are unchanged."""

import re

import numpy as np
import pytest
from late_passes import HASWELL, assert_same_values, late, loops, parsed

import tvmagic
from tvmagic import codegen, ir
from tvmagic.auto import decide
from tvmagic.codegen.late.vectorize_interleaved_stores import vectorize_interleaved_stores
from tvmagic.eval.integers import evaluate
from tvmagic.ir.query import nodes_of
from tvmagic.operators import operator
from tvmagic.operators.operator import Version

CELLS = {
    "colours the other way round": "X: uint8[100, 3]\nY[i, c] = X[i, 2 - c]",
    "a value for each colour": "X: float32[50, 3]\nb: float32[3]\ng: float32[3]\nY[i, c] = (X[i, c] - b[c]) * g[c] + 1",
    "planes to pixels": "X: uint8[3, 76]\nY[i, c] = X[c, i]",
    "complex products": "A: float32[33, 2]\nB: float32[33, 2]\nC: float32[33, 2]\n"
    "C[i, p] = A[i, 0] * B[i, 0] - A[i, 1] * B[i, 1] if p == 0 else A[i, 0] * B[i, 1] + A[i, 1] * B[i, 0]",
    "in turns": "A: int16[40]\nB: int16[40]\nY: int16[80]\nY[i] = A[i // 2] if i % 2 == 0 else B[i // 2]",
    "each four times": "X: float64[21]\nY: float64[84]\nY[i] = X[i // 4] * 2",
    "an outer product": "X: float32[40]\nW: float32[4]\nY[i, c] = X[i] * W[c]",
    "extrema": "X: int32[64, 2]\nY[i, c] = max(X[i, c], X[i, 0]) - min(X[i, 1], 3)",
    "bools": "X: bool[64, 3]\nb: bool[3]\nY[i, c] = X[i, c] ^ b[c]",
    "points turned by a matrix": "A: float32[3, 3]\nX: float32[40, 3]\nY[b, i] += A[i, k] * X[b, k]",
    "the largest of three": "A: int16[2, 3]\nX: int16[40, 3]\nY[b, i] = max(A[i, k] + X[b, k], over=k)",
    "two results": "X: float32[32, 3]\nY[i, c] = X[i, c]\nZ[i, c] = X[i, 2 - c] + 1",
    "functions": "X: float32[32, 2]\nY[i, c] = exp(X[i, 1 - c])",
}
# Far loads, five neighbours, too few iterations for a vector, a gap between rows, what LLVM makes vectors of.
OTHERS = {
    "loads that are far apart": "X: float32[3, 40, 9]\nY[i, c] = X[c, i, 0]",
    "five neighbours": "X: float32[50, 5]\nY[i, c] = X[i, 4 - c]",
    "three iterations": "X: float32[3, 3]\nY[i, c] = X[i, 2 - c]",
    "a branch by data": "X: int32[64, 2]\nY[i, c] = X[i, c] if X[i, c] > X[i, 0] else X[i, 1]",
    "one element": "X: float32[50]\nY[i] = X[i] + 1",
    "an index from data": "X: float32[50]\nI: int32[50, 2]\nY[i, c] = X[I[i, c]]",
}


def raw(text: str, target: str = HASWELL) -> str:
    op = operator("rows", text)
    return str(codegen.llvm_ir(Version(op, None).lower(), target, optimize=False))


def stored(text: str) -> list[int]:
    """The lanes of the stores in LLVM's text."""
    return [int(lanes or 1) for lanes in re.findall(r"^  store (?:<(\d+) x )?\w+", text, re.M)]


@pytest.mark.parametrize("name", CELLS)
def test_rows_of_a_few_neighbours_are_vectors(name):
    lanes = stored(raw(CELLS[name]))
    assert max(lanes) >= 4 and lanes.count(max(lanes)) in (2, 3, 4, 6)
    op = operator("rows", CELLS[name])
    assert Version(op, None).build() and op.check().ok


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_are_left_to_llvm(name):
    assert set(stored(raw(OTHERS[name]))) == {1}


def test_what_is_side_by_side_in_memory_is_not_shuffled():
    """The colours of 8 pixels are three vectors as they are."""
    assert raw(CELLS["a value for each colour"]).count("load <8 x float>") == 3


def test_what_two_parts_are_loaded_from_is_loaded_once():
    """Real and imaginary parts are every second element of the same two vectors."""
    lowered = Version(operator("rows", CELLS["complex products"]), None).lower()
    text = str(codegen.llvm_ir(lowered, HASWELL))
    assert text.count("load <8 x float>") == 2 * text.count("store <8 x float>")


def test_a_rest_of_known_length_is_vectors_of_fewer_lanes():
    """76 of 100 bytes for a vector of 32: two of these, one of 8, one of 4."""
    assert sorted(set(stored(raw(CELLS["planes to pixels"])))) == [4, 8, 32]


def test_what_is_read_again_is_not_computed_in_vectors():
    source = """
@T.prim_func
def main(Y: T.Buffer((97,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(32):
        for c in range(2):
            Y[i * 2 + c + 2] = Y[i * 2 + 1 - c] + T.float32(1)
"""
    func = parsed(source)
    y = np.arange(97, dtype="float32")
    expected = y.copy()
    for i in range(32):
        for c in range(2):
            expected[i * 2 + c + 2] = expected[i * 2 + 1 - c] + 1
    tvmagic.build(func)(y)
    np.testing.assert_array_equal(y, expected)


def test_a_parallel_loop_of_short_rows_is_vectors_in_each_chunk():
    source = """
@T.prim_func
def main(X: T.Buffer((3000,), "float32"), Y: T.Buffer((3000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(1000):
        for c in range(3):
            Y[i * 3 + c] = X[i * 3 + 2 - c]
"""
    func = parsed(source)
    assert max(stored(str(codegen.llvm_ir(func, HASWELL, optimize=False)))) == 8
    x, y = np.random.default_rng(0).random(3000, "float32"), np.zeros(3000, "float32")
    tvmagic.build(func)(x, y)
    np.testing.assert_array_equal(y.reshape(-1, 3), x.reshape(-1, 3)[:, ::-1])


@pytest.mark.parametrize(("first", "count", "lanes"), [(0, 1000, 8), (400, 600, 8), (0, 1001, 1), (1, 1000, 1)])
def test_a_parallel_loop_whose_indices_are_divided_goes_by_whole_periods(first, count, lanes):
    """A chunk may begin at any iteration of the loop over periods."""
    source = f"""
@T.prim_func
def main(X: T.Buffer((600,), "float32"), Y: T.Buffer((1200,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for i in T.parallel({first}, {first + count}):
        Y[i] = T.if_then_else(i % 2 == 0, X[i // 2], T.float32(0))
"""
    func = parsed(source)
    assert max(stored(str(codegen.llvm_ir(func, HASWELL, optimize=False))), default=1) == lanes
    x, y = np.random.default_rng(0).random(600, "float32"), np.full(1200, 7, "float32")
    tvmagic.build(func)(x, y)
    expected = np.full(1200, 7, "float32")
    places = np.arange(first, first + count)
    expected[places] = np.where(places % 2 == 0, x[places // 2], 0)
    np.testing.assert_array_equal(y, expected)


def test_sums_of_few_terms_are_computed_in_registers():
    """Of twelve stores for a point, the last three alone are made; the terms are added in the order in which they are written."""
    text = raw(CELLS["points turned by a matrix"])
    assert stored(text).count(8) == 3 and text.count("fadd contract <8 x float>") == 9


def test_the_instant_schedule_leaves_sums_of_few_terms_to_it():
    op = operator("turned", "A: float32[3, 3]\nX: float32[4000, 3]\nY[b, i] += A[i, k] * X[b, k]")
    made = decide(op, HASWELL)
    assert any("become vectors along b" in text for text in made.texts)
    assert max(stored(str(codegen.llvm_ir(Version(op, made.schedule).lower(), HASWELL, optimize=False)))) == 8


CHAIN = """
@T.prim_func
def f(X: T.Buffer((64,), "float32"), Y: T.Buffer((128,), "float32")):
    for i in range(64):
        Y[i * 2] = X[i]
        Y[i * 2 + 1] = X[i] - T.float32(0.5)
{}
"""
LINKS = {
    "what was stored": "        Y[i * 2] = Y[i * 2] * Y[i * 2 + 1]\n" * 50,
    "variables": "        v0: T.float32 = X[i]\n"
    + "".join([f"        v{n + 1}: T.float32 = v{n} * v{n}\n" for n in range(50)])
    + "        Y[i * 2] = v50\n        Y[i * 2 + 1] = v50",
}


@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
def test_what_would_be_too_long_when_written_out_is_left_alone(links: str) -> None:
    """Each of 50 links uses the one before twice: written out, that would be 2^50 operations."""
    x, y = np.linspace(0.5, 1, 64, dtype="float32"), np.zeros(128, "float32")
    tvmagic.build(parsed(CHAIN.format(links)))(x, y)
    assert y[126] == (0.5**50 if "Y[i * 2] * " in links else 1)


# ---------------------------------------------------------------------------- single loops, with what they write


def loop_of(body: str, count: str = "20", first: str = "0", kind: str = "range", dtype: str = "float32") -> ir.PrimFunc:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return parsed(f"""
@T.prim_func
def main(X: T.Buffer((400,), "{dtype}"), W: T.Buffer((20, 9), "{dtype}"), D: T.Buffer((400,), "float64"), Y: T.Buffer((400,), "{dtype}"), Z: T.Buffer((20, 9), "{dtype}"), n: T.int32):
    for i in {kind}({first}, {first} + {count}):
{lines}
""")


def vectors_of(func: ir.PrimFunc, noalias: bool = True) -> ir.PrimFunc | None:
    """Of a machine with vectors of 256 bits."""
    return late(vectorize_interleaved_stores, func.with_attr("tir.noalias", noalias))


def shape_of(made: ir.PrimFunc | None) -> list[tuple[int, int] | int] | None:
    """The lanes and the extent of each loop over vectors, and the iterations of the loop that is left."""
    if made is None:
        return None
    found: list[tuple[int, int] | int] = []
    for loop in loops(made.body):
        if loop.loop_var.name == "i.vector":
            (lanes,) = {store.value.dtype.lanes for store in nodes_of(loop, ir.BufferStore)}
            found.append((lanes, evaluate(loop.extent, {})))
        elif loop.loop_var.name == "i":
            found.append(evaluate(loop.extent, {}))
    return found


def neighbours(count: int, value: str = "X[i] * T.float32({})", buffer: str = "Y") -> str:
    return "\n".join(f"{buffer}[i * {count} + {c}] = {value.format(c)}" for c in range(count))


def check_values(func: ir.PrimFunc, made: ir.PrimFunc) -> None:
    """Assert that a function stores the values of the one as it was."""
    arrays: list[np.ndarray] = []
    for buffer in (func.buffer_map[param] for param in func.params[:-1]):
        shape = [evaluate(size, {}) for size in buffer.shape]
        arrays.append((np.arange(int(np.prod(shape))) * 7 % 31 % 13).reshape(shape).astype(str(buffer.dtype)))
    assert_same_values(func, made, [*arrays, np.array(7, "int32")])


# Bodies, the lanes of their vectors and how many there are of each for 20 iterations; last, the iterations that fill none. None for other loops.
BODIES = {
    "one": (neighbours(1), None),
    "two": (neighbours(2), [(8, 2), (4, 1)]),
    "four": (neighbours(4), [(8, 2), (4, 1)]),
    "five": (neighbours(5), [(8, 2), (4, 1)]),
    "in a loop of two": ("for c in range(2):\n    Y[i * 2 + c] = X[i * 2 + 1 - c]", [(8, 2), (4, 1)]),
    "in a loop that is unrolled": ("for c in T.unroll(2):\n    Y[i * 2 + c] = X[i * 2 + 1 - c]", [(8, 2), (4, 1)]),
    "in a loop that begins at 1": ("for c in range(1, 4):\n    Y[i * 3 + c] = X[i]", [(8, 2), (4, 1)]),
    "in a parallel loop": ("for c in T.parallel(2):\n    Y[i * 2 + c] = X[i * 2 + 1 - c]", None),
    "in a loop of five": ("for c in range(5):\n    Y[i * 5 + c] = X[i]", None),
    "in loops of three": (
        "for a in range(2):\n    for b in range(2):\n        Y[i * 4 + a * 2 + b] = X[i * 4 + b * 2 + a]",
        [(8, 2), (4, 1)],
    ),
    "with variables": (
        "a: T.float32 = X[i] + T.float32(1)\nb: T.float32 = a * a\nY[i * 2] = b\nY[i * 2 + 1] = a - b",
        [(8, 2), (4, 1)],
    ),
    "vectors": (
        "Y[T.Ramp(i * 8, 1, 4)] = T.Broadcast(X[i], 4)\nY[T.Ramp(i * 8 + 4, 1, 4)] = T.Broadcast(X[i], 4)",
        None,
    ),
    "with a condition": ("Y[i * 2] = X[i]\nif n < 3:\n    Y[i * 2 + 1] = X[i]", None),
    "the other way round": ("Y[i * 2 + 1] = X[i]\nY[i * 2] = X[i + 1]", [(8, 2), (4, 1)]),
    "downwards": ("Y[100 - i * 2] = X[i]\nY[101 - i * 2] = X[i]", None),
    "a gap": ("Y[i * 3] = X[i]\nY[i * 3 + 2] = X[i]", None),
    "a gap between rows": ("Y[i * 3] = X[i]\nY[i * 3 + 1] = X[i]", None),
    "one place twice": ("Y[i * 2] = X[i]\nY[i * 2] = X[i + 1]", None),
    "an unknown distance": ("Y[i * 2] = X[i]\nY[i * 2 + n] = X[i]", None),
    "from n on": ("Y[i * 2 + n] = X[i]\nY[i * 2 + n + 1] = X[i + n]", [(8, 2), (4, 1)]),
    "n times": ("Y[i * 2 * n] = X[i]\nY[i * 2 * n + 1] = X[i]", None),
    "two dimensions": ("Z[i, 0] = X[i]\nZ[i, 1] = X[i + 1]", None),
    "loads of two dimensions": ("Y[i * 2] = W[i, 0]\nY[i * 2 + 1] = W[i, 1]", None),
    "loads four apart": ("Y[i * 2] = X[i * 4]\nY[i * 2 + 1] = X[i * 4 + 3]", [(8, 2), (4, 1)]),
    "loads five apart": ("Y[i * 2] = X[i * 5]\nY[i * 2 + 1] = X[i * 5 + 3]", None),
    "loads four apart downwards": ("Y[i * 2] = X[100 - i * 4]\nY[i * 2 + 1] = X[100 - i]", [(8, 2), (4, 1)]),
    "loads five apart downwards": ("Y[i * 2] = X[100 - i * 5]\nY[i * 2 + 1] = X[100 - i]", None),
    "loads of one element": ("Y[i * 2] = X[n]\nY[i * 2 + 1] = X[n + 1] * X[i]", [(8, 2), (4, 1)]),
    "of wider numbers": ("Y[i * 2] = T.Cast('float32', D[i])\nY[i * 2 + 1] = X[i]", [(4, 5)]),
    "wider numbers": ("D[i * 2] = T.Cast('float64', X[i])\nD[i * 2 + 1] = T.float64(1)", [(4, 5)]),
    "quotients": ("Y[i] = X[i // 2] + T.Cast('float32', i % 2)", [(8, 1), 4]),
    "quotients by four": ("Y[i] = X[i // 4]", [(4, 1), 4]),
    "quotients by five": ("Y[i] = X[i // 5]", None),
    "quotients by three": ("Y[i] = X[i // 3]", None),
    "quotients by two and by four": ("Y[i] = X[i // 4] + X[i % 2]", [(4, 1), 4]),
    "quotients of n": ("Y[i] = X[n // 2]", None),
    "functions": ("Y[i * 2] = T.exp(X[i])\nY[i * 2 + 1] = T.sqrt(X[i])", [(8, 2), (4, 1)]),
    "powers": ("for c in range(2):\n    Y[i * 2 + c] = T.pow(X[i * 2 + c], X[c])", [(8, 2), (4, 1)]),
    "choices": (
        "for c in range(2):\n    Y[i * 2 + c] = T.Select(X[i * 2 + c] < X[c], X[i * 2 + c], T.float32(2))",
        [(8, 2), (4, 1)],
    ),
    "types": (
        "for c in range(2):\n    Y[i * 2 + c] = T.Cast('float32', T.Cast('int32', X[i * 2 + c]) + c)",
        [(8, 2), (4, 1)],
    ),
    "sums": (
        "Y[i * 2] = X[i]\nY[i * 2 + 1] = X[i + 1]\nY[i * 2] = Y[i * 2] * Y[i * 2 + 1]\nY[i * 2 + 1] = Y[i * 2] + Y[i * 2 + 1]",
        [(8, 2), (4, 1)],
    ),
    "what was there before": ("Y[i * 2] = Y[i * 2] + X[i]\nY[i * 2 + 1] = X[i]", None),
    "what is stored afterwards": ("Y[i * 2] = X[i] + Y[i * 2 + 1]\nY[i * 2 + 1] = X[i]", None),
    "a place that is not known": ("Y[i * 2] = X[i]\nY[i * 2 + 1] = Y[n]", None),
    "two results": ("Y[i * 2] = X[i]\nY[i * 2 + 1] = X[i + 1]\nD[i] = T.float64(1)", [(4, 5)]),
    "a result and one of single elements": ("D[i] = T.float64(2)\nY[i] = X[i]", None),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    body, expected = BODIES[name]
    func = loop_of(body)
    made = vectors_of(func)
    assert shape_of(made) == expected
    if made is not None:
        check_values(func, made)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17])
@pytest.mark.parametrize("first", ["0", "3"])
def test_numbers_of_iterations(first: str, count: int) -> None:
    """Vectors have the most lanes that the machine has and the iterations fill."""
    func = loop_of(neighbours(3), str(count), first)
    made = vectors_of(func)
    whole = [(8, count // 8)] * (count >= 8) + [(4, 1)] * (count % 8 >= 4)
    assert shape_of(made) == ([*whole, *[count % 4] * (count % 4 > 0)] if count >= 4 else None)
    if made is not None:
        check_values(func, made)


@pytest.mark.parametrize(("first", "count"), [("n", "20"), ("0", "n + 12"), ("n", "n + 1")])
def test_numbers_of_iterations_that_are_not_known(first: str, count: str) -> None:
    func = loop_of(neighbours(2), count, first)
    made = vectors_of(func)
    assert made is not None
    check_values(func, made)
    assert vectors_of(loop_of("Y[i] = X[i // 2]", count, first)) is None


def test_quotients_that_do_not_begin_with_a_whole_one() -> None:
    for first, count, whole in (("0", "20", True), ("2", "16", True), ("1", "20", False), ("0", "19", False)):
        func = loop_of("Y[i] = X[i // 2] * T.Cast('float32', i % 2 + 1)", count, first)
        made = vectors_of(func)
        assert (made is not None) == whole
        if made is not None:
            check_values(func, made)


def test_as_many_stores_as_are_made_vectors() -> None:
    four, three = neighbours(4, "T.float32({})"), neighbours(3, "T.float32({})")
    assert vectors_of(loop_of(four + "\n" + neighbours(4, "T.float64({})", "D"))) is not None
    assert vectors_of(loop_of(f"{four}\n{neighbours(3, 'T.float64({})', 'D')}\nX[i] = T.float32(1)")) is not None
    assert (
        vectors_of(loop_of(f"{three}\n{neighbours(3, 'T.float64({})', 'D')}\n{neighbours(3, 'T.float32({})', 'X')}"))
        is None
    )


def test_memory_that_may_overlap() -> None:
    assert vectors_of(loop_of(neighbours(2)), False) is None
    assert vectors_of(loop_of(neighbours(2, "T.float32({})")), False) is not None
    two = loop_of(neighbours(2, "T.float32({})") + "\n" + neighbours(2, "T.float64({})", "D"))
    assert vectors_of(two, False) is None and vectors_of(two) is not None


def test_integers_of_few_bits_fill_long_vectors() -> None:
    func = loop_of("Y[i * 2] = X[i]\nY[i * 2 + 1] = X[i + 1]", "70", dtype="int8")
    made = vectors_of(func)
    assert made is not None and shape_of(made) == [(32, 2), (4, 1), 2]
    check_values(func, made)


def test_segments_of_split_loops_are_vectorized_in_a_run_of_their_own() -> None:
    """The first run leaves loops alone that another late pass made, and the second run all others."""
    func = loop_of("for c in range(2):\n    Y[i * 2 + c] = X[i]", "40").with_attr("tir.noalias", True)
    pair = func.with_body(
        ir.SeqStmt([func.body.replace(annotations={"late.made_by": ir.StringImm("SplitIndexSet")}), func.body])
    )
    for options in ({}, {"made_by": "SplitIndexSet"}):
        made = late(vectorize_interleaved_stores, pair, **options)
        assert made is not None and len([one for one in loops(made.body) if one.loop_var.name == "i.vector"]) == 1


def test_stores_and_loads_of_chosen_lanes() -> None:
    func, chosen = loop_of(neighbours(2)), ir.Var("p", "bool")
    first, second = nodes_of(func.body, ir.BufferStore)
    assert (
        isinstance(func.body, ir.For) and isinstance(first.value, ir.Mul) and isinstance(first.value.a, ir.BufferLoad)
    )
    for changed in (first.replace(predicate=chosen), first.replace(value=first.value.a.replace(predicate=chosen))):
        assert vectors_of(func.with_body(func.body.replace(body=ir.SeqStmt([changed, second])))) is None


def test_what_is_computed_in_the_same_way_for_neighbours_is_computed_side_by_side() -> None:
    """Not for each of them, and shuffled afterwards."""
    for name in ("powers", "choices", "types"):
        made = vectors_of(loop_of(BODIES[name][0]))
        assert made is not None
        assert not any(isinstance(store.value, ir.Shuffle) for store in nodes_of(made.body, ir.BufferStore)), name
    made = vectors_of(loop_of(BODIES["functions"][0]))
    assert made is not None and all(
        isinstance(store.value, ir.Shuffle) for store in nodes_of(made.body, ir.BufferStore)
    )


def test_quotients_of_data_are_no_periods() -> None:
    func = parsed(
        "@T.prim_func\ndef f(A: T.Buffer((64,), 'int32'), Z: T.Buffer((64,), 'int32')):\n"
        "    T.func_attr({'tir.noalias': True})\n    for i in range(64):\n        Z[i] = A[i] * 3 // 2 + 1"
    )
    assert "shufflevector" not in codegen.llvm_ir(func, HASWELL, optimize=False)
