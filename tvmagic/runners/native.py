"""Code for processors of this machine's architecture, run by it if it has all that they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic.runners.families import runner
from tvmagic.target import Target
from tvmagic.target.host import host_features
from tvmagic.tools import MissingTool

# What the processors have that programs are commonly compiled for, beyond x86-64 itself.
_V2 = frozenset("cx16 popcnt sse3 sse4.1 sse4.2 ssse3".split())
_V3 = _V2 | frozenset("avx avx2 bmi bmi2 f16c fma lzcnt movbe".split())
_V4 = _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
FEATURES = {
    "x86-64-v2": _V2, "nehalem": _V2, "x86-64-v3": _V3, "haswell": _V3, "broadwell": _V3, "skylake": _V3, "znver1": _V3,
    "znver2": _V3, "znver3": _V3, "x86-64-v4": _V4, "skylake-avx512": _V4, "cascadelake": _V4, "znver4": _V4,
}  # fmt: skip


def lacking(target: Target) -> list[str]:
    """The features of the processor of `target` that this machine does not have, as far as they are known."""
    own = host_features()
    return sorted(name for name in FEATURES.get(target.mcpu, ()) if not own.get(name, False))


@runner("native", "this machine")
def run(built: Any, arrays: Sequence[Any]) -> None:
    """Call the code in this process.

    Raises MissingTool if this machine lacks features of the processor, so that the code has to be another one here.
    """
    missing = lacking(built.target)
    if missing:
        names = ", ".join(f"`{m}`" for m in missing)
        raise MissingTool(
            f"code for `{built.target.mcpu}` does not run on this machine, which has no {names}",
            code="runner.missing_feature",
        )
    built(*arrays)
