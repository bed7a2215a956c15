"""What watches passes: `with PassContext(instruments=[PassTimingInstrument()]):`, as TVM's `tvm.instrument`.

A `PassContext` calls an instrument when it is opened and closed, asks it whether a pass is to run, and calls it before
and after each pass that runs.
"""

from __future__ import annotations

import inspect
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tvmagic.errors import TVMagicError, WrongTypeError
from tvmagic.files import write_file

__all__ = [
    "DumpIR",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "pass_instrument",
]


class PassInstrument:
    """A base of instruments: a subclass defines the calls that it wants. `info` is the `PassInfo` of the pass."""

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self).__name__

    def enter_pass_ctx(self) -> None:
        """The context is opened."""

    def exit_pass_ctx(self) -> None:
        """The context is closed."""

    def should_run(self, mod: Any, info: Any) -> bool:
        """Whether the pass is to run; one instrument that says no is enough."""
        return True

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """The pass is about to run on `mod`."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """The pass has run and given `mod`."""

    def __repr__(self) -> str:
        return f"{self.name}()"


def pass_instrument(pi_cls: Any = None) -> Any:
    """A class decorator, plain or with `()`: what its objects do not define is as in `PassInstrument`."""

    def decorate(cls: Any) -> Any:
        if not inspect.isclass(cls):
            raise WrongTypeError(
                f"`pass_instrument` decorates a class, not a `{type(cls).__name__}`", code="pass_instrument.not_a_class"
            )
        if issubclass(cls, PassInstrument):
            return cls
        described = {"__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        bases: tuple[Any, ...] = (cls, PassInstrument)
        return type(cls.__name__, bases, described)

    return decorate if pi_cls is None else decorate(pi_cls)


@dataclass
class _Timed:
    """One run of a pass, in seconds, with the passes that it ran."""

    name: str
    start: float = 0.0
    seconds: float = 0.0
    children: list[_Timed] = field(default_factory=list)


class PassTimingInstrument(PassInstrument):
    """Measures how long each pass takes; `render()` gives the times while the context is open."""

    _root: ClassVar[_Timed] = _Timed("root")
    _open: ClassVar[list[_Timed]] = []

    def exit_pass_ctx(self) -> None:
        self._root.children.clear()
        self._open.clear()

    def run_before_pass(self, mod: Any, info: Any) -> None:
        timed = _Timed(info.name)
        (self._open[-1] if self._open else self._root).children.append(timed)
        self._open.append(timed)
        timed.start = time.perf_counter()

    def run_after_pass(self, mod: Any, info: Any) -> None:
        timed = self._open.pop()
        timed.seconds = time.perf_counter() - timed.start

    @staticmethod
    def render() -> str:
        """One line a pass: its time, in brackets the time without the passes it ran, its part of the whole and of the
        pass that ran it. Passes that another one ran are indented below it."""
        if PassTimingInstrument._open:
            raise TVMagicError(
                "a pass is running still",
                hint="ask for the times when it is done",
                code="pass_instrument.pass_still_running",
            )
        children = PassTimingInstrument._root.children
        return "".join(_lines(children, sum(c.seconds for c in children), None, 0))


def _lines(passes: list[_Timed], whole: float, above: float | None, depth: int) -> list[str]:
    found: list[str] = []
    for timed in passes:
        alone = timed.seconds - sum(child.seconds for child in timed.children)
        parts = [100 * timed.seconds / of if of else 100.0 for of in (whole, whole if above is None else above)]
        times = f"{timed.seconds * 1e6:.0f}us [{alone * 1e6:.0f}us]"
        found.append("\t" * depth + f"{timed.name}: {times} ({parts[0]:.2f}%; {parts[1]:.2f}%)\n")
        found += _lines(timed.children, whole, timed.seconds, depth + 1)
    return found


class PassPrintingInstrument(PassInstrument):
    """Prints the module before the passes named first, and after those named second."""

    def __init__(self, print_before_pass_names: Any, print_after_pass_names: Any) -> None:
        self.print_before_pass_names = print_before_pass_names
        self.print_after_pass_names = print_after_pass_names

    def run_before_pass(self, mod: Any, info: Any) -> None:
        if info.name in self.print_before_pass_names:
            print(f"Print IR before: {info.name}\n{mod}\n\n")

    def run_after_pass(self, mod: Any, info: Any) -> None:
        if info.name in self.print_after_pass_names:
            print(f"Print IR after: {info.name}\n{mod}\n\n")


class PrintBeforeAll(PassInstrument):
    """Prints each pass and the module before it."""

    def run_before_pass(self, mod: Any, info: Any) -> None:
        print(f"Before Running Pass: {info}\n{mod}")


class PrintAfterAll(PassInstrument):
    """Prints each pass and the module after it."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        print(f"After Running Pass: {info}\n{mod}")


class DumpIR(PassInstrument):
    """Writes the module after each pass to the folder `dump_dir`, as `000_<pass>.py` and so on."""

    def __init__(self, dump_dir: str | Path, refresh: bool = False) -> None:
        self.dump_dir, self.counter = Path(dump_dir), 0
        if refresh and self.dump_dir.is_dir():
            for file in self.dump_dir.glob("[0-9][0-9][0-9]_*.py"):
                file.unlink()

    def run_after_pass(self, mod: Any, info: Any) -> None:
        name = re.sub(r"[^\w.-]", "_", info.name)
        write_file(self.dump_dir / f"{self.counter:03d}_{name}.py", mod.script(), make_folder=True)
        self.counter += 1
