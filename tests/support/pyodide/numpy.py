"""A stand-in for NumPy where Pyodide's own cannot be loaded: its types have names, nothing computes."""

from typing import Any

__version__ = "2.4.0"
inf, nan, pi = float("inf"), float("nan"), 3.141592653589793

_KINDS = {"int": "i", "uint": "u", "float": "f", "bool": "b"}


class ndarray:
    """No array is ever made."""


class generic:
    """A scalar's type."""


class ufunc:
    """No function is ever applied."""


class dtype:
    """A type with a name, and what follows from it."""

    isbuiltin = 1

    def __init__(self, name: Any) -> None:
        self.name = getattr(name, "__name__", str(name)).rstrip("_")
        letters = self.name.rstrip("0123456789")
        if letters not in _KINDS:
            raise TypeError(f"data type '{self.name}' not understood")
        self.kind, self.itemsize = _KINDS[letters], int(self.name[len(letters) :] or 8) // 8

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def __eq__(self, other: Any) -> bool:
        return self.name == dtype(other).name

    def __hash__(self) -> int:
        return hash(self.name)


class _Function:
    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Function(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"the stand-in for NumPy has no {self.__name__}")


_SCALARS = """int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bool_ bool integer floating number
unsignedinteger signedinteger inexact complexfloating void""".split()
globals().update({name: type(name, (generic,), {}) for name in _SCALARS})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Function(name)
