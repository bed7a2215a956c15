"""Values that are computed when they are first used."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property:
        """`functools.cached_property` without the lock that it has in Python 3.11.

        That lock is shared by all objects of a class. A child process that is forked while another thread holds it waits
        forever, and so do two threads of which each computes what the other one needs.
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self.function, self.name = function, function.__name__
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self.function(instance)
            return instance.__dict__.setdefault(self.name, value)
