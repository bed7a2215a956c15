"""The error at the place where TVM has it."""

from tvmagic.errors import TVMError

__all__ = ["TVMError", "py_str"]


def py_str(text: bytes) -> str:
    """A text from its bytes."""
    return text.decode()
