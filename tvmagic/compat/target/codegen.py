"""What is known of LLVM, at the place where TVM has it."""

from __future__ import annotations

from typing import Any

from tvmagic.codegen.text.llvm_names import names
from tvmagic.target import Target, default_target, host_target
from tvmagic.target.host import llvm_version
from tvmagic.target.target import cpu_and_features

__all__ = [
    "llvm_get_intrinsic_name",
    "llvm_get_system_cpu",
    "llvm_get_system_triple",
    "llvm_get_vector_width",
    "llvm_lookup_intrinsic_id",
    "llvm_version_major",
]


def llvm_version_major(allow_none: bool = False) -> int:
    """The version of LLVM."""
    return llvm_version()[0]


def llvm_lookup_intrinsic_id(name: str) -> int:
    """The number of an intrinsic: `tir.llvm_lookup_intrinsic_id`."""
    return names().number_of(name)


def llvm_get_intrinsic_name(intrin_id: int) -> str:
    """The intrinsic of a number that `llvm_lookup_intrinsic_id` has given."""
    return names().name_of(intrin_id)


def llvm_get_system_triple() -> str:
    """The triple of this machine."""
    return cpu_and_features(host_target())[0]


def llvm_get_system_cpu() -> str:
    """LLVM's name of this machine's processor."""
    return cpu_and_features(host_target())[1]


def llvm_get_vector_width(target: Any = None) -> int:
    """The bits of a vector register of a target, by default the one around."""
    chosen = Target(target) if target is not None else Target.current() or default_target()
    return chosen.machine.vector_bits
