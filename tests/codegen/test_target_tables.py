"""What is known of targets by their features, tags and options: small decisions, each as a table with its boundaries."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.target import Target
from tvmagic.target.check import why_refused
from tvmagic.target.machine import Cache, Machine
from tvmagic.target.tags import list_tags, tagged_target

X86_64, ARM_64, RISCV_64 = ("llvm -mtriple=" + arch + "-linux-gnu" for arch in ("x86_64", "aarch64", "riscv64"))


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


@pytest.mark.parametrize("level", [-1, 4])
def test_levels_that_there_are_not(level: int) -> None:
    with pytest.raises(TVMagicError, match="`opt-level`"):
        Target({"kind": "llvm", "opt-level": level})


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
