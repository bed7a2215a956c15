"""Random cells of the kinds that the instant schedule has rules for, with sizes that fit nothing."""

from __future__ import annotations

import random

SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33, 48, 64, 65, 100)
DTYPES = ("float32", "float32", "float32", "float64", "int8", "int32", "float16", "bfloat16")


def random_cell(seed: int) -> tuple[str, int]:
    """The text of a `%%tensor` cell, and the value of its symbolic sizes."""
    draw = random.Random(seed)
    return draw.choice(KINDS)(draw), draw.choice((0, *SIZES))


def _size(draw: random.Random, symbolic: float = 0.0) -> str:
    return "n" if draw.random() < symbolic else str(draw.choice(SIZES))


def _sizes(draw: random.Random, names: str, symbolic: float = 0.15, limit: int = 200_000) -> dict[str, str]:
    while True:
        found = {name: _size(draw, symbolic if name == names[0] else 0.0) for name in names}
        total = 1
        for size in found.values():
            total *= 33 if size == "n" else int(size)
        if total <= limit:
            return found


def _shape(indices: list[str], sizes: dict[str, str]) -> str:
    return ", ".join(sizes[i] for i in indices)


def contraction(draw: random.Random) -> str:
    """A sum of products whose indices are in any order, with or without what follows."""
    names = "ijkbm"
    sizes = _sizes(draw, names)
    left, right, out = ["i", "k"], ["k", "j"], ["i", "j"]
    if draw.random() < 0.3:
        for indices in (left, right, out):
            indices.append("b")
    if draw.random() < 0.3:
        draw.choice([left, right]).append("m")
        if draw.random() < 0.7:
            out.append("m")
    for indices in (left, right, out):
        draw.shuffle(indices)
    dtype = draw.choice(DTYPES)
    wide = {"int8": "int32", "float16": "float32", "bfloat16": "float32"}.get(dtype, dtype)
    a, b = f"A[{', '.join(left)}]", f"B[{', '.join(right)}]"
    if wide != dtype:
        a, b = f"{a}.astype('{wide}')", f"{b}.astype('{wide}')"
    lines = [f"A: {dtype}[{_shape(left, sizes)}]", f"B: {dtype}[{_shape(right, sizes)}]"]
    if draw.random() < 0.2 and wide == dtype:
        lines.append(f"H[{', '.join(left)}] = A[{', '.join(left)}] * 2 + 1")
        a = a.replace("A[", "H[")
    lines.append(f"C[{', '.join(out)}] += {a} * {b}")
    if draw.random() < 0.4:
        lines += [f"D[{', '.join(out)}] = max(C[{', '.join(out)}] + 1, 0)"]
        if draw.random() < 0.5:
            order = draw.sample(out, len(out))
            lines += [f"E[{', '.join(order)}] = D[{', '.join(out)}] * 3"]
    return "\n".join(lines)


def convolution(draw: random.Random) -> str:
    """A convolution in one of two layouts, with strides and padding, or of each channel alone."""
    h, w, c, o = (draw.choice((1, 2, 3, 5, 8, 12, 13, 16)) for _ in "hwco")
    k, s, p = draw.choice((1, 2, 3)), draw.choice((1, 1, 2)), draw.choice((0, 1))
    oh, ow = (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1
    if oh < 1 or ow < 1:
        return contraction(draw)
    kind = draw.choice(("last", "first", "depthwise"))
    size = f"{h + 2 * p}, {w + 2 * p}"
    guard = f"if {p} <= y < {h + p} and {p} <= x < {w + p} else 0"
    if kind == "first":
        lines = [f"X: float32[{c}, {h}, {w}]", f"W: float32[{o}, {c}, {k}, {k}]"]
        pad = [f"P: float32[{c}, {size}]", f"P[d, y, x] = X[d, y - {p}, x - {p}] {guard}"]
        body = f"Y[o, i, j] += @[d, i * {s} + r, j * {s} + q] * W[o, d, r, q]"
        lines, out = lines, f"Y: float32[{o}, {oh}, {ow}]"
    elif kind == "last":
        lines = [f"X: float32[{h}, {w}, {c}]", f"W: float32[{k}, {k}, {c}, {o}]"]
        pad = [f"P: float32[{size}, {c}]", f"P[y, x, d] = X[y - {p}, x - {p}, d] {guard}"]
        body = f"Y[i, j, o] += @[i * {s} + r, j * {s} + q, d] * W[r, q, d, o]"
        out = f"Y: float32[{oh}, {ow}, {o}]"
    else:
        lines = [f"X: float32[{h}, {w}, {c}]", f"W: float32[{k}, {k}, {c}]"]
        pad = [f"P: float32[{size}, {c}]", f"P[y, x, d] = X[y - {p}, x - {p}, d] {guard}"]
        body = f"Y[i, j, d] += @[i * {s} + r, j * {s} + q, d] * W[r, q, d]"
        out = f"Y: float32[{oh}, {ow}, {c}]"
    lines += pad if p else []
    lines += [out, body.replace("@", "P" if p else "X")]
    if draw.random() < 0.3:
        indices = body.split("[")[1].split("]")[0]
        lines.append(f"Z[{indices}] = max(Y[{indices}], 0)")
    return "\n".join(lines)


def reduction(draw: random.Random) -> str:
    """A sum, product or extremum over some of the axes."""
    sizes = _sizes(draw, "ijkb", limit=100_000)
    indices = draw.sample("ijkb", draw.randint(1, 4))
    over = draw.sample(indices, draw.randint(1, len(indices)))
    kept = [i for i in indices if i not in over]
    draw.shuffle(kept)
    dtype = draw.choice(("float32", "float64", "int32", "float16"))
    lines = [f"A: {dtype}[{_shape(indices, sizes)}]"]
    value = f"A[{', '.join(indices)}]"
    if draw.random() < 0.3 and len(over) == 1:
        lines.append(f"X: {dtype}[{sizes[over[0]]}]")
        value += f" * X[{over[0]}]"
    if not kept:
        lines += [f"S: {dtype}[1]", f"S[z] = {draw.choice(('sum', 'max'))}({value}, over=[{', '.join(over)}])"]
        return "\n".join(lines)
    kind = draw.choice(("sum", "max", "min", "sum"))
    lines.append(f"S[{', '.join(kept)}] = {kind}({value}, over=[{', '.join(over)}])")
    if draw.random() < 0.3:
        lines.append(f"T[{', '.join(kept)}] = S[{', '.join(kept)}] * 2 + 1")
    return "\n".join(lines)


def rows(draw: random.Random) -> str:
    """Softmax or a norm along some axis."""
    sizes = _sizes(draw, "bij", limit=30_000)
    indices = draw.sample("bij", draw.randint(2, 3))
    over = draw.choice(indices)
    kept = ", ".join(i for i in indices if i != over)
    every = ", ".join(indices)
    lines = [f"X: float32[{_shape(indices, sizes)}]"]
    if draw.random() < 0.5:
        lines += [
            f"M[{kept}] = max(X[{every}], over={over})",
            f"E[{every}] = exp(X[{every}] - M[{kept}])",
            f"S[{kept}] = sum(E[{every}], over={over})",
            f"Y[{every}] = E[{every}] / S[{kept}]",
        ]
    else:
        lines += [
            f"M[{kept}] = sum(X[{every}], over={over})",
            f"V[{kept}] = sum((X[{every}] - M[{kept}] * 0.01) * (X[{every}] - M[{kept}] * 0.01), over={over})",
            f"Y[{every}] = (X[{every}] - M[{kept}] * 0.01) / sqrt(V[{kept}] + 1)",
        ]
    return "\n".join(lines)


def elementwise(draw: random.Random) -> str:
    """Broadcasts, transposes, concatenations, gathers."""
    sizes = _sizes(draw, "ijk", limit=60_000)
    indices = draw.sample("ijk", draw.randint(1, 3))
    dtype = draw.choice(("float32", "float64", "int32", "int8", "float16"))
    other = draw.sample(indices, draw.randint(1, len(indices)))
    out = draw.sample(indices, len(indices))
    lines = [f"A: {dtype}[{_shape(indices, sizes)}]", f"B: {dtype}[{_shape(other, sizes)}]"]
    value = f"A[{', '.join(indices)}] + B[{', '.join(other)}]"
    if draw.random() < 0.25:
        lines = [f"A: float32[{draw.choice(SIZES)}, {sizes['j']}]", f"I: int32[{sizes['i']}]"]
        return "\n".join([*lines, "Y[i, j] = A[I[i], j] * 2"])
    if draw.random() < 0.3:
        lines.append(f"T[{', '.join(indices)}] = A[{', '.join(indices)}] * 2")
        value = value.replace("A[", "T[") + (f" + T[{', '.join(indices)}]" if draw.random() < 0.5 else "")
    if dtype == "float32" and draw.random() < 0.4:
        value = f"tanh({value})"
    lines.append(f"Y[{', '.join(out)}] = {value}")
    return "\n".join(lines)


def stencil(draw: random.Random) -> str:
    """Stages that read neighbours."""
    h, w = draw.choice((3, 6, 13, 33, 70)), draw.choice((4, 16, 31, 65, 130, 300))
    lines = [f"X: float32[{h + 4}, {w + 4}]"]
    kind = draw.choice(("rows", "columns", "both"))
    if kind == "rows":
        lines += [f"H: float32[{h + 4}, {w}]", "H[i, j] = X[i, j] + X[i, j + 1] * 2 + X[i, j + 4]"]
        lines += [f"Y: float32[{h}, {w}]", "Y[i, j] = H[i, j] + H[i + 1, j] + H[i + 3, j]"]
    elif kind == "columns":
        lines += [f"V: float32[{h}, {w + 4}]", "V[i, j] = X[i, j] + X[i + 2, j] * 2 + X[i + 4, j]"]
        lines += [f"Y: float32[{h}, {w}]", "Y[i, j] = V[i, j] - V[i, j + 1] + V[i, j + 2]"]
    else:
        lines += [f"G: float32[{h + 2}, {w + 2}]", "G[i, j] = X[i, j] * X[i + 1, j + 1] - X[i + 2, j + 2]"]
        lines += [f"F: float32[{h + 2}, {w + 2}]", "F[i, j] = X[i + 2, j] - X[i, j + 2]"]
        lines += [f"Y: float32[{h}, {w}]", "Y[i, j] = G[i, j] + G[i + 2, j + 1] * F[i + 1, j] - F[i, j + 2]"]
    return "\n".join(lines)


KINDS = (
    contraction,
    contraction,
    contraction,
    convolution,
    convolution,
    reduction,
    reduction,
    rows,
    elementwise,
    stencil,
)
