"""Random steps on some programs: a step is done or refused, and what is left computes what NumPy does."""

from __future__ import annotations

import random
from typing import Any

from step_programs import program

from tvmagic.cinn import IRSchedule
from tvmagic.errors import TVMagicError

__all__ = ["random_moves_of_tiles", "random_schedule"]


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


def random_schedule(name: str, seed: int, calls: int = 12) -> tuple[IRSchedule, list[str], list[str]]:
    """A schedule after some random calls: the names of those that were done (at most 8), and of those that were refused."""
    rng = random.Random(seed)
    schedule = program(name).schedule(seed)
    steps = _Steps(schedule, rng)
    done: list[str] = []
    refused: list[str] = []
    for _ in range(calls):
        call = rng.choice(_KINDS)
        try:
            getattr(steps, call)()
        except TVMagicError:
            refused.append(call)
        else:
            done.append(call)
            if len(done) == 8:
                break
    return schedule, done, refused


def random_moves_of_tiles(name: str, seed: int) -> IRSchedule:
    """A schedule of nests that were split, fused and reordered, between which blocks and their loops moved."""
    rng = random.Random(seed)
    schedule = program(name).schedule(seed)
    steps = _Steps(schedule, rng)
    tiles = (steps.split, steps.fuse, steps.reorder)
    moves = [getattr(steps, n) for n in _KINDS if n not in ("split", "fuse", "reorder", "kind", "sync")]
    for _ in range(3):
        for call in (*rng.choices(tiles, k=rng.randint(1, 5)), *rng.choices(moves, k=rng.randint(1, 4))):
            try:
                call()
            except TVMagicError:
                continue
    return schedule
