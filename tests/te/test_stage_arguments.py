"""Arguments of the calls of TE schedules that belong to another schedule, another stage, or are of another kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from refusals import refuses

import tvmagic
from tvmagic import te
from tvmagic.errors import TVMagicError


class World:
    """A schedule with split loops, and objects that do not belong to it."""

    def __init__(self) -> None:
        self.a, self.b, self.c, self.d = self._program(16)
        self.s = te.create_schedule(self.d.op)
        self.outer, self.inner = self.s[self.b].split(self.b.op.axis[0], 4)
        self.j = self.b.op.axis[1]
        self.thread = te.thread_axis("threadIdx.x")

    def _program(self, n: int) -> list[te.Tensor]:
        a, k = te.placeholder((n, n), name="A"), te.reduce_axis((0, n), "k")
        b = te.compute((n, n), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
        return [a, b, c, te.compute((n,), lambda i: c[i] * 2.0, name="D")]

    def foreign(self) -> dict[str, Any]:
        a, b, c, d = self._program(8)
        other, twin = te.create_schedule(d.op), te.create_schedule(self.d.op)
        return {
            "stage of another program": other[b],
            "stage of another schedule": twin[self.c],
            "group of another program": other.create_group([c], [a]),
            "loop of another program": b.op.axis[0],
            "loop of another schedule": twin[self.b].split(self.j, 2)[0],
            "axis that was split": self.b.op.axis[0],
            "axis of another stage": self.c.op.axis[0],
            "tensor of another program": b,
            "tensor of another schedule": twin.cache_read(self.a, "local", [self.b]),
            "operation": c.op, "schedule": other, "None": None, "text": "zzz", "float": 2.5, "list": [b],
            "element": a[0, 0], "condition": self.j < 3, "whole number": 2**40,
        }  # fmt: skip


Call = Callable[[World, Any], Any]
# A call for each parameter, with the argument to be tried, and what of `foreign` it takes.
CALLS: dict[str, tuple[Call, str]] = {
    "split parent": (lambda w, x: w.s[w.b].split(x, 4), ""),
    "split factor": (lambda w, x: w.s[w.b].split(w.j, x), ""),
    "split nparts": (lambda w, x: w.s[w.b].split(w.j, nparts=x), ""),
    "fuse": (lambda w, x: w.s[w.b].fuse(w.outer, x), ""),
    "reorder": (lambda w, x: w.s[w.b].reorder(w.inner, x), ""),
    "tile x": (lambda w, x: w.s[w.b].tile(x, w.j, 2, 2), ""),
    "tile factor": (lambda w, x: w.s[w.b].tile(w.inner, w.j, 2, x), ""),
    "vectorize": (lambda w, x: w.s[w.b].vectorize(x), ""),
    "unroll": (lambda w, x: w.s[w.b].unroll(x), ""),
    "parallel": (lambda w, x: w.s[w.b].parallel(x), ""),
    "tensorize": (lambda w, x: w.s[w.b].tensorize(w.j, x), ""),
    "bind loop": (lambda w, x: w.s[w.b].bind(x, w.thread), ""),
    "bind thread": (lambda w, x: w.s[w.b].bind(w.outer, x), ""),
    "env_threads": (lambda w, x: w.s[w.b].env_threads(x), ""),
    "pragma loop": (lambda w, x: w.s[w.b].pragma(x, "key", 1), ""),
    "pragma key": (lambda w, x: w.s[w.b].pragma(w.outer, x, 1), "text"),
    "prefetch tensor": (lambda w, x: w.s[w.b].prefetch(x, w.outer, 1), ""),
    "prefetch loop": (lambda w, x: w.s[w.b].prefetch(w.a, x, 1), ""),
    "prefetch offset": (lambda w, x: w.s[w.b].prefetch(w.a, w.outer, x), ""),
    "set_scope": (lambda w, x: w.s[w.b].set_scope(x), ""),
    "storage_align axis": (lambda w, x: w.s[w.b].storage_align(x, 8, 1), "axis that was split"),
    "storage_align factor": (lambda w, x: w.s[w.b].storage_align(w.j, x, 1), ""),
    "storage_align offset": (lambda w, x: w.s[w.b].storage_align(w.j, 8, x), ""),
    "transform_layout": (lambda w, x: w.s[w.b].transform_layout(x), ""),
    "compute_at stage": (lambda w, x: w.s[w.b].compute_at(x, w.c.op.axis[0]), ""),
    "compute_at loop": (lambda w, x: w.s[w.b].compute_at(w.s[w.c], x), "axis of another stage"),
    "create_group outputs": (lambda w, x: w.s.create_group(x, w.a), ""),
    "create_group inputs": (lambda w, x: w.s.create_group(w.c, x), ""),
    "create_group include_inputs": (lambda w, x: w.s.create_group(w.c, w.a, x), ""),
    "cache_read tensor": (lambda w, x: w.s.cache_read(x, "local", w.b), ""),
    "cache_read scope": (lambda w, x: w.s.cache_read(w.a, x, w.b), ""),
    "cache_read readers": (lambda w, x: w.s.cache_read(w.a, "local", x), ""),
    "cache_write tensor": (lambda w, x: w.s.cache_write(x, "local"), ""),
    "cache_write scope": (lambda w, x: w.s.cache_write(w.c, x), ""),
    "rfactor tensor": (lambda w, x: w.s.rfactor(x, w.c.op.reduce_axis[0]), ""),
    "rfactor axis": (lambda w, x: w.s.rfactor(w.c, x), ""),
    "rfactor factor_axis": (lambda w, x: w.s.rfactor(w.c, w.c.op.reduce_axis[0], x), ""),
    "create_group empty": (lambda w, x: w.s.create_group(x, w.d), ""),
    "split flag": (lambda w, x: w.s[w.b].split(w.j, 4, disable_predication=x), ""),
    "set_store_predicate": (lambda w, x: w.s[w.b].set_store_predicate(x), "condition|whole number|axis that was split"),
    "a stage": (lambda w, x: w.s[x], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_foreign_arguments_are_refused(name: str) -> None:
    call, taken = CALLS[name]
    for kind in World().foreign():
        world = World()
        try:
            call(world, world.foreign()[kind])
            tvmagic.lower(world.s, [world.a, world.d])
        except TVMagicError as error:
            assert str(error), kind
        else:
            assert kind in taken.split("|"), f"{name} takes the {kind}"


def test_each_call_of_a_stage_is_tried() -> None:
    without_arguments = {"compute_inline", "compute_root", "double_buffer", "rolling_buffer"}
    tried = {name.split()[0] for name in CALLS}
    assert set(te.schedule.stage.STAGE_CALLS) - without_arguments <= tried


def test_compute_at_names_the_stage_to_take() -> None:
    world = World()
    stage = world.foreign()["stage of another schedule"]
    with refuses("te.compute_at.other_schedule") as caught:
        world.s[world.b].compute_at(stage, world.c.op.axis[0])
    assert caught.value.hint == "take the stage of this schedule: `s[C]`"
