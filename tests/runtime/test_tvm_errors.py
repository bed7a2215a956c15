"""What wrong calls raise, and what has no file of its own, are what code written for TVM expects."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import te, tir


def test_classes_of_errors() -> None:
    with refuses("global_function.unknown", error=ValueError):
        tvm.get_global_func("runtime.absent")
    assert tvm.get_global_func("runtime.absent", allow_missing=True) is None
    with pytest.raises(ValueError, match="`foo`"):
        tvm.DataType("foo")
    with pytest.raises(ValueError, match="`float32`"):
        tir.IntImm("float32", 1)
    with refuses("ndarray.shape_mismatch", error=ValueError):
        tvm.nd.empty((2, 3)).copyfrom(np.zeros((3, 3)))
    for values in (["a"], [object()], [1j]):
        with refuses("ndarray.unsupported_dtype", error=ValueError):
            tvm.nd.array(np.array(values))


def test_a_function_that_a_module_has_not() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    built = tvm.build(te.create_schedule(b.op), [a, b], name="inc")
    assert built["inc"] is not None
    with pytest.raises(AttributeError, match="`dec`"):
        built["dec"]


def test_modules_without_files_are_attributes() -> None:
    assert tvm.runtime.container.ShapeTuple([1, 2])[-1] == 2
    assert isinstance(tvm.get_global_func("testing.echo", allow_missing=True) or len, tvm.runtime.PackedFunc)
    assert not isinstance(3, tvm.runtime.PackedFunc)
    with pytest.raises(AttributeError, match="no name `absent`"):
        _ = tvm.runtime.absent


def test_capsules_share_memory() -> None:
    array = tvm.nd.array(np.arange(6))
    other = tvm.nd.from_dlpack(array.to_dlpack())
    array.copyfrom(np.zeros(6, "int64"))
    assert other.numpy().tolist() == [0] * 6
