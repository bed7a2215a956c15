"""Random long programs, and a limit on the time to build them for each node.

A program is some kinds of statements that are repeated 8 to 200 times over a few arrays. If a step takes more than linear
time, a node takes far longer than one of the program's first 8 statements, and longer than the median of short programs.
"""

from __future__ import annotations

import functools
import random
import statistics
import time

import numpy as np
from outcomes import Source, Wrong

MOST = 5.0  # times the time of a node of a short program that a node of a long one may take
SHORT = 8  # statements
SHORT_PROGRAMS = 9
EXTENTS = (1, 2, 3, 4, 7, 8, 16, 20, 64, 100, 128, 256, 1000, 1024, 4096, "n")
# Each reads and writes arrays of 4096 elements; `{e}` is an extent, `{k}` the number of the statement.
STATEMENTS = {
    "map": "for i in range({e}):\n    {x}[i] = {y}[i] * T.float32(0.5) + T.float32({k})",
    "long": "for i in range({e}):\n    {x}[i] = ({y}[i] + {z}[i]) * ({y}[i] - {z}[i] * T.float32({k})) + T.max({x}[i], {z}[i])",
    "shift": "for i in range({e}):\n    if i >= 1:\n        {x}[i] = {y}[i - 1] + T.float32({k})",
    "ends": "for i in range({e}):\n    {x}[i] = T.if_then_else(i < {k} % 5, {y}[i], {z}[i] * T.float32(2))",
    "reduce": "for i in range({e}):\n    {x}[0] = {x}[0] + {y}[i] * {z}[i]",
    "matrix": "for i in range(8):\n    for j in range({e} // 8):\n        {x}[i * ({e} // 8) + j] = {y}[j * 8 + i]",
    "guard": "for i in range({e}):\n    if {y}[i] > T.float32({k}):\n        {x}[i] = {z}[i]\n    else:\n        {x}[i] = {y}[i]",
    "vector": "for i in T.vectorized(16):\n    {x}[i + {k} % 8] = {y}[i] + T.float32({k})",
    "unroll": "for i in T.unroll(4):\n    {x}[i] = {y}[i + {k} % 9] - {z}[3 - i]",
    "store": "{x}[{k}] = {y}[{k} + 1] * {z}[{k} + 2]",
    "lets": "with T.LetStmt({y}[{k}] * T.float32(2), var=v):\n    for i in range({e}):\n        {x}[i] = {x}[i] + v",
    "gather": "for i in range({e}):\n    {x}[i] = {y}[T.min(T.max(T.Cast('int32', {z}[i]), 0), 4095)]",
    "math": "for i in range({e}):\n    {x}[i] = T.exp({y}[i] * T.float32(0.001)) + T.tanh({z}[i])",
    "choice": "if n > {k}:\n    for i in range({e}):\n        {x}[i] = {y}[i] + T.float32(1)",
}
SOURCE = "source = '''{}'''"
BUILD = "built = tvmagic.build(tvmagic.script.from_source(source))"


def program(seed: int, count: int) -> str:
    """Return the text of a function of the first `count` statements of a seed."""
    rng = random.Random(seed)
    arrays = [f"B{k}" for k in range(rng.choice((2, 3, 8, 30)))]
    kinds = rng.sample(sorted(STATEMENTS), rng.randint(1, 4))
    extents = rng.sample(EXTENTS, rng.randint(1, 3))
    lines = ["A: T.Buffer((4096,))" if k == 0 else f"B{k - 1}: T.Buffer((4096,))" for k in range(2)]
    head = f"@T.prim_func\ndef main({', '.join(lines)}, n: T.int32):\n    v = T.float32()\n"
    body = [f"{name} = T.alloc_buffer((4096,))" for name in arrays[1:]]
    body += [f"for i in range(4096):\n    {name}[i] = A[i]" for name in arrays[1:]]
    for k in range(count):
        x, y, z = (rng.choice(arrays) for _ in range(3))
        body.append(STATEMENTS[rng.choice(kinds)].format(x=x, y=y, z=z, k=k, e=rng.choice(extents)))
    return head + "\n".join(f"    {line}" for text in body for line in text.splitlines()) + "\n"


def seconds_per_node(source: str) -> float:
    """Return the processor time of building a program for each node, as it is written and as it is lowered."""
    import tvmagic
    from tvmagic import ir

    nodes = 0

    def count(node: object) -> None:
        nonlocal nodes
        nodes += 1

    begin = time.process_time()
    written = tvmagic.script.from_source(source)
    lowered = tvmagic.lower(written)
    tvmagic.build(lowered)
    spent = time.process_time() - begin
    for func in (written, *lowered.functions.values()):
        ir.post_order_visit(func.body, count)
    return spent / nodes


@functools.cache
def median_of_short() -> float:
    """Return the median time for each node of short programs, the first of which also does the imports."""
    found = [seconds_per_node(program(10**9 + k, SHORT)) for k in range(SHORT_PROGRAMS + 1)]
    return statistics.median(found[1:])


class Case:
    """The program of a seed."""

    builds = 3  # of a long program, and of the short ones

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.seed, self.count = seed, round(SHORT * 25 ** random.Random(-seed).random())
        self.text_of_program = program(seed, self.count)
        self.source = Source()

    def make(self) -> None:
        """Build the program and call it."""
        self.source.run(SOURCE.format(self.text_of_program))
        self.source.run(BUILD)
        self.source.run("arrays = [np.linspace(0, 9, 4096).astype('float32') for _ in range(2)]")
        self.source.run("built(*arrays, 100)")

    def check(self) -> None:
        """Raise `Wrong` if a node takes too long, or the call gives other values than a build without optimization."""
        usual = max(median_of_short(), seconds_per_node(program(self.seed, SHORT)))
        found = seconds_per_node(self.text_of_program)
        if found > MOST * usual:
            what = f"{found / usual:.1f} times the {1e6 * usual:.0f} us of a short program for each node"
            raise Wrong("slow", f"{self.count} statements take {what}")
        self.make()
        values = self.source.get("arrays")
        self.source.run("plain = tvmagic.build(tvmagic.script.from_source(source), target='llvm -opt-level=0')")
        self.source.run("arrays = [np.linspace(0, 9, 4096).astype('float32') for _ in range(2)]")
        self.source.run("plain(*arrays, 100)")
        for one, other in zip(values, self.source.get("arrays")):
            if not np.allclose(one, other, rtol=1e-3, atol=1e-3, equal_nan=True):
                raise Wrong("result", "other values than without optimization")

    def text(self) -> str:
        """The program as a file that runs by itself."""
        return self.source.text()
