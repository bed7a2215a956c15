"""What is known of processors by their names and features, and of targets by their texts, is what it was."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic.target import Target
from tvmagic.target.machine import at_width

NAMES = (
    "keys",
    "arch",
    "max_num_threads",
    "thread_warp_size",
    "model",
    "device_name",
    "libs",
    "mcpu",
    "mattr",
    "mtriple",
)
NAMES += ("has_sve", "has_rvv", "is_nvptx", "is_opencl", "has_kernels", "supports_integer_dot_product", "family")
TYPES = ("int8", "float16", "float32", "float64")


def answers(row: dict[str, Any]) -> dict[str, str]:
    target = Target(row["source"])
    found = {"text": answer(lambda: f"{target} {json.dumps(target.export(), sort_keys=True)} {target.tag}")}
    found["is"] = "\n".join(f"{name}: {answer(lambda: _shown(getattr(target, name)))}" for name in NAMES)
    if "num-cores" in str(target):  # else it is that of the machine that asks
        found["machine"] = answer(lambda: _machine(target))
    return found


def _shown(value: Any) -> str:
    return type(value).__name__ if type(value).__module__.startswith("tvmagic") else str(value)


def _machine(target: Target) -> str:
    machine = target.machine
    caches = [
        dataclasses.replace(c, cores=2 if c.level == 3 else c.cores) for c in machine.caches
    ]  # not this machine's
    machine = dataclasses.replace(machine, caches=tuple(caches))
    lines = [repr(machine), repr(at_width(machine, 128)), str(machine.tiles()[:9]), str(machine.sums_in_flight())]
    lines += [f"{dtype}: {machine.lanes(dtype)} {target.tile(dtype)} {target.tile(dtype, 12, 40)}" for dtype in TYPES]
    lines += [f"{level}: {machine.cache(level)}" for level in (1, 2, 3)]
    lines += [f"{size}: {machine.storing(size)} {machine.tile_cost(4, size // 16)}" for size in (16, 32, 64)]
    return "\n".join(lines)


@pytest.mark.parametrize("part", range(PARTS))
def test_targets(part: int) -> None:
    check("targets", part, answers)
