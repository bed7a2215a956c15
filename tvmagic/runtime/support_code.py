"""The runtime's own machine code, from the LLVM text in `ll/`: thread pool, scratch memory, questions to Python."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from functools import cache
from typing import Any

__all__ = [
    "PARTS",
    "is_windows",
    "machine_part",
    "needs_builtins",
    "processors_part",
    "read_ll",
    "support_module",
    "system_part",
]

# The parts that every machine has. One more, by machine, has the pause of spin loops and the speed of the counter, and two, by
# system, what its C library lacks and on which processors workers run.
PARTS = ("pool", "memory", "questions")


def is_windows(triple: str) -> bool:
    """Whether a target triple names Windows, whose C library has other names for aligned memory, and no threads of POSIX."""
    return any(word in triple for word in ("windows", "win32", "mingw"))


@cache
def read_ll(name: str) -> str:
    """The LLVM text `ll/<name>.ll`."""
    return (pathlib.Path(__file__).parent / "ll" / f"{name}.ll").read_text(encoding="utf-8")


def needs_builtins(names: Iterable[str]) -> bool:
    """Whether the part `builtins` defines one of the functions `names`."""
    text = read_ll("builtins")
    return any(f"@{name}(" in text for name in names)


def machine_part(triple: str) -> str:
    """The name of the part for the machine of a target triple."""
    if triple.startswith(("x86_64", "i686")):
        return "machine_x86"
    return "machine_aarch64" if triple.startswith(("aarch64", "arm64")) else "machine_any"


def system_part(triple: str) -> str:
    """The name of the part for the operating system of a target triple."""
    return "system_windows" if is_windows(triple) else "system_posix"


def processors_part(triple: str) -> str:
    """The name of the part that says where the workers run, by the operating system of a target triple."""
    return "processors_linux" if "linux" in triple else "processors_any"


def support_module(triple: str) -> Any:
    """The module of LLVM with all parts linked, for the machine of `triple`."""
    import llvmlite.binding as llvm

    names = (machine_part(triple), system_part(triple), processors_part(triple), *PARTS)
    linked, *others = (llvm.parse_assembly(read_ll(name)) for name in names)
    linked.triple = triple
    for part in others:
        part.triple = triple
        linked.link_in(part)
    linked.verify()
    return linked
