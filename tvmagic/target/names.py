"""Short names of targets, for users who want to see or to run what is compiled for another machine."""

from __future__ import annotations

from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.target.families import families

TARGETS = {name: text for family in families() for name, text in family.short_names.items()}


def target_text(target: str | None) -> str | None:
    """A target in full; None is this machine.

    Raises TVMagicError for a name that is nearly one of the short names.
    """
    if not target or target in ("host", "llvm"):
        return None
    if target in TARGETS:
        return TARGETS[target]
    if meant := did_you_mean(target, TARGETS):
        raise TVMagicError(
            f"there is no target `{target}`",
            hint=f"{meant} The short names are {', '.join(TARGETS)}",
            code="target.unknown",
        )
    return target
