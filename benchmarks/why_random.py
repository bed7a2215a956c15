"""Whether what `%why` claims of schedules that nobody looked at is so: random schedules of many operators, explained and measured.

    python -m benchmarks.why_random [--schedules 200] [--seed 0] [--llvm] [--show]

Of each schedule the calls of the first two findings are made, the results compared, and both measured, interleaved in one process, one
thread. Prints what a measurement contradicts: a call that is refused, makes another result or a program that is slower by a fifth; "at the
roof" if the instant schedule is faster by a third. And, as `missed`, schedules without a finding that are twice as slow as the instant one.
`--show` prints each claim with the gain by the model and as measured.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

import numpy as np

from tvmagic import runtime
from tvmagic.errors import TVMagicError
from tvmagic.explain import Explanation, Finding, explain
from tvmagic.notebook.machine import auto_source
from tvmagic.operators import Operator, Version, operator
from tvmagic.operators.scheduling import schedule

OPERATORS = {
    "product": "A: float32[120, 144]\nB: float32[144, 160]\nC[i, j] += A[i, k] * B[k, j]",
    "product of a transposed": "A: float32[112, 160]\nB: float32[144, 160]\nC[i, j] += A[i, k] * B[j, k]",
    "float64 product": "A: float64[96, 100]\nB: float64[100, 112]\nC[i, j] += A[i, k] * B[k, j]",
    "bytes": "A: int8[96, 128]\nB: int8[128, 96]\nC[i, j] += int32(A[i, k]) * int32(B[k, j])",
    "batches": "A: float32[8, 40, 48]\nB: float32[8, 48, 56]\nC[b, i, j] += A[b, i, k] * B[b, k, j]",
    "matrix and vector": "A: float32[500, 640]\nX: float32[640]\nY[i] += A[i, k] * X[k]",
    "rows": "A: float32[400, 900]\nS[i] += A[i, k]",
    "columns": "A: float32[600, 500]\nS[j] += A[k, j]",
    "largest": "A: float32[300, 1000]\nM[i] = max(A[i, k], over=k)",
    "sum of two": "A: float32[500, 720]\nB: float32[500, 720]\nC[i, j] = A[i, j] + B[i, j] * 2",
    "add to rows": "A: float32[300, 500]\nb: float32[500]\nC[i, j] = max(A[i, j] + b[j], 0)",
    "transpose": "A: float32[500, 640]\nB: float32[640, 500]\nB[j, i] = A[i, j]",
    "transpose 512": "A: float32[512, 512]\nB[i, j] = A[j, i]",
    "axes turned": "A: float32[24, 40, 64]\nB: float32[64, 24, 40]\nB[c, a, b] = A[a, b, c]",
    "exponential": "A: float32[200, 320]\nB[i, j] = exp(A[i, j]) * 2",
    "half": "A: float16[200, 400]\nB[i, j] = A[i, j] * 2 + 1",
    "gather": "T: float32[1000, 64]\nI: int32[800]\nE[t, d] = T[I[t], d] * 2",
    "picked": "T: float32[100, 400]\nI: int32[100, 90]\nE[t, d] = T[t, I[t, d]]",
    "convolution": "X: float32[12, 30, 34]\nW: float32[16, 12, 3, 3]\nY: float32[16, 28, 32]\nY[o, y, x] += X[c, y + r, x + q] * W[o, c, r, q]",
    "convolution, channels last": "X: float32[30, 30, 16]\nW: float32[3, 3, 16, 32]\nY: float32[28, 28, 32]\nY[y, x, o] += X[y + r, x + q, c] * W[r, q, c, o]",
    "depthwise": "X: float32[24, 34, 50]\nW: float32[24, 3, 3]\nY: float32[24, 32, 48]\nY[c, y, x] += X[c, y + r, x + q] * W[c, r, q]",
    "pooling": "X: float32[24, 48, 64]\nP: float32[24, 24, 32]\nr: range(2)\nq: range(2)\nP[c, y, x] = max(X[c, 2 * y + r, 2 * x + q], over=(r, q))",
    "stencil": "X: float32[18, 66, 130]\nY: float32[16, 64, 128]\nY[z, y, x] = X[z, y + 1, x + 1] + X[z + 2, y + 1, x + 1] + X[z + 1, y, x + 1] + X[z + 1, y + 2, x + 1] + X[z + 1, y + 1, x] + X[z + 1, y + 1, x + 2]",
    "padded": "X: float32[200, 300]\nY: float32[202, 302]\nY[i, j] = X[i - 1, j - 1] * 2 if i > 0 and i < 201 and j > 0 and j < 301 else 0",
    "triangle": "A: float32[300, 300]\nY: float32[300, 300]\nY[i, j] = A[i, j] if j <= i else 0",
    "blur": "X: float32[258, 322]\nH: float32[258, 320]\nH[i, j] = X[i, j] + X[i, j + 1] + X[i, j + 2]\nV: float32[256, 320]\nV[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]",
    "waves": "X: float32[130, 260]\nH: float32[130, 256]\nH[i, j] = exp(X[i, j]) + X[i, j + 2]\nV: float32[128, 256]\nV[i, j] = H[i, j] * H[i + 1, j] + H[i + 2, j]",
    "layer": "X: float32[64, 128]\nW: float32[160, 128]\nb: float32[160]\nY[i, o] += X[i, k] * W[o, k]\nZ[i, o] = max(Y[i, o] + b[o], 0)",
    "two products": "A: float32[64, 80]\nB: float32[80, 96]\nD: float32[96, 64]\nC[i, j] += A[i, k] * B[k, j]\nE[i, j] += C[i, k] * D[k, j]",
    "norm": "X: float32[200, 300]\nn[i] += X[i, k] * X[i, k]\nY[i, j] = X[i, j] / sqrt(n[i] + 1)",
    "softmax": "X: float32[128, 256]\nm[i] = max(X[i, k], over=k)\nE[i, j] = exp(X[i, j] - m[i])\nt[i] += E[i, k]\nY[i, j] = E[i, j] / t[i]",
    "gray": "X: uint8[200, 320, 3]\nG[i, j] = float32(X[i, j, 0]) * 0.3 + float32(X[i, j, 1]) * 0.6 + float32(X[i, j, 2]) * 0.1",
    "any size": "n: int32\nA: float32[n, 200]\nB[i, j] = A[i, j] * 2 + 1",
}  # fmt: skip
SIZES = (2, 3, 4, 5, 7, 8, 12, 16, 20, 32, 48, 64)
SLOWER, FASTER_AUTO, MISSED = 1 / 1.2, 4 / 3, 2.0


class RandomCell:
    """The text of a random schedule of an operator: stages split, in any order, as vectors, unrolled, parallel, inside others."""

    def __init__(self, op: Operator, draw: random.Random) -> None:
        self.draw, self.lines, self.count = draw, list[str](), 0
        self.loops: dict[str, list[str]] = {}
        self.te = draw.random() < 0.6
        stages = {name: t for name, t in op.tensors.items() if getattr(t.op, "axis", ())}
        for name, tensor in reversed(list(stages.items())):
            readers = [r for r, t in stages.items() if any(x.op is tensor.op for x in t.op.input_tensors)]
            self.stage(name, tensor, readers)
        self.text = "\n".join(self.lines) or "pass"

    def call(self, name: str, method: str, *arguments: str) -> str:
        """A call on a stage or on its block."""
        return f"{f's[{name}]' if self.te else 'sch'}.{method}({', '.join(arguments)})"

    def stage(self, name: str, tensor: Any, readers: list[str]) -> None:
        """One stage's lines; those of its readers come before."""
        draw, axes, reduced = self.draw, tensor.op.axis, getattr(tensor.op, "reduce_axis", ())
        block = f'sch.get_block("{name}")'
        if readers and not reduced and draw.random() < 0.2:
            self.lines.append(f"s[{name}].compute_inline()" if self.te else f"sch.compute_inline({block})")
            return
        if len(readers) == 1 and draw.random() < 0.5 and (places := self.loops.get(readers[0])):
            place = draw.choice(places)
            self.lines.append(f"s[{name}].compute_at(s[{readers[0]}], {place})" if self.te else f"sch.compute_at({block}, {place})")  # fmt: skip
            if not self.te:
                return  # its loops are others then
        if draw.random() < 0.15:
            return
        names = [f"{name}.op.axis[{n}]" for n in range(len(axes))] + [f"s[{name}].op.reduce_axis[{n}]" for n in range(len(reduced))]  # fmt: skip
        if not self.te:
            names = [f"{name}_{n}" for n in range(len(names))]
            self.lines.append(f"{', '.join(names)}, = sch.get_loops({block})")
        self.arrange(name, [(text, _extent(iv)) for text, iv in zip(names, (*axes, *reduced))], len(axes))

    def arrange(self, name: str, axes: list[tuple[str, int]], spatial: int) -> None:
        """Split, reorder and mark the loops of a stage, of which the first `spatial` are over the result."""
        draw = self.draw
        loops: list[
            tuple[str, int, bool, bool]
        ] = []  # its name, extent, whether over the result, the last axis' innermost
        for number, (text, extent) in enumerate(axes):
            last, over = number == spatial - 1, number < spatial
            if extent > 4 and draw.random() < 0.55:
                size = draw.choice([n for n in SIZES if n < extent and (extent % n == 0 or draw.random() < 0.1)] or [2])
                outer, inner = f"x{self.count}o", f"x{self.count}i"
                self.count += 1
                factor = str(size) if self.te else f"[None, {size}]"
                self.lines.append(f"{outer}, {inner} = {self.call(name, 'split', text, factor)}")
                loops += [(outer, -(-extent // size), over, False), (inner, size, over, last)]
            else:
                loops.append((text, extent, over, last))
        if draw.random() < 0.7:
            draw.shuffle(loops)
            unit = next(x for x in loops if x[3])
            if draw.random() < 0.7:
                loops = [x for x in loops if x is not unit] + [unit]
            if len(loops) > 1:
                self.lines.append(self.call(name, "reorder", *(x[0] for x in loops)))
        self.loops[name] = [x[0] for x in loops]
        if loops[-1][2] and 1 < loops[-1][1] <= 64 and draw.random() < (0.7 if loops[-1][3] else 0.3):
            self.lines.append(self.call(name, "vectorize", loops[-1][0]))
        if len(loops) > 1 and loops[-2][1] <= 32 and draw.random() < 0.5:
            self.lines.append(self.call(name, "unroll", loops[-2][0]))
        if len(loops) > 1 and loops[0][2] and draw.random() < 0.2:
            self.lines.append(self.call(name, "parallel", loops[0][0]))


def _extent(iv: Any) -> int:
    return getattr(iv.dom.extent, "value", 256)


def random_schedule(draw: random.Random) -> Version:
    """A random schedule that is legal, of a random operator."""
    while True:
        name = draw.choice(sorted(OPERATORS))
        op = operator("op", OPERATORS[name])
        try:
            version = schedule(op, RandomCell(op, draw).text, "random")
            version.lower()
            return version
        except TVMagicError:
            continue


def ratio(version: Version, other: Version, least: int = 7) -> float:
    """How many times as fast the second is, by least times, interleaved. Both have to compute the same."""
    inputs = version.operator.random_inputs(0, 256)
    outputs, others = version(*inputs), other(*inputs)
    for got, expected in zip(_arrays(others), _arrays(outputs)):
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)
    best = dict.fromkeys((version, other), float("inf"))
    end, turns = time.perf_counter() + 0.15, 0
    while turns < least or (turns < 20 * least and time.perf_counter() < end):
        turns += 1
        for v in best:
            begin = time.perf_counter()
            v(*inputs, out=outputs)
            best[v] = min(best[v], time.perf_counter() - begin)
    return best[version] / best[other]


def _arrays(value: Any) -> list[np.ndarray]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def mended(version: Version, finding: Finding) -> Version:
    """The version with a finding's call."""
    return schedule(version.operator, finding.cell.split("\n", 1)[1], "mended", version.scope)


def instant(version: Version, target: str) -> Version:
    """The instant schedule of the operator."""
    text, _ = auto_source(version.operator, target)
    return schedule(version.operator, text.split("\n", 1)[1], "instant")


class Tally:
    """Claims that were measured, and those that a measurement contradicts."""

    def __init__(self, target: str, llvm: bool, show: bool) -> None:
        self.target, self.llvm, self.show = target, llvm, show
        self.gains: list[tuple[float, float]] = []  # by the model, measured
        self.false: list[str] = []
        self.missed: list[str] = []

    def look(self, version: Version) -> None:
        """Explain a version and measure what is claimed."""
        found = explain(version, self.target, llvm=self.llvm, seconds=30)
        for finding in [f for f in found.findings[:2] if f.call]:
            self.claim(version, finding)
        if any(f.code == "at-roof" for f in found.findings) or not found.findings:
            self.nothing(version, found)

    def claim(self, version: Version, finding: Finding) -> None:
        """Measure a finding's call."""
        try:
            better = mended(version, finding)
            gain = ratio(version, better)
            if gain < SLOWER:
                gain = ratio(version, better, 40)
        except (TVMagicError, AssertionError) as error:
            self.report(self.false, f"{finding.code}: {error}", finding.cell)
            return
        self.gains.append((finding.gain, gain))
        if self.show:
            print(f"{finding.code}: {finding.gain} by the model, {gain:.2f} measured", flush=True)
        if gain < SLOWER:
            self.report(self.false, f"{finding.code}: {gain:.2f} times as fast, not {finding.gain}: {finding.call!r}", _cell(version))  # fmt: skip

    def nothing(self, version: Version, found: Explanation) -> None:
        """Measure a schedule that nothing is said to help."""
        gain = ratio(version, instant(version, self.target), 7)
        roof = any(f.code == "at-roof" for f in found.findings)
        if roof and gain > FASTER_AUTO:
            self.report(self.false, f"at-roof, and the instant schedule is {gain:.2f} times as fast", _cell(version))
        elif gain > MISSED and found.cycles > 3000:
            self.report(
                self.missed, f"no finding, and the instant schedule is {gain:.2f} times as fast", _cell(version)
            )

    def report(self, where: list[str], text: str, cell: str) -> None:
        """Keep and print what is wrong."""
        where.append(text)
        print(f"{'missed' if where is self.missed else 'false'}: {text}\n{cell}\n", flush=True)


def _cell(version: Version) -> str:
    assert version.source is not None
    op = version.operator
    return f"{op.source.text if op.source is not None else ''}\n---\n{version.source.text}"


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--llvm", action="store_true", help="ask LLVM for its remarks, too")
    parser.add_argument("--show", action="store_true", help="print each claim")
    given = parser.parse_args(arguments)
    runtime.set_num_threads(1)
    tally = Tally("llvm -num-cores=1", given.llvm, given.show)
    for number in range(given.schedules):
        tally.look(random_schedule(random.Random(1000 * given.seed + number)))
    helped = sum(gain >= 1.05 for _, gain in tally.gains)
    print(
        f"{given.schedules} schedules, {len(tally.gains)} calls measured: {helped} faster by 5% or more, median gain "
        f"{np.median([g for _, g in tally.gains]):.2f} where the model says {np.median([m for m, _ in tally.gains]):.2f}; "
        f"{len(tally.false)} false, {len(tally.missed)} missed"
    )


if __name__ == "__main__":
    main()
