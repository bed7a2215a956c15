"""Random programs whose indices pass int32, with random schedules.

Memory is virtual: arrays span 2 to 8 GB, and a program touches some thousand elements of them. A `spread` program computes
small arrays with large strides. A `picked` one reads a few elements of an array with large dimensions. A `whole` one visits
all 2^31 elements of an array, which takes seconds, so that only one seed in 16 is such a program.
"""

from __future__ import annotations

import mmap
import random
from typing import Any

import numpy as np
from outcomes import Refused, Source, Wrong, guarded_call

PAGE = mmap.PAGESIZE
GUARD = 97  # what is in memory beside the elements of an output
NEAR = (1 << 31) - 1
HEAD = """
import mmap
import numpy.lib.stride_tricks
def virtual(size):
    return np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)), "uint8")
def spread(values, strides, guard):
    size = sum((n - 1) * s for n, s in zip(values.shape, strides)) + 1
    memory = virtual(size + 4096)
    array = numpy.lib.stride_tricks.as_strided(memory, values.shape, strides)
    for near in (-1, 1):
        for place in np.ndindex(values.shape):
            at = sum(p * s for p, s in zip(place, strides)) + near
            if 0 <= at: memory[at] = guard
    array[...] = values
    return array, memory
"""


class Case:
    """The program of a seed."""

    builds = 3  # a whole array takes seconds

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.kind = "whole" if seed % 16 == 15 and "whole" not in without else self.rng.choice(("spread", "picked"))
        self.source = Source()
        self.wanted: np.ndarray[Any, Any] | None = None
        self.symbolic = self.rng.random() < 0.6

    def text(self) -> str:
        """The program as a file that runs by itself."""
        return self.source.text()

    def check(self) -> None:
        """Run the program, and compare its results with what they should be."""
        self.make()
        found = self.source.get("B")
        assert self.wanted is not None
        if not np.array_equal(found, self.wanted):
            places = np.argwhere(found != self.wanted)
            raise Wrong("result", f"{len(places)} of {found.size} elements, the first at {places[0].tolist()}")
        self._check_guards()

    def make(self) -> None:
        """Build the program and run it."""
        for line in HEAD.strip().split("\ndef "):
            self.source.run(line if line.startswith("import") else "def " + line)
        getattr(self, f"_{self.kind}")()
        guarded_call("build", lambda: self.source.run(self.build))
        guarded_call("call", lambda: self.source.run("built(A, B)"))

    # ------------------------------------------------------------------ kinds

    def _spread(self) -> None:
        """An elementwise program over arrays with strides up to 2^32."""
        rank = self.rng.choice((1, 2))
        shape = [self.rng.randint(1, 40) for _ in range(rank)]
        offset = self.rng.choice((0, 0, 3))
        self._sizes(shape)
        names = [f"n{axis}" for axis in range(rank)] if self.symbolic else [str(size) for size in shape]
        padded = [f"{name} + {offset}" if axis == 0 else name for axis, name in enumerate(names)]
        self.values = self.numbers.integers(
            0, 50, [size + (offset if axis == 0 else 0) for axis, size in enumerate(shape)]
        )
        for name, dims in (("A", padded), ("B", names)):
            strides = ", ".join(f"te.var('s{name}{axis}')" for axis in range(rank))
            self.source.run(f"{name}b = tir.decl_buffer(({', '.join(dims)},), 'uint8', '{name}', strides=[{strides}])")
        index = ", ".join(f"i{axis}" for axis in range(rank))
        read = ", ".join(f"i{axis} + {offset}" if axis == 0 else f"i{axis}" for axis in range(rank))
        self.source.run(f"At = te.placeholder(({', '.join(padded)},), 'uint8', 'A')")
        self.source.run(
            f"Bt = te.compute(({', '.join(names)},), lambda {index}: At[{read}] + te.const(7, 'uint8'), 'B')"
        )
        self._te_schedule("Bt", rank, [])
        strides = [self._strides(self.values.shape) for _ in "AB"]
        self.source.run(f"A, _ = spread(np.array({self.values.tolist()}, 'uint8'), {strides[0]}, 91)")
        self.source.run(f"B, memory = spread(np.zeros({shape}, 'uint8'), {strides[1]}, {GUARD})")
        self.strides = strides[1]
        self.wanted = (self.values[offset:] + 7).astype("uint8")
        self.build = "built = tvmagic.build(s, [At, Bt], binds={At: Ab, Bt: Bb})"

    def _picked(self) -> None:
        """A program that reads a few elements, in rows and columns far apart, of an array in C order."""
        rows = self.rng.randint(2, 70_000)
        columns = self.rng.choice((NEAR, NEAR + 9, NEAR + rows, 3 * NEAR)) // rows + self.rng.randint(-2, 2)
        count = self.rng.randint(2, 50)
        count = min(count, rows, columns)
        by = [(size - 1) // count for size in (rows, columns)]
        self._sizes([rows, columns])
        names = ["n0", "n1"] if self.symbolic else [str(rows), str(columns)]
        reduced = self.rng.random() < 0.5
        self.source.run(f"At = te.placeholder(({names[0]}, {names[1]}), 'uint8', 'A')")
        last = [f"{name} - 1 - " for name in names]
        place = f"At[{last[0]}i * {by[0]}, {last[1]}{'k' if reduced else 'i'} * {by[1]}]"
        if reduced:
            self.source.run(f"k = te.reduce_axis((0, {count}), 'k')")
            self.source.run(f"Bt = te.compute(({count},), lambda i: te.sum({place}.astype('int64'), axis=k), 'B')")
        else:
            self.source.run(f"Bt = te.compute(({count},), lambda i: {place}.astype('int64'), 'B')")
        if self.rng.random() < 0.5:
            self._te_schedule("Bt", 1, ["k"] if reduced else [])
            self.build = "built = tvmagic.build(s, [At, Bt])"
        else:
            self._tir_schedule()
        self.source.run(
            f"A = virtual({rows} * {columns} + {PAGE}).reshape(-1)[: {rows * columns}].reshape({rows}, {columns})"
        )
        at = [size - 1 - np.arange(count) * step for size, step in zip((rows, columns), by)]
        values = self.numbers.integers(1, 50, (count, count) if reduced else count)
        array = self.source.get("A")
        array[np.ix_(*at) if reduced else tuple(at)] = values
        self.source.run(f"B = np.zeros({count}, 'int64')")
        self.wanted = values.sum(1) if reduced else values

    def _whole(self) -> None:
        """The sum of all elements of a one-dimensional array of about 2^31 elements."""
        size = NEAR - self.rng.choice((0, 1, 2, 3, 7, 100, 70_000))
        self._sizes([size])
        name = "n0" if self.symbolic else str(size)
        self.source.run(f"At = te.placeholder(({name},), 'uint8', 'A')")
        self.source.run(f"k = te.reduce_axis((0, {name}), 'k')")
        self.source.run("Bt = te.compute((1,), lambda i: te.sum(At[k].astype('int64'), axis=k), 'B')")
        if self.rng.random() < 0.6:
            self._te_schedule("Bt", 0, ["k"])
            self.build = "built = tvmagic.build(s, [At, Bt])"
        else:
            self._tir_schedule()
        self.source.run(f"A = virtual({size} + {PAGE})[: {size}]")
        array = self.source.get("A")
        places = {0, 1, size - 1, size - 2, *[self.rng.randrange(size) for _ in range(20)]}
        for place in places:
            array[place] = place % 50 + 1
        array.base[size:] = 200  # behind the array
        self.source.run("B = np.zeros(1, 'int64')")
        self.wanted = np.array([sum(place % 50 + 1 for place in places)])

    # ------------------------------------------------------------------ parts

    def _sizes(self, shape: list[int]) -> None:
        for axis in range(len(shape)):
            self.source.run(f"n{axis} = te.var('n{axis}')")

    def _strides(self, shape: tuple[int, ...]) -> list[int]:
        """Strides of distinct elements two apart or more, whose span is near 2^31, or beyond it."""
        inner = self.rng.choice((2, 3, 4099, 1 << 20))
        span = self.rng.choice((NEAR - 40, NEAR, NEAR + 5, 2 * NEAR, 3 * NEAR))
        if len(shape) == 1:
            return [max(2, span // max(1, shape[0] - 1))]
        row = inner * shape[1] + 2
        return [max(row, (span - (shape[1] - 1) * inner) // max(1, shape[0] - 1)), inner]

    def _try(self, line: str) -> bool:
        """Run a schedule call; False if it is refused."""
        try:
            guarded_call("schedule", lambda: self.source.run(line))
        except Refused:
            return False
        return True

    def _te_schedule(self, tensor: str, rank: int, reduced: list[str]) -> None:
        self.source.run(f"s = te.create_schedule({tensor}.op)")
        self.source.run(f"loops = [*s[{tensor}].op.axis, *s[{tensor}].op.reduce_axis]")
        factored = bool(reduced) and self.rng.random() < 0.3
        if factored:
            how = self.rng.choice((f"nparts={self.rng.randint(2, 9)}", f"factor={self.rng.randint(2, 50)}"))
            self.source.run(f"outer, inner = s[{tensor}].split({tensor}.op.reduce_axis[0], {how})")
            self.source.run(
                f"rf = s.rfactor({tensor}, {self.rng.choice(('outer', 'inner') if 'nparts' in how else ('inner',))})"
            )
            self.source.run(f"loops = list(s[{tensor}].op.axis)")
            self.source.run("stage = s[rf]")
            self.source.run("loops = [*stage.op.axis, *stage.op.reduce_axis]")
        else:
            self.source.run(f"stage = s[{tensor}]")
        for _ in range(self.rng.randint(1, 4)):
            self.rng.choice((self._te_split, self._te_split, self._te_fuse))()
        self._te_marks()

    def _count(self) -> int:
        return len(self.source.get("loops"))

    def _te_split(self) -> None:
        at = self.rng.randrange(self._count())
        how = self.rng.choice((f"nparts={self.rng.randint(2, 9)}", f"factor={self.rng.randint(2, 70)}"))
        if self._try(f"o, i = stage.split(loops[{at}], {how})"):
            self.source.run(f"loops[{at} : {at} + 1] = [o, i]")

    def _te_fuse(self) -> None:
        if self._count() > 1:
            at = self.rng.randrange(self._count() - 1)
            if self._try(f"f = stage.fuse(loops[{at}], loops[{at} + 1])"):
                self.source.run(f"loops[{at} : {at} + 2] = [f]")

    def _te_marks(self) -> None:
        spatial = self.source.get("loops[0].iter_type") == 0
        if self.rng.random() < 0.4 and spatial:
            self._try("stage.parallel(loops[0])")
        if self._count() > 1 and self.rng.random() < 0.6:
            if self._try(f"o, i = stage.split(loops[-1], {self.rng.choice((3, 4, 8, 16))})"):
                self.source.run("loops[-1:] = [o, i]")
                reduces = self.source.get("i.iter_type") != 0
                self._try("stage.unroll(i)" if reduces or self.rng.random() < 0.4 else "stage.vectorize(i)")

    def _tir_schedule(self) -> None:
        self.source.run("sch = tir.Schedule(te.create_prim_func([At, Bt]))")
        self.source.run("block = sch.get_block('B')")
        self.source.run("loops = sch.get_loops(block)")
        for _ in range(self.rng.randint(1, 3)):
            at = self.rng.randrange(self._count())
            part = self.rng.choice((3, 8, 12, 48))
            factors = self.rng.choice((f"[None, {part}]", f"[{part}, None]"))
            if self.rng.random() < 0.7:
                if self._try(f"new = sch.split(loops[{at}], {factors})"):
                    self.source.run(f"loops[{at} : {at} + 1] = new")
            elif at + 1 < self._count() and self._try(f"f = sch.fuse(loops[{at}], loops[{at} + 1])"):
                self.source.run(f"loops[{at} : {at} + 2] = [f]")
        word = self.rng.choice(
            ("parallel(loops[0])", "unroll(loops[-1])", "vectorize(loops[-1])", "rfactor(loops[-1], 0)")
        )
        self._try(f"sch.{word}")
        self.build = "built = tvmagic.build(sch.mod)"

    def _check_guards(self) -> None:
        if self.kind != "spread":
            return
        array = self.source.get("B")
        memory = self.source.get("memory")
        taken = {sum(p * s for p, s in zip(place, self.strides)) for place in np.ndindex(array.shape)}
        beside = {at + near for at in taken for near in (-1, 1)} - taken
        written = [at for at in beside if at >= 0 and memory[at] != GUARD]
        if written:
            raise Wrong("outside", f"the bytes at {written[:3]} are written")
