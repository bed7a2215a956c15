"""Versions of an operator and results of its calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvmagic.errors import TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule


def refused(call: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught:
        call()
    return caught.value


def test_calls_return_outputs() -> None:
    one, two = operator("f", "X: float32[4]\nY[i] = X[i]"), operator("g", "X: float32[4]\nY[i] = X[i]\nZ[i] = X[i] * 2")
    x = np.arange(4, dtype="float32")
    assert isinstance(one(x), np.ndarray) and isinstance(two(x), tuple) and len(two(x)) == 2
    given = np.empty(4, "float32")
    assert one(x, out=given) is given and given.tolist() == x.tolist()
    assert one(X=x).tolist() == x.tolist()
    version = schedule(one, "s[Y].unroll(Y.op.axis[0])")
    assert version(x).tolist() == x.tolist() and version.modules and one.usual_size == 256


def test_version_is_found_by_name_or_refused() -> None:
    op = operator("f", "X: float32[4]\nY[i] = X[i]")
    assert op.version() is op.current is op.plain is op.version("plain")
    first = schedule(op, "s[Y].unroll(Y.op.axis[0])", "first")
    assert op.version("first") is first and op.version("plain") is op.plain and op.version() is op.current
    error = refused(lambda: op.version("second"))
    assert "`second`" in error.message and error.hint == "there are `plain`, `first`"
    named = schedule(op, "s[Y].vectorize(Y.op.axis[0])", "plain")
    assert op.version("plain") is named is not op.plain
