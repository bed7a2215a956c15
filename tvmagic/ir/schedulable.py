"""Values that stand for a program until it is lowered.

A package that is above `ir` derives its class from `Schedulable`. A lower package, or one that must not load it, asks
`isinstance(value, Schedulable)` instead of comparing the names of modules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tvmagic.ir.function import IRModule, PrimFunc


class Schedulable(ABC):
    """A value that lowers to a function or a module without arguments, such as a tiling of Ascend."""

    @abstractmethod
    def lower(self) -> IRModule | PrimFunc:
        """Return the program."""
