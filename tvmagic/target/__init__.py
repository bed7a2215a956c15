"""Targets, at the place where TVM has them."""

from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.codegen.target import Target, default_target
from tvmagic.codegen.target.tags import list_tags
from tvmagic.codegen.target.target import TargetKind
from tvmagic.target import codegen
from tvmagic.target.devices import (
    adreno,
    arm_cpu,
    bifrost,
    create,
    cuda,
    intel_graphics,
    mali,
    rasp,
    riscv_cpu,
    rocm,
    vta,
)
from tvmagic.target.generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)

__all__ = [
    "GenericFunc",
    "Target",
    "TargetKind",
    "adreno",
    "arm_cpu",
    "bifrost",
    "codegen",
    "create",
    "cuda",
    "default_target",
    "generic_func",
    "get_native_generic_func",
    "intel_graphics",
    "list_tags",
    "mali",
    "override_native_generic_func",
    "rasp",
    "riscv_cpu",
    "rocm",
    "vta",
]


def __getattr__(name: str) -> _Any:
    return _find_name("tvmagic.target", name)
