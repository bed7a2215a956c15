"""Laws of the late passes, over kernels, operators and random programs: what each pass keeps, alone and with the others."""

from __future__ import annotations

import inspect
import random
import re
from typing import Any

import numpy as np
import pytest
from late_passes import HASWELL, PAST, SKYLAKE, UNCHANGED, X86_64_V2
from late_programs import arrays_of, program_text, random_program
from sampling import some
from te_generator import Program
from ten_kernels import NAMES, scheduled_for_cpu

from tvmagic import codegen, lower, te
from tvmagic.codegen.emit.module import emit_module
from tvmagic.codegen.late.common import LATE_PASSES
from tvmagic.codegen.late.order import late_passes
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.ir import IRModule
from tvmagic.passes import PassContext, recording
from tvmagic.script import from_source
from tvmagic.target import resolved

WASM = "llvm -mtriple=wasm32-unknown-unknown"
SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+sve"
TARGETS = ("llvm", HASWELL, SKYLAKE, X86_64_V2, WASM, SVE)
# Passes without which the emitter refuses some programs, by the refusal's code.
NEEDED = {"codegen.mask_not_legal": "late.LegalizeMasks"}
# Passes that a second run of all passes may still apply, each with what a later pass of the first run made. May only shrink.
ENABLED_BY_LATER_PASSES = {
    "late.VersionGuardedLoops": "LegalizeMasks makes guards of the masks of scalars",
    "late.VectorizeInterleavedStores": "SpeculateLoads makes Selects of conditionals",
}
SHORT, SEEDS = range(24), range(2000)
CHUNK = 20  # seeds of one test


def chunks(short: range = SHORT) -> list[Any]:
    """Ranges of seeds; the normal tests run those of `short`."""
    starts = [range(at, at + CHUNK) for at in range(0, SEEDS.stop, CHUNK)]
    return some([(seeds,) for seeds in (short, *starts)], [(short,)])


def target_of(seed: int) -> str:
    return TARGETS[seed // 3 % len(TARGETS)]


def te_program(seed: int) -> tuple[IRModule, list[Any]]:
    """A random schedule of a random tensor program, lowered, and its arrays."""
    program, rng = Program(seed), np.random.default_rng(seed)
    shapes = [([int(n) for n in tensor.shape], str(tensor.dtype)) for tensor in program.args]
    return lower(program.s, program.args), [rng.integers(-9, 9, shape).astype(dtype) for shape, dtype in shapes]


def check_text(mod: IRModule, target: str) -> None:
    """Assert that the last program, printed and parsed, has the same LLVM text, and that the passes change it no more."""
    machine = resolved(target)
    last = codegen.last_program(mod, machine)
    with recording() as record:
        unchanged = codegen.last_program(last, machine) is last
    first = next((step.name for step in record if step.changed), None)
    assert unchanged == (first is None) and (unchanged or first in ENABLED_BY_LATER_PASSES), first
    again = from_source(last.script())
    again = again if isinstance(again, IRModule) else IRModule.from_expr(again)
    one, other = (emit_module(program, machine).text.text() for program in (last, again))
    assert one == other, "\n".join(pair_of_lines(one, other))


def pair_of_lines(one: str, other: str) -> list[str]:
    """The first lines that differ."""
    pairs = zip(one.splitlines(), other.splitlines())
    return next(([a, b] for a, b in pairs if a != b), ["one text is longer"])


def check_each_pass(mod: IRModule, target: str, arrays: list[Any] | None = None) -> None:
    """Assert that each pass changes its result no more, notes what it did, and keeps the values of the program."""
    machine = resolved(target)
    wanted = None if arrays is None else run(mod, arrays)
    for step in late_passes(machine):
        with recording() as record:
            made = step(mod)
        texts = [note.text for note in record.notes("late")]
        assert all(PAST.match(text) for text in texts), texts
        assert (made is not mod) == any(not UNCHANGED.match(text) for text in texts), (step.name, texts)
        assert step(made) is made, f"{step.name} changed its result"
        if wanted is not None and made is not mod:
            for a, b in zip(wanted, run(made, arrays or [])):
                np.testing.assert_array_equal(a, b, f"after {step.name}")
        mod = made


def run(mod: IRModule, arrays: list[Any]) -> list[np.ndarray]:
    """What the interpreter leaves in the arrays."""
    (func,) = mod.functions.values()
    copies = [array.copy() for array in arrays]
    run_function(func, copies)
    return copies


# ---------------------------------------------------------------------------- programs


@pytest.mark.parametrize("name", NAMES)
def test_kernels_keep_the_laws(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mod = scheduled_for_cpu(name, monkeypatch)
    for target in ("llvm", HASWELL):
        check_text(mod, target)
        check_each_pass(mod, target)


@pytest.mark.parametrize("seeds", chunks())
def test_random_programs_keep_the_laws(seeds: range) -> None:
    """After each pass the interpreter gives the same values."""
    for seed in seeds:
        try:
            mod = random_program(seed)
            check_text(mod, target_of(seed))
            check_each_pass(mod, target_of(seed), arrays_of(seed))
        except Exception as error:
            error.add_note(f"seed {seed}, target {target_of(seed)}\n{program_text(seed)}")
            raise


@pytest.mark.parametrize("seeds", chunks(range(8)))
def test_random_schedules_keep_the_laws(seeds: range) -> None:
    for seed in seeds:
        try:
            mod, arrays = te_program(seed)
        except TVMagicError:
            continue
        try:
            check_text(mod, target_of(seed))
            check_each_pass(mod, target_of(seed), arrays)
        except Exception as error:
            error.add_note(f"seed {seed}, target {target_of(seed)}")
            raise


@pytest.mark.parametrize("seeds", chunks(range(8)))
def test_without_some_passes_programs_are_right_or_refused(seeds: range) -> None:
    """A refusal names the pass that was left out and that the emitter needs."""
    names = list(dict.fromkeys(step.name for step in late_passes(resolved("llvm"))))
    for seed in seeds:
        draw = random.Random(seed)
        disabled = draw.sample(names, draw.randint(1, len(names)))
        mod, arrays = random_program(seed), arrays_of(seed)
        wanted, got = run(mod, arrays), [array.copy() for array in arrays]
        try:
            with PassContext(disabled_pass=disabled):
                codegen.compile_module(mod)(*got[:-1], int(got[-1]))
        except BuildError as error:
            assert NEEDED.get(str(error.code)) in disabled, f"seed {seed}, without {disabled}"
            assert NEEDED[str(error.code)] in str(error.hint)
            continue
        for a, b in zip(wanted, got):
            np.testing.assert_allclose(
                a, b, 1e-5, 1e-5, err_msg=f"seed {seed}, without {disabled}\n{program_text(seed)}"
            )


def test_random_programs_have_prey_for_each_pass() -> None:
    fired: set[str] = set()
    X, k = te.placeholder((9, 8), name="X"), te.reduce_axis((0, 8), name="k")
    largest = te.compute((9,), lambda i: te.max(X[i, k], axis=k), name="Y")
    programs = [random_program(seed) for seed in SHORT] + [lower(te.create_schedule(largest.op), [X, largest])]
    for number, mod in enumerate(programs):
        with recording() as record:
            codegen.last_program(mod, (HASWELL, SKYLAKE)[number % 2])
        fired |= {step.name for step in record if step.changed}
    of_launches_and_long_loops = {"late.LowerLaunches", "late.SplitKernels", "late.StripMineForInterrupt"}
    assert {f"late.{name}" for name in LATE_PASSES} - fired == of_launches_and_long_loops


# ---------------------------------------------------------------------------- declarations


def test_passes_have_names_and_help() -> None:
    """The first line of a docstring is an imperative sentence."""
    for name, make in LATE_PASSES.items():
        step = make(resolved("llvm"))
        first = inspect.getdoc(make).split("\n")[0] if make.__doc__ else ""
        assert step.name == f"late.{name}" and step.__doc__ == make.__doc__
        assert re.fullmatch(r"[A-Z][a-z]+(-mine)? .*\.", first) and first.split()[0].lower()[-1] not in "sg", first
    ordered = {step.name for step in late_passes(resolved("llvm"))}
    assert ordered == {f"late.{name}" for name in LATE_PASSES}


SKIPPED = {  # passes that do not apply to a target, or to a build with bounds checks
    ("opencl", False): set(LATE_PASSES),
    (SVE, False): {"SplitKernels", "VectorizeInterleavedStores"},
    (WASM, False): {"SplitKernels", "StripMineForInterrupt", "VersionGuardedLoops"},
    (HASWELL, False): {"SplitKernels"},
    (HASWELL, True): {
        "SplitKernels", "SimplifyArgReduce", "PromoteMinMax", "VectorizeInterleavedStores", "SplitIndexSet",
        "VersionGuardedLoops", "SplitVectors", "ShareStridedLoads",
    },
}  # fmt: skip


@pytest.mark.parametrize(("target", "check_bounds"), SKIPPED)
def test_passes_that_do_not_apply_say_why(target: str, check_bounds: bool) -> None:
    mod, skipped = random_program(0), set[str]()
    for step in late_passes(resolved(target), check_bounds):
        with recording() as record:
            assert step(mod) is mod or not any(n.text.startswith("skipped: ") for n in record.notes("late"))
        if any(note.text.startswith("skipped: ") for note in record.notes("late")):
            skipped.add(step.name.removeprefix("late."))
    assert skipped == SKIPPED[target, check_bounds]
