"""Files that version 0.1.0 wrote are read, replayed and run; its compiled kernels are dropped."""

from __future__ import annotations

import json
import lzma
import pathlib
import platform
import sys
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tools import needs

import tvmagic
from tvmagic import ir, runtime, te, tir
from tvmagic.codegen.llvm.cache import clear_cache
from tvmagic.files import read_table
from tvmagic.operators import Operator, operator
from tvmagic.script import from_source
from tvmagic.tune import Database, load

OLD = pathlib.Path(__file__).parent / "fixtures" / "0.1.0"
DENSE = "X: float32[4, 8]\nW: float32[8, 4]\nH[i, j] += X[i, k] * W[k, j]\nY[i, j] = max(H[i, j], 0)"
PORTABLE = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64"
on_its_machine = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the machine code is for x86-64 Linux"
)


def unpacked(name: str) -> bytes:
    return lzma.decompress((OLD / f"{name}.xz").read_bytes())


def main_of(mod: Any) -> Any:
    return next(iter(mod.functions.values()))


def dense() -> Operator:
    return operator("dense", DENSE)


def test_database_entries_replay() -> None:
    database = Database(OLD / "tuned.jsonl")
    entries = database.entries()
    assert entries and database.damaged == [] and any(entry.best for entry in entries)
    for entry in entries:
        sch = tir.Schedule(dense().to_prim_func())
        tir.schedule.Trace.apply_json_to_schedule(entry.trace, sch)
        assert sch.trace.as_json() == entry.trace


@on_its_machine
def test_database_gives_a_schedule() -> None:
    op = dense()
    found = load(op, OLD / "tuned.jsonl", target=PORTABLE)
    inputs = op.random_inputs()
    np.testing.assert_allclose(found.version(*inputs), np.maximum(inputs[0] @ inputs[1], 0), rtol=1e-5)


def test_schedule_trace_replays_to_the_same_program() -> None:
    mod, saved = ir.load_json(unpacked("module.json").decode()), json.loads((OLD / "trace.json").read_text())
    sch = tir.Schedule(mod)
    tir.schedule.Trace.apply_json_to_schedule(saved["trace"], sch)
    assert ir.structural_equal(sch.mod, from_source(saved["program"]))
    assert sch.trace.as_json() == saved["trace"]


def test_te_schedule_lowers_to_the_same_program() -> None:
    saved = json.loads(unpacked("te.json"))
    s, *tensors = ir.load_json(json.dumps(saved["schedule and tensors"]))
    assert isinstance(s, te.Schedule) and [t.op.name for t in tensors] == ["X", "Y"]
    assert ir.structural_equal(main_of(tvmagic.lower(s, tensors)), main_of(from_source(saved["program"])))


@on_its_machine
@pytest.mark.parametrize("ending", ["so", pytest.param("tar", marks=needs("cc"))])
def test_exported_library_runs(ending: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"scale.{ending}"
    path.write_bytes(unpacked(path.name))
    loaded = runtime.load_module(path)
    x, y = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    loaded["scale"](x, y)
    np.testing.assert_array_equal(y, x * 2 + 1)
    with refuses("call.size_mismatch", error=tvmagic.TVMagicError):
        loaded["scale"](x, np.zeros(4, "float32"))


def test_cached_kernel_is_dropped(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMAGIC_CACHE", str(tmp_path))
    mod = ir.load_json(unpacked("module.json").decode())
    clear_cache()
    tvmagic.build(mod, target=PORTABLE)
    (path,) = tmp_path.glob("*.o")
    new, old = path.read_bytes(), unpacked("cached.o")
    assert new != old
    path.write_bytes(old)
    clear_cache()
    tvmagic.build(mod, target=PORTABLE)
    assert path.read_bytes() == new


def test_measured_peaks_are_read() -> None:
    (values,) = read_table(OLD / "machine.json").values()
    assert len(values) == 2 and all(value > 1e9 for value in values)
