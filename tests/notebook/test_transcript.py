"""Twelve operators that no tutorial has, each with a schedule, as somebody writes them who has README and the help alone.

A try that fails is kept here with the words that lead to the next one; none takes more than two. Below are lines of people
who come from NumPy, PyTorch, TVM or Halide: each works, or is answered with what would work.
"""

from __future__ import annotations

from typing import Any

import pytest

# An operator's name, then its cells: the first line is that of the magic, which has `-q` besides. A pair is a cell that
# fails and what it is answered.
Cell = str | tuple[str, str]
TRANSCRIPT: dict[str, list[Cell]] = {
    "batched product, both inputs transposed": [
        """%%tensor bmm
A: float32[6, 24, 40]
B: float32[6, 32, 24]
C[b, i, j] += A[b, k, i] * B[b, j, k]""",
        """%%schedule bmm --check
c = s[C]
b, i, j = c.axis
io, jo, ii, ji = c.tile(i, j, 8, 16)
k, = c.reduce_axis
c.reorder(b, io, jo, k, ii, ji)
c.vectorize(ji)
c.parallel(b)""",
    ],
    "strided convolution of one dimension, with padding": [
        """%%tensor sconv
X: float32[2, 4, 31]
W: float32[8, 4, 5]
P: float32[2, 4, 35]
P[n, c, i] = X[n, c, i - 2] if 2 <= i < 33 else 0
Y[n, o, i] += P[n, c, 2 * i + r] * W[o, c, r]""",
        """%%schedule sconv --check
s[P].compute_inline()
n, o, i = s[Y].axis
c, r = s[Y].reduce_axis
s[Y].reorder(n, o, c, r, i)
s[Y].unroll(r)
s[Y].parallel(n)""",
    ],
    "argmax": [
        ("%%tensor best\nX: float32[20, 50]\nI[i] = argmax(X[i, :], over=1)", "name the index that is reduced"),
        "%%tensor best\nX: float32[20, 50]\nI[i] = argmax(X[i, k], over=k)",
        "%%schedule best --check\ns[I].parallel(s[I].axis[0])",
    ],
    "cumulative sums": [
        "%%tensor csum\nX: float32[16, 33]\nS[i, k] = cumsum(X[i, k], over=k)",
        "%%schedule csum --check\ns[S].parallel(s[S].axis[0])",
    ],
    "layer norm": [
        """%%tensor ln
X: float32[n, 96]
g: float32[96]
b: float32[96]
m[i] = mean(X[i, k], over=k)
v[i] = mean((X[i, k] - m[i])**2, over=k)
Y[i, k] = (X[i, k] - m[i]) / sqrt(v[i] + 1e-5) * g[k] + b[k]""",
        (
            "%%schedule ln\ni, k = s[Y].axis\ns[m].compute_at(s[Y], i)\ns[v].compute_at(s[Y], i)",
            "compute `v_sum` inside that loop too",
        ),
        """%%schedule ln --check
i, k = s[Y].axis
for stage in m, v_sum, v:
    s[stage].compute_at(s[Y], i)
ko, ki = s[Y].split(k, 16)
s[Y].vectorize(ki)
s[Y].parallel(i)""",
    ],
    "attention": [
        """%%tensor att
Q: float32[4, 20, 16]
K: float32[4, 20, 16]
V: float32[4, 20, 16]
S[h, i, j] += Q[h, i, d] * K[h, j, d]
P[h, i, j] = softmax(S[h, i, j] / 4, over=j)
O[h, i, d] += P[h, i, j] * V[h, j, d]""",
        (
            "%%schedule att\nh, i, d = s[O].axis\ns[P].compute_at(s[O], i)\ns[S].compute_at(s[O], h)",
            "compute `P_max`, `P_exp` and `P_sum` inside that loop too",
        ),
        """%%schedule att --check
h, i, d = s[O].axis
s[P].compute_at(s[O], i)
for stage in S, P_max, P_exp, P_sum:
    s[stage].compute_at(s[O], h)
s[O].vectorize(d)
s[O].parallel(h)""",
    ],
    "histogram": [
        ("%%tensor hist\nx: int32[1000]\nH: int32[10]\nH[k] += x[i] == k", "write `int32(x[i] == k)` to count them"),
        "%%tensor hist\nx: int32[1000]\nH: int32[10]\nH[k] += int32(x[i] == k)",
        "%%schedule hist --check\ns[H].parallel(s[H].axis[0])",
    ],
    "max-pool in two dimensions": [
        """%%tensor pool
X: float32[3, 17, 17]
Y[c, i, j] = max(X[c, 2*i + r, 2*j + q] for r in range(3) for q in range(3))""",
        "%%schedule pool --check\nc, i, j = s[Y].axis\ns[Y].parallel(c)\ns[Y].vectorize(j)",
    ],
    "product of int8": [
        "%%tensor i8\nA: int8[32, 64]\nB: int8[64, 48]\nC[i, j] += int32(A[i, k]) * int32(B[k, j])",
        """%%schedule i8 --check
io, jo, ii, ji = s[C].tile(*s[C].axis, 4, 16)
ko, ki = s[C].split(s[C].reduce_axis[0], factor=4)
s[C].reorder(io, jo, ko, ki, ii, ji)
s[C].vectorize(ji)""",
    ],
    "gather": [
        "%%tensor gath\nT: float32[100, 8]\nI: int32[30]\nE[i, j] = T[I[i], j]",
        "%%schedule gath --check\ns[E].vectorize(s[E].axis[1])",
    ],
    "broadcast with a condition": [
        """%%tensor bc
X: float32[12, 20]
b: float32[20]
Y[i, j] = X[i, j] + b[j] if X[i, j] > 0 else 0.1 * X[i, j]""",
        "%%schedule bc --check\nfo, fi = s[Y].split(s[Y].fuse(*s[Y].axis), factor=16)\ns[Y].vectorize(fi)",
    ],
    "symbolic sizes": [
        "%%tensor sy\nX: float32[n, m]\nW: float32[m, p]\nY[i, j] += X[i, k] * W[k, j]",
        ("%%schedule sy --check --size n=17\ns[Y].parallel(s[Y].axis[0])", "write `--size 17`"),
        "%%schedule sy --check --size 17\nio, ii = s[Y].split(s[Y].axis[0], factor=4)\ns[Y].parallel(io)",
    ],
}


def quietly(cell: str) -> str:
    first, _, rest = cell.partition("\n")
    return f"{first} -q\n{rest}"


@pytest.mark.parametrize("name", TRANSCRIPT)
def test_an_operator_and_its_schedule_are_right_at_the_second_try(
    name: str, shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    checked, tries = False, {"%%tensor": 0, "%%schedule": 0}
    for cell in TRANSCRIPT[name]:
        text, answer = cell if isinstance(cell, tuple) else (cell, None)
        result = shell.run_cell(quietly(text))
        said = capsys.readouterr()
        words = " ".join(f"{said.out}{said.err}".split())
        assert result.success is (answer is None), words
        assert (answer or "") in words
        checked = checked or "equal to NumPy" in words and "NOT" not in words
        tries[text.split()[0]] += 1
    assert checked and max(tries.values()) <= 2


A = "X: float32[8, 8]\n"
# The text of a cell `%%tensor f`, and what it is answered; nothing if it works.
LINES: list[tuple[str, str]] = [
    ("x = np.array([1, 2, 3])", "write for example `Y[i] = X[i] + 1`"),
    (A + "Y = X.T", "`Y[j, i] = X[i, j]`"),
    (A + "Y = X @ X", "`Y[i, j] += X[i, k] * X[k, j]`"),
    (A + "Y = X.sum(axis=1)", "`Y[i] = sum(X[i, j], over=j)`"),
    (A + "Y = torch.relu(X)", "`Y[i, j] = relu(X[i, j])`"),
    (A + "Y[i, j] = np.maximum(X[i, j], 0)", ""),
    (A + "Y[i, j] = X[i, j] if X[i, j] > 0", "`Y[i, j] = X[i, j] if X[i, j] > 0 else 0`"),
    (A + "Y[i, j] = where(X[i, j] > 0, X[i, j], 0)", ""),
    ("X: Tensor[8, 8]\nY[i, j] = X[i, j]", "such as float32, int8 or bool"),
    ("X: f32[8, 8]\nY[i, j] = X[i, j]", "did you mean `float32`?"),
    ("X: float32(8, 8)\nY[i, j] = X[i, j]", "with the sizes in brackets"),
    ("X = float32[8, 8]\nY[i, j] = X[i, j]", "`X: float32[8, 8]`"),
    ("X: float32[8][8]\nY[i, j] = X[i, j]", "write `X: float32[8, 8]`"),
    (A + "Y[i][j] = X[i][j]", "`Y[i, j] = X[i, j]`"),
    (A + "Y(i, j) = X(i, j)", "`Y[i, j]`"),
    ("Func blur\nVar x, y", "need no declaration"),
    ("RDom r(0, 8)", "need no declaration"),
    (A + "for i in range(8):\n    for j in range(8):\n        Y[i, j] = X[i, j] + 1", ""),
    (A + "Y[i, j] = sum(k, X[i, k] * X[k, j])", "`sum(X[i, k] * X[k, j], over=k)`"),
    (A + "Y[i, j] = sum(X[i, k] * X[k, j] for k)", "`sum(X[i, k] * X[k, j], over=k)`"),
    (A + 'Y[i, j] = einsum("ik,kj->ij", X, X)', "einsum's letters are the indices here"),
    (A + "k = te.reduce_axis((0, 8))\nY = te.compute((8,), lambda i: te.sum(X[i, k], axis=k))", ""),
    (A + "Y[i, j] = X[i, (j + 1) % 8]", "`j: range(8)` above"),
    (A + "Y[i, j] = X[7 - i, j]", ""),
    ("X: float32[8], Z: float32[8]\nY[i] = X[i] + Z[i]", "write a line for each declaration"),
    ("X: complex64[8]\nY[i] = X[i]", "the real and the imaginary parts in two tensors"),
    (A + "Y[i, j] = X[i, j] +", "in parentheses"),
    (A + "Y[i] = X[i, j]", "write `+=` to sum over it"),
    (A + "Y[i, j] = X[j]", "write it as `X[i, j]`"),
    (A + "Y[i, j] = X[i, j].exp()", "write `exp(X[i, j])`"),
    (A + "Y[i] = prod(X[i, :])", "`Y[i] = max(X[i, k], over=k)`"),
    (A + "Y[i, j] = X[i, ::-1]", "write `X[63 - i]`, for 64 elements"),
    (A + "Y[i, j] = X[i, ::2]", "`X[2 * i]`"),
    (A + "Y[i, j] = X[i, j:j+2]", "`X[j + r]` below `r: range(2)`"),
    (A + "Y[i] = X.mean(dim=1)", "write `mean(X[i, j], over=j)`"),
    (A + "Y[i, j] = layer_norm(X[i, j])", "`m[i] = mean(X[i, k], over=k)`"),
    (A + "Y[i, j] = dropout(X[i, j], 0.5)", "random numbers are an argument"),
    (A + "Y[i, 2 * j] = X[i, j]", "let the right side say which elements are taken"),
    (A + "Y[i, j] = 0 < X[i, j] < 1", ""),
    (A + "Y[i, j] = X[i, j].astype('int32')", ""),
    (A + "Y[i, j] = X[i, j] if i >= j else -inf", ""),
    ("A: float32[n]; B: float32[m]\nC[i] += A[i + k] * B[k]", ""),
]
# The same for the schedule of `D[i, j] = max(C[i, j], 0)` below a product `C`.
CALLS: list[tuple[str, str]] = [
    ("C.compute_at(D, i)", "`s[C].compute_at`"),
    ("s[C].compute_at(D, i)", "`s[D].op.axis[0]`"),
    ("s[D].vectorise(s[D].axis[1])", "did you mean `vectorize`?"),
    ("D.tile(x, y, xi, yi, 8, 8)", "`s[D].tile`"),
    ("x, y = s[D].op.axis\nxo, yo, xi, yi = s[D].tile(x, y, x_factor=8, y_factor=8)\ns[D].vectorize(yi)", ""),
    ('s[D].split("i", 8)', "write `s[D].op.axis[0]`"),
    ('s[D].bind(s[D].axis[0], "threadIdx.x")', '`te.thread_axis("threadIdx.x")`'),
    ('i, j, k = sch.get_loops(sch.get_block("C"))\nsch.parallel(i)', ""),
    ('sch.parallel(sch.get_loops("D")[0]); s[C].unroll(s[C].axis[0])', "by one of the schedules, not by both"),
    ('s[C].cache_write("local")', "`s.cache_write(C, ...)`"),
    ("s[C].rfactor(s[C].op.reduce_axis[0], 0)", "`s.rfactor(C, ...)`"),
]


def answered(shell: Any, cell: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run_cell(cell)
    said = capsys.readouterr()
    text = " ".join(f"{said.out}{said.err}".split())
    assert result.success is not bool(words), text
    assert words in text and (result.success or "hint: " in text), text


@pytest.mark.parametrize(("text", "words"), LINES)
def test_a_newcomers_operator(text: str, words: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answered(shell, f"%%tensor f -q\n{text}", words, capsys)


@pytest.mark.parametrize(("text", "words"), CALLS)
def test_a_newcomers_schedule(text: str, words: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    product = "A: float32[64, 64]\nB: float32[64, 64]\nC[i, j] += A[i, k] * B[k, j]\nD[i, j] = max(C[i, j], 0)"
    shell.run_cell_magic("tensor", "g -q", product)
    answered(shell, f"%%schedule g -q\n{text}", words, capsys)
