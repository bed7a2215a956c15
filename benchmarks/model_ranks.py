"""How well `%why`'s model ranks schedules: predicted cycles beside measured times of random schedules of three kernels.

    python -m benchmarks.model_ranks [--schedules 100] [--seed 0] [--show]

Prints Spearman's rank correlation for each kernel and its mean. Schedules are measured interleaved in one process, one thread,
least times; other work on the machine lowers the figure. `TVMAGIC_TARGET="llvm -mcpu=haswell"` compares code for another processor:
it runs on this one, so the model has its vectors and registers, and this machine's caches, latency and stores.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import replace
from typing import Any

import numpy as np

from tvmagic import runtime
from tvmagic.codegen import last_program
from tvmagic.errors import TVMagicError
from tvmagic.model.program_model import model
from tvmagic.operators import Operator, Version, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.target import host_target, resolved
from tvmagic.target.machine import Machine

KERNELS = {
    "product": "A: float32[96, 120]\nB: float32[120, 144]\nC[i, j] += A[i, k] * B[k, j]",
    "convolution": "X: float32[12, 30, 34]\nW: float32[16, 12, 3, 3]\nC: float32[16, 28, 32]\nC[o, y, x] += X[c, y + r, x + q] * W[o, c, r, q]",
    "stencil": "X: float32[34, 66, 258]\nC: float32[32, 64, 256]\nC[z, y, x] = X[z + 1, y + 1, x + 1] * 0.4 + (X[z, y + 1, x + 1] + X[z + 2, y + 1, x + 1] + X[z + 1, y, x + 1] + X[z + 1, y + 2, x + 1] + X[z + 1, y + 1, x] + X[z + 1, y + 1, x + 2]) * 0.1",
}  # fmt: skip
TURNS = 5


def random_cell(op: Operator, draw: random.Random) -> str:
    """The text of a random schedule of an operator's one stage: loops split, in any order, the last as vectors or unrolled."""
    axes = op.outputs[0].op.axis
    lines, loops = [], []  # of a loop: its name, extent, and whether it is the innermost of the last axis
    for kind, group in (("axis", axes), ("reduce_axis", op.outputs[0].op.reduce_axis)):
        for place, iv in enumerate(group):
            extent, text = int(iv.dom.extent), f"s[C].op.{kind}[{place}]"
            last = kind == "axis" and place == len(axes) - 1
            sizes = [n for n in (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64) if extent % n == 0 and n < extent]
            if sizes and draw.random() < 0.6:
                size, name = draw.choice(sizes), f"x{len(loops)}"
                lines.append(f"{name}o, {name}i = s[C].split({text}, {size})")
                loops += [(f"{name}o", extent // size, False), (f"{name}i", size, last)]
            else:
                loops.append((text, extent, last))
    draw.shuffle(loops)
    unit = next(x for x in loops if x[2])
    if draw.random() < 0.7:  # contiguous inside, as most people write it
        loops = [x for x in loops if x is not unit] + [unit]
    lines.append(f"s[C].reorder({', '.join(x[0] for x in loops)})")
    if loops[-1] is unit and unit[1] <= 64 and draw.random() < 0.7:
        lines.append(f"s[C].vectorize({unit[0]})")
    if loops[-2][1] <= 8 and draw.random() < 0.5:
        lines.append(f"s[C].unroll({loops[-2][0]})")
    return "\n".join(lines)


def spearman(a: list[float], b: list[float]) -> float:
    """The correlation of the ranks of two lists."""
    first, second = (np.argsort(np.argsort(x)).astype(float) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def measured(versions: list[Version]) -> list[float]:
    """Least seconds of a call of each, interleaved."""
    inputs = versions[0].operator.random_inputs()
    outputs = [v(*inputs) for v in versions]
    best = [float("inf")] * len(versions)
    for _ in range(TURNS):
        for number, version in enumerate(versions):
            for _ in range(3):
                begin = time.perf_counter()
                version(*inputs, out=outputs[number])
                best[number] = min(best[number], time.perf_counter() - begin)
    return best


def schedules_of(op: Operator, count: int, draw: random.Random) -> list[Version]:
    """Random schedules that are legal, all different."""
    found: dict[str, Version] = {}
    while len(found) < count:
        cell = random_cell(op, draw)
        if cell not in found:
            try:
                found[cell] = schedule(op, cell, f"r{len(found)}")
            except TVMagicError:
                continue
    return list(found.values())


def measured_on(machine: Machine) -> Machine:
    """The processor that code is for, with what this machine decides if it runs it."""
    host = host_target().machine
    return replace(
        machine,
        caches=host.caches,
        fma_latency=host.fma_latency,
        stored=host.stored,
        shuffles_per_cycle=host.shuffles_per_cycle,
        inserts_per_cycle=host.inserts_per_cycle,
    )


def ranked(name: str, count: int, seed: int) -> tuple[float, list[tuple[float, float, str]]]:
    """The correlation for a kernel, and each schedule's predicted cycles, seconds and cell."""
    op, machine = operator(name, KERNELS[name]), measured_on(resolved(None).machine)
    versions = schedules_of(op, count, random.Random(seed))
    functions = [next(iter(last_program(v.lower()).functions.values())) for v in versions]
    predicted = [model(func, machine).time for func in functions]
    times = measured(versions)
    cells = [v.source.text.split("\n", 1)[1] if v.source is not None else "" for v in versions]
    return spearman(predicted, times), list(zip(predicted, times, cells))


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=100, help="of all kernels together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print each schedule with cycles predicted and measured")
    given = parser.parse_args(arguments)
    runtime.set_num_threads(1)
    found: list[float] = []
    for name in KERNELS:
        value, rows = ranked(name, -(-given.schedules // len(KERNELS)), given.seed)
        found.append(value)
        print(f"{name}: {value:.2f} over {len(rows)} schedules", flush=True)
        if given.show:
            scale = sorted(p / t for p, t, _ in rows)[len(rows) // 2]
            for predicted, seconds, cell in sorted(rows):
                print(f"  {predicted:.3g} predicted, {seconds * scale:.3g} measured, {cell.splitlines()}")
    print(f"mean: {sum(found) / len(found):.2f}")


if __name__ == "__main__":
    main()
