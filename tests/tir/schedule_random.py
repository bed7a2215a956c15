"""Random calls of primitives on random functions, and whether the results stay."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from schedule_functions import random_function

import tvmagic
from tvmagic.ir import PrimFunc
from tvmagic.tir import Schedule


class NothingToChoose(Exception):
    """There is no loop, or no region, that a call could be made with."""


class Calls:
    """Random calls on a schedule; `accepted` are those that were not refused."""

    def __init__(self, sch: Schedule, rng: random.Random) -> None:
        self.sch, self.rng = sch, rng
        self.accepted: list[str] = []
        self.refused = 0

    def blocks(self) -> list[Any]:
        found = self.sch.get_child_blocks(self.sch.get_block("root"))
        inner = [b for f in found for b in self.sch.get_child_blocks(f)]
        return [*found, *inner]

    def block(self) -> Any:
        return self.rng.choice(self.blocks())

    def loops(self) -> list[Any]:
        """The loops of some block; one at least."""
        loops = self.sch.get_loops(self.block())
        if not loops:
            raise NothingToChoose
        return loops

    def loop(self) -> Any:
        return self.rng.choice(self.loops())

    def step(self) -> None:
        """One call; a refusal must be a `TVMagicError` and leave the program as it was."""
        name = self.rng.choice(list(_CALLS))
        mod = self.sch.mod
        try:
            _CALLS[name](self)
        except NothingToChoose:
            return
        except tvmagic.TVMagicError as error:
            assert type(error).__name__ != "InternalError", f"{name}: {error}"
            assert self.sch.mod is mod or name in _SEVERAL
            self.refused += 1
            return
        self.accepted.append(self.sch.trace.as_python()[-1])


def _split(c: Calls) -> None:
    loop = c.loop()
    c.sch.split(loop, [None, c.rng.choice((1, 2, 3, 4))] if c.rng.random() < 0.7 else [2, None, 2])


def _neighbours(c: Calls) -> list[Any]:
    loops = c.loops()
    start = c.rng.randrange(len(loops))
    return loops[start : start + c.rng.choice((2, 2, 3))]


def _reorder(c: Calls) -> None:
    loops = c.loops()
    c.rng.shuffle(loops)
    c.sch.reorder(*loops[: c.rng.choice((2, 3, 4))])


def _tensor(c: Calls, method: str) -> None:
    block = c.block()
    getattr(c.sch, method)(block, c.rng.choice((0, 0, 1)), c.rng.choice(("global", "local")))


def _inner_layout(c: Calls) -> None:
    """A new layout of a buffer that the function allocates: callers do not see it."""
    allocated = {b.name for b in c.sch.get(c.sch.get_block("root")).alloc_buffers}
    block = c.block()
    places = [(s, i) for s in ("read", "write") for i, r in enumerate(getattr(c.sch.get(block), s + "s"))
              if r.buffer.name in allocated]  # fmt: skip
    if not places:
        raise NothingToChoose
    side, index = c.rng.choice(places)
    ndim = len(getattr(c.sch.get(block), side + "s")[index].buffer.shape)
    maps: dict[int, list[Callable[..., Any]]] = {
        1: [lambda i: [i // 4, i % 4], lambda i: [i % 2, i // 2]],
        2: [lambda i, j: [j, i], lambda i, j: [i // 4, j, i % 4], lambda i, j: [i, j // 4, j % 4]],
    }
    pad = c.rng.choice((None, 0.0, 3.0))
    c.sch.transform_layout(block, (side, index), c.rng.choice(maps.get(ndim, [lambda *i: list(i)])), pad_value=pad)


def _ordered_copy(c: Calls, method: str) -> None:
    block = c.block()
    maps: dict[int, list[Callable[..., Any]]] = {
        1: [lambda i: [i], lambda i: [i // 2, i % 2], lambda i: [i // 2]],
        2: [lambda i, j: [j, i], lambda i, j: [i], lambda i, j: [i + j], lambda i, j: [i // 2, j, i % 2]],
        3: [lambda i, j, k: [i, j], lambda i, j, k: [k, j], lambda i, j, k: [k, i], lambda i, j, k: [i, j + k]],
    }
    chosen = c.rng.choice(maps.get(len(c.sch.get(block).iter_vars), [lambda *i: list(i)]))
    getattr(c.sch, method)(block, c.rng.choice((0, 0, 1)), "global", chosen)


def _block_layout(c: Calls) -> None:
    block = c.block()
    count = len(c.sch.get(block).iter_vars)
    maps: dict[int, list[Callable[..., Any]]] = {
        1: [lambda i: [i]],
        2: [lambda i, j: [j, i], lambda i, j: [i * 8 + j]],
    }
    c.sch.transform_block_layout(block, c.rng.choice(maps.get(count, [lambda *i: list(reversed(i))])))


_CALLS: dict[str, Callable[[Calls], Any]] = {
    "split": _split,
    "split again": _split,
    "fuse": lambda c: c.sch.fuse(*_neighbours(c)),
    "reorder": _reorder,
    "reorder again": _reorder,
    "parallel": lambda c: c.sch.parallel(c.loop()),
    "vectorize": lambda c: c.sch.vectorize(c.loops()[-1]),
    "unroll": lambda c: c.sch.unroll(c.loop()),
    "add_unit_loop": lambda c: c.sch.add_unit_loop(c.block()),
    "cache_read": lambda c: _tensor(c, "cache_read"),
    "cache_write": lambda c: _tensor(c, "cache_write"),
    "reindex": lambda c: c.sch.reindex(c.block(), (c.rng.choice(("read", "write")), 0)),
    "reindex_cache_read": lambda c: _ordered_copy(c, "reindex_cache_read"),
    "reindex_cache_write": lambda c: _ordered_copy(c, "reindex_cache_write"),
    "cache_read of one": lambda c: c.sch.cache_read(c.block(), 0, "global", [c.block()]),
    "bind": lambda c: c.sch.bind(c.loop(), c.rng.choice(("threadIdx.x", "blockIdx.x"))),
    "read_at": lambda c: c.sch.read_at(c.loop(), c.block(), 0, "global"),
    "write_at": lambda c: c.sch.write_at(c.loop(), c.block(), 0, "global"),
    "compute_at": lambda c: c.sch.compute_at(c.block(), c.loop(), c.rng.random() < 0.5),
    "reverse_compute_at": lambda c: c.sch.reverse_compute_at(c.block(), c.loop(), c.rng.random() < 0.5),
    "compute_at a place": lambda c: c.sch.compute_at(c.block(), c.loop(), index=c.rng.choice((-2, -1, 0, 1))),
    "compute_inline": lambda c: c.sch.compute_inline(c.block()),
    "reverse_compute_inline": lambda c: c.sch.reverse_compute_inline(c.block()),
    "decompose_reduction": lambda c: c.sch.decompose_reduction(c.block(), c.loop()),
    "decompose_padding": lambda c: c.sch.decompose_padding(c.block(), c.loop()),
    "rfactor": lambda c: c.sch.rfactor(c.loop(), c.rng.choice((0, 1))),
    "blockize": lambda c: c.sch.blockize(c.loop(), c.rng.random() < 0.5),
    "blockize several": lambda c: c.sch.blockize(c.blocks()[: c.rng.choice((2, 3))]),
    "merge": lambda c: c.sch.merge(c.loop(), c.loop()),
    "loop_partition": lambda c: c.sch.loop_partition(c.loop(), [2, None]),
    "storage_align": lambda c: c.sch.storage_align(c.block(), 0, 0, 8, 1),
    "set_scope": lambda c: c.sch.set_scope(c.block(), 0, "local"),
    "reorder_block_iter_var": lambda c: c.sch.reorder_block_iter_var(c.block(), [1, 0]),
    "transform_layout": _inner_layout,
    "transform_block_layout": _block_layout,
    "pad_einsum": lambda c: c.sch.pad_einsum(c.block(), [4, 4]),
    "rolling_buffer": lambda c: c.sch.rolling_buffer(c.block(), 0),
    "sample_perfect_tile": lambda c: c.sch.split(loop := c.loop(), c.sch.sample_perfect_tile(loop, 2, 8)),
    "sample_compute_location": lambda c: c.sch.compute_at(b := c.block(), c.sch.sample_compute_location(b)),
    "cache_inplace": lambda c: c.sch.cache_inplace(c.block(), 0, "global"),
    "cache_index": lambda c: c.sch.cache_index(c.block(), "global", 0),
    "annotate": lambda c: c.sch.annotate(c.loop(), "note", 1),
}
_SEVERAL = {"sample_perfect_tile", "sample_compute_location"}


def random_schedule(seed: int) -> tuple[PrimFunc, Calls]:
    """A function and a schedule of it with random calls."""
    rng = random.Random(seed)
    before = random_function(rng)
    calls = Calls(Schedule(before, seed=seed + 1, debug_mask="all" if seed % 4 == 0 else "none"), rng)
    for _ in range(rng.choice((6, 10, 16))):
        calls.step()
    return before, calls


def check(seed: int) -> int:
    """Raise unless the scheduled function computes what the function computes; the number of calls done.

    It runs first with checks of each access, so that one outside a buffer is an error and not a crash.
    """
    before, calls = random_schedule(seed)
    rng = np.random.default_rng(seed)
    shapes = [[int(s) for s in before.buffer_map[p].shape] for p in before.params]
    given = [rng.integers(-4, 5, shape).astype("float32") for shape in shapes]
    given[-1][...] = -77.0
    expected = [a.copy() for a in given]
    tvmagic.build(before)(*expected)
    for check_bounds in (True, False):
        got = [a.copy() for a in given]
        tvmagic.build(calls.sch.mod["main"], check_bounds=check_bounds)(*got)
        for want, have in zip(expected, got):
            np.testing.assert_allclose(have, want, 1e-4, 1e-4, err_msg=f"seed {seed}: {calls.accepted}")
    return len(calls.accepted)
