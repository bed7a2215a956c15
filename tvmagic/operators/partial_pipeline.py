"""A program in the middle of the passes, in the place of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmagic.driver import binds_threads, default_passes
from tvmagic.ir import IRModule
from tvmagic.passes import Pass, Sequential, Step


class Edited:
    """What an edited version has in the place of a schedule: a program, and how many of the passes are left to run.

    Attributes
    ----------
    origin: the name of the version whose step was edited.
    steps: the steps up to that one, and the edit.
    module: the program as it was edited.
    left: how many passes follow.
    parents: what is known of the origins in `steps`, as in a record.
    """

    def __init__(
        self,
        origin: str,
        steps: Sequence[Step],
        module: IRModule,
        left: int,
        parents: Mapping[int, tuple[int, ...]],
    ) -> None:
        self.origin, self.steps, self.module, self.left = origin, tuple(steps), module, left
        self.parents = parents

    def lower(self) -> IRModule:
        """The module after all passes that are left."""
        return self.run(0)

    def run(self, least: int) -> IRModule:
        """The module when `least` passes are left, or as it is if that are more than there are."""
        passes = flat_passes(self.module)
        return Sequential(passes[len(passes) - self.left : len(passes) - least], name="lower")(self.module)


def flat_passes(module: IRModule) -> list[Pass]:
    """The passes that lower `module` and run by themselves, those inside others too."""
    found: list[Pass] = []
    pending = list(reversed(default_passes(threads=binds_threads(module))))
    while pending:
        item = pending.pop()
        if isinstance(item, Sequential):
            pending += reversed(item.passes)
        else:
            found.append(item)
    return found
