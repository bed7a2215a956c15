"""What all functions of a module share: virtual devices, in text, JSON, equality and passes."""

import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import ir, tir
from tvmagic.errors import TVMagicError
from tvmagic.script import from_source, ir_builder
from tvmagic.script import ir as I
from tvmagic.script import tir as T


@I.ir_module
class Devices:
    I.module_attrs({"version": 3})
    I.module_global_infos(
        {
            "vdevice": [
                I.vdevice("llvm"),
                I.vdevice({"kind": "cuda", "arch": "sm_80"}, 1, "shared"),
                I.vdevice("llvm", 2),
            ],
            "dummy": [I.dummy_global_info()],
        }
    )

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        A[0] = 1.0


def test_text_and_json() -> None:
    text = Devices.script()
    assert 'I.module_global_infos({"dummy": [I.dummy_global_info()], "vdevice": [I.vdevice({"keys": ["cpu"]' in text
    assert '"kind": "cuda", ' in text and ', 1, "shared")' in text
    for again in (from_source(text), ir.load_json(ir.save_json(Devices)), Devices.clone()):
        ir.assert_structural_equal(again, Devices)
        assert ir.structural_hash(again) == ir.structural_hash(Devices)
        assert again.script() == text


def test_two_infos_are_equal_if_they_hold_the_same() -> None:
    assert ir.VDevice("llvm", 1) == ir.VDevice(tvm.target.Target("llvm"), 1, "global")
    assert ir.VDevice("llvm", 1) != ir.VDevice("llvm") and ir.VDevice("llvm") != ir.DummyGlobalInfo()
    assert len({ir.DummyGlobalInfo(), ir.DummyGlobalInfo(), ir.VDevice("cuda")}) == 2


def test_modules_differ_by_their_infos() -> None:
    other = Devices.clone()
    other.update_global_info("dummy", [ir.DummyGlobalInfo(), ir.DummyGlobalInfo()])
    place = ir.get_first_structural_mismatch(Devices, other)
    assert place is not None and 'global_infos["dummy"]' in str(place.lhs_path)
    assert len(Devices.global_infos["dummy"]) == 1


def test_passes_keep_the_infos() -> None:
    assert tir.transform.Simplify()(Devices).global_infos == Devices.global_infos


def test_lookup_counts_within_a_kind() -> None:
    with ir_builder.IRBuilder() as builder, ir_builder.ir.ir_module():
        with refuses("script.module.unknown_vdevice"):
            ir_builder.ir.lookup_vdevice("llvm")
        ir_builder.ir.module_global_infos(Devices.global_infos)
        ir_builder.ir.module_set_attr("a", 1)
        assert ir_builder.ir.lookup_vdevice("llvm", 1).vdevice_id == 2
        assert ir_builder.ir.lookup_vdevice("cuda").memory_scope == "shared"
        assert ir_builder.ir.lookup_vdevice() == ir.VDevice("llvm")
        with pytest.raises(TVMagicError, match="`llvm`"):
            ir_builder.ir.lookup_vdevice("llvm", 2)
        with refuses("script.module.global_infos_given_twice"):
            ir_builder.ir.module_global_infos({})
        with refuses("script.module.attribute_given_twice"):
            ir_builder.ir.module_set_attr("a", 2)
        ir_builder.ir.module_set_attr("a", 2, allow_overwrite=True)
    assert builder.get().attrs["a"] == 2


@pytest.mark.parametrize("infos", ["3", '{"vdevice": I.vdevice("llvm")}', '{"vdevice": [1]}', '{"vdevice": ["llvm"]}'])
def test_what_is_no_list_of_infos_is_refused(infos: str) -> None:
    with refuses("module.global_infos_not_a_list", "script.module.global_infos_not_a_mapping"):
        from_source(f"@I.ir_module\nclass M:\n    I.module_global_infos({infos})")
