"""Random lowered programs of what late passes look for, with the arrays that they run on."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tvmagic import lower
from tvmagic.ir import IRModule
from tvmagic.script import from_source

HEAD = """
@T.prim_func
def main(X: T.Buffer((800,), "float32"), H: T.Buffer((800,), "float16"), B: T.Buffer((800,), "uint8"), W: T.Buffer((40, 20), "float32"),
         Y: T.Buffer((800,), "float32"), G: T.Buffer((800,), "float16"), C: T.Buffer((800,), "uint8"), P: T.Buffer((32,), "int32"),
         V: T.Buffer((32,), "float32"), D: T.Buffer((800,), "int32"), K: T.Buffer((32,), "int32"), E: T.Buffer((800,), "bool"), F: T.Buffer((32,), "bool"), n: T.int32):
    T.func_attr({"tir.noalias": NOALIAS})
"""


def interleaved(draw: random.Random) -> str:
    k, count, first = draw.randint(2, 4), draw.choice([5, 16, 21, 40]), draw.choice([0, 3])
    value = draw.choice(
        [
            "X[i * {k} + {last}]",
            "X[i] * W[0, {c}]",
            "T.Select(X[i] < X[{c}], X[i], T.float32(2))",
            "T.Cast('float32', D[i])",
        ]
    )
    stores = [f"    Y[i * {k} + {c}] = {value.format(k=k, c=c, last=k - 1 - c)}" for c in range(k)]
    return "\n".join([f"for i in {draw.choice(['range', 'T.parallel'])}({first}, {first + count}):", *stores])


def periods(draw: random.Random) -> str:
    p, loop = draw.randint(2, 4), draw.choice(["range", "T.parallel"])
    return f"for i in {loop}({p * draw.choice([10, 12, 20])}):\n    Y[i] = X[i // {p}] + T.Cast('float32', i % {p})"


def segments(draw: random.Random) -> str:
    a, b, count = draw.randint(0, 5), draw.randint(0, 40), draw.choice([20, 33, 64])
    value = draw.choice(
        [
            f"X[T.max(j - {a}, 0)] + X[T.min(j + {b}, 50)]",
            f"T.if_then_else({a} <= j and j < {b}, X[j - {a}], X[1])",
            f"X[(j + {a}) % {count}]",
        ]
    )
    return f"for j in range({count}):\n    Y[j] = {value}"


def both(draw: random.Random) -> str:
    return f"for j in range({draw.choice([40, 50])}):\n    for c in range(2):\n        Y[j * 2 + c] = X[T.max(j - {draw.randint(1, 3)}, 0)] * T.Cast('float32', c)"


def guarded(draw: random.Random) -> str:
    extent, value = draw.choice([8, 12, 20]), draw.choice(["X[i * {e} + j] * V[i]", "X[i * {e} + j] + T.float32(1)"])
    stores = draw.choice(
        ["Y[i * {e} + j] = {v}", "Y[(i * {e} + j) * 2] = {v}\n            Y[(i * {e} + j) * 2 + 1] = X[j]"]
    )
    stores = stores.format(e=extent, v=value.format(e=extent))
    return f"for i in range(4):\n    for j in range({extent}):\n        if i * {extent} + j < n:\n            {stores}"


def arg_reduce(draw: random.Random) -> str:
    x, (sign, best) = "D[k * 8 + j]", draw.choice([("<", 2147483647), (">", -2147483648)])
    takes = f"{x} {sign} K[j] or {x} == K[j] and k < P[j]"
    return f"""for j in range({draw.choice([1, 8])}):
    P[j] = 2147483647
    K[j] = {best}
    for k in range({draw.choice(["20", "n"])}):
        v: T.int32 = T.Select({takes}, {x}, K[j])
        P[j] = T.Select({takes}, k, P[j])
        K[j] = v"""


def half_max(draw: random.Random) -> str:
    at, op = draw.randint(0, 5), draw.choice(["max", "min"])
    return f"G[{at}] = T.float16({draw.choice([0, 3])})\nfor k in range({draw.choice(['9', 'n', '40'])}):\n    G[{at}] = T.{op}(G[{at}], H[k + {at}])"


def pixels(draw: random.Random) -> str:
    factor, loop = draw.choice([2, 3, 100, 300]), draw.choice(["range(64)", "T.vectorized(16)"])
    return f"for i in {loop}:\n    C[i] = T.Cast('uint8', T.max(T.min(T.Cast('int32', B[i]) * {factor} - T.Cast('int32', B[i + 1]), 255), 0))"


def odd_vectors(draw: random.Random) -> str:
    lanes = draw.choice([3, 6, 12, 24])
    return f"for i in range(5):\n    for v in T.vectorized({lanes}):\n        Y[i * {lanes} + v] = X[i * {lanes} + v] * T.float32(3) + {draw.choice(['Y[i]', 'W[i, 0]', f'Y[i * {lanes} + v]'])}"


def strided(draw: random.Random) -> str:
    stride = draw.randint(2, 5)
    loads = " * ".join([f"X[(i * 8 + v) * {stride} + {k}]" for k in range(draw.choice([stride, stride - 1]))])
    return f"for i in range(4):\n    for v in T.vectorized(8):\n        Y[i * 8 + v] = {loads}"


def masked(draw: random.Random) -> str:
    return draw.choice([
        "for i in range(6):\n    Y.vstore([T.Ramp(i * 4, 1, 4)], X[i * 4:i * 4 + 4], predicate=T.Ramp(i * 4, 1, 4) < T.Broadcast(n, 4))",
        "for i in range(20):\n    Y.vstore([i], X[i], predicate=i < n)",
        "for i in range(20):\n    Y[i] = X.vload([i], predicate=i < n)",
    ])  # fmt: skip


def bools(draw: random.Random) -> str:
    loop = f"for i, k in T.grid(8, {draw.choice([6, 16])}):"
    return f"with T.attr(0, 'pragma_any_order', 1):\n    {loop}\n        F[i] = T.max(F[i], E[k * 8 + i])"


def repeated(draw: random.Random) -> str:
    return f"for i in range(8):\n    V[i] = T.float32(1)\n    for k in range({draw.choice([4, 36])}):\n        V[i] = T.min(V[i], X[k])"


def rows(draw: random.Random) -> str:
    return f"for i in range(20):\n    for j in {draw.choice(['range', 'T.unroll'])}({draw.choice([3, 5, 16])}):\n        Y[i * 20 + j] = X[i] * W[i, j]"


def annotated(draw: random.Random) -> str:
    return draw.choice([
        "with T.attr(0, 'pragma_any_order', 1):\n    for i in range(256):\n        V[0] = T.max(V[0], X[i])",
        "for i in range(40):\n    D[i] = T.truncdiv(i, n + 20) + i",
        "for i in T.unroll(8):\n    Y[i] = X[i] * X[i]",
        "for i in range(16):\n    for v in T.vectorized(8):\n        Y[i * 8 + v] = X[i * 8 + v]",
        "for i in range(4):\n    for j in range(3000):\n        D[j % 7] = D[j % 7] + i",
    ])  # fmt: skip


def memory(draw: random.Random) -> str:
    size = draw.choice([20, 40])
    return f"t = T.allocate([{size}], 'float32', '{draw.choice(['local', 'global'])}')\nt_1 = T.Buffer(({size},), data=t, scope='SCOPE')\nfor i in range(20):\n    t_1[i] = X[i] + T.float32(1)\nfor i in range(20):\n    Y[i] = t_1[19 - i]"


KINDS = (interleaved, periods, segments, both, guarded, arg_reduce, half_max, pixels, odd_vectors, strided, masked, bools, repeated, rows, annotated, memory)  # fmt: skip


def program_text(seed: int) -> str:
    """Up to three random statements, of which each kind is the first of some seed below its number."""
    draw = random.Random(seed)
    kinds = [KINDS[seed % len(KINDS)], *draw.sample(KINDS, draw.choice([0, 1, 1, 2]))]
    kinds.sort(key=lambda kind: kind is memory)  # what comes after an allocation is in its body
    lines = []
    for kind in dict.fromkeys(kinds):
        text = kind(draw)
        lines += text.replace("SCOPE", "local" if "'local'" in text else "global").split("\n")
    head = HEAD.replace("NOALIAS", str(draw.random() < 0.8))
    return head + "".join(f"    {line}\n" for line in lines)


def random_program(seed: int) -> IRModule:
    return lower(from_source(program_text(seed)))


def arrays_of(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    floats = [rng.integers(-40, 40, 800).astype(t) / 8 for t in ("float32", "float16")]
    for values in floats:
        values[rng.random(800) < 0.01] = np.nan
    whole = [rng.integers(0, high, 800).astype(dtype) for dtype, high in (("uint8", 256), ("int32", 9))]
    w = rng.integers(-8, 8, (40, 20)).astype("float32")
    inputs = [floats[0], floats[1], whole[0], w]
    outputs = [
        floats[0][::-1].copy(),
        floats[1][::-1].copy(),
        whole[0] % 2,
        whole[1][:32].copy(),
        floats[0][40:72].copy(),
    ]
    more = [whole[1], whole[1][:32].copy(), whole[1] == 3, whole[1][40:72] == 5]
    return [*inputs, *outputs, *more, np.array(rng.choice([0, 1, 4, 17, 37, 60]), "int32")]
