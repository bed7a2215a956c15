"""Memory between two pages that may not be touched: whoever reads or writes there dies."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np


def between_guard_pages(size: int) -> np.ndarray[Any, Any]:
    """As many whole pages as hold `size` bytes, which begin and end at a page that may not be touched."""
    page, inner = mmap.PAGESIZE, size + -size % mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, inner + 2 * page), "uint8")
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for first in (memory.ctypes.data, memory.ctypes.data + page + inner):
        if protect(ctypes.c_void_p(first), ctypes.c_size_t(page), ctypes.c_int(0)):
            raise OSError(ctypes.get_errno(), "mprotect")
    return memory[page : page + inner]
