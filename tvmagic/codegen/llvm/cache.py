"""Kernels that were compiled before: in memory by structure, and on disk if that is asked for.

In memory a lowered module is found by its structural hash, its target, the names that its errors
would tell, and its constants to the bit. What was not asked for longest is forgotten when all takes more than `set_cache_limit` allows. On disk an object file is found by a digest of what it was made by: the LLVM text, the machine,
and the versions of LLVM and tvmagic. The file has that too, and a digest of all, so a damaged one is compiled anew.
`set_cache_dir(folder)` or the environment variable `TVMAGIC_CACHE` names the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import tvmagic
from tvmagic.errors import TVMagicError
from tvmagic.files import digest_of, read_entry, write_entry
from tvmagic.ir import FloatImm, IRModule, post_order_visit, structural_equal, structural_hash
from tvmagic.ir.semantics import plain
from tvmagic.locks import renew_after_fork
from tvmagic.target.host import llvm_version

_MOST = 256
_EMISSION = "2"  # raised when other code is made of the same LLVM text
_limit = 64 << 20
_held = 0
_lock = threading.Lock()
renew_after_fork(globals(), "_lock")
_kept: OrderedDict[Any, list[tuple[IRModule, Any]]] = OrderedDict()
_folder: pathlib.Path | None = None


def set_cache_dir(folder: Any) -> None:
    """Keep compiled kernels in `folder` for later processes; None ends it."""
    global _folder
    _folder = None if folder is None else pathlib.Path(folder)


def set_cache_limit(nbytes: int) -> None:
    """Keep kernels of `nbytes` bytes in memory at most, by their code and their texts; 0 keeps none."""
    global _limit
    with _lock:
        _limit = nbytes
        _forget_oldest()


def clear_cache() -> None:
    """Forget the kernels kept in memory."""
    global _held
    with _lock:
        _kept.clear()
        _held = 0


def _forget_oldest() -> None:
    global _held
    while _kept and (len(_kept) > _MOST or _held > _limit):
        _, gone = _kept.popitem(last=False)
        _held -= sum(_bytes(built) for _, built in gone)


def _bytes(built: Any) -> int:
    return getattr(built, "nbytes", 0)


def _names(mod: IRModule) -> tuple[Any, ...]:
    return tuple(
        [
            (var.name_hint, *[func.buffer_map[p].name if p in func.buffer_map else p.name for p in func.params])
            for var, func in mod.functions.items()
        ]
    )


def _floats(mod: IRModule) -> bytes:
    """What the constants of type float mean, to the bit: equal structures may differ in the sign of a zero, or have the
    infinity that a maximum begins with for the largest finite number."""
    found: list[float] = []
    for func in mod.functions.values():
        post_order_visit(func.body, lambda n: found.append(plain(n.value)) if type(n) is FloatImm else None)
    return struct.pack(f"{len(found)}d", *found)


def from_memory(mod: IRModule, options: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """The module compiled from a structure equal to `mod` with equal `options`, or what `make` gives."""
    global _held
    key = (structural_hash(mod), options, _names(mod), _floats(mod))
    with _lock:
        for known, built in _kept.get(key, ()):
            if known is mod or structural_equal(known, mod):
                _kept.move_to_end(key)
                return built
    built = make()
    with _lock:
        _kept.setdefault(key, []).append((mod, built))
        _held += _bytes(built)
        _forget_oldest()
    return built


def from_disk(text: str, machine: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    """The object file of LLVM text for a machine (triple, CPU, features, level), from the folder or made."""
    folder = _folder
    if folder is None and os.environ.get("TVMAGIC_CACHE"):
        folder = pathlib.Path(os.environ["TVMAGIC_CACHE"])
    if folder is None:
        return make()
    made_by = {
        "tvmagic": tvmagic.__version__,
        "llvm": ".".join(map(str, llvm_version())),
        "emission": _EMISSION,
        "machine": list(machine),
        "text": hashlib.sha256(text.encode()).hexdigest(),
    }
    path = folder / f"{digest_of(made_by)}.o"
    if (code := read_entry(path, made_by)) is not None:
        return code
    code = make()
    with contextlib.suppress(TVMagicError):  # a folder that cannot be written to costs time, not the kernel
        write_entry(path, made_by, code)
    return code
