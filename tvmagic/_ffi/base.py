"""The error at the place where TVM has it."""

from tvmagic.errors import TVMError

__all__ = ["TVMError"]
