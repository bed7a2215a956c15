"""The cycles of a loop's body: by LLVM's tool `llvm-mca`, else by the package `osaca`, if one of them is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmagic.target.target import cpu_and_features
from tvmagic.tools import LLVM_MCA, OSACA

_PATIENCE = 20.0  # seconds
# Processors of the same family that older versions of the tools know.
_RELATIVES = {
    "znver5": ("znver4", "icelake-server"),
    "znver4": ("icelake-server",),
    "sapphirerapids": ("icelake-server",),
    "": ("x86-64",),
}
# OSACA's names of the processors that it has tables of.
_OSACA = {
    "sandybridge": "SNB", "ivybridge": "IVB", "haswell": "HSW", "broadwell": "BDW", "skylake-avx512": "SKX",
    "cascadelake": "CSX", "icelake-client": "ICL", "icelake-server": "ICX", "sapphirerapids": "SPR", "znver1": "ZEN1",
    "znver2": "ZEN2", "znver3": "ZEN3", "znver4": "ZEN4", "x86-64": "SKX", "x86-64-v2": "SNB", "x86-64-v3": "HSW",
    "x86-64-v4": "SKX", "cortex-a72": "A72", "a64fx": "A64FX", "neoverse-n1": "N1", "neoverse-v2": "V2", "apple-m1": "M1",
    "thunderx2t99": "TX2", "tsv110": "TSV110",
}  # fmt: skip


_ISAS = ("x86_64", "aarch64", "arm64")  # of those processors


@dataclass(frozen=True)
class Counted:
    """`cycles` of one run of a loop's instructions; `pressure`: for each row the resource that it keeps busy, with the
    cycles, or nothing; whose tables say so (`processor`), and by which `tool`."""

    cycles: float
    pressure: list[str]
    processor: str
    tool: str


def count_cycles(rows: list[str], target: Any) -> Counted | None:
    """What a tool says of the body of a loop; None if none is installed or none knows the instructions."""
    return _by_mca(rows, target) or _by_osaca(rows, target)


def _by_mca(rows: list[str], target: Any) -> Counted | None:
    command = LLVM_MCA.find()
    if command is None:
        return None
    triple, cpu, _ = cpu_and_features(target)
    for name in dict.fromkeys([cpu, *_RELATIVES.get(cpu, ())]):
        said = _said([command, "--json", f"-mtriple={triple}", f"-mcpu={name}", "-iterations=100"], rows)
        if said is not None:
            try:
                return Counted(*read_mca(said, rows), name, "llvm-mca")
            except LookupError:
                continue
    return None


def _by_osaca(rows: list[str], target: Any) -> Counted | None:
    """By a process of its own: OSACA takes its time to load, and what goes wrong in it goes wrong there."""
    triple, cpu, _ = cpu_and_features(target)
    name = next((n for n in [cpu, *_RELATIVES.get(cpu, ())] if n in _OSACA), None)
    if name is None or not triple.startswith(_ISAS) or OSACA.find() is None:
        return None
    script = Path(__file__).with_name("osaca_process.py")
    said = _said([sys.executable, "-P", str(script), _OSACA[name]], rows)
    if said is None:
        return None
    ports = iter([f"port {port[0]} {port[1]:.2f}" if port is not None else "" for port in said["ports"]])
    return Counted(said["cycles"], ["" if _is_left_out(row) else next(ports, "") for row in rows], name, "osaca")


def _said(command: list[str], rows: list[str]) -> Any:
    """What a tool answers in JSON to the instructions of a body; None if it fails."""
    body = "\n".join(row for row in rows if not _is_left_out(row))
    try:
        done = subprocess.run(command, input=body, capture_output=True, text=True, timeout=_PATIENCE, check=True)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _is_left_out(row: str) -> bool:
    """Whether a row is a directive or a label of LLVM's."""
    return row.lstrip().startswith(".")


def read_mca(said: dict[str, Any], rows: list[str]) -> tuple[float, list[str]]:
    region = said["CodeRegions"][0]
    summary = region["SummaryView"]
    names = (said.get("TargetInfo") or region["TargetInfo"])["Resources"]
    usage: dict[int, tuple[float, str]] = {}
    for entry in region.get("ResourcePressureView", {}).get("ResourcePressureInfo", []):
        number, busy = entry["InstructionIndex"], entry["ResourceUsage"]
        if busy > usage.get(number, (0.0, ""))[0]:
            usage[number] = busy, names[entry["ResourceIndex"]]
    pressure: list[str] = []
    count = 0
    for row in rows:
        if not row.startswith(("\t", " ")) or _is_left_out(row):
            pressure.append("")
            continue
        busy, name = usage.get(count, (0.0, ""))
        pressure.append(f"{name} {busy:.2f}" if name else "")
        count += 1
    return summary["TotalCycles"] / summary["Iterations"], pressure
