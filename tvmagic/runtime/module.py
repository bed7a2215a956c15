"""A built module: its functions, its texts, its object file."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import BuildError, TVMagicError, WrongNameError
from tvmagic.ir.views import viewed
from tvmagic.lazy import cached_property
from tvmagic.runtime.abi import ERROR_RECORDS, ERROR_SLOTS
from tvmagic.runtime.kernel import Kernel
from tvmagic.runtime.timing import BenchmarkResult, time_evaluator

__all__ = ["BenchmarkResult", "Module"]


@viewed("compiled module")
class Module:
    """Compiled functions by name.

    `module["name"]` is a function, `module(*arrays)` calls the entry function (`main`, or the only or first one).

    Nothing is linked until a function is asked for.

    Parameters
    ----------
    code: the object file. abis: how each function is called. sites: where its code may stop with an
    error. sources: functions that give the texts `ll` and `asm` when they are asked for; they hold `text_bytes` bytes.
    symbols: what it shares with the runtime. recompiled: the object file with more LLVM text at the end. loaded: the
    code, if it is in this process already. refusal: why the code cannot run here. externs: what it calls of others.
    target: what it was compiled for, if that is known. widened: builds the module with indices of int64, which runs calls
    whose sizes need them.
    `nbytes`: what the module takes of the memory, nearly.
    """

    def __init__(
        self,
        code: bytes,
        abis: list[Any],
        sites: list[Any],
        sources: dict[str, Callable[[], str]],
        symbols: set[str],
        text_bytes: int = 0,
        *,
        recompiled: Callable[[str], bytes] | None = None,
        loaded: Any = None,
        refusal: TVMagicError | None = None,
        externs: Sequence[str] = (),
        target: Any = None,
        widened: Callable[[], Module] | None = None,
    ) -> None:
        self.code, self.abis, self.sites, self.sources = code, abis, sites, sources
        self.nbytes = 2 * len(code) + text_bytes
        self.symbols, self.recompiled, self.refusal = symbols, recompiled, refusal
        self.externs, self.target = tuple(externs), target
        self._widened = None if widened is None else functools.cache(widened)
        self._object = loaded

    @cached_property
    def functions(self) -> dict[str, Kernel]:
        """The functions by name, linked into this process. Threads that come here at once all link it; one result is kept."""
        from tvmagic.runtime.jit import runtime_table
        from tvmagic.runtime.threads import ensure_pool

        if self.refusal is not None:
            raise self.refusal
        loaded = (
            self._object
            if self._object is not None
            else self._linked([a.symbol for a in self.abis] + sorted(self.symbols))
        )
        if "__tvmagic_runtime" in self.symbols:
            slot = ctypes.c_void_p.from_address(loaded.address("__tvmagic_runtime"))
            slot.value = runtime_table()
            ensure_pool()
        records = None
        if "__tvmagic_error" in self.symbols:
            records = (ctypes.c_int64 * (ERROR_SLOTS * ERROR_RECORDS)).from_address(loaded.address("__tvmagic_error"))
        # kernels hold the code and not this object, so that it goes away with the last reference to it
        return {a.name: Kernel(a, loaded, self.sites, records, self._widened) for a in self.abis}

    def _linked(self, names: list[str]) -> Any:
        from tvmagic.runtime.jit import LoadedObject, is_known

        try:
            return LoadedObject(self.code, names)
        except BuildError:
            missing = [f"`{name}`" for name in self.externs if not is_known(name)]
            if not missing:
                raise
            raise BuildError(
                f"the module calls {', '.join(missing)}, which this process does not have",
                hint="load what has it first, with ctypes.CDLL(..., mode=ctypes.RTLD_GLOBAL)",
                code="module.missing_functions",
            ) from None

    def __reduce__(self) -> tuple[Callable[..., Module], tuple[Any, ...]]:
        """A pickle holds the object file and how it is called, for a CPU like this one."""
        from tvmagic.runtime.description import describe, this_cpu

        if not self.code:
            raise TVMagicError(
                "a module loaded from a shared library cannot be pickled",
                hint="copy the library",
                code="module.not_picklable",
            )
        return unpickled, (self.code, describe(self), this_cpu())

    def __deepcopy__(self, memo: object) -> Module:
        return self

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {id(self):x})"

    # Name of the entry function for `get_function`, whichever function it is.
    entry_name = "__tvm_main__"

    @property
    def entry(self) -> str:
        """Name of the entry function among the module's functions."""
        return "main" if "main" in self else self.abis[0].name

    @property
    def entry_func(self) -> Kernel:
        """The function that `module(...)` calls."""
        return self.functions[self.entry]

    def get_function(self, name: str, query_imports: bool = False) -> Kernel:
        """The function `name`; `__tvm_main__` is the entry function."""
        if name == "__tvm_main__":
            return self.entry_func
        if name not in self:
            known = ", ".join(f"`{a.name}`" for a in self.abis)
            raise WrongNameError(
                f"the module has no function `{name}`",
                hint=f"its functions are {known}",
                code="module.unknown_function",
            )
        return self.functions[name]

    __getitem__ = get_function

    def __contains__(self, name: object) -> bool:
        """Whether there is a function called `name`."""
        return any(a.name == name for a in self.abis)

    implements_function = __contains__

    def __call__(self, *args: Any) -> Any:
        return self.entry_func(*args)

    def time_evaluator(
        self,
        func_name: str | None = None,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **options: Any,
    ) -> Any:
        """A function of a kernel's arguments that measures its time (`timing.time_evaluator`)."""
        kernel = self.get_function(func_name or self.entry_name)
        return time_evaluator(kernel, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def get_source(self, fmt: str = "ll") -> str:
        """The text of the compiled code: `ll` (LLVM IR after LLVM's passes), `asm`, or `raw` (LLVM IR as made)."""
        source = self.sources.get(fmt)
        if source is None:
            known = ", ".join(f"`{f}`" for f in self.sources)
            raise TVMagicError(
                f"there is no text of the form `{fmt}`",
                hint=f"the forms are {known}",
                code="module.unknown_source_format",
            )
        return source()

    inspect_source = get_source

    @property
    def type_key(self) -> str:
        """What kind of module it is."""
        return "llvm"

    @property
    def format(self) -> str:
        """What its code is."""
        return "o"

    @property
    def is_dso_exportable(self) -> bool:
        """Whether it can be written as a library: yes."""
        return True

    @property
    def is_runnable(self) -> bool:
        """Whether its functions run on this machine."""
        return self.refusal is None

    @property
    def is_binary_serializable(self) -> bool:
        """Whether other modules save it as a part of them: no, it is linked with them."""
        return False

    @property
    def imported_modules(self) -> list[Any]:
        """Modules that belong to it: none, all functions are in one."""
        return []

    def save(self, file_name: Any, fmt: str = "") -> None:
        """Save as an object file with a C header (`.o`), as text (`.ll`, `.s`), or as a module for WebAssembly (`.wasm`):
        `saving.save_module`."""
        from tvmagic.runtime.export import save_module

        save_module(self, file_name, fmt)

    def export_library(self, file_name: Any, fcompile: Any = None, **options: Any) -> None:
        """Write the module for C linkers and `load_module`: `saving.export_library`."""
        from tvmagic.runtime.export import export_library

        export_library(self, file_name, fcompile, **options)


def __getattr__(name: str) -> Any:
    from tvmagic import find_name

    return find_name(__name__, name)


def unpickled(code: bytes, description: str, cpu: str) -> Module:
    """The module that a pickle holds. Raises TVMagicError if it was made for another CPU."""
    from tvmagic.runtime.description import read_description, this_cpu

    if cpu != this_cpu():
        raise TVMagicError(
            f"the pickled module was compiled for `{cpu}`, this machine is `{this_cpu()}`",
            hint="pickle the operator or the lowered IRModule, and build it here",
            code="module.other_machine",
        )
    abis, sites, symbols = read_description(description)
    return Module(code, abis, sites, {}, symbols)
