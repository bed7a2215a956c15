"""Cells that become graphs of Ascend, some written and some random, and cells in which an index or a number is another."""

from __future__ import annotations

import random
import re

CELLS = {
    "softmax": """
X: float32[n, 37]
M[i] = max(X[i, k], over=k)
E[i, j] = exp(X[i, j] - M[i])
S[i] += E[i, k]
Y[i, j] = E[i, j] / S[i]""",
    "dense_relu": """
X: float32[9, 14]
W: float32[5, 14]
b: float32[5]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)""",
    "transposed": """
A: float32[4, 5, 17]
B: float32[17, 4]
C[k, j, i] = A[i, j, k] * B[k, i] + 1
D[i, k] = B[k, i] - 0.5""",
    "reductions": """
X: float32[3, 5, 7, 2]
A[b, d] += X[a, b, c, d]
B[a, c] = max(X[a, b, c, d], over=[b, d])
C[a, b, c] = min(X[a, b, c, d], over=d)
P[d] *= X[a, b, c, d] * 0.3 + 1""",
    "norm": """
X: float32[m, n]
g: float32[n]
A[i] += X[i, j]
V[i] += (X[i, j] - A[i] / 32) ** 2
Y[i, j] = (X[i, j] - A[i] / 32) * rsqrt(V[i] / 32 + 1e-5) * g[j]""",
    "types": """
X: int32[6, 19]
Y: float64[19]
A[i, j] = float64(X[i, j]) if X[i, j] > 3 and Y[j] < 0.5 else Y[j]
C[i] += X[i, j] * X[i, j]
M[i] = max(X[i, j], over=j)""",
    "functions": """
X: float32[50]
Y[i] = sigmoid(tanh(X[i])) + erf(X[i]) * sin(X[i]) - cos(X[i]) ** 2 + floor(X[i]) + abs(X[i]) * sqrt(abs(X[i]))""",
    "whole numbers": """
X: int32[7, 19]
Y[i, j] = X[i, j] // 3 + X[i, j] % 5 - ((X[i, j] & 6) ^ (X[i, j] << 2))""",
    "more functions": """
X: float32[50]
Y[i] = atan(X[i]) + log1p(abs(X[i])) * exp2(X[i]) - sinh(X[i])""",
    "flags": """
X: float32[7, 19]
M: bool[19]
Y[i, j] = X[i, j] > 0 and not M[j]
Z[i, j] = X[i, j] if M[j] else 0 - X[i, j]""",
    "concat": """
A: float32[6, 3]
B: float32[6, 5]
for i in range(6):
    for j in range(8):
        Y[i, j] = exp(A[i, j]) if j < 3 else B[i, j - 3]
M[i] = max(Y[i, j], over=j)
Z[i, j] = Y[i, j] - M[i]""",
    "padding": """
A: float32[6, 5]
for i in range(6):
    for j in range(9):
        Y[i, j] = A[i, j - 2] * 2 if j >= 2 and j < 7 else 0.0
S[i] += abs(Y[i, j])""",
    "concat_of_concats": """
A: float32[3, 4]
B: float32[5, 4]
C: float32[3]
for i in range(8):
    for j in range(4):
        Y[i, j] = max(A[i, j] + C[i] if i < 3 else B[i - 3, j], 0)
for i in range(12):
    for j in range(4):
        Z[i, j] = Y[i, j] if i < 8 else C[i - 9] if i >= 9 else 1.0""",
    "concat_of_sums": """
A: float32[3, 70]
B: float32[5, 70]
P[i] += A[i, k]
Q[i] += B[i, k] * B[i, k]
for i in range(8):
    Y[i] = P[i] if 3 > i else Q[i - 3]""",
    "concat_of_unknown_sizes": """
A: float32[n, 6]
B: float32[m, 6]
for i in range(n + m):
    for j in range(6):
        Y[i, j] = A[i, j] if i < n else B[i - n, j]""",
    "blocks": """
A: float32[2, 3]
B: float32[2, 4]
for i in range(5):
    for j in range(7):
        Y[i, j] = (A[i, j] if j <= 2 else B[i, j - 3]) if i <= 1 else (2.0 if j == 6 else 3.0)""",
    "embedding": """
T: float32[50, 16]
I: int32[7, 3]
Y[i, k, j] = T[I[i, k], j] * 2
S[i, j] += T[I[i, k], j]""",
    "indices_of_columns": """
T: float32[20, 50]
I: int64[16]
W: float32[20]
Y[i, j] = T[i, I[j]] + W[i]""",
    "indices_of_elements": """
T: float32[50, 16]
I: int32[16]
Y[j] = T[max(I[j] - 1, 0), j] + 1""",
    "small": """
X: float32[1, 5, 1]
S[o] += X[o, j, o]
Y[i, j] = X[i, j, i] + S[i]""",
}

EXTENTS = {"a": 3, "b": 4, "c": 17, "d": 2}


def random_cell(seed: int) -> str:
    """Statements over axes a, b, c, d in any order: broadcasts, transposes, reductions, functions, parts, indices."""
    rng = random.Random(seed)

    def some(least: int) -> list[str]:
        return rng.sample(list(EXTENTS), rng.randint(least, 4))

    known = {f"X{n}": some(1) for n in range(3)}
    lines = [f"{n}: float32[{', '.join(str(EXTENTS[d]) for d in dims)}]" for n, dims in known.items()]
    body: list[str] = []
    if rng.random() < 0.4:  # two arrays one behind the other
        dims = some(1)
        cut = rng.choice(dims)
        first = rng.randint(1, EXTENTS[cut] - 1)
        for name, length in (("P0", first), ("P1", EXTENTS[cut] - first)):
            lines.append(f"{name}: float32[{', '.join(str(length if d == cut else EXTENTS[d]) for d in dims)}]")
        body += [f"{'    ' * i}for {d} in range({EXTENTS[d]}):" for i, d in enumerate(dims)]
        behind = ", ".join(f"{d} - {first}" if d == cut else d for d in dims)
        value = f"P0[{', '.join(dims)}] * 3 if {cut} < {first} else P1[{behind}]"
        body.append(f"{'    ' * len(dims)}C[{', '.join(dims)}] = {value}")
        known["C"] = dims
    if rng.random() < 0.4:  # rows at indices
        by, rest = some(1), some(1)
        lines.append(f"I: int32[{', '.join(str(EXTENTS[d]) for d in by)}]")
        lines.append(f"T: float32[20, {', '.join(str(EXTENTS[d]) for d in rest)}]")
        dims = sorted({*by, *rest})
        body.append(f"G[{', '.join(dims)}] = T[I[{', '.join(by)}], {', '.join(rest)}]")
        known["G"] = dims
    lines += body
    for number in range(rng.randint(1, 4)):
        reads = rng.sample(list(known), min(len(known), rng.randint(1, 3)))
        used = sorted({d for n in reads for d in known[n]})
        terms = [f"{n}[{', '.join(known[n])}]" for n in reads]
        value = " + ".join(rng.choice(["{}", "abs({})", "max({}, 0.25)", "({} * 0.5)"]).format(t) for t in terms)
        kept = rng.sample(used, rng.randint(1, len(used)))
        name = f"Y{number}"
        if len(kept) < len(used):
            over = [d for d in used if d not in kept]
            call = f"{rng.choice(['max', 'min'])}({value}, over=[{', '.join(over)}])"
            lines.append(f"{name}[{', '.join(kept)}] " + (f"= {call}" if rng.random() < 0.5 else f"+= {value}"))
        else:
            lines.append(f"{name}[{', '.join(kept)}] = {value}")
        known[name] = kept
    return "\n".join(lines)


_CHANGES = [
    (r"\b[a-k](?=[],])", ["{} + 1", "{} - 1", "{} * 2", "0", "i", "j", "{} + n", "{} + {}"]),  # an index
    (r" (<|<=|>|>=|==) ", [" < ", " <= ", " > ", " >= ", " != ", " == "]),
    (r"\b\d+\b", ["0", "1", "2", "3", "7", "n"]),
    (r" and ", [" or "]),
    (r" - ", [" + "]),
    (r" (\+|\*)=", [" ="]),
    (r"\b(exp|abs|sin|max|min)(?=\()", ["abs", "max", "clz", "round"]),
]


def changed_cell(text: str, rng: random.Random) -> str:
    """The cell with one or two indices, comparisons, numbers or functions changed for others."""
    for _ in range(rng.randint(1, 2)):
        pattern, others = rng.choice(_CHANGES)
        found = list(re.finditer(pattern, text))
        if found:
            chosen = rng.choice(found)
            new = rng.choice(others).replace("{}", chosen[0])
            text = text[: chosen.start()] + new + text[chosen.end() :]
    return text
