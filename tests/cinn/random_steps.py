"""Random steps on some programs: a step is done or refused, and what is left computes what NumPy does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from step_programs import program

from tvmagic.cinn import IRSchedule
from tvmagic.errors import TVMagicError


@dataclass
class Walk:
    """A schedule after some calls: the names of those that were done, and of those that were refused, with what was said."""

    schedule: IRSchedule
    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def go(self, calls: Iterable[Callable[[], None]], most: int = 1000) -> Walk:
        """Try the calls one after the other, until `most` were done."""
        for call in calls:
            try:
                call()
            except TVMagicError as error:
                self.refused.append(f"{call.__name__}: {error.message}")
            else:
                self.done.append(call.__name__)
                if len(self.done) == most:
                    break
        return self


def _names(s: IRSchedule) -> list[str]:
    return [s.block_of(b).name_hint for b in s.get_all_blocks()]


class _Steps:
    """One random call of each kind."""

    def __init__(self, schedule: IRSchedule, rng: random.Random) -> None:
        self.s, self.rng = schedule, rng

    def block(self) -> str:
        return self.rng.choice(_names(self.s))

    def loops(self, block: str) -> list[Any]:
        return self.s.get_loops(block)

    def loop(self, block: str | None = None) -> Any:
        return self.rng.choice(self.loops(block or self.block()))

    def split(self) -> None:
        factors = self.rng.choice([[-1, 2], [-1, 3], [-1, 5], [2, -1], [-1, 2, 2], [3, 2, 4], [4, 7]])
        self.s.split(self.loop(), factors)

    def fuse(self) -> None:
        loops = self.loops(self.block())
        at = self.rng.randrange(len(loops))
        self.s.fuse(loops[at : at + 2])

    def reorder(self) -> None:
        loops = self.loops(self.block())
        self.s.reorder(self.rng.sample(loops, min(len(loops), self.rng.choice([2, 2, 3]))))

    def compute_at(self) -> None:
        self.s.compute_at(self.block(), self.loop(), self.rng.random() < 0.3)

    def reverse_compute_at(self) -> None:
        self.s.reverse_compute_at(self.block(), self.loop(), self.rng.random() < 0.3)

    def simple_compute_at(self) -> None:
        self.s.simple_compute_at(self.block(), self.loop())

    def cache_read(self) -> None:
        self.s.cache_read(self.block(), self.rng.randrange(3), self.rng.choice(["local", "shared", "global"]))

    def cache_write(self) -> None:
        self.s.cache_write(self.block(), 0, self.rng.choice(["local", "shared", "global"]))

    def inline(self) -> None:
        self.s.compute_inline(self.block())

    def reverse_inline(self) -> None:
        self.s.reverse_compute_inline(self.block())

    def rfactor(self) -> None:
        self.s.rfactor(self.loop(), self.rng.randrange(3))

    def set_buffer(self) -> None:
        self.s.set_buffer(self.block(), self.rng.choice(["local", "shared", "global"]), self.rng.random() < 0.5)

    def kind(self) -> None:
        which = self.rng.choice(["parallel", "unroll", "vectorize", "bind"])
        loop = self.loop()
        if which == "vectorize":
            self.s.vectorize(loop, self.rng.choice([2, 4, 5, 8]))
        elif which == "bind":
            self.s.bind(loop, self.rng.choice(["blockIdx.x", "threadIdx.x", "threadIdx.y"]))
        else:
            getattr(self.s, which)(loop)

    def flatten(self) -> None:
        self.s.flatten_loops(self.loops(self.block()), self.rng.random() < 0.5)

    def copy(self) -> None:
        self.s.copy_transform_and_loop_info(self.block(), self.block())

    def sync(self) -> None:
        self.s.sync_threads(self.rng.choice([self.loop(), self.s.get_block(self.block())]), self.rng.random() < 0.5)


_KINDS = [n for n in vars(_Steps) if not n.startswith("_") and n not in ("block", "loops", "loop")]


def random_schedule(name: str, seed: int, calls: int = 12) -> Walk:
    """Some random calls, until eight were done."""
    return random_calls(program(name).schedule(seed), random.Random(seed), calls)


def random_calls(schedule: IRSchedule, rng: random.Random, calls: int = 12) -> Walk:
    """Some random calls of a schedule, until eight were done."""
    steps = _Steps(schedule, rng)
    return Walk(schedule).go((getattr(steps, rng.choice(_KINDS)) for _ in range(calls)), 8)


def random_moves_of_tiles(name: str, seed: int) -> Walk:
    """Nests are split, fused and reordered, and between that blocks and their loops move."""
    rng = random.Random(seed)
    schedule = program(name).schedule(seed)
    steps = _Steps(schedule, rng)
    tiles = (steps.split, steps.fuse, steps.reorder)
    moves = [getattr(steps, n) for n in _KINDS if n not in ("split", "fuse", "reorder", "kind", "sync")]
    walk = Walk(schedule)
    for _ in range(3):
        walk.go((*rng.choices(tiles, k=rng.randint(1, 5)), *rng.choices(moves, k=rng.randint(1, 4))))
    return walk
