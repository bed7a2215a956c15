"""What code is compiled for: `Target`, what LLVM knows of it, and whether this machine can run it."""

from typing import Any

from tvmagic import find_name as _find_name
from tvmagic.target.host import has_llvm, host_cpu, require_llvm
from tvmagic.target.machine import Machine, Tile
from tvmagic.target.target import (
    VARIABLE,
    Target,
    cpu_and_features,
    default_target,
    has_avx512,
    has_feature,
    has_fma,
    host_target,
    layout_of,
    resolved,
    target_machine,
)

__all__ = [
    "VARIABLE",
    "Machine",
    "Target",
    "Tile",
    "cpu_and_features",
    "default_target",
    "has_avx512",
    "has_feature",
    "has_fma",
    "has_llvm",
    "host_cpu",
    "host_target",
    "layout_of",
    "require_llvm",
    "resolved",
    "target_machine",
]


def __getattr__(name: str) -> Any:
    return _find_name("tvmagic.target", name)
