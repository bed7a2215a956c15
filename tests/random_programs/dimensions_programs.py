"""Random programs of 8 to 16 dimensions, with random schedules of TE or TensorIR."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from outcomes import Argument, Source, check_call, guarded_call, refusal

MOST = 1 << 13  # elements
COMBINED = {"add": "+", "multiply": "*", "maximum": "max"}


class Case:
    """The program of a seed: chains of permutations, broadcasts and reductions."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng, self.without = random.Random(seed), without
        self.numbers = np.random.default_rng(seed)
        self.calls: list[str] = []
        self.replay: list[str] | None = None

    def text(self) -> str:
        """The program as a file that runs by itself."""
        return self.source.text()

    def make(self) -> None:
        """Create the function and its schedule."""
        rng = self.rng
        count = rng.randint(8, 16)
        shape: list[int] = []
        for _ in range(count):
            shape.append(rng.choice([n for n in (1, 2, 2, 2, 3) if n * int(np.prod(shape, dtype=int)) <= MOST]))
        self.symbol = rng.randrange(count) if rng.random() < 0.4 else -1
        self.values = self.numbers.integers(-9, 9, shape).astype("int32")
        text = ", ".join("n" if i == self.symbol else str(n) for i, n in enumerate(shape))
        self.source = Source('n = te.size_var("n")', f'A = te.placeholder(({text},), "int32", name="A")')
        self.names, self.wanted, self.stages = ["A"], [self.values], 0
        for _ in range(rng.randint(1, 3)):
            self._stage()
        self.result = self.names[-1]
        (self._te if rng.random() < 0.6 else self._tir)()

    def check(self) -> None:
        """Build the program, and compare its result."""
        self.make()
        target = self.rng.choice(("llvm", "llvm -mcpu=haswell"))
        built = guarded_call("build", lambda: self.source.get(f"tvmagic.build({self.built}, target='{target}')"))
        arguments = [Argument(self.values, False), Argument(self.wanted[-1], True)]
        check_call(built, arguments, self.rng, strided=False)

    def _stage(self) -> None:
        rng, name = self.rng, f"S{self.stages}"
        self.stages += 1
        source, values = self.names[-1], self.wanted[-1]
        rank = values.ndim
        if rng.random() < 0.35 and rank > 8:
            axes = sorted(rng.sample(range(rank), rng.randint(1, 3)))
            self.source.run(f"ks = [te.reduce_axis((0, {source}.shape[i])) for i in {axes}]")
            index = ", ".join(
                f"ks[{axes.index(i)}].var" if i in axes else f"i[{i - sum(a < i for a in axes)}]" for i in range(rank)
            )
            kept = f"[{source}.shape[i] for i in range({rank}) if i not in {axes}]"
            reducer, numpy = rng.choice((("sum", "sum"), ("max", "max"), ("min", "min")))
            body = f"te.{reducer}({source}[{index}], axis=ks)"
            self._add(name, kept, body, getattr(values, numpy)(axis=tuple(axes)).astype("int32"))
            return
        order = rng.sample(range(rank), rank)
        place = [order.index(i) for i in range(rank)]
        index = ", ".join(f"i[{p}]" for p in place)
        kept, wanted = f"[{source}.shape[i] for i in {order}]", values.transpose(order)
        factor = rng.randint(1, 5)
        axis = rng.randrange(rank)
        body = f"{source}[{index}] * {factor} + i[{axis}]"
        steps = np.arange(wanted.shape[axis], dtype="int32").reshape([-1 if i == axis else 1 for i in range(rank)])
        self._add(name, kept, body, (wanted * factor + steps).astype("int32"))

    def _add(self, name: str, shape: str, body: str, wanted: Any) -> None:
        self.source.run(f'{name} = te.compute({shape}, lambda *i: {body}, name="{name}")')
        self.names.append(name)
        self.wanted.append(wanted)

    # ------------------------------------------------------------------ schedules

    def _attempt(self, line: str) -> bool:
        try:
            self.source.run(line)
        except Exception as error:
            if not refusal(error):
                guarded_call(line, lambda: self.source.run(line))
            return False
        self.calls.append(line)
        return True

    def _te(self) -> None:
        rng = self.rng
        self.source.run(f"s = te.create_schedule({self.result}.op)")
        self.built = f"s, [A, {self.result}]"
        for name in self.names[1:]:
            for _ in range(rng.randint(0, 5)):
                loops = self.source.get(f"len(s[{name}].leaf_iter_vars)")
                at = rng.randrange(loops)
                loop = f"s[{name}].leaf_iter_vars[{at}]"
                call = rng.choice(("split", "fuse", "fuse", "reorder", "vectorize", "unroll", "parallel"))
                if call == "fuse":
                    self._attempt(f"s[{name}].fuse(*s[{name}].leaf_iter_vars[{at}:{at + rng.randint(2, 8)}])")
                elif call == "reorder":
                    order = rng.sample(range(loops), min(loops, rng.randint(2, 9)))
                    self._attempt(f"s[{name}].reorder(*[s[{name}].leaf_iter_vars[i] for i in {order}])")
                else:
                    factor = f", {rng.choice((2, 3, 4))}" if call == "split" else ""
                    self._attempt(f"s[{name}].{call}({loop}{factor})")
            after = self.names[self.names.index(name) + 1 :]
            if after and rng.random() < 0.5:
                stage = f"s[{after[0]}]"
                at = rng.randrange(self.source.get(f"len({stage}.leaf_iter_vars)"))
                self._attempt(f"s[{name}].compute_at({stage}, {stage}.leaf_iter_vars[{at}])")

    def _tir(self) -> None:
        rng = self.rng
        self.source.run(f"sch = tir.Schedule(te.create_prim_func([A, {self.result}]))")
        self.built = 'sch.mod["main"]'
        for name in self.names[1:]:
            loops = f'sch.get_loops("{name}")'
            for _ in range(rng.randint(0, 4)):
                if guarded_call("get_loops", lambda name=name: name not in str(self.source.get("sch.mod"))):
                    break
                count = self.source.get(f"len({loops})")
                at = rng.randrange(count)
                call = rng.choice(
                    ("split", "fuse", "fuse", "reorder", "vectorize", "unroll", "parallel", "compute_inline")
                )
                if call == "fuse":
                    self._attempt(f"sch.fuse(*{loops}[{at}:{at + rng.randint(2, 8)}])")
                elif call == "reorder":
                    order = rng.sample(range(count), min(count, rng.randint(2, 9)))
                    self._attempt(f"sch.reorder(*[{loops}[i] for i in {order}])")
                elif call == "compute_inline":
                    if self._attempt(f'sch.compute_inline("{name}")'):
                        break
                else:
                    factor = f", [None, {rng.choice((2, 3, 4))}]" if call == "split" else ""
                    self._attempt(f"sch.{call}({loops}[{at}]{factor})")
