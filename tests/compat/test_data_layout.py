"""Layouts of tensors by name, and the maps between two."""

import itertools
import pickle

import numpy as np
import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import te, tir


def test_axes_of_a_layout() -> None:
    layout = tir.layout("NCHW16c")
    assert len(layout) == 5 and [layout[i] for i in range(5)] == ["N", "C", "H", "W", "c"] and layout[-1] == "c"
    assert layout.index_of("H") == 2 and layout.index_of("k") == -1 and "C" in layout and "D" not in layout
    assert layout.factor_of("C") == layout.factor_of("c") == 16 and layout.factor_of("N") == -1
    assert layout.axes[4].dom.extent.value == 16 and str(layout.axes[0].dom.extent) == "N_shape"
    assert str(layout) == "Layout(NCHW16c)" and pickle.loads(pickle.dumps(layout)).name == "NCHW16c"
    assert tir.layout("NC8n4c4n").factor_of("N") == 32
    assert tir.layout("NC", "int64").axes[1].var.dtype == "int64"
    with pytest.raises(IndexError, match="`NCHW16c`"):
        layout[5]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NCHW8h4c", None),
        ("NCHWc", "the part `c` has no size"),
        ("NCHW0c", "the part `c` has no size"),
        ("16NCHW", "no size belongs before the axis `N`"),
        ("NHW4c", "the part `c` has no axis `C`"),
        ("N-C", "`-` is neither a letter nor a digit"),
    ],
)
def test_names_of_layouts(name: str, said: str | None) -> None:
    if said is None:
        assert len(tir.layout(name)) == 6
        return
    with refuses("layout.missing_axis", "layout.wrong_character", "layout.wrong_order", error=tvm.TVMError):
        tir.layout(name)


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        ("NCHW", "NHWC", (2, 8, 3, 5)),
        ("NCHW", "NCHW4c", (2, 8, 3, 5)),
        ("NCHW4c", "NHWC8c", (2, 4, 3, 5, 4)),
        ("NC4n8c", "NC2n4c2n", (2, 3, 4, 8)),
        ("NCHW4c", "NCHW", (1, 2, 2, 3, 4)),
    ],
)
def test_maps_move_every_element_to_a_place_of_its_own(source: str, target: str, shape: tuple[int, ...]) -> None:
    mapping = tir.bijective_layout(source, target)
    assert mapping is not None
    moved = [int(size) for size in mapping.forward_shape(shape)]
    assert [int(size) for size in mapping.backward_shape(moved)] == list(shape) and np.prod(moved) == np.prod(shape)
    seen = set()
    for index in itertools.product(*map(range, shape)):
        there = mapping.forward_index(index)
        assert tuple(int(i) for i in mapping.backward_index(there)) == index
        assert all(0 <= int(i) < size for i, size in zip(there, moved))
        seen.add(tuple(int(i) for i in there))
    assert len(seen) == np.prod(shape)


def test_sizes_that_do_not_divide_and_variables() -> None:
    mapping = tir.bijective_layout("NCHW", "NCHW16c")
    assert mapping is not None
    assert [int(size) for size in mapping.forward_shape((1, 35, 7, 7))] == [1, 3, 7, 7, 16]
    n = te.var("n")
    assert [str(i) for i in mapping.forward_index((0, n, 1, 2))] == ["0", "n // 16", "1", "2", "n % 16"]
    assert [str(i) for i in mapping.backward_index((0, n, 1, 2, 3))] == ["0", "n * 16 + 3", "1", "2"]


def test_maps_that_there_are_not() -> None:
    for source, target in (("NCHW", "NCH"), ("NCHW", "ABCD"), ("__undef__", "NCHW"), ("NCHW", "__undef__"), ("", "")):
        assert tir.bijective_layout(source, target) is None
    with pytest.raises(tvm.TVMError, match="`NCHW`.*`NCH`"):
        tir.BijectiveLayout(tir.layout("NCHW"), tir.layout("NCH"))
    assert len(tir.layout("__undef__")) == 0
    mapping = tir.bijective_layout("NC4c", "NC")
    assert mapping is not None
    with pytest.raises(tvm.TVMError, match="`NC4c`"):
        mapping.forward_index((1, 2))
    with pytest.raises(tvm.TVMError, match="`c`.*`NC4c`"):
        mapping.forward_shape((1, 2, 8))
    with refuses("layout.wrong_argument", error=TypeError):
        tir.layout("NC", "float32")
