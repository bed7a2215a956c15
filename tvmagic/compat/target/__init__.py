"""Targets, at the place where TVM has them."""

from tvmagic.compat.target import codegen
from tvmagic.compat.target.devices import (
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
from tvmagic.compat.target.generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)
from tvmagic.target import Target, default_target
from tvmagic.target.tags import list_tags
from tvmagic.target.target import TargetKind

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
