"""Modules and functions of 0.1.0 that have another name now: the old one leads to the same object."""

from __future__ import annotations

import importlib

import pytest

MODULES = {
    "codegen.cache": "codegen.llvm.cache",
    "codegen.debug": "codegen.emit.debug",
    "codegen.target": "target",
    "explain.addresses": "model.addresses",
    "explain.arrange": "explain.schedule_writer",
    "explain.cases": "explain.diagnosis",
    "explain.core": "model.core_model",
    "explain.footprints": "model.footprints",
    "explain.guards": "model.guards",
    "explain.measured": "explain.finding_measurement",
    "explain.model": "model.program_model",
    "explain.nest_model": "model.nest_model",
    "explain.nests": "model.nests",
    "explain.remedies": "explain.suggested_edits",
    "explain.roof": "explain.machine_limits",
    "explain.traffic": "model.traffic",
    "explain.unrolling": "model.unrolling",
    "tune.instant": "auto",
    "tune.instant.cell": "auto.cell",
    "tune.instant.factors": "auto.precomputed_operands",
    "tune.instant.few": "auto.full_reductions",
    "tune.instant.joined": "auto.fused_products",
    "tune.instant.pairs": "auto.tuple_reductions",
    "tune.instant.parts": "auto.partial_demand",
    "tune.instant.plainly": "auto.fallback",
    "tune.instant.rows": "auto.row_reductions",
    "tune.instant.short": "auto.small_dot_products",
    "tune.instant.tiles": "auto.untiling",
    "tune.instant.turned": "auto.transposed_sums",
}
NAMES = {"tune.auto": "auto.auto", "tune.decide": "auto.decide", "tune.Instant": "auto.Instant"}


@pytest.mark.parametrize("old", MODULES)
def test_old_module_name_leads_to_the_module(old: str) -> None:
    new = importlib.import_module(f"tvmagic.{MODULES[old]}")
    assert importlib.import_module(f"tvmagic.{old}") is new
    package, _, name = old.rpartition(".")
    assert getattr(importlib.import_module(f"tvmagic.{package}"), name) is new


@pytest.mark.parametrize("old", NAMES)
def test_old_name_leads_to_the_object(old: str) -> None:
    def found(path: str) -> object:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(f"tvmagic.{module}"), name)

    assert found(old) is found(NAMES[old])
