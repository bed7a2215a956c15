"""Damaged copies of a file's bytes, as disks and crashes leave them."""

from __future__ import annotations

import random


def damages(data: bytes, rng: random.Random) -> list[bytes]:
    """Return the data with a flipped bit, cut off, with a byte more, empty, with a byte less, and as zeros."""
    at = rng.randrange(len(data))
    flipped = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    return [flipped, data[:at], data + b"\0", b"", data[:at] + data[at + 1 :], bytes(len(data))]
