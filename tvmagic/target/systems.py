"""The operating systems of targets: a row for each says what is different there, and nothing else looks for one in a triple."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class System:
    """An operating system.

    `words`: a regular expression for what its triples have behind the architecture; `library`: the part of the runtime
    (`tvmagic/runtime/ll`) with what its C library lacks; `processors`: the part that says on which processors workers run;
    `aligned_memory`: what the code that allocates aligned memory is called there, behind `alloc` and `free`.
    """

    words: str
    library: str = "system_posix"
    processors: str = "processors_any"
    aligned_memory: str = ""


_SYSTEMS = (
    System("windows|win32|mingw", library="system_windows", aligned_memory="_windows"),
    System("linux", processors="processors_linux"),
    System(""),
)


@lru_cache
def system_of_triple(triple: str) -> System:
    """The operating system that a target triple names; one of POSIX if it is not known."""
    return next(system for system in _SYSTEMS if re.search(system.words, triple))


_SAID_OTHERWISE = {"macos": "darwin", "macosx": "darwin", "win32": "windows"}
_NO_SYSTEM = {"", "unknown", "none", "pc", "apple", "gnu", "musl", "msvc"}


def named_systems(triple: str) -> set[str]:
    """The words for systems behind the architecture of a triple: without vendors, C libraries and versions."""
    words = {re.sub(r"[\d.]+$", "", word) for word in triple.split("-")[1:]}
    return {_SAID_OTHERWISE.get(word, word) for word in words} - _NO_SYSTEM


def runs_in_qemu(triple: str) -> bool:
    """Whether QEMU runs programs for a triple: those of Linux, or of no system. Others have object files of their own."""
    return named_systems(triple) <= {"linux", "android", "elf"}
