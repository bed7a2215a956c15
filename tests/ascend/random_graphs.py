"""Random HintGraphs with inputs, every ImplGraph of them against NumPy, and mutations that break rules.

python tests/ascend/random_graphs.py 500 --seed 0 --chunk 50
"""

import argparse
import json
import random
import subprocess
import sys
import time
from itertools import zip_longest

import numpy as np

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, ops
from tvmagic.ascend.lower import lower_graphs

UNARY = ["Abs", "Neg", "Relu", "Tanh", "Sigmoid", "Square", "Exp"]
BINARY = ["Add", "Sub", "Mul", "Maximum", "Minimum"]
REDUCE = ["Sum", "Mean", "Max", "Min"]
LENGTHS = [1, 2, 3, 5, 7, 13, 16, 17, 33]


class Maker:
    """One random graph: `graph`, and `given` with the shape of each input and, of indices, what they count."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.graph = AscGraph(f"random_{seed}")
        self.lengths: list[int] = []
        self.given: list[tuple[list[int], str, int]] = []
        self.concat = rng.random() < 0.25
        rank = rng.randint(1, 4)
        self.place = rng.randrange(rank) if self.concat else -1
        for number in range(rank):
            length = rng.choice(LENGTHS[2:] if number == self.place else LENGTHS)
            symbolic = rng.random() < 0.25 and length > 1 and number != self.place
            size = self.graph.create_size(f"s{number}") if symbolic else length
            self.graph.create_axis(f"z{number}", size)
            self.lengths.append(length)
        self.axes = self.graph.axes

    def data(self, sizes, lengths, order=None, dtype="float32", counted=0):
        """An input of some sizes along the axes, in memory in the order `order` of their places."""
        order = order or range(len(self.axes))
        self.given.append(([lengths[i] for i in order], dtype, counted))
        name, axes = f"x{len(self.given) - 1}", [self.axes[i] for i in order]
        return ops.Data(self.graph, name, axes, dtype, sizes=[sizes[i] for i in order])

    def input(self, held: list[bool], order=None, dtype="float32", counted=0):
        """An input that has some axes, of size 1 along the others."""
        sizes = [a.size if h else 1 for a, h in zip(self.axes, held, strict=True)]
        lengths = [n if h else 1 for n, h in zip(self.lengths, held, strict=True)]
        return ops.Load(self.data(sizes, lengths, order, dtype, counted))

    def load(self, held: list[bool], order=None):
        """An input that has some axes, broadcast to all others."""
        return ops.broadcast_to(self.input(held, order), [a for a, h in zip(self.axes, held, strict=True) if not h])

    def part(self, length: int):
        """A part of a concat: an input, one that is the same along an axis, or a number."""
        sizes, lengths = [a.size for a in self.axes], list(self.lengths)
        sizes[self.place] = lengths[self.place] = length
        repeated = []
        if self.rng.random() < 0.2:
            x = ops.Scalar(self.graph, 0.0)
            repeated = range(len(sizes))
        else:
            shorter = list(zip(sizes, lengths, strict=True))
            if self.rng.random() < 0.3:
                repeated = [self.rng.randrange(len(sizes))]
                shorter[repeated[0]] = (1, 1)
            x = ops.Load(self.data(*map(list, zip(*shorter, strict=True))))
        for place in reversed(repeated):
            if lengths[place] > 1:
                x = ops.Broadcast(x, self.axes[place], size=sizes[place])
        wide = [i for i, n in enumerate(lengths) if n > 1 and i != self.place]
        if wide and self.rng.random() < 0.3:
            place = self.rng.choice(wide)
            least = ops.reduce(self.rng.choice(REDUCE), x, self.axes[place])
            x = ops.Sub(x, ops.Broadcast(least, self.axes[place], size=sizes[place]))
        return x

    def concatenated(self, whole: int, depth: int = 0):
        first = self.rng.randint(1, whole - 1)
        parts = []
        for length in (first, whole - first):
            nested = depth == 0 and length > 1 and self.rng.random() < 0.15
            x = self.concatenated(length, 1) if nested else self.part(length)
            parts.append(self.unary(x) if self.rng.random() < 0.5 else x)
        return ops.Concat(parts, self.axes[self.place], size=whole)

    def transposed(self):
        """An input in another order of axes, perhaps computed on, in the order of the graph."""
        rng = self.rng
        order = rng.sample(range(len(self.axes)), len(self.axes))
        x = self.load([rng.random() < 0.8 for _ in self.axes], order)
        if rng.random() < 0.6:
            x = self.unary(x)
        axis = rng.choice(self.axes)
        if rng.random() < 0.3 and not x.repeat(axis).is_one:
            x = ops.Sub(x, ops.Broadcast(ops.Max(x, axis), axis))
        return ops.Transpose(x, self.axes)

    def gathered(self):
        """Rows of an input at indices, some of them outside."""
        rng = self.rng
        place, rows = rng.randrange(len(self.axes)), rng.randint(1, 20)
        sizes, lengths = [], []
        for axis, length in zip(self.axes, self.lengths, strict=True):
            whole = rng.random() < 0.6
            sizes.append(axis.size if whole else 1), lengths.append(length if whole else 1)
        lengths[place] = rows
        sizes[place] = self.graph.create_size(f"t{len(self.given)}") if rng.random() < 0.3 and rows > 1 else rows
        table = self.data(sizes, lengths)
        at = self.input([i == place or rng.random() < 0.4 for i in range(len(sizes))], None, "int32", rows)
        if rng.random() < 0.3:
            at = ops.Cast(at, "int64")
        y = ops.Gather(table, at, self.axes[place])
        return ops.broadcast_to(y, [a for a in self.axes if y.repeat(a).is_one])

    def unary(self, x):
        name = self.rng.choice(UNARY)
        return getattr(ops, name)(ops.Minimum(x, ops.Tanh(x)) if name in ("Exp", "Square") else x)

    def full(self):
        rng = self.rng
        if rng.random() < 0.2:
            return ops.broadcast_to(ops.Scalar(self.graph, rng.choice([0.5, -1.25, 3.0])), self.axes)
        if rng.random() < 0.2:
            return self.transposed()
        if rng.random() < 0.2:
            return self.gathered()
        return self.load([rng.random() < 0.7 for _ in self.axes])

    def build(self) -> AscGraph:
        rng = self.rng
        full = [self.load([True] * len(self.axes)), *(self.full() for _ in range(rng.randint(0, 2)))]
        if self.concat:
            full.append(self.concatenated(self.lengths[self.place]))
        stores = []
        for _ in range(rng.randint(1, 6)):
            full.append(self.step(full, stores))
        stores.append(full[-1])
        for number, value in enumerate(stores):
            if rng.random() < 0.2:
                value = ops.Transpose(value, rng.sample(self.axes, len(self.axes)))
            ops.Output(ops.Store(value), f"out{number}")
        return self.graph

    def step(self, full, stores):
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return self.unary(rng.choice(full))
        if kind < 0.65 or not any(n > 1 for n in self.lengths):
            return getattr(ops, rng.choice(BINARY))(rng.choice(full), rng.choice(full))
        if kind < 0.72:
            a, b = rng.choice(full), rng.choice(full)
            return ops.Where(ops.Lt(a, b), b, ops.Cast(ops.Cast(a, "float64"), "float32"))
        wide = [a for a, n in zip(self.axes, self.lengths, strict=True) if n > 1]
        axes = rng.sample(wide, rng.randint(1, len(wide)))
        reduced = ops.reduce(rng.choice(REDUCE), rng.choice(full), axes)
        if rng.random() < 0.5 or not stores:
            stores.append(self.unary(reduced) if rng.random() < 0.5 else reduced)
        back = ops.broadcast_to(reduced, [a for a in self.axes if any(a is b for b in axes)])
        return ops.Add(back, rng.choice(full))

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.rng.randrange(2**31))
        return [
            rng.integers(-2, counted + 2, shape).astype(dtype) if counted else rng.uniform(-1, 1, shape).astype(dtype)
            for shape, dtype, counted in self.given
        ]


def implementations(graph: AscGraph, rng: random.Random):
    """Functions of all ImplGraphs of all results, with random sizes of tiles; those of groups side by side.

    Half of them are made of what is read from the graphs' texts.
    """
    for result in ascend.auto_schedule(graph):
        some = [one_of_twins(g.impls, rng) for g in result.groups]
        for row in zip_longest(*some):
            chosen = [impl or impls[0] for impl, impls in zip(row, some, strict=True)]
            sizes = [
                {n: rng.choice([1, 2, 3, 4, 8, 17, 64]) for n in (*i.tiles, *([i.block] if i.block else []))}
                for i in chosen
            ]
            in_place, generation = rng.random() < 0.5, rng.choice([0, 0, 1, 2])
            graphs = [i.graph for i in chosen]
            if generation:
                graphs = [read_back(g, generation) for g in graphs]
            label = f"{result.name} {[i.case for i in chosen]} {sizes} in_place={in_place} generation={generation}"
            yield label, lower_graphs(graph, graphs, sizes, in_place=in_place)


def one_of_twins(impls: list[ascend.ImplGraph], rng: random.Random) -> list[ascend.ImplGraph]:
    """ImplGraphs of all cases, of each that has one with padded rows beside it one of the two."""
    pairs = zip(impls, [*impls[1:], None], strict=True)
    return [
        twin if twin is not None and twin.rows == "padded" and rng.random() < 0.5 else impl
        for impl, twin in pairs
        if impl.rows != "padded"
    ]


def read_back(graph: AscGraph, generation: int) -> AscGraph:
    """The graph that the text of a graph is read as, which is printed in the same way."""
    text = ascend.graph_text(graph, generation)
    again = ascend.parse_graph(text)
    assert str(again) == text and ascend.graph_text(again, generation) == text
    return again


def check(seed: int, limit: int = 10**9) -> int:
    """Compile and run the implementations of one random graph; returns how many were equal to NumPy."""
    maker = Maker(seed)
    graph = maker.build()
    inputs = maker.inputs()
    wanted = ascend.evaluate(graph, inputs)
    for generation in (1, 2):
        for got, want in zip(ascend.evaluate(read_back(graph, generation), inputs), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    count = 0
    for label, func in implementations(graph, maker.rng):
        if count >= limit:
            break
        outputs = [np.full(w.shape, 7).astype(w.dtype) for w in wanted]
        tvmagic.build(func)(*inputs, *outputs)
        for got, want in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-4, err_msg=f"seed {seed}: {label}")
        count += 1
    return count


# ---------------------------------------------------------------------------- mutations


def _pick(graph, rng, *kinds):
    found = [n for n in graph.nodes if n.op.compute_type in kinds and n.y.dtype == "float32"]
    return rng.choice(found) if found else None


def _retype(tensor) -> None:
    """Make a tensor and all that it is made of float32."""
    tensor.dtype = "float32"
    for x in tensor.node.inputs:
        _retype(x)


def _turn(tensor) -> None:
    """Turn the order of a tensor's axes round."""
    tensor.axis.reverse(), tensor.repeats.reverse()
    tensor.strides = ascend.graph.dense_strides(tensor.repeats)


def _mutations(graph: AscGraph, rng: random.Random):
    """(rules of which one is broken, change) of all mutations that this graph can have."""
    load, compute = (
        _pick(graph, rng, "load"),
        _pick(graph, rng, "elewise", "reduce", "concat", "broadcast", "transpose"),
    )
    store = _pick(graph, rng, "store")
    other = AscGraph("other").create_axis("other", 3)
    yield {"axis-known"}, lambda: load.y.axis.__setitem__(0, other)
    yield {"axis-once"}, lambda: load.sched.axis.append(load.sched.axis[0])
    yield {"tensor-rank"}, lambda: load.y.repeats.pop()
    yield {"loop-axis"}, lambda: setattr(load.sched, "loop_axis", other)
    yield {"acyclic"}, lambda: graph.nodes.reverse()
    yield {"input-count"}, lambda: setattr(load, "inputs", [])
    yield {"index"}, lambda: load.inputs[0].node.attrs.update(index=9)
    yield {"edge-dtype"}, lambda: setattr(load.inputs[0], "dtype", "int8")
    yield {"has-output"}, lambda: setattr(graph, "nodes", [n for n in graph.nodes if n.type != "Output"])
    output = graph.of_type("Output")[0]
    yield {"output-from-store"}, lambda: setattr(output, "inputs", output.inputs[0].node.inputs)
    yield {"store-from-local", "edge-axis", "edge-repeats"}, lambda: setattr(store, "inputs", [load.inputs[0]])
    if compute is not None:
        data = graph.of_type("Data")[0].y  # stands before all others
        yield {"compute-on-local"}, lambda: setattr(compute, "inputs", [data] * len(compute.inputs))
    for gather in graph.of_type("Gather"):
        table, at = gather.inputs
        yield {"gather-indices"}, lambda at=at: _retype(at)
        yield {"gather-from-global"}, lambda g=gather, at=at: setattr(g, "inputs", [at, at])
        yield {"compute-on-local"}, lambda g=gather, t=table: setattr(g, "inputs", [t, t])
        yield {"node-axis"}, lambda g=gather: g.attrs.update(axis="none")
    for transpose in graph.of_type("Transpose") if len(graph.axes) > 1 else ():
        if any(n.type != "Transpose" for n in graph.consumers(transpose.y)):
            rules = {"edge-axis", "reduce-keeps-dimension", "broadcast-one-axis"}
            yield rules, lambda t=transpose: _turn(t.y)
    if len(graph.axes) > 1:
        yield {"same-sched-axis"}, lambda: load.sched.axis.reverse()
    wide = [i for i, r in enumerate(store.y.repeats) if not r.is_one]
    if wide:

        def narrow() -> None:
            place = rng.choice(wide)
            store.y.repeats[place] = ascend.Size.of(1)
            store.y.strides = ascend.graph.dense_strides(store.y.repeats)

        yield {"edge-repeats"}, narrow
        yield {"strides"}, lambda: store.y.strides.__setitem__(wide[0], ascend.Size.of(0))


def check_mutations(seed: int) -> int:
    """Break a random graph in each way that it can be; returns how many were refused with the rule named."""
    count = len(list(_mutations(Maker(seed).build(), random.Random(seed))))
    for number in range(count):
        graph = Maker(seed).build()
        ascend.check_hint(graph)
        rules, change = list(_mutations(graph, random.Random(seed)))[number]
        change()
        try:
            ascend.check_hint(graph)
        except AscendError as error:
            assert error.rule in rules, (seed, number, rules, str(error))
        else:
            raise AssertionError(f"seed {seed}: a graph that breaks one of {rules} was taken")
    return count


def run(first: int, count: int) -> tuple[int, int, list[str]]:
    """Check some seeds; how many implementations were equal, how many mutations refused, and what failed."""
    compiled, refused, failures = 0, 0, []
    for seed in range(first, first + count):
        try:
            compiled += check(seed)
            refused += check_mutations(seed)
        except Exception as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}")
    return compiled, refused, failures


def run_apart(first: int, count: int) -> tuple[int, int, list[str]]:
    """`run` in a process of its own, which a wrong kernel may end."""
    command = [sys.executable, __file__, str(count), "--seed", str(first), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return 0, 0, [f"seeds {first} to {first + count - 1}: ended with {done.returncode}\n{done.stderr[-2000:]}"]
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk", type=int, help="seeds in a process")
    parser.add_argument("--json", action="store_true", help="print the result of `run` only")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(run(options.seed, options.count)))
        return
    start, last = time.time(), options.seed + options.count
    compiled, refused, failed = 0, 0, 0
    for first in range(options.seed, last, options.chunk or options.count):
        size = min(options.chunk or options.count, last - first)
        more, kept, failures = (run_apart if options.chunk else run)(first, size)
        compiled, refused, failed = compiled + more, refused + kept, failed + len(failures)
        for text in failures:
            print(text, flush=True)
        if failed > 5:
            break
    print(f"{options.count} graphs, {compiled} implementations equal, {refused} mutations refused, {failed} failures")
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
