"""What the code is compiled for: `Target("llvm -mcpu=skylake-avx512")`."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from tvmagic import find_name as _find_name
from tvmagic.errors import BuildError, TVMagicError, did_you_mean
from tvmagic.interrupts import deferring_interrupts
from tvmagic.ir import Identified, register_json
from tvmagic.target.check import check_architecture, check_features_of_host, check_machine
from tvmagic.target.families import NVPTX, X86, AArch64, Family, OpenCL, RiscV, family_of, family_of_triple
from tvmagic.target.host import host_cpu, host_triple, llvm_version
from tvmagic.target.kinds import KINDS, TargetKind
from tvmagic.target.llvm_module import parse_module
from tvmagic.target.machine import Machine, Tile, at_width, described
from tvmagic.target.systems import named_systems
from tvmagic.target.tags import tagged_target

# The environment variable that names the target of what is compiled without one.
VARIABLE = "TVMAGIC_TARGET"

_WITH_CODE = ("llvm", "c")  # kinds whose options are all known
# What says that a processor for AArch64 has SVE.
_SVE_FEATURES = frozenset(("sve", "sve2", "v9a", "v9.1a", "v9.2a", "v9.3a", "v9.4a", "v9.5a", "v9.6a"))
_SVE_PROCESSORS = frozenset(
    """a64fx cortex-a510 cortex-a520 cortex-a520ae cortex-a710 cortex-a715 cortex-a720 cortex-a720ae cortex-a725
    cortex-x2 cortex-x3 cortex-x4 cortex-x925 fujitsu-monaka grace neoverse-512tvb neoverse-n2 neoverse-n3
    neoverse-v1 neoverse-v2 neoverse-v3 neoverse-v3ae""".split()
)
# Bits of the scalable vectors of processors that have more than 128.
_SVE_BITS = {"a64fx": 512, "neoverse-v1": 256, "neoverse-512tvb": 256}
# Options by kind of value; `mattr`, `keys` and `libs` are lists of texts divided by commas.
_OPTIONS = {
    "mcpu": str, "mtriple": str, "mfloat-abi": str, "mabi": str, "arch": str, "model": str, "device": str, "tag": str,
    "mattr": list, "keys": list, "libs": list, "cl-opt": list,
    "num-cores": int, "opt-level": int, "max_num_threads": int, "thread_warp_size": int, "vector-width": int,
    "max_threads_per_block": int, "max_shared_memory_per_block": int, "registers_per_block": int,
    "l2_cache_size_bytes": int,
    "fast-math": bool, "fast-math-nnan": bool, "fast-math-ninf": bool, "fast-math-nsz": bool,
    "fast-math-arcp": bool, "fast-math-contract": bool, "fast-math-reassoc": bool, "link-params": bool,
}  # fmt: skip


class Target(Identified):
    """A kind of code generator with its options.

    `target` is a text (`"llvm -mtriple=aarch64-linux-gnu -mattr=+sve"`), a tag (`"nvidia/nvidia-a100"`: `tags.py`), a
    JSON text or mapping with the key `kind` (or `tag`), or a Target. `host` is the target of the code that calls this one's. Used in a
    `with`, it is what `Target.current()` gives. The triple, CPU and features are the host's
    where neither `mtriple` nor `mcpu` is given.
    """

    _stack = threading.local()

    def __init__(self, target: Any = "llvm", host: Any = None) -> None:
        if isinstance(target, Target):
            kind, attrs, own_host = target.kind.name, dict(target.attrs), target.host
        elif isinstance(target, Mapping):
            kind, attrs, own_host = _from_mapping(target)
        elif isinstance(target, str):
            text = target.strip()
            kind, attrs, own_host = _from_mapping(json.loads(text)) if text.startswith("{") else _from_text(text)
        else:
            raise TVMagicError(
                f"`{target!r}` is not a target",
                hint='write a text such as "llvm -mcpu=znver4"',
                code="target.not_a_target",
            )
        self.kind = TargetKind(kind)
        self.attrs: dict[str, Any] = {**self.kind.default_options, **attrs}
        self.host: Target | None = Target(host) if host is not None else own_host

    @property
    def tag(self) -> str:
        """The tag by which it was named; empty if there was none."""
        return str(self.attrs.get("tag", ""))

    @staticmethod
    def list_kinds() -> list[str]:
        """The kinds of targets."""
        return list(KINDS)

    @property
    def keys(self) -> list[str]:
        """What kinds of target it is, by TVM's names (`cpu`)."""
        given = self.attrs.get("keys")
        own = self.family.keys if self.kind.name == "llvm" and self.mtriple else ()
        first = [str(self.attrs["device"])] if not given and self.attrs.get("device") else []
        return list(dict.fromkeys([*first, *(given or [*own, *self.kind.default_keys])]))

    @property
    def arch(self) -> str:
        """The architecture of a GPU (`sm_80`); empty if it is not given."""
        return str(self.attrs.get("arch", ""))

    @property
    def max_num_threads(self) -> int:
        """How many threads a block of a GPU has at most."""
        return int(self.attrs.get("max_num_threads", 1))

    @property
    def thread_warp_size(self) -> int:
        """How many threads of a GPU run in step."""
        return int(self.attrs.get("thread_warp_size", 1))

    @property
    def model(self) -> str:
        """The name of the device; `unknown` if it is not given."""
        return str(self.attrs.get("model", "unknown"))

    @property
    def device_name(self) -> str:
        """The name of the device of its kind; empty if it is not given."""
        return str(self.attrs.get("device", ""))

    @property
    def supports_integer_dot_product(self) -> bool:
        """Whether there are dot products of bytes: by the option of that name, or a feature."""
        return bool(self.attrs.get("supports_integer_dot_product")) or "+dotprod" in self.mattr

    def get_target_device_type(self) -> int:
        """TVM's number of the kind of device: 1 for CPUs, 2 for CUDA, 4 for OpenCL, ..."""
        return 2 if self.is_nvptx else self.kind.default_device_type

    @staticmethod
    def canon_target(target: Any) -> Target | None:
        """What stands for a target as one; None stays."""
        return target if target is None or isinstance(target, Target) else Target(target)

    @staticmethod
    def canon_target_and_host(target: Any, target_host: Any = None) -> tuple[Target | None, Target | None]:
        """A target with its host: that of its own, or the one given."""
        if target is None:
            return None, None
        found = Target(target, target_host) if target_host is not None else Target(target)
        return found, found.host

    @staticmethod
    def target_or_current(target: Any) -> Target:
        """A target, by default the innermost that is entered with `with`."""
        found = Target.canon_target(target) or Target.current()
        if found is None:
            raise TVMagicError(
                "Target is not set in env or passed as argument.", hint="name a target", code="target.none_current"
            )
        return found

    @property
    def libs(self) -> list[str]:
        """The libraries that may be called."""
        return list(self.attrs.get("libs", []))

    @property
    def mcpu(self) -> str:
        """The processor by LLVM's name; empty for the kind's own."""
        return str(self.attrs.get("mcpu", ""))

    @property
    def mattr(self) -> list[str]:
        """The processor's features that are switched on (`+avx2`) or off (`-avx512f`)."""
        return list(self.attrs.get("mattr", []))

    @property
    def mtriple(self) -> str:
        """LLVM's target triple; empty for the kind's own."""
        return str(self.attrs.get("mtriple", ""))

    @property
    def has_sve(self) -> bool:
        """Whether the target has AArch64's scalable vectors: by a feature (`+sve`) or by its processor."""
        if not isinstance(self.family, AArch64):
            return False
        said = [sign == "+" for sign, name in ((f[0], f[1:]) for f in self.mattr) if name in _SVE_FEATURES]
        return said[-1] if said else self.mcpu in _SVE_PROCESSORS

    @property
    def sve_bits(self) -> int:
        """The bits that scalable vectors of AArch64 are taken to have at least, by `vector-width` or by the processor.

        Only with more than 128 do vectors of a fixed number of lanes, such as those of `vectorize`, become scalable
        registers; code that needs more than a processor has stops with an error there. 0 without such vectors.
        Raises TVMagicError for a width that no processor has.
        """
        if not self.has_sve:
            return 0
        bits = self.attrs.get("vector-width") or _SVE_BITS.get(self.mcpu, 128)
        if bits not in (128, 256, 512, 1024, 2048):
            raise TVMagicError(
                f"scalable vectors of AArch64 do not have {bits} bits",
                hint="`vector-width` is 128, 256, 512, 1024 or 2048",
                code="target.wrong_vector_bits",
            )
        return bits

    @property
    def has_rvv(self) -> bool:
        """Whether the target has RISC-V's vectors (`+v`)."""
        if not isinstance(self.family, RiscV):
            return False
        return [f[0] == "+" for f in self.mattr if f[1:] == "v"][-1:] == [True]

    @property
    def family(self) -> Family:
        """What the targets of its architecture have in common."""
        return family_of(self.kind.name, self.mtriple)

    @property
    def is_nvptx(self) -> bool:
        """Whether code for NVIDIA's GPUs is meant."""
        return isinstance(self.family, NVPTX)

    @property
    def is_opencl(self) -> bool:
        """Whether OpenCL C is written."""
        return isinstance(self.family, OpenCL)

    @property
    def has_kernels(self) -> bool:
        """Whether threads and blocks are launched, as GPUs do; other targets run them as loops."""
        return self.family.launches

    @property
    def is_host(self) -> bool:
        """Whether the code can run in this process."""
        if self.has_kernels:
            return False
        if not self.mtriple:
            return True
        own = host_triple()
        same_system = named_systems(self.mtriple) & named_systems(own)
        return self.mtriple.split("-")[0] == own.split("-")[0] and bool(same_system)

    @property
    def machine(self) -> Machine:
        """The processor as schedules depend on it: vectors, registers, caches, cores (`num-cores` sets them).

        Raises TVMagicError for targets that are not CPUs.
        """
        if self.has_kernels:
            raise TVMagicError(
                f"`{self}` is not a CPU: vectors and caches are known for CPUs only", code="target.not_a_cpu"
            )
        if self.kind.name not in _WITH_CODE:
            raise TVMagicError(
                f"no code is made for `{self.kind.name}`, and its vectors and caches are not known",
                hint="name a CPU, such as `llvm -mcpu=haswell` or `llvm -mtriple=aarch64-linux-gnu`",
                code="target.unknown_machine",
            )
        triple, cpu, features = cpu_and_features(self)
        own = not self.mtriple and not self.mcpu
        machine = described(triple, cpu, features, own, self.attrs.get("num-cores"))
        width = self.attrs.get("vector-width") or self.sve_bits
        return at_width(machine, width) if width else machine

    def tile(self, dtype: Any = "float32", rows: int | None = None, columns: int | None = None) -> Tile:
        """The tile of a product that the vector registers hold: `rows`, and `vectors` of `lanes`, together `columns`.

        It divides the sizes of the product, `rows` and `columns`, if they are given and a good tile does.
        """
        return self.machine.tile(dtype, rows, columns)

    def get(self, name: str, default: Any = None) -> Any:
        """The option `name`, or `default` if it is not set."""
        return self.attrs.get(name, default)

    def export(self) -> dict[str, Any]:
        """The target as a mapping from which it can be made again."""
        result: dict[str, Any] = {"kind": self.kind.name, "tag": "", "keys": self.keys, **self.attrs}
        if self.host is not None:
            result["host"] = self.host.export()
        return result

    def for_this_machine(self) -> Target:
        """The same target without the features of its processor that this machine lacks.

        Raises BuildError where one of them is asked for by name.
        """
        if not self.mcpu and not self.mattr:
            return self
        result = Target(self)
        result.attrs["mattr"] = [*check_features_of_host(self.mattr), *self.mattr]
        return result

    def with_host(self, host: Any) -> Target:
        """The same target with `host` as the one on which it is called."""
        return Target(self, host)

    def without_host(self) -> Target:
        """The same target without a host."""
        if self.host is None:
            return self
        alone = Target(self)
        alone.host = None
        return alone

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target entered with `with`."""
        stack = getattr(Target._stack, "items", [])
        if not stack and not allow_none:
            raise TVMagicError(
                "no target is entered", hint='write `with Target("llvm"):` around', code="target.not_entered"
            )
        return stack[-1] if stack else None

    def __enter__(self) -> Target:
        if not hasattr(Target._stack, "items"):
            Target._stack.items = []
        Target._stack.items.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        Target._stack.items.pop()

    def __str__(self) -> str:
        parts = [self.kind.name, f"-keys={','.join(self.keys)}"]
        for name in sorted(k for k in self.attrs if k not in ("keys", "tag")):
            value = self.attrs[name]
            text = ",".join(value) if isinstance(value, list) else int(value) if isinstance(value, bool) else value
            parts.append(f"-{name}={text}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and str(self) == str(other) and self.host == other.host

    def __hash__(self) -> int:
        return hash(str(self))


register_json("Target", Target, Target.export, Target)


def _from_text(text: str) -> tuple[str, dict[str, Any], Target | None]:
    kind, *words = text.split() or [""]
    tagged = tagged_target(kind) if not words else None
    if tagged is not None:
        return _from_mapping(tagged)
    attrs: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        name, eq, value = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            raise TVMagicError(
                f"`{word}` in the target `{text}` is not an option",
                hint="options begin with `-`",
                code="target.not_an_option",
            )
        if not eq:
            value = words.pop(0) if words and not words[0].startswith("-") else "1"
        attrs[name] = _option(kind, name, value)
    return kind, attrs, None


def _from_mapping(values: Mapping[str, Any]) -> tuple[str, dict[str, Any], Target | None]:
    if values.get("tag") and "kind" not in values:
        values = {**(tagged_target(str(values["tag"])) or {}), **values}
    if "kind" not in values:
        raise TVMagicError("a target given as a mapping needs the key `kind`", code="target.missing_kind")
    kind = str(values["kind"])
    attrs = {k: _option(kind, k, v) for k, v in values.items() if k not in ("kind", "host") and (k != "tag" or v)}
    host = values.get("host")
    return kind, attrs, Target(host) if host is not None else None


def _option(target: str, name: str, value: Any) -> Any:
    """The value of an option as its type has it; of a kind of target without code any option is kept."""
    if name not in _OPTIONS:
        if target not in _WITH_CODE:
            return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value
        raise TVMagicError(
            f"a target has no option `{name}`", hint=did_you_mean(name, _OPTIONS), code="target.unknown_option"
        )
    kind = _OPTIONS[name]
    if kind is list:
        return [str(v) for v in value] if isinstance(value, (list, tuple)) else [v for v in str(value).split(",") if v]
    if kind is bool:
        return str(value).lower() in ("1", "true")
    try:
        chosen = kind(value)
    except ValueError as error:
        raise TVMagicError(
            f"the target option `{name}` is a number, not `{value}`", code="target.option_not_a_number"
        ) from error
    if name == "opt-level" and not 0 <= chosen <= 3:
        raise TVMagicError(
            f"the target option `opt-level` is 0, 1, 2 or 3, not {chosen}", code="target.wrong_opt_level"
        )
    return chosen


def host_target() -> Target:
    """The machine that this process runs on."""
    return Target("llvm")


def default_target() -> Target:
    """The target of what is compiled without one: what the environment variable `TVMAGIC_TARGET` names
    (`llvm -mcpu=haswell`), else the machine that this process runs on.

    Raises TVMagicError if the variable does not name a target.
    """
    return _named_target(os.environ.get(VARIABLE, "").strip())


@lru_cache(maxsize=8)
def _named_target(text: str) -> Target:
    if not text:
        return host_target()
    hint = f"set {VARIABLE} to a text such as `llvm -mcpu=haswell`, or unset it"
    try:
        target = Target(text)
        _checked(target)
    except (TVMagicError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise TVMagicError(
            f"the environment variable {VARIABLE} names no target: {why}", hint=hint, code="target.wrong_environment"
        ) from error
    return target


def resolved(target: Any = None) -> Target:
    """`target` as code is made for it; None is the innermost one entered with `with`, else the default.

    A target of the kind `llvm` that names neither a triple nor a processor is the default one with its options added.
    """
    chosen = target if isinstance(target, Target) else Target.current() if target is None else Target(target)
    default = default_target()
    if chosen is None:
        return default
    plain = chosen.kind.name == default.kind.name == "llvm" and not chosen.mtriple and not chosen.mcpu
    if not plain or not default.attrs:
        return chosen
    result = Target(chosen)
    result.attrs = {**default.attrs, **chosen.attrs}
    if mattr := [*default.mattr, *chosen.mattr]:
        result.attrs["mattr"] = mattr
    return result


@cache
def _initialize(every_target: bool) -> None:
    import llvmlite.binding as llvm

    if every_target:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()


def cpu_and_features(target: Target) -> tuple[str, str, str]:
    """Triple, CPU and features of `target`, with the host's if none are given."""
    family = target.family
    features = ",".join([*filter(None, [family.tuning]), *target.mattr])
    if family.triple:
        return target.mtriple or family.triple, target.arch or target.mcpu or family.processor, features
    triple = target.mtriple or host_triple(target.mcpu)
    if target.mtriple or target.mcpu:
        return triple, target.mcpu, features
    cpu, own = host_cpu()
    return triple, cpu, f"{own},{features}" if features else own


@lru_cache(maxsize=32)
@deferring_interrupts
def _machine(triple: str, cpu: str, features: str, level: int) -> Any:
    import llvmlite.binding as llvm

    _initialize(triple != host_triple())
    try:
        chosen = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise BuildError(
            f"LLVM here has no code generator for the triple `{triple}`", code="target.no_code_generator"
        ) from error
    family = family_of_triple(triple)
    if "+avx512" in features and llvm_version() < (21,):
        features += ",+evex512"  # without it such LLVM has AVX-512's instructions, but no registers of 512 bits
    return chosen.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc=family.relocations, codemodel=family.code_model
    )


def target_machine(target: Target, without: str = "") -> Any:
    """LLVM's description of the machine, with the optimization level of `target`; `without` a feature that it may have."""
    triple, cpu, features = _checked(target)
    features = ",".join(filter(None, [features, without and f"-{without}"]))
    return _machine(triple, cpu, features, int(target.attrs.get("opt-level", 3)))


def _checked(target: Target) -> tuple[str, str, str]:
    """Triple, CPU and features of `target`, which LLVM can make code for."""
    parts = cpu_and_features(target)
    check_architecture(parts[0])
    if target.mcpu or target.mattr or target.attrs.get("arch"):
        check_machine(*parts)
    return parts


@lru_cache
@deferring_interrupts
def _layout(triple: str, cpu: str, features: str, level: int) -> str:
    return str(_machine(triple, cpu, features, level).target_data)


def layout_of(target: Target) -> tuple[str, str]:
    """Triple and data layout of `target`, as LLVM's text writes them."""
    triple, cpu, features = _checked(target)
    return triple, _layout(triple, cpu, features, int(target.attrs.get("opt-level", 3)))


# LLVM is asked what a processor has, as `haswell` has a multiply-add without naming it.
_MULTIPLY_ADD = """
    declare float @llvm.fmuladd.f32(float, float, float)
    define float @f(float %a, float %b, float %c) {
      %r = call float @llvm.fmuladd.f32(float %a, float %b, float %c)
      ret float %r
    }"""
_WIDE_ADD = """
    define <16 x float> @f(<16 x float> %a, <16 x float> %b) "min-legal-vector-width"="512" {
      %r = fadd <16 x float> %a, %b
      ret <16 x float> %r
    }"""


def has_fma(target: Target) -> bool:
    """Whether the machine has an instruction for a multiply-add."""
    return re.search(r"\b(v?fn?m(add|a)|fma)", _assembly(_MULTIPLY_ADD, *_checked(target))) is not None


def has_avx512(target: Target) -> bool:
    """Whether the machine has x86's vectors of 512 bits."""
    return isinstance(target.family, X86) and "%zmm" in _assembly(_WIDE_ADD, *_checked(target))


@lru_cache
@deferring_interrupts
def _assembly(text: str, triple: str, cpu: str, features: str) -> str:
    """What LLVM makes of a function for a processor."""
    module = parse_module(f'target triple = "{triple}"{text}')
    return _machine(triple, cpu, features, 3).emit_assembly(module)


def has_feature(target: Target, name: str) -> bool:
    """Whether the features of `target` that are given or the host's name `name`."""
    features = cpu_and_features(target)[2]
    return [feature[0] for feature in features.split(",") if feature[1:] == name][-1:] == ["+"]


def __getattr__(name: str) -> Any:
    return _find_name("tvmagic.target.target", name)
