"""Whether two functions compute the same."""

from __future__ import annotations

import numpy as np

import tvmagic
from tvmagic.ir import PrimFunc


def same(before: PrimFunc, after: PrimFunc) -> None:
    """Run two functions on the same arrays of float32 and compare all arguments afterwards."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal([int(s) for s in before.buffer_map[p].shape]).astype("float32") for p in before.params]
    expected, got = [a.copy() for a in given], [a.copy() for a in given]
    tvmagic.build(before)(*expected)
    tvmagic.build(after)(*got)
    for want, have in zip(expected, got):
        np.testing.assert_allclose(have, want, 1e-5, 1e-5)
