"""What is known of targets by their features, tags and options: small decisions, each as a table with its boundaries."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.target import Target, host
from tvmagic.target.check import why_refused
from tvmagic.target.families import X86, AArch64, Processors, RiscV
from tvmagic.target.machine import Cache, Machine, at_width, described
from tvmagic.target.tags import list_tags, tagged_target
from tvmagic.target.target import cpu_and_features, has_feature

X86_64, ARM_64, RISCV_64 = ("llvm -mtriple=" + arch + "-linux-gnu" for arch in ("x86_64", "aarch64", "riscv64"))


@pytest.mark.parametrize(
    ("own", "on", "off", "vectors"),
    [
        (128, "", "", (128, 16)), (128, "avx", "", (256, 16)), (128, "avx2", "", (256, 16)), (128, "avx512f", "", (512, 32)),
        (128, "sse4.2", "", (128, 16)), (128, "avx avx2", "", (256, 16)), (128, "avx2 avx512f", "", (512, 32)),
        (256, "", "", (256, 16)), (256, "", "avx", (128, 16)), (256, "", "avx2", (128, 16)), (256, "avx", "", (256, 16)),
        (256, "avx512f", "", (512, 32)), (256, "", "avx512f", (256, 16)), (256, "", "fma", (256, 16)),
        (512, "", "", (512, 32)), (512, "avx", "", (512, 32)), (512, "avx2", "", (512, 32)), (512, "", "avx512f", (256, 16)),
        (512, "", "avx2", (128, 16)), (512, "", "avx", (128, 16)), (512, "", "avx512f avx2", (128, 16)), (512, "", "avx512f avx", (128, 16)), (512, "", "sse", (512, 32)),
    ],
)  # fmt: skip
def test_vectors_of_x86_by_features(own: int, on: str, off: str, vectors: tuple[int, int]) -> None:
    processors = Processors("", (own, 32 if own == 512 else 16))
    assert X86().vectors(processors, set(on.split()), set(off.split())) == vectors


@pytest.mark.parametrize(
    ("rate", "widest", "bits", "found"),
    [(1, 512, 512, 1), (1, 512, 256, 2), (1, 512, 128, 1), (2, 512, 512, 2), (2, 512, 256, 2), (4, 512, 256, 4), (1, 256, 256, 1)],
)  # fmt: skip
def test_multiply_adds_of_half_as_wide_vectors(rate: int, widest: int, bits: int, found: int) -> None:
    """What takes two turns for its widest vectors does two of half the width at a time."""
    assert X86().fma(Processors("", (widest, 32), (rate, 7)), bits) == (found, 7)
    assert AArch64().fma(Processors("", (widest, 32), (rate, 7)), bits) == (rate, 7)


@pytest.mark.parametrize(
    ("on", "vectors"),
    [("", (64, 32)), ("m a f d", (64, 32)), ("v", (128, 32)), ("v zvl128b", (128, 32)), ("v zvl64b", (128, 32)),
     ("v zvl256b zvl1024b", (1024, 32)), ("zvl512b", (64, 32))],
)  # fmt: skip
def test_vectors_of_riscv(on: str, vectors: tuple[int, int]) -> None:
    assert RiscV().vectors(RiscV.processors[0], set(on.split()), set()) == vectors


def test_vectors_of_arm() -> None:
    known = Processors("", (128, 32))
    assert AArch64().vectors(known, set(), set()) == (128, 32) and AArch64().vectors(known, set(), {"neon"}) == (64, 32)
    assert AArch64().vectors(known, {"sve"}, {"sve2"}) == (128, 32)


@pytest.mark.parametrize(
    ("target", "run_by"),
    [(ARM_64, "aarch64"), (ARM_64 + " -mattr=+sve", "aarch64-sve"), (RISCV_64, "riscv64"), (RISCV_64 + " -mattr=+v", "riscv64-v"),
     ("llvm -mtriple=riscv32-none", ""), ("llvm -mtriple=wasm32-unknown-unknown", "wasm32"), ("llvm -mtriple=wasm64-unknown", ""),
     (X86_64, ""), ("nvptx", "nvptx64"), ("opencl", "opencl")],
)  # fmt: skip
def test_what_runs_the_code_of_a_target(target: str, run_by: str) -> None:
    assert Target(target).family.runs_as(Target(target)) == run_by


@pytest.mark.parametrize(
    ("features", "has"),
    [("", False), ("+sve", True), ("-sve", False), ("+sve,-sve", False), ("-sve,+sve2", True), ("+v9.6a", True), ("+v8a", False)],
)  # fmt: skip
@pytest.mark.parametrize(("processor", "known"), [("", False), ("neoverse-v2", True), ("cortex-a72", False)])
def test_scalable_vectors_of_arm(features: str, has: bool, processor: str, known: bool) -> None:
    """The last feature that says something counts; if none does, the processor."""
    text = ARM_64 + (f" -mattr={features}" if features else "") + (f" -mcpu={processor}" if processor else "")
    says = any(feature[1:] != "v8a" for feature in features.split(",") if feature)
    assert Target(text).has_sve is (has if says else known)
    assert not Target(text.replace("aarch64", "riscv64")).has_sve


@pytest.mark.parametrize(
    ("options", "bits"),
    [("", 0), ("-mattr=+sve", 128), ("-mcpu=a64fx", 512), ("-mcpu=neoverse-v1", 256), ("-mcpu=neoverse-512tvb", 256),
     ("-mcpu=neoverse-v2", 128), ("-mcpu=a64fx -vector-width=256", 256), ("-mcpu=a64fx -mattr=-sve", 0), ("-vector-width=256", 0),
     *((f"-mattr=+sve -vector-width={width}", width) for width in (128, 512, 1024, 2048))],
)  # fmt: skip
def test_bits_of_scalable_vectors(options: str, bits: int) -> None:
    target = Target(f"{ARM_64} -num-cores=1 {options}")
    assert target.sve_bits == bits
    assert target.machine.vector_bits == (int(target.attrs.get("vector-width", 0)) or bits or 128)


@pytest.mark.parametrize("width", [64, 192, 384, 4096])
def test_widths_that_no_processor_has(width: int) -> None:
    with refuses("target.wrong_vector_bits"):
        _ = Target(f"{ARM_64} -mattr=+sve -vector-width={width}").sve_bits


@pytest.mark.parametrize(
    ("features", "has"),
    [("", False), ("+v", True), ("-v", False), ("+v,-v", False), ("-v,+v", True), ("+zvl256b", False)],
)
def test_vectors_of_riscv_are_the_last_that_is_said(features: str, has: bool) -> None:
    assert Target(f"{RISCV_64} -mattr={features}" if features else RISCV_64).has_rvv is has
    assert not Target(f"{X86_64} -mattr={features}" if features else X86_64).has_rvv


def test_tags() -> None:
    """Half of what AWS counts as CPUs are cores; NVIDIA's shared memory, registers and second caches."""
    cpus = {
        "large": 2,
        "xlarge": 4,
        "2xlarge": 8,
        "4xlarge": 16,
        "9xlarge": 36,
        "12xlarge": 48,
        "18xlarge": 72,
        "24xlarge": 96,
    }
    assert {tag.rpartition(".")[2] for tag in list_tags() if tag.startswith("aws/")} == cpus.keys()
    for size, count in cpus.items():
        assert Target(f"aws/cpu/c5.{size}").machine.cores == count // 2
    caches = {"nvidia-a100": 40, "nvidia-h100": 50, "geforce-rtx-4090": 72}
    for tag in list_tags():
        found = Target(tag)
        if found.kind.name == "cuda":
            kib = found.attrs["max_shared_memory_per_block"] / 1024, found.attrs["registers_per_block"] / 1024
            assert (*kib, found.attrs["max_threads_per_block"], found.max_num_threads) == (48, 64, 1024, 1024), tag
            mib = caches.get(tag.partition("/")[2])
            assert found.attrs.get("l2_cache_size_bytes") == (mib << 20 if mib else None)
    pi, jetson = Target("raspberry-pi/4b-aarch64"), Target("nvidia/jetson-agx-xavier")
    assert pi.machine.cores == 4 and jetson.host is not None and jetson.host.machine.cores == 8
    assert tagged_target("nvidia/none") is None and tagged_target("") is None


@pytest.mark.parametrize(
    ("kind", "number", "threads", "warp"),
    [("llvm", 1, 1, 1), ("c", 1, 1, 1), ("cuda", 2, 1024, 32), ("nvptx", 2, 1024, 32), ("rocm", 10, 256, 64), ("opencl", 4, 256, 1),
     ("metal", 8, 256, 16), ("vulkan", 7, 256, 1), ("webgpu", 15, 256, 1), ("hexagon", 16, 1, 1), ("ext_dev", 12, 1, 1)],
)  # fmt: skip
def test_kinds_as_in_tvm(kind: str, number: int, threads: int, warp: int) -> None:
    target = Target(kind)
    assert (target.kind.default_device_type, target.max_num_threads, target.thread_warp_size) == (number, threads, warp)


def machine(bits: int = 256, registers: int = 16, fma: tuple[int, int] = (2, 4), **more: Any) -> Machine:
    caches = Cache(1, 32 << 10), Cache(2, 512 << 10), Cache(3, 16 << 20, 8)
    return Machine("x", bits, registers, *fma, 2, 64, caches, more.pop("cores", 4), "a test", **more)


@pytest.mark.parametrize("fma", [(1, 4), (2, 4), (2, 5), (1, 8), (4, 4)])
@pytest.mark.parametrize("registers", [16, 32])
def test_the_tile_of_a_product(registers: int, fma: tuple[int, int]) -> None:
    """The cheapest for an element of those that fit the registers, as by trying all; one that divides, if it is not much slower."""
    m = machine(registers=registers, fma=fma)
    shapes = [
        (r, v) for r, v in itertools.product(range(1, 40), range(1, 5)) if r * v + v + (2 if v <= 2 else 1) <= registers
    ]
    assert sorted(m.tiles()) == sorted(shapes)

    def cost(shape: tuple[int, int]) -> float:
        rows, vectors = shape
        loads, sums = rows + vectors, rows * vectors
        slowest = max(sums / fma[0], fma[1], loads / 2)
        return (slowest + loads / 20 + 0.2 * max(0.0, 1.5 * fma[1] - sums / fma[0])) / sums

    least = min(map(cost, shapes))
    assert cost((m.tile().rows, m.tile().vectors)) == pytest.approx(least)
    for rows, columns in [(None, None), (64, 64), (12, 96), (7, 16), (13, 40), (1, 8), (100, 1000), (0, 32)]:
        tile = m.tile("float32", rows, columns)
        even = [
            s for s in shapes if (rows or 0) % s[0] == 0 and (columns or 0) % (8 * s[1]) == 0 and cost(s) < 1.5 * least
        ]
        assert cost((tile.rows, tile.vectors)) == pytest.approx(min(map(cost, even), default=least))
        assert (tile.lanes, tile.columns, tile.registers) == (8, 8 * tile.vectors, registers)


def test_what_a_core_has_of_a_machine() -> None:
    assert [machine(cores=n).cache(3) >> 20 for n in (1, 2, 4, 8, 16)] == [16, 8, 4, 2, 2]
    assert [machine().cache(n) >> 10 for n in (1, 2, 3, 4)] == [32, 512, 4096, 4096]
    assert [machine(stored=32).storing(size) for size in (8, 16, 32, 64)] == [0.5, 0.5, 1.0, 2.0]
    assert [machine().lanes(dtype) for dtype in ("int8", "float16", "float32", "float64")] == [32, 16, 8, 4]
    assert machine(bits=32).lanes("float64") == 1 and at_width(machine(), 128).lanes("float32") == 4
    assert machine(fma=(2, 5)).sums_in_flight() == 10


def test_a_processor_of_which_nothing_is_known() -> None:
    known = described("x86_64-linux-gnu", "haswell", "-avx2,+fma", False, 3)
    assert (known.generic, known.cores, known.vector_bits, known.source) == (False, 3, 128, "the family of haswell")
    assert [(c.level, c.cores > 0) for c in known.caches] == [(1, True), (2, True), (3, True)]
    assert [c.cores for c in known.caches[:2]] == [1, 1]
    other = described("mips64-linux-gnu", "", "", False, 2)
    assert (
        other.generic and other.source == "a common processor, as nothing is known of mips64" and other.name == "mips64"
    )
    assert [c.size >> 10 for c in other.caches] == [32, 256] and (
        other.line,
        other.stored,
        other.shuffles_per_cycle,
    ) == (64, 0, 1)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("llvm -opt-level=0", {"opt-level": 0}), ("llvm -opt-level 3", {"opt-level": 3}), ("llvm -fast-math", {"fast-math": True}),
        ("llvm -fast-math=true -mattr=+a,,-b", {"fast-math": True, "mattr": ["+a", "-b"]}),
        ("llvm -fast-math=0 -link-params -opt-level=1", {"fast-math": False, "link-params": True, "opt-level": 1}),
        ("opencl -other=-12 -word=a1", {"max_num_threads": 256, "thread_warp_size": 1, "other": -12, "word": "a1"}),
    ],
)  # fmt: skip
def test_options_of_targets(text: str, values: dict[str, Any]) -> None:
    assert Target(text).attrs == values


@pytest.mark.parametrize("level", [-1, 4])
def test_levels_that_there_are_not(level: int) -> None:
    with pytest.raises(TVMagicError, match="`opt-level`"):
        Target({"kind": "llvm", "opt-level": level})


@pytest.mark.parametrize(
    ("asked", "own", "here"),
    [
        ("", "x86_64-unknown-linux-gnu", True), ("x86_64-linux-gnu", "x86_64-unknown-linux-gnu", True), ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-gnu", True),
        ("x86_64-pc-windows-msvc", "x86_64-unknown-linux-gnu", False), ("aarch64-linux-gnu", "x86_64-unknown-linux-gnu", False), ("x86_64-unknown-freebsd", "x86_64-unknown-linux-gnu", False),
        ("x86_64-gnu", "x86_64-unknown-linux-gnu", False), ("x86_64", "x86_64-unknown-linux-gnu", False), ("arm64-apple-darwin", "arm64-apple-darwin23", True), ("linux-x86_64", "x86_64-unknown-linux-gnu", False),
        ("arm64-apple-ios", "arm64-apple-darwin23.1.0", False), ("arm64-apple-macosx14.0", "arm64-apple-darwin23.1.0", True), ("x86_64-linux-musl", "x86_64-unknown-linux-gnu", True),
        ("x86_64-w64-windows-gnu", "x86_64-pc-windows-msvc", True), ("x86_64-pc-freebsd", "x86_64-pc-linux-gnu", False),
    ],
)  # fmt: skip
def test_code_that_can_run_in_this_process(asked: str, own: str, here: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same architecture and system; the vendor and `gnu` do not count."""
    monkeypatch.setattr("tvmagic.target.target.host_triple", lambda: own)
    assert Target(f"llvm -mtriple={asked}" if asked else "llvm").is_host is here
    assert not Target("nvptx").is_host and not Target("opencl").is_host


def test_targets_and_their_hosts() -> None:
    gpu, cpu = Target("cuda"), Target("llvm -mcpu=haswell")
    assert [Target(t).get_target_device_type() for t in ("llvm", "cuda", "nvptx", "opencl", "c")] == [1, 2, 2, 4, 1]
    assert Target.canon_target(None) is None and Target.canon_target(cpu) is cpu and Target.canon_target("cuda") == gpu
    assert Target.canon_target_and_host(None, cpu) == (None, None) and Target.canon_target_and_host("cuda", cpu) == (
        Target(gpu, cpu),
        cpu,
    )
    assert Target.canon_target_and_host(Target(gpu, cpu)) == (Target(gpu, cpu), cpu) and Target.canon_target_and_host(
        gpu
    ) == (gpu, None)
    both = gpu.with_host(cpu)
    assert (
        both.host == cpu
        and both != gpu
        and both.without_host() == gpu
        and gpu.without_host() is gpu
        and gpu.host is None
    )
    assert (
        both != Target(gpu, "llvm")
        and gpu != "cuda"
        and gpu == Target("cuda")
        and hash(gpu) == hash(Target("cuda"))
        and gpu != cpu
    )
    assert both.export()["host"]["kind"] == "llvm" and "host" not in gpu.export() and Target(both.export()) == both
    assert Target(both).host == cpu and Target({"kind": "cuda", "host": "llvm -mcpu=haswell"}) == both
    with gpu:
        assert Target.current() is gpu and Target.current(allow_none=False) is gpu
    assert Target.current() is None


@pytest.mark.parametrize(
    ("text", "keys"),
    [("llvm", ["cpu"]), (ARM_64, ["arm_cpu", "cpu"]), (X86_64, ["cpu"]), ("llvm -device=arm_cpu", ["arm_cpu", "cpu"]), ("cuda", ["cuda", "gpu"]),
     ("llvm -keys=a,b -device=c", ["a", "b"]), ("opencl -device=mali", ["mali", "opencl", "gpu"]), ("c -mtriple=armv7a-linux", ["cpu"])],
)  # fmt: skip
def test_keys_of_targets(text: str, keys: list[str]) -> None:
    assert Target(text).keys == keys


def test_what_else_options_say() -> None:
    assert (
        Target("llvm -mattr=+dotprod").supports_integer_dot_product and not Target("llvm").supports_integer_dot_product
    )
    assert (
        not Target("llvm -mattr=-dotprod").supports_integer_dot_product
        and Target("vulkan -supports_integer_dot_product=1").supports_integer_dot_product
    )
    assert [Target(text).model for text in ("llvm", "cuda -model=a100")] == ["unknown", "a100"]
    assert (
        Target("cuda -tag=x").tag == "x"
        and "tag" not in Target({"kind": "cuda", "tag": ""}).attrs
        and Target({"kind": "cuda", "tag": "nvidia/nvidia-a100"}).arch == ""
    )
    assert Target("llvm").get("mcpu", "none") == "none" and Target("llvm -mcpu=x").get("mcpu") == "x"
    for refused in ("nvptx", "rocm", "opencl"):
        with refuses("target.not_a_cpu", "target.unknown_machine"):
            _ = Target(refused).machine
    with refuses("target.missing_kind", names="`kind`"):
        Target({"mcpu": "x"})


@pytest.mark.parametrize(
    ("text", "feature", "has"),
    [(f"{X86_64} -mattr=+a", "a", True), (f"{X86_64} -mattr=-a", "a", False), (f"{X86_64} -mattr=+a,-a", "a", False), (f"{X86_64} -mattr=-a,+a", "a", True),
     (X86_64, "a", False), (f"{X86_64} -mattr=+aa", "a", False), (f"{ARM_64} -mattr=+a", "a", True), (X86_64, "prefer-no-gather", True),
     (f"{X86_64} -mattr=-prefer-no-gather", "prefer-no-gather", False)],
)  # fmt: skip
def test_features_that_are_given(text: str, feature: str, has: bool) -> None:
    assert has_feature(Target(text), feature) is has


@pytest.mark.parametrize(
    ("text", "parts"),
    [("nvptx", ("nvptx64-nvidia-cuda", "sm_70", "")), ("cuda -arch=sm_90", ("nvptx64-nvidia-cuda", "sm_90", "")), ("nvptx -mcpu=sm_61", ("nvptx64-nvidia-cuda", "sm_61", "")),
     ("nvptx -mtriple=nvptx-nvidia-cuda", ("nvptx-nvidia-cuda", "sm_70", "")), (f"{X86_64} -mcpu=haswell", ("x86_64-linux-gnu", "haswell", "+prefer-no-gather")),
     (f"{ARM_64} -mattr=+sve,+a", ("aarch64-linux-gnu", "", "+sve,+a"))],
)  # fmt: skip
def test_what_llvm_is_told(text: str, parts: tuple[str, str, str]) -> None:
    assert cpu_and_features(Target(text)) == parts


def test_with_llvm_it_is_there() -> None:
    assert host.has_llvm() is True and host.require_llvm() is None


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (("llvm.sqrt.f64", "double", ["double"], ["double %x"]), False), (("llvm.trap", "void", [], []), False), (("llvm.x86.avx512.sqrt.ps.512", "<16 x float>", ["<16 x float>", "i32"], ["<16 x float> %x", "i32 4"]), True),
        (("llvm.ctlz.i32", "i32", ["i32", "i1"], ["i32 %x", "i1 true"]), False),
    ],
)  # fmt: skip
def test_intrinsics_that_llvm_takes(call: tuple[str, str, list[str], list[str]], refused: bool) -> None:
    """What is constant in the call must be so where LLVM is asked, too."""
    why = why_refused(("x86_64-linux-gnu", "haswell", ""), *call)
    assert (why is not None) is refused


@pytest.mark.parametrize("text", ["llvm", "llvm -mcpu=haswell", "llvm -mattr=+avx2", "llvm -mcpu=haswell -mattr=+avx2"])
def test_code_for_this_machine_does_without_what_it_lacks(
    text: str,
) -> None:
    """Features are only taken away, and the user's own come last."""
    target = Target(text)
    found = target.for_this_machine()
    added = list(found.mattr)[: len(found.mattr) - len(target.mattr)]
    assert all(feature.startswith("-") for feature in added) and list(found.mattr)[len(added) :] == list(target.mattr)
    assert found.mcpu == target.mcpu and (text != "llvm" or found is target)
