"""What a random program may come to, and how one compiled function is held against the arrays it should give."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from guarded_arrays import EDGES, Guarded, difference

TARGETS = ("llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2")
# relative and absolute, for what ends in a function such as exp; everything else is exact
TOLERANCES = {"float16": (4e-3, 4e-3), "bfloat16": (4e-2, 4e-2), "float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12)}
# a refusal in such words is no rule of the user's program: a pass left it broken
INCONSISTENT = (
    "where it is not realized",
    "where it is not defined",
    "does not fit into",
    "dimensions, the access has",
)


class Wrong(Exception):
    """The program does not do what it means. `kind` is a word: result, outside, internal, state, bounds."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Refused(Exception):
    """The package refuses the program as a whole, with a rule."""


class Unavailable(Refused):
    """What would run the program is not there, or cannot."""


class Source:
    """A program as lines of Python, run as they are added; `text()` runs by itself."""

    HEAD = "import numpy as np\n\nimport tvmagic\nfrom tvmagic import te, tir\n"

    def __init__(self, *lines: str) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        exec(self.HEAD, self.names)
        for line in lines:
            self.run(line)

    def run(self, line: str) -> None:
        """Execute a line, and keep it if it raises nothing."""
        exec(line, self.names)
        self.lines.append(line)

    def get(self, text: str) -> Any:
        """The value of an expression."""
        return eval(text, self.names)

    def text(self) -> str:
        return "\n".join([self.HEAD, *self.lines]) + "\n"


def refusal(error: Exception) -> bool:
    """Return whether `error` is a refusal by the package: neither a defect nor a missing tool."""
    from tvmagic.errors import DefectError, TVMagicError
    from tvmagic.tools import MissingTool

    return isinstance(error, TVMagicError) and not isinstance(error, (DefectError, MissingTool))


def guarded_call(kind: str, call: Callable[[], Any]) -> Any:
    """The result of `call`; a rule is `Refused`, every other error is `Wrong`."""
    try:
        return call()
    except Exception as error:
        if "cannot be linked" in str(error):
            raise Wrong("link", f"{kind}: {' '.join(str(error).split())[:300]}") from error
        if any(words in str(error) for words in INCONSISTENT):
            raise Wrong("inconsistent", f"{kind}: {' '.join(str(error).split())[:300]}") from error
        if refusal(error):
            raise Refused(f"{kind}: {' '.join(str(error).split())[:300]}") from error
        raise Wrong("internal", f"{kind}: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from error


class Argument:
    """An argument of the compiled function and, if it is written, what it must be afterwards.

    `known`, if given, is true for the elements that are told (others are padding). `start`: what is in it before the
    call, if that matters and differs.
    """

    def __init__(self, value: Any, written: bool, inexact: bool = False, known: Any = None, start: Any = None) -> None:
        self.value, self.written, self.inexact, self.known, self.start = value, written, inexact, known, start

    def guarded(self, strided: bool, edge: str | None) -> Guarded:
        """The array for the call."""
        if self.start is not None:
            return Guarded(self.start, strided, changes=True, edge=edge)
        return Guarded(self.value, strided, not self.written, self.written, edge=edge)


def tolerance(given: Argument) -> tuple[float, float]:
    """How far a written array may be off: relative and absolute."""
    return TOLERANCES.get(str(given.value.dtype), (0, 0)) if given.inexact else (0, 0)


def check_call(
    function: Callable[..., Any],
    arguments: list[Any],
    rng: random.Random,
    strided: bool = False,
    edges: tuple[str | None, ...] = EDGES,
) -> None:
    """Call `function` on guarded arrays; raise `Wrong` unless it does what `arguments` say.

    Integers among the arguments are passed as they are. `edges`: those of the arrays, in turn.
    """
    from tvmagic.errors import BoundsError

    arrays = [
        a if isinstance(a, int) else a.guarded(strided and rng.random() < 0.5, edges[(n + a.value.size) % len(edges)])
        for n, a in enumerate(arguments)
    ]
    try:
        function(*[a if isinstance(a, int) else a.array for a in arrays])
    except Unavailable:
        raise
    except BoundsError as error:
        raise Wrong("bounds", " ".join(str(error).split())[:300]) from error
    except Exception as error:
        if "division by zero" in str(error):  # checked code stops there
            raise Refused(str(error).split("`")[0]) from error
        kind = "refused" if refusal(error) else "internal"
        raise Wrong(kind, f"call: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
    for n, (given, array) in enumerate(zip(arguments, arrays)):
        if isinstance(given, int):
            continue
        if count := array.outside_written():
            what = "outside it" if given.written else "of it or around it"
            raise Wrong("outside", f"argument {n}: {count} bytes {what} were written")
    for n, (given, array) in enumerate(zip(arguments, arrays)):
        if isinstance(given, int) or not given.written:
            continue
        found, wanted = array.array, given.value
        if given.known is not None:
            found, wanted = found[given.known], wanted[given.known]
        dtype = str(given.value.dtype)
        problem = difference(found, wanted, *tolerance(given))
        if problem is not None:
            raise Wrong("result", f"argument {n} ({dtype}): {problem}")


def random_array(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, low: float, high: float, special: bool
) -> Any:
    """An array of whole numbers; some are NaN or infinite if `special`."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        values = rng.integers(int(low), int(high), shape, dtype=dtype, endpoint=True)
        if high - low > 1000 and values.size:  # the ends as well
            ends = rng.random(shape) < 0.15
            values[ends] = rng.choice(np.array([int(low), int(high)], dtype), int(ends.sum()))
        return values
    values = rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    if special and values.size:
        marked = rng.random(shape) < 0.2
        values[marked] = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0], "float64"), int(marked.sum())).astype(
            dtype
        )
    return values
