"""The runtime's own machine code, from the LLVM text in `ll/`: thread pool, scratch memory, questions to Python."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from functools import cache
from typing import Any

from tvmagic.target.families import family_of_triple
from tvmagic.target.systems import system_of_triple

# The parts that every machine has.
PARTS = ("pool", "memory", "questions")


@cache
def read_ll(name: str) -> str:
    """The LLVM text `ll/<name>.ll`."""
    return (pathlib.Path(__file__).parent / "ll" / f"{name}.ll").read_text(encoding="utf-8")


def needs_builtins(names: Iterable[str]) -> bool:
    """Whether the part `builtins` defines one of the functions `names`."""
    text = read_ll("builtins")
    return any(f"@{name}(" in text for name in names)


def own_parts(triple: str) -> tuple[str, str, str]:
    """The names of the parts for the architecture and the operating system of a target triple."""
    system = system_of_triple(triple)
    return family_of_triple(triple).runtime, system.library, system.processors


def support_module(triple: str) -> Any:
    """The module of LLVM with all parts linked, for the machine of `triple`."""
    import llvmlite.binding as llvm

    linked, *others = (llvm.parse_assembly(read_ll(name)) for name in (*own_parts(triple), *PARTS))
    linked.triple = triple
    for part in others:
        part.triple = triple
        linked.link_in(part)
    linked.verify()
    return linked
