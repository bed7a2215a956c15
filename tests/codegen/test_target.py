"""Targets as texts and mappings."""

import pytest

from tvmagic.codegen import Target
from tvmagic.errors import TVMagicError


def test_options_come_from_the_text():
    target = Target("llvm -mcpu=skylake-avx512 -mattr=+avx512f,+fma -num-cores=8")
    assert target.kind.name == "llvm" and target.mcpu == "skylake-avx512"
    assert target.mattr == ["+avx512f", "+fma"] and target.attrs["num-cores"] == 8
    assert Target(target.export()) == target and Target(str(target)) == target


def test_the_current_target():
    assert Target.current() is None
    with Target("llvm -mcpu=znver4") as outer, Target({"kind": "cuda", "arch": "sm_80"}) as inner:
        assert Target.current() is inner and inner.is_nvptx and not outer.is_nvptx
    with pytest.raises(TVMagicError, match="no target is entered"):
        Target.current(allow_none=False)


@pytest.mark.parametrize("text, message", [
    ("lvm", "no kind of target `lvm`"),
    ("llvm -mcup=x", "no option `mcup`"),
    ("llvm mcpu=x", "`mcpu=x` in the target .* is not an option"),
    ("llvm -num-cores=many", "`num-cores` is a number, not `many`"),
    (3, "`3` is not a target"),
])  # fmt: skip
def test_mistakes_are_named(text, message):
    with pytest.raises(TVMagicError, match=message):
        Target(text)


def test_where_code_runs():
    assert Target("llvm").is_host and not Target("llvm -mtriple=sparc-unknown-none").is_host
    assert Target("llvm", host="llvm -mcpu=x").host is not None
