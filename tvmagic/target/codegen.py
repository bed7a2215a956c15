"""What is known of LLVM, at the place where TVM has it."""

from __future__ import annotations

from tvmagic.codegen.llvm_names import names

__all__ = ["llvm_get_intrinsic_name", "llvm_lookup_intrinsic_id", "llvm_version_major"]


def llvm_version_major(allow_none: bool = False) -> int:
    """The version of LLVM."""
    import llvmlite.binding as llvm

    return llvm.llvm_version_info[0]


def llvm_lookup_intrinsic_id(name: str) -> int:
    """The number of an intrinsic: `tir.llvm_lookup_intrinsic_id`."""
    return names().number_of(name)


def llvm_get_intrinsic_name(intrin_id: int) -> str:
    """The intrinsic of a number that `llvm_lookup_intrinsic_id` has given."""
    return names().name_of(intrin_id)
