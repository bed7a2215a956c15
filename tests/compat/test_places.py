"""Modules that TVM's users import by name, and that have no file here."""

import importlib
import pickle
import subprocess
import sys

import pytest
from refusals import refuses

import tvmagic
from tvmagic import _PLACES as PLACES
from tvmagic.compat import replacements as _instead
from tvmagic.compat.unsupported import ABSENT


@pytest.mark.parametrize("place", PLACES)
def test_a_place_has_the_names_of_its_modules(place: str) -> None:
    module = importlib.import_module(f"tvmagic.{place}")
    for source in PLACES[place].split():
        original = importlib.import_module(f"tvmagic.{source}")
        for name in getattr(original, "__all__", ()):
            assert getattr(module, name) is not None and name in dir(module)
    with pytest.raises(AttributeError, match=f"module `tvmagic.{place}` has no name `nothing_of_that_name`"):
        module.nothing_of_that_name


def test_imports_as_in_files_for_tvm() -> None:
    from tvmagic._ffi.base import TVMError, py_str
    from tvmagic.driver.build_module import schedule_to_module
    from tvmagic.error import DiagnosticError, InternalError
    from tvmagic.ir.instrument import PassTimingInstrument
    from tvmagic.ir.transform import PassContext
    from tvmagic.ir.type import PointerType
    from tvmagic.runtime.object_path import ObjectPath
    from tvmagic.te.hybrid.runtime import HYBRID_GLOBALS, script
    from tvmagic.tir.transform.transform import BindTarget

    assert TVMError is InternalError is tvmagic.TVMError and issubclass(DiagnosticError, RuntimeError)
    assert list(HYBRID_GLOBALS["parallel"](3)) == [0, 1, 2] and HYBRID_GLOBALS["allocate"]((2,)).tolist() == [0, 0]
    assert py_str(b"text") == "text" and script is tvmagic.te.hybrid.script
    assert schedule_to_module is tvmagic.driver.schedule_to_module and BindTarget is tvmagic.tir.transform.BindTarget
    assert PassContext is tvmagic.transform.PassContext and PointerType is tvmagic.ir.PointerType
    assert PassTimingInstrument is tvmagic.instrument.PassTimingInstrument
    assert ObjectPath is tvmagic.runtime.ObjectPath


@pytest.mark.parametrize(("old", "new"), [(f"{old}{inner}", f"{new}{inner}") for old, new, inner in (
    ("topi", "compat.topi", ".nn.layers"), ("testing", "compat.testing", ".checks"), ("contrib", "compat.contrib", ".cblas"),
    ("contrib.cc", "runtime.cc", ""), ("codegen.target", "target", ".tags"), ("tir.tensor_intrin.cuda", "compat.tensor_intrin.cuda", ".mma"),
)])  # fmt: skip
def test_a_module_that_moved_is_loaded_once(old: str, new: str) -> None:
    """Whichever name is imported first, in a process of its own."""
    first, second = (f"importlib.import_module('tvmagic.{name}')" for name in (old, new))
    for a, b in ((first, second), (second, first)):
        code = f"import importlib; a = {a}; b = {b}; assert a is b and a.__name__ == 'tvmagic.{new}', (a, b)"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_objects_of_moved_modules_can_be_pickled() -> None:
    found = pickle.loads(pickle.dumps(tvmagic.topi.nn.relu))
    assert found is tvmagic.topi.nn.relu
    old = pickle.dumps(tvmagic.topi.nn.relu, protocol=0).replace(b"tvmagic.compat.topi", b"tvmagic.topi")
    assert b"compat" not in old and pickle.loads(old) is found  # as version 0.1 wrote it


def test_a_name_that_is_no_place_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tvmagic\.driver\.no_module"):
        importlib.import_module("tvmagic.driver.no_module")
    with pytest.raises(ImportError):
        exec("from tvmagic.ir.type import NoType")


def test_all_names_of_a_place_can_be_imported_at_once() -> None:
    code = "from tvmagic.ir.transform import *; assert Sequential and module_pass"
    # modules are attributes before they are imported
    code += "; import tvmagic as t; t.ir.type.PointerType, t.arith.iter_affine_map, t._ffi.registry, t.tir.schedule.block_scope"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not hasattr(tvmagic.ir, "no_module") and not hasattr(tvmagic.te, "no_module")


@pytest.mark.parametrize("name", ABSENT)
def test_a_part_that_is_not_here_is_refused_when_it_is_used(name: str) -> None:
    module = importlib.import_module(f"tvmagic.{name}.inside")
    function = importlib.import_module(f"tvmagic.{name}").some.function
    assert not isinstance(1, module.Class) and f"{name}.some.function" in repr(function)
    for use in (lambda: function(1), lambda: module.table[0], lambda: type("C", (), {})(function[0])):
        with refuses("compat.not_available", error=tvmagic.TVMError):
            use()

    class Derived(module.Base):  # pyright: ignore[reportUntypedBaseClass]
        @module.register("a name")
        def method(self) -> int:
            return 1

    assert Derived.method(None) == 1 and module.template(Derived) is Derived  # type: ignore[arg-type]
    with refuses("compat.not_available", error=tvmagic.TVMError):
        Derived()


def test_parts_that_are_not_here_are_imported_as_in_files_for_tvm() -> None:

    from tvmagic import relay
    from tvmagic.script import relax as R

    register_alter_op_layout = importlib.import_module("tvmagic.relay.op").register_alter_op_layout
    assert tvmagic.relay is relay and callable(register_alter_op_layout) and callable(R.function)
    assert not hasattr(tvmagic, "relays")


def test_what_the_installation_has(capsys: pytest.CaptureFixture[str]) -> None:
    info = tvmagic.support.libinfo()
    assert info["USE_LLVM"] == "ON" and info.get("USE_CUDA") == "OFF" and info["LLVM_VERSION"].split(".")[0].isdigit()
    tvmagic.support.describe()
    assert f"LLVM {info['LLVM_VERSION']}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("", "placeholder", "`tvmagic` has no name `placeholder`: it is `te.placeholder`"),  # as before TVM 0.7
        ("", "build_config", "it is `transform.PassContext`"),
        ("te", "HybridOp", "`te.hybrid.script`"),
        ("topi", "topk", "`@T.prim_func`"),
        ("topi", "schedule_injective", "`auto.auto`"),
        ("topi.nn", "conv1d_ncw", "`topi.nn.conv1d` with the layout"),
        ("runtime", "system_lib", "`load_module`"),
        ("tir.transform", "MakePackedAPI", "calls by TVM's C runtime"),
    ],
)
def test_a_name_of_tvm_that_is_not_here_is_answered_by_what_to_write(module: str, name: str, words: str) -> None:
    owner = importlib.import_module(f"tvmagic.{module}".rstrip("."))
    with pytest.raises(AttributeError, match=words):
        getattr(owner, name)
    with pytest.raises(AttributeError, match="no name `nothing_of_that_name`$"):
        owner.nothing_of_that_name


@pytest.mark.parametrize(("module", "name"), [
    ("arith._ffi_api", "NarrowPredicateExpression"), ("arith.pattern", "IntConstraints"), ("testing", "check_int_constraints_trans_consistency"),
    ("tir.analysis.analysis", "verify_memory"), ("tir.transform.transform", "MakePackedAPI"), ("arith", "solve_linear_equations"),
])  # fmt: skip
def test_removed_name_says_what_it_did_in_every_module_that_had_it(module: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"module `tvmagic.{module}` has no name `{name}`: it "):
        getattr(importlib.import_module(f"tvmagic.{module}"), name)


def test_target_module_has_tvms_names() -> None:
    from tvmagic.target.target import Target, create, cuda

    assert create is tvmagic.target.create and cuda is tvmagic.target.cuda and isinstance(Target("llvm"), Target)


def test_what_is_named_instead_is_there() -> None:
    """The names to write are names here; none of them is already one of the module's own."""
    assert not [name for name in _instead.TOP_LEVEL if hasattr(tvmagic, name)]
    for path in _instead.TOP_LEVEL.values():
        owner = tvmagic
        for part in path.split("."):
            owner = getattr(owner, part)
    for module, names in _instead.OF_MODULE.items():
        owner = importlib.import_module(module)
        assert not [name for name in names if hasattr(owner, name)], module


@pytest.mark.parametrize("file", ["stmt", "expr", "op", "buffer", "function"])
def test_files_of_tensor_ir_have_each_others_names(file: str) -> None:
    module = importlib.import_module(f"tvmagic.tir.{file}")
    assert module.IterVar is tvmagic.tir.IterVar and module.BlockRealize is tvmagic.tir.BlockRealize
    with pytest.raises(AttributeError, match=f"`tvmagic.tir.{file}` has no name `nothing_of_that_name`"):
        module.nothing_of_that_name
