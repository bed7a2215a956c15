"""Names of functions for the linker."""

from __future__ import annotations

import re

from tvmagic.codegen.text.rules import LIBRARY

# What compiled code calls in the C library, by itself or where LLVM turns a loop into a call; and a program's `main`.
_C_FUNCTIONS = frozenset(
    [*LIBRARY, *[f"{name}f" for name in LIBRARY]]
    + "sqrt floor ceil trunc fabs round rint nearbyint copysign fma fmod fmin fmax sincos".split()
    + "sqrtf floorf ceilf truncf fabsf roundf rintf nearbyintf copysignf fmaf fmodf fminf fmaxf sincosf".split()
    + "memcpy memmove memset memcmp bcmp malloc calloc realloc free aligned_alloc abort main".split()
)


# what LLVM's text or the linker cannot have in a name, and the beginnings of names that mean something there
_UNSAFE = re.compile('^$|^(?:llvm|tvm)\\.|^__tvmagic|[\x00-\x1f"\\\\\x7f\ud800-\udfff]')


def symbol_of(name: str) -> str:
    """The linker's name for the function `name`: another one if it cannot have this one, or C has such a function."""
    if _UNSAFE.search(name):
        return "fn_" + "".join([c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name])
    return f"{name}_" if name in _C_FUNCTIONS else name
