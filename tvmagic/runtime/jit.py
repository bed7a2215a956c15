"""Object files in this process: linking, symbols, the runtime's table of functions."""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tvmagic.errors import BuildError
from tvmagic.interrupts import deferred_interrupts, deferring_interrupts
from tvmagic.locks import renew_after_fork
from tvmagic.runtime.callbacks import packed_callback
from tvmagic.runtime.support_code import read_ll, support_module

_numbers = itertools.count()
_SUPPORT_SYMBOLS = (
    "table", "init_table", "pool_init", "pool_start", "pool_stop", "pool_join", "pool_limit",
    "error_type", "error_value", "error_trace",
)  # fmt: skip


# Links by one linker. It keeps some 10 kB of each library until it goes away itself, with the last of its libraries.
_LINKS = 64
_lock = threading.Lock()
renew_after_fork(globals(), "_lock")


class _Linkers:
    """The linker in use, replaced after so many links."""

    def __init__(self) -> None:
        self.current: Any = None
        self.links = 0

    def take(self) -> Any:
        with _lock:
            if self.current is None or self.links == _LINKS:
                self.current, self.links = _new_linker(), 0
            self.links += 1
            return self.current


@deferring_interrupts
def _new_linker() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, reloc="pic"
    )
    # RuntimeDyld maps code and constants apart: with arrays of gigabytes between them, 32-bit offsets overflow, and LLVM
    # aborts or code reads other memory. JITLink maps an object as a whole; LLVM does not use it for COFF.
    return llvm.create_lljit_compiler(machine, use_jit_link=sys.platform != "win32")


_linkers = _Linkers()


def _make_immortal(item: Any) -> None:
    """Never give an object back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def is_known(name: str) -> bool:
    """Whether code of this process can call the C function `name`."""
    import llvmlite.binding as llvm

    if llvm.address_of_symbol(name):
        return True
    return sys.platform != "win32" and hasattr(ctypes.CDLL(None), name)  # Windows has no handle of the whole process


class LoadedObject:
    """An object file linked into the process; it is unloaded with the last reference to it.

    `names`: the symbols that `address` can give.
    """

    @deferring_interrupts
    def __init__(self, code: bytes, names: Sequence[str], imports: bool = True) -> None:
        import llvmlite.binding as llvm

        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            builder = builder.export_symbol(name)
        for name, address in _builtins_in(code) if imports else ():
            builder = builder.import_symbol(name, address)
        linker = _linkers.take()
        try:
            library = builder.link(linker, f"tvmagic.{next(_numbers)}")
        except RuntimeError as error:
            raise BuildError(
                f"the code cannot be linked into this process: {error}",
                hint="an extern function that is not in the process can be loaded first with ctypes.CDLL",
                code="jit.link_failed",
            ) from error
        # the linker must outlive the library, even if an interrupt ends `__del__` below before it begins
        library.__dict__["linker"] = linker
        self._library = library
        self.code = code

    def address(self, name: str) -> int:
        """The address of an exported symbol."""
        return self._library[name]

    def immortal(self) -> LoadedObject:
        """This object, mapped until the process ends: threads may still run it while Python shuts down."""
        _make_immortal(self)
        return self

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        # while Python shuts down the code stays, and module globals may be gone
        library = getattr(self, "_library", None)
        if library is not None and not _is_finalizing():
            with deferred_interrupts(
                later=True
            ):  # an object that is closed but not marked as such would be given back twice
                library.close()


@lru_cache(maxsize=1)
@deferring_interrupts
def support() -> LoadedObject:
    """The runtime's own machine code (`ll/`), compiled for this machine."""
    import llvmlite.binding as llvm

    _linkers.take()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")
    return LoadedObject(machine.emit_object(support_module(triple)), list(_SUPPORT_SYMBOLS)).immortal()


@lru_cache(maxsize=1)
def builtins_names() -> list[str]:
    return re.findall(r"^define weak \S+ @(\w+)\(", read_ll("builtins"), re.MULTILINE)


@lru_cache(maxsize=1)
@deferring_interrupts
def builtins_code() -> bytes:
    """The object file of what LLVM calls if the machine has no instruction (`ll/builtins.ll`)."""
    import llvmlite.binding as llvm

    _linkers.take()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{read_ll("builtins")}')
    module.verify()
    return machine.emit_object(module)


@lru_cache(maxsize=1)
def _builtins() -> LoadedObject:
    return LoadedObject(builtins_code(), builtins_names(), imports=False).immortal()


def _builtins_in(code: bytes) -> list[tuple[str, int]]:
    """Those functions of `ll/builtins.ll` that an object file may name, with their addresses.

    They are taken from here and not from the process, which may have them or not.
    """
    found = [name for name in builtins_names() if name.encode() in code]
    return [(name, _builtins().address(name)) for name in found]


@lru_cache(maxsize=1)
def runtime_table() -> int:
    """The address of the table that compiled code finds the runtime's functions in."""
    loaded = support()
    init = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address("init_table"))
    init(ctypes.cast(packed_callback(), ctypes.c_void_p))
    return loaded.address("table")
