"""What code is compiled for: `Target`, what LLVM knows of it, and whether this machine can run it."""

from tvmagic.codegen.target.host import has_llvm, host_cpu, require_llvm
from tvmagic.codegen.target.machine import Machine, Tile
from tvmagic.codegen.target.target import (
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
