"""Programs in CINN's notation, put together from loops, blocks and conditions, and what the tests of steps ask of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from refusals import refuses

import tvmagic
from tvmagic.cinn import IRSchedule
from tvmagic.eval.machine import run_function
from tvmagic.script import from_cinn


def nest(loops: str, *inside: str) -> str:
    """Statements in serial loops: `i:4 j:6`, each a name with an extent, perhaps with a kind in front of it."""
    before, after = "", ""
    for loop in loops.split():
        name, _, extent = loop.partition(":")
        kind, _, name = name.rpartition("/")
        before, after = f"{before}{kind or 'serial'} for ({name}, 0, {extent})\n{{\n", f"{after}\n}}"
    return before + "\n".join(inside) + after


def block(name: str, bound: str, *lines: str) -> str:
    """A block whose variables `i0`, `i1`, ... are bound to some values."""
    names = ", ".join(f"i{n}" for n in range(len(bound.split(", "))))
    return f"ScheduleBlock({name})\n{{\n{names} = axis.bind({bound})\n" + "\n".join(lines) + "\n}"


def guarded(condition: str, then: str, otherwise: str | None = None) -> str:
    """A statement under a condition, perhaps with another one if that does not hold."""
    return f"if ({condition}) {{\n{then}\n}}" + (f" else {{\n{otherwise}\n}}" if otherwise else "")


def schedule(*parts: str, **known: tuple[tuple[int, ...], str]) -> IRSchedule:
    """A schedule of the function with these parts; `known` are shapes and types of tensors."""
    return IRSchedule(from_cinn("\n".join(parts), known))


def refused(made: IRSchedule, call: Callable[[IRSchedule], Any], code: str) -> None:
    """Check that a call is refused with a code and leaves the program as it was."""
    before = made.text()
    with refuses(code):
        call(made)
    assert made.text() == before


def results(made: IRSchedule, *arrays: np.ndarray) -> list[np.ndarray]:
    """What a program leaves in arrays that hold these values before."""
    given = [a.copy() for a in arrays]
    run_function(tvmagic.lower(made.func)["main"], given)
    return given


def left(made: IRSchedule, **given: np.ndarray) -> dict[str, np.ndarray]:
    """What a program leaves in its arguments, by name; those that are not given hold 7 before it runs."""
    buffers = [made.func.buffer_map[p] for p in made.func.params]
    arrays = [
        given[b.name] if b.name in given else np.full([int(str(n)) for n in b.shape], 7, str(b.dtype)) for b in buffers
    ]
    return dict(zip([b.name for b in buffers], results(made, *arrays)))
